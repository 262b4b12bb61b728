// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Shared by combine.c, which lowers phases, and combine_fold.c, which makes the phases around them.
#ifndef PASSES_COMBINE_H
#define PASSES_COMBINE_H

#include "passes/grid.h"
#include "passes/util.h"

enum { MAX_TARGETS = 64, MAX_GROUPS = 64, MAX_GROUPS_GPU = 1024, MAX_NUMBERS_GPU = 8192 };

/// The tensors of one combine, or of several to the same place.
typedef struct Target {
    Op *op; // the first
    int n;  // tensors of the tuple
    bool carried;
    bool exact;      // carried states start as the identity
    int first_slot;  // carried: the first of its values in the loop
    Value **partial; // scratches [groups, extents...]
    Value *flags;    // not carried: bool scratch
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
    int64_t most; // groups there may be, of which partial results are folded
    Value *line, *group_size, *groups;
    Op *otherwise; // the phase before, where it is all overwritten if anything is contributed
} Combining;

/// Programs that a GPU is given where this is combined. Partial results of one number cost less
/// than what CTAs of several iterations leave idle while the last of them work; of 64 bits so many
/// are not held at once.
int64_t combine_programs_gpu(const Op *combine);

/* ---- combine.c ----------------------------------------------------------------------------- */

/// Programs that differ in the index of level l contribute to different elements.
bool combine_tells_apart(const Combining *c, const Op *op, const Level *l);
/// f(state, value), or value where `fresh` (NULL: never; a scalar or a block of bool).
void combine_fold(Builder *b, const Op *op, Value *const *state, Value *const *values, Value *fresh,
                  Value **out);

/* ---- combine_fold.c ------------------------------------------------------------------------ */

/// A phase at b that sets all flags of the target to false.
void combine_clear_flags(Builder *b, const Target *t);
/// The phase before the combining one that matters only where nothing is contributed, or NULL.
Op *combine_find_otherwise(const Combining *c);
extern const RuleTable combine_ways;
/// The phase at b that folds the partial results of all groups, in order.
void combine_build_fold(Combining *c, Builder *b, const Target *t);

#endif
