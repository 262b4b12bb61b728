// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The target-free passes, the pipeline of a CPU, and the cost model.
#ifndef PASSES_PASSES_H
#define PASSES_PASSES_H

#include "ir/ir.h"

typedef enum PassId {
#define PASS(id, name, function, doc) PASS_##id,
#include "passes/passes.def"
    PASS_COUNT
} PassId;

#define PASS(id, name, function, doc) void function(PassEnv *env, Op *module);
#include "passes/passes.def"

/* ---- pipeline.c ---------------------------------------------------------------------------- */

extern const Pass pass_table[PASS_COUNT];
/// NULL where there is no such pass.
const Pass *pass_by_name(const char *name);
/// `tile` IR -> `grid` IR for a CPU.
extern const Pass *const cpu_pipeline[];
extern const int cpu_pipeline_length;
/// `tile` IR -> host code and devices for PassEnv.gpu.
extern const Pass *const gpu_pipeline[];
extern const int gpu_pipeline_length;

/* ---- comm_gather.c -------------------------------------------------------------------------- */

/// Chunks of a shard of so many bytes where nobody chose.
int64_t comm_chunks(int64_t bytes);

/* ---- cost.c -------------------------------------------------------------------------------- */

/// What the cost model knows of a machine.
typedef struct Machine {
    int threads;
    int64_t l1_bytes, l2_bytes; // of one thread
    int vector_bytes;
} Machine;

/// Seconds that one launch of a kernel in `tile` IR is expected to take. dim_of(user, t, axis) is
/// the extent of kernel parameter t (by position) at this launch; a scalar parameter has axis -1.
/// Negative answers mean "unknown".
double cost_estimate(const Op *kernel, const Machine *machine,
                     int64_t (*dim_of)(void *user, int parameter, int axis), void *user);
/// Of one phase of it.
struct CostDims;
double cost_phase(const Op *phase, const Machine *machine, const struct CostDims *dims);
/// Multiplications and additions of the dots of one launch; loops whose bounds are not known count
/// for a few iterations.
double cost_products(const Op *kernel, int64_t (*dim_of)(void *user, int parameter, int axis),
                     void *user);

/* ---- cost_grid.c --------------------------------------------------------------------------- */

/// Of the largest phases of a launch; what is not known is infinite.
typedef struct GridNeeds {
    double programs;   // tiles
    double rows, cols; // of the grid that `order` numbers; 1: there is no such choice
    bool loops;        // that may be split, as far as they show
    double turns;      // of the longest of these, in no loop of the host; guessed if not known
    bool splits;       // the passes split some by themselves
} GridNeeds;
GridNeeds cost_grid(const Op *kernel, int64_t (*dim_of)(void *user, int parameter, int axis),
                    void *user);
/// A phase of fewer programs than that leaves threads of a CPU without work.
enum { FEW_PROGRAMS = 32 };

#endif
