// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Parts of blocks along an axis, computed from the loads on: a part of x + y is that of x and that
// of y, a part of a load is a load of fewer elements.
#ifndef PASSES_GPU_BLOCK_PART_H
#define PASSES_GPU_BLOCK_PART_H

#include "ir/ir.h"

/// One part: lanes start .. start + width - 1.
typedef struct Parts {
    Ir *ir;
    Ctx *ctx;
    Value *start; // i64
    int64_t width;
    PtrMap *through;       // the values whose ops are done by parts; of others, slices. NULL: all
    PtrMap made[MAX_RANK]; // block -> its part along that axis
} Parts;

/// The type of a part of such a block.
const Type *part_type(const Parts *p, const Type *t, int axis);
/// The axis of operand i of an elementwise op, cast, select, broadcast, reshape, permute or reduce
/// along which a part of the result needs a part of it; -1: it needs all of it.
int part_axis(const Op *op, int i, int axis);
/// The tensor's dimension along which an access goes through that axis of its block; -1: by
/// positions.
int part_dim(const Access *a, int axis);
/// The part of v along an axis, at b.
Value *part_of(Parts *p, Builder *b, Value *v, int axis);
/// The store of the part of its value.
void part_of_store(Parts *p, Builder *b, const Op *store, int axis);
/// Whether two accesses that may be of one tensor go to the same places.
bool same_places(const Op *a, const Op *b);
/// Two parameters that a launch may give one tensor.
bool may_be_one(const Value *a, const Value *b);

#endif
