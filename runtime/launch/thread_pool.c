// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Threads that help a caller with one job at a time.
//
// One word holds the state: a count of jobs, whether the current job is open, and the number of
// threads inside. A thread enters an open job by incrementing the count. The caller closes the job
// when no work is left, and then waits only for the threads inside. A launch therefore never waits
// for a thread to wake up. Idle threads watch the word for a while and then sleep on it (futex).
#include "runtime/runtime.h"

#include <limits.h>
#include <linux/futex.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum {
    INSIDE = 0xfff,   // the threads inside
    OPEN = 0x1000,    // the job admits threads
    NEXT_JOB = 0x2000 // the count of jobs starts at this bit
};

/// How long an idle thread watches before it sleeps. It is longer than the gap between phases of a
/// kernel or launches of a program, and short enough to let an idle core sleep.
static const int64_t watch_ns = 200 * 1000;

struct rt_pool {
    _Alignas(RT_ALIGNMENT) _Atomic uint32_t word;
    _Atomic uint32_t idle;                     // threads that sleep on the word
    _Atomic uint32_t ends;                     // changes when the last thread leaves a closed job
    _Atomic uint32_t caller;                   // 1: the caller sleeps on `ends`
    _Alignas(RT_ALIGNMENT) _Atomic int joined; // threads that joined the current job
    _Atomic bool busy, stop;
    int workers; // workers of the job, including the caller
    rt_work *work;
    void *job;
    int64_t watch_ns; // 0 if there are more threads than cores
    int threads, started;
    pid_t process;
    pthread_t ids[];
};

static void call_futex(_Atomic uint32_t *word, int op, uint32_t value) {
    syscall(SYS_futex, word, op, value, NULL, NULL, 0);
}

/// Waits until *word differs from `seen`. *sleepers counts the threads that need a wake-up call.
static void wait_for_change(const rt_pool *p, _Atomic uint32_t *word, uint32_t seen,
                            _Atomic uint32_t *sleepers) {
    int64_t end = p->watch_ns ? rt_now_ns() + p->watch_ns : 0;
    do {
        for (int i = 0; i < 64; i++) {
            if (atomic_load(word) != seen) return;
            rt_pause_briefly();
        }
    } while (end && rt_now_ns() < end);
    atomic_fetch_add(sleepers, 1);
    while (atomic_load(word) == seen) call_futex(word, FUTEX_WAIT_PRIVATE, seen);
    atomic_fetch_sub(sleepers, 1);
}

static void wake_sleepers(_Atomic uint32_t *word, const _Atomic uint32_t *sleepers, uint32_t n) {
    if (atomic_load(sleepers)) call_futex(word, FUTEX_WAKE_PRIVATE, n);
}

/// Leaves the job. The last thread to leave a closed job wakes the caller.
static void leave_job(rt_pool *p) {
    uint32_t left = atomic_fetch_sub(&p->word, 1) - 1;
    if (left & (OPEN | INSIDE)) return;
    atomic_fetch_add(&p->ends, 1);
    wake_sleepers(&p->ends, &p->caller, 1);
}

static void *thread_main(void *arg) {
    rt_pool *p = arg;
    uint32_t done = 0; // the last job of this thread
    for (;;) {
        uint32_t word = atomic_load(&p->word);
        if (atomic_load(&p->stop)) return NULL;
        if (!(word & OPEN) || word / NEXT_JOB == done) {
            wait_for_change(p, &p->word, word, &p->idle);
            continue;
        }
        if (!atomic_compare_exchange_weak(&p->word, &word, word + 1)) continue;
        done = word / NEXT_JOB;
        int index = atomic_fetch_add(&p->joined, 1);
        if (index < p->workers) p->work(p->job, index);
        leave_job(p);
    }
}

rt_pool *rt_pool_create(const tg_options *hooks, int threads) {
    rt_pool *p = rt_allocate(hooks, sizeof *p + sizeof *p->ids * (size_t)threads);
    if (!p) return NULL;
    memset(p, 0, sizeof *p);
    atomic_store(&p->word, NEXT_JOB);
    p->threads = threads;
    p->watch_ns = threads > rt_cores() ? 0 : watch_ns;
    return p;
}

/// Starts the threads with signals blocked: signals belong to the program. If the system refuses
/// some threads, fewer work.
static void start_threads(rt_pool *p) {
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    while (p->started < p->threads - 1 &&
           pthread_create(&p->ids[p->started], NULL, thread_main, p) == 0)
        p->started++;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    p->process = getpid();
}

void rt_pool_destroy(rt_pool *p, const tg_options *hooks) {
    if (!p) return;
    atomic_store(&p->stop, true);
    atomic_fetch_add(&p->word, NEXT_JOB);
    wake_sleepers(&p->word, &p->idle, INT_MAX);
    // After a fork, the child has only the thread that forked.
    for (int i = 0; i < p->started && p->process == getpid(); i++) pthread_join(p->ids[i], NULL);
    rt_release(hooks, p, sizeof *p + sizeof *p->ids * (size_t)p->threads);
}

/// Closes the job and waits for the threads inside.
static void close_job(rt_pool *p) {
    atomic_fetch_and(&p->word, ~(uint32_t)OPEN);
    for (;;) {
        uint32_t ends = atomic_load(&p->ends);
        if (!(atomic_load(&p->word) & INSIDE)) return;
        wait_for_change(p, &p->ends, ends, &p->caller);
    }
}

bool rt_pool_run(rt_pool *p, int workers, rt_work *work, void *job) {
    if (atomic_exchange(&p->busy, true)) return false;
    if (!p->started) start_threads(p);
    p->work = work;
    p->job = job;
    p->workers = workers;
    atomic_store(&p->joined, 1);
    atomic_fetch_add(&p->word, NEXT_JOB + OPEN);
    wake_sleepers(&p->word, &p->idle, (uint32_t)workers - 1);
    work(job, 0);
    close_job(p);
    atomic_store(&p->busy, false);
    return true;
}

/// Counts the cores in the affinity mask, which containers set.
int rt_cores(void) {
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) == 0) return CPU_COUNT(&set);
    long n = sysconf(_SC_NPROCESSORS_ONLN);
    return n > 0 ? (int)n : 1;
}
