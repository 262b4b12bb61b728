// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Declarations shared by the parts of comm-overlap: comm_reads.c finds the reads, comm_overlap.c
// decides, comm_gather.c moves remote reads, comm_put.c lets programs send them, comm_stage.c moves
// remote adds, and comm_parts.c replaces meetings between phases by waits of ranks.
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
    bool remote;      // programs access other ranks' shards in place, after all ranks have arrived
    bool reaches;     // programs or other parts of the launch access other ranks' memory by address
    PlanId plan;      // of contributions
    PlanId reads;     // of reads; PLAN_CHOSEN: each tensor has its own
    bool sums;        // contributions are added in place, in no order
    bool copies;      // no access in place: data is sent after programs have ended
    int chunks;       // 0: chosen by the bytes
    int signals;      // number of requests for signal words
    VEC(Op *) adding; // the phase of each contribution
    VEC(Op *) turns;  // dimensions of ranks to rotate once all contributions are staged
    VEC(Value *) words;      // tensors that programs wait for
    VEC(Value *) sent;       // memory for data that programs send by the plan `put`
    VEC(const char *) notes; // for the report: the findings and their consequences
} Comm;

/// All reads of one symmetric tensor.
typedef struct CommReads {
    Value *tensor;
    VEC(Op *) loads;     // all loads, also of the own shard
    bool remote;         // some read other ranks' shards
    bool written;        // the kernel also writes it, which forbids gathering
    const char *against; // why the shards cannot be gathered before programs read them, or NULL
    const char *chunked; // why only whole shards can be gathered, or NULL
    const char *part;    // why programs read only a part of the other shards, or NULL
} CommReads;

/// Adds a note to the report.
#define comm_note(c, ...) vec_push((c)->ctx, &(c)->notes, ctx_format((c)->ctx, __VA_ARGS__))
const char *comm_name(const Value *tensor);
/// Returns the place for host code of the launch: after the host code that exists already.
Builder comm_host(Comm *c);
/// Returns the dim of a tensor, built at b.
Value *comm_dim(Builder *b, Value *tensor, int axis);
/// Returns the control block, and makes it if necessary.
Value *comm_control(Comm *c);
/// Returns rank as a coordinate of the words. For the own rank, for which no program waits, returns
/// a coordinate outside of the words.
Value *comm_of_other(const Comm *c, Builder *b, Value *rank);
/// Returns the epoch, loaded in a program. Each barrier changes it.
Value *comm_epoch(Comm *c, Builder *b);
/// Returns the epoch at which this launch began, loaded in a program.
Value *comm_first_epoch(Comm *c, Builder *b);
/// Makes memory for shards of `tensor`: a dense tensor whose leading n dims are `first`, followed
/// by those of a shard. With two leading dims, for each rank and each source, it is symmetric
/// memory.
Value *comm_room(Builder *b, Value *tensor, Elem elem, int n, Value *const *first,
                 const char *name);
/// Makes the words [W, W, each] for a tensor: each rank has `each` words for each source.
Value *comm_words(Comm *c, Builder *b, const Value *tensor, Value *ranks, Value *each);
/// Whether the rank is the own one.
bool comm_is_own(const Value *rank);
/// Returns the level with index v if it goes through all ranks one by one, else NULL.
Level *comm_rank_level(const Comm *c, Level *level, int n, const Value *v);
/// Makes programs of the level go through the ranks from rank + first on.
void comm_rotate(Comm *c, const Level *l, int first);
/// Builds at b a wait for words[coordinates] >= epoch. text has {} for the peer and for the last
/// coordinate.
void comm_wait(Comm *c, Builder *b, Value *words, Value *epoch, Value *peer, int n,
               Value *const *coordinates, const char *text);

/* ---- comm_reads.c -------------------------------------------------------------------------- */

/// Fills in r except its `tensor`, which the caller has set.
void comm_find_reads(Ctx *ctx, const Op *kernel, CommReads *r);
/// Returns the phase that holds the op, or NULL.
Op *comm_phase(const Op *op);
/// Adds the indices of a phase to `known`: they are known when its programs start.
void comm_know_levels(Ctx *ctx, const Op *phase, PtrMap *known);
/// Returns the plan for reads of a tensor. asked: the requested plan; PLAN_CHOSEN on a GPU if none
/// was requested.
PlanId comm_reads_plan(const CommReads *r, PlanId asked);
/// The shard that an access of all ranks' shards refers to.
typedef enum CommWhose {
    WHOSE_OWN,   // the own one
    WHOSE_OTHER, // one other rank's; the own rank determines it
    WHOSE_ANY,   // each rank's in turn, or one that data determines
} CommWhose;
CommWhose comm_whose(Ctx *ctx, const Op *access);

/* ---- comm_gather.c ------------------------------------------------------------------------- */

void comm_gather(Comm *c, CommReads *r, PlanId plan);
/// Makes programs read shards in place, starting with the own one. Programs that differ only in the
/// rank stand side by side, so that the ranks do not all read the same shard at a time.
void comm_read_in_turn(Comm *c, const CommReads *r);
/// Gathers a tensor that the kernel writes: copies its shards before each phase that reads other
/// ranks' shards. Returns false, with nothing changed, if such a phase stands in a loop or may read
/// data that its own programs have written.
bool comm_gather_phases(Comm *c, CommReads *r);

/* ---- comm_put.c ---------------------------------------------------------------------------- */

/// A tensor whose shards are sent to all ranks by programs of their owners.
typedef struct CommPut {
    Value *tensor, *chunk, *ranks; // chunk: in rows
    Value *sent;                   // [to, from, shard]
    Value *words; // [to, from, chunk]: an epoch plus the number of pieces that have arrived
} CommPut;
/// Whether the tensor can have one more dimension.
bool comm_put_fits(const Value *tensor);
/// Returns the rows of a piece. Chunks end only between pieces.
int64_t comm_put_rows(const Value *tensor);
/// Builds at b the phase that sends the own shard.
void comm_put(Comm *c, Builder *b, Value *tensor, Value *chunk, CommPut *out);
/// Builds at b a program's wait for a chunk of a rank. epoch: the one at which the launch began.
void comm_put_wait(Comm *c, const CommPut *p, Builder *b, Value *epoch, Value *peer, Value *chunk,
                   const char *text);
/// Redirects the load, or `live`, to the received shards.
void comm_put_read(Comm *c, const CommPut *p, Op *access);

/* ---- comm_stage.c -------------------------------------------------------------------------- */

/// Whether the op contributes to shards of other ranks.
bool comm_is_add(const Op *op);
/// Whether the combine is a single sum, which atomics can do.
bool comm_is_sum(const Op *combine);
void comm_stage(Comm *c, Op *add);
/// Rotates the ranks once all contributions of the kernel are staged, so that programs of the own
/// rank go last.
void comm_turn(Comm *c);
/// Whether the phase can be launched rank by rank, so that copy engines send one rank's
/// contributions while programs work for the next. Neither a host loop nor a meeting may intervene.
bool comm_can_push(Ctx *ctx, Op *kernel, const Op *add);

/* ---- comm_parts.c -------------------------------------------------------------------------- */

/// Replaces meetings between phases, where possible, by waits of each reader for its data.
void comm_parts(Comm *c);
/// Whether ranks must meet at the barrier. Only for plans whose transfers do not already wait for
/// all ranks.
bool comm_needs_meeting(Ir *ir, Op *kernel, const Op *barrier);

#endif
