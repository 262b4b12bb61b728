// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Inside the search for barriers that order nothing: what instructions touch (membar_accesses.c),
// and which touches may follow each other with no barrier between (membar.c).
#ifndef BACKENDS_GPU_MEMBAR_H
#define BACKENDS_GPU_MEMBAR_H

#include "backends/gpu/lower.h"

/// How memory is touched. Reads do not get in each other's way, nor do atomics, nor operations on
/// mbarriers; a COPY into a slot of a ring is ordered by the slot's mbarriers.
typedef enum TouchKind {
    TOUCH_READ,
    TOUCH_PRODUCT, // reads, until the product has been waited for
    TOUCH_WRITE,
    TOUCH_ATOMIC,
    TOUCH_MBARRIER,
    TOUCH_COPY
} TouchKind;

/// A stretch of shared memory, or a class of tensors: the numbers are bytes, or that of the class.
typedef struct Touch {
    TouchKind kind;
    bool global, everything;
    bool early; // of an element that the program writes later, if at all
    int64_t lo, hi;
    const GpuRoom *room; // of shared memory, where it is known
} Touch;

enum { MAX_TOUCHES = 256 };

/// Asynchronous work goes on for a while: it touches again where somebody waits for it. Products of
/// the only warpgroup are over then (STEP_OVER), in all of its warps. Where a CTA is one warp, for
/// its shared memory it is enough that the lanes meet (STEP_MEET).
typedef enum Later { LATER_COPIES, LATER_STORES, LATER_PRODUCTS, N_LATER } Later;

typedef enum StepKind { STEP_TOUCH, STEP_LATER, STEP_OVER, STEP_MEET, STEP_BARRIER } StepKind;

/// What matters of an instruction; n: which touch, Later, barrier.
typedef struct Step {
    StepKind kind;
    int n;
} Step;

typedef VEC(Step) Steps;

/// A set of touches.
typedef struct TouchSet {
    uint64_t words[MAX_TOUCHES / 64];
} TouchSet;

typedef struct Touches {
    GpuFn *f;
    VEC(Touch) all;
    PtrMap rooms; // of addresses, GpuRoom *
    PtrMap roles; // of functions
    TouchSet later[N_LATER];
    bool fences; // there are fences between CTAs
} Touches;

/// Adds the steps of an instruction. A barrier's number is the caller's to fill in.
void access_steps(Touches *t, LLVMValueRef inst, Steps *out);
/// One thread that does a and another one that does b, which follows in the program, may get in
/// each other's way if nothing stands between.
bool accesses_conflict(const Touch *a, const Touch *b);

static inline void touch_set(TouchSet *s, int n) {
    s->words[n / 64] |= (uint64_t)1 << n % 64;
}

static inline bool touch_in(const TouchSet *s, int n) {
    return s->words[n / 64] >> n % 64 & 1;
}

#endif
