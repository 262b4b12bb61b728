// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Rings of buffers.
//
// Item n is in slot n mod S, for the (n div S)-th time. For a ring filled by TMA, `full` completes
// when the item's bytes have arrived, and `free` when every warp has released the item. A wait
// names the parity of the phase that must have ended. One warp waits for free slots, and one of its
// lanes starts the copies. It skips the wait for slots that are known to be free.
//
// In a pair of CTAs, each may copy half of a buffer into both. The `full` of each CTA counts all
// bytes of its item, and a slot is free when the warps of both CTAs have released it.
//
// For a ring filled by cp.async, every thread waits for its own copies, then all threads meet. A
// slot is free when all have met after its last use.
#include "backends/gpu/ring.h"

#include <string.h>

enum { MBARRIER_BYTES = 8, SLOT_ALIGN = 1024, PRODUCER = 0, SCALAR = 2 };

static int64_t round_up_bytes(int64_t n, int64_t unit) {
    return (n + unit - 1) / unit * unit;
}

GpuRing *gpu_ring(GpuFn *f, const Value *v) {
    return (GpuRing *)(void *)gpu_block(f, v);
}

LLVMValueRef gpu_uniform_warp(GpuFn *f) {
    if (f->uniform_warp) return f->uniform_warp;
    GpuPlace back = gpu_to_head(f);
    f->uniform_warp = gpu_call(f, "tg.warp.id", 0);
    gpu_from_head(f, back);
    return f->uniform_warp;
}

/* ---- items --------------------------------------------------------------------------------- */

/// Returns an i32: the slot of item n, and how often the slot was used before.
static void ring_slot(GpuFn *f, const GpuRing *r, const Value *n, LLVMValueRef *slot,
                      LLVMValueRef *turn) {
    Gen *g = f->g;
    LLVMValueRef x = LLVMBuildTrunc(g->b, gpu_scalar(f, n), g->i32, "");
    LLVMValueRef slots = gpu_i32(f, r->type->slots);
    *turn = LLVMBuildUDiv(g->b, x, slots, "");
    *slot = LLVMBuildSub(g->b, x, LLVMBuildMul(g->b, *turn, slots, ""), "");
}

/// Returns the address of a word of a slot: its mbarriers `full` (0) and `free` (1), and the scalar
/// of its item (2).
static LLVMValueRef slot_word(GpuFn *f, const GpuRing *r, LLVMValueRef slot, int which) {
    int64_t first = r->at + r->type->slots * (r->slot_bytes + which * MBARRIER_BYTES);
    LLVMValueRef p = gpu_room_at(f, which == SCALAR ? r->scalars : r->mbarriers, first);
    return gpu_offset(f, p, LLVMBuildMul(f->g->b, slot, gpu_i32(f, MBARRIER_BYTES), ""));
}

static LLVMValueRef slot_mbarrier(GpuFn *f, const GpuRing *r, LLVMValueRef slot, int which) {
    return gpu_shared_addr(f, slot_word(f, r, slot, which));
}

static LLVMValueRef parity_of(GpuFn *f, LLVMValueRef turn) {
    return LLVMBuildAnd(f->g->b, turn, gpu_i32(f, 1), "");
}

static void bind_buffers(GpuFn *f, const GpuRing *r, LLVMValueRef slot, const Op *op) {
    LLVMValueRef start = LLVMBuildMul(f->g->b, slot, gpu_i32(f, r->slot_bytes), "");
    for (int i = 0; i < r->type->n_parts; i++) {
        LLVMValueRef *p = ctx_array(f->ctx, LLVMValueRef, 1);
        *p = gpu_offset(f, gpu_room_at(f, r->items, r->at + r->part[i]), start);
        gpu_set_block(f, result(op, i), p);
    }
}

/* ---- making -------------------------------------------------------------------------------- */

static void init_mbarriers(GpuFn *f, const GpuRing *r) {
    Gen *g = f->g;
    LLVMValueRef first = LLVMBuildICmp(g->b, LLVMIntEQ, f->thread, gpu_i32(f, 0), "");
    int arrivals[] = {1, r->pairs ? GPU_PAIR * r->readers : r->readers}; // full, free
    for (int i = 0; i < r->type->slots; i++)
        for (int which = 0; which < 2; which++)
            gpu_call(f, "tg.nv.mbarrier.init", 3, slot_mbarrier(f, r, gpu_i32(f, i), which), first,
                     gpu_i32(f, arrivals[which]));
}

/// Whether another ring with mbarriers is made right after this one.
static bool another_follows(const Op *op) {
    for (op = op->next; op; op = op->next) {
        if (op->code == OP_RING_MAKE && ring_is_tma(result(op, 0))) return true;
        if (op->code != OP_RING_MAKE && op->code != OP_BUF_ALLOC && op->code != OP_CONST) break;
    }
    return false;
}

void gpu_lower_ring_make(GpuFn *f, Op *op) {
    GpuRing *r = ctx_new(f->ctx, GpuRing);
    r->type = result(op, 0)->type;
    r->at = op_int(op, A_OFFSET, 0);
    r->tma = ring_is_tma(result(op, 0));
    r->pairs = op_flag(op, A_MULTICAST);
    r->readers = (int)op_int(op, A_READER_WARPS, f->warps);
    for (int i = 0; i < r->type->n_parts; i++) {
        r->part[i] = r->slot_bytes;
        r->slot_bytes += round_up_bytes(shared_of(r->type->parts[i]).bytes, SLOT_ALIGN);
    }
    int64_t slots = r->type->slots, end = r->at + slots * r->slot_bytes;
    r->items = gpu_room(f, "ring", r->at, end);
    r->mbarriers = gpu_room(f, "mbarriers", end, end + slots * 2 * MBARRIER_BYTES);
    r->scalars = gpu_room(f, "numbers of items", end + slots * 2 * MBARRIER_BYTES,
                          end + slots * 3 * MBARRIER_BYTES);
    map_set(f->ctx, &f->values, result(op, 0), r);
    if (!r->tma) return;
    init_mbarriers(f, r);
    if (another_follows(op)) return;
    gpu_call(f, "tg.nv.fence.mbarrier.init", 0);
    gpu_barrier(f);
    gpu_pair_barrier(f);
}

/* ---- filling ------------------------------------------------------------------------------- */

/// Returns the bytes that TMA writes for a full item. Boxes count as a whole, even if clipped.
static int64_t item_bytes(const Op *acquire) {
    int64_t bytes = 0;
    for (int i = 0; i < acquire->n_results; i++) bytes += shared_of(result(acquire, i)->type).bytes;
    return bytes;
}

static bool is_true_value(LLVMValueRef on) {
    return LLVMIsAConstantInt(on) && LLVMConstIntGetZExtValue(on);
}

static void acquire_tma(GpuFn *f, GpuRing *r, const Op *op) {
    Gen *g = f->g;
    LLVMValueRef slot, turn, on = gpu_scalar(f, operand(op, 2));
    if (!f->role) { // in a role, the only warp
        LLVMValueRef warp = gpu_uniform_warp(f);
        LLVMValueRef mine = LLVMBuildICmp(g->b, LLVMIntEQ, warp, gpu_i32(f, PRODUCER), "");
        on = LLVMBuildAnd(g->b, mine, on, "");
    }
    r->branch = !is_true_value(on);
    if (r->branch) r->on = gpu_if(f, on);
    ring_slot(f, r, operand(op, 1), &slot, &turn);
    if (!op_flag(op, A_KNOWN_FREE)) {
        LLVMValueRef before = LLVMBuildXor(g->b, parity_of(f, turn), gpu_i32(f, 1), "");
        gpu_call(f, "tg.nv.mbarrier.wait", 2, slot_mbarrier(f, r, slot, 1), before);
    }
    r->elected = gpu_call(f, "tg.nv.elect", 0);
    r->full = slot_mbarrier(f, r, slot, 0);
    r->bytes = gpu_i32(f, item_bytes(op));
    r->scalar = op_flag(operand(op, 0)->def, A_SCALAR) ? slot_word(f, r, slot, SCALAR) : NULL;
    if (!r->scalar) gpu_call(f, "tg.nv.mbarrier.expect_tx", 3, r->full, r->elected, r->bytes);
    bind_buffers(f, r, slot, op);
}

static void acquire_async(GpuFn *f, GpuRing *r, const Op *op) {
    LLVMValueRef slot, turn, on = gpu_scalar(f, operand(op, 2));
    if (r->type->slots == 1 && !op_flag(op, A_KNOWN_FREE))
        gpu_barrier(f); // one slot: the last item was just read
    r->branch = !LLVMIsAConstantInt(on);
    if (r->branch) r->on = gpu_if(f, on);
    ring_slot(f, r, operand(op, 1), &slot, &turn);
    bind_buffers(f, r, slot, op);
}

void gpu_lower_ring_acquire(GpuFn *f, Op *op) {
    GpuRing *r = gpu_ring(f, operand(op, 0));
    if (r->tma)
        acquire_tma(f, r, op);
    else
        acquire_async(f, r, op);
}

void gpu_lower_ring_commit(GpuFn *f, Op *op) {
    GpuRing *r = gpu_ring(f, operand(op, 0));
    if (r->scalar) { // bytes that arrive before this announcement count as well
        LLVMValueRef n = gpu_scalar(f, operand(op, op->n_operands - 1));
        n = LLVMBuildTrunc(f->g->b, n, f->g->i32, "");
        gpu_store_shared_if(f, EL_I32, r->scalar, 1, &n, r->elected);
        gpu_call(f, "tg.nv.mbarrier.expect_tx", 3, r->full, r->elected, r->bytes);
    }
    if (r->branch) {
        gpu_else(f, &r->on);
        gpu_end_if(f, &r->on);
    }
    // Waits count groups, so a group without copies must be committed as well.
    if (!r->tma) gpu_call(f, "tg.nv.cp.async.commit", 0);
}

/* ---- using --------------------------------------------------------------------------------- */

static bool is_multiplied(const Value *buf) {
    for_each_use(u, buf) {
        if (u->user->code == OP_MMA_START) return true;
        if (u->user->code == OP_BUF_VIEW && is_multiplied(result(u->user, 0))) return true;
    }
    return false;
}

/// Whether threads read or write the buffer, or a part of it.
static bool is_touched(const Value *buf) {
    for_each_use(u, buf) {
        OpCode code = u->user->code;
        if (code != OP_MMA_START && code != OP_BUF_PAD && code != OP_BUF_VIEW) return true;
        if (code == OP_BUF_VIEW && is_touched(result(u->user, 0))) return true;
    }
    return false;
}

static bool any_multiplied(const Op *wait) {
    bool any = false;
    for (int i = 0; i < wait->n_results; i++) any |= is_multiplied(result(wait, i));
    return any;
}

/// Reads the scalar of the item in the slot; the item has arrived. Only the lane that releases the
/// item reads the scalar, so no fence is needed. The shuffle gives it to all lanes, and shows the
/// compiler that it is uniform.
static void read_item_scalar(GpuFn *f, const GpuRing *r, LLVMValueRef slot, const Value *v) {
    LLVMValueRef first = LLVMBuildICmp(f->g->b, LLVMIntEQ, f->lane, gpu_i32(f, 0), "");
    LLVMValueRef at = gpu_shared_addr(f, slot_word(f, r, slot, SCALAR));
    LLVMValueRef n = gpu_call(f, "tg.load.shared.b32", 3, at, first, gpu_i32(f, 0));
    n = gpu_call(f, "tg.shuffle.idx", 2, n, gpu_i32(f, 0));
    gpu_set_scalar(f, v, LLVMBuildZExt(f->g->b, n, f->g->i64, ""));
}

/// One lane takes the tile for its whole warp, which is the only one of its role. The hardware's
/// increment sets the word to 0 if it has reached the operand.
void gpu_lower_take_tile(GpuFn *f, Op *op) {
    Gen *g = f->g;
    LLVMValueRef first = LLVMBuildICmp(g->b, LLVMIntEQ, f->lane, gpu_i32(f, 0), "");
    LLVMValueRef all = LLVMBuildTrunc(g->b, gpu_scalar(f, operand(op, 1)), g->i32, "");
    LLVMValueRef last = LLVMBuildSub(g->b, all, gpu_i32(f, 1), "");
    LLVMValueRef n = gpu_call(f, "tg.atomic.global.inc.u32.gpu", 3,
                              gpu_tensor(f, operand(op, 0))->data, first, last);
    n = gpu_call(f, "tg.shuffle.idx", 2, n, gpu_i32(f, 0));
    gpu_set_scalar(f, result(op, 0), LLVMBuildZExt(g->b, n, g->i64, ""));
}

void gpu_lower_ring_wait(GpuFn *f, Op *op) {
    GpuRing *r = gpu_ring(f, operand(op, 0));
    LLVMValueRef slot, turn;
    ring_slot(f, r, operand(op, 1), &slot, &turn);
    bind_buffers(f, r, slot, op);
    if (r->tma) {
        gpu_call(f, "tg.nv.mbarrier.wait", 2, slot_mbarrier(f, r, slot, 0), parity_of(f, turn));
        int n = r->type->n_parts;
        if (op->n_results > n) read_item_scalar(f, r, slot, result(op, n));
        return;
    }
    int64_t ahead = op_int(op, A_PREFETCHED, 0);
    gpu_call(f, ctx_format(f->ctx, "tg.nv.cp.async.wait.%d", (int)ahead), 0);
    if (any_multiplied(op)) gpu_call(f, "tg.nv.fence.proxy.async.shared", 0);
    gpu_barrier(f);
}

void gpu_lower_ring_release(GpuFn *f, Op *op) {
    Gen *g = f->g;
    GpuRing *r = gpu_ring(f, operand(op, 0));
    LLVMValueRef slot, turn, on = gpu_scalar(f, operand(op, 2));
    if (!r->tma) return;
    const Op *wait = value_user(operand(op, 0), OP_RING_WAIT); // shows how items are read
    bool touched = false;
    for (int i = 0; wait && i < r->type->n_parts; i++) touched |= is_touched(result(wait, i));
    if (touched) gpu_warp_sync(f); // no lane reads the buffers any more
    ring_slot(f, r, operand(op, 1), &slot, &turn);
    LLVMValueRef arrive =
        LLVMBuildICmp(g->b, LLVMIntULT, f->lane, gpu_i32(f, r->pairs ? GPU_PAIR : 1), "");
    arrive = LLVMBuildAnd(g->b, arrive, on, "");
    if (r->pairs) // each lane signals one CTA
        gpu_call(f, "tg.nv.mbarrier.arrive.cluster", 3, slot_mbarrier(f, r, slot, 1), arrive,
                 f->lane);
    else
        gpu_call(f, "tg.nv.mbarrier.arrive", 2, slot_mbarrier(f, r, slot, 1), arrive);
}
