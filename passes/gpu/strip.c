// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// strip: rows that a CTA has no registers for are read in strips, again for each use of all of
// them.
//
//   %x = load %t, 0, %n : f32[131072];  %m = reduce max %x;  store %u, 0, %n, sub %x, %m
//   ->
//   %x0 = load %t, 0, min(%n, 8192)
//   %a = for %i = 8192 .. 131072 by 8192 (%s = %x0) { max %s, load %t, %i, min(%n - %i, 8192) }
//   %m = reduce max %a;  for %i = 0 .. 131072 by 8192 { store %u, %i, .., sub (load ..), %m }
//
// Reductions of known functions alone, since sums of strips join elements in another order. Stores
// move to the last one of them, so that nothing is read again that has been written: what may be
// one tensor is read and written at the same places, strip by strip, and by whole strips alone.
#include "passes/gpu/layouts.h"

#include "passes/passes.h"
#include "passes/util.h"

enum {
    STRIP = 8192,       // elements of a block, at most
    STRIP_LEAST = 1024, // of a row, to be worth a turn
    MOST_SINKS = 16,
};

typedef struct Strip {
    Ir *ir;
    Ctx *ctx;
    Op *device;
    int64_t row, strip; // elements along the dimension that is taken apart
    int n_reductions, n_stores;
    Op *reductions[MOST_SINKS], *stores[MOST_SINKS];
} Strip;

/* ---- what is a row ------------------------------------------------------------------------- */

/// The axis of a row; -1: there is none, -2: several.
static int row_axis(const Strip *s, const Type *t) {
    int found = -1;
    for (int d = 0; ty_is_block(t) && d < t->rank; d++)
        if (t->extents[d] == s->row) found = found == -1 ? d : -2;
    return found;
}

static bool is_row(const Strip *s, const Value *v) {
    return row_axis(s, v->type) != -1;
}

static const Type *strip_type(const Strip *s, const Type *t) {
    int64_t extents[MAX_RANK];
    for (int d = 0; d < t->rank; d++)
        extents[d] = t->extents[d] == s->row ? s->strip : t->extents[d];
    return ty_block(s->ir, t->elem, t->rank, extents);
}

/// The tensor's dimension along which an access goes through a row; -1: none, or by positions.
static int row_dim(const Strip *s, const Access *a) {
    for (int d = 0; d < a->n_subs; d++)
        if (a->axis_of[d] >= 0 && a->extents[a->axis_of[d]] == s->row) return d;
    return -1;
}

static bool has_rows(const Strip *s, const Op *op) {
    for (int i = 0; i < op->n_operands; i++)
        if (is_row(s, operand(op, i))) return true;
    for (int i = 0; i < op->n_results; i++)
        if (is_row(s, result(op, i))) return true;
    return false;
}

typedef struct RowsInside {
    const Strip *s;
    const Op *outer;
    bool found;
} RowsInside;

static void look_inside(Op *op, void *arg) {
    RowsInside *r = arg;
    r->found |= op != r->outer && has_rows(r->s, op);
}

/* ---- what can be taken apart --------------------------------------------------------------- */

static int64_t count_before(const Type *t, int axis) {
    int64_t n = 1;
    for (int d = 0; d < axis; d++) n *= t->extents[d];
    return n;
}

/// All of the row becomes one element.
static bool joins_row(const Strip *s, const Op *op) {
    return op->code == OP_REDUCE && !is_row(s, result(op, 0));
}

/// An op on rows that can be done strip by strip.
static bool goes_by_strips(const Strip *s, const Op *op) {
    for (int i = 0; i < op->n_operands; i++)
        if (row_axis(s, operand(op, i)->type) == -2) return false;
    for (int i = 0; i < op->n_results; i++)
        if (row_axis(s, result(op, i)->type) == -2) return false;
    Access a;
    switch (op->code) {
    case OP_LOAD:
    case OP_STORE: a = access_of(op); return !a.mask && a.pick_at < 0 && row_dim(s, &a) >= 0;
    case OP_REDUCE:
        return !joins_row(s, op) ||
               (region_monoid(op->regions[0]) != OP_COUNT && !op_str(op, "order"));
    case OP_RESHAPE: {
        const Type *x = operand(op, 0)->type, *y = result(op, 0)->type;
        return is_row(s, operand(op, 0)) && is_row(s, result(op, 0)) &&
               count_before(x, row_axis(s, x)) == count_before(y, row_axis(s, y));
    }
    case OP_CONST:
    case OP_IOTA:
    case OP_CAST:
    case OP_BITCAST:
    case OP_SELECT:
    case OP_BROADCAST:
    case OP_PERMUTE: return true;
    default: return op_has(op, ELEMENTWISE);
    }
}

static bool add_sink(Op **sinks, int *n, Op *op) {
    if (*n == MOST_SINKS) return false;
    sinks[(*n)++] = op;
    return true;
}

/// Collects what uses whole rows; false: something cannot be done by strips.
static bool find_sinks(Strip *s) {
    for_each_op(op, s->device->regions[0]) {
        if (!has_rows(s, op)) {
            RowsInside r = {s, op, false};
            op_walk_pre(op, look_inside, &r);
            if (r.found) return false;
        } else if (!goes_by_strips(s, op)) {
            return false;
        } else if ((op->code == OP_STORE && !add_sink(s->stores, &s->n_stores, op)) ||
                   (joins_row(s, op) && !add_sink(s->reductions, &s->n_reductions, op))) {
            return false;
        }
    }
    return s->n_reductions > 0;
}

/* ---- the order of accesses ----------------------------------------------------------------- */

/// Two parameters that a launch may give one tensor.
static bool may_be_one(const Value *a, const Value *b) {
    return a->type->elem == b->type->elem && a->type->rank == b->type->rank;
}

static bool same_places(const Op *a, const Op *b) {
    int i = access_of(a).first[0], j = access_of(b).first[0];
    if (op_attr(a, "subs") != op_attr(b, "subs")) return false;
    while (i < a->n_operands && operand(a, i) == operand(b, j)) i++, j++;
    return i == a->n_operands;
}

/// The store may come after the op, which it stood before, and the op be done again before it.
static bool is_in_order(const Strip *s, const Op *op, const Op *store) {
    if (op == store || !may_be_one(operand(op, 0), operand(store, 0))) return true;
    bool load = op->code == OP_LOAD;
    return has_rows(s, op) ? same_places(op, store) && (!load || op_before(op, store))
                           : load && op_before(op, store);
}

static bool reads_row(const Strip *s, const Op *op, const Value *tensor) {
    return op->code == OP_LOAD && has_rows(s, op) && may_be_one(operand(op, 0), tensor);
}

/// Nothing but loads and stores has an effect, and those keep their order as far as it counts.
static bool keeps_order(const Strip *s) {
    for_each_op(op, s->device->regions[0]) {
        if (op_has(op, PURE) || op == terminator(s->device->regions[0])) continue;
        if (op->code != OP_LOAD && op->code != OP_STORE) return false;
        for (int i = 0; i < s->n_stores; i++)
            if (!is_in_order(s, op, s->stores[i])) return false;
        if (op->code == OP_LOAD || has_rows(s, op)) continue;
        for_each_op(load, s->device->regions[0]) {
            if (reads_row(s, load, operand(op, 0))) return false;
        }
    }
    return true;
}

/* ---- strips -------------------------------------------------------------------------------- */

static Value *strip_of(const Strip *s, Builder *b, PtrMap *map, Value *v, Value *at);

/// The access from `at` on, of what is left of its count.
static void move_access(const Strip *s, Builder *b, Op *op, Value *at) {
    Access a = access_of(op);
    int d = row_dim(s, &a);
    const Attr *inside = op_attr(op, "inside");
    SubDim subs[MAX_RANK];
    for (int i = 0; i < a.n_subs; i++) subs[i] = a.subs[i];
    Value *strip = build_index(b, s->strip), *zero = build_index(b, 0);
    Value *left = ix_sub(b, sub_operand(op, &a, d, 1), at);
    bool whole = inside && inside->ints[d] == 2;
    Value *count = whole ? strip : ix_max(b, ix_min(b, left, strip), zero);
    Value *base = ix_add(b, sub_operand(op, &a, d, 0), ix_mul(b, at, build_index(b, subs[d].mul)));
    op_set_operand(op, a.first[d], base);
    op_set_operand(op, a.first[d] + 1, count);
    subs[d].size = s->strip;
    op_set_attr(s->ir, op, "subs", at_subs(s->ir, subs, a.n_subs));
}

/// The op for the strip that starts at `at`.
static Op *clone_strip(const Strip *s, Builder *b, PtrMap *map, Op *op, Value *at) {
    for (int i = 0; i < op->n_operands; i++) {
        Value *v = operand(op, i);
        if (is_row(s, v)) map_set(s->ctx, map, v, strip_of(s, b, map, v, at));
    }
    Op *copy = op_clone(b, op, map);
    if (op_is_access(op)) {
        b->before = copy;
        move_access(s, b, copy, at);
        b->before = copy->next;
    }
    for (int i = 0; i < copy->n_results; i++)
        result(copy, i)->type = strip_type(s, result(copy, i)->type);
    return copy;
}

static Value *strip_of(const Strip *s, Builder *b, PtrMap *map, Value *v, Value *at) {
    Value *known = map_get(map, v);
    if (known) return known;
    Value *x = result(clone_strip(s, b, map, v->def, at), 0);
    if (v->def->code == OP_IOTA) {
        Value *first = build_cast(b, at, x->type->elem);
        x = build_binary(b, OP_ADD, x, build_broadcast(b, first, x->type));
    }
    map_set(s->ctx, map, v, x);
    return x;
}

/// What the strips of v are made of stands before op.
static bool is_known_before(const Strip *s, const Value *v, const Op *op) {
    if (!is_row(s, v)) return !v->def || v->def->parent != op->parent || op_before(v->def, op);
    for (int i = 0; i < v->def->n_operands; i++)
        if (!is_known_before(s, operand(v->def, i), op)) return false;
    return true;
}

/// A reduction, and those behind it that need none of its results: elements at the same places of
/// all strips are joined first.
static void join_strips(Strip *s, Op *first) {
    int n = 0;
    Op *group[MOST_SINKS];
    Value *sums[MOST_SINKS];
    for (int i = 0; i < s->n_reductions; i++) {
        Op *op = s->reductions[i];
        if (op && (op == first || op_before(first, op)) &&
            is_known_before(s, operand(op, 0), first)) {
            group[n++] = op;
            s->reductions[i] = NULL;
        }
    }
    Builder b = build_before(s->ir, first);
    PtrMap begin = {0}, turn = {0};
    Value *zero = build_index(&b, 0);
    for (int i = 0; i < n; i++) sums[i] = strip_of(s, &b, &begin, operand(group[i], 0), zero);
    Value *lo = build_index(&b, s->strip), *hi = build_index(&b, s->row);
    Op *loop = build_for(&b, lo, hi, s->strip, n, sums);
    Value *at = region_add_arg(s->ir, loop->regions[0], lo->type, "strip");
    for (int i = 0; i < n; i++) region_add_arg(s->ir, loop->regions[0], sums[i]->type, NULL);
    Builder body = build_at_end(s->ir, loop->regions[0], first->loc);
    for (int i = 0; i < n; i++) {
        Value *x = strip_of(s, &body, &turn, operand(group[i], 0), at);
        OpCode code = region_monoid(group[i]->regions[0]);
        sums[i] = build_binary(&body, code, loop_arg(loop, 0, i), x);
    }
    build_yield(&body, n, sums);
    for (int i = 0; i < n; i++) {
        PtrMap map = {0};
        map_set(s->ctx, &map, operand(group[i], 0), result(loop, i));
        value_replace(result(group[i], 0), result(op_clone(&b, group[i], &map), 0));
    }
    for (int i = 0; i < n; i++) op_erase(group[i]);
}

/// All that is read for a strip stands before what is written of it.
static void store_strips(Strip *s) {
    Op *last = s->stores[s->n_stores - 1];
    Builder b = build_before(s->ir, last);
    Value *zero = build_index(&b, 0);
    Op *loop = build_for(&b, zero, build_index(&b, s->row), s->strip, 0, NULL);
    Value *at = region_add_arg(s->ir, loop->regions[0], zero->type, "strip");
    Builder body = build_at_end(s->ir, loop->regions[0], last->loc);
    PtrMap map = {0};
    for (int i = 0; i < s->n_stores; i++)
        strip_of(s, &body, &map, access_of(s->stores[i]).value, at);
    for (int i = 0; i < s->n_stores; i++) clone_strip(s, &body, &map, s->stores[i], at);
    build_yield(&body, 0, NULL);
    for (int i = 0; i < s->n_stores; i++) op_erase(s->stores[i]);
}

/* ---- the pass ------------------------------------------------------------------------------ */

/// The longest row that is reduced, and how much of it is a strip. 0: too little.
static void measure_row(Strip *s) {
    int64_t block = 0;
    for_each_op(op, s->device->regions[0]) {
        if (op->code != OP_REDUCE) continue;
        const Type *t = operand(op, 0)->type;
        int64_t row = t->extents[op_int(op, "axis", 0)];
        if (row < s->row) continue;
        s->row = row;
        block = ty_count(t) > block ? ty_count(t) : block;
    }
    if (!s->row) return; // those of loops stay as they are
    s->strip = STRIP;
    while (s->strip >= STRIP_LEAST && (s->row % s->strip || block / s->row * s->strip > STRIP))
        s->strip /= 2;
    if (s->strip < STRIP_LEAST || s->strip == s->row) s->row = 0;
}

void pass_strip(PassEnv *env, Op *module) {
    if (!env->gpu) return;
    for_each_op(op, module->regions[0]) {
        if (op->code != OP_DEVICE || gpu_holds_rows(env, op)) continue;
        Strip *s = ctx_new(ir_ctx(env->ir), Strip);
        *s = (Strip){.ir = env->ir, .ctx = ir_ctx(env->ir), .device = op};
        measure_row(s);
        if (!s->row || !find_sinks(s) || !keeps_order(s)) continue;
        for (int i = 0; i < s->n_reductions; i++)
            if (s->reductions[i]) join_strips(s, s->reductions[i]);
        if (s->n_stores) store_strips(s);
        op_set_attr(s->ir, op, "strip", at_int(s->ir, s->strip));
    }
}
