// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Computes the values of scalars at one rank, for a given number of ranks: elab_ranks.h.
#include "frontend/elab/elab_ranks.h"
#include "frontend/elab/elab_kernel.h"
#include "ir/eval.h"

/// The limit on values visited for one fact. Expressions of ranks are short.
enum { BUDGET = 2000 };

typedef struct RankWork {
    Seat at;
    int budget;
} RankWork;

/* ---- values that ranks have in common ------------------------------------------------------ */

/// Whether v depends on the rank, besides the indices of the program.
static bool rank_decides(RankWork *w, const Value *v) {
    if (--w->budget < 0 || (!v->def && v->region->parent->code == OP_KERNEL)) return true;
    const Op *op = v->def;
    if (!op) {
        const Op *owner = v->region->parent;
        bool index = (owner->code == OP_FOR || owner->code == OP_PARALLEL) && v->index == 0;
        return !index || rank_decides(w, operand(owner, 0)) || rank_decides(w, operand(owner, 1));
    }
    if (op->code == OP_DIM) return !el_common_dim(w->at.e, op);
    if (op->code == OP_RANK || !op_has(op, PURE) || op->n_regions) return true;
    for (int i = 0; i < op->n_operands; i++)
        if (rank_decides(w, operand(op, i))) return true;
    return false;
}

static bool is_same_rank_value(const Value *a, const Value *b, int depth);

static bool has_equal_attrs(const Op *a, const Op *b) {
    if (a->n_attrs != b->n_attrs) return false;
    for (int i = 0; i < a->n_attrs; i++)
        if (a->attrs[i].id != b->attrs[i].id || a->attrs[i].value != b->attrs[i].value)
            return false;
    return true;
}

static bool same_bounds(const Op *a, const Op *b, int depth) {
    if (a == b) return true;
    return a->code == b->code && (a->code == OP_FOR || a->code == OP_PARALLEL) &&
           op_int(a, A_STEP, 0) == op_int(b, A_STEP, 0) &&
           is_same_rank_value(operand(a, 0), operand(b, 0), depth - 1) &&
           is_same_rank_value(operand(a, 1), operand(b, 1), depth - 1);
}

/// Indices of two loops with the same bounds count as one, since programs of equal indices are
/// compared.
static bool is_same_rank_value(const Value *a, const Value *b, int depth) {
    if (a == b) return true;
    if (depth == 0 || a->type != b->type || !a->def != !b->def) return false;
    if (!a->def)
        return a->index == 0 && b->index == 0 &&
               same_bounds(a->region->parent, b->region->parent, depth);
    const Op *x = a->def, *y = b->def;
    if (x->code != y->code || !op_has(x, PURE) || x->n_regions || a->index != b->index ||
        x->n_operands != y->n_operands || !has_equal_attrs(x, y))
        return false;
    for (int i = 0; i < x->n_operands; i++)
        if (!is_same_rank_value(operand(x, i), operand(y, i), depth - 1)) return false;
    return true;
}

enum { DEPTH = 8 };

bool el_same_fact(Fact a, Fact b) {
    if (a.kind != b.kind || a.kind == OPEN) return false;
    return a.kind == NUMBER ? a.number == b.number : is_same_rank_value(a.v, b.v, DEPTH);
}

/* ---- facts --------------------------------------------------------------------------------- */

static Fact fact_of_value(RankWork *w, const Value *v);

static Fact number_fact(int64_t n) {
    return (Fact){.kind = NUMBER, .number = n};
}

static bool is_number_fact(Fact f, int64_t n) {
    return f.kind == NUMBER && f.number == n;
}

/// The fact of `and` and `or`: one operand may decide alone, else the fact is the other operand's.
static Fact fact_of_and_or(RankWork *w, const Op *op) {
    bool any = op->code == OP_OR;
    Fact a = fact_of_value(w, operand(op, 0)), b = fact_of_value(w, operand(op, 1));
    if (is_number_fact(a, any) || is_number_fact(b, any)) return number_fact(any);
    return a.kind == NUMBER ? b : b.kind == NUMBER ? a : (Fact){OPEN};
}

static Fact fact_of_elementwise(RankWork *w, const Op *op) {
    Cell args[3] = {{0}, {0}, {0}};
    Elem elem = operand(op, 0)->type->elem;
    if (!elem_is(elem, EC_INT | EC_BOOL) || !eval_function(op->code, elem_info[elem].cls))
        return (Fact){OPEN};
    for (int i = 0; i < op->n_operands; i++) {
        Fact f = fact_of_value(w, operand(op, i));
        if (f.kind != NUMBER) return (Fact){OPEN};
        args[i].i = f.number;
    }
    return number_fact(eval_elementwise(op->code, elem, args).i);
}

static Fact fact_of_cast(RankWork *w, const Op *op) {
    Elem from = operand(op, 0)->type->elem, to = result(op, 0)->type->elem;
    Fact f = fact_of_value(w, operand(op, 0));
    if (f.kind != NUMBER || !elem_is(from, EC_INT | EC_BOOL) || !elem_is(to, EC_INT | EC_BOOL))
        return (Fact){OPEN};
    return number_fact(cell_cast(from, to, (Cell){.i = f.number}).i);
}

/// The fact of a choice: the value of the taken side.
static Fact fact_of_choice(RankWork *w, const Value *v) {
    const Op *op = v->def;
    Fact cond = fact_of_value(w, operand(op, 0));
    if (cond.kind != NUMBER) return (Fact){OPEN};
    if (op->code == OP_SELECT) return fact_of_value(w, operand(op, cond.number ? 1 : 2));
    return fact_of_value(w, operand(terminator(op->regions[cond.number ? 0 : 1]), v->index));
}

static Fact fact_of_op(RankWork *w, const Value *v) {
    const Op *op = v->def;
    const Attr *a = const_of(v);
    if (a && elem_is(v->type->elem, EC_INT | EC_BOOL))
        return number_fact(cell_of_attr(v->type->elem, a).i);
    switch (op->code) {
    case OP_RANK: return number_fact(w->at.rank);
    case OP_DIM: return el_dim_is_ranks(w->at.e, op) ? number_fact(w->at.ranks) : (Fact){OPEN};
    case OP_IF:
    case OP_SELECT: return fact_of_choice(w, v);
    case OP_CAST: return fact_of_cast(w, op);
    case OP_AND:
    case OP_OR:
        return v->type->elem == EL_BOOL ? fact_of_and_or(w, op) : fact_of_elementwise(w, op);
    default: return op_has(op, ELEMENTWISE) ? fact_of_elementwise(w, op) : (Fact){OPEN};
    }
}

static Fact fact_of_value(RankWork *w, const Value *v) {
    Fact f = {OPEN};
    if (--w->budget < 0) return f;
    if (v->def && v->type->kind == TK_BLOCK && v->type->rank == 0) f = fact_of_op(w, v);
    if (f.kind == OPEN && !rank_decides(w, v)) return (Fact){.kind = SHARED, .v = v};
    return f;
}

Fact el_fact(const Seat *at, const Value *v) {
    RankWork w = {*at, BUDGET};
    return fact_of_value(&w, v);
}

/* ---- executed accesses --------------------------------------------------------------------- */

Taken el_taken(const Seat *at, const Region *r) {
    const Op *op = r->parent;
    if (op->code == OP_KERNEL) return ALWAYS;
    if (op->code == OP_IF) {
        Fact cond = el_fact(at, operand(op, 0));
        if (cond.kind != NUMBER) return MAYBE;
        return (cond.number != 0) == (r == op->regions[0]) ? ALWAYS : NEVER;
    }
    if (op->code != OP_FOR && op->code != OP_PARALLEL) return MAYBE;
    if (op->code == OP_PARALLEL && op_int(op, A_STEP, 0) == 0) return ALWAYS;
    Fact lo = el_fact(at, operand(op, 0)), hi = el_fact(at, operand(op, 1));
    if (lo.kind != NUMBER || hi.kind != NUMBER) return MAYBE;
    return lo.number < hi.number ? ALWAYS : NEVER;
}

bool el_outside(const Seat *at, const Value *tensor, int axis, Fact coordinate) {
    int64_t extent = tensor->type->extents[axis];
    if (el_axis_is_ranks(at->e, tensor, axis)) extent = at->ranks;
    return coordinate.kind == NUMBER &&
           (coordinate.number < 0 || (extent != DYNAMIC && coordinate.number >= extent));
}

/// Whether a `require` of the kernel refuses this number of ranks.
static bool excludes_ranks(Elab *e, int64_t ranks) {
    Seat at = {e, ranks, 0};
    for_each_op(op, e->kernel->op->regions[0]) {
        if (op->code == OP_REQUIRE && is_number_fact(el_fact(&at, operand(op, 0)), 0)) return true;
    }
    return false;
}

int el_rank_counts(Elab *e, int64_t counts[MAX_COUNTS]) {
    static const int64_t usual[] = {4, 3}, others[] = {2, 8, 16};
    int n = 0;
    if (const_int(el_ranks(e), &counts[0])) return 1;
    for (int i = 0; i < 2; i++)
        if (!excludes_ranks(e, usual[i])) counts[n++] = usual[i];
    for (int i = 0; i < 3 && n == 0; i++)
        if (!excludes_ranks(e, others[i])) counts[n++] = others[i];
    return n;
}
