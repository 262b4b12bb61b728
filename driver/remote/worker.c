// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// See worker.h. One launch is open at a time. Its code is kept until another launch is opened.
#include "driver/remote/worker.h"

#include "driver/driver_private.h"
#include "driver/injected_fault.h"
#include "driver/remote/oracle.h"
#include "frontend/program.h"
#include "runtime/comm/comm.h"
#include "runtime/gpu/gpu_launch.h"
#include "runtime/tune/trial.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MAX_CODES = 1024, GUARD = 64 << 10, GRAIN = 256, WAIT_MS = 600 * 1000 };
static const size_t LEAST_HEAP = (size_t)256 << 20;

/// The code of a candidate, in its own context.
typedef struct LoadedCode {
    Ctx *ctx; // NULL: not loaded
    Code *code;
    tg_variant variant;
} LoadedCode;

struct Worker {
    Ctx *ctx;   // of the open launch
    Bytes open; // message of the open launch, into which its data point
    WorkOpen what;
    tg_context *threads;
    tg_comm *comm; // for a kernel of ranks; else NULL
    const tg_kernel_info *info;
    rt_trial *trial;
    Oracle oracle; // the interpreter's expected results
    LoadedCode codes[MAX_CODES];
};

Worker *worker_create(void) {
    return calloc(1, sizeof(Worker));
}

static void unload_code(LoadedCode *l) {
    if (l->code && l->code->image) tg_image_unload(l->code->image);
    code_release(l->code);
    if (l->ctx) ctx_destroy(l->ctx);
    *l = (LoadedCode){0};
}

static void close_launch(Worker *w) {
    for (int i = 0; i < MAX_CODES; i++) unload_code(&w->codes[i]);
    if (w->trial) rt_trial_close(w->trial);
    w->trial = NULL;
    tg_context_use(NULL);
    if (w->threads) tg_context_destroy(w->threads);
    w->threads = NULL;
    tg_comm_destroy(w->comm);
    w->comm = NULL;
    if (w->ctx) ctx_destroy(w->ctx);
    w->ctx = NULL;
    w->info = NULL;
}

void worker_destroy(Worker *w) {
    if (!w) return;
    close_launch(w);
    free(w);
}

/* ---- reports ------------------------------------------------------------------------------- */

static WorkReport refused_report(TuneVerdict verdict, const char *why) {
    return (WorkReport){
        .verdict = verdict, .why = why, .registers = -1, .spills = -1, .shared_bytes = -1};
}

static WorkReport failed_report(Ctx *ctx, TuneVerdict verdict) {
    return refused_report(verdict, ctx_format(ctx, "%s", tg_last_error()));
}

/// Returns the reason for which work in another context ended.
static const char *failed_text(Ctx *ctx, Ctx *of, CtxStatus status) {
    const char *said = status == CTX_NO_MEMORY ? "out of memory" : messages_text(of);
    return ctx_format(ctx, "%s", *said ? said : tg_last_error());
}

static WorkReport launch_failed(const Worker *w, Ctx *ctx) {
    WorkReport report = failed_report(ctx, TUNE_FAILED);
    report.lost = rt_trial_is_lost(w->trial);
    return report;
}

/* ---- opening ------------------------------------------------------------------------------- */

static tg_arg scalar_arg(const tg_param_info *p, const tg_actual *a) {
    int code = p->bits ? p->code : a->code, bits = p->bits ? p->bits : a->bits;
    if (!rt_is_float(code)) return tg_int(a->value);
    return tg_float(cell_load(elem_of_dlpack((uint8_t)code, (uint8_t)bits), &a->value, 0).f);
}

/// Returns the device of the open launch's tensors. A process uses the GPUs of one maker.
static DLDevice tensor_device(const Worker *w) {
    const rt_cuda *cu = w->what.device < 0 ? NULL : rt_cuda_driver();
    if (w->what.device < 0) return (DLDevice){kDLCPU, 0};
    return (DLDevice){cu && cu->maker->hip ? kDLROCM : kDLCUDA, w->what.device};
}

static const DLTensor *worker_tensor(Worker *w, int i) {
    const tg_actual *a = &w->what.request.args[i];
    DLTensor *t = ctx_new(w->ctx, DLTensor);
    *t = (DLTensor){.data = (void *)(uintptr_t)w->what.data[i].address,
                    .device = tensor_device(w),
                    .ndim = a->rank,
                    .dtype = {a->code, a->bits, 1},
                    .shape = (int64_t *)(uintptr_t)a->shape,
                    .strides = (int64_t *)(uintptr_t)a->strides};
    return t;
}

static bool is_symmetric_tensor(const Worker *w, int i) {
    return w->info->params[i].flags & TG_PARAM_SYM && !w->what.request.args[i].null;
}

/// Returns the bytes of the own shard of a symmetric tensor, whose first dimension is the ranks.
/// They include guard zones on both sides that must not be written; *before is the offset of the
/// first element.
static size_t own_shard_bytes(const Worker *w, int i, size_t *before) {
    const tg_actual *a = &w->what.request.args[i];
    size_t into = GUARD + (size_t)w->what.data[i].address % GRAIN;
    int64_t least = 0, last = 0;
    for (int d = 1; d < a->rank; d++) {
        int64_t way = a->shape[d] > 0 ? (a->shape[d] - 1) * a->strides[d] : 0;
        *(way < 0 ? &least : &last) += way;
    }
    *before = into + (size_t)(-least * a->bits / 8);
    return rt_round_up(into + (size_t)(((last - least + 1) * a->bits + 7) / 8) + GUARD, GRAIN);
}

/// Returns an earlier tensor that is the same view, or -1.
static int find_same_view(const Worker *w, int i) {
    size_t before;
    for (int j = 0; j < i; j++)
        if (is_symmetric_tensor(w, j) && w->what.data[j].address == w->what.data[i].address &&
            own_shard_bytes(w, j, &before) == own_shard_bytes(w, i, &before))
            return j;
    return -1;
}

/// Allocates the own shard. Collective. NULL, with tg_last_error(): no memory.
static const DLTensor *shard_of(Worker *w, int i, const tg_arg *args) {
    DLTensor *t = ctx_new(w->ctx, DLTensor), memory;
    size_t before;
    int64_t bytes = (int64_t)own_shard_bytes(w, i, &before);
    int like = find_same_view(w, i);
    *t = *worker_tensor(w, i);
    t->ndim--;
    t->shape++;
    t->strides++;
    t->device = rt_comm_device(w->comm);
    if (like >= 0) {
        t->data = args[like].as.tensor->data;
        return t;
    }
    if (tg_sym_alloc(w->comm, (DLDataType){kDLUInt, 8, 1}, 1, &bytes, 0, &memory)) return NULL;
    t->data = (char *)memory.data + before;
    return t;
}

/// Makes the arguments. False, with tg_last_error(): no memory for symmetric tensors.
static bool make_args(Worker *w, tg_arg *args) {
    const Request *r = &w->what.request;
    for (int i = 0; i < r->n_args; i++) {
        const tg_param_info *p = &w->info->params[i];
        const DLTensor *t = NULL;
        bool tensor = p->kind == TG_PARAM_TENSOR && !r->args[i].null;
        if (tensor) t = is_symmetric_tensor(w, i) ? shard_of(w, i, args) : worker_tensor(w, i);
        if (tensor && !t) return false;
        args[i] = p->kind == TG_PARAM_TENSOR ? tg_tensor(t) : scalar_arg(p, &r->args[i]);
    }
    return true;
}

/// Returns the bytes of symmetric memory: room for the shards of all ranks, and as much again for
/// launches.
static size_t heap_bytes(const Worker *w) {
    size_t sum = 0, before;
    for (int i = 0; i < w->what.request.n_args; i++)
        if (is_symmetric_tensor(w, i))
            sum += own_shard_bytes(w, i, &before) * (size_t)w->what.ranks;
    return sum > LEAST_HEAP / 4 ? 4 * sum : LEAST_HEAP;
}

/// Meets the other workers of the trial. The timeout is long, because the search ends workers that
/// take too long.
static tg_status join_ranks(Worker *w) {
    const WorkOpen *o = &w->what;
    tg_comm_options options = {.size = sizeof options,
                               .engine = "processes",
                               .meet = o->meet,
                               .rank = o->rank,
                               .ranks = o->ranks,
                               .device = o->device < 0 ? TG_COMM_CPU : o->device,
                               .heap = heap_bytes(w),
                               .timeout_ms = WAIT_MS};
    if (!o->ranks) return TG_OK;
    tg_status status = tg_comm_create(&options, &w->comm);
    return status ? status : tg_context_set_comm(w->threads, w->comm);
}

typedef struct LoadJob {
    Worker *w;
    Bytes body;
    const WorkTry *what;
    LoadedCode *loaded;
    WorkReport *report; // in the caller's arena
} LoadJob;

static void open_launch(Ctx *ctx, void *arg) {
    LoadJob *job = arg;
    Worker *w = job->w;
    Build b;
    Precision precision;
    const Request *r = &w->what.request;
    if (!work_read_open(ctx, job->body, &w->what)) ctx_leave(ctx, CTX_ERRORS);
    if (!request_build(ctx, r, &b) || !build_elaborate(&b)) return;
    precision = rounding_bounds_of(b.code->module);
    w->info = kernel_info(ctx, b.program, b.inst->kernel);
    if (w->info->n_params != r->n_args) ctx_leave(ctx, CTX_ERRORS);
    const void **contents = ctx_array(ctx, const void *, r->n_args + 1);
    size_t *bytes = ctx_array(ctx, size_t, r->n_args + 1);
    for (int i = 0; i < r->n_args; i++) {
        bytes[i] = w->what.data[i].contents.n;
        contents[i] = bytes[i] ? w->what.data[i].contents.data : NULL;
    }
    tg_arg *args = ctx_array(ctx, tg_arg, r->n_args + 1);
    rt_trial_options options = {.info = w->info,
                                .args = args,
                                .n = r->n_args,
                                .contents = contents,
                                .content_bytes = bytes,
                                .seed = w->what.seed + ((uint64_t)w->what.rank << 32),
                                .way_bits = precision.way,
                                .sum_bits = precision.sum,
                                .exact = !precision.arithmetic};
    tg_options threads = {.size = sizeof threads, .threads = r->threads};
    if (tg_context_create(&threads, &w->threads)) return;
    tg_context_use(w->threads);
    if (join_ranks(w) || !make_args(w, args)) return;
    if (rt_trial_open(&options, &w->trial)) return;
    job->report->ok = true;
}

static WorkReport open_report(Worker *w, Ctx *ctx, Bytes body, bool *sound) {
    WorkReport report = refused_report(TUNE_FAILED, NULL);
    close_launch(w);
    w->ctx = ctx_create(NULL);
    if (!w->ctx) return refused_report(TUNE_FAILED, "out of memory");
    LoadJob job = {.w = w, .body = body, .report = &report};
    CtxStatus status = ctx_protect(w->ctx, open_launch, &job);
    *sound = status != CTX_ERRORS;
    if (!report.ok) report.why = failed_text(ctx, w->ctx, status);
    return report;
}

/* ---- code ---------------------------------------------------------------------------------- */

static void load_candidate(Ctx *ctx, void *arg) {
    LoadJob *job = arg;
    const Request *r = &job->w->what.request;
    Answer a;
    if (!wire_read_answer(ctx, job->what->answer, &a) || a.status || !answer_is_sound(r, &a))
        ctx_leave(ctx, CTX_ERRORS);
    answer_load(ctx, r, &a);
    if (a.status) return;
    job->loaded->code = a.code;
    job->loaded->variant = *a.variant;
    job->loaded->variant.entry = a.code->entry;
    job->loaded->variant.image = a.code->image;
    fault_run(&job->loaded->variant, job->w->what.rank);
}

/// Loads the code. False, with *report: it failed.
static bool load_or_report(Worker *w, Ctx *ctx, const WorkTry *t, WorkReport *report) {
    LoadedCode *l = &w->codes[t->id];
    unload_code(l);
    l->ctx = ctx_create(NULL);
    LoadJob job = {.w = w, .what = t, .loaded = l};
    CtxStatus status = l->ctx ? ctx_protect(l->ctx, load_candidate, &job) : CTX_NO_MEMORY;
    if (status == CTX_OK && l->code) return true;
    *report = refused_report(TUNE_FAILED, failed_text(ctx, l->ctx, status));
    unload_code(l);
    return false;
}

/// Loads the code on all ranks or on none. Collective.
static bool load_all(Worker *w, Ctx *ctx, const WorkTry *t, WorkReport *report) {
    tg_status status = TG_OK;
    if (!load_or_report(w, ctx, t, report))
        status = tg_fail(TG_ERROR_UNSUPPORTED, "%s", report->why);
    if (!w->comm || !rt_comm_agree_that(w->comm, "loading", status)) return !status;
    if (!status) *report = failed_report(ctx, TUNE_FAILED);
    return false;
}

/// Reports the driver's figures of the functions: the worst of each.
static void describe_image(const Worker *w, const tg_image *image, WorkReport *report) {
    const rt_cuda *cu = image && image->kind != TG_IMAGE_CALL ? rt_cuda_driver() : NULL;
    const rt_device *d = cu ? rt_device_at(w->what.device) : NULL;
    const rt_program *p = NULL;
    rt_entered entered;
    if (!d) return;
    if (rt_enter(d, &entered) == TG_OK && !rt_program_get((tg_image *)(uintptr_t)image, d, &p)) {
        for (int i = 0; i < image->n_functions; i++) {
            int registers = 0, local = 0, shared = image->functions[i].shared_bytes;
            if (cu->function_get(&registers, CU_REGISTERS, p->functions[i]) ||
                cu->function_get(&local, CU_LOCAL_BYTES, p->functions[i]))
                continue;
            if (registers > report->registers) report->registers = registers;
            if (local > report->spills) report->spills = local;
            if (shared > report->shared_bytes) report->shared_bytes = shared;
        }
    }
    rt_leave(entered);
}

static WorkReport check_candidate(Worker *w, Ctx *ctx, const WorkTry *t) {
    const tg_variant *v = &w->codes[t->id].variant;
    double *seconds = ctx_new(ctx, double);
    rt_verdict verdict = t->launches == WORK_CONFIRM ? rt_trial_confirm(w->trial, v)
                                                     : rt_trial_check(w->trial, v, seconds);
    WorkReport report = refused_report(TUNE_SLOWER, NULL);
    if (verdict == RT_WRONG) report = failed_report(ctx, TUNE_WRONG);
    report.refuted = rt_trial_is_refuted(w->trial);
    report.mild = rt_trial_is_mild(w->trial);
    if (verdict == RT_WRONG) return report;
    if (verdict == RT_FAILED) return launch_failed(w, ctx);
    report.ok = true;
    report.n = 1;
    report.seconds = seconds;
    describe_image(w, v->image, &report);
    return report;
}

static WorkReport measure_candidate(Worker *w, Ctx *ctx, const WorkTry *t) {
    const tg_variant *v = &w->codes[t->id].variant;
    int n = t->launches > 0 ? t->launches : 1;
    double *seconds = ctx_array(ctx, double, n + 1);
    tg_status status = t->launches > 0 ? rt_trial_time(w->trial, v, n, seconds)
                                       : rt_trial_warm(w->trial, v, seconds);
    if (status) return launch_failed(w, ctx);
    WorkReport report = refused_report(TUNE_SLOWER, NULL);
    report.ok = true;
    report.n = n;
    report.seconds = seconds;
    return report;
}

typedef struct Telling {
    Worker *w;
    Bytes body;
} Telling;

static void expect_oracle(Ctx *ctx, void *arg) {
    const Telling *t = arg;
    Worker *w = t->w;
    if (!oracle_read(ctx, t->body, &w->oracle)) return;
    if (w->oracle.expected.n) rt_trial_expect(w->trial, &w->oracle.expected);
}

static WorkReport try_report(Worker *w, Ctx *ctx, Bytes body, bool *sound) {
    WorkTry t;
    WorkReport report;
    *sound = work_read_try(ctx, body, &t) && t.id < MAX_CODES && w->trial;
    if (!*sound) return refused_report(TUNE_FAILED, "");
    if (t.answer.n && !load_all(w, ctx, &t, &report)) return report;
    *sound = w->codes[t.id].code != NULL;
    if (!*sound) return refused_report(TUNE_FAILED, "");
    if (t.expected.n) ctx_protect(w->ctx, expect_oracle, &(Telling){w, t.expected});
    bool checks = t.launches == WORK_CHECK || t.launches == WORK_CONFIRM;
    return checks ? check_candidate(w, ctx, &t) : measure_candidate(w, ctx, &t);
}

static double computed_seconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

bool worker_answer(Worker *w, Ctx *ctx, WireKind kind, Bytes body, Bytes *report) {
    bool sound = false;
    double began = computed_seconds();
    WorkReport r =
        kind == WIRE_OPEN ? open_report(w, ctx, body, &sound) : try_report(w, ctx, body, &sound);
    if (!sound) return false;
    r.computed = computed_seconds() - began;
    *report = work_write_report(ctx, &r);
    return true;
}
