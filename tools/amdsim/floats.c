// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "tools/amdsim/floats.h"

#include <math.h>

enum { DROPPED = 52 - 10, REBIAS = 1023 - 15 }; // between f64 and f16

u64 f16_bits(f64 x) {
    u64 bits = f64_bits(x), sign = bits >> 48 & 0x8000, size = bits << 1 >> 1;
    f64 a = fabs(x);
    if (isnan(x)) return sign | 0x7e00 | (size >> DROPPED & 0x3ff);
    if (a >= 65520) return sign | 0x7c00;
    if (a < 0x1p-14) return sign | (u64)rint(a * 0x1p24);
    size += (1ull << (DROPPED - 1)) - 1 + (size >> DROPPED & 1);
    return sign | ((size >> DROPPED) - ((u64)REBIAS << 10));
}

f64 f16_of(u64 bits) {
    u64 sign = (bits & 0x8000) << 48, e = bits >> 10 & 31, m = bits & 0x3ff;
    if (!e) return f64_of(sign | f64_bits((f64)m * 0x1p-24));
    if (e == 31) return f64_of(sign | 0x7ffull << 52 | m << DROPPED);
    return f64_of(sign | (e + REBIAS) << 52 | m << DROPPED);
}

u32 f16_toward_zero(f32 x) {
    u32 nearest = (u32)f16_bits(x);
    return fabs(f16_of(nearest)) > fabsf(x) ? nearest - 1 : nearest;
}

static int f8_mantissa_bits(F8 form) {
    return form.e5 ? 2 : 3;
}
static int f8_bias(F8 form) {
    return (form.e5 ? 15 : 7) + form.fnuz;
}

f32 f8_of(u32 bits, F8 form) {
    u32 m = f8_mantissa_bits(form), fraction = bits & ((1u << m) - 1), size = bits & 127,
        e = size >> m;
    f32 sign = bits & 128 ? -1 : 1;
    if (form.fnuz && (bits & 255) == 128) return NAN;
    if (!form.fnuz && !form.e5 && size == 127) return NAN;
    if (!form.fnuz && form.e5 && e == 31) return fraction ? NAN : sign * INFINITY;
    f32 value = ldexpf((f32)fraction, -(int)m) + (e ? 1 : 0);
    return sign * ldexpf(value, (e ? (int)e : 1) - f8_bias(form));
}

u32 f8_bits(f32 x, F8 form) {
    f32 most = form.e5 ? 57344 : form.fnuz ? 240 : 448, a = fminf(fabsf(x), most);
    int e, m = f8_mantissa_bits(form), least = 1 - f8_bias(form);
    if (isnan(x)) return form.fnuz ? 128 : 127;
    frexpf(a, &e);
    e = a == 0 || e - 1 < least ? least : e - 1;
    u32 code = (u32)rintf(ldexpf(a, m - e)) + ((u32)(e - least) << m);
    return form.fnuz && !code ? 0 : code | (signbit(x) ? 128 : 0);
}

f64 least(f64 a, f64 b) {
    if (isnan(a) || isnan(b)) return isnan(a) ? b : a;
    return a < b || (a == b && signbit(a)) ? a : b;
}

f64 greatest(f64 a, f64 b) {
    if (isnan(a) || isnan(b)) return isnan(a) ? b : a;
    return a > b || (a == b && !signbit(a)) ? a : b;
}
