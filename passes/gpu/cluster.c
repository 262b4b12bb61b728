// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Decides which devices may spread their blocks over the CTAs of a cluster.
//
// Only the partial results of reductions and scans may go from CTA to CTA. Every other op must keep
// its elements within a CTA. Only layouts show whether it does, so `layouts` first lays out a copy
// of the device.
#include "passes/gpu/layouts.h"

#include "passes/cost/cost.h"

typedef struct CrossingSearch {
    Ctx *ctx;
    const Op *found;
} CrossingSearch;

static const Layout *value_layout(const Value *v) {
    return v->type->layout;
}

/// Whether each thread holds the whole block: one element, in boxes of 1.
static bool is_replicated(const Value *v) {
    for (int d = 0; d < v->type->rank; d++)
        if (layout_box(value_layout(v), d) > 1) return false;
    return true;
}

static bool reshape_stays(Ctx *ctx, const Op *op) {
    const Value *x = operand(op, 0), *y = result(op, 0);
    if (ty_count(x->type) == 1) return is_replicated(x);
    return layout_reshape(ctx, value_layout(x), y->type->rank, y->type->extents) == value_layout(y);
}

static bool permute_stays(Ctx *ctx, const Op *op) {
    const int64_t *perm = op_ints(op, A_PERM)->ints;
    int way[MAX_RANK];
    for (int d = 0; d < operand(op, 0)->type->rank; d++) way[d] = (int)perm[d];
    return layout_permute(ctx, value_layout(operand(op, 0)), way) == value_layout(result(op, 0));
}

/// Whether the result's registers are registers of x, from `start` on.
static bool renames_slice(Ctx *ctx, const Value *x, const Value *y, const int64_t *start) {
    if (!x->type->rank) return true;
    int64_t *reg = ctx_array(ctx, int64_t, layout_registers(value_layout(y)));
    return layout_registers_from(value_layout(x), value_layout(y), start, reg);
}

static bool concat_stays(Ctx *ctx, const Op *op) {
    int axis = (int)op_int(op, A_AXIS, 0);
    int64_t start[MAX_RANK] = {0};
    for (int i = 0; i < op->n_operands; i++) {
        if (!renames_slice(ctx, operand(op, i), result(op, 0), start)) return false;
        start[axis] -= operand(op, i)->type->extents[axis];
    }
    return true;
}

static bool convert_stays_in_cta(const Op *op) {
    int bits = elem_info[result(op, 0)->type->elem].bits;
    const Layout *from = value_layout(operand(op, 0)), *to = value_layout(result(op, 0));
    return layout_convert(from, to, bits < 8 ? 8 : bits).scope < LEVEL_CTA;
}

static bool can_spread(Ctx *ctx, const Op *op) {
    switch (op->code) {
    case OP_DOT:
    case OP_SORT:
    case OP_HISTOGRAM:
    case OP_GATHER: return false;
    case OP_ATOMIC: return !value_has_uses(result(op, 0)); // only the owner holds the old value
    case OP_CONVERT: return convert_stays_in_cta(op);
    case OP_RESHAPE: return reshape_stays(ctx, op);
    case OP_PERMUTE: return permute_stays(ctx, op);
    case OP_BROADCAST: return renames_slice(ctx, operand(op, 0), result(op, 0), NULL);
    case OP_SLICE:
        return renames_slice(ctx, operand(op, 0), result(op, 0), op_ints(op, A_START)->ints);
    case OP_CONCAT: return concat_stays(ctx, op);
    default: return true;
    }
}

/// Whether the results have layouts. A block without a layout has no use that matters.
static bool has_layouts(const Op *op) {
    for (int i = 0; i < op->n_results; i++) {
        const Type *t = result(op, i)->type;
        if (ty_is_block(t) && t->rank && !t->layout) return false;
    }
    return true;
}

static void look_for_crossing(Op *op, void *arg) {
    CrossingSearch *s = arg;
    bool live = !cost_is_dead(op) && has_layouts(op);
    if (!s->found && live && !can_spread(s->ctx, op)) s->found = op;
}

const Op *find_crossing(Ctx *ctx, const Op *device) {
    CrossingSearch s = {.ctx = ctx};
    op_walk_pre((Op *)device, look_for_crossing, &s);
    return s.found;
}
