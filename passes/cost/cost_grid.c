// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Finds the choices that a kernel's phases leave to the passes that number programs, deal them out
// to tasks and split their loops (tile-grid, split). A search skips values that would change
// nothing.
#include "passes/cost/cost.h"
#include "passes/grid.h"
#include "passes/passes.h"
#include "passes/util.h"

#include <math.h>

static bool is_constant(const Op *p) {
    int64_t lo, hi;
    return const_int(operand(p, 0), &lo) && const_int(operand(p, 1), &hi);
}

/// One level of the nest. Of the last two levels that may have several programs, the inner one has
/// columns, the outer one rows.
typedef struct TileCounts {
    double programs, rows, cols;
} TileCounts;

static void add_grid_level(const CostDims *dims, const Op *p, TileCounts *t) {
    double trips = cost_is_known(dims, p) ? fmax(1, cost_trips(dims, p)) : INFINITY;
    t->programs *= trips;
    if (is_constant(p) && trips == 1) return;
    t->rows = t->cols;
    t->cols = trips;
}

static void add_grid_phase(const CostDims *dims, const Op *phase, GridNeeds *out) {
    TileCounts t = {.programs = 1, .rows = 1, .cols = 1};
    bool constant = true, known = true;
    const Op *p = phase;
    for (const Op *next = p; next; next = inner_parallel(p)) {
        p = next;
        constant &= is_constant(p);
        known &= cost_is_known(dims, p);
        add_grid_level(dims, p, &t);
    }
    if (t.programs > out->programs) out->programs = t.programs;
    if (t.rows * t.cols > out->rows * out->cols) {
        out->rows = t.rows;
        out->cols = t.cols;
    }
    for_each_op(op, p->regions[0]) {
        if (op->code != OP_FOR || op->n_results == 0) continue;
        out->loops = true;
        out->turns = fmax(out->turns, cost_trips(dims, op));
        bool splits = op->n_regions > 1 || constant;
        out->splits |= splits;
        if (splits) out->split_programs = fmin(out->split_programs, known ? t.programs : 0);
    }
}

static void add_grid_region(const CostDims *dims, const Region *r, GridNeeds *out) {
    for_each_op(op, r) {
        if (op->code == OP_PARALLEL) {
            add_grid_phase(dims, op, out);
            continue;
        }
        double turns = out->turns;
        for (int i = 0; i < op->n_regions; i++) add_grid_region(dims, op->regions[i], out);
        if (op->code == OP_FOR || op->code == OP_WHILE) out->turns = turns;
    }
}

GridNeeds cost_grid(const Op *kernel, int64_t (*dim_of)(void *user, int parameter, int axis),
                    void *user) {
    CostDims dims = {.dim_of = dim_of, .user = user};
    GridNeeds needs = {.programs = 1, .rows = 1, .cols = 1, .split_programs = INFINITY};
    add_grid_region(&dims, kernel->regions[0], &needs);
    if (isinf(needs.split_programs)) needs.split_programs = 0;
    return needs;
}
