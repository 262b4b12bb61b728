// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// alloc: gives buffers and rings their offsets in shared memory.
//
//   %B = buf_alloc; %r = ring_make  ->  %B = buf_alloc [offset = 0]; %r = ring_make [offset = ...]
//
// Buffers and rings that are live at the same time lie one after another. Each starts at a multiple
// of 1024 bytes, as the swizzle of panels requires. Buffers that are made after the last use of all
// earlier ones start at offset 0 again (shared_anew). `shared_free` stands after the last use.
#include "passes/gpu/async/async.h"

#include "passes/passes.h"

int64_t shared_room(int64_t bytes) {
    enum { ALIGN = 1024 };
    return (bytes + ALIGN - 1) / ALIGN * ALIGN;
}

static void place_buffer(Ir *ir, Op *op, int64_t *at, int64_t bytes) {
    op_set_int(ir, op, A_OFFSET, *at);
    *at += shared_room(bytes);
}

static void allocate_device(PassEnv *env, Op *device) {
    int64_t at = 0, most = 0;
    const Op *anew = shared_anew(device);
    Op *last = last_shared_use(device);
    for_each_op(op, device->regions[0]) {
        if (op == anew) at = 0;
        if (op->code == OP_BUF_ALLOC)
            place_buffer(env->ir, op, &at, buf_bytes(result(op, 0)->type));
        if (op->code == OP_RING_MAKE)
            place_buffer(env->ir, op, &at, ring_bytes(result(op, 0)->type));
        if (at > most) most = at;
    }
    if (!most) return;
    op_set_int(env->ir, device, A_SHARED_BYTES, most);
    Builder b = build_after(env->ir, last);
    build_op(&b, OP_SHARED_FREE, 0, NULL, 0, NULL, 0);
}

void pass_alloc(PassEnv *env, Op *module) {
    if (!env->gpu) return;
    for_each_op(op, module->regions[0]) {
        if (op->code == OP_DEVICE) allocate_device(env, op);
    }
}
