// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Arguments of several ranks. For a symmetric tensor the command line gives all shards, [W, ...].
// For another tensor it gives the data of each rank, with a leading dimension for the rank, or one
// tensor for all ranks. Results that ranks write have that dimension as well.
#include "tools/tegula/executors.h"

#include <inttypes.h>
#include <string.h>

static const TypeExpr *sym_type(const Job *job, int i) {
    const Param *p = &job->kernel->params.at[i];
    return param_is_tensor(p) && p->type->sym ? p->type : NULL;
}

bool job_is_symmetric(const Job *job, int i) {
    return sym_type(job, i) != NULL;
}

static bool bad_shards(const Job *job, const char *name, int64_t shards) {
    if (shards > MAX_RANKS)
        cli_error("'%s' has shards of %" PRId64 " ranks, there are at most %d", name, shards,
                  MAX_RANKS);
    else
        cli_error("'%s' has shards of %" PRId64 " ranks, there are %" PRId64, name, shards,
                  job->ranks);
    cli_hint("the argument is all shards, rank by rank: its first extent is their number");
    return false;
}

/// Returns --ranks, or the number in the symmetric tensors; 0: the kernel has none.
static bool count_ranks(Job *job) {
    int n = job->kernel->params.n, of_ranks = 0;
    job->ranks = job->o->ranks;
    for (int i = 0; i < n; i++) {
        const Argument *a = &job->args[i];
        if (!sym_type(job, i)) continue;
        of_ranks++;
        if (a->kind != ARG_TENSOR || a->tensor.rank == 0) continue;
        int64_t shards = a->tensor.extents[0];
        if (shards > MAX_RANKS || (job->ranks && job->ranks != shards))
            return bad_shards(job, job->kernel->params.at[i].name.text, shards);
        job->ranks = shards;
    }
    if (of_ranks && job->ranks == 0) job->ranks = 1;
    bool ok = of_ranks || !job->o->ranks;
    if (!ok) cli_error("--ranks: kernel '%s' has no symmetric tensor", job->kernel->name.text);
    if (job->ranks > MAX_RANKS) cli_error("at most %d ranks", MAX_RANKS);
    return ok && job->ranks <= MAX_RANKS;
}

/// Returns rank r's part of a tensor whose first dimension is the rank.
Tensor tensor_part(const Tensor *all, int64_t r) {
    Tensor t = *all;
    t.rank--;
    t.data = (char *)all->data + r * all->strides[0] * elem_info[t.elem].bits / 8;
    memmove(t.extents, t.extents + 1, sizeof *t.extents * (MAX_RANK - 1));
    memmove(t.strides, t.strides + 1, sizeof *t.strides * (MAX_RANK - 1));
    return t;
}

bool job_deal(Job *job) {
    if (!count_ranks(job)) return false;
    for (int i = 0; job->ranks && i < job->kernel->params.n; i++) {
        Argument *a = &job->args[i];
        const TypeExpr *type = job->kernel->params.at[i].type;
        if (a->kind != ARG_TENSOR || !type || type->kind != TY_TENSOR || type->sym) continue;
        bool pack = false;
        for (int d = 0; d < type->dims.n; d++) pack |= type->dims.at[d].pack;
        if (pack || a->tensor.rank != type->dims.n + 1 || a->tensor.extents[0] != job->ranks)
            continue;
        a->all = a->tensor;
        a->dealt = true;
        a->tensor = tensor_part(&a->all, 0);
    }
    return true;
}

/// Allocates memory for each rank's results, initialised from the single argument.
static bool spread_output(Job *job, const char *name, Argument *a) {
    const Tensor *t = &a->tensor;
    Tensor shape = {.elem = t->elem, .rank = t->rank + 1, .extents = {job->ranks}};
    int64_t span = 1;
    bool room = t->rank < MAX_RANK;
    for (int d = 0; room && d < t->rank; d++) {
        shape.extents[d + 1] = t->extents[d];
        shape.strides[d + 1] = t->strides[d];
        span += t->extents[d] > 1 ? (t->extents[d] - 1) * t->strides[d] : 0;
        room = t->strides[d] >= 0;
    }
    if (!room) {
        cli_error("'%s' is written: give each rank its own, as [%" PRId64 ", ...]", name,
                  job->ranks);
        return false;
    }
    int64_t line = TENSOR_ALIGN * 8 / elem_info[t->elem].bits;
    shape.strides[0] = ceil_div(span, line) * line;
    if (!tensor_create_strided(job->ctx, &shape, job->o->guard, &a->all)) return false;
    for (int64_t r = 0; r < job->ranks; r++) {
        Tensor to = tensor_part(&a->all, r);
        tensor_copy(&to, t);
    }
    a->dealt = true;
    a->tensor = tensor_part(&a->all, 0);
    return true;
}

bool job_spread(Job *job) {
    for (int i = 0; job->ranks && i < job->kernel->params.n; i++) {
        Argument *a = &job->args[i];
        const ParamUse *use = &job->build.code->params[i];
        if (a->kind == ARG_TENSOR && !a->dealt && !sym_type(job, i) && use->written &&
            !spread_output(job, use->name, a))
            return false;
    }
    return true;
}

Tensor job_tensor(const Job *job, int i, int64_t rank) {
    const Argument *a = &job->args[i];
    return a->dealt ? tensor_part(&a->all, rank) : a->tensor;
}
