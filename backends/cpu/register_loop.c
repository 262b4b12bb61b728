// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Register loops: the carried blocks of these places stay in registers during the loop.
#include "backends/cpu/emit.h"

static int64_t vectors_of(const Op *loop, int n) {
    int64_t k = 0;
    for (int i = 0; i < loop->n_results; i++) k += result(loop, i)->type->rank ? n : 1;
    return k;
}

static void body_ops(Emit *e, Region *r, int n, const Place *places) {
    for_each_op(op, r) {
        if (op->code == OP_YIELD) break;
        if (op->code == OP_FOR)
            carried_loop(e, op, n, places);
        else
            emit_simple(e, op);
    }
}

/// Starts carried value i: scalars once, blocks at each place.
static void start_carried(Emit *e, const Op *loop, Loop *l, int n, const Place *places,
                          const LLVMValueRef *inits) {
    for (int i = 0; i < loop->n_results; i++) {
        Value *arg = loop->regions[0]->args[i + 1];
        if (arg->type->rank == 0) {
            bind_scalar(e, arg, loop_carry(e, l, *inits++));
            continue;
        }
        for (int k = 0; k < n; k++) memo_set(e, arg, &places[k], loop_carry(e, l, *inits++));
    }
}

static void read_carried(Emit *e, const Op *op, int first, int count, int n, const Place *places,
                         LLVMValueRef *out) {
    for (int i = 0; i < count; i++) {
        Value *v = operand(op, first + i);
        if (v->type->rank == 0) {
            *out++ = emit_scalar(e, v);
            continue;
        }
        for (int k = 0; k < n; k++) *out++ = emit_unmasked(e, v, &places[k]);
    }
}

enum { LONG_BODY = 256 }; // too long to duplicate

static bool is_short_body(Emit *e, const Op *yield, int n) {
    int cost = 0;
    for (int i = 0; i < yield->n_operands; i++) cost += plan_cost(e, operand(yield, i)) * n;
    return cost <= LONG_BODY;
}

/// Reads the yields of the body. Iterations that need no masks run a copy without masks.
static void read_yields(Emit *e, const Op *loop, int n, const Place *places, LLVMValueRef *out) {
    const Region *body = loop->regions[0];
    int m = loop->n_results;
    struct Full *full = is_short_body(e, body->last, n) ? unmasked_body(e, body) : NULL;
    if (!full) {
        read_carried(e, body->last, 0, m, n, places, out);
        return;
    }
    LLVMValueRef masked[MAX_CARRIED];
    const struct Full *outer = e->full;
    If i = if_begin(e, unmasked_everywhere(e, full), "full");
    e->full = full;
    read_carried(e, body->last, 0, m, n, places, out);
    e->full = outer;
    if_else(e, &i);
    read_carried(e, body->last, 0, m, n, places, masked);
    if_end(e, &i);
    for (int64_t k = 0; k < vectors_of(loop, n); k++) out[k] = if_phi(e, &i, out[k], masked[k]);
}

void carried_loop(Emit *e, Op *loop, int n, const Place *places) {
    int m = loop->n_results;
    Region *body = loop->regions[0];
    LLVMValueRef x[MAX_CARRIED];
    if (vectors_of(loop, n) > MAX_CARRIED) ice(e->ctx, loop->loc, "too much is carried");
    read_carried(e, loop, 2, m, n, places, x);
    Loop *l = loop_begin(e, emit_scalar(e, operand(loop, 0)), emit_scalar(e, operand(loop, 1)),
                         op_int(loop, A_STEP, 1), "carry");
    bind_scalar(e, body->args[0], l->iv);
    start_carried(e, loop, l, n, places, x);
    body_ops(e, body, n, places);
    read_yields(e, loop, n, places, x);
    loop_end(e, l, x);
    const LLVMValueRef *final = l->carried;
    for (int i = 0; i < m; i++) {
        Value *y = result(loop, i);
        if (y->type->rank == 0) bind_scalar(e, y, *final++);
        for (int k = 0; y->type->rank && k < n; k++) memo_set(e, y, &places[k], *final++);
    }
}
