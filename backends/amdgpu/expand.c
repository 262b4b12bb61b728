// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Turns calls of target functions into LLVM code for AMD GPUs. The column `amdgcn` of portable.def
// names an intrinsic or one of the functions below.
#include <llvm-c/DebugInfo.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "backends/amdgpu/amdgpu.h"

/* ---- requirements of functions ------------------------------------------------------------- */

LLVMValueRef amd_i32(const Gen *g, int64_t n) {
    return LLVMConstInt(g->i32, (uint64_t)n, true);
}

LLVMValueRef amd_intrinsic(const Gen *g, const char *name, int n, ...) {
    LLVMValueRef args[8];
    va_list list;
    va_start(list, n);
    for (int i = 0; i < n; i++) args[i] = va_arg(list, LLVMValueRef);
    va_end(list);
    return gen_intrinsic(g, name, 0, NULL, n, args);
}

int amd_attribute(LLVMValueRef function, const char *name, int otherwise) {
    LLVMAttributeRef a = LLVMGetStringAttributeAtIndex(
        function, (LLVMAttributeIndex)LLVMAttributeFunctionIndex, name, (unsigned)strlen(name));
    unsigned n;
    return a ? atoi(LLVMGetStringAttributeValue(a, &n)) : otherwise;
}

int amd_threads(LLVMValueRef function) {
    return amd_attribute(function, "tg.maxntid", 1);
}

/* ---- the position of a lane ---------------------------------------------------------------- */

/// CTAs have one dimension.
void amd_thread_count(Expand *x) {
    bool first = *fn_capture(x->fn, 'd') == 'x';
    x->out[0] = amd_i32(x->g, first ? amd_threads(x->function) : 1);
}

/// The hidden arguments begin with three 32-bit numbers: the CTAs of each dimension.
void amd_cta_count(Expand *x) {
    LLVMValueRef p = amd_intrinsic(x->g, "llvm.amdgcn.implicitarg.ptr", 0);
    p = gen_offset(x->g, p, gen_i64(x->g, 4 * (*fn_capture(x->fn, 'd') - 'x')));
    x->out[0] = LLVMBuildLoad2(x->g->b, x->g->i32, p, "");
}

void amd_lane_id(Expand *x) {
    LLVMValueRef thread = amd_intrinsic(x->g, "llvm.amdgcn.workitem.id.x", 0);
    x->out[0] = LLVMBuildAnd(x->g->b, thread, amd_i32(x->g, x->gpu->lanes - 1), "");
}

void amd_warp_id(Expand *x) {
    const Gen *g = x->g;
    LLVMValueRef thread = amd_intrinsic(g, "llvm.amdgcn.workitem.id.x", 0);
    LLVMValueRef warp = LLVMBuildLShr(g->b, thread, amd_i32(g, gpu_lane_bits(x->gpu)), "");
    x->out[0] = gen_call1(g, "llvm.amdgcn.readfirstlane", warp);
}

/// Each kernel has its own array, of the required size.
void amd_shared_base(Expand *x) {
    const Gen *g = x->g;
    const char *name =
        ctx_format(g->ctx, "%s.shared", LLVMGetValueName2(x->function, &(size_t){0}));
    x->out[0] = LLVMGetNamedGlobal(g->module, name);
    if (x->out[0]) return;
    int bytes = amd_attribute(x->function, "tg.shared", 0);
    LLVMTypeRef type = LLVMArrayType2(g->i8, (uint64_t)bytes);
    LLVMValueRef array = LLVMAddGlobalInAddressSpace(g->module, type, name, 3);
    LLVMSetLinkage(array, LLVMInternalLinkage);
    LLVMSetInitializer(array, LLVMGetPoison(type));
    LLVMSetAlignment(array, 128);
    x->out[0] = array;
}

void amd_address(Expand *x) {
    x->out[0] = LLVMBuildPtrToInt(x->g->b, x->in[0], LLVMTypeOf(x->call), "");
}

/* ---- calls --------------------------------------------------------------------------------- */

static const struct {
    const char *name;
    AmdEmit *emit;
} functions[] = {
    {"thread_count", amd_thread_count},
    {"cta_count", amd_cta_count},
    {"lane_id", amd_lane_id},
    {"warp_id", amd_warp_id},
    {"shared_base", amd_shared_base},
    {"address", amd_address},
    {"load", amd_load},
    {"store", amd_store},
    {"load_buffer", amd_load_buffer},
    {"store_buffer", amd_store_buffer},
    {"barrier", amd_barrier},
    {"warp_sync", amd_warp_sync},
    {"fence", amd_fence},
    {"trap", amd_trap},
    {"clock", amd_clock},
    {"atomic", amd_atomic},
    {"atomic_cas", amd_atomic_cas},
    {"signal", amd_signal},
    {"wait_word", amd_wait_word},
    {"shuffle", amd_shuffle},
    {"vote", amd_vote},
    {"ballot", amd_ballot},
    {"redux", amd_redux},
    {"approx", amd_approx},
    {"narrow", amd_narrow},
    {"widen_bf16", amd_widen_bf16},
    {"cvt_tf32", amd_cvt_tf32},
    {"cvt_int", amd_cvt_int},
    {"fma_bf16", amd_fma_bf16},
    {"minmax_x2", amd_minmax_x2},
    {"mulhi", amd_mulhi},
    {"ctz", amd_ctz},
};

/// Returns "llvm.amdgcn.workitem.id.<d>" with the values of the captures.
static const char *intrinsic_name(Ctx *ctx, const Fn *fn) {
    Text name = {.ctx = ctx};
    for (const char *s = fn->row->amdgcn; *s; s++) {
        if (*s != '<') {
            text_bytes(&name, s, 1);
            continue;
        }
        text_add(&name, "%s", fn_capture(fn, s[1]));
        s += 2;
    }
    return name.data;
}

static void emit_row_code(Expand *x) {
    const char *how = x->fn->row->amdgcn;
    if (strncmp(how, "llvm.", 5) == 0) {
        const char *name = intrinsic_name(x->g->ctx, x->fn);
        if (x->fn->result.count > 1)
            amd_matrix(x, name);
        else
            x->out[0] = gen_intrinsic(x->g, name, 0, NULL, (int)x->n_in, x->in);
        return;
    }
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++)
        if (strcmp(functions[i].name, how) == 0) {
            functions[i].emit(x);
            return;
        }
    ice(x->g->ctx, (Loc){0}, "no function %s of tg.%s", how, x->fn->row->name);
}

static void expand_amd_call(Expand *x, LLVMValueRef call) {
    const Gen *g = x->g;
    Fn fn;
    const char *name = LLVMGetValueName2(LLVMGetCalledValue(call), &(size_t){0});
    if (!fn_find(name, &fn)) return;
    if (!fn_has(fn.row, x->gpu)) ice(g->ctx, (Loc){0}, "%s has no %s", x->gpu->name, name);
    LLVMPositionBuilderBefore(g->b, call);
    LLVMSetCurrentDebugLocation2(g->b, LLVMInstructionGetDebugLoc(call));
    x->call = call;
    x->fn = &fn;
    x->n_in = LLVMGetNumArgOperands(call);
    for (unsigned i = 0; i < x->n_in; i++) x->in[i] = LLVMGetOperand(call, i);
    emit_row_code(x);
    portable_replace(g, call, fn.result.count, x->out);
}

/// Calls are collected first, because expansion removes instructions and splits blocks.
static void expand_function(Expand *x) {
    VEC(LLVMValueRef) calls = {0};
    for (LLVMBasicBlockRef b = LLVMGetFirstBasicBlock(x->function); b; b = LLVMGetNextBasicBlock(b))
        for (LLVMValueRef i = LLVMGetFirstInstruction(b); i; i = LLVMGetNextInstruction(i))
            if (LLVMGetInstructionOpcode(i) == LLVMCall) vec_push(x->g->ctx, &calls, i);
    for (int i = 0; i < calls.n; i++) expand_amd_call(x, calls.data[i]);
    amd_join_accumulators(x);
}

void amd_expand(Gen *g, const GpuTarget *gpu) {
    Expand *x = ctx_new(g->ctx, Expand);
    *x = (Expand){.g = g, .gpu = gpu};
    for (LLVMValueRef fn = LLVMGetFirstFunction(g->module); fn; fn = LLVMGetNextFunction(fn)) {
        if (LLVMIsDeclaration(fn)) continue;
        x->function = fn;
        amd_make_uniform(g, fn);
        amd_join_words(g, fn);
        expand_function(x);
    }
    for (LLVMValueRef fn = LLVMGetFirstFunction(g->module), next; fn; fn = next) {
        next = LLVMGetNextFunction(fn);
        const char *name = LLVMGetValueName2(fn, &(size_t){0});
        if (strncmp(name, "tg.", 3) == 0 && LLVMIsDeclaration(fn)) LLVMDeleteFunction(fn);
    }
}
