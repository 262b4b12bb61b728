// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Reports provable races: stores of a phase that depend on one of the phase's indices neither in
// their place nor in their conditions. All programs along that index then write the same elements.
//
// Ranks race in the same way: by a store to a shard that does not depend on the rank.
//
// Only certain races are reported: loop-carried values, loads after writes and results of atomics
// count as depending on every index.
#include "frontend/elab/elab_ranks.h"

typedef struct Race {
    Elab *e;
    const Op *grid; // the level of the phase under test
    PtrMap seen;    // values known to be independent of its index
} Race;

static bool depends_on_grid(Race *r, const Value *v);

static bool any_depends(Race *r, const Op *op) {
    for (int i = 0; i < op->n_operands; i++)
        if (depends_on_grid(r, operand(op, i))) return true;
    return false;
}

/// Whether an argument of a loop or grid depends on the index: a loop's index depends on it if the
/// bounds do.
static bool arg_depends(Race *r, const Value *v) {
    const Op *owner = v->region->parent;
    if (owner == r->grid) return true;
    if (owner->code == OP_KERNEL) return false;
    if ((owner->code != OP_FOR && owner->code != OP_PARALLEL) || v->index > 0) return true;
    return depends_on_grid(r, operand(owner, 0)) || depends_on_grid(r, operand(owner, 1));
}

/// Whether v depends on the index. Independent values are memoised; a dependent one ends the
/// search. Effects, and reads of tensors that this phase writes, count as dependent.
static bool depends_on_grid(Race *r, const Value *v) {
    if (map_get(&r->seen, v)) return false;
    bool certain =
        v->def && (op_has(v->def, PURE) || v->def->code == OP_LOAD || v->def->code == OP_SCRATCH);
    bool yes = v->def ? !certain || any_depends(r, v->def) : arg_depends(r, v);
    if (!yes) map_set(r->e->ctx, &r->seen, v, (void *)v);
    return yes;
}

/// Whether any choice or loop around the store depends on the index.
static bool is_guarded_by_index(Race *r, const Op *op) {
    for (const Op *at = op->parent->parent; at != r->grid; at = at->parent->parent) {
        if (at->code == OP_WHILE) return true;
        if (at->code == OP_IF && depends_on_grid(r, operand(at, 0))) return true;
        if ((at->code == OP_FOR || at->code == OP_PARALLEL) &&
            (depends_on_grid(r, operand(at, 0)) || depends_on_grid(r, operand(at, 1))))
            return true;
    }
    return false;
}

/// Whether the grid has at most one program. Unknown bounds count as several programs, the purpose
/// of a grid.
static bool at_most_one_program(const Op *grid) {
    int64_t lo, hi, step = op_int(grid, A_STEP, 0);
    if (step == 0) return true;
    bool known = const_int(operand(grid, 0), &lo) && const_int(operand(grid, 1), &hi);
    return known && hi - lo <= step;
}

static const char *value_name(const Value *v) {
    return v->name ? v->name : "?";
}

/// Whether the place of an access, or its execution, depends on the index.
static bool place_depends(Race *r, const Op *op) {
    Access a = access_of(op);
    for (int i = a.n_subs ? a.first[0] : op->n_operands; i < op->n_operands; i++)
        if (depends_on_grid(r, operand(op, i))) return true;
    return (a.mask && depends_on_grid(r, a.mask)) || is_guarded_by_index(r, op);
}

/// Reports a racing store. Writing the same element twice is the mistake, even with equal values. A
/// rank's contribution to an element of a shard is one value too.
static void check_store_race(Op *op, void *arg) {
    Race *r = arg;
    bool twice = op->code == OP_COMBINE && value_is_sym(operand(op, 0));
    if ((op->code != OP_STORE && !twice) || place_depends(r, op)) return;
    const char *index = value_name(r->grid->regions[0]->args[0]);
    if (twice)
        diag(r->e->ctx, op->loc, D_COMBINE_TWICE, index, value_name(operand(op, 0)));
    else
        diag(r->e->ctx, op->loc, D_RACE, index);
    diag_note(r->e->ctx, r->grid->loc, "this grid has a program for each '%s'", index);
    if (twice)
        diag_hint(r->e->ctx, "sum a rank's contributions in one program, then combine the sum");
    else
        diag_hint(r->e->ctx, "join the values with 'combine', or use an 'atomic_' function");
}

/// Checks each level of the grid on its own: a store may depend on m but not on n.
static void check_levels(Elab *e, const Op *phase) {
    for (const Op *grid = phase; grid && grid->code == OP_PARALLEL;) {
        Race r = {.e = e, .grid = grid};
        if (!at_most_one_program(grid)) op_walk_pre((Op *)grid, check_store_race, &r);
        const Op *inner = NULL;
        for_each_op(op, grid->regions[0]) if (op->code == OP_PARALLEL) inner = op;
        grid = inner;
    }
}

/* ---- races between ranks ------------------------------------------------------------------- */
// Every rank runs the whole grid, so the rank is one more index of it. Two ranks race if programs
// of the same indices touch one place, one of them storing, and neither has waited before: without
// a wait, neither knows the other's progress.

enum { MAX_GUARDS = 8, MAX_TOUCHES = 256 };

/// A choice or loop around an access that may skip it, on all ranks alike.
typedef struct Guard {
    const Op *at;
    const Region *side;
    Fact cond, end; // the condition; for a loop, the two bounds
} Guard;

/// An access by one rank among a number of ranks (Seat). certain: the access touches the place
/// whenever its guards hold.
typedef struct Reach {
    bool certain;
    int n, n_guards;
    Fact place[2 * MAX_RANK + 1]; // the shard, the other subscripts, the mask
    Guard guards[MAX_GUARDS];
} Reach;

/// An access of a symmetric tensor in the phase.
typedef struct SymTouch {
    const Op *op;
    bool first;               // no wait or atomic of its program can precede it
    Reach *seats[MAX_COUNTS]; // for each tried number of ranks, one Reach for each rank
} SymTouch;

typedef struct RacePhase {
    Elab *e;
    const Op *op;
    const Value *combined; // the tensor under test
    bool waited;           // a preceding op waits, or may wait
    VEC(SymTouch) touches;
    int64_t counts[MAX_COUNTS]; // the numbers of ranks to try
    int n_counts;
} RacePhase;

/// Whether all ranks run this side of host code. Host code is equal on all ranks, except for
/// decisions by their number.
static bool host_guard(const Seat *at, const Region *side) {
    Taken taken = el_taken(at, side);
    return taken == ALWAYS || (taken == MAYBE && !el_decided_by_rank(side->parent));
}

static bool same_condition(const Guard *a, const Guard *b) {
    return a->at->code == b->at->code && el_same_fact(a->cond, b->cond) &&
           el_same_fact(a->end, b->end);
}

static bool same_side(const Guard *a, const Guard *b) {
    return (a->side == a->at->regions[0]) == (b->side == b->at->regions[0]);
}

/// Adds the guard of a region. Returns false if the access may be skipped on one rank alone, or is
/// always skipped.
static bool add_guard(const Seat *at, const Region *side, Reach *r) {
    const Op *op = side->parent;
    Taken taken = el_taken(at, side);
    if (taken != MAYBE) return taken == ALWAYS;
    if (op->code == OP_WHILE || r->n_guards == MAX_GUARDS) return false;
    Fact a = el_fact(at, operand(op, 0)), b = op->code == OP_IF ? a : el_fact(at, operand(op, 1));
    Guard g = {op, side, a, b};
    for (int i = 0; i < r->n_guards; i++)
        if (same_condition(&g, &r->guards[i]) && !same_side(&g, &r->guards[i])) return false;
    r->guards[r->n_guards++] = g;
    return a.kind != OPEN && b.kind != OPEN;
}

static bool find_guards(const RacePhase *p, const Seat *at, const Op *op, Reach *r) {
    bool host = false;
    for (const Region *side = op->parent; side->parent->code != OP_KERNEL;
         side = side->parent->parent) {
        if (host ? !host_guard(at, side) : !add_guard(at, side, r)) return false;
        host |= side->parent == p->op;
    }
    return true;
}

/// Computes the place of an access. Returns false if it is unknown or outside of the tensor.
static bool find_place(const Seat *at, const Op *op, Reach *r) {
    Access a = access_of(op);
    for (int i = a.first[0]; i < op->n_operands; i++) {
        r->place[r->n] = el_fact(at, operand(op, i));
        if (r->place[r->n++].kind == OPEN) return false;
    }
    for (int d = 0; d < a.n_subs; d++)
        if (a.subs[d].kind == DIM_AT &&
            el_outside(at, a.tensor, d, r->place[a.first[d] - a.first[0]]))
            return false;
    return true;
}

static void seek_order(Op *op, void *arg) {
    *(bool *)arg |= op->code == OP_SIGNAL_WAIT || op->code == OP_ATOMIC || op->code == OP_WHILE;
}

/// Collects the accesses. The second iteration of a loop runs after all of the first, so a wait in
/// its body precedes all of its accesses.
static void find_touches(Op *op, void *arg) {
    RacePhase *p = arg;
    bool access = op->code == OP_LOAD || op->code == OP_STORE;
    if (access && value_is_sym(operand(op, 0)) && p->touches.n < MAX_TOUCHES)
        vec_push(p->e->ctx, &p->touches, ((SymTouch){.op = op, .first = !p->waited}));
    if (op->code == OP_FOR)
        op_walk_pre(op, seek_order, &p->waited);
    else
        seek_order(op, &p->waited);
}

static int seats_of(int64_t ranks) {
    return ranks < MAX_SEATS ? (int)ranks : MAX_SEATS;
}

static Reach *reach_all(const RacePhase *p, const Op *op, int64_t ranks) {
    int n = seats_of(ranks);
    Reach *seats = ctx_array(p->e->ctx, Reach, n);
    for (int i = 0; i < n; i++) {
        Seat at = {p->e, ranks, i};
        seats[i] = (Reach){0};
        seats[i].certain = find_guards(p, &at, op, &seats[i]) && find_place(&at, op, &seats[i]);
    }
    return seats;
}

/// Whether b runs whenever a runs.
static bool reach_implies(const Reach *a, const Reach *b) {
    for (int i = 0; i < b->n_guards; i++) {
        int k = 0;
        while (k < a->n_guards && !(same_condition(&a->guards[k], &b->guards[i]) &&
                                    same_side(&a->guards[k], &b->guards[i])))
            k++;
        if (k == a->n_guards) return false;
    }
    return true;
}

static bool reaches_meet(const Reach *a, const Reach *b) {
    if (!a->certain || !b->certain || a->n != b->n) return false;
    for (int i = 0; i < a->n; i++)
        if (!el_same_fact(a->place[i], b->place[i])) return false;
    return reach_implies(a, b) || reach_implies(b, a);
}

/// An example of two ranks that race.
typedef struct RankPair {
    const SymTouch *store, *other;
    int count; // index of the number of ranks
    int storing, at;
} RankPair;

/// Finds two ranks so that one stores to the place of the other's access.
static bool find_pair(const RacePhase *p, RankPair *x) {
    int n = seats_of(p->counts[x->count]);
    const Reach *a = x->store->seats[x->count], *b = x->other->seats[x->count];
    for (x->storing = 0; x->storing < n; x->storing++)
        for (x->at = 0; x->at < n; x->at++)
            if (x->storing != x->at && reaches_meet(&a[x->storing], &b[x->at])) return true;
    return false;
}

/// Whether all ranks certainly store to one place.
static bool all_meet(const RacePhase *p, const RankPair *x) {
    const Reach *seats = x->store->seats[x->count];
    for (int i = 1; x->store == x->other && i < seats_of(p->counts[x->count]); i++)
        if (!reaches_meet(&seats[0], &seats[i])) return false;
    return x->store == x->other;
}

/// Whether the code is correct for another number of ranks.
static bool right_elsewhere(const RacePhase *p, const RankPair *x) {
    for (int i = 0; i < p->n_counts; i++) {
        RankPair other = {x->store, x->other, i, 0, 0};
        if (!find_pair(p, &other)) return true;
    }
    return false;
}

static void race_hint(const RacePhase *p, const RankPair *x, const char *name) {
    const char *only = right_elsewhere(p, x) ? "; 'require' says which W a kernel is for" : "";
    if (x->other->op->code == OP_LOAD)
        diag_hint(p->e->ctx,
                  "ranks meet between two phases, where that is needed: read and write in a "
                  "'parallel' each, or order them by signals%s",
                  only);
    else
        diag_hint(p->e->ctx,
                  "give each rank a part of its own, as in %s[r][rank, ...], or write in a "
                  "'parallel' each%s",
                  name, only);
}

static void report_all(const RacePhase *p, const RankPair *x, const char *name) {
    diag(p->e->ctx, x->store->op->loc, D_RANKS_RACE, name);
    diag_hint(p->e->ctx,
              "every rank runs the whole grid: 'combine' joins their values; "
              "%s[rank][...] is the own shard",
              name);
}

static void report_race(const RacePhase *p, const RankPair *x) {
    Ctx *ctx = p->e->ctx;
    const char *name = value_name(operand(x->store->op, 0));
    if (all_meet(p, x)) {
        report_all(p, x, name);
        return;
    }
    const Fact *shard = &x->store->seats[x->count][x->storing].place[0];
    Loc loc = x->other->op->loc;
    int64_t ranks = p->counts[x->count], less = x->storing < x->at ? x->storing : x->at;
    int64_t more = x->storing + x->at - less;
    if (x->other->op->code == OP_LOAD)
        diag(ctx, loc, D_RANKS_MEET, ranks, (int64_t)x->at, (int64_t)x->storing, name);
    else if (shard->kind == NUMBER)
        diag(ctx, loc, D_RANKS_SHARD, ranks, less, more, shard->number, name);
    else
        diag(ctx, loc, D_RANKS_BOTH, ranks, less, more, name);
    if (x->store != x->other) diag_note(ctx, x->store->op->loc, "here it is written");
    race_hint(p, x, name);
}

static bool is_same_subscript(const Op *a, const Op *b) {
    return operand(a, 0) == operand(b, 0) && op_subs(a, A_SUBS) == op_subs(b, A_SUBS);
}

/// Reports one example, for the first number of ranks with a race.
static bool check_touch_pair(const RacePhase *p, const SymTouch *store, const SymTouch *other) {
    if (!other->first || !is_same_subscript(store->op, other->op)) return false;
    for (int i = 0; i < p->n_counts; i++) {
        RankPair x = {store, other, i, 0, 0};
        if (!find_pair(p, &x)) continue;
        report_race(p, &x);
        return true;
    }
    return false;
}

/// Reports the races of a store. A race with itself hides its races with others.
static void check_touch(const RacePhase *p, int i) {
    const SymTouch *store = &p->touches.data[i];
    if (store->op->code != OP_STORE || !store->first || check_touch_pair(p, store, store)) return;
    for (int k = 0; k < p->touches.n; k++) {
        const SymTouch *other = &p->touches.data[k];
        if (other->op->code == OP_LOAD || k > i) check_touch_pair(p, store, other);
    }
}

static void check_ranks(RacePhase *p) {
    p->n_counts = el_rank_counts(p->e, p->counts);
    op_walk_pre((Op *)p->op, find_touches, p);
    for (int i = 0; i < p->touches.n; i++)
        for (int k = 0; k < p->n_counts; k++)
            p->touches.data[i].seats[k] = reach_all(p, p->touches.data[i].op, p->counts[k]);
    for (int i = 0; i < p->touches.n; i++) check_touch(p, i);
}

/* ---- combined elements --------------------------------------------------------------------- */

static void check_read(Op *op, void *arg) {
    const RacePhase *p = arg;
    if (op->code != OP_LOAD || operand(op, 0) != p->combined) return;
    diag(p->e->ctx, op->loc, D_COMBINE_READ, value_name(p->combined));
    diag_hint(p->e->ctx, "it is complete when the phase has ended: read it in another 'parallel'");
}

static void check_combined(Op *op, void *arg) {
    RacePhase p = *(const RacePhase *)arg;
    p.combined = op->code == OP_COMBINE ? operand(op, 0) : NULL;
    if (p.combined && value_is_sym(p.combined)) op_walk_pre((Op *)p.op, check_read, &p);
}

void el_check_races(Elab *e, const Op *phase) {
    check_levels(e, phase);
    if (!el_rank(e)) return;
    RacePhase p = {.e = e, .op = phase};
    op_walk_pre((Op *)phase, check_combined, &p);
    check_ranks(&p);
}
