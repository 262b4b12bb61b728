// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Arithmetic without an instruction on a CPU's lowest level, with the same bits as the instruction:
// f16 conversions, rounding to integers, f32 fma.
#include "backends/llvm/llvm.h"

static LLVMTypeRef lanes_like(LLVMTypeRef scalar, LLVMValueRef v) {
    return gen_vec(scalar, gen_lanes(v));
}
static LLVMValueRef bits_like(const Gen *g, LLVMValueRef v, uint32_t n) {
    return gen_same(LLVMConstInt(g->i32, n, false), gen_lanes(v));
}
static LLVMValueRef real_vector_like(LLVMValueRef v, double x) {
    return gen_same(LLVMConstReal(gen_lane_type(v), x), gen_lanes(v));
}
static LLVMValueRef as_bits(const Gen *g, LLVMValueRef v) {
    return LLVMBuildBitCast(g->b, v, lanes_like(g->i32, v), "");
}
static LLVMValueRef as_f32(const Gen *g, LLVMValueRef v) {
    return LLVMBuildBitCast(g->b, v, lanes_like(g->f32, v), "");
}

/* ---- f16 ----------------------------------------------------------------------------------- */

// The shifted exponent and mantissa are the number times 2^-112, including subnormals. Infinity and
// NaN get the greatest exponent, and NaN becomes quiet.
LLVMValueRef soft_half_widen(const Gen *g, LLVMValueRef v) {
    LLVMBuilderRef b = g->b;
    LLVMValueRef half = LLVMBuildBitCast(b, v, lanes_like(g->i16, v), "");
    LLVMValueRef bits = LLVMBuildZExt(b, half, lanes_like(g->i32, v), "");
    LLVMValueRef sign = LLVMBuildShl(b, LLVMBuildAnd(b, bits, bits_like(g, v, 0x8000), ""),
                                     bits_like(g, v, 16), "");
    LLVMValueRef size = LLVMBuildShl(b, LLVMBuildAnd(b, bits, bits_like(g, v, 0x7fff), ""),
                                     bits_like(g, v, 13), "");
    LLVMValueRef f = as_f32(g, size);
    LLVMValueRef finite = as_bits(g, LLVMBuildFMul(b, f, real_vector_like(f, 0x1p112), ""));
    LLVMValueRef inf = bits_like(g, v, 0x7c00u << 13);
    LLVMValueRef special =
        LLVMBuildSelect(b, LLVMBuildICmp(b, LLVMIntUGT, size, inf, ""), bits_like(g, v, 0x7fc00000),
                        bits_like(g, v, 0x7f800000), "");
    special = LLVMBuildOr(b, finite, special, "");
    LLVMValueRef out =
        LLVMBuildSelect(b, LLVMBuildICmp(b, LLVMIntUGE, size, inf, ""), special, finite, "");
    return as_f32(g, LLVMBuildOr(b, out, sign, ""));
}

/// Normal numbers: the bits of f32, rounded to even at f16's last place, rebiased.
static LLVMValueRef half_normal(const Gen *g, LLVMValueRef size) {
    LLVMBuilderRef b = g->b;
    LLVMValueRef shift = bits_like(g, size, 13);
    LLVMValueRef odd =
        LLVMBuildAnd(b, LLVMBuildLShr(b, size, shift, ""), bits_like(g, size, 1), "");
    LLVMValueRef sum =
        LLVMBuildAdd(b, LLVMBuildAdd(b, size, odd, ""), bits_like(g, size, 0xfff), "");
    return LLVMBuildSub(b, LLVMBuildLShr(b, sum, shift, ""), bits_like(g, size, 112u << 10), "");
}

// Subnormal: adding 1/2 leaves the rounded multiple of 2^-24 in the low bits of the sum.
LLVMValueRef soft_half_narrow(const Gen *g, LLVMValueRef v) {
    LLVMBuilderRef b = g->b;
    LLVMValueRef bits = as_bits(g, v);
    LLVMValueRef sign = LLVMBuildAnd(b, LLVMBuildLShr(b, bits, bits_like(g, v, 16), ""),
                                     bits_like(g, v, 0x8000), "");
    LLVMValueRef size = LLVMBuildAnd(b, bits, bits_like(g, v, 0x7fffffff), ""), f = as_f32(g, size);
    LLVMValueRef half = real_vector_like(v, 0.5);
    LLVMValueRef small =
        LLVMBuildSub(b, as_bits(g, LLVMBuildFAdd(b, f, half, "")), as_bits(g, half), "");
    LLVMValueRef payload = LLVMBuildAnd(b, LLVMBuildLShr(b, size, bits_like(g, v, 13), ""),
                                        bits_like(g, v, 0x1ff), "");
    LLVMValueRef nan = LLVMBuildOr(b, payload, bits_like(g, v, 0x7e00), "");
    LLVMValueRef out =
        LLVMBuildSelect(b, LLVMBuildFCmp(b, LLVMRealOLT, f, real_vector_like(v, 0x1p-14), ""),
                        small, half_normal(g, size), "");
    out = LLVMBuildSelect(b, LLVMBuildFCmp(b, LLVMRealOGE, f, real_vector_like(v, 65520), ""),
                          bits_like(g, v, 0x7c00), out, "");
    out = LLVMBuildSelect(b, LLVMBuildFCmp(b, LLVMRealUNO, v, v, ""), nan, out, "");
    out = LLVMBuildTrunc(b, LLVMBuildOr(b, out, sign, ""), lanes_like(g->i16, v), "");
    return LLVMBuildBitCast(b, out, lanes_like(g->f16, v), "");
}

/* ---- rounding ------------------------------------------------------------------------------ */

/// v < limit ? v + step : v, or > for `greater`.
static LLVMValueRef correct_step(const Gen *g, LLVMRealPredicate p, LLVMValueRef x,
                                 LLVMValueRef limit, LLVMValueRef v, double step) {
    LLVMValueRef moved = LLVMBuildFAdd(g->b, v, real_vector_like(v, step), "");
    return LLVMBuildSelect(g->b, LLVMBuildFCmp(g->b, p, x, limit, ""), moved, v, "");
}

// Adding the number whose last place is 1 rounds to even, and a correction follows. Larger numbers,
// infinities and NaN are returned unchanged. -0 stays -0.
LLVMValueRef soft_round(const Gen *g, OpCode code, LLVMValueRef v) {
    LLVMBuilderRef b = g->b;
    LLVMValueRef magic = real_vector_like(v, gen_lane_type(v) == g->f64 ? 0x1p52 : 0x1p23);
    LLVMValueRef size = gen_call1(g, "llvm.fabs", v);
    LLVMValueRef near = LLVMBuildFSub(b, LLVMBuildFAdd(b, size, magic, ""), magic, "");
    LLVMValueRef out = gen_call2(g, "llvm.copysign", near, v);
    LLVMValueRef down = correct_step(g, LLVMRealOGT, near, size, near, -1);
    switch (code) {
    case OP_FLOOR: out = correct_step(g, LLVMRealOGT, out, v, out, -1); break;
    case OP_CEIL: out = correct_step(g, LLVMRealOLT, out, v, out, 1); break;
    case OP_TRUNC: out = down; break;
    case OP_ROUND:
        out = correct_step(g, LLVMRealOGE, LLVMBuildFSub(b, size, down, ""),
                           real_vector_like(v, 0.5), down, 1);
        break;
    default: break;
    }
    out = gen_call2(g, "llvm.copysign", out, v);
    return LLVMBuildSelect(b, LLVMBuildFCmp(b, LLVMRealOLT, size, magic, ""), out, v, "");
}

/* ---- fma ----------------------------------------------------------------------------------- */

// The product is exact in f64. If the sum is not, its last bit is made odd in the direction of the
// error (Boldo and Melquiond), so that rounding it to fewer bits equals rounding the exact sum. An
// infinite or NaN sum has a NaN error and is unchanged.
LLVMValueRef gen_fma_to_odd(const Gen *g, LLVMValueRef x, LLVMValueRef y, LLVMValueRef z) {
    LLVMBuilderRef b = g->b;
    LLVMTypeRef wide = lanes_like(g->f64, x), bits = lanes_like(g->i64, x);
    LLVMValueRef p =
        LLVMBuildFMul(b, LLVMBuildFPExt(b, x, wide, ""), LLVMBuildFPExt(b, y, wide, ""), "");
    LLVMValueRef c = LLVMBuildFPExt(b, z, wide, ""), s = LLVMBuildFAdd(b, p, c, "");
    LLVMValueRef part = LLVMBuildFSub(b, s, p, ""), rest = LLVMBuildFSub(b, s, part, "");
    LLVMValueRef lost =
        LLVMBuildFAdd(b, LLVMBuildFSub(b, p, rest, ""), LLVMBuildFSub(b, c, part, ""), "");
    LLVMValueRef zero = LLVMConstNull(wide), one = gen_same(gen_i64(g, 1), gen_lanes(x));
    LLVMValueRef n = LLVMBuildBitCast(b, s, bits, "");
    LLVMValueRef even =
        LLVMBuildICmp(b, LLVMIntEQ, LLVMBuildAnd(b, n, one, ""), LLVMConstNull(bits), "");
    LLVMValueRef apart = LLVMBuildXor(b, LLVMBuildFCmp(b, LLVMRealOGT, lost, zero, ""),
                                      LLVMBuildFCmp(b, LLVMRealOGT, s, zero, ""), "");
    LLVMValueRef odd =
        LLVMBuildSelect(b, apart, LLVMBuildSub(b, n, one, ""), LLVMBuildAdd(b, n, one, ""), "");
    LLVMValueRef inexact = LLVMBuildFCmp(b, LLVMRealONE, lost, zero, "");
    n = LLVMBuildSelect(b, LLVMBuildAnd(b, inexact, even, ""), odd, n, "");
    return LLVMBuildBitCast(b, n, wide, "");
}

LLVMValueRef soft_fma(const Gen *g, LLVMValueRef x, LLVMValueRef y, LLVMValueRef z) {
    return LLVMBuildFPTrunc(g->b, gen_fma_to_odd(g, x, y, z), LLVMTypeOf(x), "");
}
