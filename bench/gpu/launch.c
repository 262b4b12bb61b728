// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What a warm launch costs the host: tg_launch_on beside cuLaunchKernel of a kernel with as many
// parameters, in blocks that alternate.
//
//   cc -O2 launch.c -I PREFIX/include -L PREFIX/lib -ltegula -ldl -o launch && ./launch [threshold
//   us]
//
// Prints medians a launch and the difference; exit code 1 where it is above the threshold.
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <tegula.h>
#include <time.h>

enum { BLOCKS = 300, LAUNCHES = 100, N = 4096, PARAMS = 6 };

static const char source[] = "kernel add(x: f32[N], y: f32[N], z: f32[N]) tune B = 4096 {\n"
                             "    parallel n in N by B { z[n] = x[n] + y[n]; }\n"
                             "}\n";
static const char ptx[] = ".version 7.0\n.target sm_80\n.address_size 64\n"
                          ".visible .entry plain(.param .u64 a, .param .u64 b, .param .u64 c,\n"
                          "    .param .u64 d, .param .u64 e, .param .u64 f)\n{\n    ret;\n}\n";

/// The entry points of the driver that are called here.
typedef struct Driver {
    int (*init)(unsigned);
    int (*retain)(void **context, int device);
    int (*push)(void *context);
    int (*wait)(void);
    int (*load)(void **module, const void *image, unsigned n, int *options, void **values);
    int (*function)(void **function, void *module, const char *name);
    int (*allocate)(uint64_t *at, size_t bytes);
    int (*launch)(void *function, unsigned x, unsigned y, unsigned z, unsigned bx, unsigned by,
                  unsigned bz, unsigned shared, void *stream, void **args, void **extra);
} Driver;

static void *symbol(void *library, const char *name) {
    void *s = dlsym(library, name);
    if (!s) {
        fprintf(stderr, "the driver has no %s\n", name);
        exit(1);
    }
    return s;
}

static Driver open_driver(void) {
    const char *named = getenv("TG_CUDA_LIBRARY");
    void *l = dlopen(named ? named : "libcuda.so.1", RTLD_NOW);
    if (!l) {
        fprintf(stderr, "%s\n", dlerror());
        exit(1);
    }
    Driver d;
    *(void **)&d.init = symbol(l, "cuInit");
    *(void **)&d.retain = symbol(l, "cuDevicePrimaryCtxRetain");
    *(void **)&d.push = symbol(l, "cuCtxPushCurrent_v2");
    *(void **)&d.wait = symbol(l, "cuCtxSynchronize");
    *(void **)&d.load = symbol(l, "cuModuleLoadDataEx");
    *(void **)&d.function = symbol(l, "cuModuleGetFunction");
    *(void **)&d.allocate = symbol(l, "cuMemAlloc_v2");
    *(void **)&d.launch = symbol(l, "cuLaunchKernel");
    return d;
}

static void require(int error, const char *what) {
    if (!error) return;
    fprintf(stderr, "%s: error %d %s\n", what, error, tg_last_error());
    exit(1);
}

static double now_us(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec * 1e-3;
}

static int ascending(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *v) {
    qsort(v, BLOCKS, sizeof *v, ascending);
    return v[BLOCKS / 2];
}

/// Microseconds a launch of one block.
static double plain_block(const Driver *d, void *function) {
    uint64_t values[PARAMS] = {0};
    void *args[PARAMS];
    for (int i = 0; i < PARAMS; i++) args[i] = &values[i];
    double start = now_us();
    int error = 0;
    for (int i = 0; i < LAUNCHES; i++)
        error |= d->launch(function, 1, 1, 1, 128, 1, 1, 0, NULL, args, NULL);
    double end = now_us();
    require(error, "cuLaunchKernel");
    require(d->wait(), "cuCtxSynchronize");
    return (end - start) / LAUNCHES;
}

static double our_block(const Driver *d, tg_kernel *kernel, const tg_arg *args) {
    double start = now_us();
    int error = 0;
    for (int i = 0; i < LAUNCHES; i++) error |= (int)tg_launch_on(kernel, args, 3, NULL);
    double end = now_us();
    require(error, "tg_launch_on");
    require(d->wait(), "cuCtxSynchronize");
    return (end - start) / LAUNCHES;
}

int main(int argc, char **argv) {
    double threshold = argc > 1 ? atof(argv[1]) : 1.0;
    Driver d = open_driver();
    void *context, *module, *plain;
    require(d.init(0), "cuInit");
    require(d.retain(&context, 0), "cuDevicePrimaryCtxRetain");
    require(d.push(context), "cuCtxPushCurrent");
    require(d.load(&module, ptx, 0, NULL, NULL), "cuModuleLoadDataEx");
    require(d.function(&plain, module, "plain"), "cuModuleGetFunction");

    tg_module *ours;
    tg_kernel *kernel;
    require((int)tg_module_from_source(source, sizeof source - 1, "add.teg", NULL, &ours), "add");
    require((int)tg_module_kernel(ours, "add", &kernel), "add");
    int64_t shape[1] = {N};
    DLTensor tensors[3];
    tg_arg args[3];
    for (int i = 0; i < 3; i++) {
        uint64_t at;
        require(d.allocate(&at, N * sizeof(float)), "cuMemAlloc");
        tensors[i] = tg_dense((void *)(uintptr_t)at, kDLFloat, 32, 1, shape);
        tensors[i].device.device_type = kDLCUDA;
        args[i] = tg_tensor(&tensors[i]);
    }

    static double theirs_us[BLOCKS], ours_us[BLOCKS];
    plain_block(&d, plain);
    our_block(&d, kernel, args); // compiles
    for (int i = 0; i < BLOCKS; i++) {
        theirs_us[i] = plain_block(&d, plain);
        ours_us[i] = our_block(&d, kernel, args);
    }
    double a = median(theirs_us), b = median(ours_us);
    printf("cuLaunchKernel %.3f us, tg_launch_on %.3f us, difference %.3f us (p10 %.3f, %.3f)\n", a,
           b, b - a, theirs_us[BLOCKS / 10], ours_us[BLOCKS / 10]);
    tg_module_destroy(ours);
    return b - a > threshold;
}
