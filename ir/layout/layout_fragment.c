// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The operands of matrix instructions and of matrix loads and stores: a table of layouts.
#include "ir/layout/layout.h"

#include <string.h>

const FragmentRow fragment_rows[] = {
#define FRAGMENT(name, role, bits, layout) {name, FRAG_##role, bits, layout},
#include "ir/layout/layout_fragments.def"
};
const int n_fragment_rows = sizeof fragment_rows / sizeof *fragment_rows;

const FragmentRow *fragment_find(const char *name, FragmentRole role) {
    for (int i = 0; i < n_fragment_rows; i++)
        if (fragment_rows[i].role == role && strcmp(fragment_rows[i].name, name) == 0)
            return &fragment_rows[i];
    return NULL;
}

const FragmentRow *fragment_of_bits(const char *name, FragmentRole role, int bits) {
    size_t n = strlen(name);
    for (int i = 0; i < n_fragment_rows; i++) {
        const FragmentRow *row = &fragment_rows[i];
        bool named = strncmp(row->name, name, n) == 0 && (!row->name[n] || row->name[n] == '.');
        if (named && row->role == role && row->elem_bits == bits) return row;
    }
    return fragment_find(name, role);
}

const Layout *fragment_layout(Ctx *ctx, const FragmentRow *row) {
    const char *text = row->layout, *error;
    const Layout *l = layout_parse(ctx, &text, &error);
    if (!l) ice(ctx, (Loc){0}, "%s: %s", row->name, error);
    return l;
}

/// Returns an image of the fragment as coordinates of l.
static Bits image_in(const Layout *fragment, const Layout *l, Bits image) {
    Bits r = 0;
    for (int d = 0; d < l->rank; d++)
        r |= (image >> layout_base(fragment, d) & low_bits(fragment->log2[d])) << layout_base(l, d);
    return r;
}

/// Finds the bit of l for bit i of the fragment's level: for threads the same number, for registers
/// any. -1: l has none.
static int bit_for(const Layout *l, int level, int i, Bits image) {
    int first = layout_first(l, (LayoutLevel)level);
    if (level != LEVEL_REG) return i < l->bits[level] ? first + i : -1;
    for (int j = 0; j < l->bits[LEVEL_REG]; j++)
        if (l->col[j] == image) return j;
    return -1;
}

/// The fragment must be a factor of l's matrix: the columns of its bits are equal, and all other
/// columns stay out of its rows.
bool fragment_divides(const Layout *fragment, const Layout *l, int *regs) {
    Bits bits = 0, rows = 0;
    if (fragment->rank != l->rank) return false;
    for (int d = 0; d < l->rank; d++) {
        if (l->log2[d] < fragment->log2[d]) return false;
        rows |= low_bits(fragment->log2[d]) << layout_base(l, d);
    }
    F2 m = layout_f2(l), image = {.n = m.n}, unit = {0}, rest;
    for (int level = 0, own = 0; level < N_LEVELS; level++)
        for (int i = 0; i < fragment->bits[level]; i++, own++) {
            Bits wanted = image_in(fragment, l, fragment->col[own]);
            int j = bit_for(l, level, i, wanted);
            if (j < 0) return false;
            if (level == LEVEL_REG && regs) regs[i] = j;
            bits |= bit(j);
            image.col[j] = wanted;
        }
    for (int j = 0; j < m.n; j++)
        if (bits >> j & 1) unit.col[unit.n++] = image.col[j];
    return f2_quotient(&m, &unit, bits, rows, &rest);
}
