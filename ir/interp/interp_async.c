// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The reference interpreter: shared memory, rings, and asynchronous ops.
//
// One thread runs a program, so an asynchronous op completes when it starts. The protocol of rings
// is checked as for many threads: acquiring needs a free slot, and waiting needs a full one. If a
// device would wait for ever, the run ends with an error.
#include "ir/interp/interp_private.h"

#include <math.h>
#include <string.h>

/// Slot s holds item full[s] - 1, if any. It is free if busy[s] is not set.
typedef struct RingState {
    int slots, n_bufs;
    int64_t *full;
    int64_t *scalar; // the scalars of the slot's item
    bool *busy;
    Cell **cells; // [slot * n_bufs + buffer]
} RingState;

void do_desc(Interp *it, Op *op) {
    (void)it;
    out(op, 0)->tensor = in(op, 0)->tensor;
}

/* ---- buffers ------------------------------------------------------------------------------- */

/// Fills undefined contents with a visible value.
static void spoil_cells(Cell *cells, int64_t n) {
    memset(cells, 0xA5, (size_t)n * sizeof *cells);
}

void do_buf_alloc(Interp *it, Op *op) {
    Reg *r = out(op, 0);
    int64_t n = ty_count(r->type);
    if (!r->cells) r->cells = ctx_array(it->ctx, Cell, n);
    spoil_cells(r->cells, n);
}

/// The view's elements are read at its use: see settle_view.
void do_buf_view(Interp *it, Op *op) {
    Reg *r = out(op, 0), *x = in(op, 0);
    const int64_t *perm = op_ints(op, A_PERM)->ints;
    int64_t n = ty_count(r->type), step[MAX_RANK], size = 1, first = 0;
    if (!r->cells) r->cells = ctx_array(it->ctx, Cell, n);
    for (int d = x->type->rank - 1; d >= 0; d--) {
        step[d] = size;
        size *= x->type->extents[d];
    }
    const Attr *start = op_attr(op, ATTR_START) ? op_ints(op, A_START) : NULL;
    for (int d = 0; start && d < x->type->rank; d++) first += start->ints[d] * step[d];
    for (int64_t i = 0; x->cells && i < n; i++) {
        int64_t rest = i, from = first;
        for (int d = r->type->rank - 1; d >= 0; d--) {
            from += rest % r->type->extents[d] * step[perm[d]];
            rest /= r->type->extents[d];
        }
        r->cells[i] = x->cells[from];
    }
}

/// Sets operand i to the current contents of its buffer.
static void settle_view(Interp *it, Op *op, int i) {
    Op *view = def_of(operand(op, i), OP_BUF_VIEW);
    if (!view) return;
    settle_view(it, view, 0);
    do_buf_view(it, view);
}

void do_buf_load(Interp *it, Op *op) {
    settle_view(it, op, 0);
    memcpy(out(op, 0)->cells, in(op, 0)->cells, (size_t)out(op, 0)->n * sizeof(Cell));
}

void do_buf_store(Interp *it, Op *op) {
    (void)it;
    memcpy(in(op, 0)->cells, in(op, 1)->cells, (size_t)in(op, 1)->n * sizeof(Cell));
}

void do_buf_pad(Interp *it, Op *op) {
    (void)it;
    Reg *buf = in(op, 0);
    const Type *t = buf->type;
    int axis = (int)op_int(op, A_AXIS, 0);
    int64_t inner = 1;
    for (int d = axis + 1; d < t->rank; d++) inner *= t->extents[d];
    for (int64_t i = 0; i < ty_count(t); i++)
        if (i / inner % t->extents[axis] >= in_int(op, 1)) buf->cells[i] = (Cell){0};
}

void do_mma_start(Interp *it, Op *op) {
    settle_view(it, op, 0);
    settle_view(it, op, 1);
    do_dot(it, op);
}

/// Fills memory that must not be read with a visible value.
void do_blank(Interp *it, Op *op) {
    (void)it;
    Reg *r = out(op, 0);
    bool zeros = in_int(op, 0), is_float = elem_is(r->type->elem, EC_FLOAT);
    Cell other = is_float ? (Cell){.f = NAN} : (Cell){.i = INT32_MIN};
    for (int64_t i = 0; i < r->n; i++) r->cells[i] = zeros ? (Cell){0} : other;
}

/* ---- copies -------------------------------------------------------------------------------- */

void do_copy_async(Interp *it, Op *op) {
    if (in(op, 1)->cells) read_lanes(it, op, in(op, 1), (Cell){0});
}

/// The memory offset of the buffer's element i, or -1 outside the tensor. The coordinates are the
/// operands from `first` on.
static int64_t box_offset(const Op *op, int first, int64_t i) {
    const Tensor *t = &in(op, 0)->tensor;
    const Type *buf = operand(op, 1)->type;
    const int64_t *axes = op_ints(op, A_AXES)->ints;
    int64_t index[MAX_RANK], offset = 0;
    for (int d = buf->rank - 1; d >= 0; d--) {
        index[d] = i % buf->extents[d];
        i /= buf->extents[d];
    }
    for (int d = 0; d < t->rank; d++) {
        int64_t at = in_int(op, first + d) + (axes[d] >= 0 ? index[axes[d]] : 0);
        if (at < 0 || at >= t->extents[d]) return -1;
        offset += at * t->strides[d];
    }
    return offset;
}

void do_copy_tma(Interp *it, Op *op) {
    (void)it;
    Reg *buf = in(op, 1);
    for (int64_t i = 0; buf->cells && i < ty_count(buf->type); i++) {
        int64_t at = box_offset(op, 2, i);
        buf->cells[i] = at < 0 ? (Cell){0} : cell_load(buf->type->elem, in(op, 0)->tensor.data, at);
    }
}

void do_copyout_tma(Interp *it, Op *op) {
    const Reg *block = in(op, 2);
    const Tensor *t = &in(op, 0)->tensor;
    Elem e = block->type->elem;
    for (int64_t i = 0; i < ty_count(block->type); i++) {
        int64_t at = box_offset(op, 3, i);
        Cell x = block->cells[i];
        if (at < 0) continue;
        if (op_flag(op, A_ADD))
            x = eval_elementwise(OP_ADD, e, (Cell[]){cell_load(e, t->data, at), x, {0}});
        note_write(it, t, at);
        cell_store(e, t->data, at, x);
    }
}

void do_await(Interp *it, Op *op) {
    (void)it;
    for (int i = 0; i < op->n_results; i++) copy_reg(out(op, i), in(op, i));
}

/* ---- rings --------------------------------------------------------------------------------- */

void do_ring_make(Interp *it, Op *op) {
    Reg *r = out(op, 0);
    const Type *t = r->type;
    RingState *s = r->ring = ctx_new(it->ctx, RingState);
    *s = (RingState){.slots = t->slots, .n_bufs = t->n_parts};
    s->full = ctx_array(it->ctx, int64_t, t->slots);
    s->scalar = ctx_array(it->ctx, int64_t, t->slots);
    s->busy = ctx_array(it->ctx, bool, t->slots);
    s->cells = ctx_array(it->ctx, Cell *, (int64_t)t->slots * t->n_parts);
    for (int i = 0; i < t->slots * t->n_parts; i++) {
        int64_t n = ty_count(t->parts[i % t->n_parts]);
        spoil_cells(s->cells[i] = ctx_array(it->ctx, Cell, n), n);
    }
}

/// Makes room for more items than the ring has slots, because roles run one after the other.
static void grow_ring(Interp *it, RingState *s, const Type *type, int64_t slots) {
    RingState old = *s;
    s->slots = (int)slots;
    s->full = ctx_array(it->ctx, int64_t, slots);
    s->scalar = ctx_array(it->ctx, int64_t, slots);
    s->busy = ctx_array(it->ctx, bool, slots);
    s->cells = ctx_array(it->ctx, Cell *, slots * s->n_bufs);
    for (int64_t i = 0; i < slots * s->n_bufs; i++)
        s->cells[i] = i < (int64_t)old.slots * s->n_bufs
                          ? old.cells[i]
                          : ctx_array(it->ctx, Cell, ty_count(type->parts[i % s->n_bufs]));
    memcpy(s->full, old.full, (size_t)old.slots * sizeof *s->full);
    memcpy(s->scalar, old.scalar, (size_t)old.slots * sizeof *s->scalar);
    memcpy(s->busy, old.busy, (size_t)old.slots * sizeof *s->busy);
}

static int64_t ring_slot_of(Interp *it, Op *op) {
    RingState *s = in(op, 0)->ring;
    int64_t n = in_int(op, 1);
    if (n < 0) run_error(it, op, "item %lld of a ring", (long long)n);
    if (it->roles && n >= s->slots) grow_ring(it, s, in(op, 0)->type, 2 * n + 2);
    return n % s->slots;
}

static void give_bufs(Op *op, int64_t slot, bool on) {
    const RingState *s = in(op, 0)->ring;
    for (int i = 0; i < s->n_bufs; i++)
        out(op, i)->cells = on ? s->cells[slot * s->n_bufs + i] : NULL;
}

void do_ring_acquire(Interp *it, Op *op) {
    RingState *s = in(op, 0)->ring;
    bool on = in_int(op, 2);
    int64_t slot = on ? ring_slot_of(it, op) : 0;
    if (on && s->busy[slot])
        run_error(it, op, "the slot of item %lld is not free", (long long)in_int(op, 1));
    if (on) {
        s->busy[slot] = true;
        s->full[slot] = 0;
        for (int i = 0; i < s->n_bufs; i++)
            spoil_cells(s->cells[slot * s->n_bufs + i], ty_count(out(op, i)->type));
    }
    give_bufs(op, slot, on);
}

void do_ring_commit(Interp *it, Op *op) {
    if (!in_int(op, 2)) return;
    int64_t slot = ring_slot_of(it, op);
    if (!in(op, 0)->ring->busy[slot])
        run_error(it, op, "item %lld was not acquired", (long long)in_int(op, 1));
    in(op, 0)->ring->full[slot] = in_int(op, 1) + 1;
    if (op_flag(operand(op, 0)->def, A_SCALAR))
        in(op, 0)->ring->scalar[slot] = in_int(op, op->n_operands - 1);
}

void do_take_tile(Interp *it, Op *op) {
    const Tensor *counter = &in(op, 0)->tensor;
    Cell taken = load_element(it, counter, 0);
    out(op, 0)->cells[0].i = taken.i;
    store_element(it, counter, 0, (Cell){.i = taken.i + 1 < in_int(op, 1) ? taken.i + 1 : 0});
}

void do_ring_wait(Interp *it, Op *op) {
    int64_t slot = ring_slot_of(it, op);
    if (in(op, 0)->ring->full[slot] != in_int(op, 1) + 1)
        run_error(it, op, "item %lld was not committed", (long long)in_int(op, 1));
    RingState *s = in(op, 0)->ring;
    give_bufs(op, slot, true);
    if (op->n_results > s->n_bufs) out(op, s->n_bufs)->cells[0].i = s->scalar[slot];
}

void do_ring_release(Interp *it, Op *op) {
    if (!in_int(op, 2)) return;
    int64_t slot = ring_slot_of(it, op);
    if (in(op, 0)->ring->full[slot] != in_int(op, 1) + 1)
        run_error(it, op, "item %lld is released, but not in its slot", (long long)in_int(op, 1));
    RingState *s = in(op, 0)->ring;
    s->busy[slot] = false;
    if (!it->roles) return;
    for (int i = 0; i < s->n_bufs; i++) // no role fills the slot again
        spoil_cells(s->cells[slot * s->n_bufs + i], ty_count(in(op, 0)->type->parts[i]));
}

/* ---- roles --------------------------------------------------------------------------------- */

typedef struct RoleSearch {
    const Region *r;
    const bool *done;
    bool ready;
} RoleSearch;

/// The role (a region of `roles`) that fills the ring; -1: none.
static int filler_of(const Op *roles, const Value *ring) {
    for_each_use(u, ring) {
        if (u->user->code != OP_RING_ACQUIRE) continue;
        for (const Region *r = u->user->parent; r; r = r->parent ? r->parent->parent : NULL)
            for (int i = 0; i < roles->n_regions; i++)
                if (roles->regions[i] == r) return i;
    }
    return -1;
}

static void see_ring_wait(Op *op, void *arg) {
    RoleSearch *s = arg;
    if (op->code != OP_RING_WAIT) return;
    int filler = filler_of(s->r->parent, operand(op, 0));
    s->ready &= filler < 0 || s->done[filler] || s->r->parent->regions[filler] == s->r;
}

/// Whether all roles that fill this role's rings have run.
static bool role_is_ready(Op *op, int i, const bool *done) {
    RoleSearch s = {.r = op->regions[i], .done = done, .ready = true};
    for_each_op(inner, op->regions[i]) op_walk_pre(inner, see_ring_wait, &s);
    return s.ready;
}

/// Runs the roles in order, each filler before its readers, so no role waits for a free slot.
void do_roles(Interp *it, Op *op) {
    bool *done = ctx_array(it->ctx, bool, op->n_regions), more = true;
    int left = op->n_regions;
    it->roles = true;
    while (more) {
        more = false;
        for (int i = 0; i < op->n_regions; i++) {
            if (done[i] || !role_is_ready(op, i, done)) continue;
            run_region(it, op->regions[i]);
            done[i] = more = true;
            left--;
        }
    }
    it->roles = false;
    if (left) run_error(it, op, "roles that fill rings for each other");
}
