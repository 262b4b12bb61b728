// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// See gpu_kernels.h.
#include "tests/runtime/gpu_kernels.h"

#include <dlfcn.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

FakeDriver fake;

/* ---- device code --------------------------------------------------------------------------- */

_Thread_local FakeLaunch seen_launch;
_Thread_local int launches;
_Thread_local bool sticks;

/// y[i] = a x[i] + w[0], where w is null or a workspace.
void scale_kernel(const FakeLaunch *launch, void **args) {
    const float *x = *(float **)args[0], *w = *(float **)args[4];
    float *y = *(float **)args[1], a = *(float *)args[3];
    int64_t n = *(int64_t *)args[2];
    seen_launch = *launch;
    launches++;
    if (sticks) fake.fake_stick(1);
    for (int64_t i = 0; i < n; i++) y[i] = a * x[i] + (w ? w[0] : 0);
}

/// w[0] = v
void fill_kernel(const FakeLaunch *launch, void **args) {
    seen_launch = *launch;
    launches++;
    **(float **)args[0] = *(float *)args[1];
}

/// Program p prints x[p], and asserts that it is not 13. Two of the programs write out of order.
void report_kernel(const FakeLaunch *launch, void **args) {
    tg_faults *f = *(tg_faults **)args[1];
    uint64_t *words = (uint64_t *)(f + 1);
    const float *x = *(float **)args[0];
    for (unsigned i = 0; i < launch->grid; i++) {
        unsigned p = i ^ (launch->grid % 2 == 0);
        double v = x[p];
        uint32_t site = x[p] == 13, at = f->used;
        f->used += 3;
        f->failed |= site;
        if (f->used > f->capacity) continue;
        words[at] = site | (uint64_t)1 << 32;
        words[at + 1] = p;
        memcpy(&words[at + 2], &v, sizeof v);
    }
}

_Thread_local uint32_t *counter_seen, counted_from;

/// Asks the counter n times, of `all` times.
void count_kernel(const FakeLaunch *launch, void **args) {
    uint32_t *counter = *(uint32_t **)args[0];
    int64_t n = *(int64_t *)args[1], all = *(int64_t *)args[2];
    seen_launch = *launch;
    counter_seen = counter;
    counted_from = *counter;
    for (int64_t i = 0; i < n; i++) *counter = *counter < all - 1 ? *counter + 1 : 0;
}

/* ---- host code ----------------------------------------------------------------------------- */

_Thread_local int workspaces[2]; // bytes that the host code requests, 0: none
_Thread_local float filled;
_Thread_local int64_t grid;
tg_tensormap *map;
int64_t n_rows = 3;
unsigned char map_bytes[2][TG_TENSORMAP_BYTES] __attribute__((aligned(64)));

int32_t scale_entry(const tg_slot *args, const tg_env *env) {
    void *x = args[0].tensor.data, *y = args[1].tensor.data, *w = NULL, *w2 = NULL;
    int64_t n = args[0].tensor.shape[0];
    uint64_t a = args[2].bits;
    if (workspaces[0] && !(w = env->workspace(env, workspaces[0])))
        return (env->fail)(env, NULL, NULL);
    if (workspaces[1] && !(w2 = env->workspace(env, workspaces[1])))
        return (env->fail)(env, NULL, NULL);
    assert_true(!w2 || w != w2);
    void *fill[] = {&w, &filled};
    int32_t status = w ? env->dispatch(env, FILL, 1, fill) : 0;
    if (status) return status;
    void *params[] = {&x, &y, &n, &a, &w};
    return env->dispatch(env, SCALE, grid ? grid : (n + THREADS - 1) / THREADS, params);
}

int32_t cluster_entry(const tg_slot *args, const tg_env *env) {
    void *x = args[0].tensor.data, *y = args[1].tensor.data, *w = NULL;
    int64_t n = args[0].tensor.shape[0];
    float a = 1;
    void *params[] = {&x, &y, &n, &a, &w};
    int32_t status = env->dispatch(env, CLUSTERS, 32, params);
    if (status) return status;
    assert_int_equal(seen_launch.cluster, 16);
    assert_int_equal(seen_launch.grid, 32 * 16);
    return env->dispatch(env, PAIRS, 32, params);
}

int32_t map_entry(const tg_slot *args, const tg_env *env) {
    int64_t dims[2] = {n_rows, args[0].tensor.shape[0] / n_rows}, strides[2] = {dims[1], 1};
    for (int i = 0; i < 2; i++) {
        int32_t status = env->tensormap(env, map, args[i].tensor.data, dims, strides, map_bytes[i]);
        if (status) return status;
    }
    return 0;
}

_Thread_local int64_t skipped;

int32_t count_entry(const tg_slot *args, const tg_env *env) {
    int64_t all = args[0].tensor.shape[0], n = all - skipped;
    if (workspaces[0] && !env->workspace(env, workspaces[0])) return (env->fail)(env, NULL, NULL);
    uint32_t *counter = env->counter(env);
    if (!counter) return (env->fail)(env, NULL, NULL);
    assert_ptr_equal(env->counter(env), counter);
    void *params[] = {&counter, &n, &all};
    int32_t status = env->dispatch(env, COUNT_UP, 1, params);
    if (!status && !skipped) status = env->dispatch(env, COUNT_UP, 1, params);
    return status || !skipped ? status : report_entry(args, env);
}

int32_t report_entry(const tg_slot *args, const tg_env *env) {
    void *x = args[0].tensor.data;
    void *params[] = {&x};
    int32_t status = env->dispatch(env, REPORT, args[0].tensor.shape[0], params);
    return status ? status : env->dispatch(env, REPORT, 0, params);
}

/* ---- kernels as data ----------------------------------------------------------------------- */

const tg_device_function functions[FUNCTIONS] = {
    {"scale", THREADS, 1, 100 << 10, 5, 0, 0},
    {"fill", 32, 1, 0, 2, 0, 0},
    {"clusters", 64, 16, 0, 5, 0, 0},
    {"report", 32, 1, 0, 1, TG_DEVICE_FAULTS, 0},
    {"pairs", 64, 1, 0, 5, 0, 2},
    {"count", 32, 1, 0, 3, 0, 0},
};
static const tg_site sites[] = {
    {TG_SITE_PRINT, 3, 5, 1, 0, 0, "k.teg", "x is {}", "f"},
    {TG_SITE_ASSERT, 4, 5, 1, 0, 0, "k.teg", "x is {}, a bad number", "f"},
};
const tg_site *const site_list[2] = {&sites[0], &sites[1]};
const char ptx[13] = ".version 8.0";
static const char cubin[] = "\177ELF and so on";

tg_image for_80 = IMAGE(ptx, TG_IMAGE_PTX, "sm_80", 80, 0);
tg_image for_90a = IMAGE(cubin, TG_IMAGE_CUBIN, "sm_90a", 90, 1);
tg_image too_large = IMAGE(ptx, TG_IMAGE_PTX, "sm_80", 80, 0);

const uint8_t three[] = {0, 1, 2};

const tg_param_info gpu_params[3] = {
    {"x", TG_PARAM_TENSOR, 0, kDLFloat, 32, -1, 1, -1, 0},
    {"y", TG_PARAM_TENSOR, TG_PARAM_WRITTEN, kDLFloat, 32, -1, 1, -1, 0},
    {"a", TG_PARAM_SCALAR, 0, kDLFloat, 32, -1, 0, -1, 0},
};
/* ---- arguments, results -------------------------------------------------------------------- */

Call *on_device(Call *c, int device) {
    c->n = N;
    for (int i = 0; i < N; i++) c->x[i] = (float)(i % 97) - 40;
    memset(c->y, 0xff, sizeof c->y);
    c->tensors[0] = row(c->x, &c->n);
    c->tensors[1] = row(c->y, &c->n);
    for (int i = 0; i < 2; i++) {
        if (device >= 0) c->tensors[i].device = (DLDevice){kDLCUDA, device};
        c->args[i] = tg_tensor(&c->tensors[i]);
    }
    c->args[2] = tg_float(3);
    return c;
}

void expect_scaled(const Call *c, float added) {
    for (int64_t i = 0; i < c->n; i++) assert_true(c->y[i] == 3 * c->x[i] + added);
}

void expect_ok(tg_status status) {
    if (status) print_error("%s\n", tg_last_error());
    assert_int_equal(status, TG_OK);
    assert_null(fake.fake_mistake());
}

void expect(tg_status status, tg_status wanted, const char *text) {
    if (!strstr(tg_last_error(), text)) print_error("'%s' is not in: %s\n", text, tg_last_error());
    assert_int_equal(status, wanted);
    assert_non_null(strstr(tg_last_error(), text));
    assert_null(fake.fake_mistake());
}

int reset(void **state) {
    (void)state;
    memset(workspaces, 0, sizeof workspaces);
    grid = 0;
    filled = 0;
    sticks = false;
    skipped = 0;
    return 0;
}

/// A trial process never reaches main, so the driver gets the kernels before it.
__attribute__((constructor(101))) static void open_for_trials(void) {
    if (getenv("TG_TRIALS_OF")) open_fake();
}

bool open_fake(void) {
    const char *path = getenv("TG_CUDA_LIBRARY");
    void *library = path ? dlopen(path, RTLD_NOW) : NULL;
    if (!library) return false;
#define X(result, name, parameters) *(void **)&fake.name = dlsym(library, #name);
    FAKE_ENTRIES(X)
#undef X
    if (!fake.fake_last_map) return false;
    static const size_t scale_sizes[] = {8, 8, 8, 4, 8}, report_sizes[] = {8, 8};
    fake.fake_kernel("scale", scale_kernel, 5, scale_sizes);
    fake.fake_kernel("fill", fill_kernel, 2, (size_t[]){8, 4});
    fake.fake_kernel("clusters", scale_kernel, 5, scale_sizes);
    fake.fake_kernel("report", report_kernel, 2, report_sizes);
    fake.fake_kernel("pairs", scale_kernel, 5, scale_sizes);
    fake.fake_kernel("count", count_kernel, 3, (size_t[]){8, 8, 8});
    return true;
}
