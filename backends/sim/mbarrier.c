// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// mbarriers: the arrivals and bytes that complete a phase. Their state is kept outside shared
// memory, where their 8 bytes are NaNs.
#include <string.h>

#include "backends/sim/shadow.h"

static int find_mbarrier(const Cta *cta, uint32_t offset) {
    for (int i = 0; i < cta->n_mbarriers; i++)
        if (cta->mbarriers[i].at == offset) return i;
    return -1;
}

Mbarrier *mbarrier_at(SimLane *lane, const SimSite *site, Cta *cta, uint32_t offset) {
    int i = find_mbarrier(cta, offset);
    char self[NAME_BYTES], place[PLACE_BYTES];
    if (i < 0)
        sim_fail(lane->sim, SIM_MISUSE, site, "%s of %s: no mbarrier was initialised at offset %u",
                 site_place(site, place), lane_name(lane, self), offset);
    return &cta->mbarriers[i];
}

static uint32_t mbarrier_offset(uint32_t address) {
    return address & ((1u << RANK_SHIFT) - 1);
}

/// Returns the mbarrier at the address in operand 0, which must belong to the own CTA.
static Mbarrier *own_mbarrier(SimLane *lane, const SimSite *site, uint32_t address) {
    char self[NAME_BYTES], place[PLACE_BYTES];
    Cta *cta = shared_find(lane, site, address, 8, 8);
    if (cta != lane->of)
        sim_fail(lane->sim, SIM_MISUSE, site, "%s of %s: the mbarrier is of another CTA",
                 site_place(site, place), lane_name(lane, self));
    return mbarrier_at(lane, site, cta, mbarrier_offset(address));
}

void handle_mbarrier_init(SimLane *lane, const SimSite *site, char *frame) {
    char self[NAME_BYTES], place[PLACE_BYTES];
    uint32_t address = OPERAND(uint32_t, frame, site, 0);
    int32_t count = OPERAND(int32_t, frame, site, 2);
    lane->site = site;
    if (!OPERAND(uint8_t, frame, site, 1)) return;
    Cta *cta = shared_find(lane, site, address, 8, 8);
    if (count < 1 || count >= 1 << 20)
        sim_fail(lane->sim, SIM_MISUSE, site, "%s of %s: a count of %d", site_place(site, place),
                 lane_name(lane, self), count);
    uint32_t offset = mbarrier_offset(address);
    access_shared(lane, site, cta, offset, 8, ACCESS_WRITE, NO_ACTOR, 0);
    int i = find_mbarrier(cta, offset);
    if (i < 0) {
        if (cta->n_mbarriers == cta->cap_mbarriers)
            cta->mbarriers =
                sim_grow(lane->sim, cta->mbarriers, &cta->cap_mbarriers, sizeof *cta->mbarriers);
        i = cta->n_mbarriers++;
    }
    cta->mbarriers[i] = (Mbarrier){.at = offset, .expected = count, .pending = count, .site = site};
}

/* ---- phases -------------------------------------------------------------------------------- */

/// Ends the phase if it is complete, and wakes its waiters.
static void advance_phase(Cta *cta, int index) {
    Mbarrier *m = &cta->mbarriers[index];
    if (m->pending || m->bytes) return;
    order_mbarrier_phase(cta, index, m->phase);
    m->phase++;
    m->pending = m->expected;
    for (int i = 0; i < cta->sim->n_warps / cta->sim->cluster; i++) {
        Warp *w = &cta->warps[i];
        if (w->wait != WAIT_MBARRIER || w->wait_for != index || w->parity == (m->phase & 1))
            continue;
        order_mbarrier_wait(w, cta, index);
        warp_resume(w);
    }
}

static void arrive_at_mbarrier(SimLane *lane, const SimSite *site, Cta *cta, Mbarrier *m) {
    char self[NAME_BYTES], place[PLACE_BYTES];
    int index = (int)(m - cta->mbarriers);
    if (m->pending == 0)
        sim_fail(lane->sim, SIM_MISUSE, site,
                 "%s of %s is one arrival more than the %lld that phase %lld of the mbarrier at "
                 "offset %u expects",
                 site_place(site, place), lane_name(lane, self), (long long)m->expected,
                 (long long)m->phase, m->at);
    order_mbarrier_arrive(lane, cta, index);
    m->pending--;
    advance_phase(cta, index);
}

void handle_mbarrier_arrive(SimLane *lane, const SimSite *site, char *frame) {
    lane->site = site;
    if (OPERAND(uint8_t, frame, site, 1))
        arrive_at_mbarrier(lane, site, lane->of,
                           own_mbarrier(lane, site, OPERAND(uint32_t, frame, site, 0)));
}

/// Arrives at the mbarrier with the same offset in another CTA of the cluster.
void handle_mbarrier_arrive_cluster(SimLane *lane, const SimSite *site, char *frame) {
    uint32_t offset = mbarrier_offset(OPERAND(uint32_t, frame, site, 0));
    uint32_t rank = OPERAND(uint32_t, frame, site, 2);
    lane->site = site;
    if (!OPERAND(uint8_t, frame, site, 1)) return;
    Cta *cta = shared_find(lane, site, rank << RANK_SHIFT | offset, 8, 8);
    arrive_at_mbarrier(lane, site, cta, mbarrier_at(lane, site, cta, offset));
}

void handle_mbarrier_expect_tx(SimLane *lane, const SimSite *site, char *frame) {
    lane->site = site;
    if (!OPERAND(uint8_t, frame, site, 1)) return;
    Mbarrier *m = own_mbarrier(lane, site, OPERAND(uint32_t, frame, site, 0));
    m->bytes += OPERAND(uint32_t, frame, site, 2);
    arrive_at_mbarrier(lane, site, lane->of, m);
}

/// Counts arrived bytes. The count is negative if bytes arrive before they are expected.
void mbarrier_complete_bytes(Cta *cta, uint32_t offset, int64_t bytes) {
    int i = find_mbarrier(cta, offset);
    if (i < 0) return;
    cta->mbarriers[i].bytes -= bytes;
    advance_phase(cta, i);
}

/* ---- waits --------------------------------------------------------------------------------- */

/// A wait with parity p waits for the end of a phase of that parity. That phase has ended once a
/// phase of the other parity runs.
static bool has_phase_passed(const Mbarrier *m, int parity) {
    return (m->phase & 1) != (parity & 1);
}

void handle_mbarrier_wait(Warp *w, const SimSite *site) {
    Cta *cta = w->cta;
    Mbarrier *m = own_mbarrier(&w->lanes[0], site, OPERAND(uint32_t, w->frames[0], site, 0));
    int index = (int)(m - cta->mbarriers);
    w->parity = OPERAND(int32_t, w->frames[0], site, 1) & 1;
    order_warp(w);
    if (!has_phase_passed(m, w->parity)) {
        warp_wait(w, WAIT_MBARRIER, index);
        return;
    }
    order_mbarrier_wait(w, cta, index);
    warp_resume(w);
}

enum { SPINS = 10000 };

static void count_spin(SimLane *lane, const SimSite *site, const Mbarrier *m) {
    char self[NAME_BYTES], place[PLACE_BYTES];
    if (++lane->spins < SPINS) return;
    sim_fail(lane->sim, SIM_DEADLOCK, site,
             "deadlock: %s of %s has failed %d times; phase %lld of the mbarrier at offset %u "
             "misses %lld of %lld arrivals and %lld bytes",
             site_place(site, place), lane_name(lane, self), SPINS, (long long)m->phase, m->at,
             (long long)m->pending, (long long)m->expected, (long long)m->bytes);
}

/// After a failed test other lanes and the copies run, and the test repeats.
void handle_mbarrier_try_wait(SimLane *lane, const SimSite *site, char *frame) {
    uint32_t address = OPERAND(uint32_t, frame, site, 0);
    int parity = OPERAND(int32_t, frame, site, 1);
    lane->site = site;
    if (!has_phase_passed(own_mbarrier(lane, site, address), parity)) {
        load_random(lane->sim);
        lane_yield(lane);
    }
    Mbarrier *m = own_mbarrier(lane, site, address);
    bool yes = has_phase_passed(m, parity);
    if (yes) {
        order_mbarrier_wait(lane->w, lane->of, (int)(m - lane->of->mbarriers));
        lane->spins = 0;
    } else {
        count_spin(lane, site, m);
    }
    RESULT(uint8_t, frame, site) = yes;
}
