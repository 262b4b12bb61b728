// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Measures calls in core cycles, so that figures of slow and of busy machines are comparable: the
// best of many short rounds, beside a chain of multiplications with known cycles. A nanosecond here
// is three cycles, as on a core of 3 GHz. Tests run one round and assert no time. With
// TEGULA_MEASURE set they run many, and bench/host/launches.py compares the results with its bars.
#ifndef TESTS_RUNTIME_RULER_H
#define TESTS_RUNTIME_RULER_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { RULER_ROUNDS = 1000, RULER_LINKS = 2000 };

/// The number of repetitions: `many` for a measurement, one for a test.
static inline int ruler_rounds(int many) {
    return getenv("TEGULA_MEASURE") ? many : 1;
}

static inline double ruler_now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

/// Seconds of three cycles: the latency of a multiplication.
static inline double ruler_unit(void) {
    volatile uint64_t seed = 3;
    uint64_t x = seed;
    double start = ruler_now();
    for (int i = 0; i < RULER_LINKS; i++) {
        x *= x;
        __asm__ volatile("" : "+r"(x)); // forces them one after the other
    }
    double ns = (ruler_now() - start) / RULER_LINKS;
    seed = x;
    return ns;
}

/// Prints a line for bench/host/launches.py, which has the bar of `what`.
static inline void ruler_report(const char *what, double value, const char *unit,
                                const char *beside) {
    printf("measured: %s: %.1f %s %s\n", what, value, unit, beside);
}

/// Prints the time of one call minus another one, in nanoseconds at 3 GHz, over rounds of `calls`
/// calls with their numbers. what: the name of the figure. False: a call failed.
static inline bool ruler_over(const char *what, int (*plain)(int), int (*call)(int), int calls) {
    double best[3] = {1e30, 1e30, 1e30};
    for (int r = ruler_rounds(RULER_ROUNDS); r > 0; r--) {
        double t[4] = {ruler_now()};
        for (int i = 0; i < calls; i++)
            if (plain(i)) return false;
        t[1] = ruler_now();
        for (int i = 0; i < calls; i++)
            if (call(i)) return false;
        t[2] = ruler_now();
        double unit = ruler_unit();
        for (int k = 0; k < 2; k++)
            if ((t[k + 1] - t[k]) / calls < best[k]) best[k] = (t[k + 1] - t[k]) / calls;
        if (unit < best[2]) best[2] = unit;
    }
    ruler_report(what, (best[1] - best[0]) / best[2], "ns", "over a direct call");
    return true;
}

#endif
