// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Splits long basic blocks. LLVM's time for a block grows with the square of its length if its fast
// instruction selection gives up, as it does on 16-bit elements.
#include "backends/sim/machine.h"

enum { PIECE = 192 };

static void jump_to(LLVMBasicBlockRef old, LLVMBasicBlockRef to) {
    LLVMValueRef block = LLVMBasicBlockAsValue(old);
    for (LLVMUseRef u = LLVMGetFirstUse(block), next; u; u = next) {
        LLVMValueRef jump = LLVMGetUser(u);
        next = LLVMGetNextUse(u);
        for (unsigned i = 0; i < LLVMGetNumSuccessors(jump); i++)
            if (LLVMGetSuccessor(jump, i) == old) LLVMSetSuccessor(jump, i, to);
    }
}

/// Moves the first `n` instructions to a new block before this one. The rest keeps the name, which
/// phis of later blocks refer to.
static void split_head(Gen *g, LLVMBasicBlockRef block, int n) {
    LLVMBasicBlockRef head = LLVMInsertBasicBlockInContext(g->llvm, block, "");
    jump_to(block, head);
    LLVMPositionBuilderAtEnd(g->b, head);
    for (int i = 0; i < n; i++) {
        LLVMValueRef op = LLVMGetFirstInstruction(block);
        LLVMInstructionRemoveFromParent(op);
        LLVMInsertIntoBuilder(g->b, op);
    }
    LLVMBuildBr(g->b, block);
}

/// Phis and allocas stay in the first piece, however many they are.
static int head_length(LLVMBasicBlockRef block) {
    int n = 0, least = 0;
    for (LLVMValueRef op = LLVMGetFirstInstruction(block); op; op = LLVMGetNextInstruction(op)) {
        LLVMOpcode code = LLVMGetInstructionOpcode(op);
        n++;
        if (code == LLVMPHI || code == LLVMAlloca) least = n;
    }
    int length = least > PIECE ? least : PIECE;
    return n > length + PIECE ? length : 0;
}

void sim_split_blocks(Gen *g) {
    for (LLVMValueRef f = LLVMGetFirstFunction(g->module); f; f = LLVMGetNextFunction(f))
        for (LLVMBasicBlockRef b = LLVMGetFirstBasicBlock(f); b; b = LLVMGetNextBasicBlock(b))
            for (int n; (n = head_length(b)) > 0;) split_head(g, b, n);
}
