// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// masks: tests cheaply whether a mask cuts nothing off, since most iterations need no mask.
//
//   %c = lt iota, %n; %y = select %c, %x, -inf       (%n the same in all lanes)
//   -> %y = if %n >= 128 { yield %x } { %c = ...; %y = select %c, %x, -inf; yield }
//
// Scalars bound the lanes of a mask: an iota lies between 0 and its last number, a sum between the
// sums of bounds, and so does a constant multiple. If even the worst lane passes, the whole mask is
// true. This is the case for tiles inside a sequence, for tiles off the diagonal of a causal mask,
// and for tiles between both edges of a window.
#include "passes/gpu/gpu.h"
#include "passes/gpu/narrow.h"
#include "passes/passes.h"
#include "passes/util.h"

enum { MAX_DEPTH = 24, LEAST_LANES = 2048, MAX_FACTOR = 1 << 10 };

/// Scalar bounds of all lanes of an i64 block.
typedef struct MaskSpan {
    Value *lo, *hi;
} MaskSpan;

static bool is_shape_op(const Op *op) {
    switch (op->code) {
    case OP_BROADCAST:
    case OP_RESHAPE:
    case OP_PERMUTE:
    case OP_CONVERT: return true;
    default: return false;
    }
}

/// Returns the scalar in i64, or NULL. Clamped scalars of i32 do not wrap in a sum with positions.
static Value *wide_scalar(Builder *b, Value *v) {
    if (v->type->elem == EL_I64) return v;
    const Op *cast = def_of(v, OP_CAST);
    bool clamped = cast && is_clamped(operand(cast, 0), NARROW_LIMIT);
    return clamped || const_of(v) ? build_cast(b, v, EL_I64) : NULL;
}

static bool is_constant_span(const MaskSpan *x) {
    int64_t c;
    return const_int(x->lo, &c) && const_int(x->hi, &c);
}

static bool span_of_block(Builder *b, Value *v, int depth, MaskSpan *out);

static bool span_of_sum(Builder *b, const Op *op, int depth, MaskSpan *out) {
    MaskSpan x, y;
    if (!span_of_block(b, operand(op, 0), depth - 1, &x) ||
        !span_of_block(b, operand(op, 1), depth - 1, &y))
        return false;
    // Two clamped scalars may wrap.
    bool wraps = op->n_results && result(op, 0)->type->elem == EL_I32;
    if (wraps && !is_constant_span(&x) && !is_constant_span(&y)) return false;
    bool add = op->code == OP_ADD;
    *out = (MaskSpan){add ? ix_add(b, x.lo, y.lo) : ix_sub(b, x.lo, y.hi),
                      add ? ix_add(b, x.hi, y.hi) : ix_sub(b, x.hi, y.lo)};
    return true;
}

/// A block times a small constant: a negative one swaps the bounds. Only constant bounds are
/// multiplied, since scalars may wrap.
static bool span_of_product(Builder *b, const Op *op, int depth, MaskSpan *out) {
    int64_t c = -1;
    MaskSpan x;
    if (op->code == OP_MUL && !const_int(operand(op, 1), &c)) return false;
    if (c < -MAX_FACTOR || c > MAX_FACTOR || !span_of_block(b, operand(op, 0), depth - 1, &x))
        return false;
    if (c != -1 && !is_constant_span(&x)) return false;
    Value *lo = ix_mul(b, x.lo, build_index(b, c)), *hi = ix_mul(b, x.hi, build_index(b, c));
    *out = c < 0 ? (MaskSpan){hi, lo} : (MaskSpan){lo, hi};
    return true;
}

/// Builds the bounds of v at b. Returns false if they are unknown.
static bool span_of_block(Builder *b, Value *v, int depth, MaskSpan *out) {
    const Type *t = v->type;
    if ((t->elem != EL_I64 && t->elem != EL_I32) || !depth) return false;
    if (ty_is_scalar(t)) {
        Value *s = wide_scalar(b, v);
        *out = (MaskSpan){s, s};
        return s != NULL;
    }
    const Op *op = v->def;
    if (!op) return false;
    if (op->code == OP_IOTA) {
        *out = (MaskSpan){build_index(b, 0), build_index(b, t->extents[0] - 1)};
        return true;
    }
    int64_t c;
    if (const_int(v, &c)) {
        *out = (MaskSpan){build_index(b, c), build_index(b, c)};
        return true;
    }
    if (is_shape_op(op)) return span_of_block(b, operand(op, 0), depth - 1, out);
    if (op->code == OP_MUL || op->code == OP_NEG) return span_of_product(b, op, depth, out);
    return (op->code == OP_ADD || op->code == OP_SUB) && span_of_sum(b, op, depth, out);
}

/// Returns a scalar that implies that all lanes of the mask are true. NULL: unknown.
static Value *all_lanes(Builder *b, Value *mask, int depth) {
    const Op *op = mask->def;
    MaskSpan x, y;
    if (!op || !depth) return NULL;
    if (is_shape_op(op)) {
        if (ty_is_scalar(operand(op, 0)->type)) return operand(op, 0);
        return all_lanes(b, operand(op, 0), depth - 1);
    }
    if (op->code == OP_AND) {
        Value *p = all_lanes(b, operand(op, 0), depth - 1);
        Value *q = p ? all_lanes(b, operand(op, 1), depth - 1) : NULL;
        return q ? build_binary(b, OP_AND, p, q) : NULL;
    }
    if (op->code == OP_OR) {
        Value *p = all_lanes(b, operand(op, 0), depth - 1);
        Value *q = all_lanes(b, operand(op, 1), depth - 1);
        return p && q ? build_binary(b, OP_OR, p, q) : p ? p : q;
    }
    bool less = op->code == OP_LT || op->code == OP_LE;
    if (!less && op->code != OP_GT && op->code != OP_GE) return NULL;
    if (!span_of_block(b, operand(op, 0), depth, &x) ||
        !span_of_block(b, operand(op, 1), depth, &y))
        return NULL;
    return build_binary(b, op->code, less ? x.hi : x.lo, less ? y.lo : y.hi);
}

/// Clones the mask at b: the ops that all_lanes looked through, and the blocks that they use.
static Value *recompute_mask(Builder *b, Value *v, PtrMap *map) {
    Value *copy = map_get(map, v);
    if (copy || ty_is_scalar(v->type) || !v->def || !op_has(v->def, PURE)) return copy ? copy : v;
    for (int i = 0; i < v->def->n_operands; i++) recompute_mask(b, operand(v->def, i), map);
    op_clone(b, v->def, map);
    return map_get(map, v);
}

static bool is_in_loop(const Op *op) {
    return op_enclosing(op, OP_FOR) || op_enclosing(op, OP_WHILE);
}

/// Moves the select into the branch that needs it, and the mask as well if it has no other use.
static void ask_first(Op *op, void *arg) {
    Ir *ir = arg;
    if (op->code != OP_SELECT || !is_in_loop(op)) return;
    const Type *type = result(op, 0)->type;
    Value *mask = operand(op, 0);
    if (!type->rank || ty_count(type) < LEAST_LANES || !mask->def) return;
    Builder b = build_before(ir, op);
    Value *all = all_lanes(&b, mask, MAX_DEPTH);
    if (!all || all->def == NULL || const_of(all)) return;
    Op *branch = build_op(&b, OP_IF, 1, &all, 1, &type, 2);
    Builder yes = build_at_end(ir, branch->regions[0], op->loc);
    Builder no = build_at_end(ir, branch->regions[1], op->loc);
    Value *x = operand(op, 1);
    build_yield(&yes, 1, &x);
    PtrMap map = {0};
    Value *y = build_select(&no, recompute_mask(&no, mask, &map), x, operand(op, 2));
    build_yield(&no, 1, &y);
    value_replace(result(op, 0), result(branch, 0));
    op_erase(op);
}

void pass_masks(PassEnv *env, Op *module) {
    if (!env->gpu) return;
    for_each_op(op, module->regions[0]) {
        if (op->code == OP_DEVICE) op_walk_post(op, ask_first, env->ir);
    }
    pass_dce(env, module);
}
