// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Memory as the lanes see it: shared memory by address, its two views, atomics, and the checks
// before each access.
#include <stdlib.h>
#include <string.h>

#include "backends/sim/shadow.h"

/* ---- shared memory ------------------------------------------------------------------------- */

static _Noreturn void bad_address(SimLane *lane, const SimSite *site, uint32_t address, int bytes,
                                  const char *what) {
    char self[NAME_BYTES], place[PLACE_BYTES];
    Sim *sim = lane->sim;
    sim_fail(sim, *what == 'm' ? SIM_MISALIGNED : SIM_BOUNDS, site,
             "%s: %s of %s uses %d bytes at address %u of shared memory (CTA %u of the cluster, "
             "offset %u), which has %lld bytes a CTA",
             what, site_place(site, place), lane_name(lane, self), bytes, address,
             address >> RANK_SHIFT, address & ((1u << RANK_SHIFT) - 1),
             (long long)sim->shared_bytes);
}

Cta *shared_find(SimLane *lane, const SimSite *site, uint32_t address, int bytes, int align) {
    Sim *sim = lane->sim;
    uint32_t rank = address >> RANK_SHIFT, offset = address & ((1u << RANK_SHIFT) - 1);
    if (rank >= (uint32_t)sim->cluster || offset + (int64_t)bytes > sim->shared_bytes)
        bad_address(lane, site, address, bytes, "out of bounds");
    if (offset % (uint32_t)align) bad_address(lane, site, address, bytes, "misaligned");
    return &sim->ctas[rank];
}

void shared_mark(Cta *cta, uint32_t offset, int bytes) {
    if (!gpu_has(cta->sim->image->target, GPU_TMA) || bytes == 0) return;
    memset(cta->shared + VIEW_DIRTY + offset, 0xff, (size_t)bytes);
    uint32_t last = (offset + (uint32_t)bytes - 1) >> SUMMARY_LOG2;
    for (uint32_t i = offset >> SUMMARY_LOG2; i <= last; i++) cta->shared[VIEW_SUMMARY + i] = 1;
}

static void refresh_views(Cta *cta, uint32_t block) {
    uint32_t first = block << SUMMARY_LOG2;
    char *dirty = cta->shared + VIEW_DIRTY + first, *to = cta->shared + VIEW_ASYNC + first;
    const char *from = cta->shared + first;
    for (int i = 0; i < 1 << SUMMARY_LOG2; i += 8) { // marked bytes are 0xff, others 0
        uint64_t mask, old, new;
        memcpy(&mask, dirty + i, 8);
        if (!mask) continue;
        memcpy(&old, to + i, 8);
        memcpy(&new, from + i, 8);
        old = (old & ~mask) | (new & mask);
        memcpy(to + i, &old, 8);
    }
    memset(dirty, 0, 1 << SUMMARY_LOG2);
}

void proxy_fence(Cta *cta) {
    char *summary = cta->shared + VIEW_SUMMARY;
    int blocks = (int)((cta->sim->shared_bytes + (1 << SUMMARY_LOG2) - 1) >> SUMMARY_LOG2);
    for (int i = 0; i < blocks; i += 8) {
        uint64_t eight;
        memcpy(&eight, summary + i, 8);
        for (; eight; eight &= eight - 1) {
            int at = i + __builtin_ctzll(eight) / 8;
            if (!summary[at]) continue;
            summary[at] = 0;
            refresh_views(cta, (uint32_t)at);
        }
    }
}

/* ---- accesses of compiled code ------------------------------------------------------------- */

static void check_aligned(SimLane *lane, const SimSite *site, const void *p) {
    char self[NAME_BYTES], place[PLACE_BYTES];
    if ((uintptr_t)p % (uintptr_t)site->bytes)
        sim_fail(lane->sim, SIM_MISALIGNED, site, "misaligned: %s of %s is at %p",
                 site_place(site, place), lane_name(lane, self), p);
}

static int access_kind(const SimSite *site) {
    return site->is_store ? ACCESS_WRITE : ACCESS_READ;
}

void sim_check_access(SimLane *lane, const SimSite *site, const void *p, const void *value) {
    lane->site = site;
    check_aligned(lane, site, p);
    lane->value = value;
    access_global(lane, site, p, site->bytes, access_kind(site), NO_ACTOR, 0);
    lane->value = NULL;
}

void sim_check_masked(SimLane *lane, const SimSite *site, const void *p, const void *value,
                      int32_t on) {
    if (on) sim_check_access(lane, site, p, value);
}

void sim_check_buffer(SimLane *lane, const SimSite *site, const char *data, uint32_t bytes,
                      uint32_t at) {
    char self[NAME_BYTES], place[PLACE_BYTES];
    lane->site = site;
    if (at >= bytes) return;
    if (bytes - at < (uint32_t)site->bytes)
        sim_fail(lane->sim, SIM_BOUNDS, site,
                 "cut by the bound: %s of %s is at offset %u of a buffer of %u bytes",
                 site_place(site, place), lane_name(lane, self), at, bytes);
    access_buffer(lane, site, data, bytes);
}

void sim_check_shared(SimLane *lane, const SimSite *site, const char *p, const void *value) {
    int64_t offset = p - lane->shared;
    char self[NAME_BYTES], place[PLACE_BYTES];
    lane->site = site;
    if (offset < 0 || offset + site->bytes > lane->sim->shared_bytes)
        sim_fail(lane->sim, SIM_BOUNDS, site,
                 "out of bounds: %s of %s is at offset %lld of shared memory, which has %lld bytes",
                 site_place(site, place), lane_name(lane, self), (long long)offset,
                 (long long)lane->sim->shared_bytes);
    check_aligned(lane, site, p);
    lane->value = value;
    access_shared(lane, site, lane->of, (uint32_t)offset, site->bytes, access_kind(site), NO_ACTOR,
                  0);
    lane->value = NULL;
}

/* ---- atomics ------------------------------------------------------------------------------- */

// The operation and type that the name gives.
typedef enum AtomicOp {
    ATOMIC_ADD_F32,
    ATOMIC_ADD_F16X2,
    ATOMIC_ADD_BF16X2,
    ATOMIC_ADD,
    ATOMIC_MIN_S,
    ATOMIC_MAX_S,
    ATOMIC_MIN_U,
    ATOMIC_MAX_U,
    ATOMIC_AND,
    ATOMIC_OR,
    ATOMIC_XOR,
    ATOMIC_EXCHANGE,
    ATOMIC_INCREMENT,
} AtomicOp;

static const struct {
    const char *in_name;
    AtomicOp op;
} atomic_names[] = {
    {".add.f32", ATOMIC_ADD_F32},
    {".add.f16x2", ATOMIC_ADD_F16X2},
    {".add.bf16x2", ATOMIC_ADD_BF16X2},
    {".add.i", ATOMIC_ADD},
    {".min.i", ATOMIC_MIN_S},
    {".max.i", ATOMIC_MAX_S},
    {".min.u", ATOMIC_MIN_U},
    {".max.u", ATOMIC_MAX_U},
    {".and.", ATOMIC_AND},
    {".or.", ATOMIC_OR},
    {".xor.", ATOMIC_XOR},
    {".xchg.", ATOMIC_EXCHANGE},
    {".inc.u", ATOMIC_INCREMENT},
};

void prepare_atomic(Prepare *p, const Fn *fn, SimSite *site) {
    site->bytes = fn->result.letter == 'l' ? 8 : 4;
    site->is_atomic = true;
    site->number_of['s' - 'a'] = strstr(site->name, ".global.") == NULL;
    if (strstr(site->name, ".cas.")) return;
    for (size_t i = 0; i < sizeof atomic_names / sizeof *atomic_names; i++)
        if (strstr(site->name, atomic_names[i].in_name)) {
            site->number_of['o' - 'a'] = (int)atomic_names[i].op;
            return;
        }
    ice(p->ctx, (Loc){0}, "the simulator does not know %s", site->name);
}

static uint32_t add_f32(uint32_t x, uint32_t y) {
    float a, b;
    memcpy(&a, &x, 4);
    memcpy(&b, &y, 4);
    a += b;
    memcpy(&x, &a, 4);
    return x;
}

/// Adds both halves.
static uint32_t add_halves(AtomicOp op, uint32_t x, uint32_t y) {
    uint32_t r = 0;
    for (int shift = 0; shift < 32; shift += 16) {
        uint16_t a = (uint16_t)(x >> shift), b = (uint16_t)(y >> shift);
        r |= (uint32_t)(op == ATOMIC_ADD_F16X2 ? encode_f16(decode_f16(a) + decode_f16(b))
                                               : encode_bf16(decode_bf16(a) + decode_bf16(b)))
             << shift;
    }
    return r;
}

/// wide: the words have 64 bits; otherwise they are 32 bits, sign-extended.
static uint64_t combine_words(AtomicOp op, uint64_t x, uint64_t y) {
    switch (op) {
    case ATOMIC_ADD_F32: return add_f32((uint32_t)x, (uint32_t)y);
    case ATOMIC_ADD_F16X2:
    case ATOMIC_ADD_BF16X2: return add_halves(op, (uint32_t)x, (uint32_t)y);
    case ATOMIC_ADD: return x + y;
    case ATOMIC_MIN_S: return (int64_t)x < (int64_t)y ? x : y;
    case ATOMIC_MAX_S: return (int64_t)x > (int64_t)y ? x : y;
    case ATOMIC_MIN_U: return x < y ? x : y;
    case ATOMIC_MAX_U: return x > y ? x : y;
    case ATOMIC_AND: return x & y;
    case ATOMIC_OR: return x | y;
    case ATOMIC_XOR: return x ^ y;
    case ATOMIC_INCREMENT: return x < y ? x + 1 : 0;
    default: return y;
    }
}

/// Checks and returns the address of the atomic.
static char *checked_atomic_address(SimLane *lane, const SimSite *site, char *frame) {
    int kind = ACCESS_READ | ACCESS_WRITE | ACCESS_ATOMIC;
    lane->site = site;
    if (!site_number(site, 's')) {
        char *p = OPERAND(char *, frame, site, 0);
        check_aligned(lane, site, p);
        access_global(lane, site, p, site->bytes, kind, NO_ACTOR, 0);
        order_atomic(lane, p);
        return p;
    }
    uint32_t address = OPERAND(uint32_t, frame, site, 0);
    uint32_t offset = address & ((1u << RANK_SHIFT) - 1);
    Cta *cta = shared_find(lane, site, address, site->bytes, site->bytes);
    access_shared(lane, site, cta, offset, site->bytes, kind, NO_ACTOR, 0);
    shared_mark(cta, offset, site->bytes);
    return cta->shared + offset;
}

// Lanes run one at a time, but other system threads may run other clusters of the launch.
static uint64_t apply_sim_atomic(const SimSite *site, char *p, uint64_t operand) {
    AtomicOp op = (AtomicOp)site_number(site, 'o');
    if (site->bytes == 8) {
        uint64_t *at = (uint64_t *)(void *)p, old = __atomic_load_n(at, __ATOMIC_RELAXED);
        while (!__atomic_compare_exchange_n(at, &old, combine_words(op, old, operand), true,
                                            __ATOMIC_RELAXED, __ATOMIC_RELAXED))
            continue;
        return old;
    }
    bool is_signed = op == ATOMIC_MIN_S || op == ATOMIC_MAX_S;
    uint32_t *at = (uint32_t *)(void *)p, old = __atomic_load_n(at, __ATOMIC_RELAXED);
    uint64_t x, y = is_signed ? (uint64_t)(int32_t)operand : (uint32_t)operand;
    do x = is_signed ? (uint64_t)(int32_t)old : old;
    while (!__atomic_compare_exchange_n(at, &old, (uint32_t)combine_words(op, x, y), true,
                                        __ATOMIC_RELAXED, __ATOMIC_RELAXED));
    return old;
}

static void give_result(const SimSite *site, char *frame, uint64_t value) {
    memcpy(frame + site->result_at, &value, (size_t)site->bytes);
}

void handle_atomic(SimLane *lane, const SimSite *site, char *frame) {
    uint64_t operand = 0, old = 0;
    if (OPERAND(uint8_t, frame, site, 1)) {
        char *p = checked_atomic_address(lane, site, frame);
        memcpy(&operand, frame + site->at[2], (size_t)site->bytes);
        old = apply_sim_atomic(site, p, operand);
    }
    give_result(site, frame, old);
}

void handle_atomic_cas(SimLane *lane, const SimSite *site, char *frame) {
    uint64_t expected = 0, wanted = 0, old = 0;
    if (OPERAND(uint8_t, frame, site, 1)) {
        char *p = checked_atomic_address(lane, site, frame);
        memcpy(&expected, frame + site->at[2], (size_t)site->bytes);
        memcpy(&wanted, frame + site->at[3], (size_t)site->bytes);
        old = expected;
        if (site->bytes == 8) {
            __atomic_compare_exchange_n((uint64_t *)(void *)p, &old, wanted, false,
                                        __ATOMIC_RELAXED, __ATOMIC_RELAXED);
        } else {
            uint32_t seen = (uint32_t)expected;
            __atomic_compare_exchange_n((uint32_t *)(void *)p, &seen, (uint32_t)wanted, false,
                                        __ATOMIC_RELAXED, __ATOMIC_RELAXED);
            old = seen;
        }
    }
    give_result(site, frame, old);
}
