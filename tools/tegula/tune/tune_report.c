// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Reports of tuning as text and as lines of JSON.
#include <stdlib.h>
#include <string.h>

#include "driver/json.h"
#include "tools/tegula/measure.h"
#include "tools/tegula/tune/tune.h"

/* ---- shared parts of reports --------------------------------------------------------------- */

const char *tune_counts(Ctx *ctx, const TuneResult *r) {
    int n[TUNE_VERDICTS] = {0};
    Text t = {.ctx = ctx};
    text_bytes(&t, "", 0);
    for (int i = 0; i < r->n_trials; i++) n[r->trials[i].verdict]++;
    for (int v = TUNE_VERDICTS - 1; v >= 0; v--)
        if (n[v]) text_add(&t, "%s%d %s", t.n ? ", " : "", n[v], tune_verdict_name(v));
    return t.data;
}

/// Orders the fastest first. Trials without a time follow in the search's order.
static int by_time(const void *a, const void *b) {
    const TuneTrial *x = *(const TuneTrial *const *)a, *y = *(const TuneTrial *const *)b;
    bool mx = x->seconds >= 0, my = y->seconds >= 0;
    if (mx != my) return mx ? -1 : 1;
    if (mx && x->seconds != y->seconds) return x->seconds < y->seconds ? -1 : 1;
    return (x > y) - (x < y);
}

const TuneTrial **tune_sorted(Ctx *ctx, const TuneResult *r, int *n_measured) {
    const TuneTrial **all = ctx_array(ctx, const TuneTrial *, r->n_trials + 1);
    *n_measured = 0;
    for (int i = 0; i < r->n_trials; i++) {
        all[i] = &r->trials[i];
        *n_measured += r->trials[i].seconds >= 0;
    }
    qsort(all, (size_t)r->n_trials, sizeof *all, by_time);
    return all;
}

const char *tune_gain(Ctx *ctx, const TuneResult *r) {
    if (tune_wrong_default(r)) return "where the default is wrong";
    if (!(r->standard > 0) || !(r->seconds > 0)) return "the default has no time";
    double gain = r->standard / r->seconds;
    if (gain < 1.005) return "no faster than the default";
    return ctx_format(ctx, "%.2f times as fast as the default", gain);
}

const char *tune_origin(Ctx *ctx, const TuneTrial *t) {
    if (!t->sibling) return "";
    return ctx_format(ctx, " (sibling: it won on %.*s)", (int)strcspn(t->sibling, ","), t->sibling);
}

/* ---- text ---------------------------------------------------------------------------------- */

static const char *time_or_none(Ctx *ctx, double seconds) {
    return seconds >= 0 ? time_text(ctx, seconds) : "-";
}

/// "118 us +- 0.4 %"; "~ 118 us" for a trial with few launches.
static const char *measured_text(Ctx *ctx, const TuneTrial *t) {
    if (t->seconds <= 0) return "-";
    if (t->high <= t->low) return ctx_format(ctx, "~ %s", time_text(ctx, t->seconds));
    double spread = (t->high - t->low) / 2 / t->seconds * 100;
    return ctx_format(ctx, "%s +- %.2g %%", time_text(ctx, t->seconds), spread);
}

/// An empty setting stands for the passes' own choices.
static const char *config_of(const TuneTrial *t) {
    return *t->config ? t->config : "-";
}

static int longest_config(const TuneTrial *const *trials, int n) {
    int most = (int)strlen("setting");
    for (int i = 0; i < n; i++)
        if ((int)strlen(trials[i]->config) > most) most = (int)strlen(trials[i]->config);
    return most;
}

static void add_trial_rows(Text *t, const TuneTrial *const *trials, int n) {
    int width = longest_config(trials, n);
    text_add(t, "  %-*s  %-20s %-9s result\n", width, "setting", "measured", "model");
    for (int i = 0; i < n; i++) {
        const TuneTrial *x = trials[i];
        text_add(t, "  %-*s  %-20s %-9s %s%s%s%s%s\n", width, config_of(x),
                 measured_text(t->ctx, x), time_or_none(t->ctx, x->predicted),
                 tune_verdict_name(x->verdict), x->why && *x->why ? ": " : "", x->why ? x->why : "",
                 x->standard ? " (the default)" : "", tune_origin(t->ctx, x));
    }
}

/// Whether a user of the kernel or a developer of Tegula may want to examine the result.
static bool ended_badly(const TuneTrial *t) {
    return t->verdict >= TUNE_REFUSED && t->verdict <= TUNE_WRONG;
}

static bool is_any(const TuneTrial *t) {
    (void)t;
    return true;
}

static void describe_tuning(Text *t, const Tuning *tuning, int most,
                            bool (*also)(const TuneTrial *)) {
    const TuneResult *r = &tuning->result;
    Ctx *ctx = t->ctx;
    int n, bad = 0;
    const TuneTrial **trials = tune_sorted(ctx, r, &n);
    text_add(t, "%s on %s\n  best: %s, %s, %s", tuning->title, r->device,
             *r->config ? r->config : "no setting", time_text(ctx, r->seconds), tune_gain(ctx, r));
    if (r->roof > 0 && r->seconds > 0)
        text_add(t, ", %.0f %% of the roof", 100 * r->roof / r->seconds);
    if (r->judged) text_add(t, "\n  results compared %s", r->judged);
    if (tune_wrong_default(r)) text_add(t, "\n  the default is wrong: %s", tune_wrong_default(r));
    if (tuning->known) text_add(t, "\n  found before; --again searches anew");
    if (r->interrupted)
        text_add(t, "\n  interrupted: the best candidate that was measured until then");
    int earlier = 0;
    for (int i = 0; i < r->n_trials; i++) earlier += r->trials[i].earlier;
    text_add(t, "\n  %d of %d settings in %s of %s: %s\n", n, r->n_space, time_text(ctx, r->spent),
             time_text(ctx, r->budget), tune_counts(ctx, r));
    if (earlier) text_add(t, "  %d of them by an earlier search\n", earlier);
    if (r->n_space > r->n_trials)
        text_add(t, "  %d more are not listed: behind the best ones of the model\n",
                 r->n_space - r->n_trials);
    if (n < most) most = n;
    if (most) add_trial_rows(t, trials, most);
    if (most < n) text_add(t, "  ... and %d that took longer\n", n - most);
    const TuneTrial **rest = ctx_array(ctx, const TuneTrial *, r->n_trials + 1);
    for (int i = n; i < r->n_trials; i++)
        if (also(trials[i])) rest[bad++] = trials[i];
    if (bad) add_trial_rows(t, rest, bad);
}

void tune_text(Text *t, const Tuning *tuning, int most) {
    describe_tuning(t, tuning, most, ended_badly);
}

void tune_text_all(Text *t, const Tuning *tuning) {
    describe_tuning(t, tuning, tuning->result.n_trials, is_any);
}

/* ---- lines of JSON ------------------------------------------------------------------------- */

static void add_json_text(Text *t, const char *name, const char *text) {
    text_add(t, "%s\"%s\": ", t->data[t->n - 1] == '{' ? "" : ", ", name);
    json_quote(t, text ? text : "");
}

/// A negative number is unknown: `null`.
static void add_number(Text *t, const char *name, double number) {
    text_add(t, ", \"%s\": ", name);
    if (number < 0)
        text_add(t, "null");
    else
        text_add(t, "%.6g", number);
}

void tune_lines(Text *t, const Tuning *tuning) {
    const TuneResult *r = &tuning->result;
    for (int i = 0; i < r->n_trials; i++) {
        const TuneTrial *x = &r->trials[i];
        text_add(t, "{");
        add_json_text(t, "kernel", tuning->title);
        add_json_text(t, "target", r->target);
        add_json_text(t, "device", r->device);
        add_json_text(t, "shape", r->shape);
        add_json_text(t, "config", x->config);
        text_add(t, ", \"default\": %s", x->standard ? "true" : "false");
        add_json_text(t, "sibling", x->sibling);
        add_json_text(t, "verdict", tune_verdict_name(x->verdict));
        add_json_text(t, "why", x->why);
        add_number(t, "predicted", x->predicted);
        add_number(t, "compiled", x->compiled);
        add_number(t, "seconds", x->seconds);
        add_number(t, "low", x->low);
        add_number(t, "high", x->high);
        text_add(t, ", \"earlier\": %s", x->earlier ? "true" : "false");
        add_number(t, "launches", x->launches);
        add_number(t, "registers", x->registers);
        add_number(t, "spills", x->spills);
        add_number(t, "shared_bytes", x->shared_bytes);
        text_add(t, "}\n");
    }
}
