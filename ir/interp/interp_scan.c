// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The reference interpreter: reduce, scan and sort along an axis.
#include "ir/interp/interp_private.h"

#include <math.h>

/// Lines along an axis of a block: line l starts at line_start and takes steps of `inner`.
typedef struct AxisLines {
    int64_t count, length, inner;
} AxisLines;

static AxisLines lines_of(const Type *t, int axis) {
    AxisLines l = {.length = t->extents[axis], .inner = 1};
    for (int d = axis + 1; d < t->rank; d++) l.inner *= t->extents[d];
    l.count = ty_count(t) / (l.length ? l.length : 1);
    return l;
}

static int64_t line_start(const AxisLines *l, int64_t line) {
    return line / l->inner * l->inner * l->length + line % l->inner;
}

/* ---- joining ------------------------------------------------------------------------------- */

/// The function of a reduce or scan with `n` values a side. Known monoids skip the region. Sums and
/// products of floats are carried in double, and the caller rounds `wide` results.
typedef struct Join {
    Interp *it;
    Op *op;
    int n;
    Elem elem;
    EvalFn *known; // or NULL: run the region
    bool wide;
} Join;

static Join join_of(Interp *it, Op *op, int n) {
    Join j = {.it = it, .op = op, .n = n, .elem = in(op, 0)->type->elem};
    OpCode monoid = n == 1 ? region_monoid(op->regions[0]) : OP_COUNT;
    if (monoid != OP_COUNT) j.known = eval_function(monoid, elem_info[j.elem].cls);
    j.wide = (monoid == OP_ADD || monoid == OP_MUL) && elem_is(j.elem, EC_FLOAT);
    return j;
}

/// a = f(a, b).
static void join_cells(const Join *j, Cell *a, const Cell *b) {
    if (j->known) {
        Cell c = j->known(j->elem, a[0], b[0], (Cell){0});
        a[0] = j->wide ? c : cell_wrap(j->elem, c);
        return;
    }
    Region *r = j->op->regions[0];
    Reg **args = plan_of(j->op)->args[0];
    for (int i = 0; i < j->n; i++) {
        args[i]->cells[0] = a[i];
        args[j->n + i]->cells[0] = b[i];
    }
    run_region(j->it, r);
    for (int i = 0; i < j->n; i++) a[i] = yielded(r, i)->cells[0];
}

static void take_lane_cells(const Op *op, int n, int64_t lane, Cell *to) {
    for (int i = 0; i < n; i++) to[i] = in(op, i)->cells[lane];
}

/* ---- reduce -------------------------------------------------------------------------------- */

/// order = fixed: joins neighbours pair by pair until one is left. An odd one passes through.
static void reduce_tree(const Join *j, Cell *values, int64_t count) {
    for (; count > 1; count = (count + 1) / 2)
        for (int64_t i = 0; i < count; i += 2) {
            Cell *a = values + i * j->n, *to = values + i / 2 * j->n;
            if (i + 1 < count) join_cells(j, a, a + j->n);
            for (int k = 0; k < j->n; k++) to[k] = a[k];
        }
}

void do_reduce(Interp *it, Op *op) {
    int n = op->n_operands;
    Join j = join_of(it, op, n);
    AxisLines l = lines_of(in(op, 0)->type, (int)op_int(op, A_AXIS, 0));
    bool tree = op_fold_order(op) != FOLD_ORDER_ABSENT;
    j.wide &= !tree;
    Cell *values = ctx_array(it->ctx, Cell, (l.length + 1) * n);
    for (int64_t line = 0; line < l.count; line++) {
        int64_t at = line_start(&l, line);
        for (int64_t i = 0; i < l.length; i++)
            take_lane_cells(op, n, at + i * l.inner, values + i * n);
        if (tree)
            reduce_tree(&j, values, l.length);
        else
            for (int64_t i = 1; i < l.length; i++) join_cells(&j, values, values + i * n);
        for (int k = 0; k < n; k++)
            out(op, k)->cells[line] =
                round_result(it, out(op, k)->type->elem, values[k], j.wide ? SUM_NOISE : 0);
    }
}

/* ---- scan ---------------------------------------------------------------------------------- */

static void put_lane_cells(const Join *j, int64_t lane, const Cell *from) {
    for (int i = 0; i < j->n; i++) {
        Reg *r = out(j->op, i);
        r->cells[lane] = round_result(j->it, r->type->elem, from[i], j->wide ? SUM_NOISE : 0);
    }
}

void do_scan(Interp *it, Op *op) {
    int n = op->n_results;
    bool exclusive = op_flag(op, A_EXCLUSIVE), reverse = op_flag(op, A_REVERSE);
    Join j = join_of(it, op, n);
    AxisLines l = lines_of(in(op, 0)->type, (int)op_int(op, A_AXIS, 0));
    Cell *state = ctx_array(it->ctx, Cell, n), *next = ctx_array(it->ctx, Cell, n);
    for (int64_t line = 0; line < l.count; line++) {
        for (int k = 0; exclusive && k < n; k++) state[k] = in(op, n + k)->cells[0];
        for (int64_t i = 0; i < l.length; i++) {
            int64_t lane = line_start(&l, line) + (reverse ? l.length - 1 - i : i) * l.inner;
            if (exclusive) put_lane_cells(&j, lane, state);
            take_lane_cells(op, n, lane, next);
            if (i == 0 && !exclusive)
                take_lane_cells(op, n, lane, state);
            else
                join_cells(&j, state, next);
            if (!exclusive) put_lane_cells(&j, lane, state);
        }
    }
}

/* ---- sort ---------------------------------------------------------------------------------- */

/// Whether key b must precede key a. NaN is last in either direction.
static bool is_key_out_of_order(Elem e, bool descending, Cell a, Cell b) {
    if (elem_is(e, EC_FLOAT)) {
        if (isnan(a.f) || isnan(b.f)) return isnan(a.f) && !isnan(b.f);
        return descending ? a.f < b.f : b.f < a.f;
    }
    if (elem_is(e, EC_SINT)) return descending ? a.i < b.i : b.i < a.i;
    return descending ? a.u < b.u : b.u < a.u;
}

/// Stable merge of keys named by order[lo..mid) and order[mid..hi).
static void merge_runs(const Reg *keys, bool descending, const int64_t *from, int64_t *to,
                       int64_t lo, int64_t mid, int64_t hi) {
    for (int64_t i = lo, a = lo, b = mid; i < hi; i++) {
        bool take_b =
            a == mid || (b < hi && is_key_out_of_order(keys->type->elem, descending,
                                                       keys->cells[from[a]], keys->cells[from[b]]));
        to[i] = from[take_b ? b++ : a++];
    }
}

void do_sort(Interp *it, Op *op) {
    const Reg *keys = in(op, 0);
    bool descending = op_flag(op, A_DESCENDING);
    AxisLines l = lines_of(keys->type, (int)op_int(op, A_AXIS, 0));
    int64_t *order = ctx_array(it->ctx, int64_t, l.length);
    int64_t *other = ctx_array(it->ctx, int64_t, l.length);
    for (int64_t line = 0; line < l.count; line++) {
        int64_t at = line_start(&l, line);
        for (int64_t i = 0; i < l.length; i++) order[i] = at + i * l.inner;
        for (int64_t run = 1; run < l.length; run *= 2) {
            for (int64_t lo = 0; lo < l.length; lo += 2 * run) {
                int64_t mid = lo + run < l.length ? lo + run : l.length;
                int64_t hi = lo + 2 * run < l.length ? lo + 2 * run : l.length;
                merge_runs(keys, descending, order, other, lo, mid, hi);
            }
            int64_t *t = order;
            order = other;
            other = t;
        }
        for (int k = 0; k < op->n_operands; k++)
            for (int64_t i = 0; i < l.length; i++)
                out(op, k)->cells[at + i * l.inner] = in(op, k)->cells[order[i]];
    }
}
