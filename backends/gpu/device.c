// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Code that the back ends of all GPUs, and the simulator, share.
#include <string.h>
#include <time.h>

#include "backends/gpu/gpu.h"
#include "backends/llvm/target.h"
#include "passes/gpu/gpu.h"

TargetInfo gpu_target_info(const GpuTarget *t, const char *arch) {
    return (TargetInfo){.cpu = t->name,
                        .features = "",
                        .vector_bytes = 16,
                        .vector_registers = 32,
                        .l1_bytes = t->shared_sm,
                        .l2_bytes = t->l2_bytes / t->sms,
                        .name = t->name,
                        .arch = arch,
                        .label = t->name};
}

bool gpu_host_has(OpCode code, Elem elem) {
    (void)code, (void)elem;
    return false;
}

bool gpu_device(const GpuJob *job, void (*compile)(Ctx *ctx, void *job)) {
    Ctx *ctx = ir_ctx(job->ir);
    return ctx_pass_on(ctx, llvm_protect(ctx, compile, (void *)job));
}

const tg_device_function *gpu_functions(Ctx *ctx, const GpuCode *code) {
    tg_device_function *all = ctx_array(ctx, tg_device_function, code->n + 1);
    for (int i = 0; i < code->n; i++) {
        const GpuKernel *k = &code->kernels[i];
        all[i] = (tg_device_function){.name = k->name,
                                      .threads = k->threads,
                                      .cluster = k->cluster,
                                      .shared_bytes = (int32_t)k->shared_bytes,
                                      .n_args = k->n_args,
                                      .flags = (k->records ? TG_DEVICE_FAULTS : 0) |
                                               (k->early ? TG_DEVICE_EARLY : 0) | k->again,
                                      .together = k->together};
    }
    return all;
}

const char *gpu_module_text(const Gen *g) {
    char *text = LLVMPrintModuleToString(g->module);
    const char *copy = ctx_copy(g->ctx, text, strlen(text) + 1);
    LLVMDisposeMessage(text);
    return copy;
}

double gpu_seconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}
