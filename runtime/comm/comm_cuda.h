// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Ranks with an NVIDIA GPU each (docs/inside/communication.md): the parts that the files
// comm_cuda*.c and comm_nvshmem.c share.
//
// Every rank maps the memory of all ranks side by side. The calls of a launch become steps, which a
// small kernel of the runtime executes, and copies by the copy engines on side streams. All state
// of a launch is in device memory: epochs and counters are words there. A graph can therefore
// record a launch.
#ifndef RUNTIME_COMM_COMM_CUDA_H
#define RUNTIME_COMM_COMM_CUDA_H

#include "runtime/comm/comm.h"
#include "runtime/gpu/gpu_launch.h"

/* ---- comm_cuda_step.c: the kernel ------------------------------------------------------------ */

/// Words of 8 bytes after the heap of each rank. Compiled code sees only the control block.
typedef struct rt_cuda_words {
    int64_t control[TG_CONTROL_WORDS];
    int64_t count; // of meetings so far
    int64_t held;  // launches that may begin (comm_cuda_profile.c)
    int64_t room[6];
    // Rank r writes its arrival into place r, of even or odd counts. Two places are enough, since
    // no rank is two meetings ahead of a rank that waits for it.
    //
    // If memory is not mapped, the two words of a rank are adjacent: came[0][2 * r] and came[0][2 *
    // r + 1].
    _Alignas(16) uint64_t came[2][RT_COMM_RANKS];
} rt_cuda_words;

/// The place of a rank's word for a meeting. pairs: memory is not mapped.
static inline uint64_t *rt_came(rt_cuda_words *w, bool pairs, int64_t count, uint32_t rank) {
    return pairs ? &w->came[0][2 * rank + (count & 1)] : &w->came[count & 1][rank];
}

/// Low bits of such a word hold the count. The high bits hold the hash of the launch, so that one
/// word carries both.
enum { RT_COUNT_BITS = 16 };

enum rt_step_flags {
    RT_STEP_EPOCH = 1,  // a launch begins
    RT_STEP_SIGNAL = 2, // tells the other ranks that this rank has arrived
    RT_STEP_WAIT = 4,   // waits until all have come
    RT_STEP_TURN = 8,   // a barrier: increments the epoch
};
enum { RT_FILLS = 4 };

/// The parameter of the kernel. The order of actions: epoch, fills, signal, wait, turn. In the end
/// the kernel reports a failure to the other ranks and to the host.
typedef struct rt_step {
    cu_pointer own, others; // the words of this rank and of rank 0
    uint64_t stride;        // 0: the memory of other ranks is not mapped
    cu_pointer record;      // host copy of a failed launch's control block
    uint32_t rank, ranks, flags, launch;
    uint64_t what; // hash of the launch above RT_COUNT_BITS; ranks that meet compare it
    struct {
        cu_pointer at;
        uint32_t words, epoch; // epoch 1: fill with the epoch; 0: with zero
    } fills[RT_FILLS];
} rt_step;

/// TG_CONTROL_SITE of a meeting that failed: the wait timed out, or another rank's `what` differed.
enum { RT_STEP_LATE = -1, RT_STEP_UNLIKE = -2 };

/// The word that a rank writes when it comes to the meeting with that count.
static inline uint64_t rt_step_word(uint64_t what, int64_t count) {
    return what | ((uint64_t)count & (((uint64_t)1 << RT_COUNT_BITS) - 1));
}

/// Returns by how many meetings the writer of `word` is ahead of `own` (negative: behind).
static inline int rt_step_ahead(uint64_t word, uint64_t own) {
    return (int16_t)(uint16_t)(word - own);
}

/// Writes the PTX of the step's kernel for a device. From capability 90 on it may be launched
/// after a kernel that is still running (CU_ATTRIBUTE_EARLY), if that kernel began after all
/// earlier work had ended. pairs: the memory of ranks is not mapped.
enum { RT_STEP_TEXT = 8192, RT_STEP_EARLY = 90 };
void rt_step_text(int capability, bool pairs, char out[static RT_STEP_TEXT]);
tg_status rt_step_load(const rt_device *d, bool pairs, cu_module *module, cu_function *function);

/* ---- comm_cuda.c: memory and failures -------------------------------------------------------- */

enum { RT_CUDA_KERNELS = 256 };

typedef struct rt_timeline rt_timeline;
/// The work that directly precedes a kernel on the stream, which decides if the kernel may begin
/// early.
enum rt_given { RT_GIVEN_OTHER, RT_GIVEN_STEP, RT_GIVEN_PROGRAMS };
struct rt_cuda_comm {
    tg_comm *comm;
    rt_device *device;
    cu_pointer reserved;        // the pieces of all ranks side by side
    size_t stride;              // bytes of a piece
    size_t offset;              // of the heap in a piece
    cu_pointer flat;            // the heap of rank 0
    void *library_heap;         // NVSHMEM's heap; NULL: the runtime allocates the piece
    void *bounce;               // memory of NVSHMEM; NULL: not needed
    bool far;                   // other ranks' memory is not mapped; NVSHMEM copies
    bool mapped[RT_COMM_RANKS]; // by rank: its piece is mapped
    // Copies to and from the rank may be kernels, because it has the same device or is far.
    bool beside[RT_COMM_RANKS];
    cu_handle handles[RT_COMM_RANKS];
    rt_cuda_words *words; // rank 0's words in the flat mapping
    int64_t *record;      // enum tg_control; host memory, written by the device
    cu_module module;
    cu_function step;
    cu_stream own; // for work outside launches
    cu_stream
        sides[RT_COMM_RANKS]; // side streams, one a peer; that of the next rank does most copies
    cu_event forked, ended, joined[RT_COMM_RANKS];
    // Of the launch:
    cu_stream stream;
    uint64_t what;
    rt_step pending; // steps that are not on the stream yet
    int fills;
    bool has_pending, waited, captured;
    enum rt_given given;      // the last work on the stream
    bool busy[RT_COMM_RANKS]; // the side stream has work of this launch
    struct {
        cu_pointer at;
        uint32_t words;
    } done[RT_FILLS]; // words for which side streams wait
    int n_done;
    // Of all launches:
    bool early;            // steps and programs overlap the end of preceding work
    _Atomic int64_t begun; // number of the last launch in which the device waits
    cu_stream last;        // the stream of the last launch, on which `ended` is recorded
    bool any;              // a launch was made outside a capture
    const tg_image *kernels[RT_CUDA_KERNELS]; // by TG_CONTROL_LAUNCH
    int n_kernels;
    // The thread that looks for dead ranks:
    pthread_t watch;
    pthread_mutex_t watching;
    pthread_cond_t over;
    bool watched, ends;
    rt_timeline *profile; // NULL: nothing is timed
    rt_cuda_comm *next;   // of the process
};

/// Fails if an earlier launch has failed, here or at another rank.
tg_status rt_cuda_comm_check(rt_cuda_comm *g);

/* ---- comm_cuda_profile.c: times within launches ---------------------------------------------- */

/// rt_memory.profile and rt_memory.seconds.
tg_status rt_cuda_profile(tg_comm *c, tg_trace *before);
double rt_cuda_seconds(tg_comm *c);
/// Must be called in the device's context.
void rt_cuda_profile_free(rt_cuda_comm *g);
/// Makes the stream of the launch wait until rt_cuda_release is called.
tg_status rt_cuda_hold(rt_cuda_comm *g);
tg_status rt_cuda_release(rt_cuda_comm *g);
/// Records the beginning (or with `ends` the end) of the launch's time.
tg_status rt_cuda_stamp(rt_cuda_comm *g, bool ends);
/// If a trace is taken, records the time of the work that a stream gets between the two calls.
/// Pairs do not nest.
void rt_cuda_note_begin(rt_cuda_comm *g, cu_stream stream);
void rt_cuda_note_end(rt_cuda_comm *g, cu_stream stream, enum tg_event_kind kind, int64_t peer,
                      int64_t number);

/* ---- comm_nvshmem.c: the heap is NVSHMEM's --------------------------------------------------- */

/// Collective, in the device's context: starts the library, allocates the heap, and finds out
/// whether the ranks are far.
tg_status rt_nvshmem_start(rt_cuda_comm *g, size_t bytes);
void rt_nvshmem_end(rt_cuda_comm *g);
/* For far ranks, in the order of the stream. Addresses of the rank's memory are names. */
/// `from` must not change until the stream is past the put. Puts arrive in no order before
/// rt_nvshmem_quiet.
tg_status rt_nvshmem_put(rt_cuda_comm *g, int rank, cu_pointer to, cu_pointer from, size_t bytes,
                         cu_stream stream);
tg_status rt_nvshmem_get(rt_cuda_comm *g, int rank, cu_pointer to, cu_pointer from, size_t bytes,
                         cu_stream stream);
/// Makes all puts visible that precede this point, on this stream or on streams that it follows.
void rt_nvshmem_quiet(rt_cuda_comm *g, cu_stream stream);
/// Copies bytes of another rank's memory to the host.
tg_status rt_nvshmem_fetch(rt_cuda_comm *g, int rank, cu_pointer from, void *to, size_t bytes);

/* ---- comm_cuda_calls.c: calls of compiled code ----------------------------------------------- */

extern const tg_comm_calls rt_cuda_comm_calls;

#endif
