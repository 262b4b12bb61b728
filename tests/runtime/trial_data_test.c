// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The data of trials: the contents of tensors before a launch, and the comparison of results. Every
// value of the small float types is decoded here by its definition, and by the runtime.
#include "runtime/tune/trial.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { MANY = 3000 };

/* ---- values ---------------------------------------------------------------------------------- */

typedef struct Format {
    int code, bits, exponent; // bits of the exponent
    bool has_infinity;
} Format;

static const Format formats[] = {
    {kDLFloat, 16, 5, true},
    {kDLBfloat, 16, 8, true},
    {kDLFloat8_e5m2, 8, 5, true},
    {kDLFloat8_e4m3fn, 8, 4, false},
};
enum { FORMATS = sizeof formats / sizeof *formats };

/// 2^n.
static double power(int n) {
    double x = 1;
    for (; n > 0; n--) x *= 2;
    for (; n < 0; n++) x /= 2;
    return x;
}

static double value_of(const Format *f, uint32_t x) {
    int mantissa_bits = f->bits - 1 - f->exponent, most = (1 << f->exponent) - 1;
    int exponent = (int)(x >> mantissa_bits) & most, bias = most / 2;
    double fraction = (double)(x & ((1u << mantissa_bits) - 1)) / power(mantissa_bits);
    double sign = x >> (f->bits - 1) ? -1 : 1;
    if (f->has_infinity && exponent == most)
        return fraction > 0 ? (double)NAN : sign * (double)INFINITY;
    if (!f->has_infinity && (x & 0x7f) == 0x7f) return (double)NAN;
    if (exponent == 0) return sign * fraction * power(1 - bias);
    return sign * (1 + fraction) * power(exponent - bias);
}

static rt_difference compare_one(const Format *f, uint16_t x, uint16_t y) {
    uint8_t small[2] = {(uint8_t)x, (uint8_t)y};
    bool is_small = f->bits == 8;
    const void *a = is_small ? (const void *)&small[0] : &x,
               *b = is_small ? (const void *)&small[1] : &y;
    return rt_compare(a, b, 1, f->code, f->bits, (rt_bound){0});
}

/// The comparison decodes every value: its difference from 2 shows it.
static void decodes(void **state) {
    (void)state;
    for (int k = 0; k < FORMATS; k++) {
        const Format *f = &formats[k];
        uint32_t two = 0, n = 1u << f->bits;
        while (value_of(f, two) != 2) two++;
        for (uint32_t x = 0; x < n; x++) {
            rt_difference d = compare_one(f, (uint16_t)x, (uint16_t)two);
            double want = value_of(f, x);
            bool same = want == 2;
            if (d.count != !same) fail_msg("format %d: %x: %zu differ", k, x, d.count);
            if (same) continue;
            if (d.want != 2 || (isnan(want) ? !isnan(d.got) : d.got != want))
                fail_msg("format %d: %x is %g, not %g", k, x, d.got, want);
        }
    }
}

/* ---- comparing ------------------------------------------------------------------------------- */

static rt_difference compare(const float *x, const float *y, double relative, double absolute) {
    return rt_compare(x, y, MANY, kDLFloat, 32, (rt_bound){relative, absolute});
}

/// The first of several wrong elements is found, wherever it is.
static void finds_the_first(void **state) {
    (void)state;
    static float x[MANY], y[MANY];
    for (int i = 0; i < MANY; i++) x[i] = y[i] = (float)(i % 13) - 6;
    assert_int_equal(compare(x, y, 0, 0).count, 0);
    for (int at = 0; at < MANY; at += 37) {
        memcpy(x, y, sizeof x);
        x[at] += 1;
        x[MANY - 1] += 3;
        rt_difference d = compare(x, y, 0, 0.5);
        assert_int_equal(d.count, at == MANY - 1 ? 1 : 2);
        assert_int_equal(d.first, at);
        assert_true(d.want == (double)y[at] && d.got == (double)x[at] && d.most >= 3);
    }
}

/// Bounds are relative to the reference, or absolute. Infinities and NaNs are near only to
/// themselves.
static void bounds(void **state) {
    (void)state;
    static float x[MANY], y[MANY];
    const float inf = INFINITY, nan = NAN;
    static const struct {
        double relative, absolute;
        int wrong;
    } cases[] = {{0, 0, 1},   {0.009, 0, 1}, {0.011, 0, 0},
                 {0, 0.9, 1}, {0, 1.1, 0},   {0.006, 0.5, 0}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        x[5] = 101, y[5] = 100;
        assert_int_equal(compare(x, y, cases[i].relative, cases[i].absolute).count, cases[i].wrong);
        x[5] = -101, y[5] = -100;
        assert_int_equal(compare(x, y, cases[i].relative, cases[i].absolute).count, cases[i].wrong);
    }
    const float odd[] = {inf, -inf, nan, 1};
    for (int i = 0; i < 4; i++)
        for (int k = 0; k < 4; k++) {
            x[5] = odd[i], y[5] = odd[k];
            size_t wrong = compare(x, y, 1e-3, (double)inf).count;
            assert_int_equal(compare(x, y, 1e-3, 1e3).count, i != k);
            assert_int_equal(wrong, i != k);
        }
}

static void bytes(void **state) {
    (void)state;
    int32_t x[100], y[100];
    for (int i = 0; i < 100; i++) x[i] = y[i] = i;
    assert_int_equal(rt_compare_bytes(x, y, 100, 4).count, 0);
    x[70] ^= 1 << 20;
    x[90] ^= 3;
    rt_difference d = rt_compare_bytes(x, y, 100, 4);
    assert_int_equal(d.count, 2);
    assert_int_equal(d.first, 70);
}

static void sizes(void **state) {
    (void)state;
    float x[MANY];
    double wide[2] = {3, 4};
    for (int i = 0; i < MANY; i++) x[i] = i % 2 ? 5 : -5;
    assert_true(fabs(rt_size(x, MANY, kDLFloat, 32) - 5) < 1e-9);
    assert_true(fabs(rt_size(wide, 2, kDLFloat, 64) - sqrt(12.5)) < 1e-12);
    memset(x, 0, sizeof x);
    assert_true(rt_size(x, MANY, kDLFloat, 32) == 0);
    assert_true(rt_size(x, 0, kDLFloat, 32) == 0);
}

/* ---- contents -------------------------------------------------------------------------------- */

/// Integers are the caller's, or zeros. In the second fill their lowest bit is flipped; of types
/// below a byte, the lowest bit of both elements.
static void integers(void **state) {
    (void)state;
    const int32_t given[6] = {7, -3, 0, 99, 1 << 30, 5};
    int32_t out[6];
    rt_pattern p = {.code = kDLInt, .bits = 32, .n = 6, .given = given};
    assert_int_equal(rt_pattern_period(&p), sizeof given);
    rt_pattern_make(&p, 0, out);
    assert_memory_equal(out, given, sizeof given);
    rt_pattern_make(&p, 1, out);
    for (int i = 0; i < 6; i++) assert_int_equal(out[i], given[i] ^ 1);
    p.given_bytes = 8; // which are repeated
    assert_int_equal(rt_pattern_period(&p), 8);
    p.given = NULL;
    p.given_bytes = 0;
    rt_pattern_make(&p, 0, out);
    for (int i = 0; i < 6; i++) assert_int_equal(out[i], 0);
    const uint8_t pairs[3] = {0x12, 0x00, 0xff};
    uint8_t small[3];
    rt_pattern four = {.code = kDLInt, .bits = 4, .n = 3, .given = pairs};
    rt_pattern_make(&four, 1, small);
    for (int i = 0; i < 3; i++) assert_int_equal(small[i], pairs[i] ^ 0x11);
    four.n = 0;
    assert_int_equal(rt_pattern_period(&four), 0);
}

/// Floats are normal, or mild: between 0.25 and 1. Fills, parameters and seeds differ.
static void floats(void **state) {
    (void)state;
    for (int k = 0; k < FORMATS; k++)
        for (int mild = 0; mild < 2; mild++) {
            const Format *f = &formats[k];
            rt_pattern p = {.param = 1, .code = f->code, .bits = f->bits, .n = MANY, .seed = 5};
            p.mild = mild;
            size_t period = rt_pattern_period(&p), size = (size_t)f->bits / 8;
            char *a = calloc(2, period), *b = a + period;
            int below = 0, above = 0;
            assert_true(period % size == 0 && period <= MANY * size);
            rt_pattern_make(&p, 0, a);
            for (size_t i = 0; i < period / size; i++) {
                uint16_t x = 0;
                memcpy(&x, a + i * size, size);
                double v = value_of(f, x);
                below += v<0, above += v> 0;
                if (mild ? !(v >= 0.25 && v <= 1) : !(fabs(v) < 4)) fail_msg("%g", v);
            }
            assert_true(mild ? below == 0 : below > 100 && above > 100);
            rt_pattern_make(&p, 1, b);
            assert_memory_not_equal(a, b, period);
            p.seed++;
            rt_pattern_make(&p, 0, b);
            assert_memory_not_equal(a, b, period);
            p.seed--, p.param++;
            rt_pattern_make(&p, 0, b);
            assert_memory_not_equal(a, b, period);
            free(a);
        }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(decodes), cmocka_unit_test(finds_the_first), cmocka_unit_test(bounds),
        cmocka_unit_test(bytes),   cmocka_unit_test(sizes),           cmocka_unit_test(integers),
        cmocka_unit_test(floats),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
