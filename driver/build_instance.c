// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Builds one instance: elaboration, passes, code generation.
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#include "driver/rank_settings.h"

#include "lang/diag.h"

int machine_threads(void) {
    static atomic_int known; // asking the system opens files
    int n = atomic_load_explicit(&known, memory_order_relaxed);
    if (n) return n;
    long online = sysconf(_SC_NPROCESSORS_ONLN);
    n = online > 0 ? (int)online : 1;
    atomic_store_explicit(&known, n, memory_order_relaxed);
    return n;
}

/// Code for other GPUs and for CPUs always has 64-bit addresses.
static bool uses_near(const Build *b) {
    return b->gpu && gpu_has(b->gpu, GPU_BUFFERS);
}

bool build_target(Build *b) {
    b->backend = backend_of(b->target, &b->level);
    if (!b->backend || !b->backend->info(b->level, &b->info)) {
        diag(b->ctx, (Loc){0}, D_INTERNAL, "there is no such target");
        return false;
    }
    b->gpu = b->backend->device ? gpu_target(b->level) : NULL;
    if (b->backend == &sim_backend) b->gpu = sim_few_sms(b->ctx, b->gpu);
    for (int i = 0; i < b->inst->n_params; i++) {
        ParamInst *p = &b->inst->params[i];
        if (!b->gpu) p->align = 0;
        if (!uses_near(b)) p->near = false;
    }
    return true;
}

static bool elaborate_build(Build *b) {
    b->ir = ir_create(b->ctx);
    b->code = fe_elaborate(b->ir, b->program, b->inst);
    return b->code && b->code->module && !diag_errors(b->ctx);
}

bool build_elaborate(Build *b) {
    if (!build_target(b)) return false;
    build_choose(b);
    return elaborate_build(b) && (!build_choose_plan(b) || elaborate_build(b));
}

/// A search for ops that the target leaves to the library of elementary functions.
typedef struct MathSearch {
    const Build *b;
    bool found;
} MathSearch;

static void needs_library(Op *op, void *arg) {
    MathSearch *s = arg;
    if (!op_has(op, ELEMENTWISE) || op->n_operands == 0) return;
    Elem elem = operand(op, 0)->type->elem;
    if (!elem_is(elem, EC_FLOAT)) return;
    if (!cpu_backend.has_op(op->code, elem)) s->found = true;
    if (s->b->gpu && !s->b->backend->device_has(s->b->gpu, op->code, elem)) s->found = true;
}

static void schedule_axes(const Build *b, PassEnv *env) {
    for (int i = 0; i < b->code->n_config; i++) {
        AxisId id = axis_by_name(b->code->config[i].name);
        if (id != AXIS_COUNT) env_set_axis(env, id, (int)b->code->config[i].value);
    }
}

/// `split` is an axis of the schedule, but its pass runs on the IR of the whole kernel.
PassEnv build_env(Build *b) {
    PassEnv env = {.ir = b->ir,
                   .threads = b->threads ? b->threads : machine_threads(),
                   .l1_bytes = b->info.l1_bytes,
                   .l2_bytes = b->info.l2_bytes,
                   .check = b->inst->check,
                   .vector_bytes = b->info.vector_bytes,
                   .gpu = b->gpu,
                   .has_op = b->backend->device_has};
    schedule_axes(b, &env);
    // Search first, because elaborating the library takes longer than most kernels do.
    MathSearch search = {.b = b};
    op_walk_pre(b->code->module, needs_library, &search);
    if (search.found) env.library = fe_math_library(b->ir, b->code->module);
    return env;
}

const Pass *const *build_pipeline(const Build *b, int *n) {
    *n = b->gpu ? gpu_pipeline_length : cpu_pipeline_length;
    return b->gpu ? gpu_pipeline : cpu_pipeline;
}

bool build_passes(Build *b) {
    PassEnv env = build_env(b);
    int n;
    const Pass *const *pipeline = build_pipeline(b, &n);
    bool ok = run_passes(&env, b->code->module, pipeline, n, &b->passes);
    return ok && !diag_errors(b->ctx);
}

static void release_built_code(void *code) {
    code_release(*(Code **)code);
}

/// Builds host code for this machine with the image for devices. If one of the two fails, the other
/// is released. Host code runs a few hundred instructions a launch, so optimising it would cost
/// more time than all launches gain. It is compiled while an assembler works on the device code.
static Code *build_device(Build *b, const CodeOptions *options, bool load) {
    DeviceCode device;
    CodeOptions host = *options;
    host.level = NULL;
    host.notes = NULL;
    host.quick = true;
    host.texts = options->texts & TEXT_OBJECT;
    Code **code = ctx_new(b->ctx, Code *);
    ctx_defer(b->ctx, release_built_code, code);
    if (!b->backend->device(b->ir, b->code->module, options, &device)) return NULL;
    *code = cpu_backend.compile(b->ir, b->code->module, &host, load);
    if (!*code || !device_settle(b->ir, &device)) return NULL;
    if (!code_take_image(*code, &device)) ctx_leave(b->ctx, CTX_NO_MEMORY);
    Code *made = *code;
    *code = NULL;
    return made;
}

const char *build_codegen(int n, const NamedValue *set, const char *otherwise) {
    static const char *const names[] = {"nvptx", "nvvm"};
    const NamedValue *v = value_of_name(n, set, axis_names[AXIS_GENERATOR]);
    return v && v->value >= 1 && v->value <= 2 ? names[v->value - 1] : otherwise;
}

Code *build_code(Build *b, const char *name, int texts, bool load) {
    CodeOptions options = {.level = b->level,
                           .check = b->inst->check,
                           .debug = b->debug,
                           .marks = b->marks,
                           .texts = texts,
                           .notes = b->notes,
                           .name = name,
                           .codegen = build_codegen(b->inst->n_set, b->inst->set, b->codegen),
                           .driver = b->driver,
                           .machine = b->machine};
    if (b->backend->device) return build_device(b, &options, load);
    return b->backend->compile(b->ir, b->code->module, &options, load);
}
