// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// tegula-bench runs every case, ours and the peer's alternately, on one thread and on all. It
// prints a table with the ratio of medians, and JSON. See --help.
#include "bench/bench.h"
#include "tools/roofline.h"
#include "tools/timing.h"

#include <getopt.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

typedef struct Config {
    const char *filter, *json;
    int threads; // 0: first one, then all
    double seconds;
    bool list;
} Config;

typedef struct Result {
    const Case *c;
    int threads;
    double ours, peer; // medians in seconds
    double error;      // relative to the largest expected value
    bool right;
} Result;

/// Pauses until idle threads of the last side stop spinning and sleep.
static void settle(void) {
    struct timespec t = {0, 3 * 1000 * 1000};
    nanosleep(&t, NULL);
}

/* ---- one case ------------------------------------------------------------------------------ */

static bool fail(const Case *c, const char *what, const char *why) {
    fprintf(stderr, "%s %s: %s%s%s\n", c->name, c->shape, what, *why ? ": " : "", why);
    return false;
}

static bool ours_setup(Case *c) {
    if (c->module) return true;
    if (tg_module_from_file(c->source, NULL, &c->module) ||
        tg_module_kernel(c->module, c->kernel, &c->code))
        return fail(c, "cannot load", tg_last_error());
    return true;
}

static bool ours_run(Case *c) {
    return tg_launch(c->code, c->args, c->n_args) == TG_OK;
}

/// The largest difference relative to the largest magnitude; NAN if there is a NaN.
static double difference(const Case *c) {
    double worst = 0, scale = 0;
    for (int64_t i = 0; i < c->out.count; i++) {
        double x = array_get(&c->out, i), y = array_get(&c->expected, i);
        if (!(fabs(x - y) <= worst)) worst = fabs(x - y);
        if (fabs(y) > scale) scale = fabs(y);
    }
    return scale > 0 ? worst / scale : worst;
}

enum { MAX_SAMPLES = 400 };

typedef struct Samples {
    int n;
    double at[MAX_SAMPLES];
} Samples;

typedef struct Side {
    void (*run)(Case *c);
    int times; // runs in a sample of a millisecond or more
    Samples samples;
} Side;

static void run_ours(Case *c) {
    (void)ours_run(c);
}

static void run_copy(Case *c) {
    (void)c;
}

static double sample(const Side *side, Case *c) {
    double start = rt_seconds();
    for (int i = 0; i < side->times; i++) side->run(c);
    return (rt_seconds() - start) / side->times;
}

static void calibrate(Side *side, Case *c) {
    side->times = 1;
    double once = sample(side, c);
    once = fmin(once, sample(side, c));
    side->times = once < 1e-3 ? (int)(1e-3 / fmax(once, 1e-8)) + 1 : 1;
}

/// Alternates batches of samples of both sides until the time is up, for at least five rounds.
static void alternate(Case *c, double seconds, Side *a, Side *b) {
    double end = rt_seconds() + seconds;
    for (int round = 0; (round < 5 || rt_seconds() < end) && a->samples.n + 4 <= MAX_SAMPLES;
         round++) {
        Side *sides[2] = {a, b};
        for (int k = 0; k < 2; k++) {
            Side *side = sides[k];
            settle();
            side->run(c); // wakes its threads
            for (int i = 0; i < 4; i++) side->samples.at[side->samples.n++] = sample(side, c);
        }
    }
}

/// Without a peer, measures a copy of half as many bytes, which are read and written once.
static bool measure(Case *c, int threads, double seconds, Result *out) {
    *out = (Result){.c = c, .threads = threads};
    if (c->peer && !c->peer->setup(c, threads)) return fail(c, c->peer->name, "cannot do this");
    if (!ours_run(c)) return fail(c, "launch", tg_last_error());
    if (c->peer) c->peer->run(c);
    if (c->peer && c->peer->finish) c->peer->finish(c);
    out->error = c->peer ? difference(c) : 0;
    out->right = out->error <= c->tolerance;
    Side ours = {.run = run_ours}, peer = {.run = c->peer ? c->peer->run : run_copy};
    if (out->right) {
        calibrate(&ours, c);
        calibrate(&peer, c);
        alternate(c, seconds, &ours, &peer);
        out->ours = median_of(ours.samples.at, ours.samples.n);
        out->peer = c->peer ? median_of(peer.samples.at, peer.samples.n)
                            : c->bytes / roofs_copy(threads, (int64_t)(c->bytes / 2));
    }
    if (c->peer) c->peer->release(c);
    return out->right ? true : fail(c, "results differ", "not timed");
}

/* ---- output -------------------------------------------------------------------------------- */

static const char *peer_name(const Case *c) {
    return c->peer ? c->peer->name : "copy";
}

static void print_header(void) {
    printf("%-14s %-22s %7s %10s %10s %9s %9s %6s  %s\n", "case", "shape", "threads", "ours us",
           "peer us", "GFLOP/s", "GB/s", "ratio", "peer");
}

static void print_row(const Result *r) {
    const Case *c = r->c;
    printf("%-14s %-22s %7d %10.2f %10.2f %9.1f %9.1f %6.2f  %s\n", c->name, c->shape, r->threads,
           r->ours * 1e6, r->peer * 1e6, c->flops / r->ours * 1e-9, c->bytes / r->ours * 1e-9,
           r->peer / r->ours, peer_name(c));
    fflush(stdout);
}

static bool write_json(const char *path, const Result *at, int n, const Roofs *roofs, int n_roofs) {
    FILE *f = fopen(path, "w");
    if (!f) {
        perror(path);
        return false;
    }
    fprintf(f, "{\"roofs\": [");
    for (int i = 0; i < n_roofs; i++)
        fprintf(f, "%s\n  {\"threads\": %d, \"copy\": %g, \"fma_f32\": %g, \"amx_bf16\": %g}",
                i ? "," : "", roofs[i].threads, roofs[i].copy, roofs[i].fma_f32, roofs[i].amx_bf16);
    fprintf(f, "],\n \"results\": [");
    for (int i = 0; i < n; i++) {
        const Case *c = at[i].c;
        fprintf(f,
                "%s\n  {\"case\": \"%s\", \"shape\": \"%s\", \"threads\": %d, \"ours\": %g, "
                "\"peer\": %g, \"ratio\": %.4f, \"peer_name\": \"%s\", \"error\": %g, "
                "\"flops\": %g, \"bytes\": %g}",
                i ? "," : "", c->name, c->shape, at[i].threads, at[i].ours, at[i].peer,
                at[i].peer / at[i].ours, peer_name(c), at[i].error, c->flops, c->bytes);
    }
    fprintf(f, "]}\n");
    return fclose(f) == 0;
}

/* ---- the run ------------------------------------------------------------------------------- */

enum { MAX_RESULTS = 512 };

/// Runs all cases on a number of threads. Returns the number of cases that failed.
static int run_cases(CaseList *cases, int threads, const Config *o, Result *results, int *n) {
    tg_options options = {.size = sizeof options, .threads = threads};
    tg_context *context;
    if (tg_context_create(&options, &context)) {
        fprintf(stderr, "%s\n", tg_last_error());
        return 1;
    }
    tg_context_use(context);
    int failed = 0;
    for (int i = 0; i < cases->n && *n < MAX_RESULTS; i++) {
        Case *c = cases->at[i];
        if (!ours_setup(c) || !measure(c, threads, o->seconds, &results[*n]))
            failed++;
        else
            print_row(&results[(*n)++]);
    }
    for (int i = 0; i < cases->n; i++) {
        if (cases->at[i]->module) tg_module_destroy(cases->at[i]->module);
        cases->at[i]->module = NULL;
    }
    tg_context_use(NULL);
    tg_context_destroy(context);
    return failed;
}

static void usage(void) {
    puts("tegula-bench [options] [words]\n"
         "Runs the cases whose names contain one of the words; all without words.\n\n"
         "  --threads N    only N threads; else one, then all\n"
         "  --seconds S    time a case and number of threads (1)\n"
         "  --json FILE    results as JSON\n"
         "  --list         names and shapes only");
}

static bool parse(int argc, char **argv, Config *o) {
    static const struct option options[] = {{"threads", 1, NULL, 't'}, {"seconds", 1, NULL, 's'},
                                            {"json", 1, NULL, 'j'},    {"list", 0, NULL, 'l'},
                                            {"help", 0, NULL, 'h'},    {NULL, 0, NULL, 0}};
    *o = (Config){.seconds = 1, .filter = ""};
    static char words[1024];
    for (int k; (k = getopt_long(argc, argv, "h", options, NULL)) != -1;) {
        if (k == 't')
            o->threads = atoi(optarg);
        else if (k == 's')
            o->seconds = atof(optarg);
        else if (k == 'j')
            o->json = optarg;
        else if (k == 'l')
            o->list = true;
        else
            return false;
    }
    for (int i = optind; i < argc; i++) {
        strncat(words, argv[i], sizeof words - strlen(words) - 1);
        strncat(words, " ", sizeof words - strlen(words) - 1);
    }
    o->filter = words;
    return true;
}

/// Makes the peers' idle threads sleep; otherwise our side waits until they are preempted. The
/// libraries read these variables when they are loaded, so the program starts again.
static void restart_with_passive_peers(char **argv) {
    if (getenv("OMP_WAIT_POLICY")) return;
    setenv("OMP_WAIT_POLICY", "passive", 1);
    setenv("OPENBLAS_THREAD_TIMEOUT", "4", 1); // idle threads sleep after 2^4 cycles
    execv("/proc/self/exe", argv);             // if this fails, times are less steady
}

int main(int argc, char **argv) {
    restart_with_passive_peers(argv);
    Config o;
    if (!parse(argc, argv, &o)) {
        usage();
        return 2;
    }
    CaseList cases = {0};
    if (!cases_make(&cases, o.filter)) return 1;
    for (int i = 0; o.list && i < cases.n; i++)
        printf("%-14s %s\n", cases.at[i]->name, cases.at[i]->shape);
    if (o.list) return 0;
    static Result results[MAX_RESULTS];
    int all = tg_context_threads(NULL), n = 0, failed = 0;
    int counts[2] = {o.threads ? o.threads : 1, all}, n_counts = o.threads || all == 1 ? 1 : 2;
    Roofs roofs[2];
    for (int i = 0; i < n_counts; i++) {
        roofs[i] = roofs_measure(counts[i]);
        printf("roofs of %d threads: copy %.1f GB/s, f32 %.0f GFLOP/s, bf16 tiles %.0f GFLOP/s\n",
               counts[i], roofs[i].copy * 1e-9, roofs[i].fma_f32 * 1e-9, roofs[i].amx_bf16 * 1e-9);
    }
    print_header();
    for (int i = 0; i < n_counts; i++) failed += run_cases(&cases, counts[i], &o, results, &n);
    if (o.json && !write_json(o.json, results, n, roofs, n_counts)) failed++;
    for (int i = 0; i < cases.n; i++) case_free(cases.at[i]);
    free(cases.at);
    if (failed) fprintf(stderr, "%d cases failed\n", failed);
    return failed ? 1 : 0;
}
