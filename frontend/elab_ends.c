// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// present(x): which elements of a block lie before the ends of ranges.
//
// An element is past the end where it is read along a range in a lane from the range's count on,
// or computed from such an element. So the answer is found backwards from x, through everything
// that made it, loops and choices included. That needs the code of the whole kernel: present()
// first gives a stand-in, whose uses get the masks when the kernel is complete.
//
// A block of several axes mostly has one condition an axis, from the ranges that it was read along:
//
//     x[m, n]    axis 0: lane < count(m)    axis 1: lane < count(n)
//
// Only what is merged or picked by number needs a mask of the whole block. Of a variable that a
// loop changes, only ranges from outside of the loop count: those inside end elsewhere in each
// turn.
#include "frontend/elab.h"

/// bool blocks: along each axis, and in the whole shape; NULL: all are before the ends.
typedef struct Ends {
    Value *axis[MAX_RANK];
    Value *all;
} Ends;

typedef struct Walk {
    Elab *e;
    Builder b;
    const Op *at;   // where the masks go
    const Op *loop; // the outermost one whose variables were gone through, or NULL
    PtrMap lines;   // count -> the mask of lanes before it
    PtrMap seen[2]; // Value -> its Ends; {0} while it is being looked at. Behind a loop, others
    int depth;      // of the C stack
} Walk;

enum { MAX_WALK = 2000 }; // what stands further back is taken to be before all ends

static const Ends no_ends;

static const Ends *ends_of(Walk *w, const Value *v);

/* ---- what masks may be made of ------------------------------------------------------------- */

/// v is defined where the masks go, and is the same there in each turn of the loops gone through.
static bool is_there(const Walk *w, const Value *v) {
    const Region *home = v->def ? v->def->parent : v->region;
    const Op *op = w->at;
    if (w->loop && value_is_inside(v, w->loop)) return false;
    while (op && op->parent != home) op = op->parent ? op->parent->parent : NULL;
    return op && (!v->def || op_before(v->def, op));
}

static Value *emit(Walk *w, OpCode code, int n, Value *const *args, const Type *type) {
    return result(build_op(&w->b, code, n, args, 1, &type, 0), 0);
}

static const Type *bools(Walk *w, int rank, const int64_t *extents) {
    return ty_block(w->e->ir, EL_BOOL, rank, extents);
}

/// lane < count, or NULL where no lane is past it, or nobody can say.
static Value *lanes_before(Walk *w, Value *count, int64_t size) {
    int64_t n;
    if (!is_there(w, count) || (const_int(count, &n) && n >= size)) return NULL;
    Value *line = map_get(&w->lines, count);
    if (line && line->type->extents[0] == size) return line;
    const Type *t = ty_block(w->e->ir, EL_I64, 1, &size);
    Value *lane = emit(w, OP_IOTA, 0, NULL, t);
    line = build_binary(&w->b, OP_LT, lane, build_broadcast(&w->b, count, t));
    map_set(w->e->ctx, &w->lines, count, line);
    return line;
}

static Value *both(Walk *w, Value *a, Value *b) {
    if (!a || !b || a == b) return a ? a : b;
    return build_binary(&w->b, OP_AND, a, b);
}

/// What `in` says along axis d, in every lane of a block.
static Value *spread(Walk *w, Value *line, int d, const Type *shape) {
    int64_t extents[MAX_RANK];
    for (int i = 0; i < shape->rank; i++) extents[i] = i == d ? shape->extents[i] : 1;
    line = build_reshape(&w->b, line, bools(w, shape->rank, extents));
    return build_broadcast(&w->b, line, ty_with_elem(w->e->ir, shape, EL_BOOL));
}

/// One mask of all that is said of a block, or NULL.
static Value *whole(Walk *w, const Ends *in, const Type *shape) {
    Value *all = in->all;
    for (int d = 0; d < shape->rank; d++)
        if (in->axis[d]) all = both(w, all, spread(w, in->axis[d], d, shape));
    return all;
}

static void join(Walk *w, Ends *out, const Ends *in) {
    for (int d = 0; d < MAX_RANK; d++) out->axis[d] = both(w, out->axis[d], in->axis[d]);
    out->all = both(w, out->all, in->all);
}

/* ---- tensors ------------------------------------------------------------------------------- */

/// Along a range up to its count; what is picked is past the end where its number is.
static Ends read_ends(Walk *w, const Op *op) {
    Access a = access_of(op);
    Ends out = {0};
    for (int d = 0; d < a.n_subs; d++) {
        if (a.subs[d].kind == DIM_AXIS) {
            Value *before = lanes_before(w, sub_operand(op, &a, d, 1), a.subs[d].size);
            out.axis[a.axis_of[d]] = both(w, out.axis[a.axis_of[d]], before);
        }
        if (a.subs[d].kind != DIM_PICK) continue;
        const Value *pick = sub_operand(op, &a, d, 0);
        const Ends *in = ends_of(w, pick);
        for (int i = 0; i < pick->type->rank; i++)
            out.axis[a.pick_at + i] = both(w, out.axis[a.pick_at + i], in->axis[i]);
        if (in->all && a.rank == pick->type->rank) out.all = both(w, out.all, in->all);
    }
    return out;
}

/* ---- shapes -------------------------------------------------------------------------------- */

static Ends broadcast_ends(Walk *w, const Op *op) {
    const Type *from = operand(op, 0)->type, *to = result(op, 0)->type;
    const Ends *in = ends_of(w, operand(op, 0));
    Ends out = {0};
    for (int d = 0; d < from->rank; d++)
        if (from->extents[d] == to->extents[d]) out.axis[d] = in->axis[d];
    if (in->all) out.all = build_broadcast(&w->b, in->all, ty_with_elem(w->e->ir, to, EL_BOOL));
    return out;
}

/// Axes of 1 that come and go leave the others as they are; else lines are broken anew.
static Ends reshape_ends(Walk *w, const Op *op) {
    const Type *from = operand(op, 0)->type, *to = result(op, 0)->type;
    const Ends *in = ends_of(w, operand(op, 0));
    Ends out = {0};
    int i = 0, d = 0;
    for (; d < to->rank; d++) {
        if (to->extents[d] == 1) continue;
        while (i < from->rank && from->extents[i] == 1) i++;
        if (i == from->rank || from->extents[i] != to->extents[d]) break;
        out.axis[d] = in->axis[i++];
    }
    bool same = d == to->rank;
    Value *all = same ? in->all : whole(w, in, from);
    if (!same) out = no_ends;
    if (all) out.all = build_reshape(&w->b, all, ty_with_elem(w->e->ir, to, EL_BOOL));
    return out;
}

static Ends permute_ends(Walk *w, const Op *op) {
    const Attr *perm = op_attr(op, "perm");
    const Ends *in = ends_of(w, operand(op, 0));
    const Type *to = ty_with_elem(w->e->ir, result(op, 0)->type, EL_BOOL);
    Ends out = {0};
    for (int d = 0; d < perm->n; d++) out.axis[d] = in->axis[perm->ints[d]];
    if (!in->all) return out;
    out.all = emit(w, OP_PERMUTE, 1, (Value *[]){in->all}, to);
    op_set_attr(w->e->ir, out.all->def, "perm", perm);
    return out;
}

static Value *slice(Walk *w, Value *v, int rank, const int64_t *start, const int64_t *extents) {
    v = emit(w, OP_SLICE, 1, &v, bools(w, rank, extents));
    op_set_attr(w->e->ir, v->def, "start", at_ints(w->e->ir, start, rank));
    return v;
}

static Ends slice_ends(Walk *w, const Op *op) {
    const int64_t *start = op_attr(op, "start")->ints;
    const Type *to = result(op, 0)->type;
    const Ends *in = ends_of(w, operand(op, 0));
    Ends out = {0};
    for (int d = 0; d < to->rank; d++)
        if (in->axis[d]) out.axis[d] = slice(w, in->axis[d], 1, &start[d], &to->extents[d]);
    if (in->all) out.all = slice(w, in->all, to->rank, start, to->extents);
    return out;
}

static Ends concat_ends(Walk *w, const Op *op) {
    Value **parts = ctx_array(w->e->ctx, Value *, op->n_operands);
    bool any = false;
    for (int i = 0; i < op->n_operands; i++) {
        const Type *t = operand(op, i)->type;
        parts[i] = whole(w, ends_of(w, operand(op, i)), t);
        any |= parts[i] != NULL;
        if (!parts[i]) parts[i] = build_bool(&w->b, ty_with_elem(w->e->ir, t, EL_BOOL), true);
    }
    Ends out = {0};
    if (!any) return out;
    const Type *to = ty_with_elem(w->e->ir, result(op, 0)->type, EL_BOOL);
    out.all = emit(w, OP_CONCAT, op->n_operands, parts, to);
    op_set_attr(w->e->ir, out.all->def, "axis", op_attr(op, "axis"));
    return out;
}

/// The mask goes where the elements go; a number outside gives false, which is nowhere.
static Ends gather_ends(Walk *w, const Op *op) {
    Value *x = operand(op, 0), *at = operand(op, 1);
    int axis = (int)op_int(op, "axis", 0);
    Ends out = *ends_of(w, x), from = {.all = out.all};
    from.axis[axis] = out.axis[axis];
    out.axis[axis] = out.all = NULL;
    join(w, &out, ends_of(w, at));
    Value *mask = whole(w, &from, x->type);
    if (!mask || !is_there(w, at)) return out;
    const Type *to = ty_with_elem(w->e->ir, result(op, 0)->type, EL_BOOL);
    mask = emit(w, OP_GATHER, 2, (Value *[]){mask, at}, to);
    op_set_attr(w->e->ir, mask->def, "axis", op_attr(op, "axis"));
    out.all = both(w, out.all, mask);
    return out;
}

/* ---- folds and products -------------------------------------------------------------------- */

/// Whether any element along the axis is there.
static Value *any_along(Walk *w, Value *mask, const Op *op, const Type *to) {
    Ir *ir = w->e->ir;
    const Type *type = ty_with_elem(ir, to, EL_BOOL), *one = ty_scalar(ir, EL_BOOL);
    Op *any = build_op(&w->b, OP_REDUCE, 1, &mask, 1, &type, 1);
    op_set_attr(ir, any, "axis", op_attr(op, "axis"));
    Value *a = region_add_arg(ir, any->regions[0], one, NULL);
    Value *b = region_add_arg(ir, any->regions[0], one, NULL);
    Builder in = build_at_end(ir, any->regions[0], w->b.loc);
    build_yield(&in, 1, (Value *[]){build_binary(&in, OP_OR, a, b)});
    return result(any, 0);
}

static Ends operand_ends(Walk *w, const Op *op) {
    Ends out = {0};
    for (int i = 0; i < op->n_operands; i++)
        if (operand(op, i)->type->rank) join(w, &out, ends_of(w, operand(op, i)));
    return out;
}

static Ends reduce_ends(Walk *w, const Op *op) {
    Ends in = operand_ends(w, op), out = {0};
    int axis = (int)op_int(op, "axis", 0), n = 0;
    for (int d = 0; d < operand(op, 0)->type->rank; d++)
        if (d != axis) out.axis[n++] = in.axis[d];
    if (in.all && n) out.all = any_along(w, in.all, op, result(op, 0)->type);
    return out;
}

/// Rows come from the first factor, columns from the second.
static Ends dot_ends(Walk *w, const Op *op) {
    Ends out = {0};
    out.axis[0] = ends_of(w, operand(op, 0))->axis[0];
    out.axis[1] = ends_of(w, operand(op, 1))->axis[1];
    if (op->n_operands == 3) join(w, &out, ends_of(w, operand(op, 2)));
    return out;
}

/* ---- control flow -------------------------------------------------------------------------- */

/// Variable i of a loop, or result i of an `if`: what it begins with, and what each turn or side
/// makes of it.
static Ends carried_ends(Walk *w, const Op *op, int i) {
    const Op *outer = w->loop;
    Ends out = {0};
    int first = op->code == OP_FOR ? 2 : 0;
    if (op->code != OP_IF) join(w, &out, ends_of(w, operand(op, first + i)));
    if (!outer || op_is_inside(outer, op)) w->loop = op;
    for (int r = op->code == OP_WHILE ? 1 : 0; r < (op->code == OP_FOR ? 1 : 2); r++)
        join(w, &out, ends_of(w, operand(terminator(op->regions[r]), i)));
    w->loop = outer;
    return out;
}

static Ends argument_ends(Walk *w, const Value *v) {
    const Op *op = v->region->parent;
    if (op->code == OP_WHILE) return carried_ends(w, op, v->index);
    if (op->code == OP_FOR && v->region == op->regions[0] && v->index)
        return carried_ends(w, op, v->index - 1);
    return no_ends;
}

/* ---- the walk ------------------------------------------------------------------------------ */

static Ends result_ends(Walk *w, const Value *v) {
    const Op *op = v->def;
    if (op_has(op, ELEMENTWISE)) return operand_ends(w, op);
    switch (op->code) {
    case OP_LOAD:
    case OP_ATOMIC: return read_ends(w, op);
    case OP_SELECT:
    case OP_CAST:
    case OP_BITCAST: return operand_ends(w, op);
    case OP_SCAN: return *ends_of(w, operand(op, v->index));
    case OP_SORT: return operand_ends(w, op);
    case OP_BROADCAST: return broadcast_ends(w, op);
    case OP_RESHAPE: return reshape_ends(w, op);
    case OP_PERMUTE: return permute_ends(w, op);
    case OP_SLICE: return slice_ends(w, op);
    case OP_CONCAT: return concat_ends(w, op);
    case OP_GATHER: return gather_ends(w, op);
    case OP_REDUCE: return reduce_ends(w, op);
    case OP_DOT: return dot_ends(w, op);
    case OP_FOR:
    case OP_WHILE:
    case OP_IF: return carried_ends(w, op, v->index);
    default: return no_ends;
    }
}

static const Ends *ends_of(Walk *w, const Value *v) {
    PtrMap *seen = &w->seen[w->loop != NULL];
    const Ends *known = map_get(seen, v);
    if (known) return known;
    if (!v->type->rank || w->depth == MAX_WALK) return &no_ends;
    Ends *out = ctx_new(w->e->ctx, Ends);
    map_set(w->e->ctx, seen, v, out);
    Value *count = map_get(&w->e->counts, v);
    w->depth++;
    Ends found = count    ? (Ends){.axis = {lanes_before(w, count, v->type->extents[0])}}
                 : v->def ? result_ends(w, v)
                          : argument_ends(w, v);
    w->depth--;
    *out = found;
    return out;
}

/* ---- stand-ins ----------------------------------------------------------------------------- */

Value *el_present(Elab *e, Value *x) {
    const Type *t = ty_with_elem(e->ir, x->type, EL_BOOL);
    Value *yes = build_bool(&e->b, ty_scalar(e->ir, EL_BOOL), true);
    if (!x->type->rank) return yes;
    Op *op = build_op(&e->b, OP_BROADCAST, 1, &yes, 1, &t, 0);
    vec_push(e->ctx, &e->presents, ((Present){op, x}));
    return result(op, 0);
}

/// A histogram of which all elements count has no mask.
static void drop_mask(Ir *ir, Value *mask) {
    for (Use *u = mask->uses, *next; u; u = next) {
        next = u->next;
        if (u->user->code == OP_HISTOGRAM && u->index == 1)
            op_set_operands(ir, u->user, 1, (Value *[]){operand(u->user, 0)});
    }
}

void el_settle_presents(Elab *e) {
    for (int i = 0; i < e->presents.n; i++) {
        Op *op = e->presents.data[i].stand_in;
        Value *x = e->presents.data[i].x;
        if (!op->parent || !value_has_uses(result(op, 0))) continue;
        Walk w = {.e = e, .b = build_before(e->ir, op), .at = op};
        Value *mask = whole(&w, ends_of(&w, x), x->type);
        if (mask)
            value_replace(result(op, 0), mask);
        else
            drop_mask(e->ir, result(op, 0));
    }
}
