// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Lowering of ops on whole blocks and of effects, for rows of lowering_table.c.
#ifndef BACKENDS_GPU_OPS_H
#define BACKENDS_GPU_OPS_H

#include "backends/gpu/lower.h"

GpuLower gpu_lower_reduce, gpu_lower_scan, gpu_lower_sort, gpu_lower_gather, gpu_lower_histogram,
    gpu_lower_dot, gpu_lower_assert, gpu_lower_print, gpu_lower_signal_wait, gpu_lower_signal_set,
    gpu_lower_comm_fence;

/// Adds a place that can fail or print, and returns its number. kind: enum tg_site_kind; text and
/// types as in tg_site.
int gpu_add_site(GpuFn *f, const Op *op, int kind, const char *text, const char *types,
                 int n_indices);

/// Computes a product by the instruction of the row `unit`, in tiles of its fragments.
void gpu_matrix_dot(GpuFn *f, Op *op, const GpuUnit *unit);

/// Under --check: checks scalar x / 0 and x % 0.
void gpu_check_division(GpuFn *f, const Op *op);
/// Under --check: checks that live lanes of an access lie inside the tensor.
void gpu_check_access(GpuFn *f, const Op *op);

#endif
