// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The simulated duration of launches on the devices of fake_cuda.c.
//
// With FAKE_CUDA_CLOCK, events report simulated times. A CTA does its part of WORK seconds, plus
// CTA_SECONDS, and a processor runs one CTA at a time.
//
// "90x132x228x4000" in FAKE_CUDA_DEVICES adds the KiB of shared memory of each processor and the
// GB/s of the device's memory. A processor then holds as many CTAs as fit in its shared memory.
// Fewer threads than HIDING do not hide latencies, and take longer in proportion. Each CTA fills
// its shared memory FILLS times from memory; a launch takes at least that long.
#ifndef TESTS_RUNTIME_FAKE_CLOCK_H
#define TESTS_RUNTIME_FAKE_CLOCK_H

#include "tests/runtime/fake_cuda.h"

#include <math.h>

enum { SHARED_OPTIN = 227 << 10, HIDING = 768, FILLS = 16, CTA_SHARED = 1024, THREADS_SM = 2048 };
#define WORK        3.2e-3
#define CTA_SECONDS 8e-6

typedef struct Device {
    int capability, processors;
    int shared; // KiB of shared memory of a processor; 0: unknown
    int rate;   // GB/s; 0: unknown
} Device;

/// The largest shared memory of a CTA.
static inline int shared_of(const Device *d) {
    int bytes = d->shared * 1024 - CTA_SHARED;
    return d->shared && bytes < SHARED_OPTIN ? bytes : SHARED_OPTIN;
}

/// The number of CTAs of the launch that a processor holds at a time.
static inline double held_ctas(const Device *d, const FakeLaunch *launch) {
    if (!d->shared) return 1;
    double room = floor(d->shared * 1024.0 / (launch->shared_bytes + CTA_SHARED));
    double held = fmin(room, floor((double)THREADS_SM / launch->block));
    return fmax(1, fmin(held, ceil((double)launch->grid / d->processors)));
}

/// The time of a launch: its waves, or its memory traffic.
static inline double launch_seconds(const Device *d, const FakeLaunch *launch) {
    double held = held_ctas(d, launch), grid = launch->grid;
    double waves = ceil(grid / (d->processors * held));
    double hidden = d->shared ? fmin(1, held * launch->block / HIDING) : 1;
    double bytes = grid * launch->shared_bytes * FILLS;
    double computed = waves * (held * WORK / grid / hidden + CTA_SECONDS);
    return d->rate ? fmax(computed, bytes / (d->rate * 1e9)) : computed;
}

#endif
