// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The answers of libNVVM and ptxas when they refuse, their architectures, and the source of their
// functions.
#include "backends/llvm/target.h"
#include "backends/nvidia/nvidia.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

static void architectures(void **state) {
    (void)state;
    assert_null(nv_arch("sm_75"));
    assert_null(nv_arch("sm_90b"));
    assert_null(nv_arch("gfx942"));
}

static void needs(void **state) {
    static const struct {
        const char *target, *needs;
        bool met;
    } rows[] = {
        {"sm_86", "80", true},           {"sm_86", "89", false},
        {"sm_120a", "90a", true},        {"sm_90a", "=90a", true},
        {"sm_120a", "=90a", false},      {"sm_90a", "MFMA", false},
        {"gfx942", "80", true},          {"gfx942", "89", false},
        {"gfx90a", "90a", false},        {"gfx90a", "=90a", false},
        {"gfx942", "CDNA3", true},       {"gfx942", "CDNA2|CDNA4", false},
        {"gfx950", "CDNA3|CDNA4", true}, {"gfx942", "CDNA", false},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (gpu_meets(gpu_target(rows[i].target), rows[i].needs) != rows[i].met)
            fail_msg("%s meets %s: not %d", rows[i].target, rows[i].needs, rows[i].met);
    GpuTarget plain = *gpu_target("sm_90a"); // without the a
    plain.features &= ~GPU_SPECIFIC;
    assert_true(gpu_meets(&plain, "90"));
    assert_false(gpu_meets(&plain, "90a"));
}

static NvOutput refused(NvStatus (*compile)(const char *text, NvOutput *out), const char *text) {
    NvOutput out;
    NvStatus status = compile(text, &out);
    if (status == NV_ABSENT) {
        print_message("libNVVM or ptxas was not found: nothing is tested\n");
        skip();
    }
    assert_int_equal(status, NV_FAILED);
    assert_null(out.data);
    assert_non_null(out.log);
    return out;
}

static NvStatus by_nvvm(const char *text, NvOutput *out) {
    return nvvm_compile(text, strlen(text), nv_arch("sm_90a"), 3, out);
}

static NvStatus by_ptxas(const char *text, NvOutput *out) {
    return nv_ptxas(text, strlen(text), nv_arch("sm_80"), out);
}

/// The writer exists because libNVVM knows no opaque pointers before sm_100.
static void opaque_pointers(void **state) {
    NvOutput out = refused(by_nvvm, "define void @k(ptr %p) {\n  ret void\n}\n");
    (void)state;
    assert_non_null(strstr(out.log, "expected type"));
    nv_output_free(&out);
    assert_null(out.log);
}

static void bad_ptx(void **state) {
    NvOutput out = refused(by_ptxas, ".version 8.0\n.target sm_80\n.entry k() { hop; }\n");
    (void)state;
    assert_non_null(strstr(out.log, "line 3"));
    nv_output_free(&out);
}

static void later_ptx(void **state) {
    NvOutput out = refused(by_ptxas, ".version 8.0\n.target sm_90\n");
    (void)state;
    nv_output_free(&out);
}

/// A ptxas that splits compilations takes the option, and leaves no kernel out.
static void two_kernels(void **state) {
    static const char text[] = ".version 8.0\n.target sm_80\n.address_size 64\n"
                               ".visible .entry first() { ret; }\n"
                               ".visible .entry second() { ret; }\n";
    char program[TOOL_PATH];
    ToolRun *run;
    NvOutput out;
    (void)state;
    if (!nv_ptxas_path(program)) skip();
    assert_int_equal(nv_ptxas_start(program, text, strlen(text), "sm_80", true, &run), NV_OK);
    NvStatus status = nv_ptxas_finish(run, &out);
    if (status == NV_ABSENT) skip();
    assert_int_equal(status, NV_OK);
    assert_non_null(memmem(out.data, out.bytes, ".text.first", 11));
    assert_non_null(memmem(out.data, out.bytes, ".text.second", 12));
    nv_output_free(&out);
}

/* ---- nv_compile ---------------------------------------------------------------------------- */

typedef struct Run {
    NvOptions options;
    NvStatus status;
    NvPtx ptx;
    NvUses uses;
    char log[400];
} Run;

/// A kernel that only stores its parameter.
static void compile_one(Ctx *ctx, void *arg) {
    Run *run = arg;
    Gen *g = gen_create(ctx, "one");
    LLVMTypeRef params[2] = {LLVMPointerTypeInContext(g->llvm, 1), g->i32};
    LLVMValueRef fn =
        LLVMAddFunction(g->module, "one", LLVMFunctionType(g->void_, params, 2, false));
    LLVMPositionBuilderAtEnd(g->b, LLVMAppendBasicBlockInContext(g->llvm, fn, ""));
    LLVMBuildStore(g->b, LLVMGetParam(fn, 1), LLVMGetParam(fn, 0));
    LLVMBuildRetVoid(g->b);
    run->status = nv_compile(g, nv_arch("sm_90a"), &run->options, &run->ptx);
    if (run->ptx.log) strncpy(run->log, run->ptx.log, sizeof run->log - 1);
    if (run->status != NV_OK) return;
    assert_non_null(strstr(run->ptx.text, ".entry one("));
    assert_int_equal(run->ptx.bytes, strlen(run->ptx.text));
    NvOutput out;
    if (nv_ptxas(run->ptx.text, run->ptx.bytes, nv_arch("sm_90a"), &out) == NV_OK) {
        nv_read_log(ctx, out.log, &run->uses);
        assert_int_equal(run->uses.n, 1);
        assert_string_equal(run->uses.data[0].kernel, "one");
        assert_in_range(run->uses.data[0].registers, 4, 32);
        assert_int_equal(run->uses.data[0].spill_bytes, 0);
        assert_null(run->uses.notes);
    }
    nv_output_free(&out);
}

static Run compiled(NvOptions options) {
    Run run = {.options = options};
    Ctx *ctx = ctx_create(NULL);
    assert_int_equal(llvm_protect(ctx, compile_one, &run), CTX_OK);
    ctx_destroy(ctx);
    return run;
}

static void generators(void **state) {
    (void)state;
    Run run = compiled((NvOptions){.codegen = NV_AUTO});
    assert_int_equal(run.status, NV_OK);
    assert_false(run.ptx.nvvm);
    assert_int_equal(run.ptx.version, 84);
    assert_true(run.ptx.expand_seconds >= 0 && run.ptx.generate_seconds > 0);
    run = compiled((NvOptions){.codegen = NV_PREFER_NVVM});
    assert_int_equal(run.status, NV_OK);
    assert_int_equal(run.ptx.nvvm, nvvm_available());
    run = compiled((NvOptions){.codegen = NV_NVVM});
    assert_int_equal(run.status, nvvm_available() ? NV_OK : NV_ABSENT);
    if (run.status == NV_OK) assert_int_equal(run.ptx.version, 90);
}

/// A driver older than libNVVM's PTX.
static void old_driver(void **state) {
    (void)state;
    Run run = compiled((NvOptions){.codegen = NV_PREFER_NVVM, .driver = 12040});
    assert_int_equal(run.status, NV_OK);
    assert_false(run.ptx.nvvm);
    run = compiled((NvOptions){.codegen = NV_NVVM, .driver = 12040});
    assert_int_equal(run.status, NV_FAILED);
    assert_non_null(strstr(run.log, "PTX 9.0"));
    assert_non_null(strstr(run.log, "CUDA 12.4"));
    assert_int_equal(nv_ptx_of_driver(11080), 78);
    assert_int_equal(nv_ptx_of_driver(12060), 85);
    assert_int_equal(nv_ptx_of_driver(13010), 90);
    assert_int_equal(nv_ptx_of_driver(11000), 0);
}

/// Parses the output of ptxas for two kernels.
static void logs(void **state) {
    static const char log[] =
        "ptxas info    : (C7510) Potential Performance Loss: wgmma.mma_async is serialized\n"
        "ptxas info    : 0 bytes gmem\n"
        "ptxas info    : Compiling entry function 'a' for 'sm_90a'\n"
        "ptxas info    : Function properties for a\n"
        "    16 bytes stack frame, 12 bytes spill stores, 20 bytes spill loads\n"
        "ptxas info    : Used 168 registers, used 3 barriers, 1024 bytes smem, 400 bytes cmem[0]\n"
        "ptxas info    : Compiling entry function 'b' for 'sm_90a'\n"
        "    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads\n"
        "ptxas info    : Used 24 registers";
    Ctx *ctx = ctx_create(NULL);
    NvUses uses;
    (void)state;
    nv_read_log(ctx, log, &uses);
    assert_int_equal(uses.n, 2);
    assert_string_equal(uses.data[0].kernel, "a");
    assert_int_equal(uses.data[0].registers, 168);
    assert_int_equal(uses.data[0].spill_bytes, 32);
    assert_int_equal(uses.data[0].stack_bytes, 16);
    assert_int_equal(uses.data[0].shared_bytes, 1024);
    assert_int_equal(uses.data[0].barriers, 3);
    assert_int_equal(uses.data[1].registers, 24);
    assert_non_null(strstr(uses.notes, "C7510"));
    nv_read_log(ctx, NULL, &uses);
    assert_int_equal(uses.n, 0);
    ctx_destroy(ctx);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(architectures),
        cmocka_unit_test(needs),
        cmocka_unit_test(opaque_pointers),
        cmocka_unit_test(bad_ptx),
        cmocka_unit_test(later_ptx),
        cmocka_unit_test(two_kernels),
        cmocka_unit_test(generators),
        cmocka_unit_test(old_driver),
        cmocka_unit_test(logs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
