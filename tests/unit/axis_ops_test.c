// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Scan, sort, gather and histogram on the CPU against the interpreter.
#include "differ.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static const int shapes[][2] = {{1, 1}, {3, 7}, {5, 16}, {4, 33}, {33, 3}, {17, 17}, {1, 130}};
enum { N_SHAPES = sizeof shapes / sizeof *shapes };

/* ---- scan ---------------------------------------------------------------------------------- */

static void check_scan(const char *elem, const char *f, int shape, int axis, bool reverse,
                       bool exclusive) {
    int rows = shapes[shape][0], columns = shapes[shape][1];
    Ctx *ctx = ctx_create(NULL);
    KernelText t;
    kernel_begin(&t, ctx);
    kernel_param(&t, "a", elem, rows, columns, false, VALUES_EXACT);
    kernel_param(&t, "c", elem, rows, columns, false, VALUES_EXACT);
    kernel_body(&t);
    kernel_load(&t, "x", "a", elem, rows, columns);
    text_add(&t.text, "%%init = const [value=%s] : %s\n", zero_of(elem), elem);
    text_add(&t.text,
             "%%y = scan %%x%s [axis=%d%s%s] : %s<%dx%d> {(%%p: %s, %%q: %s)\n"
             "%%r = %s %%p, %%q : %s\nyield %%r\n}\n",
             exclusive ? ", %init" : "", axis, reverse ? ", reverse=true" : "",
             exclusive ? ", exclusive=true" : "", elem, rows, columns, elem, elem, f, elem);
    kernel_store(&t, "c", "y", rows, columns);
    differ_run(&t, 1e-5,
               ctx_format(ctx, "scan %s %s %dx%d, axis %d, reverse %d, exclusive %d", elem, f, rows,
                          columns, axis, reverse, exclusive));
    ctx_destroy(ctx);
}

static void scans(void **state) {
    (void)state;
    static const char *const what[][2] = {{"f32", "add"}, {"i64", "add"}, {"i8", "max"}};
    for (int s = 0; s < N_SHAPES; s++)
        for (int how = 0; how < 8; how++) {
            const char *const *w = what[(s + how) % 3];
            check_scan(w[0], w[1], s, how & 1, how & 2, how & 4);
        }
}

/// A combining function that the compiler does not know and that does not commute: the last nonzero
/// of two values.
static void scan_of_pairs(void **state) {
    (void)state;
    Ctx *ctx = ctx_create(NULL);
    KernelText t;
    kernel_begin(&t, ctx);
    kernel_param(&t, "a", "i32", 3, 50, false, VALUES_EXACT);
    kernel_param(&t, "b", "f32", 3, 50, false, VALUES_EXACT);
    kernel_body(&t);
    kernel_load(&t, "x", "a", "i32", 3, 50);
    kernel_load(&t, "y", "b", "f32", 3, 50);
    text_add(&t.text, "%%u, %%v = scan %%x, %%y [axis=1] : i32<3x50>, f32<3x50> "
                      "{(%%p: i32, %%q: f32, %%r: i32, %%s: f32)\n%%nil = const [value=0] : i32\n"
                      "%%has = ne %%r, %%nil : bool\n%%i = select %%has, %%r, %%p : i32\n"
                      "%%f = select %%has, %%s, %%q : f32\nyield %%i, %%f\n}\n");
    kernel_store(&t, "a", "u", 3, 50);
    kernel_store(&t, "b", "v", 3, 50);
    differ_run(&t, 0, "scan of pairs");
    ctx_destroy(ctx);
}

/* ---- sort ---------------------------------------------------------------------------------- */

static void check_sort(const char *elem, int rows, int columns, int axis, bool descending) {
    Ctx *ctx = ctx_create(NULL);
    KernelText t;
    kernel_begin(&t, ctx);
    kernel_param(&t, "a", elem, rows, columns, false, VALUES_SPECIAL);
    kernel_param(&t, "b", "i32", rows, columns, false, VALUES_EXACT);
    kernel_body(&t);
    kernel_load(&t, "x", "a", elem, rows, columns);
    kernel_load(&t, "y", "b", "i32", rows, columns);
    text_add(&t.text, "%%u, %%v = sort %%x, %%y [axis=%d%s] : %s<%dx%d>, i32<%dx%d>\n", axis,
             descending ? ", descending=true" : "", elem, rows, columns, rows, columns);
    kernel_store(&t, "a", "u", rows, columns);
    kernel_store(&t, "b", "v", rows, columns);
    differ_run(&t, 0,
               ctx_format(ctx, "sort %s %dx%d, axis %d, descending %d", elem, rows, columns, axis,
                          descending));
    ctx_destroy(ctx);
}

static void sorts(void **state) {
    (void)state;
    static const char *const elems[] = {"bool", "i8",  "u8",  "i16",  "u16", "i32", "u32",
                                        "i64",  "u64", "f16", "bf16", "f32", "f64"};
    enum { N = sizeof elems / sizeof *elems };
    for (int t = 0; t < N; t++)
        for (int how = 0; how < 4; how++) {
            const int *shape = shapes[(t + 3 * how) % N_SHAPES];
            check_sort(elems[t], shape[0], shape[1], how & 1, how & 2);
        }
    check_sort("f32", 1, 1000, 1, false);
    check_sort("f64", 2, 257, 1, true);
}

/* ---- gather and histogram ------------------------------------------------------------------ */

static void check_gather(const char *elem, int rows, int columns, int axis, int extent) {
    int from[2] = {axis == 0 ? extent : rows, axis == 1 ? extent : columns};
    Ctx *ctx = ctx_create(NULL);
    KernelText t;
    kernel_begin(&t, ctx);
    kernel_param(&t, "a", elem, from[0], from[1], false, VALUES_EXACT);
    kernel_param(&t, "b", "i64", rows, columns, false, VALUES_INDEX);
    kernel_param(&t, "c", elem, rows, columns, false, VALUES_EXACT);
    kernel_body(&t);
    kernel_load(&t, "x", "a", elem, from[0], from[1]);
    kernel_load(&t, "y", "b", "i64", rows, columns);
    text_add(&t.text, "%%z = gather %%x, %%y [axis=%d] : %s<%dx%d>\n", axis, elem, rows, columns);
    kernel_store(&t, "c", "z", rows, columns);
    differ_run(&t, 0, ctx_format(ctx, "gather %s %dx%d, axis %d", elem, rows, columns, axis));
    ctx_destroy(ctx);
}

static void gathers(void **state) {
    (void)state;
    static const char *const elems[] = {"f32", "u8", "f64", "f16", "bool"};
    for (int t = 0; t < 5; t++)
        for (int axis = 0; axis < 2; axis++) {
            const int *shape = shapes[(2 * t + axis) % N_SHAPES];
            check_gather(elems[t], shape[0], shape[1], axis, 1 + 4 * t);
        }
}

static void check_histogram(const char *elem, int rows, int columns, int bins, bool masked) {
    Ctx *ctx = ctx_create(NULL);
    KernelText t;
    kernel_begin(&t, ctx);
    kernel_param(&t, "a", elem, rows, columns, false, VALUES_INDEX);
    kernel_param(&t, "c", "i32", 1, bins, false, VALUES_EXACT);
    kernel_body(&t);
    kernel_load(&t, "x", "a", elem, rows, columns);
    text_add(&t.text,
             "%%five = const [value=5] : %s<%dx%d>\n%%keep = ne %%x, %%five : bool<%dx%d>\n", elem,
             rows, columns, rows, columns);
    text_add(&t.text, "%%h = histogram %%x%s : i32<%d>\n%%row = reshape %%h : i32<1x%d>\n",
             masked ? ", %keep" : "", bins, bins);
    kernel_store(&t, "c", "row", 1, bins);
    differ_run(&t, 0, ctx_format(ctx, "histogram %s %dx%d, %d", elem, rows, columns, bins));
    ctx_destroy(ctx);
}

static void histograms(void **state) {
    (void)state;
    check_histogram("i32", 4, 33, 8, false);
    check_histogram("u8", 3, 16, 16, true);
    check_histogram("i64", 2, 100, 1, false);
    check_histogram("i8", 1, 1, 5, false);
    check_histogram("i16", 4, 33, 5000, true);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(scans),   cmocka_unit_test(scan_of_pairs), cmocka_unit_test(sorts),
        cmocka_unit_test(gathers), cmocka_unit_test(histograms),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
