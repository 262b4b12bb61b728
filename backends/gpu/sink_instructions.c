// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Moves instructions to their first use.
//
// Lowering goes op by op, each over all registers of a block. So whole blocks of elements are live
// between ops. This pass reorders each basic block by demand. Instructions with effects keep their
// order. Before each of them, the pass places the instructions that it needs and that have not been
// placed. A chain of elementwise ops then runs register by register, with one register for each of
// its values.
//
// A load from memory that nothing writes is placed together with the following loads of this kind,
// up to a share of the thread's registers, and does not cross a barrier. So the latencies of the
// loads overlap. Loads that all programs share, for instance the weights of rows, hit a cache. They
// may cross barriers, since until their use the registers serve other blocks better.
#include <stdlib.h>
#include <string.h>

#include "backends/gpu/lower.h"

enum { REGISTERS_SM = 65536, SHARE = 8, COMMON_SHARE = 32 };

typedef enum Mobility { FIXED, CROSSES_ALL, IS_LOAD, IS_BARRIER } Mobility;

typedef VEC(LLVMValueRef) Insts;

/// A block of instructions, partly in its new order.
typedef struct Sink {
    Ctx *ctx;
    LLVMBuilderRef b;
    LLVMBasicBlockRef block;
    PtrMap waiting; // instructions of the block that have not been placed
    Insts loads;    // the loads among them, in order
    PtrMap own;     // loads whose addresses depend on the program
    int words, few; // words in flight: of own loads, and of loads that all programs share
    struct {
        struct SinkFrame {
            LLVMValueRef inst;
            int next;
        } * data;
        int n, cap;
    } stack;
} Sink;

static Mobility mobility_of_call(LLVMValueRef inst) {
    size_t n;
    Fn fn;
    const char *name = LLVMGetValueName2(LLVMGetCalledValue(inst), &n);
    if (strncmp(name, "llvm.", 5) == 0)
        return strcmp(name, "llvm.assume") == 0 ? FIXED : CROSSES_ALL;
    if (!fn_find(name, &fn)) return FIXED;
    if (strncmp(name, "tg.load.global.nc", 17) == 0) return IS_LOAD;
    if (strncmp(name, "tg.load.buffer.nc", 17) == 0) return IS_LOAD;
    if (fn.row->effect == FN_NONE && fn.row->scope == FN_LANE) return CROSSES_ALL;
    return fn.row->scope >= FN_WARPGROUP ? IS_BARRIER : FIXED;
}

bool gpu_is_invariant(LLVMValueRef load) {
    LLVMContextRef llvm = LLVMGetTypeContext(LLVMTypeOf(load));
    return LLVMGetMetadata(load, LLVMGetMDKindIDInContext(llvm, "invariant.load", 14)) != NULL;
}

static Mobility mobility_of(LLVMValueRef inst) {
    switch (LLVMGetInstructionOpcode(inst)) {
    case LLVMCall: return mobility_of_call(inst);
    case LLVMLoad: return gpu_is_invariant(inst) ? IS_LOAD : FIXED;
    case LLVMStore:
    case LLVMPHI:
    case LLVMBr:
    case LLVMSwitch:
    case LLVMRet: return FIXED;
    default: return CROSSES_ALL;
    }
}

static void append_inst(Sink *s, LLVMValueRef inst) {
    map_set(s->ctx, &s->waiting, inst, NULL);
    LLVMInstructionRemoveFromParent(inst);
    LLVMPositionBuilderAtEnd(s->b, s->block);
    LLVMInsertIntoBuilder(s->b, inst);
}

static void enter_inst(Sink *s, LLVMValueRef inst) {
    vec_push(s->ctx, &s->stack, ((struct SinkFrame){inst, 0}));
}

/// Places inst and its unplaced operands, deepest first.
static void place_inst(Sink *s, LLVMValueRef inst) {
    int base = s->stack.n;
    for (enter_inst(s, inst); s->stack.n > base;) {
        struct SinkFrame *f = &s->stack.data[s->stack.n - 1];
        if (f->next < LLVMGetNumOperands(f->inst)) {
            LLVMValueRef x = LLVMGetOperand(f->inst, (unsigned)f->next++);
            if (map_get(&s->waiting, x)) enter_inst(s, x);
            continue;
        }
        inst = f->inst;
        s->stack.n--;
        if (map_get(&s->waiting, inst)) append_inst(s, inst);
    }
}

static bool is_call_of(LLVMValueRef inst, const char *prefix) {
    size_t n;
    return LLVMIsACallInst(inst) &&
           strncmp(LLVMGetValueName2(LLVMGetCalledValue(inst), &n), prefix, strlen(prefix)) == 0;
}

static int count_loaded_words(LLVMValueRef load) {
    LLVMTypeRef t = LLVMTypeOf(load);
    switch (LLVMGetTypeKind(t)) {
    case LLVMStructTypeKind: return (int)LLVMCountStructElementTypes(t);
    case LLVMVectorTypeKind: return (int)LLVMGetVectorSize(t);
    default: return 1;
    }
}

typedef bool Property(Sink *s, LLVMValueRef inst);

/// Whether inst, or an instruction that it needs, has the property. `waiting`: looks only at
/// unplaced instructions.
static bool any_needed(Sink *s, LLVMValueRef inst, bool waiting, Property *is) {
    PtrMap seen = {0};
    Insts todo = {0};
    vec_push(s->ctx, &todo, inst);
    while (todo.n) {
        LLVMValueRef v = todo.data[--todo.n];
        if (is(s, v)) return true;
        for (int i = 0; i < LLVMGetNumOperands(v); i++) {
            LLVMValueRef x = LLVMGetOperand(v, (unsigned)i);
            if (waiting ? !map_get(&s->waiting, x) : !LLVMIsAInstruction(x)) continue;
            if (map_get(&seen, x)) continue;
            map_set(s->ctx, &seen, x, x);
            vec_push(s->ctx, &todo, x);
        }
    }
    return false;
}

/// Whether the instruction keeps its order among instructions with effects. Instructions that need
/// it, for instance the use of an address that is read after a barrier, must come later.
static bool stays_in_place(Sink *s, LLVMValueRef inst) {
    (void)s;
    Mobility m = mobility_of(inst);
    return m == FIXED || m == IS_BARRIER;
}

static bool is_program_id(Sink *s, LLVMValueRef inst) {
    (void)s;
    return is_call_of(inst, "tg.cta.id");
}

static bool is_own_load(Sink *s, LLVMValueRef inst) {
    return mobility_of(inst) == IS_LOAD && map_get(&s->own, inst);
}

static bool is_common_load(Sink *s, LLVMValueRef inst) {
    return mobility_of(inst) == IS_LOAD && !map_get(&s->own, inst);
}

static bool is_load(Sink *s, LLVMValueRef inst) {
    return stays_in_place(s, inst) || mobility_of(inst) == IS_LOAD;
}

/// Joins the elements of a word right after their loads: one register instead of several.
static void place_word(Sink *s, LLVMValueRef load) {
    LLVMValueRef v = load;
    while (v && !is_call_of(v, "tg.renew")) {
        LLVMUseRef u = LLVMGetFirstUse(v);
        bool part = u && !LLVMGetNextUse(u) && map_get(&s->waiting, LLVMGetUser(u));
        v = part && count_loaded_words(load) == 1 ? LLVMGetUser(u) : NULL;
        if (v && LLVMIsAPHINode(v)) return;
    }
    if (v && !any_needed(s, v, true, is_load)) place_inst(s, v);
}

/// Whether an unplaced instruction still needs inst.
static bool is_wanted_by_waiting(const Sink *s, LLVMValueRef inst) {
    for (LLVMUseRef u = LLVMGetFirstUse(inst); u; u = LLVMGetNextUse(u))
        if (map_get(&s->waiting, LLVMGetUser(u))) return true;
    return false;
}

/// Places waiting loads with the property, until `words` words are in flight.
static void place_loads(Sink *s, int words, Property *is) {
    for (int i = 0; i < s->loads.n; i++) {
        LLVMValueRef load = s->loads.data[i];
        if (!map_get(&s->waiting, load) && is(s, load) && is_wanted_by_waiting(s, load))
            words -= count_loaded_words(load);
    }
    for (int i = 0; i < s->loads.n && words > 0; i++) {
        LLVMValueRef load = s->loads.data[i];
        if (!map_get(&s->waiting, load) || !is(s, load)) continue;
        if (any_needed(s, load, true, stays_in_place)) continue;
        words -= count_loaded_words(load);
        place_inst(s, load);
        place_word(s, load);
    }
}

static void place_root(Sink *s, LLVMValueRef inst, Mobility mobility) {
    if (mobility == IS_BARRIER) place_loads(s, INT32_MAX, is_own_load);
    if (any_needed(s, inst, true, is_own_load)) place_loads(s, s->words, is_own_load);
    if (any_needed(s, inst, true, is_common_load)) place_loads(s, s->few, is_common_load);
    place_inst(s, inst);
    if (is_call_of(inst, "tg.load.global")) place_word(s, inst);
}

/// Places the instructions that other blocks need, in their old order.
static void place_rest(Sink *s, const Insts *all) {
    for (int i = 0; i < all->n; i++)
        if (map_get(&s->waiting, all->data[i])) place_inst(s, all->data[i]);
}

/// Removes unused instructions. They would end up at the end of the block, and prolong the lives of
/// their operands.
static void drop_dead(LLVMBasicBlockRef block) {
    for (LLVMValueRef i = LLVMGetLastInstruction(block), before; i; i = before) {
        before = LLVMGetPreviousInstruction(i);
        if (!LLVMGetFirstUse(i) && mobility_of(i) == CROSSES_ALL) LLVMInstructionEraseFromParent(i);
    }
}

static void sink_block(Sink *s) {
    Insts all = {0};
    bool products = false;
    drop_dead(s->block);
    LLVMValueRef end = LLVMGetBasicBlockTerminator(s->block);
    for (LLVMValueRef i = LLVMGetFirstInstruction(s->block); i; i = LLVMGetNextInstruction(i)) {
        vec_push(s->ctx, &all, i);
        if (i == end || LLVMGetInstructionOpcode(i) == LLVMPHI) continue;
        map_set(s->ctx, &s->waiting, i, i);
        products |= is_call_of(i, "tg.amd.");
        if (mobility_of(i) != IS_LOAD) continue;
        vec_push(s->ctx, &s->loads, i);
        if (any_needed(s, i, false, is_program_id)) map_set(s->ctx, &s->own, i, i);
    }
    // The operands of the next iteration's products are loaded to registers meanwhile.
    if (products) place_loads(s, INT32_MAX, is_own_load);
    for (int i = 0; i < all.n; i++) {
        Mobility m = mobility_of(all.data[i]);
        bool root = (m == FIXED || m == IS_BARRIER) && map_get(&s->waiting, all.data[i]);
        if (root) place_root(s, all.data[i], m);
    }
    place_rest(s, &all);
    if (!end) return;
    map_set(s->ctx, &s->waiting, end, end);
    append_inst(s, end);
}

void gpu_sink(GpuFn *f) {
    int registers = REGISTERS_SM / f->threads;
    LLVMSetCurrentDebugLocation2(f->g->b, NULL);
    for (LLVMBasicBlockRef b = LLVMGetFirstBasicBlock(f->fn); b; b = LLVMGetNextBasicBlock(b)) {
        Sink s = {.ctx = f->ctx,
                  .b = f->g->b,
                  .block = b,
                  .words = registers / SHARE,
                  .few = registers / COMMON_SHARE};
        sink_block(&s);
    }
}
