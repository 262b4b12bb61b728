// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What several passes need: effects, surgery on structured ops, small index arithmetic.
#include "passes/util.h"

#include "ir/eval.h"

/* ---- effects ------------------------------------------------------------------------------- */

bool op_is_container(const Op *op) {
    switch (op->code) {
    case OP_FOR:
    case OP_WHILE:
    case OP_IF:
    case OP_PARALLEL:
    case OP_LAUNCH:
    case OP_CONTRACT: return true;
    default: return false;
    }
}

bool op_is_loop(const Op *op) {
    return op->code == OP_FOR || op->code == OP_WHILE;
}

/// The traits among `traits` of what op holds, itself included unless it is control flow.
static bool tree_has(const Op *op, int traits) {
    if (!op_is_container(op) && (op_info[op->code].traits & traits)) return true;
    for (int i = 0; i < op->n_regions; i++) for_each_op(inner, op->regions[i]) {
            if (tree_has(inner, traits)) return true;
        }
    return false;
}

bool tree_is_pure(const Op *op) {
    return !tree_has(op, READS | WRITES | EFFECT);
}
bool tree_only_reads(const Op *op) {
    return !tree_has(op, WRITES | EFFECT);
}
bool op_writes(const Op *op) {
    return !op_is_container(op) && op_has(op, WRITES);
}
bool op_is_load(const Op *op) {
    return op->code == OP_LOAD;
}

/// A store or atomic writes its first operand, a combine its first n, a call any of its operands.
static bool writes_directly(const Op *op, const Value *t) {
    if (!op_writes(op)) return false;
    int n = op->code == OP_CALL      ? op->n_operands
            : op->code == OP_COMBINE ? (int)op_int(op, "n", 1)
                                     : 1;
    for (int i = 0; i < n && i < op->n_operands; i++)
        if (operand(op, i) == t) return true;
    return false;
}

bool tree_writes(const Op *op, const Value *t) {
    if (writes_directly(op, t)) return true;
    for (int i = 0; i < op->n_regions; i++) for_each_op(inner, op->regions[i]) {
            if (tree_writes(inner, t)) return true;
        }
    return false;
}

/* ---- structured ops ------------------------------------------------------------------------ */

int loop_first_init(const Op *loop) {
    return loop->code == OP_FOR ? 2 : 0;
}

Value *loop_arg(const Op *loop, int r, int i) {
    return loop->regions[r]->args[i + (loop->code == OP_FOR && r == 0)];
}

void move_ops(Region *from, Region *to) {
    for_each_op_safe(op, from) op_move_to_end(op, to);
}

/// Rewrites a terminator without its operands where keep, repeated over them, is false. `fixed`
/// leading operands stay.
static void drop_yields(Ir *ir, Op *yield, int n, const bool *keep) {
    Value **left = ctx_array(ir_ctx(ir), Value *, yield->n_operands);
    int m = 0;
    for (int i = 0; i < yield->n_operands; i++)
        if (keep[i % n]) left[m++] = operand(yield, i);
    op_set_operands(ir, yield, m, left);
}

/// Gives region `to` the arguments of `from` that stay and moves its ops there. The first `fixed`
/// arguments stay; the others are groups of n.
static void drop_args(Ir *ir, Region *from, Region *to, int fixed, int n, const bool *keep) {
    for (int i = 0; i < from->n_args; i++) {
        Value *arg = from->args[i];
        if (i < fixed || keep[(i - fixed) % n])
            value_replace(arg, region_add_arg(ir, to, arg->type, arg->name));
    }
    move_ops(from, to);
}

Op *drop_slots(Ir *ir, Op *op, const bool *keep) {
    Ctx *ctx = ir_ctx(ir);
    int n = op->n_results, m = 0, fixed = op->code == OP_IF ? 1 : loop_first_init(op);
    Value **operands = ctx_array(ctx, Value *, op->n_operands);
    const Type **types = ctx_array(ctx, const Type *, n);
    int *from = ctx_array(ctx, int, n);
    for (int i = 0; i < fixed; i++) operands[i] = operand(op, i);
    for (int i = 0; i < n; i++)
        if (keep[i]) {
            if (op->code != OP_IF) operands[fixed + m] = operand(op, fixed + i);
            types[m] = result(op, i)->type;
            from[m++] = i;
        }
    Builder b = build_before(ir, op);
    Op *copy = build_op(&b, op->code, op->code == OP_IF ? 1 : fixed + m, operands, m, types,
                        op->n_regions);
    for (int i = 0; i < op->n_attrs; i++)
        op_set_attr(ir, copy, op->attrs[i].name, op->attrs[i].value);
    for (int r = 0; r < op->n_regions; r++) {
        drop_args(ir, op->regions[r], copy->regions[r], op->code == OP_FOR && r == 0, n, keep);
        if (!(op->code == OP_WHILE && r == 0)) // that one yields its condition
            drop_yields(ir, terminator(copy->regions[r]), n, keep);
    }
    for (int i = 0; i < m; i++) {
        value_replace(result(op, from[i]), result(copy, i));
        result(copy, i)->name = result(op, from[i])->name;
    }
    copy->mark = op->mark;
    op_erase(op);
    return copy;
}

void splice_before(Op *op, Region *r, Value *const *args, Value **yields) {
    for (int i = 0; i < r->n_args; i++) value_replace(r->args[i], args[i]);
    Op *end = terminator(r);
    for (int i = 0; i < end->n_operands; i++) yields[i] = operand(end, i);
    op_erase(end);
    for_each_op_safe(inner, r) op_move_before(inner, op);
}

void apply_lanes(Builder *b, const Region *r, Value *const *args, const Type *shape,
                 Value **yields) {
    Ctx *ctx = ir_ctx(b->ir);
    PtrMap map = {0};
    for (int i = 0; i < r->n_args; i++) map_set(ctx, &map, r->args[i], args[i]);
    for_each_op(op, r) {
        Value *in[3];
        bool ends = op_has(op, TERMINATOR);
        for (int i = 0; i < op->n_operands; i++) {
            Value *v = map_get(&map, operand(op, i));
            v = v ? v : build_broadcast(b, operand(op, i), shape); // from outside the region
            if (ends)
                yields[i] = v;
            else
                in[i] = v;
        }
        if (ends) break;
        if (op->n_regions || op->n_results != 1 || op->n_operands > 3 || !op_has(op, PURE))
            ice(ctx, op->loc, "`%s` in scalar code that applies to blocks", op_info[op->code].name);
        const Type *type = ty_with_shape(b->ir, result(op, 0)->type, shape);
        Op *copy = build_op(b, op->code, op->n_operands, in, 1, &type, 0);
        for (int i = 0; i < op->n_attrs; i++)
            op_set_attr(b->ir, copy, op->attrs[i].name, op->attrs[i].value);
        map_set(ctx, &map, result(op, 0), result(copy, 0));
    }
}

/* ---- index arithmetic ---------------------------------------------------------------------- */

/// x op y, folded where both are constant.
static Value *index_op(Builder *b, OpCode code, Value *x, Value *y) {
    int64_t p, q;
    if (!const_int(x, &p) || !const_int(y, &q)) return build_binary(b, code, x, y);
    Cell cells[] = {{.i = p}, {.i = q}};
    return build_index(b, eval_elementwise(code, EL_I64, cells).i);
}

Value *ix_add(Builder *b, Value *x, Value *y) {
    return is_const_int(x, 0) ? y : is_const_int(y, 0) ? x : index_op(b, OP_ADD, x, y);
}

Value *ix_sub(Builder *b, Value *x, Value *y) {
    return is_const_int(y, 0) ? x : index_op(b, OP_SUB, x, y);
}

Value *ix_mul(Builder *b, Value *x, Value *y) {
    return is_const_int(x, 1) ? y : is_const_int(y, 1) ? x : index_op(b, OP_MUL, x, y);
}

Value *ix_div(Builder *b, Value *x, Value *y) {
    return is_const_int(y, 1) ? x : index_op(b, OP_DIV, x, y);
}

Value *ix_rem(Builder *b, Value *x, Value *y) {
    return is_const_int(y, 1) ? build_index(b, 0) : index_op(b, OP_REM, x, y);
}

Value *ix_min(Builder *b, Value *x, Value *y) {
    return index_op(b, OP_MIN, x, y);
}
Value *ix_max(Builder *b, Value *x, Value *y) {
    return index_op(b, OP_MAX, x, y);
}

Value *ix_ceildiv(Builder *b, Value *x, Value *y) {
    if (is_const_int(y, 1)) return x;
    return ix_div(b, ix_add(b, x, ix_sub(b, y, build_index(b, 1))), y);
}

Value *trip_count(Builder *b, Value *lo, Value *hi, int64_t step) {
    if (step == 0) return build_index(b, 1);
    Value *length = ix_max(b, ix_sub(b, hi, lo), build_index(b, 0));
    return ix_ceildiv(b, length, build_index(b, step));
}

Op *build_for(Builder *b, Value *lo, Value *hi, int64_t step, int n, Value *const *inits) {
    Ctx *ctx = ir_ctx(b->ir);
    Value **operands = ctx_array(ctx, Value *, n + 2);
    const Type **types = ctx_array(ctx, const Type *, n);
    operands[0] = lo;
    operands[1] = hi;
    for (int i = 0; i < n; i++) {
        operands[2 + i] = inits[i];
        types[i] = inits[i]->type;
    }
    Op *op = build_op(b, OP_FOR, n + 2, operands, n, types, 1);
    op_set_attr(b->ir, op, "step", at_int(b->ir, step));
    return op;
}
