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

/// The first launch loads code and data into caches. On a busy machine a launch may wait for cores,
/// so a slow one is recorded again, a few times.
static bool record_launch(Job *job, Profile *p) {
    enum { MOST_RECORDS = 5 };
    const double slow = 1.25; // times the median
    tg_record *record = job_record(job, SPANS, DEVICE_MARKS);
    if (!record) return false;
    ctx_defer(job->ctx, destroy_record, record);
    bool ok = job->executor->launch(job);
    for (int i = 0; ok && i < MOST_RECORDS; i++) {
        ok = job->executor->launch(job);
        p->marked = (double)(record->to - record->from) * 1e-9;
        if (is_simulated(job->build.target) || p->marked <= slow * p->times.median) break;
    }
    job_record_end(job);
    p->record = record;
    return ok;
}

bool profile_launches(Job *job, const Counters *counters, Profile *p) {
    *p = (Profile){
        .job = job, .title = job_title(job), .bytes = (double)job_bytes(job), .counters = counters};
    p->config = settings_text(job->ctx, job->build.code->n_config, job->build.code->config);
    if (!job_flops(job, &p->flops)) return false;
    if (!job->o->flops) p->flops = build_products(&job->build);
    if (!job->executor->compile(job) || !job_check_overlaps(job)) return false;
    if (!time_launches(job, p) || !compile_marked(job) || !record_launch(job, p)) return false;
    profile_sum(p);
    return true;
}

/// Writes the files of --roofline and --html.
static bool write_pages(const Profile *p, const RankedSettings *settings) {
    const Options *o = p->job->o;
    Roofline roofline, *r = NULL;
    if (o->roofline && !roofline_of(p, settings, r = &roofline)) return false;
    const char *svg = r ? roofline_svg(p, r) : NULL;
    if (r) roofline_print(p, r);
    if (r && !svg) cli_hint("without products or --flops there is no chart");
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

static bool profile_one(Job *job, const Counters *counters, const RankedSettings *settings) {
    Profile p;
    if (strcmp(job->executor->name, "interp") == 0) {
        cli_error("--target interp: the interpreter has no profile");
        cli_hint("cpu, a GPU and sim:sm_90a have one");
        return false;
    }
    if (!profile_launches(job, counters, &p)) return false;
    profile_print(&p);
    return profile_write_trace(&p, job->o->output ? job->o->output : "trace.json") &&
           write_pages(&p, settings);
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
