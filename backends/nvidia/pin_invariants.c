// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Keeps libNVVM from hoisting parts of addresses out of loops that carry accumulators. It ignores
// the cost of registers, and ptxas does not undo it. The inputs of these parts go through a `mov`
// that needs the loop's counter, so they and everything derived from them stay in the loop. ptxas
// sees through the `mov` and hoists as registers permit. LLVM's generator runs no pass that hoists
// them. Products of warpgroups use few addresses, so their loops are left alone.
#include <llvm-c/DebugInfo.h>
#include <string.h>

#include "backends/nvidia/nvidia.h"

typedef struct InvariantLoop {
    const Gen *g;
    LLVMBasicBlockRef head, last;
    LLVMValueRef counter, body; // a phi, and the first instruction after the phis
    PtrMap inside, copies;      // blocks; outer values -> copies of them
} InvariantLoop;

/// The blocks of a loop lie between its head and the last block that branches back to it. NULL: not
/// a loop.
static LLVMBasicBlockRef last_of_loop(LLVMBasicBlockRef head) {
    LLVMBasicBlockRef last = NULL;
    for (LLVMBasicBlockRef b = head; b; b = LLVMGetNextBasicBlock(b)) {
        LLVMValueRef end = LLVMGetBasicBlockTerminator(b);
        for (unsigned s = 0; s < LLVMGetNumSuccessors(end); s++)
            if (LLVMGetSuccessor(end, s) == head) last = b;
    }
    return last;
}

static bool is_outside_loop(const InvariantLoop *l, LLVMValueRef x) {
    if (LLVMIsAInstruction(x)) return !map_get(&l->inside, LLVMGetInstructionParent(x));
    return LLVMIsAArgument(x) || LLVMIsAConstant(x);
}

/// Whether i is a number that does not depend on the iteration, so that LLVM may hoist it.
static bool is_invariant(const InvariantLoop *l, LLVMValueRef i) {
    if (LLVMGetTypeKind(LLVMTypeOf(i)) != LLVMIntegerTypeKind || LLVMIsAPHINode(i) ||
        LLVMIsACallInst(i) || LLVMIsALoadInst(i))
        return false;
    for (int k = 0; k < LLVMGetNumOperands(i); k++)
        if (!is_outside_loop(l, LLVMGetOperand(i, (unsigned)k))) return false;
    return true;
}

static bool is_of_warpgroups(const InvariantLoop *l) {
    LLVMBasicBlockRef end = LLVMGetNextBasicBlock(l->last);
    for (LLVMBasicBlockRef b = l->head; b != end; b = LLVMGetNextBasicBlock(b))
        for (LLVMValueRef i = LLVMGetFirstInstruction(b); i; i = LLVMGetNextInstruction(i))
            if (strstr(nv_assembly_of(i), "wgmma.mma_async")) return true;
    return false;
}

static char constraint_of_value(const Gen *g, LLVMValueRef x) {
    return LLVMTypeOf(x) == g->i64 ? 'l' : 'r';
}

static LLVMValueRef copy_in_loop(InvariantLoop *l, LLVMValueRef x) {
    const Gen *g = l->g;
    LLVMValueRef copy = map_get(&l->copies, x), args[] = {x, l->counter};
    if (copy) return copy;
    LLVMTypeRef t = LLVMTypeOf(x), types[] = {t, LLVMTypeOf(l->counter)};
    char own = constraint_of_value(g, x), text[] = "mov.b32 $0, $1;";
    char constraints[] = {'=', own, ',', own, ',', constraint_of_value(g, l->counter)};
    if (own == 'l') text[5] = '6', text[6] = '4';
    LLVMTypeRef type = LLVMFunctionType(t, types, 2, false);
    LLVMValueRef code =
        LLVMGetInlineAsm(type, text, sizeof text - 1, constraints, sizeof constraints, false, false,
                         LLVMInlineAsmDialectATT, false);
    LLVMPositionBuilderBefore(g->b, l->body);
    LLVMSetCurrentDebugLocation2(g->b, NULL);
    copy = LLVMBuildCall2(g->b, type, code, args, 2, "");
    map_set(g->ctx, &l->copies, x, copy);
    return copy;
}

static void hide_operands(InvariantLoop *l, LLVMValueRef i) {
    for (int k = 0; k < LLVMGetNumOperands(i); k++) {
        LLVMValueRef x = LLVMGetOperand(i, (unsigned)k);
        bool word = LLVMTypeOf(x) == l->g->i32 || LLVMTypeOf(x) == l->g->i64;
        if (word && !LLVMIsAConstant(x)) LLVMSetOperand(i, (unsigned)k, copy_in_loop(l, x));
    }
}

static void hide_in_loop(const Gen *g, LLVMBasicBlockRef head) {
    InvariantLoop l = {.g = g, .head = head, .last = last_of_loop(head)};
    if (!l.last || is_of_warpgroups(&l)) return;
    for (l.body = LLVMGetFirstInstruction(head); LLVMIsAPHINode(l.body);
         l.body = LLVMGetNextInstruction(l.body))
        if (nv_is_counter(g, l.body)) l.counter = l.body;
    if (!l.counter) return;
    LLVMBasicBlockRef end = LLVMGetNextBasicBlock(l.last);
    for (LLVMBasicBlockRef b = head; b != end; b = LLVMGetNextBasicBlock(b))
        map_set(g->ctx, &l.inside, b, b);
    for (LLVMBasicBlockRef b = head; b != end; b = LLVMGetNextBasicBlock(b))
        for (LLVMValueRef i = LLVMGetFirstInstruction(b); i; i = LLVMGetNextInstruction(i))
            if (is_invariant(&l, i)) hide_operands(&l, i);
}

void nvvm_pin_invariants(Gen *g) {
    for (LLVMValueRef fn = LLVMGetFirstFunction(g->module); fn; fn = LLVMGetNextFunction(fn))
        for (LLVMBasicBlockRef b = LLVMGetFirstBasicBlock(fn); b; b = LLVMGetNextBasicBlock(b))
            if (nv_carried_words(b) > NV_FEW_WORDS) hide_in_loop(g, b);
}
