// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Lowers the device functions of a module (ir/ir.h, OP_DEVICE) to a portable module for the GPU
// back ends and the simulator (backends/llvm/portable.h).
#ifndef BACKENDS_GPU_GPU_H
#define BACKENDS_GPU_GPU_H

#include "backends/backend.h"
#include "backends/llvm/llvm.h"
#include "runtime/abi.h"

typedef struct GpuOptions {
    const char *target; // "sm_90a"
    bool check;         // --check
    bool debug;         // debug information
    bool marks;         // record the time at which parts of the code begin (effects.c)
    Text *notes;        // receives the reasons for barriers, a line each; or NULL
} GpuOptions;

/// The facts of a kernel function that a launch needs; runtime/abi.h, tg_device_function.
typedef struct GpuKernel {
    const char *name; // the symbol
    int threads, cluster, n_args;
    int together;         // CTAs (one program each) in a cluster that shares copies; 0: no cluster
    int64_t shared_bytes; // dynamic shared memory
    bool faults;          // its asserts, checks and prints write records
    bool records;         // has the hidden last parameter, for faults or marks
    bool early;           // has code that waits for the preceding kernel
    int again;            // later launches may skip its host code: flags of tg_device_flags
} GpuKernel;

/// The kernels in the order of the module's devices, and the sites of their faults.
typedef struct GpuCode {
    int n;
    GpuKernel *kernels;
    VEC(const tg_site *) sites;
} GpuCode;

/// Makes a kernel function in g's module for each `device`. All memory is in the arena.
GpuCode *gpu_lower(Gen *g, Ir *ir, const Op *module, const GpuOptions *options);

/// Returns TG_DEVICE_REPLAYS or TG_DEVICE_NUMBERS, by the values that the kernel's host code reads.
int gpu_host_again(const Op *kernel);

/* ---- for the back ends that take it (backends/backend.h, Backend) ---------------------------- */

/// Describes a GPU's host code as a CPU for the passes. Its ops have no cost.
TargetInfo gpu_target_info(const struct GpuTarget *target, const char *arch);
/// Implements Backend.has_op: host code has no elementwise op of its own.
bool gpu_host_has(OpCode code, Elem elem);

typedef struct GpuJob {
    Ir *ir;
    const Op *module;
    const CodeOptions *options;
    DeviceCode *out;
} GpuJob;
/// Implements Backend.device. Runs `compile` with the job as its second argument, so that errors of
/// LLVM become errors of the compilation. Returns false with diagnostics.
bool gpu_device(const GpuJob *job, void (*compile)(Ctx *ctx, void *job));

/// Returns the kernels in the runtime's form.
const tg_device_function *gpu_functions(Ctx *ctx, const GpuCode *code);
/// Returns the module as text, in the arena.
const char *gpu_module_text(const Gen *g);
/// Returns the time of a monotonic clock.
double gpu_seconds(void);

#endif
