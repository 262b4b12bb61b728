// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Sorts numbers in shared memory by their digits.
#ifndef BACKENDS_GPU_DIGIT_SORT_H
#define BACKENDS_GPU_DIGIT_SORT_H

#include "backends/gpu/block_elements.h"

/// A line of numbers in shared memory. A number has one or two parts; the bits from `first_bit` to
/// `end_bit`, an even number, of the first part are the key, unsigned.
typedef struct GpuDigitSort {
    const GpuFlat *flat; // of each part
    int parts, first_bit, end_bit;
    int64_t length; // a power of two
} GpuDigitSort;

/// Whether this sort fits, and takes fewer steps than a bitonic network of 2^log elements.
/// bytes: of a number.
bool gpu_sorts_by_digits(const GpuFn *f, int log, int key_bits, int64_t bytes);
/// Returns the place of element `at` of a line, and of the place after all of them. Elements lie
/// apart so that threads that read consecutive elements each use different banks.
LLVMValueRef gpu_digit_place(GpuFn *f, LLVMValueRef at);
int64_t gpu_digit_places(int64_t length);
/// Sorts the line by its key, stably. All threads have met; afterwards they have met again.
void gpu_sort_by_digits(GpuFn *f, const GpuDigitSort *s);

#endif
