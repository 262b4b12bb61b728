// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The median that every measurement uses.
#include "tools/timing.h"

#include <stdlib.h>

static int by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double median_of(double *x, int n) {
    qsort(x, (size_t)n, sizeof *x, by_value);
    return n ? x[n / 2] : 0;
}
