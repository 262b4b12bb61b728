// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Searches in the background: one thread of the process, at low priority, one search at a time.
//
// A launch that could be tuned leaves a *debt*: its request, and the integers of its tensors, which
// may be indices. The debt is paid once the process has lived for a while and the kernel was
// launched often; what wins is compiled, and launches find it from then on (tg_kernel_adopt). A
// module that goes takes its debts along and ends the search that is one of them.
#include "driver/module.h"
#include "driver/peer.h"

#include "runtime/gpu.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

enum {
    LAUNCHES = 20,           // of a kernel before it is worth a search
    LIFE_MS = 2000,          // of the process since the first debt
    TICK_MS = 100,           //
    NICE = 10,               //
    MOST_DEBTS = 64,         // of the process
    MOST_CONTENTS = 64 << 20 // bytes of integers; a launch with more is not tuned
};

/// In the arena of a context of its own.
typedef struct Debt {
    Ctx *ctx;
    ModuleKernel *k;
    Request request;
    tg_wanted wanted;
    const DLTensor **tensors; // copies whose data is an address, nothing to be read
    Bytes *contents;          // of those of integers
    uint64_t hash;            // of kernel and arguments
    struct Debt *next;
} Debt;

static struct {
    pthread_mutex_t lock;
    pthread_cond_t idle; // no debt is being paid
    Debt *first;
    int n;
    Debt *paying;
    atomic_bool stop; // that one
    bool running;     // the thread is there
    bool ended;       // the process exits: no more debts
    double born;      // the first debt
} later = {.lock = PTHREAD_MUTEX_INITIALIZER, .idle = PTHREAD_COND_INITIALIZER};

/// The child of a fork has no such thread, and the parent's debts are the parent's to pay.
static void forget(void) {
    pthread_mutex_init(&later.lock, NULL);
    pthread_cond_init(&later.idle, NULL);
    later.first = later.paying = NULL;
    later.n = 0;
    later.running = false;
}

/// With the lock held: drops the debts of a module, or all, and stops paying one of them.
static void drop(const tg_module *m) {
    for (Debt **at = &later.first; *at;) {
        Debt *d = *at;
        if (m && d->k->module != m) {
            at = &d->next;
            continue;
        }
        *at = d->next;
        later.n--;
        ctx_destroy(d->ctx);
    }
    while (later.paying && (!m || later.paying->k->module == m)) {
        atomic_store(&later.stop, true);
        pthread_cond_wait(&later.idle, &later.lock);
    }
}

/// Libraries are about to take down what the thread uses.
static void at_exit(void) {
    pthread_mutex_lock(&later.lock);
    later.ended = true;
    drop(NULL);
    pthread_mutex_unlock(&later.lock);
}

static void watch_forks(void) {
    pthread_atfork(NULL, NULL, forget);
    atexit(at_exit);
}

/* ---- paying -------------------------------------------------------------------------------- */

typedef struct Payment {
    Debt *debt;
    TuneResult result;
    tg_status status;
} Payment;

static void pay(Ctx *ctx, void *arg) {
    Payment *p = arg;
    const tg_module *m = p->debt->k->module;
    TuneOptions options = {.mode = TUNE_BACKGROUND,
                           .budget = m->tune_budget,
                           .device = p->debt->wanted.device,
                           .tensors = p->debt->tensors,
                           .contents = p->debt->contents,
                           .helpers = 1,
                           .stop = &later.stop};
    p->status = tune_request(ctx, &p->debt->request, &options, &p->result);
}

static void log_change(const Payment *p) {
    char line[512];
    snprintf(line, sizeof line, "tuned %s %s in the background: %s, %.4g us instead of %.4g us",
             p->result.kernel, p->result.shape, p->result.config, p->result.seconds * 1e6,
             p->result.standard * 1e6);
    tg_log(line);
}

/// The winner, unless that is what launches take anyway.
static void adopt(const Payment *p) {
    const tg_variant *v;
    const TuneResult *r = &p->result;
    if (p->status || atomic_load(&later.stop) || !*r->config) return;
    if (r->n_trials && strcmp(r->config, r->trials[0].config) == 0) return;
    if (jit_compile(p->debt->k, &p->debt->wanted, r->config, &v) == TG_OK && v->tuned &&
        tg_kernel_adopt(&p->debt->k->kernel, v) == TG_OK)
        log_change(p);
}

static void pay_debt(Debt *d) {
    Payment p = {.debt = d, .status = TG_ERROR_MEMORY};
    tg_context *before = tg_context_use(d->k->module->context);
    Ctx *ctx = ctx_create(NULL);
    if (ctx && ctx_protect(ctx, pay, &p) == CTX_OK) adopt(&p);
    if (ctx) ctx_destroy(ctx);
    tg_context_use(before);
}

/// Takes the first debt whose kernel is in use out of the list, with the lock held.
static Debt *take_due(void) {
    for (Debt **at = &later.first; *at; at = &(*at)->next) {
        Debt *d = *at;
        if (tg_kernel_launches(&d->k->kernel) < LAUNCHES) continue;
        *at = d->next;
        later.n--;
        return d;
    }
    return NULL;
}

static void tick(void) {
    struct timespec t = {0, TICK_MS * 1000000L};
    nanosleep(&t, NULL);
}

/// Ends where there is no debt any more.
static void *run(void *arg) {
    (void)arg;
    setpriority(PRIO_PROCESS, (id_t)gettid(), NICE); // and of the processes that it starts
    pthread_mutex_lock(&later.lock);
    while (later.first) {
        bool young = (peer_seconds() - later.born) * 1e3 < LIFE_MS;
        Debt *d = young ? NULL : take_due();
        later.paying = d;
        atomic_store(&later.stop, false);
        pthread_mutex_unlock(&later.lock);
        if (d)
            pay_debt(d);
        else
            tick();
        pthread_mutex_lock(&later.lock);
        if (!d) continue;
        later.paying = NULL;
        ctx_destroy(d->ctx);
        pthread_cond_broadcast(&later.idle);
    }
    later.running = false;
    pthread_mutex_unlock(&later.lock);
    return NULL;
}

/// With the lock held. The host program's signals are not for this thread.
static void start(void) {
    pthread_t thread;
    sigset_t all, before;
    if (later.running) return;
    if (later.born <= 0) later.born = peer_seconds();
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    later.running = pthread_create(&thread, NULL, run, NULL) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (later.running) pthread_detach(thread);
}

/* ---- debts --------------------------------------------------------------------------------- */

static uint64_t hash_of(const ModuleKernel *k, const tg_wanted *w) {
    uint64_t h = (uintptr_t)k;
    for (int i = 0; i < w->n; i++) {
        const tg_actual *a = &w->args[i];
        h = (h ^ (uint64_t)(a->null + 2 * a->code + 64 * a->bits)) * 0x9e3779b97f4a7c15u;
        for (int d = 0; d < a->rank; d++)
            h = (h ^ h >> 29 ^ (uint64_t)a->shape[d]) * 0x9e3779b97f4a7c15u;
    }
    return h;
}

static bool is_known(uint64_t hash) {
    bool known = later.paying && later.paying->hash == hash;
    for (const Debt *d = later.first; d; d = d->next) known |= d->hash == hash;
    return known;
}

/// A tensor as a search wants it. False: its integers are too many, or cannot be had.
static bool copy_tensor(Ctx *ctx, const tg_actual *a, size_t *room, const DLTensor **out,
                        Bytes *contents) {
    int64_t address, first;
    if (!a->tensor) return true;
    if (!tune_contents(ctx, a->tensor, a, *room, contents, &address, &first)) return false;
    *room -= contents->n;
    DLTensor *t = ctx_copy(ctx, a->tensor, sizeof *a->tensor);
    t->data = (void *)(uintptr_t)address;
    t->byte_offset = 0;
    *out = t;
    return true;
}

typedef struct Copy {
    Debt *debt;
    const tg_wanted *wanted;
    const Request *r;
    bool done;
} Copy;

/// All that a search needs of a launch outlives it here.
static void copy(Ctx *ctx, void *arg) {
    Copy *c = arg;
    const tg_wanted *w = c->wanted;
    Debt *d = c->debt = ctx_new(ctx, Debt);
    size_t room = w->captured ? 0 : MOST_CONTENTS; // nothing is copied in a capture
    tg_actual *args = ctx_copy(ctx, w->args, sizeof *args * (size_t)w->n);
    d->tensors = ctx_array(ctx, const DLTensor *, w->n + 1);
    d->contents = ctx_array(ctx, Bytes, w->n + 1);
    for (int i = 0; i < w->n; i++) {
        size_t bytes = sizeof(int64_t) * (size_t)args[i].rank;
        if (!copy_tensor(ctx, &w->args[i], &room, &d->tensors[i], &d->contents[i])) return;
        args[i].tensor = d->tensors[i];
        args[i].shape = bytes ? ctx_copy(ctx, args[i].shape, bytes) : NULL;
        args[i].strides = bytes ? ctx_copy(ctx, args[i].strides, bytes) : NULL;
    }
    d->ctx = ctx;
    d->wanted = *w;
    d->wanted.args = args;
    d->wanted.captured = false;
    d->request = *c->r;
    d->request.args = args;
    d->request.n_known = 0;
    d->request.machine = c->r->machine ? ctx_format(ctx, "%s", c->r->machine) : NULL;
    c->done = true;
}

void later_add(ModuleKernel *k, const tg_wanted *wanted, const Request *r) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    uint64_t hash = hash_of(k, wanted);
    pthread_once(&once, watch_forks);
    pthread_mutex_lock(&later.lock);
    bool wants = !later.ended && later.n < MOST_DEBTS && !is_known(hash);
    pthread_mutex_unlock(&later.lock);
    Ctx *ctx = wants ? ctx_create(NULL) : NULL;
    Copy c = {.wanted = wanted, .r = r};
    if (!ctx) return;
    if (ctx_protect(ctx, copy, &c) != CTX_OK || !c.done) {
        ctx_destroy(ctx);
        return;
    }
    c.debt->k = k;
    c.debt->hash = hash;
    pthread_mutex_lock(&later.lock);
    bool ended = later.ended;
    if (!ended) {
        c.debt->next = later.first;
        later.first = c.debt;
        later.n++;
        start();
    }
    pthread_mutex_unlock(&later.lock);
    if (ended) ctx_destroy(ctx);
}

void later_cancel(const tg_module *m) {
    pthread_mutex_lock(&later.lock);
    drop(m);
    pthread_mutex_unlock(&later.lock);
}
