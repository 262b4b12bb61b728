// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Random layouts from a seed, for the tests of the layout algebra.
#ifndef TESTS_UNIT_LAYOUT_RANDOM_H
#define TESTS_UNIT_LAYOUT_RANDOM_H

#include "ir/layout/layout.h"

typedef struct Random {
    uint64_t state;
} Random;

uint64_t random_bits(Random *r);
/// Returns a number from 0 to n - 1.
int random_below(Random *r, int n);

/// The properties that two layouts must share: extents, boxes, and the bits of lane, warp and CTA.
typedef struct Shape {
    Layout box;
} Shape;

/// Returns one to three dimensions with odd repeats, extents of 1 and holes; a few hundred
/// elements.
Shape random_shape(Random *r);
/// Any layout of that shape, copies and swizzles included.
const Layout *random_layout(Ctx *ctx, Random *r, Shape shape);
/// A layout from its text, for tests that write one down.
const Layout *layout_of(Ctx *ctx, const char *text);

#endif
