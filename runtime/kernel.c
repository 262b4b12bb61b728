// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Launches: bind the arguments, pick a variant, run it on the current context.
#include "runtime/runtime.h"

static tg_slot slot_of(const rt_actual *a) {
    if (!a->tensor) return (tg_slot){.bits = (uint64_t)a->value};
    return (tg_slot){.tensor = {a->data, a->shape, a->strides}};
}

/// "softmax.teg:3:9: N is 4 in 'x' and 5 in 'y'".
static tg_status report(const rt_launcher *l, const tg_kernel_info *info) {
    const tg_failure *f = &l->workers[0].failure;
    const tg_site *site = f->site;
    if (!site) return tg_fail(TG_ERROR_MEMORY, "%s: %s", info->name, f->text);
    if (!site->file) return tg_fail(TG_ERROR_CONTRACT, "%s: %s", info->name, f->text);
    return tg_fail(TG_ERROR_CONTRACT, "%s:%d:%d: %s", site->file, (int)site->line,
                   (int)site->column, f->text);
}

static tg_status run(rt_launcher *l, const tg_kernel_info *info, const tg_variant *v) {
    for (int i = 0; i < v->n_params; i++) l->slots[i] = slot_of(&l->actuals[v->params[i]]);
    return rt_launcher_run(l, v->entry, l->slots) ? report(l, info) : TG_OK;
}

static tg_status launch(tg_kernel *kernel, rt_launcher *l, const tg_arg *args, int n, bool runs) {
    const tg_variant *v;
    tg_status status = rt_bind(l, kernel->info, args, n);
    if (!status) status = rt_pick(kernel, l, &v);
    if (!status) status = rt_check_overlaps(l, kernel->info, v);
    return status || !runs ? status : run(l, kernel->info, v);
}

static tg_status launch_on_current(tg_kernel *kernel, const tg_arg *args, int n, bool runs) {
    if (!kernel) return tg_fail(TG_ERROR_ARGUMENT, "the kernel is NULL");
    if (kernel->abi != TG_ABI || kernel->info->n_params > TG_MAX_PARAMS)
        return tg_fail(TG_ERROR_UNSUPPORTED,
                       "the kernel was compiled for version %u of the runtime's interface, this "
                       "is %d: compile it again",
                       (unsigned)kernel->abi, TG_ABI);
    tg_context *c = rt_context();
    rt_launcher *l = c ? rt_claim(c) : NULL;
    if (!l) return tg_fail(TG_ERROR_MEMORY, "out of memory");
    tg_status status = launch(kernel, l, args, n, runs);
    rt_give_back(l);
    return status;
}

tg_status tg_launch(tg_kernel *kernel, const tg_arg *args, int n) {
    return launch_on_current(kernel, args, n, true);
}

tg_status tg_prepare(tg_kernel *kernel, const tg_arg *args, int n) {
    return launch_on_current(kernel, args, n, false);
}

/* ---- what a kernel says of itself ---------------------------------------------------------- */

const char *tg_kernel_name(const tg_kernel *kernel) {
    return kernel ? kernel->info->name : "";
}

const char *tg_kernel_signature(const tg_kernel *kernel) {
    return kernel ? kernel->info->signature : "";
}

int tg_kernel_params(const tg_kernel *kernel) {
    return kernel ? kernel->info->n_params : 0;
}

const char *tg_kernel_param(const tg_kernel *kernel, int i) {
    return i >= 0 && i < tg_kernel_params(kernel) ? kernel->info->params[i].name : NULL;
}
