// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Which accesses of a kernel may touch one element.
#ifndef PASSES_ALIAS_H
#define PASSES_ALIAS_H

#include "ir/ir.h"

/// Accesses to tensors a and b may meet. Distinct tensor values of a kernel never do: parameters
/// that are written overlap no other parameter, scratches are their own; the exception, a launch
/// in place, is granted only where no access can tell (alias.c).
static inline bool may_alias(const Value *a, const Value *b) {
    return a == b;
}

/// v = index, or index + something that the loop of index does not change.
bool index_moves(const Value *v, const Value *index);

#endif
