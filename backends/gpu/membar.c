// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Removes barriers that order nothing, and notes the reasons for the others.
//
// Lowering goes op by op, and adds a barrier if an earlier op may still be using memory that the
// next op uses. Only an analysis of the whole function can tell which of these barriers order
// something. So this analysis finds, for each barrier, the accesses since an earlier barrier and
// the accesses before a later one. If no access of the first set conflicts with one of the second,
// the barrier is unnecessary, unless it orders memory for other programs (`kept`). Each remaining
// barrier orders something that no other one does: its hazards.
//
// In clusters all barriers stay: CTAs tell each other by mbarriers that accesses have ended, and
// rely on barriers that order these accesses before the message.
//
// On AMD's GPUs a barrier that orders only shared memory is marked: it waits for no access to
// global memory.
#include <string.h>

#include "backends/gpu/membar.h"

typedef VEC(struct FlowBlock *) FlowBlocks;

typedef struct FlowBlock {
    LLVMBasicBlockRef llvm;
    Steps steps;
    FlowBlocks before, after;
    TouchSet in, out; // accesses since a barrier at its start; accesses until a barrier at its end
} FlowBlock;

typedef struct FlowBarrier {
    GpuBarrier made;
    bool gone;
    bool local; // orders only shared memory: accesses to tensors pass it
    TouchSet before, after;
} FlowBarrier;

typedef struct HazardAnalysis {
    Touches t;
    Ctx *ctx;
    int n_blocks;
    FlowBlock *blocks;
    VEC(FlowBarrier) barriers;
    TouchSet *conflicts; // for each access
    TouchSet global;     // accesses that may be to tensors
} HazardAnalysis;

static bool add_touch_set(TouchSet *to, const TouchSet *from) {
    bool more = false;
    for (int i = 0; i < MAX_TOUCHES / 64; i++) {
        more |= (from->words[i] & ~to->words[i]) != 0;
        to->words[i] |= from->words[i];
    }
    return more;
}

/* ---- the function as steps ----------------------------------------------------------------- */

static int add_barrier(HazardAnalysis *h, LLVMValueRef call) {
    const GpuFn *f = h->t.f;
    FlowBarrier b = {.made.call = call};
    for (int i = 0; i < f->barriers.n; i++)
        if (f->barriers.data[i].call == call) b.made = f->barriers.data[i];
    vec_push(h->ctx, &h->barriers, b);
    return h->barriers.n - 1;
}

static void read_block(HazardAnalysis *h, FlowBlock *b) {
    for (LLVMValueRef i = LLVMGetFirstInstruction(b->llvm); i; i = LLVMGetNextInstruction(i)) {
        int n = b->steps.n;
        access_steps(&h->t, i, &b->steps);
        for (; n < b->steps.n; n++)
            if (b->steps.data[n].kind == STEP_BARRIER) b->steps.data[n].n = add_barrier(h, i);
    }
}

static void read_function(HazardAnalysis *h) {
    LLVMValueRef fn = h->t.f->fn;
    PtrMap of = {0};
    h->blocks = ctx_array(h->ctx, FlowBlock, LLVMCountBasicBlocks(fn));
    for (LLVMBasicBlockRef b = LLVMGetFirstBasicBlock(fn); b; b = LLVMGetNextBasicBlock(b)) {
        h->blocks[h->n_blocks].llvm = b;
        map_set(h->ctx, &of, b, &h->blocks[h->n_blocks++]);
    }
    for (int i = 0; i < h->n_blocks; i++) {
        FlowBlock *b = &h->blocks[i];
        LLVMValueRef end = LLVMGetBasicBlockTerminator(b->llvm);
        read_block(h, b);
        for (unsigned k = 0; k < LLVMGetNumSuccessors(end); k++) {
            FlowBlock *to = map_get(&of, LLVMGetSuccessor(end, k));
            vec_push(h->ctx, &b->after, to);
            vec_push(h->ctx, &to->before, b);
        }
    }
}

static void find_conflicts(HazardAnalysis *h) {
    int n = h->t.all.n;
    h->conflicts = ctx_array(h->ctx, TouchSet, n + 1);
    for (int i = 0; i < n; i++) {
        const Touch *t = &h->t.all.data[i];
        if (t->global || t->everything) touch_set(&h->global, i);
        for (int k = 0; k < n; k++)
            if (accesses_conflict(t, &h->t.all.data[k])) touch_set(&h->conflicts[i], k);
    }
}

/* ---- flow ---------------------------------------------------------------------------------- */

/// Applies a step to the accesses before it, or, going backwards, to those after it.
static void flow_step(HazardAnalysis *h, const Step *s, bool forward, TouchSet *touched,
                      TouchSet *at_barrier) {
    switch (s->kind) {
    case STEP_TOUCH: touch_set(touched, s->n); return;
    case STEP_LATER: add_touch_set(touched, &h->t.later[s->n]); return;
    case STEP_OVER:
        for (int i = 0; forward && i < MAX_TOUCHES / 64; i++)
            touched->words[i] &= ~h->t.later[s->n].words[i];
        return;
    case STEP_MEET:
        for (int i = 0; i < MAX_TOUCHES / 64; i++) touched->words[i] &= h->global.words[i];
        return;
    case STEP_BARRIER: {
        const FlowBarrier *b = &h->barriers.data[s->n];
        at_barrier[s->n] = *touched;
        for (int i = 0; !b->gone && i < MAX_TOUCHES / 64; i++)
            touched->words[i] &= b->local ? h->global.words[i] : 0;
        return;
    }
    }
}

static bool flow_forward(HazardAnalysis *h, FlowBlock *b, TouchSet *at_barrier) {
    TouchSet touched = b->in;
    bool more = false;
    for (int i = 0; i < b->steps.n; i++)
        flow_step(h, &b->steps.data[i], true, &touched, at_barrier);
    for (int i = 0; i < b->after.n; i++) more |= add_touch_set(&b->after.data[i]->in, &touched);
    return more;
}

static bool flow_backward(HazardAnalysis *h, FlowBlock *b, TouchSet *at_barrier) {
    TouchSet touched = b->out;
    bool more = false;
    for (int i = b->steps.n - 1; i >= 0; i--)
        flow_step(h, &b->steps.data[i], false, &touched, at_barrier);
    for (int i = 0; i < b->before.n; i++) more |= add_touch_set(&b->before.data[i]->out, &touched);
    return more;
}

/// Computes the accesses around each barrier, without the removed barriers.
static void flow_all(HazardAnalysis *h) {
    TouchSet *before = ctx_array(h->ctx, TouchSet, h->barriers.n + 1);
    TouchSet *after = ctx_array(h->ctx, TouchSet, h->barriers.n + 1);
    for (int i = 0; i < h->n_blocks; i++) h->blocks[i].in = h->blocks[i].out = (TouchSet){0};
    for (bool more = true; more;) {
        more = false;
        for (int i = 0; i < h->n_blocks; i++) more |= flow_forward(h, &h->blocks[i], before);
    }
    for (bool more = true; more;) {
        more = false;
        for (int i = h->n_blocks - 1; i >= 0; i--) more |= flow_backward(h, &h->blocks[i], after);
    }
    for (int i = 0; i < h->barriers.n; i++) {
        h->barriers.data[i].before = before[i];
        h->barriers.data[i].after = after[i];
    }
}

/* ---- barriers ------------------------------------------------------------------------------ */

/// Finds the next pair of accesses from (*i, *k) on, row by row, that the barrier orders.
static bool next_hazard(const HazardAnalysis *h, const FlowBarrier *b, int *i, int *k) {
    for (; *i < h->t.all.n; ++*i, *k = 0) {
        if (!touch_in(&b->before, *i)) continue;
        for (; *k < h->t.all.n; ++*k)
            if (touch_in(&b->after, *k) && touch_in(&h->conflicts[*i], *k)) return true;
    }
    return false;
}

static bool orders_something(const HazardAnalysis *h, const FlowBarrier *b) {
    int i = 0, k = 0;
    return next_hazard(h, b, &i, &k);
}

/// Returns a barrier that orders nothing: the one in the deepest loop, which runs most often; on
/// ties, the last.
static FlowBarrier *find_idle(HazardAnalysis *h) {
    FlowBarrier *found = NULL;
    for (int i = 0; i < h->barriers.n; i++) {
        FlowBarrier *b = &h->barriers.data[i];
        if (b->gone || b->made.kept || orders_something(h, b)) continue;
        if (!found || b->made.loops >= found->made.loops) found = b;
    }
    return found;
}

static void remove_idle(HazardAnalysis *h) {
    FlowBarrier *b;
    while ((b = find_idle(h))) {
        b->gone = true;
        LLVMInstructionEraseFromParent(b->made.call);
        flow_all(h);
    }
}

static bool orders_tensors(const HazardAnalysis *h, const FlowBarrier *b) {
    for (int i = 0, k = 0; next_hazard(h, b, &i, &k); k++)
        if (touch_in(&h->global, i) || touch_in(&h->global, k)) return true;
    return false;
}

static void make_local(const HazardAnalysis *h, FlowBarrier *b) {
    LLVMPositionBuilderBefore(h->t.f->g->b, b->made.call);
    portable_call(h->t.f->g, "tg.barrier.shared", 0, NULL);
    LLVMInstructionEraseFromParent(b->made.call);
}

/// Limits barriers to shared memory if no two accesses to a tensor need their order. Every barrier
/// between two such accesses counts as needed. If a fence follows a barrier, one thread may publish
/// the stores of all threads to other CTAs. So no barrier is limited in a function with fences.
static void find_local(HazardAnalysis *h) {
    if (!gpu_has_any(h->t.f->target, GPU_AMD) || h->t.fences) return;
    for (int i = 0; i < h->barriers.n; i++) {
        h->barriers.data[i].local = !h->barriers.data[i].made.kept;
    }
    flow_all(h);
    for (int i = 0; i < h->barriers.n; i++) {
        FlowBarrier *b = &h->barriers.data[i];
        if (!b->gone && !b->made.kept && !orders_tensors(h, b)) make_local(h, b);
    }
}

/* ---- notes --------------------------------------------------------------------------------- */

static const char *touch_name(const HazardAnalysis *h, const Touch *t) {
    if (t->everything) return "anything";
    if (t->global) return t->hi == INT64_MAX ? "any tensor" : "a tensor";
    if (!t->room) return "shared memory";
    return ctx_format(h->ctx, "%s %lld..%lld", t->room->what, (long long)t->lo, (long long)t->hi);
}

static void note_barrier(const HazardAnalysis *h, const FlowBarrier *b, Text *out) {
    static const char *const done[] = {"read",    "multiplied", "written",
                                       "updated", "signalled",  "copied"};
    const char *place = ctx_format(h->ctx, "%u:%u", b->made.loc.line, b->made.loc.col);
    const char *kept = b->made.kept ? " all written before a signal or fence" : "";
    text_add(out, "  %-8sbarrier:%s", place, kept);
    int n = b->made.kept;
    for (int i = 0, k = 0; next_hazard(h, b, &i, &k); k++) {
        const Touch *x = &h->t.all.data[i], *y = &h->t.all.data[k];
        const char *first = touch_name(h, x), *then = touch_name(h, y);
        text_add(out, "%s %s %s before %s%s%s", n++ ? ";" : "", first, done[x->kind],
                 strcmp(first, then) == 0 ? "" : then, strcmp(first, then) == 0 ? "" : " ",
                 done[y->kind]);
    }
    text_add(out, "\n");
}

/* ---- the pass ------------------------------------------------------------------------------ */

/// Joins the distinct addresses of byte 0 of shared memory, which only this analysis needs.
static void forget_rooms(GpuFn *f) {
    for (int i = 0; i < f->starts.n; i++) {
        LLVMReplaceAllUsesWith(f->starts.data[i], f->shared);
        LLVMInstructionEraseFromParent(f->starts.data[i]);
    }
    f->rooms = (PtrMap){0};
    f->starts.n = f->barriers.n = 0;
}

void gpu_drop_barriers(GpuFn *f) {
    HazardAnalysis h = {.t.f = f, .ctx = f->ctx};
    if (f->barriers.n && f->kernel->cluster == 1) {
        read_function(&h);
        find_conflicts(&h);
        flow_all(&h);
        remove_idle(&h);
        find_local(&h);
    }
    for (int i = 0; f->options->notes && i < h.barriers.n; i++)
        if (!h.barriers.data[i].gone) note_barrier(&h, &h.barriers.data[i], f->options->notes);
    forget_rooms(f);
}
