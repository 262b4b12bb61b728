// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What plans of transfers between ranks are expected to take: what a launch does (comm_work.c), and
// when it does so by a plan (comm_cost.c).
#ifndef PASSES_COMM_COMM_COST_H
#define PASSES_COMM_COMM_COST_H

#include "passes/cost/cost.h"
#include "passes/gpu/gpu.h"
#include "passes/passes.h"

/// Between the ranks of a host: bytes a second, seconds.
typedef struct CommLink {
    const char *target;
    double copy, store, load;
    double start, chunk, meeting;
    int peers; // that are reached side by side, each at that speed
} CommLink;
/// NULL: nothing is known of this target's. Of CPUs: "cpu".
const CommLink *comm_link(const char *target);

enum { COMM_TENSORS = 8, COMM_PHASES = 16, COMM_PIECES = 128 };

/// A symmetric tensor that programs read, or contribute to.
typedef struct CommTensor {
    double bytes;               // of a shard, 0: not known, which is no matter where none is copied
    bool reads, adds;           // others' shards
    bool written;               // the launch writes it, too
    bool whole;                 // programs do not know ahead what of it they read
    bool pushes;                // copy engines can send what is added while programs run
    double growth;              // of its bytes where atomics add them; 0: they cannot
    PlanId by[PLAN_COUNT];      // how its shards come where a plan is asked for
    const char *name, *no_sums; // no_sums: why `add` has no price, where it can be taken
} CommTensor;

/// What one phase does.
typedef struct CommPhase {
    unsigned line;
    bool meets; // ranks meet before it
    bool parts; // but where programs wait for what they read, part by part
    double seconds, programs;
    double apart; // seconds of those for one rank, launched alone
    double held;  // programs that an SM has room for
    double read[COMM_TENSORS], stored[COMM_TENSORS]; // bytes of others' shards
    double added[COMM_TENSORS];                      // contributed to each shard, on the wire
} CommPhase;

/// What one launch does on one rank, without transfers.
typedef struct CommLaunch {
    const CommLink *link;
    bool beside;      // copies run beside programs
    double units;     // that run programs at the same time
    double bandwidth; // of the own memory
    int64_t ranks;
    double seconds;
    int n_tensors, n_phases;
    CommTensor tensors[COMM_TENSORS];
    CommPhase phases[COMM_PHASES];
    const char *why; // nothing can be said of it, or NULL
} CommLaunch;

/// Of a kernel in `tile` IR for a GPU, or (NULL) for a CPU.
void comm_launch(Ir *ir, Op *kernel, const GpuTarget *gpu, const Machine *machine,
                 const CostDims *dims, CommLaunch *out);

typedef struct CommPiece {
    double from, to; // seconds
    int shard;       // as far from the own rank, or COMM_ALL
} CommPiece;
enum { COMM_ALL = -1 };
typedef struct CommRow {
    int n;
    CommPiece pieces[COMM_PIECES];
} CommRow;

/// When transfers and programs of a launch run.
typedef struct CommTimeline {
    CommRow link, put, clear, fold, programs[COMM_PHASES];
    double sequence, best; // if nothing is overlapped, and if all that may be is
    double end;
} CommTimeline;

/// By the plan that was asked for, in so many chunks; 0: as many as the bytes are worth.
void comm_lay(CommTimeline *t, const CommLaunch *l, PlanId plan, int64_t chunks);

/// A plan with the number of chunks that suits it best.
typedef struct CommPrice {
    PlanId plan;
    int chunks;      // 0: it has none
    double seconds;  // of the launch
    const char *why; // it has no price, or NULL
} CommPrice;
enum { COMM_PRICES = PLAN_COUNT };

/// Of all plans that differ, in the order of simplicity, `add` last. plan, chunks: what is given, 0
/// what is not. How many; 0 where nothing can be said of the launch.
int comm_prices(const CommLaunch *l, int plan, int chunks, CommPrice out[COMM_PRICES]);
/// The simplest plan of those that are about as quick as the quickest, `add` only where there is no
/// other one; NULL of none.
const CommPrice *comm_best(const CommPrice *prices, int n);

#endif
