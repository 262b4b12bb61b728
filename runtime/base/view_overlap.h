// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Whether strided views share memory. All executors ask here, so they refuse the same launches.
#ifndef RUNTIME_BASE_VIEW_OVERLAP_H
#define RUNTIME_BASE_VIEW_OVERLAP_H

#include <stdint.h>

/// A strided view. `strides` counts elements of `bits` bits. A 4-bit element n is half of byte n /
/// 2 of `data`. The span in bytes fits into 61 bits.
typedef struct rt_view {
    const void *data;
    const int64_t *shape, *strides;
    int rank, bits;
} rt_view;

typedef enum rt_meeting {
    RT_APART,
    RT_MEET,
    RT_UNDECIDED // the search took too long; the launch is refused
} rt_meeting;

/// Whether two views share a byte. The answer is exact. For views of one tensor (slices, halves,
/// columns) it takes one step an axis.
rt_meeting rt_views_meet(const rt_view *x, const rt_view *y);

/// Whether two positions of a view are the same element. The answer is exact. It takes one step an
/// axis if each stride exceeds the span of the axes with smaller strides.
rt_meeting rt_view_meets_itself(const rt_view *x);

/// The verb of a message about two views that may overlap, such as "overlaps".
static inline const char *rt_meeting_text(rt_meeting m) {
    return m == RT_MEET ? "overlaps" : "is too intricately interleaved to tell it from";
}

#endif
