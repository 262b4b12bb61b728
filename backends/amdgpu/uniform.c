// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Makes conditions of branches uniform. All branches of a portable module are uniform over a wave,
// but LLVM cannot see this if a condition came through lanes or memory. These conditions are read
// from the first lane. Branches are then scalar, and loops carry no lane masks. The masks that LLVM
// 22 reuses after a loop (llvm-project #195270) then never belong to lanes that left it early.
//
// LLVM 22 loses the condition of a branch by a vector comparison if a select also needs its mask in
// the scalar condition and both use one instruction (#215745). These branches get an instruction of
// their own.
#include <string.h>

#include "backends/amdgpu/amdgpu.h"

typedef VEC(LLVMValueRef) LaneValues;

typedef struct LaneAnalysis {
    const Gen *g;
    PtrMap differ; // values that may differ between the lanes of a wave
    LaneValues work;
} LaneAnalysis;

static bool begins_with(const char *name, const char *const *list) {
    for (; *list; list++)
        if (strncmp(name, *list, strlen(*list)) == 0) return true;
    return false;
}

static const Fn *function_of(LLVMValueRef call, Fn *out) {
    LLVMValueRef callee = LLVMIsACallInst(call) ? LLVMGetCalledValue(call) : NULL;
    return callee && fn_find(LLVMGetValueName2(callee, &(size_t){0}), out) ? out : NULL;
}

/// Whether its results differ for any operands.
static bool is_source(const Fn *fn) {
    static const char *const names[] = {"thread.id", "lane.id", "shuffle",
                                        "load.",     "atomic.", NULL};
    return begins_with(fn->row->name, names);
}

/// Whether its result is equal for the whole wave.
static bool is_joint(const Fn *fn) {
    static const char *const names[] = {"warp.id", "vote.", "ballot", "redux.", NULL};
    return begins_with(fn->row->name, names);
}

static void mark_differing(LaneAnalysis *s, LLVMValueRef v) {
    if (map_get(&s->differ, v)) return;
    map_set(s->g->ctx, &s->differ, v, v);
    vec_push(s->g->ctx, &s->work, v);
}

static void mark_sources(LaneAnalysis *s, LLVMValueRef function) {
    Fn fn;
    for (LLVMBasicBlockRef b = LLVMGetFirstBasicBlock(function); b; b = LLVMGetNextBasicBlock(b))
        for (LLVMValueRef i = LLVMGetFirstInstruction(b); i; i = LLVMGetNextInstruction(i))
            if (function_of(i, &fn) && is_source(&fn)) mark_differing(s, i);
}

/// A value computed from differing values differs, and so does a load from a differing address.
static void spread_differing(LaneAnalysis *s) {
    Fn fn;
    while (s->work.n) {
        LLVMValueRef v = s->work.data[--s->work.n];
        for (LLVMUseRef u = LLVMGetFirstUse(v); u; u = LLVMGetNextUse(u)) {
            LLVMValueRef user = LLVMGetUser(u);
            bool value = LLVMGetTypeKind(LLVMTypeOf(user)) != LLVMVoidTypeKind;
            if (value && !(function_of(user, &fn) && is_joint(&fn))) mark_differing(s, user);
        }
    }
}

static LLVMValueRef of_first_lane(const Gen *g, LLVMValueRef v) {
    LLVMTypeRef type = LLVMTypeOf(v);
    v = LLVMBuildZExt(g->b, v, g->i32, "");
    v = gen_call1(g, "llvm.amdgcn.readfirstlane", v);
    return LLVMBuildTrunc(g->b, v, type, "");
}

static void make_condition_scalar(LaneAnalysis *s, LLVMValueRef branch) {
    if (LLVMGetInstructionOpcode(branch) != LLVMBr || !LLVMIsConditional(branch)) return;
    LLVMValueRef c = LLVMGetCondition(branch);
    if (!map_get(&s->differ, c)) return;
    LLVMPositionBuilderBefore(s->g->b, branch);
    LLVMSetCondition(branch, of_first_lane(s->g, c));
}

void amd_make_uniform(Gen *g, LLVMValueRef function) {
    LaneAnalysis s = {.g = g};
    mark_sources(&s, function);
    spread_differing(&s);
    for (LLVMBasicBlockRef b = LLVMGetFirstBasicBlock(function); b; b = LLVMGetNextBasicBlock(b))
        make_condition_scalar(&s, LLVMGetBasicBlockTerminator(b));
}

/* ---- branches whose masks selects need, too ------------------------------------------------ */

/// Two comparisons, minima or maxima of the same values may become one instruction.
static bool have_same_operands(LLVMValueRef a, LLVMValueRef b) {
    bool call = LLVMIsACallInst(b) != NULL;
    if (!call && !LLVMIsAICmpInst(b) && !LLVMIsAFCmpInst(b)) return false;
    if (call && LLVMGetNumArgOperands(b) != 2) return false;
    LLVMValueRef x = LLVMGetOperand(a, 0), y = LLVMGetOperand(a, 1);
    LLVMValueRef u = LLVMGetOperand(b, 0), v = LLVMGetOperand(b, 1);
    return (x == u && y == v) || (x == v && y == u);
}

/// Whether several instructions use a condition, or a comparison of the same operands exists that
/// LLVM may merge with it.
static bool is_condition_shared(LLVMValueRef c) {
    if (!LLVMIsAInstruction(c) || LLVMIsAPHINode(c)) return false;
    if (LLVMGetNextUse(LLVMGetFirstUse(c))) return true;
    if (!LLVMIsAICmpInst(c) && !LLVMIsAFCmpInst(c)) return false;
    LLVMValueRef x = LLVMGetOperand(c, LLVMIsConstant(LLVMGetOperand(c, 0)) ? 1 : 0);
    for (LLVMUseRef u = LLVMGetFirstUse(x); u; u = LLVMGetNextUse(u))
        if (LLVMGetUser(u) != c && have_same_operands(c, LLVMGetUser(u))) return true;
    return false;
}

/// Returns false in a form that LLVM does not recognise.
static LLVMValueRef opaque_false(Gen *g, LLVMValueRef function) {
    LLVMTypeRef type = LLVMFunctionType(g->i32, &g->i32, 1, false);
    LLVMValueRef same =
        LLVMGetInlineAsm(type, "", 0, "=s,0", 4, false, false, LLVMInlineAsmDialectATT, false);
    LLVMPositionBuilderBefore(g->b, LLVMGetBasicBlockTerminator(LLVMGetEntryBasicBlock(function)));
    LLVMValueRef zero = amd_i32(g, 0), call = LLVMBuildCall2(g->b, type, same, &zero, 1, "");
    return LLVMBuildICmp(g->b, LLVMIntNE, call, zero, "");
}

void amd_part_branches(Gen *g, LLVMValueRef function) {
    LLVMValueRef no = NULL;
    for (LLVMBasicBlockRef b = LLVMGetFirstBasicBlock(function); b; b = LLVMGetNextBasicBlock(b)) {
        LLVMValueRef branch = LLVMGetBasicBlockTerminator(b);
        if (LLVMGetInstructionOpcode(branch) != LLVMBr || !LLVMIsConditional(branch)) continue;
        LLVMValueRef c = LLVMGetCondition(branch);
        if (!is_condition_shared(c)) continue;
        if (!no) no = opaque_false(g, function);
        LLVMPositionBuilderBefore(g->b, branch);
        // No edge determines the operands of an exclusive or.
        LLVMSetCondition(branch, LLVMBuildXor(g->b, c, no, ""));
    }
}
