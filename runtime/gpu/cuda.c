// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The NVIDIA vendor: the driver's library, functions and errors.
#include "runtime/gpu/cuda.h"

#include <dlfcn.h>

const char *rt_cuda_entries(rt_cuda *cu, void *library) {
    const char *missing = NULL;
#define X(field, symbol, needed, parameters)                                                       \
    *(void **)&cu->field = dlsym(library, symbol);                                                 \
    if (!cu->field && (needed)) missing = symbol;
    RT_CUDA_ENTRIES(X)
#undef X
    return missing;
}

/// The places used by distributions, containers and WSL.
static const char *const files[] = {
    "libcuda.so.1",
    "/usr/lib/x86_64-linux-gnu/libcuda.so.1",
    "/usr/lib/aarch64-linux-gnu/libcuda.so.1",
    "/usr/lib64/libcuda.so.1",
    "/usr/local/nvidia/lib64/libcuda.so.1",
    "/usr/lib/wsl/lib/libcuda.so.1",
    NULL,
};

static const char earlier[] =
    "an earlier launch on this device may be the one at fault: set CUDA_LAUNCH_BLOCKING=1, or "
    "compile with checks (--check), to find it; the process cannot use the device any more";

/// The cause of an error and its remedy. An error that is not listed is a bug of Tegula or of the
/// driver.
static const rt_hint hints[] = {
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

const rt_maker rt_maker_cuda = {.name = "NVIDIA",
                                .library = "libcuda.so.1",
                                .variable = "TG_CUDA_LIBRARY",
                                .files = files,
                                .oldest = "version 525",
                                .visible = "CUDA_VISIBLE_DEVICES",
                                .hints = hints,
                                .n_hints = sizeof hints / sizeof *hints};
