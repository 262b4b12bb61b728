// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The reads of a nest's roots. Walks down the lazy values below the roots and follows how an axis
// of the root's iteration space maps through shape ops.
#include "backends/cpu/emit.h"

typedef struct ReachWalk {
    Emit *e;
    ReachVisit *visit;
    void *arg;
    PtrMap seen;
} ReachWalk;

static void walk_reach(ReachWalk *w, Value *v, int axis, bool identity);

/// A Value is larger than the offsets used here, so each (value, axis, identity) has a distinct
/// key.
static bool first_time(ReachWalk *w, const Value *v, int axis, bool identity) {
    const char *key = (const char *)v + (axis + 1) + (identity ? 16 : 0);
    _Static_assert(sizeof(Value) >= 32 && MAX_RANK < 15, "keys of neighbouring values overlap");
    if (map_get(&w->seen, key)) return false;
    map_set(w->e->ctx, &w->seen, key, w);
    return true;
}

static int reshaped_axis(const Op *op, int axis) {
    const Type *x = operand(op, 0)->type, *y = result(op, 0)->type;
    if (axis < 0 || !reshape_is_trivial(op)) return -1;
    int nth = 0;
    for (int d = 0; d < axis; d++) nth += y->extents[d] > 1;
    for (int d = 0; d < x->rank; d++)
        if (x->extents[d] > 1 && nth-- == 0) return d;
    return -1;
}

/// Walks the operands of an access. Picks and mask vary along their part of the block.
static void walk_access(ReachWalk *w, const Op *op, int axis) {
    Access a = access_of(op);
    int pick = axis - a.pick_at;
    if (axis < 0 || a.pick_at < 0 || pick < 0 || pick >= a.pick_rank) pick = -1;
    for (int i = 0; i < op->n_operands; i++) {
        Value *x = operand(op, i);
        if (x->type->kind != TK_BLOCK || x == a.value) continue;
        walk_reach(w, x, x->type->rank ? pick : -1, false);
    }
}

static void walk_operands(ReachWalk *w, const Op *op, int axis, bool identity) {
    Value *x = op->n_operands ? operand(op, 0) : NULL;
    switch (op->code) {
    case OP_BROADCAST: walk_reach(w, x, x->type->rank ? axis : -1, false); break;
    case OP_RESHAPE: walk_reach(w, x, reshaped_axis(op, axis), false); break;
    case OP_PERMUTE:
        walk_reach(w, x, axis < 0 ? -1 : (int)op_ints(op, A_PERM)->ints[axis], false);
        break;
    case OP_SLICE: walk_reach(w, x, axis, false); break;
    case OP_LOAD:
    case OP_LIVE: walk_access(w, op, axis); break;
    default:
        for (int i = 0; i < op->n_operands; i++) walk_reach(w, operand(op, i), axis, identity);
    }
}

static void walk_loop(ReachWalk *w, const Op *loop, int axis) {
    Region *body = loop->regions[0];
    for (int i = 2; i < loop->n_operands; i++) walk_reach(w, operand(loop, i), axis, true);
    for (int i = 0; i < body->last->n_operands; i++)
        walk_reach(w, operand(body->last, i), axis, true);
}

static bool is_in_memory(Emit *e, const Value *v) {
    return !v->def || bound_buffer(e, v) || plan_is_cut(e, v) || !op_is_lazy(v->def);
}

static void walk_reach(ReachWalk *w, Value *v, int axis, bool identity) {
    if (axis >= 0 && axis < v->type->rank && v->type->extents[axis] == 1) axis = -1;
    if (!first_time(w, v, axis, identity)) return;
    w->visit(w->arg, v, axis, identity);
    if (v->type->rank == 0) return;
    if (v->def && v->def->code == OP_FOR && plan_is_inner_loop(w->e, v->def))
        walk_loop(w, v->def, axis);
    else if (!is_in_memory(w->e, v))
        walk_operands(w, v->def, axis, identity);
}

void walk_nest_reads(Emit *e, const Root *r, int axis, ReachVisit *visit, void *arg) {
    ReachWalk w = {.e = e, .visit = visit, .arg = arg};
    switch (r->kind) {
    case ROOT_BUFFER:
        visit(arg, r->value, axis, true);
        if (r->value->type->rank && r->value->def && op_is_lazy(r->value->def))
            walk_operands(&w, r->value->def, axis, true);
        break;
    case ROOT_LOOP: walk_loop(&w, r->op, axis); break;
    case ROOT_STORE:
    case ROOT_ATOMIC:
        walk_access(&w, r->op, axis);
        walk_reach(&w, access_of(r->op).value, axis, true);
        if (r->kind == ROOT_ATOMIC && operand(r->op, 2)->type->rank == result(r->op, 0)->type->rank)
            walk_reach(&w, operand(r->op, 2), axis, true);
        break;
    default:
        for (int i = 0; i < r->op->n_operands; i++) walk_reach(&w, operand(r->op, i), axis, true);
    }
}
