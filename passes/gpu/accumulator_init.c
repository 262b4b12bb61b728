// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// accumulator-init: lets the first product of a warpgroup overwrite its sum. Without the pass, the
// sum starts with zeros and each thread clears its registers, which takes 128 instructions for a
// tile of 128x256.
//
//   for (%k = %lo; %k < %hi) (%t = settled 0) { %p = mma_start %a, %b, %t; ... }
//   -> %z = blank (%lo >= %hi)
//      for (...) (%t = settled %z) { %p = mma_start %a, %b, %t, (%k == %lo); ... }
//
// The fourth operand of mma_start says that the product is the first one. A product whose sum is a
// constant zero is always the first one.
#include "passes/passes.h"
#include "passes/util.h"

/// Returns the operand of `settled` if it defines the sum, else the sum itself.
static Value *block_before_settle(Value *sum) {
    Op *settled = def_of(sum, OP_SETTLED);
    return settled ? operand(settled, 0) : sum;
}

/// Whether the block is zero. The sign of the zero does not matter to a product.
static bool is_zero_block(const Value *block) {
    const Op *op = def_of(block, OP_CONST);
    if (!op || (block->type->elem != EL_F32 && block->type->elem != EL_I32)) return false;
    const Attr *value = op_const(op, A_VALUE);
    return value->kind == AT_FLOAT ? value->f == 0 : value->i == 0;
}

/// Replaces the zeros of operand i by `blank`. Its elements are zeros if `zeros` is true at run
/// time, else undefined.
static void make_blank(Ir *ir, Op *op, int i, Builder *b, Value *zeros) {
    Value *sum = operand(op, i), *block = block_before_settle(sum);
    const Type *type = block->type, *pending = ty_pending(ir, type);
    Value *blank = result(build_op(b, OP_BLANK, 1, &zeros, 1, &type, 0), 0);
    if (sum != block) blank = result(build_op(b, OP_SETTLED, 1, &blank, 1, &pending, 0), 0);
    op_set_operand(op, i, blank);
    if (sum != block && !sum->uses) op_erase(sum->def);
    if (!block->uses) op_erase(block->def);
}

/// Returns the index of the loop's carried value to which only this product adds, or -1.
static int carried_sums(const Op *start) {
    const Op *loop = start->parent->parent;
    if (loop->code != OP_FOR || loop->n_regions != 1) return -1;
    for (int i = 0; i < loop->n_results; i++)
        if (loop_arg(loop, 0, i) == operand(start, 2) && value_has_one_use(operand(start, 2)))
            return i;
    return -1;
}

static void begin_blank(Op *start, void *arg) {
    Ir *ir = arg;
    if (start->code != OP_MMA_START || start->n_operands != 3 || op_attr(start, ATTR_PARTIAL_SUM_K))
        return;
    Builder b = build_before(ir, start);
    if (is_zero_block(block_before_settle(operand(start, 2)))) {
        make_blank(ir, start, 2, &b, build_bool(&b, ty_scalar(ir, EL_BOOL), false));
        op_add_operand(ir, start, build_bool(&b, ty_scalar(ir, EL_BOOL), true));
        return;
    }
    int i = carried_sums(start);
    Op *loop = start->parent->parent;
    if (i < 0 || !is_zero_block(block_before_settle(operand(loop, 2 + i)))) return;
    Value *lo = operand(loop, 0), *hi = operand(loop, 1);
    Builder before = build_before(ir, loop);
    make_blank(ir, loop, 2 + i, &before, build_binary(&before, OP_GE, lo, hi));
    op_add_operand(ir, start, build_binary(&b, OP_EQ, loop->regions[0]->args[0], lo));
}

void pass_accumulator_init(PassEnv *env, Op *module) {
    if (env->gpu) op_walk_pre(module, begin_blank, env->ir);
}
