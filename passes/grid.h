// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What the passes on grids share among themselves.
#ifndef PASSES_GRID_H
#define PASSES_GRID_H

#include "ir/ir.h"

enum { MAX_LEVELS = 32 }; // dimensions of a grid

/// One dimension of a grid.
typedef struct Level {
    Op *op; // its `parallel`
    int64_t step;
    Value *lo, *hi, *count;
    Value *walked; // its index, where a CTA goes through all of them
    bool free;     // its bounds are known before the phase
    bool kept;     // combine: tells elements apart; the others are folded
    bool in_line;  // combine: folded, and part of the line of iterations that is cut into groups
    Value *index;  // in the new form: the index itself, or its number
} Level;

/* ---- multicast.c: programs that share what they read ---------------------------------------- */

/// The level of the phase, a nest of `parallel`, whose neighbours may be CTAs of one cluster and
/// share copies, or NULL. A program without rows of its own, behind an odd number of them, does
/// nothing.
const Op *paired_level(const struct GpuTarget *target, const Op *phase);
/// Both programs of a pair load the same, and as often.
bool reads_same_rows(const Op *load, const Op *rows);

/* ---- tile_grid.c --------------------------------------------------------------------------- */

/// Products are among what the region does.
bool multiplies(const Region *r);
/// The next level of a nest, or NULL in the innermost.
Op *inner_parallel(const Op *parallel);
/// Scalar arithmetic between the levels that needs nothing from inside moves before the phase.
void hoist_bounds(Op *phase);
/// The dimensions of a phase from outside in; how many there are.
int read_levels(Ctx *ctx, Op *phase, Level *level);
/// The bounds as they are now: an outer index that they name may have been replaced.
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
/// The programs' loops are longer for higher indices of the level.
bool level_grows(const Region *body, const Level *l);
/// Of the spread levels of a phase, last first, loops grow with number `rows`: for so many steps of
/// those outside of it the second cache has room, as far as their programs share what they load.
/// Computed at b, before the phase; NULL: what is loaded depends on levels within, too.
Value *heads_together(const struct GpuTarget *gpu, Builder *b, const Op *phase, const Region *body,
                      Level *const *spread, int rows);

/* ---- cost.c -------------------------------------------------------------------------------- */

/// A rough estimate of one program's work on one thread; loops of unknown length count as a few
/// iterations.
double program_seconds(const Region *body, const PassEnv *env);

#endif
