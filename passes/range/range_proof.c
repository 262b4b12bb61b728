// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// range: proofs of `form >= 0`.
//
// A term with a positive factor may be replaced by a lower bound of its atom, a term with a
// negative factor by an upper bound. The new form must still be >= 0:
//
//   M - i - min(M - i, 64) >= 0   <=  (min(x, y) <= x)   M - i - (M - i) = 0
//
// Some bounds are choices (either operand bounds a min from above); others are cases (a min is one
// of its operands, so both must do). A fact f >= 0 may be subtracted from the form. Depth and steps
// of the search are limited; without a proof the answer is "unknown".
#include "passes/range/range_private.h"

enum { PROOF_STEPS = 500, PROOF_DEPTH = 9 };

/// Proves the form with `bound` in place of term i, scaled: (form without t) * scale + factor *
/// bound. bound: one of scale * atom.
static bool proved_with(Ranges *r, const Linear *form, int i, Linear bound, int64_t scale,
                        int depth) {
    Linear rest = linear_without(*form, i);
    if (scale != 1) rest = linear_scaled(rest, scale);
    return proved(r, linear_add(rest, bound, form->terms[i].factor), depth + 1);
}

static Linear minus_int(Linear a, int64_t c) {
    return linear_add(a, linear_constant(c), -1);
}

static Linear operand_form(Ranges *r, const Op *op, int i, int depth) {
    return linear_exact_at(r, operand(op, i), depth + 1);
}

/// lo <= index, and index <= hi - 1, or hi - step if the step divides hi - lo.
static bool by_loop(Ranges *r, const Linear *form, int i, const Op *loop, int depth) {
    Linear lo = operand_form(r, loop, 0, depth), hi = operand_form(r, loop, 1, depth);
    int64_t step = op_int(loop, A_STEP, 1);
    if (form->terms[i].factor > 0 || step == 0) return proved_with(r, form, i, lo, 1, depth);
    int64_t even = linear_divisor(r, linear_add(hi, lo, -1), 0);
    bool whole = even % step == 0;
    return proved_with(r, form, i, minus_int(hi, whole ? step : 1), 1, depth);
}

/// min(x, y) is at most x and at most y. Its lower bounds need both cases, since it is one of them.
/// max is the reverse; a select is one of its values.
static bool by_min_max(Ranges *r, const Linear *form, int i, const Op *op, int depth) {
    bool upper = form->terms[i].factor < 0;
    bool choice = op->code != OP_SELECT && upper == (op->code == OP_MIN);
    int n = op->n_operands;
    bool x = proved_with(r, form, i, operand_form(r, op, n - 2, depth), 1, depth);
    if (x == choice) return x;
    return proved_with(r, form, i, operand_form(r, op, n - 1, depth), 1, depth);
}

/// q = x / k, k > 0 constant: k q <= x if x >= 0, k q >= x - (k - 1).
static bool by_quotient(Ranges *r, const Linear *form, int i, const Op *op, int depth) {
    int64_t k;
    if (!const_int(operand(op, 1), &k) || k <= 0) return false;
    Linear x = operand_form(r, op, 0, depth);
    if (form->terms[i].factor > 0) return proved_with(r, form, i, minus_int(x, k - 1), k, depth);
    return proved(r, x, depth + 1) && proved_with(r, form, i, x, k, depth);
}

/// m = x % y, x >= 0, y >= 1: 0 <= m <= y - 1; also m <= x.
static bool by_remainder(Ranges *r, const Linear *form, int i, const Op *op, int depth) {
    Linear x = operand_form(r, op, 0, depth), y = operand_form(r, op, 1, depth);
    if (!proved(r, x, depth + 1)) return false;
    if (form->terms[i].factor > 0) return proved_with(r, form, i, linear_constant(0), 1, depth);
    return proved_with(r, form, i, x, 1, depth) ||
           (proved(r, minus_int(y, 1), depth + 1) &&
            proved_with(r, form, i, minus_int(y, 1), 1, depth));
}

/// task <= n - 1
static bool by_launch(Ranges *r, const Linear *form, int i, const Op *launch, int depth) {
    if (form->terms[i].factor > 0) return false;
    return proved_with(r, form, i, minus_int(operand_form(r, launch, 0, depth), 1), 1, depth);
}

/// A rule for an atom from its definition: the op of a result, or the op whose region has the
/// argument.
typedef struct ProofRule {
    OpCode op;
    bool (*holds)(Ranges *r, const Linear *form, int i, const Op *op, int depth);
    const char *algebra;
} ProofRule;
static const ProofRule rules[] = {
    {OP_FOR, by_loop, "for: lo <= i <= hi - 1, or hi - step where it divides hi - lo"},
    {OP_PARALLEL, by_loop, "parallel: lo <= i <= hi - 1, or hi - step where it divides hi - lo"},
    {OP_CONTRACT, by_loop, "contract: lo <= i <= hi - 1, or hi - step where it divides hi - lo"},
    {OP_LAUNCH, by_launch, "launch: task <= n - 1"},
    {OP_MIN, by_min_max, "min(x, y) <= x, <= y; >= a where x >= a and y >= a"},
    {OP_MAX, by_min_max, "max(x, y) >= x, >= y; <= a where x <= a and y <= a"},
    {OP_SELECT, by_min_max, "c ? x : y >= a where x >= a and y >= a; likewise <="},
    {OP_DIV, by_quotient, "x - (k - 1) <= k (x / k) <= x, where x >= 0, k > 0"},
    {OP_REM, by_remainder, "0 <= x % y <= x, <= y - 1, where x >= 0, y > 0"},
};
const RuleTable proof_table = RULE_TABLE("range", ProofRule, rules);

/// Replaces term i by a constant bound of its atom.
static bool by_interval(Ranges *r, const Linear *form, int i, int depth) {
    Linear atom = {.n = 1, .terms = {{form->terms[i].atom, 1}}};
    Interval x;
    if (!linear_bounds(r, &atom, 0, &x)) return false;
    Wide end = form->terms[i].factor > 0 ? x.lo : x.hi;
    if (end == INT64_MIN || end == INT64_MAX || end == MAX_EXTENT) return false;
    return proved_with(r, form, i, linear_constant((int64_t)end), 1, depth);
}

static bool by_definition(Ranges *r, const Linear *form, int i, int depth) {
    const Value *v = form->terms[i].atom;
    if (is_own_extent(v)) return false;
    if (v->def && v->def->n_regions) return false; // a carried value is not the loop's index
    const Op *op = v->def ? v->def : v->region->parent;
    bool task = !v->def && op->code == OP_LAUNCH && v->index == 0;
    if (!v->def && !is_loop_index(v) && !task) return false;
    for (int k = 0; k < proof_table.n; k++) {
        if (rules[k].op != op->code) continue;
        if (!rules[k].holds(r, form, i, op, depth)) return false;
        rule_applied(r->ir, op, rules[k].algebra);
        return true;
    }
    return false;
}

/// form = f + rest, f >= 0, where f and the form share a term of the same sign.
static bool by_facts(Ranges *r, const Linear *form, int depth) {
    for (int k = 0; k < r->facts.n; k++) {
        const Linear *f = &r->facts.data[k];
        for (int a = 0; a < f->n; a++)
            for (int b = 0; b < form->n; b++) {
                Term p = f->terms[a], q = form->terms[b];
                bool alike = p.atom == q.atom && (p.factor > 0) == (q.factor > 0);
                if (alike && q.factor % p.factor == 0 &&
                    proved(r, linear_add(*form, *f, -(q.factor / p.factor)), depth + 1))
                    return true;
            }
    }
    return false;
}

/// Returns the rank of an atom by its definition: defined values first, inner indices before outer
/// ones, extents last.
static int derivation_depth(const Value *v) {
    if (is_own_extent(v) || def_of(v, OP_DIM)) return 0;
    const Region *r = v->def ? v->def->parent : v->region;
    int depth = v->def ? 100 : 1;
    for (; r->parent && r->parent->parent; r = r->parent->parent) depth++;
    return depth;
}

/// Puts the most derived terms first, which is the order in which replacing them succeeds.
static void sort_terms(Linear *form) {
    for (int i = 1; i < form->n; i++)
        for (int j = i; j > 0; j--) {
            Term t = form->terms[j], s = form->terms[j - 1];
            if (derivation_depth(t.atom) <= derivation_depth(s.atom)) break;
            form->terms[j] = s;
            form->terms[j - 1] = t;
        }
}

/// Returns the slot of a table of failures for this form.
static Failure *failure_of(Failure *table, const Linear *form, int depth) {
    uint64_t h = (uint64_t)form->constant + (uint64_t)depth;
    for (int i = 0; i < form->n; i++) {
        h = (h ^ (uintptr_t)form->terms[i].atom) * 0x9e3779b97f4a7c15u;
        h = (h ^ (uint64_t)form->terms[i].factor) * 0x9e3779b97f4a7c15u;
    }
    return &table[(h * 0x9e3779b97f4a7c15u >> 32) % FAILURES];
}

static bool same_form(const Linear *a, const Linear *b) {
    if (a->constant != b->constant || a->n != b->n) return false;
    for (int i = 0; i < a->n; i++)
        if (a->terms[i].atom != b->terms[i].atom || a->terms[i].factor != b->terms[i].factor)
            return false;
    return true;
}

static bool search_proof(Ranges *r, const Linear *form, int depth) {
    for (int i = 0; i < form->n; i++)
        if (by_definition(r, form, i, depth)) return true;
    if (by_facts(r, form, depth)) return true;
    for (int i = 0; i < form->n && form->n > 1; i++)
        if (by_interval(r, form, i, depth)) return true;
    return false;
}

// Facts are subtracted in any order, so a search reaches most forms many times. A remembered
// failure costs the steps of its search, so the result does not depend on the memory.
bool proved(Ranges *r, Linear form, int depth) {
    Interval x;
    if (form.bad || depth > PROOF_DEPTH || r->steps-- <= 0) return false;
    if (linear_bounds(r, &form, 0, &x) && x.lo >= 0) return true;
    sort_terms(&form);
    Failure *f = failure_of(r->failed, &form, depth);
    if (f->proof == r->proof && f->depth == depth && same_form(&f->form, &form)) {
        r->steps -= f->steps;
        return false;
    }
    int before = r->steps;
    if (search_proof(r, &form, depth)) return true;
    *f = (Failure){form, depth, before - r->steps, r->proof};
    return false;
}

// Accesses to many parameters ask for the same proofs. Without facts of its own, a place has the
// same failures as other such places.
bool prove_nonnegative(Ranges *r, Linear form) {
    Failure *f = failure_of(r->unproved, &form, 0);
    if (f->steps && f->proof == r->place && same_form(&f->form, &form)) return false;
    r->steps = PROOF_STEPS;
    r->proof++;
    if (proved(r, form, 0)) return true;
    *f = (Failure){.form = form, .steps = PROOF_STEPS, .proof = r->place};
    return false;
}

Linear linear_exact(Ranges *r, const Value *v) {
    r->steps = PROOF_STEPS;
    r->proof++;
    return linear_exact_at(r, v, 0);
}
