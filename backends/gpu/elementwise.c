// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Ops that compute each register from the same register of their operands, and constants.
#include "backends/gpu/lower.h"

enum { MAX_OPERANDS = 3 };

/// An earlier register with the same operands as register r, or -1: blocks that are broadcast have
/// few different ones.
static int same_operands(LLVMValueRef *const *args, int n, int r) {
    for (int q = 0; q < r; q++) {
        bool same = true;
        for (int i = 0; i < n && same; i++) same = args[i][q] == args[i][r];
        if (same) return q;
    }
    return -1;
}

typedef LLVMValueRef Lane(GpuFn *f, const Op *op, LLVMValueRef *args);

static void map_lanes(GpuFn *f, Op *op, Lane *lane) {
    LLVMValueRef *args[MAX_OPERANDS], *out = gpu_new_block(f, result(op, 0));
    int n = op->n_operands;
    for (int i = 0; i < n; i++) args[i] = gpu_block(f, operand(op, i));
    for (int r = 0; r < gpu_registers(result(op, 0)->type); r++) {
        LLVMValueRef x[MAX_OPERANDS];
        int q = same_operands(args, n, r);
        for (int i = 0; i < n; i++) x[i] = args[i][r];
        out[r] = q >= 0 ? out[q] : lane(f, op, x);
    }
}

static LLVMValueRef compute(GpuFn *f, const Op *op, LLVMValueRef *args) {
    return gen_elementwise(f->g, op->code, operand(op, 0)->type->elem, args);
}

static LLVMValueRef cast(GpuFn *f, const Op *op, LLVMValueRef *args) {
    return gen_cast(f->g, operand(op, 0)->type->elem, result(op, 0)->type->elem, args[0]);
}

static LLVMValueRef bitcast(GpuFn *f, const Op *op, LLVMValueRef *args) {
    return gen_bitcast(f->g, operand(op, 0)->type->elem, result(op, 0)->type->elem, args[0]);
}

static LLVMValueRef choose(GpuFn *f, const Op *op, LLVMValueRef *args) {
    (void)op;
    return gen_select(f->g, args[0], args[1], args[2]);
}

void gpu_lower_elementwise(GpuFn *f, Op *op) {
    map_lanes(f, op, compute);
}
void gpu_lower_cast(GpuFn *f, Op *op) {
    map_lanes(f, op, cast);
}
void gpu_lower_bitcast(GpuFn *f, Op *op) {
    map_lanes(f, op, bitcast);
}
void gpu_lower_select(GpuFn *f, Op *op) {
    map_lanes(f, op, choose);
}

void gpu_lower_const(GpuFn *f, Op *op) {
    LLVMValueRef x = gen_const(f->g, result(op, 0)->type->elem, op_attr(op, "value"));
    LLVMValueRef *out = gpu_new_block(f, result(op, 0));
    for (int r = 0; r < gpu_registers(result(op, 0)->type); r++) out[r] = x;
}

/// Lanes wrap to narrow integers as any cast does.
void gpu_lower_iota(GpuFn *f, Op *op) {
    const Value *v = result(op, 0);
    const Layout *l = gpu_layout(f, v);
    LLVMValueRef *out = gpu_new_block(f, v);
    for (int r = 0; r < gpu_registers(v->type); r++)
        out[r] = gen_cast(f->g, EL_U32, v->type->elem, gpu_coord(f, l, r, 0));
}

/* ---- tensors' numbers ---------------------------------------------------------------------- */

void gpu_lower_dim(GpuFn *f, Op *op) {
    const GpuTensor *t = gpu_tensor(f, operand(op, 0));
    gpu_set_scalar(f, result(op, 0), t->dims[op_int(op, "axis", 0)]);
}

void gpu_lower_stride(GpuFn *f, Op *op) {
    const GpuTensor *t = gpu_tensor(f, operand(op, 0));
    gpu_set_scalar(f, result(op, 0), t->strides[op_int(op, "axis", 0)]);
}
