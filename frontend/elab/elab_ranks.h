// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What a rank does, worked out for a few numbers of ranks. Shared by elab_race.c, elab_wait.c
// and elab_peer.c.
//
// Of a kernel of W ranks nothing but W and the rank is open in most of what says whose shard is
// touched. So that is computed for all ranks of 4 and of 3 of them, and compared. Two ranks alone
// are not tried where W is open: each is the other's only neighbour then, and what is right for
// all larger numbers may not be meant for them.
#ifndef FRONTEND_ELAB_ELAB_RANKS_H
#define FRONTEND_ELAB_ELAB_RANKS_H

#include "frontend/elab/elab.h"

enum { MAX_COUNTS = 2, MAX_SEATS = 16 };

/// One rank of so many.
typedef struct Seat {
    Elab *e;
    int64_t ranks, rank;
} Seat;

/// What is known of a value at a seat.
typedef enum FactKind {
    OPEN,
    NUMBER, // its value; of bools 0 and 1
    SHARED, // it is that of v, which programs of the same indices have in common on all ranks
} FactKind;
typedef struct Fact {
    FactKind kind;
    int64_t number;
    const Value *v;
} Fact;

/// Scalars that are passed, and what is read of tensors, may differ from rank to rank.
Fact el_fact(const Seat *at, const Value *v);
/// Certainly one value in programs of the same indices; loops of the same bounds count as one.
bool el_same_fact(Fact a, Fact b);

/// Whether the ops of a region run at a seat, its parent being run. MAYBE: it cannot be told.
typedef enum Taken { NEVER, MAYBE, ALWAYS } Taken;
Taken el_taken(const Seat *at, const Region *r);

/// Whether a coordinate is certainly outside of that dimension of a tensor: nothing happens there.
bool el_outside(const Seat *at, const Value *tensor, int axis, Fact coordinate);

/// The numbers of ranks to try: the one that is known, or some that the kernel does not exclude by
/// `require`.
int el_rank_counts(Elab *e, int64_t counts[MAX_COUNTS]);

/// Makes the rank that a raise comes from the peer of a wait that names none and that nothing else
/// can end (elab_peer.c).
void el_name_peer(Elab *e, Op *wait, const Op *raise);

#endif
