// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Declarations that the passes on grids share.
#ifndef PASSES_GRID_H
#define PASSES_GRID_H

#include "ir/ir.h"

enum { MAX_LEVELS = 32 }; // dimensions of a grid

/// One dimension of a grid.
typedef struct Level {
    Op *op; // its `parallel`
    int64_t step;
    Value *lo, *hi, *count;
    Value *walked; // its index, if a CTA loops over all of them
    bool free;     // its bounds are known before the phase
    bool kept;     // combine: tells elements apart; others are folded
    bool in_line;  // combine: folded, and in the line of iterations that is cut into groups
    Value *index;  // in the new form: the index, or its number
} Level;

/* ---- multicast.c: pairs of programs with common loads --------------------------------------- */

/// Returns the level of the phase, a nest of `parallel`, whose neighbours may form a cluster of
/// CTAs and share copies, or NULL. With an odd number of rows, the added program does nothing.
const Op *paired_level(const struct GpuTarget *target, const Op *phase);
/// Whether both programs of a pair load the same places, equally often.
bool reads_same_rows(const Op *load, const Op *rows);

/* ---- tile_grid.c --------------------------------------------------------------------------- */

/// Whether the region contains products.
bool multiplies(const Region *r);
/// Returns the next level of a nest, or NULL for the innermost one.
Op *inner_parallel(const Op *parallel);
/// Moves scalar arithmetic between the levels before the phase if it uses no value from inside.
void hoist_bounds(Op *phase);
/// Reads the dimensions of a phase from outside in. Returns their number.
int read_levels(Ctx *ctx, Op *phase, Level *level);
/// Reads the bounds again: an outer index that they use may have been replaced.
static inline void level_reread(Level *l) {
    l->lo = operand(l->op, 0);
    l->hi = operand(l->op, 1);
}
/// The index argument of a dimension.
static inline Value *level_arg(const Level *l) {
    return l->op->regions[0]->args[0];
}

/* ---- longest_first.c ------------------------------------------------------------------------ */

struct GpuTarget;
/// Whether programs have longer loops for higher indices of the level.
bool level_grows(const Region *body, const Level *l);
/// Returns, computed at b before the phase, how many steps of the levels outside `rows` fit into
/// L2 at a time, with sharing of loads between their programs. `spread` has the last
/// level first; loops grow with spread[rows]. NULL: the loads also depend on levels within.
Value *heads_together(const struct GpuTarget *gpu, Builder *b, const Op *phase, const Region *body,
                      Level *const *spread, int rows);

/* ---- cost.c -------------------------------------------------------------------------------- */

/// Estimates roughly the seconds of one program on one thread. Loops of unknown length count as a
/// few iterations.
double program_seconds(const Region *body, const PassEnv *env);

#endif
