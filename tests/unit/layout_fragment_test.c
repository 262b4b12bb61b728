// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Compares rows of the fragment table with the manuals' formulas. For each warp, lane and element
// of the lane they give the row and column: the PTX ISA (groupID, threadID_in_group), and AMD's
// matrix instruction calculator (lane, register, bits of it). Examples follow.
#include "layout_random.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

typedef struct At {
    int row, col;
} At;

/// Element i of lane `lane` of warp `warp`; p, q are parameters of the row.
typedef At Formula(int lane, int warp, int i, int p, int q);

/* ---- PTX ISA: groupID = lane >> 2, threadID_in_group = lane % 4 ------------------------------ */

static At d_m16n8(int lane, int warp, int i, int p, int q) {
    (void)p, (void)q; // row = groupID for c0, c1, groupID + 8 for c2, c3
    return (At){16 * warp + lane / 4 + (i < 2 ? 0 : 8), lane % 4 * 2 + (i & 1)};
}

static At a_k16(int lane, int warp, int i, int p, int q) {
    (void)p, (void)q;
    int row = i < 2 || (i >= 4 && i < 6) ? lane / 4 : lane / 4 + 8;
    return (At){16 * warp + row, lane % 4 * 2 + (i & 1) + (i < 4 ? 0 : 8)};
}

static At b_k16(int lane, int warp, int i, int p, int q) {
    (void)p, (void)q, (void)warp;
    return (At){lane % 4 * 2 + (i & 1) + (i < 2 ? 0 : 8), lane / 4};
}

static At a_tf32(int lane, int warp, int i, int p, int q) {
    (void)p, (void)q; // a0, a2: groupID; a0, a1: threadID_in_group
    int row = i == 0 || i == 2 ? lane / 4 : lane / 4 + 8;
    return (At){16 * warp + row, i == 0 || i == 1 ? lane % 4 : lane % 4 + 4};
}

static At b_tf32(int lane, int warp, int i, int p, int q) {
    (void)p, (void)q, (void)warp;
    return (At){i == 0 ? lane % 4 : lane % 4 + 4, lane / 4};
}

// m8n8k4 of f64: a lane has one element of A and one of B.
static At a_f64(int lane, int warp, int i, int p, int q) {
    (void)p, (void)q, (void)warp, (void)i;
    return (At){lane / 4, lane % 4};
}

static At b_f64(int lane, int warp, int i, int p, int q) {
    (void)p, (void)q, (void)warp, (void)i;
    return (At){lane % 4, lane / 4};
}

static At d_f64(int lane, int warp, int i, int p, int q) {
    (void)p, (void)q, (void)warp;
    return (At){lane / 4, lane % 4 * 2 + i};
}

static At a_k32(int lane, int warp, int i, int p, int q) {
    (void)p, (void)q;
    int row = i < 4 || (i >= 8 && i < 12) ? lane / 4 : lane / 4 + 8;
    return (At){16 * warp + row, lane % 4 * 4 + (i & 3) + (i < 8 ? 0 : 16)};
}

static At b_k32(int lane, int warp, int i, int p, int q) {
    (void)p, (void)q, (void)warp;
    return (At){lane % 4 * 4 + (i & 3) + (i < 4 ? 0 : 16), lane / 4};
}

/// ldmatrix: thread 4 r + c receives elements 2 c, 2 c + 1 of row r; with .trans of column r.
static At matrix_row(int lane, int warp, int i, int p, int q) {
    (void)p, (void)q, (void)warp;
    return (At){lane / 4, lane % 4 * 2 + i};
}

static At matrix_column(int lane, int warp, int i, int p, int q) {
    (void)p, (void)q, (void)warp;
    return (At){lane % 4 * 2 + i, lane / 4};
}

/* ---- AMD ------------------------------------------------------------------------------------- */

/// A: i = lane % p, k = q * (lane / p) + the lane's element; B likewise with j.
static At mfma_a(int lane, int warp, int i, int p, int q) {
    (void)warp;
    return (At){lane % p, q * (lane / p) + i};
}

static At mfma_b(int lane, int warp, int i, int p, int q) {
    At a = mfma_a(lane, warp, i, p, q);
    return (At){a.col, a.row};
}

/// 8 bits on gfx950: two runs of 16 elements, separated by a run of all lanes.
static At mfma_f8_a(int lane, int warp, int i, int p, int q) {
    (void)warp;
    return (At){lane % p, 16 * (lane / p) + q * (i / 16) + i % 16};
}

static At mfma_f8_b(int lane, int warp, int i, int p, int q) {
    At a = mfma_f8_a(lane, warp, i, p, q);
    return (At){a.col, a.row};
}

static At mfma_d32(int lane, int warp, int i, int p, int q) {
    (void)p, (void)q, (void)warp;
    return (At){8 * (i / 4) % 32 + 4 * (lane / 32) + i % 4, lane % 32};
}

static At mfma_d16(int lane, int warp, int i, int p, int q) {
    (void)p, (void)q, (void)warp;
    return (At){4 * (lane / 16) + i % 4, lane % 16};
}

static At mfma_d64(int lane, int warp, int i, int p, int q) {
    (void)p, (void)q, (void)warp;
    return (At){4 * i + lane / 16, lane % 16};
}

/// gfx11: k = 2 * GPR + bits / 16 (4 * GPR + bits / 8), in both halves of the wave.
static At gfx11_a(int lane, int warp, int i, int p, int q) {
    (void)warp, (void)q;
    int gpr = i / p;
    return (At){lane % 16, p * gpr + i % p};
}

static At gfx11_b(int lane, int warp, int i, int p, int q) {
    At a = gfx11_a(lane, warp, i, p, q);
    return (At){a.col, a.row};
}

static At gfx11_d(int lane, int warp, int i, int p, int q) {
    (void)p, (void)q, (void)warp;
    return (At){2 * i + lane / 16, lane % 16};
}

static At gfx12_a16(int lane, int warp, int i, int p, int q) {
    (void)p, (void)q, (void)warp;
    int gpr = i / 2, half = i % 2;
    return (At){lane % 16, 8 * (gpr / 2) + 4 * (lane / 16) + 2 * (gpr % 2) + half};
}

static At gfx12_b16(int lane, int warp, int i, int p, int q) {
    At a = gfx12_a16(lane, warp, i, p, q);
    return (At){a.col, a.row};
}

static At gfx12_a8(int lane, int warp, int i, int p, int q) {
    (void)p, (void)q, (void)warp;
    return (At){lane % 16, 8 * (lane / 16) + 4 * (i / 4) + i % 4};
}

static At gfx12_b8(int lane, int warp, int i, int p, int q) {
    At a = gfx12_a8(lane, warp, i, p, q);
    return (At){a.col, a.row};
}

static At gfx12_d(int lane, int warp, int i, int p, int q) {
    (void)p, (void)q, (void)warp;
    return (At){8 * (lane / 16) + i, lane % 16};
}

/* ---- the table ------------------------------------------------------------------------------- */

typedef struct Reference {
    const char *name;
    int lanes, warps, m, n, k;
    Formula *a, *b, *d; // D may lack a row: that of wgmma is m64n8
    int p, q;
} Reference;

static const Reference references[] = {
    {"wgmma.m64n8", 32, 4, 64, 8, 0, NULL, NULL, d_m16n8, 0, 0},
    {"wgmma.m64k16", 32, 4, 64, 0, 16, a_k16, NULL, NULL, 0, 0},
    {"wgmma.m64k8", 32, 4, 64, 0, 8, a_tf32, NULL, NULL, 0, 0},
    {"wgmma.m64k32", 32, 4, 64, 0, 32, a_k32, NULL, NULL, 0, 0},
    {"mma.m16n8k16", 32, 1, 16, 8, 16, a_k16, b_k16, d_m16n8, 0, 0},
    {"mma.m16n8k8", 32, 1, 16, 8, 8, a_tf32, b_tf32, d_m16n8, 0, 0},
    {"mma.m16n8k32", 32, 1, 16, 8, 32, a_k32, b_k32, d_m16n8, 0, 0},
    {"mma.m8n8k4", 32, 1, 8, 8, 4, a_f64, b_f64, d_f64, 0, 0},
    {"mfma.32x32x8", 64, 1, 32, 32, 8, mfma_a, mfma_b, mfma_d32, 32, 4},
    {"mfma.16x16x16", 64, 1, 16, 16, 16, mfma_a, mfma_b, mfma_d16, 16, 4},
    {"mfma.32x32x8.i8", 64, 1, 32, 32, 8, mfma_a, mfma_b, mfma_d32, 32, 4},
    {"mfma.16x16x16.i8", 64, 1, 16, 16, 16, mfma_a, mfma_b, mfma_d16, 16, 4},
    {"mfma.32x32x2", 64, 1, 32, 32, 2, mfma_a, mfma_b, mfma_d32, 32, 1},
    {"mfma.16x16x4", 64, 1, 16, 16, 4, mfma_a, mfma_b, mfma_d16, 16, 1},
    {"mfma.16x16x4.f64", 64, 1, 16, 16, 4, mfma_a, mfma_b, mfma_d64, 16, 1},
    {"mfma.32x32x16.b8", 64, 1, 32, 32, 16, mfma_a, mfma_b, mfma_d32, 32, 8},
    {"mfma.16x16x32.b8", 64, 1, 16, 16, 32, mfma_a, mfma_b, mfma_d16, 16, 8},
    {"mfma.32x32x4.xf32", 64, 1, 32, 32, 4, mfma_a, mfma_b, mfma_d32, 32, 2},
    {"mfma.16x16x8.xf32", 64, 1, 16, 16, 8, mfma_a, mfma_b, mfma_d16, 16, 2},
    {"mfma.32x32x16", 64, 1, 32, 32, 16, mfma_a, mfma_b, mfma_d32, 32, 8},
    {"mfma.16x16x32", 64, 1, 16, 16, 32, mfma_a, mfma_b, mfma_d16, 16, 8},
    {"mfma.32x32x32.i8", 64, 1, 32, 32, 32, mfma_a, mfma_b, mfma_d32, 32, 16},
    {"mfma.16x16x64.i8", 64, 1, 16, 16, 64, mfma_a, mfma_b, mfma_d16, 16, 16},
    {"mfma.32x32x64.f8", 64, 1, 32, 32, 64, mfma_f8_a, mfma_f8_b, mfma_d32, 32, 32},
    {"mfma.16x16x128.f8", 64, 1, 16, 16, 128, mfma_f8_a, mfma_f8_b, mfma_d16, 16, 64},
    {"wmma11.16x16x16", 32, 1, 16, 16, 16, gfx11_a, gfx11_b, gfx11_d, 2, 0},
    {"wmma11.16x16x16.i8", 32, 1, 16, 16, 16, gfx11_a, gfx11_b, gfx11_d, 4, 0},
    {"wmma12.16x16x16", 32, 1, 16, 16, 16, gfx12_a16, gfx12_b16, gfx12_d, 0, 0},
    {"wmma12.16x16x16.b8", 32, 1, 16, 16, 16, gfx12_a8, gfx12_b8, gfx12_d, 0, 0},
};

static void check_layout(const Layout *l, const Reference *r, Formula *f, const char *what) {
    assert_int_equal(1 << l->bits[LEVEL_LANE], r->lanes);
    assert_int_equal(1 << l->bits[LEVEL_WARP], r->warps);
    for (int warp = 0; warp < r->warps; warp++)
        for (int lane = 0; lane < r->lanes; lane++)
            for (int i = 0; i < layout_registers(l); i++) {
                int64_t x[2];
                At at = f(lane, warp, i, r->p, r->q);
                layout_at(l, i, warp * r->lanes + lane, x);
                if (x[0] != at.row || x[1] != at.col)
                    fail_msg("%s %s: lane %d, element %d: (%d, %d), manual (%d, %d)", r->name, what,
                             lane, i, (int)x[0], (int)x[1], at.row, at.col);
            }
}

static int check_operand(Ctx *ctx, const Reference *r, FragmentRole role, Formula *f, int rows,
                         int cols) {
    if (!f) return 0;
    const FragmentRow *row = fragment_find(r->name, role);
    assert_non_null(row);
    const Layout *l = fragment_layout(ctx, row);
    assert_int_equal(l->extents[0], rows);
    assert_int_equal(l->extents[1], cols);
    check_layout(l, r, f, role == FRAG_A ? "A" : role == FRAG_B ? "B" : "D");
    return 1;
}

static void every_row(void **state) {
    (void)state;
    Ctx *ctx = ctx_create(NULL);
    int n = 0;
    for (size_t i = 0; i < sizeof references / sizeof *references; i++) {
        const Reference *r = &references[i];
        n += check_operand(ctx, r, FRAG_A, r->a, r->m, r->k);
        n += check_operand(ctx, r, FRAG_B, r->b, r->k, r->n);
        n += check_operand(ctx, r, FRAG_D, r->d, r->m, r->n);
    }
    Reference tile = {"ldmatrix", 32, 1, 8, 8, 8, NULL, NULL, NULL, 0, 0};
    check_layout(fragment_layout(ctx, fragment_find("ldmatrix", FRAG_TILE)), &tile, matrix_row, "");
    check_layout(fragment_layout(ctx, fragment_find("ldmatrix.trans", FRAG_TILE)), &tile,
                 matrix_column, ".trans");
    assert_int_equal(n + 2, n_fragment_rows); // every row has a reference
    ctx_destroy(ctx);
}

/* ---- results --------------------------------------------------------------------------------- */

static const Layout *fragment(Ctx *ctx, const char *name, FragmentRole role) {
    return fragment_layout(ctx, fragment_find(name, role));
}

/// wgmma's D for each N: register i of a thread is d[i] of the manual.
static void accumulators_of_wgmma(void **state) {
    (void)state;
    Ctx *ctx = ctx_create(NULL);
    const Layout *atom = fragment(ctx, "wgmma.m64n8", FRAG_D);
    for (int n = 8; n <= 256; n += 8) {
        const Layout *l = layout_tile(ctx, atom, (int64_t[]){64, n}, NULL);
        assert_int_equal(layout_registers(l), n / 2);
        for (int t = 0; t < 128; t++)
            for (int i = 0; i < n / 2; i++) {
                int64_t x[2];
                layout_at(l, i, t, x);
                assert_int_equal(x[0], 16 * (t / 32) + t % 32 / 4 + 8 * (i / 2 % 2));
                assert_int_equal(x[1], 8 * (i / 4) + t % 4 * 2 + i % 2);
            }
    }
    assert_ptr_equal(layout_tile(ctx, atom, (int64_t[]){64, 160}, NULL),
                     layout_of(ctx, "[64x160; reg (0,1) (8,0) (0,8) (0,16); lane (0,2) (0,4) (1,0) "
                                    "(2,0) (4,0); warp (16,0) (32,0); repeat (1,5)]"));
    ctx_destroy(ctx);
}

static const Layout *tiled(Ctx *ctx, const char *name, FragmentRole role, int64_t rows,
                           int64_t cols) {
    return layout_tile(ctx, fragment(ctx, name, role), (int64_t[]){rows, cols}, NULL);
}

/// P = softmax(S) is D of one product and A of the next.
static void attention_needs_no_conversion(void **state) {
    (void)state;
    Ctx *ctx = ctx_create(NULL);
    for (int n = 16; n <= 256; n += 16)
        assert_ptr_equal(tiled(ctx, "wgmma.m64n8", FRAG_D, 64, n),
                         tiled(ctx, "wgmma.m64k16", FRAG_A, 64, n));
    assert_ptr_equal(tiled(ctx, "mma.m16n8k16", FRAG_D, 16, 64),
                     tiled(ctx, "mma.m16n8k16", FRAG_A, 16, 64));
    // fp8 needs four neighbours, which shuffles within the warp provide.
    const Layout *d = tiled(ctx, "wgmma.m64n8", FRAG_D, 64, 64);
    Conversion c = layout_convert(d, tiled(ctx, "wgmma.m64k32", FRAG_A, 64, 64), 8);
    assert_int_equal(c.kind, CONVERT_SHUFFLE);
    // MFMA with swapped operands: S^T = K Q^T is n x m. Transposed it is the A operand m x k of P
    // V.
    const Layout *s =
        layout_permute(ctx, tiled(ctx, "mfma.32x32x8", FRAG_D, 160, 32), (int[]){1, 0});
    const Layout *p = tiled(ctx, "mfma.32x32x8", FRAG_A, 32, 160);
    assert_ptr_equal(s, p);
    ctx_destroy(ctx);
}

static void divided(void **state) {
    (void)state;
    Ctx *ctx = ctx_create(NULL);
    int regs[8];
    const Layout *a = tiled(ctx, "mma.m16n8k16", FRAG_A, 64, 96);
    const Layout *b = tiled(ctx, "mma.m16n8k16", FRAG_B, 96, 64);
    const Layout *plain = fragment(ctx, "ldmatrix", FRAG_TILE);
    const Layout *trans = fragment(ctx, "ldmatrix.trans", FRAG_TILE);
    assert_true(fragment_divides(plain, a, regs));
    assert_int_equal(regs[0], 0);
    assert_false(fragment_divides(trans, a, NULL));
    // B with n outermost in memory (k contiguous) is read by rows of n: the permuted block.
    assert_true(fragment_divides(trans, b, NULL));
    assert_true(fragment_divides(plain, layout_permute(ctx, b, (int[]){1, 0}), NULL));
    assert_true(fragment_divides(plain, tiled(ctx, "wgmma.m64n8", FRAG_D, 64, 160), NULL));
    assert_true(fragment_divides(fragment(ctx, "mma.m16n8k16", FRAG_A), a, regs));
    assert_false(fragment_divides(fragment(ctx, "mma.m16n8k32", FRAG_A), a, regs));
    Layout inside = *a; // the next tile starts inside this one
    inside.col[layout_first(a, LEVEL_REG) + a->bits[LEVEL_REG] - 1] ^= 1;
    assert_false(fragment_divides(plain, layout_unique(ctx, &inside), NULL));
    ctx_destroy(ctx);
}

/// Checks which registers of the block belong to the instruction whose tile `to` starts there.
static void check_tile(const Layout *block, const Layout *to, int64_t row, int64_t col) {
    int64_t reg[256], x[2], y[2], start[] = {row, col};
    assert_true(layout_registers_from(block, to, start, reg));
    for (int64_t t = 0; t < (int64_t)1 << layout_thread_bits(block); t++)
        for (int64_t i = 0; i < layout_registers(to); i++) {
            layout_at(to, i, t, x);
            layout_at(block, reg[i], t, y);
            assert_true(y[0] == x[0] + row && y[1] == x[1] + col);
        }
}

static void registers_of_instructions(void **state) {
    (void)state;
    Ctx *ctx = ctx_create(NULL);
    const Layout *d = fragment(ctx, "wgmma.m64n8", FRAG_D),
                 *a = fragment(ctx, "wgmma.m64k16", FRAG_A);
    const Layout *one = layout_tile(ctx, d, (int64_t[]){64, 160}, NULL);
    const Layout *rows = layout_tile(ctx, d, (int64_t[]){192, 160}, NULL);
    for (int i = 0; i < 3; i++) check_tile(rows, one, 64 * i, 0);
    // Two warpgroups side by side, each with 64 of every 128 rows.
    const Layout *pair = layout_tile(ctx, d, (int64_t[]){128, 112}, (int[]){2, 1});
    const Layout *two = layout_tile(ctx, d, (int64_t[]){256, 112}, (int[]){2, 1});
    for (int i = 0; i < 2; i++) check_tile(two, pair, 128 * i, 0);
    const Layout *k = layout_tile(ctx, a, (int64_t[]){64, 96}, NULL);
    for (int i = 0; i < 6; i++) check_tile(k, a, 0, 16 * i);
    int warps[] = {2, 2};
    const Layout *m = fragment(ctx, "mma.m16n8k16", FRAG_D);
    const Layout *step = layout_tile(ctx, m, (int64_t[]){32, 16}, warps);
    const Layout *block = layout_tile(ctx, m, (int64_t[]){96, 112}, warps);
    for (int i = 0; i < 3; i++)
        for (int j = 0; j < 7; j++) check_tile(block, step, 32 * i, 16 * j);
    ctx_destroy(ctx);
}

/// Both halves of a gfx11 wave hold A, and one of them owns it.
static void copies_of_gfx11(void **state) {
    (void)state;
    Ctx *ctx = ctx_create(NULL);
    assert_true(layout_owner(fragment(ctx, "wmma11.16x16x16", FRAG_A)) == 16);
    ctx_destroy(ctx);
}

/// If two instructions of depth 8 share runs of k, lanes hold the same elements as for gfx950's
/// instruction of depth 16. If lane bits lie between a thread's bits of k, they move up.
static void runs_of_k(void **state) {
    Ctx *ctx = ctx_create(NULL);
    (void)state;
    for (int role = FRAG_A; role <= FRAG_B; role++) {
        const Layout *eight = fragment(ctx, "mfma.32x32x8", (FragmentRole)role);
        assert_ptr_equal(layout_runs(ctx, eight, role == FRAG_A, 2),
                         fragment(ctx, "mfma.32x32x16", (FragmentRole)role));
        assert_ptr_equal(layout_runs(ctx, eight, role == FRAG_A, 1), eight);
        const Layout *gfx12 = fragment(ctx, "wmma12.16x16x16", (FragmentRole)role);
        assert_ptr_equal(layout_runs(ctx, gfx12, role == FRAG_A, 1),
                         fragment(ctx, "wmma12.16x16x16.b8", (FragmentRole)role));
    }
    ctx_destroy(ctx);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_row),
        cmocka_unit_test(accumulators_of_wgmma),
        cmocka_unit_test(attention_needs_no_conversion),
        cmocka_unit_test(divided),
        cmocka_unit_test(registers_of_instructions),
        cmocka_unit_test(copies_of_gfx11),
        cmocka_unit_test(runs_of_k),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
