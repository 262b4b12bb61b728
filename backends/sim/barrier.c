// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Barriers of a CTA, a warp or a cluster; fences; the register pool; the end of a cluster.
#include <string.h>

#include "backends/sim/shadow.h"

/* ---- barriers of a CTA --------------------------------------------------------------------- */

static void check_barrier(Warp *w, const SimSite *site, const Barrier *b, int number, int threads) {
    char a[NAME_BYTES], here[PLACE_BYTES], there[PLACE_BYTES];
    Sim *sim = w->cta->sim;
    if (threads > sim->threads)
        sim_fail(sim, SIM_MISUSE, site, "%s waits for %d threads, but the CTA has %d",
                 site_place(site, here), threads, sim->threads);
    if (!b->threads) return;
    if (b->threads != threads)
        sim_fail(sim, SIM_MISUSE, site,
                 "barrier %d is used for %d threads by %s at %s, and for %d at %s", number, threads,
                 lane_name(&w->lanes[0], a), site_place(site, here), b->threads,
                 site_place(b->site, there));
    // Barrier 0 joins all warps of a CTA at one place. A named barrier may join different code.
    if (number == 0 && b->site != site)
        sim_fail(sim, SIM_DIVERGENT, site,
                 "the warps of a CTA are at different barriers: %s at %s, others at %s",
                 lane_name(&w->lanes[0], a), site_place(site, here), site_place(b->site, there));
}

typedef enum BarrierUse { ARRIVES, MEETS, MEETS_SHARED } BarrierUse;

static void arrive_at_barrier(Warp *w, const SimSite *site, int number, int threads,
                              BarrierUse how) {
    bool waits = how != ARRIVES;
    Cta *cta = w->cta;
    Barrier *b = &cta->barriers[number];
    char a[NAME_BYTES], here[PLACE_BYTES];
    check_barrier(w, site, b, number, threads);
    b->threads = threads;
    b->site = site;
    b->arrived += warp_lanes(w);
    if (waits) b->warps |= 1u << w->index;
    order_arrive(w, number);
    if (waits)
        warp_wait(w, WAIT_BARRIER, number);
    else
        warp_resume(w);
    if (b->arrived > threads)
        sim_fail(cta->sim, SIM_MISUSE, site,
                 "%s at %s is one more than the %d threads of barrier %d",
                 lane_name(&w->lanes[0], a), site_place(site, here), threads, number);
    if (b->arrived < threads) return;
    order_barrier(cta, number, b->warps, how == MEETS_SHARED);
    for (uint32_t all = b->warps; all; all &= all - 1) warp_resume(&cta->warps[__builtin_ctz(all)]);
    *b = (Barrier){0};
}

void handle_barrier(Warp *w, const SimSite *site) {
    arrive_at_barrier(w, site, 0, w->cta->sim->threads, MEETS);
}

void handle_barrier_shared(Warp *w, const SimSite *site) {
    arrive_at_barrier(w, site, 0, w->cta->sim->threads, MEETS_SHARED);
}

void handle_barrier_named(Warp *w, const SimSite *site) {
    arrive_at_barrier(w, site, site_number(site, 'i'), site_number(site, 'n'), MEETS);
}

void handle_barrier_arrive(Warp *w, const SimSite *site) {
    arrive_at_barrier(w, site, site_number(site, 'i'), site_number(site, 'n'), ARRIVES);
}

void handle_warp_sync(Warp *w, const SimSite *site) {
    (void)site;
    order_warp(w);
    warp_resume(w);
}

/* ---- clusters ------------------------------------------------------------------------------ */

void handle_cluster_arrive(Warp *w, const SimSite *site) {
    Sim *sim = w->cta->sim;
    char a[NAME_BYTES], place[PLACE_BYTES];
    if (w->cluster_arrived)
        sim_fail(sim, SIM_MISUSE, site, "%s arrives at %s a second time without a wait",
                 lane_name(&w->lanes[0], a), site_place(site, place));
    w->cluster_arrived = true;
    w->cluster_phase = sim->cluster_phase;
    order_cluster_arrive(w);
    warp_resume(w);
    if (++sim->cluster_warps < sim->n_warps) return;
    sim->cluster_warps = 0;
    sim->cluster_phase++;
    for (int i = 0; i < sim->n_warps; i++)
        if (sim->warps[i].wait == WAIT_CLUSTER) {
            order_cluster_wait(&sim->warps[i]);
            warp_resume(&sim->warps[i]);
        }
}

void handle_cluster_wait(Warp *w, const SimSite *site) {
    Sim *sim = w->cta->sim;
    char a[NAME_BYTES], place[PLACE_BYTES];
    if (!w->cluster_arrived)
        sim_fail(sim, SIM_MISUSE, site, "%s waits at %s without having arrived",
                 lane_name(&w->lanes[0], a), site_place(site, place));
    w->cluster_arrived = false;
    if (w->cluster_phase == sim->cluster_phase) {
        warp_wait(w, WAIT_CLUSTER, 0);
        return;
    }
    order_cluster_wait(w);
    warp_resume(w);
}

/* ---- fences -------------------------------------------------------------------------------- */

void prepare_fence(Prepare *p, const Fn *fn, SimSite *site) {
    (void)p;
    site->number_of['s' - 'a'] = strcmp(fn_capture(fn, 's'), "sys") == 0;
}

void handle_fence(SimLane *lane, const SimSite *site, char *frame) {
    (void)frame;
    order_fence(lane);
    if (site_number(site, 's')) order_settle(lane);
}

static void publish_mbarriers(Cta *cta) {
    for (int i = 0; i < cta->n_mbarriers; i++) cta->mbarriers[i].fenced = true;
}

/// Reads from the name whether the fence covers shared memory, global memory or both.
void prepare_fence_proxy(Prepare *p, const Fn *fn, SimSite *site) {
    (void)p, (void)fn;
    site->number_of['g' - 'a'] = strstr(site->name, ".shared") == NULL;
    site->number_of['s' - 'a'] = strstr(site->name, ".global") == NULL;
}

void handle_fence_proxy(SimLane *lane, const SimSite *site, char *frame) {
    bool shared = site_number(site, 's');
    (void)frame;
    order_proxy_fence(lane, shared, site_number(site, 'g'));
    if (!shared) return;
    publish_mbarriers(lane->of);
    for (int i = 0; i < lane->sim->cluster; i++) proxy_fence(&lane->sim->ctas[i]);
}

void handle_fence_mbarrier_init(SimLane *lane, const SimSite *site, char *frame) {
    (void)site, (void)frame;
    publish_mbarriers(lane->of);
}

/// No work: launches run one after the other here.
void handle_depends(SimLane *lane, const SimSite *site, char *frame) {
    (void)lane, (void)site, (void)frame;
}

void handle_trap(SimLane *lane, const SimSite *site, char *frame) {
    char a[NAME_BYTES], place[PLACE_BYTES];
    if (OPERAND(uint8_t, frame, site, 0))
        sim_fail(lane->sim, SIM_TRAP, site, "%s stops at %s", lane_name(lane, a),
                 site_place(site, place));
}

/* ---- registers ----------------------------------------------------------------------------- */

enum { REGISTERS = 64 << 10, MOST_REGISTERS = 255 & ~7 };

/// The assembler's register count is unknown here. Warps start with as many as fit the pool.
void registers_start(Cta *cta) {
    int threads = cta->sim->threads, each = REGISTERS / threads & ~7;
    if (each > MOST_REGISTERS) each = MOST_REGISTERS;
    for (int i = 0; i < MAX_THREADS / LANES / GROUP_WARPS; i++) cta->groups[i].registers = each;
    cta->free_registers = REGISTERS - each * threads;
}

enum { GROUP_THREADS = GROUP_WARPS * LANES };

/// Returns false if the pool has too few registers for the group's request.
static bool serve_group(Cta *cta, Warp *w) {
    int more = (w->wait_for - w->group->registers) * GROUP_THREADS;
    if (w->wait != WAIT_REGISTERS || more > cta->free_registers) return false;
    cta->free_registers -= more;
    w->group->registers = w->wait_for;
    group_resume(w->group);
    return true;
}

/// Gives released registers to waiting groups, in any order of the groups.
static void serve_registers(Cta *cta) {
    for (bool more = true; more;) {
        more = false;
        for (int i = 0; i < cta->sim->n_warps / cta->sim->cluster; i += GROUP_WARPS)
            more |= serve_group(cta, &cta->warps[i]);
    }
}

void handle_setmaxnreg(Group *g, const SimSite *site) {
    int n = site_number(site, 'n');
    bool more = strstr(site->name, ".inc.") != NULL;
    char place[PLACE_BYTES];
    if (more ? n < g->registers : n > g->registers)
        sim_fail(g->cta->sim, SIM_MISUSE, site, "%s, but the warpgroup has %d registers a thread",
                 site_place(site, place), g->registers);
    for (int i = 0; i < GROUP_WARPS; i++)
        warp_wait(&g->cta->warps[g->index * GROUP_WARPS + i], WAIT_REGISTERS, n);
    g->blocked = true;
    serve_registers(g->cta);
}

/* ---- the end ------------------------------------------------------------------------------- */

static void check_mbarrier(Sim *sim, const Mbarrier *m) {
    char place[PLACE_BYTES];
    if (m->bytes)
        sim_fail(sim, SIM_MISUSE, m->site,
                 "the program ends while %lld bytes are on their way to the mbarrier of %s",
                 (long long)m->bytes, site_place(m->site, place));
}

void cluster_end(Sim *sim) {
    char place[PLACE_BYTES];
    if (sim->n_loads)
        sim_fail(sim, SIM_MISUSE, sim->loads[0].site,
                 "the program ends before the load of %s has come: there was no wait for it",
                 site_place(sim->loads[0].site, place));
    for (int i = 0; i < sim->cluster; i++) {
        const Cta *cta = &sim->ctas[i];
        for (int k = 0; k < cta->n_mbarriers; k++) check_mbarrier(sim, &cta->mbarriers[k]);
        for (int k = 0; k < MAX_THREADS / LANES / GROUP_WARPS; k++)
            if (cta->groups[k].oldest)
                sim_fail(sim, SIM_MISUSE, cta->groups[k].oldest->site,
                         "the program ends before the product of %s was waited for",
                         site_place(cta->groups[k].oldest->site, place));
    }
}
