// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The compiler's locks, which are free in the child after a fork.
//
// The child of a fork has one thread. A lock that another thread of the parent held would stay
// taken. The data behind a lock must be consistent after every store; the child then continues with
// them. The runtime is linked without the compiler and has its own locks
// (runtime/base/fork_lock.h).
#ifndef LANG_FORK_LOCK_H
#define LANG_FORK_LOCK_H

#include <pthread.h>
#include <stdatomic.h>

typedef struct Lock {
    pthread_mutex_t mutex;
    atomic_int forks; // tg_forks() of the process that made it; negative: it is being made again
} Lock;

#define LOCK_INIT                                                                                  \
    { .mutex = PTHREAD_MUTEX_INITIALIZER }

void lock_init(Lock *l);
void lock_destroy(Lock *l);
void lock_take(Lock *l);
void lock_give(Lock *l);

#endif
