// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Expresses the order of a sort as the order of signed integers.
#include "backends/llvm/sort_key.h"

int gen_sort_key_bits(Elem elem) {
    if (!elem_is(elem, EC_FLOAT)) return elem == EL_BOOL ? 1 : elem_info[elem].bits;
    return elem == EL_F64 ? 64 : 32;
}

// Keys of narrow floats are bits of f32. The key of NaN is above that of inf without these bits,
// too.
int gen_sort_key_idle_bits(Elem elem) {
    static const int kept[] = {[EL_F16] = 10, [EL_BF16] = 7, [EL_F8E4M3] = 3, [EL_F8E5M2] = 2};
    int n = elem < (int)(sizeof kept / sizeof *kept) ? kept[elem] : 0;
    return n ? 23 - n : 0;
}

/// Floats compare like their bits in sign and magnitude. The magnitude of negatives is flipped.
static LLVMValueRef float_order(const Gen *g, Elem elem, LLVMValueRef x, bool descending) {
    Elem wide = elem == EL_F64 ? EL_F64 : EL_F32;
    int lanes = gen_lanes(x), bits = gen_sort_key_bits(elem);
    LLVMTypeRef scalar = LLVMIntTypeInContext(g->llvm, (unsigned)bits);
    x = gen_cast(g, elem, wide, x);
    LLVMValueRef nan = LLVMBuildFCmp(g->b, LLVMRealUNO, x, x, "");
    LLVMValueRef zero = gen_zero(g, wide, lanes);
    x = LLVMBuildSelect(g->b, LLVMBuildFCmp(g->b, LLVMRealOEQ, x, zero, ""), zero, x, "");
    LLVMValueRef i = LLVMBuildBitCast(g->b, x, gen_vec(scalar, lanes), "");
    LLVMValueRef greatest = LLVMConstInt(scalar, ~(uint64_t)0 >> (65 - bits), false);
    LLVMValueRef top = gen_same(LLVMConstInt(scalar, (uint64_t)bits - 1, false), lanes);
    LLVMValueRef sign = LLVMBuildAShr(g->b, i, top, "");
    LLVMValueRef flip = LLVMBuildAnd(g->b, sign, gen_same(greatest, lanes), "");
    i = LLVMBuildXor(g->b, i, flip, "");
    if (descending) i = LLVMBuildNot(g->b, i, "");
    return LLVMBuildSelect(g->b, nan, gen_same(greatest, lanes), i, "");
}

/// The top bit of full-width unsigned keys would be the sign, so it is inverted.
static LLVMValueRef integer_order(const Gen *g, Elem elem, LLVMValueRef x, bool descending) {
    int bits = gen_sort_key_bits(elem), lanes = gen_lanes(x);
    if (elem_is(elem, EC_BOOL | EC_UINT) && bits >= 8) {
        LLVMValueRef top = LLVMConstInt(gen_lane_type(x), (uint64_t)1 << (bits - 1), false);
        x = LLVMBuildXor(g->b, x, gen_same(top, lanes), "");
    } else if (elem == EL_BOOL) {
        x = LLVMBuildNot(g->b, x, ""); // as signed bits, false is 0 and true -1
    }
    return descending ? LLVMBuildNot(g->b, x, "") : x;
}

LLVMValueRef gen_sort_key(const Gen *g, Elem elem, LLVMValueRef x, bool descending) {
    return elem_is(elem, EC_FLOAT) ? float_order(g, elem, x, descending)
                                   : integer_order(g, elem, x, descending);
}
