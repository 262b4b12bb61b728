// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Shared-memory layouts: offsets, the hardware's swizzles, vectors, bank conflicts, and the choice
// of a layout between two distributed ones.
//
// Shared memory serves a line of 128 bytes at a time, 4 from each of 32 banks. A warp's access of
// 4 bytes a lane is one line, of 8 bytes two (half of the lanes each), of 16 bytes four.
#include "ir/layout.h"

#include <string.h>

enum { WORD_LOG2 = 2, LINE_LOG2 = 7, VECTOR_LOG2 = 4 };

static int log2_of(int64_t x) {
    return top_bit((Bits)x);
}

static int max_of(int a, int b) {
    return a > b ? a : b;
}

/* ---- offsets ----------------------------------------------------------------------------------
 */

int64_t shared_offset(const SharedLayout *s, const int64_t *coords) {
    Bits low = 0;
    int64_t offset = 0;
    for (int d = 0; d < s->rank; d++) {
        low = low << s->log2[d] | ((Bits)coords[d] & low_bits(s->log2[d]));
        offset += (coords[d] >> s->log2[d]) * s->stride[d];
    }
    return offset + (int64_t)f2_apply(&s->map, low);
}

static SharedLayout start_shared(int elem_bytes, int rank, const int64_t *extents) {
    SharedLayout s = {.rank = rank, .elem_bytes = elem_bytes, .align = 1 << VECTOR_LOG2};
    memcpy(s.extents, extents, (size_t)rank * sizeof *extents);
    for (int d = 0; d < rank; d++) s.count[d] = (int32_t)extents[d];
    return s;
}

SharedLayout shared_plain(int elem_bytes, int rank, const int64_t *extents, int pad) {
    SharedLayout s = start_shared(elem_bytes, rank, extents);
    int64_t stride = elem_bytes;
    for (int d = rank - 1; d >= 0; d--) {
        if (d == rank - 1) { // whole vectors of a row are an atom
            int n = __builtin_ctzll((Bits)extents[d]), most = VECTOR_LOG2 - log2_of(elem_bytes);
            s.log2[d] = (uint8_t)(n < most ? n : most);
            for (int i = 0; i < s.log2[d]; i++) s.map.col[s.map.n++] = (Bits)elem_bytes << i;
        }
        s.count[d] = (int32_t)(extents[d] >> s.log2[d]);
        s.stride[d] = stride << s.log2[d];
        stride = stride * extents[d] + (d == rank - 1 ? pad : 0);
    }
    s.bytes = stride;
    return s;
}

/// Bits of the row's number within 8 rows are added (xor) to those of the 16-byte chunk.
SharedLayout shared_swizzled(int elem_bytes, int rank, const int64_t *extents, int inner, int outer,
                             int swizzle) {
    SharedLayout s = start_shared(elem_bytes, rank, extents);
    s.log2[inner] = (uint8_t)log2_of(swizzle / elem_bytes);
    s.log2[outer] = 3;
    s.align = 8 * swizzle;
    Bits chunk = (Bits)(swizzle - 1) & ~(Bits)15;
    for (int d = rank - 1; d >= 0; d--)
        for (int i = 0; i < s.log2[d]; i++) {
            Bits linear = (Bits)(d == inner ? elem_bytes : swizzle) << i;
            s.map.col[s.map.n++] = linear ^ (linear >> 3 & chunk);
        }
    s.bytes = 8 * swizzle;
    int order[MAX_RANK] = {outer, inner}, n = 2;
    for (int d = rank - 1; d >= 0; d--)
        if (d != inner && d != outer) order[n++] = d;
    for (int i = 0; i < n; i++) {
        int d = order[i];
        s.stride[d] = s.bytes;
        s.count[d] = (int32_t)ceil_div(extents[d], (int64_t)1 << s.log2[d]);
        s.bytes *= s.count[d];
    }
    return s;
}

int shared_swizzle_for(int64_t row_bytes) {
    int swizzle = 128;
    while (swizzle > 16 && row_bytes % swizzle != 0) swizzle /= 2;
    return swizzle;
}

/* ---- vectors ----------------------------------------------------------------------------------
 */

bool shared_image(const Layout *l, const SharedLayout *s, Bits image, Bits *offset) {
    Bits low = 0, beyond = 0;
    for (int d = 0; d < l->rank; d++) {
        Bits x = image >> layout_base(l, d) & low_bits(l->log2[d]);
        beyond |= x >> s->log2[d];
        low = low << s->log2[d] | (x & low_bits(s->log2[d]));
    }
    *offset = f2_apply(&s->map, low);
    return !beyond;
}

/// log2 of the widest vectors that strides allow: each starts at a multiple of its size.
static int aligned_log2(const SharedLayout *s, int max_bytes) {
    int n = log2_of(max_bytes);
    for (int d = 0; d < s->rank; d++)
        while (s->count[d] > 1 && n > 0 && s->stride[d] % ((int64_t)1 << n) != 0) n--;
    return n;
}

/// A vector of 2^n elements is a span of registers whose offsets are the lowest bits. No thread
/// bit may reach into them: the order within a vector would depend on the thread. A register bit
/// that leaves the atom gets an offset bit of its own, so that it is in no vector.
void shared_access(const Layout *l, const SharedLayout *s, int max_bytes, SharedAccess *a) {
    *a = (SharedAccess){0};
    Bits of_threads = 0, offset;
    F2Span span = {0}, used = {0};
    for (int j = 0; j < layout_n_bits(l); j++) {
        bool inside = shared_image(l, s, l->col[j], &offset);
        if (j < l->bits[LEVEL_REG])
            f2_add(&span, inside ? offset : offset | bit(F2_MAX - 1 - j), bit(j));
        else
            of_threads |= offset;
    }
    int e = log2_of(s->elem_bytes), most = aligned_log2(s, max_bytes);
    while (e + a->vec_bits < most) {
        Bits wanted = bit(e + a->vec_bits), x;
        if (of_threads & wanted || f2_reduce(&span, wanted, &x)) break;
        f2_add(&used, x, 0);
        a->vec[a->vec_bits++] = x;
    }
    for (int j = 0; j < l->bits[LEVEL_REG]; j++) {
        if (!f2_add(&used, bit(j), 0)) continue;
        Bits base = bit(j); // moved to the start of its vector
        shared_image(l, s, l->col[j], &offset);
        for (int i = 0; i < a->vec_bits; i++)
            if (offset >> (e + i) & 1) base ^= a->vec[i];
        a->base[a->n_base++] = base;
    }
}

/* ---- bank conflicts ---------------------------------------------------------------------------
 */

/// Lane bits that are served together when each lane takes 2^n bytes.
static int phase_bits(const Layout *l, int n) {
    int bits = LINE_LOG2 - max_of(n, WORD_LOG2);
    return bits < l->bits[LEVEL_LANE] ? bits : l->bits[LEVEL_LANE];
}

static int access_log2(const SharedLayout *s, const SharedAccess *a) {
    return log2_of(s->elem_bytes) + a->vec_bits;
}

/// Words in one phase: 2^rank of their addresses. Banks they are in: 2^rank of the address bits
/// that number banks, and by linearity each of those has equally many.
int shared_conflicts(const Layout *l, const SharedLayout *s, const SharedAccess *a) {
    int n = access_log2(s, a), unit = max_of(n, WORD_LOG2), lanes = phase_bits(l, n);
    F2 all = {.n = lanes}, banks = {.n = lanes};
    for (int j = 0; j < lanes; j++) {
        Bits offset;
        if (!shared_image(l, s, l->col[l->bits[LEVEL_REG] + j], &offset))
            return shared_conflicts_counted(l, s, a);
        all.col[j] = offset >> unit;
        banks.col[j] = all.col[j] & low_bits(LINE_LOG2 - unit);
    }
    return 1 << (f2_rank(&all) - f2_rank(&banks));
}

/// Different words in the fullest bank for the lanes of one phase.
static int count_phase(const Layout *l, const SharedLayout *s, int64_t reg, int64_t thread,
                       int lanes, int bytes) {
    int64_t words[32][64];
    int n[32] = {0}, most = 0;
    for (int64_t t = thread; t < thread + ((int64_t)1 << lanes); t++) {
        int64_t x[MAX_RANK];
        layout_at(l, reg, t, x);
        if (layout_is_hole(l, x)) continue;
        int64_t first = shared_offset(s, x);
        for (int64_t w = first >> WORD_LOG2; w <= (first + bytes - 1) >> WORD_LOG2; w++) {
            int bank = (int)(w % 32), i = 0;
            while (i < n[bank] && words[bank][i] != w) i++;
            if (i == n[bank]) words[bank][n[bank]++] = w;
            most = max_of(most, n[bank]);
        }
    }
    return most;
}

int shared_conflicts_counted(const Layout *l, const SharedLayout *s, const SharedAccess *a) {
    int n = access_log2(s, a), lanes = phase_bits(l, n), most = 1;
    int64_t repeats = layout_repeats(l), threads = (int64_t)1 << layout_thread_bits(l);
    for (int64_t i = 0; i < repeats << a->n_base; i++) {
        int64_t reg = i >> a->n_base << l->bits[LEVEL_REG];
        for (int j = 0; j < a->n_base; j++)
            if (i >> j & 1) reg ^= (int64_t)a->base[j];
        for (int64_t t = 0; t < threads; t += (int64_t)1 << lanes)
            most = max_of(most, count_phase(l, s, reg, t, lanes, 1 << n));
    }
    return most;
}

/* ---- the layout between two distributed ones --------------------------------------------------
 */

// Offset bits are coordinates in a basis of the space of elements, from the lowest bit on:
//   V     directions that are registers on both sides: the vectors of both;
//   X     directions that are registers of one side (`wide`), which gets wider vectors;
//   U, W  the rest of a line of 128 bytes; U only fills up a word when V is narrower;
//   S     lines. Two lanes of a phase collide when their difference lies in S (+ U), so S must
//         meet the span of neither side's phase.
// A vector keeps its order in every thread if all thread columns lie in the span of the others, so
// the complement of V is made around the thread columns of both, that of X around those of `wide`.
typedef struct Between {
    const Layout *wide, *narrow;
    int rows, elem_log2;
    F2 v, x, rest; // together a basis
    F2 inverse;    // coordinates in that basis
} Between;

static F2 thread_columns(const Layout *l, int lanes_only) {
    F2 m = {.n = lanes_only >= 0 ? lanes_only : layout_thread_bits(l)};
    memcpy(m.col, l->col + l->bits[LEVEL_REG], (size_t)m.n * sizeof *m.col);
    return m;
}

static void add_all(F2Span *s, const F2 *m) {
    for (int j = 0; j < m->n; j++) f2_add(s, m->col[j], 0);
}

/// Up to `most` of the candidates that are independent of what the span holds.
static F2 pick_free(F2Span *s, const F2 *candidates, int most) {
    F2 r = {0};
    for (int j = 0; j < candidates->n && r.n < most; j++)
        if (f2_add(s, candidates->col[j], 0)) r.col[r.n++] = candidates->col[j];
    return r;
}

/// V, X and a complement that holds the thread columns.
static void choose_basis(Between *b, bool extra) {
    F2 wide = layout_level(b->wide, LEVEL_REG), narrow = layout_level(b->narrow, LEVEL_REG);
    F2 both = f2_intersection(&wide, &narrow), unit = f2_identity(b->rows);
    F2 t_wide = thread_columns(b->wide, -1), t_narrow = thread_columns(b->narrow, -1);
    F2Span s = {0};
    add_all(&s, &t_wide);
    add_all(&s, &t_narrow);
    b->v = pick_free(&s, &both, VECTOR_LOG2 - b->elem_log2);
    // Around V: W, whose basis is the thread columns and what else is needed.
    F2Span w = {0};
    add_all(&w, &b->v);
    F2 around = pick_free(&w, &t_wide, F2_MAX), more = pick_free(&w, &t_narrow, F2_MAX);
    around = f2_join(&around, &more, 0);
    more = pick_free(&w, &unit, F2_MAX);
    around = f2_join(&around, &more, 0);
    F2 basis = f2_join(&b->v, &around, 0), inverse;
    f2_right_inverse(&basis, b->rows, &inverse);
    // X: registers of `wide`, seen in W, away from its threads.
    F2 seen = {0};
    for (int j = 0; extra && j < wide.n; j++) {
        Bits coords = f2_apply(&inverse, wide.col[j]) & ~low_bits(b->v.n);
        seen.col[seen.n++] = f2_apply(&basis, coords);
    }
    s = (F2Span){0};
    add_all(&s, &b->v);
    add_all(&s, &t_wide);
    b->x = pick_free(&s, &seen, max_of(VECTOR_LOG2 - b->elem_log2 - b->v.n, 0));
    s = (F2Span){0};
    add_all(&s, &b->v);
    add_all(&s, &b->x);
    b->rest = pick_free(&s, &t_wide, F2_MAX);
    more = pick_free(&s, &around, F2_MAX);
    b->rest = f2_join(&b->rest, &more, 0);
    basis = f2_join(&b->v, &b->x, 0);
    basis = f2_join(&basis, &b->rest, 0);
    f2_right_inverse(&basis, b->rows, &b->inverse);
}

/// The lanes of one phase of `l`, taking 2^n bytes, and the first `fill` directions behind V, as
/// coordinates behind V; cut down to where those of X are 0, and given in `rest`.
static F2 phase_span(const Between *b, const Layout *l, int n, int fill) {
    F2 lanes = thread_columns(l, phase_bits(l, n)), in_x = {0}, r = {0};
    for (int j = 0; j < lanes.n; j++) lanes.col[j] = f2_apply(&b->inverse, lanes.col[j]) >> b->v.n;
    for (int i = 0; i < fill; i++) lanes.col[lanes.n++] = bit(i);
    in_x.n = lanes.n;
    for (int j = 0; j < lanes.n; j++) in_x.col[j] = lanes.col[j] & low_bits(b->x.n);
    F2 kernel = f2_kernel(&in_x);
    for (int j = 0; j < kernel.n; j++) r.col[r.n++] = f2_apply(&lanes, kernel.col[j]) >> b->x.n;
    return r;
}

/// Orders `rest` into U and W, then S, and makes the map.
static F2 between_map(const Between *b) {
    int narrow = b->elem_log2 + b->v.n, wide = narrow + b->x.n, n = b->rest.n;
    int behind = b->rows - b->v.n;
    int fill = narrow < WORD_LOG2 ? WORD_LOG2 - narrow : 0;
    if (fill > behind) fill = behind;
    F2 p = phase_span(b, b->wide, wide, fill), q = phase_span(b, b->narrow, narrow, fill);
    F2 lines = f2_avoiding(&p, &q, n), unit = f2_identity(n), order = {0};
    int spare = b->rows + b->elem_log2 - LINE_LOG2;
    if (lines.n > spare) lines.n = spare > 0 ? spare : 0;
    F2Span s = {0};
    add_all(&s, &lines);
    order = pick_free(&s, &unit, F2_MAX); // the first are U: no line lies in its span
    order = f2_join(&order, &lines, 0);
    F2 basis = f2_join(&b->v, &b->x, 0), map;
    for (int j = 0; j < order.n; j++) basis.col[basis.n++] = f2_apply(&b->rest, order.col[j]);
    f2_right_inverse(&basis, b->rows, &map);
    for (int j = 0; j < map.n; j++) map.col[j] <<= b->elem_log2;
    return map;
}

static SharedLayout between(const Layout *wide, const Layout *narrow, int elem_bytes, bool extra) {
    Between b = {wide, narrow, layout_rows(wide), log2_of(elem_bytes), {0}, {0}, {0}, {0}};
    SharedLayout s = start_shared(elem_bytes, wide->rank, wide->extents);
    choose_basis(&b, extra);
    s.map = between_map(&b);
    s.bytes = (int64_t)elem_bytes << b.rows;
    for (int d = wide->rank - 1; d >= 0; d--) {
        s.log2[d] = wide->log2[d];
        s.count[d] = wide->odd[d];
        s.stride[d] = s.bytes;
        s.bytes *= s.count[d];
    }
    return s;
}

/// Accesses of a thread; 0 where there are bank conflicts.
static int64_t access_count(const Layout *l, const SharedLayout *s) {
    SharedAccess a;
    shared_access(l, s, 1 << VECTOR_LOG2, &a);
    return shared_conflicts(l, s, &a) == 1 ? layout_repeats(l) << a.n_base : 0;
}

/// Without X there are never conflicts; with X on either side fewer accesses, if still none.
SharedLayout shared_between(const Layout *from, const Layout *to, int elem_bytes) {
    SharedLayout best = between(from, to, elem_bytes, false);
    int64_t least = access_count(from, &best) + access_count(to, &best);
    for (int side = 0; side < 2; side++) {
        SharedLayout s = between(side ? to : from, side ? from : to, elem_bytes, true);
        int64_t writes = access_count(from, &s), reads = access_count(to, &s);
        if (writes && reads && writes + reads < least) {
            least = writes + reads;
            best = s;
        }
    }
    return best;
}
