// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Blocks in shared memory, element by element: block_elements.h.
#include "backends/gpu/block_elements.h"

#include <string.h>

LLVMValueRef gpu_block_elements(GpuFn *f, const Layout *l, int64_t reg, const int64_t *strides) {
    const Gen *g = f->g;
    LLVMValueRef sum = gpu_i32(f, 0);
    int64_t fixed = 0;
    for (int d = 0; d < l->rank; d++) {
        LLVMValueRef thread;
        int64_t number;
        if (gpu_coord_parts(f, l, reg, d, &thread, &number))
            fixed += number * strides[d];
        else
            thread = gpu_coord(f, l, reg, d);
        if (thread) sum = gen_add(g, sum, gen_mul(g, thread, gpu_i32(f, strides[d])));
    }
    return gen_add(g, sum, gpu_i32(f, fixed));
}

LLVMValueRef gpu_writes(GpuFn *f, const Layout *l, int64_t reg) {
    return gen_and(f->g, gpu_cta_owner(f, l), gpu_not_hole(f, l, reg));
}

/* ---- elements ------------------------------------------------------------------------------ */

/// Every thread fills the same number of elements, so a fill may end beyond `count`.
static int64_t room_of_rounds(const GpuFn *f, int64_t count) {
    return ceil_div(count, f->threads) * f->threads;
}

int64_t gpu_elements_bytes(const GpuFn *f, Elem elem, int64_t count) {
    return room_of_rounds(f, count) * elem_bytes(elem);
}

GpuFlat gpu_elements_alloc(GpuFn *f, Elem elem, int64_t count) {
    LLVMValueRef base = gpu_shared_alloc(f, gpu_elements_bytes(f, elem, count), 16);
    return (GpuFlat){.base = base, .elem = elem, .count = count};
}

static LLVMValueRef flat_element_address(GpuFn *f, const GpuFlat *s, LLVMValueRef at) {
    int bytes = elem_bytes(s->elem);
    return gpu_offset(f, s->base, gen_mul(f->g, at, gpu_i32(f, bytes)));
}

void gpu_elements_store(GpuFn *f, const GpuFlat *s, LLVMValueRef at, LLVMValueRef on,
                        LLVMValueRef x) {
    gpu_store_shared_if(f, s->elem, flat_element_address(f, s, at), 1, &x, on);
}

LLVMValueRef gpu_elements_load(GpuFn *f, const GpuFlat *s, LLVMValueRef at) {
    LLVMValueRef x;
    gpu_load_vector(f, s->elem, flat_element_address(f, s, at), 1, &x);
    return x;
}

enum { UNROLLED_FILL = 8 };

void gpu_elements_fill(GpuFn *f, const GpuFlat *s, LLVMValueRef x) {
    int64_t rounds = ceil_div(s->count, f->threads);
    for (int64_t i = 0; i < rounds && rounds <= UNROLLED_FILL; i++)
        gpu_elements_store(f, s, gen_add(f->g, f->thread, gpu_i32(f, i * f->threads)), NULL, x);
    if (rounds <= UNROLLED_FILL) return;
    GpuLoop l = gpu_loop(f, f->thread, gpu_i32(f, rounds * f->threads), f->threads, 0, NULL);
    gpu_elements_store(f, s, l.index, NULL, x);
    gpu_loop_end(f, &l, NULL);
}

/* ---- pieces -------------------------------------------------------------------------------- */

GpuPieces gpu_pieces(GpuFn *f, int64_t count, int64_t size, int n, LLVMValueRef *init) {
    GpuPieces p = {.count = count, .size = size, .carried = init};
    if (count <= size) return p;
    p.loop = gpu_loop(f, gpu_i32(f, 0), gpu_i32(f, count), size, n, init);
    p.first = p.loop.index;
    p.carried = p.loop.phi;
    gpu_barrier(f); // the previous piece has been read
    return p;
}

LLVMValueRef gpu_in_piece(GpuFn *f, const GpuPieces *p, LLVMValueRef at, LLVMValueRef *on) {
    if (!p->first) return at;
    at = LLVMBuildSub(f->g->b, at, p->first, "");
    LLVMValueRef in = LLVMBuildICmp(f->g->b, LLVMIntULT, at, gpu_i32(f, p->size), "");
    *on = gen_and(f->g, *on, in);
    return at;
}

void gpu_pieces_end(GpuFn *f, GpuPieces *p, LLVMValueRef *next) {
    if (!p->first) {
        p->carried = next;
        return;
    }
    gpu_loop_end(f, &p->loop, next);
    p->carried = p->loop.phi;
}

/// Threads without an element in a piece read the first place. A CTA of a cluster has only some of
/// the elements, so it may have written nothing there.
static void write_first(GpuFn *f, const GpuFlat *flat) {
    LLVMValueRef zero = gpu_i32(f, 0),
                 first = LLVMBuildICmp(f->g->b, LLVMIntEQ, f->thread, zero, "");
    gpu_elements_store(f, flat, zero, first, gen_zero(f->g, flat->elem, 0));
    gpu_barrier(f);
}

/// In row-major order: one thread writes each element, and every thread that needs it reads it.
void gpu_move_in_pieces(GpuFn *f, const Layout *from, const Layout *to, Elem elem,
                        LLVMValueRef *const in, LLVMValueRef *out) {
    int64_t strides[MAX_RANK], count = 1, piece = GPU_PIECE_BYTES / elem_bytes(elem);
    int n = (int)layout_registers(to);
    for (int d = 0; d < from->rank; d++) count *= from->extents[d];
    gpu_row_major(from->rank, from->extents, strides);
    for (int r = 0; r < n; r++) out[r] = LLVMConstNull(LLVMTypeOf(in[0]));
    GpuFlat flat = gpu_elements_alloc(f, elem, count < piece ? count : piece);
    if (f->kernel->cluster > 1) write_first(f, &flat);
    GpuPieces p = gpu_pieces(f, count, piece, n, out);
    LLVMValueRef *next = ctx_copy(f->ctx, p.carried, (size_t)n * sizeof *next);
    for (int64_t r = 0; r < layout_registers(from); r++) {
        if (gpu_always_hole(from, r)) continue;
        LLVMValueRef on = gpu_writes(f, from, r);
        LLVMValueRef at = gpu_in_piece(f, &p, gpu_block_elements(f, from, r, strides), &on);
        gpu_elements_store(f, &flat, at, on, in[r]);
    }
    gpu_barrier(f);
    for (int r = 0; r < n; r++) {
        if (gpu_always_hole(to, r)) continue;
        LLVMValueRef on = gpu_not_hole(f, to, r);
        LLVMValueRef at = gpu_in_piece(f, &p, gpu_block_elements(f, to, r, strides), &on);
        if (on) at = LLVMBuildSelect(f->g->b, on, at, gpu_i32(f, 0), "");
        LLVMValueRef x = gpu_elements_load(f, &flat, at);
        next[r] = on ? LLVMBuildSelect(f->g->b, on, x, next[r], "") : x;
    }
    gpu_pieces_end(f, &p, next);
    memcpy(out, p.carried, (size_t)n * sizeof *out);
}
