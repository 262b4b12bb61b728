// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Parts of the pass `narrow`.
#ifndef PASSES_GPU_NARROW_H
#define PASSES_GPU_NARROW_H

#include "ir/ir.h"

/// `narrow` clamps the scalars of comparisons to magnitudes of at most this.
#define NARROW_LIMIT ((int64_t)1 << 30)

/// Returns the i64 scalar v, between -limit and limit, as i32.
Value *build_clamped(Builder *b, Value *v, int64_t limit);
/// Whether v is the max of a min, or the min of a max, with constants between -limit and limit.
bool is_clamped(const Value *v, int64_t limit);

/// Narrows divisions of numbers of programs (narrow_divide.c).
void narrow_divisions(Ir *ir, Op *module);

extern const RuleTable narrow_affine, narrow_compare, narrow_small;

#endif
