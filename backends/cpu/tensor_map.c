// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Tensor maps of the host code: `desc` becomes a call through tg_env, which fills 128 bytes on the
// stack. Dispatches pass them on.
//
// For an axis with one element any stride is right, but hardware requires multiples of 16 bytes. A
// tensor without elements is never copied and gets no map.
#include "backends/cpu/emit.h"
#include "runtime/abi.h"

enum { MAP_SLOTS = TG_TENSORMAP_BYTES / 8, MAP_ALIGN = 64, STRIDE_BYTES = 16 };

static const uint8_t map_types[EL_COUNT] = {
    [EL_I8] = TG_MAP_U8,     [EL_U8] = TG_MAP_U8,   [EL_BOOL] = TG_MAP_U8, [EL_F8E4M3] = TG_MAP_U8,
    [EL_F8E5M2] = TG_MAP_U8, [EL_I16] = TG_MAP_U16, [EL_U16] = TG_MAP_U16, [EL_F16] = TG_MAP_F16,
    [EL_BF16] = TG_MAP_BF16, [EL_I32] = TG_MAP_I32, [EL_U32] = TG_MAP_U32, [EL_F32] = TG_MAP_F32,
    [EL_I64] = TG_MAP_I64,   [EL_U64] = TG_MAP_U64, [EL_F64] = TG_MAP_F64,
};

static LLVMValueRef byte_array(const Gen *g, const uint8_t *x, int n) {
    LLVMValueRef bytes[16];
    for (int i = 0; i < n; i++) bytes[i] = LLVMConstInt(g->i8, x[i], false);
    return LLVMConstArray2(g->i8, bytes, (uint64_t)n);
}

/// Builds the constant tg_tensormap: the contiguous dimension first, then the others from the last
/// one.
static LLVMValueRef how_to_map(Emit *e, const Op *op) {
    Gen *g = e->g;
    const Type *t = result(op, 0)->type;
    uint8_t type = op_attr(op, ATTR_ROUND_TO) ? TG_MAP_TF32 : map_types[t->elem];
    uint8_t head[4] = {type, (uint8_t)t->rank, (uint8_t)t->swizzle, 0}, axes[8] = {0};
    LLVMValueRef box[5];
    int n = 0;
    for (int d = t->rank; d >= 0; d--) {
        int axis = d == t->rank ? t->inner : d;
        if (d < t->rank && axis == t->inner) continue;
        axes[n] = (uint8_t)axis;
        box[n++] = LLVMConstInt(g->i32, (uint64_t)t->extents[axis], false);
    }
    while (n < 5) box[n++] = LLVMConstInt(g->i32, 0, false);
    LLVMValueRef parts[] = {byte_array(g, head, 4), byte_array(g, axes, 8),
                            LLVMConstArray2(g->i32, box, 5)};
    LLVMValueRef data = LLVMConstStructInContext(g->llvm, parts, 3, false);
    LLVMValueRef global = LLVMAddGlobal(g->module, LLVMTypeOf(data), "map");
    LLVMSetInitializer(global, data);
    LLVMSetGlobalConstant(global, true);
    LLVMSetLinkage(global, LLVMPrivateLinkage);
    return global;
}

/// Stores the tensor's dims and strides as arrays on the stack. Returns an i1: the tensor has
/// elements.
static LLVMValueRef store_shape(Emit *e, const Value *tensor, LLVMValueRef dims,
                                LLVMValueRef strides) {
    Gen *g = e->g;
    const TensorRef *t = emit_tensor(e, tensor);
    const Type *type = tensor->type;
    LLVMValueRef some = LLVMConstInt(g->i1, 1, false);
    LLVMValueRef any = gen_i64(g, STRIDE_BYTES * 8 / elem_info[type->elem].bits);
    for (int d = 0; d < type->rank; d++) {
        LLVMValueRef at = gen_i64(g, 8 * (int64_t)d), stride = t->strides[d];
        LLVMValueRef one = LLVMBuildICmp(g->b, LLVMIntSLE, t->dims[d], gen_i64(g, 1), "");
        stride = LLVMBuildSelect(g->b, one, any, stride, "");
        LLVMBuildStore(g->b, t->dims[d], gen_offset(g, dims, at));
        LLVMBuildStore(g->b, stride, gen_offset(g, strides, at));
        LLVMValueRef here = LLVMBuildICmp(g->b, LLVMIntSGT, t->dims[d], gen_i64(g, 0), "");
        some = LLVMBuildAnd(g->b, some, here, "");
    }
    return some;
}

void lower_desc(Emit *e, Op *op) {
    Gen *g = e->g;
    const Type *t = result(op, 0)->type;
    LLVMValueRef map = stack_slots(e, MAP_SLOTS), dims = stack_slots(e, t->rank);
    LLVMValueRef strides = stack_slots(e, t->rank);
    LLVMSetAlignment(map, MAP_ALIGN);
    LLVMValueRef some = store_shape(e, operand(op, 0), dims, strides);
    LLVMValueRef args[6] = {e->env, how_to_map(e, op), emit_tensor(e, operand(op, 0))->data,
                            dims,   strides,           map};
    LLVMBasicBlockRef make = emit_block(e, "map"), on = emit_block(e, "mapped");
    LLVMBuildCondBr(g->b, some, make, on);
    LLVMPositionBuilderAtEnd(g->b, make);
    return_if_failed(e, env_call(e, ENV_TENSORMAP, 6, args));
    LLVMBuildBr(g->b, on);
    LLVMPositionBuilderAtEnd(g->b, on);
    bind_scalar(e, result(op, 0), map);
}
