// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// One kernel instance, from source to execution.
#ifndef TOOLS_TEGULA_JOB_H
#define TOOLS_TEGULA_JOB_H

#include "driver/dimensions.h"
#include "driver/request.h"
#include "passes/comm/comm_cost.h"
#include "tools/tegula/tensors.h"

typedef struct Executor Executor;

typedef struct Job {
    Ctx *ctx;
    const Options *o;
    const Executor *executor;
    void *compiled; // data of the executor
    uint16_t file;
    Program *program;
    const FnDef *kernel;
    Argument *args;    // one a parameter
    ParamInst *params; // the facts of the arguments, one for each parameter; they belong to request
    Request request;   // for the arguments (driver/request.h)
    int64_t ranks;     // 0: the kernel has no symmetric tensors
    struct tg_comm *comm;             // of ranks that are processes, until crew owns it; or NULL
    struct RankThreads *rank_threads; // of the ranks (rank_launch.c), or NULL
    bool marks;                       // code is compiled with marks for a profile
    bool silent;                      // another process writes the results
    Build build;
    const char *target, *machine; // as in Build; NULL: this CPU
    int driver, device;           // of a GPU: CUDA version of its driver, number of the device
    struct Mirrors *mirrors;      // arrays on the device (gpu_arrays.c), or NULL
    double seconds[2];            // seconds of front end and passes, and of code generation
} Job;

/* ---- instance.c: options and arguments -> Request ------------------------------------------ */

/// Reads the file and finds the kernel.
bool job_load(Job *job);
/// Makes the arguments of --arg, derives those of outputs, and the request for them. With
/// `partial`, arguments may be missing, and defaults replace the values that the others do not
/// determine.
bool job_instance(Job *job, bool partial);
bool job_elaborate(Job *job);
/// "matmul<f32> M=512 N=512 K=512": the kernel, its element types and dims.
const char *job_title(Job *job);

/* ---- rank_arguments.c ----------------------------------------------------------------------- */

enum { MAX_RANKS = 64 };
/// Finds the number of ranks, and gives each rank its part of the tensors with a dimension for
/// ranks.
bool job_deal(Job *job);
/// Whether parameter i is a symmetric tensor.
bool job_is_symmetric(const Job *job, int i);
/// After elaboration: gives each rank its own copy of the data that it writes.
bool job_spread(Job *job);
/// Returns tensor argument i of a rank. Symmetric tensors are the same for all ranks.
Tensor job_tensor(const Job *job, int i, int64_t rank);

/// Returns rank r's part of a tensor whose first dimension is the rank.
Tensor tensor_part(const Tensor *all, int64_t r);

/* ---- explain_ranks.c ------------------------------------------------------------------------- */

/// Describes how ranks obtain data of others, from the annotations of comm-overlap.
void explain_ranks(const Job *job);
/// Prints the expected time of each plan and a timeline of the chosen one, or why they are unknown.
void explain_timeline(const Job *job, const CommLaunch *l);

/* ---- default_arguments.c -------------------------------------------------------------------- */

/// Adds to the options an argument for every parameter without one: dense tensors of `data`
/// ("rand", "zeros") with the dims of --dim, scalars of 1 (default_arguments.c).
bool job_complete(Job *job, Options *o, const char *data);

/* ---- instance.c: dims of tensors ------------------------------------------------------------ */

/// Collects all bindings of the job's parameters and options, except --dim.
Dimensions job_dims(Job *job);
/// Adds the values of --dim. Returns false (reported) if a name has another value, or is unknown.
bool job_take_dims(Job *job, Dimensions *dims);

#endif
