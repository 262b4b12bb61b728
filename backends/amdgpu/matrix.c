// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Matrix instructions: the operands of a row of portable.def are words, those of LLVM's intrinsics
// are vectors of as many bytes.
#include <string.h>

#include "backends/amdgpu/amdgpu.h"

/// Joins the registers of group k to one value of a type of as many bytes.
static LLVMValueRef join_register_group(const Expand *x, int k, LLVMTypeRef type) {
    const Gen *g = x->g;
    const FnGroup *group = &x->fn->groups[k];
    unsigned first = 0;
    for (int i = 0; i < k; i++) first += (unsigned)x->fn->groups[i].count;
    LLVMValueRef all = x->in[first];
    if (group->count > 1) {
        LLVMTypeRef each = fn_letter_type(g->llvm, group->letter);
        all = LLVMGetUndef(LLVMVectorType(each, (unsigned)group->count));
        for (int i = 0; i < group->count; i++)
            all = LLVMBuildInsertElement(g->b, all, x->in[first + (unsigned)i], amd_i32(g, i), "");
    }
    return LLVMBuildBitCast(g->b, all, type, "");
}

/// Returns the overload types of a WMMA intrinsic: the vectors of A (and B) and of the sum.
static void wmma_types(const Expand *x, LLVMTypeRef *sum, LLVMTypeRef *a) {
    const Gen *g = x->g;
    const FnGroup *words = &x->fn->groups[0];
    const char *name = strrchr(x->fn->row->amdgcn, '.'), *type = fn_capture(x->fn, 't');
    LLVMTypeRef result = fn_letter_type(g->llvm, x->fn->result.letter);
    *sum = LLVMVectorType(result, (unsigned)x->fn->result.count);
    *a = LLVMVectorType(g->i32, (unsigned)words->count);
    if (strcmp(name, ".<t>") != 0) return;
    LLVMTypeRef half = strcmp(type, "f16") == 0 ? LLVMHalfTypeInContext(g->llvm) : g->i16;
    *a = LLVMVectorType(half, 2 * (unsigned)words->count);
}

static LLVMValueRef is_signed(const Expand *x, char key) {
    return LLVMConstInt(x->g->i1, fn_capture(x->fn, key)[0] == 'i', false);
}

static LLVMValueRef call_wmma(const Expand *x, const char *name) {
    LLVMTypeRef types[2];
    wmma_types(x, &types[0], &types[1]);
    LLVMValueRef a = join_register_group(x, 0, types[1]), b = join_register_group(x, 1, types[1]);
    LLVMValueRef c = join_register_group(x, 2, types[0]);
    if (!strstr(name, ".iu8"))
        return gen_intrinsic(x->g, name, 2, types, 3, (LLVMValueRef[]){a, b, c});
    // Flags for signed operands; the last one would saturate sums.
    LLVMValueRef no = LLVMConstNull(x->g->i1);
    LLVMValueRef args[] = {is_signed(x, 'a'), a, is_signed(x, 'b'), b, c, no};
    return gen_intrinsic(x->g, name, 2, types, 6, args);
}

/// After A, B and the sum come three numbers that could broadcast blocks or negate operands.
static LLVMValueRef call_mfma(const Expand *x, const char *name) {
    LLVMValueRef args[6];
    LLVMTypeRef types[6];
    unsigned id = LLVMLookupIntrinsicID(name, strlen(name));
    if (!id) ice(x->g->ctx, (Loc){0}, "no LLVM intrinsic %s", name);
    LLVMValueRef fn = LLVMGetIntrinsicDeclaration(x->g->module, id, NULL, 0);
    LLVMGetParamTypes(LLVMGlobalGetValueType(fn), types);
    for (int i = 0; i < 3; i++) args[i] = join_register_group(x, i, types[i]);
    for (int i = 3; i < 6; i++) args[i] = amd_i32(x->g, 0);
    return gen_intrinsic(x->g, name, 0, NULL, 6, args);
}

/* ---- accumulators around loops --------------------------------------------------------------- */

// A block's registers are carried as scalars. LLVM would copy them to and from an instruction's
// accumulators in every iteration, since those form one value.

static bool is_phi_of(LLVMValueRef v, LLVMBasicBlockRef b) {
    return LLVMIsAPHINode(v) && LLVMGetInstructionParent(v) == b;
}

/// Returns the vector whose elements, in order, are the inputs of the i-th edge.
static LLVMValueRef incoming_vector(const Gen *g, const LLVMValueRef *phis, int n, unsigned edge) {
    LLVMValueRef first = LLVMGetIncomingValue(phis[0], edge), from = NULL;
    if (LLVMIsAExtractElementInst(first)) from = LLVMGetOperand(first, 0);
    for (int i = 0; i < n && from; i++) {
        LLVMValueRef v = LLVMGetIncomingValue(phis[i], edge);
        bool same = LLVMIsAExtractElementInst(v) && LLVMGetOperand(v, 0) == from &&
                    LLVMIsAConstantInt(LLVMGetOperand(v, 1)) &&
                    LLVMConstIntGetZExtValue(LLVMGetOperand(v, 1)) == (unsigned)i;
        if (!same) from = NULL;
    }
    LLVMTypeRef type = LLVMVectorType(LLVMTypeOf(first), (unsigned)n);
    if (from && LLVMTypeOf(from) == type) return from;
    LLVMPositionBuilderBefore(g->b,
                              LLVMGetBasicBlockTerminator(LLVMGetIncomingBlock(phis[0], edge)));
    LLVMValueRef all = LLVMGetUndef(type);
    for (int i = 0; i < n; i++) {
        LLVMValueRef v = LLVMGetIncomingValue(phis[i], edge);
        all = LLVMBuildInsertElement(g->b, all, v, amd_i32(g, i), "");
    }
    return all;
}

static LLVMValueRef first_behind_phis(LLVMBasicBlockRef b) {
    LLVMValueRef i = LLVMGetFirstInstruction(b);
    while (LLVMIsAPHINode(i)) i = LLVMGetNextInstruction(i);
    return i;
}

/// Replaces the phis of a block that form an instruction's accumulators by one phi.
static void join_phis(const Gen *g, const LLVMValueRef *phis, int n) {
    LLVMBasicBlockRef block = LLVMGetInstructionParent(phis[0]);
    LLVMPositionBuilderBefore(g->b, phis[0]);
    LLVMValueRef all = LLVMBuildPhi(g->b, LLVMVectorType(LLVMTypeOf(phis[0]), (unsigned)n), "acc");
    LLVMPositionBuilderBefore(g->b, first_behind_phis(block));
    for (int i = 0; i < n; i++)
        LLVMReplaceAllUsesWith(phis[i], LLVMBuildExtractElement(g->b, all, amd_i32(g, i), ""));
    for (unsigned edge = 0; edge < LLVMCountIncoming(phis[0]); edge++) {
        LLVMValueRef v = incoming_vector(g, phis, n, edge);
        LLVMBasicBlockRef from = LLVMGetIncomingBlock(phis[0], edge);
        LLVMAddIncoming(all, &v, &from, 1);
    }
    for (int i = 0; i < n; i++) LLVMInstructionEraseFromParent(phis[i]);
}

void amd_join_accumulators(Expand *x) {
    for (int k = 0; k < x->sums.n; k++) {
        const AmdSum *s = &x->sums.data[k];
        LLVMValueRef elements[AMD_SUMS];
        LLVMValueRef chain = s->vector;
        for (int i = s->count - 1; i >= 0; i--) {
            elements[i] = LLVMGetOperand(chain, 1);
            chain = LLVMGetOperand(chain, 0);
        }
        bool phis = LLVMIsAPHINode(elements[0]);
        for (int i = 0; i < s->count && phis; i++)
            phis = is_phi_of(elements[i], LLVMGetInstructionParent(elements[0]));
        if (phis) join_phis(x->g, elements, s->count);
    }
    x->sums.n = 0;
}

/* ---- instructions --------------------------------------------------------------------------- */

/// Notes the accumulators that join_register_group has joined.
static void note_sum(Expand *x, LLVMValueRef c, int count) {
    while (LLVMIsABitCastInst(c)) c = LLVMGetOperand(c, 0);
    AmdSum s = {c, count};
    if (LLVMIsAInsertElementInst(c)) vec_push(x->g->ctx, &x->sums, s);
}

static bool reads_shared(LLVMValueRef i) {
    return LLVMIsALoadInst(i) && LLVMGetPointerAddressSpace(LLVMTypeOf(LLVMGetOperand(i, 0))) == 3;
}

/// Lowering puts loads for later products at the start of a block with products. They must stay
/// before those products and their reads of shared memory.
static void keep_loads_before_products(Expand *x) {
    x->products = LLVMGetInstructionParent(x->call);
    LLVMValueRef i = LLVMGetFirstInstruction(x->products);
    while (i != x->call && !reads_shared(i)) i = LLVMGetNextInstruction(i);
    LLVMPositionBuilderBefore(x->g->b, i);
    amd_intrinsic(x->g, "llvm.amdgcn.sched.barrier", 1, amd_i32(x->g, 0));
    LLVMPositionBuilderBefore(x->g->b, x->call);
}

void amd_matrix(Expand *x, const char *name) {
    const Gen *g = x->g;
    if (LLVMGetInstructionParent(x->call) != x->products) keep_loads_before_products(x);
    bool wmma = strstr(name, ".wmma.") != NULL;
    LLVMValueRef sum = wmma ? call_wmma(x, name) : call_mfma(x, name);
    int at = strstr(name, ".iu8") ? 4 : 2; // position of the sum among the operands
    note_sum(x, LLVMGetOperand(sum, (unsigned)at), x->fn->result.count);
    for (int i = 0; i < x->fn->result.count; i++)
        x->out[i] = LLVMBuildExtractElement(g->b, sum, amd_i32(g, i), "");
}
