// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The scheduler: runs the lanes of one warp until all of them wait, then those of another one.
// Collectives gather here. If no lane can run, asynchronous work is done; if none is left, it is a
// deadlock.
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backends/sim/machine.h"

uint32_t sim_random(Sim *sim) {
    uint64_t x = sim->random;
    x ^= x << 13;
    x ^= x >> 7;
    x ^= x << 17;
    sim->random = x;
    return (uint32_t)(x * 0x2545f4914f6cdd1du >> 32);
}

void *sim_grow(Sim *sim, void *data, int *cap, size_t size) {
    int more = 2 * *cap + 16;
    void *p = realloc(data, size * (size_t)more);
    if (!p) sim_fail(sim, SIM_NO_MEMORY, NULL, "out of memory");
    *cap = more;
    return p;
}

void *sim_alloc(Sim *sim, size_t size) {
    void *p = calloc(1, size ? size : 1);
    if (!p) sim_fail(sim, SIM_NO_MEMORY, NULL, "out of memory");
    return p;
}

/* ---- failures ------------------------------------------------------------------------------ */

const char *site_place(const SimSite *site, char *out) {
    if (!site)
        snprintf(out, PLACE_BYTES, "the start");
    else if (*site->file)
        snprintf(out, PLACE_BYTES, "%s (%s:%d:%d)", site->name, site->file, site->line,
                 site->column);
    else
        snprintf(out, PLACE_BYTES, "%s (site %d of %s)", site->name, site->number, site->function);
    return out;
}

const char *lane_name(const SimLane *lane, char *out) {
    int n = snprintf(out, NAME_BYTES, "thread %d (warp %u, lane %u)",
                     lane->number % lane->sim->threads, lane->warp, lane->lane);
    const uint32_t *grid = lane->ctas;
    if (grid[0] * grid[1] * grid[2] > 1)
        snprintf(out + n, NAME_BYTES - (size_t)n, " of CTA (%u,%u,%u)", lane->cta[0], lane->cta[1],
                 lane->cta[2]);
    return out;
}

/// The current fiber stays in place, and its stack is reset before the next use.
_Noreturn static void leave_fiber(Sim *sim) {
    sim->failed = true;
    if (sim->now == &sim->main) longjmp(sim->out, 1);
    for (;;) {
        Fiber *from = sim->now;
        sim->now = &sim->main;
        fiber_switch(from, &sim->main);
    }
}

_Noreturn void sim_fail(Sim *sim, SimFailureKind kind, const SimSite *site, const char *fmt, ...) {
    SimFailure *f = sim->failure;
    va_list ap;
    va_start(ap, fmt);
    *f = (SimFailure){.kind = kind, .file = site ? site->file : ""};
    if (site) {
        f->line = site->line;
        f->column = site->column;
    }
    vsnprintf(f->text, sizeof f->text, fmt, ap);
    va_end(ap);
    leave_fiber(sim);
}

/* ---- the next lane ------------------------------------------------------------------------- */

static void set_ready(Warp *w, uint64_t lanes) {
    Sim *sim = w->cta->sim;
    w->ready |= lanes;
    if (w->ready) sim->ready[w->number / 64] |= (uint64_t)1 << w->number % 64;
}

static SimLane *take_lane(Warp *w) {
    Sim *sim = w->cta->sim;
    // Tries the lanes in order, from a random one on.
    unsigned turn = sim->random >> 40 & (MOST_LANES - 1);
    uint64_t turned = turn ? w->ready >> turn | w->ready << (MOST_LANES - turn) : w->ready;
    unsigned lane = ((unsigned)__builtin_ctzll(turned) + turn) & (MOST_LANES - 1);
    w->ready &= ~((uint64_t)1 << lane);
    if (!w->ready) sim->ready[w->number / 64] &= ~((uint64_t)1 << w->number % 64);
    return &w->lanes[lane];
}

/// Returns a random ready warp, or NULL.
static Warp *pick_warp(Sim *sim) {
    int words = (sim->n_warps + 63) / 64;
    int first = (int)(sim_random(sim) % (unsigned)sim->n_warps);
    for (int i = 0; i <= words; i++) {
        int word = (first / 64 + i) % words;
        uint64_t bits = sim->ready[word];
        if (i == 0) bits &= ~(uint64_t)0 << first % 64;
        if (i == words) bits &= ~(~(uint64_t)0 << first % 64);
        if (bits) return &sim->warps[64 * word + __builtin_ctzll(bits)];
    }
    return NULL;
}

/// Does some asynchronous work that needs no running lane, if any exists.
static bool work_somewhere(Sim *sim) {
    if (load_random(sim)) return true;
    for (int i = 0; i < 4; i++) {
        Warp *w = &sim->warps[sim_random(sim) % (unsigned)sim->n_warps];
        SimLane *lane = &w->lanes[sim_random(sim) % (unsigned)warp_lanes(w)];
        if (copy_random(lane) || store_random(lane)) return true;
        if (w->group && product_random(w->group)) return true;
    }
    return false;
}

static _Noreturn void fail_deadlock(Sim *sim);

/// Returns the lane to run next, or NULL if all have ended.
static SimLane *next_lane(Sim *sim) {
    if (sim->warp->ready) return take_lane(sim->warp);
    if (!sim->live) return NULL;
    if ((sim_random(sim) & 3) == 0) work_somewhere(sim);
    for (;;) {
        Warp *w = pick_warp(sim);
        if (w) {
            sim->warp = w;
            return take_lane(w);
        }
        // Only a load can make a lane ready now.
        if (!load_random(sim)) fail_deadlock(sim);
    }
}

/* ---- fibers and lanes ---------------------------------------------------------------------- */

static Fiber *idle_fiber(Sim *sim) {
    Fiber *f = sim->idle;
    if (f) {
        sim->idle = f->next;
        return f;
    }
    if (sim->n_fibers == sim->cap_fibers)
        sim->fibers = sim_grow(sim, sim->fibers, &sim->cap_fibers, sizeof *sim->fibers);
    f = fiber_create(sim, (size_t)(48 << 10) + (size_t)sim->function->frame_bytes);
    if (!f) sim_fail(sim, SIM_NO_MEMORY, NULL, "out of memory for the stack of a lane");
    return sim->fibers[sim->n_fibers++] = f;
}

static void go_to(Sim *sim, Fiber *from, Fiber *to) {
    if (from == to) return;
    sim->now = to;
    fiber_switch(from, to);
}

static Fiber *fiber_of(Sim *sim, SimLane *lane) {
    if (!lane->fiber) {
        lane->fiber = idle_fiber(sim);
        lane->fiber->lane = lane;
    }
    return lane->fiber;
}

/// Stops the lane until the scheduler selects it again. It is ready only if the caller made it so.
static void give_way_to_lane(SimLane *lane) {
    Sim *sim = lane->sim;
    SimLane *next = next_lane(sim);
    if (next != lane) go_to(sim, lane->fiber, fiber_of(sim, next));
}

static void end_lane(SimLane *lane) {
    Sim *sim = lane->sim;
    Warp *w = lane->w;
    char a[NAME_BYTES], b[NAME_BYTES], place[PLACE_BYTES];
    stores_finish(lane);
    if (w->arrived)
        sim_fail(sim, SIM_DIVERGENT, w->site, "%s has ended while others of its warp wait at %s",
                 lane_name(lane, a), site_place(w->site, place));
    if (w->done && lane->path != w->path)
        sim_fail(sim, SIM_DIVERGENT, lane->site,
                 "the lanes of a warp have taken different branches before their end: %s and %s",
                 lane_name(lane, a), lane_name(&w->lanes[__builtin_ctzll(w->done)], b));
    w->path = lane->path;
    w->done |= (uint64_t)1 << lane->lane;
    lane->fiber = NULL;
    sim->live--;
}

// A lane that has not started can use the stack of a lane that has just ended.
_Noreturn void fiber_main(Fiber *self) {
    Sim *sim = self->sim;
    for (;;) {
        self->lane->fiber = self;
        sim->function->entry(self->lane, sim->run->args);
        end_lane(self->lane);
        SimLane *next = next_lane(sim);
        if (next && !next->fiber) {
            self->lane = next;
            continue;
        }
        self->next = sim->idle;
        sim->idle = self;
        go_to(sim, self, next ? next->fiber : &sim->main);
    }
}

void sim_schedule(Sim *sim) {
    sim->warp = &sim->warps[0];
    for (int i = 0; i < sim->n_warps; i++) set_ready(&sim->warps[i], sim->warps[i].all);
    sim->warp = pick_warp(sim);
    sim->now = &sim->main;
    Fiber *first = fiber_of(sim, take_lane(sim->warp));
    go_to(sim, &sim->main, first);
}

void lane_yield(SimLane *lane) {
    Sim *sim = lane->sim;
    // Another lane runs first. This lane becomes a candidate only after that choice.
    Warp *w = pick_warp(sim);
    set_ready(lane->w, (uint64_t)1 << lane->lane);
    if (w) sim->warp = w;
    give_way_to_lane(lane);
}

/* ---- collectives --------------------------------------------------------------------------- */

void warp_resume(Warp *w) {
    w->wait = WAIT_NONE;
    set_ready(w, w->all);
}

void warp_wait(Warp *w, WaitKind kind, int what) {
    w->wait = kind;
    w->wait_for = what;
}

void group_resume(Group *g) {
    for (int i = 0; i < GROUP_WARPS; i++) warp_resume(&g->cta->warps[g->index * GROUP_WARPS + i]);
}

static void check_arrival(Warp *w, const SimLane *lane, const SimSite *site) {
    Sim *sim = w->cta->sim;
    char a[NAME_BYTES], b[NAME_BYTES], here[PLACE_BYTES], there[PLACE_BYTES];
    if (w->done)
        sim_fail(sim, SIM_DIVERGENT, site, "%s waits at %s, but %s has ended", lane_name(lane, a),
                 site_place(site, here), lane_name(&w->lanes[__builtin_ctzll(w->done)], b));
    if (w->arrived && w->site != site)
        sim_fail(sim, SIM_DIVERGENT, site,
                 "the lanes of a warp are at different places: %s at %s, %s at %s",
                 lane_name(lane, a), site_place(site, here),
                 lane_name(&w->lanes[__builtin_ctzll(w->arrived)], b), site_place(w->site, there));
}

/// Lanes that arrive at the same place may still have come by different branches.
static void check_warp_path(Warp *w, SimLane *lane, const SimSite *site) {
    char a[NAME_BYTES], b[NAME_BYTES], place[PLACE_BYTES];
    if (!w->arrived) w->path = lane->path;
    if (lane->path != w->path)
        sim_fail(w->cta->sim, SIM_DIVERGENT, site,
                 "the lanes of a warp have taken different branches before %s: %s and %s",
                 site_place(site, place), lane_name(lane, a),
                 lane_name(&w->lanes[__builtin_ctzll(w->arrived)], b));
    lane->path = 0;
}

static void check_uniform(Warp *w, const SimSite *site, int k) {
    char a[NAME_BYTES], b[NAME_BYTES], place[PLACE_BYTES];
    int bytes =
        (k + 1 < FN_GROUPS && site->count[k + 1] ? site->at[k + 1] : site->result_at) - site->at[k];
    if (bytes > 4 * site->count[k] && bytes < 8 * site->count[k]) bytes = 4 * site->count[k];
    if (site->count[k] == 1) bytes = 4;
    for (int i = 1; i < warp_lanes(w); i++)
        if (memcmp(w->frames[0] + site->at[k], w->frames[i] + site->at[k], (size_t)bytes) != 0)
            sim_fail(w->cta->sim, SIM_DIVERGENT, site,
                     "operand %d of %s differs between lanes: %d for %s, %d for %s", k,
                     site_place(site, place), OPERAND(int32_t, w->frames[0], site, k),
                     lane_name(&w->lanes[0], a), OPERAND(int32_t, w->frames[i], site, k),
                     lane_name(&w->lanes[i], b));
}

/// The four warps of a group meet as the lanes of a warp do.
static void arrive_group(Warp *w, const SimSite *site) {
    Group *g = w->group;
    Sim *sim = w->cta->sim;
    char a[NAME_BYTES], here[PLACE_BYTES], there[PLACE_BYTES];
    if (!g || g->n_warps < GROUP_WARPS)
        sim_fail(sim, SIM_MISUSE, site, "%s needs whole warpgroups of 128 threads",
                 site_place(site, here));
    if (g->arrived && g->site != site)
        sim_fail(sim, SIM_DIVERGENT, site,
                 "the warps of a warpgroup are at different places: %s at %s, others at %s",
                 lane_name(&w->lanes[0], a), site_place(site, here), site_place(g->site, there));
    g->site = site;
    g->arrived |= 1u << w->index % GROUP_WARPS;
    warp_wait(w, WAIT_GROUP, 0);
    if (g->arrived != (1u << GROUP_WARPS) - 1) return;
    g->arrived = 0;
    g->blocked = false;
    site->op->group(g, site);
    if (!g->blocked) group_resume(g);
}

static bool is_skipped_site(const Sim *sim, const SimSite *site) {
    if (!site->sync) return false;
    if (sim->run->met) sim->run->met[site->sync] = true;
    if (sim->run->skip_site != site->sync) return false;
    if (sim->run->skipped) ++*sim->run->skipped;
    return true;
}

static void complete_group(Warp *w, const SimSite *site) {
    w->arrived = 0;
    for (int k = 0; site->op->uniform >> k; k++)
        if (site->op->uniform >> k & 1) check_uniform(w, site, k);
    if (is_skipped_site(w->cta->sim, site))
        warp_resume(w);
    else if (site->op->group)
        arrive_group(w, site);
    else
        site->op->warp(w, site);
}

void sim_collective(SimLane *lane, const SimSite *site, char *frame) {
    Warp *w = lane->w;
    uint64_t self = (uint64_t)1 << lane->lane;
    if (w->done || (w->arrived && w->site != site)) check_arrival(w, lane, site);
    check_warp_path(w, lane, site);
    w->site = lane->site = site;
    w->frames[lane->lane] = frame;
    w->arrived |= self;
    if (w->arrived == w->all) complete_group(w, site);
    // The lane that completes the meeting continues at once, or waits with all others.
    if (w->ready & self) {
        w->ready &= ~self;
        if (!w->ready) lane->sim->ready[w->number / 64] &= ~((uint64_t)1 << w->number % 64);
        lane->sim->warp = w;
    } else {
        give_way_to_lane(lane);
    }
}

void sim_lane_sync(SimLane *lane, const SimSite *site, char *frame) {
    lane->site = site;
    if (!is_skipped_site(lane->sim, site)) site->op->lane(lane, site, frame);
}

/* ---- deadlocks ----------------------------------------------------------------------------- */

typedef struct Report {
    char *at, *end;
} Report;

static void add_report_text(Report *r, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static void add_report_text(Report *r, const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(r->at, (size_t)(r->end - r->at), fmt, ap);
    va_end(ap);
    if (n > 0) r->at = r->end - r->at > n ? r->at + n : r->end - 1;
}

static void say_mbarrier(Report *r, const Warp *w) {
    const Mbarrier *m = &w->cta->mbarriers[w->wait_for];
    add_report_text(
        r,
        ", for parity %d of the mbarrier at %u, which is in phase %lld: %lld of %lld arrivals, "
        "%lld bytes are missing",
        w->parity, m->at, (long long)m->phase, (long long)m->pending, (long long)m->expected,
        (long long)m->bytes);
}

static void say_wait(Report *r, const Warp *w) {
    const Barrier *b = &w->cta->barriers[w->wait == WAIT_BARRIER ? w->wait_for : 0];
    switch (w->wait) {
    case WAIT_BARRIER:
        add_report_text(r, ", barrier %d: %d of %d threads have come", w->wait_for, b->arrived,
                        b->threads);
        break;
    case WAIT_MBARRIER: say_mbarrier(r, w); break;
    case WAIT_GROUP: add_report_text(r, ", for the other warps of its warpgroup"); break;
    case WAIT_CLUSTER: add_report_text(r, ", for the other threads of the cluster"); break;
    case WAIT_REGISTERS:
        add_report_text(r, ", for %d registers of each thread; %d are free", w->wait_for,
                        w->cta->free_registers);
        break;
    case WAIT_NONE: break;
    }
}

static void say_warp(Report *r, const Warp *w) {
    char place[PLACE_BYTES];
    if (w->done == w->all) return;
    add_report_text(r, "\n  CTA %d of the cluster, warp %d: at %s", w->cta->rank, w->index,
                    site_place(w->site, place));
    if (w->arrived)
        add_report_text(r, ", where lanes %08llx of %08llx have come",
                        (unsigned long long)w->arrived, (unsigned long long)(w->all & ~w->done));
    else
        say_wait(r, w);
}

static _Noreturn void fail_deadlock(Sim *sim) {
    char text[1600];
    Report r = {text, text + sizeof text};
    const SimSite *site = NULL;
    *text = 0;
    int ended = 0;
    for (int i = 0; i < sim->n_warps; i++) {
        const Warp *w = &sim->warps[i];
        ended += w->done == w->all;
        if (!site && w->done != w->all) site = w->site;
        say_warp(&r, w);
    }
    sim_fail(sim, SIM_DEADLOCK, site, "deadlock: %d of %d warps have ended, none can continue%s",
             ended, sim->n_warps, text);
}
