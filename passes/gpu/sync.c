// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// sync: proves that no data is read before it is written, or overwritten before it is read, and
// records which mechanism covers each hazard.
//
// The pass walks the schedule as one thread runs it. Loops run a few times; loops that take items
// of a ring run more often than it has slots, and unknown bounds are chosen accordingly. Loops of
// roles are also walked without iterations, and with other numbers in each tile. Scalars that
// number items and switch copies are computed. The walk checks that
//   - an item is acquired after its slot was released, waited for after it was committed, by a wait
//     that leaves no copy of it pending, and read between its wait and its release;
//   - no pending product reads an item when it is released;
//   - a buffer is stored after the products that read it have ended and all threads have met, and
//     read after a fence and another barrier;
//   - a buffer is overwritten only after the copies out of it have read it, and the program ends
//     after all such reads, and after its additions have arrived;
//   - copies into rings are complete when their memory is reused;
//   - a signal follows each part that is sent to other ranks (send_signals.c).
//
// Roles are walked one by one. Then their ring operations are run again, all roles together
// (sync_roles.c). A failed check is a bug of the compiler. An acquire is marked `known_free` if its
// slot is free without a wait: no item had it before, or only products of the single warpgroup have
// read it, and these have ended in all warps once the producer's warp has waited for them. A
// release that no acquire waits for is erased. The attribute `sync_notes` of the device records the
// proof.
#include "passes/gpu/async/async.h"
#include "passes/gpu/send_signals.h"
#include "passes/gpu/sync_roles.h"

#include "passes/passes.h"

#include <string.h>

enum {
    INNER_TRIPS = RING_SLOTS + 3,
    OUTER_TRIPS = 3,
    FEW_TRIPS = 3,
    ALL_SLOTS = -1, // a number of trips that uses all slots of the rings
    UNEVEN_TILES =
        FEW_TRIPS +
        2, // long enough that each number of trips both precedes and follows a different one
    MAX_FLIGHT = 64,
    MAX_LOOPS = 16,
    MAX_STEPS = 1 << 20
};

/// An item of a ring, from commit to the acquire that reuses its slot.
typedef struct RingItem {
    int group;    // number of its cp.async group
    Op *released; // the op of the current role that released it
    bool acquired, committed, waited;
    bool overwritten; // by results
    uint64_t copied;  // panels that copies out may still have to read, as bits
    bool here;        // waited for by the current role
} RingItem;

typedef struct Track {
    const Value *ring;
    VEC(RingItem) items; // indexed by number
} Track;

/// A pending product and the buffers that it reads.
typedef struct Flight {
    const Value *bufs[2]; // results of ring_wait or buf_alloc, or NULL
    int64_t items[2];
} Flight;

/// A buffer of buf_alloc.
typedef struct SharedStore {
    const Value *buf;
    bool dirty, fenced, met; // dirty: stored since the last barrier; fenced: a fence followed; met:
                             // then a barrier
    bool read;               // since the last barrier
} SharedStore;

typedef struct Sync {
    Async s;
    PtrMap known; // Value * -> Number *
    VEC(Track) tracks;
    VEC(SharedStore) stores;
    Flight flight[MAX_FLIGHT];
    int n_flight, steps;
    PtrMap item_of; // result of a wait -> Number *
    PtrMap needed;  // release ops that an acquire waits for
    int groups;     // committed cp.async groups, also empty ones
    const Op *anew; // the op from which memory is reused
    PtrMap copied;  // buffer -> Number *: the last copy out of it
    int copies_out; // number so far
    bool unread;    // some buffers may still have to be read
    bool unwritten; // additions of some may not have arrived
    Sending sending;
    Meeting *meeting; // of roles, or NULL
    bool
        first_role; // the current role is the first one; the others share the bounds assumed for it
    int trips;      // for unknown bounds, or ALL_SLOTS
    bool uneven; // the first loop of a tile runs `trips` times, and each further unknown bound adds
                 // one
    int supposed;         // number of bounds and conditions that were unknown
    int turns[MAX_LOOPS]; // the iterations of the loops around the walk
    int depth;
} Sync;

typedef struct Number {
    int64_t n;
} Number;

static _Noreturn void fail_schedule(const Sync *y, const Op *op, const char *what) {
    ice(y->s.ctx, op->loc, "%s: %s", op_info[op->code].name, what);
}

/* ---- iterations ---------------------------------------------------------------------------- */

static void begin_turns(Sync *y, const Op *op) {
    if (y->depth == MAX_LOOPS) fail_schedule(y, op, "too many loops around it");
    y->turns[y->depth++] = 0;
}

static void end_turn(Sync *y) {
    y->turns[y->depth - 1]++;
}

/// Returns one number for the current iterations of all loops around v's definition.
static uint64_t turn_of(const Sync *y, const Value *v) {
    const Region *r = v->def ? v->def->parent : v->region;
    int depth = 0;
    uint64_t turn = 0;
    for (const Op *op = r->parent; op && op->parent; op = op->parent->parent)
        depth += op_is_loop(op);
    for (int i = 0; i < depth && i < y->depth; i++)
        turn = turn * MAX_STEPS + (uint64_t)y->turns[i] + 1;
    return turn;
}

/// Returns the number of iterations to walk if the loop's bound is unknown. usual: enough
/// iterations to use all slots of the rings.
static int trips_of(Sync *y, const Op *loop, int usual) {
    if (y->trips == ALL_SLOTS) return usual;
    if (!y->uneven) return y->trips;
    if (op_flag(loop, A_PROGRAM_LOOP)) return UNEVEN_TILES;
    return (y->trips + y->supposed++) % (FEW_TRIPS + 1);
}

/* ---- scalars ------------------------------------------------------------------------------- */

static bool find_number(const Sync *y, const Value *v, int64_t *n) {
    const Number *known = map_get(&y->known, v);
    if (known) *n = known->n;
    return known || const_int(v, n);
}

static void know_number(Sync *y, const Value *v, int64_t n) {
    Number *number = ctx_new(y->s.ctx, Number);
    number->n = n;
    map_set(y->s.ctx, &y->known, v, number);
}

/// Forgets v, unless another role was walked with a number for the same scalar.
static void forget_number(Sync *y, const Value *v) {
    int64_t n;
    map_set(y->s.ctx, &y->known, v, NULL);
    if (y->meeting && !y->first_role && ty_is_scalar(v->type) &&
        meeting_knows(y->meeting, v, turn_of(y, v), &n))
        know_number(y, v, n);
}

static void compute_number(Sync *y, const Op *op) {
    int64_t a, b;
    if (op->code == OP_CONST && ty_is_scalar(result(op, 0)->type)) {
        const Attr *value = op_const(op, A_VALUE);
        if (value->kind != AT_FLOAT) know_number(y, result(op, 0), value->i);
        return;
    }
    if (op->n_operands != 2 || op->n_results != 1 || !ty_is_scalar(operand(op, 0)->type) ||
        !find_number(y, operand(op, 0), &a) || !find_number(y, operand(op, 1), &b)) {
        for (int i = 0; i < op->n_results; i++) forget_number(y, result(op, i));
        return;
    }
    switch (op->code) {
    case OP_ADD: know_number(y, result(op, 0), a + b); break;
    case OP_SUB: know_number(y, result(op, 0), a - b); break;
    case OP_MUL: know_number(y, result(op, 0), a * b); break;
    case OP_MIN: know_number(y, result(op, 0), a < b ? a : b); break;
    case OP_MAX: know_number(y, result(op, 0), a > b ? a : b); break;
    case OP_EQ: know_number(y, result(op, 0), a == b); break;
    case OP_LT: know_number(y, result(op, 0), a < b); break;
    case OP_LE: know_number(y, result(op, 0), a <= b); break;
    case OP_GT: know_number(y, result(op, 0), a > b); break;
    case OP_GE: know_number(y, result(op, 0), a >= b); break;
    case OP_AND: know_number(y, result(op, 0), a & b); break;
    default: break;
    }
}

/* ---- rings --------------------------------------------------------------------------------- */

static Track *track_of(Sync *y, const Value *ring) {
    for (int i = 0; i < y->tracks.n; i++)
        if (y->tracks.data[i].ring == ring) return &y->tracks.data[i];
    Track t = {.ring = ring};
    vec_push(y->s.ctx, &y->tracks, t);
    return &y->tracks.data[y->tracks.n - 1];
}

static RingItem *item_of(Sync *y, const Op *op, int64_t *number) {
    Track *t = track_of(y, operand(op, 0));
    if (!find_number(y, operand(op, 1), number))
        fail_schedule(y, op, "the number of an item is unknown");
    if (*number < 0) return NULL;
    while (t->items.n <= *number) {
        RingItem none = {0};
        vec_push(y->s.ctx, &t->items, none);
    }
    return &t->items.data[*number];
}

/// Whether the op is switched on, or may be.
static bool is_on(const Sync *y, const Op *op) {
    int64_t on;
    return !find_number(y, operand(op, 2), &on) || on;
}

/// Whether only products read the buffer. Threads pad it before products start.
static bool only_products_read(const Value *buf) {
    for_each_use(u, buf) {
        bool view = u->user->code == OP_BUF_VIEW && only_products_read(result(u->user, 0));
        if (!view && u->user->code != OP_MMA_START && u->user->code != OP_BUF_PAD) return false;
    }
    return true;
}

/// Whether the wait for a product frees an item in all warps: the device's only warpgroup reads
/// items by products, which end in all warps together. This does not hold if another program of a
/// pair fills the ring, too.
static bool ends_with_products(const Sync *y, const Value *ring) {
    if (!ring_is_tma(ring) || op_flag(ring->def, A_MULTICAST) || device_roles(y->s.device) ||
        op_int(y->s.device, A_WARPS, 0) != GPU_GROUP_WARPS)
        return false;
    for_each_use(u, ring) {
        if (u->user->code != OP_RING_WAIT) continue;
        for (int i = 0; i < u->user->n_results; i++)
            if (!only_products_read(result(u->user, i))) return false;
    }
    return true;
}

static void acquire_item(Sync *y, Op *op) {
    int64_t n, slots = operand(op, 0)->type->slots;
    if (!is_on(y, op)) return;
    RingItem *item = item_of(y, op, &n);
    if (item) item->acquired = true;
    Track *t = track_of(y, operand(op, 0));
    if (y->meeting) meeting_event(y->meeting, op, n);
    if (n < slots || y->meeting) return;
    Op *released = t->items.data[n - slots].released;
    if (!released) fail_schedule(y, op, "the slot of its item was not released");
    if (ends_with_products(y, operand(op, 0))) return;
    map_set(y->s.ctx, &y->needed, released, released);
}

static void wait_for_item(Sync *y, Op *op) {
    int64_t n;
    RingItem *item = item_of(y, op, &n);
    if (y->meeting) meeting_event(y->meeting, op, n);
    if (!item || (!item->committed && !y->meeting))
        fail_schedule(y, op, "its item was not committed");
    if (!ring_is_tma(operand(op, 0)) && y->groups - item->group <= op_int(op, A_PREFETCHED, 0))
        fail_schedule(y, op, "it leaves copies of its item under way");
    item->waited = item->here = true;
    for (int i = 0; i < op->n_results; i++) {
        Number *number = ctx_new(y->s.ctx, Number);
        number->n = n;
        map_set(y->s.ctx, &y->item_of, result(op, i), number);
    }
}

static void release_item(Sync *y, Op *op) {
    int64_t n;
    RingItem *item = is_on(y, op) ? item_of(y, op, &n) : NULL;
    if (!item) return;
    if (!item->here || item->released)
        fail_schedule(y, op, "its item is not there, or was released");
    if (item->copied) fail_schedule(y, op, "a copy out of it may not have read it yet");
    if (y->meeting) meeting_event(y->meeting, op, n);
    item->released = op;
    for (int i = 0; i < y->n_flight; i++)
        for (int k = 0; k < 2; k++) {
            const Value *buf = y->flight[i].bufs[k];
            if (buf && buf->def->code == OP_RING_WAIT && operand(buf->def, 0) == operand(op, 0) &&
                y->flight[i].items[k] == n)
                fail_schedule(y, op, "a product that reads its item is under way");
        }
}

/// Checks that memory of rings and buffers may be reused. A pending copy would overwrite the new
/// data, and a copy out would read it.
static void all_copied(const Sync *y, const Op *op) {
    if (y->unread) fail_schedule(y, op, "a copy out may not have read its data yet");
    for (int i = 0; i < y->tracks.n; i++)
        for (int n = 0; n < y->tracks.data[i].items.n; n++) {
            const RingItem *item = &y->tracks.data[i].items.data[n];
            if (item->committed && !item->waited)
                fail_schedule(y, op, "an item was not waited for");
        }
}

/* ---- reading and writing ------------------------------------------------------------------- */

static const Value *buf_of_view(const Value *v) {
    while (v->def && v->def->code == OP_BUF_VIEW) v = operand(v->def, 0);
    return v->type->kind == TK_BUF ? v : NULL;
}

static SharedStore *store_of(Sync *y, const Value *buf) {
    for (int i = 0; i < y->stores.n; i++)
        if (y->stores.data[i].buf == buf) return &y->stores.data[i];
    SharedStore s = {.buf = buf};
    vec_push(y->s.ctx, &y->stores, s);
    return &y->stores.data[y->stores.n - 1];
}

/// engine: the reader is not a thread, so stores of threads need a fence before it.
static void read_buf(Sync *y, const Op *op, const Value *v, bool engine) {
    const Value *buf = buf_of_view(v);
    if (!buf || !buf->def) return;
    if (buf->def->code == OP_RING_WAIT) {
        const Number *n = map_get(&y->item_of, buf);
        Track *t = track_of(y, operand(buf->def, 0));
        if (!n || t->items.data[n->n].released)
            fail_schedule(y, op, "it reads an item that is not there");
        if (t->items.data[n->n].overwritten)
            fail_schedule(y, op, "it reads an item that results have overwritten");
        return;
    }
    SharedStore *s = store_of(y, buf);
    if (s->dirty || (engine && !s->fenced) || !s->met)
        fail_schedule(y, op, "it reads data without a barrier after their writes");
    s->read = true;
}

static void start_mma(Sync *y, const Op *op) {
    Flight f = {0};
    if (y->n_flight == MAX_FLIGHT) fail_schedule(y, op, "too many products are under way");
    for (int i = 0; i < 2; i++) {
        read_buf(y, op, operand(op, i), true);
        f.bufs[i] = buf_of_view(operand(op, i));
        const Number *n = f.bufs[i] ? map_get(&y->item_of, f.bufs[i]) : NULL;
        f.items[i] = n ? n->n : -1;
    }
    y->flight[y->n_flight++] = f;
}

static void await_products(Sync *y, const Op *op) {
    int younger = (int)op_int(op, A_IN_FLIGHT, 0);
    if (!op->n_operands) {
        y->unread = false;
        for (int i = 0; i < y->tracks.n; i++)
            for (int n = 0; n < y->tracks.data[i].items.n; n++)
                y->tracks.data[i].items.data[n].copied = 0;
    }
    if (!op->n_operands && op_flag(op, A_WRITTEN)) y->unwritten = false;
    if (!op->n_results || younger >= y->n_flight) return;
    memmove(y->flight, y->flight + y->n_flight - younger, sizeof *y->flight * (size_t)younger);
    y->n_flight = younger;
}

static void store_to_buf(Sync *y, const Op *op) {
    const Value *buf = buf_of_view(operand(op, 0));
    SharedStore *s = store_of(y, buf);
    if (s->read) fail_schedule(y, op, "others may still read the buffer");
    for (int i = 0; i < y->n_flight; i++)
        if (y->flight[i].bufs[0] == buf || y->flight[i].bufs[1] == buf)
            fail_schedule(y, op, "a product that reads the buffer is under way");
    *s = (SharedStore){.buf = buf, .dirty = true};
}

/// Checks a copy out through panels of an item: no product reads the item any more, each warp
/// overwrites rows that only its own products have read, and no panel is used twice.
static void copy_item_out(Sync *y, const Op *op, const Value *buf) {
    const Number *n = map_get(&y->item_of, buf);
    RingItem *item = n ? &track_of(y, operand(buf->def, 0))->items.data[n->n] : NULL;
    if (!item || item->released) fail_schedule(y, op, "it goes through an item that is not there");
    for (int i = 0; i < y->n_flight; i++)
        if (y->flight[i].bufs[0] == buf || y->flight[i].bufs[1] == buf)
            fail_schedule(y, op, "a product that reads the item is under way");
    if (!is_read_by_same_warps(buf, operand(op, 2)->type->layout))
        fail_schedule(y, op, "other warps may still read the item");
    const Type *view = operand(op, 1)->type;
    int64_t panel = view->swizzle / (elem_info[view->elem].bits / 8);
    int64_t first = op_ints(operand(op, 1)->def, A_START)->ints[view->inner] / panel;
    uint64_t panels = low_bits((int)(view->extents[view->inner] / panel)) << first;
    if (item->copied & panels) fail_schedule(y, op, "its panel may still have to be read");
    item->copied |= panels;
    item->overwritten = true;
    y->copies_out++;
    y->unread = true;
    y->unwritten |= op_flag(op, A_ADD);
}

/// Checks that the buffer is only copied out, and that the previous copy out of it has been read.
static void copy_buf_out(Sync *y, const Op *op) {
    const Value *buf = operand(op, 1), *item = buf_of_view(buf);
    if (item != buf && def_of((Value *)item, OP_RING_WAIT)) {
        copy_item_out(y, op, item);
        return;
    }
    const Number *last = map_get(&y->copied, buf);
    if (!def_of((Value *)buf, OP_BUF_ALLOC)) fail_schedule(y, op, "not out of a buffer of its own");
    for_each_use(u, buf) {
        if (u->user->code != OP_COPYOUT_TMA) fail_schedule(y, op, "others use the buffer, too");
    }
    if (last &&
        (!op_attr(op, ATTR_IN_FLIGHT) || y->copies_out - last->n - 1 < op_int(op, A_IN_FLIGHT, 0)))
        fail_schedule(y, op, "its buffer may still have to be read");
    Number *number = ctx_new(y->s.ctx, Number);
    number->n = y->copies_out++;
    map_set(y->s.ctx, &y->copied, buf, number);
    y->unread = true;
    y->unwritten |= op_flag(op, A_ADD);
}

static void fence_stores(Sync *y) {
    for (int i = 0; i < y->stores.n; i++) y->stores.data[i].fenced = true;
}

static void meet_at_barrier(Sync *y) {
    for (int i = 0; i < y->stores.n; i++) {
        y->stores.data[i].met = true;
        y->stores.data[i].dirty = y->stores.data[i].read = false;
    }
}

/* ---- walking ------------------------------------------------------------------------------- */

static void walk_schedule(Sync *y, Region *r);

static bool holds_loop(const Region *r) {
    for_each_op(op, r) {
        if (op_is_loop(op)) return true;
        for (int i = 0; i < op->n_regions; i++)
            if (holds_loop(op->regions[i])) return true;
    }
    return false;
}

/// Whether the region itself takes items of a ring. Then the walk must reuse all slots.
static bool takes_items(const Region *r) {
    for_each_op(op, r) {
        if (op->code == OP_RING_WAIT || op->code == OP_RING_ACQUIRE) return true;
        for (int i = 0; i < op->n_regions && op->code == OP_IF; i++)
            if (takes_items(op->regions[i])) return true;
    }
    return false;
}

/// Lets value `to` have the number of `from`, or none.
static void pass_number_on(Sync *y, const Value *from, const Value *to) {
    int64_t n;
    send_signals_pass(&y->sending, from, to);
    if (find_number(y, from, &n))
        know_number(y, to, n);
    else
        map_set(y->s.ctx, &y->known, to, NULL);
}

static bool uses_rings(const Region *r) {
    for_each_op(op, r) {
        for (int i = 0; i < op->n_operands; i++)
            if (operand(op, i)->type->kind == TK_RING) return true;
        for (int i = 0; i < op->n_regions; i++)
            if (uses_rings(op->regions[i])) return true;
    }
    return false;
}

/// Assumes v = n from here on. If the number of a role's items depends on v, all roles must know v.
static void suppose_number(Sync *y, const Op *op, const Value *v, int64_t n) {
    know_number(y, v, n);
    if (!y->meeting) return;
    if (y->first_role)
        meeting_assume(y->meeting, v, turn_of(y, v), n);
    else if (uses_rings(op->regions[0]) || uses_rings(op->regions[op->n_regions - 1]))
        fail_schedule(y, op, "a role's items depend on values that other roles do not have");
}

/// Finds the bounds. Unknown bounds are chosen so that the loop has iterations; `usual` of them use
/// all slots. Without roles, bounds that give no iteration are replaced, too, except for constants,
/// since other ops use them.
static bool find_loop_bounds(Sync *y, const Op *op, int usual, int64_t *lo, int64_t *hi) {
    int64_t fixed, step = op_int(op, A_STEP, 1), all = usual * step;
    if (!find_number(y, operand(op, 0), lo)) suppose_number(y, op, operand(op, 0), *lo = 0);
    if (find_number(y, operand(op, 1), hi) && (*hi > *lo || y->meeting)) return *hi > *lo;
    if (y->meeting) {
        suppose_number(y, op, operand(op, 1), *hi = *lo + trips_of(y, op, usual) * step);
        return *hi > *lo;
    }
    if (!const_int(operand(op, 1), &fixed))
        know_number(y, operand(op, 1), *hi = *lo + all);
    else if (!const_int(operand(op, 0), &fixed))
        know_number(y, operand(op, 0), *lo = *hi - all);
    return *hi > *lo;
}

/// Walks the loop with carried numbers. A long loop walks its first and last iterations: every
/// distance between a middle iteration and a later op also occurs in the first one.
static void walk_for(Sync *y, Op *op) {
    Region *r = op->regions[0];
    int64_t step = op_int(op, A_STEP, 1), lo = 0, hi = 0;
    int64_t trips = holds_loop(r) && !takes_items(r) ? OUTER_TRIPS : INNER_TRIPS;
    if (!find_loop_bounds(y, op, (int)trips, &lo, &hi)) hi = lo;
    if (y->meeting) trips = INT32_MAX; // roles must agree on the iterations, so none are skipped
    int64_t more = ceil_div(hi - lo, step) - trips, skipped = more > 0 ? more * step : 0;
    begin_turns(y, op);
    for (int i = 0; i < op->n_results; i++) pass_number_on(y, operand(op, 2 + i), r->args[1 + i]);
    for (int64_t k = lo; k < hi; k += step, end_turn(y)) {
        know_number(y, r->args[0], k);
        y->sending.tile += op_flag(op, A_PROGRAM_LOOP);
        walk_schedule(y, r);
        for (int i = 0; i < op->n_results; i++)
            pass_number_on(y, operand(r->last, i), r->args[1 + i]);
        if (k == lo) k += skipped;
    }
    y->depth--;
    for (int i = 0; i < op->n_results; i++) pass_number_on(y, r->args[1 + i], result(op, i));
}

static void walk_while(Sync *y, Op *op) {
    Region *test = op->regions[0], *body = op->regions[1];
    int trips = op_flag(op, A_PROGRAM_LOOP) ? trips_of(y, op, INNER_TRIPS) : OUTER_TRIPS;
    if (y->meeting && !meeting_goes_on(y->meeting, op))
        fail_schedule(y, op, "a role goes on with other tiles than the others");
    for (int i = 0; i < op->n_results; i++) pass_number_on(y, operand(op, i), test->args[i]);
    begin_turns(y, op);
    for (int trip = 0; trip < trips; trip++, end_turn(y)) {
        y->sending.tile += op_flag(op, A_PROGRAM_LOOP);
        walk_schedule(y, test);
        for (int i = 0; i < op->n_results; i++) pass_number_on(y, test->args[i], body->args[i]);
        walk_schedule(y, body);
        for (int i = 0; i < op->n_results; i++)
            pass_number_on(y, operand(body->last, i), test->args[i]);
    }
    y->depth--;
    for (int i = 0; i < op->n_results; i++) pass_number_on(y, test->args[i], result(op, i));
}

/// Whether to assume that an unknown condition holds.
static bool is_taken(Sync *y) {
    return y->uneven ? y->supposed++ % 2 : y->trips != 1;
}

/// In a role, walks the branch that is taken, or assumed to be. Conditions that decide about items
/// are the same for all roles.
static void walk_branch(Sync *y, Op *op) {
    int64_t yes;
    bool known = find_number(y, operand(op, 0), &yes);
    bool rings = uses_rings(op->regions[0]) || uses_rings(op->regions[1]);
    if (!known && rings) suppose_number(y, op, operand(op, 0), yes = is_taken(y));
    for (int i = 0; i < 2; i++)
        if (!(known || rings) || (yes ? 0 : 1) == i) walk_schedule(y, op->regions[i]);
    const Region *taken = op->regions[(known || rings) && !yes];
    for (int i = 0; i < op->n_results; i++)
        pass_number_on(y, operand(taken->last, i), result(op, i));
}

/// Walks both branches, one after the other, since they use different rings. Numbering continues
/// from the branch that made more items.
static void walk_if(Sync *y, Op *op) {
    if (y->meeting) {
        walk_branch(y, op);
        return;
    }
    for (int i = 0; i < op->n_regions; i++) walk_schedule(y, op->regions[i]);
    for (int i = 0; i < op->n_results; i++) {
        int64_t a, b;
        const Value *yes = operand(op->regions[0]->last, i), *no = operand(op->regions[1]->last, i);
        bool more = find_number(y, yes, &a) && find_number(y, no, &b) && b > a;
        pass_number_on(y, more ? no : yes, result(op, i));
    }
}

static void commit_item(Sync *y, Op *op) {
    int64_t n;
    RingItem *item = is_on(y, op) ? item_of(y, op, &n) : NULL;
    if (item) item->committed = true, item->group = y->groups;
    if (item && y->meeting) meeting_event(y->meeting, op, n);
    y->groups += !ring_is_tma(operand(op, 0));
}

/// Keeps the releases that an acquire `slots` items later waits for.
static void need_releases(Sync *y) {
    for (int i = 0; i < y->tracks.n; i++) {
        const Track *t = &y->tracks.data[i];
        for (int n = t->ring->type->slots; n < t->items.n; n++) {
            Op *released = t->items.data[n - t->ring->type->slots].released;
            if (t->items.data[n].acquired && released)
                map_set(y->s.ctx, &y->needed, released, released);
        }
    }
}

/// Lets the next role read all items.
static void forget_reads(Sync *y) {
    for (int i = 0; i < y->tracks.n; i++)
        for (int n = 0; n < y->tracks.data[i].items.n; n++) {
            y->tracks.data[i].items.data[n].here = false;
            y->tracks.data[i].items.data[n].released = NULL;
        }
}

/// Walks each role, then runs the ring operations of all roles together.
static void walk_roles(Sync *y, Op *op) {
    y->meeting = meeting_begin(y->s.ctx, op);
    for (int i = op->n_regions - 1; i >= 0; i--) { // roles that fill rings come after roles that
                                                   // read them
        y->first_role = i == op->n_regions - 1;
        y->supposed = 0;
        meeting_enter(y->meeting, i);
        forget_reads(y);
        walk_schedule(y, op->regions[i]);
        if (y->n_flight) fail_schedule(y, op, "a role ends while a product is under way");
        need_releases(y);
    }
    Blocked b = meeting_run(y->meeting);
    if (b.op) fail_schedule(y, b.op, b.why);
}

static void visit_scheduled_op(Sync *y, Op *op) {
    send_signals_visit(&y->sending, op);
    switch (op->code) {
    case OP_FOR: walk_for(y, op); return;
    case OP_WHILE: walk_while(y, op); return;
    case OP_IF: walk_if(y, op); return;
    case OP_ROLES: walk_roles(y, op); return;
    case OP_RING_ACQUIRE: acquire_item(y, op); return;
    case OP_RING_COMMIT: commit_item(y, op); return;
    case OP_RING_WAIT: wait_for_item(y, op); return;
    case OP_RING_RELEASE: release_item(y, op); return;
    case OP_MMA_START: start_mma(y, op); return;
    case OP_AWAIT: await_products(y, op); return;
    case OP_BUF_LOAD: read_buf(y, op, operand(op, 0), false); return;
    case OP_BUF_STORE: store_to_buf(y, op); return;
    case OP_COPYOUT_TMA: copy_buf_out(y, op); return;
    case OP_FENCE: fence_stores(y); return;
    case OP_BARRIER: meet_at_barrier(y); return;
    default: compute_number(y, op);
    }
    for (int i = 0; i < op->n_regions && !op_has(op, PURE); i++) walk_schedule(y, op->regions[i]);
}

static void walk_schedule(Sync *y, Region *r) {
    for_each_op(op, r) {
        if (++y->steps > MAX_STEPS) return;
        if (op == y->anew) all_copied(y, op);
        visit_scheduled_op(y, op);
    }
}

/* ---- the proof ----------------------------------------------------------------------------- */

static void drop_release(Op *op, void *arg) {
    Sync *y = arg;
    if (op->code == OP_RING_RELEASE && !map_get(&y->needed, op)) op_erase(op);
}

static void mark_free(Op *op, void *arg) {
    const Sync *y = arg;
    int64_t n;
    if (op->code != OP_RING_ACQUIRE) return;
    bool fresh = const_int(operand(op, 1), &n) && n < operand(op, 0)->type->slots;
    if (fresh || ends_with_products(y, operand(op, 0)))
        op_set_flag(y->s.ir, op, A_KNOWN_FREE, true);
}

/// Names the mechanism that orders the reads of an item before the next item in its slot.
static const char *reuse_of(const Track *t) {
    bool reused = false, released = false;
    for (int i = t->ring->type->slots; i < t->items.n; i++) reused |= t->items.data[i].acquired;
    for_each_use(u, t->ring) released |= u->user->code == OP_RING_RELEASE;
    if (!reused) return "never filled again";
    if (!ring_is_tma(t->ring)) return "barrier of the next item";
    return released ? "mbarrier free" : "await of the products";
}

static const char *ring_line(Sync *y, int i) {
    const Track *t = &y->tracks.data[i];
    return ctx_format(y->s.ctx, "ring %d: filled before read: %s; read before filled again: %s", i,
                      ring_is_tma(t->ring) ? "mbarrier full" : "own copies, barrier", reuse_of(t));
}

static void note_proof(Sync *y) {
    VEC(const char *) lines = {0};
    for (int i = 0; i < y->tracks.n; i++) vec_push(y->s.ctx, &lines, ring_line(y, i));
    for (int i = 0; i < y->stores.n; i++)
        vec_push(y->s.ctx, &lines,
                 ctx_format(y->s.ctx,
                            "buffer %d: stored before read: fence, barrier; read before "
                            "stored again: await, barrier",
                            i));
    if (y->meeting) vec_push(y->s.ctx, &lines, meeting_line(y->meeting));
    if (y->copies_out)
        vec_push(y->s.ctx, &lines,
                 "copies out: written before copied: fence, warp; copied before written again: "
                 "their wait, warp");
    if (y->sending.signals && !y->sending.not_in_order)
        vec_push(
            y->s.ctx, &lines,
            "parts sent: there before their signal: wait of the copies, barrier; each signalled "
            "before the next is sent or the program ends");
    if (lines.n) op_set_strs(y->s.ir, y->s.device, A_SYNC_NOTES, lines.data, lines.n);
}

static Sync begin_sync(PassEnv *env, Op *module, Op *device) {
    Sync y = {.s = {.env = env, .ir = env->ir, .ctx = ir_ctx(env->ir), .device = device},
              .trips = ALL_SLOTS};
    send_signals_begin(&y.sending, y.s.ctx, module, device);
    return y;
}

/// Walks a device with roles again for other numbers of iterations: none and a few, equal in all
/// tiles, and then different from tile to tile.
static void try_trips(PassEnv *env, Op *module, Op *device) {
    for (int i = 0; i < 2 * (FEW_TRIPS + 1) && device_roles(device); i++) {
        Sync y = begin_sync(env, module, device);
        y.trips = i / 2;
        y.uneven = i % 2;
        walk_schedule(&y, device->regions[0]);
    }
}

void pass_sync(PassEnv *env, Op *module) {
    if (!env->gpu) return;
    for_each_op(op, module->regions[0]) {
        if (op->code != OP_DEVICE || !shared_in_use(op)) continue;
        try_trips(env, module, op);
        Sync y = begin_sync(env, module, op);
        walk_schedule(&y, op->regions[0]);
        if (y.unread) fail_schedule(&y, op, "it ends before the copied-out data has been read");
        if (y.unwritten) fail_schedule(&y, op, "it ends before its additions are complete");
        if (y.sending.lost)
            fail_schedule(&y, y.sending.lost, "the previous tile has sent data without a signal");
        if (y.sending.signals && y.sending.sent)
            fail_schedule(&y, y.sending.sent,
                          "the program ends before a signal for the data that it sends");
        op_walk_post(op, drop_release, &y);
        op_walk_post(op, mark_free, &y);
        note_proof(&y);
    }
}
