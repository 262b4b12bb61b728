// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// narrow: compares positions in 32 bits, and divides numbers of programs in 32 bits
// (narrow_divide.c).
//
//   lt (broadcast %m + iota), (broadcast %n + reshape iota) : i64<64x64>
//   -> %s = clamp(%m - %n) : i32
//      lt (broadcast (iota + %s) : i32<64x1>), (broadcast iota : i32<1x64>)
//
// A position is a sum of scalars and of lane numbers times constants. Lanes change the difference
// of both sides by at most M. So the difference of the scalars, clamped to +-2^30 > M, decides like
// the exact one. Each side then depends on one axis, and only the comparison itself is computed for
// all lanes of the block. The sums must not wrap: the scalars must provably stay within +-2^61.
// They come from dims, numbers of programs, 32-bit integers and constants.
#include "passes/gpu/narrow.h"
#include "passes/gpu/gpu.h"
#include "passes/passes.h"
#include "passes/range/range_private.h"
#include "passes/util.h"

enum { MAX_DEPTH = 12, SMALL_FACTOR = 1 << 10 };

/// The sum of factor[d] times the lane number along axis d, plus a scalar.
typedef struct Affine {
    int rank;
    int64_t extents[MAX_RANK], factor[MAX_RANK];
    Value *scalar; // i64, or NULL for 0
} Affine;

/* ---- scalars ------------------------------------------------------------------------------- */

// A scalar is *modest* within these bounds. Two modest scalars plus all lanes stay below 2^63, so
// sums do not wrap.
#define MODEST       ((Wide)1 << 61)
#define MOST_PROGRAM INT32_MAX
#define ANY          ((Interval){INT64_MIN, INT64_MAX})

typedef struct Narrow {
    PassEnv *env;
    Builder b;     // before the current comparison
    PtrMap bounds; // visited scalars -> their Interval
} Narrow;

static Interval bounds_of(Narrow *n, const Value *v);

/// Bounds of a region's argument: the number of a program, or the index of a loop.
static Interval bounds_of_argument(Narrow *n, const Value *v) {
    const Op *owner = v->region->parent;
    if (v->index > 0) return type_interval(v->type->elem);
    if (owner->code == OP_LAUNCH) return (Interval){0, MOST_PROGRAM};
    if (owner->code != OP_FOR || v->region != owner->regions[0] || op_int(owner, A_STEP, 1) == 0)
        return type_interval(v->type->elem);
    Interval lo = bounds_of(n, operand(owner, 0)), hi = bounds_of(n, operand(owner, 1));
    return (Interval){lo.lo, hi.hi - 1 > lo.lo ? hi.hi - 1 : lo.lo};
}

static Interval bounds_of_sum(const Op *op, const Interval *x) {
    Interval all = type_interval(result(op, 0)->type->elem);
    Interval sum = op->code == OP_ADD ? (Interval){x[0].lo + x[1].lo, x[0].hi + x[1].hi}
                                      : (Interval){x[0].lo - x[1].hi, x[0].hi - x[1].lo};
    return sum.lo >= all.lo && sum.hi <= all.hi ? sum : all;
}

/// Bounds by the rules of `range`. Sums have their own rule here, since `range` keeps them as
/// linear forms.
static Interval bounds_of_value(Narrow *n, const Value *v) {
    int64_t c;
    Interval x[3];
    if (const_int(v, &c)) return (Interval){c, c};
    if (v->type->kind != TK_BLOCK || v->type->rank) return ANY;
    if (!v->def) return bounds_of_argument(n, v);
    const Op *op = v->def;
    if (op->n_regions || op->n_operands > 3) return type_interval(v->type->elem);
    for (int i = 0; i < op->n_operands; i++) x[i] = bounds_of(n, operand(op, i));
    bool sum = op->code == OP_ADD || op->code == OP_SUB;
    return sum ? bounds_of_sum(op, x) : interval_by_rule(op, x);
}

static Interval bounds_of(Narrow *n, const Value *v) {
    const Interval *known = map_get(&n->bounds, v);
    if (known) return *known;
    Ctx *ctx = ir_ctx(n->env->ir);
    Interval x = bounds_of_value(n, v);
    map_set(ctx, &n->bounds, v, ctx_copy(ctx, &x, sizeof x));
    return x;
}

static bool is_modest(Narrow *n, const Value *v) {
    Interval x = bounds_of(n, v);
    return x.lo >= -MODEST && x.hi <= MODEST;
}

static Value *add_scaled(Builder *b, Value *x, Value *y, int64_t factor) {
    if (!y) return x;
    y = ix_mul(b, y, build_index(b, factor));
    return x ? ix_add(b, x, y) : y;
}

/* ---- sums ---------------------------------------------------------------------------------- */

static bool affine_of(Narrow *n, const Value *v, Affine *out, int depth);

/// For a reshape that only adds or removes axes of one lane: matches the axes longer than 1 in
/// order.
static bool reshaped_affine(const Affine *in, const Type *to, Affine *out) {
    int d = 0;
    for (int i = 0; i < to->rank; i++) {
        if (to->extents[i] == 1) continue;
        while (d < in->rank && in->extents[d] == 1) d++;
        if (d == in->rank || in->extents[d] != to->extents[i]) return false;
        out->factor[i] = in->factor[d++];
    }
    while (d < in->rank && in->extents[d] == 1) d++;
    return d == in->rank;
}

static bool affine_of_shape_op(Narrow *n, const Op *op, Affine *out, int depth) {
    const Value *x = operand(op, 0);
    Affine in;
    if (ty_is_scalar(x->type)) {
        out->scalar = (Value *)x;
        return true;
    }
    if (!affine_of(n, x, &in, depth - 1)) return false;
    out->scalar = in.scalar;
    if (op->code == OP_RESHAPE) return reshaped_affine(&in, result(op, 0)->type, out);
    for (int d = 0; d < in.rank; d++)
        out->factor[d] = in.factor[op->code == OP_PERMUTE ? op_ints(op, A_PERM)->ints[d] : d];
    return true;
}

static bool affine_of_sum(Narrow *n, const Op *op, Affine *out, int depth) {
    Affine y;
    int64_t factor = op->code == OP_SUB ? -1 : 1;
    if (!affine_of(n, operand(op, 0), out, depth - 1) ||
        !affine_of(n, operand(op, 1), &y, depth - 1))
        return false;
    for (int d = 0; d < out->rank; d++) out->factor[d] += factor * y.factor[d];
    out->scalar = add_scaled(&n->b, out->scalar, y.scalar, factor);
    return true;
}

static bool affine_of_constant(Narrow *n, const Op *op, Affine *out, int depth) {
    int64_t c;
    (void)depth;
    if (!const_int(result(op, 0), &c)) return false;
    out->scalar = build_index(&n->b, c);
    return true;
}

static bool affine_of_iota(Narrow *n, const Op *op, Affine *out, int depth) {
    (void)n, (void)op, (void)depth;
    out->factor[0] = out->extents[0] > 1;
    return true;
}

typedef struct AffineRule {
    OpCode op;
    bool (*of)(Narrow *n, const Op *op, Affine *out, int depth);
    const char *algebra;
} AffineRule;
static const AffineRule affine_rules[] = {
    {OP_CONST, affine_of_constant, "lanes of a constant: the constant"},
    {OP_IOTA, affine_of_iota, "lanes of iota: their number"},
    {OP_BROADCAST, affine_of_shape_op, "lanes of broadcast(x): the scalar, or x by the axes"},
    {OP_RESHAPE, affine_of_shape_op, "lanes of reshape(x): x by its axes longer than 1"},
    {OP_PERMUTE, affine_of_shape_op, "lanes of permute(x): x by the axes in their order"},
    {OP_ADD, affine_of_sum, "lanes of x + y: sums of factors and scalars"},
    {OP_SUB, affine_of_sum, "lanes of x - y: differences of factors and scalars"},
};
const RuleTable narrow_affine = RULE_TABLE("narrow", AffineRule, affine_rules);

/// Writes v as an affine form. The scalar ops stand at b; unused ones are dead. Each intermediate
/// scalar must be modest, so no step wraps.
static bool affine_of(Narrow *n, const Value *v, Affine *out, int depth) {
    *out = (Affine){.rank = v->type->rank};
    for (int d = 0; d < out->rank; d++) out->extents[d] = v->type->extents[d];
    for (int i = 0; i < narrow_affine.n && v->def && depth > 0; i++) {
        if (affine_rules[i].op != v->def->code) continue;
        if (!affine_rules[i].of(n, v->def, out, depth)) return false;
        if (out->scalar && !is_modest(n, out->scalar)) return false;
        rule_applied(n->env->ir, v->def, affine_rules[i].algebra);
        return true;
    }
    return false;
}

/* ---- comparisons --------------------------------------------------------------------------- */

/// Returns the maximum change of the difference by lanes, or -1 if it is too large.
static int64_t affine_reach(const Affine *a) {
    int64_t sum = 0;
    for (int d = 0; d < a->rank; d++) {
        int64_t f = a->factor[d] < 0 ? -a->factor[d] : a->factor[d];
        if (f > SMALL_FACTOR || a->extents[d] > NARROW_LIMIT / SMALL_FACTOR / MAX_RANK) return -1;
        sum += f * a->extents[d];
    }
    return sum;
}

/// Builds factor * iota + scalar (NULL: 0) along axis d, as a block of rank 1.
static Value *affine_line(Builder *b, const Affine *a, int d, int64_t factor, Value *scalar) {
    const Type *t = ty_block(b->ir, EL_I32, 1, &a->extents[d]);
    Value *v = result(build_op(b, OP_IOTA, 0, NULL, 1, &t, 0), 0);
    if (factor != 1) v = build_binary(b, OP_MUL, v, build_int(b, t, factor));
    if (scalar) v = build_binary(b, OP_ADD, v, build_broadcast(b, scalar, t));
    return v;
}

/// Broadcasts x, which lies along axis d, to the extents of a.
static Value *block_along(Builder *b, const Affine *a, int d, Value *x) {
    int64_t extents[MAX_RANK];
    for (int i = 0; i < a->rank; i++) extents[i] = i == d ? a->extents[i] : 1;
    x = build_reshape(b, x, ty_block(b->ir, x->type->elem, a->rank, extents));
    return build_broadcast(b, x, ty_block(b->ir, x->type->elem, a->rank, a->extents));
}

static Value *clamped_difference(Builder *b, Value *s) {
    return build_clamped(b, s ? s : build_index(b, 0), NARROW_LIMIT);
}

/// Puts axis p's lanes and the scalar on the left, and the other axis' lanes on the right.
static Value *compare_two(Builder *b, OpCode code, const Affine *a, const int *axes) {
    int p = axes[0], q = axes[1];
    Value *x = affine_line(b, a, p, a->factor[p], clamped_difference(b, a->scalar));
    Value *y = affine_line(b, a, q, -a->factor[q], NULL);
    return build_binary(b, code, block_along(b, a, p, x), block_along(b, a, q, y));
}

/// If the difference depends on the lanes of one axis only: compares along that axis, then
/// broadcasts.
static Value *compare_one(Builder *b, OpCode code, const Affine *a, const int *axes) {
    int p = axes[0];
    Value *x = affine_line(b, a, p, a->factor[p], NULL);
    Value *s = clamped_difference(b, add_scaled(b, NULL, a->scalar, -1));
    return block_along(b, a, p, build_binary(b, code, x, build_broadcast(b, s, x->type)));
}

// One row for each number of axes on which the difference depends.
typedef struct CompareRule {
    Value *(*build)(Builder *b, OpCode code, const Affine *a, const int *axes);
    const char *algebra;
} CompareRule;
static const CompareRule compare_rules[] = {
    {compare_one, "f i + s < 0: f i < cut(-s), along the axis"},
    {compare_two, "f i + g j + s < 0: f i + cut(s) < -g j, an axis on each side"},
};
const RuleTable narrow_compare = RULE_TABLE("narrow", CompareRule, compare_rules);

static void narrow_comparison(Op *op, void *arg) {
    Narrow *n = arg;
    if (!op_has(op, COMPARES) || op->n_operands != 2) return;
    const Type *t = operand(op, 0)->type;
    if (t->elem != EL_I64 || !t->rank || !op_enclosing(op, OP_LAUNCH)) return;
    n->b = build_before(n->env->ir, op);
    Builder *b = &n->b;
    Affine a, y;
    if (!affine_of(n, operand(op, 0), &a, MAX_DEPTH) ||
        !affine_of(n, operand(op, 1), &y, MAX_DEPTH))
        return;
    for (int d = 0; d < a.rank; d++) a.factor[d] -= y.factor[d];
    a.scalar = add_scaled(b, a.scalar, y.scalar, -1);
    int axes[MAX_RANK], count = 0;
    for (int d = 0; d < a.rank; d++)
        if (a.factor[d]) axes[count++] = d;
    if (count < 1 || count > narrow_compare.n || affine_reach(&a) < 0) return;
    rule_applied(b->ir, op, compare_rules[count - 1].algebra);
    value_replace(result(op, 0), compare_rules[count - 1].build(b, op->code, &a, axes));
    op_erase(op);
}

void pass_narrow(PassEnv *env, Op *module) {
    Narrow n = {.env = env};
    op_walk_post(module, narrow_comparison, &n);
    narrow_divisions(env->ir, module);
    pass_dce(env, module);
}
