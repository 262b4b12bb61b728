// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Reductions along an axis. A known monoid (add, max, ...) commutes and has an identity, so its
// steps are those of layout_reduce: registers, xor shuffles, parts of warps through shared memory.
// Any other region is joined in the order of the line (lines.c). Either way the order depends on
// shapes and layouts alone, and all threads that have a result have the same bits.
#include "backends/gpu/lines.h"
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
static void combine(const Monoid *m, int64_t n, LLVMValueRef *a, LLVMValueRef *b,
                    LLVMValueRef *out) {
    LLVMValueRef *args[2] = {a, b};
    gen_elementwise_all(m->f->g, m->code, m->elem, (int)n, args, out);
}

/// The first half with the second, until one is left: short chains, and pairs of small elements
/// stay together.
static LLVMValueRef fold(const Monoid *m, int64_t n, LLVMValueRef *x) {
    for (; n > 1; n = (n + 1) / 2) combine(m, n / 2, x, x + (n + 1) / 2, x);
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
        acc[l] = fold(m, count, x);
    }
}

/// The operand with the identity in its holes.
static LLVMValueRef *without_holes(const Monoid *m) {
    GpuFn *f = m->f;
    int64_t n = layout_registers(m->layout);
    LLVMValueRef *x = ctx_copy(f->ctx, gpu_block(f, operand(m->op, 0)), (size_t)n * sizeof *x);
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

/// The instruction that reduces integers of 32 bits over a whole warp.
static const char *redux_name(const Monoid *m) {
    static const char *const names[OP_COUNT] = {
        [OP_ADD] = "tg.redux.add.i32", [OP_AND] = "tg.redux.and.i32", [OP_OR] = "tg.redux.or.i32",
        [OP_XOR] = "tg.redux.xor.i32", [OP_MIN] = "tg.redux.min.i32", [OP_MAX] = "tg.redux.max.i32",
    };
    if (m->elem == EL_U32 && m->code == OP_MIN) return "tg.redux.min.u32";
    if (m->elem == EL_U32 && m->code == OP_MAX) return "tg.redux.max.u32";
    return m->elem == EL_I32 || m->elem == EL_U32 ? names[m->code] : NULL;
}

/// The lane steps are those of all 32 lanes, with the same register.
static bool whole_warp(const Monoid *m, const LayoutStep *steps, int n) {
    Bits reg = 0;
    for (int i = 0; i < n; i++) reg |= steps[i].reg | (steps[i].thread & ~(Bits)31);
    return n == 5 && !reg && m->layout->bits[LEVEL_LANE] == 5;
}

/// any and all are votes.
static const char *vote_name(const Monoid *m) {
    if (m->elem != EL_BOOL) return NULL;
    return m->code == OP_OR ? "tg.vote.any" : m->code == OP_AND ? "tg.vote.all" : NULL;
}

static void lane_step(const Monoid *m, const LayoutStep *x, LLVMValueRef *acc) {
    GpuFn *f = m->f;
    LLVMValueRef *sent = ctx_array(f->ctx, LLVMValueRef, 2 * m->lines), *moved = sent + m->lines;
    for (int64_t r = layout_registers(m->layout) - 1; r >= 0; r--)
        sent[m->line[r]] = acc[m->line[r ^ (int64_t)x->reg]];
    gpu_shuffle(f, "xor", gpu_i32(f, (int64_t)x->thread), m->elem, (int)m->lines, sent, moved);
    combine(m, m->lines, acc, moved, acc);
}

static void reduce_lanes(const Monoid *m, LLVMValueRef *acc) {
    const LayoutStep *steps = m->plan.steps + m->plan.n_level[LEVEL_REG];
    int n = m->plan.n_level[LEVEL_LANE];
    const char *name = redux_name(m) ? redux_name(m) : vote_name(m);
    if (name && whole_warp(m, steps, n)) {
        for (int64_t l = 0; l < m->lines; l++) acc[l] = gpu_call(m->f, name, 1, acc[l]);
        return;
    }
    for (int i = 0; i < n; i++) lane_step(m, &steps[i], acc);
}

/* ---- warps --------------------------------------------------------------------------------- */

/// The registers of plan.partial.
static LLVMValueRef *partial_block(const Monoid *m, LLVMValueRef *acc) {
    const Layout *l = m->layout, *p = m->plan.partial;
    int d = (int)op_int(m->op, "axis", 0);
    int64_t inner = 1; // repeats of the dimensions behind the axis
    for (int i = d + 1; i < l->rank; i++) inner *= l->odd[i];
    LLVMValueRef *regs = ctx_array(m->f->ctx, LLVMValueRef, layout_registers(p));
    for (int64_t q = 0; q < layout_registers(p); q++) {
        int64_t repeat = q >> p->bits[LEVEL_REG];
        repeat = repeat / inner * inner * l->odd[d] + repeat % inner;
        int64_t r = repeat << l->bits[LEVEL_REG];
        for (int i = 0; i < p->bits[LEVEL_REG]; i++) r |= (q >> i & 1) << m->plan.partial_bit[i];
        regs[q] = acc[m->line[r]];
    }
    return regs;
}

static void reduce_warps(const Monoid *m, LLVMValueRef *acc) {
    if (!m->plan.partial) return;
    const Layout *to = m->plan.gathered;
    LLVMValueRef *in = partial_block(m, acc), *out;
    gpu_exchange(m->f, m->plan.partial, to, 1, &m->elem, &in, &out);
    const int64_t *line = gpu_line_registers(m->f, m->op, m->plan.result, to);
    fold_lines(m, layout_registers(to), line, out, acc);
}

static void reduce_monoid(GpuFn *f, Op *op, OpCode code) {
    Monoid m = {.f = f, .op = op, .code = code, .elem = operand(op, 0)->type->elem};
    m.layout = gpu_layout(f, operand(op, 0));
    m.plan = layout_reduce(f->ctx, m.layout, (int)op_int(op, "axis", 0));
    m.line = gpu_line_registers(f, op, m.plan.result, m.layout);
    m.lines = layout_registers(m.plan.result);
    LLVMValueRef *acc = gpu_new_block(f, result(op, 0));
    fold_lines(&m, layout_registers(m.layout), m.line, without_holes(&m), acc);
    reduce_lanes(&m, acc);
    reduce_warps(&m, acc);
}

/* ---- any region ---------------------------------------------------------------------------- */

/// Neighbouring parts, pair by pair.
static void join_parts(GpuLines *s, int64_t line, LLVMValueRef *out) {
    for (int64_t n = s->parts; n > 1; n = (n + 1) / 2)
        for (int64_t i = 0; i < n; i += 2) {
            LLVMValueRef a[GPU_TUPLE], b[GPU_TUPLE];
            int64_t at = line * s->parts;
            for (int k = 0; k < s->n; k++) {
                a[k] = s->part[k][at + i];
                b[k] = i + 1 < n ? s->part[k][at + i + 1] : NULL;
            }
            if (i + 1 < n) lines_join(s, a, b, a);
            for (int k = 0; k < s->n; k++) s->part[k][at + i / 2] = a[k];
        }
    for (int k = 0; k < s->n; k++) out[k] = s->part[k][line * s->parts];
}

static void reduce_ordered(GpuFn *f, Op *op) {
    GpuLines *s = lines_begin(f, op, op->n_results);
    LLVMValueRef **acc = ctx_array(f->ctx, LLVMValueRef *, s->n),
                 *x = ctx_array(f->ctx, LLVMValueRef, s->n);
    lines_finish(s);
    for (int k = 0; k < s->n; k++) acc[k] = gpu_new_block(f, result(op, k));
    for (int64_t l = 0; l < s->lines; l++) {
        join_parts(s, l, x);
        for (int k = 0; k < s->n; k++) acc[k][l] = x[k];
    }
}

void gpu_lower_reduce(GpuFn *f, Op *op) {
    if (op_str(op, "order")) ice(f->ctx, op->loc, "fixed-order has not run");
    OpCode code = region_monoid(op->regions[0]);
    if (code != OP_COUNT)
        reduce_monoid(f, op, code);
    else
        reduce_ordered(f, op);
}
