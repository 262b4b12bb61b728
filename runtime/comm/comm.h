// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Communicators of several ranks (docs/inside/communication.md): the parts that the runtime's files
// share.
//
// An engine knows how ranks meet, maps the host memory of all ranks, and moves bytes if it cannot
// map that memory. The files of runtime/comm do all else by words and small messages in that
// memory. Each rank writes only into its own places in the memory of the others, and waits only for
// words in its own memory. So an engine needs no operation except puts.
#ifndef RUNTIME_COMM_COMM_H
#define RUNTIME_COMM_COMM_H

#include "runtime/compiler.h"
#include "runtime/host.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

enum { RT_COMM_RANKS = 64, RT_COMM_NAME = 64, RT_COMM_CONFIG = 160, RT_COMM_TEXT = 512 };
enum { RT_COMM_SHARDS = 8 };

/// Memory of all ranks. The part of rank r begins at flat + r * stride. If the memory of other
/// ranks is not mapped, their addresses are only names, which the engine's put and get translate.
typedef struct rt_heap {
    char *flat;
    char *own; // this rank's part; flat + rank * stride if mapped
    size_t stride, bytes;
    bool mapped;
} rt_heap;

static inline size_t rt_round_up(size_t n, size_t grain) {
    return (n + grain - 1) / grain * grain;
}

/* ---- engines --------------------------------------------------------------------------------- */

/// Engines: comm_threads.c, comm_processes.c, comm_sockets.c, comm_shmem.c. Functions fail through
/// tg_fail.
typedef struct rt_engine {
    const char *name;
    /// Collective: meets the other ranks; sets rank, size, local (the number of ranks on this host)
    /// and `host`, which has `bytes` of zeros a rank. On failure nothing is left.
    tg_status (*create)(tg_comm *c, const tg_comm_options *options, size_t bytes);
    /// Called after a last meeting. Memory of this rank that others have mapped stays valid for
    /// them.
    void (*destroy)(tg_comm *c);
    /// Collective: passes a file descriptor between all ranks. `all` gets a descriptor of each
    /// rank's file, which the caller closes; they are new even in one process. NULL: the engine
    /// cannot pass descriptors.
    tg_status (*pass)(tg_comm *c, int fd, int *all);
    /// Returns a rank whose process has died, or -1. NULL: the engine cannot find out.
    int (*dead)(tg_comm *c);
    /* For host memory that is not mapped; NULL if the engine always maps it: */
    tg_status (*put)(tg_comm *c, int rank, size_t at, const void *from, size_t bytes);
    tg_status (*get)(tg_comm *c, int rank, size_t at, void *to, size_t bytes);
    /// Like put and get, but the copy may happen at any time until `quiet` returns. Neither side
    /// may change before that.
    tg_status (*put_later)(tg_comm *c, int rank, size_t at, const void *from, size_t bytes);
    tg_status (*get_later)(tg_comm *c, int rank, size_t at, void *to, size_t bytes);
    /// Writes a word after all earlier puts of this thread to that rank.
    tg_status (*set)(tg_comm *c, int rank, size_t at, int64_t value);
    tg_status (*add)(tg_comm *c, int rank, size_t at, int64_t value);
    /// Returns when all puts have arrived and all later copies are done.
    tg_status (*quiet)(tg_comm *c);
    /// Called while this rank waits; NULL: not needed.
    void (*progress)(tg_comm *c);
} rt_engine;

/// rt_engine_sockets serves the engine "processes" if the ranks are on several hosts.
extern const rt_engine rt_engine_threads, rt_engine_processes, rt_engine_sockets, rt_engine_shmem;

/// The first message of a process to rank 0.
typedef struct rt_hello {
    int32_t magic, rank, ranks, control; // control: bytes of rt_control, which tell versions apart
    uint64_t bytes;
} rt_hello;
rt_hello rt_comm_hello(const tg_comm_options *o, size_t bytes);
/// Whether the sender of `h` may join the ranks whose sockets are open. If not, text gets the
/// reason.
bool rt_comm_judge(const rt_hello *h, const rt_hello *own, const int *sockets, char *text,
                   size_t size);

/// Whether `meet` is a HOST:PORT and not a path.
bool rt_sockets_named(const char *meet);
/// Creates ranks that meet at HOST:PORT. Sets c->engine to the engine that fits the hosts of the
/// ranks.
tg_status rt_sockets_create(tg_comm *c, const tg_comm_options *options, size_t bytes);
/// Creates ranks that meet at a Unix socket. keyed: they know TG_RANK_KEY, so their users do not
/// matter. Otherwise they belong to one user, or to root.
tg_status rt_processes_create(tg_comm *c, const tg_comm_options *options, size_t bytes, bool keyed);

/// Must be called before an OpenSHMEM library is loaded (comm_shmem_end.c). Returns why it
/// failed, or NULL.
const char *rt_shmem_hide_data(void);

/* ---- memory of symmetric tensors ------------------------------------------------------------- */

/// Memory of symmetric tensors: the host's (comm.c) or a GPU's (comm_cuda.c). Ranks with a GPU meet
/// through an engine, too.
typedef struct rt_memory {
    /// Collective: fills in `heap`, which has at least `bytes` of zeros a rank.
    tg_status (*create)(tg_comm *c, size_t bytes);
    void (*destroy)(tg_comm *c);
    /// Zeroes memory of this rank; it is zero when the call returns.
    tg_status (*clear)(tg_comm *c, void *own, size_t bytes);
    /// Returns when all launches of this rank have ended.
    tg_status (*settle)(tg_comm *c);
    /// Copies bytes between the host and a heap that is not host memory. NULL: the heap is host
    /// memory.
    tg_status (*copy)(tg_comm *c, void *to, const void *from, size_t bytes, bool out);
    /// Copies bytes from another rank's heap that is not mapped. NULL: it is mapped, or the engine
    /// copies.
    tg_status (*fetch)(tg_comm *c, int rank, const void *from, void *to, size_t bytes);
    /// Called after c->part or c->trace has changed. `before` holds all its events when this
    /// returns. NULL: events are recorded at once.
    tg_status (*profile)(tg_comm *c, tg_trace *before);
    /// tg_host_seconds; NULL: only the caller's clock measures launches.
    double (*seconds)(tg_comm *c);
    /// All fields but rank and size.
    const tg_comm_calls *calls;
} rt_memory;

extern const rt_memory rt_memory_host, rt_memory_cuda, rt_memory_nvshmem;

/* ---- a rank's end ---------------------------------------------------------------------------- */

/// The announcement ("line") of a launch to another rank. Ranks compare the hashes. number is
/// written last.
typedef struct rt_announcement {
    _Alignas(64) _Atomic int64_t number; // of the launch, from 1
    uint64_t kernel, plan;               // the kernel and its setting
    uint64_t source;                     // of the kernel, a hash; 0: not known
    uint64_t layout;                     // of all earlier allocations
    uint64_t scalars;                    // of all steering scalars
    int64_t scalar;                      // the first steering scalar
    uint64_t shards;                     // of all symmetric arguments
} rt_announcement;

/// The description of a symmetric argument.
typedef struct rt_told {
    char name[32];
    uint64_t at; // offset of its first element in the heap; UINT64_MAX: null
    uint8_t code, bits;
    int16_t rank;
    int64_t shape[TG_MAX_RANK], strides[TG_MAX_RANK];
} rt_told;

/// The texts behind the hashes. They are sent only if they differ from those of two launches
/// before.
typedef struct rt_texts {
    char name[RT_COMM_NAME];
    char config[RT_COMM_CONFIG]; // tune values and axes
    rt_told shards[RT_COMM_SHARDS];
} rt_texts;

/// The place into which one other rank writes.
typedef struct rt_from {
    _Alignas(64) _Atomic int64_t message; // number of the last message
    _Atomic int64_t entered, failed;      // the last launch that began there, and that failed
    _Atomic int64_t barrier, done;        // the last barrier, and end of a launch, that it reached
    _Atomic int64_t lost;                 // 1 + a rank that it has seen to be dead
    _Atomic int64_t stopped;              // not 0: its device has ended the launch with a failure
    _Atomic int64_t busy;                 // changes while that rank works
    char text[RT_COMM_TEXT];              // why that launch failed
    rt_announcement lines[2];             // of even and odd launches
    rt_texts texts[2];                    // of the same launches
    _Alignas(64) unsigned char messages[2][1024];
} rt_from;

/// Lies at the beginning of every rank's host memory.
typedef struct rt_control {
    _Alignas(64) int64_t words[TG_CONTROL_WORDS]; // of launches on the CPU
    rt_from from[RT_COMM_RANKS];
} rt_control;

/// A kind of launch for which the ranks have agreed upon a variant.
typedef struct rt_agreed {
    struct rt_agreed *next;
    const tg_kernel *kernel;
    uint64_t arguments; // a hash
    uint64_t state;     // of the kernel: another kernel may have its address
    const tg_variant *variant;
} rt_agreed;

typedef struct rt_sym rt_sym;           // comm_heap.c
typedef struct rt_transfer rt_transfer; // comm_cpu.c

enum { RT_COMM_PIECES = 64 };

/// A symmetric argument of this rank, while its launch runs.
typedef struct rt_shard_arg {
    const char *name;
    const void *direct; // NULL: the argument is null
    uint64_t like;      // rt_shards_hash
    uint8_t code, bits;
    int rank; // number of dimensions of the shard
    const int64_t *shape, *strides;
} rt_shard_arg;

struct tg_comm {
    const rt_engine *engine;
    const rt_memory *memory;
    void *engine_state, *memory_state;
    int rank, size, local, device;
    int devices[RT_COMM_RANKS]; // of all ranks, if they have GPUs
    int64_t timeout_ns;
    int64_t busy;         // the last value sent of rt_from.busy
    rt_heap host;         // of the engine; begins with rt_control
    rt_heap heap;         // holds the symmetric tensors
    rt_control *control;  // this rank's
    tg_comm_calls calls;  // of memory, with rank and size
    pthread_mutex_t lock; // one collective call of this rank at a time
    rt_sym *sym;
    _Atomic int lost; // 1 + a rank that has died; 0: none
    int64_t messages; // number of the last message
    bool leaves;      // this rank is destroyed without a meeting with the others
    /* State of launches: */
    int64_t launches;            // number of the last launch
    rt_announcement line;        // of that launch; valid from its announcement on
    const tg_param_info *scalar; // the first steering parameter; or NULL
    int n_shards;                // its number of symmetric parameters
    rt_shard_arg shards[RT_COMM_SHARDS];
    uint64_t told_texts[2]; // hashes of this rank's texts at the others
    rt_agreed *agreed;
    bool recovers;               // after a failed launch: all ranks meet before the next one
    _Atomic bool told;           // the failure came from another rank
    _Atomic int64_t failed;      // the last launch that failed here
    _Atomic uint64_t compared;   // ranks whose line equals the own one
    int n_workspaces, n_gathers; // of this launch
    struct {
        size_t at;
        int64_t bytes;
    } workspaces[RT_COMM_PIECES];
    bool keeps; // graphs hold addresses of outgrown workspaces, which are kept
    rt_transfer *transfers;
    int64_t epoch;   // of this launch, and of its barriers so far
    tg_trace *trace; // NULL: no trace is taken
    enum tg_part part;
};

/* ---- comm_meet.c: meeting -------------------------------------------------------------------- */

/// Collective: all[r] becomes the `bytes` that rank r gave. Fails if the time limit is over or a
/// rank has died; the message names `what` ("tg_sym_alloc").
tg_status rt_comm_allgather(tg_comm *c, const char *what, const void *mine, size_t bytes,
                            void *all);
/// A hash that is equal for processes that can share memory of one host.
uint64_t rt_comm_host(void);
/// Collective: returns when all ranks have called it.
tg_status rt_comm_meet(tg_comm *c, const char *what);
/// Collective: tells all ranks of a failure at once instead of by a time limit. TG_OK if the status
/// of all ranks is TG_OK.
tg_status rt_comm_agree_that(tg_comm *c, const char *what, tg_status status);
/// The time that a rank has waited; starts as zero.
typedef struct rt_patience {
    int64_t since; // of rt_now_ns
    int turns;
} rt_patience;
/// To be called in every turn of a loop that waits for other ranks. The engine progresses, other
/// threads get the core, and now and then it checks for dead ranks. False: the time limit is over,
/// or a rank has died.
bool rt_comm_patience(tg_comm *c, rt_patience *p);
/// Initialises a condition whose waits use rt_now_ns, a monotonic clock.
void rt_comm_condition(pthread_cond_t *condition);
/// pthread_cond_wait until `end` of rt_now_ns at most; false: that time has come.
bool rt_comm_wait_until(pthread_cond_t *condition, pthread_mutex_t *lock, int64_t end);
/// Checks whether a rank has died, and sets c->lost to it.
bool rt_comm_is_lost(tg_comm *c);
/// Fails with the reason why the wait ended: "tg_sym_alloc: rank 1 waited 30 s for rank 0".
tg_status rt_comm_gave_up(const tg_comm *c, const char *what, int peer);
/// Writes into this rank's places in the control block of another rank. `place` is the same place
/// in the own control block.
void rt_comm_tell(tg_comm *c, int rank, void *place, const void *from, size_t bytes);
/// Writes a word there, after all earlier writes.
void rt_comm_set(tg_comm *c, int rank, _Atomic int64_t *place, int64_t value);

/* ---- comm.c, comm_heap.c --------------------------------------------------------------------- */

/// Creates a communicator by an engine. All options must be set.
tg_status rt_comm_open(const rt_engine *engine, const rt_memory *memory,
                       const tg_comm_options *options, tg_comm **out);
/// Checks that the options give rank, number of ranks and meeting place.
tg_status rt_comm_place(const tg_comm_options *options);
/// Fails because rank `missing` did not come to the meeting.
tg_status rt_comm_nobody_came(const tg_comm_options *options, int missing);
/// The device of symmetric tensors, as DLPack names it.
DLDevice rt_comm_device(const tg_comm *c);

tg_status rt_sym_create(tg_comm *c);
void rt_sym_destroy(tg_comm *c);
/// A hash of all allocations and frees.
uint64_t rt_sym_layout(const tg_comm *c);

/// A place in a symmetric tensor.
typedef struct rt_shard {
    void *own;            // in this rank's shard
    void *direct;         // in rank 0's shard
    int64_t lead;         // bytes from rank to rank
    void *gathered;       // rank 0's slot in the own heap; NULL: no slots (TG_SYM_LEAN)
    int64_t slot;         // bytes from slot to slot
    int64_t before, left; // bytes of the shard before the place, and from there on
} rt_shard;
/// Finds the tensor whose own shard contains the address; false: none does.
bool rt_sym_find(const tg_comm *c, const void *own, rt_shard *out);
/// Finds it by an address in rank 0's shard.
bool rt_sym_find_direct(const tg_comm *c, const void *direct, rt_shard *out);

/// Takes memory of the heap. The offset is the same on every rank if all ranks do the same in the
/// same order. SIZE_MAX: the heap is full; tg_last_error() says so.
size_t rt_heap_take(tg_comm *c, size_t bytes);
void rt_heap_give_back(tg_comm *c, size_t at);
/// Takes words that are 0 and were never used before. They are never given back.
size_t rt_heap_words(tg_comm *c, int64_t words);

/// Returns the offset for the next call of tg_comm_calls.workspace in a launch. Memory that has
/// become too small is given back when the launches that use it have ended.
size_t rt_comm_workspace(tg_comm *c, int64_t bytes);
/// Returns the offset of the kernel's words with that number.
size_t rt_comm_signals(tg_comm *c, int number, int64_t words);
/// Returns the offset of the flags for the next gather in a launch.
size_t rt_comm_flags(tg_comm *c, int64_t words);
/// Returns the direct view of an offset, and sets the bytes from rank to rank. NULL for SIZE_MAX.
void *rt_comm_direct(const tg_comm *c, size_t at, int64_t *lead);

/* ---- comm_launch.c: launches ----------------------------------------------------------------- */

/// Gets the config of the variant that rank 0 runs, for the first launch of a kind. *told is false
/// if rank 0 is several launches ahead and has overwritten its line. Then every rank chooses, with
/// the same result.
tg_status rt_comm_first_choice(tg_comm *c, const tg_kernel_info *info, char config[RT_COMM_CONFIG],
                               bool *told);
/// Fails if the memory of other ranks is not mapped. Programs that access it directly need the
/// mapping.
tg_status rt_comm_may_reach(const tg_comm *c);
/// Whether the rank has come to this launch.
bool rt_comm_has_come(tg_comm *c, int rank);
/// Compares the line of a rank that has come with the own one; fails if they differ.
tg_status rt_comm_compare(tg_comm *c, int rank);
/// A hash of all that ranks compare.
uint64_t rt_comm_what(const tg_comm *c);
/// Waits until the rank has come, and compares.
tg_status rt_comm_await(tg_comm *c, int rank);
/// Like rt_comm_patience; also false if another rank's part of this launch has failed or its line
/// differs.
bool rt_comm_go_on(tg_comm *c, rt_patience *p);
/// Fails with the reason for which rt_comm_go_on returned false; `what` names the awaited event.
tg_status rt_comm_stopped(tg_comm *c, const char *what);
void rt_comm_forget(tg_comm *c);

/* ---- comm_shards.c: arguments for symmetric parameters --------------------------------------- */

/// A hash of type, shape and strides.
uint64_t rt_shards_hash(const rt_shard_arg *s);
/// Notes the value of a steering parameter of this launch. Must precede rt_comm_announce. bits: as
/// compiled code gets it.
void rt_comm_steer(tg_comm *c, const tg_param_info *param, int64_t bits);
/// Notes a symmetric argument of this launch. Must precede rt_comm_announce.
void rt_shards_add(tg_comm *c, rt_shard_arg s);
/// Describes the symmetric arguments for the other ranks.
void rt_shards_describe(const tg_comm *c, rt_told told[static RT_COMM_SHARDS]);
/// Fails because the rank's line has another hash of them: "rank 0 passes f32[4] as 'a' and ...".
tg_status rt_shards_differ(const tg_comm *c, int rank);

/* ---- comm_cpu.c ----------------------------------------------------------------------------- */

/// The calls of compiled code on the CPU.
extern const tg_comm_calls rt_host_calls;

#endif
