// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The table of passes, and the pipelines of CPUs and GPUs.
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
/// Facts about the kernel as written, which decide the launches that it refuses.
#define WRITTEN RUN(INLINE), RUN(ALIAS)
/// The front of every pipeline: simplifies kernels, and reduces them to phases.
// Facts about indices are simplest while indices are those of the source, and warnings should see
// the programs as written. Passes that add phases run while phases are nests of `parallel`.
#define FRONT                                                                                      \
    RUN(CANONICALIZE), RUN(CSE), RUN(LICM), RUN(BOUNDS), RUN(CANONICALIZE), RUN(CSE), RUN(PADS),   \
        RUN(ALIAS_KEPT), RUN(ALIGN_ROWS), RUN(COMM_OVERLAP), RUN(COLUMNS), RUN(COMBINE),           \
        RUN(SPLIT), RUN(CANONICALIZE), RUN(CSE), RUN(LICM)
/// Numbers the programs of phases. Then expands folds in a fixed order and the library's functions,
/// since these create much code, and removes its common parts.
#define NUMBERED                                                                                   \
    RUN(TILE_GRID), RUN(FIXED_ORDER), RUN(EXPAND_MATH), RUN(CANONICALIZE), RUN(CSE), RUN(LICM)

const Pass *const cpu_pipeline[] = {
    WRITTEN,
    FRONT,
    // Loops of products become contracts before other loops are peeled and programs are dealt out,
    // since the cost of a program is known then. Peeling makes tiles full, so bounds runs again.
    RUN(CONTRACT),
    RUN(PEEL),
    RUN(BOUNDS),
    RUN(CANONICALIZE),
    RUN(CSE),
    NUMBERED,
    RUN(DCE),
};
const int cpu_pipeline_length = sizeof cpu_pipeline / sizeof *cpu_pipeline;

const Pass *const gpu_pipeline[] = {
    WRITTEN,
    RUN(BOUNDS_INSIDE),
    RUN(MULTICAST),
    FRONT,
    // Masked copies are free, so no loop is peeled. Loops of products stay loops.
    RUN(BOUNDS),
    RUN(CANONICALIZE),
    RUN(CSE),
    RUN(CLIP),
    NUMBERED,
    // While the definitions of scalars are visible.
    RUN(NARROW),
    RUN(CSE),
    RUN(LICM),
    RUN(OUTLINE),
    RUN(MASKS),
    RUN(PERSIST),
    RUN(SPLIT_EPILOGUE),
    // Matrix instructions fix the layouts of their operands, and these the layouts of the rest.
    RUN(SELECT),
    RUN(STRIP_MINE),
    RUN(PREFETCH),
    RUN(CANONICALIZE),
    RUN(CSE),
    RUN(LAYOUTS),
    RUN(CSE),
    // Copies and products overlap from here on, so the order of ops is the schedule.
    RUN(ASYNC),
    RUN(ROLES),
    RUN(SCHEDULE),
    RUN(SKEW),
    RUN(SETTLE),
    RUN(CANONICALIZE),
    RUN(CSE),
    RUN(REMATERIALIZE), // must follow the last CSE
    RUN(ACCUMULATOR_INIT),
    RUN(DEAL),
    RUN(WAIT_IN_REDUCE),
    RUN(SYNC),
    RUN(NEXT_TILE),
    RUN(ALLOC),
    RUN(GPU_VERIFY),
};
const int gpu_pipeline_length = sizeof gpu_pipeline / sizeof *gpu_pipeline;
