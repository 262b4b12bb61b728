// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// tegula profile: what ranks and their threads do when, as a trace that Perfetto shows, and how
// much of the transfers is behind the programs.
//
// Ranks are threads of this process, or (--comm) processes of one host, whose rank 0 writes the
// trace: all of them read one clock. Transfers and programs are timed alone, too: with programs
// left out, and with chunks that count as copied.
#include "tools/tegula/driver.h"
#include "tools/tegula/measure.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { EVENTS = 1 << 16, DEFAULT_LAUNCHES = 9 };

/// Seconds of some launches, after one that warms up.
typedef struct Times {
    double median, least;
    double spread; // half of the launches are within so much
} Times;

static bool time_part(Job *job, enum tg_part part, Times *out) {
    int n = job->o->repeat ? (int)job->o->repeat : DEFAULT_LAUNCHES;
    double *times = ctx_array(job->ctx, double, n);
    crew_profile(job, part, NULL);
    for (int i = -1; i < n; i++) {
        if (!job->executor->launch(job)) return false;
        if (i >= 0) times[i] = crew_seconds(job);
    }
    out->median = median_of(times, n); // they are sorted now
    out->least = times[0];
    out->spread = times[n - 1 - n / 4] - times[n / 4];
    return true;
}

static void write_event(FILE *f, int rank, const tg_event *e, int64_t start) {
    static const char *const names[TG_EVENTS] = {"program", "copy", "wait", "meet"};
    fprintf(f,
            ",\n{\"ph\": \"X\", \"pid\": %d, \"tid\": %d, \"ts\": %.3f, \"dur\": %.3f, \"name\": "
            "\"%s\", \"args\": {\"%s\": %" PRId64 ", \"number\": %" PRId64 "}}",
            rank, (int)e->thread, (double)(e->from - start) * 1e-3,
            (double)(e->to - e->from) * 1e-3, names[e->kind],
            e->kind == TG_EVENT_TASK ? "rank" : "peer", e->peer, e->number);
}

static int64_t earliest(const tg_trace *traces, int ranks) {
    int64_t start = INT64_MAX;
    for (int r = 0; r < ranks; r++)
        for (size_t i = 0; i < traces[r].n; i++)
            if (traces[r].events[i].from < start) start = traces[r].events[i].from;
    return start;
}

/// Trace events in JSON: a process is a rank, times are in microseconds.
static bool write_trace(const Job *job, const tg_trace *traces, int ranks) {
    const char *path = job->o->output ? job->o->output : "trace.json";
    FILE *f = fopen(path, "w");
    int64_t start = earliest(traces, ranks);
    if (f) fprintf(f, "{\"displayTimeUnit\": \"ns\", \"traceEvents\": [");
    for (int r = 0; r < ranks && f; r++) {
        fprintf(f,
                "%s\n{\"ph\": \"M\", \"pid\": %d, \"name\": \"process_name\", \"args\": {\"name\": "
                "\"rank %d\"}}",
                r ? "," : "", r, r);
        for (size_t i = 0; i < traces[r].n; i++) write_event(f, r, &traces[r].events[i], start);
    }
    if (f) fprintf(f, "\n]}\n");
    bool ok = f && !ferror(f);
    if ((f && fclose(f) != 0) || !ok) {
        cli_error("cannot write '%s'", path);
        return false;
    }
    printf("%s: one launch of %d ranks; ui.perfetto.dev shows it\n", path, ranks);
    return true;
}

/// What a launch did; *copies: whether anything was copied but by programs.
static bool trace_one(Job *job, bool *copies) {
    int here = crew_ranks(job), ranks = (int)job->ranks;
    tg_trace *traces = ctx_array(job->ctx, tg_trace, here);
    for (int r = 0; r < here; r++)
        traces[r] = (tg_trace){ctx_array(job->ctx, tg_event, EVENTS), EVENTS, 0};
    crew_profile(job, TG_PART_ALL, traces);
    bool ok = job->executor->launch(job);
    crew_profile(job, TG_PART_ALL, NULL);
    if (!ok || !(traces = crew_traces(job, traces))) return false;
    if (job->silent) return true;
    for (int r = 0; r < ranks; r++)
        if (traces[r].n > EVENTS) {
            cli_hint("rank %d did %zu things, of which %d are in the trace", r, traces[r].n,
                     EVENTS);
            traces[r].n = EVENTS;
        }
    for (int r = 0; r < ranks; r++)
        for (size_t i = 0; i < traces[r].n; i++)
            *copies |= traces[r].events[i].kind == TG_EVENT_COPY;
    return write_trace(job, traces, ranks);
}

/// Overlap efficiency: what transfers and programs take together less than one after the other, of
/// what could be saved at most, which is the shorter one. That says nothing where the shorter one
/// takes next to nothing, or less than launches differ by.
static void report_overlap(Job *job, const Times *all, const Times *transfers,
                           const Times *programs) {
    enum { NOTHING = 100 }; // of which a part of a launch is nothing
    bool fewer = transfers->median < programs->median;
    const Times *shorter = fewer ? transfers : programs;
    double least = shorter->median;
    double saved = transfers->median + programs->median - all->median;
    if (shorter->least * NOTHING < all->median)
        printf(", nothing to hide: %s take less than 1 %% of a launch\n",
               fewer ? "transfers" : "programs");
    else if (least < all->spread)
        printf(", overlap not to be told: launches differ by %s\n",
               time_text(job->ctx, all->spread));
    else
        printf(", overlap %.0f %% (+-%.0f)\n", 100 * saved / least, 50 * all->spread / least);
}

/// Programs that reach into the others' memory themselves leave nothing to time alone.
static void report(Job *job, const Times *times, bool copies) {
    const Times *all = &times[TG_PART_ALL], *transfers = &times[TG_PART_TRANSFERS];
    const Times *programs = &times[TG_PART_PROGRAMS];
    printf("%s: %s a launch", job_title(job), time_text(job->ctx, all->median));
    if (!copies) {
        printf("; nothing is copied but by programs\n");
        return;
    }
    printf("; programs alone %s", time_text(job->ctx, programs->median));
    printf(", transfers alone %s", time_text(job->ctx, transfers->median));
    report_overlap(job, all, transfers, programs);
}

static bool profile(Job *job) {
    Times times[TG_PART_PROGRAMS + 1];
    if (!job->executor->launch(job)) return false;
    if (!crew_ranks(job)) {
        cli_error("kernel '%s' does not run on several ranks of CPUs here", job->kernel->name.text);
        cli_hint("it needs symmetric tensors, and a target that is a CPU");
        return false;
    }
    for (int part = TG_PART_ALL; part <= TG_PART_PROGRAMS; part++)
        if (!time_part(job, (enum tg_part)part, &times[part])) return false;
    bool copies = false;
    if (!trace_one(job, &copies)) return false;
    if (!job->silent) report(job, times, copies);
    return true;
}

int cmd_profile(Ctx *ctx, const Options *o) {
    Job *job = job_create(ctx, o);
    bool ok = job && job_load(job) && job_instance(job, false) && crew_meet(job) &&
              job_elaborate(job) && job_spread(job) && job->executor->compile(job) &&
              job_check_overlaps(job) && profile(job);
    return ok ? EXIT_OK : EXIT_USER;
}
