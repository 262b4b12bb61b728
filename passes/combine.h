// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Shared declarations of combine.c, which lowers phases, and combine_fold.c, which builds the
// phases around them.
#ifndef PASSES_COMBINE_H
#define PASSES_COMBINE_H

#include "passes/grid.h"
#include "passes/util.h"

enum { MAX_TARGETS = 64, MAX_GROUPS = 64, MAX_GROUPS_GPU = 1024, MAX_NUMBERS_GPU = 8192 };

/// The tensors of one combine, or of several to the same place.
typedef struct Target {
    Op *op; // the first of these combines
    int n;  // number of tensors in the tuple
    bool carried;
    bool exact;      // carried states start as the identity
    int first_slot;  // carried: the index of its first value in the loop
    Value **partial; // scratches [groups, extents...]
    Value *flags;    // not carried: a scratch of bool
    Value **args, **next;
} Target;

typedef struct Combining {
    PassEnv *env;
    Ctx *ctx;
    Op *phase;
    int n_levels;
    Level level[MAX_LEVELS];
    VEC(Op *) ops;
    int n_targets;
    Target target[MAX_TARGETS];
    int64_t most; // maximum number of groups
    Value *line, *group_size, *groups;
    Op *otherwise; // the previous phase, if any contribution overwrites all that it writes
} Combining;

/// Returns the number of programs for a combine on a GPU. Folds of scalars get many: their partial
/// results cost less than CTAs that idle while the last of a few long programs work. Folds of
/// blocks and of 64-bit elements get fewer, since the GPU does not hold so many programs at once.
int64_t combine_programs_gpu(const Op *combine);

/* ---- combine.c ----------------------------------------------------------------------------- */

/// Whether programs that differ in the index of level l contribute to different elements.
bool combine_tells_apart(const Combining *c, const Op *op, const Level *l);
/// Builds f(state, value), or value where `fresh` (NULL: never; a scalar or a block of bool).
void combine_fold(Builder *b, const Op *op, Value *const *state, Value *const *values, Value *fresh,
                  Value **out);

/* ---- combine_fold.c ------------------------------------------------------------------------ */

/// Builds a phase at b that sets all flags of the target to false.
void combine_clear_flags(Builder *b, const Target *t);
/// Returns the previous phase if its results matter only without any contribution, or NULL.
Op *combine_find_otherwise(const Combining *c);
extern const RuleTable combine_ways;
/// Builds the phase at b that folds the partial results of all groups, in order.
void combine_build_fold(Combining *c, Builder *b, const Target *t);

#endif
