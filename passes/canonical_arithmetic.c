// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// canonicalize: rules on numbers: chains of constants, min and max, comparisons, select, casts,
// masks. Integers wrap, so + and * may be regrouped; floats are not.
#include "ir/eval.h"
#include "passes/canonical.h"

static bool is_integer_value(const Value *v) {
    return elem_is(v->type->elem, EC_INT);
}

/// Returns the constant operand of a commutative op, and the other operand in *x; NULL if none is
/// constant.
static const Attr *const_side(const Op *op, Value **x) {
    for (int i = 1; i >= 0; i--) {
        const Attr *a = const_of(operand(op, i));
        if (a) {
            *x = operand(op, !i);
            return a;
        }
    }
    return NULL;
}

static Value *fold_consts(Rewriter *rw, OpCode code, const Type *type, const Attr *a,
                          const Attr *b) {
    Cell cells[] = {cell_of_attr(type->elem, a), cell_of_attr(type->elem, b)};
    Cell c = eval_elementwise(code, type->elem, cells);
    return build_const(&rw->at, type, attr_of_cell(rw->ir, type->elem, c));
}

// op(op(x, a), b) = op(x, op(a, b)) for integer + * min max and or xor
static bool regroup_constants(Rewriter *rw, Op *op) {
    Value *in, *x;
    const Attr *b = const_side(op, &in);
    if (!b || !elem_is(in->type->elem, EC_INT | EC_BOOL) || !def_of(in, op->code)) return false;
    const Attr *a = const_side(in->def, &x);
    if (!a) return false;
    Value *both = fold_consts(rw, op->code, x->type, a, b);
    rewrite_to(rw, op, build_binary(&rw->at, op->code, x, both));
    return true;
}

// x - c = x + -c for integers: one form for offsets
static bool sub_of_constant(Rewriter *rw, Op *op) {
    Value *x = operand(op, 0);
    const Attr *c = const_of(operand(op, 1));
    if (!c || !is_integer_value(x) || const_of(x)) return false;
    const Attr *zero = at_int(rw->ir, 0);
    rewrite_to(rw, op, build_binary(&rw->at, OP_ADD, x, fold_consts(rw, OP_SUB, x->type, zero, c)));
    return true;
}

// (x + y) - x = y, for integers
static bool sub_of_part(Rewriter *rw, Op *op) {
    Value *x = operand(op, 0), *y = operand(op, 1);
    Op *sum = def_of(x, OP_ADD);
    if (!is_integer_value(x) || !sum) return false;
    Value *rest = operand(sum, 0) == y   ? operand(sum, 1)
                  : operand(sum, 1) == y ? operand(sum, 0)
                                         : NULL;
    if (rest) rewrite_to(rw, op, rest);
    return rest != NULL;
}

// (x - y) + y = x, for integers
static bool add_of_difference(Rewriter *rw, Op *op) {
    for (int i = 0; i < 2 && is_integer_value(operand(op, 0)); i++) {
        Op *sub = def_of(operand(op, i), OP_SUB);
        if (sub && operand(sub, 1) == operand(op, !i)) {
            rewrite_to(rw, op, operand(sub, 0));
            return true;
        }
    }
    return false;
}

static bool less_or_equal(Elem e, const Attr *a, const Attr *b) {
    Cell cells[] = {cell_of_attr(e, a), cell_of_attr(e, b)};
    return eval_elementwise(OP_LE, e, cells).u != 0;
}

// max(min(x, a), b) = b if a <= b; min(max(x, a), b) = b if b <= a (integers)
static bool clamp_to_one(Rewriter *rw, Op *op) {
    OpCode other = op->code == OP_MAX ? OP_MIN : OP_MAX;
    Value *in, *x;
    const Attr *b = const_side(op, &in);
    if (!b || !is_integer_value(in) || !def_of(in, other)) return false;
    const Attr *a = const_side(in->def, &x);
    Elem e = in->type->elem;
    if (!a || !(other == OP_MIN ? less_or_equal(e, a, b) : less_or_equal(e, b, a))) return false;
    rewrite_to(rw, op, build_const(&rw->at, in->type, b));
    return true;
}

/// Returns op's operand other than x, where x is an operand of an op with `code`, in *inner; or
/// NULL.
static Value *other_operand(Op *op, OpCode code, Op **inner) {
    for (int i = 0; i < 2 && is_integer_value(operand(op, 0)); i++) {
        *inner = def_of(operand(op, !i), code);
        if (*inner &&
            (operand(*inner, 0) == operand(op, i) || operand(*inner, 1) == operand(op, i)))
            return operand(op, i);
    }
    return NULL;
}

// min(x, max(x, y)) = x; max(x, min(x, y)) = x (integers: min(x, max(x, NaN)) of floats is x, but
// min(NaN, max(NaN, y)) is y)
static bool absorb_min_max(Rewriter *rw, Op *op) {
    Op *inner;
    Value *x = other_operand(op, op->code == OP_MAX ? OP_MIN : OP_MAX, &inner);
    if (x) rewrite_to(rw, op, x);
    return x != NULL;
}

// min(x, min(x, y)) = min(x, y), likewise max (integers)
static bool drop_repeated_min_max(Rewriter *rw, Op *op) {
    Op *inner;
    if (!other_operand(op, op->code, &inner)) return false;
    rewrite_to(rw, op, result(inner, 0));
    return true;
}

// max(dim, c) = dim if c <= 0: an extent is never negative
static bool max_of_dim(Rewriter *rw, Op *op) {
    for (int i = 0; i < 2; i++) {
        int64_t c;
        if (!def_of(operand(op, i), OP_DIM) || !const_int(operand(op, !i), &c) || c > 0) continue;
        rewrite_to(rw, op, operand(op, i));
        return true;
    }
    return false;
}

// not of a comparison = the opposite one; for floats only equality, because of NaN
static bool not_of_comparison(Rewriter *rw, Op *op) {
    static const OpCode opposite[OP_COUNT] = {
        [OP_EQ] = OP_NE, [OP_NE] = OP_EQ, [OP_LT] = OP_GE,
        [OP_GE] = OP_LT, [OP_LE] = OP_GT, [OP_GT] = OP_LE,
    };
    Op *in = operand(op, 0)->def;
    OpCode to = in ? opposite[in->code] : 0;
    bool exact =
        to == OP_EQ || to == OP_NE || (to && !elem_is(operand(in, 0)->type->elem, EC_FLOAT));
    if (!to || !exact) return false;
    rewrite_to(rw, op, build_binary(&rw->at, to, operand(in, 0), operand(in, 1)));
    return true;
}

// select(c, false, true) = not c
static bool select_of_untruth(Rewriter *rw, Op *op) {
    if (!is_false(operand(op, 1)) || !is_true(operand(op, 2))) return false;
    rewrite_to(rw, op, build_unary(&rw->at, OP_NOT, operand(op, 0)));
    return true;
}

// select(not c, x, y) = select(c, y, x)
static bool select_by_not(Rewriter *rw, Op *op) {
    Op *flip = def_of(operand(op, 0), OP_NOT);
    if (!flip) return false;
    rewrite_to(rw, op, build_select(&rw->at, operand(flip, 0), operand(op, 2), operand(op, 1)));
    return true;
}

/// Whether every value of element a is a value of element b, so that the cast is exact.
static bool is_exact_cast(Elem a, Elem b) {
    static const int digits[EL_COUNT] = {[EL_F8E4M3] = 4, [EL_F8E5M2] = 3, [EL_F16] = 11,
                                         [EL_BF16] = 8,   [EL_F32] = 24,   [EL_F64] = 53};
    static const int exponent[EL_COUNT] = {
        [EL_F8E4M3] = 4, [EL_F8E5M2] = 5, [EL_F16] = 5, [EL_BF16] = 8, [EL_F32] = 8, [EL_F64] = 11};
    int bits_a = a == EL_BOOL ? 1 : elem_info[a].bits, bits_b = elem_info[b].bits;
    ElemClass from = elem_info[a].cls, to = elem_info[b].cls;
    if (a == b) return true;
    if (b == EL_BOOL) return false;
    if (from == EC_FLOAT)
        return to == EC_FLOAT && digits[a] <= digits[b] && exponent[a] <= exponent[b];
    if (to == EC_FLOAT) // magnitudes up to 2 ** bits; the range of f16 ends below 2 ** 16
        return bits_a - (from == EC_SINT) <= digits[b] && (bits_a <= 8 || exponent[b] >= 8) &&
               exponent[b] >= 5;
    if (from == EC_SINT) return to == EC_SINT && bits_a <= bits_b;
    return to == EC_UINT ? bits_a <= bits_b : bits_a < bits_b;
}

// A cast is a function of the value. Its kind (integer or float) matters in one case only, integers
// out of range: int to int wraps, float to int saturates. So
//
//   (x as b) as c = x as c   where b holds every x, and
//                            a and b are both floats, or both are not: the same function; or
//                            c is a float: the value of x is rounded once, to c; or
//                            c is bool: x != 0; or
//                            c holds every x: the value of x
//
// The exception is a way back to f8e5m2, where the second cast saturates infinities and a single
// cast does nothing. If b holds every x, the first cast rounds nothing. NaN stays NaN, and is 0 in
// integers.
static bool cast_twice(Rewriter *rw, Op *op) {
    Op *in = def_of(operand(op, 0), OP_CAST);
    if (!in) return false;
    Value *x = operand(in, 0);
    Elem a = x->type->elem, b = result(in, 0)->type->elem, c = result(op, 0)->type->elem;
    bool alike = elem_is(a, EC_FLOAT) == elem_is(b, EC_FLOAT);
    if (!is_exact_cast(a, b)) return false;
    if (!alike && elem_is(c, EC_INT) && !is_exact_cast(a, c)) return false;
    if (a == c && !elem_wraps_to_itself(c)) return false;
    rewrite_to(rw, op, build_cast(&rw->at, x, c));
    return true;
}

// bitcast(bitcast(x)) = bitcast(x): neither changes a bit
static bool bitcast_twice(Rewriter *rw, Op *op) {
    Op *in = def_of(operand(op, 0), OP_BITCAST);
    if (!in) return false;
    Value *x = operand(in, 0);
    rewrite_to(rw, op, result(build_op(&rw->at, OP_BITCAST, 1, &x, 1, &result(op, 0)->type, 0), 0));
    return true;
}

// an access under a mask of all true = the access without one
static bool mask_of_all(Rewriter *rw, Op *op) {
    Access a = access_of(op);
    if (!a.mask || !is_true(a.mask)) return false;
    Value **left = ctx_array(ir_ctx(rw->ir), Value *, op->n_operands);
    for (int i = 0; i + 1 < op->n_operands; i++) left[i] = operand(op, i);
    op_set_operands(rw->ir, op, op->n_operands - 1, left);
    return true;
}

// require true, assert true: nothing
static bool drop_true_check(Rewriter *rw, Op *op) {
    if (!is_true(operand(op, 0))) return false;
    rewrite_erase(rw, op);
    return true;
}

static const Rule rules[] = {
    {OP_ADD, regroup_constants, "(x + a) + b = x + (a + b)"},
    {OP_MUL, regroup_constants, "(x * a) * b = x * (a * b)"},
    {OP_MIN, regroup_constants, "min(min(x, a), b) = min(x, min(a, b))"},
    {OP_MAX, regroup_constants, "max(max(x, a), b) = max(x, max(a, b))"},
    {OP_AND, regroup_constants, "(x & a) & b = x & (a & b)"},
    {OP_OR, regroup_constants, "(x | a) | b = x | (a | b)"},
    {OP_XOR, regroup_constants, "(x ^ a) ^ b = x ^ (a ^ b)"},
    {OP_SUB, sub_of_part, "(x + y) - x = y"},
    {OP_SUB, sub_of_constant, "x - c = x + -c"},
    {OP_ADD, add_of_difference, "(x - y) + y = x"},
    {OP_MIN, clamp_to_one, "min(max(x, a), b) = b where b <= a"},
    {OP_MAX, clamp_to_one, "max(min(x, a), b) = b where a <= b"},
    {OP_MIN, absorb_min_max, "min(x, max(x, y)) = x"},
    {OP_MAX, absorb_min_max, "max(x, min(x, y)) = x"},
    {OP_MIN, drop_repeated_min_max, "min(x, min(x, y)) = min(x, y)"},
    {OP_MAX, drop_repeated_min_max, "max(x, max(x, y)) = max(x, y)"},
    {OP_MAX, max_of_dim, "max(dim, c) = dim where c <= 0"},
    {OP_NOT, not_of_comparison, "!(x < y) = x >= y; floats: !(x == y) = x != y alone"},
    {OP_SELECT, select_of_untruth, "c ? false : true = !c"},
    {OP_SELECT, select_by_not, "!c ? x : y = c ? y : x"},
    {OP_CAST, cast_twice, "(x as b) as c = x as c where b holds every x, and c if float -> int"},
    {OP_BITCAST, bitcast_twice, "bitcast(bitcast(x)) = bitcast(x)"},
    {OP_LOAD, mask_of_all, "load under mask true = load"},
    {OP_LIVE, mask_of_all, "live under mask true = live"},
    {OP_STORE, mask_of_all, "store under mask true = store"},
    {OP_ATOMIC, mask_of_all, "atomic under mask true = atomic"},
    {OP_REQUIRE, drop_true_check, "require true = nothing"},
    {OP_ASSERT, drop_true_check, "assert true = nothing"},
};
const RuleTable arithmetic_rules = RULE_TABLE("canonicalize", Rule, rules);
