// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Blocks that feed products on targets without a copy engine: they go to shared memory through
// registers, one iteration ahead.
//
//   for %k { %x = load %a, %k; %d = dot (convert %x), ... }
//   ->
//   %B = buf_alloc; buf_store %B, (load %a, %lo); barrier
//   for %k { %y = load %a, %k + step; %d = dot (buf_load %B), ...
//            barrier; buf_store %B, %y; barrier }
//
// The loads run while products compute. Only the stores after the products wait for them.
#include "passes/gpu/async/async.h"

/// Whether the extents have enough factors of two for vector accesses of each thread.
static bool has_vector_rows(const Type *t, int inner) {
    enum { ROWS = 8, LEAST_BYTES = 32 };
    int64_t bytes = t->extents[inner] * elem_info[t->elem].bits / 8;
    return bytes % LEAST_BYTES == 0 && t->extents[!inner] % ROWS == 0;
}

const Type *register_copy_buf(Async *s, const Op *load, const Op *loop, const Layout *reader) {
    const Type *t = result(load, 0)->type;
    if (!gpu_has_any(s->target, GPU_AMD) || s->env->check || loop->code != OP_FOR) return NULL;
    if (t->rank != 2 || elem_info[t->elem].bits < 8 || !load_may_go_ahead(load, loop)) return NULL;
    if (!reader || !t->layout) return NULL;
    if (!has_vector_rows(t, 0) && !has_vector_rows(t, 1)) return NULL;
    SharedLayout shared =
        shared_between(t->layout, reader, elem_info[t->elem].bits / 8, gpu_banks(s->target), true);
    return ty_buf_laid(s->ir, t->elem, shared_registers(s->ctx, &shared), 1);
}

static bool has_shared_room(Async *s, Op *loop, int n, const Type *const *types) {
    int64_t bytes = shared_in_use(s->device) + lowering_bytes(s->ctx, loop, NULL);
    for (int i = 0; i < n; i++) bytes += buf_bytes(types[i]);
    return bytes <= s->target->shared_cta;
}

static void store_all(Builder *b, int n, Value *const *bufs, Value *const *blocks) {
    for (int i = 0; i < n; i++)
        build_op(b, OP_BUF_STORE, 2, (Value *[]){bufs[i], blocks[i]}, 0, NULL, 0);
    build_op(b, OP_BARRIER, 0, NULL, 0, NULL, 0);
}

bool load_through_registers(Async *s, Op *loop, int n, Op *const *loads, const Type *const *types,
                            Value **bufs) {
    Value *first[LOADS_AHEAD], *next[LOADS_AHEAD];
    if (!has_shared_room(s, loop, n, types)) return false;
    Builder top = build_before(s->ir, s->device->regions[0]->first);
    for (int i = 0; i < n; i++)
        bufs[i] = result(build_op(&top, OP_BUF_ALLOC, 0, NULL, 1, &types[i], 0), 0);
    Builder before = build_before(s->ir, loop);
    Value *lo = operand(loop, 0), *some = build_binary(&before, OP_LT, lo, operand(loop, 1)), *more;
    load_iteration_if(s->ctx, &before, loop, n, loads, some, lo, first);
    store_all(&before, n, bufs, first);
    Builder start = build_before(s->ir, loop->regions[0]->first);
    Value *index = next_iteration(&start, loop, &more);
    for (int i = 0; i < n; i++) next[i] = load_of_iteration(s->ctx, &start, loop, loads[i], index);
    Builder end = build_before(s->ir, terminator(loop->regions[0]));
    build_op(&end, OP_BARRIER, 0, NULL, 0, NULL, 0);
    store_all(&end, n, bufs, next);
    return true;
}
