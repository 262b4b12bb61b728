// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// pads: follows padding from reads beyond the end of a range to results that it changes, and warns.
// This is the commonest bug in languages of this kind:
//
//   let d = x[n] - mean;  let v = sum(d * d);       // lanes beyond N hold (0 - mean) ** 2
//
// A *fact* is about one axis of a block: lanes at or beyond `count` are past the end, and hold a
// known constant, or another value that comes from the pad. Lanewise ops compute on these constants
// (pads_lanes.c). Comparisons of lane numbers with the count are facts themselves, so `valid(n) ? d
// : 0` is clean. If an axis with a fact is folded, multiplied away, scanned, sorted, picked from or
// counted, lanes past the end must hold a value that changes nothing (pads_folds.c). The lanes that
// elaboration masks for `present` are a choice by lane numbers, too.
//
// Every op has a row below with its effect on pads; the C compiler reports an op without one. The
// analysis prefers silence: values that loops and branches carry, and mixtures of two ranges, have
// no facts.
#include "passes/pads/pads.h"

#include "passes/passes.h"

static const Facts no_facts;

enum { LOOK = 200 }; // maximum number of defining values to visit

const Facts *facts_of(const Pads *p, const Value *v) {
    const Facts *f = map_get(&p->facts, v);
    return f ? f : &no_facts;
}

void set_facts(Pads *p, const Value *v, const Facts *f) {
    for (int d = 0; d < v->type->rank; d++)
        if (f->axis[d].holds) {
            map_set(p->ctx, &p->facts, v, ctx_copy(p->ctx, f, sizeof *f));
            p->n_facts++;
            return;
        }
}

const void *lanes_from(const Pads *p, const Value *count) {
    int64_t n;
    if (!const_int(count, &n)) return count;
    return ctx_name(p->ctx, ctx_format(p->ctx, "%lld", (long long)n));
}

/// Returns the identity of lanes that an op makes from others. Equal lanes from the same operands
/// in the same way get the same identity.
static const void *lanes_by(const Pads *p, const char *how, const void *from, const void *with) {
    return ctx_name(p->ctx, ctx_format(p->ctx, "%s %p %p", how, from, with));
}

/* ---- sources ------------------------------------------------------------------------------- */

/// Adds facts for axes along ranges that may end inside the block. Pads that the program chose
/// count, too: -inf is right for max and wrong for sum.
static void source_facts(Pads *p, const Op *op, const Cell *pad) {
    Access a = access_of(op);
    const Attr *inside = op_ints(op, A_IN_BOUNDS);
    Facts f = {0};
    for (int d = 0; d < a.n_subs; d++) {
        int64_t n;
        if (a.subs[d].kind != DIM_AXIS || a.subs[d].size == 1) continue;
        const Value *count = sub_operand(op, &a, d, 1);
        if (inside && inside->ints[d] == 2) continue;
        if (const_int(count, &n) && n >= a.subs[d].size) continue;
        f.axis[a.axis_of[d]] = (Fact){.holds = pad ? CONSTANT : OTHER,
                                      .value = pad ? *pad : (Cell){0},
                                      .lanes = lanes_from(p, count),
                                      .count = count,
                                      .read = op};
    }
    set_facts(p, result(op, 0), &f);
}

static void read_facts(Pads *p, const Op *load) {
    const Attr *pad = const_of(access_of(load).pad);
    Cell cell = {0};
    if (pad) cell = cell_of_attr(result(load, 0)->type->elem, pad);
    if (load == p->changed) cell = p->pad;
    source_facts(p, load, pad || load == p->changed ? &cell : NULL);
}

/// An atomic returns 0 for lanes outside the tensor. Its added value must have the same lanes.
static void atomic_facts(Pads *p, const Op *op) {
    source_facts(p, op, &(Cell){0});
}

static void live_facts(Pads *p, const Op *op) {
    Access a = access_of(op);
    Facts f = {0};
    for (int d = 0; d < a.n_subs; d++) {
        if (a.subs[d].kind != DIM_AXIS) continue;
        const Value *count = sub_operand(op, &a, d, 1);
        f.axis[a.axis_of[d]] =
            (Fact){.holds = CONSTANT, .lanes = lanes_from(p, count), .count = count};
    }
    set_facts(p, result(op, 0), &f);
}

/* ---- shapes -------------------------------------------------------------------------------- */

/// Joins the facts of two sets of lanes.
static Fact joined_fact(Fact a, const Fact *b, Elem e) {
    if (!a.holds || !b->holds) return a.holds ? a : *b;
    if (a.holds != CONSTANT || b->holds != CONSTANT || !cell_equal(e, a.value, b->value))
        a.holds = OTHER;
    if (!a.read) a.read = b->read;
    a.chosen &= b->chosen;
    a.count = NULL;
    return a;
}

/// Returns the fact for the lanes of axes from..to, in row-major order, split into other axes.
static Fact rebroken_fact(const Pads *p, const Facts *in, int from, int to, const Type *t,
                          const Type *as) {
    Fact all = {0};
    Text how = {.ctx = p->ctx};
    for (int d = from; d < to; d++) {
        all = joined_fact(all, &in->axis[d], t->elem);
        text_add(&how, "%lld %p,", (long long)t->extents[d],
                 in->axis[d].holds ? in->axis[d].lanes : NULL);
    }
    all.lanes = lanes_by(p, how.data, ty_with_elem(p->ir, as, EL_BOOL), NULL);
    all.count = NULL;
    return all;
}

static int skip_ones(const Type *t, int d) {
    while (d < t->rank && t->extents[d] == 1) d++;
    return d;
}

/// A reshape divides into groups: some axes before it and some after it that hold the same
/// elements. The facts of axes after it follow from the axes of the same group.
static void reshape_facts(Pads *p, const Op *op) {
    const Type *from = operand(op, 0)->type, *to = result(op, 0)->type;
    const Facts *in = facts_of(p, operand(op, 0));
    Facts f = {0};
    for (int i = skip_ones(from, 0), d = skip_ones(to, 0); i < from->rank && d < to->rank;
         i = skip_ones(from, i), d = skip_ones(to, d)) {
        int i0 = i, d0 = d;
        int64_t a = from->extents[i++], b = to->extents[d++];
        while (a != b) {
            if (a < b)
                a *= from->extents[i++];
            else
                b *= to->extents[d++];
        }
        bool one = i - i0 == 1 && d - d0 == 1;
        Fact all = one ? in->axis[i0] : rebroken_fact(p, in, i0, i, from, to);
        for (int k = d0; k < d; k++)
            if (to->extents[k] > 1) f.axis[k] = all;
    }
    set_facts(p, result(op, 0), &f);
}

/// For broadcast, permute and slice: the lanes of an axis stay, come from another axis, or are
/// fewer.
static void shape_facts(Pads *p, const Op *op) {
    const Value *x = operand(op, 0);
    const Facts *in = facts_of(p, x);
    Facts f = {0};
    for (int d = 0; d < result(op, 0)->type->rank; d++) {
        int from = op->code == OP_PERMUTE ? (int)op_ints(op, A_PERM)->ints[d] : d;
        if (from < x->type->rank && x->type->extents[from] == result(op, 0)->type->extents[d])
            f.axis[d] = in->axis[from];
    }
    set_facts(p, result(op, 0), &f);
}

/// Lanes past the end of a part lie amid the lanes of the whole.
static void concat_facts(Pads *p, const Op *op) {
    int axis = (int)op_int(op, A_AXIS, 0);
    Facts f = {0};
    for (int i = 0; i < op->n_operands; i++) {
        const Type *t = operand(op, i)->type;
        const Facts *in = facts_of(p, operand(op, i));
        for (int d = 0; d < t->rank; d++) f.axis[d] = joined_fact(f.axis[d], &in->axis[d], t->elem);
        const Fact *own = &in->axis[axis];
        const char *how = ctx_format(p->ctx, "part %lld", (long long)t->extents[axis]);
        f.axis[axis].lanes = lanes_by(p, how, f.axis[axis].lanes, own->holds ? own->lanes : NULL);
        f.axis[axis].count = NULL;
    }
    set_facts(p, result(op, 0), &f);
}

/* ---- folds --------------------------------------------------------------------------------- */

/// Returns the fold of a reduce or scan if it is a known one of a single block; else OP_COUNT.
static OpCode fold_of(const Op *op) {
    return op->n_results == 1 ? region_monoid(op->regions[0]) : OP_COUNT;
}

/// The fact of another axis after the fold: equal constants fold to their own fold.
static Fact folded_fact(const Pads *p, const Op *op, Fact f, Elem e) {
    OpCode code = fold_of(op);
    bool idempotent = code != OP_ADD && code != OP_MUL && code != OP_XOR && code != OP_COUNT;
    if (f.holds && !idempotent && !(code != OP_COUNT && is_identity(p->ir, code, e, &f)))
        f.holds = OTHER;
    return f;
}

/// Whether lanes past the end are never greater than another lane of v, for a maximum; never less,
/// for a minimum.
static bool is_beyond(const Value *v, OpCode code, const Fact *f) {
    if (f->holds != CONSTANT || (code != OP_MAX && code != OP_MIN)) return false;
    return is_bounded(v, cell_number(v->type->elem, f->value), code == OP_MIN);
}

/// Whether lanes past the end leave the fold of operand 0 as it is.
static bool is_harmless(const Pads *p, const Op *op, int axis, const Fact *f) {
    const Value *x = operand(op, 0);
    OpCode code = fold_of(op);
    if (code == OP_COUNT) return fold_ignores(p, op, axis, f);
    if (is_identity(p->ir, code, x->type->elem, f)) return true;
    bool up = code == OP_MIN;
    if (code != OP_MAX && !up) return f->holds == REPEATED && (code == OP_AND || code == OP_OR);
    if (f->holds == REPEATED || is_beyond(x, code, f)) return true;
    double c = cell_number(x->type->elem, f->value);
    return f->holds == CONSTANT && op->code == OP_REDUCE && only_raised(result(op, 0), c, up);
}

/// Returns the loop that carries v, and its slot; or NULL.
static const Op *loop_of(const Value *v, int *slot) {
    const Op *loop = v->def ? NULL : v->region->parent;
    if (!loop || (loop->code != OP_FOR && loop->code != OP_WHILE)) return NULL;
    bool body = v->region == loop->regions[loop->code == OP_FOR ? 0 : 1];
    *slot = v->index - (loop->code == OP_FOR ? 1 : 0);
    return body && *slot >= 0 ? loop : NULL;
}

/// Handles acc += f(x[n]) in a loop over n: a fold over the iterations, lane by lane. The range
/// ends elsewhere in each iteration, so the lanes of acc are not its lanes, and all of them count.
static void turn_facts(Pads *p, const Op *op) {
    if (op->n_operands != 2 || !result(op, 0)->type->rank) return;
    OpCode code = op->code == OP_SUB ? OP_ADD : op->code;
    for (int i = 0; i < 2; i++) {
        int slot;
        const Value *v = operand(op, !i);
        const Op *loop = loop_of(operand(op, i), &slot);
        Elem e = v->type->elem;
        if (!loop || (op->code == OP_SUB && i) || !monoid_identity(p->ir, code, e)) continue;
        if (operand(terminator(operand(op, i)->region), slot) != result(op, 0)) continue;
        for (int d = 0; d < v->type->rank; d++) {
            const Fact *f = &facts_of(p, v)->axis[d];
            PtrMap none = {0};
            if (!f->holds || !f->read || !f->count || slice_is_movable(f->count, loop, &none))
                continue;
            if (is_identity(p->ir, code, e, f) || is_beyond(v, code, f)) continue;
            pads_warn(p, op, !i, d, f, code);
            break;
        }
    }
}

static void elementwise_facts(Pads *p, const Op *op) {
    lane_facts(p, op);
    turn_facts(p, op);
}

static void reduce_facts(Pads *p, const Op *op) {
    int axis = (int)op_int(op, A_AXIS, 0);
    for (int i = 0; i < op->n_operands; i++) {
        const Fact *f = &facts_of(p, operand(op, i))->axis[axis];
        if (!f->holds || !f->read || is_harmless(p, op, axis, f)) continue;
        pads_warn(p, op, i, axis, f, fold_of(op));
        break;
    }
    for (int i = 0; i < op->n_results; i++) {
        const Type *t = operand(op, i)->type;
        const Facts *in = facts_of(p, operand(op, i));
        Facts f = {0};
        for (int d = 0, out = 0; d < t->rank; d++)
            if (d != axis) f.axis[out++] = folded_fact(p, op, in->axis[d], t->elem);
        set_facts(p, result(op, i), &f);
    }
}

/// A running fold reaches lanes past the end last, so they do no harm. If they held the identity,
/// they then hold the total. A reverse scan meets them first.
static void scan_facts(Pads *p, const Op *op) {
    int axis = (int)op_int(op, A_AXIS, 0);
    bool reverse = op_flag(op, A_REVERSE), exclusive = op_flag(op, A_EXCLUSIVE);
    for (int i = 0; i < op->n_results; i++) {
        const Type *t = operand(op, i)->type;
        Facts f = *facts_of(p, operand(op, i));
        Fact *along = &f.axis[axis];
        bool ignored = along->holds && is_harmless(p, op, axis, along);
        if (along->holds && along->read && reverse && !ignored && i == 0)
            pads_warn(p, op, i, axis, along, fold_of(op));
        if (along->holds && !(reverse && ignored))
            along->holds = ignored && !exclusive ? REPEATED : OTHER;
        for (int d = 0; d < t->rank; d++)
            if (d != axis) f.axis[d] = folded_fact(p, op, f.axis[d], t->elem);
        set_facts(p, result(op, i), &f);
    }
}

/// Lanes past the end must sort behind all others. Then they stay there in all blocks.
static void sort_facts(Pads *p, const Op *op) {
    int axis = (int)op_int(op, A_AXIS, 0);
    const Value *x = operand(op, 0);
    const Fact *f = &facts_of(p, x)->axis[axis];
    bool down = op_flag(op, A_DESCENDING);
    OpCode like = down ? OP_MAX : OP_MIN; // its identity is the last in order
    if (x->type->elem == EL_BOOL) like = down ? OP_OR : OP_AND;
    if (f->holds && f->read && !is_identity(p->ir, like, x->type->elem, f))
        pads_warn(p, op, 0, axis, f, like);
    for (int i = 0; i < op->n_results; i++)
        set_facts(p, result(op, i), facts_of(p, operand(op, i)));
}

/// Products of lanes past the end of the inner dimension must be 0, so one factor must be 0 in
/// these lanes.
static void dot_facts(Pads *p, const Op *op) {
    const Value *a = operand(op, 0), *b = operand(op, 1);
    const Fact *x = &facts_of(p, a)->axis[1], *y = &facts_of(p, b)->axis[0];
    bool zero = (x->holds == CONSTANT && cell_is(a->type->elem, x->value, 0)) ||
                (y->holds == CONSTANT && cell_is(b->type->elem, y->value, 0));
    int bad = x->holds && x->read ? 0 : 1;
    if ((x->holds || y->holds) && !zero) pads_warn(p, op, bad, !bad, bad ? y : x, OP_ADD);
    Facts f = {.axis = {facts_of(p, a)->axis[0], facts_of(p, b)->axis[1]}};
    for (int d = 0; d < 2; d++)
        if (f.axis[d].holds == CONSTANT && cell_is((d ? b : a)->type->elem, f.axis[d].value, 0))
            f.axis[d].value = (Cell){0};
        else if (f.axis[d].holds)
            f.axis[d].holds = OTHER;
    if (op->n_operands == 2) set_facts(p, result(op, 0), &f);
}

/* ---- picks and counts ---------------------------------------------------------------------- */

/// Returns 1 if the positions of a pick follow the order of lanes, -1 if they do not, and 0 if they
/// depend on more than lane numbers and constants.
static int lane_order(const Value *at, int *budget) {
    const Op *op = at->def;
    if (const_of(at) || def_of(at, OP_IOTA)) return 1;
    if (!op || --*budget < 0 || !op_has(op, PURE)) return 0;
    switch (op->code) {
    case OP_BROADCAST:
    case OP_RESHAPE:
    case OP_CAST: return lane_order(operand(op, 0), budget);
    case OP_ADD: {
        int a = lane_order(operand(op, 0), budget), b = lane_order(operand(op, 1), budget);
        return a == b ? a : a * b;
    }
    case OP_SUB: {
        int a = lane_order(operand(op, 0), budget), b = lane_order(operand(op, 1), budget);
        return !a || !b ? 0 : const_of(operand(op, 1)) ? a : -1;
    }
    default:
        for (int i = 0; i < op->n_operands; i++)
            if (!lane_order(operand(op, i), budget)) return 0;
        return -1;
    }
}

/// A position outside gives 0, so lanes past the end should be 0, too. Positions that reverse or
/// rotate the lanes (flip, roll) put lanes past the end among the others.
static void gather_facts(Pads *p, const Op *op) {
    int axis = (int)op_int(op, A_AXIS, 0), budget = LOOK;
    const Value *x = operand(op, 0), *at = operand(op, 1);
    Facts f = *facts_of(p, x);
    Fact *along = &f.axis[axis];
    bool zero = along->holds == CONSTANT && cell_is(x->type->elem, along->value, 0);
    bool turned = lane_order(at, &budget) < 0;
    if (along->holds && along->read && !along->chosen && (turned || !zero))
        pads_warn(p, op, 0, axis, along, OP_COUNT);
    along->lanes = lanes_by(p, "gather", along->lanes, at);
    along->count = NULL;
    const Fact *own = &facts_of(p, at)->axis[axis]; // lanes past the end of the positions pick
                                                    // arbitrary elements
    if (own->holds && !along->holds) *along = *own;
    if (own->holds) along->holds = OTHER;
    set_facts(p, result(op, 0), &f);
}

/// Elements past the end must be masked, or fall into no bin.
static void histogram_facts(Pads *p, const Op *op) {
    const Value *x = operand(op, 0);
    int64_t bins = result(op, 0)->type->extents[0];
    for (int d = 0; d < x->type->rank; d++) {
        const Fact *f = &facts_of(p, x)->axis[d];
        bool masked = false;
        if (op->n_operands == 2) {
            Operand mask = operand_in(p, operand(op, 1), d, f);
            masked = f->holds && mask.lane == KNOWN && !mask.value.u;
        }
        bool bin = f->holds != CONSTANT ||
                   (elem_is(x->type->elem, EC_SINT) ? f->value.i >= 0 && f->value.i < bins
                                                    : f->value.u < (uint64_t)bins);
        if (f->holds && f->read && !masked && bin) pads_warn(p, op, 0, d, f, OP_COUNT);
    }
}

/// Under --check an assert tests all lanes.
static void assert_facts(Pads *p, const Op *op) {
    const Value *x = operand(op, 0);
    for (int d = 0; d < x->type->rank; d++) {
        const Fact *f = &facts_of(p, x)->axis[d];
        if (f->holds && f->read && !(f->holds == CONSTANT && f->value.u))
            pads_warn(p, op, 0, d, f, OP_AND);
    }
}

/* ---- writes -------------------------------------------------------------------------------- */

/// Whether both dimensions follow the same range, with an offset or without.
static bool same_range(const Op *a, int i, const Op *b, int j) {
    Access x = access_of(a), y = access_of(b);
    if (x.subs[i].kind != DIM_AXIS || y.subs[j].kind != DIM_AXIS) return false;
    const Value *m = sub_operand(a, &x, i, 0), *n = sub_operand(b, &y, j, 0);
    while (def_of(m, OP_ADD) || def_of(m, OP_SUB)) m = operand(m->def, 0);
    while (def_of(n, OP_ADD) || def_of(n, OP_SUB)) n = operand(n->def, 0);
    return m == n && !const_of(m);
}

/// Two dimensions of a store, and the load behind the axes of its value.
typedef struct Crossing {
    const Op *store, *load;
    int dims[2], budget; // budget: maximum number of values to visit
} Crossing;

static int dim_of_block_axis(const Access *a, int axis) {
    for (int d = 0; d < a->n_subs; d++)
        if (a->axis_of[d] == axis) return d;
    return -1;
}

/// Returns 1 if the axes i and j of v are read along the ranges of each other's dimensions, -1 if
/// not, and 0 if unknown.
static int crosses_ranges(Crossing *c, const Value *v, int i, int j) {
    const Op *op = v->def;
    if (!op || v->type->rank <= (i > j ? i : j) || c->budget-- <= 0) return 0;
    if (op->code == OP_LOAD) {
        Access a = access_of(op);
        int di = dim_of_block_axis(&a, i), dj = dim_of_block_axis(&a, j);
        if (di < 0 || dj < 0) return 0;
        c->load = op;
        bool crossed =
            same_range(c->store, c->dims[0], op, dj) && same_range(c->store, c->dims[1], op, di);
        return crossed && !same_range(c->store, c->dims[0], op, di) ? 1 : -1;
    }
    if (op->code == OP_PERMUTE) {
        const int64_t *perm = op_ints(op, A_PERM)->ints;
        return crosses_ranges(c, operand(op, 0), (int)perm[i], (int)perm[j]);
    }
    bool lanes = op_has(op, ELEMENTWISE) || op->code == OP_CAST || op->code == OP_SELECT;
    int all = 0;
    for (int k = 0; lanes && k < op->n_operands && all >= 0; k++) {
        int one = crosses_ranges(c, operand(op, k), i, j);
        if (one) all = one;
    }
    return all;
}

/// Warns about y[n, m] = x[m, n], which does not transpose: it writes lanes of m along n.
static void store_facts(Pads *p, const Op *store) {
    Access a = access_of(store);
    for (int i = 0; i < a.n_subs; i++)
        for (int j = i + 1; j < a.n_subs; j++) {
            if (a.subs[i].kind != DIM_AXIS || a.subs[j].kind != DIM_AXIS) continue;
            if (a.subs[i].size == 1 || a.subs[j].size == 1) continue;
            Crossing c = {.store = store, .dims = {i, j}, .budget = LOOK};
            if (crosses_ranges(&c, a.value, a.axis_of[i], a.axis_of[j]) > 0)
                pads_warn_crossed(p, store, c.load);
        }
}

/// A contribution may have lanes past the end of a range that the combined place does not follow.
/// These lanes must change nothing.
static void combine_facts(Pads *p, const Op *op) {
    Access a = access_of(op);
    OpCode code = op_int(op, A_N_TENSORS, 1) == 1 ? region_monoid(op->regions[0]) : OP_COUNT;
    const Facts *in = facts_of(p, a.value);
    for (int d = 0; d < a.n_subs; d++) {
        if (a.subs[d].kind != DIM_AXIS) continue;
        const Fact *f = &in->axis[a.axis_of[d]];
        if (!f->holds || !f->read || f->lanes == lanes_from(p, sub_operand(op, &a, d, 1))) continue;
        if (code == OP_COUNT || !is_identity(p->ir, code, a.value->type->elem, f))
            pads_warn(p, op, (int)op_int(op, A_N_TENSORS, 1), a.axis_of[d], f, code);
    }
}

/* ---- the rows ------------------------------------------------------------------------------ */

/// For ops whose results have no facts: no block goes in, or the result is not tracked (control
/// flow).
static void leave_no_facts(Pads *p, const Op *op) {
    (void)p;
    (void)op;
}

typedef void Through(Pads *p, const Op *op);

static Through *facts_row(OpCode code) {
    switch (code) {
#define EW(id, ...) case OP_##id:
#include "lang/elementwise.def"
        return elementwise_facts;
    case OP_SELECT:
    case OP_CAST:
    case OP_BITCAST: return lane_facts;
    case OP_LOAD: return read_facts;
    case OP_ATOMIC: return atomic_facts;
    case OP_LIVE: return live_facts;
    case OP_RESHAPE: return reshape_facts;
    case OP_BROADCAST:
    case OP_PERMUTE:
    case OP_SLICE: return shape_facts;
    case OP_CONCAT: return concat_facts;
    case OP_REDUCE: return reduce_facts;
    case OP_SCAN: return scan_facts;
    case OP_SORT: return sort_facts;
    case OP_DOT: return dot_facts;
    case OP_GATHER: return gather_facts;
    case OP_HISTOGRAM: return histogram_facts;
    case OP_ASSERT: return assert_facts;
    case OP_STORE: return store_facts;
    case OP_COMBINE: return combine_facts;
    // no block goes in
    case OP_CONST:
    case OP_IOTA:
    case OP_DIM:
    case OP_STRIDE:
    case OP_ALIGN:
    case OP_SCRATCH:
    case OP_WORKSPACE_LIMIT:
    case OP_REQUIRE:
    case OP_RANK:
    case OP_COMM_BEGIN:
    case OP_COMM_BARRIER:
    case OP_COMM_END:
    case OP_COMM_GATHER:
    case OP_COMM_SCATTER:
    case OP_COMM_SIGNALS:
    case OP_COMM_CONTROL:
    case OP_SIGNAL_WAIT:
    case OP_SIGNAL_SET:
    case OP_COMM_FENCE: return leave_no_facts;
    // shows blocks as they are
    case OP_PRINT: return leave_no_facts;
    // control flow: carried values are not tracked
    case OP_MODULE:
    case OP_KERNEL:
    case OP_FUNC:
    case OP_CALL:
    case OP_YIELD:
    case OP_PARALLEL:
    case OP_FOR:
    case OP_WHILE:
    case OP_IF: return leave_no_facts;
    // made by later passes
    case OP_LAUNCH:
    case OP_DEVICE:
    case OP_DISPATCH:
    case OP_CONVERT:
    case OP_RENEW:
    case OP_CONTRACT:
    case OP_DESC:
    case OP_BUF_ALLOC:
    case OP_BUF_VIEW:
    case OP_BUF_LOAD:
    case OP_BUF_STORE:
    case OP_BUF_PAD:
    case OP_TAKE_TILE:
    case OP_SHARED_FREE:
    case OP_BARRIER:
    case OP_FENCE:
    case OP_COPY_ASYNC:
    case OP_COPY_TMA:
    case OP_COPYOUT_TMA:
    case OP_MMA_START:
    case OP_BLANK:
    case OP_SETTLED:
    case OP_AWAIT:
    case OP_RING_MAKE:
    case OP_RING_ACQUIRE:
    case OP_RING_COMMIT:
    case OP_RING_WAIT:
    case OP_RING_RELEASE:
    case OP_ROLES: return leave_no_facts;
    case OP_COUNT: break;
    }
    return leave_no_facts;
}

static void visit_fact_op(Op *op, void *arg) {
    facts_row(op->code)(arg, op);
}

void pads_run(Pads *p) {
    op_walk_pre(p->kernel, visit_fact_op, p);
}

void pass_pads(PassEnv *env, Op *module) {
    for_each_kernel(k, module)
        pads_run(&(Pads){.ir = env->ir, .ctx = ir_ctx(env->ir), .kernel = k});
}
