// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Images on devices: loaded at the first launch or before it, and kept until the image is
// destroyed.
#include "runtime/gpu/gpu_launch.h"

#include "runtime/base/base.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/// The struct behind image->state.
typedef struct LoadedImage {
    _Atomic bool refused; // the driver refused it, see rt_image_refuse
    _Atomic(rt_program *) on[RT_DEVICES];
} LoadedImage;

static tg_lock loading = TG_LOCK_INIT;

enum { LOG_BYTES = 8192 };

/* ---- code for a device --------------------------------------------------------------------- */

static LoadedImage *loaded_of(const tg_image *image) {
    return __atomic_load_n((void *const *)&image->state, __ATOMIC_ACQUIRE);
}

void rt_image_refuse(tg_image *image, bool refused) {
    LoadedImage *l = loaded_of(image);
    if (l) atomic_store(&l->refused, refused);
}

/// The capability numbers of NVIDIA and AMD GPUs overlap, so the vendor is compared too.
static bool is_of_maker(const tg_image *image) {
    const rt_cuda *cu = rt_cuda_driver();
    return cu && (image->kind == TG_IMAGE_HSACO) == cu->maker->hip;
}

/// PTX runs on all later devices, machine code on those of one major version.
bool rt_image_runs(const tg_image *image, int capability) {
    const LoadedImage *l = loaded_of(image);
    if (image->kind == TG_IMAGE_CALL || !is_of_maker(image)) return false;
    if (l && atomic_load(&l->refused)) return false;
    if (image->specific || capability < image->arch) return image->arch == capability;
    return image->kind == TG_IMAGE_PTX || image->arch / 10 == capability / 10;
}

/* ---- loading ------------------------------------------------------------------------------- */

/// Loads the code; a failure includes the log of the driver's compiler.
static tg_status load_cuda_module(const tg_image *image, const rt_device *d, cu_module *out) {
    char log[LOG_BYTES] = "";
    unsigned n = image->kind == TG_IMAGE_HSACO ? 0 : 2;
    int options[] = {CU_JIT_ERROR_LOG, CU_JIT_ERROR_LOG_BYTES};
    void *values[] = {log, (void *)(uintptr_t)LOG_BYTES};
    cu_result error = rt_cuda_driver()->module_load(out, image->bytes, n, options, values);
    log[LOG_BYTES - 1] = 0;
    if (!error) return TG_OK;
    return rt_cuda_fail("cuModuleLoadDataEx", error, "loading %s code for %s on device %d (%s)%s%s",
                        image->kind == TG_IMAGE_PTX ? "PTX" : "machine", image->target, d->number,
                        d->name, log[0] ? ": " : "", log);
}

/// Requests more shared memory than the default, and large clusters.
static tg_status prepare_function(const tg_device_function *f, const rt_device *d,
                                  cu_function function) {
    const rt_cuda *cu = rt_cuda_driver();
    if (f->shared_bytes > d->shared_bytes)
        return tg_fail(TG_ERROR_UNSUPPORTED,
                       "'%s' needs %d bytes of shared memory for a CTA, device %d (%s) has %d: "
                       "choose smaller tune values",
                       f->name, f->shared_bytes, d->number, d->name, d->shared_bytes);
    if (tg_cluster_of(f) > 1 && !cu->launch_ex)
        return tg_fail(TG_ERROR_UNSUPPORTED, "'%s' needs clusters, which this driver has not",
                       f->name);
    cu_result error = 0;
    if (f->shared_bytes > CU_DEFAULT_SHARED)
        error = cu->function_set(function, CU_MAX_SHARED, f->shared_bytes);
    if (!error && tg_cluster_of(f) > CU_PORTABLE_CLUSTER)
        error = cu->function_set(function, CU_LARGE_CLUSTERS, 1);
    if (!error) return TG_OK;
    return rt_cuda_fail("cuFuncSetAttribute", error,
                        "'%s': %d bytes of shared memory, clusters of %d CTAs on device %d (%s)",
                        f->name, f->shared_bytes, tg_cluster_of(f), d->number, d->name);
}

static tg_status find_functions(const tg_image *image, const rt_device *d, rt_program *p) {
    for (int i = 0; i < image->n_functions; i++) {
        const tg_device_function *f = &image->functions[i];
        if (f->n_args >= RT_DEVICE_ARGS)
            return tg_fail(TG_ERROR_UNSUPPORTED, "'%s' has more than %d parameters", f->name,
                           RT_DEVICE_ARGS - 1);
        cu_result error = rt_cuda_driver()->module_function(&p->functions[i], p->module, f->name);
        if (error)
            return rt_cuda_fail("cuModuleGetFunction", error, "finding '%s' in code for %s",
                                f->name, image->target);
        tg_status status = prepare_function(f, d, p->functions[i]);
        if (status) return status;
    }
    return TG_OK;
}

static void unload_program(rt_program *p) {
    rt_cuda_driver()->module_unload(p->module);
    free(p);
}

static tg_status load_program(const tg_image *image, const rt_device *d, rt_program **out) {
    size_t n = (size_t)(image->n_functions > 0 ? image->n_functions : 0);
    rt_program *p = calloc(1, sizeof *p + n * sizeof *p->functions);
    if (!p) return tg_fail(TG_ERROR_MEMORY, "out of memory");
    double start = rt_seconds();
    tg_status status = load_cuda_module(image, d, &p->module);
    if (status) {
        free(p);
        return status;
    }
    status = find_functions(image, d, p);
    p->load_seconds = rt_seconds() - start;
    if (status)
        unload_program(p);
    else
        *out = p;
    return status;
}

/// A stream of this thread may be capturing. Loading must not become part of the capture.
static tg_status load_relaxed(tg_image *image, const rt_device *d, rt_program **out) {
    rt_entered e = {.mode = -1};
    rt_relax(&e);
    tg_status status = load_program(image, d, out);
    rt_strict(&e);
    return status;
}

static rt_program *program_of(const tg_image *image, const rt_device *d) {
    LoadedImage *l = loaded_of(image);
    return l ? atomic_load_explicit(&l->on[d->number], memory_order_acquire) : NULL;
}

/// The caller holds the lock. NULL, with tg_last_error(): out of memory.
static LoadedImage *make_loaded(tg_image *image) {
    LoadedImage *l = loaded_of(image);
    if (l) return l;
    l = calloc(1, sizeof *l);
    if (!l) tg_fail(TG_ERROR_MEMORY, "out of memory");
    __atomic_store_n(&image->state, l, __ATOMIC_RELEASE);
    return l;
}

tg_status rt_program_get(tg_image *image, const rt_device *d, const rt_program **out) {
    rt_program *p = program_of(image, d);
    *out = p;
    if (p) return TG_OK;
    tg_lock_take(&loading);
    LoadedImage *l = make_loaded(image);
    tg_status status = l ? TG_OK : TG_ERROR_MEMORY;
    p = l ? atomic_load(&l->on[d->number]) : NULL;
    if (l && !p) {
        status = load_relaxed(image, d, &p);
        if (!status) atomic_store_explicit(&l->on[d->number], p, memory_order_release);
    }
    tg_lock_give(&loading);
    *out = p;
    return status;
}

/// Publishes a program for launches. If another launch has published one meanwhile, that one stays.
static tg_status publish_program(tg_image *image, const rt_device *d, rt_program *p) {
    tg_lock_take(&loading);
    LoadedImage *l = make_loaded(image);
    bool known = l && atomic_load(&l->on[d->number]);
    if (l && !known) atomic_store_explicit(&l->on[d->number], p, memory_order_release);
    tg_lock_give(&loading);
    if (!l || known) unload_program(p);
    return l ? TG_OK : TG_ERROR_MEMORY;
}

/// Loads outside the lock, so that launches of other code do not wait.
tg_status tg_image_prepare(tg_image *image, int device) {
    rt_device *d;
    rt_entered e;
    tg_status status = rt_device_get(device, &d);
    if (status) return status;
    status = rt_enter(d, &e);
    rt_program *p = status ? NULL : program_of(image, d);
    if (!status && !p) {
        status = load_relaxed(image, d, &p);
        if (!status) status = publish_program(image, d, p);
    }
    rt_leave(e);
    return status;
}

/* ---- queries of the compiler --------------------------------------------------------------- */

double tg_image_load_seconds(const tg_image *image, int device) {
    LoadedImage *l = device >= 0 && device < RT_DEVICES ? loaded_of(image) : NULL;
    const rt_program *p = l ? atomic_load(&l->on[device]) : NULL;
    return p ? p->load_seconds : -1;
}

/// Launches are asynchronous, and the caller may destroy a kernel right after one. Some may still
/// run.
void tg_image_unload(tg_image *image) {
    LoadedImage *l = loaded_of(image);
    for (int i = 0; l && i < RT_DEVICES; i++) {
        rt_program *p = atomic_load(&l->on[i]);
        rt_entered e;
        if (!p || rt_enter(rt_device_at(i), &e)) continue;
        rt_relax(&e);
        rt_cuda_driver()->synchronize();
        unload_program(p);
        rt_strict(&e);
        rt_leave(e);
    }
    free(l);
    image->state = NULL;
}
