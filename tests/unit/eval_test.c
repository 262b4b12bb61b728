// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The semantics of scalars: formats, rounding, casts, total arithmetic.
#include "ir/eval.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <math.h>
#include <stdio.h>

static Cell f(double x) {
    return (Cell){.f = x};
}
static Cell i(int64_t x) {
    return (Cell){.i = x};
}
static Cell u(uint64_t x) {
    return (Cell){.u = x};
}

static Cell apply(OpCode op, Elem e, Cell a, Cell b) {
    return eval_elementwise(op, e, (Cell[]){a, b, {0}});
}

/// Every code of every small format decodes to a value that encodes to the same code.
static void formats_round_trip(void **state) {
    (void)state;
    const Elem all[] = {EL_F8E4M3, EL_F8E5M2, EL_F16, EL_BF16};
    for (int k = 0; k < 4; k++)
        for (uint64_t code = 0; code < UINT64_C(1) << elem_info[all[k]].bits; code++) {
            Cell c = cell_from_bits(all[k], code);
            if (!isnan(c.f)) assert_int_equal(cell_bits(all[k], c), code);
            if (!isnan(c.f) && !isinf(c.f)) assert_true(cell_wrap(all[k], c).f == c.f);
            if (isnan(c.f)) assert_true(isnan(cell_from_bits(all[k], cell_bits(all[k], c)).f));
        }
}

/// Rounding gives the nearer neighbour, and the even one half way, for every pair of neighbours.
static void rounding_is_to_nearest_even(void **state) {
    (void)state;
    const Elem all[] = {EL_F8E4M3, EL_F8E5M2, EL_F16, EL_BF16};
    for (int k = 0; k < 4; k++)
        for (uint64_t code = 0; code + 1 < UINT64_C(1) << (elem_info[all[k]].bits - 1); code++) {
            double lo = cell_from_bits(all[k], code).f, hi = cell_from_bits(all[k], code + 1).f;
            if (!isfinite(lo) || !isfinite(hi)) continue;
            double mid = (lo + hi) / 2;
            assert_true(cell_wrap(all[k], f(mid)).f == (code % 2 ? hi : lo));
            assert_true(cell_wrap(all[k], f(nextafter(mid, lo))).f == lo);
            assert_true(cell_wrap(all[k], f(-nextafter(mid, hi))).f == -hi);
        }
}

static void overflow(void **state) {
    (void)state;
    assert_true(cell_wrap(EL_F16, f(65519)).f == 65504);
    assert_true(isinf(cell_wrap(EL_F16, f(65520)).f));
    assert_true(cell_wrap(EL_F8E4M3, f(1e9)).f == 448);
    assert_true(cell_wrap(EL_F8E5M2, f(-INFINITY)).f == -57344);
    assert_true(isnan(cell_wrap(EL_F8E4M3, f(NAN)).f));
    assert_int_equal(cell_wrap(EL_I8, i(200)).i, -56);
    assert_int_equal(cell_wrap(EL_U8, i(-1)).u, 255);
}

static void casts(void **state) {
    (void)state;
    assert_int_equal(cell_cast(EL_F32, EL_I8, f(-3.9)).i, -3);
    assert_int_equal(cell_cast(EL_F32, EL_I8, f(1e9)).i, 127);
    assert_int_equal(cell_cast(EL_F64, EL_I64, f(-INFINITY)).i, INT64_MIN);
    assert_int_equal(cell_cast(EL_F64, EL_I64, f(9.3e18)).i, INT64_MAX);
    assert_int_equal(cell_cast(EL_F64, EL_U64, f(1.9e19)).u, UINT64_MAX);
    assert_int_equal(cell_cast(EL_F64, EL_U8, f(-5)).u, 0);
    assert_int_equal(cell_cast(EL_F32, EL_I32, f(NAN)).i, 0);
    assert_int_equal(cell_cast(EL_I64, EL_U4, i(-1)).u, 15);
    assert_int_equal(cell_cast(EL_I64, EL_I4, i(8)).i, -8);
    assert_true(cell_cast(EL_I64, EL_F32, i(16777217)).f == 16777216);
    // Next to ties of bf16, by one in 2^55, which f64 cannot represent.
    int64_t tie = ((int64_t)0x101 << 47);
    assert_true(cell_cast(EL_I64, EL_BF16, i(tie)).f == 0x1p55);
    assert_true(cell_cast(EL_I64, EL_BF16, i(tie + 1)).f == 0x1.02p55);
    assert_true(cell_cast(EL_I64, EL_BF16, i(-tie - 1)).f == -0x1.02p55);
    assert_true(cell_cast(EL_I64, EL_BF16, i(-tie + 1)).f == -0x1p55);
    assert_true(cell_cast(EL_U64, EL_BF16, u((uint64_t)0x101 << 55 | 1)).f == 0x1.02p63);
    assert_true(cell_cast(EL_U64, EL_F64, u(UINT64_MAX)).f == 0x1p64);
    assert_int_equal(cell_cast(EL_F32, EL_BOOL, f(NAN)).u, 1);
    assert_int_equal(cell_cast(EL_I32, EL_BOOL, i(-2)).u, 1);
}

static void arithmetic_is_total(void **state) {
    (void)state;
    assert_int_equal(apply(OP_DIV, EL_I32, i(INT32_MIN), i(-1)).i, INT32_MIN);
    assert_int_equal(apply(OP_DIV, EL_I64, i(INT64_MIN), i(-1)).i, INT64_MIN);
    assert_int_equal(apply(OP_REM, EL_I64, i(INT64_MIN), i(-1)).i, 0);
    assert_int_equal(apply(OP_DIV, EL_I32, i(5), i(0)).i, 0);
    assert_int_equal(apply(OP_REM, EL_U32, u(5), u(0)).u, 0);
    assert_int_equal(apply(OP_DIV, EL_I32, i(-7), i(2)).i, -3);
    assert_int_equal(apply(OP_REM, EL_I32, i(-7), i(2)).i, -1);
    assert_int_equal(apply(OP_SHL, EL_I32, i(1), i(31)).i, INT32_MIN);
    assert_int_equal(apply(OP_SHL, EL_I32, i(1), i(32)).i, 0);
    assert_int_equal(apply(OP_SHL, EL_I32, i(1), i(-1)).i, 0);
    assert_int_equal(apply(OP_SHR, EL_I16, i(-5), i(99)).i, -1);
    assert_int_equal(apply(OP_SHR, EL_U16, u(65535), u(16)).u, 0);
    assert_int_equal(apply(OP_ABS, EL_I8, i(-128), i(0)).i, -128);
    assert_int_equal(apply(OP_NEG, EL_I64, i(INT64_MIN), i(0)).i, INT64_MIN);
    assert_int_equal(apply(OP_ADD, EL_I32, i(INT32_MAX), i(1)).i, INT32_MIN);
    assert_int_equal(apply(OP_MULHI, EL_U32, u(0xffffffff), u(0xffffffff)).u, 0xfffffffe);
    assert_int_equal(apply(OP_MULHI, EL_I64, i(-1), i(INT64_MAX)).i, -1);
    assert_int_equal(apply(OP_CLZ, EL_I8, i(-1), i(0)).i, 0);
    assert_int_equal(apply(OP_CTZ, EL_U16, u(0), u(0)).u, 16);
    assert_int_equal(apply(OP_POPCOUNT, EL_I8, i(-1), i(0)).i, 8);
    assert_int_equal(apply(OP_NOT, EL_BOOL, u(1), u(0)).u, 0);
}

static void nan_loses(void **state) {
    (void)state;
    assert_true(apply(OP_MIN, EL_F32, f(NAN), f(2)).f == 2);
    assert_true(apply(OP_MAX, EL_F32, f(2), f(NAN)).f == 2);
    assert_int_equal(apply(OP_LT, EL_F32, f(NAN), f(2)).u, 0);
    assert_int_equal(apply(OP_NE, EL_F32, f(NAN), f(NAN)).u, 1);
}

static void neighbours(void **state) {
    (void)state;
    assert_true(apply(OP_NEXTAFTER, EL_F32, f(1), f(2)).f == 1 + 0x1p-23);
    assert_true(apply(OP_NEXTAFTER, EL_F16, f(1), f(0)).f == 1 - 0x1p-11);
    assert_true(apply(OP_NEXTAFTER, EL_BF16, f(0), f(-1)).f == -0x1p-133);
    assert_true(apply(OP_NEXTAFTER, EL_F16, f(-1), f(-2)).f == -1 - 0x1p-10);
}

static void memory(void **state) {
    (void)state;
    unsigned char bytes[16] = {0};
    cell_store(EL_U4, bytes, 3, u(9));
    cell_store(EL_I4, bytes, 2, i(-3));
    assert_int_equal(bytes[1], 0x9d);
    assert_int_equal(cell_load(EL_U4, bytes, 3).u, 9);
    assert_int_equal(cell_load(EL_I4, bytes, 2).i, -3);
    assert_int_equal(cell_load(EL_U4, bytes + 2, -1).u, 9);
    cell_store(EL_BF16, bytes, 4, f(-1.5));
    assert_true(cell_load(EL_BF16, bytes, 4).f == -1.5);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(formats_round_trip),
        cmocka_unit_test(rounding_is_to_nearest_even),
        cmocka_unit_test(overflow),
        cmocka_unit_test(casts),
        cmocka_unit_test(arithmetic_is_total),
        cmocka_unit_test(nan_loses),
        cmocka_unit_test(neighbours),
        cmocka_unit_test(memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
