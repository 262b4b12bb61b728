// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// tegula bench: how fast a kernel is beside what this machine can do at most.
#include "driver/aot.h"
#include "tools/roofs.h"
#include "tools/tegula/gpu.h"
#include "tools/tegula/measure.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- arguments that nobody gave ------------------------------------------------------------ */

enum { DEFAULT_EXTENT = 1024, MOST_ELEMENTS = 1 << 25 };

/// A value of --dim, for a name that the kernel's tensors have.
static bool take_dim(Job *job, const char *option, Dimensions *dims) {
    const char *name, *text = args_pair(job->ctx, "dim", option, &name);
    if (!text) return false;
    char *end;
    errno = 0;
    long long extent = strtoll(text, &end, 0);
    if (errno || end == text || *end || extent < 0) {
        cli_error("--dim %s: expected NAME=EXTENT", option);
        return false;
    }
    Aot a = {.ctx = job->ctx, .program = job->program};
    AotNames names = {0};
    aot_dims(&a, job->kernel, &names);
    Text all = {.ctx = job->ctx};
    for (int i = 0; i < names.n; i++) {
        text_add(&all, "%s%s", i ? ", " : "", names.data[i]);
        if (strcmp(names.data[i], name) == 0) dims_set(job->ctx, dims, name, extent);
    }
    if (dims_find(dims, name)) return true;
    cli_error("--dim %s: kernel '%s' has no such dim", option, job->kernel->name.text);
    cli_hint("its dims are %s", all.n ? all.data : "none");
    return false;
}

/// Values of --dim, then the default for every other name of a tensor's dims.
static bool choose_dims(Job *job, int64_t otherwise, Dimensions *dims) {
    for (int i = 0; i < job->o->dims.n; i++)
        if (!take_dim(job, job->o->dims.at[i], dims)) return false;
    for (int i = 0; i < job->kernel->params.n; i++) {
        const Param *p = &job->kernel->params.at[i];
        const TypeExpr *t = p->type;
        for (int d = 0; param_is_tensor(p) && d < t->dims.n; d++) {
            const Expr *e = t->dims.at[d].expr;
            if (e->kind != EX_NAME || dims_find(dims, e->name)) continue;
            dims_set(job->ctx, dims, e->name, otherwise);
            // A pack is one dim of that extent.
            Dimension *last = &dims->data[dims->n - 1];
            if (t->dims.at[d].pack) last->pack = 1, last->extents[0] = otherwise;
        }
    }
    return true;
}

/// The largest number of elements of a tensor, or -1 where its dims are beyond us.
static int64_t elements(const Dimensions *dims, const TypeExpr *type, int64_t *extents, int *rank) {
    const char *unknown;
    int64_t n = 1;
    if (!dims_extents(dims, type, rank, extents, &unknown)) return -1;
    for (int i = 0; i < *rank; i++)
        if (__builtin_mul_overflow(n, extents[i], &n)) return INT64_MAX;
    return n;
}

/// The default extent: halved until no tensor is too large.
static bool fitting_dims(Job *job, Dimensions *dims) {
    for (int64_t extent = DEFAULT_EXTENT;; extent /= 2) {
        *dims = (Dimensions){0};
        int64_t most = 0, extents[MAX_RANK];
        if (!choose_dims(job, extent, dims)) return false;
        for (int i = 0; i < job->kernel->params.n; i++) {
            const Param *p = &job->kernel->params.at[i];
            int rank;
            int64_t n = param_is_tensor(p) ? elements(dims, p->type, extents, &rank) : 0;
            if (n > most) most = n;
        }
        if (most <= MOST_ELEMENTS || extent == 1) return true;
    }
}

static bool is_given(const Options *o, const char *name) {
    size_t n = strlen(name);
    for (int i = 0; i < o->args.n; i++)
        if (strncmp(o->args.at[i], name, n) == 0 && o->args.at[i][n] == '=') return true;
    return false;
}

/// "x=rand(1024,1024)", "scale=1"; NULL for what needs no argument.
static const char *made_up(Job *job, const Dimensions *dims, const Param *p) {
    if (!param_is_tensor(p)) return ctx_format(job->ctx, "%s=1", p->name.text);
    if (p->optional) return NULL;
    int rank;
    int64_t extents[MAX_RANK];
    if (elements(dims, p->type, extents, &rank) < 0) return NULL;
    Text t = {.ctx = job->ctx};
    text_add(&t, "%s=rand(", p->name.text);
    for (int i = 0; i < rank; i++) text_add(&t, "%s%" PRId64, i ? "," : "", extents[i]);
    text_add(&t, ")");
    return t.data;
}

static bool gives_tensor(const Job *job) {
    for (int i = 0; i < job->kernel->params.n; i++) {
        const Param *p = &job->kernel->params.at[i];
        if (param_is_tensor(p) && is_given(job->o, p->name.text)) return true;
    }
    return false;
}

/// The options with an argument for every parameter that has none: random numbers, scalars of 1.
static bool complete(Job *job, Options *o) {
    Dimensions dims;
    if (!fitting_dims(job, &dims)) return false;
    const char **all = ctx_array(job->ctx, const char *, o->args.n + job->kernel->params.n);
    if (o->args.n) memcpy(all, o->args.at, sizeof *all * (size_t)o->args.n);
    int n = o->args.n;
    // What --arg says of dims counts for the others, too: they are left to follow from it.
    bool follow = gives_tensor(job);
    for (int i = 0; i < job->kernel->params.n; i++) {
        const Param *p = &job->kernel->params.at[i];
        if (is_given(o, p->name.text) || (param_is_tensor(p) && follow)) continue;
        const char *arg = made_up(job, &dims, p);
        if (arg) all[n++] = arg;
    }
    o->args = (List){all, n};
    return true;
}

/* ---- times --------------------------------------------------------------------------------- */

enum { MAX_SAMPLES = 1000, LEAST_SAMPLES = 7 };

/// Median seconds of a launch; samples are batches of a millisecond or more.
static bool time_launches(Job *job, double seconds, double *out) {
    if (job->device >= 0) return gpu_time(job, job_launch_only, seconds, out);
    static double samples[MAX_SAMPLES];
    if (!job->executor->launch(job)) return false;
    double start = seconds_now();
    if (!job->executor->launch(job)) return false;
    double once = seconds_now() - start;
    int batch = once < 1e-3 ? (int)(1e-3 / (once > 1e-7 ? once : 1e-7)) + 1 : 1, n = 0;
    for (double end = seconds_now() + seconds;
         n < MAX_SAMPLES && (n < LEAST_SAMPLES || seconds_now() < end); n++) {
        start = seconds_now();
        for (int i = 0; i < batch; i++)
            if (!job->executor->launch(job)) return false;
        samples[n] = (seconds_now() - start) / batch;
    }
    *out = median_of(samples, n);
    return true;
}

typedef struct Row {
    const char *title, *config;
    const char *device; // a GPU, or NULL
    int threads;
    double seconds, bytes, flops;
    double copy; // bytes a second of a copy that reads and writes as many bytes
    bool tiles;  // products of types that AMX takes
    Roofs roofs;
} Row;

static const char *config_text(const Job *job) {
    Text t = {.ctx = job->ctx};
    text_bytes(&t, "", 0);
    const Elaborated *code = job->build.code;
    for (int i = 0; i < code->n_config; i++)
        text_add(&t, "%s%s=%" PRId64, i ? " " : "", code->config[i].name, code->config[i].value);
    return t.data;
}

static bool takes_tiles(const Job *job) {
    for (int i = 0; i < job->build.code->n_params; i++) {
        Elem e = job->build.code->params[i].elem;
        if (e == EL_BF16 || e == EL_I8 || e == EL_U8) return true;
    }
    return false;
}

/// Compiles for so many threads and measures.
static bool bench(Ctx *ctx, const Options *o, int threads, Row *row) {
    Options *own = ctx_copy(ctx, o, sizeof *o);
    own->threads = threads;
    Job *job = job_create(ctx, own);
    if (!job || !job_load(job) || !complete(job, own)) return false;
    if (!job_instance(job, false) || !job_elaborate(job)) return false;
    double products = build_products(&job->build);
    if (!job->executor->compile(job) || !job_check_overlaps(job)) return false;
    *row = (Row){.threads = threads, .bytes = (double)job_bytes(job), .tiles = takes_tiles(job)};
    if (!job_flops(job, &row->flops)) return false;
    if (!o->flops) row->flops = products;
    double budget = o->seconds ? atof(o->seconds) : 0.5;
    if (!time_launches(job, budget, &row->seconds)) return false;
    row->title = job_title(job);
    row->config = config_text(job);
    if (job->device >= 0) {
        row->device = job->o->target;
        row->copy = gpu_copy_rate(job, (int64_t)(row->bytes / 2));
        return true;
    }
    row->roofs = roofs_arithmetic(threads);
    row->copy = row->bytes >= 2 ? roofs_copy(threads, (int64_t)(row->bytes / 2)) : 0;
    return true;
}

/* ---- output -------------------------------------------------------------------------------- */

static double flops_roof(const Row *r) {
    return r->tiles && r->roofs.amx_bf16 > 0 ? r->roofs.amx_bf16 : r->roofs.fma_f32;
}

/// "  1 thread:   3.10 ms, 10.2 GB/s (45 % of a copy), 127 GFLOP/s (59 % of multiply-adds)".
static void print_row(Ctx *ctx, const Row *r) {
    double rate = r->bytes / r->seconds, roof = flops_roof(r);
    if (r->device)
        printf("  %s: ", r->device);
    else
        printf("  %d thread%s: ", r->threads, r->threads > 1 ? "s" : "");
    printf("%s, %.3g GB/s", time_text(ctx, r->seconds), rate * 1e-9);
    if (r->copy > 0) printf(" (%.0f %% of a copy)", rate / r->copy * 100);
    if (r->flops > 0) {
        printf(", %.4g GFLOP/s", r->flops / r->seconds * 1e-9);
        if (roof > 0)
            printf(" (%.0f %% of %s)", r->flops / r->seconds / roof * 100,
                   roof == r->roofs.fma_f32 ? "multiply-adds in f32" : "AMX tiles");
    }
    printf("%s%s\n", *r->config ? "; " : "", r->config);
}

static bool write_json(const char *path, const Row *rows, int n) {
    FILE *f = fopen(path, "w");
    if (!f) {
        cli_error("cannot write %s", path);
        return false;
    }
    fprintf(f, "[");
    for (int i = 0; i < n; i++) {
        const Row *r = &rows[i];
        fprintf(f,
                "%s\n  {\"kernel\": \"%s\", \"config\": \"%s\", \"threads\": %d, \"seconds\": %g, "
                "\"bytes\": %g, \"flops\": %g, \"roof_copy\": %g, \"roof_flops\": %g}",
                i ? "," : "", r->title, r->config, r->threads, r->seconds, r->bytes, r->flops,
                r->copy, flops_roof(r));
    }
    fprintf(f, "]\n");
    return fclose(f) == 0;
}

int cmd_bench(Ctx *ctx, const Options *o) {
    Row rows[2];
    int all = machine_threads(), n = 0;
    int counts[2] = {o->threads ? (int)o->threads : 1, all};
    bool gpu = o->target && gpu_device_named(o->target);
    int n_counts = o->threads || all == 1 || gpu ? 1 : 2;
    for (int i = 0; i < n_counts; i++) {
        if (!bench(ctx, o, counts[i], &rows[n])) return EXIT_USER;
        if (n == 0) printf("%s\n", rows[0].title);
        print_row(ctx, &rows[n++]);
        fflush(stdout);
    }
    return !o->json || write_json(o->json, rows, n) ? EXIT_OK : EXIT_USER;
}
