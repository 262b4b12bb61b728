// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Types, constants and small building blocks of LLVM code.
#include <string.h>

#include "backends/llvm/llvm.h"
#include "ir/eval.h"

static void release_llvm_context(void *thing) {
    LLVMContextDispose(thing);
}
static void release_builder(void *thing) {
    LLVMDisposeBuilder(thing);
}

/// Reports errors of code generation, for which LLVM would end the process.
static void on_diagnostic(LLVMDiagnosticInfoRef info, void *ctx) {
    if (LLVMGetDiagInfoSeverity(info) != LLVMDSError) return;
    char *text = LLVMGetDiagInfoDescription(info);
    const char *copy = ctx_format(ctx, "%s", text);
    LLVMDisposeMessage(text);
    ice((Ctx *)ctx, (Loc){0}, "LLVM: %s", copy);
}

// The context may outlive the module (ORC takes the module over), so the module is released with
// its context, not here.
Gen *gen_create(Ctx *ctx, const char *name) {
    LLVMContextRef llvm = LLVMContextCreate();
    ctx_defer(ctx, release_llvm_context, llvm);
    LLVMContextSetDiagnosticHandler(llvm, on_diagnostic, ctx);
    return gen_create_in(ctx, llvm, name);
}

Gen *gen_create_in(Ctx *ctx, LLVMContextRef llvm, const char *name) {
    Gen *g = ctx_new(ctx, Gen);
    g->ctx = ctx;
    g->llvm = llvm;
    g->module = LLVMModuleCreateWithNameInContext(name, g->llvm);
    g->b = LLVMCreateBuilderInContext(g->llvm);
    ctx_defer(ctx, release_builder, g->b);
    g->void_ = LLVMVoidTypeInContext(g->llvm);
    g->i1 = LLVMInt1TypeInContext(g->llvm);
    g->i8 = LLVMInt8TypeInContext(g->llvm);
    g->i16 = LLVMInt16TypeInContext(g->llvm);
    g->i32 = LLVMInt32TypeInContext(g->llvm);
    g->i64 = LLVMInt64TypeInContext(g->llvm);
    g->f16 = LLVMHalfTypeInContext(g->llvm);
    g->f32 = LLVMFloatTypeInContext(g->llvm);
    g->f64 = LLVMDoubleTypeInContext(g->llvm);
    g->ptr = LLVMPointerTypeInContext(g->llvm, 0);
    return g;
}

const char *gen_path(const Gen *g, uint16_t file) {
    const char *path = ctx_source_path(g->ctx, file);
    size_t n = g->strip ? strlen(g->strip) : 0;
    return n && strncmp(path, g->strip, n) == 0 ? path + n : path;
}

/* ---- types --------------------------------------------------------------------------------- */

LLVMTypeRef gen_elem(const Gen *g, Elem elem) {
    switch (elem) {
    case EL_BOOL: return g->i1;
    case EL_F16: return g->f16;
    case EL_F32: return g->f32;
    case EL_F64: return g->f64;
    default: return LLVMIntTypeInContext(g->llvm, (unsigned)elem_bytes(elem) * 8);
    }
}

LLVMTypeRef gen_mem_elem(const Gen *g, Elem elem) {
    return elem == EL_BOOL ? g->i8 : gen_elem(g, elem);
}

int elem_bytes(Elem elem) {
    return (elem_info[elem].bits + 7) / 8;
}

int gen_lanes(LLVMValueRef v) {
    LLVMTypeRef t = LLVMTypeOf(v);
    return LLVMGetTypeKind(t) == LLVMVectorTypeKind ? (int)LLVMGetVectorSize(t) : 0;
}

LLVMTypeRef gen_vec(LLVMTypeRef scalar, int lanes) {
    return lanes ? LLVMVectorType(scalar, (unsigned)lanes) : scalar;
}

LLVMTypeRef gen_lane_type(LLVMValueRef v) {
    LLVMTypeRef t = LLVMTypeOf(v);
    return LLVMGetTypeKind(t) == LLVMVectorTypeKind ? LLVMGetElementType(t) : t;
}

/* ---- constants ----------------------------------------------------------------------------- */

LLVMValueRef gen_i64(const Gen *g, int64_t v) {
    return LLVMConstInt(g->i64, (uint64_t)v, true);
}

LLVMValueRef gen_same(LLVMValueRef constant, int lanes) {
    LLVMValueRef same[MAX_LANES];
    if (!lanes) return constant;
    for (int i = 0; i < lanes; i++) same[i] = constant;
    return LLVMConstVector(same, (unsigned)lanes);
}

/// Rounded here, once for all targets: their conversions may be calls.
static LLVMValueRef gen_cell(const Gen *g, Elem elem, Cell c) {
    LLVMTypeRef type = gen_elem(g, elem);
    if (elem == EL_F16 || elem == EL_F32 || elem == EL_F64) return LLVMConstReal(type, c.f);
    return LLVMConstInt(type, elem_is(elem, EC_FLOAT) ? cell_bits(elem, c) : c.u, true);
}

LLVMValueRef gen_const(const Gen *g, Elem elem, const Attr *a) {
    return gen_cell(g, elem, cell_of_attr(elem, a));
}

LLVMValueRef gen_real(const Gen *g, Elem elem, double value) {
    return gen_cell(g, elem, cell_wrap(elem, (Cell){.f = value}));
}

LLVMValueRef gen_zero(const Gen *g, Elem elem, int lanes) {
    return LLVMConstNull(gen_vec(gen_elem(g, elem), lanes));
}

LLVMValueRef gen_iota(const Gen *g, int lanes) {
    LLVMValueRef v[MAX_LANES];
    for (int i = 0; i < lanes; i++) v[i] = gen_i64(g, i);
    return LLVMConstVector(v, (unsigned)lanes);
}

LLVMValueRef gen_first_lanes(const Gen *g, int live, int lanes) {
    LLVMValueRef v[MAX_LANES];
    for (int i = 0; i < lanes; i++) v[i] = LLVMConstInt(g->i1, i < live, false);
    return LLVMConstVector(v, (unsigned)lanes);
}

/* ---- vectors ------------------------------------------------------------------------------- */

LLVMValueRef gen_splat(const Gen *g, LLVMValueRef v, int lanes) {
    if (!lanes || gen_lanes(v)) return v;
    LLVMTypeRef type = LLVMVectorType(LLVMTypeOf(v), (unsigned)lanes);
    if (LLVMIsConstant(v)) return gen_same(v, lanes);
    LLVMValueRef one = LLVMBuildInsertElement(g->b, LLVMGetPoison(type), v, gen_i64(g, 0), "");
    LLVMValueRef zeros = LLVMConstNull(LLVMVectorType(g->i32, (unsigned)lanes));
    return LLVMBuildShuffleVector(g->b, one, LLVMGetPoison(type), zeros, "");
}

int gen_unify(const Gen *g, int n, LLVMValueRef *args) {
    int lanes = 0;
    for (int i = 0; i < n; i++) {
        int l = gen_lanes(args[i]);
        if (l) lanes = l;
    }
    for (int i = 0; i < n; i++) args[i] = gen_splat(g, args[i], lanes);
    return lanes;
}

LLVMValueRef gen_shuffle(const Gen *g, LLVMValueRef x, LLVMValueRef y, int n, const int *pick) {
    LLVMValueRef lane[MAX_LANES];
    for (int i = 0; i < n; i++)
        lane[i] = pick[i] < 0 ? LLVMGetPoison(g->i32)
                              : LLVMConstInt(g->i32, (unsigned long long)pick[i], false);
    if (!y) y = LLVMGetPoison(LLVMTypeOf(x));
    return LLVMBuildShuffleVector(g->b, x, y, LLVMConstVector(lane, (unsigned)n), "");
}

/* ---- intrinsics ---------------------------------------------------------------------------- */

LLVMValueRef gen_intrinsic(const Gen *g, const char *name, int n_types, LLVMTypeRef *types,
                           int n_args, LLVMValueRef *args) {
    unsigned id = LLVMLookupIntrinsicID(name, strlen(name));
    if (!id) ice(g->ctx, (Loc){0}, "no LLVM intrinsic %s", name);
    LLVMValueRef fn = LLVMGetIntrinsicDeclaration(g->module, id, types, (size_t)n_types);
    LLVMTypeRef type = LLVMGlobalGetValueType(fn);
    return LLVMBuildCall2(g->b, type, fn, args, (unsigned)n_args, "");
}

LLVMValueRef gen_call1(const Gen *g, const char *name, LLVMValueRef x) {
    LLVMTypeRef type = LLVMTypeOf(x);
    return gen_intrinsic(g, name, 1, &type, 1, &x);
}

LLVMValueRef gen_call2(const Gen *g, const char *name, LLVMValueRef x, LLVMValueRef y) {
    LLVMTypeRef type = LLVMTypeOf(x);
    LLVMValueRef args[2] = {x, y};
    return gen_intrinsic(g, name, 1, &type, 2, args);
}

/* ---- index arithmetic ---------------------------------------------------------------------- */

static bool is_int(LLVMValueRef v, int64_t n) {
    return LLVMIsAConstantInt(v) && LLVMConstIntGetSExtValue(v) == n;
}

LLVMValueRef gen_add(const Gen *g, LLVMValueRef x, LLVMValueRef y) {
    if (is_int(x, 0)) return y;
    if (is_int(y, 0)) return x;
    return LLVMBuildAdd(g->b, x, y, "");
}

LLVMValueRef gen_mul(const Gen *g, LLVMValueRef x, LLVMValueRef y) {
    if (is_int(x, 1) || is_int(y, 0)) return y;
    if (is_int(y, 1) || is_int(x, 0)) return x;
    return LLVMBuildMul(g->b, x, y, "");
}

static LLVMValueRef select_lesser(const Gen *g, LLVMIntPredicate p, LLVMValueRef x,
                                  LLVMValueRef y) {
    if (x == y) return x;
    return LLVMBuildSelect(g->b, LLVMBuildICmp(g->b, p, x, y, ""), x, y, "");
}
LLVMValueRef gen_min(const Gen *g, LLVMValueRef x, LLVMValueRef y) {
    return select_lesser(g, LLVMIntSLT, x, y);
}
LLVMValueRef gen_max(const Gen *g, LLVMValueRef x, LLVMValueRef y) {
    return select_lesser(g, LLVMIntSGT, x, y);
}

LLVMValueRef gen_and(const Gen *g, LLVMValueRef x, LLVMValueRef y) {
    if (!x || !y) return x ? x : y;
    LLVMValueRef args[2] = {x, y};
    gen_unify(g, 2, args);
    return LLVMBuildAnd(g->b, args[0], args[1], "");
}

LLVMValueRef gen_offset(const Gen *g, LLVMValueRef p, LLVMValueRef bytes) {
    if (is_int(bytes, 0)) return p;
    return LLVMBuildGEP2(g->b, g->i8, p, &bytes, 1, "");
}
