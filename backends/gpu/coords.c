// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Coordinates of elements. Each combines a part of the thread, computed once in the function's
// head, with a constant of the register.
#include "backends/gpu/lower.h"

#include <string.h>

/* ---- maps of bits -------------------------------------------------------------------------- */

static LLVMValueRef shift_by(GpuFn *f, LLVMValueRef x, int left) {
    LLVMBuilderRef b = f->g->b;
    if (left > 0) return LLVMBuildShl(b, x, gpu_i32(f, left), "");
    return left < 0 ? LLVMBuildLShr(b, x, gpu_i32(f, -left), "") : x;
}

/// Returns the columns of m that have bit j + shift in column j: a diagonal of the matrix.
static Bits diagonal_columns(const F2 *m, int shift) {
    Bits mask = 0;
    for (int j = 0; j < m->n; j++)
        if (j + shift >= 0 && m->col[j] >> (j + shift) & 1) mask |= bit(j);
    return mask;
}

/// A diagonal takes a mask and a shift, and the layouts of matrix units have few diagonals.
LLVMValueRef gpu_image(GpuFn *f, LLVMValueRef x, const F2 *m) {
    LLVMBuilderRef b = f->g->b;
    LLVMValueRef sum = NULL;
    Bits reached = 0;
    for (int shift = -31; shift < 32; shift++) {
        Bits mask = diagonal_columns(m, shift), rows = shift < 0 ? mask >> -shift : mask << shift;
        if (!mask) continue;
        bool top = (mask | low_bits(shift < 0 ? -shift : 0)) == low_bits(m->n);
        LLVMValueRef part = x;
        if (!top) part = LLVMBuildAnd(b, x, gpu_i32(f, (int64_t)mask), "");
        part = shift_by(f, part, shift);
        if (!sum)
            sum = part;
        else
            sum = rows & reached ? LLVMBuildXor(b, sum, part, "") : LLVMBuildOr(b, sum, part, "");
        reached |= rows;
    }
    return sum ? sum : gpu_i32(f, 0);
}

LLVMValueRef gpu_thread_number(GpuFn *f, bool ctas) {
    return ctas ? f->cluster_thread : f->thread;
}

LLVMValueRef gpu_is_first_thread(GpuFn *f) {
    return LLVMBuildICmp(f->g->b, LLVMIntEQ, f->cluster_thread, gpu_i32(f, 0), "");
}

LLVMValueRef gpu_parity(GpuFn *f, Bits mask) {
    LLVMBuilderRef b = f->g->b;
    LLVMValueRef x = gpu_thread_number(f, mask >= (Bits)f->threads);
    x = LLVMBuildAnd(b, x, gpu_i32(f, (int64_t)mask), "");
    if (bit_count(mask) > 1)
        x = LLVMBuildAnd(b, gen_call1(f->g, "llvm.ctpop", x), gpu_i32(f, 1), "");
    return LLVMBuildICmp(b, LLVMIntNE, x, gpu_i32(f, 0), "");
}

/* ---- coordinates --------------------------------------------------------------------------- */

/// The thread's part of coordinate d of a layout.
typedef struct ThreadCoord {
    const Layout *layout;
    int d;
    Bits reaches;       // the bits that it can have
    LLVMValueRef value; // NULL: 0
} ThreadCoord;

static F2 thread_map(const Layout *l, int d) {
    int first = l->bits[LEVEL_REG], base = layout_base(l, d);
    F2 m = {.n = layout_thread_bits(l)};
    for (int j = 0; j < m.n; j++) m.col[j] = l->col[first + j] >> base & low_bits(l->log2[d]);
    return m;
}

static const ThreadCoord *find_thread_coord(GpuFn *f, const Layout *l, int d) {
    for (int i = 0; i < f->coords.n; i++)
        if (f->coords.data[i]->layout == l && f->coords.data[i]->d == d) return f->coords.data[i];
    ThreadCoord *c = ctx_new(f->ctx, ThreadCoord);
    F2 m = thread_map(l, d);
    c->layout = l;
    c->d = d;
    for (int j = 0; j < m.n; j++) c->reaches |= m.col[j];
    if (c->reaches) {
        GpuPlace back = gpu_to_head(f);
        c->value = gpu_image(f, gpu_thread_number(f, l->bits[LEVEL_CTA] > 0), &m);
        gpu_from_head(f, back);
    }
    vec_push(f->ctx, &f->coords, c);
    return c;
}

void gpu_coord_numbers(const Layout *l, int64_t reg, int64_t *coords) {
    layout_at(l, reg, 0, coords);
}

bool gpu_coord_parts(GpuFn *f, const Layout *l, int64_t reg, int d, LLVMValueRef *thread,
                     int64_t *number) {
    const ThreadCoord *c = find_thread_coord(f, l, d);
    int64_t x[MAX_RANK];
    layout_at(l, reg, 0, x);
    *thread = c->value;
    *number = x[d];
    return !((Bits)x[d] & low_bits(l->log2[d]) & c->reaches);
}

LLVMValueRef gpu_coord(GpuFn *f, const Layout *l, int64_t reg, int d) {
    LLVMValueRef thread;
    int64_t number;
    bool sum = gpu_coord_parts(f, l, reg, d, &thread, &number);
    if (!thread) return gpu_i32(f, number);
    if (!number) return thread;
    if (sum) return LLVMBuildAdd(f->g->b, thread, gpu_i32(f, number), "");
    int64_t low = number & (int64_t)low_bits(l->log2[d]);
    LLVMValueRef x = LLVMBuildXor(f->g->b, thread, gpu_i32(f, low), "");
    return number == low ? x : LLVMBuildAdd(f->g->b, x, gpu_i32(f, number - low), "");
}

/* ---- holes and owners ---------------------------------------------------------------------- */

bool gpu_always_hole(const Layout *l, int64_t reg) {
    int64_t x[MAX_RANK];
    layout_at(l, reg, 0, x);
    for (int d = 0; d < l->rank; d++) {
        Bits reach = 0;
        F2 m = thread_map(l, d);
        for (int j = 0; j < m.n; j++) reach |= m.col[j];
        // Clearing the bits that threads reach gives the smallest coordinate of any thread.
        if ((x[d] & ~(int64_t)reach) >= l->extents[d]) return true;
    }
    return false;
}

LLVMValueRef gpu_not_hole(GpuFn *f, const Layout *l, int64_t reg) {
    LLVMValueRef good = NULL;
    for (int d = 0; d < l->rank; d++) {
        int64_t x[MAX_RANK];
        layout_at(l, reg, 0, x);
        const ThreadCoord *c = find_thread_coord(f, l, d);
        if ((x[d] | (int64_t)c->reaches) < l->extents[d]) continue;
        LLVMValueRef end = gpu_i32(f, l->extents[d]);
        good = gen_and(f->g, good,
                       LLVMBuildICmp(f->g->b, LLVMIntULT, gpu_coord(f, l, reg, d), end, ""));
    }
    return good;
}

/// Returns an i1: the bits of the thread's number that distinguish copies are 0. NULL: no copies
/// exist.
static LLVMValueRef is_first_copy(GpuFn *f, Bits copies, bool ctas) {
    if (!copies) return NULL;
    LLVMValueRef x =
        LLVMBuildAnd(f->g->b, gpu_thread_number(f, ctas), gpu_i32(f, (int64_t)copies), "");
    return LLVMBuildICmp(f->g->b, LLVMIntEQ, x, gpu_i32(f, 0), "");
}

LLVMValueRef gpu_owner(GpuFn *f, const Layout *l) {
    return is_first_copy(f, layout_owner(l), l->bits[LEVEL_CTA] > 0);
}

LLVMValueRef gpu_cta_owner(GpuFn *f, const Layout *l) {
    int threads = l->bits[LEVEL_LANE] + l->bits[LEVEL_WARP];
    return is_first_copy(f, layout_owner(l) & low_bits(threads), false);
}
