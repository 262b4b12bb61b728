// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// split-epilogue: stores results of products in pieces, by columns.
//
//   store %y, add %acc, load %r, ..., %n, %count
//   -> store %y, add (slice %acc), load %r, ..., %n, min(%count, 64);  ... %n + 64, ...
//
// While a persistent CTA stores results, it copies the next tile's operands, so the buffers for
// results must be small. If sums fill the registers, few are left for loads of the epilogue (a
// residual, for instance), and for values that are computed from the sums of several products.
// Pieces make all of them small.
#include "passes/cost/cost.h"
#include "passes/gpu/block_part.h"
#include "passes/gpu/layouts.h"

#include "passes/passes.h"
#include "passes/util.h"

enum {
    PANEL = 64,         // columns of a full panel
    JOINED_THREAD = 32, // elements that a thread loads for a piece
    MANY_SUMS = 96,     // of a thread
    MANY_BESIDE = 64,   // ... if operands of NVIDIA's products also take registers
};

typedef struct PieceCutter {
    Ir *ir;
    Ctx *ctx;
    Op *device;
    int threads, many; // accumulator registers of a thread that leave no room
    PtrMap joined;     // values that the current store's value is computed from
    int products;      // products among them
} PieceCutter;

/* ---- loads of the epilogue ----------------------------------------------------------------- */

typedef struct LoadOrder {
    const Op *load;
    bool kept;
} LoadOrder;

static void look_at_store(Op *op, void *arg) {
    LoadOrder *o = arg;
    if (!op_is_access(op) || op->code == OP_LOAD || op->code == OP_LIVE) return;
    bool apart = !may_be_one(operand(o->load, 0), operand(op, 0));
    bool before = op->parent == o->load->parent && op_before(o->load, op);
    o->kept &= apart || (op->code == OP_STORE && before && same_places(o->load, op));
}

/// Whether the load may be repeated for each piece between the stores of pieces.
static bool may_be_split(const PieceCutter *s, Op *load, const Op *store) {
    Access a = access_of(load);
    LoadOrder o = {load, load->parent == store->parent && !a.mask && a.pick_at < 0 &&
                             part_dim(&a, a.rank - 1) >= 0};
    op_walk_pre(s->device, look_at_store, &o);
    return o.kept;
}

static bool goes_by_parts(const Op *op) {
    return op_is_lanewise(op) || op->code == OP_BROADCAST || op->code == OP_RESHAPE ||
           op->code == OP_CONST;
}

static bool is_sums(const Op *op) {
    return op->code == OP_FOR || op->code == OP_DOT || op->code == OP_AWAIT;
}

/// Collects the values that v is computed from, back to sums and loads. Returns whether loads of
/// v's shape are among them.
static bool joins_loads(PieceCutter *s, Value *v, int axis, const Op *store) {
    Op *op = v->def;
    if (!op || op->parent != store->parent || map_get(&s->joined, v)) return false;
    bool load = op->code == OP_LOAD && may_be_split(s, op, store), found = load && axis > 0;
    s->products += is_sums(op);
    if (!load && (!goes_by_parts(op) || (op->code == OP_RESHAPE && part_axis(op, 0, axis) < 0)))
        return false;
    map_set(s->ctx, &s->joined, v, v);
    for (int i = 0; !load && i < op->n_operands; i++) {
        int from = part_axis(op, i, axis);
        if (from >= 0) found |= joins_loads(s, operand(op, i), from, store);
    }
    return found;
}

/* ---- pieces -------------------------------------------------------------------------------- */

/// Returns the columns of a piece of at most `bytes`, as parts of registers. Blocks of o * 2^v
/// columns, o odd, allow multiples of 2^v; blocks of 2^v columns allow halves. Narrow panels get
/// half the bytes.
static int64_t piece_width(const Access *a, int64_t bytes) {
    int64_t columns = a->extents[1], unit = columns & -columns, width = columns;
    if (unit < PANEL && bytes < INT64_MAX) bytes /= 2;
    int64_t row = a->extents[0] * elem_info[a->value->type->elem].bits / 8;
    while (row * width > bytes && width > unit) {
        do width -= unit;
        while (columns % width != 0);
    }
    while (unit == columns && row * width > bytes && width > 8) width /= 2;
    return width;
}

static void split_store(PieceCutter *s, Op *op, bool next) {
    Access a = access_of(op);
    int d = a.n_subs - 1;
    if (a.rank != 2 || a.mask || a.pick_at >= 0 || a.axis_of[d] != 1 || a.subs[d].mul != 1) return;
    int64_t bytes = (int64_t)elem_info[a.value->type->elem].bits / 8 * s->threads * JOINED_THREAD;
    s->joined = (PtrMap){0};
    s->products = 0;
    bool joins = joins_loads(s, a.value, 1, op);
    int64_t sums = ty_count(a.value->type) * (s->products > 1 ? s->products : 1) / s->threads;
    if (sums < s->many || !(joins || s->products > 1)) {
        s->joined = (PtrMap){0};
        bytes = next ? SHARED_PIECE : INT64_MAX;
    }
    int64_t width = piece_width(&a, bytes);
    if (width == a.extents[1]) return;
    Builder b = build_before(s->ir, op);
    for (int64_t first = 0; first < a.extents[1]; first += width) {
        Parts p = {.ir = s->ir, .ctx = s->ctx, .width = width, .through = &s->joined};
        p.start = build_index(&b, first);
        part_of_store(&p, &b, op, 1);
    }
    op_erase(op);
}

/* ---- the pass ------------------------------------------------------------------------------ */

static void look_for_product(Op *op, void *found) {
    *(bool *)found |= op->code == OP_DOT && !cost_is_dead(op);
}

static void split_stores(PieceCutter *s, Region *r, bool next) {
    for (Op *op = r->first, *behind; op; op = behind) {
        behind = op->next;
        if (op->code == OP_STORE) split_store(s, op, next);
    }
}

void pass_split_epilogue(PassEnv *env, Op *module) {
    if (!env->gpu) return;
    for_each_op(op, module->regions[0]) {
        bool products = false;
        if (op->code != OP_DEVICE) continue;
        op_walk_pre(op, look_for_product, &products);
        if (!products) continue;
        PieceCutter *s = ctx_new(ir_ctx(env->ir), PieceCutter);
        *s = (PieceCutter){.ir = env->ir, .ctx = ir_ctx(env->ir), .device = op};
        bool beside = gpu_has(env->gpu, GPU_MMA) && !gpu_has(env->gpu, GPU_WGMMA);
        s->many = beside ? MANY_BESIDE : MANY_SUMS;
        s->threads = choose_shape(env, op).warps * env->gpu->lanes;
        split_stores(s, op->regions[0], false);
        for_each_op(loop, op->regions[0]) {
            if (op_flag(loop, A_PROGRAM_LOOP)) split_stores(s, loop->regions[0], true);
        }
    }
}
