// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Searches in the background for modules. A queued search (runtime/compiler.h) holds the request of
// a launch, and the integers of its tensors, whole or in samples, since they may be indices. The
// winner is compiled.
#include "driver/module.h"
#include "driver/tune/tune_store.h"

#include <stdio.h>
#include <string.h>

/// Lives in the arena of its own context.
typedef struct QueuedSearch {
    tg_queued_search base;
    Ctx *ctx;
    ModuleKernel *k;
    Request request;
    tg_wanted wanted;
    bool near;
    const DLTensor **tensors; // copies; their data must not be read, only its address counts
    rt_samples *samples;      // of integer tensors
} QueuedSearch;

/* ---- paying -------------------------------------------------------------------------------- */

typedef struct SearchRun {
    QueuedSearch *queued;
    const atomic_bool *stop;
    TuneResult result;
    tg_status status;
} SearchRun;

/// The results point into the queued search.
static Bytes *contents_of(Ctx *ctx, const QueuedSearch *d) {
    Bytes *contents = ctx_array(ctx, Bytes, d->wanted.n + 1);
    for (int i = 0; i < d->wanted.n; i++)
        contents[i].data = (uint8_t *)(uintptr_t)rt_samples_of(d->samples, i, &contents[i].n);
    return contents;
}

static void run(Ctx *ctx, void *arg) {
    SearchRun *p = arg;
    const tg_module *m = p->queued->k->module;
    if (!rt_samples_wait(p->queued->samples)) return;
    TuneOptions options = {.mode = TUNE_BACKGROUND,
                           .budget = m->tune_budget,
                           .device = p->queued->wanted.device,
                           .tensors = p->queued->tensors,
                           .contents = contents_of(ctx, p->queued),
                           .helpers = 1,
                           .stop = p->stop};
    p->status = tune_request(ctx, &p->queued->request, &options, &p->result);
    if (p->status && diag_errors(ctx)) tg_fail(p->status, "%s", messages_text(ctx));
    if (p->status && !atomic_load(p->stop)) jit_log_failure();
}

static void log_change(const SearchRun *p) {
    char line[512], instead[48] = "";
    const TuneResult *r = &p->result;
    if (r->standard > 0)
        snprintf(instead, sizeof instead, " instead of %.4g us", r->standard * 1e6);
    snprintf(line, sizeof line, "tuned %s %s in the background: %s, %.4g us%s", r->kernel, r->shape,
             r->config, r->seconds * 1e6, instead);
    tg_log(line);
    log_wrong_default(r);
}

/// Compiles and loads the winner, so that launches which take it need not wait. Launches that need
/// other code do not wait either.
static const tg_variant *make_winner(const SearchRun *p) {
    const QueuedSearch *d = p->queued;
    const tg_variant *v;
    if (jit_compile(d->k, &d->wanted, &p->result, &v) || !v->tuned) return NULL;
    bool on_device = v->image && v->image->kind != TG_IMAGE_CALL && d->wanted.device >= 0;
    return on_device && tg_image_prepare(v->image, d->wanted.device) ? NULL : v;
}

/// Adopts the winner, unless launches take the same setting anyway.
static void adopt_winner(const SearchRun *p) {
    const TuneResult *r = &p->result;
    if (p->status || atomic_load(p->stop) || !*r->config) return;
    bool standard = r->n_trials && strcmp(r->config, r->trials[0].config) == 0;
    if (standard && !p->queued->near) return;
    const tg_variant *v = make_winner(p);
    if (v && tg_kernel_adopt(&p->queued->k->kernel, v) == TG_OK) log_change(p);
}

static bool run_queued_search(tg_queued_search *queued, const atomic_bool *stop) {
    QueuedSearch *d = (QueuedSearch *)queued;
    SearchRun p = {.queued = d, .stop = stop, .status = TG_ERROR_MEMORY};
    tg_context *before = tg_context_use(d->k->module->context);
    Ctx *ctx = ctx_create(NULL);
    if (ctx && ctx_protect(ctx, run, &p) == CTX_OK) adopt_winner(&p);
    if (ctx) ctx_destroy(ctx);
    tg_context_use(before);
    return !p.result.busy;
}

static void release_queued_search(tg_queued_search *queued) {
    rt_samples_close(((QueuedSearch *)queued)->samples);
    ctx_destroy(((QueuedSearch *)queued)->ctx);
}

/* ---- queued searches ------------------------------------------------------------------------ */

static uint64_t hash_of(const ModuleKernel *k, const tg_wanted *w) {
    uint64_t h = (uintptr_t)k ^ w->home;
    for (int i = 0; i < w->n; i++) {
        const tg_actual *a = &w->args[i];
        h = (h ^ (uint64_t)(a->null + 2 * a->code + 64 * a->bits)) * 0x9e3779b97f4a7c15u;
        for (int d = 0; d < a->rank; d++)
            h = (h ^ h >> 29 ^ (uint64_t)a->shape[d]) * 0x9e3779b97f4a7c15u;
    }
    return h;
}

/// Copies a tensor in the form for searches: the byte offset becomes part of the address.
static const DLTensor *copy_tensor(Ctx *ctx, const tg_actual *a) {
    if (!a->tensor) return NULL;
    DLTensor *t = ctx_copy(ctx, a->tensor, sizeof *a->tensor);
    t->data = (char *)t->data + t->byte_offset;
    t->byte_offset = 0;
    return t;
}

/// Samples the integers of the launch. NULL: it failed, or the launch is captured, where no copy is
/// possible.
static rt_samples *take_integer_samples(const tg_wanted *w) {
    rt_held held[TG_MAX_PARAMS] = {0};
    size_t sum = 0;
    for (int i = 0; i < w->n; i++) {
        if (w->args[i].tensor) held[i] = tune_held(w->args[i].tensor, &w->args[i]);
        sum += held[i].bytes;
    }
    if (sum && w->captured) return NULL;
    return rt_samples_take(w->device, w->stream, held, w->n);
}

typedef struct LaunchCopy {
    QueuedSearch *queued;
    const tg_wanted *wanted;
    const Request *r;
} LaunchCopy;

/// Copies all parts of a launch that the search needs, since the search outlives it.
static void copy_launch(Ctx *ctx, void *arg) {
    LaunchCopy *c = arg;
    const tg_wanted *w = c->wanted;
    QueuedSearch *d = c->queued = ctx_new(ctx, QueuedSearch);
    tg_actual *args = ctx_copy(ctx, w->args, sizeof *args * (size_t)w->n);
    d->tensors = ctx_array(ctx, const DLTensor *, w->n + 1);
    for (int i = 0; i < w->n; i++) {
        size_t bytes = sizeof(int64_t) * (size_t)args[i].rank;
        args[i].tensor = d->tensors[i] = copy_tensor(ctx, &w->args[i]);
        args[i].shape = bytes ? ctx_copy(ctx, args[i].shape, bytes) : NULL;
        args[i].strides = bytes ? ctx_copy(ctx, args[i].strides, bytes) : NULL;
    }
    d->ctx = ctx;
    d->wanted = *w;
    d->wanted.args = args;
    d->wanted.captured = false;
    d->request = *c->r;
    d->request.args = args;
    d->request.n_known = 0;
    d->request.machine = c->r->machine ? ctx_format(ctx, "%s", c->r->machine) : NULL;
}

void jit_queue_search(ModuleKernel *k, const tg_wanted *wanted, const Request *r, bool near) {
    uint64_t hash = hash_of(k, wanted);
    Ctx *ctx = tg_queue_wanted(hash) ? ctx_create(NULL) : NULL;
    LaunchCopy c = {.wanted = wanted, .r = r};
    if (!ctx) return;
    rt_samples *samples =
        ctx_protect(ctx, copy_launch, &c) == CTX_OK ? take_integer_samples(wanted) : NULL;
    if (!samples) {
        ctx_destroy(ctx);
        return;
    }
    c.queued->k = k;
    c.queued->near = near;
    c.queued->samples = samples;
    c.queued->base = (tg_queued_search){.kernel = &k->kernel,
                                        .owner = k->module,
                                        .hash = hash,
                                        .run = run_queued_search,
                                        .release = release_queued_search};
    tg_queue_search(&c.queued->base);
}
