// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A layout in shared memory for the conversion between two distributed layouts: one side writes it,
// and the other reads it.
//
// If both boxes have the same size, the atom of the layout is the box. Otherwise it is the largest
// box that both contain, and atoms follow one another. Coordinate bits beyond the atom number
// lines, which do not change the bank. The offset bits are coordinates in a basis of the space of
// the atom's elements, from the lowest on:
//   V     directions that are registers on both sides: the vectors of both;
//   X     directions that are registers of one side (`wide`), which gets wider vectors;
//   U, W  the rest of a line of all banks; U only fills up a word if V is narrower;
//   H     selects the half, if a line of one side is half a line of the other;
//   S     lines. Two lanes of a phase collide if their difference lies in S (+ U). So S must not
//         meet the span of either side's phase, and S + H not that of the side with short lines.
// A vector keeps its order in every thread if all thread columns lie in the span of the others. So
// the complement of V is built around the thread columns of both sides, and the complement of X
// around those of `wide`.
#include "ir/layout/layout.h"

#include <string.h>

enum { WORD_LOG2 = 2, VECTOR_LOG2 = 4 };

/// One side, restricted to the atom.
typedef struct AtomSide {
    F2 registers, threads;
    int lane_bits;
    bool reads;
} AtomSide;

typedef struct Between {
    const AtomSide *wide, *narrow;
    SharedBanks banks;
    int rows, elem_log2;
    F2 v, x, rest; // together a basis
    F2 inverse;    // coordinates in that basis
} Between;

static int larger_int(int a, int b) {
    return a > b ? a : b;
}

static void add_columns(F2Span *s, const F2 *m) {
    for (int j = 0; j < m->n; j++) f2_add(s, m->col[j], 0);
}

/// Returns up to `most` candidates that are independent of the span.
static F2 pick_free(F2Span *s, const F2 *candidates, int most) {
    F2 r = {0};
    for (int j = 0; j < candidates->n && r.n < most; j++)
        if (f2_add(s, candidates->col[j], 0)) r.col[r.n++] = candidates->col[j];
    return r;
}

/// Returns the directions that are registers on both sides. Directions that are single registers
/// come first and keep their order, so vectors need no reassembly.
static F2 common_registers(const Between *b) {
    const F2 *sides[] = {&b->wide->registers, &b->narrow->registers};
    F2 both = f2_intersection(sides[0], sides[1]), r = {0};
    F2Span common = f2_span(&both), s = {0};
    for (int i = 0; i < 2; i++)
        for (int j = 0; j < sides[i]->n; j++)
            if (f2_contains(&common, sides[i]->col[j]) && f2_add(&s, sides[i]->col[j], 0))
                r.col[r.n++] = sides[i]->col[j];
    F2 rest = pick_free(&s, &both, F2_MAX);
    return f2_join(&r, &rest, 0);
}

/// Chooses V, X and a complement that contains the thread columns.
static void choose_basis(Between *b, bool extra) {
    const F2 *wide = &b->wide->registers, *t_wide = &b->wide->threads;
    const F2 *t_narrow = &b->narrow->threads;
    F2 both = common_registers(b), unit = f2_identity(b->rows);
    F2Span s = {0};
    add_columns(&s, t_wide);
    add_columns(&s, t_narrow);
    b->v = pick_free(&s, &both, VECTOR_LOG2 - b->elem_log2);
    // The complement W of V: its basis is the thread columns and further vectors as needed.
    F2Span w = {0};
    add_columns(&w, &b->v);
    F2 around = pick_free(&w, t_wide, F2_MAX), more = pick_free(&w, t_narrow, F2_MAX);
    around = f2_join(&around, &more, 0);
    more = pick_free(&w, &unit, F2_MAX);
    around = f2_join(&around, &more, 0);
    F2 basis = f2_join(&b->v, &around, 0), inverse;
    f2_right_inverse(&basis, b->rows, &inverse);
    // X: registers of `wide`, projected to W, independent of its threads.
    F2 seen = {0};
    for (int j = 0; extra && j < wide->n; j++) {
        Bits coords = f2_apply(&inverse, wide->col[j]) & ~low_bits(b->v.n);
        seen.col[seen.n++] = f2_apply(&basis, coords);
    }
    s = (F2Span){0};
    add_columns(&s, &b->v);
    add_columns(&s, t_wide);
    b->x = pick_free(&s, &seen, larger_int(VECTOR_LOG2 - b->elem_log2 - b->v.n, 0));
    s = (F2Span){0};
    add_columns(&s, &b->v);
    add_columns(&s, &b->x);
    b->rest = pick_free(&s, t_wide, F2_MAX);
    more = pick_free(&s, &around, F2_MAX);
    b->rest = f2_join(&b->rest, &more, 0);
    basis = f2_join(&b->v, &b->x, 0);
    basis = f2_join(&basis, &b->rest, 0);
    f2_right_inverse(&basis, b->rows, &b->inverse);
}

/// Returns the span of the lanes of one phase and the first `fill` directions after V, as
/// coordinates after V. It is cut down to the vectors without X coordinates, and expressed in
/// `rest`.
static F2 phase_span(const Between *b, const AtomSide *side, const SharedPhase *phase, int fill) {
    F2 lanes = f2_compose(&side->threads, &phase->lanes), in_x = {0}, r = {0};
    for (int j = 0; j < lanes.n; j++) lanes.col[j] = f2_apply(&b->inverse, lanes.col[j]) >> b->v.n;
    for (int i = 0; i < fill; i++) lanes.col[lanes.n++] = bit(i);
    in_x.n = lanes.n;
    for (int j = 0; j < lanes.n; j++) in_x.col[j] = lanes.col[j] & low_bits(b->x.n);
    F2 kernel = f2_kernel(&in_x);
    for (int j = 0; j < kernel.n; j++) r.col[r.n++] = f2_apply(&lanes, kernel.col[j]) >> b->x.n;
    return r;
}

/// Orders `rest` into U and W, then H, then S, and builds the map.
static F2 between_map(const Between *b) {
    int narrow = b->elem_log2 + b->v.n, wide = narrow + b->x.n, n = b->rest.n;
    int fill = narrow < WORD_LOG2 ? WORD_LOG2 - narrow : 0;
    if (fill > b->rows - b->v.n) fill = b->rows - b->v.n;
    SharedPhase phases[] = {
        shared_phase(b->banks, b->wide->reads, b->wide->lane_bits, wide),
        shared_phase(b->banks, b->narrow->reads, b->narrow->lane_bits, narrow),
    };
    F2 spans[] = {phase_span(b, b->wide, &phases[0], fill),
                  phase_span(b, b->narrow, &phases[1], fill)};
    bool second_long = phases[1].line_log2 > phases[0].line_log2;
    int line = phases[second_long].line_log2, halves = line - phases[!second_long].line_log2;
    F2 lines = f2_avoiding(&spans[0], &spans[1], n), unit = f2_identity(n);
    int spare = larger_int(b->rows + b->elem_log2 - line, 0);
    if (lines.n > spare) lines.n = spare;
    F2Span s = f2_span(&spans[!second_long]), outside = f2_span(&lines);
    add_columns(&s, &lines);
    F2 half = pick_free(&s, &unit, halves);
    add_columns(&outside, &half);
    F2 order = pick_free(&outside, &unit, F2_MAX); // the first are U, which the span of the lines
                                                   // avoids
    order = f2_join(&order, &half, 0);
    order = f2_join(&order, &lines, 0);
    F2 basis = f2_join(&b->v, &b->x, 0), map;
    for (int j = 0; j < order.n; j++) basis.col[basis.n++] = f2_apply(&b->rest, order.col[j]);
    f2_right_inverse(&basis, b->rows, &map);
    for (int j = 0; j < map.n; j++) map.col[j] <<= b->elem_log2;
    return map;
}

/// Returns the common atoms of both sides with the identity as map, and their strides. Every
/// element of `from` has a place, so writes need no check for holes.
static SharedLayout joint_atoms(const Layout *from, const Layout *to, int elem_bytes) {
    SharedLayout s = {.rank = from->rank, .elem_bytes = elem_bytes, .align = 1 << VECTOR_LOG2};
    s.bytes = elem_bytes;
    for (int d = 0; d < s.rank; d++) {
        s.extents[d] = from->extents[d];
        s.log2[d] = from->log2[d] < to->log2[d] ? from->log2[d] : to->log2[d];
        s.count[d] = (int32_t)(layout_box(from, d) >> s.log2[d]);
        s.map.n += s.log2[d];
        s.bytes <<= s.log2[d];
    }
    for (int d = s.rank - 1; d >= 0; d--) {
        s.stride[d] = s.bytes;
        s.bytes *= s.count[d];
    }
    s.map = f2_identity(s.map.n);
    return s;
}

/// Bits that leave the atom are not part of vectors, and banks do not tell them apart between
/// lanes.
static AtomSide atom_side(const Layout *l, const SharedLayout *atom, bool reads) {
    AtomSide r = {.lane_bits = l->bits[LEVEL_LANE], .reads = reads};
    for (int j = 0; j < layout_n_bits(l); j++) {
        Bits at;
        bool inside = shared_image(l, atom, l->col[j], &at) == REACH_ATOM;
        if (j >= l->bits[LEVEL_REG])
            r.threads.col[r.threads.n++] = at;
        else if (inside)
            r.registers.col[r.registers.n++] = at;
    }
    return r;
}

/// Adds the cost of a side's accesses. Returns whether they are free of conflicts.
static bool add_side_cost(const Layout *l, const SharedLayout *s, SharedBanks banks, bool reads,
                          double *cost) {
    SharedAccess a;
    shared_access(l, s, 1 << VECTOR_LOG2, &a);
    *cost += shared_cost(l, s, &a, banks, reads);
    return shared_conflicts(l, s, &a, banks, reads) == 1;
}

/// Tries three layouts. Without X there are no conflicts within one box; X on either side needs
/// fewer accesses, and wins if it also has no conflicts.
SharedLayout shared_between(const Layout *from, const Layout *to, int elem_bytes, SharedBanks banks,
                            bool operand) {
    SharedLayout best = joint_atoms(from, to, elem_bytes), atom = best;
    AtomSide writes = atom_side(from, &atom, false), reads = atom_side(to, &atom, true);
    double least = 0;
    bool best_free = false;
    for (int way = 0; way < 3; way += 1 + operand) { // no X; X of writes; X of reads
        Between b = {.wide = way == 2 ? &reads : &writes,
                     .narrow = way == 2 ? &writes : &reads,
                     .banks = banks,
                     .rows = atom.map.n,
                     .elem_log2 = top_bit((Bits)elem_bytes)};
        SharedLayout s = atom;
        choose_basis(&b, way > 0);
        s.map = between_map(&b);
        double cost = 0;
        bool writes_free = add_side_cost(from, &s, banks, false, &cost);
        bool both_free = add_side_cost(to, &s, banks, true, &cost) && writes_free;
        if (operand) both_free = false; // wide reads outweigh a conflict
        if (least && (both_free == best_free ? cost >= least : best_free)) continue;
        least = cost;
        best_free = both_free;
        best = s;
    }
    return best;
}
