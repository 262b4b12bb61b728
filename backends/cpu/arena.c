// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Blocks in memory: allocates them in the thread's arena, and reads and writes vectors of them.
// Offsets are chosen while emitting: a buffer takes the first free gap.
#include "backends/cpu/emit.h"

enum { ALIGNMENT = 64 };

/// A used range of the arena.
typedef struct Stretch {
    int64_t offset, bytes;
} Stretch;

typedef struct ArenaPlan {
    VEC(Stretch) used;  // sorted by offset
    VEC(int64_t) owned; // offsets that the end of a scope frees
    PtrMap results;     // Value -> Buffer, assigned in advance
    int64_t size;
} ArenaPlan;

struct ArenaPlan *arena_plan_new(Ctx *ctx) {
    return ctx_new(ctx, ArenaPlan);
}

// Vector loads may read past the end of the last row, by up to the widest vector.
int64_t arena_size(const Emit *e) {
    return e->space->size ? e->space->size + 16 * ALIGNMENT : 0;
}

/// Two used ranges never overlap. A fault of the allocation ends the compiler here, so that no
/// block silently overwrites another one.
static void check_apart(const Emit *e, int at) {
    const ArenaPlan *a = e->space;
    Stretch s = a->used.data[at];
    bool apart = at + 1 == a->used.n || s.offset + s.bytes <= a->used.data[at + 1].offset;
    if (!apart || s.offset + s.bytes > a->size)
        ice(e->ctx, (Loc){0}, "two blocks share memory of the arena");
}

static int64_t take_stretch(Emit *e, int64_t bytes) {
    ArenaPlan *a = e->space;
    bytes = ceil_div(bytes, ALIGNMENT) * ALIGNMENT;
    int64_t offset = 0;
    int at = 0;
    for (; at < a->used.n; at++) {
        Stretch s = a->used.data[at];
        if (s.offset - offset >= bytes) break;
        offset = s.offset + s.bytes;
    }
    vec_push(e->ctx, &a->used, ((Stretch){0}));
    for (int i = a->used.n - 1; i > at; i--) a->used.data[i] = a->used.data[i - 1];
    a->used.data[at] = (Stretch){offset, bytes};
    if (offset + bytes > a->size) a->size = offset + bytes;
    check_apart(e, at);
    return offset;
}

/// Fills a freed range with a pattern that is NaN in every float type, so that a read of it shows
/// in results.
static void spoil_stretch(Emit *e, Stretch s) {
    const Gen *g = e->g;
    if (!e->cpu->fill) return;
    LLVMValueRef at = gen_offset(g, e->arena, gen_i64(g, s.offset));
    LLVMBuildMemSet(g->b, at, LLVMConstInt(g->i8, FILL_BYTE, false), gen_i64(g, s.bytes),
                    ALIGNMENT);
}

void arena_end(Emit *e) {
    for (int i = 0; i < e->space->used.n; i++) spoil_stretch(e, e->space->used.data[i]);
}

void arena_release(Emit *e, int64_t offset) {
    ArenaPlan *a = e->space;
    if (e->g->debug) return; // a debugger reads blocks until the end
    for (int i = 0; i < a->used.n; i++) {
        if (a->used.data[i].offset != offset) continue;
        spoil_stretch(e, a->used.data[i]);
        for (; i + 1 < a->used.n; i++) a->used.data[i] = a->used.data[i + 1];
        a->used.n--;
        return;
    }
}

LLVMValueRef arena_bytes(Emit *e, int64_t bytes, int64_t *offset) {
    *offset = take_stretch(e, bytes > 0 ? bytes : 1);
    return gen_offset(e->g, e->arena, gen_i64(e->g, *offset));
}

LLVMValueRef arena_keep(Emit *e, int64_t bytes, int64_t *offset) {
    ArenaPlan *a = e->space;
    Stretch s = {a->size, ceil_div(bytes, ALIGNMENT) * ALIGNMENT};
    vec_push(e->ctx, &a->used, s);
    a->size += s.bytes;
    *offset = s.offset;
    return gen_offset(e->g, e->arena, gen_i64(e->g, s.offset));
}

int arena_mark(const Emit *e) {
    return e->space->owned.n;
}

void arena_forget(Emit *e, int mark) {
    ArenaPlan *a = e->space;
    while (a->owned.n > mark) arena_release(e, a->owned.data[--a->owned.n]);
}

/* ---- buffers ------------------------------------------------------------------------------- */

/// Returns the contiguous axis: the last one of extent above 1.
static int contiguous_row_axis(int rank, const int64_t *extents) {
    for (int d = rank - 1; d >= 0; d--)
        if (extents[d] > 1) return d;
    return -1;
}

Buffer *buffer_new(Emit *e, Elem elem, int rank, const int64_t *extents) {
    Buffer *b = ctx_new(e->ctx, Buffer);
    b->elem = elem;
    b->rank = rank;
    int row = contiguous_row_axis(rank, extents);
    int64_t unit = e->cpu->target.vector_bytes / elem_bytes(elem), n = 1;
    for (int d = rank - 1; d >= 0; d--) {
        b->extents[d] = extents[d];
        b->strides[d] = n;
        n *= d == row ? ceil_div(extents[d], unit) * unit : extents[d];
    }
    b->bytes = n * elem_bytes(elem);
    b->memory = arena_bytes(e, b->bytes, &b->offset);
    b->scope = e->inmost;
    return b;
}

void buffer_free(Emit *e, Buffer *b) {
    arena_release(e, b->offset);
    b->freed = true;
}

LLVMValueRef buffer_base(Emit *e, const Buffer *b) {
    if (b->freed || !scope_is_open(b->scope))
        ice(e->ctx, (Loc){0}, "a block's memory is used behind the loop or branch that it is of");
    return b->memory;
}

void assign_result(Emit *e, const Value *v, Buffer *b) {
    map_set(e->ctx, &e->space->results, v, b);
}

Buffer *result_buffer(Emit *e, Value *v) {
    Buffer *b = map_get(&e->space->results, v);
    if (!b) {
        b = buffer_new(e, v->type->elem, v->type->rank, v->type->extents);
        vec_push(e->ctx, &e->space->owned, b->offset);
    }
    bind_buffer(e, v, b);
    return b;
}

Buffer *buffer_of(Emit *e, Value *v) {
    Buffer *b = bound_buffer(e, v);
    if (b) return b;
    b = result_buffer(e, v);
    bind_buffer(e, v, NULL); // still lazy while it is computed
    nest_add(e, (Root){.kind = ROOT_BUFFER, .value = v, .out = b});
    nest_flush(e);
    return b;
}

/* ---- vectors in memory --------------------------------------------------------------------- */

static LLVMValueRef element_offset(Emit *e, const Buffer *b, const LLVMValueRef *at) {
    LLVMValueRef n = gen_i64(e->g, 0);
    for (int d = 0; d < b->rank; d++)
        n = gen_add(e->g, n, gen_mul(e->g, at[d], gen_i64(e->g, b->strides[d])));
    return n;
}

LLVMValueRef buffer_address(Emit *e, const Buffer *b, const LLVMValueRef *at) {
    LLVMValueRef n = element_offset(e, b, at);
    return gen_offset(e->g, buffer_base(e, b),
                      gen_mul(e->g, n, gen_i64(e->g, elem_bytes(b->elem))));
}

/// Returns the guaranteed alignment of a vector in b's row. It is that of one element if the
/// coordinate along the row is not a constant multiple of the vector.
static unsigned buffer_alignment(const Buffer *b) {
    return (unsigned)elem_bytes(b->elem);
}

/// Returns pointers to the elements with the numbers n (an i64 vector), counted from base.
static LLVMValueRef element_pointers(Emit *e, const Buffer *b, LLVMValueRef n) {
    return LLVMBuildGEP2(e->g->b, gen_mem_elem(e->g, b->elem), buffer_base(e, b), &n, 1, "");
}

static LLVMValueRef buffer_lane_numbers(Emit *e, const Buffer *b, const Place *p) {
    LLVMValueRef first = gen_splat(e->g, element_offset(e, b, p->at), p->lanes);
    LLVMValueRef apart = gen_same(gen_i64(e->g, b->strides[p->axis]), p->lanes);
    return LLVMBuildAdd(e->g->b, first, LLVMBuildMul(e->g->b, gen_iota(e->g, p->lanes), apart, ""),
                        "");
}

LLVMValueRef buffer_pick(Emit *e, const Buffer *b, LLVMValueRef number, int live) {
    Gen *g = e->g;
    // Elements are stored row by row. Counting rows skips their padding.
    int row = contiguous_row_axis(b->rank, b->extents);
    if (row > 0) {
        int lanes = gen_lanes(number);
        int64_t used = b->extents[row], stride = 1;
        for (int d = row - 1; d >= 0; d--)
            if (b->extents[d] > 1) {
                stride = b->strides[d];
                break;
            }
        if (stride > used) {
            LLVMValueRef q = LLVMBuildUDiv(g->b, number, gen_same(gen_i64(g, used), lanes), "");
            LLVMValueRef gap = gen_same(gen_i64(g, stride - used), lanes);
            number = LLVMBuildAdd(g->b, number, LLVMBuildMul(g->b, q, gap, ""), "");
        }
    }
    LLVMTypeRef type = gen_mem_elem(g, b->elem);
    LLVMValueRef at = element_pointers(e, b, number), x;
    int lanes = gen_lanes(number);
    if (lanes)
        x = memory_gather(e, TENSOR_ARENA, type, at, gen_first_lanes(g, live, lanes), NULL);
    else
        x = memory_load(e, TENSOR_ARENA, type, at, buffer_alignment(b));
    return gen_from_memory(g, b->elem, x);
}

bool buffer_is_dense(const Buffer *b) {
    int64_t n = 1;
    for (int d = 0; d < b->rank; d++) n *= b->extents[d];
    return b->bytes == n * elem_bytes(b->elem);
}

LLVMValueRef buffer_run(Emit *e, const Buffer *b, LLVMValueRef number, int lanes) {
    Gen *g = e->g;
    LLVMValueRef bytes = gen_mul(g, number, gen_i64(g, elem_bytes(b->elem)));
    LLVMTypeRef type = gen_vec(gen_mem_elem(g, b->elem), lanes);
    LLVMValueRef x = memory_load(e, TENSOR_ARENA, type, gen_offset(g, buffer_base(e, b), bytes),
                                 buffer_alignment(b));
    return gen_from_memory(g, b->elem, x);
}

LLVMValueRef buffer_load(Emit *e, const Buffer *b, const Place *p) {
    Gen *g = e->g;
    LLVMTypeRef type = gen_mem_elem(g, b->elem);
    LLVMValueRef x;
    if (!p->lanes || b->strides[p->axis] == 1)
        x = memory_load(e, TENSOR_ARENA, gen_vec(type, p->lanes), buffer_address(e, b, p->at),
                        buffer_alignment(b));
    else
        x = memory_gather(e, TENSOR_ARENA, type,
                          element_pointers(e, b, buffer_lane_numbers(e, b, p)),
                          gen_first_lanes(g, p->live, p->lanes), NULL);
    return gen_from_memory(g, b->elem, x);
}

/// Whether a whole vector may be stored because its dead lanes lie in the padding of the row. A
/// vector with dead lanes is the last of its row, so it starts at extent - live.
static bool covers_vector(const Buffer *b, const Place *p) {
    if (p->live == p->lanes || b->exact) return p->live == p->lanes;
    int64_t row = b->bytes / elem_bytes(b->elem);
    for (int d = 0; d < p->axis; d++)
        if (b->extents[d] > 1) row = b->strides[d];
    return b->extents[p->axis] - p->live + p->lanes <= row;
}

void buffer_store(Emit *e, const Buffer *b, const Place *p, LLVMValueRef x) {
    Gen *g = e->g;
    x = gen_to_memory(g, b->elem, gen_splat(g, x, p->lanes));
    if (!p->lanes || (b->strides[p->axis] == 1 && covers_vector(b, p))) {
        memory_store(e, TENSOR_ARENA, x, buffer_address(e, b, p->at), buffer_alignment(b));
        return;
    }
    LLVMValueRef live = gen_first_lanes(g, p->live, p->lanes);
    if (b->strides[p->axis] == 1)
        memory_store_masked(e, TENSOR_ARENA, x, buffer_address(e, b, p->at), buffer_alignment(b),
                            live);
    else
        memory_scatter(e, TENSOR_ARENA, x, element_pointers(e, b, buffer_lane_numbers(e, b, p)),
                       live);
}
