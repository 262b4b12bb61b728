// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Transposition in registers: every size and width of lane, run natively.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "backends/cpu/cpu.h"

#include <llvm-c/IRReader.h>
#include <llvm-c/LLJIT.h>
#include <llvm-c/Target.h>
#include <string.h>

enum { MAX_N = 32 };

/// void f(const T in[n][n], T out[n][n])
static void build(const Gen *g, int n, LLVMTypeRef lane, int bytes) {
    LLVMTypeRef params[] = {g->ptr, g->ptr};
    LLVMTypeRef type = LLVMFunctionType(g->void_, params, 2, false);
    LLVMValueRef fn = LLVMAddFunction(g->module, "f", type), v[MAX_N];
    LLVMPositionBuilderAtEnd(g->b, LLVMAppendBasicBlockInContext(g->llvm, fn, ""));
    for (int i = 0; i < n; i++) {
        LLVMValueRef p = gen_offset(g, LLVMGetParam(fn, 0), gen_i64(g, i * n * bytes));
        v[i] = LLVMBuildLoad2(g->b, gen_vec(lane, n), p, "");
        LLVMSetAlignment(v[i], 1);
    }
    emit_transpose(g, n, v);
    for (int i = 0; i < n; i++) {
        LLVMValueRef p = gen_offset(g, LLVMGetParam(fn, 1), gen_i64(g, i * n * bytes));
        LLVMSetAlignment(LLVMBuildStore(g->b, v[i], p), 1);
    }
    LLVMBuildRetVoid(g->b);
}

/// Passes the module on as text, since the JIT owns its module and context.
static LLVMOrcThreadSafeModuleRef own(const Gen *g) {
    char *text = LLVMPrintModuleToString(g->module), *error = NULL;
    LLVMContextRef llvm = LLVMContextCreate();
    LLVMMemoryBufferRef buffer = LLVMCreateMemoryBufferWithMemoryRangeCopy(text, strlen(text), "");
    LLVMModuleRef module;
    assert_false(LLVMParseIRInContext(llvm, buffer, &module, &error));
    LLVMDisposeMessage(text);
    LLVMOrcThreadSafeContextRef safe = LLVMOrcCreateNewThreadSafeContextFromLLVMContext(llvm);
    LLVMOrcThreadSafeModuleRef m = LLVMOrcCreateNewThreadSafeModule(module, safe);
    LLVMOrcDisposeThreadSafeContext(safe);
    return m;
}

static void check(int n, int bytes) {
    Ctx *ctx = ctx_create(NULL);
    Gen *g = gen_create(ctx, "transpose");
    build(g, n, LLVMIntTypeInContext(g->llvm, (unsigned)bytes * 8), bytes);
    LLVMOrcLLJITRef jit;
    assert_null(LLVMOrcCreateLLJIT(&jit, NULL));
    assert_null(LLVMOrcLLJITAddLLVMIRModule(jit, LLVMOrcLLJITGetMainJITDylib(jit), own(g)));
    LLVMOrcExecutorAddress at;
    assert_null(LLVMOrcLLJITLookup(jit, &at, "f"));
    void (*f)(const void *, void *) = (void (*)(const void *, void *))(uintptr_t)at;
    unsigned char in[MAX_N * MAX_N * 8], out[sizeof in];
    for (size_t i = 0; i < sizeof in; i++) in[i] = (unsigned char)(i * 37 + i / 251);
    f(in, out);
    for (int i = 0; i < n; i++)
        for (int j = 0; j < n; j++)
            assert_memory_equal(out + (j * n + i) * bytes, in + (i * n + j) * bytes, bytes);
    assert_null(LLVMOrcDisposeLLJIT(jit));
    ctx_destroy(ctx);
}

static void every_size(void **state) {
    (void)state;
    for (int bytes = 1; bytes <= 8; bytes *= 2)
        for (int n = 1; n <= MAX_N && n * bytes <= 64; n *= 2)
            if (n > 1) check(n, bytes);
}

int main(void) {
    LLVMInitializeNativeTarget();
    LLVMInitializeNativeAsmPrinter();
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_size)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
