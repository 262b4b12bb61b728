// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Layouts for accesses to memory, and what an access costs in another one.
#include "passes/gpu/layouts.h"

// Slots: of an instruction, and of a sector that is read (again, mostly, from the first cache) or
// written (past it: parts of a sector cost as much as the whole).
enum { WIDEST = 16, SECTOR = 32, ACCESS_SLOTS = 2, READ_SLOTS = 1, WRITE_SLOTS = 4 };

const Layout *default_layout(Layouts *s, const Type *type) {
    BlockAccess a = {.rank = type->rank,
                     .elem_bits = elem_info[type->elem].bits,
                     .extents = type->extents,
                     .contiguous = type->rank - 1,
                     .align_bytes = WIDEST,
                     .lane_bits = s->lane_bits,
                     .warp_bits = s->warp_bits,
                     .max_bytes = WIDEST};
    if (a.elem_bits < 8) a.elem_bits = 8;
    return layout_blocked(s->ctx, &a);
}

/// The axis of the block along which memory is contiguous, or -1.
static int contiguous_axis(const Access *a) {
    for (int d = 0; d < a->n_subs; d++)
        if (a->subs[d].kind == DIM_AXIS && a->subs[d].mul == 1 && a->tensor->type->strides[d] == 1)
            return a->axis_of[d];
    return -1;
}

/// The block of the access. Where no stride is known to be 1, the last axis is walked first.
static BlockAccess describe(const Access *a) {
    int bits = elem_info[a->tensor->type->elem].bits;
    return (BlockAccess){.rank = a->rank,
                         .elem_bits = bits < 8 ? 8 : bits,
                         .extents = a->extents,
                         .contiguous = contiguous_axis(a),
                         // Misaligned tensors are rare, and lowering has narrow accesses for them.
                         .align_bytes = WIDEST,
                         .max_bytes = WIDEST};
}

const Layout *access_layout(Layouts *s, const Op *op) {
    Access a = access_of(op);
    BlockAccess b = describe(&a);
    b.lane_bits = s->lane_bits;
    b.warp_bits = s->warp_bits;
    return layout_blocked(s->ctx, &b);
}

/// Sectors of memory that the lanes of a warp touch with one access of `vector` elements.
static double sectors(const Layout *l, int inner, int elem_bytes, int vector) {
    F2 lanes = layout_level(l, LEVEL_LANE);
    int low = 0;
    while ((elem_bytes << low) < SECTOR) low++;
    int base = inner < 0 ? 0 : layout_base(l, inner);
    if (inner >= 0 && low > l->log2[inner]) low = l->log2[inner];
    for (int i = 0; inner >= 0 && i < lanes.n; i++) lanes.col[i] &= ~(low_bits(low) << base);
    double each = (double)elem_bytes * vector / SECTOR;
    return (double)((int64_t)1 << f2_rank(&lanes)) * (each > 1 ? each : 1);
}

double access_cost(const Op *op, const Layout *l) {
    Access a = access_of(op);
    BlockAccess b = describe(&a);
    int bytes = b.elem_bits / 8, vector = 1;
    if (b.contiguous >= 0) {
        int bits = layout_vector(l, b.contiguous, NULL);
        while (bits > 0 && (bytes << bits) > WIDEST) bits--;
        vector = 1 << bits;
    }
    double accesses = (double)layout_registers(l) / vector;
    int sector = op->code == OP_LOAD ? READ_SLOTS : WRITE_SLOTS;
    return accesses * (ACCESS_SLOTS + sector * sectors(l, b.contiguous, bytes, vector));
}

const Layout *picks_layout(Ctx *ctx, const Op *op, const Layout *l) {
    Access a = access_of(op);
    for (int d = a.rank - 1; d >= 0; d--)
        if (d < a.pick_at || d >= a.pick_at + a.pick_rank) l = layout_slice(ctx, l, d, false);
    return l;
}
