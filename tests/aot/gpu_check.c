// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// An object with code for GPUs, the runtime alone, and a driver that checks what it is asked for
// (tests/runtime/fake_cuda.c): each device gets its code, the CPU its own.
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fake_cuda.h"
#include "scale.h"

enum { N = 1000 };

static FakeLaunch seen;

/// y = a x, as the device function gets it: pointer and extent of x, of y, a.
static void scale(const FakeLaunch *launch, void **args) {
    const float *x = *(float **)args[0], a = *(float *)args[4];
    float *y = *(float **)args[2];
    seen = *launch;
    for (long long i = 0; i < *(long long *)args[1]; i++) y[i] = a * x[i];
}

static int check(int device) {
    static float x[N], y[N];
    int64_t n = N, wrong = 0;
    DLTensor tx = tg_dense(x, kDLFloat, 32, 1, &n), ty = tg_dense(y, kDLFloat, 32, 1, &n);
    for (int i = 0; i < N; i++) x[i] = (float)(i + device);
    memset(y, 0xff, sizeof y);
    if (device >= 0) tx.device = ty.device = (DLDevice){kDLCUDA, device};
    if (scale_f32_dl(&tx, &ty, 3)) {
        fprintf(stderr, "device %d: %s\n", device, tg_last_error());
        return 1;
    }
    for (int i = 0; i < N; i++) wrong += y[i] != 3 * x[i];
    if (device >= 0) wrong += seen.device != device || seen.grid != (N + 255) / 256;
    if (wrong) fprintf(stderr, "device %d: %d are wrong\n", device, (int)wrong);
    return wrong != 0;
}

int main(void) {
    static const size_t sizes[] = {8, 8, 8, 8, 4};
    void *library = dlopen(getenv("TG_CUDA_LIBRARY"), RTLD_NOW);
    void (*add_kernel)(const char *, FakeKernel *, int, const size_t *);
    const char *(*mistake)(void);
    if (!library) return fprintf(stderr, "TG_CUDA_LIBRARY must be the fake driver\n"), 1;
    *(void **)&add_kernel = dlsym(library, "fake_kernel");
    *(void **)&mistake = dlsym(library, "fake_mistake");
    add_kernel("scale", scale, 5, sizes);
    int failures = check(-1) + check(0) + check(1) + check(0);
    const char *text = mistake();
    if (text) fprintf(stderr, "%s\n", text);
    return failures || text;
}
