// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Ranks the settings of a kernel's tune values, and of the schedule axes that it narrows, by the
// cost model for the given arguments. The first one is the default.
#include <math.h>
#include <string.h>

#include "driver/rank_settings.h"
#include "passes/model.h"
#include "runtime/tegula.h"

// Elaborating a setting takes a fraction of a millisecond. Of more than MAX_TRIED settings, only
// those are tried that differ from the best one so far in one value. This repeats for ROUNDS
// rounds.
enum { MAX_SETTINGS = 1024, MAX_TRIED = 128, ROUNDS = 4, MAX_SPLIT = 16 };

/// The cost estimate of one setting. It is elaborated inside ctx_protect, because a setting that
/// does not elaborate is not an error but only drops out.
typedef struct Trial {
    Build *build;
    RankedSetting *setting;
} Trial;

static int64_t dim_of(void *user, int argument, int axis) {
    const Build *b = user;
    int param;
    if (argument >= build_arguments(b)) return -1;
    build_argument(b, argument, &param);
    return build_extent(b, param, axis);
}

/// Whether the extents of all tensors are known.
static bool has_extents(Build *b) {
    int param;
    for (int i = 0; i < build_arguments(b); i++) {
        const ParamUse *use = build_argument(b, i, &param);
        for (int axis = 0; use->kind == PARAM_TENSOR && axis < use->rank; axis++)
            if (dim_of(b, i, axis) < 0) return false;
    }
    return true;
}

/// Describes the device and its peaks from data sheets.
static void describe_peaks(Text *out, const GpuTarget *t) {
    const char *unit = gpu_has_any(t, GPU_AMD) ? "compute units" : "SMs";
    double cycles = 2e-12 * t->sms * t->clock;
    text_add(out,
             "  assumed of %s: %d %s at %.2f GHz, %.4g TFLOP/s of 16-bit products, %.3g of f32, "
             "%.4g GB/s\n",
             t->name, t->sms, unit, t->clock * 1e-9, cycles * t->unit_cycle, cycles * t->fma_cycle,
             t->bandwidth * 1e-9);
}

/// Returns a value of the compiled setting; 0: not set.
static int configured_value(const Build *b, AxisId id) {
    const NamedValue *v = value_of_name(b->code->n_config, b->code->config, axis_names[id]);
    return v ? (int)v->value : 0;
}

/// Compares copies of unaligned operands into aligned rows with none.
static void describe_alignment(Build *b, Text *out, const Op *kernel, GpuAxes axes) {
    GpuNeeds needs;
    axes.align_rows = -1;
    double without = gpu_cost_estimate(kernel, b->gpu, dim_of, b, &axes, &needs);
    if (!needs.unaligned) return;
    axes.align_rows = 1;
    double with = gpu_cost_estimate(kernel, b->gpu, dim_of, b, &axes, &needs);
    text_add(
        out,
        "  rows of operands are not aligned: %.3g us if they are first copied into aligned rows "
        "(align_rows=1, %.3g MB of workspace), %.3g us otherwise\n",
        with * 1e6, needs.aligned_bytes * 1e-6, without * 1e6);
    if (needs.aligned_most > (double)TG_WORKSPACE_LIMIT)
        text_add(out,
                 "  they are not copied: the copies of one phase, %.3g MB, exceed the limit of "
                 "workspaces, %.3g MB\n",
                 needs.aligned_most * 1e-6, (double)TG_WORKSPACE_LIMIT * 1e-6);
    else if (needs.unsure)
        text_add(out, "  they are not copied by default: loaded numbers decide how much of them is "
                      "read\n");
}

void build_describe_cost(Build *b, Text *out) {
    const Op *kernel = find_kernel(b->code->module, b->code->name);
    if (!b->gpu) return;
    if (!has_extents(b)) {
        text_add(out, "  dims are not known: --arg gives tensors that have them\n");
        return;
    }
    GpuAxes axes = {.warps = configured_value(b, AXIS_WARPS),
                    .stages = configured_value(b, AXIS_STAGES),
                    .persistent = configured_value(b, AXIS_PERSISTENT),
                    .cluster = configured_value(b, AXIS_CLUSTER),
                    .split = configured_value(b, AXIS_SPLIT),
                    .align_rows = configured_value(b, AXIS_ALIGN_ROWS),
                    .roles =
                        configured_value(b, AXIS_ROLES) > 0 && configured_value(b, AXIS_SKEW) > 0};
    gpu_cost_describe(out, kernel, b->gpu, dim_of, b, &axes);
    describe_alignment(b, out, kernel, axes);
    describe_peaks(out, b->gpu);
}

double build_cost(Build *b) {
    const Op *kernel = find_kernel(b->code->module, b->code->name);
    return b->gpu ? gpu_cost_estimate(kernel, b->gpu, dim_of, b, NULL, NULL) : 0;
}

/* ---- transfers between ranks --------------------------------------------------------------- */

static int pinned_value(const Build *b, AxisId id) {
    const NamedValue *v = value_of_name(b->inst->n_set, b->inst->set, axis_names[id]);
    return v ? (int)v->value : 0;
}

static Machine machine_of_build(const Build *b, int threads) {
    return (Machine){threads, b->info.l1_bytes, b->info.l2_bytes, b->info.vector_bytes};
}

/// By default, the ranks of one host share its cores.
static int threads_of_rank(Build *b, const Op *kernel) {
    const Attr *sym = op_ints(kernel, A_SYMMETRIC_PARAMS);
    int64_t ranks = dim_of(b, (int)sym->ints[0], 0);
    if (b->threads) return b->threads;
    int threads = machine_threads() / (int)(ranks > 0 ? ranks : 1);
    return threads > 0 ? threads : 1;
}

bool build_launch(Build *b, CommLaunch *out) {
    Op *kernel = find_kernel(b->code->module, b->code->name);
    CostDims dims = {.dim_of = dim_of, .user = b};
    if (!op_ints(kernel, A_SYMMETRIC_PARAMS)) return false;
    Machine machine = machine_of_build(b, threads_of_rank(b, kernel));
    comm_launch(b->ir, kernel, b->gpu, &machine, &dims, out);
    return true;
}

/// Prices the open plans. CPUs have no choice: plans that copy nothing are fastest there.
static int open_prices(Build *b, CommPrice out[COMM_PRICES]) {
    CommLaunch launch;
    if (!b->gpu || !build_launch(b, &launch)) return 0;
    return comm_prices(&launch, pinned_value(b, AXIS_PLAN), pinned_value(b, AXIS_CHUNKS), out);
}

/// Returns the launch's seconds with the plan that would be chosen.
static double with_transfers(Build *b, double seconds) {
    CommPrice prices[COMM_PRICES];
    const CommPrice *best = comm_best(prices, open_prices(b, prices));
    return best && !best->why ? best->seconds : seconds;
}

/// Adds one value to a copy of the set values.
static void set_value(Build *b, AxisId id, int value) {
    Inst *inst = b->inst;
    NamedValue *set = ctx_array(b->ctx, NamedValue, inst->n_set + 1);
    if (inst->n_set) memcpy(set, inst->set, sizeof *set * (size_t)inst->n_set);
    set[inst->n_set++] = (NamedValue){axis_names[id], value};
    inst->set = set;
}

bool build_choose_plan(Build *b) {
    CommPrice prices[COMM_PRICES];
    int n = open_prices(b, prices);
    const CommPrice *best = comm_best(prices, n);
    if (!best || (n == 1 && best->plan == PLAN_DIRECT)) return false; // no choice
    bool plan = !pinned_value(b, AXIS_PLAN), chunks = best->chunks && !pinned_value(b, AXIS_CHUNKS);
    if (plan) set_value(b, AXIS_PLAN, best->plan);
    if (chunks) set_value(b, AXIS_CHUNKS, best->chunks);
    if (b->n_settings < 2) b->n_settings = 2; // makes hints record the extents
    return plan || chunks;
}

/* ---- settings ------------------------------------------------------------------------------ */

/// Programs of a pair wait for each other, and pairs were measured only in kernels whose programs
/// run tile after tile. So the model must predict a gain above its uncertainty.
static double estimate_pairs(Build *b, const Op *kernel, RankedSetting *s, double alone) {
    const GpuAxes pairs = {.cluster = GPU_PAIR, .align_rows = s->axes.align_rows};
    GpuNeeds needs;
    if (!s->needs.pairs || !s->needs.lasts) return alone;
    if (pinned_value(b, AXIS_CLUSTER) || pinned_value(b, AXIS_PERSISTENT) < 0 ||
        pinned_value(b, AXIS_ORDER) < 0)
        return alone;
    double together = gpu_cost_estimate(kernel, b->gpu, dim_of, b, &pairs, &needs);
    if (together >= RANK_PAIRS_WORTH * alone) return alone;
    s->axes = pairs;
    s->needs = needs;
    return together;
}

/// Whether neither source nor caller says how a CTA's warps share the work.
static bool roles_are_open(const Build *b) {
    static const AxisId axes[] = {AXIS_ROLES, AXIS_SKEW, AXIS_WARPS, AXIS_STAGES, AXIS_CLUSTER};
    for (size_t i = 0; i < sizeof axes / sizeof *axes; i++)
        if (value_of_name(b->code->n_config, b->code->config, axis_names[axes[i]])) return false;
    return true;
}

/// Estimates a producer warp for copies with skewed products, with one tile a CTA or tile after
/// tile.
static double estimate_roles(Build *b, const Op *kernel, RankedSetting *s, double alone) {
    const NamedValue *persistent =
        value_of_name(b->code->n_config, b->code->config, axis_names[AXIS_PERSISTENT]);
    double least = alone;
    if (!s->needs.roles || !roles_are_open(b)) return alone;
    for (int persists = 0; persists <= 1; persists++) {
        GpuAxes axes = {.roles = true, .persistent = persists, .align_rows = s->axes.align_rows};
        GpuNeeds needs;
        if (persistent && (persistent->value > 0) != persists) continue;
        double seconds = gpu_cost_estimate(kernel, b->gpu, dim_of, b, &axes, &needs);
        if (seconds >= least) continue;
        least = seconds;
        s->axes = axes;
        s->needs = needs;
    }
    return least;
}

/// Estimates parts of a loop of products, for one to SPLIT_WAVES waves of programs. A second phase
/// joins the parts, so the model must predict a gain above its uncertainty. (H200: for one program
/// on each of 64 or 128 SMs it predicts 1.5 to 2.5 times the measured time.)
static double estimate_splits(Build *b, const Op *kernel, RankedSetting *s, double alone) {
    double programs = fmax(1, s->grid.programs), turns = s->grid.turns, least = SPLIT_WORTH * alone;
    bool open = !value_of_name(b->code->n_config, b->code->config, axis_names[AXIS_SPLIT]) &&
                pinned_value(b, AXIS_CLUSTER) <= 1 && pinned_value(b, AXIS_PERSISTENT) <= 0;
    if (!s->needs.splits || !open || s->axes.cluster || s->axes.roles) return alone;
    int64_t before = 1;
    for (int waves = 1; waves <= SPLIT_WAVES; waves++) {
        double wanted = fmin(floor(b->gpu->sms * waves / programs), SPLIT_MOST);
        wanted = fmin(wanted, floor(turns / SPLIT_MIN_TRIPS));
        if (wanted < 2) continue;
        int64_t ways = (int64_t)ceil(turns / ceil(turns / wanted)); // no part is empty
        if (ways == before) continue;
        before = ways;
        GpuAxes axes = {.split = (int)ways, .align_rows = s->axes.align_rows};
        GpuNeeds needs;
        double seconds = gpu_cost_estimate(kernel, b->gpu, dim_of, b, &axes, &needs);
        if (!(seconds < least)) continue;
        least = seconds;
        s->axes = axes;
        s->needs = needs;
        s->grid.splits = true;
    }
    return s->axes.split ? least : alone;
}

/// Estimates copies of unaligned operands into aligned rows. They make launches longer that read
/// an operand only a few times, so the model must predict a gain. Copies beyond the limit of
/// workspaces are never made. Where loaded numbers decide how much of an operand is read, as with a
/// cache that is partly full, only the user can know that copies pay.
static double estimate_aligned(Build *b, const Op *kernel, RankedSetting *s, double alone) {
    const NamedValue *set =
        value_of_name(b->code->n_config, b->code->config, axis_names[AXIS_ALIGN_ROWS]);
    const GpuAxes axes = {.align_rows = 1};
    GpuNeeds needs;
    if (!s->needs.unaligned || (set && set->value <= 0)) return alone;
    double aligned = gpu_cost_estimate(kernel, b->gpu, dim_of, b, &axes, &needs);
    if (needs.aligned_most > (double)TG_WORKSPACE_LIMIT) return alone;
    if (!set && (needs.unsure || aligned >= ALIGN_ROWS_WORTH * alone)) return alone;
    s->axes = axes;
    s->needs = needs;
    return aligned;
}

static double gpu_estimate(Build *b, const Op *kernel, RankedSetting *s) {
    double alone = gpu_cost_estimate(kernel, b->gpu, dim_of, b, NULL, &s->needs);
    s->axes = (GpuAxes){0};
    alone = estimate_aligned(b, kernel, s, alone);
    double seconds = estimate_roles(b, kernel, s, estimate_pairs(b, kernel, s, alone));
    return estimate_splits(b, kernel, s, seconds);
}

static void estimate_trial(Ctx *ctx, void *arg) {
    Trial *t = arg;
    Build *b = t->build;
    b->ir = ir_create(ctx);
    b->code = fe_elaborate(b->ir, b->program, b->inst);
    if (!b->code || !b->code->module) return;
    const Op *kernel = find_kernel(b->code->module, b->code->name);
    t->setting->code = b->code;
    t->setting->grid = cost_grid(kernel, dim_of, b);
    if (b->gpu) {
        double seconds = gpu_estimate(b, kernel, t->setting);
        t->setting->alone = seconds;
        t->setting->seconds = with_transfers(b, seconds);
        return;
    }
    Machine machine = machine_of_build(b, b->threads ? b->threads : machine_threads());
    t->setting->seconds = cost_estimate(kernel, &machine, dim_of, b);
    t->setting->needs.products = cost_products(kernel, dim_of, b) > 0;
}

/// Sets the pinned values, and then the setting's values for the rest.
static void apply_setting(Build *b, int n, const NamedValue *set, const Config *c) {
    Inst *inst = b->inst;
    inst->set = ctx_array(b->ctx, NamedValue, n + c->n + 1);
    inst->n_set = n;
    if (n) memcpy(inst->set, set, sizeof *set * (size_t)n);
    for (int i = 0; i < c->n; i++)
        if (!value_of_name(n, set, c->values[i].name)) inst->set[inst->n_set++] = c->values[i];
}

typedef struct SettingSearch {
    Build *build;
    int n_set;
    const NamedValue *set; // pinned
    RankedSettings *open;  // in the order of the source
    int best;
} SettingSearch;

/// Returns the first error of elaboration, in one line.
static const char *first_message(Ctx *ctx, DiagMark mark) {
    for (const Diagnostic *d = mark.last ? mark.last->next : diag_first(ctx); d; d = d->next)
        if (d->severity == SEV_ERROR) return ctx_format(ctx, "%s", d->text);
    return "it cannot be elaborated";
}

/// Adds the model's choice for the schedule to the setting.
static void pin_schedule_value(Ctx *ctx, Config *c, AxisId id, int64_t value) {
    NamedValue *values = ctx_array(ctx, NamedValue, c->n + 1);
    memcpy(values, c->values, sizeof *values * (size_t)c->n);
    values[c->n++] = (NamedValue){axis_names[id], value};
    c->values = values;
}

/// Returns the number of parts into which a loop should be split. Each CPU thread should get work,
/// and more than one part, because threads start at different times and differ in speed. 1: no such
/// loop, or no need. Parts of products must write their partial sums. That pays only for long
/// products of two or more turns, and not just to balance two threads.
static int64_t wanted_split(const Build *b, const RankedSetting *s) {
    double threads = b->threads ? b->threads : machine_threads();
    double programs = fmax(1, s->grid.programs);
    int64_t ways = 1;
    if (b->gpu || !s->grid.loops || programs > threads) return 1;
    while (ways < MAX_SPLIT && programs * (double)ways < 4 * threads) ways *= 2;
    bool helps = programs < threads || threads > 2;
    bool pays = helps && s->seconds >= SPLIT_LONG_PRODUCTS && s->grid.turns >= 2 * (double)ways;
    return pays || !s->needs.products ? ways : 1;
}

/// Whether neither source nor caller sets the value.
static bool is_open(const SettingSearch *s, const RankedSetting *at, AxisId id) {
    return !value_of_name(s->n_set, s->set, axis_names[id]) &&
           !value_of_name(at->config.n, at->config.values, axis_names[id]);
}

static void pin_roles(const SettingSearch *s, RankedSetting *at) {
    Ctx *ctx = s->build->ctx;
    if (!at->axes.roles) return;
    pin_schedule_value(ctx, &at->config, AXIS_ROLES, 1);
    pin_schedule_value(ctx, &at->config, AXIS_SKEW, 1);
    if (at->axes.persistent && is_open(s, at, AXIS_PERSISTENT))
        pin_schedule_value(ctx, &at->config, AXIS_PERSISTENT, 1);
}

/// A launch with enough programs never splits a loop, nor does one of the shapes that share its
/// code. The code then leaves out the second phase, which is a third of attention's. Roles that
/// take many tiles keep it: without it, ptxas moves the counters of their loops to the uniform
/// datapath, whose latency starts each masked iteration (H200: causal attention lost 6 to 9 %).
static void pin_split(const SettingSearch *s, RankedSetting *at) {
    enum { OTHER_SHAPES = 8 }; // a launch that takes this setting has so many times fewer programs
    const Build *b = s->build;
    double most = OTHER_SHAPES * (double)split_enough_programs(b->gpu);
    bool enough = at->grid.split_programs >= most;
    bool never = enough && !(at->axes.roles && at->axes.persistent);
    int64_t ways = at->axes.split > 1 ? at->axes.split : at->seconds >= 0 ? wanted_split(b, at) : 1;
    if ((ways > 1 || never) && is_open(s, at, AXIS_SPLIT))
        pin_schedule_value(b->ctx, &at->config, AXIS_SPLIT, ways);
}

/// Returns the seconds by which settings are compared: those with more phases must gain over all
/// others.
static double compared_seconds(const RankedSetting *s) {
    double seconds = s->axes.split > 1 ? s->seconds / SPLIT_WORTH : s->seconds;
    return s->axes.align_rows > 0 ? seconds / ALIGN_ROWS_WORTH : seconds;
}

static void try_open_setting(SettingSearch *s, int i) {
    Build *b = s->build;
    RankedSetting *at = &s->open->data[i];
    Trial t = {b, at};
    if (at->tried) return;
    at->tried = true;
    DiagMark mark = diag_mark(b->ctx);
    apply_setting(b, s->n_set, s->set, &at->config);
    ctx_pass_on(b->ctx, ctx_protect(b->ctx, estimate_trial, &t));
    if (at->seconds < 0) at->why = first_message(b->ctx, mark);
    diag_rewind(b->ctx, mark);
    if (at->needs.slots && is_open(s, at, AXIS_STAGES))
        pin_schedule_value(b->ctx, &at->config, AXIS_STAGES, at->needs.slots);
    if (at->needs.once && is_open(s, at, AXIS_PERSISTENT))
        pin_schedule_value(b->ctx, &at->config, AXIS_PERSISTENT, -1);
    if (at->axes.cluster == GPU_PAIR && is_open(s, at, AXIS_CLUSTER))
        pin_schedule_value(b->ctx, &at->config, AXIS_CLUSTER, GPU_PAIR);
    if (at->axes.align_rows && is_open(s, at, AXIS_ALIGN_ROWS))
        pin_schedule_value(b->ctx, &at->config, AXIS_ALIGN_ROWS, at->axes.align_rows);
    pin_roles(s, at);
    pin_split(s, at);
    double least = compared_seconds(&s->open->data[s->best]);
    if (at->seconds >= 0 && (least < 0 || compared_seconds(at) < least)) s->best = i;
}

/// Returns the number of values in which two settings differ.
static int config_distance(const Config *a, const Config *b) {
    int n = 0;
    for (int i = 0; i < a->n; i++) {
        const NamedValue *v = value_of_name(b->n, b->values, a->values[i].name);
        n += !v || v->value != a->values[i].value;
    }
    return n;
}

/// Lists the settings that the instance leaves open. Even without pinned values the list may be
/// empty.
static void list_settings(SettingSearch *s) {
    Build *b = s->build;
    Configs all = {0};
    fe_configs(b->ctx, b->program, b->inst, MAX_SETTINGS, &all);
    for (int i = 0; i < all.n; i++) {
        RankedSetting one = {.config = all.data[i], .n_source = all.data[i].n, .seconds = -1};
        vec_push(b->ctx, s->open, one);
    }
    b->n_settings = s->open->n;
}

/// Tries all settings, or the best one and its neighbours.
static void search_settings(SettingSearch *s, int most) {
    RankedSettings *open = s->open;
    for (int round = 0; round < ROUNDS; round++) {
        const Config from = open->data[s->best].config;
        for (int i = 0; i < open->n; i++)
            if (open->n <= most || config_distance(&from, &open->data[i].config) <= 1)
                try_open_setting(s, i);
    }
}

void build_choose(Build *b) {
    RankedSettings open = {0};
    SettingSearch s = {.build = b, .n_set = b->inst->n_set, .set = b->inst->set, .open = &open};
    list_settings(&s);
    if (open.n < 2) return;
    search_settings(&s, MAX_TRIED);
    b->code = NULL;
    apply_setting(b, s.n_set, s.set, &open.data[s.best].config);
}

int build_settings(Build *b, RankedSettings *out) {
    SettingSearch s = {.build = b, .n_set = b->inst->n_set, .set = b->inst->set, .open = out};
    list_settings(&s);
    if (!out->n) return -1;
    search_settings(&s, MAX_TRIED);
    int best = s.best;
    for (int i = 0; i < out->n; i++) try_open_setting(&s, i);
    b->code = NULL;
    b->inst->n_set = s.n_set;
    b->inst->set = ctx_copy(b->ctx, s.set, sizeof *s.set * (size_t)(s.n_set + 1));
    return best;
}

double build_setting_cost(Build *b, const RankedSetting *s, const GpuAxes *axes, GpuNeeds *needs) {
    Elaborated *before = b->code;
    b->code = s->code;
    const Op *kernel = find_kernel(b->code->module, b->code->name);
    double seconds = gpu_cost_estimate(kernel, b->gpu, dim_of, b, axes, needs);
    b->code = before;
    return seconds;
}

double build_products(Build *b) {
    return cost_products(find_kernel(b->code->module, b->code->name), dim_of, b);
}

/* ---- the smallest one ------------------------------------------------------------------------ */

/// A value of 1 means one element at a time, without a tile along the dim. It counts as a large
/// value.
static double tile_product(const Config *c) {
    double product = 1;
    for (int i = 0; i < c->n; i++)
        product *= c->values[i].value <= 1 ? 1e9 : (double)c->values[i].value;
    return product;
}

static void elaborate_quietly(Ctx *ctx, void *arg) {
    Build *b = arg;
    b->ir = ir_create(ctx);
    b->code = fe_elaborate(b->ir, b->program, b->inst);
    if (diag_errors(ctx)) b->code = NULL;
}

/// False, without diagnostics: it does not elaborate.
static bool try_elaborate(Build *b) {
    DiagMark mark = diag_mark(b->ctx);
    b->code = NULL;
    ctx_pass_on(b->ctx, ctx_protect(b->ctx, elaborate_quietly, b));
    diag_rewind(b->ctx, mark);
    return b->code && b->code->module;
}

bool build_smallest(Build *b) {
    RankedSettings open = {0};
    SettingSearch s = {.build = b, .n_set = b->inst->n_set, .set = b->inst->set, .open = &open};
    list_settings(&s);
    if (!open.n) return try_elaborate(b);
    for (int tries = 0; tries < open.n; tries++) {
        RankedSetting *least = NULL;
        for (int i = 0; i < open.n; i++) {
            RankedSetting *at = &open.data[i];
            if (!at->tried && (!least || tile_product(&at->config) < tile_product(&least->config)))
                least = at;
        }
        least->tried = true;
        apply_setting(b, s.n_set, s.set, &least->config);
        if (try_elaborate(b)) return true;
    }
    return false;
}
