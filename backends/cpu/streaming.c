// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Memory beyond the caches: prefetches, and streaming stores.
//
// With much work between two loads, a processor looks ahead too few loads to hide the latency of
// memory. With little work, it needs no help. So longer bodies prefetch: the same place of the next
// row, or a fixed distance ahead for short and for very long rows. Short bodies prefetch only if
// their stores stream.
//
// A store of a whole line into a large array first reads the line, a third of the traffic of a
// copy. Streaming stores avoid the read, but leave the data in no cache for the next reader. So run
// time chooses them for tensors that exceed the cache, if lines are written whole.
#include "backends/cpu/emit.h"

// A tensor of at least BEYOND_L2 second-level caches gains from streaming stores in a copy, even if
// its result is read right after.
enum { LINE = 64, BEYOND_L2 = 6 };
enum { AHEAD = 2048, MAX_AHEAD = 1 << 17, AHEAD_COST = 6 };

/* ---- reading ahead ------------------------------------------------------------------------- */

/// Returns the bytes from a row of the tensor to that of the next program, or the usual distance if
/// that is out of range.
static LLVMValueRef row_distance(Emit *e, const Prepared *p, int axis, int64_t bytes) {
    Gen *g = e->g;
    LLVMValueRef usual = gen_i64(g, AHEAD);
    int d = 0;
    while (d < p->a.n_subs && p->a.axis_of[d] != axis) d++;
    if (d == 0 || d == p->a.n_subs) return usual;
    const SubDim *rows = &p->a.subs[d - 1]; // rows of this program; the next one starts after them
    int64_t step = rows->kind == DIM_AXIS ? rows->size * rows->mul : 1;
    LLVMValueRef row = gen_mul(g, p->tensor->strides[d - 1], gen_i64(g, step * bytes));
    LLVMValueRef over = LLVMBuildSub(g->b, row, usual, "");
    LLVMValueRef fits = LLVMBuildICmp(g->b, LLVMIntULE, over, gen_i64(g, MAX_AHEAD - AHEAD), "");
    return LLVMBuildSelect(g->b, fits, row, usual, "");
}

/// Whether a program reads little of a tensor, compared to the first cache.
static bool is_short_read(const Emit *e, const Prepared *p, int64_t bytes) {
    for (int d = 0; d < p->a.n_subs; d++)
        if (p->a.subs[d].kind == DIM_AXIS) bytes *= p->a.subs[d].size;
    return bytes <= e->cpu->target.l1_bytes / 4;
}

static void read_ahead(Emit *e, LLVMValueRef at, bool into_l1) {
    LLVMTypeRef i32 = e->g->i32;
    LLVMValueRef args[4] = {at, LLVMConstInt(i32, 0, false),
                            LLVMConstInt(i32, into_l1 ? 3 : 2, false), LLVMConstInt(i32, 1, false)};
    gen_intrinsic(e->g, "llvm.prefetch", 1, &e->g->ptr, 4, args);
}

void streaming_prefetch(Emit *e, const Prepared *p, int axis, int lanes, LLVMValueRef at,
                        int64_t bytes) {
    Gen *g = e->g;
    int vectors = lanes * bytes < LINE ? LINE / (int)(lanes * bytes) : 1; // vectors of a line
    if (!e->ahead || (e->ahead - 1) % vectors || LLVMIsConstant(p->offset)) return;
    if (!e->cpu->target.x86 || e->cpu->check) return;
    LLVMValueRef place = gen_offset(g, at, row_distance(e, p, axis, bytes));
    if (e->nest_cost >= AHEAD_COST)
        read_ahead(e, place, is_short_read(e, p, bytes));
    else if (e->n_wanted < MAX_WANTED)
        e->wanted[e->n_wanted++] = place;
}

void streaming_wanted(Emit *e) {
    for (int i = 0; i < e->n_wanted; i++) read_ahead(e, e->wanted[i], false);
    e->n_wanted = 0;
}

/* ---- stores -------------------------------------------------------------------------------- */

static LLVMValueRef is_large_tensor(Emit *e, const Prepared *p, int64_t bytes) {
    Gen *g = e->g;
    LLVMValueRef size = gen_i64(g, bytes);
    for (int d = 0; d < p->a.n_subs; d++) size = gen_mul(g, size, p->tensor->dims[d]);
    LLVMValueRef least = gen_i64(g, BEYOND_L2 * e->cpu->target.l2_bytes);
    return LLVMBuildICmp(g->b, LLVMIntSGE, size, least, "");
}

// Arrays are aligned to 16 bytes, rarely to lines, so vectors are streamed in parts of 16. From
// this cost of a vector on, splitting it is no longer hidden by memory.
enum { PART = 16, WHOLE_COST = 24 };

static int stream_part(const Nest *n) {
    return n->cost < WHOLE_COST ? PART : LINE;
}

/// Returns whether the rows of the current tile start at addresses that permit streaming by parts.
static LLVMValueRef is_stream_aligned(Emit *e, const Nest *n, const Op *store, int64_t bytes) {
    Gen *g = e->g;
    const Prepared *p = prepared_of(e, store);
    Place first = {.rank = n->space->rank, .axis = -1};
    LLVMValueRef bits = LLVMBuildPtrToInt(g->b, p->tensor->data, g->i64, "");
    for (int i = 0; i < n->n_axes; i++) {
        const NestAxis *x = &n->axes[i];
        first.at[x->axis] = x->axis == n->vector ? gen_i64(g, 0) : x->origin;
    }
    LLVMValueRef at = gen_mul(g, access_lanes(e, p, &first).offset, gen_i64(g, bytes));
    bits = LLVMBuildAdd(g->b, bits, at, "");
    for (int d = 0; d < p->a.n_subs; d++) {
        int axis = p->a.axis_of[d];
        if (p->a.subs[d].kind != DIM_AXIS || axis == n->vector) continue;
        bool alone = true;
        for (int i = 0; i < n->n_axes; i++) alone &= n->axes[i].axis != axis || n->axes[i].tile < 2;
        if (alone) continue;
        int64_t apart = bytes * p->a.subs[d].mul;
        bits = LLVMBuildOr(g->b, bits, gen_mul(g, p->tensor->strides[d], gen_i64(g, apart)), "");
    }
    LLVMValueRef low = LLVMBuildAnd(g->b, bits, gen_i64(g, stream_part(n) - 1), "");
    return LLVMBuildICmp(g->b, LLVMIntEQ, low, gen_i64(g, 0), "");
}

/// Whether the loop over the level writes whole lines in sequence.
static bool may_stream(Emit *e, const Nest *n, const Root *r, int level) {
    if (r->kind != ROOT_STORE || !e->cpu->target.x86 || e->cpu->check) return false;
    if (n->axes[level].axis != n->vector || level + 1 < n->n_axes) return false;
    Elem elem = access_of(r->op).value->type->elem;
    int64_t bytes = (int64_t)elem_info[elem].bits / 8 * n->lanes;
    if (bytes < 16 || bytes * n->axes[level].tile % LINE) return false;
    return prepared_of(e, r->op)->a.pick_at < 0 && access_stride(r->op, n->vector) == 1;
}

void streaming_decide(Emit *e, Nest *n, int level) {
    for (int i = 0; i < n->roots.n; i++) {
        Root *r = &n->roots.data[i];
        r->stream = NULL;
        if ((n->full && !e->full) || !may_stream(e, n, r, level)) continue;
        int64_t bytes = elem_info[access_of(r->op).value->type->elem].bits / 8;
        r->stream = LLVMBuildAnd(e->g->b, is_large_tensor(e, prepared_of(e, r->op), bytes),
                                 is_stream_aligned(e, n, r->op, bytes), "");
        r->part = stream_part(n);
        e->streams = true;
    }
}

void streaming_fence(Emit *e) {
    if (e->streams) streaming_settle(e);
}

void streaming_settle(Emit *e) {
    if (e->cpu->target.x86) gen_intrinsic(e->g, "llvm.x86.sse.sfence", 0, NULL, 0, NULL);
}
