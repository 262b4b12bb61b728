// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Converts the arguments of the command line to the form of compiled code.
#include "runtime/base/view_overlap.h"
#include "tools/tegula/executors.h"

#include "lang/diag.h"

#include <string.h>

Bound job_bind(Job *job) {
    return job_bind_rank(job, 0);
}

Bound job_bind_rank(Job *job, int64_t rank) {
    int n = build_arguments(&job->build), i;
    Bound b = {.n = n,
               .uses = ctx_array(job->ctx, const ParamUse *, n + 1),
               .args = ctx_array(job->ctx, InterpArg, n + 1)};
    for (int k = 0; k < n; k++) {
        b.uses[k] = build_argument(&job->build, k, &i);
        b.args[k].scalar = job->args[i].scalar;
        if (job->args[i].kind != ARG_TENSOR) continue;
        Tensor t = job_tensor(job, i, rank);
        b.args[k].tensor = build_merge_pack(&t, b.uses[k]);
    }
    return b;
}

/* ---- overlaps ------------------------------------------------------------------------------ */

bool tensor_span(const Tensor *t, uintptr_t *lo, uintptr_t *hi) {
    int64_t first = 0, last = 0;
    if (!t->data) return false;
    for (int i = 0; i < t->rank; i++)
        if (t->extents[i] == 0) return false;
    for (int i = 0; i < t->rank; i++) {
        int64_t way = (t->extents[i] - 1) * t->strides[i];
        *(way < 0 ? &first : &last) += way;
    }
    int64_t bits = elem_info[t->elem].bits;
    *lo = (uintptr_t)t->data + (uintptr_t)(first * bits / 8);
    *hi = (uintptr_t)t->data + (uintptr_t)(((last + 1) * bits + 7) / 8);
    return true;
}

/// Whether two parameters are the same view: equal in everything that selects elements.
static bool is_same_tensor_view(const Tensor *a, const Tensor *b) {
    if (a->data != b->data || a->elem != b->elem || a->rank != b->rank) return false;
    for (int i = 0; i < a->rank; i++)
        if (a->extents[i] != b->extents[i] || a->strides[i] != b->strides[i]) return false;
    return true;
}

/// Whether the kernel was proved correct with these two parameters as one view.
static bool may_share_in_place(const Attr *pairs, int a, int b) {
    for (int i = 0; pairs && i + 1 < pairs->n; i += 2)
        if ((pairs->ints[i] == a && pairs->ints[i + 1] == b) ||
            (pairs->ints[i] == b && pairs->ints[i + 1] == a))
            return true;
    return false;
}

static rt_view tensor_view(const Tensor *t) {
    return (rt_view){t->data, t->extents, t->strides, t->rank, elem_info[t->elem].bits};
}

static rt_meeting tensors_meeting(const Tensor *x, const Tensor *y) {
    uintptr_t lo[2], hi[2];
    if (!tensor_span(x, &lo[0], &hi[0]) || !tensor_span(y, &lo[1], &hi[1])) return RT_APART;
    if (lo[0] >= hi[1] || lo[1] >= hi[0]) return RT_APART;
    rt_view views[2] = {tensor_view(x), tensor_view(y)};
    return rt_views_meet(&views[0], &views[1]);
}

static bool refuse_binding(const Job *job, const char *text) {
    diag(job->ctx, job->kernel->name.loc, D_RUN_FAILED, text);
    return false;
}

/// Checks that different positions of a written tensor are different elements.
static bool check_written_tensor(const Job *job, const Bound *b, int i) {
    rt_view view = tensor_view(&b->args[i].tensor);
    if (!b->uses[i]->written || rt_view_meets_itself(&view) == RT_APART) return true;
    return refuse_binding(
        job, ctx_format(job->ctx,
                        "'%s' is written, and its strides put several positions on one "
                        "element",
                        b->uses[i]->name));
}

static bool check_argument_pair(const Job *job, const Bound *b, const Attr *in_place, int i,
                                int j) {
    const Tensor *x = &b->args[i].tensor, *y = &b->args[j].tensor;
    bool twice = j < i && b->uses[j]->written; // whether the pair was checked before
    if (i == j || twice || !b->uses[i]->written) return true;
    if (is_same_tensor_view(x, y) && may_share_in_place(in_place, i, j)) return true;
    rt_meeting found = tensors_meeting(x, y);
    if (found == RT_APART) return true;
    return refuse_binding(job, ctx_format(job->ctx, "'%s' is written and %s '%s'", b->uses[i]->name,
                                          rt_meeting_text(found), b->uses[j]->name));
}

/// A tensor that the kernel writes must not overlap another one, unless both are one view and each
/// element is read before it is written. The pass `alias` proves the latter.
bool job_check_overlaps(Job *job) {
    Bound b = job_bind(job);
    const Op *kernel = find_kernel(job->build.code->module, job->build.code->name);
    const Attr *in_place = op_ints(kernel, A_IN_PLACE);
    for (int i = 0; i < b.n; i++) {
        if (!check_written_tensor(job, &b, i)) return false;
        for (int j = 0; j < b.n; j++)
            if (!check_argument_pair(job, &b, in_place, i, j)) return false;
    }
    return true;
}

bool job_fill(Job *job) {
    for (int i = 0; backend_fills() && i < job->kernel->params.n; i++) {
        const Argument *a = &job->args[i];
        const ParamUse *use = &job->build.code->params[i];
        if (!a->inferred || !use->written || use->read) continue;
        int64_t bits = tensor_count(&a->whole) * elem_info[a->whole.elem].bits;
        memset(a->whole.data, FILL_BYTE, (size_t)((bits + 7) / 8));
    }
    return true;
}
