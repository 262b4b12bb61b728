// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The additional state of a checked run: the last accesses to each byte, and the order of accesses.
//
// An *actor* is a lane, or a unit that works for lanes: the matrix unit of a warpgroup, or the
// copies that an mbarrier or a lane waits for. Each actor counts epochs. A *clock* holds for each
// actor the last epoch that is ordered before. An access (actor, epoch) is ordered before a lane if
// the lane's clock has reached the epoch. Without --check these functions do nothing.
#ifndef BACKENDS_SIM_SHADOW_H
#define BACKENDS_SIM_SHADOW_H

#include "backends/sim/machine.h"

Shadow *shadow_create(Sim *sim, Shadow *old);
void shadow_destroy(Shadow *s);
void shadow_start(Sim *sim, int64_t cluster);
/// Checks that no work is pending at the end of a cluster, also without --check.
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
/// Returns the actor of a lane's stores.
int actor_of_stores(SimLane *lane);

/// The warp's lanes have met.
void order_warp(Warp *warp);
/// The warps of `waiting` have met at a barrier. `shared`: it orders shared memory only.
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
/// A fence for shared memory, for other ranks' writes to global memory, or for both.
void order_proxy_fence(SimLane *lane, bool shared, bool global);
/// The lane has waited for a word of another rank, so that rank's earlier writes are visible.
void order_outside(SimLane *lane);
void order_fence(SimLane *lane);
/// A fence at system scope. On AMD's GPUs it makes the lane's writes visible to other devices.
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
    ACCESS_ASYNC = 8,    // an access of the asynchronous proxy
    ACCESS_PENDING = 16, // a copy in flight until access_finished
} AccessKind;

/// Records an access by the lane itself (actor NO_ACTOR), or for the lane by an actor in an epoch
/// of its own.
void access_shared(SimLane *lane, const SimSite *site, Cta *cta, uint32_t offset, int bytes,
                   int kind, int actor, uint32_t epoch);
/// Checks that the bytes of an access lie within one tensor.
void access_buffer(SimLane *lane, const SimSite *site, const char *data, uint32_t bytes);
void access_global(SimLane *lane, const SimSite *site, const void *p, int bytes, int kind,
                   int actor, uint32_t epoch);
/// Checks an access of the asynchronous proxy: it must see the writes of other ranks that its
/// earlier waits have ordered. (Accesses of other ranks have no stamps here.)
void check_outside(SimLane *lane, const SimSite *site);
/// The lane waited for its copy.
void access_finished(SimLane *lane, Cta *cta, uint32_t offset, int bytes);

#endif
