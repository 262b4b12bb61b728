// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Folding: the constant or the existing value that an op computes. Only exact identities, for
// every value of the type: x + 0.0 is not x (it turns -0.0 into 0.0), x * 0.0 is not 0.
//
// A fold needs no knowledge of the surroundings and builds nothing but constants; what needs more
// is a rule of a pass.
#include "ir/eval.h"
#include "ir/internal.h"

#include <math.h>
#include <string.h>

/* ---- particular constants ------------------------------------------------------------------ */

typedef enum Special { ZERO, NEG_ZERO, ONE, ONES, LOWEST, HIGHEST } Special;

/// Meaningful for the classes that the tables below name with it.
static Cell special(Special s, Elem e) {
    switch (s) {
    case ZERO: return (Cell){0};
    case NEG_ZERO: return (Cell){.f = -0.0};
    case ONE: return cell_cast(EL_I64, e, (Cell){.i = 1});
    case ONES: return e == EL_BOOL ? (Cell){.u = 1} : cell_wrap(e, (Cell){.i = -1});
    case LOWEST: return cell_cast(EL_F64, e, (Cell){.f = -INFINITY});
    case HIGHEST: return cell_cast(EL_F64, e, (Cell){.f = INFINITY});
    }
    return (Cell){0};
}

/// Compared by bits: 0.0 and -0.0 differ.
static bool is_special(const Value *v, Special s) {
    const Attr *a = const_of(v);
    Elem e = v->type->elem;
    return a && cell_bits(e, cell_of_attr(e, a)) == cell_bits(e, special(s, e));
}

static Value *build_cell(Builder *b, const Type *type, Cell c) {
    return build_const(b, type, attr_of_cell(b->ir, type->elem, c));
}

/* ---- elementwise --------------------------------------------------------------------------- */

enum { X, OTHER }; // which operand the op gives

// op(x, other): the other operand is a particular constant; either way round where op commutes.
static const struct {
    OpCode code;
    int classes;
    Special other;
    int gives;
} identities[] = {
    {OP_ADD, EC_INT, ZERO, X},               // x + 0 = x
    {OP_ADD, EC_FLOAT, NEG_ZERO, X},         // x + -0.0 = x, also for x = 0.0
    {OP_SUB, EC_NUM, ZERO, X},               // x - 0 = x, also for x = -0.0
    {OP_MUL, EC_NUM, ONE, X},                // x * 1 = x
    {OP_MUL, EC_INT, ZERO, OTHER},           // x * 0 = 0
    {OP_DIV, EC_NUM, ONE, X},                // x / 1 = x
    {OP_DIV, EC_INT, ZERO, OTHER},           // x / 0 = 0
    {OP_REM, EC_INT, ZERO, OTHER},           // x % 0 = 0
    {OP_AND, EC_INT | EC_BOOL, ONES, X},     // x & ~0 = x
    {OP_AND, EC_INT | EC_BOOL, ZERO, OTHER}, // x & 0 = 0
    {OP_OR, EC_INT | EC_BOOL, ZERO, X},      // x | 0 = x
    {OP_OR, EC_INT | EC_BOOL, ONES, OTHER},  // x | ~0 = ~0
    {OP_XOR, EC_INT | EC_BOOL, ZERO, X},     // x ^ 0 = x
    {OP_SHL, EC_INT, ZERO, X},               // x << 0 = x
    {OP_SHR, EC_INT, ZERO, X},               // x >> 0 = x
    {OP_MIN, EC_INT, HIGHEST, X},            // min(x, highest) = x; floats: not for NaN
    {OP_MIN, EC_INT, LOWEST, OTHER},         // min(x, lowest) = lowest
    {OP_MAX, EC_INT, LOWEST, X},             // max(x, lowest) = x
    {OP_MAX, EC_INT, HIGHEST, OTHER},        // max(x, highest) = highest
    {OP_EQ, EC_BOOL, ONES, X},               // x == true = x
    {OP_NE, EC_BOOL, ZERO, X},               // x != false = x
};

static Value *fold_identity(Op *op) {
    if (op->n_operands != 2) return NULL;
    for (size_t i = 0; i < sizeof identities / sizeof *identities; i++) {
        if (identities[i].code != op->code) continue;
        for (int other = 1; other >= (op_has(op, COMMUTES) ? 0 : 1); other--) {
            Value *v = operand(op, other);
            if (elem_is(v->type->elem, identities[i].classes) && is_special(v, identities[i].other))
                return identities[i].gives == X ? operand(op, 1 - other) : v;
        }
    }
    return NULL;
}

// op(x, x): a constant, or x.
static const struct {
    OpCode code;
    int classes;
    enum { GIVES_X, GIVES_ZERO, GIVES_TRUE } gives;
} squares[] = {
    {OP_SUB, EC_INT, GIVES_ZERO},           // x - x = 0; floats: not for inf and NaN
    {OP_XOR, EC_INT | EC_BOOL, GIVES_ZERO}, // x ^ x = 0
    {OP_REM, EC_INT, GIVES_ZERO},           // x % x = 0, also for 0
    {OP_MIN, EC_NUM, GIVES_X},              // min(x, x) = x
    {OP_MAX, EC_NUM, GIVES_X},              // max(x, x) = x
    {OP_AND, EC_INT | EC_BOOL, GIVES_X},    // x & x = x
    {OP_OR, EC_INT | EC_BOOL, GIVES_X},     // x | x = x
    {OP_EQ, EC_INT | EC_BOOL, GIVES_TRUE},  // x == x; floats: not for NaN
    {OP_NE, EC_INT | EC_BOOL, GIVES_ZERO},  // x != x is false
    {OP_LE, EC_INT, GIVES_TRUE},            // x <= x
    {OP_GE, EC_INT, GIVES_TRUE},            // x >= x
    {OP_LT, EC_NUM, GIVES_ZERO},            // x < x is false, also for NaN
    {OP_GT, EC_NUM, GIVES_ZERO},            // x > x is false
};

static Value *fold_square(Builder *b, Op *op) {
    if (op->n_operands != 2 || operand(op, 0) != operand(op, 1)) return NULL;
    Value *x = operand(op, 0);
    for (size_t i = 0; i < sizeof squares / sizeof *squares; i++)
        if (squares[i].code == op->code && elem_is(x->type->elem, squares[i].classes))
            return squares[i].gives == GIVES_X
                       ? x
                       : build_int(b, result(op, 0)->type, squares[i].gives == GIVES_TRUE);
    return NULL;
}

/// f(f(x)) = x, or f(f(x)) = f(x).
static Value *fold_twice(Op *op) {
    Op *inner = op->n_operands == 1 ? def_of(operand(op, 0), op->code) : NULL;
    if (!inner) return NULL;
    switch (op->code) {
    case OP_NOT:
    case OP_NEG: return operand(inner, 0);
    case OP_ABS:
    case OP_FLOOR:
    case OP_CEIL:
    case OP_TRUNC:
    case OP_RINT:
    case OP_ROUND: return result(inner, 0);
    default: return NULL;
    }
}

/// All operands are constants.
static Value *fold_constants(Builder *b, Op *op) {
    Cell args[3] = {{0}, {0}, {0}};
    Elem e = operand(op, 0)->type->elem;
    for (int i = 0; i < op->n_operands; i++) {
        const Attr *a = const_of(operand(op, i));
        if (!a) return NULL;
        args[i] = cell_of_attr(e, a);
    }
    return build_cell(b, result(op, 0)->type, eval_elementwise(op->code, e, args));
}

static Value *fold_elementwise(Builder *b, Op *op) {
    Value *v = fold_constants(b, op);
    v = v ? v : fold_identity(op);
    v = v ? v : fold_square(b, op);
    return v ? v : fold_twice(op);
}

/* ---- the others ---------------------------------------------------------------------------- */

/// Ops that only move lanes leave a constant a constant; the same type means no change at all but
/// for permute.
static Value *fold_shape(Builder *b, Op *op) {
    Value *x = operand(op, 0);
    const Attr *a = const_of(x);
    if (a) return build_const(b, result(op, 0)->type, a);
    return x->type == result(op, 0)->type ? x : NULL;
}

/// reshape(reshape(x)) is x where its type is back.
static Value *fold_reshape(Builder *b, Op *op) {
    Op *inner = def_of(operand(op, 0), OP_RESHAPE);
    if (inner && operand(inner, 0)->type == result(op, 0)->type) return operand(inner, 0);
    return fold_shape(b, op);
}

static Value *fold_permute(Builder *b, Op *op) {
    const Attr *perm = op_attr(op, "perm"), *a = const_of(operand(op, 0));
    bool identity = true;
    for (int i = 0; i < perm->n; i++) identity &= perm->ints[i] == i;
    return identity ? operand(op, 0) : a ? build_const(b, result(op, 0)->type, a) : NULL;
}

static Value *fold_concat(Builder *b, Op *op) {
    const Attr *a = const_of(operand(op, 0));
    for (int i = 1; i < op->n_operands; i++)
        if (const_of(operand(op, i)) != a) return NULL;
    return a ? build_const(b, result(op, 0)->type, a) : op->n_operands == 1 ? operand(op, 0) : NULL;
}

static Value *fold_cast(Builder *b, Op *op) {
    Value *x = operand(op, 0);
    const Type *to = result(op, 0)->type;
    const Attr *a = const_of(x);
    if (x->type == to) return x;
    return a ? build_cell(b, to, cell_cast(x->type->elem, to->elem, cell_of_attr(x->type->elem, a)))
             : NULL;
}

static Value *fold_bitcast(Builder *b, Op *op) {
    Value *x = operand(op, 0);
    const Type *to = result(op, 0)->type;
    const Attr *a = const_of(x);
    Op *inner = def_of(x, OP_BITCAST);
    if (x->type == to || (inner && operand(inner, 0)->type == to))
        return x->type == to ? x : operand(inner, 0);
    Elem from = x->type->elem;
    return a ? build_cell(b, to, cell_from_bits(to->elem, cell_bits(from, cell_of_attr(from, a))))
             : NULL;
}

static Value *fold_select(Builder *b, Op *op) {
    Value *c = operand(op, 0), *x = operand(op, 1), *y = operand(op, 2);
    (void)b;
    if (is_true(c) || x == y) return x;
    if (is_false(c)) return y;
    return is_true(x) && is_false(y) ? c : NULL;
}

static Value *fold_iota(Builder *b, Op *op) {
    const Type *t = result(op, 0)->type;
    return t->extents[0] == 1 ? build_int(b, t, 0) : NULL;
}

/// Lanes outside read 0, so only a constant 0 stays one.
static Value *fold_gather(Builder *b, Op *op) {
    return is_special(operand(op, 0), ZERO) ? build_int(b, result(op, 0)->type, 0) : NULL;
}

// A launch check asks for what was `passed`; the type only says what must have been.
/// What the type says; `passed` asks for what the caller passed, which a `require` compares with
/// it.
static Value *fold_known(Builder *b, Op *op, int64_t known) {
    return known != DYNAMIC && !op_flag(op, "passed") ? build_index(b, known) : NULL;
}

static Value *fold_dim(Builder *b, Op *op) {
    Value *t = operand(op, 0);
    int64_t axis = op_int(op, "axis", 0);
    Value *known = fold_known(b, op, t->type->extents[axis]);
    return !known && def_of(t, OP_SCRATCH) ? operand(t->def, (int)axis) : known;
}

static Value *fold_stride(Builder *b, Op *op) {
    return fold_known(b, op, operand(op, 0)->type->strides[op_int(op, "axis", 0)]);
}

/// Without a mask that is false, liveness is for the range analysis to prove.
static Value *fold_live(Builder *b, Op *op) {
    Access a = access_of(op);
    return a.mask && is_false(a.mask) ? build_bool(b, result(op, 0)->type, false) : NULL;
}

typedef Value *Fold(Builder *b, Op *op);
static Fold *const folds[OP_COUNT] = {
    [OP_IOTA] = fold_iota,       [OP_BROADCAST] = fold_shape, [OP_RESHAPE] = fold_reshape,
    [OP_PERMUTE] = fold_permute, [OP_SLICE] = fold_shape,     [OP_CONCAT] = fold_concat,
    [OP_CAST] = fold_cast,       [OP_BITCAST] = fold_bitcast, [OP_SELECT] = fold_select,
    [OP_GATHER] = fold_gather,   [OP_DIM] = fold_dim,         [OP_STRIDE] = fold_stride,
    [OP_LIVE] = fold_live,
};

Value *op_fold(Builder *b, Op *op) {
    if (op_has(op, ELEMENTWISE)) return fold_elementwise(b, op);
    return folds[op->code] ? folds[op->code](b, op) : NULL;
}
