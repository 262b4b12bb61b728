// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The measured peaks of this machine, with which kernels are compared.
#ifndef TOOLS_ROOFLINE_H
#define TOOLS_ROOFLINE_H

#include <stdbool.h>
#include <stdint.h>

/// Roofs for a number of threads; 0 if the CPU lacks the unit.
typedef struct Roofs {
    int threads;
    double copy;    // bytes read and written a second, arrays far beyond the caches
    double fma_f32; // floating-point operations a second; a multiply-add is two
    double dot_bf16, amx_bf16;
} Roofs;

/// Takes about a third of a second for each roof.
Roofs roofs_measure(int threads);
/// Measures the roof of multiply-adds and, with `bf16`, that of bf16 products; the others are 0.
Roofs roofs_arithmetic(int threads, bool bf16);
/// Returns the bytes a second of a copy of an array of this size, which may fit a cache.
double roofs_copy(int threads, int64_t bytes);

#endif
