// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// From an instance to execution: pipelines, levels, executors.
#ifndef TOOLS_TEGULA_DRIVER_H
#define TOOLS_TEGULA_DRIVER_H

#include "tools/tegula/job.h"

/// Something that runs kernels.
struct Executor {
    const char *name, *doc;
    bool (*compile)(Job *job); // after job_elaborate
    bool (*launch)(Job *job);  // after compile; any number of times
};

/// A job on the executor that --target names; NULL, reported, where there is none.
Job *job_create(Ctx *ctx, const Options *o);

/// The kernel's arguments as its code takes them: packs merged.
const Tensor *job_tensors(Job *job);

#endif
