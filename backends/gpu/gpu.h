// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// From the device functions of a module (ir/ir.h, OP_DEVICE) to a portable module, which back ends
// of GPUs and the simulator take (backends/llvm/portable.h).
#ifndef BACKENDS_GPU_GPU_H
#define BACKENDS_GPU_GPU_H

#include "backends/backend.h"
#include "backends/llvm/llvm.h"
#include "runtime/abi.h"

typedef struct GpuOptions {
    const char *target; // "sm_90a"
    bool check;         // --check
    bool debug;         // debug information
    Text *notes;        // gets what barriers are for, a line each; or NULL
} GpuOptions;

/// What a launch must know of a kernel function; runtime/abi.h, tg_device_function.
typedef struct GpuKernel {
    const char *name; // the symbol
    int threads, cluster, n_args;
    int together;         // CTAs, a program each, of a cluster that share copies; 0: none
    int64_t shared_bytes; // dynamic shared memory
    bool faults;          // has the hidden last parameter
    bool early;           // waits itself for the kernel before
    int again;            // its host code need not run for each launch: flags of tg_device_flags
} GpuKernel;

/// The kernels in the order of the module's devices, and what their faults are.
typedef struct GpuCode {
    int n;
    GpuKernel *kernels;
    VEC(const tg_site *) sites;
} GpuCode;

/// Makes a kernel function of each `device` in g's module. Everything is in the arena.
GpuCode *gpu_lower(Gen *g, Ir *ir, const Op *module, const GpuOptions *options);

/// TG_DEVICE_REPLAYS, TG_DEVICE_NUMBERS: what the kernel's host code looks at.
int gpu_host_again(const Op *kernel);

/* ---- for the back ends that take it (backends/backend.h, Backend) ---------------------------- */

/// What passes ask of a CPU, said of a GPU's host side, where nothing is costly.
TargetInfo gpu_target_info(const struct GpuTarget *target, const char *arch);
/// Backend.has_op: code of the host side has no elementwise op of its own.
bool gpu_host_has(OpCode code, Elem elem);

typedef struct GpuJob {
    Ir *ir;
    const Op *module;
    const CodeOptions *options;
    DeviceCode *out;
} GpuJob;
/// Backend.device: runs `compile` on the job, which it gets as its second argument, so that errors
/// of LLVM are errors of the compilation. False with diagnostics.
bool gpu_device(const GpuJob *job, void (*compile)(Ctx *ctx, void *job));

/// The kernels as the runtime wants them.
const tg_device_function *gpu_functions(Ctx *ctx, const GpuCode *code);
/// The module as text, in the arena.
const char *gpu_module_text(const Gen *g);
/// A clock that runs evenly.
double gpu_seconds(void);

#endif
