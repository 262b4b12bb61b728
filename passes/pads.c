// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// pads: follows what a read gives beyond the end of a range to where it changes a result, and
// warns. The commonest bug of this kind of language:
//
//   let d = x[n] - mean;  let v = sum(d * d);       // lanes beyond N hold (0 - mean) ** 2
//
// A *fact* is about one axis of a block: lanes at or beyond `count` are dead, and hold a known
// constant, or something else that comes from the pad. Elementwise ops compute on the constants
// (0 * y = 0, -inf - y = -inf, exp(-inf) = 0); comparisons of lane numbers with the count are facts
// themselves, so `valid(n) ? d : 0` is clean. Where an axis with a fact is reduced, multiplied
// away, scanned or sorted, dead lanes must hold the identity of that.
//
// The analysis prefers silence: what is carried by loops, gathered, or mixed from two different
// ranges has no facts, and a fold by an unknown function takes any pad.
#include "ir/eval.h"
#include "passes/passes.h"
#include "passes/util.h"

#include <math.h>

typedef enum Holds { CLEAN, CONSTANT, OTHER } Holds;

/// What dead lanes of one axis hold.
typedef struct Fact {
    Holds holds;
    Cell value;         // CONSTANT
    const Value *count; // which lanes are dead
    const Op *read;     // where they come from; NULL for comparisons with the count
} Fact;

typedef struct Facts {
    Fact axis[MAX_RANK];
} Facts;

typedef struct Pads {
    Ir *ir;
    Ctx *ctx;
    PtrMap facts; // block value -> Facts
} Pads;

static const Facts no_facts;

static const Facts *facts_of(const Pads *p, const Value *v) {
    const Facts *f = map_get(&p->facts, v);
    return f ? f : &no_facts;
}

static void set_facts(Pads *p, const Value *v, const Facts *f) {
    for (int d = 0; d < v->type->rank; d++)
        if (f->axis[d].holds) {
            map_set(p->ctx, &p->facts, v, ctx_copy(p->ctx, f, sizeof *f));
            return;
        }
}

static bool is_cell(Elem e, Cell c, double v) {
    return elem_is(e, EC_FLOAT)  ? c.f == v
           : elem_is(e, EC_SINT) ? (double)c.i == v
                                 : (double)c.u == v;
}

static bool is_infinite(Elem e, Cell c) {
    return elem_is(e, EC_FLOAT) && isinf(c.f);
}

/* ---- sources ------------------------------------------------------------------------------- */

/// A read along a range that may end inside its block. Reads with a pad of the program's own
/// choice count too: -inf is right for max and wrong for sum.
static void read_facts(Pads *p, const Op *load) {
    Access a = access_of(load);
    const Attr *pad = const_of(a.pad), *inside = op_attr(load, "inside");
    Facts f = {0};
    for (int d = 0; d < a.n_subs; d++) {
        int64_t n;
        if (a.subs[d].kind != DIM_AXIS || a.subs[d].size == 1) continue;
        const Value *count = sub_operand(load, &a, d, 1);
        bool full =
            (inside && inside->ints[d] == 2) || (const_int(count, &n) && n >= a.subs[d].size);
        Elem e = a.tensor->type->elem;
        if (!full && pad)
            f.axis[a.axis_of[d]] = (Fact){CONSTANT, cell_of_attr(e, pad), count, load};
        else if (!full)
            f.axis[a.axis_of[d]] = (Fact){OTHER, {0}, count, load};
    }
    set_facts(p, result(load, 0), &f);
}

/// lane number < count: dead lanes are false. v must be iota, w the count in every lane.
static bool is_lane_test(const Op *op, const Value **count) {
    const Value *w = operand(op, 1);
    if (op->code != OP_LT || !def_of(operand(op, 0), OP_IOTA)) return false;
    if (!def_of(w, OP_BROADCAST)) return false;
    *count = operand(w->def, 0);
    return true;
}

/* ---- elementwise --------------------------------------------------------------------------- */

/// An operand in the dead lanes of one axis: a known constant, one unknown value for all lanes
/// (UNIFORM), something from the pad (FOREIGN), or lanes of its own (OWN), which then are no one
/// else's business.
typedef enum Lane { KNOWN, UNIFORM, FOREIGN, OWN } Lane;
typedef struct Operand {
    Lane lane;
    Cell value;
} Operand;

/// v repeats one lane along the axis.
static bool is_uniform(const Value *v, int axis) {
    if (v->type->rank == 0) return true;
    const Op *op = v->def;
    if (!op) return false;
    if (op->code == OP_BROADCAST) {
        const Value *x = operand(op, 0);
        return x->type->rank == 0 || x->type->extents[axis] == 1 || is_uniform(x, axis);
    }
    if (!op_has(op, PURE) || op->n_operands == 0 ||
        !(op_has(op, ELEMENTWISE) || op->code == OP_CAST))
        return false;
    for (int i = 0; i < op->n_operands; i++)
        if (!is_uniform(operand(op, i), axis)) return false;
    return true;
}

static Operand operand_in(const Pads *p, const Value *v, int axis, const Fact *dead) {
    const Fact *f = &facts_of(p, v)->axis[axis];
    const Attr *a = const_of(v);
    if (a) return (Operand){KNOWN, cell_of_attr(v->type->elem, a)};
    if (f->holds && f->count == dead->count)
        return (Operand){f->holds == CONSTANT ? KNOWN : FOREIGN, f->value};
    if (f->holds) return (Operand){OWN, {0}}; // of another range
    return (Operand){is_uniform(v, axis) ? UNIFORM : OWN, {0}};
}

/// What is certain though an operand is not: 0 * y, -inf + y, -inf < y, false && y.
static bool absorbed(const Op *op, const Operand *in, Cell *out) {
    Elem e = operand(op, 0)->type->elem;
    for (int i = 0; i < 2 && op->n_operands == 2; i++) {
        if (in[i].lane != KNOWN) continue;
        Cell c = in[i].value;
        bool inf = is_infinite(e, c), low = inf && c.f < 0;
        *out = c;
        switch (op->code) {
        case OP_MUL:
            if (is_cell(e, c, 0)) return true;
            break;
        case OP_DIV:
            if (i == 0 && is_cell(e, c, 0)) return true;
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

/// y + 0, y * 1, max(y, -inf): the lanes of y itself.
static bool is_neutral(Ir *ir, const Op *op, const Operand *in) {
    Elem e = operand(op, 0)->type->elem;
    for (int i = 0; i < 2 && op->n_operands == 2; i++) {
        const Attr *a = in[i].lane == KNOWN ? monoid_identity(ir, op->code, e) : NULL;
        if (op->code == OP_SUB && i == 1) a = at_int(ir, 0);
        bool same = a && in[i].lane == KNOWN &&
                    (cell_equal(e, cell_of_attr(e, a), in[i].value) ||
                     ((op->code == OP_ADD || op->code == OP_SUB) && is_cell(e, in[i].value, 0)));
        if (same && in[!i].lane == OWN) return true;
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

/// select(c, x, y) along one axis.
static Fact choose(const Op *op, const Operand *in, Fact dead) {
    Elem e = result(op, 0)->type->elem;
    if (in[0].lane == KNOWN) {
        const Operand *x = &in[in[0].value.u ? 1 : 2];
        // A choice by the lane's validity is deliberate, whatever it gives.
        return x->lane == KNOWN     ? known_fact(dead, x->value)
               : x->lane == FOREIGN ? other_fact(dead)
                                    : (Fact){0};
    }
    if (in[1].lane == KNOWN && in[2].lane == KNOWN && cell_equal(e, in[1].value, in[2].value))
        return known_fact(dead, in[1].value);
    if (in[1].lane == OWN || in[2].lane == OWN) return (Fact){0};
    return other_fact(dead);
}

/// The dead lanes of an elementwise op, select or cast.
static Fact computed(const Pads *p, const Op *op, const Operand *in, Fact dead) {
    Elem e = operand(op, 0)->type->elem;
    bool known = true, own = false;
    Cell cells[3], out;
    if (op->code == OP_SELECT) return choose(op, in, dead);
    for (int i = 0; i < op->n_operands; i++) {
        known &= in[i].lane == KNOWN;
        own |= in[i].lane == OWN;
        cells[i] = in[i].value;
    }
    if (known && op->code == OP_CAST)
        return known_fact(dead, cell_cast(e, result(op, 0)->type->elem, cells[0]));
    if (known) return known_fact(dead, eval_elementwise(op->code, e, cells));
    if (absorbed(op, in, &out)) return known_fact(dead, out);
    if (own || is_neutral(p->ir, op, in)) return (Fact){0};
    return other_fact(dead);
}

/// The fact that some operand has for this axis.
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

static void lane_facts(Pads *p, const Op *op) {
    const Value *count;
    Facts f = {0};
    if (is_lane_test(op, &count)) f.axis[0] = (Fact){CONSTANT, {.u = 0}, count, NULL};
    for (int d = 0; d < result(op, 0)->type->rank; d++) {
        Fact dead = fact_of_operands(p, op, d);
        Operand in[3];
        if (!dead.holds) continue;
        for (int i = 0; i < op->n_operands; i++) in[i] = operand_in(p, operand(op, i), d, &dead);
        f.axis[d] = computed(p, op, in, dead);
    }
    set_facts(p, result(op, 0), &f);
}

/* ---- shapes -------------------------------------------------------------------------------- */

/// Axes longer than 1 keep their order in a reshape that only adds and drops axes of 1.
static void reshape_facts(Pads *p, const Op *op) {
    const Type *from = operand(op, 0)->type, *to = result(op, 0)->type;
    const Facts *in = facts_of(p, operand(op, 0));
    Facts f = {0};
    int i = 0;
    for (int d = 0; d < to->rank; d++) {
        if (to->extents[d] == 1) continue;
        while (i < from->rank && from->extents[i] == 1) i++;
        if (i == from->rank || from->extents[i] != to->extents[d]) return;
        f.axis[d] = in->axis[i++];
    }
    set_facts(p, result(op, 0), &f);
}

static void shape_facts(Pads *p, const Op *op) {
    const Value *x = operand(op, 0);
    const Facts *in = facts_of(p, x);
    Facts f = {0};
    for (int d = 0; d < result(op, 0)->type->rank; d++) {
        int from = op->code == OP_PERMUTE ? (int)op_attr(op, "perm")->ints[d] : d;
        if (from < x->type->rank && x->type->extents[from] == result(op, 0)->type->extents[d])
            f.axis[d] = in->axis[from];
    }
    set_facts(p, result(op, 0), &f);
}

/* ---- where it matters ---------------------------------------------------------------------- */

static const char *source_name(const Fact *f) {
    const char *name = operand(f->read, 0)->name;
    return name ? name : "a tensor";
}

static void warn(Pads *p, const Op *op, const Fact *f, Elem e, const char *what,
                 const char *wanted) {
    if (!f->read) return;
    bool known = f->holds == CONSTANT;
    const char *pad = known ? cell_text(p->ctx, e, f->value) : "the pad";
    diag(p->ctx, f->read->loc, D_PAD_REACHES, source_name(f), what, known ? "as" : "computed from",
         pad, wanted);
    diag_note(p->ctx, op->loc, "here");
    if (f->holds == CONSTANT && is_cell(e, f->value, 0))
        diag_hint(p->ctx, "read with `pad = %s`, or choose with `valid(n) ? ... : %s`", wanted,
                  wanted);
    else
        diag_hint(p->ctx, "choose with `valid(n) ? ... : %s` before", wanted);
}

static bool is_identity(Ir *ir, OpCode code, Elem e, const Fact *f) {
    const Attr *a = monoid_identity(ir, code, e);
    if (f->holds != CONSTANT || !a) return false;
    if ((code == OP_MIN || code == OP_MAX) && elem_is(e, EC_FLOAT) && isnan(f->value.f))
        return true;
    return cell_equal(e, f->value, cell_of_attr(e, a)) ||
           (code == OP_ADD && is_cell(e, f->value, 0));
}

static const char *identity_text(Pads *p, OpCode code, Elem e) {
    if (code == OP_ADD) return "0";
    if (code == OP_MAX) return "-inf";
    if (code == OP_MIN) return "inf";
    return cell_text(p->ctx, e, cell_of_attr(e, monoid_identity(p->ir, code, e)));
}

static void reduce_facts(Pads *p, const Op *op) {
    int axis = (int)op_int(op, "axis", 0);
    OpCode code = op->n_operands == 1 ? region_monoid(op->regions[0]) : OP_COUNT;
    if (code == OP_COUNT) return;
    const Value *x = operand(op, 0);
    const Facts *in = facts_of(p, x);
    Elem e = x->type->elem;
    if (in->axis[axis].holds && !is_identity(p->ir, code, e, &in->axis[axis]))
        warn(p, op, &in->axis[axis], e, op_info[code].name, identity_text(p, code, e));
    Facts f = {0};
    for (int d = 0, out = 0; d < x->type->rank; d++) {
        if (d == axis) continue;
        f.axis[out] = in->axis[d];
        bool same = code != OP_ADD && code != OP_MUL && code != OP_XOR;
        if (in->axis[d].holds && !same && !is_identity(p->ir, code, e, &in->axis[d]))
            f.axis[out].holds = OTHER;
        out++;
    }
    set_facts(p, result(op, 0), &f);
}

/// A running fold passes by dead lanes at the end unharmed; what they hold then is the total if
/// they held the identity. From the end it meets them first.
static void scan_facts(Pads *p, const Op *op) {
    int axis = (int)op_int(op, "axis", 0);
    OpCode code = op->n_results == 1 ? region_monoid(op->regions[0]) : OP_COUNT;
    if (code == OP_COUNT) return;
    const Value *x = operand(op, 0);
    Elem e = x->type->elem;
    Facts f = *facts_of(p, x);
    bool identity = is_identity(p->ir, code, e, &f.axis[axis]);
    if (f.axis[axis].holds && !identity && op_flag(op, "reverse"))
        warn(p, op, &f.axis[axis], e, "scan", identity_text(p, code, e));
    f.axis[axis].holds = f.axis[axis].holds && !identity ? OTHER : CLEAN;
    for (int d = 0; d < x->type->rank; d++)
        if (d != axis && f.axis[d].holds && !is_identity(p->ir, code, e, &f.axis[d]))
            f.axis[d].holds = OTHER;
    set_facts(p, result(op, 0), &f);
}

/// Dead lanes must sort behind all others.
static void sort_facts(Pads *p, const Op *op) {
    int axis = (int)op_int(op, "axis", 0);
    const Value *x = operand(op, 0);
    const Fact *f = &facts_of(p, x)->axis[axis];
    OpCode like = op_flag(op, "descending") ? OP_MAX : OP_MIN; // its identity is the last in order
    Elem e = x->type->elem;
    if (f->holds && e != EL_BOOL && !is_identity(p->ir, like, e, f))
        warn(p, op, f, e, "sort", identity_text(p, like, e));
}

/// Products of dead lanes of the inner dimension must be 0: one factor is, in those lanes.
static void dot_facts(Pads *p, const Op *op) {
    const Value *a = operand(op, 0), *b = operand(op, 1);
    const Fact *x = &facts_of(p, a)->axis[1], *y = &facts_of(p, b)->axis[0];
    bool zero = (x->holds == CONSTANT && is_cell(a->type->elem, x->value, 0)) ||
                (y->holds == CONSTANT && is_cell(b->type->elem, y->value, 0));
    const Fact *bad = x->holds && x->read ? x : y;
    if ((x->holds || y->holds) && !zero)
        warn(p, op, bad, bad == x ? a->type->elem : b->type->elem, "dot", "0");
    if (op->n_operands == 3) return;
    Facts f = {.axis = {facts_of(p, a)->axis[0], facts_of(p, b)->axis[1]}};
    for (int d = 0; d < 2; d++)
        if (f.axis[d].holds == CONSTANT && is_cell((d ? b : a)->type->elem, f.axis[d].value, 0))
            f.axis[d].value = (Cell){0};
        else if (f.axis[d].holds)
            f.axis[d].holds = OTHER;
    set_facts(p, result(op, 0), &f);
}

static void live_facts(Pads *p, const Op *op) {
    Access a = access_of(op);
    Facts f = {0};
    for (int d = 0; d < a.n_subs; d++)
        if (a.subs[d].kind == DIM_AXIS)
            f.axis[a.axis_of[d]] = (Fact){CONSTANT, {0}, sub_operand(op, &a, d, 1), NULL};
    set_facts(p, result(op, 0), &f);
}

static void visit(Op *op, void *arg) {
    Pads *p = arg;
    if (op_has(op, ELEMENTWISE) || op->code == OP_SELECT || op->code == OP_CAST) {
        if (!ty_is_scalar(result(op, 0)->type)) lane_facts(p, op);
        return;
    }
    switch (op->code) {
    case OP_LOAD: read_facts(p, op); break;
    case OP_LIVE: live_facts(p, op); break;
    case OP_RESHAPE: reshape_facts(p, op); break;
    case OP_PERMUTE:
    case OP_BROADCAST:
    case OP_SLICE: shape_facts(p, op); break;
    case OP_REDUCE: reduce_facts(p, op); break;
    case OP_SCAN: scan_facts(p, op); break;
    case OP_SORT: sort_facts(p, op); break;
    case OP_DOT: dot_facts(p, op); break;
    default: break;
    }
}

void pass_pads(PassEnv *env, Op *module) {
    Pads p = {.ir = env->ir, .ctx = ir_ctx(env->ir)};
    for_each_kernel(k, module) op_walk_pre(k, visit, &p);
}
