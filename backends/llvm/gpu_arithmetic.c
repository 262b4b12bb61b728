// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Arithmetic of portable modules that differs from a CPU's. Constructs outside the table of
// portable.c's checker are expanded or become target functions, and GPUs have instructions that
// CPUs lack. All of it works on scalars.
#include "backends/llvm/elementwise_table.h"
#include "backends/llvm/portable.h"

#include <string.h>

static LLVMValueRef call1(const Gen *g, const char *name, LLVMValueRef x) {
    return portable_call(g, name, 1, &x);
}

static LLVMValueRef int_like(LLVMValueRef v, uint64_t n) {
    return LLVMConstInt(LLVMTypeOf(v), n, true);
}
static LLVMValueRef real_like(LLVMValueRef v, double x) {
    return LLVMConstReal(LLVMTypeOf(v), x);
}
static LLVMValueRef pick(const Gen *g, LLVMIntPredicate p, LLVMValueRef x, LLVMValueRef y) {
    return LLVMBuildSelect(g->b, LLVMBuildICmp(g->b, p, x, y, ""), x, y, "");
}
static LLVMValueRef is_number(const Gen *g, LLVMValueRef v) {
    return LLVMBuildFCmp(g->b, LLVMRealORD, v, v, "");
}
static LLVMValueRef fma_of(const Gen *g, LLVMValueRef a, LLVMValueRef b, LLVMValueRef c) {
    LLVMTypeRef type = LLVMTypeOf(a);
    LLVMValueRef args[3] = {a, b, c};
    return gen_intrinsic(g, "llvm.fma", 1, &type, 3, args);
}

/* ---- integers ------------------------------------------------------------------------------ */

static LLVMValueRef lesser(const Gen *g, const Way *w, Elem elem, const LLVMValueRef *a) {
    (void)elem;
    return pick(g, (LLVMIntPredicate)w->code, a[0], a[1]);
}

static LLVMValueRef absolute(const Gen *g, const Way *w, Elem elem, const LLVMValueRef *a) {
    (void)w, (void)elem;
    LLVMValueRef negative = LLVMBuildICmp(g->b, LLVMIntSLT, a[0], int_like(a[0], 0), "");
    return LLVMBuildSelect(g->b, negative, LLVMBuildNeg(g->b, a[0], ""), a[0], "");
}

/// Returns the upper half of a product in the type of twice the width, which exists up to 64 bits.
static LLVMValueRef multiply_high(const Gen *g, const Way *w, Elem elem, const LLVMValueRef *a) {
    unsigned bits = (unsigned)elem_info[elem].bits;
    LLVMValueRef args[2] = {a[0], a[1]};
    if (bits == 64) return portable_call(g, w->name, 2, args);
    LLVMTypeRef wide = LLVMIntTypeInContext(g->llvm, 2 * bits);
    LLVMOpcode ext = (LLVMOpcode)w->code;
    LLVMValueRef p = LLVMBuildMul(g->b, LLVMBuildCast(g->b, ext, a[0], wide, ""),
                                  LLVMBuildCast(g->b, ext, a[1], wide, ""), "");
    p = LLVMBuildLShr(g->b, p, int_like(p, bits), "");
    return LLVMBuildTrunc(g->b, p, LLVMTypeOf(a[0]), "");
}

/// A bit above a narrow number stops the count at its width.
static LLVMValueRef trailing_zeros(const Gen *g, const Way *w, Elem elem, const LLVMValueRef *a) {
    int bits = elem_info[elem].bits;
    (void)w;
    if (bits == 64) return LLVMBuildZExt(g->b, call1(g, "tg.ctz.i64", a[0]), g->i64, "");
    if (bits == 32) return call1(g, "tg.ctz.i32", a[0]);
    LLVMValueRef wide = LLVMBuildZExt(g->b, a[0], g->i32, "");
    wide = LLVMBuildOr(g->b, wide, int_like(wide, (uint64_t)1 << bits), "");
    return LLVMBuildTrunc(g->b, call1(g, "tg.ctz.i32", wide), LLVMTypeOf(a[0]), "");
}

/* ---- floats -------------------------------------------------------------------------------- */

// |v - trunc(v)| is exact, and the sum of trunc(v) and 1 is, too, where it is needed. -0 stays.
static LLVMValueRef round_away(const Gen *g, const Way *w, Elem elem, const LLVMValueRef *a) {
    (void)w, (void)elem;
    LLVMValueRef whole = gen_call1(g, "llvm.trunc", a[0]);
    LLVMValueRef rest = gen_call1(g, "llvm.fabs", LLVMBuildFSub(g->b, a[0], whole, ""));
    LLVMValueRef far = LLVMBuildFCmp(g->b, LLVMRealOGE, rest, real_like(rest, 0.5), "");
    LLVMValueRef one = gen_call2(g, "llvm.copysign", real_like(rest, 1), a[0]);
    return LLVMBuildSelect(g->b, far, LLVMBuildFAdd(g->b, whole, one, ""), whole, "");
}

/// bf16 has only fma: a + b = a 1 + b, a - b = b (-1) + a, a b = a b + (-0). Each rounds once.
static LLVMValueRef bf16_fma(const Gen *g, const Way *w, Elem elem, const LLVMValueRef *a) {
    enum { ONE = 0x3f80, MINUS_ONE = 0xbf80, MINUS_ZERO = 0x8000 };
    (void)elem;
    LLVMValueRef args[3] = {a[0], a[1], a[1]};
    switch (w->code) {
    case OP_ADD: args[1] = int_like(a[0], ONE); break;
    case OP_SUB: args[0] = a[1], args[1] = int_like(a[0], MINUS_ONE), args[2] = a[0]; break;
    case OP_MUL: args[2] = int_like(a[0], MINUS_ZERO); break;
    default: args[2] = a[2]; break;
    }
    return portable_call(g, "tg.fma.bf16", 3, args);
}

static LLVMValueRef half_fma(const Gen *g, const Way *w, Elem elem, const LLVMValueRef *a) {
    (void)w, (void)elem;
    return fma_of(g, a[0], a[1], a[2]);
}

/// Products and sums of f8 are exact in f64, and the cast from f64 rounds once.
static LLVMValueRef f8_fma(const Gen *g, const Way *w, Elem elem, const LLVMValueRef *a) {
    LLVMValueRef wide[3];
    (void)w;
    for (int i = 0; i < 3; i++) wide[i] = gen_cast(g, elem, EL_F64, a[i]);
    return gen_cast(g, EL_F64, elem, fma_of(g, wide[0], wide[1], wide[2]));
}

/// Returns the sign of a float that is held as an integer.
static LLVMValueRef sign_of_bits(const Gen *g, const Way *w, Elem elem, const LLVMValueRef *a) {
    uint64_t sign = (uint64_t)1 << (elem_info[elem].bits - 1);
    return w->code == OP_NEG ? LLVMBuildXor(g->b, a[0], int_like(a[0], sign), "")
                             : LLVMBuildAnd(g->b, a[0], int_like(a[0], sign - 1), "");
}

/* ---- functions by the GPU's approximations -------------------------------------------------- */

// The greatest relative errors of the instructions: 2^-22.5 for ex2, 2^-22.9 for rsqrt, 2^-11 for
// tanh (PTX ISA). The error of lg2 is absolute near 1. No type can use it, since log(1) must be 0.

enum { F8_BITS = 4, BF16_BITS = 8, HALF_BITS = 11, FLOAT_BITS = 24, DOUBLE_BITS = 53 };

/// Significant bits of a float.
static int significant(Elem elem) {
    switch (elem) {
    case EL_F8E4M3:
    case EL_F8E5M2: return F8_BITS;
    case EL_BF16: return BF16_BITS;
    case EL_F16: return HALF_BITS;
    case EL_F32: return FLOAT_BITS;
    default: return DOUBLE_BITS;
    }
}

#define EX2       "tg.ex2.approx"
#define EX2_LEAST (-126) // least argument whose power is a normal number

// Results below 2^-126 are too small for f16 and f8.
static LLVMValueRef power_of_2(const Gen *g, Elem elem, LLVMValueRef x) {
    bool tiny = elem == EL_F32 || elem == EL_BF16;
    return call1(g, tiny ? EX2 : EX2 ".ftz", x);
}

static bool is_real(LLVMValueRef v, double x) {
    LLVMBool lost;
    return LLVMIsAConstantFP(v) && LLVMConstRealGetDouble(v, &lost) == x;
}

// The flushing instruction computes x < -126 ? 0 : 2^x. The exact one takes three more
// instructions.
LLVMValueRef portable_select(const Gen *g, LLVMValueRef c, LLVMValueRef x, LLVMValueRef y) {
    if (!LLVMIsACallInst(y) || !LLVMIsAFCmpInst(c) || LLVMGetFCmpPredicate(c) != LLVMRealOLT ||
        !LLVMIsAConstantFP(x) || !LLVMIsNull(x))
        return NULL;
    LLVMValueRef of = LLVMGetOperand(y, 0);
    const char *name = LLVMGetValueName(LLVMGetCalledValue(y));
    bool tiny = LLVMGetOperand(c, 0) == of && is_real(LLVMGetOperand(c, 1), EX2_LEAST);
    return tiny && strcmp(name, EX2) == 0 ? call1(g, EX2 ".ftz", of) : NULL;
}

static LLVMValueRef exp2_(const Gen *g, const Way *w, Elem elem, const LLVMValueRef *a) {
    (void)w;
    return power_of_2(g, elem, a[0]);
}

// e^x = 2^n 2^f with x log2(e) = n + f. n is clamped to -126 .. 127, so 2^n is a normal number, and
// f takes the rest. Otherwise f is from 0 to 1, where the instruction is most accurate. n + 127
// appears in the low bits of its sum with a number whose last bit is 1.
static LLVMValueRef exp_(const Gen *g, const Way *w, Elem elem, const LLVMValueRef *a) {
    enum { LEAST = -126, MOST = 127, BIAS = 127, MANTISSA = 23 };
    LLVMValueRef x = a[0], high = real_like(x, 0x1.715476p+0), low = real_like(x, 0x1.4ae0cp-26);
    (void)w;
    if (elem != EL_F32) return power_of_2(g, elem, LLVMBuildFMul(g->b, x, high, ""));
    LLVMValueRef big = real_like(x, 0x1.8p+23 + BIAS), n = fma_of(g, x, high, real_like(x, -0.5));
    n = gen_call2(g, "llvm.maxnum", n, real_like(x, LEAST));
    n = gen_call2(g, "llvm.minnum", n, real_like(x, MOST));
    LLVMValueRef sum = LLVMBuildFAdd(g->b, n, big, "");
    LLVMValueRef bits = LLVMBuildBitCast(g->b, sum, g->i32, "");
    LLVMValueRef scale = LLVMBuildShl(g->b, bits, int_like(bits, MANTISSA), "");
    n = LLVMBuildFSub(g->b, big, sum, ""); // -n
    LLVMValueRef f = fma_of(g, x, low, fma_of(g, x, high, n));
    LLVMValueRef y = call1(g, "tg.ex2.approx.ftz", f);
    return LLVMBuildFMul(g->b, y, LLVMBuildBitCast(g->b, scale, LLVMTypeOf(x), ""), "");
}

// One step of Newton: y + y / 2 (1 - x y y). If x y y is not a number, y is the result.
static LLVMValueRef rsqrt_(const Gen *g, const Way *w, Elem elem, const LLVMValueRef *a) {
    LLVMValueRef y = call1(g, "tg.rsqrt.approx", a[0]);
    (void)w;
    if (elem != EL_F32) return y;
    LLVMValueRef xy = LLVMBuildFNeg(g->b, LLVMBuildFMul(g->b, a[0], y, ""), "");
    LLVMValueRef e = fma_of(g, xy, y, real_like(y, 1));
    LLVMValueRef half = LLVMBuildFMul(g->b, y, real_like(y, 0.5), "");
    return LLVMBuildSelect(g->b, is_number(g, e), fma_of(g, half, e, y), y, "");
}

static LLVMValueRef tanh_(const Gen *g, const Way *w, Elem elem, const LLVMValueRef *a) {
    (void)w, (void)elem;
    return call1(g, "tg.tanh.approx", a[0]);
}

/* ---- tables -------------------------------------------------------------------------------- */

static const Row rows[OP_COUNT] = {
    [OP_MIN] = {CODE(lesser, LLVMIntSLT), CODE(lesser, LLVMIntULT), NONE},
    [OP_MAX] = {CODE(lesser, LLVMIntSGT), CODE(lesser, LLVMIntUGT), NONE},
    [OP_ABS] = {PLAIN(absolute), NONE, NONE},
    [OP_MULHI] = {{multiply_high, LLVMSExt, "tg.mulhi.i64"},
                  {multiply_high, LLVMZExt, "tg.mulhi.u64"},
                  NONE},
    [OP_CTZ] = {PLAIN(trailing_zeros), PLAIN(trailing_zeros), NONE},
    [OP_ROUND] = FLOAT(PLAIN(round_away)),
};

/// Approximations, and the significant bits of the floats for which they suffice.
static const struct {
    OpCode op;
    int bits;
    Way way;
} approximations[] = {
    {OP_EXP2, FLOAT_BITS, PLAIN(exp2_)},
    {OP_EXP, FLOAT_BITS, PLAIN(exp_)},
    {OP_RSQRT, FLOAT_BITS, PLAIN(rsqrt_)},
    {OP_TANH, BF16_BITS, PLAIN(tanh_)},
};

const Way *portable_way(OpCode code, Elem elem) {
    const Row *row = &rows[code];
    bool is_float = elem_is(elem, EC_FLOAT);
    for (size_t i = 0; is_float && i < sizeof approximations / sizeof *approximations; i++)
        if (approximations[i].op == code && significant(elem) <= approximations[i].bits)
            return &approximations[i].way;
    const Way *w = is_float ? &row->f : elem_is(elem, EC_SINT) ? &row->s : &row->u;
    return w->emit ? w : NULL;
}

/// Ways for operands in register form.
static const struct {
    Elem elem;
    OpCode op;
    Way way;
} narrow[] = {
    {EL_BF16, OP_ADD, CODE(bf16_fma, OP_ADD)},
    {EL_BF16, OP_SUB, CODE(bf16_fma, OP_SUB)},
    {EL_BF16, OP_MUL, CODE(bf16_fma, OP_MUL)},
    {EL_BF16, OP_FMA, CODE(bf16_fma, OP_FMA)},
    {EL_F16, OP_FMA, PLAIN(half_fma)},
    {EL_F8E4M3, OP_FMA, PLAIN(f8_fma)},
    {EL_F8E5M2, OP_FMA, PLAIN(f8_fma)},
    {EL_BF16, OP_NEG, CODE(sign_of_bits, OP_NEG)},
    {EL_BF16, OP_ABS, CODE(sign_of_bits, OP_ABS)},
};

const Way *portable_narrow_way(OpCode code, Elem elem) {
    for (size_t i = 0; i < sizeof narrow / sizeof *narrow; i++)
        if (narrow[i].op == code && narrow[i].elem == elem) return &narrow[i].way;
    return NULL;
}

/* ---- conversions --------------------------------------------------------------------------- */

/// Saturates a 32-bit integer to fewer bits.
static LLVMValueRef saturate(const Gen *g, Elem to, LLVMValueRef v) {
    int bits = elem_info[to].bits;
    bool is_signed = elem_is(to, EC_SINT);
    int64_t most = ((int64_t)1 << (bits - is_signed)) - 1;
    v = pick(g, is_signed ? LLVMIntSLT : LLVMIntULT, v, int_like(v, (uint64_t)most));
    if (is_signed) v = pick(g, LLVMIntSGT, v, int_like(v, (uint64_t)(-most - 1)));
    return LLVMBuildTrunc(g->b, v, gen_elem(g, to), "");
}

LLVMValueRef portable_to_int(const Gen *g, Elem from, Elem to, LLVMValueRef v) {
    int bits = elem_info[to].bits == 64 ? 64 : 32;
    if (bits == 64 || from == EL_F64)
        v = LLVMBuildSelect(g->b, is_number(g, v), v, real_like(v, 0), "");
    const char *name = ctx_format(g->ctx, "tg.cvt.%c%d.%s", elem_is(to, EC_SINT) ? 'i' : 'u', bits,
                                  from == EL_F64 ? "f64" : "f32");
    v = call1(g, name, v);
    return elem_info[to].bits < 32 ? saturate(g, to, v) : v;
}

LLVMValueRef portable_to_bf16(const Gen *g, LLVMValueRef v) {
    return call1(g, "tg.cvt.bf16.f32", v);
}

// Instructions convert two values at a time; the first is the lower half.
LLVMValueRef portable_to_f8(const Gen *g, Elem to, LLVMValueRef v) {
    LLVMValueRef pair[2] = {v, real_like(v, 0)};
    const char *name = ctx_format(g->ctx, "tg.cvt.%sx2.f32", elem_info[to].name);
    return LLVMBuildTrunc(g->b, portable_call(g, name, 2, pair), g->i8, "");
}

LLVMValueRef portable_from_f8(const Gen *g, Elem from, LLVMValueRef v) {
    LLVMValueRef pair = LLVMBuildZExt(g->b, v, g->i16, "");
    pair = call1(g, ctx_format(g->ctx, "tg.cvt.f16x2.%sx2", elem_info[from].name), pair);
    LLVMValueRef half = LLVMBuildTrunc(g->b, pair, g->i16, "");
    return LLVMBuildFPExt(g->b, LLVMBuildBitCast(g->b, half, g->f16, ""), g->f32, "");
}
