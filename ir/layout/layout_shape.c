// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Derives layouts from layouts: of permuted, sliced, reshaped, stacked and tiled blocks. None of
// these moves an element between threads.
#include "ir/layout/layout.h"

#include <string.h>

/* ---- building blocks ------------------------------------------------------------------------- */

/// Gives dimension d n more high bits; returns the row of the first one.
static int widen_dimension(Layout *l, int d, int n) {
    int row = layout_base(l, d) + l->log2[d];
    for (int j = 0; j < layout_n_bits(l); j++)
        l->col[j] = (l->col[j] & low_bits(row)) | (l->col[j] >> row) << row << n;
    l->log2[d] = (uint8_t)(l->log2[d] + n);
    return row;
}

/// Adds a highest bit to a level.
static void add_bit(Ctx *ctx, Layout *l, LayoutLevel level, Bits image) {
    int n = layout_n_bits(l), at = layout_first(l, level) + l->bits[level];
    if (n == LAYOUT_MAX_BITS) ice(ctx, (Loc){0}, "a layout of more than %d bits", n);
    memmove(l->col + at + 1, l->col + at, (size_t)(n - at) * sizeof *l->col);
    l->col[at] = image;
    l->bits[level]++;
}

/// Repeats the block `count` times along d by registers: the power of two as bits, the odd part as
/// repeats.
static void repeat_registers(Ctx *ctx, Layout *l, int d, int64_t count) {
    int n = __builtin_ctzll((Bits)count), row = widen_dimension(l, d, n);
    for (int i = 0; i < n; i++) add_bit(ctx, l, LEVEL_REG, bit(row + i));
    l->odd[d] = (int32_t)(count >> n);
}

/// Moves coordinate bit i of every image to to[i], and drops it if to[i] is negative.
static void move_coordinate_bits(Layout *l, const int *to) {
    for (int j = 0; j < layout_n_bits(l); j++) {
        Bits image = 0;
        for (Bits x = l->col[j]; x; x &= x - 1) {
            int i = __builtin_ctzll(x);
            if (to[i] >= 0) image |= bit(to[i]);
        }
        l->col[j] = image;
    }
}

/* ---- permute, slice, stack ------------------------------------------------------------------- */

const Layout *layout_permute(Ctx *ctx, const Layout *l, const int *perm) {
    Layout r = *l;
    int to[LAYOUT_MAX_BITS] = {0};
    for (int d = 0; d < l->rank; d++) {
        r.extents[d] = l->extents[perm[d]];
        r.odd[d] = l->odd[perm[d]];
        r.log2[d] = l->log2[perm[d]];
    }
    for (int d = 0; d < l->rank; d++)
        for (int i = 0; i < r.log2[d]; i++)
            to[layout_base(l, perm[d]) + i] = layout_base(&r, d) + i;
    move_coordinate_bits(&r, to);
    return layout_unique(ctx, &r);
}

const Layout *layout_slice(Ctx *ctx, const Layout *l, int d, bool keep) {
    Layout r = *l;
    int to[LAYOUT_MAX_BITS] = {0};
    Bits gone = layout_dim_mask(l, d);
    for (int i = 0, next = 0; i < layout_rows(l); i++) to[i] = gone >> i & 1 ? -1 : next++;
    r.extents[d] = r.odd[d] = 1;
    r.log2[d] = 0;
    if (!keep) {
        for (int i = d; i + 1 < l->rank; i++) {
            r.extents[i] = r.extents[i + 1];
            r.odd[i] = r.odd[i + 1];
            r.log2[i] = r.log2[i + 1];
        }
        r.rank--;
    }
    move_coordinate_bits(&r, to);
    return layout_unique(ctx, &r);
}

const Layout *layout_stack(Ctx *ctx, const Layout *l, int d, int count) {
    Layout r = *l;
    if (l->rank == MAX_RANK) ice(ctx, (Loc){0}, "a stack of blocks of rank %d", l->rank);
    for (int i = l->rank; i > d; i--) {
        r.extents[i] = r.extents[i - 1];
        r.odd[i] = r.odd[i - 1];
        r.log2[i] = r.log2[i - 1];
    }
    r.rank++;
    r.extents[d] = count;
    r.log2[d] = 0;
    repeat_registers(ctx, &r, d, count);
    return layout_unique(ctx, &r);
}

/* ---- reshape --------------------------------------------------------------------------------- */

/// The flat index of a group of dimensions as a mixed-radix number, fastest digit first: a digit
/// is a bit (`count` 2, its row in the layout) or a repeat (`count` odd).
typedef struct Digit {
    int32_t count;
    int row;
} Digit;

typedef struct Reshape {
    const Layout *from;
    Layout to;
    Digit digits[LAYOUT_MAX_BITS + MAX_RANK];
    int n, at;
    int source[LAYOUT_MAX_BITS]; // for bit i of the new dimension under construction
    int rows[MAX_RANK][LAYOUT_MAX_BITS];
} Reshape;

static void add_digits(Reshape *s, int d) {
    for (int i = 0; i < s->from->log2[d]; i++)
        s->digits[s->n++] = (Digit){2, layout_base(s->from, d) + i};
    if (s->from->odd[d] > 1) s->digits[s->n++] = (Digit){s->from->odd[d], -1};
}

/// Gives dimension d of the result the next digits: those of an exact extent, or all remaining ones
/// (for the slowest dimension of a group, which may have holes). Its bits must precede its repeats.
static bool take_digits(Reshape *s, int d, bool rest) {
    int64_t left = s->to.extents[d];
    int32_t odd = 1;
    int bits = 0;
    while (rest ? s->at < s->n : left > 1) {
        if (s->at == s->n) return false;
        Digit digit = s->digits[s->at++];
        if (!rest && left % digit.count != 0) return false;
        left /= digit.count;
        if (digit.count % 2)
            odd *= digit.count;
        else if (odd > 1)
            return false;
        else
            s->rows[d][bits++] = digit.row;
    }
    s->to.log2[d] = (uint8_t)bits;
    s->to.odd[d] = odd;
    return true;
}

/// Reshapes dimensions i0..i1 of the source to j0..j1 of the result, which have equally many
/// elements.
static bool reshape_group(Reshape *s, int i0, int i1, int j0, int j1) {
    s->n = s->at = 0;
    for (int i = i1; i >= i0; i--) {
        bool whole = layout_box(s->from, i) == s->from->extents[i];
        if (!whole && i > i0) return false; // a hole between elements
        add_digits(s, i);
    }
    for (int j = j1; j >= j0; j--)
        if (!take_digits(s, j, j == j0)) return false;
    return true;
}

/// Cuts both shapes, from the fastest dimension on, into the smallest groups of equal size, so that
/// an unchanged dimension may have holes.
static bool reshape_groups(Reshape *s, int rank) {
    int i = s->from->rank - 1, j = rank - 1;
    while (i >= 0 || j >= 0) {
        int i1 = i, j1 = j;
        int64_t old = i >= 0 ? s->from->extents[i--] : 1, now = j >= 0 ? s->to.extents[j--] : 1;
        while (old != now)
            if (old < now && i >= 0)
                old *= s->from->extents[i--];
            else if (now < old && j >= 0)
                now *= s->to.extents[j--];
            else
                return false;
        if (j1 == j && layout_box(s->from, i1) > 1) return false; // holes would become copies
        if (!reshape_group(s, i + 1, i1, j + 1, j1)) return false;
    }
    return true;
}

const Layout *layout_reshape(Ctx *ctx, const Layout *l, int rank, const int64_t *extents) {
    Reshape *s = ctx_new(ctx, Reshape);
    s->from = l;
    s->to = *l;
    s->to.rank = (uint8_t)rank;
    memset(s->to.log2, 0, sizeof s->to.log2);
    for (int d = 0; d < rank; d++) s->to.extents[d] = extents[d];
    if (!reshape_groups(s, rank)) return NULL;
    int to[LAYOUT_MAX_BITS] = {0};
    for (int d = 0; d < rank; d++)
        for (int i = 0; i < s->to.log2[d]; i++) to[s->rows[d][i]] = layout_base(&s->to, d) + i;
    move_coordinate_bits(&s->to, to);
    return layout_unique(ctx, &s->to);
}

/* ---- runs ------------------------------------------------------------------------------------ */

const Layout *layout_runs(Ctx *ctx, const Layout *l, int d, int64_t count) {
    Layout r = *l;
    int to[LAYOUT_MAX_BITS];
    r.extents[d] *= count;
    repeat_registers(ctx, &r, d, count);
    for (int i = 0; i < LAYOUT_MAX_BITS; i++) to[i] = i;
    int next = layout_base(&r, d);
    for (int j = 0; j < layout_n_bits(&r); j++) {
        Bits image = r.col[j] & layout_dim_mask(&r, d);
        if (image) to[__builtin_ctzll(image)] = next++;
    }
    move_coordinate_bits(&r, to);
    return layout_unique(ctx, &r);
}

/* ---- tiles ----------------------------------------------------------------------------------- */

const Layout *layout_tile(Ctx *ctx, const Layout *atom, const int64_t *extents, const int *warps) {
    Layout r = *atom;
    for (int d = r.rank - 1; d >= 0; d--) {
        if (r.odd[d] != 1) ice(ctx, (Loc){0}, "tiles of a layout with repeats");
        int n = warps ? __builtin_ctz((unsigned)warps[d]) : 0, row = widen_dimension(&r, d, n);
        for (int i = 0; i < n; i++) add_bit(ctx, &r, LEVEL_WARP, bit(row + i));
        r.extents[d] = extents[d];
        repeat_registers(ctx, &r, d, ceil_div(extents[d], (int64_t)1 << r.log2[d]));
    }
    return layout_unique(ctx, &r);
}

/// Removes the highest bit of d if it is the whole image of one register bit and part of no other.
static bool narrow_dimension(Layout *l, int d) {
    int row = layout_base(l, d) + l->log2[d] - 1, own = -1;
    for (int j = 0; l->log2[d] && j < layout_n_bits(l); j++) {
        if (!(l->col[j] >> row & 1)) continue;
        if (own >= 0 || j >= l->bits[LEVEL_REG] || l->col[j] != bit(row)) return false;
        own = j;
    }
    if (own < 0) return false;
    int rest = layout_n_bits(l) - own - 1;
    memmove(l->col + own, l->col + own + 1, (size_t)rest * sizeof *l->col);
    l->bits[LEVEL_REG]--;
    for (int j = 0; j < layout_n_bits(l); j++)
        l->col[j] = (l->col[j] & low_bits(row)) | l->col[j] >> (row + 1) << row;
    l->log2[d]--;
    return true;
}

const Layout *layout_extend(Ctx *ctx, const Layout *l, int d, int64_t extent, int64_t *unit) {
    Layout r = *l;
    while (narrow_dimension(&r, d)) continue;
    *unit = (int64_t)1 << r.log2[d];
    r.extents[d] = extent;
    r.odd[d] = 1;
    repeat_registers(ctx, &r, d, ceil_div(extent, *unit));
    return layout_unique(ctx, &r);
}

/* ---- registers of one thread ----------------------------------------------------------------- */

/// Returns coordinate d of the image of thread bit j.
static Bits thread_bit_coord(const Layout *l, int j, int d) {
    return l->col[l->bits[LEVEL_REG] + j] >> layout_base(l, d) & low_bits(l->log2[d]);
}

/// Whether every thread has the same distance from thread 0 in both layouts along d, by an xor of
/// coordinates that commutes with adding `start`.
static bool same_threads(const Layout *from, const Layout *to, int d, int64_t start) {
    Bits all = 0;
    for (int j = 0; j < layout_thread_bits(from); j++) {
        Bits x = thread_bit_coord(from, j, d);
        if (x != thread_bit_coord(to, j, d)) return false;
        all |= x;
    }
    return !all || ((Bits)start & low_bits(top_bit(all) + 1)) == 0;
}

bool layout_registers_from(const Layout *from, const Layout *to, const int64_t *start,
                           int64_t *reg) {
    if (from->rank != to->rank || layout_thread_bits(from) != layout_thread_bits(to)) return false;
    for (int d = 0; d < to->rank; d++)
        if (layout_box(from, d) > 1 && !same_threads(from, to, d, start ? start[d] : 0))
            return false;
    for (int64_t r = 0; r < layout_registers(to); r++) {
        int64_t x[MAX_RANK], thread = 0;
        bool inside = true;
        layout_at(to, r, 0, x);
        for (int d = 0; d < to->rank; d++) {
            x[d] = layout_box(from, d) == 1 ? 0 : x[d] + (start ? start[d] : 0);
            inside &= x[d] >= 0 && x[d] < layout_box(from, d);
        }
        reg[r] = -1;
        if (inside) layout_find(from, x, &reg[r], &thread);
        if (thread) return false;
    }
    return true;
}

int layout_vector(const Layout *l, int d, int *x) {
    int base = layout_base(l, d), n = 0;
    for (; n < l->log2[d]; n++) {
        int own = -1;
        for (int j = 0; j < l->bits[LEVEL_REG]; j++)
            if (l->col[j] == bit(base + n)) own = j;
        if (own < 0) break;
        for (int j = 0; j < layout_n_bits(l); j++)
            if (j != own && l->col[j] >> (base + n) & 1) return n;
        if (x) x[n] = own;
    }
    return n;
}

/* ---- blocked layouts ------------------------------------------------------------------------- */

enum { SECTOR_BYTES = 32, LINE_BYTES = 128, NEAR_LANES = 3, MAX_BOX_LOG2 = 30 };

/// Sets the box of extent e with a power-of-two part of at least 2^v: o = ceil(e / 2^v) with its
/// factors of two moved into it.
static void set_box(Layout *l, int d, int v) {
    int64_t o = ceil_div(l->extents[d], (int64_t)1 << v);
    int twos = __builtin_ctzll((Bits)o);
    l->log2[d] = (uint8_t)(v + twos);
    l->odd[d] = (int32_t)(o >> twos);
}

/// Returns the registers of a thread: the repeats, and the bits that threads do not take.
static int64_t registers_needed(const Layout *l, int thread_bits) {
    int left = layout_rows(l) - thread_bits;
    return layout_repeats(l) << (left > 0 ? left : 0);
}

/// Starts from the smallest boxes and widens the dimension that saves most registers, until none
/// saves any. Repeats are registers, so a box with large repeats leaves threads idle.
static void choose_boxes(Layout *l, int thread_bits) {
    for (bool better = true; better;) {
        int64_t least = registers_needed(l, thread_bits);
        better = false;
        Layout best = *l;
        for (int d = 0; d < l->rank; d++)
            for (int v = l->log2[d] + 1; l->odd[d] > 1 && v < MAX_BOX_LOG2; v++) {
                Layout t = *l;
                set_box(&t, d, v);
                if (registers_needed(&t, thread_bits) < least) {
                    least = registers_needed(&t, thread_bits);
                    best = t;
                    better = true;
                }
                if (t.odd[d] == 1) break;
            }
        *l = best;
    }
}

/// Returns log2 of the elements of a vector access; 0 if lanes are not adjacent in memory.
static int vector_bits(const BlockAccess *access) {
    if (access->contiguous < 0) return 0;
    int bytes = access->align_bytes < access->max_bytes ? access->align_bytes : access->max_bytes;
    int n = bytes * 8 / access->elem_bits;
    return n > 1 ? top_bit((Bits)n) : 0;
}

static int smaller_int(int a, int b) {
    return a < b ? a : b;
}

/// Gives the highest rows of the contiguous dimension to the CTAs, as far as lanes and warps leave
/// any, and removes them from `order`. Returns the number of rows left in it.
static int deal_ctas(Ctx *ctx, Layout *l, const BlockAccess *a, int *order, int inner, int vector) {
    int n = layout_rows(l), near = vector + a->lane_bits;
    int ctas = smaller_int(a->cta_bits, smaller_int(inner - near, n - near - a->warp_bits));
    if (ctas < 0) ctas = 0;
    for (int i = 0; i < a->cta_bits; i++)
        add_bit(ctx, l, LEVEL_CTA, i < ctas ? bit(order[inner - ctas + i]) : 0);
    memmove(order + inner - ctas, order + inner, (size_t)(n - inner) * sizeof *order);
    return n - ctas;
}

/// Moves `row` to place `at`, in front of its present place among the n rows. Nothing happens if a
/// CTA or an earlier place has it.
static void move_row(int *order, int n, int row, int at) {
    int i = at;
    while (i < n && order[i] != row) i++;
    for (; i < n && i > at; i--) order[i] = order[i - 1];
    if (i == at && i < n) order[at] = row;
}

/// Puts the lowest rows of the packed dimension after those of the vector, if registers are left
/// for them, and then those of its lanes. Without such lanes the rest of the packed run comes after
/// 8 lanes: that many runs are in one line of shared memory, whose banks the adjacent lanes then
/// fill. Returns the number of leading rows in registers.
static int pack_lowest_rows(const Layout *l, const BlockAccess *a, int *order, int n, int vector) {
    if (!a->pack_bytes || (a->pack == a->contiguous && vector)) return vector;
    int run = smaller_int(top_bit((Bits)(a->pack_bytes * 8 / a->elem_bits) | 1), l->log2[a->pack]);
    int base = layout_base(l, a->pack),
        wanted = smaller_int(run, n - vector - a->lane_bits - a->warp_bits);
    if (wanted < 0) wanted = 0;
    for (int i = 0; i < wanted; i++) move_row(order, n, base + i, vector + i);
    if (a->pack_lanes) {
        for (int i = wanted; i < wanted + a->pack_lanes && i < l->log2[a->pack]; i++)
            move_row(order, n, base + i, vector + i);
        return vector + wanted;
    }
    int near = vector + NEAR_LANES, inner = a->contiguous;
    if (inner >= 0 && inner != a->pack && near <= l->log2[inner])
        for (int i = wanted; i < run; i++) move_row(order, n, base + i, near + i);
    return vector + wanted;
}

/// Distributes the rows of the box: `order` lists n of them, first those of the contiguous
/// dimension.
static void deal_rows(Ctx *ctx, Layout *l, const BlockAccess *a, const int *order, int n,
                      int first) {
    int at = 0;
    for (; at < first; at++) add_bit(ctx, l, LEVEL_REG, bit(order[at]));
    for (int i = 0; i < a->lane_bits; i++)
        add_bit(ctx, l, LEVEL_LANE, at < n ? bit(order[at++]) : 0);
    int warps = smaller_int(n - at, a->warp_bits), last = n - warps;
    for (int i = 0; i < a->warp_bits; i++)
        add_bit(ctx, l, LEVEL_WARP, i < warps ? bit(order[last + i]) : 0);
    for (; at < last; at++) add_bit(ctx, l, LEVEL_REG, bit(order[at]));
}

/// Whether runs of 2^rows registers are too few for all threads. If the access permits idle threads
/// (`whole`), returns false.
static bool leaves_idle(const Layout *l, const BlockAccess *a, int rows) {
    return !a->whole && layout_rows(l) < a->lane_bits + a->warp_bits + rows;
}

const Layout *layout_blocked(Ctx *ctx, const BlockAccess *a) {
    Layout l = {.rank = (uint8_t)a->rank};
    int thread_bits = a->lane_bits + a->warp_bits + a->cta_bits;
    int vector = vector_bits(a), n = 0;
    int inner = a->contiguous < 0 ? a->rank - 1 : a->contiguous;
    for (int d = 0; d < a->rank; d++) {
        l.extents[d] = a->extents[d];
        set_box(&l, d, 0);
    }
    // A row of a tile has at least a sector of memory (a line, if threads transpose it) and a
    // vector, unless the block is smaller.
    bool turns = a->pack_bytes && a->pack != a->contiguous;
    int least_row = turns ? LINE_BYTES * 8 : SECTOR_BYTES * 8;
    int row = a->elem_bits < least_row ? top_bit((Bits)(least_row / a->elem_bits)) : 0;
    row = row > vector ? row : vector;
    for (int v = 0; a->contiguous >= 0 && l.odd[inner] > 1 && l.log2[inner] < row; v++)
        set_box(&l, inner, v);
    choose_boxes(&l, thread_bits + (a->whole ? vector : 0));
    if (a->rank && vector > l.log2[inner]) vector = l.log2[inner];
    while (vector > 0 && leaves_idle(&l, a, vector)) vector--;
    // Threads that transpose have whole words across vectors.
    int word = turns && a->elem_bits < 32
                   ? smaller_int(top_bit((Bits)(32 / a->elem_bits)), l.log2[a->pack])
                   : 0;
    while (vector > word && leaves_idle(&l, a, vector + word)) vector--;
    int order[LAYOUT_MAX_BITS];
    for (int i = 0; a->rank && i < l.log2[inner]; i++) order[n++] = layout_base(&l, inner) + i;
    for (int d = a->rank - 1; d >= 0; d--)
        for (int i = 0; d != inner && i < l.log2[d]; i++) order[n++] = layout_base(&l, d) + i;
    n = deal_ctas(ctx, &l, a, order, a->rank ? l.log2[inner] : 0, vector);
    deal_rows(ctx, &l, a, order, n, pack_lowest_rows(&l, a, order, n, vector));
    return layout_unique(ctx, &l);
}
