// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Folds of partial results, for GPUs: parts are read as one block and joined by a reduction instead
// of one after the other.
#ifndef PASSES_PARTIAL_FOLDS_H
#define PASSES_PARTIAL_FOLDS_H

#include "passes/util.h"

/// Tuples of n parts, numbered along one dimension of their tensors.
typedef struct Parts {
    int n;
    Value *const *tensors;
    Place at; // of a part; no axis before dimension `along`, which is its number
    int along;
    int64_t most;          // parts there may be
    const Region *join;    // (a..., b...) on scalars, or on blocks of one shape lane by lane;
    const OpCode *monoids; // or one op for each part
} Parts;

/// state = the fold of state and of the parts from .. end - 1, in order. False, and nothing built:
/// parts of this kind are folded one by one.
bool fold_parts(Builder *b, const Parts *p, Value *from, Value *end, Value **state);

extern const RuleTable fold_chunkings;

#endif
