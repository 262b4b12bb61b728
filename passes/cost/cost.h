// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Declarations shared by the cost models of CPUs and GPUs.
#ifndef PASSES_COST_COST_H
#define PASSES_COST_COST_H

#include "ir/ir.h"

/// A loop's or programs' index with a known value.
typedef struct CostIndex {
    const Value *index;
    int64_t value;
    const struct CostIndex *outer;
} CostIndex;

/// The dims of a launch: see cost_estimate.
typedef struct CostDims {
    int64_t (*dim_of)(void *user, int parameter, int axis);
    void *user;
    const CostIndex *at; // other indices have the value of a typical iteration
} CostDims;

/// Returns the iterations of a for, parallel or contract. The last one counts in proportion to its
/// part of a step. If the dims do not determine them, returns a small guess.
double cost_parts(const CostDims *dims, const Op *op);
/// Whether the dims determine the iterations.
bool cost_is_known(const CostDims *dims, const Op *op);
/// Whether the dims determine the iterations, or data do, within the extents of tensors.
bool cost_is_bounded(const CostDims *dims, const Op *op);
/// Finds the value of an i64 scalar of the host, assuming the middle rank. Returns false if the
/// dims do not determine it.
bool cost_value(const CostDims *dims, const Value *v, int64_t *out);
/// Like cost_parts, with the last iteration counted as a whole one.
double cost_trips(const CostDims *dims, const Op *op);
/// Returns the runs of an op's regions: the iterations of a loop, of which a `while` has
/// COST_UNKNOWN_TRIPS, and 1 for other ops.
double cost_turns(const CostDims *dims, const Op *op);
/// Estimates host code: the sum of its phases, each as often as the loops around it run. A phase is
/// an outermost `parallel`; `phase` returns its seconds.
double cost_host(const CostDims *dims, const Region *host,
                 double (*phase)(void *model, const Op *phase), void *model);
double cost_bytes(const Type *block);
/// Whether the op has no live use. Such ops exist because the kernel is not optimised yet; `wide`,
/// for instance, makes ops only to compute types.
bool cost_is_dead(const Op *op);

#endif
