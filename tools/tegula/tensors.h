// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Tensors that the command line makes: memory, files, random data, views.
#ifndef TOOLS_TEGULA_TENSORS_H
#define TOOLS_TEGULA_TENSORS_H

#include "ir/interp/interp.h"
#include "runtime/abi.h"
#include "tools/tegula/cli.h"

/// An argument as given: a scalar, a tensor, or null.
typedef struct Argument {
    enum { ARG_MISSING, ARG_NULL, ARG_SCALAR, ARG_TENSOR } kind;
    const char *spec; // for messages
    Cell scalar;      // a value of the parameter's element
    Tensor tensor;    // the kernel's view; with several ranks, that of rank 0
    bool dealt;       // whether each rank has a different tensor
    Tensor all;       // if dealt: the tensors of all ranks, with the rank in front
    Tensor whole;     // all of the memory
    bool inferred;    // zeroes, because no --arg gives it
} Argument;

/* ---- tensors.c ----------------------------------------------------------------------------- */

int64_t tensor_count(const Tensor *t);
/// Returns the size of the widest vectors at which all rows can start: 16, 8 or 4 bytes, or 1.
int tensor_alignment(const Tensor *t);
/// Explains why rows do not start at multiples of `unit` bytes, and in which axis.
tg_misaligned tensor_misalignment(const Tensor *t, int unit, int *axis);
/// Returns the bytes from its lowest element to the end of its highest one; false if empty
/// (bind_arguments.c).
bool tensor_span(const Tensor *t, uintptr_t *lo, uintptr_t *hi);
/// Makes a row-major, zeroed tensor that the context owns. With `guard` the byte after it is
/// inaccessible. Returns false (reported) if memory is exhausted.
bool tensor_create(Ctx *ctx, Elem elem, int rank, const int64_t *extents, bool guard, Tensor *out);
/// Makes memory for the given nonnegative strides, in sparse address space.
bool tensor_create_strided(Ctx *ctx, const Tensor *shape, bool guard, Tensor *out);
/// Converts element by element. The shapes must agree.
void tensor_copy(Tensor *to, const Tensor *from);
/// A walk over the elements in row-major order. It starts at {0}.
typedef struct Walk {
    int64_t at[MAX_RANK], offset;
} Walk;
void walk_next(const Tensor *t, Walk *w);

/* ---- tensor_files.c ------------------------------------------------------------------------- */

/// Reads .npy or .png. `want`: the element to read, or EL_COUNT for the file's. With `bits_only`,
/// values are not converted, except that bits of a type that NumPy lacks are taken as that type.
bool tensor_read(Ctx *ctx, const char *path, Elem want, bool bits_only, bool guard, Tensor *out);
bool tensor_write(Ctx *ctx, const char *path, const Tensor *t);

/* ---- argument_spec.c ------------------------------------------------------------------------ */

/// The parameter's demands on its argument.
typedef struct Wanted {
    const char *name;
    bool scalar;
    Elem elem;     // EL_COUNT: a type parameter leaves it open
    Elem fallback; // element of generated data then
    bool guard;
    /// The argument made for another parameter, for same(NAME), or NULL.
    const Argument *(*find)(void *user, const char *name);
    void *user;
} Wanted;

/// Makes the argument that `spec` describes. False (reported) if the spec is wrong.
bool spec_make(Ctx *ctx, const char *spec, const Wanted *wanted, Argument *out);

#endif
