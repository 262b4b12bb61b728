// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The monotonic clock: the one place where the runtime, the driver and the tools read it. Deadlines
// and measurements use it, since it does not jump when somebody sets the time of day.
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
