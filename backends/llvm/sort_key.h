// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The order of a sort as that of signed integers.
#ifndef BACKENDS_LLVM_SORT_KEY_H
#define BACKENDS_LLVM_SORT_KEY_H

#include "backends/llvm/llvm.h"

/// Bits of gen_sort_key's numbers.
int gen_sort_key_bits(Elem elem);
/// Numbers whose signed order is the one wanted: NaN is last in either direction, -0 equals 0. Of
/// bool it is one bit.
LLVMValueRef gen_sort_key(const Gen *g, Elem elem, LLVMValueRef x, bool descending);

#endif
