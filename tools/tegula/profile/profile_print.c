// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The tables of `tegula profile` on the terminal.
#include "tools/tegula/profile/profile.h"

#include <inttypes.h>
#include <stdio.h>

static double share_of(double part, double whole) {
    return whole > 0 ? 100 * part / whole : 0;
}

static void print_phases(const Profile *p) {
    Ctx *ctx = p->job->ctx;
    double inside = 0;
    if (!p->n_phases) return;
    printf("time by phase\n");
    for (int i = 0; i < p->n_phases; i++) {
        const ProfilePhase *at = &p->phases[i];
        int workers = at->workers ? at->workers : 1;
        double mean = at->busy / workers;
        inside += at->seconds;
        printf("  %5.1f %%  %9s  %s", share_of(at->seconds, p->marked), time_text(ctx, at->seconds),
               profile_phase_name(p, at->site));
        if (at->times > 1) printf(", %d times", at->times);
        printf(": %" PRId64 " task%s", at->tasks, at->tasks == 1 ? "" : "s");
        if (at->workers) printf(" on %d thread%s", workers, workers == 1 ? "" : "s");
        if (at->workers)
            printf(", busy %.0f %% of the time", share_of(at->busy, at->seconds * workers));
        if (mean > 0 && workers > 1)
            printf(", the slowest %.2f times the mean", at->slowest / mean);
        printf("\n");
    }
    double outside = p->marked - inside;
    printf("  %5.1f %%  %9s  outside of phases\n", share_of(outside, p->marked),
           time_text(ctx, outside > 0 ? outside : 0));
}

static void print_parts(const Profile *p) {
    Ctx *ctx = p->job->ctx;
    double all = 0;
    if (!p->n_parts) return;
    for (int i = 0; i < p->n_parts; i++) all += p->parts[i].seconds;
    printf("time by part of the code, of all threads\n");
    for (int i = 0; i < p->n_parts; i++) {
        const ProfilePart *x = &p->parts[i];
        const char *place = profile_place(p, x->site);
        printf("  %5.1f %%  %9s  %7" PRId64 " x %-9s  %-7s %s\n", share_of(x->seconds, all),
               time_text(ctx, x->seconds), x->times,
               time_text(ctx, x->seconds / (double)(x->times ? x->times : 1)), place,
               x->site->text);
    }
}

static void print_device(const Profile *p) {
    Ctx *ctx = p->job->ctx;
    int n;
    const DeviceSum *sums = profile_device_sums(p, &n);
    double all = 0;
    if (!n) return;
    for (int i = 0; i < n; i++) all += sums[i].seconds;
    printf("time by part of the device code, of all programs; %s from the first mark to the last\n",
           time_text(ctx, (double)(p->device_end - p->device_start) * 1e-9));
    for (int i = 0; i < n; i++) {
        const DeviceSum *x = &sums[i];
        const tg_site *s = x->span->site;
        printf("  %5.1f %%  %9s  %7" PRId64 " x %-9s  at most %-9s  %d:%d %s\n",
               share_of(x->seconds, all), time_text(ctx, x->seconds), x->times,
               time_text(ctx, x->seconds / (double)x->times), time_text(ctx, x->slowest),
               (int)s->line, (int)s->column, s->text);
    }
    if (p->record->n_marks > p->record->mark_capacity || p->record->marks_lost)
        cli_hint("the device's buffer was full: later programs are missing");
}

static bool has_others(const Profile *p) {
    bool some = false;
    for (int i = 0; i < p->n_phases; i++)
        some |= is_same_site(p->phases[i].site, &tg_record_others);
    for (int i = 0; i < p->n_parts; i++) some |= is_same_site(p->parts[i].site, &tg_record_others);
    return some;
}

void profile_print(const Profile *p) {
    Ctx *ctx = p->job->ctx;
    printf("%s: %s a launch (median of %d)", p->title, time_text(ctx, p->times.median),
           p->launches);
    if (p->bytes > 0) printf(", %.3g GB/s", p->bytes / p->times.median * 1e-9);
    if (p->flops > 0) printf(", %.4g GFLOP/s", p->flops / p->times.median * 1e-9);
    printf("%s%s\n", *p->config ? "; " : "", p->config);
    double longer = p->marked - p->times.median;
    printf("recorded launch: %s", time_text(ctx, p->marked));
    if (longer > 0) printf(", %.0f %% longer", share_of(longer, p->times.median));
    printf("\n");
    const double slow = 1.5;
    if (p->marked > slow * p->times.median && !is_simulated(p->job->build.target))
        cli_hint("the recorded launch is much longer than others: parts may be too long, because "
                 "of the marks or of other work on the machine");
    if (p->counters)
        printf("hardware counters: %s\n", counters_text(ctx, p->counts, p->launches, p->bytes));
    print_phases(p);
    print_parts(p);
    print_device(p);
    if (has_others(p))
        cli_hint("`others` are later phases or parts: a record has room for %d of each",
                 (int)TG_RECORD_PHASES);
}
