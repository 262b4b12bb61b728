// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What several passes need: effects, surgery on structured ops, small index arithmetic.
#ifndef PASSES_UTIL_H
#define PASSES_UTIL_H

#include "ir/ir.h"

#define for_each_kernel(k, module) for_each_op(k, (module)->regions[0]) if ((k)->code == OP_KERNEL)

/* ---- effects ------------------------------------------------------------------------------- */

/// Control flow (for while if parallel launch contract): its effects are those of what it holds.
bool op_is_container(const Op *op);
/// for or while: its regions may run any number of times.
bool op_is_loop(const Op *op);
/// Neither op nor anything inside it reads or writes memory or has another effect.
bool tree_is_pure(const Op *op);
/// Nothing in it writes memory or has an effect; it may read.
bool tree_only_reads(const Op *op);
/// op, or anything inside it, may write elements of tensor t. Distinct tensor values never overlap
/// where that matters: see alias.c.
bool tree_writes(const Op *op, const Value *t);
/// The same without what other ranks write, which is seen behind a wait for their signals.
bool tree_stores(const Op *op, const Value *t);
/// Something in op waits for a signal, or may find by a fence that it was raised.
bool tree_waits(const Op *op);
/// op itself writes memory (not what it holds).
bool op_writes(const Op *op);
/// The same under IR-wide effects: true where op may be moved or repeated freely as long as the
/// tensors it reads do not change.
bool op_is_load(const Op *op);

/* ---- structured ops ------------------------------------------------------------------------ */

/// The first carried operand of a loop: 2 of `for`, 0 of `while`.
int loop_first_init(const Op *loop);
/// Carried value i as an argument of region r of a loop.
Value *loop_arg(const Op *loop, int r, int i);
/// Removes the carried values of a loop, or results of an `if`, where keep is false; those must
/// have no uses beyond the yields that feed them. Returns the op that took its place.
Op *drop_slots(Ir *ir, Op *op, const bool *keep);
/// Puts the ops of r, which belongs to op, before op with args for its arguments; yields are
/// written to `yields` (one for each operand of r's terminator). r is empty afterwards.
void splice_before(Op *op, Region *r, Value *const *args, Value **yields);
/// Moves all ops of a region, its terminator too, to the end of another.
void move_ops(Region *from, Region *to);
/// The last op of the module that launches the device, or NULL.
Op *dispatch_of(Op *module, const Op *device);

/// Copies a region of scalar code (elementwise, const, select, casts) to b, each value widened to
/// the shape of `shape`: the way an elementwise function applies to a block. args have that shape.
/// Writes the values of its terminator to `yields`.
void apply_lanes(Builder *b, const Region *r, Value *const *args, const Type *shape,
                 Value **yields);

/* ---- places -------------------------------------------------------------------------------- */

/// A subscript in the making: where in a tensor an access goes.
typedef struct Place {
    int n, n_operands;
    SubDim dims[MAX_RANK];
    Value *operands[2 * MAX_RANK];
} Place;
/// The subscript of an access; without its mask.
Place place_of(const Op *access);
void place_add_at(Place *p, Value *index);
void place_add_axis(Place *p, Value *base, Value *count, int64_t size);
void place_add_pick(Place *p, Value *coordinates);
void place_append(Place *p, const Place *rest);
/// That of `rest` (NULL: none) in what is found at these coordinates.
Place place_behind(int n, Value *const *first, const Place *rest);
/// The block of an element that an access at this place moves.
const Type *place_type(Ir *ir, Elem elem, const Place *p);
/// Dead lanes read 0. The result's extents are those of the place.
Value *load_at(Builder *b, Value *tensor, const Place *p);
/// An atomic by name: "add" v to what is there.
Op *atomic_at(Builder *b, const char *name, Value *tensor, Value *v, const Place *p);
/// mask: NULL or a bool block in the shape of the picks.
void store_at(Builder *b, Value *tensor, Value *v, const Place *p, Value *mask);
/// 0 or false in every lane.
Value *build_zero(Builder *b, const Type *type);
/// x such that op(x, y) = y for every y of the element: NULL where there is none. A max or min of
/// floats has one for all y but NaN.
const Attr *monoid_identity(Ir *ir, OpCode op, Elem elem);

/* ---- slices -------------------------------------------------------------------------------- */

/// Equal up to the names of their own values (cse.c).
bool regions_equal(Ctx *ctx, const Region *a, const Region *b);
/// Copies to b what computes v, as far as it stands inside `root` and is not in map. Only for
/// values that slice_is_movable accepts.
Value *clone_slice(Builder *b, Value *v, const Op *root, PtrMap *map);
/// v can be computed elsewhere: it stands on pure ops, on loads of tensors that root does not
/// write, and on region arguments of root only where `known` has them.
bool slice_is_movable(const Value *v, const Op *root, const PtrMap *known);

/* ---- index arithmetic ---------------------------------------------------------------------- */
// On i64 scalars; constants are folded, so that constant grids stay readable.

Value *ix_add(Builder *b, Value *x, Value *y);
Value *ix_sub(Builder *b, Value *x, Value *y);
Value *ix_mul(Builder *b, Value *x, Value *y);
Value *ix_div(Builder *b, Value *x, Value *y);
Value *ix_rem(Builder *b, Value *x, Value *y);
Value *ix_min(Builder *b, Value *x, Value *y);
Value *ix_max(Builder *b, Value *x, Value *y);
/// ceil(x / y) for x >= 0, y > 0.
Value *ix_ceildiv(Builder *b, Value *x, Value *y);
/// Iterations of a loop from lo to hi by step, never negative; 1 where step is 0.
Value *trip_count(Builder *b, Value *lo, Value *hi, int64_t step);
/// A `for`, empty; region arguments and terminator are the caller's.
Op *build_for(Builder *b, Value *lo, Value *hi, int64_t step, int n, Value *const *inits);
/// One whose iterations are programs of their own: nothing orders them.
Op *build_programs(Builder *b, Value *lo, Value *hi, int64_t step, int n, Value *const *inits);
/// A `parallel` at b; b goes on inside it. Returns the index.
Value *open_parallel(Builder *b, Value *lo, Value *hi, int64_t step, const char *name);
/// Ends the regions from b's outwards, up to `home`, and goes on there at its end.
void close_regions(Builder *b, const Region *home);

#endif
