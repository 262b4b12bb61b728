// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The records of device code for asserts, prints and checks: runtime/abi.h, tg_faults.
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "backends/llvm/target.h"
#include "gpu_run.h"
#include "layout_random.h"

/// Rows 0 1 2 ... in lanes of the first warp, 8 rows in registers and warps.
static const char tile[] = "[8x32; reg (1,0) (2,0); lane (0,1) (0,2) (0,4) (0,8) (0,16); "
                           "warp (4,0)]";

typedef struct Effect {
    const char *text; // text of the device
    int kind, n;
    const char *types;
    int64_t values[24];
} Effect;

static const Effect effects[] = {
    {"%zero32 = const [value=0] : i32\n%row = iota : i32[8; reg 1 2; lane - - - - -; warp 4]\n"
     "%five = const [value=5] : i32[8; reg 1 2; lane - - - - -; warp 4]\n"
     "%c = lt %row, %five : bool[8; reg 1 2; lane - - - - -; warp 4]\n"
     "%seven = const [value=7] : i32\n"
     "assert %c, %seven [text=\"seven is {}\"]\n",
     TG_SITE_ASSERT,
     2,
     "dd",
     {7, 5}},
    {"%row = iota : i32[20; reg 1; lane 2 4 8 16 -; warp -]\n"
     "print %row [text=\"{}\"]\n",
     TG_SITE_PRINT,
     16,
     "[dddddddddddddddd+]",
     {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}},
    {"%x = const [value=-3] : i32\nprint %x, %p [text=\"{} {}\"]\n",
     TG_SITE_PRINT,
     2,
     "dd",
     {-3, 0}},
    {"%x = const [value=9] : i64\n%q = div %x, %p : i64\n%y = const [value=0] : i64\n"
     "%t = add %q, %y : i64\n",
     TG_SITE_DIVIDE,
     1,
     "d",
     {9}},
    {"%e = const [value=8] : i64\n%b = const [value=28] : i64\n%pad = const [value=0.0] : f32\n"
     "%at = const [value=6] : i64\n"
     "%v = load %p0, %pad, %at, %b, %e [checked=true, subs=(at, axis 8)] : "
     "f32[8; reg 1 2; lane - - - - -; warp 4]\n",
     TG_SITE_BOUNDS,
     2,
     "dd",
     {32, 32}},
    {"%e = const [value=32] : i64\n%r = const [value=8] : i64\n%pad = const [value=0.0] : f32\n"
     "%b = const [value=-2] : i64\n"
     "%v = load %p0, %pad, %b, %r, %zero, %e [checked=true, subs=(axis 8, axis 32)] : f32",
     TG_SITE_BOUNDS,
     2,
     "dd",
     {-2, 8}},
};

static void run_effect(Ctx *ctx, void *arg) {
    const Effect *x = arg;
    GpuRun r;
    gpu_run_begin(&r, ctx, 2);
    r.check = true;
    gpu_run_param(&r, EL_F32, layout_of(ctx, tile), GPU_SMALL);
    gpu_run_text(&r, "%s%s", x->text, x->text[strlen(x->text) - 1] == '\n' ? "" : tile);
    gpu_run_text(&r, "\n");
    gpu_run(&r, 0, "effect");
    const tg_faults *f = (const tg_faults *)r.faults;
    assert_int_equal(f->used, x->n + 2);
    assert_int_equal(f->failed != 0, x->kind != TG_SITE_PRINT);
    const tg_site *site = r.sites[r.faults[2] & 0xffffffff];
    assert_int_equal(r.faults[2] >> 32, x->n);
    assert_int_equal(site->kind, x->kind);
    assert_int_equal(site->n_values, x->n);
    assert_string_equal(site->types, x->types);
    for (int i = 0; i < x->n; i++) assert_int_equal((int64_t)r.faults[4 + i], x->values[i]);
}

static void test_effects(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof effects / sizeof *effects; i++) {
        Ctx *ctx = ctx_create(NULL);
        Effect x = effects[i];
        CtxStatus status = llvm_protect(ctx, run_effect, &x);
        for (const Diagnostic *d = diag_first(ctx); d; d = d->next)
            fprintf(stderr, "effect %zu: %s\n", i, d->text);
        assert_int_equal(status, CTX_OK);
        ctx_destroy(ctx);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_effects)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
