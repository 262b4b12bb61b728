// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The shadow records the last accesses to each byte and reports the failures that follow from them:
// races, unwritten bytes, bytes outside of all buffers, bytes that the other proxy has not seen.
#include <stdlib.h>
#include <string.h>

#include "backends/sim/vector_clock.h"

/* ---- machines ------------------------------------------------------------------------------ */

// The initial room for stamps, and the number of stamps before the first sweep.
enum { FIRST_STAMPS = 1 << 10, SWEEP_STAMPS = 1 << 18 };

static void add_shadow_buffer(Sim *sim, Shadow *s, const SimBuffer *b) {
    Buffer *r = &s->buffers[s->n_buffers++];
    *r = (Buffer){b->base, b->bytes, b->initialised, b->written, b->name, NULL};
    r->blocks = sim_alloc(sim, sizeof *r->blocks * (size_t)(b->bytes / CELLS + 1));
}

static int by_base(const void *a, const void *b) {
    const Buffer *x = a, *y = b;
    return (x->base > y->base) - (x->base < y->base);
}

static void buffers_create(Sim *sim, Shadow *s) {
    const SimRun *run = sim->run;
    s->buffers = sim_alloc(sim, sizeof *s->buffers * (size_t)(run->n_buffers + 1));
    for (int i = 0; i < run->n_buffers; i++)
        if (run->buffers[i].bytes > 0) add_shadow_buffer(sim, s, &run->buffers[i]);
    qsort(s->buffers, (size_t)s->n_buffers, sizeof *s->buffers, by_base);
}

static Clock new_shadow_clock(Sim *sim, const Shadow *s) {
    size_t bytes = sizeof(uint32_t) * (size_t)s->n_actors;
    return (Clock){sim_alloc(sim, bytes), sim_alloc(sim, bytes), sim_alloc(sim, bytes),
                   sim_alloc(sim, bytes)};
}

static void clocks_create(Sim *sim, Shadow *s) {
    s->n_warps = sim->n_warps;
    s->warps = sim_alloc(sim, sizeof *s->warps * (size_t)sim->n_warps);
    for (int i = 0; i < sim->n_warps; i++) s->warps[i] = new_shadow_clock(sim, s);
    s->n_barriers = sim->cluster * NAMED_BARRIERS;
    s->barriers = sim_alloc(sim, sizeof *s->barriers * (size_t)s->n_barriers);
    for (int i = 0; i < s->n_barriers; i++) s->barriers[i] = new_shadow_clock(sim, s);
    s->cluster[0] = new_shadow_clock(sim, s);
    s->cluster[1] = new_shadow_clock(sim, s);
    s->n_mbarriers = sim->cluster * MBARRIER_ACTORS;
    s->mbarriers = sim_alloc(sim, sizeof *s->mbarriers * (size_t)s->n_mbarriers);
    s->epochs = sim_alloc(sim, sizeof *s->epochs * (size_t)s->n_actors);
    s->waits = sim_alloc(sim, sizeof *s->waits * (size_t)s->n_actors);
    s->recent = sim_alloc(sim, sizeof *s->recent * (size_t)s->n_actors);
    size_t lanes = (size_t)(sim->cluster * sim->threads);
    s->wrote = sim_alloc(sim, sizeof *s->wrote * lanes);
    s->settled = sim_alloc(sim, sizeof *s->settled * lanes);
    s->visits = sim_alloc(sim, sizeof *s->visits * lanes);
    s->cap_stamps = FIRST_STAMPS;
    s->stamps = sim_alloc(sim, sizeof *s->stamps * s->cap_stamps);
}

static void free_buffers(Shadow *s) {
    for (int i = 0; i < s->n_buffers; i++) {
        Cell **blocks = s->buffers[i].blocks;
        for (int64_t k = 0; blocks && k <= s->buffers[i].bytes / CELLS; k++) free(blocks[k]);
        free(blocks);
    }
    free(s->buffers);
    s->buffers = NULL;
    s->n_buffers = 0;
}

// A reused machine keeps its clocks. Buffers belong to the launch.
Shadow *shadow_create(Sim *sim, Shadow *old) {
    Shadow *s = old;
    if (!s) {
        s = sim->shadow = sim_alloc(sim, sizeof *s);
        s->n_actors = sim->cluster * (sim->threads + CTA_ACTORS);
        clocks_create(sim, s);
    }
    free_buffers(s);
    flags_reset(s);
    buffers_create(sim, s);
    if (s->shared_bytes != sim->shared_bytes) {
        free(s->shared);
        s->shared = NULL;
        s->shared = sim_alloc(sim, sizeof *s->shared * (size_t)(sim->shared_bytes * sim->cluster));
        s->shared_bytes = sim->shared_bytes;
    }
    s->n_stamps = 1;
    s->most_stamps = SWEEP_STAMPS;
    return s;
}

static void free_clock(Clock c) {
    free(c.order);
    free(c.global);
    free(c.proxy);
    free(c.outside);
}

void shadow_destroy(Shadow *s) {
    if (!s) return;
    free_buffers(s);
    for (int i = 0; s->warps && i < s->n_warps; i++) free_clock(s->warps[i]);
    for (int i = 0; s->barriers && i < s->n_barriers; i++) free_clock(s->barriers[i]);
    for (int i = 0; s->mbarriers && i < s->n_mbarriers; i++) {
        free_clock(s->mbarriers[i].arrived);
        free_clock(s->mbarriers[i].done);
    }
    free_clock(s->cluster[0]);
    free_clock(s->cluster[1]);
    flags_reset(s);
    free(s->shared);
    free(s->warps);
    free(s->barriers);
    free(s->mbarriers);
    free(s->epochs);
    free(s->waits);
    free(s->recent);
    raises_reset(s);
    free(s->wrote);
    free(s->settled);
    free(s->visits);
    free(s->stamps);
    free(s);
}

static void zero_clock(const Shadow *s, Clock c) {
    if (c.order) memset(c.order, 0, sizeof *c.order * (size_t)s->n_actors);
    if (c.global) memset(c.global, 0, sizeof *c.global * (size_t)s->n_actors);
    if (c.proxy) memset(c.proxy, 0, sizeof *c.proxy * (size_t)s->n_actors);
    if (c.outside) memset(c.outside, 0, sizeof *c.outside * (size_t)s->n_actors);
}

void shadow_start(Sim *sim, int64_t cluster) {
    Shadow *s = sim->shadow;
    s->program = (uint32_t)cluster + 1;
    if (s->shared)
        memset(s->shared, 0, sizeof *s->shared * (size_t)(sim->shared_bytes * sim->cluster));
    for (int i = 0; i < s->n_warps; i++) zero_clock(s, s->warps[i]);
    for (int i = 0; i < s->n_barriers; i++) zero_clock(s, s->barriers[i]);
    for (int i = 0; i < s->n_mbarriers; i++) {
        zero_clock(s, s->mbarriers[i].arrived);
        zero_clock(s, s->mbarriers[i].done);
    }
    zero_clock(s, s->cluster[0]);
    zero_clock(s, s->cluster[1]);
    for (int i = 0; i < s->n_actors; i++) s->epochs[i] = 1;
    memset(s->waits, 0, sizeof *s->waits * (size_t)s->n_actors);
    memset(s->recent, 0, sizeof *s->recent * (size_t)s->n_actors);
    flags_start(s);
    raises_start(sim, s);
}

/* ---- failures ------------------------------------------------------------------------------ */

/// An access with the data that failures report.
typedef struct ShadowAccess {
    Sim *sim;
    SimLane *lane;
    const SimSite *site;
    const Buffer *buffer;  // NULL: shared memory
    int64_t offset, first; // offsets of the byte, and of the access's first byte
    int kind, actor;
    int stores; // actor_of_stores(lane)
    uint32_t epoch;
    uint32_t stamp; // stamp of this access, 0 before it is made
} ShadowAccess;

static const char *buffer_name(const Shadow *s, int i, char *out) {
    const Buffer *b = &s->buffers[i];
    if (b->name)
        snprintf(out, NAME_BYTES, "`%s`", b->name);
    else
        snprintf(out, NAME_BYTES, "buffer %d (%p)", i, (const void *)b->base);
    return out;
}

static const char *memory_name(const ShadowAccess *a, char *out) {
    char name[NAME_BYTES] = "shared memory";
    const Shadow *s = a->sim->shadow;
    if (a->buffer) buffer_name(s, (int)(a->buffer - s->buffers), name);
    snprintf(out, PLACE_BYTES, "byte %lld of %s", (long long)a->offset, name);
    return out;
}

static const char *actor_name(const ShadowAccess *a, int actor, uint32_t program, char *out) {
    Sim *sim = a->sim;
    if (program != sim->shadow->program)
        snprintf(out, NAME_BYTES, "another program");
    else if (actor < sim->cluster * sim->threads)
        lane_name(&sim->lanes[actor], out);
    else
        snprintf(out, NAME_BYTES, "asynchronous work");
    return out;
}

static const SimSite *site_of(const ShadowAccess *a, uint32_t number) {
    return a->sim->image->sites[number & SITE_MASK];
}

static _Noreturn void fail_data_race(const ShadowAccess *a, const Stamp *st, bool with_write) {
    char where[PLACE_BYTES], self[NAME_BYTES], other[NAME_BYTES], here[PLACE_BYTES],
        there[PLACE_BYTES];
    const SimSite *before = site_of(a, st->site);
    bool pending = st->epoch == EPOCH_PENDING;
    sim_fail(a->sim, pending ? SIM_PENDING : SIM_RACE, a->site,
             "%s: %s %s by %s at %s, and %s by %s at %s%s", pending ? "not waited for" : "race",
             memory_name(a, where), a->kind & ACCESS_WRITE ? "is written" : "is read",
             lane_name(a->lane, self), site_place(a->site, here), with_write ? "written" : "read",
             actor_name(a, (int)st->actor, st->program, other), site_place(before, there),
             pending ? ", which has not finished" : ", with nothing that orders them");
}

static _Noreturn void fail_stale_proxy(const ShadowAccess *a, const Stamp *st) {
    char where[PLACE_BYTES], here[PLACE_BYTES], there[PLACE_BYTES], other[NAME_BYTES];
    sim_fail(a->sim, SIM_PROXY, a->site,
             "no proxy fence: %s is used by the asynchronous proxy at %s, and was written by %s "
             "at %s",
             memory_name(a, where), site_place(a->site, here),
             actor_name(a, (int)st->actor, st->program, other),
             site_place(site_of(a, st->site), there));
}

void check_outside(SimLane *lane, const SimSite *site) {
    Shadow *s = lane->sim->shadow;
    char self[NAME_BYTES], here[PLACE_BYTES];
    if (!s) return;
    const Clock *c = &s->warps[lane->w->number];
    for (int i = 0; i < s->n_actors; i++) {
        bool before = i == lane->number || c->order[i] >= s->waits[i];
        if (s->waits[i] && before && c->outside[i] < s->waits[i])
            sim_fail(lane->sim, SIM_PROXY, site,
                     "no proxy fence: %s of %s reads by the asynchronous proxy, after a wait for "
                     "data of another rank",
                     site_place(site, here), lane_name(lane, self));
    }
}

static _Noreturn void fail_unwritten(const ShadowAccess *a) {
    char where[PLACE_BYTES], self[NAME_BYTES], here[PLACE_BYTES];
    sim_fail(a->sim, SIM_UNINITIALISED, a->site,
             "%s is read by %s at %s, but it has not been written yet", memory_name(a, where),
             lane_name(a->lane, self), site_place(a->site, here));
}

/* ---- stamps -------------------------------------------------------------------------------- */

/// Gives a new number to a stamp that a cell refers to.
static uint32_t keep_stamp(Shadow *s, uint32_t *number, Stamp *kept, uint32_t stamp) {
    if (stamp && !number[stamp]) {
        number[stamp] = s->n_stamps;
        kept[s->n_stamps++] = s->stamps[stamp];
    }
    return number[stamp];
}

static void keep_cells(Shadow *s, uint32_t *number, Stamp *kept, Cell *cells, int64_t n) {
    for (int64_t i = 0; cells && i < n; i++) {
        cells[i].write = keep_stamp(s, number, kept, cells[i].write);
        cells[i].read = keep_stamp(s, number, kept, cells[i].read);
    }
}

/// Removes stamps that no cell refers to, once there are many.
static void sweep_stamps(Sim *sim, Shadow *s) {
    if (s->n_stamps < s->most_stamps) return;
    uint32_t *number = sim_alloc(sim, sizeof *number * s->n_stamps);
    Stamp *kept = calloc(s->cap_stamps, sizeof *kept);
    if (!kept) {
        free(number);
        sim_fail(sim, SIM_NO_MEMORY, NULL, "out of memory");
    }
    s->n_stamps = 1;
    keep_cells(s, number, kept, s->shared, s->shared_bytes * sim->cluster);
    for (int i = 0; i < s->n_buffers; i++)
        for (int64_t k = 0; k <= s->buffers[i].bytes / CELLS; k++)
            keep_cells(s, number, kept, s->buffers[i].blocks[k], CELLS);
    free(number);
    free(s->stamps);
    s->stamps = kept;
    memset(s->recent, 0, sizeof *s->recent * (size_t)s->n_actors);
    if (s->n_stamps > s->most_stamps / 2) s->most_stamps = 2 * s->n_stamps;
}

static uint32_t add_stamp(Sim *sim, Shadow *s, Stamp stamp) {
    if (s->n_stamps == s->cap_stamps) {
        Stamp *more = realloc(s->stamps, sizeof *more * 2 * s->cap_stamps);
        if (!more) sim_fail(sim, SIM_NO_MEMORY, NULL, "out of memory");
        s->stamps = more;
        s->cap_stamps *= 2;
    }
    s->stamps[s->n_stamps] = stamp;
    return s->n_stamps++;
}

/// Returns the stamp of the access, and makes it at the first call.
static uint32_t access_stamp(ShadowAccess *a) {
    Shadow *s = a->sim->shadow;
    if (a->stamp) return a->stamp;
    uint32_t actor = (uint32_t)(a->actor == NO_ACTOR ? a->lane->number : a->actor);
    Stamp st = {.actor = actor, .program = s->program, .site = (uint32_t)a->site->number};
    st.epoch = a->kind & ACCESS_PENDING ? EPOCH_PENDING
               : a->actor == NO_ACTOR   ? s->epochs[actor]
                                        : a->epoch;
    if (a->kind & ACCESS_ASYNC) st.site |= SITE_ASYNC;
    if (a->kind & ACCESS_ATOMIC) st.site |= SITE_ATOMIC;
    uint32_t *recent = &s->recent[actor];
    if (memcmp(&s->stamps[*recent], &st, sizeof st) != 0) *recent = add_stamp(a->sim, s, st);
    return a->stamp = *recent;
}

/* ---- one byte ------------------------------------------------------------------------------ */

/// Whether the access of the stamp is ordered before this one.
static bool is_ordered(const ShadowAccess *a, const Stamp *st) {
    const Shadow *s = a->sim->shadow;
    if (st->epoch == 0) return true;
    if (st->epoch == EPOCH_PENDING) return false;
    if (st->program != s->program) return a->buffer && flags_ordered(s, st->program);
    if ((int)st->actor == a->lane->number && !(st->site & SITE_ASYNC)) return true;
    if ((int)st->actor == a->stores && st->epoch <= (uint32_t)a->lane->waited) return true;
    const Clock *c = &s->warps[a->lane->w->number];
    return (a->buffer ? c->global : c->order)[st->actor] >= st->epoch;
}

static bool is_fenced(const ShadowAccess *a, const Stamp *st) {
    const Shadow *s = a->sim->shadow;
    if (st->epoch == 0 || st->program != s->program || st->site & SITE_ASYNC) return true;
    return s->warps[a->lane->w->number].proxy[st->actor] >= st->epoch;
}

/// Atomics do not race with each other.
static bool both_atomic(const ShadowAccess *a, const Stamp *st) {
    return a->kind & ACCESS_ATOMIC && st->site & SITE_ATOMIC;
}

/// One instruction may store the same byte twice: in the lanes of a warp, and in global memory,
/// where a scatter may name an element more than once.
static bool same_store(const ShadowAccess *a, const Stamp *st) {
    const Sim *sim = a->sim;
    bool here = st->program == sim->shadow->program;
    if (!a->lane->value || st->epoch == EPOCH_PENDING ||
        (st->site & (SITE_MASK | SITE_ASYNC)) != (uint32_t)a->site->number)
        return false;
    if (!a->buffer && !(here && sim->lanes[st->actor].w == a->lane->w)) return false;
    const char *base = a->buffer ? a->buffer->base : a->lane->shared;
    return base[a->offset] == a->lane->value[a->offset - a->first];
}

/// Whether a byte that this run has not written has a value.
static bool has_initial_value(const ShadowAccess *a) {
    const Buffer *b = a->buffer;
    return b && (b->initialised || (b->written && b->written[a->offset]));
}

/// Returns the new cell of a byte after the access. *same: the result depends only on the past
/// cell, not on the stored value, so bytes with equal pasts get equal cells.
static Cell access_byte(ShadowAccess *a, Cell past, bool *same) {
    const Stamp *write = &a->sim->shadow->stamps[past.write];
    const Stamp *read = &a->sim->shadow->stamps[past.read];
    bool reads = a->kind & ACCESS_READ, writes = a->kind & ACCESS_WRITE;
    *same = !(a->buffer && a->buffer->written);
    if (reads && write->epoch == 0 && !has_initial_value(a)) fail_unwritten(a);
    if (!both_atomic(a, write)) {
        if (!is_ordered(a, write)) {
            if (!same_store(a, write)) fail_data_race(a, write, true);
            *same = false;
        }
        if (a->kind & ACCESS_ASYNC && !is_fenced(a, write)) fail_stale_proxy(a, write);
    }
    if (writes && !both_atomic(a, read) && !is_ordered(a, read)) fail_data_race(a, read, false);
    if (writes) return (Cell){access_stamp(a), reads ? access_stamp(a) : 0};
    // Only one reader is remembered. If the old reader is not ordered before this access, chance
    // decides between them.
    if (is_ordered(a, read) || sim_random(a->sim) & 1) past.read = access_stamp(a);
    return past;
}

static bool is_same_cell(const Cell *a, const Cell *b) {
    return memcmp(a, b, sizeof *a) == 0;
}

/// Bytes of one access mostly have the same past.
static void access_cells(ShadowAccess *a, Cell *cells, int n) {
    for (int i = 0; i < n;) {
        bool same;
        int first = i;
        Cell past = cells[i++];
        Cell now = access_byte(a, past, &same);
        while (same && i < n && is_same_cell(&cells[i], &past)) i++;
        for (int k = first; k < i; k++) cells[k] = now;
        a->offset += i - first;
    }
}

/* ---- accesses ------------------------------------------------------------------------------ */

void access_shared(SimLane *lane, const SimSite *site, Cta *cta, uint32_t offset, int bytes,
                   int kind, int actor, uint32_t epoch) {
    Sim *sim = lane->sim;
    Shadow *s = sim->shadow;
    if (!s) return;
    ShadowAccess a = {.sim = sim, .lane = lane, .site = site, .kind = kind, .actor = actor};
    a.stores = actor_of_stores(lane);
    a.epoch = epoch;
    a.first = a.offset = offset;
    sweep_stamps(sim, s);
    access_cells(&a, s->shared + cta->rank * s->shared_bytes + offset, bytes);
}

/// Returns the last region that begins at p or before.
static Buffer *buffer_at(Shadow *s, const char *p, int bytes) {
    int low = 0, high = s->n_buffers;
    while (low < high) {
        int middle = (low + high) / 2;
        if (s->buffers[middle].base <= p)
            low = middle + 1;
        else
            high = middle;
    }
    Buffer *r = low ? &s->buffers[low - 1] : NULL;
    return r && p + bytes <= r->base + r->bytes ? r : NULL;
}

static _Noreturn void fail_outside(SimLane *lane, const SimSite *site, const char *p, int bytes) {
    char self[NAME_BYTES], here[PLACE_BYTES];
    char name[NAME_BYTES];
    Shadow *s = lane->sim->shadow;
    int64_t nearest = INT64_MAX;
    int which = -1;
    for (int i = 0; i < s->n_buffers; i++) {
        const Buffer *r = &s->buffers[i];
        int64_t before = r->base - p, behind = p + bytes - (r->base + r->bytes);
        int64_t distance = before > behind ? before : behind;
        if (distance < nearest) nearest = distance, which = i;
    }
    sim_fail(lane->sim, SIM_BOUNDS, site,
             "out of bounds: %s of %s accesses %d bytes at %p, %lld bytes outside of %s",
             site_place(site, here), lane_name(lane, self), bytes, (const void *)p,
             (long long)nearest, buffer_name(s, which, name));
}

void access_buffer(SimLane *lane, const SimSite *site, const char *data, uint32_t bytes) {
    char self[NAME_BYTES], here[PLACE_BYTES];
    Shadow *s = lane->sim->shadow;
    if (bytes == INT32_MAX) return; // without a bound, each access is checked alone
    if (!s || !s->n_buffers || (bytes <= INT32_MAX && buffer_at(s, data, (int)bytes))) return;
    sim_fail(lane->sim, SIM_BOUNDS, site,
             "a bound beyond its tensor: %s of %s may access %u bytes from %p on",
             site_place(site, here), lane_name(lane, self), bytes, (const void *)data);
}

/// Returns the cells from a byte of the buffer on, and their number in one piece.
static Cell *cells_of(Sim *sim, Buffer *b, int64_t offset, int *n) {
    Cell **block = &b->blocks[offset / CELLS];
    if (!*block) *block = sim_alloc(sim, sizeof **block * CELLS);
    *n = CELLS - (int)(offset % CELLS);
    return &(*block)[offset % CELLS];
}

/// The word of an atomic on a byte or a half may extend outside of the buffer. Those bytes stay
/// unchanged.
static void clip_word(const Shadow *s, const char **p, int *bytes) {
    for (int i = 0; i < s->n_buffers; i++) {
        const char *low = s->buffers[i].base, *high = low + s->buffers[i].bytes, *end = *p + *bytes;
        if (end <= low || high <= *p) continue;
        if (*p < low) *p = low;
        *bytes = (int)((end > high ? high : end) - *p);
        return;
    }
}

void access_global(SimLane *lane, const SimSite *site, const void *p, int bytes, int kind,
                   int actor, uint32_t epoch) {
    Sim *sim = lane->sim;
    Shadow *s = sim->shadow;
    if (!s || !s->n_buffers) return;
    const char *first = p;
    if (kind & ACCESS_ATOMIC && bytes == 4) clip_word(s, &first, &bytes);
    Buffer *r = buffer_at(s, first, bytes);
    if (!r) fail_outside(lane, site, first, bytes);
    ShadowAccess a = {
        .sim = sim, .lane = lane, .site = site, .kind = kind, .actor = actor, .buffer = r};
    a.stores = actor_of_stores(lane);
    a.epoch = epoch;
    a.first = a.offset = first - r->base;
    if (kind & ACCESS_WRITE) s->wrote[lane->number] = s->epochs[lane->number];
    sweep_stamps(sim, s);
    for (int64_t end = a.first + bytes; a.offset < end;) {
        int n;
        Cell *cells = cells_of(sim, r, a.offset, &n);
        access_cells(&a, cells, end - a.offset < n ? (int)(end - a.offset) : n);
    }
    if (r->written && kind & ACCESS_WRITE) memset(r->written + a.first, 1, (size_t)bytes);
}

void access_finished(SimLane *lane, Cta *cta, uint32_t offset, int bytes) {
    Sim *sim = lane->sim;
    Shadow *s = sim->shadow;
    if (!s) return;
    sweep_stamps(sim, s);
    Cell *cells = s->shared + cta->rank * s->shared_bytes + offset;
    uint32_t pending = 0, finished = 0;
    for (int i = 0; i < bytes; i++) {
        Stamp st = s->stamps[cells[i].write];
        if (st.epoch != EPOCH_PENDING || (int)st.actor != lane->number) continue;
        if (cells[i].write != pending) {
            pending = cells[i].write;
            st.epoch = s->epochs[lane->number];
            finished = add_stamp(sim, s, st);
        }
        cells[i].write = finished;
    }
}
