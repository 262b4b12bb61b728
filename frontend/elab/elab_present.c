// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Computes present(x): true for each element of a block that does not lie past the end of a range.
//
// An element is past the end if it is read along a range in a lane from the range's count on, or
// computed from such an element. So the mask is found backwards from x, through all ops that made
// it, including loops and choices. This needs the code of the whole kernel: present() first gives a
// placeholder, whose uses get the masks when the kernel is complete.
//
// A block of several axes usually has one condition for each axis, from the ranges that it was read
// along:
//
//     x[m, n]    axis 0: lane < count(m)    axis 1: lane < count(n)
//
// Merged, moved and gathered elements need a mask of the whole block.
//
// A mask is exact, or it is unknown: a count may be known only within a loop iteration, or a
// variable may change its mask in each iteration. With an unknown mask all elements count, so that
// none is lost. A warning reports it, unless the program itself chose the contents of lanes past
// the end.
#include "frontend/elab/elab.h"

/// The masks of a block: bool blocks along each axis, and one of the whole shape. NULL: no lane is
/// past the end. A mask along an axis is true up to some lane, and false from there on.
typedef struct Ends {
    Value *axis[MAX_RANK];
    Value *all;
    const Op *why; // the op that makes a part unknown
    bool bare;     // some lanes past the end hold values that the program did not choose
} Ends;

/// The masks of a loop's variables: at the start, and after each iteration.
typedef struct Carried {
    Ends *first, *later;
} Carried;

/// An arbitrary iteration of a loop, with assumed masks for the loop's variables.
typedef struct LoopTurn {
    const Op *loop; // NULL: the code around `at` itself, in the current iteration
    struct LoopTurn *outer;
    const Ends *carried;
    PtrMap seen;  // Value -> its Ends, if this is the innermost iteration that contains it
    PtrMap loops; // Op -> Carried
} LoopTurn;

typedef struct EndsWalk {
    Elab *e;
    Builder b;
    const Op *at; // the insertion point of the masks
    LoopTurn *turn;
    PtrMap made; // text of an op -> its value: equal masks are shared
    int depth;   // of recursion on the C stack
    int steps;
} EndsWalk;

enum { MAX_NESTED = 100, MAX_STEPS = 50000, MAX_ROUNDS = 4, MAX_BROUGHT = 64 };

static const Ends no_ends;
static Value unknown; // stands for an unknown mask

static const Ends *ends_of(EndsWalk *w, const Value *v);

/* ---- sources of masks ---------------------------------------------------------------------- */

/// Whether v is defined at the insertion point, and does not change in the iterations walked so
/// far.
static bool is_there(const EndsWalk *w, const Value *v) {
    const Region *home = v->def ? v->def->parent : v->region;
    const Op *op = w->at;
    for (const LoopTurn *t = w->turn; t->loop; t = t->outer)
        if (value_is_inside(v, t->loop)) return false;
    while (op && op->parent != home) op = op->parent ? op->parent->parent : NULL;
    return op && (!v->def || op_before(v->def, op));
}

/// Returns v, or an earlier value with the same computation.
static Value *keep_unique_mask(EndsWalk *w, Value *v) {
    const Op *op = v->def;
    Text key = {.ctx = w->e->ctx};
    if (!op) return v;
    text_add(&key, "%d %p", op->code, (const void *)v->type);
    for (int i = 0; i < op->n_operands; i++) text_add(&key, " %p", (void *)operand(op, i));
    for (int i = 0; i < op->n_attrs; i++)
        text_add(&key, " %d %p", op->attrs[i].id, (const void *)op->attrs[i].value);
    const char *name = ctx_name(w->e->ctx, key.data);
    Value *before = map_get(&w->made, name);
    if (!before) map_set(w->e->ctx, &w->made, name, v);
    return before ? before : v;
}

/// Whether v can be recomputed elsewhere: it is cheap, has no effect for any operands, and does not
/// depend on its place.
static bool is_movable_mask(const EndsWalk *w, const Value *v) {
    const Op *op = v->def;
    if (!op || map_get(&w->e->presences, v)) return false;
    switch (op->code) {
    case OP_DIV:
    case OP_REM: return false; // a divisor of 0, if the op is not reached here
    case OP_CONST:
    case OP_IOTA:
    case OP_DIM:
    case OP_CAST:
    case OP_SELECT:
    case OP_BROADCAST:
    case OP_RESHAPE: return true;
    default: return op_has(op, ELEMENTWISE);
    }
}

/// Returns v at the insertion point, recomputed from values available there if needed; NULL if that
/// is impossible.
static Value *brought_by(EndsWalk *w, Value *v, int *budget) {
    if (is_there(w, v)) return v;
    if (!is_movable_mask(w, v) || --*budget < 0) return NULL;
    PtrMap map = {0};
    for (int i = 0; i < v->def->n_operands; i++) {
        Value *there = brought_by(w, operand(v->def, i), budget);
        if (!there) return NULL;
        map_set(w->e->ctx, &map, operand(v->def, i), there);
    }
    return keep_unique_mask(w, result(op_clone(&w->b, v->def, &map), 0));
}

static Value *bring_value(EndsWalk *w, Value *v) {
    int budget = MAX_BROUGHT;
    return brought_by(w, v, &budget);
}

/// Builds an op of masks; unknown if an operand is unknown.
static Value *emit_mask_op(EndsWalk *w, OpCode code, int n, Value *const *args, const Type *type,
                           AttrId attr, const Attr *is) {
    for (int i = 0; i < n; i++)
        if (args[i] == &unknown) return &unknown;
    Op *op = build_op(&w->b, code, n, args, 1, &type, 0);
    if (attr) op_set_attr(w->e->ir, op, attr, is);
    return keep_unique_mask(w, result(op, 0));
}

static const Type *bool_block(EndsWalk *w, int rank, const int64_t *extents) {
    return ty_block(w->e->ir, EL_BOOL, rank, extents);
}

static const Type *bools_like(EndsWalk *w, const Type *t) {
    return ty_with_elem(w->e->ir, t, EL_BOOL);
}

static Value *reshape_mask(EndsWalk *w, Value *v, const Type *to) {
    return v == &unknown ? v : keep_unique_mask(w, build_reshape(&w->b, v, to));
}

static Value *repeat_mask(EndsWalk *w, Value *v, const Type *to) {
    return v == &unknown ? v : keep_unique_mask(w, build_broadcast(&w->b, v, to));
}

static Value *true_mask(EndsWalk *w, const Type *t) {
    return keep_unique_mask(w, build_bool(&w->b, t, true));
}

/// Builds lane < count; NULL if no lane is past the count.
static Value *lanes_before(EndsWalk *w, Value *count, int64_t size) {
    int64_t n;
    bool fixed = const_int(count, &n);
    if (fixed && n >= size) return NULL;
    count = fixed ? keep_unique_mask(w, build_index(&w->b, n)) : bring_value(w, count);
    if (!count) return &unknown;
    const Type *t = ty_block(w->e->ir, EL_I64, 1, &size);
    Value *lane = emit_mask_op(w, OP_IOTA, 0, NULL, t, ATTR_NONE, NULL);
    return keep_unique_mask(w, build_binary(&w->b, OP_LT, lane, repeat_mask(w, count, t)));
}

/* ---- and, or else -------------------------------------------------------------------------- */

/// Whether mask a implies mask b.
static bool mask_covers(const Value *a, const Value *b) {
    if (a == b || !b) return true;
    if (!a || a == &unknown || b == &unknown) return false;
    if (def_of(b, OP_AND))
        return mask_covers(a, operand(b->def, 0)) && mask_covers(a, operand(b->def, 1));
    return def_of(a, OP_AND) &&
           (mask_covers(operand(a->def, 0), b) || mask_covers(operand(a->def, 1), b));
}

static Value *both_masks(EndsWalk *w, Value *a, Value *b) {
    if (a == &unknown || b == &unknown) return &unknown;
    if (mask_covers(a, b)) return a;
    if (mask_covers(b, a)) return b;
    return keep_unique_mask(w, build_binary(&w->b, OP_AND, a, b));
}

static bool is_same_ends(const Ends *a, const Ends *b) {
    bool same = mask_covers(a->all, b->all) && mask_covers(b->all, a->all);
    for (int d = 0; d < MAX_RANK; d++)
        same &= mask_covers(a->axis[d], b->axis[d]) && mask_covers(b->axis[d], a->axis[d]);
    return same;
}

static bool has_ends(const Ends *e) {
    return !is_same_ends(e, &no_ends);
}

static bool is_unknown(const Ends *e) {
    bool is = e->all == &unknown;
    for (int d = 0; d < MAX_RANK; d++) is |= e->axis[d] == &unknown;
    return is;
}

/// Makes a mask unknown, of a block or of one axis.
static void lose_part(Ends *e, Value **part, const Op *why) {
    *part = &unknown;
    e->why = why;
}

static Ends nobody_knows(const Op *why, bool bare) {
    return (Ends){.all = &unknown, .why = why, .bare = bare};
}

/// Repeats the mask `line` of axis d over the whole block.
static Value *spread_mask(EndsWalk *w, Value *line, int d, const Type *shape) {
    int64_t extents[MAX_RANK];
    for (int i = 0; i < shape->rank; i++) extents[i] = i == d ? shape->extents[i] : 1;
    return repeat_mask(w, reshape_mask(w, line, bool_block(w, shape->rank, extents)),
                       bools_like(w, shape));
}

/// Joins all masks of a block into one, or returns NULL.
static Value *whole_mask(EndsWalk *w, const Ends *in, const Type *shape) {
    Value *all = in->all;
    for (int d = 0; d < shape->rank; d++)
        if (in->axis[d]) all = both_masks(w, all, spread_mask(w, in->axis[d], d, shape));
    return all;
}

/// Copies the attributes besides the masks.
static void tell_ends(Ends *out, const Ends *in) {
    if (is_unknown(in)) out->why = in->why;
    out->bare |= in->bare && has_ends(in);
}

static void join_ends(EndsWalk *w, Ends *out, const Ends *in) {
    for (int d = 0; d < MAX_RANK; d++) out->axis[d] = both_masks(w, out->axis[d], in->axis[d]);
    out->all = both_masks(w, out->all, in->all);
    tell_ends(out, in);
}

/// Selects between masks of type t: a where c is true, b elsewhere.
static Value *either_mask(EndsWalk *w, Value *c, Value *a, Value *b, const Type *t) {
    if (mask_covers(a, b) && mask_covers(b, a)) return a;
    if (a == &unknown || b == &unknown) return &unknown;
    Value *args[] = {c->type->rank ? c : repeat_mask(w, c, t), a ? a : true_mask(w, t),
                     b ? b : true_mask(w, t)};
    return keep_unique_mask(w, build_select(&w->b, args[0], args[1], args[2]));
}

/// Returns the ends of a block of this shape that is a if the scalar c is true, else b.
static Ends one_of(EndsWalk *w, const Op *op, Value *c, const Ends *a, const Ends *b,
                   const Type *t) {
    if (is_same_ends(a, b)) {
        Ends out = *a;
        tell_ends(&out, b);
        return out;
    }
    c = c ? bring_value(w, c) : NULL;
    if (!c) return nobody_knows(op, a->bare || b->bare);
    Ends out = {.all = either_mask(w, c, a->all, b->all, bools_like(w, t))};
    for (int d = 0; d < t->rank; d++)
        out.axis[d] = either_mask(w, c, a->axis[d], b->axis[d], bool_block(w, 1, &t->extents[d]));
    tell_ends(&out, a);
    tell_ends(&out, b);
    return out;
}

/* ---- tensors ------------------------------------------------------------------------------- */

/// A gathered element is past the end if its index is.
static void pick_ends(EndsWalk *w, const Op *op, const Access *a, const Value *pick, Ends *out) {
    const Ends *in = ends_of(w, pick);
    int n = pick->type->rank;
    int64_t extents[MAX_RANK];
    tell_ends(out, in);
    for (int i = 0; i < n; i++)
        out->axis[a->pick_at + i] = both_masks(w, out->axis[a->pick_at + i], in->axis[i]);
    if (!in->all) return;
    for (int d = 0; d < a->rank; d++) {
        bool own = d >= a->pick_at && d < a->pick_at + n;
        extents[d] = own ? pick->type->extents[d - a->pick_at] : 1;
    }
    Value *mask = reshape_mask(w, in->all, bool_block(w, a->rank, extents));
    out->all = both_masks(w, out->all, repeat_mask(w, mask, bools_like(w, result(op, 0)->type)));
}

/// A load along a range ends at the range's count. With `pad =` the program has chosen the value of
/// lanes past the end.
static Ends read_ends(EndsWalk *w, const Op *op) {
    Access a = access_of(op);
    Ends out = {.why = op, .bare = op->code == OP_ATOMIC || op_flag(op, A_CHECKED)};
    for (int d = 0; d < a.n_subs; d++) {
        if (a.subs[d].kind == DIM_AXIS) {
            Value *before = lanes_before(w, sub_operand(op, &a, d, 1), a.subs[d].size);
            out.axis[a.axis_of[d]] = both_masks(w, out.axis[a.axis_of[d]], before);
        }
        if (a.subs[d].kind == DIM_PICK) pick_ends(w, op, &a, sub_operand(op, &a, d, 0), &out);
    }
    return out;
}

/* ---- shapes -------------------------------------------------------------------------------- */

static Ends broadcast_ends(EndsWalk *w, const Op *op) {
    const Type *from = operand(op, 0)->type, *to = result(op, 0)->type;
    Ends out = *ends_of(w, operand(op, 0));
    for (int d = 0; d < from->rank; d++)
        if (out.axis[d])
            out.axis[d] = repeat_mask(w, out.axis[d], bool_block(w, 1, &to->extents[d]));
    if (out.all) out.all = repeat_mask(w, out.all, bools_like(w, to));
    return out;
}

/// Axis i has extent 1: its mask applies to the whole block.
static void drop_axis(EndsWalk *w, Ends *out, Value *line, const Type *to) {
    int64_t ones[MAX_RANK];
    for (int d = 0; d < to->rank; d++) ones[d] = 1;
    if (!line || !to->rank) return;
    line = reshape_mask(w, line, bool_block(w, to->rank, ones));
    out->all = both_masks(w, out->all, repeat_mask(w, line, bools_like(w, to)));
}

/// Adding or removing axes of extent 1 keeps the masks of the other axes; any other reshape needs a
/// mask of the whole block.
static Ends reshape_ends(EndsWalk *w, const Op *op) {
    const Type *from = operand(op, 0)->type, *to = result(op, 0)->type;
    const Ends *in = ends_of(w, operand(op, 0));
    Ends out = {.why = in->why, .bare = in->bare};
    int i = 0, d = 0;
    for (; d < to->rank; d++) {
        if (to->extents[d] == 1) continue;
        while (i < from->rank && from->extents[i] == 1) i++;
        if (i == from->rank || from->extents[i] != to->extents[d]) break;
        out.axis[d] = in->axis[i++];
    }
    bool same = d == to->rank;
    if (!same) out = (Ends){.why = in->why, .bare = in->bare};
    Value *all = same ? in->all : whole_mask(w, in, from);
    if (all) out.all = reshape_mask(w, all, bools_like(w, to));
    for (i = 0; same && i < from->rank; i++)
        if (from->extents[i] == 1) drop_axis(w, &out, in->axis[i], to);
    return out;
}

static Ends permute_ends(EndsWalk *w, const Op *op) {
    const Attr *perm = op_ints(op, A_PERM);
    const Ends *in = ends_of(w, operand(op, 0));
    Ends out = *in;
    for (int d = 0; d < perm->n; d++) out.axis[d] = in->axis[perm->ints[d]];
    const Type *to = bools_like(w, result(op, 0)->type);
    if (in->all)
        out.all = emit_mask_op(w, OP_PERMUTE, 1, (Value *[]){in->all}, to, ATTR_PERM, perm);
    return out;
}

static Value *slice_mask(EndsWalk *w, Value *v, int rank, const int64_t *start,
                         const int64_t *extents) {
    return emit_mask_op(w, OP_SLICE, 1, &v, bool_block(w, rank, extents), ATTR_START,
                        at_ints(w->e->ir, start, rank));
}

static Ends slice_ends(EndsWalk *w, const Op *op) {
    const int64_t *start = op_ints(op, A_START)->ints;
    const Type *to = result(op, 0)->type;
    Ends out = *ends_of(w, operand(op, 0));
    for (int d = 0; d < to->rank; d++)
        if (out.axis[d]) out.axis[d] = slice_mask(w, out.axis[d], 1, &start[d], &to->extents[d]);
    if (out.all) out.all = slice_mask(w, out.all, to->rank, start, to->extents);
    return out;
}

static Ends concat_ends(EndsWalk *w, const Op *op) {
    Value **parts = ctx_array(w->e->ctx, Value *, op->n_operands);
    bool any = false;
    Ends out = {0};
    for (int i = 0; i < op->n_operands; i++) {
        const Type *t = operand(op, i)->type;
        const Ends *in = ends_of(w, operand(op, i));
        parts[i] = whole_mask(w, in, t);
        tell_ends(&out, in);
        any |= parts[i] != NULL;
        if (!parts[i]) parts[i] = true_mask(w, bools_like(w, t));
    }
    const Type *to = bools_like(w, result(op, 0)->type);
    if (any)
        out.all = emit_mask_op(w, OP_CONCAT, op->n_operands, parts, to, ATTR_AXIS,
                               op_attr(op, ATTR_AXIS));
    return out;
}

/* ---- ops that move elements ---------------------------------------------------------------- */

static Value *invert_mask(EndsWalk *w, Value *mask) {
    return mask == &unknown ? mask : keep_unique_mask(w, build_unary(&w->b, OP_NOT, mask));
}

/// Masks move with the elements. An index outside of the axis gathers 0, which is not an element.
static Ends gather_ends(EndsWalk *w, const Op *op) {
    Value *x = operand(op, 0), *at = operand(op, 1);
    int axis = (int)op_int(op, A_AXIS, 0);
    Ends out = *ends_of(w, x), from = {.all = out.all};
    from.axis[axis] = out.axis[axis];
    out.axis[axis] = out.all = NULL;
    join_ends(w, &out, ends_of(w, at));
    Value *mask = whole_mask(w, &from, x->type);
    if (!mask) return out;
    at = bring_value(w, at);
    out.bare |= ends_of(w, x)->bare;
    if (!at || mask == &unknown) {
        lose_part(&out, &out.all, at ? ends_of(w, x)->why : op);
        return out;
    }
    const Type *to = bools_like(w, result(op, 0)->type);
    Value *args[] = {invert_mask(w, mask), at};
    mask = emit_mask_op(w, OP_GATHER, 2, args, to, ATTR_AXIS, op_attr(op, ATTR_AXIS));
    out.all = both_masks(w, out.all, invert_mask(w, mask));
    return out;
}

static Ends operand_ends(EndsWalk *w, const Op *op) {
    Ends out = {0};
    for (int i = 0; i < op->n_operands; i++)
        if (operand(op, i)->type->rank) join_ends(w, &out, ends_of(w, operand(op, i)));
    return out;
}

/// Sorts the mask as op sorts the elements; unknown if that is impossible.
static Value *sort_mask(EndsWalk *w, const Op *op, Value *mask) {
    Value *args[] = {bring_value(w, operand(op, 0)), mask};
    if (!args[0] || mask == &unknown) return &unknown;
    const Type *types[] = {args[0]->type, mask->type};
    Op *sort = build_op(&w->b, OP_SORT, 2, args, 2, types, 0);
    op_copy_attr(w->e->ir, sort, op, ATTR_AXIS);
    if (op_flag(op, A_DESCENDING)) op_set_flag(w->e->ir, sort, A_DESCENDING, true);
    return keep_unique_mask(w, result(sort, 1));
}

/// Only the first operand decides the order; the masks along other axes stay.
static Ends sort_ends(EndsWalk *w, const Op *op) {
    Ends out = operand_ends(w, op), moved = {.all = out.all};
    int axis = (int)op_int(op, A_AXIS, 0);
    const Type *t = operand(op, 0)->type;
    moved.axis[axis] = out.axis[axis];
    out.axis[axis] = NULL;
    Value *mask = whole_mask(w, &moved, t);
    if (mask && mask != &unknown && sort_mask(w, op, mask) == &unknown) out.why = op;
    out.all = mask ? sort_mask(w, op, mask) : NULL;
    return out;
}

/* ---- folds and products -------------------------------------------------------------------- */

/// Whether any element along the axis is present.
static Value *any_along(EndsWalk *w, Value *mask, int axis, const Type *to) {
    Ir *ir = w->e->ir;
    const Type *type = bools_like(w, to), *one = ty_scalar(ir, EL_BOOL);
    if (mask == &unknown) return mask;
    Op *any = build_op(&w->b, OP_REDUCE, 1, &mask, 1, &type, 1);
    op_set_int(ir, any, A_AXIS, axis);
    Value *a = region_add_arg(ir, any->regions[0], one, NULL);
    Value *b = region_add_arg(ir, any->regions[0], one, NULL);
    Builder in = build_at_end(ir, any->regions[0], w->b.loc);
    build_yield(&in, 1, (Value *[]){build_binary(&in, OP_OR, a, b)});
    return keep_unique_mask(w, result(any, 0));
}

static Ends reduce_ends(EndsWalk *w, const Op *op) {
    Ends in = operand_ends(w, op), out = {.why = in.why, .bare = in.bare};
    int axis = (int)op_int(op, A_AXIS, 0), n = 0;
    for (int d = 0; d < operand(op, 0)->type->rank; d++)
        if (d != axis) out.axis[n++] = in.axis[d];
    if (in.all && n) out.all = any_along(w, in.all, axis, result(op, 0)->type);
    return out;
}

/// Rows are masked by the first factor, columns by the second.
static Ends dot_ends(EndsWalk *w, const Op *op) {
    Ends out = {0};
    const Type *to = result(op, 0)->type;
    for (int d = 0; d < 2; d++) {
        const Ends *in = ends_of(w, operand(op, d));
        Ends own = {.why = in->why, .bare = in->bare};
        own.axis[d] = in->axis[d];
        if (in->all) {
            Value *any = any_along(w, in->all, !d, bool_block(w, 1, &to->extents[d]));
            own.all = spread_mask(w, any, d, to);
        }
        join_ends(w, &out, &own);
    }
    if (op->n_operands == 3) join_ends(w, &out, ends_of(w, operand(op, 2)));
    return out;
}

/* ---- choices ------------------------------------------------------------------------------- */

/// Returns the scalar that a condition repeats in every lane, or NULL.
static Value *scalar_condition(Value *c) {
    while (c->type->rank && (def_of(c, OP_BROADCAST) || def_of(c, OP_RESHAPE)))
        c = operand(c->def, 0);
    return c->type->rank ? NULL : c;
}

/// A lane is past the end if the condition or the selected value is. If the condition is the
/// validity of lanes, the program chose the contents of lanes past the end.
static Ends select_ends(EndsWalk *w, const Op *op) {
    Value *c = operand(op, 0), *one = scalar_condition(c);
    const Type *t = bools_like(w, result(op, 0)->type);
    Ends a = {0}, b = {0}, test = one ? no_ends : *ends_of(w, c);
    join_ends(w, &a, &test);
    join_ends(w, &b, &test);
    join_ends(w, &a, ends_of(w, operand(op, 1)));
    join_ends(w, &b, ends_of(w, operand(op, 2)));
    Ends out = a;
    tell_ends(&out, &b);
    if (one || is_same_ends(&a, &b)) {
        out = one_of(w, op, one, &a, &b, t);
    } else {
        Value *x = whole_mask(w, &a, t), *y = whole_mask(w, &b, t);
        Value *there = x != &unknown && y != &unknown ? bring_value(w, c) : NULL;
        out = (Ends){.why = out.why, .bare = out.bare};
        if (there)
            out.all = either_mask(w, there, x, y, t);
        else
            lose_part(&out, &out.all, out.why ? out.why : op);
    }
    if (has_ends(&test) && !test.bare) out.bare = false;
    return out;
}

/// `false && y` is false for every y. So if the program has chosen the value of one operand past
/// the end, it has chosen the result there as well.
static Ends and_ends(EndsWalk *w, const Op *op) {
    Ends out = operand_ends(w, op);
    for (int i = 0; i < 2 && result(op, 0)->type->elem == EL_BOOL; i++) {
        const Ends *in = ends_of(w, operand(op, i));
        if (has_ends(in) && !in->bare) out.bare = false;
    }
    return out;
}

static Ends if_ends(EndsWalk *w, const Op *op, int i) {
    Ends yes = *ends_of(w, operand(terminator(op->regions[0]), i));
    Ends no = *ends_of(w, operand(terminator(op->regions[1]), i));
    return one_of(w, op, operand(op, 0), &yes, &no, result(op, i)->type);
}

/* ---- loops --------------------------------------------------------------------------------- */

static bool has_merge(const Op *loop) {
    return loop->code == OP_FOR && loop->n_regions == 2;
}

static int first_carried(const Op *loop) {
    return loop->code == OP_FOR ? 2 : 0;
}

/// Returns the masks after an iteration, or after `merge` of two states, from the assumed ones.
static Ends *after_region(EndsWalk *w, const Op *loop, const Region *body, const Ends *carried) {
    LoopTurn t = {.loop = loop, .outer = w->turn, .carried = carried};
    Ends *out = ctx_array(w->e->ctx, Ends, loop->n_results);
    w->turn = &t;
    for (int i = 0; i < loop->n_results; i++) out[i] = *ends_of(w, operand(terminator(body), i));
    w->turn = t.outer;
    return out;
}

/// Makes assumed masks unknown that do not hold after a region; returns false if it changed any.
static bool holds_after(EndsWalk *w, const Op *loop, const Region *body, Ends *carried) {
    const Ends *next = after_region(w, loop, body, carried);
    bool all = true;
    for (int i = 0; i < loop->n_results; i++) {
        if (is_same_ends(&carried[i], &next[i])) continue;
        carried[i] = nobody_knows(loop, carried[i].bare || next[i].bare);
        all = false;
    }
    return all;
}

/// After the first iteration, masks must stay the same. Masks that change become unknown, and so do
/// those that depend on them. This repeats until all assumptions hold.
static Ends *after_turns(EndsWalk *w, const Op *loop, const Ends *first) {
    const Region *body = loop->regions[loop->code == OP_FOR ? 0 : 1];
    const Region *merge = has_merge(loop) ? loop->regions[1] : NULL;
    Ends *later = after_region(w, loop, body, first);
    bool settled = !merge;
    for (int i = 0; i < loop->n_results; i++) settled &= is_same_ends(&first[i], &later[i]);
    for (int round = 0; round < MAX_ROUNDS && !settled; round++) {
        settled = holds_after(w, loop, body, later);
        if (merge) settled &= holds_after(w, loop, merge, later);
    }
    for (int i = 0; i < loop->n_results && !settled; i++) later[i] = nobody_knows(loop, true);
    return later;
}

static const Carried *carried_by(EndsWalk *w, const Op *loop) {
    Carried *c = map_get(&w->turn->loops, loop);
    if (c) return c;
    c = ctx_new(w->e->ctx, Carried);
    c->first = ctx_array(w->e->ctx, Ends, loop->n_results);
    for (int i = 0; i < loop->n_results; i++)
        c->first[i] = *ends_of(w, operand(loop, first_carried(loop) + i));
    c->later = after_turns(w, loop, c->first);
    map_set(w->e->ctx, &w->turn->loops, loop, c);
    return c;
}

/// Builds the condition that an earlier iteration exists: for the value after the loop (index
/// NULL), or in the iteration of this index. With `merge`, a run of iterations may begin anywhere.
static Value *has_turned(EndsWalk *w, const Op *loop, const Value *index) {
    if (loop->code != OP_FOR || (index && has_merge(loop))) return NULL;
    Value *lo = bring_value(w, operand(loop, 0));
    Value *hi = bring_value(w, index ? loop->regions[0]->args[0] : operand(loop, 1));
    return lo && hi ? keep_unique_mask(w, build_binary(&w->b, OP_LT, lo, hi)) : NULL;
}

static Ends loop_ends(EndsWalk *w, const Op *loop, int i, const Value *index) {
    const Carried *c = carried_by(w, loop);
    if (is_same_ends(&c->first[i], &c->later[i])) return c->first[i];
    Value *turned = has_turned(w, loop, index);
    return one_of(w, loop, turned, &c->later[i], &c->first[i], result(loop, i)->type);
}

static Ends argument_ends(EndsWalk *w, const Value *v) {
    const Op *op = v->region->parent;
    bool counts = op->code == OP_FOR && v->region == op->regions[0];
    if (op->code != OP_WHILE && op->code != OP_FOR) return nobody_knows(op, true);
    int i = counts ? v->index - 1 : v->index % op->n_results; // merge(a..., b...)
    if (w->turn->loop == op) return w->turn->carried[i];
    return loop_ends(w, op, i, counts ? v->region->args[0] : NULL);
}

/* ---- the walk ------------------------------------------------------------------------------ */

static Ends result_ends(EndsWalk *w, const Value *v) {
    const Op *op = v->def;
    if (op->code == OP_AND) return and_ends(w, op);
    if (op_has(op, ELEMENTWISE)) return operand_ends(w, op);
    switch (op->code) {
    case OP_LOAD:
    case OP_LIVE:
    case OP_ATOMIC: return read_ends(w, op);
    case OP_SCAN:
    case OP_CAST:
    case OP_BITCAST: return operand_ends(w, op);
    case OP_SELECT: return select_ends(w, op);
    case OP_SORT: return sort_ends(w, op);
    case OP_BROADCAST: return broadcast_ends(w, op);
    case OP_RESHAPE: return reshape_ends(w, op);
    case OP_PERMUTE: return permute_ends(w, op);
    case OP_SLICE: return slice_ends(w, op);
    case OP_CONCAT: return concat_ends(w, op);
    case OP_GATHER: return gather_ends(w, op);
    case OP_REDUCE: return reduce_ends(w, op);
    case OP_DOT: return dot_ends(w, op);
    case OP_FOR:
    case OP_WHILE: return loop_ends(w, op, v->index, NULL);
    case OP_IF: return if_ends(w, op, v->index);
    case OP_CONST:
    case OP_IOTA:
    case OP_HISTOGRAM: return no_ends;
    default: return nobody_knows(op, true);
    }
}

/// Returns the innermost current iteration that contains v.
static LoopTurn *turn_of(const EndsWalk *w, const Value *v) {
    LoopTurn *t = w->turn;
    while (t->loop && !value_is_inside(v, t->loop)) t = t->outer;
    return t;
}

static const Ends *recall_ends(const EndsWalk *w, const Value *v) {
    return v->type->rank ? map_get(&turn_of(w, v)->seen, v) : &no_ends;
}

/// Finds the ends of v from those of its operands, which are known.
static void find_ends(EndsWalk *w, const Value *v) {
    LoopTurn *within = w->turn;
    Value *count = map_get(&w->e->counts, v);
    const Value *x = map_get(&w->e->presences, v);
    Ends found;
    w->turn = turn_of(w, v);
    if (w->steps-- <= 0) {
        found = nobody_knows(w->at, true);
    } else if (count) {
        found = (Ends){.axis = {lanes_before(w, count, v->type->extents[0])}, .why = v->def};
    } else if (x) {
        found = *ends_of(w, x);
        found.bare = false;
    } else {
        found = v->def ? result_ends(w, v) : argument_ends(w, v);
    }
    map_set(w->e->ctx, &w->turn->seen, v, ctx_copy(w->e->ctx, &found, sizeof found));
    w->turn = within;
}

typedef VEC(const Value *) Todo;

static void want_ends(EndsWalk *w, Todo *todo, const Value *v) {
    if (!recall_ends(w, v)) vec_push(w->e->ctx, todo, v);
}

/// Pushes the values outside of loops that v depends on and whose ends are not known yet.
static void want_needs(EndsWalk *w, Todo *todo, const Value *v) {
    const Op *op = v->def;
    const Value *x = map_get(&w->e->presences, v);
    if (x) want_ends(w, todo, x);
    if (x || !op || map_get(&w->e->counts, v)) return;
    for (int i = 0; i < op->n_operands; i++) want_ends(w, todo, operand(op, i));
    for (int r = 0; r < 2 && op->code == OP_IF; r++)
        want_ends(w, todo, operand(terminator(op->regions[r]), v->index));
}

/// Long code needs no deep recursion; only nested loops do.
static const Ends *ends_of(EndsWalk *w, const Value *v) {
    const Ends *known = recall_ends(w, v);
    if (known) return known;
    Todo todo = {0};
    if (w->depth++ == MAX_NESTED) w->steps = 0;
    want_ends(w, &todo, v);
    while (todo.n) {
        const Value *last = todo.data[todo.n - 1];
        int before = todo.n;
        if (w->steps > 0 && !recall_ends(w, last)) want_needs(w, &todo, last);
        if (todo.n > before) continue;
        if (!recall_ends(w, last)) find_ends(w, last);
        todo.n--;
    }
    w->depth--;
    return recall_ends(w, v);
}

/* ---- stand-ins ----------------------------------------------------------------------------- */

Value *el_present(Elab *e, Value *x) {
    const Type *t = ty_with_elem(e->ir, x->type, EL_BOOL);
    Value *yes = build_bool(&e->b, ty_scalar(e->ir, EL_BOOL), true);
    if (!x->type->rank) return yes;
    Op *op = build_op(&e->b, OP_BROADCAST, 1, &yes, 1, &t, 0);
    vec_push(e->ctx, &e->presents, ((Present){op, x, el_loc(e, e->b.loc)}));
    map_set(e->ctx, &e->presences, result(op, 0), x);
    return result(op, 0);
}

/// If all elements of a histogram count, its mask is dropped.
static void drop_mask(Ir *ir, Value *mask) {
    for (Use *u = mask->uses, *next; u; u = next) {
        next = u->next;
        if (u->user->code == OP_HISTOGRAM && u->index == 1)
            op_set_operands(ir, u->user, 1, (Value *[]){operand(u->user, 0)});
    }
}

/// If all elements are present, a sort by presence changes nothing.
static void drop_order(Value *mask) {
    for (Use *u = mask->uses, *next; u; u = next) {
        Op *sort = u->user;
        next = u->next;
        if (sort->code != OP_SORT || u->index) continue;
        for (int i = 0; i < sort->n_results; i++) value_replace(result(sort, i), operand(sort, i));
        op_erase(sort);
        next = mask->uses;
    }
}

static void report_unknown_ends(Elab *e, Loc loc, const Op *why) {
    diag(e->ctx, loc, D_ENDS_UNKNOWN);
    if (why) diag_note(e->ctx, why->loc, "from here");
    diag_hint(e->ctx, "read with `pad = ...`, or choose with `valid(...) ? ... : ...` where the "
                      "range is known");
}

static void settle_present(Elab *e, const Present *p) {
    LoopTurn outside = {0};
    Op *op = p->stand_in;
    Value *stand_in = result(op, 0);
    EndsWalk w = {
        .e = e, .b = build_before(e->ir, op), .at = op, .turn = &outside, .steps = MAX_STEPS};
    Ends ends = *ends_of(&w, p->x);
    Value *mask = whole_mask(&w, &ends, p->x->type);
    if (mask == &unknown && ends.bare) report_unknown_ends(e, p->loc, ends.why);
    if (mask == &unknown) mask = NULL;
    if (!mask || !ends.all) drop_order(stand_in);
    if (!mask) {
        drop_mask(e->ir, stand_in);
        return;
    }
    map_set(e->ctx, &e->presences, mask, p->x);
    value_replace(stand_in, mask);
}

void el_settle_presents(Elab *e) {
    for (int i = 0; i < e->presents.n; i++) {
        const Present *p = &e->presents.data[i];
        if (p->stand_in->parent && value_has_uses(result(p->stand_in, 0))) settle_present(e, p);
    }
}
