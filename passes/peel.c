// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// peel: gives partial tiles their own code, so that full tiles need no masks.
//
//   for %k = 0 .. N by 64 { %n = min(N - %k, 64); f(%n) }
//   -> for %k = 0 .. N / 64 * 64 by 64 { f(64) }; for %k = N / 64 * 64 .. N by 64 { ...; f(%n) }
//
//   parallel %i by 64 { %n = min(N - %i, 64); f(%n) }
//   -> parallel %i by 64 { if %n == 64 { f(64) } else { f(%n) } }
//
// The pass serves CPUs with slow masked accesses (AVX2). CPUs with mask registers, that is with
// vectors of 64 bytes, are left alone: their back end emits a body without masks for the vectors
// that need none (backends/cpu/unmasked.c). The pass handles innermost loops, and programs without
// loops, that access memory under such a count. Products are left alone, since their operands are
// packed to full tiles anyway.
#include "passes/grid.h"
#include "passes/passes.h"
#include "passes/util.h"

enum {
    MAX_OPS = 150,      // of a body that may be duplicated
    MASKED_VECTOR = 64, // bytes of a vector with mask registers
};

/* ---- partial tiles ------------------------------------------------------------------------- */

/// Whether v = min(hi - index, size), the live lanes of a tile. Sets *size.
static bool is_count(const Value *v, const Value *index, const Value *hi, int64_t *size) {
    const Op *min = def_of(v, OP_MIN);
    for (int i = 0; i < 2 && min; i++) {
        const Op *left = def_of(operand(min, i), OP_SUB);
        if (left && operand(left, 0) == hi && operand(left, 1) == index)
            return const_int(operand(min, !i), size);
    }
    return false;
}

/// Whether an access in the region has v as its count.
static bool limits_access(const Region *r, const Value *v) {
    for_each_op(op, r) {
        for (int i = 0; i < op->n_operands; i++)
            if (operand(op, i) == v && (op->code == OP_LOAD || op->code == OP_STORE)) return true;
        for (int i = 0; i < op->n_regions; i++)
            if (limits_access(op->regions[i], v)) return true;
    }
    return false;
}

/// Counts the ops in the region. The result exceeds any limit if an op should not be duplicated.
static int weigh_region(const Region *r) {
    int n = 0;
    for_each_op(op, r) {
        bool heavy = op->code == OP_DOT || op->code == OP_CONTRACT || op->code == OP_SORT ||
                     op->code == OP_SCAN || op_is_loop(op) || op->code == OP_PRINT;
        n += heavy ? MAX_OPS + 1 : 1;
        for (int i = 0; i < op->n_regions && !op_has(op, PURE); i++)
            n += weigh_region(op->regions[i]);
    }
    return n;
}

/* ---- loops --------------------------------------------------------------------------------- */

/// Returns the count of a loop's tiles in its body, if the step is at least the size; else NULL.
static Op *tile_count(const Op *loop, int64_t *size) {
    const Region *body = loop->regions[0];
    for_each_op(op, body) {
        if (op->code == OP_MIN && is_count(result(op, 0), body->args[0], operand(loop, 1), size) &&
            *size <= op_int(loop, A_STEP, 1) && limits_access(body, result(op, 0)))
            return op;
    }
    return NULL;
}

static Value *end_of_full_tiles(Builder *b, const Op *loop) {
    Value *lo = operand(loop, 0), *hi = operand(loop, 1), *zero = build_index(b, 0);
    Value *step = build_index(b, op_int(loop, A_STEP, 1));
    Value *length = ix_max(b, ix_sub(b, hi, lo), zero);
    return ix_add(b, lo, ix_mul(b, ix_div(b, length, step), step));
}

static void peel_loop(Ir *ir, Op *loop) {
    int64_t size;
    Op *count = tile_count(loop, &size);
    if (!count || weigh_region(loop->regions[0]) > MAX_OPS) return;
    Builder b = build_before(ir, loop);
    Value *end = end_of_full_tiles(&b, loop);
    PtrMap map = {0};
    Op *full = op_clone(&b, loop, &map);
    op_set_operand(full, 1, end);
    Value *copy = map_get(&map, result(count, 0));
    Builder in = build_before(ir, copy->def);
    value_replace(copy, build_index(&in, size));
    op_set_operand(loop, 0, end);
    for (int i = 0; i < loop->n_results; i++) op_set_operand(loop, i + 2, result(full, i));
}

/* ---- programs ------------------------------------------------------------------------------ */

enum { MAX_COUNTS = 8 };

typedef struct RangeCounts {
    int n;
    Value *count[MAX_COUNTS];
    int64_t size[MAX_COUNTS];
} RangeCounts;

/// Collects the counts of the tiles of one program, from the whole nest.
static void find_counts(Op *phase, const Region *body, RangeCounts *c) {
    for (Op *p = phase; p; p = inner_parallel(p)) {
        Value *index = p->regions[0]->args[0];
        for_each_use(left, index) {
            if (left->user->code != OP_SUB) continue;
            for_each_use(u, result(left->user, 0)) {
                Value *v = u->user->code == OP_MIN ? result(u->user, 0) : NULL;
                if (v && c->n < MAX_COUNTS && is_count(v, index, operand(p, 1), &c->size[c->n]) &&
                    limits_access(body, v))
                    c->count[c->n++] = v;
            }
        }
    }
}

static Op *innermost_phase(Op *phase) {
    Op *next = inner_parallel(phase);
    return next ? innermost_phase(next) : phase;
}

/// Returns the op after the last count in the body. Both versions share the ops before it. NULL:
/// these ops have effects.
static Op *behind_counts(const Region *body, const RangeCounts *c) {
    Op *first = body->first;
    for (int i = 0; i < c->n; i++) {
        Op *def = c->count[i]->def;
        if (def->parent == body && (def == first || op_before(first, def))) first = def->next;
    }
    for (Op *op = body->first; op != first; op = op->next)
        if (!op_has(op, PURE)) return NULL;
    return first;
}

static bool is_in_region(const Op *op, const Region *region) {
    for (const Region *r = op->parent; r; r = r->parent->parent)
        if (r == region) return true;
    return false;
}

/// Replaces uses of the counts in the region by the full sizes.
static void fill_counts(Builder *b, const RangeCounts *c, const Region *region) {
    for (int i = 0; i < c->n; i++) {
        Value *size = build_index(b, c->size[i]);
        for (Use *u = c->count[i]->uses, *next; u; u = next) {
            next = u->next;
            if (is_in_region(u->user, region)) op_set_operand(u->user, u->index, size);
        }
    }
}

static Value *all_full(Builder *b, const RangeCounts *c) {
    Value *full = NULL;
    for (int i = 0; i < c->n; i++) {
        Value *is = build_binary(b, OP_EQ, c->count[i], build_index(b, c->size[i]));
        full = full ? build_binary(b, OP_AND, full, is) : is;
    }
    return full;
}

static void version_programs(Ir *ir, Op *phase) {
    Region *body = innermost_phase(phase)->regions[0];
    RangeCounts c = {0};
    find_counts(phase, body, &c);
    Op *first = c.n && weigh_region(body) <= MAX_OPS ? behind_counts(body, &c) : NULL;
    if (!first) return;
    Builder b = build_before(ir, first);
    Value *full = all_full(&b, &c);
    Op *branch = build_op(&b, OP_IF, 1, &full, 0, NULL, 2);
    Region *then = branch->regions[0], *otherwise = branch->regions[1];
    for (Op *op = first, *next; op != terminator(body); op = next) {
        next = op->next;
        op_move_to_end(op, otherwise);
    }
    PtrMap map = {0};
    Builder in = build_at_end(ir, then, phase->loc);
    region_clone_body(&in, otherwise, &map);
    build_yield(&in, 0, NULL);
    in = build_at_end(ir, otherwise, phase->loc);
    build_yield(&in, 0, NULL);
    b = build_before(ir, branch);
    fill_counts(&b, &c, then);
}

static void peel_or_version(Op *op, void *arg) {
    PassEnv *env = arg;
    bool in_program = op_enclosing(op, OP_PARALLEL) != NULL;
    if (op->code == OP_FOR && in_program && op->n_regions == 1)
        peel_loop(env->ir, op);
    else if (op->code == OP_PARALLEL && !in_program)
        version_programs(env->ir, op);
}

void pass_peel(PassEnv *env, Op *module) {
    if (env->vector_bytes < MASKED_VECTOR) op_walk_post(module, peel_or_version, env);
}
