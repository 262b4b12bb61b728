// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// dce: removes code without observable results.
//
//   %r:2 = for ... (%k, %a, %b) { ...; yield %a2, %b2 }   // only %r#0 is used, %a2 needs no %b
//   -> a `for` that carries %a alone
//
// Liveness starts at effects and follows operands backwards. The initial operand, region argument,
// yield and result of a carried value are one slot. So a value that only computes its own next
// state dies. Unused results of `if`, loops without effects (every loop is assumed to end), and
// unused scratch tensors die, too.
#include "passes/passes.h"
#include "passes/util.h"

typedef struct SlotLiveness {
    Ctx *ctx;
    PtrMap values;
    VEC(Value *) work;
} SlotLiveness;

static void live_value(SlotLiveness *l, Value *v) {
    if (map_get(&l->values, v)) return;
    map_set(l->ctx, &l->values, v, v);
    vec_push(l->ctx, &l->work, v);
}

static void live_op(SlotLiveness *l, Op *op);

/// Marks all ops inside: of the regions of reduce, scan, combine and contract.
static void live_regions(SlotLiveness *l, Op *op) {
    for (int r = 0; r < op->n_regions; r++) for_each_op(inner, op->regions[r]) {
            inner->mark = 1;
            for (int i = 0; i < inner->n_operands; i++) live_value(l, operand(inner, i));
            live_regions(l, inner);
        }
}

/// Marks op as live, and the values that decide whether it runs. Carried values and results live on
/// their own.
static void live_op(SlotLiveness *l, Op *op) {
    if (op->mark) return;
    op->mark = 1;
    if (op->parent) live_op(l, op->parent->parent);
    if (op->code == OP_FOR || op->code == OP_PARALLEL) {
        live_value(l, operand(op, 0));
        live_value(l, operand(op, 1));
    } else if (op->code == OP_IF || op->code == OP_LAUNCH) {
        live_value(l, operand(op, 0));
    } else if (op->code == OP_WHILE) {
        live_value(l, operand(terminator(op->regions[0]), 0));
    } else if (op->code != OP_MODULE && op->code != OP_ROLES && !op_has(op, ISOLATED)) {
        for (int i = 0; i < op->n_operands; i++) live_value(l, operand(op, i));
        live_regions(l, op);
    }
}

/// Marks carried value i of a loop, or result i of an `if`, and all values that flow into it.
static void live_slot(SlotLiveness *l, Op *op, int i) {
    live_op(l, op);
    if (op_is_loop(op)) live_value(l, operand(op, loop_first_init(op) + i));
    for (int r = 0; r < op->n_regions; r++)
        if (!(op->code == OP_WHILE && r == 0))
            live_value(l, operand(terminator(op->regions[r]), i));
}

static void follow_value(SlotLiveness *l, Value *v) {
    Op *op = v->def ? v->def : v->region->parent;
    if (v->def && (op_is_loop(op) || op->code == OP_IF)) {
        live_slot(l, op, v->index);
    } else if (!v->def && op_is_loop(op)) {
        int fixed = op->code == OP_FOR && v->region == op->regions[0];
        live_op(l, op);
        if (v->index >= fixed) live_slot(l, op, (v->index - fixed) % op->n_results);
    } else {
        live_op(l, op);
    }
}

static void clear_mark(Op *op, void *arg) {
    (void)arg;
    op->mark = 0;
}

static void find_roots(Op *op, void *arg) {
    bool effect = op_writes(op) || (op_has(op, EFFECT) && op->code != OP_SCRATCH);
    Op *home = op->parent ? op->parent->parent : NULL;
    bool ends = op_has(op, TERMINATOR) && op_has(home, ISOLATED);
    if (effect || ends || op->code == OP_MODULE || op_has(op, ISOLATED)) live_op(arg, op);
}

/// Whether a slot is live: its result or an argument is, or (in a merge region) either half.
static bool slot_lives(const SlotLiveness *l, const Op *op, int i) {
    if (map_get(&l->values, result(op, i))) return true;
    if (op->code == OP_IF) return false;
    for (int r = 0; r < op->n_regions; r++) {
        int groups = op->code == OP_FOR && r == 1 ? 2 : 1;
        for (int g = 0; g < groups; g++)
            if (map_get(&l->values, loop_arg(op, r, i + g * op->n_results))) return true;
    }
    return false;
}

static Op *drop_dead_slots(Ir *ir, const SlotLiveness *l, Op *op) {
    bool *keep = ctx_array(l->ctx, bool, op->n_results);
    int kept = 0;
    for (int i = 0; i < op->n_results; i++) kept += keep[i] = slot_lives(l, op, i);
    return kept == op->n_results ? op : drop_slots(ir, op, keep);
}

/// Users follow their operands, so the sweep goes from the last op to the first.
static void sweep_dead_ops(Ir *ir, const SlotLiveness *l, Region *r) {
    for (Op *op = r->last, *before; op; op = before) {
        before = op->prev;
        if (!op->mark && !op_has(op, TERMINATOR)) {
            op_erase(op);
            continue;
        }
        if (op_is_loop(op) || op->code == OP_IF) op = drop_dead_slots(ir, l, op);
        for (int i = 0; i < op->n_regions; i++) sweep_dead_ops(ir, l, op->regions[i]);
    }
}

void pass_dce(PassEnv *env, Op *module) {
    SlotLiveness l = {.ctx = ir_ctx(env->ir)};
    op_walk_pre(module, clear_mark, NULL);
    op_walk_pre(module, find_roots, &l);
    while (l.work.n) follow_value(&l, l.work.data[--l.work.n]);
    for (int i = 0; i < module->n_regions; i++) sweep_dead_ops(env->ir, &l, module->regions[i]);
}
