// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// From an instance to execution: pipelines, levels, executors.
#ifndef TOOLS_TEGULA_EXECUTORS_H
#define TOOLS_TEGULA_EXECUTORS_H

#include "runtime/host.h"
#include "tools/tegula/job.h"

/// Something that runs kernels.
struct Executor {
    const char *name, *doc;    // doc NULL: for tests, not listed
    bool (*compile)(Job *job); // called after job_elaborate
    bool (*launch)(Job *job);  // called after compile, any number of times
    bool (*finish)(Job *job);  // called after launches, before arrays are read; or NULL
};

/// The executor `api` (api_executor.c).
bool api_compile(Job *job);
bool api_launch(Job *job);

/// Whether the compiler's other process makes the job's code (compile_apart.c).
bool job_compiles_apart(const Job *job);
/// Makes the job's code in the compiler's other process, and loads it in this one. NULL after
/// errors. It is released with the job's context.
Code *job_compile_apart(Job *job);

/// Whether --codegen names a code generator, or nothing. False: reported.
bool codegen_exists(const char *name);
/// Returns a job on the executor that --target names; NULL (reported) if it does not exist.
Job *job_create(Ctx *ctx, const Options *o);

/// Queues a launch. On a GPU it does not wait.
bool job_launch_only(Job *job);

/// Records the next launches of the job on one device, each in place of the one before, up to
/// job_record_end; with room for that many spans of each worker and marks of a device. NULL
/// (reported) without memory. The caller destroys the record.
tg_record *job_record(const Job *job, size_t spans, size_t marks);
void job_record_end(const Job *job);

/// Draws the layouts of the blocks of a GPU's code on the terminal, after the passes (picture.c).
void explain_picture(Job *job);

/// Runs the passes to grid IR, with the effects of --dump-after, --verify-each and --time-passes.
bool job_passes(Job *job);

/// The arguments of the kernel op, in its order. Constants and nulls are left out and packs are
/// merged, as the code expects (bind_arguments.c).
typedef struct Bound {
    int n;
    const ParamUse **uses;
    InterpArg *args;
} Bound;
Bound job_bind(Job *job);
/// Binds the arguments of one of several ranks, with all shards of symmetric tensors.
Bound job_bind_rank(Job *job, int64_t rank);
/* rank_launch.c: launches of several ranks */
/// Ranks that are processes meet the others before anything is compiled. Where their memory cannot
/// be mapped, transfers are copies unless the user set the plan.
bool rank_launch_meet(Job *job);
/// Collective, for ranks that have met. Replaces the own setting by rank 0's ("": none).
const char *rank_launch_config(Job *job, const char *config);
/// Selects the instance of this plan, before it is elaborated.
void rank_launch_set_plan(Job *job, int64_t plan);
bool rank_launch_launch(Job *job, tg_failure *failure);
/// Returns the number of ranks in this process, after a launch.
int rank_launch_ranks(const Job *job);
/// Selects the part of the work that launches do from now on, with all ranks beginning together.
/// traces: one for each rank of this process, or NULL. False (reported) after errors.
bool rank_launch_profile(Job *job, enum tg_part part, tg_trace *traces);
/// Returns the time of the last launch on the slowest rank of this process. Each rank waits for
/// all.
double rank_launch_seconds(const Job *job);
/// Collective. Returns the traces of all ranks at rank 0; NULL (reported) if that fails. `here`:
/// the traces of this process.
tg_trace *rank_launch_traces(Job *job, tg_trace *here);
/// Copies the written data to the arguments.
bool rank_launch_finish(Job *job);

/// Refuses tensors that overlap one that the kernel writes. Called after compile.
bool job_check_overlaps(Job *job);
/// With TG_FILL, fills tensors without an --arg that the kernel does not read.
bool job_fill(Job *job);

#endif
