// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The inlined first and last steps of each launch.
//
// A driver that has just launched leaves little of a program in the caches. A warm launch then
// costs the memory that it touches, and each call touches lines of code and stack. Rare cases are
// behind rt_context, rt_claim and rt_give_back.
#ifndef RUNTIME_LAUNCH_WARM_LAUNCH_H
#define RUNTIME_LAUNCH_WARM_LAUNCH_H

#include "runtime/runtime.h"

/// The data of a thread, in one struct, because looking it up is a call.
typedef struct rt_thread {
    _Alignas(16) tg_context *context; // NULL: the shared context
    unsigned number;                  // from 1; 0: no launch yet
} rt_thread;
extern _Thread_local rt_thread rt_own;

extern _Atomic(tg_context *) rt_shared_context; // NULL before the first use

/// A place of a context holds an idle launcher. This bit marks it as serving a launch. The place is
/// then reserved, and giving the launcher back is a plain store. A locked store would wait for the
/// driver's last write to its device.
enum { RT_BUSY = 1 };
_Static_assert((int)RT_ALIGNMENT > (int)RT_BUSY, "the bit is free");

static inline tg_context *rt_warm_context(void) {
    tg_context *c = rt_own.context;
    if (!c) c = atomic_load_explicit(&rt_shared_context, memory_order_acquire);
    return c ? c : rt_context();
}

/// NULL: there is no launcher, or it serves a launch.
static inline rt_launcher *rt_claim_at(tg_context *c, unsigned place) {
    uintptr_t l = atomic_load_explicit(&c->places[place], memory_order_relaxed);
    if (!l || l & RT_BUSY || !atomic_compare_exchange_strong(&c->places[place], &l, l | RT_BUSY))
        return NULL;
    return (rt_launcher *)l;
}

static inline rt_launcher *rt_warm_claim(tg_context *c) {
    rt_launcher *l = rt_own.number ? rt_claim_at(c, rt_own.number % RT_PLACES) : NULL;
    return l ? l : rt_claim(c);
}

static inline void rt_warm_give_back(rt_launcher *l) {
    if (l->place < 0)
        rt_give_back(l);
    else
        atomic_store_explicit(&l->context->places[l->place], (uintptr_t)l, memory_order_release);
}

/// The epoch of a kernel that was launched. A launch may repeat an earlier one only in the same
/// epoch. Epochs are unique over all kernels. 0: out of memory.
static inline uint64_t rt_epoch(tg_kernel *kernel) {
    rt_pulse *p = __atomic_load_n(&kernel->state, __ATOMIC_ACQUIRE);
    if (!p) p = rt_pulse_of(kernel);
    return p ? atomic_load_explicit(&p->epoch, memory_order_acquire) : 0;
}

/// Counts a launch (tg_kernel_launches). After many launches it only reads.
static inline void rt_count(rt_pulse *p) {
    int n = atomic_load_explicit(&p->launches, memory_order_relaxed);
    if (n < RT_MANY) atomic_store_explicit(&p->launches, n + 1, memory_order_relaxed);
}

#endif
