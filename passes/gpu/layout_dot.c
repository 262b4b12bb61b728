// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Layouts of the operands and results of products.
//
// The warps of a CTA form a grid over the result, rows x columns. Warps along an operand's own
// dimension hold different parts of it; warps along the other dimension hold copies.
#include "passes/gpu/layouts.h"

#include "passes/util.h"

#include <string.h>

enum { MAX_DEPTH = 64 };

/// The warps (as bits) along rows and columns. The rest compute copies.
typedef struct WarpGrid {
    int m, n, copies;
} WarpGrid;

static int log2_floor(int64_t x) {
    return x > 1 ? 63 - __builtin_clzll((uint64_t)x) : 0;
}

/// Whether a reduction of v along `axis`, or a product that sums along it, follows soon. Then each
/// warp should hold whole lines of v.
static bool wants_lines(const Value *v, int axis, int depth) {
    if (depth == 0) return false;
    for_each_use(u, v) {
        const Op *op = u->user, *outer = op->parent->parent;
        if (op->code == OP_YIELD && outer->code == OP_IF &&
            wants_lines(result(outer, u->index), axis, depth - 1))
            return true;
        if (op->code == OP_REDUCE && op_int(op, A_AXIS, 0) == axis) return true;
        if (op->code == OP_DOT && u->index == !axis) return true;
        bool flips = op->code == OP_PERMUTE;
        bool same = op->n_results == 1 && result(op, 0)->type->rank == 2 &&
                    (op_has(op, ELEMENTWISE) || op->code == OP_CAST || op->code == OP_SELECT);
        if ((same || flips) && result(op, 0)->type->rank == 2 &&
            wants_lines(result(op, 0), flips ? !axis : axis, depth - 1))
            return true;
    }
    return false;
}

static bool is_amd(const Op *dot) {
    const GpuUnit *unit = gpu_unit_of(dot);
    return unit && unit->features & GPU_AMD;
}

/// Whether v is computed lane by lane from a product's result with whole lines across `axis`: rows,
/// or columns for AMD's units, which multiply transposed.
static bool has_lines(const Value *v, int axis, int depth) {
    const Op *op = v->def;
    if (!op || depth == 0) return false;
    if (op->code == OP_DOT) return axis == is_amd(op);
    for (int r = 0; op->code == OP_IF && r < 2; r++)
        if (has_lines(operand(terminator(op->regions[r]), v->index), axis, depth - 1)) return true;
    bool flips = op->code == OP_PERMUTE;
    if (!op_has(op, ELEMENTWISE) && op->code != OP_CAST && op->code != OP_SELECT && !flips)
        return false;
    for (int i = 0; i < op->n_operands; i++)
        if (has_lines(operand(op, i), flips ? !axis : axis, depth - 1)) return true;
    return false;
}

bool dot_keeps_rows(const Op *dot) {
    return wants_lines(result(dot, 0), 1, MAX_DEPTH) || dot_takes_product(dot);
}

bool dot_takes_product(const Op *dot) {
    return has_lines(operand(dot, 0), 0, MAX_DEPTH);
}

/// The lines of the result that each warp should hold whole.
typedef enum WholeLines { WHOLE_NONE, WHOLE_ROWS, WHOLE_COLUMNS } WholeLines;

static WholeLines whole_lines(const Op *dot) {
    const Value *y = result(dot, 0);
    if (dot_keeps_rows(dot)) return WHOLE_ROWS;
    // Only AMD's products take columns from registers, as their right operand.
    if (is_amd(dot) && (wants_lines(y, 0, MAX_DEPTH) || has_lines(operand(dot, 1), 1, MAX_DEPTH)))
        return WHOLE_COLUMNS;
    return WHOLE_NONE;
}

/// Chooses the grid with the fewest copies. On ties, warps get the squarest part, which reads least
/// of the operands, or whole lines.
static WarpGrid warp_grid(int bits, int64_t tiles_m, int64_t tiles_n, int64_t m, int64_t n,
                          WholeLines whole) {
    WarpGrid best = {0, 0, bits};
    int64_t least = INT64_MAX;
    for (int wm = 0; wm <= bits && (wm == 0 || (int64_t)1 << wm <= tiles_m); wm++) {
        int room = log2_floor(tiles_n), wn = bits - wm < room ? bits - wm : room;
        int64_t read = (m >> wm) + (n >> wn);
        int copies = bits - wm - wn;
        if (whole == WHOLE_ROWS) read = wn;
        if (whole == WHOLE_COLUMNS) read = wm;
        if (copies > best.copies || (copies == best.copies && read >= least)) continue;
        best = (WarpGrid){wm, wn, copies};
        least = read;
    }
    return best;
}

/// Returns the layout with the warps at their place in the grid: columns in the lowest bits, then
/// rows, then copies. l has only the warps of its own dimensions; `before` and `after` are bits of
/// warps that hold copies.
static const Layout *over_grid(Ctx *ctx, const Layout *l, int before, int after) {
    Layout r = *l;
    int first = layout_first(l, LEVEL_WARP), own = l->bits[LEVEL_WARP];
    memset(r.col + first, 0, sizeof r.col - (size_t)first * sizeof *r.col);
    for (int i = 0; i < own; i++) r.col[first + before + i] = l->col[first + i];
    r.bits[LEVEL_WARP] = (uint8_t)(before + own + after);
    return layout_unique(ctx, &r);
}

static DotLayouts unit_layouts(Layouts *s, const Op *op, const GpuUnit *unit) {
    const Type *a = operand(op, 0)->type, *b = operand(op, 1)->type, *d = result(op, 0)->type;
    int64_t m = d->extents[0], n = d->extents[1];
    int64_t tiles_m = (m + unit->m - 1) / unit->m, tiles_n = (n + unit->n - 1) / unit->n;
    WarpGrid g = warp_grid(s->warp_bits, tiles_m, tiles_n, m, n, whole_lines(op));
    int rows[] = {1 << g.m, 1}, columns[] = {1, 1 << g.n}, both[] = {1 << g.m, 1 << g.n};
    const Layout *la = layout_tile(s->ctx, gpu_fragment(s->ctx, unit, FRAG_A), a->extents, rows);
    const Layout *lb = layout_tile(s->ctx, gpu_fragment(s->ctx, unit, FRAG_B), b->extents, columns);
    const Layout *ld = layout_tile(s->ctx, gpu_fragment(s->ctx, unit, FRAG_D), d->extents, both);
    return (DotLayouts){over_grid(s->ctx, la, g.n, g.copies),
                        over_grid(s->ctx, lb, 0, g.m + g.copies),
                        over_grid(s->ctx, ld, 0, g.copies)};
}

/// Warpgroups share the rows, 64 at a time, as long as each gets the same number of rows. Further
/// warpgroups share the columns. The operands come from buffers, which end with the block, so no
/// tile may reach beyond it.
static DotLayouts warpgroup_layouts(Layouts *s, const Op *op, const GpuUnit *unit) {
    const Type *d = result(op, 0)->type;
    int bits = s->warp_bits - 2, m = __builtin_ctzll((uint64_t)(d->extents[0] / unit->m)), n = 0;
    if (bits < 0) ice(s->ctx, op->loc, "a product of warpgroups on %d warps", 1 << s->warp_bits);
    m = m < bits ? m : bits;
    while (m + n < bits && (d->extents[1] >> (n + 1)) % unit->n == 0) n++;
    int both[] = {1 << m, 1 << n};
    // The columns of a group are contiguous as far as powers of two allow.
    int64_t run[] = {unit->m, (d->extents[1] & -d->extents[1]) >> n};
    const Layout *atom = gpu_fragment(s->ctx, unit, FRAG_D);
    if (n) atom = layout_tile(s->ctx, atom, run, NULL);
    const Layout *tile = layout_tile(s->ctx, atom, d->extents, both);
    return (DotLayouts){NULL, NULL, over_grid(s->ctx, tile, 0, bits - m - n)};
}

/// Adds a bit to a level: the next bit of dimension d, or a copy if d is full.
static void deal_layout_bit(Layout *l, int *at, int *room, int d) {
    l->col[(*at)++] = room[d] ? bit(l->log2[d]) << (d ? 0 : 32) : 0;
    l->log2[d] += room[d] != 0;
    room[d] -= room[d] != 0;
}

/// The layout for FMAs: each thread has 4 x 4 contiguous elements, a warp 16 x 32. Smaller blocks
/// use as many bits as they have. Rows take the first and the last lane bit: a half of a warp then
/// reads at most 4 vectors of an operand, which shared memory delivers at once (LDS.128 takes 2.1
/// cycles on an H200, and 4.1 with columns in the first three bits).
static const Layout *fma_layout(Layouts *s, const Type *d, WholeLines whole) {
    static const uint8_t dims[] = {1, 1, 0, 0, 0, 1, 1, 1, 0}; // 4 registers, 5 lanes
    int64_t m = d->extents[0], n = d->extents[1];
    int room[2] = {log2_floor(2 * m - 1), log2_floor(2 * n - 1)}, at = 0;
    Layout l = {.rank = 2, .odd = {1, 1}};
    for (int i = 0; i < 4; i++)
        if (room[dims[i]]) deal_layout_bit(&l, &at, room, dims[i]);
    l.bits[LEVEL_REG] = (uint8_t)at;
    for (int i = 0; i < s->lane_bits; i++) {
        int want = dims[4 + i % 5];
        deal_layout_bit(&l, &at, room, room[want] ? want : !want);
    }
    l.bits[LEVEL_LANE] = (uint8_t)s->lane_bits;
    for (int i = 0; i < 2; i++) l.extents[i] = (int64_t)1 << l.log2[i];
    for (int j = 0; j < at; j++) // bits of rows lie above those of columns
        l.col[j] = (l.col[j] & low_bits(32)) | l.col[j] >> 32 << l.log2[1];
    const Layout *atom = layout_unique(s->ctx, &l);
    int64_t tiles_m = (m + l.extents[0] - 1) / l.extents[0];
    int64_t tiles_n = (n + l.extents[1] - 1) / l.extents[1];
    WarpGrid g = warp_grid(s->warp_bits, tiles_m, tiles_n, m, n, whole);
    int both[] = {1 << g.m, 1 << g.n};
    return over_grid(s->ctx, layout_tile(s->ctx, atom, d->extents, both), 0, g.copies);
}

DotLayouts dot_layouts(Layouts *s, const Op *op) {
    const GpuUnit *unit = gpu_unit_of(op);
    if (unit && unit->features & GPU_WGMMA) return warpgroup_layouts(s, op, unit);
    if (unit) return unit_layouts(s, op, unit);
    return (DotLayouts){NULL, NULL, fma_layout(s, result(op, 0)->type, whole_lines(op))};
}
