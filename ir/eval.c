// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The meaning of scalars; see eval.h. lang/elementwise.def has the arithmetic. This file has the
// functions that its columns call, rounding, casts and memory.
#define _GNU_SOURCE // exp10, lgamma_r
#include "ir/eval.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define U(x) ((uint64_t)(x))
#define S(x) ((int64_t)(x))

static int elem_width(Elem e) {
    return e == EL_BOOL ? 1 : elem_info[e].bits;
}

/* ---- helpers of elementwise.def ------------------------------------------------------------ */

static uint64_t sdiv(int64_t a, int64_t b) {
    return b == 0 ? 0 : b == -1 ? 0 - U(a) : U(a / b);
}

static uint64_t srem(int64_t a, int64_t b) {
    return b == 0 || b == -1 ? 0 : U(a % b);
}

static bool is_bit_number(Elem e, int64_t b) {
    return b >= 0 && b < elem_width(e);
}

static uint64_t shift_left(Elem e, uint64_t a, int64_t b) {
    return is_bit_number(e, b) ? a << b : 0;
}

static uint64_t sshift_right(Elem e, int64_t a, int64_t b) {
    return U(a >> (is_bit_number(e, b) ? b : 63));
}

static uint64_t ushift_right(Elem e, uint64_t a, uint64_t b) {
    return b < (uint64_t)elem_width(e) ? a >> b : 0;
}

__extension__ typedef __int128 WideProduct;
__extension__ typedef unsigned __int128 UWide;

static uint64_t smulhi(Elem e, int64_t a, int64_t b) {
    return U((WideProduct)a * b >> elem_width(e));
}

static uint64_t umulhi(Elem e, uint64_t a, uint64_t b) {
    return U((UWide)a * b >> elem_width(e));
}

/// Only the value's bits. A negative number is sign-extended in its Cell.
static uint64_t low_bits(Elem e, uint64_t a) {
    return elem_width(e) == 64 ? a : a & ((U(1) << elem_width(e)) - 1);
}

static uint64_t popcount(Elem e, uint64_t a) {
    return U(__builtin_popcountll(low_bits(e, a)));
}

static uint64_t leading_zeros(Elem e, uint64_t a) {
    a = low_bits(e, a);
    return a ? U(__builtin_clzll(a) - (64 - elem_width(e))) : U(elem_width(e));
}

static uint64_t trailing_zeros(Elem e, uint64_t a) {
    a = low_bits(e, a);
    return a ? U(__builtin_ctzll(a)) : U(elem_width(e));
}

// The product of two f32 is exact in f64, and so is the rounding error of its sum with c (Knuth).
double fma_to_odd(double a, double b, double c) {
    double product = a * b, sum = product + c, part = sum - product;
    double lost = (product - (sum - part)) + (c - part);
    uint64_t bits;
    memcpy(&bits, &sum, sizeof bits);
    if (!(lost != 0) || !isfinite(sum) || bits & 1) return sum;
    return nextafter(sum, lost > 0 ? INFINITY : -INFINITY);
}

/// For narrower types the result is rounded to odd, for the rounding that follows.
static double fma_at(Elem e, double a, double b, double c) {
    if (e == EL_F64) return fma(a, b, c);
    return e == EL_F32 ? (double)fmaf((float)a, (float)b, (float)c) : fma_to_odd(a, b, c);
}

/// Of a number and a NaN returns the number, also for a signalling NaN.
static double least(double a, double b) {
    return isnan(a) ? b : isnan(b) ? a : fmin(a, b);
}

static double greatest(double a, double b) {
    return isnan(a) ? b : isnan(b) ? a : fmax(a, b);
}

static double ldexp_at(double a, double b) {
    return isnan(b) ? b : ldexp(a, (int)fmax(-5000, fmin(5000, trunc(b))));
}

/// lgamma without the global sign variable of C's version.
static double lgamma_at(double a) {
    int sign;
    return lgamma_r(a, &sign);
}

/* ---- formats ------------------------------------------------------------------------------- */

/// A binary float format smaller than f64. Values are (-1)^s * 1.m * 2^(E - bias); E = 0 holds the
/// subnormals. `inf`: the highest exponent holds infinity and NaNs (IEEE 754); else only the
/// all-ones code is NaN (OCP 8-bit floating point, e4m3).
typedef struct SmallFloatFormat {
    int exponent, mantissa, bias;
    double max;
    bool inf, saturates;
} SmallFloatFormat;

static const SmallFloatFormat formats[EL_COUNT] = {
    [EL_F8E4M3] = {4, 3, 7, 448, false, true},
    [EL_F8E5M2] = {5, 2, 15, 57344, true, true},
    [EL_F16] = {5, 10, 15, 65504, true, false},
    [EL_BF16] = {8, 7, 127, 0x1.fep127, true, false},
};

/// Rounds to nearest, ties to even, with gradual underflow. Beyond the largest number it gives
/// infinity, or the largest number if the format has none.
static double round_to_format(const SmallFloatFormat *f, double x) {
    if (isnan(x) || x == 0) return x;
    if (isinf(x)) return f->saturates ? copysign(f->max, x) : x;
    int e;
    frexp(x, &e); // |x| in [2^(e-1), 2^e)
    int least = 1 - f->bias;
    int ulp = (e - 1 > least ? e - 1 : least) - f->mantissa;
    double r = ldexp(rint(ldexp(x, -ulp)), ulp);
    if (fabs(r) > f->max) r = copysign(f->saturates ? f->max : INFINITY, x);
    return r;
}

enum { F64_MANTISSA = 52, F64_BIAS = 1023 };

// A NaN keeps its format's mantissa, so loading, moving and storing preserve the bits. The mantissa
// lies below the quiet bit, because C does not preserve signalling NaNs. An empty mantissa stands
// for the format's quiet NaN.

/// The mantissa of a NaN in a format with `bits` of them.
static uint64_t nan_mantissa(int bits, double x) {
    uint64_t all;
    memcpy(&all, &x, sizeof all);
    uint64_t kept = all >> (F64_MANTISSA - 1 - bits) & ((U(1) << bits) - 1);
    return kept ? kept : U(1) << (bits - 1);
}

static double nan_of(int bits, uint64_t mantissa) {
    uint64_t kept = mantissa == U(1) << (bits - 1) ? 0 : mantissa << (F64_MANTISSA - 1 - bits);
    uint64_t all = U(0xfff) << (F64_MANTISSA - 1) | kept;
    double x;
    memcpy(&x, &all, sizeof x);
    return x;
}

static uint64_t format_encode(const SmallFloatFormat *f, double x) {
    uint64_t sign = signbit(x) ? U(1) << (f->exponent + f->mantissa) : 0;
    uint64_t top = (U(1) << f->exponent) - 1;
    if (isnan(x))
        return sign | top << f->mantissa |
               (f->inf ? nan_mantissa(f->mantissa, x) : (U(1) << f->mantissa) - 1);
    if (isinf(x)) return sign | top << f->mantissa;
    int e;
    double m = frexp(fabs(x), &e);
    if (x == 0 || e - 1 < 1 - f->bias) // zero or subnormal: a multiple of the smallest step
        return sign | U(ldexp(fabs(x), f->bias - 1 + f->mantissa));
    uint64_t fraction = U(ldexp(m * 2 - 1, f->mantissa));
    return sign | U(e - 1 + f->bias) << f->mantissa | fraction;
}

/// For a number that is normal in the format. It is normal and exact in f64.
static double normal_number(const SmallFloatFormat *f, uint64_t exponent, uint64_t mantissa) {
    double x;
    uint64_t bits = (exponent + F64_BIAS - U(f->bias)) << F64_MANTISSA |
                    mantissa << (F64_MANTISSA - f->mantissa);
    memcpy(&x, &bits, sizeof x);
    return x;
}

static double format_decode(const SmallFloatFormat *f, uint64_t bits) {
    uint64_t mantissa = bits & ((U(1) << f->mantissa) - 1);
    uint64_t top = (U(1) << f->exponent) - 1;
    uint64_t exponent = bits >> f->mantissa & top;
    double x;
    if (exponent == top && f->inf)
        x = mantissa ? nan_of(f->mantissa, mantissa) : INFINITY;
    else if (exponent == top && mantissa == (U(1) << f->mantissa) - 1)
        x = NAN;
    else if (exponent == 0)
        x = ldexp((double)mantissa, 1 - f->bias - f->mantissa);
    else
        x = normal_number(f, exponent, mantissa);
    return bits >> (f->exponent + f->mantissa) & 1 ? -x : x;
}

Cell cell_wrap(Elem e, Cell c) {
    int shift = 64 - elem_width(e);
    switch (elem_info[e].cls) {
    case EC_BOOL: return (Cell){.u = c.u & 1};
    case EC_SINT: return (Cell){.i = S(c.u << shift) >> shift};
    case EC_UINT: return (Cell){.u = c.u << shift >> shift};
    case EC_FLOAT: break;
    }
    if (e == EL_F64 || isnan(c.f)) return c;
    return (Cell){.f = e == EL_F32 ? (double)(float)c.f : round_to_format(&formats[e], c.f)};
}

/// The neighbour of a towards b in the format of e (C17 7.12.11.3).
static double nextafter_at(Elem e, double a, double b) {
    if (e == EL_F64 || isnan(a) || isnan(b)) return nextafter(a, b);
    if (e == EL_F32) return (double)nextafterf((float)a, (float)b);
    if (a == b) return b;
    const SmallFloatFormat *f = &formats[e];
    if (a == 0) return copysign(ldexp(1, 1 - f->bias - f->mantissa), b);
    uint64_t bits = format_encode(f, a);
    bits += (a < b) == (a > 0) ? 1 : U(-1);
    return format_decode(f, bits);
}

/* ---- elementwise ops ----------------------------------------------------------------------- */

// Each row's three columns become functions; a, b, c shadow the cells by their numbers.
#define EW(id, name, n, classes, traits, cost, sx, ux, fx, doc)                                    \
    static Cell s_##id(Elem e, Cell x, Cell y, Cell z) {                                           \
        int64_t a = x.i, b = y.i, c = z.i;                                                         \
        (void)e, (void)a, (void)b, (void)c;                                                        \
        return (Cell){.u = U(sx)};                                                                 \
    }                                                                                              \
    static Cell u_##id(Elem e, Cell x, Cell y, Cell z) {                                           \
        uint64_t a = x.u, b = y.u, c = z.u;                                                        \
        (void)e, (void)a, (void)b, (void)c;                                                        \
        return (Cell){.u = U(ux)};                                                                 \
    }                                                                                              \
    static Cell f_##id(Elem e, Cell x, Cell y, Cell z) {                                           \
        double a = x.f, b = y.f, c = z.f;                                                          \
        (void)e, (void)a, (void)b, (void)c;                                                        \
        if ((traits)&COMPARES) return (Cell){.u = (fx) != 0};                                      \
        return (Cell){.f = (double)(fx)};                                                          \
    }
#include "lang/elementwise.def"

static const struct {
    EvalFn *s, *u, *f;
} functions[OP_COUNT] = {
#define EW(id, name, n, classes, traits, cost, s, u, f, doc) [OP_##id] = {s_##id, u_##id, f_##id},
#include "lang/elementwise.def"
};

EvalFn *eval_function(OpCode op, ElemClass cls) {
    return cls == EC_FLOAT ? functions[op].f : cls == EC_SINT ? functions[op].s : functions[op].u;
}

Cell eval_elementwise(OpCode op, Elem e, const Cell *args) {
    int n = op_info[op].n_operands;
    Cell none = {0};
    Cell r = eval_function(op, elem_info[e].cls)(e, args[0], n > 1 ? args[1] : none,
                                                 n > 2 ? args[2] : none);
    return op_info[op].traits & COMPARES ? r : cell_wrap(e, r);
}

/* ---- casts and memory ---------------------------------------------------------------------- */

static Cell cell_float_to_int(Elem to, double x) {
    bool is_signed = elem_is(to, EC_SINT);
    int magnitude = elem_width(to) - is_signed;
    double limit = ldexp(1, magnitude);
    if (isnan(x)) return (Cell){.u = 0};
    if (x >= limit) return (Cell){.u = magnitude == 64 ? UINT64_MAX : (U(1) << magnitude) - 1};
    if (is_signed)
        return x <= -limit ? (Cell){.i = -S(U(1) << (magnitude - 1)) * 2} : (Cell){.i = S(x)};
    return x <= 0 ? (Cell){.u = 0} : (Cell){.u = U(x)};
}

/// Returns a 64-bit integer that f64 represents and that rounds like x to narrower floats. The bits
/// that f64 lacks are or-ed into its last bit. So a number is half way between two narrower floats
/// only if x is.
static uint64_t round_int_to_odd(uint64_t x, bool is_signed) {
    uint64_t exact = U(1) << 52, lost = x & 0x7ff;
    bool large = is_signed ? x + exact >= 2 * exact : x >= exact;
    return large ? (x & ~U(0x7ff)) | (lost ? 0x800 : 0) : x;
}

static Cell cell_int_to_float(Elem from, Elem to, Cell c) {
    bool is_signed = elem_is(from, EC_SINT);
    if (to != EL_F32 && to != EL_F64) c.u = round_int_to_odd(c.u, is_signed);
    if (to == EL_F32) // rounds once instead of twice
        return (Cell){.f = is_signed ? (double)(float)c.i : (double)(float)c.u};
    return cell_wrap(to, (Cell){.f = is_signed ? (double)c.i : (double)c.u});
}

Cell cell_cast(Elem from, Elem to, Cell c) {
    bool from_float = elem_is(from, EC_FLOAT), to_float = elem_is(to, EC_FLOAT);
    if (from == to) return c;
    if (to == EL_BOOL) return (Cell){.u = from_float ? c.f != 0 : c.u != 0};
    if (from_float) return to_float ? cell_wrap(to, c) : cell_float_to_int(to, c.f);
    return to_float ? cell_int_to_float(from, to, c) : cell_wrap(to, c);
}

enum { F32_MANTISSA = 23, F32_INFINITY = 0x7f800000 };

uint64_t cell_bits(Elem e, Cell c) {
    if (!elem_is(e, EC_FLOAT)) return low_bits(e, c.u);
    if (e == EL_F64) return c.u;
    if (e != EL_F32) return format_encode(&formats[e], c.f);
    if (isnan(c.f))
        return U(signbit(c.f) != 0) << 31 | F32_INFINITY | nan_mantissa(F32_MANTISSA, c.f);
    float f = (float)c.f;
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    return bits;
}

Cell cell_from_bits(Elem e, uint64_t bits) {
    if (!elem_is(e, EC_FLOAT)) return cell_wrap(e, (Cell){.u = bits});
    if (e == EL_F64) return (Cell){.u = bits};
    if (e != EL_F32) return (Cell){.f = format_decode(&formats[e], bits)};
    uint32_t narrow = (uint32_t)bits;
    float f;
    memcpy(&f, &narrow, sizeof f);
    if (isnan(f)) {
        double x = nan_of(F32_MANTISSA, narrow & ((U(1) << F32_MANTISSA) - 1));
        return (Cell){.f = narrow >> 31 ? -x : x};
    }
    return (Cell){.f = (double)f};
}

/// The byte of a 4-bit element; the low half comes first. Rounds towards minus infinity.
static int64_t nibble_byte(int64_t offset) {
    return offset >> 1;
}

Cell cell_load(Elem e, const void *base, int64_t offset) {
    const unsigned char *p = base;
    if (elem_info[e].bits == 4)
        return cell_from_bits(e, p[nibble_byte(offset)] >> (offset & 1) * 4 & 15);
    uint64_t bits = 0;
    int bytes = elem_info[e].bits / 8;
    memcpy(&bits, p + offset * bytes, (size_t)bytes); // little-endian hosts only
    return e == EL_BOOL ? (Cell){.u = bits != 0} : cell_from_bits(e, bits);
}

void cell_store(Elem e, void *base, int64_t offset, Cell c) {
    unsigned char *p = base;
    uint64_t bits = cell_bits(e, c);
    if (elem_info[e].bits == 4) {
        unsigned char *byte = p + nibble_byte(offset);
        int shift = (int)(offset & 1) * 4;
        *byte = (unsigned char)((*byte & ~(15 << shift)) | (int)bits << shift);
        return;
    }
    int bytes = elem_info[e].bits / 8;
    memcpy(p + offset * bytes, &bits, (size_t)bytes);
}

Cell cell_of_attr(Elem e, const Attr *a) {
    if (a->kind == AT_FLOAT) return cell_wrap(e, (Cell){.f = a->f});
    return elem_is(e, EC_FLOAT) ? cell_wrap(e, (Cell){.f = (double)a->i})
                                : cell_wrap(e, (Cell){.i = a->i});
}

const Attr *attr_of_cell(Ir *ir, Elem e, Cell c) {
    return elem_is(e, EC_FLOAT) ? at_float(ir, c.f)
           : e == EL_BOOL       ? at_bool(ir, c.u != 0)
                                : at_int(ir, c.i);
}

bool cell_equal(Elem e, Cell a, Cell b) {
    return elem_is(e, EC_FLOAT) ? a.f == b.f || (isnan(a.f) && isnan(b.f)) : a.u == b.u;
}

char *cell_text(Ctx *ctx, Elem e, Cell c) {
    if (e == EL_BOOL) return ctx_format(ctx, "%s", c.u ? "true" : "false");
    if (elem_is(e, EC_FLOAT) && isnan(c.f)) return ctx_format(ctx, "nan"); // of either sign
    if (elem_is(e, EC_FLOAT)) return ctx_format(ctx, "%.*g", e == EL_F64 ? 17 : 9, c.f);
    return elem_is(e, EC_SINT) ? ctx_format(ctx, "%lld", (long long)c.i)
                               : ctx_format(ctx, "%llu", (unsigned long long)c.u);
}
