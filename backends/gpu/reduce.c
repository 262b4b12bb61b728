// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Reductions along an axis. A known monoid (add, max, ...) commutes and has an identity, so it
// follows the steps of layout_reduce: registers, xor shuffles, then parts of warps and of CTAs
// through shared memory. Any other region is joined in the order of the line (axis_join.c). In both
// cases the order depends only on shapes and layouts, and all threads with a result have the same
// bits.
#include "backends/gpu/axis_join.h"
#include "backends/gpu/ops.h"

#include <string.h>

typedef struct Monoid {
    GpuFn *f;
    const Op *op;
    OpCode code;
    Elem elem;
    const Layout *layout;
    LayoutReduction plan;
    int64_t *line; // of each register of the layout: a register of the result
    int64_t lines;
} Monoid;

/// out[i] = a[i] combined with b[i].
static void combine_monoid(const Monoid *m, int64_t n, LLVMValueRef *a, LLVMValueRef *b,
                           LLVMValueRef *out) {
    LLVMValueRef *args[2] = {a, b};
    gen_elementwise_all(m->f->g, m->code, m->elem, (int)n, args, out);
}

/// Folds the first half with the second until one value is left. Chains stay short, and pairs of
/// small elements stay together.
static LLVMValueRef fold_values(const Monoid *m, int64_t n, LLVMValueRef *x) {
    for (; n > 1; n = (n + 1) / 2) combine_monoid(m, n / 2, x, x + (n + 1) / 2, x);
    return x[0];
}

/// acc[line] = the fold of all registers of the line.
static void fold_lines(const Monoid *m, int64_t n, const int64_t *line, LLVMValueRef *const regs,
                       LLVMValueRef *acc) {
    LLVMValueRef *x = ctx_array(m->f->ctx, LLVMValueRef, n);
    for (int64_t l = 0; l < m->lines; l++) {
        int64_t count = 0;
        for (int64_t r = 0; r < n; r++)
            if (line[r] == l) x[count++] = regs[r];
        acc[l] = fold_values(m, count, x);
    }
}

/// Returns the registers with the identity in their holes.
static LLVMValueRef *without_holes(const Monoid *m, LLVMValueRef *regs) {
    GpuFn *f = m->f;
    int64_t n = layout_registers(m->layout);
    LLVMValueRef *x = ctx_copy(f->ctx, regs, (size_t)n * sizeof *x);
    LLVMValueRef none = gen_identity(f->g, m->code, m->elem);
    for (int64_t r = 0; r < n; r++) {
        LLVMValueRef inside = gpu_not_hole(f, m->layout, r);
        if (gpu_always_hole(m->layout, r))
            x[r] = none;
        else if (inside)
            x[r] = LLVMBuildSelect(f->g->b, inside, x[r], none, "");
    }
    return x;
}

/* ---- lanes --------------------------------------------------------------------------------- */

/// Returns the instruction that reduces 32-bit integers over a whole warp.
static const char *redux_name(const Monoid *m) {
    if (!gpu_has(m->f->target, GPU_REDUX)) return NULL;
    static const char *const names[OP_COUNT] = {
        [OP_ADD] = "tg.redux.add.i32", [OP_AND] = "tg.redux.and.i32", [OP_OR] = "tg.redux.or.i32",
        [OP_XOR] = "tg.redux.xor.i32", [OP_MIN] = "tg.redux.min.i32", [OP_MAX] = "tg.redux.max.i32",
    };
    if (m->elem == EL_U32 && m->code == OP_MIN) return "tg.redux.min.u32";
    if (m->elem == EL_U32 && m->code == OP_MAX) return "tg.redux.max.u32";
    return m->elem == EL_I32 || m->elem == EL_U32 ? names[m->code] : NULL;
}

/// Whether the lane steps cover all lanes, with the same register.
static bool whole_warp(const Monoid *m, const LayoutStep *steps, int n) {
    int bits = m->layout->bits[LEVEL_LANE];
    Bits reg = 0;
    for (int i = 0; i < n; i++) reg |= steps[i].reg | (steps[i].thread & ~low_bits(bits));
    return n == bits && !reg;
}

/// `any` and `all` are votes.
static const char *vote_name(const Monoid *m) {
    if (m->elem != EL_BOOL) return NULL;
    return m->code == OP_OR ? "tg.vote.any" : m->code == OP_AND ? "tg.vote.all" : NULL;
}

static void reduce_lane_step(const Monoid *m, const LayoutStep *x, LLVMValueRef *acc) {
    GpuFn *f = m->f;
    LLVMValueRef *sent = ctx_array(f->ctx, LLVMValueRef, 2 * m->lines), *moved = sent + m->lines;
    for (int64_t r = layout_registers(m->layout) - 1; r >= 0; r--)
        sent[m->line[r]] = acc[m->line[r ^ (int64_t)x->reg]];
    gpu_shuffle(f, "xor", gpu_i32(f, (int64_t)x->thread), m->elem, (int)m->lines, sent, moved);
    combine_monoid(m, m->lines, acc, moved, acc);
}

static void reduce_lanes(const Monoid *m, LLVMValueRef *acc) {
    const LayoutStep *steps = m->plan.steps + m->plan.n_level[LEVEL_REG];
    int n = m->plan.n_level[LEVEL_LANE];
    const char *name = redux_name(m) ? redux_name(m) : vote_name(m);
    if (name && whole_warp(m, steps, n)) {
        for (int64_t l = 0; l < m->lines; l++) acc[l] = gpu_call(m->f, name, 1, acc[l]);
        return;
    }
    for (int i = 0; i < n; i++) reduce_lane_step(m, &steps[i], acc);
}

/* ---- warps --------------------------------------------------------------------------------- */

/// Returns the registers of a block in the layout `parts`. acc: the part of each line that the
/// thread holds.
static LLVMValueRef *reduced_parts_block(const Monoid *m, const Layout *parts, LLVMValueRef *acc) {
    int64_t n = layout_registers(parts);
    const int64_t *line = gpu_line_registers(m->f, m->op, m->plan.result, parts);
    LLVMValueRef *regs = ctx_array(m->f->ctx, LLVMValueRef, n);
    for (int64_t r = 0; r < n; r++) regs[r] = acc[line[r]];
    return regs;
}

static void reduce_in(GpuFn *f, const Op *op, const Layout *l, LLVMValueRef *regs, bool spread,
                      LLVMValueRef *acc);

/// Moves the parts to a layout in which each line is in one warp, reduces them there, and moves the
/// results back, like reduce_spread in axis_join.c.
static void share_out(const Monoid *m, LLVMValueRef *acc) {
    GpuFn *f = m->f;
    int d = (int)op_int(m->op, A_AXIS, 0);
    const Layout *from = m->plan.partial, *to = gpu_spread_layout(f, from, d);
    const Layout *rest = layout_slice(f->ctx, to, d, false);
    LLVMValueRef *in = reduced_parts_block(m, from, acc), *moved, *out;
    LLVMValueRef *reduced = ctx_array(f->ctx, LLVMValueRef, layout_registers(rest));
    gpu_exchange(f, from, to, 1, &m->elem, &in, &moved);
    reduce_in(f, m->op, to, moved, true, reduced);
    gpu_exchange(f, rest, layout_slice(f->ctx, m->layout, d, false), 1, &m->elem, &reduced, &out);
    memcpy(acc, out, (size_t)m->lines * sizeof *acc);
}

/// Gives different parts to the lanes that would otherwise hold copies of all parts. A thread then
/// needs registers only for the parts that one access fetches. More registers remain for the block
/// that is reduced, which is often used again.
static const Layout *parts_in_lanes(Ctx *ctx, const Layout *l) {
    enum { ACCESS_BITS = 2 };
    Layout to = *l;
    int lane = layout_first(l, LEVEL_LANE), end = layout_first(l, LEVEL_WARP);
    while (lane < end && l->col[lane]) lane++;
    for (int reg = ACCESS_BITS; reg < l->bits[LEVEL_REG] && lane < end; reg++) {
        to.col[lane++] = l->col[reg];
        to.col[reg] = 0;
        while (lane < end && l->col[lane]) lane++;
    }
    return layout_unique(ctx, &to);
}

/// Moves parts of lines from one layout to another in which each thread (for a single line: each
/// warp) has them all, and folds them.
static void join_reduced_parts(const Monoid *m, const Layout *from, const Layout *to,
                               LLVMValueRef *acc) {
    LLVMValueRef *in = reduced_parts_block(m, from, acc), *out;
    if (m->lines == 1) to = parts_in_lanes(m->f->ctx, to);
    gpu_exchange(m->f, from, to, 1, &m->elem, &in, &out);
    const int64_t *line = gpu_line_registers(m->f, m->op, m->plan.result, to);
    fold_lines(m, layout_registers(to), line, out, acc);
    if (m->lines > 1) return;
    LayoutReduction rest = layout_reduce(m->f->ctx, to, (int)op_int(m->op, A_AXIS, 0));
    for (int i = 0; i < rest.n_level[LEVEL_LANE]; i++)
        reduce_lane_step(m, &rest.steps[rest.n_level[LEVEL_REG] + i], acc);
}

static void reduce_warps(const Monoid *m, bool spread, LLVMValueRef *acc) {
    const LayoutReduction *plan = &m->plan;
    const Layout *to = plan->gathered;
    if (!to) return;
    if (plan->by_cta) {
        if (plan->in_cta) join_reduced_parts(m, plan->partial, plan->in_cta, acc);
        join_reduced_parts(m, plan->by_cta, plan->of_ctas, acc);
        return;
    }
    int64_t parts = layout_registers(to) / m->lines;
    if (!spread && m->layout->rank > 1 && gpu_should_spread(m->op, 1, m->layout, m->lines, parts)) {
        share_out(m, acc);
        return;
    }
    join_reduced_parts(m, plan->partial, to, acc);
}

static void reduce_in(GpuFn *f, const Op *op, const Layout *l, LLVMValueRef *regs, bool spread,
                      LLVMValueRef *acc) {
    Monoid m = {.f = f, .op = op, .layout = l, .code = region_monoid(op->regions[0])};
    m.elem = operand(op, 0)->type->elem;
    m.plan = layout_reduce(f->ctx, l, (int)op_int(op, A_AXIS, 0));
    m.line = gpu_line_registers(f, op, m.plan.result, l);
    m.lines = layout_registers(m.plan.result);
    fold_lines(&m, layout_registers(l), m.line, without_holes(&m, regs), acc);
    reduce_lanes(&m, acc);
    reduce_warps(&m, spread, acc);
}

static void reduce_ordered(GpuFn *f, Op *op) {
    LLVMValueRef **out = ctx_array(f->ctx, LLVMValueRef *, op->n_results);
    axis_join_reduce(axis_join_begin(f, op, op->n_results), out);
    for (int k = 0; k < op->n_results; k++) gpu_set_block(f, result(op, k), out[k]);
}

void gpu_lower_reduce(GpuFn *f, Op *op) {
    if (op_fold_order(op)) ice(f->ctx, op->loc, "fixed-order has not run");
    const Value *x = operand(op, 0);
    if (region_monoid(op->regions[0]) == OP_COUNT)
        reduce_ordered(f, op);
    else
        reduce_in(f, op, gpu_layout(f, x), gpu_block(f, x), false, gpu_new_block(f, result(op, 0)));
}
