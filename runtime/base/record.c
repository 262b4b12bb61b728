// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Records of launches for `tegula profile`: phases, the tasks of each worker, and the time in each
// marked part of the code. Each worker writes only its own record, so recording takes no lock and
// moves no line of the cache between cores.
#include "runtime/runtime.h"

#include <stdlib.h>
#include <string.h>

const tg_site tg_record_others = {.text = "others"};

/* ---- parts --------------------------------------------------------------------------------- */

static void add_span(tg_worker_record *r, const tg_site *site, int64_t from, int64_t to) {
    size_t n = r->n_spans++;
    if (n >= r->capacity) return;
    r->spans[n] = r->now;
    r->spans[n].site = site;
    r->spans[n].from = from;
    r->spans[n].to = to;
}

/// Ends the part that runs.
static void close_part(tg_worker_record *r, int64_t now) {
    if (r->current < 0) return;
    tg_part_time *p = &r->parts[r->current];
    p->ns += now - r->since;
    add_span(r, p->site, r->since, now);
    r->current = -1;
}

/// Finds the part of a site, or adds it. The last part is of all other sites.
static int part_of(tg_worker_record *r, const tg_site *site) {
    for (int i = 0; i < r->n_parts; i++)
        if (r->parts[i].site == site) return i;
    if (r->n_parts == TG_RECORD_PARTS) return TG_RECORD_PARTS - 1;
    if (r->n_parts == TG_RECORD_PARTS - 1) site = &tg_record_others;
    r->parts[r->n_parts] = (tg_part_time){.site = site};
    return r->n_parts++;
}

void rt_record_mark(const tg_env *env, const tg_site *site) {
    tg_worker_record *r = ((rt_worker *)env->user)->record;
    if (!r) return;
    int64_t now = rt_now_ns();
    close_part(r, now);
    r->current = part_of(r, site);
    r->since = now;
    r->parts[r->current].times++;
    if (!r->first) r->first = site;
}

/* ---- phases and tasks ---------------------------------------------------------------------- */

int rt_record_phase(rt_launcher *l, int64_t tasks) {
    tg_record *r = l->record;
    int64_t now = rt_now_ns();
    int phase = r->n_phases++;
    close_part(&r->workers[0], now);
    for (int i = 0; i < r->n_workers; i++) r->workers[i].first = NULL;
    if (phase < TG_RECORD_PHASES) {
        r->phases[phase] = (tg_phase_time){.from = now};
    } else {
        phase = TG_RECORD_PHASES - 1;
        r->phases[phase].site = &tg_record_others;
    }
    r->phase_from = now;
    r->phases[phase].tasks += tasks;
    return phase;
}

void rt_record_phase_end(rt_launcher *l, int phase) {
    tg_record *r = l->record;
    tg_phase_time *p = &r->phases[phase];
    p->to = rt_now_ns();
    p->ns += p->to - r->phase_from;
    p->times++;
    for (int i = 1; i < r->n_workers && !p->site; i++) p->site = r->workers[i].first;
}

int32_t rt_record_task(rt_worker *w, tg_task *task, void *context, int64_t number, int phase) {
    tg_worker_record *r = w->record;
    int64_t from = rt_now_ns();
    r->now = (tg_span){.task = number, .phase = phase};
    int32_t status = task(&w->env, context, number, w->arena);
    int64_t to = rt_now_ns();
    close_part(r, to);
    add_span(r, NULL, from, to);
    r->tasks++;
    r->busy[phase] += to - from;
    return status;
}

void rt_record_device_mark(rt_launcher *l, const tg_site *site, int64_t program, uint64_t at) {
    tg_record *r = l->record;
    if (!r) return;
    size_t n = r->n_marks++;
    if (n < r->mark_capacity) r->marks[n] = (tg_device_mark){site, (int64_t)at, program, 0};
}

/* ---- records ------------------------------------------------------------------------------- */

tg_record *tg_record_create(int threads, size_t spans, size_t marks) {
    int n = threads + 1;
    tg_record *r = calloc(1, sizeof *r);
    if (!r) return NULL;
    r->n_workers = n;
    r->mark_capacity = marks;
    r->workers = calloc((size_t)n, sizeof *r->workers);
    r->marks = calloc(marks + 1, sizeof *r->marks);
    bool ok = r->workers && r->marks;
    for (int i = 0; ok && i < n; i++) {
        r->workers[i].capacity = spans;
        r->workers[i].spans = calloc(spans + 1, sizeof *r->workers[i].spans);
        ok = r->workers[i].spans != NULL;
    }
    if (ok) return r;
    tg_record_destroy(r);
    return NULL;
}

void tg_record_destroy(tg_record *r) {
    if (!r) return;
    for (int i = 0; r->workers && i < r->n_workers; i++) free(r->workers[i].spans);
    free(r->workers);
    free(r->marks);
    free(r);
}

static void attach(rt_launcher *l, tg_record *record) {
    l->record = record;
    for (int i = 0; i <= l->context->threads; i++)
        l->workers[i].record = record && i < record->n_workers ? &record->workers[i] : NULL;
}

static void clear_worker(tg_worker_record *w) {
    w->n_spans = 0;
    w->n_parts = 0;
    w->tasks = 0;
    memset(w->busy, 0, sizeof w->busy);
    w->now = (tg_span){.phase = -1};
    w->current = -1;
    w->first = NULL;
}

void rt_record_begin(rt_launcher *l, tg_record *r) {
    if (!r || atomic_exchange_explicit(&r->taken, true, memory_order_acquire)) return;
    r->n_phases = 0;
    r->n_marks = 0;
    r->marks_lost = false;
    for (int i = 0; i < r->n_workers; i++) clear_worker(&r->workers[i]);
    attach(l, r);
    r->from = rt_now_ns();
}

void rt_record_end(rt_launcher *l) {
    tg_record *r = l->record;
    if (!r) return;
    r->to = rt_now_ns();
    close_part(&r->workers[0], r->to);
    attach(l, NULL);
    atomic_store_explicit(&r->taken, false, memory_order_release);
}
