// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// `convert`: carries out the plan of layout_convert.
#include "backends/gpu/block_elements.h"

#include <string.h>

/* ---- within threads and warps -------------------------------------------------------------- */

/// For each swap: in threads of odd parity, register r takes the value of r ^ reg.
static void swap_registers(GpuFn *f, int n, const ConvertSwap *swaps, int bits,
                           LLVMValueRef *regs) {
    LLVMValueRef *old = ctx_array(f->ctx, LLVMValueRef, (int64_t)1 << bits);
    for (int i = 0; i < n; i++) {
        LLVMValueRef odd = gpu_parity(f, swaps[i].mask);
        memcpy(old, regs, sizeof *old << bits);
        for (int64_t r = 0; r < (int64_t)1 << bits; r++)
            regs[r] = gen_select(f->g, odd, old[r ^ (int64_t)swaps[i].reg], old[r]);
    }
}

/// A lane reads, in each round, from the lane that is the xor of two parts: the image of the
/// thread, and a part of the round.
typedef struct ConvertRound {
    GpuFn *f;
    const Conversion *c;
    const Layout *to;
    Elem elem;
    bool own;          // the image of each lane is the lane itself
    LLVMValueRef lane; // the image of the thread (i32)
} ConvertRound;

static ConvertRound exchange_of(GpuFn *f, const Conversion *c, const Layout *to, Elem elem) {
    ConvertRound x = {.f = f, .c = c, .to = to, .elem = elem, .own = true};
    for (int j = 0; j < c->from_thread.n; j++)
        x.own &= c->from_thread.col[j] == (j < to->bits[LEVEL_LANE] ? bit(j) : 0);
    if (!x.own) x.lane = gpu_image(f, f->thread, &c->from_thread);
    return x;
}

/// Shuffles n values that travel together in one round.
static void shuffle_round(const ConvertRound *x, int64_t round, int n, LLVMValueRef *const in,
                          LLVMValueRef *out) {
    GpuFn *f = x->f;
    int64_t part = (int64_t)f2_apply(&x->c->from_round, (Bits)round);
    if (convert_stays(x->c, x->to, round)) {
        memcpy(out, in, sizeof *in * (size_t)n);
    } else if (x->own) {
        gpu_shuffle(f, "xor", gpu_i32(f, part), x->elem, n, in, out);
    } else {
        LLVMValueRef lane = LLVMBuildXor(f->g->b, x->lane, gpu_i32(f, part), "");
        gpu_shuffle(f, "idx", lane, x->elem, n, in, out);
    }
}

/// Returns the threads in which parity(thread & extra[i].mask) is bit i of e for all i.
static LLVMValueRef threads_that_keep(GpuFn *f, const Conversion *c, int e) {
    LLVMValueRef all = NULL;
    for (int i = 0; i < c->n_extra; i++) {
        LLVMValueRef p = gpu_parity(f, c->extra[i].mask);
        if (!(e >> i & 1)) p = LLVMBuildNot(f->g->b, p, "");
        all = gen_and(f->g, all, p);
    }
    return all;
}

enum { MAX_PACK = 8 };

/// Runs the rounds whose numbers are `first` ^ any sum of pack bits, each of them 2^n_extra times.
static void exchange_rounds(const ConvertRound *x, int64_t first, LLVMValueRef *const from,
                            LLVMValueRef *to) {
    GpuFn *f = x->f;
    const Conversion *c = x->c;
    int n = 0;
    int64_t rounds[MAX_PACK];
    for (Bits sub = 0;; sub = (sub - c->pack) & c->pack) {
        rounds[n++] = first ^ (int64_t)sub;
        if (sub == c->pack) break;
    }
    for (int e = 0; e < 1 << c->n_extra; e++) {
        LLVMValueRef in[MAX_PACK], out[MAX_PACK];
        Bits more = 0;
        for (int i = 0; i < c->n_extra; i++)
            if (e >> i & 1) more ^= c->extra[i].reg;
        for (int i = 0; i < n; i++) in[i] = from[f2_apply(&c->send, (Bits)rounds[i]) ^ more];
        shuffle_round(x, first, n, in, out);
        LLVMValueRef mine = e ? threads_that_keep(f, c, e) : NULL;
        for (int i = 0; i < n; i++)
            to[rounds[i]] = mine ? gen_select(f->g, mine, out[i], to[rounds[i]]) : out[i];
    }
}

static void convert_near(GpuFn *f, const Conversion *c, const Op *op) {
    const Layout *from = gpu_layout(f, operand(op, 0)), *to = gpu_layout(f, result(op, 0));
    ConvertRound x = exchange_of(f, c, to, result(op, 0)->type->elem);
    LLVMValueRef *in = gpu_block(f, operand(op, 0)), *out = gpu_new_block(f, result(op, 0));
    int from_bits = from->bits[LEVEL_REG], to_bits = to->bits[LEVEL_REG];
    LLVMValueRef *regs = ctx_array(f->ctx, LLVMValueRef, (int64_t)1 << from_bits);
    for (int64_t repeat = 0; repeat < layout_repeats(to); repeat++) {
        memcpy(regs, in + (repeat << from_bits), sizeof *regs << from_bits);
        swap_registers(f, c->n_before, c->before, from_bits, regs);
        LLVMValueRef *got = out + (repeat << to_bits);
        for (int64_t n = 0; n < (int64_t)1 << to_bits; n++)
            if (!((Bits)n & c->pack)) exchange_rounds(&x, n, regs, got);
        swap_registers(f, c->n_after, c->after, to_bits, got);
    }
}

/* ---- through shared memory ----------------------------------------------------------------- */

static void wait_at_scope(GpuFn *f, const Op *op, LayoutLevel scope) {
    if (scope == LEVEL_CTA) ice(f->ctx, op->loc, "a conversion between the CTAs of a cluster");
    if (scope == LEVEL_LANE)
        gpu_warp_sync(f);
    else
        gpu_barrier(f);
}

static void convert_far(GpuFn *f, const Conversion *c, const Op *op) {
    const Value *x = operand(op, 0), *y = result(op, 0);
    const SharedLayout *s = &c->shared;
    if (s->bytes > gpu_shared_room(f) && c->scope != LEVEL_CTA) {
        gpu_move_in_pieces(f, gpu_layout(f, x), gpu_layout(f, y), x->type->elem, gpu_block(f, x),
                           gpu_new_block(f, y));
        return;
    }
    LLVMValueRef base = gpu_shared_alloc(f, s->bytes, s->align);
    gpu_shared_write(f, gpu_layout(f, x), s, &c->write, base, x->type->elem, gpu_block(f, x));
    wait_at_scope(f, op, c->scope);
    gpu_shared_read(f, gpu_layout(f, y), s, &c->read, base, y->type->elem, gpu_new_block(f, y));
}

/* ---- through shared memory, read by ldmatrix ----------------------------------------------- */

// The units of shared_cost: slots of an instruction, and of a line of 128 bytes.
enum { ACCESS_SLOTS = 2, LINE_SLOTS = 4, BARRIER_SLOTS = 60, MATRICES = 4, MAX_BYTES = 16 };

/// An instruction reads four matrices, one line each.
static double matrix_read_slots(const SharedMatrix *m) {
    double instructions = (double)((int64_t)1 << m->n_base) / MATRICES;
    return instructions * (ACCESS_SLOTS + LINE_SLOTS * MATRICES * m->conflicts);
}

/// Tries swizzled rows along `inner` that `to` can read as matrices. Returns the cost, or 0 if
/// impossible.
static double try_rows(const Layout *from, const Layout *to, int elem_bytes, int inner, int outer,
                       SharedLayout *s) {
    SharedMatrix m;
    SharedAccess a;
    int swizzle = shared_swizzle_for(to->extents[inner] * elem_bytes);
    if (to->extents[inner] * elem_bytes % swizzle || to->extents[outer] % 8) return 0;
    *s = shared_swizzled(elem_bytes, to->rank, to->extents, inner, outer, swizzle);
    if (!shared_matrix(to, s, &m)) return 0;
    shared_access(from, s, MAX_BYTES, &a);
    return shared_cost(from, s, &a, BANKS_IN_ORDER, false) + matrix_read_slots(&m) + BARRIER_SLOTS;
}

/// Whether extents are powers of two, without holes.
static bool is_filled(const Layout *l) {
    for (int d = 0; d < l->rank; d++)
        if (l->odd[d] != 1 || layout_box(l, d) != l->extents[d]) return false;
    return true;
}

/// Returns false if another way is cheaper, or if matrices cannot do it.
static bool convert_to_matrices(GpuFn *f, const Conversion *c, const Op *op) {
    const Layout *from = gpu_layout(f, operand(op, 0)), *to = gpu_layout(f, result(op, 0));
    Elem elem = result(op, 0)->type->elem;
    SharedLayout s, best;
    double least = c->cost;
    bool found = false;
    if (!gpu_has(f->target, GPU_MMA)) return false;
    if (to->rank != 2 || !is_filled(from) || !is_filled(to)) return false;
    for (int inner = 0; inner < 2; inner++) {
        double cost = try_rows(from, to, elem_bytes(elem), inner, 1 - inner, &s);
        if (!cost || cost >= least) continue;
        best = s;
        least = cost;
        found = true;
    }
    if (!found) return false;
    SharedAccess a;
    LLVMValueRef base = gpu_shared_alloc(f, best.bytes, best.align);
    shared_access(from, &best, MAX_BYTES, &a);
    gpu_shared_write(f, from, &best, &a, base, elem, gpu_block(f, operand(op, 0)));
    gpu_barrier(f);
    if (!gpu_read_matrices(f, to, &best, base, elem, gpu_new_block(f, result(op, 0))))
        ice(f->ctx, op->loc, "matrices that cannot be read");
    return true;
}

void gpu_lower_convert(GpuFn *f, Op *op) {
    const Value *x = operand(op, 0), *y = result(op, 0);
    Conversion c =
        layout_convert(gpu_layout(f, x), gpu_layout(f, y), elem_bytes(x->type->elem) * 8);
    if (c.kind == CONVERT_NONE)
        gpu_set_block(f, y, gpu_block(f, x));
    else if (c.kind < CONVERT_SHARED)
        convert_near(f, &c, op);
    else if (!convert_to_matrices(f, &c, op))
        convert_far(f, &c, op);
}
