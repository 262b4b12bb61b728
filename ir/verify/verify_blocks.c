// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The verifier's rules for ops on blocks: constants, shapes, and ops on whole blocks.
#include "ir/eval.h"
#include "ir/verify/verify.h"

/* ---- constants and shapes ------------------------------------------------------------------ */

/// Checks that the value is of the element's class and fits the element.
void verify_const(Verifier *v, const Op *op) {
    if (!want_block_result(v, op)) return;
    const Attr *a = op_const(op, A_VALUE);
    Elem e = result(op, 0)->type->elem;
    AttrKind kind = elem_is(e, EC_FLOAT) ? AT_FLOAT : elem_is(e, EC_BOOL) ? AT_BOOL : AT_INT;
    Text found = {.ctx = v->ctx};
    ir_print_attr(&found, a);
    if (a->kind != kind) {
        verify_fail(v, op, found.data, "a value of %s", elem_info[e].name);
        return;
    }
    Cell raw = kind == AT_FLOAT ? (Cell){.f = a->f} : (Cell){.i = a->i};
    if (!cell_equal(e, raw, cell_of_attr(e, a)))
        verify_fail(v, op, found.data, "a value that %s can hold", elem_info[e].name);
}

void verify_iota(Verifier *v, const Op *op) {
    const Type *t = result(op, 0)->type;
    if (!ty_is_block(t) || t->rank != 1 || !elem_is(t->elem, EC_INT) || elem_info[t->elem].bits < 8)
        verify_fail(v, op, type_text(v->ctx, t), "an integer block of rank 1");
}

/// Checks that operand and result are blocks of one element.
static bool keeps_elem(Verifier *v, const Op *op) {
    if (!want_kind(v, op, 0, TK_BLOCK) || !want_block_result(v, op)) return false;
    const Type *from = operand(op, 0)->type, *to = result(op, 0)->type;
    if (from->elem != to->elem)
        verify_fail(v, op, elem_info[to->elem].name, "a result of %s", elem_info[from->elem].name);
    return from->elem == to->elem;
}

void verify_broadcast(Verifier *v, const Op *op) {
    if (!keeps_elem(v, op)) return;
    const Type *from = operand(op, 0)->type, *to = result(op, 0)->type;
    bool ok = from->rank == 0 || from->rank == to->rank;
    for (int i = 0; ok && i < from->rank; i++)
        ok = from->extents[i] == to->extents[i] || from->extents[i] == 1;
    if (!ok)
        verify_fail(v, op, type_text(v->ctx, from), "a scalar or extents 1 or those of %s",
                    type_text(v->ctx, to));
}

void verify_reshape(Verifier *v, const Op *op) {
    if (keeps_elem(v, op))
        want_count(v, op, "lanes in the result", ty_count(result(op, 0)->type),
                   ty_count(operand(op, 0)->type));
}

void verify_permute(Verifier *v, const Op *op) {
    const Type *from = operand(op, 0)->type, *to = result(op, 0)->type;
    const Attr *perm = op_ints(op, A_PERM);
    if (!keeps_elem(v, op) || !want_count(v, op, "axes in perm", perm->n, from->rank)) return;
    int64_t extents[MAX_RANK];
    int seen = 0;
    for (int i = 0; i < perm->n; i++) {
        if (!want_range(v, op, "perm", perm->ints[i], 0, from->rank)) return;
        seen |= 1 << perm->ints[i];
        extents[i] = from->extents[perm->ints[i]];
    }
    if (seen != (1 << from->rank) - 1)
        verify_fail(v, op, "one twice", "each axis once in perm");
    else
        want_type(v, op, "result", 0, to, ty_block(v->ir, from->elem, from->rank, extents));
}

/// Checks that the slice lies within the operand on each axis.
void verify_slice(Verifier *v, const Op *op) {
    const Type *from = operand(op, 0)->type, *to = result(op, 0)->type;
    const Attr *start = op_ints(op, A_START);
    if (!keeps_elem(v, op) || !want_count(v, op, "axes in the result", to->rank, from->rank) ||
        !want_count(v, op, "axes in start", start->n, from->rank))
        return;
    for (int i = 0; i < start->n; i++)
        if (!want_range(v, op, "start", start->ints[i], 0, from->extents[i] - to->extents[i] + 1))
            return;
}

/// Checks that all operands agree on every axis but the joined one; there the extents add up.
void verify_concat(Verifier *v, const Op *op) {
    if (!want_operands(v, op, 1) || !keeps_elem(v, op)) return;
    Type t = *operand(op, 0)->type;
    int64_t axis = op_int(op, A_AXIS, 0), sum = 0;
    if (!want_axis(v, op, &t)) return;
    for (int i = 0; i < op->n_operands; i++) {
        const Type *part = operand(op, i)->type;
        t.extents[axis] = part->rank == t.rank ? part->extents[axis] : t.extents[axis];
        if (!want_operand(v, op, i, ty_block(v->ir, t.elem, t.rank, t.extents))) return;
        sum += t.extents[axis];
    }
    t.extents[axis] = sum;
    want_result(v, op, 0, ty_block(v->ir, t.elem, t.rank, t.extents));
}

/// Checks that only the element changes.
void verify_cast(Verifier *v, const Op *op) {
    const Type *from = operand(op, 0)->type, *to = result(op, 0)->type;
    if (want_kind(v, op, 0, TK_BLOCK) && want_block_result(v, op))
        want_type(v, op, "result", 0, to, ty_with_elem(v->ir, from, to->elem));
}

void verify_bitcast(Verifier *v, const Op *op) {
    const Type *from = operand(op, 0)->type, *to = result(op, 0)->type;
    verify_cast(v, op);
    int bits = elem_info[from->elem].bits;
    if (elem_info[to->elem].bits != bits || from->elem == EL_BOOL || to->elem == EL_BOOL)
        verify_fail(v, op, type_text(v->ctx, to), "elements of %d bits, none of them bool", bits);
}

/// Checks that only the layout changes.
void verify_convert(Verifier *v, const Op *op) {
    if (keeps_elem(v, op))
        want_type(v, op, "result", 0, ty_plain(v->ir, result(op, 0)->type),
                  ty_plain(v->ir, operand(op, 0)->type));
}

void verify_renew(Verifier *v, const Op *op) {
    const Type *t = operand(op, 0)->type;
    if (want_kind(v, op, 0, TK_BLOCK)) want_type(v, op, "result", 0, result(op, 0)->type, t);
}

void verify_select(Verifier *v, const Op *op) {
    const Type *t = result(op, 0)->type;
    if (want_block_result(v, op) && want_operand(v, op, 0, ty_with_elem(v->ir, t, EL_BOOL)) &&
        want_operand(v, op, 1, t))
        want_operand(v, op, 2, t);
}

/* ---- whole blocks -------------------------------------------------------------------------- */

/// Returns the element that accumulates products of this one; EL_COUNT if dot does not take it.
static Elem sum_elem(Elem e) {
    const ElemInfo *info = &elem_info[e];
    if (info->cls == EC_FLOAT) return info->bits <= 32 ? EL_F32 : EL_F64;
    return info->cls & EC_INT && info->bits == 8 ? EL_I32 : EL_COUNT;
}

/// Checks that a <m, k> times b <k, n> fits, and accumulates in a result of type c.
static bool verify_product(Verifier *v, const Op *op, const Type *a, const Type *b, const Type *c) {
    bool fits = ty_is_block(a) && ty_is_block(b) && a->rank == 2 && b->rank == 2 &&
                a->extents[1] == b->extents[0] && sum_elem(a->elem) != EL_COUNT &&
                sum_elem(a->elem) == sum_elem(b->elem);
    if (!fits) {
        verify_fail(v, op,
                    ctx_format(v->ctx, "%s and %s", type_text(v->ctx, a), type_text(v->ctx, b)),
                    "a <m, k> and b <k, n> of floats or 8-bit integers");
        return false;
    }
    int64_t extents[] = {a->extents[0], b->extents[1]};
    return want_type(v, op, "result", 0, c, ty_block(v->ir, sum_elem(a->elem), 2, extents));
}

void verify_dot(Verifier *v, const Op *op) {
    const Type *c = result(op, 0)->type;
    if (want_range(v, op, "operands", op->n_operands, 2, 4) &&
        verify_product(v, op, operand(op, 0)->type, operand(op, 1)->type, c) && op->n_operands == 3)
        want_operand(v, op, 2, c);
}

/// Checks that the region makes one step of a and b. The step is the extent that they share.
void verify_contract(Verifier *v, const Op *op) {
    const Type *c = result(op, 0)->type;
    int64_t step = op_int(op, A_STEP, 0);
    if (!want_count(v, op, "operands", op->n_operands, 3) || !want_index(v, op, 0) ||
        !want_index(v, op, 1) || !want_operand(v, op, 2, c) ||
        !want_range(v, op, "step", step, 1, INT64_MAX) || !want_index_arg(v, op))
        return;
    const Op *end = terminator(op->regions[0]);
    if (!end || !want_count(v, op, "yielded values", end->n_operands, 2)) return;
    const Type *a = operand(end, 0)->type;
    if (verify_product(v, op, a, operand(end, 1)->type, c))
        want_count(v, op, "columns of a (the step)", a->extents[1], step);
}

/// Checks that operands 0 .. n - 1 are blocks of one shape that has the axis.
static bool are_aligned(Verifier *v, const Op *op, int n) {
    if (!want_operands(v, op, n < 1 ? 1 : n) || !want_kind(v, op, 0, TK_BLOCK)) return false;
    const Type *first = operand(op, 0)->type;
    for (int i = 1; i < n; i++)
        if (!want_operand(v, op, i, ty_with_shape(v->ir, operand(op, i)->type, first)))
            return false;
    return want_axis(v, op, first);
}

/// Checks that the region joins two tuples of scalars with the elements of operands 0 .. n - 1.
static void joins_operands(Verifier *v, const Op *op, int n) {
    const Type **types = ctx_array(v->ctx, const Type *, n);
    for (int i = 0; i < n; i++) types[i] = ty_scalar(v->ir, operand(op, i)->type->elem);
    if (want_args(v, op, 0, 2 * n, types_twice(v, n, types)) && want_yields(v, op, 0, n, types))
        want_pure_region(v, op);
}

/// Returns the type after the axis is reduced to one element.
static const Type *type_without_axis(Ir *ir, const Type *t, int64_t axis) {
    int64_t extents[MAX_RANK];
    for (int i = 0; i < t->rank; i++)
        if (i != axis) extents[i - (i > axis)] = t->extents[i];
    return ty_block(ir, t->elem, t->rank - 1, extents);
}

void verify_reduce(Verifier *v, const Op *op) {
    int n = op->n_operands;
    if (!are_aligned(v, op, n) || !want_count(v, op, "results", op->n_results, n)) return;
    for (int i = 0; i < n; i++)
        if (!want_result(v, op, i,
                         type_without_axis(v->ir, operand(op, i)->type, op_int(op, A_AXIS, 0))))
            return;
    joins_operands(v, op, n);
}

/// Checks that result i has the type of operand i.
static bool results_like_operands(Verifier *v, const Op *op) {
    for (int i = 0; i < op->n_results; i++)
        if (!want_result(v, op, i, operand(op, i)->type)) return false;
    return true;
}

/// The operands are the blocks, then, for an exclusive scan, one initial scalar for each.
void verify_scan(Verifier *v, const Op *op) {
    int n = op->n_results;
    bool exclusive = op_flag(op, A_EXCLUSIVE);
    if (!want_count(v, op, "operands", op->n_operands, exclusive ? 2 * n : n) ||
        !are_aligned(v, op, n) || !results_like_operands(v, op))
        return;
    for (int i = 0; exclusive && i < n; i++)
        if (!want_operand(v, op, n + i, ty_scalar(v->ir, operand(op, i)->type->elem))) return;
    joins_operands(v, op, n);
}

void verify_sort(Verifier *v, const Op *op) {
    if (are_aligned(v, op, op->n_operands) &&
        want_count(v, op, "results", op->n_results, op->n_operands))
        results_like_operands(v, op);
}

void verify_histogram(Verifier *v, const Op *op) {
    if (!want_range(v, op, "operands", op->n_operands, 1, 3) || !want_kind(v, op, 0, TK_BLOCK))
        return;
    const Type *x = operand(op, 0)->type, *r = result(op, 0)->type;
    if (!elem_is(x->elem, EC_INT))
        verify_fail(v, op, type_text(v->ctx, x), "integers");
    else if (op->n_operands == 2)
        want_operand(v, op, 1, ty_with_elem(v->ir, x, EL_BOOL));
    if (!ty_is_block(r) || r->elem != EL_I32 || r->rank != 1)
        verify_fail(v, op, type_text(v->ctx, r), "a result of i32, rank 1");
}

/// Operand and indices have the same shape except for the axis; the result has the shape of the
/// indices.
void verify_gather(Verifier *v, const Op *op) {
    if (!want_kind(v, op, 0, TK_BLOCK) || !want_axis(v, op, operand(op, 0)->type) ||
        !want_kind(v, op, 1, TK_BLOCK))
        return;
    Type like = *operand(op, 0)->type;
    const Type *indices = operand(op, 1)->type;
    int64_t axis = op_int(op, A_AXIS, 0);
    if (indices->rank == like.rank) like.extents[axis] = indices->extents[axis];
    const Type *want = ty_block(v->ir, EL_I64, like.rank, like.extents);
    if (want_operand(v, op, 1, want)) want_result(v, op, 0, ty_with_elem(v->ir, want, like.elem));
}
