// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Matrix instructions: the operands of a row of portable.def are words, those of LLVM's intrinsics
// vectors of as many bytes.
#include <string.h>

#include "backends/amdgpu/amdgpu.h"

/// The registers of group k as one value of a type of as many bytes.
static LLVMValueRef join_group(const Expand *x, int k, LLVMTypeRef type) {
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

/// Of a WMMA intrinsic: the vectors of A (and B) and of the sum, which it is overloaded by.
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
    LLVMValueRef a = join_group(x, 0, types[1]), b = join_group(x, 1, types[1]);
    LLVMValueRef c = join_group(x, 2, types[0]);
    if (!strstr(name, ".iu8"))
        return gen_intrinsic(x->g, name, 2, types, 3, (LLVMValueRef[]){a, b, c});
    // Which operands are signed; the last one would saturate sums.
    LLVMValueRef no = LLVMConstNull(x->g->i1);
    LLVMValueRef args[] = {is_signed(x, 'a'), a, is_signed(x, 'b'), b, c, no};
    return gen_intrinsic(x->g, name, 2, types, 6, args);
}

/// Behind A, B and the sum are three numbers that would broadcast blocks or negate operands.
static LLVMValueRef call_mfma(const Expand *x, const char *name) {
    LLVMValueRef args[6];
    LLVMTypeRef types[6];
    unsigned id = LLVMLookupIntrinsicID(name, strlen(name));
    if (!id) ice(x->g->ctx, (Loc){0}, "no LLVM intrinsic %s", name);
    LLVMValueRef fn = LLVMGetIntrinsicDeclaration(x->g->module, id, NULL, 0);
    LLVMGetParamTypes(LLVMGlobalGetValueType(fn), types);
    for (int i = 0; i < 3; i++) args[i] = join_group(x, i, types[i]);
    for (int i = 3; i < 6; i++) args[i] = amd_i32(x->g, 0);
    return gen_intrinsic(x->g, name, 0, NULL, 6, args);
}

void amd_matrix(Expand *x, const char *name) {
    const Gen *g = x->g;
    LLVMValueRef sum = strstr(name, ".wmma.") ? call_wmma(x, name) : call_mfma(x, name);
    for (int i = 0; i < x->fn->result.count; i++)
        x->out[i] = LLVMBuildExtractElement(g->b, sum, amd_i32(g, i), "");
}
