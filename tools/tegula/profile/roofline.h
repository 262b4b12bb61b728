// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The roofline of a profile: the machine's measured peaks, the kernel's place below them, and what
// is between the two.
#ifndef TOOLS_TEGULA_PROFILE_ROOFLINE_H
#define TOOLS_TEGULA_PROFILE_ROOFLINE_H

#include "driver/rank_settings.h"
#include "tools/tegula/profile/profile.h"

/// A setting that may be faster, and the cost model's reason.
typedef struct Advice {
    const char *setting; // "--set BM=128"
    const char *why;
} Advice;

enum { MOST_ADVICE = 2, MOST_LOSSES = 6 };

/// A share of the threads' time that is not spent in the parts that do the work.
typedef struct Loss {
    const char *text;
    double share; // of the time of a launch
} Loss;

typedef struct Roofline {
    double bandwidth; // bytes a second of a copy of as many bytes; 0: not measured
    double peak;      // FLOP a second; 0: not measured, or the kernel has no products
    const char *peak_name;
    const char *verdict;                    // what the roofs say of the kernel: a sentence
    double memory_seconds, compute_seconds; // least times by each roof; 0: no such roof
    int n_losses, n_advice;
    Loss losses[MOST_LOSSES]; // the greatest first
    Advice advice[MOST_ADVICE];
} Roofline;

/// The settings that the job leaves open, as the cost model ranks them. Called before the job is
/// elaborated.
RankedSettings *roofline_settings(Job *job);
/// Measures the roofs, and compares the profile with them. The target must be a machine.
void roofline_of(const Profile *p, const RankedSettings *settings, Roofline *out);
/// Prints the chart, the limits in words, and the advice.
void roofline_print(const Profile *p, const Roofline *r);
/// The page of a profile; roofline: or NULL.
const char *profile_page(const Profile *p, const Roofline *roofline);
/// The chart as SVG. Without a rate of arithmetic, or a roof of it, it compares times with memory.
const char *roofline_svg(const Profile *p, const Roofline *r);

#endif
