// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Several ranks (docs/inside/communication.md): what the files of the runtime share.
//
// An engine knows how ranks meet, maps host memory of all of them, and moves bytes where it could
// not map it. All else is done here, by words and small messages in that memory: every rank writes
// into places of its own in the others' memory, and waits for words in its own memory alone, so
// that an engine with nothing but puts serves as well as one that maps everything.
#ifndef RUNTIME_COMM_COMM_H
#define RUNTIME_COMM_COMM_H

#include "runtime/compiler.h"
#include "runtime/host.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

enum { RT_COMM_RANKS = 64, RT_COMM_NAME = 64, RT_COMM_CONFIG = 160, RT_COMM_TEXT = 512 };
enum { RT_COMM_SHARDS = 8 };

/// Memory of all ranks: that of rank r begins at flat + r * stride. Where the others' is not mapped
/// those are names alone, which `put` and the like of rt_engine understand.
typedef struct rt_heap {
    char *flat;
    char *own; // this rank's; flat + rank * stride where mapped
    size_t stride, bytes;
    bool mapped;
} rt_heap;

static inline size_t rt_round_up(size_t n, size_t grain) {
    return (n + grain - 1) / grain * grain;
}

/* ---- engines: how ranks meet ----------------------------------------------------------------- */

/// comm_threads.c, comm_processes.c, comm_sockets.c, comm_shmem.c. Functions fail through tg_fail.
typedef struct rt_engine {
    const char *name;
    /// Collective: meets the others, fills in rank, size, local (ranks of this host) and `host`, of
    /// `bytes` a rank, zero at first. On failure nothing is left.
    tg_status (*create)(tg_comm *c, const tg_comm_options *options, size_t bytes);
    /// After a last meeting; what others have mapped stays theirs.
    void (*destroy)(tg_comm *c);
    /// Collective: `all` gets a descriptor of what each rank's `fd` is, to be closed; in one
    /// process numbers that are its own. NULL: descriptors cannot be passed.
    tg_status (*pass)(tg_comm *c, int fd, int *all);
    /// A rank whose process has died, or -1. NULL: nobody can tell.
    int (*dead)(tg_comm *c);
    /* Of host memory that is not mapped; NULL where it always is: */
    tg_status (*put)(tg_comm *c, int rank, size_t at, const void *from, size_t bytes);
    tg_status (*get)(tg_comm *c, int rank, size_t at, void *to, size_t bytes);
    /// The same, but done only when `quiet` is: until then both sides stay as they are.
    tg_status (*put_later)(tg_comm *c, int rank, size_t at, const void *from, size_t bytes);
    tg_status (*get_later)(tg_comm *c, int rank, size_t at, void *to, size_t bytes);
    /// A word, behind all puts of this thread to that rank.
    tg_status (*set)(tg_comm *c, int rank, size_t at, int64_t value);
    tg_status (*add)(tg_comm *c, int rank, size_t at, int64_t value);
    /// All puts have arrived, and what was to be done later is done.
    tg_status (*quiet)(tg_comm *c);
    /// Called while this rank waits; NULL: not needed.
    void (*progress)(tg_comm *c);
} rt_engine;

/// rt_engine_sockets is of ranks that meet as processes and are on several hosts.
extern const rt_engine rt_engine_threads, rt_engine_processes, rt_engine_sockets, rt_engine_shmem;

/// What processes say who come to rank 0.
typedef struct rt_hello {
    int32_t magic, rank, ranks, control; // control: bytes of rt_control, a version of sorts
    uint64_t bytes;
} rt_hello;
rt_hello rt_comm_hello(const tg_comm_options *o, size_t bytes);
/// Whether they may take part, with those whose sockets are there; else text says why not.
bool rt_comm_judge(const rt_hello *h, const rt_hello *own, const int *sockets, char *text,
                   size_t size);

/// Whether that is a HOST:PORT, and no path.
bool rt_sockets_named(const char *meet);
/// An engine's create there: c->engine becomes what is right for where the ranks are.
tg_status rt_sockets_create(tg_comm *c, const tg_comm_options *options, size_t bytes);

/// Before a library of OpenSHMEM is loaded (comm_shmem_end.c).
bool rt_shmem_hide_data(void);

/* ---- memory of symmetric tensors ------------------------------------------------------------- */

/// The host's (comm_cpu.c) or that of a GPU (comm_cuda.c), which meets through an engine's.
typedef struct rt_memory {
    /// Collective: fills in `heap`, of at least `bytes` a rank, zero at first.
    tg_status (*create)(tg_comm *c, size_t bytes);
    void (*destroy)(tg_comm *c);
    /// Own memory becomes zero before it returns.
    tg_status (*clear)(tg_comm *c, void *own, size_t bytes);
    /// What this rank has launched has run.
    tg_status (*settle)(tg_comm *c);
    /// Bytes between the host's memory and heaps that are none; NULL: they are the host's.
    tg_status (*copy)(tg_comm *c, void *to, const void *from, size_t bytes, bool out);
    /// Bytes of another rank's heap that is not mapped; NULL: it is, or the engine has them.
    tg_status (*fetch)(tg_comm *c, int rank, const void *from, void *to, size_t bytes);
    /// c->part and c->trace are others from now on. What was noted in `before` is there when it
    /// returns; NULL: it is at once.
    tg_status (*profile)(tg_comm *c, tg_trace *before);
    /// tg_host_seconds; NULL: nobody but the caller's clock knows.
    double (*seconds)(tg_comm *c);
    /// All but rank and size.
    const tg_comm_calls *calls;
} rt_memory;

extern const rt_memory rt_memory_host, rt_memory_cuda, rt_memory_nvshmem;

/* ---- a rank's end ---------------------------------------------------------------------------- */

/// What a rank tells another of its launch: hashes, which are compared; number is written last.
typedef struct rt_announcement {
    _Alignas(64) _Atomic int64_t number; // of the launch, from 1
    uint64_t kernel, plan;               // what, how
    uint64_t source;                     // of the kernel, a hash; 0: not known
    uint64_t layout;                     // of all that was allocated before
    uint64_t scalars;                    // of those that steer
    int64_t scalar;                      // the first of them
    uint64_t shards;                     // of what is passed for all symmetric parameters
} rt_announcement;

/// What a rank passes for a symmetric parameter.
typedef struct rt_told {
    char name[32];
    uint64_t at; // of its first element in the heap; UINT64_MAX: it is null
    uint8_t code, bits;
    int16_t rank;
    int64_t shape[TG_MAX_RANK], strides[TG_MAX_RANK];
} rt_told;

/// What the hashes are of; told where it is another one than two launches before.
typedef struct rt_texts {
    char name[RT_COMM_NAME];
    char config[RT_COMM_CONFIG]; // tune values and axes
    rt_told shards[RT_COMM_SHARDS];
} rt_texts;

/// What a rank has written into another one's memory.
typedef struct rt_from {
    _Alignas(64) _Atomic int64_t message; // number of the last one
    _Atomic int64_t entered, failed;      // the last launches that began and that failed there
    _Atomic int64_t barrier, done;        // the last ones it has come to
    _Atomic int64_t lost;                 // 1 + a rank that it has seen to be dead
    _Atomic int64_t stopped;              // not 0: its device has given up
    _Atomic int64_t busy;                 // another number tells that it is at work
    char text[RT_COMM_TEXT];              // why that launch failed
    rt_announcement lines[2];             // of even and odd launches
    rt_texts texts[2];                    // of those
    _Alignas(64) unsigned char messages[2][1024];
} rt_from;

/// At the beginning of every rank's host memory.
typedef struct rt_control {
    _Alignas(64) int64_t words[TG_CONTROL_WORDS]; // of launches of the CPU
    rt_from from[RT_COMM_RANKS];
} rt_control;

/// A kind of launch that the ranks have agreed upon.
typedef struct rt_agreed {
    struct rt_agreed *next;
    const tg_kernel *kernel;
    uint64_t arguments; // a hash
    uint64_t state;     // of the kernel: another one may be where it was
    const tg_variant *variant;
} rt_agreed;

typedef struct rt_sym rt_sym;           // comm_heap.c
typedef struct rt_transfer rt_transfer; // comm_cpu.c

enum { RT_COMM_PIECES = 64 };

/// What this rank passes for a symmetric parameter of a launch, while it runs.
typedef struct rt_shard_arg {
    const char *name;
    const void *direct; // NULL: it is null
    uint64_t like;      // rt_shards_hash
    uint8_t code, bits;
    int rank; // of the shard
    const int64_t *shape, *strides;
} rt_shard_arg;

struct tg_comm {
    const rt_engine *engine;
    const rt_memory *memory;
    void *engine_state, *memory_state;
    int rank, size, local, device;
    int devices[RT_COMM_RANKS]; // of all ranks, where they have GPUs
    int64_t timeout_ns;
    int64_t busy;         // what it told last
    rt_heap host;         // of the engine; begins with rt_control
    rt_heap heap;         // where symmetric tensors are
    rt_control *control;  // this rank's
    tg_comm_calls calls;  // of memory, with rank and size
    pthread_mutex_t lock; // one collective call of this rank at a time
    rt_sym *sym;
    _Atomic int lost; // 1 + a rank that has died; 0: none
    int64_t messages; // number of the last one
    bool leaves;      // it is destroyed here without the others
    /* Of launches: */
    int64_t launches;            // number of the last one
    rt_announcement line;        // of it, once it is known what is launched
    const tg_param_info *scalar; // the first one that steers; or NULL
    int n_shards;                // symmetric parameters of it
    rt_shard_arg shards[RT_COMM_SHARDS];
    uint64_t told_texts[2]; // a hash of what the others have in texts of this rank
    rt_agreed *agreed;
    bool recovers;               // a launch has failed: the next one begins when all have come
    _Atomic bool told;           // it failed because another rank did
    _Atomic int64_t failed;      // the last one that failed here
    _Atomic uint64_t compared;   // ranks whose line is known to be as the own one
    int n_workspaces, n_gathers; // of this launch
    struct {
        size_t at;
        int64_t bytes;
    } workspaces[RT_COMM_PIECES];
    bool keeps; // graphs have addresses of what is outgrown: it is not given back
    rt_transfer *transfers;
    int64_t epoch;   // of this launch, and of its barriers so far
    tg_trace *trace; // NULL: nothing is noted
    enum tg_part part;
};

/* ---- comm_meet.c: meeting -------------------------------------------------------------------- */

/// Collective: all[r] is what rank r gave, of `bytes` each. Fails when the time is over or a rank
/// has died; `what` ("tg_sym_alloc") stands in the message.
tg_status rt_comm_allgather(tg_comm *c, const char *what, const void *mine, size_t bytes,
                            void *all);
/// What the own host is, as far as memory of it can be shared: a hash.
uint64_t rt_comm_host(void);
/// Collective: returns when all have come.
tg_status rt_comm_meet(tg_comm *c, const char *what);
/// Collective, also where a rank fails: TG_OK if all came with TG_OK; others learn of a failure
/// here and not by a time limit.
tg_status rt_comm_agree_that(tg_comm *c, const char *what, tg_status status);
/// How long somebody has waited; zero at first.
typedef struct rt_patience {
    int64_t since; // of now_ns
    int turns;
} rt_patience;
/// Whoever waits for other ranks calls it again and again: engines move on, other threads get the
/// core, and now and then it looks who has died. False: the time is over, or a rank has died.
bool rt_comm_patience(tg_comm *c, rt_patience *p);
/// A condition whose waits end by rt_now_ns, a clock that nobody sets.
void rt_comm_condition(pthread_cond_t *condition);
/// pthread_cond_wait, but no longer than to `end` of rt_now_ns: then false.
bool rt_comm_wait_until(pthread_cond_t *condition, pthread_mutex_t *lock, int64_t end);
/// Looks whether a rank has died; `lost` says which.
bool rt_comm_is_lost(tg_comm *c);
/// What made patience end, as a failure: "tg_sym_alloc: rank 1 waited 30 s for rank 0".
tg_status rt_comm_gave_up(const tg_comm *c, const char *what, int peer);
/// Writes into places of the own control block's image at another rank; `place` is in the own one.
void rt_comm_tell(tg_comm *c, int rank, void *place, const void *from, size_t bytes);
/// A word there, behind what was told before.
void rt_comm_set(tg_comm *c, int rank, _Atomic int64_t *place, int64_t value);

/* ---- comm.c, comm_heap.c --------------------------------------------------------------------- */

/// tg_comm_create by an engine; nothing of the options is left open.
tg_status rt_comm_open(const rt_engine *engine, const rt_memory *memory,
                       const tg_comm_options *options, tg_comm **out);
/// Whether the options say which rank of how many meets where.
tg_status rt_comm_place(const tg_comm_options *options);
/// A rank that did not come to where others meet, as a failure.
tg_status rt_comm_nobody_came(const tg_comm_options *options, int missing);
/// Where symmetric tensors are, in DLPack's words.
DLDevice rt_comm_device(const tg_comm *c);

tg_status rt_sym_create(tg_comm *c);
void rt_sym_destroy(tg_comm *c);
/// A hash of all that was allocated and freed.
uint64_t rt_sym_layout(const tg_comm *c);

/// A place in a symmetric tensor.
typedef struct rt_shard {
    void *own;      // in this rank's shard
    void *direct;   // in rank 0's
    int64_t lead;   // bytes from rank to rank
    void *gathered; // in the own heap, where rank 0's shard has room; NULL: none has (TG_SYM_LEAN)
    int64_t slot;   // bytes from rank to rank there
    int64_t before, left; // bytes of the shard before and from there on
} rt_shard;
/// The tensor whose own shard has the address; false: there is none.
bool rt_sym_find(const tg_comm *c, const void *own, rt_shard *out);
/// The same by an address in rank 0's shard.
bool rt_sym_find_direct(const tg_comm *c, const void *direct, rt_shard *out);

/// Offset of memory on every rank, the same where all ranks do the same in the same order.
/// SIZE_MAX, with tg_last_error(): none is left.
size_t rt_heap_take(tg_comm *c, size_t bytes);
void rt_heap_give_back(tg_comm *c, size_t at);
/// Offset of words that are 0 and that nobody has had before; they are never given back.
size_t rt_heap_words(tg_comm *c, int64_t words);

/// Offset of what the next call of tg_comm_calls.workspace in a launch returns. Memory that is too
/// small is given back when what uses it has run.
size_t rt_comm_workspace(tg_comm *c, int64_t bytes);
/// Offset of the kernel's words of that number.
size_t rt_comm_signals(tg_comm *c, int number, int64_t words);
/// Of the flags of the next gather in a launch.
size_t rt_comm_flags(tg_comm *c, int64_t words);
/// The direct view of a place, and how far ranks are apart; NULL for SIZE_MAX.
void *rt_comm_direct(const tg_comm *c, size_t at, int64_t *lead);

/* ---- comm_launch.c: launches ----------------------------------------------------------------- */

/// Which variant rank 0 runs, of the first launch of a kind: its config. *told: rank 0 has said so;
/// else all ranks choose alike.
tg_status rt_comm_first_choice(tg_comm *c, const tg_kernel_info *info, char config[RT_COMM_CONFIG],
                               bool *told);
/// Programs reach into other ranks' memory: whether it is mapped.
tg_status rt_comm_may_reach(const tg_comm *c);
/// Whether rank r has come to this launch.
bool rt_comm_has_come(tg_comm *c, int rank);
/// What a rank that has come says: an error where it is not what this one does.
tg_status rt_comm_compare(tg_comm *c, int rank);
/// A hash of all that is compared.
uint64_t rt_comm_what(const tg_comm *c);
/// Waits for it, and compares.
tg_status rt_comm_await(tg_comm *c, int rank);
/// Like rt_comm_patience; false where another rank's part of this launch has failed, too.
bool rt_comm_go_on(tg_comm *c, rt_patience *p);
/// Why that ended, as a failure; `what` is what this rank waited for.
tg_status rt_comm_stopped(tg_comm *c, const char *what);
void rt_comm_forget(tg_comm *c);

/* ---- comm_shards.c: what ranks pass for symmetric parameters --------------------------------- */

/// A hash of type, shape and strides.
uint64_t rt_shards_hash(const rt_shard_arg *s);
/// What this launch passes for a parameter that steers, before rt_comm_announce.
/// bits: as the code gets it.
void rt_comm_steer(tg_comm *c, const tg_param_info *param, int64_t bits);
/// What this launch passes: before rt_comm_announce, a symmetric parameter each.
void rt_shards_add(tg_comm *c, rt_shard_arg s);
/// What the others are told of them.
void rt_shards_describe(const tg_comm *c, rt_told told[static RT_COMM_SHARDS]);
/// Why the line of that rank has another hash of them: "rank 0 passes f32[4] as 'a' and ...".
tg_status rt_shards_differ(const tg_comm *c, int rank);

/* ---- comm_cpu.c ----------------------------------------------------------------------------- */

/// What compiled code of the CPU calls.
extern const tg_comm_calls rt_host_calls;

#endif
