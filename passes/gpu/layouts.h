// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What the files of the pass `layouts` share.
//
// A block op has a *natural* layout where something fixes it: loads by how memory is walked, dots
// by their instruction, and what follows from them. All other values (constants, indices, masks,
// broadcasts) are *lazy*: they are computed in whatever layout a user wants, where it wants it.
#ifndef PASSES_GPU_LAYOUTS_H
#define PASSES_GPU_LAYOUTS_H

#include "ir/layout/layout.h"
#include "passes/gpu/gpu.h"

/// weight: bytes that argue for the layout; where two meet, the heavier one stays.
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
    PtrMap made;    // Value * -> what stands for it in other layouts
    PtrMap moves;   // Layout * -> what conversions from it cost
    bool changed;
    bool fixed_loads; // while operands of products are made: their loads stay as they are
} Layouts;

/* ---- layout_infer.c ------------------------------------------------------------------------ */

/// Finds the natural layouts of all values of the device.
void infer_layouts(Layouts *s);
Natural natural_of(const Layouts *s, const Value *v);
/// The layout that operand i must have so that the result of op has l; NULL where it may have any.
const Layout *operand_layout(Layouts *s, const Op *op, int i, const Layout *l);
/// op maps each element on its own, or renames places: it can be done in any layout.
bool is_free(const Op *op);

/* ---- layout_access.c ----------------------------------------------------------------------- */

/// For a block that nothing else decides on.
const Layout *default_layout(Layouts *s, const Type *type);
/// In which memory is walked best.
const Layout *access_layout(Layouts *s, const Op *op);
/// Issue slots that a warp takes for the access if the block is in layout l.
double access_cost(const Op *op, const Layout *l);
/// The layout of picks and masks for an access to a block in layout l.
const Layout *picks_layout(Ctx *ctx, const Op *op, const Layout *l);

/* ---- layout_dot.c -------------------------------------------------------------------------- */

/// Layouts of the operands and of the result; a and b are NULL where any will do.
typedef struct DotLayouts {
    const Layout *a, *b, *d;
} DotLayouts;
DotLayouts dot_layouts(Layouts *s, const Op *op);
/// Rows of the result are joined soon after, or those of A are from another product.
bool dot_keeps_rows(const Op *dot);
bool dot_takes_product(const Op *dot);

/* ---- warps.c ------------------------------------------------------------------------------- */

/// Warps of a CTA and CTAs of a cluster: what the schedule says, or what works best.
GpuShape choose_shape(const PassEnv *env, const Op *device);
/// The CTA, or the cluster, has registers for what lives while it waits for reductions of rows.
bool gpu_holds_rows(const PassEnv *env, const Op *device);

/* ---- cluster.c ----------------------------------------------------------------------------- */

/// An op of the device, whose blocks have layouts, that cannot be lowered because elements go from
/// CTA to CTA; NULL: there is none.
const Op *find_crossing(Ctx *ctx, const Op *device);

#endif
