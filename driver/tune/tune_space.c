// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The search space: settings of the tune values, times axes of the target's schedule.
//
//     settings all settings that the kernel allows, ranked by the cost model (rank_settings.c) axes
//     rows of lang/axes.def: the passes' choice and the values that a row lists, for
//                  the settings that the model likes. JOINED axes are tried together; those that
//                  are tried ALONE only for a few settings
//
// The model does not know the effect of every axis. So a candidate that differs from the passes'
// choice in one axis ranks behind its setting, and with two axes further behind. Candidates are
// numbered in this order, independent of measurements, so that every search distinguishes equal
// candidates in the same way.
//
// A sample is drawn from the whole space. It includes combinations of several axes, and axis values
// that the list lacks. If a sample finds a faster setting than the list has, the difference shows
// how much the model loses.
#include "driver/tune/tune.h"

#include "driver/rank_settings.h"
#include "driver/tune/tune_search.h"
#include "driver/tune/tuned_file.h"
#include "passes/model.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    WITH_AXES = 24,   // settings tried with other values of one axis
    WITH_TWO = 4,     // settings tried with two axes
    WITH_LONE = 6,    // settings tried with lone axes
    MAX_LISTED = 500, // limit of candidates
    MAX_VALUES = 8,
    DRAWS = 20, // for each candidate of a sample, since some draws repeat
};

/// An axis of the space, with values besides the passes' choice.
typedef struct Axis {
    AxisId id;
    const char *name;
    int n;
    int64_t values[MAX_VALUES];
    bool factors;  // the values are factors of the passes' choice
    bool lone;     // never combined with other axes
    bool as_tried; // of a sample: the values that are tried
} Axis;

typedef VEC(TuneCandidate) Candidates;

typedef struct Make {
    Ctx *ctx;
    int n_set; // number of pinned values
    const NamedValue *set;
    Build *b;
    RankedSettings settings;
    int standard; // index in the settings
    int n_axes;
    Axis axes[AXIS_COUNT];
    double best; // predicted seconds
    bool sampled;
    uint64_t state; // of a sample's random numbers
    Candidates out;
} Make;

/* ---- texts --------------------------------------------------------------------------------- */

const char *tune_shape(const Build *b) {
    Text t = {.ctx = b->ctx};
    for (int i = 0; i < b->code->n_dims; i++) {
        const DimUse *u = &b->code->dims[i];
        int64_t extent = build_extent(b, u->param, u->axis);
        if (extent >= 0) text_add(&t, "%s%s=%lld", t.n ? " " : "", u->name, (long long)extent);
    }
    return t.data ? t.data : "";
}

static int count_missing(const TuneCandidate *a, const TuneCandidate *b, bool other_values) {
    int n = 0;
    for (int i = 0; i < a->n_set; i++) {
        const NamedValue *v = value_of_name(b->n_set, b->set, a->set[i].name);
        n += !v || (other_values && v->value != a->set[i].value);
    }
    return n;
}

int count_differences(const TuneCandidate *a, const TuneCandidate *b) {
    return count_missing(a, b, true) + count_missing(b, a, false);
}

/* ---- axes ---------------------------------------------------------------------------------- */

static bool is_pinned(const Make *m, const char *name) {
    return value_of_name(m->n_set, m->set, name) != NULL;
}

/// Whether libNVVM is available besides LLVM's generator, and the driver is known to accept its
/// output.
static bool has_two_generators(const Make *m) {
    const Build *b = m->b;
    bool open = !b->codegen && !secure_getenv("TG_CODEGEN") && b->backend == &nvidia_backend;
    return open && b->driver > 0 && nvidia_takes_nvvm(b->driver);
}

static bool has_ranks(const Build *b) {
    for (int i = 0; i < b->inst->kernel->params.n; i++) {
        const Param *p = &b->inst->kernel->params.at[i];
        if (param_is_tensor(p) && p->type->sym) return true;
    }
    return false;
}

/// The columns `tried` and `sampled` of lang/axes.def.
#define COUNT(...)         (sizeof(int64_t[]){__VA_ARGS__} / sizeof(int64_t))
#define VALUES(...)        .n = COUNT(__VA_ARGS__), .values = {__VA_ARGS__}
#define FIELD(name, value) .name = value
#define TRIED(...)         VALUES(__VA_ARGS__)
#define FACTORS(...)       VALUES(__VA_ARGS__), .factors = true
#define NOTHING            FIELD(n, 0)
#define SAMPLED(...)       VALUES(__VA_ARGS__)
#define AS_TRIED           FIELD(as_tried, true)
#define JOINED             false
#define NEVER              false
#define ALONE              true

static const Axis tried_axes[AXIS_COUNT] = {
#define AXIS(ID, axis, takes, model, search, listed, tried, ...)                                   \
    [AXIS_##ID] = {.id = AXIS_##ID, .name = #axis, .lone = search, tried},
#include "lang/axes.def"
};

/// Values that may be useful for any kernel.
static const Axis sampled_axes[AXIS_COUNT] = {
#define AXIS(ID, axis, takes, model, search, listed, tried, sampled, ...)                          \
    [AXIS_##ID] = {.id = AXIS_##ID, .name = #axis, sampled},
#include "lang/axes.def"
};

/// The facts of a kernel and its target that decide whether an axis matters.
typedef struct AxisCase {
    const GpuTarget *gpu;
    bool products, loops, pairs, unaligned, ranks, two_generators;
} AxisCase;

static bool is_listed(AxisId id, const AxisCase *k, int64_t v) {
#define LISTED(x) x
#define AXIS(ID, axis, takes, model, search, listed, ...)                                          \
    if (id == AXIS_##ID) return listed;
#include "lang/axes.def"
    return (void)k, (void)v, false;
}

/// Adds the axes that may matter for the kernel's work.
static void find_axes(Make *m, const GpuNeeds *needs) {
    const AxisCase k = {m->b->gpu,        needs->products, needs->loops,         needs->pairs,
                        needs->unaligned, has_ranks(m->b), has_two_generators(m)};
    for (int id = 0; id < AXIS_COUNT; id++) {
        const Axis *all = &tried_axes[id];
        Axis *a = &m->axes[m->n_axes];
        *a = *all;
        a->n = 0;
        for (int i = 0; i < all->n; i++)
            if (is_listed((AxisId)id, &k, all->values[i])) a->values[a->n++] = all->values[i];
        m->n_axes += a->n > 0 && !is_pinned(m, a->name);
    }
}

/// Returns a number that is equal for orders with the same sequence of tiles. A super-row as high
/// as the grid, or higher, contains all tiles; super-columns as wide as the grid give the plain
/// order.
static double tile_numbering(int64_t order, const GridNeeds *g) {
    if (order > 0) return fmin((double)order, g->rows);
    return (double)-order < g->cols ? (double)order : 1;
}

/// Whether, with this grain, each thread gets a task, or launches are so short that threads do not
/// pay.
static bool keeps_threads(const Make *m, int64_t grain, const RankedSetting *s) {
    double threads = m->b->threads ? m->b->threads : machine_threads();
    double most = fmin(threads, s->grid.programs);
    return s->seconds < TUNE_SHORT || ceil(s->grid.programs / (double)grain) >= most;
}

static bool has_few_programs(const Make *m, const GridNeeds *g) {
    return m->b->gpu || g->programs < FEW_PROGRAMS;
}

/// Whether the value suits the setting.
static bool fits_setting(const Make *m, AxisId id, int64_t v, const RankedSetting *s) {
#define FITS(x) x
#define AXIS(ID, axis, takes, model, search, listed, tried, sampled, fits, ...)                    \
    if (id == AXIS_##ID) return fits;
#include "lang/axes.def"
    return (void)m, (void)v, (void)s, false;
}

/// Returns the effect of an axis value on a grid. Values with the same effect make the same code.
/// 0: no effect that is worth a trial.
static double axis_effect(const Make *m, AxisId id, int64_t v, const GridNeeds *g) {
#define EFFECT(x) (double)(x)
#define AXIS(ID, axis, takes, model, search, listed, tried, sampled, fits, effect, ...)            \
    if (id == AXIS_##ID) return effect;
#include "lang/axes.def"
    return (void)m, (void)g, (double)v;
}

/// Returns the axis value for a setting. 0: no such value, or it has the effect of an earlier one.
static int64_t axis_value_for(const Make *m, const Axis *a, int i, const RankedSetting *s) {
    int64_t v = a->values[i];
    if (a->factors) v = v < 0 ? s->needs.warps / -v : s->needs.warps * v;
    if (!fits_setting(m, a->id, v, s)) return 0;
    if (a->factors) return v;
    const NamedValue *given = value_of_name(s->config.n, s->config.values, a->name);
    double own = axis_effect(m, a->id, v, &s->grid);
    for (int k = 0; k < i; k++)
        if (axis_effect(m, a->id, a->values[k], &s->grid) == own) return 0;
    return own != 0 && !(given && given->value == v) ? v : 0;
}

/* ---- candidates ---------------------------------------------------------------------------- */

/// The model's expectation for a setting with values of axes.
typedef struct Expected {
    double seconds; // negative: none
    GpuNeeds needs;
} Expected;

/// Sets an axis that the GPU model knows; else returns false.
static bool set_gpu_axis(GpuAxes *out, AxisId id, int value) {
#define PRICED(axis)   out->axis = value, true
#define UNPRICED(axis) false
#define AXIS(ID, axis, takes, model, ...)                                                          \
    if (id == AXIS_##ID) return model(axis);
#include "lang/axes.def"
    return false;
}

/// Sets the axes that the GPU model knows from the values. Returns the number of values for axes
/// that it does not know: of the loops that may be split, it knows sums of products alone.
static int read_gpu_axes(const RankedSetting *s, int n, const NamedValue *values, GpuAxes *out) {
    int others = 0;
    for (int i = 0; i < n; i++) {
        AxisId id = axis_by_name(values[i].name);
        bool priced = id != AXIS_SPLIT || s->needs.splits;
        others += !priced || !set_gpu_axis(out, id, (int)values[i].value);
    }
    return others;
}

/// The time of transfers between ranks does not depend on the schedule.
static Expected expected_seconds(const Make *m, const RankedSetting *s, int n,
                                 const NamedValue *more) {
    Expected e = {s->seconds, s->needs};
    GpuAxes axes = s->axes;
    axes.slack = TUNE_SLACK;
    if (s->seconds < 0) return e;
    int others = m->b->gpu ? read_gpu_axes(s, n, more, &axes) : n;
    if (others < n) {
        e.seconds += build_setting_cost(m->b, s, &axes, &e.needs) - s->alone;
    }
    const NamedValue *split = value_of_name(n, more, axis_names[AXIS_SPLIT]);
    bool joins = m->b->gpu && split && split->value > 1 && s->grid.programs > m->b->gpu->sms;
    e.seconds *= pow(TUNE_BEHIND, others) * pow(TUNE_KNOWN, n - others) * (joins ? TUNE_JOINED : 1);
    return e;
}

/// Returns why a candidate is not worth compiling; NULL: it is.
static const char *reason_to_skip(const Make *m, const RankedSetting *s, const Expected *e) {
    const GpuNeeds *n = &e->needs;
    if (s->seconds < 0) return s->why;
    if (n->stage_bytes > n->most_bytes && n->products)
        return ctx_format(m->ctx, "shared memory: %.0f of %.0f bytes for one stage", n->stage_bytes,
                          n->most_bytes);
    if (n->registers > TUNE_SPILLING * n->most_registers)
        return ctx_format(m->ctx, "registers: %.0f of %.0f a thread", n->registers,
                          n->most_registers);
    if (e->seconds > TUNE_HOPELESS * m->best)
        return ctx_format(m->ctx, "the model: %.3g us where %.3g us are expected of another",
                          e->seconds * 1e6, m->best * 1e6);
    return NULL;
}

static void add_candidate(Make *m, const RankedSetting *s, int n_more, const NamedValue *more,
                          bool standard) {
    int n = m->n_set + s->config.n + n_more, at = 0;
    NamedValue *set = ctx_array(m->ctx, NamedValue, n + 1);
    for (int i = 0; i < m->n_set; i++) set[at++] = m->set[i];
    for (int i = 0; i < s->config.n; i++) {
        const char *name = s->config.values[i].name;
        if (!is_pinned(m, name) && !value_of_name(n_more, more, name))
            set[at++] = s->config.values[i];
    }
    for (int i = 0; i < n_more; i++) set[at++] = more[i];
    Expected e = expected_seconds(m, s, n_more, more);
    TuneCandidate c = {.config = settings_text(m->ctx, at, set),
                       .n_set = at,
                       .set = set,
                       .n_axes = n_more,
                       .setting = (int)(s - m->settings.data),
                       .predicted = e.seconds,
                       .why = standard || m->sampled ? NULL : reason_to_skip(m, s, &e),
                       .standard = standard};
    vec_push(m->ctx, &m->out, c);
}

/// Whether the kernel's source restricts the axis.
static bool has_source_value(const RankedSetting *s, const char *name) {
    return value_of_name(s->n_source, s->config.values, name) != NULL;
}

/// Whether the axis has an effect with the plan of transfers between ranks.
static bool goes_with_plan(AxisId id, int64_t plan) {
#define BESIDE(x) x
#define AXIS(ID, axis, takes, model, search, listed, tried, sampled, fits, effect, beside, ...)    \
    if (id == AXIS_##ID) return beside;
#include "lang/axes.def"
    return (void)plan, false;
}

static bool goes_with(const Make *m, const Axis *a, int n, const NamedValue *more) {
    const NamedValue *plan = value_of_name(n, more, axis_names[AXIS_PLAN]);
    if (!plan) plan = value_of_name(m->n_set, m->set, axis_names[AXIS_PLAN]);
    return goes_with_plan(a->id, plan ? plan->value : PLAN_CHOSEN);
}

static void add_with_axes(Make *m, const RankedSetting *s, int depth, int first, NamedValue *more,
                          int n) {
    if (n) add_candidate(m, s, n, more, false);
    if (n == depth) return;
    for (int a = first; a < m->n_axes; a++) {
        const Axis *axis = &m->axes[a];
        if (axis->lone || has_source_value(s, axis->name) || !goes_with(m, axis, n, more)) continue;
        for (int i = 0; i < axis->n; i++) {
            int64_t value = axis_value_for(m, axis, i, s);
            more[n] = (NamedValue){axis->name, value};
            if (value) add_with_axes(m, s, depth, a + 1, more, n + 1);
        }
    }
}

static void add_with_lone_axes(Make *m, const RankedSetting *s) {
    for (int a = 0; a < m->n_axes; a++)
        for (int i = 0;
             i < m->axes[a].n && m->axes[a].lone && !has_source_value(s, m->axes[a].name); i++) {
            NamedValue one = {m->axes[a].name, axis_value_for(m, &m->axes[a], i, s)};
            if (one.value) add_candidate(m, s, 1, &one, false);
        }
}

static int by_model_seconds(const void *a, const void *b) {
    const RankedSetting *x = *(const RankedSetting *const *)a,
                        *y = *(const RankedSetting *const *)b;
    double s = x->seconds < 0 ? INFINITY : x->seconds, t = y->seconds < 0 ? INFINITY : y->seconds;
    if (s != t) return s < t ? -1 : 1;
    return (x > y) - (x < y); // on ties, the order in the source
}

static int by_candidate_rank(const void *a, const void *b) {
    const TuneCandidate *x = a, *y = b;
    if (x->standard != y->standard) return x->standard ? -1 : 1;
    if (!x->why != !y->why) return x->why ? 1 : -1;
    double s = x->predicted < 0 ? INFINITY : x->predicted;
    double t = y->predicted < 0 ? INFINITY : y->predicted;
    if (s != t) return s < t ? -1 : 1;
    return strcmp(x->config, y->config);
}

/// Returns the number of settings with all values of all axes.
static int count_all(const Make *m) {
    double n = fmax(1, m->settings.n);
    for (int a = 0; a < m->n_axes; a++) n *= 1 + m->axes[a].n;
    return (int)fmin(n, 1e9);
}

static void list_candidates(Make *m) {
    int n = m->settings.n;
    const RankedSetting **ranked = ctx_array(m->ctx, const RankedSetting *, n + 1);
    for (int i = 0; i < n; i++) ranked[i] = &m->settings.data[i];
    qsort(ranked, (size_t)n, sizeof *ranked, by_model_seconds);
    m->best = ranked[0]->seconds;
    find_axes(m, &m->settings.data[m->standard].needs);
    NamedValue more[AXIS_COUNT];
    for (int i = 0; i < n; i++) {
        add_candidate(m, ranked[i], 0, NULL, ranked[i] == &m->settings.data[m->standard]);
        if (ranked[i]->seconds < 0 || i >= WITH_AXES) continue;
        add_with_axes(m, ranked[i], i < WITH_TWO ? 2 : 1, 0, more, 0);
        if (i < WITH_LONE) add_with_lone_axes(m, ranked[i]);
    }
    qsort(m->out.data, (size_t)m->out.n, sizeof *m->out.data, by_candidate_rank);
}

/* ---- samples ------------------------------------------------------------------------------- */

static void widen_axes(Make *m) {
    for (int a = 0; a < m->n_axes; a++)
        if (!sampled_axes[m->axes[a].id].as_tried) m->axes[a] = sampled_axes[m->axes[a].id];
}

/// Returns a random number below n (Knuth's MMIX).
static int draw_number(Make *m, int n) {
    m->state = m->state * 6364136223846793005u + 1442695040888963407u;
    return (int)((m->state >> 33) % (uint64_t)n);
}

/// Adds a random setting. Each axis has a chance of one half to be left to the passes. Grains that
/// leave threads idle are skipped: with these, the time depends on the load of the machine.
static void add_drawn(Make *m, const RankedSetting *s) {
    NamedValue more[AXIS_COUNT];
    int n = 0;
    for (int a = 0; a < m->n_axes; a++) {
        const Axis *axis = &m->axes[a];
        int i = draw_number(m, 2 * axis->n);
        if (i >= axis->n || has_source_value(s, axis->name) || !goes_with(m, axis, n, more))
            continue;
        int64_t value = axis->values[i];
        if (fits_setting(m, axis->id, value, s)) more[n++] = (NamedValue){axis->name, value};
    }
    add_candidate(m, s, n, more, false);
}

static bool is_new(const Candidates *all) {
    const char *last = all->data[all->n - 1].config;
    for (int i = 0; i < all->n - 1; i++)
        if (strcmp(all->data[i].config, last) == 0) return false;
    return true;
}

/// Settings take turns in a random order.
static void sample_settings(Make *m) {
    int n = 0;
    const RankedSetting **all = ctx_array(m->ctx, const RankedSetting *, m->settings.n + 1);
    find_axes(m, &m->settings.data[m->standard].needs);
    widen_axes(m);
    add_candidate(m, &m->settings.data[m->standard], 0, NULL, true);
    for (int i = 0; i < m->settings.n; i++) {
        if (m->settings.data[i].seconds < 0) continue;
        int k = draw_number(m, ++n);
        all[n - 1] = all[k];
        all[k] = &m->settings.data[i];
    }
    for (int i = 0; i < DRAWS * MAX_LISTED && m->out.n < MAX_LISTED; i++) {
        add_drawn(m, all[i % n]);
        m->out.n -= !is_new(&m->out);
    }
}

/* ---- the space ----------------------------------------------------------------------------- */

/// Counts the bytes of each argument once, which is the least that a launch must move.
static double argument_bytes(const Request *r) {
    double sum = 0;
    for (int i = 0; i < r->n_args; i++) {
        double n = r->args[i].null ? 0 : r->args[i].bits / 8.0;
        for (int d = 0; d < r->args[i].rank; d++) n *= (double)r->args[i].shape[d];
        if (r->args[i].rank) sum += n;
    }
    return sum;
}

/// seed: for a sample; NULL: lists the candidates that the model likes.
static void make_candidates(Build *b, const uint64_t *seed, TuneSpace *out) {
    Make m = {.ctx = b->ctx, .b = b, .sampled = seed, .state = seed ? *seed : 0};
    RankedSetting pinned = {.seconds = -1}; // no choice is left, or none is listed
    m.standard = build_settings(b, &m.settings);
    m.n_set = b->inst->n_set;
    m.set = b->inst->set;
    if (m.standard < 0) {
        vec_push(b->ctx, &m.settings, pinned);
        add_candidate(&m, m.settings.data, 0, NULL, true);
    } else if (seed) {
        sample_settings(&m);
    } else {
        list_candidates(&m);
    }
    *out = (TuneSpace){.shape = "",
                       .n_all = count_all(&m),
                       .n = m.out.n,
                       .at = m.out.data,
                       .n_settings = m.settings.n,
                       .settings = m.settings.data};
    if (out->n > MAX_LISTED) out->n = MAX_LISTED;
}

void tune_candidates(Build *b, TuneSpace *out) {
    make_candidates(b, NULL, out);
}

/// Computes the work of one launch that every setting must do. Elaborates with the standard
/// setting.
static void measure_demand(Build *b, const Request *r, TuneSpace *out) {
    const TuneCandidate *c = &out->at[0];
    int n_set = b->inst->n_set;
    NamedValue *set = b->inst->set;
    b->inst->set = ctx_copy(b->ctx, c->set, sizeof *c->set * (size_t)(c->n_set + 1));
    b->inst->n_set = c->n_set;
    if (!build_elaborate(b)) return;
    out->shape = tune_shape(b);
    // If tiles decide which work is skipped, settings with the smallest tiles do the least work.
    if (build_products(b) > 0) {
        b->inst->n_set = n_set;
        b->inst->set = set;
        if (!build_smallest(b)) return;
    }
    out->flops = build_products(b);
    out->bytes = argument_bytes(r);
    out->roof = b->gpu ? fmax(out->bytes / b->gpu->bandwidth,
                              out->flops / (2 * b->gpu->unit_cycle * b->gpu->clock * b->gpu->sms))
                       : 0;
}

static bool make_space(Ctx *ctx, const Request *r, const uint64_t *seed, TuneSpace *out) {
    Build b;
    *out = (TuneSpace){.shape = ""};
    if (!request_build(ctx, r, &b) || !build_target(&b)) return false;
    make_candidates(&b, seed, out);
    measure_demand(&b, r, out);
    return !diag_errors(ctx);
}

bool tune_space(Ctx *ctx, const Request *r, TuneSpace *out) {
    return make_space(ctx, r, NULL, out);
}

bool tune_sample(Ctx *ctx, const Request *r, uint64_t seed, TuneSpace *out) {
    return make_space(ctx, r, &seed, out);
}

/// Returns the setting of the values; -1: the kernel does not allow them.
static int setting_index(const TuneSpace *space, int n, const NamedValue *set) {
    for (int i = 0; i < space->n_settings; i++) {
        const RankedSetting *s = &space->settings[i];
        int same = 0;
        for (int k = 0; k < s->n_source; k++) {
            const NamedValue *v = value_of_name(n, set, s->config.values[k].name);
            same += v && v->value == s->config.values[k].value;
        }
        if (same == s->n_source) return i;
    }
    return -1;
}

bool tune_space_add(Ctx *ctx, TuneSpace *space, const char *config) {
    TuneCandidate c = {.config = config, .predicted = -1};
    NamedValue *set;
    if (values_read(ctx, config, &c.n_set, &set)) return false;
    c.set = set;
    c.setting = setting_index(space, c.n_set, set);
    if (c.setting < 0) return false;
    c.n_axes = c.n_set - space->settings[c.setting].n_source;
    TuneCandidate *all = ctx_array(ctx, TuneCandidate, space->n + 1);
    memcpy(all, space->at, sizeof *all * (size_t)space->n);
    all[space->n++] = c;
    space->at = all;
    return true;
}
