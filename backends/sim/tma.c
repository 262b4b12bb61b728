// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// TMA copies blocks of tensors to shared memory and back. A load happens at a random time, at the
// latest when its data is needed. A store reads shared memory at the latest at its wait, and then
// writes. A store that adds works element by element: each addition is an atomic that rounds to the
// tensor's type.
#include <stdlib.h>
#include <string.h>

#include "backends/sim/shadow.h"
#include "backends/sim/tma_map.h"
#include "runtime/abi.h"

/* ---- blocks -------------------------------------------------------------------------------- */

/// A block of a tensor, row by row.
typedef struct TmaBlock {
    const SimTensorMap *map;
    int32_t at[MAP_RANK];
    int columns, rows, row_bytes; // sizes of the block in shared memory
} TmaBlock;

/// The number of elements along dimension i that the traversal's steps visit.
static int box_extent(const SimTensorMap *m, int i) {
    return i < m->rank ? (m->box[i] + m->steps[i] - 1) / m->steps[i] : 1;
}

static TmaBlock tma_block(const void *map, const int32_t *at) {
    TmaBlock b = {.map = map, .rows = 1};
    for (int i = 0; i < b.map->rank; i++) b.at[i] = at[i];
    b.columns = box_extent(b.map, 0);
    for (int i = 1; i < b.map->rank; i++) b.rows *= box_extent(b.map, i);
    b.row_bytes = b.columns * b.map->bytes;
    return b;
}

/// Returns the address of column 0 of row r in the tensor; NULL: the row lies outside.
static char *row_address(const TmaBlock *b, int r) {
    const SimTensorMap *m = b->map;
    char *p = m->base;
    for (int i = 1; i < m->rank; i++) {
        int64_t c = b->at[i] + (int64_t)(r % box_extent(m, i)) * m->steps[i];
        if (c < 0 || c > m->last[i]) return NULL;
        p += (uint64_t)c * m->strides[i - 1];
        r /= box_extent(m, i);
    }
    return p;
}

/// Finds the columns [*first, *behind) of the block that lie inside the tensor.
static void inside_columns(const TmaBlock *b, int *first, int *behind) {
    const SimTensorMap *m = b->map;
    int step = m->steps[0];
    int64_t low = b->at[0] < 0 ? (-(int64_t)b->at[0] + step - 1) / step : 0;
    int64_t high = ((int64_t)m->last[0] - b->at[0]) / step + 1;
    if ((int64_t)m->last[0] < b->at[0]) high = 0;
    *first = low < b->columns ? (int)low : b->columns;
    *behind = high > b->columns ? b->columns : (int)high;
    if (*behind < *first) *behind = *first;
}

static char *element_at_column(const TmaBlock *b, char *row, int column) {
    return row + ((int64_t)b->at[0] + (int64_t)column * b->map->steps[0]) * b->map->bytes;
}

/// The swizzle xors the address bits that number rows into the bits that number 16-byte units of a
/// row.
static uint32_t swizzled_offset(const SimTensorMap *m, uint32_t offset) {
    static const uint32_t masks[] = {0, 0x10, 0x30, 0x70};
    return offset ^ (offset >> 3 & masks[m->swizzle]);
}

/// Checks the elements of the block in the tensor. Only under check.
static void access_tensor(SimLane *lane, const SimSite *site, const TmaBlock *b, int kind) {
    int first, behind;
    if (!lane->sim->shadow) return;
    inside_columns(b, &first, &behind);
    for (int r = 0; r < b->rows; r++) {
        char *row = row_address(b, r);
        if (!row || first == behind) continue;
        if (b->map->steps[0] == 1)
            access_global(lane, site, element_at_column(b, row, first),
                          (behind - first) * b->map->bytes, kind, NO_ACTOR, 0);
        for (int c = first; b->map->steps[0] > 1 && c < behind; c++)
            access_global(lane, site, element_at_column(b, row, c), b->map->bytes, kind, NO_ACTOR,
                          0);
    }
}

/// `at` is the block's start. An H200 stops with an illegal instruction if rows in a swizzle of 128
/// bytes start between multiples of 16.
static const SimTensorMap *check_map(SimLane *lane, const SimSite *site, const void *map,
                                     const int32_t *at) {
    char self[NAME_BYTES], place[PLACE_BYTES];
    const SimTensorMap *m = map;
    const char *wrong = NULL;
    if (m->magic != MAP_MAGIC)
        wrong = "no tensor map";
    else if (m->rank != site_number(site, 'r'))
        wrong = "a tensor map of another rank";
    else if (m->swizzle && (int64_t)at[0] * m->bytes % 16)
        wrong = "rows that start at no multiple of 16 bytes";
    if (wrong)
        sim_fail(lane->sim, SIM_MISUSE, site, "%s of %s: %s", site_place(site, place),
                 lane_name(lane, self), wrong);
    return m;
}

static uint32_t tma_offset(uint32_t address) {
    return address & ((1u << RANK_SHIFT) - 1);
}

/* ---- loads --------------------------------------------------------------------------------- */

/// Rounds to nearest, ties to even, bit for bit as an H200.
static uint32_t to_tf32(uint32_t u) {
    if ((u & 0x7f800000) == 0x7f800000) return u;
    return (u + 0xfff + (u >> 13 & 1)) & 0xffffe000;
}

static bool rounds_to_tf32(const SimTensorMap *m) {
    return m->type == TG_MAP_TF32 || m->type == TG_MAP_TF32_FTZ;
}

/// Reads a row of the block. Elements outside are 0 or NaN.
static void read_block_row(const TmaBlock *b, int r, char *out) {
    static const uint8_t nan16[] = {0xff, 0x7f};
    int first, behind, size = b->map->bytes;
    char *row = row_address(b, r);
    inside_columns(b, &first, &behind);
    for (int i = 0; i < b->row_bytes; i++) out[i] = b->map->fill ? (char)nan16[i % 2] : 0;
    if (!row) return;
    if (b->map->steps[0] == 1 && first < behind)
        memcpy(out + first * size, element_at_column(b, row, first),
               (size_t)(behind - first) * (size_t)size);
    for (int c = first; b->map->steps[0] > 1 && c < behind; c++)
        memcpy(out + c * size, element_at_column(b, row, c), (size_t)size);
    for (int c = first; rounds_to_tf32(b->map) && c < behind; c++) {
        uint32_t bits;
        memcpy(&bits, out + c * size, sizeof bits);
        bits = to_tf32(bits);
        memcpy(out + c * size, &bits, sizeof bits);
    }
}

/// Writes 16 bytes through the asynchronous proxy. Waiters see them in both views.
static void put_async_bytes(Cta *cta, uint32_t offset, const char *data) {
    memcpy(cta->shared + offset, data, 16);
    memcpy(cta->shared + VIEW_ASYNC + offset, data, 16);
    memset(cta->shared + VIEW_DIRTY + offset, 0, 16);
}

static void load_into(Sim *sim, const Load *l, const TmaBlock *b, int rank) {
    Cta *cta = &sim->ctas[rank];
    char row[256 * 8];
    uint32_t to = tma_offset(l->to);
    for (int r = 0; r < b->rows; r++) {
        read_block_row(b, r, row);
        for (int i = 0; i < b->row_bytes; i += 16, to += 16)
            put_async_bytes(cta, swizzled_offset(b->map, to), row + i);
    }
    mbarrier_complete_bytes(cta, tma_offset(l->barrier), (int64_t)b->rows * b->row_bytes);
}

bool load_random(Sim *sim) {
    if (!sim->n_loads) return false;
    int i = (int)(sim_random(sim) % (unsigned)sim->n_loads);
    Load l = sim->loads[i];
    sim->loads[i] = sim->loads[--sim->n_loads];
    TmaBlock b = tma_block(l.map, l.at);
    for (int rank = 0; rank < sim->cluster; rank++)
        if (l.mask >> rank & 1) load_into(sim, &l, &b, rank);
    return true;
}

/// Checks that a CTA that receives the block is ready for it.
static void check_receiver(SimLane *lane, const SimSite *site, const Load *l, const TmaBlock *b,
                           int rank) {
    static const uint16_t canary[8] = {CANARY_PENDING, CANARY_PENDING, CANARY_PENDING,
                                       CANARY_PENDING, CANARY_PENDING, CANARY_PENDING,
                                       CANARY_PENDING, CANARY_PENDING};
    char self[NAME_BYTES], place[PLACE_BYTES];
    uint32_t high = (uint32_t)rank << RANK_SHIFT, to = tma_offset(l->to);
    int bytes = b->rows * b->row_bytes;
    Cta *cta = shared_find(lane, site, high | to, bytes, 128);
    shared_find(lane, site, high | tma_offset(l->barrier), 8, 8);
    Mbarrier *m = mbarrier_at(lane, site, cta, tma_offset(l->barrier));
    if (!m->fenced)
        sim_fail(lane->sim, SIM_PROXY, site,
                 "%s of %s: no fence has shown the asynchronous proxy the mbarrier that was "
                 "initialised by %s",
                 site_place(site, place), lane_name(lane, self), m->site->name);
    int index = (int)(m - cta->mbarriers);
    access_shared(lane, site, cta, to, bytes, ACCESS_WRITE | ACCESS_ASYNC,
                  actor_of_mbarrier(cta, index), (uint32_t)m->phase + 1);
    for (int i = 0; i < bytes; i += 16)
        put_async_bytes(cta, to + (uint32_t)i, (const char *)canary);
}

void prepare_tma_load(Prepare *p, const Fn *fn, SimSite *site) {
    (void)p, (void)fn;
    site->number_of['u' - 'a'] = strstr(site->name, ".multicast") != NULL;
}

void handle_tma_load(SimLane *lane, const SimSite *site, char *frame) {
    Sim *sim = lane->sim;
    Load l = {.site = site,
              .map = OPERAND(const void *, frame, site, 0),
              .to = OPERAND(uint32_t, frame, site, 1),
              .barrier = OPERAND(uint32_t, frame, site, 2)};
    char self[NAME_BYTES], place[PLACE_BYTES];
    lane->site = site;
    if (!OPERAND(uint8_t, frame, site, 3)) return;
    l.mask =
        site_number(site, 'u') ? OPERAND(uint16_t, frame, site, 5) : 1u << (l.to >> RANK_SHIFT);
    memcpy(l.at, frame + site->at[4], sizeof *l.at * (size_t)site_number(site, 'r'));
    check_map(lane, site, l.map, l.at);
    if (!l.mask || l.mask >> sim->cluster)
        sim_fail(sim, SIM_MISUSE, site, "%s of %s: the mask of CTAs is %#x in a cluster of %d",
                 site_place(site, place), lane_name(lane, self), l.mask, sim->cluster);
    TmaBlock b = tma_block(l.map, l.at);
    for (int rank = 0; rank < sim->cluster; rank++)
        if (l.mask >> rank & 1) check_receiver(lane, site, &l, &b, rank);
    check_outside(lane, site);
    access_tensor(lane, site, &b, ACCESS_READ);
    if (sim->n_loads == sim->cap_loads)
        sim->loads = sim_grow(sim, sim->loads, &sim->cap_loads, sizeof *sim->loads);
    sim->loads[sim->n_loads++] = l;
}

void handle_tma_prefetch(SimLane *lane, const SimSite *site, char *frame) {
    (void)lane, (void)site, (void)frame;
}

/* ---- stores -------------------------------------------------------------------------------- */

/// Reads shared memory as the asynchronous proxy sees it, row by row.
static void store_read(SimLane *lane, Copy *c) {
    const Cta *cta = &lane->sim->ctas[c->to >> RANK_SHIFT];
    TmaBlock b = tma_block(c->p, c->at);
    uint32_t from = tma_offset(c->to);
    if (c->read_done) return;
    c->data = sim_alloc(lane->sim, (size_t)c->bytes);
    for (int i = 0; i < c->bytes; i += 16)
        memcpy(c->data + i, cta->shared + VIEW_ASYNC + swizzled_offset(b.map, from + (uint32_t)i),
               16);
    c->read_done = true;
}

/// Whether additions of the type exist. At other types an H100 stops with an illegal instruction.
static bool has_addition(const SimTensorMap *m) {
    static const bool known[] = {
        [TG_MAP_U32] = true, [TG_MAP_I32] = true, [TG_MAP_U64] = true, [TG_MAP_F16] = true,
        [TG_MAP_F32] = true, [TG_MAP_F64] = true, [TG_MAP_BF16] = true};
    return m->type < (int)(sizeof known / sizeof *known) && known[m->type];
}

static uint64_t sum_of_elements(int type, uint64_t x, uint64_t y) {
    uint16_t s = (uint16_t)x, t = (uint16_t)y;
    float a, b;
    double c, d;
    switch (type) {
    case TG_MAP_F16: return encode_f16(decode_f16(s) + decode_f16(t));
    case TG_MAP_BF16: return encode_bf16(decode_bf16(s) + decode_bf16(t));
    case TG_MAP_F32:
        memcpy(&a, &x, sizeof a);
        memcpy(&b, &y, sizeof b);
        a += b;
        x = 0;
        memcpy(&x, &a, sizeof a);
        return x;
    case TG_MAP_F64:
        memcpy(&c, &x, sizeof c);
        memcpy(&d, &y, sizeof d);
        c += d;
        memcpy(&x, &c, sizeof c);
        return x;
    default: return x + y;
    }
}

static uint64_t load_bits(const char *p, int size) {
    uint64_t x = 0;
    memcpy(&x, p, (size_t)size);
    return x;
}

/// Other system threads may run other clusters, or programs of other ranks, at the same time.
#define ADD_ATOMICALLY(Word, type, to, value)                                                      \
    do {                                                                                           \
        Word *at = (Word *)(void *)(to), old = __atomic_load_n(at, __ATOMIC_RELAXED);              \
        while (!__atomic_compare_exchange_n(at, &old, (Word)sum_of_elements(type, old, value),     \
                                            true, __ATOMIC_RELAXED, __ATOMIC_RELAXED))             \
            continue;                                                                              \
    } while (0)

static void add_tma_element(const SimTensorMap *m, char *to, const char *from) {
    uint64_t value = load_bits(from, m->bytes);
    switch (m->bytes) {
    case 2: ADD_ATOMICALLY(uint16_t, m->type, to, value); return;
    case 4: ADD_ATOMICALLY(uint32_t, m->type, to, value); return;
    default: ADD_ATOMICALLY(uint64_t, m->type, to, value); return;
    }
}

static void store_write(Copy *c) {
    TmaBlock b = tma_block(c->p, c->at);
    int first, behind, size = b.map->bytes;
    inside_columns(&b, &first, &behind);
    for (int r = 0; r < b.rows; r++) {
        char *row = row_address(&b, r);
        const char *from = c->data + r * b.row_bytes;
        for (int i = first; row && i < behind; i++)
            if (c->add)
                add_tma_element(b.map, element_at_column(&b, row, i), from + i * size);
            else
                memcpy(element_at_column(&b, row, i), from + i * size, (size_t)size);
    }
}

bool store_random(SimLane *lane) {
    Copies *all = &lane->stores;
    if (!all->n) return false;
    store_read(lane, &all->data[sim_random(lane->sim) % (unsigned)all->n]);
    return true;
}

static void start_store(SimLane *lane, const SimSite *site, char *frame, int kind) {
    Copies *all = &lane->stores;
    Copy c = {.site = site,
              .add = kind & ACCESS_READ,
              .group = all->group,
              .p = OPERAND(const void *, frame, site, 0),
              .to = OPERAND(uint32_t, frame, site, 1)};
    lane->site = site;
    if (!OPERAND(uint8_t, frame, site, 2)) return;
    memcpy(c.at, frame + site->at[3], sizeof *c.at * (size_t)site_number(site, 'r'));
    check_map(lane, site, c.p, c.at);
    TmaBlock b = tma_block(c.p, c.at);
    c.bytes = b.rows * b.row_bytes;
    Cta *cta = shared_find(lane, site, c.to, c.bytes, 128);
    access_shared(lane, site, cta, tma_offset(c.to), c.bytes, ACCESS_READ | ACCESS_ASYNC,
                  actor_of_stores(lane), (uint32_t)all->group + 1);
    access_tensor(lane, site, &b, kind);
    if (all->n == all->cap)
        all->data = sim_grow(lane->sim, all->data, &all->cap, sizeof *all->data);
    all->data[all->n++] = c;
}

void handle_tma_store(SimLane *lane, const SimSite *site, char *frame) {
    start_store(lane, site, frame, ACCESS_WRITE);
}

void handle_tma_add(SimLane *lane, const SimSite *site, char *frame) {
    char self[NAME_BYTES], place[PLACE_BYTES];
    const SimTensorMap *m = OPERAND(const void *, frame, site, 0);
    if (!OPERAND(uint8_t, frame, site, 2)) return;
    if (m->magic == MAP_MAGIC && !has_addition(m))
        sim_fail(lane->sim, SIM_MISUSE, site, "%s of %s: a tensor map of a type that is not added",
                 site_place(site, place), lane_name(lane, self));
    lane->site = site;
    check_outside(lane, site);
    start_store(lane, site, frame, ACCESS_READ | ACCESS_WRITE | ACCESS_ATOMIC);
}

void handle_tma_commit(SimLane *lane, const SimSite *site, char *frame) {
    (void)site, (void)frame;
    lane->stores.group++;
}

/// Completes the groups up to `last`: they have read and, unless `read_only`, written.
static void finish_stores(SimLane *lane, int last, bool read_only) {
    Copies *all = &lane->stores;
    int kept = 0;
    for (int i = 0; i < all->n; i++) {
        Copy *c = &all->data[i];
        if (c->group <= last) {
            store_read(lane, c);
            c->waited = true;
            if (c->group >= lane->waited) lane->waited = c->group + 1;
        }
        if (c->group <= last && !read_only) {
            store_write(c);
            free(c->data);
        } else {
            all->data[kept++] = *c;
        }
    }
    all->n = kept;
}

void handle_tma_wait(SimLane *lane, const SimSite *site, char *frame) {
    (void)frame;
    finish_stores(lane, lane->stores.group - 1 - site_number(site, 'n'),
                  strstr(site->name, ".read.") != NULL);
}

/// Ends a lane's stores at the end of its program. A store that was waited for has read shared
/// memory, and still writes its data now. A store without a wait is an error, since shared memory
/// may be gone before it is read. So is an addition whose sums were not waited for.
void stores_finish(SimLane *lane) {
    const Copies *all = &lane->stores;
    char self[NAME_BYTES], place[PLACE_BYTES];
    for (int i = 0; i < all->n; i++)
        if (!all->data[i].waited || all->data[i].add)
            sim_fail(lane->sim, SIM_MISUSE, all->data[i].site,
                     "%s ends before %s has %s: there was no wait for it", lane_name(lane, self),
                     site_place(all->data[i].site, place),
                     all->data[i].waited ? "added" : "read shared memory");
    if (all->n) finish_stores(lane, lane->stores.group, false);
}
