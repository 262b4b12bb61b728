// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Puts every row of portable.def, with each choice in its name, into a kernel of its own, and runs
// the checker, both generators and ptxas on every architecture with that row.
#include "backends/llvm/target.h"
#include "backends/nvidia/nvidia.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { NAME = 160 };

/* ---- names of a row ------------------------------------------------------------------------ */

/// Returns the text in a name for alternative `pick` of the capture at s, "<k:...>"; false beyond
/// the last. A range provides its ends.
static bool alternative(const char *s, int pick, char *text, char *value) {
    const char *alt = s + 3;
    for (;; alt++) {
        size_t len = strcspn(alt, "|>"), name = strcspn(alt, "=|>");
        const char *dots = memmem(alt, len, "..", 2);
        if (dots && *alt >= '0' && *alt <= '9') {
            if (pick < 2) {
                sprintf(text, "%ld", strtol(pick ? dots + 2 : alt, NULL, 10));
                strcpy(value, text);
                return true;
            }
            pick -= 2;
        } else if (pick-- == 0) {
            sprintf(text, "%.*s", (int)name, alt);
            size_t skip = name < len ? name + 1 : 0;
            sprintf(value, "%.*s", (int)(len - skip), alt + skip);
            return true;
        }
        if (alt[len] == '>') return false;
        alt += len;
    }
}

/// Makes the row's name with choice `pick` for capture `which`, and the first choice for all
/// others.
static bool make_name(const FnRow *row, int which, int pick, char *name) {
    char values[128][32], text[32], value[32];
    int seen = 0;
    name += sprintf(name, "tg.");
    for (const char *s = row->name; *s;) {
        if (*s != '<') {
            *name++ = *s++;
        } else if (s[2] == '>') {
            name += sprintf(name, "%s", values[(int)s[1]]);
            s += 3;
        } else {
            if (!alternative(s, seen == which ? pick : 0, text, value)) return false;
            memcpy(values[(int)s[1]], value, sizeof value);
            name += sprintf(name, "%s", text);
            seen++;
            s = strchr(s, '>') + 1;
        }
    }
    *name = 0;
    return seen > which || (which == 0 && pick == 0);
}

/// Calls use(name) for each choice of each capture of each row; returns how many there were.
static int each_name(const GpuTarget *arch, void (*use)(const char *name, void *arg), void *arg) {
    char name[NAME];
    int n = 0;
    for (int i = 0; i < fn_row_count; i++) {
        if (arch && !fn_has(&fn_rows[i], arch)) continue;
        for (int which = 0; which < FN_CAPTURES; which++)
            for (int pick = which > 0; make_name(&fn_rows[i], which, pick, name); pick++, n++)
                use(name, arg);
    }
    return n;
}

/* ---- kernels ------------------------------------------------------------------------------- */

/// Makes an operand by a load, so that its value is unknown.
static LLVMValueRef make_operand(Gen *g, LLVMValueRef fn, char letter, int *at) {
    if (letter == 'g') return LLVMGetParam(fn, 0);
    if (letter == 'p') return LLVMGetParam(fn, 1);
    if (letter == 's') return portable_call(g, "tg.shared.base", 0, NULL);
    LLVMTypeRef t = letter == 'b' ? g->i32 : fn_letter_type(g->llvm, letter);
    LLVMValueRef where = gen_i64(g, 8 * (*at)++), p;
    p = LLVMBuildInBoundsGEP2(g->b, g->i8, LLVMGetParam(fn, 0), &where, 1, "");
    LLVMValueRef v = LLVMBuildLoad2(g->b, t, p, "");
    return letter == 'b' ? LLVMBuildICmp(g->b, LLVMIntNE, v, LLVMConstNull(t), "") : v;
}

static void keep(Gen *g, LLVMValueRef fn, LLVMValueRef v, int i) {
    LLVMValueRef where = gen_i64(g, 8 * i);
    LLVMValueRef p = LLVMBuildGEP2(g->b, g->i8, LLVMGetParam(fn, 0), &where, 1, "");
    if (LLVMTypeOf(v) == g->i1) v = LLVMBuildZExt(g->b, v, g->i32, "");
    LLVMBuildStore(g->b, v, p);
}

/// Commits an asynchronous product and passes its accumulators through the wait.
static LLVMValueRef finish_wgmma(Gen *g, const Fn *f, LLVMValueRef v) {
    LLVMValueRef parts[FN_OPERANDS];
    int n = f->result.count;
    portable_call(g, "tg.nv.wgmma.commit", 0, NULL);
    for (int i = 0; i < n; i++) parts[i] = LLVMBuildExtractValue(g->b, v, (unsigned)i, "");
    const char *name = ctx_format(g->ctx, "tg.nv.wgmma.wait.0.%c32x%d", f->result.letter, n);
    return portable_call(g, name, n, parts);
}

typedef struct Rows {
    Gen *g;
    int n; // number of kernels
} Rows;

static void add_kernel(const char *name, void *arg) {
    Rows *rows = arg;
    Gen *g = rows->g;
    Fn f;
    LLVMTypeRef params[2] = {LLVMPointerTypeInContext(g->llvm, 1), g->ptr};
    LLVMValueRef args[FN_OPERANDS];
    int at = 0, n = 0;
    // Without a product these two draw advice from ptxas. They enclose each product below.
    if (strcmp(name, "tg.nv.wgmma.fence") == 0 || strcmp(name, "tg.nv.wgmma.commit") == 0) return;
    if (!fn_find(name, &f)) print_message("%s is not found\n", name);
    assert_true(fn_find(name, &f));
    LLVMValueRef fn = LLVMAddFunction(g->module, ctx_format(g->ctx, "k%d", rows->n++),
                                      LLVMFunctionType(g->void_, params, 2, false));
    LLVMAddAttributeAtIndex(fn, 2,
                            LLVMCreateTypeAttribute(g->llvm,
                                                    LLVMGetEnumAttributeKindForName("byval", 5),
                                                    LLVMArrayType2(g->i8, 128)));
    LLVMAddAttributeAtIndex(fn, (LLVMAttributeIndex)LLVMAttributeFunctionIndex,
                            LLVMCreateStringAttribute(g->llvm, "tg.maxntid", 10, "128,1,1", 7));
    LLVMAddAttributeAtIndex(fn, (LLVMAttributeIndex)LLVMAttributeFunctionIndex,
                            LLVMCreateStringAttribute(g->llvm, "tg.minctasm", 11, "1", 1));
    LLVMPositionBuilderAtEnd(g->b, LLVMAppendBasicBlockInContext(g->llvm, fn, ""));
    for (int i = 0; i < f.n_groups; i++)
        for (int k = 0; k < f.groups[i].count; k++)
            args[n++] = make_operand(g, fn, f.groups[i].letter, &at);
    bool wgmma = strstr(name, ".wgmma.m64");
    if (wgmma) portable_call(g, "tg.nv.wgmma.fence", 0, NULL);
    LLVMValueRef v = portable_call(g, name, n, args);
    if (wgmma) v = finish_wgmma(g, &f, v);
    if (f.result.letter == 's') v = portable_call(g, "tg.shared.addr", 1, &v);
    if (f.result.count == 1) keep(g, fn, v, 0);
    for (int i = 0; f.result.count > 1 && i < f.result.count; i++)
        keep(g, fn, LLVMBuildExtractValue(g->b, v, (unsigned)i, ""), i);
    LLVMBuildRetVoid(g->b);
}

/* ---- compilation --------------------------------------------------------------------------- */

typedef struct Job {
    const GpuTarget *arch;
    bool nvvm, failed;
    int kernels;
} Job;

static int count(const char *text, const char *what) {
    int n = 0;
    while ((text = strstr(text, what))) n++, text++;
    return n;
}

static void assemble(Job *job, const char *ptx) {
    NvOutput out;
    NvStatus status = nv_ptxas(ptx, strlen(ptx), job->arch, &out);
    if (strstr(ptx, ".extern .func")) {
        print_message("%s: .extern .func\n", job->arch->name);
        job->failed = true;
    }
    if (status == NV_FAILED) {
        print_message("%s: %.4000s\n", job->arch->name, out.log);
        job->failed = true;
    }
    if (status == NV_OK) {
        // No instruction is dropped, no register spills, and there is no advice.
        assert_int_equal(count(out.log, "Compiling entry function"), job->kernels);
        assert_int_equal(count(out.log, "0 bytes spill stores, 0 bytes spill"), job->kernels);
        assert_int_equal(count(out.log, "C75"), 0);
    }
    if (status == NV_ABSENT)
        print_message("no ptxas: PTX for %s is not assembled\n", job->arch->name);
    nv_output_free(&out);
}

static void compile(Ctx *ctx, void *arg) {
    Job *job = arg;
    Gen *g = gen_create(ctx, "rows");
    Rows rows = {.g = g};
    each_name(job->arch, add_kernel, &rows);
    int n = job->kernels = rows.n;
    print_message("%s, %s: %d kernels\n", job->arch->name, job->nvvm ? "libNVVM" : "LLVM", n);
    module_verify(g);
    portable_check(ctx, g->module);
    nv_expand(g, job->arch);
    if (!job->nvvm) {
        assemble(job, nvptx_emit(g, job->arch));
        return;
    }
    module_verify(g);
    const char *text = nvvm_write(ctx, g->module, job->arch);
    NvOutput out;
    NvStatus status = nvvm_compile(text, strlen(text), job->arch, 3, &out);
    if (status == NV_OK) assemble(job, out.data);
    if (status == NV_FAILED) print_message("libNVVM: %s\n", out.log);
    if (status == NV_ABSENT) print_message("no libNVVM\n");
    job->failed |= status == NV_FAILED;
    nv_output_free(&out);
}

static void run(const char *arch, bool nvvm) {
    Job job = {.arch = nv_arch(arch), .nvvm = nvvm};
    Ctx *ctx = ctx_create(NULL);
    CtxStatus status = llvm_protect(ctx, compile, &job);
    for (const Diagnostic *d = diag_first(ctx); d; d = d->next) print_message("%s\n", d->text);
    ctx_destroy(ctx);
    assert_int_equal(status, CTX_OK);
    assert_false(job.failed);
}

static void by_llvm(void **state) {
    (void)state;
    for (const GpuTarget *t = gpu_targets; t->name; t++)
        if (t->ptx) run(t->name, false);
}

static void by_libnvvm(void **state) {
    (void)state;
    for (const GpuTarget *t = gpu_targets; t->name; t++)
        if (t->ptx) run(t->name, true);
}

/* ---- names --------------------------------------------------------------------------------- */

static void count_name(const char *name, void *arg) {
    Fn f;
    (void)arg;
    assert_true(fn_find(name, &f));
}

static void names(void **state) {
    static const char *const wrong[] = {
        "lane.id",
        "tg.lane.id.x",
        "tg.thread.id.w",
        "tg.nv.cp.async.wait.16",
        "tg.nv.cp.async.wait.00",
        "tg.barrier.16.32",
        "tg.barrier.1.33",
        "tg.nv.mma.m16n8k16.f32.f16.bf16",
        "tg.nv.wgmma.m64n12k16.f32.f16.f16.ss",
        "tg.nv.wgmma.m64n264k16.f32.f16.f16.ss",
        "tg.nv.wgmma.m64n40k32.i32.i8.i8.ss",
        "tg.nv.wgmma.m64n64k16.f32.f16.f16.rs.ta",
        "tg.",
    };
    Fn f;
    (void)state;
    each_name(NULL, count_name, NULL);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) assert_false(fn_find(wrong[i], &f));
    assert_true(fn_find("tg.nv.wgmma.m64n160k16.f32.bf16.bf16.rs.tb.x4", &f));
    assert_int_equal(f.result.count, 80);
    assert_int_equal(f.groups[0].count, 16);
    assert_int_equal(f.groups[1].count, 4);
    assert_true(f.groups[2].tied);
    assert_string_equal(fn_capture(&f, 'y'), "1");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names),
        cmocka_unit_test(by_llvm),
        cmocka_unit_test(by_libnvvm),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
