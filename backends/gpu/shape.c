// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Ops that change the coordinates of elements. If the registers of both layouts agree, they need no
// instruction. Otherwise elements go through shared memory, row-major.
#include "backends/gpu/lower.h"

#include <string.h>

/* ---- by coordinates ------------------------------------------------------------------------ */

void gpu_row_major(int rank, const int64_t *extents, int64_t *strides) {
    int64_t n = 1;
    for (int d = rank - 1; d >= 0; d--) {
        strides[d] = n;
        n *= extents[d];
    }
}

LLVMValueRef gpu_linear(GpuFn *f, const Layout *l, int64_t reg, const int64_t *strides,
                        int64_t start) {
    Gen *g = f->g;
    LLVMValueRef sum = NULL;
    for (int d = 0; d < l->rank; d++) {
        LLVMValueRef thread;
        int64_t number;
        if (!strides[d]) continue;
        bool parts = gpu_coord_parts(f, l, reg, d, &thread, &number);
        if (parts) start += number * strides[d];
        if (parts && !thread) continue;
        LLVMValueRef x = parts ? thread : gpu_coord(f, l, reg, d);
        x = gen_mul(g, x, gpu_i32(f, strides[d]));
        sum = sum ? LLVMBuildAdd(g->b, sum, x, "") : x;
    }
    return sum ? gen_add(g, sum, gpu_i32(f, start)) : gpu_i32(f, start);
}

LLVMValueRef gpu_element(GpuFn *f, Elem elem, LLVMValueRef base, LLVMValueRef index) {
    return gpu_offset(f, base, gen_mul(f->g, index, gpu_i32(f, elem_bytes(elem))));
}

void gpu_put(GpuFn *f, const Value *v, LLVMValueRef base, const int64_t *strides, int64_t start) {
    const Layout *l = gpu_layout(f, v);
    Elem elem = v->type->elem;
    LLVMValueRef *regs = gpu_block(f, v), owner = gpu_cta_owner(f, l);
    for (int r = 0; r < gpu_registers(v->type); r++) {
        if (gpu_always_hole(l, r)) continue;
        LLVMValueRef on = gen_and(f->g, owner, gpu_not_hole(f, l, r));
        LLVMValueRef at = gpu_element(f, elem, base, gpu_linear(f, l, r, strides, start));
        gpu_store_shared_if(f, elem, at, 1, &regs[r], on);
    }
}

void gpu_get(GpuFn *f, const Value *v, LLVMValueRef base, const int64_t *strides, int64_t start) {
    const Layout *l = gpu_layout(f, v);
    Elem elem = v->type->elem;
    LLVMValueRef *regs = gpu_new_block(f, v);
    for (int r = 0; r < gpu_registers(v->type); r++) {
        regs[r] = LLVMConstNull(gen_elem(f->g, elem));
        if (gpu_always_hole(l, r)) continue;
        LLVMValueRef index = gpu_linear(f, l, r, strides, start), good = gpu_not_hole(f, l, r);
        if (good) index = LLVMBuildSelect(f->g->b, good, index, gpu_i32(f, 0), "");
        gpu_load_vector(f, elem, gpu_element(f, elem, base, index), 1, &regs[r]);
    }
}

LLVMValueRef gpu_spill(GpuFn *f, const Value *v, int64_t *strides) {
    const Type *t = v->type;
    gpu_row_major(t->rank, t->extents, strides);
    LLVMValueRef base = gpu_shared_alloc(f, ty_count(t) * elem_bytes(t->elem), 16);
    gpu_put(f, v, base, strides, 0);
    gpu_barrier(f);
    return base;
}

/* ---- the ops ------------------------------------------------------------------------------- */

/// Gives the result register reg[r] of the operand; -1: a hole.
static void rename_registers(GpuFn *f, const Op *op, const int64_t *reg) {
    LLVMValueRef *from = gpu_block(f, operand(op, 0)), *to = gpu_new_block(f, result(op, 0));
    for (int r = 0; r < gpu_registers(result(op, 0)->type); r++)
        to[r] = reg[r] < 0 ? LLVMConstNull(gpu_type(f, result(op, 0))) : from[reg[r]];
}

static int64_t *new_map(GpuFn *f, const Value *v) {
    return ctx_array(f->ctx, int64_t, gpu_registers(v->type));
}

/// Matches registers by their coordinates in thread 0, if all threads are alike. Coordinate perm[i]
/// of the operand is coordinate i of the result.
static void rename_permuted(GpuFn *f, const Op *op, const int64_t *perm) {
    const Layout *from = gpu_layout(f, operand(op, 0)), *to = gpu_layout(f, result(op, 0));
    int64_t *reg = new_map(f, result(op, 0)), thread, x[MAX_RANK], y[MAX_RANK];
    for (int r = 0; r < gpu_registers(result(op, 0)->type); r++) {
        layout_at(to, r, 0, x);
        for (int d = 0; d < to->rank; d++) y[perm[d]] = x[d];
        layout_find(from, y, &reg[r], &thread);
    }
    rename_registers(f, op, reg);
}

void gpu_lower_permute(GpuFn *f, Op *op) {
    const Value *x = operand(op, 0), *y = result(op, 0);
    const int64_t *perm = op_ints(op, A_PERM)->ints;
    int way[MAX_RANK];
    for (int d = 0; d < x->type->rank; d++) way[d] = (int)perm[d];
    if (layout_permute(f->ctx, gpu_layout(f, x), way) == gpu_layout(f, y)) {
        rename_permuted(f, op, perm);
        return;
    }
    int64_t strides[MAX_RANK], permuted[MAX_RANK];
    LLVMValueRef base = gpu_spill(f, x, strides);
    for (int d = 0; d < x->type->rank; d++) permuted[d] = strides[perm[d]];
    gpu_get(f, y, base, permuted, 0);
}

void gpu_lower_broadcast(GpuFn *f, Op *op) {
    const Value *x = operand(op, 0), *y = result(op, 0);
    if (x->type->rank == 0) {
        LLVMValueRef one = gpu_scalar(f, x), *out = gpu_new_block(f, y);
        for (int r = 0; r < gpu_registers(y->type); r++) out[r] = one;
        return;
    }
    int64_t *reg = new_map(f, y);
    if (layout_registers_from(gpu_layout(f, x), gpu_layout(f, y), NULL, reg)) {
        rename_registers(f, op, reg);
        return;
    }
    int64_t strides[MAX_RANK];
    LLVMValueRef base = gpu_spill(f, x, strides);
    for (int d = 0; d < x->type->rank; d++)
        if (x->type->extents[d] == 1) strides[d] = 0;
    gpu_get(f, y, base, strides, 0);
}

/// Matches registers by the row-major number of their element, which a reshape keeps.
static void rename_reshaped(GpuFn *f, const Op *op) {
    const Value *from = operand(op, 0), *to = result(op, 0);
    const Layout *l = gpu_layout(f, to);
    int64_t *reg = new_map(f, to), thread;
    for (int r = 0; r < gpu_registers(to->type); r++) {
        int64_t x[MAX_RANK], n = 0;
        layout_at(l, r, 0, x);
        reg[r] = -1;
        if (layout_is_hole(l, x)) continue;
        for (int d = 0; d < l->rank; d++) n = n * l->extents[d] + x[d];
        for (int d = from->type->rank - 1; d >= 0; n /= from->type->extents[d], d--)
            x[d] = n % from->type->extents[d];
        layout_find(gpu_layout(f, from), x, &reg[r], &thread);
    }
    rename_registers(f, op, reg);
}

/// Every thread has the only element in register 0, since a box of 1 has no bits.
static bool is_in_every_thread(const Value *v) {
    for (int d = 0; d < v->type->rank; d++)
        if (layout_box(v->type->layout, d) > 1) return false;
    return true;
}

/// Reshapes a block of one element, perhaps a scalar.
static void reshape_one(GpuFn *f, const Op *op) {
    const Value *x = operand(op, 0), *y = result(op, 0);
    LLVMValueRef *out = gpu_new_block(f, y), one = gpu_block(f, x)[0];
    if (!is_in_every_thread(x)) {
        int64_t strides[MAX_RANK];
        gpu_load_vector(f, x->type->elem, gpu_spill(f, x, strides), 1, &one);
    }
    for (int r = 0; r < gpu_registers(y->type); r++) out[r] = one;
}

void gpu_lower_reshape(GpuFn *f, Op *op) {
    const Value *x = operand(op, 0), *y = result(op, 0);
    if (ty_count(x->type) == 1) {
        reshape_one(f, op);
        return;
    }
    const Layout *to = gpu_layout(f, y);
    if (layout_reshape(f->ctx, gpu_layout(f, x), to->rank, to->extents) == to) {
        rename_reshaped(f, op);
        return;
    }
    int64_t strides[MAX_RANK];
    LLVMValueRef base = gpu_spill(f, x, strides);
    gpu_row_major(y->type->rank, y->type->extents, strides);
    gpu_get(f, y, base, strides, 0);
}

static int64_t strided_offset(int rank, const int64_t *strides, const int64_t *start) {
    int64_t sum = 0;
    for (int d = 0; d < rank; d++) sum += strides[d] * start[d];
    return sum;
}

void gpu_lower_slice(GpuFn *f, Op *op) {
    const Value *x = operand(op, 0), *y = result(op, 0);
    const int64_t *start = op_ints(op, A_START)->ints;
    int64_t *reg = new_map(f, y), strides[MAX_RANK];
    if (layout_registers_from(gpu_layout(f, x), gpu_layout(f, y), start, reg)) {
        rename_registers(f, op, reg);
        return;
    }
    LLVMValueRef base = gpu_spill(f, x, strides);
    gpu_get(f, y, base, strides, strided_offset(x->type->rank, strides, start));
}

/// Returns false if some element would change its thread.
static bool concat_renames(GpuFn *f, const Op *op, int axis) {
    const Value *y = result(op, 0);
    const Layout *to = gpu_layout(f, y);
    LLVMValueRef *out = ctx_array(f->ctx, LLVMValueRef, gpu_registers(y->type));
    int64_t start[MAX_RANK] = {0}, *reg = new_map(f, y), x[MAX_RANK];
    for (int i = 0; i < op->n_operands; i++) {
        const Value *part = operand(op, i);
        if (!layout_registers_from(gpu_layout(f, part), to, start, reg)) return false;
        for (int r = 0; r < gpu_registers(y->type); r++) {
            layout_at(to, r, 0, x);
            if (x[axis] >= -start[axis] && reg[r] >= 0) out[r] = gpu_block(f, part)[reg[r]];
        }
        start[axis] -= part->type->extents[axis];
    }
    for (int r = 0; r < gpu_registers(y->type); r++)
        if (!out[r]) out[r] = LLVMConstNull(gpu_type(f, y));
    gpu_set_block(f, y, out);
    return true;
}

void gpu_lower_concat(GpuFn *f, Op *op) {
    const Value *y = result(op, 0);
    int axis = (int)op_int(op, A_AXIS, 0);
    if (concat_renames(f, op, axis)) return;
    int64_t strides[MAX_RANK], start = 0;
    gpu_row_major(y->type->rank, y->type->extents, strides);
    LLVMValueRef base = gpu_shared_alloc(f, ty_count(y->type) * elem_bytes(y->type->elem), 16);
    for (int i = 0; i < op->n_operands; i++) {
        gpu_put(f, operand(op, i), base, strides, start * strides[axis]);
        start += operand(op, i)->type->extents[axis];
    }
    gpu_barrier(f);
    gpu_get(f, y, base, strides, 0);
}
