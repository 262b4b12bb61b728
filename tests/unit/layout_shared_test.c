// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Layouts of shared memory: the hardware's swizzles against the xor formula on addresses, extents
// that are not powers of two, vectors, and bank conflicts by rank against counted ones.
#include "layout_random.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>

/// Address bits from 4 on are xored with those from 7 on: 3, 2, 1 of them for 128, 64, 32 bytes.
static int64_t swizzle_address(int64_t address, int swizzle) {
    int bits = swizzle == 128 ? 3 : swizzle == 64 ? 2 : swizzle == 32 ? 1 : 0;
    return address ^ ((address >> 7 & ((1 << bits) - 1)) << 4);
}

static void check_swizzled(int elem, int64_t outer, int64_t inner, int swizzle, bool inner_first) {
    int64_t e[] = {inner_first ? inner : outer, inner_first ? outer : inner};
    SharedLayout s = shared_swizzled(elem, 2, e, inner_first ? 0 : 1, inner_first ? 1 : 0, swizzle);
    int64_t rows = ceil_div(outer, 8) * 8, row_elems = swizzle / elem;
    int64_t panels = ceil_div(inner, row_elems), *seen;
    assert_int_equal(s.bytes, panels * rows * swizzle);
    assert_int_equal(s.align, 8 * swizzle);
    seen = calloc((size_t)s.bytes, sizeof *seen);
    for (int64_t r = 0; r < outer; r++)
        for (int64_t c = 0; c < inner; c++) {
            int64_t x[] = {inner_first ? c : r, inner_first ? r : c};
            int64_t linear = r * swizzle + c % row_elems * elem;
            int64_t panel = c / row_elems * rows * swizzle;
            int64_t at = shared_offset(&s, x);
            assert_int_equal(at, panel + swizzle_address(linear, swizzle));
            assert_int_equal(seen[at]++, 0);
        }
    free(seen);
}

static void swizzles(void **state) {
    (void)state;
    static const int64_t outer[] = {8, 112, 160, 192, 64, 7}, inner[] = {64, 112, 160, 192, 256, 1};
    for (int elem = 1; elem <= 4; elem *= 2)
        for (int swizzle = 16; swizzle <= 128; swizzle *= 2)
            for (int i = 0; i < 36; i++)
                check_swizzled(elem, outer[i / 6], inner[i % 6], swizzle, i % 2);
}

/// Operands of 16 rows, of which the block has 4 or 8. In one atom, the other rows share places
/// with elements, and address images still add up. In two atoms they have their own places.
static void holes_beyond_one_atom(void **state) {
    (void)state;
    Ctx *ctx = ctx_create(NULL);
    static const char *const text[] = {
        "[4x16; reg (0,1) (8,0) (0,8); lane (0,2) (0,4) (1,0) (2,0) (4,0)]",
        "[8x16; reg (0,1) (0,8); lane (0,2) (0,4) (1,0) (2,0) (8,2); warp (4,0)]",
        "[24x16; reg (0,1) (0,8) (16,0); lane (0,2) (0,4) (1,0) (2,0) (4,0); warp (8,0)]"};
    for (int i = 0; i < 3; i++) {
        const Layout *l = layout_of(ctx, text[i]);
        SharedLayout s = shared_swizzled(2, 2, l->extents, 1, 0, 32);
        SharedReach widest = REACH_ATOM;
        for (int64_t reg = 0; reg < layout_registers(l); reg++)
            for (int64_t t = 0; t < (int64_t)1 << layout_thread_bits(l); t++) {
                int64_t x[MAX_RANK];
                Bits sum = 0, bits = (Bits)reg | (Bits)t << l->bits[LEVEL_REG];
                layout_at(l, reg, t, x);
                for (int j = 0; j < layout_n_bits(l); j++) {
                    Bits offset;
                    if (!(bits >> j & 1)) continue;
                    SharedReach reach = shared_image(l, &s, l->col[j], &offset);
                    if (reach > widest) widest = reach;
                    sum ^= offset;
                }
                if (i == 2) continue;
                assert_int_equal(shared_offset(&s, x), sum);
                assert_in_range(sum, 0, s.bytes - 2);
            }
        assert_int_equal(widest, i < 2 ? REACH_HOLES : REACH_BEYOND);
    }
    SharedLayout s = shared_swizzled(2, 2, (int64_t[]){24, 16}, 1, 0, 32);
    assert_int_equal(shared_offset(&s, (int64_t[]){24, 0}), s.bytes);
    ctx_destroy(ctx);
}

/// K-major bf16 tiles of wgmma: R/8 repeats without waste. A k16 step is 32 bytes further, the next
/// panel R rows of 128 bytes. MN-major: the widest swizzle whose panels fill the row.
static void tiles_of_wgmma(void **state) {
    (void)state;
    static const int rows[] = {112, 160, 192};
    for (int i = 0; i < 3; i++) {
        int64_t e[] = {rows[i], 128};
        SharedLayout s = shared_swizzled(2, 2, e, 1, 0, 128);
        assert_int_equal(s.count[0], rows[i] / 8);
        assert_int_equal(s.stride[0], 1024);
        assert_int_equal(s.count[1], 2);
        assert_int_equal(s.stride[1], rows[i] * 128);
        assert_int_equal(s.bytes, rows[i] * 128 * 2);
        assert_int_equal(shared_offset(&s, (int64_t[]){0, 16}), 32);
        assert_int_equal(shared_offset(&s, (int64_t[]){0, 64}), rows[i] * 128);
    }
    assert_int_equal(shared_swizzle_for(160 * 2), 64);
    assert_int_equal(shared_swizzle_for(112 * 2), 32);
    assert_int_equal(shared_swizzle_for(192 * 2), 128);
    int64_t e[] = {64, 160}; // k x n, n contiguous
    SharedLayout s = shared_swizzled(2, 2, e, 1, 0, 64);
    assert_int_equal(s.count[1], 5);
    assert_int_equal(s.stride[1], 64 * 64);
    e[1] = 112;
    s = shared_swizzled(2, 2, e, 1, 0, 32);
    assert_int_equal(s.count[1], 7);
}

/// Eight lanes read a column of 16-byte chunks, as ldmatrix does.
static void known_conflicts(void **state) {
    (void)state;
    Ctx *ctx = ctx_create(NULL);
    const Layout *l =
        layout_of(ctx, "[32x64; reg (0,1) (0,2) (0,4) (0,8) (0,16) (0,32); lane (1,0) "
                       "(2,0) (4,0) (8,0) (16,0)]");
    static const int swizzle[] = {128, 64, 32, 16}, conflicts[] = {1, 1, 1, 1};
    SharedAccess a;
    for (int i = 0; i < 4; i++) {
        SharedLayout s = shared_swizzled(2, 2, l->extents, 1, 0, swizzle[i]);
        shared_access(l, &s, 16, &a);
        assert_int_equal(a.vec_bits, 3);
        assert_int_equal(shared_conflicts(l, &s, &a, BANKS_IN_ORDER, true), conflicts[i]);
        assert_int_equal(shared_conflicts_counted(l, &s, &a, BANKS_IN_ORDER, true), conflicts[i]);
    }
    SharedLayout plain = shared_plain(2, 2, l->extents, 0);
    shared_access(l, &plain, 16, &a);
    assert_int_equal(a.vec_bits, 3);
    assert_int_equal(shared_conflicts(l, &plain, &a, BANKS_IN_ORDER, true), 8);
    plain = shared_plain(2, 2, l->extents, 16);
    shared_access(l, &plain, 16, &a);
    assert_int_equal(shared_conflicts(l, &plain, &a, BANKS_IN_ORDER, true), 1);
    plain = shared_plain(2, 2, l->extents, 4); // rows at odd words have no wide vectors
    shared_access(l, &plain, 16, &a);
    assert_int_equal(a.vec_bits, 1);
    ctx_destroy(ctx);
}

/// A transposition with 4-byte elements in shared memory: 32 x 32, both sides free of conflicts.
static void transposition(void **state) {
    (void)state;
    Ctx *ctx = ctx_create(NULL);
    const Layout *rows = layout_of(ctx, "[32x32; reg (4,0) (8,0) (16,0); lane (0,1) (0,2) (0,4) "
                                        "(0,8) (0,16); warp (1,0) (2,0)]");
    const Layout *columns = layout_permute(ctx, rows, (int[]){1, 0});
    Conversion c = layout_convert(rows, columns, 32);
    assert_int_equal(c.kind, CONVERT_SHARED);
    assert_int_equal(c.scope, LEVEL_WARP);
    assert_int_equal(c.shared.bytes, 4096);
    assert_int_equal(shared_conflicts_counted(rows, &c.shared, &c.write, BANKS_IN_ORDER, true), 1);
    assert_int_equal(shared_conflicts_counted(columns, &c.shared, &c.read, BANKS_IN_ORDER, true),
                     1);
    ctx_destroy(ctx);
}

/// An accumulator is stored in rows: 16 bytes at a time on one side, without conflicts on both.
static void epilogue(void **state) {
    (void)state;
    Ctx *ctx = ctx_create(NULL);
    static const int64_t n[] = {64, 112, 128, 160, 192, 256};
    const Layout *atom = fragment_layout(ctx, fragment_find("wgmma.m64n8", FRAG_D));
    for (int i = 0; i < 6; i++) {
        int64_t e[] = {64, n[i]};
        BlockAccess access = {.rank = 2,
                              .elem_bits = 16,
                              .extents = e,
                              .contiguous = 1,
                              .align_bytes = 16,
                              .lane_bits = 5,
                              .warp_bits = 2,
                              .max_bytes = 16};
        const Layout *d = layout_tile(ctx, atom, e, NULL), *out = layout_blocked(ctx, &access);
        Conversion c = layout_convert(d, out, 16);
        if (!layout_same_box(d, out)) continue;
        assert_true(c.kind == CONVERT_SHARED || c.kind == CONVERT_SHUFFLE);
        c = layout_convert_shared(d, out, 16);
        assert_true(c.read.vec_bits == 3 || c.write.vec_bits == 3);
        assert_int_equal(c.owner, 0);
        assert_int_equal(c.write_conflicts, 1);
        assert_int_equal(c.read_conflicts, 1);
        assert_int_equal(c.shared.bytes, 64 * n[i] * 2);
    }
    ctx_destroy(ctx);
}

/// Operands of FMAs that run along k in memory are turned in registers: lanes that store at the
/// same time (8 for vectors of 16 bytes) use different banks, whatever the block. Rows begin an odd
/// number of vectors apart.
static void turned_for_fma(void **state) {
    (void)state;
    enum { VECTOR = 4, GROUPS = 8, LANES = 8 };
    static const int64_t rows[] = {64, 128, 256}, depths[] = {32, 64};
    Ctx *ctx = ctx_create(NULL);
    for (int i = 0; i < 12; i++) {
        int64_t e[] = {rows[i / 4], depths[i / 2 % 2]}, pitch = rows[i / 4] + VECTOR;
        BlockAccess access = {.rank = 2,
                              .elem_bits = 32,
                              .extents = e,
                              .contiguous = 1,
                              .align_bytes = 16,
                              .lane_bits = 5,
                              .warp_bits = 2 + i % 2,
                              .max_bytes = 16,
                              .pack = 0,
                              .pack_bytes = 16,
                              .pack_lanes = 2};
        const Layout *l = layout_blocked(ctx, &access);
        if (layout_vector(l, 0, NULL) < 2) continue; // too few elements for vectors in each thread
        for (int64_t r = 0; r < layout_registers(l); r++) {
            unsigned used = 0;
            for (int64_t t = 0; t < LANES; t++) {
                int64_t x[MAX_RANK];
                layout_at(l, r, t, x);
                if (x[0] % VECTOR) break; // not the first element of a vector
                int64_t group = (x[1] * pitch + x[0]) / VECTOR % GROUPS;
                assert_false(used >> group & 1);
                used |= 1u << group;
            }
        }
    }
    ctx_destroy(ctx);
}

/// For any layout, and any swizzle or rows with any pad, the rank formula gives the counted
/// conflicts.
static void random_conflicts(void **state) {
    (void)state;
    Random rnd = {21};
    for (int trial = 0; trial < 900; trial++) {
        SharedBanks banks = (SharedBanks)(trial / 3 % 3);
        Ctx *ctx = ctx_create(NULL);
        Shape shape = random_shape(&rnd);
        shape.box.bits[LEVEL_LANE] = (uint8_t)(banks ? 6 : 5 + trial % 2);
        const Layout *l = random_layout(ctx, &rnd, shape);
        int elem = 1 << random_below(&rnd, 4);
        SharedLayout s = shared_plain(elem, l->rank, l->extents, 4 * random_below(&rnd, 5));
        if (l->rank > 1 && trial % 3)
            s = shared_swizzled(elem, l->rank, l->extents, l->rank - 1, 0,
                                16 << random_below(&rnd, 4));
        bool holes = false;
        for (int d = 0; d < l->rank; d++) holes |= layout_box(l, d) != l->extents[d];
        SharedAccess a;
        shared_access(l, &s, 16, &a);
        int ranks = shared_conflicts(l, &s, &a, banks, trial % 2);
        int counted = shared_conflicts_counted(l, &s, &a, banks, trial % 2);
        if (holes)
            assert_true(counted <= ranks);
        else
            assert_int_equal(counted, ranks);
        ctx_destroy(ctx);
    }
}

/* ---- buffers of AMD's products --------------------------------------------------------------- */

/// The lanes of a wave that are served together, by the published tables: group i of `groups`.
static void phases_of_waves(void **state) {
    (void)state;
    static const int gfx9[] = {0, 20}, gfx950[] = {0, 12, 20, 24};
    for (int banks = BANKS_GFX9; banks <= BANKS_GFX950; banks++) {
        bool wide = banks == BANKS_GFX950;
        const int *starts = wide ? gfx950 : gfx9;
        SharedPhase p = shared_phase((SharedBanks)banks, true, 6, 4);
        assert_int_equal(p.line_log2, wide ? 8 : 7);
        assert_int_equal(1 << p.lanes.n, wide ? 16 : 8);
        for (int i = 0; i < 1 << p.lanes.n; i++) {
            int lane = (int)f2_apply(&p.lanes, (Bits)i), found = 0;
            for (int k = 0; k < (wide ? 4 : 2); k++)
                found += lane >= starts[k] && lane < starts[k] + 4;
            assert_int_equal(found, 1);
        }
        p = shared_phase((SharedBanks)banks, false, 6, 4);
        assert_int_equal(p.lanes.n, 3);
        assert_int_equal(p.lanes.col[2], 4);
    }
}

/// Counts conflicts of both sides lane by lane, and checks that the type's offsets are a
/// permutation.
static void check_buffer(Ctx *ctx, const Layout *from, const Layout *to, SharedBanks banks,
                         bool turned) {
    SharedLayout s = shared_between(from, to, 2, banks, true);
    SharedAccess writes, reads;
    shared_access(from, &s, 16, &writes);
    shared_access(to, &s, 16, &reads);
    assert_int_equal(reads.vec_bits, 3);
    assert_true(turned ? writes.vec_bits >= 1 : writes.vec_bits == 3);
    assert_int_equal(shared_conflicts_counted(from, &s, &writes, banks, false), 1);
    assert_int_equal(shared_conflicts_counted(to, &s, &reads, banks, true), 1);
    const Layout *r = shared_registers(ctx, &s);
    for (int64_t i = 0; i < layout_registers(r); i++) {
        int64_t x[MAX_RANK];
        layout_at(r, i, 0, x);
        assert_int_equal(shared_offset(&s, x), 2 * i);
    }
    if (!turned) return; // rows with TMA's swizzle: threads that transpose write to the same banks
    s = shared_swizzled(2, 2, from->extents, 1, 0, shared_swizzle_for(from->extents[1] * 2));
    shared_access(from, &s, 16, &writes);
    assert_true(shared_conflicts_counted(from, &s, &writes, banks, false) >= 4);
}

/// 16-bit operands, rows x k, loaded from memory along k, or across it and transposed.
static void buffers_of_products(void **state) {
    (void)state;
    static const struct {
        const char *name;
        int lanes, steps;
        SharedBanks banks;
    } units[] = {
        {"mfma.32x32x8", 6, 2, BANKS_GFX9},        {"mfma.16x16x16", 6, 2, BANKS_GFX9},
        {"mfma.32x32x16", 6, 1, BANKS_GFX950},     {"mfma.16x16x32", 6, 1, BANKS_GFX950},
        {"wmma11.16x16x16", 5, 1, BANKS_IN_ORDER}, {"wmma12.16x16x16", 5, 1, BANKS_IN_ORDER}};
    static const int64_t rows[] = {64, 128, 256}, depths[] = {32, 64, 128};
    Ctx *ctx = ctx_create(NULL);
    for (int i = 0; i < 6 * 3 * 3 * 2; i++) {
        int u = i / 18, turned = i % 2, warps = 2;
        int64_t e[] = {rows[i / 6 % 3], depths[i / 2 % 3]};
        const Layout *atom = fragment_layout(ctx, fragment_find(units[u].name, FRAG_A));
        atom = layout_runs(ctx, atom, 1, units[u].steps);
        if (e[1] % atom->extents[1]) continue;
        Layout to = *layout_tile(ctx, atom, e, (int[]){2, 1});
        to.bits[LEVEL_WARP]++; // copies
        BlockAccess access = {.rank = 2,
                              .elem_bits = 16,
                              .extents = e,
                              .contiguous = !turned,
                              .align_bytes = 16,
                              .lane_bits = units[u].lanes,
                              .warp_bits = warps,
                              .max_bytes = 16,
                              .pack = 1,
                              .pack_bytes = 16};
        check_buffer(ctx, layout_blocked(ctx, &access), layout_unique(ctx, &to), units[u].banks,
                     turned);
    }
    ctx_destroy(ctx);
}

/* ---- ldmatrix -------------------------------------------------------------------------------- */

static Bits sum_of(const Bits *x, int n, int64_t which) {
    Bits sum = 0;
    for (int i = 0; i < n; i++) sum ^= which >> i & 1 ? x[i] : 0;
    return sum;
}

/// Executes the instruction with element numbers instead of values: lane t receives bytes 4 (t % 4)
/// .. of row t / 4, or elements t / 4 of rows 2 (t % 4) and the next.
static void check_matrices(const Layout *l, const SharedLayout *s, const SharedMatrix *m) {
    int64_t x[MAX_RANK], warps = (int64_t)1 << (layout_thread_bits(l) - 5);
    int64_t reg_bits = l->bits[LEVEL_REG], elems = 4 / s->elem_bytes;
    for (int64_t w = 0; w < warps; w++)
        for (int64_t k = 0; k < layout_repeats(l) << m->n_base; k++) {
            int64_t base = k >> m->n_base << reg_bits, row[8];
            base |= (int64_t)sum_of(m->base, m->n_base, k);
            for (int r = 0; r < 8; r++) {
                int64_t lane = (int64_t)sum_of(m->row_lane, 3, r);
                layout_at(l, base ^ (int64_t)sum_of(m->row_reg, 3, r), w * 32 + lane, x);
                row[r] = shared_offset(s, x);
                assert_int_equal(row[r] % 16, 0);
            }
            for (int64_t t = 0; t < 32; t++)
                for (int64_t e = 0; e < elems; e++) {
                    int64_t at = m->trans ? row[t % 4 * 2 + e] + t / 4 * 2
                                          : row[t / 4] + t % 4 * 4 + e * s->elem_bytes;
                    layout_at(l, base ^ (int64_t)sum_of(m->word, m->word_bits, e), w * 32 + t, x);
                    assert_int_equal(at, shared_offset(s, x));
                }
        }
}

static void matrices_of_operands(void **state) {
    (void)state;
    static const struct {
        const char *name;
        FragmentRole role;
        int elem, inner; // the dimension contiguous in shared memory
        int64_t rows, cols;
        int kind; // 0: no, 1: as stored, 2: transposed
    } cases[] = {
        {"mma.m16n8k16", FRAG_A, 2, 1, 64, 96, 1},  {"mma.m16n8k16", FRAG_A, 2, 0, 64, 96, 2},
        {"mma.m16n8k16", FRAG_B, 2, 0, 96, 160, 1}, {"mma.m16n8k16", FRAG_B, 2, 1, 96, 160, 2},
        {"mma.m16n8k16", FRAG_D, 2, 1, 32, 160, 1}, {"wgmma.m64n8", FRAG_D, 2, 1, 64, 192, 1},
        {"wgmma.m64n8", FRAG_D, 2, 0, 64, 192, 2},  {"mma.m16n8k8", FRAG_A, 4, 1, 16, 32, 1},
        {"mma.m16n8k8", FRAG_B, 4, 0, 32, 64, 1},   {"mma.m16n8k8", FRAG_A, 4, 0, 16, 32, 0},
        {"mma.m16n8k32", FRAG_A, 1, 1, 16, 128, 1}, {"mma.m16n8k32", FRAG_B, 1, 0, 128, 8, 1},
        {"mma.m16n8k32", FRAG_B, 1, 1, 32, 160, 0}, {"wgmma.m64n8", FRAG_D, 4, 1, 64, 64, 0},
    };
    Ctx *ctx = ctx_create(NULL);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int64_t e[] = {cases[i].rows, cases[i].cols};
        const Layout *atom = fragment_layout(ctx, fragment_find(cases[i].name, cases[i].role));
        const Layout *l = layout_tile(ctx, atom, e, NULL);
        int inner = cases[i].inner, width = shared_swizzle_for(e[inner] * cases[i].elem);
        SharedLayout s = shared_swizzled(cases[i].elem, 2, e, inner, 1 - inner, width);
        SharedMatrix m;
        bool found = shared_matrix(l, &s, &m);
        assert_int_equal(found ? 1 + m.trans : 0, cases[i].kind);
        if (!found) continue;
        assert_int_equal(m.conflicts, 1);
        check_matrices(l, &s, &m);
        if (inner == 0) continue;
        int pad = e[1] * cases[i].elem % 32 ? 0 : 16; // rows an odd number of chunks apart
        s = shared_plain(cases[i].elem, 2, e, pad);
        assert_true(shared_matrix(l, &s, &m));
        assert_int_equal(1 + m.trans, cases[i].kind);
        assert_int_equal(m.conflicts, 1);
        check_matrices(l, &s, &m);
    }
    ctx_destroy(ctx);
}

/// Bits from outside that reach into the tile, and rows at odd distances: not found, or correct.
static void no_matrices(void **state) {
    (void)state;
    Random rnd = {22};
    Ctx *ctx = ctx_create(NULL);
    int found[2] = {0};
    for (int trial = 0; trial < 400; trial++) {
        int64_t e[] = {64, 32};
        const Layout *atom = fragment_layout(ctx, fragment_find("mma.m16n8k16", FRAG_A));
        Layout l = *layout_tile(ctx, atom, e, (int[]){2, 1});
        int strange = trial % 2, j = random_below(&rnd, layout_n_bits(&l));
        if (strange) l.col[j] ^= l.col[random_below(&rnd, layout_n_bits(&l))];
        if (layout_error(&l)) continue; // some elements are missing
        SharedLayout s = shared_plain(2, 2, e, 4 * random_below(&rnd, 8));
        SharedMatrix m;
        if (!shared_matrix(layout_unique(ctx, &l), &s, &m)) continue;
        found[strange]++;
        check_matrices(layout_unique(ctx, &l), &s, &m);
    }
    assert_true(found[0] > 20 && found[1] > 5);
    ctx_destroy(ctx);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(swizzles),
        cmocka_unit_test(holes_beyond_one_atom),
        cmocka_unit_test(tiles_of_wgmma),
        cmocka_unit_test(known_conflicts),
        cmocka_unit_test(transposition),
        cmocka_unit_test(epilogue),
        cmocka_unit_test(turned_for_fma),
        cmocka_unit_test(random_conflicts),
        cmocka_unit_test(phases_of_waves),
        cmocka_unit_test(buffers_of_products),
        cmocka_unit_test(matrices_of_operands),
        cmocka_unit_test(no_matrices),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
