// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// 64-bit words that other ranks also read and write: raised after earlier writes, waited for within
// a limit.
#include <string.h>

#include "backends/amdgpu/amdgpu.h"
#include "runtime/abi.h"

enum { TICK_NS = 10 }; // of the counter that all processors of a device share

/// Makes the access atomic at system scope, which is the unnamed scope.
static LLVMValueRef system_atomic(const Gen *g, LLVMValueRef inst, LLVMAtomicOrdering order) {
    LLVMSetOrdering(inst, order);
    LLVMSetAlignment(inst, 8);
    LLVMSetAtomicSyncScopeID(inst, LLVMGetSyncScopeID(g->llvm, "", 0));
    return inst;
}

static LLVMValueRef load_system_word(const Gen *g, LLVMValueRef p, LLVMAtomicOrdering order) {
    return system_atomic(g, LLVMBuildLoad2(g->b, g->i64, p, ""), order);
}

static void store_system_word(const Gen *g, LLVMValueRef x, LLVMValueRef p,
                              LLVMAtomicOrdering order) {
    system_atomic(g, LLVMBuildStore(g->b, x, p), order);
}

void amd_signal(Expand *x) {
    const Gen *g = x->g;
    amd_guard(x, x->in[1]);
    const char *name = x->fn->row->name;
    bool put = strcmp(name, "signal.put") == 0;
    if (put || strcmp(name, "signal.set") == 0)
        store_system_word(g, x->in[2], x->in[0],
                          put ? LLVMAtomicOrderingMonotonic : LLVMAtomicOrderingRelease);
    else
        LLVMBuildAtomicRMWSyncScope(g->b, LLVMAtomicRMWBinOpAdd, x->in[0], x->in[2],
                                    LLVMAtomicOrderingRelease, LLVMGetSyncScopeID(g->llvm, "", 0));
    amd_end_guard(x);
}

/* ---- waits --------------------------------------------------------------------------------- */

/// A wait under construction; it ends at `done`.
typedef struct Wait {
    Expand *x;
    LLVMValueRef word, value, control;
    LLVMIntPredicate compare;
    LLVMBasicBlockRef done;
} Wait;

static LLVMIntPredicate predicate_of(Ctx *ctx, const char *name) {
    static const struct {
        const char *name;
        LLVMIntPredicate is;
    } all[] = {{"eq", LLVMIntEQ},  {"ne", LLVMIntNE},  {"gt", LLVMIntSGT},
               {"ge", LLVMIntSGE}, {"lt", LLVMIntSLT}, {"le", LLVMIntSLE}};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (strcmp(all[i].name, name) == 0) return all[i].is;
    ice(ctx, (Loc){0}, "no comparison %s", name);
}

static LLVMValueRef control_at(const Wait *w, int word) {
    return gen_offset(w->x->g, w->control, gen_i64(w->x->g, 8 * (int64_t)word));
}

static LLVMValueRef read_steady_counter(const Gen *g) {
    return gen_intrinsic(g, "llvm.readsteadycounter", 0, NULL, 0, NULL);
}

static LLVMBasicBlockRef new_wait_block(const Wait *w) {
    return LLVMInsertBasicBlockInContext(w->x->g->llvm, w->done, "");
}

/// Branches to `then` if c is true, and continues in a new block.
static void leave_if(const Wait *w, LLVMValueRef c, LLVMBasicBlockRef then) {
    LLVMBasicBlockRef on = new_wait_block(w);
    LLVMBuildCondBr(w->x->g->b, c, then, on);
    LLVMPositionBuilderAtEnd(w->x->g->b, on);
}

static void leave_if_there(const Wait *w) {
    const Gen *g = w->x->g;
    LLVMValueRef v = load_system_word(g, w->word, LLVMAtomicOrderingAcquire);
    leave_if(w, LLVMBuildICmp(g->b, w->compare, v, w->value, ""), w->done);
}

/// Leaves if another wait, or another rank, has failed.
static void leave_if_given_up(const Wait *w) {
    const Gen *g = w->x->g;
    LLVMValueRef a =
        load_system_word(g, control_at(w, TG_CONTROL_GIVE_UP), LLVMAtomicOrderingMonotonic);
    LLVMValueRef b =
        load_system_word(g, control_at(w, TG_CONTROL_FAILED), LLVMAtomicOrderingMonotonic);
    a = LLVMBuildOr(g->b, a, b, "");
    leave_if(w, LLVMBuildICmp(g->b, LLVMIntNE, a, gen_i64(g, 0), ""), w->done);
}

/// The first failing wait notes what it waited for.
static void note_wait_failure(const Wait *w, LLVMValueRef *values) {
    const Gen *g = w->x->g;
    unsigned scope = LLVMGetSyncScopeID(g->llvm, "", 0);
    LLVMValueRef pair = LLVMBuildAtomicCmpXchgSyncScope(
        g->b, control_at(w, TG_CONTROL_FAILED), gen_i64(g, 0), gen_i64(g, 1),
        LLVMAtomicOrderingMonotonic, LLVMAtomicOrderingMonotonic, scope);
    LLVMValueRef mine = LLVMBuildExtractValue(g->b, pair, 1, "");
    leave_if(w, LLVMBuildNot(g->b, mine, ""), w->done);
    for (int i = 0; i < 3; i++)
        store_system_word(g, values[i], control_at(w, TG_CONTROL_SITE + i),
                          LLVMAtomicOrderingMonotonic);
    LLVMBuildBr(g->b, w->done);
}

void amd_wait_word(Expand *x) {
    const Gen *g = x->g;
    Wait w = {.x = x, .word = x->in[0], .value = x->in[2], .control = x->in[3]};
    w.compare = predicate_of(g->ctx, fn_capture(x->fn, 'c'));
    amd_guard(x, x->in[1]);
    LLVMBasicBlockRef first = LLVMGetInsertBlock(g->b);
    amd_end_guard(x);
    w.done = LLVMInsertBasicBlockInContext(g->llvm, LLVMGetInstructionParent(x->call), "");
    LLVMValueRef end = LLVMGetBasicBlockTerminator(first);
    LLVMInstructionRemoveFromParent(end);
    LLVMPositionBuilderAtEnd(g->b, w.done);
    LLVMInsertIntoBuilder(g->b, end);
    LLVMPositionBuilderAtEnd(g->b, first);
    leave_if_there(&w);
    LLVMValueRef begin = read_steady_counter(g);
    LLVMValueRef limit =
        load_system_word(g, control_at(&w, TG_CONTROL_LIMIT), LLVMAtomicOrderingMonotonic);
    limit = LLVMBuildUDiv(g->b, limit, gen_i64(g, TICK_NS), "");
    LLVMBasicBlockRef again = new_wait_block(&w);
    LLVMBuildBr(g->b, again);
    LLVMPositionBuilderAtEnd(g->b, again);
    amd_intrinsic(g, "llvm.amdgcn.s.sleep", 1, amd_i32(g, 1));
    leave_if_there(&w);
    leave_if_given_up(&w);
    LLVMValueRef spent = LLVMBuildSub(g->b, read_steady_counter(g), begin, "");
    leave_if(&w, LLVMBuildICmp(g->b, LLVMIntULT, spent, limit, ""), again);
    note_wait_failure(&w, x->in + 4);
    LLVMPositionBuilderBefore(g->b, x->call);
}
