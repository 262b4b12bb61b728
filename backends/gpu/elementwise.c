// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Constants, and ops that compute each register from the same register of their operands.
#include "backends/gpu/lower.h"

enum { MAX_OPERANDS = 3 };

/// Returns an earlier register with the same operands as register r, or -1. Broadcast blocks have
/// few distinct registers.
static int earlier_same_operands(LLVMValueRef *const *args, int n, int r) {
    for (int q = 0; q < r; q++) {
        bool same = true;
        for (int i = 0; i < n && same; i++) same = args[i][q] == args[i][r];
        if (same) return q;
    }
    return -1;
}

/// Computes the distinct registers. args is [operand][register].
typedef void LaneFunction(GpuFn *f, const Op *op, int n, LLVMValueRef **args, LLVMValueRef *out);

static void map_lanes(GpuFn *f, Op *op, LaneFunction *lanes) {
    LLVMValueRef *args[MAX_OPERANDS], *few[MAX_OPERANDS];
    LLVMValueRef *out = gpu_new_block(f, result(op, 0));
    int n = op->n_operands, registers = (int)gpu_registers(result(op, 0)->type), count = 0;
    int *where = ctx_array(f->ctx, int, registers);
    LLVMValueRef *made = ctx_array(f->ctx, LLVMValueRef, registers);
    for (int i = 0; i < n; i++) {
        args[i] = gpu_block(f, operand(op, i));
        few[i] = ctx_array(f->ctx, LLVMValueRef, registers);
    }
    for (int r = 0; r < registers; r++) {
        int q = earlier_same_operands(args, n, r);
        where[r] = q >= 0 ? where[q] : count++;
        for (int i = 0; i < n; i++) few[i][where[r]] = args[i][r];
    }
    lanes(f, op, count, few, made);
    for (int r = 0; r < registers; r++) out[r] = made[where[r]];
}

static void compute_lanes(GpuFn *f, const Op *op, int n, LLVMValueRef **args, LLVMValueRef *out) {
    gen_elementwise_all(f->g, op->code, operand(op, 0)->type->elem, n, args, out);
}

static void cast_lanes(GpuFn *f, const Op *op, int n, LLVMValueRef **args, LLVMValueRef *out) {
    gen_cast_all(f->g, operand(op, 0)->type->elem, result(op, 0)->type->elem, n, args[0], out);
}

static void bitcast_lanes(GpuFn *f, const Op *op, int n, LLVMValueRef **args, LLVMValueRef *out) {
    Elem from = operand(op, 0)->type->elem, to = result(op, 0)->type->elem;
    for (int r = 0; r < n; r++) out[r] = gen_bitcast(f->g, from, to, args[0][r]);
}

static void select_lanes(GpuFn *f, const Op *op, int n, LLVMValueRef **args, LLVMValueRef *out) {
    (void)op;
    for (int r = 0; r < n; r++) out[r] = gen_select(f->g, args[0][r], args[1][r], args[2][r]);
}

void gpu_lower_elementwise(GpuFn *f, Op *op) {
    map_lanes(f, op, compute_lanes);
}
void gpu_lower_cast(GpuFn *f, Op *op) {
    map_lanes(f, op, cast_lanes);
}
void gpu_lower_bitcast(GpuFn *f, Op *op) {
    map_lanes(f, op, bitcast_lanes);
}
void gpu_lower_select(GpuFn *f, Op *op) {
    map_lanes(f, op, select_lanes);
}

void gpu_lower_const(GpuFn *f, Op *op) {
    LLVMValueRef x = gen_const(f->g, result(op, 0)->type->elem, op_const(op, A_VALUE));
    LLVMValueRef *out = gpu_new_block(f, result(op, 0));
    for (int r = 0; r < gpu_registers(result(op, 0)->type); r++) out[r] = x;
}

/// Lanes wrap to narrow integers like any cast.
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
    gpu_set_scalar(f, result(op, 0), t->dims[op_int(op, A_AXIS, 0)]);
}

void gpu_lower_stride(GpuFn *f, Op *op) {
    const GpuTensor *t = gpu_tensor(f, operand(op, 0));
    gpu_set_scalar(f, result(op, 0), t->strides[op_int(op, A_AXIS, 0)]);
}

/// The lowest set bit of the address.
void gpu_lower_align(GpuFn *f, Op *op) {
    LLVMBuilderRef b = f->g->b;
    LLVMValueRef at = gpu_call(f, "tg.global.addr", 1, gpu_tensor(f, operand(op, 0))->data);
    gpu_set_scalar(f, result(op, 0), LLVMBuildAnd(b, at, LLVMBuildNeg(b, at, ""), ""));
}
