// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Counts and times of a job.
#ifndef TOOLS_TEGULA_MEASURE_H
#define TOOLS_TEGULA_MEASURE_H

#include "tools/tegula/executors.h"

/// Counts the bytes of each argument once: the least data that a kernel must move.
int64_t job_bytes(const Job *job);
/// Returns the value of --flops over the dims of the job; 0 without the option. Returns false
/// (reported) if it has no value.
bool job_flops(Job *job, double *out);
/// "3.1 ms"
const char *time_text(Ctx *ctx, double seconds);

/// The times of some launches.
typedef struct Times {
    double median, least;
    double spread; // half of the launches are within this distance of the median
} Times;
/// "overlap 71 % (+-2)": the share of transfers and programs that a launch overlaps (docs/use/
/// communication.md), or why it is unknown.
const char *overlap_text(Ctx *ctx, const Times *launch, const Times *transfers,
                         const Times *programs);

#endif
