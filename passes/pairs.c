// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Pairs of programs: two CTAs of a cluster that multiply neighbouring rows of tiles by the same
// columns. What both read each of them brings half of to both, so the second cache is asked for it
// once: `tile-grid` numbers the programs so, `async` finds what they share.
//
// Behind an odd number of rows the last pair has a program without rows: it takes part in the
// copies and must do nothing else. So all that a phase stores ends with its rows (the count of a
// dimension is at most what is left of them), and no program does what would be seen or might not
// end: no effects, no loops by condition, no scalars from memory.
#include "passes/gpu/gpu.h"
#include "passes/internal.h"
#include "passes/util.h"

enum { BUDGET = 1000 }; // values that are looked at, at most, before the worse is assumed

static bool is_same(const Value *a, const Value *b) {
    int64_t x, y;
    if (a == b) return true;
    if (const_int(a, &x)) return const_int(b, &y) && x == y;
    const Op *p = def_of((Value *)a, OP_DIM), *q = def_of((Value *)b, OP_DIM);
    return p && q && operand(p, 0) == operand(q, 0) && op_int(p, "axis", 0) == op_int(q, "axis", 0);
}

/// count is at most hi - index, whatever these are.
static bool ends_with(const Value *count, const Value *index, const Value *hi) {
    const Op *op = count->def;
    if (!op) return false;
    if (op->code == OP_SUB) return operand(op, 1) == index && is_same(operand(op, 0), hi);
    return op->code == OP_MIN &&
           (ends_with(operand(op, 0), index, hi) || ends_with(operand(op, 1), index, hi));
}

typedef struct Look {
    const Op *rows;     // the level
    bool even;          // there is no program without rows
    bool found, shares; // what there may not be; a load of both in a loop
} Look;

static void see_store(Look *l, const Op *op) {
    Access a = access_of(op);
    bool ends = false;
    for (int d = 0; d < a.n_subs && !ends; d++)
        ends =
            a.subs[d].kind == DIM_AXIS &&
            ends_with(sub_operand(op, &a, d, 1), l->rows->regions[0]->args[0], operand(l->rows, 1));
    l->found |= operand(op, 0)->def || op_flag(op, "system") || !(ends || l->even);
}

static void see(Op *op, void *arg) {
    Look *l = arg;
    switch (op->code) {
    case OP_STORE: see_store(l, op); return;
    case OP_LOAD:
        l->found |= ty_is_scalar(result(op, 0)->type) && !l->even;
        if (op_enclosing(op, OP_FOR) && reads_same_rows(op, l->rows)) l->shares = true;
        return;
    case OP_WHILE: l->found |= !l->even; return;
    case OP_ATOMIC:
    case OP_COMBINE:
    case OP_ASSERT:
    case OP_PRINT: l->found = true; return;
    default: l->found |= op_has(op, EFFECT);
    }
}

/// The host could compute it.
static bool is_known(const Value *v, const Op *phase, int *budget) {
    if (!value_is_inside(v, phase)) return true;
    if (!v->def || !op_has(v->def, PURE) || v->def->n_regions || --*budget < 0) return false;
    for (int i = 0; i < v->def->n_operands; i++)
        if (!is_known(operand(v->def, i), phase, budget)) return false;
    return true;
}

static bool is_even(const Op *level) {
    int64_t lo, hi, step = op_int(level, "step", 1);
    return const_int(operand(level, 0), &lo) && const_int(operand(level, 1), &hi) && hi > lo &&
           ceil_div(hi - lo, step) % GPU_PAIR == 0;
}

const Op *paired_level(const GpuTarget *target, const Op *phase) {
    const Op *rows = NULL, *p = phase;
    const Op *kernel = op_enclosing(phase, OP_KERNEL);
    if (!target || !gpu_has(target, GPU_WGMMA) || !kernel || op_attr(kernel, "sym")) return NULL;
    if (!multiplies(phase->regions[0])) return NULL;
    for (const Op *next; (next = inner_parallel(p)); p = next) rows = p;
    if (!rows || op_int(rows, "step", 1) < 2 || op_int(p, "step", 1) < 2) return NULL;
    for (p = phase; p; p = inner_parallel(p)) {
        for (int i = 0; i < 2; i++)
            if (!is_known(operand(p, i), phase, &(int){BUDGET})) return NULL;
    }
    Look l = {.rows = rows, .even = is_even(rows)};
    op_walk_pre((Op *)phase, see, &l);
    return l.found || !l.shares ? NULL : rows;
}

/// Results of ops with regions, and what loops carry, may rest on anything.
static bool rests_on(const Value *v, const Value *index, const Op *phase, int *budget) {
    if (v == index || --*budget < 0) return true;
    if (!value_is_inside(v, phase)) return false;
    const Op *op = v->def ? v->def : v->region->parent;
    if (op->code == OP_PARALLEL) return false;
    if (v->def ? op->n_regions > 0 : op->code != OP_FOR || v->index > 0) return true;
    int n = v->def ? op->n_operands : 2; // of a loop's index: its bounds
    for (int i = 0; i < n; i++)
        if (rests_on(operand(op, i), index, phase, budget)) return true;
    return false;
}

bool reads_same_rows(const Op *load, const Op *rows) {
    const Op *phase = rows;
    for (const Op *up; (up = op_enclosing(phase, OP_PARALLEL));) phase = up;
    Access a = access_of(load);
    for (int d = 0; d < a.n_subs; d++) {
        const Value *at = sub_operand(load, &a, d, 0), *index = rows->regions[0]->args[0];
        if (rests_on(at, index, phase, &(int){BUDGET})) return false;
    }
    return true;
}

typedef struct Forget {
    Ir *ir;
    const Op *phase;
    const Value *index;
} Forget;

static void forget(Op *op, void *arg) {
    const Forget *f = arg;
    const Attr *inside = op_is_access(op) ? op_attr(op, "inside") : NULL;
    int64_t left[MAX_RANK];
    if (!inside) return;
    Access a = access_of(op);
    for (int d = 0; d < a.n_subs; d++) {
        const Value *at = sub_operand(op, &a, d, 0);
        left[d] = rests_on(at, f->index, f->phase, &(int){BUDGET}) ? 0 : inside->ints[d];
    }
    op_set_attr(f->ir, op, "inside", at_ints(f->ir, left, a.n_subs));
}

void forget_rows(Ir *ir, Op *phase, const Op *rows) {
    Forget f = {ir, phase, rows->regions[0]->args[0]};
    if (!is_even(rows)) op_walk_pre(phase, forget, &f);
}
