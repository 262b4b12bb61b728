// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Finds words that are split into parts and joined again with each part at its old place, and uses
// the unsplit word instead. Blocks are lowered to scalars, so a word of two f16 or four f8 is split
// after its load and joined before its store. LLVM cannot undo this once it has turned the shifts
// into vector elements.
//
//     zext(trunc x) | zext(trunc(x >> 16)) << 16  ->  x
#include "backends/amdgpu/amdgpu.h"

static bool is_llvm_op(LLVMValueRef v, LLVMOpcode code) {
    return LLVMIsAInstruction(v) && LLVMGetInstructionOpcode(v) == code;
}

/// Returns v without a shift by a constant, which is added to *bits.
static LLVMValueRef without_shift(LLVMValueRef v, LLVMOpcode shift, unsigned *bits) {
    if (!is_llvm_op(v, shift) || !LLVMIsAConstantInt(LLVMGetOperand(v, 1))) return v;
    *bits += (unsigned)LLVMConstIntGetZExtValue(LLVMGetOperand(v, 1));
    return LLVMGetOperand(v, 0);
}

/// Returns the word whose bits v holds at their places, with zeros elsewhere. Adds the bits to
/// *mask. NULL: none.
static LLVMValueRef word_of_bits(LLVMValueRef v, uint32_t *mask) {
    if (is_llvm_op(v, LLVMOr)) {
        LLVMValueRef x = word_of_bits(LLVMGetOperand(v, 0), mask);
        return x && x == word_of_bits(LLVMGetOperand(v, 1), mask) ? x : NULL;
    }
    unsigned up = 0, down = 0;
    v = without_shift(v, LLVMShl, &up);
    if (!is_llvm_op(v, LLVMZExt)) return NULL;
    v = LLVMGetOperand(v, 0);
    while (is_llvm_op(v, LLVMBitCast)) v = LLVMGetOperand(v, 0);
    if (!is_llvm_op(v, LLVMTrunc) || LLVMGetTypeKind(LLVMTypeOf(v)) != LLVMIntegerTypeKind)
        return NULL;
    unsigned width = LLVMGetIntTypeWidth(LLVMTypeOf(v));
    v = without_shift(LLVMGetOperand(v, 0), LLVMLShr, &down);
    if (up != down || width >= 32 || up + width > 32) return NULL;
    *mask |= ((UINT32_C(1) << width) - 1) << up;
    return v;
}

void amd_join_words(const Gen *g, LLVMValueRef function) {
    for (LLVMBasicBlockRef b = LLVMGetFirstBasicBlock(function); b; b = LLVMGetNextBasicBlock(b))
        for (LLVMValueRef i = LLVMGetFirstInstruction(b), next; i; i = next) {
            uint32_t mask = 0;
            next = LLVMGetNextInstruction(i);
            if (!is_llvm_op(i, LLVMOr) || LLVMTypeOf(i) != g->i32) continue;
            LLVMValueRef x = word_of_bits(i, &mask);
            if (!x || LLVMTypeOf(x) != g->i32 || ~mask) continue;
            LLVMReplaceAllUsesWith(i, x);
            LLVMInstructionEraseFromParent(i);
        }
}
