// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// contract: turns a loop that only accumulates products into one op, so that the target keeps the
// loop inside its register tile.
//
//   %c = for %lo, %hi, %c0 { (%k, %acc) %a = ...; %b = ...; yield dot %a, %b, %acc }
//   -> %c = contract %lo, %hi, %c0 { (%k) %a = ...; %b = ...; yield %a, %b }
//
// - A loop of several such accumulators (and other state that does not read them) is split: one
//   contract for each. Loads are repeated, since no op in the loop writes.
// - A contract counts lanes of the inner dimension: iteration t covers t * n .. t * n + n, where n
//   is the extent of the product's inner dimension. If the loop has another step, its index is
//   recomputed from t.
// - A loop whose body is one contract, with bounds that the loop does not change, is joined with
//   it: the iterations become one line of lanes, outer index = line / (inner lanes).
#include "passes/passes.h"
#include "passes/util.h"

/// Returns the dot through which carried value i only accumulates, or NULL.
static Op *accumulating_dot(const Op *loop, int i) {
    Value *arg = loop_arg(loop, 0, i), *next = operand(terminator(loop->regions[0]), i);
    Op *dot = def_of(next, OP_DOT);
    bool alone = dot && dot->n_operands == 3 && operand(dot, 2) == arg && value_has_one_use(arg) &&
                 value_has_one_use(next) && dot->parent == loop->regions[0];
    return alone ? dot : NULL;
}

/// Whether the loop only reads and computes.
static bool body_only_reads(const Op *loop) {
    for_each_op(op, loop->regions[0]) {
        if (!op_has(op, TERMINATOR) && !tree_only_reads(op)) return false;
    }
    return true;
}

/// Adds the values of the loop's body that v depends on to `slice`. Returns false if v depends on
/// carried state.
static bool add_slice(Ctx *ctx, Op *loop, Value *v, PtrMap *slice);

static bool add_operands(Ctx *ctx, Op *loop, const Op *op, PtrMap *slice) {
    for (int i = 0; i < op->n_operands; i++)
        if (!add_slice(ctx, loop, operand(op, i), slice)) return false;
    for (int r = 0; r < op->n_regions; r++) for_each_op(inner, op->regions[r]) {
            if (!add_operands(ctx, loop, inner, slice)) return false;
        }
    return true;
}

static bool add_slice(Ctx *ctx, Op *loop, Value *v, PtrMap *slice) {
    if (!value_is_inside(v, loop) || map_get(slice, v)) return true;
    map_set(ctx, slice, v, v);
    if (!v->def) return v->region != loop->regions[0] || v->index == 0;
    return add_operands(ctx, loop, v->def, slice);
}

static bool in_slice(const Op *op, const PtrMap *slice) {
    for (int i = 0; i < op->n_results; i++)
        if (map_get(slice, result(op, i))) return true;
    return false;
}

/// Builds an empty contract over this line of lanes, with the argument of its region.
static Op *new_contract(Builder *b, const Op *dot, Value *lo, Value *hi, Value *acc, int64_t step) {
    Value *in[] = {lo, hi, acc};
    Op *c = build_op(b, OP_CONTRACT, 3, in, 1, &acc->type, 1);
    c->loc = dot->loc;
    op_set_int(b->ir, c, A_STEP, step);
    op_copy_attr(b->ir, c, dot, ATTR_PRECISION);
    region_add_arg(b->ir, c->regions[0], lo->type, "k");
    return c;
}

static Value *mapped_or_self(PtrMap *map, Value *v) {
    Value *copy = map_get(map, v);
    return copy ? copy : v;
}

/// Builds the contract of carried value i before the loop, and replaces result i.
static void raise_slot(Ir *ir, Op *loop, int i, Op *dot, const PtrMap *slice) {
    Value *lo = operand(loop, 0), *hi = operand(loop, 1), *k = loop->regions[0]->args[0];
    int64_t step = op_int(loop, A_STEP, 1), lanes = operand(dot, 0)->type->extents[1];
    Builder b = build_before(ir, loop);
    bool straight = step == lanes;
    if (!straight) {
        hi = ix_mul(&b, trip_count(&b, lo, hi, step), build_index(&b, lanes));
        lo = build_index(&b, 0);
    }
    Op *c = new_contract(&b, dot, lo, hi, operand(loop, i + 2), lanes);
    Builder in = build_at_end(ir, c->regions[0], dot->loc);
    Value *at = c->regions[0]->args[0];
    at->name = straight && k->name ? k->name : at->name;
    if (!straight) {
        Value *t = ix_div(&in, at, build_index(&in, lanes));
        at = ix_add(&in, operand(loop, 0), ix_mul(&in, t, build_index(&in, step)));
    }
    PtrMap map = {0};
    map_set(ir_ctx(ir), &map, k, at);
    for_each_op(op, loop->regions[0]) {
        if (in_slice(op, slice)) op_clone(&in, op, &map);
    }
    Value *ab[] = {mapped_or_self(&map, operand(dot, 0)), mapped_or_self(&map, operand(dot, 1))};
    build_yield(&in, 2, ab);
    value_replace(result(loop, i), result(c, 0));
}

/// Moves the accumulators of products out of the loop. The loop stays for its other carried values.
static bool raise_loop(Ir *ir, Op *loop) {
    Ctx *ctx = ir_ctx(ir);
    if (!body_only_reads(loop)) return false;
    Op **dots = ctx_array(ctx, Op *, loop->n_results);
    bool *keep = ctx_array(ctx, bool, loop->n_results), raised = false;
    for (int i = 0; i < loop->n_results; i++) {
        PtrMap slice = {0};
        Op *dot = accumulating_dot(loop, i);
        keep[i] = !dot || !add_slice(ctx, loop, operand(dot, 0), &slice) ||
                  !add_slice(ctx, loop, operand(dot, 1), &slice);
        if (!keep[i]) raise_slot(ir, loop, i, dots[i] = dot, &slice);
        raised |= !keep[i];
    }
    if (!raised) return false;
    int n = loop->n_results;
    loop = drop_slots(ir, loop, keep);
    for (int i = 0; i < n; i++)
        if (dots[i]) op_erase(dots[i]);
    if (loop->n_results == 0) op_erase(loop);
    return true;
}

/* ---- joining loops ------------------------------------------------------------------------- */

static bool uses_loop(const Op *op, const Op *loop) {
    for (int i = 0; i < op->n_operands; i++)
        if (value_is_inside(operand(op, i), loop)) return true;
    return false;
}

/// Returns the contract that yields the loop's result, if the rest of the body only reads; else
/// NULL.
static Op *only_contract(const Op *loop) {
    if (loop->n_results != 1 || loop->n_regions != 1) return NULL;
    Op *c = def_of(operand(terminator(loop->regions[0]), 0), OP_CONTRACT);
    bool fits = c && c->parent == loop->regions[0] && operand(c, 2) == loop_arg(loop, 0, 0) &&
                value_has_one_use(loop_arg(loop, 0, 0)) && value_has_one_use(result(c, 0)) &&
                !value_is_inside(operand(c, 0), loop) && !value_is_inside(operand(c, 1), loop);
    for_each_op(op, loop->regions[0]) {
        if (op != c && !op_has(op, TERMINATOR) && !tree_only_reads(op)) fits = false;
    }
    return fits ? c : NULL;
}

/// for i { contract k { f(i, k) } } = contract l { f(l / n, l % n) }, n = lanes of the inner line.
static void join_loop(Ir *ir, Op *loop) {
    // Joining an inner loop may have left loop-invariant ops here, so they are hoisted first.
    for_each_op_safe(op, loop->regions[0]) {
        if (op_has(op, PURE) && !op->n_regions && !uses_loop(op, loop)) op_move_before(op, loop);
    }
    Op *inner = only_contract(loop);
    if (!inner) return;
    int64_t lanes = op_int(inner, A_STEP, 1), step = op_int(loop, A_STEP, 1);
    Builder b = build_before(ir, loop);
    Value *lo = operand(inner, 0);
    Value *line = ix_mul(&b, trip_count(&b, lo, operand(inner, 1), lanes), build_index(&b, lanes));
    Value *total = ix_mul(&b, trip_count(&b, operand(loop, 0), operand(loop, 1), step), line);
    Op *c = new_contract(&b, inner, build_index(&b, 0), total, operand(loop, 2), lanes);
    Region *to = c->regions[0];
    Builder in = build_at_end(ir, to, inner->loc);
    Value *t = ix_div(&in, to->args[0], line);
    Value *i = ix_add(&in, operand(loop, 0), ix_mul(&in, t, build_index(&in, step)));
    Value *k = ix_add(&in, lo, ix_rem(&in, to->args[0], line));
    value_replace(loop->regions[0]->args[0], i);
    value_replace(inner->regions[0]->args[0], k);
    for_each_op_safe(op, loop->regions[0]) {
        if (op != inner && !op_has(op, TERMINATOR)) op_move_to_end(op, to);
    }
    move_ops(inner->regions[0], to);
    value_replace(result(loop, 0), result(c, 0));
    op_erase(loop);
}

static void raise_or_join_loop(Op *op, void *arg) {
    PassEnv *env = arg;
    if (op->code == OP_FOR && !raise_loop(env->ir, op)) join_loop(env->ir, op);
}

void pass_contract(PassEnv *env, Op *module) {
    op_walk_post(module, raise_or_join_loop, env);
    pass_dce(env, module);
}
