// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// licm: hoists loop-invariant code out of loops.
//
//   for %k { %q = load %x ...; ... }   ->   %q = load %x ...; for %k { ... }
//
// Pure ops always move: they are total, so a loop without iterations does no harm. Loads move if
// the loop does not write their tensor. Inner loops and branches move whole if they only read. Only
// scalars move out of `parallel` and `launch` into host code: a block there would need memory for
// all programs.
#include "passes/passes.h"
#include "passes/util.h"

/// Whether all operands inside op are defined outside `loop`, or inside op itself.
static bool tree_uses_only_outside(const Op *op, const Op *tree, const Op *loop) {
    for (int i = 0; i < op->n_operands; i++) {
        const Value *v = operand(op, i);
        if (value_is_inside(v, loop) && !value_is_inside(v, tree)) return false;
    }
    for (int r = 0; r < op->n_regions; r++) for_each_op(inner, op->regions[r]) {
            if (!tree_uses_only_outside(inner, tree, loop)) return false;
        }
    return true;
}

/// Whether no load in op reads a tensor that the loop writes. Under --check a load that may be
/// reported stays, since the loop may run no iteration.
static bool loads_may_move(const PassEnv *env, const Op *op, const Op *loop) {
    if (op_is_load(op) &&
        (tree_writes(loop, operand(op, 0)) || (env->check && op_flag(op, A_CHECKED))))
        return false;
    for (int r = 0; r < op->n_regions; r++) for_each_op(inner, op->regions[r]) {
            if (!loads_may_move(env, inner, loop)) return false;
        }
    return true;
}

static bool holds_while(const Op *op) {
    if (op->code == OP_WHILE) return true;
    for (int r = 0; r < op->n_regions; r++) for_each_op(inner, op->regions[r]) {
            if (holds_while(inner)) return true;
        }
    return false;
}

static bool to_host_is_fine(const Op *op) {
    if (!op_has(op, PURE) || op->n_regions) return false;
    for (int i = 0; i < op->n_results; i++)
        if (!ty_is_scalar(result(op, i)->type)) return false;
    return true;
}

static bool may_move_before(const PassEnv *env, const Op *op, const Op *loop) {
    if (op_has(op, TERMINATOR) || !tree_only_reads(op) || op->code == OP_PARALLEL ||
        op->code == OP_LAUNCH || op->code == OP_SCRATCH)
        return false;
    // The end of a `while` may depend on the loop running at all.
    if (holds_while(op)) return false;
    if (!op_is_loop(loop) && !to_host_is_fine(op)) return false;
    return tree_uses_only_outside(op, op, loop) && loads_may_move(env, op, loop);
}

static void hoist_from_loop(Op *op, void *arg) {
    const PassEnv *env = arg;
    bool from_programs = op->code == OP_PARALLEL || op->code == OP_LAUNCH;
    if (!op_is_loop(op) && !from_programs) return;
    for (int r = 0; r < op->n_regions; r++) {
        if (op->code == OP_FOR && r == 1) continue; // merge is a function, not a part of the loop
        for_each_op_safe(inner, op->regions[r]) {
            if (may_move_before(env, inner, op)) op_move_before(inner, op);
        }
    }
}

void pass_licm(PassEnv *env, Op *module) {
    op_walk_post(module, hoist_from_loop, env);
}
