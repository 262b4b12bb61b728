// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Locks of the compiler that a fork leaves free in the child.
//
// The child of a fork has one thread. A lock that another thread of the parent had at that moment
// would never be given back there. What such a lock guards has to be whole at every store: then the
// child goes on with what there is. The runtime, which is linked without the compiler, has its own
// (runtime/base/fork_lock.h).
#ifndef LANG_FORK_LOCK_H
#define LANG_FORK_LOCK_H

#include <pthread.h>
#include <stdatomic.h>

typedef struct Lock {
    pthread_mutex_t mutex;
    atomic_int forks; // of the process that it was made in; negative: being made anew
} Lock;

#define LOCK_INIT                                                                                  \
    { .mutex = PTHREAD_MUTEX_INITIALIZER }

void lock_init(Lock *l);
void lock_destroy(Lock *l);
void lock_take(Lock *l);
void lock_give(Lock *l);

#endif
