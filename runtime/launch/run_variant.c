// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Runs a variant on bound arguments, and reports its failures.
#include "runtime/runtime.h"

static tg_slot argument_slot(const rt_actual *a) {
    if (!a->tensor) return (tg_slot){.bits = (uint64_t)a->value};
    return (tg_slot){.tensor = {a->data, a->shape, a->strides}};
}

/// "softmax.teg:3:9: N is 4 in 'x' and 5 in 'y'".
RT_SELDOM tg_status rt_report(const rt_launcher *l, const tg_kernel_info *info) {
    const tg_failure *f = &l->workers[0].failure;
    const tg_site *site = f->site;
    if (l->gpu.status) return tg_fail(l->gpu.status, "%s: %s", info->name, tg_last_error());
    if (!site) return tg_fail(TG_ERROR_MEMORY, "%s: %s", info->name, f->text);
    tg_status status = site->kind == TG_SITE_WAIT ? TG_ERROR_RANK : TG_ERROR_CONTRACT;
    if (!site->file) return tg_fail(status, "%s: %s", info->name, f->text);
    return tg_fail(status, "%s:%d:%d: %s", site->file, (int)site->line, (int)site->column, f->text);
}

tg_status rt_run_slots(rt_launcher *l, const tg_kernel_info *info, const tg_variant *v,
                       const tg_slot *slots, rt_loaded *at, void *stream) {
    l->gpu.status = TG_OK;
    int failed = rt_launcher_run(l, v->entry, slots, v->image, l->device, at, stream);
    return failed ? rt_report(l, info) : TG_OK;
}

tg_status rt_run(rt_launcher *l, const tg_kernel_info *info, const tg_variant *v, void *stream) {
    for (int i = 0; i < v->n_params; i++) l->slots[i] = argument_slot(&l->actuals[v->params[i]]);
    return rt_run_slots(l, info, v, l->slots, &(rt_loaded){0}, stream);
}
