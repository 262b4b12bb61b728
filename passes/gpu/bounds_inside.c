// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// bounds-inside: if bounds of a phase depend on elements of tensors, reads them on the device.
//
//   %n = load %off; parallel %m = %n .. M { }
//   ->
//   parallel step 0 { %n = load %off; parallel %m = %n .. M { } }
//
// Host code cannot read a GPU's tensors. Inside the outer phase such bounds are like bounds that
// depend on earlier indices: the device finds its programs while the phase runs (tile_grid.c).
#include "passes/gpu/gpu.h"
#include "passes/passes.h"
#include "passes/util.h"

/// Among the host ops that v depends on, moves those that depend on elements of tensors into
/// `outer`, before `phase`. Returns whether any was found. The front end computes these ops for
/// this phase alone.
static bool move_in(Value *v, Op *phase, const Op *outer) {
    if (value_is_inside(v, outer)) return true;
    Op *def = v->def;
    if (!def || def->n_regions || def->parent != outer->parent) return false;
    bool rests = op_is_load(def);
    for (int i = 0; i < def->n_operands; i++) rests |= move_in(operand(def, i), phase, outer);
    if (rests) op_move_before(def, phase);
    return rests;
}

static bool rests_on_elements(const Value *v) {
    const Op *def = v->def;
    if (!def || def->n_regions) return false;
    if (op_is_load(def)) return true;
    for (int i = 0; i < def->n_operands; i++)
        if (rests_on_elements(operand(def, i))) return true;
    return false;
}

static void enclose_phase(Op *phase, void *arg) {
    PassEnv *env = arg;
    if (phase->code != OP_PARALLEL || op_enclosing(phase, OP_PARALLEL)) return;
    if (!rests_on_elements(operand(phase, 0)) && !rests_on_elements(operand(phase, 1))) return;
    Builder b = build_before(env->ir, phase);
    Value *zero = build_index(&b, 0);
    Op *outer = build_op(&b, OP_PARALLEL, 2, (Value *[]){zero, zero}, 0, NULL, 1);
    op_set_int(env->ir, outer, A_STEP, 0);
    region_add_arg(env->ir, outer->regions[0], zero->type, NULL);
    op_move_to_end(phase, outer->regions[0]);
    for (int i = 0; i < 2; i++) move_in(operand(phase, i), phase, outer);
    Builder end = build_at_end(env->ir, outer->regions[0], phase->loc);
    build_yield(&end, 0, NULL);
}

void pass_bounds_inside(PassEnv *env, Op *module) {
    op_walk_post(module, enclose_phase, env);
}
