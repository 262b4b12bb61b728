// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Elementwise arithmetic: a row for each op gives the computation on signed, unsigned and float
// lanes. lang/elementwise.def defines the results. No operand has an undefined result or traps.
#include "backends/llvm/elementwise_table.h"

static LLVMValueRef zero_like(LLVMValueRef v) {
    return LLVMConstNull(LLVMTypeOf(v));
}

static LLVMValueRef int_splat_like(LLVMValueRef v, uint64_t n) {
    return gen_same(LLVMConstInt(gen_lane_type(v), n, true), gen_lanes(v));
}

static LLVMValueRef real_splat_like(LLVMValueRef v, double x) {
    return gen_same(LLVMConstReal(gen_lane_type(v), x), gen_lanes(v));
}

/* ---- plain instructions -------------------------------------------------------------------- */

static LLVMValueRef emit_binary(const Gen *g, const Way *w, Elem elem, const LLVMValueRef *a) {
    (void)elem;
    return LLVMBuildBinOp(g->b, (LLVMOpcode)w->code, a[0], a[1], "");
}

/// a * b + c may become one fma. Nothing else about floats may change.
static LLVMValueRef emit_float_binary(const Gen *g, const Way *w, Elem elem,
                                      const LLVMValueRef *a) {
    LLVMValueRef v = emit_binary(g, w, elem, a);
    if (LLVMIsAInstruction(v) && elem_computes_in(elem) == elem)
        LLVMSetFastMathFlags(v, LLVMFastMathAllowContract);
    return v;
}

static LLVMValueRef emit_int_compare(const Gen *g, const Way *w, Elem elem, const LLVMValueRef *a) {
    (void)elem;
    return LLVMBuildICmp(g->b, (LLVMIntPredicate)w->code, a[0], a[1], "");
}

static LLVMValueRef emit_float_compare(const Gen *g, const Way *w, Elem elem,
                                       const LLVMValueRef *a) {
    (void)elem;
    return LLVMBuildFCmp(g->b, (LLVMRealPredicate)w->code, a[0], a[1], "");
}

static LLVMValueRef emit_intrinsic1(const Gen *g, const Way *w, Elem elem, const LLVMValueRef *a) {
    (void)elem;
    return gen_call1(g, w->name, a[0]);
}

static LLVMValueRef emit_intrinsic2(const Gen *g, const Way *w, Elem elem, const LLVMValueRef *a) {
    (void)elem;
    return gen_call2(g, w->name, a[0], a[1]);
}

static LLVMValueRef emit_intrinsic3(const Gen *g, const Way *w, Elem elem, const LLVMValueRef *a) {
    (void)elem;
    LLVMTypeRef type = LLVMTypeOf(a[0]);
    LLVMValueRef args[3] = {a[0], a[1], a[2]};
    return gen_intrinsic(g, w->name, 1, &type, 3, args);
}

/// Rounding to an integer; w->code is the op.
static LLVMValueRef emit_rounding(const Gen *g, const Way *w, Elem elem, const LLVMValueRef *a) {
    (void)elem;
    return g->soft_round ? soft_round(g, (OpCode)w->code, a[0]) : gen_call1(g, w->name, a[0]);
}

/// In f32 a sum of narrower operands would be rounded twice.
static LLVMValueRef emit_fma(const Gen *g, const Way *w, Elem elem, const LLVMValueRef *a) {
    if (elem != elem_computes_in(elem))
        return gen_f64_to_odd(g, gen_fma_to_odd(g, a[0], a[1], a[2]));
    bool soft = g->soft_fma && elem != EL_F64;
    return soft ? soft_fma(g, a[0], a[1], a[2]) : emit_intrinsic3(g, w, elem, a);
}

/// Calls intrinsics whose second operand is a flag "undefined for a special case"; the flag is
/// false.
static LLVMValueRef intrinsic_total(const Gen *g, const Way *w, Elem elem, const LLVMValueRef *a) {
    (void)elem;
    LLVMTypeRef type = LLVMTypeOf(a[0]);
    LLVMValueRef args[2] = {a[0], LLVMConstInt(g->i1, 0, false)};
    return gen_intrinsic(g, w->name, 1, &type, 2, args);
}

static LLVMValueRef emit_itself(const Gen *g, const Way *w, Elem elem, const LLVMValueRef *a) {
    (void)g, (void)w, (void)elem;
    return a[0];
}

static LLVMValueRef emit_negate(const Gen *g, const Way *w, Elem elem, const LLVMValueRef *a) {
    (void)w, (void)elem;
    return LLVMBuildNeg(g->b, a[0], "");
}

static LLVMValueRef emit_float_negate(const Gen *g, const Way *w, Elem elem,
                                      const LLVMValueRef *a) {
    (void)w, (void)elem;
    return LLVMBuildFNeg(g->b, a[0], "");
}

static LLVMValueRef emit_invert(const Gen *g, const Way *w, Elem elem, const LLVMValueRef *a) {
    (void)w, (void)elem;
    return LLVMBuildNot(g->b, a[0], "");
}

/* ---- guarded instructions ------------------------------------------------------------------ */

/// Divides vectors of integers up to 32 bits as floats that hold them exactly. The quotient's error
/// stays below the distance to the next integer, and no vector instruction divides integers.
static LLVMValueRef divide_as_floats(const Gen *g, bool is_signed, Elem elem, LLVMValueRef x,
                                     LLVMValueRef y) {
    int lanes = gen_lanes(x);
    LLVMTypeRef type = gen_vec(elem_info[elem].bits > 16 ? g->f64 : g->f32, lanes);
    LLVMTypeRef back = LLVMTypeOf(x);
    if (is_signed)
        return LLVMBuildFPToSI(g->b,
                               LLVMBuildFDiv(g->b, LLVMBuildSIToFP(g->b, x, type, ""),
                                             LLVMBuildSIToFP(g->b, y, type, ""), ""),
                               back, "");
    return LLVMBuildFPToUI(g->b,
                           LLVMBuildFDiv(g->b, LLVMBuildUIToFP(g->b, x, type, ""),
                                         LLVMBuildUIToFP(g->b, y, type, ""), ""),
                           back, "");
}

/// Returns y, or 1 if x / y is special: y = 0, or the least integer over -1 (whose result is the
/// least integer).
static LLVMValueRef safe_divisor(const Gen *g, bool is_signed, Elem elem, LLVMValueRef x,
                                 LLVMValueRef y) {
    LLVMValueRef bad = LLVMBuildICmp(g->b, LLVMIntEQ, y, zero_like(y), "");
    if (is_signed) {
        uint64_t least = (uint64_t)-1 << (elem_info[elem].bits - 1);
        LLVMValueRef a = LLVMBuildICmp(g->b, LLVMIntEQ, x, int_splat_like(x, least), "");
        LLVMValueRef b = LLVMBuildICmp(g->b, LLVMIntEQ, y, int_splat_like(y, (uint64_t)-1), "");
        bad = LLVMBuildOr(g->b, bad, LLVMBuildAnd(g->b, a, b, ""), "");
    }
    return LLVMBuildSelect(g->b, bad, int_splat_like(y, 1), y, "");
}

static LLVMValueRef build_quotient(const Gen *g, const Way *w, Elem elem, LLVMValueRef x,
                                   LLVMValueRef safe) {
    bool is_signed = w->code == LLVMSDiv;
    if (gen_lanes(x) && elem_info[elem].bits <= 32 && !LLVMIsConstant(safe))
        return divide_as_floats(g, is_signed, elem, x, safe);
    return LLVMBuildBinOp(g->b, (LLVMOpcode)w->code, x, safe, "");
}

static LLVMValueRef emit_divide(const Gen *g, const Way *w, Elem elem, const LLVMValueRef *a) {
    LLVMValueRef safe = safe_divisor(g, w->code == LLVMSDiv, elem, a[0], a[1]);
    LLVMValueRef by0 = LLVMBuildICmp(g->b, LLVMIntEQ, a[1], zero_like(a[1]), "");
    return LLVMBuildSelect(g->b, by0, zero_like(a[0]), build_quotient(g, w, elem, a[0], safe), "");
}

/// x - (x / y) y with the safe divisor. For y = 0 it is x - x / 1 * 1 = 0.
static LLVMValueRef remainder_(const Gen *g, const Way *w, Elem elem, const LLVMValueRef *a) {
    LLVMValueRef safe = safe_divisor(g, w->code == LLVMSDiv, elem, a[0], a[1]);
    LLVMValueRef q = build_quotient(g, w, elem, a[0], safe);
    return LLVMBuildSub(g->b, a[0], LLVMBuildMul(g->b, q, safe, ""), "");
}

/// A shift by at least the width gives 0, or the sign. LLVM 22's NVPTX turns a count that `select`
/// limits into one instruction, which reads only the low 32 bits of the count. The mask prevents
/// this.
static LLVMValueRef emit_shift(const Gen *g, const Way *w, Elem elem, const LLVMValueRef *a) {
    LLVMValueRef width = int_splat_like(a[1], (uint64_t)elem_info[elem].bits);
    LLVMValueRef most = int_splat_like(a[1], (uint64_t)elem_info[elem].bits - 1);
    LLVMValueRef ok = LLVMBuildICmp(g->b, LLVMIntULT, a[1], width, "");
    if (w->code == LLVMAShr)
        return LLVMBuildAShr(g->b, a[0], LLVMBuildSelect(g->b, ok, a[1], most, ""), "");
    LLVMValueRef by = LLVMBuildAnd(g->b, a[1], most, "");
    LLVMValueRef v = LLVMBuildBinOp(g->b, (LLVMOpcode)w->code, a[0], by, "");
    return LLVMBuildSelect(g->b, ok, v, zero_like(v), "");
}

static LLVMValueRef emit_multiply_high(const Gen *g, const Way *w, Elem elem,
                                       const LLVMValueRef *a) {
    unsigned bits = (unsigned)elem_info[elem].bits;
    LLVMTypeRef type = LLVMTypeOf(a[0]);
    LLVMTypeRef wide = gen_vec(LLVMIntTypeInContext(g->llvm, 2 * bits), gen_lanes(a[0]));
    LLVMOpcode ext = (LLVMOpcode)w->code;
    LLVMValueRef p = LLVMBuildMul(g->b, LLVMBuildCast(g->b, ext, a[0], wide, ""),
                                  LLVMBuildCast(g->b, ext, a[1], wide, ""), "");
    return LLVMBuildTrunc(g->b, LLVMBuildLShr(g->b, p, int_splat_like(p, bits), ""), type, "");
}

/* ---- floats -------------------------------------------------------------------------------- */

static LLVMValueRef compare_size(const Gen *g, const Way *w, Elem elem, const LLVMValueRef *a) {
    (void)elem;
    LLVMValueRef inf = real_splat_like(a[0], __builtin_inf());
    return LLVMBuildFCmp(g->b, (LLVMRealPredicate)w->code, gen_call1(g, "llvm.fabs", a[0]), inf,
                         "");
}

static LLVMValueRef emit_is_nan(const Gen *g, const Way *w, Elem elem, const LLVMValueRef *a) {
    (void)w, (void)elem;
    return LLVMBuildFCmp(g->b, LLVMRealUNO, a[0], a[0], "");
}

static LLVMValueRef sign_bit(const Gen *g, const Way *w, Elem elem, const LLVMValueRef *a) {
    (void)w;
    LLVMTypeRef type = gen_vec(elem == EL_F64 ? g->i64 : g->i32, gen_lanes(a[0]));
    LLVMValueRef bits = LLVMBuildBitCast(g->b, a[0], type, "");
    return LLVMBuildICmp(g->b, LLVMIntSLT, bits, zero_like(bits), "");
}

static LLVMValueRef reciprocal_root(const Gen *g, const Way *w, Elem elem, const LLVMValueRef *a) {
    (void)w, (void)elem;
    return LLVMBuildFDiv(g->b, real_splat_like(a[0], 1), gen_call1(g, "llvm.sqrt", a[0]), "");
}

/* ---- the table ----------------------------------------------------------------------------- */

#define CALL1(n)                                                                                   \
    { emit_intrinsic1, 0, n }
#define CALL2(n)                                                                                   \
    { emit_intrinsic2, 0, n }
#define FUSED(n)                                                                                   \
    { emit_fma, 0, n }
#define ROUND(op, n)                                                                               \
    { emit_rounding, op, n }
#define TOTAL(n)                                                                                   \
    { intrinsic_total, 0, n }

static const Row rows[OP_COUNT] = {
    [OP_ADD] = {CODE(emit_binary, LLVMAdd), CODE(emit_binary, LLVMAdd),
                CODE(emit_float_binary, LLVMFAdd)},
    [OP_SUB] = {CODE(emit_binary, LLVMSub), CODE(emit_binary, LLVMSub),
                CODE(emit_float_binary, LLVMFSub)},
    [OP_MUL] = {CODE(emit_binary, LLVMMul), CODE(emit_binary, LLVMMul),
                CODE(emit_float_binary, LLVMFMul)},
    [OP_DIV] = {CODE(emit_divide, LLVMSDiv), CODE(emit_divide, LLVMUDiv),
                CODE(emit_float_binary, LLVMFDiv)},
    [OP_REM] = {CODE(remainder_, LLVMSDiv), CODE(remainder_, LLVMUDiv), NONE},
    [OP_MIN] = {CALL2("llvm.smin"), CALL2("llvm.umin"), CALL2("llvm.minnum")},
    [OP_MAX] = {CALL2("llvm.smax"), CALL2("llvm.umax"), CALL2("llvm.maxnum")},
    [OP_AND] = {CODE(emit_binary, LLVMAnd), CODE(emit_binary, LLVMAnd), NONE},
    [OP_OR] = {CODE(emit_binary, LLVMOr), CODE(emit_binary, LLVMOr), NONE},
    [OP_XOR] = {CODE(emit_binary, LLVMXor), CODE(emit_binary, LLVMXor), NONE},
    [OP_SHL] = {CODE(emit_shift, LLVMShl), CODE(emit_shift, LLVMShl), NONE},
    [OP_SHR] = {CODE(emit_shift, LLVMAShr), CODE(emit_shift, LLVMLShr), NONE},
    [OP_NOT] = {PLAIN(emit_invert), PLAIN(emit_invert), NONE},
    [OP_NEG] = {PLAIN(emit_negate), PLAIN(emit_negate), PLAIN(emit_float_negate)},
    [OP_ABS] = {TOTAL("llvm.abs"), PLAIN(emit_itself), CALL1("llvm.fabs")},
    [OP_MULHI] = {CODE(emit_multiply_high, LLVMSExt), CODE(emit_multiply_high, LLVMZExt), NONE},
    [OP_POPCOUNT] = {CALL1("llvm.ctpop"), CALL1("llvm.ctpop"), NONE},
    [OP_CLZ] = {TOTAL("llvm.ctlz"), TOTAL("llvm.ctlz"), NONE},
    [OP_CTZ] = {TOTAL("llvm.cttz"), TOTAL("llvm.cttz"), NONE},
    [OP_EQ] = {CODE(emit_int_compare, LLVMIntEQ), CODE(emit_int_compare, LLVMIntEQ),
               CODE(emit_float_compare, LLVMRealOEQ)},
    [OP_NE] = {CODE(emit_int_compare, LLVMIntNE), CODE(emit_int_compare, LLVMIntNE),
               CODE(emit_float_compare, LLVMRealUNE)},
    [OP_LT] = {CODE(emit_int_compare, LLVMIntSLT), CODE(emit_int_compare, LLVMIntULT),
               CODE(emit_float_compare, LLVMRealOLT)},
    [OP_LE] = {CODE(emit_int_compare, LLVMIntSLE), CODE(emit_int_compare, LLVMIntULE),
               CODE(emit_float_compare, LLVMRealOLE)},
    [OP_GT] = {CODE(emit_int_compare, LLVMIntSGT), CODE(emit_int_compare, LLVMIntUGT),
               CODE(emit_float_compare, LLVMRealOGT)},
    [OP_GE] = {CODE(emit_int_compare, LLVMIntSGE), CODE(emit_int_compare, LLVMIntUGE),
               CODE(emit_float_compare, LLVMRealOGE)},
    [OP_ISNAN] = FLOAT(PLAIN(emit_is_nan)),
    [OP_ISINF] = FLOAT(CODE(compare_size, LLVMRealOEQ)),
    [OP_ISFINITE] = FLOAT(CODE(compare_size, LLVMRealOLT)),
    [OP_SIGNBIT] = FLOAT(PLAIN(sign_bit)),
    [OP_FMA] = FLOAT(FUSED("llvm.fma")),
    [OP_SQRT] = FLOAT(CALL1("llvm.sqrt")),
    [OP_FLOOR] = FLOAT(ROUND(OP_FLOOR, "llvm.floor")),
    [OP_CEIL] = FLOAT(ROUND(OP_CEIL, "llvm.ceil")),
    [OP_TRUNC] = FLOAT(ROUND(OP_TRUNC, "llvm.trunc")),
    [OP_RINT] = FLOAT(ROUND(OP_RINT, "llvm.rint")),
    [OP_ROUND] = FLOAT(ROUND(OP_ROUND, "llvm.round")),
    [OP_COPYSIGN] = FLOAT(CALL2("llvm.copysign")),
    [OP_RSQRT] = FLOAT(PLAIN(reciprocal_root)),
};

static const Way *find_way(OpCode code, Elem elem) {
    if (elem_is(elem, EC_FLOAT)) return &rows[code].f;
    return elem_is(elem, EC_SINT) ? &rows[code].s : &rows[code].u;
}

bool gen_has_elementwise(OpCode code, Elem elem) {
    return find_way(code, elem)->emit != NULL;
}

bool gen_portable_has(const struct GpuTarget *target, OpCode code, Elem elem) {
    (void)target;
    return portable_narrow_way(code, elem) || portable_way(code, elem) ||
           gen_has_elementwise(code, elem);
}

/// Returns a value that must still be narrowed to elem, unless the op compares.
static LLVMValueRef compute_wide(const Gen *g, OpCode code, Elem elem, const LLVMValueRef *args) {
    const Way *w = g->portable ? portable_way(code, elem) : NULL;
    const OpInfo *info = &op_info[code];
    if (!w) w = find_way(code, elem);
    if (!w->emit)
        ice(g->ctx, (Loc){0}, "%s of %s was not expanded", info->name, elem_info[elem].name);
    LLVMValueRef wide[3];
    for (int i = 0; i < info->n_operands; i++) wide[i] = gen_widen(g, elem, args[i]);
    return w->emit(g, w, elem, wide);
}

LLVMValueRef gen_elementwise(const Gen *g, OpCode code, Elem elem, const LLVMValueRef *args) {
    const Way *w = g->portable ? portable_narrow_way(code, elem) : NULL;
    if (w) return w->emit(g, w, elem, args);
    LLVMValueRef v = compute_wide(g, code, elem, args);
    return op_info[code].traits & COMPARES ? v : gen_narrow(g, elem, v);
}

void gen_elementwise_all(const Gen *g, OpCode code, Elem elem, int n, LLVMValueRef *const *args,
                         LLVMValueRef *out) {
    bool pairs = portable_has_pair(g, code, elem), compares = op_info[code].traits & COMPARES;
    // The last rounding is shared if nothing else is.
    bool share = !pairs && !compares && !(g->portable && portable_narrow_way(code, elem));
    for (int i = 0; i < n; i++) {
        LLVMValueRef x[3];
        if (pairs && i + 1 < n) {
            portable_pair(g, code, elem, args, i, out + i);
            i++;
            continue;
        }
        for (int k = 0; k < op_info[code].n_operands; k++) x[k] = args[k][i];
        out[i] = share ? compute_wide(g, code, elem, x) : gen_elementwise(g, code, elem, x);
    }
    if (share) gen_narrow_all(g, elem, n, out, out);
}

LLVMValueRef gen_select(const Gen *g, LLVMValueRef c, LLVMValueRef x, LLVMValueRef y) {
    LLVMValueRef one = g->portable ? portable_select(g, c, x, y) : NULL;
    if (one) return one;
    return x == y ? x : LLVMBuildSelect(g->b, c, x, y, "");
}

/* ---- monoids ------------------------------------------------------------------------------- */

static LLVMValueRef least_constant(const Gen *g, Elem elem, bool greatest) {
    unsigned bits = (unsigned)elem_info[elem].bits;
    uint64_t ones = bits == 64 ? ~(uint64_t)0 : ((uint64_t)1 << bits) - 1;
    uint64_t top = (uint64_t)1 << (bits - 1);
    if (elem_is(elem, EC_SINT))
        return LLVMConstInt(gen_elem(g, elem), greatest ? top - 1 : (uint64_t)0 - top, true);
    return LLVMConstInt(gen_elem(g, elem), greatest ? ones : 0, false);
}

// NaN is the neutral element of min and max on floats, because they return the number.
LLVMValueRef gen_identity(const Gen *g, OpCode monoid, Elem elem) {
    LLVMTypeRef type = gen_elem(g, elem);
    if (elem_is(elem, EC_FLOAT)) {
        double value = monoid == OP_ADD ? -0.0 : monoid == OP_MUL ? 1 : __builtin_nan("");
        return gen_real(g, elem, value);
    }
    switch (monoid) {
    case OP_MUL: return LLVMConstInt(type, 1, false);
    case OP_AND: return LLVMConstAllOnes(type);
    case OP_MIN:
    case OP_MAX: return least_constant(g, elem, monoid == OP_MIN);
    default: return LLVMConstNull(type);
    }
}
