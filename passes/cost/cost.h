// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What the cost models of CPUs and GPUs share.
#ifndef PASSES_COST_COST_H
#define PASSES_COST_COST_H

#include "ir/ir.h"

/// An index of a loop or of programs that has a value.
typedef struct CostIndex {
    const Value *index;
    int64_t value;
    const struct CostIndex *outer;
} CostIndex;

/// The dims of a launch: see cost_estimate.
typedef struct CostDims {
    int64_t (*dim_of)(void *user, int parameter, int axis);
    void *user;
    const CostIndex *at; // others have the value of a typical iteration
} CostDims;

/// Iterations of a for, parallel or contract, the last one counted for what it has of a step; a few
/// where the dims do not decide it.
double cost_parts(const CostDims *dims, const Op *op);
/// Whether the dims decide it.
bool cost_is_known(const CostDims *dims, const Op *op);
/// Whether the dims decide it, or data, but no more than what the tensors have.
bool cost_is_bounded(const CostDims *dims, const Op *op);
/// The value of an i64 scalar of the host where the dims decide it; of the rank the middle one.
bool cost_value(const CostDims *dims, const Value *v, int64_t *out);
/// The same as cost_parts, the last one counted as a whole.
double cost_trips(const CostDims *dims, const Op *op);
double cost_bytes(const Type *block);
/// Nothing comes of the op: the kernel is not optimised yet, and `wide` in it asks for types by
/// ops whose values nobody wants.
bool cost_is_dead(const Op *op);

#endif
