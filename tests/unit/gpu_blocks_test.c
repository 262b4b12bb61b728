// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Ops on whole blocks, lowered for GPUs, in random layouts: copies, swizzles, holes, repeats.
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "backends/llvm/target.h"
#include "gpu_run.h"
#include "layout_random.h"

enum { CASES = 12 };

/// A layout over 32 lanes and 1, 2 or 4 warps.
static const Layout *warps_layout(Ctx *ctx, Random *random, Shape *shape) {
    *shape = gpu_run_shape(random);
    return random_layout(ctx, random, *shape);
}

/* ---- reductions ---------------------------------------------------------------------------- */

static void reduce_known(Ctx *ctx, Random *random, const char *what) {
    static const struct {
        const char *op;
        Elem elem;
    } ops[] = {{"add", EL_I32},  {"add", EL_F32}, {"max", EL_F16}, {"min", EL_I64},
               {"xor", EL_U8},   {"mul", EL_I32}, {"or", EL_BOOL}, {"and", EL_BOOL},
               {"add", EL_BF16}, {"min", EL_F64}, {"max", EL_I32}, {"max", EL_U32}};
    Shape shape;
    const Layout *l = warps_layout(ctx, random, &shape);
    int axis = random_below(random, l->rank), which = random_below(random, 12);
    const Layout *rest = layout_slice(ctx, l, axis, false);
    Elem elem = ops[which].elem;
    const char *e = elem_info[elem].name;
    GpuRun r;
    gpu_run_begin(&r, ctx, gpu_run_warps(l));
    int x = gpu_run_param(&r, elem, l, GPU_SMALL), y = gpu_run_param(&r, elem, rest, GPU_SMALL);
    gpu_run_load(&r, "a", x, l);
    gpu_run_text(&r, "%%b = reduce %%a [axis=%d] : %s {(%%u: %s, %%v: %s)\n", axis,
                 gpu_run_type(&r, elem, rest), e, e);
    gpu_run_text(&r, "%%w = %s %%u, %%v : %s\nyield %%w\n}\n", ops[which].op, e);
    gpu_run_store(&r, "b", y, rest);
    gpu_run(&r, elem == EL_F32 ? 1e-6 : elem == EL_BF16 ? 0.05 : 0, what);
}

/// (a, b) after (c, d): x -> a x + b is applied before x -> c x + d. It does not commute.
static void affine_region(GpuRun *r) {
    gpu_run_text(r, " {(%%a0: i32, %%b0: i32, %%a1: i32, %%b1: i32)\n"
                    "%%a2 = mul %%a0, %%a1 : i32\n%%t = mul %%b0, %%a1 : i32\n"
                    "%%b2 = add %%t, %%b1 : i32\nyield %%a2, %%b2\n}\n");
}

static void reduce_affine_in(Ctx *ctx, const Layout *l, int axis, const char *what) {
    const Layout *rest = layout_slice(ctx, l, axis, false);
    GpuRun r;
    gpu_run_begin(&r, ctx, gpu_run_warps(l));
    for (int i = 0; i < 2; i++) gpu_run_param(&r, EL_I32, l, GPU_ANY);
    for (int i = 0; i < 2; i++) gpu_run_param(&r, EL_I32, rest, GPU_ANY);
    gpu_run_load(&r, "a", 0, l);
    gpu_run_load(&r, "b", 1, l);
    const char *t = gpu_run_type(&r, EL_I32, rest);
    gpu_run_text(&r, "%%c, %%d = reduce %%a, %%b [axis=%d] : %s, %s", axis, t, t);
    affine_region(&r);
    gpu_run_store(&r, "c", 2, rest);
    gpu_run_store(&r, "d", 3, rest);
    gpu_run(&r, 0, what);
}

static void reduce_affine(Ctx *ctx, Random *random, const char *what) {
    Shape shape;
    const Layout *l = warps_layout(ctx, random, &shape);
    reduce_affine_in(ctx, l, random_below(random, l->rank), what);
}

/// Reduces lines that have enough parts for the warps to share the parts.
static void reduce_many(Ctx *ctx, Random *random, const char *what) {
    (void)random;
    const Layout *l =
        layout_of(ctx, "[57x64; reg (0,1) (0,2) (0,4) (1,0); lane (0,8) (0,16) (0,32) (2,0) "
                       "(4,0); warp (8,0) (16,0) (32,0)]");
    reduce_affine_in(ctx, l, 0, what);
    GpuRun r;
    const Layout *rest = layout_slice(ctx, l, 0, false);
    gpu_run_begin(&r, ctx, 8);
    gpu_run_param(&r, EL_F32, l, GPU_SMALL);
    gpu_run_param(&r, EL_F32, rest, GPU_SMALL);
    gpu_run_load(&r, "a", 0, l);
    gpu_run_text(&r,
                 "%%b = reduce %%a [axis=0] : %s {(%%u: f32, %%v: f32)\n"
                 "%%w = add %%u, %%v : f32\nyield %%w\n}\n",
                 gpu_run_type(&r, EL_F32, rest));
    gpu_run_store(&r, "b", 1, rest);
    gpu_run(&r, 0, what);
}

/* ---- scans --------------------------------------------------------------------------------- */

static const char *scan_flags(Random *random, bool *exclusive) {
    static const char *const flags[] = {"", ", reverse=true", ", exclusive=true",
                                        ", reverse=true, exclusive=true"};
    int which = random_below(random, 4);
    *exclusive = which >= 2;
    return flags[which];
}

static void scan_sum(Ctx *ctx, Random *random, const char *what) {
    Shape shape;
    const Layout *l = warps_layout(ctx, random, &shape);
    bool exclusive;
    const char *flags = scan_flags(random, &exclusive);
    Elem elem = random_below(random, 2) ? EL_F32 : EL_I8;
    const char *e = elem_info[elem].name, *start = elem == EL_F32 ? "3.0" : "3";
    GpuRun r;
    gpu_run_begin(&r, ctx, gpu_run_warps(l));
    int x = gpu_run_param(&r, elem, l, GPU_SMALL), y = gpu_run_param(&r, elem, l, GPU_SMALL);
    gpu_run_load(&r, "a", x, l);
    gpu_run_text(&r, "%%start = const [value=%s] : %s\n", start, e);
    gpu_run_text(&r, "%%b = scan %%a%s [axis=%d%s] : %s {(%%u: %s, %%v: %s)\n",
                 exclusive ? ", %start" : "", random_below(random, l->rank), flags,
                 gpu_run_type(&r, elem, l), e, e);
    gpu_run_text(&r, "%%w = add %%u, %%v : %s\nyield %%w\n}\n", e);
    gpu_run_store(&r, "b", y, l);
    gpu_run(&r, 1e-6, what);
}

static void scan_affine(Ctx *ctx, Random *random, const char *what) {
    Shape shape;
    const Layout *l = warps_layout(ctx, random, &shape);
    bool exclusive;
    const char *flags = scan_flags(random, &exclusive);
    GpuRun r;
    gpu_run_begin(&r, ctx, gpu_run_warps(l));
    for (int i = 0; i < 4; i++) gpu_run_param(&r, EL_I32, l, GPU_ANY);
    gpu_run_load(&r, "a", 0, l);
    gpu_run_load(&r, "b", 1, l);
    gpu_run_text(&r, "%%s0 = const [value=7] : i32\n%%s1 = const [value=-3] : i32\n");
    const char *t = gpu_run_type(&r, EL_I32, l);
    gpu_run_text(&r, "%%c, %%d = scan %%a, %%b%s [axis=%d%s] : %s, %s",
                 exclusive ? ", %s0, %s1" : "", random_below(random, l->rank), flags, t, t);
    affine_region(&r);
    gpu_run_store(&r, "c", 2, l);
    gpu_run_store(&r, "d", 3, l);
    gpu_run(&r, 0, what);
}

/* ---- clusters ------------------------------------------------------------------------------ */

/// Blocks in layout l next to each other along d, one in each of 2^n CTAs.
static const Layout *over_ctas(Ctx *ctx, const Layout *l, int d, int n) {
    Layout r = *l;
    int row = layout_base(l, d) + l->log2[d], bits = layout_n_bits(l);
    for (int j = 0; j < bits; j++)
        r.col[j] = (l->col[j] & low_bits(row)) | l->col[j] >> row << row << n;
    for (int i = 0; i < n; i++) r.col[bits + i] = bit(row + i);
    r.bits[LEVEL_CTA] = (uint8_t)n;
    r.log2[d] = (uint8_t)(r.log2[d] + n);
    r.extents[d] = layout_box(&r, d) - l->extents[d] / 2;
    return layout_unique(ctx, &r);
}

/// A line over two or four CTAs: reduced, scanned, and reduced in order.
static void cluster_lines(Ctx *ctx, Random *random, const char *what) {
    Shape shape;
    const Layout *l = warps_layout(ctx, random, &shape);
    int axis = random_below(random, l->rank);
    l = over_ctas(ctx, l, axis, 1 + random_below(random, 2));
    const Layout *rest = layout_slice(ctx, l, axis, false);
    const char *t = gpu_run_type(&(GpuRun){.ctx = ctx}, EL_I32, rest);
    GpuRun r;
    gpu_run_begin(&r, ctx, gpu_run_warps(l));
    r.target = "sm_90a";
    r.cluster = 1 << l->bits[LEVEL_CTA];
    for (int i = 0; i < 3; i++) gpu_run_param(&r, EL_I32, l, GPU_ANY);
    for (int i = 0; i < 3; i++) gpu_run_param(&r, EL_I32, rest, GPU_ANY);
    gpu_run_load(&r, "a", 0, l);
    gpu_run_load(&r, "b", 1, l);
    gpu_run_text(&r, "%%c, %%d = reduce %%a, %%b [axis=%d] : %s, %s", axis, t, t);
    affine_region(&r);
    gpu_run_text(&r,
                 "%%e = reduce %%a [axis=%d] : %s {(%%u: i32, %%v: i32)\n"
                 "%%w = max %%u, %%v : i32\nyield %%w\n}\n",
                 axis, t);
    gpu_run_text(&r,
                 "%%f = scan %%a [axis=%d] : %s {(%%u: i32, %%v: i32)\n"
                 "%%w = add %%u, %%v : i32\nyield %%w\n}\n",
                 axis, gpu_run_type(&r, EL_I32, l));
    gpu_run_store(&r, "f", 2, l);
    gpu_run_store(&r, "c", 3, rest);
    gpu_run_store(&r, "d", 4, rest);
    gpu_run_store(&r, "e", 5, rest);
    gpu_run(&r, 0, what);
}

/* ---- sort ---------------------------------------------------------------------------------- */

static void sort_pair(Ctx *ctx, Random *random, const char *what) {
    static const Elem keys[] = {EL_F32, EL_I8, EL_U32, EL_F16, EL_I64, EL_F64, EL_BOOL};
    static const Elem values[] = {EL_I32, EL_U8, EL_F64};
    Shape shape;
    const Layout *l = warps_layout(ctx, random, &shape);
    Elem key = keys[random_below(random, 7)], value = values[random_below(random, 3)];
    GpuData data = elem_is(key, EC_FLOAT) ? GPU_SPECIAL : GPU_SMALL;
    GpuRun r;
    gpu_run_begin(&r, ctx, gpu_run_warps(l));
    for (int i = 0; i < 2; i++) {
        gpu_run_param(&r, key, l, data);
        gpu_run_param(&r, value, l, GPU_ANY);
    }
    gpu_run_load(&r, "a", 0, l);
    gpu_run_load(&r, "b", 1, l);
    gpu_run_text(&r, "%%c, %%d = sort %%a, %%b [axis=%d%s] : %s, %s\n",
                 random_below(random, l->rank), random_below(random, 2) ? ", descending=true" : "",
                 gpu_run_type(&r, key, l), gpu_run_type(&r, value, l));
    gpu_run_store(&r, "c", 2, l);
    gpu_run_store(&r, "d", 3, l);
    gpu_run(&r, 0, what);
}

/// More elements than fit at once.
static void sort_groups(Ctx *ctx, Random *random, const char *what) {
    (void)random;
    const Layout *l = layout_of(ctx, "[48x300; reg (0,1) (0,2) (8,0) (0,256); "
                                     "lane (0,4) (0,8) (0,16) (0,32) (0,64); "
                                     "warp (0,128) (1,0) (2,0) (4,0); repeat (3,1)]");
    GpuRun r;
    gpu_run_begin(&r, ctx, 16);
    for (int i = 0; i < 2; i++) gpu_run_param(&r, EL_F32, l, GPU_ANY);
    gpu_run_load(&r, "a", 0, l);
    gpu_run_text(&r, "%%b = sort %%a [axis=1] : %s\n", gpu_run_type(&r, EL_F32, l));
    gpu_run_store(&r, "b", 1, l);
    gpu_run(&r, 0, what);
}

/* ---- picks --------------------------------------------------------------------------------- */

static void gather_along(Ctx *ctx, Random *random, const char *what) {
    static const Elem elems[] = {EL_F32, EL_F16, EL_BOOL, EL_I64};
    Shape shape;
    const Layout *from = warps_layout(ctx, random, &shape);
    int axis = random_below(random, from->rank);
    Elem elem = elems[random_below(random, 4)];
    shape.box.extents[axis] = 1 + random_below(random, 9);
    shape.box.odd[axis] = 1;
    shape.box.log2[axis] = 4;
    const Layout *to = random_layout(ctx, random, shape);
    GpuRun r;
    gpu_run_begin(&r, ctx, gpu_run_warps(from));
    gpu_run_param(&r, elem, from, GPU_SMALL);
    gpu_run_param(&r, EL_I64, to, GPU_INDEX);
    gpu_run_param(&r, elem, to, GPU_SMALL);
    gpu_run_load(&r, "a", 0, from);
    gpu_run_load(&r, "i", 1, to);
    gpu_run_text(&r, "%%b = gather %%a, %%i [axis=%d] : %s\n", axis, gpu_run_type(&r, elem, to));
    gpu_run_store(&r, "b", 2, to);
    gpu_run(&r, 0, what);
}

static void gather_pieces(Ctx *ctx, Random *random, const char *what) {
    (void)random;
    const Layout *from = layout_of(ctx, "[16x1500; reg (0,1) (0,2) (4,0) (8,0); "
                                        "lane (0,4) (0,8) (0,16) (0,32) (0,64); "
                                        "warp (1,0) (2,0); repeat (1,13)]");
    const Layout *to = layout_of(ctx, "[16x20; reg (0,1) (0,2) (4,0) (8,0); "
                                      "lane (0,4) (0,8) (0,16) (1,0) (2,0); warp - -]");
    GpuRun r;
    gpu_run_begin(&r, ctx, 4);
    gpu_run_param(&r, EL_F32, from, GPU_ANY);
    gpu_run_param(&r, EL_I64, to, GPU_INDEX);
    gpu_run_param(&r, EL_F32, to, GPU_ANY);
    gpu_run_load(&r, "a", 0, from);
    gpu_run_load(&r, "i", 1, to);
    gpu_run_text(&r, "%%k = const [value=88] : i64[16x20%s\n",
                 strchr(gpu_run_type(&r, EL_I64, to), ';'));
    gpu_run_text(&r, "%%j = mul %%i, %%k : %s\n", gpu_run_type(&r, EL_I64, to));
    gpu_run_text(&r, "%%b = gather %%a, %%j [axis=1] : %s\n", gpu_run_type(&r, EL_F32, to));
    gpu_run_store(&r, "b", 2, to);
    gpu_run(&r, 0, what);
}

static void histogram_masked(Ctx *ctx, Random *random, const char *what) {
    static const Elem elems[] = {EL_I32, EL_U8, EL_I8, EL_I64};
    Shape shape, bins = {0};
    const Layout *l = warps_layout(ctx, random, &shape);
    Elem elem = elems[random_below(random, 4)];
    bool masked = random_below(random, 2);
    bins.box.rank = 1;
    bins.box.extents[0] = 1 + random_below(random, 20);
    bins.box.odd[0] = 1;
    bins.box.log2[0] = 5;
    memcpy(bins.box.bits, shape.box.bits, sizeof bins.box.bits);
    const Layout *y = random_layout(ctx, random, bins);
    GpuRun r;
    gpu_run_begin(&r, ctx, gpu_run_warps(l));
    gpu_run_param(&r, elem, l, GPU_INDEX);
    gpu_run_param(&r, EL_BOOL, l, GPU_ANY);
    gpu_run_param(&r, EL_I32, y, GPU_ANY);
    gpu_run_load(&r, "a", 0, l);
    gpu_run_load(&r, "m", 1, l);
    gpu_run_text(&r, "%%b = histogram %%a%s : %s\n", masked ? ", %m" : "",
                 gpu_run_type(&r, EL_I32, y));
    gpu_run_store(&r, "b", 2, y);
    gpu_run(&r, 0, what);
}

/* ---- products ------------------------------------------------------------------------------ */

/// A rank-2 layout of these extents in the smallest box.
static const Layout *matrix_layout(Ctx *ctx, Random *random, int warps, int m, int n) {
    Shape s = {0};
    int extents[2] = {m, n};
    s.box.rank = 2;
    for (int d = 0; d < 2; d++) {
        s.box.extents[d] = extents[d];
        s.box.odd[d] = 1;
        while (1 << s.box.log2[d] < extents[d]) s.box.log2[d]++;
        if (extents[d] == 24) s.box.log2[d] = 3, s.box.odd[d] = 3;
    }
    s.box.bits[LEVEL_LANE] = 5;
    s.box.bits[LEVEL_WARP] = (uint8_t)warps;
    return random_layout(ctx, random, s);
}

typedef struct Product {
    Elem a, sum;
    const char *unit;
    const Layout *la, *lb, *lc;
    int warps;
} Product;

static void run_product(Ctx *ctx, const Product *p, double tolerance, const char *what) {
    GpuRun r;
    gpu_run_begin(&r, ctx, p->warps);
    if (elem_info[p->a].bits == 8 && elem_is(p->a, EC_FLOAT)) r.target = "sm_90a";
    gpu_run_param(&r, p->a, p->la, GPU_SMALL);
    gpu_run_param(&r, p->a, p->lb, GPU_SMALL);
    gpu_run_param(&r, p->sum, p->lc, GPU_SMALL);
    gpu_run_param(&r, p->sum, p->lc, GPU_SMALL);
    gpu_run_load(&r, "a", 0, p->la);
    gpu_run_load(&r, "b", 1, p->lb);
    gpu_run_load(&r, "c", 2, p->lc);
    gpu_run_text(&r, "%%d = dot %%a, %%b, %%c [unit=\"%s\"] : %s\n", p->unit,
                 gpu_run_type(&r, p->sum, p->lc));
    gpu_run_store(&r, "d", 3, p->lc);
    gpu_run(&r, tolerance, what);
}

static void dot_fma(Ctx *ctx, Random *random, const char *what) {
    static const int extents[] = {1, 3, 8, 16, 24, 32};
    static const Elem elems[][2] = {
        {EL_F32, EL_F32}, {EL_F16, EL_F32}, {EL_F64, EL_F64}, {EL_I8, EL_I32}, {EL_BF16, EL_F32}};
    int m = extents[random_below(random, 6)], n = extents[random_below(random, 6)],
        k = extents[random_below(random, 6)], e = random_below(random, 5);
    Product p = {.a = elems[e][0], .sum = elems[e][1], .unit = "fma"};
    int warps = random_below(random, 3);
    p.warps = 1 << warps;
    p.la = matrix_layout(ctx, random, warps, m, k);
    p.lb = matrix_layout(ctx, random, warps, k, n);
    p.lc = matrix_layout(ctx, random, warps, m, n);
    run_product(ctx, &p, 0, what);
}

/// A product too large for shared memory at once.
static void dot_pieces(Ctx *ctx, Random *random, const char *what) {
    Product p = {.a = EL_F64, .sum = EL_F64, .unit = "fma", .warps = 4};
    p.la = matrix_layout(ctx, random, 2, 32, 200);
    p.lb = matrix_layout(ctx, random, 2, 200, 32);
    p.lc = matrix_layout(ctx, random, 2, 32, 32);
    run_product(ctx, &p, 0, what);
}

static const Layout *tiles(Ctx *ctx, const char *name, FragmentRole role, int m, int n, int wm,
                           int wn) {
    int64_t extents[2] = {m, n};
    int warps[2] = {wm, wn};
    const Layout *l = fragment_layout(ctx, fragment_find(name, role));
    return layout_tile(ctx, l, extents, warps);
}

/// The layout with more warp bits that number copies, by `which`; those of l keep their order.
static const Layout *with_copies(Ctx *ctx, const Layout *l, int total, int at) {
    Layout r = *l;
    int first = layout_first(l, LEVEL_WARP), own = l->bits[LEVEL_WARP], n = 0;
    for (int i = 0; i < total; i++) r.col[first + i] = i >= at && n < own ? l->col[first + n++] : 0;
    r.bits[LEVEL_WARP] = (uint8_t)total;
    return layout_unique(ctx, &r);
}

/// 2 x 2 warps: layout_tile gives the last dimension the lower warp bits.
static void dot_mma(Ctx *ctx, Random *random, const char *what) {
    static const struct {
        const char *fragment, *unit;
        Elem a, sum;
        int k;
    } rows[] = {{"mma.m16n8k16", "mma.m16n8k16.f16", EL_F16, EL_F32, 48},
                {"mma.m16n8k16", "mma.m16n8k16.bf16", EL_BF16, EL_F32, 16},
                {"mma.m16n8k8", "mma.m16n8k8.tf32", EL_F32, EL_F32, 20},
                {"mma.m16n8k32", "mma.m16n8k32.i8", EL_I8, EL_I32, 64},
                {"mma.m16n8k32", "mma.m16n8k32.u8", EL_U8, EL_I32, 32},
                {"mma.m16n8k32", "mma.m16n8k32.f8e4m3", EL_F8E4M3, EL_F32, 96},
                {"mma.m16n8k32", "mma.m16n8k32.f8e5m2", EL_F8E5M2, EL_F32, 32}};
    int which = random_below(random, 7), m = random_below(random, 2) ? 32 : 96,
        n = random_below(random, 2) ? 16 : 40, k = rows[which].k;
    const char *f = rows[which].fragment;
    Product p = {.a = rows[which].a, .sum = rows[which].sum, .unit = rows[which].unit, .warps = 4};
    p.la = with_copies(ctx, tiles(ctx, f, FRAG_A, m, k, 2, 1), 2, 1);
    p.lb = with_copies(ctx, tiles(ctx, f, FRAG_B, k, n, 1, 2), 2, 0);
    p.lc = tiles(ctx, f, FRAG_D, m, n, 2, 2);
    run_product(ctx, &p, 0, what);
}

/* ---- main ---------------------------------------------------------------------------------- */

#define TEST(name, n)                                                                              \
    static void test_##name(void **state) {                                                        \
        (void)state;                                                                               \
        gpu_run_cases(name, n, 0, 77);                                                             \
    }
TEST(reduce_known, 2 * CASES)
TEST(reduce_affine, CASES)
TEST(reduce_many, 1)
TEST(scan_sum, CASES)
TEST(scan_affine, CASES)
TEST(cluster_lines, CASES / 2)
TEST(sort_pair, CASES)
TEST(sort_groups, 1)
TEST(gather_along, CASES)
TEST(gather_pieces, 1)
TEST(histogram_masked, CASES)
TEST(dot_fma, CASES)
TEST(dot_pieces, 1)
TEST(dot_mma, CASES)

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_reduce_known),     cmocka_unit_test(test_reduce_affine),
        cmocka_unit_test(test_reduce_many),      cmocka_unit_test(test_scan_sum),
        cmocka_unit_test(test_scan_affine),      cmocka_unit_test(test_cluster_lines),
        cmocka_unit_test(test_sort_pair),        cmocka_unit_test(test_sort_groups),
        cmocka_unit_test(test_gather_along),     cmocka_unit_test(test_gather_pieces),
        cmocka_unit_test(test_histogram_masked), cmocka_unit_test(test_dot_fma),
        cmocka_unit_test(test_dot_pieces),       cmocka_unit_test(test_dot_mma),
    };
    if (argc > 1) cmocka_set_test_filter(argv[1]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
