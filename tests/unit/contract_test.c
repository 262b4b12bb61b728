// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Products of blocks on the CPU against the interpreter: awkward extents, every element type,
// operands that are contiguous along either axis, loops over k with several strips.
#include "differ.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

typedef struct Kind {
    const char *elem, *sum;
} Kind;
static const Kind kinds[] = {{"f32", "f32"},    {"f64", "f64"},    {"f16", "f32"}, {"bf16", "f32"},
                             {"f8e4m3", "f32"}, {"f8e5m2", "f32"}, {"i8", "i32"},  {"u8", "i32"}};
enum { N_KINDS = sizeof kinds / sizeof *kinds };

/// transposed: bit 0 of A, bit 1 of B.
static void check_dot(const Kind *kind, int m, int k, int n, int transposed, bool add) {
    Ctx *ctx = ctx_create(NULL);
    KernelText t;
    kernel_begin(&t, ctx);
    kernel_param(&t, "a", kind->elem, m, k, transposed & 1, VALUES_EXACT);
    kernel_param(&t, "b", kind->elem, k, n, transposed & 2, VALUES_EXACT);
    kernel_param(&t, "c", kind->sum, m, n, false, VALUES_EXACT);
    kernel_body(&t);
    kernel_load(&t, "x", "a", kind->elem, m, k);
    kernel_load(&t, "y", "b", kind->elem, k, n);
    kernel_load(&t, "z", "c", kind->sum, m, n);
    text_add(&t.text, "%%d = dot %%x, %%y%s : %s<%dx%d>\n", add ? ", %z" : "", kind->sum, m, n);
    kernel_store(&t, "c", "d", m, n);
    differ_run(&t, 1e-6,
               ctx_format(ctx, "%s %dx%dx%d, layout %d", kind->elem, m, k, n, transposed));
    ctx_destroy(ctx);
}

static void every_shape(void **state) {
    (void)state;
    static const int extent[] = {1, 7, 16, 33, 64};
    int which = 0;
    for (int i = 0; i < 5; i++)
        for (int j = 0; j < 5; j++)
            for (int k = (i + j) % 2; k < 5; k += 2, which++)
                check_dot(&kinds[0], extent[i], extent[j], extent[k], which % 4, which % 3 == 0);
    check_dot(&kinds[0], 112, 64, 160, 2, true);
}

static void every_type(void **state) {
    (void)state;
    static const int shapes[][3] = {{1, 9, 40}, {3, 1, 5}, {30, 17, 1}, {16, 16, 16}, {33, 31, 70}};
    for (int t = 1; t < N_KINDS; t++)
        for (int s = 0; s < 5; s++)
            for (int transposed = (t + s) % 2; transposed < 4; transposed += 2)
                check_dot(&kinds[t], shapes[s][0], shapes[s][1], shapes[s][2], transposed,
                          (s + transposed) % 2);
}

/// acc + the sum over k = lo, lo + step, ... < depth.
static void check_loop(const Kind *kind, int m, int depth, int n, int step, int transposed) {
    Ctx *ctx = ctx_create(NULL);
    KernelText t;
    kernel_begin(&t, ctx);
    kernel_param(&t, "a", kind->elem, m, depth, transposed & 1, VALUES_EXACT);
    kernel_param(&t, "b", kind->elem, depth, n, transposed & 2, VALUES_EXACT);
    kernel_param(&t, "c", kind->sum, m, n, false, VALUES_EXACT);
    kernel_body(&t);
    kernel_load(&t, "acc", "c", kind->sum, m, n);
    text_add(&t.text,
             "%%depth = dim %%a [axis=1] : i64\n%%m = dim %%a [axis=0] : i64\n"
             "%%n = dim %%b [axis=1] : i64\n%%pad = const [value=%s] : %s\n"
             "%%d = contract %%zero, %%depth, %%acc [step=%d] : %s<%dx%d> {(%%k: i64)\n"
             "%%left = sub %%depth, %%k : i64\n",
             zero_of(kind->elem), kind->elem, step, kind->sum, m, n);
    text_add(&t.text,
             "%%x = load %%a, %%pad, %%zero, %%m, %%k, %%left [subs=(axis %d, axis %d)] : "
             "%s<%dx%d>\n%%y = load %%b, %%pad, %%k, %%left, %%zero, %%n "
             "[subs=(axis %d, axis %d)] : %s<%dx%d>\nyield %%x, %%y\n}\n",
             m, step, kind->elem, m, step, step, n, kind->elem, step, n);
    kernel_store(&t, "c", "d", m, n);
    differ_run(&t, 1e-6, ctx_format(ctx, "%s loop %dx%dx%d by %d", kind->elem, m, depth, n, step));
    ctx_destroy(ctx);
}

static void loops(void **state) {
    (void)state;
    for (int t = 0; t < N_KINDS; t++) {
        check_loop(&kinds[t], 20, 100, 40, 16, t % 4);
        check_loop(&kinds[t], 5, 23, 50, 7, (t + 1) % 4);
    }
    check_loop(&kinds[0], 33, 2100, 40, 64, 0);
    check_loop(&kinds[6], 14, 2100, 70, 48, 3);
    check_loop(&kinds[0], 1, 1500, 200, 32, 2);
    check_loop(&kinds[0], 200, 300, 1, 32, 0);
    check_loop(&kinds[0], 4, 64, 4, 1, 0);
}

/// Programs of 16 x 32 run down the columns: c = a b, where panels of b serve several programs.
/// feedback: b is c itself, which the programs change, so panels must not be kept.
static void check_programs(int m, int depth, int n, int step, bool feedback) {
    Ctx *ctx = ctx_create(NULL);
    KernelText t;
    kernel_begin(&t, ctx);
    kernel_param(&t, "a", "f32", m, depth, false, VALUES_EXACT);
    kernel_param(&t, "b", "f32", depth, n, false, VALUES_EXACT);
    kernel_param(&t, "c", "f32", depth, n, false, VALUES_EXACT);
    kernel_body(&t);
    int down = (m + 15) / 16, across = (n + 31) / 32;
    text_add(&t.text,
             "%%depth = dim %%a [axis=1] : i64\n%%m = dim %%a [axis=0] : i64\n"
             "%%n = dim %%b [axis=1] : i64\n%%pad = const [value=0.0] : f32\n"
             "%%zeros = const [value=0.0] : f32<16x32>\n%%down = const [value=%d] : i64\n"
             "%%all = const [value=%d] : i64\n%%bm = const [value=16] : i64\n"
             "%%bn = const [value=32] : i64\nfor %%zero, %%all [step=1] {(%%p: i64)\n",
             down, down * across);
    text_add(&t.text, "%%row = rem %%p, %%down : i64\n%%column = div %%p, %%down : i64\n"
                      "%%i = mul %%row, %%bm : i64\n%%j = mul %%column, %%bn : i64\n"
                      "%%rows = sub %%m, %%i : i64\n%%columns = sub %%n, %%j : i64\n");
    text_add(&t.text,
             "%%d = contract %%zero, %%depth, %%zeros [step=%d] : f32<16x32> {(%%k: i64)\n"
             "%%left = sub %%depth, %%k : i64\n"
             "%%x = load %%a, %%pad, %%i, %%rows, %%k, %%left [subs=(axis 16, axis %d)] : "
             "f32<16x%d>\n%%y = load %%%s, %%pad, %%k, %%left, %%j, %%columns "
             "[subs=(axis %d, axis 32)] : f32<%dx32>\nyield %%x, %%y\n}\n"
             "store %%c, %%d, %%i, %%rows, %%j, %%columns [subs=(axis 16, axis 32)]\n"
             "yield\n}\n",
             step, step, step, feedback ? "c" : "b", step, step);
    differ_run(&t, 1e-4, ctx_format(ctx, "programs %dx%dx%d, feedback %d", m, depth, n, feedback));
    ctx_destroy(ctx);
}

static void programs(void **state) {
    (void)state;
    check_programs(100, 120, 70, 16, false);
    check_programs(64, 1000, 64, 64, false);
    check_programs(40, 9000, 40, 40, false); // more strips than are kept
    check_programs(20, 50, 40, 16, true);
}

/// x (y z) and (x y) z of nearly square blocks: one operand is already in a buffer.
static void check_chain(int m, int k, int n, int p, bool left) {
    Ctx *ctx = ctx_create(NULL);
    KernelText t;
    kernel_begin(&t, ctx);
    kernel_param(&t, "a", "f32", m, k, false, VALUES_EXACT);
    kernel_param(&t, "b", "f32", k, n, false, VALUES_EXACT);
    kernel_param(&t, "c", "f32", n, p, false, VALUES_EXACT);
    kernel_param(&t, "d", "f32", m, p, false, VALUES_EXACT);
    kernel_body(&t);
    kernel_load(&t, "x", "a", "f32", m, k);
    kernel_load(&t, "y", "b", "f32", k, n);
    kernel_load(&t, "z", "c", "f32", n, p);
    const char *form = left ? "%%u = dot %%x, %%y : f32<%dx%d>\n%%v = dot %%u, %%z : f32<%dx%d>\n"
                            : "%%u = dot %%y, %%z : f32<%dx%d>\n%%v = dot %%x, %%u : f32<%dx%d>\n";
    text_add(&t.text, form, left ? m : k, left ? n : p, m, p);
    kernel_store(&t, "d", "v", m, p);
    differ_run(&t, 1e-5, ctx_format(ctx, "chain %dx%dx%dx%d, %d", m, k, n, p, left));
    ctx_destroy(ctx);
}

static void chains(void **state) {
    (void)state;
    static const int shapes[][4] = {
        {16, 16, 16, 16}, {20, 9, 33, 50}, {5, 40, 1, 30}, {33, 7, 20, 1}, {1, 17, 64, 3}};
    for (int s = 0; s < 5; s++)
        for (int left = 0; left < 2; left++)
            check_chain(shapes[s][0], shapes[s][1], shapes[s][2], shapes[s][3], left);
}

/// Every micro-kernel keeps its whole tile in registers: it never touches the stack.
static void check_registers(const Kind *kind, int m, int n, const char *level) {
    Ctx *ctx = ctx_create(NULL);
    KernelText t;
    kernel_begin(&t, ctx);
    kernel_param(&t, "a", kind->elem, m, 64, false, VALUES_EXACT);
    kernel_param(&t, "b", kind->elem, 64, n, false, VALUES_EXACT);
    kernel_param(&t, "c", kind->sum, m, n, false, VALUES_EXACT);
    kernel_body(&t);
    kernel_load(&t, "x", "a", kind->elem, m, 64);
    kernel_load(&t, "y", "b", kind->elem, 64, n);
    text_add(&t.text, "%%d = dot %%x, %%y : %s<%dx%d>\n", kind->sum, m, n);
    kernel_store(&t, "c", "d", m, n);
    int found = 0;
    const char *at = strstr(differ_assembly(&t, level), "\nmicro.");
    for (; at; at = strstr(at, "\nmicro."), found++) {
        const char *end = strstr(at, ".cfi_endproc"), *stack = strstr(at, "(%rsp");
        if (!end) end = strstr(at, ".size");
        if (stack && stack < end)
            fail_msg("%s %dx%d, %s: a tile is spilled", kind->elem, m, n, level);
        at = end;
    }
    assert_true(found > 0);
    ctx_destroy(ctx);
}

static void registers(void **state) {
    (void)state;
    static const int shapes[][2] = {{128, 128}, {112, 32}, {64, 48}, {100, 16}, {1, 256}, {3, 80}};
    for (int s = 0; s < 6; s++)
        for (int t = 0; t < N_KINDS; t += 3) {
            check_registers(&kinds[t], shapes[s][0], shapes[s][1], "x86-64-v3");
            check_registers(&kinds[t], shapes[s][0], shapes[s][1], "x86-64-v4");
        }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_shape), cmocka_unit_test(every_type), cmocka_unit_test(loops),
        cmocka_unit_test(programs),    cmocka_unit_test(chains),     cmocka_unit_test(registers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
