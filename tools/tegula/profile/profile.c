// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// tegula profile: where the time of a launch goes.
//
// Code without marks is timed. The same kernel is then compiled with marks, and one launch of it is
// recorded, so the marks' own time is known.
#include "tools/tegula/profile/profile.h"
#include "tools/tegula/profile/roofline.h"

#include "tools/tegula/tune/tune.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { DEFAULT_LAUNCHES = 9, SPANS = 1 << 16, DEVICE_MARKS = 1 << 16 };

static void destroy_record(void *record) {
    tg_record_destroy(record);
}

static bool time_launches(Job *job, Profile *p) {
    int n = job->o->repeat ? (int)job->o->repeat : DEFAULT_LAUNCHES;
    double *times = ctx_array(job->ctx, double, n);
    for (int i = -1; i < n; i++) {
        if (i == 0 && p->counters) counters_start(p->counters);
        double start = rt_seconds();
        if (!job->executor->launch(job)) return false;
        if (i >= 0) times[i] = rt_seconds() - start;
    }
    p->launches = n;
    if (p->counters) counters_stop(p->counters, p->counts);
    p->times.median = median_of(times, n); // times are sorted now
    p->times.least = times[0];
    p->times.spread = times[n - 1 - n / 4] - times[n / 4];
    return true;
}

/// Compiles the setting of the job with marks.
static bool compile_marked(Job *job) {
    job->marks = true;
    return job_elaborate(job) && job->executor->compile(job);
}

static bool record_one(Job *job, tg_record **out) {
    *out = job_record(job, SPANS, DEVICE_MARKS);
    return *out && job->executor->launch(job);
}

static double record_seconds(const tg_record *r) {
    return (double)(r->to - r->from) * 1e-9;
}

/// The first launch loads code and data into caches. On a busy machine a launch may wait for cores,
/// so a slow one is recorded again, a few times, and the fastest one counts.
static bool record_launch(Job *job, Profile *p) {
    enum { MOST_RECORDS = 5 };
    const double slow = 1.25; // times the median
    tg_record *best = NULL, *last = NULL;
    bool ok = job->executor->launch(job);
    for (int i = 0; ok && i < MOST_RECORDS; i++) {
        ok = record_one(job, &last);
        bool better = ok && (!best || record_seconds(last) < record_seconds(best));
        tg_record_destroy(better ? best : last);
        if (better) best = last;
        if (ok &&
            (is_simulated(job->build.target) || record_seconds(best) <= slow * p->times.median))
            break;
    }
    job_record_end(job);
    ctx_defer(job->ctx, destroy_record, best);
    p->record = best;
    if (ok) p->marked = record_seconds(best);
    return ok;
}

/// The element type of the operands of products, in tile IR.
static void find_products(Op *op, void *arg) {
    Profile *p = arg;
    if (op->code != OP_DOT) return;
    Elem elem = operand(op, 0)->type->elem;
    p->products = p->has_products && p->products != elem ? EL_COUNT : elem;
    p->has_products = true;
}

/// Counts a tensor that is read and written twice.
static double moved_bytes(Job *job) {
    const tg_kernel_info *info = kernel_info(job->ctx, job->program, job->kernel);
    double bytes = (double)job_bytes(job);
    for (int i = 0; i < job->kernel->params.n; i++) {
        const Argument *a = &job->args[i];
        if (a->kind == ARG_TENSOR && info->params[i].flags & TG_PARAM_READ)
            bytes += (double)(tensor_count(&a->tensor) * elem_info[a->tensor.elem].bits / 8);
    }
    return bytes;
}

bool profile_launches(Job *job, const Counters *counters, Profile *p) {
    *p = (Profile){.job = job,
                   .title = job_title(job),
                   .bytes = moved_bytes(job),
                   .products = EL_COUNT,
                   .counters = counters};
    p->config = settings_text(job->ctx, job->build.code->n_config, job->build.code->config);
    if (!job_flops(job, &p->flops)) return false;
    if (!job->o->flops) p->flops = build_products(&job->build);
    op_walk_pre(find_kernel(job->build.code->module, job->build.code->name), find_products, p);
    if (!job->executor->compile(job) || !job_check_overlaps(job)) return false;
    if (!time_launches(job, p) || !compile_marked(job) || !record_launch(job, p)) return false;
    profile_sum(p);
    return true;
}

/// Writes the files of --roofline and --html.
static bool write_pages(const Profile *p, const RankedSettings *settings) {
    const Options *o = p->job->o;
    Roofline roofline, *r = NULL;
    if (o->roofline) roofline_of(p, settings, r = &roofline);
    const char *svg = r ? roofline_svg(p, r) : NULL;
    if (r) roofline_print(p, r);
    if (svg && !file_write(p->job->ctx, o->roofline, svg, strlen(svg))) return false;
    const char *page = o->html ? profile_page(p, r) : NULL;
    return !page || file_write(p->job->ctx, o->html, page, strlen(page));
}

static void close_counters(void *counters) {
    counters_close(counters);
}

/// Opens the counters of --counters before any thread starts. NULL: none, with a warning.
static const Counters *open_counters(Job *job) {
    Counters *c = ctx_new(job->ctx, Counters);
    const char *help;
    if (!job->o->counters) return NULL;
    if (counters_open(c)) {
        ctx_defer(job->ctx, close_counters, c);
        return c;
    }
    cli_warning("%s", counters_missing(job->ctx, errno, &help));
    if (help) cli_hint("%s", help);
    return NULL;
}

/// Refuses files that cannot be as asked for, before the launches.
static bool check_files(const Job *job, const char *trace) {
    const Options *o = job->o;
    if (o->roofline && is_simulated(job->build.target)) {
        cli_error("--roofline: times of a simulator have no roof");
        cli_hint("`tegula explain` tells what the cost model expects of a GPU");
        return false;
    }
    const char *paths[] = {trace, o->html, o->roofline};
    for (int i = 0; i < 3; i++)
        for (int k = 0; k < i; k++)
            if (paths[i] && paths[k] && strcmp(paths[i], paths[k]) == 0) {
                cli_error("%s: two outputs of a profile cannot be one file", paths[i]);
                return false;
            }
    for (int i = 0; i < 3; i++)
        if (paths[i] && !file_can_be_written(job->ctx, paths[i])) return false;
    return true;
}

static bool profile_one(Job *job, const Counters *counters, const RankedSettings *settings) {
    Profile p;
    if (strcmp(job->executor->name, "interp") == 0) {
        cli_error("--target interp: the interpreter has no profile");
        cli_hint("cpu, a GPU and sim:sm_90a have one");
        return false;
    }
    const char *trace = job->o->output ? job->o->output : "trace.json";
    if (!check_files(job, trace) || !profile_launches(job, counters, &p)) return false;
    profile_print(&p);
    return profile_write_trace(&p, trace) && write_pages(&p, settings);
}

/// More ranks than there may be are reported later.
static bool complete_job(Job *job, Options *own) {
    return own->ranks > MAX_RANKS || job_complete(job, own, "rand");
}

int cmd_profile(Ctx *ctx, const Options *o) {
    Options *own = ctx_copy(ctx, o, sizeof *o);
    Job *job = job_create(ctx, own);
    TuneResult tuned;
    Decision choice;
    RankedSettings *settings = NULL;
    const Counters *counters = job ? open_counters(job) : NULL;
    bool ok = job && job_load(job) && complete_job(job, own) && job_instance(job, false);
    if (ok && o->roofline) settings = roofline_settings(job);
    if (ok)
        ok = rank_launch_meet(job) && job_elaborate_tuned(job, true, &choice, &tuned) &&
             job_spread(job);
    if (ok && job->ranks && !args_refuse(own, "several ranks", "roofline html counters"))
        return EXIT_USAGE;
    if (ok) ok = job->ranks ? profile_ranks(job) : profile_one(job, counters, settings);
    return ok ? EXIT_OK : EXIT_USER;
}
