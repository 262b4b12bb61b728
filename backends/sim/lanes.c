// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Functions between the lanes of a warp: shuffles and votes.
#include <string.h>

#include "backends/sim/machine.h"

enum ShuffleMode { SHUFFLE_XOR, SHUFFLE_IDX, SHUFFLE_DOWN };

void prepare_shuffle(Prepare *p, const Fn *fn, SimSite *site) {
    const char *mode = fn_capture(fn, 'm');
    (void)p;
    site->number_of['m' - 'a'] = strcmp(mode, "idx") == 0    ? SHUFFLE_IDX
                                 : strcmp(mode, "down") == 0 ? SHUFFLE_DOWN
                                                             : SHUFFLE_XOR;
}

/// Returns the lane whose value lane i gets, or i if that is out of range.
static int source_of(int mode, int lanes, int i, int by) {
    by &= lanes - 1;
    switch (mode) {
    case SHUFFLE_XOR: return i ^ by;
    case SHUFFLE_IDX: return by;
    default: return i + by < lanes ? i + by : i;
    }
}

/// The missing lanes of a last, smaller warp give 0.
static void exchange_lane_values(Warp *w, const SimSite *site, const int *source) {
    uint32_t values[MOST_LANES] = {0};
    int n = warp_lanes(w);
    for (int i = 0; i < n; i++) values[i] = OPERAND(uint32_t, w->frames[i], site, 0);
    for (int i = 0; i < n; i++) RESULT(uint32_t, w->frames[i], site) = values[source[i]];
    warp_resume(w);
}

void handle_shuffle(Warp *w, const SimSite *site) {
    int source[MOST_LANES] = {0}, mode = site_number(site, 'm');
    int lanes = w->cta->sim->image->target->lanes;
    for (int i = 0; i < warp_lanes(w); i++)
        source[i] = source_of(mode, lanes, i, OPERAND(int32_t, w->frames[i], site, 1));
    exchange_lane_values(w, site, source);
}

void handle_shuffle_up(Warp *w, const SimSite *site) {
    int source[MOST_LANES] = {0}, lanes = w->cta->sim->image->target->lanes;
    for (int i = 0; i < warp_lanes(w); i++) {
        int by = OPERAND(int32_t, w->frames[i], site, 1) & (lanes - 1);
        source[i] = by <= i ? i - by : i;
    }
    exchange_lane_values(w, site, source);
}

static uint64_t ballot_bits(const Warp *w, const SimSite *site) {
    uint64_t bits = 0;
    for (int i = 0; i < warp_lanes(w); i++)
        bits |= (uint64_t)(OPERAND(uint8_t, w->frames[i], site, 0) & 1) << i;
    return bits;
}

void handle_ballot(Warp *w, const SimSite *site) {
    uint64_t bits = ballot_bits(w, site);
    for (int i = 0; i < warp_lanes(w); i++) RESULT(uint32_t, w->frames[i], site) = (uint32_t)bits;
    warp_resume(w);
}

void prepare_vote(Prepare *p, const Fn *fn, SimSite *site) {
    (void)p;
    site->number_of['m' - 'a'] = strcmp(fn_capture(fn, 'm'), "all") == 0;
}

void handle_vote(Warp *w, const SimSite *site) {
    uint64_t bits = ballot_bits(w, site);
    bool yes = site_number(site, 'm') ? bits == w->all : bits != 0;
    for (int i = 0; i < warp_lanes(w); i++) RESULT(uint8_t, w->frames[i], site) = yes;
    warp_resume(w);
}

/// The hardware may elect any lane, but always the same one at one place.
void handle_elect(Warp *w, const SimSite *site) {
    int n = warp_lanes(w);
    for (int i = 0; i < n; i++) RESULT(uint8_t, w->frames[i], site) = i == w->cta->sim->elected % n;
    warp_resume(w);
}

/* ---- reductions ---------------------------------------------------------------------------- */

static uint32_t add_words(uint32_t x, uint32_t y) {
    return x + y;
}
static uint32_t min_signed(uint32_t x, uint32_t y) {
    return (int32_t)x < (int32_t)y ? x : y;
}
static uint32_t max_signed(uint32_t x, uint32_t y) {
    return (int32_t)x > (int32_t)y ? x : y;
}
static uint32_t min_unsigned(uint32_t x, uint32_t y) {
    return x < y ? x : y;
}
static uint32_t max_unsigned(uint32_t x, uint32_t y) {
    return x > y ? x : y;
}
static uint32_t and_bits(uint32_t x, uint32_t y) {
    return x & y;
}
static uint32_t or_bits(uint32_t x, uint32_t y) {
    return x | y;
}
static uint32_t xor_bits(uint32_t x, uint32_t y) {
    return x ^ y;
}

static const struct {
    const char *name; // the captured text
    uint32_t (*join)(uint32_t x, uint32_t y);
} reductions[] = {
    {"add.s32", add_words},    {"min.s32", min_signed},   {"max.s32", max_signed},
    {"min.u32", min_unsigned}, {"max.u32", max_unsigned}, {"and.b32", and_bits},
    {"or.b32", or_bits},       {"xor.b32", xor_bits},
};

void prepare_redux(Prepare *p, const Fn *fn, SimSite *site) {
    for (size_t i = 0; i < sizeof reductions / sizeof *reductions; i++)
        if (strcmp(reductions[i].name, fn_capture(fn, 'o')) == 0) {
            site->number_of['o' - 'a'] = (int)i;
            return;
        }
    ice(p->ctx, (Loc){0}, "the simulator does not know %s", site->name);
}

void handle_redux(Warp *w, const SimSite *site) {
    uint32_t r = OPERAND(uint32_t, w->frames[0], site, 0);
    int n = warp_lanes(w);
    for (int i = 1; i < n; i++)
        r = reductions[site_number(site, 'o')].join(r, OPERAND(uint32_t, w->frames[i], site, 0));
    for (int i = 0; i < n; i++) RESULT(uint32_t, w->frames[i], site) = r;
    warp_resume(w);
}
