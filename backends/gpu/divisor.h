// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Divisors of integers in device code.
#ifndef BACKENDS_GPU_DIVISOR_H
#define BACKENDS_GPU_DIVISOR_H

#include "ir/ir.h"

/// Returns a power of two, at least 1, that divides the i64 scalar; 0 if the scalar is always 0.
int64_t gpu_divisor(const Value *v);

#endif
