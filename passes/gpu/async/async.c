// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// async: turns loads that feed products into copies into rings of buffers, and products of
// warpgroups into a start and an await.
//
//   %x = load %a ...; %y = load %b ...; %d = dot %x, %y, %c [unit="wgmma..."]
//   -> %A, %B = ring_acquire %ring, %n; copy_tma ... %A; copy_tma ... %B; ring_commit %ring, %n
//      %A', %B' = ring_wait %ring, %n
//      %p = mma_start %A', %B', %c; %d = await %p; ring_release %ring, %n
//
// Nothing overlaps yet: `schedule` moves copies ahead later. Products of single warps stay dots,
// whose operands are loaded from the buffers.
#include "passes/gpu/async/async.h"

#include "passes/passes.h"

#include <string.h>

/// A load that becomes a copy.
typedef struct Staged {
    Op *load, *dot; // the first product that it feeds
    Staging how;
    const char *why; // a further reason for the report, or NULL
    Value *buf;      // its full buffer in the ring
    int group;
    const Type *ahead; // buffer type of a copy through registers, or NULL
} Staged;

typedef VEC(Op *) DotList;

typedef struct Feeds {
    Async *s;
    DotList dots;
    VEC(Staged) staged;
    int n_groups;
} Feeds;

/* ---- operands of products ------------------------------------------------------------------ */

/// Whether the op is a product on matrix units.
static bool is_product(const Op *op) {
    return op->code == OP_DOT && gpu_unit_of(op);
}

static bool renames_registers(const Op *op) {
    return op && (op->code == OP_CONVERT || op->code == OP_PERMUTE);
}

/// Notes that no copy serves a load whose block other operations change before the product.
static void note_made(Feeds *f, const Value *v) {
    const char *why = "multiply-adds take registers";
    for (; v->def && (renames_registers(v->def) || v->def->code == OP_CAST); v = operand(v->def, 0))
        if (v->def->code == OP_CAST) why = "its elements are cast for the product";
    const Op *load = def_of(v, OP_LOAD);
    if (load) async_note(f->s, operand(load, 0), "through registers", why);
}

static void collect_dot(Op *op, void *arg) {
    Feeds *f = arg;
    if (is_product(op)) vec_push(f->s->ctx, &f->dots, op);
    for (int i = 0; i < 2 && op->code == OP_DOT && !gpu_unit_of(op); i++)
        note_made(f, operand(op, i));
}

Op *load_behind(const Value *v, bool *swapped) {
    *swapped = false;
    for (; renames_registers(v->def); v = operand(v->def, 0))
        if (v->def->code == OP_PERMUTE) *swapped ^= op_ints(v->def, A_PERM)->ints[0] == 1;
    return def_of(v, OP_LOAD);
}

/// Whether every use of v is an operand of a product on matrix units. Ops that only rename
/// positions are looked through.
static bool feeds_only_dots(const Value *v) {
    for_each_use(u, v) {
        const Op *op = u->user;
        bool dot = is_product(op) && u->index < 2;
        if (!dot && !(renames_registers(op) && feeds_only_dots(result(op, 0)))) return false;
    }
    return true;
}

static Staged *staged_of(Feeds *f, const Op *load) {
    for (int i = 0; i < f->staged.n; i++)
        if (f->staged.data[i].load == load) return &f->staged.data[i];
    return NULL;
}

static const Type *seen_by_dot(Async *s, const Type *buf, bool swapped) {
    return swapped ? ty_buf_permuted(s->ir, buf, (const int64_t[]){1, 0}) : buf;
}

void async_note(Async *s, const Value *tensor, const char *how, const char *why) {
    const char *name = tensor->name;
    const char *other = tensor->type->kind == TK_TENSOR ? "a workspace" : "an operand";
    const char *text =
        ctx_format(s->ctx, "%s: %s%s%s", name ? name : other, how, why ? ": " : "", why ? why : "");
    for (int i = 0; i < s->notes.n; i++)
        if (strcmp(s->notes.data[i], text) == 0) return;
    vec_push(s->ctx, &s->notes, text);
}

/// Returns why a product of f32 runs on single warps although the target has wgmma, or NULL.
static const char *against_wgmma(Feeds *f, const Op *dot, const Type *buf, int k_axis) {
    bool could = buf->elem == EL_F32 && !is_wgmma(dot) && gpu_has(f->s->target, GPU_WGMMA);
    return could && !wgmma_takes(buf, k_axis) ? "for wgmma its rows would have to run along the sum"
                                              : NULL;
}

/// Returns the layout of operand i of the dot in the axes of the load that feeds it. NULL: another
/// load feeds it, or it has no layout.
static const Layout *read_layout(const Feeds *f, const Op *load, int dot, int i) {
    bool swapped;
    const Value *x = operand(f->dots.data[dot], i);
    if (load_behind(x, &swapped) != load || !x->type->layout) return NULL;
    return swapped ? layout_permute(f->s->ctx, x->type->layout, (int[]){1, 0}) : x->type->layout;
}

/// Returns the layout in which products read most registers of the load. The buffer is made for
/// this layout.
static const Layout *main_reader(const Feeds *f, const Op *load) {
    const Layout *found = NULL;
    int64_t most = 0;
    for (int k = 0; k < 2 * f->dots.n; k++) {
        const Layout *l = read_layout(f, load, k / 2, k % 2);
        int64_t sum = 0;
        for (int j = 0; l && j < 2 * f->dots.n; j++)
            if (read_layout(f, load, j / 2, j % 2) == l) sum += layout_registers(l);
        if (sum <= most) continue;
        most = sum;
        found = l;
    }
    return found;
}

static int conflicts_of(const Async *s, const Layout *l, const Type *buf, bool reads) {
    SharedLayout shared = shared_of(buf);
    SharedAccess a;
    shared_access(l, &shared, COPY_BYTES, &a);
    return shared_conflicts(l, &shared, &a, gpu_banks(s->target), reads);
}

/// Describes the bank conflicts of writing the load's block to buf and of reading it for products.
/// NULL: no conflicts.
static const char *bank_conflicts(const Feeds *f, const Op *load, const Type *buf) {
    int writes = conflicts_of(f->s, result(load, 0)->type->layout, buf, false), reads = 1;
    for (int k = 0; k < 2 * f->dots.n; k++) {
        const Layout *l = read_layout(f, load, k / 2, k % 2);
        int n = l ? conflicts_of(f->s, l, buf, true) : 1;
        if (n > reads) reads = n;
    }
    if (writes * reads == 1) return NULL;
    return ctx_format(f->s->ctx, "bank conflicts, %d-fold in writes and %d-fold in reads", writes,
                      reads);
}

/// Whether every product that reads the load's block takes it from buf unchanged. Sets *some if at
/// least one does.
static bool all_take(Feeds *f, const Op *load, const Type *buf, bool *some) {
    bool swapped, all = true;
    *some = false;
    for (int k = 0; k < 2 * f->dots.n; k++) {
        const Op *dot = f->dots.data[k / 2];
        if (load_behind(operand(dot, k % 2), &swapped) != load) continue;
        bool takes = !is_wgmma(dot) || wgmma_takes(seen_by_dot(f->s, buf, swapped), !(k % 2));
        *some |= takes;
        all &= takes;
    }
    return all;
}

/// Stages the load behind operand i of the dot if a copy may serve it. Products of single warps
/// take registers, so their loads qualify only in the same loop body: elsewhere nothing overlaps.
static void consider_operand(Feeds *f, Op *dot, int i) {
    bool swapped;
    const char *why;
    Op *load = load_behind(operand(dot, i), &swapped);
    Staged staged = {.load = load, .dot = dot, .group = -1};
    bool loop = dot->parent->parent->code == OP_FOR;
    if (!load) note_made(f, operand(dot, i));
    if (!load || staged_of(f, load)) return;
    if (!is_wgmma(dot) && !(loop && load->parent == dot->parent)) return;
    if (!feeds_only_dots(result(load, 0))) {
        why = "other operations read it, too";
    } else if (stage_load(f->s, load, &staged.how, &why)) {
        why = "rows of its elements have to run along the sum";
        bool some, all = all_take(f, load, staged.how.buf, &some);
        if (some) {
            staged.why =
                !all ? "through registers for a product whose sum its rows do not run along"
                     : against_wgmma(f, dot, seen_by_dot(f->s, staged.how.buf, swapped), !i);
            vec_push(f->s->ctx, &f->staged, staged);
            return;
        }
    }
    if (feeds_only_dots(result(load, 0)))
        staged.ahead = register_copy_buf(f->s, load, dot->parent->parent, main_reader(f, load));
    if (staged.ahead) {
        vec_push(f->s->ctx, &f->staged, staged);
        why = bank_conflicts(f, load, staged.ahead);
    }
    async_note(f->s, operand(load, 0),
               staged.ahead ? "through registers, an iteration ahead" : "through registers", why);
}

/// Returns the index of the largest copied block, or -1. Skips blocks that a wgmma reads from their
/// buffer.
static int largest_copy(const Feeds *f) {
    int found = -1;
    int64_t most = 0;
    for (int i = 0; i < f->staged.n; i++) {
        const Staged *x = &f->staged.data[i];
        if (x->ahead || is_wgmma(x->dot) || buf_bytes(x->how.buf) <= most) continue;
        most = buf_bytes(x->how.buf);
        found = i;
    }
    return found;
}

/// Whether one slot of each ring fits into shared memory beside the temporaries of lowering.
static bool copies_fit(const Feeds *f) {
    Async *s = f->s;
    PtrMap copied = {0};
    int64_t bytes = SHARED_SLACK + shared_in_use(s->device);
    for (int i = 0; i < f->staged.n; i++) {
        const Staged *x = &f->staged.data[i];
        if (x->ahead) continue;
        bytes += buf_bytes(x->how.buf);
        map_set(s->ctx, &copied, x->load, x->load);
    }
    return bytes + lowering_bytes(s->ctx, s->device, &copied) <= s->target->shared_cta;
}

static void note_copy(Async *s, const Staged *x) {
    const char *how = x->how.tma ? "copied by TMA" : "copied by cp.async", *why = x->why;
    if (x->how.shared) how = "copied by TMA, half of it by each of two programs for both";
    if (!x->how.tma && x->how.narrow) {
        how = ctx_format(s->ctx, "%s, %d bytes at a time", how, x->how.bytes);
        why = why ? ctx_format(s->ctx, "%s; %s", why, x->how.narrow) : x->how.narrow;
    }
    async_note(s, operand(x->load, 0), how, why);
}

/// Drops copies, the largest blocks first, until the rest fits. Dropped blocks stay in registers.
static void make_shared_room(Feeds *f) {
    for (int at; !copies_fit(f) && (at = largest_copy(f)) >= 0;) {
        async_note(f->s, operand(f->staged.data[at].load, 0), "through registers",
                   "shared memory has no room for it");
        f->staged.n--;
        for (int i = at; i < f->staged.n; i++) f->staged.data[i] = f->staged.data[i + 1];
    }
    for (int i = 0; i < f->staged.n; i++) {
        if (!f->staged.data[i].ahead) note_copy(f->s, &f->staged.data[i]);
    }
}

/// Groups the loads of one region that feed one product by one engine. A group shares a ring.
static void group_feeds(Feeds *f) {
    for (int i = 0; i < f->staged.n; i++) {
        Staged *x = &f->staged.data[i];
        if (x->ahead) continue;
        for (int j = 0; j < i && x->group < 0; j++) {
            const Staged *y = &f->staged.data[j];
            if (y->dot == x->dot && y->load->parent == x->load->parent && y->how.tma == x->how.tma)
                x->group = y->group;
        }
        if (x->group < 0) x->group = f->n_groups++;
    }
}

/* ---- rings --------------------------------------------------------------------------------- */

/// Returns the last op of the loads' region that is a load of the group or, if `dots`, that holds a
/// product fed by the group.
static Op *last_of(Feeds *f, int group, bool dots) {
    Op *last = NULL;
    for (int i = 0; i < f->staged.n; i++) {
        const Staged *x = &f->staged.data[i];
        if (x->group != group) continue;
        if (!last) last = x->load;
        if (op_before(last, x->load)) last = x->load;
        for (int k = 0; dots && k < f->dots.n; k++)
            for (int o = 0; o < 2; o++) {
                bool swapped;
                Op *at = f->dots.data[k];
                if (load_behind(operand(at, o), &swapped) != x->load) continue;
                while (at->parent != x->load->parent) at = at->parent->parent;
                if (op_before(last, at)) last = at;
            }
    }
    return last;
}

static int group_members(Feeds *f, int group, Staged **out) {
    int n = 0;
    for (int i = 0; i < f->staged.n && n < MAX_RANK; i++)
        if (f->staged.data[i].group == group) out[n++] = &f->staged.data[i];
    return n;
}

static Value *make_ring(Async *s, int n, const Type *const *bufs, bool tma) {
    Builder b = build_before(s->ir, s->device->regions[0]->first);
    const Type *type = ty_ring(s->ir, 1, n, bufs);
    Op *op = build_op(&b, OP_RING_MAKE, 0, NULL, 1, &type, 0);
    op_set_filler(s->ir, op, tma ? FILLER_TMA : FILLER_ASYNC);
    return result(op, 0);
}

static void build_ring(Feeds *f, int group) {
    Async *s = f->s;
    Staged *own[MAX_RANK];
    const Type *bufs[MAX_RANK];
    Value *commit[3 + MAX_RANK];
    int n = group_members(f, group, own);
    for (int i = 0; i < n; i++) bufs[i] = own[i]->how.buf;
    Op *last_load = last_of(f, group, false), *last = last_of(f, group, true);
    Value *number = run_number(s, last_load->parent);
    Value *ring = make_ring(s, n, bufs, own[0]->how.tma);
    for (int i = 0; i < n; i++)
        if (own[i]->how.shared) op_set_flag(s->ir, ring->def, A_MULTICAST, true);
    Builder b = build_after(s->ir, last_load), end = build_after(s->ir, last);
    Value *on = build_bool(&b, ty_scalar(s->ir, EL_BOOL), true);
    Value *item[] = {ring, number, on};
    Op *acquire = build_op(&b, OP_RING_ACQUIRE, 3, item, n, bufs, 0);
    memcpy(commit, item, sizeof item);
    for (int i = 0; i < n; i++)
        commit[3 + i] = start_copy(s, &b, own[i]->load, &own[i]->how, result(acquire, i));
    build_op(&b, OP_RING_COMMIT, 3 + n, commit, 0, NULL, 0);
    Op *wait = build_op(&b, OP_RING_WAIT, 2, item, n, bufs, 0);
    for (int i = 0; i < n; i++) {
        own[i]->buf = result(wait, i);
        pad_copy(s, &b, own[i]->load, &own[i]->how, result(wait, i));
    }
    if (last == last_load) end = b;
    build_op(&end, OP_RING_RELEASE, 3, item, 0, NULL, 0);
}

/* ---- loads ahead --------------------------------------------------------------------------- */

/// Loads of one loop share one pair of barriers, so all of them are rewritten at once.
static void load_all_ahead(Feeds *f, int first) {
    Op *loads[LOADS_AHEAD], *loop = f->staged.data[first].load->parent->parent;
    const Type *types[LOADS_AHEAD];
    Value *bufs[LOADS_AHEAD];
    int n = 0, which[LOADS_AHEAD];
    for (int i = first; i < f->staged.n && n < LOADS_AHEAD; i++) {
        const Staged *x = &f->staged.data[i];
        if (!x->ahead || x->load->parent->parent != loop) continue;
        loads[n] = x->load;
        types[n] = x->ahead;
        which[n++] = i;
    }
    bool good = load_through_registers(f->s, loop, n, loads, types, bufs);
    for (int i = 0; i < n; i++) {
        Staged *x = &f->staged.data[which[i]];
        x->ahead = NULL;
        x->buf = good ? bufs[i] : NULL;
    }
}

/* ---- products ------------------------------------------------------------------------------ */

static Value *swap_axes(Async *s, Builder *b, Value *buf) {
    const int64_t perm[] = {1, 0};
    const Type *type = ty_buf_permuted(s->ir, buf->type, perm);
    Op *op = build_op(b, OP_BUF_VIEW, 1, &buf, 1, &type, 0);
    op_set_ints(s->ir, op, A_PERM, perm, 2);
    return result(op, 0);
}

/// Returns the buffer with operand i of the dot, or NULL.
static Value *buf_of_operand(Feeds *f, Builder *b, const Op *dot, int i) {
    bool swapped;
    Op *load = load_behind(operand(dot, i), &swapped);
    Staged *x = load ? staged_of(f, load) : NULL;
    if (!x || !x->buf) return NULL;
    return swapped ? swap_axes(f->s, b, x->buf) : x->buf;
}

static Value *load_buf(Builder *b, Value *buf, const Type *type) {
    return result(build_op(b, OP_BUF_LOAD, 1, &buf, 1, &type, 0), 0);
}

/// Loads operand i of a product of single warps from its buffer, if it has one.
static void load_operand(Feeds *f, Op *dot, int i) {
    Builder b = build_before(f->s->ir, dot);
    Value *buf = buf_of_operand(f, &b, dot, i);
    if (buf) op_set_operand(dot, i, load_buf(&b, buf, operand(dot, i)->type));
}

static Value *convert_to(Builder *b, Value *v, const Type *type) {
    if (type == v->type) return v;
    return result(build_op(b, OP_CONVERT, 1, &v, 1, &type, 0), 0);
}

/// Stores a computed block for wgmma. The first barrier waits for all reads of the buffer's old
/// contents; the fence makes the new ones visible to the engine.
static Value *store_operand(Async *s, Builder *b, Value *v, int k_axis) {
    const Type *t = v->type;
    int bytes = elem_info[t->elem].bits / 8, inner = k_axis;
    int swizzle = shared_swizzle_for(t->extents[inner] * bytes);
    if (swizzle < 32) ice(s->ctx, b->loc, "a product over %d bytes", swizzle);
    const Type *type = ty_buf(s->ir, t->elem, 2, t->extents, swizzle, inner, 0);
    Builder top = build_before(s->ir, s->device->regions[0]->first);
    Value *buf = result(build_op(&top, OP_BUF_ALLOC, 0, NULL, 1, &type, 0), 0);
    build_op(b, OP_BARRIER, 0, NULL, 0, NULL, 0);
    build_op(b, OP_BUF_STORE, 2, (Value *[]){buf, v}, 0, NULL, 0);
    build_op(b, OP_FENCE, 0, NULL, 0, NULL, 0);
    build_op(b, OP_BARRIER, 0, NULL, 0, NULL, 0);
    return buf;
}

/// The type of an A operand in registers, for a product of warpgroups.
static const Type *wgmma_a_type(Async *s, const Op *dot) {
    const Type *t = operand(dot, 0)->type;
    const Layout *d = result(dot, 0)->type->layout;
    if (!d || !t->layout) return t;
    return ty_laid(s->ir, t->elem, wgmma_a_layout(s->ctx, t->elem, t->extents, d));
}

/// Returns operand i of a product of warpgroups: a buffer, or registers for A. If wgmma does not
/// take the load's buffer, the operand is loaded from it, and B is stored to a buffer of its own.
static Value *wgmma_operand(Feeds *f, Builder *b, Op *dot, int i) {
    Async *s = f->s;
    Value *buf = buf_of_operand(f, b, dot, i), *v = operand(dot, i);
    if (buf && wgmma_takes(buf->type, !i)) return buf;
    const Type *type = i == 0 ? wgmma_a_type(s, dot) : v->type;
    if (buf) v = load_buf(b, buf, type);
    return i == 0 ? convert_to(b, v, type) : store_operand(s, b, v, 0);
}

static void start_product(Feeds *f, Op *dot) {
    Async *s = f->s;
    Builder b = build_before(s->ir, dot);
    const Type *sum = result(dot, 0)->type, *pending = ty_pending(s->ir, sum);
    Value *a = wgmma_operand(f, &b, dot, 0), *bb = wgmma_operand(f, &b, dot, 1);
    Value *c = dot->n_operands > 2 ? operand(dot, 2) : build_zero(&b, sum);
    Op *start = build_op(&b, OP_MMA_START, 3, (Value *[]){a, bb, c}, 1, &pending, 0);
    op_copy_attr(s->ir, start, dot, ATTR_UNIT);
    op_copy_attr(s->ir, start, dot, ATTR_PARTIAL_SUM_K);
    Value *p = result(start, 0);
    Op *await = build_op(&b, OP_AWAIT, 1, &p, 1, &sum, 0);
    value_replace(result(dot, 0), result(await, 0));
    op_erase(dot);
}

/* ---- the pass ------------------------------------------------------------------------------ */

/// Erases a staged load, or an op that renames its positions, once it has no uses.
static void erase_unused(Op *op, void *arg) {
    (void)arg;
    if ((op->code == OP_LOAD || renames_registers(op)) && !value_has_uses(result(op, 0)))
        op_erase(op);
}

static void make_copies_async(Async *s) {
    Feeds f = {.s = s};
    op_walk_pre(s->device, collect_dot, &f);
    for (int i = 0; i < f.dots.n; i++)
        for (int o = 0; o < 2; o++) consider_operand(&f, f.dots.data[i], o);
    make_shared_room(&f);
    group_feeds(&f);
    for (int g = 0; g < f.n_groups; g++) build_ring(&f, g);
    for (int i = 0; i < f.staged.n; i++)
        if (f.staged.data[i].ahead) load_all_ahead(&f, i);
    for (int i = 0; i < f.dots.n; i++) {
        if (is_wgmma(f.dots.data[i])) {
            start_product(&f, f.dots.data[i]);
        } else {
            load_operand(&f, f.dots.data[i], 0);
            load_operand(&f, f.dots.data[i], 1);
        }
    }
    // Each round erases the last op of the chain that begins with the load.
    for (int i = 0; i < 3 && f.staged.n; i++) op_walk_post(s->device, erase_unused, NULL);
    bool tma = false;
    for (int i = 0; i < f.staged.n; i++) tma |= f.staged.data[i].how.tma;
    if (tma) // if a launch has tensor maps, it can make one more for stores
        stage_stores(s);
    else
        keep_adds(s, f.dots.n > 0);
    if (s->notes.n) op_set_strs(s->ir, s->device, A_COPY_NOTES, s->notes.data, s->notes.n);
}

void pass_async(PassEnv *env, Op *module) {
    if (!env->gpu) return;
    for_each_op(op, module->regions[0]) {
        Async s = {.env = env, .ir = env->ir, .ctx = ir_ctx(env->ir), .target = env->gpu};
        s.module = module;
        s.device = op;
        if (op->code == OP_DEVICE) make_copies_async(&s);
    }
}
