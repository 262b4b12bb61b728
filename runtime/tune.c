// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Tuning where there is no compiler: which of an object's variants is the fastest for the arguments
// of a launch. They are raced in this process, on arguments of their own (trial.h), and the
// caller's launch follows.
//
//     TG_TUNE            block: tune before the first launch of new extents; exhaustive: however
//                        long it takes; else launches take what the object says
//     TG_TUNE_BUDGET_MS  of one kernel and its extents; 2000
//     TG_CACHE           the folder where results are kept, or off
//
// What wins is adopted with the extents of the launch as its hints.
#include "runtime/race.h"
#include "runtime/trial.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_VARIANTS = 64, MOST_HINTS = 64, SAMPLES = 64, LOADED = 1, TUNING = 2, GAVE_UP = 4 };
static const double BUDGET = 2, CHECKS = 0.5; // seconds; the part of them that checks may take

/// Seconds; 0: without end; negative: tuning is off.
static double budget(void) {
    const char *mode = getenv("TG_TUNE"), *ms = getenv("TG_TUNE_BUDGET_MS");
    if (mode && strcmp(mode, "exhaustive") == 0) return 0;
    if (!mode || strcmp(mode, "block") != 0) return -1;
    double seconds = ms ? strtod(ms, NULL) / 1000 : BUDGET;
    return seconds > 0 ? seconds : BUDGET;
}

/* ---- arguments ------------------------------------------------------------------------------- */

/// Copies of tensors of integers and bools that are on a device.
typedef struct Contents {
    tg_options hooks;
    const void *of[TG_MAX_PARAMS];
    void *copies[TG_MAX_PARAMS];
    size_t bytes[TG_MAX_PARAMS];
} Contents;

static void contents_close(Contents *c, int n) {
    for (int i = 0; i < n; i++) rt_release(&c->hooks, c->copies[i], c->bytes[i]);
}

static bool contents_open(Contents *c, const rt_launcher *l, int n) {
    c->hooks = l->context->hooks;
    for (int i = 0; i < n; i++) {
        const rt_actual *a = &l->actuals[i];
        if (!a->tensor || rt_is_float(a->code) || a->to == a->from) continue;
        c->of[i] = (const void *)a->from;
        if (l->device < 0) continue;
        c->bytes[i] = a->to - a->from;
        c->of[i] = c->copies[i] = rt_allocate(&c->hooks, c->bytes[i]);
        if (!c->of[i] ||
            !rt_copy_from_device(l->device, l->gpu.stream, a->from, c->bytes[i], c->copies[i]))
            return false;
    }
    return true;
}

/// The extents of all tensors.
static int hints_of(const rt_launcher *l, int n, tg_hint *out) {
    int made = 0;
    for (int i = 0; i < n; i++) {
        const rt_actual *a = &l->actuals[i];
        for (int d = 0; a->tensor && d < a->rank && made < MOST_HINTS; d++)
            out[made++] = (tg_hint){.param = (uint8_t)i,
                                    .axis = (uint8_t)d,
                                    .extent = a->shape[d] > 0 ? a->shape[d] : 1};
    }
    return made;
}

/* ---- the race -------------------------------------------------------------------------------- */

typedef struct Search {
    rt_trial *trial;
    rt_race *race;
    const tg_variant *variants[MOST_VARIANTS];
    int n;
    double began, budget;
} Search;

/// The first one is the reference: where it is not right, nothing can be said of the others.
static bool check_all(Search *s) {
    for (int i = 0; i < s->n; i++) {
        double seconds;
        if (i && s->budget > 0 && rt_seconds() > s->began + s->budget * CHECKS) break;
        if (rt_trial_check(s->trial, s->variants[i], &seconds) == RT_RIGHT)
            rt_race_add(s->race, i, seconds);
        else if (i == 0)
            return false;
    }
    rt_race_close(s->race);
    return true;
}

/// The best one that is right where checks did not look, too.
static int confirmed_winner(Search *s) {
    for (;;) {
        int winner = rt_race_winner(s->race);
        if (winner <= 0 || rt_trial_confirm(s->trial, s->variants[winner]) == RT_RIGHT)
            return winner;
        rt_race_drop(s->race, winner);
    }
}

static int run_race(Search *s) {
    double x[SAMPLES];
    for (;;) {
        rt_race_turn turn = rt_race_step(s->race, rt_seconds());
        if (turn.kind != RT_RACE_MEASURE) return confirmed_winner(s);
        int n = turn.launches < SAMPLES ? turn.launches : SAMPLES;
        if (rt_trial_time(s->trial, s->variants[turn.id], n, x))
            rt_race_drop(s->race, turn.id);
        else
            rt_race_report(s->race, turn.id, x, n, rt_seconds());
    }
}

static void say(const tg_kernel_info *info, const Search *s, int winner) {
    rt_text t = {.n = 0};
    const char *config = s->variants[winner]->config;
    rt_add(&t, "tuned '%s': %s, %.3g us a launch (%.3g us without tuning), %d variants, %.2f s",
           info->name, config && *config ? config : "as it was",
           rt_race_figures_of(s->race, winner).seconds * 1e6,
           rt_race_figures_of(s->race, 0).seconds * 1e6, s->n, rt_seconds() - s->began);
    tg_log(t.data);
}

/// The number of the variant that won, or -1.
static int search(Search *s, const rt_trial_options *o, const tg_options *hooks) {
    size_t bytes = rt_race_bytes(s->n);
    int winner = -1;
    void *memory = rt_allocate(hooks, bytes);
    double deadline = s->budget > 0 ? s->began + s->budget : 0;
    if (memory && rt_trial_open(o, &s->trial) == TG_OK) {
        s->race = rt_race_start(memory, &(rt_race_options){.capacity = s->n, .deadline = deadline});
        if (check_all(s)) winner = run_race(s);
        if (winner >= 0) say(o->info, s, winner);
    }
    rt_trial_close(s->trial);
    rt_release(hooks, memory, bytes);
    return winner;
}

/// One thread tunes a kernel at a time; others take meanwhile what there is. What could not be
/// tuned once is left alone.
static bool tune(tg_kernel *kernel, Search *s, const rt_launcher *l, const tg_arg *args, int n) {
    Contents contents = {0};
    tg_hint hints[MOST_HINTS];
    int winner = -1, n_hints = hints_of(l, n, hints);
    const tg_options *hooks = &l->context->hooks;
    if (contents_open(&contents, l, n)) {
        rt_trial_options o = {.info = kernel->info,
                              .args = args,
                              .n = n,
                              .contents = contents.of,
                              .seed = 1,
                              .flush = 0};
        winner = search(s, &o, hooks);
    }
    contents_close(&contents, n);
    if (winner < 0) return false;
    const tg_variant *v = s->variants[winner];
    if (rt_adopt_tuned(kernel, v, rt_device_hash(l->device, l->context->threads), hints, n_hints))
        return false;
    rt_tune_save(kernel, l->device, l->context->threads, v, hints, n_hints);
    return true;
}

bool rt_tune(tg_kernel *kernel, const rt_launcher *l, const tg_arg *args, int n) {
    Search s = {.began = rt_seconds(), .budget = budget()};
    if (s.budget < 0 || !rt_alternatives(kernel, l, s.variants, MOST_VARIANTS)) return false;
    _Atomic uintptr_t *state = rt_tuner_of(kernel);
    uintptr_t before =
        rt_is_captured(l->device, l->gpu.stream) ? TUNING : atomic_fetch_or(state, TUNING);
    if (before & TUNING) {
        rt_forget(kernel); // a later launch asks again
        return false;
    }
    bool changed = false;
    if (!(before & LOADED)) {
        rt_tune_load(kernel, l->device, l->context->threads);
        atomic_fetch_or(state, LOADED);
        changed = true;
    }
    s.n = before & GAVE_UP ? 0 : rt_alternatives(kernel, l, s.variants, MOST_VARIANTS);
    if (s.n && tune(kernel, &s, l, args, n))
        changed = true;
    else if (s.n)
        atomic_fetch_or(state, GAVE_UP);
    atomic_fetch_and(state, ~(uintptr_t)TUNING);
    return changed;
}
