// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Decides which blocks are lazy, and which get a buffer.
//
// Each nest computes a lazy block anew, so an expensive block with many uses is *cut*: it becomes a
// root that fills a buffer. Let `cost` be the work of one vector, and `uses` how often each of its
// vectors is used. Cutting pays if
//     cost * uses > cost + 1 (the store) + uses (the loads).
//
// A load is also cut if its memory is overwritten before a use.
//
// A `for` whose carried blocks have only elementwise uses becomes a *register loop*: the register
// tile is outside, the loop inside, and the carried blocks never reach memory.
#include "backends/cpu/emit.h"

enum { LOOP_FACTOR = 8, GATHER_COST = 12, INTEGER_DIVISION = 12, MAX_COST = 10000 };

typedef struct Use1 {
    int nest;
    int64_t times;
} Use1;

/// Facts about a block value.
typedef struct Info {
    int cost;
    bool cut;
    VEC(Use1) uses; // by nest: a nest computes repeated uses once
} Info;

typedef struct Plan {
    PtrMap of;    // Value -> Info
    PtrMap loops; // register loops; the value says if it is nested in another
    PtrMap nests; // root op -> its nest, counted from 1
    PtrMap order; // op -> position
    int n_nests, n_ops;
} Plan;

static char outer_mark, inner_mark;

static Info *plan_info(Emit *e, const Value *v) {
    Info *i = map_get(&e->plan->of, v);
    if (!i) {
        i = ctx_new(e->ctx, Info);
        map_set(e->ctx, &e->plan->of, v, i);
    }
    return i;
}

bool plan_is_cut(const Emit *e, const Value *v) {
    const Info *i = e->plan ? map_get(&e->plan->of, v) : NULL;
    return i && i->cut;
}
bool plan_is_register_loop(const Emit *e, const Op *loop) {
    return map_get(&e->plan->loops, loop) != NULL;
}
bool plan_is_inner_loop(const Emit *e, const Op *loop) {
    return map_get(&e->plan->loops, loop) == &inner_mark;
}

/* ---- register loops ------------------------------------------------------------------------ */

/// Whether all carried blocks have one shape. outer: each tile runs the loop for itself, so a
/// scalar result has several values, and must have no uses.
static bool may_carry_blocks(const Op *loop, const Type **shape, bool outer) {
    for (int i = 0; i < loop->n_results; i++) {
        const Type *t = result(loop, i)->type;
        if (t->rank == 0 && outer && value_has_uses(result(loop, i))) return false;
        if (t->rank == 0) continue;
        if (*shape && !ty_same_shape(*shape, t)) return false;
        *shape = t;
    }
    return *shape != NULL;
}

/// Whether v is used only at its own place: by elementwise ops, and by loops that carry it on.
/// `seen` holds the values visited so far.
static bool used_in_place(Emit *e, const Value *v, PtrMap *seen) {
    if (map_get(seen, v)) return true;
    map_set(e->ctx, seen, v, e);
    for_each_use(u, v) {
        const Op *op = u->user;
        if (op->code == OP_YIELD) continue;
        if (op->code == OP_FOR && u->index >= 2) continue;
        if (!op_is_lanewise(op) || !used_in_place(e, result(op, 0), seen)) return false;
    }
    return true;
}

/// Whether v exists only at its own place, because a loop carries it in registers.
static bool is_in_place(Emit *e, const Value *v) {
    PtrMap seen = {0};
    return v->type->rank == 0 || used_in_place(e, v, &seen);
}

static bool body_fits(Emit *e, const Op *loop, const Type *shape);

static bool op_fits(Emit *e, const Op *op, const Type *shape) {
    if (op->code == OP_YIELD) return true;
    if (op->code == OP_FOR) {
        const Type *inner = shape;
        for (int i = 0; i < op->n_results; i++)
            if (!is_in_place(e, result(op, i))) return false;
        return may_carry_blocks(op, &inner, false) && body_fits(e, op, shape);
    }
    if (op->code == OP_RESHAPE && !reshape_is_trivial(op)) return false;
    return op_is_lazy(op) || op->code == OP_DIM || op->code == OP_STRIDE;
}

static bool body_fits(Emit *e, const Op *loop, const Type *shape) {
    const Region *r = loop->regions[0];
    for_each_op(op, r) if (!op_fits(e, op, shape)) return false;
    for (int i = 1; i < r->n_args; i++)
        if (!is_in_place(e, r->args[i])) return false;
    return true;
}

static void mark_inner(Op *op, void *arg) {
    Emit *e = arg;
    if (op->code == OP_FOR && !plan_is_register_loop(e, op))
        map_set(e->ctx, &e->plan->loops, op, &inner_mark);
}

static void find_register_loops(Op *op, void *arg) {
    Emit *e = arg;
    const Type *shape = NULL;
    if (op->code != OP_FOR || plan_is_register_loop(e, op) || e->g->debug) return;
    if (!may_carry_blocks(op, &shape, true) || !body_fits(e, op, shape)) return;
    map_set(e->ctx, &e->plan->loops, op, &outer_mark);
    op_walk_pre(op, mark_inner, e);
}

bool plan_in_register_loop(const Emit *e, const Op *op) {
    for (const Op *p = op->parent->parent; p; p = p->parent ? p->parent->parent : NULL)
        if (plan_is_register_loop(e, p)) return true;
    return false;
}

/* ---- the cost of a vector ------------------------------------------------------------------ */

/// Whether a block says which lanes are live. Its value is usually known (unmasked.c).
static bool is_validity(const Value *v) {
    const Op *op = v->def;
    while (op && (op->code == OP_BROADCAST || op->code == OP_RESHAPE)) op = operand(op, 0)->def;
    return op && unmasked_below(op);
}

/// Returns the cost of the op's row, except for ops whose cost depends on operands or types.
static int op_cost(const Op *op) {
    const Value *v = op->n_results ? result(op, 0) : NULL;
    int cost = op_info[op->code].cost.fusion;
    switch (op->code) {
    case OP_LT: return unmasked_below(op) ? 0 : cost;
    case OP_SELECT: return is_validity(operand(op, 0)) ? 0 : cost;
    case OP_RESHAPE: return reshape_is_trivial(op) ? 0 : cost;
    case OP_LOAD: {
        int64_t stride = v->type->rank ? access_stride(op, v->type->rank - 1) : 0;
        return stride == 0 || stride == 1 ? cost : GATHER_COST;
    }
    case OP_DIV: return elem_is(v->type->elem, EC_FLOAT) ? cost : INTEGER_DIVISION;
    case OP_CAST: return elem_info[operand(op, 0)->type->elem].bits < 16 ? cost + 1 : cost;
    default: return cost;
    }
}

/// Returns the cost of one vector. A value that a broadcast repeats along the lanes is computed for
/// a row, not a vector.
static int vector_cost(const Op *op, int cost) {
    if (op->code != OP_BROADCAST || cost < 2) return cost;
    const Type *x = operand(op, 0)->type, *y = result(op, 0)->type;
    return x->rank == y->rank && x->extents[x->rank - 1] == 1 && y->extents[y->rank - 1] > 1 ? 1
                                                                                             : cost;
}

static void add_op_cost(Op *op, void *arg) {
    Emit *e = arg;
    map_set(e->ctx, &e->plan->order, op, (void *)(intptr_t)++e->plan->n_ops);
    if (!op_is_lazy(op) || result(op, 0)->type->rank == 0) return;
    int cost = op_cost(op);
    for (int i = 0; i < op->n_operands; i++)
        if (i && operand(op, i) == operand(op, 0))
            continue; // a square computes its operand once
        else if (operand(op, i)->type->rank && ty_is_block(operand(op, i)->type))
            cost += plan_info(e, operand(op, i))->cost;
    cost = vector_cost(op, cost);
    plan_info(e, result(op, 0))->cost = cost < MAX_COST ? cost : MAX_COST;
}

int plan_cost(Emit *e, const Value *v) {
    if (v->type->rank == 0) return 0;
    return bound_buffer(e, v) ? 1 : plan_info(e, v)->cost;
}

/* ---- the uses of a block ------------------------------------------------------------------- */

static int op_order(const Emit *e, const Op *op) {
    return (int)(intptr_t)map_get(&e->plan->order, op);
}

/// Whether lazy ops compute v from a result of op.
static bool stands_on(Emit *e, const Value *v, const Op *op, PtrMap *seen) {
    if (!v->def || map_get(seen, v)) return false;
    map_set(e->ctx, seen, v, e);
    if (v->def == op) return true;
    if (!op_is_lazy(v->def)) return false;
    for (int i = 0; i < v->def->n_operands; i++)
        if (stands_on(e, operand(v->def, i), op, seen)) return true;
    return false;
}

static const Type *iteration_space(const Op *op) {
    switch (op->code) {
    case OP_STORE: return access_of(op).value->type;
    case OP_REDUCE: return operand(op, 0)->type;
    default: return NULL;
    }
}

/// Numbers the nests. Neighbouring stores and reductions of one space form one nest, as in nest.c.
static void number_nests(Emit *e, Region *r) {
    const Op *last = NULL;
    for_each_op(op, r) {
        for (int i = 0; i < op->n_regions; i++)
            if (op->code != OP_REDUCE && op->code != OP_SCAN) number_nests(e, op->regions[i]);
        if (op_is_lazy(op)) continue;
        const Type *space = iteration_space(op);
        bool joins = last && space && ty_same_shape(iteration_space(last), space);
        for (int i = 0; joins && i < op->n_operands; i++) {
            PtrMap seen = {0};
            joins = !stands_on(e, operand(op, i), last, &seen);
        }
        if (!joins) e->plan->n_nests++;
        map_set(e->ctx, &e->plan->nests, op, (void *)(intptr_t)e->plan->n_nests);
        last = space ? op : NULL;
    }
}

static void want_in_nest(Emit *e, Info *i, int nest, int64_t times) {
    if (times > 1 << 20) times = 1 << 20;
    for (int k = 0; k < i->uses.n; k++) {
        Use1 *u = &i->uses.data[k];
        if (u->nest != nest) continue;
        if (u->times < times) u->times = times;
        return;
    }
    vec_push(e->ctx, &i->uses, ((Use1){nest, times}));
}

/// Returns how often each vector of x is computed for one vector of the op's result.
static int64_t repeat_count(const Emit *e, const Op *op, const Value *x) {
    if (op->code != OP_BROADCAST) return 1;
    const Type *y = result(op, 0)->type;
    int64_t factor = 1;
    for (int d = 0; d < y->rank; d++)
        if (x->type->rank == y->rank && x->type->extents[d] == 1) factor *= y->extents[d];
    int last = y->rank - 1; // along the lanes one scalar serves a whole vector
    int64_t lanes = e->cpu->target.vector_bytes / 4;
    if (x->type->rank && x->type->extents[last] == 1 && y->extents[last] > lanes)
        factor = factor / (y->extents[last] / lanes);
    return factor;
}

/// Returns how often the loops between the definition of v and its use repeat the work.
static int64_t loop_repeats(const Value *v, const Op *user) {
    const Region *home = v->def ? v->def->parent : v->region;
    int64_t n = 1;
    for (const Region *r = user->parent; r && r != home; r = r->parent ? r->parent->parent : NULL)
        if (r->parent && r->parent->code != OP_IF && n < 1 << 12) n *= LOOP_FACTOR;
    return n;
}

static void count_uses(Emit *e, Value *v, Info *info) {
    for_each_use(u, v) {
        Op *op = u->user;
        int64_t loops = loop_repeats(v, op);
        int nest = (int)(intptr_t)map_get(&e->plan->nests, op);
        if (!op_is_lazy(op) || result(op, 0)->type->rank == 0) {
            int64_t scalar = op->code == OP_ATOMIC ? e->cpu->target.vector_bytes / 4 : 1;
            want_in_nest(e, info, nest, loops * scalar);
            continue;
        }
        const Info *by = plan_info(e, result(op, 0));
        int64_t times = loops * repeat_count(e, op, v);
        if (by->cut) want_in_nest(e, info, -op_order(e, op), times);
        for (int k = 0; !by->cut && k < by->uses.n; k++)
            want_in_nest(e, info, by->uses.data[k].nest, times * by->uses.data[k].times);
    }
}

/// Whether the use needs the whole block in memory, so that an existing buffer is used directly.
static bool wants_whole(const Use *u) {
    switch (u->user->code) {
    case OP_DOT: return u->index < 2;
    case OP_GATHER: return u->index == 0;
    case OP_SORT: return true;
    default: return false;
    }
}

/// Whether an op in a loop uses the whole of an outer v, once an iteration.
static bool is_whole_again(const Value *v) {
    for_each_use(u, v) {
        if (wants_whole(u) && loop_repeats(v, u->user) > 1) return true;
    }
    return false;
}

static bool moves_only(const Op *op) {
    switch (op->code) {
    case OP_CONST:
    case OP_IOTA:
    case OP_BROADCAST:
    case OP_PERMUTE:
    case OP_SLICE: return true;
    case OP_RESHAPE: return reshape_is_trivial(op);
    default: return false;
    }
}

static void decide_cut(Emit *e, Op *op) {
    if (!op_is_lazy(op) || result(op, 0)->type->rank == 0 || plan_in_register_loop(e, op)) return;
    Value *v = result(op, 0);
    Info *info = plan_info(e, v);
    count_uses(e, v, info);
    int64_t uses = 0;
    for (int k = 0; k < info->uses.n; k++) uses += info->uses.data[k].times;
    if (debug_shows(e, v)) info->cut = true;
    if (moves_only(op)) return;
    info->cut |= info->cost * uses > info->cost + 1 + uses || is_whole_again(v);
}

/// Decides for users first: a cut user uses its operands once.
static void decide_region(Emit *e, Region *r) {
    for (Op *op = r->last; op; op = op->prev) {
        for (int i = op->n_regions - 1; i >= 0; i--) decide_region(e, op->regions[i]);
        decide_cut(e, op);
    }
}

/* ---- blocks that must be cut --------------------------------------------------------------- */

/// Returns the op of region r that contains op.
static const Op *ancestor_in_region(const Op *op, const Region *r) {
    while (op && op->parent != r) op = op->parent ? op->parent->parent : NULL;
    return op;
}

/// Returns the latest op of region r that uses v, through lazy ops. `seen` holds the values visited
/// so far.
static const Op *last_use(Emit *e, const Value *v, const Region *r, PtrMap *seen,
                          const Op *latest) {
    for_each_use(u, v) {
        const Op *at = ancestor_in_region(u->user, r);
        bool lazy = op_is_lazy(u->user) && !plan_is_cut(e, result(u->user, 0));
        if (lazy && map_get(seen, u->user)) continue;
        if (lazy) {
            map_set(e->ctx, seen, u->user, u->user);
            latest = last_use(e, result(u->user, 0), r, seen, latest);
        } else if (at && (!latest || op_order(e, at) > op_order(e, latest))) {
            latest = at;
        }
    }
    return latest;
}

typedef struct TensorWrites {
    const Value *tensor;
    bool found;
} TensorWrites;

static void seek_write(Op *op, void *arg) {
    TensorWrites *w = arg;
    bool writes = op->code == OP_STORE || op->code == OP_ATOMIC;
    if (writes && tensors_may_meet(access_of(op).tensor, w->tensor)) w->found = true;
    if (op->code == OP_SIGNAL_WAIT || op->code == OP_COMM_FENCE)
        w->found = true; // others have written
}

/// Whether a store may read its own destination, because both name the same elements in the same
/// way (of one tensor, or of two that are one view).
static bool is_same_elements(const Op *store, const Op *load) {
    Access s = access_of(store), l = access_of(load);
    if (s.n_subs != l.n_subs || s.mask || l.mask) return false;
    for (int d = 0; d < s.n_subs; d++) {
        const SubDim *a = &s.subs[d], *b = &l.subs[d];
        if (a->kind != b->kind || a->kind == DIM_PICK || a->size != b->size || a->mul != b->mul)
            return false;
        if (sub_operand(store, &s, d, 0) != sub_operand(load, &l, d, 0)) return false;
    }
    return ty_same_shape(s.value->type, result(load, 0)->type);
}

/// Whether a lane of v, computed as late as its store, depends on another lane of the loaded block,
/// which the store may have overwritten. aside: v itself stands for other lanes.
static bool reads_other_lanes(Emit *e, const Value *v, const Value *loaded, bool aside,
                              PtrMap *seen) {
    const Op *op = v->def;
    if (v == loaded) return aside;
    if (!op || !op_is_lazy(op) || map_get(&seen[aside], v)) return false;
    map_set(e->ctx, &seen[aside], v, e);
    for (int i = 0; i < op->n_operands; i++)
        if (reads_other_lanes(e, operand(op, i), loaded, aside || !op_is_lanewise(op), seen))
            return true;
    return false;
}

static bool is_stored_in_place(Emit *e, const Op *store, const Op *load) {
    PtrMap seen[2] = {0};
    if (store->code != OP_STORE || !is_same_elements(store, load)) return false;
    return !reads_other_lanes(e, access_of(store).value, result(load, 0), false, seen);
}

static void keep_loaded(Emit *e, Op *load) {
    PtrMap seen = {0};
    const Op *last = last_use(e, result(load, 0), load->parent, &seen, NULL);
    for (Op *op = load->next; last && op; op = op->next) {
        TensorWrites w = {operand(load, 0), false};
        op_walk_pre(op, seek_write, &w);
        bool in_place = op == last && is_stored_in_place(e, op, load);
        if (w.found && !in_place) plan_info(e, result(load, 0))->cut = true;
        if (op == last) return;
    }
}

static void must_cut(Op *op, void *arg) {
    Emit *e = arg;
    if (op->code == OP_LOAD && result(op, 0)->type->rank) keep_loaded(e, op);
    if (op->code == OP_RESHAPE && result(op, 0)->type->rank && !reshape_is_trivial(op))
        plan_info(e, operand(op, 0))->cut = true;
}

void plan_function(Emit *e, Region *body) {
    e->plan = ctx_new(e->ctx, Plan);
    for_each_op(op, body) op_walk_pre(op, find_register_loops, e);
    for_each_op(op, body) op_walk_pre(op, add_op_cost, e);
    number_nests(e, body);
    for_each_op(op, body) op_walk_pre(op, must_cut, e);
    decide_region(e, body);
}
