// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Hand-written GPU kernels for the stand-in driver (fake_cuda.h), described to the runtime like
// compiled ones, with their arguments and the expected operations of launches.
#ifndef TESTS_RUNTIME_GPU_KERNELS_H
#define TESTS_RUNTIME_GPU_KERNELS_H

#include "tests/runtime/fake_cuda.h"
#include "tests/runtime/kernels.h"

#include "runtime/abi.h"
#include "runtime/tegula.h"

#include <stdbool.h>

#define COUNT(a) ((int)(sizeof(a) / sizeof *(a)))

/// The fake driver, through the same library that the runtime loads.
typedef struct FakeDriver {
#define X(result, name, parameters) result(*name) parameters;
    FAKE_ENTRIES(X)
#undef X
} FakeDriver;
extern FakeDriver fake;
/// Loads it by TG_CUDA_LIBRARY and registers the kernels.
bool open_fake(void);

/* ---- kernels ------------------------------------------------------------------------------- */

enum { N = 1000, THREADS = 256 };
enum { SCALE, FILL, CLUSTERS, REPORT, PAIRS, COUNT_UP, FUNCTIONS };

extern _Thread_local FakeLaunch seen_launch;
extern _Thread_local int launches;
/// Whether the next launch of scale hangs.
extern _Thread_local bool sticks;
extern _Thread_local int workspaces[2]; // bytes that the host code requests, 0: none
extern _Thread_local float filled;
/// The address of the counter in the last launch of count_entry, and the number that it then had.
/// skipped: the number of programs that count_entry leaves out, so that the counter does not return
/// to 0; the launch then reports x.
extern _Thread_local uint32_t *counter_seen, counted_from;
extern _Thread_local int64_t skipped;
extern _Thread_local int64_t grid;
extern tg_tensormap *map;
extern int64_t n_rows;
extern unsigned char map_bytes[2][TG_TENSORMAP_BYTES];

FakeKernel scale_kernel, fill_kernel, report_kernel, count_kernel;
/// Entries that pass arguments as compiled host code does.
tg_entry scale_entry, cluster_entry, map_entry, report_entry, count_entry;

extern const tg_device_function functions[FUNCTIONS];
extern const tg_site *const site_list[2];
extern const uint8_t three[3];
extern const tg_param_info gpu_params[3]; // x, y, a
extern const char ptx[13];                // code of IMAGE
extern tg_image for_80, for_90a, too_large;

#define IMAGE(code, what, name, number, only)                                                      \
    {                                                                                              \
        .kind = what, .n_functions = FUNCTIONS, .n_sites = 2, .arch = number, .specific = only,    \
        .target = name, .bytes = code, .size = sizeof code, .functions = functions,                \
        .sites = site_list                                                                         \
    }
#define VARIANT(fn, code)                                                                          \
    { .entry = fn, .params = three, .n_params = 3, .config = "", .image = code }
#define KERNEL(name, ...)                                                                          \
    static const tg_variant name##_variants[] = {__VA_ARGS__};                                     \
    static const tg_kernel_info name##_info = {#name,                                              \
                                               "kernel " #name "(x: f32[N], y: f32[N], a: f32)",   \
                                               gpu_params,                                         \
                                               name##_variants,                                    \
                                               3,                                                  \
                                               0,                                                  \
                                               COUNT(name##_variants),                             \
                                               0};                                                 \
    static tg_kernel name = {.abi = TG_ABI, .info = &name##_info}

/* ---- arguments, results -------------------------------------------------------------------- */

typedef struct Call {
    float x[N], y[N];
    int64_t n;
    DLTensor tensors[2];
    tg_arg args[3];
} Call;

/// device: -1 is the CPU.
Call *on_device(Call *c, int device);
void expect_scaled(const Call *c, float added);
void expect_ok(tg_status status);
void expect(tg_status status, tg_status wanted, const char *text);
/// Runs before each test.
int reset(void **state);

#endif
