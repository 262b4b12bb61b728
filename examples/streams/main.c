// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Launches on a stream of a GPU: in sequence, timed by events, and recorded into a graph.
//   cc main.c $(pkg-config --cflags --libs tegula) -ldl -o streams && ./streams grow.teg
// The driver's functions are found by name, so that this builds without a CUDA toolkit. With one,
// include <cuda.h> and link -lcuda; cudaStream_t of its runtime and CUstream are the same type.
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tegula.h>

enum { N = 1 << 16, TIMED = 4, IN_GRAPH = 2, REPLAYS = 3, NO_GPU = 77 };
enum { NON_BLOCKING = 1, CAPTURE_THREAD = 1 };

/* ---- the driver ---------------------------------------------------------------------------- */

#define DRIVER(X)                                                                                  \
    X(cuInit, (unsigned))                                                                          \
    X(cuDevicePrimaryCtxRetain, (void **, int))                                                    \
    X(cuCtxPushCurrent_v2, (void *))                                                               \
    X(cuMemAlloc_v2, (uint64_t *, size_t))                                                         \
    X(cuMemFree_v2, (uint64_t))                                                                    \
    X(cuMemcpyHtoDAsync_v2, (uint64_t, const void *, size_t, void *))                              \
    X(cuMemcpyDtoHAsync_v2, (void *, uint64_t, size_t, void *))                                    \
    X(cuStreamCreate, (void **, unsigned))                                                         \
    X(cuStreamDestroy_v2, (void *))                                                                \
    X(cuEventCreate, (void **, unsigned))                                                          \
    X(cuEventRecord, (void *, void *))                                                             \
    X(cuEventSynchronize, (void *))                                                                \
    X(cuEventElapsedTime, (float *, void *, void *))                                               \
    X(cuEventDestroy_v2, (void *))                                                                 \
    X(cuStreamBeginCapture_v2, (void *, int))                                                      \
    X(cuStreamEndCapture, (void *, void **))                                                       \
    X(cuGraphInstantiateWithFlags, (void **, void *, unsigned long long))                          \
    X(cuGraphLaunch, (void *, void *))                                                             \
    X(cuGraphExecDestroy, (void *))                                                                \
    X(cuGraphDestroy, (void *))

static struct {
#define X(name, parameters) int(*name) parameters;
    DRIVER(X)
#undef X
} cu;

/// False: a function is missing.
static int load_driver(void) {
    const char *path = getenv("TG_CUDA_LIBRARY");
    void *library = dlopen(path ? path : "libcuda.so.1", RTLD_NOW), *f;
    if (!library) return 0;
#define X(name, parameters)                                                                        \
    if (!(f = dlsym(library, #name))) return 0;                                                    \
    memcpy(&cu.name, &f, sizeof f);
    DRIVER(X)
#undef X
    return 1;
}

static void check(int error, const char *call) {
    if (!error) return;
    fprintf(stderr, "%s: CUDA error %d\n", call, error);
    exit(1);
}
#define CU(call) check(cu.call, #call)

static void launched(tg_status status) {
    if (!status) return;
    fprintf(stderr, "%s: %s\n", tg_status_name(status), tg_last_error());
    exit(1);
}

/* ---- launches ------------------------------------------------------------------------------ */

/// A stream runs its work in order. Only the call for the second event waits.
static void time_launches(tg_kernel *grow, const tg_arg *args, void *stream) {
    void *start, *end;
    float ms;
    CU(cuEventCreate(&start, 0));
    CU(cuEventCreate(&end, 0));
    CU(cuEventRecord(start, stream));
    for (int i = 0; i < TIMED; i++) launched(tg_launch_on(grow, args, 2, stream));
    CU(cuEventRecord(end, stream));
    CU(cuEventSynchronize(end));
    CU(cuEventElapsedTime(&ms, start, end));
    printf("%d launches took %.3f ms on the device\n", TIMED, ms);
    CU(cuEventDestroy_v2(start));
    CU(cuEventDestroy_v2(end));
}

/// A launch on a captured stream becomes part of its graph. The kernel's module must outlive the
/// graph.
static void replay_launches(tg_kernel *grow, const tg_arg *args, void *stream) {
    void *graph, *ready;
    CU(cuStreamBeginCapture_v2(stream, CAPTURE_THREAD));
    for (int i = 0; i < IN_GRAPH; i++) launched(tg_launch_on(grow, args, 2, stream));
    CU(cuStreamEndCapture(stream, &graph));
    CU(cuGraphInstantiateWithFlags(&ready, graph, 0));
    for (int i = 0; i < REPLAYS; i++) CU(cuGraphLaunch(ready, stream));
    launched(tg_device_synchronize(0, stream)); // errors on the device appear here
    CU(cuGraphExecDestroy(ready));
    CU(cuGraphDestroy(graph));
}

int main(int argc, char **argv) {
    static float host[N];
    const char *path = argc > 1 ? argv[1] : "grow.teg";
    void *context, *stream;
    uint64_t x;
    tg_module *module;
    tg_kernel *grow;
    if (tg_device_count() == 0 || !load_driver() || cu.cuInit(0)) {
        printf("skipped: no NVIDIA GPU here: %s\n", tg_last_error());
        return NO_GPU;
    }
    CU(cuDevicePrimaryCtxRetain(&context, 0)); // Tegula uses the primary context, too
    CU(cuCtxPushCurrent_v2(context));
    CU(cuStreamCreate(&stream, NON_BLOCKING));
    CU(cuMemAlloc_v2(&x, sizeof host));
    for (int i = 0; i < N; i++) host[i] = (float)i;
    CU(cuMemcpyHtoDAsync_v2(x, host, sizeof host, stream));

    launched(tg_module_from_file(path, NULL, &module));
    launched(tg_module_kernel(module, "grow", &grow));
    int64_t shape[1] = {N};
    DLTensor tensor = tg_dense((void *)(uintptr_t)x, kDLFloat, 32, 1, shape);
    tensor.device = (DLDevice){kDLCUDA, 0};
    tg_arg args[2] = {tg_tensor(&tensor), tg_float(2)};
    launched(tg_prepare(grow, args, 2)); // compiles now, so that the first launch need not
    time_launches(grow, args, stream);
    replay_launches(grow, args, stream);

    CU(cuMemcpyDtoHAsync_v2(host, x, sizeof host, stream));
    launched(tg_device_synchronize(0, stream));
    int wrong = 0;
    for (int i = 0; i < N; i++) wrong += host[i] != (float)i * (1 << (TIMED + IN_GRAPH * REPLAYS));
    printf("%d of %d elements are wrong\n", wrong, N);
    CU(cuMemFree_v2(x));
    CU(cuStreamDestroy_v2(stream));
    tg_module_destroy(module);
    return wrong != 0;
}
