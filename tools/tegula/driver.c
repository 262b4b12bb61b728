// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// From an instance to execution: the executors, the levels that can be printed, the pipelines.
#include "tools/tegula/driver.h"

#include "runtime/host.h"
#include "runtime/tegula.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* ---- passes -------------------------------------------------------------------------------- */

static void dump(void *user, const char *pass, const char *text) {
    (void)user;
    fprintf(stderr, "// after %s\n%s", pass, text);
}

static void print_times(const Job *job, const Pass *const *pipeline, int n, const double *seconds) {
    fprintf(stderr, "%10.3f ms  front end\n", job->seconds[0] * 1e3);
    for (int i = 0; i < n; i++)
        fprintf(stderr, "%10.3f ms  %s\n", seconds[i] * 1e3, pipeline[i]->name);
}

bool job_passes(Job *job) {
    int n = cpu_pipeline_length;
    double start = seconds_now();
    job->build.passes = (PassOptions){.verify_each = job->o->verify_each,
                                      .time = job->o->time_passes,
                                      .dump_after = job->o->dump_after,
                                      .dump = dump,
                                      .seconds = ctx_array(job->ctx, double, n)};
    bool ok = build_passes(&job->build);
    job->seconds[1] += seconds_now() - start;
    if (job->o->time_passes) print_times(job, cpu_pipeline, n, job->build.passes.seconds);
    return ok;
}

/* ---- the interpreter ----------------------------------------------------------------------- */

static void print_text(void *user, const char *text) {
    (void)user;
    puts(text);
}

/// The interpreter runs tile IR as the front end makes it: it is the oracle of all that follows.
/// The pass `alias` changes nothing; it says which parameters may be one view.
static bool interp_compile(Job *job) {
    PassEnv env = {.ir = job->build.ir};
    pass_alias(&env, job->build.code->module);
    return true;
}

enum { CHECK_SEED = 20260229 };

static bool interp_launch(Job *job) {
    Bound bound = job_bind(job);
    // Checked runs take programs in a random order, the same one each time.
    InterpOptions options = {
        .check = job->o->check, .seed = job->o->check ? CHECK_SEED : 0, .print = print_text};
    const Elaborated *code = job->build.code;
    return interp_run(job->build.ir, code->module, code->name, bound.n, bound.args, &options);
}

/* ---- the CPU ------------------------------------------------------------------------------- */

static void release_code(void *code) {
    code_release(code);
}

/// Machine code, and the texts of `texts`; NULL after errors.
static Code *compile_cpu(Job *job, int texts, bool load) {
    if (!job_passes(job)) return NULL;
    double start = seconds_now();
    Code *code = build_code(&job->build, NULL, texts, load);
    double seconds = seconds_now() - start;
    job->seconds[1] += seconds;
    if (job->o->time_passes) fprintf(stderr, "%10.3f ms  code\n", seconds * 1e3);
    if (code) ctx_defer(job->ctx, release_code, code);
    return code;
}

static bool cpu_compile(Job *job) {
    Code *code = compile_cpu(job, 0, true);
    if (!code) return false;
    job->compiled = (void *)code;
    return true;
}

/// The threads, kept over the runs of a batch.
static tg_host *host_of(const Options *o) {
    static tg_host *host;
    int threads = o->threads ? (int)o->threads : machine_threads();
    if (host && tg_host_threads(host) == threads) return host;
    tg_host_destroy(host);
    host = tg_host_create(threads);
    return host;
}

/// Reports a failure of compiled code where the source says so, as the interpreter does.
static bool report_failure(Job *job, const tg_failure *failure) {
    const tg_site *site = failure->site;
    Loc loc = {0};
    for (uint16_t f = 1; site && site->file && f <= ctx_source_count(job->ctx); f++)
        if (strcmp(ctx_source_path(job->ctx, f), site->file) == 0)
            loc = (Loc){(uint32_t)site->line, f, (uint16_t)site->column, 1};
    diag(job->ctx, loc, D_RUN_FAILED, ctx_format(job->ctx, "%s", failure->text));
    return false;
}

static tg_slot slot_of(InterpArg *arg, const ParamUse *use) {
    if (use->kind != PARAM_TENSOR) return (tg_slot){.bits = cell_bits(use->elem, arg->scalar)};
    Tensor *t = &arg->tensor;
    return (tg_slot){.tensor = {t->data, t->extents, t->strides}};
}

static bool cpu_launch(Job *job) {
    Bound bound = job_bind(job);
    tg_slot *slots = ctx_array(job->ctx, tg_slot, bound.n + 1);
    for (int i = 0; i < bound.n; i++) slots[i] = slot_of(&bound.args[i], bound.uses[i]);
    tg_host *host = host_of(job->o);
    if (!host) {
        cli_error("no threads: %s", tg_last_error());
        return false;
    }
    tg_failure failure;
    const Code *code = job->compiled;
    int status = tg_host_run(host, code->entry, slots, print_text, NULL, &failure);
    return status == TG_RUN_OK || report_failure(job, &failure);
}

/* ---- the table ----------------------------------------------------------------------------- */

static const Executor executors[] = {
    {"cpu", "this machine, by LLVM, on all cores", cpu_compile, cpu_launch},
    {"interp", "the reference interpreter: slow and exact", interp_compile, interp_launch},
    {"api", NULL, api_compile, api_launch},
};
enum { N_EXECUTORS = sizeof executors / sizeof *executors };

int cmd_targets(Ctx *ctx, const Options *o) {
    (void)ctx;
    for (int i = 0; i < N_EXECUTORS; i++) {
        if (!executors[i].doc) continue;
        if (o->names)
            printf("%s\n", executors[i].name);
        else
            printf("  %-10s%s\n", executors[i].name, executors[i].doc);
    }
    return EXIT_OK;
}

/// A misspelt name in --dump-after would print nothing.
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

Job *job_create(Ctx *ctx, const Options *o) {
    if (!passes_exist(ctx, o->dump_after)) return NULL;
    Job *job = ctx_new(ctx, Job);
    job->ctx = ctx;
    job->o = o;
    const char *name = o->target ? o->target : executors[0].name;
    const char *names[N_EXECUTORS];
    for (int i = 0; i < N_EXECUTORS; i++) {
        names[i] = executors[i].name;
        if (strcmp(name, executors[i].name) != 0) continue;
        job->executor = &executors[i];
        return job;
    }
    cli_error("unknown target '%s'", name);
    const char *close = closest_name(name, names, N_EXECUTORS);
    if (close) cli_hint("did you mean '%s'?", close);
    cli_hint("'tegula targets' lists them");
    return NULL;
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

static bool emit_llvm(Job *job) {
    const Code *code = compile_cpu(job, TEXT_LLVM, false);
    if (code) fputs(code->llvm, stdout);
    return code != NULL;
}

static bool emit_asm(Job *job) {
    const Code *code = compile_cpu(job, TEXT_ASM, false);
    if (code) fputs(code->assembly, stdout);
    return code != NULL;
}

/// Bytes of an object file; a terminal is spared them.
static bool emit_object(Job *job) {
    if (isatty(STDOUT_FILENO)) {
        cli_error("an object file is not for a terminal");
        cli_hint("write it to a file: tegula emit FILE --level obj > kernel.o");
        return false;
    }
    const Code *code = compile_cpu(job, TEXT_OBJECT, false);
    return code && fwrite(code->object, 1, code->object_bytes, stdout) == code->object_bytes;
}

static const struct {
    const char *name;
    bool needs_code;
    bool (*print)(Job *job);
} levels[] = {
    {"ast", false, emit_ast},  {"tile", true, emit_tile}, {"grid", true, emit_grid},
    {"llvm", true, emit_llvm}, {"asm", true, emit_asm},   {"obj", true, emit_object},
};
enum { N_LEVELS = sizeof levels / sizeof *levels };

int cmd_emit(Ctx *ctx, const Options *o) {
    const char *name = o->level ? o->level : "tile", *names[N_LEVELS];
    for (int i = 0; i < N_LEVELS; i++) {
        names[i] = levels[i].name;
        if (strcmp(name, levels[i].name) != 0) continue;
        Job *job = job_create(ctx, o);
        bool ok = job && job_load(job);
        if (ok && levels[i].needs_code) ok = job_instance(job, true) && job_elaborate(job);
        return ok && levels[i].print(job) ? EXIT_OK : EXIT_USER;
    }
    cli_error("unknown level '%s'", name);
    const char *close = closest_name(name, names, N_LEVELS);
    if (close)
        cli_hint("did you mean '%s'?", close);
    else
        cli_hint("the levels are ast, tile, grid, llvm, asm and obj");
    return EXIT_USAGE;
}
