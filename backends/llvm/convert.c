// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Conversions between element types. Integer arithmetic converts small floats if the target's
// instruction would flush denormals, need a library call, or not exist.
#include "backends/llvm/elementwise_table.h"

static LLVMTypeRef type_like(LLVMTypeRef scalar, LLVMValueRef v) {
    return gen_vec(scalar, gen_lanes(v));
}
static LLVMValueRef int_lanes_like(LLVMTypeRef scalar, LLVMValueRef v, uint64_t n) {
    return gen_same(LLVMConstInt(scalar, n, true), gen_lanes(v));
}
static LLVMValueRef real_lanes_like(LLVMTypeRef scalar, LLVMValueRef v, double x) {
    return gen_same(LLVMConstReal(scalar, x), gen_lanes(v));
}
static LLVMValueRef f32_bits(const Gen *g, LLVMValueRef v) {
    return LLVMBuildBitCast(g->b, v, type_like(g->i32, v), "");
}
static LLVMValueRef bits_f32(const Gen *g, LLVMValueRef v) {
    return LLVMBuildBitCast(g->b, v, type_like(g->f32, v), "");
}
static LLVMValueRef i32_like(const Gen *g, LLVMValueRef v, uint32_t n) {
    return int_lanes_like(g->i32, v, n);
}
static LLVMValueRef is_nan(const Gen *g, LLVMValueRef v) {
    return LLVMBuildFCmp(g->b, LLVMRealUNO, v, v, "");
}

/* ---- f64 to f32 for a second rounding ------------------------------------------------------ */

// Truncates, and sets the last bit if the value is inexact.
LLVMValueRef gen_f64_to_odd(const Gen *g, LLVMValueRef v) {
    LLVMValueRef f = LLVMBuildFPTrunc(g->b, v, type_like(g->f32, v), "");
    LLVMValueRef back = LLVMBuildFPExt(g->b, f, type_like(g->f64, v), "");
    LLVMValueRef larger = LLVMBuildFCmp(g->b, LLVMRealOGT, gen_call1(g, "llvm.fabs", back),
                                        gen_call1(g, "llvm.fabs", v), "");
    LLVMValueRef inexact = LLVMBuildFCmp(g->b, LLVMRealONE, back, v, "");
    LLVMValueRef bits = f32_bits(g, f);
    bits = LLVMBuildSub(g->b, bits, LLVMBuildZExt(g->b, larger, type_like(g->i32, v), ""), "");
    bits = LLVMBuildOr(g->b, bits, LLVMBuildZExt(g->b, inexact, type_like(g->i32, v), ""), "");
    return bits_f32(g, bits);
}

/* ---- bf16 ---------------------------------------------------------------------------------- */

static LLVMValueRef bf16_widen(const Gen *g, LLVMValueRef v) {
    LLVMValueRef bits = LLVMBuildZExt(g->b, v, type_like(g->i32, v), "");
    return bits_f32(g, LLVMBuildShl(g->b, bits, i32_like(g, v, 16), ""));
}

// Rounds to nearest, ties to even: adds half of the last kept place, less one if that place is
// even. NaN keeps its upper bits and becomes quiet. vcvtneps2bf16 would flush denormals.
static LLVMValueRef bf16_narrow(const Gen *g, LLVMValueRef v) {
    LLVMValueRef bits = f32_bits(g, v);
    LLVMValueRef upper = LLVMBuildLShr(g->b, bits, i32_like(g, v, 16), "");
    LLVMValueRef odd = LLVMBuildAnd(g->b, upper, i32_like(g, v, 1), "");
    LLVMValueRef half = LLVMBuildAdd(g->b, odd, i32_like(g, v, 0x7fff), "");
    LLVMValueRef sum = LLVMBuildAdd(g->b, bits, half, "");
    LLVMValueRef rounded = LLVMBuildLShr(g->b, sum, i32_like(g, v, 16), "");
    LLVMValueRef quiet = LLVMBuildOr(g->b, upper, i32_like(g, v, 0x40), "");
    LLVMValueRef out = LLVMBuildSelect(g->b, is_nan(g, v), quiet, rounded, "");
    return LLVMBuildTrunc(g->b, out, type_like(g->i16, v), "");
}

/* ---- f8 ------------------------------------------------------------------------------------ */

typedef struct F8Format {
    int mantissa, bias;
    double max;   // greatest finite value
    uint32_t nan; // without sign
} F8Format;
static const F8Format f8_e4m3 = {3, 7, 448, 0x7f}, f8_e5m2 = {2, 15, 57344, 0x7e};

/// Marks that the current function converts f8 by many instructions, for the bound of its
/// registers.
static void note_soft(const Gen *g) {
    static const char name[] = "tg.softf8";
    LLVMValueRef fn = LLVMGetBasicBlockParent(LLVMGetInsertBlock(g->b));
    LLVMAttributeRef a = LLVMCreateStringAttribute(g->llvm, name, sizeof name - 1, "1", 1);
    LLVMAddAttributeAtIndex(fn, (LLVMAttributeIndex)LLVMAttributeFunctionIndex, a);
}

// For GPUs, where a subnormal operand costs nothing. Takes the bits as an f32 and multiplies it by
// 2^120, the difference of the exponents' biases. Subnormal numbers of the format are then
// subnormal operands of the product. The code of NaN would become 480.
static LLVMValueRef e4m3_widen_scaled(const Gen *g, LLVMValueRef v) {
    LLVMValueRef wide = LLVMBuildSExt(g->b, v, type_like(g->i32, v), "");
    LLVMValueRef bits = LLVMBuildAnd(g->b, LLVMBuildShl(g->b, wide, i32_like(g, v, 20), ""),
                                     i32_like(g, v, 0x87f00000), "");
    LLVMValueRef x =
        LLVMBuildFMul(g->b, bits_f32(g, bits), real_lanes_like(g->f32, v, 0x1p120), "");
    LLVMValueRef size = LLVMBuildAnd(g->b, v, int_lanes_like(g->i8, v, 0x7f), "");
    LLVMValueRef nan = LLVMBuildICmp(g->b, LLVMIntEQ, size, int_lanes_like(g->i8, v, 0x7f), "");
    LLVMValueRef quiet = LLVMBuildOr(g->b, f32_bits(g, x), i32_like(g, v, 0x7fc00000), "");
    return LLVMBuildSelect(g->b, nan, bits_f32(g, quiet), x, "");
}

// A normal number's bits are those of f32, shifted and rebiased. A subnormal one is a small integer
// times 2^-9. One pattern is NaN, and none is infinite.
static LLVMValueRef e4m3_widen(const Gen *g, LLVMValueRef v) {
    LLVMValueRef bits = LLVMBuildZExt(g->b, v, type_like(g->i32, v), "");
    LLVMValueRef size = LLVMBuildAnd(g->b, bits, i32_like(g, v, 0x7f), "");
    LLVMValueRef sign = LLVMBuildShl(g->b, LLVMBuildAnd(g->b, bits, i32_like(g, v, 0x80), ""),
                                     i32_like(g, v, 24), "");
    LLVMValueRef normal = LLVMBuildAdd(g->b, LLVMBuildShl(g->b, size, i32_like(g, v, 20), ""),
                                       i32_like(g, v, 120u << 23), "");
    LLVMValueRef small = LLVMBuildFMul(g->b, LLVMBuildSIToFP(g->b, size, type_like(g->f32, v), ""),
                                       real_lanes_like(g->f32, v, 0x1p-9), "");
    LLVMValueRef is_small = LLVMBuildICmp(g->b, LLVMIntULT, size, i32_like(g, v, 8), "");
    LLVMValueRef out = LLVMBuildSelect(g->b, is_small, f32_bits(g, small), normal, "");
    LLVMValueRef nan = LLVMBuildICmp(g->b, LLVMIntEQ, size, i32_like(g, v, 0x7f), "");
    out = LLVMBuildSelect(g->b, nan, i32_like(g, v, 0x7fc00000), out, "");
    return bits_f32(g, LLVMBuildOr(g->b, out, sign, ""));
}

// e5m2 is the upper half of f16.
static LLVMValueRef f8_widen(const Gen *g, Elem elem, LLVMValueRef v) {
    if (elem == EL_F8E4M3) {
        if (!g->portable) return e4m3_widen(g, v);
        note_soft(g);
        return e4m3_widen_scaled(g, v);
    }
    LLVMValueRef wide = LLVMBuildZExt(g->b, v, type_like(g->i16, v), "");
    LLVMValueRef bits = LLVMBuildShl(g->b, wide, int_lanes_like(g->i16, v, 8), "");
    return gen_widen(g, EL_F16, LLVMBuildBitCast(g->b, bits, type_like(g->f16, v), ""));
}

// Saturates. Normal: rounds the f32 bits to even at the last kept bit and rebiases (a carry into
// the exponent is correct). Subnormal: adding 2^(23 + least exponent) leaves the rounded integer in
// the low bits of the sum.
static LLVMValueRef f8_narrow(const Gen *g, const F8Format *f, LLVMValueRef v) {
    int least = 1 - f->bias - f->mantissa; // exponent of the least subnormal
    int shift = 23 - f->mantissa;
    double magic = 1;
    if (g->portable) note_soft(g);
    for (int i = 0; i < 23 + least; i++) magic *= 2;
    LLVMValueRef sign =
        LLVMBuildAnd(g->b, LLVMBuildLShr(g->b, f32_bits(g, v), i32_like(g, v, 24), ""),
                     i32_like(g, v, 0x80), "");
    LLVMValueRef max = real_lanes_like(g->f32, v, f->max);
    LLVMValueRef size = gen_call1(g, "llvm.fabs", v);
    LLVMValueRef fits = LLVMBuildFCmp(g->b, LLVMRealOLT, size, max, "");
    size = LLVMBuildSelect(g->b, fits, size, max, "");
    LLVMValueRef bits = f32_bits(g, size);
    LLVMValueRef odd =
        LLVMBuildAnd(g->b, LLVMBuildLShr(g->b, bits, i32_like(g, v, (uint32_t)shift), ""),
                     i32_like(g, v, 1), "");
    LLVMValueRef half = LLVMBuildAdd(g->b, odd, i32_like(g, v, (1u << (shift - 1)) - 1), "");
    LLVMValueRef normal = LLVMBuildLShr(g->b, LLVMBuildAdd(g->b, bits, half, ""),
                                        i32_like(g, v, (uint32_t)shift), "");
    normal =
        LLVMBuildSub(g->b, normal, i32_like(g, v, (uint32_t)(127 - f->bias) << f->mantissa), "");
    LLVMValueRef m = real_lanes_like(g->f32, v, magic);
    LLVMValueRef small =
        LLVMBuildSub(g->b, f32_bits(g, LLVMBuildFAdd(g->b, size, m, "")), f32_bits(g, m), "");
    double least_normal = 1;
    for (int i = 1; i < f->bias; i++) least_normal /= 2;
    LLVMValueRef is_small =
        LLVMBuildFCmp(g->b, LLVMRealOLT, size, real_lanes_like(g->f32, v, least_normal), "");
    LLVMValueRef out = LLVMBuildSelect(g->b, is_small, small, normal, "");
    out = LLVMBuildSelect(g->b, is_nan(g, v), i32_like(g, v, f->nan), out, "");
    return LLVMBuildTrunc(g->b, LLVMBuildOr(g->b, out, sign, ""), type_like(g->i8, v), "");
}

/* ---- widen, narrow ------------------------------------------------------------------------- */

Elem elem_computes_in(Elem elem) {
    return elem_is(elem, EC_FLOAT) && elem != EL_F64 ? EL_F32 : elem;
}

LLVMValueRef gen_widen(const Gen *g, Elem elem, LLVMValueRef v) {
    switch (elem) {
    case EL_F16:
        return g->soft_half ? soft_half_widen(g, v)
                            : LLVMBuildFPExt(g->b, v, type_like(g->f32, v), "");
    case EL_BF16: return bf16_widen(g, v);
    case EL_F8E4M3: return g->f8 ? portable_from_f8(g, elem, v) : f8_widen(g, elem, v);
    case EL_F8E5M2: return f8_widen(g, elem, v);
    default: return v;
    }
}

LLVMValueRef gen_narrow(const Gen *g, Elem elem, LLVMValueRef v) {
    switch (elem) {
    case EL_F16:
        return g->soft_half ? soft_half_narrow(g, v)
                            : LLVMBuildFPTrunc(g->b, v, type_like(g->f16, v), "");
    case EL_BF16: return g->portable ? portable_to_bf16(g, v) : bf16_narrow(g, v);
    case EL_F8E4M3:
    case EL_F8E5M2:
        if (g->f8) return portable_to_f8(g, elem, v);
        return f8_narrow(g, elem == EL_F8E4M3 ? &f8_e4m3 : &f8_e5m2, v);
    default: return v;
    }
}

/* ---- casts --------------------------------------------------------------------------------- */

// The result of these two must still be narrowed to `to`.
static LLVMValueRef float_to_float(const Gen *g, Elem from, Elem to, LLVMValueRef v) {
    v = gen_widen(g, from, v);
    if (to == EL_F64) return from == EL_F64 ? v : LLVMBuildFPExt(g->b, v, type_like(g->f64, v), "");
    if (from != EL_F64) return v;
    return to == EL_F32 ? LLVMBuildFPTrunc(g->b, v, type_like(g->f32, v), "")
                        : gen_f64_to_odd(g, v);
}

/// Makes a 64-bit integer exact in f64, for rounding to a small float. If it has more than 53 bits,
/// the bits beyond f64 are joined into the last one. Ties of the small float stay ties, and no
/// other value becomes one.
static LLVMValueRef build_int_to_odd(const Gen *g, Elem from, LLVMValueRef v) {
    LLVMTypeRef type = LLVMTypeOf(v);
    LLVMValueRef lost = LLVMBuildAnd(g->b, v, int_lanes_like(g->i64, v, 0x7ff), "");
    LLVMValueRef any = LLVMBuildICmp(g->b, LLVMIntNE, lost, LLVMConstNull(type), "");
    LLVMValueRef last =
        LLVMBuildSelect(g->b, any, int_lanes_like(g->i64, v, 0x800), LLVMConstNull(type), "");
    LLVMValueRef kept = LLVMBuildAnd(g->b, v, int_lanes_like(g->i64, v, ~(uint64_t)0x7ff), "");
    uint64_t exact = (uint64_t)1 << 52;
    bool is_signed = elem_is(from, EC_SINT);
    LLVMValueRef size = is_signed ? LLVMBuildAdd(g->b, v, int_lanes_like(g->i64, v, exact), "") : v;
    LLVMValueRef large =
        LLVMBuildICmp(g->b, LLVMIntUGE, size, int_lanes_like(g->i64, v, exact << is_signed), "");
    return LLVMBuildSelect(g->b, large, LLVMBuildOr(g->b, kept, last, ""), v, "");
}

// Integers of up to 24 bits are exact in f32. Others convert to a small float through f64.
static LLVMValueRef build_int_to_float(const Gen *g, Elem from, Elem to, LLVMValueRef v) {
    bool small = to != EL_F64 && to != EL_F32;
    Elem by = to == EL_F64 || (small && elem_info[from].bits > 16) ? EL_F64 : EL_F32;
    if (to == EL_BF16 && elem_info[from].bits == 64) v = build_int_to_odd(g, from, v);
    LLVMTypeRef type = type_like(gen_elem(g, by), v);
    LLVMValueRef f = elem_is(from, EC_SINT) ? LLVMBuildSIToFP(g->b, v, type, "")
                                            : LLVMBuildUIToFP(g->b, v, type, "");
    return by == to ? f : float_to_float(g, by, to, f);
}

/// Returns the bits of a 4-bit integer in its register form, i8.
static LLVMValueRef wrap_int4(const Gen *g, Elem to, LLVMValueRef v) {
    if (to == EL_U4) return LLVMBuildAnd(g->b, v, int_lanes_like(g->i8, v, 15), "");
    LLVMValueRef four = int_lanes_like(g->i8, v, 4);
    return LLVMBuildAShr(g->b, LLVMBuildShl(g->b, v, four, ""), four, "");
}

static LLVMValueRef clamp_int4(const Gen *g, Elem to, LLVMValueRef v) {
    if (to == EL_U4) return gen_call2(g, "llvm.umin", v, int_lanes_like(g->i8, v, 15));
    v = gen_call2(g, "llvm.smin", v, int_lanes_like(g->i8, v, 7));
    return gen_call2(g, "llvm.smax", v, int_lanes_like(g->i8, v, (uint64_t)-8));
}

static LLVMValueRef build_float_to_int(const Gen *g, Elem from, Elem to, LLVMValueRef v) {
    v = gen_widen(g, from, v);
    if (g->portable) return portable_to_int(g, elem_computes_in(from), to, v);
    LLVMTypeRef types[2] = {type_like(gen_elem(g, to), v), LLVMTypeOf(v)};
    const char *name = elem_is(to, EC_SINT) ? "llvm.fptosi.sat" : "llvm.fptoui.sat";
    v = gen_intrinsic(g, name, 2, types, 1, &v);
    return elem_info[to].bits == 4 ? clamp_int4(g, to, v) : v;
}

static LLVMValueRef int_to_int(const Gen *g, Elem from, Elem to, LLVMValueRef v) {
    LLVMTypeRef type = type_like(gen_elem(g, to), v);
    int have = elem_bytes(from), want = elem_bytes(to);
    if (from == EL_BOOL || (want > have && elem_is(from, EC_UINT)))
        v = LLVMBuildZExt(g->b, v, type, "");
    else if (want > have)
        v = LLVMBuildSExt(g->b, v, type, "");
    else if (want < have)
        v = LLVMBuildTrunc(g->b, v, type, "");
    return elem_info[to].bits == 4 ? wrap_int4(g, to, v) : v;
}

static LLVMValueRef to_bool(const Gen *g, Elem from, LLVMValueRef v) {
    v = gen_widen(g, from, v);
    LLVMValueRef zero = LLVMConstNull(LLVMTypeOf(v));
    return elem_is(from, EC_FLOAT) ? LLVMBuildFCmp(g->b, LLVMRealUNE, v, zero, "")
                                   : LLVMBuildICmp(g->b, LLVMIntNE, v, zero, "");
}

/// Does a whole cast except the last rounding of f16, bf16 and f8, which is from f32.
static LLVMValueRef cast_wide(const Gen *g, Elem from, Elem to, LLVMValueRef v) {
    if (to == EL_BOOL) return to_bool(g, from, v);
    bool f = elem_is(from, EC_FLOAT), t = elem_is(to, EC_FLOAT);
    if (f && t) return float_to_float(g, from, to, v);
    if (f) return build_float_to_int(g, from, to, v);
    if (t) return build_int_to_float(g, from, to, v);
    return int_to_int(g, from, to, v);
}

LLVMValueRef gen_cast(const Gen *g, Elem from, Elem to, LLVMValueRef v) {
    return from == to ? v : gen_narrow(g, to, cast_wide(g, from, to, v));
}

void gen_narrow_all(const Gen *g, Elem elem, int n, const LLVMValueRef *in, LLVMValueRef *out) {
    for (int i = 0; i < n; i++) {
        if (i + 1 < n && portable_narrow_pair(g, elem, in + i, out + i))
            i++;
        else
            out[i] = gen_narrow(g, elem, in[i]);
    }
}

/// Converts an f8 type to f16, which holds all its values, if an instruction for pairs exists.
static bool f8_to_half_all(const Gen *g, Elem from, int n, LLVMValueRef *v) {
    if (n < 2 || !portable_widen_pair(g, from, v)) return false;
    for (int i = 2; i < n; i += 2)
        if (i + 1 == n || !portable_widen_pair(g, from, v + i))
            v[i] = gen_cast(g, from, EL_F16, v[i]);
    return true;
}

void gen_cast_all(const Gen *g, Elem from, Elem to, int n, const LLVMValueRef *in,
                  LLVMValueRef *out) {
    for (int i = 0; i < n; i++) out[i] = in[i];
    if (from != to && f8_to_half_all(g, from, n, out)) from = EL_F16;
    if (from == to) return;
    for (int i = 0; i < n; i++) out[i] = cast_wide(g, from, to, out[i]);
    gen_narrow_all(g, to, n, out, out);
}

LLVMValueRef gen_to_memory(const Gen *g, Elem elem, LLVMValueRef v) {
    return elem == EL_BOOL ? LLVMBuildZExt(g->b, v, type_like(g->i8, v), "") : v;
}

LLVMValueRef gen_from_memory(const Gen *g, Elem elem, LLVMValueRef v) {
    if (elem != EL_BOOL) return v;
    return LLVMBuildICmp(g->b, LLVMIntNE, v, LLVMConstNull(LLVMTypeOf(v)), "");
}

LLVMValueRef gen_bitcast(const Gen *g, Elem from, Elem to, LLVMValueRef v) {
    if (from == EL_BOOL || to == EL_BOOL) return gen_cast(g, from, to, v);
    return LLVMBuildBitCast(g->b, v, type_like(gen_elem(g, to), v), "");
}
