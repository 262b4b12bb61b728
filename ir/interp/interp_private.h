// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The shared parts of the interpreter's files: registers, plans of ops, the walk over lanes.
#ifndef IR_INTERP_INTERP_PRIVATE_H
#define IR_INTERP_INTERP_PRIVATE_H

#include "ir/interp/interp.h"

/// The storage of an SSA value. A region runs again only after its last run has ended, and nothing
/// recurses, so one place suffices for the whole launch.
typedef struct Reg {
    const Type *type;
    int64_t n; // lanes
    Cell *cells;
    Tensor tensor; // where type is a tensor or a desc
    struct RingState *ring;
} Reg;

/// Data prepared for an op before the run, in op->note.
typedef struct Plan {
    Reg **in, **out;
    Reg ***args;    // of each region
    Access *access; // of tensor accesses
    Cell *temp;     // for: room for carried values; contract: the sum
} Plan;

/// All contributions of one phase to one element (or tuple of elements).
typedef struct Fold {
    Op *op;
    const void *key; // the address of the (first) element
    int64_t program; // that created it
    int64_t at[MAX_RANK];
    Cell *value; // in the types of the region's arguments
} Fold;

/// A scratch tensor under --check.
typedef struct Scratch {
    const char *data;
    int64_t n, size; // elements, and bytes of one
    bool *written;   // of each element
} Scratch;

typedef struct Interp {
    Ir *ir;
    Ctx *ctx;
    Op *module;
    PtrMap regs; // Value -> Reg
    InterpOptions options;
    uint64_t random;
    int64_t steps;
    bool in_phase;
    int64_t program; // the number of the current program in its phase
    PtrMap writers;  // element address -> program + 1, this phase; --check
    PtrMap fold_of;  // element address -> Fold
    VEC(Fold *) folds;
    VEC(Scratch) scratches;
    VEC(Op *) counters; // scratch ops
    const char *kernel;
    /* of several ranks */
    struct World *world;
    struct Races *races; // of all ranks; NULL: races are not checked
    int rank, meetings, n_shared;
    int64_t epoch;    // of several ranks
    int64_t *control; // the control block with the epoch; NULL: not requested
    bool begun, ended;
    bool roles;           // roles run one after the other, so rings keep all items
    const char *waits;    // the awaited event
    PtrMap shard_fold_of; // like fold_of, for contributions to shards
    VEC(Fold *) shard_folds;
    VEC(Op *) scatters; // that have not sent all chunks
} Interp;

static inline Plan *plan_of(const Op *op) {
    return op->note;
}
static inline Reg *in(const Op *op, int i) {
    return plan_of(op)->in[i];
}
static inline Reg *out(const Op *op, int i) {
    return plan_of(op)->out[i];
}
static inline int64_t in_int(const Op *op, int i) {
    return in(op, i)->cells[0].i;
}

typedef void Exec(Interp *it, Op *op);

/* interp.c */
void run_region(Interp *it, Region *r);
void run_op(Interp *it, Op *op);
/// The values a region yields: register i of its terminator.
static inline Reg *yielded(const Region *r, int i) {
    return in(r->last, i);
}
void copy_reg(Reg *to, const Reg *from);
uint64_t next_random(Interp *it);
/// Rounds a result to its type; with noise, moves it by up to `units` in the last place.
Cell round_result(Interp *it, Elem e, Cell c, int units);
/// With noise, sums move by up to this many units, since their terms may be added in any order.
enum { SUM_NOISE = 8 };
/// Ends the run with a user's mistake at the op.
_Noreturn void run_error(Interp *it, const Op *op, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/// Runs the kernel of `it` in its own context, which catches failures.
void interp_launch(Interp *it, int n, const InterpArg *args);

/* interp_comm.c: several ranks */
void do_rank(Interp *it, Op *op);
void do_comm_begin(Interp *it, Op *op);
void do_comm_barrier(Interp *it, Op *op);
void do_comm_end(Interp *it, Op *op);
void do_comm_gather(Interp *it, Op *op);
void do_comm_scatter(Interp *it, Op *op);
void do_comm_signals(Interp *it, Op *op);
void do_comm_control(Interp *it, Op *op);
void do_signal_wait(Interp *it, Op *op);
void do_signal_set(Interp *it, Op *op);
void do_comm_fence(Interp *it, Op *op);
/// Whether the launch has other ranks.
bool has_company(const Interp *it);
/// Memory of the launch that all ranks share, filled when it is made.
void *shared_memory(Interp *it, const Op *op, int64_t bytes, int fill);
/// Writes the contributions to shards of a phase after all ranks have ended it.
void finish_shard_folds(Interp *it, Op *phase);

/* interp_race.c: races between ranks. These functions do nothing if `races` is NULL. */
typedef struct Races Races;
Races *races_create(Ctx *ctx, int ranks);
/// This rank has arrived at the meeting that it->meetings counts, and so have all others.
void race_arrive(Interp *it);
void race_meet(Interp *it);
/// A phase begins, or one of its programs does.
void race_phase(Interp *it);
void race_program(Interp *it);
/// Raises a signal: a rank that sees the word knows this rank's earlier accesses. With `adds` it
/// also knows the accesses that the word announced before.
void race_raise(Interp *it, const void *word, bool adds);
void race_see(Interp *it, const void *word);
/// Puts a word, or applies an atomic: a reader knows this program's accesses before its last fence.
/// The accesses announced with a word that an atomic reads are known after the next fence.
void race_put(Interp *it, const void *word);
void race_atomic(Interp *it, const void *word, bool writes);
void race_fence(Interp *it);
/// Reads an element of a symmetric tensor. The run ends if another rank's access is not ordered.
void race_read(Interp *it, const Op *op, const void *element);
void race_write(Interp *it, const Op *op, const void *element);

/* interp_block.c: ops on whole blocks */
void do_elementwise(Interp *it, Op *op);
void do_const(Interp *it, Op *op);
void do_iota(Interp *it, Op *op);
void do_broadcast(Interp *it, Op *op);
void do_reshape(Interp *it, Op *op);
void do_permute(Interp *it, Op *op);
void do_slice(Interp *it, Op *op);
void do_concat(Interp *it, Op *op);
void do_cast(Interp *it, Op *op);
void do_bitcast(Interp *it, Op *op);
void do_select(Interp *it, Op *op);
void do_dot(Interp *it, Op *op);
void do_contract(Interp *it, Op *op);
void do_gather(Interp *it, Op *op);
void do_histogram(Interp *it, Op *op);

/* interp_scratch.c: undefined at first */
void do_scratch(Interp *it, Op *op);
void do_workspace_limit(Interp *it, Op *op);
/// Fails if the launch has left a number other than 0 in a counter.
void check_counters(Interp *it);
/// Whether an element was written; true if it is not in a scratch tensor, or checks are off.
bool was_written(Interp *it, const Tensor *t, int64_t offset);
void note_write(Interp *it, const Tensor *t, int64_t offset);

/* interp_scan.c: along an axis */
void do_reduce(Interp *it, Op *op);
void do_scan(Interp *it, Op *op);
void do_sort(Interp *it, Op *op);

/* interp_async.c: shared memory, rings, asynchronous ops */
void do_desc(Interp *it, Op *op);
void do_buf_alloc(Interp *it, Op *op);
void do_buf_view(Interp *it, Op *op);
void do_buf_load(Interp *it, Op *op);
void do_buf_store(Interp *it, Op *op);
void do_buf_pad(Interp *it, Op *op);
void do_copy_async(Interp *it, Op *op);
void do_copy_tma(Interp *it, Op *op);
void do_copyout_tma(Interp *it, Op *op);
void do_mma_start(Interp *it, Op *op);
void do_blank(Interp *it, Op *op);
void do_await(Interp *it, Op *op);
void do_ring_make(Interp *it, Op *op);
void do_ring_acquire(Interp *it, Op *op);
void do_ring_commit(Interp *it, Op *op);
void do_take_tile(Interp *it, Op *op);
void do_ring_wait(Interp *it, Op *op);
void do_ring_release(Interp *it, Op *op);
void do_roles(Interp *it, Op *op);

/* interp_tensor.c: memory */
Cell load_element(Interp *it, const Tensor *t, int64_t offset);
void store_element(Interp *it, const Tensor *t, int64_t offset, Cell c);
void do_dim(Interp *it, Op *op);
void do_stride(Interp *it, Op *op);
void do_align(Interp *it, Op *op);
void do_load(Interp *it, Op *op);
void do_live(Interp *it, Op *op);
void do_store(Interp *it, Op *op);
void do_atomic(Interp *it, Op *op);
void do_combine(Interp *it, Op *op);
/// Reads the tensor's elements into the block of the op's subscript; dead lanes get the pad.
void read_lanes(Interp *it, Op *op, Reg *to, Cell pad);
/// Writes the results of the phase's combines.
void finish_folds(Interp *it);
/// acc = f(acc, v), where f is the function of a combine.
void fold_in(Interp *it, Op *op, Cell *acc, const Cell *v);
/// keep = true: the old value is the leftmost operand.
void start_from_old(Interp *it, Fold *f);
void store_fold(Interp *it, const Fold *f);

#endif
