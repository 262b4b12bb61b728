// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Folding: finds the constant or the existing value that an op computes. It uses only identities
// that hold for every value of the type. x + 0.0 is not x (it turns -0.0 into 0.0), x * 0.0 is not
// 0, and x * 1 is not x for f8e5m2, whose infinities saturate.
//
// A fold looks only at the op and builds only constants. Rules of passes handle everything else.
#include "ir/eval.h"
#include "ir/ir_private.h"

#include <math.h>
#include <string.h>

/* ---- particular constants ------------------------------------------------------------------ */

typedef enum Special { ZERO, NEG_ZERO, ONE, ONES, LOWEST, HIGHEST } Special;

/// Valid for the classes that the tables below name with it.
static Cell special_cell(Special s, Elem e) {
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
    return a && cell_bits(e, cell_of_attr(e, a)) == cell_bits(e, special_cell(s, e));
}

static Value *build_cell(Builder *b, const Type *type, Cell c) {
    return build_const(b, type, attr_of_cell(b->ir, type->elem, c));
}

/* ---- elementwise --------------------------------------------------------------------------- */

enum { X, OTHER }; // the operand that the op returns

// op(x, other), where the other operand is a particular constant. Either order applies if op
// commutes.
typedef struct Identity {
    OpCode code;
    int classes;
    Special other;
    int gives;
    const char *algebra;
} Identity;
static const Identity identities[] = {
    {OP_ADD, EC_INT, ZERO, X, "x + 0 = x"},
    {OP_ADD, EC_FLOAT, NEG_ZERO, X, "x + -0.0 = x, also for x = 0.0"},
    {OP_SUB, EC_NUM, ZERO, X, "x - 0 = x, also for x = -0.0"},
    {OP_MUL, EC_NUM, ONE, X, "x * 1 = x"},
    {OP_MUL, EC_INT, ZERO, OTHER, "x * 0 = 0"},
    {OP_DIV, EC_NUM, ONE, X, "x / 1 = x"},
    {OP_DIV, EC_INT, ZERO, OTHER, "x / 0 = 0"},
    {OP_REM, EC_INT, ZERO, OTHER, "x % 0 = 0"},
    {OP_AND, EC_INT | EC_BOOL, ONES, X, "x & ~0 = x"},
    {OP_AND, EC_INT | EC_BOOL, ZERO, OTHER, "x & 0 = 0"},
    {OP_OR, EC_INT | EC_BOOL, ZERO, X, "x | 0 = x"},
    {OP_OR, EC_INT | EC_BOOL, ONES, OTHER, "x | ~0 = ~0"},
    {OP_XOR, EC_INT | EC_BOOL, ZERO, X, "x ^ 0 = x"},
    {OP_SHL, EC_INT, ZERO, X, "x << 0 = x"},
    {OP_SHR, EC_INT, ZERO, X, "x >> 0 = x"},
    {OP_MIN, EC_INT, HIGHEST, X, "min(x, highest) = x; floats: not for NaN"},
    {OP_MIN, EC_INT, LOWEST, OTHER, "min(x, lowest) = lowest"},
    {OP_MAX, EC_INT, LOWEST, X, "max(x, lowest) = x"},
    {OP_MAX, EC_INT, HIGHEST, OTHER, "max(x, highest) = highest"},
    {OP_EQ, EC_BOOL, ONES, X, "x == true = x"},
    {OP_NE, EC_BOOL, ZERO, X, "x != false = x"},
};

static Value *fold_identity(Builder *b, Op *op) {
    if (op->n_operands != 2) return NULL;
    for (size_t i = 0; i < sizeof identities / sizeof *identities; i++) {
        const Identity *rule = &identities[i];
        if (rule->code != op->code) continue;
        for (int other = 1; other >= (op_has(op, COMMUTES) ? 0 : 1); other--) {
            Value *v = operand(op, other);
            Elem e = v->type->elem;
            if (!elem_is(e, rule->classes) || !is_special(v, rule->other)) continue;
            if (rule->gives == X && !elem_wraps_to_itself(e)) continue;
            rule_applied(b->ir, op, rule->algebra);
            return rule->gives == X ? operand(op, 1 - other) : v;
        }
    }
    return NULL;
}

// op(x, x): a constant, or x.
typedef struct SquareFold {
    OpCode code;
    int classes;
    enum { GIVES_X, GIVES_ZERO, GIVES_TRUE } gives;
    const char *algebra;
} SquareFold;
static const SquareFold squares[] = {
    {OP_SUB, EC_INT, GIVES_ZERO, "x - x = 0; floats: not for inf and NaN"},
    {OP_XOR, EC_INT | EC_BOOL, GIVES_ZERO, "x ^ x = 0"},
    {OP_REM, EC_INT, GIVES_ZERO, "x % x = 0, also for 0"},
    {OP_MIN, EC_NUM, GIVES_X, "min(x, x) = x"},
    {OP_MAX, EC_NUM, GIVES_X, "max(x, x) = x"},
    {OP_AND, EC_INT | EC_BOOL, GIVES_X, "x & x = x"},
    {OP_OR, EC_INT | EC_BOOL, GIVES_X, "x | x = x"},
    {OP_EQ, EC_INT | EC_BOOL, GIVES_TRUE, "x == x; floats: not for NaN"},
    {OP_NE, EC_INT | EC_BOOL, GIVES_ZERO, "x != x is false; floats: not for NaN"},
    {OP_LE, EC_INT, GIVES_TRUE, "x <= x; floats: not for NaN"},
    {OP_GE, EC_INT, GIVES_TRUE, "x >= x; floats: not for NaN"},
    {OP_LT, EC_NUM, GIVES_ZERO, "x < x is false, also for NaN"},
    {OP_GT, EC_NUM, GIVES_ZERO, "x > x is false, also for NaN"},
};

static Value *fold_square(Builder *b, Op *op) {
    if (op->n_operands != 2 || operand(op, 0) != operand(op, 1)) return NULL;
    Value *x = operand(op, 0);
    for (size_t i = 0; i < sizeof squares / sizeof *squares; i++) {
        const SquareFold *rule = &squares[i];
        if (rule->code != op->code || !elem_is(x->type->elem, rule->classes)) continue;
        if (rule->gives == GIVES_X && !elem_wraps_to_itself(x->type->elem)) continue;
        rule_applied(b->ir, op, rule->algebra);
        return rule->gives == GIVES_X
                   ? x
                   : build_int(b, result(op, 0)->type, rule->gives == GIVES_TRUE);
    }
    return NULL;
}

/* ---- one function a rule ------------------------------------------------------------------- */

typedef struct FoldRule {
    int code; // an OpCode, or ANY_ELEMENTWISE
    Value *(*apply)(Builder *b, Op *op);
    const char *algebra;
} FoldRule;
enum { ANY_ELEMENTWISE = OP_COUNT };

static Value *fold_all_constants(Builder *b, Op *op) {
    Cell args[3] = {{0}, {0}, {0}};
    Elem e = operand(op, 0)->type->elem;
    for (int i = 0; i < op->n_operands; i++) {
        const Attr *a = const_of(operand(op, i));
        if (!a) return NULL;
        args[i] = cell_of_attr(e, a);
    }
    return build_cell(b, result(op, 0)->type, eval_elementwise(op->code, e, args));
}

static Value *fold_undone(Builder *b, Op *op) {
    (void)b;
    Op *inner = def_of(operand(op, 0), op->code);
    return inner && elem_wraps_to_itself(result(op, 0)->type->elem) ? operand(inner, 0) : NULL;
}

static Value *done_already(Builder *b, Op *op) {
    (void)b;
    return def_of(operand(op, 0), op->code) ? operand(op, 0) : NULL;
}

/// An op that only moves lanes maps a constant to the same constant.
static Value *moved_constant(Builder *b, Op *op) {
    const Attr *a = const_of(operand(op, 0));
    return a ? build_const(b, result(op, 0)->type, a) : NULL;
}

/// For every op except permute, the same type means no change.
static Value *same_type(Builder *b, Op *op) {
    (void)b;
    return operand(op, 0)->type == result(op, 0)->type ? operand(op, 0) : NULL;
}

/// op(op(x)) whose type is that of x.
static Value *there_and_back(Builder *b, Op *op) {
    (void)b;
    Op *inner = def_of(operand(op, 0), op->code);
    return inner && operand(inner, 0)->type == result(op, 0)->type ? operand(inner, 0) : NULL;
}

static Value *same_order(Builder *b, Op *op) {
    (void)b;
    const Attr *perm = op_ints(op, A_PERM);
    for (int i = 0; i < perm->n; i++)
        if (perm->ints[i] != i) return NULL;
    return operand(op, 0);
}

static Value *equal_parts(Builder *b, Op *op) {
    const Attr *a = const_of(operand(op, 0));
    for (int i = 1; i < op->n_operands; i++)
        if (const_of(operand(op, i)) != a) return NULL;
    return a ? build_const(b, result(op, 0)->type, a) : NULL;
}

static Value *one_part(Builder *b, Op *op) {
    (void)b;
    return op->n_operands == 1 ? operand(op, 0) : NULL;
}

static Value *cast_constant(Builder *b, Op *op) {
    Elem from = operand(op, 0)->type->elem;
    const Type *to = result(op, 0)->type;
    const Attr *a = const_of(operand(op, 0));
    return a ? build_cell(b, to, cell_cast(from, to->elem, cell_of_attr(from, a))) : NULL;
}

static Value *bitcast_constant(Builder *b, Op *op) {
    Elem from = operand(op, 0)->type->elem;
    const Type *to = result(op, 0)->type;
    const Attr *a = const_of(operand(op, 0));
    if (!a) return NULL;
    return build_cell(b, to, cell_from_bits(to->elem, cell_bits(from, cell_of_attr(from, a))));
}

static Value *constant_choice(Builder *b, Op *op) {
    (void)b;
    const Value *c = operand(op, 0);
    return is_true(c) ? operand(op, 1) : is_false(c) ? operand(op, 2) : NULL;
}

static Value *no_choice(Builder *b, Op *op) {
    (void)b;
    return operand(op, 1) == operand(op, 2) ? operand(op, 1) : NULL;
}

static Value *choice_of_truth(Builder *b, Op *op) {
    (void)b;
    return is_true(operand(op, 1)) && is_false(operand(op, 2)) ? operand(op, 0) : NULL;
}

static Value *one_lane(Builder *b, Op *op) {
    const Type *t = result(op, 0)->type;
    return t->extents[0] == 1 ? build_int(b, t, 0) : NULL;
}

/// Lanes outside read 0, so only a constant 0 stays constant.
static Value *gathered_zeros(Builder *b, Op *op) {
    return is_special(operand(op, 0), ZERO) ? build_int(b, result(op, 0)->type, 0) : NULL;
}

/// A value known from the type. `as_passed` reads the caller's value, which a `require` compares
/// with the type.
static Value *if_known(Builder *b, Op *op, int64_t known) {
    return known != DYNAMIC && !op_flag(op, A_AS_PASSED) ? build_index(b, known) : NULL;
}

static Value *fold_known_extent(Builder *b, Op *op) {
    return if_known(b, op, operand(op, 0)->type->extents[op_int(op, A_AXIS, 0)]);
}

static Value *scratch_extent(Builder *b, Op *op) {
    (void)b;
    const Op *scratch = def_of(operand(op, 0), OP_SCRATCH);
    return scratch ? operand(scratch, (int)op_int(op, A_AXIS, 0)) : NULL;
}

static Value *known_stride(Builder *b, Op *op) {
    return if_known(b, op, operand(op, 0)->type->strides[op_int(op, A_AXIS, 0)]);
}

/// Holds only for a constant false mask. Other liveness belongs to the range analysis.
static Value *all_dead(Builder *b, Op *op) {
    Access a = access_of(op);
    return a.mask && is_false(a.mask) ? build_bool(b, result(op, 0)->type, false) : NULL;
}

static const FoldRule folds[] = {
    {ANY_ELEMENTWISE, fold_all_constants, "f(constants) = a constant"},
    {OP_NOT, fold_undone, "~~x = x"},
    {OP_NEG, fold_undone, "-(-x) = x"},
    {OP_ABS, done_already, "abs(abs(x)) = abs(x), also for the least integer"},
    {OP_FLOOR, done_already, "floor(floor(x)) = floor(x)"},
    {OP_CEIL, done_already, "ceil(ceil(x)) = ceil(x)"},
    {OP_TRUNC, done_already, "trunc(trunc(x)) = trunc(x)"},
    {OP_RINT, done_already, "rint(rint(x)) = rint(x)"},
    {OP_ROUND, done_already, "round(round(x)) = round(x)"},
    {OP_IOTA, one_lane, "iota<1> = 0"},
    {OP_BROADCAST, moved_constant, "broadcast(constant) = constant"},
    {OP_BROADCAST, same_type, "broadcast(x) of x's type = x"},
    {OP_RESHAPE, there_and_back, "reshape(reshape(x)) of x's type = x"},
    {OP_RESHAPE, moved_constant, "reshape(constant) = constant"},
    {OP_RESHAPE, same_type, "reshape(x) of x's type = x"},
    {OP_PERMUTE, same_order, "permute(x, 0 1 ...) = x"},
    {OP_PERMUTE, moved_constant, "permute(constant) = constant"},
    {OP_SLICE, moved_constant, "slice(constant) = constant"},
    {OP_SLICE, same_type, "slice(x, all of it) = x"},
    {OP_CONCAT, equal_parts, "concat(c, c) = c, for a constant c"},
    {OP_CONCAT, one_part, "concat(x) = x"},
    {OP_CAST, same_type, "x as x's type = x"},
    {OP_CAST, cast_constant, "constant as t = a constant"},
    {OP_BITCAST, same_type, "bitcast(x) to x's type = x"},
    {OP_BITCAST, there_and_back, "bitcast(bitcast(x)) to x's type = x"},
    {OP_BITCAST, bitcast_constant, "bitcast(constant) = a constant"},
    {OP_SELECT, constant_choice, "true ? x : y = x, false ? x : y = y"},
    {OP_SELECT, no_choice, "c ? x : x = x"},
    {OP_SELECT, choice_of_truth, "c ? true : false = c"},
    {OP_GATHER, gathered_zeros, "gather(0) = 0"},
    {OP_DIM, fold_known_extent, "dim = what the type says"},
    {OP_DIM, scratch_extent, "dim of a scratch = what it was made with"},
    {OP_STRIDE, known_stride, "stride = what the type says"},
    {OP_LIVE, all_dead, "live under mask false = false"},
};

const RuleTable fold_tables[] = {
    RULE_TABLE("fold", FoldRule, folds),
    RULE_TABLE("fold", Identity, identities),
    RULE_TABLE("fold", SquareFold, squares),
};
const int n_fold_tables = sizeof fold_tables / sizeof *fold_tables;

Value *op_fold(Builder *b, Op *op) {
    bool elementwise = op_has(op, ELEMENTWISE);
    for (size_t i = 0; i < sizeof folds / sizeof *folds; i++) {
        const FoldRule *rule = &folds[i];
        bool meant = rule->code == (int)op->code || (elementwise && rule->code == ANY_ELEMENTWISE);
        Value *v = meant ? rule->apply(b, op) : NULL;
        if (!v) continue;
        rule_applied(b->ir, op, rule->algebra);
        return v;
    }
    Value *v = elementwise ? fold_identity(b, op) : NULL;
    return v || !elementwise ? v : fold_square(b, op);
}
