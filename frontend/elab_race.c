// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Provable races: a store of a phase that does not depend on one of the phase's indices, neither in
// its place nor in whether it is done. All programs along that index write the same elements then.
//
// Ranks race in the same way: a store to a shard that does not depend on the rank.
//
// Only what is certain is reported: loop-carried values, loads after writes and results of
// atomics count as depending on everything.
#include "frontend/elab.h"

#include <stdlib.h>

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

static const char *name_of(const Value *v) {
    return v->name ? v->name : "?";
}

/// Whether the place of an access, or whether it happens, depends on the index.
static bool place_depends(Race *r, const Op *op) {
    Access a = access_of(op);
    for (int i = a.n_subs ? a.first[0] : op->n_operands; i < op->n_operands; i++)
        if (depends(r, operand(op, i))) return true;
    return (a.mask && depends(r, a.mask)) || guarded(r, op);
}

/// The value does not matter: the same element written twice is the mistake, also with one
/// value. What a rank contributes to an element of a shard is one value, too.
static void check_store(Op *op, void *arg) {
    Race *r = arg;
    bool twice = op->code == OP_COMBINE && value_is_sym(operand(op, 0));
    if ((op->code != OP_STORE && !twice) || place_depends(r, op)) return;
    const char *index = name_of(r->grid->regions[0]->args[0]);
    if (twice)
        diag(r->e->ctx, op->loc, D_COMBINE_TWICE, index, name_of(operand(op, 0)));
    else
        diag(r->e->ctx, op->loc, D_RACE, index);
    diag_note(r->e->ctx, r->grid->loc, "this grid has a program for each '%s'", index);
    if (twice)
        diag_hint(r->e->ctx, "add up what a rank contributes in one program, then combine it");
    else
        diag_hint(r->e->ctx, "join the values with 'combine', or use an 'atomic_' function");
}

/// Each level of the grid on its own: a store may depend on m and still forget n.
static void check_levels(Elab *e, const Op *phase) {
    for (const Op *grid = phase; grid && grid->code == OP_PARALLEL;) {
        Race r = {.e = e, .grid = grid};
        if (!at_most_one_program(grid)) op_walk_pre((Op *)grid, check_store, &r);
        const Op *inner = NULL;
        for_each_op(op, grid->regions[0]) if (op->code == OP_PARALLEL) inner = op;
        grid = inner;
    }
}

/* ---- races between ranks ------------------------------------------------------------------- */

/// Every rank runs the whole grid: the rank is one more index of it. Ranks have their own ordinary
/// tensors and scalars, so what is read from those may differ.
static bool rank_decides(const Elab *e, const Value *v, int budget) {
    if (budget == 0 || (!v->def && v->region->parent->code == OP_KERNEL)) return true;
    const Op *op = v->def;
    if (!op) {
        const Op *owner = v->region->parent;
        bool index = (owner->code == OP_FOR || owner->code == OP_PARALLEL) && v->index == 0;
        return !index || rank_decides(e, operand(owner, 0), budget - 1) ||
               rank_decides(e, operand(owner, 1), budget - 1);
    }
    if (op->code == OP_DIM) return !el_common_dim(e, op);
    if (op->code == OP_RANK || !op_has(op, PURE) || op->n_regions) return true;
    for (int i = 0; i < op->n_operands; i++)
        if (rank_decides(e, operand(op, i), budget - 1)) return true;
    return false;
}

enum { DEPTH = 16 };

static bool rank_guards(const Elab *e, const Op *op, const Op *phase) {
    for (const Op *at = op; at != phase; at = at->parent->parent) {
        const Op *owner = at->parent->parent;
        int n = owner->code == OP_IF ? 1 : 2;
        for (int i = 0; i < n && owner->code != OP_WHILE; i++)
            if (rank_decides(e, operand(owner, i), DEPTH)) return true;
        if (owner->code == OP_WHILE) return true;
    }
    return false;
}

typedef struct Phase {
    Elab *e;
    const Op *op;
    const Value *combined; // the tensor in question
} Phase;

static void check_ranks(Op *op, void *arg) {
    const Phase *p = arg;
    if (op->code != OP_STORE || !value_is_sym(operand(op, 0))) return;
    if (operand(op, 0)->type->extents[0] == 1) return; // there is one rank
    Access a = access_of(op);
    for (int i = a.first[0]; i < op->n_operands; i++)
        if (rank_decides(p->e, operand(op, i), DEPTH)) return;
    if (rank_guards(p->e, op, p->op)) return;
    diag(p->e->ctx, op->loc, D_RANKS_RACE, name_of(operand(op, 0)));
    diag_hint(p->e->ctx,
              "every rank runs the whole grid: 'combine' joins what they have; "
              "%s[rank][...] is the own shard",
              name_of(operand(op, 0)));
}

/// How far the shard that a place is in is from the own one: rank, (rank + n) % W, (n + rank) % W.
static bool shard_offset(const Value *v, int64_t *n) {
    const Op *op = v->def;
    *n = 0;
    if (op && op->code == OP_REM) op = operand(op, 0)->def;
    if (!op || op->code == OP_RANK) return op != NULL;
    if (op->code != OP_ADD) return false;
    for (int i = 0; i < 2; i++) {
        const Op *rank = operand(op, i)->def;
        if (rank && rank->code == OP_RANK) return const_int(operand(op, 1 - i), n);
    }
    return false;
}

static void seek_order(Op *op, void *arg) {
    *(bool *)arg |= op->code == OP_SIGNAL_WAIT || op->code == OP_ATOMIC || op->code == OP_WHILE;
}

/// A store and another access of the same program, whose places differ in the rank alone.
typedef struct Neighbour {
    const Phase *phase;
    const Op *store;
} Neighbour;

/// Next ranks are different ones for each W but 1.
static void check_neighbour(Op *op, void *arg) {
    const Neighbour *n = arg;
    const Op *store = n->store;
    if ((op->code != OP_LOAD && op->code != OP_STORE) || operand(op, 0) != operand(store, 0) ||
        op == store)
        return;
    Access x = access_of(store), y = access_of(op);
    int count = store->n_operands - x.first[0];
    int64_t here, there;
    if (x.mask || y.mask || count != op->n_operands - y.first[0] ||
        !shard_offset(operand(store, x.first[0]), &here) ||
        !shard_offset(operand(op, y.first[0]), &there) || llabs(here - there) != 1 ||
        (op->code == OP_STORE && here > there))
        return;
    for (int i = 1; i < count; i++)
        if (operand(store, x.first[0] + i) != operand(op, y.first[0] + i)) return;
    if (rank_guards(n->phase->e, op, n->phase->op)) return;
    diag(n->phase->e->ctx, op->loc, D_RANKS_MEET, op->code == OP_LOAD ? "reads" : "writes",
         name_of(operand(op, 0)));
    diag_note(n->phase->e->ctx, store->loc, "here it is written");
    diag_hint(n->phase->e->ctx, "ranks meet between two phases, where that is needed: read and "
                                "write in a 'parallel' each, or order them by signals");
}

static void check_neighbours(Op *op, void *arg) {
    const Phase *p = arg;
    if (op->code != OP_STORE || !value_is_sym(operand(op, 0)) ||
        operand(op, 0)->type->extents[0] == 1 || rank_guards(p->e, op, p->op))
        return;
    Neighbour n = {p, op};
    op_walk_pre((Op *)p->op, check_neighbour, &n);
}

static void check_read(Op *op, void *arg) {
    const Phase *p = arg;
    if (op->code != OP_LOAD || operand(op, 0) != p->combined) return;
    diag(p->e->ctx, op->loc, D_COMBINE_READ, name_of(p->combined));
    diag_hint(p->e->ctx, "it is complete when the phase has ended: read it in another 'parallel'");
}

static void check_combined(Op *op, void *arg) {
    Phase p = *(const Phase *)arg;
    p.combined = op->code == OP_COMBINE ? operand(op, 0) : NULL;
    if (p.combined && value_is_sym(p.combined)) op_walk_pre((Op *)p.op, check_read, &p);
}

void el_check_races(Elab *e, const Op *phase) {
    check_levels(e, phase);
    if (!el_rank(e)) return;
    Phase p = {.e = e, .op = phase};
    op_walk_pre((Op *)phase, check_combined, &p);
    op_walk_pre((Op *)phase, check_ranks, &p);
    bool ordered = false;
    op_walk_pre((Op *)phase, seek_order, &ordered);
    if (!ordered) op_walk_pre((Op *)phase, check_neighbours, &p);
}
