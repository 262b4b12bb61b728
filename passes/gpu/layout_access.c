// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Layouts for accesses to memory, and the cost of an access in any layout.
#include "passes/gpu/layouts.h"

// Costs in issue slots: of an instruction, of a line that a load reads through the first cache, and
// of a sector that a store writes past it (a partial sector costs as much as a whole one). The last
// constant is log2 of the lanes along a row of an operand of FMAs. With 2 lane bits across rows, a
// store of vectors uses all banks, since rows begin an odd number of vectors apart.
enum { FMA_ROW_LANES = 2 };
enum { WIDEST = 16, SECTOR = 32, LINE = 128, ACCESS_SLOTS = 2, LINE_SLOTS = 3, WRITE_SLOTS = 4 };

const Layout *default_layout(Layouts *s, const Type *type) {
    BlockAccess a = {.rank = type->rank,
                     .elem_bits = elem_info[type->elem].bits,
                     .extents = type->extents,
                     .contiguous = type->rank - 1,
                     .align_bytes = WIDEST,
                     .lane_bits = s->lane_bits,
                     .warp_bits = s->warp_bits,
                     .max_bytes = WIDEST,
                     .cta_bits = s->cta_bits};
    if (a.elem_bits < 8) a.elem_bits = 8;
    return layout_blocked(s->ctx, &a);
}

/// Returns the block's axis along which memory is contiguous, or -1.
static int contiguous_block_axis(const Access *a) {
    for (int d = 0; d < a->n_subs; d++)
        if (a->subs[d].kind == DIM_AXIS && a->subs[d].mul == 1 && a->tensor->type->strides[d] == 1)
            return a->axis_of[d];
    return -1;
}

/// Describes the block of the access. Without a stride of 1, lanes walk the last axis first.
static BlockAccess describe_access(const Access *a) {
    int bits = elem_info[a->tensor->type->elem].bits;
    return (BlockAccess){.rank = a->rank,
                         .elem_bits = bits < 8 ? 8 : bits,
                         .extents = a->extents,
                         .contiguous = contiguous_block_axis(a),
                         // Misaligned tensors are rare, and lowering also emits narrow accesses for
                         // them.
                         .align_bytes = WIDEST,
                         .max_bytes = WIDEST};
}

/// Accesses of the same shape and direction form a family. It gets one layout, so that no block is
/// converted between layouts. The layout suits vectors of the widest elements.
typedef struct Family {
    const Access *of;
    int inner, widest; // bits
} Family;

static void find_widest_access(Op *op, void *arg) {
    Family *f = arg;
    if (op->code != OP_LOAD && op->code != OP_STORE) return;
    Access a = access_of(op);
    bool same = a.rank == f->of->rank && contiguous_block_axis(&a) == f->inner;
    for (int d = 0; same && d < a.rank; d++) same = a.extents[d] == f->of->extents[d];
    int bits = elem_info[a.tensor->type->elem].bits;
    if (same && bits > f->widest) f->widest = bits;
}

/// Returns the axis along which v's rows lie in shared memory: the summed axis for AMD's units, the
/// last axis for FMAs (*fma). -1: v has other uses, or its uses need different axes.
static int shared_row_axis(const Value *v, bool *fma) {
    int axis = -1;
    if (v->type->rank != 2) return -1;
    for_each_use(u, v) {
        const Op *op = u->user;
        const GpuUnit *unit = op->code == OP_DOT ? gpu_unit_of(op) : NULL;
        int found = -1;
        if (op->code == OP_DOT && !unit && u->index < 2) found = 1, *fma = true;
        if (unit && unit->features & GPU_AMD && u->index < 2) found = !u->index;
        if (op->code == OP_CAST) found = shared_row_axis(result(op, 0), fma);
        if (op->code == OP_PERMUTE) {
            found = shared_row_axis(result(op, 0), fma);
            if (found >= 0) found = (int)op_ints(op, A_PERM)->ints[found];
        }
        if (found < 0 || (axis >= 0 && axis != found)) return -1;
        axis = found;
    }
    return axis;
}

const Layout *access_layout(Layouts *s, const Op *op) {
    Access a = access_of(op);
    BlockAccess b = describe_access(&a);
    bool fma = false;
    int rows = op->code == OP_LOAD ? shared_row_axis(result(op, 0), &fma) : -1;
    if (rows >= 0) b.pack = rows, b.pack_bytes = WIDEST;
    if (fma) b.pack_lanes = FMA_ROW_LANES;
    Family f = {&a, b.contiguous, b.elem_bits};
    op_walk_pre(s->device, find_widest_access, &f);
    b.max_bytes = WIDEST * b.elem_bits / f.widest;
    b.lane_bits = s->lane_bits;
    b.warp_bits = s->warp_bits;
    b.cta_bits = s->cta_bits;
    return layout_blocked(s->ctx, &b);
}

/// Returns how many runs of `unit` bytes the lanes of a warp touch in one access of `vector`
/// elements.
static double touched_runs(const Layout *l, int inner, int elem_bytes, int vector, int unit) {
    F2 lanes = layout_level(l, LEVEL_LANE);
    int low = 0;
    while ((elem_bytes << low) < unit) low++;
    int base = inner < 0 ? 0 : layout_base(l, inner);
    if (inner >= 0 && low > l->log2[inner]) low = l->log2[inner];
    for (int i = 0; inner >= 0 && i < lanes.n; i++) lanes.col[i] &= ~(low_bits(low) << base);
    double each = (double)elem_bytes * vector / unit;
    return (double)((int64_t)1 << f2_rank(&lanes)) * (each > 1 ? each : 1);
}

double access_cost(const Op *op, const Layout *l) {
    Access a = access_of(op);
    BlockAccess b = describe_access(&a);
    int bytes = b.elem_bits / 8, vector = 1;
    if (b.contiguous >= 0) {
        int bits = layout_vector(l, b.contiguous, NULL);
        while (bits > 0 && (bytes << bits) > WIDEST) bits--;
        vector = 1 << bits;
    }
    double accesses = (double)layout_registers(l) / vector;
    bool load = op->code == OP_LOAD;
    double parts = touched_runs(l, b.contiguous, bytes, vector, load ? LINE : SECTOR);
    return accesses * (ACCESS_SLOTS + (load ? LINE_SLOTS : WRITE_SLOTS) * parts);
}

const Layout *picks_layout(Ctx *ctx, const Op *op, const Layout *l) {
    Access a = access_of(op);
    for (int d = a.rank - 1; d >= 0; d--)
        if (d < a.pick_at || d >= a.pick_at + a.pick_rank) l = layout_slice(ctx, l, d, false);
    return l;
}
