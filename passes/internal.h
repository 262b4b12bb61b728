// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What the passes on grids share among themselves.
#ifndef PASSES_INTERNAL_H
#define PASSES_INTERNAL_H

#include "ir/ir.h"

enum { MAX_LEVELS = 32 }; // dimensions of a grid

/* ---- tile_grid.c --------------------------------------------------------------------------- */

/// The next level of a nest, or NULL in the innermost.
Op *inner_parallel(const Op *parallel);
/// Scalar arithmetic between the levels that needs nothing from inside moves before the phase.
void hoist_bounds(Op *phase);

/* ---- cost.c -------------------------------------------------------------------------------- */

/// A rough estimate of one program's work on one thread; loops of unknown length count as a few
/// iterations.
double program_seconds(const Region *body, const PassEnv *env);

#endif
