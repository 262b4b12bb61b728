// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Access by computed index: gather from a block, and histograms.
#include "backends/cpu/emit.h"
#include "backends/cpu/line_walk.h"

/* ---- gather -------------------------------------------------------------------------------- */

typedef struct LineGather {
    Op *op;
    int axis, lane_axis, lanes;
    const Buffer *from;
    Buffer *out;
    int64_t extent; // of x along axis
    const Place *line;
} LineGather;

// An index outside reads element 0, and its lane becomes 0 afterwards. Only dead lanes need a mask.
static void gather_vector(Emit *e, void *arg, LLVMValueRef at, int live) {
    const LineGather *s = arg;
    const Gen *g = e->g;
    Place p = line_place(s->line, s->lane_axis, s->lanes, at, live);
    LLVMValueRef index = emit_unmasked(e, operand(s->op, 1), &p);
    LLVMValueRef count = gen_same(gen_i64(g, s->extent), s->lanes);
    LLVMValueRef inside = LLVMBuildICmp(g->b, LLVMIntULT, index, count, "");
    LLVMValueRef zero = gen_zero(g, EL_I64, s->lanes);
    index = LLVMBuildSelect(g->b, inside, index, zero, "");
    const int64_t *strides = s->from->strides;
    index = LLVMBuildMul(g->b, index, gen_same(gen_i64(g, strides[s->axis]), s->lanes), "");
    if (s->lane_axis != s->axis) {
        LLVMValueRef apart = gen_same(gen_i64(g, strides[s->lane_axis]), s->lanes);
        LLVMValueRef own = LLVMBuildMul(g->b, gen_iota(g, s->lanes), apart, "");
        index = LLVMBuildAdd(g->b, index, own, "");
    }
    Place corner = p;
    corner.at[s->axis] = gen_i64(g, 0);
    LLVMTypeRef type = gen_mem_elem(g, s->from->elem);
    LLVMValueRef base = buffer_address(e, s->from, corner.at);
    LLVMValueRef from = LLVMBuildGEP2(g->b, type, base, &index, 1, "");
    LLVMValueRef mask = gen_first_lanes(g, live, s->lanes);
    LLVMValueRef x = memory_gather(e, TENSOR_ARENA, type, from, mask, NULL);
    x = gen_from_memory(g, s->from->elem, x);
    x = LLVMBuildSelect(g->b, inside, x, gen_zero(g, s->from->elem, s->lanes), "");
    buffer_store(e, s->out, &p, x);
}

static void gather_line(Emit *e, void *arg, Place *line) {
    LineGather *s = arg;
    s->line = line;
    const Type *t = result(s->op, 0)->type;
    for_vectors(e, t->extents[s->lane_axis], s->lanes, gather_vector, s);
}

void lower_gather(Emit *e, Op *op) {
    const Type *t = result(op, 0)->type;
    LineGather s = {.op = op, .axis = (int)op_int(op, A_AXIS, 0), .lane_axis = line_axis(t)};
    s.extent = operand(op, 0)->type->extents[s.axis];
    s.from = buffer_of(e, operand(op, 0));
    s.out = result_buffer(e, result(op, 0));
    s.lanes = line_lanes(e, elem_bytes(EL_I64), t->extents[s.lane_axis]);
    code_mark(e, op, op_info[op->code].name);
    for_lines(e, t, 1u << s.lane_axis, gather_line, &s);
}

/* ---- histogram ----------------------------------------------------------------------------- */

/// Lanes count into `copies` histograms in turn, because loading a count that was just stored is
/// slow. Each copy has one extra bin for indices outside.
typedef struct Histogram {
    Op *op;
    int lane_axis, lanes, copies;
    int64_t bins, step; // bytes from copy to copy
    LLVMValueRef base;
    Buffer *out;
    const Place *line;
} Histogram;

static LLVMValueRef bin_at(Emit *e, const Histogram *h, int copy, LLVMValueRef bin) {
    const Gen *g = e->g;
    LLVMValueRef p = gen_offset(g, h->base, gen_i64(g, copy * h->step));
    return gen_offset(g, p, gen_mul(g, bin, gen_i64(g, 4)));
}

static void clear_bins(Emit *e, const Histogram *h) {
    const Gen *g = e->g;
    int bytes = e->cpu->target.vector_bytes;
    LLVMValueRef zero = gen_zero(g, EL_I8, bytes);
    Loop *l = loop_begin(e, gen_i64(g, 0), gen_i64(g, h->step * h->copies), bytes, "clear");
    memory_store(e, TENSOR_ARENA, zero, gen_offset(g, h->base, l->iv), (unsigned)bytes);
    loop_end(e, l, NULL);
}

static void count_vector(Emit *e, void *arg, LLVMValueRef at, int live) {
    const Histogram *h = arg;
    const Gen *g = e->g;
    Place p = line_place(h->line, h->lane_axis, h->lanes, at, live);
    Value *x = operand(h->op, 0);
    LLVMValueRef bin = gen_cast(g, x->type->elem, EL_I64, emit_unmasked(e, x, &p));
    LLVMValueRef bins = gen_same(gen_i64(g, h->bins), h->lanes);
    LLVMValueRef counts = LLVMBuildICmp(g->b, LLVMIntULT, bin, bins, "");
    if (h->op->n_operands > 1)
        counts = LLVMBuildAnd(g->b, counts, emit_unmasked(e, operand(h->op, 1), &p), "");
    bin = LLVMBuildSelect(g->b, counts, bin, bins, "");
    for (int l = 0; l < live; l++) {
        LLVMValueRef one = LLVMBuildExtractElement(g->b, bin, gen_i64(g, l), "");
        LLVMValueRef to = bin_at(e, h, l % h->copies, one);
        LLVMValueRef n = memory_load(e, TENSOR_ARENA, g->i32, to, 4);
        n = LLVMBuildAdd(g->b, n, LLVMConstInt(g->i32, 1, false), "");
        memory_store(e, TENSOR_ARENA, n, to, 4);
    }
}

static void count_line(Emit *e, void *arg, Place *line) {
    Histogram *h = arg;
    h->line = line;
    const Type *t = operand(h->op, 0)->type;
    if (t->rank) for_vectors(e, t->extents[h->lane_axis], h->lanes, count_vector, h);
}

static void sum_vector(Emit *e, void *arg, LLVMValueRef at, int live) {
    const Histogram *h = arg;
    const Gen *g = e->g;
    LLVMTypeRef type = gen_vec(g->i32, h->lanes);
    LLVMValueRef sum = memory_load(e, TENSOR_ARENA, type, bin_at(e, h, 0, at), 4);
    for (int i = 1; i < h->copies; i++)
        sum =
            LLVMBuildAdd(g->b, sum, memory_load(e, TENSOR_ARENA, type, bin_at(e, h, i, at), 4), "");
    Place p = {.rank = 1, .axis = 0, .lanes = h->lanes, .live = live, .at = {at}};
    buffer_store(e, h->out, &p, sum);
}

void lower_histogram(Emit *e, Op *op) {
    const Type *t = operand(op, 0)->type;
    Histogram h = {.op = op, .lane_axis = line_axis(t), .bins = result(op, 0)->type->extents[0]};
    int64_t vector = e->cpu->target.vector_bytes, arena;
    h.step = (ceil_div((h.bins + 1) * 4, vector) + 1) * vector;
    h.copies = h.step * 4 <= e->cpu->target.l1_bytes / 2 ? 4 : 1;
    h.base = arena_bytes(e, h.step * h.copies, &arena);
    h.out = result_buffer(e, result(op, 0));
    code_mark(e, op, op_info[op->code].name);
    clear_bins(e, &h);
    h.lanes = line_lanes(e, elem_bytes(EL_I64), t->extents[h.lane_axis]);
    for_lines(e, t, 1u << h.lane_axis, count_line, &h);
    h.lanes = line_lanes(e, 4, h.bins);
    for_vectors(e, h.bins, h.lanes, sum_vector, &h);
    arena_release(e, arena);
}
