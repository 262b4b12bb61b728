// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Default arguments for commands that measure: from --dim, or of a suitable size.
#include "driver/aot/aot.h"
#include "tools/tegula/job.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { DEFAULT_EXTENT = 1024, MOST_ELEMENTS = 1 << 25, DEFAULT_RANKS = 2 };

/// Returns the extent in "NAME=EXTENT" for a name of the kernel's tensors; -1 (reported): none.
static int64_t read_dim_option(Job *job, const char *option, const char **name) {
    const char *text = args_pair(job->ctx, "dim", option, name);
    if (!text) return -1;
    char *end;
    errno = 0;
    long long extent = strtoll(text, &end, 0);
    if (errno || end == text || *end || extent < 0) {
        cli_error("--dim %s: expected NAME=EXTENT", option);
        return -1;
    }
    Aot a = {.ctx = job->ctx, .program = job->program};
    AotNames names = {0};
    aot_dims(&a, job->kernel, &names);
    Text all = {.ctx = job->ctx};
    for (int i = 0; i < names.n; i++) {
        text_add(&all, "%s%s", i ? ", " : "", names.data[i]);
        if (strcmp(names.data[i], *name) == 0) return extent;
    }
    cli_error("--dim %s: kernel '%s' has no such dim", option, job->kernel->name.text);
    cli_hint("its dims are %s", all.n ? all.data : "none");
    return -1;
}

static int64_t dimension_extent(const Dimension *d) {
    return d->pack < 0 ? d->value : extents_product(d->extents, d->pack);
}

bool job_take_dims(Job *job, Dimensions *dims) {
    for (int i = 0; i < job->o->dims.n; i++) {
        const char *option = job->o->dims.at[i], *name;
        int64_t extent = read_dim_option(job, option, &name);
        const Dimension *known = extent < 0 ? NULL : dims_find(dims, name);
        if (extent < 0) return false;
        if (!known) dims_set(job->ctx, dims, name, extent);
        if (!known || dimension_extent(known) == extent) continue;
        cli_error("--dim %s: %s is already %" PRId64 "", option, name, dimension_extent(known));
        cli_hint("leave out --dim, or the --arg of tensors that have %s", name);
        return false;
    }
    return true;
}

/// Makes a pack of one dim, with the extent that its name was given.
static void make_pack(Dimensions *dims, const char *name) {
    for (int i = 0; i < dims->n; i++) {
        Dimension *d = &dims->data[i];
        if (strcmp(d->name, name) != 0) continue;
        d->pack = 1;
        d->extents[0] = d->value;
    }
}

/// Symmetric tensors get one shard for each rank.
static void choose_ranks(Job *job, Dimensions *dims) {
    for (int i = 0; i < job->kernel->params.n; i++) {
        const TypeExpr *t = job->kernel->params.at[i].type;
        const Expr *e = job_is_symmetric(job, i) && t->dims.n ? t->dims.at[0].expr : NULL;
        if (e && e->kind == EX_NAME && !dims_find(dims, e->name))
            dims_set(job->ctx, dims, e->name, job->o->ranks ? job->o->ranks : DEFAULT_RANKS);
    }
}

/// Takes the values of --dim and --ranks, then the default for every other name of a tensor's dims.
static bool choose_dims(Job *job, int64_t otherwise, Dimensions *dims) {
    if (!job_take_dims(job, dims)) return false;
    choose_ranks(job, dims);
    for (int i = 0; i < job->kernel->params.n; i++) {
        const Param *p = &job->kernel->params.at[i];
        const TypeExpr *t = p->type;
        for (int d = 0; param_is_tensor(p) && d < t->dims.n; d++) {
            const Expr *e = t->dims.at[d].expr;
            if (e->kind != EX_NAME) continue;
            if (!dims_find(dims, e->name)) dims_set(job->ctx, dims, e->name, otherwise);
            if (t->dims.at[d].pack) make_pack(dims, e->name);
        }
    }
    return true;
}

/// Returns the largest number of elements of a tensor, or -1 if its dims cannot be evaluated.
static int64_t largest_elements(const Dimensions *dims, const TypeExpr *type, int64_t *extents,
                                int *rank) {
    NoShape why;
    if (!dims_extents(dims, type, rank, extents, &why)) return -1;
    return extents_product(extents, *rank);
}

/// Halves the default extent until no tensor is too large.
static bool fitting_dims(Job *job, Dimensions *dims) {
    for (int64_t extent = DEFAULT_EXTENT;; extent /= 2) {
        *dims = (Dimensions){0};
        int64_t most = 0, extents[MAX_RANK];
        if (!choose_dims(job, extent, dims)) return false;
        for (int i = 0; i < job->kernel->params.n; i++) {
            const Param *p = &job->kernel->params.at[i];
            int rank;
            int64_t n = param_is_tensor(p) ? largest_elements(dims, p->type, extents, &rank) : 0;
            if (n > most) most = n;
        }
        if (most <= MOST_ELEMENTS || extent == 1) return true;
    }
}

static bool is_given(const Options *o, const char *name) {
    size_t n = strlen(name);
    for (int i = 0; i < o->args.n; i++)
        if (strncmp(o->args.at[i], name, n) == 0 && o->args.at[i][n] == '=') return true;
    return false;
}

/// "x=rand(1024,1024)", "scale=1"; NULL if the parameter needs no argument.
static const char *made_up(Job *job, const Dimensions *dims, const Param *p, const char *data) {
    if (!param_is_tensor(p)) return ctx_format(job->ctx, "%s=1", p->name.text);
    if (p->optional) return NULL;
    int rank;
    int64_t extents[MAX_RANK];
    if (largest_elements(dims, p->type, extents, &rank) < 0) return NULL;
    Text t = {.ctx = job->ctx};
    text_add(&t, "%s=%s(", p->name.text, data);
    for (int i = 0; i < rank; i++) text_add(&t, "%s%" PRId64, i ? "," : "", extents[i]);
    text_add(&t, ")");
    return t.data;
}

static bool gives_tensor(const Job *job) {
    for (int i = 0; i < job->kernel->params.n; i++) {
        const Param *p = &job->kernel->params.at[i];
        if (param_is_tensor(p) && is_given(job->o, p->name.text)) return true;
    }
    return false;
}

bool job_complete(Job *job, Options *o, const char *data) {
    Dimensions dims;
    if (!fitting_dims(job, &dims)) return false;
    const char **all = ctx_array(job->ctx, const char *, o->args.n + job->kernel->params.n);
    if (o->args.n) memcpy(all, o->args.at, sizeof *all * (size_t)o->args.n);
    int n = o->args.n;
    // Once one tensor is given, its extents and those of --dim determine the other tensors.
    bool follow = gives_tensor(job);
    for (int i = 0; i < job->kernel->params.n; i++) {
        const Param *p = &job->kernel->params.at[i];
        if (is_given(o, p->name.text) || (param_is_tensor(p) && follow)) continue;
        const char *arg = made_up(job, &dims, p, data);
        if (arg) all[n++] = arg;
    }
    o->args = (List){all, n};
    return true;
}
