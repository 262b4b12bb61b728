// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Requests for kernels of one source, in the form that launches make.
#ifndef TESTS_TUNE_REQUEST_H
#define TESTS_TUNE_REQUEST_H

#include "driver/tune/tune.h"

/// A product, kernels with long schedules and with skipped work, normalised rows, and kernels
/// without choices.
extern const char source[];

enum { MATMUL_ARGS = 3 };

/// c = a b in f32 for a target, with dense arguments.
Request matmul_request(Ctx *ctx, const char *target, int64_t m, int64_t n, int64_t k);
/// y = softmax(x) of rows.
Request half_request(Ctx *ctx, const char *target, int64_t m, int64_t n, int64_t k);
Request softmax_request(Ctx *ctx, const char *target, int64_t rows, int64_t row);
/// A request for any kernel of the source, with dense f32 tensors of these shapes.
Request request_for(Ctx *ctx, const char *kernel, const char *target, int n, const int *ranks,
                    const int64_t (*shapes)[4]);
/// Returns "warps" among a candidate's values, or -1.
int64_t value_in(const TuneCandidate *c, const char *name);

#endif
