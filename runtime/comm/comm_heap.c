// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Symmetric memory: an allocator that every rank runs on its own.
//
// All ranks make the same requests in the same order, and so get the same offsets. A hash of the
// requests goes with every launch, so that ranks which differ fail with a message. The upper end of
// the heap holds words that are never given back. A fresh word is zero without a meeting of the
// ranks.
#include "runtime/comm/comm.h"
#include "runtime/runtime.h"

#include <string.h>

enum { GRAIN = 256, WORDS_SHARE = 64 };

/// A used run of the heap. The list is in ascending order of offsets.
typedef struct HeapBlock {
    struct HeapBlock *next;
    size_t at, bytes;
    struct HeapTensor *tensor; // NULL: a workspace
} HeapBlock;

/// A tensor of tg_sym_alloc.
typedef struct HeapTensor {
    size_t bytes, slot; // of the shard; from slot to slot, or 0: TG_SYM_LEAN
    int64_t shape[TG_MAX_RANK];
} HeapTensor;

/// Words of a kernel, identified by their number.
typedef struct Signals {
    struct Signals *next;
    uint64_t kernel;
    int64_t words;
    int number; // < 0: flags of a gather
    size_t at;
} Signals;

struct rt_sym {
    tg_options hooks;
    HeapBlock *blocks;
    size_t end;   // of the part for blocks; words are after it
    size_t words; // the next free word
    size_t fresh; // no memory from here on has been used
    uint64_t layout;
    Signals *signals;
};

/* ---- places ---------------------------------------------------------------------------------- */

tg_status rt_sym_create(tg_comm *c) {
    tg_options hooks = rt_default_hooks();
    rt_sym *s = rt_allocate(&hooks, sizeof *s);
    if (!s) return tg_fail(TG_ERROR_MEMORY, "out of memory");
    *s = (rt_sym){.hooks = hooks};
    s->words = s->end = c->heap.bytes - c->heap.bytes / WORDS_SHARE / GRAIN * GRAIN;
    c->sym = s;
    return TG_OK;
}

static void free_block(rt_sym *s, HeapBlock *b) {
    if (b->tensor) rt_release(&s->hooks, b->tensor, sizeof *b->tensor);
    rt_release(&s->hooks, b, sizeof *b);
}

static void free_signals(rt_sym *s) {
    for (Signals *g = s->signals, *next; g; g = next) {
        next = g->next;
        rt_release(&s->hooks, g, sizeof *g);
    }
}

void rt_sym_destroy(tg_comm *c) {
    rt_sym *s = c->sym;
    for (HeapBlock *b = s->blocks, *next; b; b = next) {
        next = b->next;
        free_block(s, b);
    }
    free_signals(s);
    rt_release(&s->hooks, s, sizeof *s);
    c->sym = NULL;
}

uint64_t rt_sym_layout(const tg_comm *c) {
    return c->sym->layout;
}

static void note_layout(rt_sym *s, uint64_t kind, uint64_t what) {
    s->layout = rt_mix(rt_mix(s->layout, kind), what);
}

static tg_status none_left(size_t bytes, const char *what, size_t used, size_t all) {
    return tg_fail(TG_ERROR_MEMORY,
                   "%zu bytes of %s: %zu of %zu KiB of the heap's are in use; "
                   "tg_comm_options.heap or TG_COMM_HEAP make it larger",
                   bytes, what, used >> 10, all >> 10);
}

static size_t in_use(const rt_sym *s) {
    size_t used = 0;
    for (const HeapBlock *b = s->blocks; b; b = b->next) used += b->bytes;
    return used;
}

/// Takes the first gap that is large enough.
static HeapBlock *take_heap_block(tg_comm *c, size_t bytes) {
    rt_sym *s = c->sym;
    size_t room = bytes > SIZE_MAX - GRAIN ? SIZE_MAX : rt_round_up(bytes, GRAIN), at = 0;
    HeapBlock **place = &s->blocks, *b;
    if (!room) room = GRAIN;
    for (; *place && (*place)->at - at < room; place = &(*place)->next)
        at = (*place)->at + (*place)->bytes;
    note_layout(s, 1, bytes);
    if ((!*place && s->end - at < room) || !(b = rt_allocate(&s->hooks, sizeof *b))) {
        none_left(bytes, "symmetric memory", in_use(s), s->end);
        return NULL;
    }
    *b = (HeapBlock){.next = *place, .at = at, .bytes = room};
    *place = b;
    return b;
}

size_t rt_heap_take(tg_comm *c, size_t bytes) {
    const HeapBlock *b = take_heap_block(c, bytes);
    if (!b) return SIZE_MAX;
    if (b->at + b->bytes > c->sym->fresh) c->sym->fresh = b->at + b->bytes;
    return b->at;
}

void rt_heap_give_back(tg_comm *c, size_t at) {
    rt_sym *s = c->sym;
    note_layout(s, 2, at);
    for (HeapBlock **place = &s->blocks; *place; place = &(*place)->next) {
        HeapBlock *b = *place;
        if (b->at != at) continue;
        *place = b->next;
        free_block(s, b);
        return;
    }
}

static int64_t words_left(const tg_comm *c) {
    return (int64_t)((c->heap.bytes - c->sym->words) / sizeof(int64_t));
}

size_t rt_heap_words(tg_comm *c, int64_t words) {
    rt_sym *s = c->sym;
    size_t at = s->words;
    note_layout(s, 3, (uint64_t)words);
    if (words < 0 || words > words_left(c)) {
        none_left((size_t)words * sizeof(int64_t), "signals", s->words - s->end,
                  c->heap.bytes - s->end);
        return SIZE_MAX;
    }
    // Round up to a cache line, so that two kernels share none.
    size_t room = rt_round_up((size_t)words * sizeof(int64_t), 64);
    s->words += room;
    return at;
}

/* ---- of launches ----------------------------------------------------------------------------- */

size_t rt_comm_workspace(tg_comm *c, int64_t bytes) {
    if (c->n_workspaces == RT_COMM_PIECES || bytes < 0) {
        tg_fail(TG_ERROR_MEMORY, "%d pieces of symmetric memory in one launch", RT_COMM_PIECES);
        return SIZE_MAX;
    }
    int i = c->n_workspaces++;
    size_t *at = &c->workspaces[i].at;
    if (c->workspaces[i].bytes >= bytes && bytes) return *at;
    if (c->workspaces[i].bytes && !c->keeps) {
        if (c->memory->settle(c)) return SIZE_MAX;
        rt_heap_give_back(c, *at);
    }
    *at = rt_heap_take(c, bytes ? (size_t)bytes : 1);
    c->workspaces[i].bytes = *at == SIZE_MAX ? 0 : bytes ? bytes : 1;
    return *at;
}

/// Finds or creates the record. NULL: out of memory; tg_last_error() says so.
static Signals *signals_of(tg_comm *c, int number) {
    rt_sym *s = c->sym;
    for (Signals *g = s->signals; g; g = g->next)
        if (g->kernel == c->line.kernel && g->number == number) return g;
    Signals *g = rt_allocate(&s->hooks, sizeof *g);
    if (!g) {
        tg_fail(TG_ERROR_MEMORY, "out of memory");
        return NULL;
    }
    *g = (Signals){.next = s->signals, .kernel = c->line.kernel, .number = number};
    return s->signals = g;
}

/// A growing request gets at least twice as many words as before, if they are left, because
/// outgrown words are lost.
size_t rt_comm_signals(tg_comm *c, int number, int64_t words) {
    Signals *g = signals_of(c, number);
    if (!g) return SIZE_MAX;
    if (words <= g->words) return g->at;
    int64_t twice = 2 * g->words;
    int64_t n = words < twice && twice <= words_left(c) ? twice : words;
    size_t at = rt_heap_words(c, n);
    if (at == SIZE_MAX) return SIZE_MAX;
    g->words = n;
    return g->at = at;
}

size_t rt_comm_flags(tg_comm *c, int64_t words) {
    return rt_comm_signals(c, -++c->n_gathers, words);
}

void *rt_comm_direct(const tg_comm *c, size_t at, int64_t *lead) {
    *lead = (int64_t)c->heap.stride;
    return at == SIZE_MAX ? NULL : c->heap.flat + at;
}

/* ---- tensors --------------------------------------------------------------------------------- */

/// A rank's request, as the others see it.
typedef struct Asked {
    uint64_t at; // UINT64_MAX: out of memory
    uint8_t code, bits;
    uint16_t lanes;
    int32_t rank, flags;
    int64_t shape[TG_MAX_RANK];
} Asked;

static void add_asked(rt_text *t, const Asked *a) {
    rt_add_type(t, a->code, a->bits);
    rt_add(t, "[");
    for (int d = 0; d < a->rank; d++) rt_add(t, "%s%lld", d ? ", " : "", (long long)a->shape[d]);
    rt_add(t, "]%s", a->flags & TG_SYM_LEAN ? " (TG_SYM_LEAN)" : "");
}

/// Computes the bytes of a dense shard; false: they overflow.
static bool dense_shard_bytes(const Asked *a, size_t *out) {
    uint64_t count = 1;
    for (int d = 0; d < a->rank; d++)
        if (__builtin_mul_overflow(count, (uint64_t)a->shape[d], &count)) return false;
    if (count > SIZE_MAX / 256) return false; // leaves room for the bits of an element
    *out = (size_t)((count * a->bits + 7) / 8);
    return true;
}

static tg_status check_asked_tensor(const Asked *a) {
    if (a->rank < 0 || a->rank > TG_MAX_RANK - 1)
        return tg_fail(TG_ERROR_ARGUMENT, "tg_sym_alloc: %d dims; 0 to %d are supported", a->rank,
                       TG_MAX_RANK - 1);
    if (a->lanes != 1 || !a->bits)
        return tg_fail(TG_ERROR_ARGUMENT, "tg_sym_alloc: vectors are not element types");
    for (int d = 0; d < a->rank; d++)
        if (a->shape[d] < 0)
            return tg_fail(TG_ERROR_ARGUMENT, "tg_sym_alloc: an extent is negative");
    return TG_OK;
}

/// Fails on all ranks if any rank lacked memory or requests differ. All ranks get the same message,
/// except that a rank without memory gets its own reason.
static tg_status compare_asked(const tg_comm *c, const Asked *all) {
    if (all[c->rank].at == UINT64_MAX)
        return tg_fail(TG_ERROR_MEMORY, "tg_sym_alloc: rank %d: %s", c->rank, tg_last_error());
    for (int r = 0; r < c->size; r++)
        if (all[r].at == UINT64_MAX)
            return tg_fail(TG_ERROR_MEMORY, "tg_sym_alloc: rank %d has no symmetric memory left",
                           r);
    for (int r = 1; r < c->size; r++) {
        Asked x = all[0], y = all[r];
        rt_text t = {.n = 0};
        x.at = y.at = 0;
        if (memcmp(&x, &y, sizeof x) != 0) {
            rt_add(&t, "rank 0 asks for ");
            add_asked(&t, &x);
            rt_add(&t, ", rank %d for ", r);
            add_asked(&t, &y);
            return tg_fail(TG_ERROR_CONTRACT,
                           "tg_sym_alloc: %s: all ranks must ask for the same type and shape",
                           t.data);
        }
        if (all[0].at != all[r].at)
            return tg_fail(TG_ERROR_CONTRACT,
                           "tg_sym_alloc: ranks 0 and %d have allocated or freed different "
                           "symmetric tensors before",
                           r);
    }
    return TG_OK;
}

/// Zeroes the part of the block that was used before. Fresh memory is zero already.
static tg_status clear_heap_block(tg_comm *c, const HeapBlock *b) {
    rt_sym *s = c->sym;
    size_t used = s->fresh > b->at ? s->fresh - b->at : 0;
    if (used > b->bytes) used = b->bytes;
    if (s->fresh < b->at + b->bytes) s->fresh = b->at + b->bytes;
    return used ? c->memory->clear(c, c->heap.own + b->at, used) : TG_OK;
}

static HeapBlock *allocate_tensor(tg_comm *c, const Asked *a) {
    size_t bytes, all;
    rt_sym *s = c->sym;
    if (!dense_shard_bytes(a, &bytes)) bytes = SIZE_MAX / 2;
    size_t slot = a->flags & TG_SYM_LEAN ? 0 : rt_round_up(bytes, GRAIN);
    if (!(a->flags & TG_SYM_LEAN) && !slot) slot = GRAIN;
    if (__builtin_mul_overflow(slot, (size_t)c->size, &all)) all = SIZE_MAX;
    HeapBlock *b = take_heap_block(c, slot ? all : bytes);
    HeapTensor *t = b ? rt_allocate(&s->hooks, sizeof *t) : NULL;
    if (!b || !t) {
        if (b) rt_heap_give_back(c, b->at);
        return NULL;
    }
    *t = (HeapTensor){.bytes = bytes, .slot = slot};
    memcpy(t->shape, a->shape, sizeof t->shape);
    b->tensor = t;
    return b;
}

static tg_status allocate_together(tg_comm *c, Asked *a, HeapBlock **out) {
    Asked all[RT_COMM_RANKS];
    HeapBlock *b = *out = allocate_tensor(c, a);
    tg_status cleared = b ? clear_heap_block(c, b) : TG_OK;
    a->at = b && !cleared ? b->at : UINT64_MAX;
    tg_status status = rt_comm_allgather(c, "tg_sym_alloc", a, sizeof *a, all);
    if (!status) status = compare_asked(c, all);
    if (status && b) rt_heap_give_back(c, b->at);
    return status;
}

tg_status tg_sym_alloc(tg_comm *c, DLDataType type, int rank, const int64_t *shape, int flags,
                       DLTensor *out) {
    if (!c || !out || (rank > 0 && !shape))
        return tg_fail(TG_ERROR_ARGUMENT, "tg_sym_alloc: %s is NULL",
                       !c     ? "comm"
                       : !out ? "out"
                              : "shape");
    Asked a = {.code = type.code,
               .bits = type.bits,
               .lanes = type.lanes,
               .rank = rank,
               .flags = flags & TG_SYM_LEAN};
    for (int d = 0; d < rank && d < TG_MAX_RANK; d++) a.shape[d] = shape[d];
    tg_status status = check_asked_tensor(&a);
    if (status) return status;
    HeapBlock *b;
    pthread_mutex_lock(&c->lock);
    status = allocate_together(c, &a, &b);
    pthread_mutex_unlock(&c->lock);
    if (status) return status;
    *out = (DLTensor){.data = c->heap.own + b->at + (size_t)c->rank * b->tensor->slot,
                      .device = rt_comm_device(c),
                      .ndim = rank,
                      .dtype = type,
                      .shape = b->tensor->shape};
    return TG_OK;
}

/* ---- finding them ---------------------------------------------------------------------------- */

/// Finds the tensor that contains the offset in slot `part`, and the offset within that shard. The
/// place after the last byte of a shard counts as the shard's, unless another shard begins there.
static const HeapBlock *block_at(const tg_comm *c, size_t at, int part, size_t *inside) {
    const HeapBlock *found = NULL;
    for (const HeapBlock *b = c->sym->blocks; b && b->at <= at; b = b->next) {
        size_t before = b->tensor ? (size_t)part * b->tensor->slot : 0;
        if (!b->tensor || at - b->at < before || at - b->at - before > b->tensor->bytes) continue;
        *inside = at - b->at - before;
        found = b;
    }
    return found;
}

static void fill_shard(const tg_comm *c, const HeapBlock *b, size_t inside, rt_shard *out) {
    size_t slot = b->tensor->slot;
    *out = (rt_shard){.direct = c->heap.flat + b->at + inside,
                      .lead = (int64_t)(c->heap.stride + slot),
                      .gathered = slot ? c->heap.own + b->at + inside : NULL,
                      .slot = (int64_t)slot,
                      .before = (int64_t)inside,
                      .left = (int64_t)(b->tensor->bytes - inside),
                      .own = c->heap.own + b->at + (size_t)c->rank * slot + inside};
}

bool rt_sym_find(const tg_comm *c, const void *data, rt_shard *out) {
    size_t at = (size_t)((const char *)data - c->heap.own), inside;
    if ((const char *)data < c->heap.own || at >= c->heap.bytes) return false;
    const HeapBlock *b = block_at(c, at, c->rank, &inside);
    if (b) fill_shard(c, b, inside, out);
    return b != NULL;
}

bool rt_sym_find_direct(const tg_comm *c, const void *direct, rt_shard *out) {
    size_t at = (size_t)((const char *)direct - c->heap.flat), inside;
    if ((const char *)direct < c->heap.flat || at >= c->heap.bytes) return false;
    const HeapBlock *b = block_at(c, at, 0, &inside);
    if (b) fill_shard(c, b, inside, out);
    return b != NULL;
}

/// Ranks meet before the memory is given back, since others may still read it.
tg_status tg_sym_free(tg_comm *c, const DLTensor *tensor) {
    rt_shard shard;
    if (!c || !tensor) return tg_fail(TG_ERROR_ARGUMENT, "tg_sym_free: NULL");
    pthread_mutex_lock(&c->lock);
    tg_status status = TG_OK;
    if (!rt_sym_find(c, tensor->data, &shard))
        status = tg_fail(TG_ERROR_ARGUMENT, "tg_sym_free: the tensor is not of tg_sym_alloc");
    else if (shard.before)
        status = tg_fail(TG_ERROR_ARGUMENT,
                         "tg_sym_free: the tensor is a view of a tensor of tg_sym_alloc");
    if (!status) status = c->memory->settle(c);
    if (!status) status = rt_comm_meet(c, "tg_sym_free");
    if (!status) rt_heap_give_back(c, (size_t)((char *)shard.direct - c->heap.flat));
    pthread_mutex_unlock(&c->lock);
    return status;
}

void *tg_host_direct(const tg_comm *c, const void *own, int64_t *lead) {
    rt_shard shard;
    if (!rt_sym_find(c, own, &shard)) return NULL;
    *lead = shard.lead;
    return shard.direct;
}

bool tg_host_mapped(const tg_comm *c) {
    return c->heap.mapped;
}

bool tg_host_read(tg_comm *c, int rank, const void *own, void *to, size_t bytes) {
    int64_t lead;
    const char *direct = tg_host_direct(c, own, &lead);
    if (!direct) return tg_fail(TG_ERROR_ARGUMENT, "it is not symmetric memory") == TG_OK;
    if (rank != c->rank && !c->heap.mapped && c->memory->fetch)
        return c->memory->fetch(c, rank, direct + rank * lead, to, bytes) == TG_OK;
    if (rank != c->rank && !c->heap.mapped) {
        size_t at = (size_t)(direct + rank * lead - c->host.flat) % c->host.stride;
        return c->engine->get(c, rank, at, to, bytes) == TG_OK;
    }
    const void *from = rank == c->rank ? own : direct + rank * lead;
    if (c->memory->copy) return c->memory->copy(c, to, from, bytes, true) == TG_OK;
    memcpy(to, from, bytes);
    return true;
}

bool tg_host_write(tg_comm *c, void *own, const void *from, size_t bytes) {
    if (c->memory->copy) return c->memory->copy(c, own, from, bytes, false) == TG_OK;
    memcpy(own, from, bytes);
    return true;
}

int tg_host_device(const tg_comm *c) {
    return c->device;
}
