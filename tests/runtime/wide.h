// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Kernels of any number of parameters, of all kinds in turn.
#ifndef TESTS_RUNTIME_WIDE_H
#define TESTS_RUNTIME_WIDE_H

#include "tests/runtime/kernels.h"

#include <stdbool.h>

/// The first two parameters are numbers. From the last one backwards the kinds alternate.
typedef enum WideKind { WIDE_OUT, WIDE_PACK, WIDE_NUMBER, WIDE_IN, WIDE_OPTIONAL } WideKind;
WideKind wide_kind(int n, int i);

/// Tensors are f32[N], packs alternately f32[..P] and f32[..Q], numbers i64. The last output may be
/// one view with any input of its type. Variant 0 has all optional tensors, variant 1 none of them.
typedef struct Wide {
    tg_kernel kernel;
    tg_kernel_info info;
    tg_variant variants[2];
    tg_param_info params[TG_MAX_PARAMS];
    char names[TG_MAX_PARAMS][16];
    tg_fact facts[2][TG_MAX_PARAMS];
    uint8_t listed[2][TG_MAX_PARAMS], inplace[2 * TG_MAX_PARAMS];
} Wide;
void wide_make(Wide *w, int n);

/// The arguments of the last launch of `wide_launched`, by parameter; 0: none.
typedef struct WideSeen {
    uint64_t bits[TG_MAX_PARAMS];
    int64_t extent[TG_MAX_PARAMS]; // the first extent
} WideSeen;
extern _Thread_local const Wide *wide_launched;
extern _Thread_local WideSeen wide_seen;

#endif
