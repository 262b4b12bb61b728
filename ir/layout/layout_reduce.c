// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The steps of reductions and scans along a dimension of a distributed block.
//
// Two places belong to one result of a reduction over d if their sum x lies in the kernel of P L,
// where P drops the coordinate d. Copies (the kernel of L) do not count twice. So the steps must
// cover the image of that kernel in the coordinate d: first by registers, then by lanes, then by
// warps and CTAs.
#include "ir/layout/layout.h"

#include <string.h>

/// Returns the first `n` columns without the rows of d.
static F2 without_dim(const Layout *l, int d, int n) {
    F2 m = {.n = n};
    for (int j = 0; j < n; j++) m.col[j] = l->col[j] & ~layout_dim_mask(l, d);
    return m;
}

static LayoutStep make_step(const Layout *l, LayoutLevel level, Bits x) {
    int registers = l->bits[LEVEL_REG];
    return (LayoutStep){.level = level, .reg = x & low_bits(registers), .thread = x >> registers};
}

/// Adds the steps of `level` that extend `reached`, the part of the coordinate covered so far.
/// `joined` are the registers that register steps have already combined.
static void add_level_steps(const Layout *l, int d, LayoutLevel level, LayoutReduction *r,
                            F2Span *reached, F2Span *joined) {
    int n = layout_first(l, level) + l->bits[level];
    F2 m = layout_f2(l), rest = without_dim(l, d, n), kernel = f2_kernel(&rest);
    for (int i = kernel.n - 1; i >= 0; i--) { // nearest threads first
        Bits x = kernel.col[i];
        if (!f2_add(reached, f2_apply(&m, x), bit(r->n))) continue;
        if (level == LEVEL_REG)
            f2_add(joined, x, 0);
        else
            x = f2_reduce(joined, x, NULL);
        r->steps[r->n++] = make_step(l, level, x);
        r->n_level[level]++;
    }
}

/// Returns the layout after the lane steps: the coordinate d becomes the number of the part, in
/// terms of the remaining steps (from the step numbered `first`).
static const Layout *partial_layout(Ctx *ctx, const Layout *l, int d, const F2Span *reached,
                                    int first, int parts, uint8_t *kept) {
    Layout p = *l;
    F2Span s = {0};
    int base = layout_base(l, d);
    p.extents[d] = (int64_t)1 << parts;
    p.odd[d] = 1;
    p.log2[d] = (uint8_t)parts;
    for (int j = 0; j < layout_n_bits(l); j++) {
        Bits x = l->col[j], part;
        f2_reduce(reached, x & layout_dim_mask(l, d), &part);
        p.col[j] = (x & low_bits(base)) | part >> first << base |
                   (x >> base >> l->log2[d]) << base << parts;
        if (j < l->bits[LEVEL_REG] && f2_add(&s, p.col[j], 0)) kept[s.n - 1] = (uint8_t)j;
    }
    return layout_unique(ctx, &p);
}

/// Returns l with 2^n registers for each place of dimension d; these become its lowest bits.
static const Layout *with_registers(Ctx *ctx, const Layout *l, int d, int n) {
    Layout r = *l;
    int base = layout_base(l, d), first = l->bits[LEVEL_REG], rest = layout_n_bits(l) - first;
    r.extents[d] <<= n;
    r.log2[d] = (uint8_t)(r.log2[d] + n);
    r.bits[LEVEL_REG] = (uint8_t)(first + n);
    for (int j = 0; j < first + rest; j++)
        r.col[j] = (l->col[j] & low_bits(base)) | l->col[j] >> base << base << n;
    memmove(r.col + first + n, r.col + first, (size_t)rest * sizeof *r.col);
    for (int i = 0; i < n; i++) r.col[first + i] = bit(base + i);
    return layout_unique(ctx, &r);
}

/// Numbers the parts by the steps of warps, then by those of CTAs.
static void number_parts(Ctx *ctx, const Layout *l, int d, const F2Span *reached,
                         LayoutReduction *r) {
    int near = r->n_level[LEVEL_REG] + r->n_level[LEVEL_LANE];
    int warps = r->n_level[LEVEL_WARP], ctas = r->n_level[LEVEL_CTA];
    uint8_t kept[LAYOUT_MAX_BITS];
    r->partial = partial_layout(ctx, l, d, reached, near, warps + ctas, r->partial_bit);
    const Layout *rest = layout_slice(ctx, l, d, false);
    r->gathered = layout_stack(ctx, rest, d, 1 << (warps + ctas));
    if (!ctas) return;
    r->by_cta = partial_layout(ctx, l, d, reached, near + warps, ctas, kept);
    r->of_ctas = layout_stack(ctx, rest, d, 1 << ctas);
    if (warps) r->in_cta = with_registers(ctx, r->by_cta, d, warps);
}

LayoutReduction layout_reduce(Ctx *ctx, const Layout *l, int d) {
    LayoutReduction r = {.result = layout_slice(ctx, l, d, true)};
    F2Span reached = {0}, joined = {0};
    for (int level = 0; level < N_LEVELS; level++)
        add_level_steps(l, d, (LayoutLevel)level, &r, &reached, &joined);
    if (r.n_level[LEVEL_WARP] + r.n_level[LEVEL_CTA]) number_parts(ctx, l, d, &reached, &r);
    return r;
}

/// A sum of columns that is the unit vector of one coordinate bit changes that bit only, so it
/// leads to the sibling block. The row of the matrix for that bit tells the siblings apart.
LayoutScan layout_scan(const Layout *l, int d) {
    LayoutScan s = {.n = l->log2[d], .repeats = l->odd[d]};
    F2 m = layout_f2(l);
    for (int i = 0; i < s.n; i++) {
        int row = layout_base(l, d) + i, level = -1;
        Bits x, own = f2_row(&m, row);
        for (bool found = false; !found;) {
            F2 part = m;
            level++;
            part.n = layout_first(l, (LayoutLevel)level) + l->bits[level];
            found = f2_solve(&part, bit(row), &x);
        }
        s.steps[i] = make_step(l, (LayoutLevel)level, x);
        s.steps[i].own_reg = own & low_bits(l->bits[LEVEL_REG]);
        s.steps[i].own_thread = own >> l->bits[LEVEL_REG];
    }
    return s;
}
