// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Bars on nanoseconds that hold on slow machines and on busy ones, and that still fail: what is
// measured is the best of many short rounds, in cycles of the core, which are measured beside it.
// A nanosecond of a bar is three cycles, as of a core of 3 GHz. Rounds go on until the bar is met,
// or for as long as no neighbour lasts.
#ifndef TESTS_RUNTIME_RULER_H
#define TESTS_RUNTIME_RULER_H

#include <stdint.h>
#include <stdio.h>
#include <time.h>

enum { RULER_ROUNDS = 200, RULER_TRIES = 10, RULER_LINKS = 2000 };

static inline double ruler_now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

/// Nanoseconds of three cycles: what a multiplication takes from its operands to its result.
static inline double ruler_unit(void) {
    volatile uint64_t seed = 3;
    uint64_t x = seed;
    double start = ruler_now();
    for (int i = 0; i < RULER_LINKS; i++) {
        x *= x;
        __asm__ volatile("" : "+r"(x)); // one after the other
    }
    double ns = (ruler_now() - start) / RULER_LINKS;
    seed = x;
    return ns;
}

/// What one call takes over another one, in nanoseconds of 3 GHz: of rounds of `calls` calls, which
/// are given their number. what: for a line of output. Negative: a call failed.
static inline double ruler_over(const char *what, int (*plain)(int), int (*call)(int), int calls,
                                double bar) {
    double best[3] = {1e30, 1e30, 1e30}, over = 0;
    for (int try = 0; try < RULER_TRIES; try++) {
        for (int r = 0; r < RULER_ROUNDS; r++) {
            double t[4] = {ruler_now()};
            for (int i = 0; i < calls; i++)
                if (plain(i)) return -1;
            t[1] = ruler_now();
            for (int i = 0; i < calls; i++)
                if (call(i)) return -1;
            t[2] = ruler_now();
            double unit = ruler_unit();
            for (int k = 0; k < 2; k++)
                if ((t[k + 1] - t[k]) / calls < best[k]) best[k] = (t[k + 1] - t[k]) / calls;
            if (unit < best[2]) best[2] = unit;
        }
        over = (best[1] - best[0]) / best[2];
        if (over <= bar) break;
    }
    printf("%s: %.1f ns, %.1f ns over a direct call: %.1f at 3 GHz (bar %.0f)\n", what, best[1],
           best[1] - best[0], over, bar);
    return over;
}

#endif
