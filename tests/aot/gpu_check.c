// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Runs an object with GPU code on the runtime alone and a checking stand-in driver
// (tests/runtime/fake_cuda.c): each device must get its own code, and the CPU its own.
//
// Usage: check KIND... with the expected code of devices 0, 1, ...: "PTX", "machine code". With
// REFUSE=209 the driver fails with that status on its first load.
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fake_cuda.h"
#include "scale.h"

enum { N = 1000 };

static FakeLaunch seen;

/// y = a x with the device function's parameters: pointer and extent of x, of y, a.
static void scale(const FakeLaunch *launch, void **args) {
    const float *x = *(float **)args[0], a = *(float *)args[4];
    float *y = *(float **)args[2];
    seen = *launch;
    for (long long i = 0; i < *(long long *)args[1]; i++) y[i] = a * x[i];
}

/// at: the start of x, in elements. Aligned rows of 16 bytes have code of their own.
static int check(int device, int at) {
    static _Alignas(16) float all[N + 4], y[N];
    float *x = all + at;
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

int main(int argc, char **argv) {
    static const size_t sizes[] = {8, 8, 8, 8, 4};
    void *library = dlopen(getenv("TG_CUDA_LIBRARY"), RTLD_NOW);
    void (*add_kernel)(const char *, FakeKernel *, int, const size_t *);
    const char *(*mistake)(void), *(*last_image)(void);
    if (!library) return fprintf(stderr, "TG_CUDA_LIBRARY must be the fake driver\n"), 1;
    *(void **)&add_kernel = dlsym(library, "fake_kernel");
    *(void **)&mistake = dlsym(library, "fake_mistake");
    add_kernel("scale", scale, 5, sizes);
    *(void **)&last_image = dlsym(library, "fake_last_image");
    if (getenv("REFUSE")) {
        void (*fail)(const char *, int);
        *(void **)&fail = dlsym(library, "fake_fail");
        fail("cuModuleLoadDataEx", atoi(getenv("REFUSE")));
    }
    int failures = check(-1, 0);
    for (int round = 0; round < 2; round++)
        for (int i = 0; i < argc - 1; i++) {
            failures += check(i, round);
            const char *image = last_image() ? last_image() : "nothing";
            if (strcmp(image, argv[i + 1]) == 0) continue;
            fprintf(stderr, "device %d has %s, not %s\n", i, image, argv[i + 1]);
            failures++;
        }
    for (int i = 0; i < argc - 1; i++) failures += check(i, 0); // already loaded
    const char *text = mistake();
    if (text) fprintf(stderr, "%s\n", text);
    return failures || text;
}
