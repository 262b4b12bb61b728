// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// From an instance to execution: the executors, the printable levels, the pipelines.
#include "backends/nvidia/disassemble.h"
#include "lang/diag.h"
#include "passes/gpu/gpu.h"
#include "runtime/compiler.h"
#include "runtime/gpu/gpu_launch.h"
#include "runtime/host.h"
#include "runtime/tegula.h"
#include "tools/tegula/gpu_arrays.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- passes -------------------------------------------------------------------------------- */

static void dump_after_pass(void *user, const char *pass, const char *text) {
    (void)user;
    fprintf(stderr, "// after %s\n%s", pass, text);
}

static void print_times(const Job *job, const Pass *const *pipeline, int n, const double *seconds) {
    fprintf(stderr, "%10.3f ms  front end\n", job->seconds[0] * 1e3);
    for (int i = 0; i < n; i++)
        fprintf(stderr, "%10.3f ms  %s\n", seconds[i] * 1e3, pipeline[i]->name);
}

bool job_passes(Job *job) {
    int n;
    const Pass *const *pipeline = build_pipeline(&job->build, &n);
    double start = rt_seconds();
    job->build.passes = (PassOptions){.verify_each = job->o->verify_each,
                                      .time = job->o->time_passes,
                                      .dump_after = job->o->dump_after,
                                      .dump = dump_after_pass,
                                      .seconds = ctx_array(job->ctx, double, n)};
    bool ok = build_passes(&job->build);
    job->seconds[1] += rt_seconds() - start;
    if (job->o->time_passes) print_times(job, pipeline, n, job->build.passes.seconds);
    return ok;
}

/* ---- the interpreter ----------------------------------------------------------------------- */

static void print_kernel_text(void *user, const char *text) {
    (void)user;
    puts(text);
}

/// The interpreter runs the tile IR of the front end, so its result checks all later steps. A copy
/// with expanded calls tells which parameters may be one view.
static bool interp_compile(Job *job) {
    Ir *ir = job->build.ir;
    const Elaborated *code = job->build.code;
    PassEnv env = {.ir = ir};
    PtrMap map = {0};
    Op *copy = build_module(ir), *kernel = find_kernel(code->module, code->name);
    Builder b = build_at_end(ir, copy->regions[0], code->module->loc);
    for_each_op(op, code->module->regions[0]) op_clone(&b, op, &map);
    pass_inline(&env, copy);
    pass_alias(&env, copy);
    op_copy_attr(ir, kernel, find_kernel(copy, code->name), ATTR_IN_PLACE);
    return true;
}

enum { CHECK_SEED = 20260229 };

static bool launch_interpreter(Job *job) {
    int ranks = job->ranks ? (int)job->ranks : 1, n = 0;
    const InterpArg **args = ctx_array(job->ctx, const InterpArg *, ranks);
    for (int r = 0; r < ranks; r++) {
        Bound bound = job_bind_rank(job, r);
        args[r] = bound.args;
        n = bound.n;
    }
    // Checked runs take programs in a random order with a fixed seed.
    InterpOptions options = {
        .check = job->o->check, .seed = job->o->check ? CHECK_SEED : 0, .print = print_kernel_text};
    const Elaborated *code = job->build.code;
    return interp_run_ranks(job->build.ir, code->module, code->name, ranks, n, args, &options);
}

/* ---- the CPU ------------------------------------------------------------------------------- */

static void release_cpu_code(void *code) {
    code_release(code);
}

static void print_device_times(const DeviceTimes *t) {
    fprintf(stderr, "%10.3f ms  device code\n", t->lower * 1e3);
    fprintf(stderr, "%10.3f ms  device code, %s\n", t->generate * 1e3, t->generator);
    if (t->linker) fprintf(stderr, "%10.3f ms  device code, %s\n", t->link * 1e3, t->linker);
}

/// Compiles to machine code and the forms of `texts`; NULL after errors.
static Code *compile_code(Job *job, int texts, bool load) {
    if (!job_passes(job)) return NULL;
    double start = rt_seconds();
    Code *code = build_code(&job->build, NULL, texts, load);
    double seconds = rt_seconds() - start;
    job->seconds[1] += seconds;
    if (job->o->time_passes) fprintf(stderr, "%10.3f ms  code\n", seconds * 1e3);
    if (job->o->time_passes && code && code->image) print_device_times(&code->times);
    if (code) ctx_defer(job->ctx, release_cpu_code, code);
    return code;
}

/// Machine code that runs here; NULL after errors.
static Code *compile_to_run(Job *job) {
    if (!job_compiles_apart(job)) return compile_code(job, 0, true);
    double start = rt_seconds();
    Code *code = job_compile_apart(job);
    job->seconds[1] += rt_seconds() - start;
    return code;
}

static bool compile_cpu_job(Job *job) {
    Code *code = compile_to_run(job);
    if (!code) return false;
    job->compiled = (void *)code;
    return true;
}

/// Returns the threads, which are kept over the runs of a batch.
static tg_host *host_of(const Options *o) {
    static tg_host *host;
    int threads = o->threads ? (int)o->threads : machine_threads();
    if (host && tg_host_threads(host) == threads) return host;
    tg_host_destroy(host);
    host = tg_host_create(threads);
    return host;
}

tg_record *job_record(const Job *job, size_t spans, size_t marks) {
    tg_host *host = host_of(job->o);
    tg_record *record = host ? tg_record_create(tg_host_threads(host), spans, marks) : NULL;
    if (!record) cli_error("no memory for the record of a launch");
    if (record) tg_host_record(host, record);
    return record;
}

void job_record_end(const Job *job) {
    tg_host *host = host_of(job->o);
    if (host) tg_host_record(host, NULL);
}

/// Reports a failure of compiled code at its source position, as the interpreter does.
static bool report_failure(Job *job, const tg_failure *failure) {
    const tg_site *site = failure->site;
    if (!site) {
        cli_error("%s", failure->text);
        return false;
    }
    Loc loc = {0};
    for (uint16_t f = 1; site->file && f <= ctx_source_count(job->ctx); f++)
        if (strcmp(ctx_source_path(job->ctx, f), site->file) == 0)
            loc = (Loc){(uint32_t)site->line, f, (uint16_t)site->column, 1};
    diag(job->ctx, loc, D_RUN_FAILED, ctx_format(job->ctx, "%s", failure->text));
    return false;
}

static tg_slot cpu_slot(InterpArg *arg, const ParamUse *use) {
    if (use->kind != PARAM_TENSOR) return (tg_slot){.bits = cell_bits(use->elem, arg->scalar)};
    Tensor *t = &arg->tensor;
    return (tg_slot){.tensor = {t->data, t->extents, t->strides}};
}

static bool launch_ranks(Job *job) {
    tg_failure failure;
    return rank_launch_launch(job, &failure) || report_failure(job, &failure);
}

/// Also launches the simulator, whose images are functions.
static bool cpu_launch(Job *job) {
    if (job->ranks) return launch_ranks(job);
    Bound bound = job_bind(job);
    tg_slot *slots = ctx_array(job->ctx, tg_slot, bound.n + 1);
    for (int i = 0; i < bound.n; i++) slots[i] = cpu_slot(&bound.args[i], bound.uses[i]);
    if (job->device >= 0 && !gpu_upload(job, bound.n, slots, bound.uses)) return false;
    tg_host *host = host_of(job->o);
    if (!host) {
        cli_error("no threads: %s", tg_last_error());
        return false;
    }
    tg_failure failure;
    const Code *code = job->compiled;
    int status = tg_host_run_on(host, code->entry, slots, code->image, job->device, NULL,
                                print_kernel_text, NULL, &failure);
    return status == TG_RUN_OK || report_failure(job, &failure);
}

/* ---- GPUs ---------------------------------------------------------------------------------- */

static void unload_image(void *image) {
    tg_image_unload(image);
}

/// Each rank of one process needs its own GPU. On a shared GPU, programs of one rank would wait for
/// programs of another rank that have no room to start.
static bool has_gpus(const Job *job) {
    int n = tg_device_count();
    if (job->o->comm || job->device + job->ranks <= n) return true;
    cli_error("--target %s: %d ranks in one process need a GPU each, and there are %d",
              job->o->target, (int)job->ranks, n);
    cli_hint(
        "ranks that are processes share GPUs: run it with --comm processes once for each, with "
        "TG_RANK, TG_RANKS and TG_MEET set; --target sim:%s has ranks, too",
        job->target);
    return false;
}

/// Unloads the image before its code is freed.
static bool cuda_compile(Job *job) {
    if (job->ranks && !has_gpus(job)) return false;
    Code *code = compile_to_run(job);
    if (!code) return false;
    ctx_defer(job->ctx, unload_image, code->image);
    job->compiled = (void *)code;
    return true;
}

/// Waits for the device, so that its errors belong to this launch. Ranks have waited already.
static bool cuda_launch(Job *job) {
    if (!cpu_launch(job)) return false;
    if (job->ranks || tg_device_synchronize(job->device, NULL) == TG_OK) return true;
    cli_error("%s", tg_last_error());
    return false;
}

bool job_launch_only(Job *job) {
    return cpu_launch(job);
}

static bool code_only(Job *job) {
    cli_error("--target %s: code for that GPU can be printed, not run", job->o->target);
    const char *maker = strncmp(job->o->target, "gfx", 3) == 0 ? "hip" : "cuda";
    cli_hint("--target %s runs on the GPU of this machine, --target sim:%s on a simulated one",
             maker, job->o->target);
    return false;
}

/* ---- the table ----------------------------------------------------------------------------- */

static const Executor executors[] = {
    {"cpu", "this machine, by LLVM, on all cores", compile_cpu_job, cpu_launch, rank_launch_finish},
    {"interp", "the reference interpreter: slow and exact", interp_compile, launch_interpreter,
     NULL},
    {"api", NULL, api_compile, api_launch, NULL},
};
static bool cuda_finish(Job *job) {
    return job->ranks ? rank_launch_finish(job) : gpu_download(job);
}

static const Executor cuda_executor = {"cuda", "an NVIDIA GPU; cuda:N is number N", cuda_compile,
                                       cuda_launch, cuda_finish};
static const Executor hip_executor = {"hip", "an AMD GPU; hip:N is number N", cuda_compile,
                                      cuda_launch, cuda_finish};
static const Executor code_executor = {"a GPU", NULL, code_only, code_only, NULL};
enum { N_EXECUTORS = sizeof executors / sizeof *executors };

static void print_devices(const Executor *e, int n) {
    printf("  %-10s%s%s\n", e->name, e->doc, n ? "" : " (this machine shows none)");
    for (int i = 0; i < n; i++) {
        tg_device_info info = {.size = sizeof info};
        if (tg_device_describe(i, &info)) continue;
        printf("    %s:%-*d%s, ", e->name, 7 - (int)strlen(e->name), i, info.name);
        if (e == &cuda_executor)
            printf("compute capability %d.%d, %d SMs\n", info.capability / 10, info.capability % 10,
                   info.processors);
        else
            printf("%s, %d compute units\n", rt_device_at(i)->arch, info.processors);
    }
}

/// Prints the GPUs of this machine, then the architectures whose code can be printed or simulated.
static void print_gpus(void) {
    int n = tg_device_count();
    bool hip = n && rt_cuda_driver()->maker->hip;
    print_devices(&cuda_executor, hip ? 0 : n);
    print_devices(&hip_executor, hip ? n : 0);
    printf("  code of   ");
    for (const GpuTarget *t = gpu_targets; t->name; t++)
        printf("%s%s", t->name, t[1].name ? ", " : "");
    printf(": tegula emit\n");
}

int cmd_targets(Ctx *ctx, const Options *o) {
    (void)ctx;
    for (int i = 0; i < N_EXECUTORS; i++) {
        if (!executors[i].doc) continue;
        if (o->names)
            printf("%s\n", executors[i].name);
        else
            printf("  %-10s%s\n", executors[i].name, executors[i].doc);
    }
    if (!o->names) print_gpus();
    return EXIT_OK;
}

/// Checks the names of --dump-after; a misspelt one would print nothing.
static bool passes_exist(Ctx *ctx, const char *list) {
    for (const char *s = list; s && *s; s += strspn(s, ",")) {
        size_t n = strcspn(s, ",");
        const char *name = ctx_intern(ctx, s, n);
        s += n;
        if (strcmp(name, "all") == 0 || pass_by_name(name)) continue;
        cli_error("--dump-after: there is no pass '%s'", name);
        const char *names[PASS_COUNT];
        for (int i = 0; i < PASS_COUNT; i++) names[i] = pass_table[i].name;
        const char *close = closest_name(name, names, PASS_COUNT);
        if (close) cli_hint("did you mean '%s'?", close);
        if (!close) cli_hint("--time-passes lists those that run");
        return false;
    }
    return true;
}

static const Executor *gpu_executor(const char *name) {
    static const Executor simulator = {"the simulator", NULL, compile_cpu_job, cpu_launch,
                                       rank_launch_finish};
    if (gpu_device_named(name)) return *name == 'h' ? &hip_executor : &cuda_executor;
    return is_simulated(name) ? &simulator : &code_executor;
}

bool codegen_exists(const char *name) {
    static const char *const names[] = {"nvvm", "nvptx", "auto"};
    enum { N = sizeof names / sizeof *names };
    for (int i = 0; i < N; i++)
        if (!name || strcmp(name, names[i]) == 0) return true;
    cli_error("--codegen: there is no code generator '%s'", name);
    const char *close = closest_name(name, names, N);
    if (close) cli_hint("did you mean '%s'?", close);
    if (!close) cli_hint("there are nvvm, nvptx and auto");
    return false;
}

/// Refuses options that the target of a job would ignore.
static bool options_matter(const Job *job) {
    const Options *o = job->o;
    const char *level, *target = o->target ? o->target : "cpu";
    bool nvidia = job->target && backend_of(job->target, &level) == &nvidia_backend;
    const char *beside = ctx_format(job->ctx, "--target %s", target);
    if (!codegen_exists(o->codegen)) return false;
    if (!nvidia && !args_refuse(o, beside, "codegen")) return false;
    if (job->device >= 0 && !args_refuse(o, beside, "guard")) return false;
    bool interp = strcmp(job->executor->name, "interp") == 0;
    return !interp || o->command == EMIT_BIT || o->command == EXPLAIN_BIT ||
           args_refuse(o, beside, "dump-after verify-each time-passes debug");
}

static Job *find_executor(Ctx *ctx, const Options *o) {
    Job *job = ctx_new(ctx, Job);
    job->ctx = ctx;
    job->o = o;
    job->device = -1;
    job->marks = o->marks;
    const char *name = o->target ? o->target : executors[0].name;
    const char *names[N_EXECUTORS];
    for (int i = 0; i < N_EXECUTORS; i++) {
        names[i] = executors[i].name;
        if (strcmp(name, executors[i].name) != 0) continue;
        job->executor = &executors[i];
        return job;
    }
    if (gpu_target_is(name)) {
        job->executor = gpu_executor(name);
        return gpu_target_read(job, name) ? job : NULL;
    }
    cli_error("unknown target '%s'", name);
    const char *hint = gpu_target_hint(ctx, name), *close = closest_name(name, names, N_EXECUTORS);
    if (close)
        cli_hint("did you mean '%s'?", close);
    else if (hint)
        cli_hint("%s", hint);
    cli_hint("'tegula targets' lists them");
    return NULL;
}

Job *job_create(Ctx *ctx, const Options *o) {
    Job *job = passes_exist(ctx, o->dump_after) ? find_executor(ctx, o) : NULL;
    return job && options_matter(job) ? job : NULL;
}

/* ---- levels -------------------------------------------------------------------------------- */

static bool emit_ast(Job *job) {
    Text t = {.ctx = job->ctx};
    ast_print(&t, fe_parse(job->ctx, job->file));
    fputs(t.data ? t.data : "", stdout);
    return true;
}

static bool emit_tile(Job *job) {
    Text t = {.ctx = job->ctx};
    ir_print(&t, job->build.code->module, job->o->locs);
    fputs(t.data, stdout);
    return true;
}

static bool emit_grid(Job *job) {
    return job_passes(job) && emit_tile(job);
}

/// A level that CPUs do not have.
static bool needs_gpu(const Job *job, const char *level) {
    if (job->target) return true;
    cli_error("--level %s exists for GPUs alone", level);
    cli_hint("add --target sm_90a, or cuda for the GPU of this machine");
    return false;
}

/// A level that only GPUs of one maker have.
static bool needs_gpu_of(const Job *job, const char *level, const Backend *maker) {
    const char *name;
    if (!needs_gpu(job, level)) return false;
    if (backend_of(job->target, &name) == maker) return true;
    cli_error("--level %s does not exist for %s", level, job->target);
    cli_hint("%s", maker == &nvidia_backend ? "it exists for NVIDIA's GPUs: sm_80, sm_90a, ..."
                                            : "it exists for AMD's GPUs: gfx90a, gfx942, ...");
    return false;
}

static bool emit_gpu(Job *job) {
    return needs_gpu(job, "gpu") && emit_grid(job);
}

/// Returns code whose image is machine code, not PTX; NULL (reported) if no tool can make it.
static const Code *machine_code(Job *job) {
    if (!job->build.machine) job->build.machine = job->target;
    const Code *code = compile_code(job, 0, false);
    if (!code || code->image->kind == TG_IMAGE_CUBIN || code->image->kind == TG_IMAGE_HSACO)
        return code;
    cli_error("machine code of %s needs nvJitLink or ptxas of the CUDA toolkit", job->target);
    cli_hint("none that reads this PTX was found: set CUDA_HOME; --level ptx needs neither");
    return NULL;
}

static bool emit_llvm(Job *job) {
    const Code *code = compile_code(job, TEXT_LLVM, false);
    if (code) fputs(code->llvm, stdout);
    return code != NULL;
}

static bool emit_asm(Job *job) {
    const Code *code = compile_code(job, TEXT_ASM, false);
    if (code) fputs(code->assembly, stdout);
    return code != NULL;
}

/// Writes the bytes of an object file, or of a GPU's machine code; refuses a terminal.
static bool emit_object_file(Job *job) {
    if (isatty(STDOUT_FILENO)) {
        cli_error("an object file is not for a terminal");
        cli_hint("write it to a file: tegula emit FILE --level obj > kernel.o");
        return false;
    }
    const Code *code = job->target ? machine_code(job) : compile_code(job, TEXT_OBJECT, false);
    if (!code) return false;
    const void *bytes = code->image ? code->image->bytes : code->object;
    size_t n = code->image ? code->image->size : code->object_bytes;
    return fwrite(bytes, 1, n, stdout) == n;
}

static bool emit_ptx(Job *job) {
    return needs_gpu_of(job, "ptx", &nvidia_backend) && emit_asm(job);
}

static bool emit_hsaco(Job *job) {
    return needs_gpu_of(job, "hsaco", &amdgpu_backend) && emit_object_file(job);
}

/// Prints SASS by a program of the CUDA toolkit.
static bool emit_sass(Job *job) {
    const Code *code = needs_gpu_of(job, "sass", &nvidia_backend) ? machine_code(job) : NULL;
    if (!code) return false;
    char program[TOOL_PATH];
    ToolOutput out;
    bool ok = nv_disassemble((const char *)code->image->bytes, code->image->size, program, &out);
    if (ok)
        fputs(out.log, stdout);
    else if (!*program)
        cli_error("neither nvdisasm nor cuobjdump of the CUDA toolkit is in $CUDA_HOME/bin or in "
                  "PATH");
    else
        cli_error("disassembling by %s: %s", program, out.end);
    if (!ok) cli_hint("--level obj writes the machine code to a file");
    tool_output_free(&out);
    return ok;
}

static const struct {
    const char *name;
    bool needs_code;
    bool (*print)(Job *job);
    const char *ignores; // the options without effect; NULL: all options except those of the file
} levels[] = {
    {"ast", false, emit_ast, NULL},
    {"tile", true, emit_tile, "dump-after verify-each time-passes debug marks"},
    {"grid", true, emit_grid, "debug marks"},
    {"llvm", true, emit_llvm, "locs"},
    {"asm", true, emit_asm, "locs"},
    {"obj", true, emit_object_file, "locs"},
    {"gpu", true, emit_gpu, "debug marks"},
    {"ptx", true, emit_ptx, "locs"},
    {"sass", true, emit_sass, "locs"},
    {"hsaco", true, emit_hsaco, "locs"},
};
enum { PRINTED_LEVELS = sizeof levels / sizeof *levels };

/// Refuses options that a level would ignore.
static bool level_takes_options(Ctx *ctx, const Options *o, int level) {
    const char *beside = ctx_format(ctx, "--level %s", levels[level].name);
    if (!levels[level].ignores) return args_refuse_others(o, beside, "level emit kernel path");
    return args_refuse(o, beside, levels[level].ignores);
}

int cmd_emit(Ctx *ctx, const Options *o) {
    const char *name = o->level ? o->level : "tile", *names[PRINTED_LEVELS];
    for (int i = 0; i < PRINTED_LEVELS; i++) {
        names[i] = levels[i].name;
        if (strcmp(name, levels[i].name) != 0) continue;
        if (!level_takes_options(ctx, o, i)) return EXIT_USAGE;
        Job *job = job_create(ctx, o);
        bool ok = job && job_load(job);
        if (ok && levels[i].needs_code) ok = job_instance(job, true) && job_elaborate(job);
        return ok && levels[i].print(job) ? EXIT_OK : EXIT_USER;
    }
    cli_error("unknown level '%s'", name);
    const char *close = closest_name(name, names, PRINTED_LEVELS);
    if (close)
        cli_hint("did you mean '%s'?", close);
    else
        cli_hint("the levels are ast, tile, grid, gpu, llvm, asm, ptx, sass, hsaco and obj");
    return EXIT_USAGE;
}
