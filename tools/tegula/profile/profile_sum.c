// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Sums the record of a launch by part of the code and by phase.
#include "tools/tegula/profile/profile.h"

#include <stdlib.h>
#include <string.h>

static const char *file_of(const tg_site *s) {
    return s->file ? s->file : "";
}

bool is_same_site(const tg_site *a, const tg_site *b) {
    if (a == b) return true;
    return a && b && a->line == b->line && a->column == b->column &&
           strcmp(a->text, b->text) == 0 && strcmp(file_of(a), file_of(b)) == 0;
}

static void add_part(Profile *p, const tg_part_time *t) {
    ProfilePart *part = NULL;
    for (int i = 0; i < p->n_parts && !part; i++)
        if (is_same_site(p->parts[i].site, t->site)) part = &p->parts[i];
    if (!part) {
        part = &p->parts[p->n_parts++];
        *part = (ProfilePart){.site = t->site};
    }
    part->seconds += (double)t->ns * 1e-9;
    part->times += t->times;
}

static int by_falling_seconds(const void *a, const void *b) {
    double x = ((const ProfilePart *)a)->seconds, y = ((const ProfilePart *)b)->seconds;
    return (x < y) - (x > y);
}

static void sum_parts(Profile *p) {
    const tg_record *r = p->record;
    int n = 0;
    for (int w = 0; w < r->n_workers; w++) n += r->workers[w].n_parts;
    p->parts = ctx_array(p->job->ctx, ProfilePart, n + 1);
    for (int w = 0; w < r->n_workers; w++)
        for (int i = 0; i < r->workers[w].n_parts; i++) add_part(p, &r->workers[w].parts[i]);
    qsort(p->parts, (size_t)p->n_parts, sizeof *p->parts, by_falling_seconds);
}

static int kept_phases(const tg_record *r) {
    return r->n_phases < TG_RECORD_PHASES ? r->n_phases : TG_RECORD_PHASES;
}

static ProfilePhase *phase_of(Profile *p, const tg_site *site) {
    for (int i = 0; i < p->n_phases; i++)
        if (is_same_site(p->phases[i].site, site)) return &p->phases[i];
    ProfilePhase *at = &p->phases[p->n_phases++];
    *at = (ProfilePhase){.site = site};
    return at;
}

/// Adds the tasks of one worker to the phases.
static void add_worker(Profile *p, const tg_worker_record *w, double *busy) {
    const tg_record *r = p->record;
    int n = kept_phases(r);
    memset(busy, 0, sizeof *busy * (size_t)(p->n_phases + 1));
    for (int i = 0; i < n; i++)
        busy[phase_of(p, r->phases[i].site) - p->phases] += (double)w->busy[i] * 1e-9;
    for (int i = 0; i < p->n_phases; i++) {
        ProfilePhase *at = &p->phases[i];
        at->busy += busy[i];
        at->workers += busy[i] > 0;
        if (busy[i] > at->slowest) at->slowest = busy[i];
    }
}

static void sum_phases(Profile *p) {
    const tg_record *r = p->record;
    int n = kept_phases(r);
    p->phases = ctx_array(p->job->ctx, ProfilePhase, n + 1);
    for (int i = 0; i < n; i++) {
        const tg_phase_time *t = &r->phases[i];
        ProfilePhase *at = phase_of(p, t->site);
        at->seconds += (double)t->ns * 1e-9;
        at->tasks += t->tasks;
        at->times += (int)t->times;
    }
    double *busy = ctx_array(p->job->ctx, double, n + 1);
    for (int w = 1; w < r->n_workers; w++) add_worker(p, &r->workers[w], busy);
}

void profile_sum(Profile *p) {
    sum_parts(p);
    sum_phases(p);
    profile_device(p);
}

const char *profile_place(const Profile *p, const tg_site *s) {
    Ctx *ctx = p->job->ctx;
    const char *own = ctx_source_path(ctx, p->job->kernel->loc.file);
    if (!s->line) return "";
    if (!s->file || strcmp(s->file, own) == 0)
        return ctx_format(ctx, "%d:%d", (int)s->line, (int)s->column);
    const char *slash = strrchr(s->file, '/');
    return ctx_format(ctx, "%s:%d:%d", slash ? slash + 1 : s->file, (int)s->line, (int)s->column);
}

const char *profile_phase_name(const Profile *p, const tg_site *site) {
    if (!site) return "programs";
    if (!site->line) return site->text;
    return ctx_format(p->job->ctx, "%s (line %d)", site->text, (int)site->line);
}
