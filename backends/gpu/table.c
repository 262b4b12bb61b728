// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Which function lowers which op of device code; elementwise ops without a row go by
// gpu_lower_elementwise.
#include "backends/gpu/lower.h"
#include "backends/gpu/ops.h"

GpuLower *const gpu_lowerings[OP_COUNT] = {
    [OP_FOR] = gpu_lower_for,
    [OP_WHILE] = gpu_lower_while,
    [OP_IF] = gpu_lower_if,
    [OP_CONST] = gpu_lower_const,
    [OP_IOTA] = gpu_lower_iota,
    [OP_BROADCAST] = gpu_lower_broadcast,
    [OP_RESHAPE] = gpu_lower_reshape,
    [OP_PERMUTE] = gpu_lower_permute,
    [OP_SLICE] = gpu_lower_slice,
    [OP_CONCAT] = gpu_lower_concat,
    [OP_CAST] = gpu_lower_cast,
    [OP_BITCAST] = gpu_lower_bitcast,
    [OP_SELECT] = gpu_lower_select,
    [OP_DIM] = gpu_lower_dim,
    [OP_ALIGN] = gpu_lower_align,
    [OP_STRIDE] = gpu_lower_stride,
    [OP_CONVERT] = gpu_lower_convert,
    [OP_REDUCE] = gpu_lower_reduce,
    [OP_SCAN] = gpu_lower_scan,
    [OP_SORT] = gpu_lower_sort,
    [OP_GATHER] = gpu_lower_gather,
    [OP_DOT] = gpu_lower_dot,
    [OP_HISTOGRAM] = gpu_lower_histogram,
    [OP_LOAD] = gpu_lower_load,
    [OP_LIVE] = gpu_lower_live,
    [OP_STORE] = gpu_lower_store,
    [OP_ATOMIC] = gpu_lower_atomic,
    [OP_PRINT] = gpu_lower_print,
    [OP_ASSERT] = gpu_lower_assert,
};
