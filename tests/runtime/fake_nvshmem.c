// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A stand-in for NVSHMEM's host library: the functions that comm_nvshmem.c uses, with heaps of the
// driver's virtual memory (that of fake_cuda.c). Every argument is checked as version 3 would, and
// ranks meet by a file that the identity names: starting, allocating and ending are collective.
//
// FAKE_NVSHMEM: what is wrong: "far" (memory of the next rank is not mapped), "full" (no memory),
// "late" (it does not start), "pieces" (its heap is in several).
#include "runtime/cuda.h"
#include "runtime/nvshmem.h"

#include <fcntl.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

enum { REFUSED = 7, LONGEST_S = 20, PIECE = 2 << 20 };

#define X(field, symbol, result, parameters) result symbol parameters;
NV_ENTRIES(X)
#undef X
// The functions of the driver that heaps are made of.
cu_result cuMemCreate(cu_handle *, size_t, const cu_memory *, unsigned long long);
cu_result cuMemRelease(cu_handle);
cu_result cuMemAddressReserve(cu_pointer *, size_t, size_t, cu_pointer, unsigned long long);
cu_result cuMemAddressFree(cu_pointer, size_t);
cu_result cuMemMap(cu_pointer, size_t, size_t, cu_handle, unsigned long long);
cu_result cuMemUnmap(cu_pointer, size_t);
cu_result cuMemSetAccess(cu_pointer, size_t, const cu_access *, size_t);
cu_result cuCtxGetDevice(cu_device *);

static struct {
    nv_identity id;
    int rank, ranks;
    _Atomic int *met; // of all ranks: how often one has come
    int meetings;
    cu_pointer heap; // one piece
    size_t bytes, taken;
    cu_handle handle;
    bool started;
} s;

static bool is_wrong(const char *what) {
    const char *set = getenv("FAKE_NVSHMEM");
    return set && strcmp(set, what) == 0;
}

static bool is_set(const char *name, const char *value) {
    const char *set = getenv(name);
    bool right = set && strcmp(set, value) == 0;
    if (!right) fprintf(stderr, "fake_nvshmem: %s is %s\n", name, set ? set : "not set");
    return right;
}

/// False: not all have come.
static bool meet(void) {
    time_t end = time(NULL) + LONGEST_S;
    s.meetings++;
    ++*s.met;
    while (*s.met < s.meetings * s.ranks) {
        if (time(NULL) > end) return false;
        sched_yield();
    }
    return true;
}

/* ---- what the runtime calls ------------------------------------------------------------------ */

int nvshmemx_get_uniqueid(nv_identity *id) {
    if (id->version != NV_VERSION_1 + (int)sizeof *id) return REFUSED;
    snprintf(id->internal, sizeof id->internal, "/fake-nvshmem-%d", (int)getpid());
    return 0;
}

int nvshmemx_set_attr_uniqueid_args(int rank, int ranks, const nv_identity *id, nv_attributes *a) {
    if (a->version != NV_VERSION_1 + (int)sizeof *a ||
        a->args.version != NV_VERSION_1 + (int)sizeof a->args ||
        a->args.place.version != NV_VERSION_1 + (int)sizeof a->args.place || rank < 0 ||
        rank >= ranks)
        return REFUSED;
    a->args.place.id = (nv_identity *)(uintptr_t)id;
    a->args.place.rank = rank;
    a->args.place.ranks = ranks;
    return 0;
}

/// One piece of so many bytes, on the device of the caller.
static bool make_heap(size_t bytes) {
    cu_device device;
    if (cuCtxGetDevice(&device)) return false;
    cu_memory memory = {
        .type = CU_PINNED, .handles = CU_FILE_DESCRIPTOR, .place = {CU_ON_DEVICE, device}};
    cu_access access = {.place = memory.place, .flags = CU_READ_WRITE};
    s.bytes = bytes = is_wrong("pieces") ? PIECE : bytes;
    return !cuMemCreate(&s.handle, bytes, &memory, 0) &&
           !cuMemAddressReserve(&s.heap, bytes, 0, 0, 0) &&
           !cuMemMap(s.heap, bytes, 0, s.handle, 0) && !cuMemSetAccess(s.heap, bytes, &access, 1);
}

int nvshmemx_hostlib_init_attr(unsigned flags, nv_attributes *a) {
    const char *size = getenv("NVSHMEM_SYMMETRIC_SIZE");
    if (s.started || flags != NV_WITH_IDENTITY || is_wrong("late") || !size ||
        !is_set("NVSHMEM_DISABLE_NVLS", "1") || !is_set("NVSHMEM_BOOTSTRAP", "UID") ||
        !is_set("NVSHMEM_CUMEM_GRANULARITY", size))
        return REFUSED;
    s.id = *a->args.place.id;
    s.rank = a->args.place.rank;
    s.ranks = a->args.place.ranks;
    int fd = shm_open(s.id.internal, O_CREAT | O_RDWR, 0600);
    if (fd < 0 || ftruncate(fd, 4096)) return REFUSED;
    s.met = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    s.started = s.met != MAP_FAILED && make_heap(strtoull(size, NULL, 10)) && meet();
    if (s.rank == 0) shm_unlink(s.id.internal); // all have it, or never will
    return s.started ? 0 : REFUSED;
}

/// Behind some bytes of the library's own.
void *nvshmem_malloc(size_t bytes) {
    enum { OWN = 4096 };
    if (!meet() || is_wrong("full") || (OWN + bytes > s.bytes && !is_wrong("pieces"))) return NULL;
    s.taken = bytes;
    return (void *)(uintptr_t)(s.heap + OWN);
}

void nvshmem_free(void *at) {
    if (!meet() || !at || !s.taken) fprintf(stderr, "fake_nvshmem: nvshmem_free(%p)\n", at);
    s.taken = 0;
}

void nvshmemx_hostlib_finalize(void) {
    if (!meet() || s.taken) fprintf(stderr, "fake_nvshmem: ended with memory in use\n");
    cuMemUnmap(s.heap, s.bytes);
    cuMemAddressFree(s.heap, s.bytes);
    cuMemRelease(s.handle);
    s.started = false;
}

int nvshmem_my_pe(void) {
    return s.rank;
}

void *nvshmem_ptr(const void *at, int rank) {
    bool far = is_wrong("far") && rank != s.rank;
    return far || rank < 0 || rank >= s.ranks ? NULL : (void *)(uintptr_t)at;
}
