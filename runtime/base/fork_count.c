// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Counts the forks since the process that first used the runtime.
#include "runtime/compiler.h"

#include <pthread.h>

static atomic_int forks;
static _Thread_local int depth; // nesting of code in this thread that a child could not continue
static atomic_int busy;         // threads inside such code
static atomic_bool torn;        // in a child: another thread of the parent was inside

static void mark_forked_child(void) {
    atomic_fetch_add(&forks, 1);
    if (atomic_load(&busy) > (depth > 0)) atomic_store(&torn, true);
    atomic_store(&busy, depth > 0);
}

static void register_fork_hook(void) {
    pthread_atfork(NULL, NULL, mark_forked_child);
}

int tg_forks(void) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, register_fork_hook);
    return atomic_load_explicit(&forks, memory_order_relaxed);
}

void tg_fork_unsafe_begin(void) {
    (void)tg_forks();
    if (depth++ == 0) atomic_fetch_add(&busy, 1);
}

void tg_fork_unsafe_end(void) {
    if (--depth == 0) atomic_fetch_sub(&busy, 1);
}

bool tg_fork_was_unsafe(void) {
    return atomic_load(&torn);
}
