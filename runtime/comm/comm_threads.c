// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Ranks that are threads of one process. They meet at a name, and share one mapping of all their
// memory.
#include "runtime/comm/comm.h"
#include "runtime/runtime.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/// A group of threads that have met, or that wait for the last one.
typedef struct ThreadGroup {
    struct ThreadGroup *next; // of groups that are incomplete
    char *name;
    int ranks, came, users;
    uint64_t here; // set of ranks that have come
    size_t bytes;  // of one rank
    char *flat;
} ThreadGroup;

static ThreadGroup *groups;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t came;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void init_group_condition(void) {
    rt_comm_condition(&came);
}

static void unlink_group(ThreadGroup *g) {
    for (ThreadGroup **place = &groups; *place; place = &(*place)->next) {
        if (*place != g) continue;
        *place = g->next;
        return;
    }
}

/// Must be called under the lock. The last rank frees the group.
static void leave_thread_group(ThreadGroup *g) {
    if (--g->users) return;
    unlink_group(g);
    munmap(g->flat, g->bytes * (size_t)g->ranks);
    free(g->name);
    free(g);
}

static tg_status open_group(const tg_comm_options *o, size_t bytes, ThreadGroup **out) {
    size_t all;
    ThreadGroup *g = calloc(1, sizeof *g);
    if (!g || !(g->name = strdup(o->meet)) ||
        __builtin_mul_overflow(bytes, (size_t)o->ranks, &all)) {
        if (g) free(g->name);
        free(g);
        return tg_fail(TG_ERROR_MEMORY, "out of memory");
    }
    g->ranks = o->ranks;
    g->bytes = bytes;
    g->flat =
        mmap(NULL, all, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (g->flat == MAP_FAILED) {
        tg_status status = tg_fail(TG_ERROR_MEMORY, "tg_comm_create: %d heaps of %zu MiB: %s",
                                   o->ranks, bytes >> 20, strerror(errno));
        free(g->name);
        free(g);
        return status;
    }
    g->next = groups;
    *out = groups = g;
    return TG_OK;
}

/// Finds or creates the group of that name, and adds this rank. Must be called under the lock.
static tg_status join_thread_group(const tg_comm_options *o, size_t bytes, ThreadGroup **out) {
    ThreadGroup *g = groups;
    while (g && strcmp(g->name, o->meet) != 0) g = g->next;
    tg_status status = g ? TG_OK : open_group(o, bytes, &g);
    if (status) return status;
    if (g->ranks != o->ranks || g->bytes != bytes)
        return tg_fail(TG_ERROR_CONTRACT,
                       "tg_comm_create: rank %d meets %d ranks with heaps of %zu bytes at '%s', "
                       "where %d ranks with heaps of %zu bytes are awaited",
                       o->rank, o->ranks, bytes, o->meet, g->ranks, g->bytes);
    if (g->here >> o->rank & 1)
        return tg_fail(TG_ERROR_CONTRACT, "tg_comm_create: there are two of rank %d at '%s'",
                       o->rank, o->meet);
    g->here |= (uint64_t)1 << o->rank;
    g->came++;
    g->users++;
    if (g->came == g->ranks) unlink_group(g);
    pthread_cond_broadcast(&came);
    *out = g;
    return TG_OK;
}

static tg_status wait_for_all(ThreadGroup *g, const tg_comm_options *o) {
    int64_t end = rt_now_ns() + (int64_t)o->timeout_ms * 1000000;
    while (g->came < g->ranks)
        if (!rt_comm_wait_until(&came, &lock, end)) break;
    if (g->came == g->ranks) return TG_OK;
    int missing = 0;
    while (g->here >> missing & 1) missing++;
    g->here &= ~((uint64_t)1 << o->rank);
    g->came--;
    return rt_comm_nobody_came(o, missing);
}

static tg_status create_thread_rank(tg_comm *c, const tg_comm_options *o, size_t bytes) {
    tg_status status = rt_comm_place(o);
    if (status) return status;
    pthread_once(&once, init_group_condition);
    pthread_mutex_lock(&lock);
    ThreadGroup *g = NULL;
    status = join_thread_group(o, bytes, &g);
    if (!status) status = wait_for_all(g, o);
    if (status && g) leave_thread_group(g);
    pthread_mutex_unlock(&lock);
    if (status) return status;
    c->engine_state = g;
    c->rank = o->rank;
    c->size = c->local = o->ranks;
    c->host = (rt_heap){.flat = g->flat,
                        .own = g->flat + (size_t)o->rank * bytes,
                        .stride = bytes,
                        .bytes = bytes,
                        .mapped = true};
    return TG_OK;
}

static void destroy_thread_rank(tg_comm *c) {
    pthread_mutex_lock(&lock);
    leave_thread_group(c->engine_state);
    pthread_mutex_unlock(&lock);
}

/// Each rank duplicates all descriptors. All ranks agree before the owners may close theirs.
static tg_status pass_file_copies(tg_comm *c, int fd, int *all) {
    tg_status status = rt_comm_allgather(c, "tg_comm_create", &fd, sizeof fd, all);
    if (status) return status;
    for (int r = 0; r < c->size; r++) {
        all[r] = dup(all[r]);
        if (all[r] < 0 && !status)
            status = tg_fail(TG_ERROR_INTERNAL, "tg_comm_create: dup: %s", strerror(errno));
    }
    status = rt_comm_agree_that(c, "tg_comm_create", status);
    for (int r = 0; r < c->size && status; r++)
        if (all[r] >= 0) close(all[r]);
    return status;
}

const rt_engine rt_engine_threads = {.name = "threads",
                                     .create = create_thread_rank,
                                     .destroy = destroy_thread_rank,
                                     .pass = pass_file_copies};
