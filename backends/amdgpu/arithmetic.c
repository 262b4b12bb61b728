// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Arithmetic: approximations, conversions, bf16.
#include <string.h>

#include "backends/amdgpu/amdgpu.h"

static LLVMValueRef real_f32(const Gen *g, double value) {
    return LLVMConstReal(g->f32, value);
}

static LLVMValueRef less_than_real(const Gen *g, LLVMValueRef x, double than) {
    return LLVMBuildFCmp(g->b, LLVMRealOLT, x, real_f32(g, than), "");
}

/* ---- approximations ------------------------------------------------------------------------ */

// The instructions flush subnormal operands and results to 0.

/// A factor 2^24 = 2^12 2^12 brings a positive operand into the range.
static LLVMValueRef inverse_root(const Gen *g, LLVMValueRef v) {
    LLVMValueRef small = less_than_real(g, v, 0x1p-126);
    LLVMValueRef y =
        LLVMBuildSelect(g->b, small, LLVMBuildFMul(g->b, v, real_f32(g, 0x1p24), ""), v, "");
    y = gen_call1(g, "llvm.amdgcn.rsq", y);
    return LLVMBuildSelect(g->b, small, LLVMBuildFMul(g->b, y, real_f32(g, 0x1p12), ""), y, "");
}

/// 1 - 2 / (e^2x + 1) has an absolute error. Near 0 the first terms of the series are used.
static LLVMValueRef build_tanh(const Gen *g, LLVMValueRef v) {
    LLVMValueRef t = LLVMBuildFMul(g->b, v, real_f32(g, 0x1.715476p+1), "");
    LLVMValueRef e = gen_call1(g, "llvm.amdgcn.exp2", t);
    LLVMValueRef r = gen_call1(g, "llvm.amdgcn.rcp", LLVMBuildFAdd(g->b, e, real_f32(g, 1), ""));
    LLVMValueRef far =
        LLVMBuildFSub(g->b, real_f32(g, 1), LLVMBuildFMul(g->b, r, real_f32(g, 2), ""), "");
    LLVMValueRef third =
        LLVMBuildFMul(g->b, LLVMBuildFMul(g->b, v, v, ""), real_f32(g, -1.0 / 3), "");
    LLVMValueRef near = LLVMBuildFAdd(g->b, v, LLVMBuildFMul(g->b, v, third, ""), "");
    return LLVMBuildSelect(g->b, less_than_real(g, gen_call1(g, "llvm.fabs", v), 0.125), near, far,
                           "");
}

/// 1 / v is subnormal from 2^126 on, and infinite for an operand that is flushed to 0.
static LLVMValueRef build_reciprocal(const Gen *g, LLVMValueRef v) {
    LLVMValueRef size = gen_call1(g, "llvm.fabs", v);
    LLVMValueRef small = less_than_real(g, size, 0x1p-126);
    LLVMValueRef large = LLVMBuildFCmp(g->b, LLVMRealOGT, size, real_f32(g, 0x1p126), "");
    LLVMValueRef scale = LLVMBuildSelect(g->b, small, real_f32(g, 0x1p24), real_f32(g, 1), "");
    scale = LLVMBuildSelect(g->b, large, real_f32(g, 0x1p-24), scale, "");
    LLVMValueRef y = gen_call1(g, "llvm.amdgcn.rcp", LLVMBuildFMul(g->b, v, scale, ""));
    return LLVMBuildFMul(g->b, y, scale, "");
}

void amd_approx(Expand *x) {
    const Gen *g = x->g;
    const char *name = fn_capture(x->fn, 'o');
    LLVMValueRef v = x->in[0];
    bool flush = strstr(x->fn->row->name, ".ftz") != NULL;
    if (strcmp(name, "ex2") == 0)
        x->out[0] = gen_call1(g, flush ? "llvm.amdgcn.exp2" : "llvm.exp2", v);
    else if (strcmp(name, "lg2") == 0)
        x->out[0] = gen_call1(g, "llvm.log2", v);
    else if (strcmp(name, "rcp") == 0)
        x->out[0] = build_reciprocal(g, v);
    else if (strcmp(name, "rsqrt") == 0)
        x->out[0] = inverse_root(g, v);
    else
        x->out[0] = build_tanh(g, v);
}

/* ---- conversions --------------------------------------------------------------------------- */

static LLVMTypeRef bfloat_type(const Gen *g) {
    return LLVMBFloatTypeInContext(g->llvm);
}

/// Rounds one value to bf16, or two to halves of a word, each once.
void amd_narrow(Expand *x) {
    const Gen *g = x->g;
    const char *to = fn_capture(x->fn, 't');
    LLVMTypeRef type = to && strcmp(to, "f16") == 0 ? g->f16 : bfloat_type(g);
    LLVMValueRef v = x->in[0];
    if (x->n_in == 2) {
        v = LLVMGetPoison(LLVMVectorType(g->f32, 2));
        for (int i = 0; i < 2; i++)
            v = LLVMBuildInsertElement(g->b, v, x->in[i], amd_i32(g, i), "");
        type = LLVMVectorType(type, 2);
    }
    v = LLVMBuildFPTrunc(g->b, v, type, "");
    x->out[0] = LLVMBuildBitCast(g->b, v, LLVMTypeOf(x->call), "");
}

/// The upper half of an f32.
static LLVMValueRef widen_bf16(const Gen *g, LLVMValueRef half) {
    LLVMValueRef word =
        LLVMBuildShl(g->b, LLVMBuildZExt(g->b, half, g->i32, ""), amd_i32(g, 16), "");
    return LLVMBuildBitCast(g->b, word, g->f32, "");
}

void amd_widen_bf16(Expand *x) {
    x->out[0] = widen_bf16(x->g, x->in[0]);
}

/// Keeps 10 bits after the point, ties away from 0. For a NaN one of the kept bits is set.
void amd_cvt_tf32(Expand *x) {
    const Gen *g = x->g;
    LLVMValueRef bits = LLVMBuildBitCast(g->b, x->in[0], g->i32, "");
    LLVMValueRef up = LLVMBuildAdd(g->b, bits, amd_i32(g, 0x1000), "");
    LLVMValueRef size = gen_call1(g, "llvm.fabs", x->in[0]);
    LLVMValueRef finite =
        LLVMBuildFCmp(g->b, LLVMRealOLT, size, LLVMConstReal(g->f32, (double)__builtin_inff()), "");
    LLVMValueRef nan = LLVMBuildFCmp(g->b, LLVMRealUNO, size, size, "");
    LLVMValueRef quiet = LLVMBuildOr(g->b, bits, amd_i32(g, 0x400000), "");
    bits = LLVMBuildSelect(g->b, finite, up, LLVMBuildSelect(g->b, nan, quiet, bits, ""), "");
    x->out[0] = LLVMBuildAnd(g->b, bits, amd_i32(g, ~0x1fff), "");
}

void amd_cvt_int(Expand *x) {
    LLVMTypeRef types[2] = {LLVMTypeOf(x->call), LLVMTypeOf(x->in[0])};
    bool is_signed = *fn_capture(x->fn, 't') != 'u';
    x->out[0] =
        gen_intrinsic(x->g, is_signed ? "llvm.fptosi.sat" : "llvm.fptoui.sat", 2, types, 1, x->in);
}

/* ---- bf16 ---------------------------------------------------------------------------------- */

static bool is_half_bits(LLVMValueRef half, unsigned bits) {
    return LLVMIsAConstantInt(half) && (LLVMConstIntGetZExtValue(half) & 0xffff) == bits;
}

/// Returns a b + c, rounded once. For a product by 1, or without a sum, f32 has enough bits to
/// round twice (24 >= 2 * 8 + 2). For general sums no type has.
static LLVMValueRef bf16_fma_of(const Gen *g, LLVMValueRef a, LLVMValueRef b, LLVMValueRef c) {
    enum { ONE = 0x3f80, MINUS_ONE = 0xbf80, MINUS_ZERO = 0x8000 };
    LLVMValueRef args[3] = {widen_bf16(g, a), widen_bf16(g, b), widen_bf16(g, c)};
    bool one = is_half_bits(b, ONE) || is_half_bits(b, MINUS_ONE) || is_half_bits(c, MINUS_ZERO);
    LLVMTypeRef type = g->f32;
    LLVMValueRef sum = one ? gen_intrinsic(g, "llvm.fma", 1, &type, 3, args)
                           : gen_fma_to_odd(g, args[0], args[1], args[2]);
    return LLVMBuildBitCast(g->b, LLVMBuildFPTrunc(g->b, sum, bfloat_type(g), ""), g->i16, "");
}

static LLVMValueRef half_of_word(const Gen *g, LLVMValueRef word, int i) {
    if (i) word = LLVMBuildLShr(g->b, word, amd_i32(g, 16), "");
    return LLVMBuildTrunc(g->b, word, g->i16, "");
}

static LLVMValueRef word_of_halves(const Gen *g, LLVMValueRef low, LLVMValueRef high) {
    high = LLVMBuildShl(g->b, LLVMBuildZExt(g->b, high, g->i32, ""), amd_i32(g, 16), "");
    return LLVMBuildOr(g->b, LLVMBuildZExt(g->b, low, g->i32, ""), high, "");
}

void amd_fma_bf16(Expand *x) {
    const Gen *g = x->g;
    if (LLVMTypeOf(x->call) == g->i16) {
        x->out[0] = bf16_fma_of(g, x->in[0], x->in[1], x->in[2]);
        return;
    }
    LLVMValueRef half[2];
    for (int i = 0; i < 2; i++)
        half[i] = bf16_fma_of(g, half_of_word(g, x->in[0], i), half_of_word(g, x->in[1], i),
                              half_of_word(g, x->in[2], i));
    x->out[0] = word_of_halves(g, half[0], half[1]);
}

/// Same as NVIDIA's: a NaN yields the other operand.
void amd_minmax_x2(Expand *x) {
    const Gen *g = x->g;
    const char *name = *fn_capture(x->fn, 'o') == 'm' && fn_capture(x->fn, 'o')[1] == 'i'
                           ? "llvm.minnum"
                           : "llvm.maxnum";
    if (strcmp(fn_capture(x->fn, 't'), "f16") == 0) {
        LLVMTypeRef type = LLVMVectorType(g->f16, 2);
        LLVMValueRef v = gen_call2(g, name, LLVMBuildBitCast(g->b, x->in[0], type, ""),
                                   LLVMBuildBitCast(g->b, x->in[1], type, ""));
        x->out[0] = LLVMBuildBitCast(g->b, v, g->i32, "");
        return;
    }
    LLVMValueRef half[2];
    for (int i = 0; i < 2; i++) {
        LLVMValueRef v = gen_call2(g, name, widen_bf16(g, half_of_word(g, x->in[0], i)),
                                   widen_bf16(g, half_of_word(g, x->in[1], i)));
        half[i] = half_of_word(g, LLVMBuildBitCast(g->b, v, g->i32, ""), 1);
    }
    x->out[0] = word_of_halves(g, half[0], half[1]);
}

/* ---- integers ------------------------------------------------------------------------------ */

void amd_mulhi(Expand *x) {
    const Gen *g = x->g;
    LLVMTypeRef wide = LLVMIntTypeInContext(g->llvm, 128);
    LLVMOpcode extend = *fn_capture(x->fn, 't') == 'u' ? LLVMZExt : LLVMSExt;
    LLVMValueRef p = LLVMBuildMul(g->b, LLVMBuildCast(g->b, extend, x->in[0], wide, ""),
                                  LLVMBuildCast(g->b, extend, x->in[1], wide, ""), "");
    p = LLVMBuildLShr(g->b, p, LLVMConstInt(wide, 64, false), "");
    x->out[0] = LLVMBuildTrunc(g->b, p, g->i64, "");
}

/// The counter runs at 100 MHz.
void amd_clock(Expand *x) {
    enum { TICK_NS = 10 };
    LLVMValueRef ticks = gen_intrinsic(x->g, "llvm.readsteadycounter", 0, NULL, 0, NULL);
    x->out[0] = gen_mul(x->g, ticks, gen_i64(x->g, TICK_NS));
}

void amd_ctz(Expand *x) {
    const Gen *g = x->g;
    LLVMTypeRef type = LLVMTypeOf(x->in[0]);
    LLVMValueRef args[2] = {x->in[0], LLVMConstInt(g->i1, 0, false)};
    LLVMValueRef n = gen_intrinsic(g, "llvm.cttz", 1, &type, 2, args);
    x->out[0] = LLVMBuildIntCast2(g->b, n, g->i32, false, "");
}
