// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// When ldmatrix and stmatrix can move a block between its registers and shared memory.
//
// Seen as byte offsets, the columns of a layout must be: for a matrix as it stands, registers on
// the bytes of a word, lane bits 0 and 1 on offset bits 2 and 3, lane bits 2 to 4 the row.
// Transposed (16 bits only), lane bits 2 to 4 on offset bits 1 to 3 and one register bit and lane
// bits 0 and 1 the row. Nothing else may reach into the 16 bytes of a row.
#include "passes/layout.h"

enum { WORD_LOG2 = 2, ROW_LOG2 = 4, LINE_LOG2 = 7 };

typedef struct Offsets {
    const Layout *l;
    F2 of;       // offset of each column
    Bits inside; // columns that lie in the atom
} Offsets;

static Offsets offsets_of(const Layout *l, const SharedLayout *s) {
    Offsets o = {.l = l, .of = {.n = layout_n_bits(l)}};
    for (int j = 0; j < o.of.n; j++)
        if (shared_image(l, s, l->col[j], &o.of.col[j])) o.inside |= bit(j);
    return o;
}

static Bits lane_offset(const Offsets *o, int i) {
    return o->of.col[o->l->bits[LEVEL_REG] + i];
}

/// The register bit with exactly this offset, or -1.
static int register_at(const Offsets *o, Bits offset) {
    for (int j = 0; j < o->l->bits[LEVEL_REG]; j++)
        if (o->inside >> j & 1 && o->of.col[j] == offset) return j;
    return -1;
}

/// The first register bit that starts a row and lies in the atom; -1: none.
static int register_of_row(const Offsets *o) {
    for (int j = 0; j < o->l->bits[LEVEL_REG]; j++)
        if (o->inside >> j & 1 && (o->of.col[j] & low_bits(ROW_LOG2)) == 0) return j;
    return -1;
}

static bool find_plain(const Offsets *o, int elem_log2, SharedMatrix *m, Bits *used) {
    m->word_bits = WORD_LOG2 - elem_log2;
    for (int i = 0; i < m->word_bits; i++) {
        int j = register_at(o, bit(elem_log2 + i));
        if (j < 0) return false;
        m->word[i] = bit(j);
        *used |= bit(j);
    }
    for (int i = 0; i < 3; i++) m->row_lane[i] = bit(2 + i);
    return lane_offset(o, 0) == bit(2) && lane_offset(o, 1) == bit(3);
}

static bool find_trans(const Offsets *o, int elem_log2, SharedMatrix *m, Bits *used) {
    int j = register_of_row(o);
    if (elem_log2 != 1 || j < 0) return false;
    *m = (SharedMatrix){.trans = true, .word_bits = 1, .word = {bit(j)}};
    m->row_reg[0] = *used = bit(j);
    m->row_lane[1] = bit(0);
    m->row_lane[2] = bit(1);
    for (int i = 0; i < 3; i++)
        if (lane_offset(o, 2 + i) != bit(1 + i)) return false;
    return true;
}

/// Offset of row bit i; its column lies in the atom.
static bool row_offset(const Offsets *o, const SharedMatrix *m, int i, Bits *offset) {
    Bits columns = m->row_reg[i] | m->row_lane[i] << o->l->bits[LEVEL_REG];
    *offset = f2_apply(&o->of, columns);
    return (o->inside & columns) == columns && (*offset & low_bits(ROW_LOG2)) == 0;
}

bool shared_matrix(const Layout *l, const SharedLayout *s, SharedMatrix *m) {
    int elem_log2 = top_bit((Bits)s->elem_bytes), n = l->bits[LEVEL_REG];
    if (l->bits[LEVEL_LANE] != 5 || elem_log2 > WORD_LOG2) return false;
    for (int d = 0; d < s->rank; d++)
        if (s->count[d] > 1 && s->stride[d] % bit(ROW_LOG2) != 0) return false;
    Offsets o = offsets_of(l, s);
    Bits used = 0;
    *m = (SharedMatrix){0};
    if (!find_plain(&o, elem_log2, m, &used) && !find_trans(&o, elem_log2, m, &used)) return false;
    F2 rows = {.n = 3}, banks = {.n = 3};
    for (int i = 0; i < 3; i++) {
        if (!row_offset(&o, m, i, &rows.col[i])) return false;
        rows.col[i] >>= ROW_LOG2;
        banks.col[i] = rows.col[i] & low_bits(LINE_LOG2 - ROW_LOG2);
    }
    m->conflicts = 1 << (f2_rank(&rows) - f2_rank(&banks));
    for (int j = 0; j < o.of.n; j++) {
        bool lane = j >= n && j < n + 5, word = j < n && used >> j & 1;
        if (!lane && !word && o.of.col[j] & low_bits(ROW_LOG2)) return false;
        if (j < n && !word) m->base[m->n_base++] = bit(j);
    }
    return true;
}
