// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Accesses by a resource with a bound that hardware checks. The lane's offset is in a vector
// register, the part of the address that every GPU compares with the bound.
#include <string.h>

#include "backends/amdgpu/amdgpu.h"

// The last word of a resource: 32-bit data. On RDNA also the reserved bit 24, and the comparison of
// bytes, not rows, with the bound.
enum { DATA_32 = 7 << 12 | 4 << 15, RDNA_BYTES = 1 << 24 | 3 << 28 };

static LLVMValueRef buffer_resource(const Expand *x) {
    const Gen *g = x->g;
    bool rdna = gpu_has(x->gpu, GPU_WMMA);
    LLVMTypeRef types[2] = {LLVMPointerTypeInContext(g->llvm, 8), LLVMTypeOf(x->in[0])};
    LLVMValueRef args[4] = {x->in[0], LLVMConstInt(g->i16, 0, false),
                            LLVMBuildZExt(g->b, x->in[1], g->i64, ""),
                            amd_i32(g, DATA_32 | (rdna ? RDNA_BYTES : 0))};
    return gen_intrinsic(g, "llvm.amdgcn.make.buffer.rsrc", 2, types, 4, args);
}

/// The sum saturates: if a part exceeds all bounds, so does the sum.
static LLVMValueRef buffer_offset(const Expand *x) {
    LLVMValueRef a = x->in[2], b = x->in[3];
    if (LLVMIsConstant(b) && LLVMIsNull(b)) return a;
    if (LLVMIsConstant(a) && LLVMIsNull(a)) return b;
    LLVMTypeRef type = x->g->i32;
    return gen_intrinsic(x->g, "llvm.uadd.sat", 1, &type, 2, (LLVMValueRef[]){a, b});
}

static LLVMTypeRef joined_type(const Expand *x, LLVMTypeRef one, int n) {
    const char *width = fn_capture(x->fn, 'w');
    if (width && *width == '8') one = x->g->i8;
    return n > 1 ? LLVMVectorType(one, (unsigned)n) : one;
}

void amd_load_buffer(Expand *x) {
    const Gen *g = x->g;
    int n = x->fn->result.count;
    const char *read_only = fn_capture(x->fn, 'r');
    LLVMTypeRef one = fn_letter_type(g->llvm, x->fn->result.letter), type = joined_type(x, one, n);
    LLVMValueRef args[4] = {buffer_resource(x), buffer_offset(x), amd_i32(g, 0), amd_i32(g, 0)};
    LLVMValueRef all = gen_intrinsic(g, "llvm.amdgcn.raw.ptr.buffer.load", 1, &type, 4, args);
    if (read_only && *read_only) amd_set_flag(g, all, "invariant.load");
    for (int i = 0; i < n && n > 1; i++)
        x->out[i] = LLVMBuildExtractElement(g->b, all, amd_i32(g, i), "");
    if (n == 1) x->out[0] = type == one ? all : LLVMBuildZExt(g->b, all, one, "");
}

void amd_store_buffer(Expand *x) {
    const Gen *g = x->g;
    int n = x->fn->groups[3].count;
    LLVMTypeRef one = LLVMTypeOf(x->in[4]), type = joined_type(x, one, n);
    LLVMValueRef all = n > 1 ? LLVMGetPoison(type) : x->in[4];
    for (int i = 0; i < n && n > 1; i++)
        all = LLVMBuildInsertElement(g->b, all, x->in[4 + i], amd_i32(g, i), "");
    if (LLVMTypeOf(all) != type) all = LLVMBuildTrunc(g->b, all, type, "");
    LLVMValueRef args[5] = {all, buffer_resource(x), buffer_offset(x), amd_i32(g, 0),
                            amd_i32(g, 0)};
    gen_intrinsic(g, "llvm.amdgcn.raw.ptr.buffer.store", 1, &type, 5, args);
}
