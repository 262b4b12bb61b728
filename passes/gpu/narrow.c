// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// narrow: comparisons of positions in 32 bits, and quotients of numbers of programs
// (narrow_divide.c).
//
//   lt (broadcast %m + iota), (broadcast %n + reshape iota) : i64<64x64>
//   -> %s = clamp(%m - %n) : i32
//      lt (broadcast (iota + %s) : i32<64x1>), (broadcast iota : i32<1x64>)
//
// Positions are sums of scalars and of lane numbers times constants. Both sides of a comparison
// differ by at most M on account of lanes, so their scalars' difference, cut to +-2^30 > M, decides
// as the difference itself does. One axis on each side: what is computed for all lanes of the block
// is one comparison. This needs sums that do not wrap: scalars whose magnitude is known to stay
// below 2^61, for they stand on dims, numbers of programs, 32-bit integers and constants.
#include "passes/gpu/narrow.h"
#include "passes/gpu/gpu.h"
#include "passes/passes.h"
#include "passes/util.h"

enum { MAX_DEPTH = 12, SMALL_FACTOR = 1 << 10 };
#define LIMIT ((int64_t)1 << 30) // of the scalar

/// The sum of factor[d] times the lane number along axis d, and of scalars.
typedef struct Affine {
    int rank;
    int64_t extents[MAX_RANK], factor[MAX_RANK];
    Value *scalar; // i64, or NULL for 0
} Affine;

/* ---- scalars ------------------------------------------------------------------------------- */

// Bits of a magnitude: |v| <= 2^bits. Two scalars of MODEST bits and all lanes make less than 2^63.
enum { DIM_BITS = 48, PROGRAM_BITS = 31, MODEST = 61, UNKNOWN = 64 };

typedef struct Narrow {
    PassEnv *env;
    Builder b;   // before the comparison at hand
    PtrMap bits; // scalars looked at -> their bits + 1
} Narrow;

static int scalar_bits(Narrow *n, const Value *v);

static int operand_bits(Narrow *n, const Op *op, int i) {
    return scalar_bits(n, operand(op, i));
}

static int greater(int a, int b) {
    return a > b ? a : b;
}

static int bits_of_dim(Narrow *n, const Op *op) {
    (void)n, (void)op;
    return DIM_BITS;
}

static int bits_of_cast(Narrow *n, const Op *op) {
    (void)n;
    Elem from = operand(op, 0)->type->elem;
    return elem_is(from, EC_INT) && elem_info[from].bits <= 32 ? elem_info[from].bits : UNKNOWN;
}

static int bits_of_quotient(Narrow *n, const Op *op) {
    return operand_bits(n, op, 0);
}

static int bits_of_product(Narrow *n, const Op *op) {
    return operand_bits(n, op, 0) + operand_bits(n, op, 1);
}

static int bits_of_sum(Narrow *n, const Op *op) {
    return 1 + greater(operand_bits(n, op, 0), operand_bits(n, op, 1));
}

static int bits_of_choice(Narrow *n, const Op *op) {
    return greater(operand_bits(n, op, op->n_operands - 2),
                   operand_bits(n, op, op->n_operands - 1));
}

typedef struct BitsRule {
    OpCode op;
    int (*of)(Narrow *n, const Op *op);
    const char *algebra;
} BitsRule;
static const BitsRule bits_rules[] = {
    {OP_DIM, bits_of_dim, "|dim| <= 2^48"},
    {OP_CAST, bits_of_cast, "|x as i64| <= 2^n, of n <= 32 bits"},
    {OP_DIV, bits_of_quotient, "|x / y| <= |x|"},
    {OP_REM, bits_of_quotient, "|x % y| <= |x|"},
    {OP_MUL, bits_of_product, "|x y| <= 2^(a + b), where |x| <= 2^a, |y| <= 2^b"},
    {OP_ADD, bits_of_sum, "|x + y| <= 2 max(|x|, |y|)"},
    {OP_SUB, bits_of_sum, "|x - y| <= 2 max(|x|, |y|)"},
    {OP_MIN, bits_of_choice, "|min(x, y)| <= max(|x|, |y|)"},
    {OP_MAX, bits_of_choice, "|max(x, y)| <= max(|x|, |y|)"},
    {OP_SELECT, bits_of_choice, "|c ? x : y| <= max(|x|, |y|)"},
};
const RuleTable narrow_bits = RULE_TABLE("narrow", BitsRule, bits_rules);

static int bits_of_constant(int64_t c) {
    int bits = 0;
    while (bits < 63 && (c > (int64_t)1 << bits || c < -((int64_t)1 << bits))) bits++;
    return bits;
}

/// Of a region: the number of a program, or the index of a loop, between its bounds.
static int bits_of_argument(Narrow *n, const Value *v) {
    const Op *owner = v->region->parent;
    if (v->index > 0) return UNKNOWN;
    if (owner->code == OP_LAUNCH) return PROGRAM_BITS;
    bool index = owner->code == OP_FOR && v->region == owner->regions[0];
    return index ? greater(operand_bits(n, owner, 0), operand_bits(n, owner, 1)) : UNKNOWN;
}

static int find_bits(Narrow *n, const Value *v) {
    int64_t c;
    if (const_int(v, &c)) return bits_of_constant(c);
    if (!v->def) return bits_of_argument(n, v);
    for (int i = 0; i < narrow_bits.n; i++)
        if (bits_rules[i].op == v->def->code) {
            rule_applied(n->env->ir, v->def, bits_rules[i].algebra);
            return bits_rules[i].of(n, v->def);
        }
    return UNKNOWN;
}

/// What is beyond MODEST may have wrapped.
static int scalar_bits(Narrow *n, const Value *v) {
    intptr_t known = (intptr_t)map_get(&n->bits, v);
    if (known) return (int)known - 1;
    int bits = find_bits(n, v);
    if (bits > MODEST) bits = UNKNOWN;
    map_set(ir_ctx(n->env->ir), &n->bits, v, (void *)(intptr_t)(bits + 1));
    return bits;
}

static bool is_modest(Narrow *n, const Value *v) {
    return scalar_bits(n, v) <= MODEST;
}

static Value *plus(Builder *b, Value *x, Value *y, int64_t factor) {
    if (!y) return x;
    y = ix_mul(b, y, build_index(b, factor));
    return x ? ix_add(b, x, y) : y;
}

/* ---- sums ---------------------------------------------------------------------------------- */

static bool affine_of(Narrow *n, const Value *v, Affine *out, int depth);

/// Axes longer than 1 in their order: reshape that only adds or takes away axes of one lane.
static bool reshaped(const Affine *in, const Type *to, Affine *out) {
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

static bool shaped(Narrow *n, const Op *op, Affine *out, int depth) {
    const Value *x = operand(op, 0);
    Affine in;
    if (ty_is_scalar(x->type)) {
        out->scalar = (Value *)x;
        return true;
    }
    if (!affine_of(n, x, &in, depth - 1)) return false;
    out->scalar = in.scalar;
    if (op->code == OP_RESHAPE) return reshaped(&in, result(op, 0)->type, out);
    for (int d = 0; d < in.rank; d++)
        out->factor[d] = in.factor[op->code == OP_PERMUTE ? op_attr(op, "perm")->ints[d] : d];
    return true;
}

static bool summed(Narrow *n, const Op *op, Affine *out, int depth) {
    Affine y;
    int64_t factor = op->code == OP_SUB ? -1 : 1;
    if (!affine_of(n, operand(op, 0), out, depth - 1) ||
        !affine_of(n, operand(op, 1), &y, depth - 1))
        return false;
    for (int d = 0; d < out->rank; d++) out->factor[d] += factor * y.factor[d];
    out->scalar = plus(&n->b, out->scalar, y.scalar, factor);
    return true;
}

static bool constant(Narrow *n, const Op *op, Affine *out, int depth) {
    int64_t c;
    (void)depth;
    if (!const_int(result(op, 0), &c)) return false;
    out->scalar = build_index(&n->b, c);
    return true;
}

static bool lane_number(Narrow *n, const Op *op, Affine *out, int depth) {
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
    {OP_CONST, constant, "lanes of a constant: the constant"},
    {OP_IOTA, lane_number, "lanes of iota: their number"},
    {OP_BROADCAST, shaped, "lanes of broadcast(x): the scalar, or x by the axes"},
    {OP_RESHAPE, shaped, "lanes of reshape(x): x by its axes longer than 1"},
    {OP_PERMUTE, shaped, "lanes of permute(x): x by the axes in their order"},
    {OP_ADD, summed, "lanes of x + y: sums of factors and scalars"},
    {OP_SUB, summed, "lanes of x - y: differences of factors and scalars"},
};
const RuleTable narrow_affine = RULE_TABLE("narrow", AffineRule, affine_rules);

/// Scalar ops that this makes stand at b; those of no use are dead. Each scalar on the way is
/// modest, so nothing on the way has wrapped.
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

/// How far lanes move the difference, or -1 where that is too much.
static int64_t reach(const Affine *a) {
    int64_t sum = 0;
    for (int d = 0; d < a->rank; d++) {
        int64_t f = a->factor[d] < 0 ? -a->factor[d] : a->factor[d];
        if (f > SMALL_FACTOR || a->extents[d] > LIMIT / SMALL_FACTOR / MAX_RANK) return -1;
        sum += f * a->extents[d];
    }
    return sum;
}

/// factor * iota + scalar (NULL: 0) along axis d, as a block that broadcasts to the whole.
static Value *line(Builder *b, const Affine *a, int d, int64_t factor, Value *scalar) {
    const Type *t = ty_block(b->ir, EL_I32, 1, &a->extents[d]);
    Value *v = result(build_op(b, OP_IOTA, 0, NULL, 1, &t, 0), 0);
    if (factor != 1) v = build_binary(b, OP_MUL, v, build_int(b, t, factor));
    if (scalar) v = build_binary(b, OP_ADD, v, build_broadcast(b, scalar, t));
    return v;
}

/// x as a block of the extents of a, along axis d.
static Value *along(Builder *b, const Affine *a, int d, Value *x) {
    int64_t extents[MAX_RANK];
    for (int i = 0; i < a->rank; i++) extents[i] = i == d ? a->extents[i] : 1;
    x = build_reshape(b, x, ty_block(b->ir, x->type->elem, a->rank, extents));
    return build_broadcast(b, x, ty_block(b->ir, x->type->elem, a->rank, a->extents));
}

static Value *clamped(Builder *b, Value *s) {
    if (!s) s = build_index(b, 0);
    s = ix_max(b, ix_min(b, s, build_index(b, LIMIT)), build_index(b, -LIMIT));
    return build_cast(b, s, EL_I32);
}

/// Axis p's lanes and the scalar on the left, the other axis' on the right.
static Value *compare_two(Builder *b, OpCode code, const Affine *a, const int *axes) {
    int p = axes[0], q = axes[1];
    Value *x = line(b, a, p, a->factor[p], clamped(b, a->scalar));
    Value *y = line(b, a, q, -a->factor[q], NULL);
    return build_binary(b, code, along(b, a, p, x), along(b, a, q, y));
}

/// Lanes of one axis alone: compared along it, then spread.
static Value *compare_one(Builder *b, OpCode code, const Affine *a, const int *axes) {
    int p = axes[0];
    Value *x = line(b, a, p, a->factor[p], NULL);
    Value *s = clamped(b, plus(b, NULL, a->scalar, -1));
    return along(b, a, p, build_binary(b, code, x, build_broadcast(b, s, x->type)));
}

// One row a number of axes on which the difference depends.
typedef struct CompareRule {
    Value *(*build)(Builder *b, OpCode code, const Affine *a, const int *axes);
    const char *algebra;
} CompareRule;
static const CompareRule compare_rules[] = {
    {compare_one, "f i + s < 0: f i < cut(-s), along the axis"},
    {compare_two, "f i + g j + s < 0: f i + cut(s) < -g j, an axis on each side"},
};
const RuleTable narrow_compare = RULE_TABLE("narrow", CompareRule, compare_rules);

static void narrow(Op *op, void *arg) {
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
    a.scalar = plus(b, a.scalar, y.scalar, -1);
    int axes[MAX_RANK], count = 0;
    for (int d = 0; d < a.rank; d++)
        if (a.factor[d]) axes[count++] = d;
    if (count < 1 || count > narrow_compare.n || reach(&a) < 0) return;
    rule_applied(b->ir, op, compare_rules[count - 1].algebra);
    value_replace(result(op, 0), compare_rules[count - 1].build(b, op->code, &a, axes));
    op_erase(op);
}

void pass_narrow(PassEnv *env, Op *module) {
    Narrow n = {.env = env};
    op_walk_post(module, narrow, &n);
    narrow_divisions(env->ir, module);
    pass_dce(env, module);
}
