// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Meetings of ranks on the host by small messages and words, with a time limit.
#include "runtime/comm/comm.h"
#include "runtime/runtime.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* ---- patience -------------------------------------------------------------------------------- */

// A rank that waits first polls its word. Then it yields the core between two polls, since there
// may be more ranks than cores. In the end it sleeps between two polls.
enum { WATCH = 256, YIELD = 4096, LOOK = 64, SLEEP_NS = 50 * 1000 };

static void look_for_dead(tg_comm *c);

bool rt_comm_patience(tg_comm *c, rt_patience *p) {
    int turn = p->turns++;
    if (turn == 0) p->since = rt_now_ns();
    if (c->engine->progress) c->engine->progress(c);
    if (turn < WATCH) {
        rt_pause_briefly();
        return true;
    }
    if (turn < YIELD)
        sched_yield();
    else
        nanosleep(&(struct timespec){.tv_nsec = SLEEP_NS}, NULL);
    if (turn % LOOK) return true;
    if (turn >= YIELD) look_for_dead(c);
    return !atomic_load(&c->lost) && rt_now_ns() - p->since < c->timeout_ns;
}

tg_status rt_comm_gave_up(const tg_comm *c, const char *what, int peer) {
    int lost = atomic_load(&c->lost);
    if (lost)
        return tg_fail(TG_ERROR_RANK,
                       "%s: rank %d waited for rank %d, and the process of rank %d has ended", what,
                       c->rank, peer, lost - 1);
    return tg_fail(TG_ERROR_RANK,
                   "%s: rank %d waited %g s for rank %d, which did not come; TG_COMM_TIMEOUT_MS "
                   "says how long ranks wait",
                   what, c->rank, (double)c->timeout_ns / 1e9, peer);
}

void rt_comm_condition(pthread_cond_t *condition) {
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(condition, &attributes);
    pthread_condattr_destroy(&attributes);
}

bool rt_comm_wait_until(pthread_cond_t *condition, pthread_mutex_t *lock, int64_t end) {
    enum { SECOND = 1000000000 };
    struct timespec until = {.tv_sec = end / SECOND, .tv_nsec = end % SECOND};
    return pthread_cond_timedwait(condition, lock, &until) != ETIMEDOUT;
}

bool rt_comm_is_lost(tg_comm *c) {
    if (!atomic_load(&c->lost)) look_for_dead(c);
    return atomic_load(&c->lost);
}

/* ---- hosts ----------------------------------------------------------------------------------- */

/// Each boot counts as another host. So does a container with its own network, and a different
/// TG_COMM_HOST.
uint64_t rt_comm_host(void) {
    char boot[64] = "", name[256] = "";
    struct stat net = {0};
    FILE *f = fopen("/proc/sys/kernel/random/boot_id", "r");
    if (f && !fgets(boot, sizeof boot, f)) boot[0] = 0;
    if (f) fclose(f);
    if (gethostname(name, sizeof name - 1)) name[0] = 0;
    (void)stat("/proc/self/ns/net", &net);
    const char *set = secure_getenv("TG_COMM_HOST");
    if (set) snprintf(name, sizeof name, "%s", set);
    return rt_mix(rt_hash_text(rt_hash_text(0, boot), name), net.st_ino);
}

/* ---- words and messages ---------------------------------------------------------------------- */

static size_t heap_offset(const tg_comm *c, const void *place) {
    return (size_t)((const char *)place - c->host.own);
}

/// The same place in another rank's memory.
static void *place_at_rank(const tg_comm *c, int rank, const void *place) {
    return c->host.flat + (size_t)rank * c->host.stride + heap_offset(c, place);
}

/// A failure to send is not reported here: the rank that waits for the message times out.
void rt_comm_tell(tg_comm *c, int rank, void *place, const void *from, size_t bytes) {
    if (c->host.mapped || rank == c->rank)
        memcpy(rank == c->rank ? place : place_at_rank(c, rank, place), from, bytes);
    else
        c->engine->put(c, rank, heap_offset(c, place), from, bytes);
}

void rt_comm_set(tg_comm *c, int rank, _Atomic int64_t *place, int64_t value) {
    if (rank == c->rank)
        atomic_store_explicit(place, value, memory_order_release);
    else if (c->host.mapped)
        atomic_store_explicit((_Atomic int64_t *)place_at_rank(c, rank, place), value,
                              memory_order_release);
    else
        c->engine->set(c, rank, heap_offset(c, place), value);
}

/// If several ranks have ended, the first one is reported: the others end because they notice it.
static void look_for_dead(tg_comm *c) {
    int dead = -1, none = 0;
    for (int r = 0; r < c->size && dead < 0; r++)
        dead = (int)atomic_load(&c->control->from[r].lost) - 1;
    if (dead < 0 && c->engine->dead) dead = c->engine->dead(c);
    if (dead < 0 || !atomic_compare_exchange_strong(&c->lost, &none, dead + 1)) return;
    for (int r = 0; r < c->size; r++)
        if (r != dead) rt_comm_set(c, r, &c->control->from[c->rank].lost, dead + 1);
}

/* ---- meeting --------------------------------------------------------------------------------- */

/// Exchanges one message that fits a place. Two places are enough: a rank that sends message n + 2
/// has received message n + 1 from all ranks, and they had read message n before they sent that.
static tg_status exchange_message(tg_comm *c, const char *what, const void *mine, size_t bytes,
                                  char *all, size_t pitch) {
    int64_t number = ++c->messages;
    rt_control *k = c->control;
    for (int i = 0; i < c->size; i++) {
        int r = (c->rank + i) % c->size;
        if (bytes) rt_comm_tell(c, r, k->from[c->rank].messages[number & 1], mine, bytes);
        rt_comm_set(c, r, &k->from[c->rank].message, number);
    }
    rt_patience patience = {0};
    for (int r = 0; r < c->size; r++) {
        while (atomic_load_explicit(&k->from[r].message, memory_order_acquire) < number)
            if (!rt_comm_patience(c, &patience)) return rt_comm_gave_up(c, what, r);
        if (bytes) memcpy(all + (size_t)r * pitch, k->from[r].messages[number & 1], bytes);
    }
    return TG_OK;
}

tg_status rt_comm_allgather(tg_comm *c, const char *what, const void *mine, size_t bytes,
                            void *all) {
    const size_t most = sizeof c->control->from[0].messages[0];
    tg_status status = TG_OK;
    for (size_t at = 0; at < bytes && !status; at += most) {
        size_t part = bytes - at < most ? bytes - at : most;
        status = exchange_message(c, what, (const char *)mine + at, part, (char *)all + at, bytes);
    }
    return status;
}

tg_status rt_comm_meet(tg_comm *c, const char *what) {
    return exchange_message(c, what, NULL, 0, NULL, 0);
}

tg_status rt_comm_agree_that(tg_comm *c, const char *what, tg_status status) {
    int32_t mine = status, theirs[RT_COMM_RANKS];
    char text[RT_COMM_TEXT];
    if (status) snprintf(text, sizeof text, "%s", tg_last_error());
    tg_status met = rt_comm_allgather(c, what, &mine, sizeof mine, theirs);
    if (status) return tg_fail(status, "%s", text);
    if (met) return met;
    for (int r = 0; r < c->size; r++)
        if (theirs[r])
            return tg_fail((tg_status)theirs[r], "%s: rank %d has failed; its message says why",
                           what, r);
    return TG_OK;
}
