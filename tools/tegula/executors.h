// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// From an instance to execution: pipelines, levels, executors.
#ifndef TOOLS_TEGULA_EXECUTORS_H
#define TOOLS_TEGULA_EXECUTORS_H

#include "runtime/host.h"
#include "tools/tegula/job.h"

/// Something that runs kernels.
struct Executor {
    const char *name, *doc;    // doc NULL: for tests, not listed
    bool (*compile)(Job *job); // after job_elaborate
    bool (*launch)(Job *job);  // after compile; any number of times
    bool (*finish)(Job *job);  // after those, before arrays are looked at; or NULL
};

/// The executor `api` (api_executor.c).
bool api_compile(Job *job);
bool api_launch(Job *job);

/// Whether the compiler's other process makes the job's code (compile_apart.c).
bool job_compiles_apart(const Job *job);
/// That code, loaded here. NULL after errors. It is released with the job's context.
Code *job_compile_apart(Job *job);

/// Returns a job on the executor that --target names; NULL (reported) if it does not exist.
Job *job_create(Ctx *ctx, const Options *o);

/// Puts a launch on its way; of a GPU without waiting for it.
bool job_launch_only(Job *job);

/// Runs the passes to grid IR, with the effects of --dump-after, --verify-each and --time-passes.
bool job_passes(Job *job);

/// The arguments of the kernel op, in its order: constants and nulls left out as the code leaves
/// them out, packs merged (bind_arguments.c).
typedef struct Bound {
    int n;
    const ParamUse **uses;
    InterpArg *args;
} Bound;
Bound job_bind(Job *job);
/// Those of one of several ranks; symmetric tensors with all shards.
Bound job_bind_rank(Job *job, int64_t rank);
/* rank_launch.c: launches of several ranks */
/// Of ranks that are processes: meets the others, before anything is compiled. Where their memory
/// is not mapped, transfers are copies unless the user has said how they are made.
bool rank_launch_meet(Job *job);
/// Collective, for ranks that have met: replaces the own setting by rank 0's ("": none).
const char *rank_launch_config(Job *job, const char *config);
/// The instance is that of this plan, before it is elaborated.
void rank_launch_set_plan(Job *job, int64_t plan);
bool rank_launch_launch(Job *job, tg_failure *failure);
/// Ranks that are here, after a launch.
int rank_launch_ranks(const Job *job);
/// What launches do from now on, all ranks beginning together; traces: one a rank that is here, or
/// NULL. False, reported, after errors.
bool rank_launch_profile(Job *job, enum tg_part part, tg_trace *traces);
/// How long the last launch took on the slowest of the ranks that are here; each waits for all.
double rank_launch_seconds(const Job *job);
/// Collective: the traces of all ranks, at rank 0; NULL, reported: they cannot be had. Those of
/// ranks that are here are given.
tg_trace *rank_launch_traces(Job *job, tg_trace *here);
/// Copies the written data to the arguments.
bool rank_launch_finish(Job *job);

/// Refuses tensors that overlap one that the kernel writes; after compile.
bool job_check_overlaps(Job *job);
/// With TG_FILL, tensors that no --arg gave and of which the kernel reads nothing are no zeroes.
bool job_fill(Job *job);

#endif
