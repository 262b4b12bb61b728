// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Parts of the pass `narrow`.
#ifndef PASSES_GPU_NARROW_H
#define PASSES_GPU_NARROW_H

#include "ir/ir.h"

/// Narrows divisions of numbers of programs (narrow_divide.c).
void narrow_divisions(Ir *ir, Op *module);

extern const RuleTable narrow_affine, narrow_compare, narrow_small;

#endif
