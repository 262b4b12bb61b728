// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The table of passes, the pipelines of a CPU and of a GPU.
#include "passes/passes.h"

#include <string.h>

const Pass pass_table[PASS_COUNT] = {
#define PASS(id, name, function, doc) [PASS_##id] = {name, function, doc},
#include "passes/passes.def"
};

const Pass *pass_by_name(const char *name) {
    for (int i = 0; i < PASS_COUNT; i++)
        if (strcmp(pass_table[i].name, name) == 0) return &pass_table[i];
    return NULL;
}

#define RUN(id) &pass_table[PASS_##id]
/// What is said of a kernel as it was written: which launches it refuses.
#define WRITTEN RUN(INLINE), RUN(ALIAS)
/// What every target begins with: all that is known of a kernel, in its simplest form, as phases.
// Facts about indices are plainest while indices are those of the source. Warnings see the programs
// as they were written, too. Phases are added while phases are still nests of `parallel`.
#define FRONT                                                                                      \
    RUN(CANONICALIZE), RUN(CSE), RUN(LICM), RUN(BOUNDS), RUN(CANONICALIZE), RUN(CSE), RUN(PADS),   \
        RUN(ALIAS_KEPT), RUN(COMM_OVERLAP), RUN(COLUMNS), RUN(COMBINE), RUN(SPLIT),                \
        RUN(CANONICALIZE), RUN(CSE), RUN(LICM)

const Pass *const cpu_pipeline[] = {
    WRITTEN,
    FRONT,
    // Loops of products leave before others are peeled, and before programs are dealt out: then
    // the cost of a program is known. What is full after peeling needs no mask: bounds again.
    RUN(CONTRACT),
    RUN(PEEL),
    RUN(BOUNDS),
    RUN(CANONICALIZE),
    RUN(CSE),
    RUN(TILE_GRID),
    // Last, for it makes much code: the library's functions, and what they share.
    RUN(FIXED_ORDER),
    RUN(EXPAND_MATH),
    RUN(CANONICALIZE),
    RUN(CSE),
    RUN(LICM),
    RUN(DCE),
};
const int cpu_pipeline_length = sizeof cpu_pipeline / sizeof *cpu_pipeline;

const Pass *const gpu_pipeline[] = {
    WRITTEN,
    RUN(BOUNDS_INSIDE),
    RUN(MULTICAST),
    FRONT,
    // Masked copies cost nothing, so nothing is peeled; loops of products stay loops.
    RUN(BOUNDS),
    RUN(CANONICALIZE),
    RUN(CSE),
    RUN(CLIP),
    RUN(TILE_GRID),
    RUN(FIXED_ORDER),
    RUN(EXPAND_MATH),
    RUN(CANONICALIZE),
    RUN(CSE),
    RUN(LICM),
    // While scalars show what they are.
    RUN(NARROW),
    RUN(CSE),
    RUN(LICM),
    RUN(OUTLINE),
    RUN(MASKS),
    RUN(PERSIST),
    RUN(SPLIT_EPILOGUE),
    // The matrix instructions fix the layouts of their operands, these those of the rest.
    RUN(SELECT),
    RUN(STRIP_MINE),
    RUN(PREFETCH),
    RUN(CANONICALIZE),
    RUN(CSE),
    RUN(LAYOUTS),
    RUN(CSE),
    // Copies and products overlap. After that the order of ops is the schedule.
    RUN(ASYNC),
    RUN(ROLES),
    RUN(SCHEDULE),
    RUN(SKEW),
    RUN(SETTLE),
    RUN(CANONICALIZE),
    RUN(CSE),
    RUN(REMATERIALIZE), // the last CSE is behind us
    RUN(ACCUMULATOR_INIT),
    RUN(DEAL),
    RUN(SYNC),
    RUN(ALLOC),
    RUN(GPU_VERIFY),
};
const int gpu_pipeline_length = sizeof gpu_pipeline / sizeof *gpu_pipeline;
