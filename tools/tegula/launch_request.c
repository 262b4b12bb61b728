// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Describes the launch of a command line as the request that the launch of a program would make:
// for searches and their results.
#include "runtime/tegula.h"
#include "tools/tegula/executors.h"
#include "tools/tegula/tune/tune.h"

#include <stdlib.h>
#include <string.h>

static const DLTensor *actual_tensor(Ctx *ctx, Argument *a, tg_actual *out) {
    elem_dlpack(a->tensor.elem, &out->code, &out->bits);
    DLTensor *t = ctx_new(ctx, DLTensor);
    *t = tg_dense(a->tensor.data, (DLDataTypeCode)out->code, out->bits, a->tensor.rank,
                  a->tensor.extents);
    t->strides = a->tensor.strides;
    out->rank = (int8_t)a->tensor.rank;
    out->shape = t->shape;
    out->strides = t->strides;
    return t;
}

/// Infers an argument that no option gives. An optional tensor is null; another tensor has
/// contiguous rows and the shape that follows from the others; a float has any value. False: the
/// argument cannot be inferred.
static bool infer_argument(Job *job, const Dimensions *dims, int i, Argument *out) {
    const Param *p = &job->kernel->params.at[i];
    Tensor *t = &out->tensor;
    out->kind = p->optional ? ARG_NULL : ARG_TENSOR;
    if (p->optional) return true;
    t->elem = job->params[i].elem;
    if (!param_is_tensor(p) && t->elem < EL_COUNT && elem_is(t->elem, EC_FLOAT))
        return out->kind = ARG_SCALAR, true;
    return param_is_tensor(p) && dims_tensor(dims, p->type, t);
}

/// Places the ranks as rank_launch.c does: on a GPU each, or on a part of the cores.
static Ranks ranks_of(const Job *job) {
    Ranks r = {.n = (int)job->ranks};
    if (!r.n) return r;
    int threads = (int)job->o->threads, each = machine_threads() / r.n;
    r.threads = threads ? threads : each > 0 ? each : 1;
    int gpus = job->device < 0 ? 0 : tg_device_count();
    r.gpus = gpus < r.n ? gpus : r.n;
    return r;
}

bool job_request(Job *job, Request *out, const DLTensor ***tensors) {
    const Options *o = job->o;
    int n = job->kernel->params.n;
    SourceText *texts;
    tg_actual *args = ctx_array(job->ctx, tg_actual, n + 1);
    Dimensions dims = job_dims(job);
    *tensors = ctx_array(job->ctx, const DLTensor *, n + 1);
    for (int i = 0; i < n; i++) {
        Argument *a = ctx_copy(job->ctx, &job->args[i], sizeof *a);
        const ParamInst *p = &job->params[i];
        if (a->kind == ARG_MISSING && !infer_argument(job, &dims, i, a)) return false;
        args[i].null = a->kind == ARG_NULL;
        args[i].value = p->known_value ? p->value : 0;
        args[i].align = a->kind == ARG_TENSOR ? (uint8_t)tensor_alignment(&a->tensor) : 0;
        args[i].symmetric = job_is_symmetric(job, i);
        if (a->kind == ARG_TENSOR)
            (*tensors)[i] = actual_tensor(job->ctx, a, &args[i]);
        else if (p->elem < EL_COUNT)
            elem_dlpack(p->elem, &args[i].code, &args[i].bits);
    }
    *out = (Request){.path = ctx_source_path(job->ctx, job->file),
                     .n_texts = program_texts(job->ctx, job->program, &texts),
                     .n_paths = o->paths.n,
                     .paths = o->paths.at,
                     .kernel = job->kernel->name.text,
                     .n_set = job->request.n_set,
                     .set = job->request.set,
                     .n_given = job->request.n_given,
                     .given = job->request.given,
                     .threads = o->threads ? (int)o->threads : machine_threads(),
                     .target = job->target ? job->target : host_target(),
                     .codegen = o->codegen,
                     .machine = job->machine,
                     .driver = job->driver,
                     .n_args = n,
                     .args = args,
                     .ranks = ranks_of(job)};
    out->texts = texts;
    return true;
}

/* ---- results of tuning --------------------------------------------------------------------- */

bool job_measures(const Job *job) {
    return strcmp(job->executor->name, "cpu") == 0 || job->device >= 0;
}

/// False (reported) if TG_TUNE is not a mode.
static bool read_env_tune_mode(TuneMode *out) {
    const char *text = secure_getenv("TG_TUNE");
    *out = TUNE_BACKGROUND;
    if (!text || !*text || tune_mode_of(text, out)) return true;
    cli_error("TG_TUNE: '%s' is none of off, strict, block, background, exhaustive", text);
    return false;
}

/// Refuses to search during a launch of ranks: other ranks would wait for rank 0's search beyond
/// their time limit.
static bool can_search_here(const Job *job) {
    if (!job->comm) return true;
    cli_warning("not tuned: ranks of --comm only use known settings");
    cli_hint("'tegula tune --ranks N' finds it");
    return false;
}

/// Finds a tuned setting. NOT_ASKED: some shapes are unknown, or TG_TUNE is off.
static Decision find_tuned(Job *job, TuneMode mode, TuneResult *out) {
    const DLTensor **tensors;
    Request r;
    if (mode == TUNE_OFF || !job_request(job, &r, &tensors)) return NOT_ASKED;
    if (!job_measures(job)) return BY_MODEL;
    if (tune_find(job->ctx, &r, job->device, out)) return BY_TUNING;
    if (mode == TUNE_STRICT) return UNKNOWN;
    if (mode == TUNE_BACKGROUND || !can_search_here(job)) return BY_MODEL;
    return job_tune_now(job, mode, &r, tensors, out) ? BY_TUNING : BY_MODEL;
}

/// The key of tuned settings includes the pinned values.
static Decision take_tuned_config(Job *job, TuneMode mode, TuneResult *out) {
    Decision found = find_tuned(job, mode, out);
    const char *config = found == BY_TUNING ? out->config : "";
    Request r;
    if (job->comm) config = rank_launch_config(job, config);
    if (!tune_set(job->ctx, config, &r)) return found == BY_TUNING ? BY_MODEL : found;
    job->request.n_set = r.n_set;
    job->request.set = r.set;
    return BY_TUNING;
}

bool job_elaborate_tuned(Job *job, bool launches, Decision *choice, TuneResult *out) {
    TuneMode mode;
    int n_set = job->request.n_set;
    const NamedValue *set = job->request.set;
    DiagMark mark = diag_mark(job->ctx);
    if (!read_env_tune_mode(&mode)) return false;
    if (!launches && mode != TUNE_OFF) mode = TUNE_BACKGROUND;
    *choice = take_tuned_config(job, mode, out);
    if (*choice == UNKNOWN) {
        cli_error("TG_TUNE=strict: nothing that was tuned is known for these extents");
        cli_hint("'tegula tune' finds it");
        return false;
    }
    if (*choice == BY_TUNING) {
        if (job_elaborate(job)) return true;
        // The setting of a similar shape may be invalid for this one.
        diag_rewind(job->ctx, mark);
        *choice = BY_MODEL;
        job->request.n_set = n_set;
        job->request.set = set;
    }
    return job_elaborate(job);
}
