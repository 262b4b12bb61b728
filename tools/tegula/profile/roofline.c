// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Measures roofs, and finds from the record of a launch which time is lost below them. The advice
// comes from the cost model's ranking of the kernel's settings, and from the record.
#include "tools/tegula/profile/roofline.h"

#include "driver/jit.h"
#include "tools/roofline.h"
#include "tools/tegula/gpu_arrays.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- roofs --------------------------------------------------------------------------------- */

static bool is_half(Elem e) {
    return e == EL_F16 || e == EL_BF16;
}

/// The types of products with a measured peak. Without products, FLOPs are those of --flops, and
/// count as multiply-adds in f32.
static bool has_peak(const Profile *p) {
    return p->flops > 0 && (!p->has_products || p->products == EL_F32 || is_half(p->products));
}

static void measure_cpu(const Profile *p, Roofline *out) {
    int threads = p->record->n_workers - 1;
    bool bf16 = p->products == EL_BF16;
    if (p->bytes >= 2) out->bandwidth = roofs_copy(threads, (int64_t)(p->bytes / 2));
    if (!has_peak(p)) return;
    Roofs roofs = roofs_arithmetic(threads, bf16);
    out->peak = roofs.fma_f32;
    out->peak_name = "multiply-adds in f32";
    if (bf16 && roofs.dot_bf16 > 0) {
        out->peak = roofs.dot_bf16;
        out->peak_name = "products of bf16 pairs";
    }
    if (bf16 && roofs.amx_bf16 > 0) {
        out->peak = roofs.amx_bf16;
        out->peak_name = "AMX tiles";
    }
}

/// The peak of products is that of the device's data sheet.
static void measure_gpu(const Profile *p, Roofline *out) {
    const GpuTarget *t = p->job->build.gpu;
    bool half = is_half(p->products);
    out->bandwidth = gpu_copy_rate(p->job, (int64_t)(p->bytes / 2));
    if (!has_peak(p)) return;
    out->peak = 2.0 * t->sms * t->clock * (half ? t->unit_cycle : t->fma_cycle);
    out->peak_name = half ? "16-bit products (data sheet)" : "multiply-adds in f32 (data sheet)";
}

/// A kernel far from both roofs is limited by neither. One beyond a roof does less than the roof
/// assumes.
static const char *verdict_of(const Profile *p, const Roofline *r) {
    const int near = 30, beyond = 120; // percent of the roof
    Ctx *ctx = p->job->ctx;
    bool arithmetic = r->compute_seconds > r->memory_seconds;
    double least = arithmetic ? r->compute_seconds : r->memory_seconds;
    double share = 100 * least / p->times.median;
    const char *name = arithmetic ? "arithmetic" : "memory";
    if (p->flops > 0 && !(r->peak > 0)) {
        const char *what = !p->has_products ? "this arithmetic"
                           : p->products == EL_COUNT
                               ? "products of several types"
                               : ctx_format(ctx, "products of %s", elem_info[p->products].name);
        if (!(least > 0)) return ctx_format(ctx, "no roof of %s is known", what);
        return ctx_format(ctx, "no roof of %s is known; the kernel reaches %.0f %% of memory's",
                          what, share);
    }
    if (!(least > 0)) return NULL;
    if (share < near)
        return ctx_format(ctx, "no roof is near: the kernel reaches %.0f %% of the %s roof", share,
                          name);
    if (share <= beyond)
        return ctx_format(ctx, "%s limits the kernel, which reaches %.0f %% of that roof", name,
                          share);
    if (arithmetic)
        return ctx_format(ctx,
                          "the kernel reaches %.0f %% of the arithmetic roof: it computes less "
                          "than is counted, or the roof was measured on a busy machine",
                          share);
    return ctx_format(ctx,
                      "the kernel reaches %.0f %% of the memory roof: it does not touch all "
                      "bytes of its arguments, or they stay in caches",
                      share);
}

/* ---- losses -------------------------------------------------------------------------------- */

static void add_loss(Roofline *r, double share, const char *text) {
    if (r->n_losses < MOST_LOSSES && share > 0.01) r->losses[r->n_losses++] = (Loss){text, share};
}

static int by_falling_share(const void *a, const void *b) {
    double x = ((const Loss *)a)->share, y = ((const Loss *)b)->share;
    return (x < y) - (x > y);
}

/// Shares of the time that all threads have during the recorded launch.
static void find_losses(const Profile *p, Roofline *r) {
    int threads = p->record->n_workers - 1;
    double inside = 0, idle = 0, packing = 0, all = p->marked * threads;
    for (int i = 0; i < p->n_phases; i++) {
        const ProfilePhase *at = &p->phases[i];
        inside += at->seconds;
        if (at->workers) idle += at->seconds * threads - at->busy;
    }
    for (int i = 0; i < p->n_parts; i++) {
        if (strncmp(p->parts[i].site->text, "packs ", 6) == 0) packing += p->parts[i].seconds;
    }
    if (!(all > 0)) return;
    if (p->n_parts && idle > 0)
        add_loss(r, idle / all, "no work is left for a thread, or it waits for the slowest one");
    add_loss(r, packing / all, "operands of products are packed");
    if (p->n_phases) add_loss(r, (p->marked - inside) / p->marked, "the time outside of phases");
    qsort(r->losses, (size_t)r->n_losses, sizeof *r->losses, by_falling_share);
}

/* ---- advice -------------------------------------------------------------------------------- */

typedef struct Ranking {
    Job *job;
    RankedSettings *all;
} Ranking;

static void rank_all(Ctx *ctx, void *arg) {
    Ranking *r = arg;
    Job *job = r->job;
    Build b;
    request_instance(ctx, &job->request, job->program, job->kernel, &b);
    if (build_target(&b)) build_settings(&b, r->all);
}

RankedSettings *roofline_settings(Job *job) {
    Request *r = &job->request;
    r->target = job->target ? job->target : host_target();
    r->machine = job->machine;
    r->driver = job->driver;
    Ranking ranking = {job, ctx_new(job->ctx, RankedSettings)};
    DiagMark mark = diag_mark(job->ctx);
    ctx_pass_on(job->ctx, ctx_protect(job->ctx, rank_all, &ranking));
    diag_rewind(job->ctx, mark);
    return ranking.all;
}

/// The values of the setting that differ from the compiled ones: "--set BM=128 --set BK=32".
static const char *changes_of(const Job *job, const RankedSetting *s) {
    Text t = {.ctx = job->ctx};
    for (int i = 0; i < s->n_source; i++) {
        const NamedValue *v = &s->config.values[i];
        const NamedValue *now =
            value_of_name(job->build.code->n_config, job->build.code->config, v->name);
        if (now && now->value == v->value) continue;
        text_add(&t, t.n ? " --set " : "--set ");
        setting_text(&t, v->name, v->value);
    }
    return t.data;
}

static void add_advice(Roofline *r, const char *setting, const char *why) {
    if (r->n_advice < MOST_ADVICE) r->advice[r->n_advice++] = (Advice){setting, why};
}

/// The compiled setting; NULL: the kernel has no choice.
static const RankedSetting *present_setting(const Job *job, const RankedSettings *all) {
    for (int i = 0; i < all->n; i++)
        if (all->data[i].seconds >= 0 && !changes_of(job, &all->data[i])) return &all->data[i];
    return NULL;
}

/// If few tasks keep the threads idle, smaller tasks or a split loop help.
static void advise_by_record(const Profile *p, const GridNeeds *grid, Roofline *r) {
    Ctx *ctx = p->job->ctx;
    int threads = p->record->n_workers - 1;
    enum { IDLE_PERCENT = 10 };
    const double shortest = 20e-6; // below, threads start and stop for most of a phase
    const ProfilePhase *worst = NULL;
    for (int i = 0; i < p->n_phases; i++)
        if (p->phases[i].workers && (!worst || p->phases[i].seconds > worst->seconds))
            worst = &p->phases[i];
    if (!worst || p->job->build.gpu || worst->seconds / worst->times < shortest) return;
    double idle = 100 * (1 - worst->busy / (worst->seconds * threads));
    double tasks = (double)worst->tasks / worst->times;
    if (idle < IDLE_PERCENT || grid->programs <= 1) return;
    if (tasks < grid->programs && tasks < 4.0 * threads)
        add_advice(r, "--set grain=1",
                   ctx_format(ctx,
                              "%.0f programs are %.0f tasks, and threads are idle for %.0f %% "
                              "of the time",
                              grid->programs, tasks, idle));
    else if (grid->programs < threads && grid->loops)
        add_advice(
            r, ctx_format(ctx, "--set split=%d", (int)ceil(threads / grid->programs)),
            ctx_format(ctx, "there are %.0f programs for %d threads", grid->programs, threads));
}

/// The settings that the model expects to be fastest, and faster than the compiled one.
static const double CLEARLY_FASTER = 0.98;
static void advise_by_model(const Profile *p, const RankedSettings *all, Roofline *r) {
    const Job *job = p->job;
    const RankedSetting *present = present_setting(job, all);
    double now = present ? present->seconds : -1;
    bool *used = ctx_array(job->ctx, bool, all->n + 1);
    while (r->n_advice < MOST_ADVICE) {
        int best = -1;
        for (int i = 0; i < all->n; i++) {
            const RankedSetting *s = &all->data[i];
            if (used[i] || s->seconds < 0 || !changes_of(job, s)) continue;
            if (best < 0 || s->seconds < all->data[best].seconds) best = i;
        }
        double ratio = best >= 0 && now > 0 ? all->data[best].seconds / now : 1;
        if (ratio >= CLEARLY_FASTER) return;
        used[best] = true;
        add_advice(r, changes_of(job, &all->data[best]),
                   ctx_format(job->ctx,
                              "the cost model expects %.2f times the time of the present setting",
                              ratio));
    }
}

void roofline_of(const Profile *p, const RankedSettings *settings, Roofline *out) {
    *out = (Roofline){.bandwidth = 0};
    if (p->job->device >= 0)
        measure_gpu(p, out);
    else
        measure_cpu(p, out);
    if (out->bandwidth > 0) out->memory_seconds = p->bytes / out->bandwidth;
    if (out->peak > 0) out->compute_seconds = p->flops / out->peak;
    out->verdict = verdict_of(p, out);
    find_losses(p, out);
    const RankedSetting *now = present_setting(p->job, settings);
    if (now) advise_by_record(p, &now->grid, out);
    advise_by_model(p, settings, out);
}
