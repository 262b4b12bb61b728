// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The clock, and the median of its measurements.
#ifndef TOOLS_TIMING_H
#define TOOLS_TIMING_H

/// Seconds of the monotonic clock.
double seconds_now(void);
/// The median of n times, which it sorts; 0 of none.
double median_of(double *x, int n);

#endif
