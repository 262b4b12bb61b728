// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// See portable_arith_rows.h. The semantics follow the PTX ISA, with the oracle's conversions.
#include "tests/unit/portable_arith_rows.h"

#include <math.h>
#include <stddef.h>
#include <string.h>

#include "ir/eval.h"

double arith_bend;

/* ---- approximations ------------------------------------------------------------------------ */

static float flush(float x) {
    return fabsf(x) < 0x1p-126f ? copysignf(0, x) : x;
}
static float ex2(float x) {
    return (float)(exp2((double)x) * (1 + arith_bend * 0x1.6ap-23));
}
static float ex2_ftz(float x) {
    return flush(ex2(flush(x)));
}
static float lg2(float x) {
    double y = log2((double)x), error = arith_bend * 0x1p-22;
    return (float)(x >= 0.5f && x <= 2 ? y + error : y * (1 + error));
}
static float rsqrt(float x) {
    return (float)(1 / sqrt((double)x) * (1 + arith_bend * 0x1.12p-23));
}
static float tanh_(float x) {
    return (float)(tanh((double)x) * (1 + arith_bend * 0x1p-11));
}

/* ---- conversions --------------------------------------------------------------------------- */

static uint64_t bits_of(Elem e, double x) {
    return cell_bits(e, cell_wrap(e, (Cell){.f = x}));
}
static double value_of(Elem e, uint64_t bits) {
    return cell_from_bits(e, bits).f;
}
static uint16_t to_bf16(float x) {
    return isnan(x) ? 0x7fff : (uint16_t)bits_of(EL_BF16, (double)x);
}
static uint32_t to_f16x2(float x, float y) {
    return (uint32_t)(bits_of(EL_F16, (double)x) | bits_of(EL_F16, (double)y) << 16);
}
static uint32_t to_bf16x2(float x, float y) {
    return to_bf16(x) | (uint32_t)to_bf16(y) << 16;
}
static uint16_t to_e4m3x2(float x, float y) {
    return (uint16_t)(bits_of(EL_F8E4M3, (double)x) | bits_of(EL_F8E4M3, (double)y) << 8);
}
static uint16_t to_e5m2x2(float x, float y) {
    return (uint16_t)(bits_of(EL_F8E5M2, (double)x) | bits_of(EL_F8E5M2, (double)y) << 8);
}
static uint32_t from_e4m3x2(uint16_t v) {
    return (uint32_t)(bits_of(EL_F16, value_of(EL_F8E4M3, v & 255)) |
                      bits_of(EL_F16, value_of(EL_F8E4M3, v >> 8)) << 16);
}
static uint32_t from_e5m2x2(uint16_t v) {
    return (uint32_t)(bits_of(EL_F16, value_of(EL_F8E5M2, v & 255)) |
                      bits_of(EL_F16, value_of(EL_F8E5M2, v >> 8)) << 16);
}

static uint64_t truncated(Elem to, double x, bool wide) {
    if (isnan(x)) return wide ? (uint64_t)1 << 63 : 0;
    return cell_bits(to, cell_cast(EL_F64, to, (Cell){.f = x}));
}
static uint32_t i32_f32(float x) {
    return (uint32_t)truncated(EL_I32, (double)x, false);
}
static uint32_t u32_f32(float x) {
    return (uint32_t)truncated(EL_U32, (double)x, false);
}
static uint64_t i64_f32(float x) {
    return truncated(EL_I64, (double)x, true);
}
static uint64_t u64_f32(float x) {
    return truncated(EL_U64, (double)x, true);
}
static uint32_t i32_f64(double x) {
    return isnan(x) ? (uint32_t)1 << 31 : (uint32_t)truncated(EL_I32, x, true);
}
static uint32_t u32_f64(double x) {
    return isnan(x) ? (uint32_t)1 << 31 : (uint32_t)truncated(EL_U32, x, true);
}
static uint64_t i64_f64(double x) {
    return truncated(EL_I64, x, true);
}
static uint64_t u64_f64(double x) {
    return truncated(EL_U64, x, true);
}

/* ---- arithmetic ---------------------------------------------------------------------------- */

static uint16_t fma_bf16(uint16_t a, uint16_t b, uint16_t c) {
    Cell args[3] = {cell_from_bits(EL_BF16, a), cell_from_bits(EL_BF16, b),
                    cell_from_bits(EL_BF16, c)};
    return (uint16_t)cell_bits(EL_BF16, eval_elementwise(OP_FMA, EL_BF16, args));
}
static uint32_t fma_bf16x2(uint32_t a, uint32_t b, uint32_t c) {
    return fma_bf16((uint16_t)a, (uint16_t)b, (uint16_t)c) |
           (uint32_t)fma_bf16((uint16_t)(a >> 16), (uint16_t)(b >> 16), (uint16_t)(c >> 16)) << 16;
}
static uint32_t lanes(OpCode op, Elem e, uint32_t a, uint32_t b) {
    uint32_t out = 0;
    for (int i = 0; i < 32; i += 16) {
        Cell args[2] = {cell_from_bits(e, a >> i & 0xffff), cell_from_bits(e, b >> i & 0xffff)};
        out |= (uint32_t)cell_bits(e, eval_elementwise(op, e, args)) << i;
    }
    return out;
}
static uint32_t min_bf16x2(uint32_t a, uint32_t b) {
    return lanes(OP_MIN, EL_BF16, a, b);
}
static uint32_t max_bf16x2(uint32_t a, uint32_t b) {
    return lanes(OP_MAX, EL_BF16, a, b);
}
static uint32_t min_f16x2(uint32_t a, uint32_t b) {
    return lanes(OP_MIN, EL_F16, a, b);
}
static uint32_t max_f16x2(uint32_t a, uint32_t b) {
    return lanes(OP_MAX, EL_F16, a, b);
}
static uint64_t mulhi(Elem e, uint64_t a, uint64_t b) {
    Cell args[2] = {{.u = a}, {.u = b}};
    return eval_elementwise(OP_MULHI, e, args).u;
}
static uint64_t mulhi_i64(uint64_t a, uint64_t b) {
    return mulhi(EL_I64, a, b);
}
static uint64_t mulhi_u64(uint64_t a, uint64_t b) {
    return mulhi(EL_U64, a, b);
}
static uint32_t ctz_i32(uint32_t a) {
    return a ? (uint32_t)__builtin_ctz(a) : 32;
}
static uint32_t ctz_i64(uint64_t a) {
    return a ? (uint32_t)__builtin_ctzll(a) : 64;
}

typedef void Any(void);
static const struct {
    const char *name;
    Any *function;
} rows[] = {
    {"tg.ex2.approx", (Any *)ex2},
    {"tg.ex2.approx.ftz", (Any *)ex2_ftz},
    {"tg.lg2.approx", (Any *)lg2},
    {"tg.rsqrt.approx", (Any *)rsqrt},
    {"tg.tanh.approx", (Any *)tanh_},
    {"tg.cvt.bf16.f32", (Any *)to_bf16},
    {"tg.cvt.f16x2.f32", (Any *)to_f16x2},
    {"tg.cvt.bf16x2.f32", (Any *)to_bf16x2},
    {"tg.cvt.f8e4m3x2.f32", (Any *)to_e4m3x2},
    {"tg.cvt.f8e5m2x2.f32", (Any *)to_e5m2x2},
    {"tg.cvt.f16x2.f8e4m3x2", (Any *)from_e4m3x2},
    {"tg.cvt.f16x2.f8e5m2x2", (Any *)from_e5m2x2},
    {"tg.cvt.i32.f32", (Any *)i32_f32},
    {"tg.cvt.u32.f32", (Any *)u32_f32},
    {"tg.cvt.i64.f32", (Any *)i64_f32},
    {"tg.cvt.u64.f32", (Any *)u64_f32},
    {"tg.cvt.i32.f64", (Any *)i32_f64},
    {"tg.cvt.u32.f64", (Any *)u32_f64},
    {"tg.cvt.i64.f64", (Any *)i64_f64},
    {"tg.cvt.u64.f64", (Any *)u64_f64},
    {"tg.fma.bf16", (Any *)fma_bf16},
    {"tg.fma.bf16x2", (Any *)fma_bf16x2},
    {"tg.min.bf16x2", (Any *)min_bf16x2},
    {"tg.max.bf16x2", (Any *)max_bf16x2},
    {"tg.min.f16x2", (Any *)min_f16x2},
    {"tg.max.f16x2", (Any *)max_f16x2},
    {"tg.mulhi.i64", (Any *)mulhi_i64},
    {"tg.mulhi.u64", (Any *)mulhi_u64},
    {"tg.ctz.i32", (Any *)ctz_i32},
    {"tg.ctz.i64", (Any *)ctz_i64},
};

void *arith_row(const char *name) {
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (strcmp(rows[i].name, name) == 0) return (void *)(uintptr_t)rows[i].function;
    return NULL;
}
