// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Operands of products by warpgroups: their layouts, buffers and bytes in shared memory.
#include "passes/gpu/async/async.h"

#include <string.h>

bool is_wgmma(const Op *dot) {
    const GpuUnit *unit = gpu_unit_of(dot);
    return unit && unit->features & GPU_WGMMA;
}

bool wgmma_takes(const Type *buf, int k_axis) {
    return elem_info[buf->elem].bits == 16 || buf->inner == k_axis;
}

/// Warps along rows of the result hold different rows of A. Warps along its columns hold copies.
const Layout *wgmma_a_layout(Ctx *ctx, Elem elem, const int64_t *extents, const Layout *d) {
    const char *name = ctx_format(ctx, "wgmma.m64k%d", 256 / elem_info[elem].bits);
    const FragmentRow *row = fragment_find(name, FRAG_A);
    if (!row) ice(ctx, (Loc){0}, "there is no fragment %s", name);
    Bits columns = layout_dim_mask(d, 1);
    int first = layout_first(d, LEVEL_WARP), warps[2] = {1, 1};
    for (int i = 2; i < d->bits[LEVEL_WARP]; i++)
        if (d->col[first + i] & ~columns) warps[0] *= 2;
    Layout l = *layout_tile(ctx, fragment_layout(ctx, row), extents, warps);
    int at = layout_first(&l, LEVEL_WARP);
    Bits own[LAYOUT_MAX_BITS];
    memcpy(own, l.col + at, sizeof *own * l.bits[LEVEL_WARP]);
    for (int i = 0, next = 0; i < d->bits[LEVEL_WARP]; i++)
        l.col[at + i] = d->col[first + i] & ~columns ? own[next++] : 0;
    l.bits[LEVEL_WARP] = d->bits[LEVEL_WARP];
    return layout_unique(ctx, &l);
}

/* ---- bytes --------------------------------------------------------------------------------- */

int64_t buf_bytes(const Type *buf) {
    SharedLayout s = shared_of(buf);
    return (s.bytes + 1023) / 1024 * 1024; // panels of 128 bytes start at multiples of 1024
}

int64_t ring_bytes(const Type *ring) {
    int64_t bytes = 0;
    for (int i = 0; i < ring->n_parts; i++) bytes += buf_bytes(ring->parts[i]);
    return ring->slots * bytes + RING_WORDS * 8 * (int64_t)ring->slots;
}

static bool is_shared_operand(const Value *v) {
    return v->type->kind == TK_BUF || v->type->kind == TK_RING || v->type->kind == TK_PENDING;
}

static void seek_use(Op *op, void *found) {
    for (int i = 0; i < op->n_operands; i++) *(bool *)found |= is_shared_operand(operand(op, i));
    for (int i = 0; i < op->n_results; i++) *(bool *)found |= is_shared_operand(result(op, i));
}

static void seek_older(Op *op, void *arg) {
    const Op **alloc = arg;
    for (int i = 0; i < op->n_operands; i++) {
        const Op *def = is_shared_operand(operand(op, i)) ? operand(op, i)->def : NULL;
        if (def && *alloc && def->parent == (*alloc)->parent && op_before(def, *alloc))
            *alloc = NULL;
    }
}

Op *shared_anew(const Op *device) {
    bool older = false;
    for_each_op(op, device->regions[0]) {
        if (op->code == OP_BUF_ALLOC && older) {
            const Op *alloc = op;
            for (Op *later = op; later; later = later->next) op_walk_pre(later, seek_older, &alloc);
            if (alloc) return op;
        }
        older |= op->code == OP_BUF_ALLOC || op->code == OP_RING_MAKE;
    }
    return NULL;
}

Op *last_shared_use(const Op *device) {
    Op *last = NULL, *anew = shared_anew(device);
    for_each_op(op, device->regions[0]) {
        bool found = false;
        if (op == anew) break;
        op_walk_pre(op, seek_use, &found);
        if (found) last = op;
    }
    return last;
}

int64_t shared_in_use(const Op *device) {
    int64_t sum = 0;
    const Op *anew = shared_anew(device);
    for_each_op(op, device->regions[0]) {
        if (op == anew) break;
        if (op->code == OP_BUF_ALLOC) sum += buf_bytes(result(op, 0)->type);
        if (op->code == OP_RING_MAKE) sum += ring_bytes(result(op, 0)->type);
    }
    return sum;
}
