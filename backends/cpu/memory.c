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

LLVMValueRef memory_gather(Emit *e, int id, LLVMTypeRef elem, LLVMValueRef at, LLVMValueRef mask,
                           LLVMValueRef otherwise) {
    LLVMTypeRef type = gen_vec(elem, gen_lanes(at)), types[2] = {type, LLVMTypeOf(at)};
    LLVMValueRef args[3] = {at, mask, otherwise ? otherwise : LLVMGetPoison(type)};
    LLVMValueRef x = gen_intrinsic(e->g, "llvm.masked.gather", 2, types, 3, args);
    align_argument(e, x, 1, natural_alignment(e, elem));
    mark_memory_scope(e, id, x);
    return x;
}

void memory_scatter(Emit *e, int id, LLVMValueRef x, LLVMValueRef at, LLVMValueRef mask) {
    LLVMTypeRef types[2] = {LLVMTypeOf(x), LLVMTypeOf(at)};
    LLVMValueRef args[3] = {x, at, mask};
    LLVMValueRef s = gen_intrinsic(e->g, "llvm.masked.scatter", 2, types, 3, args);
    align_argument(e, s, 2, natural_alignment(e, gen_lane_type(x)));
    mark_memory_scope(e, id, s);
}
