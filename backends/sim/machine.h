// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Internals of the simulator. A Sim runs one cluster at a time on one system thread:
//
//     Sim -- Cta -- Group (four warps) -- Warp -- SimLane -- Fiber (while the lane is running)
//
// Compiled code calls handlers (functions.def) with a frame: operands in, results out. A function
// of several lanes gathers them, runs once, and resumes them.
#ifndef BACKENDS_SIM_MACHINE_H
#define BACKENDS_SIM_MACHINE_H

#include <setjmp.h>
#include <string.h>

#include "backends/sim/sim.h"
#include "ir/layout/layout.h"
#include "lang/fork_lock.h"
#include "passes/gpu/gpu.h"

typedef struct Sim Sim;
typedef struct Cta Cta;
typedef struct Group Group;
typedef struct Warp Warp;
typedef struct SimLane SimLane;
typedef struct SimSite SimSite;
typedef struct Fiber Fiber;
typedef struct Shadow Shadow;

enum {
    LANES = 32, // lanes of a warp of NVIDIA's GPUs, the fewest of any target
    MOST_LANES = 64,
    MAX_THREADS = 1024, // threads of a CTA
    MAX_CLUSTER = 16,
    MAX_WARPS = MAX_CLUSTER * MAX_THREADS / LANES,
    GROUP_WARPS = 4,
    NAMED_BARRIERS = 16,
    SHARED_MAX = 256 << 10, // more than any target has
    RANK_SHIFT = 24,        // the position, in a shared address, of the CTA's rank in the cluster
};

/* ---- sites --------------------------------------------------------------------------------- */

typedef void LaneHandler(SimLane *lane, const SimSite *site, char *frame);
typedef void WarpHandler(Warp *warp, const SimSite *site);
typedef void GroupHandler(Group *group, const SimSite *site);
/// Fills in the facts that the handler needs from the function's name.
typedef struct Prepare Prepare;
typedef void PrepareSite(Prepare *p, const Fn *fn, SimSite *site);
/// Emits code in place of a call, instead of a handler.
typedef struct Emit Emit;
typedef void EmitCall(Emit *e, LLVMValueRef call, const Fn *fn, SimSite *site);

typedef enum SyncKind { SYNC_NONE, SYNC_BARRIER, SYNC_FENCE, SYNC_WAIT, SYNC_SIGNAL } SyncKind;

/// A row of functions.def. Exactly one of emit, lane, warp, group is set.
typedef struct SimOp {
    const char *name; // the name in the column of portable.def
    EmitCall *emit;
    LaneHandler *lane;
    WarpHandler *warp;
    GroupHandler *group;
    PrepareSite *prepare; // may be NULL
    unsigned uniform;     // a bit for each group of operands that must be equal in all lanes
    SyncKind sync;        // the kind that a mutation test may remove
} SimOp;
extern const SimOp sim_ops[];
const SimOp *sim_op_find(const char *name);

/// The positions of a fragment's elements in its matrix. For element e of lane (or thread) t, at[t
/// * elements + e] is row * columns + column.
typedef struct Fragment {
    struct Fragment *next;
    const char *name;
    int role, elements, threads, owners, rows, columns; // threads beyond `owners` hold copies
    uint16_t *at;
} Fragment;

/// A place in the code that calls a target function or, under check, accesses memory.
struct SimSite {
    int number, sync; // sync: 1 + the number among the barriers, fences and waits, or 0
    const SimOp *op;  // NULL for an access
    const char *name; // "tg.barrier", "a load of 4 bytes"
    const char *function, *file;
    int line, column;
    int at[FN_GROUPS], count[FN_GROUPS]; // for each group of operands: offset in the frame, count
    int result_at, result_count;
    int number_of[26];       // immediates in the name, by the key of their capture
    Elem elem[3];            // element types of A, B and the accumulator
    const Fragment *part[3]; // fragments of A, B and the accumulator
    int bytes;               // size of an access or of one copy
    bool is_store, is_atomic;
    void *user; // data for this row's handler
};

#define OPERAND(T, frame, site, k) (*(T *)(void *)((frame) + (site)->at[k]))
#define RESULT(T, frame, site)     (*(T *)(void *)((frame) + (site)->result_at))

static inline int site_number(const SimSite *site, char key) {
    return site->number_of[key - 'a'];
}

/* ---- images -------------------------------------------------------------------------------- */

/// The compiled entry: the lane, then pointers to the parameters' values.
typedef void SimEntry(SimLane *lane, void *const *args);

typedef struct SimFunction {
    char *name;
    SimEntry *entry;
    int n_params, n_described;
    SimParam *described; // the parameters that are memory
    int threads[3], cluster,
        shared_bytes;    // from the attributes; shared_bytes is 0 without shared memory
    int64_t frame_bytes; // upper bound of a lane's stack
} SimFunction;

/// Workspace of a launch, which its functions share.
typedef struct Fresh {
    struct Fresh *next;
    const tg_env *env; // the environment of the launch
    const char *base;
    int64_t bytes;
    bool written[]; // a flag for each byte
} Fresh;

struct SimImage {
    const GpuTarget *target;
    bool check;
    SimFunction *functions;
    int n_functions;
    SimSite **sites;
    int n_sites, cap_sites, n_sync;
    Fragment *fragments;
    char **texts; // file and function names
    int n_texts, cap_texts;
    void *jit;
    Lock lock;    // guards `idle` and `fresh`
    Sim *idle;    // machines of earlier runs
    Fresh *fresh; // exists under `check`
};

/// Allocates memory of the image. A compilation without memory leaves with NO_MEMORY.
void *image_alloc(Ctx *ctx, size_t size);
const char *image_text(Ctx *ctx, SimImage *image, const char *text, size_t n);
SimSite *image_site(Ctx *ctx, SimImage *image);

struct Prepare {
    Ctx *ctx;
    SimImage *image;
};
const Fragment *fragment_of(Prepare *p, const char *name, FragmentRole role);

/* ---- emission (emit.c) --------------------------------------------------------------------- */

struct Emit {
    Gen *g;
    SimImage *image;
    LLVMValueRef lane; // the hidden parameter
    LLVMValueRef args, frame;
};
/// Emits code that marks bytes as written by the generic proxy; `p` is in shared memory.
void emit_mark(Emit *e, LLVMValueRef p, int bytes);
/// Emits code that records the direction of a branch in SimLane.path.
void emit_path(Emit *e, LLVMValueRef condition, int site);
/// Emits a call of a function of this process.
LLVMValueRef emit_host_call(Emit *e, void *function, LLVMTypeRef type, LLVMValueRef *args);
LLVMValueRef emit_address(Emit *e, const void *p);
EmitCall emit_thread_id, emit_thread_count, emit_cta_id, emit_cta_count, emit_lane_id, emit_warp_id,
    emit_cluster_rank, emit_cluster_count, emit_shared_base, emit_shared_addr, emit_global_addr,
    emit_load_global, emit_store_global, emit_load_buffer, emit_store_buffer, emit_nothing;

/// Replaces instructions that quick instruction selection does not support (fast_selection.c).
void sim_fast_selection_forms(Gen *g);
/// Cuts basic blocks that would slow LLVM down (split_blocks.c).
void sim_split_blocks(Gen *g);

/* ---- fibers (fiber.c) ---------------------------------------------------------------------- */

/// A stack for lanes. It runs one lane after another, or holds one that is blocked.
struct Fiber {
    void *context; // its stack pointer while it is stopped
    Sim *sim;
    SimLane *lane; // the lane that runs or will run; NULL for the caller of sim_run
    char *memory;  // guard page, stack
    size_t bytes;
    Fiber *next;     // list of idle fibers
    void *sanitizer; // the sanitizer's record of it
    const void *bottom;
};

/// Creates a fiber; NULL: out of memory. The first switch calls `main`, which never returns.
Fiber *fiber_create(Sim *sim, size_t bytes);
void fiber_destroy(Fiber *fiber);
/// The number of live fibers of all machines.
int fibers_alive(void);
/// Resets the fiber: the next switch to it calls fiber_main.
void fiber_reset(Fiber *fiber);
void fiber_switch(Fiber *from, Fiber *to);
/// The entry function of a fiber (lane_schedule.c).
_Noreturn void fiber_main(Fiber *fiber);

/* ---- lanes, warps, groups, CTAs -------------------------------------------------------------- */

/// A copy that a lane started and did not wait for.
typedef struct Copy {
    const SimSite *site;
    int group;     // the group that it was committed to
    uint32_t to;   // shared address: the target of cp.async, the source of a store
    const void *p; // global address, or the tensor map
    int bytes, read;
    int32_t at[5];  // coordinates of the block
    bool read_done; // whether the copy happened; a store has then read shared memory
    bool waited;    // whether the lane has waited for it
    bool add;       // whether the store adds to the tensor
    char *data;     // the bytes that a store has read
} Copy;

typedef struct Copies {
    Copy *data;
    int n, cap;
    int group; // number of the open group
} Copies;

struct SimLane {
    // fields that compiled code reads
    uint32_t thread[3], threads[3], cta[3], ctas[3];
    uint32_t lane, warp, rank, ranks, high;
    uint32_t path; // under check: its branches since its warp last met
    char *shared;
    uint64_t spare[2]; // memory for accesses of a masked lane
    // fields that compiled code does not read
    Sim *sim;
    Cta *of;
    Warp *w;
    Fiber *fiber;        // NULL before it starts and after it ended
    int number;          // number in the cluster
    const SimSite *site; // where it waits, or the last place that may fail
    Copies copies, stores;
    const char *value; // the value of its current store, or NULL
    int spins;         // failed tests of an mbarrier since the last progress
    int waited;        // its store groups that the other warps learn of at their next meeting
};

typedef enum WaitKind {
    WAIT_NONE,
    WAIT_GROUP,
    WAIT_BARRIER,
    WAIT_MBARRIER,
    WAIT_CLUSTER,
    WAIT_REGISTERS,
} WaitKind;

/// The fibers of a warp run one after the other until all of them wait.
struct Warp {
    Cta *cta;
    Group *group;
    SimLane *lanes;
    int index;                          // index in the CTA
    int number;                         // number in the cluster
    uint64_t all, ready, arrived, done; // masks of lanes
    const SimSite *site;                // where the arrived lanes are
    uint32_t path;                      // SimLane.path of the lane that arrived first
    char *frames[MOST_LANES];
    WaitKind wait;
    int wait_for;         // number of the barrier, or index of the mbarrier
    int parity;           // parity of the phase that it waits for
    int cluster_phase;    // number of its arrivals at the cluster's barrier
    bool cluster_arrived; // whether it has yet to wait after its arrival
};

static inline int warp_lanes(const Warp *w) {
    return __builtin_popcountll(w->all);
}

/// Elements of an operand or accumulator, row-major.
typedef union Elements {
    float *f;
    int32_t *i;
    uint32_t *u;
} Elements;

/// A wgmma statement in flight.
typedef struct Product {
    struct Product *next, *before; // next: list of the group, oldest first; before: the product
                                   // whose result this one adds to
    const SimSite *site;
    int id, commit;             // commit: its committed group, or -1
    bool worked, ready, passed; // ready: waited for; passed: its sums went to another product
    int given;                  // number of results that were returned, of all threads
    uint64_t a[8], b[8];        // descriptors of the k-steps
    Elements registers;         // A, if it is in registers
    Elements sum;
} Product;

/// A warpgroup.
struct Group {
    Cta *cta;
    int index, n_warps;
    uint32_t arrived; // mask of warps
    const SimSite *site;
    bool fenced;  // whether a wgmma.fence has followed the last commit and other use of registers
    bool blocked; // whether its current function continues later (group_resume)
    int next_id, committed, registers;
    Product *oldest, *newest;
};

typedef struct Barrier {
    int threads;    // number of threads to wait for; 0: no warp has arrived
    int arrived;    // number of threads that arrived
    uint32_t warps; // mask of waiting warps
    const SimSite *site;
} Barrier;

typedef struct Mbarrier {
    uint32_t at; // offset in shared memory
    bool fenced; // whether the asynchronous proxy can see its initialisation
    int64_t phase, expected, pending, bytes;
    const SimSite *site; // place of its initialisation
} Mbarrier;

struct Cta {
    Sim *sim;
    int rank;
    char *shared; // the views of shared memory, see `Views`
    Warp *warps;
    SimLane *lanes;
    Group groups[MAX_THREADS / LANES / GROUP_WARPS];
    Barrier barriers[NAMED_BARRIERS];
    Mbarrier *mbarriers;
    int n_mbarriers, cap_mbarriers;
    int free_registers;
};

// The views of shared memory, as offsets: the bytes that loads and stores see; a flag for each byte
// that they wrote and the asynchronous proxy has not seen; the bytes of that proxy; a list of the
// KiB with flagged bytes.
enum Views {
    VIEW_GENERIC = 0,
    VIEW_DIRTY = SHARED_MAX,
    VIEW_ASYNC = 2 * SHARED_MAX,
    VIEW_SUMMARY = 3 * SHARED_MAX,
    SUMMARY_LOG2 = 10,
    VIEW_BYTES = 3 * SHARED_MAX + 4096,
};

/// A copy from global memory by TMA.
typedef struct Load {
    const SimSite *site;
    const void *map;
    uint32_t to, barrier, mask; // mask: the CTAs of the cluster that receive it
    int32_t at[5];
} Load;

struct Sim {
    Sim *next;
    const SimImage *image;
    const SimFunction *function;
    const SimRun *run;
    SimFailure *failure;
    bool failed;
    int pauses; // pauses left
    uint64_t random;
    Fiber main, *now,
        *last; // main: the caller's fiber; now: the running one; last: the previous one
    Fiber *idle;
    jmp_buf out;    // for failures outside of fibers
    Fiber **fibers; // all fibers
    int n_fibers, cap_fibers;
    int threads, cluster, n_warps; // threads of a CTA; CTAs of the cluster; warps of the cluster
    int64_t shared_bytes;
    int32_t program[3]; // number of the cluster's first CTA
    int elected;
    int live; // number of lanes that have not ended
    Cta *ctas;
    Warp *warps, *warp; // warp: the one that is running
    SimLane *lanes;
    uint64_t ready[MAX_WARPS / 64]; // bits of warps with lanes that may run
    int cluster_phase, cluster_warps;
    Load *loads;
    int n_loads, cap_loads;
    Shadow *shadow;         // exists under check
    union Matrix *matrices; // operands of one instruction; NULL before the first
};

/* ---- lane_schedule.c ------------------------------------------------------------------------ */

uint32_t sim_random(Sim *sim);
/// The handler of compiled code's calls for functions of several lanes.
LaneHandler sim_collective;
/// The handler for functions of one lane that a mutation test may remove.
LaneHandler sim_lane_sync;
/// Resumes all lanes of the warp.
void warp_resume(Warp *warp);
/// Stops the lanes of the warp until warp_resume.
void warp_wait(Warp *warp, WaitKind kind, int what);
void group_resume(Group *group);
/// Lets other lanes run first.
void lane_yield(SimLane *lane);
/// Runs until all lanes have ended or one has failed. Called from the caller's fiber.
void sim_schedule(Sim *sim);
/// Records the failure and returns to the caller of sim_run.
_Noreturn void sim_fail(Sim *sim, SimFailureKind kind, const SimSite *site, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
/// "thread 37 (warp 1, lane 5)", with the CTA where there are several.
const char *lane_name(const SimLane *lane, char *out);
enum { NAME_BYTES = 96, PLACE_BYTES = 256 };
/// "at file:line:column in function".
const char *site_place(const SimSite *site, char *out);
/// Grows an array of the machine's.
void *sim_grow(Sim *sim, void *data, int *cap, size_t size);
void *sim_alloc(Sim *sim, size_t size);

/* ---- run.c --------------------------------------------------------------------------------- */

void sim_destroy(Sim *sim);

/* ---- memory.c ------------------------------------------------------------------------------ */

typedef enum Proxy { PROXY_GENERIC, PROXY_ASYNC } Proxy;

/// Returns the CTA of a shared address. Fails if there is none, or if the range is not inside.
Cta *shared_find(SimLane *lane, const SimSite *site, uint32_t address, int bytes, int align);
/// Marks bytes as written by the generic proxy.
void shared_mark(Cta *cta, uint32_t offset, int bytes);
/// Makes the writes visible to the asynchronous proxy.
void proxy_fence(Cta *cta);
LaneHandler handle_atomic, handle_atomic_cas, handle_store_shared, handle_load_shared,
    handle_cluster_addr, handle_st_async;
LaneHandler handle_signal, handle_wait_word;
PrepareSite prepare_signal, prepare_wait_word;
PrepareSite prepare_atomic, prepare_shared, prepare_st_async;
/// Checks a load, or a store of the bytes at `value`. Only under check.
void sim_check_access(SimLane *lane, const SimSite *site, const void *p, const void *value);
/// Checks that an access that begins within the bytes of a buffer also ends there, and that they
/// belong to a tensor.
void sim_check_buffer(SimLane *lane, const SimSite *site, const char *data, uint32_t bytes,
                      uint32_t at);
void sim_check_masked(SimLane *lane, const SimSite *site, const void *p, const void *value,
                      int32_t on);
void sim_check_shared(SimLane *lane, const SimSite *site, const char *p, const void *value);

/* ---- handlers ------------------------------------------------------------------------------ */

// lanes.c
WarpHandler handle_shuffle, handle_shuffle_up, handle_vote, handle_ballot, handle_elect,
    handle_redux;
PrepareSite prepare_shuffle, prepare_vote, prepare_redux;
// arithmetic.c
LaneHandler handle_approx, handle_cvt_bf16, handle_cvt_f32_bf16, handle_cvt_x2, handle_cvt_tf32,
    handle_cvt_f8x2, handle_cvt_f16x2_f8x2, handle_cvt_int, handle_fma_bf16, handle_minmax_x2,
    handle_mulhi, handle_ctz, handle_renew, handle_policy, handle_clock;
PrepareSite prepare_approx, prepare_cvt, prepare_int, prepare_minmax;
static inline uint32_t bits_of_float(float x) {
    uint32_t u;
    memcpy(&u, &x, sizeof u);
    return u;
}
static inline float float_of(uint32_t u) {
    float x;
    memcpy(&x, &u, sizeof x);
    return x;
}
// The multiplication by 2^112 corrects the exponent, for subnormal numbers too.
static inline float decode_f16(uint16_t bits) {
    uint32_t sign = (uint32_t)(bits & 0x8000) << 16, rest = (uint32_t)(bits & 0x7fff) << 13;
    if (rest >= 0x0f800000) return float_of(sign | 0x7f800000 | (rest & 0x7fffff));
    return float_of(sign | bits_of_float(float_of(rest) * 0x1p112f));
}
uint16_t encode_f16(float x);
uint16_t encode_bf16(float x);
uint8_t encode_f8(Elem elem, float x); // saturates
static inline float decode_bf16(uint16_t bits) {
    return float_of((uint32_t)bits << 16);
}
/// Decodes an element of type f16, bf16, f32 (or tf32, a part of it) or f8 from its bits.
float decode_float(Elem elem, uint32_t bits);
// barrier.c
WarpHandler handle_barrier, handle_barrier_shared, handle_barrier_named, handle_barrier_arrive,
    handle_warp_sync, handle_cluster_arrive, handle_cluster_wait;
LaneHandler handle_fence, handle_fence_proxy, handle_fence_mbarrier_init, handle_depends,
    handle_trap;
PrepareSite prepare_fence, prepare_fence_proxy;
GroupHandler handle_setmaxnreg;
void registers_start(Cta *cta);
// matrix.c
WarpHandler handle_ldmatrix, handle_stmatrix, handle_mma;
PrepareSite prepare_ldmatrix, prepare_mma;
// copy.c
LaneHandler handle_cp_async, handle_cp_async_commit, handle_cp_async_wait;
/// Performs one pending copy of the lane; false: it has none.
bool copy_random(SimLane *lane);
void copies_reset(Copies *copies);
// mbarrier.c
LaneHandler handle_mbarrier_init, handle_mbarrier_arrive, handle_mbarrier_arrive_cluster,
    handle_mbarrier_expect_tx, handle_mbarrier_try_wait;
WarpHandler handle_mbarrier_wait;
Mbarrier *mbarrier_at(SimLane *lane, const SimSite *site, Cta *cta, uint32_t offset);
void mbarrier_complete_bytes(Cta *cta, uint32_t offset, int64_t bytes);
// tma.c
LaneHandler handle_tma_load, handle_tma_store, handle_tma_add, handle_tma_prefetch,
    handle_tma_commit, handle_tma_wait;
PrepareSite prepare_tma_load;
/// Performs one pending load; false: none is pending.
bool load_random(Sim *sim);
bool store_random(SimLane *lane);
void stores_finish(SimLane *lane);
// wgmma.c
LaneHandler handle_wgmma_blank;
GroupHandler handle_wgmma, handle_wgmma_fence, handle_wgmma_commit, handle_wgmma_wait;
PrepareSite prepare_wgmma;
bool product_random(Group *group);
void products_reset(Group *group);

// Canaries are NaNs of 16, 32 and 8 bits. They fill the target of asynchronous work, and shared
// memory at the start.
enum { CANARY_PENDING = 0x7fb5, CANARY_START = 0x7fb7 };

#endif
