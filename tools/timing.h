// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The clock of measurements, and the median of their times.
#ifndef TOOLS_TIMING_H
#define TOOLS_TIMING_H

#include "runtime/base/base.h" // rt_seconds

/// The median of n times, which it sorts; 0 of none.
double median_of(double *x, int n);

#endif
