// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Parts of a word that come together again at their places: the word. Blocks are scalars, so that
// words of two f16 or four f8 that are loaded, computed and stored are taken apart in between. LLVM
// undoes it no more once it has made elements of vectors of the shifts.
//
//     zext(trunc x) | zext(trunc(x >> 16)) << 16  ->  x
#include "backends/amdgpu/amdgpu.h"

static bool is_llvm_op(LLVMValueRef v, LLVMOpcode code) {
    return LLVMIsAInstruction(v) && LLVMGetInstructionOpcode(v) == code;
}

/// v without a shift by a number of bits, which is added to *bits.
static LLVMValueRef without_shift(LLVMValueRef v, LLVMOpcode shift, unsigned *bits) {
    if (!is_llvm_op(v, shift) || !LLVMIsAConstantInt(LLVMGetOperand(v, 1))) return v;
    *bits += (unsigned)LLVMConstIntGetZExtValue(LLVMGetOperand(v, 1));
    return LLVMGetOperand(v, 0);
}

/// The word of which v has bits at their places, and zeros elsewhere; the bits are added to *mask.
/// NULL: there is none.
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
