// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Timing of launches on ranks with GPUs, by driver events around the work on streams.
//
// Events measure times relative to each other on one device. To map them to the host's clock, an
// idle stream gets an event between two readings of the clock. The event passed within this
// interval. Intersecting many intervals leaves little uncertainty about the offset between the
// clocks.
#include "runtime/comm/comm_cuda.h"

#include "runtime/runtime.h"

#include <stdlib.h>
#include <string.h>

enum { LOOKS = 64 };

typedef struct EventSpan {
    cu_event from, to;
    int64_t peer, number;
    int kind;
} EventSpan;

struct rt_timeline {
    cu_event began, ended; // of the last launch
    int64_t held;          // launches that were held back
    bool ran;              // a launch was timed
    cu_event zero;         // of the trace
    int64_t zero_ns, error_ns;
    EventSpan *spans;
    size_t n, capacity;
    cu_result error; // of an event
};

static tg_status failed_event(const char *call, cu_result error) {
    return error ? rt_cuda_fail(call, error, "the profile of a launch") : TG_OK;
}

/* ---- launches that begin together ------------------------------------------------------------ */

static cu_pointer held_word(const rt_cuda_comm *g) {
    cu_pointer words = (cu_pointer)(uintptr_t)g->words + g->stride * (size_t)g->comm->rank;
    return words + offsetof(rt_cuda_words, held);
}

tg_status rt_cuda_hold(rt_cuda_comm *g) {
    uint64_t number = (uint64_t)++g->profile->held;
    cu_result error =
        rt_cuda_driver()->stream_wait_value(g->stream, held_word(g), number, CU_WAIT_AT_LEAST);
    return error ? rt_cuda_fail("cuStreamWaitValue64", error, "the profile of a launch") : TG_OK;
}

tg_status rt_cuda_release(rt_cuda_comm *g) {
    const rt_cuda *cu = rt_cuda_driver();
    if (!g->profile || !g->profile->held) return TG_OK;
    const int64_t *value = &g->profile->held;
    cu_result error = cu->to_device(held_word(g), value, sizeof *value, g->own);
    if (!error) error = cu->stream_synchronize(g->own);
    return error ? rt_cuda_fail("cuMemcpyHtoD", error, "the profile of a launch") : TG_OK;
}

tg_status rt_cuda_stamp(rt_cuda_comm *g, bool ends) {
    rt_timeline *p = g->profile;
    p->ran |= ends;
    g->given = RT_GIVEN_OTHER;
    return failed_event("cuEventRecord",
                        rt_cuda_driver()->event_record(ends ? p->ended : p->began, g->stream));
}

double rt_cuda_seconds(tg_comm *c) {
    rt_cuda_comm *g = c->memory_state;
    const rt_cuda *cu = rt_cuda_driver();
    rt_entered e;
    float ms = 0;
    if (!g->profile || !g->profile->ran || rt_enter(g->device, &e)) return -1;
    cu_result error = cu->event_synchronize(g->profile->ended);
    if (!error) error = cu->event_elapsed(&ms, g->profile->began, g->profile->ended);
    rt_leave(e);
    return error ? -1 : ms * 1e-3;
}

/* ---- records --------------------------------------------------------------------------------- */

/// Makes room for one more span, with its events.
static EventSpan *next_span(rt_timeline *p) {
    const rt_cuda *cu = rt_cuda_driver();
    if (p->n == p->capacity) {
        size_t more = p->capacity ? 2 * p->capacity : 256;
        EventSpan *spans = realloc(p->spans, more * sizeof *spans);
        if (!spans) return NULL;
        memset(spans + p->capacity, 0, (more - p->capacity) * sizeof *spans);
        p->spans = spans;
        p->capacity = more;
    }
    EventSpan *s = &p->spans[p->n];
    if (!s->from && !p->error) p->error = cu->event_create(&s->from, 0);
    if (!s->to && !p->error) p->error = cu->event_create(&s->to, 0);
    return p->error ? NULL : s;
}

static bool is_span_noted(const rt_cuda_comm *g) {
    return g->profile && g->comm->trace && !g->captured;
}

void rt_cuda_note_begin(rt_cuda_comm *g, cu_stream stream) {
    EventSpan *s = is_span_noted(g) ? next_span(g->profile) : NULL;
    if (s && stream == g->stream) g->given = RT_GIVEN_OTHER;
    if (s) g->profile->error = rt_cuda_driver()->event_record(s->from, stream);
}

void rt_cuda_note_end(rt_cuda_comm *g, cu_stream stream, enum tg_event_kind kind, int64_t peer,
                      int64_t number) {
    rt_timeline *p = g->profile;
    if (!is_span_noted(g) || p->n == p->capacity || p->error) return;
    EventSpan *s = &p->spans[p->n];
    if (stream == g->stream) g->given = RT_GIVEN_OTHER;
    p->error = rt_cuda_driver()->event_record(s->to, stream);
    s->kind = kind;
    s->peer = peer;
    s->number = number;
    p->n += !p->error;
}

/// Reads when the event passed, in ns after the trace's zero.
static cu_result read_event(const rt_timeline *p, cu_event event, int64_t *ns) {
    float ms = 0;
    cu_result error = rt_cuda_driver()->event_elapsed(&ms, p->zero, event);
    *ns = (int64_t)((double)ms * 1e6);
    return error;
}

/// Maps the trace's zero to the host's clock.
static cu_result align_clocks(rt_cuda_comm *g) {
    const rt_cuda *cu = rt_cuda_driver();
    rt_timeline *p = g->profile;
    cu_event look = NULL;
    int64_t least = INT64_MIN, most = INT64_MAX, at = 0;
    cu_result error = cu->event_create(&look, 0);
    if (!error) error = cu->event_record(p->zero, g->own);
    if (!error) error = cu->event_synchronize(p->zero);
    for (int i = 0; i < LOOKS && !error; i++) {
        int64_t before = rt_now_ns();
        error = cu->event_record(look, g->own);
        if (!error) error = cu->event_synchronize(look);
        int64_t after = rt_now_ns();
        if (!error) error = read_event(p, look, &at);
        if (before - at > least) least = before - at;
        if (after - at < most) most = after - at;
    }
    if (look) cu->event_destroy(look);
    if (error) return error;
    p->zero_ns = least / 2 + most / 2;
    p->error_ns = most > least ? (most - least) / 2 : (least - most) / 2;
    return 0;
}

/// Turns the spans into events of a trace.
static cu_result collect_spans(rt_cuda_comm *g, tg_trace *t) {
    rt_timeline *p = g->profile;
    cu_result error = p->error ? p->error : rt_cuda_driver()->synchronize();
    p->error = 0; // the next trace may have no failure
    t->error_ns = p->error_ns;
    for (size_t i = 0; i < p->n && !error; i++) {
        const EventSpan *s = &p->spans[i];
        int64_t from = 0, to = 0;
        error = read_event(p, s->from, &from);
        if (!error) error = read_event(p, s->to, &to);
        if (t->n++ >= t->capacity) continue;
        t->events[t->n - 1] = (tg_event){
            .from = p->zero_ns + from,
            .to = p->zero_ns + to,
            .kind = s->kind,
            .thread = s->kind == TG_EVENT_COPY ? (int32_t)s->peer + 1 : 0,
            .peer = s->peer,
            .number = s->number,
        };
    }
    p->n = 0;
    return error;
}

/* ---- from the first to the end --------------------------------------------------------------- */

/// Creates the timeline, unless it is there. On failure there is none.
static tg_status create_timeline(rt_cuda_comm *g) {
    const rt_cuda *cu = rt_cuda_driver();
    if (g->profile) return TG_OK;
    g->profile = calloc(1, sizeof *g->profile);
    if (!g->profile) return tg_fail(TG_ERROR_MEMORY, "out of memory");
    cu_result error = cu->event_create(&g->profile->began, 0);
    if (!error) error = cu->event_create(&g->profile->ended, 0);
    if (!error) error = cu->event_create(&g->profile->zero, 0);
    if (error) rt_cuda_profile_free(g);
    return failed_event("cuEventCreate", error);
}

tg_status rt_cuda_profile(tg_comm *c, tg_trace *before) {
    rt_cuda_comm *g = c->memory_state;
    rt_entered e;
    tg_status status = rt_enter(g->device, &e);
    if (status) return status;
    status = create_timeline(g);
    if (!status && before) status = failed_event("cuEventElapsedTime", collect_spans(g, before));
    if (!status && c->trace) status = failed_event("cuEventRecord", align_clocks(g));
    rt_leave(e);
    return status;
}

void rt_cuda_profile_free(rt_cuda_comm *g) {
    const rt_cuda *cu = rt_cuda_driver();
    rt_timeline *p = g->profile;
    if (!p) return;
    for (size_t i = 0; i < p->capacity; i++) {
        if (p->spans[i].from) cu->event_destroy(p->spans[i].from);
        if (p->spans[i].to) cu->event_destroy(p->spans[i].to);
    }
    cu_event own[] = {p->began, p->ended, p->zero};
    for (int i = 0; i < 3; i++)
        if (own[i]) cu->event_destroy(own[i]);
    free(p->spans);
    free(p);
    g->profile = NULL;
}
