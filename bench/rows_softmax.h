// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// oneDNN's softmax of the rows of one f32 matrix, in place: a part of composed peers.
#ifndef BENCH_ROWS_SOFTMAX_H
#define BENCH_ROWS_SOFTMAX_H

#include <stdint.h>

/// NULL: oneDNN cannot do it.
void *rows_softmax_new(int64_t rows, int64_t n, int threads);
float *rows_softmax_data(void *state);
void rows_softmax_run(void *state);
void rows_softmax_free(void *state);

#endif
