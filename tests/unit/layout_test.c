// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The algebra of layouts against brute force: matrices over F2, the text form, layouts derived from
// layouts, reductions and scans, on hand-written and on thousands of random layouts.
#include "layout_random.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

/* ---- matrices -------------------------------------------------------------------------------- */

static F2 random_f2(Random *rnd, int n, int rows) {
    F2 m = {.n = n};
    for (int j = 0; j < n; j++) m.col[j] = random_bits(rnd) & low_bits(rows);
    return m;
}

/// Marks all sums of columns in a table of 2^rows.
static int enumerate(const F2 *m, bool *in) {
    int n = 0;
    for (Bits x = 0; x < bit(m->n); x++) {
        Bits y = f2_apply(m, x);
        n += !in[y];
        in[y] = true;
    }
    return n;
}

static void matrices(void **state) {
    (void)state;
    Random rnd = {1};
    for (int trial = 0; trial < 2000; trial++) {
        int rows = 1 + random_below(&rnd, 6), n = random_below(&rnd, 8);
        F2 a = random_f2(&rnd, n, rows), b = random_f2(&rnd, random_below(&rnd, 5), rows);
        bool in_a[64] = {0}, in_b[64] = {0}, in_c[64] = {0}, in_d[64] = {0};
        int size = enumerate(&a, in_a);
        enumerate(&b, in_b);
        assert_int_equal(size, 1 << f2_rank(&a));
        F2 kernel = f2_kernel(&a), inverse;
        assert_int_equal(kernel.n, n - f2_rank(&a));
        for (int j = 0; j < kernel.n; j++) assert_true(f2_apply(&a, kernel.col[j]) == 0);
        assert_int_equal(f2_rank(&kernel), kernel.n);
        for (Bits y = 0; y < bit(rows); y++) {
            Bits x = 0;
            assert_int_equal(f2_solve(&a, y, &x), in_a[y]);
            if (in_a[y]) assert_true(f2_apply(&a, x) == y);
        }
        assert_int_equal(f2_right_inverse(&a, rows, &inverse), size == 1 << rows);
        if (size == 1 << rows) {
            F2 one = f2_identity(rows), product = f2_compose(&a, &inverse);
            assert_true(f2_equal(&product, &one));
        }
        F2 common = f2_intersection(&a, &b), apart = f2_avoiding(&a, &b, rows);
        enumerate(&common, in_c);
        enumerate(&apart, in_d);
        for (int y = 0; y < 1 << rows; y++) assert_int_equal(in_c[y], in_a[y] && in_b[y]);
        for (int y = 1; y < 1 << rows; y++) assert_false(in_d[y] && (in_a[y] || in_b[y]));
        int ra = f2_rank(&a), rb = f2_rank(&b);
        assert_int_equal(f2_rank(&apart), rows - (ra > rb ? ra : rb));
        F2 t = f2_transpose(&a, rows), back = f2_transpose(&t, n);
        assert_true(f2_equal(&a, &back));
    }
}

static void products_and_quotients(void **state) {
    (void)state;
    Random rnd = {2};
    for (int trial = 0; trial < 500; trial++) {
        F2 unit = random_f2(&rnd, 3, 3), rest = random_f2(&rnd, 4, 5), got;
        F2 product = f2_join(&unit, &rest, 3);
        assert_true(f2_quotient(&product, &unit, 7, 7, &got));
        for (int j = 0; j < 4; j++) assert_true(got.col[j] == rest.col[j] << 3);
        product.col[5] ^= 1;
        assert_false(f2_quotient(&product, &unit, 7, 7, &got));
    }
}

/* ---- text ------------------------------------------------------------------------------------ */

static void text_form(void **state) {
    (void)state;
    static const char *const good[] = {
        "[]",
        "[; lane - -]",
        "[7; reg 1 2 4]",
        "[160; reg 1; lane 2 4 8 16; warp - -; repeat 5]",
        ("[64x160; reg (0,1) (8,0) (0,8) (0,16); lane (0,2) (0,4) (1,0) (2,0) (4,0); "
         "warp (16,0) (32,0); repeat (1,5)]"),
        "[2x3x4; reg (1,0,0); lane (0,0,1) (0,0,2); cta -; repeat (1,3,1)]",
        "[4x4; lane (0,1) (0,3) (1,2) (2,0)]",
    };
    Ctx *ctx = ctx_create(NULL);
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        const char *at = good[i], *error;
        const Layout *l = layout_parse(ctx, &at, &error);
        if (!l) fail_msg("%s: %s", good[i], error);
        Text t = {.ctx = ctx};
        layout_print(&t, l);
        assert_string_equal(t.data, good[i]);
        assert_int_equal(*at, 0);
        at = t.data;
        assert_ptr_equal(l, layout_parse(ctx, &at, &error));
    }
    ctx_destroy(ctx);
}

static void bad_text(void **state) {
    (void)state;
    static const char *const bad[][2] = {
        {"64", "'[' is missing"},
        {"[64; reg 1 2", "a number is missing"},
        {"[8; reg 1 2]", "a box below the extent"},
        {"[8; reg 1 4]", "an element that is nowhere"},
        {"[4x4; reg (1,0) (2,1) (0,1) (0,3) (2,2)", "'(' is missing"},
        {"[5; reg 1 4; lane 4]", "an element that is nowhere"},
        {"[8; reg 1; repeat 4]", "a repeat that is not odd"},
        {"[0; reg 1]", "an extent below 1"},
        {"[4; warp 1; reg 2]", "reg, lane, warp, cta (in this order) or repeat"},
        {"[1x1x1x1x1x1x1x1x1]", "too many dimensions"},
        {"[99999999999; reg 1]", "a number is too large"},
        {"[2; reg 1", "a number is missing"},
    };
    Ctx *ctx = ctx_create(NULL);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        const char *at = bad[i][0], *error = NULL;
        assert_null(layout_parse(ctx, &at, &error));
        assert_string_equal(error, bad[i][1]);
    }
    ctx_destroy(ctx);
}

/* ---- evaluation ------------------------------------------------------------------------------ */

static void places(void **state) {
    (void)state;
    Random rnd = {3};
    for (int trial = 0; trial < 150; trial++) {
        Ctx *ctx = ctx_create(NULL);
        const Layout *l = random_layout(ctx, &rnd, random_shape(&rnd));
        int64_t box = 1, threads = (int64_t)1 << layout_thread_bits(l), x[MAX_RANK], reg, thread;
        for (int d = 0; d < l->rank; d++) box *= layout_box(l, d);
        int64_t owned = 0;
        for (int64_t t = 0; t < threads; t++)
            for (int64_t r = 0; r < layout_registers(l); r++) {
                layout_at(l, r, t, x);
                for (int d = 0; d < l->rank; d++) assert_in_range(x[d], 0, layout_box(l, d) - 1);
                layout_find(l, x, &reg, &thread);
                bool owner = !((Bits)t & layout_owner(l));
                if (owner) assert_true(reg == r && thread == t);
                assert_true(((Bits)thread & layout_owner(l)) == 0);
                owned += owner;
            }
        assert_int_equal(owned, box);
        ctx_destroy(ctx);
    }
}

/* ---- derived layouts ------------------------------------------------------------------------- */

static void permuted_and_sliced(void **state) {
    (void)state;
    Random rnd = {4};
    for (int trial = 0; trial < 150; trial++) {
        Ctx *ctx = ctx_create(NULL);
        const Layout *l = random_layout(ctx, &rnd, random_shape(&rnd));
        int perm[MAX_RANK], d = random_below(&rnd, l->rank);
        for (int i = 0; i < l->rank; i++) perm[i] = (i + 1) % l->rank;
        const Layout *p = layout_permute(ctx, l, perm), *s = layout_slice(ctx, l, d, true);
        const Layout *cut = layout_slice(ctx, l, d, false);
        int64_t x[MAX_RANK], y[MAX_RANK], z[MAX_RANK];
        int64_t *from = calloc((size_t)layout_registers(l), sizeof *from);
        assert_true(layout_registers_from(s, l, NULL, from));
        for (int64_t t = 0; t < (int64_t)1 << layout_thread_bits(l); t++)
            for (int64_t r = 0; r < layout_registers(l); r++) {
                layout_at(l, r, t, x);
                for (int i = 0; i < l->rank; i++) y[i] = x[perm[i]];
                bool here = false; // with the same thread and register bits, in some repeat
                int64_t bits = l->bits[LEVEL_REG], low = r & (((int64_t)1 << bits) - 1);
                for (int64_t k = 0; k < layout_repeats(p) && !here; k++) {
                    layout_at(p, k << bits | low, t, z);
                    here = memcmp(y, z, (size_t)l->rank * sizeof *y) == 0;
                }
                assert_true(here);
                layout_at(s, from[r], t, y);
                layout_at(cut, from[r], t, z);
                for (int i = 0; i < l->rank; i++) assert_int_equal(y[i], i == d ? 0 : x[i]);
                for (int i = 0; i + 1 < l->rank; i++) assert_int_equal(z[i], y[i + (i >= d)]);
            }
        free(from);
        ctx_destroy(ctx);
    }
}

static int64_t flat(int rank, const int64_t *extents, const int64_t *x) {
    int64_t at = 0;
    for (int d = 0; d < rank; d++) at = at * extents[d] + x[d];
    return at;
}

/// Places that are not holes keep their flat index. Returns whether a layout exists.
static bool check_reshape(Ctx *ctx, const Layout *l, int rank, const int64_t *extents) {
    const Layout *r = layout_reshape(ctx, l, rank, extents);
    if (!r) return false;
    assert_int_equal(layout_registers(l), layout_registers(r));
    for (int64_t t = 0; t < (int64_t)1 << layout_thread_bits(l); t++)
        for (int64_t reg = 0; reg < layout_registers(l); reg++) {
            int64_t x[MAX_RANK], y[MAX_RANK];
            layout_at(l, reg, t, x);
            layout_at(r, reg, t, y);
            assert_int_equal(layout_is_hole(l, x), layout_is_hole(r, y));
            if (!layout_is_hole(l, x))
                assert_int_equal(flat(l->rank, l->extents, x), flat(rank, extents, y));
        }
    return true;
}

static void reshaped(void **state) {
    (void)state;
    static const struct {
        const char *from;
        int rank;
        int64_t to[4];
        bool exists;
    } cases[] = {
        {"[160; reg 1; lane 2 4 8 16; repeat 5]", 2, {5, 32}, true},
        {"[160; reg 1; lane 2 4 8 16; repeat 5]", 2, {10, 16}, true},
        {"[160; reg 1; lane 2 4 8 16; repeat 5]", 2, {32, 5}, false},
        {"[160; reg 1; lane 2 4 8 16; repeat 5]", 4, {1, 10, 1, 16}, true},
        {"[3x160; reg (0,1); lane (0,2) (0,4) (0,8) (0,16); repeat (3,5)]", 1, {480}, true},
        {"[4x160; reg (0,1); lane (0,2) (0,4) (0,8) (0,16) (1,0) (2,0); repeat (1,5)]",
         1,
         {640},
         false},
        {"[7x4; reg (0,1) (0,2); lane (1,0) (2,0) (4,0)]", 1, {28}, true},
        {"[28; reg 1 2; lane 4 8 16]", 2, {7, 4}, true},
        {"[28; reg 1 2; lane 4 8 16]", 2, {4, 7}, false},
        {"[4x7; reg (1,0) (2,0); lane (0,1) (0,2) (0,4)]", 1, {28}, false},
        {"[4x7; reg (1,0) (2,0); lane (0,1) (0,2) (0,4)]", 3, {2, 2, 7}, true},
        {"[1x7; reg (1,0); lane (0,1) (0,2) (0,4)]", 1, {7}, false},
        {"[8x8; reg (0,1) (0,3) (1,4); lane (1,0) (2,2) (4,4)]", 3, {4, 4, 4}, true},
    };
    Ctx *ctx = ctx_create(NULL);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_int_equal(
            check_reshape(ctx, layout_of(ctx, cases[i].from), cases[i].rank, cases[i].to),
            cases[i].exists);
    Random rnd = {5};
    for (int trial = 0; trial < 300; trial++) {
        const Layout *l = random_layout(ctx, &rnd, random_shape(&rnd));
        int64_t extents[MAX_RANK], all = 1;
        for (int d = 0; d < l->rank; d++) all *= l->extents[d];
        check_reshape(ctx, l, 1, &all);
        extents[0] = all % 4 ? all : all / 4;
        extents[1] = all % 4 ? 1 : 4;
        check_reshape(ctx, l, 2, extents);
    }
    ctx_destroy(ctx);
}

static void stacked_and_tiled(void **state) {
    (void)state;
    Ctx *ctx = ctx_create(NULL);
    const Layout *l = layout_of(ctx, "[4x8; reg (0,1); lane (0,2) (0,4) (1,0) (2,0)]");
    assert_ptr_equal(layout_stack(ctx, l, 1, 6),
                     layout_of(ctx, "[4x6x8; reg (0,0,1) (0,1,0); lane (0,0,2) (0,0,4) (1,0,0) "
                                    "(2,0,0); repeat (1,3,1)]"));
    assert_ptr_equal(layout_tile(ctx, l, (int64_t[]){30, 20}, (int[]){4, 1}),
                     layout_of(ctx, "[30x20; reg (0,1) (16,0); lane (0,2) (0,4) (1,0) (2,0); warp "
                                    "(4,0) (8,0); repeat (1,3)]"));
    ctx_destroy(ctx);
}

/// Checks the part [start, start + extent) along d of a block in layout l, and the way back.
static void check_part(Ctx *ctx, const Layout *l, int d, int64_t start, int64_t extent) {
    int64_t unit, x[MAX_RANK], y[MAX_RANK], at[MAX_RANK] = {0};
    const Layout *part = layout_extend(ctx, l, d, extent, &unit);
    int64_t n = layout_registers(part), *reg = calloc((size_t)n, sizeof *reg);
    at[d] = start;
    bool free_move = layout_registers_from(l, part, at, reg);
    if (start % unit == 0) assert_true(free_move);
    for (int64_t t = 0; free_move && t < (int64_t)1 << layout_thread_bits(l); t = 2 * t + 1)
        for (int64_t r = 0; r < n; r++) {
            layout_at(part, r, t, x);
            x[d] += start;
            assert_int_equal(reg[r] < 0, x[d] >= layout_box(l, d) || x[d] < 0);
            if (reg[r] < 0) continue;
            layout_at(l, reg[r], t, y);
            assert_memory_equal(x, y, (size_t)l->rank * sizeof *x);
        }
    free(reg);
}

static void parts(void **state) {
    (void)state;
    Random rnd = {7};
    for (int trial = 0; trial < 300; trial++) {
        Ctx *ctx = ctx_create(NULL);
        const Layout *l = random_layout(ctx, &rnd, random_shape(&rnd));
        int d = random_below(&rnd, l->rank), e = (int)layout_box(l, d), start, unit;
        for (start = 0; start < e; start += unit) {
            unit = 1 + e / 16 + (1 << random_below(&rnd, 4));
            check_part(ctx, l, d, start, 1 + random_below(&rnd, e - start));
            check_part(ctx, l, d, -start, e + start); // l as the last part of a concatenation
        }
        ctx_destroy(ctx);
    }
    Ctx *ctx = ctx_create(NULL);
    const Layout *l = layout_of(ctx, "[64; reg 1 16 32; lane 2 4 8]");
    int64_t unit;
    assert_ptr_equal(layout_extend(ctx, l, 0, 112, &unit),
                     layout_of(ctx, "[112; reg 1; lane 2 4 8; repeat 7]"));
    assert_int_equal(unit, 16);
    assert_ptr_equal(layout_extend(ctx, layout_extend(ctx, l, 0, 112, &unit), 0, 64, &unit), l);
    ctx_destroy(ctx);
}

/* ---- vectors and blocked layouts ------------------------------------------------------------- */

/// Registers base ^ x of every thread hold neighbours, in order and aligned.
static void check_vector(const Layout *l, int d) {
    int x[LAYOUT_MAX_BITS], n = layout_vector(l, d, x);
    for (int64_t t = 0; t < (int64_t)1 << layout_thread_bits(l); t++)
        for (int64_t r = 0; r < layout_registers(l); r++) {
            int64_t a[MAX_RANK], b[MAX_RANK], lane = 0;
            layout_at(l, r, t, a);
            for (int i = 0; i < n; i++) lane |= (r >> x[i] & 1) << i;
            assert_int_equal(a[d] & ((1 << n) - 1), lane);
            for (int i = 0; i < n; i++) {
                layout_at(l, r ^ (int64_t)1 << x[i], t, b);
                b[d] ^= (int64_t)1 << i;
                assert_memory_equal(a, b, (size_t)l->rank * sizeof *a);
            }
        }
}

static void blocked(void **state) {
    (void)state;
    static const int64_t extents[] = {1, 7, 16, 48, 96, 112, 160, 192, 1000, 4096};
    Ctx *ctx = ctx_create(NULL);
    for (int i = 0; i < 10; i++)
        for (int j = 0; j < 10; j++)
            for (int bits = 8; bits <= 64; bits *= 2) {
                int64_t e[] = {extents[i], extents[j]};
                if (e[0] * e[1] > 65536) continue;
                BlockAccess a = {.rank = 2,
                                 .elem_bits = bits,
                                 .extents = e,
                                 .contiguous = (i + j) % 3 - 1,
                                 .align_bytes = 16,
                                 .lane_bits = 5,
                                 .warp_bits = i % 4,
                                 .max_bytes = 16,
                                 .cta_bits = j % 5 % 4,
                                 .pack = i % 2,
                                 .pack_bytes = j % 3 * 8,
                                 .pack_lanes = j % 4};
                const Layout *l = layout_blocked(ctx, &a);
                check_vector(l, 0);
                check_vector(l, 1);
                // At most four times the registers that an even distribution over the threads of a
                // CTA needs.
                int64_t least = ceil_div(e[0] * e[1], (int64_t)1 << layout_thread_bits(l));
                int64_t near = ceil_div(e[0] * e[1], (int64_t)32 << a.warp_bits);
                assert_int_equal(l->bits[LEVEL_CTA], a.cta_bits);
                assert_in_range(layout_registers(l), least, 4 * near);
            }
    Random rnd = {8};
    for (int trial = 0; trial < 300; trial++) {
        const Layout *l = random_layout(ctx, &rnd, random_shape(&rnd));
        for (int d = 0; d < l->rank; d++) check_vector(l, d);
    }
    ctx_destroy(ctx);
}

static void blocked_examples(void **state) {
    (void)state;
    Ctx *ctx = ctx_create(NULL);
    const Layout *turned = layout_of(ctx, "[8; reg 1 2; lane 6]"); // 2 3 0 1 in the other lane
    assert_int_equal(layout_vector(turned, 0, NULL), 1);
    BlockAccess row = {.rank = 2,
                       .elem_bits = 16,
                       .extents = (int64_t[]){64, 160},
                       .contiguous = 1,
                       .align_bytes = 16,
                       .lane_bits = 5,
                       .warp_bits = 2,
                       .max_bytes = 16};
    assert_ptr_equal(layout_blocked(ctx, &row),
                     layout_of(ctx, "[64x160; reg (0,1) (0,2) (0,4) (8,0); lane (0,8) (0,16) (1,0) "
                                    "(2,0) (4,0); warp (16,0) (32,0); repeat (1,5)]"));
    BlockAccess split = {.rank = 2,
                         .elem_bits = 16,
                         .extents = (int64_t[]){1, 12288},
                         .contiguous = 1,
                         .align_bytes = 16,
                         .lane_bits = 5,
                         .warp_bits = 2,
                         .max_bytes = 16,
                         .cta_bits = 2};
    assert_ptr_equal(layout_blocked(ctx, &split),
                     layout_of(ctx, "[1x12288; reg (0,1) (0,2) (0,4); lane (0,8) (0,16) (0,32) "
                                    "(0,64) (0,128); warp (0,256) (0,512); cta (0,1024) (0,2048); "
                                    "repeat (1,3)]"));
    BlockAccess few = {.rank = 1,
                       .elem_bits = 32,
                       .extents = (int64_t[]){256},
                       .contiguous = 0,
                       .align_bytes = 16,
                       .lane_bits = 5,
                       .warp_bits = 2,
                       .max_bytes = 16,
                       .cta_bits = 2};
    assert_ptr_equal(layout_blocked(ctx, &few),
                     layout_of(ctx, "[256; reg 1; lane 2 4 8 16 32; warp 64 128; cta - -]"));
    BlockAccess column = {.rank = 2,
                          .elem_bits = 32,
                          .extents = (int64_t[]){128, 8},
                          .contiguous = 0,
                          .align_bytes = 8,
                          .lane_bits = 5,
                          .warp_bits = 2,
                          .max_bytes = 16};
    assert_ptr_equal(
        layout_blocked(ctx, &column),
        layout_of(ctx, "[128x8; reg (1,0) (64,0) (0,1); lane (2,0) (4,0) (8,0) (16,0) (32,0)"
                       "; warp (0,2) (0,4)]"));
    // Whole vectors: fewer than threads, and one more row than exists.
    BlockAccess whole = {.rank = 2,
                         .elem_bits = 16,
                         .extents = (int64_t[]){24, 16},
                         .contiguous = 1,
                         .align_bytes = 16,
                         .lane_bits = 5,
                         .warp_bits = 3,
                         .max_bytes = 16,
                         .whole = true};
    assert_ptr_equal(layout_blocked(ctx, &whole),
                     layout_of(ctx, "[24x16; reg (0,1) (0,2) (0,4); lane (0,8) (1,0) (2,0) (4,0) "
                                    "(8,0); warp (16,0) - -]"));
    // Neighbours along the other dimension, as many as registers allow; in rows that are not
    // contiguous along them.
    BlockAccess across = {.rank = 2,
                          .elem_bits = 16,
                          .extents = (int64_t[]){128, 8},
                          .contiguous = 1,
                          .align_bytes = 16,
                          .lane_bits = 5,
                          .max_bytes = 16,
                          .pack_bytes = 16};
    assert_ptr_equal(
        layout_blocked(ctx, &across),
        layout_of(ctx, "[128x8; reg (0,1) (0,2) (0,4) (1,0) (2,0); lane (4,0) (8,0) (16,0) (32,0) "
                       "(64,0)]"));
    BlockAccess loose = {.rank = 2,
                         .elem_bits = 16,
                         .extents = (int64_t[]){8, 128},
                         .contiguous = -1,
                         .align_bytes = 16,
                         .lane_bits = 5,
                         .warp_bits = 1,
                         .max_bytes = 16,
                         .pack = 1,
                         .pack_bytes = 16};
    assert_ptr_equal(
        layout_blocked(ctx, &loose),
        layout_of(ctx,
                  "[8x128; reg (0,1) (0,2) (0,4) (2,0); lane (0,8) (0,16) (0,32) (0,64) (1,0); "
                  "warp (4,0)]"));
    ctx_destroy(ctx);
}

/* ---- reductions and scans -------------------------------------------------------------------- */

typedef struct Machine {
    const Layout *l;
    int64_t threads, registers;
    uint64_t *value; // [thread][register]
} Machine;

static Machine machine(const Layout *l) {
    Machine m = {l, (int64_t)1 << layout_thread_bits(l), layout_registers(l), NULL};
    m.value = calloc((size_t)(m.threads * m.registers), sizeof *m.value);
    return m;
}

/// An element's value; holes count as the identity.
static uint64_t element(const Layout *l, const int64_t *x) {
    uint64_t h = 7;
    for (int d = 0; d < l->rank; d++) h = (h ^ (uint64_t)x[d]) * 0x9e3779b97f4a7c15u;
    return layout_is_hole(l, x) ? 0 : h >> 8;
}

static void fill(Machine *m) {
    int64_t x[MAX_RANK];
    for (int64_t t = 0; t < m->threads; t++)
        for (int64_t r = 0; r < m->registers; r++) {
            layout_at(m->l, r, t, x);
            m->value[t * m->registers + r] = element(m->l, x);
        }
}

/// Every register of a repeat of d gets the sum over those repeats.
static void add_repeats(Machine *m, int d) {
    const Layout *l = m->l;
    int64_t inner = (int64_t)1 << l->bits[LEVEL_REG];
    for (int i = d + 1; i < l->rank; i++) inner *= l->odd[i];
    uint64_t *sum = calloc((size_t)m->registers, sizeof *sum);
    for (int64_t t = 0; t < m->threads; t++) {
        uint64_t *v = m->value + t * m->registers;
        for (int64_t r = 0; r < m->registers; r++) {
            int64_t first = r / (inner * l->odd[d]) * inner * l->odd[d] + r % inner;
            sum[r] = 0;
            for (int i = 0; i < l->odd[d]; i++) sum[r] += v[first + i * inner];
        }
        memcpy(v, sum, (size_t)m->registers * sizeof *sum);
    }
    free(sum);
}

static void add_step(Machine *m, const LayoutStep *s) {
    Machine n = machine(m->l);
    for (int64_t t = 0; t < m->threads; t++)
        for (int64_t r = 0; r < m->registers; r++) {
            int64_t t2 = t ^ (int64_t)s->thread, r2 = r ^ (int64_t)s->reg;
            n.value[t * m->registers + r] =
                m->value[t * m->registers + r] + m->value[t2 * m->registers + r2];
        }
    free(m->value);
    *m = n;
}

static uint64_t row_sum(const Layout *l, int d, const int64_t *at, int64_t upto) {
    int64_t x[MAX_RANK];
    uint64_t sum = 0;
    memcpy(x, at, sizeof x);
    for (x[d] = 0; x[d] <= upto; x[d]++) sum += element(l, x);
    return sum;
}

/// Parts in `partial`, gathered by address, must have the same sum.
static void check_partial(const Machine *m, int d, const LayoutReduction *r) {
    const Layout *p = r->partial, *g = r->gathered;
    for (int64_t t = 0; t < m->threads; t++)
        for (int64_t k = 0; k < layout_registers(r->result); k++) {
            int64_t x[MAX_RANK], y[MAX_RANK], reg, thread;
            layout_at(r->result, k, t, x);
            uint64_t sum = 0;
            for (x[d] = 0; x[d] < g->extents[d]; x[d]++) {
                layout_find(p, x, &reg, &thread);
                int64_t source = 0, repeat = reg >> p->bits[LEVEL_REG];
                for (int i = 0; i < p->bits[LEVEL_REG]; i++)
                    source |= (reg >> i & 1) << r->partial_bit[i];
                for (int64_t q = source; q < m->registers; q += (int64_t)1 << m->l->bits[0]) {
                    layout_at(m->l, q, thread, y); // the repeat with the lowest coordinate d
                    bool same = y[d] >> m->l->log2[d] == 0;
                    for (int i = 0; i < p->rank; i++) same &= i == d || y[i] == x[i];
                    if (!same) continue;
                    sum += m->value[thread * m->registers + q];
                    repeat = -1;
                    break;
                }
                assert_int_equal(repeat, -1);
            }
            x[d] = 0;
            if (!layout_is_hole(r->result, x))
                assert_true(sum == row_sum(m->l, d, x, m->l->extents[d] - 1));
            layout_find(g, x, &reg, &thread);
        }
}

static void check_reduction(Ctx *ctx, const Layout *l, int d) {
    LayoutReduction r = layout_reduce(ctx, l, d);
    Machine m = machine(l);
    fill(&m);
    add_repeats(&m, d);
    int near = r.n_level[LEVEL_REG] + r.n_level[LEVEL_LANE];
    for (int i = 0; i < r.n; i++) {
        if (i == near) check_partial(&m, d, &r);
        if (i < near && r.steps[i].level == LEVEL_LANE)
            assert_true(r.steps[i].thread >> l->bits[LEVEL_LANE] == 0);
        add_step(&m, &r.steps[i]);
    }
    assert_int_equal(near < r.n, r.partial != NULL);
    assert_ptr_equal(r.result, layout_slice(ctx, l, d, true));
    for (int64_t t = 0; t < m.threads; t++)
        for (int64_t k = 0; k < m.registers; k++) {
            int64_t x[MAX_RANK];
            layout_at(l, k, t, x);
            x[d] = 0;
            if (!layout_is_hole(l, x))
                assert_true(m.value[t * m.registers + k] == row_sum(l, d, x, l->extents[d] - 1));
        }
    free(m.value);
}

/// One step of a scan: pairs exchange totals, and the upper place adds the lower one's total to its
/// prefix.
static void scan_step(Machine *prefix, Machine *total, const LayoutStep *s) {
    for (int64_t t = 0; t < prefix->threads; t++)
        for (int64_t r = 0; r < prefix->registers; r++) {
            int64_t t2 = t ^ (int64_t)s->thread, r2 = r ^ (int64_t)s->reg;
            if (parity((Bits)r & s->own_reg) ^ parity((Bits)t & s->own_thread))
                prefix->value[t * prefix->registers + r] +=
                    total->value[t2 * total->registers + r2];
        }
    add_step(total, s);
}

static void check_scan(const Layout *l, int d) {
    LayoutScan s = layout_scan(l, d);
    Machine prefix = machine(l), total = machine(l);
    fill(&prefix);
    fill(&total);
    for (int i = 0; i < s.n; i++) scan_step(&prefix, &total, &s.steps[i]);
    int64_t x[MAX_RANK], inner = (int64_t)1 << l->bits[LEVEL_REG];
    for (int i = d + 1; i < l->rank; i++) inner *= l->odd[i];
    for (int64_t t = 0; t < prefix.threads; t++)
        for (int64_t r = 0; r < prefix.registers; r++) {
            layout_at(l, r, t, x);
            if (layout_is_hole(l, x)) continue;
            uint64_t sum = prefix.value[t * prefix.registers + r]; // and the earlier repeats
            for (int64_t k = 1; k <= x[d] >> l->log2[d]; k++)
                sum += total.value[t * total.registers + r - k * inner];
            assert_true(sum == row_sum(l, d, x, x[d]));
        }
    free(prefix.value);
    free(total.value);
}

static void reductions_and_scans(void **state) {
    (void)state;
    Random rnd = {6};
    for (int trial = 0; trial < 250; trial++) {
        Ctx *ctx = ctx_create(NULL);
        const Layout *l = random_layout(ctx, &rnd, random_shape(&rnd));
        for (int d = 0; d < l->rank; d++) {
            check_reduction(ctx, l, d);
            check_scan(l, d);
        }
        ctx_destroy(ctx);
    }
}

/// Rows of the accumulator of wgmma: two xor shuffles, no warp step.
static void row_of_wgmma(void **state) {
    (void)state;
    Ctx *ctx = ctx_create(NULL);
    const Layout *l =
        layout_of(ctx, "[64x160; reg (0,1) (8,0) (0,8) (0,16); lane (0,2) (0,4) (1,0) "
                       "(2,0) (4,0); warp (16,0) (32,0); repeat (1,5)]");
    LayoutReduction r = layout_reduce(ctx, l, 1);
    assert_int_equal(r.n_level[LEVEL_REG], 3);
    assert_int_equal(r.n_level[LEVEL_LANE], 2);
    assert_int_equal(r.n, 5);
    assert_true(r.steps[3].thread == 1 && r.steps[4].thread == 2);
    assert_ptr_equal(r.result, layout_of(ctx, "[64x1; reg (8,0); lane - - (1,0) (2,0) (4,0); warp "
                                              "(16,0) (32,0)]"));
    assert_true(layout_owner(r.result) == 3);
    r = layout_reduce(ctx, l, 0);
    assert_int_equal(r.n_level[LEVEL_LANE], 3);
    assert_int_equal(r.n_level[LEVEL_WARP], 2);
    assert_ptr_equal(r.partial, layout_of(ctx, "[4x160; reg (0,1) (0,8) (0,16); lane (0,2) (0,4) - "
                                               "- -; warp (1,0) (2,0); repeat (1,5)]"));
    assert_ptr_equal(
        r.gathered, layout_of(ctx, "[4x160; reg (0,1) (0,8) (0,16) (1,0) (2,0); lane (0,2) (0,4) - "
                                   "- -; warp - -; repeat (1,5)]"));
    ctx_destroy(ctx);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(matrices),
        cmocka_unit_test(products_and_quotients),
        cmocka_unit_test(text_form),
        cmocka_unit_test(bad_text),
        cmocka_unit_test(places),
        cmocka_unit_test(permuted_and_sliced),
        cmocka_unit_test(reshaped),
        cmocka_unit_test(stacked_and_tiled),
        cmocka_unit_test(parts),
        cmocka_unit_test(blocked),
        cmocka_unit_test(blocked_examples),
        cmocka_unit_test(reductions_and_scans),
        cmocka_unit_test(row_of_wgmma),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
