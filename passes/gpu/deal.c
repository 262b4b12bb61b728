// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// deal: CTAs of a persistent device take their tiles from a counter, so that CTAs with long tiles
// take fewer.
//
//   roles { for %tile = %program .. %tiles by 132 [programs] (%run) {
//             %A = ring_wait %r, %run; ... } }
//         { for %tile = %program .. %tiles by 132 [programs] (%run) {
//             ring_acquire %r, %run; copies; ring_commit %r, %run, ... } }
//   -> roles { while [programs] (%tile = %program, %run) { %tile < %tiles } {
//                %A, %next = ring_wait %r, %run; ...; yield %next } }
//            { while [programs] (%tile = %program, %run) { %tile < %tiles } {
//                %next = 132 + take_tile %counter, %tiles
//                ring_acquire %r, %run; copies; ring_commit %r, %run, ..., %next; yield %next } }
//
// When the producer begins a tile, it takes the next one. It passes the number to the consumer in
// an item that occurs once a tile. So both continue with the same tiles, and `sync` proves this.
//
// The counter holds 0 before a launch and after it, so no launch clears it (tg_env.counter in
// runtime/abi.h). `take_tile %counter, %tiles` sets it to 0 after the answer %tiles - 1. So a
// launch has to ask %tiles times:
//
//   Let T = %tiles and G = the step of the loop, 132. min(T, G) programs begin at a tile below T
//   (`persist` launches as many). The loop of any other program does not run and asks nothing. An
//   iteration asks once. Its tile is the program's number, or G + t for an answer t with G + t < T.
//   Let N be the number of iterations, which is also the number of answers. Of the answers 0 ..
//   T - 1, at most max(T - G, 0) lead to an iteration, so N <= min(T, G) + max(T - G, 0) = T, and
//   no answer occurs twice. Hence N = min(T, G) + min(N, max(T - G, 0)). For T <= G that is T. For
//   T > G, N < T - G would give N = G + N; so N = G + (T - G) = T.
//
// T is at most INT_MAX, since a launch of more tiles is refused (`persist`). A device with roles
// has no early exits: it does not wait for other ranks, and a failed assert is only recorded.
#include "passes/gpu/async/async.h"

#include "passes/passes.h"

enum { CONSUMER, PRODUCER, N_ROLES };

typedef struct Deal {
    PassEnv *env;
    Ir *ir;
    Ctx *ctx;
    Op *module, *device;
    Op *loops[N_ROLES];
    Op *wait, *commit; // of the ring that carries the next tile
} Deal;

/* ---- finding ------------------------------------------------------------------------------- */

static Op *loop_of_tiles(const Region *r) {
    for_each_op(op, r) {
        if (op->code == OP_FOR && op_flag(op, A_PROGRAM_LOOP)) return op;
    }
    return NULL;
}

/// Whether the op runs once in each tile: its item's number is a value that the loop over tiles
/// carries.
static bool is_once_a_tile(const Op *op, const Op *loop) {
    const Value *n = operand(op, 1);
    return op->parent == loop->regions[0] && !n->def && n->region == op->parent && n->index > 0;
}

static Op *commit_of(const Deal *d, const Value *ring) {
    for_each_use(u, ring) {
        Op *op = u->user;
        if (op->code == OP_RING_COMMIT) return is_once_a_tile(op, d->loops[PRODUCER]) ? op : NULL;
    }
    return NULL;
}

static bool find_ring(Deal *d) {
    for_each_op(op, d->loops[CONSUMER]->regions[0]) {
        if (op->code != OP_RING_WAIT || !is_once_a_tile(op, d->loops[CONSUMER])) continue;
        d->wait = op;
        d->commit = commit_of(d, operand(op, 0));
        if (d->commit) return true;
    }
    return false;
}

static bool find_deal_parts(Deal *d) {
    const Op *roles = device_roles(d->device);
    if (!roles || !op_flag(d->device, A_DYNAMIC_TILES) || roles->n_regions != N_ROLES) return false;
    for (int i = 0; i < N_ROLES; i++) {
        d->loops[i] = loop_of_tiles(roles->regions[i]);
        if (!d->loops[i]) return false;
    }
    return find_ring(d);
}

/* ---- the counter --------------------------------------------------------------------------- */

/// Passes a counter to the device. Returns the device's parameter.
static Value *make_counter(Deal *d, Op *dispatch) {
    Builder host = build_before(d->ir, dispatch);
    Value *one = build_index(&host, 1);
    const Type *type = ty_tensor(d->ir, EL_I32, 1, (int64_t[]){1}, (int64_t[]){1});
    Op *counter = build_op(&host, OP_SCRATCH, 1, &one, 1, &type, 0);
    op_set_flag(d->ir, counter, A_COUNTER, true);
    op_add_operand(d->ir, dispatch, result(counter, 0));
    return region_add_arg(d->ir, d->device->regions[0], type, "counter");
}

/* ---- rewriting ----------------------------------------------------------------------------- */

static void make_test(Deal *d, const Op *loop, Region *test) {
    Builder b = build_at_end(d->ir, test, loop->loc);
    Value *more = build_binary(&b, OP_LT, test->args[0], operand(loop, 1));
    build_yield(&b, 1, &more);
}

static void move_body(Deal *d, Region *from, Region *to, Value *next) {
    Op *end = terminator(from);
    int n = end->n_operands;
    Value **out = ctx_array(d->ctx, Value *, n + 1);
    out[0] = next;
    for (int i = 0; i < n; i++) out[i + 1] = operand(end, i);
    Builder b = build_at_end(d->ir, to, end->loc);
    op_erase(end);
    for_each_op_safe(op, from) op_move_to_end(op, to);
    for (int i = 0; i < from->n_args; i++) value_replace(from->args[i], to->args[i]);
    for (int i = 0; i <= n; i++)
        for (int k = 0; k < from->n_args; k++)
            if (out[i] == from->args[k]) out[i] = to->args[k];
    build_yield(&b, n + 1, out);
}

/// Replaces the loop by a `while` that continues with tile `next`, a value of the body.
static void make_while(Deal *d, Op *loop, Value *next) {
    int n = loop->n_results;
    Region *body = loop->regions[0];
    Value **inits = ctx_array(d->ctx, Value *, n + 1);
    const Type **types = ctx_array(d->ctx, const Type *, n + 1);
    for (int i = 0; i <= n; i++) {
        inits[i] = operand(loop, i ? 1 + i : 0);
        types[i] = body->args[i]->type;
    }
    Builder b = build_before(d->ir, loop);
    Op *all = build_op(&b, OP_WHILE, n + 1, inits, n + 1, types, 2);
    op_set_flag(d->ir, all, A_PROGRAM_LOOP, true);
    for (int i = 0; i <= n; i++)
        for (int r = 0; r < 2; r++)
            region_add_arg(d->ir, all->regions[r], types[i], body->args[i]->name);
    make_test(d, loop, all->regions[0]);
    move_body(d, body, all->regions[1], next);
    for (int i = 0; i < n; i++) value_replace(result(loop, i), result(all, i + 1));
    op_erase(loop);
}

/// Makes the wait return the item's scalar, too.
static void add_wait_result(Deal *d, const Type *type) {
    d->wait = op_add_results(d->ir, d->wait, 1, &type);
}

static void rewrite_dispatch(Deal *d, Op *dispatch) {
    const Type *index = ty_scalar(d->ir, EL_I64);
    Value *args[] = {make_counter(d, dispatch), operand(d->loops[PRODUCER], 1)};
    Builder b = build_before(d->ir, d->loops[PRODUCER]->regions[0]->first);
    Value *taken = result(build_op(&b, OP_TAKE_TILE, 2, args, 1, &index, 0), 0);
    Value *first = build_index(&b, op_int(d->loops[PRODUCER], A_STEP, 1));
    Value *next = build_binary(&b, OP_ADD, first, taken);
    op_set_flag(d->ir, operand(d->commit, 0)->def, A_SCALAR, true);
    op_add_operand(d->ir, d->commit, next);
    add_wait_result(d, index);
    make_while(d, d->loops[PRODUCER], next);
    make_while(d, d->loops[CONSUMER], result(d->wait, d->wait->n_results - 1));
}

void pass_deal(PassEnv *env, Op *module) {
    if (!env->gpu) return;
    for_each_op(op, module->regions[0]) {
        Deal d = {
            .env = env, .ir = env->ir, .ctx = ir_ctx(env->ir), .module = module, .device = op};
        if (op->code != OP_DEVICE || !find_deal_parts(&d)) continue;
        Op *dispatch = dispatch_of(module, op);
        if (dispatch) rewrite_dispatch(&d, dispatch);
    }
}
