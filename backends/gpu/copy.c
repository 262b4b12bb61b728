// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Buffers in shared memory, and copies between them and global memory.
#include "backends/gpu/access.h"
#include "backends/gpu/block_elements.h"
#include "backends/gpu/ring.h"

#include <string.h>

enum { COPY_BYTES = 16 };

/* ---- buffers ------------------------------------------------------------------------------- */

LLVMValueRef gpu_buf(GpuFn *f, const Value *v) {
    return gpu_block(f, v)[0];
}

static void set_buf(GpuFn *f, const Value *v, LLVMValueRef p) {
    LLVMValueRef *cell = ctx_array(f->ctx, LLVMValueRef, 1);
    *cell = p;
    gpu_set_block(f, v, cell);
}

/// Temporaries also avoid buffers after their `shared_free`.
void gpu_lower_buf_alloc(GpuFn *f, Op *op) {
    int64_t at = op_int(op, A_OFFSET, 0), end = at + shared_of(result(op, 0)->type).bytes;
    set_buf(f, result(op, 0), gpu_room_at(f, gpu_room(f, "buffer", at, end), at));
    if (end > f->shared_fixed) f->shared_fixed = end;
}

void gpu_lower_buf_view(GpuFn *f, Op *op) {
    LLVMValueRef p = gpu_buf(f, operand(op, 0));
    if (op_attr(op, ATTR_START)) {
        SharedLayout s = shared_of(operand(op, 0)->type);
        int d = operand(op, 0)->type->inner;
        int64_t panel = op_ints(op, A_START)->ints[d] >> s.log2[d];
        p = gpu_offset(f, p, gpu_i32(f, panel * s.stride[d]));
    }
    set_buf(f, result(op, 0), p);
}

/// Other threads may still be reading, so the next temporary must wait for them.
void gpu_lower_shared_free(GpuFn *f, Op *op) {
    (void)op;
    gpu_pair_barrier(f);
    f->shared_fixed = 0;
    f->any_stretch = true;
}

void gpu_lower_barrier(GpuFn *f, Op *op) {
    (void)op;
    gpu_barrier(f);
}

void gpu_lower_fence(GpuFn *f, Op *op) {
    (void)op;
    gpu_call(f, "tg.nv.fence.proxy.async.shared", 0);
}

/// Writes each thread's elements of block x to the buffer.
static void write_block_to_buf(GpuFn *f, const Value *x, const Value *buf) {
    SharedLayout s = shared_of(buf->type);
    SharedAccess a;
    shared_access(gpu_layout(f, x), &s, COPY_BYTES, &a);
    gpu_shared_write(f, gpu_layout(f, x), &s, &a, gpu_buf(f, buf), x->type->elem, gpu_block(f, x));
}

void gpu_lower_buf_store(GpuFn *f, Op *op) {
    write_block_to_buf(f, operand(op, 1), operand(op, 0));
}

/* ---- between buffers and fragments --------------------------------------------------------- */

static Bits xor_of_columns(const Bits *x, int n, int64_t which) {
    Bits sum = 0;
    for (int i = 0; i < n; i++)
        if (which >> i & 1) sum ^= x[i];
    return sum;
}

/// Access by ldmatrix and stmatrix: the offsets of a thread's row address and of registers combine
/// by xor.
typedef struct Matrices {
    SharedMatrix m;
    int pick; // matrices in an instruction: 2^pick, selected by lane bits 3 and 4
    F2 map;   // maps thread bits to the offset of the row that the thread names
} Matrices;

/// Whether offsets are linear in the bits of coordinates: all distances are powers of two.
static bool is_linear(const Layout *l, const SharedLayout *s) {
    for (int d = 0; d < s->rank; d++) {
        int64_t stride = s->stride[d], box = layout_box(l, d);
        if (l->odd[d] != 1 || box != l->extents[d]) return false;
        if (s->count[d] > 1 && (stride & (stride - 1)) != 0) return false;
    }
    return true;
}

/// Returns the offset of the place that differs from the first one by these register and thread
/// bits.
static Bits shared_offset_of_bits(const Layout *l, const SharedLayout *s, Bits reg, Bits thread) {
    int64_t x[MAX_RANK];
    layout_at(l, (int64_t)reg, (int64_t)thread, x);
    return (Bits)shared_offset(s, x);
}

static bool find_matrices(const Layout *l, const SharedLayout *s, Matrices *x) {
    if (!is_linear(l, s) || !shared_matrix(l, s, &x->m)) return false;
    x->pick = x->m.n_base < 2 ? x->m.n_base : 2;
    x->map.n = layout_thread_bits(l);
    for (int i = 0; i < x->map.n; i++) {
        Bits lane = i < 3 ? x->m.row_lane[i] : 0, reg = i < 3 ? x->m.row_reg[i] : 0;
        if (i >= 3 && i < 5 && i - 3 < x->pick) reg = x->m.base[i - 3];
        x->map.col[i] = shared_offset_of_bits(l, s, reg, i < 5 ? lane : bit(i));
    }
    return true;
}

/// Returns the part of the address that a thread names. Registers change it by xor.
static LLVMValueRef named_row(GpuFn *f, const Matrices *x) {
    GpuPlace back = gpu_to_head(f);
    LLVMValueRef thread = gpu_image(f, f->thread, &x->map);
    gpu_from_head(f, back);
    return thread;
}

/// Returns the address for the matrices from register `reg` on.
static LLVMValueRef matrices_at(GpuFn *f, const Layout *l, const SharedLayout *s, LLVMValueRef base,
                                LLVMValueRef thread, Bits reg) {
    LLVMValueRef number = gpu_i32(f, (int64_t)shared_offset_of_bits(l, s, reg, 0));
    return LLVMBuildAdd(f->g->b, base, LLVMBuildXor(f->g->b, thread, number, ""), "");
}

static void read_matrices(GpuFn *f, const Layout *l, const SharedLayout *s, const Matrices *x,
                          LLVMValueRef base, Elem elem, LLVMValueRef *regs) {
    Gen *g = f->g;
    int n = 1 << x->pick, each = 1 << x->m.word_bits;
    LLVMValueRef thread = named_row(f, x);
    base = gpu_shared_addr(f, base);
    const char *name = ctx_format(f->ctx, "tg.nv.ldmatrix.x%d%s", n, x->m.trans ? ".trans" : "");
    for (int64_t i = 0; i < (int64_t)1 << x->m.n_base; i += n) {
        Bits reg = xor_of_columns(x->m.base, x->m.n_base, i);
        LLVMValueRef words = gpu_call(f, name, 1, matrices_at(f, l, s, base, thread, reg)), out[4];
        for (int k = 0; k < n; k++) {
            Bits first = reg ^ xor_of_columns(x->m.base, x->pick, k);
            LLVMValueRef word = n > 1 ? LLVMBuildExtractValue(g->b, words, (unsigned)k, "") : words;
            gpu_from_words(f, elem, each, &word, out);
            for (int j = 0; j < each; j++)
                regs[first ^ xor_of_columns(x->m.word, x->m.word_bits, j)] = out[j];
        }
    }
}

static void write_matrices(GpuFn *f, const Layout *l, const SharedLayout *s, const Matrices *x,
                           LLVMValueRef base, Elem elem, LLVMValueRef *regs) {
    int n = 1 << x->pick, each = 1 << x->m.word_bits;
    LLVMValueRef thread = named_row(f, x), args[1 + 4], in[4];
    base = gpu_shared_addr(f, base);
    const char *name = ctx_format(f->ctx, "tg.nv.stmatrix.x%d%s", n, x->m.trans ? ".trans" : "");
    for (int64_t i = 0; i < (int64_t)1 << x->m.n_base; i += n) {
        Bits reg = xor_of_columns(x->m.base, x->m.n_base, i);
        args[0] = matrices_at(f, l, s, base, thread, reg);
        for (int k = 0; k < n; k++) {
            Bits first = reg ^ xor_of_columns(x->m.base, x->pick, k);
            for (int j = 0; j < each; j++)
                in[j] = regs[first ^ xor_of_columns(x->m.word, x->m.word_bits, j)];
            gpu_to_words(f, elem, each, in, args + 1 + k);
        }
        portable_call(f->g, name, 1 + n, args);
    }
}

bool gpu_read_matrices(GpuFn *f, const Layout *l, const SharedLayout *s, LLVMValueRef base,
                       Elem elem, LLVMValueRef *regs) {
    Matrices x = {.pick = 0};
    if (!gpu_has(f->target, GPU_MMA)) return false;
    if (!find_matrices(l, s, &x)) return false;
    read_matrices(f, l, s, &x, base, elem, regs);
    return true;
}

void gpu_lower_buf_load(GpuFn *f, Op *op) {
    const Value *y = result(op, 0);
    const Layout *l = gpu_layout(f, y);
    SharedLayout s = shared_of(operand(op, 0)->type);
    LLVMValueRef base = gpu_buf(f, operand(op, 0)), *regs = gpu_new_block(f, y);
    SharedAccess a;
    if (gpu_read_matrices(f, l, &s, base, y->type->elem, regs)) return;
    shared_access(l, &s, COPY_BYTES, &a);
    gpu_shared_read(f, l, &s, &a, base, y->type->elem, regs);
}

/* ---- cp.async ------------------------------------------------------------------------------ */

/// Returns the layout by which the threads share the pieces of a buffer, of `bytes` bytes each. It
/// may have copies or holes.
static const Layout *copy_pieces_layout(GpuFn *f, const Type *buf, int bytes) {
    BlockAccess access = {.rank = buf->rank,
                          .elem_bits = elem_info[buf->elem].bits,
                          .extents = buf->extents,
                          .contiguous = buf->inner,
                          .align_bytes = bytes,
                          .lane_bits = gpu_lane_bits(f->target),
                          .warp_bits = __builtin_ctz((unsigned)f->warps),
                          .max_bytes = bytes,
                          .whole = true};
    return layout_blocked(f->ctx, &access);
}

/// Returns the contiguous dimension of the buffer.
static int dim_along(const GpuAccess *p, const Type *buf) {
    for (int d = 0; d < p->a.n_subs; d++)
        if (p->a.subs[d].kind == DIM_AXIS && p->a.axis_of[d] == buf->inner) return d;
    return -1;
}

/// Returns an i32: the number of live bytes in a piece. Dead elements are at its end. Pieces of one
/// column share the part that does not depend on the row.
static LLVMValueRef live_bytes(GpuAccess *p, const SharedAccess *a, int along, int64_t reg) {
    Gen *g = p->f->g;
    int bytes = elem_info[p->elem].bits / 8;
    LLVMValueRef sum = gpu_i32(p->f, 0), none = sum;
    bool apart = along >= 0 && !p->masks;
    for (int64_t j = 0; j < (int64_t)1 << a->vec_bits; j++) {
        int64_t r = reg ^ (int64_t)xor_of_columns(a->vec, a->vec_bits, j);
        LLVMValueRef one = gpu_i32(p->f, bytes);
        LLVMValueRef live = apart ? gpu_access_live_along(p, r, bit(along)) : gpu_access_live(p, r);
        if (live) one = LLVMBuildSelect(g->b, live, one, none, "");
        sum = LLVMBuildAdd(g->b, sum, one, "");
    }
    LLVMValueRef row = apart ? gpu_access_live_besides(p, reg, bit(along)) : NULL;
    return row ? LLVMBuildSelect(g->b, row, sum, none, "") : sum;
}

void gpu_lower_copy_async(GpuFn *f, Op *op) {
    const Type *buf = operand(op, 1)->type;
    int bytes = (int)op_int(op, A_COPY_BYTES, COPY_BYTES);
    const Layout *l = copy_pieces_layout(f, buf, bytes);
    SharedLayout s = shared_of(buf);
    SharedAccess a;
    GpuAccess *p = gpu_access_in(f, op, l);
    GpuSharedMap m = gpu_shared_map(f, l, &s);
    int along = dim_along(p, buf);
    const char *copy = ctx_format(f->ctx, "tg.nv.cp.async.%d", bytes);
    shared_access(l, &s, bytes, &a);
    if (elem_info[buf->elem].bits / 8 << a.vec_bits != bytes)
        ice(f->ctx, op->loc, "pieces of a buffer that are not %d bytes", bytes);
    for (int64_t i = 0; i < layout_repeats(l) << a.n_base; i++) {
        int64_t reg =
            i >> a.n_base << l->bits[LEVEL_REG] | (int64_t)xor_of_columns(a.base, a.n_base, i);
        if (gpu_always_hole(l, reg)) continue;
        LLVMValueRef to = gpu_shared_addr(f, gpu_shared_at(f, &m, gpu_buf(f, operand(op, 1)), reg));
        LLVMValueRef on = gpu_writes(f, l, reg);
        if (!on) on = LLVMConstInt(f->g->i1, 1, false);
        gpu_call(f, copy, 4, to, gpu_access_address(p, reg), live_bytes(p, &a, along, reg), on);
    }
}

/* ---- padding ------------------------------------------------------------------------------- */

/// Writes zeros to one vector. If the pad's axis is the contiguous one, a part of the vector may be
/// padded; otherwise all of it is, or nothing.
static void pad_vector(GpuFn *f, const Op *op, const Layout *l, const GpuSharedMap *m,
                       const SharedAccess *a, int64_t reg, LLVMValueRef count) {
    const Type *buf = operand(op, 0)->type;
    int axis = (int)op_int(op, A_AXIS, 0), n = 1 << a->vec_bits;
    int step = axis == buf->inner ? 1 : n;
    LLVMValueRef zeros[COPY_BYTES];
    for (int j = 0; j < step; j++) zeros[j] = LLVMConstNull(gen_elem(f->g, buf->elem));
    for (int j = 0; j < n; j += step) {
        int64_t r = reg ^ (int64_t)xor_of_columns(a->vec, a->vec_bits, j);
        LLVMValueRef dead = LLVMBuildICmp(f->g->b, LLVMIntSGE, gpu_coord(f, l, r, axis), count, "");
        LLVMValueRef p = gpu_shared_at(f, m, gpu_buf(f, operand(op, 0)), r);
        LLVMValueRef on = gen_and(f->g, dead, gpu_writes(f, l, r));
        gpu_store_shared_if(f, buf->elem, p, step, zeros, on);
    }
}

/// All threads know the count. With a full count nothing happens.
void gpu_lower_buf_pad(GpuFn *f, Op *op) {
    Gen *g = f->g;
    const Type *buf = operand(op, 0)->type;
    const Layout *l = copy_pieces_layout(f, buf, COPY_BYTES);
    SharedLayout s = shared_of(buf);
    SharedAccess a;
    LLVMValueRef count = gpu_scalar(f, operand(op, 1));
    LLVMValueRef extent = gen_i64(g, buf->extents[op_int(op, A_AXIS, 0)]);
    GpuSharedMap m = gpu_shared_map(f, l, &s);
    shared_access(l, &s, COPY_BYTES, &a);
    GpuIf i = gpu_if(f, LLVMBuildICmp(g->b, LLVMIntSLT, count, extent, ""));
    LLVMValueRef none = gen_i64(g, 0);
    count =
        LLVMBuildSelect(g->b, LLVMBuildICmp(g->b, LLVMIntSLT, count, none, ""), none, count, "");
    count = LLVMBuildTrunc(g->b, count, g->i32, "");
    for (int64_t k = 0; k < layout_repeats(l) << a.n_base; k++)
        pad_vector(f, op, l, &m, &a,
                   k >> a.n_base << l->bits[LEVEL_REG] |
                       (int64_t)xor_of_columns(a.base, a.n_base, k),
                   count);
    gpu_call(f, "tg.nv.fence.proxy.async.shared", 0);
    gpu_barrier_here(f);
    gpu_else(f, &i);
    gpu_end_if(f, &i);
}

/* ---- TMA ----------------------------------------------------------------------------------- */

enum {
    TMA_ARGS = 5 + 5 + 1,
    BOTH = (1 << GPU_PAIR) - 1
}; // five operands, the coordinates, the CTAs

/// Lists the coordinates of op, operands from `first` on, in TMA's order, innermost first: the
/// contiguous dimension, then the others from the last to the first. Coordinates along axes of the
/// buffer advance by `more` (NULL: 0).
static int box_coordinates(GpuFn *f, const Op *op, int first, LLVMValueRef const *more,
                           LLVMValueRef *out) {
    Gen *g = f->g;
    const Type *desc = operand(op, 0)->type;
    const int64_t *axes = op_ints(op, A_AXES)->ints;
    int n = 0;
    for (int i = -1; i < desc->rank; i++) {
        int d = i < 0 ? desc->inner : desc->rank - 1 - i;
        if (i >= 0 && d == desc->inner) continue;
        LLVMValueRef at = gpu_scalar(f, operand(op, first + d));
        LLVMValueRef step = axes[d] < 0 ? NULL : more[axes[d]];
        at = LLVMBuildTrunc(g->b, at, g->i32, "");
        out[n++] = step ? LLVMBuildAdd(g->b, at, step, "") : at;
    }
    return n;
}

/// Converts the start of a box to values; NULL is 0.
static void box_start(GpuFn *f, const Type *buf, const int64_t *start, LLVMValueRef *more) {
    for (int d = 0; d < buf->rank; d++) more[d] = start[d] ? gpu_i32(f, start[d]) : NULL;
}

/// Returns the extents of a box along the buffer's axes.
static void box_of(const Op *op, int64_t *box) {
    const Type *desc = operand(op, 0)->type;
    const int64_t *axes = op_ints(op, A_AXES)->ints;
    for (int d = 0; d < desc->rank; d++)
        if (axes[d] >= 0) box[axes[d]] = desc->extents[d];
}

/// Advances to the next box of the buffer, the last axis fastest. Returns false after the last one.
static bool next_box(const Type *buf, const int64_t *box, int64_t *start) {
    for (int d = buf->rank - 1; d >= 0; d--) {
        start[d] += box[d];
        if (start[d] < buf->extents[d]) return true;
        start[d] = 0;
    }
    return false;
}

static const GpuRing *acquired_ring(GpuFn *f, const Op *op) {
    const Op *acquire = def_of(operand(op, 1), OP_RING_ACQUIRE);
    if (!acquire) ice(f->ctx, op->loc, "a copy into a buffer that was not acquired");
    return gpu_ring(f, operand(acquire, 0));
}

/// Returns an i1: this lane starts box number `box`, of the boxes that a pair of CTAs takes in
/// turns.
static LLVMValueRef starts_box(GpuFn *f, const GpuRing *r, int box) {
    Gen *g = f->g;
    LLVMValueRef rank = gpu_call(f, "tg.cluster.rank", 0);
    LLVMValueRef own = LLVMBuildICmp(g->b, LLVMIntEQ, rank, gpu_i32(f, box % GPU_PAIR), "");
    return LLVMBuildAnd(g->b, r->elected, own, "");
}

void gpu_lower_copy_tma(GpuFn *f, Op *op) {
    const Type *buf = operand(op, 1)->type;
    const GpuRing *r = acquired_ring(f, op);
    SharedLayout s = shared_of(buf);
    bool both = op_flag(op, A_MULTICAST);
    const char *name = both ? "tg.nv.tma.load.%dd.multicast" : "tg.nv.tma.load.%dd";
    int64_t start[MAX_RANK] = {0}, box[MAX_RANK];
    int number = 0;
    box_of(op, box);
    do {
        LLVMValueRef args[TMA_ARGS] = {gpu_block(f, operand(op, 0))[0]};
        int64_t at = shared_offset(&s, start);
        args[1] = gpu_shared_addr(f, gpu_offset_by(f, gpu_buf(f, operand(op, 1)), at));
        args[2] = r->full;
        args[3] = both ? starts_box(f, r, number++) : r->elected;
        LLVMValueRef more[MAX_RANK];
        box_start(f, buf, start, more);
        int n = box_coordinates(f, op, 2, more, args + 4);
        args[4 + n] = LLVMConstInt(f->g->i16, BOTH, false);
        portable_call(f->g, ctx_format(f->ctx, name, n), 4 + n + both, args);
    } while (next_box(buf, box, start));
}

/* ---- copies out ---------------------------------------------------------------------------- */

/// Returns the sum of the numbers whose bits are set in the warp's number (i32). NULL: all are 0.
static LLVMValueRef sum_of_warp(GpuFn *f, int n, const int64_t *numbers) {
    Gen *g = f->g;
    LLVMValueRef sum = NULL;
    for (int i = 0; i < n; i++) {
        if (!numbers[i]) continue;
        LLVMValueRef set = LLVMBuildLShr(g->b, gpu_uniform_warp(f), gpu_i32(f, i), "");
        set = LLVMBuildAnd(g->b, set, gpu_i32(f, 1), "");
        set = LLVMBuildMul(g->b, set, gpu_i32(f, numbers[i]), "");
        sum = sum ? LLVMBuildAdd(g->b, sum, set, "") : set;
    }
    return sum;
}

/// The offset of the warp's boxes from those of warp 0: bytes in the buffer, and along its axes.
typedef struct WarpPart {
    LLVMValueRef bytes, along[MAX_RANK]; // NULL: 0
    Bits bits;                           // bits of coordinates
} WarpPart;

static WarpPart warp_part(GpuFn *f, const Layout *l, const SharedLayout *s, const Op *op) {
    WarpPart w = {0};
    int64_t box[MAX_RANK], at[LAYOUT_MAX_BITS], along[MAX_RANK][LAYOUT_MAX_BITS];
    int n = l->bits[LEVEL_WARP], first = l->bits[LEVEL_LANE];
    if (!layout_warp_boxes(l, box, &w.bits)) ice(f->ctx, op->loc, "warps do not hold boxes");
    for (int i = 0; i < n; i++) {
        int64_t x[MAX_RANK];
        layout_at(l, 0, (int64_t)1 << (first + i), x);
        at[i] = shared_offset(s, x);
        for (int d = 0; d < l->rank; d++) along[d][i] = x[d];
    }
    w.bytes = sum_of_warp(f, n, at);
    for (int d = 0; d < l->rank; d++) w.along[d] = sum_of_warp(f, n, along[d]);
    return w;
}

/// Whether the box belongs to warp 0.
static bool is_of_first_warp(const Layout *l, Bits warp, const int64_t *start) {
    for (int d = 0; d < l->rank; d++) {
        Bits bits = (warp & layout_dim_mask(l, d)) >> layout_base(l, d);
        if ((Bits)start[d] & low_bits(l->log2[d]) & bits) return false;
    }
    return true;
}

static LLVMValueRef add_constant(GpuFn *f, LLVMValueRef x, int64_t n) {
    if (!x) return n ? gpu_i32(f, n) : NULL;
    return n ? LLVMBuildAdd(f->g->b, x, gpu_i32(f, n), "") : x;
}

/// One lane starts the copies of its warp's boxes.
static void start_copies_out(GpuFn *f, const Op *op, const Layout *l, const SharedLayout *s) {
    const Type *buf = operand(op, 1)->type;
    WarpPart w = warp_part(f, l, s, op);
    int64_t start[MAX_RANK] = {0}, box[MAX_RANK];
    LLVMValueRef base = gpu_buf(f, operand(op, 1)), elected = gpu_call(f, "tg.nv.elect", 0);
    const char *how = op_flag(op, A_ADD) ? "add" : "store";
    if (w.bytes) base = gpu_offset(f, base, w.bytes);
    box_of(op, box);
    do {
        LLVMValueRef args[TMA_ARGS] = {gpu_block(f, operand(op, 0))[0]}, more[MAX_RANK];
        if (!is_of_first_warp(l, w.bits, start)) continue;
        args[1] = gpu_shared_addr(f, gpu_offset_by(f, base, shared_offset(s, start)));
        args[2] = elected;
        for (int d = 0; d < buf->rank; d++) more[d] = add_constant(f, w.along[d], start[d]);
        int n = box_coordinates(f, op, 3, more, args + 3);
        portable_call(f->g, ctx_format(f->ctx, "tg.nv.tma.%s.%dd", how, n), 3 + n, args);
    } while (next_box(buf, box, start));
    gpu_call(f, "tg.nv.tma.commit", 0);
}

/// Each warp reads only its own part of the buffer, so no warp waits for another.
void gpu_lower_copyout_tma(GpuFn *f, Op *op) {
    const Value *x = operand(op, 2);
    const Layout *l = gpu_layout(f, x);
    SharedLayout s = shared_of(operand(op, 1)->type);
    Matrices m = {.pick = 0};
    const Attr *younger = op_attr(op, ATTR_IN_FLIGHT);
    if (younger) {
        gpu_call(f, ctx_format(f->ctx, "tg.nv.tma.wait.read.%d", (int)younger->i), 0);
        gpu_warp_sync(f);
    }
    if (find_matrices(l, &s, &m))
        write_matrices(f, l, &s, &m, gpu_buf(f, operand(op, 1)), x->type->elem, gpu_block(f, x));
    else
        write_block_to_buf(f, x, operand(op, 1));
    gpu_call(f, "tg.nv.fence.proxy.async.shared", 0);
    gpu_warp_sync(f);
    start_copies_out(f, op, l, &s);
}
