// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// wait-in-reduce: moves the wait for an item of a ring between the two halves of the reduction
// before it.
//
//   %p = exp2 %x; %sum = reduce %p; %v = ring_wait %r, %n; mma_start %p, %v, (mul %acc, %f)
//   -> %p = exp2 %x; %a = reduce (half of %p); %v = ring_wait %r, %n;
//      %b = reduce (other half of %p); %sum = concat %a, %b; mma_start %p, %v, (mul %acc, %f)
//
// A wait branches, and ptxas orders instructions only between branches. Special-function units take
// eight cycles for a warp's instruction, which leaves room for multiplications by others. After
// all exponentials, the wait separates them from the rescaling of the sums, which then takes issue
// slots of its own. Before all exponentials, items must arrive half an iteration earlier. Between
// the halves of the rows that a thread holds, neither happens. (H200, attention of 128 features, 8
// warps: 5 % of full attention and 7 to 15 % of causal attention in CTAs that take tiles from a
// counter.)
//
// In CTAs of one tile the warpgroups start in step. There the pass pays only if the rescaled sums
// are larger than the block of exponentials (gains: 8 % with 256 features and 80 keys, 0 to 1 %
// with 192 features and 112 keys). Smaller sums leave few multiplications to overlap, and the pass
// costs 7 %.
//
// Each row is reduced as before, so the bits stay the same.
#include "passes/gpu/async/async.h"

#include "passes/passes.h"
#include "passes/util.h"

enum { MOST_DEPTH = 8 }; // of the ops between an exponential and its reduction

typedef struct WaitMove {
    Ir *ir;
    bool deals; // CTAs take tiles from a counter
} WaitMove;

/// How the rows of a block divide: extents [outer, 2, inner] in the place of dimension `dim`, of
/// which the 2 are registers of a thread.
typedef struct Halves {
    int dim, rank, axis; // axis: the reduced one, in these extents
    int64_t extents[MAX_RANK];
} Halves;

/* ---- the place ----------------------------------------------------------------------------- */

/// Whether the op's region computes v by special-function units.
static bool rests_on_special_functions(const Value *v, const Region *r, int depth) {
    const Op *op = v->def;
    if (!op || op->parent != r || depth == 0) return false;
    if (op_has(op, TRANSCENDENTAL)) return true;
    if (!op_has(op, ELEMENTWISE) && op->code != OP_SELECT && op->code != OP_CAST) return false;
    for (int i = 0; i < op->n_operands; i++)
        if (rests_on_special_functions(operand(op, i), r, depth - 1)) return true;
    return false;
}

/// Returns the reduction that the wait may move into, or NULL. Only pure ops lie between.
static Op *reduction_before(const Op *wait) {
    for (Op *op = wait->prev; op && op_has(op, PURE); op = op->prev) {
        for (int i = 0; i < wait->n_operands; i++)
            if (operand(wait, i)->def == op) return NULL;
        if (op->code == OP_REDUCE && op->n_results == 1 && !op_fold_order(op) &&
            rests_on_special_functions(operand(op, 0), op->parent, MOST_DEPTH))
            return op;
    }
    return NULL;
}

/// Finds the last register bit that numbers rows. Returns false if there is none.
static bool find_halves(const Layout *l, int axis, Halves *h) {
    for (int j = l->bits[LEVEL_REG] - 1; j >= 0; j--) {
        Bits col = l->col[j];
        if (l->rank + 2 > MAX_RANK || (col & (col - 1))) continue;
        for (int d = 0; d < l->rank; d++) {
            if (d == axis || l->odd[d] != 1 || !(col & layout_dim_mask(l, d))) continue;
            int64_t inner = (int64_t)(col >> layout_base(l, d));
            *h = (Halves){.dim = d, .rank = l->rank + 2, .axis = axis < d ? axis : axis + 2};
            for (int i = 0; i < l->rank; i++) h->extents[i < d ? i : i + 2] = l->extents[i];
            h->extents[d] = l->extents[d] / (2 * inner);
            h->extents[d + 1] = 2;
            h->extents[d + 2] = inner;
            return l->extents[d] % (2 * inner) == 0;
        }
    }
    return false;
}

/* ---- the halves ---------------------------------------------------------------------------- */

/// Builds half `which` of the reduction of `whole`, a block with the rows divided.
static Value *build_half(Ir *ir, Builder *b, const Op *reduce, Value *whole, const Halves *h,
                         int which) {
    Ctx *ctx = ir_ctx(ir);
    int64_t unit, start[MAX_RANK] = {0};
    const Layout *part = layout_extend(ctx, whole->type->layout, h->dim + 1, 1, &unit);
    const Type *type = ty_laid(ir, whole->type->elem, part);
    Op *slice = build_op(b, OP_SLICE, 1, &whole, 1, &type, 0);
    start[h->dim + 1] = which;
    op_set_ints(ir, slice, A_START, start, h->rank);
    PtrMap map = {0};
    map_set(ctx, &map, operand(reduce, 0), result(slice, 0));
    Op *half = op_clone(b, reduce, &map);
    const Layout *reduced = layout_slice(ctx, part, h->axis, false);
    result(half, 0)->type = ty_laid(ir, whole->type->elem, reduced);
    op_set_int(ir, half, A_AXIS, h->axis);
    return result(half, 0);
}

/// Whether the joined results lie in registers as the reduction's do.
static bool joins_in_place(Ctx *ctx, const Op *reduce, const Halves *h, const Layout *rows) {
    const Type *t = result(reduce, 0)->type;
    const Layout *joined = layout_slice(ctx, rows, h->axis, false);
    return layout_reshape(ctx, joined, t->rank, t->extents) == t->layout;
}

/// Replaces the reduction by its halves and moves the wait between them.
static void split_reduction(Ir *ir, Op *reduce, Op *wait, const Halves *h, const Layout *rows) {
    Ctx *ctx = ir_ctx(ir);
    Builder b = build_before(ir, reduce);
    Value *x = operand(reduce, 0), *parts[2];
    Value *whole = build_reshape(&b, x, ty_laid(ir, x->type->elem, rows));
    parts[0] = build_half(ir, &b, reduce, whole, h, 0);
    op_move_before(wait, reduce);
    parts[1] = build_half(ir, &b, reduce, whole, h, 1);
    const Type *type = ty_laid(ir, x->type->elem, layout_slice(ctx, rows, h->axis, false));
    Op *concat = build_op(&b, OP_CONCAT, 2, parts, 1, &type, 0);
    op_set_int(ir, concat, A_AXIS, h->axis < h->dim ? h->dim : h->dim + 1);
    value_replace(result(reduce, 0), build_reshape(&b, result(concat, 0), result(reduce, 0)->type));
    op_erase(reduce);
}

/// Whether a product that reads the buffer has more sums than the reduced block has elements.
static bool has_more_sums(const Value *buf, const Value *reduced) {
    for_each_use(u, buf) {
        const Op *op = u->user;
        if (op->code == OP_BUF_VIEW && has_more_sums(result(op, 0), reduced)) return true;
        const Type *sums = op->code == OP_MMA_START ? ty_promised(result(op, 0)->type) : NULL;
        if (sums && ty_count(sums) > ty_count(reduced->type)) return true;
    }
    return false;
}

static void move_wait(Op *wait, void *arg) {
    const WaitMove *move = arg;
    Ir *ir = move->ir;
    Halves h;
    if (wait->code != OP_RING_WAIT) return;
    Op *reduce = reduction_before(wait);
    if (!reduce || (!move->deals && !has_more_sums(result(wait, 0), operand(reduce, 0)))) return;
    const Layout *l = operand(reduce, 0)->type->layout;
    if (!l || !find_halves(l, (int)op_int(reduce, A_AXIS, 0), &h)) return;
    const Layout *rows = layout_reshape(ir_ctx(ir), l, h.rank, h.extents);
    if (rows && joins_in_place(ir_ctx(ir), reduce, &h, rows))
        split_reduction(ir, reduce, wait, &h, rows);
}

void pass_wait_in_reduce(PassEnv *env, Op *module) {
    if (!env->gpu) return;
    for_each_op(op, module->regions[0]) {
        WaitMove move = {env->ir, op_flag(op, A_DYNAMIC_TILES)};
        Op *roles = op->code == OP_DEVICE ? device_roles(op) : NULL;
        if (roles) op_walk_pre(roles, move_wait, &move);
    }
}
