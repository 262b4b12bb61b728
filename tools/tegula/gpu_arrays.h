// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Runs on a GPU: the arrays of the command line and their copies on the device.
#ifndef TOOLS_TEGULA_GPU_ARRAYS_H
#define TOOLS_TEGULA_GPU_ARRAYS_H

#include "tools/tegula/executors.h"

/// Parses --target: "cuda", "cuda:1", "sim:sm_80", "sm_90a" or a level of the CPU. `name` has one
/// of those forms. Returns false (reported) if the target does not exist here.
bool gpu_target_read(Job *job, const char *name);
/// Whether the name has a form for GPUs.
bool gpu_target_is(const char *name);
/// Whether the name is of a device: "cuda", "hip:1".
bool gpu_device_named(const char *name);
/// Returns a hint for an unknown target such as "sm_90" or "sim:gfx940", that names the target that
/// was probably meant, or NULL.
const char *gpu_target_hint(Ctx *ctx, const char *name);

/// Host arrays and their copies on a device, released with the job's context. NULL (reported) if
/// the device does not exist.
typedef struct Mirrors Mirrors;
Mirrors *gpu_mirrors(Job *job, int device);
/// Adds the bytes of the tensor, before any copy.
void gpu_mirror(Mirrors *mirrors, const Tensor *tensor);
/// Copies to the device. False (reported) after errors.
bool gpu_copy_there(Mirrors *mirrors);
bool gpu_copy_back(const Mirrors *mirrors);
/// Returns the device address of a host byte; NULL: it is in no array.
void *gpu_address(const Mirrors *mirrors, const void *host);

/// Copies the job's arrays to the device, and fills `slots` with their device addresses. False
/// (reported) after errors.
bool gpu_upload(Job *job, int n, tg_slot *slots, const ParamUse *const *uses);
/// Waits for the device and copies all arrays back.
bool gpu_download(Job *job);
/// Measures the median seconds of a launch by the device's clock, with none of its arrays in the L2
/// cache. `launch` queues one.
bool gpu_time(Job *job, bool (*launch)(Job *job), double budget, double *out);
/// Measures a device copy of this size. Returns the bytes a second, read and written; 0 if it
/// fails.
double gpu_copy_rate(Job *job, int64_t bytes);

#endif
