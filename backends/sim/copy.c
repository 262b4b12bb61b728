// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// cp.async copies bytes to shared memory, in groups that the lane waits for. Until a copy happens
// its target holds NaNs. It happens at a random time, at the latest at the wait.
#include <stdlib.h>
#include <string.h>

#include "backends/sim/shadow.h"

void copies_reset(Copies *c) {
    for (int i = 0; i < c->n; i++) free(c->data[i].data);
    c->n = 0;
    c->group = 0;
}

static char *copy_target(const SimLane *lane, const Copy *c, Cta **cta) {
    *cta = &lane->sim->ctas[c->to >> RANK_SHIFT];
    return (*cta)->shared + (c->to & ((1u << RANK_SHIFT) - 1));
}

static void fill_pending(char *to, int bytes) {
    static const uint16_t canary = CANARY_PENDING;
    for (int i = 0; i + 1 < bytes; i += 2) memcpy(to + i, &canary, 2);
}

void handle_cp_async(SimLane *lane, const SimSite *site, char *frame) {
    Copies *all = &lane->copies;
    int bytes = site_number(site, 'n');
    Cta *cta;
    Copy c = {.site = site,
              .group = all->group,
              .to = OPERAND(uint32_t, frame, site, 0),
              .p = OPERAND(const void *, frame, site, 1),
              .bytes = bytes,
              .read = OPERAND(int32_t, frame, site, 2)};
    char self[NAME_BYTES], place[PLACE_BYTES];
    lane->site = site;
    if (!OPERAND(uint8_t, frame, site, 3)) return;
    if (c.read < 0 || c.read > bytes)
        sim_fail(lane->sim, SIM_MISUSE, site, "%s: %s copies %d of %d bytes",
                 site_place(site, place), lane_name(lane, self), c.read, bytes);
    if (c.read && (uintptr_t)c.p % (uintptr_t)bytes)
        sim_fail(lane->sim, SIM_MISALIGNED, site, "misaligned: %s of %s reads from %p",
                 site_place(site, place), lane_name(lane, self), c.p);
    shared_find(lane, site, c.to, bytes, bytes);
    char *to = copy_target(lane, &c, &cta);
    if (c.read) access_global(lane, site, c.p, c.read, ACCESS_READ, NO_ACTOR, 0);
    access_shared(lane, site, cta, (uint32_t)(to - cta->shared), bytes,
                  ACCESS_WRITE | ACCESS_PENDING, NO_ACTOR, 0);
    fill_pending(to, bytes);
    if (all->n == all->cap)
        all->data = sim_grow(lane->sim, all->data, &all->cap, sizeof *all->data);
    all->data[all->n++] = c;
}

/// Copies the bytes. The lane may use them only after its wait.
static void do_async_copy(SimLane *lane, Copy *c) {
    Cta *cta;
    char *to = copy_target(lane, c, &cta);
    if (c->read_done) return;
    c->read_done = true;
    memcpy(to, c->p, (size_t)c->read);
    memset(to + c->read, 0, (size_t)(c->bytes - c->read));
    shared_mark(cta, (uint32_t)(to - cta->shared), c->bytes);
}

bool copy_random(SimLane *lane) {
    Copies *all = &lane->copies;
    if (!all->n) return false;
    do_async_copy(lane, &all->data[sim_random(lane->sim) % (unsigned)all->n]);
    return true;
}

void handle_cp_async_commit(SimLane *lane, const SimSite *site, char *frame) {
    (void)site, (void)frame;
    lane->copies.group++;
}

/// Waits for all committed groups except the last n.
void handle_cp_async_wait(SimLane *lane, const SimSite *site, char *frame) {
    Copies *all = &lane->copies;
    int last = all->group - 1 - site_number(site, 'n'), kept = 0;
    (void)frame;
    for (int i = 0; i < all->n; i++) {
        Copy *c = &all->data[i];
        if (c->group > last) {
            all->data[kept++] = *c;
            continue;
        }
        Cta *cta;
        char *to = copy_target(lane, c, &cta);
        do_async_copy(lane, c);
        access_finished(lane, cta, (uint32_t)(to - cta->shared), c->bytes);
    }
    all->n = kept;
}
