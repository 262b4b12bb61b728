// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// canonicalize: rules on shapes: broadcast, reshape, permute, slice, concat, and whole-block ops
// over an axis of one lane.
#include "passes/canonical.h"

static Value *build_unary_to(Rewriter *rw, OpCode code, Value *x, const Type *to) {
    return result(build_op(&rw->at, code, 1, &x, 1, &to, 0), 0);
}

static bool is_splat(const Value *v) {
    const Op *op = v->def;
    return op && op->code == OP_BROADCAST && ty_is_scalar(operand(op, 0)->type);
}

// shape op of a splat: the splat in the new shape
static bool shape_of_splat(Rewriter *rw, Op *op) {
    Value *x = operand(op, 0);
    if (!is_splat(x)) return false;
    rewrite_to(rw, op, build_broadcast(&rw->at, operand(x->def, 0), result(op, 0)->type));
    return true;
}

// broadcast(broadcast(x)) = broadcast(x), if no axis is renamed
static bool broadcast_twice(Rewriter *rw, Op *op) {
    Op *in = def_of(operand(op, 0), OP_BROADCAST);
    if (!in) return false;
    rewrite_to(rw, op, build_broadcast(&rw->at, operand(in, 0), result(op, 0)->type));
    return true;
}

// reshape(reshape(x)) = reshape(x)
static bool reshape_twice(Rewriter *rw, Op *op) {
    Op *in = def_of(operand(op, 0), OP_RESHAPE);
    if (!in) return false;
    rewrite_to(rw, op, build_reshape(&rw->at, operand(in, 0), result(op, 0)->type));
    return true;
}

/// Whether perm keeps the order of the axes longer than 1, so that it moves no element.
static bool moves_nothing(const Attr *perm, const Type *from) {
    int64_t last = -1;
    for (int i = 0; i < perm->n; i++) {
        int64_t axis = perm->ints[i];
        if (from->extents[axis] == 1) continue;
        if (axis < last) return false;
        last = axis;
    }
    return true;
}

// permute by an order that moves no element = reshape
static bool permute_of_nothing(Rewriter *rw, Op *op) {
    Value *x = operand(op, 0);
    if (!moves_nothing(op_ints(op, A_PERM), x->type)) return false;
    rewrite_to(rw, op, build_reshape(&rw->at, x, result(op, 0)->type));
    return true;
}

// permute(permute(x, p), q) = permute(x, p[q])
static bool permute_twice(Rewriter *rw, Op *op) {
    Op *in = def_of(operand(op, 0), OP_PERMUTE);
    if (!in) return false;
    const Attr *p = op_ints(in, A_PERM), *q = op_ints(op, A_PERM);
    int64_t both[MAX_RANK];
    for (int i = 0; i < q->n; i++) both[i] = p->ints[q->ints[i]];
    Value *v = build_unary_to(rw, OP_PERMUTE, operand(in, 0), result(op, 0)->type);
    op_set_ints(rw->ir, v->def, A_PERM, both, q->n);
    rewrite_to(rw, op, v);
    return true;
}

// slice(slice(x, s), t) = slice(x, s + t)
static bool slice_twice(Rewriter *rw, Op *op) {
    Op *in = def_of(operand(op, 0), OP_SLICE);
    if (!in) return false;
    const Attr *s = op_ints(in, A_START), *t = op_ints(op, A_START);
    int64_t sum[MAX_RANK];
    for (int i = 0; i < t->n; i++) sum[i] = s->ints[i] + t->ints[i];
    Value *v = build_unary_to(rw, OP_SLICE, operand(in, 0), result(op, 0)->type);
    op_set_ints(rw->ir, v->def, A_START, sum, t->n);
    rewrite_to(rw, op, v);
    return true;
}

// slice(concat(.., x, ..)) = slice(x), if the slice lies in one part
static bool slice_of_concat(Rewriter *rw, Op *op) {
    Op *in = def_of(operand(op, 0), OP_CONCAT);
    if (!in) return false;
    const Attr *start = op_ints(op, A_START);
    int axis = (int)op_int(in, A_AXIS, 0);
    int64_t from = start->ints[axis], size = result(op, 0)->type->extents[axis];
    for (int i = 0; i < in->n_operands; i++) {
        int64_t part = operand(in, i)->type->extents[axis];
        if (from >= 0 && from + size <= part) {
            int64_t moved[MAX_RANK];
            for (int d = 0; d < start->n; d++) moved[d] = d == axis ? from : start->ints[d];
            Value *v = build_unary_to(rw, OP_SLICE, operand(in, i), result(op, 0)->type);
            op_set_ints(rw->ir, v->def, A_START, moved, start->n);
            rewrite_to(rw, op, v);
            return true;
        }
        from -= part;
    }
    return false;
}

// reduce, inclusive scan or sort over an axis of one lane = its operands
static bool axis_of_one(Rewriter *rw, Op *op) {
    int64_t axis = op_int(op, A_AXIS, 0);
    if (op->n_operands == 0 || operand(op, 0)->type->extents[axis] != 1 || op_flag(op, A_EXCLUSIVE))
        return false;
    for (int i = 0; i < op->n_results; i++) {
        Value *v = build_reshape(&rw->at, operand(op, i), result(op, i)->type);
        replace_result(rw, result(op, i), v);
    }
    rewrite_erase(rw, op);
    return true;
}

// f(splat(x), splat(y)) = splat(f(x, y)): once instead of in every lane
static bool lanes_of_splats(Rewriter *rw, Op *op) {
    if (ty_is_scalar(result(op, 0)->type)) return false;
    bool some = false;
    for (int i = 0; i < op->n_operands; i++) {
        if (!is_splat(operand(op, i)) && !const_of(operand(op, i))) return false;
        some |= !const_of(operand(op, i));
    }
    if (!some) return false;
    Value *in[3];
    for (int i = 0; i < op->n_operands; i++) {
        Value *v = operand(op, i);
        const Attr *a = const_of(v);
        in[i] = a ? build_const(&rw->at, ty_scalar(rw->ir, v->type->elem), a) : operand(v->def, 0);
    }
    const Type *type = ty_scalar(rw->ir, result(op, 0)->type->elem);
    Op *scalar = build_op(&rw->at, op->code, op->n_operands, in, 1, &type, 0);
    rewrite_to(rw, op, build_broadcast(&rw->at, result(scalar, 0), result(op, 0)->type));
    return true;
}

static const Rule rules[] = {
    {OP_BROADCAST, broadcast_twice, "broadcast(broadcast(x)) = broadcast(x)"},
    {OP_RESHAPE, shape_of_splat, "reshape(splat(x)) = splat(x)"},
    {OP_RESHAPE, reshape_twice, "reshape(reshape(x)) = reshape(x)"},
    {OP_PERMUTE, shape_of_splat, "permute(splat(x)) = splat(x)"},
    {OP_PERMUTE, permute_of_nothing, "permute(x, order of long axes kept) = reshape(x)"},
    {OP_PERMUTE, permute_twice, "permute(permute(x, p), q) = permute(x, p[q])"},
    {OP_SLICE, shape_of_splat, "slice(splat(x)) = splat(x)"},
    {OP_SLICE, slice_twice, "slice(slice(x, s), t) = slice(x, s + t)"},
    {OP_SLICE, slice_of_concat, "slice(concat(x, y)) = slice(x), or slice(y)"},
    {OP_REDUCE, axis_of_one, "reduce over one lane = x"},
    {OP_SCAN, axis_of_one, "scan over one lane = x"},
    {OP_SORT, axis_of_one, "sort of one lane = x"},
    {OP_CAST, lanes_of_splats, "cast(splat(x)) = splat(cast(x))"},
    {OP_BITCAST, lanes_of_splats, "bitcast(splat(x)) = splat(bitcast(x))"},
    {OP_SELECT, lanes_of_splats, "select(splat(c), splat(x), splat(y)) = splat(select(c, x, y))"},
#define EW(id, name, n, classes, traits, cost, s, u, f, doc)                                       \
    {OP_##id, lanes_of_splats, name "(splats) = splat(" name "(scalars))"},
#include "lang/elementwise.def"
};
const RuleTable shape_rules = RULE_TABLE("canonicalize", Rule, rules);
