// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Values of the names in tensor types. Given tensors bind the names, and the names determine the
// shapes of missing tensors.
#ifndef DRIVER_DIMENSIONS_H
#define DRIVER_DIMENSIONS_H

#include "frontend/frontend.h"
#include "ir/interp/interp.h"

/// Values of names: dims, packs, const and integer parameters, tune values.
typedef struct Dimension {
    const char *name;
    int pack; // number of extents of `..name`, or -1 for a plain number
    int64_t value, extents[MAX_RANK];
} Dimension;
typedef VEC(Dimension) Dimensions;

const Dimension *dims_find(const Dimensions *dims, const char *name);
void dims_set(Ctx *ctx, Dimensions *dims, const char *name, int64_t value);
/// Binds the new names of a tensor type to the extents of its argument: plain names and packs, or
/// with `sums` the names in `E + 1`, which count only if no plain name binds them.
void dims_bind(Ctx *ctx, Dimensions *dims, const TypeExpr *type, int rank, const int64_t *extents,
               bool sums);
/// Adds the integer constants of the program's own file.
void dims_constants(Ctx *ctx, Dimensions *dims, const Program *program);
/// Binds the unknown names of conditions `require NAME == expression` whose other side is known.
void dims_require(Ctx *ctx, Dimensions *dims, const FnDef *kernel);
/// The reason why a type has no shape, as the two parts of a clause: "N", "is not known".
typedef struct NoShape {
    const char *subject, *fault;
} NoShape;

/// Computes the extents of a tensor type. False, with the reason, if they do not follow from dims.
bool dims_extents(const Dimensions *dims, const TypeExpr *type, int *rank, int64_t *extents,
                  NoShape *why);
/// Computes the extents, and the strides of a dense row-major tensor.
bool dims_tensor(const Dimensions *dims, const TypeExpr *type, Tensor *t);
/// Evaluates integer arithmetic over names, as in dims. False, with the name, if it fails.
bool dims_eval(const Dimensions *dims, const Expr *e, int64_t *out, const char **unknown);

#endif
