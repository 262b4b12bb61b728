// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The default setting of a kernel's tune values: the one that the cost model expects to be fastest
// for the arguments at hand.
#include "tools/tegula/driver.h"

#include "backends/backend.h"

#include <string.h>

// Elaborating a setting costs a fraction of a millisecond; beyond this many the first ones do.
enum { MAX_TRIED = 48 };

/// What one setting is expected to cost; elaborated inside ctx_protect, since one that does not
/// elaborate is no candidate rather than an error.
typedef struct Trial {
    Job *job;
    Bound bound;
    double seconds; // negative: not a candidate
} Trial;

static int64_t dim_of(void *user, int parameter, int axis) {
    const Trial *t = user;
    if (parameter >= t->bound.n) return -1;
    const InterpArg *arg = &t->bound.args[parameter];
    bool tensor = t->bound.uses[parameter]->kind == PARAM_TENSOR;
    if (axis < 0)
        return tensor || elem_is(t->bound.uses[parameter]->elem, EC_FLOAT) ? -1 : arg->scalar.i;
    return tensor && axis < arg->tensor.rank ? arg->tensor.extents[axis] : -1;
}

static void estimate(Ctx *ctx, void *arg) {
    Trial *t = arg;
    Job *job = t->job;
    TargetInfo info;
    job->ir = ir_create(ctx);
    job->code = fe_elaborate(job->ir, job->program, job->inst);
    if (!job->code || !job->code->module || !cpu_backend.info(NULL, &info)) return;
    Machine machine = {job_threads(job), info.l1_bytes, info.l2_bytes, info.vector_bytes};
    Op *kernel = find_kernel(job->code->module, job->code->name);
    t->bound = job_bind(job);
    t->seconds = cost_estimate(kernel, &machine, dim_of, t);
}

static const NamedValue *value_named(int n, const NamedValue *values, const char *name) {
    for (int i = 0; i < n; i++)
        if (strcmp(values[i].name, name) == 0) return &values[i];
    return NULL;
}

/// The setting agrees with every --set.
static bool is_allowed(const Config *c, int n, const NamedValue *set) {
    for (int i = 0; i < n; i++) {
        const NamedValue *v = value_named(c->n, c->values, set[i].name);
        if (v && v->value != set[i].value) return false;
    }
    return true;
}

/// The values of --set, then those of the setting that they leave open.
static void take(Job *job, int n, const NamedValue *set, const Config *c) {
    Inst *inst = job->inst;
    inst->set = ctx_array(job->ctx, NamedValue, n + c->n + 1);
    inst->n_set = n;
    if (n) memcpy(inst->set, set, sizeof *set * (size_t)n);
    for (int i = 0; i < c->n; i++)
        if (!value_named(n, set, c->values[i].name)) inst->set[inst->n_set++] = c->values[i];
}

void job_choose(Job *job) {
    Configs all = {0}, open = {0};
    int n = job->inst->n_set;
    const NamedValue *set = job->inst->set;
    fe_configs(job->ctx, job->program, job->inst, MAX_TRIED, &all);
    for (int i = 0; i < all.n; i++)
        if (is_allowed(&all.data[i], n, set)) vec_push(job->ctx, &open, all.data[i]);
    if (open.n < 2) return;
    const Config *best = &open.data[0];
    double least = -1;
    DiagMark mark = diag_mark(job->ctx);
    for (int i = 0; i < open.n; i++) {
        Trial t = {.job = job, .seconds = -1};
        take(job, n, set, &open.data[i]);
        CtxStatus status = ctx_protect(job->ctx, estimate, &t);
        if (status == CTX_NO_MEMORY || status == CTX_BUG) ctx_leave(job->ctx, status);
        diag_rewind(job->ctx, mark);
        if (t.seconds < 0 || (least >= 0 && t.seconds >= least)) continue;
        least = t.seconds;
        best = &open.data[i];
    }
    job->code = NULL;
    take(job, n, set, best);
}
