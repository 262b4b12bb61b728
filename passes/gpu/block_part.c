// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Parts of blocks along an axis, computed from the loads on (block_part.h).
#include "passes/gpu/block_part.h"

#include "passes/util.h"

const Type *part_type(const Parts *p, const Type *t, int axis) {
    int64_t extents[MAX_RANK];
    for (int d = 0; d < t->rank; d++) extents[d] = d == axis ? p->width : t->extents[d];
    return ty_block(p->ir, t->elem, t->rank, extents);
}

static int64_t count_before(const Type *t, int axis) {
    int64_t n = 1;
    for (int d = 0; d < axis; d++) n *= t->extents[d];
    return n;
}

int part_axis(const Op *op, int i, int axis) {
    const Type *x = operand(op, i)->type, *y = result(op, 0)->type;
    int from = axis;
    if (!ty_is_block(x)) return -1;
    if (op->code == OP_PERMUTE) from = (int)op_ints(op, A_PERM)->ints[axis];
    if (op->code == OP_REDUCE) from += axis >= op_int(op, A_AXIS, 0);
    if (op->code == OP_RESHAPE)
        for (from = 0; from < x->rank; from++)
            if (x->extents[from] == y->extents[axis] &&
                count_before(x, from) == count_before(y, axis))
                break;
    return from < x->rank && x->extents[from] == y->extents[axis] ? from : -1;
}

int part_dim(const Access *a, int axis) {
    for (int d = 0; d < a->n_subs; d++)
        if (a->axis_of[d] == axis) return d;
    return -1;
}

/// Moves the access to the part: from its start up to its end, or to the end of the count if that
/// is lower.
static void move_access(const Parts *p, Builder *b, Op *op, int axis) {
    Access a = access_of(op);
    int d = part_dim(&a, axis);
    const Attr *inside = op_ints(op, A_IN_BOUNDS);
    SubDim subs[MAX_RANK];
    for (int i = 0; i < a.n_subs; i++) subs[i] = a.subs[i];
    Value *width = build_index(b, p->width), *zero = build_index(b, 0);
    Value *left = ix_sub(b, sub_operand(op, &a, d, 1), p->start);
    bool whole = inside && inside->ints[d] == 2;
    Value *count = whole ? width : ix_max(b, ix_min(b, left, width), zero);
    Value *far = ix_mul(b, p->start, build_index(b, subs[d].mul));
    Value *base = ix_add(b, sub_operand(op, &a, d, 0), far);
    op_set_operand(op, a.first[d], base);
    op_set_operand(op, a.first[d] + 1, count);
    subs[d].size = p->width;
    op_set_subs(p->ir, op, A_SUBS, subs, a.n_subs);
}

static Op *move_clone(Parts *p, Builder *b, const Op *op, int axis, PtrMap *map) {
    Op *copy = op_clone(b, op, map);
    Builder before = build_before(p->ir, copy);
    move_access(p, &before, copy, axis);
    return copy;
}

void part_of_store(Parts *p, Builder *b, const Op *store, int axis) {
    PtrMap map = {0};
    Value *v = access_of(store).value;
    map_set(p->ctx, &map, v, part_of(p, b, v, axis));
    move_clone(p, b, store, axis, &map);
}

static Value *slice_of(Parts *p, Builder *b, Value *v, int axis) {
    const Type *t = part_type(p, v->type, axis);
    int64_t start[MAX_RANK] = {0};
    const_int(p->start, &start[axis]);
    Op *op = build_op(b, OP_SLICE, 1, &v, 1, &t, 0);
    op_set_ints(p->ir, op, A_START, start, t->rank);
    return result(op, 0);
}

static Value *clone_part(Parts *p, Builder *b, const Op *op, int axis) {
    PtrMap map = {0};
    for (int i = 0; i < op->n_operands; i++) {
        int from = op->code == OP_LOAD ? -1 : part_axis(op, i, axis);
        if (from >= 0) map_set(p->ctx, &map, operand(op, i), part_of(p, b, operand(op, i), from));
    }
    Op *copy = op->code == OP_LOAD ? move_clone(p, b, op, axis, &map) : op_clone(b, op, &map);
    Value *x = result(copy, 0);
    x->type = part_type(p, x->type, axis);
    if (op->code != OP_IOTA) return x;
    Value *first = build_cast(b, p->start, x->type->elem);
    return build_binary(b, OP_ADD, x, build_broadcast(b, first, x->type));
}

Value *part_of(Parts *p, Builder *b, Value *v, int axis) {
    Value *x = map_get(&p->made[axis], v);
    if (x) return x;
    if (p->through && !map_get(p->through, v))
        x = slice_of(p, b, v, axis);
    else
        x = clone_part(p, b, v->def, axis);
    map_set(p->ctx, &p->made[axis], v, x);
    return x;
}

/* ---- the order of accesses ----------------------------------------------------------------- */

bool may_be_one(const Value *a, const Value *b) {
    return a->type->elem == b->type->elem && a->type->rank == b->type->rank;
}

bool same_places(const Op *a, const Op *b) {
    int i = access_of(a).first[0], j = access_of(b).first[0];
    if (op_subs(a, A_SUBS) != op_subs(b, A_SUBS)) return false;
    while (i < a->n_operands && operand(a, i) == operand(b, j)) i++, j++;
    return i == a->n_operands;
}
