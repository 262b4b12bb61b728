// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The behaviour of a rank, computed for a few numbers of ranks. Shared by elab_race.c, elab_wait.c
// and elab_peer.c.
//
// In a kernel on W ranks, the choice of a shard usually depends on W and the rank only. So it is
// computed for all ranks of W = 4 and W = 3, and compared. W = 2 is not tried if W is open: each
// rank is then the other's only neighbour, and code that is right for all larger W may not be meant
// for it.
#ifndef FRONTEND_ELAB_ELAB_RANKS_H
#define FRONTEND_ELAB_ELAB_RANKS_H

#include "frontend/elab/elab.h"

enum { MAX_COUNTS = 2, MAX_SEATS = 16 };

/// One rank of `ranks`.
typedef struct Seat {
    Elab *e;
    int64_t ranks, rank;
} Seat;

/// The known facts of a value at a seat.
typedef enum FactKind {
    OPEN,
    NUMBER, // its value; 0 and 1 for bools
    SHARED, // the value of v, equal on all ranks in programs of the same indices
} FactKind;
typedef struct Fact {
    FactKind kind;
    int64_t number;
    const Value *v;
} Fact;

/// Returns the fact of a value. Scalar arguments and values read from tensors may differ between
/// ranks.
Fact el_fact(const Seat *at, const Value *v);
/// Whether both are certainly one value in programs of the same indices; loops with the same bounds
/// count as one.
bool el_same_fact(Fact a, Fact b);

/// Whether the ops of a region run at a seat if the op around the region runs. MAYBE: unknown.
typedef enum Taken { NEVER, MAYBE, ALWAYS } Taken;
Taken el_taken(const Seat *at, const Region *r);

/// Whether a coordinate is certainly outside of that dimension of a tensor, where the access does
/// nothing.
bool el_outside(const Seat *at, const Value *tensor, int axis, Fact coordinate);

/// Returns the numbers of ranks to try: the known one, or some that the kernel's `require` allows.
int el_rank_counts(Elab *e, int64_t counts[MAX_COUNTS]);

/// Sets the peer of a wait without one to the rank of the raise, the only op that can end the wait
/// (elab_peer.c).
void el_name_peer(Elab *e, Op *wait, const Op *raise);

#endif
