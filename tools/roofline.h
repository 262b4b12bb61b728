// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The measured peaks of this machine: the roofs that kernels are compared with.
#ifndef TOOLS_ROOFLINE_H
#define TOOLS_ROOFLINE_H

#include <stdbool.h>
#include <stdint.h>

/// Roofs of a number of threads; 0 where the CPU lacks the unit.
typedef struct Roofs {
    int threads;
    double copy;    // bytes read and written a second, arrays far beyond the caches
    double fma_f32; // floating-point operations a second, multiply and add counted apart
    double dot_bf16, amx_bf16;
} Roofs;

/// Takes about a third of a second for each roof.
Roofs roofs_measure(int threads);
/// The roof of multiply-adds, and with `bf16` those of products of bf16; the others are 0.
Roofs roofs_arithmetic(int threads, bool bf16);
/// Bytes a second of a copy of an array of this size, which may fit a cache.
double roofs_copy(int threads, int64_t bytes);

#endif
