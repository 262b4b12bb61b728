// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Whether strided views share memory. All executors ask here, so they refuse the same launches.
#ifndef RUNTIME_BASE_VIEW_OVERLAP_H
#define RUNTIME_BASE_VIEW_OVERLAP_H

#include <stdint.h>

/// Elements of `bits` bits at every step of `strides`, in elements. An element of 4 bits is half of
/// byte n / 2 of `data`. The bytes from the first to the last can be counted in 61 bits.
typedef struct rt_view {
    const void *data;
    const int64_t *shape, *strides;
    int rank, bits;
} rt_view;

typedef enum rt_meeting {
    RT_APART,
    RT_MEET,
    RT_UNDECIDED // the search took too long: it is to be refused
} rt_meeting;

/// Whether a byte belongs to both. Exact; for views of one tensor, such as slices, halves and
/// columns, it takes one step an axis.
rt_meeting rt_views_meet(const rt_view *x, const rt_view *y);

/// Whether two positions of one view are one element. Exact; one step an axis where each stride
/// leaves room for the axes of lesser ones.
rt_meeting rt_view_meets_itself(const rt_view *x);

/// "overlaps": what a message says between the names of two that are not apart.
static inline const char *rt_meeting_text(rt_meeting m) {
    return m == RT_MEET ? "overlaps" : "is too intricately interleaved to tell it from";
}

#endif
