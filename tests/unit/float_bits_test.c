// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The runtime's conversion of numbers to float types equals the interpreter's.
#include "ir/eval.h"
#include "runtime/runtime.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

static const struct {
    Elem elem;
    int code, bits;
} types[] = {
    {EL_F8E4M3, kDLFloat8_e4m3fn, 8}, {EL_F8E5M2, kDLFloat8_e5m2, 8}, {EL_F16, kDLFloat, 16},
    {EL_BF16, kDLBfloat, 16},         {EL_F32, kDLFloat, 32},         {EL_F64, kDLFloat, 64},
};
enum { TYPES = sizeof types / sizeof *types };

static void check(double x) {
    for (int i = 0; i < TYPES; i++) {
        Cell c = cell_wrap(types[i].elem, (Cell){.f = x});
        uint64_t expected = cell_bits(types[i].elem, c);
        assert_int_equal(rt_float_bits(types[i].code, types[i].bits, x), expected);
    }
}

static void specials(void **state) {
    (void)state;
    static const double xs[] = {0,     -0.0,  INFINITY, -INFINITY, NAN,    448,    464,
                                465,   57344, 61440,    65504,     65519,  65520,  1e300,
                                1e-40, 3e38,  3.4e38,   1e-320,    0x1p-9, 0x1p-10};
    for (size_t i = 0; i < sizeof xs / sizeof *xs; i++) check(xs[i]);
}

/// Every value of each format, the middle between it and the next, and its neighbours.
static void around_values(void **state) {
    (void)state;
    for (int i = 0; i < TYPES; i++)
        for (uint64_t bits = 0; types[i].bits <= 16 && bits < 1u << types[i].bits; bits++) {
            double x = cell_from_bits(types[i].elem, bits).f;
            double y = cell_from_bits(types[i].elem, bits + 1).f, middle = (x + y) / 2;
            if (isnan(x) || isnan(middle)) continue;
            check(x);
            check(middle);
            check(nextafter(middle, -INFINITY));
            check(nextafter(middle, INFINITY));
        }
}

static void any_bits(void **state) {
    (void)state;
    uint64_t x = 1;
    for (int i = 0; i < 200000; i++) {
        x = x * 6364136223846793005u + 1442695040888963407u;
        double d = ldexp((double)(int64_t)x, (int)(x >> 8 & 511) - 320);
        check(d);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(specials), cmocka_unit_test(around_values),
                                       cmocka_unit_test(any_bits)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
