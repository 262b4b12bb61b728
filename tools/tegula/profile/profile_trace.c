// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The record of a launch as trace events in JSON, which ui.perfetto.dev and chrome://tracing show.
// A thread is a worker; a span is a phase, a task, or a part of the code within a task. Times are
// in microseconds from the start of the launch.
#include "driver/json.h"
#include "tools/tegula/profile/profile.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static double micros(const tg_record *r, int64_t at) {
    return (double)(at - r->from) * 1e-3;
}

static void name_thread(Text *t, int pid, int64_t tid, const char *name) {
    text_add(t,
             ",\n{\"ph\": \"M\", \"pid\": %d, \"tid\": %" PRId64
             ", \"name\": \"thread_name\", \"args\": {\"name\": ",
             pid, tid);
    json_quote(t, name);
    text_add(t, "}}");
}

static void add_span(Text *t, int pid, int tid, const char *name, double at, double length) {
    text_add(t,
             ",\n{\"ph\": \"X\", \"pid\": %d, \"tid\": %d, \"ts\": %.3f, \"dur\": %.3f, \"name\": ",
             pid, tid, at, length);
    json_quote(t, name);
}

static void add_phases(Text *t, const Profile *p) {
    const tg_record *r = p->record;
    for (int i = 0; i < r->n_phases && i < TG_RECORD_PHASES; i++) {
        const tg_phase_time *x = &r->phases[i];
        add_span(t, 0, 0, profile_phase_name(p, x->site), micros(r, x->from),
                 (double)(x->to - x->from) * 1e-3);
        text_add(t, ", \"args\": {\"tasks\": %" PRId64 "}}", x->tasks);
    }
}

/// A part's name is its line and the first words of its description.
static const char *part_name(Ctx *ctx, const tg_site *s) {
    return ctx_format(ctx, "%d:%d %.*s", (int)s->line, (int)s->column, (int)strcspn(s->text, ",;"),
                      s->text);
}

static void add_worker(Text *t, const Profile *p, int number) {
    const tg_record *r = p->record;
    const tg_worker_record *w = &r->workers[number];
    for (size_t i = 0; i < w->n_spans && i < w->capacity; i++) {
        const tg_span *s = &w->spans[i];
        const char *name = s->site ? part_name(t->ctx, s->site) : "task";
        add_span(t, 0, number, name, micros(r, s->from), (double)(s->to - s->from) * 1e-3);
        text_add(t, ", \"args\": {\"task\": %" PRId64, s->task);
        if (s->site) {
            text_add(t, ", \"code\": ");
            json_quote(t, s->site->text);
        }
        text_add(t, "}}");
    }
}

/// Adds a process for the device, with a thread for each role of each program. Its time starts with
/// the first mark.
static void add_device(Text *t, const Profile *p) {
    bool *named = ctx_array(t->ctx, bool, p->n_rows + 1);
    if (!p->n_spans) return;
    text_add(t, ",\n{\"ph\": \"M\", \"pid\": 1, \"name\": \"process_name\", \"args\": {\"name\": "
                "\"device\"}}");
    for (int i = 0; i < p->n_spans; i++) {
        const DeviceSpan *s = &p->spans[i];
        if (!named[s->row])
            name_thread(t, 1, s->row,
                        ctx_format(t->ctx, "program %" PRId64 "%s%s", s->program,
                                   *s->role ? ", " : "", s->role));
        named[s->row] = true;
        add_span(t, 1, s->row,
                 ctx_format(t->ctx, "%d:%d %s", (int)s->site->line, (int)s->site->column, s->text),
                 (double)(s->from - p->device_start) * 1e-3, (double)(s->to - s->from) * 1e-3);
        text_add(t, ", \"args\": {\"program\": %" PRId64 "}}", s->program);
    }
}

/// Says how much did not fit. Returns the number of events.
static size_t count_events(const Profile *p) {
    const tg_record *r = p->record;
    size_t events = (size_t)r->n_phases + (size_t)p->n_spans, lost = 0;
    for (int w = 0; w < r->n_workers; w++) {
        const tg_worker_record *x = &r->workers[w];
        size_t kept = x->n_spans < x->capacity ? x->n_spans : x->capacity;
        events += kept;
        lost += x->n_spans - kept;
    }
    if (lost) cli_hint("the trace lacks %zu later events of threads with many tasks", lost);
    return events;
}

bool profile_write_trace(const Profile *p, const char *path) {
    Ctx *ctx = p->job->ctx;
    Text t = {.ctx = ctx};
    text_add(&t, "{\"displayTimeUnit\": \"ns\", \"traceEvents\": [\n{\"ph\": \"M\", \"pid\": 0, "
                 "\"name\": \"process_name\", \"args\": {\"name\": ");
    json_quote(&t, p->title);
    text_add(&t, "}}");
    name_thread(&t, 0, 0, "launch");
    for (int w = 1; w < p->record->n_workers; w++)
        if (p->record->workers[w].n_spans) name_thread(&t, 0, w, ctx_format(ctx, "thread %d", w));
    add_phases(&t, p);
    for (int w = 0; w < p->record->n_workers; w++) add_worker(&t, p, w);
    add_device(&t, p);
    text_add(&t, "\n]}\n");
    size_t events = count_events(p);
    if (!file_write(ctx, path, t.data, (size_t)t.n)) return false;
    printf("%s: one launch, %zu events; ui.perfetto.dev shows it\n", path, events);
    return true;
}
