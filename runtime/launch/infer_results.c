// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Infers the tensors that a caller has to allocate for a launch. The compiler knows the dims; the
// runtime checks the given arguments as a launch does.
#include "runtime/runtime.h"

#include <string.h>

static void set_flags(const tg_param_info *p, tg_inferred *out) {
    if (p->kind != TG_PARAM_TENSOR) return;
    if (p->flags & TG_PARAM_OPTIONAL) out->flags |= TG_INFERRED_OPTIONAL;
    if (p->flags & TG_PARAM_WRITTEN) out->flags |= TG_INFERRED_WRITTEN;
    if (p->flags & TG_PARAM_READ) out->flags |= TG_INFERRED_READ;
}

static tg_status infer_bound(tg_kernel *kernel, rt_launcher *l, const tg_arg *args, int n,
                             tg_inferred *out) {
    const tg_kernel_info *info = kernel->info;
    tg_status status = rt_bind_given(l, info, args, n);
    if (status) return status;
    memset(out, 0, sizeof *out * (size_t)n);
    for (int i = 0; i < n; i++) set_flags(&info->params[i], &out[i]);
    return rt_infer(kernel, l, out);
}

tg_status tg_kernel_infer(tg_kernel *kernel, const tg_arg *args, int n, tg_inferred *out) {
    if (!kernel || (n && !out))
        return tg_fail(TG_ERROR_ARGUMENT, kernel ? "out is NULL" : "the kernel is NULL");
    if (rt_is_collective(kernel->info))
        return tg_fail(TG_ERROR_UNSUPPORTED, "%s: symmetric tensors are allocated by tg_sym_alloc",
                       kernel->info->name);
    tg_context *c = rt_context();
    rt_launcher *l = c ? rt_claim(c) : NULL;
    if (!l) return tg_fail(TG_ERROR_MEMORY, "out of memory");
    tg_status status = infer_bound(kernel, l, args, n, out);
    rt_give_back(l);
    return status;
}

const char *tg_kernel_doc(tg_kernel *kernel) {
    return kernel ? rt_doc(kernel) : "";
}
