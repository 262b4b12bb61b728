// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Creates and destroys the ranks of a group (communicators) and answers questions about them.
#include "runtime/comm/comm.h"
#include "runtime/runtime.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static const size_t default_heap = (size_t)1 << 30, heap_grain = (size_t)1 << 16;
enum { DEFAULT_TIMEOUT_MS = 30000 };

/* ---- options --------------------------------------------------------------------------------- */

static const char *set_in(const char *variable) {
    const char *value = secure_getenv(variable);
    return value && *value ? value : NULL;
}

/// Reads a whole number from the environment. *out is `otherwise` if the variable is not set.
static tg_status read_env_number(const char *variable, int64_t otherwise, int64_t most,
                                 int64_t *out) {
    const char *text = set_in(variable);
    char *end;
    *out = otherwise;
    if (!text) return TG_OK;
    errno = 0;
    long long value = strtoll(text, &end, 10);
    if (errno || *end || value < 0 || value > most)
        return tg_fail(TG_ERROR_ARGUMENT, "%s=%s: this is not a number from 0 to %lld", variable,
                       text, (long long)most);
    *out = value;
    return TG_OK;
}

/// Takes the options that the caller has not set from the environment.
static tg_status read_environment(tg_comm_options *o) {
    int64_t rank, ranks, heap, timeout;
    tg_status status = read_env_number("TG_RANK", -1, RT_COMM_RANKS - 1, &rank);
    if (!status) status = read_env_number("TG_RANKS", 0, RT_COMM_RANKS, &ranks);
    if (!status)
        status = read_env_number("TG_COMM_HEAP", (int64_t)default_heap, INT64_MAX / 2, &heap);
    if (!status)
        status = read_env_number("TG_COMM_TIMEOUT_MS", DEFAULT_TIMEOUT_MS, INT32_MAX, &timeout);
    if (status) return status;
    if (!o->engine) o->engine = set_in("TG_COMM");
    if (!o->engine && set_in("OMPI_COMM_WORLD_SIZE")) o->engine = "openshmem";
    if (!o->engine && rank >= 0 && ranks > 0) o->engine = "processes";
    if (!o->meet) o->meet = set_in("TG_MEET");
    if (o->rank < 0) o->rank = (int)rank;
    if (!o->ranks) o->ranks = (int)ranks;
    if (!o->heap) o->heap = (size_t)heap;
    if (!o->timeout_ms) o->timeout_ms = timeout ? (int)timeout : DEFAULT_TIMEOUT_MS;
    return TG_OK;
}

static tg_status read_comm_options(const tg_comm_options *options, tg_comm_options *o) {
    *o = (tg_comm_options){.rank = -1, .device = TG_COMM_CPU};
    if (options) {
        if (options->size < offsetof(tg_comm_options, heap))
            return tg_fail(TG_ERROR_ARGUMENT,
                           "tg_comm_create: size must be sizeof(tg_comm_options)");
        memcpy(o, options, options->size < sizeof *o ? options->size : sizeof *o);
    }
    tg_status status = read_environment(o);
    if (status) return status;
    if (!o->engine)
        return tg_fail(TG_ERROR_ARGUMENT,
                       "tg_comm_create: no engine: name one, set TG_COMM, set TG_RANK and TG_RANKS "
                       "(processes), or start the program by oshrun");
    if (o->timeout_ms < 0)
        return tg_fail(TG_ERROR_ARGUMENT, "tg_comm_create: timeout_ms is %d", o->timeout_ms);
    return TG_OK;
}

/// Checks rank, number of ranks and meeting place, for engines that take them from the options.
tg_status rt_comm_place(const tg_comm_options *o) {
    if (o->ranks == 0)
        return tg_fail(TG_ERROR_ARGUMENT,
                       "tg_comm_create: the number of ranks is unknown: set `ranks` or "
                       "TG_RANKS, and `rank` or TG_RANK of each");
    if (o->ranks < 1 || o->ranks > RT_COMM_RANKS)
        return tg_fail(TG_ERROR_ARGUMENT, "tg_comm_create: %d ranks; 1 to %d can meet", o->ranks,
                       RT_COMM_RANKS);
    if (o->rank < 0)
        return tg_fail(TG_ERROR_ARGUMENT,
                       "tg_comm_create: the number of this rank (of %d) is unknown: set `rank` or "
                       "TG_RANK, from 0 to %d",
                       o->ranks, o->ranks - 1);
    if (o->rank >= o->ranks)
        return tg_fail(TG_ERROR_ARGUMENT, "tg_comm_create: rank %d of %d ranks", o->rank, o->ranks);
    if (!o->meet || !*o->meet)
        return tg_fail(TG_ERROR_ARGUMENT,
                       "tg_comm_create: ranks have no place to meet: set `meet` or TG_MEET to one "
                       "name for all of them");
    return TG_OK;
}

tg_status rt_comm_nobody_came(const tg_comm_options *o, int missing) {
    return tg_fail(TG_ERROR_RANK,
                   "tg_comm_create: rank %d waited %g s at '%s' for rank %d, which did not come",
                   o->rank, o->timeout_ms / 1e3, o->meet, missing);
}

/// A kind of communicator: the engine by which ranks meet, and the memory of ranks with a GPU.
typedef struct CommKind {
    const char *name;
    const rt_engine *engine;
    const rt_memory *device;
} CommKind;

static const CommKind *find_comm_kind(const char *name) {
    static const CommKind kinds[] = {
        {"threads", &rt_engine_threads, &rt_memory_cuda},
        {"processes", &rt_engine_processes, &rt_memory_cuda},
        {"openshmem", &rt_engine_shmem, &rt_memory_cuda},
        {"nvshmem", &rt_engine_processes, &rt_memory_nvshmem},
    };
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (strcmp(kinds[i].name, name) == 0) return &kinds[i];
    tg_fail(TG_ERROR_ARGUMENT,
            "tg_comm_create: no engine '%s'; threads, processes, openshmem and nvshmem are there",
            name);
    return NULL;
}

/* ---- ends of a group ------------------------------------------------------------------------- */

/// The heap of the host begins after the control block.
static tg_status host_create(tg_comm *c, size_t bytes) {
    size_t at = rt_round_up(sizeof(rt_control), heap_grain);
    c->heap = (rt_heap){.flat = c->host.flat + at,
                        .own = c->host.own + at,
                        .stride = c->host.stride,
                        .bytes = bytes,
                        .mapped = c->host.mapped};
    return TG_OK;
}

static void host_destroy(tg_comm *c) {
    (void)c;
}

static tg_status host_clear(tg_comm *c, void *own, size_t bytes) {
    (void)c;
    memset(own, 0, bytes);
    return TG_OK;
}

static tg_status host_settle(tg_comm *c) {
    (void)c;
    return TG_OK;
}

const rt_memory rt_memory_host = {.create = host_create,
                                  .destroy = host_destroy,
                                  .clear = host_clear,
                                  .settle = host_settle,
                                  .calls = &rt_host_calls};

/// Meets by the engine and creates all other parts of the communicator. On failure nothing is left.
static tg_status start_comm(tg_comm *c, const tg_comm_options *o, size_t heap) {
    bool host = o->device == TG_COMM_CPU;
    size_t bytes = rt_round_up(sizeof(rt_control), heap_grain) + (host ? heap : 0);
    tg_status status = c->engine->create(c, o, bytes);
    if (status) return status;
    c->control = (rt_control *)(void *)c->host.own;
    int gpus = o->device == TG_COMM_GPU ? tg_device_count() : 0;
    if (o->device == TG_COMM_GPU) c->device = gpus > 0 ? c->rank % gpus : 0;
    status = c->memory->create(c, heap);
    if (!status) {
        if (c->device >= 0)
            status =
                rt_comm_allgather(c, "tg_comm_create", &c->device, sizeof c->device, c->devices);
        if (!status) status = rt_sym_create(c);
        if (!status) return TG_OK;
        c->memory->destroy(c);
    }
    c->engine->destroy(c);
    return status;
}

tg_status rt_comm_open(const rt_engine *engine, const rt_memory *memory, const tg_comm_options *o,
                       tg_comm **out) {
    tg_options hooks = rt_default_hooks();
    tg_comm *c = rt_allocate(&hooks, sizeof *c);
    if (!c) return tg_fail(TG_ERROR_MEMORY, "out of memory");
    memset(c, 0, sizeof *c);
    c->engine = engine;
    c->memory = memory;
    c->device = o->device;
    c->timeout_ns = (int64_t)o->timeout_ms * 1000000;
    tg_status status = start_comm(c, o, rt_round_up(o->heap, heap_grain));
    if (status) {
        rt_release(&hooks, c, sizeof *c);
        return status;
    }
    c->calls = *c->memory->calls;
    c->calls.rank = c->rank;
    c->calls.size = c->size;
    pthread_mutex_init(&c->lock, NULL);
    *out = c;
    return TG_OK;
}

tg_status tg_comm_create(const tg_comm_options *options, tg_comm **out) {
    if (!out) return tg_fail(TG_ERROR_ARGUMENT, "tg_comm_create: out is NULL");
    *out = NULL;
    tg_comm_options o;
    tg_status status = read_comm_options(options, &o);
    const CommKind *kind = status ? NULL : find_comm_kind(o.engine);
    if (!kind) return TG_ERROR_ARGUMENT;
    if (o.device < TG_COMM_GPU)
        return tg_fail(TG_ERROR_ARGUMENT, "tg_comm_create: there is no device %d", o.device);
    if (kind->device == &rt_memory_nvshmem && o.device == TG_COMM_CPU)
        return tg_fail(TG_ERROR_ARGUMENT,
                       "tg_comm_create: ranks of nvshmem have a GPU each; `device` says which");
    return rt_comm_open(kind->engine, o.device == TG_COMM_CPU ? &rt_memory_host : kind->device, &o,
                        out);
}

/// If this rank cannot meet the others, it leaves without them (c->leaves). Memory of this rank
/// that they have mapped stays valid for them.
void tg_comm_destroy(tg_comm *c) {
    if (!c) return;
    tg_options hooks = rt_default_hooks();
    c->memory->settle(c);
    c->leaves = rt_comm_is_lost(c) || rt_comm_meet(c, "tg_comm_destroy") != TG_OK;
    rt_comm_forget(c);
    rt_sym_destroy(c);
    c->memory->destroy(c);
    c->engine->destroy(c);
    pthread_mutex_destroy(&c->lock);
    rt_release(&hooks, c, sizeof *c);
}

DLDevice rt_comm_device(const tg_comm *c) {
    const rt_cuda *cu = c->device < 0 ? NULL : rt_cuda_driver();
    DLDeviceType type = !cu ? kDLCPU : cu->maker->hip ? kDLROCM : kDLCUDA;
    return (DLDevice){type, cu ? c->device : 0};
}

/// Returns the number of different GPUs of all ranks.
static int count_gpus(const tg_comm *c) {
    int n = 0;
    for (int r = 0; r < c->size && c->device >= 0; r++) {
        int before = 0;
        while (before < r && c->devices[before] != c->devices[r]) before++;
        n += before == r;
    }
    return n;
}

/// Ranks that are processes count as near, since ranks of one host access each other's memory. The
/// exception is two processes whose GPUs have the same number: it may be one GPU, or a different
/// GPU in each process.
tg_ranks rt_comm_ranks(const tg_comm *c, int threads) {
    bool together = c->engine == &rt_engine_threads;
    bool likely = together || c->engine == &rt_engine_processes;
    tg_ranks out = {.n = c->size, .rank = c->rank, .threads = threads, .gpus = count_gpus(c)};
    if (c->device >= 0) out.devices = c->devices;
    out.near = likely && c->memory != &rt_memory_nvshmem &&
               (together || c->device < 0 || out.gpus == c->size);
    return out;
}

int tg_comm_rank(const tg_comm *c) {
    return c ? c->rank : 0;
}

int tg_comm_ranks(const tg_comm *c) {
    return c ? c->size : 1;
}

tg_status tg_comm_barrier(tg_comm *c) {
    if (!c) return tg_fail(TG_ERROR_ARGUMENT, "tg_comm_barrier: comm is NULL");
    pthread_mutex_lock(&c->lock);
    tg_status status = c->memory->settle(c);
    if (!status) status = rt_comm_meet(c, "tg_comm_barrier");
    pthread_mutex_unlock(&c->lock);
    return status;
}
