// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Internals of the search for unnecessary barriers: the accesses of instructions
// (membar_accesses.c), and the accesses that may follow each other without a barrier (membar.c).
#ifndef BACKENDS_GPU_MEMBAR_H
#define BACKENDS_GPU_MEMBAR_H

#include "backends/gpu/lower.h"

/// Kinds of access to memory. Two reads do not conflict, nor do two atomics, nor two operations on
/// mbarriers. The mbarriers of a ring's slot order a COPY into the slot.
typedef enum TouchKind {
    TOUCH_READ,
    TOUCH_PRODUCT, // reads until the wait for the product
    TOUCH_WRITE,
    TOUCH_ATOMIC,
    TOUCH_MBARRIER,
    TOUCH_COPY
} TouchKind;

/// An access to a range of shared memory (lo and hi are bytes) or to a class of tensors (they are
/// its number).
typedef struct Touch {
    TouchKind kind;
    bool global, everything;
    bool early; // to an element that the program writes only later, if at all
    int64_t lo, hi;
    const GpuRoom *room; // its room in shared memory, if known
} Touch;

enum { MAX_TOUCHES = 256 };

/// Asynchronous work may access memory up to the wait for it, so the wait counts as another access.
/// STEP_OVER: products of the only warpgroup have ended, in all of its warps. STEP_MEET: in a CTA
/// of one warp, a meeting of the lanes orders its shared memory.
typedef enum Later { LATER_COPIES, LATER_STORES, LATER_PRODUCTS, N_LATER } Later;

typedef enum StepKind { STEP_TOUCH, STEP_LATER, STEP_OVER, STEP_MEET, STEP_BARRIER } StepKind;

/// An effect of an instruction. n: the number of the access, Later or barrier.
typedef struct Step {
    StepKind kind;
    int n;
} Step;

typedef VEC(Step) Steps;

/// A set of accesses.
typedef struct TouchSet {
    uint64_t words[MAX_TOUCHES / 64];
} TouchSet;

typedef struct Touches {
    GpuFn *f;
    VEC(Touch) all;
    PtrMap rooms; // address -> GpuRoom *
    PtrMap roles; // function -> role
    TouchSet later[N_LATER];
    bool fences; // the function has fences between CTAs
} Touches;

/// Adds the steps of an instruction. The caller fills in the number of a barrier.
void access_steps(Touches *t, LLVMValueRef inst, Steps *out);
/// Whether access a of one thread and the later access b of another thread conflict if nothing
/// orders them.
bool accesses_conflict(const Touch *a, const Touch *b);

static inline void touch_set(TouchSet *s, int n) {
    s->words[n / 64] |= (uint64_t)1 << n % 64;
}

static inline bool touch_in(const TouchSet *s, int n) {
    return s->words[n / 64] >> n % 64 & 1;
}

#endif
