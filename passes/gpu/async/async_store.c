// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Stores by TMA, in two cases. If the store of a block goes through shared memory anyway, TMA
// copies the block out of there. If a block is added to memory and the old value has no use, TMA
// adds a row at a time, where a thread would add an element or two.
//
//   %y = convert %x; store %c, %y, ...
//   -> %B = buf_alloc ...; %p = slice %x; copyout_tma %desc, %B, %p, ...; one a panel ...; await
//   atomic %c, %x, ... [op = "add"]
//   -> the same with copyout_tma [add]; await [written]
//
// The block needs no conversion to the order of memory, no addresses and no masks: TMA clips at the
// tensor's end. It goes panel by panel through a few buffers in turn. Each warp fills and copies
// out its own part of a panel, so warps do not wait for each other.
#include "passes/gpu/async/async.h"

enum {
    IN_FLIGHT = 32 << 10, // maximum bytes of buffers while rings are live
    FAR = 64 << 10,       // the same for stores over a link, which is slower than memory
    AT_END = 64 << 10,    // the same once the rings are dead
    MAX_BUFS = 8,
    ROWS_LEAST = 8, // of a box: the period of the swizzle
};

/// Buffers of one type, used in turn.
typedef struct Pool {
    const Type *buf;
    bool at_end;
    int n;
    int64_t used; // number of uses so far
    Value *bufs[MAX_BUFS];
} Pool;

/// The copies that replace a store or an atomic.
typedef struct CopyOut {
    Op *store;
    Value *block;
    const Type *panel; // the type of one panel of the block
    const Type *buf, *desc;
    const Attr *axes;
} CopyOut;

typedef struct Stores {
    Async *s;
    VEC(Op *) found;
    VEC(CopyOut) chosen;
    VEC(Pool) pools;
} Stores;

/* ---- judging ------------------------------------------------------------------------------- */

/// Whether the op adds to memory and has no use of the old value.
static bool is_add(const Op *op) {
    return op->code == OP_ATOMIC && op_update(op) == UPDATE_ADD && !value_has_uses(result(op, 0));
}

/// Whether TMA adds elements of this type. For i64 an H100 stops with an illegal instruction.
static bool is_added(Elem elem) {
    static const bool added[EL_COUNT] = {
        [EL_F16] = true, [EL_BF16] = true, [EL_F32] = true, [EL_F64] = true,
        [EL_I32] = true, [EL_U32] = true,  [EL_U64] = true};
    return added[elem];
}

/// Returns the conversion before the store that a copy makes unnecessary, or NULL. It is worth
/// replacing if it goes through shared memory, or shuffles rows that do not fill whole lines.
static Op *conversion_of(const Access *a) {
    enum { LINE_BITS = 128 * 8 };
    Op *op = def_of(a->value, OP_CONVERT);
    if (!op || !value_has_one_use(a->value)) return NULL;
    const Type *from = operand(op, 0)->type, *to = a->value->type;
    int64_t row = to->extents[a->axis_of[contiguous_dim(a->tensor->type)]];
    bool lines = row * elem_info[to->elem].bits % LINE_BITS == 0;
    Conversion c = layout_convert(from->layout, to->layout, elem_info[to->elem].bits);
    return c.kind >= (lines ? CONVERT_SHARED : CONVERT_SHUFFLE) ? op : NULL;
}

/// Returns the block to copy out, or NULL if threads store it well. A copy pays if the block goes
/// through shared memory anyway, if threads hold fewer than 16 contiguous bytes, or if it is added.
static Value *block_to_copy(const Op *store, const Access *a) {
    const Op *convert = conversion_of(a);
    const Type *t = a->value->type;
    if (convert) return operand(convert, 0);
    if (is_add(store)) return a->value;
    int vector = layout_vector(t->layout, a->axis_of[contiguous_dim(a->tensor->type)], NULL);
    return elem_info[t->elem].bits << vector < COPY_BYTES * 8 ? a->value : NULL;
}

static const Op *slice_behind(const Op *store) {
    Value *v = operand(store, 1);
    while (v->def && v->def->code == OP_CONVERT) v = operand(v->def, 0);
    return def_of(v, OP_SLICE);
}

/// Whether the stores write two disjoint parts of one block.
static bool are_parts(const Op *x, const Op *y) {
    const Op *a = slice_behind(x), *b = slice_behind(y);
    return a && b && x->parent == y->parent && operand(a, 0) == operand(b, 0) &&
           op_ints(a, A_START) != op_ints(b, A_START) && result(a, 0)->type == result(b, 0)->type;
}

/// Returns why the copies would break the order of accesses, or NULL. Copies have no order with
/// other accesses, so the program must not touch the tensor elsewhere, also not by another name.
static const char *reason_against_order(const Async *s, const Op *store) {
    const Value *tensor = operand(store, 0);
    const char *name = other_name(s, tensor);
    if (name) return ctx_format(s->ctx, "threads read '%s', which may be the same tensor", name);
    for_each_use(u, tensor) {
        const Op *op = u->user;
        bool other = op != store && op_is_access(op) && op->code != OP_LIVE;
        if (other && !(op->code == OP_STORE && are_parts(op, store)))
            return "the program uses the tensor elsewhere, too";
    }
    return NULL;
}

/// Whether the loop is the loop over tiles (persist.c). Tiles do not overlap.
static bool is_tile_loop(const Async *s, const Op *loop) {
    return loop->code == OP_FOR && loop->parent == s->device->regions[0] &&
           operand(loop, 0) == s->device->regions[0]->args[0];
}

static bool is_once(const Async *s, const Op *store) {
    const Op *up = store->parent->parent;
    while (up->code == OP_IF) up = up->parent->parent;
    return up == s->device || is_tile_loop(s, up);
}

/// Returns the op of the device's own region that holds op.
static Op *top_of(const Async *s, Op *op) {
    while (op->parent->parent != s->device) op = op->parent->parent;
    return op;
}

/// Whether warps write the panel well: by whole matrices, or by words of at least 4 bytes without
/// bank conflicts. For an addition two rows may share a bank, as those of f32 do; it still pays.
static bool is_written_well(const Op *store, const Layout *l, const Type *buf) {
    SharedLayout shared = shared_of(buf);
    SharedMatrix m;
    SharedAccess a;
    if (shared_matrix(l, &shared, &m)) return m.conflicts == 1;
    shared_access(l, &shared, COPY_BYTES, &a);
    return shared.elem_bytes << a.vec_bits >= 4 &&
           shared_conflicts(l, &shared, &a, BANKS_IN_ORDER, false) <= 1 + is_add(store);
}

/* ---- choosing ------------------------------------------------------------------------------ */

/// Returns the type of a part of `type` that is `width` wide along `inner` and consists of
/// registers of the same threads. NULL: threads have no such part.
static const Type *type_of_part(Async *s, const Type *type, int inner, int64_t width) {
    int64_t unit;
    if (width == type->extents[inner]) return type;
    const Layout *l = layout_extend(s->ctx, type->layout, inner, width, &unit);
    return width % unit || layout_box(l, inner) != width ? NULL : ty_laid(s->ir, type->elem, l);
}

/// Sets the boxes of the tensor map: the part of a panel that one warp owns.
static bool choose_box(Async *s, const Access *a, CopyOut *out) {
    const Type *t = a->tensor->type, *buf = out->buf;
    int64_t own[MAX_RANK], box[MAX_RANK], axes[MAX_RANK];
    int64_t row = buf->swizzle / (elem_info[t->elem].bits / 8);
    Bits warps;
    if (!layout_warp_boxes(out->panel->layout, own, &warps) || own[buf->inner] % row ||
        own[!buf->inner] % ROWS_LEAST)
        return false;
    for (int d = 0; d < t->rank; d++) {
        int axis = a->axis_of[d];
        axes[d] = axis;
        box[d] = axis < 0 ? 1 : axis == buf->inner ? row : own[axis];
        while (box[d] > MAX_BOX && box[d] % 2 == 0) box[d] /= 2;
        if (box[d] > MAX_BOX) return false;
    }
    out->desc = ty_desc(s->ir, t->elem, t->rank, box, buf->swizzle, contiguous_dim(t));
    out->axes = at_ints(s->ir, axes, t->rank);
    return true;
}

/// Chooses panels with rows of `swizzle` bytes, or the whole block if it is narrow.
static bool choose_store_panel(Async *s, const Access *a, int swizzle, CopyOut *out) {
    enum { NARROW = 32 };
    const Type *type = out->block->type;
    int inner = a->axis_of[contiguous_dim(a->tensor->type)];
    int bytes = elem_info[type->elem].bits / 8;
    int64_t width = swizzle > NARROW ? swizzle / bytes : type->extents[inner];
    if (type->extents[inner] * bytes % swizzle) return false;
    out->panel = type_of_part(s, type, inner, width);
    if (!out->panel) return false;
    out->buf = ty_buf(s->ir, type->elem, 2, out->panel->extents, swizzle, inner, 0);
    return 2 * buf_bytes(out->buf) <= IN_FLIGHT &&
           is_written_well(out->store, out->panel->layout, out->buf) && choose_box(s, a, out);
}

static const char *choose_copy_out(Async *s, const Op *store, const Access *a, CopyOut *out) {
    GpuWidth width;
    const char *why = reason_against_copy(s, store, a, COPY_BYTES, &width);
    if (why) return why;
    if (is_add(store) && !is_added(a->value->type->elem))
        return ctx_format(s->ctx, "TMA does not add %s", elem_info[a->value->type->elem].name);
    out->block = a->value->type->layout ? block_to_copy(store, a) : NULL;
    if (!out->block) return "threads have it in the order of memory";
    if (unclipped(store, a)) return "it ends inside of the tensor";
    if (a->n_subs > TMA_RANK) return "it has too many dimensions";
    if (!is_once(s, store)) return "it is stored in a loop";
    why = reason_against_order(s, store);
    if (why) return why;
    for (int swizzle = 128; swizzle >= 32; swizzle /= 2)
        if (choose_store_panel(s, a, swizzle, out)) return NULL;
    return "warps do not have boxes of it";
}

/* ---- building ------------------------------------------------------------------------------ */

static bool is_at_end(const Async *s, Op *store) {
    const Op *last = last_shared_use(s->device);
    return last && op_before(last, top_of(s, store));
}

static void seek_reads(Op *op, void *found) {
    *(bool *)found |= op->code == OP_BUF_LOAD || (op->code == OP_DOT && gpu_unit_of(op));
}

/// Whether lowering takes no shared memory for the op.
static bool is_quiet(const Op *op) {
    return op_has(op, ELEMENTWISE) || op->code == OP_CAST || op->code == OP_CONST ||
           op->code == OP_SLICE || op->code == OP_SELECT || op->code == OP_AWAIT ||
           (op->code == OP_CONVERT && value_has_one_use(result(op, 0)) &&
            result(op, 0)->uses->user->code == OP_STORE);
}

/// Whether all warps have met since the last read of the rings. This holds for a single warpgroup
/// whose last read was a product, since a product ends in all its warps together.
static bool have_met(const Async *s, const Op *top) {
    bool reads = false;
    op_walk_pre(s->device, seek_reads, &reads);
    for (const Op *op = last_shared_use(s->device)->next; op != top; op = op->next)
        reads |= !is_quiet(op);
    return !reads && op_int(s->device, A_WARPS, 1) <= GPU_GROUP_WARPS;
}

/// Seeks ops that send to other ranks.
static void seek_far(Op *op, void *found) {
    *(bool *)found |= op->code == OP_SIGNAL_SET || (is_add(op) && op_flag(op, A_SYSTEM));
}

/// Bytes of buffers beside live rings. Stores over a link get more, at the cost of ring slots,
/// unless the number of slots is given.
static int64_t room_beside(const Async *s) {
    bool far = false;
    if (!s->env->stages) op_walk_pre(s->device, seek_far, &far);
    return far ? FAR : IN_FLIGHT;
}

static int64_t panels_of(const CopyOut *how) {
    int inner = how->buf->inner;
    return how->block->type->extents[inner] / how->panel->extents[inner];
}

/// The panels of this store and of the later stores of the same block.
static int64_t panels_together(const Stores *x, const CopyOut *how) {
    int64_t n = panels_of(how);
    for (int i = 0; i < x->chosen.n; i++) {
        const CopyOut *other = &x->chosen.data[i];
        if (other->buf == how->buf && are_parts(other->store, how->store)) n += panels_of(other);
    }
    return n;
}

/// Returns the number of buffers, at most n, that divides the panels, so that each iteration of a
/// loop starts with the first buffer.
static int buffers_in_turn(const Stores *x, const CopyOut *how, int n) {
    int64_t panels = 0;
    for (int i = 0; i < x->chosen.n; i++)
        if (x->chosen.data[i].buf == how->buf) panels += panels_of(&x->chosen.data[i]);
    while (panels % n) n--;
    return n;
}

/// Buffers at the end reuse the memory of the rings, so all threads must have left the rings first.
static Pool *make_pool(Stores *x, const CopyOut *how) {
    Async *s = x->s;
    Pool p = {.buf = how->buf, .at_end = is_at_end(s, how->store)};
    int64_t most = (p.at_end ? AT_END : room_beside(s)) / buf_bytes(how->buf);
    int64_t panels = panels_together(x, how);
    p.n = (int)(panels < most ? panels : most);
    if (p.n > MAX_BUFS) p.n = MAX_BUFS;
    if (!p.at_end) p.n = buffers_in_turn(x, how, p.n);
    Op *top = top_of(s, how->store);
    Builder b = build_before(s->ir, p.at_end ? top : s->device->regions[0]->first);
    if (p.at_end && !have_met(s, top)) build_op(&b, OP_BARRIER, 0, NULL, 0, NULL, 0);
    for (int i = 0; i < p.n; i++)
        p.bufs[i] = result(build_op(&b, OP_BUF_ALLOC, 0, NULL, 1, &how->buf, 0), 0);
    vec_push(s->ctx, &x->pools, p);
    return &x->pools.data[x->pools.n - 1];
}

static Pool *pool_for(Stores *x, const CopyOut *how) {
    for (int i = 0; i < x->pools.n; i++)
        if (x->pools.data[i].buf == how->buf) return &x->pools.data[i];
    return make_pool(x, how);
}

static Value *slice_panel(Async *s, Builder *b, const CopyOut *how, const int64_t *start) {
    Value *v = how->block;
    if (how->panel == v->type) return v;
    Op *op = build_op(b, OP_SLICE, 1, &v, 1, &how->panel, 0);
    op_set_ints(s->ir, op, A_START, start, 2);
    return result(op, 0);
}

static void copy_out_block(Async *s, Builder *b, const CopyOut *how, Pool *p, int64_t first) {
    const Op *store = how->store;
    Access a = access_of(store);
    int inner = how->buf->inner, n = 0;
    int64_t start[2] = {0, 0};
    start[inner] = first;
    Value *operands[3 + MAX_RANK];
    operands[n++] = desc_param(s, a.tensor, how->desc, ROUNDING_ABSENT);
    operands[n++] = p->bufs[p->used % p->n];
    operands[n++] = slice_panel(s, b, how, start);
    for (int d = 0; d < a.n_subs; d++) {
        Value *at = sub_operand(store, &a, d, 0);
        operands[n++] = a.axis_of[d] == inner ? ix_add(b, at, build_index(b, first)) : at;
    }
    Op *op = build_op(b, OP_COPYOUT_TMA, n, operands, 0, NULL, 0);
    op_set_ints(s->ir, op, A_AXES, how->axes->ints, how->axes->n);
    if (is_add(store)) op_set_flag(s->ir, op, A_ADD, true);
    if (!p->at_end || p->used >= p->n) op_set_int(s->ir, op, A_IN_FLIGHT, p->n - 1);
    p->used++;
}

static void note_store(Async *s, const Op *store, const char *why) {
    static const char *const how[2][2] = {{"copied out by TMA", "stored by threads"},
                                          {"added by TMA", "added by threads"}};
    async_note(s, operand(store, 0), how[is_add(store)][why != NULL], why);
}

static void judge_store(Stores *x, Op *store) {
    Async *s = x->s;
    Access a = access_of(store);
    CopyOut how = {.store = store};
    const char *why = choose_copy_out(s, store, &a, &how);
    note_store(s, store, why);
    if (!why) vec_push(s->ctx, &x->chosen, how);
}

static void stage_store(Stores *x, const CopyOut *how) {
    Pool *p = pool_for(x, how);
    Access a = access_of(how->store);
    Builder b = build_before(x->s->ir, how->store);
    int inner = how->buf->inner;
    for (int64_t i = 0; i < panels_of(how); i++)
        copy_out_block(x->s, &b, how, p, i * how->panel->extents[inner]);
    Op *convert = conversion_of(&a);
    op_erase(how->store);
    if (convert) op_erase(convert);
}

/* ---- the device ---------------------------------------------------------------------------- */

static void collect_store(Op *op, void *arg) {
    Stores *x = arg;
    if (op->code == OP_STORE || is_add(op)) vec_push(x->s->ctx, &x->found, op);
}

/// Waits at the program's end, because no other program may get its shared memory before the copies
/// have read it. The hardware completes stores by itself after the program's end. It does not
/// promise this for additions, so the program waits until they are written.
static void await_copies_out(Async *s, bool adds) {
    Builder b = build_before(s->ir, terminator(s->device->regions[0]));
    Op *op = build_op(&b, OP_AWAIT, 0, NULL, 0, NULL, 0);
    if (adds) op_set_flag(s->ir, op, A_WRITTEN, true);
}

/// Buffers at the end reuse all earlier memory. By then, earlier copies must have read their data
/// out of it, for every warp.
static void await_earlier(Stores *x) {
    bool early = false, late = false;
    for (int i = 0; i < x->pools.n; i++) x->pools.data[i].at_end ? (late = true) : (early = true);
    if (!early || !late) return;
    Builder b = build_after(x->s->ir, last_shared_use(x->s->device));
    build_op(&b, OP_AWAIT, 0, NULL, 0, NULL, 0);
    build_op(&b, OP_BARRIER, 0, NULL, 0, NULL, 0);
}

void stage_stores(Async *s) {
    Stores x = {.s = s};
    bool adds = false;
    op_walk_pre(s->device, collect_store, &x);
    for (int i = 0; i < x.found.n; i++) judge_store(&x, x.found.data[i]);
    for (int i = 0; i < x.chosen.n; i++) adds |= is_add(x.chosen.data[i].store);
    for (int i = 0; i < x.chosen.n; i++) stage_store(&x, &x.chosen.data[i]);
    await_earlier(&x);
    if (x.pools.n) await_copies_out(s, adds);
}

void keep_adds(Async *s, bool products) {
    const char *why =
        gpu_has(s->target, GPU_TMA) ? "TMA copies nothing in here" : "the GPU has no TMA";
    Stores x = {.s = s};
    op_walk_pre(s->device, collect_store, &x);
    for (int i = 0; i < x.found.n; i++)
        if (is_add(x.found.data[i]) && (products || op_flag(x.found.data[i], A_SYSTEM)))
            note_store(s, x.found.data[i], why);
}
