// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The verifier's rules for tensors and their subscripts.
#include "ir/verify/verify.h"

void verify_align(Verifier *v, const Op *op) {
    if (want_kind(v, op, 0, TK_TENSOR)) want_result(v, op, 0, ty_scalar(v->ir, EL_I64));
}

void verify_dim(Verifier *v, const Op *op) {
    if (want_kind(v, op, 0, TK_TENSOR) && want_axis(v, op, operand(op, 0)->type))
        verify_align(v, op);
}

/// Returns the number of operands in front of the subscript: tensors, then pad or values.
static int access_head(const Op *op) {
    switch (op->code) {
    case OP_LIVE: return 1;
    case OP_COMBINE: return 2 * (int)op_int(op, A_N_TENSORS, 1);
    case OP_ATOMIC: return op_update(op) == UPDATE_CAS ? 3 : 2;
    default: return 2;
    }
}

/// Checks that all tensors have one rank, and that the subscript covers each dimension.
static bool subscripts_match(Verifier *v, const Op *op) {
    int n_tensors = op->code == OP_COMBINE ? (int)op_int(op, A_N_TENSORS, 1) : 1;
    for (int i = 0; i < n_tensors; i++)
        if (!want_kind(v, op, i, TK_TENSOR) ||
            !want_count(v, op, "dimensions in subs", op_subs(op, A_SUBS)->n,
                        operand(op, i)->type->rank))
            return false;
    return true;
}

/// Checks the operands of dimension d, from operand `at` on; `pick` is the type of the first pick.
static bool verify_sub(Verifier *v, const Op *op, const SubDim *d, int at, const Type **pick) {
    if (d->kind == DIM_AT) return want_index(v, op, at);
    if (d->kind == DIM_AXIS)
        return want_index(v, op, at) && want_index(v, op, at + 1) &&
               want_range(v, op, "axis size", d->size, 1, MAX_LANES + 1) &&
               want_range(v, op, "axis factor", d->mul, 1, INT64_MAX);
    const Type *t = operand(op, at)->type;
    if (!*pick && (!ty_is_block(t) || t->rank == 0 || t->elem != EL_I64)) {
        verify_fail(v, op, type_text(v->ctx, t), "operand %d to be an i64 block", at + 1);
        return false;
    }
    *pick = *pick ? *pick : t;
    return want_operand(v, op, at, *pick);
}

/// Checks the subscript, so that access_of may read it.
static bool verify_subs(Verifier *v, const Op *op) {
    const Attr *subs = op_subs(op, A_SUBS);
    if (op->code == OP_COMBINE &&
        !want_range(v, op, "n_tensors", op_int(op, A_N_TENSORS, 1), 1, 1 << 16))
        return false;
    int head = access_head(op), n = head;
    if (!want_operands(v, op, head) || !subscripts_match(v, op)) return false;
    for (int d = 0; d < subs->n; d++) n += subs->subs[d].kind == DIM_AXIS ? 2 : 1;
    if (!want_range(v, op, "operands", op->n_operands, n, n + 2)) return false;
    const Type *pick = NULL;
    for (int d = 0, at = head; d < subs->n; d++) {
        if (!verify_sub(v, op, &subs->subs[d], at, &pick)) return false;
        at += subs->subs[d].kind == DIM_AXIS ? 2 : 1;
    }
    return true;
}

/// Checks `in_bounds`, for each dimension: 0 nothing is proved, 1 the coordinate is inside, 2 the
/// axis is also full.
static bool verify_inside(Verifier *v, const Op *op) {
    const Attr *inside = op_ints(op, A_IN_BOUNDS);
    if (!inside) return true;
    bool ok = want_count(v, op, "dimensions in in_bounds", inside->n, op_subs(op, A_SUBS)->n);
    for (int i = 0; ok && i < inside->n; i++)
        ok = want_range(v, op, "in_bounds", inside->ints[i], 0, 3);
    return ok;
}

/// Checks an access up to the block that it moves. Returns that block's shape as a bool block, or
/// NULL.
static const Type *verify_access(Verifier *v, const Op *op) {
    if (!verify_subs(v, op) || !verify_inside(v, op)) return NULL;
    Access a = access_of(op);
    if (!want_range(v, op, "rank of the block", a.rank, 0, MAX_RANK + 1)) return NULL;
    const Type *picks = ty_block(v->ir, EL_BOOL, a.pick_rank, a.pick_extents);
    if (a.mask && !want_operand(v, op, op->n_operands - 1, picks)) return NULL;
    return ty_block(v->ir, EL_BOOL, a.rank, a.extents);
}

/// Returns the type of the moved block, with the tensor's element.
static const Type *type_of_moved(Verifier *v, const Op *op, const Type *shape) {
    return ty_with_elem(v->ir, shape, operand(op, 0)->type->elem);
}

void verify_load(Verifier *v, const Op *op) {
    const Type *shape = verify_access(v, op);
    if (shape && want_operand(v, op, 1, ty_scalar(v->ir, operand(op, 0)->type->elem)))
        want_result(v, op, 0, type_of_moved(v, op, shape));
}

void verify_live(Verifier *v, const Op *op) {
    const Type *shape = verify_access(v, op);
    if (shape) want_result(v, op, 0, shape);
}

void verify_store(Verifier *v, const Op *op) {
    const Type *shape = verify_access(v, op);
    Elem elem = shape ? operand(op, 0)->type->elem : EL_I64;
    if (op_flag(op, A_SYSTEM) && elem != EL_I64)
        verify_fail(v, op, elem_info[elem].name, "words of i64");
    if (shape) want_operand(v, op, 1, type_of_moved(v, op, shape));
}

void verify_copy_async(Verifier *v, const Op *op) {
    const Type *shape = verify_access(v, op);
    if (!shape || !want_kind(v, op, 1, TK_BUF)) return;
    const Type *buf = operand(op, 1)->type;
    int64_t bytes = op_int(op, A_COPY_BYTES, 16);
    if ((bytes != 4 && bytes != 8 && bytes != 16) || 8 * bytes < elem_info[buf->elem].bits)
        verify_fail(v, op, "bytes", "4, 8 or 16, of whole elements");
    want_type(v, op, "buffer", 0, ty_block(v->ir, buf->elem, buf->rank, buf->extents),
              type_of_moved(v, op, shape));
    want_result(v, op, 0, ty_pending(v->ir, NULL));
}

/// Checks that the element is in the classes of the elementwise op; xchg and cas take any.
void verify_atomic(Verifier *v, const Op *op) {
    bool known = want_word(v, op, ATTR_OP, ~(1u << UPDATE_SET));
    const Type *shape = known ? verify_access(v, op) : NULL;
    if (!shape) return;
    const Type *t = type_of_moved(v, op, shape);
    OpCode code = op_of_update(op_update(op));
    int classes = code == OP_COUNT ? EC_ANY : op_info[code].classes;
    if (!elem_is(t->elem, classes) || elem_info[t->elem].bits < 8)
        verify_fail(v, op, elem_info[t->elem].name, "an element that has %s",
                    update_word(op_update(op)));
    if (want_operand(v, op, 1, t) && want_result(v, op, 0, t) && access_head(op) == 3)
        want_operand(v, op, 2, t);
}

/// Values may have the tensor's element or that of the fold, which may be wider than both.
void verify_combine(Verifier *v, const Op *op) {
    const Type *shape = verify_access(v, op);
    int n = (int)op_int(op, A_N_TENSORS, 1);
    const Region *r = op->regions[0];
    if (!shape || !want_count(v, op, "region arguments", r->n_args, 2 * n)) return;
    const Type **types = ctx_array(v->ctx, const Type *, n);
    for (int i = 0; i < n; i++) {
        const Type *value = operand(op, n + i)->type;
        if (!want_operand(v, op, n + i, ty_with_elem(v->ir, shape, value->elem))) return;
        types[i] = ty_scalar(v->ir, r->args[i]->type->elem);
    }
    if (want_args(v, op, 0, 2 * n, types_twice(v, n, types)) && want_yields(v, op, 0, n, types))
        want_pure_region(v, op);
}

void verify_workspace_limit(Verifier *v, const Op *op) {
    want_result(v, op, 0, ty_scalar(v->ir, EL_I64));
}

void verify_scratch(Verifier *v, const Op *op) {
    const Type *t = result(op, 0)->type;
    if (t->kind != TK_TENSOR)
        verify_fail(v, op, type_text(v->ctx, t), "a tensor result");
    else if (want_count(v, op, "dimensions", op->n_operands, t->rank))
        for (int i = 0; i < t->rank; i++) want_index(v, op, i);
    if (op_flag(op, A_SYMMETRIC) && op->n_operands == 0)
        verify_fail(v, op, "none", "a dimension for the rank");
    bool word = t->elem == EL_I32 && t->rank == 1 && t->extents[0] == 1;
    if (op_flag(op, A_COUNTER) && !word)
        verify_fail(v, op, type_text(v->ctx, t), "a counter of one i32");
}
