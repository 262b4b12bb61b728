// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Walks over a block by lines and vectors, for ops that are their own loop nest.
#ifndef BACKENDS_CPU_LINE_WALK_H
#define BACKENDS_CPU_LINE_WALK_H

#include "backends/cpu/cpu.h"

/// Calls body(arg, at, live) for the vectors of `lanes` lanes that cover 0 .. extent, with `live`
/// lanes inside. Few vectors are unrolled, many form a loop.
typedef void VectorBody(Emit *e, void *arg, LLVMValueRef at, int live);
void for_vectors(Emit *e, int64_t extent, int lanes, VectorBody *body, void *arg);

/// Calls body(arg, place) once, inside loops over all axes except those in the bit set `without`,
/// whose coordinates are 0.
typedef void LineBody(Emit *e, void *arg, Place *p);
void for_lines(Emit *e, const Type *t, unsigned without, LineBody *body, void *arg);

/// Returns the last axis of extent above 1, or the last axis.
int line_axis(const Type *t);
/// Returns the lanes of the vectors along `extent` elements, if the widest element in registers has
/// `bytes` bytes: a power of two, at least 2, no more than covers the extent.
int line_lanes(const Emit *e, int bytes, int64_t extent);
/// Returns p with `lanes` lanes along `axis` from `at` on.
Place line_place(const Place *p, int axis, int lanes, LLVMValueRef at, int live);

#endif
