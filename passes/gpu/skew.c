// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// skew: starts products that do not depend on a loop's state an iteration earlier, after the last
// product of that iteration.
//
//   for %n = %lo .. %hi (%st) { %s = await (start %q, %k_n); %p, %t = softmax %s, %st
//                               %acc = await (start %p, %v_n, ..); yield .. }
//   -> if %lo < %hi {
//        %s = await (start %q, %k_lo)
//        for %n = %lo .. %hi - step (%st, %s) {
//          %p, %t = softmax %s, %st
//          start %p, %v_n, ..; start %q, %k_n+step; %s', %acc = await both; yield .., %s' }
//        %p, %t = softmax %s, %st; %acc = await (start %p, %v_last, ..) }
//
// So two products are pending at a time, and only one of them needs results of the threads. Each op
// runs as often as before, on the same values, so the bits are those of the plain loop. The waits,
// fills and releases of items that the early products read move along. If other ops read an item,
// too, its release follows them.
//
// The pass runs on request, or if the cost model chooses it together with roles (chain.c). A thread
// holds the sums of both products at a time. Two CTAs on an SM have no registers for that, and they
// hide the threads' work behind each other's products better than one CTA whose threads also copy.
#include "passes/gpu/async/async.h"

#include "passes/passes.h"

#include <math.h>

enum { MOST_SUMS = 4, MOST_CARRIED = 32 };

/// The phases of ops that move an iteration ahead, in order.
typedef enum SkewPhase { PHASE_ITEMS, PHASE_STARTS, PHASE_ENDS } SkewPhase;

typedef struct Skew {
    Async s;
    Op *loop;
    Region *body;
    bool number[MOST_CARRIED]; // the carried value is a number that is known an iteration ahead
    PtrMap known;              // values that follow from the index and such numbers
    PtrMap moved;              // ops that move an iteration ahead
    PtrMap both;               // the waits among them whose items other ops read, too: these
                               // waits also stay
    PtrMap gone;               // ops that no longer run in their own iteration
    int n_sums;
    Value *sums[MOST_SUMS]; // sums of the earlier products, which the loop carries
    Op *first, *last;       // first and last start of the late product, one chain
    Op *end;                // the await of the late product
} Skew;

/* ---- ops that may move ahead --------------------------------------------------------------- */

static bool is_free_value(Skew *k, const Value *v);

static bool operands_are_free(Skew *k, const Op *op) {
    for (int i = 0; i < op->n_operands; i++)
        if (!is_free_value(k, operand(op, i))) return false;
    return true;
}

/// Whether the op, run an iteration earlier for the next index, gives the same result.
static bool op_is_free(Skew *k, const Op *op) {
    if (op->parent != k->body || op->n_regions) return false;
    switch (op->code) {
    case OP_RING_WAIT:
    case OP_RING_ACQUIRE:
    case OP_COPY_TMA:
    case OP_MMA_START: break;
    default:
        if (!op_has(op, PURE) && !(op_is_load(op) && ty_is_scalar(result(op, 0)->type)))
            return false;
    }
    return operands_are_free(k, op);
}

/// Whether v follows from the loop's index and from carried numbers, or is defined outside.
static bool is_free_value(Skew *k, const Value *v) {
    if (!value_is_inside(v, k->loop) || map_get(&k->known, v)) return true;
    bool free = v->def                 ? op_is_free(k, v->def)
                : v->region != k->body ? false
                : v->index == 0        ? true
                                       : k->number[v->index - 1];
    if (free) map_set(k->s.ctx, &k->known, v, (void *)v);
    return free;
}

/// Finds the carried scalars whose next value follows from the index and such scalars.
static void find_numbers(Skew *k) {
    for (int i = 0; i < k->loop->n_results; i++)
        k->number[i] = ty_is_scalar(result(k->loop, i)->type);
    for (int i = 0; i < k->loop->n_results; i++) {
        if (!k->number[i] || is_free_value(k, operand(terminator(k->body), i))) continue;
        k->number[i] = false;
        k->known = (PtrMap){0};
        i = -1;
    }
}

static bool is_in_shared_memory(const Value *v) {
    return v->type->kind == TK_BUF || v->type->kind == TK_RING || v->type->kind == TK_PENDING;
}

static void seek_shared(Op *op, void *found) {
    for (int i = 0; i < op->n_operands; i++) *(bool *)found |= is_in_shared_memory(operand(op, i));
    for (int i = 0; i < op->n_results; i++) *(bool *)found |= is_in_shared_memory(result(op, i));
}

/// Whether the op may stand in a body that mixes two iterations: it has no effect outside. Copies
/// by threads are counted over all rings, so their order must stay.
static bool may_mix(const Op *op) {
    bool inner = false;
    switch (op->code) {
    case OP_RING_ACQUIRE:
    case OP_RING_COMMIT:
    case OP_RING_WAIT:
    case OP_RING_RELEASE: return operand(op, 0)->def && ring_is_tma(operand(op, 0));
    case OP_AWAIT:
        return op->n_operands == 1 && !op_attr(op, ATTR_IN_FLIGHT) &&
               ty_is_block(result(op, 0)->type);
    case OP_MMA_START: return !op_attr(op, ATTR_PARTIAL_SUM_K);
    case OP_COPY_TMA:
    case OP_BUF_PAD:
    case OP_BUF_VIEW:
    case OP_BUF_LOAD:
    case OP_BUF_STORE:
    case OP_FENCE:
    case OP_BARRIER:
    case OP_YIELD: return true;
    default: break;
    }
    op_walk_pre((Op *)op, seek_shared, &inner);
    return !inner && tree_only_reads(op);
}

/* ---- items of rings ------------------------------------------------------------------------ */

static bool move_earlier(Skew *k, Op *op) {
    map_set(k->s.ctx, &k->moved, op, op);
    return op->parent == k->body && operands_are_free(k, op);
}

/// Whether all readers of the buffer move ahead, too.
static bool only_moved_read(const Skew *k, const Value *buf) {
    for_each_use(u, buf) {
        const Op *op = u->user;
        bool view = op->code == OP_BUF_VIEW && only_moved_read(k, result(op, 0));
        if (!view && op->code != OP_BUF_PAD && !map_get(&k->moved, op)) return false;
    }
    return true;
}

static bool move_users(Skew *k, const Value *v, OpCode code) {
    for_each_use(u, v) if (u->user->code == code && !move_earlier(k, u->user)) return false;
    return true;
}

/// Moves one more op of the item's ring in the loop an iteration ahead. Returns false if that is
/// impossible.
static bool move_with(Skew *k, Op *op, const Op *wait, bool whole) {
    bool fills = op->code == OP_RING_ACQUIRE;
    if (op->code == OP_RING_WAIT || op->parent != k->body) return false;
    // The next item arrives before this one is released only if copies run ahead.
    if (!whole) return !fills || operand(op, 1) != operand(wait, 1);
    for (int i = 0; fills && i < op->n_results; i++)
        if (!move_users(k, result(op, i), OP_COPY_TMA)) return false;
    return move_earlier(k, op);
}

/// Moves the wait for an item that an earlier product reads, and the other ops of this item.
static bool move_item(Skew *k, Op *wait) {
    bool whole = true;
    if (map_get(&k->moved, wait)) return true;
    if (!move_earlier(k, wait)) return false;
    for (int i = 0; i < wait->n_results; i++) {
        whole &= only_moved_read(k, result(wait, i));
        if (!move_users(k, result(wait, i), OP_BUF_PAD)) return false;
    }
    if (!whole) map_set(k->s.ctx, &k->both, wait, wait);
    for_each_use(u, operand(wait, 0)) {
        Op *op = u->user;
        if (op != wait && op_is_inside(op, k->loop) && !move_with(k, op, wait, whole)) return false;
    }
    return true;
}

/// Moves everything in the loop that v, an operand of an earlier product, depends on.
static bool move_items_behind(Skew *k, const Value *v) {
    Op *op = v->def;
    if (!op || op->parent != k->body) return true;
    if (op->code == OP_RING_WAIT) return move_item(k, op);
    for (int i = 0; i < op->n_operands; i++)
        if (!move_items_behind(k, operand(op, i))) return false;
    return true;
}

/* ---- products ------------------------------------------------------------------------------ */

static Op *first_of_chain(Op *start) {
    while (def_of(operand(start, 2), OP_MMA_START)) start = operand(start, 2)->def;
    return start;
}

/// Sorts a product as an earlier or the late one. Returns false if it is neither.
static bool sort_product(Skew *k, Op *await) {
    Op *start = def_of(operand(await, 0), OP_MMA_START);
    if (!start || start->parent != k->body) return false;
    if (is_free_value(k, operand(await, 0))) {
        if (k->n_sums == MOST_SUMS) return false;
        k->sums[k->n_sums++] = result(await, 0);
        map_set(k->s.ctx, &k->moved, await, await);
        for (; start; start = def_of(operand(start, 2), OP_MMA_START))
            map_set(k->s.ctx, &k->moved, start, start);
        return true;
    }
    if (k->end) return false;
    k->end = await;
    k->last = start;
    k->first = first_of_chain(start);
    return k->first->parent == k->body;
}

static bool is_ready(Skew *k) {
    for_each_op(op, k->body) {
        if (!may_mix(op)) return false;
        if (op->code == OP_AWAIT && !sort_product(k, op)) return false;
    }
    if (!k->end || !k->n_sums) return false;
    for_each_op(op, k->body) {
        if (op->code != OP_MMA_START || !map_get(&k->moved, op)) continue;
        for (int i = 0; i < op->n_operands; i++)
            if (!move_items_behind(k, operand(op, i))) return false;
    }
    return true;
}

/* ---- registers ----------------------------------------------------------------------------- */

static double layout_words(const Value *v) {
    const Layout *l = v->type->kind == TK_BLOCK ? v->type->layout : NULL;
    return l ? layout_registers(l) * elem_info[v->type->elem].bits / 32.0 : 0;
}

/// Whether a thread's registers hold all blocks while both products are pending.
static bool fits(const Skew *k) {
    const GpuTarget *t = k->s.target;
    int64_t warps = op_int(k->s.device, A_WARPS, 1);
    double words = 0, limit = fmin(t->registers_thread, t->registers_sm / (warps * t->lanes));
    if (device_roles(k->s.device)) limit = gpu_role_registers(t, warps);
    for (int i = 0; i < k->n_sums; i++) words += layout_words(k->sums[i]);
    words += layout_words(result(k->end, 0)) + layout_words(operand(k->last, 0));
    return gpu_skew_has_registers(words, limit);
}

/* ---- rewriting ----------------------------------------------------------------------------- */

/// Whether the acquire is for an item that only a later iteration reads.
static bool is_for_later(const Skew *k, const Op *acquire) {
    const Op *on = def_of(operand(acquire, 2), OP_LT), *at = on ? operand(on, 0)->def : NULL;
    int64_t far;
    return at && at->code == OP_ADD && operand(on, 1) == operand(k->loop, 1) &&
           operand(at, 0) == k->body->args[0] && const_int(operand(at, 1), &far) &&
           far >= op_int(k->loop, A_STEP, 1);
}

/// Whether the op fills an item of a later iteration.
static bool fills_later(const Skew *k, const Op *op) {
    if (op->code == OP_RING_ACQUIRE) return is_for_later(k, op);
    if (op->code == OP_COPY_TMA) return fills_later(k, operand(op, 1)->def);
    if (op->code != OP_RING_COMMIT) return false;
    for_each_use(u, operand(op, 0)) {
        const Op *acquire = u->user;
        if (acquire->code == OP_RING_ACQUIRE && acquire->parent == k->body)
            return is_for_later(k, acquire);
    }
    return false;
}

static SkewPhase phase_of(const Op *op) {
    if (op->code == OP_MMA_START) return PHASE_STARTS;
    return op->code == OP_AWAIT || op->code == OP_RING_RELEASE ? PHASE_ENDS : PHASE_ITEMS;
}

/// Clones one phase of the earlier products, for the iteration of `map`.
static void clone_moved(Skew *k, Builder *b, SkewPhase phase, PtrMap *map) {
    for_each_op(op, k->body) {
        if (!map_get(&k->moved, op) || phase_of(op) != phase) continue;
        for (int i = 0; i < op->n_operands; i++) clone_slice(b, operand(op, i), k->loop, map);
        op_clone(b, op, map);
    }
}

/// Finds the ops that now run only in the iteration before, and the ops that depend on them. Uses
/// of sums stay, since carried values replace the sums.
static void find_gone(Skew *k) {
    for_each_op(op, k->body) {
        bool gone = map_get(&k->moved, op) && !map_get(&k->both, op);
        for (int i = 0; i < op->n_operands; i++) {
            const Op *def = operand(op, i)->def;
            gone |= def && def->code != OP_AWAIT && map_get(&k->gone, def);
        }
        if (gone) map_set(k->s.ctx, &k->gone, op, op);
    }
}

/// Whether the loop ends at or before v.
static bool ends_by(const Value *hi, const Value *v) {
    const Op *min = def_of(hi, OP_MIN);
    return hi == v || (min && (ends_by(operand(min, 0), v) || ends_by(operand(min, 1), v)));
}

/// Whether op counts the elements left, min(%hi - %i, %n) with %n at most a step. In every
/// iteration except the last, more than a step is left, so the count is %n.
static bool is_full_count(const Skew *k, const Op *op, int64_t *n) {
    for (int i = 0; op->code == OP_MIN && i < 2; i++) {
        const Op *left = def_of(operand(op, 1 - i), OP_SUB);
        if (const_int(operand(op, i), n) && *n <= op_int(k->loop, A_STEP, 1) && left &&
            operand(left, 1) == k->body->args[0] && ends_by(operand(k->loop, 1), operand(left, 0)))
            return true;
    }
    return false;
}

/// Whether the pad has no effect: the block is as large as the buffer.
static bool pads_nothing(const Op *op, const PtrMap *map) {
    int64_t n;
    const Value *count = op->code == OP_BUF_PAD ? map_get(map, operand(op, 1)) : NULL;
    return count && const_int(count, &n) &&
           n >= operand(op, 0)->type->extents[op_int(op, A_AXIS, 0)];
}

/// Clones an op into an iteration before the last one, where counts are full.
static void clone_full(Skew *k, Builder *b, Op *op, PtrMap *map) {
    int64_t n;
    if (is_full_count(k, op, &n))
        map_set(k->s.ctx, map, result(op, 0), build_index(b, n));
    else if (!pads_nothing(op, map))
        op_clone(b, op, map);
}

/// Whether the loop itself copies. If so, items of the early products are filled before the late
/// product starts, because one lane copies in a branch, and a branch while the product is pending
/// makes the loop take 1.35 times as long (H200). If another role copies, the loop only waits for
/// these items, after the late product has started.
static bool copies_here(const Skew *k) {
    for_each_op(op, k->body) {
        if (op->code == OP_RING_ACQUIRE) return true;
    }
    return false;
}

/// Clones the rest of the iteration of `map`, and the earlier products of the next one, with map
/// `next`. next NULL: there is no next iteration, and no item for it is filled.
static void clone_rest(Skew *k, Builder *b, PtrMap *map, PtrMap *next) {
    bool copies = copies_here(k);
    for_each_op(op, k->body) {
        if (op_has(op, TERMINATOR)) return;
        if (next && copies && op == k->first) clone_moved(k, b, PHASE_ITEMS, next);
        if (!map_get(&k->gone, op)) {
            if (next)
                clone_full(k, b, op, map);
            else if (!fills_later(k, op))
                op_clone(b, op, map);
        }
        if (!next || op != k->last) continue;
        if (!copies) clone_moved(k, b, PHASE_ITEMS, next);
        clone_moved(k, b, PHASE_STARTS, next);
        clone_moved(k, b, PHASE_ENDS, next);
    }
}

static void map_values(Skew *k, PtrMap *map, int n, Value *const *from, Value *const *to) {
    for (int i = 0; i < n; i++) map_set(k->s.ctx, map, from[i], to[i]);
}

static void mapped_all(PtrMap *map, int n, Value *const *from, Value **to) {
    for (int i = 0; i < n; i++) {
        Value *v = map_get(map, from[i]);
        to[i] = v ? v : from[i];
    }
}

/// Yields the iteration's values, and the sums of the next iteration's early products.
static void build_end(Skew *k, Builder *b, PtrMap *map, PtrMap *next) {
    Value *out[MOST_CARRIED + MOST_SUMS], *yields[MOST_CARRIED];
    int n = k->loop->n_results;
    for (int i = 0; i < n; i++) yields[i] = operand(terminator(k->body), i);
    mapped_all(map, n, yields, out);
    if (next) mapped_all(next, k->n_sums, k->sums, out + n);
    build_yield(b, n + (next ? k->n_sums : 0), out);
}

/// Adds the index and the carried numbers of the next iteration to `next`, built at b.
static void begin_next(Skew *k, Builder *b, PtrMap *map, PtrMap *next) {
    Value *index = map_get(map, k->body->args[0]);
    Value *step = build_index(b, op_int(k->loop, A_STEP, 1));
    map_set(k->s.ctx, next, k->body->args[0], ix_add(b, index, step));
    for (int i = 0; i < k->loop->n_results; i++) {
        Value *yield = operand(terminator(k->body), i);
        if (k->number[i])
            map_set(k->s.ctx, next, k->body->args[1 + i], clone_slice(b, yield, k->loop, map));
    }
}

/// Builds the loop over all iterations but the last one. Its last carried values are the sums.
static Op *build_loop(Skew *k, Builder *b, Value *const *inits) {
    Ir *ir = k->s.ir;
    int n = k->loop->n_results;
    int64_t step = op_int(k->loop, A_STEP, 1);
    Value *hi = ix_sub(b, operand(k->loop, 1), build_index(b, step));
    Op *loop = build_for(b, operand(k->loop, 0), hi, step, n + k->n_sums, inits);
    Builder in = build_at_end(ir, loop->regions[0], k->loop->loc);
    PtrMap map = {0}, next = {0};
    op_copy_attr(ir, loop, k->loop, ATTR_NAME);
    for (int i = 0; i <= n; i++) {
        Value *arg = k->body->args[i];
        map_set(k->s.ctx, &map, arg, region_add_arg(ir, in.region, arg->type, arg->name));
    }
    for (int i = 0; i < k->n_sums; i++) {
        Value *sum = region_add_arg(ir, in.region, k->sums[i]->type, k->sums[i]->name);
        map_set(k->s.ctx, &map, k->sums[i], sum);
    }
    begin_next(k, &in, &map, &next);
    clone_rest(k, &in, &map, &next);
    build_end(k, &in, &map, &next);
    return loop;
}

/// Computes the index of the last iteration. At least one exists.
static Value *last_index(Skew *k, Builder *b) {
    Value *lo = operand(k->loop, 0), *hi = operand(k->loop, 1);
    Value *step = build_index(b, op_int(k->loop, A_STEP, 1));
    Value *behind = ix_sub(b, ix_sub(b, hi, lo), build_index(b, 1));
    return ix_add(b, lo, ix_mul(b, ix_div(b, behind, step), step));
}

/// Builds all iterations. At least one exists.
static void build_some(Skew *k, Builder *b) {
    int n = k->loop->n_results;
    PtrMap first = {0}, last = {0};
    Value *inits[MOST_CARRIED + MOST_SUMS];
    for (int i = 0; i < n; i++) inits[i] = operand(k->loop, 2 + i);
    map_set(k->s.ctx, &first, k->body->args[0], operand(k->loop, 0));
    map_values(k, &first, n, k->body->args + 1, inits);
    for (SkewPhase p = PHASE_ITEMS; p <= PHASE_ENDS; p++) clone_moved(k, b, p, &first);
    mapped_all(&first, k->n_sums, k->sums, inits + n);
    Op *loop = build_loop(k, b, inits);
    map_set(k->s.ctx, &last, k->body->args[0], last_index(k, b));
    for (int i = 0; i < n + k->n_sums; i++)
        map_set(k->s.ctx, &last, i < n ? k->body->args[1 + i] : k->sums[i - n], result(loop, i));
    clone_rest(k, b, &last, NULL);
    build_end(k, b, &last, NULL);
}

static void rewrite_skewed(Skew *k) {
    Ir *ir = k->s.ir;
    Op *loop = k->loop;
    const Type *types[MOST_CARRIED];
    Value *none[MOST_CARRIED];
    int n = loop->n_results;
    for (int i = 0; i < n; i++) {
        types[i] = result(loop, i)->type;
        none[i] = operand(loop, 2 + i);
    }
    find_gone(k);
    Builder b = build_before(ir, loop);
    Value *some = build_binary(&b, OP_LT, operand(loop, 0), operand(loop, 1));
    Op *branch = build_op(&b, OP_IF, 1, &some, n, types, 2);
    Builder yes = build_at_end(ir, branch->regions[0], loop->loc);
    Builder no = build_at_end(ir, branch->regions[1], loop->loc);
    op_set_flag(ir, k->s.device, A_SKEWED, true);
    build_some(k, &yes);
    build_yield(&no, n, none);
    for (int i = 0; i < n; i++) {
        result(branch, i)->name = result(loop, i)->name;
        value_replace(result(loop, i), result(branch, i));
    }
    op_erase(loop);
}

/* ---- the pass ------------------------------------------------------------------------------ */

static void visit_skew_loop(Op *op, void *arg) {
    Skew k = {.s = *(Async *)arg, .loop = op};
    if (op->code != OP_FOR || op->n_regions != 1 || op->n_results > MOST_CARRIED) return;
    k.body = op->regions[0];
    find_numbers(&k);
    if (is_ready(&k) && fits(&k)) rewrite_skewed(&k);
}

void pass_skew(PassEnv *env, Op *module) {
    if (!env->gpu || env->skew <= 0) return;
    for_each_op(op, module->regions[0]) {
        Async s = {.env = env, .ir = env->ir, .ctx = ir_ctx(env->ir), .target = env->gpu};
        s.module = module;
        s.device = op;
        if (op->code == OP_DEVICE) op_walk_post(op, visit_skew_loop, &s);
    }
}
