// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Ranks with an NVIDIA GPU each, on one host (docs/inside/communication.md): what the files
// comm_cuda*.c share.
//
// Every rank maps the memory of all of them side by side. What a launch asks for becomes steps, by
// a small kernel of the runtime's own, and copies by the copy engines on a side stream. Nothing of
// it is known to the host alone, so a graph can record it: epochs and counters are words in device
// memory.
#ifndef RUNTIME_COMM_COMM_CUDA_H
#define RUNTIME_COMM_COMM_CUDA_H

#include "runtime/comm/comm.h"
#include "runtime/gpu/gpu_launch.h"

/* ---- comm_cuda_step.c: the kernel ------------------------------------------------------------ */

/// Words of 8 bytes behind the heap of each rank. The control block is what compiled code sees.
typedef struct rt_cuda_words {
    int64_t control[TG_CONTROL_WORDS];
    int64_t count; // of meetings so far
    int64_t held;  // launches that may begin (comm_cuda_profile.c)
    int64_t room[6];
    // Rank r writes in place r that it has come, of even and odd counts: no rank is two meetings
    // ahead of one that waits for it.
    // Where memory is not mapped both words of a rank are side by side: came[0][2 * r], [2 * r +
    // 1].
    _Alignas(16) uint64_t came[2][RT_COMM_RANKS];
} rt_cuda_words;

/// The place of a rank's word of a meeting.
static inline uint64_t *rt_came(rt_cuda_words *w, bool pairs, int64_t count, uint32_t rank) {
    return pairs ? &w->came[0][2 * rank + (count & 1)] : &w->came[count & 1][rank];
}

/// Low bits of such a word: the count. Above them lies what is launched, so that one word says
/// both.
enum { RT_COUNT_BITS = 16 };

enum rt_step_flags {
    RT_STEP_EPOCH = 1,  // a launch begins
    RT_STEP_SIGNAL = 2, // this rank has come: the others are told
    RT_STEP_WAIT = 4,   // until all have come
    RT_STEP_TURN = 8,   // a barrier: from now on the epoch is one more
};
enum { RT_FILLS = 4 };

/// The parameter of the kernel: what to do, in this order: the epoch, fills, signal, wait, turn. At
/// last a failure is told to the others and to the host.
typedef struct rt_step {
    cu_pointer own, others; // the words of this rank and of rank 0
    uint64_t stride;        // 0: the others' memory is not mapped
    cu_pointer record;      // the host's copy of the control block of a failed launch
    uint32_t rank, ranks, flags, launch;
    uint64_t what; // is launched: a hash above RT_COUNT_BITS, which ranks that meet compare
    struct {
        cu_pointer at;
        uint32_t words, epoch; // epoch 1: they become the epoch; 0: zero
    } fills[RT_FILLS];
} rt_step;

/// TG_CONTROL_SITE of a meeting: where it waited too long, or where another rank's `what` differed.
enum { RT_STEP_LATE = -1, RT_STEP_UNLIKE = -2 };

/// What a rank writes that has come to the meeting of that count.
static inline uint64_t rt_step_word(uint64_t what, int64_t count) {
    return what | ((uint64_t)count & (((uint64_t)1 << RT_COUNT_BITS) - 1));
}

/// How far the count of a rank that wrote `word` is before (negative: behind) the one of `own`.
static inline int rt_step_ahead(uint64_t word, uint64_t own) {
    return (int16_t)(uint16_t)(word - own);
}

/// Its PTX for a device. From 90 on it may be launched behind a kernel that has not ended
/// (CU_ATTRIBUTE_EARLY), where that one began when all before it had. pairs: of ranks whose memory
/// is not mapped.
enum { RT_STEP_TEXT = 8192, RT_STEP_EARLY = 90 };
void rt_step_text(int capability, bool pairs, char out[static RT_STEP_TEXT]);
tg_status rt_step_load(const rt_device *d, bool pairs, cu_module *module, cu_function *function);

/* ---- comm_cuda.c: memory, and what went wrong ------------------------------------------------ */

enum { RT_CUDA_KERNELS = 256 };

typedef struct rt_timeline rt_timeline;
/// What a kernel that begins early stands behind: a step or programs, directly.
enum rt_given { RT_GIVEN_OTHER, RT_GIVEN_STEP, RT_GIVEN_PROGRAMS };
struct rt_cuda_comm {
    tg_comm *comm;
    rt_device *device;
    cu_pointer reserved;        // all ranks' pieces side by side
    size_t stride;              // bytes of a piece
    size_t offset;              // of the heap in a piece
    cu_pointer flat;            // the heap of rank 0
    void *library_heap;         // NVSHMEM's; NULL: the piece is the runtime's
    void *bounce;               // NVSHMEM's, too; NULL: not needed
    bool far;                   // others' memory is not mapped: NVSHMEM copies
    bool mapped[RT_COMM_RANKS]; // the rank's piece is
    // Copies to and from the rank may be kernels: its device is this one's, too, or it is far.
    bool beside[RT_COMM_RANKS];
    cu_handle handles[RT_COMM_RANKS];
    rt_cuda_words *words; // offset in the flat mapping: rank 0's
    int64_t *record;      // enum tg_control; host memory that the device writes
    cu_module module;
    cu_function step;
    cu_stream own;                  // for what is no launch
    cu_stream sides[RT_COMM_RANKS]; // one a peer; the next one's has most copies
    cu_event forked, ended, joined[RT_COMM_RANKS];
    // Of the launch:
    cu_stream stream;
    uint64_t what;
    rt_step pending; // steps that the stream has not got yet
    int fills;
    bool has_pending, waited, captured;
    enum rt_given given;      // the last to the stream
    bool busy[RT_COMM_RANKS]; // the side has work of this launch
    struct {
        cu_pointer at;
        uint32_t words;
    } done[RT_FILLS]; // words that sides wait for
    int n_done;
    // Of all launches:
    bool early;            // steps and programs begin while what is before them ends
    _Atomic int64_t begun; // number of the last launch that the device waits in
    cu_stream last;        // the stream of the last one, where `ended` is recorded
    bool any;              // there was one, not captured
    const tg_image *kernels[RT_CUDA_KERNELS]; // by TG_CONTROL_LAUNCH
    int n_kernels;
    // The thread that looks who has died:
    pthread_t watch;
    pthread_mutex_t watching;
    pthread_cond_t over;
    bool watched, ends;
    rt_timeline *profile; // NULL: nothing is timed
    rt_cuda_comm *next;   // of the process
};

/// Fails where a launch before has failed, here or elsewhere.
tg_status rt_cuda_comm_check(rt_cuda_comm *g);

/* ---- comm_cuda_profile.c: what launches do when ---------------------------------------------- */

/// rt_memory's.
tg_status rt_cuda_profile(tg_comm *c, tg_trace *before);
double rt_cuda_seconds(tg_comm *c);
/// In the device's context.
void rt_cuda_profile_free(rt_cuda_comm *g);
/// The stream of the launch goes on when rt_cuda_release was called.
tg_status rt_cuda_hold(rt_cuda_comm *g);
tg_status rt_cuda_release(rt_cuda_comm *g);
/// The time of the launch runs from here, or to here.
tg_status rt_cuda_stamp(rt_cuda_comm *g, bool ends);
/// What a stream is given between the two is noted, where a trace is taken. One at a time.
void rt_cuda_note_begin(rt_cuda_comm *g, cu_stream stream);
void rt_cuda_note_end(rt_cuda_comm *g, cu_stream stream, enum tg_event_kind kind, int64_t peer,
                      int64_t number);

/* ---- comm_nvshmem.c: the heap is NVSHMEM's --------------------------------------------------- */

/// Collective, after the device was entered: starts the library, takes the heap from it and finds
/// out whether the ranks are far.
tg_status rt_nvshmem_start(rt_cuda_comm *g, size_t bytes);
void rt_nvshmem_end(rt_cuda_comm *g);
/* Where they are far, in the order of the stream. Addresses of the rank's memory are names. */
/// What is here stays as it is until the stream is behind it. What is there is written, but in no
/// order with other puts before rt_nvshmem_quiet.
tg_status rt_nvshmem_put(rt_cuda_comm *g, int rank, cu_pointer to, cu_pointer from, size_t bytes,
                         cu_stream stream);
tg_status rt_nvshmem_get(rt_cuda_comm *g, int rank, cu_pointer to, cu_pointer from, size_t bytes,
                         cu_stream stream);
/// What was put before on streams that this one is behind is there.
void rt_nvshmem_quiet(rt_cuda_comm *g, cu_stream stream);
/// Bytes of another rank's memory become the host's.
tg_status rt_nvshmem_fetch(rt_cuda_comm *g, int rank, cu_pointer from, void *to, size_t bytes);

/* ---- comm_cuda_calls.c: what compiled code calls --------------------------------------------- */

extern const tg_comm_calls rt_cuda_comm_calls;

#endif
