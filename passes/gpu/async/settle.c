// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// settle: waits at a loop's head for carried sums that the body computes with while other products
// are pending.
//
//   for (%st) { %p = mma_start ...; cast %st; %x = await %p; ...; %d = await %q; yield %d }
//   -> for (%st) { %s = settled %st; %t = await %s; %p = mma_start ...; cast %t; ... }
//
// ptxas does not see that the previous iteration has waited for %q, so it makes the cast wait for
// %p (warning C7517). No product is pending at the loop's head, so a wait there costs no time.
#include "passes/gpu/async/async.h"

#include "passes/passes.h"

static Region *body_of(const Op *loop) {
    return loop->regions[loop->n_regions - 1];
}

/// Returns the op of region r that holds op.
static const Op *op_of_region(const Op *op, const Region *r) {
    while (op->parent != r) op = op->parent->parent;
    return op;
}

/// Whether the block is the sum of an awaited product.
static bool is_awaited_sum(const Value *v) {
    const Op *op = v->def;
    if (!op) return false;
    if (op->code == OP_AWAIT) return ty_is_block(v->type);
    if (!op_is_loop(op) && op->code != OP_IF) return false;
    int first = op->code == OP_IF ? 0 : op->n_regions - 1;
    for (int i = first; i < op->n_regions; i++)
        if (is_awaited_sum(operand(terminator(op->regions[i]), v->index))) return true;
    return false;
}

/* ---- uses of the sum ----------------------------------------------------------------------- */

/// The ops of a loop's body between which code that uses a value may stand. Code generators move
/// pure ops up to the uses of their results.
typedef struct OpSpan {
    Ctx *ctx;
    const Region *body;
    const Op *first, *last;
    PtrMap seen;
} OpSpan;

/// Whether the use only passes the sum on: to a product, the next iteration or another loop. These
/// uses compute nothing.
static bool passes_on(const Use *u) {
    const Op *op = u->user;
    return (op->code == OP_MMA_START && u->index == 2) || op->code == OP_YIELD || op_is_loop(op);
}

static void span_uses(OpSpan *s, const Value *v, bool computed) {
    for_each_use(u, v) {
        if (!computed && passes_on(u)) continue;
        const Op *at = op_of_region(u->user, s->body);
        if (!s->first || op_before(at, s->first)) s->first = at;
        if (!s->last || op_before(s->last, at)) s->last = at;
        if (!op_has(u->user, PURE) || map_get(&s->seen, u->user)) continue;
        map_set(s->ctx, &s->seen, u->user, u->user);
        for (int i = 0; i < u->user->n_results; i++) span_uses(s, result(u->user, i), true);
    }
}

/// Returns the await that completes the product. NULL: the product runs into the next iteration.
static const Op *await_of_product(const Op *start) {
    for (const Value *v = result(start, 0); v->uses;) {
        const Op *user = v->uses->user;
        if (user->code != OP_AWAIT && user->code != OP_MMA_START) return NULL;
        v = result(user, user->code == OP_AWAIT ? v->uses->index : 0);
        if (v->type->kind != TK_PENDING) return user;
    }
    return NULL;
}

typedef struct Products {
    OpSpan span;
    bool meet;  // a product is pending in the span
    int run_on; // number of products that run into the next iteration
} Products;

static void seek_product(Op *op, void *arg) {
    Products *p = arg;
    const OpSpan *s = &p->span;
    if (op->code != OP_MMA_START || op_attr(op, ATTR_PARTIAL_SUM_K)) return;
    const Op *end = await_of_product(op), *at = op_of_region(op, s->body);
    if (!end) {
        p->run_on++;
        p->meet = true;
    } else if (op != s->last) {
        p->meet |= !op_before(s->last, at) && !op_before(op_of_region(end, s->body), s->first);
    }
}

/* ---- the wait ------------------------------------------------------------------------------ */

static void settle_at_head(Async *s, const Op *loop, Value *sum, int younger) {
    Builder b = build_before(s->ir, body_of(loop)->first);
    const Type *block = sum->type, *pending = ty_pending(s->ir, block);
    Op *settled = build_op(&b, OP_SETTLED, 1, &sum, 1, &pending, 0);
    Op *await = build_op(&b, OP_AWAIT, 1, (Value *[]){result(settled, 0)}, 1, &block, 0);
    if (younger) op_set_int(s->ir, await, A_IN_FLIGHT, younger);
    value_replace(sum, result(await, 0));
    op_set_operand(settled, 0, sum);
}

static void settle_loop(Op *loop, void *async) {
    Async *s = async;
    if (!op_is_loop(loop)) return;
    const Region *body = body_of(loop);
    for (int i = 0; i < loop->n_results; i++) {
        Value *arg = loop_arg(loop, loop->n_regions - 1, i);
        Products p = {.span = {.ctx = s->ctx, .body = body}};
        if (!ty_is_block(arg->type) || !is_awaited_sum(operand(terminator(body), i))) continue;
        span_uses(&p.span, arg, false);
        if (!p.span.first) continue;
        for_each_op(op, body) op_walk_pre(op, seek_product, &p);
        if (p.meet) settle_at_head(s, loop, arg, p.run_on);
    }
}

void pass_settle(PassEnv *env, Op *module) {
    if (!env->gpu) return;
    for_each_op(op, module->regions[0]) {
        Async s = {.env = env, .ir = env->ir, .ctx = ir_ctx(env->ir), .device = op};
        if (op->code == OP_DEVICE) op_walk_post(op, settle_loop, &s);
    }
}
