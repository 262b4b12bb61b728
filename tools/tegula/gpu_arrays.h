// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Running on a GPU: arrays of the command line and their copies on the device.
#ifndef TOOLS_TEGULA_GPU_ARRAYS_H
#define TOOLS_TEGULA_GPU_ARRAYS_H

#include "tools/tegula/executors.h"

/// Parses --target: "cuda", "cuda:1", "sim:sm_80", "sm_90a" or a level of the CPU. Returns false
/// (reported) if the target does not exist here. `name` has one of those forms.
bool gpu_target_read(Job *job, const char *name);
/// Whether it has one of the forms that are for GPUs.
bool gpu_target_is(const char *name);
/// Whether it is one of a device: "cuda", "hip:1".
bool gpu_device_named(const char *name);
/// Of an unknown target, "sm_90" or "sim:gfx940": the line that tells which one is meant, or NULL.
const char *gpu_target_hint(Ctx *ctx, const char *name);

/// Host arrays and their copies on a device, released with the job's context. NULL (reported) if
/// the device does not exist.
typedef struct Mirrors Mirrors;
Mirrors *gpu_mirrors(Job *job, int device);
/// The bytes of the tensor are among them; before they are copied.
void gpu_mirror(Mirrors *mirrors, const Tensor *tensor);
/// False, reported, after errors.
bool gpu_copy_there(Mirrors *mirrors);
bool gpu_copy_back(const Mirrors *mirrors);
/// Returns the device address of a host byte; NULL: it is in no array.
void *gpu_address(const Mirrors *mirrors, const void *host);

/// Copies the arrays of the job to the device, and gives it `slots` that point there. False,
/// reported, after errors.
bool gpu_upload(Job *job, int n, tg_slot *slots, const ParamUse *const *uses);
/// Waits, and copies all of them back.
bool gpu_download(Job *job);
/// Median seconds of a launch by the device's clock, with nothing of its arrays in the L2 cache
/// before; `launch` puts one on its way.
bool gpu_time(Job *job, bool (*launch)(Job *job), double budget, double *out);
/// Bytes a second, read and written, of a copy of so many bytes on the device; 0 where it fails.
double gpu_copy_rate(Job *job, int64_t bytes);

#endif
