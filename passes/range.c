// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// range: linear forms of integer values and proofs about them. See range.h for the idea.
#include "passes/range_private.h"
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

static void add_term(Linear *a, Term t) {
    for (int i = 0; i < a->n; i++) {
        if (a->terms[i].atom != t.atom) continue;
        a->bad |= __builtin_add_overflow(a->terms[i].factor, t.factor, &a->terms[i].factor);
        if (a->terms[i].factor == 0) a->terms[i] = a->terms[--a->n];
        return;
    }
    if (a->n == MAX_TERMS)
        a->bad = true;
    else
        a->terms[a->n++] = t;
}

Linear linear_add(Linear a, Linear b, int64_t factor) {
    int64_t c;
    a.bad |= b.bad || __builtin_mul_overflow(b.constant, factor, &c) ||
             __builtin_add_overflow(a.constant, c, &a.constant);
    for (int i = 0; i < b.n && factor && !a.bad; i++) {
        Term t = b.terms[i];
        a.bad |= __builtin_mul_overflow(t.factor, factor, &t.factor);
        add_term(&a, t);
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

/// A gathered view has the extents of the tensor.
static const Value *extents_of(const Value *tensor) {
    const Op *gather = def_of(tensor, OP_COMM_GATHER);
    return gather && tensor == result(gather, 0) ? operand(gather, 0) : tensor;
}

/// One atom an extent: `dim` ops of one tensor and axis are the same value.
static const Value *extent_atom(Ranges *r, const Value *tensor, int axis, const Value *dim) {
    tensor = extents_of(tensor);
    for (int i = 0; i < r->extents.n; i++)
        if (r->extents.data[i].tensor == tensor && r->extents.data[i].axis == axis)
            return r->extents.data[i].atom;
    if (!dim) { // no op names it: a value of our own, which no op defines
        Value *v = ctx_new(r->ctx, Value);
        v->type = ty_scalar(r->ir, EL_I64);
        v->index = -1;
        dim = v;
    }
    Extent e = {tensor, dim, axis};
    vec_push(r->ctx, &r->extents, e);
    return dim;
}

/// The atom, or what it is known to be equal to.
static Linear resolved(Ranges *r, const Value *atom) {
    const Linear *is = map_get(&r->equal, atom);
    return is ? *is : linear_atom(atom);
}

Linear linear_extent(Ranges *r, const Value *tensor, int d) {
    if (tensor->type->extents[d] != DYNAMIC) return linear_constant(tensor->type->extents[d]);
    // What is below a scratch tensor's operand is below its extent: that is the operand, or 0.
    const Op *scratch = def_of(tensor, OP_SCRATCH);
    if (scratch) return linear_of(r, operand(scratch, d));
    return resolved(r, extent_atom(r, tensor, d, NULL));
}

Linear linear_of(Ranges *r, const Value *v) {
    int64_t c;
    if (v->type->kind != TK_BLOCK || v->type->elem != EL_I64) return linear_bad();
    if (const_int(v, &c)) return linear_constant(c);
    const Op *op = v->def;
    if (!op) return resolved(r, v);
    switch (op->code) {
    case OP_ADD: return linear_add(linear_of(r, operand(op, 0)), linear_of(r, operand(op, 1)), 1);
    case OP_SUB: return linear_add(linear_of(r, operand(op, 0)), linear_of(r, operand(op, 1)), -1);
    case OP_NEG: return linear_scaled(linear_of(r, operand(op, 0)), -1);
    case OP_MUL:
        for (int i = 0; i < 2; i++)
            if (const_int(operand(op, i), &c))
                return linear_scaled(linear_of(r, operand(op, !i)), c);
        return resolved(r, v);
    case OP_BROADCAST:
        // Lanes of a scalar are the scalar. Other blocks keep their own lanes apart: an axis here
        // need not be the same axis there.
        return ty_is_scalar(operand(op, 0)->type) ? linear_of(r, operand(op, 0)) : resolved(r, v);
    case OP_DIM: return resolved(r, extent_atom(r, operand(op, 0), (int)op_int(op, "axis", 0), v));
    default: return resolved(r, v);
    }
}

/* ---- facts --------------------------------------------------------------------------------- */

static void add_fact(Ranges *r, Linear f) {
    if (!f.bad && f.n && r->facts.n < MAX_FACTS) vec_push(r->ctx, &r->facts, f);
}

/// form = 0: one of its atoms of factor 1 or -1 is the rest.
static void add_equality(Ranges *r, Linear form) {
    add_fact(r, form);
    add_fact(r, linear_scaled(form, -1));
    for (int i = form.n - 1; i >= 0 && !form.bad; i--) {
        Term t = form.terms[i];
        bool plain = t.factor == 1 || t.factor == -1;
        if (!plain || map_get(&r->equal, t.atom)) continue;
        Linear rest = linear_scaled(linear_without(form, i), -t.factor);
        map_set(r->ctx, &r->equal, t.atom, ctx_copy(r->ctx, &rest, sizeof rest));
        return;
    }
}

/// x % c = 0: c divides the atom x.
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

static void assume(Ranges *r, const Value *condition, bool holds, bool everywhere);

static void assume_comparison(Ranges *r, const Op *op, bool holds, bool everywhere) {
    if (operand(op, 0)->type->elem != EL_I64) return;
    Linear x = linear_of(r, operand(op, 0)), y = linear_of(r, operand(op, 1));
    OpCode code = op->code;
    if (!holds) {
        static const OpCode opposite[OP_COUNT] = {
            [OP_EQ] = OP_NE, [OP_NE] = OP_EQ, [OP_LT] = OP_GE,
            [OP_GE] = OP_LT, [OP_LE] = OP_GT, [OP_GT] = OP_LE};
        code = opposite[code];
    }
    Linear less = linear_add(y, x, -1), more = linear_add(x, y, -1); // y - x, x - y
    switch (code) {
    case OP_LE: add_fact(r, less); return;
    case OP_LT: add_fact(r, linear_add(less, linear_constant(1), -1)); return;
    case OP_GE: add_fact(r, more); return;
    case OP_GT: add_fact(r, linear_add(more, linear_constant(1), -1)); return;
    case OP_EQ:
        if (everywhere && add_divisor(r, op)) return;
        if (everywhere) add_equality(r, less);
        add_fact(r, less);
        add_fact(r, more);
        return;
    default: return;
    }
}

/// Adds what follows from the truth (or falsehood) of a scalar condition.
static void assume(Ranges *r, const Value *condition, bool holds, bool everywhere) {
    const Op *op = condition->def;
    if (!op || !ty_is_scalar(condition->type)) return;
    if (op_has(op, COMPARES) && op->n_operands == 2) {
        assume_comparison(r, op, holds, everywhere);
    } else if (op->code == OP_NOT) {
        assume(r, operand(op, 0), !holds, everywhere);
    } else if (op->code == (holds ? OP_AND : OP_OR)) {
        assume(r, operand(op, 0), holds, everywhere);
        assume(r, operand(op, 1), holds, everywhere);
    }
}

Ranges *ranges_of(Ir *ir, Op *kernel) {
    Ranges *r = ctx_new(ir_ctx(ir), Ranges);
    r->ir = ir;
    r->ctx = ir_ctx(ir);
    for_each_op(op, kernel->regions[0]) {
        if (op->code == OP_DIM)
            extent_atom(r, operand(op, 0), (int)op_int(op, "axis", 0), result(op, 0));
        if (op->code == OP_REQUIRE) assume(r, operand(op, 0), true, true);
    }
    r->n_kernel_facts = r->facts.n;
    return r;
}

void ranges_at(Ranges *r, const Op *op) {
    r->facts.n = r->n_kernel_facts;
    for (const Region *at = op->parent; at && at->parent; at = at->parent->parent) {
        const Op *branch = at->parent;
        if (branch->code == OP_IF) assume(r, operand(branch, 0), at == branch->regions[0], false);
    }
}

/* ---- divisors ------------------------------------------------------------------------------ */

static int64_t gcd(int64_t a, int64_t b) {
    while (b) {
        int64_t t = a % b;
        a = b;
        b = t;
    }
    return a < 0 ? -a : a;
}

bool is_loop_index(const Value *v) {
    if (v->def || !v->region || v->index != 0) return false;
    OpCode code = v->region->parent->code;
    return (code == OP_FOR && v->region == v->region->parent->regions[0]) || code == OP_PARALLEL ||
           code == OP_CONTRACT;
}

static int64_t atom_divisor(Ranges *r, const Value *v, int depth) {
    int64_t known = (int64_t)(intptr_t)map_get(&r->divisors, v);
    if (known || depth > RANGE_DEPTH) return known ? known : 1;
    if (is_loop_index(v)) {
        const Op *loop = v->region->parent;
        int64_t lo = linear_divisor(r, linear_of(r, operand(loop, 0)), depth + 1);
        return gcd(lo, op_int(loop, "step", 1));
    }
    const Op *op = v->def;
    if (!op) return 1;
    int64_t a, b;
    switch (op->code) {
    case OP_MIN:
    case OP_MAX:
    case OP_SELECT:
    case OP_MUL:
        a = linear_divisor(r, linear_of(r, operand(op, op->n_operands - 2)), depth + 1);
        b = linear_divisor(r, linear_of(r, operand(op, op->n_operands - 1)), depth + 1);
        if (op->code != OP_MUL) return gcd(a, b);
        return __builtin_mul_overflow(a, b, &a) ? 1 : a;
    case OP_RESHAPE:
    case OP_PERMUTE:
    case OP_BROADCAST:
    case OP_SLICE: return linear_divisor(r, linear_of(r, operand(op, 0)), depth + 1);
    default: return 1;
    }
}

int64_t linear_divisor(Ranges *r, Linear form, int depth) {
    if (form.bad) return 1;
    int64_t d = gcd(form.constant, 0);
    for (int i = 0; i < form.n; i++) {
        int64_t t;
        if (__builtin_mul_overflow(atom_divisor(r, form.terms[i].atom, depth + 1),
                                   form.terms[i].factor, &t))
            return 1;
        d = gcd(d, t);
    }
    return d;
}

int64_t range_divisor(Ranges *r, const Value *v) {
    return linear_divisor(r, linear_of(r, v), 0);
}
