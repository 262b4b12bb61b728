// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// rematerialize: keeps rows in their narrow form while they wait for a reduction.
//
//   %v = cast %x : bf16 -> f32;  %s = reduce %v;  use %v, %s
//   ->
//   %x0 = renew %x [pack];  %v = cast %x0;  %s = reduce %v
//   %x1 = renew %x0;  %v1 = cast %x1;  use %v1, %s
//
// At a reduction the threads of a CTA wait for each other, and every value that is used on both
// sides is live. If a few ops compute such a value from narrower elements, the pass repeats these
// ops after the reduction. An assembler would merge the two copies; `renew` hides that they are
// equal. `renew` costs half an instruction an element. So the pass applies only if one more CTA
// fits an SM without the wide elements: the only CTA, or a second one that uses memory while the
// first one waits.
#include "passes/gpu/gpu.h"
#include "passes/gpu/layouts.h"

#include "passes/passes.h"
#include "passes/util.h"

enum {
    OTHER_REGISTERS = 28, // of a thread, besides rows
    MOST_OPS = 6,         // that are repeated
    NARROW_BITS = 16,
    MOST_VALUES = 16, // that are live at a reduction
};

typedef struct Renew {
    PassEnv *env;
    Ctx *ctx;
    Region *body; // straight-line code of a device or a loop
    int threads;
    PtrMap heavy; // cache of is_heavy: v -> v (true), or the pass (false)
} Renew;

/* ---- values in registers ------------------------------------------------------------------- */

static bool is_heavy(Renew *s, Value *v);

/// Whether v takes registers. Lane numbers, their masks and broadcasts do not: they are made at
/// their uses.
static bool find_heavy(Renew *s, const Value *v) {
    const Op *op = v->def;
    if (!op || !v->type->layout) return false;
    if (op->code == OP_CONST || op->code == OP_IOTA || op->code == OP_BROADCAST) return false;
    if (!op_is_lanewise(op) && op->code != OP_RESHAPE) return true;
    for (int i = 0; i < op->n_operands; i++)
        if (is_heavy(s, operand(op, i))) return true;
    return false;
}

static bool is_heavy(Renew *s, Value *v) {
    void *known = map_get(&s->heavy, v);
    if (known) return known == v;
    bool yes = find_heavy(s, v);
    map_set(s->ctx, &s->heavy, v, yes ? (void *)v : (void *)s);
    return yes;
}

static double register_words(const Value *v) {
    return (double)layout_registers(v->type->layout) * elem_info[v->type->elem].bits / 32;
}

/* ---- values live at a reduction ------------------------------------------------------------ */

typedef struct Living {
    Value *value, *root; // the block that it is recomputed from, or NULL
} Living;

/// The ops to repeat, each once.
typedef struct Chain {
    const Value *seen[MOST_OPS];
    int n;
} Chain;

static bool is_counted_in_chain(Chain *c, const Value *v) {
    for (int i = 0; i < c->n; i++)
        if (c->seen[i] == v) return true;
    if (c->n == MOST_OPS) return false;
    c->seen[c->n++] = v;
    return true;
}

/// Returns the one narrow block from which a few ops compute v, or NULL.
static Value *root_of(Renew *s, Value *v, Chain *c) {
    Value *root = NULL;
    if (v->def->parent != s->body) return NULL;
    if (elem_info[v->type->elem].bits <= NARROW_BITS && v->type->elem != EL_BOOL) return v;
    if (!op_is_lanewise(v->def) || !is_counted_in_chain(c, v)) return NULL;
    for (int i = 0; i < v->def->n_operands; i++) {
        Value *x = operand(v->def, i);
        if (!is_heavy(s, x)) continue;
        Value *of = root_of(s, x, c);
        if (!of || (root && of != root)) return NULL;
        root = of;
    }
    return root;
}

static bool is_used_behind(const Value *v, const Op *meet) {
    for_each_use(u, v) if (op_before(meet, u->user)) return true;
    return false;
}

/// Collects the heavy values that are used on both sides of `meet`. Returns -1 if there are too
/// many.
static int living_at(Renew *s, const Op *meet, Living *out) {
    int n = 0;
    for_each_op(op, s->body) {
        if (op == meet) break;
        for (int i = 0; i < op->n_results; i++) {
            Value *v = result(op, i);
            if (!is_heavy(s, v) || !is_used_behind(v, meet)) continue;
            if (n == MOST_VALUES) return -1;
            Chain c = {.n = 0};
            out[n++] = (Living){v, root_of(s, v, &c)};
        }
    }
    return n;
}

/// Computes the live words of a thread at `meet`, before and after the rewrite.
static void count_living_words(Renew *s, const Op *meet, double *before, double *after) {
    Living l[MOST_VALUES];
    int n = living_at(s, meet, l);
    double now = 0, then = 0;
    for (int i = 0; i < n; i++) {
        Value *rest = l[i].root ? l[i].root : l[i].value;
        bool first = true;
        for (int k = 0; k < i; k++) first &= (l[k].root ? l[k].root : l[k].value) != rest;
        now += register_words(l[i].value);
        if (first) then += register_words(rest);
    }
    *before = now > *before ? now : *before;
    *after = then > *after ? then : *after;
}

/* ---- the pass ------------------------------------------------------------------------------ */

/// Whether the body is straight-line code with reductions, at which the threads of a CTA meet.
static bool meets_straight(const Region *body) {
    bool meets = false;
    for_each_op(op, body) {
        if (op->n_regions && op->code != OP_REDUCE) return false;
        meets |= op->code == OP_REDUCE;
    }
    return meets;
}

static bool is_worth_it(Renew *s) {
    const GpuTarget *t = s->env->gpu;
    double before = 0, after = 0, carried = 0;
    for_each_op(op, s->body) if (op->code == OP_REDUCE) count_living_words(s, op, &before, &after);
    for (int i = 0; i < s->body->n_args; i++)
        if (s->body->args[i]->type->layout) carried += register_words(s->body->args[i]);
    double each = (double)t->registers_sm / s->threads, other = OTHER_REGISTERS + carried;
    int beside = (int)(each / (other + before));
    return beside < 2 && (int)(each / (other + after)) > beside;
}

static Value *build_renew(Renew *s, Builder *b, Value *x, bool pack) {
    Op *op = build_op(b, OP_RENEW, 1, &x, 1, &x->type, 0);
    if (pack) op_set_flag(s->env->ir, op, A_PACK_WORDS, true);
    map_set(s->ctx, &s->heavy, result(op, 0), result(op, 0));
    return result(op, 0);
}

/// Rebuilds v from the blocks in `map`.
static Value *recompute_from_map(Renew *s, Builder *b, Value *v, PtrMap *map) {
    Value *copy = map_get(map, v);
    if (copy || !is_heavy(s, v)) return copy ? copy : v;
    for (int i = 0; i < v->def->n_operands; i++) recompute_from_map(s, b, operand(v->def, i), map);
    copy = result(op_clone(b, v->def, map), 0);
    map_set(s->ctx, &s->heavy, copy, copy);
    return copy;
}

static void replace_behind(Value *v, const Op *made, Value *with) {
    for (Use *u = v->uses, *next; u; u = next) {
        next = u->next;
        if (op_before(made, u->user)) op_set_operand(u->user, u->index, with);
    }
}

/// Recomputes the values that are live at `meet` after it.
static void renew_at(Renew *s, Op *meet) {
    Living l[MOST_VALUES];
    PtrMap map = {0};
    int n = living_at(s, meet, l);
    Builder b = build_before(s->env->ir, meet->next);
    for (int i = 0; i < n; i++) {
        if (!l[i].root || map_get(&map, l[i].root)) continue;
        map_set(s->ctx, &map, l[i].root, build_renew(s, &b, l[i].root, false));
    }
    Value *with[MOST_VALUES];
    for (int i = 0; i < n; i++)
        with[i] = l[i].root ? recompute_from_map(s, &b, l[i].value, &map) : NULL;
    const Op *last = b.before->prev;
    for (int i = 0; i < n; i++)
        if (with[i]) replace_behind(l[i].value, last, with[i]);
}

/// Packs the elements into words right after the load. If x is computed by lanewise ops, packs the
/// loads that it is computed from.
static void pack_loads(Renew *s, Value *x, Chain *c) {
    if (x->def->code == OP_LOAD && elem_info[x->type->elem].bits <= NARROW_BITS) {
        Builder b = build_before(s->env->ir, x->def->next);
        Value *packed = build_renew(s, &b, x, true);
        replace_behind(x, packed->def, packed);
    } else if (op_is_lanewise(x->def) && is_counted_in_chain(c, x)) {
        for (int i = 0; i < x->def->n_operands; i++)
            if (is_heavy(s, operand(x->def, i))) pack_loads(s, operand(x->def, i), c);
    }
}

static void pack_roots(Renew *s, const Op *meet) {
    Living l[MOST_VALUES];
    int n = living_at(s, meet, l);
    for (int i = 0; i < n; i++) {
        Chain c = {.n = 0};
        if (l[i].root) pack_loads(s, l[i].root, &c);
    }
}

/// Handles an iteration like a whole device: a loop over rows holds one iteration's rows at a time.
static void renew_body(PassEnv *env, Region *body, int threads) {
    for_each_op(op, body) if (op->code == OP_FOR) renew_body(env, op->regions[0], threads);
    if (!meets_straight(body)) return;
    Renew *s = ctx_new(ir_ctx(env->ir), Renew);
    *s = (Renew){.env = env, .ctx = ir_ctx(env->ir), .body = body, .threads = threads};
    if (!is_worth_it(s)) return;
    for_each_op(meet, body) if (meet->code == OP_REDUCE) pack_roots(s, meet);
    for_each_op(meet, body) if (meet->code == OP_REDUCE) renew_at(s, meet);
}

void pass_rematerialize(PassEnv *env, Op *module) {
    if (!env->gpu || gpu_has_any(env->gpu, GPU_AMD)) return;
    for_each_op(op, module->regions[0]) {
        int threads = (int)op_int(op, A_WARPS, 1) * env->gpu->lanes;
        if (op->code == OP_DEVICE) renew_body(env, op->regions[0], threads);
    }
}
