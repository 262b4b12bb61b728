// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The arguments of the command line in the form that compiled code takes.
#include "tools/tegula/driver.h"

#include <string.h>

static int use_by_name(const Elaborated *code, const char *name) {
    for (int i = 0; i < code->n_params; i++)
        if (strcmp(code->params[i].name, name) == 0) return i;
    return -1;
}

/// Axes from .. to of `t` as one: the elaborator has seen that one stride walks them. Axes of
/// extent 1 have no say; no axes at all are one row.
static void join_axes(const Tensor *t, int from, int to, Tensor *out) {
    int64_t extent = 1, stride = 1;
    for (int i = to - 1; i >= from; i--) {
        if (extent == 1) stride = t->strides[i];
        extent *= t->extents[i];
    }
    out->extents[out->rank] = extent;
    out->strides[out->rank++] = stride;
}

/// The tensor with the axes of its pack put together as the code was compiled for.
static Tensor merge_pack(const Tensor *t, const ParamUse *use) {
    Tensor out = {.data = t->data, .elem = t->elem};
    int pack_end = use->pack_at + use->pack_given;
    for (int i = 0; i <= t->rank; i++) {
        if (i == use->pack_at)
            for (int g = 0; g < use->pack_rank; g++)
                join_axes(t, i + use->pack_from[g], i + use->pack_from[g + 1], &out);
        bool in_pack = use->pack_at >= 0 && i >= use->pack_at && i < pack_end;
        if (i < t->rank && !in_pack) join_axes(t, i, i + 1, &out);
    }
    return out;
}

Bound job_bind(Job *job) {
    const Elaborated *code = job->code;
    Op *kernel = find_kernel(code->module, code->name);
    const Attr *names = kernel ? op_attr(kernel, "params") : NULL;
    if (!names || names->n != kernel->regions[0]->n_args)
        ice(job->ctx, (Loc){0}, "kernel '%s' does not name its parameters", code->name);
    Bound b = {.n = names->n,
               .uses = ctx_array(job->ctx, const ParamUse *, names->n + 1),
               .args = ctx_array(job->ctx, InterpArg, names->n + 1)};
    for (int k = 0; k < names->n; k++) {
        int i = use_by_name(code, names->strs[k]);
        if (i < 0) ice(job->ctx, kernel->loc, "there is no parameter '%s'", names->strs[k]);
        b.uses[k] = &code->params[i];
        b.args[k].scalar = job->args[i].scalar;
        if (job->args[i].kind == ARG_TENSOR)
            b.args[k].tensor = merge_pack(&job->args[i].tensor, b.uses[k]);
    }
    return b;
}
