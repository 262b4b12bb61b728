// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Decides which accesses of a kernel may touch the same element.
#ifndef PASSES_ALIAS_H
#define PASSES_ALIAS_H

#include "ir/ir.h"

/// Whether accesses to tensors a and b may overlap. Distinct tensor values of a kernel never do: a
/// written parameter overlaps no other parameter, and each scratch is its own. A launch in place is
/// the exception; it is allowed only if no access can observe it (alias.c).
static inline bool may_alias(const Value *a, const Value *b) {
    return a == b;
}

/// Whether v is the index, or the index plus or minus a value that the index's loop does not
/// change.
bool index_moves(const Value *v, const Value *index);

#endif
