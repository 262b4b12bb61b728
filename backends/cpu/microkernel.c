// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The micro-kernel of contractions: a register tile of C stays in registers for all of k.
//
//   for unit in units:                 A: rows x unit, splat        B: unit x vectors
//       b[j] = B[unit, j]
//       acc[i, j] += splat(A[i, unit]) * b[j]
//
// Each tile shape is a function of its own, with all registers to itself. Measured with AVX-512 on
// one core of 2.6 GHz: 14 x 2, 13 x 2, 8 x 3 and 6 x 4 tiles all reach 95 % of two FMAs a cycle,
// with A packed or in rows. Unrolling a full tile along k gains nothing.
#include <string.h>

#include "backends/cpu/contract.h"
#include "backends/cpu/emit.h"

#define ANY EL_COUNT
// Best first. f16, bf16 and f8 compute in f32 (`ieee`). tf32 and tf32x3 permit less precision than
// they get here. Products of bf16 are exact in f32, so their instructions differ from FMA only in
// the order of the sum, and in that subnormal numbers count as 0.
static const DotKind dot_kinds[] = {
    {EL_BF16, EL_BF16, EL_F32, EL_BF16, 2, DOT_TILES, "llvm.x86.tdpbf16ps", CPU_AMX_BF16},
    {EL_I8, EL_I8, EL_I32, EL_I8, 4, DOT_TILES, "llvm.x86.tdpbssd", CPU_AMX_INT8},
    {EL_U8, EL_U8, EL_I32, EL_U8, 4, DOT_TILES, "llvm.x86.tdpbuud", CPU_AMX_INT8},
    {EL_BF16, EL_BF16, EL_F32, EL_BF16, 2, DOT_VECTOR, "llvm.x86.avx512bf16.dpbf16ps.512",
     CPU_AVX512_BF16},
    {ANY, ANY, EL_F32, EL_F32, 1, DOT_FMA, NULL, CPU_ANY},
    {ANY, ANY, EL_F64, EL_F64, 1, DOT_FMA, NULL, CPU_ANY},
    {ANY, ANY, EL_I32, EL_I16, 2, DOT_PAIRS, NULL, CPU_ANY},
};

unsigned dot_features(const TargetInfo *info, const char *level) {
    static const struct {
        const char *name;
        CpuFeature feature;
        bool tiles;
    } rows[] = {{"+avx512bf16", CPU_AVX512_BF16, false},
                {"+amx-bf16", CPU_AMX_BF16, true},
                {"+amx-int8", CPU_AMX_INT8, true}};
    unsigned found = 0;
    bool host = !level || strcmp(level, "host") == 0;
    for (size_t i = 0; i < sizeof rows / sizeof *rows && info->vector_bytes == 64; i++)
        if (strstr(info->features, rows[i].name) && (!rows[i].tiles || !host || amx_permitted()))
            found |= rows[i].feature;
    return found;
}

/// A tile takes as long for one column as for sixteen, and vectors handle a few rows equally fast.
static bool fits_tiles(int64_t rows, int64_t columns) {
    return rows >= TILE_SIDE / 4 && columns >= TILE_SIDE / 4;
}

const DotKind *dot_kind(const CpuTarget *t, const Value *a, const Value *b, const Value *result,
                        int64_t rows, int64_t columns) {
    for (size_t i = 0; i < sizeof dot_kinds / sizeof *dot_kinds; i++) {
        const DotKind *k = &dot_kinds[i];
        bool types = k->result == value_elem(result) && (k->a == ANY || k->a == value_elem(a)) &&
                     (k->b == ANY || k->b == value_elem(b));
        bool has = (t->features & k->feature) == k->feature;
        if (types && has && (k->engine != DOT_TILES || fits_tiles(rows, columns))) return k;
    }
    return NULL;
}

/* ---- arithmetic ---------------------------------------------------------------------------- */

/// Lane l: x[2l] y[2l] + x[2l + 1] y[2l + 1] of the 16-bit halves of 32-bit lanes.
static LLVMValueRef multiply_pairs(Emit *e, LLVMValueRef x, LLVMValueRef y) {
    static const struct {
        int lanes;
        const char *name;
    } rows[] = {{16, "llvm.x86.avx512.pmaddw.d.512"},
                {8, "llvm.x86.avx2.pmadd.wd"},
                {4, "llvm.x86.sse2.pmadd.wd"}};
    const Gen *g = e->g;
    int lanes = gen_lanes(x);
    LLVMTypeRef halves = gen_vec(g->i16, 2 * lanes);
    LLVMValueRef args[] = {LLVMBuildBitCast(g->b, x, halves, ""),
                           LLVMBuildBitCast(g->b, y, halves, "")};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (e->cpu->target.x86 && rows[i].lanes == lanes &&
            lanes * 4 <= e->cpu->target.vector_bytes)
            return gen_intrinsic(g, rows[i].name, 0, NULL, 2, args);
    LLVMValueRef sixteen = gen_same(LLVMConstInt(g->i32, 16, false), lanes), half[4];
    for (int i = 0; i < 4; i++) {
        LLVMValueRef v = i % 2 ? y : x;
        half[i] = LLVMBuildAShr(g->b, i < 2 ? LLVMBuildShl(g->b, v, sixteen, "") : v, sixteen, "");
    }
    return LLVMBuildAdd(g->b, LLVMBuildMul(g->b, half[0], half[1], ""),
                        LLVMBuildMul(g->b, half[2], half[3], ""), "");
}

static LLVMValueRef multiply_named(Emit *e, const DotKind *k, LLVMValueRef a, LLVMValueRef b,
                                   LLVMValueRef acc) {
    const Gen *g = e->g;
    LLVMTypeRef halves = gen_vec(LLVMBFloatTypeInContext(g->llvm), 2 * gen_lanes(acc));
    LLVMValueRef args[] = {acc, LLVMBuildBitCast(g->b, a, halves, ""),
                           LLVMBuildBitCast(g->b, b, halves, "")};
    return gen_intrinsic(g, k->product, 0, NULL, 3, args);
}

LLVMValueRef multiply_add(Emit *e, const DotKind *k, LLVMValueRef a, LLVMValueRef b,
                          LLVMValueRef acc) {
    if (k->engine == DOT_PAIRS) return LLVMBuildAdd(e->g->b, acc, multiply_pairs(e, a, b), "");
    if (k->engine == DOT_VECTOR) return multiply_named(e, k, a, b, acc);
    LLVMTypeRef type = LLVMTypeOf(acc);
    LLVMValueRef args[] = {a, b, acc};
    return gen_intrinsic(e->g, "llvm.fmuladd", 1, &type, 3, args);
}

/* ---- the tile ------------------------------------------------------------------------------ */

// Estimates the time of one unit of k in half cycles: a cycle issues two FMAs and two loads. The
// registers must hold the tile with one splat, a row of B, and products that are not yet added.
// Tiles share rows and vectors evenly, so their number counts, not their capacity.
void micro_choose(const CpuTarget *t, const DotKind *k, int64_t rows, int64_t vectors,
                  int *tile_rows, int *tile_vectors) {
    int others = k->engine == DOT_PAIRS ? 2 : 1;
    double best = 0;
    for (int r = 1; r <= rows && r < t->vector_registers; r++)
        for (int v = 1; v <= vectors && v <= 8; v++) {
            if (r * v + v + others > t->vector_registers) break;
            // FMAs hide the loads, unless loads are more numerous. On ties, fewer loads win.
            double loads = (double)(ceil_div(rows, r) * vectors + ceil_div(vectors, v) * rows);
            double fmas = (double)(rows * vectors);
            double time = (fmas > loads ? fmas : loads) + loads / 16;
            if (best != 0 && time >= best) continue;
            best = time;
            *tile_rows = r;
            *tile_vectors = v;
        }
}

enum { MAX_TILE = 64, LATENCY = 8 }; // accumulators; FMAs in flight that fill the pipes

/// A micro-kernel under construction.
typedef struct MicroBody {
    Emit *e;
    const Micro *m;
    LLVMValueRef a, b, c; // first bytes of this tile
    LLVMTypeRef vec;
} MicroBody;

static LLVMValueRef tile_load(const MicroBody *k, LLVMTypeRef type, LLVMValueRef p, int64_t at,
                              unsigned align) {
    const Gen *g = k->e->g;
    LLVMValueRef v = LLVMBuildLoad2(g->b, type, gen_offset(g, p, gen_i64(g, at)), "");
    LLVMSetAlignment(v, align);
    return v;
}

static int64_t vector_bytes(const Micro *m) {
    return (int64_t)m->lanes * elem_bytes(m->kind->result);
}

/// Loads the tile, or zeros if C is fresh.
static void load_tile(const MicroBody *k, LLVMValueRef *acc) {
    const Micro *m = k->m;
    LLVMValueRef zero = LLVMConstNull(k->vec);
    If fresh = if_begin(k->e, LLVMGetParam(k->e->fn, 4), "fresh");
    if_else(k->e, &fresh);
    for (int i = 0; i < m->rows * m->vectors; i++) {
        int64_t at = i / m->vectors * m->c_row + i % m->vectors * vector_bytes(m);
        acc[i] = tile_load(k, k->vec, k->c, at, (unsigned)vector_bytes(m));
    }
    if_end(k->e, &fresh);
    for (int i = 0; i < m->rows * m->vectors; i++) acc[i] = if_phi(k->e, &fresh, zero, acc[i]);
}

static void store_tile(const MicroBody *k, LLVMValueRef *acc) {
    const Micro *m = k->m;
    const Gen *g = k->e->g;
    for (int i = 0; i < m->rows * m->vectors; i++) {
        int64_t at = i / m->vectors * m->c_row + i % m->vectors * vector_bytes(m);
        LLVMValueRef p = gen_offset(g, k->c, gen_i64(g, at));
        LLVMSetAlignment(LLVMBuildStore(g->b, acc[i], p), (unsigned)vector_bytes(m));
    }
}

/// acc += the products of unit `unit` + u.
static void one_unit(const MicroBody *k, LLVMValueRef a, LLVMValueRef b, int64_t u,
                     LLVMValueRef *acc) {
    const Micro *m = k->m;
    LLVMTypeRef unit = gen_elem(k->e->g, unit_elem(m->kind));
    LLVMValueRef row[MAX_TILE];
    for (int j = 0; j < m->vectors; j++)
        row[j] =
            tile_load(k, k->vec, b, u * m->b_unit + j * m->b_vector, (unsigned)vector_bytes(m));
    for (int i = 0; i < m->rows; i++) {
        LLVMValueRef x = tile_load(k, unit, a, u * m->a_unit + i * m->a_row,
                                   (unsigned)elem_bytes(unit_elem(m->kind)));
        x = gen_splat(k->e->g, x, m->lanes);
        for (int j = 0; j < m->vectors; j++) {
            LLVMValueRef *c = &acc[i * m->vectors + j];
            *c = multiply_add(k->e, m->kind, x, row[j], *c);
        }
    }
}

/// for (; unit + ways <= units; unit += ways), with separate accumulators for each way. Returns the
/// unit after the last.
static LLVMValueRef unit_loop(const MicroBody *k, LLVMValueRef from, LLVMValueRef units, int ways,
                              LLVMValueRef *acc) {
    const Gen *g = k->e->g;
    const Micro *m = k->m;
    int n = m->rows * m->vectors;
    LLVMBasicBlockRef before = LLVMGetInsertBlock(g->b);
    LLVMBasicBlockRef head = LLVMAppendBasicBlockInContext(g->llvm, k->e->fn, "unit");
    LLVMBasicBlockRef body = LLVMAppendBasicBlockInContext(g->llvm, k->e->fn, "products");
    LLVMBasicBlockRef done = LLVMAppendBasicBlockInContext(g->llvm, k->e->fn, "done");
    LLVMValueRef phi[MAX_TILE], next[MAX_TILE];
    LLVMBuildBr(g->b, head);
    LLVMPositionBuilderAtEnd(g->b, head);
    LLVMValueRef unit = LLVMBuildPhi(g->b, g->i64, "");
    for (int i = 0; i < n * ways; i++) next[i] = phi[i] = LLVMBuildPhi(g->b, k->vec, "");
    LLVMValueRef end = LLVMBuildAdd(g->b, unit, gen_i64(g, ways), "");
    LLVMBuildCondBr(g->b, LLVMBuildICmp(g->b, LLVMIntSLE, end, units, ""), body, done);

    LLVMPositionBuilderAtEnd(g->b, body);
    LLVMValueRef a = gen_offset(g, k->a, gen_mul(g, unit, gen_i64(g, m->a_unit)));
    LLVMValueRef b = gen_offset(g, k->b, gen_mul(g, unit, gen_i64(g, m->b_unit)));
    for (int w = 0; w < ways; w++) one_unit(k, a, b, w, next + w * n);
    LLVMBuildBr(g->b, head);

    LLVMAddIncoming(unit, &from, &before, 1);
    LLVMAddIncoming(unit, &end, &body, 1);
    for (int i = 0; i < n * ways; i++) {
        LLVMAddIncoming(phi[i], &acc[i], &before, 1);
        LLVMAddIncoming(phi[i], &next[i], &body, 1);
        acc[i] = phi[i];
    }
    LLVMPositionBuilderAtEnd(g->b, done);
    return unit;
}

static LLVMValueRef build_sum(const MicroBody *k, LLVMValueRef x, LLVMValueRef y) {
    LLVMBuilderRef b = k->e->g->b;
    bool integers = elem_is(k->m->kind->result, EC_INT);
    return integers ? LLVMBuildAdd(b, x, y, "") : LLVMBuildFAdd(b, x, y, "");
}

// A small tile has too few FMAs in flight. `ways` units run side by side and are added at the end,
// always in the same order.
static void emit_body(const MicroBody *k, LLVMValueRef units) {
    int n = k->m->rows * k->m->vectors, ways = 1;
    int most = k->e->cpu->target.vector_registers - k->m->vectors - 2;
    while (ways * n < LATENCY && 2 * ways * n <= most) ways *= 2;
    LLVMValueRef acc[MAX_TILE];
    load_tile(k, acc);
    for (int i = n; i < n * ways; i++) acc[i] = LLVMConstNull(k->vec);
    LLVMValueRef unit = unit_loop(k, gen_i64(k->e->g, 0), units, ways, acc);
    for (int w = ways / 2; w; w /= 2)
        for (int i = 0; i < n * w; i++) acc[i] = build_sum(k, acc[i], acc[i + n * w]);
    if (ways > 1) unit_loop(k, unit, units, 1, acc);
    store_tile(k, acc);
}

/* ---- the function -------------------------------------------------------------------------- */

static void emit_vector_kernel(Emit *e, const Micro *m, LLVMValueRef fn) {
    MicroBody k = {e, m, LLVMGetParam(fn, 0), LLVMGetParam(fn, 1), LLVMGetParam(fn, 2), NULL};
    k.vec = gen_vec(gen_elem(e->g, m->kind->result), m->lanes);
    emit_body(&k, LLVMGetParam(fn, 3));
}

static void emit_function(Emit *e, const Micro *m, LLVMValueRef fn) {
    const Gen *g = e->g;
    LLVMBasicBlockRef back = LLVMGetInsertBlock(g->b);
    LLVMMetadataRef where = LLVMGetCurrentDebugLocation2(g->b);
    LLVMSetCurrentDebugLocation2(g->b, NULL);
    LLVMPositionBuilderAtEnd(g->b, LLVMAppendBasicBlockInContext(g->llvm, fn, "entry"));
    Emit inner = *e;
    inner.fn = fn;
    if (m->kind->engine == DOT_TILES)
        emit_tile_kernel(&inner, m, fn);
    else
        emit_vector_kernel(&inner, m, fn);
    LLVMBuildRetVoid(g->b);
    LLVMPositionBuilderAtEnd(g->b, back);
    LLVMSetCurrentDebugLocation2(g->b, where);
}

static void add_enum_attribute(const Gen *g, LLVMValueRef fn, unsigned index, const char *name,
                               uint64_t value) {
    unsigned kind = LLVMGetEnumAttributeKindForName(name, strlen(name));
    LLVMAddAttributeAtIndex(fn, index, LLVMCreateEnumAttribute(g->llvm, kind, value));
}

/// Panels and C are disjoint parts of the arena. LLVM models the tile registers as inaccessible
/// memory, so kernels on tiles read and write that memory as well.
static LLVMValueRef declare_micro(Cpu *cpu, const char *name, LLVMTypeRef type, bool tiles) {
    const Gen *g = cpu->gen;
    LLVMValueRef fn = LLVMAddFunction(g->module, name, type);
    LLVMSetLinkage(fn, LLVMInternalLinkage);
    cpu_function_attributes(cpu, fn);
    for (unsigned i = 1; i <= 3; i++) add_enum_attribute(g, fn, i, "noalias", 0);
    unsigned all = (unsigned)LLVMAttributeFunctionIndex;
    add_enum_attribute(g, fn, all, "noinline", 0);
    if (!tiles) add_enum_attribute(g, fn, all, "memory", 3); // reads and writes only its arguments
    return fn;
}

static int dot_kind_number(const DotKind *k) {
    return (int)(k - dot_kinds);
}

void micro_call(Emit *e, const Micro *m, LLVMValueRef a, LLVMValueRef b, LLVMValueRef c,
                LLVMValueRef units) {
    const Gen *g = e->g;
    LLVMTypeRef params[] = {g->ptr, g->ptr, g->ptr, g->i64, g->i1, g->i64};
    LLVMTypeRef type = LLVMFunctionType(g->void_, params, 6, false);
    const char *name =
        ctx_format(e->ctx, "micro.%d.%dx%d.a%lld.%lld.b%lld.%lld.c%lld", dot_kind_number(m->kind),
                   m->rows, m->vectors * m->lanes, (long long)m->a_row, (long long)m->a_unit,
                   (long long)m->b_vector, (long long)m->b_unit, (long long)m->c_row);
    LLVMValueRef fn = LLVMGetNamedFunction(g->module, name);
    if (!fn) {
        fn = declare_micro(e->cpu, name, type, m->kind->engine == DOT_TILES);
        emit_function(e, m, fn);
    }
    LLVMValueRef args[] = {a, b, c, units, m->fresh, m->a_step};
    LLVMBuildCall2(g->b, type, fn, args, 6, "");
}
