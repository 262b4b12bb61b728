// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Keeps code on disk for later processes: the compiler's answers, under a hash of all their inputs.
// Any failure of the disk costs time but never a launch; the log reports it once.
//
// TG_CACHE names the folder, or is `off`. By default the folder is $XDG_CACHE_HOME/tegula or
// ~/.cache/tegula. TG_CACHE_SIZE limits the bytes of all entries (default 1G).
#include "driver/code_cache.h"

#include "driver/jit.h"
#include "driver/pending_entries.h"
#include "runtime/base/base.h"

#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define DEFAULT_LIMIT ((int64_t)1 << 30)

/* ---- settings ------------------------------------------------------------------------------ */

bool cache_is_off(void) {
    const char *set = secure_getenv("TG_CACHE");
    return set && strcmp(set, "off") == 0;
}

bool cache_read_size(const char *text, int64_t *out) {
    static const char units[] = "KMGT";
    char *end;
    errno = 0;
    double n = strtod(text, &end);
    if (end == text || errno || !(n >= 0)) return false;
    const char *unit = *end ? strchr(units, *end) : NULL;
    if (*end && (!unit || end[1])) return false;
    for (int i = 0; unit && i <= unit - units; i++) n *= 1024;
    if (n > 1e18) return false;
    *out = (int64_t)n;
    return true;
}

bool cache_limit(int64_t *out, char why[STORE_WHY]) {
    const char *set = secure_getenv("TG_CACHE_SIZE");
    *out = DEFAULT_LIMIT;
    if (!set || !*set || cache_read_size(set, out)) return true;
    snprintf(why, STORE_WHY, "TG_CACHE_SIZE is '%.40s', which is not a size like 512M", set);
    return false;
}

/* ---- the store of this process ------------------------------------------------------------- */

static struct {
    pthread_mutex_t lock;
    Store *store;
    bool tried, warned, warned_busy;
    double rests_until;     // of rt_seconds()
    PendingEntries pending; // entries that no store has yet
} cache = {.lock = PTHREAD_MUTEX_INITIALIZER};

/// Runs in the child of a fork, which must neither use nor close SQLite's connections. If another
/// thread was in SQLite at the fork, SQLite's own locks may stay taken, so the child uses no store
/// at all. The parent writes the pending entries.
static void forget_store(void) {
    bool used = pthread_mutex_trylock(&cache.lock) != 0;
    pthread_mutex_init(&cache.lock, NULL);
    cache.store = NULL;
    cache.tried = used;
    cache.pending = (PendingEntries){0};
}

static void watch_store_forks(void) {
    pthread_atfork(NULL, NULL, forget_store);
}

static void (*say)(const char *line) = tg_log;

void code_cache_warn_by(void (*to)(const char *line)) {
    say = to;
}

static void warn_not_kept(const char *why) {
    char line[STORE_WHY + 100];
    if (cache.warned) return;
    cache.warned = true;
    snprintf(line, sizeof line,
             "warning: compiled kernels are not kept on disk: %s (TG_CACHE=FOLDER, or off)", why);
    say(line);
}

/// REST: seconds. LAST_MS: milliseconds of each wait when the process ends. FEW: the most pending
/// entries that one call writes.
enum { REST = 60, LAST_MS = 500, FEW = 8 };

/// A stopped process, or a lock that a file system lost, can hold the store forever. One launch
/// waits for it; the next ones do without the store for REST seconds.
static void rest_store(void) {
    cache.rests_until = rt_seconds() + REST;
    if (!cache.warned_busy)
        say("warning: compiled kernels are not on disk yet: other processes hold the store; it is "
            "tried again every minute, and when this process ends (TG_CACHE=FOLDER, or off)");
    cache.warned_busy = true;
}

static void open_store(int patience) {
    char folder[PATH_MAX], why[STORE_WHY];
    int64_t limit;
    cache.tried = true;
    if (!tg_cache_folder(folder, sizeof folder)) {
        warn_not_kept("neither HOME nor XDG_CACHE_HOME is set");
    } else if (!cache_limit(&limit, why)) {
        warn_not_kept(why);
    } else {
        StoreStatus status = store_connect(folder, limit, patience, &cache.store, why);
        cache.pending.limit = limit;
        cache.tried = status != STORE_BUSY;
        if (status == STORE_BUSY)
            rest_store();
        else if (status)
            warn_not_kept(why);
    }
}

/// Writes the oldest pending entry. It replaces no newer one, such as a tuning result that another
/// process has stored meanwhile. An entry that the store refuses is dropped; one for which memory
/// or space is missing waits on. Returns whether the next entry can be tried.
static bool write_oldest(void) {
    StoreEntry *e = pending_oldest(&cache.pending);
    if (!e) return false;
    StoreStatus status = store_put_late(cache.store, e);
    if (status == STORE_BUSY)
        rest_store();
    else if (status)
        warn_not_kept(store_status_text(status));
    if (status && status != STORE_REFUSED) return false;
    pending_drop_oldest(&cache.pending);
    return true;
}

static void write_few(void) {
    for (int i = 0; i < FEW && write_oldest(); i++) continue;
}

/// Returns the store with its lock held, and opens it at first use. A few pending entries are
/// written.
/// NULL, also with the lock: there is no store, or it is resting.
static Store *lock_store(void) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, watch_store_forks);
    pthread_mutex_lock(&cache.lock);
    if (cache_is_off() || rt_seconds() < cache.rests_until) return NULL;
    if (!cache.tried) open_store(STORE_PATIENCE);
    if (cache.store) write_few();
    return rt_seconds() < cache.rests_until ? NULL : cache.store;
}

static void unlock_store(void) {
    pthread_mutex_unlock(&cache.lock);
}

/// Whether another thread leaves the store in time.
static bool lock_at_end(void) {
    struct timespec end;
    clock_gettime(CLOCK_REALTIME, &end);
    end.tv_nsec += LAST_MS * 1000000L;
    end.tv_sec += end.tv_nsec / 1000000000;
    end.tv_nsec %= 1000000000;
    return pthread_mutex_timedlock(&cache.lock, &end) == 0;
}

/// Writes all pending entries, as long as there is time.
static void write_all_pending(void) {
    double end = rt_seconds() + LAST_MS * 1e-3;
    if (pending_oldest(&cache.pending) && !cache.tried) open_store(LAST_MS);
    if (cache.store) store_patience(cache.store, LAST_MS);
    while (cache.store && rt_seconds() < end && write_oldest()) continue;
}

static void say_lost(void) {
    char line[100];
    int n = cache.pending.n + cache.pending.dropped;
    snprintf(line, sizeof line, "warning: %d compiled kernel%s could not be kept on disk", n,
             n == 1 ? "" : "s");
    if (n) say(line);
}

/// Runs when the process ends.
static void write_last(void) {
    if (!lock_at_end()) {
        say("warning: compiled kernels could not be kept on disk: another thread was in the store");
        return;
    }
    write_all_pending();
    say_lost();
    pthread_mutex_unlock(&cache.lock);
}

/// Whether a store is open, or can still be opened.
static bool may_have_store(void) {
    return cache.store || !cache.tried;
}

/// Keeps an entry until the store has time for it. The lock is held.
static void put_aside(const StoreEntry *e) {
    static bool ends;
    if (!ends) ends = atexit(write_last) == 0;
    if (!pending_add(&cache.pending, e)) warn_not_kept(store_status_text(STORE_MEMORY));
}

/* ---- keys ---------------------------------------------------------------------------------- */

void cache_add_request(Text *t, const Request *r) {
    Request own = *r;
    SourceText *texts = ctx_array(t->ctx, SourceText, r->n_texts + 1);
    bool has_main = false;
    for (int i = 0; i < r->n_texts; i++) {
        bool is_main = strcmp(r->texts[i].path, r->path) == 0;
        texts[i] = r->texts[i];
        texts[i].path = is_main ? "main" : "";
        has_main |= is_main;
    }
    own.texts = texts;
    if (has_main) own.path = ""; // else it is a file of the library, whose text is not here
    own.n_paths = own.n_known = 0;
    Bytes request = wire_write_request(t->ctx, &own);
    text_bytes(t, (const char *)request.data, request.n);
}

/// Makes the key from all inputs of an answer. Paths are inputs, since messages of the code name
/// them. False: the inputs are not all known, or the cache must not be used: a debugger needs
/// freshly made code, tests with TG_FAULT need a compiler that runs, and TG_SIM_SHARE is no input.
static bool answer_key(Ctx *ctx, const Request *r, StoreKey *out) {
    if (cache_is_off() || r->debug || secure_getenv("TG_FAULT") || secure_getenv("TG_SIM_SHARE"))
        return false;
    const char *wanted = r->codegen ? r->codegen : secure_getenv("TG_CODEGEN");
    const char *codegen = build_codegen(r->n_set, r->set, wanted);
    CodeOptions options = {.machine = r->machine, .codegen = codegen, .driver = r->driver};
    Text t = {.ctx = ctx};
    text_add(&t, "tegula 2 %s\n", codegen ? codegen : "");
    if (!backend_identity(&t, &options)) return false;
    cache_add_request(&t, r);
    for (int i = 0; i < r->n_texts; i++) text_add(&t, "%s\n", r->texts[i].path);
    *out = store_hash(t.data, t.n);
    return true;
}

/* ---- finding, keeping ---------------------------------------------------------------------- */

static void release_value(void *at) {
    free(*(void **)at);
}

/// Copies the value of a pending entry. False: none is pending.
static bool get_pending(StoreKey key, StoreKind kind, void **value, size_t *n) {
    const StoreEntry *e = pending_find(&cache.pending, key);
    if (!e || e->kind != kind || !(*value = malloc(e->bytes + 1))) return false;
    memcpy(*value, e->value, e->bytes);
    *n = e->bytes;
    return true;
}

/// Reads a value, which the caller frees.
static bool get_value(StoreKey key, StoreKind kind, void **value, size_t *n) {
    Store *s = lock_store();
    StoreStatus status = STORE_OK;
    if (!get_pending(key, kind, value, n))
        status = s ? store_get(s, key, kind, value, n) : STORE_ABSENT;
    if (status == STORE_BUSY) rest_store();
    unlock_store();
    return status == STORE_OK;
}

bool cache_get(Ctx *ctx, StoreKey key, StoreKind kind, WireKind message, Bytes *body) {
    void **value = ctx_new(ctx, void *);
    size_t n = 0, length;
    WireKind found;
    ctx_defer(ctx, release_value, value);
    if (!get_value(key, kind, value, &n)) return false;
    const uint8_t *data = *value;
    if (n < WIRE_HEADER || !wire_read_header(data, &found, &length) || found != message ||
        length != n - WIRE_HEADER)
        return false;
    *body = (Bytes){(uint8_t *)*value + WIRE_HEADER, length};
    return true;
}

/// Entries wait while the store rests, unless none can be opened.
void cache_put(const StoreEntry *e) {
    Store *s = lock_store();
    StoreStatus status = s ? store_put(s, e) : STORE_BUSY;
    if (s && status == STORE_BUSY) rest_store();
    if (!status)
        pending_drop(&cache.pending, e->key); // it is older
    else if (status == STORE_BUSY && may_have_store() && rt_seconds() < cache.rests_until)
        put_aside(e);
    else if (s && status)
        warn_not_kept(store_status_text(status));
    unlock_store();
}

bool cache_claim(StoreKey key, int *claim) {
    Store *s = lock_store();
    *claim = -1;
    StoreStatus status = s ? store_claim(s, key, claim) : STORE_OK;
    unlock_store();
    return status != STORE_BUSY;
}

void cache_release(int claim) {
    store_release(claim);
}

static bool find_answer(Ctx *ctx, StoreKey key, const Request *r, Answer *out) {
    Bytes body;
    if (!cache_get(ctx, key, STORE_CODE, WIRE_ANSWER, &body)) return false;
    if (!wire_read_answer(ctx, body, out) || out->status || !answer_is_sound(r, out)) return false;
    out->same = request_known(r, out->key); // another launch may have compiled it
    return true;
}

/// "softmax for x86-64-v4, BN=1024 (softmax.teg)"
static const char *describe_answer(Ctx *ctx, const Request *r, const Answer *a) {
    const char *target = r->machine ? r->machine : r->target ? r->target : "this CPU";
    const char *config = a->variant->config;
    return ctx_format(ctx, "%s for %s%s%s (%s)", r->kernel, target, *config ? ", " : "", config,
                      r->path);
}

static void keep_answer(Ctx *ctx, StoreKey key, const Request *r, const Answer *a) {
    Bytes value = wire_write_answer(ctx, a);
    StoreEntry e = {.key = key,
                    .kind = STORE_CODE,
                    .about = describe_answer(ctx, r, a),
                    .value = value.data,
                    .bytes = value.n};
    cache_put(&e);
}

static void release_answer_code(void *code) {
    code_release(code);
}

/// Makes an answer with an object: in the other process, or here.
static void make_answer(Ctx *ctx, const Request *r, Answer *out) {
    if (server_wanted() && server_compile(ctx, r, out)) return;
    if (!compiles_here(out)) return;
    request_compile(ctx, r, false, out);
    if (out->code) ctx_defer(ctx, release_answer_code, out->code);
}

void cached_compile(Ctx *ctx, const Request *r, Answer *out) {
    StoreKey key;
    bool kept = answer_key(ctx, r, &key);
    if (!kept && !server_wanted()) {
        request_compile(ctx, r, true, out);
        return;
    }
    if (!kept || !find_answer(ctx, key, r, out)) {
        make_answer(ctx, r, out);
        if (kept && !out->status && out->same < 0) keep_answer(ctx, key, r, out);
    }
    answer_load(ctx, r, out);
}
