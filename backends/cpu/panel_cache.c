// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Keeps packed panels from one run of a contract to the next.
//
// Neighbouring programs of a task often multiply with the same columns. Their panels of B are
// equal, and packing them reads B through the slowest memory. So the inputs of B are recorded
// beside the panels. If a contract runs again in the same task with equal inputs, it packs only A.
// This is exact if lazy ops make B from
//   - scalars defined outside the contract: they are the key, and
//   - tensors that the launch does not write.
//
// A dot in a loop keeps several panels. Each iteration has a slot with its own keys, so the next
// program finds the panel of the same iteration. All iterations beyond the last slot share it. A
// value that is invariant in the loop has one slot.
#include "backends/cpu/contract.h"
#include "backends/cpu/emit.h"

typedef struct KeepSearch {
    Emit *e;
    const Op *contract, *launch;
    Kept *kept;
    PtrMap seen;
    bool fails;
} KeepSearch;

/* ---- the sources of B ---------------------------------------------------------------------- */

static void seek_store(Op *op, void *arg) {
    KeepSearch *s = arg;
    if ((op->code == OP_SIGNAL_WAIT && !op_flag(op, A_SET_ONCE)) || op->code == OP_COMM_FENCE)
        s->fails = true;
    if (op->code != OP_STORE && op->code != OP_ATOMIC) return;
    const Value *written = access_of(op).tensor;
    for (int i = 0; i < s->kept->n_tensors; i++)
        if (tensors_may_meet(written, s->kept->tensors[i])) s->fails = true;
}

static void add_scalar(KeepSearch *s, const Value *v) {
    Kept *k = s->kept;
    if (v->def && v->def->code == OP_CONST) return;
    if (k->n == MAX_KEYS || elem_info[v->type->elem].bits > 64)
        s->fails = true;
    else
        k->values[k->n++] = v;
}

static void add_key_value(KeepSearch *s, Value *v) {
    if (map_get(&s->seen, v)) return;
    map_set(s->e->ctx, &s->seen, v, s);
    bool inside = value_is_inside(v, s->contract);
    if (v->type->kind == TK_TENSOR) {
        if (s->kept->n_tensors == MAX_KEYS)
            s->fails = true;
        else
            s->kept->tensors[s->kept->n_tensors++] = v;
        return;
    }
    if (!inside && v->type->rank == 0) {
        add_scalar(s, v);
        return;
    }
    if (!v->def) { // the contract's own index, or a block that a loop carries
        if (!inside) s->fails = true;
        return;
    }
    bool scalar = v->type->rank == 0 && (v->def->code == OP_DIM || v->def->code == OP_STRIDE);
    if (!scalar && (!op_is_lazy(v->def) || plan_is_cut(s->e, v))) s->fails = true;
    for (int i = 0; i < v->def->n_operands; i++) add_key_value(s, operand(v->def, i));
}

/// Whether a contract can run twice in a task.
static bool runs_again(const Op *op, const Op *launch) {
    const Op *loop = op_enclosing(op, OP_FOR);
    return launch && loop && op_is_inside(loop, launch);
}

/// Returns an i1: the task visits this op more than once. Otherwise separate panels for all
/// iterations gain nothing and occupy the caches.
static LLVMValueRef comes_again_in_task(Emit *e, const Op *op, const Op *launch) {
    const Gen *g = e->g;
    LLVMValueRef yes = LLVMConstInt(g->i1, 1, false), again = LLVMConstNull(g->i1);
    for (const Op *up = op->parent->parent; up != launch; up = up->parent->parent) {
        if (up->code == OP_IF) continue;
        if (up->code != OP_FOR) return yes;
        LLVMValueRef lo = emit_scalar(e, operand(up, 0)), hi = emit_scalar(e, operand(up, 1));
        LLVMValueRef span = LLVMBuildSub(g->b, hi, lo, ""),
                     step = gen_i64(g, op_int(up, A_STEP, 1));
        again = LLVMBuildOr(g->b, again, LLVMBuildICmp(g->b, LLVMIntSGT, span, step, ""), "");
    }
    return again;
}

LLVMValueRef panel_cache_slot(Emit *e, const Kept *k, LLVMValueRef at, int64_t last) {
    const Gen *g = e->g;
    LLVMValueRef slot = gen_min(g, at, gen_i64(g, last));
    return LLVMBuildSelect(g->b, k->again, slot, gen_i64(g, 0), "");
}

/// Collects the inputs of the operand b of op. Returns false if b may not be kept.
static bool find_keys(Emit *e, Op *op, Value *b, Kept *k) {
    Op *launch = op_enclosing(op, OP_LAUNCH);
    *k = (Kept){.slots = 1};
    if (!runs_again(op, launch)) return false;
    KeepSearch s = {.e = e, .contract = op, .launch = launch, .kept = k};
    if (op->code == OP_CONTRACT) {
        add_key_value(&s, operand(op, 0));
        add_key_value(&s, operand(op, 1));
    }
    add_key_value(&s, b);
    if (!s.fails) op_walk_pre(launch, seek_store, &s);
    return !s.fails;
}

bool panel_cache_find(Emit *e, Op *op, Value *b, Kept *k) {
    if (!find_keys(e, op, b, k)) return false;
    k->again = comes_again_in_task(e, op, op_enclosing(op, OP_LAUNCH));
    return true;
}

enum { MAX_SLOTS = 16 };

/// Returns the number of slots for panels of `bytes` bytes: a sixth of L2.
static int64_t slots_for(const Emit *e, int64_t bytes) {
    int64_t n = e->cpu->target.l2_bytes / 6 / bytes;
    return n < 1 ? 1 : n < MAX_SLOTS ? n : MAX_SLOTS;
}

bool panel_cache_find_dot(Emit *e, Op *dot, Value *v, int64_t bytes, Kept *k) {
    const Op *loop = op_enclosing(dot, OP_FOR);
    if (!find_keys(e, dot, v, k)) return false;
    bool changes = false;
    for (int i = 0; i < k->n; i++) changes |= value_is_inside(k->values[i], loop);
    if (!changes) return true;
    if (!runs_again(loop, op_enclosing(dot, OP_LAUNCH)) || op_int(loop, A_STEP, 1) < 1)
        return false;
    LLVMValueRef from = emit_scalar(e, operand(loop, 0));
    k->slots = slots_for(e, bytes);
    LLVMValueRef at = LLVMBuildSub(e->g->b, emit_scalar(e, loop->regions[0]->args[0]), from, "");
    at = LLVMBuildUDiv(e->g->b, at, gen_i64(e->g, op_int(loop, A_STEP, 1)), "");
    k->again = comes_again_in_task(e, loop, op_enclosing(dot, OP_LAUNCH));
    k->slot = panel_cache_slot(e, k, at, k->slots - 1);
    return true;
}

/* ---- keys ---------------------------------------------------------------------------------- */

enum { RECORD = 8 * (MAX_KEYS + 1) }; // a valid flag and the keys

/// Converts a scalar to 64 bits.
static LLVMValueRef scalar_as_bits(Emit *e, const Value *v) {
    const Gen *g = e->g;
    LLVMValueRef x = emit_scalar(e, v);
    unsigned bits = elem_is(v->type->elem, EC_BOOL) ? 1 : (unsigned)elem_info[v->type->elem].bits;
    if (elem_is(v->type->elem, EC_FLOAT))
        x = LLVMBuildBitCast(g->b, x, LLVMIntTypeInContext(g->llvm, bits), "");
    return LLVMTypeOf(x) == g->i64 ? x : LLVMBuildZExt(g->b, x, g->i64, "");
}

static LLVMValueRef key_at(Emit *e, const Kept *k, int i) {
    return gen_offset(e->g, k->memory, gen_i64(e->g, 8 * (i + 1)));
}

/// Invalidates the kept panels at the start of the task.
static void forget_panels(Emit *e, const Kept *k) {
    const Gen *g = e->g;
    LLVMBasicBlockRef here = LLVMGetInsertBlock(g->b);
    LLVMBasicBlockRef start = LLVMGetEntryBasicBlock(e->fn);
    LLVMPositionBuilder(g->b, start, LLVMGetFirstInstruction(start));
    for (int64_t i = 0; i < k->slots; i++) {
        LLVMValueRef at = gen_i64(g, k->offset + i * RECORD);
        memory_store(e, TENSOR_ARENA, gen_i64(g, 0), gen_offset(g, e->arena, at), 8);
    }
    LLVMPositionBuilderAtEnd(g->b, here);
}

LLVMValueRef panel_cache_begin(Emit *e, Kept *k) {
    const Gen *g = e->g;
    k->memory = arena_keep(e, RECORD * k->slots, &k->offset);
    if (k->slot) k->memory = gen_offset(g, k->memory, gen_mul(g, k->slot, gen_i64(g, RECORD)));
    forget_panels(e, k);
    LLVMValueRef valid = memory_load(e, TENSOR_ARENA, g->i64, k->memory, 8);
    LLVMValueRef same = LLVMBuildICmp(g->b, LLVMIntNE, valid, gen_i64(g, 0), "");
    for (int i = 0; i < k->n; i++) {
        LLVMValueRef old = memory_load(e, TENSOR_ARENA, g->i64, key_at(e, k, i), 8);
        LLVMValueRef equal =
            LLVMBuildICmp(g->b, LLVMIntEQ, old, scalar_as_bits(e, k->values[i]), "");
        same = LLVMBuildAnd(g->b, same, equal, "");
    }
    return same;
}

void panel_cache_end(Emit *e, const Kept *k) {
    for (int i = 0; i < k->n; i++)
        memory_store(e, TENSOR_ARENA, scalar_as_bits(e, k->values[i]), key_at(e, k, i), 8);
    memory_store(e, TENSOR_ARENA, gen_i64(e->g, 1), k->memory, 8);
}
