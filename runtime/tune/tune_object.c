// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Tuning without a compiler: finds the fastest of an object's variants for the arguments of a
// launch. A tournament runs the variants on arguments made for them, in a child process
// (sandbox.h). A variant that crashes or hangs is not used again, in this process and, by a line on
// disk, in later ones.
//
//     TG_TUNE            block: tune before the first launch of new extents; exhaustive: the same
//                        without a time limit; background: later, in a thread of low priority
//                        (background.c); otherwise launches use the object's hints
//     TG_TUNE_BUDGET_MS  time for one kernel and its extents; default 2000
//     TG_TUNE_SHARE      share of the time in the background; default 1 %
//     TG_TUNE_FORK       off: no child processes; a CPU is not tuned, a GPU in this process
//     TG_CACHE           the folder for results, or off
//
// The winner is adopted with the extents of the launch as its hints.
#include "runtime/tune/sandbox.h"
#include "runtime/tune/tournament.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MOST_VARIANTS = 64, MOST_HINTS = 64, LOADED = 1, TUNING = 2, GAVE_UP = 4 };
static const double BUDGET = 2, CHECKS = 0.5; // seconds, and the part for checks
static const double DOUBT = 0.1;              // the margin by which a CPU's default has to lose
static const double REST_TICK = 0.05;         // seconds until a cancelled search notices

typedef enum Mode { OFF, BLOCK, EXHAUSTIVE, BACKGROUND } Mode;

/// Warns once a process.
static void warn_unknown_setting(atomic_flag *said, const char *name, const char *text,
                                 const char *form) {
    char line[200];
    if (atomic_flag_test_and_set(said)) return;
    snprintf(line, sizeof line, "warning: %s: '%.40s' is %s", name, text, form);
    tg_log(line);
}

static Mode mode_now(void) {
    static const char *const names[] = {"off", "block", "exhaustive", "background"};
    static atomic_flag said = ATOMIC_FLAG_INIT;
    const char *mode = secure_getenv("TG_TUNE");
    if (!mode || !*mode || strcmp(mode, "strict") == 0) return OFF; // strict needs a compiler
    for (Mode m = OFF; m <= BACKGROUND; m++)
        if (strcmp(mode, names[m]) == 0) return m;
    warn_unknown_setting(&said, "TG_TUNE", mode,
                         "none of off, block, background, exhaustive, strict");
    return OFF;
}

/// Seconds; 0: no limit.
static double tuning_budget(Mode mode) {
    static atomic_flag said = ATOMIC_FLAG_INIT;
    const char *ms = secure_getenv("TG_TUNE_BUDGET_MS");
    char *end = NULL;
    double seconds = ms && *ms ? strtod(ms, &end) / 1000 : BUDGET;
    if (mode == EXHAUSTIVE) return 0;
    if (end && (end == ms || *end || !(seconds >= 0)))
        warn_unknown_setting(&said, "TG_TUNE_BUDGET_MS", ms, "not a time in milliseconds");
    return seconds > 0 ? seconds : BUDGET;
}

static double tuning_share(void) {
    static atomic_flag said = ATOMIC_FLAG_INIT;
    double part;
    if (!rt_busy_share(&part))
        warn_unknown_setting(&said, "TG_TUNE_SHARE", secure_getenv("TG_TUNE_SHARE"),
                             "not a percentage");
    return part;
}

/* ---- arguments ------------------------------------------------------------------------------- */

/// The contents of integer and bool tensors: the caller's memory, or copies.
typedef struct Contents {
    tg_options hooks;
    const void *of[TG_MAX_PARAMS];
    void *copies[TG_MAX_PARAMS];
    size_t bytes[TG_MAX_PARAMS];
} Contents;

static void contents_close(Contents *c, int n) {
    for (int i = 0; i < n; i++) rt_release(&c->hooks, c->copies[i], c->bytes[i]);
}

/// Bytes 0: not an integer tensor.
static rt_held held_of(const rt_actual *a) {
    rt_held held = {.from = a->from, .bytes = a->to - a->from};
    if (!a->tensor || rt_is_float(a->code) || !held.bytes) return (rt_held){0};
    held.row = rt_held_row(a->rank, a->shape, a->strides, a->bits);
    return held;
}

/// Uses host memory in place. Fails if contents are unavailable.
static tg_status contents_open(Contents *c, const rt_launcher *l, int n) {
    for (int i = 0; i < n; i++) {
        rt_held held = held_of(&l->actuals[i]);
        if (!held.bytes) continue;
        c->bytes[i] = held.bytes;
        c->of[i] = (const void *)held.from;
        if (l->device < 0) continue;
        c->of[i] = c->copies[i] = rt_allocate(&c->hooks, held.bytes);
        if (!c->of[i]) return tg_fail(TG_ERROR_MEMORY, "out of memory");
        tg_status status =
            rt_copy_from_device(l->device, l->gpu.stream, held.from, held.bytes, c->copies[i]);
        if (status) return status;
    }
    return TG_OK;
}

/// The same for a search after the launch.
static rt_samples *take_launch_samples(const rt_launcher *l, int n) {
    rt_held held[TG_MAX_PARAMS];
    for (int i = 0; i < n; i++) held[i] = held_of(&l->actuals[i]);
    return rt_samples_take(l->device, l->gpu.stream, held, n);
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

/* ---- the tournament ------------------------------------------------------------------------- */

typedef struct TuningSearch {
    tg_kernel *kernel;
    const rt_launcher *launcher;
    rt_sandbox *box;
    rt_tournament *tournament;
    const tg_variant *variants[MOST_VARIANTS];
    int n;
    double began, budget;
    bool later;              // a background search: its clock counts only the work of trials
    double share;            // its share of the time
    double worked;           // seconds of work so far
    const atomic_bool *stop; // set to end soon without a winner; or NULL
} TuningSearch;

static bool is_search_stopped(const TuningSearch *s) {
    return s->stop && atomic_load(s->stop);
}

/// On the clock of the search.
static double search_clock(const TuningSearch *s) {
    return s->later ? s->began + s->worked : rt_seconds();
}

/// Records the work of trials and rests accordingly.
static void rest_after_work(TuningSearch *s) {
    if (!s->later) return;
    double worked = rt_sandbox_worked(s->box), busy = worked - s->worked;
    double until = rt_seconds() + rt_rest(busy, s->share), left;
    s->worked = worked;
    while ((left = until - rt_seconds()) > 0 && !is_search_stopped(s)) {
        struct timespec t = {0, (long)(rt_lesser(left, REST_TICK) * 1e9)};
        nanosleep(&t, NULL);
    }
}

/// Drops a variant that failed its check. A variant that crashed or hung is never tried again.
static void drop_variant(TuningSearch *s, int id, rt_verdict verdict) {
    rt_text t = {.n = 0};
    const tg_variant *v = s->variants[id];
    rt_tournament_drop(s->tournament, id);
    if (verdict != RT_CRASHED && verdict != RT_HUNG) return;
    rt_add(&t, "tuning '%s': %s is left out: %s", s->kernel->info->name,
           v->config && *v->config ? v->config : "a variant", rt_sandbox_why(s->box));
    tg_log(t.data);
    rt_exclude(s->kernel, v);
    rt_tune_save(s->kernel, s->launcher->device, s->launcher->context->threads, v, NULL, -1);
}

/// The first variant is the reference. If it is wrong, the others cannot be judged.
static bool check_all(TuningSearch *s) {
    for (int i = 0; i < s->n; i++) {
        double seconds, began = search_clock(s);
        if (i && s->budget > 0 && began > s->began + s->budget * CHECKS) break;
        rt_verdict verdict = rt_sandbox_check(s->box, i, &seconds);
        rest_after_work(s);
        if (verdict == RT_RIGHT)
            rt_tournament_add(s->tournament, i, seconds);
        else if (i > 0)
            drop_variant(s, i, verdict);
        if (rt_sandbox_is_lost(s->box) || is_search_stopped(s) || (i == 0 && verdict != RT_RIGHT))
            return false;
    }
    rt_tournament_close(s->tournament);
    return true;
}

/// The best variant that is right on all elements and, with warm caches, not slower than the
/// default.
static int confirmed_winner(TuningSearch *s) {
    for (;;) {
        double times = 1;
        int winner = rt_tournament_winner(s->tournament);
        if (winner <= 0) return winner;
        rt_verdict verdict = rt_sandbox_confirm(s->box, winner, &times);
        rest_after_work(s);
        if (verdict == RT_RIGHT && times <= 1 + RT_TOURNAMENT_CLOSE) return winner;
        drop_variant(s, winner, verdict);
        if (rt_sandbox_is_lost(s->box)) return -1;
    }
}

static int run_tournament(TuningSearch *s) {
    double x[RT_SANDBOX_LAUNCHES];
    while (!is_search_stopped(s) && !rt_sandbox_is_lost(s->box)) {
        double began = search_clock(s);
        rt_tournament_turn turn = rt_tournament_step(s->tournament, began);
        if (turn.kind != RT_TOURNAMENT_MEASURE) return confirmed_winner(s);
        int n = turn.launches < RT_SANDBOX_LAUNCHES ? turn.launches : RT_SANDBOX_LAUNCHES;
        rt_verdict verdict = rt_sandbox_time(s->box, turn.id, n, x);
        rest_after_work(s);
        if (verdict == RT_RIGHT)
            rt_tournament_report(s->tournament, turn.id, x, n, search_clock(s));
        else
            drop_variant(s, turn.id, verdict);
    }
    return -1;
}

static void say_winner(const TuningSearch *s, int winner) {
    rt_text t = {.n = 0};
    const char *config = s->variants[winner]->config;
    rt_add(&t, "tuned '%s': %s, %.3g us a launch (%.3g us without tuning), %d variants, %.2f s",
           s->kernel->info->name, config && *config ? config : "as it was",
           rt_tournament_seconds(s->tournament, winner) * 1e6,
           rt_tournament_seconds(s->tournament, 0) * 1e6, s->n, search_clock(s) - s->began);
    tg_log(t.data);
}

static void say_why_not(const TuningSearch *s, const char *why) {
    rt_text t = {.n = 0};
    if (is_search_stopped(s)) return;
    rt_add(&t, "'%s' is not tuned: %s", s->kernel->info->name, why);
    tg_log(t.data);
}

/// The number of the winner, or -1.
static int search_variants(TuningSearch *s, const rt_trial_options *trial) {
    const tg_context *c = s->launcher->context;
    size_t bytes = rt_tournament_bytes(s->n);
    int winner = -1;
    void *memory = rt_allocate(&c->hooks, bytes);
    double deadline = s->budget > 0 ? s->began + s->budget : 0;
    rt_sandbox_options o = {.trial = *trial,
                            .variants = s->variants,
                            .n = s->n,
                            .device = s->launcher->device,
                            .threads = c->threads,
                            .deadline = s->later ? 0 : deadline,
                            .stop = s->stop};
    if (memory && rt_sandbox_open(&o, &s->box) == TG_OK) {
        rt_tournament_options tournament = {.capacity = s->n, .deadline = deadline};
        if (o.device < 0) tournament.doubt = DOUBT * s->budget;
        s->tournament = rt_tournament_start(memory, &tournament);
        if (check_all(s)) winner = run_tournament(s);
        if (winner >= 0)
            say_winner(s, winner);
        else
            say_why_not(s, rt_sandbox_why(s->box));
        rt_sandbox_close(s->box);
    } else {
        say_why_not(s, memory ? tg_last_error() : "out of memory");
    }
    rt_release(&c->hooks, memory, bytes);
    return winner;
}

/// Runs a tournament of the variants on arguments like the launcher's. The winner is adopted and
/// kept on disk.
static bool tune_launch(TuningSearch *s, const tg_arg *args, int n, const void *const *contents,
                        const size_t *bytes) {
    tg_hint hints[MOST_HINTS];
    tg_kernel *kernel = s->kernel;
    int device = s->launcher->device, threads = s->launcher->context->threads;
    int n_hints = hints_of(s->launcher, n, hints);
    rt_trial_options o = {.info = kernel->info,
                          .args = args,
                          .n = n,
                          .contents = contents,
                          .content_bytes = bytes,
                          .seed = 1};
    int winner = search_variants(s, &o);
    if (winner < 0) return false;
    const tg_variant *v = s->variants[winner];
    if (rt_adopt_tuned(kernel, v, rt_device_hash(device, threads), hints, n_hints)) return false;
    rt_tune_save(kernel, device, threads, v, hints, n_hints);
    return true;
}

/// A kernel that could not be tuned once is not tried again.
static void give_up_tuning(tg_kernel *kernel) {
    atomic_fetch_or(rt_tuner_of(kernel), GAVE_UP);
}

static bool tune_now(TuningSearch *s, const tg_arg *args, int n) {
    const rt_launcher *l = s->launcher;
    Contents contents = {.hooks = l->context->hooks};
    tg_status status = contents_open(&contents, l, n);
    bool found = !status && tune_launch(s, args, n, contents.of, contents.bytes);
    if (status) say_why_not(s, tg_last_error());
    contents_close(&contents, n);
    if (!found) give_up_tuning(s->kernel);
    return found;
}

/* ---- later ----------------------------------------------------------------------------------- */

/// A launch as its search needs it. Addresses give the alignment and shared views; the memory is
/// not read.
typedef struct QueuedSearch {
    tg_queued_search base;
    tg_options hooks;
    tg_kernel *kernel;
    int threads, n;
    tg_arg args[TG_MAX_PARAMS];
    DLTensor tensors[TG_MAX_PARAMS];
    int64_t dims[TG_MAX_PARAMS][2][TG_MAX_RANK];
    rt_samples *samples;
} QueuedSearch;

static void release_queued_search(tg_queued_search *queued) {
    QueuedSearch *d = (QueuedSearch *)queued;
    tg_options hooks = d->hooks;
    rt_samples_close(d->samples);
    rt_release(&hooks, d, sizeof *d);
}

static void pay_bound(QueuedSearch *d, rt_launcher *l, const atomic_bool *stop) {
    TuningSearch s = {.kernel = d->kernel,
                      .launcher = l,
                      .began = rt_seconds(),
                      .budget = tuning_budget(BACKGROUND),
                      .later = true,
                      .share = tuning_share(),
                      .stop = stop};
    const void *contents[TG_MAX_PARAMS];
    size_t bytes[TG_MAX_PARAMS];
    if (!rt_samples_wait(d->samples) || rt_bind(l, d->kernel->info, d->args, d->n)) return;
    for (int i = 0; i < d->n; i++) contents[i] = rt_samples_of(d->samples, i, &bytes[i]);
    s.n = rt_alternatives(d->kernel, l, s.variants, MOST_VARIANTS);
    if (s.n && !tune_launch(&s, d->args, d->n, contents, bytes) && !is_search_stopped(&s))
        give_up_tuning(d->kernel);
}

/// Runs on its own threads, as many as the launch had, at this thread's priority.
static bool run(tg_queued_search *queued, const atomic_bool *stop) {
    QueuedSearch *d = (QueuedSearch *)queued;
    tg_options options = {.size = sizeof options, .threads = d->threads};
    tg_context *c;
    if (tg_context_create(&options, &c)) return true;
    tg_context *before = tg_context_use(c);
    rt_launcher *l = rt_claim(c);
    if (l) {
        pay_bound(d, l, stop);
        rt_give_back(l);
    }
    tg_context_use(before);
    tg_context_destroy(c);
    return true;
}

static void copy_arguments(QueuedSearch *d, const rt_launcher *l, const tg_arg *args, int n) {
    memcpy(d->args, args, sizeof *args * (size_t)n);
    for (int i = 0; i < n; i++) {
        const rt_actual *a = &l->actuals[i];
        if (args[i].kind != TG_ARG_TENSOR || !args[i].as.tensor) continue;
        rt_copy_tensor(&d->tensors[i], d->dims[i], args[i].as.tensor, a->given_strides);
        d->args[i].as.tensor = &d->tensors[i];
    }
}

static void tune_later(tg_kernel *kernel, const rt_launcher *l, const tg_arg *args, int n) {
    uint64_t hash = rt_mix(rt_hash_arguments(l, kernel->info), (uintptr_t)kernel);
    tg_options hooks = rt_default_hooks(); // the launch's context may be destroyed
    QueuedSearch *d = tg_queue_wanted(hash) ? rt_allocate(&hooks, sizeof *d) : NULL;
    if (!d) return;
    memset(d, 0, sizeof *d);
    d->base = (tg_queued_search){.kernel = kernel,
                                 .owner = kernel,
                                 .hash = hash,
                                 .run = run,
                                 .release = release_queued_search};
    d->hooks = hooks;
    d->kernel = kernel;
    d->threads = l->context->threads;
    d->n = n;
    copy_arguments(d, l, args, n);
    d->samples = take_launch_samples(l, n);
    if (d->samples)
        tg_queue_search(&d->base);
    else
        release_queued_search(&d->base);
}

/* ---- launches -------------------------------------------------------------------------------- */

/// One thread tunes a kernel at a time. Other launches use the current variants.
bool rt_tune(tg_kernel *kernel, const rt_launcher *l, const tg_arg *args, int n) {
    Mode mode = mode_now();
    TuningSearch s = {
        .kernel = kernel, .launcher = l, .began = rt_seconds(), .budget = tuning_budget(mode)};
    if (mode == OFF || !rt_alternatives(kernel, l, s.variants, MOST_VARIANTS)) return false;
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
    if (s.n && mode == BACKGROUND)
        tune_later(kernel, l, args, n);
    else if (s.n)
        changed |= tune_now(&s, args, n);
    atomic_fetch_and(state, ~(uintptr_t)TUNING);
    return changed;
}
