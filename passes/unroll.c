// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// unroll: expands loops of a few iterations, if the number is constant.
//
//   for %i = 0 .. 3 { f(%i) }   ->   f(0); f(1); f(2)
//
// This pays if indices become constants (the taps of a stencil, the axes of a window). The number
// of resulting ops is bounded, and inner loops go first.
#include "passes/passes.h"
#include "passes/util.h"

enum { MAX_TRIPS = 16, MAX_OPS = 128 };

static int count_ops(const Op *op) {
    int n = 1;
    for (int r = 0; r < op->n_regions; r++)
        for_each_op(inner, op->regions[r]) n += count_ops(inner);
    return n;
}

static bool known_trips(const Op *loop, int64_t *lo, int64_t *trips) {
    int64_t hi, step = op_int(loop, A_STEP, 1);
    if (!const_int(operand(loop, 0), lo) || !const_int(operand(loop, 1), &hi)) return false;
    *trips = hi <= *lo ? 0 : ceil_div(hi - *lo, step);
    return *trips <= MAX_TRIPS;
}

static void unroll_loop(Ir *ir, Op *loop, int64_t lo, int64_t trips) {
    Ctx *ctx = ir_ctx(ir);
    Region *body = loop->regions[0];
    Builder b = build_before(ir, loop);
    Value **state = ctx_array(ctx, Value *, loop->n_results);
    for (int i = 0; i < loop->n_results; i++) state[i] = operand(loop, i + 2);
    for (int64_t t = 0; t < trips; t++) {
        PtrMap map = {0};
        map_set(ctx, &map, body->args[0], build_index(&b, lo + t * op_int(loop, A_STEP, 1)));
        for (int i = 0; i < loop->n_results; i++) map_set(ctx, &map, body->args[i + 1], state[i]);
        region_clone_body(&b, body, &map);
        for (int i = 0; i < loop->n_results; i++) {
            Value *next = operand(terminator(body), i), *copy = map_get(&map, next);
            state[i] = copy ? copy : next;
        }
    }
    for (int i = 0; i < loop->n_results; i++) value_replace(result(loop, i), state[i]);
    op_erase(loop);
}

static void unroll_if_short(Op *op, void *arg) {
    int64_t lo, trips;
    // Loops of host code hold phases, that is launches, which are never worth copying.
    if (op->code != OP_FOR || !known_trips(op, &lo, &trips) || count_ops(op) * trips > MAX_OPS ||
        !(op_enclosing(op, OP_PARALLEL) || op_enclosing(op, OP_LAUNCH)))
        return;
    unroll_loop(((PassEnv *)arg)->ir, op, lo, trips);
}

void pass_unroll(PassEnv *env, Op *module) {
    op_walk_post(module, unroll_if_short, env);
}
