// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Decides which values a fold ignores: its identity, and values beyond all others. Unknown folds
// are tested on samples.
#include "passes/pads/pads.h"

#include <math.h>

bool is_identity(Ir *ir, OpCode code, Elem e, const Fact *f) {
    const Attr *a = monoid_identity(ir, code, e);
    if (f->holds != CONSTANT || !a) return false;
    if ((code == OP_MIN || code == OP_MAX) && elem_is(e, EC_FLOAT) && isnan(f->value.f))
        return true;
    return cell_equal(e, f->value, cell_of_attr(e, a)) ||
           (code == OP_ADD && cell_is(e, f->value, 0));
}

/* ---- folds by functions of the program ----------------------------------------------------- */

enum { MAX_PARTS = 8, N_SAMPLES = 10, MAX_CELLS = 128 };

/// The values of a region of scalar code: its arguments, then the result of each op, by the op's
/// mark.
typedef struct Cells {
    Region *r;
    int n;
    Cell at[MAX_CELLS];
} Cells;

static bool cell_of_value(const Cells *c, const Value *v, Cell *out) {
    const Attr *a = const_of(v);
    bool inside = v->def ? v->def->parent == c->r : v->region == c->r;
    if (a) *out = cell_of_attr(v->type->elem, a);
    if (!a && inside) *out = c->at[v->def ? v->def->mark : v->index];
    return a || inside;
}

static bool run_fold_op(Cells *c, const Op *op, Cell *out) {
    Cell in[3] = {0};
    if (op->n_operands > 3 || op->n_results != 1) return false;
    for (int i = 0; i < op->n_operands; i++)
        if (!cell_of_value(c, operand(op, i), &in[i])) return false;
    if (op->code == OP_CONST) return true;
    if (op_has(op, ELEMENTWISE))
        *out = eval_elementwise(op->code, operand(op, 0)->type->elem, in);
    else if (op->code == OP_CAST)
        *out = cell_cast(operand(op, 0)->type->elem, result(op, 0)->type->elem, in[0]);
    else if (op->code == OP_SELECT)
        *out = in[0].u ? in[1] : in[2];
    else
        return false;
    return true;
}

/// Runs a region. Returns false if it has other ops, uses outside values, or is too long.
static bool run_fold_region(Region *r, const Cell *args, Cell *out) {
    Cells c = {.r = r, .n = r->n_args};
    for (int i = 0; i < r->n_args && i < MAX_CELLS; i++) c.at[i] = args[i];
    for_each_op(op, r) {
        if (op->code == OP_YIELD) {
            for (int i = 0; i < op->n_operands; i++)
                if (!cell_of_value(&c, operand(op, i), &out[i])) return false;
            return true;
        }
        if (c.n >= MAX_CELLS) return false;
        op->mark = c.n++;
        if (!run_fold_op(&c, op, &c.at[op->mark])) return false;
    }
    return false;
}

/// Returns sample s of the values on which a fold is tested. NaN is excluded, since maxima ignore
/// it, and so is 0, since a weight of 0 makes the rest of a tuple irrelevant. Some samples lie on
/// either side of `past`, the value of lanes past the end. Neighbours lie on the same side, as each
/// is folded with the next.
static Cell sample_cell(Elem e, int s, double past) {
    double step = fmax(1, fabs(past) / 4);
    const double values[N_SAMPLES] = {1,    -2.5,        -40,      3000,        0.5,
                                      0.25, past - step, 2 * past, past + step, -2 * past};
    double v = values[s % N_SAMPLES];
    return cell_cast(EL_F64, e, (Cell){.f = v == 0 || !isfinite(v) ? 2 : v});
}

/// Returns in *out the value of operand i past the end: the known one, a number beyond all others,
/// or sample s. Returns false if it comes from the pad and is unknown.
static bool past_end(const Pads *p, const Value *v, int axis, const Fact *dead, int s, Cell *out) {
    Elem e = v->type->elem;
    Operand in = operand_in(p, v, axis, dead);
    *out = in.lane == KNOWN ? in.value
           : is_number(v)   ? cell_cast(EL_I64, e, (Cell){.i = 1 << 20})
                            : sample_cell(e, s, 0);
    return in.lane != FOREIGN;
}

static bool same_cells(const Op *op, int n, const Cell *a, const Cell *b) {
    for (int i = 0; i < n; i++) {
        Elem e = operand(op, i)->type->elem;
        bool zeros = cell_is(e, a[i], 0) && cell_is(e, b[i], 0);
        if (!zeros && !cell_equal(e, a[i], b[i])) return false;
    }
    return true;
}

// The live values are results of the fold itself, since the parts of an arbitrary tuple need not
// fit together.
bool fold_ignores(const Pads *p, const Op *op, int axis, const Fact *f) {
    int n = op->n_results;
    if (n > MAX_PARTS) return false;
    for (int s = 0; s < N_SAMPLES * N_SAMPLES; s++) {
        Cell live[MAX_PARTS], dead[MAX_PARTS], both[2 * MAX_PARTS], out[MAX_PARTS];
        for (int i = 0; i < n; i++) {
            const Value *v = operand(op, i);
            Elem e = v->type->elem;
            Operand in = operand_in(p, v, axis, f);
            double past = in.lane == KNOWN ? cell_number(e, in.value) : 0;
            both[i] = sample_cell(e, s / N_SAMPLES + i, past);
            both[n + i] = sample_cell(e, s / N_SAMPLES + i + 1, past);
            if (!past_end(p, v, axis, f, s + i, &dead[i])) return false;
        }
        if (!run_fold_region(op->regions[0], both, live)) return false;
        for (int side = 0; side < 2; side++) {
            for (int i = 0; i < n; i++) {
                both[i] = side ? dead[i] : live[i];
                both[n + i] = side ? live[i] : dead[i];
            }
            if (!run_fold_region(op->regions[0], both, out)) return false;
            if (!same_cells(op, n, out, live)) return false;
        }
    }
    return true;
}

/* ---- bounds of lanes ----------------------------------------------------------------------- */

/// A walk over the definitions of a value. Loop variables start with their initial value, and stay
/// bounded if each iteration keeps the bound. A value that is visited again on the way is assumed
/// to be bounded.
typedef struct BoundWalk {
    double c;
    bool up;
    int budget;
} BoundWalk;

static bool stays_bounded(BoundWalk *b, const Value *v);

static bool is_within_bound(const BoundWalk *b, double v) {
    return isnan(v) || (b->up ? v <= b->c : v >= b->c);
}

/// Whether v is bounded by another constant, or in the other direction.
static bool bounded_by(BoundWalk *b, const Value *v, double c, bool up) {
    BoundWalk other = {c, up, b->budget};
    bool is = stays_bounded(&other, v);
    b->budget = other.budget;
    return is;
}

/// Whether both operands are bounded.
static bool both_bounded(BoundWalk *b, const Op *op) {
    return stays_bounded(b, operand(op, 0)) && stays_bounded(b, operand(op, 1));
}

static bool one_bounded(BoundWalk *b, const Op *op) {
    return stays_bounded(b, operand(op, 0)) || stays_bounded(b, operand(op, 1));
}

/// Handles x < k ? a : x and its like: the arm x is only taken if it is not below k.
static bool arm_bounded(BoundWalk *b, const Op *select, int arm) {
    const Value *x = operand(select, arm);
    const Op *test = operand(select, 0)->def;
    if (stays_bounded(b, x)) return true;
    if (!test || test->n_operands != 2 || operand(test, 0) != x) return false;
    const Attr *k = const_of(operand(test, 1));
    if (!k) return false;
    Cell cell = cell_of_attr(x->type->elem, k);
    double limit = elem_is(x->type->elem, EC_FLOAT) ? cell.f : (double)cell.i;
    bool less = test->code == OP_LT || test->code == OP_LE;
    bool more = test->code == OP_GT || test->code == OP_GE;
    if (!less && !more) return false;
    bool above = arm == 1 ? more : less; // if the arm is taken, x is above k, or NaN
    return above == !b->up && is_within_bound(b, limit);
}

/// Whether a and b are one value, or two equal loads. Stores between the loads are ignored, which
/// is good enough for a warning.
static bool is_same_load(const Value *a, const Value *b) {
    const Op *x = def_of(a, OP_LOAD), *y = def_of(b, OP_LOAD);
    if (a == b) return true;
    if (!x || !y || x->n_operands != y->n_operands || op_subs(x, A_SUBS) != op_subs(y, A_SUBS))
        return false;
    for (int i = 0; i < x->n_operands; i++) {
        const Attr *c = const_of(operand(x, i)), *d = const_of(operand(y, i));
        if (operand(x, i) != operand(y, i) && (!c || c != d)) return false;
    }
    return true;
}

/// Bounds of float ops, which do not wrap: 0 bounds squares, absolute values, and products of two
/// nonnegative values.
static bool float_bounded(BoundWalk *b, const Op *op) {
    bool not_below = !b->up && b->c <= 0, not_above = b->up && b->c >= 0;
    switch (op->code) {
    case OP_ABS:
    case OP_EXP:
    case OP_EXP2:
    case OP_EXP10:
    case OP_SQRT:
    case OP_HYPOT: return not_below;
    case OP_NEG: return bounded_by(b, operand(op, 0), -b->c, !b->up);
    case OP_MUL:
    case OP_DIV:
        if (is_same_load(operand(op, 0), operand(op, 1))) return not_below;
        return not_below && bounded_by(b, operand(op, 0), 0, false) &&
               bounded_by(b, operand(op, 1), 0, false);
    case OP_ADD:
        return (not_below || not_above) && bounded_by(b, operand(op, 0), 0, b->up) &&
               bounded_by(b, operand(op, 1), 0, b->up);
    default: return false;
    }
}

static bool carried_bounded(BoundWalk *b, const Op *op, int i) {
    if (op->code == OP_IF)
        return stays_bounded(b, operand(terminator(op->regions[0]), i)) &&
               stays_bounded(b, operand(terminator(op->regions[1]), i));
    int first = op->code == OP_FOR ? 2 : 0, body = op->code == OP_FOR ? 0 : 1;
    return stays_bounded(b, operand(op, first + i)) &&
           stays_bounded(b, operand(terminator(op->regions[body]), i));
}

static bool fold_bounded(BoundWalk *b, const Op *op) {
    OpCode code = op->n_results == 1 ? region_monoid(op->regions[0]) : OP_COUNT;
    bool zero = elem_is(operand(op, 0)->type->elem, EC_FLOAT) && code == OP_ADD;
    if (code != OP_MIN && code != OP_MAX && !(zero && (b->up ? b->c >= 0 : b->c <= 0)))
        return false;
    return zero ? bounded_by(b, operand(op, 0), 0, b->up) : stays_bounded(b, operand(op, 0));
}

/// Casts keep the order. Constants of integers are whole, so rounding does not pass them.
static bool cast_bounded(BoundWalk *b, const Op *op) {
    const Value *x = operand(op, 0);
    if (x->type->elem == EL_BOOL) return b->up ? b->c >= 1 : b->c <= 0;
    if (is_number(x)) return stays_bounded(b, x); // lane numbers fit
    bool narrows = elem_is(result(op, 0)->type->elem, EC_INT) && elem_is(x->type->elem, EC_INT);
    return !narrows && b->c == 0 && stays_bounded(b, x);
}

static bool op_bounded(BoundWalk *b, const Op *op, int index) {
    Elem e = op->n_results ? result(op, 0)->type->elem : EL_I64;
    switch (op->code) {
    case OP_BROADCAST:
    case OP_RESHAPE:
    case OP_PERMUTE:
    case OP_SLICE: return stays_bounded(b, operand(op, 0));
    case OP_CAST: return cast_bounded(b, op);
    case OP_IOTA: return b->up ? b->c >= (double)(result(op, 0)->type->extents[0] - 1) : b->c <= 0;
    case OP_MAX: return b->up ? both_bounded(b, op) : one_bounded(b, op);
    case OP_MIN: return b->up ? one_bounded(b, op) : both_bounded(b, op);
    case OP_SELECT: return arm_bounded(b, op, 1) && arm_bounded(b, op, 2);
    case OP_REDUCE:
    case OP_SCAN: return fold_bounded(b, op);
    case OP_FOR:
    case OP_WHILE:
    case OP_IF: return carried_bounded(b, op, index);
    default: return elem_is(e, EC_FLOAT) && float_bounded(b, op);
    }
}

static bool stays_bounded(BoundWalk *b, const Value *v) {
    Elem e = v->type->elem;
    const Attr *a = const_of(v);
    if (a) return is_within_bound(b, cell_number(e, cell_of_attr(e, a)));
    if (!b->up && b->c <= 0 && elem_is(e, EC_UINT | EC_BOOL)) return true;
    if (b->budget-- <= 0) return false;
    if (v->def) return op_bounded(b, v->def, v->index);
    const Op *loop = v->region->parent;
    int first = loop->code == OP_FOR ? 1 : 0;
    if ((loop->code != OP_FOR && loop->code != OP_WHILE) || v->index < first) return false;
    // The yielded value must be the variable, or a maximum with it. Any other counts as unbounded.
    const Value *start = operand(loop, loop->code == OP_FOR ? v->index + 1 : v->index);
    const Region *body = loop->regions[loop->code == OP_FOR ? 0 : 1];
    const Value *next = operand(terminator(body), v->index - first);
    bool keeps = next == v || (next->def && next->def->code == (b->up ? OP_MIN : OP_MAX) &&
                               (operand(next->def, 0) == v || operand(next->def, 1) == v));
    return keeps && stays_bounded(b, start);
}

enum { BOUND_BUDGET = 200 };

bool is_bounded(const Value *v, double c, bool up) {
    return stays_bounded(&(BoundWalk){c, up, BOUND_BUDGET}, v);
}

bool only_raised(const Value *v, double c, bool up) {
    if (!value_has_uses(v)) return false;
    for_each_use(u, v) {
        const Op *op = u->user;
        bool shape = op->code == OP_BROADCAST || op->code == OP_RESHAPE || op->code == OP_PERMUTE;
        bool raised = op->code == (up ? OP_MIN : OP_MAX) && op->n_operands == 2 &&
                      is_bounded(operand(op, !u->index), c, up);
        if (!raised && !(shape && only_raised(result(op, 0), c, up))) return false;
    }
    return true;
}
