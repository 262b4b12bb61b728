// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Buffers in shared memory, and what copies between them and global memory.
#include "backends/gpu/access.h"
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

void gpu_lower_buf_alloc(GpuFn *f, Op *op) {
    set_buf(f, result(op, 0), gpu_offset_by(f, f->shared, op_int(op, "offset", 0)));
}

void gpu_lower_buf_view(GpuFn *f, Op *op) {
    set_buf(f, result(op, 0), gpu_buf(f, operand(op, 0)));
}

/// Other threads may still be reading: the next temporary waits for them.
void gpu_lower_shared_free(GpuFn *f, Op *op) {
    (void)op;
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

void gpu_lower_buf_store(GpuFn *f, Op *op) {
    const Value *x = operand(op, 1);
    SharedLayout s = shared_of(operand(op, 0)->type);
    SharedAccess a;
    shared_access(gpu_layout(f, x), &s, COPY_BYTES, &a);
    gpu_shared_write(f, gpu_layout(f, x), &s, &a, gpu_buf(f, operand(op, 0)), x->type->elem,
                     gpu_block(f, x));
}

/* ---- from buffers to fragments ------------------------------------------------------------- */

static Bits sum_of(const Bits *x, int n, int64_t which) {
    Bits sum = 0;
    for (int i = 0; i < n; i++)
        if (which >> i & 1) sum ^= x[i];
    return sum;
}

/// Reading by ldmatrix: offsets of a thread's row address and of registers add up by xor.
typedef struct Matrices {
    SharedMatrix m;
    int pick; // matrices of one instruction: 2^pick, chosen by lane bits 3 and 4
    F2 map;   // bits of the thread to the offset of the row that it names
} Matrices;

/// Offsets are linear in the bits of coordinates: distances are powers of two.
static bool is_linear(const Layout *l, const SharedLayout *s) {
    for (int d = 0; d < s->rank; d++) {
        int64_t stride = s->stride[d], box = layout_box(l, d);
        if (l->odd[d] != 1 || box != l->extents[d]) return false;
        if (s->count[d] > 1 && (stride & (stride - 1)) != 0) return false;
    }
    return true;
}

/// The offset of the place that differs from the first one by these register and thread bits.
static Bits offset_of(const Layout *l, const SharedLayout *s, Bits reg, Bits thread) {
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
        x->map.col[i] = offset_of(l, s, reg, i < 5 ? lane : bit(i));
    }
    return true;
}

static void read_matrices(GpuFn *f, const Layout *l, const SharedLayout *s, const Matrices *x,
                          LLVMValueRef base, Elem elem, LLVMValueRef *regs) {
    Gen *g = f->g;
    int n = 1 << x->pick, each = 1 << x->m.word_bits;
    LLVMBasicBlockRef back = gpu_to_head(f);
    LLVMValueRef thread = gpu_image(f, f->thread, &x->map);
    gpu_from_head(f, back);
    base = gpu_shared_addr(f, base);
    const char *name = ctx_format(f->ctx, "tg.nv.ldmatrix.x%d%s", n, x->m.trans ? ".trans" : "");
    for (int64_t i = 0; i < (int64_t)1 << x->m.n_base; i += n) {
        Bits reg = sum_of(x->m.base, x->m.n_base, i);
        LLVMValueRef number = gpu_i32(f, (int64_t)offset_of(l, s, reg, 0));
        LLVMValueRef at = LLVMBuildAdd(g->b, base, LLVMBuildXor(g->b, thread, number, ""), "");
        LLVMValueRef words = gpu_call(f, name, 1, at), out[4];
        for (int k = 0; k < n; k++) {
            Bits first = reg ^ sum_of(x->m.base, x->pick, k);
            LLVMValueRef word = n > 1 ? LLVMBuildExtractValue(g->b, words, (unsigned)k, "") : words;
            gpu_from_words(f, elem, each, &word, out);
            for (int j = 0; j < each; j++)
                regs[first ^ sum_of(x->m.word, x->m.word_bits, j)] = out[j];
        }
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

/// How the threads share the 16-byte pieces of a buffer.
static const Layout *pieces_of(GpuFn *f, const Type *buf) {
    BlockAccess access = {.rank = buf->rank,
                          .elem_bits = elem_info[buf->elem].bits,
                          .extents = buf->extents,
                          .contiguous = buf->inner,
                          .align_bytes = COPY_BYTES,
                          .lane_bits = gpu_lane_bits(f->target),
                          .warp_bits = __builtin_ctz((unsigned)f->warps),
                          .max_bytes = COPY_BYTES};
    return layout_blocked(f->ctx, &access);
}

/// i32: how many of the piece's bytes are live. Dead elements are at its end.
static LLVMValueRef live_bytes(GpuAccess *p, const SharedAccess *a, int64_t reg) {
    Gen *g = p->f->g;
    int bytes = elem_info[p->elem].bits / 8;
    LLVMValueRef sum = gpu_i32(p->f, 0);
    for (int64_t j = 0; j < (int64_t)1 << a->vec_bits; j++) {
        LLVMValueRef live = gpu_access_live(p, reg ^ (int64_t)sum_of(a->vec, a->vec_bits, j));
        LLVMValueRef one = gpu_i32(p->f, bytes);
        if (live) one = LLVMBuildSelect(g->b, live, one, gpu_i32(p->f, 0), "");
        sum = LLVMBuildAdd(g->b, sum, one, "");
    }
    return sum;
}

void gpu_lower_copy_async(GpuFn *f, Op *op) {
    const Type *buf = operand(op, 1)->type;
    const Layout *l = pieces_of(f, buf);
    SharedLayout s = shared_of(buf);
    SharedAccess a;
    GpuAccess *p = gpu_access_in(f, op, l);
    GpuSharedMap m = gpu_shared_map(f, l, &s);
    shared_access(l, &s, COPY_BYTES, &a);
    int bytes = (elem_info[buf->elem].bits / 8) << a.vec_bits;
    const char *name = ctx_format(f->ctx, "tg.nv.cp.async.%d", bytes);
    for (int64_t i = 0; i < layout_repeats(l) << a.n_base; i++) {
        int64_t reg = i >> a.n_base << l->bits[LEVEL_REG] | (int64_t)sum_of(a.base, a.n_base, i);
        LLVMValueRef to = gpu_shared_addr(f, gpu_shared_at(f, &m, gpu_buf(f, operand(op, 1)), reg));
        gpu_call(f, name, 3, to, gpu_access_address(p, reg), live_bytes(p, &a, reg));
    }
}

/* ---- padding ------------------------------------------------------------------------------- */

/// Zeros for one vector; along it where the axis is that of neighbours, else all or nothing of it.
static void pad_vector(GpuFn *f, const Op *op, const Layout *l, const GpuSharedMap *m,
                       const SharedAccess *a, int64_t reg, LLVMValueRef count) {
    const Type *buf = operand(op, 0)->type;
    int axis = (int)op_int(op, "axis", 0), n = 1 << a->vec_bits;
    int step = axis == buf->inner ? 1 : n;
    LLVMValueRef zeros[COPY_BYTES];
    for (int j = 0; j < step; j++) zeros[j] = LLVMConstNull(gen_elem(f->g, buf->elem));
    for (int j = 0; j < n; j += step) {
        int64_t r = reg ^ (int64_t)sum_of(a->vec, a->vec_bits, j);
        LLVMValueRef dead = LLVMBuildICmp(f->g->b, LLVMIntSGE, gpu_coord(f, l, r, axis), count, "");
        LLVMValueRef p = gpu_shared_at(f, m, gpu_buf(f, operand(op, 0)), r);
        gpu_store_shared_if(f, buf->elem, p, step, zeros, dead);
    }
}

/// All threads know the count: where it is full nothing happens.
void gpu_lower_buf_pad(GpuFn *f, Op *op) {
    Gen *g = f->g;
    const Type *buf = operand(op, 0)->type;
    const Layout *l = pieces_of(f, buf);
    SharedLayout s = shared_of(buf);
    SharedAccess a;
    LLVMValueRef count = gpu_scalar(f, operand(op, 1));
    LLVMValueRef extent = gen_i64(g, buf->extents[op_int(op, "axis", 0)]);
    GpuSharedMap m = gpu_shared_map(f, l, &s);
    shared_access(l, &s, COPY_BYTES, &a);
    GpuIf i = gpu_if(f, LLVMBuildICmp(g->b, LLVMIntSLT, count, extent, ""));
    LLVMValueRef none = gen_i64(g, 0);
    count =
        LLVMBuildSelect(g->b, LLVMBuildICmp(g->b, LLVMIntSLT, count, none, ""), none, count, "");
    count = LLVMBuildTrunc(g->b, count, g->i32, "");
    for (int64_t k = 0; k < layout_repeats(l) << a.n_base; k++)
        pad_vector(f, op, l, &m, &a,
                   k >> a.n_base << l->bits[LEVEL_REG] | (int64_t)sum_of(a.base, a.n_base, k),
                   count);
    gpu_call(f, "tg.nv.fence.proxy.async.shared", 0);
    gpu_call(f, "tg.barrier", 0);
    gpu_else(f, &i);
    gpu_end_if(f, &i);
}

/* ---- TMA ----------------------------------------------------------------------------------- */

enum { TMA_ARGS = 5 + 5 };

/// One box: the elements of the buffer from `start` on, and coordinates in TMA's order, innermost
/// first: the dimension of neighbours, then the others from the last to the first.
static int box_coordinates(GpuFn *f, const Op *op, const int64_t *start, LLVMValueRef *out) {
    Gen *g = f->g;
    const Type *desc = operand(op, 0)->type;
    const int64_t *axes = op_attr(op, "axes")->ints;
    int n = 0;
    for (int i = -1; i < desc->rank; i++) {
        int d = i < 0 ? desc->inner : desc->rank - 1 - i;
        if (i >= 0 && d == desc->inner) continue;
        LLVMValueRef at = gpu_scalar(f, operand(op, 2 + d));
        at = LLVMBuildTrunc(g->b, at, g->i32, "");
        int64_t more = axes[d] < 0 ? 0 : start[axes[d]];
        out[n++] = more ? LLVMBuildAdd(g->b, at, gpu_i32(f, more), "") : at;
    }
    return n;
}

/// Extents of a box along the buffer's axes.
static void box_of(const Op *op, int64_t *box) {
    const Type *desc = operand(op, 0)->type;
    const int64_t *axes = op_attr(op, "axes")->ints;
    for (int d = 0; d < desc->rank; d++)
        if (axes[d] >= 0) box[axes[d]] = desc->extents[d];
}

/// Moves on to the next box of the buffer, the last axis fastest. False: there is none.
static bool next_box(const Type *buf, const int64_t *box, int64_t *start) {
    for (int d = buf->rank - 1; d >= 0; d--) {
        start[d] += box[d];
        if (start[d] < buf->extents[d]) return true;
        start[d] = 0;
    }
    return false;
}

static const GpuRing *ring_of(GpuFn *f, const Op *op) {
    const Op *acquire = def_of(operand(op, 1), OP_RING_ACQUIRE);
    if (!acquire) ice(f->ctx, op->loc, "a copy into a buffer that was not acquired");
    return gpu_ring(f, operand(acquire, 0));
}

void gpu_lower_copy_tma(GpuFn *f, Op *op) {
    const Type *buf = operand(op, 1)->type;
    const GpuRing *r = ring_of(f, op);
    SharedLayout s = shared_of(buf);
    int64_t start[MAX_RANK] = {0}, box[MAX_RANK];
    box_of(op, box);
    do {
        LLVMValueRef args[TMA_ARGS] = {gpu_block(f, operand(op, 0))[0]};
        int64_t at = shared_offset(&s, start);
        args[1] = gpu_shared_addr(f, gpu_offset_by(f, gpu_buf(f, operand(op, 1)), at));
        args[2] = r->full;
        args[3] = r->elected;
        int n = box_coordinates(f, op, start, args + 4);
        portable_call(f->g, ctx_format(f->ctx, "tg.nv.tma.load.%dd", n), 4 + n, args);
    } while (next_box(buf, box, start));
}

/// One lane of one warp stores; the bytes are those of a fence and a barrier before.
void gpu_lower_copyout_tma(GpuFn *f, Op *op) {
    Gen *g = f->g;
    const Type *buf = operand(op, 1)->type;
    SharedLayout s = shared_of(buf);
    int64_t start[MAX_RANK] = {0}, box[MAX_RANK];
    box_of(op, box);
    LLVMValueRef mine = LLVMBuildICmp(g->b, LLVMIntEQ, gpu_uniform_warp(f), gpu_i32(f, 0), "");
    GpuIf i = gpu_if(f, mine);
    LLVMValueRef elected = gpu_call(f, "tg.nv.elect", 0);
    do {
        LLVMValueRef args[TMA_ARGS] = {gpu_block(f, operand(op, 0))[0]};
        int64_t at = shared_offset(&s, start);
        args[1] = gpu_shared_addr(f, gpu_offset_by(f, gpu_buf(f, operand(op, 1)), at));
        args[2] = elected;
        int n = box_coordinates(f, op, start, args + 3);
        portable_call(g, ctx_format(f->ctx, "tg.nv.tma.store.%dd", n), 3 + n, args);
    } while (next_box(buf, box, start));
    gpu_call(f, "tg.nv.tma.commit", 0);
    gpu_else(f, &i);
    gpu_end_if(f, &i);
}
