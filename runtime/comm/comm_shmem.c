// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Ranks that oshrun started, on one host or several. The OpenSHMEM library of the system is loaded,
// not linked.
//
// Between ranks of one host, the library shows another rank's memory (shmem_ptr), which is a shared
// mapping. A second mapping of the same pages, side by side with those of the other ranks, makes
// the direct view. If the library does not show it, ranks reach each other by puts and gets.
//
// The library's collective calls wait forever for a dead rank. A rank that has seen a death
// therefore makes no more collective calls: it neither finalizes the library nor frees its memory.
#include "runtime/comm/comm.h"
#include "runtime/runtime.h"

#include <dlfcn.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/// The used functions of OpenSHMEM 1.4.
typedef struct Shmem {
    int (*init_thread)(int requested, int *provided);
    void (*finalize)(void);
    int (*my_pe)(void);
    int (*n_pes)(void);
    void *(*align)(size_t alignment, size_t bytes);
    void (*free)(void *memory);
    void *(*ptr)(const void *memory, int rank);
    void (*barrier_all)(void);
    void (*putmem)(void *to, const void *from, size_t bytes, int rank);
    void (*getmem)(void *to, const void *from, size_t bytes, int rank);
    void (*putmem_nbi)(void *to, const void *from, size_t bytes, int rank);
    void (*getmem_nbi)(void *to, const void *from, size_t bytes, int rank);
    void (*long_atomic_set)(long *word, long value, int rank);
    void (*long_atomic_add)(long *word, long value, int rank);
    void (*fence)(void);
    void (*quiet)(void);
} Shmem;

enum { THREAD_MULTIPLE = 3, PAGE = 4096 }; // SHMEM_THREAD_MULTIPLE of Open MPI and of OSHMPI

static Shmem shmem;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static bool started;   // for the process's life: the library starts once
static tg_comm *group; // the group that uses the library
static bool left;      // this rank has left a group without the others
static bool used;      // the library's memory may not be zero any more

/// Open MPI's flags for a process that leaves without the others; NULL: another library.
static struct {
    bool *aborted;
    int *exits;
} leaving;

/// Files of watched ranks, readable once the process has ended; or -1.
static int watched[RT_COMM_RANKS];

/* ---- the library ----------------------------------------------------------------------------- */

static void *open_shmem_library(void) {
    static const char *const names[] = {"liboshmem.so.40", "liboshmem.so"};
    const char *set = secure_getenv("TG_OPENSHMEM_LIBRARY");
    void *library = NULL;
    if (set && *set) {
        library = dlopen(set, RTLD_NOW | RTLD_GLOBAL);
        if (!library)
            tg_fail(TG_ERROR_UNSUPPORTED, "TG_OPENSHMEM_LIBRARY=%s cannot be loaded: %s", set,
                    dlerror());
        return library;
    }
    for (int i = 0; i < 2 && !library; i++) library = dlopen(names[i], RTLD_NOW | RTLD_GLOBAL);
    if (!library)
        tg_fail(TG_ERROR_UNSUPPORTED,
                "tg_comm_create: the engine 'openshmem' needs liboshmem.so of Open MPI (Debian: "
                "libopenmpi-dev, openmpi-bin), or TG_OPENSHMEM_LIBRARY set to its path: %s",
                dlerror());
    return library;
}

static tg_status load_shmem(void) {
    const char *reason = rt_shmem_hide_data();
    if (reason)
        return tg_fail(TG_ERROR_UNSUPPORTED, "tg_comm_create: a library in memory: %s", reason);
    void *library = open_shmem_library();
    if (!library) return TG_ERROR_UNSUPPORTED;
    const struct {
        void *to;
        const char *name;
    } functions[] = {
        {&shmem.init_thread, "shmem_init_thread"},
        {&shmem.finalize, "shmem_finalize"},
        {&shmem.my_pe, "shmem_my_pe"},
        {&shmem.n_pes, "shmem_n_pes"},
        {&shmem.align, "shmem_align"},
        {&shmem.free, "shmem_free"},
        {&shmem.ptr, "shmem_ptr"},
        {&shmem.barrier_all, "shmem_barrier_all"},
        {&shmem.putmem, "shmem_putmem"},
        {&shmem.getmem, "shmem_getmem"},
        {&shmem.putmem_nbi, "shmem_putmem_nbi"},
        {&shmem.getmem_nbi, "shmem_getmem_nbi"},
        {&shmem.long_atomic_set, "shmem_long_atomic_set"},
        {&shmem.long_atomic_add, "shmem_long_atomic_add"},
        {&shmem.fence, "shmem_fence"},
        {&shmem.quiet, "shmem_quiet"},
    };
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++) {
        void *function = dlsym(library, functions[i].name);
        if (!function)
            return tg_fail(TG_ERROR_UNSUPPORTED, "the OpenSHMEM library has no %s: 1.4 is needed",
                           functions[i].name);
        memcpy(functions[i].to, &function, sizeof function);
    }
    leaving.aborted = dlsym(library, "oshmem_shmem_aborted");
    leaving.exits = dlsym(library, "oshmem_shmem_inglobalexit");
    return TG_OK;
}

static bool is_group_alone(void) {
    return left || (group && rt_comm_is_lost(group));
}

/// A process that has not finalized the library does so when it exits, and then waits for all other
/// ranks. Open MPI skips this in a process that has called shmem_global_exit, so this function sets
/// the flags that this call sets.
static void leave_library(void) {
    if (leaving.aborted) *leaving.aborted = true;
    if (leaving.exits) *leaving.exits = 1;
}

static void end_library(void) {
    if (is_group_alone())
        leave_library();
    else
        shmem.finalize();
}

/// The library allocates its heap when it starts, so the size is set before. The heap must hold
/// ours, for which the library takes a power of two. The component `rdma` of Open MPI 4.1 crashes,
/// so `ucx` is the default.
static tg_status start_library(size_t bytes) {
    char size[32];
    int provided = -1;
    size_t room = (size_t)1 << 20;
    while (room < bytes) room *= 2;
    snprintf(size, sizeof size, "%zuM", room >> 19);
    setenv("SHMEM_SYMMETRIC_SIZE", size, 0);
    setenv("SHMEM_SYMMETRIC_HEAP_SIZE", size, 0); // the name in Open MPI 4
    setenv("OMPI_MCA_osc", "ucx", 0);
    tg_status status = load_shmem();
    if (status) return status;
    if (!secure_getenv("OMPI_COMM_WORLD_SIZE") && !secure_getenv("PMI_SIZE") &&
        !secure_getenv("PMIX_RANK"))
        return tg_fail(TG_ERROR_ARGUMENT, "tg_comm_create: the engine 'openshmem' is for programs "
                                          "that oshrun starts: oshrun -n 2 PROGRAM");
    if (shmem.init_thread(THREAD_MULTIPLE, &provided) != 0)
        return tg_fail(TG_ERROR_UNSUPPORTED, "tg_comm_create: shmem_init_thread failed");
    started = true;
    if (provided < THREAD_MULTIPLE)
        return tg_fail(TG_ERROR_UNSUPPORTED,
                       "tg_comm_create: this OpenSHMEM library lets one thread alone call it");
    return TG_OK;
}

/* ---- memory ---------------------------------------------------------------------------------- */

/// Maps the pages of a shared mapping at a second address. mremap with a length of 0 keeps the
/// first mapping.
static bool map_again(char *there, size_t bytes, char *to) {
    return there && mremap(there, 0, bytes, MREMAP_MAYMOVE | MREMAP_FIXED, to) != MAP_FAILED;
}

/// Maps the heaps of the others around the own one. False: the library does not show them, or
/// mapping failed.
static bool map_flat(char *flat, char *own, size_t bytes, int rank, int size) {
    for (int r = 0; r < size; r++)
        if (r != rank && !map_again(shmem.ptr(own, r), bytes, flat + (size_t)r * bytes))
            return false;
    return true;
}

/// Whether the second mappings are memory of the right ranks. To test that, each rank writes its
/// number into its own heap.
static bool is_mapping_shared(const char *flat, char *own, size_t bytes, int rank, int size) {
    bool right = true;
    *own = (char)(rank + 1);
    shmem.barrier_all();
    for (int r = 0; r < size && flat; r++) right &= flat[(size_t)r * bytes] == (char)(r + 1);
    shmem.barrier_all();
    *own = 0;
    return right && flat;
}

/// Reserves addresses for the memory of all ranks, and maps it there if possible. Either all ranks
/// use the mappings, or none does.
static tg_status map_shmem_heaps(tg_comm *c, size_t bytes) {
    size_t all;
    if (__builtin_mul_overflow(bytes, (size_t)c->size, &all)) all = SIZE_MAX;
    char *flat = mmap(NULL, all, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (flat == MAP_FAILED)
        return tg_fail(TG_ERROR_MEMORY, "tg_comm_create: room for the memory of %d ranks: %s",
                       c->size, strerror(errno));
    const char *unmapped = secure_getenv("TG_OPENSHMEM_PUTS"); // like ranks on several hosts
    bool own = map_again(c->host.own, bytes, flat + (size_t)c->rank * bytes);
    bool mapped =
        own && (!unmapped || !*unmapped) && map_flat(flat, c->host.own, bytes, c->rank, c->size);
    mapped = is_mapping_shared(mapped ? flat : NULL, c->host.own, bytes, c->rank, c->size);
    c->host.flat = flat;
    c->host.stride = c->host.bytes = bytes;
    c->host.mapped = false;
    char mine = mapped, ranks[RT_COMM_RANKS];
    tg_status status = rt_comm_allgather(c, "tg_comm_create", &mine, 1, ranks);
    for (int r = 0; r < c->size; r++) mapped &= !status && ranks[r];
    if (own) c->host.own = flat + (size_t)c->rank * bytes;
    c->control = (rt_control *)(void *)c->host.own;
    c->host.mapped = mapped;
    return status;
}

/* ---- ended ranks ----------------------------------------------------------------------------- */

/// Identifies a process. A pid means the same for all processes of one host in the same pid
/// namespace.
typedef struct Whereabouts {
    int64_t pid;
    uint64_t device, names;
} Whereabouts;

static Whereabouts own_whereabouts(void) {
    struct stat s;
    Whereabouts w = {.pid = getpid()};
    if (stat("/proc/self/ns/pid", &s)) return (Whereabouts){0};
    w.device = s.st_dev;
    w.names = s.st_ino;
    return w;
}

static int watch_process(const Whereabouts *w) {
#ifdef SYS_pidfd_open
    return (int)syscall(SYS_pidfd_open, (pid_t)w->pid, 0U);
#else
    (void)w;
    return -1;
#endif
}

/// Ranks on other hosts are not watched: their death shows only when a time limit ends.
static tg_status watch_all(tg_comm *c) {
    Whereabouts mine = own_whereabouts(), all[RT_COMM_RANKS];
    tg_status status = rt_comm_allgather(c, "tg_comm_create", &mine, sizeof mine, all);
    for (int r = 0; r < c->size && !status; r++) {
        bool near = mine.pid && all[r].device == mine.device && all[r].names == mine.names;
        if (r != c->rank && near && shmem.ptr(c->engine_state, r))
            watched[r] = watch_process(&all[r]);
    }
    return status;
}

static int find_dead_pe(tg_comm *c) {
    for (int r = 0; r < c->size; r++) {
        struct pollfd end = {.fd = watched[r], .events = POLLIN};
        if (watched[r] >= 0 && poll(&end, 1, 0) == 1) return r;
    }
    return -1;
}

/* ---- the engine ------------------------------------------------------------------------------ */

static void destroy_shmem(tg_comm *c) {
    for (int r = 0; r < c->size; r++)
        if (watched[r] >= 0) close(watched[r]);
    munmap(c->host.flat, c->host.stride * (size_t)c->size);
    if (!c->leaves) shmem.free(c->engine_state);
    left |= c->leaves;
    group = NULL;
}

/// Counts the ranks of this host, whose memory the library shows.
static int count_local(char *own, int size) {
    int local = 0;
    for (int r = 0; r < size; r++) local += shmem.ptr(own, r) != NULL;
    return local ? local : 1;
}

static tg_status create_started(tg_comm *c, size_t bytes) {
    c->rank = shmem.my_pe();
    c->size = shmem.n_pes();
    if (c->size > RT_COMM_RANKS)
        return tg_fail(TG_ERROR_UNSUPPORTED, "tg_comm_create: %d ranks; %d can meet", c->size,
                       RT_COMM_RANKS);
    char *own = shmem.align(PAGE, bytes);
    if (!own)
        return tg_fail(
            TG_ERROR_MEMORY,
            "tg_comm_create: shmem_align: no %zu bytes; SHMEM_SYMMETRIC_SIZE of OpenSHMEM "
            "says how many there are",
            bytes);
    if (used) memset(own, 0, bytes);
    used = true;
    c->engine_state = own;
    c->host.own = own;
    c->control = (rt_control *)(void *)own;
    c->local = count_local(own, c->size);
    shmem.barrier_all();
    for (int r = 0; r < RT_COMM_RANKS; r++) watched[r] = -1;
    tg_status status = map_shmem_heaps(c, bytes);
    if (!status) status = watch_all(c);
    if (status) destroy_shmem(c);
    return status;
}

static tg_status create_shmem(tg_comm *c, const tg_comm_options *o, size_t bytes) {
    (void)o;
    pthread_mutex_lock(&lock);
    tg_status status = TG_OK;
    if (left)
        status = tg_fail(TG_ERROR_RANK,
                         "tg_comm_create: a rank of the group before did not come to its end, so "
                         "the engine 'openshmem' has no other one");
    else if (group)
        status = tg_fail(TG_ERROR_UNSUPPORTED,
                         "tg_comm_create: there is one group of the engine 'openshmem' at a time");
    if (!status && !started) {
        status = start_library(bytes);
        if (started) atexit(end_library);
    }
    if (!status) status = create_started(c, bytes);
    if (!status) group = c;
    pthread_mutex_unlock(&lock);
    return status;
}

/* ---- unmapped memory ------------------------------------------------------------------------- */

static void *shmem_place(const tg_comm *c, size_t at) {
    return (char *)c->engine_state + at;
}

static tg_status put_shmem(tg_comm *c, int rank, size_t at, const void *from, size_t bytes) {
    shmem.putmem(shmem_place(c, at), from, bytes, rank);
    return TG_OK;
}

static tg_status get_shmem(tg_comm *c, int rank, size_t at, void *to, size_t bytes) {
    shmem.getmem(to, shmem_place(c, at), bytes, rank);
    return TG_OK;
}

static tg_status put_later(tg_comm *c, int rank, size_t at, const void *from, size_t bytes) {
    shmem.putmem_nbi(shmem_place(c, at), from, bytes, rank);
    return TG_OK;
}

static tg_status get_later(tg_comm *c, int rank, size_t at, void *to, size_t bytes) {
    shmem.getmem_nbi(to, shmem_place(c, at), bytes, rank);
    return TG_OK;
}

_Static_assert(sizeof(long) == sizeof(int64_t), "words of 8 bytes");

static tg_status set_shmem_word(tg_comm *c, int rank, size_t at, int64_t value) {
    shmem.fence();
    shmem.long_atomic_set(shmem_place(c, at), value, rank);
    return TG_OK;
}

static tg_status add_shmem_word(tg_comm *c, int rank, size_t at, int64_t value) {
    shmem.fence();
    shmem.long_atomic_add(shmem_place(c, at), value, rank);
    return TG_OK;
}

static tg_status quiet_shmem(tg_comm *c) {
    (void)c;
    shmem.quiet();
    return TG_OK;
}

const rt_engine rt_engine_shmem = {.name = "openshmem",
                                   .create = create_shmem,
                                   .destroy = destroy_shmem,
                                   .put = put_shmem,
                                   .get = get_shmem,
                                   .put_later = put_later,
                                   .get_later = get_later,
                                   .set = set_shmem_word,
                                   .add = add_shmem_word,
                                   .quiet = quiet_shmem,
                                   .dead = find_dead_pe};
