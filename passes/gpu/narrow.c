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
// is one comparison. This needs sums that do not wrap, so scalars must stand on dims, indices of
// loops and small constants (is_modest).
#include "passes/gpu/narrow.h"
#include "passes/gpu/gpu.h"
#include "passes/passes.h"
#include "passes/util.h"

enum { MAX_DEPTH = 12, SMALL_FACTOR = 1 << 10 };
#define LIMIT       ((int64_t)1 << 30) // of the scalar
#define SMALL_CONST ((int64_t)1 << 40)

/// The sum of factor[d] times the lane number along axis d, and of scalars.
typedef struct Affine {
    int rank;
    int64_t extents[MAX_RANK], factor[MAX_RANK];
    Value *scalar; // i64, or NULL for 0
} Affine;

/* ---- scalars ------------------------------------------------------------------------------- */

typedef struct Narrow {
    PassEnv *env;
    Builder b;      // before the comparison at hand
    PtrMap answers; // scalars looked at -> themselves where modest, else the pass
} Narrow;

static bool is_modest(Narrow *n, Value *v);

static bool find_modest(Narrow *n, Value *v) {
    const Op *op = v->def;
    int64_t c;
    if (const_int(v, &c)) return c > -SMALL_CONST && c < SMALL_CONST;
    if (!op) {
        const Op *owner = v->region->parent;
        if (v->index > 0) return false;
        return owner->code == OP_LAUNCH ||
               (owner->code == OP_FOR && is_modest(n, operand(owner, 0)) &&
                is_modest(n, operand(owner, 1)));
    }
    switch (op->code) {
    case OP_DIM: return true;
    case OP_CAST: {
        const Type *from = operand(op, 0)->type;
        return elem_is(from->elem, EC_INT) && elem_info[from->elem].bits <= 32;
    }
    case OP_DIV:
    case OP_REM: return is_modest(n, operand(op, 0));
    case OP_MUL: // counts elements, too
    case OP_ADD:
    case OP_SUB:
    case OP_MIN:
    case OP_MAX: return is_modest(n, operand(op, 0)) && is_modest(n, operand(op, 1));
    case OP_SELECT: return is_modest(n, operand(op, 1)) && is_modest(n, operand(op, 2));
    default: return false;
    }
}

/// Its magnitude stays far below 2^63: dims, indices and their products count elements in memory.
static bool is_modest(Narrow *n, Value *v) {
    void *known = map_get(&n->answers, v);
    if (known) return known == v;
    bool yes = find_modest(n, v);
    map_set(ir_ctx(n->env->ir), &n->answers, v, yes ? (void *)v : (void *)n);
    return yes;
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
        return is_modest(n, out->scalar);
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

/// Scalar ops that this makes stand at b; those of no use are dead.
static bool affine_of(Narrow *n, const Value *v, Affine *out, int depth) {
    const Op *op = v->def;
    int64_t c;
    *out = (Affine){.rank = v->type->rank};
    for (int d = 0; d < out->rank; d++) out->extents[d] = v->type->extents[d];
    if (!op || depth == 0) return false;
    switch (op->code) {
    case OP_CONST:
        if (!const_int(v, &c) || c <= -SMALL_CONST || c >= SMALL_CONST) return false;
        out->scalar = build_index(&n->b, c);
        return true;
    case OP_IOTA: out->factor[0] = out->extents[0] > 1; return true;
    case OP_BROADCAST:
    case OP_RESHAPE:
    case OP_PERMUTE: return shaped(n, op, out, depth);
    case OP_ADD:
    case OP_SUB: return summed(n, op, out, depth);
    default: return false;
    }
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
static Value *compare_two(Builder *b, OpCode code, const Affine *a, int p, int q) {
    Value *x = line(b, a, p, a->factor[p], clamped(b, a->scalar));
    Value *y = line(b, a, q, -a->factor[q], NULL);
    return build_binary(b, code, along(b, a, p, x), along(b, a, q, y));
}

/// Lanes of one axis alone: compared along it, then spread.
static Value *compare_one(Builder *b, OpCode code, const Affine *a, int p) {
    Value *x = line(b, a, p, a->factor[p], NULL);
    Value *s = clamped(b, plus(b, NULL, a->scalar, -1));
    return along(b, a, p, build_binary(b, code, x, build_broadcast(b, s, x->type)));
}

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
    if (count < 1 || count > 2 || reach(&a) < 0) return;
    Value *v = count == 2 ? compare_two(b, op->code, &a, axes[0], axes[1])
                          : compare_one(b, op->code, &a, axes[0]);
    value_replace(result(op, 0), v);
    op_erase(op);
}

void pass_narrow(PassEnv *env, Op *module) {
    Narrow n = {.env = env};
    op_walk_post(module, narrow, &n);
    narrow_divisions(env->ir, module);
    pass_dce(env, module);
}
