// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Shared by the parts of comm-overlap: comm_reads.c finds what is read, comm_overlap.c decides,
// comm_gather.c moves remote reads, by programs comm_put.c, comm_stage.c remote adds, comm_parts.c
// has ranks wait for each other between phases.
#ifndef PASSES_COMM_COMM_H
#define PASSES_COMM_COMM_H

#include "passes/grid.h"
#include "passes/util.h"

typedef struct Comm {
    PassEnv *env;
    Ir *ir;
    Ctx *ctx;
    Op *kernel, *begin;
    Value *rank, *control;
    bool remote;  // programs touch other ranks' shards where they stand, and wait for all to come
    bool reaches; // they, or another part of the launch, access those by their addresses
    PlanId plan;  // of contributions
    PlanId reads; // of reads; PLAN_CHOSEN: each tensor's own
    bool sums;    // what is added is added in place, in no order
    bool copies;  // nothing is accessed where it lies: it is sent when programs have ended
    int chunks;   // 0: by their bytes
    int signals;  // requests for words so far
    VEC(Op *) adding;   // the phase of each contribution
    VEC(Op *) turns;    // dimensions of ranks of contributions, to be rotated when all are staged
    VEC(Value *) words; // tensors that programs wait for
    VEC(Value *) sent;  // room for what programs send by the plan `put`
    VEC(const char *) notes; // for people: what was found, and what became of it
} Comm;

/// All reads of one symmetric tensor.
typedef struct CommReads {
    Value *tensor;
    VEC(Op *) loads;     // all of them, those of the own shard, too
    bool remote;         // some are of other ranks' shards
    bool written;        // the kernel writes it, too, which is against it
    const char *against; // why the shards cannot be brought here before programs read them, or NULL
    const char *chunked; // why only as a whole, or NULL
    const char *part;    // why programs want a part of what others have, or NULL
} CommReads;

/// Notes what was found of `what`.
#define comm_note(c, ...) vec_push((c)->ctx, &(c)->notes, ctx_format((c)->ctx, __VA_ARGS__))
const char *comm_name(const Value *tensor);
/// Where host code of the launch goes: at the end of what stands there already.
Builder comm_host(Comm *c);
/// dim of a tensor at b.
Value *comm_dim(Builder *b, Value *tensor, int axis);
/// The control block.
Value *comm_control(Comm *c);
/// A coordinate of the words: of the own rank, for which nobody waits, it is outside of them.
Value *comm_of_other(const Comm *c, Builder *b, Value *rank);
/// The epoch, in a program: other than before the last barrier.
Value *comm_epoch(Comm *c, Builder *b);
/// The epoch that this launch began with, in a program.
Value *comm_first_epoch(Comm *c, Builder *b);
/// Room for shards of `tensor`: a dense tensor of n dims, those of `first`, and then a shard's. Of
/// two dims, for each rank and each source, it is symmetric memory.
Value *comm_room(Builder *b, Value *tensor, Elem elem, int n, Value *const *first,
                 const char *name);
/// Words [W, W, each], about a tensor: at each rank some for each source.
Value *comm_words(Comm *c, Builder *b, const Value *tensor, Value *ranks, Value *each);
/// The rank is the own one.
bool comm_is_own(const Value *rank);
/// The level whose index is v, if it goes through all ranks one by one; NULL where it does not.
Level *comm_rank_level(const Comm *c, Level *level, int n, const Value *v);
/// Programs of the level go through the ranks from rank + first on.
void comm_rotate(Comm *c, const Level *l, int first);
/// words[coordinates] >= epoch, at b; text has {} for the peer and for the last coordinate.
void comm_wait(Comm *c, Builder *b, Value *words, Value *epoch, Value *peer, int n,
               Value *const *coordinates, const char *text);

/* ---- comm_reads.c -------------------------------------------------------------------------- */

/// Fills r, of which the tensor is given.
void comm_find_reads(Ctx *ctx, const Op *kernel, CommReads *r);
/// The phase that the op stands in, or NULL.
Op *comm_phase(const Op *op);
/// The indices of a phase are known where its programs start.
void comm_know_levels(Ctx *ctx, const Op *phase, PtrMap *known);
/// The plan of what is read of a tensor; asked: PLAN_CHOSEN where a GPU's caller has none.
PlanId comm_reads_plan(const CommReads *r, PlanId asked);
/// Which of all ranks' shards an access is of.
typedef enum CommWhose {
    WHOSE_OWN,   // the own one
    WHOSE_OTHER, // that of a rank which the own one says, another one
    WHOSE_ANY,   // each rank's in turn, one that data say
} CommWhose;
CommWhose comm_whose(Ctx *ctx, const Op *access);

/* ---- comm_gather.c ------------------------------------------------------------------------- */

void comm_gather(Comm *c, CommReads *r, PlanId plan);
/// Shards are read where they lie, from the own one on and side by side, so that ranks do not all
/// read one shard at a time.
void comm_read_in_turn(Comm *c, const CommReads *r);
/// Of a tensor that is written: shards are copied before each phase that reads others'. False, and
/// nothing is done: a phase stands in a loop, or may read what its own programs have written.
bool comm_gather_phases(Comm *c, CommReads *r);

/* ---- comm_put.c ---------------------------------------------------------------------------- */

/// A tensor whose shards programs of their ranks send to all others.
typedef struct CommPut {
    Value *tensor, *chunk, *ranks; // chunk: rows
    Value *sent;                   // [to, from, shard]
    Value *words; // [to, from, chunk]: an epoch, and how many pieces have come since
} CommPut;
/// There is room for one more dimension.
bool comm_put_fits(const Value *tensor);
/// Rows of a piece: no chunk ends inside of one.
int64_t comm_put_rows(const Value *tensor);
/// The phase that sends the own shard, at b.
void comm_put(Comm *c, Builder *b, Value *tensor, Value *chunk, CommPut *out);
/// A program waits, at b, for a chunk of a rank. epoch: that the launch began with.
void comm_put_wait(Comm *c, const CommPut *p, Builder *b, Value *epoch, Value *peer, Value *chunk,
                   const char *text);
/// The load, or `live`, is of what has been sent here.
void comm_put_read(Comm *c, const CommPut *p, Op *access);

/* ---- comm_stage.c -------------------------------------------------------------------------- */

/// The op contributes to shards of other ranks.
bool comm_is_add(const Op *op);
/// It is one sum, so that atomics can take it.
bool comm_is_sum(const Op *combine);
void comm_stage(Comm *c, Op *add);
/// When all contributions of the kernel are staged: programs of the own rank go last.
void comm_turn(Comm *c);
/// The phase can be launched rank by rank, so that copy engines send what it contributes to one
/// while programs work for the next: neither a turn of the host nor a meeting comes between.
bool comm_can_push(Ctx *ctx, Op *kernel, const Op *add);

/* ---- comm_parts.c -------------------------------------------------------------------------- */

/// Where ranks meet between phases and need not, who reads waits for what it reads.
void comm_parts(Comm *c);
/// They have to, whatever plan does not wait for all anyway.
bool comm_needs_meeting(Ir *ir, Op *kernel, const Op *barrier);

#endif
