// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Products of small matrices, for the instructions of a warp and of a warpgroup.
#ifndef BACKENDS_SIM_MATRIX_H
#define BACKENDS_SIM_MATRIX_H

#include "backends/sim/machine.h"

/// Element types from the name: accumulator, A, B.
void prepare_types(Prepare *p, SimSite *site);
/// Decodes an operand from its bits; f32 is tf32.
float matrix_float(Elem elem, uint32_t bits);
int32_t matrix_int(Elem elem, uint32_t bits);
/// d += a b, all row-major. n is a multiple of 8.
void product_float(int m, int n, int k, const float *a, const float *b, float *d);
/// The same with sums that keep few bits, as those of f8.
void product_narrow(int m, int n, int k, const float *a, const float *b, float *d);
bool is_narrow(const SimSite *site);
void product_int(int m, int n, int k, const int32_t *a, const int32_t *b, uint32_t *d);

#endif
