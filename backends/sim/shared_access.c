// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Masked accesses to shared memory by address, of this CTA or others of the cluster, and stores
// that an mbarrier counts.
#include <string.h>

#include "backends/sim/shadow.h"

static uint32_t address_to_offset(uint32_t address) {
    return address & ((1u << RANK_SHIFT) - 1);
}

void handle_cluster_addr(SimLane *lane, const SimSite *site, char *frame) {
    (void)lane;
    RESULT(uint32_t, frame, site) = address_to_offset(OPERAND(uint32_t, frame, site, 0)) |
                                    OPERAND(uint32_t, frame, site, 1) << RANK_SHIFT;
}

/// Reads the size of an access from its name: "b8", "b32x4". The values are the last operand group.
void prepare_shared(Prepare *p, const Fn *fn, SimSite *site) {
    const FnGroup *g = &fn->groups[fn->n_groups - 1];
    int each = g->letter == 'h' ? 2 : g->letter == 'l' ? 8 : 4;
    (void)p;
    site->bytes = g->count * each;
    if (strstr(site->name, ".b8")) site->bytes = 1;
}

void handle_load_shared(SimLane *lane, const SimSite *site, char *frame) {
    uint32_t address = OPERAND(uint32_t, frame, site, 0);
    lane->site = site;
    if (!OPERAND(uint8_t, frame, site, 1)) return;
    Cta *cta = shared_find(lane, site, address, site->bytes, site->bytes);
    access_shared(lane, site, cta, address_to_offset(address), site->bytes, ACCESS_READ, NO_ACTOR,
                  0);
    if (site->bytes == 1) RESULT(uint16_t, frame, site) = 0;
    memcpy(frame + site->result_at, cta->shared + address_to_offset(address), (size_t)site->bytes);
}

void handle_store_shared(SimLane *lane, const SimSite *site, char *frame) {
    uint32_t address = OPERAND(uint32_t, frame, site, 0);
    lane->site = site;
    if (!OPERAND(uint8_t, frame, site, 1)) return;
    Cta *cta = shared_find(lane, site, address, site->bytes, site->bytes);
    if (cta == lane->of) lane->value = frame + site->at[2];
    access_shared(lane, site, cta, address_to_offset(address), site->bytes, ACCESS_WRITE, NO_ACTOR,
                  0);
    lane->value = NULL;
    memcpy(cta->shared + address_to_offset(address), frame + site->at[2], (size_t)site->bytes);
    shared_mark(cta, address_to_offset(address), site->bytes);
}

void prepare_st_async(Prepare *p, const Fn *fn, SimSite *site) {
    prepare_shared(p, fn, site);
}

/// The bytes arrive at once, but only a waiter of the mbarrier may read them.
void handle_st_async(SimLane *lane, const SimSite *site, char *frame) {
    uint32_t address = OPERAND(uint32_t, frame, site, 0);
    uint32_t barrier = OPERAND(uint32_t, frame, site, 1);
    char self[NAME_BYTES], place[PLACE_BYTES];
    lane->site = site;
    if (!OPERAND(uint8_t, frame, site, 2)) return;
    Cta *cta = shared_find(lane, site, address, site->bytes, site->bytes);
    if (shared_find(lane, site, barrier, 8, 8) != cta)
        sim_fail(lane->sim, SIM_MISUSE, site, "%s of %s: the mbarrier is of another CTA",
                 site_place(site, place), lane_name(lane, self));
    Mbarrier *m = mbarrier_at(lane, site, cta, address_to_offset(barrier));
    access_shared(lane, site, cta, address_to_offset(address), site->bytes,
                  ACCESS_WRITE | ACCESS_ASYNC, actor_of_mbarrier(cta, (int)(m - cta->mbarriers)),
                  (uint32_t)m->phase + 1);
    memcpy(cta->shared + address_to_offset(address), frame + site->at[3], (size_t)site->bytes);
    shared_mark(cta, address_to_offset(address), site->bytes);
    mbarrier_complete_bytes(cta, address_to_offset(barrier), site->bytes);
}
