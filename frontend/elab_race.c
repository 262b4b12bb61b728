// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Provable races: a store of a phase that does not depend on one of the phase's indices, neither in
// its place nor in whether it is done. All programs along that index write the same elements then.
//
// Only what is certain is reported: loop-carried values, loads after writes and results of
// atomics count as depending on everything.
#include "frontend/elab.h"

typedef struct Race {
    Elab *e;
    const Op *grid; // the level of the phase in question
    PtrMap seen;    // values known not to depend on its index
} Race;

static bool depends(Race *r, const Value *v);

static bool any_depends(Race *r, const Op *op) {
    for (int i = 0; i < op->n_operands; i++)
        if (depends(r, operand(op, i))) return true;
    return false;
}

/// Of an argument of a loop or grid: its index depends on what the bounds do.
static bool arg_depends(Race *r, const Value *v) {
    const Op *owner = v->region->parent;
    if (owner == r->grid) return true;
    if (owner->code == OP_KERNEL) return false;
    if ((owner->code != OP_FOR && owner->code != OP_PARALLEL) || v->index > 0) return true;
    return depends(r, operand(owner, 0)) || depends(r, operand(owner, 1));
}

/// Memoised for values that do not depend; those that do end the search. Effects and reads of what
/// this phase writes are never certain.
static bool depends(Race *r, const Value *v) {
    if (map_get(&r->seen, v)) return false;
    bool certain =
        v->def && (op_has(v->def, PURE) || v->def->code == OP_LOAD || v->def->code == OP_SCRATCH);
    bool yes = v->def ? !certain || any_depends(r, v->def) : arg_depends(r, v);
    if (!yes) map_set(r->e->ctx, &r->seen, v, (void *)v);
    return yes;
}

/// Whether any choice or loop around the store depends on the index.
static bool guarded(Race *r, const Op *op) {
    for (const Op *at = op->parent->parent; at != r->grid; at = at->parent->parent) {
        if (at->code == OP_WHILE) return true;
        if (at->code == OP_IF && depends(r, operand(at, 0))) return true;
        if ((at->code == OP_FOR || at->code == OP_PARALLEL) &&
            (depends(r, operand(at, 0)) || depends(r, operand(at, 1))))
            return true;
    }
    return false;
}

/// Unknown bounds count as several programs: that is what a grid is for.
static bool at_most_one_program(const Op *grid) {
    int64_t lo, hi, step = op_int(grid, "step", 0);
    if (step == 0) return true;
    bool known = const_int(operand(grid, 0), &lo) && const_int(operand(grid, 1), &hi);
    return known && hi - lo <= step;
}

/// The value does not matter: the same element written twice is the mistake, also with one
/// value.
static void check_store(Op *op, void *arg) {
    Race *r = arg;
    if (op->code != OP_STORE) return;
    Access a = access_of(op);
    for (int i = 0; i < op->n_operands; i++) {
        const Value *v = operand(op, i);
        if (v != a.value && v != a.tensor && depends(r, v)) return;
    }
    if (guarded(r, op)) return;
    const char *index = r->grid->regions[0]->args[0]->name;
    diag(r->e->ctx, op->loc, D_RACE, index ? index : "?");
    diag_note(r->e->ctx, r->grid->loc, "this grid has a program for each '%s'",
              index ? index : "?");
    diag_hint(r->e->ctx, "join the values with 'combine', or use an 'atomic_' function");
}

/// Each level of the grid on its own: a store may depend on m and still forget n.
void el_check_races(Elab *e, const Op *phase) {
    for (const Op *grid = phase; grid && grid->code == OP_PARALLEL;) {
        Race r = {.e = e, .grid = grid};
        if (!at_most_one_program(grid)) op_walk_pre((Op *)grid, check_store, &r);
        const Op *inner = NULL;
        for_each_op(op, grid->regions[0]) if (op->code == OP_PARALLEL) inner = op;
        grid = inner;
    }
}
