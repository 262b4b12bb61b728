// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Scans. While axis_join.c joins blocks of doubling size, each element keeps the prefix in its
// block. In the end, the join of all preceding parts is put before each prefix.
#include "backends/gpu/axis_join.h"
#include "backends/gpu/ops.h"

#include <string.h>

/// The part that holds a register's element.
typedef struct Own {
    LLVMValueRef number; // i32, or NULL: it is `fixed`
    int64_t fixed;
    LLVMValueRef has;               // i1: a part precedes it
    LLVMValueRef before[GPU_TUPLE]; // the join of the preceding parts
} Own;

typedef struct GpuScan {
    AxisJoin *s;
    bool exclusive;
    LLVMValueRef *running[GPU_TUPLE]; // [line * parts + part]: the join of the parts before it
    Own **own;                        // of each register
} GpuScan;

/// Returns the i-th part in the order of the scan.
static int64_t nth_part(const AxisJoin *s, int64_t i) {
    return s->reverse ? s->parts - 1 - i : i;
}

static void run_scan_parts(GpuScan *c) {
    AxisJoin *s = c->s;
    for (int k = 0; k < s->n; k++)
        c->running[k] = ctx_array(s->f->ctx, LLVMValueRef, s->lines * s->parts);
    for (int64_t l = 0; l < s->lines; l++) {
        LLVMValueRef sum[GPU_TUPLE], part[GPU_TUPLE];
        for (int64_t i = 0; i + 1 < s->parts; i++) {
            int64_t from = l * s->parts + nth_part(s, i), to = l * s->parts + nth_part(s, i + 1);
            for (int k = 0; k < s->n; k++) part[k] = s->part[k][from];
            if (i)
                axis_join_parts(s, sum, part, sum);
            else
                memcpy(sum, part, sizeof sum);
            for (int k = 0; k < s->n; k++) c->running[k][to] = sum[k];
        }
    }
}

/// Selects the running join before the thread's own part.
static void pick_before(GpuScan *c, int64_t line, Own *o) {
    AxisJoin *s = c->s;
    const Gen *g = s->f->g;
    for (int64_t i = 1; i < s->parts; i++) {
        int64_t part = nth_part(s, i);
        LLVMValueRef mine = NULL;
        if (!o->number && part != o->fixed) continue;
        if (o->number && i > 1)
            mine = LLVMBuildICmp(g->b, LLVMIntEQ, o->number, gpu_i32(s->f, part), "");
        for (int k = 0; k < s->n; k++) {
            LLVMValueRef x = c->running[k][line * s->parts + part];
            o->before[k] = mine ? LLVMBuildSelect(g->b, mine, x, o->before[k], "") : x;
        }
    }
}

static Own *own_part(GpuScan *c, int64_t r) {
    AxisJoin *s = c->s;
    const Gen *g = s->f->g;
    Own *o = ctx_new(s->f->ctx, Own);
    LLVMValueRef thread;
    gpu_coord_parts(s->f, s->layout, r, s->axis, &thread, &o->fixed);
    o->fixed >>= s->near;
    int64_t first = nth_part(s, 0);
    if (thread && s->near < s->plan.n) {
        LLVMValueRef at = gpu_coord(s->f, s->layout, r, s->axis);
        o->number = LLVMBuildLShr(g->b, at, gpu_i32(s->f, s->near), "");
        o->has = LLVMBuildICmp(g->b, LLVMIntNE, o->number, gpu_i32(s->f, first), "");
    } else {
        o->has = LLVMConstInt(g->i1, o->fixed != first && o->fixed < s->parts, false);
    }
    pick_before(c, s->line[r], o);
    return o;
}

/// Registers of one line whose coordinates agree above the joined bits are in one part.
static void find_scan_parts(GpuScan *c) {
    AxisJoin *s = c->s;
    c->own = ctx_array(s->f->ctx, Own *, s->registers);
    for (int64_t r = 0; r < s->registers; r++) {
        int64_t x[MAX_RANK], y[MAX_RANK];
        gpu_coord_numbers(s->layout, r, x);
        for (int64_t q = 0; q < r && !c->own[r]; q++) {
            gpu_coord_numbers(s->layout, q, y);
            if (s->line[q] == s->line[r] && y[s->axis] >> s->near == x[s->axis] >> s->near)
                c->own[r] = c->own[q];
        }
        if (!c->own[r]) c->own[r] = own_part(c, r);
    }
}

/// Puts the initial scalars, operands s->n onwards, before all elements.
static void add_initial(AxisJoin *s) {
    LLVMValueRef init[GPU_TUPLE];
    for (int k = 0; k < s->n; k++) init[k] = gpu_scalar(s->f, operand(s->op, s->n + k));
    for (int64_t r = 0; r < s->registers; r++) axis_join_extend_prefix(s, r, gpu_true(s->f), init);
}

/// Sets each prefix to that of a block of one element: the element, or nothing if exclusive.
static void begin_prefixes(GpuScan *c) {
    AxisJoin *s = c->s;
    for (int k = 0; k < s->n; k++)
        s->inner.at[k] =
            ctx_copy(s->f->ctx, s->total[k], (size_t)s->registers * sizeof(LLVMValueRef));
    if (!c->exclusive) return;
    s->inner.has = ctx_array(s->f->ctx, LLVMValueRef, s->registers);
    for (int64_t r = 0; r < s->registers; r++)
        s->inner.has[r] = LLVMConstInt(s->f->g->i1, 0, false);
}

void gpu_lower_scan(GpuFn *f, Op *op) {
    GpuScan c = {.s = axis_join_begin(f, op, op->n_results), .exclusive = op_flag(op, A_EXCLUSIVE)};
    begin_prefixes(&c);
    axis_join_finish(c.s);
    if (c.s->parts > 1) {
        run_scan_parts(&c);
        find_scan_parts(&c);
        for (int64_t r = 0; r < c.s->registers; r++)
            axis_join_extend_prefix(c.s, r, c.own[r]->has, c.own[r]->before);
    }
    if (c.exclusive) add_initial(c.s);
    LLVMValueRef **prefix = axis_join_prefixes(c.s);
    for (int k = 0; k < c.s->n; k++) gpu_set_block(f, result(op, k), prefix[k]);
}
