// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// next-tile: divides the next tile's number while the last product of this tile runs.
//
//   while [programs] (%tile) { more } { %A, %next = ring_wait %r, %run; %b = div %tile, %n; ...
//     if %any { ...; %p = mma_start ...; %acc = await %p; ... } ...; yield %next }
//   -> while [programs] (%tile, %b) { more } { %A, %next = ring_wait %r, %run; ...
//        %b' = if %any { ...; %p = mma_start ...; %q = div %next, %n; %acc = await %p; yield %q }
//                      { %q = div %next, %n; yield %q }
//        ...; yield %next, %b' }
//
// The coordinates of a tile take a chain of divisions, 1400 cycles on an H200. At the start of a
// tile no product runs meanwhile. The pass runs after `sync`, whose proof compares the bounds of
// the roles by the ops that compute them; only pure ops on scalars move.
#include "passes/gpu/async/async.h"

#include "passes/passes.h"
#include "passes/util.h"

typedef VEC(Op *) ScalarOps;
typedef VEC(Value *) ScalarValues;

typedef struct NextTile {
    Ir *ir;
    Ctx *ctx;
    Op *loop;          // the `while` of tiles
    Region *body;      // its second region
    Value *next;       // the next tile's number
    Op *branch;        // the `if` that holds `await`, or NULL
    Op *await;         // of the last product
    PtrMap follows;    // scalar ops that follow from the tile's number
    PtrMap early;      // ops that lead from the tile's number to divisions
    ScalarOps ops;     // ... in order
    ScalarValues kept; // their results that other ops use
} NextTile;

/* ---- the place ----------------------------------------------------------------------------- */

static Op *last_await(const Region *r) {
    for (Op *op = r->last; op; op = op->prev)
        if (op->code == OP_AWAIT) return op;
    return NULL;
}

/// Finds the last await of the body, at its top or in a branch.
static bool find_await(NextTile *t) {
    for (Op *op = t->body->last; op && !t->await; op = op->prev) {
        if (op->code == OP_AWAIT) t->await = op;
        if (op->code != OP_IF) continue;
        t->await = last_await(op->regions[0]);
        t->branch = t->await ? op : NULL;
    }
    const Op *at = t->branch ? t->branch : t->await, *def = t->next->def;
    return t->await && def && def->parent == t->body && op_before(def, at);
}

/* ---- the ops that move --------------------------------------------------------------------- */

static bool is_scalar_op(const Op *op) {
    if (!op_has(op, PURE) || op->n_regions) return false;
    for (int i = 0; i < op->n_results; i++)
        if (!ty_is_scalar(result(op, i)->type)) return false;
    return true;
}

/// Whether the values come from outside of the loop, or follow from the tile's number.
static bool operands_follow(const NextTile *t, const Op *op) {
    for (int i = 0; i < op->n_operands; i++) {
        const Value *v = operand(op, i);
        bool known = v->def ? map_get(&t->follows, v->def) != NULL : v == t->body->args[0];
        if (value_is_inside(v, t->loop) && !known) return false;
    }
    return true;
}

static void mark_early(NextTile *t, Op *op) {
    if (map_get(&t->early, op)) return;
    map_set(t->ctx, &t->early, op, op);
    for (int i = 0; i < op->n_operands; i++)
        if (value_is_inside(operand(op, i), t->loop) && operand(op, i)->def)
            mark_early(t, operand(op, i)->def);
}

static void find_early_ops(NextTile *t) {
    for_each_op(op, t->body) {
        if (!is_scalar_op(op) || !operands_follow(t, op)) continue;
        map_set(t->ctx, &t->follows, op, op);
        if (op->code == OP_DIV || op->code == OP_REM) mark_early(t, op);
    }
    for_each_op(op, t->body) {
        if (map_get(&t->early, op)) vec_push(t->ctx, &t->ops, op);
    }
}

static bool has_other_users(const NextTile *t, const Value *v) {
    for_each_use(u, v) if (!map_get(&t->early, u->user)) return true;
    return false;
}

static void find_kept_values(NextTile *t) {
    for (int i = 0; i < t->ops.n; i++)
        for (int k = 0; k < t->ops.data[i]->n_results; k++) {
            Value *v = result(t->ops.data[i], k);
            int64_t c;
            if (!const_int(v, &c) && has_other_users(t, v)) vec_push(t->ctx, &t->kept, v);
        }
}

/* ---- rewriting ----------------------------------------------------------------------------- */

/// Builds the early ops for a tile. out receives the kept values.
static void build_for_tile(NextTile *t, Builder *b, Value *tile, Value **out) {
    PtrMap map = {0};
    map_set(t->ctx, &map, t->body->args[0], tile);
    for (int i = 0; i < t->ops.n; i++) op_clone(b, t->ops.data[i], &map);
    for (int i = 0; i < t->kept.n; i++) out[i] = map_get(&map, t->kept.data[i]);
}

static const Type **kept_types(const NextTile *t) {
    const Type **types = ctx_array(t->ctx, const Type *, t->kept.n);
    for (int i = 0; i < t->kept.n; i++) types[i] = t->kept.data[i]->type;
    return types;
}

static void append_to_yield(Ir *ir, Region *r, int n, Value *const *values) {
    for (int i = 0; i < n; i++) op_add_operand(ir, terminator(r), values[i]);
}

/// Builds the values of the next tile before the await, and returns them as results of the branch
/// around it.
static void build_next(NextTile *t, Value **out) {
    Builder b = build_before(t->ir, t->await);
    build_for_tile(t, &b, t->next, out);
    if (!t->branch) return;
    append_to_yield(t->ir, t->branch->regions[0], t->kept.n, out);
    Builder other = build_before(t->ir, terminator(t->branch->regions[1]));
    build_for_tile(t, &other, t->next, out);
    append_to_yield(t->ir, t->branch->regions[1], t->kept.n, out);
    int n = t->branch->n_results;
    t->branch = op_add_results(t->ir, t->branch, t->kept.n, kept_types(t));
    for (int i = 0; i < t->kept.n; i++) out[i] = result(t->branch, n + i);
}

static bool is_used(const Op *op) {
    bool used = false;
    for (int i = 0; i < op->n_results; i++) used |= value_has_uses(result(op, i));
    return used;
}

/// Lets the loop carry the kept values: `first` of the first tile, `next` of each following one.
static void carry_kept(NextTile *t, Value *const *first, Value *const *next) {
    for (int i = 0; i < t->kept.n; i++) {
        Value *v = t->kept.data[i];
        op_add_operand(t->ir, t->loop, first[i]);
        region_add_arg(t->ir, t->loop->regions[0], v->type, NULL);
        value_replace(v, region_add_arg(t->ir, t->body, v->type, NULL));
    }
    append_to_yield(t->ir, t->body, t->kept.n, next);
    t->loop = op_add_results(t->ir, t->loop, t->kept.n, kept_types(t));
    for (int i = t->ops.n - 1; i >= 0; i--)
        if (!is_used(t->ops.data[i])) op_erase(t->ops.data[i]);
}

static void compute_ahead(Ir *ir, Op *loop) {
    Region *body = loop->regions[1];
    NextTile t = {.ir = ir, .ctx = ir_ctx(ir), .loop = loop, .body = body};
    t.next = operand(terminator(body), 0);
    if (!find_await(&t)) return;
    find_early_ops(&t);
    find_kept_values(&t);
    if (!t.kept.n) return;
    Value **first = ctx_array(t.ctx, Value *, t.kept.n);
    Value **next = ctx_array(t.ctx, Value *, t.kept.n);
    Builder before = build_before(ir, loop);
    build_for_tile(&t, &before, operand(loop, 0), first);
    build_next(&t, next);
    carry_kept(&t, first, next);
}

void pass_next_tile(PassEnv *env, Op *module) {
    if (!env->gpu) return;
    for_each_op(op, module->regions[0]) {
        bool deals = op->code == OP_DEVICE && op_flag(op, A_DYNAMIC_TILES);
        Op *roles = deals ? device_roles(op) : NULL;
        for (int i = 0; roles && i < roles->n_regions; i++) {
            for_each_op_safe(loop, roles->regions[i]) {
                if (loop->code == OP_WHILE && op_flag(loop, A_PROGRAM_LOOP))
                    compute_ahead(env->ir, loop);
            }
        }
    }
}
