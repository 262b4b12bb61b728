// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Walking over a block by lines and vectors, for the ops that are their own loop nest.
#ifndef BACKENDS_CPU_LINE_WALK_H
#define BACKENDS_CPU_LINE_WALK_H

#include "backends/cpu/cpu.h"

/// Calls body(arg, at, live) for the vectors of `lanes` lanes that cover 0 .. extent; `live` of
/// them are inside. Few vectors are straight code, many a loop.
typedef void VectorBody(Emit *e, void *arg, LLVMValueRef at, int live);
void for_vectors(Emit *e, int64_t extent, int lanes, VectorBody *body, void *arg);

/// Calls body(arg, place) once inside loops over all axes but those of the bit set `without`,
/// whose coordinates are 0.
typedef void LineBody(Emit *e, void *arg, Place *p);
void for_lines(Emit *e, const Type *t, unsigned without, LineBody *body, void *arg);

/// The last axis that has an extent above 1, or the last one.
int line_axis(const Type *t);
/// The vectors to walk along `extent` elements with, where `bytes` is the widest in registers:
/// a power of two, at least 2, at most what covers the extent.
int line_lanes(const Emit *e, int bytes, int64_t extent);
/// p with `lanes` lanes along `axis` from `at` on.
Place line_place(const Place *p, int axis, int lanes, LLVMValueRef at, int live);

#endif
