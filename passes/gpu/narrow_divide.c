// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Divides a program's number in 32 bits.
//
//   %i = div %program, %n; %j = rem %program, %n : i64
//   -> %d = clamp(%n, -2^31 + 1, 2^31 - 1) : i32;  %p = cast %program : i32
//      %i = cast (div %p, %d);  %j = cast (rem %p, %d)
//
// A launch has at most 2^31 - 1 programs (rt_env_dispatch). So a program's number fits, and so do
// quotients and remainders of it for any divisor. A divisor beyond the range may be clamped: the
// quotient is 0 either way. GPUs take about 60 instructions for a 64-bit division, and each program
// divides its number before it can start.
#include <limits.h>

#include "passes/gpu/narrow.h"
#include "passes/util.h"

enum { MAX_DEPTH = 12 };

static bool is_division(const Op *op) {
    return op && (op->code == OP_DIV || op->code == OP_REM);
}

/// A rule: the result is small if these operands are.
typedef struct SmallRule {
    OpCode op;
    bool (*takes)(const Op *op);
    const char *algebra;
} SmallRule;

static bool keeps_integers(const Op *op) {
    Elem to = result(op, 0)->type->elem;
    return (to == EL_I32 || to == EL_I64) && elem_is(operand(op, 0)->type->elem, EC_INT);
}

static const SmallRule rules[] = {
    {OP_DIV, is_division, "x / y is small where x is"},
    {OP_REM, is_division, "x % y is small where x is"},
    {OP_CAST, keeps_integers, "x as i32, x as i64 is x where x is small"},
};
const RuleTable narrow_small = RULE_TABLE("narrow", SmallRule, rules);

static bool is_small_const(const Value *v) {
    int64_t c;
    return const_int(v, &c) && c > -INT_MAX && c < INT_MAX;
}

/// Returns the operand beside a constant between -limit and limit, or NULL.
static const Value *beside_constant(const Op *op, int64_t limit) {
    int64_t c;
    for (int i = 0; i < 2; i++)
        if (const_int(operand(op, i), &c) && c >= -limit && c <= limit) return operand(op, !i);
    return NULL;
}

bool is_clamped(const Value *v, int64_t limit) {
    const Op *outer = v->def;
    if (!outer || (outer->code != OP_MIN && outer->code != OP_MAX)) return false;
    const Value *x = beside_constant(outer, limit);
    const Op *inner = x ? def_of((Value *)x, outer->code == OP_MIN ? OP_MAX : OP_MIN) : NULL;
    return inner && beside_constant(inner, limit);
}

Value *build_clamped(Builder *b, Value *v, int64_t limit) {
    v = ix_max(b, ix_min(b, v, build_index(b, limit)), build_index(b, -limit));
    return build_cast(b, v, EL_I32);
}

/// Whether the magnitude of v is below 2^31 - 1.
static bool is_small(Ir *ir, const Value *v, int depth) {
    int64_t c;
    if (const_int(v, &c)) return is_small_const(v);
    if (!v->def) return v->index == 0 && v->region->parent->code == OP_LAUNCH;
    if (is_clamped(v, INT_MAX - 1)) return true;
    for (int i = 0; i < narrow_small.n && depth > 0; i++) {
        if (rules[i].op != v->def->code || !rules[i].takes(v->def)) continue;
        if (!is_small(ir, operand(v->def, 0), depth - 1)) return false;
        rule_applied(ir, v->def, rules[i].algebra);
        return true;
    }
    return false;
}

static Value *clamped_divisor(Builder *b, Value *v) {
    int64_t c;
    if (is_small_const(v) && const_int(v, &c)) return build_int(b, ty_scalar(b->ir, EL_I32), c);
    return build_clamped(b, v, INT_MAX);
}

static void narrow_division(Op *op, void *arg) {
    if (!is_division(op) || result(op, 0)->type != ty_scalar(arg, EL_I64)) return;
    if (!is_small(arg, operand(op, 0), MAX_DEPTH)) return;
    Builder b = build_before(arg, op);
    Value *x = build_cast(&b, operand(op, 0), EL_I32), *y = clamped_divisor(&b, operand(op, 1));
    Value *v = build_cast(&b, build_binary(&b, op->code, x, y), EL_I64);
    value_replace(result(op, 0), v);
    op_erase(op);
}

void narrow_divisions(Ir *ir, Op *module) {
    op_walk_pre(module, narrow_division, ir);
}
