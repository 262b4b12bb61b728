// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Tuning for a launch that needs code: takes known results, searches now, or queues a search.
#include "driver/module.h"

#include <stdio.h>

#define FIRST_LINE 0.5 // seconds until a waiting launch reports progress
#define NEXT_LINE  2.0

typedef struct TuneJob {
    const Request *r;
    const TuneOptions *options;
    TuneResult result;
    tg_status status;
} TuneJob;

static void search_request(Ctx *ctx, void *arg) {
    TuneJob *job = arg;
    job->status = tune_request(ctx, job->r, job->options, &job->result);
    if (job->status && diag_errors(ctx)) tg_fail(job->status, "%s", messages_text(ctx));
}

static const DLTensor **tensors_of(Ctx *ctx, const tg_wanted *w) {
    const DLTensor **out = ctx_array(ctx, const DLTensor *, w->n + 1);
    for (int i = 0; i < w->n; i++) out[i] = w->args[i].tensor;
    return out;
}

void log_wrong_default(const TuneResult *t) {
    char line[768];
    const char *why = tune_wrong_default(t);
    if (!why) return;
    snprintf(line, sizeof line, "warning: %s %s: the default, %s, is not taken: %s; " WRONG_DEFAULT,
             t->kernel, t->shape, t->trials[0].config, why);
    tg_log(line);
}

/// "tuned matmul M=64 N=64: BM=32, 12.1 us instead of 14.0 us, in 2.1 s"
static void log_result(const TuneResult *t) {
    char line[512], instead[48] = "";
    if (t->standard > 0)
        snprintf(instead, sizeof instead, " instead of %.4g us", t->standard * 1e6);
    snprintf(line, sizeof line, "tuned %s %s: %s, %.4g us%s, in %.2g s", t->kernel, t->shape,
             *t->config ? t->config : "nothing to choose", t->seconds * 1e6, instead, t->spent);
    tg_log(line);
    log_wrong_default(t);
}

typedef struct WaitingKernel {
    const char *kernel;
    double next;   // time of the next line
    tg_comm *comm; // whose ranks wait; or NULL
} WaitingKernel;

/// "tuning matmul: 34 of 300 candidates, best BM=64 BN=64 at 12.1 us, 6.2 s left"
static void log_progress(void *user, const TuneProgress *p) {
    WaitingKernel *w = user;
    char line[512], best[320] = "", left[32] = "";
    if (w->comm) tg_comm_busy(w->comm);
    if (p->spent < w->next) return;
    w->next = p->spent + NEXT_LINE;
    if (p->best > 0) snprintf(best, sizeof best, ", best %s at %.4g us", p->config, p->best * 1e6);
    double rest =
        p->budget > p->spent ? p->budget - p->spent : 0; // the running trial may exceed the budget
    if (p->budget < 1e6) snprintf(left, sizeof left, ", %.2g s left", rest);
    if (p->waits)
        snprintf(line, sizeof line, "tuning %s: another process does so%s", w->kernel, left);
    else
        snprintf(line, sizeof line, "tuning %s: %d of %d candidates%s%s", w->kernel, p->measured,
                 p->candidates, best, left);
    tg_log(line);
}

void jit_log_failure(void) {
    char line[512];
    snprintf(line, sizeof line, "warning: not tuned: %s", tg_last_error());
    tg_log(line);
}

/// Without stand-in processes for the ranks, no search is possible.
static void log_ranks(const Request *r) {
    char line[512];
    snprintf(
        line, sizeof line,
        "warning: not tuned: ranks that launch %s are not tuned where they are of 'openshmem', "
        "'nvshmem', or processes that share a GPU; `tegula tune --ranks` finds their settings",
        r->kernel);
    tg_log(line);
}

/// Uses its own context, since errors of candidates are not errors of the launch.
static bool search_now(Ctx *ctx, tg_module *m, const tg_wanted *w, Request *r, TunedTimes *times) {
    WaitingKernel waiting = {.kernel = r->kernel, .next = FIRST_LINE, .comm = w->comm};
    TuneOptions options = {.mode = m->tune,
                           .budget = m->tune_budget,
                           .device = w->device,
                           .devices = w->ranks.devices,
                           .progress = log_progress,
                           .user = &waiting,
                           .tensors = tensors_of(ctx, w),
                           .stream = w->stream};
    TuneJob job = {.r = r, .options = &options, .status = TG_ERROR_MEMORY};
    Ctx *own = ctx_create(&module_allocator);
    bool found = false;
    tg_lock_take(&m->searching);
    bool ended = own && ctx_protect(own, search_request, &job) == CTX_OK;
    tg_lock_give(&m->searching);
    if (ended && !job.status) {
        log_result(&job.result);
        *times = (TunedTimes){job.result.seconds, job.result.standard};
        found = tune_set(ctx, ctx_format(ctx, "%s", job.result.config), r);
    } else {
        jit_log_failure();
    }
    if (own) ctx_destroy(own);
    return found;
}

/// Whether this rank can search. Rank 0 does it for all ranks, which wait for its choice.
static bool can_search_alone(const tg_wanted *w, const Request *r) {
    if (w->captured || w->ranks.rank) return false;
    if (!w->collective || w->ranks.near) return true;
    if (w->ranks.n) log_ranks(r);
    return false;
}

bool jit_settle(Ctx *ctx, ModuleKernel *k, const tg_wanted *w, Request *r, TunedTimes *times) {
    tg_module *m = k->module;
    TuneResult found = {0};
    if (m->tune == TUNE_OFF) return false;
    if (tune_find(ctx, r, w->device, &found)) {
        // Another shape's result serves until this shape's own search has ended.
        if (found.near && m->tune == TUNE_BACKGROUND && !w->collective)
            jit_queue_search(k, w, r, true);
        *times = (TunedTimes){found.seconds, found.standard};
        return tune_set(ctx, found.config, r);
    }
    if (m->tune == TUNE_STRICT) return false;
    if (m->tune != TUNE_BACKGROUND && can_search_alone(w, r))
        return search_now(ctx, m, w, r, times);
    if (!w->collective) jit_queue_search(k, w, r, false);
    return false;
}
