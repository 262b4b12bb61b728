// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// tegula bench: compares the speed of a kernel with this machine's peak.
#include "tools/roofline.h"
#include "tools/tegula/gpu_arrays.h"
#include "tools/tegula/measure.h"
#include "tools/tegula/tune/tune.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- times --------------------------------------------------------------------------------- */

enum { MAX_SAMPLES = 1000, LEAST_SAMPLES = 7 };

/// Measures the median seconds of a launch. A sample is a batch of a millisecond or more.
static bool time_launches(Job *job, double seconds, double *out) {
    if (job->device >= 0 && !job->ranks) return gpu_time(job, job_launch_only, seconds, out);
    static double samples[MAX_SAMPLES];
    if (!job->executor->launch(job)) return false;
    double start = rt_seconds();
    if (!job->executor->launch(job)) return false;
    double once = rt_seconds() - start;
    int batch = once < 1e-3 ? (int)(1e-3 / (once > 1e-7 ? once : 1e-7)) + 1 : 1, n = 0;
    for (double end = rt_seconds() + seconds;
         n < MAX_SAMPLES && (n < LEAST_SAMPLES || rt_seconds() < end); n++) {
        start = rt_seconds();
        for (int i = 0; i < batch; i++)
            if (!job->executor->launch(job)) return false;
        samples[n] = (rt_seconds() - start) / batch;
    }
    *out = median_of(samples, n);
    return true;
}

typedef struct BenchRow {
    const char *title, *config;
    const char *device; // name of a GPU, or NULL
    int threads;
    double seconds, bytes, flops;
    double copy; // bytes a second of a copy that reads and writes as many bytes
    bool bf16;   // whether the kernel has products of bf16, which matrix units may speed up
    bool narrow; // the same for 8-bit types, whose roof is not measured
    Roofs roofs;
} BenchRow;

static bool has_elem(const Job *job, Elem elem) {
    for (int i = 0; i < job->build.code->n_params; i++)
        if (job->build.code->params[i].elem == elem) return true;
    return false;
}

/// Reads --seconds. False: reported.
static bool read_seconds(const Options *o, double *out) {
    char *end = NULL;
    *out = 0.5;
    if (!o->seconds) return true;
    *out = strtod(o->seconds, &end);
    if (end != o->seconds && !*end && *out >= 0 && *out < 1e6) return true;
    cli_error("--seconds %s: expected seconds", o->seconds);
    return false;
}

/// Compiles for this number of threads and measures.
static bool bench_threads(Ctx *ctx, const Options *o, int threads, BenchRow *row) {
    Options *own = ctx_copy(ctx, o, sizeof *o);
    own->threads = threads;
    Job *job = job_create(ctx, own);
    if (!job || !job_load(job) || !job_complete(job, own, "rand")) return false;
    TuneResult tuned;
    Decision choice;
    if (!job_instance(job, false) || !job_elaborate_tuned(job, true, &choice, &tuned)) return false;
    double products = build_products(&job->build);
    if (!job->executor->compile(job) || !job_check_overlaps(job)) return false;
    *row = (BenchRow){.threads = threads, .bytes = (double)job_bytes(job)};
    row->bf16 = has_elem(job, EL_BF16);
    row->narrow = has_elem(job, EL_I8) || has_elem(job, EL_U8);
    if (!job_flops(job, &row->flops)) return false;
    if (!o->flops) row->flops = products;
    double budget;
    if (!read_seconds(o, &budget)) return false;
    if (!time_launches(job, budget, &row->seconds)) return false;
    row->title = job_title(job);
    row->config = settings_text(job->ctx, job->build.code->n_config, job->build.code->config);
    if (job->device >= 0) {
        row->device = job->o->target;
        row->copy = gpu_copy_rate(job, (int64_t)(row->bytes / 2));
        return true;
    }
    if (!row->narrow) row->roofs = roofs_arithmetic(threads, row->bf16);
    row->copy = row->bytes >= 2 ? roofs_copy(threads, (int64_t)(row->bytes / 2)) : 0;
    return true;
}

/* ---- output -------------------------------------------------------------------------------- */

typedef struct Peak {
    double flops; // 0: not measured
    const char *name;
} Peak;

static Peak peak_of(const BenchRow *r) {
    const Roofs *roofs = &r->roofs;
    if (r->narrow) return (Peak){0};
    if (r->bf16 && roofs->amx_bf16 > 0) return (Peak){roofs->amx_bf16, "AMX tiles"};
    if (r->bf16 && roofs->dot_bf16 > 0) return (Peak){roofs->dot_bf16, "products of bf16 pairs"};
    return (Peak){roofs->fma_f32, "multiply-adds in f32"};
}

/// "  1 thread:   3.10 ms, 10.2 GB/s (45 % of a copy), 127 GFLOP/s (59 % of multiply-adds)".
static void print_bench_row(Ctx *ctx, const BenchRow *r) {
    double rate = r->bytes / r->seconds;
    Peak peak = peak_of(r);
    if (r->device)
        printf("  %s: ", r->device);
    else
        printf("  %d thread%s: ", r->threads, r->threads > 1 ? "s" : "");
    printf("%s, %.3g GB/s", time_text(ctx, r->seconds), rate * 1e-9);
    if (r->copy > 0) printf(" (%.0f %% of a copy)", rate / r->copy * 100);
    if (r->flops > 0) {
        printf(", %.4g GFLOP/s", r->flops / r->seconds * 1e-9);
        if (peak.flops > 0)
            printf(" (%.0f %% of %s)", r->flops / r->seconds / peak.flops * 100, peak.name);
    }
    printf("%s%s\n", *r->config ? "; " : "", r->config);
}

static bool write_json(const char *path, const BenchRow *rows, int n) {
    FILE *f = fopen(path, "w");
    if (!f) {
        cli_error("cannot write %s", path);
        return false;
    }
    fprintf(f, "[");
    for (int i = 0; i < n; i++) {
        const BenchRow *r = &rows[i];
        fprintf(f,
                "%s\n  {\"kernel\": \"%s\", \"config\": \"%s\", \"threads\": %d, \"seconds\": %g, "
                "\"bytes\": %g, \"flops\": %g, \"roof_copy\": %g, \"roof_flops\": %g}",
                i ? "," : "", r->title, r->config, r->threads, r->seconds, r->bytes, r->flops,
                r->copy, peak_of(r).flops);
    }
    fprintf(f, "]\n");
    return fclose(f) == 0;
}

int cmd_bench(Ctx *ctx, const Options *o) {
    BenchRow rows[2];
    int all = machine_threads(), n = 0;
    int counts[2] = {o->threads ? (int)o->threads : 1, all};
    bool gpu = o->target && gpu_device_named(o->target);
    int n_counts = o->threads || all == 1 || gpu ? 1 : 2;
    for (int i = 0; i < n_counts; i++) {
        if (!bench_threads(ctx, o, counts[i], &rows[n])) return EXIT_USER;
        if (n == 0) printf("%s\n", rows[0].title);
        print_bench_row(ctx, &rows[n++]);
        fflush(stdout);
    }
    return !o->json || write_json(o->json, rows, n) ? EXIT_OK : EXIT_USER;
}
