// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The communication calls of a collective launch's host code, on the stream of the launch.
//
// Steps are collected. One kernel executes them on the stream, before the next work that must
// follow them.
//
// Copies go to side streams, which fork from the launch's stream and join it at its end. All copies
// are submitted before the launch that waits for them. One side stream does the copies of all peers
// in turn, because copies of several peers at the same time share the engines and take twice as
// long (docs/lab/ranks.md). In round i each rank pushes to the rank i before it. So each link has
// one copy at a time, and chunks arrive in the order in which programs need them. If copies wait
// for chunks from the own programs, each peer has a side stream of its own.
//
// The flag of a chunk is a copy of the epoch by the same engine, after the chunk. Its source or
// its destination is the peer's memory. Between two devices, it therefore never becomes a kernel,
// which might find no free multiprocessor while programs wait for it. Copies within a device may
// become kernels, and some copies of NVSHMEM between far ranks are kernels. In both cases programs
// begin only when these copies have ended.
#include "runtime/comm/comm_cuda.h"

#include "runtime/runtime.h"

#include <string.h>

static rt_launcher *comm_launcher(const tg_env *env) {
    return ((rt_worker *)env->user)->launcher;
}

static tg_comm *device_comm(const tg_env *env) {
    return comm_launcher(env)->comm;
}

static rt_cuda_comm *cuda_comm_of(const tg_env *env) {
    return device_comm(env)->memory_state;
}

static int32_t fail_comm_call(const tg_env *env, tg_status status) {
    return status ? rt_gpu_failed(&comm_launcher(env)->gpu, status) : TG_RUN_OK;
}

static tg_status driver_failed(const char *call, cu_result error, const char *what) {
    return rt_cuda_fail(call, error, "%s between ranks", what);
}

/// The words of a rank, as an address of this rank.
static cu_pointer rank_words(const rt_cuda_comm *g, int rank) {
    return (cu_pointer)(uintptr_t)g->words + g->stride * (size_t)rank;
}

/// The heap of this rank.
static cu_pointer own_of(const rt_cuda_comm *g) {
    return g->flat + g->stride * (size_t)g->comm->rank;
}

/* ---- steps ----------------------------------------------------------------------------------- */

/// A step that directly follows programs may begin before all of them have ended. If a driver
/// refuses such a launch, later launches do not ask for it.
static cu_result launch_step(rt_cuda_comm *g, rt_step *step) {
    enum { THREADS = 128 };
    const rt_cuda *cu = rt_cuda_driver();
    void *args[] = {step};
    cu_attribute early = {.id = CU_ATTRIBUTE_EARLY, .value.early = 1};
    cu_launch how = {.grid = {1, 1, 1},
                     .block = {THREADS, 1, 1},
                     .stream = g->stream,
                     .attributes = &early,
                     .n_attributes = 1};
    bool is_early = g->early && g->given == RT_GIVEN_PROGRAMS;
    g->given = RT_GIVEN_STEP;
    if (is_early && !cu->launch_ex(&how, g->step, args, NULL)) return 0;
    if (is_early) g->early = false;
    return cu->launch(g->step, 1, 1, 1, THREADS, 1, 1, 0, g->stream, args, NULL);
}

/// Tells all far ranks by copies that this rank has arrived. The copies follow all puts of this
/// rank.
static tg_status send_words(rt_cuda_comm *g) {
    uint32_t me = (uint32_t)g->comm->rank, size = (uint32_t)g->comm->size;
    const size_t at = offsetof(rt_cuda_words, came) + 16 * me;
    tg_status status = TG_OK;
    rt_nvshmem_quiet(g, g->stream);
    for (uint32_t i = 1; i < size && !status; i++) {
        int peer = (int)((me + i) % size);
        status = rt_nvshmem_put(g, peer, rank_words(g, peer) + at, rank_words(g, (int)me) + at, 16,
                                g->stream);
    }
    return status;
}

/// Splits a step of far ranks in two kernels: the copies come between its writes and its wait.
static tg_status launch_far(rt_cuda_comm *g, const rt_step *step) {
    const uint32_t late = RT_STEP_WAIT | RT_STEP_TURN;
    rt_step before = *step, behind = *step;
    before.flags &= ~late;
    before.others = behind.others = step->own;
    before.stride = behind.stride = 0;
    behind.flags &= late;
    memset(behind.fills, 0, sizeof behind.fills);
    cu_result error = 0;
    if (before.flags || before.fills[0].words) error = launch_step(g, &before);
    if (error) return driver_failed("cuLaunchKernel", error, "a step");
    tg_status status = before.flags & RT_STEP_SIGNAL ? send_words(g) : TG_OK;
    if (status || !behind.flags) return status;
    error = launch_step(g, &behind);
    return error ? driver_failed("cuLaunchKernel", error, "a step") : TG_OK;
}

static tg_status launch_near(rt_cuda_comm *g, rt_step *step) {
    cu_result error = launch_step(g, step);
    return error ? driver_failed("cuLaunchKernel", error, "a step") : TG_OK;
}

static tg_status flush_steps(rt_cuda_comm *g) {
    if (!g->has_pending) return TG_OK;
    rt_step step = g->pending;
    step.own = rank_words(g, g->comm->rank);
    step.others = rank_words(g, 0);
    step.stride = g->stride;
    step.record = (uintptr_t)g->record;
    step.rank = (uint32_t)g->comm->rank;
    step.ranks = (uint32_t)g->comm->size;
    step.what = g->what;
    g->has_pending = false;
    g->pending = (rt_step){.launch = step.launch};
    g->fills = 0;
    bool meets = step.flags & RT_STEP_WAIT;
    if (meets) rt_cuda_note_begin(g, g->stream);
    tg_status status = g->far ? launch_far(g, &step) : launch_near(g, &step);
    if (meets) rt_cuda_note_end(g, g->stream, TG_EVENT_MEET, -1, g->comm->launches);
    return status;
}

static int32_t before_programs(rt_cuda_comm *g, rt_gpu *gpu, bool *runs) {
    tg_status status = flush_steps(g);
    *runs = g->comm->part != TG_PART_TRANSFERS;
    if (!status && *runs) rt_cuda_note_begin(g, g->stream);
    return status ? rt_gpu_failed(gpu, status) : TG_RUN_OK;
}

/// A wait is the last action of a step, so later actions need a new step.
static tg_status add_step(rt_cuda_comm *g, uint32_t flags) {
    tg_status status = g->pending.flags & RT_STEP_WAIT ? flush_steps(g) : TG_OK;
    g->pending.flags |= flags;
    g->has_pending = true;
    if (flags & RT_STEP_WAIT) g->waited = true;
    return status;
}

/// Fills words with the epoch or with zero. The step fills before it waits, even if the code waits
/// first. This is safe, because other ranks use the words only after a later signal.
static tg_status add_fill(rt_cuda_comm *g, cu_pointer at, int64_t words, bool epoch) {
    if (words <= 0) return TG_OK;
    tg_status status = g->fills == RT_FILLS ? flush_steps(g) : TG_OK;
    g->pending.fills[g->fills].at = at;
    g->pending.fills[g->fills].words = (uint32_t)words;
    g->pending.fills[g->fills++].epoch = epoch;
    g->has_pending = true;
    return status;
}

static tg_status meet_by_step(rt_cuda_comm *g, uint32_t flags) {
    return add_step(g, RT_STEP_SIGNAL | RT_STEP_WAIT | flags);
}

/* ---- side streams ---------------------------------------------------------------------------- */

enum { ALL_SIDES = -1 };

/// Makes the side streams, or that of one peer, wait for the current point of the launch's stream.
static tg_status fork_sides(rt_cuda_comm *g, int peer) {
    const rt_cuda *cu = rt_cuda_driver();
    tg_status status = flush_steps(g);
    if (status) return status;
    const char *call = "cuEventRecord";
    cu_result error = cu->event_record(g->forked, g->stream);
    g->given = RT_GIVEN_OTHER;
    for (int r = 0; r < g->comm->size && !error; r++) {
        if (!g->sides[r] || (peer != ALL_SIDES && peer != r)) continue;
        call = "cuStreamWaitEvent";
        error = cu->stream_wait(g->sides[r], g->forked, 0);
        g->busy[r] = true;
    }
    return error ? driver_failed(call, error, "a fork of streams") : TG_OK;
}

static tg_status join_side(rt_cuda_comm *g, int peer) {
    const rt_cuda *cu = rt_cuda_driver();
    if (!g->busy[peer]) return TG_OK;
    g->busy[peer] = false;
    g->given = RT_GIVEN_OTHER;
    cu_result error = cu->event_record(g->joined[peer], g->sides[peer]);
    if (error) return driver_failed("cuEventRecord", error, "a join of streams");
    error = cu->stream_wait(g->stream, g->joined[peer], 0);
    return error ? driver_failed("cuStreamWaitEvent", error, "a join of streams") : TG_OK;
}

/// Returns the peer whose side stream does all copies that do not wait for the own programs.
static int next_peer(const rt_cuda_comm *g) {
    return (g->comm->rank + 1) % g->comm->size;
}

static tg_status join_sides(rt_cuda_comm *g) {
    tg_status status = TG_OK;
    for (int r = 0; r < g->comm->size && !status; r++) status = join_side(g, r);
    return status;
}

/// Rows of a chunk: the first one, and their number.
typedef struct ChunkRows {
    int64_t first, n, bytes, pitch;
} ChunkRows;

static int64_t count_chunks(int64_t rows, int64_t chunk_rows) {
    return rows > 0 && chunk_rows > 0 ? (rows + chunk_rows - 1) / chunk_rows : 0;
}

static ChunkRows rows_of_chunk(int64_t rows, int64_t row_bytes, int64_t pitch, int64_t chunk_rows,
                               int64_t c) {
    int64_t first = c * chunk_rows, left = rows - first;
    return (ChunkRows){first, left < chunk_rows ? left : chunk_rows, row_bytes, pitch};
}

static tg_status copy_rows(cu_pointer to, cu_pointer from, ChunkRows r, cu_stream stream) {
    const rt_cuda *cu = rt_cuda_driver();
    if (r.n <= 0 || r.bytes <= 0) return TG_OK;
    to += (cu_pointer)(r.first * r.pitch);
    from += (cu_pointer)(r.first * r.pitch);
    if (r.pitch == r.bytes || r.n == 1) {
        cu_result error = cu->on_device(to, from, (size_t)(r.n * r.bytes), stream);
        return error ? driver_failed("cuMemcpyDtoDAsync", error, "a copy") : TG_OK;
    }
    cu_rows rows = {
        .from = {.type = CU_DEVICE_MEMORY, .at = from, .pitch = (size_t)r.pitch},
        .to = {.type = CU_DEVICE_MEMORY, .at = to, .pitch = (size_t)r.pitch},
        .bytes = (size_t)r.bytes,
        .rows = (size_t)r.n,
    };
    cu_result error = cu->rows(&rows, stream);
    return error ? driver_failed("cuMemcpy2DAsync", error, "a copy of rows") : TG_OK;
}

/// The far rank whose memory contains the address, or -1.
static int far_rank(const rt_cuda_comm *g, cu_pointer at) {
    if (!g->far || at < g->reserved) return -1;
    cu_pointer rank = (at - g->reserved) / g->stride;
    return rank < (cu_pointer)g->comm->size && (int)rank != g->comm->rank ? (int)rank : -1;
}

/// Copies in runs without gaps. One of the two places is a far rank's.
static tg_status copy_far(rt_cuda_comm *g, cu_pointer to, cu_pointer from, ChunkRows r,
                          cu_stream side) {
    int writes = far_rank(g, to), reads = far_rank(g, from);
    int64_t pitch = r.pitch, bytes = r.bytes, n = r.n;
    tg_status status = TG_OK;
    to += (cu_pointer)(r.first * pitch);
    from += (cu_pointer)(r.first * pitch);
    if (pitch == bytes && n > 0) {
        bytes *= n;
        n = 1;
    }
    for (int64_t i = 0; i < n && bytes > 0 && !status; i++) {
        cu_pointer at = (cu_pointer)(i * pitch);
        status = writes >= 0 ? rt_nvshmem_put(g, writes, to + at, from + at, (size_t)bytes, side)
                             : rt_nvshmem_get(g, reads, to + at, from + at, (size_t)bytes, side);
    }
    return status;
}

static tg_status copy_chunk_rows(rt_cuda_comm *g, cu_pointer to, cu_pointer from, ChunkRows rows,
                                 cu_stream s) {
    bool far = far_rank(g, to) >= 0 || far_rank(g, from) >= 0;
    return far ? copy_far(g, to, from, rows, s) : copy_rows(to, from, rows, s);
}

/// Copies from or to a peer, on a side.
static tg_status copy_chunk(rt_cuda_comm *g, cu_pointer to, cu_pointer from, ChunkRows rows,
                            int peer, cu_stream side, int64_t chunk) {
    if (g->comm->part == TG_PART_PROGRAMS) return TG_OK;
    rt_cuda_note_begin(g, side);
    tg_status status = copy_chunk_rows(g, to, from, rows, side);
    rt_cuda_note_end(g, side, TG_EVENT_COPY, peer, chunk);
    return status;
}

/// Raises the flag of a chunk after the chunk, by a copy of the epoch of rank `of`. A flag in the
/// peer's memory gets the own epoch. A flag in own memory gets the peer's epoch, which is equal,
/// because the peer is in the same launch. For far ranks every flag gets the own epoch, since a
/// wait accepts this launch's epoch and later ones.
static tg_status copy_epoch(rt_cuda_comm *g, cu_pointer flag, int of, cu_stream stream) {
    cu_pointer epoch = rank_words(g, g->far ? g->comm->rank : of) + 8 * TG_CONTROL_EPOCH;
    int peer = far_rank(g, flag);
    if (peer >= 0) {
        rt_nvshmem_quiet(g, stream);
        return rt_nvshmem_put(g, peer, flag, epoch, 8, stream);
    }
    cu_result error = rt_cuda_driver()->on_device(flag, epoch, 8, stream);
    return error ? driver_failed("cuMemcpyDtoDAsync", error, "a flag") : TG_OK;
}

/* ---- memory ---------------------------------------------------------------------------------- */

static void *gpu_workspace(const tg_env *env, int64_t bytes, int64_t *lead) {
    tg_comm *c = device_comm(env);
    void *direct = rt_comm_direct(c, rt_comm_workspace(c, bytes), lead);
    if (!direct) fail_comm_call(env, TG_ERROR_MEMORY);
    return direct;
}

static void *gpu_signals(const tg_env *env, int32_t number, int64_t words, int64_t *lead) {
    tg_comm *c = device_comm(env);
    void *direct = rt_comm_direct(c, rt_comm_signals(c, number, words), lead);
    if (!direct) fail_comm_call(env, TG_ERROR_MEMORY);
    return direct;
}

static void *control_on_gpu(const tg_env *env) {
    const rt_cuda_comm *g = cuda_comm_of(env);
    return (void *)(uintptr_t)rank_words(g, g->comm->rank);
}

/* ---- a launch -------------------------------------------------------------------------------- */

/// Returns the number by which device memory names the launch's kernel, for messages.
static uint32_t kernel_number(rt_cuda_comm *g, const tg_image *image) {
    for (int i = 0; i < g->n_kernels; i++)
        if (g->kernels[i] == image) return (uint32_t)i;
    if (g->n_kernels == RT_CUDA_KERNELS) return RT_CUDA_KERNELS;
    g->kernels[g->n_kernels] = image;
    return (uint32_t)g->n_kernels++;
}

/// Launches of a communicator run in order, whatever their streams.
static tg_status follow_last(rt_cuda_comm *g) {
    if (g->captured || !g->any || g->last == g->stream) return TG_OK;
    cu_result error = rt_cuda_driver()->stream_wait(g->stream, g->ended, 0);
    return error ? driver_failed("cuStreamWaitEvent", error, "an order of launches") : TG_OK;
}

/// Starts a timed launch. Its work begins when all ranks have submitted their work to their
/// streams.
static tg_status begin_together(rt_cuda_comm *g) {
    tg_status status = rt_cuda_hold(g);
    if (!status) status = meet_by_step(g, 0);
    if (!status) status = flush_steps(g);
    g->waited = false;
    return status ? status : rt_cuda_stamp(g, false);
}

/// Raises the words that failed programs have not raised, so that side streams do not wait for them
/// forever.
static tg_status raise_done(rt_cuda_comm *g) {
    tg_status status = TG_OK;
    for (int i = 0; i < g->n_done && !status; i++)
        status = add_fill(g, g->done[i].at, g->done[i].words, true);
    return status ? status : flush_steps(g);
}

/// Copies within a device that programs have made ready must end before other programs wait for
/// them.
static int32_t after_programs(rt_cuda_comm *g, rt_gpu *gpu, int function, bool launched) {
    tg_status status = TG_OK;
    bool shares = false, busy = false;
    g->given = launched ? RT_GIVEN_PROGRAMS : RT_GIVEN_OTHER;
    rt_cuda_note_end(g, g->stream, TG_EVENT_TASK, g->comm->rank, function);
    for (int r = 0; r < g->comm->size; r++) {
        shares |= g->beside[r];
        busy |= g->busy[r];
    }
    if (shares && busy) status = raise_done(g);
    if (shares && !status) status = join_sides(g);
    return status ? rt_gpu_failed(gpu, status) : TG_RUN_OK;
}

/// See rt_gpu_observer.
static bool may_be_early(const rt_cuda_comm *g) {
    return g->early && g->given != RT_GIVEN_OTHER;
}

static void were_early(rt_cuda_comm *g, bool taken) {
    g->early = taken;
}

static void give_other(rt_cuda_comm *g) {
    g->given = RT_GIVEN_OTHER;
}

/// Cleans up after a launch that began and failed: side streams must not wait for words that no
/// program will raise, and a held launch must be released.
static tg_status give_up_launch(rt_cuda_comm *g) {
    const rt_cuda *cu = rt_cuda_driver();
    cu_result error = 0;
    for (int i = 0; i < g->n_done && !error; i++)
        error = cu->set_words(g->done[i].at, 1, 2 * (size_t)g->done[i].words, g->stream);
    tg_status status = rt_cuda_release(g);
    return error ? driver_failed("cuMemsetD32Async", error, "the end of a failed launch") : status;
}

static const rt_gpu_observer observer = {
    .before = before_programs,
    .after = after_programs,
    .may_be_early = may_be_early,
    .were_early = were_early,
    .other = give_other,
    .release = give_up_launch,
};

static int32_t begin_gpu_launch(const tg_env *env, int32_t how) {
    rt_cuda_comm *g = cuda_comm_of(env);
    rt_gpu *gpu = &comm_launcher(env)->gpu;
    tg_status status = rt_cuda_comm_check(g);
    if (!status && how & TG_BEGIN_REACHES) status = rt_comm_may_reach(g->comm);
    for (int r = 0; r < g->comm->size && !status; r++) status = rt_comm_compare(g->comm, r);
    if (status) return fail_comm_call(env, status);
    gpu->comm = g;
    gpu->observer = &observer;
    g->stream = gpu->stream;
    g->what = rt_comm_what(g->comm) << RT_COUNT_BITS;
    atomic_store(&g->begun, g->comm->launches);
    g->captured = rt_is_captured(g->device->number, gpu->stream);
    g->comm->keeps |= g->captured;
    g->n_done = g->fills = 0;
    g->waited = false;
    g->given = RT_GIVEN_OTHER;
    memset(g->busy, 0, sizeof g->busy);
    g->pending = (rt_step){.launch = kernel_number(g, gpu->image)};
    status = follow_last(g);
    if (!status && g->profile && !g->captured) status = begin_together(g);
    if (!status) status = add_step(g, RT_STEP_EPOCH);
    if (!status && how & TG_BEGIN_WAITS) status = meet_by_step(g, 0);
    return fail_comm_call(env, status);
}

static int32_t barrier_on_gpu(const tg_env *env) {
    return fail_comm_call(env, meet_by_step(cuda_comm_of(env), RT_STEP_TURN));
}

static int32_t end_gpu_launch(const tg_env *env) {
    rt_cuda_comm *g = cuda_comm_of(env);
    tg_status status = g->n_done ? raise_done(g) : TG_OK;
    if (!status) status = join_sides(g);
    if (!status) status = meet_by_step(g, 0);
    if (!status) status = flush_steps(g);
    if (!status && g->profile && !g->captured) status = rt_cuda_stamp(g, true);
    if (g->profile && !g->captured) (void)rt_cuda_release(g);
    comm_launcher(env)->gpu.comm = NULL;
    if (!status && !g->captured) {
        cu_result error = rt_cuda_driver()->event_record(g->ended, g->stream);
        if (error) status = driver_failed("cuEventRecord", error, "an order of launches");
        g->last = g->stream;
        g->any = true;
    }
    return fail_comm_call(env, status);
}

/* ---- transfers ------------------------------------------------------------------------------- */

/// Copies one shard from or to the peer, chunk by chunk, on a side.
static tg_status gather_peer(rt_cuda_comm *g, const tg_gather *how, int peer, cu_stream side) {
    int me = g->comm->rank;
    int64_t chunks = count_chunks(how->rows, how->chunk_rows);
    bool push = how->how == TG_GATHER_PUSH;
    int shard = push ? me : peer; // owner of the shard
    cu_pointer away = push ? (cu_pointer)((int64_t)g->stride * (peer - me)) : 0;
    cu_pointer from = (uintptr_t)how->data + (cu_pointer)(how->lead * shard);
    cu_pointer to = (uintptr_t)how->view + (cu_pointer)(how->slot * shard) + away;
    cu_pointer flags = (uintptr_t)how->flags + (cu_pointer)(8 * chunks * shard) + away;
    tg_status status = TG_OK;
    for (int64_t c = 0; c < chunks && !status; c++) {
        ChunkRows rows = rows_of_chunk(how->rows, how->row_bytes, how->pitch, how->chunk_rows, c);
        status = copy_chunk(g, to, from, rows, peer, side, c);
        if (!status && how->how != TG_GATHER_BEFORE)
            status = copy_epoch(g, flags + (cu_pointer)(8 * c), shard, side);
    }
    return status;
}

/// A pull needs shards that are ready, so all ranks must have come. A push need not wait: the
/// places in the other ranks' memory are free since the last launch ended.
static tg_status gather_all(rt_cuda_comm *g, const tg_gather *how) {
    int size = g->comm->size, me = g->comm->rank;
    tg_status status = TG_OK;
    if (how->how != TG_GATHER_PUSH && !g->waited) status = meet_by_step(g, 0);
    if (!status) status = fork_sides(g, next_peer(g));
    bool push = how->how == TG_GATHER_PUSH, joins = how->how == TG_GATHER_BEFORE;
    for (int i = 1; i < size && !status; i++) {
        int peer = (me + (push ? size - i : i)) % size;
        joins |= g->beside[peer];
        status = gather_peer(g, how, peer, g->sides[next_peer(g)]);
    }
    return !status && joins ? join_side(g, next_peer(g)) : status;
}

/// Gathers into memory of this launch. The own shard is copied there, too.
static tg_status make_gather_room(rt_cuda_comm *g, tg_gather *how) {
    enum { GRAIN = 256 };
    int me = g->comm->rank;
    how->slot = (int64_t)rt_round_up((size_t)(how->rows * how->pitch), GRAIN);
    size_t at = rt_comm_workspace(g->comm, how->slot * g->comm->size);
    if (at == SIZE_MAX) return TG_ERROR_MEMORY;
    cu_pointer view = own_of(g) + at, from = (uintptr_t)how->data;
    how->view = (void *)(uintptr_t)view;
    tg_status status = flush_steps(g);
    g->given = RT_GIVEN_OTHER;
    if (status) return status;
    return copy_rows(view + (cu_pointer)(how->slot * me), from + (cu_pointer)(how->lead * me),
                     (ChunkRows){0, how->rows, how->row_bytes, how->pitch}, g->stream);
}

/// Chooses the memory in which shards lie side by side: the slots of the tensor, or else memory of
/// this launch. Fails for a mapped tensor without slots (TG_SYM_LEAN), which programs should access
/// in place.
static tg_status find_gpu_view(rt_cuda_comm *g, tg_gather *how) {
    rt_shard shard;
    bool tensor = rt_sym_find_direct(g->comm, how->data, &shard);
    if (tensor && !shard.gathered && !g->far)
        return tg_fail(TG_ERROR_CONTRACT,
                       "'%s' has no room for the shards of other ranks: allocate it "
                       "without TG_SYM_LEAN",
                       how->name);
    if (!tensor || !shard.gathered) return make_gather_room(g, how);
    how->view = shard.gathered;
    how->slot = shard.slot;
    return TG_OK;
}

static int32_t gather_on_gpu(const tg_env *env, tg_gather *how) {
    rt_cuda_comm *g = cuda_comm_of(env);
    int64_t chunks = count_chunks(how->rows, how->chunk_rows);
    tg_status status = find_gpu_view(g, how);
    if (status) return fail_comm_call(env, status);
    size_t at = rt_comm_flags(g->comm, chunks * g->comm->size);
    if (at == SIZE_MAX) return fail_comm_call(env, TG_ERROR_MEMORY);
    cu_pointer own = own_of(g);
    how->flags = (void *)(uintptr_t)(own + at);
    status = add_fill(g, own + at + (cu_pointer)(8 * chunks * g->comm->rank), chunks, true);
    if (!status) status = gather_all(g, how);
    return fail_comm_call(env, status);
}

/// Copies to far ranks share one bounce buffer (rt_nvshmem_put), so all of them are on one side
/// stream.
static tg_status scatter_peer(rt_cuda_comm *g, const tg_scatter *how, int peer) {
    const rt_cuda *cu = rt_cuda_driver();
    int me = g->comm->rank;
    int64_t chunks = count_chunks(how->rows, how->chunk_rows);
    cu_stream side = g->sides[how->how == TG_GATHER_PUSH && !g->far ? peer : next_peer(g)];
    cu_pointer from = (uintptr_t)how->local + (cu_pointer)(how->part * peer);
    cu_pointer to = (uintptr_t)how->stage + (cu_pointer)(how->lead * peer + how->part * me);
    cu_pointer flags = (uintptr_t)how->flags + (cu_pointer)(how->flags_lead * peer);
    cu_pointer done = (uintptr_t)how->done;
    tg_status status = TG_OK;
    for (int64_t c = 0; c < chunks && !status; c++) {
        ChunkRows rows = rows_of_chunk(how->rows, how->row_bytes, how->pitch, how->chunk_rows, c);
        cu_pointer word = done + (cu_pointer)(8 * (chunks * peer + c));
        cu_result error = 0;
        if (how->how == TG_GATHER_PUSH)
            error = cu->stream_wait_value(side, word, 1, CU_WAIT_AT_LEAST);
        if (error) return driver_failed("cuStreamWaitValue64", error, "a wait for a chunk");
        status = copy_chunk(g, to, from, rows, peer, side, c);
        if (!status) status = copy_epoch(g, flags + (cu_pointer)(8 * (chunks * me + c)), me, side);
    }
    return status;
}

/// Streams can wait only for words of symmetric memory. The driver refuses words in memory of a
/// pool.
static bool is_own_memory(const rt_cuda_comm *g, const void *at, int64_t words) {
    cu_pointer own = own_of(g), from = (uintptr_t)at;
    return from >= own && from + 8 * (cu_pointer)words <= own + g->stride;
}

/// Clears the words that report complete chunks. The stream's order puts this before the waits of
/// the sides, and before the launch that raises the words.
static tg_status watch_done(rt_cuda_comm *g, const tg_scatter *how) {
    int64_t words = count_chunks(how->rows, how->chunk_rows) * g->comm->size;
    if (g->n_done == RT_FILLS)
        return tg_fail(TG_ERROR_UNSUPPORTED, "a kernel scatters more than %d tensors", RT_FILLS);
    if (!is_own_memory(g, how->done, words))
        return tg_fail(TG_ERROR_INTERNAL,
                       "'%s': the words of complete chunks are not in symmetric memory", how->name);
    g->done[g->n_done].at = (uintptr_t)how->done;
    g->done[g->n_done++].words = (uint32_t)words;
    return add_fill(g, (uintptr_t)how->done, words, false);
}

static int32_t scatter_on_gpu(const tg_env *env, const tg_scatter *how) {
    rt_cuda_comm *g = cuda_comm_of(env);
    int size = g->comm->size, me = g->comm->rank;
    bool one = how->how == TG_SCATTER_BEHIND, push = how->how == TG_GATHER_PUSH;
    if (one && how->peer == me) return TG_RUN_OK;
    tg_status status = push ? watch_done(g, how) : TG_OK;
    if (!status) status = fork_sides(g, push ? ALL_SIDES : next_peer(g));
    if (one) return fail_comm_call(env, status ? status : scatter_peer(g, how, how->peer));
    for (int i = 1; i < size && !status; i++) status = scatter_peer(g, how, (me + i) % size);
    // The copies of the epoch must precede a barrier, which changes it.
    if (!status && how->how == TG_GATHER_BEFORE) status = join_sides(g);
    return fail_comm_call(env, status);
}

/* ---- calls of CPU code ----------------------------------------------------------------------- */

/// The stream keeps copies in order, and a copy has arrived when the stream goes on. Only copies to
/// far ranks need a call of rt_nvshmem_quiet.
static int32_t fence_gpu_copies(const tg_env *env, int32_t quiet) {
    rt_cuda_comm *g = cuda_comm_of(env);
    (void)quiet;
    tg_status status = g->far ? flush_steps(g) : TG_OK;
    if (g->far && !status) rt_nvshmem_quiet(g, g->stream);
    return fail_comm_call(env, status);
}

static int32_t host_only(const tg_env *env, const char *what) {
    return fail_comm_call(
        env, tg_fail(TG_ERROR_INTERNAL, "%s of a launch on a GPU are its device's", what));
}

static int32_t copy_host_only(const tg_env *env, void *to, const void *from, int64_t bytes) {
    (void)to, (void)from, (void)bytes;
    return host_only(env, "single copies");
}

static int32_t wait_host_only(const tg_env *env, const tg_site *site, const int64_t *word,
                              int32_t compare, int64_t value, int64_t peer, int64_t number) {
    (void)site, (void)word, (void)compare, (void)value, (void)peer, (void)number;
    return host_only(env, "signals");
}

static int32_t signal_host_only(const tg_env *env, int64_t *word, int32_t how, int64_t value) {
    (void)word, (void)how, (void)value;
    return host_only(env, "signals");
}

const tg_comm_calls rt_cuda_comm_calls = {.begin = begin_gpu_launch,
                                          .barrier = barrier_on_gpu,
                                          .end = end_gpu_launch,
                                          .gather = gather_on_gpu,
                                          .scatter = scatter_on_gpu,
                                          .workspace = gpu_workspace,
                                          .signals = gpu_signals,
                                          .control = control_on_gpu,
                                          .wait = wait_host_only,
                                          .signal = signal_host_only,
                                          .fence = fence_gpu_copies,
                                          .get = copy_host_only,
                                          .put = copy_host_only};
