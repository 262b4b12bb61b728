// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Launches of several ranks, on CPUs or on a GPU each. All ranks are threads of this process, or,
// with --comm, this process is one rank and other processes, which may share GPUs, are the others.
//
// Symmetric tensors are in symmetric memory from the first launch on, with the given strides.
// Results are copied back at the end, or to rank 0 if it is in another process.
#include "runtime/comm/comm.h"
#include "runtime/gpu/gpu_launch.h"
#include "runtime/tegula.h"
#include "tools/tegula/executors.h"
#include "tools/tegula/gpu_arrays.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/// A symmetric tensor of a rank: the range of bytes of its shard.
typedef struct Shard {
    DLTensor memory;
    char *own; // address of the range's first byte
    size_t bytes;
} Shard;

typedef struct Rank {
    struct RankThreads *rank_threads;
    int number;
    tg_comm *comm;
    tg_host *host;
    int device; // -1: the CPU
    cu_stream stream;
    Mirrors *mirrors; // copies on a GPU of arguments that are not symmetric
    Bound bound;
    tg_slot *slots;
    Shard *shards; // by argument; bytes SIZE_MAX: symmetric, not placed yet
    int64_t (*strides)[MAX_RANK];
    int status;
    double seconds; // seconds of the last launch
    tg_failure failure;
    pthread_t thread;
} Rank;

typedef struct RankThreads {
    Job *job;
    int size, first, n; // number of ranks; first rank in this process, and number of them
    Rank *ranks;        // ranks of this process
    bool together;      // launches begin when all ranks have arrived
    const tg_kernel_info *info;
    int64_t *scalars;   // one for each parameter
    const char *config; // the launched setting, which ranks compare
} RankThreads;

/* ---- a rank, in a thread of its own ---------------------------------------------------------- */

static bool fail_rank(Rank *r) {
    r->failure = (tg_failure){.site = NULL};
    snprintf(r->failure.text, sizeof r->failure.text, "%s", tg_last_error());
    r->status = TG_RUN_FAILED;
    return false;
}

/// Places one shard of argument k in symmetric memory, at the same offset in a cache line as rank
/// 0's.
static bool place_shard(Rank *r, int k) {
    enum { LINE = 64 };
    Shard *s = &r->shards[k];
    const Tensor *all = &r->bound.args[k].tensor;
    Tensor part = tensor_part(all, r->number), first = tensor_part(all, 0);
    uintptr_t lo, hi;
    int64_t lead, bytes;
    if (!tensor_span(&first, &lo, &hi)) lo = (uintptr_t)first.data;
    size_t into = lo % LINE;
    if (!tensor_span(&part, &lo, &hi)) lo = hi = (uintptr_t)part.data;
    bytes = (int64_t)(hi - lo + into);
    DLDataType u8 = {kDLUInt, 8, 1};
    if (tg_sym_alloc(r->comm, u8, 1, &bytes, 0, &s->memory)) return fail_rank(r);
    s->own = (char *)s->memory.data + into;
    s->bytes = hi - lo;
    if (!tg_host_write(r->comm, s->own, (const void *)lo, s->bytes)) return fail_rank(r);
    const char *direct = tg_host_direct(r->comm, s->memory.data, &lead);
    memcpy(r->strides[k], all->strides, sizeof all->strides);
    r->strides[k][0] = lead * 8 / elem_info[all->elem].bits;
    r->slots[k].tensor.data = (void *)(uintptr_t)(direct + into + ((uintptr_t)part.data - lo));
    r->slots[k].tensor.strides = r->strides[k];
    return true;
}

/// Gives the rank a stream, so that launches of ranks in one process do not wait for each other on
/// the host.
static bool make_stream(Rank *r) {
    rt_entered e;
    const rt_device *d = rt_device_at(r->device);
    if (!d || rt_enter(d, &e)) return fail_rank(r);
    cu_result error = rt_cuda_driver()->stream_create(&r->stream, CU_NON_BLOCKING);
    rt_leave(e);
    if (!error) return true;
    rt_cuda_fail("cuStreamCreate", error, "device %d", r->device);
    return fail_rank(r);
}

static bool set_up(Rank *r) {
    const RankThreads *rank_threads = r->rank_threads;
    const Options *o = rank_threads->job->o;
    char meet[64];
    snprintf(meet, sizeof meet, "tegula-run-%d", (int)getpid());
    tg_comm_options options = {.size = sizeof options,
                               .engine = o->comm ? o->comm : "threads",
                               .meet = o->comm ? NULL : meet,
                               .rank = o->comm ? -1 : r->number,
                               .ranks = o->comm ? 0 : rank_threads->size,
                               .device = r->device};
    if (!r->comm && tg_comm_create(&options, &r->comm)) return fail_rank(r);
    int64_t threads = o->threads ? o->threads : machine_threads() / rank_threads->size;
    r->host = tg_host_create(threads > 0 ? (int)threads : 1);
    if (!r->host) return fail_rank(r);
    tg_host_join(r->host, r->comm);
    for (int k = 0; k < r->bound.n; k++)
        if (r->shards[k].bytes == SIZE_MAX && !place_shard(r, k)) return false;
    return r->device < 0 || make_stream(r);
}

static void print_rank_text(void *user, const char *text) {
    const Rank *r = user;
    printf("rank %d: %s\n", r->number, text);
}

static void *run_rank(void *arg) {
    Rank *r = arg;
    const Code *code = r->rank_threads->job->compiled;
    r->status = TG_RUN_OK;
    if (!r->host && !set_up(r)) return NULL;
    if (r->rank_threads->together && tg_comm_barrier(r->comm)) fail_rank(r);
    if (r->status) return NULL;
    double start = rt_seconds();
    r->status = tg_host_run_ranks(r->host, r->rank_threads->info, r->rank_threads->config,
                                  code->entry, r->slots, r->rank_threads->scalars, code->image,
                                  r->device, r->stream, print_rank_text, r, &r->failure);
    if (!r->status && r->device >= 0 && tg_device_synchronize(r->device, r->stream)) fail_rank(r);
    r->seconds = r->rank_threads->together ? tg_host_seconds(r->comm) : -1;
    if (r->seconds < 0) r->seconds = rt_seconds() - start;
    return NULL;
}

static void *end_rank(void *arg) {
    Rank *r = arg;
    rt_entered e;
    tg_host_destroy(r->host);
    tg_comm_destroy(r->comm);
    if (r->stream && rt_enter(rt_device_at(r->device), &e) == TG_OK) {
        rt_cuda_driver()->stream_destroy(r->stream);
        rt_leave(e);
    }
    return NULL;
}

/// Ranks wait for each other, so each needs a thread.
static bool run_rank_threads(RankThreads *rank_threads, void *(*body)(void *)) {
    int n = 0;
    while (n < rank_threads->n &&
           pthread_create(&rank_threads->ranks[n].thread, NULL, body, &rank_threads->ranks[n]) == 0)
        n++;
    for (int i = 0; i < n; i++) pthread_join(rank_threads->ranks[i].thread, NULL);
    if (n < rank_threads->n) cli_error("no threads for %d ranks", rank_threads->n);
    return n == rank_threads->n;
}

/* ---- the crew -------------------------------------------------------------------------------- */

static tg_slot rank_slot(InterpArg *arg, const ParamUse *use) {
    if (use->kind != PARAM_TENSOR) return (tg_slot){.bits = cell_bits(use->elem, arg->scalar)};
    Tensor *t = &arg->tensor;
    return (tg_slot){.tensor = {t->data, t->extents, t->strides}};
}

/// Returns the parameter of argument k.
static int param_of(const Job *job, int k) {
    int i;
    build_argument(&job->build, k, &i);
    return i;
}

static bool is_symmetric_job_arg(const Job *job, int k) {
    return job_is_symmetric(job, param_of(job, k));
}

/// Copies arguments that are not symmetric to the rank's GPU.
static bool upload_arguments(Rank *r) {
    Job *job = r->rank_threads->job;
    r->mirrors = gpu_mirrors(job, r->device);
    for (int k = 0; k < r->bound.n && r->mirrors; k++)
        if (r->bound.uses[k]->kind == PARAM_TENSOR && !is_symmetric_job_arg(job, k))
            gpu_mirror(r->mirrors, &r->bound.args[k].tensor);
    if (!r->mirrors || !gpu_copy_there(r->mirrors)) return false;
    for (int k = 0; k < r->bound.n; k++)
        if (r->bound.uses[k]->kind == PARAM_TENSOR && !is_symmetric_job_arg(job, k))
            r->slots[k].tensor.data = gpu_address(r->mirrors, r->slots[k].tensor.data);
    return true;
}

static bool prepare_rank(Rank *r, RankThreads *rank_threads, int number) {
    Job *job = rank_threads->job;
    r->rank_threads = rank_threads;
    r->device = job->device < 0 ? -1 : job->comm ? tg_host_device(job->comm) : job->device + number;
    r->number = number;
    r->bound = job_bind_rank(job, number);
    r->slots = ctx_array(job->ctx, tg_slot, r->bound.n + 1);
    r->shards = ctx_array(job->ctx, Shard, r->bound.n + 1);
    r->strides = ctx_alloc(job->ctx, sizeof *r->strides * (size_t)(r->bound.n + 1));
    for (int k = 0; k < r->bound.n; k++) {
        r->slots[k] = rank_slot(&r->bound.args[k], r->bound.uses[k]);
        if (is_symmetric_job_arg(job, k)) r->shards[k].bytes = SIZE_MAX;
    }
    return r->device < 0 || upload_arguments(r);
}

static void release_ranks(void *arg) {
    run_rank_threads(arg, end_rank);
}

static void leave_comm(void *arg) {
    Job *job = arg;
    tg_comm_destroy(job->comm);
}

void rank_launch_set_plan(Job *job, int64_t plan) {
    request_pin(job->ctx, &job->request, axis_names[AXIS_PLAN], plan);
}

static bool has_plan(const Request *r) {
    return value_of_name(r->n_set, r->set, axis_names[AXIS_PLAN]) != NULL;
}

bool rank_launch_meet(Job *job) {
    tg_comm_options options = {.size = sizeof options,
                               .engine = job->o->comm,
                               .rank = -1,
                               .device = job->device < 0 ? TG_COMM_CPU : TG_COMM_GPU};
    if (!job->o->comm || !job->ranks) return true;
    if (tg_comm_create(&options, &job->comm)) {
        cli_error("%s", tg_last_error());
        if (strcmp(job->o->comm, "processes") == 0)
            cli_hint("each rank is a process of its own: TG_RANK=0 (1, ...) TG_RANKS=%d "
                     "TG_MEET=/tmp/socket tegula ... --comm processes",
                     (int)job->ranks);
        return false;
    }
    ctx_defer(job->ctx, leave_comm, job);
    if (!tg_host_mapped(job->comm) && !has_plan(&job->request))
        rank_launch_set_plan(job, PLAN_COPIES);
    if (tg_comm_ranks(job->comm) == job->ranks) return true;
    cli_error("the arguments are those of %d ranks, and %d have met", (int)job->ranks,
              tg_comm_ranks(job->comm));
    return false;
}

const char *rank_launch_config(Job *job, const char *config) {
    char own[RT_COMM_CONFIG] = "", all[RT_COMM_RANKS][RT_COMM_CONFIG];
    if (strlen(config) < sizeof own) strcpy(own, config);
    bool met = rt_comm_allgather(job->comm, "settings", own, sizeof own, all) == TG_OK;
    return met ? ctx_format(job->ctx, "%s", all[0]) : config;
}

static RankThreads *rank_launch_of(Job *job) {
    if (job->rank_threads) return job->rank_threads;
    RankThreads *rank_threads = ctx_new(job->ctx, RankThreads);
    *rank_threads = (RankThreads){.job = job, .size = (int)job->ranks, .n = (int)job->ranks};
    rank_threads->info = kernel_info(job->ctx, job->build.program, job->build.inst->kernel);
    rank_threads->scalars = ctx_array(job->ctx, int64_t, rank_threads->info->n_params + 1);
    for (int i = 0; i < rank_threads->info->n_params; i++)
        rank_threads->scalars[i] = job->args[i].scalar.i;
    if (job->comm) {
        rank_threads->first = tg_comm_rank(job->comm);
        rank_threads->n = 1;
        job->silent = rank_threads->first > 0;
    }
    rank_threads->ranks = ctx_array(job->ctx, Rank, rank_threads->n);
    bool ok = true;
    for (int i = 0; i < rank_threads->n && ok; i++)
        ok = prepare_rank(&rank_threads->ranks[i], rank_threads, rank_threads->first + i);
    if (!ok) return NULL;
    rank_threads->ranks[0].comm = job->comm;
    job->comm = NULL;
    ctx_defer(job->ctx, release_ranks, rank_threads);
    return job->rank_threads = rank_threads;
}

/// Returns the rank whose failure is reported. The others only say that it failed.
static Rank *first_failed(const RankThreads *rank_threads) {
    Rank *first = NULL;
    for (int i = 0; i < rank_threads->n; i++) {
        Rank *r = &rank_threads->ranks[i];
        if (!r->status) continue;
        bool own = r->failure.site && r->failure.site->kind != TG_SITE_WAIT;
        if (!first || own) first = r;
        if (own) break;
    }
    return first;
}

bool rank_launch_launch(Job *job, tg_failure *failure) {
    RankThreads *rank_threads = rank_launch_of(job);
    if (rank_threads) rank_threads->config = job_title(job);
    *failure = (tg_failure){.text = "the ranks did not run"};
    if (!rank_threads || !run_rank_threads(rank_threads, run_rank)) return false;
    const Rank *failed = first_failed(rank_threads);
    if (failed) *failure = failed->failure;
    return !failed;
}

/* ---- profiles -------------------------------------------------------------------------------- */

int rank_launch_ranks(const Job *job) {
    return job->rank_threads ? job->rank_threads->n : 0;
}

bool rank_launch_profile(Job *job, enum tg_part part, tg_trace *traces) {
    bool ok = true;
    if (job->rank_threads) job->rank_threads->together = true;
    for (int i = 0; i < rank_launch_ranks(job) && ok; i++) {
        tg_comm *comm = job->rank_threads->ranks[i].comm;
        ok = !comm || tg_host_profile(comm, part, traces ? &traces[i] : NULL);
    }
    if (!ok) cli_error("%s", tg_last_error());
    return ok;
}

double rank_launch_seconds(const Job *job) {
    double most = 0;
    for (int i = 0; i < rank_launch_ranks(job); i++)
        if (job->rank_threads->ranks[i].seconds > most) most = job->rank_threads->ranks[i].seconds;
    return most;
}

static size_t trace_bytes(const tg_trace *t) {
    return (t->n < t->capacity ? t->n : t->capacity) * sizeof *t->events;
}

/// Reads another rank's trace from `box`: the header, then the events that had room.
static bool read_trace(Rank *r, int from, const char *box, tg_trace *t) {
    tg_event *events = t->events;
    bool ok = tg_host_read(r->comm, from, box, t, sizeof *t);
    t->events = events;
    return ok && tg_host_read(r->comm, from, box + sizeof *t, events, trace_bytes(t));
}

tg_trace *rank_launch_traces(Job *job, tg_trace *here) {
    RankThreads *rank_threads = job->rank_threads;
    Rank *r = &rank_threads->ranks[0];
    if (rank_threads->n == rank_threads->size) return here;
    tg_trace *all = ctx_array(job->ctx, tg_trace, rank_threads->size);
    int64_t bytes = (int64_t)(sizeof *here + here->capacity * sizeof *here->events);
    DLDataType u8 = {kDLUInt, 8, 1};
    DLTensor box;
    bool ok = tg_sym_alloc(r->comm, u8, 1, &bytes, TG_SYM_LEAN, &box) == TG_OK;
    if (ok) {
        char *events = (char *)box.data + sizeof *here;
        ok = tg_host_write(r->comm, box.data, here, sizeof *here) &&
             tg_host_write(r->comm, events, here->events, trace_bytes(here)) &&
             tg_comm_barrier(r->comm) == TG_OK;
    }
    for (int from = 0; from < rank_threads->size && r->number == 0 && ok; from++) {
        all[from] = *here;
        if (from != r->number)
            all[from].events = ctx_array(job->ctx, tg_event, (int)here->capacity);
        ok = from == r->number || read_trace(r, from, box.data, &all[from]);
    }
    ok = ok && tg_sym_free(r->comm, &box) == TG_OK;
    if (!ok) cli_error("%s", tg_last_error());
    return ok ? all : NULL;
}

/* ---- results --------------------------------------------------------------------------------- */

/// Fetches the elements of `part` from rank `from`, whose range is at `own` in symmetric memory.
static bool fetch_rank_part(const Rank *r, int from, const void *own, Tensor part) {
    uintptr_t lo, hi;
    if (!tensor_span(&part, &lo, &hi)) return true;
    char *bytes = malloc(hi - lo);
    bool ok = bytes && tg_host_read(r->comm, from, own, bytes, hi - lo);
    Tensor read = part;
    read.data = bytes + ((uintptr_t)part.data - lo);
    if (ok) tensor_copy(&part, &read);
    free(bytes);
    return ok;
}

/// Fetches the data that other processes wrote to tensors of their own.
static bool fetch_dealt(Rank *r, const Argument *a) {
    uintptr_t lo, hi;
    Tensor own = tensor_part(&a->all, r->number);
    DLTensor box;
    DLDataType u8 = {kDLUInt, 8, 1};
    if (!tensor_span(&own, &lo, &hi)) return true;
    int64_t bytes = (int64_t)(hi - lo);
    if (tg_sym_alloc(r->comm, u8, 1, &bytes, TG_SYM_LEAN, &box)) return false;
    bool ok = tg_host_write(r->comm, box.data, (const void *)lo, (size_t)bytes) &&
              tg_comm_barrier(r->comm) == TG_OK;
    for (int from = 1; from < r->rank_threads->size && r->number == 0 && ok; from++)
        ok = fetch_rank_part(r, from, box.data, tensor_part(&a->all, from));
    return tg_sym_free(r->comm, &box) == TG_OK && ok;
}

/// Copies written data to rank 0, or to the arguments of this process.
bool rank_launch_finish(Job *job) {
    RankThreads *rank_threads = job->rank_threads;
    bool ok = true;
    if (!rank_threads) return true;
    Rank *r = &rank_threads->ranks[0];
    for (int i = 0; i < rank_threads->n && ok; i++)
        ok = !rank_threads->ranks[i].mirrors || gpu_copy_back(rank_threads->ranks[i].mirrors);
    for (int k = 0; k < r->bound.n && ok; k++) {
        Argument *a = &job->args[param_of(job, k)];
        if (!r->bound.uses[k]->written || a->kind != ARG_TENSOR) continue;
        if (!is_symmetric_job_arg(job, k) && rank_threads->n == 1 && a->dealt)
            ok = fetch_dealt(r, a);
        for (int from = 0; is_symmetric_job_arg(job, k) && from < rank_threads->size && ok; from++)
            ok = fetch_rank_part(r, from, r->shards[k].own,
                                 tensor_part(&r->bound.args[k].tensor, from));
    }
    if (rank_threads->n == 1 && ok) ok = tg_comm_barrier(r->comm) == TG_OK;
    if (!ok) cli_error("%s", tg_last_error());
    return ok;
}
