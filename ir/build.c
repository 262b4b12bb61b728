// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Building ops.
#include "ir/eval.h"
#include "ir/ir_private.h"

Builder build_at_end(Ir *ir, Region *region, Loc loc) {
    return (Builder){ir, region, NULL, loc};
}

Builder build_before(Ir *ir, Op *op) {
    return (Builder){ir, op->parent, op, op->loc};
}

/// Ops that are built one after the other keep that order.
Builder build_after(Ir *ir, Op *op) {
    return (Builder){ir, op->parent, op->next, op->loc};
}

Region *new_region(Ctx *ctx, Op *parent) {
    Region *r = ctx_new(ctx, Region);
    r->parent = parent;
    return r;
}

/// The only function that makes ops. It links operands, results and regions, and inserts the op.
Op *build_op(Builder *b, OpCode code, int n_operands, Value *const *operands, int n_results,
             const Type *const *results, int n_regions) {
    Ctx *ctx = b->ir->ctx;
    Op *op = ctx_new(ctx, Op);
    ctx_count(ctx, 1);
    op->code = code;
    op->loc = b->loc;
    op->operands = ctx_array(ctx, Use, n_operands);
    op->results = ctx_array(ctx, Value, n_results);
    op->n_results = n_results;
    for (int i = 0; i < n_results; i++)
        op->results[i] = (Value){.type = results[i], .def = op, .index = i};
    op->regions = ctx_array(ctx, Region *, n_regions);
    op->n_regions = n_regions;
    for (int i = 0; i < n_regions; i++) op->regions[i] = new_region(ctx, op);
    op->n_operands = n_operands;
    for (int i = 0; i < n_operands; i++) use_link(op, i, operands[i]);
    if (b->region) region_insert(b->region, b->before, op);
    return op;
}

Value *region_add_arg(Ir *ir, Region *r, const Type *type, const char *name) {
    int n = r->n_args;
    if ((n & (n - 1)) == 0) { // full: room doubles at each power of two
        Value **args = ctx_array(ir->ctx, Value *, n ? 2 * n : 1);
        for (int i = 0; i < n; i++) args[i] = r->args[i];
        r->args = args;
    }
    Value *v = ctx_new(ir->ctx, Value);
    *v = (Value){.type = type, .region = r, .index = n, .name = name};
    r->args[r->n_args++] = v;
    return v;
}

Op *build_module(Ir *ir) {
    Builder nowhere = {.ir = ir};
    return build_op(&nowhere, OP_MODULE, 0, NULL, 0, NULL, 1);
}

/* ---- elementwise --------------------------------------------------------------------------- */

/// Builds an elementwise op. Mixed operand types are a bug of the caller, reported here.
static Value *build_lanes(Builder *b, OpCode code, int n, Value *const *x) {
    const OpInfo *info = &op_info[code];
    if (!(info->traits & (SAME | ELEMENTWISE)) || info->n_operands != n)
        ice(b->ir->ctx, b->loc, "`%s` is no elementwise op of %d operands", info->name, n);
    const Type *type = x[0]->type;
    for (int i = 1; i < n; i++)
        if (x[i]->type != type)
            ice(b->ir->ctx, b->loc, "`%s` of different types: %s and %s", info->name,
                type_text(b->ir->ctx, type), type_text(b->ir->ctx, x[i]->type));
    if (info->traits & COMPARES) type = ty_with_elem(b->ir, type, EL_BOOL);
    return result(build_op(b, code, n, x, 1, &type, 0), 0);
}

Value *build_unary(Builder *b, OpCode code, Value *x) {
    return build_lanes(b, code, 1, &x);
}

Value *build_binary(Builder *b, OpCode code, Value *x, Value *y) {
    return build_lanes(b, code, 2, (Value *[]){x, y});
}

Value *build_ternary(Builder *b, OpCode code, Value *x, Value *y, Value *z) {
    return build_lanes(b, code, 3, (Value *[]){x, y, z});
}

Value *build_select(Builder *b, Value *c, Value *x, Value *y) {
    return result(build_op(b, OP_SELECT, 3, (Value *[]){c, x, y}, 1, &x->type, 0), 0);
}

/* ---- constants ----------------------------------------------------------------------------- */

/// Returns the attribute as a constant of this element type: an integer is wrapped to the type's
/// range, a float rounded to the type.
static const Attr *const_attr(Ir *ir, Elem elem, const Attr *a) {
    if (a->kind == AT_INT && elem_is(elem, EC_UINT))
        return attr_of_cell(ir, elem, cell_wrap(elem, (Cell){.i = a->i}));
    Elem from = a->kind == AT_INT ? EL_I64 : a->kind == AT_BOOL ? EL_BOOL : EL_F64;
    return attr_of_cell(ir, elem, cell_cast(from, elem, cell_of_attr(from, a)));
}

Value *build_const(Builder *b, const Type *type, const Attr *a) {
    Op *op = build_op(b, OP_CONST, 0, NULL, 1, &type, 0);
    op_set_const(b->ir, op, A_VALUE, const_attr(b->ir, type->elem, a));
    return result(op, 0);
}

Value *build_int(Builder *b, const Type *type, int64_t v) {
    return build_const(b, type, at_int(b->ir, v));
}

Value *build_float(Builder *b, const Type *type, double v) {
    return build_const(b, type, at_float(b->ir, v));
}

Value *build_bool(Builder *b, const Type *type, bool v) {
    return build_const(b, type, at_bool(b->ir, v));
}

Value *build_index(Builder *b, int64_t v) {
    return build_int(b, ty_scalar(b->ir, EL_I64), v);
}

/* ---- shapes -------------------------------------------------------------------------------- */

/// Returns x itself if it already has the type, so callers need not compare.
static Value *build_to_type(Builder *b, OpCode code, Value *x, const Type *to) {
    return to == x->type ? x : result(build_op(b, code, 1, &x, 1, &to, 0), 0);
}

Value *build_cast(Builder *b, Value *x, Elem to) {
    return build_to_type(b, OP_CAST, x, ty_with_elem(b->ir, x->type, to));
}

Value *build_broadcast(Builder *b, Value *x, const Type *to) {
    return build_to_type(b, OP_BROADCAST, x, ty_with_shape(b->ir, x->type, to));
}

Value *build_reshape(Builder *b, Value *x, const Type *to) {
    return build_to_type(b, OP_RESHAPE, x, ty_with_shape(b->ir, x->type, to));
}

void build_yield(Builder *b, int n, Value *const *values) {
    build_op(b, OP_YIELD, n, values, 0, NULL, 0);
}
