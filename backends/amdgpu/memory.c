// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Accesses of lanes that are on, atomics, barriers and fences.
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "backends/amdgpu/amdgpu.h"

/* ---- lanes that are on --------------------------------------------------------------------- */

// The upper part is the new block, so phis of successors still name the lower part.
LLVMBasicBlockRef amd_guard(Expand *x, LLVMValueRef on) {
    const Gen *g = x->g;
    LLVMBasicBlockRef low = LLVMGetInstructionParent(x->call);
    LLVMBasicBlockRef high = LLVMInsertBasicBlockInContext(g->llvm, low, "");
    LLVMBasicBlockRef then = LLVMInsertBasicBlockInContext(g->llvm, low, "");
    LLVMValueRef last = LLVMGetBasicBlockTerminator(low);
    // Without its terminator the block has no successors whose phis would change.
    LLVMInstructionRemoveFromParent(last);
    LLVMReplaceAllUsesWith(LLVMBasicBlockAsValue(low), LLVMBasicBlockAsValue(high));
    LLVMPositionBuilderAtEnd(g->b, low);
    LLVMInsertIntoBuilder(g->b, last);
    LLVMPositionBuilderAtEnd(g->b, high);
    for (LLVMValueRef i; (i = LLVMGetFirstInstruction(low)) != x->call;) {
        LLVMInstructionRemoveFromParent(i);
        LLVMInsertIntoBuilder(g->b, i);
    }
    LLVMBuildCondBr(g->b, on, then, low);
    LLVMPositionBuilderAtEnd(g->b, then);
    return high;
}

void amd_end_guard(Expand *x) {
    LLVMBuildBr(x->g->b, LLVMGetInstructionParent(x->call));
    LLVMPositionBuilderBefore(x->g->b, x->call);
}

static bool is_always(LLVMValueRef on) {
    return LLVMIsAConstantInt(on) && LLVMConstIntGetZExtValue(on);
}

void amd_set_flag(const Gen *g, LLVMValueRef inst, const char *name) {
    unsigned kind = LLVMGetMDKindIDInContext(g->llvm, name, (unsigned)strlen(name));
    LLVMMetadataRef none = LLVMMDNodeInContext2(g->llvm, NULL, 0);
    LLVMSetMetadata(inst, kind, LLVMMetadataAsValue(g->llvm, none));
}

/// Data that is not read again bypasses the caches.
static void set_nontemporal(const Gen *g, LLVMValueRef inst) {
    unsigned kind = LLVMGetMDKindIDInContext(g->llvm, "nontemporal", 11);
    LLVMMetadataRef one = LLVMValueAsMetadata(amd_i32(g, 1));
    LLVMSetMetadata(inst, kind,
                    LLVMMetadataAsValue(g->llvm, LLVMMDNodeInContext2(g->llvm, &one, 1)));
}

/* ---- masked accesses ----------------------------------------------------------------------- */

/// Returns the type in memory of one value of the row: b8 goes through 16 bits.
static LLVMTypeRef amd_memory_type(const Expand *x, LLVMTypeRef type) {
    const char *width = fn_capture(x->fn, 'w');
    return strstr(x->fn->row->name, ".b8") || (width && *width == '8') ? x->g->i8 : type;
}

static LLVMTypeRef vector_of(LLVMTypeRef type, int n) {
    return n > 1 ? LLVMVectorType(type, (unsigned)n) : type;
}

/// Finds the 64-bit pattern that values of this type repeat in memory. Returns false if they are
/// not equal constants.
static bool repeated_pattern(LLVMValueRef *values, int n, LLVMTypeRef memory, uint64_t *pattern) {
    unsigned width = LLVMGetIntTypeWidth(memory);
    uint64_t mask = width < 64 ? ((uint64_t)1 << width) - 1 : UINT64_MAX, all = 0;
    for (int i = 0; i < n; i++) {
        if (values[i] != values[0] || !LLVMIsAConstantInt(values[i])) return false;
        all = LLVMConstIntGetZExtValue(values[i]) & mask;
    }
    for (*pattern = all; width < 64; width *= 2) *pattern |= *pattern << width;
    return true;
}

/// Returns the address of 16 readable bytes of a pattern, next to the code.
static LLVMValueRef readable_pattern(const Gen *g, uint64_t pattern) {
    const char *name = ctx_format(g->ctx, "tg.pad.%" PRIx64, pattern);
    LLVMValueRef bytes = LLVMGetNamedGlobal(g->module, name);
    if (bytes) return bytes;
    LLVMValueRef twice[2] = {LLVMConstInt(g->i64, pattern, false),
                             LLVMConstInt(g->i64, pattern, false)};
    bytes = LLVMAddGlobalInAddressSpace(g->module, LLVMVectorType(g->i64, 2), name, 1);
    LLVMSetLinkage(bytes, LLVMInternalLinkage);
    LLVMSetInitializer(bytes, LLVMConstVector(twice, 2));
    LLVMSetGlobalConstant(bytes, true);
    LLVMSetAlignment(bytes, 16);
    return bytes;
}

/// LLVM would compute the addresses of all loads of a block before the first load, two registers
/// each. This limits the number of loads that it sees at a time.
static void bound_addresses(Expand *x) {
    enum { TOGETHER = 16 };
    LLVMBasicBlockRef block = LLVMGetInstructionParent(x->call);
    if (block != x->loads) x->together = 0;
    x->loads = block;
    if (x->together++ < TOGETHER) return;
    amd_intrinsic(x->g, "llvm.amdgcn.sched.barrier", 1, amd_i32(x->g, 0));
    x->together = 1;
}

/// A lane that is off reads an address that every lane can read, so no branch keeps loads from
/// being in flight together. A constant pad is read from memory. Another pad is selected
/// afterwards, and the select waits for the load at its place.
void amd_load(Expand *x) {
    const Gen *g = x->g;
    int n = x->fn->result.count;
    const char *cache = fn_capture(x->fn, 'c'), *read_only = fn_capture(x->fn, 'r');
    LLVMTypeRef type = fn_letter_type(g->llvm, x->fn->result.letter),
                memory = amd_memory_type(x, type);
    LLVMValueRef on = x->in[1], p = x->in[0];
    uint64_t pattern = 0;
    bool chosen = !is_always(on) && !repeated_pattern(x->in + 2, n, memory, &pattern);
    if (!is_always(on)) {
        bound_addresses(x);
        p = LLVMBuildSelect(g->b, on, p, readable_pattern(g, pattern), "");
    }
    LLVMValueRef all = LLVMBuildLoad2(g->b, vector_of(memory, n), p, "");
    LLVMSetAlignment(all, LLVMGetIntTypeWidth(memory) / 8 * (unsigned)n);
    if (read_only && *read_only) amd_set_flag(g, all, "invariant.load");
    if (cache && *cache) set_nontemporal(g, all);
    for (int i = 0; i < n; i++) {
        LLVMValueRef v = n > 1 ? LLVMBuildExtractElement(g->b, all, amd_i32(g, i), "") : all;
        if (memory != type) v = LLVMBuildZExt(g->b, v, type, "");
        x->out[i] = chosen ? LLVMBuildSelect(g->b, on, v, x->in[2 + i], "") : v;
    }
}

/// Global memory is accessed by pointers, shared memory by its addresses.
void amd_store(Expand *x) {
    const Gen *g = x->g;
    int n = x->fn->groups[2].count;
    LLVMTypeRef memory = amd_memory_type(x, LLVMTypeOf(x->in[2]));
    LLVMValueRef all = LLVMGetPoison(vector_of(memory, n)), p = x->in[0];
    for (int i = 0; i < n; i++) {
        LLVMValueRef v = x->in[2 + i];
        if (LLVMTypeOf(v) != memory) v = LLVMBuildTrunc(g->b, v, memory, "");
        all = n > 1 ? LLVMBuildInsertElement(g->b, all, v, amd_i32(g, i), "") : v;
    }
    if (LLVMGetTypeKind(LLVMTypeOf(p)) != LLVMPointerTypeKind)
        p = LLVMBuildIntToPtr(g->b, p, LLVMPointerTypeInContext(g->llvm, 3), "");
    bool always = is_always(x->in[1]);
    if (!always) amd_guard(x, x->in[1]);
    LLVMValueRef store = LLVMBuildStore(g->b, all, p);
    LLVMSetAlignment(store, LLVMGetIntTypeWidth(memory) / 8 * (unsigned)n);
    const char *cache = fn_capture(x->fn, 'c');
    if (cache && strcmp(cache, ".cs") == 0) set_nontemporal(g, store);
    if (!always) amd_end_guard(x);
}

/* ---- order --------------------------------------------------------------------------------- */

static LLVMValueRef build_scoped_fence(const Gen *g, LLVMAtomicOrdering order, const char *scope) {
    unsigned id = LLVMGetSyncScopeID(g->llvm, scope, strlen(scope));
    return LLVMBuildFenceSyncScope(g->b, order, id, "");
}

static LLVMMetadataRef text_node(const Gen *g, const char *text) {
    return LLVMMDStringInContext2(g->llvm, text, strlen(text));
}

/// The fence covers shared memory: accesses to global memory may continue after it.
static void set_local(const Gen *g, LLVMValueRef fence) {
    LLVMMetadataRef tag[2] = {text_node(g, "amdgpu-synchronize-as"), text_node(g, "local")};
    LLVMMetadataRef node = LLVMMDNodeInContext2(g->llvm, tag, 2);
    LLVMSetMetadata(fence, LLVMGetMDKindIDInContext(g->llvm, "mmra", 4),
                    LLVMMetadataAsValue(g->llvm, node));
}

/// With fewer than two waves LLVM drops the barrier. The scheduler may move nothing over a barrier:
/// loads that are awaited after it should start before the products in front of it, which hide
/// their latency.
void amd_barrier(Expand *x) {
    bool local = strcmp(x->fn->row->name, "barrier.shared") == 0;
    amd_intrinsic(x->g, "llvm.amdgcn.sched.barrier", 1, amd_i32(x->g, 0));
    LLVMValueRef before = build_scoped_fence(x->g, LLVMAtomicOrderingRelease, "workgroup");
    amd_intrinsic(x->g, "llvm.amdgcn.s.barrier", 0);
    LLVMValueRef after = build_scoped_fence(x->g, LLVMAtomicOrderingAcquire, "workgroup");
    if (local) set_local(x->g, before), set_local(x->g, after);
}

/// The accesses of a wave to shared memory are in order, and the compiler must keep that order.
void amd_warp_sync(Expand *x) {
    build_scoped_fence(x->g, LLVMAtomicOrderingRelease, "wavefront");
    amd_intrinsic(x->g, "llvm.amdgcn.wave.barrier", 0);
    build_scoped_fence(x->g, LLVMAtomicOrderingAcquire, "wavefront");
}

/// Maps NVIDIA's names of scopes to LLVM's.
static const char *scope_of(const Expand *x) {
    const char *name = fn_capture(x->fn, 's');
    return strcmp(name, "cta") == 0 ? "workgroup" : strcmp(name, "gpu") == 0 ? "agent" : "";
}

void amd_fence(Expand *x) {
    bool all = strcmp(fn_capture(x->fn, 'o'), "sc") == 0;
    build_scoped_fence(
        x->g, all ? LLVMAtomicOrderingSequentiallyConsistent : LLVMAtomicOrderingAcquireRelease,
        scope_of(x));
}

void amd_trap(Expand *x) {
    amd_guard(x, x->in[0]);
    amd_intrinsic(x->g, "llvm.trap", 0);
    amd_end_guard(x);
}

/* ---- atomics ------------------------------------------------------------------------------- */

static LLVMValueRef amd_atomic_address(const Expand *x) {
    LLVMValueRef p = x->in[0];
    if (LLVMGetTypeKind(LLVMTypeOf(p)) == LLVMPointerTypeKind) return p;
    return LLVMBuildIntToPtr(x->g->b, p, LLVMPointerTypeInContext(x->g->llvm, 3), "");
}

static const struct {
    const char *name; // PTX's name
    LLVMAtomicRMWBinOp op;
} operations[] = {{"add.u", LLVMAtomicRMWBinOpAdd},  {"min.s", LLVMAtomicRMWBinOpMin},
                  {"max.s", LLVMAtomicRMWBinOpMax},  {"min.u", LLVMAtomicRMWBinOpUMin},
                  {"max.u", LLVMAtomicRMWBinOpUMax}, {"and.b", LLVMAtomicRMWBinOpAnd},
                  {"or.b", LLVMAtomicRMWBinOpOr},    {"xor.b", LLVMAtomicRMWBinOpXor},
                  {"exch.b", LLVMAtomicRMWBinOpXchg}};

/// The row of floats names no operation: it adds.
static LLVMAtomicRMWBinOp operation_of(const Expand *x) {
    const char *name = fn_capture(x->fn, 'o');
    if (!name) return LLVMAtomicRMWBinOpFAdd;
    for (size_t i = 0; i < sizeof operations / sizeof *operations; i++)
        if (strcmp(operations[i].name, name) == 0) return operations[i].op;
    ice(x->g->ctx, (Loc){0}, "no atomic %s", name);
}

/// Joins the result of an atomic with 0 for lanes that are off. Called in the block of the lanes
/// that are on.
static void guarded_result(Expand *x, LLVMBasicBlockRef from, LLVMValueRef made) {
    const Gen *g = x->g;
    LLVMValueRef zero = LLVMConstNull(LLVMTypeOf(made));
    LLVMBasicBlockRef then = LLVMGetInsertBlock(g->b);
    amd_end_guard(x);
    LLVMValueRef phi = LLVMBuildPhi(g->b, LLVMTypeOf(made), "");
    LLVMAddIncoming(phi, (LLVMValueRef[]){zero, made}, (LLVMBasicBlockRef[]){from, then}, 2);
    x->out[0] = phi;
}

// Marks the memory as the GPU's own, not another processor's. An instruction then adds floats;
// otherwise LLVM would make a compare-and-swap loop.
void amd_atomic(Expand *x) {
    const Gen *g = x->g;
    const char *scope = scope_of(x);
    unsigned id = LLVMGetSyncScopeID(g->llvm, scope, strlen(scope));
    LLVMAtomicRMWBinOp op = operation_of(x);
    LLVMBasicBlockRef from = amd_guard(x, x->in[1]);
    LLVMValueRef made = LLVMBuildAtomicRMWSyncScope(g->b, op, amd_atomic_address(x), x->in[2],
                                                    LLVMAtomicOrderingMonotonic, id);
    amd_set_flag(g, made, "amdgpu.no.fine.grained.memory");
    amd_set_flag(g, made, "amdgpu.no.remote.memory");
    if (op == LLVMAtomicRMWBinOpFAdd) amd_set_flag(g, made, "amdgpu.ignore.denormal.mode");
    guarded_result(x, from, made);
}

void amd_atomic_cas(Expand *x) {
    const Gen *g = x->g;
    const char *scope = scope_of(x);
    unsigned id = LLVMGetSyncScopeID(g->llvm, scope, strlen(scope));
    LLVMBasicBlockRef from = amd_guard(x, x->in[1]);
    LLVMValueRef pair = LLVMBuildAtomicCmpXchgSyncScope(g->b, amd_atomic_address(x), x->in[2],
                                                        x->in[3], LLVMAtomicOrderingMonotonic,
                                                        LLVMAtomicOrderingMonotonic, id);
    guarded_result(x, from, LLVMBuildExtractValue(g->b, pair, 0, ""));
}
