// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Hardware counters of `tegula profile`: recorded readings, and machines without counters.
#include "tools/tegula/profile/counters.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static void scales_to_all_the_time(void **state) {
    (void)state;
    assert_true(counter_value(&(CounterReading){1000, 80, 80}) == 1000);
    assert_true(counter_value(&(CounterReading){1000, 80, 20}) == 4000); // it ran a quarter of it
    assert_true(counter_value(&(CounterReading){0, 80, 0}) < 0);         // it never ran
}

/// Two launches of a kernel with arguments of 64,000 bytes.
static void describes_recorded_counts(void **state) {
    (void)state;
    Ctx *ctx = ctx_create(NULL);
    CounterReading all[COUNTERS] = {
        [COUNT_CYCLES] = {20000, 10, 10},
        [COUNT_INSTRUCTIONS] = {25000, 10, 5},
        [COUNT_CACHE_MISSES] = {4000, 10, 10},
        [COUNT_BRANCH_MISSES] = {100, 10, 10},
    };
    assert_string_equal(counters_text(ctx, all, 2, 64000),
                        "a launch, 1e+04 cycles, 2.5e+04 instructions (2.50 a cycle), 2000 misses "
                        "of the last cache (2.00 times the arguments), 50 mispredicted branches (2 "
                        "of 1000 instructions)");
    all[COUNT_CACHE_MISSES] = all[COUNT_BRANCH_MISSES] = (CounterReading){0};
    assert_string_equal(counters_text(ctx, all, 2, 64000),
                        "a launch, 1e+04 cycles, 2.5e+04 instructions (2.50 a cycle)");
    ctx_destroy(ctx);
}

static void says_why_there_are_none(void **state) {
    (void)state;
    Ctx *ctx = ctx_create(NULL);
    const char *help;
    assert_string_equal(counters_missing(ctx, EACCES, &help),
                        "this process may not use hardware counters");
    assert_non_null(strstr(help, "perf_event_paranoid"));
    assert_string_equal(counters_missing(ctx, ENOENT, &help),
                        "this machine has no hardware counters; virtual machines often have none");
    assert_null(help);
    assert_string_equal(counters_missing(ctx, EMFILE, &help),
                        "no hardware counters: Too many open files");
    ctx_destroy(ctx);
}

/// On a machine with counters, code that runs longer takes more instructions.
static void counts_this_thread(void **state) {
    (void)state;
    Counters c;
    if (!counters_open(&c)) {
        assert_true(errno != 0);
        skip();
    }
    CounterReading r[2][COUNTERS];
    for (int i = 0; i < 2; i++) {
        counters_start(&c);
        for (volatile int k = 0; k < (i ? 1000000 : 1000); k++) {
        }
        counters_stop(&c, r[i]);
    }
    double few = counter_value(&r[0][COUNT_INSTRUCTIONS]);
    double many = counter_value(&r[1][COUNT_INSTRUCTIONS]);
    counters_close(&c);
    if (few >= 0 && many >= 0) assert_true(many > few);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(scales_to_all_the_time), cmocka_unit_test(describes_recorded_counts),
        cmocka_unit_test(says_why_there_are_none), cmocka_unit_test(counts_this_thread)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
