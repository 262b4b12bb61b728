// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// multicast: pairs CTAs in clusters of two that multiply neighbouring rows of tiles by the same
// columns (`cluster=2`). Each CTA copies half of a common block to both, so L2 is
// read once.
//
//   parallel m = 0 .. M by 128 { parallel n = 0 .. N by 128 { body } }
//   -> parallel m = 0 .. roundup(M, 256) by 128 { parallel n = 0 .. N by 128 { body } } [pairs]
//
// This pass makes the number of rows of tiles even. `tile-grid` numbers the programs so that pairs
// are neighbours, and `async` finds the common blocks. The added rows must have no effect. So every
// store of the phase ends with its rows (the count of a dimension is at most the rows left), and no
// program has visible effects or may loop for ever: no effects, no loops by condition, no scalars
// from memory. The proofs of later passes hold for the added programs, too.
#include "passes/gpu/gpu.h"
#include "passes/grid.h"
#include "passes/passes.h"
#include "passes/util.h"

enum { BUDGET = 1000 }; // maximum number of values to visit before the answer is the safe one

static bool is_same_number(const Value *a, const Value *b) {
    int64_t x, y;
    if (a == b) return true;
    if (const_int(a, &x)) return const_int(b, &y) && x == y;
    const Op *p = def_of((Value *)a, OP_DIM), *q = def_of((Value *)b, OP_DIM);
    return p && q && operand(p, 0) == operand(q, 0) && op_int(p, A_AXIS, 0) == op_int(q, A_AXIS, 0);
}

/// Whether count <= hi - index holds for all values of both.
static bool ends_with_bound(const Value *count, const Value *index, const Value *hi) {
    const Op *op = count->def;
    if (!op) return false;
    if (op->code == OP_SUB) return operand(op, 1) == index && is_same_number(operand(op, 0), hi);
    return op->code == OP_MIN && (ends_with_bound(operand(op, 0), index, hi) ||
                                  ends_with_bound(operand(op, 1), index, hi));
}

typedef struct PairLook {
    const Op *rows;     // the level of rows of tiles
    bool even;          // the number of rows is even, so no row is added
    bool found, shares; // found: an op that forbids pairs; shares: a loop loads a common block
} PairLook;

static void see_store(PairLook *l, const Op *op) {
    Access a = access_of(op);
    bool ends = false;
    for (int d = 0; d < a.n_subs && !ends; d++)
        ends = a.subs[d].kind == DIM_AXIS &&
               ends_with_bound(sub_operand(op, &a, d, 1), l->rows->regions[0]->args[0],
                               operand(l->rows, 1));
    l->found |= operand(op, 0)->def || op_flag(op, A_SYSTEM) || !(ends || l->even);
}

static void see_paired_op(Op *op, void *arg) {
    PairLook *l = arg;
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

/// Whether the host could compute v.
static bool is_known_on_host(const Value *v, const Op *phase, int *budget) {
    if (!value_is_inside(v, phase)) return true;
    if (!v->def || !op_has(v->def, PURE) || v->def->n_regions || --*budget < 0) return false;
    for (int i = 0; i < v->def->n_operands; i++)
        if (!is_known_on_host(operand(v->def, i), phase, budget)) return false;
    return true;
}

static bool is_even(const Op *level) {
    int64_t lo, hi, step = op_int(level, A_STEP, 1);
    return const_int(operand(level, 0), &lo) && const_int(operand(level, 1), &hi) && hi > lo &&
           ceil_div(hi - lo, step) % GPU_PAIR == 0;
}

const Op *paired_level(const GpuTarget *target, const Op *phase) {
    const Op *rows = NULL, *p = phase;
    const Op *kernel = op_enclosing(phase, OP_KERNEL);
    if (!target || !gpu_has(target, GPU_WGMMA) || !kernel || op_ints(kernel, A_SYMMETRIC_PARAMS))
        return NULL;
    if (!multiplies(phase->regions[0])) return NULL;
    for (const Op *next; (next = inner_parallel(p)); p = next) rows = p;
    if (!rows || op_int(rows, A_STEP, 1) < 2 || op_int(p, A_STEP, 1) < 2) return NULL;
    for (p = phase; p; p = inner_parallel(p)) {
        for (int i = 0; i < 2; i++)
            if (!is_known_on_host(operand(p, i), phase, &(int){BUDGET})) return NULL;
    }
    PairLook l = {.rows = rows, .even = is_even(rows)};
    op_walk_pre((Op *)phase, see_paired_op, &l);
    return l.found || !l.shares ? NULL : rows;
}

/// Whether v may depend on the index. Results of ops with regions, and carried values, may depend
/// on anything.
static bool may_rest_on_index(const Value *v, const Value *index, const Op *phase, int *budget) {
    if (v == index || --*budget < 0) return true;
    if (!value_is_inside(v, phase)) return false;
    const Op *op = v->def ? v->def : v->region->parent;
    if (op->code == OP_PARALLEL) return false;
    if (v->def ? op->n_regions > 0 : op->code != OP_FOR || v->index > 0) return true;
    int n = v->def ? op->n_operands : 2; // for a loop's index: its bounds
    for (int i = 0; i < n; i++)
        if (may_rest_on_index(operand(op, i), index, phase, budget)) return true;
    return false;
}

bool reads_same_rows(const Op *load, const Op *rows) {
    const Value *index = rows->regions[0]->args[0];
    Access a = access_of(load);
    for (int d = 0; d < a.n_subs; d++)
        if (may_rest_on_index(sub_operand(load, &a, d, 0), index, rows, &(int){BUDGET}))
            return false;
    for (const Op *up = load->parent->parent; up->code != OP_PARALLEL; up = up->parent->parent) {
        int n = up->code == OP_FOR ? 2 : up->code == OP_IF ? 1 : 0; // its bounds, its condition
        for (int i = 0; i < n; i++)
            if (may_rest_on_index(operand(up, i), index, rows, &(int){BUDGET})) return false;
        if (!n) return false;
    }
    return true;
}

/// Rounds the number of rows of tiles up to an even one.
static void widen_to_pairs(Ir *ir, Op *rows) {
    int64_t pair = GPU_PAIR * op_int(rows, A_STEP, 1);
    Builder b = build_before(ir, rows);
    Value *lo = operand(rows, 0), *step = build_index(&b, pair);
    Value *pairs = ix_ceildiv(&b, ix_sub(&b, operand(rows, 1), lo), step);
    if (!is_even(rows)) op_set_operand(rows, 1, ix_add(&b, lo, ix_mul(&b, pairs, step)));
    op_set_flag(ir, rows, A_MULTICAST, true);
}

static void pair_phase(Op *op, void *arg) {
    const PassEnv *env = arg;
    if (op->code != OP_PARALLEL || op_enclosing(op, OP_PARALLEL)) return;
    Op *rows = (Op *)paired_level(env->gpu, op);
    if (rows) widen_to_pairs(env->ir, rows);
}

void pass_multicast(PassEnv *env, Op *module) {
    if (env->gpu && env->cluster == GPU_PAIR && !env->check) op_walk_pre(module, pair_phase, env);
}
