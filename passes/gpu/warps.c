// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// How many warps a CTA has: so many that the blocks it works on fit into their registers, and each
// thread has enough elements for wide accesses.
#include "passes/gpu/layouts.h"

enum {
    SUMS_THREAD = 144, // results of products that a thread may hold
    SUMS_LEAST = 16,   // and that are worth a warp more
    ELEMENTS_THREAD = 16,
    ROW_WARP = 1024, // elements of a row that one warp holds
    PRODUCT_WARPS = 4,
};

typedef struct Sizes {
    double sums, widest; // elements: of all results of products, of the largest block
    bool groups;         // there are products of warpgroups
    double rows;         // that are reduced and fit into a warp each; 0: there are none
} Sizes;

/// A row that one warp holds is reduced without the others.
static void measure_rows(Sizes *z, const Op *op) {
    const Type *t = operand(op, 0)->type;
    double row = (double)t->extents[op_int(op, "axis", 0)], rows = (double)ty_count(t) / row;
    if (row <= ROW_WARP && rows > z->rows) z->rows = rows;
}

static void measure(Op *op, void *arg) {
    Sizes *z = arg;
    const Type *t = op->n_results ? result(op, 0)->type : NULL;
    switch (op->code) {
    case OP_DOT:
        z->sums += (double)ty_count(t);
        z->groups |= gpu_unit_of(op) && gpu_unit_of(op)->features & GPU_WGMMA;
        return;
    case OP_STORE: t = operand(op, 1)->type; break;
    case OP_REDUCE: measure_rows(z, op); // fallthrough
    case OP_SCAN:
    case OP_SORT:
    case OP_HISTOGRAM:
    case OP_GATHER: t = operand(op, 0)->type; break;
    case OP_LOAD:
    case OP_ATOMIC: break;
    default: return;
    }
    if ((double)ty_count(t) > z->widest) z->widest = (double)ty_count(t);
}

static int power_for(double warps, int most) {
    int n = 1;
    while (n < most && n < warps) n *= 2;
    return n;
}

int choose_warps(const PassEnv *env, const Op *device) {
    Sizes z = {0};
    if (env->warps > 0) return power_for(env->warps, GPU_MAX_WARPS);
    op_walk_pre((Op *)device, measure, &z);
    double lanes = env->gpu->lanes;
    int most = z.rows >= 1 ? power_for(z.rows, GPU_MAX_WARPS) : GPU_MAX_WARPS;
    if (z.sums == 0) return power_for(z.widest / (lanes * ELEMENTS_THREAD), most);
    int least = z.groups ? PRODUCT_WARPS : power_for(z.sums / (lanes * SUMS_LEAST), PRODUCT_WARPS);
    int fit = power_for(z.sums / (lanes * SUMS_THREAD), 2 * PRODUCT_WARPS);
    return fit > least ? fit : least;
}
