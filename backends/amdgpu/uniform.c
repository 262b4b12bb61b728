// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Branches of a portable module are uniform over a wave, but LLVM cannot see it where a condition
// came through lanes or memory. Those conditions are read from the first lane: then branches are
// scalar, loops carry no masks of lanes, and the masks that LLVM 22 reuses behind a loop
// (llvm-project #195270) are never those of lanes that left it early.
#include <string.h>

#include "backends/amdgpu/amdgpu.h"

typedef VEC(LLVMValueRef) Values;

typedef struct Lanes {
    const Gen *g;
    PtrMap differ; // values that may differ between the lanes of a wave
    Values work;
} Lanes;

static bool begins_with(const char *name, const char *const *list) {
    for (; *list; list++)
        if (strncmp(name, *list, strlen(*list)) == 0) return true;
    return false;
}

static const Fn *function_of(LLVMValueRef call, Fn *out) {
    LLVMValueRef callee = LLVMIsACallInst(call) ? LLVMGetCalledValue(call) : NULL;
    return callee && fn_find(LLVMGetValueName2(callee, &(size_t){0}), out) ? out : NULL;
}

/// Its results differ whatever its operands are.
static bool is_source(const Fn *fn) {
    static const char *const names[] = {"thread.id", "lane.id", "shuffle",
                                        "load.",     "atomic.", NULL};
    return begins_with(fn->row->name, names);
}

/// Its result is one for the wave.
static bool is_joint(const Fn *fn) {
    static const char *const names[] = {"warp.id", "vote.", "ballot", "redux.", NULL};
    return begins_with(fn->row->name, names);
}

static void mark(Lanes *s, LLVMValueRef v) {
    if (map_get(&s->differ, v)) return;
    map_set(s->g->ctx, &s->differ, v, v);
    vec_push(s->g->ctx, &s->work, v);
}

static void mark_sources(Lanes *s, LLVMValueRef function) {
    Fn fn;
    for (LLVMBasicBlockRef b = LLVMGetFirstBasicBlock(function); b; b = LLVMGetNextBasicBlock(b))
        for (LLVMValueRef i = LLVMGetFirstInstruction(b); i; i = LLVMGetNextInstruction(i))
            if (function_of(i, &fn) && is_source(&fn)) mark(s, i);
}

/// What is computed of values that differ does, too; so does what is loaded from such a place.
static void spread(Lanes *s) {
    Fn fn;
    while (s->work.n) {
        LLVMValueRef v = s->work.data[--s->work.n];
        for (LLVMUseRef u = LLVMGetFirstUse(v); u; u = LLVMGetNextUse(u)) {
            LLVMValueRef user = LLVMGetUser(u);
            bool value = LLVMGetTypeKind(LLVMTypeOf(user)) != LLVMVoidTypeKind;
            if (value && !(function_of(user, &fn) && is_joint(&fn))) mark(s, user);
        }
    }
}

static LLVMValueRef of_first_lane(const Gen *g, LLVMValueRef v) {
    LLVMTypeRef type = LLVMTypeOf(v);
    v = LLVMBuildZExt(g->b, v, g->i32, "");
    v = gen_call1(g, "llvm.amdgcn.readfirstlane", v);
    return LLVMBuildTrunc(g->b, v, type, "");
}

static void make_scalar(Lanes *s, LLVMValueRef branch) {
    if (LLVMGetInstructionOpcode(branch) != LLVMBr || !LLVMIsConditional(branch)) return;
    LLVMValueRef c = LLVMGetCondition(branch);
    if (!map_get(&s->differ, c)) return;
    LLVMPositionBuilderBefore(s->g->b, branch);
    LLVMSetCondition(branch, of_first_lane(s->g, c));
}

void amd_make_uniform(Gen *g, LLVMValueRef function) {
    Lanes s = {.g = g};
    mark_sources(&s, function);
    spread(&s);
    for (LLVMBasicBlockRef b = LLVMGetFirstBasicBlock(function); b; b = LLVMGetNextBasicBlock(b))
        make_scalar(&s, LLVMGetBasicBlockTerminator(b));
}
