// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Pads through ops that compute lane by lane: 0 * y = 0, -inf - y = -inf, exp(-inf) = 0.
#include "passes/pads/pads.h"

#include <math.h>

double cell_number(Elem e, Cell c) {
    return elem_is(e, EC_FLOAT) ? c.f : elem_is(e, EC_SINT) ? (double)c.i : (double)c.u;
}

bool cell_is(Elem e, Cell c, double v) {
    return cell_number(e, c) == v;
}

static bool is_infinite(Elem e, Cell c) {
    return elem_is(e, EC_FLOAT) && isinf(c.f);
}

/// Whether the op is lane number < count, which is false past the end. The left operand must be
/// iota, the right one the count in every lane.
static bool is_lane_test(const Op *op, const Value **count) {
    const Value *w = operand(op, 1);
    if (op->code != OP_LT || !def_of(operand(op, 0), OP_IOTA)) return false;
    if (!def_of(w, OP_BROADCAST) && !const_of(w)) return false;
    *count = const_of(w) ? w : operand(w->def, 0);
    return true;
}

static bool uniform_by(const Value *v, int axis, int *budget) {
    if (v->type->rank == 0) return true;
    const Op *op = v->def;
    if (!op || --*budget < 0) return false;
    if (op->code == OP_BROADCAST) {
        const Value *x = operand(op, 0);
        return x->type->rank == 0 || x->type->extents[axis] == 1 || uniform_by(x, axis, budget);
    }
    if (!op_has(op, PURE) || op->n_operands == 0 ||
        !(op_has(op, ELEMENTWISE) || op->code == OP_CAST))
        return false;
    for (int i = 0; i < op->n_operands; i++)
        if (!uniform_by(operand(op, i), axis, budget)) return false;
    return true;
}

/// Whether v repeats one lane along the axis.
static bool is_uniform(const Value *v, int axis) {
    int budget = 200;
    return uniform_by(v, axis, &budget);
}

Operand operand_in(const Pads *p, const Value *v, int axis, const Fact *dead) {
    const Fact *f = &facts_of(p, v)->axis[axis];
    const Attr *a = const_of(v);
    if (a) return (Operand){KNOWN, cell_of_attr(v->type->elem, a)};
    if (f->holds && f->lanes == dead->lanes)
        return (Operand){f->holds == CONSTANT ? KNOWN : FOREIGN, f->value};
    if (f->holds) return (Operand){OTHERS, {0}};
    bool carried = !v->def || v->def->n_regions == 2 || v->def->code == OP_FOR;
    return (Operand){is_uniform(v, axis) ? UNIFORM : carried ? OTHERS : OWN, {0}};
}

/// The result with one NaN operand: sums and products are NaN, comparisons are false except for !=.
static bool with_nan(OpCode code, Cell *out) {
    bool compares = op_info[code].traits & COMPARES;
    if (compares) out->u = code == OP_NE;
    return compares || code == OP_ADD || code == OP_SUB || code == OP_MUL || code == OP_DIV;
}

/// Returns results that are certain although one operand is unknown: 0 * y, -inf + y, -inf < y,
/// false && y.
static bool absorbed_cell(const Op *op, const Operand *in, Cell *out) {
    Elem e = operand(op, 0)->type->elem;
    for (int i = 0; i < 2 && op->n_operands == 2; i++) {
        if (in[i].lane != KNOWN) continue;
        Cell c = in[i].value;
        bool inf = is_infinite(e, c), low = inf && c.f < 0;
        *out = c;
        if (elem_is(e, EC_FLOAT) && isnan(c.f)) return with_nan(op->code, out);
        switch (op->code) {
        case OP_MUL:
            if (cell_is(e, c, 0)) return true;
            break;
        case OP_DIV:
            if (i == 0 && cell_is(e, c, 0)) return true;
            break;
        case OP_AND:
            if (c.u == 0) return true;
            break;
        case OP_OR:
            if (e == EL_BOOL && c.u == 1) return true;
            break;
        case OP_ADD:
            if (inf) return true;
            break;
        case OP_MIN:
            if (low) return true;
            break;
        case OP_MAX:
            if (inf && !low) return true;
            break;
        case OP_SUB:
            if (inf && i == 1) out->f = -c.f;
            if (inf) return true;
            break;
        case OP_LT:
        case OP_LE:
            out->u = low == (i == 0);
            if (inf) return true;
            break;
        case OP_GT:
        case OP_GE:
            out->u = low == (i == 1);
            if (inf) return true;
            break;
        default: break;
        }
    }
    return false;
}

/// Whether the result has the lanes of y itself: y + 0, y * 1, max(y, -inf).
static bool is_neutral(Ir *ir, const Op *op, const Operand *in) {
    Elem e = operand(op, 0)->type->elem;
    for (int i = 0; i < 2 && op->n_operands == 2; i++) {
        const Attr *a = in[i].lane == KNOWN ? monoid_identity(ir, op->code, e) : NULL;
        if (op->code == OP_SUB && i == 1) a = at_int(ir, 0);
        bool same = a && in[i].lane == KNOWN &&
                    (cell_equal(e, cell_of_attr(e, a), in[i].value) ||
                     ((op->code == OP_ADD || op->code == OP_SUB) && cell_is(e, in[i].value, 0)));
        if (same && in[!i].lane == OTHERS) return true;
    }
    return false;
}

static Fact known_fact(Fact dead, Cell c) {
    dead.holds = CONSTANT;
    dead.value = c;
    return dead;
}

static Fact other_fact(Fact dead) {
    dead.holds = OTHER;
    return dead;
}

static bool has_number(const Value *v, int budget) {
    const Op *op = v->def;
    if (!op || !budget) return false;
    if (op->code == OP_IOTA) return true;
    bool through = op->code == OP_BROADCAST || op->code == OP_RESHAPE || op->code == OP_CAST ||
                   op->code == OP_ADD || op->code == OP_PERMUTE;
    for (int i = 0; through && i < op->n_operands; i++)
        if (has_number(operand(op, i), budget - 1)) return true;
    return false;
}

bool is_number(const Value *v) {
    enum { BUDGET = 8 };
    return has_number(v, BUDGET);
}

/// Returns the fact of select(c, x, y) along one axis.
static Fact choose_lane(const Op *op, const Operand *in, Fact dead) {
    Elem e = result(op, 0)->type->elem;
    if (in[0].lane == KNOWN) {
        const Operand *x = &in[in[0].value.u ? 1 : 2];
        dead.chosen = !const_of(operand(op, 0));
        // A choice by the lane's validity is deliberate, whatever its value.
        return x->lane == KNOWN     ? known_fact(dead, x->value)
               : x->lane == FOREIGN ? other_fact(dead)
                                    : (Fact){0};
    }
    if (in[1].lane == KNOWN && in[2].lane == KNOWN && cell_equal(e, in[1].value, in[2].value))
        return known_fact(dead, in[1].value);
    // The number of the first lane with a property: min(c ? index(n) : N) ignores later numbers.
    for (int i = 1; i < 3; i++)
        if (in[i].lane == OTHERS || (in[i].lane == OWN && is_number(operand(op, i))))
            return (Fact){0};
    return other_fact(dead);
}

/// Returns the fact for the dead lanes of an elementwise op, select or cast.
static Fact computed_fact(const Pads *p, const Op *op, const Operand *in, Fact dead) {
    Elem e = operand(op, 0)->type->elem;
    bool known = true, others = false;
    Cell cells[3], out;
    if (op->code == OP_SELECT) return choose_lane(op, in, dead);
    for (int i = 0; i < op->n_operands; i++) {
        known &= in[i].lane == KNOWN;
        others |= in[i].lane == OTHERS;
        cells[i] = in[i].value;
    }
    Elem to = result(op, 0)->type->elem;
    if (known && op->code == OP_CAST) return known_fact(dead, cell_cast(e, to, cells[0]));
    if (known && op->code == OP_BITCAST)
        return known_fact(dead, cell_from_bits(to, cell_bits(e, cells[0])));
    if (known) return known_fact(dead, eval_elementwise(op->code, e, cells));
    if (absorbed_cell(op, in, &out)) return known_fact(dead, out);
    if (others || is_neutral(p->ir, op, in)) return (Fact){0};
    return other_fact(dead);
}

/// Returns the fact that some operand has for this axis.
static Fact fact_of_operands(const Pads *p, const Op *op, int axis) {
    for (int i = 0; i < op->n_operands; i++) {
        const Fact *f = &facts_of(p, operand(op, i))->axis[axis];
        if (f->holds && f->read) return *f;
    }
    for (int i = 0; i < op->n_operands; i++) {
        const Fact *f = &facts_of(p, operand(op, i))->axis[axis];
        if (f->holds) return *f;
    }
    return (Fact){0};
}

void lane_facts(Pads *p, const Op *op) {
    const Value *count;
    Facts f = {0};
    if (is_lane_test(op, &count))
        f.axis[0] = (Fact){.holds = CONSTANT, .lanes = lanes_from(p, count), .count = count};
    for (int d = 0; d < result(op, 0)->type->rank; d++) {
        Fact dead = fact_of_operands(p, op, d);
        Operand in[3];
        if (!dead.holds) continue;
        for (int i = 0; i < op->n_operands; i++) in[i] = operand_in(p, operand(op, i), d, &dead);
        f.axis[d] = computed_fact(p, op, in, dead);
    }
    set_facts(p, result(op, 0), &f);
}
