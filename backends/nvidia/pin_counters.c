// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Keeps LLVM from giving each address of a loop a register of its own. Its strength reduction
// ignores the cost of registers. They are scarce in a loop that carries a block of accumulators,
// and ptxas does not undo it. So the counter of these loops goes through a `mov` that is opaque to
// LLVM, but not to ptxas.
#include <llvm-c/DebugInfo.h>
#include <stddef.h>

#include "backends/nvidia/nvidia.h"

static int words_of_type(LLVMTypeRef t) {
    switch (LLVMGetTypeKind(t)) {
    case LLVMPointerTypeKind:
    case LLVMDoubleTypeKind: return 2;
    case LLVMIntegerTypeKind: return LLVMGetIntTypeWidth(t) == 64 ? 2 : 1;
    case LLVMVectorTypeKind:
        return (int)LLVMGetVectorSize(t) * words_of_type(LLVMGetElementType(t));
    case LLVMStructTypeKind: {
        int n = 0;
        for (unsigned i = 0; i < LLVMCountStructElementTypes(t); i++)
            n += words_of_type(LLVMStructGetTypeAtIndex(t, i));
        return n;
    }
    default: return 1;
    }
}

static LLVMValueRef next_phi(LLVMValueRef inst) {
    return inst && LLVMIsAPHINode(inst) ? inst : NULL;
}

int nv_carried_words(LLVMBasicBlockRef b) {
    int n = 0;
    for (LLVMValueRef i = LLVMGetFirstInstruction(b); next_phi(i); i = LLVMGetNextInstruction(i))
        n += words_of_type(LLVMTypeOf(i));
    return n;
}

static bool has_operand(LLVMValueRef v, LLVMValueRef x) {
    return LLVMGetOperand(v, 0) == x || LLVMGetOperand(v, 1) == x;
}

bool nv_is_counter(const Gen *g, LLVMValueRef phi) {
    LLVMTypeRef t = LLVMTypeOf(phi);
    if (t != g->i32 && t != g->i64) return false;
    for (unsigned i = 0; i < LLVMCountIncoming(phi); i++) {
        LLVMValueRef v = LLVMGetIncomingValue(phi, i);
        if (LLVMIsAInstruction(v) && LLVMGetInstructionOpcode(v) == LLVMAdd && has_operand(v, phi))
            return true;
    }
    return false;
}

/// Replaces all uses of the phi by its copy.
static void hide_phi(const Gen *g, LLVMValueRef phi, LLVMValueRef before) {
    LLVMTypeRef t = LLVMTypeOf(phi), type = LLVMFunctionType(t, &t, 1, false);
    bool wide = t == g->i64;
    const char *text = wide ? "mov.b64 $0, $1;" : "mov.b32 $0, $1;";
    LLVMPositionBuilderBefore(g->b, before);
    LLVMSetCurrentDebugLocation2(g->b, NULL);
    LLVMValueRef code = LLVMGetInlineAsm(type, text, 15, wide ? "=l,l" : "=r,r", 4, false, false,
                                         LLVMInlineAsmDialectATT, false);
    LLVMValueRef unset = LLVMGetUndef(t), copy = LLVMBuildCall2(g->b, type, code, &unset, 1, "");
    LLVMReplaceAllUsesWith(phi, copy);
    LLVMSetOperand(copy, 0, phi);
}

static void hide_counters(const Gen *g, LLVMBasicBlockRef b) {
    LLVMValueRef first = LLVMGetFirstInstruction(b), body = first;
    while (next_phi(body)) body = LLVMGetNextInstruction(body);
    for (LLVMValueRef i = first; next_phi(i); i = LLVMGetNextInstruction(i))
        if (nv_is_counter(g, i)) hide_phi(g, i, body);
}

void nvptx_pin_counters(Gen *g) {
    for (LLVMValueRef fn = LLVMGetFirstFunction(g->module); fn; fn = LLVMGetNextFunction(fn))
        for (LLVMBasicBlockRef b = LLVMGetFirstBasicBlock(fn); b; b = LLVMGetNextBasicBlock(b))
            if (nv_carried_words(b) > NV_FEW_WORDS) hide_counters(g, b);
}
