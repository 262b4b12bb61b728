// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// fixed-order: expands reductions with an order that depends only on the extent.
//
//   reduce %x [axis=1, order="fixed"]
//     -> neighbours are joined pair by pair until one is left:
//        reshape <m, n, 1> to <m, n/2, 2, 1>; f(slice 0, slice 1); an odd last one passes unchanged
//
// The code contains the tree, so every target and configuration computes the same bits. The pass
// has no requirements. It sees a block as <before, n, after> around the axis.
#include "passes/passes.h"
#include "passes/util.h"

typedef struct Tree {
    Builder b;
    const Region *join;
    int n;      // number of values in the tuple
    Value **at; // each <before, length, after>
    int64_t before, length, after;
} Tree;

static const Type *block_of_shape(Tree *t, const Value *like, int rank, const int64_t *extents) {
    return ty_block(t->b.ir, like->type->elem, rank, extents);
}

static Value *slice_part(Tree *t, Value *v, int rank, const int64_t *start,
                         const int64_t *extents) {
    const Type *type = block_of_shape(t, v, rank, extents);
    if (type == v->type) return v;
    Op *op = build_op(&t->b, OP_SLICE, 1, &v, 1, &type, 0);
    op_set_ints(t->b.ir, op, A_START, start, rank);
    return result(op, 0);
}

/// Returns elements 2i + which of the first 2 * pairs along the axis.
static Value *every_other(Tree *t, Value *v, int64_t pairs, int which) {
    int64_t even[] = {t->before, 2 * pairs, t->after}, zero[4] = {0};
    int64_t split[] = {t->before, pairs, 2, t->after}, one[] = {t->before, pairs, 1, t->after};
    int64_t start[] = {0, 0, which, 0}, flat[] = {t->before, pairs, t->after};
    Value *x =
        build_reshape(&t->b, slice_part(t, v, 3, zero, even), block_of_shape(t, v, 4, split));
    return build_reshape(&t->b, slice_part(t, x, 4, start, one), block_of_shape(t, v, 3, flat));
}

static Value *with_last(Tree *t, Value *joined, Value *v) {
    int64_t start[] = {0, t->length - 1, 0}, one[] = {t->before, 1, t->after};
    int64_t both[] = {t->before, (t->length + 1) / 2, t->after};
    Value *parts[] = {joined, slice_part(t, v, 3, start, one)};
    const Type *type = block_of_shape(t, v, 3, both);
    Op *op = build_op(&t->b, OP_CONCAT, 2, parts, 1, &type, 0);
    op_set_int(t->b.ir, op, A_AXIS, 1);
    return result(op, 0);
}

static void join_level(Tree *t) {
    int64_t pairs = t->length / 2;
    Value **args = ctx_array(ir_ctx(t->b.ir), Value *, 2 * t->n);
    for (int i = 0; i < t->n; i++) {
        args[i] = every_other(t, t->at[i], pairs, 0);
        args[t->n + i] = every_other(t, t->at[i], pairs, 1);
    }
    Value **joined = ctx_array(ir_ctx(t->b.ir), Value *, t->n);
    apply_lanes(&t->b, t->join, args, args[0]->type, joined);
    for (int i = 0; i < t->n; i++)
        t->at[i] = t->length % 2 ? with_last(t, joined[i], t->at[i]) : joined[i];
    t->length = (t->length + 1) / 2;
}

static void expand_fixed_reduce(Op *op, void *env) {
    if (op->code != OP_REDUCE || !op_fold_order(op)) return;
    Ir *ir = ((PassEnv *)env)->ir;
    int axis = (int)op_int(op, A_AXIS, 0);
    const Type *type = operand(op, 0)->type;
    Tree t = {
        build_before(ir, op), op->regions[0], op->n_operands, NULL, 1, type->extents[axis], 1};
    for (int d = 0; d < type->rank; d++)
        *(d < axis ? &t.before : &t.after) *= d == axis ? 1 : type->extents[d];
    t.at = ctx_array(ir_ctx(ir), Value *, t.n);
    int64_t extents[] = {t.before, t.length, t.after};
    for (int i = 0; i < t.n; i++)
        t.at[i] =
            build_reshape(&t.b, operand(op, i), block_of_shape(&t, operand(op, i), 3, extents));
    while (t.length > 1) join_level(&t);
    for (int i = 0; i < t.n; i++)
        value_replace(result(op, i), build_reshape(&t.b, t.at[i], result(op, i)->type));
    op_erase(op);
}

void pass_fixed_order(PassEnv *env, Op *module) {
    op_walk_post(module, expand_fixed_reduce, env);
}
