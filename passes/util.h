// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Helpers of several passes: effects, surgery on structured ops, small index arithmetic.
#ifndef PASSES_UTIL_H
#define PASSES_UTIL_H

#include "ir/ir.h"

#define for_each_kernel(k, module) for_each_op(k, (module)->regions[0]) if ((k)->code == OP_KERNEL)

/* ---- effects ------------------------------------------------------------------------------- */

/// Whether the op is control flow (for while if parallel launch contract), whose effects are those
/// of its contents.
bool op_is_container(const Op *op);
/// Whether the op is a for or while, whose regions may run any number of times.
bool op_is_loop(const Op *op);
/// Whether op and its contents neither read nor write memory nor have another effect.
bool tree_is_pure(const Op *op);
/// Whether op and its contents write no memory and have no effect. They may read.
bool tree_only_reads(const Op *op);
/// Whether op, or its contents, may write elements of tensor t. Distinct tensor values never
/// overlap if that matters: see alias.c.
bool tree_writes(const Op *op, const Value *t);
/// The same, except for writes of other ranks, which become visible after a wait for their
/// signals.
bool tree_stores(const Op *op, const Value *t);
/// Whether op, or its contents, waits for a signal, or may see by a fence that it was raised.
bool tree_waits(const Op *op);
/// Whether op itself, without its contents, writes memory.
bool op_writes(const Op *op);
/// Whether op is a load, which may be moved or repeated freely as long as its tensor does not
/// change.
bool op_is_load(const Op *op);

/* ---- structured ops ------------------------------------------------------------------------ */

/// Returns the index of a loop's first carried operand: 2 for `for`, 0 for `while`.
int loop_first_init(const Op *loop);
/// Returns carried value i as an argument of region r of a loop.
Value *loop_arg(const Op *loop, int r, int i);
/// Removes the carried values of a loop, or the results of an `if`, for which keep is false. Their
/// only uses may be the yields that feed them. Returns the op that replaces it.
Op *drop_slots(Ir *ir, Op *op, const bool *keep);
/// Moves the ops of r, a region of op, before op, with args for its arguments. Writes the yielded
/// values to `yields`, one for each operand of r's terminator. r is empty afterwards.
void splice_before(Op *op, Region *r, Value *const *args, Value **yields);
/// Moves all ops of a region, with its terminator, to the end of another.
void move_ops(Region *from, Region *to);
/// Returns the last op of the module that launches the device, or NULL.
Op *dispatch_of(Op *module, const Op *device);

/// Clones a region of scalar code (elementwise, const, select, casts) to b, with each value widened
/// to the shape of `shape`, as an elementwise function applies to a block. args have that shape.
/// Writes the values of its terminator to `yields`.
void apply_lanes(Builder *b, const Region *r, Value *const *args, const Type *shape,
                 Value **yields);

/* ---- places -------------------------------------------------------------------------------- */

/// A subscript under construction: the place of an access in a tensor.
typedef struct Place {
    int n, n_operands;
    SubDim dims[MAX_RANK];
    Value *operands[2 * MAX_RANK];
} Place;
/// Returns the subscript of an access, without its mask.
Place place_of(const Op *access);
void place_add_at(Place *p, Value *index);
void place_add_axis(Place *p, Value *base, Value *count, int64_t size);
void place_add_pick(Place *p, Value *coordinates);
void place_append(Place *p, const Place *rest);
/// Returns the place `rest` (NULL: none) inside the slice at these first coordinates.
Place place_behind(int n, Value *const *first, const Place *rest);
/// Returns the type of the block that an access at this place moves.
const Type *place_type(Ir *ir, Elem elem, const Place *p);
/// Builds a load. Dead lanes read 0. The result's extents are those of the place.
Value *load_at(Builder *b, Value *tensor, const Place *p);
/// Builds an atomic by name; "add" adds v to the old value.
Op *atomic_at(Builder *b, Update update, Value *tensor, Value *v, const Place *p);
/// Builds a store. mask: NULL, or a bool block in the shape of the picks.
void store_at(Builder *b, Value *tensor, Value *v, const Place *p, Value *mask);
/// Builds a constant with 0 or false in every lane.
Value *build_zero(Builder *b, const Type *type);
/// Returns x with op(x, y) = y for every y of the element, or NULL. For max and min of floats, this
/// holds for all y but NaN.
const Attr *monoid_identity(Ir *ir, OpCode op, Elem elem);
/// Returns the initial value for a part of a fold whose parts are folded later, or NULL. It is NaN
/// for max and min of floats: max(-inf, NaN) is -inf, and a part of NaNs alone must stay NaN.
const Attr *part_identity(Ir *ir, OpCode op, Elem elem);

/* ---- slices -------------------------------------------------------------------------------- */

/// Whether the regions are equal up to the names of their own values (cse.c).
bool regions_equal(Ctx *ctx, const Region *a, const Region *b);
/// Clones to b the ops that compute v, as far as they stand inside `root` and are not in map. Only
/// for values that slice_is_movable accepts.
Value *clone_slice(Builder *b, Value *v, const Op *root, PtrMap *map);
/// Whether v can be computed elsewhere: it depends only on pure ops, on loads of tensors that root
/// does not write, and on those region arguments of root that `known` contains.
bool slice_is_movable(const Value *v, const Op *root, const PtrMap *known);

/* ---- index arithmetic ---------------------------------------------------------------------- */
// Arithmetic on i64 scalars. Constants are folded, so that constant grids stay readable.

Value *ix_add(Builder *b, Value *x, Value *y);
Value *ix_sub(Builder *b, Value *x, Value *y);
Value *ix_mul(Builder *b, Value *x, Value *y);
Value *ix_div(Builder *b, Value *x, Value *y);
Value *ix_rem(Builder *b, Value *x, Value *y);
Value *ix_min(Builder *b, Value *x, Value *y);
Value *ix_max(Builder *b, Value *x, Value *y);
/// ceil(x / y) for x >= 0, y > 0.
Value *ix_ceildiv(Builder *b, Value *x, Value *y);
/// Returns the iterations of a loop from lo to hi by step, never negative; 1 if step is 0.
Value *trip_count(Builder *b, Value *lo, Value *hi, int64_t step);
/// Builds a query of the bytes that a launch may use to be faster.
Value *build_workspace_limit(Builder *b);
/// Builds an empty `for`. The caller adds region arguments and the terminator.
Op *build_for(Builder *b, Value *lo, Value *hi, int64_t step, int n, Value *const *inits);
/// Likewise, with iterations that are programs of their own, in no order.
Op *build_programs(Builder *b, Value *lo, Value *hi, int64_t step, int n, Value *const *inits);
/// Builds a `parallel` at b, and moves b inside it. Returns the index.
Value *open_parallel(Builder *b, Value *lo, Value *hi, int64_t step, const char *name);
/// Terminates the regions from b's outwards, up to `home`, and moves b to the end of `home`.
void close_regions(Builder *b, const Region *home);

#endif
