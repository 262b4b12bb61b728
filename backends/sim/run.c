// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Runs a launch: clusters one after another, in random order, on a machine that is made once.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "backends/sim/machine.h"
#include "backends/sim/shadow.h"

uint64_t sim_seed(void) {
    const char *text = secure_getenv("TG_SIM_SEED");
    return text && *text ? strtoull(text, NULL, 0) : 1;
}

/* ---- machines ------------------------------------------------------------------------------ */

static void cta_destroy(Cta *cta) {
    for (int i = 0; i < MAX_THREADS / LANES / GROUP_WARPS; i++) products_reset(&cta->groups[i]);
    if (cta->shared) munmap(cta->shared, VIEW_BYTES);
    free(cta->mbarriers);
}

static void lane_destroy(SimLane *lane) {
    copies_reset(&lane->copies);
    copies_reset(&lane->stores);
    free(lane->copies.data);
    free(lane->stores.data);
}

void sim_destroy(Sim *sim) {
    if (!sim) return;
    for (int i = 0; sim->ctas && i < sim->cluster; i++) cta_destroy(&sim->ctas[i]);
    for (int i = 0; sim->lanes && i < sim->cluster * sim->threads; i++)
        lane_destroy(&sim->lanes[i]);
    for (int i = 0; i < sim->n_fibers; i++) fiber_destroy(sim->fibers[i]);
    shadow_destroy(sim->shadow);
    free(sim->fibers);
    free(sim->ctas);
    free(sim->warps);
    free(sim->lanes);
    free(sim->loads);
    free(sim->matrices);
    free(sim);
}

static char *map_shared(void) {
    char *p = mmap(NULL, VIEW_BYTES, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return p == MAP_FAILED ? NULL : p;
}

/// Sets the fields that are the same for all CTAs.
static void join_lane(Sim *sim, Cta *cta, int i) {
    const SimFunction *f = sim->function;
    SimLane *lane = &cta->lanes[i];
    int lanes = sim->image->target->lanes;
    Warp *w = &cta->warps[i / lanes];
    int x = f->threads[0], y = f->threads[1];
    if (sim->run->threads) x = sim->run->threads, y = 1;
    lane->thread[0] = (uint32_t)(i % x);
    lane->thread[1] = (uint32_t)(i / x % y);
    lane->thread[2] = (uint32_t)(i / x / y);
    lane->threads[0] = (uint32_t)x;
    lane->threads[1] = (uint32_t)y;
    lane->threads[2] = (uint32_t)(sim->threads / x / y);
    lane->lane = (uint32_t)(i % lanes);
    lane->warp = (uint32_t)(i / lanes);
    lane->rank = (uint32_t)cta->rank;
    lane->ranks = (uint32_t)sim->cluster;
    lane->high = (uint32_t)cta->rank << RANK_SHIFT;
    lane->shared = cta->shared;
    lane->sim = sim;
    lane->of = cta;
    lane->w = w;
    lane->number = cta->rank * sim->threads + i;
    w->all |= (uint64_t)1 << lane->lane;
}

static void join_cta(Sim *sim, int rank) {
    Cta *cta = &sim->ctas[rank];
    int warps = sim->n_warps / sim->cluster;
    cta->sim = sim;
    cta->rank = rank;
    cta->warps = sim->warps + rank * warps;
    cta->lanes = sim->lanes + rank * sim->threads;
    for (int i = 0; i < warps; i++) {
        Warp *w = &cta->warps[i];
        Group *g = &cta->groups[i / GROUP_WARPS];
        w->cta = cta;
        w->group = g;
        w->lanes = cta->lanes + i * sim->image->target->lanes;
        w->index = i;
        w->number = rank * warps + i;
        g->cta = cta;
        g->index = i / GROUP_WARPS;
        g->n_warps++;
    }
    for (int i = 0; i < sim->threads; i++) join_lane(sim, cta, i);
}

static bool allocate_sim(Sim *sim) {
    sim->ctas = calloc((size_t)sim->cluster, sizeof *sim->ctas);
    sim->warps = calloc((size_t)sim->n_warps, sizeof *sim->warps);
    sim->lanes = calloc((size_t)sim->cluster * (size_t)sim->threads, sizeof *sim->lanes);
    if (!sim->ctas || !sim->warps || !sim->lanes) return false;
    for (int i = 0; i < sim->cluster; i++)
        if (!(sim->ctas[i].shared = map_shared())) return false;
    return true;
}

static Sim *sim_create(const SimImage *image, const SimFunction *function, const SimRun *run,
                       int threads, int cluster) {
    Sim *sim = calloc(1, sizeof *sim);
    if (!sim) return NULL;
    sim->image = image;
    sim->function = function;
    sim->run = run;
    sim->threads = threads;
    sim->cluster = cluster;
    int lanes = image->target->lanes;
    sim->n_warps = cluster * ((threads + lanes - 1) / lanes);
    sim->main.sim = sim;
    if (!allocate_sim(sim)) {
        sim_destroy(sim);
        return NULL;
    }
    for (int i = 0; i < cluster; i++) join_cta(sim, i);
    return sim;
}

/// Returns an idle machine, or a new one.
static Sim *take_machine(const SimImage *image, const SimFunction *function, const SimRun *run,
                         int threads, int cluster) {
    SimImage *own = (SimImage *)image; // the list of machines changes
    lock_take(&own->lock);
    Sim **at = &own->idle, *sim;
    while ((sim = *at) &&
           (sim->function != function || sim->threads != threads || sim->cluster != cluster))
        at = &sim->next;
    if (sim) *at = sim->next;
    lock_give(&own->lock);
    return sim ? sim : sim_create(image, function, run, threads, cluster);
}

enum { MOST_FIBERS = 8192 };

static void give_machine(const SimImage *image, Sim *sim) {
    SimImage *own = (SimImage *)image;
    if (fibers_alive() > MOST_FIBERS) {
        sim_destroy(sim);
        return;
    }
    lock_take(&own->lock);
    sim->next = own->idle;
    own->idle = sim;
    lock_give(&own->lock);
}

/* ---- clusters ------------------------------------------------------------------------------ */

/// bytes is a multiple of 8.
static void fill_canary(char *p, int64_t bytes, uint16_t canary) {
    uint64_t four = canary * UINT64_C(0x0001000100010001);
    for (int64_t i = 0; i < bytes; i += 8) memcpy(p + i, &four, 8);
}

static void cta_start(Sim *sim, Cta *cta) {
    fill_canary(cta->shared, sim->shared_bytes, CANARY_START);
    if (gpu_has(sim->image->target, GPU_TMA)) {
        fill_canary(cta->shared + VIEW_ASYNC, sim->shared_bytes, CANARY_START);
        memset(cta->shared + VIEW_DIRTY, 0, (size_t)sim->shared_bytes);
        memset(cta->shared + VIEW_SUMMARY, 0, SHARED_MAX >> SUMMARY_LOG2);
    }
    memset(cta->barriers, 0, sizeof cta->barriers);
    cta->n_mbarriers = 0;
    registers_start(cta);
    for (int i = 0; i < sim->n_warps / sim->cluster; i++) {
        Group *g = &cta->groups[i / GROUP_WARPS];
        g->arrived = 0;
        g->fenced = false;
        g->committed = 0;
        products_reset(g);
    }
}

static void lane_start(Sim *sim, SimLane *lane) {
    int rank = (int)lane->rank, *first = sim->program;
    lane->cta[0] = (uint32_t)(first[0] + rank);
    lane->cta[1] = (uint32_t)first[1];
    lane->cta[2] = (uint32_t)first[2];
    for (int d = 0; d < 3; d++) lane->ctas[d] = sim->run->grid[d] ? (uint32_t)sim->run->grid[d] : 1;
    lane->fiber = NULL;
    lane->site = NULL;
    lane->spins = 0;
    lane->path = 0;
    copies_reset(&lane->copies);
    copies_reset(&lane->stores);
    lane->waited = 0;
}

static void warp_start(Warp *w) {
    w->ready = w->arrived = w->done = 0;
    w->site = NULL;
    w->wait = WAIT_NONE;
    w->cluster_phase = 0;
    w->cluster_arrived = false;
}

/// Resets the fibers: a failed run stopped them in the middle of code.
static void fibers_reset(Sim *sim) {
    sim->idle = NULL;
    for (int i = 0; i < sim->n_fibers; i++) {
        fiber_reset(sim->fibers[i]);
        sim->fibers[i]->next = sim->idle;
        sim->idle = sim->fibers[i];
    }
    sim->failed = false;
}

static void run_cluster(Sim *sim, int64_t cluster) {
    const int32_t *grid = sim->run->grid;
    int64_t x = grid[0] ? grid[0] : 1, y = grid[1] ? grid[1] : 1;
    int64_t first = cluster * sim->cluster;
    sim->program[0] = (int32_t)(first % x);
    sim->program[1] = (int32_t)(first / x % y);
    sim->program[2] = (int32_t)(first / x / y);
    memset(sim->ready, 0, sizeof sim->ready);
    sim->cluster_phase = sim->cluster_warps = 0;
    sim->n_loads = 0;
    sim->live = sim->cluster * sim->threads;
    for (int i = 0; i < sim->cluster; i++) cta_start(sim, &sim->ctas[i]);
    for (int i = 0; i < sim->n_warps; i++) warp_start(&sim->warps[i]);
    for (int i = 0; i < sim->live; i++) lane_start(sim, &sim->lanes[i]);
    if (sim->shadow) shadow_start(sim, cluster);
    sim_schedule(sim);
    if (!sim->failed) cluster_end(sim);
}

/// Numbers 0 .. n - 1 in an order that looks random: i * odd + start, modulo a power of two.
typedef struct RandomOrder {
    uint64_t mask, factor, start, at;
} RandomOrder;

static RandomOrder random_order(Sim *sim, int64_t n) {
    RandomOrder o = {.factor = (uint64_t)sim_random(sim) << 1 | 1, .start = sim_random(sim)};
    while (o.mask + 1 < (uint64_t)n) o.mask = 2 * o.mask + 1;
    return o;
}

static int64_t order_next(RandomOrder *o, int64_t n) {
    for (;;) {
        uint64_t i = (o->at++ * o->factor + o->start) & o->mask;
        if (i < (uint64_t)n) return (int64_t)i;
    }
}

static void run_all_clusters(Sim *sim, int64_t clusters) {
    RandomOrder order = random_order(sim, clusters);
    for (int64_t i = 0; i < clusters && !sim->failed; i++)
        run_cluster(sim, order_next(&order, clusters));
}

/// Runs the clusters. Failures outside of fibers return here.
static void run_protected(Sim *sim, int64_t clusters) {
    if (setjmp(sim->out) == 0) {
        if (sim->image->check) sim->shadow = shadow_create(sim, sim->shadow);
        run_all_clusters(sim, clusters);
    }
}

/* ---- launches ------------------------------------------------------------------------------ */

static bool refuse_launch(SimFailure *failure, const char *fmt, long long a, long long b) {
    *failure = (SimFailure){.kind = SIM_BAD_LAUNCH, .file = ""};
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
    snprintf(failure->text, sizeof failure->text, fmt, a, b);
#pragma GCC diagnostic pop
    return false;
}

static bool launch_sim(const SimImage *image, const SimFunction *f, const SimRun *run, int threads,
                       int cluster, SimFailure *failure) {
    int64_t x = run->grid[0] ? run->grid[0] : 1, y = run->grid[1] ? run->grid[1] : 1;
    int64_t z = run->grid[2] ? run->grid[2] : 1;
    int64_t shared = run->shared_bytes > f->shared_bytes ? run->shared_bytes : f->shared_bytes;
    bool clusters = gpu_has(image->target, GPU_CLUSTER);
    if (threads < 1 || threads > MAX_THREADS)
        return refuse_launch(failure, "a CTA of %lld threads; there may be 1 to %lld", threads,
                             MAX_THREADS);
    if (cluster < 1 || cluster > MAX_CLUSTER || (cluster > 1 && !clusters))
        return refuse_launch(failure, "a cluster of %lld CTAs; there may be %lld", cluster,
                             clusters ? MAX_CLUSTER : 1);
    if (x % cluster)
        return refuse_launch(failure, "a grid of %lld CTAs in clusters of %lld", x, cluster);
    if (shared > image->target->shared_cta)
        return refuse_launch(failure, "%lld bytes of shared memory; the target has %lld", shared,
                             image->target->shared_cta);
    Sim *sim = take_machine(image, f, run, threads, cluster);
    if (!sim)
        return refuse_launch(failure, "out of memory for %lld threads of %lld CTAs", threads,
                             cluster);
    if (sim->failed) fibers_reset(sim);
    sim->run = run;
    sim->failure = failure;
    sim->now = &sim->main;
    sim->shared_bytes = (shared + 15) & ~(int64_t)15;
    sim->random = (run->seed + 1) * 0x9e3779b97f4a7c15u;
    sim->pauses = run->pauses;
    sim->elected = (int)(sim_random(sim) % LANES);
    run_protected(sim, x / cluster * y * z);
    bool good = !sim->failed;
    give_machine(image, sim);
    return good;
}

bool sim_run(const SimImage *image, int function, const SimRun *run, SimFailure *failure) {
    const SimFunction *f = &image->functions[function];
    int threads = run->threads ? run->threads : f->threads[0] * f->threads[1] * f->threads[2];
    *failure = (SimFailure){.file = ""};
    return launch_sim(image, f, run, threads, run->cluster ? run->cluster : f->cluster, failure);
}
