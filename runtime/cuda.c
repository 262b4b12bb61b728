// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The driver of NVIDIA GPUs, found and loaded when it is first needed, and its errors in words.
#include "runtime/cuda.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- loading ------------------------------------------------------------------------------- */

static rt_cuda cuda;
static bool loaded;
static char problem[1024]; // why it is not
static pthread_once_t once = PTHREAD_ONCE_INIT;

/// Beside what the loader searches: where distributions, containers and WSL put it.
static const char *const places[] = {
    "libcuda.so.1",
    "/usr/lib/x86_64-linux-gnu/libcuda.so.1",
    "/usr/lib/aarch64-linux-gnu/libcuda.so.1",
    "/usr/lib64/libcuda.so.1",
    "/usr/local/nvidia/lib64/libcuda.so.1",
    "/usr/lib/wsl/lib/libcuda.so.1",
};

static void *open_library(void) {
    const char *set = getenv("TG_CUDA_LIBRARY");
    if (set && *set) {
        void *library = dlopen(set, RTLD_NOW | RTLD_LOCAL);
        if (!library)
            snprintf(problem, sizeof problem, "TG_CUDA_LIBRARY=%s cannot be loaded: %s", set,
                     dlerror());
        return library;
    }
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        void *library = dlopen(places[i], RTLD_NOW | RTLD_LOCAL);
        if (library) return library;
    }
    size_t n = (size_t)snprintf(problem, sizeof problem,
                                "libcuda.so.1, the driver of NVIDIA GPUs, was not found: it is "
                                "neither where the loader looks nor");
    for (size_t i = 1; i < sizeof places / sizeof *places && n < sizeof problem; i++)
        n +=
            (size_t)snprintf(problem + n, sizeof problem - n, "%s %s", i > 1 ? "," : "", places[i]);
    if (n < sizeof problem)
        snprintf(problem + n, sizeof problem - n,
                 "; install the driver, or set TG_CUDA_LIBRARY to its path");
    return NULL;
}

/// False where an entry that is needed is missing: the driver is older than CUDA 12.
static bool find_entries(void *library) {
    const char *missing = NULL;
#define X(field, symbol, needed, parameters)                                                       \
    *(void **)&cuda.field = dlsym(library, symbol);                                                \
    if (!cuda.field && (needed)) missing = symbol;
    RT_CUDA_ENTRIES(X)
#undef X
    if (missing)
        snprintf(problem, sizeof problem,
                 "libcuda.so.1 has no function %s: the driver is too old; version 525 or later "
                 "is needed",
                 missing);
    return !missing;
}

/// The library stays loaded: contexts live in it.
static void load(void) {
    void *library = open_library();
    if (!library || !find_entries(library)) return;
    const char *call = "cuInit";
    cu_result error = cuda.init(0);
    if (!error) error = cuda.version(&cuda.driver_version);
    if (!error) {
        call = "cuDeviceGetCount";
        error = cuda.device_count(&cuda.n_devices);
    }
    loaded = !error;
    if (!error) return;
    rt_cuda_fail(call, error, "starting the driver of NVIDIA GPUs");
    snprintf(problem, sizeof problem, "%s", tg_last_error());
}

const rt_cuda *rt_cuda_driver(void) {
    pthread_once(&once, load);
    if (loaded) return &cuda;
    tg_fail(TG_ERROR_UNSUPPORTED, "%s", problem);
    return NULL;
}

/* ---- errors -------------------------------------------------------------------------------- */

static const char earlier[] =
    "an earlier launch on this device may be the one at fault: set CUDA_LAUNCH_BLOCKING=1, or "
    "compile with checks (--check), to find it; the process cannot use the device any more";

/// What is behind an error, and what to do. Those not listed are mistakes of ours or of the driver.
static const struct {
    cu_result error;
    tg_status status;
    const char *hint;
} hints[] = {
    {CU_OUT_OF_MEMORY, TG_ERROR_MEMORY, "free memory of the device, or use smaller tensors"},
    {3, TG_ERROR_UNSUPPORTED,
     "a process that was forked after its parent used a GPU cannot use one: "
     "start it anew (Python: multiprocessing's method spawn)"},
    {34, TG_ERROR_UNSUPPORTED, "a stub of the toolkit was loaded in place of the driver's library"},
    {46, TG_ERROR_UNSUPPORTED, "another process uses the device alone"},
    {100, TG_ERROR_UNSUPPORTED, "this machine shows no NVIDIA GPU; see CUDA_VISIBLE_DEVICES"},
    {101, TG_ERROR_ARGUMENT, "there is no such device"},
    {200, TG_ERROR_UNSUPPORTED, "the code is not for this device"},
    {209, TG_ERROR_UNSUPPORTED, "the code is not for this device"},
    {218, TG_ERROR_INTERNAL, NULL},
    {222, TG_ERROR_UNSUPPORTED,
     "the driver is older than the code: update it, or set "
     "TG_CODEGEN=nvptx"},
    {400, TG_ERROR_ARGUMENT, "is the stream one of this device, and still there?"},
    {700, TG_ERROR_CONTRACT, earlier},
    {701, TG_ERROR_UNSUPPORTED, "choose smaller tune values"},
    {702, TG_ERROR_UNSUPPORTED, "the launch ran longer than the device's display allows"},
    {714, TG_ERROR_CONTRACT, earlier},
    {715, TG_ERROR_CONTRACT, earlier},
    {716, TG_ERROR_CONTRACT, earlier},
    {717, TG_ERROR_CONTRACT, earlier},
    {718, TG_ERROR_CONTRACT, earlier},
    {719, TG_ERROR_CONTRACT, earlier},
    {802, TG_ERROR_UNSUPPORTED, "the device is not ready yet: is its fabric manager running?"},
    {803, TG_ERROR_UNSUPPORTED,
     "the driver's library and its kernel module are of different "
     "versions: restart the machine"},
    {804, TG_ERROR_UNSUPPORTED, "a compatibility library of another driver was found"},
    {900, TG_ERROR_UNSUPPORTED, "the stream is being captured, and this cannot be"},
    {901, TG_ERROR_CONTRACT, "something that cannot be captured came before"},
    {906, TG_ERROR_CONTRACT,
     "the default stream cannot be used while another one is captured: "
     "launch on the captured stream"},
    {912, TG_ERROR_UNSUPPORTED, "the device does not run clusters of this size"},
};

tg_status rt_cuda_fail(const char *call, cu_result error, const char *format, ...) {
    const char *name = NULL, *text = NULL, *hint = NULL;
    tg_status status = TG_ERROR_INTERNAL;
    char doing[512];
    va_list ap;
    va_start(ap, format);
    vsnprintf(doing, sizeof doing, format, ap);
    va_end(ap);
    if (cuda.error_name && cuda.error_name(error, &name)) name = NULL;
    if (cuda.error_text && cuda.error_text(error, &text)) text = NULL;
    for (size_t i = 0; i < sizeof hints / sizeof *hints; i++) {
        if (hints[i].error != error) continue;
        status = hints[i].status;
        hint = hints[i].hint;
    }
    return tg_fail(status, "%s: %s: %s (%s, error %d)%s%s", doing, call, text ? text : "failed",
                   name ? name : "unknown", error, hint ? "; " : "", hint ? hint : "");
}
