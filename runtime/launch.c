// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Launches: bind the arguments, pick a variant, tune it on request, run it on the current context.
// Only this file uses all folders of the runtime.
#include "runtime/compiler.h"
#include "runtime/launch/warm_launch.h"

/// Loads the code of a GPU, which its first launch would do.
static tg_status prepare_image(rt_launcher *l, const tg_variant *v) {
    rt_entered entered;
    if (!v->image) return TG_OK;
    rt_loaded at = {0};
    tg_status status = rt_gpu_begin(l, v->image, l->device, &at, l->gpu.stream, &entered);
    rt_gpu_end(l, entered);
    return status;
}

/// A driver may be older than machine code that is right for its device: PTX of the same kernel, or
/// code for an earlier architecture, then serves.
static tg_status pick_loadable(tg_kernel *kernel, rt_launcher *l, const tg_variant **v,
                               bool *chosen) {
    const tg_kernel_info *info = kernel->info;
    tg_status status = rt_pick(kernel, l, v, chosen);
    bool several = info->n_variants > 1; // of an object
    if (status || !*chosen || !(*v)->image || !several) return status;
    while ((status = prepare_image(l, *v)) == TG_ERROR_UNSUPPORTED) {
        const tg_variant *failed = *v;
        rt_image_refuse(failed->image, true);
        if (rt_pick(kernel, l, v, NULL) == TG_OK) continue;
        rt_image_refuse(failed->image, false);
        status = prepare_image(l, failed); // for its message
        break;
    }
    return status ? tg_fail(status, "%s: %s", info->name, tg_last_error()) : TG_OK;
}

/// The action of a launch after its arguments are bound.
typedef struct LaunchWish {
    bool runs;
    void *stream;
} LaunchWish;

// Compiled code calls the services by their places. A new one needs a new TG_ABI, and then its
// count here: objects that call it must not run on a runtime without it.
_Static_assert(TG_ABI == 5 && sizeof(tg_env) == 12 * sizeof(void *), "tg_env has changed");

RT_SELDOM static tg_status wrong_version(const tg_kernel *kernel) {
    return tg_fail(TG_ERROR_UNSUPPORTED,
                   "the kernel was compiled for version %u of the runtime's interface, this is %d: "
                   "compile it again",
                   (unsigned)kernel->abi, TG_ABI);
}

RT_SELDOM static tg_status launch_kernel(tg_kernel *kernel, rt_launcher *l, const tg_arg *args,
                                         int n, LaunchWish wish) {
    const tg_variant *v;
    bool chosen = false;
    if (kernel->info->n_params > TG_MAX_PARAMS || kernel->info->n_types > TG_MAX_TYPES)
        return wrong_version(kernel);
    uint64_t epoch = rt_epoch(kernel);
    tg_status status = rt_bind(l, kernel->info, args, n);
    l->gpu.stream = wish.stream;
    if (!status && l->comm) status = rt_comm_agree(l, kernel, &v);
    if (!status && !l->comm) status = pick_loadable(kernel, l, &v, &chosen);
    if (!status && chosen && rt_tune(kernel, l, args, n)) status = rt_pick(kernel, l, &v, NULL);
    if (!status) status = rt_check_overlaps(l, kernel->info, v);
    if (status) return status;
    if (!wish.runs) return prepare_image(l, v);
    rt_memo_keep(l, kernel, v, args, n, epoch);
    if (l->comm) rt_comm_announce(l, kernel->info, v->config);
    return rt_run(l, kernel->info, v, wish.stream);
}

RT_WARM static tg_status launch_on_current(tg_kernel *kernel, const tg_arg *args, int n,
                                           LaunchWish wish) {
    if (!kernel) return tg_fail(TG_ERROR_ARGUMENT, "the kernel is NULL");
    if (kernel->abi != TG_ABI) return wrong_version(kernel);
    tg_context *c = rt_warm_context();
    rt_launcher *l = c ? rt_warm_claim(c) : NULL;
    if (!l) return tg_fail(TG_ERROR_MEMORY, "out of memory");
    bool collective = c->comm && wish.runs && rt_is_collective(kernel->info);
    tg_status status = collective ? rt_comm_enter(l, kernel->info->name) : TG_OK;
    if (!status && !(wish.runs && rt_memo_launch(l, kernel, args, n, wish.stream, &status)))
        status = launch_kernel(kernel, l, args, n, wish);
    if (l->comm) status = rt_comm_leave(l, status);
    rt_warm_give_back(l);
    return status;
}

RT_WARM tg_status tg_launch(tg_kernel *kernel, const tg_arg *args, int n) {
    return launch_on_current(kernel, args, n, (LaunchWish){.runs = true});
}

RT_WARM tg_status tg_launch_on(tg_kernel *kernel, const tg_arg *args, int n, void *stream) {
    return launch_on_current(kernel, args, n, (LaunchWish){.runs = true, .stream = stream});
}

tg_status tg_prepare(tg_kernel *kernel, const tg_arg *args, int n) {
    return launch_on_current(kernel, args, n, (LaunchWish){.runs = false});
}

/* ---- a kernel's description ---------------------------------------------------------------- */

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

/// Searches in the background that are of this kernel end first.
void tg_kernel_close(tg_kernel *kernel) {
    tg_queue_cancel(kernel);
    rt_kernel_close(kernel);
}
