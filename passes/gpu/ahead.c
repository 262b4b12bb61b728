// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// ahead: loops without products load the blocks of the next iteration before they use their own.
//
//   for %n = %lo .. %hi by s { %x = load %t, %n; body }
//   ->
//   %x0 = if %lo < %hi { load %t, %lo } else { 0 }
//   for %n = %lo .. %hi by s (%x = %x0) {
//     %more = %n + s < %hi;  %m = %more ? %n + s : %n;
//     %y = if %more { load %t, %m } else { 0 };  body;  yield %y }
//
// The place is always one of an iteration, so that whatever has been proved of it holds for what is
// loaded ahead. Needs loads of tensors that the loop does
// not write, at places that follow from the loop's index, and registers for two blocks. Loops with
// products have copies to shared memory for this (async).
#include "passes/gpu/async.h"
#include "passes/gpu/layouts.h"

#include "passes/passes.h"
#include "passes/util.h"

#include <math.h>

enum {
    LOOPS = 256,
    LEAST_TRIPS = 3,
    WORDS_THREAD = 32,
    OTHER_REGISTERS = 24, // of a thread, besides blocks
    BUSY_WARPS = 16,
    MAX_DEPTH = 32,
};

typedef struct Ahead {
    PassEnv *env;
    Ctx *ctx;
    int warps;
    int n_loops;
    Op *loops[LOOPS];
} Ahead;

typedef struct Candidate {
    Op *loop;
    int n;
    Op *loads[LOADS_AHEAD];
} Candidate;

/* ---- which loads --------------------------------------------------------------------------- */

/// v follows from the index of the loop and from outside, without other loads.
static bool follows(const Value *v, const Op *loop, int depth) {
    if (!value_is_inside(v, loop)) return true;
    if (!v->def) return v->region->parent == loop && v->index == 0;
    if (depth == 0 || !op_has(v->def, PURE) || v->def->n_regions) return false;
    for (int i = 0; i < v->def->n_operands; i++)
        if (!follows(operand(v->def, i), loop, depth - 1)) return false;
    return true;
}

bool load_may_go_ahead(const Op *op, const Op *loop) {
    if (op->code != OP_LOAD || !result(op, 0)->type->rank || tree_writes(loop, operand(op, 0)))
        return false;
    for (int i = 1; i < op->n_operands; i++)
        if (!follows(operand(op, i), loop, MAX_DEPTH)) return false;
    return true;
}

static bool is_plain(const Region *r) {
    for_each_op(op, r) {
        if (op_is_loop(op) || op->code == OP_DOT) return false;
        for (int i = 0; i < op->n_regions && !op_has(op, PURE); i++)
            if (!is_plain(op->regions[i])) return false;
    }
    return true;
}

static bool is_short(const Op *loop) {
    int64_t lo, hi;
    return const_int(operand(loop, 0), &lo) && const_int(operand(loop, 1), &hi) &&
           hi - lo < LEAST_TRIPS * op_int(loop, "step", 1);
}

/// Words of a register that a thread has of the blocks; small elements take one each as well.
static double words(const Ahead *a, const Type *t) {
    int bits = elem_info[t->elem].bits;
    return (double)ty_count(t) / (a->warps * a->env->gpu->lanes) * (bits > 32 ? 2 : 1);
}

/// Words that a thread has registers for twice, besides what the loop carries.
static double room(const Ahead *a, const Op *loop) {
    const GpuTarget *t = a->env->gpu;
    double each = fmin(t->registers_thread, (double)t->registers_sm / (a->warps * t->lanes));
    double carried = OTHER_REGISTERS;
    for (int i = 0; i < loop->n_results; i++)
        if (ty_is_block(result(loop, i)->type)) carried += words(a, result(loop, i)->type);
    return fmin(WORDS_THREAD, (each - carried) / 2);
}

static bool find_loads(const Ahead *a, Op *loop, Candidate *c) {
    double sum = 0;
    *c = (Candidate){.loop = loop};
    if (loop->n_regions != 1 || is_short(loop) || !is_plain(loop->regions[0])) return false;
    for_each_op(op, loop->regions[0]) {
        if (!load_may_go_ahead(op, loop)) continue;
        sum += words(a, result(op, 0)->type);
        if (c->n == LOADS_AHEAD) return false;
        c->loads[c->n++] = op;
    }
    return c->n && sum <= room(a, loop);
}

/* ---- rewriting ----------------------------------------------------------------------------- */

Value *load_of_iteration(Ctx *ctx, Builder *b, const Op *loop, Op *load, Value *i) {
    PtrMap map = {0};
    map_set(ctx, &map, loop->regions[0]->args[0], i);
    for (int j = 1; j < load->n_operands; j++) clone_slice(b, operand(load, j), loop, &map);
    return result(op_clone(b, load, &map), 0);
}

void load_iteration_if(Ctx *ctx, Builder *b, Op *loop, int n, Op *const *loads, Value *exists,
                       Value *i, Value **out) {
    const Type *types[LOADS_AHEAD] = {0};
    Value *none[LOADS_AHEAD];
    for (int k = 0; k < n; k++) types[k] = result(loads[k], 0)->type;
    Op *branch = build_op(b, OP_IF, 1, &exists, n, types, 2);
    Builder yes = build_at_end(b->ir, branch->regions[0], b->loc);
    Builder no = build_at_end(b->ir, branch->regions[1], b->loc);
    for (int k = 0; k < n; k++) {
        out[k] = load_of_iteration(ctx, &yes, loop, loads[k], i);
        none[k] = build_zero(&no, types[k]);
    }
    build_yield(&yes, n, out);
    build_yield(&no, n, none);
    for (int k = 0; k < n; k++) out[k] = result(branch, k);
}

Value *next_iteration(Builder *b, const Op *loop, Value **exists) {
    Value *n = loop->regions[0]->args[0];
    Value *after = ix_add(b, n, build_index(b, op_int(loop, "step", 1)));
    *exists = build_binary(b, OP_LT, after, operand(loop, 1));
    return build_select(b, *exists, after, n);
}

static void go_ahead(Ahead *a, Candidate *c) {
    Ir *ir = a->env->ir;
    Op *loop = c->loop;
    Region *body = loop->regions[0];
    Value *first[LOADS_AHEAD], *next[LOADS_AHEAD], *lo = operand(loop, 0), *more;
    Builder before = build_before(ir, loop), b = build_before(ir, body->first);
    Value *some = build_binary(&before, OP_LT, lo, operand(loop, 1));
    load_iteration_if(a->ctx, &before, loop, c->n, c->loads, some, lo, first);
    Value *index = next_iteration(&b, loop, &more);
    load_iteration_if(a->ctx, &b, loop, c->n, c->loads, more, index, next);
    int old = loop->n_results;
    const Type **types = ctx_array(a->ctx, const Type *, old + c->n);
    for (int i = 0; i < old; i++) types[i] = result(loop, i)->type;
    for (int k = 0; k < c->n; k++) types[old + k] = first[k]->type;
    loop = op_with_results(ir, loop, old + c->n, types);
    for (int k = 0; k < c->n; k++) {
        Value *load = result(c->loads[k], 0);
        op_add_operand(ir, loop, first[k]);
        Value *arg = region_add_arg(ir, body, load->type, load->name);
        op_add_operand(ir, terminator(body), next[k]);
        value_replace(load, arg);
        op_erase(c->loads[k]);
    }
}

/* ---- the pass ------------------------------------------------------------------------------ */

static void collect(Op *op, void *arg) {
    Ahead *a = arg;
    if (op->code == OP_FOR && a->n_loops < LOOPS) a->loops[a->n_loops++] = op;
}

void pass_ahead(PassEnv *env, Op *module) {
    if (!env->gpu || env->check) return;
    for_each_op(op, module->regions[0]) {
        if (op->code != OP_DEVICE) continue;
        Ahead *a = ctx_new(ir_ctx(env->ir), Ahead);
        *a = (Ahead){.env = env, .ctx = ir_ctx(env->ir), .warps = choose_shape(env, op).warps};
        op_walk_post(op, collect, a);
        for (int i = 0; i < a->n_loops; i++) {
            Candidate c;
            if (find_loads(a, a->loops[i], &c)) go_ahead(a, &c);
        }
    }
}
