// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The devices of a module as an image of PTX.
#include "backends/nvidia/nvidia.h"

NvStatus nv_device(Ir *ir, const Op *module, const NvDeviceOptions *o, NvDevice *out) {
    Ctx *ctx = ir_ctx(ir);
    const GpuTarget *arch = nv_arch(o->gpu.target);
    if (!arch) ice(ctx, (Loc){0}, "no architecture %s", o->gpu.target);
    Gen *g = gen_create(ctx, "device");
    g->strip = o->strip;
    *out = (NvDevice){0};
    const GpuCode *code = gpu_lower(g, ir, module, &o->gpu);
    if (o->keep_llvm) out->llvm = gpu_module_text(g);
    NvStatus status = nv_compile(g, arch, &o->compile, &out->ptx);
    if (status != NV_OK) return status;
    out->image = (tg_image){.kind = TG_IMAGE_PTX,
                            .arch = (int16_t)arch->arch,
                            .specific = gpu_has(arch, GPU_SPECIFIC),
                            .target = arch->name,
                            .bytes = out->ptx.text,
                            .size = out->ptx.bytes + 1,
                            .functions = gpu_functions(ctx, code),
                            .n_functions = code->n,
                            .sites = code->sites.data,
                            .n_sites = code->sites.n};
    return NV_OK;
}
