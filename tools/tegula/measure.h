// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Counts and times of a job.
#ifndef TOOLS_TEGULA_MEASURE_H
#define TOOLS_TEGULA_MEASURE_H

#include "tools/tegula/driver.h"

/// Each argument once: what a kernel must move at least, whatever it does with it.
int64_t job_bytes(const Job *job);
/// The value of --flops over the dims of the job; 0 where there is none. False, reported, where it
/// has no value.
bool job_flops(Job *job, double *out);
/// "3.1 ms"
const char *time_text(Ctx *ctx, double seconds);

#endif
