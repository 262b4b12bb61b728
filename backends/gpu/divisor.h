// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What divides integers of device code.
#ifndef BACKENDS_GPU_DIVISOR_H
#define BACKENDS_GPU_DIVISOR_H

#include "ir/ir.h"

/// A power of two that divides the i64 scalar, at least 1; 0 where it is always 0.
int64_t gpu_divisor(const Value *v);

#endif
