// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The order of accesses: clocks that meet at barriers, mbarriers, waits and flags.
#include <stdlib.h>
#include <string.h>

#include "backends/sim/vector_clock.h"

/* ---- actors -------------------------------------------------------------------------------- */

static int first_actor(const Cta *cta) {
    const Sim *sim = cta->sim;
    return sim->cluster * sim->threads + cta->rank * CTA_ACTORS;
}

int actor_of_group(const Group *g) {
    return first_actor(g->cta) + g->index;
}

int actor_of_mbarrier(const Cta *cta, int index) {
    return first_actor(cta) + MAX_THREADS / LANES / GROUP_WARPS + index % MBARRIER_ACTORS;
}

// If there are more lanes than actors for stores, several lanes share one. A wait of either then
// counts for both.
int actor_of_stores(SimLane *lane) {
    return first_actor(lane->of) + MAX_THREADS / LANES / GROUP_WARPS + MBARRIER_ACTORS +
           (int)lane->warp % STORE_ACTORS;
}

/* ---- clocks -------------------------------------------------------------------------------- */

static void merge_clock(uint32_t *into, const uint32_t *from, int n) {
    for (int i = 0; i < n; i++)
        if (from[i] > into[i]) into[i] = from[i];
}

static void join_shared(const Shadow *s, Clock into, Clock from) {
    merge_clock(into.order, from.order, s->n_actors);
    merge_clock(into.proxy, from.proxy, s->n_actors);
    merge_clock(into.outside, from.outside, s->n_actors);
}

static void join_clock(const Shadow *s, Clock into, Clock from) {
    join_shared(s, into, from);
    merge_clock(into.global, from.global, s->n_actors);
}

static void set_epoch(Clock c, int actor, uint32_t epoch) {
    c.order[actor] = c.global[actor] = epoch;
}

/// Begins a new epoch of the warp: all of its earlier actions and waits are ordered before the next
/// actions of its lanes.
static void tick_warp(Shadow *s, Warp *w) {
    Clock c = s->warps[w->number];
    for (int i = 0; i < warp_lanes(w); i++) {
        int lane = w->lanes[i].number, stores = actor_of_stores(&w->lanes[i]);
        set_epoch(c, lane, s->epochs[lane]++);
        if ((uint32_t)w->lanes[i].waited > c.order[stores])
            set_epoch(c, stores, (uint32_t)w->lanes[i].waited);
    }
}

static Clock *barrier_clock(Shadow *s, const Cta *cta, int barrier) {
    return &s->barriers[cta->rank * NAMED_BARRIERS + barrier];
}

void order_warp(Warp *w) {
    Shadow *s = w->cta->sim->shadow;
    if (s) tick_warp(s, w);
}

void order_arrive(Warp *w, int barrier) {
    Shadow *s = w->cta->sim->shadow;
    if (!s) return;
    tick_warp(s, w);
    join_clock(s, *barrier_clock(s, w->cta, barrier), s->warps[w->number]);
}

void order_barrier(Cta *cta, int barrier, uint32_t waiting, bool shared) {
    Shadow *s = cta->sim->shadow;
    if (!s) return;
    Clock *c = barrier_clock(s, cta, barrier);
    for (; waiting; waiting &= waiting - 1) {
        Clock warp = s->warps[cta->warps[__builtin_ctz(waiting)].number];
        if (shared)
            join_shared(s, warp, *c);
        else
            join_clock(s, warp, *c);
    }
}

void order_cluster_arrive(Warp *w) {
    Shadow *s = w->cta->sim->shadow;
    if (!s) return;
    tick_warp(s, w);
    join_clock(s, s->cluster[0], s->warps[w->number]);
}

// The clock of all arrivals includes that of the awaited phase, because no warp arrives twice
// without a wait between.
void order_cluster_wait(Warp *w) {
    Shadow *s = w->cta->sim->shadow;
    if (s) join_clock(s, s->warps[w->number], s->cluster[0]);
}

/* ---- mbarriers ----------------------------------------------------------------------------- */

static Clock new_warp_clock(Sim *sim) {
    size_t bytes = sizeof(uint32_t) * (size_t)sim->shadow->n_actors;
    Clock c = {.order = sim_alloc(sim, bytes)};
    c.global = sim_alloc(sim, bytes);
    c.proxy = sim_alloc(sim, bytes);
    c.outside = sim_alloc(sim, bytes);
    return c;
}

static int mbarrier_number(Shadow *s, Cta *cta, int index) {
    int i = cta->rank * MBARRIER_ACTORS + index % MBARRIER_ACTORS;
    if (!s->mbarriers[i].arrived.order) {
        s->mbarriers[i].arrived = new_warp_clock(cta->sim);
        s->mbarriers[i].done = new_warp_clock(cta->sim);
    }
    return i;
}

/// One lane arrives. Actions of the other lanes of its warp since their last meeting are not
/// ordered before.
void order_mbarrier_arrive(SimLane *lane, Cta *cta, int index) {
    Shadow *s = lane->sim->shadow;
    if (!s) return;
    Clock c = s->mbarriers[mbarrier_number(s, cta, index)].arrived;
    join_clock(s, c, s->warps[lane->w->number]);
    set_epoch(c, lane->number, s->epochs[lane->number]++);
}

void order_mbarrier_phase(Cta *cta, int index, int64_t phase) {
    Shadow *s = cta->sim->shadow;
    if (!s) return;
    int i = mbarrier_number(s, cta, index);
    set_epoch(s->mbarriers[i].arrived, actor_of_mbarrier(cta, index), (uint32_t)phase + 1);
    join_clock(s, s->mbarriers[i].done, s->mbarriers[i].arrived);
}

void order_mbarrier_wait(Warp *w, Cta *cta, int index) {
    Shadow *s = w->cta->sim->shadow;
    if (!s) return;
    join_clock(s, s->warps[w->number], s->mbarriers[mbarrier_number(s, cta, index)].done);
}

void order_waited(Warp *w, int actor, uint32_t epoch) {
    Shadow *s = w->cta->sim->shadow;
    if (!s) return;
    Clock c = s->warps[w->number];
    if (epoch > c.order[actor]) set_epoch(c, actor, epoch);
}

void order_outside(SimLane *lane) {
    Shadow *s = lane->sim->shadow;
    if (s) s->waits[lane->number] = ++s->epochs[lane->number];
}

/// Lets the asynchronous proxy see the accesses that are ordered before the fence.
void order_proxy_fence(SimLane *lane, bool shared, bool global) {
    Shadow *s = lane->sim->shadow;
    if (!s) return;
    Clock c = s->warps[lane->w->number];
    uint32_t *seen[2] = {shared ? c.proxy : NULL, global ? c.outside : NULL};
    for (int i = 0; i < 2; i++) {
        if (!seen[i]) continue;
        merge_clock(seen[i], c.order, s->n_actors);
        seen[i][lane->number] = s->epochs[lane->number];
    }
}

/* ---- flags in global memory ------------------------------------------------------------------ */
// Programs are ordered through atomics. The actions of a program before a fence and an atomic are
// ordered before those of another program after a later atomic at the same address. The order holds
// for whole programs, not single accesses.

void flags_reset(Shadow *s) {
    for (int i = 0; i < s->n_flags; i++) free(s->flags[i].programs);
    free(s->flags);
    free(s->known);
    free(s->released);
    s->flags = NULL;
    s->n_flags = s->cap_flags = 0;
    s->known = s->released = NULL;
}

void flags_start(Shadow *s) {
    if (s->known) memset(s->known, 0, sizeof *s->known * (size_t)s->words);
    if (s->released) memset(s->released, 0, sizeof *s->released * (size_t)s->words);
}

bool flags_ordered(const Shadow *s, uint32_t program) {
    return s->known && (int)(program / 32) < s->words && s->known[program / 32] >> program % 32 & 1;
}

static Flag *flag_at(Sim *sim, Shadow *s, const void *p) {
    for (int i = 0; i < s->n_flags; i++)
        if (s->flags[i].at == p) return &s->flags[i];
    if (s->n_flags == s->cap_flags)
        s->flags = sim_grow(sim, s->flags, &s->cap_flags, sizeof *s->flags);
    Flag *f = &s->flags[s->n_flags];
    f->at = p;
    f->programs = sim_alloc(sim, sizeof *f->programs * (size_t)s->words);
    s->n_flags++;
    return f;
}

static void flags_create(Sim *sim, Shadow *s) {
    const int32_t *g = sim->run->grid;
    int64_t n = (int64_t)(g[0] ? g[0] : 1) * (g[1] ? g[1] : 1) * (g[2] ? g[2] : 1) + 1;
    s->words = (int)(n / 32 + 1);
    s->known = sim_alloc(sim, sizeof *s->known * (size_t)s->words);
    s->released = sim_alloc(sim, sizeof *s->released * (size_t)s->words);
}

void order_fence(SimLane *lane) {
    Shadow *s = lane->sim->shadow;
    if (!s) return;
    if (!s->known) flags_create(lane->sim, s);
    memcpy(s->released, s->known, sizeof *s->known * (size_t)s->words);
    s->released[s->program / 32] |= (uint32_t)1 << s->program % 32;
}

void order_atomic(SimLane *lane, const void *p) {
    Shadow *s = lane->sim->shadow;
    if (!s || !s->released) return;
    Flag *f = flag_at(lane->sim, s, p);
    for (int i = 0; i < s->words; i++) {
        s->known[i] |= f->programs[i];
        f->programs[i] |= s->released[i];
    }
}
