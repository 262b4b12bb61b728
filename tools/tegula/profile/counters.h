// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Hardware counters of the CPU (perf_event_open(2)), over all threads that start after they are
// opened.
#ifndef TOOLS_TEGULA_PROFILE_COUNTERS_H
#define TOOLS_TEGULA_PROFILE_COUNTERS_H

#include "lang/context.h"

#include <stdbool.h>
#include <stdint.h>

enum Counter {
    COUNT_CYCLES,
    COUNT_INSTRUCTIONS,
    COUNT_CACHE_MISSES, // of the last level
    COUNT_BRANCH_MISSES,
    COUNTERS
};

/// A counter as the kernel's read() returns it. Where a CPU has fewer counters than are open, each
/// runs for a part of the time.
typedef struct CounterReading {
    uint64_t value, enabled, running; // the last two in ns
} CounterReading;

typedef struct Counters {
    int fd[COUNTERS]; // -1: the machine does not have it
} Counters;

/// Opens the counters, stopped. False, with errno: none can be opened.
bool counters_open(Counters *out);
void counters_close(Counters *c);
void counters_start(const Counters *c);
/// Stops and reads them. A counter that does not exist has running 0.
void counters_stop(const Counters *c, CounterReading out[COUNTERS]);
/// The count over all the time; -1: it never ran.
double counter_value(const CounterReading *r);
/// "2.1 instructions a cycle, ...": the counts of one of that many launches, of `bytes` each.
const char *counters_text(Ctx *ctx, const CounterReading r[COUNTERS], int launches, double bytes);
/// The reason for an errno of counters_open, and what may help (or NULL).
const char *counters_missing(Ctx *ctx, int error, const char **help);

#endif
