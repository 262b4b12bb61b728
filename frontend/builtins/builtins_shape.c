// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Builtins on whole blocks: shapes, dot, gather, histogram, bits.
#include "frontend/builtins/builtins_private.h"

#include <string.h>

static Builder *elab_builder(Elab *e) {
    return &e->b;
}

/// Emits an op on `n` values with one result.
static Value *emit_shape_op(Elab *e, OpCode code, int n, Value *const *args, const Type *type) {
    return result(build_op(elab_builder(e), code, n, args, 1, &type, 0), 0);
}

static void set_int(Elab *e, Value *v, IntAttr attr, int64_t n) {
    op_set_int(e->ir, v->def, attr, n);
}

/// Applies the same move to a block and to its validity.
static Val with_moved_valid(Elab *e, const Call *call, Value *moved,
                            Value *(*move)(Elab *, Value *, const void *), const void *how) {
    const Val *x = &call->args[0];
    Value *valid = x->kind == V_IR && x->ir.valid ? move(e, x->ir.valid, how) : NULL;
    return val_ir_valid(moved, valid);
}

/// Reads arguments from..n of the call as extents of a block.
static bool extents_from(Elab *e, const Call *call, int from, int64_t *extents) {
    if (call->n - from > MAX_RANK) {
        bad_argument(e, call, from + MAX_RANK, "left out: blocks have at most 8 axes");
        return false;
    }
    bool ok = true;
    for (int i = from; i < call->n; i++)
        ok &= el_extent(e, call->locs[i], call->args[i], "an extent", &extents[i - from]);
    return ok;
}

/* ---- reshape, broadcast -------------------------------------------------------------------- */

static Value *move_reshape(Elab *e, Value *v, const void *like) {
    return build_reshape(elab_builder(e), v, ty_with_elem(e->ir, like, v->type->elem));
}

Val bi_reshape(Elab *e, const Call *call) {
    Value *x = arg_block(e, call, 0, 1, EC_ANY, "a block");
    int64_t extents[MAX_RANK];
    if (!x || !extents_from(e, call, 1, extents)) return val_error();
    const Type *to = ty_block(e->ir, x->type->elem, call->n - 1, extents);
    if (ty_count(to) != ty_count(x->type))
        return el_fail(e, call->loc, D_RESHAPE_COUNT, val_text(e, call->args[0]),
                       (long long)ty_count(x->type), (long long)ty_count(to));
    return with_moved_valid(e, call, move_reshape(e, x, to), move_reshape, to);
}

Val bi_broadcast(Elab *e, const Call *call) {
    int64_t extents[MAX_RANK];
    Val x = el_value(e, call->locs[0], call->args[0]);
    if (val_is(x, V_ERROR) || !extents_from(e, call, 1, extents)) return val_error();
    Value *v = el_typed(e, call->locs[0], x, EL_COUNT);
    if (!v) return val_error();
    if (x.kind == V_CONST) x = val_ir(v);
    return el_broadcast(e, call->loc, x, ty_block(e->ir, v->type->elem, call->n - 1, extents),
                        "`broadcast`");
}

/* ---- permute, trans ------------------------------------------------------------------------ */

typedef struct Perm {
    int rank;
    int64_t axes[MAX_RANK];
} Perm;

static Value *move_permute(Elab *e, Value *v, const void *how) {
    const Perm *p = how;
    int64_t extents[MAX_RANK];
    for (int i = 0; i < p->rank; i++) extents[i] = v->type->extents[p->axes[i]];
    Value *r =
        emit_shape_op(e, OP_PERMUTE, 1, &v, ty_block(e->ir, v->type->elem, p->rank, extents));
    op_set_ints(e->ir, r->def, A_PERM, p->axes, p->rank);
    return r;
}

Val bi_permute(Elab *e, const Call *call) {
    Value *x = arg_block(e, call, 0, 1, EC_ANY, "a block");
    if (!x) return val_error();
    Perm p = {.rank = call->n - 1};
    unsigned seen = 0;
    for (int i = 0; i < p.rank && p.rank == x->type->rank; i++) {
        if (!el_axis(e, call->locs[i + 1], call->args[i + 1], p.rank, &p.axes[i]))
            return val_error();
        seen |= 1u << p.axes[i];
    }
    if (p.rank != x->type->rank || seen != (1u << p.rank) - 1)
        return el_fail(e, call->loc, D_PERMUTE_AXES, x->type->rank, val_text(e, call->args[0]));
    return with_moved_valid(e, call, move_permute(e, x, &p), move_permute, &p);
}

Val bi_trans(Elab *e, const Call *call) {
    Value *x = arg_block(e, call, 0, 2, EC_ANY, "a block of rank 2");
    if (!x) return val_error();
    if (x->type->rank != 2)
        return bad_argument(e, call, 0, "a block of rank 2 (use `permute` for others)");
    Perm p = {2, {1, 0}};
    return with_moved_valid(e, call, move_permute(e, x, &p), move_permute, &p);
}

/* ---- concat -------------------------------------------------------------------------------- */

/// Computes the shape of the whole; false, with a message, if the parts do not fit.
static bool concat_extents(Elab *e, const Call *call, const Val *v, int64_t axis,
                           int64_t *extents) {
    const Type *first = v[0].ir.v->type;
    memcpy(extents, first->extents, sizeof first->extents);
    extents[axis] = 0;
    for (int i = 0; i < call->n; i++) {
        const Type *t = v[i].ir.v->type;
        for (int d = 0; d < first->rank; d++)
            if (t->rank != first->rank || (d != axis && t->extents[d] != first->extents[d])) {
                el_fail(e, call->locs[i], D_CONCAT_SHAPES, val_text(e, v[i]), val_text(e, v[0]),
                        (int)axis);
                return false;
            }
        extents[axis] += t->extents[axis];
    }
    return true;
}

Val bi_concat(Elab *e, const Call *call) {
    Val *v = ctx_array(e->ctx, Val, call->n);
    for (int i = 0; i < call->n; i++) {
        if (!arg_block(e, call, i, 1, EC_ANY, "a block")) return val_error();
        v[i] = el_value(e, call->locs[i], call->args[i]);
    }
    int64_t axis, extents[MAX_RANK];
    if (!el_unify_elems(e, call->loc, "concat", call->n, v) ||
        !arg_axis(e, call, 0, v[0].ir.v->type->rank, 0, &axis) ||
        !concat_extents(e, call, v, axis, extents))
        return val_error();
    Value **parts = ctx_array(e->ctx, Value *, call->n);
    Value **valids = ctx_array(e->ctx, Value *, call->n);
    bool any = false;
    for (int i = 0; i < call->n; i++) {
        parts[i] = v[i].ir.v;
        any |= v[i].ir.valid != NULL;
    }
    const Type *type = ty_block(e->ir, parts[0]->type->elem, parts[0]->type->rank, extents);
    Value *whole = emit_shape_op(e, OP_CONCAT, call->n, parts, type);
    set_int(e, whole, A_AXIS, axis);
    if (!any) return val_ir(whole);
    for (int i = 0; i < call->n; i++) valids[i] = el_valid_of(e, v[i]);
    Value *valid = emit_shape_op(e, OP_CONCAT, call->n, valids, ty_with_elem(e->ir, type, EL_BOOL));
    set_int(e, valid, A_AXIS, axis);
    return val_ir_valid(whole, valid);
}

/* ---- elements ------------------------------------------------------------------------------ */

Val bi_bitcast(Elab *e, const Call *call) {
    Value *x = arg_block(e, call, 0, 0, EC_NUM, "a number or a block of numbers");
    if (!x) return val_error();
    if (!val_is(call->args[1], V_ELEM)) return bad_argument(e, call, 1, "an element type");
    Elem to = call->args[1].elem, from = x->type->elem;
    if (to == EL_BOOL || elem_info[to].bits != elem_info[from].bits)
        return el_fail(e, call->loc, D_BITCAST_WIDTH, elem_info[from].name, elem_info[to].name,
                       elem_info[from].bits, elem_info[to].bits);
    return val_ir(emit_shape_op(e, OP_BITCAST, 1, &x, ty_with_elem(e->ir, x->type, to)));
}

Val bi_bits(Elab *e, const Call *call) {
    Value *x = arg_block(e, call, 0, 0, EC_NUM, "a number or a block of numbers");
    if (!x) return val_error();
    int bits = elem_info[x->type->elem].bits;
    Elem to = bits <= 8 ? EL_U8 : bits == 16 ? EL_U16 : bits == 32 ? EL_U32 : EL_U64;
    if (elem_info[to].bits != bits)
        return el_fail(e, call->loc, D_BITCAST_WIDTH, elem_info[x->type->elem].name,
                       elem_info[to].name, bits, elem_info[to].bits);
    return val_ir(emit_shape_op(e, OP_BITCAST, 1, &x, ty_with_elem(e->ir, x->type, to)));
}

Value *positions_along(Elab *e, const Type *like, int64_t axis) {
    int64_t extents[MAX_RANK];
    for (int d = 0; d < like->rank; d++) extents[d] = d == axis ? like->extents[d] : 1;
    Value *v = emit_shape_op(e, OP_IOTA, 0, NULL, ty_block(e->ir, EL_I64, 1, &like->extents[axis]));
    v = build_reshape(elab_builder(e), v, ty_block(e->ir, EL_I64, like->rank, extents));
    return build_broadcast(elab_builder(e), v, ty_with_elem(e->ir, like, EL_I64));
}

/// Numbers the lanes of a block along an axis, or in row-major order without one.
static Val elab_iota(Elab *e, const Call *call, const Type *t) {
    int64_t axis, all = ty_count(t);
    if (!arg_axis(e, call, 0, t->rank, 0, &axis)) return val_error();
    if (!val_is(call->named[0], V_ABSENT)) return val_ir(positions_along(e, t, axis));
    Value *line = emit_shape_op(e, OP_IOTA, 0, NULL, ty_block(e->ir, EL_I64, 1, &all));
    return val_ir(build_reshape(elab_builder(e), line, ty_with_elem(e->ir, t, EL_I64)));
}

/// iota(B) counts; iota(x, axis = 1) numbers the lanes of a block.
Val bi_iota(Elab *e, const Call *call) {
    int64_t n;
    Val x = call->args[0];
    if (val_is_block(x)) return elab_iota(e, call, x.ir.v->type);
    if (!el_extent(e, call->locs[0], x, "the extent of `iota`", &n)) return val_error();
    return val_ir(emit_shape_op(e, OP_IOTA, 0, NULL, ty_block(e->ir, EL_I64, 1, &n)));
}

Val bi_extent(Elab *e, const Call *call) {
    Value *x = arg_block(e, call, 0, 1, EC_ANY, "a block");
    int64_t axis;
    if (!x || !el_axis(e, call->locs[1], call->args[1], x->type->rank, &axis)) return val_error();
    return val_int(x->type->extents[axis]);
}

static Elem elem_of(Val v) {
    return v.kind == V_IR ? v.ir.v->type->elem : el_default_elem(v);
}

static Val is_of_class(Elab *e, const Call *call, int classes) {
    Val v = el_value(e, call->locs[0], call->args[0]);
    if (val_is(v, V_ERROR)) return v;
    return val_bool(elem_is(elem_of(v), classes));
}

Val bi_isfloat(Elab *e, const Call *call) {
    return is_of_class(e, call, EC_FLOAT);
}

Val bi_isint(Elab *e, const Call *call) {
    return is_of_class(e, call, EC_INT);
}

Val bi_bitsize(Elab *e, const Call *call) {
    Val v = el_value(e, call->locs[0], call->args[0]);
    if (val_is(v, V_ERROR)) return v;
    return val_int(elem_info[elem_of(v)].bits);
}

/* ---- dot, gather, histogram ---------------------------------------------------------------- */

/// Returns the accumulator's element of a dot, or EL_COUNT.
static Elem dot_elem(Elem e) {
    if (elem_is(e, EC_FLOAT)) return e == EL_F64 ? EL_F64 : EL_F32;
    return elem_info[e].bits == 8 && elem_is(e, EC_INT) ? EL_I32 : EL_COUNT;
}

/// Returns a float type that holds every value of both, or EL_COUNT if they are not floats.
static Elem dot_common(Elem a, Elem b) {
    if (!elem_is(a, EC_FLOAT) || !elem_is(b, EC_FLOAT)) return EL_COUNT;
    if (a == EL_F64 || b == EL_F64) return EL_F64;
    return elem_info[a].bits == 8 && elem_info[b].bits == 8 ? EL_BF16 : EL_F32;
}

/// Hints at the casts for mixed elements. A cast of one operand to the other's type may silently
/// change values, so the hint is to cast both.
static void hint_dot_elems(Elab *e, Elem a, Elem b) {
    Elem common = dot_common(a, b);
    if (common != EL_COUNT)
        diag_hint(e->ctx, "'as %s' of both keeps their values", elem_info[common].name);
    else if (elem_is(a, EC_INT) && elem_is(b, EC_INT))
        diag_hint(e->ctx,
                  "'as f32' of both keeps values of 8 bits; a cast to the other's type wraps");
    else
        diag_hint(e->ctx, "'as f32' of both makes it a product of floats");
}

/// Too few dimensions usually mean a number in place of a range; too many mean a batch.
static Val no_matrix(Elab *e, const Call *call, int i, int rank) {
    Val v = bad_argument(e, call, i, "a block of rank 2");
    if (rank == 1)
        diag_hint(e->ctx,
                  "a subscript that is a number drops its dimension: is a `by` missing, as in "
                  "`for k in K by 64`?");
    else
        diag_hint(e->ctx, "one product at a time: take the other dimensions one by one, as in "
                          "`parallel b in B`");
    return v;
}

/// An operand fits once it is transposed, if its other extent is equal. The equality may be a
/// coincidence, so the hint shows the shape of the result.
static void hint_dot_extents(Elab *e, const Type *a, const Type *b) {
    bool first = a->extents[0] == b->extents[0], second = a->extents[1] == b->extents[1];
    if (second)
        diag_hint(e->ctx,
                  "if the second is the other way round, transpose it: dot(a, trans(b)) is of "
                  "<%lld, %lld>",
                  (long long)a->extents[0], (long long)b->extents[0]);
    if (first)
        diag_hint(e->ctx,
                  "if the first is the other way round, transpose it: dot(trans(a), b) is of "
                  "<%lld, %lld>",
                  (long long)a->extents[1], (long long)b->extents[1]);
    if (first || second)
        diag_hint(e->ctx, "else read both with the same range along the inner axis");
}

Val bi_dot(Elab *e, const Call *call) {
    static const char wanted[] = "a block of rank 2";
    Value *x[2];
    for (int i = 0; i < 2; i++) {
        x[i] = arg_block(e, call, i, 1, EC_NUM, wanted);
        if (!x[i]) return val_error();
        if (x[i]->type->rank != 2) return no_matrix(e, call, i, x[i]->type->rank);
    }
    const Type *a = x[0]->type, *b = x[1]->type;
    if (a->elem != b->elem) {
        Val v =
            el_fail(e, call->loc, D_DOT_ELEMS, elem_info[a->elem].name, elem_info[b->elem].name);
        hint_dot_elems(e, a->elem, b->elem);
        return v;
    }
    if (dot_elem(a->elem) == EL_COUNT)
        return bad_argument(e, call, 0, "of floats or 8-bit integers");
    if (a->extents[1] != b->extents[0]) {
        Val v =
            el_fail(e, call->loc, D_DOT_EXTENTS, val_text(e, call->args[0]),
                    val_text(e, call->args[1]), (long long)a->extents[1], (long long)b->extents[0]);
        hint_dot_extents(e, a, b);
        return v;
    }
    int64_t extents[] = {a->extents[0], b->extents[1]};
    Value *r = emit_shape_op(e, OP_DOT, 2, x, ty_block(e->ir, dot_elem(a->elem), 2, extents));
    bool given = call->named && val_is(call->named[0], V_WORD);
    DotPrecision precision = given ? precision_of_word(call->named[0].word) : PRECISION_ABSENT;
    if (precision != PRECISION_IEEE) op_set_precision(e->ir, r->def, precision);
    return val_ir(r);
}

Val bi_gather(Elab *e, const Call *call) {
    Value *x = arg_block(e, call, 0, 1, EC_ANY, "a block");
    Value *to = arg_block(e, call, 1, 1, EC_INT, "a block of integers");
    int64_t axis;
    if (!x || !to || !arg_axis(e, call, 0, x->type->rank, 0, &axis)) return val_error();
    for (int d = 0; d < x->type->rank; d++)
        if (to->type->rank != x->type->rank ||
            (d != axis && to->type->extents[d] != x->type->extents[d]))
            return el_fail(e, call->loc, D_GATHER_SHAPES, val_text(e, call->args[0]),
                           val_text(e, call->args[1]), (int)axis);
    Value *args[] = {x, build_cast(elab_builder(e), to, EL_I64)};
    Value *r = emit_shape_op(e, OP_GATHER, 2, args, ty_with_elem(e->ir, to->type, x->type->elem));
    set_int(e, r, A_AXIS, axis);
    return val_ir(r);
}

Val bi_histogram(Elab *e, const Call *call) {
    Value *x = arg_block(e, call, 0, 1, EC_INT, "a block of integers");
    int64_t n;
    if (!x || !el_extent(e, call->locs[1], call->args[1], "the number of bins", &n))
        return val_error();
    Value *args[] = {x, el_present(e, x)};
    return val_ir(emit_shape_op(e, OP_HISTOGRAM, 2, args, ty_block(e->ir, EL_I32, 1, &n)));
}
