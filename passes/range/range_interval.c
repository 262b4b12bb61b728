// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// range: constant bounds of integer values, by interval arithmetic.
#include "passes/range/range_private.h"

static Interval value_interval(Ranges *r, const Value *v, int depth);

static Wide lesser_wide(Wide a, Wide b) {
    return a < b ? a : b;
}
static Wide greater_wide(Wide a, Wide b) {
    return a > b ? a : b;
}

static bool is_within(Interval x, Interval all) {
    return x.lo >= all.lo && x.hi <= all.hi;
}

Interval type_interval(Elem e) {
    int bits = e == EL_BOOL ? 1 : elem_info[e].bits;
    if (elem_is(e, EC_FLOAT) || bits == 64) return ANY_I64;
    if (elem_is(e, EC_SINT))
        return (Interval){-((Wide)1 << (bits - 1)), ((Wide)1 << (bits - 1)) - 1};
    return (Interval){0, ((Wide)1 << bits) - 1};
}

/* ---- rules --------------------------------------------------------------------------------- */

static Interval of_iota(const Op *op, const Interval *x) {
    (void)x;
    return (Interval){0, result(op, 0)->type->extents[0] - 1};
}

static Interval interval_of_dim(const Op *op, const Interval *x) {
    (void)op, (void)x;
    return (Interval){0, MAX_EXTENT};
}

static Interval same_interval(const Op *op, const Interval *x) {
    (void)op;
    return x[0];
}

static Interval of_min(const Op *op, const Interval *x) {
    (void)op;
    return (Interval){lesser_wide(x[0].lo, x[1].lo), lesser_wide(x[0].hi, x[1].hi)};
}

static Interval of_max(const Op *op, const Interval *x) {
    (void)op;
    return (Interval){greater_wide(x[0].lo, x[1].lo), greater_wide(x[0].hi, x[1].hi)};
}

static Interval of_select(const Op *op, const Interval *x) {
    (void)op;
    return (Interval){lesser_wide(x[1].lo, x[2].lo), greater_wide(x[1].hi, x[2].hi)};
}

/// x / 0 = 0. No quotient exceeds x in magnitude.
static Interval of_quotient(const Op *op, const Interval *x) {
    (void)op;
    Wide most = greater_wide(-x[0].lo, x[0].hi);
    if (x[0].lo < 0 || x[1].lo < 0) return (Interval){-most, most};
    if (x[1].lo == 0) return (Interval){0, x[0].hi};
    return (Interval){x[0].lo / x[1].hi, x[0].hi / x[1].lo};
}

/// The remainder has the sign of x, at most its magnitude, and less than the divisor's. x % 0 = 0.
static Interval of_remainder(const Op *op, const Interval *x) {
    (void)op;
    Wide most = greater_wide(greater_wide(x[1].hi, -x[1].lo) - 1, 0);
    return (Interval){x[0].lo >= 0 ? 0 : -lesser_wide(most, -x[0].lo),
                      x[0].hi <= 0 ? 0 : lesser_wide(most, x[0].hi)};
}

static Interval of_and(const Op *op, const Interval *x) {
    if (x[0].lo >= 0 && x[1].lo >= 0) return (Interval){0, lesser_wide(x[0].hi, x[1].hi)};
    return x[0].lo >= 0   ? (Interval){0, x[0].hi}
           : x[1].lo >= 0 ? (Interval){0, x[1].hi}
                          : type_interval(result(op, 0)->type->elem);
}

static Interval interval_of_product(const Op *op, const Interval *x) {
    (void)op;
    Wide a = x[0].lo * x[1].lo, b = x[0].lo * x[1].hi, c = x[0].hi * x[1].lo, d = x[0].hi * x[1].hi;
    return (Interval){lesser_wide(lesser_wide(a, b), lesser_wide(c, d)),
                      greater_wide(greater_wide(a, b), greater_wide(c, d))};
}

static const IntervalRule rules[] = {
    {OP_IOTA, of_iota, "iota<n> in 0 .. n - 1"},
    {OP_DIM, interval_of_dim, "dim in 0 .. 2^48"},
    {OP_BROADCAST, same_interval, "broadcast(x) in the bounds of x"},
    {OP_RESHAPE, same_interval, "reshape(x) in the bounds of x"},
    {OP_PERMUTE, same_interval, "permute(x) in the bounds of x"},
    {OP_SLICE, same_interval, "slice(x) in the bounds of x"},
    {OP_CAST, same_interval, "x as t in the bounds of x, or of t where those are outside"},
    {OP_MIN, of_min, "min(x, y) in min(lo) .. min(hi)"},
    {OP_MAX, of_max, "max(x, y) in max(lo) .. max(hi)"},
    {OP_SELECT, of_select, "c ? x : y in min(lo) .. max(hi)"},
    {OP_DIV, of_quotient, "x / y in lo(x) / hi(y) .. hi(x) / lo(y), else |x / y| <= |x|"},
    {OP_REM, of_remainder, "x % y in the bounds of x, and less than |y|"},
    {OP_AND, of_and, "x & y in 0 .. hi, where one is not negative"},
    {OP_MUL, interval_of_product, "x * y between the products of bounds"},
};
const RuleTable interval_table = RULE_TABLE("range", IntervalRule, rules);

static const IntervalRule *rule_of(OpCode code) {
    for (int i = 0; i < interval_table.n; i++)
        if (rules[i].op == code) return &rules[i];
    return NULL;
}

Interval interval_by_rule(const Op *op, const Interval *x) {
    const IntervalRule *rule = rule_of(op->code);
    Interval all = type_interval(result(op, 0)->type->elem), by = rule ? rule->of(op, x) : all;
    return is_within(by, all) ? by : all; // outside of the type the op wraps
}

/* ---- values -------------------------------------------------------------------------------- */

static Interval op_interval(Ranges *r, const Op *op, int depth) {
    Interval x[3];
    const IntervalRule *rule = rule_of(op->code);
    if (!rule) return type_interval(result(op, 0)->type->elem);
    rule_applied(r->ir, op, rule->algebra);
    for (int i = 0; i < op->n_operands; i++) x[i] = value_interval(r, operand(op, i), depth + 1);
    return interval_by_rule(op, x);
}

static Interval loop_interval(Ranges *r, const Value *v, int depth) {
    const Op *loop = v->region->parent;
    Interval lo = value_interval(r, operand(loop, 0), depth + 1);
    Interval hi = value_interval(r, operand(loop, 1), depth + 1);
    if (op_int(loop, A_STEP, 1) == 0) return lo;
    return (Interval){lo.lo,
                      greater_wide(hi.hi - 1, lo.lo)}; // the body of an empty loop does not run
}

/// Whether v is the number of a task, or of a device's program.
static bool is_program_number(const Value *v) {
    OpCode code = v->region->parent->code;
    return v->index == 0 && (code == OP_LAUNCH || code == OP_DEVICE);
}

static Interval new_interval(Ranges *r, const Value *v, int depth) {
    if (is_own_extent(v)) return (Interval){0, MAX_EXTENT};
    if (is_loop_index(v)) return loop_interval(r, v, depth);
    if (!v->def)
        return is_program_number(v) ? (Interval){0, INT64_MAX} : type_interval(v->type->elem);
    return v->def->n_regions ? type_interval(v->type->elem) : op_interval(r, v->def, depth);
}

static Interval atom_interval(Ranges *r, const Value *v, int depth) {
    const Interval *known = map_get(&r->intervals, v);
    if (known || depth > RANGE_DEPTH) return known ? *known : type_interval(v->type->elem);
    Interval x = new_interval(r, v, depth);
    if (depth <= 2) // at greater depth, the walk may have cut definitions short
        map_set(r->ctx, &r->intervals, v, ctx_copy(r->ctx, &x, sizeof x));
    return x;
}

bool linear_bounds(Ranges *r, const Linear *form, int depth, Interval *out) {
    Wide lo = form->constant, hi = lo;
    bool over = form->bad;
    for (int i = 0; i < form->n && !over; i++) {
        Interval x = atom_interval(r, form->terms[i].atom, depth + 1);
        Wide k = form->terms[i].factor; // the product of two values fits
        over |= __builtin_add_overflow(lo, k * (k > 0 ? x.lo : x.hi), &lo);
        over |= __builtin_add_overflow(hi, k * (k > 0 ? x.hi : x.lo), &hi);
    }
    *out = (Interval){lo, hi};
    return !over;
}

static Interval value_interval(Ranges *r, const Value *v, int depth) {
    int64_t c;
    if (v->type->kind != TK_BLOCK || elem_is(v->type->elem, EC_FLOAT) || v->type->elem == EL_U64)
        return ANY_I64;
    if (v->type->elem != EL_I64)
        return const_int(v, &c) ? (Interval){c, c} : atom_interval(r, v, depth);
    Interval x;
    Linear form = linear_of(r, v);
    return linear_bounds(r, &form, depth, &x) && is_within(x, ANY_I64) ? x : ANY_I64;
}

void range_bounds(Ranges *r, const Value *v, int64_t *lo, int64_t *hi) {
    Interval x = value_interval(r, v, 0);
    *lo = (int64_t)x.lo;
    *hi = (int64_t)x.hi;
}
