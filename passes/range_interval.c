// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// range: constant bounds of integer values, by interval arithmetic.
#include "passes/range_private.h"

#define ANYTHING ((Interval){INT64_MIN, INT64_MAX})

static Interval value_interval(Ranges *r, const Value *v, int depth);

/// Sums and products that stop at the ends of int64_t.
static int64_t clipped_sum(int64_t a, int64_t b) {
    int64_t s;
    return __builtin_add_overflow(a, b, &s) ? (a < 0 ? INT64_MIN : INT64_MAX) : s;
}

static int64_t clipped_product(int64_t a, int64_t b) {
    int64_t p;
    return __builtin_mul_overflow(a, b, &p) ? ((a < 0) == (b < 0) ? INT64_MAX : INT64_MIN) : p;
}

static bool is_open(int64_t end) {
    return end == INT64_MIN || end == INT64_MAX;
}

/// k * end; an open end stays open, on the other side where k < 0.
static int64_t end_times(int64_t end, int64_t k) {
    if (!is_open(end)) return clipped_product(end, k);
    return (end == INT64_MAX) == (k > 0) ? INT64_MAX : INT64_MIN;
}

static Interval interval_times(Interval x, int64_t k) {
    int64_t a = end_times(x.lo, k), b = end_times(x.hi, k);
    return k > 0 ? (Interval){a, b} : (Interval){b, a};
}

static Interval interval_plus(Interval x, Interval y) {
    Interval s = ANYTHING;
    if (x.lo != INT64_MIN && y.lo != INT64_MIN) s.lo = clipped_sum(x.lo, y.lo);
    if (x.hi != INT64_MAX && y.hi != INT64_MAX) s.hi = clipped_sum(x.hi, y.hi);
    return s;
}

static int64_t lesser(int64_t a, int64_t b) {
    return a < b ? a : b;
}
static int64_t greater(int64_t a, int64_t b) {
    return a > b ? a : b;
}

/// Every value that an element type has.
static Interval type_interval(Elem e) {
    int bits = e == EL_BOOL ? 1 : elem_info[e].bits;
    if (elem_is(e, EC_FLOAT) || bits == 64) return ANYTHING;
    if (elem_is(e, EC_SINT))
        return (Interval){-((int64_t)1 << (bits - 1)), ((int64_t)1 << (bits - 1)) - 1};
    return (Interval){0, ((int64_t)1 << bits) - 1};
}

/// x / k and x % k for constant k > 0.
static Interval interval_quotient(const Op *op, Interval x, Interval k) {
    if (op->code == OP_DIV) {
        if (k.lo < 1 || x.lo < 0)
            return x.lo >= 0 && k.lo >= 0 ? (Interval){0, x.hi} : ANYTHING; // x / 0 = 0
        return (Interval){k.hi == INT64_MAX ? 0 : x.lo / k.hi,
                          x.hi == INT64_MAX ? x.hi : x.hi / k.lo};
    }
    if (k.lo < 0) return ANYTHING;
    int64_t most = k.hi == INT64_MAX ? INT64_MAX : greater(k.hi - 1, 0);
    most = lesser(most, greater(x.hi, x.lo == INT64_MIN ? INT64_MAX : -x.lo));
    return (Interval){x.lo >= 0 ? 0 : most == INT64_MAX ? INT64_MIN : -most, most};
}

static Interval loop_interval(Ranges *r, const Value *v, int depth) {
    const Op *loop = v->region->parent;
    Interval lo = linear_interval(r, linear_of(r, operand(loop, 0)), depth + 1);
    Interval hi = linear_interval(r, linear_of(r, operand(loop, 1)), depth + 1);
    if (op_int(loop, "step", 1) == 0) return lo;
    return (Interval){lo.lo, hi.hi == INT64_MAX ? hi.hi : hi.hi - 1};
}

static Interval op_interval(Ranges *r, const Op *op, int depth) {
    const Type *type = result(op, 0)->type;
    Interval x = op->n_operands > 0 ? value_interval(r, operand(op, 0), depth + 1) : ANYTHING;
    switch (op->code) {
    case OP_IOTA: return (Interval){0, type->extents[0] - 1};
    case OP_DIM: return (Interval){0, MAX_EXTENT};
    case OP_BROADCAST:
    case OP_RESHAPE:
    case OP_PERMUTE:
    case OP_SLICE: return x;
    case OP_CAST: {
        Interval to = type_interval(type->elem);
        return x.lo >= to.lo && x.hi <= to.hi ? x : to;
    }
    default: break;
    }
    if (op->n_operands < 2) return type_interval(type->elem);
    Interval y = value_interval(r, operand(op, op->n_operands - 1), depth + 1);
    if (op->code == OP_SELECT) x = value_interval(r, operand(op, 1), depth + 1);
    switch (op->code) {
    case OP_MIN: return (Interval){lesser(x.lo, y.lo), lesser(x.hi, y.hi)};
    case OP_MAX: return (Interval){greater(x.lo, y.lo), greater(x.hi, y.hi)};
    case OP_SELECT: return (Interval){lesser(x.lo, y.lo), greater(x.hi, y.hi)};
    case OP_DIV:
    case OP_REM: return interval_quotient(op, x, y);
    case OP_AND:
        return x.lo >= 0   ? (Interval){0, y.lo >= 0 ? lesser(x.hi, y.hi) : x.hi}
               : y.lo >= 0 ? (Interval){0, y.hi}
                           : type_interval(type->elem);
    case OP_MUL:
        if (x.lo < 0 || y.lo < 0) return type_interval(type->elem);
        return (Interval){clipped_product(x.lo, y.lo),
                          is_open(x.hi) || is_open(y.hi) ? INT64_MAX : clipped_product(x.hi, y.hi)};
    default: return type_interval(type->elem);
    }
}

/// The number of a task, or of a program of a device.
static bool is_program(const Value *v) {
    OpCode code = v->region->parent->code;
    return v->index == 0 && (code == OP_LAUNCH || code == OP_DEVICE);
}

static Interval new_interval(Ranges *r, const Value *v, int depth) {
    if (is_own_extent(v)) return (Interval){0, MAX_EXTENT};
    if (is_loop_index(v)) return loop_interval(r, v, depth);
    if (!v->def) return is_program(v) ? (Interval){0, INT64_MAX} : type_interval(v->type->elem);
    Interval x = v->def->n_regions ? ANYTHING : op_interval(r, v->def, depth);
    Interval all = type_interval(v->type->elem); // beyond it the op wraps
    return x.lo >= all.lo && x.hi <= all.hi ? x : all;
}

static Interval atom_interval(Ranges *r, const Value *v, int depth) {
    const Interval *known = map_get(&r->intervals, v);
    if (known || depth > RANGE_DEPTH) return known ? *known : ANYTHING;
    Interval x = new_interval(r, v, depth);
    if (depth <= 2) // deeper, too little of its definition may have been seen
        map_set(r->ctx, &r->intervals, v, ctx_copy(r->ctx, &x, sizeof x));
    return x;
}

Interval linear_interval(Ranges *r, Linear form, int depth) {
    Interval sum = {form.constant, form.constant};
    if (form.bad) return ANYTHING;
    for (int i = 0; i < form.n; i++)
        sum = interval_plus(sum, interval_times(atom_interval(r, form.terms[i].atom, depth + 1),
                                                form.terms[i].factor));
    return sum;
}

static Interval value_interval(Ranges *r, const Value *v, int depth) {
    int64_t c;
    if (v->type->kind != TK_BLOCK || elem_is(v->type->elem, EC_FLOAT) || v->type->elem == EL_U64)
        return ANYTHING;
    if (v->type->elem == EL_I64) return linear_interval(r, linear_of(r, v), depth);
    return const_int(v, &c) ? (Interval){c, c} : atom_interval(r, v, depth);
}

void range_bounds(Ranges *r, const Value *v, int64_t *lo, int64_t *hi) {
    Interval x = value_interval(r, v, 0);
    *lo = x.lo;
    *hi = x.hi;
}
