// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// From the device functions of a module (ir/ir.h, OP_DEVICE) to a portable module, which back ends
// of GPUs and the simulator take (backends/llvm/portable.h).
#ifndef BACKENDS_GPU_GPU_H
#define BACKENDS_GPU_GPU_H

#include "backends/llvm/llvm.h"
#include "runtime/abi.h"

typedef struct GpuOptions {
    const char *target; // "sm_90a"
    bool check;         // --check
    bool debug;         // debug information
} GpuOptions;

/// What a launch must know of a kernel function; runtime/abi.h, tg_device_function.
typedef struct GpuKernel {
    const char *name; // the symbol
    int threads, cluster, n_args;
    int64_t shared_bytes; // dynamic shared memory
    bool faults;          // has the hidden last parameter
} GpuKernel;

/// The kernels in the order of the module's devices, and what their faults are.
typedef struct GpuCode {
    int n;
    GpuKernel *kernels;
    VEC(const tg_site *) sites;
} GpuCode;

/// Makes a kernel function of each `device` in g's module. Everything is in the arena.
GpuCode *gpu_lower(Gen *g, Ir *ir, const Op *module, const GpuOptions *options);

#endif
