// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Vector arithmetic: the rows of valu.def, and pairs of them (v_dual_*).
#include <math.h>
#include <stdio.h>

#include "tools/amdsim/bits.h"
#include "tools/amdsim/machine.h"

/* ---- notation of rows ----------------------------------------------------------------------- */

/// v_exp_f32 and v_log_f32 flush subnormal sources and results.
static f32 flush_subnormal(f32 x) {
    return fabsf(x) < 0x1p-126f ? copysignf(0, x) : x;
}

/// Truncates toward zero and saturates; NaN gives 0.
static i64 to_integer(f64 x, i64 low, i64 high) {
    return isnan(x) ? 0 : x <= (f64)low ? low : x >= (f64)high ? high : (i64)x;
}

static f64 fraction(f64 x) {
    int e;
    return frexp(x, &e);
}
static int exponent(f64 x) {
    int e = 0;
    if (x != 0 && isfinite(x)) frexp(x, &e);
    return e;
}

/// The last step of a division, v_div_fixup: special values, and the sign of C / B.
static f64 fixed_quotient(f64 q, f64 b, f64 c) {
    f64 sign = !signbit(b) == !signbit(c) ? 1 : -1;
    if (isnan(c)) return c;
    if (isnan(b)) return b;
    if ((b == 0 && c == 0) || (isinf(b) && isinf(c))) return NAN;
    if (b == 0 || isinf(c)) return sign * INFINITY;
    if (isinf(b) || c == 0) return sign * 0.0;
    return sign * (isnan(q) ? INFINITY : fabs(q));
}

/// Undoes the scale of v_div_scale.
static f32 scaled_fma(f32 a, f32 b, f32 c, bool scaled) {
    f32 d = fmaf(a, b, c);
    return scaled ? ldexpf(d, (f32_bits(c) >> 23 & 255) > 127 ? 64 : -64) : d;
}
static f64 scaled_fma64(f64 a, f64 b, f64 c, bool scaled) {
    f64 d = fma(a, b, c);
    return scaled ? ldexp(d, (f64_bits(c) >> 52 & 2047) > 1023 ? 128 : -128) : d;
}

/// v_perm: each byte of the selector chooses a byte of B:A, the sign of a half, 0 or 255.
static u32 permuted(u32 a, u32 b, u32 selector) {
    u64 both = (u64)a << 32 | b;
    u32 r = 0;
    for (int n = 0; n < 4; n++) {
        u32 k = selector >> 8 * n & 255, byte = k == 12 ? 0 : 255;
        if (k < 8) byte = both >> 8 * k & 255;
        if (k >= 8 && k < 12) byte = both >> (16 * (k - 8) + 15) & 1 ? 255 : 0;
        r |= byte << 8 * n;
    }
    return r;
}

static i32 dot4(u32 a, u32 b, i32 c, bool a_signed, bool b_signed) {
    i64 sum = c;
    for (int n = 0; n < 32; n += 8)
        sum += (a_signed ? (i8)(a >> n) : (i32)(u8)(a >> n)) *
               (b_signed ? (i8)(b >> n) : (i32)(u8)(b >> n));
    return (i32)sum;
}

/// For add, sub and mad of integers.
#define SATURATE(X, LOW, HIGH) (i->clamp ? clamped_to(X, LOW, HIGH) : (X))

/* ---- rows ----------------------------------------------------------------------------------- */

typedef int none;
typedef f64 f16;
typedef u16 b16;
typedef u32 b32;
typedef u64 b64;
#define READ_none(X) 0
#define READ_f16(X)  f16_of(X)
#define READ_f32(X)  f32_of(X)
#define READ_f64(X)  f64_of(X)
#define READ_u16(X)  ((u16)(X))
#define READ_i16(X)  ((i16)(X))
#define READ_b16(X)  ((u16)(X))
#define READ_u32(X)  ((u32)(X))
#define READ_i32(X)  ((i32)(X))
#define READ_b32(X)  ((u32)(X))
#define READ_u64(X)  (X)
#define READ_i64(X)  ((i64)(X))
#define READ_b64(X)  (X)
#define BITS_f16(X)  f16_bits(X)
#define BITS_f32(X)  f32_bits(X)
#define BITS_f64(X)  f64_bits(X)
#define BITS_u16(X)  (X)
#define BITS_i16(X)  ((u16)(X))
#define BITS_b16(X)  (X)
#define BITS_u32(X)  (X)
#define BITS_i32(X)  ((u32)(X))
#define BITS_b32(X)  (X)
#define BITS_u64(X)  (X)
#define BITS_i64(X)  ((u64)(X))
#define BITS_b64(X)  (X)

#define VALU(NAME, DTYPE, ATYPE, BTYPE, CTYPE, CODE)                                               \
    static void NAME(const Wave *w, const Inst *i, const Values *source, Values *out, u64 mask) {  \
        (void)i;                                                                                   \
        for (int lane = 0; lane < w->lanes; lane++) {                                              \
            if (!is_on(mask, lane)) continue;                                                      \
            ATYPE A = READ_##ATYPE(source[0].of[lane]);                                            \
            BTYPE B = READ_##BTYPE(source[1].of[lane]);                                            \
            CTYPE C = READ_##CTYPE(source[2].of[lane]);                                            \
            DTYPE D;                                                                               \
            (void)B, (void)C;                                                                      \
            CODE;                                                                                  \
            out->of[lane] = BITS_##DTYPE(D);                                                       \
        }                                                                                          \
    }
#include "tools/amdsim/valu.def"

#define VALU(NAME, DTYPE, ATYPE, BTYPE, CTYPE, CODE)                                               \
    {#NAME, T_##DTYPE, {T_##ATYPE, T_##BTYPE, T_##CTYPE}, 1 + !!T_##BTYPE + !!T_##CTYPE, NAME},
static const VectorOp rows[] = {
#include "tools/amdsim/valu.def"
};

/* ---- running -------------------------------------------------------------------------------- */

/// Returns the lanes that are written.
static u64 compute_vector_row(const Wave *w, const Inst *i, Values *out) {
    const VectorOp *row = i->row;
    Values source[3];
    u64 mask = exec_mask(w);
    for (int k = 0; k < row->sources; k++) mask &= gather(w, i, 1, k, row->source[k], &source[k]);
    row->compute(w, i, source, out, mask);
    return mask;
}

static void run_vector_row(Wave *w, const Inst *i) {
    const VectorOp *row = i->row;
    Values out;
    u64 mask = compute_vector_row(w, i, &out);
    scatter(w, i, &i->o[0], row->result, &out, mask);
}

/// The bits of VCC choose between the half's two sources.
static u64 choose_by_vcc(const Wave *w, const Inst *i, Values *out) {
    Values other;
    u64 mask = gather(w, i, 1, 0, T_b32, out), vcc = vcc_mask(w);
    gather(w, i, 1, 1, T_b32, &other);
    for (int l = 0; l < w->lanes; l++)
        if (is_on(vcc & mask, l)) out->of[l] = other.of[l];
    return mask;
}

/// Both halves read before either writes.
static void run_pair(Wave *w, const Inst *i) {
    const Inst *half[2] = {i, i->pair};
    Values out[2];
    u64 mask[2];
    for (int k = 0; k < 2; k++)
        mask[k] = (half[k]->row ? compute_vector_row : choose_by_vcc)(w, half[k], &out[k]);
    for (int k = 0; k < 2; k++) scatter(w, half[k], &half[k]->o[0], T_b32, &out[k], mask[k]);
}

/* ---- decoding ------------------------------------------------------------------------------- */

/// Instructions whose third source is their result (`adds`) or a constant, with the row that they
/// use.
static const struct {
    const char *prefix, *row;
    bool adds;
} forms[] = {
    {"v_fmac_", "v_fma_", true},   {"v_fmamk_", "v_fma_", false}, {"v_fmaak_", "v_fma_", false},
    {"v_mac_", "v_mad_", true},    {"v_madmk_", "v_mad_", false}, {"v_madak_", "v_mad_", false},
    {"v_dot4c_", "v_dot4_", true}, {"v_dot2c_", "v_dot2_", true}, {"v_dot2acc_", "v_dot2_", true},
};

/// v_fmamk is A * constant + B. The constant is the second operand, as in v_fma.
static void add_result_operand(Inst *i) {
    i->o[3] = i->o[0];
    i->o[3].neg = i->o[3].abs = false;
    if (i->has_op_sel) i->op_sel = (i->op_sel & 7) | (i->op_sel << 1 & 8);
}

static const VectorOp *find_row(Inst *i) {
    char name[2 * sizeof i->name];
    snprintf(name, sizeof name, "%s", i->name);
    for (size_t k = 0; k < sizeof forms / sizeof *forms; k++) {
        if (!starts(i->name, forms[k].prefix)) continue;
        snprintf(name, sizeof name, "%s%s", forms[k].row, i->name + strlen(forms[k].prefix));
        if (forms[k].adds) add_result_operand(i);
        break;
    }
    for (size_t k = 0; k < sizeof rows / sizeof *rows; k++)
        if (!strcmp(name, rows[k].name)) return &rows[k];
    return NULL;
}

static bool decode_half(Inst *i) {
    const VectorOp *row = find_row(i);
    i->row = row;
    i->sources = row ? row->sources : 0;
    return row || !strcmp(i->name, "v_cndmask_b32");
}

bool decode_vector(Wave *w, Inst *i) {
    if (!decode_half(i) || (!i->row && !i->pair)) return false;
    if (i->pair && !decode_half(i->pair))
        fail(w, i, AMDSIM_UNKNOWN, "its second half is not emulated");
    i->run = i->pair ? run_pair : run_vector_row;
    return true;
}
