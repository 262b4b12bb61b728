// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Builtins along an axis: reduce, scan, sort, and min and max of one argument.
#include "frontend/builtins/builtins_private.h"

#include <math.h>

/// The operands of a reduce, scan or sort: one block, or a tuple that broadcasts to one shape.
typedef struct ReducedBlocks {
    int n;
    bool tuple;
    Value **at;
    const Type **types;
    Elem *elems;
} ReducedBlocks;

static bool blocks_of(Elab *e, const Call *call, ReducedBlocks *b) {
    Val x = call->args[0];
    if (val_is(x, V_ERROR)) return false;
    b->tuple = val_is(x, V_TUPLE);
    b->n = b->tuple ? x.tuple.n : 1;
    Val *v = ctx_copy(e->ctx, b->tuple ? x.tuple.at : &x, sizeof(Val) * (size_t)b->n);
    bool any = false;
    for (int i = 0; i < b->n; i++) {
        v[i] = el_value(e, call->locs[0], v[i]);
        if (val_is(v[i], V_ERROR)) return false;
        if (v[i].kind == V_CONST) v[i] = val_ir(el_typed(e, call->locs[0], v[i], EL_COUNT));
        any |= val_is_block(v[i]);
    }
    if (!any) {
        bad_argument(e, call, 0, "a block, or a tuple of blocks");
        return false;
    }
    if (!el_unify_shapes(e, call->loc, call->builtin->name, b->n, v)) return false;
    b->at = ctx_array(e->ctx, Value *, b->n);
    b->types = ctx_array(e->ctx, const Type *, b->n);
    b->elems = ctx_array(e->ctx, Elem, b->n);
    for (int i = 0; i < b->n; i++) {
        b->at[i] = v[i].ir.v;
        b->elems[i] = v[i].ir.v->type->elem;
    }
    return true;
}

static Val results_of(Elab *e, const ReducedBlocks *b, const Op *op) {
    Val *v = ctx_array(e->ctx, Val, b->n);
    for (int i = 0; i < b->n; i++) v[i] = val_ir(build_cast(&e->b, result(op, i), b->elems[i]));
    return b->tuple ? val_tuple(e, b->n, v) : v[0];
}

/// Sums and products of 16-bit and 8-bit floats are accumulated in f32 and rounded once.
static void widen_small_floats(Elab *e, ReducedBlocks *b, Val f) {
    OpCode monoid = el_monoid(f);
    if (b->n == 1 && (monoid == OP_ADD || monoid == OP_MUL))
        b->at[0] = build_cast(&e->b, b->at[0], wide_elem(b->elems[0]));
}

static Elem *parts_of(Elab *e, const ReducedBlocks *b) {
    Elem *parts = ctx_array(e->ctx, Elem, b->n);
    for (int i = 0; i < b->n; i++) parts[i] = b->at[i]->type->elem;
    return parts;
}

/* ---- reduce -------------------------------------------------------------------------------- */

static const Type *reduced_type(Elab *e, const Type *t, int64_t axis) {
    int64_t extents[MAX_RANK];
    int n = 0;
    for (int d = 0; d < t->rank; d++)
        if (d != axis) extents[n++] = t->extents[d];
    return ty_block(e->ir, t->elem, n, extents);
}

/// Reduces by f over an axis. Without `axis`, it reduces all elements in row-major order.
static Val reduce_by(Elab *e, const Call *call, Val f, FoldOrder order) {
    ReducedBlocks b;
    if (!blocks_of(e, call, &b)) return val_error();
    int64_t axis = 0;
    if (val_is(call->named[0], V_ABSENT)) {
        int64_t all = ty_count(b.at[0]->type);
        for (int i = 0; i < b.n; i++)
            b.at[i] = build_reshape(&e->b, b.at[i], ty_block(e->ir, b.elems[i], 1, &all));
    } else if (!arg_axis(e, call, 0, b.at[0]->type->rank, 0, &axis)) {
        return val_error();
    }
    widen_small_floats(e, &b, f);
    for (int i = 0; i < b.n; i++) b.types[i] = reduced_type(e, b.at[i]->type, axis);
    Op *op = build_op(&e->b, OP_REDUCE, b.n, b.at, b.n, b.types, 1);
    op_set_int(e->ir, op, A_AXIS, axis);
    op_set_fold_order(e->ir, op, order);
    if (!el_monoid_region(e, call->loc, f, b.n, parts_of(e, &b), op->regions[0]))
        return val_error();
    return results_of(e, &b, op);
}

Val bi_reduce(Elab *e, const Call *call) {
    bool given = val_is(call->named[1], V_WORD);
    FoldOrder order = given ? fold_order_of_word(call->named[1].word) : FOLD_ORDER_ABSENT;
    return reduce_by(e, call, call->args[1], order);
}

/// min(a, b) is elementwise; min(x) and min(x, axis = 1) reduce.
Val bi_min_max(Elab *e, const Call *call) {
    if (call->n == 2) {
        if (call->named && !val_is(call->named[0], V_ABSENT))
            return el_fail(e, call->loc, D_AXIS_OF_TWO, call->builtin->name);
        return el_elementwise(e, call->loc, (OpCode)call->builtin->arg, call->builtin->name, 2,
                              call->args);
    }
    return reduce_by(e, call, (Val){.kind = V_FN, .fn = {.builtin = call->builtin}},
                     FOLD_ORDER_ABSENT);
}

/* ---- scan ---------------------------------------------------------------------------------- */

/// Returns the identity of a monoid, or NULL if f is not a known one.
static Value *build_identity(Elab *e, OpCode monoid, Elem elem) {
    const Type *t = ty_scalar(e->ir, elem);
    bool is_float = elem_is(elem, EC_FLOAT), is_signed = elem_is(elem, EC_SINT);
    int bits = elem_info[elem].bits;
    int64_t ones = bits == 64 ? -1 : (INT64_C(1) << bits) - 1;
    int64_t least = is_signed ? -(INT64_C(1) << (bits - 2)) * 2 : 0;
    int64_t most = is_signed ? -(least + 1) : ones;
    switch (monoid) {
    case OP_ADD:
    case OP_OR:
    case OP_XOR:
        return is_float          ? build_float(&e->b, t, 0)
               : elem == EL_BOOL ? build_bool(&e->b, t, false)
                                 : build_int(&e->b, t, 0);
    case OP_MUL: return is_float ? build_float(&e->b, t, 1) : build_int(&e->b, t, 1);
    case OP_AND:
        return elem == EL_BOOL ? build_bool(&e->b, t, true)
                               : build_int(&e->b, t, is_signed ? -1 : ones);
    case OP_MIN: return is_float ? build_float(&e->b, t, INFINITY) : build_int(&e->b, t, most);
    case OP_MAX: return is_float ? build_float(&e->b, t, -INFINITY) : build_int(&e->b, t, least);
    default: return NULL;
    }
}

Val bi_scan(Elab *e, const Call *call) {
    ReducedBlocks b;
    int64_t axis;
    bool reverse, exclusive;
    if (!blocks_of(e, call, &b) || !arg_flag(e, call, 1, &reverse) ||
        !arg_flag(e, call, 2, &exclusive))
        return val_error();
    int rank = b.at[0]->type->rank;
    if (val_is(call->named[0], V_ABSENT) && rank != 1)
        return el_fail(e, call->loc, D_SCAN_AXIS, call->builtin->name, val_text(e, call->args[0]));
    if (!arg_axis(e, call, 0, rank, 0, &axis)) return val_error();
    widen_small_floats(e, &b, call->args[1]);
    Value **args = ctx_array(e->ctx, Value *, 2 * b.n);
    for (int i = 0; i < b.n; i++) {
        args[i] = b.at[i];
        b.types[i] = b.at[i]->type;
        if (!exclusive) continue;
        args[b.n + i] = build_identity(e, el_monoid(call->args[1]), b.at[i]->type->elem);
        if (!args[b.n + i]) return el_fail(e, call->loc, D_SCAN_EXCLUSIVE);
    }
    Op *op = build_op(&e->b, OP_SCAN, exclusive ? 2 * b.n : b.n, args, b.n, b.types, 1);
    op_set_int(e->ir, op, A_AXIS, axis);
    if (reverse) op_set_flag(e->ir, op, A_REVERSE, true);
    if (exclusive) op_set_flag(e->ir, op, A_EXCLUSIVE, true);
    if (!el_monoid_region(e, call->loc, call->args[1], b.n, parts_of(e, &b), op->regions[0]))
        return val_error();
    return results_of(e, &b, op);
}

/* ---- sort ---------------------------------------------------------------------------------- */

static Op *emit_sort(Elab *e, ReducedBlocks *b, int64_t axis, bool descending) {
    for (int i = 0; i < b->n; i++) b->types[i] = b->at[i]->type;
    Op *op = build_op(&e->b, OP_SORT, b->n, b->at, b->n, b->types, 0);
    op_set_int(e->ir, op, A_AXIS, axis);
    if (descending) op_set_flag(e->ir, op, A_DESCENDING, true);
    return op;
}

Val bi_sort(Elab *e, const Call *call) {
    ReducedBlocks b;
    int64_t axis;
    bool descending;
    if (!blocks_of(e, call, &b) || !arg_flag(e, call, 1, &descending)) return val_error();
    int rank = b.at[0]->type->rank;
    if (!arg_axis(e, call, 0, rank, rank - 1, &axis)) return val_error();
    return results_of(e, &b, emit_sort(e, &b, axis, descending));
}

static Val first_along(Elab *e, Value *v, int64_t axis, int64_t n) {
    int64_t extents[MAX_RANK], start[MAX_RANK] = {0};
    for (int d = 0; d < v->type->rank; d++) extents[d] = d == axis ? n : v->type->extents[d];
    const Type *t = ty_block(e->ir, v->type->elem, v->type->rank, extents);
    Op *op = build_op(&e->b, OP_SLICE, 1, &v, 1, &t, 0);
    op_set_ints(e->ir, op, A_START, start, v->type->rank);
    return val_ir(result(op, 0));
}

/// Replaces elements past the end of a range by the value that sorts last in descending order, at
/// position -1. Present elements may equal that value, so a sort by presence puts them in front
/// first.
static void take_out_missing(Elab *e, Value **x, Value **at, int64_t axis) {
    Elem elem = (*x)->type->elem;
    Value *there = el_present(e, *x);
    Value *last = elem_is(elem, EC_FLOAT)
                      ? build_float(&e->b, (*x)->type, NAN)
                      : build_broadcast(&e->b, build_identity(e, OP_MAX, elem), (*x)->type);
    Value *parts[] = {there, build_select(&e->b, there, *x, last),
                      build_select(&e->b, there, *at, build_int(&e->b, (*at)->type, -1))};
    const Type *types[3];
    Op *op = emit_sort(e, &(ReducedBlocks){.n = 3, .at = parts, .types = types}, axis, true);
    *x = result(op, 1);
    *at = result(op, 2);
}

/// Returns the k greatest along an axis and their positions, in descending order; ties keep their
/// order. Elements past the end of a range come last, with position -1.
Val bi_topk(Elab *e, const Call *call) {
    Value *x = arg_block(e, call, 0, 1, EC_NUM, "a block of numbers");
    int64_t k, axis;
    if (!x || !el_extent(e, call->locs[1], call->args[1], "the number to take", &k))
        return val_error();
    if (!arg_axis(e, call, 0, x->type->rank, x->type->rank - 1, &axis)) return val_error();
    if (k > x->type->extents[axis])
        return bad_argument(e, call, 1, "at most the extent of the axis");
    Value *parts[] = {x, positions_along(e, x->type, axis)};
    take_out_missing(e, &parts[0], &parts[1], axis);
    const Type *types[2];
    ReducedBlocks b = {.n = 2, .tuple = true, .at = parts, .types = types};
    Op *op = emit_sort(e, &b, axis, true);
    Val both[] = {first_along(e, result(op, 0), axis, k), first_along(e, result(op, 1), axis, k)};
    return val_tuple(e, 2, both);
}
