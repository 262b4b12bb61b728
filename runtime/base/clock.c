// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The monotonic clock. The runtime, the driver and the tools read it only here. Deadlines and
// measurements use it, since a change of the time of day does not affect it.
#include "runtime/base/base.h"

#include <time.h>

int64_t rt_now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

double rt_seconds(void) {
    return (double)rt_now_ns() * 1e-9;
}
