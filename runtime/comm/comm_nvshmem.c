// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// NVSHMEM as the owner of symmetric memory. Its library is loaded when the engine "nvshmem" is
// asked for. Ranks meet as processes do; the library's own meeting then starts from an identity
// that rank 0 passes to the others.
//
// If every rank can map the memory of all ranks, the heap is mapped side by side like any other.
// Otherwise all ranks are far from each other, and the library copies by calls on streams. The
// library's waits are not used, because they have no time limit. Multicast is disabled.
#include "runtime/comm/comm_cuda.h"
#include "runtime/comm/nvshmem.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/// Bounce buffers for copies of memory that is not the library's: one for sides, one for the
/// launch's stream, one for work outside launches.
enum { BOUNCES = 3, BOUNCE_BYTES = 8 << 20 };

static struct {
#define X(field, symbol, result, parameters) result(*field) parameters;
    NV_ENTRIES(X)
#undef X
} nvshmem;

static tg_status load_nvshmem(void) {
    static const char name[] = "libnvshmem_host.so.3";
    const char *set = secure_getenv("TG_NVSHMEM_LIBRARY");
    const char *file = set && *set ? set : name;
    void *library = dlopen(file, RTLD_NOW | RTLD_GLOBAL);
    if (!library)
        return tg_fail(TG_ERROR_UNSUPPORTED,
                       "NVSHMEM cannot be loaded: %s; TG_NVSHMEM_LIBRARY names its file (%s of "
                       "NVIDIA's package nvshmem)",
                       dlerror(), name);
    const char *missing = NULL;
#define X(field, symbol, result, parameters)                                                       \
    *(void **)&nvshmem.field = dlsym(library, #symbol);                                            \
    if (!nvshmem.field) missing = #symbol;
    NV_ENTRIES(X)
#undef X
    if (!missing) return TG_OK;
    return tg_fail(TG_ERROR_UNSUPPORTED, "%s has no %s: version 3 is needed", file, missing);
}

/// Sets the options that the user has not set: a heap in one piece. If all ranks are on one host,
/// it needs no remote transport, and ranks find each other by the loopback address.
static void set_defaults(size_t bytes, bool one_host) {
    char number[32];
    size_t piece = (size_t)1 << 29;
    while (piece < 2 * (bytes + BOUNCES * BOUNCE_BYTES)) piece *= 2;
    snprintf(number, sizeof number, "%zu", piece);
    setenv("NVSHMEM_DISABLE_NVLS", "1", 1);
    setenv("NVSHMEM_CUMEM_GRANULARITY", number, 0);
    setenv("NVSHMEM_SYMMETRIC_SIZE", number, 0);
    setenv("NVSHMEM_BOOTSTRAP", "UID", 0);
    if (!one_host) return;
    setenv("NVSHMEM_BOOTSTRAP_UID_SOCK_IFNAME", "lo", 0);
    setenv("NVSHMEM_BOOTSTRAP_UID_SOCK_FAMILY", "AF_INET", 0);
    setenv("NVSHMEM_REMOTE_TRANSPORT", "none", 0);
}

static tg_status join_nvshmem(tg_comm *c, nv_identity *all) {
    nv_attributes a = {.version = NV_VERSION_1 + sizeof a};
    a.args.version = NV_VERSION_1 + sizeof a.args;
    a.args.place.version = NV_VERSION_1 + sizeof a.args.place;
    int error = nvshmem.set_place(c->rank, c->size, &all[0], &a);
    if (!error) error = nvshmem.start(NV_WITH_IDENTITY, &a);
    if (error) return tg_fail(TG_ERROR_UNSUPPORTED, "NVSHMEM does not start: error %d", error);
    if (nvshmem.rank() == c->rank) return TG_OK;
    return tg_fail(TG_ERROR_INTERNAL, "rank %d is number %d of NVSHMEM", c->rank, nvshmem.rank());
}

/// Ranks that wait on own memory see the data after a flag only if the data was written first.
static tg_status check_write_order(const rt_cuda_comm *g) {
    enum { FOR_ITSELF = 100 };
    const rt_cuda *cu = rt_cuda_driver();
    cu_device device;
    int order = 0;
    cu_result error = cu->device(&device, g->device->number);
    if (!error) error = cu->device_attribute(&order, CU_ORDER_OF_WRITES, device);
    if (!error && order >= FOR_ITSELF) return TG_OK;
    return tg_fail(TG_ERROR_UNSUPPORTED,
                   "device %d (%s) does not see what network adapters write to it in their order, "
                   "which ranks on several hosts need",
                   g->device->number, g->device->name);
}

/// Sets g->far if any rank cannot map the memory of another rank, or cannot pass descriptors of it.
/// All ranks agree on it. TG_COMM_MAP=0 makes all ranks far.
static tg_status find_far(rt_cuda_comm *g) {
    tg_comm *c = g->comm;
    const char *set = secure_getenv("TG_COMM_MAP");
    bool far = !c->engine->pass || (set && strcmp(set, "0") == 0 && c->size > 1), away = false;
    bool ranks[RT_COMM_RANKS];
    for (int r = 0; r < c->size; r++) away |= !nvshmem.mapped(g->library_heap, r);
    tg_status status = rt_comm_agree_that(c, "NVSHMEM", away ? check_write_order(g) : TG_OK);
    far |= away;
    if (!status) status = rt_comm_allgather(c, "NVSHMEM", &far, sizeof far, ranks);
    for (int r = 0; r < c->size && !status; r++) g->far |= ranks[r];
    return status;
}

/// Allocates heap memory. NULL: out of memory; the failure is recorded.
static void *allocate_nvshmem(size_t bytes) {
    void *at = nvshmem.allocate(bytes);
    if (!at)
        tg_fail(TG_ERROR_MEMORY,
                "NVSHMEM has no %zu bytes; NVSHMEM_SYMMETRIC_SIZE makes its "
                "heap larger",
                bytes);
    return at;
}

/// Finds out whether all ranks are on one host.
static tg_status find_hosts(tg_comm *c, bool *one) {
    uint64_t own = rt_comm_host(), all[RT_COMM_RANKS];
    tg_status status = rt_comm_allgather(c, "NVSHMEM", &own, sizeof own, all);
    *one = true;
    for (int r = 0; r < c->size && !status; r++) *one &= all[r] == own;
    return status;
}

tg_status rt_nvshmem_start(rt_cuda_comm *g, size_t bytes) {
    tg_comm *c = g->comm;
    nv_identity own = {.version = NV_VERSION_1 + sizeof own}, all[RT_COMM_RANKS];
    bool one_host;
    tg_status status = find_hosts(c, &one_host);
    if (status) return status;
    status = load_nvshmem();
    if (!status) {
        set_defaults(bytes, one_host);
        if (c->rank == 0 && nvshmem.identify(&own))
            status = tg_fail(TG_ERROR_UNSUPPORTED, "NVSHMEM gives no identity");
    }
    status = rt_comm_agree_that(c, "NVSHMEM", status);
    if (!status) status = rt_comm_allgather(c, "NVSHMEM", &own, sizeof own, all);
    if (status) return status;
    status = rt_comm_agree_that(c, "NVSHMEM", join_nvshmem(c, all));
    if (status) return status;
    g->library_heap = allocate_nvshmem(bytes);
    status = rt_comm_agree_that(c, "NVSHMEM", g->library_heap ? TG_OK : TG_ERROR_MEMORY);
    if (!status) status = find_far(g);
    if (status || !g->far) return status;
    g->bounce = allocate_nvshmem(BOUNCES * BOUNCE_BYTES);
    return g->bounce ? TG_OK : TG_ERROR_MEMORY;
}

/// All ranks end the library together, as its calls wait forever for a missing rank. If one rank
/// leaves without the others, no rank ends the library.
void rt_nvshmem_end(rt_cuda_comm *g) {
    tg_status status = g->comm->leaves ? TG_ERROR_RANK : TG_OK;
    if (rt_comm_agree_that(g->comm, "NVSHMEM", status)) return;
    if (g->bounce) nvshmem.release(g->bounce);
    nvshmem.release(g->library_heap);
    nvshmem.end();
}

/* ---- ranks that are far ---------------------------------------------------------------------- */

static cu_pointer flat_base(const rt_cuda_comm *g, int rank) {
    return g->flat + g->stride * (size_t)rank;
}

/// Translates a place of a rank's memory to the library's address, which is the same for all ranks.
/// NULL: the place is outside the library's heap.
static void *library_of(const rt_cuda_comm *g, int rank, cu_pointer at) {
    cu_pointer base = flat_base(g, rank);
    if (at < base || at - base >= g->stride - g->offset) return NULL;
    return (char *)g->library_heap + (at - base);
}

/// The bounce buffer of a stream. The order of a stream separates its copies through the buffer.
static char *bounce_of(const rt_cuda_comm *g, cu_stream stream) {
    int place = stream == g->own ? 2 : stream == g->stream ? 1 : 0;
    return (char *)g->bounce + (size_t)place * BOUNCE_BYTES;
}

/// Allows the library to load kernels at their first use, in a capture as well.
static rt_entered may_load(const rt_cuda_comm *g) {
    rt_entered e = {.mode = -1};
    if (g->captured) rt_relax(&e);
    return e;
}

static void may_not_load(const rt_cuda_comm *g, rt_entered e) {
    if (g->captured) rt_strict(&e);
}

static void call_on(const rt_cuda_comm *g, char *there, char *here, size_t bytes, int rank,
                    cu_stream stream, bool puts) {
    rt_entered e = may_load(g);
    if (puts)
        nvshmem.put(there, here, bytes, rank, stream);
    else
        nvshmem.get(here, there, bytes, rank, stream);
    may_not_load(g, e);
}

static tg_status copy_here(cu_pointer to, cu_pointer from, size_t bytes, cu_stream stream) {
    cu_result error = rt_cuda_driver()->on_device(to, from, bytes, stream);
    return error ? rt_cuda_fail("cuMemcpyDtoDAsync", error, "a copy between ranks") : TG_OK;
}

static size_t bounce_bytes_of(size_t left) {
    return left < BOUNCE_BYTES ? left : BOUNCE_BYTES;
}

/// Copies between `away` of the rank and `own` here. Both are addresses of the flat mapping, or
/// other memory of this device.
static tg_status move_nvshmem(rt_cuda_comm *g, int rank, cu_pointer away, cu_pointer own,
                              size_t bytes, cu_stream stream, bool puts) {
    char *there = library_of(g, rank, away), *here = library_of(g, g->comm->rank, own);
    char *bounce = bounce_of(g, stream);
    tg_status status = TG_OK;
    if (here) {
        call_on(g, there, here, bytes, rank, stream, puts);
        return TG_OK;
    }
    for (size_t at = 0, n; at < bytes && !status; at += n) {
        n = bounce_bytes_of(bytes - at);
        if (puts) status = copy_here((uintptr_t)bounce, own + at, n, stream);
        if (!status) call_on(g, there + at, bounce, n, rank, stream, puts);
        if (!puts) status = copy_here(own + at, (uintptr_t)bounce, n, stream);
    }
    return status;
}

tg_status rt_nvshmem_put(rt_cuda_comm *g, int rank, cu_pointer to, cu_pointer from, size_t bytes,
                         cu_stream stream) {
    return move_nvshmem(g, rank, to, from, bytes, stream, true);
}

tg_status rt_nvshmem_get(rt_cuda_comm *g, int rank, cu_pointer to, cu_pointer from, size_t bytes,
                         cu_stream stream) {
    return move_nvshmem(g, rank, from, to, bytes, stream, false);
}

void rt_nvshmem_quiet(rt_cuda_comm *g, cu_stream stream) {
    rt_entered e = may_load(g);
    nvshmem.quiet(stream);
    may_not_load(g, e);
}

tg_status rt_nvshmem_fetch(rt_cuda_comm *g, int rank, cu_pointer from, void *to, size_t bytes) {
    const rt_cuda *cu = rt_cuda_driver();
    const char *there = library_of(g, rank, from);
    char *bounce = bounce_of(g, g->own);
    cu_result error = 0;
    for (size_t at = 0, n; at < bytes && !error; at += n) {
        n = bounce_bytes_of(bytes - at);
        nvshmem.get(bounce, there + at, n, rank, g->own);
        error = cu->to_host((char *)to + at, (uintptr_t)bounce, n, g->own);
        if (!error) error = cu->stream_synchronize(g->own);
    }
    return error ? rt_cuda_fail("cuMemcpyDtoH", error, "a copy from rank %d", rank) : TG_OK;
}
