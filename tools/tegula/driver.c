// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// From an instance to execution: the executors, the levels that can be printed, the pipelines.
#include "tools/tegula/driver.h"

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

static int64_t cache_bytes(int name, int64_t otherwise) {
    long n = sysconf(name);
    return n > 0 ? n : otherwise;
}

static int thread_count(const Options *o) {
    long n = o->threads ? (long)o->threads : sysconf(_SC_NPROCESSORS_ONLN);
    return n > 0 ? (int)n : 1;
}

PassEnv job_pass_env(Job *job) {
    return (PassEnv){
        .ir = job->ir,
        .library = fe_math_library(job->ir),
        .threads = thread_count(job->o),
        .l1_bytes = cache_bytes(_SC_LEVEL1_DCACHE_SIZE, 32 << 10),
        .l2_bytes = cache_bytes(_SC_LEVEL2_CACHE_SIZE, 512 << 10),
        .check = job->o->check,
        .vector_bytes = 32,
    };
}

bool job_passes(Job *job) {
    int n = cpu_pipeline_length;
    double start = cli_seconds();
    PassEnv env = job_pass_env(job);
    PassOptions options = {.verify_each = job->o->verify_each,
                           .time = job->o->time_passes,
                           .dump_after = job->o->dump_after,
                           .dump = dump,
                           .seconds = ctx_array(job->ctx, double, n)};
    bool ok = run_passes(&env, job->code->module, cpu_pipeline, n, &options);
    job->seconds[1] += cli_seconds() - start;
    if (job->o->time_passes) print_times(job, cpu_pipeline, n, options.seconds);
    return ok && !diag_errors(job->ctx);
}

/* ---- the interpreter ----------------------------------------------------------------------- */

static void print_text(void *user, const char *text) {
    (void)user;
    fputs(text, stdout);
}

/// The interpreter runs tile IR as the front end makes it: it is the oracle of all that follows.
static bool interp_compile(Job *job) {
    (void)job;
    return true;
}

static bool interp_launch(Job *job) {
    Bound bound = job_bind(job);
    InterpOptions options = {.check = job->o->check, .print = print_text};
    return interp_run(job->ir, job->code->module, job->code->name, bound.n, bound.args, &options);
}

/* ---- the table ----------------------------------------------------------------------------- */

static const Executor executors[] = {
    {"interp", "the reference interpreter: slow and exact", interp_compile, interp_launch},
};
enum { N_EXECUTORS = sizeof executors / sizeof *executors };

int cmd_targets(Ctx *ctx, const Options *o) {
    (void)ctx;
    for (int i = 0; i < N_EXECUTORS; i++) {
        if (o->names)
            printf("%s\n", executors[i].name);
        else
            printf("  %-10s%s\n", executors[i].name, executors[i].doc);
    }
    return EXIT_OK;
}

Job *job_create(Ctx *ctx, const Options *o) {
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
    ir_print(&t, job->code->module, job->o->locs);
    fputs(t.data, stdout);
    return true;
}

static bool emit_grid(Job *job) {
    return job_passes(job) && emit_tile(job);
}

static const struct {
    const char *name;
    bool needs_code;
    bool (*print)(Job *job);
} levels[] = {
    {"ast", false, emit_ast},
    {"tile", true, emit_tile},
    {"grid", true, emit_grid},
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
        cli_hint("the levels are ast, tile, grid, llvm and asm");
    return EXIT_USAGE;
}
