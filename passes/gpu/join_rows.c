// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Cuts the programs of a phase that joins partial sums, by rows (join_rows.h).
//
//   parallel b { %s = for k { ... }; store %y, f(%s), %m, %count }
//   -> parallel b { parallel %row in 0 .. 128 by 8 {
//        %s = join of rows %row .. of the parts; store %y, f(%s), %m + %row, min(%count - %row, 8)
//        } }
//
// A product that is split has few tiles, each with many sums. One program a tile would leave most
// SMs idle while the rest read all parts. Rows are independent of one another if each op between
// the join and the stores maps rows to rows.
#include "passes/gpu/join_rows.h"

#include "passes/gpu/block_part.h"
#include "passes/model.h"
#include "passes/util.h"

enum { LINE_BITS = 128 * 8 };

typedef struct RowCut {
    Ctx *ctx;
    const Op *loop;
    PtrMap by_rows[MAX_RANK]; // values that go by rows along this axis
    PtrMap independent;       // values that do not depend on the loop
} RowCut;

/* ---- judging ------------------------------------------------------------------------------- */

static bool is_independent(RowCut *c, Value *v) {
    const Op *op = v->def;
    if (!op || op->parent != c->loop->parent || map_get(&c->independent, v)) return true;
    if (op == c->loop || op->n_regions) return false;
    for (int i = 0; i < op->n_operands; i++)
        if (!is_independent(c, operand(op, i))) return false;
    map_set(c->ctx, &c->independent, v, v);
    return true;
}

static bool maps_rows(const Op *op) {
    return op_is_lanewise(op) || op->code == OP_BROADCAST || op->code == OP_RESHAPE ||
           op->code == OP_PERMUTE || op->code == OP_CONST || op->code == OP_IOTA;
}

static bool load_goes_by_rows(const Op *load, int axis) {
    Access a = access_of(load);
    int d = part_dim(&a, axis);
    return !a.mask && a.pick_at < 0 && d >= 0 && a.subs[d].kind == DIM_AXIS;
}

/// Whether rows of v along `axis` can be computed from the same rows of the loop's results.
static bool goes_by_rows(RowCut *c, Value *v, int axis) {
    const Op *op = v->def;
    if (op == c->loop) return axis == 0;
    if (!op || op->parent != c->loop->parent) return false;
    if (map_get(&c->by_rows[axis], v)) return true;
    if (op->code == OP_LOAD ? !load_goes_by_rows(op, axis) : !maps_rows(op)) return false;
    for (int i = 0; i < op->n_operands && op->code != OP_LOAD; i++) {
        int from = part_axis(op, i, axis);
        bool whole = from < 0 && is_independent(c, operand(op, i));
        if (!whole && (from < 0 || !goes_by_rows(c, operand(op, i), from))) return false;
    }
    map_set(c->ctx, &c->by_rows[axis], v, v);
    return true;
}

/// Returns the axis of the stored block that has the rows; -1: none.
static int rows_axis(RowCut *c, const Op *store, int64_t rows) {
    Access a = access_of(store);
    if (a.mask || a.pick_at >= 0 || op_flag(store, A_SYSTEM)) return -1;
    for (int axis = 0; axis < a.value->type->rank; axis++) {
        int d = part_dim(&a, axis);
        if (d >= 0 && a.subs[d].kind == DIM_AXIS && a.value->type->extents[axis] == rows &&
            goes_by_rows(c, a.value, axis))
            return axis;
    }
    return -1;
}

/// Whether a load of the body may read a tensor that the store writes. Programs for other rows may
/// have written it by then.
static bool is_read_back(const Op *store) {
    for_each_op(op, store->parent) if (op->code == OP_LOAD &&
                                       may_be_one(operand(op, 0), operand(store, 0))) return true;
    return false;
}

/// Whether all ops around the loop only read, except for one store of rows at the end. Then no
/// other store must be ordered with it, and all its operands are defined before it.
static bool body_goes_by_rows(RowCut *c, int64_t rows) {
    const Op *store = NULL;
    for_each_op(op, c->loop->parent) {
        if (op_has(op, TERMINATOR) || op == c->loop) continue;
        if (store || op->n_regions) return false;
        if (op->code == OP_STORE)
            store = op;
        else if (!tree_only_reads(op))
            return false;
    }
    return store && !is_read_back(store) && rows_axis(c, store, rows) >= 0;
}

int64_t rows_of_join(Ir *ir, const Op *loop, int64_t parts) {
    RowCut c = {.ctx = ir_ctx(ir), .loop = loop};
    const Type *first = result(loop, 0)->type;
    int64_t numbers = 0, least = 1;
    if (!first->rank) return 0;
    int64_t all = first->extents[0], rows = all;
    for (int i = 0; i < loop->n_results; i++) {
        const Type *t = result(loop, i)->type;
        if (!t->rank || t->extents[0] != all || !goes_by_rows(&c, operand(loop, i + 2), 0))
            return 0;
        numbers += ty_count(t) / all * parts;
        if (t->rank == 1) least = LINE_BITS / elem_info[t->elem].bits;
    }
    while (rows % 2 == 0 && rows / 2 >= least && rows * numbers > SPLIT_JOIN_NUMBERS) rows /= 2;
    return rows < all && body_goes_by_rows(&c, all) ? rows : 0;
}

/* ---- rewriting ----------------------------------------------------------------------------- */

Value *rows_of_value(Builder *b, Value *v, Value *first, int64_t rows) {
    Parts p = {.ir = b->ir, .ctx = ir_ctx(b->ir), .start = first, .width = rows};
    return part_of(&p, b, v, 0);
}

static void erase_dead_ops(Op *loop) {
    for (Op *op = terminator(loop->parent)->prev, *next; op != loop->prev; op = next) {
        bool used = op->code == OP_STORE;
        next = op->prev;
        for (int i = 0; i < op->n_results; i++) used |= value_has_uses(result(op, i));
        if (!used) op_erase(op);
    }
}

void store_rows(Ir *ir, Op *loop, Value *const *joined, Value *first, int64_t rows) {
    RowCut c = {.ctx = ir_ctx(ir), .loop = loop};
    Parts p = {.ir = ir, .ctx = c.ctx, .start = first, .width = rows};
    int64_t all = result(loop, 0)->type->extents[0];
    for (int i = 0; i < loop->n_results; i++)
        map_set(c.ctx, &p.made[0], result(loop, i), joined[i]);
    Op *store = terminator(loop->parent);
    while (store->code != OP_STORE) store = store->prev;
    Builder b = build_before(ir, store);
    part_of_store(&p, &b, store, rows_axis(&c, store, all));
    op_erase(store);
    erase_dead_ops(loop);
}
