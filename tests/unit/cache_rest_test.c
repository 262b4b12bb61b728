// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Another process holds a store: the process waits for it once, reports it once, and works without
// it for a while. Its entries are found meanwhile, and are in the store in the end.
#include "driver/code_cache.h"
#include "driver/pending_entries.h"
#include "driver/remote/wire.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>
#include <pthread.h>
#include <sqlite3.h>

static int warnings;
static char warning[512];

static void hear(const char *line) {
    warnings++;
    snprintf(warning, sizeof warning, "%s", line);
}

static Store *open_in(const char *folder) {
    char why[STORE_WHY] = "";
    Store *s = store_open(folder, 0, why);
    if (!s) fail_msg("%s", why);
    return s;
}

static int entries_in(const char *folder) {
    StoreSize size;
    Store *s = open_in(folder);
    assert_int_equal(store_size(s, &size), STORE_OK);
    store_close(s);
    return (int)size.entries;
}

/// Starts a process that holds the store's file for writing until it is killed.
static pid_t hold(const char *path) {
    int ready[2];
    char byte = 0;
    sqlite3 *db;
    assert_int_equal(pipe(ready), 0);
    pid_t child = fork();
    if (child == 0) {
        int code = sqlite3_open(path, &db);
        if (!code) code = sqlite3_exec(db, "BEGIN IMMEDIATE", NULL, NULL, NULL);
        if (!code && write(ready[1], &byte, 1) == 1) pause();
        _exit(1);
    }
    close(ready[1]);
    assert_int_equal(read(ready[0], &byte, 1), 1);
    close(ready[0]);
    return child;
}

/// A made-up clock, so that no test waits a minute.
static double now = 1000;

double __wrap_rt_seconds(void);
double __wrap_rt_seconds(void) {
    return now;
}

/// While these are set, the store cannot be opened, or has the status `late_status` (no space
/// left).
static bool refuses_to_open;
static StoreStatus late_status;
static int patience;
static pid_t tester; // 0: the wait below is not for its thread
static int begins_to_end[2], is_in_store[2];

StoreStatus __real_store_connect(const char *, int64_t, int, Store **, char *);
StoreStatus __wrap_store_connect(const char *at, int64_t limit, int ms, Store **out, char *why);
StoreStatus __wrap_store_connect(const char *at, int64_t limit, int ms, Store **out, char *why) {
    char byte = 0;
    patience = ms;
    *out = NULL;
    if (refuses_to_open) return STORE_BUSY;
    if (tester && (write(is_in_store[1], &byte, 1) != 1 || read(begins_to_end[0], &byte, 1) != 1))
        _exit(1);
    return __real_store_connect(at, limit, ms, out, why);
}

StoreStatus __real_store_put_late(Store *s, const StoreEntry *e);
StoreStatus __wrap_store_put_late(Store *s, const StoreEntry *e);
StoreStatus __wrap_store_put_late(Store *s, const StoreEntry *e) {
    return late_status ? late_status : __real_store_put_late(s, e);
}

/// Waits until the other thread is out of the store, however long that takes on a busy machine.
int __wrap_pthread_mutex_timedlock(pthread_mutex_t *lock, const struct timespec *end);
int __wrap_pthread_mutex_timedlock(pthread_mutex_t *lock, const struct timespec *end) {
    char byte = 0;
    (void)end;
    if (tester && write(begins_to_end[1], &byte, 1) != 1) _exit(1);
    return pthread_mutex_lock(lock);
}

/// A message as entries have it, with the text as its body.
static void keep(const char *text) {
    Ctx *ctx = ctx_create(NULL);
    Wire w = wire_writer(ctx);
    text_add(&w.out, "%s", text);
    Bytes message = wire_finish(&w, WIRE_ANSWER);
    cache_put(&(StoreEntry){.key = store_hash(text, strlen(text)),
                            .kind = STORE_CODE,
                            .about = text,
                            .value = message.data,
                            .bytes = message.n});
    ctx_destroy(ctx);
}

static bool finds(const char *text) {
    Ctx *ctx = ctx_create(NULL);
    Bytes body = {0};
    bool found = cache_get(ctx, store_hash(text, strlen(text)), STORE_CODE, WIRE_ANSWER, &body) &&
                 body.n == strlen(text) && memcmp(body.data, text, body.n) == 0;
    ctx_destroy(ctx);
    return found;
}

static char folder[64];

/// A process that works while another one holds a store of its own. It has no store open before,
/// and ends as programs do.
typedef struct Case {
    void (*body)(pid_t holder);
    char folder[64];
    pid_t holder, child;
} Case;

static void start_case(Case *c) {
    char path[512];
    strcpy(c->folder, "/tmp/tegula-rest-XXXXXX");
    assert_non_null(mkdtemp(c->folder));
    Store *s = open_in(c->folder);
    snprintf(path, sizeof path, "%s", store_path(s));
    store_close(s);
    strcpy(folder, c->folder);
    setenv("TG_CACHE", folder, 1);
    c->holder = hold(path);
    c->child = fork();
    assert_true(c->child >= 0);
    if (c->child) return;
    code_cache_warn_by(hear);
    c->body(c->holder);
    exit(0);
}

/// Returns the number of entries in the store when the process has ended.
static int end_case(Case *c) {
    int status;
    char command[100];
    assert_int_equal(waitpid(c->child, &status, 0), c->child);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    assert_int_equal(waitpid(c->holder, NULL, 0), c->holder);
    int entries = entries_in(c->folder);
    snprintf(command, sizeof command, "rm -r %s", c->folder);
    assert_int_equal(system(command), 0);
    return entries;
}

#define MUST(condition)                                                                            \
    do {                                                                                           \
        if (condition) break;                                                                      \
        fprintf(stderr, "line %d: %s\n", __LINE__, #condition);                                    \
        _exit(1);                                                                                  \
    } while (0)

/// The holder of the store is a sibling, so it can be ended but not waited for.
static void end_holder(pid_t holder) {
    kill(holder, SIGKILL);
    Store *s = open_in(folder);
    StoreEntry e = {.key = store_hash("x", 1), .kind = STORE_CODE, .about = "x", .value = ""};
    while (store_put(s, &e) == STORE_BUSY) continue;
    store_close(s);
}

static void rests_a_minute(pid_t holder) {
    keep("waits in vain");
    end_holder(holder);
    now += 59;
    keep("does not wait");
    keep("does not wait"); // once more: there is one entry of it
    MUST(entries_in(folder) == 1);
    MUST(finds("waits in vain") && finds("does not wait") && !finds("other"));
    now += 2;
    MUST(!finds("other"));
    MUST(entries_in(folder) == 3);
    MUST(finds("waits in vain") && finds("does not wait"));
    MUST(warnings == 1 && strstr(warning, "other processes hold the store"));
}

/// A child that a fork makes writes nothing at its end; its parent does.
static void ends_early(pid_t holder) {
    int status;
    keep("first");
    end_holder(holder);
    pid_t child = fork();
    if (child == 0) exit(0);
    MUST(waitpid(child, &status, 0) == child && status == 0);
    MUST(entries_in(folder) == 1);
    keep("second");
}

static void check_last_patience(void) {
    MUST(patience > 0 && patience <= 500);
    MUST(warnings == 1);
}

/// The store that could not be opened is opened when the process ends, with little patience.
static void opens_at_the_end(pid_t holder) {
    end_holder(holder);
    refuses_to_open = true;
    atexit(check_last_patience); // runs last
    keep("waits for a store");
    MUST(patience == STORE_PATIENCE);
    refuses_to_open = false;
}

static void *open_and_find(void *text) {
    finds(text);
    return NULL;
}

/// Another thread is in the store when the process ends, and leaves it in time.
static void ends_during_use(pid_t holder) {
    pthread_t thread;
    char byte;
    end_holder(holder);
    refuses_to_open = true;
    keep("waits for a thread");
    refuses_to_open = false;
    now += 61;
    MUST(pipe(begins_to_end) == 0 && pipe(is_in_store) == 0);
    tester = getpid();
    MUST(pthread_create(&thread, NULL, open_and_find, (void *)(uintptr_t) "other") == 0);
    MUST(read(is_in_store[0], &byte, 1) == 1);
}

static void check_loss(void) {
    MUST(warnings == 2 && strstr(warning, "2 compiled kernels could not be kept"));
}

/// No store can be opened until the end: the entries are lost, and a warning says it.
static void loses_entries(pid_t holder) {
    end_holder(holder);
    refuses_to_open = true;
    atexit(check_loss);
    keep("one");
    keep("two");
}

/// Many entries are written by several calls, or at the end. Without space they wait on.
static void writes_a_few_a_call(pid_t holder) {
    char text[20];
    end_holder(holder);
    refuses_to_open = true;
    for (int i = 0; i < 30; i++) {
        snprintf(text, sizeof text, "entry %d", i);
        keep(text);
    }
    refuses_to_open = false;
    now += 61;
    late_status = STORE_FULL;
    MUST(!finds("other") && finds("entry 0"));
    MUST(entries_in(folder) == 1);
    late_status = STORE_OK;
    MUST(!finds("other") && finds("entry 0") && finds("entry 29"));
    int written = entries_in(folder);
    MUST(written > 1 && written < 31);
}

static void fork_and_keep(const char *line) {
    static bool is_child;
    int status;
    hear(line);
    if (is_child) return;
    pid_t child = fork();
    is_child = child == 0;
    if (is_child) {
        keep("of a process without a store");
        _exit(finds("of a process without a store"));
    }
    MUST(waitpid(child, &status, 0) == child && status == 0);
}

/// The child of a fork during a use of the store has none, so no entry waits for it.
static void forks_during_use(pid_t holder) {
    end_holder(holder);
    refuses_to_open = true;
    code_cache_warn_by(fork_and_keep);
    keep("of the parent");
    refuses_to_open = false;
    code_cache_warn_by(hear);
}

static void store_is_opened_late(void **state) {
    static const struct {
        void (*body)(pid_t);
        int entries; // with that of end_holder
    } cases[] = {{opens_at_the_end, 2},
                 {ends_during_use, 2},
                 {loses_entries, 1},
                 {writes_a_few_a_call, 31},
                 {forks_during_use, 2}};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        Case c = {.body = cases[i].body};
        start_case(&c);
        assert_int_equal(end_case(&c), cases[i].entries);
    }
}

/// The memory of pending entries is bounded, even if that of the store is not.
static void memory_is_bounded(void **state) {
    static char value[4 << 20];
    PendingEntries p = {0};
    (void)state;
    for (int i = 0; i < 20; i++)
        assert_true(pending_add(&p, &(StoreEntry){.key = store_hash(&i, sizeof i),
                                                  .kind = STORE_CODE,
                                                  .about = "",
                                                  .value = value,
                                                  .bytes = sizeof value}));
    assert_true(p.bytes <= PENDING_MOST && p.n == 16 && p.dropped == 4);
    while (pending_oldest(&p)) pending_drop_oldest(&p);
    assert_true(p.bytes == 0 && p.n == 0 && !p.last);
}

/// Both at once, since each waits 5 s for the store.
static void entries_wait_for_the_store(void **state) {
    (void)state;
    Case rests = {.body = rests_a_minute}, ends = {.body = ends_early};
    start_case(&rests);
    start_case(&ends);
    assert_int_equal(end_case(&rests), 3);
    assert_int_equal(end_case(&ends), 3);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(entries_wait_for_the_store),
                                       cmocka_unit_test(store_is_opened_late),
                                       cmocka_unit_test(memory_is_bounded)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
