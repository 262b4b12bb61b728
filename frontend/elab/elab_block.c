// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Subscripts of blocks: `:`, None, a constant index or a constant slice for each axis.
#include "frontend/elab/elab.h"

typedef struct Slicing {
    int64_t start[MAX_RANK], extents[MAX_RANK]; // of the slice
    int64_t shape[2 * MAX_RANK];                // of the result
    int axis, rank;
} Slicing;

/// Whether a scalar consists of constants and dims, known or not.
static bool is_of_dims(Elab *e, Val v) {
    int64_t value;
    return el_known_int(e, v, &value) || el_unknown_dim(e, v.ir.v);
}

/// Evaluates a constant subscript. The message tells a value that varies at run time from an
/// unknown dim, since only the former can use gather.
static bool constant_sub(Elab *e, const Sub *sub, const Expr *x, int64_t *out) {
    Val v = el_expr(e, x);
    if (v.kind == V_ERROR) return false;
    if (v.kind == V_RANGE || val_is_block(v) || (val_is_scalar(v) && !is_of_dims(e, v))) {
        el_fail(e, sub->loc, D_BLOCK_INDEX, val_text(e, v));
        diag_hint(e->ctx,
                  "gather(x, indices, axis = 0) picks lanes that are known at run time only");
        return false;
    }
    return el_const_int(e, sub->loc, v, "the index into a block", out);
}

/// Reads an index or a slice lo .. hi of an axis of this extent.
static bool slice_sub(Elab *e, const Sub *sub, int64_t extent, Slicing *s) {
    int64_t lo, hi;
    if (!constant_sub(e, sub, sub->lo, &lo)) return false;
    hi = lo + 1;
    if (sub->kind == SUB_SPAN && !constant_sub(e, sub, sub->hi, &hi)) return false;
    if (lo < 0 || hi <= lo || hi > extent) {
        el_fail(e, sub->loc, D_SLICE_OUTSIDE, (long long)lo, (long long)hi, (long long)extent);
        return false;
    }
    s->start[s->axis] = lo;
    s->extents[s->axis++] = hi - lo;
    if (sub->kind == SUB_SPAN) s->shape[s->rank++] = hi - lo;
    return true;
}

/// Reads one entry. The caller reports too many entries.
static bool read_sub(Elab *e, const Sub *sub, const Type *t, Slicing *s) {
    if (sub->kind == SUB_NAMED) {
        el_fail(e, sub->name.loc, D_NO_NAMED_SUB, sub->name.text);
        return false;
    }
    if (sub->kind == SUB_NEW) {
        s->shape[s->rank++] = 1;
        return true;
    }
    if (s->axis == t->rank) return true; // too many entries; the caller reports them
    if (sub->kind != SUB_ALL) return slice_sub(e, sub, t->extents[s->axis], s);
    s->start[s->axis] = 0;
    s->shape[s->rank++] = s->extents[s->axis] = t->extents[s->axis];
    s->axis++;
    return true;
}

/// Applies one slice for all axes, then one reshape that drops and adds axes. Validity is moved the
/// same way.
static Value *apply_slicing(Elab *e, Value *v, const Slicing *s) {
    if (!v) return NULL;
    const Type *part = ty_block(e->ir, v->type->elem, v->type->rank, s->extents);
    if (part != v->type) {
        Op *op = build_op(&e->b, OP_SLICE, 1, &v, 1, &part, 0);
        op_set_ints(e->ir, op, A_START, s->start, v->type->rank);
        v = result(op, 0);
    }
    const Type *to = ty_block(e->ir, v->type->elem, s->rank, s->shape);
    return v->type->rank == 0 ? build_broadcast(&e->b, v, to) : build_reshape(&e->b, v, to);
}

Val el_block_subscript(Elab *e, const Expr *x, Val base) {
    base = el_value(e, x->loc, base);
    if (base.kind == V_ERROR) return base;
    if (base.kind == V_CONST)
        return el_fail(e, x->loc, D_NOT_A_TENSOR, "a subscript", val_text(e, base));
    const Type *t = base.ir.v->type;
    const Subs *subs = &x->subscript.subs;
    int axes = 0;
    for (int i = 0; i < subs->n; i++)
        axes += subs->at[i].kind != SUB_NEW && subs->at[i].kind != SUB_NAMED;
    if (axes != t->rank)
        return el_fail(e, x->loc, D_BLOCK_SUBSCRIPT_COUNT, val_text(e, base), axes);
    if (subs->n > 2 * MAX_RANK) return el_fail(e, x->loc, D_RANK, MAX_RANK);
    Slicing s = {.axis = 0};
    for (int i = 0; i < subs->n; i++)
        if (!read_sub(e, &subs->at[i], t, &s)) return val_error();
    if (s.rank > MAX_RANK) return el_fail(e, x->loc, D_RANK, MAX_RANK);
    return val_ir_valid(apply_slicing(e, base.ir.v, &s), apply_slicing(e, base.ir.valid, &s));
}
