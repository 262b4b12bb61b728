// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Locks that are free in the child after a fork.
//
// The child of a fork has one thread. A lock that another thread of the parent held would stay
// taken. The data behind a lock must be consistent after every store; the child then continues with
// them.
#ifndef RUNTIME_BASE_FORK_LOCK_H
#define RUNTIME_BASE_FORK_LOCK_H

#include "runtime/compiler.h"

#include <pthread.h>

typedef struct tg_lock {
    pthread_mutex_t mutex;
    atomic_int forks; // tg_forks() of the process that made it; negative: it is being made again
} tg_lock;

#define TG_LOCK_INIT                                                                               \
    { .mutex = PTHREAD_MUTEX_INITIALIZER }

static inline void tg_lock_init(tg_lock *l) {
    pthread_mutex_init(&l->mutex, NULL);
    atomic_init(&l->forks, tg_forks());
}

static inline void tg_lock_destroy(tg_lock *l) {
    pthread_mutex_destroy(&l->mutex);
}

/// Several threads of the child may arrive at once. One of them makes the lock again.
static inline void tg_lock_renew(tg_lock *l, int forks) {
    int was = atomic_load(&l->forks);
    while (was != forks) {
        if (was == -forks || !atomic_compare_exchange_strong(&l->forks, &was, -forks)) {
            was = atomic_load(&l->forks);
            continue;
        }
        pthread_mutex_init(&l->mutex, NULL);
        atomic_store(&l->forks, forks);
        return;
    }
}

static inline void tg_lock_take(tg_lock *l) {
    int forks = tg_forks();
    if (atomic_load_explicit(&l->forks, memory_order_acquire) != forks) tg_lock_renew(l, forks);
    pthread_mutex_lock(&l->mutex);
}

static inline void tg_lock_give(tg_lock *l) {
    pthread_mutex_unlock(&l->mutex);
}

#endif
