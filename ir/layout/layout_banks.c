// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Bank conflicts: the number of times that one access of a warp uses the shared memory, computed
// from ranks of matrices, or by counting if places are not linear.
//
// An access is served in phases of a fixed number of lanes. On every GPU with known phases, those
// lanes are a subspace of the lane numbers or one of its cosets. They take one line of all banks of
// 4 bytes if no two of them want different words of a bank.
#include "ir/layout/layout.h"

enum { WORD_LOG2 = 2, LINE_LOG2 = 7, MAX_LINE_BANKS = 64, MOST_LANES = 64 };

static int max_int(int a, int b) {
    return a > b ? a : b;
}

/* ---- phases ---------------------------------------------------------------------------------- */

/// Accesses whose phases do not consist of consecutive lanes, with 2^bytes bytes a lane. gfx9:
/// "Understanding AMD GPU LDS and Bank Conflicts" of the Composable Kernel book (lanes 0-3 and
/// 20-23, 4-7 and 16-19, ...). gfx950 reads 256 bytes at a time, from 64 banks: HipKittens (arXiv
/// 2511.08083) measured lanes 0-3, 12-15, 20-27, and so on.
static const struct {
    SharedBanks banks;
    bool reads;
    int bytes, line, n;
    Bits lanes[4];
} odd_phases[] = {
    {BANKS_GFX9, true, 4, 7, 3, {1, 2, 20}},
    {BANKS_GFX950, true, 4, 8, 4, {1, 2, 12, 20}},
};

SharedPhase shared_phase(SharedBanks banks, bool reads, int lane_bits, int bytes_log2) {
    for (size_t i = 0; i < sizeof odd_phases / sizeof *odd_phases; i++) {
        if (odd_phases[i].banks != banks || odd_phases[i].reads != reads) continue;
        if (odd_phases[i].bytes != bytes_log2) continue;
        SharedPhase p = {.line_log2 = odd_phases[i].line, .lanes = {.n = odd_phases[i].n}};
        for (int j = 0; j < p.lanes.n; j++) p.lanes.col[j] = odd_phases[i].lanes[j];
        return p;
    }
    int n = LINE_LOG2 - max_int(bytes_log2, WORD_LOG2);
    return (SharedPhase){.line_log2 = LINE_LOG2,
                         .lanes = f2_identity(n < lane_bits ? n : lane_bits)};
}

static int access_log2(const SharedLayout *s, const SharedAccess *a) {
    return top_bit((Bits)s->elem_bytes) + a->vec_bits;
}

/* ---- conflicts ------------------------------------------------------------------------------- */

/// A phase has 2^rank words, by the rank of their addresses. They are in 2^rank banks, by the rank
/// of the address bits that number banks. By linearity, each of those banks has equally many words.
int shared_conflicts(const Layout *l, const SharedLayout *s, const SharedAccess *a,
                     SharedBanks banks, bool reads) {
    int n = access_log2(s, a), unit = max_int(n, WORD_LOG2), lanes = l->bits[LEVEL_LANE];
    SharedPhase p = shared_phase(banks, reads, lanes, n);
    F2 offsets = {.n = lanes};
    for (int j = 0; j < lanes; j++)
        if (shared_image(l, s, l->col[l->bits[LEVEL_REG] + j], &offsets.col[j]) != REACH_ATOM)
            return shared_conflicts_counted(l, s, a, banks, reads);
    F2 all = f2_compose(&offsets, &p.lanes), met = all;
    for (int j = 0; j < all.n; j++) {
        all.col[j] >>= unit;
        met.col[j] = all.col[j] & low_bits(p.line_log2 - unit);
    }
    return 1 << (f2_rank(&all) - f2_rank(&met));
}

/// Counts the different words in the fullest bank, for the lanes of the phase that contains
/// `thread`.
static int count_phase(const Layout *l, const SharedLayout *s, int64_t reg, int64_t thread,
                       const SharedPhase *p, int bytes) {
    int64_t words[MAX_LINE_BANKS][MOST_LANES];
    int n[MAX_LINE_BANKS] = {0}, most = 0;
    for (int64_t i = 0; i < (int64_t)1 << p->lanes.n; i++) {
        int64_t x[MAX_RANK];
        layout_at(l, reg, thread ^ (int64_t)f2_apply(&p->lanes, (Bits)i), x);
        if (layout_is_hole(l, x)) continue;
        int64_t first = shared_offset(s, x);
        for (int64_t w = first >> WORD_LOG2; w <= (first + bytes - 1) >> WORD_LOG2; w++) {
            int bank = (int)(w & (int64_t)low_bits(p->line_log2 - WORD_LOG2)), k = 0;
            while (k < n[bank] && words[bank][k] != w) k++;
            if (k == n[bank]) words[bank][n[bank]++] = w;
            most = max_int(most, n[bank]);
        }
    }
    return most;
}

int shared_conflicts_counted(const Layout *l, const SharedLayout *s, const SharedAccess *a,
                             SharedBanks banks, bool reads) {
    int n = access_log2(s, a), most = 1;
    SharedPhase p = shared_phase(banks, reads, l->bits[LEVEL_LANE], n);
    F2Span span = f2_span(&p.lanes);
    int64_t repeats = layout_repeats(l), threads = (int64_t)1 << layout_thread_bits(l);
    for (int64_t i = 0; i < repeats << a->n_base; i++) {
        int64_t reg = i >> a->n_base << l->bits[LEVEL_REG];
        for (int j = 0; j < a->n_base; j++)
            if (i >> j & 1) reg ^= (int64_t)a->base[j];
        for (int64_t t = 0; t < threads; t++) // the first lane of each phase
            if (f2_reduce(&span, (Bits)t, NULL) == (Bits)t)
                most = max_int(most, count_phase(l, s, reg, t, &p, 1 << n));
    }
    return most;
}

double shared_cost(const Layout *l, const SharedLayout *s, const SharedAccess *a, SharedBanks banks,
                   bool reads) {
    enum { ACCESS = 2, LINE = 4, WARP_LOG2 = 5 }; // the number of lanes that issue at once
    SharedPhase p = shared_phase(banks, reads, WARP_LOG2, access_log2(s, a));
    double accesses = (double)(layout_repeats(l) << a->n_base);
    int lines = shared_conflicts(l, s, a, banks, reads) << (WARP_LOG2 - p.lanes.n);
    return accesses * (ACCESS + LINE * lines);
}
