// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A stand-in for NVSHMEM's host library: the functions that comm_nvshmem.c uses, with heaps of the
// driver's virtual memory (that of fake_cuda.c). Every argument is checked as version 3 would.
// Ranks meet by a file that the identity names: starting, allocating and ending are collective.
//
// Copies on a stream are kernels of the driver, as between hosts, and only they access the others'
// heaps. A put is held back for a while. A later put of this rank, to any rank, overtakes it unless
// a quiet is between them.
//
// FAKE_NVSHMEM: "far": memory of the others is not mapped; or a fault: "full" (no memory), "late"
// (it does not start), "nameless" (it gives no identity), "pieces" (its heap is in several).
// FAKE_NVSHMEM_HOSTS: ranks are on several hosts.
#include "runtime/comm/nvshmem.h"
#include "runtime/gpu/cuda.h"
#include "tests/runtime/fake_cuda.h"

#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

enum { REFUSED = 7, LONGEST_S = 20, PIECE = 2 << 20, RANKS = 8, TAKEN = 4, PAGE = 4096 };
enum { HELD_NS = 300000 };

#define X(field, symbol, result, parameters) result symbol parameters;
NV_ENTRIES(X)
#undef X
// The driver's functions for heaps.
cu_result cuMemCreate(cu_handle *, size_t, const cu_memory *, unsigned long long);
cu_result cuMemRelease(cu_handle);
cu_result cuMemAddressReserve(cu_pointer *, size_t, size_t, cu_pointer, unsigned long long);
cu_result cuMemAddressFree(cu_pointer, size_t);
cu_result cuMemMap(cu_pointer, size_t, size_t, cu_handle, unsigned long long);
cu_result cuMemUnmap(cu_pointer, size_t);
cu_result cuMemSetAccess(cu_pointer, size_t, const cu_access *, size_t);
cu_result cuCtxGetDevice(cu_device *);
cu_result cuModuleLoadDataEx(cu_module *, const void *, unsigned, int *, void **);
cu_result cuModuleUnload(cu_module);
cu_result cuModuleGetFunction(cu_function *, cu_module, const char *);
cu_result cuLaunchKernel(cu_function, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                         unsigned, cu_stream, void **, void **);

/// State that all ranks share.
typedef struct Shared {
    _Atomic int met; // number of arrivals
    struct {
        int pid, fd; // descriptor of the heap
    } heaps[RANKS];
} Shared;
_Static_assert(sizeof(Shared) <= PAGE, "");

typedef struct Place {
    char *at;
    size_t bytes; // 0: free
} Place;

static struct {
    nv_identity id;
    int rank, ranks;
    Shared *shared;
    int meetings;
    cu_pointer heap; // one piece
    size_t bytes;
    Place taken[TAKEN];
    cu_handle handle;
    char *others[RANKS]; // addresses of their heaps
    cu_module module;
    cu_function put, get, quiet;
    bool started;
} s;

/// A put in flight.
static struct {
    pthread_mutex_t lock;
    pthread_t thread;
    char *to, *data;
    size_t bytes; // 0: none
    struct timespec since;
    bool ends;
} held = {.lock = PTHREAD_MUTEX_INITIALIZER};

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

/// False: not all ranks have come.
static bool meet(void) {
    time_t end = time(NULL) + LONGEST_S;
    s.meetings++;
    ++s.shared->met;
    while (s.shared->met < s.meetings * s.ranks) {
        if (time(NULL) > end) return false;
        sched_yield();
    }
    return true;
}

static void wrong(const char *call, const char *what) {
    fprintf(stderr, "fake_nvshmem: %s: %s\n", call, what);
}

/* ---- copies ---------------------------------------------------------------------------------- */

/// Other ranks may read words of 8 bytes meanwhile.
static void copy_bytes(char *to, const char *from, size_t bytes) {
    if (bytes > 16 || bytes % 8) {
        memcpy(to, from, bytes);
        return;
    }
    for (size_t i = 0; i < bytes; i += 8)
        __atomic_store_n(
            (int64_t *)(void *)(to + i),
            __atomic_load_n((const int64_t *)(const void *)(from + i), __ATOMIC_ACQUIRE),
            __ATOMIC_RELEASE);
}

/// Under the lock.
static void deliver(void) {
    if (!held.bytes) return;
    copy_bytes(held.to, held.data, held.bytes);
    free(held.data);
    held.bytes = 0;
}

static bool is_due(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (now.tv_sec - held.since.tv_sec) * 1000000000 + now.tv_nsec - held.since.tv_nsec >
           HELD_NS;
}

static void *deliver_late(void *state) {
    for (bool ends = false; !ends;) {
        nanosleep(&(struct timespec){.tv_nsec = HELD_NS / 3}, NULL);
        pthread_mutex_lock(&held.lock);
        if (is_due()) deliver();
        ends = held.ends;
        pthread_mutex_unlock(&held.lock);
    }
    return state;
}

static void put_kernel(const FakeLaunch *launch, void **args) {
    char *to = *(char **)args[0];
    const char *from = *(char **)args[1];
    size_t bytes = *(uint64_t *)args[2];
    (void)launch;
    pthread_mutex_lock(&held.lock);
    if (held.bytes || !(held.data = malloc(bytes))) {
        copy_bytes(to, from, bytes);
    } else {
        held.to = to;
        held.bytes = bytes;
        copy_bytes(held.data, from, bytes);
        clock_gettime(CLOCK_MONOTONIC, &held.since);
    }
    pthread_mutex_unlock(&held.lock);
}

static void get_kernel(const FakeLaunch *launch, void **args) {
    (void)launch;
    copy_bytes(*(char **)args[0], *(char **)args[1], *(uint64_t *)args[2]);
}

static void quiet_kernel(const FakeLaunch *launch, void **args) {
    (void)launch, (void)args;
    pthread_mutex_lock(&held.lock);
    deliver();
    pthread_mutex_unlock(&held.lock);
}

/// Loads the kernels' module once in a process.
static bool load_kernels(void) {
    static const char text[] = ".version 7.0\n.target sm_80\n.address_size 64\n";
    static const size_t copy[] = {8, 8, 8};
    static bool added;
    if (!added) {
        fake_kernel("nvshmem_put", put_kernel, 3, copy);
        fake_kernel("nvshmem_get", get_kernel, 3, copy);
        fake_kernel("nvshmem_quiet", quiet_kernel, 0, copy);
    }
    added = true;
    held.ends = false;
    return !cuModuleLoadDataEx(&s.module, text, 0, NULL, NULL) &&
           !cuModuleGetFunction(&s.put, s.module, "nvshmem_put") &&
           !cuModuleGetFunction(&s.get, s.module, "nvshmem_get") &&
           !cuModuleGetFunction(&s.quiet, s.module, "nvshmem_quiet") &&
           !pthread_create(&held.thread, NULL, deliver_late, NULL);
}

static bool is_taken(const void *at, size_t bytes) {
    for (int i = 0; i < TAKEN; i++) {
        const Place *p = &s.taken[i];
        if ((const char *)at >= p->at && (const char *)at + bytes <= p->at + p->bytes) return true;
    }
    return false;
}

/// Returns the kernel of a copy between the own memory and a rank's.
static void copy_on(const char *call, bool puts, void *to, const void *from, size_t bytes, int rank,
                    cu_stream stream) {
    if (!s.started || rank < 0 || rank >= s.ranks || rank == s.rank || !bytes || !stream)
        wrong(call, "arguments");
    if (!is_taken(to, bytes) || !is_taken(from, bytes)) wrong(call, "memory that is not its own");
    const char *remote = puts ? to : from;
    char *there = s.others[rank] + (remote - (const char *)(uintptr_t)s.heap);
    uint64_t n = bytes;
    void *args[] = {puts ? (void *)&there : &to, puts ? &from : (void *)&there, &n};
    if (cuLaunchKernel(puts ? s.put : s.get, 1, 1, 1, 1, 1, 1, 0, stream, args, NULL))
        wrong(call, "no launch");
}

void nvshmemx_putmem_on_stream(void *to, const void *from, size_t bytes, int rank,
                               cu_stream stream) {
    copy_on(__func__, true, to, from, bytes, rank, stream);
}

void nvshmemx_getmem_on_stream(void *to, const void *from, size_t bytes, int rank,
                               cu_stream stream) {
    copy_on(__func__, false, to, from, bytes, rank, stream);
}

void nvshmemx_quiet_on_stream(cu_stream stream) {
    if (cuLaunchKernel(s.quiet, 1, 1, 1, 1, 1, 1, 0, stream, NULL, NULL))
        wrong(__func__, "no launch");
}

/* ---- entry points for the runtime ------------------------------------------------------------ */

int nvshmemx_get_uniqueid(nv_identity *id) {
    if (is_wrong("nameless")) return REFUSED;
    if (id->version != NV_VERSION_1 + (int)sizeof *id) return REFUSED;
    const char *tag = getenv("FAKE_NVSHMEM_TAG"); // tag of the caller, to find leftovers
    snprintf(id->internal, sizeof id->internal, "/fake-nvshmem-%.40s-%d", tag ? tag : "",
             (int)getpid());
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

/// Makes the heap in one piece, on the caller's device.
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

/// Maps the others' heaps at private addresses.
static bool map_others(void) {
    for (int r = 0; r < s.ranks; r++) {
        char name[64];
        if (r == s.rank) continue;
        snprintf(name, sizeof name, "/proc/%d/fd/%d", s.shared->heaps[r].pid,
                 s.shared->heaps[r].fd);
        int fd = open(name, O_RDWR);
        void *at = mmap(NULL, s.bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        if (fd >= 0) close(fd);
        if (at == MAP_FAILED) return false;
        s.others[r] = at;
    }
    return true;
}

/// Ranks of one host set themselves up; for several hosts the library looks for the network.
static bool is_set_up(const char *size) {
    bool hosts = getenv("FAKE_NVSHMEM_HOSTS") != NULL;
    return is_set("NVSHMEM_DISABLE_NVLS", "1") && is_set("NVSHMEM_BOOTSTRAP", "UID") &&
           is_set("NVSHMEM_CUMEM_GRANULARITY", size) &&
           (hosts ? !getenv("NVSHMEM_REMOTE_TRANSPORT") &&
                        !getenv("NVSHMEM_BOOTSTRAP_UID_SOCK_IFNAME")
                  : is_set("NVSHMEM_REMOTE_TRANSPORT", "none") &&
                        is_set("NVSHMEM_BOOTSTRAP_UID_SOCK_IFNAME", "lo"));
}

int nvshmemx_hostlib_init_attr(unsigned flags, nv_attributes *a) {
    const char *size = getenv("NVSHMEM_SYMMETRIC_SIZE");
    if (s.started || flags != NV_WITH_IDENTITY || is_wrong("late") || !size || !is_set_up(size))
        return REFUSED;
    s.id = *a->args.place.id;
    s.rank = a->args.place.rank;
    s.ranks = a->args.place.ranks;
    int fd = shm_open(s.id.internal, O_CREAT | O_RDWR, 0600);
    if (fd < 0 || s.ranks > RANKS || ftruncate(fd, PAGE)) return REFUSED;
    s.shared = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    if (s.shared == MAP_FAILED || !make_heap(strtoull(size, NULL, 10))) return REFUSED;
    s.shared->heaps[s.rank].pid = (int)getpid();
    s.shared->heaps[s.rank].fd = (int)s.handle - 1; // fake_memory.h
    s.started = meet() && map_others() && load_kernels();
    if (s.rank == 0) shm_unlink(s.id.internal); // all ranks have opened it, or never will
    return s.started ? 0 : REFUSED;
}

/// Allocates after some bytes of the library's own.
void *nvshmem_malloc(size_t bytes) {
    enum { OWN = 4096, GRAIN = 512 };
    size_t used = OWN;
    int i = 0;
    for (; i < TAKEN && s.taken[i].bytes; i++)
        used = (size_t)(s.taken[i].at - (char *)(uintptr_t)s.heap) + s.taken[i].bytes;
    used = (used + GRAIN - 1) / GRAIN * GRAIN;
    if (!meet() || i == TAKEN || is_wrong("full") ||
        (used + bytes > s.bytes && !is_wrong("pieces")))
        return NULL;
    s.taken[i] = (Place){(char *)(uintptr_t)(s.heap + used), bytes};
    return s.taken[i].at;
}

void nvshmem_free(void *at) {
    int i = 0;
    while (i < TAKEN - 1 && (s.taken[i].at != at || !s.taken[i].bytes)) i++;
    if (!meet() || !at || s.taken[i].at != at) wrong(__func__, "not of nvshmem_malloc");
    s.taken[i].bytes = 0;
}

static void end_copies(void) {
    pthread_mutex_lock(&held.lock);
    deliver();
    held.ends = true;
    pthread_mutex_unlock(&held.lock);
    pthread_join(held.thread, NULL);
    cuModuleUnload(s.module);
}

void nvshmemx_hostlib_finalize(void) {
    end_copies();
    if (!meet()) wrong(__func__, "not all have come");
    for (int i = 0; i < TAKEN; i++)
        if (s.taken[i].bytes) wrong(__func__, "memory is in use");
    for (int r = 0; r < s.ranks; r++)
        if (s.others[r]) munmap(s.others[r], s.bytes);
    memset(s.others, 0, sizeof s.others);
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
