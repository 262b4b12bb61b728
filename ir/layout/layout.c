// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Distributed layouts: making and evaluating them. Equal layouts are one object.
#include "ir/layout/layout.h"

#include <string.h>

/* ---- parts ----------------------------------------------------------------------------------- */

int layout_base(const Layout *l, int d) {
    int base = 0;
    for (int i = d + 1; i < l->rank; i++) base += l->log2[i];
    return base;
}

int layout_rows(const Layout *l) {
    return l->rank ? layout_base(l, 0) + l->log2[0] : 0;
}

Bits layout_dim_mask(const Layout *l, int d) {
    return low_bits(l->log2[d]) << layout_base(l, d);
}

int64_t layout_repeats(const Layout *l) {
    int64_t n = 1;
    for (int d = 0; d < l->rank; d++) n *= l->odd[d];
    return n;
}

int64_t layout_registers(const Layout *l) {
    return layout_repeats(l) << l->bits[LEVEL_REG];
}

F2 layout_f2(const Layout *l) {
    F2 m = {.n = layout_n_bits(l)};
    memcpy(m.col, l->col, (size_t)m.n * sizeof *m.col);
    return m;
}

F2 layout_level(const Layout *l, LayoutLevel level) {
    F2 m = {.n = l->bits[level]};
    memcpy(m.col, l->col + layout_first(l, level), (size_t)m.n * sizeof *m.col);
    return m;
}

bool layout_same_box(const Layout *a, const Layout *b) {
    bool same = a->rank == b->rank;
    for (int d = 0; same && d < a->rank; d++)
        same = a->log2[d] == b->log2[d] && a->odd[d] == b->odd[d];
    return same;
}

/* ---- making ---------------------------------------------------------------------------------- */

const char *layout_error(const Layout *l) {
    if (l->rank > MAX_RANK) return "too many dimensions";
    int bits = 0, rows = 0;
    for (int i = 0; i < N_LEVELS; i++) bits += l->bits[i];
    if (bits > LAYOUT_MAX_BITS) return "too many bits";
    for (int d = 0; d < l->rank; d++) {
        rows += l->log2[d];
        if (l->extents[d] < 1) return "an extent below 1";
        if (l->odd[d] < 1 || l->odd[d] % 2 == 0) return "a repeat that is not odd";
        if (l->log2[d] > 32 || layout_box(l, d) < l->extents[d]) return "a box below the extent";
    }
    if (rows > LAYOUT_MAX_BITS) return "too many elements";
    F2 m = layout_f2(l);
    for (int j = 0; j < m.n; j++)
        if (m.col[j] & ~low_bits(rows)) return "a bit mapped outside the box";
    if (f2_rank(&m) < rows) return "an element that is nowhere";
    return NULL;
}

/// Drops the register bits whose image is a sum of earlier ones: they number copies within a
/// thread.
static void drop_copies(Layout *l) {
    F2Span s = {0};
    int n = layout_n_bits(l), kept = 0, registers = l->bits[LEVEL_REG];
    for (int j = 0; j < n; j++)
        if (j >= registers || f2_add(&s, l->col[j], 0))
            l->col[kept++] = l->col[j];
        else
            l->bits[LEVEL_REG]--;
}

/// The interned string is the layout itself, so equal bytes are equal pointers. Unused parts are
/// zeroed first.
const Layout *layout_unique(Ctx *ctx, const Layout *l) {
    const char *error = layout_error(l);
    if (error) ice(ctx, (Loc){0}, "not a layout: %s", error);
    Layout clean = *l;
    drop_copies(&clean);
    memset(clean.pad, 0, sizeof clean.pad);
    for (int d = clean.rank; d < MAX_RANK; d++) {
        clean.extents[d] = 0;
        clean.odd[d] = 0;
        clean.log2[d] = 0;
    }
    for (int j = layout_n_bits(&clean); j < LAYOUT_MAX_BITS; j++) clean.col[j] = 0;
    const void *bytes = ctx_intern(ctx, (const char *)&clean, sizeof clean);
    if ((uintptr_t)bytes % _Alignof(Layout) != 0)
        ice(ctx, (Loc){0}, "interned bytes are not aligned");
    return bytes;
}

// Padding between members would make equal layouts differ.
_Static_assert(sizeof(Layout) == sizeof(int64_t) * MAX_RANK + sizeof(int32_t) * MAX_RANK +
                                     MAX_RANK + 1 + N_LEVELS + 3 + sizeof(Bits) * LAYOUT_MAX_BITS,
               "Layout has padding");

/* ---- evaluating ------------------------------------------------------------------------------ */

void layout_at(const Layout *l, int64_t reg, int64_t thread, int64_t *coords) {
    int registers = l->bits[LEVEL_REG];
    Bits place = ((Bits)reg & low_bits(registers)) | (Bits)thread << registers, low = 0;
    for (; place; place &= place - 1) low ^= l->col[__builtin_ctzll(place)];
    int64_t repeat = reg >> registers;
    for (int d = l->rank - 1; d >= 0; d--) {
        coords[d] = (int64_t)(low & low_bits(l->log2[d])) | repeat % l->odd[d] << l->log2[d];
        low >>= l->log2[d];
        repeat /= l->odd[d];
    }
}

bool layout_is_hole(const Layout *l, const int64_t *coords) {
    for (int d = 0; d < l->rank; d++)
        if (coords[d] >= l->extents[d]) return true;
    return false;
}

/// f2_solve uses the earliest columns that suffice, so bits that number copies are 0: the owner.
void layout_find(const Layout *l, const int64_t *coords, int64_t *reg, int64_t *thread) {
    Bits low = 0, place = 0;
    int64_t repeat = 0;
    for (int d = 0; d < l->rank; d++) {
        low = low << l->log2[d] | ((Bits)coords[d] & low_bits(l->log2[d]));
        repeat = repeat * l->odd[d] + (coords[d] >> l->log2[d]);
    }
    F2 m = layout_f2(l);
    f2_solve(&m, low, &place);
    int registers = l->bits[LEVEL_REG];
    *reg = repeat << registers | (int64_t)(place & low_bits(registers));
    *thread = (int64_t)(place >> registers);
}

Bits layout_owner(const Layout *l) {
    F2Span s = {0};
    Bits copies = 0;
    for (int j = 0; j < layout_n_bits(l); j++)
        if (!f2_add(&s, l->col[j], 0)) copies |= bit(j);
    return copies >> l->bits[LEVEL_REG];
}

bool layout_warp_boxes(const Layout *l, int64_t *box, Bits *warp) {
    Bits own = 0, others = 0;
    if (l->bits[LEVEL_CTA] || layout_owner(l)) return false;
    for (int i = 0; i < layout_n_bits(l); i++) {
        bool is_warp = i >= layout_first(l, LEVEL_WARP);
        if (is_warp && bit_count(l->col[i]) != 1) return false;
        *(is_warp ? &others : &own) |= l->col[i];
    }
    for (int d = 0; d < l->rank; d++) {
        Bits mask = (others & layout_dim_mask(l, d)) >> layout_base(l, d);
        if (layout_box(l, d) != l->extents[d]) return false;
        box[d] = mask ? (int64_t)(mask & -mask) : l->extents[d];
    }
    *warp = others;
    return (own & others) == 0;
}
