// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Infers natural layouts: each op derives the layout of its results from those of its operands, up
// to a fixed point over loops.
#include "passes/gpu/layouts.h"

#include "passes/util.h"

enum { MAX_ROUNDS = 16 };
#define DOT_WEIGHT 1e15

Natural natural_of(const Layouts *s, const Value *v) {
    const Natural *n = map_get(&s->natural, v);
    return n ? *n : (Natural){NULL, 0};
}

static void set_natural(Layouts *s, Value *v, Natural n) {
    Natural *known = map_get(&s->natural, v);
    if (!v->type->rank || !ty_is_block(v->type) || !n.layout) return;
    if (known && known->layout == n.layout && known->weight >= n.weight) return;
    if (!known) {
        known = ctx_new(s->ctx, Natural);
        map_set(s->ctx, &s->natural, v, known);
    }
    s->changed |= known->layout != n.layout;
    *known = n;
}

/// Returns the natural layout of greatest weight among the operands from `first` on.
static Natural heaviest_natural(const Layouts *s, const Op *op, int first) {
    Natural best = {NULL, 0};
    for (int i = first; i < op->n_operands; i++) {
        Natural n = natural_of(s, operand(op, i));
        if (n.layout && (!best.layout || n.weight > best.weight)) best = n;
    }
    return best;
}

static Natural or_default(Layouts *s, Natural n, const Type *type) {
    return n.layout ? n : (Natural){default_layout(s, type), 0};
}

bool is_free(const Op *op) {
    switch (op->code) {
    case OP_CONST:
    case OP_IOTA:
    case OP_BROADCAST:
    case OP_PERMUTE:
    case OP_RESHAPE:
    case OP_CAST:
    case OP_BITCAST:
    case OP_SELECT:
    case OP_LIVE: return true;
    default: return op_has(op, ELEMENTWISE);
    }
}

/* ---- shapes -------------------------------------------------------------------------------- */

static const int *copy_ints(const Attr *a, int *out) {
    for (int i = 0; i < a->n; i++) out[i] = (int)a->ints[i];
    return out;
}

/// Returns l with the extents of `type`. Further parts along a dimension take further registers.
static const Layout *resized_layout(Layouts *s, const Layout *l, const Type *type) {
    int64_t unit;
    for (int d = 0; d < type->rank; d++)
        if (l->extents[d] != type->extents[d])
            l = layout_extend(s->ctx, l, d, type->extents[d], &unit);
    return l;
}

/// Returns the layout of a part of a block in l, or of several such blocks. If l reaches far beyond
/// the part, the part gets the default layout. Dimensions of extent 1 are copied to all threads.
static const Layout *part_layout(Layouts *s, const Layout *l, const Type *type) {
    for (int d = 0; d < type->rank; d++)
        if (type->extents[d] == 1) l = layout_slice(s->ctx, l, d, true);
    l = resized_layout(s, l, type);
    for (int d = 0; d < type->rank; d++)
        if (layout_box(l, d) >= 2 * type->extents[d]) return default_layout(s, type);
    return l;
}

static Natural natural_of_shape_op(Layouts *s, const Op *op) {
    Natural n = natural_of(s, operand(op, 0));
    const Type *to = result(op, 0)->type;
    int perm[MAX_RANK];
    if (!n.layout) return n;
    if (op->code == OP_PERMUTE)
        n.layout = layout_permute(s->ctx, n.layout, copy_ints(op_ints(op, A_PERM), perm));
    else if (op->code == OP_RESHAPE)
        n.layout = layout_reshape(s->ctx, n.layout, to->rank, to->extents);
    else
        n.layout = part_layout(s, n.layout, to);
    return n;
}

static const Layout *layout_without_axis(Layouts *s, const Op *op, const Layout *l) {
    return layout_slice(s->ctx, l, (int)op_int(op, A_AXIS, 0), false);
}

/// Returns the layout of a broadcast's operand: l without the dimensions along which the op
/// repeats.
static const Layout *narrowed_layout(Layouts *s, const Op *op, const Layout *l) {
    const Type *from = operand(op, 0)->type, *to = result(op, 0)->type;
    for (int d = 0; d < from->rank; d++)
        if (from->extents[d] != to->extents[d]) l = layout_slice(s->ctx, l, d, true);
    return l;
}

const Layout *operand_layout(Layouts *s, const Op *op, int i, const Layout *l) {
    const Type *from = operand(op, i)->type;
    int64_t unit;
    int perm[MAX_RANK], inverse[MAX_RANK];
    if (!ty_is_block(from) || !from->rank) return NULL;
    switch (op->code) {
    case OP_BROADCAST: return narrowed_layout(s, op, l);
    case OP_RESHAPE: return layout_reshape(s->ctx, l, from->rank, from->extents);
    case OP_PERMUTE:
        copy_ints(op_ints(op, A_PERM), perm);
        for (int d = 0; d < from->rank; d++) inverse[perm[d]] = d;
        return layout_permute(s->ctx, l, inverse);
    case OP_SLICE: return resized_layout(s, l, from);
    case OP_CONCAT: {
        int d = (int)op_int(op, A_AXIS, 0);
        return layout_extend(s->ctx, l, d, from->extents[d], &unit);
    }
    case OP_LOAD:
    case OP_LIVE:
    case OP_ATOMIC:
    case OP_STORE: {
        Access a = access_of(op);
        bool whole =
            operand(op, i) == a.value || (op->code == OP_ATOMIC && i == 2 && a.first[0] > 2);
        return whole ? l : picks_layout(s->ctx, op, l);
    }
    default: return l;
    }
}

/* ---- ops ----------------------------------------------------------------------------------- */

static void infer_region(Layouts *s, Region *r);

/// A carried value has the layout of the value that an iteration yields.
static void infer_loop(Layouts *s, Op *op) {
    int body = op->code == OP_WHILE, first = loop_first_init(op);
    for (int i = 0; i < op->n_results; i++) {
        Natural next = natural_of(s, operand(terminator(op->regions[body]), i));
        Natural init = natural_of(s, operand(op, first + i));
        Natural n = next.layout ? next : init;
        for (int r = 0; r <= body; r++) set_natural(s, loop_arg(op, r, i), n);
        set_natural(s, result(op, i), n);
    }
    for (int r = 0; r < op->n_regions; r++) infer_region(s, op->regions[r]);
}

static void infer_if(Layouts *s, Op *op) {
    for (int r = 0; r < 2; r++) infer_region(s, op->regions[r]);
    for (int i = 0; i < op->n_results; i++) {
        Natural x = natural_of(s, operand(terminator(op->regions[0]), i));
        Natural y = natural_of(s, operand(terminator(op->regions[1]), i));
        set_natural(s, result(op, i), y.weight > x.weight || !x.layout ? y : x);
    }
}

static double bytes_of_block(const Type *t) {
    return (double)ty_count(t) * elem_info[t->elem].bits / 8;
}

static Natural infer_access(Layouts *s, const Op *op) {
    const Type *t = result(op, 0)->type;
    if (!t->rank) return (Natural){NULL, 0};
    Natural value = op->code == OP_ATOMIC ? natural_of(s, operand(op, 1)) : (Natural){NULL, 0};
    return value.layout ? value : (Natural){access_layout(s, op), bytes_of_block(t)};
}

/// For ops on whole blocks, whose operands share one layout.
static Natural infer_whole(Layouts *s, const Op *op) {
    Natural n = or_default(s, heaviest_natural(s, op, 0), operand(op, 0)->type);
    if (op->code == OP_REDUCE) n.layout = layout_without_axis(s, op, n.layout);
    return n;
}

static Natural infer_result(Layouts *s, Op *op) {
    switch (op->code) {
    case OP_LOAD:
    case OP_ATOMIC: return infer_access(s, op);
    case OP_DOT: return (Natural){dot_layouts(s, op).d, DOT_WEIGHT};
    case OP_REDUCE:
        if (operand(op, 0)->type->rank == 1) return (Natural){NULL, 0};
        return infer_whole(s, op);
    case OP_SCAN:
    case OP_SORT: return infer_whole(s, op);
    case OP_GATHER: return or_default(s, natural_of(s, operand(op, 1)), result(op, 0)->type);
    case OP_HISTOGRAM: return (Natural){default_layout(s, result(op, 0)->type), 0};
    case OP_PERMUTE:
    case OP_RESHAPE: return natural_of_shape_op(s, op);
    case OP_SLICE: return or_default(s, natural_of_shape_op(s, op), result(op, 0)->type);
    case OP_CONCAT: return or_default(s, natural_of_shape_op(s, op), result(op, 0)->type);
    case OP_BROADCAST: return (Natural){NULL, 0};
    default:
        return is_free(op) && op->code != OP_LIVE ? heaviest_natural(s, op, 0) : (Natural){NULL, 0};
    }
}

static void infer_region(Layouts *s, Region *r) {
    for_each_op(op, r) {
        if (op_is_loop(op))
            infer_loop(s, op);
        else if (op->code == OP_IF)
            infer_if(s, op);
        else
            for (int i = 0; i < op->n_results; i++)
                if (result(op, i)->type->rank) set_natural(s, result(op, i), infer_result(s, op));
    }
}

static void fixed_point(Layouts *s) {
    int rounds = 0;
    do {
        s->changed = false;
        infer_region(s, s->device->regions[0]);
    } while (s->changed && ++rounds < MAX_ROUNDS);
}

/// Gives results of loops and branches the default layout if nothing suggests another.
static void settle_yields(Op *op, void *arg) {
    Layouts *s = arg;
    if (!op_is_loop(op) && op->code != OP_IF) return;
    for (int i = 0; i < op->n_results; i++) {
        const Type *t = result(op, i)->type;
        Natural n = natural_of(s, result(op, i));
        if (!t->rank || n.layout) continue;
        n.layout = default_layout(s, t);
        set_natural(s, result(op, i), n);
        for (int r = 0; op_is_loop(op) && r <= (op->code == OP_WHILE); r++)
            set_natural(s, loop_arg(op, r, i), n);
    }
}

void infer_layouts(Layouts *s) {
    fixed_point(s);
    op_walk_post(s->device, settle_yields, s);
    fixed_point(s);
    // A value in a loop may have got its layout after the last visit of the loop.
    op_walk_post(s->device, settle_yields, s);
}
