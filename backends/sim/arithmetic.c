// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Conversions are bit-exact. Approximations are computed in double and rounded, so they are more
// accurate than any device's.
#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "backends/gpu/gpu.h"
#include "backends/sim/machine.h"
#include "ir/eval.h"

/* ---- approximations ------------------------------------------------------------------------ */

static double reciprocal_of(double x) {
    return 1 / x;
}
static double reciprocal_sqrt(double x) {
    return 1 / sqrt(x);
}

static const struct {
    const char *name;
    double (*function)(double x);
} approximations[] = {
    {"ex2", exp2},  {"lg2", log2}, {"rcp", reciprocal_of}, {"rsqrt", reciprocal_sqrt},
    {"tanh", tanh}, {"sin", sin},  {"cos", cos},           {"sqrt", sqrt},
};

void prepare_approx(Prepare *p, const Fn *fn, SimSite *site) {
    const char *name = fn_capture(fn, 'o');
    for (size_t i = 0; i < sizeof approximations / sizeof *approximations; i++)
        if (strcmp(approximations[i].name, name) == 0) {
            site->number_of['o' - 'a'] = (int)i;
            site->number_of['z' - 'a'] = strstr(site->name, ".ftz") != NULL;
            return;
        }
    ice(p->ctx, (Loc){0}, "the simulator does not know %s.approx", name);
}

/// Flushes subnormal numbers to 0.
static float flushed_f32(float x) {
    return fabsf(x) < 0x1p-126f ? copysignf(0, x) : x;
}

void handle_approx(SimLane *lane, const SimSite *site, char *frame) {
    float x = OPERAND(float, frame, site, 0);
    bool flush = site_number(site, 'z');
    (void)lane;
    x = (float)approximations[site_number(site, 'o')].function(
        (double)(flush ? flushed_f32(x) : x));
    RESULT(float, frame, site) = flush ? flushed_f32(x) : x;
}

/* ---- small floats -------------------------------------------------------------------------- */

/// Rounds the f32 x to a narrower format, to nearest, ties to even. The format has `exponent` bits
/// with bias 2^(exponent-1)-1, and `mantissa` bits. Overflow gives the pattern after the largest
/// finite one.
static uint32_t round_f32_to(float x, int exponent, int mantissa) {
    uint32_t u = bits_of_float(x), sign = u >> 31 << (exponent + mantissa), m = u & 0x7fffff;
    int e = (int)(u >> 23 & 255) - 127, bias = (1 << (exponent - 1)) - 1, drop = 23 - mantissa;
    if (!(u << 1)) return sign;
    if (e == -127)
        e = -126;
    else
        m |= 0x800000;
    // A subnormal result has the exponent of the smallest normal number, and loses more bits.
    if (e < 1 - bias) {
        drop += 1 - bias - e;
        e = 1 - bias;
        if (drop > 25) drop = 25;
    }
    uint32_t low = m & (((uint32_t)1 << drop) - 1), half = (uint32_t)1 << (drop - 1);
    m >>= drop;
    m += low > half || (low == half && (m & 1));
    // A carry into the next exponent is correct. Without the hidden bit the result is subnormal.
    uint32_t r = m >> mantissa ? ((uint32_t)(e + bias - 1) << mantissa) + m : m;
    uint32_t limit = (uint32_t)1 << (exponent + mantissa);
    return sign | (r < limit ? r : limit - 1);
}

uint16_t encode_f16(float x) {
    if (x != x) return 0x7fff;
    uint32_t r = round_f32_to(x, 5, 10), sign = r & 0x8000;
    return (uint16_t)((r & 0x7fff) >= 0x7c00 ? sign | 0x7c00 : r);
}

uint16_t encode_bf16(float x) {
    uint32_t u = bits_of_float(x);
    if (x != x) return 0x7fff;
    return (uint16_t)((u + 0x7fff + (u >> 16 & 1)) >> 16);
}

uint8_t encode_f8(Elem elem, float x) {
    bool e4m3 = elem == EL_F8E4M3;
    uint32_t largest = e4m3 ? 0x7e : 0x7b;
    if (x != x) return 0x7f;
    uint32_t r = e4m3 ? round_f32_to(x, 4, 3) : round_f32_to(x, 5, 2);
    if ((r & 0x7f) > largest) r = (r & 0x80) | largest;
    return (uint8_t)r;
}

static float decode_f8(Elem elem, uint8_t bits) {
    float sign = bits & 0x80 ? -1.0f : 1.0f;
    if (elem == EL_F8E5M2) return decode_f16((uint16_t)(bits << 8));
    if ((bits & 0x7f) == 0x7f) return sign * NAN;
    int e = bits >> 3 & 15, m = bits & 7;
    return sign * (e ? ldexpf((float)(8 + m), e - 10) : ldexpf((float)m, -9));
}

float decode_float(Elem elem, uint32_t bits) {
    switch (elem) {
    case EL_F16: return decode_f16((uint16_t)bits);
    case EL_BF16: return decode_bf16((uint16_t)bits);
    case EL_F8E4M3:
    case EL_F8E5M2: return decode_f8(elem, (uint8_t)bits);
    default: return float_of(bits);
    }
}

/* ---- conversions --------------------------------------------------------------------------- */

/// Reads the type from the function's name.
void prepare_cvt(Prepare *p, const Fn *fn, SimSite *site) {
    const char *name = fn_capture(fn, 't');
    site->elem[0] = strstr(name, "e4m3")   ? EL_F8E4M3
                    : strstr(name, "e5m2") ? EL_F8E5M2
                                           : elem_by_name(name);
    if (site->elem[0] == EL_COUNT) ice(p->ctx, (Loc){0}, "the simulator does not know %s", name);
}

void handle_cvt_bf16(SimLane *lane, const SimSite *site, char *frame) {
    (void)lane;
    RESULT(uint16_t, frame, site) = encode_bf16(OPERAND(float, frame, site, 0));
}

void handle_cvt_f32_bf16(SimLane *lane, const SimSite *site, char *frame) {
    (void)lane;
    RESULT(float, frame, site) = decode_bf16(OPERAND(uint16_t, frame, site, 0));
}

static uint32_t encode_16(Elem elem, float x) {
    return elem == EL_F16 ? encode_f16(x) : encode_bf16(x);
}

/// The first operand goes to the lower half.
void handle_cvt_x2(SimLane *lane, const SimSite *site, char *frame) {
    uint32_t low = encode_16(site->elem[0], OPERAND(float, frame, site, 0));
    (void)lane;
    RESULT(uint32_t, frame, site) = low | encode_16(site->elem[0], OPERAND(float, frame, site, 1))
                                              << 16;
}

/// Rounds to nearest, ties away from zero.
void handle_cvt_tf32(SimLane *lane, const SimSite *site, char *frame) {
    uint32_t u = bits_of_float(OPERAND(float, frame, site, 0));
    (void)lane;
    if ((u & 0x7f800000) != 0x7f800000)
        u = (u + 0x1000) & 0xffffe000;
    else if (u & 0x7fffff)
        u = 0x7fffffff;
    RESULT(uint32_t, frame, site) = u;
}

void handle_cvt_f8x2(SimLane *lane, const SimSite *site, char *frame) {
    uint32_t low = encode_f8(site->elem[0], OPERAND(float, frame, site, 0));
    (void)lane;
    RESULT(uint16_t, frame, site) =
        (uint16_t)(low | (uint32_t)encode_f8(site->elem[0], OPERAND(float, frame, site, 1)) << 8);
}

void handle_cvt_f16x2_f8x2(SimLane *lane, const SimSite *site, char *frame) {
    uint16_t two = OPERAND(uint16_t, frame, site, 0);
    uint32_t low = encode_f16(decode_f8(site->elem[0], (uint8_t)two));
    (void)lane;
    RESULT(uint32_t, frame, site) =
        low | (uint32_t)encode_f16(decode_f8(site->elem[0], (uint8_t)(two >> 8))) << 16;
}

/* ---- integers ------------------------------------------------------------------------------ */

/// Reads signedness and width from the function's name: s32, u32, s64, u64, b32 or b64, and the
/// source type of a conversion.
void prepare_int(Prepare *p, const Fn *fn, SimSite *site) {
    const char *type = fn_capture(fn, 't'), *from = fn_capture(fn, 's');
    (void)p;
    site->number_of['u' - 'a'] = *type != 's';
    site->bytes = atoi(type + 1) / 8;
    site->number_of['d' - 'a'] = from && strcmp(from, "f64") == 0;
}

/// Truncates and saturates. NaN gives 0, or 2^63 in 64 bits.
static uint64_t to_int(double x, bool is_unsigned, int bytes) {
    double low = is_unsigned ? 0 : bytes == 8 ? -0x1p63 : -0x1p31;
    double high = bytes == 8 ? (is_unsigned ? 0x1p64 : 0x1p63) : (is_unsigned ? 0x1p32 : 0x1p31);
    if (x != x) return bytes == 8 ? (uint64_t)1 << 63 : 0;
    if (x <= low) return is_unsigned ? 0 : bytes == 8 ? (uint64_t)1 << 63 : (uint64_t)1 << 31;
    if (x >= high) return is_unsigned ? UINT64_MAX : bytes == 8 ? INT64_MAX : INT32_MAX;
    return is_unsigned ? (uint64_t)x : (uint64_t)(int64_t)x;
}

void handle_cvt_int(SimLane *lane, const SimSite *site, char *frame) {
    double x = site_number(site, 'd') ? OPERAND(double, frame, site, 0)
                                      : (double)OPERAND(float, frame, site, 0);
    uint64_t r = to_int(x, site_number(site, 'u'), site->bytes);
    (void)lane;
    memcpy(frame + site->result_at, &r, (size_t)site->bytes);
}

void handle_mulhi(SimLane *lane, const SimSite *site, char *frame) {
    uint64_t x = OPERAND(uint64_t, frame, site, 0), y = OPERAND(uint64_t, frame, site, 1);
    uint64_t x0 = (uint32_t)x, x1 = x >> 32, y0 = (uint32_t)y, y1 = y >> 32;
    uint64_t middle = x1 * y0 + (x0 * y0 >> 32), low = x0 * y1 + (uint32_t)middle;
    uint64_t high = x1 * y1 + (middle >> 32) + (low >> 32);
    (void)lane;
    if (!site_number(site, 'u')) high -= (x >> 63 ? y : 0) + (y >> 63 ? x : 0);
    RESULT(uint64_t, frame, site) = high;
}

void handle_ctz(SimLane *lane, const SimSite *site, char *frame) {
    uint64_t x = 0;
    (void)lane;
    memcpy(&x, frame + site->at[0], (size_t)site->bytes);
    RESULT(int32_t, frame, site) = x ? __builtin_ctzll(x) : 8 * site->bytes;
}

void handle_renew(SimLane *lane, const SimSite *site, char *frame) {
    (void)lane;
    RESULT(uint32_t, frame, site) = OPERAND(uint32_t, frame, site, 0);
}

/// The simulator has no cache, so the policy has no effect.
void handle_policy(SimLane *lane, const SimSite *site, char *frame) {
    (void)lane;
    RESULT(uint64_t, frame, site) = 0;
}

/// The host's time, later at each call.
void handle_clock(SimLane *lane, const SimSite *site, char *frame) {
    static _Atomic int64_t last;
    (void)lane;
    int64_t now = (int64_t)(gpu_seconds() * 1e9), before = atomic_load(&last);
    do {
        if (now <= before) now = before + 1;
    } while (!atomic_compare_exchange_weak(&last, &before, now));
    RESULT(uint64_t, frame, site) = (uint64_t)now;
}

/* ---- two in a register --------------------------------------------------------------------- */

/// Rounds to odd: the last bit records any loss, so that a second rounding to fewer bits is
/// correct.
static float round_to_odd(double x) {
    float f = (float)x;
    uint32_t u = bits_of_float(f);
    if (x != x || (double)f == x || (u & 0x7fffffff) == 0x7f800000) return f;
    if (fabs((double)f) > fabs(x)) u--;
    return float_of(u | 1);
}

void handle_fma_bf16(SimLane *lane, const SimSite *site, char *frame) {
    int n = strstr(site->name, "x2") ? 2 : 1;
    (void)lane;
    for (int i = 0; i < n; i++) {
        double v[3];
        for (int k = 0; k < 3; k++)
            v[k] = (double)decode_bf16(((uint16_t *)(void *)(frame + site->at[k]))[i]);
        ((uint16_t *)(void *)(frame + site->result_at))[i] =
            encode_bf16(round_to_odd(fma_to_odd(v[0], v[1], v[2])));
    }
}

void prepare_minmax(Prepare *p, const Fn *fn, SimSite *site) {
    prepare_cvt(p, fn, site);
    site->number_of['o' - 'a'] = strcmp(fn_capture(fn, 'o'), "max") == 0;
}

/// Minimum or maximum. A number wins over a NaN, and -0 is less than 0.
static uint16_t minmax_halves(Elem elem, bool max, uint16_t x, uint16_t y) {
    float a = decode_float(elem, x), b = decode_float(elem, y);
    if (a != a) return b != b ? 0x7fff : y;
    if (b != b) return x;
    if (a == b) return max ? x & y : x | y;
    return (a > b) == max ? x : y;
}

void handle_minmax_x2(SimLane *lane, const SimSite *site, char *frame) {
    uint16_t x[2], y[2];
    (void)lane;
    memcpy(x, frame + site->at[0], 4);
    memcpy(y, frame + site->at[1], 4);
    for (int i = 0; i < 2; i++)
        x[i] = minmax_halves(site->elem[0], site_number(site, 'o'), x[i], y[i]);
    memcpy(frame + site->result_at, x, 4);
}
