// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// tegula run: launches a kernel once and shows its results, or runs a batch.
#include "tools/tegula/measure.h"
#include "tools/tegula/tune/tune.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- results ------------------------------------------------------------------------------- */

/// Writes one `--out NAME=FILE` or `NAME.base=FILE`.
static bool write_out_file(Job *job, const char *out) {
    const char *name, *path = args_pair(job->ctx, "out", out, &name);
    if (!path) return false;
    size_t n = strlen(name), suffix = strlen(".base");
    bool base = n > suffix && strcmp(name + n - suffix, ".base") == 0;
    if (base) name = ctx_intern(job->ctx, name, n - suffix);
    for (int i = 0; i < job->kernel->params.n; i++) {
        const Argument *a = &job->args[i];
        if (strcmp(job->kernel->params.at[i].name.text, name) != 0) continue;
        if (a->kind == ARG_TENSOR)
            return tensor_write(job->ctx, path, base ? &a->whole : a->dealt ? &a->all : &a->tensor);
        cli_error("--out %s: '%s' is not a tensor here", out, name);
        return false;
    }
    cli_error("--out %s: kernel '%s' has no parameter '%s'", out, job->kernel->name.text, name);
    return false;
}

enum { SHOWN = 8 };

/// "y: f32[37, 1000] = 0.1 0.2 ...".
static void show_tensor(Job *job, const char *name, const Tensor *t) {
    printf("%s: %s[", name, elem_info[t->elem].name);
    for (int i = 0; i < t->rank; i++) printf("%s%" PRId64, i ? ", " : "", t->extents[i]);
    printf("] =");
    Walk w = {0};
    int64_t count = tensor_count(t);
    for (int64_t i = 0; i < count && i < SHOWN; i++, walk_next(t, &w))
        printf(" %s", cell_text(job->ctx, t->elem, cell_load(t->elem, t->data, w.offset)));
    printf("%s\n", count > SHOWN ? " ..." : "");
}

/// Writes the files of --out. Without --out it prints the start of every written tensor.
static bool finish_outputs(Job *job) {
    for (int i = 0; i < job->o->outs.n; i++)
        if (!write_out_file(job, job->o->outs.at[i])) return false;
    if (job->o->quiet || job->o->outs.n) return true;
    for (int i = 0; i < job->build.code->n_params; i++)
        if (job->build.code->params[i].written && job->args[i].kind == ARG_TENSOR)
            show_tensor(job, job->kernel->params.at[i].name.text,
                        job->args[i].dealt ? &job->args[i].all : &job->args[i].tensor);
    return true;
}

/* ---- times --------------------------------------------------------------------------------- */

/// "matmul<f32> M=512 ...: compiled in 41 ms, ran 3.1 ms on cpu, 1.1 GB/s, 86 GFLOP/s".
static bool report_times(Job *job, double run_seconds) {
    double flops;
    if (!job_flops(job, &flops)) return false;
    if (job->o->quiet) return true;
    printf("%s: compiled in %s, ran %s on %s", job_title(job),
           time_text(job->ctx, job->seconds[0] + job->seconds[1]), time_text(job->ctx, run_seconds),
           job->executor->name);
    if (run_seconds > 0) {
        printf(", %.3g GB/s", (double)job_bytes(job) / run_seconds * 1e-9);
        if (flops > 0) printf(", %.3g GFLOP/s", flops / run_seconds * 1e-9);
    }
    printf("\n");
    return true;
}

/// Runs one launch, then --repeat more. Returns the median of those, or the time of the one.
static bool run_job_timed(Job *job, double *seconds) {
    int64_t n = job->o->repeat;
    double start = rt_seconds();
    if (!job->executor->launch(job)) return false;
    *seconds = rt_seconds() - start;
    if (n == 0) return true;
    double *times = ctx_array(job->ctx, double, n);
    for (int64_t i = 0; i < n; i++) {
        start = rt_seconds();
        if (!job->executor->launch(job)) return false;
        times[i] = rt_seconds() - start;
    }
    *seconds = median_of(times, (int)n);
    return true;
}

/* ---- batches ------------------------------------------------------------------------------- */

/// A line holds the words after `tegula run`, quoted as in a shell.
static int run_line(Ctx *ctx, const char *line) {
    char **words;
    int n = args_split(ctx, line, &words);
    if (n < 0) {
        cli_error("a quote is not closed: %s", line);
        return EXIT_USAGE;
    }
    char **argv = ctx_array(ctx, char *, n + 1);
    argv[0] = ctx_format(ctx, "run");
    if (n) memcpy(argv + 1, words, sizeof *argv * (size_t)n);
    return cli_main(n + 1, argv);
}

/// Each line has its own context, so that an error in one does not affect the others.
static int run_batch(Ctx *ctx, const Options *o) {
    uint16_t file = source_read(ctx, o->batch);
    if (!file) return EXIT_USER;
    size_t len;
    char *text = ctx_format(ctx, "%s", ctx_source_text(ctx, file, &len));
    int worst = EXIT_OK, number = 0;
    for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n")) {
        if (line[0] == '#' || line[strspn(line, " \t\r")] == 0) continue;
        int code = run_line(ctx, line);
        printf("@@ %d %d\n", ++number, code);
        fflush(stdout);
        if (code > worst) worst = code;
    }
    return worst;
}

/* ---- the commands -------------------------------------------------------------------------- */

/// Hints at errors that --check does not find on this target.
static void hint_races(const Job *job) {
    if (job->o->check && job->ranks > 1 && !job->silent &&
        strcmp(job->executor->name, "interp") != 0)
        cli_hint("races between ranks are looked for by --target interp --check alone");
}

/// Each step reports its own mistakes, so the first that fails ends the chain.
int cmd_run(Ctx *ctx, const Options *o) {
    if (o->batch) return run_batch(ctx, o);
    if (o->level) return cmd_emit(ctx, o);
    Job *job = job_create(ctx, o);
    double seconds;
    TuneResult tuned;
    Decision choice;
    bool ok = job && job_load(job) && job_instance(job, false) && rank_launch_meet(job) &&
              job_elaborate_tuned(job, true, &choice, &tuned) && job_fill(job) && job_spread(job) &&
              job->executor->compile(job) && job_check_overlaps(job) &&
              run_job_timed(job, &seconds) &&
              (!job->executor->finish || job->executor->finish(job)) &&
              (job->silent || (finish_outputs(job) && report_times(job, seconds)));
    if (ok) hint_races(job);
    return ok ? EXIT_OK : EXIT_USER;
}
