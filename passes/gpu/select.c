// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// select: chooses the matrix instruction of each product, and the form of the product.
//
//   dot %a, %b, %c : f32<64x64>   ->   dot %a, %b, %c [unit="mma.m16n8k16.f16"]
//
// - Few rows: (a b + c) = (b^T a^T + c^T)^T, if the instruction has more rows than columns. The
//   permutes move nothing between threads.
// - f8 on targets without an instruction: the product is exact in f16.
// - Units with narrow sums (f8) get `partial_sum_k`: the unit adds up this number of products, and
//   additions in f32 join the sums. With precision = fast, the unit adds up all.
// - AMD's instructions give a thread runs of a column. They are transposed, too, so that a thread
//   has runs of a row: stores prefer them, and the next product takes them as its operand.
// - tf32x3: a = a1 + a2 with a1 rounded to tf32's 10 bits, likewise b: a1 b1 + (a1 b2 + a2 b1), in
//   three products of tf32.
//
// Without a matching row, the dot uses FMAs.
#include "passes/gpu/async/async.h"
#include "passes/gpu/layouts.h"

#include "passes/passes.h"
#include "passes/util.h"

#define TF32_MASK 0xffffe000u
#define TF32_HALF 0x1000u

/// The permute stands where x is computed, which may be before loops.
static Value *build_transposed(Builder *at, Value *x) {
    Builder own = x->def ? build_after(at->ir, x->def) : *at, *b = &own;
    int64_t perm[] = {1, 0}, extents[] = {x->type->extents[1], x->type->extents[0]};
    const Type *type = ty_block(b->ir, x->type->elem, 2, extents);
    Op *op = build_op(b, OP_PERMUTE, 1, &x, 1, &type, 0);
    op_set_ints(b->ir, op, A_PERM, perm, 2);
    return result(op, 0);
}

/// x times y, plus c, of operands rounded to tf32.
static Value *build_tf32_product(Builder *b, Value *x, Value *y, Value *c) {
    Value *in[] = {x, y, c};
    Op *op = build_op(b, OP_DOT, c ? 3 : 2, in, 1, &c->type, 0);
    op_set_precision(b->ir, op, PRECISION_TF32);
    return result(op, 0);
}

/// Returns x rounded to tf32, and the remainder in *rest (0 if the rounded x is not finite). The
/// rounding is to nearest. So the product of two remainders, which is omitted, is at most 2^-22 of
/// the product and of either sign.
static Value *head_of(Builder *b, Value *x, Value **rest) {
    const Type *bits = ty_with_elem(b->ir, x->type, EL_U32);
    Value *mask = build_int(b, bits, TF32_MASK), *half = build_int(b, bits, TF32_HALF);
    Value *raw = result(build_op(b, OP_BITCAST, 1, &x, 1, &bits, 0), 0);
    Value *cut = build_binary(b, OP_AND, build_binary(b, OP_ADD, raw, half), mask);
    Value *near = result(build_op(b, OP_BITCAST, 1, &cut, 1, &x->type, 0), 0);
    Value *head = build_select(b, build_unary(b, OP_ISFINITE, x), near, x);
    Value *finite = build_unary(b, OP_ISFINITE, head);
    *rest = build_select(b, finite, build_binary(b, OP_SUB, x, head), build_float(b, x->type, 0));
    return head;
}

static void replace_dot(Op *dot, Value *with) {
    value_replace(result(dot, 0), with);
    op_erase(dot);
}

/// The small products are added up first, and the previous sum is added in f32 last. Units truncate
/// their sums, so a long sum inside a unit would lose a bit each step.
static void in_three(Ir *ir, Op *dot) {
    Builder b = build_before(ir, dot);
    Value *a2, *b2, *a1 = head_of(&b, operand(dot, 0), &a2),
                    *b1 = head_of(&b, operand(dot, 1), &b2);
    const Type *t = result(dot, 0)->type;
    Value *small = build_tf32_product(&b, a1, b2, build_float(&b, t, 0));
    Value *sum = build_tf32_product(&b, a1, b1, build_tf32_product(&b, a2, b1, small));
    replace_dot(dot, dot->n_operands > 2 ? build_binary(&b, OP_ADD, operand(dot, 2), sum) : sum);
}

// The maximum warps for a product, and the maximum accumulator registers of a thread: as many as
// one wait can name, or fewer in a chain of products, which needs other registers too
// (backends/gpu/wgmma.c).
enum { MOST_WARPS = 8, MOST_SUMS = 192, MOST_CHAINED = 144 };

static bool is_f8_value(const Value *v) {
    return v->type->elem == EL_F8E4M3 || v->type->elem == EL_F8E5M2;
}

/// Whether the requested precision permits sums as inexact as the unit's.
static bool is_fast(const Op *dot) {
    return op_precision(dot) == PRECISION_FAST;
}

/// Whether TMA copies the operand's block, with rows along k, and the block has no other use.
static bool comes_by_tma(const PassEnv *env, Op *dot, int i) {
    bool swapped;
    const char *why;
    Staging how;
    Op *device = dot, *load = load_behind(operand(dot, i), &swapped);
    while (device->code != OP_DEVICE) device = device->parent->parent;
    Async s = {.env = (PassEnv *)env, .ir = env->ir, .ctx = ir_ctx(env->ir), .target = env->gpu};
    s.module = device->parent->parent;
    s.device = device;
    return load && value_has_one_use(result(load, 0)) && stage_load(&s, load, &how, &why) &&
           how.tma && how.buf->inner == (swapped ? i : !i);
}

/// Whether f32 operands are rounded to tf32. wgmma truncates f32 from shared memory; only TMA
/// rounds on the way there.
static bool rounds_on_the_way(const PassEnv *env, Op *dot) {
    return operand(dot, 0)->type->elem != EL_F32 ||
           (comes_by_tma(env, dot, 0) && comes_by_tma(env, dot, 1));
}

static const GpuUnit *unit_for(const PassEnv *env, Op *dot) {
    GpuTarget t = *env->gpu;
    int warps = env->warps ? env->warps : MOST_WARPS;
    int64_t sums = ty_count(result(dot, 0)->type) / (warps * t.lanes);
    int most = is_f8_value(operand(dot, 0)) && !is_fast(dot) ? MOST_CHAINED : MOST_SUMS;
    if (warps < GPU_GROUP_WARPS || sums > most || !rounds_on_the_way(env, dot))
        t.features &= ~GPU_WGMMA;
    const Type *a = operand(dot, 0)->type, *b = operand(dot, 1)->type;
    DotPrecision precision = op_precision(dot);
    // Each warp should have whole rows.
    if (dot_keeps_rows(dot))
        return gpu_unit_in_chain(ir_ctx(env->ir), &t, a, b, precision,
                                 a->extents[0] / GPU_GROUP_WARPS, dot_takes_product(dot));
    return gpu_unit_for(&t, a, b, precision);
}

/// Casts the operands to f16, which has all values of f8. For f8e5m2 on targets that flush f16's
/// subnormals, it casts to bf16, where they are normal.
static void widen_f8_dot(const PassEnv *env, Op *dot) {
    Builder b = build_before(env->ir, dot);
    bool small =
        operand(dot, 0)->type->elem == EL_F8E5M2 || operand(dot, 1)->type->elem == EL_F8E5M2;
    Elem to = small && gpu_has(env->gpu, GPU_FLUSH) ? EL_BF16 : EL_F16;
    for (int i = 0; i < 2; i++) op_set_operand(dot, i, build_cast(&b, operand(dot, i), to));
}

/// Builds the product of the transposed operands and permutes its result back.
static Op *build_swapped_dot(Ir *ir, Op *dot) {
    Builder b = build_before(ir, dot);
    Value *in[3] = {build_transposed(&b, operand(dot, 1)), build_transposed(&b, operand(dot, 0))};
    if (dot->n_operands > 2) in[2] = build_transposed(&b, operand(dot, 2));
    const Type *t = result(dot, 0)->type;
    int64_t extents[] = {t->extents[1], t->extents[0]};
    const Type *type = ty_block(ir, t->elem, 2, extents);
    Op *op = build_op(&b, OP_DOT, dot->n_operands, in, 1, &type, 0);
    op_copy_attr(ir, op, dot, ATTR_PRECISION);
    replace_dot(dot, build_transposed(&b, result(op, 0)));
    return op;
}

/// Whether to transpose the product: the unit has more rows than the block, or holds runs of
/// columns.
static bool is_swapped(const GpuUnit *u, const Op *dot) {
    const Type *t = result(dot, 0)->type;
    if (u->features & GPU_AMD)
        return gpu_unit_fits(u, t->extents[1], t->extents[0], operand(dot, 0)->type->extents[1]);
    return t->extents[0] < u->m && t->extents[1] >= u->m;
}

static void select_unit(Op *op, void *arg) {
    const PassEnv *env = arg;
    if (op->code != OP_DOT || op_attr(op, ATTR_UNIT)) return;
    bool f8 = is_f8_value(operand(op, 0)) && is_f8_value(operand(op, 1));
    if (f8 && !gpu_has(env->gpu, GPU_F8) && !unit_for(env, op)) widen_f8_dot(env, op);
    const GpuUnit *u = unit_for(env, op);
    if (u && is_swapped(u, op)) {
        op = build_swapped_dot(env->ir, op);
        if (u->a != u->b) u = unit_for(env, op);
    }
    op_set_str(env->ir, op, A_UNIT, u ? u->name : "fma");
    int chain = u && !is_fast(op) ? gpu_chain(env->gpu, u) : 0;
    if (chain) op_set_int(env->ir, op, A_PARTIAL_SUM_K, chain);
}

/// Splits products in three before units are chosen.
static void split_products(Op *op, void *arg) {
    const PassEnv *env = arg;
    if (op->code != OP_DOT || !gpu_in_three(op_precision(op))) return;
    const Type *a = operand(op, 0)->type, *b = operand(op, 1)->type;
    bool better = gpu_unit_for(env->gpu, a, b, PRECISION_IEEE);
    if (gpu_unit_for(env->gpu, a, b, PRECISION_TF32X3) && !better)
        in_three(env->ir, op);
    else
        op_set_precision(env->ir, op, PRECISION_ABSENT);
}

void pass_select(PassEnv *env, Op *module) {
    if (!env->gpu) return;
    for_each_op(op, module->regions[0]) {
        if (op->code != OP_DEVICE) continue;
        op_walk_post(op, split_products, env);
        op_walk_post(op, select_unit, env);
    }
}
