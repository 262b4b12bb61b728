// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The back end of the simulator: "sim:sm_90a" is a GPU whose memory is the host's.
#include <stdlib.h>

#include "backends/backend.h"
#include "backends/gpu/gpu.h"
#include "backends/llvm/target.h"
#include "backends/sim/machine.h"
#include "passes/gpu/gpu.h"

static bool sim_info(const char *level, TargetInfo *out) {
    const GpuTarget *t = level ? gpu_target(level) : NULL;
    if (!t) return false;
    *out = gpu_target_info(t, "sim");
    return true;
}

// Simulates a part of the GPU: with fewer SMs, small tensors are enough for programs that take
// several tiles each. Bandwidth and L2 shrink by the same factor, so that the cost model chooses as
// it does for the whole GPU.
const GpuTarget *sim_few_sms(Ctx *ctx, const GpuTarget *gpu) {
    const char *text = secure_getenv("TG_SIM_SHARE");
    int share = text ? atoi(text) : 0;
    if (share < 2) return gpu;
    GpuTarget *few = ctx_new(ctx, GpuTarget);
    *few = *gpu;
    few->sms = gpu->sms > share ? gpu->sms / share : 1;
    few->bandwidth /= share;
    few->l2_bytes /= share;
    return few;
}

static void close_image(tg_image *image) {
    sim_image_free(image->user);
}

/* ---- parameters ---------------------------------------------------------------------------- */

/// Gives dynamic extents and strides consecutive machine arguments.
static void describe_numbers(int rank, const int64_t *from, int64_t *to, int *arg, int *next) {
    for (int d = 0; d < rank; d++) {
        to[d] = from[d];
        arg[d] = from[d] == DYNAMIC ? (*next)++ : -1;
    }
}

/// Describes the parameters in the order of runtime/abi.h, tg_device_function.
static void describe_params(Ctx *ctx, SimImage *image, const Op *device, const GpuKernel *kernel) {
    const Region *r = device->regions[0];
    SimParam *all = ctx_array(ctx, SimParam, r->n_args + 1);
    int n = 0, next = 0;
    for (int i = 1; i < r->n_args; i++) {
        const Type *t = r->args[i]->type;
        SimParam p = {.name = r->args[i]->name,
                      .arg = next++,
                      .rank = t->rank,
                      .bits = elem_info[t->elem].bits};
        if (t->kind == TK_DESC) p.bits = 0;
        if (t->kind == TK_TENSOR) {
            describe_numbers(t->rank, t->extents, p.extents, p.extent_arg, &next);
            describe_numbers(t->rank, t->strides, p.strides, p.stride_arg, &next);
        }
        if (t->kind == TK_DESC || t->kind == TK_TENSOR) all[n++] = p;
    }
    if (kernel->records) all[n++] = (SimParam){.arg = next, .bits = -1};
    int function = sim_find(image, kernel->name);
    if (function >= 0) sim_describe(ctx, image, function, all, n);
}

static void describe_all(Ctx *ctx, SimImage *image, const Op *module, const GpuCode *code) {
    int i = 0;
    for (const Op *op = module->regions[0]->first; op; op = op->next)
        if (op->code == OP_DEVICE) describe_params(ctx, image, op, &code->kernels[i++]);
}

/* ---- compiling ----------------------------------------------------------------------------- */

typedef struct MadeImage {
    SimImage *image;
    bool given; // the image belongs to the runtime
} MadeImage;

static void release_made(void *thing) {
    MadeImage *made = thing;
    if (!made->given) sim_image_free(made->image);
}

/// --check, or TG_SIM_CHECK, which does not change the code of the kernel.
static bool wants_check(const CodeOptions *o) {
    const char *all = secure_getenv("TG_SIM_CHECK");
    return o->check || (all && *all && *all != '0');
}

/// Source positions are always kept, because failures name them.
static void compile_sim(Ctx *ctx, void *arg) {
    const GpuJob *job = arg;
    const CodeOptions *o = job->options;
    Gen *g = gen_create(ctx, "device");
    g->strip = o->strip;
    GpuOptions options = {
        .target = o->level, .check = o->check, .debug = true, .marks = o->marks, .notes = o->notes};
    double start = gpu_seconds();
    const GpuCode *code = gpu_lower(g, job->ir, job->module, &options);
    double lowered = gpu_seconds();
    *job->out = (DeviceCode){.times.lower = lowered - start, .times.generator = "the simulator"};
    if (o->texts & TEXT_LLVM) job->out->llvm = gpu_module_text(g);
    job->out->image.functions = gpu_functions(ctx, code);
    MadeImage *made = ctx_new(ctx, MadeImage);
    ctx_defer(ctx, release_made, made);
    made->image = sim_compile(g, o->level, wants_check(o));
    describe_all(ctx, made->image, job->module, code);
    sim_image_fill(made->image, &job->out->image);
    made->given = true;
    job->out->image.n_functions = code->n;
    job->out->image.sites = code->sites.data;
    job->out->image.n_sites = code->sites.n;
    job->out->close = close_image;
    job->out->times.generate = gpu_seconds() - lowered;
}

static bool sim_device(Ir *ir, const Op *module, const CodeOptions *options, DeviceCode *out) {
    return gpu_device(&(GpuJob){ir, module, options, out}, compile_sim);
}

const Backend sim_backend = {.name = "sim",
                             .info = sim_info,
                             .has_op = gpu_host_has,
                             .device = sim_device,
                             .device_has = gen_portable_has};
