// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Folds of partial results for GPUs: parts are loaded as one block and joined by a reduction,
// rather than one after the other.
#ifndef PASSES_PARTIAL_FOLDS_H
#define PASSES_PARTIAL_FOLDS_H

#include "passes/util.h"

/// Tuples of n parts, numbered along one dimension of their tensors.
typedef struct Parts {
    int n;
    Value *const *tensors;
    Place at; // of a part; dimension `along` is its number, and no earlier one is an axis
    int along;
    int64_t most;          // maximum number of parts
    const Region *join;    // (a..., b...) on scalars, or lane by lane on blocks of one shape;
    const OpCode *monoids; // or one op for each value of the tuple
} Parts;

/// Builds state = the fold of state and the parts from .. end - 1, in order. Returns false, with
/// nothing built, if parts of this kind are folded one by one.
bool fold_parts(Builder *b, const Parts *p, Value *from, Value *end, Value **state);

extern const RuleTable fold_chunkings;

#endif
