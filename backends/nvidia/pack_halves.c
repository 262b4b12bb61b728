// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Joins two halves to a word in one instruction instead of three. LLVM's NVPTX emits `lo | hi <<
// 16` unchanged.
//
//     zext lo | zext hi << 16              ->  mov.b32 {lo, hi}
//     x & 0xffff | y << 16, and its kin    ->  prmt
#include <llvm-c/DebugInfo.h>

#include "backends/nvidia/nvidia.h"

/// 16 bits: a value of that width, or the lower or upper half of a word.
typedef struct Half {
    LLVMValueRef value; // i16 or i32
    bool upper;         // of an i32
} Half;

static bool is_inst_of(LLVMValueRef v, LLVMOpcode code) {
    return LLVMIsAInstruction(v) && LLVMGetInstructionOpcode(v) == code;
}

/// Whether v is x OP n for a constant n.
static bool is_by(LLVMValueRef v, LLVMOpcode code, uint64_t n, LLVMValueRef *x) {
    if (!is_inst_of(v, code) || !LLVMIsAConstantInt(LLVMGetOperand(v, 1))) return false;
    *x = LLVMGetOperand(v, 0);
    return LLVMConstIntGetZExtValue(LLVMGetOperand(v, 1)) == n;
}

/// v without an extension from 16 bits.
static Half narrow_half(const Gen *g, LLVMValueRef v) {
    bool wide = is_inst_of(v, LLVMZExt) && LLVMTypeOf(LLVMGetOperand(v, 0)) == g->i16;
    return (Half){.value = wide ? LLVMGetOperand(v, 0) : v};
}

/// Whether v is a word whose upper half is 0.
static bool is_low(const Gen *g, LLVMValueRef v, Half *out) {
    LLVMValueRef x;
    if (is_by(v, LLVMAnd, 0xffff, &x))
        *out = (Half){.value = x};
    else if (is_by(v, LLVMLShr, 16, &x))
        *out = (Half){.value = x, .upper = true};
    else
        *out = narrow_half(g, v);
    return out->value != v;
}

/// Whether v is a word whose lower half is 0.
static bool is_high(const Gen *g, LLVMValueRef v, Half *out) {
    LLVMValueRef x;
    if (is_by(v, LLVMAnd, 0xffff0000, &x))
        *out = (Half){.value = x, .upper = true};
    else if (is_by(v, LLVMShl, 16, &x))
        *out = narrow_half(g, x);
    else
        return false;
    return true;
}

static LLVMValueRef word_of_half(const Gen *g, Half h) {
    return LLVMTypeOf(h.value) == g->i16 ? LLVMBuildZExt(g->b, h.value, g->i32, "") : h.value;
}

/// Digits from the right: bytes 0 to 3 are those of the first word, 4 to 7 those of the second.
static LLVMValueRef permute_halves(const Gen *g, Half lo, Half hi) {
    unsigned digits = (hi.upper ? 0x7600 : 0x5400) | (lo.upper ? 0x32 : 0x10);
    LLVMValueRef args[3] = {word_of_half(g, lo), word_of_half(g, hi),
                            LLVMConstInt(g->i32, digits, false)};
    return gen_intrinsic(g, "llvm.nvvm.prmt", 0, NULL, 3, args);
}

static LLVMValueRef join_halves(const Gen *g, Half lo, Half hi) {
    if (LLVMTypeOf(lo.value) != g->i16 || LLVMTypeOf(hi.value) != g->i16)
        return permute_halves(g, lo, hi);
    LLVMValueRef v = LLVMGetPoison(LLVMVectorType(g->i16, 2));
    v = LLVMBuildInsertElement(g->b, v, lo.value, LLVMConstInt(g->i32, 0, false), "");
    v = LLVMBuildInsertElement(g->b, v, hi.value, LLVMConstInt(g->i32, 1, false), "");
    return LLVMBuildBitCast(g->b, v, g->i32, "");
}

static void pack_or(const Gen *g, LLVMValueRef inst) {
    Half lo, hi;
    if (!is_inst_of(inst, LLVMOr) || LLVMTypeOf(inst) != g->i32) return;
    LLVMValueRef a = LLVMGetOperand(inst, 0), b = LLVMGetOperand(inst, 1);
    if (!(is_low(g, a, &lo) && is_high(g, b, &hi)) && !(is_low(g, b, &lo) && is_high(g, a, &hi)))
        return;
    LLVMPositionBuilderBefore(g->b, inst);
    LLVMSetCurrentDebugLocation2(g->b, LLVMInstructionGetDebugLoc(inst));
    LLVMReplaceAllUsesWith(inst, join_halves(g, lo, hi));
    LLVMInstructionEraseFromParent(inst);
}

void nvptx_pack_halves(Gen *g) {
    for (LLVMValueRef fn = LLVMGetFirstFunction(g->module); fn; fn = LLVMGetNextFunction(fn))
        for (LLVMBasicBlockRef b = LLVMGetFirstBasicBlock(fn); b; b = LLVMGetNextBasicBlock(b))
            for (LLVMValueRef i = LLVMGetFirstInstruction(b), next; i; i = next) {
                next = LLVMGetNextInstruction(i);
                pack_or(g, i);
            }
}
