// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The back end of NVIDIA's GPUs: compiles devices to PTX, and to machine code if a linker is
// available.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backends/backend.h"
#include "backends/llvm/target.h"
#include "backends/nvidia/cubin_link.h"
#include "lang/diag.h"
#include "passes/gpu/gpu.h"

/* ---- targets ------------------------------------------------------------------------------- */

static bool nvidia_info(const char *level, TargetInfo *out) {
    const GpuTarget *t = level ? nv_arch(level) : NULL;
    if (!t) return false;
    *out = gpu_target_info(t, "nvptx64");
    return true;
}

/// Code of a specific architecture (the a in sm_90a) runs only there. Other code also runs on later
/// ones.
const char *nvidia_target(int capability, char machine[16]) {
    const GpuTarget *best = NULL;
    for (const GpuTarget *t = gpu_targets; t->name; t++) {
        bool specific = gpu_has(t, GPU_SPECIFIC);
        bool runs = t->ptx && (specific ? t->arch == capability : t->arch <= capability);
        if (runs && (!best || t->arch > best->arch)) best = t;
    }
    if (!best) return NULL;
    if (best->arch == capability)
        snprintf(machine, 16, "%s", best->name);
    else
        snprintf(machine, 16, "sm_%d", capability & 0xffff);
    return best->name;
}

bool nvidia_takes_nvvm(int driver) {
    return nvvm_available() &&
           (nv_ptx_of_driver(driver) >= NVVM_PTX || nv_link_available(NVVM_PTX, driver));
}

/* ---- compiling ----------------------------------------------------------------------------- */

static const struct {
    const char *name;
    NvCodegen codegen;
} codegens[] = {{"auto", NV_AUTO}, {"nvvm", NV_NVVM}, {"nvptx", NV_NVPTX}};

/// Reads the option, then TG_CODEGEN. An unknown name ends the compilation.
static NvCodegen codegen_of(Ctx *ctx, const CodeOptions *o) {
    const char *name = o->codegen ? o->codegen : secure_getenv("TG_CODEGEN");
    if (!name || !*name) return NV_AUTO;
    for (size_t i = 0; i < sizeof codegens / sizeof *codegens; i++)
        if (strcmp(codegens[i].name, name) == 0) return codegens[i].codegen;
    diag(ctx, (Loc){0}, D_RUN_FAILED,
         ctx_format(ctx, "unknown code generator '%s': there are nvvm, nvptx and auto", name));
    ctx_leave(ctx, CTX_ERRORS);
}

static void release_ptxas_output(void *thing) {
    nv_output_free(thing);
}

/// PTX on its way to machine code.
typedef struct Linking {
    NvLink link;
    const char *machine;
    double start, seconds; // seconds: used if it is done at once
} Linking;

static void release_linking(void *thing) {
    nv_link_free(&((Linking *)thing)->link);
}

/// Replaces the image's PTX by machine code. Without a linker the PTX stays, and the driver
/// compiles it.
static void take_machine_code(Ctx *ctx, DeviceCode *out) {
    Linking *w = out->work;
    NvOutput *made = &w->link.made;
    tg_image *image = &out->image;
    char *end;
    NvStatus status = nv_link_finish(&w->link);
    out->times.link = w->seconds ? w->seconds : gpu_seconds() - w->start;
    if (status == NV_ABSENT) return;
    if (status == NV_NO_MEMORY) ctx_leave(ctx, CTX_NO_MEMORY);
    if (status != NV_OK)
        ice(ctx, (Loc){0}, "%s refuses PTX for %s: %s", w->link.by, w->machine,
            made->log ? made->log : "no message");
    out->times.linker = w->link.by;
    image->kind = TG_IMAGE_CUBIN;
    image->arch = (int16_t)strtol(w->machine + 3, &end, 10);
    image->specific = *end == 'a';
    image->bytes = ctx_copy(ctx, made->data, made->bytes);
    image->size = made->bytes;
}

static void start_linking(Ctx *ctx, const CodeOptions *o, DeviceCode *out) {
    Linking *w = ctx_new(ctx, Linking);
    w->machine = o->machine;
    w->start = gpu_seconds();
    nv_link_start(&w->link, out->image.bytes, out->image.size - 1, o->machine, o->driver);
    ctx_defer(ctx, release_linking, w);
    if (!w->link.run) w->seconds = gpu_seconds() - w->start;
    out->work = w;
    out->settle = take_machine_code;
}

/// Adds ptxas's description of each function; without ptxas, that of the image.
static void describe_functions(Ctx *ctx, const CodeOptions *o, const tg_image *image) {
    NvOutput *made = ctx_new(ctx, NvOutput);
    GpuTarget machine = {.name = o->level};
    NvUses uses = {0};
    ctx_defer(ctx, release_ptxas_output, made);
    if (nv_ptxas(image->bytes, image->size - 1, &machine, made) == NV_OK)
        nv_read_log(ctx, made->log, &uses);
    for (int i = 0; i < image->n_functions; i++) {
        const tg_device_function *f = &image->functions[i];
        text_add(o->notes, "  %s: %d threads", f->name, f->threads);
        if (f->cluster > 1) text_add(o->notes, ", clusters of %d CTAs", f->cluster);
        text_add(o->notes, ", %d bytes of shared memory", f->shared_bytes);
        for (int k = 0; k < uses.n; k++) {
            const NvUse *u = &uses.data[k];
            if (strcmp(u->kernel, f->name) != 0) continue;
            text_add(o->notes, ", %d registers, ", u->registers);
            if (u->spill_bytes)
                text_add(o->notes, "%d bytes of them spilled", u->spill_bytes);
            else
                text_add(o->notes, "none spilled");
        }
        text_add(o->notes, "\n");
    }
    if (uses.notes) text_add(o->notes, "%s", uses.notes);
    if (!uses.n) text_add(o->notes, "  (ptxas would say more: it was not found)\n");
}

static void compile_nvidia(Ctx *ctx, void *arg) {
    const GpuJob *job = arg;
    const CodeOptions *o = job->options;
    NvDevice device;
    NvCodegen codegen = codegen_of(ctx, o);
    int ptx = codegen == NV_AUTO || codegen == NV_NVPTX ? LLVM_PTX : NVVM_PTX;
    bool linked = o->machine && o->driver && nv_link_available(ptx, o->driver);
    NvDeviceOptions options = {
        .gpu = {.target = o->level,
                .check = o->check,
                .debug = o->debug,
                .marks = o->marks,
                .notes = o->notes},
        .compile = {.codegen = codegen, .driver = linked ? 0 : o->driver},
        .keep_llvm = o->texts & TEXT_LLVM,
        .strip = o->strip,
    };
    double start = gpu_seconds();
    NvStatus status = nv_device(job->ir, job->module, &options, &device);
    double total = gpu_seconds() - start;
    if (status == NV_NO_MEMORY) ctx_leave(ctx, CTX_NO_MEMORY);
    if (status != NV_OK) {
        diag(ctx, (Loc){0}, D_RUN_FAILED,
             ctx_format(ctx, "%s", device.ptx.log ? device.ptx.log : "no device code"));
        ctx_leave(ctx, CTX_ERRORS);
    }
    *job->out = (DeviceCode){.image = device.image,
                             .llvm = device.llvm,
                             .assembly = o->texts & TEXT_ASM ? device.ptx.text : NULL,
                             .times = {.lower = total - device.ptx.generate_seconds,
                                       .generate = device.ptx.generate_seconds,
                                       .generator = device.ptx.nvvm ? "libNVVM" : "nvptx"}};
    if (o->notes) describe_functions(ctx, o, &job->out->image);
    if (o->machine) start_linking(ctx, o, job->out);
}

static bool nvidia_device(Ir *ir, const Op *module, const CodeOptions *options, DeviceCode *out) {
    return gpu_device(&(GpuJob){ir, module, options, out}, compile_nvidia);
}

const Backend nvidia_backend = {.name = "nvidia",
                                .info = nvidia_info,
                                .has_op = gpu_host_has,
                                .device = nvidia_device,
                                .device_has = gen_portable_has};
