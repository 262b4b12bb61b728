// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Threads (the pthreadpool library), arenas and workspaces for compiled kernels.
//
// Tasks are handed out one by one from a counter, so that uneven ones balance. Each worker has its
// own copy of the environment: it tells `fail` and `arena` whose they are without thread-local
// storage. Worker 0 is the host side of the kernel, workers 1 .. n run tasks; the caller's thread
// acts as worker 0 and as one of the others, whose arenas differ.
#include "runtime/host.h"

#include <pthread.h>
#include <pthreadpool.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// pthreadpool synchronises by atomics that the thread sanitizer does not see.
#if defined(__SANITIZE_THREAD__)
void __tsan_acquire(void *addr);
void __tsan_release(void *addr);
#define ACQUIRE(p) __tsan_acquire(p)
#define RELEASE(p) __tsan_release(p)
#else
#define ACQUIRE(p) ((void)(p))
#define RELEASE(p) ((void)(p))
#endif

enum { ALIGNMENT = 64 };

typedef struct Worker {
    tg_env env; // env.user is this worker
    tg_host *host;
    void *arena;
    int64_t arena_bytes;
    tg_failure failure;
} Worker;

typedef struct Workspace {
    struct Workspace *next;
    void *data;
} Workspace;

struct tg_host {
    pthreadpool_t pool; // NULL: not yet needed
    int threads;
    uint32_t flags; // of the pool: with more threads than cores, idle ones do not spin
    pthread_mutex_t running, printing;
    tg_print *print;
    void *user;
    Workspace *workspaces; // of the run
    Worker workers[];      // threads + 1
};

/// Rounded up to whole lines, so that arenas of two threads share none.
static void *aligned_bytes(int64_t bytes) {
    if (bytes < 0 || bytes > INT64_MAX - ALIGNMENT) return NULL;
    size_t n = ((size_t)bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    return aligned_alloc(ALIGNMENT, n ? n : ALIGNMENT);
}

/* ---- what compiled code calls -------------------------------------------------------------- */

/// The text is made at once: the values live on the stack of the code that failed.
static int32_t env_fail(const tg_env *env, const tg_site *site, const uint64_t *values) {
    Worker *w = env->user;
    w->failure.site = site;
    if (!site) {
        strcpy(w->failure.text, "out of memory");
        return TG_RUN_NO_MEMORY;
    }
    tg_site_text(w->failure.text, sizeof w->failure.text, site, values);
    return TG_RUN_FAILED;
}

/// The hook sees one thread at a time.
static void env_print(const tg_env *env, const tg_site *site, const uint64_t *values) {
    Worker *w = env->user;
    char text[TG_TEXT_SIZE];
    if (!w->host->print) return;
    tg_site_text(text, sizeof text, site, values);
    pthread_mutex_lock(&w->host->printing);
    w->host->print(w->host->user, text);
    pthread_mutex_unlock(&w->host->printing);
}

/// Grows, and keeps its size between launches: a warm launch allocates nothing. What was in it is
/// lost.
static void *env_arena(const tg_env *env, int64_t bytes) {
    Worker *w = env->user;
    if (w->arena && w->arena_bytes >= bytes) return w->arena;
    free(w->arena);
    w->arena = aligned_bytes(bytes);
    w->arena_bytes = w->arena ? bytes : 0;
    return w->arena;
}

/// Runs on the host side of the kernel only, so the list needs no lock.
static void *env_workspace(const tg_env *env, int64_t bytes) {
    tg_host *h = ((Worker *)env->user)->host;
    Workspace *w = malloc(sizeof *w);
    if (!w) return NULL;
    *w = (Workspace){h->workspaces, aligned_bytes(bytes)};
    h->workspaces = w;
    return w->data;
}

/* ---- tasks --------------------------------------------------------------------------------- */

typedef struct Launch {
    tg_host *host;
    int64_t n, arena_bytes;
    tg_task *task;
    void *context;
    _Atomic int64_t next;
    _Atomic int64_t failed; // least number of a task that failed, or n
    pthread_mutex_t lock;   // of what follows
    int32_t status;
    tg_failure failure; // of that task
} Launch;

/// Keeps the failure of the least task. The message goes with it: each worker has but one.
static void note_failure(Launch *l, int64_t task, int32_t status, const tg_failure *failure) {
    pthread_mutex_lock(&l->lock);
    if (task < atomic_load(&l->failed)) {
        atomic_store(&l->failed, task);
        l->status = status;
        l->failure = *failure;
    }
    pthread_mutex_unlock(&l->lock);
}

/// Takes tasks until none is left that comes before a failed one.
static void work(void *context, size_t index) {
    ACQUIRE(context);
    Launch *l = context;
    Worker *w = &l->host->workers[index + 1];
    void *arena = env_arena(&w->env, l->arena_bytes);
    for (;;) {
        int64_t task = atomic_fetch_add_explicit(&l->next, 1, memory_order_relaxed);
        if (task >= atomic_load_explicit(&l->failed, memory_order_relaxed)) break;
        int32_t status =
            arena ? l->task(&w->env, l->context, task, arena) : env_fail(&w->env, NULL, NULL);
        if (status) note_failure(l, task, status, &w->failure);
    }
    RELEASE(l);
}

/// Threads are started by the first launch that has work for them: that takes milliseconds.
static bool has_pool(tg_host *h) {
    if (!h->pool) h->pool = pthreadpool_create((size_t)h->threads);
    return h->pool != NULL;
}

static int32_t env_parallel_for(const tg_env *env, int64_t n, int64_t arena_bytes, tg_task *task,
                                void *context) {
    Worker *caller = env->user;
    tg_host *h = caller->host;
    Launch l = {.host = h, .n = n, .arena_bytes = arena_bytes, .task = task, .context = context};
    if (n <= 0) return TG_RUN_OK;
    atomic_init(&l.next, 0);
    atomic_init(&l.failed, n);
    pthread_mutex_init(&l.lock, NULL);
    size_t workers = (size_t)(n < h->threads ? n : h->threads);
    if (workers > 1 && !has_pool(h)) workers = 1;
    RELEASE(&l);
    if (workers > 1)
        pthreadpool_parallelize_1d(h->pool, work, &l, workers, h->flags);
    else
        work(&l, 0);
    ACQUIRE(&l);
    pthread_mutex_destroy(&l.lock);
    if (l.status) caller->failure = l.failure;
    return l.status;
}

/* ---- hosts --------------------------------------------------------------------------------- */

/// The cores that this process may run on.
static int available_cores(void) {
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) == 0) return CPU_COUNT(&set);
    long n = sysconf(_SC_NPROCESSORS_ONLN);
    return n > 0 ? (int)n : 1;
}

/// One allocation: the workers follow the host.
tg_host *tg_host_create(int threads) {
    int n = threads > 0 ? threads : available_cores();
    tg_host *h = calloc(1, sizeof *h + sizeof *h->workers * (size_t)(n + 1));
    if (!h) return NULL;
    h->threads = n;
    h->flags = n > available_cores() ? PTHREADPOOL_FLAG_YIELD_WORKERS : 0;
    pthread_mutex_init(&h->running, NULL);
    pthread_mutex_init(&h->printing, NULL);
    for (int i = 0; i <= n; i++) {
        Worker *w = &h->workers[i];
        w->host = h;
        w->env = (tg_env){env_parallel_for, env_workspace, env_arena, env_fail, env_print, w};
    }
    return h;
}

void tg_host_destroy(tg_host *h) {
    if (!h) return;
    if (h->pool) pthreadpool_destroy(h->pool);
    for (int i = 0; i <= h->threads; i++) free(h->workers[i].arena);
    pthread_mutex_destroy(&h->running);
    pthread_mutex_destroy(&h->printing);
    free(h);
}

int tg_host_threads(const tg_host *h) {
    return h->threads;
}

static void free_workspaces(tg_host *h) {
    while (h->workspaces) {
        Workspace *w = h->workspaces;
        h->workspaces = w->next;
        free(w->data);
        free(w);
    }
}

int tg_host_run(tg_host *h, tg_entry *entry, const tg_slot *args, tg_print *print, void *user,
                tg_failure *failure) {
    pthread_mutex_lock(&h->running);
    h->print = print;
    h->user = user;
    int status = entry(args, &h->workers[0].env);
    if (status) *failure = h->workers[0].failure;
    free_workspaces(h);
    pthread_mutex_unlock(&h->running);
    return status;
}
