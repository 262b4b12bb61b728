// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Arithmetic of portable modules on two registers of a block at once. GPUs have instructions for
// pairs of 16-bit floats, some for pairs of f32, and conversions that take or return pairs. A pair
// is an i32 (an i16 for two f8) with the first value in its lower half; a pair of f32 is a vector.
// It is split at once, since blocks are scalars. If its halves meet again, the split is removed.
#include "backends/llvm/elementwise_table.h"
#include "backends/llvm/portable.h"

static LLVMValueRef int_of(LLVMTypeRef type, uint64_t n) {
    return LLVMConstInt(type, n, false);
}

/// Whether v is the bits from `shift` on of some wider x. Stores x.
static bool is_part(LLVMValueRef v, unsigned shift, LLVMValueRef *x) {
    if (!LLVMIsATruncInst(v)) return false;
    *x = LLVMGetOperand(v, 0);
    if (!shift) return true;
    if (!LLVMIsAInstruction(*x) || LLVMGetInstructionOpcode(*x) != LLVMLShr) return false;
    LLVMValueRef by = LLVMGetOperand(*x, 1);
    *x = LLVMGetOperand(*x, 0);
    return LLVMIsAConstantInt(by) && LLVMConstIntGetZExtValue(by) == shift;
}

/// Returns v without a cast from an integer.
static LLVMValueRef bits_of(const Gen *g, LLVMValueRef v) {
    if (LLVMTypeOf(v) != g->f16) return v;
    if (LLVMIsABitCastInst(v)) return LLVMGetOperand(v, 0);
    return LLVMBuildBitCast(g->b, v, g->i16, "");
}

static LLVMValueRef join(const Gen *g, LLVMTypeRef type, LLVMValueRef lo, LLVMValueRef hi) {
    unsigned half = LLVMGetIntTypeWidth(type) / 2;
    LLVMValueRef x, y;
    lo = bits_of(g, lo), hi = bits_of(g, hi);
    if (is_part(lo, 0, &x) && is_part(hi, half, &y) && x == y && LLVMTypeOf(x) == type) return x;
    hi = LLVMBuildShl(g->b, LLVMBuildZExt(g->b, hi, type, ""), int_of(type, half), "");
    return LLVMBuildOr(g->b, LLVMBuildZExt(g->b, lo, type, ""), hi, "");
}

static void part(const Gen *g, LLVMValueRef v, LLVMTypeRef type, LLVMValueRef out[2]) {
    LLVMTypeRef whole = LLVMTypeOf(v);
    unsigned half = LLVMGetIntTypeWidth(whole) / 2;
    LLVMTypeRef bits = LLVMIntTypeInContext(g->llvm, half);
    LLVMValueRef upper = LLVMBuildLShr(g->b, v, int_of(whole, half), "");
    out[0] = LLVMBuildTrunc(g->b, v, bits, "");
    out[1] = LLVMBuildTrunc(g->b, upper, bits, "");
    for (int i = 0; i < 2 && type != bits; i++) out[i] = LLVMBuildBitCast(g->b, out[i], type, "");
}

/* ---- arithmetic ---------------------------------------------------------------------------- */

typedef struct PairWay {
    Elem elem;
    OpCode op;
    LLVMValueRef (*emit)(const Gen *g, const struct PairWay *w, LLVMValueRef *a);
    const char *name;
} PairWay;

/// See bf16_fma in gpu_arithmetic.c.
static LLVMValueRef bf16_fma(const Gen *g, const PairWay *w, LLVMValueRef *a) {
    enum { ONES = 0x3f803f80 };
    LLVMValueRef minus_ones = int_of(g->i32, ONES | 0x80008000u);
    LLVMValueRef args[3] = {a[0], a[1], a[1]};
    switch (w->op) {
    case OP_ADD: args[1] = int_of(g->i32, ONES); break;
    case OP_SUB: args[0] = a[1], args[1] = minus_ones, args[2] = a[0]; break;
    case OP_MUL: args[2] = int_of(g->i32, 0x80008000u); break;
    default: args[2] = a[2]; break;
    }
    return portable_call(g, "tg.fma.bf16x2", 3, args);
}

static LLVMValueRef by_row(const Gen *g, const PairWay *w, LLVMValueRef *a) {
    return portable_call(g, w->name, 2, a);
}

static LLVMValueRef sign_bits(const Gen *g, const PairWay *w, LLVMValueRef *a) {
    return w->op == OP_NEG ? LLVMBuildXor(g->b, a[0], int_of(g->i32, 0x80008000u), "")
                           : LLVMBuildAnd(g->b, a[0], int_of(g->i32, 0x7fff7fffu), "");
}

/* ---- pairs of f32 -------------------------------------------------------------------------- */

/// Whether v is element i of a pair. Stores the pair.
static bool is_element(const Gen *g, LLVMValueRef v, uint64_t i, LLVMValueRef *pair) {
    if (!LLVMIsAExtractElementInst(v)) return false;
    *pair = LLVMGetOperand(v, 0);
    LLVMValueRef at = LLVMGetOperand(v, 1);
    return LLVMTypeOf(*pair) == LLVMVectorType(g->f32, 2) && LLVMIsAConstantInt(at) &&
           LLVMConstIntGetZExtValue(at) == i;
}

static LLVMValueRef pair_of(const Gen *g, LLVMValueRef lo, LLVMValueRef hi) {
    LLVMValueRef x[2] = {lo, hi}, a, b;
    if (is_element(g, lo, 0, &a) && is_element(g, hi, 1, &b) && a == b) return a;
    if (LLVMIsConstant(lo) && LLVMIsConstant(hi)) return LLVMConstVector(x, 2);
    LLVMValueRef v = LLVMGetUndef(LLVMVectorType(g->f32, 2));
    for (int i = 0; i < 2; i++)
        v = LLVMBuildInsertElement(g->b, v, x[i], int_of(g->i32, (uint64_t)i), "");
    return v;
}

/// Uses the way of one element, whose instructions also take vectors.
static void pair_f32(const Gen *g, OpCode code, LLVMValueRef *const *args, int at,
                     LLVMValueRef out[2]) {
    LLVMValueRef x[3];
    for (int k = 0; k < op_info[code].n_operands; k++)
        x[k] = pair_of(g, args[k][at], args[k][at + 1]);
    LLVMValueRef v = gen_elementwise(g, code, EL_F32, x);
    for (int i = 0; i < 2; i++)
        out[i] = LLVMBuildExtractElement(g->b, v, int_of(g->i32, (uint64_t)i), "");
}

static bool has_pair_f32(const Gen *g, OpCode code) {
    return g->pairs && (code == OP_ADD || code == OP_SUB || code == OP_MUL || code == OP_FMA);
}

/* ---- pairs of 16 bits ---------------------------------------------------------------------- */

/// Returns bits as two halves. For constants the result is a constant, not an expression.
static LLVMValueRef halves_of(const Gen *g, LLVMValueRef bits) {
    LLVMValueRef x[2];
    if (!LLVMIsAConstantInt(bits))
        return LLVMBuildBitCast(g->b, bits, LLVMVectorType(g->f16, 2), "");
    part(g, bits, g->f16, x);
    return LLVMConstVector(x, 2);
}

static LLVMValueRef halves(const Gen *g, const PairWay *w, LLVMValueRef *a) {
    LLVMTypeRef type = LLVMVectorType(g->f16, 2);
    LLVMValueRef x[3], v;
    for (int i = 0; i < op_info[w->op].n_operands; i++) x[i] = halves_of(g, a[i]);
    switch (w->op) {
    case OP_ADD: v = LLVMBuildFAdd(g->b, x[0], x[1], ""); break;
    case OP_SUB: v = LLVMBuildFSub(g->b, x[0], x[1], ""); break;
    case OP_MUL: v = LLVMBuildFMul(g->b, x[0], x[1], ""); break;
    default: v = gen_intrinsic(g, "llvm.fma", 1, &type, 3, x); break;
    }
    return LLVMBuildBitCast(g->b, v, g->i32, "");
}

static const PairWay ways[] = {
    {EL_BF16, OP_ADD, bf16_fma, NULL},
    {EL_BF16, OP_SUB, bf16_fma, NULL},
    {EL_BF16, OP_MUL, bf16_fma, NULL},
    {EL_BF16, OP_FMA, bf16_fma, NULL},
    {EL_BF16, OP_MIN, by_row, "tg.min.bf16x2"},
    {EL_BF16, OP_MAX, by_row, "tg.max.bf16x2"},
    {EL_BF16, OP_NEG, sign_bits, NULL},
    {EL_BF16, OP_ABS, sign_bits, NULL},
    {EL_F16, OP_ADD, halves, NULL},
    {EL_F16, OP_SUB, halves, NULL},
    {EL_F16, OP_MUL, halves, NULL},
    {EL_F16, OP_FMA, halves, NULL},
    {EL_F16, OP_MIN, by_row, "tg.min.f16x2"},
    {EL_F16, OP_MAX, by_row, "tg.max.f16x2"},
    {EL_F16, OP_NEG, sign_bits, NULL},
    {EL_F16, OP_ABS, sign_bits, NULL},
};

static const PairWay *find(const Gen *g, OpCode code, Elem elem) {
    for (size_t i = 0; g->portable && i < sizeof ways / sizeof *ways; i++)
        if (ways[i].op == code && ways[i].elem == elem) return &ways[i];
    return NULL;
}

bool portable_has_pair(const Gen *g, OpCode code, Elem elem) {
    return elem == EL_F32 ? has_pair_f32(g, code) : find(g, code, elem) != NULL;
}

void portable_pair(const Gen *g, OpCode code, Elem elem, LLVMValueRef *const *args, int at,
                   LLVMValueRef out[2]) {
    if (elem == EL_F32) {
        pair_f32(g, code, args, at, out);
        return;
    }
    const PairWay *w = find(g, code, elem);
    LLVMValueRef pairs[3];
    for (int k = 0; k < op_info[code].n_operands; k++)
        pairs[k] = join(g, g->i32, args[k][at], args[k][at + 1]);
    part(g, w->emit(g, w, pairs), gen_elem(g, elem), out);
}

/* ---- conversions --------------------------------------------------------------------------- */

static bool is_f8(Elem elem) {
    return elem == EL_F8E4M3 || elem == EL_F8E5M2;
}

bool portable_narrow_pair(const Gen *g, Elem elem, const LLVMValueRef in[2], LLVMValueRef out[2]) {
    LLVMValueRef args[2] = {in[0], in[1]};
    if (!g->portable || (elem != EL_F16 && elem != EL_BF16 && !(is_f8(elem) && g->f8)))
        return false;
    const char *name = ctx_format(g->ctx, "tg.cvt.%sx2.f32", elem_info[elem].name);
    part(g, portable_call(g, name, 2, args), gen_elem(g, elem), out);
    return true;
}

bool portable_widen_pair(const Gen *g, Elem elem, LLVMValueRef v[2]) {
    if (!g->portable || !is_f8(elem) || !g->f8) return false;
    LLVMValueRef pair = join(g, g->i16, v[0], v[1]);
    const char *name = ctx_format(g->ctx, "tg.cvt.f16x2.%sx2", elem_info[elem].name);
    part(g, portable_call(g, name, 1, &pair), g->f16, v);
    return true;
}
