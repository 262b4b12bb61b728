// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "lang/fork_lock.h"

static atomic_int forks; // forks since the first process with locks

static void count_fork(void) {
    atomic_fetch_add(&forks, 1);
}

static void watch_forks_once(void) {
    pthread_atfork(NULL, NULL, count_fork);
}

/// The C library runs `watch_forks_once` again if a fork interrupted it.
static int count_forks(void) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, watch_forks_once);
    return atomic_load_explicit(&forks, memory_order_relaxed);
}

/// Several threads of the child may arrive at once. One of them makes the lock again.
static void renew_mutex(Lock *l, int now) {
    int was = atomic_load(&l->forks);
    while (was != now) {
        if (was == -now || !atomic_compare_exchange_strong(&l->forks, &was, -now)) {
            was = atomic_load(&l->forks);
            continue;
        }
        pthread_mutex_init(&l->mutex, NULL);
        atomic_store(&l->forks, now);
        return;
    }
}

void lock_init(Lock *l) {
    pthread_mutex_init(&l->mutex, NULL);
    atomic_init(&l->forks, count_forks());
}

void lock_destroy(Lock *l) {
    pthread_mutex_destroy(&l->mutex);
}

void lock_take(Lock *l) {
    int now = count_forks();
    if (atomic_load_explicit(&l->forks, memory_order_acquire) != now) renew_mutex(l, now);
    pthread_mutex_lock(&l->mutex);
}

void lock_give(Lock *l) {
    pthread_mutex_unlock(&l->mutex);
}
