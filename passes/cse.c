// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// cse: merges equal computations into the first one.
//
//   %a = load %x ...; %b = load %x ...   ->   %a for both, if no op between writes %x
//
// The table of known values follows the nesting of regions: a region knows the values before it,
// and its own values are forgotten at its end. A load equals an earlier one if the tensor has the
// same version. A write, or a loop that holds one, gives the tensor a new version.
#include "passes/passes.h"
#include "passes/util.h"

typedef struct KnownOp {
    Op *op;
    uint64_t hash;
    int64_t version; // of the tensor, for loads
    struct KnownOp *next;
} KnownOp;

enum { BUCKETS = 1024 };

typedef struct Cse {
    Ctx *ctx;
    KnownOp *buckets[BUCKETS];
    VEC(KnownOp *) scope; // in order of insertion, so that leaving a region undoes it
    PtrMap versions;      // tensor -> counter at its last write
    int64_t counter;
} Cse;

static uint64_t mix_hash(uint64_t h, uint64_t x) {
    return (h ^ x) * 0x9e3779b97f4a7c15u + (h >> 29);
}
static uint64_t mix_pointer(uint64_t h, const void *p) {
    return mix_hash(h, (uint64_t)(uintptr_t)p);
}

/// Hashes op without its regions, which are compared only if everything else is equal.
static uint64_t hash_op(const Op *op) {
    uint64_t h = mix_hash(0, op->code);
    for (int i = 0; i < op->n_operands; i++) h = mix_pointer(h, operand(op, i));
    for (int i = 0; i < op->n_results; i++) h = mix_pointer(h, result(op, i)->type);
    for (int i = 0; i < op->n_attrs; i++) h = mix_pointer(h, op->attrs[i].value);
    return h ^ (h >> 32);
}

static bool same_op(const Op *a, const Op *b, const PtrMap *map);

/// Whether the regions are equal up to the names of their own values. map takes those of a to those
/// of b.
static bool same_region(Ctx *ctx, const Region *a, const Region *b, PtrMap *map) {
    if (a->n_args != b->n_args) return false;
    for (int i = 0; i < a->n_args; i++) map_set(ctx, map, a->args[i], b->args[i]);
    const Op *y = b->first;
    for (const Op *x = a->first; x; x = x->next, y = y->next) {
        if (!y || x->n_regions || !same_op(x, y, map)) return false;
        for (int i = 0; i < x->n_results; i++) map_set(ctx, map, result(x, i), result(y, i));
    }
    return y == NULL;
}

static bool same_op(const Op *a, const Op *b, const PtrMap *map) {
    if (a->code != b->code || a->n_operands != b->n_operands || a->n_results != b->n_results ||
        a->n_attrs != b->n_attrs || a->n_regions != b->n_regions)
        return false;
    for (int i = 0; i < a->n_operands; i++) {
        Value *v = map ? map_get(map, operand(a, i)) : NULL;
        if ((v ? v : operand(a, i)) != operand(b, i)) return false;
    }
    for (int i = 0; i < a->n_results; i++)
        if (result(a, i)->type != result(b, i)->type) return false;
    for (int i = 0; i < a->n_attrs; i++)
        if (a->attrs[i].id != b->attrs[i].id || a->attrs[i].value != b->attrs[i].value)
            return false;
    return true;
}

bool regions_equal(Ctx *ctx, const Region *a, const Region *b) {
    PtrMap map = {0};
    return same_region(ctx, a, b, &map);
}

static bool equal_ops(Ctx *ctx, const Op *a, const Op *b) {
    if (!same_op(a, b, NULL)) return false;
    PtrMap map = {0};
    for (int i = 0; i < a->n_regions; i++)
        if (!same_region(ctx, a->regions[i], b->regions[i], &map)) return false;
    return true;
}

static int64_t version_of(const Cse *c, const Op *op) {
    return op_is_load(op) ? (int64_t)(intptr_t)map_get(&c->versions, operand(op, 0)) : 0;
}

static void new_version(Cse *c, Value *tensor) {
    map_set(c->ctx, &c->versions, tensor, (void *)(intptr_t)++c->counter);
}

/// Gives new versions to all tensors that op, or anything inside it, writes.
static void written_by(Op *op, void *arg) {
    Cse *c = arg;
    if (op_writes(op))
        for (int i = 0; i < op->n_operands; i++)
            if (operand(op, i)->type->kind == TK_TENSOR) new_version(c, operand(op, i));
}

/// Returns a known op that computes the same as op, or NULL; then op becomes known.
static Op *find_known_op(Cse *c, Op *op) {
    uint64_t hash = hash_op(op);
    KnownOp **bucket = &c->buckets[hash % BUCKETS];
    int64_t version = version_of(c, op);
    for (KnownOp *k = *bucket; k; k = k->next)
        if (k->hash == hash && k->version == version && equal_ops(c->ctx, k->op, op)) return k->op;
    KnownOp *k = ctx_new(c->ctx, KnownOp);
    *k = (KnownOp){op, hash, version, *bucket};
    *bucket = k;
    vec_push(c->ctx, &c->scope, k);
    return NULL;
}

static void visit_cse_region(Cse *c, Region *r);

static void visit_cse_op(Cse *c, Op *op) {
    bool candidate = (op_has(op, PURE) || op_is_load(op)) && op->n_results > 0;
    Op *first = candidate ? find_known_op(c, op) : NULL;
    if (first) {
        for (int i = 0; i < op->n_results; i++) value_replace(result(op, i), result(first, i));
        op_erase(op);
        return;
    }
    bool repeats = op_is_loop(op); // the body starts after the writes of earlier iterations
    if (repeats) op_walk_pre(op, written_by, c);
    if (!op_has(op, PURE))
        for (int i = 0; i < op->n_regions; i++) visit_cse_region(c, op->regions[i]);
    op_walk_pre(op, written_by, c);
}

static void visit_cse_region(Cse *c, Region *r) {
    int mark = c->scope.n;
    for_each_op_safe(op, r) visit_cse_op(c, op);
    while (c->scope.n > mark) {
        KnownOp *k = c->scope.data[--c->scope.n];
        c->buckets[k->hash % BUCKETS] = k->next;
    }
}

void pass_cse(PassEnv *env, Op *module) {
    for_each_op(op, module->regions[0]) {
        Cse *c = ctx_new(ir_ctx(env->ir), Cse);
        c->ctx = ir_ctx(env->ir);
        visit_cse_region(c, op->regions[0]);
    }
    pass_dce(env, module);
}
