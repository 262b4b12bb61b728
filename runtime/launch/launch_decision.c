// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Reports the setting of a launch and its reason, for people.
#include "runtime/runtime.h"

#include <stdio.h>

static void add_times(rt_text *t, tg_kernel *kernel, const tg_variant *v) {
    double seconds, standard;
    if (!rt_times(kernel, v, &seconds, &standard) || !(seconds > 0)) return;
    rt_add(t, ": %.4g us", seconds * 1e6);
    if (standard > 0) rt_add(t, " where the default takes %.4g us", standard * 1e6);
}

static void describe_decision(rt_text *t, tg_kernel *kernel, const tg_variant *v, bool near) {
    bool choice = v->config && *v->config;
    rt_add(t, "%s; ", choice ? v->config : "nothing to choose");
    if (v->tuned) {
        rt_add(t, near ? "tuned for these extents" : "tuned for other extents");
        add_times(t, kernel, v);
    } else {
        rt_add(t, rt_compiles(kernel) ? "by the cost model" : "as the object has it");
    }
}

static tg_status describe_launch(tg_kernel *kernel, rt_launcher *l, const tg_arg *args, int n,
                                 rt_text *t) {
    bool near = false;
    tg_status status = rt_bind(l, kernel->info, args, n);
    if (status) return status;
    const tg_variant *v = rt_known(kernel, l, &near);
    if (v) describe_decision(t, kernel, v, near);
    return v ? TG_OK
             : tg_fail(TG_ERROR_NOT_FOUND, "%s: nothing was compiled for such arguments",
                       kernel->info->name);
}

tg_status tg_kernel_decision(tg_kernel *kernel, const tg_arg *args, int n, char *text,
                             size_t size) {
    rt_text t = {.n = 0};
    if (text && size) *text = 0;
    if (!kernel) return tg_fail(TG_ERROR_ARGUMENT, "the kernel is NULL");
    if (rt_is_collective(kernel->info))
        return tg_fail(TG_ERROR_UNSUPPORTED, "%s: its ranks choose together", kernel->info->name);
    tg_context *c = rt_context();
    rt_launcher *l = c ? rt_claim(c) : NULL;
    if (!l) return tg_fail(TG_ERROR_MEMORY, "out of memory");
    tg_status status = describe_launch(kernel, l, args, n, &t);
    rt_give_back(l);
    if (!status && text && size) snprintf(text, size, "%s", t.data);
    return status;
}
