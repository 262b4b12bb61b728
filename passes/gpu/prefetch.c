// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// prefetch: loops without products load the blocks of the next iteration before they use their own.
//
//   for %n = %lo .. %hi by s { %x = load %t, %n; body }
//   ->
//   %x0 = load %t, %lo mask %lo < %hi
//   for %n = %lo .. %hi by 2 s (%x = %x0) {
//     %m = %n + s;  %y = load %t, %m mask %m < %hi;  body of %n with %x
//     if %m < %hi { %z = load %t, %m + s mask %m + s < %hi;  body of %m with %y;  yield %z } }
//
// The address is always that of some iteration, so proofs about the load hold for the prefetch. A
// body that is long, stores or reduces is not duplicated. It yields %y. On AMD's GPUs, and for
// gathers, a branch replaces the mask. On NVIDIA's GPUs a branch defeats the purpose: ptxas moves
// the body above the branch, where it waits for the load at once. The conditions: the loop does not
// write the loaded tensors, the loaded places follow from the loop's index, and registers hold two
// blocks. Loops with products use copies to shared memory instead (async).
//
// Loads from other ranks take several times as long as loads from memory. If every load of the loop
// reads another rank, the blocks of four iterations are loaded before the first of them is used.
// All programs begin with the first rank, but with loads from four ranks in flight every link is
// busy.
//
//   %x0, %y0, .. = load %t, %lo, %lo + s, .. mask < %hi
//   for %r = %lo .. %hi by 4 s (%x = %x0, %y = %y0, ..) {
//     body of %r with %x;  if %r + s < %hi { body of %r + s with %y;  if .. { .. } }
//     yield load %t, %r + 4 s, .. mask < %hi }
#include "passes/gpu/async/async.h"
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
    MOST_OPS = 48, // of a body that may be duplicated
    TOGETHER = 4,  // iterations whose loads from other ranks are issued together
};

typedef struct Ahead {
    PassEnv *env;
    Ctx *ctx;
    int warps;
    const Op *device, *dispatch; // the device's dispatch, or NULL
    int n_loops;
    Op *loops[LOOPS];
} Ahead;

typedef struct Candidate {
    Op *loop;
    int n;
    Op *loads[LOADS_AHEAD];
    double words; // of a thread, for the blocks of one iteration
} Candidate;

/* ---- prefetched loads ---------------------------------------------------------------------- */

/// Whether v follows from the loop's index and from values outside, without other loads.
static bool follows_from_index(const Value *v, const Op *loop, int depth) {
    if (!value_is_inside(v, loop)) return true;
    if (!v->def) return v->region->parent == loop && v->index == 0;
    if (depth == 0 || !op_has(v->def, PURE) || v->def->n_regions) return false;
    for (int i = 0; i < v->def->n_operands; i++)
        if (!follows_from_index(operand(v->def, i), loop, depth - 1)) return false;
    return true;
}

bool load_may_go_ahead(const Op *op, const Op *loop) {
    if (op->code != OP_LOAD || !result(op, 0)->type->rank || tree_writes(loop, operand(op, 0)))
        return false;
    for (int i = 1; i < op->n_operands; i++)
        if (!follows_from_index(operand(op, i), loop, MAX_DEPTH)) return false;
    return true;
}

static bool is_plain_body(const Region *r) {
    for_each_op(op, r) {
        if (op_is_loop(op) || op->code == OP_DOT) return false;
        for (int i = 0; i < op->n_regions && !op_has(op, PURE); i++)
            if (!is_plain_body(op->regions[i])) return false;
    }
    return true;
}

static bool is_short_loop(const Op *loop) {
    int64_t lo, hi;
    return const_int(operand(loop, 0), &lo) && const_int(operand(loop, 1), &hi) &&
           hi - lo < LEAST_TRIPS * op_int(loop, A_STEP, 1);
}

/// Register words of a thread for the block. A small element takes one, too.
static double thread_words(const Ahead *a, const Type *t) {
    int bits = elem_info[t->elem].bits;
    return (double)ty_count(t) / (a->warps * a->env->gpu->lanes) * (bits > 32 ? 2 : 1);
}

/// Returns half of the words that a thread has beside the loop's carried values, since blocks of
/// two iterations are live at a time.
static double spare_register_words(const Ahead *a, const Op *loop) {
    const GpuTarget *t = a->env->gpu;
    double each = fmin(t->registers_thread, (double)t->registers_sm / (a->warps * t->lanes));
    double carried = OTHER_REGISTERS;
    for (int i = 0; i < loop->n_results; i++)
        if (ty_is_block(result(loop, i)->type)) carried += thread_words(a, result(loop, i)->type);
    return fmin(WORDS_THREAD, (each - carried) / 2);
}

static bool find_loads(const Ahead *a, Op *loop, Candidate *c) {
    double sum = 0;
    *c = (Candidate){.loop = loop};
    if (loop->n_regions != 1 || is_short_loop(loop) || !is_plain_body(loop->regions[0]))
        return false;
    for_each_op(op, loop->regions[0]) {
        if (!load_may_go_ahead(op, loop)) continue;
        sum += thread_words(a, result(op, 0)->type);
        if (c->n == LOADS_AHEAD) return false;
        c->loads[c->n++] = op;
    }
    c->words = sum;
    return c->n && sum <= spare_register_words(a, loop);
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

/// Returns the index of the iteration after that of n, or n if it is the last one.
static Value *iteration_behind(Builder *b, const Op *loop, Value *n, Value **exists) {
    Value *after = ix_add(b, n, build_index(b, op_int(loop, A_STEP, 1)));
    *exists = build_binary(b, OP_LT, after, operand(loop, 1));
    return build_select(b, *exists, after, n);
}

Value *next_iteration(Builder *b, const Op *loop, Value **exists) {
    return iteration_behind(b, loop, loop->regions[0]->args[0], exists);
}

/// Whether all loads can take a scalar as their mask.
static bool take_masks(const Ahead *a, const Candidate *c) {
    bool simple = !gpu_has_any(a->env->gpu, GPU_AMD);
    for (int k = 0; k < c->n; k++) {
        Access x = access_of(c->loads[k]);
        simple &= !x.mask && x.pick_at < 0;
    }
    return simple;
}

/// Builds the loads of iteration i, if it exists.
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

/// Whether the body may be duplicated: it is short, and no op in it joins elements of several
/// threads.
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

/// Returns the copy of v under `map`, or v.
static Value *copied_value(PtrMap *map, Value *v) {
    Value *copy = map_get(map, v);
    return copy ? copy : v;
}

/// Appends a second iteration to the loop's body, with this index and the blocks `next`. It runs if
/// `more`. The two iterations use different registers, because moving a block to other registers
/// would wait for its load. `first` is the first op of the body; the loop ends with `yield`.
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
        twice[i] = i < old ? copied_value(&map, once[i]) : blocks[i - old];
    }
    build_yield(&yes, n, twice);
    build_yield(&no, n, once);
    for (int i = 0; i < old; i++) op_set_operand(yield, i, result(branch, i));
    for (int i = old; i < n; i++) op_add_operand(ir, yield, result(branch, i));
    op_set_int(ir, loop, A_STEP, 2 * op_int(loop, A_STEP, 1));
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
    const Type *types[LOADS_AHEAD];
    for (int k = 0; k < c->n; k++) types[k] = first[k]->type;
    c->loop = loop = op_add_results(ir, loop, c->n, types);
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

/* ---- loads of other ranks' shards ------------------------------------------------------------ */

/// Whether the load of the device reads a tensor of all ranks' shards.
static bool loads_shards(const Ahead *a, const Op *load) {
    const Value *tensor = operand(load, 0);
    return !tensor->def && tensor->region->parent == a->device && a->dispatch &&
           value_is_sym(operand(a->dispatch, tensor->index));
}

static bool is_worth_two_ahead(const Ahead *a, const Candidate *c) {
    const Region *body = c->loop->regions[0];
    bool far = take_masks(a, c) && is_paired(body) &&
               TOGETHER * c->words <= 2 * spare_register_words(a, c->loop);
    for (int k = 0; k < c->n; k++) far &= loads_shards(a, c->loads[k]);
    return far;
}

/// The iterations of one turn of the loop. The first one always exists.
typedef struct IterationGroup {
    Value *index[TOGETHER], *exists[TOGETHER];
    Value *blocks[TOGETHER][LOADS_AHEAD];
} IterationGroup;

static void find_iteration_group(Builder *b, const Op *loop, Value *index, Value *exists,
                                 IterationGroup *out) {
    out->index[0] = index;
    out->exists[0] = exists;
    for (int i = 1; i < TOGETHER; i++)
        out->index[i] = iteration_behind(b, loop, out->index[i - 1], &out->exists[i]);
}

static void load_group(Ahead *a, Builder *b, const Candidate *c, IterationGroup *g) {
    for (int i = 0; i < TOGETHER; i++)
        load_iteration(a, b, c, g->exists[i], g->index[i], g->blocks[i]);
}

/// The loop's original body.
typedef struct LoopBody {
    const Candidate *c;
    int n_ops, n; // n: yielded values
    Op *ops[MOST_OPS];
    const Type **types;
    Value **args, **yielded;
} LoopBody;

static LoopBody *read_body(Ahead *a, const Candidate *c) {
    LoopBody *body = ctx_new(a->ctx, LoopBody);
    Op *loop = c->loop, *yield = terminator(loop->regions[0]);
    *body = (LoopBody){.c = c, .n = loop->n_results, .args = loop->regions[0]->args};
    body->types = ctx_array(a->ctx, const Type *, body->n);
    body->yielded = ctx_array(a->ctx, Value *, body->n);
    for (int i = 0; i < body->n; i++) {
        body->types[i] = result(loop, i)->type;
        body->yielded[i] = operand(yield, i);
    }
    for_each_op(op, loop->regions[0]) {
        if (op != yield && !is_load_of(c, op)) body->ops[body->n_ops++] = op;
    }
    return body;
}

/// Builds iteration `at` of a group and the following ones, if they exist. state: the carried
/// values before, and on return those after.
static void build_iterations(Ahead *a, const LoopBody *body, IterationGroup *g, Builder *b, int at,
                             Value **state) {
    Op *branch = build_op(b, OP_IF, 1, &g->exists[at], body->n, body->types, 2);
    Builder yes = build_at_end(b->ir, branch->regions[0], b->loc);
    Builder no = build_at_end(b->ir, branch->regions[1], b->loc);
    Value **left = ctx_array(a->ctx, Value *, body->n);
    PtrMap map = {0};
    map_set(a->ctx, &map, body->args[0], g->index[at]);
    for (int i = 0; i < body->n; i++) map_set(a->ctx, &map, body->args[i + 1], state[i]);
    for (int k = 0; k < body->c->n; k++)
        map_set(a->ctx, &map, result(body->c->loads[k], 0), g->blocks[at][k]);
    for (int i = 0; i < body->n_ops; i++) op_clone(&yes, body->ops[i], &map);
    for (int i = 0; i < body->n; i++) left[i] = copied_value(&map, body->yielded[i]);
    if (at + 1 < TOGETHER) build_iterations(a, body, g, &yes, at + 1, left);
    build_yield(&yes, body->n, left);
    build_yield(&no, body->n, state);
    for (int i = 0; i < body->n; i++) state[i] = result(branch, i);
}

/// Makes the loop carry the blocks of a group: `first` from before the loop, `next` for the
/// following turn.
static Op *carry_group(Ahead *a, const Candidate *c, Op *loop, const IterationGroup *first,
                       IterationGroup *now, const IterationGroup *next) {
    Region *region = loop->regions[0];
    int n = 0;
    const Type *types[TOGETHER * LOADS_AHEAD];
    for (int i = 0; i < TOGETHER; i++)
        for (int k = 0; k < c->n; k++) types[n++] = first->blocks[i][k]->type;
    loop = op_add_results(a->env->ir, loop, n, types);
    for (int i = 0; i < TOGETHER; i++)
        for (int k = 0; k < c->n; k++) {
            Value *load = result(c->loads[k], 0);
            op_add_operand(a->env->ir, loop, first->blocks[i][k]);
            now->blocks[i][k] = region_add_arg(a->env->ir, region, load->type, load->name);
            op_add_operand(a->env->ir, terminator(region), next->blocks[i][k]);
        }
    op_set_int(a->env->ir, loop, A_STEP, TOGETHER * op_int(loop, A_STEP, 1));
    return loop;
}

static void load_together(Ahead *a, const Candidate *c) {
    Ir *ir = a->env->ir;
    Op *loop = c->loop, *yield = terminator(loop->regions[0]);
    LoopBody *body = read_body(a, c);
    Value **state = ctx_array(a->ctx, Value *, body->n), *more;
    IterationGroup first, now, next;
    Builder before = build_before(ir, loop), end = build_before(ir, yield);
    Value *some = build_binary(&before, OP_LT, operand(loop, 0), operand(loop, 1));
    find_iteration_group(&before, loop, operand(loop, 0), some, &first);
    load_group(a, &before, c, &first);
    find_iteration_group(&end, loop, body->args[0], NULL, &now);
    Value *after = iteration_behind(&end, loop, now.index[TOGETHER - 1], &more);
    find_iteration_group(&end, loop, after, more, &next);
    load_group(a, &end, c, &next);
    body->args = carry_group(a, c, loop, &first, &now, &next)->regions[0]->args;
    Builder work = build_before(ir, next.blocks[0][0]->def);
    for (int i = 0; i < body->n; i++) state[i] = body->yielded[i];
    build_iterations(a, body, &now, &work, 1, state);
    for (int i = 0; i < body->n; i++) op_set_operand(yield, i, state[i]);
    for (int k = 0; k < c->n; k++) {
        value_replace(result(c->loads[k], 0), now.blocks[0][k]);
        op_erase(c->loads[k]);
    }
}

/* ---- the pass ------------------------------------------------------------------------------ */

static void collect_for_loops(Op *op, void *arg) {
    Ahead *a = arg;
    if (op->code == OP_FOR && a->n_loops < LOOPS) a->loops[a->n_loops++] = op;
}

void pass_prefetch(PassEnv *env, Op *module) {
    if (!env->gpu || env->check) return;
    for_each_op(op, module->regions[0]) {
        if (op->code != OP_DEVICE) continue;
        Ahead *a = ctx_new(ir_ctx(env->ir), Ahead);
        *a = (Ahead){.env = env, .ctx = ir_ctx(env->ir), .warps = choose_shape(env, op).warps};
        a->device = op;
        a->dispatch = dispatch_of(module, op);
        op_walk_post(op, collect_for_loops, a);
        for (int i = 0; i < a->n_loops; i++) {
            Candidate c;
            if (!find_loads(a, a->loops[i], &c)) continue;
            if (is_worth_two_ahead(a, &c))
                load_together(a, &c);
            else
                go_ahead(a, &c);
        }
    }
}
