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
/// Returns the pass of this name, or NULL.
const Pass *pass_by_name(const char *name);
/// `tile` IR -> `grid` IR for a CPU.
extern const Pass *const cpu_pipeline[];
extern const int cpu_pipeline_length;
/// `tile` IR -> host code and devices for PassEnv.gpu.
extern const Pass *const gpu_pipeline[];
extern const int gpu_pipeline_length;

/* ---- comm_gather.c -------------------------------------------------------------------------- */

/// Returns the default number of chunks for a shard of this size.
int64_t comm_chunks(int64_t bytes);

/* ---- cost.c -------------------------------------------------------------------------------- */

/// The properties of a machine that the cost model uses.
typedef struct Machine {
    int threads;
    int64_t l1_bytes, l2_bytes; // of one thread
    int vector_bytes;
} Machine;

/// Estimates the seconds of one launch of a kernel in `tile` IR. dim_of(user, t, axis) is the
/// extent of kernel parameter t (by position) at this launch; a scalar parameter has axis -1.
/// Negative answers mean "unknown".
double cost_estimate(const Op *kernel, const Machine *machine,
                     int64_t (*dim_of)(void *user, int parameter, int axis), void *user);
/// Estimates one phase of the kernel.
struct CostDims;
double cost_phase(const Op *phase, const Machine *machine, const struct CostDims *dims);
/// Returns the FLOPs of the dots of one launch. Loops with unknown bounds count as a few
/// iterations.
double cost_products(const Op *kernel, int64_t (*dim_of)(void *user, int parameter, int axis),
                     void *user);

/* ---- cost_grid.c --------------------------------------------------------------------------- */

/// Properties of the largest phases of a launch. Unknown values are infinite.
typedef struct GridNeeds {
    double programs;   // tiles
    double rows, cols; // of the grid that `order` numbers; 1: `order` changes nothing
    bool loops;        // some may be split, as far as is visible
    double turns;      // iterations of the longest such loop outside host loops; guessed if unknown
    bool splits;       // the passes split some by default
    double split_programs; // the fewest of a phase with such a loop; 0: unknown, or none
} GridNeeds;
GridNeeds cost_grid(const Op *kernel, int64_t (*dim_of)(void *user, int parameter, int axis),
                    void *user);
/// A phase with fewer programs leaves threads of a CPU idle.
enum { FEW_PROGRAMS = 32 };

/* ---- split.c ------------------------------------------------------------------------------- */

/// Returns the number of programs of a phase from which on its loops are not split by default. gpu:
/// whether the phase runs on a GPU.
int64_t split_enough_programs(bool gpu);

#endif
