// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Loads and stores with alias information. The arena and each tensor are separate memory (the
// aliasing rule of the docs), which alias scopes tell LLVM.
#include "backends/cpu/emit.h"

static LLVMMetadataRef metadata_node(Cpu *c, LLVMMetadataRef *items, int n) {
    return LLVMMDNodeInContext2(c->gen->llvm, items, (size_t)n);
}

static LLVMMetadataRef metadata_text(Cpu *c, const char *s) {
    size_t n = 0;
    while (s[n]) n++;
    return LLVMMDStringInContext2(c->gen->llvm, s, n);
}

/// Returns the kernel parameter that v is, or -1.
static int parameter_of(const Value *v) {
    return !v->def && v->region->parent && v->region->parent->code == OP_KERNEL ? v->index : -1;
}

bool tensors_may_meet(const Value *a, const Value *b) {
    if (a == b) return true;
    int x = parameter_of(a), y = parameter_of(b);
    if (x < 0 || y < 0) return false;
    const Attr *pairs = op_ints(a->region->parent, A_IN_PLACE);
    for (int i = 0; pairs && i + 1 < pairs->n; i += 2) {
        int64_t p = pairs->ints[i], q = pairs->ints[i + 1];
        if ((p == x && q == y) || (p == y && q == x)) return true;
    }
    return false;
}

void memory_scopes(Cpu *c, int n_tensors) {
    Gen *g = c->gen;
    int n = n_tensors + 1;
    LLVMMetadataRef *scopes = ctx_array(g->ctx, LLVMMetadataRef, n);
    LLVMMetadataRef name = metadata_text(c, "tegula"), domain = metadata_node(c, &name, 1);
    for (int i = 0; i < n; i++) {
        LLVMMetadataRef pair[2] = {metadata_text(c, ctx_format(g->ctx, "memory %d", i)), domain};
        scopes[i] = metadata_node(c, pair, 2);
    }
    c->n_scopes = n;
    c->own_scope = ctx_array(g->ctx, LLVMValueRef, n);
    c->other_scopes = ctx_array(g->ctx, LLVMValueRef, n);
    LLVMMetadataRef *others = ctx_array(g->ctx, LLVMMetadataRef, n);
    for (int i = 0; i < n; i++) {
        int k = 0;
        for (int j = 0; j < n; j++)
            if (j != i) others[k++] = scopes[j];
        c->own_scope[i] = LLVMMetadataAsValue(g->llvm, metadata_node(c, &scopes[i], 1));
        c->other_scopes[i] = LLVMMetadataAsValue(g->llvm, metadata_node(c, others, k));
    }
}

/// Marks that instruction x touches only memory `id`.
static void mark_memory_scope(Emit *e, int id, LLVMValueRef x) {
    Cpu *c = e->cpu;
    if (id < 0 || id >= c->n_scopes || !LLVMIsAInstruction(x)) return;
    LLVMSetMetadata(x, LLVMGetMDKindIDInContext(e->g->llvm, "alias.scope", 11), c->own_scope[id]);
    LLVMSetMetadata(x, LLVMGetMDKindIDInContext(e->g->llvm, "noalias", 7), c->other_scopes[id]);
}

/// Sets the alignment of argument `index` (from 1) of the call, which is a pointer.
static void align_argument(Emit *e, LLVMValueRef call, unsigned index, unsigned alignment) {
    unsigned kind = LLVMGetEnumAttributeKindForName("align", 5);
    LLVMAddCallSiteAttribute(call, index, LLVMCreateEnumAttribute(e->g->llvm, kind, alignment));
}

static unsigned natural_alignment(Emit *e, LLVMTypeRef elem) {
    (void)e;
    unsigned bits = LLVMGetTypeKind(elem) == LLVMIntegerTypeKind ? LLVMGetIntTypeWidth(elem)
                    : LLVMGetTypeKind(elem) == LLVMHalfTypeKind  ? 16
                    : LLVMGetTypeKind(elem) == LLVMFloatTypeKind ? 32
                                                                 : 64;
    return bits / 8;
}

LLVMValueRef memory_load(Emit *e, int id, LLVMTypeRef type, LLVMValueRef at, unsigned alignment) {
    LLVMValueRef x = LLVMBuildLoad2(e->g->b, type, at, "");
    LLVMSetAlignment(x, alignment);
    mark_memory_scope(e, id, x);
    return x;
}

void memory_store(Emit *e, int id, LLVMValueRef x, LLVMValueRef at, unsigned alignment) {
    LLVMValueRef s = LLVMBuildStore(e->g->b, x, at);
    LLVMSetAlignment(s, alignment);
    mark_memory_scope(e, id, s);
}

/// LLVM 22 does not stream vectors of halves, and looks through a cast to integers. It does not
/// look through an instruction that rounds to integers.
static LLVMValueRef halves_as_bits(Emit *e, LLVMValueRef x) {
    Gen *g = e->g;
    LLVMValueRef wide = LLVMGetOperand(x, 0);
    bool fits = gen_lanes(x) == 16 && e->cpu->target.vector_bytes == 64 &&
                LLVMGetTypeKind(gen_lane_type(x)) == LLVMHalfTypeKind &&
                LLVMGetTypeKind(gen_lane_type(wide)) == LLVMFloatTypeKind;
    if (!fits) return x;
    enum { CURRENT_ROUNDING = 4 };
    LLVMValueRef args[4] = {wide, LLVMConstInt(g->i32, CURRENT_ROUNDING, false),
                            gen_zero(g, EL_I16, 16),
                            LLVMConstAllOnes(LLVMIntTypeInContext(g->llvm, 16))};
    return gen_intrinsic(g, "llvm.x86.avx512.mask.vcvtps2ph.512", 0, NULL, 4, args);
}

static void store_past_caches(Emit *e, int id, LLVMValueRef x, LLVMValueRef at, int bytes) {
    Gen *g = e->g;
    LLVMValueRef s = LLVMBuildStore(g->b, x, at);
    LLVMMetadataRef one = LLVMValueAsMetadata(LLVMConstInt(g->i32, 1, false));
    LLVMValueRef node = LLVMMetadataAsValue(g->llvm, LLVMMDNodeInContext2(g->llvm, &one, 1));
    LLVMSetMetadata(s, LLVMGetMDKindIDInContext(g->llvm, "nontemporal", 11), node);
    LLVMSetAlignment(s, (unsigned)bytes);
    mark_memory_scope(e, id, s);
}

void memory_stream(Emit *e, int id, LLVMValueRef x, LLVMValueRef at, int bytes, int part) {
    Gen *g = e->g;
    if (LLVMIsAFPTruncInst(x)) x = halves_as_bits(e, x);
    if (bytes <= part) {
        store_past_caches(e, id, x, at, bytes);
        return;
    }
    int n = bytes / part, lanes = gen_lanes(x) / n, pick[MAX_LANES];
    for (int i = 0; i < n; i++) {
        for (int k = 0; k < lanes; k++) pick[k] = i * lanes + k;
        LLVMValueRef y = gen_shuffle(g, x, x, lanes, pick);
        store_past_caches(e, id, y, gen_offset(g, at, gen_i64(g, (int64_t)i * part)), part);
    }
}

LLVMValueRef memory_load_masked(Emit *e, int id, LLVMTypeRef type, LLVMValueRef at,
                                unsigned alignment, LLVMValueRef mask, LLVMValueRef otherwise) {
    LLVMTypeRef types[2] = {type, e->g->ptr};
    LLVMValueRef args[3] = {at, mask, otherwise ? otherwise : LLVMGetPoison(type)};
    LLVMValueRef x = gen_intrinsic(e->g, "llvm.masked.load", 2, types, 3, args);
    align_argument(e, x, 1, alignment);
    mark_memory_scope(e, id, x);
    return x;
}

void memory_store_masked(Emit *e, int id, LLVMValueRef x, LLVMValueRef at, unsigned alignment,
                         LLVMValueRef mask) {
    LLVMTypeRef types[2] = {LLVMTypeOf(x), e->g->ptr};
    LLVMValueRef args[3] = {x, at, mask};
    LLVMValueRef s = gen_intrinsic(e->g, "llvm.masked.store", 2, types, 3, args);
    align_argument(e, s, 2, alignment);
    mark_memory_scope(e, id, s);
}

/* ---- gather, scatter ------------------------------------------------------------------------- */

/// Whether the CPU gathers and scatters by one instruction. LLVM makes a branch of each lane of
/// other CPUs, and values that are alive across thousands of blocks take its register allocator
/// minutes.
static bool gathers_at_once(const Emit *e) {
    return e->cpu->target.vector_bytes >= 64;
}

static LLVMValueRef lane_of(Emit *e, LLVMValueRef v, int lane) {
    return LLVMBuildExtractElement(e->g->b, v, LLVMConstInt(e->g->i32, (unsigned)lane, false), "");
}

/// Whether the lane is alive in all runs. A mask of NULL has only live lanes.
static bool is_lane_on(LLVMValueRef live) {
    return !live || (LLVMIsAConstantInt(live) && LLVMConstIntGetZExtValue(live));
}

static bool is_lane_off(LLVMValueRef live) {
    return live && LLVMIsConstant(live) && !is_lane_on(live);
}

static LLVMValueRef gather_lanes(Emit *e, int id, LLVMTypeRef elem, int lanes,
                                 const LLVMValueRef *at, LLVMValueRef mask,
                                 LLVMValueRef otherwise) {
    LLVMValueRef x = otherwise ? otherwise : LLVMGetPoison(gen_vec(elem, lanes));
    unsigned alignment = natural_alignment(e, elem);
    bool dead = false;
    for (int i = 0; i < lanes; i++) {
        LLVMValueRef live = mask ? lane_of(e, mask, i) : NULL;
        if (is_lane_off(live)) continue;
        bool on = is_lane_on(live);
        dead |= !on;
        LLVMValueRef from = on ? at[i] : LLVMBuildSelect(e->g->b, live, at[i], e->arena, "");
        LLVMValueRef one = memory_load(e, on ? id : -1, elem, from, alignment);
        x = LLVMBuildInsertElement(e->g->b, x, one, gen_i64(e->g, i), "");
    }
    return dead && otherwise ? LLVMBuildSelect(e->g->b, mask, x, otherwise, "") : x;
}

/// Dead lanes write to a place on the stack that no code reads.
static void scatter_lanes(Emit *e, int id, LLVMValueRef x, const LLVMValueRef *at,
                          LLVMValueRef mask) {
    unsigned alignment = natural_alignment(e, gen_lane_type(x));
    LLVMValueRef nowhere = NULL;
    for (int i = 0; i < gen_lanes(x); i++) {
        LLVMValueRef live = mask ? lane_of(e, mask, i) : NULL, to = at[i];
        if (is_lane_off(live)) continue;
        bool on = is_lane_on(live);
        if (!on && !nowhere) nowhere = stack_slots(e, 1);
        if (!on) to = LLVMBuildSelect(e->g->b, live, to, nowhere, "");
        memory_store(e, on ? id : -1, lane_of(e, x, i), to, alignment);
    }
}

static void split_pointers(Emit *e, LLVMValueRef at, LLVMValueRef *out) {
    for (int i = 0; i < gen_lanes(at); i++) out[i] = lane_of(e, at, i);
}

/// Each address follows from the one before, so that no product of the step stays in a register.
static void step_pointers(Emit *e, LLVMValueRef first, LLVMValueRef apart, int lanes,
                          LLVMValueRef *out) {
    out[0] = first;
    for (int i = 1; i < lanes; i++) out[i] = gen_offset(e->g, out[i - 1], apart);
}

static LLVMValueRef pointers_apart(Emit *e, LLVMValueRef first, LLVMValueRef apart, int lanes) {
    Gen *g = e->g;
    LLVMValueRef bytes = LLVMBuildMul(g->b, gen_iota(g, lanes), gen_splat(g, apart, lanes), "");
    return LLVMBuildGEP2(g->b, g->i8, first, &bytes, 1, "");
}

static LLVMValueRef gather_at_once(Emit *e, int id, LLVMTypeRef elem, LLVMValueRef at,
                                   LLVMValueRef mask, LLVMValueRef otherwise) {
    LLVMTypeRef type = gen_vec(elem, gen_lanes(at)), types[2] = {type, LLVMTypeOf(at)};
    LLVMValueRef args[3] = {at, mask, otherwise ? otherwise : LLVMGetPoison(type)};
    if (!mask) args[1] = gen_same(LLVMConstInt(e->g->i1, 1, false), gen_lanes(at));
    LLVMValueRef x = gen_intrinsic(e->g, "llvm.masked.gather", 2, types, 3, args);
    align_argument(e, x, 1, natural_alignment(e, elem));
    mark_memory_scope(e, id, x);
    return x;
}

static void scatter_at_once(Emit *e, int id, LLVMValueRef x, LLVMValueRef at, LLVMValueRef mask) {
    LLVMTypeRef types[2] = {LLVMTypeOf(x), LLVMTypeOf(at)};
    LLVMValueRef args[3] = {x, at, mask};
    if (!mask) args[2] = gen_same(LLVMConstInt(e->g->i1, 1, false), gen_lanes(at));
    LLVMValueRef s = gen_intrinsic(e->g, "llvm.masked.scatter", 2, types, 3, args);
    align_argument(e, s, 2, natural_alignment(e, gen_lane_type(x)));
    mark_memory_scope(e, id, s);
}

LLVMValueRef memory_gather(Emit *e, int id, LLVMTypeRef elem, LLVMValueRef at, LLVMValueRef mask,
                           LLVMValueRef otherwise) {
    LLVMValueRef each[MAX_LANES];
    if (gathers_at_once(e)) return gather_at_once(e, id, elem, at, mask, otherwise);
    split_pointers(e, at, each);
    return gather_lanes(e, id, elem, gen_lanes(at), each, mask, otherwise);
}

void memory_scatter(Emit *e, int id, LLVMValueRef x, LLVMValueRef at, LLVMValueRef mask) {
    LLVMValueRef each[MAX_LANES];
    if (gathers_at_once(e)) {
        scatter_at_once(e, id, x, at, mask);
        return;
    }
    split_pointers(e, at, each);
    scatter_lanes(e, id, x, each, mask);
}

LLVMValueRef memory_gather_apart(Emit *e, int id, LLVMTypeRef elem, int lanes, LLVMValueRef first,
                                 LLVMValueRef apart, LLVMValueRef mask, LLVMValueRef otherwise) {
    LLVMValueRef each[MAX_LANES];
    if (gathers_at_once(e))
        return gather_at_once(e, id, elem, pointers_apart(e, first, apart, lanes), mask, otherwise);
    step_pointers(e, first, apart, lanes, each);
    return gather_lanes(e, id, elem, lanes, each, mask, otherwise);
}

void memory_scatter_apart(Emit *e, int id, LLVMValueRef x, LLVMValueRef first, LLVMValueRef apart,
                          LLVMValueRef mask) {
    LLVMValueRef each[MAX_LANES];
    if (gathers_at_once(e)) {
        scatter_at_once(e, id, x, pointers_apart(e, first, apart, gen_lanes(x)), mask);
        return;
    }
    step_pointers(e, first, apart, gen_lanes(x), each);
    scatter_lanes(e, id, x, each, mask);
}
