// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The tensor map of the simulator: 128 bytes, as large as that of the hardware.
#ifndef BACKENDS_SIM_TMA_MAP_H
#define BACKENDS_SIM_TMA_MAP_H

#include <stdint.h>

enum { MAP_RANK = 5, MAP_MAGIC = 0x54474d50 };

/// Innermost dimension first.
typedef struct SimTensorMap {
    uint32_t magic;
    uint8_t type, rank, swizzle, fill; // type, swizzle, fill: CUDA's numbers
    char *base;
    uint64_t strides[MAP_RANK - 1]; // bytes, of dimension 1 on
    uint32_t last[MAP_RANK];        // extent - 1: an extent may be 2^32
    uint16_t box[MAP_RANK];
    uint8_t steps[MAP_RANK], bytes; // of traversal; of an element
    uint8_t reserved[40];
} SimTensorMap;
_Static_assert(sizeof(SimTensorMap) == 128, "as the hardware's");

#endif
