// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Replaces instructions that LLVM's quick instruction selection does not support. Everything before
// such an instruction in its block would go through the slow selection.
#include <string.h>

#include "backends/sim/machine.h"

typedef LLVMValueRef Rewrite(Gen *g, LLVMValueRef call);

/// Returns the greater (OGT) or lesser (OLT) value. Of equal values it returns the first, and of a
/// number and a NaN the number.
static LLVMValueRef quick_extreme(Gen *g, LLVMValueRef call, LLVMRealPredicate better) {
    LLVMValueRef a = LLVMGetOperand(call, 0), b = LLVMGetOperand(call, 1);
    LLVMValueRef second = LLVMBuildFCmp(g->b, better, b, a, "");
    LLVMValueRef none = LLVMBuildFCmp(g->b, LLVMRealUNO, a, a, "");
    LLVMValueRef v = LLVMBuildSelect(g->b, second, b, a, "");
    return LLVMBuildSelect(g->b, none, b, v, "");
}

static LLVMValueRef quick_max(Gen *g, LLVMValueRef call) {
    return quick_extreme(g, call, LLVMRealOGT);
}

static LLVMValueRef quick_min(Gen *g, LLVMValueRef call) {
    return quick_extreme(g, call, LLVMRealOLT);
}

static LLVMValueRef bitcast_to(Gen *g, LLVMValueRef v, LLVMTypeRef type) {
    return LLVMBuildBitCast(g->b, v, type, "");
}

/// Returns v with the sign of `sign`, or without a sign if that is NULL.
static LLVMValueRef with_sign(Gen *g, LLVMValueRef v, LLVMValueRef sign) {
    LLVMTypeRef type = LLVMTypeOf(v);
    bool wide = LLVMGetTypeKind(type) == LLVMDoubleTypeKind;
    LLVMTypeRef bits = wide ? g->i64 : g->i32;
    LLVMValueRef top = LLVMConstInt(bits, (uint64_t)1 << (wide ? 63 : 31), false);
    LLVMValueRef size = LLVMBuildAnd(g->b, bitcast_to(g, v, bits), LLVMConstNot(top), "");
    if (sign) {
        sign = LLVMBuildAnd(g->b, bitcast_to(g, sign, bits), top, "");
        size = LLVMBuildOr(g->b, size, sign, "");
    }
    return bitcast_to(g, size, type);
}

static LLVMValueRef quick_abs(Gen *g, LLVMValueRef call) {
    return with_sign(g, LLVMGetOperand(call, 0), NULL);
}

static LLVMValueRef quick_copysign(Gen *g, LLVMValueRef call) {
    return with_sign(g, LLVMGetOperand(call, 0), LLVMGetOperand(call, 1));
}

static const struct {
    const char *name;
    Rewrite *rewrite;
} known[] = {
    {"llvm.maxnum.f32", quick_max},        {"llvm.maxnum.f64", quick_max},
    {"llvm.minnum.f32", quick_min},        {"llvm.minnum.f64", quick_min},
    {"llvm.fabs.f32", quick_abs},          {"llvm.fabs.f64", quick_abs},
    {"llvm.copysign.f32", quick_copysign}, {"llvm.copysign.f64", quick_copysign},
};

static LLVMValueRef rewrite_slow_op(Gen *g, LLVMValueRef op) {
    if (LLVMGetInstructionOpcode(op) == LLVMAddrSpaceCast) {
        LLVMValueRef bits = LLVMBuildPtrToInt(g->b, LLVMGetOperand(op, 0), g->i64, "");
        return LLVMBuildIntToPtr(g->b, bits, LLVMTypeOf(op), "");
    }
    const char *name = LLVMGetValueName2(LLVMGetCalledValue(op), &(size_t){0});
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strcmp(known[i].name, name) == 0) return known[i].rewrite(g, op);
    return NULL;
}

void sim_fast_selection_forms(Gen *g) {
    for (LLVMValueRef f = LLVMGetFirstFunction(g->module); f; f = LLVMGetNextFunction(f))
        for (LLVMBasicBlockRef b = LLVMGetFirstBasicBlock(f); b; b = LLVMGetNextBasicBlock(b))
            for (LLVMValueRef op = LLVMGetFirstInstruction(b), next; op; op = next) {
                next = LLVMGetNextInstruction(op);
                LLVMOpcode code = LLVMGetInstructionOpcode(op);
                if (code != LLVMAddrSpaceCast && code != LLVMCall) continue;
                LLVMPositionBuilderBefore(g->b, op);
                LLVMValueRef v = rewrite_slow_op(g, op);
                if (!v) continue;
                LLVMReplaceAllUsesWith(op, v);
                LLVMInstructionEraseFromParent(op);
            }
}
