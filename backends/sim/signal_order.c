// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Checks that signals to other ranks follow all earlier writes of their program.
//
// All lanes of a program reach each of its signals, and one of them raises it. The reader runs in
// another launch, which has no record of the accesses of this one. The check is therefore here: the
// writes of each lane before it reached the signal must be ordered before the raise. Lanes that
// reach the signal first are checked at the raise, the others when they reach it.
#include <stdlib.h>
#include <string.h>

#include "backends/sim/vector_clock.h"

/// The n-th signal that lanes reach.
struct Raise {
    const SimSite *site;
    uint32_t *due;  // by lane that has reached it: the epoch of its last write before, or 0
    uint32_t *seen; // by lane: the epoch that is ordered before the raise; NULL: not raised yet
};

void raises_reset(Shadow *s) {
    for (int i = 0; i < s->n_raises; i++) {
        free(s->raises[i].due);
        free(s->raises[i].seen);
    }
    free(s->raises);
    s->raises = NULL;
    s->n_raises = s->cap_raises = 0;
}

void raises_start(const Sim *sim, Shadow *s) {
    size_t n = (size_t)(sim->cluster * sim->threads);
    raises_reset(s);
    memset(s->wrote, 0, sizeof *s->wrote * n);
    memset(s->settled, 0, sizeof *s->settled * n);
    memset(s->visits, 0, sizeof *s->visits * n);
}

void order_settle(SimLane *lane) {
    Shadow *s = lane->sim->shadow;
    if (s) s->settled[lane->number] = s->epochs[lane->number]++;
}

static _Noreturn void too_late(const Raise *r, SimLane *lane) {
    char self[NAME_BYTES], place[PLACE_BYTES];
    sim_fail(lane->sim, SIM_RACE, r->site,
             "race: %s signals data to another rank, and nothing orders it after the writes of %s",
             site_place(r->site, place), lane_name(lane, self));
}

/// Checks that the lane's writes have left its processor: by a wait for copies out of shared
/// memory, and on AMD's GPUs by a fence of the wave itself for stores.
static void check_settled(const Shadow *s, SimLane *lane, const SimSite *site) {
    Sim *sim = lane->sim;
    char self[NAME_BYTES], place[PLACE_BYTES], copy[PLACE_BYTES];
    if (lane->stores.n)
        sim_fail(sim, SIM_PENDING, site, "not waited for: %s of %s tells another rank of %s",
                 site_place(site, place), lane_name(lane, self),
                 site_place(lane->stores.data[0].site, copy));
    if (gpu_has_any(sim->image->target, GPU_AMD) &&
        s->wrote[lane->number] > s->settled[lane->number])
        sim_fail(sim, SIM_RACE, site,
                 "no fence: %s signals data to another rank, and stores of %s may arrive later",
                 site_place(site, place), lane_name(lane, self));
}

static Raise *next_raise(SimLane *lane, Shadow *s, const SimSite *site) {
    Sim *sim = lane->sim;
    int n = (int)s->visits[lane->number]++;
    if (n == s->cap_raises) s->raises = sim_grow(sim, s->raises, &s->cap_raises, sizeof(Raise));
    if (n < s->n_raises) return &s->raises[n];
    Raise *r = &s->raises[s->n_raises++];
    *r = (Raise){.site = site};
    r->due = sim_alloc(sim, sizeof *r->due * (size_t)(sim->cluster * sim->threads));
    return r;
}

void order_raise(SimLane *lane, const SimSite *site, bool raises) {
    Sim *sim = lane->sim;
    Shadow *s = sim->shadow;
    if (!s) return;
    int lanes = sim->cluster * sim->threads, own = lane->number;
    Raise *r = next_raise(lane, s, site);
    check_settled(s, lane, site);
    r->due[own] = s->wrote[own];
    if (raises) {
        free(r->seen);
        r->seen = sim_alloc(sim, sizeof *r->seen * (size_t)lanes);
        memcpy(r->seen, s->warps[lane->w->number].global, sizeof *r->seen * (size_t)lanes);
        r->seen[own] = s->epochs[own];
    }
    int first = raises ? 0 : own, behind = raises ? lanes : own + 1;
    for (int i = first; r->seen && i < behind; i++)
        if (r->due[i] > r->seen[i]) too_late(r, &sim->lanes[i]);
}
