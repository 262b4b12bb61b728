// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Background searches: one thread of the process, at low priority, runs one search at a time.
//
// A launch that could be tuned leaves a *queued search* (compiler.h). The search runs once the
// process has lived for a while and the kernel was launched often. The kernel adopts the winner,
// and later launches find it. Destroying an owner drops its queued searches and cancels a running
// one.
#include "runtime/compiler.h"
#include "runtime/tune/trial.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum {
    LAUNCHES = 20, // launches of a kernel before its search
    TICK_MS = 100,
    NICE = 10,
    MOST_QUEUED = 64, // in the process
};
static const double LIFE = 2;  // seconds since the first queued search
static const double SHARE = 1; // per cent: TG_TUNE_SHARE
static const double AGAIN = 1; // seconds before a failed attempt is repeated

static struct {
    pthread_mutex_t lock;
    pthread_cond_t idle; // no queued search is running
    tg_queued_search *first;
    int n;
    tg_queued_search *paying;
    atomic_bool stop; // stops the running one
    bool running;     // the thread exists
    bool ended;       // the process exits: no more searches
    double born;      // the time of the first queued search
} later = {.lock = PTHREAD_MUTEX_INITIALIZER, .idle = PTHREAD_COND_INITIALIZER};

static void before_fork(void) {
    pthread_mutex_lock(&later.lock);
}

static void after_fork(void) {
    pthread_mutex_unlock(&later.lock);
}

/// The child of a fork has no such thread, and the parent keeps its queued searches.
static void forget_debts(void) {
    pthread_cond_init(&later.idle, NULL);
    later.first = later.paying = NULL;
    later.n = 0;
    later.running = false;
    after_fork();
}

/// The caller holds the lock. Drops the queued searches of an owner, or all, and stops a running
/// one.
static void drop_debts(const void *owner) {
    for (tg_queued_search **at = &later.first; *at;) {
        tg_queued_search *d = *at;
        if (owner && d->owner != owner) {
            at = &d->next;
            continue;
        }
        *at = d->next;
        later.n--;
        d->release(d);
    }
    while (later.paying && (!owner || later.paying->owner == owner)) {
        atomic_store(&later.stop, true);
        pthread_cond_wait(&later.idle, &later.lock);
    }
}

/// Ends the thread before libraries destroy data that it uses.
static void at_exit(void) {
    pthread_mutex_lock(&later.lock);
    later.ended = true;
    drop_debts(NULL);
    pthread_mutex_unlock(&later.lock);
}

static void watch_debt_forks(void) {
    pthread_atfork(before_fork, after_fork, forget_debts);
    atexit(at_exit);
}

/* ---- the share of the machine ---------------------------------------------------------------- */

bool rt_busy_share(double *out) {
    const char *set = secure_getenv("TG_TUNE_SHARE");
    char *end = NULL;
    double percent = set && *set ? strtod(set, &end) : SHARE;
    bool ok = !end || (end > set && !*end && percent > 0 && percent <= 100);
    *out = (ok ? percent : SHARE) / 100;
    return ok;
}

/* ---- running -------------------------------------------------------------------------------- */

/// The caller holds the lock. Takes the first queued search whose kernel is in use.
static tg_queued_search *take_due(double now) {
    for (tg_queued_search **at = &later.first; *at; at = &(*at)->next) {
        tg_queued_search *d = *at;
        if (now < d->not_before || tg_kernel_launches(d->kernel) < LAUNCHES) continue;
        *at = d->next;
        later.n--;
        return d;
    }
    return NULL;
}

static void sleep_tick(void) {
    struct timespec t = {0, TICK_MS * 1000000L};
    nanosleep(&t, NULL);
}

/// The caller holds the lock. Puts a search at the end.
static void put_back(tg_queued_search *d) {
    tg_queued_search **at = &later.first;
    while (*at) at = &(*at)->next;
    *at = d;
    d->next = NULL;
    d->not_before = rt_seconds() + AGAIN;
    later.n++;
}

/// The caller holds the lock.
static void finish_run(tg_queued_search *d, bool done) {
    later.paying = NULL;
    if (done || later.ended || atomic_load(&later.stop))
        d->release(d);
    else
        put_back(d);
    pthread_cond_broadcast(&later.idle);
}

/// Ends when no queued search is left.
static void *pay_debts(void *arg) {
    (void)arg;
    setpriority(PRIO_PROCESS, (id_t)syscall(SYS_gettid), NICE); // also for the processes that it
                                                                // starts
    pthread_mutex_lock(&later.lock);
    while (later.first) {
        double now = rt_seconds();
        bool done = true;
        tg_queued_search *d = now - later.born < LIFE ? NULL : take_due(now);
        later.paying = d;
        atomic_store(&later.stop, false);
        pthread_mutex_unlock(&later.lock);
        if (d)
            done = d->run(d, &later.stop);
        else
            sleep_tick();
        pthread_mutex_lock(&later.lock);
        if (d) finish_run(d, done);
    }
    later.running = false;
    pthread_mutex_unlock(&later.lock);
    return NULL;
}

/// The caller holds the lock. The thread takes no signals of the host program.
static void start_debt_thread(void) {
    pthread_t thread;
    sigset_t all, before;
    if (later.running) return;
    if (later.born <= 0) later.born = rt_seconds();
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    later.running = pthread_create(&thread, NULL, pay_debts, NULL) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (later.running) pthread_detach(thread);
}

/* ---- queued searches ------------------------------------------------------------------------ */

static bool is_known_debt(uint64_t hash) {
    bool known = later.paying && later.paying->hash == hash;
    for (const tg_queued_search *d = later.first; d; d = d->next) known |= d->hash == hash;
    return known;
}

bool tg_queue_wanted(uint64_t hash) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, watch_debt_forks);
    pthread_mutex_lock(&later.lock);
    bool wanted = !later.ended && later.n < MOST_QUEUED && !is_known_debt(hash);
    pthread_mutex_unlock(&later.lock);
    return wanted;
}

void tg_queue_search(tg_queued_search *queued) {
    pthread_mutex_lock(&later.lock);
    bool ended = later.ended;
    if (!ended) {
        queued->next = later.first;
        later.first = queued;
        later.n++;
        start_debt_thread();
    }
    pthread_mutex_unlock(&later.lock);
    if (ended) queued->release(queued);
}

void tg_queue_cancel(const void *owner) {
    pthread_mutex_lock(&later.lock);
    drop_debts(owner);
    pthread_mutex_unlock(&later.lock);
}
