// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The arguments of the command line in the form that compiled code takes.
#include "tools/tegula/driver.h"

#include <string.h>

static int use_by_name(const Elaborated *code, const char *name) {
    for (int i = 0; i < code->n_params; i++)
        if (strcmp(code->params[i].name, name) == 0) return i;
    return -1;
}

static void drop_axis(Tensor *t, int axis) {
    for (int i = axis; i + 1 < t->rank; i++) {
        t->extents[i] = t->extents[i + 1];
        t->strides[i] = t->strides[i + 1];
    }
    t->rank--;
}

/// Makes one axis of axes i and i + 1; false where no single stride walks both.
static bool merge_axes(Tensor *t, int i) {
    int64_t inner = t->extents[i + 1];
    if (t->extents[i] == 1) {
        drop_axis(t, i);
        return true;
    }
    if (inner != 1 && t->strides[i] != inner * t->strides[i + 1]) return false;
    if (inner == 1) t->strides[i + 1] = t->strides[i];
    t->extents[i + 1] *= t->extents[i];
    drop_axis(t, i);
    return true;
}

/// The axes of the pack become as many as the code was compiled for, merged from the inside out.
static Tensor merge_pack(Ctx *ctx, Tensor t, const ParamUse *use) {
    int left = use->pack_given;
    if (use->pack_at < 0) return t;
    for (int i = left - 2; i >= 0 && left > use->pack_rank; i--)
        left -= merge_axes(&t, use->pack_at + i);
    if (left == 0 && use->pack_rank == 1) { // no axes at all: one row
        for (int i = t.rank++; i > use->pack_at; i--) {
            t.extents[i] = t.extents[i - 1];
            t.strides[i] = t.strides[i - 1];
        }
        t.extents[use->pack_at] = 1;
        t.strides[use->pack_at] = 1;
        left = 1;
    }
    if (left != use->pack_rank)
        ice(ctx, (Loc){0}, "'%s' has a pack of %d axes, not %d", use->name, left, use->pack_rank);
    return t;
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
            b.args[k].tensor = merge_pack(job->ctx, job->args[i].tensor, b.uses[k]);
    }
    return b;
}
