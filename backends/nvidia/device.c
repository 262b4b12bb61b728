// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The devices of a module as an image of PTX.
#include <string.h>

#include "backends/nvidia/nvidia.h"

static const tg_device_function *functions_of(Ctx *ctx, const GpuCode *code) {
    tg_device_function *all = ctx_array(ctx, tg_device_function, code->n + 1);
    for (int i = 0; i < code->n; i++) {
        const GpuKernel *k = &code->kernels[i];
        all[i] = (tg_device_function){.name = k->name,
                                      .threads = k->threads,
                                      .cluster = k->cluster,
                                      .shared_bytes = (int32_t)k->shared_bytes,
                                      .n_args = k->n_args,
                                      .flags = k->faults ? TG_DEVICE_FAULTS : 0};
    }
    return all;
}

/// The module as text, before it becomes PTX.
static const char *print_module(Gen *g) {
    char *text = LLVMPrintModuleToString(g->module);
    const char *copy = ctx_copy(g->ctx, text, strlen(text) + 1);
    LLVMDisposeMessage(text);
    return copy;
}

NvStatus nv_device(Ir *ir, const Op *module, const NvDeviceOptions *o, NvDevice *out) {
    Ctx *ctx = ir_ctx(ir);
    const NvArch *arch = nv_arch(o->gpu.target);
    if (!arch) ice(ctx, (Loc){0}, "no architecture %s", o->gpu.target);
    Gen *g = gen_create(ctx, "device");
    g->strip = o->strip;
    *out = (NvDevice){0};
    const GpuCode *code = gpu_lower(g, ir, module, &o->gpu);
    if (o->keep_llvm) out->llvm = print_module(g);
    NvStatus status = nv_compile(g, arch, &o->compile, &out->ptx);
    if (status != NV_OK) return status;
    out->image = (tg_image){.kind = TG_IMAGE_PTX,
                            .arch = (int16_t)arch->number,
                            .specific = arch->specific,
                            .target = arch->name,
                            .bytes = out->ptx.text,
                            .size = out->ptx.bytes + 1,
                            .functions = functions_of(ctx, code),
                            .n_functions = code->n,
                            .sites = code->sites.data,
                            .n_sites = code->sites.n};
    return NV_OK;
}
