// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// ahead: loops without products load the blocks of the next iteration before they use their own.
//
//   for %n = %lo .. %hi by s { %x = load %t, %n; body }
//   ->
//   %x0 = load %t, %lo mask %lo < %hi
//   for %n = %lo .. %hi by 2 s (%x = %x0) {
//     %m = %n + s;  %y = load %t, %m mask %m < %hi;  body of %n with %x
//     if %m < %hi { %z = load %t, %m + s mask %m + s < %hi;  body of %m with %y;  yield %z } }
//
// The place is always one of an iteration, so that whatever has been proved of it holds for what is
// loaded ahead. A body that is long, stores or reduces stands there once, and yields %y. On AMD's
// GPUs, and where loads gather, a branch stands for the mask: ptxas moves the body in front of it,
// and waits at once. Needs loads of tensors that the loop does not write, at places that follow
// from the loop's index, and registers for two blocks. Loops with products have copies to shared
// memory for this (async).
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
    MOST_OPS = 48, // of a body that stands twice
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

/// The iteration behind that of index n, n itself if there is none.
static Value *iteration_behind(Builder *b, const Op *loop, Value *n, Value **exists) {
    Value *after = ix_add(b, n, build_index(b, op_int(loop, "step", 1)));
    *exists = build_binary(b, OP_LT, after, operand(loop, 1));
    return build_select(b, *exists, after, n);
}

Value *next_iteration(Builder *b, const Op *loop, Value **exists) {
    return iteration_behind(b, loop, loop->regions[0]->args[0], exists);
}

/// Whether a scalar can be the mask of all loads.
static bool take_masks(const Ahead *a, const Candidate *c) {
    bool simple = !gpu_has_any(a->env->gpu, GPU_AMD);
    for (int k = 0; k < c->n; k++) {
        Access x = access_of(c->loads[k]);
        simple &= !x.mask && x.pick_at < 0;
    }
    return simple;
}

/// The loads of iteration i, if there is one.
static void load_iteration(Ahead *a, Builder *b, const Candidate *c, Value *exists, Value *i,
                           Value **out) {
    if (!take_masks(a, c)) {
        load_iteration_if(a->ctx, b, c->loop, c->n, c->loads, exists, i, out);
        return;
    }
    for (int k = 0; k < c->n; k++) {
        out[k] = load_of_iteration(a->ctx, b, c->loop, c->loads[k], i);
        op_add_operand(b->ir, out[k]->def, exists);
    }
}

/// Whether a body may stand twice: a short one, in which elements do not meet.
static bool is_paired(const Region *body) {
    int n = 0;
    for_each_op(op, body) {
        n++;
        if (op->n_regions || (!op_has(op, PURE) && op->code != OP_LOAD && op->code != OP_YIELD))
            return false;
    }
    return n <= MOST_OPS;
}

static bool is_load_of(const Candidate *c, const Op *op) {
    for (int k = 0; k < c->n; k++)
        if (c->loads[k] == op) return true;
    return false;
}

/// What v is in the copy that `map` makes.
static Value *copied(PtrMap *map, Value *v) {
    Value *copy = map_get(map, v);
    return copy ? copy : v;
}

/// A second iteration in the loop's body, if there is `more`: that of `index`, whose blocks are
/// `next`. No block is moved to other registers then, which would wait for it to come. `first` is
/// what the first iteration begins with; the loop ends with `yield`.
static void pair_iterations(Ahead *a, const Candidate *c, Value *more, Value *index,
                            Value *const *next, Op *first) {
    Ir *ir = a->env->ir;
    Op *loop = c->loop, *yield = terminator(loop->regions[0]);
    Value **args = loop->regions[0]->args, *beyond, *blocks[LOADS_AHEAD];
    int n = loop->n_results, old = n - c->n;
    const Type **types = ctx_array(a->ctx, const Type *, n);
    Value **once = ctx_array(a->ctx, Value *, n), **twice = ctx_array(a->ctx, Value *, n);
    for (int i = 0; i < n; i++) types[i] = result(loop, i)->type;
    Builder b = build_before(ir, yield);
    Op *branch = build_op(&b, OP_IF, 1, &more, n, types, 2);
    Builder yes = build_at_end(ir, branch->regions[0], b.loc);
    Builder no = build_at_end(ir, branch->regions[1], b.loc);
    Value *behind = iteration_behind(&yes, loop, index, &beyond);
    load_iteration(a, &yes, c, beyond, behind, blocks);
    PtrMap map = {0};
    map_set(a->ctx, &map, args[0], index);
    for (int i = 0; i < old; i++) map_set(a->ctx, &map, args[i + 1], operand(yield, i));
    for (int k = 0; k < c->n; k++) map_set(a->ctx, &map, args[old + k + 1], next[k]);
    for (Op *op = first; op != branch; op = op->next)
        if (!is_load_of(c, op)) op_clone(&yes, op, &map);
    for (int i = 0; i < n; i++) {
        once[i] = i < old ? operand(yield, i) : build_zero(&no, types[i]);
        twice[i] = i < old ? copied(&map, once[i]) : blocks[i - old];
    }
    build_yield(&yes, n, twice);
    build_yield(&no, n, once);
    for (int i = 0; i < old; i++) op_set_operand(yield, i, result(branch, i));
    for (int i = old; i < n; i++) op_add_operand(ir, yield, result(branch, i));
    op_set_attr(ir, loop, "step", at_int(ir, 2 * op_int(loop, "step", 1)));
}

static void go_ahead(Ahead *a, Candidate *c) {
    Ir *ir = a->env->ir;
    Op *loop = c->loop;
    Region *body = loop->regions[0];
    Op *begin = body->first;
    Value *first[LOADS_AHEAD], *next[LOADS_AHEAD], *lo = operand(loop, 0), *more;
    Builder before = build_before(ir, loop), b = build_before(ir, begin);
    Value *some = build_binary(&before, OP_LT, lo, operand(loop, 1));
    load_iteration(a, &before, c, some, lo, first);
    Value *index = next_iteration(&b, loop, &more);
    load_iteration(a, &b, c, more, index, next);
    int old = loop->n_results;
    const Type **types = ctx_array(a->ctx, const Type *, old + c->n);
    for (int i = 0; i < old; i++) types[i] = result(loop, i)->type;
    for (int k = 0; k < c->n; k++) types[old + k] = first[k]->type;
    c->loop = loop = op_with_results(ir, loop, old + c->n, types);
    for (int k = 0; k < c->n; k++) {
        Value *load = result(c->loads[k], 0);
        op_add_operand(ir, loop, first[k]);
        value_replace(load, region_add_arg(ir, body, load->type, load->name));
    }
    if (take_masks(a, c) && is_paired(body))
        pair_iterations(a, c, more, index, next, begin);
    else
        for (int k = 0; k < c->n; k++) op_add_operand(ir, terminator(body), next[k]);
    for (int k = 0; k < c->n; k++) op_erase(c->loads[k]);
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
