// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What plans of transfers between ranks are expected to take (comm_cost.c).
#ifndef PASSES_COMM_COST_H
#define PASSES_COMM_COST_H

#include "passes/cost.h"
#include "passes/gpu/gpu.h"
#include "passes/passes.h"

/// Between the GPUs of a host: bytes a second, seconds.
typedef struct CommLink {
    const char *target;
    double copy, store, load;
    double start, chunk, meeting;
} CommLink;
/// NULL: nothing is known of this target's.
const CommLink *comm_link(const GpuTarget *gpu);

/// What a launch does with one symmetric tensor.
typedef struct CommWork {
    int argument; // of the kernel
    const GpuTarget *gpu;
    const CommLink *link;
    int64_t ranks;
    double seconds, programs; // of the launch, without transfers
    double bytes;             // of a shard
    double loaded;            // that programs read of other ranks' shards
    bool adds;                // else reads
    bool whole;               // programs do not know ahead which chunks they read
} CommWork;

enum { COMM_TENSORS = 8, COMM_PIECES = 1024 };
typedef struct CommPiece {
    double from, to; // seconds
    int shard;       // as far from the own rank
} CommPiece;
typedef struct CommRow {
    int n;
    CommPiece pieces[COMM_PIECES];
} CommRow;

/// When transfers and programs of a launch run.
typedef struct CommTimeline {
    CommRow link, programs, fold;
    double moved, worked; // seconds of each alone
    double end;
} CommTimeline;

/// Of a kernel in `tile` IR that takes `seconds` without transfers: the symmetric tensors for which
/// there is a choice. How many; 0 where nothing is known of links or extents, too.
int comm_works(Ir *ir, Op *kernel, const GpuTarget *gpu, const CostDims *dims, double seconds,
               CommWork out[COMM_TENSORS]);
/// In so many chunks; 0: as many as the bytes are worth.
void comm_lay(CommTimeline *t, const CommWork *w, PlanId plan, int64_t chunks);

/// A plan with the number of chunks that suits it best.
typedef struct CommPrice {
    PlanId plan;
    int chunks;     // 0: it has none
    double seconds; // of the launch
} CommPrice;
enum { COMM_PRICES = PLAN_COUNT };

/// Of all plans, in the order of simplicity. plan, chunks: what is given, 0 what is not. How many.
int comm_prices(const CommWork *works, int n, int plan, int chunks, CommPrice out[COMM_PRICES]);
/// The simplest plan of those that are about as quick as the quickest; NULL of none.
const CommPrice *comm_best(const CommPrice *prices, int n);

#endif
