// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// schedule: starts copies some iterations ahead, and lets the products of one iteration run into
// the next.
//
//   for %k { acquire %n; copy; commit %n; %A = wait %n; %p = mma_start %A, %acc; %d = await %p;
//            release %n; yield %d }
//   -> acquire 0; copy; commit 0; ... D of them
//      for %k { %A = wait %n; %p = mma_start %A, %acc; %q = await %p [in_flight=1]; release %n - 1;
//               acquire %n + D; copy; commit %n + D; yield %q }
//      await; release
//
// Copies have no results, so they run ahead without copies of the rest of the body. They are
// switched off if their item does not exist. The ring gets as many slots as fit, at most `stages`.
// If an extra warp copies (roles.c), its copies stay in place: it runs ahead as far as slots are
// free.
#include "passes/gpu/async/async.h"

#include "passes/passes.h"

/// One ring of a loop.
typedef struct Flow {
    Op *loop, *make, *acquire, *commit, *wait, *release;
    Value *number; // of the item, in the loop
    int number_slot;
    bool held; // a product that runs into the next iteration reads its buffers
    int ahead;
} Flow;

typedef struct Schedule {
    Async s;
    VEC(Flow) flows;
    int64_t temporary; // maximum bytes of temporary shared memory for one op
    Op *moved;         // after a loop: the op with the waits for the next tile's signals
    bool roles;        // an extra warp copies, and runs ahead by itself
} Schedule;

/* ---- finding ------------------------------------------------------------------------------- */

static bool is_tma_flow(const Flow *f) {
    return ring_is_tma(result(f->make, 0));
}

static void collect_flow(Op *op, void *arg) {
    Schedule *s = arg;
    if (op->code != OP_RING_MAKE) return;
    Value *ring = result(op, 0);
    Flow f = {.make = op,
              .acquire = value_user(ring, OP_RING_ACQUIRE),
              .commit = value_user(ring, OP_RING_COMMIT),
              .wait = value_user(ring, OP_RING_WAIT),
              .release = value_user(ring, OP_RING_RELEASE)};
    const Op *user = s->roles ? f.wait : f.acquire;
    if (!f.acquire || !f.wait || user->parent->parent->code != OP_FOR) return;
    f.loop = user->parent->parent;
    f.number = operand(user, 1);
    if (f.number->def || f.number->region->parent != f.loop) return;
    f.number_slot = f.number->index - 1;
    vec_push(s->s.ctx, &s->flows, f);
}

/// Sorts the flows of one loop by the order of their waits.
static void order_flows(Schedule *s) {
    Flow *f = s->flows.data;
    for (int i = 1; i < s->flows.n; i++)
        for (int k = i; k > 0 && f[k].loop == f[k - 1].loop && op_before(f[k].wait, f[k - 1].wait);
             k--) {
            Flow other = f[k];
            f[k] = f[k - 1];
            f[k - 1] = other;
        }
}

/* ---- products across iterations ------------------------------------------------------------ */

/// Whether the product's operands stay unchanged until the next iteration: they are slots of rings,
/// or buffers that the loop does not store. Operands in registers do not stay. A product in chains
/// is complete once it has been started.
static bool keeps_operands(const Op *loop, const Op *start) {
    if (op_attr(start, ATTR_PARTIAL_SUM_K)) return false;
    for (int i = 0; i < 2; i++) {
        Value *buf = operand(start, i);
        while (buf->def && buf->def->code == OP_BUF_VIEW) buf = operand(buf->def, 0);
        if (buf->type->kind != TK_BUF || !buf->def) return false;
        for_each_use(u, buf) {
            if (u->user->code == OP_BUF_STORE && op_is_inside(u->user, loop)) return false;
        }
    }
    return true;
}

/// Returns the await of a chain of products that runs on in the next iteration: its block has no
/// use but as carried value i, and the chain's first product adds to that value. NULL: there is
/// none.
static Op *running_product(const Op *loop, int i) {
    Value *arg = loop_arg(loop, 0, i);
    Op *await = def_of(operand(terminator(loop->regions[0]), i), OP_AWAIT);
    if (!await || await->parent != loop->regions[0] || await->n_results != 1 ||
        !value_has_one_use(result(await, 0)) || !value_has_one_use(arg))
        return NULL;
    const Op *first = arg->uses->user;
    const Value *sum = operand(await, 0);
    while (sum != arg && sum->def && sum->def->code == OP_MMA_START) {
        if (!keeps_operands(loop, sum->def)) return NULL;
        sum = operand(sum->def, 2);
    }
    return sum == arg && first->code == OP_MMA_START && arg->uses->index == 2 ? await : NULL;
}

static Value *build_settled(Schedule *s, Builder *b, Value *v) {
    const Type *type = ty_pending(s->s.ir, v->type);
    return result(build_op(b, OP_SETTLED, 1, &v, 1, &type, 0), 0);
}

/// Keeps carried value i pending: inside the loop, the await waits only for the previous iteration.
static void keep_pending(Schedule *s, Op *loop, int i, Op *await) {
    Ir *ir = s->s.ir;
    const Type *block = result(await, 0)->type, *pending = ty_pending(ir, block);
    Builder before = build_before(ir, loop), after = build_after(ir, loop);
    op_set_operand(loop, 2 + i, build_settled(s, &before, operand(loop, 2 + i)));
    loop_arg(loop, 0, i)->type = pending;
    result(await, 0)->type = pending;
    op_set_int(ir, await, A_IN_FLIGHT, 1);
    Value *out = result(loop, i);
    out->type = pending;
    Op *end = build_op(&after, OP_AWAIT, 1, &out, 1, &block, 0);
    for (Use *u = out->uses, *next; u; u = next) {
        next = u->next;
        if (u->user != end) op_set_operand(u->user, u->index, result(end, 0));
    }
}

static bool in_chain(const Op *start, const Op *await) {
    const Value *sum = operand(await, 0);
    while (sum->def && sum->def != start && sum->def->code == OP_MMA_START)
        sum = operand(sum->def, 2);
    return sum->def == start;
}

/// Counts the readers of a buffer: products of the chain that ends in `await`, and others.
static void count_buffer_readers(const Value *buf, const Op *await, int *own, int *others) {
    for_each_use(u, buf) {
        const Op *op = u->user;
        if (op->code == OP_BUF_VIEW)
            count_buffer_readers(result(op, 0), await, own, others);
        else if (op->code == OP_MMA_START && in_chain(op, await))
            ++*own;
        else if (op->code != OP_BUF_PAD) // buf_pad precedes all readers
            ++*others;
    }
}

/// Whether the flow feeds the chain. *alone: it feeds nothing else.
static bool feeds_chain(const Flow *f, const Op *await, bool *alone) {
    int own = 0, others = 0;
    for (int r = 0; r < f->wait->n_results; r++)
        count_buffer_readers(result(f->wait, r), await, &own, &others);
    *alone = others == 0;
    return own > 0;
}

/// Moves the releases of items that the chain of `end` reads after its end.
static void release_behind(const Op *first, Op *end) {
    for (Op *op = first->next, *next; op && op != end; op = next) {
        next = op->next;
        if (op->code != OP_RING_RELEASE) continue;
        Flow f = {.wait = value_user(operand(op, 0), OP_RING_WAIT)};
        bool alone;
        if (f.wait && feeds_chain(&f, end, &alone)) op_move_before(op, end->next);
    }
}

/// %d = await %p; mma_start ..., %d  ->  mma_start ..., %p: sums of one chain stay pending.
static void chain_products(Op *op, void *arg) {
    (void)arg;
    if (op->code != OP_MMA_START || op_attr(op, ATTR_PARTIAL_SUM_K)) return;
    Op *await = def_of(operand(op, 2), OP_AWAIT);
    if (!await || await->n_results != 1 || !value_has_one_use(result(await, 0))) return;
    Op *first = operand(await, 0)->def;
    if (!first || first->code != OP_MMA_START || first->parent != op->parent ||
        op_attr(first, ATTR_PARTIAL_SUM_K))
        return;
    op_set_operand(op, 2, operand(await, 0));
    op_erase(await);
    release_behind(first, result(op, 0)->uses->user);
}

/// Whether the items that the chain reads can be released an iteration later.
static bool may_run_on(const Schedule *s, const Op *loop, const Op *await) {
    for (int k = 0; k < s->flows.n; k++) {
        const Flow *f = &s->flows.data[k];
        bool alone;
        if (f->loop == loop && feeds_chain(f, await, &alone) &&
            (!alone || f->ahead < 1 || !f->release || f->release->parent != loop->regions[0]))
            return false;
    }
    return true;
}

/// Moves the release of item n after the wait for its product, in the next iteration.
static void hold_item(Schedule *s, Flow *f, Op *await) {
    Ir *ir = s->s.ir;
    Builder b = build_after(ir, await), after = build_after(ir, f->loop);
    while (after.before && after.before->code == OP_AWAIT) after.before = after.before->next;
    Value *ring = operand(f->release, 0), *k = f->loop->regions[0]->args[0];
    Value *lo = operand(f->loop, 0), *hi = operand(f->loop, 1);
    Value *earlier = build_binary(&b, OP_SUB, f->number, build_index(&b, 1));
    Value *item[] = {ring, earlier, build_binary(&b, OP_GT, k, lo)};
    build_op(&b, OP_RING_RELEASE, 3, item, 0, NULL, 0);
    Value *count = result(f->loop, f->number_slot);
    Value *last[] = {ring, build_binary(&after, OP_SUB, count, build_index(&after, 1)),
                     build_binary(&after, OP_GT, hi, lo)};
    build_op(&after, OP_RING_RELEASE, 3, last, 0, NULL, 0);
    op_erase(f->release);
    f->held = true;
}

static void run_on(Schedule *s, Op *loop) {
    for (int i = 0; i < loop->n_results; i++) {
        Op *await = running_product(loop, i);
        if (!await || !may_run_on(s, loop, await)) continue;
        keep_pending(s, loop, i, await);
        for (int k = 0; k < s->flows.n; k++) {
            Flow *f = &s->flows.data[k];
            bool alone;
            if (f->loop == loop && feeds_chain(f, await, &alone)) hold_item(s, f, await);
        }
    }
}

/* ---- slots --------------------------------------------------------------------------------- */

static int64_t larger_of(int64_t a, int64_t b) {
    return a > b ? a : b;
}

/// Whether a tile takes one item of the ring. One slot suffices, but then the next tile's copies
/// start only when this tile ends.
static bool is_of_tile(const Schedule *s, const Flow *f) {
    return s->roles && op_flag(f->loop, A_PROGRAM_LOOP);
}

/// Returns the slots of the loops' rings: as many as fit, the same for all.
static int choose_slots(Schedule *s) {
    int64_t fixed = shared_in_use(s->s.device), each = 0;
    Op *last = last_shared_use(s->s.device);
    for_each_op(op, s->s.device->regions[0]) {
        s->temporary = larger_of(s->temporary, lowering_bytes(s->s.ctx, op, NULL));
        if (op == last) break;
    }
    for (int i = 0; i < s->flows.n; i++) {
        if (!is_of_tile(s, &s->flows.data[i]))
            each += ring_bytes(result(s->flows.data[i].make, 0)->type);
    }
    GpuShape shape = gpu_shape_of(s->s.target, s->s.device);
    int64_t other = s->temporary + SHARED_SLACK + fixed - each;
    bool alone = s->s.env->stages > 0 || s->roles;
    int64_t room = gpu_ring_room(s->s.target, &shape, alone, each, other);
    int most = s->s.env->stages ? s->s.env->stages : GPU_RING_SLOTS;
    if (most > RING_SLOTS) most = RING_SLOTS;
    if (each > 0 && each * most > room) most = (int)(room / each);
    return most < 1 ? 1 : most;
}

static const Flow *flow_of(const Schedule *s, const Op *make) {
    for (int i = 0; i < s->flows.n; i++)
        if (s->flows.data[i].make == make) return &s->flows.data[i];
    return NULL;
}

/// Bytes of shared memory of a device with roles, all live at once. slots: of rings with several
/// items a tile; tile_slots: of rings with one item a tile.
static int64_t bytes_with(const Schedule *s, int slots, int tile_slots) {
    int64_t all = s->temporary;
    for_each_op(op, s->s.device->regions[0]) {
        if (op->code == OP_BUF_ALLOC) all += shared_room(buf_bytes(result(op, 0)->type));
        if (op->code != OP_RING_MAKE) continue;
        const Flow *f = flow_of(s, op);
        const Type *ring = result(op, 0)->type;
        int n = !f ? ring->slots : is_of_tile(s, f) ? tile_slots : slots;
        all += shared_room(ring_bytes(ty_ring(s->s.ir, n, ring->n_parts, ring->parts)));
    }
    return all;
}

/// Returns the slots of rings with one item a tile. A second slot lets copies run ahead over the
/// end of a tile, which is worth more than a third slot of the other rings.
static int choose_tile_slots(const Schedule *s, int *slots) {
    bool any = false;
    int n = *slots;
    for (int i = 0; i < s->flows.n; i++) any |= is_of_tile(s, &s->flows.data[i]);
    while (n > 2 && bytes_with(s, n, 2) > s->s.target->shared_cta) n--;
    if (!any || bytes_with(s, n, 2) > s->s.target->shared_cta) return 1;
    *slots = n;
    return 2;
}

static void set_slots(Schedule *s, Flow *f, int slots) {
    Value *ring = result(f->make, 0);
    ring->type = ty_ring(s->s.ir, slots, ring->type->n_parts, ring->type->parts);
}

/* ---- copies ahead -------------------------------------------------------------------------- */

/// Collects the ops from acquire to commit, in order.
static int fill_ops(const Flow *f, Op **out, int room) {
    int n = 0;
    for (Op *op = f->acquire; n < room; op = op->next) {
        bool copy = op->code == OP_COPY_TMA || op->code == OP_COPY_ASYNC;
        if (copy || op == f->acquire || op == f->commit) out[n++] = op;
        if (op == f->commit) return n;
    }
    return n;
}

enum { MAX_FILL = 2 + MAX_RANK };

/// Whether an item can be copied elsewhere in `root`: its coordinates depend only on the loop's
/// index, on `other` (may be NULL), and on values that root does not change.
static bool is_movable_in(Schedule *s, const Flow *f, const Op *root, Value *other) {
    Op *ops[MAX_FILL];
    PtrMap known = {0};
    int n = fill_ops(f, ops, MAX_FILL);
    Value *k = f->loop->regions[0]->args[0];
    map_set(s->s.ctx, &known, k, k);
    map_set(s->s.ctx, &known, f->number, f->number);
    if (other) map_set(s->s.ctx, &known, other, other);
    for (int i = 0; i < n; i++)
        for (int r = 0; r < ops[i]->n_results; r++)
            map_set(s->s.ctx, &known, result(ops[i], r), result(ops[i], r));
    for (int i = 0; i < n; i++)
        for (int o = 0; o < ops[i]->n_operands; o++)
            if (!slice_is_movable(operand(ops[i], o), root, &known)) return false;
    return slice_is_movable(operand(f->loop, 0), root, &known) &&
           slice_is_movable(operand(f->loop, 1), root, &known);
}

static bool is_movable_flow(Schedule *s, const Flow *f) {
    return s->roles || is_movable_in(s, f, f->loop, NULL);
}

/// A place outside of a loop, at b, where items of the loop are copied early. They belong to the
/// run of the loop in which `tile`, the index of the enclosing loop, has the value `at`. tile NULL:
/// they belong to the current run.
typedef struct Elsewhere {
    Builder *b;
    const Op *root;
    Value *tile, *at;
} Elsewhere;

/// Like clone_slice, for an iteration that may not exist. Its loads of scalars may lie outside
/// their tensors, so the clones lose the proof of the contrary.
static Value *slice_there(const Elsewhere *e, Value *v, PtrMap *map) {
    Value *copy = map_get(map, v);
    if (copy || !value_is_inside(v, e->root)) return copy ? copy : v;
    for (int i = 0; i < v->def->n_operands; i++) slice_there(e, operand(v->def, i), map);
    Op *op = op_clone(e->b, v->def, map);
    if (op->code == OP_LOAD) op_set_ints(e->b->ir, op, A_IN_BOUNDS, NULL, 0);
    return map_get(map, v);
}

/// Clones the fill for item `number` at index k, switched on by `on`.
static void clone_fill(Schedule *s, const Flow *f, const Elsewhere *e, Value *k, Value *number,
                       Value *on) {
    Op *ops[MAX_FILL];
    Ctx *ctx = s->s.ctx;
    PtrMap map = {0};
    int n = fill_ops(f, ops, MAX_FILL);
    if (e->tile) map_set(ctx, &map, e->tile, e->at);
    map_set(ctx, &map, f->loop->regions[0]->args[0], k);
    map_set(ctx, &map, f->number, number);
    for (int i = 0; i < n; i++)
        for (int o = 0; o < ops[i]->n_operands; o++) {
            Value *v = operand(ops[i], o);
            bool made = false;
            for (int j = 0; j < n; j++) made |= v->def == ops[j];
            if (!made) map_set(ctx, &map, v, slice_there(e, v, &map));
        }
    map_set(ctx, &map, operand(f->acquire, 2), on);
    for (int i = 0; i < n; i++) op_clone(e->b, ops[i], &map);
}

static void erase_fill(const Flow *f) {
    Op *ops[MAX_FILL];
    for (int n = fill_ops(f, ops, MAX_FILL); n > 0; n--) op_erase(ops[n - 1]);
}

/// Builds item i of a run of the loop, counted from `first`. on (NULL: always): whether the run
/// exists.
static void fill_item(Schedule *s, const Flow *f, const Elsewhere *e, int i, Value *first,
                      Value *on) {
    Builder *b = e->b;
    PtrMap map = {0};
    if (e->tile) map_set(s->s.ctx, &map, e->tile, e->at);
    Value *lo = slice_there(e, operand(f->loop, 0), &map);
    Value *hi = slice_there(e, operand(f->loop, 1), &map);
    Value *k = ix_add(b, lo, build_index(b, i * op_int(f->loop, A_STEP, 1)));
    Value *number = ix_add(b, first, build_index(b, i));
    Value *there = build_binary(b, OP_LT, k, hi);
    if (on) there = build_binary(b, OP_AND, on, there);
    clone_fill(s, f, e, k, number, there);
}

/* ---- waits of tiles ------------------------------------------------------------------------ */

// A tile's waits for signals precede its first copies, so they move along with these.

/// Whether the wait may move to an earlier iteration of `outer`: its operands can be computed
/// there, and its word is set only once.
static bool wait_is_movable(Schedule *s, const Op *wait, const Op *outer) {
    PtrMap known = {0};
    Value *tile = outer->regions[0]->args[0];
    map_set(s->s.ctx, &known, tile, tile);
    for (int i = 0; i < wait->n_operands; i++)
        if (!slice_is_movable(operand(wait, i), outer, &known)) return false;
    return op_flag(wait, A_SET_ONCE);
}

static bool waits_are_movable(Schedule *s, const Op *outer, const Op *loop) {
    for_each_op(op, outer->regions[0]) {
        bool first = op->code == OP_SIGNAL_WAIT && op_before(op, loop);
        if (first ? !wait_is_movable(s, op, outer) : tree_waits(op)) return false;
    }
    return true;
}

/// Builds an empty `if`. *in builds inside its first region.
static Op *open_if(Builder *b, Value *c, Builder *in) {
    Op *op = build_op(b, OP_IF, 1, &c, 0, NULL, 2);
    *in = build_at_end(b->ir, op->regions[1], b->loc);
    build_yield(in, 0, NULL);
    *in = build_at_end(b->ir, op->regions[0], b->loc);
    return op;
}

/// Clones the waits of the next tile after b, if there is `more`. The original waits then run in
/// the first tile only.
static void move_waits(Schedule *s, Builder *b, Op *outer, const Op *loop, Value *next,
                       Value *more) {
    Ir *ir = s->s.ir;
    VEC(Op *) waits = {0};
    Value *tile = outer->regions[0]->args[0];
    for_each_op(op, outer->regions[0]) {
        if (op->code == OP_SIGNAL_WAIT && op_before(op, loop)) vec_push(s->s.ctx, &waits, op);
    }
    if (!waits.n) return;
    Builder here = build_before(ir, waits.data[waits.n - 1]), then, again;
    s->moved = open_if(b, more, &then);
    open_if(&here, build_binary(&here, OP_EQ, tile, operand(outer, 0)), &again);
    PtrMap map = {0};
    map_set(s->s.ctx, &map, tile, next);
    for (int i = 0; i < waits.n; i++) {
        for (int k = 0; k < waits.data[i]->n_operands; k++)
            clone_slice(&then, operand(waits.data[i], k), outer, &map);
        op_clone(&then, waits.data[i], &map);
        op_move_to_end(waits.data[i], again.region);
    }
    build_yield(&then, 0, NULL);
    build_yield(&again, 0, NULL);
}

/// Returns the loop around the flow's loop, if the first items of its next run can be copied early;
/// else NULL.
static Op *outer_tile_loop(Schedule *s, const Flow *f) {
    Op *outer = f->loop->parent->parent;
    bool ready = outer->code == OP_FOR && f->held && is_tma_flow(f) &&
                 is_movable_in(s, f, outer, outer->regions[0]->args[0]);
    if (ready && s->moved && op_is_inside(s->moved, outer)) return outer;
    return ready && waits_are_movable(s, outer, f->loop) ? outer : NULL;
}

/// Copies the first items of the next tile after the loop, while this tile's results are stored.
/// The copies before the loop then run in the first tile only.
static void fill_next_tile(Schedule *s, const Flow *f, Op *outer) {
    Ir *ir = s->s.ir;
    Op *last = f->loop;
    for (Op *op = last->next; op->code == OP_AWAIT || op->code == OP_RING_RELEASE ||
                              (op_has(op, PURE) && ty_is_scalar(result(op, 0)->type));
         op = op->next)
        if (!op_has(op, PURE)) last = op;
    bool moved = s->moved && s->moved->parent == outer->regions[0];
    Builder b = build_after(ir, moved ? s->moved : last);
    Value *tile = outer->regions[0]->args[0];
    Value *next = ix_add(&b, tile, build_index(&b, op_int(outer, A_STEP, 1)));
    Value *more = build_binary(&b, OP_LT, next, operand(outer, 1));
    if (!moved) move_waits(s, &b, outer, f->loop, next, more);
    Elsewhere e = {&b, outer, tile, next};
    for (int i = 0; i < f->ahead; i++)
        fill_item(s, f, &e, i, result(f->loop, f->number_slot), more);
}

/// Builds item i before the loop, if it is one of the items copied there.
static void fill_before(Schedule *s, const Flow *f, int i) {
    Op *outer = outer_tile_loop(s, f);
    Builder before = build_before(s->s.ir, f->loop);
    Elsewhere e = {.b = &before, .root = f->loop};
    Value *on = NULL;
    if (i >= f->ahead) return;
    if (outer) on = build_binary(&before, OP_EQ, outer->regions[0]->args[0], operand(outer, 0));
    fill_item(s, f, &e, i, operand(f->loop, 2 + f->number_slot), on);
}

/// Builds the first items of all rings, in the order in which the loops wait for them.
static void fill_all_before(Schedule *s) {
    for (int i = 0; i < RING_SLOTS; i++)
        for (int k = 0; k < s->flows.n; k++) fill_before(s, &s->flows.data[k], i);
}

/// Makes each iteration copy the item `ahead` iterations later. If a product still reads the slot,
/// the copies stand after the wait for it, at the end of the iteration. Otherwise the slot is free
/// after the ring's wait, where all threads have met.
static void run_ahead(Schedule *s, Flow *f) {
    Ir *ir = s->s.ir;
    Op *loop = f->loop, *outer = outer_tile_loop(s, f);
    int64_t step = op_int(loop, A_STEP, 1);
    if (outer) fill_next_tile(s, f, outer);
    Builder in =
        f->held ? build_before(ir, terminator(loop->regions[0])) : build_after(ir, f->wait);
    Elsewhere e = {.b = &in, .root = loop};
    Value *k = ix_add(&in, loop->regions[0]->args[0], build_index(&in, f->ahead * step));
    Value *number = ix_add(&in, f->number, build_index(&in, f->ahead));
    clone_fill(s, f, &e, k, number, build_binary(&in, OP_LT, k, operand(loop, 1)));
    erase_fill(f);
}

/* ---- copies pending after waits ----------------------------------------------------------- */

// A wait is for all of a thread's copies except the last n groups, and the commits of all rings
// form groups. So n may be the number of groups that have certainly been committed after the item's
// own. Commits in branches and inner loops do not count.

static bool is_group(const Op *op) {
    return op->code == OP_RING_COMMIT && !ring_is_tma(operand(op, 0));
}

/// Counts the groups from `op` up to `end` (NULL: to the end of the region).
static int count_groups(const Op *op, const Op *end) {
    int n = 0;
    for (; op && op != end; op = op->next) n += is_group(op);
    return n;
}

static int smaller_of(int n, int most) {
    return n < most ? n : most;
}

/// Counts the groups after the first items, which are committed before the loop. Iteration i waits
/// for item i.
static int behind_first(const Flow *f) {
    const Region *body = f->loop->regions[0];
    int each = count_groups(body->first, NULL), least = RING_GROUPS, i = 0;
    for_each_op(op, f->loop->parent) {
        if (op == f->loop) break;
        if (!is_group(op) || operand(op, 0) != result(f->make, 0)) continue;
        least = smaller_of(count_groups(op->next, f->loop) + i++ * each, least);
    }
    return i == f->ahead ? least + count_groups(body->first, f->wait) : 0;
}

/// Counts the groups after an item that is committed in the loop, `ahead` iterations before its
/// wait.
static int behind_others(const Flow *f) {
    const Region *body = f->loop->regions[0];
    const Op *commit = NULL;
    for_each_use(u, result(f->make, 0)) {
        const Op *op = u->user;
        if (op->code == OP_RING_COMMIT && op->parent == body) commit = op;
    }
    if (!commit || f->wait->parent != body) return 0;
    if (!f->ahead) return count_groups(commit->next, f->wait);
    return count_groups(commit->next, NULL) + (f->ahead - 1) * count_groups(body->first, NULL) +
           count_groups(body->first, f->wait);
}

/// Sets `prefetched` of the wait. With TMA each item has its own mbarrier, and the number is only
/// for people.
static void note_ahead(Schedule *s, const Flow *f) {
    int n = f->ahead - 1;
    if (!is_tma_flow(f)) n = smaller_of(behind_others(f), RING_GROUPS);
    if (!is_tma_flow(f) && f->ahead) n = smaller_of(behind_first(f), n);
    if (n > 0) op_set_int(s->s.ir, f->wait, A_PREFETCHED, n);
}

/* ---- the pass ------------------------------------------------------------------------------ */

static void schedule_device(Schedule *s) {
    s->roles = device_roles(s->s.device) != NULL;
    op_walk_pre(s->s.device, chain_products, NULL);
    op_walk_pre(s->s.device, collect_flow, s);
    order_flows(s);
    if (!s->flows.n) return;
    int slots = choose_slots(s), tile_slots = choose_tile_slots(s, &slots);
    for (int i = 0; i < s->flows.n; i++) {
        Flow *f = &s->flows.data[i];
        f->ahead = is_movable_flow(s, f) && !is_of_tile(s, f) ? slots - 1 - !is_tma_flow(f) : 0;
    }
    for (int i = 0; i < s->flows.n; i++) {
        Op *loop = s->flows.data[i].loop;
        bool seen = false;
        for (int j = 0; j < i; j++) seen |= s->flows.data[j].loop == loop;
        if (!seen) run_on(s, loop);
    }
    for (int i = 0; i < s->flows.n; i++) {
        Flow *f = &s->flows.data[i];
        // Without mbarriers a slot that a pending product reads is free an iteration later.
        if (!is_tma_flow(f) && !f->held && is_movable_flow(s, f)) f->ahead = slots - 1;
        if (f->ahead > 0) set_slots(s, f, slots);
        if (is_of_tile(s, f)) set_slots(s, f, tile_slots);
    }
    if (s->roles) return;
    fill_all_before(s);
    for (int i = 0; i < s->flows.n; i++)
        if (s->flows.data[i].ahead > 0) run_ahead(s, &s->flows.data[i]);
    for (int i = 0; i < s->flows.n; i++) note_ahead(s, &s->flows.data[i]);
}

void pass_schedule(PassEnv *env, Op *module) {
    if (!env->gpu) return;
    for_each_op(op, module->regions[0]) {
        Schedule s = {.s = {.env = env, .ir = env->ir, .ctx = ir_ctx(env->ir), .module = module}};
        s.s.target = env->gpu;
        s.s.device = op;
        if (op->code != OP_DEVICE) continue;
        schedule_device(&s);
    }
}
