// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Models the time of plans of transfers between ranks: the work of a launch (comm_work.c), and its
// timeline under a plan (comm_cost.c).
#ifndef PASSES_COMM_COMM_COST_H
#define PASSES_COMM_COMM_COST_H

#include "passes/cost/cost.h"
#include "passes/gpu/gpu.h"
#include "passes/passes.h"

/// The link between the ranks of a host, in bytes a second and seconds.
typedef struct CommLink {
    const char *target;
    double copy, store, load;
    double start, chunk, meeting;
    int peers; // reached side by side, each at this rate
} CommLink;
/// Returns the link of the target, "cpu" for CPUs; NULL: unknown.
const CommLink *comm_link(const char *target);

enum { COMM_TENSORS = 8, COMM_PHASES = 16, COMM_PIECES = 128 };

/// A symmetric tensor that programs read or contribute to.
typedef struct CommTensor {
    double bytes;               // of a shard; 0: unknown (allowed unless it is copied)
    bool reads, adds;           // access other ranks' shards
    bool written;               // the launch also writes it
    bool whole;                 // programs do not know ahead which part they read
    bool pushes;                // copy engines can send contributions while programs run
    double growth;              // factor on the bytes if atomics add them; 0: they cannot
    PlanId by[PLAN_COUNT];      // the way in which its shards arrive, for each requested plan
    const char *name, *no_sums; // no_sums: why `add`, though possible, has no price
} CommTensor;

/// The work of one phase.
typedef struct CommPhase {
    unsigned line;
    bool meets; // ranks meet before it
    bool parts; // but programs wait for their data, part by part
    double seconds, programs;
    double apart; // seconds of the programs for one rank, launched alone
    double held;  // programs that fit on an SM
    double read[COMM_TENSORS], stored[COMM_TENSORS]; // bytes of other ranks' shards
    double added[COMM_TENSORS];                      // contributions to each shard, in bytes on the
                                                     // wire
} CommPhase;

/// The work of one launch on one rank, without transfers.
typedef struct CommLaunch {
    const CommLink *link;
    bool beside;      // copies run concurrently with programs
    double units;     // SMs or cores
    double bandwidth; // of the rank's own memory
    int64_t ranks;
    double seconds;
    int n_tensors, n_phases;
    CommTensor tensors[COMM_TENSORS];
    CommPhase phases[COMM_PHASES];
    const char *why; // why the launch cannot be modelled, or NULL
} CommLaunch;

/// Finds the work of a kernel in `tile` IR for a GPU, or for a CPU if gpu is NULL.
void comm_launch(Ir *ir, Op *kernel, const GpuTarget *gpu, const Machine *machine,
                 const CostDims *dims, CommLaunch *out);

typedef struct CommPiece {
    double from, to; // seconds
    int shard;       // distance from the own rank, or COMM_ALL
} CommPiece;
enum { COMM_ALL = -1 };
typedef struct CommRow {
    int n;
    CommPiece pieces[COMM_PIECES];
} CommRow;

/// The timeline of a launch's transfers and programs.
typedef struct CommTimeline {
    CommRow link, put, clear, fold, programs[COMM_PHASES];
    double sequence, best; // the ends without any overlap, and with all possible overlap
    double end;
} CommTimeline;

/// Lays out the launch under the requested plan, in this number of chunks; 0: chosen by the bytes.
void comm_lay(CommTimeline *t, const CommLaunch *l, PlanId plan, int64_t chunks);

/// A plan with its best number of chunks.
typedef struct CommPrice {
    PlanId plan;
    int chunks;      // 0: the plan has no chunks
    double seconds;  // of the launch
    const char *why; // why it has no price, or NULL
} CommPrice;
enum { COMM_PRICES = PLAN_COUNT };

/// Prices all plans that differ, the simplest first and `add` last. plan, chunks: given values, or
/// 0. Returns their number; 0 if the launch cannot be modelled.
int comm_prices(const CommLaunch *l, int plan, int chunks, CommPrice out[COMM_PRICES]);
/// Returns the simplest plan whose time is near the shortest, or NULL. Returns `add` only if there
/// is no other plan.
const CommPrice *comm_best(const CommPrice *prices, int n);

#endif
