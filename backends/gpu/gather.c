// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Gather and histogram, through shared memory.
#include "backends/gpu/block_elements.h"
#include "backends/gpu/ops.h"

static void row_major(const Type *t, int64_t *strides) {
    int64_t n = 1;
    for (int d = t->rank - 1; d >= 0; d--) {
        strides[d] = n;
        n *= t->extents[d];
    }
}

static LLVMValueRef zero_of(GpuFn *f, Elem elem) {
    return LLVMConstNull(gen_elem(f->g, elem));
}

/* ---- gather -------------------------------------------------------------------------------- */

typedef struct GpuGather {
    const Layout *from, *to;
    int axis;
    int64_t strides[MAX_RANK], extent; // of x
} GpuGather;

static void put_gather_piece(GpuFn *f, const GpuGather *s, const GpuFlat *flat, const GpuPieces *p,
                             LLVMValueRef *x) {
    for (int64_t r = 0; r < layout_registers(s->from); r++) {
        LLVMValueRef on = gpu_writes(f, s->from, r);
        LLVMValueRef at = gpu_in_piece(f, p, gpu_block_elements(f, s->from, r, s->strides), &on);
        if (!gpu_always_hole(s->from, r)) gpu_elements_store(f, flat, at, on, x[r]);
    }
}

/// Picks element `index` along the axis. An index outside of the axis leaves the register as it is.
static LLVMValueRef pick_element(GpuFn *f, const GpuGather *s, const GpuFlat *flat,
                                 const GpuPieces *p, int64_t r, LLVMValueRef index,
                                 LLVMValueRef otherwise) {
    const Gen *g = f->g;
    int64_t others[MAX_RANK];
    for (int d = 0; d < s->to->rank; d++) others[d] = d == s->axis ? 0 : s->strides[d];
    LLVMValueRef on = LLVMBuildICmp(g->b, LLVMIntULT, index, gen_i64(g, s->extent), "");
    on = gen_and(g, on, gpu_not_hole(f, s->to, r));
    LLVMValueRef at = LLVMBuildTrunc(g->b, index, g->i32, "");
    at = gen_mul(g, at, gpu_i32(f, s->strides[s->axis]));
    at = gen_add(g, at, gpu_block_elements(f, s->to, r, others));
    at = gpu_in_piece(f, p, at, &on);
    LLVMValueRef x = gpu_elements_load(f, flat, LLVMBuildSelect(g->b, on, at, gpu_i32(f, 0), ""));
    return LLVMBuildSelect(g->b, on, x, otherwise, "");
}

void gpu_lower_gather(GpuFn *f, Op *op) {
    const Value *x = operand(op, 0), *index = operand(op, 1);
    Elem elem = x->type->elem;
    GpuGather s = {.from = gpu_layout(f, x), .to = gpu_layout(f, index)};
    s.axis = (int)op_int(op, A_AXIS, 0);
    s.extent = x->type->extents[s.axis];
    row_major(x->type, s.strides);
    int n = (int)layout_registers(s.to);
    LLVMValueRef *out = ctx_array(f->ctx, LLVMValueRef, n), *at = gpu_block(f, index);
    for (int r = 0; r < n; r++) out[r] = zero_of(f, elem);
    int64_t count = ty_count(x->type), piece = GPU_PIECE_BYTES / elem_bytes(elem);
    GpuFlat flat = gpu_elements_alloc(f, elem, count < piece ? count : piece);
    GpuPieces p = gpu_pieces(f, count, piece, n, out);
    LLVMValueRef *next = ctx_array(f->ctx, LLVMValueRef, n);
    put_gather_piece(f, &s, &flat, &p, gpu_block(f, x));
    gpu_barrier(f);
    for (int r = 0; r < n; r++) next[r] = pick_element(f, &s, &flat, &p, r, at[r], p.carried[r]);
    gpu_pieces_end(f, &p, next);
    gpu_set_block(f, result(op, 0), p.carried);
}

/* ---- histogram ----------------------------------------------------------------------------- */

/// Converts the integer to an i32 bin. *on is false if it is not one of the n bins.
static LLVMValueRef bin_of(GpuFn *f, Elem elem, LLVMValueRef x, int64_t n, LLVMValueRef *on) {
    const Gen *g = f->g;
    LLVMValueRef wide = gen_cast(g, elem, EL_I64, x);
    LLVMValueRef in = LLVMBuildICmp(g->b, LLVMIntULT, wide, gen_i64(g, n), "");
    *on = gen_and(g, *on, in);
    return LLVMBuildTrunc(g->b, wide, g->i32, "");
}

static void count_piece(GpuFn *f, const Op *op, const GpuPieces *p, LLVMValueRef base) {
    const Gen *g = f->g;
    const Value *x = operand(op, 0);
    const Layout *l = gpu_layout(f, x);
    LLVMValueRef *mask = op->n_operands > 1 ? gpu_block(f, operand(op, 1)) : NULL;
    for (int64_t r = 0; r < layout_registers(l); r++) {
        LLVMValueRef on = gen_and(g, mask ? mask[r] : NULL, gpu_writes(f, l, r));
        if (gpu_always_hole(l, r)) continue;
        LLVMValueRef bin = bin_of(f, x->type->elem, gpu_block(f, x)[r], p->count, &on);
        bin = gpu_in_piece(f, p, bin, &on);
        LLVMValueRef at = gen_add(g, base, gen_mul(g, bin, gpu_i32(f, 4)));
        gpu_call(f, "tg.atomic.shared.add.i32.cta", 3, at, on, gpu_i32(f, 1));
    }
}

void gpu_lower_histogram(GpuFn *f, Op *op) {
    const Gen *g = f->g;
    const Value *y = result(op, 0);
    const Layout *l = gpu_layout(f, y);
    int n = (int)layout_registers(l);
    const int64_t stride = 1;
    LLVMValueRef *out = ctx_array(f->ctx, LLVMValueRef, n),
                 *next = ctx_array(f->ctx, LLVMValueRef, n);
    for (int r = 0; r < n; r++) out[r] = gpu_i32(f, 0);
    int64_t count = y->type->extents[0], piece = GPU_PIECE_BYTES / 4;
    GpuFlat flat = gpu_elements_alloc(f, EL_I32, count < piece ? count : piece);
    GpuPieces p = gpu_pieces(f, count, piece, n, out);
    gpu_elements_fill(f, &flat, gpu_i32(f, 0));
    gpu_barrier(f);
    count_piece(f, op, &p, gpu_shared_addr(f, flat.base));
    gpu_barrier(f);
    for (int r = 0; r < n; r++) {
        LLVMValueRef on = gpu_not_hole(f, l, r);
        LLVMValueRef at = gpu_in_piece(f, &p, gpu_block_elements(f, l, r, &stride), &on);
        if (on) at = LLVMBuildSelect(g->b, on, at, gpu_i32(f, 0), "");
        LLVMValueRef x = gpu_elements_load(f, &flat, at);
        next[r] = on ? LLVMBuildSelect(g->b, on, x, p.carried[r], "") : x;
    }
    gpu_pieces_end(f, &p, next);
    gpu_set_block(f, y, p.carried);
}
