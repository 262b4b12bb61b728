// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// NVSHMEM as the owner of symmetric memory: its library is found when it is asked for. Ranks meet
// as processes do; the library's own meeting begins with an identity that rank 0 tells the others.
// On one host its heap is mapped side by side like any other, so launches are those of
// comm_cuda_calls.c. There is no multicast.
#include "runtime/comm_cuda.h"
#include "runtime/nvshmem.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct {
#define X(field, symbol, result, parameters) result(*field) parameters;
    NV_ENTRIES(X)
#undef X
} nvshmem;

static tg_status load(void) {
    static const char name[] = "libnvshmem_host.so.3";
    const char *set = getenv("TG_NVSHMEM_LIBRARY");
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

/// What the user has not said: a heap of one piece, no transport of other hosts, ranks of this host
/// find each other by its own address.
static void set_defaults(size_t bytes) {
    char number[32];
    size_t piece = (size_t)1 << 29;
    while (piece < 2 * bytes) piece *= 2;
    snprintf(number, sizeof number, "%zu", piece);
    setenv("NVSHMEM_DISABLE_NVLS", "1", 1);
    setenv("NVSHMEM_CUMEM_GRANULARITY", number, 0);
    setenv("NVSHMEM_SYMMETRIC_SIZE", number, 0);
    setenv("NVSHMEM_BOOTSTRAP", "UID", 0);
    setenv("NVSHMEM_BOOTSTRAP_UID_SOCK_IFNAME", "lo", 0);
    setenv("NVSHMEM_BOOTSTRAP_UID_SOCK_FAMILY", "AF_INET", 0);
    setenv("NVSHMEM_REMOTE_TRANSPORT", "none", 0);
}

static tg_status join(tg_comm *c, nv_identity *all) {
    nv_attributes a = {.version = NV_VERSION_1 + sizeof a};
    a.args.version = NV_VERSION_1 + sizeof a.args;
    a.args.place.version = NV_VERSION_1 + sizeof a.args.place;
    int error = nvshmem.set_place(c->rank, c->size, &all[0], &a);
    if (!error) error = nvshmem.start(NV_WITH_IDENTITY, &a);
    if (error) return tg_fail(TG_ERROR_UNSUPPORTED, "NVSHMEM does not start: error %d", error);
    if (nvshmem.rank() == c->rank) return TG_OK;
    return tg_fail(TG_ERROR_INTERNAL, "rank %d is number %d of NVSHMEM", c->rank, nvshmem.rank());
}

/// Memory of other hosts is not mapped.
static tg_status check_mapped(const tg_comm *c, const void *heap) {
    for (int r = 0; r < c->size; r++)
        if (!nvshmem.mapped(heap, r))
            return tg_fail(TG_ERROR_UNSUPPORTED,
                           "rank %d cannot map memory of rank %d: ranks on several hosts are not "
                           "supported yet",
                           c->rank, r);
    return TG_OK;
}

tg_status rt_nvshmem_start(tg_comm *c, size_t bytes, void **heap) {
    nv_identity own = {.version = NV_VERSION_1 + sizeof own}, all[RT_COMM_RANKS];
    tg_status status = load();
    if (!status) {
        set_defaults(bytes);
        if (c->rank == 0 && nvshmem.identify(&own))
            status = tg_fail(TG_ERROR_UNSUPPORTED, "NVSHMEM gives no identity");
    }
    status = rt_comm_agree_that(c, "NVSHMEM", status);
    if (!status) status = rt_comm_allgather(c, "NVSHMEM", &own, sizeof own, all);
    if (!status) status = join(c, all);
    if (status) return status;
    *heap = nvshmem.allocate(bytes);
    if (!*heap)
        return tg_fail(TG_ERROR_MEMORY,
                       "NVSHMEM has no %zu bytes; NVSHMEM_SYMMETRIC_SIZE makes its "
                       "heap larger",
                       bytes);
    return check_mapped(c, *heap);
}

void rt_nvshmem_end(void *heap) {
    nvshmem.release(heap);
    nvshmem.end();
}
