// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Converts a launch's numbers to the bits of a float type. It uses integers only, so the runtime
// needs no libm.
#include "runtime/runtime.h"

#include <string.h>

/// A binary float format smaller than f32; ir/eval.c has the same formats. `inf`: the highest
/// exponent means infinity and NaN; otherwise only the all-ones code is NaN.
typedef struct FloatFormat {
    uint8_t code, bits, exponent, mantissa;
    bool inf, saturates;
} FloatFormat;

static const FloatFormat formats[] = {
    {kDLFloat8_e4m3fn, 8, 4, 3, false, true},
    {kDLFloat8_e5m2, 8, 5, 2, true, true},
    {kDLFloat, 16, 5, 10, true, false},
    {kDLBfloat, 16, 8, 7, true, false},
};

enum { F64_MANTISSA = 52, F64_BIAS = 1023, F64_TOP = 2047 };

/// x >> shift, to nearest, ties to even.
static uint64_t shift_right(uint64_t x, int shift) {
    if (shift > 63) return 0;
    uint64_t half = (uint64_t)1 << (shift - 1), odd = x >> shift & 1;
    return (x + half - 1 + odd) >> shift;
}

/// Codes without their sign increase with the value. Rounding up to the next power of two, or from
/// subnormals to normals, therefore carries into the exponent.
static uint64_t encode_small_float(const FloatFormat *f, uint64_t x) {
    int bias = (1 << (f->exponent - 1)) - 1, least = 1 - bias;
    uint64_t one = (uint64_t)1 << f->mantissa;
    uint64_t infinity = (((uint64_t)1 << f->exponent) - 1) << f->mantissa;
    uint64_t largest = f->inf ? infinity - 1 : infinity + one - 2;
    uint64_t sign = x >> 63 << (f->exponent + f->mantissa);
    uint64_t fraction = x & (((uint64_t)1 << F64_MANTISSA) - 1);
    int field = (int)(x >> F64_MANTISSA & F64_TOP), e = field - F64_BIAS;
    if (field == 0) return sign; // far below the smallest value of any format
    if (field == F64_TOP && fraction) return sign | infinity | (f->inf ? one >> 1 : one - 1);
    int below = e < least ? least - e : 0;
    uint64_t places =
        shift_right(fraction | (uint64_t)1 << F64_MANTISSA, F64_MANTISSA - f->mantissa + below);
    uint64_t code = ((uint64_t)(e + below - least) << f->mantissa) + places;
    if (code > largest) code = f->saturates ? largest : infinity;
    return sign | code;
}

/// NULL: f32 or f64.
static const FloatFormat *format_of(int code, int bits) {
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++)
        if (formats[i].code == code && formats[i].bits == bits) return &formats[i];
    return NULL;
}

int rt_significand(int code, int bits) {
    const FloatFormat *f = format_of(code, bits);
    return f ? f->mantissa + 1 : bits == 32 ? 24 : F64_MANTISSA + 1;
}

uint64_t rt_float_bits(int code, int bits, double x) {
    const FloatFormat *f = format_of(code, bits);
    uint64_t wide;
    uint32_t narrow;
    float single = (float)x;
    memcpy(&wide, &x, sizeof wide);
    memcpy(&narrow, &single, sizeof narrow);
    if (code == kDLFloat && bits == 32) return narrow;
    return f ? encode_small_float(f, wide) : wide;
}
