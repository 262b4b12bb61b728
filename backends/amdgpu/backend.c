// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The back end of AMD's GPUs: compiles devices to a code object.
#include <stdio.h>
#include <string.h>

#include "backends/amdgpu/amdgpu.h"
#include "backends/llvm/target.h"

#include "lang/diag.h"

/* ---- targets ------------------------------------------------------------------------------- */

const GpuTarget *amd_target(const char *name) {
    return strncmp(name, "gfx", 3) == 0 ? gpu_target(name) : NULL;
}

static bool amd_info(const char *level, TargetInfo *out) {
    const GpuTarget *t = level ? amd_target(level) : NULL;
    if (!t) return false;
    *out = gpu_target_info(t, "amdgcn");
    return true;
}

/// Code runs only on the architecture that it was made for.
const char *amdgpu_target(int capability, char machine[16]) {
    for (const GpuTarget *t = gpu_targets; t->name; t++) {
        if (t->arch != capability || !amd_target(t->name)) continue;
        snprintf(machine, 16, "%s", t->name);
        return t->name;
    }
    return NULL;
}

/* ---- compiling ----------------------------------------------------------------------------- */

void amd_compile(Gen *g, const GpuTarget *gpu, bool assembly, AmdObject *out) {
    module_verify(g);
    portable_check(g->ctx, g->module);
    amd_expand(g, gpu);
    amd_emit(g, gpu, assembly, out);
}

/// The code object contains the size of shared memory, so launches do not request it.
static const tg_device_function *functions_of(Ctx *ctx, const GpuCode *code) {
    tg_device_function *all = (tg_device_function *)gpu_functions(ctx, code);
    for (int i = 0; i < code->n; i++) all[i].shared_bytes = 0;
    return all;
}

static void note_shared_bytes(const Gen *g, const GpuCode *code) {
    for (int i = 0; i < code->n; i++) {
        const GpuKernel *k = &code->kernels[i];
        if (k->shared_bytes)
            amd_set_shared(g, LLVMGetNamedFunction(g->module, k->name), k->shared_bytes);
    }
}

/// Texts alone need no linker.
static void link_amd_image(Ctx *ctx, const GpuJob *job, const GpuTarget *gpu,
                           const AmdObject *object) {
    const CodeOptions *o = job->options;
    tg_image *image = &job->out->image;
    AmdCode code;
    if (o->texts && !(o->texts & TEXT_OBJECT)) return;
    double start = gpu_seconds();
    AmdStatus status = amd_link(ctx, object, gpu, &code);
    job->out->times.link = gpu_seconds() - start;
    job->out->times.linker = code.linker;
    image->bytes = code.bytes;
    image->size = code.size;
    if (status == AMD_OK) return;
    if (status == AMD_FAILED) code.log = ctx_format(ctx, "no code for %s: %s", gpu->name, code.log);
    diag(ctx, (Loc){0}, D_RUN_FAILED, code.log);
    if (status == AMD_FAILED)
        diag_hint(ctx, "TG_LLD names another ld.lld (of LLVM 22), TG_COMGR another libamd_comgr");
    ctx_leave(ctx, CTX_ERRORS);
}

static void compile_amd(Ctx *ctx, void *arg) {
    const GpuJob *job = arg;
    const CodeOptions *o = job->options;
    const GpuTarget *gpu = amd_target(o->level);
    if (!gpu) ice(ctx, (Loc){0}, "no GPU %s", o->level);
    Gen *g = gen_create(ctx, "device");
    g->strip = o->strip;
    GpuOptions options = {.target = o->level,
                          .check = o->check,
                          .debug = o->debug,
                          .marks = o->marks,
                          .notes = o->notes};
    double start = gpu_seconds();
    const GpuCode *code = gpu_lower(g, job->ir, job->module, &options);
    note_shared_bytes(g, code);
    double lowered = gpu_seconds();
    *job->out = (DeviceCode){.times.lower = lowered - start, .times.generator = "amdgpu"};
    if (o->texts & TEXT_LLVM) job->out->llvm = gpu_module_text(g);
    AmdObject object = {0};
    // With only the portable module requested, no code is generated.
    if (o->texts != TEXT_LLVM || o->notes)
        amd_compile(g, gpu, o->texts & TEXT_ASM || o->notes, &object);
    job->out->times.generate = gpu_seconds() - lowered;
    job->out->assembly = o->texts & TEXT_ASM ? object.assembly : NULL;
    job->out->image = (tg_image){.kind = TG_IMAGE_HSACO,
                                 .arch = (int16_t)gpu->arch,
                                 .specific = 1,
                                 .target = gpu->name,
                                 .functions = functions_of(ctx, code),
                                 .n_functions = code->n,
                                 .sites = code->sites.data,
                                 .n_sites = code->sites.n};
    if (o->notes) amd_describe(ctx, o->notes, gpu, code, object.assembly);
    link_amd_image(ctx, job, gpu, &object);
}

static bool amd_device(Ir *ir, const Op *module, const CodeOptions *options, DeviceCode *out) {
    return gpu_device(&(GpuJob){ir, module, options, out}, compile_amd);
}

const Backend amdgpu_backend = {.name = "amdgpu",
                                .info = amd_info,
                                .has_op = gpu_host_has,
                                .device = amd_device,
                                .device_has = gen_portable_has};
