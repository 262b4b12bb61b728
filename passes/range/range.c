// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// range: linear forms of integer values, facts and divisors. range.h explains the idea.
#include "passes/range/range_private.h"
#include "passes/util.h"

enum { MAX_FACTS = 256 };

/* ---- linear forms -------------------------------------------------------------------------- */

Linear linear_bad(void) {
    return (Linear){.bad = true};
}

Linear linear_constant(int64_t c) {
    return (Linear){.constant = c};
}

static Linear linear_atom(const Value *v) {
    return (Linear){.n = 1, .terms = {{v, 1}}};
}

/// No factor is INT64_MIN, so each may be negated and divided.
static void add_linear_term(Linear *a, Term t) {
    for (int i = 0; i < a->n; i++) {
        if (a->terms[i].atom != t.atom) continue;
        a->bad |= __builtin_add_overflow(a->terms[i].factor, t.factor, &a->terms[i].factor) ||
                  a->terms[i].factor == INT64_MIN;
        if (a->terms[i].factor == 0) a->terms[i] = a->terms[--a->n];
        return;
    }
    if (a->n == MAX_TERMS || t.factor == INT64_MIN)
        a->bad = true;
    else
        a->terms[a->n++] = t;
}

Linear linear_add(Linear a, Linear b, int64_t factor) {
    Wide c;
    a.bad |= b.bad || __builtin_mul_overflow(b.constant, factor, &c) ||
             __builtin_add_overflow(a.constant, c, &a.constant);
    for (int i = 0; i < b.n && factor && !a.bad; i++) {
        Term t = b.terms[i];
        a.bad |= __builtin_mul_overflow(t.factor, factor, &t.factor);
        add_linear_term(&a, t);
    }
    return a;
}

Linear linear_scaled(Linear a, int64_t factor) {
    return linear_add(linear_constant(0), a, factor);
}

Linear linear_without(Linear a, int i) {
    a.terms[i] = a.terms[--a.n];
    return a;
}

/* ---- values to forms ----------------------------------------------------------------------- */

/// A gathered view has the extents of its tensor.
static const Value *extents_of(const Value *tensor) {
    const Op *gather = def_of(tensor, OP_COMM_GATHER);
    return gather && tensor == result(gather, 0) ? operand(gather, 0) : tensor;
}

/// Returns the one atom of an extent: `dim` ops of one tensor and axis have the same value.
static const Value *extent_atom(Ranges *r, const Value *tensor, int axis, const Value *dim) {
    tensor = extents_of(tensor);
    for (int i = 0; i < r->extents.n; i++)
        if (r->extents.data[i].tensor == tensor && r->extents.data[i].axis == axis)
            return r->extents.data[i].atom;
    if (!dim) { // no op names the extent, so it gets a value without a definition
        Value *v = ctx_new(r->ctx, Value);
        v->type = ty_scalar(r->ir, EL_I64);
        v->index = -1;
        dim = v;
    }
    Extent e = {tensor, dim, axis};
    vec_push(r->ctx, &r->extents, e);
    return dim;
}

/// Returns the atom, or the form that it is known to equal.
static Linear resolved_atom(Ranges *r, const Value *atom) {
    const Linear *is = map_get(&r->equal, atom);
    return is ? *is : linear_atom(atom);
}

Linear linear_extent(Ranges *r, const Value *tensor, int d) {
    if (tensor->type->extents[d] != DYNAMIC) return linear_constant(tensor->type->extents[d]);
    // A scratch tensor's extent is its operand, or 0 if that is negative. A value that is below the
    // operand is below the extent.
    const Op *scratch = def_of(tensor, OP_SCRATCH);
    if (scratch) return linear_exact(r, operand(scratch, d));
    return resolved_atom(r, extent_atom(r, tensor, d, NULL));
}

static Linear linear_form_of(Ranges *r, const Value *v, const Op *op) {
    int64_t c;
    switch (op->code) {
    case OP_ADD: return linear_add(linear_of(r, operand(op, 0)), linear_of(r, operand(op, 1)), 1);
    case OP_SUB: return linear_add(linear_of(r, operand(op, 0)), linear_of(r, operand(op, 1)), -1);
    case OP_NEG: return linear_scaled(linear_of(r, operand(op, 0)), -1);
    case OP_MUL:
        for (int i = 0; i < 2; i++)
            if (const_int(operand(op, i), &c))
                return linear_scaled(linear_of(r, operand(op, !i)), c);
        return resolved_atom(r, v);
    case OP_BROADCAST:
        // All lanes of a broadcast scalar are that scalar. The broadcast of another block is an
        // atom of its own, since its axes need not be those of the operand.
        return ty_is_scalar(operand(op, 0)->type) ? linear_of(r, operand(op, 0))
                                                  : resolved_atom(r, v);
    case OP_DIM:
        return resolved_atom(r, extent_atom(r, operand(op, 0), (int)op_int(op, A_AXIS, 0), v));
    default: return resolved_atom(r, v);
    }
}

/// Visits each value once. A chain of n sums that each use the previous one twice has 2^n paths.
Linear linear_of(Ranges *r, const Value *v) {
    int64_t c;
    if (v->type->kind != TK_BLOCK || v->type->elem != EL_I64) return linear_bad();
    if (const_int(v, &c)) return linear_constant(c);
    if (!v->def) return resolved_atom(r, v);
    Linear *known = map_get(&r->forms, v);
    if (known) return *known;
    known = ctx_new(r->ctx, Linear);
    *known = linear_form_of(r, v, v->def);
    map_set(r->ctx, &r->forms, v, known);
    return *known;
}

/// Whether interval bounds keep the form within int64_t.
static bool fits_by_bounds(Ranges *r, const Linear *form) {
    Interval x;
    return linear_bounds(r, form, 0, &x) && x.lo >= INT64_MIN && x.hi <= INT64_MAX;
}

/// Whether proofs do.
static bool fits_by_proof(Ranges *r, Linear form, int depth) {
    Linear low = form, high = linear_scaled(form, -1);
    low.constant -= INT64_MIN;
    high.constant += INT64_MAX;
    return proved(r, low, depth + 1) && proved(r, high, depth + 1);
}

Linear linear_exact_at(Ranges *r, const Value *v, int depth) {
    Linear form = linear_of(r, v);
    bool is_value = form.n == 1 && form.constant == 0 && form.terms[0].factor == 1;
    if (v->type->kind != TK_BLOCK || v->type->elem != EL_I64) return form;
    if (!form.bad && (is_value || map_get(&r->fits, v))) return form;
    if (!form.bad && fits_by_bounds(r, &form)) {
        map_set(r->ctx, &r->fits, v, (void *)v);
        return form;
    }
    return !form.bad && fits_by_proof(r, form, depth) ? form : linear_atom(v);
}

/* ---- facts --------------------------------------------------------------------------------- */

static void add_linear_fact(Ranges *r, Linear f) {
    if (!f.bad && f.n && r->facts.n < MAX_FACTS) vec_push(r->ctx, &r->facts, f);
}

/// Records form = 0: an atom with factor 1 or -1 equals the rest.
static void add_equality(Ranges *r, Linear form) {
    add_linear_fact(r, form);
    add_linear_fact(r, linear_scaled(form, -1));
    for (int i = form.n - 1; i >= 0 && !form.bad; i--) {
        Term t = form.terms[i];
        bool plain = t.factor == 1 || t.factor == -1;
        if (!plain || map_get(&r->equal, t.atom)) continue;
        Linear rest = linear_scaled(linear_without(form, i), -t.factor);
        map_set(r->ctx, &r->equal, t.atom, ctx_copy(r->ctx, &rest, sizeof rest));
        r->forms = (PtrMap){0};
        return;
    }
}

/// Records x % c = 0: c divides the atom x. Returns false if the comparison has another form.
static bool add_divisor(Ranges *r, const Op *eq) {
    const Op *rem = def_of(operand(eq, 0), OP_REM);
    int64_t c;
    if (!rem || !is_const_int(operand(eq, 1), 0) || !const_int(operand(rem, 1), &c) || c <= 0)
        return false;
    Linear x = linear_of(r, operand(rem, 0));
    if (x.n == 1 && x.constant == 0 && x.terms[0].factor == 1)
        map_set(r->ctx, &r->divisors, x.terms[0].atom, (void *)(intptr_t)c);
    return true;
}

static void assume_at_most(Ranges *r, const Op *op, Linear x, Linear y, bool everywhere) {
    (void)op, (void)everywhere;
    add_linear_fact(r, linear_add(y, x, -1));
}

static void assume_less(Ranges *r, const Op *op, Linear x, Linear y, bool everywhere) {
    assume_at_most(r, op, linear_add(x, linear_constant(1), 1), y, everywhere);
}

static void assume_at_least(Ranges *r, const Op *op, Linear x, Linear y, bool everywhere) {
    assume_at_most(r, op, y, x, everywhere);
}

static void assume_more(Ranges *r, const Op *op, Linear x, Linear y, bool everywhere) {
    assume_less(r, op, y, x, everywhere);
}

static void assume_equal(Ranges *r, const Op *op, Linear x, Linear y, bool everywhere) {
    if (everywhere && add_divisor(r, op)) return;
    if (everywhere) add_equality(r, linear_add(y, x, -1));
    assume_at_most(r, op, x, y, everywhere);
    assume_at_least(r, op, x, y, everywhere);
}

/// The facts that follow from a true comparison of i64.
typedef struct FactRule {
    OpCode op;
    void (*assume)(Ranges *r, const Op *op, Linear x, Linear y, bool everywhere);
    const char *algebra;
} FactRule;
static const FactRule fact_rules[] = {
    {OP_LE, assume_at_most, "x <= y: y - x >= 0"},
    {OP_LT, assume_less, "x < y: y - x - 1 >= 0"},
    {OP_GE, assume_at_least, "x >= y: x - y >= 0"},
    {OP_GT, assume_more, "x > y: x - y - 1 >= 0"},
    {OP_EQ, assume_equal, "x == y: both; x % c == 0: c divides x"},
};
const RuleTable fact_table = RULE_TABLE("range", FactRule, fact_rules);

static void assume_comparison(Ranges *r, const Op *op, bool holds, bool everywhere) {
    static const OpCode opposite[OP_COUNT] = {[OP_EQ] = OP_NE, [OP_NE] = OP_EQ, [OP_LT] = OP_GE,
                                              [OP_GE] = OP_LT, [OP_LE] = OP_GT, [OP_GT] = OP_LE};
    if (operand(op, 0)->type->elem != EL_I64) return;
    OpCode code = holds ? op->code : opposite[op->code];
    for (int i = 0; i < fact_table.n; i++) {
        if (fact_rules[i].op != code) continue;
        fact_rules[i].assume(r, op, linear_exact(r, operand(op, 0)),
                             linear_exact(r, operand(op, 1)), everywhere);
        rule_applied(r->ir, op, fact_rules[i].algebra);
    }
}

/// Adds the facts that follow from a scalar condition, or from its negation.
static void assume_condition(Ranges *r, const Value *condition, bool holds, bool everywhere) {
    const Op *op = condition->def;
    if (!op || !ty_is_scalar(condition->type)) return;
    if (op_has(op, COMPARES) && op->n_operands == 2) {
        assume_comparison(r, op, holds, everywhere);
    } else if (op->code == OP_NOT) {
        assume_condition(r, operand(op, 0), !holds, everywhere);
    } else if (op->code == (holds ? OP_AND : OP_OR)) {
        assume_condition(r, operand(op, 0), holds, everywhere);
        assume_condition(r, operand(op, 1), holds, everywhere);
    }
}

Ranges *ranges_of(Ir *ir, Op *kernel) {
    Ranges *r = ctx_new(ir_ctx(ir), Ranges);
    r->ir = ir;
    r->ctx = ir_ctx(ir);
    for_each_op(op, kernel->regions[0]) {
        if (op->code == OP_DIM)
            extent_atom(r, operand(op, 0), (int)op_int(op, A_AXIS, 0), result(op, 0));
        if (op->code == OP_REQUIRE) assume_condition(r, operand(op, 0), true, true);
    }
    r->n_kernel_facts = r->facts.n;
    return r;
}

void ranges_at(Ranges *r, const Op *op) {
    int before = r->facts.n;
    r->facts.n = r->n_kernel_facts;
    for (const Region *at = op->parent; at && at->parent; at = at->parent->parent) {
        const Op *branch = at->parent;
        if (branch->code == OP_IF)
            assume_condition(r, operand(branch, 0), at == branch->regions[0], false);
    }
    r->place += before > r->n_kernel_facts || r->facts.n > r->n_kernel_facts;
}

/* ---- divisors ------------------------------------------------------------------------------ */

/// The magnitude of INT64_MIN, 2^63, does not fit into int64_t. 2^62 divides it, too.
static int64_t gcd_int64(int64_t a, int64_t b) {
    uint64_t x = a < 0 ? 0 - (uint64_t)a : (uint64_t)a, y = b < 0 ? 0 - (uint64_t)b : (uint64_t)b;
    while (y) {
        uint64_t t = x % y;
        x = y;
        y = t;
    }
    return x > INT64_MAX ? (int64_t)1 << 62 : (int64_t)x;
}

bool is_loop_index(const Value *v) {
    if (v->def || !v->region || v->index != 0) return false;
    OpCode code = v->region->parent->code;
    return (code == OP_FOR && v->region == v->region->parent->regions[0]) || code == OP_PARALLEL ||
           code == OP_CONTRACT;
}

/// Returns the part of a divisor that survives wrapping modulo 2 ** 64.
static int64_t power_of_two(int64_t d) {
    return d & -(uint64_t)d;
}

/// Returns a number that divides the value, whose form may hold only modulo 2 ** 64.
static int64_t value_divisor(Ranges *r, const Value *v, int depth) {
    Linear form = linear_of(r, v);
    int64_t d = linear_divisor(r, form, depth);
    return !form.bad && fits_by_bounds(r, &form) ? d : power_of_two(d);
}

static int64_t operand_divisor(Ranges *r, const Op *op, int i, int depth) {
    return value_divisor(r, operand(op, i), depth + 1);
}

static int64_t divisor_of_choice(Ranges *r, const Op *op, int depth) {
    return gcd_int64(operand_divisor(r, op, op->n_operands - 2, depth),
                     operand_divisor(r, op, op->n_operands - 1, depth));
}

static int64_t divisor_of_product(Ranges *r, const Op *op, int depth) {
    int64_t a = operand_divisor(r, op, 0, depth), b = operand_divisor(r, op, 1, depth), d;
    Interval x;
    Linear atom = linear_atom(result(op, 0));
    bool wraps = !linear_bounds(r, &atom, depth, &x) || x.lo == INT64_MIN;
    if (__builtin_mul_overflow(a, b, &d)) return 1;
    return wraps ? power_of_two(d) : d;
}

static int64_t divisor_of_lanes(Ranges *r, const Op *op, int depth) {
    return operand_divisor(r, op, 0, depth);
}

typedef struct DivisorRule {
    OpCode op;
    int64_t (*of)(Ranges *r, const Op *op, int depth);
    const char *algebra;
} DivisorRule;
static const DivisorRule divisor_rules[] = {
    {OP_MIN, divisor_of_choice, "gcd(x, y) divides min(x, y)"},
    {OP_MAX, divisor_of_choice, "gcd(x, y) divides max(x, y)"},
    {OP_SELECT, divisor_of_choice, "gcd(x, y) divides c ? x : y"},
    {OP_MUL, divisor_of_product, "a b divides x y where a divides x, b divides y"},
    {OP_RESHAPE, divisor_of_lanes, "what divides x divides reshape(x)"},
    {OP_PERMUTE, divisor_of_lanes, "what divides x divides permute(x)"},
    {OP_BROADCAST, divisor_of_lanes, "what divides x divides broadcast(x)"},
    {OP_SLICE, divisor_of_lanes, "what divides x divides slice(x)"},
};
const RuleTable divisor_table = RULE_TABLE("range", DivisorRule, divisor_rules);

static int64_t atom_divisor(Ranges *r, const Value *v, int depth) {
    int64_t known = (int64_t)(intptr_t)map_get(&r->divisors, v);
    if (known || depth > RANGE_DEPTH) return known ? known : 1;
    if (is_loop_index(v)) {
        const Op *loop = v->region->parent;
        return gcd_int64(operand_divisor(r, loop, 0, depth), op_int(loop, A_STEP, 1));
    }
    for (int i = 0; i < divisor_table.n && v->def; i++)
        if (divisor_rules[i].op == v->def->code) {
            rule_applied(r->ir, v->def, divisor_rules[i].algebra);
            return divisor_rules[i].of(r, v->def, depth);
        }
    return 1;
}

int64_t linear_divisor(Ranges *r, Linear form, int depth) {
    if (form.bad || form.constant != (int64_t)form.constant) return 1;
    int64_t d = gcd_int64((int64_t)form.constant, 0);
    for (int i = 0; i < form.n; i++) {
        int64_t t;
        if (__builtin_mul_overflow(atom_divisor(r, form.terms[i].atom, depth + 1),
                                   form.terms[i].factor, &t))
            return 1;
        d = gcd_int64(d, t);
    }
    return d;
}

int64_t range_divisor(Ranges *r, const Value *v) {
    return value_divisor(r, v, 0);
}
