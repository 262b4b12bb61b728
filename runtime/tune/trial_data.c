// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The data of trials: random values, and distances between results.
#include "runtime/tune/trial.h"

#include <string.h>

enum {
    CHUNK = 512, // a local array of doubles
    KINDS = 4096,
    STENCIL = 1000003, // a prime number, so no tile has this stride
};

bool rt_is_float(int code) {
    return code == kDLFloat || code == kDLBfloat || code == kDLFloat8_e4m3fn ||
           code == kDLFloat8_e5m2;
}

/* ---- random ones ----------------------------------------------------------------------------- */

static uint64_t next_random_word(uint64_t *state) {
    uint64_t x = *state += 0x9e3779b97f4a7c15u;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

/// The sum of four 16-bit numbers is about normally distributed.
static double random_value(uint64_t *state, bool mild) {
    uint64_t x = next_random_word(state);
    if (mild) return 0.25 + 0.75 * (double)(x >> 32) / 4294967296.0;
    double sum = 0;
    for (int i = 0; i < 4; i++) sum += (double)(x >> 16 * i & 0xffff) - 32767.5;
    return sum / (65536.0 * 0.57735);
}

/// Conversion costs more than a random number. Some thousand values are converted, and each element
/// is one of them.
static void make_floats(void *out, size_t n, int code, int bits, bool mild, uint64_t seed) {
    uint64_t kinds[KINDS], state = seed;
    size_t bytes = (size_t)bits / 8;
    for (int i = 0; i < KINDS; i++)
        kinds[i] = rt_float_bits(code, bits, random_value(&state, mild));
    char *at = out;
    for (size_t i = 0; i < n; i++, at += bytes)
        memcpy(at, &kinds[next_random_word(&state) % KINDS], bytes);
}

static size_t pattern_size(const rt_pattern *p) {
    return p->bits < 8 ? 1 : (size_t)p->bits / 8;
}

size_t rt_pattern_period(const rt_pattern *p) {
    size_t size = pattern_size(p), most = p->n;
    if (rt_is_float(p->code))
        most = STENCIL;
    else if (p->given && p->given_bytes)
        most = p->given_bytes / size;
    return (p->n > most ? most : p->n) * size;
}

void rt_pattern_make(const rt_pattern *p, int fill, void *out) {
    size_t size = pattern_size(p), bytes = rt_pattern_period(p);
    uint64_t seed = p->seed * 131 + (uint64_t)(p->param * RT_FILLS + fill);
    char *s = out;
    if (rt_is_float(p->code)) {
        make_floats(out, bytes / size, p->code, p->bits, p->mild, seed);
        return;
    }
    if (p->given)
        memcpy(s, p->given, bytes);
    else
        memset(s, 0, bytes);
    for (size_t i = 0; fill && i < bytes; i += size) s[i] ^= p->bits < 8 ? 17 : 1;
}

/* ---- as doubles ------------------------------------------------------------------------------ */

static float float_of_bits(uint32_t bits) {
    float f;
    memcpy(&f, &bits, sizeof f);
    return f;
}

/// Decodes a small float: shifts exponent and mantissa into place; the product corrects the bias,
/// for subnormals too. `all` is the exponent of infinities and NaNs, or 256: none.
static double decode_small_float(uint32_t x, int bits, int mantissa, uint32_t all, float factor) {
    uint32_t sign = x >> (bits - 1), rest = x & ((1u << (bits - 1)) - 1);
    float f = float_of_bits(rest << (23 - mantissa)) * factor;
    if (rest >> mantissa == all) f = float_of_bits(0x7f800000u | rest << (23 - mantissa));
    return sign ? -(double)f : (double)f;
}

static double decode_e4m3(uint32_t x) {
    return (x & 0x7f) == 0x7f ? (double)float_of_bits(0x7fc00000u)
                              : decode_small_float(x, 8, 3, 256, 0x1p120F);
}

/// Two steps that compilers vectorise.
static void widen_halves(double *out, const uint16_t *h, size_t n) {
    uint32_t special = 0;
    float f[CHUNK];
    for (size_t i = 0; i < n; i++) {
        special |= (h[i] & 0x7c00) == 0x7c00;
        f[i] = float_of_bits((h[i] & 0x8000u) << 16 | (h[i] & 0x7fffu) << 13);
    }
    for (size_t i = 0; i < n; i++) out[i] = (double)(f[i] * 0x1p112F);
    for (size_t i = 0; special && i < n; i++)
        out[i] = decode_small_float(h[i], 16, 10, 31, 0x1p112F);
}

/// n: at most CHUNK.
static void widen_chunk(double *out, const void *from, size_t n, int code, int bits) {
    const uint8_t *b = from;
    union {
        float single[CHUNK];
        uint16_t half[CHUNK];
    } u;
    if (bits == 64) {
        memcpy(out, b, 8 * n);
    } else if (bits == 32) {
        memcpy(u.single, b, 4 * n);
        for (size_t i = 0; i < n; i++) out[i] = (double)u.single[i];
    } else if (bits == 16) {
        memcpy(u.half, b, 2 * n);
        if (code != kDLBfloat) widen_halves(out, u.half, n);
        for (size_t i = 0; code == kDLBfloat && i < n; i++)
            out[i] = (double)float_of_bits((uint32_t)u.half[i] << 16);
    } else {
        for (size_t i = 0; i < n; i++)
            out[i] = code == kDLFloat8_e4m3fn ? decode_e4m3(b[i])
                                              : decode_small_float(b[i], 8, 2, 31, 0x1p112F);
    }
}

/* ---- comparing ------------------------------------------------------------------------------- */

/// Newton's method, since the runtime needs no libm. It stays above the root from the first step
/// on.
static double newton_root(double x) {
    if (!(x > 0)) return 0;
    double y = x > 1 ? x : 1;
    for (double next; (next = (y + x / y) / 2) < y;) y = next;
    return y;
}

static double magnitude_of(double x) {
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    bits &= ~(1ull << 63);
    memcpy(&x, &bits, sizeof bits);
    return x;
}

static bool is_finite(double x) {
    return x - x == 0;
}

typedef struct SquareSum {
    double sum;
    size_t used, unfinite;
} SquareSum;

/// For n compared floats x; the first is element `at` of the span.
static void add_squares(const rt_buffer *f, const char *x, size_t at, size_t n, SquareSum *s) {
    double a[CHUNK], b[CHUNK];
    size_t bytes = f->bits / 8u, period = f->period / bytes;
    for (size_t from = 0, in = at % period, m; from < n; from += m, in = (in + m) % period) {
        m = n - from < CHUNK ? n - from : CHUNK;
        if (m > period - in) m = period - in;
        widen_chunk(a, x + from * bytes, m, f->code, f->bits);
        widen_chunk(b, f->stencils[0] + in * bytes, m, f->code, f->bits);
        for (size_t i = 0; i < m; i++) {
            bool finite = is_finite(a[i]), counts = finite && a[i] != b[i];
            // Clamps values whose square would overflow.
            double v = !counts ? 0 : a[i] > 1e150 || a[i] < -1e150 ? 1e150 : a[i];
            s->unfinite += !finite;
            s->used += counts;
            s->sum += v * v;
        }
    }
}

double rt_scale(const rt_buffer *f, const char *x, size_t *unfinite) {
    SquareSum s = {0};
    size_t bytes = f->bits / 8u;
    for (size_t i = 0; i < f->pieces; i++)
        add_squares(f, x + i * f->piece, rt_buffer_piece(f, i) / bytes, f->piece / bytes, &s);
    *unfinite = s.unfinite;
    return s.used ? newton_root(s.sum / (double)s.used) : 0;
}

double rt_size(const void *x, size_t n, int code, int bits) {
    double a[CHUNK], sum = 0;
    for (size_t from = 0, m; from < n; from += m) {
        m = n - from < CHUNK ? n - from : CHUNK;
        widen_chunk(a, (const char *)x + from * (size_t)bits / 8, m, code, bits);
        for (size_t i = 0; i < m; i++) sum += a[i] * a[i];
    }
    return n ? newton_root(sum / (double)n) : 0;
}

/// Equal values are near, including infinities, and so are two NaNs. A bound that is not finite is
/// ignored.
static bool is_near_value(double got, double want, double bound) {
    if (got == want || (got != got && want != want)) return true;
    double way = got > want ? got - want : want - got;
    return is_finite(way) && way <= bound;
}

/// Whether all are near, as in most chunks. It has no branches: it collects the sign of the
/// remaining bound, and detects NaNs and infinities by an exponent overflow into the sign.
static bool are_near(const double *a, const double *b, size_t n, rt_bound bound) {
    uint64_t far = 0;
    for (size_t i = 0; i < n; i++) {
        double left =
            bound.absolute + bound.relative * magnitude_of(b[i]) - magnitude_of(a[i] - b[i]);
        uint64_t bits;
        memcpy(&bits, &left, sizeof bits);
        far |= bits | (bits + (1ull << 52));
    }
    return !(far >> 63);
}

static void note_mismatch(rt_difference *d, size_t at, double got, double want) {
    double way = got > want ? got - want : want - got;
    if (!d->count++) {
        d->first = at;
        d->got = got;
        d->want = want;
    }
    if (way > d->most) d->most = way;
}

rt_difference rt_compare(const void *x, const void *reference, size_t n, int code, int bits,
                         rt_bound bound) {
    double a[CHUNK], b[CHUNK];
    size_t bytes = (size_t)bits / 8;
    rt_difference d = {0};
    for (size_t from = 0; from < n; from += CHUNK) {
        size_t m = n - from < CHUNK ? n - from : CHUNK, at = from * bytes;
        if (memcmp((const char *)x + at, (const char *)reference + at, m * bytes) == 0) continue;
        widen_chunk(a, (const char *)x + at, m, code, bits);
        widen_chunk(b, (const char *)reference + at, m, code, bits);
        if (are_near(a, b, m, bound)) continue;
        for (size_t i = 0; i < m; i++) {
            double size = b[i] < 0 ? -b[i] : b[i];
            if (!is_near_value(a[i], b[i], bound.absolute + bound.relative * size))
                note_mismatch(&d, from + i, a[i], b[i]);
        }
    }
    return d;
}

rt_difference rt_compare_bytes(const void *x, const void *reference, size_t n, size_t size) {
    const char *a = x, *b = reference;
    rt_difference d = {0};
    if (memcmp(a, b, n * size) == 0) return d;
    for (size_t i = 0; i < n; i++)
        if (memcmp(a + i * size, b + i * size, size) != 0)
            note_mismatch(&d, i, a[i * size], b[i * size]);
    return d;
}
