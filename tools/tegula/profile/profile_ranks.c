// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// tegula profile of several ranks: the activities of ranks and their threads over time, as a trace
// for Perfetto, and the share of the transfers that the programs hide.
//
// Ranks are threads of this process, or (--comm) processes of one host, whose rank 0 writes the
// trace. All of them read one clock, and a GPU's clock is converted to it. Transfers and programs
// are also timed separately: once without the programs, and once with all chunks counted as copied.
#include "tools/tegula/profile/profile.h"

#include "tools/tegula/tune/tune.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { EVENTS = 1 << 16, DEFAULT_LAUNCHES = 9 };

static bool time_part(Job *job, enum tg_part part, Times *out) {
    int n = job->o->repeat ? (int)job->o->repeat : DEFAULT_LAUNCHES;
    double *times = ctx_array(job->ctx, double, n);
    if (!rank_launch_profile(job, part, NULL)) return false;
    for (int i = -1; i < n; i++) {
        if (!job->executor->launch(job)) return false;
        if (i >= 0) times[i] = rank_launch_seconds(job);
    }
    out->median = median_of(times, n); // times are sorted now
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

static int64_t earliest_event(const tg_trace *traces, int ranks) {
    int64_t start = INT64_MAX;
    for (int r = 0; r < ranks; r++)
        for (size_t i = 0; i < traces[r].n; i++)
            if (traces[r].events[i].from < start) start = traces[r].events[i].from;
    return start;
}

/// Names the streams of a GPU by runtime/host.h's numbers.
static void name_streams(FILE *f, int rank, int ranks) {
    for (int t = 0; t <= ranks; t++) {
        if (t == rank + 1) continue;
        fprintf(f, ",\n{\"ph\": \"M\", \"pid\": %d, \"tid\": %d, \"name\": \"thread_name\", ", rank,
                t);
        fprintf(f,
                t ? "\"args\": {\"name\": \"copies, rank %d\"}}"
                  : "\"args\": {\"name\": \"launch\"}}",
                t - 1);
    }
}

/// Writes trace events in JSON: a process is a rank, times are in microseconds.
static bool write_trace(const Job *job, const tg_trace *traces, int ranks) {
    const char *path = job->o->output ? job->o->output : "trace.json";
    FILE *f = fopen(path, "w");
    int64_t start = earliest_event(traces, ranks);
    if (f) fprintf(f, "{\"displayTimeUnit\": \"ns\", \"traceEvents\": [");
    for (int r = 0; r < ranks && f; r++) {
        fprintf(f,
                "%s\n{\"ph\": \"M\", \"pid\": %d, \"name\": \"process_name\", \"args\": {\"name\": "
                "\"rank %d\"}}",
                r ? "," : "", r, r);
        if (job->device >= 0) name_streams(f, r, ranks);
        for (size_t i = 0; i < traces[r].n; i++) write_event(f, r, &traces[r].events[i], start);
    }
    if (f) fprintf(f, "\n]}\n");
    bool ok = f && !ferror(f);
    if ((f && fclose(f) != 0) || !ok) {
        cli_error("cannot write '%s'", path);
        return false;
    }
    printf("%s: one launch of %d ranks; ui.perfetto.dev shows it\n", path, ranks);
    int64_t error = 0;
    for (int r = 0; r < ranks; r++)
        if (traces[r].error_ns > error) error = traces[r].error_ns;
    if (error)
        printf("clocks of the GPUs agree within %s\n", time_text(job->ctx, 2e-9 * (double)error));
    return true;
}

/// Returns a launch's events, for the ranks in this process. NULL: it failed.
static tg_trace *trace_here(Job *job) {
    int here = rank_launch_ranks(job);
    tg_trace *traces = ctx_array(job->ctx, tg_trace, here);
    for (int r = 0; r < here; r++)
        traces[r] = (tg_trace){.events = ctx_array(job->ctx, tg_event, EVENTS), .capacity = EVENTS};
    bool ok = rank_launch_profile(job, TG_PART_ALL, traces) && job->executor->launch(job) &&
              rank_launch_profile(job, TG_PART_ALL, NULL);
    return ok ? traces : NULL;
}

/// Whether anything other than a program copied data.
static bool has_copies(const tg_trace *t) {
    bool copies = false;
    for (size_t i = 0; i < t->n && i < t->capacity; i++)
        copies |= t->events[i].kind == TG_EVENT_COPY;
    return copies;
}

/// Writes a launch's events to a file.
static bool trace_one(Job *job, bool *copies) {
    int ranks = (int)job->ranks;
    tg_trace *traces = trace_here(job);
    if (traces) *copies = has_copies(traces);
    if (!traces || !(traces = rank_launch_traces(job, traces))) return false;
    if (job->silent) return true;
    for (int r = 0; r < ranks; r++)
        if (traces[r].n > EVENTS) {
            cli_hint("rank %d did %zu things, of which %d are in the trace", r, traces[r].n,
                     EVENTS);
            traces[r].n = EVENTS;
        }
    return write_trace(job, traces, ranks);
}

static void report_profile(Job *job, const Times *times, bool copies, bool apart) {
    const Times *all = &times[TG_PART_ALL], *transfers = &times[TG_PART_TRANSFERS];
    const Times *programs = &times[TG_PART_PROGRAMS];
    printf("%s: %s a launch", job_title(job), time_text(job->ctx, all->median));
    if (!copies && !apart) {
        printf("; only programs copy\n");
        return;
    }
    printf("; %sprograms alone %s", copies ? "" : "by plan=before ",
           time_text(job->ctx, programs->median));
    printf(", transfers alone %s", time_text(job->ctx, transfers->median));
    printf(", %s\n", overlap_text(job->ctx, all, transfers, programs));
}

static bool time_parts(Job *job, Times *times) {
    return time_part(job, TG_PART_TRANSFERS, &times[TG_PART_TRANSFERS]) &&
           time_part(job, TG_PART_PROGRAMS, &times[TG_PART_PROGRAMS]);
}

/// Times transfers and programs apart. If the plan's programs access other ranks' memory directly,
/// there are no separate transfers. Then the plan `before` provides both times, if it copies.
/// *found: whether it does.
static bool time_apart(Job *job, Times *times, bool *found) {
    Job before = *job;
    rank_launch_set_plan(&before, PLAN_BEFORE);
    if (!job_elaborate(&before) || !job->executor->compile(&before)) return false;
    job->compiled = before.compiled;
    const tg_trace *trace =
        rank_launch_profile(job, TG_PART_ALL, NULL) && job->executor->launch(job) ? trace_here(job)
                                                                                  : NULL;
    *found = trace && has_copies(trace);
    return trace && (!*found || time_parts(job, times));
}

bool profile_ranks(Job *job) {
    Times times[TG_PART_PROGRAMS + 1];
    bool copies = false, apart = false;
    if (!job->executor->compile(job) || !job_check_overlaps(job) || !job->executor->launch(job))
        return false;
    if (!rank_launch_ranks(job)) {
        cli_error("kernel '%s' does not run on several ranks here", job->kernel->name.text);
        cli_hint("it needs symmetric tensors, and a target that is a CPU or a GPU");
        return false;
    }
    bool ok = time_part(job, TG_PART_ALL, &times[TG_PART_ALL]) && trace_one(job, &copies);
    if (ok) ok = copies ? time_parts(job, times) : time_apart(job, times, &apart);
    if (ok && !job->silent) report_profile(job, times, copies, apart);
    return ok;
}
