// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The overlap report of `tegula profile`, for given times.
#include "tools/tegula/measure.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static void expect(double launch, double spread, double transfers, double programs,
                   const char *text) {
    Ctx *ctx = ctx_create(NULL);
    Times all = {launch, launch, spread}, t = {transfers, transfers, 0},
          p = {programs, programs, 0};
    assert_string_equal(overlap_text(ctx, &all, &t, &p), text);
    ctx_destroy(ctx);
}

static void says_how_much_is_hidden(void **state) {
    (void)state;
    expect(10e-3, 0, 4e-3, 6e-3, "overlap 0 % (+-0)");     // no overlap
    expect(6e-3, 0, 4e-3, 6e-3, "overlap 100 % (+-0)");    // all transfers are hidden
    expect(6e-3, 0, 6e-3, 4e-3, "overlap 100 % (+-0)");    // all programs are hidden
    expect(9e-3, 1e-3, 4e-3, 6e-3, "overlap 25 % (+-12)"); // a quarter is hidden
    expect(12e-3, 0, 4e-3, 6e-3, "overlap -50 % (+-0)");   // overlapping costs time
}

static void says_why_not(void **state) {
    (void)state;
    expect(10e-3, 0, 99e-6, 10e-3, "nothing to hide: transfers take less than 1 % of a launch");
    expect(10e-3, 0, 10e-3, 99e-6, "nothing to hide: programs take less than 1 % of a launch");
    expect(9e-3, 5e-3, 4e-3, 6e-3, "overlap not to be told: launches differ by 5 ms");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(says_how_much_is_hidden),
        cmocka_unit_test(says_why_not),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
