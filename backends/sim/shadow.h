// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The additional state of a checked run: the last accesses to each byte, and the order of accesses.
//
// An *actor* is a lane, or a unit that works for lanes: the matrix unit of a warpgroup, the copies
// that an mbarrier or a lane waits for. Each actor counts epochs. A *clock* has for each actor the
// last epoch that is ordered before. An access (actor, epoch) is ordered before a lane if the
// lane's clock has reached the epoch. Without --check all of this does nothing.
#ifndef BACKENDS_SIM_SHADOW_H
#define BACKENDS_SIM_SHADOW_H

#include "backends/sim/machine.h"

Shadow *shadow_create(Sim *sim, Shadow *old);
void shadow_destroy(Shadow *s);
void shadow_start(Sim *sim, int64_t cluster);
/// Checks that nothing is left over at the end of a cluster, also without --check.
void cluster_end(Sim *sim);

/* ---- order --------------------------------------------------------------------------------- */

enum {
    MBARRIER_ACTORS = 64,
    STORE_ACTORS = 32,
    CTA_ACTORS = MAX_THREADS / LANES / GROUP_WARPS + MBARRIER_ACTORS + STORE_ACTORS,
    NO_ACTOR = -1,
};

int actor_of_group(const Group *group);
int actor_of_mbarrier(const Cta *cta, int index);
/// Of the stores of a lane.
int actor_of_stores(SimLane *lane);

/// Lanes of the warp have met.
void order_warp(Warp *warp);
/// Warps of `waiting` have met at a barrier; `shared`: one of shared memory alone.
void order_barrier(Cta *cta, int barrier, uint32_t waiting, bool shared);
void order_arrive(Warp *warp, int barrier);
void order_cluster_arrive(Warp *warp);
void order_cluster_wait(Warp *warp);
void order_mbarrier_arrive(SimLane *lane, Cta *cta, int index);
/// Phase `phase` has ended.
void order_mbarrier_phase(Cta *cta, int index, int64_t phase);
void order_mbarrier_wait(Warp *warp, Cta *cta, int index);
/// The warp has waited for epochs up to `epoch` of the actor.
void order_waited(Warp *warp, int actor, uint32_t epoch);
/// Of shared memory, of what other ranks wrote to global memory, or both.
void order_proxy_fence(SimLane *lane, bool shared, bool global);
/// The lane has waited for a word of another rank, so that rank's earlier writes are visible.
void order_outside(SimLane *lane);
void order_fence(SimLane *lane);
/// A fence of the system. On AMD's GPUs it makes the lane's writes visible to other devices.
void order_settle(SimLane *lane);
/// The lane has come to a signal to another rank, and perhaps raises it.
void order_raise(SimLane *lane, const SimSite *site, bool raises);
/// The lane reads and writes the flag at p with an atomic.
void order_atomic(SimLane *lane, const void *p);

/* ---- accesses ------------------------------------------------------------------------------ */

typedef enum AccessKind {
    ACCESS_READ = 1,
    ACCESS_WRITE = 2,
    ACCESS_ATOMIC = 4,
    ACCESS_ASYNC = 8,    // by the asynchronous proxy
    ACCESS_PENDING = 16, // a copy that is under way until access_finished
} AccessKind;

/// By the lane itself (actor NO_ACTOR), or in the lane's name by an actor in an epoch of its own.
void access_shared(SimLane *lane, const SimSite *site, Cta *cta, uint32_t offset, int bytes,
                   int kind, int actor, uint32_t epoch);
/// So many bytes lie within one tensor.
void access_buffer(SimLane *lane, const SimSite *site, const char *data, uint32_t bytes);
void access_global(SimLane *lane, const SimSite *site, const void *p, int bytes, int kind,
                   int actor, uint32_t epoch);
/// Checks an access of the asynchronous proxy: it sees the writes of other ranks that precede waits
/// ordered before the access. (Their accesses have no stamps here.)
void check_outside(SimLane *lane, const SimSite *site);
/// The lane waited for its copy.
void access_finished(SimLane *lane, Cta *cta, uint32_t offset, int bytes);

#endif
