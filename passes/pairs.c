// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Pairs of programs: two CTAs of a cluster that multiply neighbouring rows of tiles by the same
// columns. What both read each of them brings half of to both, so the second cache is asked for it
// once: `tile-grid` numbers the programs so, `async` finds what they share.
//
// Pairs behind an odd number of rows have a program whose rows are not there. It takes part in the
// copies, and all that it would store lies outside of the tensors.
#include "passes/gpu/gpu.h"
#include "passes/internal.h"
#include "passes/util.h"

bool multiplies(const Region *r) {
    for_each_op(op, r) {
        if (op->code == OP_DOT || op->code == OP_CONTRACT) return true;
        for (int i = 0; i < op->n_regions; i++)
            if (multiplies(op->regions[i])) return true;
    }
    return false;
}

/// What a program without rows would do, too. Of what it stores the bounds of parameters take care.
static void find_effect(Op *op, void *found) {
    bool always = op->code == OP_ATOMIC || op->code == OP_COMBINE || op->code == OP_ASSERT ||
                  op->code == OP_PRINT;
    bool elsewhere = op->code == OP_STORE && operand(op, 0)->def;
    *(bool *)found |= always || elsewhere || op_has(op, EFFECT) || op_flag(op, "system");
}

/// The host could compute it.
static bool is_known(const Value *v, const Op *phase) {
    if (!value_is_inside(v, phase)) return true;
    if (!v->def || !op_has(v->def, PURE) || v->def->n_regions) return false;
    for (int i = 0; i < v->def->n_operands; i++)
        if (!is_known(operand(v->def, i), phase)) return false;
    return true;
}

bool may_pair(const GpuTarget *target, const Op *phase) {
    bool found = false;
    if (!target || !gpu_has(target, GPU_CLUSTER) || !gpu_has(target, GPU_TMA)) return false;
    if (!multiplies(phase->regions[0])) return false;
    op_walk_pre((Op *)phase, find_effect, &found);
    for (const Op *p = phase; p && !found; p = inner_parallel(p))
        found = !is_known(operand(p, 0), phase) || !is_known(operand(p, 1), phase);
    return !found;
}

bool rests_on_index(const Value *v, const Value *index, const Op *phase) {
    if (v == index) return true;
    if (!value_is_inside(v, phase)) return false;
    const Op *op = v->def ? v->def : v->region->parent; // of a loop's: its bounds
    if (op->code == OP_PARALLEL) return false;
    for (int i = 0; i < op->n_operands; i++)
        if (rests_on_index(operand(op, i), index, phase)) return true;
    return false;
}

typedef struct Forget {
    Ir *ir;
    const Op *phase;
    const Value *index;
} Forget;

static void forget(Op *op, void *arg) {
    const Forget *f = arg;
    const Attr *inside = op_is_access(op) ? op_attr(op, "inside") : NULL;
    int64_t left[MAX_RANK];
    if (!inside) return;
    Access a = access_of(op);
    for (int d = 0; d < a.n_subs; d++)
        left[d] =
            rests_on_index(sub_operand(op, &a, d, 0), f->index, f->phase) ? 0 : inside->ints[d];
    op_set_attr(f->ir, op, "inside", at_ints(f->ir, left, a.n_subs));
}

void forget_rows(Ir *ir, Op *phase, const Value *index) {
    Forget f = {ir, phase, index};
    op_walk_pre(phase, forget, &f);
}
