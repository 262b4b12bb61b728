// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Expresses the order of a sort as the order of signed integers.
#ifndef BACKENDS_LLVM_SORT_KEY_H
#define BACKENDS_LLVM_SORT_KEY_H

#include "backends/llvm/llvm.h"

/// Returns the bits of gen_sort_key's numbers.
int gen_sort_key_bits(Elem elem);
/// Returns the number of low bits without influence on the order.
int gen_sort_key_idle_bits(Elem elem);
/// Returns numbers whose signed order is the requested order: NaN is last in either direction, -0
/// equals 0. For bool it is one bit.
LLVMValueRef gen_sort_key(const Gen *g, Elem elem, LLVMValueRef x, bool descending);

#endif
