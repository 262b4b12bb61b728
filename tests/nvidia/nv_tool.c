// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// nv-tool: reads portable modules as text and prints the nvidia back end's output.
//
//     nv-tool check FILE          the checker's verdict on each module in the file; lines "; -----"
//                                 separate modules
//     nv-tool typed ARCH FILE     the text for libNVVM
//     nv-tool nvvm ARCH FILE      PTX by libNVVM, then ptxas's report as comments
//     nv-tool nvptx ARCH FILE     PTX by LLVM, likewise
//     nv-tool have                NVIDIA's programs and libraries on this machine
#include <llvm-c/IRReader.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backends/llvm/target.h"
#include "backends/nvidia/nvidia.h"

typedef struct Job {
    const char *mode, *file;
    const GpuTarget *arch;
    NvOutput ptx;
    bool failed;
} Job;

static void parse(Gen *g, LLVMMemoryBufferRef buffer) {
    char *error = NULL;
    LLVMModuleRef module = NULL;
    if (LLVMParseIRInContext(g->llvm, buffer, &module, &error)) {
        fprintf(stderr, "nv-tool: %s\n", error);
        exit(2);
    }
    LLVMDisposeModule(g->module);
    g->module = module;
}

static LLVMMemoryBufferRef read_file(const char *file) {
    LLVMMemoryBufferRef buffer;
    char *error = NULL;
    if (LLVMCreateMemoryBufferWithContentsOfFile(file, &buffer, &error)) {
        fprintf(stderr, "nv-tool: %s\n", error);
        exit(2);
    }
    return buffer;
}

/// Assembles and prints ptxas's report. A spill or advice of the C75xx kind is a failure.
static void assemble(Job *job, Ctx *ctx, const char *text) {
    NvOutput out;
    const char *ptx = nv_wrap_abs(ctx, text);
    NvStatus status = nv_ptxas(ptx, strlen(ptx), job->arch, &out);
    fputs(ptx, stdout);
    if (status == NV_ABSENT) {
        puts("// no ptxas");
        return;
    }
    for (char *line = strtok(out.log, "\n"); line; line = strtok(NULL, "\n")) {
        printf("// %s\n", line);
        job->failed |=
            strstr(line, "C75") || strstr(line, "arning") ||
            (strstr(line, "spill") && !strstr(line, "0 bytes spill stores, 0 bytes spill"));
    }
    job->failed |= status != NV_OK || strstr(ptx, ".extern .func");
    nv_output_free(&out);
}

static void process(Ctx *ctx, void *arg) {
    Job *job = arg;
    Gen *g = gen_create(ctx, "test");
    parse(g, read_file(job->file));
    module_verify(g);
    portable_check(ctx, g->module);
    nv_expand(g, job->arch);
    module_verify(g);
    if (strcmp(job->mode, "nvptx") == 0) {
        assemble(job, ctx, nvptx_emit(g, job->arch));
        return;
    }
    if (strcmp(job->mode, "nvvm") == 0) {
        nvptx_bound_ctas(g, job->arch);
        nvvm_pin_invariants(g);
    }
    const char *text = nvvm_write(ctx, g->module, job->arch);
    if (strcmp(job->mode, "typed") == 0) {
        fputs(text, stdout);
        return;
    }
    NvStatus status = nvvm_compile(text, strlen(text), job->arch, 3, &job->ptx);
    job->failed = status != NV_OK;
    if (job->ptx.log && *job->ptx.log) fprintf(stderr, "libNVVM: %s\n", job->ptx.log);
    if (status == NV_ABSENT) fputs("libNVVM was not found\n", stderr);
    if (status == NV_OK) assemble(job, ctx, job->ptx.data);
}

static void print_diagnostics(Ctx *ctx) {
    for (const Diagnostic *d = diag_first(ctx); d; d = d->next) fprintf(stderr, "%s\n", d->text);
}

/* ---- check --------------------------------------------------------------------------------- */

static void check(Ctx *ctx, void *arg) {
    Gen *g = gen_create(ctx, "test");
    const char *text = arg;
    parse(g, LLVMCreateMemoryBufferWithMemoryRangeCopy(text, strlen(text), "test"));
    module_verify(g);
    portable_check(ctx, g->module);
    puts("portable");
}

static int check_all(const char *file) {
    static const char line[] = "; -----\n";
    LLVMMemoryBufferRef buffer = read_file(file);
    char *text = strndup(LLVMGetBufferStart(buffer), LLVMGetBufferSize(buffer));
    for (char *s = text, *next; s; s = next) {
        next = strstr(s, line);
        if (next) {
            *next = 0;
            next += strlen(line);
        }
        Ctx *ctx = ctx_create(NULL);
        llvm_protect(ctx, check, s);
        fflush(stdout);
        for (const Diagnostic *d = diag_first(ctx); d; d = d->next) printf("%s\n", d->text);
        ctx_destroy(ctx);
    }
    free(text);
    LLVMDisposeMemoryBuffer(buffer);
    return 0;
}

/* ---- main ---------------------------------------------------------------------------------- */

static int have(void) {
    static const char ptx[] = ".version 8.0\n.target sm_80\n.address_size 64\n";
    const GpuTarget *arch = nv_arch("sm_80");
    NvOutput out;
    if (nvvm_compile("", 0, arch, 0, &out) != NV_ABSENT) puts("libnvvm");
    nv_output_free(&out);
    if (nv_ptxas(ptx, strlen(ptx), arch, &out) != NV_ABSENT) puts("ptxas");
    nv_output_free(&out);
    return 0;
}

int main(int argc, char **argv) {
    if (argc == 2 && strcmp(argv[1], "have") == 0) return have();
    Job job = {.mode = argv[1], .file = argv[argc - 1]};
    if (argc == 3 && strcmp(argv[1], "check") == 0) return check_all(argv[2]);
    if (argc == 4) job.arch = nv_arch(argv[2]);
    if (!job.arch) {
        fputs("usage: nv-tool check FILE | typed|nvvm|nvptx ARCH FILE | have\n", stderr);
        return 2;
    }
    Ctx *ctx = ctx_create(NULL);
    CtxStatus status = llvm_protect(ctx, process, &job);
    print_diagnostics(ctx);
    nv_output_free(&job.ptx);
    ctx_destroy(ctx);
    return status != CTX_OK || job.failed;
}
