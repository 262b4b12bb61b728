// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Stages the results of a tile in an item that only the tile's products have read.
//
//   buf_alloc %s; for %tile { ring_wait %Q; products; ring_release; copyout_tma %o, %s, %block }
//   -> for %tile { ring_wait %Q; products; %p = buf_view %Q [start]; copyout_tma %o, %p, %block;
//                  await; ring_release }
//
// In attention with wide heads, two items of keys and two of values leave no room for a buffer of
// results. The results take as many bytes as the queries, and no product needs the queries any
// more. Each warp overwrites only rows that its own part of the products has read, so no barrier is
// necessary. The item is released when the copies have read it, so the next tile's item arrives
// later.
#include "passes/gpu/async/async.h"

/// An item that a tile takes once, and that only products read.
typedef struct TileItem {
    Op *wait, *release;
    Value *buf;
} TileItem;

typedef struct Stage {
    Ir *ir;
    Ctx *ctx;
    Op *device;
    TileItem item;
    VEC(Op *) copies; // copyout_tma
} Stage;

/// Whether each warp has the same rows in both layouts.
static bool same_rows_by_warp(const Layout *a, const Layout *b) {
    int64_t box[MAX_RANK];
    Bits warps[2];
    const Layout *both[] = {a, b};
    int n = a->bits[LEVEL_WARP];
    if (a->extents[0] != b->extents[0] || n != b->bits[LEVEL_WARP]) return false;
    for (int i = 0; i < 2; i++)
        if (!layout_warp_boxes(both[i], box, &warps[i]) ||
            warps[i] & low_bits(layout_base(both[i], 0)))
            return false;
    for (int i = 0; i < n; i++) {
        Bits x = a->col[layout_first(a, LEVEL_WARP) + i] >> layout_base(a, 0);
        if (x != b->col[layout_first(b, LEVEL_WARP) + i] >> layout_base(b, 0)) return false;
    }
    return true;
}

bool is_read_by_same_warps(const Value *item, const Layout *rows) {
    for_each_use(u, item) {
        if (u->user->code == OP_BUF_VIEW && op_attr(u->user, ATTR_START)) continue;
        if (u->user->code != OP_MMA_START || u->index != 0) return false;
        const Type *sum = ty_promised(result(u->user, 0)->type);
        if (!rows || !sum || !sum->layout || !same_rows_by_warp(sum->layout, rows)) return false;
    }
    return true;
}

/// Returns the only user of the ring with this code, or NULL.
static Op *only_user(const Value *ring, OpCode code) {
    Op *found = NULL;
    for_each_use(u, ring) {
        if (u->user->code != code) continue;
        if (found) return NULL;
        found = u->user;
    }
    return found;
}

/// Finds the ring from which each tile takes one item that consists of one swizzled buffer.
static bool find_item(Stage *s) {
    for_each_op(op, s->device->regions[0]) {
        if (op->code != OP_RING_MAKE || !ring_is_tma(result(op, 0))) continue;
        TileItem t = {only_user(result(op, 0), OP_RING_WAIT),
                      only_user(result(op, 0), OP_RING_RELEASE), NULL};
        if (!t.wait || !t.release || t.wait->n_results != 1) continue;
        const Op *loop = t.wait->parent->parent;
        t.buf = result(t.wait, 0);
        if (loop != s->device && (loop->code != OP_FOR || !op_flag(loop, A_PROGRAM_LOOP))) continue;
        if (t.release->parent != t.wait->parent || t.buf->type->rank != 2) continue;
        if (!t.buf->type->swizzle || t.buf->type->inner != 1) continue;
        s->item = t;
        return true;
    }
    return false;
}

static void collect_copy_out(Op *op, void *arg) {
    Stage *s = arg;
    if (op->code == OP_COPYOUT_TMA) vec_push(s->ctx, &s->copies, op);
}

/// Returns the op of the item's region that holds `op`. NULL: none does, or a loop lies between.
static Op *op_of_tile(const Stage *s, Op *op) {
    while (op && op->parent != s->item.wait->parent) {
        op = op->parent->parent;
        if (op && op_is_loop(op)) return NULL;
    }
    return op;
}

/// Whether the item holds all results of a tile, each in panels of its own. The release shows that
/// no later product reads the item.
static bool item_holds_results(const Stage *s) {
    const Type *item = s->item.buf->type;
    int64_t width = 0;
    for (int i = 0; i < s->copies.n; i++) {
        Op *copy = s->copies.data[i], *top = op_of_tile(s, copy);
        const Type *buf = operand(copy, 1)->type, *block = operand(copy, 2)->type;
        if (!def_of(operand(copy, 1), OP_BUF_ALLOC) || !top || op_before(top, s->item.release))
            return false;
        if (buf->elem != item->elem || buf->swizzle != item->swizzle || buf->inner != item->inner ||
            buf->extents[0] != item->extents[0] || buf->pad != item->pad)
            return false;
        if (!is_read_by_same_warps(s->item.buf, block->layout)) return false;
        width += buf->extents[1];
    }
    return s->copies.n > 0 && width <= item->extents[1];
}

static void stage_copy(Stage *s, Op *copy, int64_t first) {
    Builder b = build_before(s->ir, copy);
    const int64_t same[] = {0, 1}, start[] = {0, first};
    Value *alloc = operand(copy, 1);
    Op *view = build_op(&b, OP_BUF_VIEW, 1, &s->item.buf, 1, &alloc->type, 0);
    op_set_ints(s->ir, view, A_PERM, same, 2);
    op_set_ints(s->ir, view, A_START, start, 2);
    op_set_operand(copy, 1, result(view, 0));
    op_set_attr(s->ir, copy, ATTR_IN_FLIGHT, NULL);
    if (value_has_uses(alloc)) return;
    if (alloc->def->prev && alloc->def->prev->code == OP_BARRIER) op_erase(alloc->def->prev);
    op_erase(alloc->def);
}

/// Moves the release of the item behind `last`, and puts a wait for the copies that read the item
/// before the release. The wait at the end of the device is then removed: it waited for these
/// copies only, since nothing else is copied out.
static void await_before_release(Stage *s, Op *last) {
    Builder b = build_after(s->ir, last);
    Op *end = terminator(s->device->regions[0])->prev;
    Op *read = build_op(&b, OP_AWAIT, 0, NULL, 0, NULL, 0);
    if (end->code == OP_AWAIT && !end->n_operands) {
        if (op_flag(end, A_WRITTEN)) op_set_flag(s->ir, read, A_WRITTEN, true);
        op_erase(end);
    }
    if (s->item.release != read->next) op_move_before(s->item.release, read->next);
}

bool stage_in_item(PassEnv *env, Op *device) {
    Stage s = {.ir = env->ir, .ctx = ir_ctx(env->ir), .device = device};
    if (!find_item(&s)) return false;
    op_walk_pre(device, collect_copy_out, &s);
    if (!item_holds_results(&s)) return false;
    Op *last = s.item.release;
    int64_t first = 0;
    for (int i = 0; i < s.copies.n; i++) {
        Op *top = op_of_tile(&s, s.copies.data[i]);
        int64_t width = operand(s.copies.data[i], 1)->type->extents[1];
        if (op_before(last, top)) last = top;
        stage_copy(&s, s.copies.data[i], first);
        first += width;
    }
    await_before_release(&s, last);
    return true;
}
