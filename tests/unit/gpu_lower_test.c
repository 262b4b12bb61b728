// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Conversions, shapes, control flow and accesses to memory, lowered for GPUs, in random layouts.
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "backends/llvm/target.h"
#include "gpu_run.h"
#include "layout_random.h"

enum { CASES = 40 };

static const Elem elems[] = {EL_F32, EL_I8, EL_F16, EL_BOOL, EL_I64, EL_BF16, EL_U16, EL_F64};

static Elem any_elem(Random *random) {
    return elems[random_below(random, (int)(sizeof elems / sizeof *elems))];
}

/// A layout of these extents over as many warps, with boxes of its own.
static const Layout *layout_for(Ctx *ctx, Random *random, int rank, const int64_t *extents,
                                int warp_bits) {
    BlockAccess a = {.rank = rank,
                     .elem_bits = 8 << random_below(random, 4),
                     .extents = extents,
                     .contiguous = rank ? random_below(random, rank) : -1,
                     .align_bytes = 1 << random_below(random, 5),
                     .lane_bits = 5,
                     .warp_bits = warp_bits,
                     .max_bytes = 16};
    return layout_blocked(ctx, &a);
}

/* ---- conversions --------------------------------------------------------------------------- */

/// Converts twice, so that temporaries meet.
static void convert_layouts(Ctx *ctx, Random *random, const char *what) {
    Shape shape = gpu_run_shape(random);
    const Layout *from = random_layout(ctx, random, shape);
    const Layout *to = random_layout(ctx, random, shape);
    Elem elem = any_elem(random);
    GpuRun r;
    gpu_run_begin(&r, ctx, gpu_run_warps(from));
    for (int i = 0; i < 3; i++) gpu_run_param(&r, elem, from, GPU_ANY);
    gpu_run_load(&r, "a", 0, from);
    gpu_run_text(&r, "%%b = convert %%a : %s\n", gpu_run_type(&r, elem, to));
    gpu_run_text(&r, "%%c = convert %%b : %s\n", gpu_run_type(&r, elem, from));
    gpu_run_store(&r, "b", 1, to);
    gpu_run_store(&r, "c", 2, from);
    gpu_run(&r, 0, what);
}

static void convert_boxes(Ctx *ctx, Random *random, const char *what) {
    const Layout *from = random_layout(ctx, random, gpu_run_shape(random));
    const Layout *to = layout_for(ctx, random, from->rank, from->extents, from->bits[LEVEL_WARP]);
    Elem elem = any_elem(random);
    GpuRun r;
    gpu_run_begin(&r, ctx, gpu_run_warps(from));
    for (int i = 0; i < 2; i++) gpu_run_param(&r, elem, from, GPU_ANY);
    gpu_run_load(&r, "a", 0, from);
    gpu_run_text(&r, "%%b = convert %%a : %s\n", gpu_run_type(&r, elem, to));
    gpu_run_store(&r, "b", 1, to);
    gpu_run(&r, 0, what);
}

/// From rows to operands of matrix instructions.
static void convert_fragment(Ctx *ctx, Random *random, const char *what) {
    static const FragmentRole roles[] = {FRAG_A, FRAG_B};
    static const struct {
        const char *name;
        Elem elem;
    } rows[] = {{"mma.m16n8k16", EL_F16}, {"mma.m16n8k32", EL_I8}, {"mma.m16n8k8", EL_F32}};
    int which = random_below(random, 3), warps[2] = {1, 1};
    const FragmentRow *row = fragment_find(rows[which].name, roles[random_below(random, 2)]);
    int64_t extents[2] = {32 << random_below(random, 2), 32 << random_below(random, 2)};
    warps[row->role == FRAG_B] = 2;
    const Layout *to = layout_tile(ctx, fragment_layout(ctx, row), extents, warps);
    const Layout *from = layout_for(ctx, random, 2, extents, 1);
    Elem elem = rows[which].elem;
    GpuRun r;
    gpu_run_begin(&r, ctx, 2);
    for (int i = 0; i < 2; i++) gpu_run_param(&r, elem, from, GPU_ANY);
    gpu_run_load(&r, "a", 0, from);
    gpu_run_text(&r, "%%b = convert %%a : %s\n", gpu_run_type(&r, elem, to));
    gpu_run_store(&r, "b", 1, to);
    gpu_run(&r, 0, what);
}

/* ---- shapes -------------------------------------------------------------------------------- */

static void permute_block(Ctx *ctx, Random *random, const char *what) {
    const Layout *l = random_layout(ctx, random, gpu_run_shape(random)), *m = l, *to;
    int perm[MAX_RANK];
    for (int d = 0; d < l->rank; d++) perm[d] = (d + 1) % l->rank;
    m = to = layout_permute(ctx, l, perm);
    if (random_below(random, 3) == 0)
        to = layout_for(ctx, random, m->rank, m->extents, l->bits[LEVEL_WARP]);
    Elem elem = any_elem(random);
    GpuRun r;
    gpu_run_begin(&r, ctx, gpu_run_warps(l));
    gpu_run_param(&r, elem, l, GPU_ANY);
    gpu_run_param(&r, elem, m, GPU_ANY);
    gpu_run_load(&r, "a", 0, l);
    gpu_run_text(&r, "%%b = permute %%a [perm=[");
    for (int d = 0; d < l->rank; d++) gpu_run_text(&r, "%s%d", d ? ", " : "", perm[d]);
    gpu_run_text(&r, "]] : %s\n", gpu_run_type(&r, elem, to));
    gpu_run_store(&r, "b", 1, to);
    gpu_run(&r, 0, what);
}

static void reshape_block(Ctx *ctx, Random *random, const char *what) {
    const Layout *l = random_layout(ctx, random, gpu_run_shape(random));
    int64_t count = 1;
    for (int d = 0; d < l->rank; d++) count *= l->extents[d];
    int64_t extents[2] = {count, 1};
    for (int64_t n = 2; n < 9; n++)
        if (count % n == 0 && random_below(random, 2)) {
            extents[0] = count / n;
            extents[1] = n;
        }
    const Layout *to = layout_reshape(ctx, l, 2, extents);
    if (!to || random_below(random, 3) == 0)
        to = layout_for(ctx, random, 2, extents, l->bits[LEVEL_WARP]);
    Elem elem = any_elem(random);
    GpuRun r;
    gpu_run_begin(&r, ctx, gpu_run_warps(l));
    gpu_run_param(&r, elem, l, GPU_ANY);
    gpu_run_param(&r, elem, to, GPU_ANY);
    gpu_run_load(&r, "a", 0, l);
    gpu_run_text(&r, "%%b = reshape %%a : %s\n", gpu_run_type(&r, elem, to));
    gpu_run_store(&r, "b", 1, to);
    gpu_run(&r, 0, what);
}

/// Splits along one axis and joins the parts in reverse.
static void cut_block(Ctx *ctx, Random *random, const char *what) {
    const Layout *l = random_layout(ctx, random, gpu_run_shape(random)), *part[2];
    int axis = random_below(random, l->rank);
    int64_t extent = l->extents[axis], unit, start[2] = {0}, size[2];
    if (extent == 1) return;
    layout_extend(ctx, l, axis, 1, &unit);
    size[0] = 1 + random_below(random, (int)extent - 1);
    if (unit < extent && random_below(random, 2)) size[0] = unit;
    size[1] = extent - size[0];
    start[1] = size[0];
    Elem elem = any_elem(random);
    GpuRun r;
    gpu_run_begin(&r, ctx, gpu_run_warps(l));
    for (int i = 0; i < 2; i++) gpu_run_param(&r, elem, l, GPU_ANY);
    gpu_run_load(&r, "a", 0, l);
    for (int i = 0; i < 2; i++) {
        part[i] = layout_extend(ctx, l, axis, size[i], &unit);
        gpu_run_text(&r, "%%part%d = slice %%a [start=[", i);
        for (int d = 0; d < l->rank; d++)
            gpu_run_text(&r, "%s%d", d ? ", " : "", d == axis ? (int)start[i] : 0);
        gpu_run_text(&r, "]] : %s\n", gpu_run_type(&r, elem, part[i]));
    }
    gpu_run_text(&r, "%%b = concat %%part1, %%part0 [axis=%d] : %s\n", axis,
                 gpu_run_type(&r, elem, l));
    gpu_run_store(&r, "b", 1, l);
    gpu_run(&r, 0, what);
}

static void broadcast_block(Ctx *ctx, Random *random, const char *what) {
    const Layout *l = random_layout(ctx, random, gpu_run_shape(random));
    int axis = random_below(random, l->rank);
    const Layout *from = layout_slice(ctx, l, axis, true);
    if (random_below(random, 3) == 0)
        from = layout_for(ctx, random, from->rank, from->extents, l->bits[LEVEL_WARP]);
    Elem elem = any_elem(random);
    GpuRun r;
    gpu_run_begin(&r, ctx, gpu_run_warps(l));
    gpu_run_param(&r, elem, from, GPU_ANY);
    gpu_run_param(&r, elem, l, GPU_ANY);
    gpu_run_load(&r, "a", 0, from);
    gpu_run_text(&r, "%%b = broadcast %%a : %s\n", gpu_run_type(&r, elem, l));
    gpu_run_store(&r, "b", 1, l);
    gpu_run(&r, 0, what);
}

/* ---- control flow -------------------------------------------------------------------------- */

/// A block, a scalar and a conversion carried by loops and branches.
static void loop_block(Ctx *ctx, Random *random, const char *what) {
    Shape shape = gpu_run_shape(random);
    const Layout *l = random_layout(ctx, random, shape), *m = random_layout(ctx, random, shape);
    GpuRun r;
    gpu_run_begin(&r, ctx, gpu_run_warps(l));
    gpu_run_param(&r, EL_I32, l, GPU_ANY);
    gpu_run_param(&r, EL_I32, l, GPU_ANY);
    gpu_run_load(&r, "a", 0, l);
    const char *t = gpu_run_type(&r, EL_I32, l), *u = gpu_run_type(&r, EL_I32, m);
    gpu_run_text(&r, "%%n = const [value=%d] : i64\n%%one = const [value=1] : i32\n",
                 random_below(random, 5));
    gpu_run_text(&r, "%%b, %%s = for %%zero, %%n, %%a, %%one [step=2] : %s, i32 {\n", t);
    gpu_run_text(&r, "(%%i: i64, %%x: %s, %%k: i32)\n%%x1 = convert %%x : %s\n", t, u);
    gpu_run_text(&r, "%%k1 = add %%k, %%k : i32\n%%two = const [value=2] : i32\n"
                     "%%big = gt %%k, %%two : bool\n");
    gpu_run_text(&r, "%%x2 = if %%big : %s {\n%%y = convert %%x1 : %s\n", t, t);
    gpu_run_text(&r, "%%z = add %%y, %%y : %s\nyield %%z\n}{\nyield %%x\n}\n", t);
    gpu_run_text(&r, "%%ks = broadcast %%k1 : %s\n%%x3 = add %%x2, %%ks : %s\n", t, t);
    gpu_run_text(&r, "yield %%x3, %%k1\n}\n");
    gpu_run_text(&r, "%%c, %%w = while %%b, %%s : %s, i32 {\n(%%x: %s, %%k: i32)\n", t, t);
    gpu_run_text(&r, "%%end = const [value=40] : i32\n%%go = lt %%k, %%end : bool\n"
                     "yield %%go\n}{\n");
    gpu_run_text(&r, "(%%x: %s, %%k: i32)\n%%ks = broadcast %%k : %s\n", t, t);
    gpu_run_text(&r, "%%x1 = xor %%x, %%ks : %s\n%%k1 = add %%k, %%k : i32\n", t);
    gpu_run_text(&r, "yield %%x1, %%k1\n}\n");
    gpu_run_store(&r, "c", 1, l);
    gpu_run(&r, 0, what);
}

/* ---- accesses ------------------------------------------------------------------------------ */

/// With an offset that hardware checks, padding reads 0; with an address it reads the pad.
static const char *any_pad(GpuRun *r, Random *random, Elem elem) {
    r->near = random_below(random, 2);
    if (r->near) r->target = "gfx1100";
    if (r->near && random_below(random, 4))
        return elem == EL_BOOL ? "false" : elem_is(elem, EC_FLOAT) ? "0.0" : "0";
    return elem == EL_BOOL ? "true" : elem_is(elem, EC_FLOAT) ? "1.5" : "7";
}

/// Windows over the edges, with steps, at any start, written back through one that is also masked.
static void window_access(Ctx *ctx, Random *random, const char *what) {
    const Layout *l = random_layout(ctx, random, gpu_run_shape(random));
    bool vectors = random_below(random, 2);
    if (vectors) l = layout_for(ctx, random, l->rank, l->extents, l->bits[LEVEL_WARP]);
    Elem elem = any_elem(random);
    GpuRun r;
    gpu_run_begin(&r, ctx, gpu_run_warps(l));
    if (vectors) r.align = 16;
    gpu_run_param(&r, elem, l, GPU_ANY);
    gpu_run_param(&r, elem, l, GPU_ANY);
    const char *pad = any_pad(&r, random, elem);
    gpu_run_text(&r, "%%pad = const [value=%s] : %s\n", pad, elem_info[elem].name);
    char subs[200] = "", operands[200] = "";
    for (int d = 0; d < l->rank; d++) {
        int extent = (int)l->extents[d], mul = 1 + random_below(random, 8) / 7;
        gpu_run_text(&r, "%%b%d = const [value=%d] : i64\n", d,
                     random_below(random, 3) ? random_below(random, extent) - extent / 3 : 0);
        gpu_run_text(&r, "%%n%d = const [value=%d] : i64\n", d,
                     random_below(random, 2) ? extent : random_below(random, extent + 2) - 1);
        sprintf(subs + strlen(subs), "%saxis %d", d ? ", " : "", extent);
        if (mul > 1) sprintf(subs + strlen(subs), " * %d", mul);
        sprintf(operands + strlen(operands), ", %%b%d, %%n%d", d, d);
    }
    gpu_run_text(&r, "%%a = load %%p0, %%pad%s [subs=(%s)] : %s\n", operands, subs,
                 gpu_run_type(&r, elem, l));
    gpu_run_text(&r, "store %%p1, %%a%s [subs=(%s)]\n", operands, subs);
    gpu_run_text(&r, "%%l = live %%p0%s [subs=(%s)] : %s\n", operands, subs,
                 gpu_run_type(&r, EL_BOOL, l));
    gpu_run_param(&r, EL_BOOL, l, GPU_ANY);
    gpu_run_store(&r, "l", 2, l);
    gpu_run(&r, 0, what);
}

/// Rows chosen by a block of indices, some of them outside, under a mask.
static void pick_access(Ctx *ctx, Random *random, const char *what) {
    const Layout *l = layout_of(
        ctx,
        random_below(random, 2)
            ? "[16x24; reg (0,1) (0,2) (8,0); lane (0,4) (1,0) (2,0) (4,0) -; repeat (1,3)]"
            : "[16x32; reg (8,0) (0,1); lane (1,0) (2,0) (4,0) (0,2) (0,4); warp (0,8) (0,16)]");
    const Layout *rows = layout_slice(ctx, l, 1, false);
    if (random_below(random, 3) == 0)
        rows = layout_for(ctx, random, 1, rows->extents, l->bits[LEVEL_WARP]);
    Elem elem = any_elem(random);
    bool masked = random_below(random, 2);
    int64_t n = l->extents[1];
    GpuRun r;
    gpu_run_begin(&r, ctx, gpu_run_warps(l));
    gpu_run_param(&r, elem, l, GPU_ANY);
    gpu_run_param(&r, EL_I64, rows, GPU_INDEX);
    gpu_run_param(&r, EL_BOOL, rows, GPU_ANY);
    gpu_run_param(&r, elem, l, GPU_ANY);
    gpu_run_load(&r, "i", 1, rows);
    gpu_run_load(&r, "m", 2, rows);
    const char *pad = any_pad(&r, random, elem);
    gpu_run_text(&r, "%%pad = const [value=%s] : %s\n%%n = const [value=%d] : i64\n", pad,
                 elem_info[elem].name, (int)n);
    gpu_run_text(&r, "%%a = load %%p0, %%pad, %%i, %%zero, %%n%s [subs=(pick, axis %d)] : %s\n",
                 masked ? ", %m" : "", (int)n, gpu_run_type(&r, elem, l));
    gpu_run_store(&r, "a", 3, l);
    gpu_run(&r, 0, what);
}

/// Reverses the block, so that threads read rows that others wrote.
static void order_access(Ctx *ctx, Random *random, const char *what) {
    Shape shape = gpu_run_shape(random);
    const Layout *l = random_layout(ctx, random, shape), *m = random_layout(ctx, random, shape);
    GpuRun r;
    gpu_run_begin(&r, ctx, gpu_run_warps(l));
    gpu_run_param(&r, EL_I32, l, GPU_ANY);
    gpu_run_load(&r, "a", 0, l);
    gpu_run_text(&r, "%%b = add %%a, %%a : %s\n", gpu_run_type(&r, EL_I32, l));
    gpu_run_store(&r, "b", 0, l);
    gpu_run_load(&r, "c", 0, m);
    gpu_run_text(&r, "%%d = mul %%c, %%c : %s\n", gpu_run_type(&r, EL_I32, m));
    gpu_run_store(&r, "d", 0, m);
    gpu_run(&r, 0, what);
}

static void atomic_access(Ctx *ctx, Random *random, const char *what) {
    static const struct {
        const char *op;
        Elem elem;
    } kinds[] = {{"add", EL_F32},  {"add", EL_I32},  {"max", EL_I64}, {"min", EL_U8},
                 {"add", EL_F16},  {"xor", EL_U16},  {"max", EL_F32}, {"xchg", EL_I32},
                 {"add", EL_F64},  {"and", EL_BOOL}, {"cas", EL_I32}, {"cas", EL_F16},
                 {"add", EL_BF16}, {"or", EL_U64}};
    const Layout *l = random_layout(ctx, random, gpu_run_shape(random));
    int which = random_below(random, (int)(sizeof kinds / sizeof *kinds));
    Elem elem = kinds[which].elem;
    GpuRun r;
    gpu_run_begin(&r, ctx, gpu_run_warps(l));
    for (int i = 0; i < 4; i++) gpu_run_param(&r, elem, l, GPU_SMALL);
    gpu_run_load(&r, "a", 0, l);
    gpu_run_load(&r, "e", 1, l);
    bool cas = strcmp(kinds[which].op, "cas") == 0;
    gpu_run_text(&r, "%%b = atomic %%p2, %%a%s", cas ? ", %e" : "");
    for (int d = 0; d < l->rank; d++) gpu_run_text(&r, ", %%zero, %%e%d", (int)l->extents[d]);
    gpu_run_text(&r, " [op=\"%s\", subs=(", kinds[which].op);
    for (int d = 0; d < l->rank; d++)
        gpu_run_text(&r, "%saxis %d", d ? ", " : "", (int)l->extents[d]);
    gpu_run_text(&r, ")] : %s\n", gpu_run_type(&r, elem, l));
    gpu_run_store(&r, "b", 3, l);
    gpu_run(&r, 0, what);
}

#define TEST(name, body, n)                                                                        \
    static void name(void **state) {                                                               \
        (void)state;                                                                               \
        gpu_run_cases(body, n, 5, 101);                                                            \
    }
TEST(test_convert, convert_layouts, 2 * CASES)
/// A hole of the writers' layout that shares a vector with elements of the readers' layout.
static void test_convert_hole(void **state) {
    (void)state;
    gpu_run_cases(convert_layouts, 1, 5 + 77 * 9, 0);
}
TEST(test_convert_boxes, convert_boxes, CASES)
TEST(test_convert_fragment, convert_fragment, CASES)
TEST(test_permute, permute_block, CASES)
TEST(test_reshape, reshape_block, CASES)
TEST(test_cut, cut_block, CASES)
TEST(test_broadcast, broadcast_block, CASES)
TEST(test_loop, loop_block, CASES)
TEST(test_window, window_access, 2 * CASES)
TEST(test_pick, pick_access, CASES)
TEST(test_order, order_access, CASES)
TEST(test_atomic, atomic_access, CASES)

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_convert),       cmocka_unit_test(test_convert_hole),
        cmocka_unit_test(test_convert_boxes), cmocka_unit_test(test_convert_fragment),
        cmocka_unit_test(test_permute),       cmocka_unit_test(test_reshape),
        cmocka_unit_test(test_cut),           cmocka_unit_test(test_broadcast),
        cmocka_unit_test(test_loop),          cmocka_unit_test(test_window),
        cmocka_unit_test(test_pick),          cmocka_unit_test(test_order),
        cmocka_unit_test(test_atomic),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
