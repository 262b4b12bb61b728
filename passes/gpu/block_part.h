// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Parts of blocks along an axis, computed from the loads on. A part of x + y is the sum of the
// parts of x and y; a part of a load is a load of fewer elements.
#ifndef PASSES_GPU_BLOCK_PART_H
#define PASSES_GPU_BLOCK_PART_H

#include "ir/ir.h"

/// One part: the lanes start .. start + width - 1.
typedef struct Parts {
    Ir *ir;
    Ctx *ctx;
    Value *start; // i64
    int64_t width;
    PtrMap *through;       // values whose ops are computed by parts; others are sliced. NULL: all
    PtrMap made[MAX_RANK]; // block -> its part along this axis
} Parts;

/// The type of a part of a block of type t.
const Type *part_type(const Parts *p, const Type *t, int axis);
/// Returns the axis of operand i (of an elementwise op, cast, select, broadcast, reshape, permute
/// or reduce) that corresponds to `axis` of the result. -1: a part of the result needs the whole
/// operand.
int part_axis(const Op *op, int i, int axis);
/// Returns the tensor's dimension that `axis` of the access walks along. -1: it is picked by
/// positions.
int part_dim(const Access *a, int axis);
/// Returns the part of v along `axis`, built at b.
Value *part_of(Parts *p, Builder *b, Value *v, int axis);
/// Builds the store of the part of its value.
void part_of_store(Parts *p, Builder *b, const Op *store, int axis);
/// Whether two accesses that may refer to one tensor access the same places.
bool same_places(const Op *a, const Op *b);
/// Whether a launch may pass one tensor for both parameters.
bool may_be_one(const Value *a, const Value *b);

#endif
