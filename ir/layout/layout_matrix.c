// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Tests if ldmatrix and stmatrix can move a block between its registers and shared memory.
//
// The columns of the layout, as byte offsets, must be as follows. For a matrix as stored: registers
// are the bytes of a word, lane bits 0 and 1 are offset bits 2 and 3, and lane bits 2 to 4 are the
// row. For a transposed one (16 bits only): lane bits 2 to 4 are offset bits 1 to 3, and one
// register bit and lane bits 0 and 1 are the row. No other bit may reach into the 16 bytes of a
// row.
#include "ir/layout/layout.h"

enum { WORD_LOG2 = 2, ROW_LOG2 = 4, LINE_LOG2 = 7 };

typedef struct Offsets {
    const Layout *l;
    F2 of;       // offset of each column
    Bits inside; // columns that lie in the atom
} Offsets;

static Offsets offsets_of(const Layout *l, const SharedLayout *s) {
    Offsets o = {.l = l, .of = {.n = layout_n_bits(l)}};
    for (int j = 0; j < o.of.n; j++)
        if (shared_image(l, s, l->col[j], &o.of.col[j]) == REACH_ATOM) o.inside |= bit(j);
    return o;
}

static bool lane_at(const Offsets *o, int i, Bits offset) {
    int j = o->l->bits[LEVEL_REG] + i;
    return o->inside >> j & 1 && o->of.col[j] == offset;
}

/// Returns the register bit with exactly this offset, or -1.
static int register_at(const Offsets *o, Bits offset) {
    for (int j = 0; j < o->l->bits[LEVEL_REG]; j++)
        if (o->inside >> j & 1 && o->of.col[j] == offset) return j;
    return -1;
}

/// Returns the first register bit that does not reach into a row, or -1.
static int register_of_row(const Offsets *o) {
    for (int j = 0; j < o->l->bits[LEVEL_REG]; j++)
        if ((o->of.col[j] & low_bits(ROW_LOG2)) == 0) return j;
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
    return lane_at(o, 0, bit(2)) && lane_at(o, 1, bit(3));
}

static bool find_trans(const Offsets *o, int elem_log2, SharedMatrix *m, Bits *used) {
    int j = register_of_row(o);
    if (elem_log2 != 1 || j < 0) return false;
    *m = (SharedMatrix){.trans = true, .word_bits = 1, .word = {bit(j)}};
    m->row_reg[0] = *used = bit(j);
    m->row_lane[1] = bit(0);
    m->row_lane[2] = bit(1);
    for (int i = 0; i < 3; i++)
        if (!lane_at(o, 2 + i, bit(1 + i))) return false;
    return true;
}

static Bits sum_of_columns(const Bits *x, int n, int64_t which) {
    Bits sum = 0;
    for (int i = 0; i < n; i++)
        if (which >> i & 1) sum ^= x[i];
    return sum;
}

/// Counts the rows in the fullest of the eight groups of banks; a row fills one group.
static int count_conflicts(const Layout *l, const SharedLayout *s, const SharedMatrix *m) {
    int64_t matrices = layout_repeats(l) << m->n_base;
    int64_t threads = (int64_t)1 << layout_thread_bits(l);
    int most = 1;
    for (int64_t k = 0; k < matrices * (threads / 32); k++) {
        int64_t which = k % matrices, thread = k / matrices * 32, rows[8], x[MAX_RANK];
        int64_t reg = which >> m->n_base << l->bits[LEVEL_REG];
        reg |= (int64_t)sum_of_columns(m->base, m->n_base, which);
        for (int r = 0; r < 8; r++) {
            int64_t lane = (int64_t)sum_of_columns(m->row_lane, 3, r), same = 1;
            layout_at(l, reg ^ (int64_t)sum_of_columns(m->row_reg, 3, r), thread | lane, x);
            rows[r] = shared_offset(s, x);
            for (int q = 0; q < r; q++)
                same += rows[q] != rows[r] && (rows[q] - rows[r]) % (1 << LINE_LOG2) == 0;
            if (same > most) most = (int)same;
        }
    }
    return most;
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
    for (int j = 0; j < o.of.n; j++) {
        // The lanes and registers of a word are checked already; all other bits, including row
        // bits, must start rows.
        bool column = j >= n + (m->trans ? 2 : 0) && j < n + (m->trans ? 5 : 2);
        bool word = j < n && used >> j & 1;
        if (!column && (!word || m->trans) && o.of.col[j] & low_bits(ROW_LOG2)) return false;
        if (j < n && !word) m->base[m->n_base++] = bit(j);
    }
    m->conflicts = count_conflicts(l, s, m);
    return true;
}
