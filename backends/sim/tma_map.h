// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The simulator's tensor map: 128 bytes, as the hardware's.
#ifndef BACKENDS_SIM_TMA_MAP_H
#define BACKENDS_SIM_TMA_MAP_H

#include <stdint.h>

enum { MAP_RANK = 5, MAP_MAGIC = 0x54474d50 };

/// Dimensions go from the innermost to the outermost.
typedef struct SimTensorMap {
    uint32_t magic;
    uint8_t type, rank, swizzle, fill; // type, swizzle, fill: numbers of CUDA's enums
    char *base;
    uint64_t strides[MAP_RANK - 1]; // in bytes, from dimension 1 on
    uint32_t last[MAP_RANK];        // extent - 1, since an extent may be 2^32
    uint16_t box[MAP_RANK];
    uint8_t steps[MAP_RANK], bytes; // traversal steps; bytes of an element
    uint8_t reserved[40];
} SimTensorMap;
_Static_assert(sizeof(SimTensorMap) == 128, "as the hardware's");

#endif
