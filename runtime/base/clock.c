// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The clock of waits.
#include "runtime/base/base.h"

#include <time.h>

int64_t rt_now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}
