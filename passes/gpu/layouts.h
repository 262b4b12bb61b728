// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Declarations that the files of the pass `layouts` share.
//
// Some ops fix the *natural* layout of a block: a load by the order of memory, a dot by its
// instruction, and ops that use their results. All other values (constants, indices, masks,
// broadcasts) are *lazy*: each user computes them in the layout that it needs.
#ifndef PASSES_GPU_LAYOUTS_H
#define PASSES_GPU_LAYOUTS_H

#include "ir/layout/layout.h"
#include "passes/gpu/gpu.h"

/// A natural layout. weight: bytes in favour of it; the heavier one wins a conflict.
typedef struct Natural {
    const Layout *layout; // NULL: lazy
    double weight;
} Natural;

typedef struct Layouts {
    PassEnv *env;
    Ir *ir;
    Ctx *ctx;
    Op *device;
    int lane_bits, warp_bits, cta_bits;
    PtrMap natural; // Value * -> Natural *
    PtrMap made;    // Value * -> its copies in other layouts
    PtrMap moves;   // Layout * -> the costs of conversions from it
    bool changed;
    bool
        fixed_loads; // set while operands of products are made: loads behind them keep their layout
} Layouts;

/* ---- layout_infer.c ------------------------------------------------------------------------ */

/// Finds the natural layouts of all values of the device.
void infer_layouts(Layouts *s);
Natural natural_of(const Layouts *s, const Value *v);
/// Returns the layout of operand i for a result of op in l. NULL: any.
const Layout *operand_layout(Layouts *s, const Op *op, int i, const Layout *l);
/// Whether the op works in any layout: it maps elements one by one, or renames positions.
bool is_free(const Op *op);

/* ---- layout_access.c ----------------------------------------------------------------------- */

/// The layout of a block that no op decides on.
const Layout *default_layout(Layouts *s, const Type *type);
/// The layout in which the access walks memory best.
const Layout *access_layout(Layouts *s, const Op *op);
/// Issue slots of a warp for the access to a block in layout l.
double access_cost(const Op *op, const Layout *l);
/// The layout of picks and masks for an access to a block in layout l.
const Layout *picks_layout(Ctx *ctx, const Op *op, const Layout *l);

/* ---- layout_dot.c -------------------------------------------------------------------------- */

/// Layouts of the operands and the result. a and b are NULL if any layout will do.
typedef struct DotLayouts {
    const Layout *a, *b, *d;
} DotLayouts;
DotLayouts dot_layouts(Layouts *s, const Op *op);
/// Whether each warp should hold whole rows of the result: an op joins them soon, or the rows of A
/// come from another product.
bool dot_keeps_rows(const Op *dot);
bool dot_takes_product(const Op *dot);

/* ---- warps.c ------------------------------------------------------------------------------- */

/// The warps of a CTA and the CTAs of a cluster, from the schedule, or the best ones.
GpuShape choose_shape(const PassEnv *env, const Op *device);
/// Whether the CTA or the cluster has registers for the values that live across reductions of rows.
bool gpu_holds_rows(const PassEnv *env, const Op *device);

/* ---- cluster.c ----------------------------------------------------------------------------- */

/// Returns an op of a device with layouts that would move elements between CTAs, which lowering
/// cannot do. NULL: none.
const Op *find_crossing(Ctx *ctx, const Op *device);

#endif
