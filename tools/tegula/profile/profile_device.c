// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The marks of device code as spans: from one mark of a program, or of a role in it, to the next.
#include "tools/tegula/profile/profile.h"

#include <stdlib.h>
#include <string.h>

/// The text of marks that end the code of a program or role (backends/gpu/lower.h, GPU_MARK_END).
static const char end_text[] = "end";

/// "products 1" of "products 1: loop"; "" without a role. *text: the rest.
static const char *role_of(Ctx *ctx, const tg_site *s, const char **text) {
    const char *colon = strstr(s->text, ": ");
    *text = colon ? colon + 2 : s->text;
    return colon ? ctx_intern(ctx, s->text, (size_t)(colon - s->text)) : ctx_intern(ctx, "", 0);
}

/// A row of spans: a role of a program of one device function.
typedef struct DeviceRow {
    int64_t program;
    const char *role;
    const tg_device_mark *last; // NULL: ended
} DeviceRow;

typedef VEC(DeviceRow) DeviceRows;
typedef VEC(DeviceSpan) DeviceSpans;

/// The rows of one program follow each other at the end of the list.
static int row_of(Ctx *ctx, DeviceRows *rows, int first, int64_t program, const char *role) {
    for (int i = first; i < rows->n; i++)
        if (rows->data[i].role == role) return i;
    DeviceRow row = {.program = program, .role = role};
    vec_push(ctx, rows, row);
    return rows->n - 1;
}

static void end_span(Ctx *ctx, DeviceSpans *spans, const DeviceRow *row, int number, int64_t at) {
    const char *text;
    if (!row->last) return;
    role_of(ctx, row->last->site, &text);
    DeviceSpan s = {.site = row->last->site,
                    .text = text,
                    .role = row->role,
                    .row = number,
                    .program = row->program,
                    .from = row->last->at,
                    .to = at};
    vec_push(ctx, spans, s);
}

/// Marks are in the order of programs, and within a program in that of writing. A mark that starts
/// a program begins new rows.
void profile_device(Profile *p) {
    Ctx *ctx = p->job->ctx;
    const tg_record *r = p->record;
    DeviceRows rows = {0};
    DeviceSpans spans = {0};
    size_t n = r->n_marks < r->mark_capacity ? r->n_marks : r->mark_capacity;
    int first = 0;
    for (size_t i = 0; i < n; i++) {
        const tg_device_mark *m = &r->marks[i];
        const char *text, *role = role_of(ctx, m->site, &text);
        bool starts = strcmp(m->site->text, "program") == 0;
        if (starts || !i || m->program != r->marks[i - 1].program) first = rows.n;
        int number = row_of(ctx, &rows, first, m->program, role);
        DeviceRow *row = &rows.data[number];
        end_span(ctx, &spans, row, number, m->at);
        row->last = strcmp(text, end_text) == 0 ? NULL : m;
        if (!p->device_start || m->at < p->device_start) p->device_start = m->at;
        if (m->at > p->device_end) p->device_end = m->at;
    }
    p->n_spans = spans.n;
    p->spans = spans.data;
    p->n_rows = rows.n;
}

/* ---- sums ---------------------------------------------------------------------------------- */

static int by_falling_time(const void *a, const void *b) {
    double x = ((const DeviceSum *)a)->seconds, y = ((const DeviceSum *)b)->seconds;
    return (x < y) - (x > y);
}

DeviceSum *profile_device_sums(const Profile *p, int *n) {
    DeviceSum *all = ctx_array(p->job->ctx, DeviceSum, p->n_spans + 1);
    bool roles = false;
    *n = 0;
    for (int i = 0; i < p->n_spans; i++) roles |= *p->spans[i].role != 0;
    for (int i = 0; i < p->n_spans; i++) {
        const DeviceSpan *s = &p->spans[i];
        DeviceSum *sum = NULL;
        if (roles && !*s->role) continue; // roles run within it
        for (int k = 0; k < *n && !sum; k++)
            if (all[k].span->site == s->site) sum = &all[k];
        if (!sum) {
            sum = &all[(*n)++];
            *sum = (DeviceSum){.span = s};
        }
        double seconds = (double)(s->to - s->from) * 1e-9;
        sum->seconds += seconds;
        sum->times++;
        if (seconds > sum->slowest) sum->slowest = seconds;
    }
    qsort(all, (size_t)*n, sizeof *all, by_falling_time);
    return all;
}
