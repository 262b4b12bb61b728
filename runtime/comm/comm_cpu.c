// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The communication calls of compiled CPU code that runs on several ranks.
//
// A CPU has no copy engine: the computing cores copy, too. The thread that first waits for a chunk
// of a shard fetches it, into its own cache. Chunks that other ranks wait for are pushed by threads
// between two tasks and by all threads that wait. So every rank that waits makes progress, and no
// rank depends on the operating system to wake another one.
#include "runtime/comm/comm.h"
#include "runtime/runtime.h"

#include <stdio.h>
#include <string.h>

/// A transfer of chunks: from other ranks' shards to here (a pull), or from here to the others.
struct rt_transfer {
    rt_transfer *next;
    const char *name;
    bool pull;
    int64_t rows, row_bytes, pitch, chunk_rows, chunks;
    char *from, *to, *flags; // of rank 0's part; the next rank's is a lead further
    int64_t from_lead, to_lead, flags_lead;
    const int64_t *done;          // [W][chunks] becomes the epoch; NULL: all chunks are complete
    int64_t epoch;                // at the start of the transfer
    _Atomic int64_t left;         // chunks that have not arrived
    _Atomic unsigned char *taken; // [W][chunks]
    bool whole;                   // includes the own part
    bool direct;                  // no copy: readers use the shard in place once its rank has come
};

static tg_comm *host_comm(const tg_env *env) {
    return ((rt_worker *)env->user)->launcher->comm;
}

/* ---- failures -------------------------------------------------------------------------------- */

static const tg_site rank_site = {.kind = TG_SITE_WAIT};
static const tg_site contract_site = {.kind = TG_SITE_REQUIRE};

/// Records tg_last_error() as this worker's failure. A site without a file has no source position.
static int32_t fail_as(const tg_env *env, const tg_site *site, tg_status status) {
    rt_worker *w = env->user;
    w->failure.site = site ? site : status == TG_ERROR_RANK ? &rank_site : &contract_site;
    if (status == TG_ERROR_MEMORY) w->failure.site = NULL;
    snprintf(w->failure.text, sizeof w->failure.text, "%s", tg_last_error());
    return status == TG_ERROR_MEMORY ? TG_RUN_NO_MEMORY : TG_RUN_FAILED;
}

/* ---- addresses ------------------------------------------------------------------------------- */

/// An address resolved: a place of a direct view, or any other memory of this rank.
typedef struct MemoryPlace {
    void *here; // NULL: only the engine reaches it, by
    int rank;
    size_t at;
} MemoryPlace;

static MemoryPlace place_at(const tg_comm *c, const void *direct) {
    const char *p = direct;
    size_t from_flat = (size_t)(p - c->host.flat), stride = c->host.stride;
    if (c->host.mapped || p < c->host.flat || from_flat >= stride * (size_t)c->size)
        return (MemoryPlace){.here = (void *)(uintptr_t)direct};
    MemoryPlace place = {.rank = (int)(from_flat / stride), .at = from_flat % stride};
    if (place.rank == c->rank) place.here = c->host.own + place.at;
    return place;
}

/// later: the copy may be complete only when the engine is quiet.
static tg_status move_bytes(tg_comm *c, void *to, const void *from, size_t bytes, bool later) {
    MemoryPlace x = place_at(c, to), y = place_at(c, from);
    const rt_engine *e = c->engine;
    if (x.here && y.here) memcpy(x.here, y.here, bytes);
    if (x.here && y.here) return TG_OK;
    if (x.here) return (later ? e->get_later : e->get)(c, y.rank, y.at, x.here, bytes);
    if (y.here) return (later ? e->put_later : e->put)(c, x.rank, x.at, y.here, bytes);
    return tg_fail(TG_ERROR_INTERNAL, "bytes from one other rank to another");
}

static tg_status copy_bytes_now(tg_comm *c, void *to, const void *from, size_t bytes) {
    return move_bytes(c, to, from, bytes, false);
}

static tg_status raise_word(tg_comm *c, void *direct, int how, int64_t value) {
    MemoryPlace p = place_at(c, direct);
    int64_t *word = p.here;
    if (!word)
        return (how == TG_SIGNAL_ADD ? c->engine->add : c->engine->set)(c, p.rank, p.at, value);
    if (how == TG_SIGNAL_ADD)
        __atomic_fetch_add(word, value, __ATOMIC_ACQ_REL);
    else
        __atomic_store_n(word, value, __ATOMIC_RELEASE);
    return TG_OK;
}

/* ---- records --------------------------------------------------------------------------------- */

bool tg_host_profile(tg_comm *c, enum tg_part part, tg_trace *trace) {
    tg_trace *before = c->trace;
    c->part = part;
    c->trace = trace;
    return !c->memory->profile || c->memory->profile(c, before) == TG_OK;
}

double tg_host_seconds(tg_comm *c) {
    return c->memory->seconds ? c->memory->seconds(c) : -1;
}

static int64_t trace_begin_ns(const tg_comm *c) {
    return c->trace ? rt_now_ns() : 0;
}

/// Records an event that began at `from` and ends now.
static void note_event(const tg_env *env, enum tg_event_kind kind, int64_t from, int64_t peer,
                       int64_t number) {
    const rt_worker *w = env->user;
    tg_trace *t = w->launcher->comm->trace;
    if (!t) return;
    size_t i = __atomic_fetch_add(&t->n, 1, __ATOMIC_RELAXED);
    if (i >= t->capacity) return;
    t->events[i] = (tg_event){.from = from,
                              .to = rt_now_ns(),
                              .kind = (int32_t)kind,
                              .thread = (int32_t)(w - w->launcher->workers),
                              .peer = peer,
                              .number = number};
}

/* ---- transfers ------------------------------------------------------------------------------- */

static int64_t place_in(const rt_transfer *t, int rank, int64_t chunk) {
    return rank * t->chunks + chunk;
}

/// Claims a chunk. If several threads try, one gets it.
static bool take_transfer_chunk(rt_transfer *t, int64_t place) {
    return !atomic_load_explicit(&t->taken[place], memory_order_relaxed) &&
           !atomic_exchange_explicit(&t->taken[place], 1, memory_order_acq_rel);
}

static tg_status move_chunk_rows(tg_comm *c, const rt_transfer *t, int rank, int64_t row,
                                 int64_t rows) {
    if (c->part == TG_PART_PROGRAMS) return TG_OK;
    char *to = t->to + rank * t->to_lead + row * t->pitch;
    const char *from = t->from + rank * t->from_lead + row * t->pitch;
    if (t->pitch == t->row_bytes) return copy_bytes_now(c, to, from, (size_t)(rows * t->row_bytes));
    // Rows with gaps between them are copied together.
    bool later = !c->host.mapped && c->engine->put_later;
    tg_status status = TG_OK;
    for (int64_t i = 0; i < rows && !status; i++)
        status = move_bytes(c, to + i * t->pitch, from + i * t->pitch, (size_t)t->row_bytes, later);
    return !status && later ? c->engine->quiet(c) : status;
}

static tg_status raise_flag(tg_comm *c, rt_transfer *t, int rank, int64_t chunk) {
    void *flag = t->flags + rank * t->flags_lead + chunk * (int64_t)sizeof(int64_t);
    tg_status status = raise_word(c, flag, TG_SIGNAL_SET, t->epoch);
    atomic_fetch_sub_explicit(&t->left, 1, memory_order_release);
    return status;
}

static tg_status move_chunk(const tg_env *env, rt_transfer *t, int rank, int64_t chunk) {
    tg_comm *c = host_comm(env);
    int64_t row = chunk * t->chunk_rows, rows = t->rows - row, from = trace_begin_ns(c);
    if (t->direct) return raise_flag(c, t, rank, chunk);
    if (rows > t->chunk_rows) rows = t->chunk_rows;
    tg_status status = move_chunk_rows(c, t, rank, row, rows);
    note_event(env, TG_EVENT_COPY, from, rank, chunk);
    return status ? status : raise_flag(c, t, rank, chunk);
}

static bool is_done(const tg_comm *c, const rt_transfer *t, int64_t place) {
    return !t->done || c->part == TG_PART_TRANSFERS ||
           __atomic_load_n(&t->done[place], __ATOMIC_ACQUIRE) == t->epoch;
}

/// Pushes one complete chunk, to the rank after this one first. False: no chunk is ready.
static bool push_one(const tg_env *env, rt_transfer *t, tg_status *status) {
    const tg_comm *c = host_comm(env);
    for (int i = 1; i < c->size; i++) {
        int r = (c->rank + i) % c->size;
        for (int64_t k = 0; k < t->chunks; k++) {
            if (!is_done(c, t, place_in(t, r, k)) || !take_transfer_chunk(t, place_in(t, r, k)))
                continue;
            *status = move_chunk(env, t, r, k);
            return true;
        }
    }
    return false;
}

/// Pushes one chunk of any transfer that other ranks wait for. False: no chunk is ready.
static bool push_chunk(const tg_env *env, tg_status *status) {
    for (rt_transfer *t = host_comm(env)->transfers; t; t = t->next)
        if (!t->pull && atomic_load_explicit(&t->left, memory_order_relaxed) &&
            push_one(env, t, status))
            return true;
    return false;
}

/// With TG_PART_TRANSFERS, rt_comm_task skips all tasks except move_piece.
static int32_t move_piece(const tg_env *env, void *context, int64_t task, void *arena);

int32_t rt_comm_task(const tg_env *env, tg_task *task, void *context, int64_t number, void *arena) {
    tg_status status = TG_OK;
    const tg_comm *c = host_comm(env);
    push_chunk(env, &status);
    if (status) return fail_as(env, NULL, status);
    if (c->part == TG_PART_TRANSFERS && task != move_piece) return TG_RUN_OK;
    int64_t from = trace_begin_ns(c);
    int32_t failed = task(env, context, number, arena);
    note_event(env, task == move_piece ? TG_EVENT_COPY : TG_EVENT_TASK, from, c->rank, number);
    return failed;
}

/// Finds the pull whose flag the word is.
static rt_transfer *pull_of(const tg_comm *c, const void *word, int *rank, int64_t *chunk) {
    for (rt_transfer *t = c->transfers; t; t = t->next) {
        int64_t place = ((const char *)word - t->flags) / (int64_t)sizeof(int64_t);
        if (!t->pull || (const char *)word < t->flags || place >= c->size * t->chunks) continue;
        *rank = (int)(place / t->chunks);
        *chunk = place % t->chunks;
        return t;
    }
    return NULL;
}

/* ---- waiting --------------------------------------------------------------------------------- */

/// Does one step of work for a thread that waits for the word. False: no work is left.
static bool help_word(const tg_env *env, const int64_t *word, tg_status *status) {
    tg_comm *c = host_comm(env);
    int rank;
    int64_t chunk;
    rt_transfer *t = pull_of(c, word, &rank, &chunk);
    if (t && rt_comm_has_come(c, rank) && take_transfer_chunk(t, place_in(t, rank, chunk))) {
        *status = rt_comm_compare(c, rank);
        if (!*status) *status = move_chunk(env, t, rank, chunk);
        return true;
    }
    return push_chunk(env, status);
}

static int32_t host_wait(const tg_env *env, const tg_site *site, const int64_t *direct, int32_t how,
                         int64_t value, int64_t peer, int64_t number) {
    tg_comm *c = host_comm(env);
    const int64_t *word = place_at(c, direct).here;
    tg_status status = TG_OK;
    rt_patience patience = {0};
    if (!word) status = tg_fail(TG_ERROR_INTERNAL, "a wait for a word of another rank");
    while (!status && !tg_comm_holds(__atomic_load_n(word, __ATOMIC_ACQUIRE), how, value)) {
        if (help_word(env, word, &status) || rt_comm_go_on(c, &patience)) continue;
        char what[TG_TEXT_SIZE] = "a signal";
        const uint64_t values[2] = {(uint64_t)peer, (uint64_t)number};
        if (site) tg_site_text(what, sizeof what, site, values);
        status = rt_comm_stopped(c, what);
    }
    if (patience.turns) note_event(env, TG_EVENT_WAIT, patience.since, peer, number);
    return status ? fail_as(env, site, status) : TG_RUN_OK;
}

/// Fails if a wait in called code has failed.
static int32_t check_called_code(const tg_env *env, const tg_image *image) {
    tg_comm *c = host_comm(env);
    const int64_t *words = c->control->words;
    if (!words[TG_CONTROL_FAILED]) return TG_RUN_OK;
    char what[TG_TEXT_SIZE] = "a signal";
    int64_t number = words[TG_CONTROL_SITE];
    const tg_site *site = number >= 0 && number < image->n_sites ? image->sites[number] : NULL;
    const uint64_t values[2] = {(uint64_t)words[TG_CONTROL_PEER],
                                (uint64_t)words[TG_CONTROL_NUMBER]};
    if (site) tg_site_text(what, sizeof what, site, values);
    return fail_as(env, site, rt_comm_stopped(c, what));
}

int32_t rt_comm_call(const tg_env *env, tg_image *image, int32_t function, int64_t programs,
                     void *const *args) {
    const tg_comm *c = host_comm(env);
    if (c->part == TG_PART_TRANSFERS) return TG_RUN_OK;
    int64_t from = trace_begin_ns(c);
    int32_t failed = image->dispatch(image, env, function, programs, args);
    note_event(env, TG_EVENT_TASK, from, c->rank, function);
    return failed ? failed : check_called_code(env, image);
}

/// Waits until all ranks have written at least `value` into their own places here.
static tg_status await_all_ranks(const tg_env *env, size_t word, int64_t value, const char *what) {
    tg_comm *c = host_comm(env);
    int64_t from = trace_begin_ns(c);
    rt_patience patience = {0};
    tg_status status = TG_OK;
    for (int r = 0; r < c->size && !status; r++) {
        const _Atomic int64_t *at =
            (const _Atomic int64_t *)(const void *)((const char *)&c->control->from[r] + word);
        while (!status && atomic_load_explicit(at, memory_order_acquire) < value) {
            if (push_chunk(env, &status) || rt_comm_go_on(c, &patience)) continue;
            char text[96];
            snprintf(text, sizeof text, "rank %d %s", r, what);
            status = rt_comm_stopped(c, text);
        }
    }
    note_event(env, TG_EVENT_MEET, from, -1, value);
    return status;
}

static void set_all(tg_comm *c, _Atomic int64_t *place, int64_t value) {
    for (int i = 1; i <= c->size; i++) rt_comm_set(c, (c->rank + i) % c->size, place, value);
}

/* ---- launches -------------------------------------------------------------------------------- */

/// Waits until all ranks have come to this launch.
static tg_status await_launches(tg_comm *c) {
    tg_status status = TG_OK;
    for (int r = 0; r < c->size && !status; r++) status = rt_comm_await(c, r);
    return status;
}

static int32_t host_begin(const tg_env *env, int32_t how) {
    tg_comm *c = host_comm(env);
    tg_status status = TG_OK;
    c->transfers = NULL;
    if (how & TG_BEGIN_REACHES) status = rt_comm_may_reach(c);
    if (!status && how & TG_BEGIN_WAITS) status = await_launches(c);
    return status ? fail_as(env, NULL, status) : TG_RUN_OK;
}

static int32_t host_barrier(const tg_env *env) {
    tg_comm *c = host_comm(env);
    rt_control *k = c->control;
    int64_t number = c->epoch + 1;
    tg_status status = c->engine->quiet && !c->host.mapped ? c->engine->quiet(c) : TG_OK;
    if (!status) set_all(c, &k->from[c->rank].barrier, number);
    if (!status)
        status =
            await_all_ranks(env, offsetof(rt_from, barrier), number, "at a barrier between phases");
    k->words[TG_CONTROL_EPOCH] = c->epoch = number;
    return status ? fail_as(env, NULL, status) : TG_RUN_OK;
}

/// If transfers are timed alone, moves the chunks for which programs would have waited.
static tg_status pull_rest(const tg_env *env) {
    tg_comm *c = host_comm(env);
    tg_status status = TG_OK;
    for (rt_transfer *t = c->transfers; t; t = t->next)
        for (int64_t i = 0; i < c->size * t->chunks && t->pull && !status; i++) {
            int rank = (int)((c->rank + i / t->chunks) % c->size);
            if (rank == c->rank && !t->whole) continue;
            status = rt_comm_await(c, rank);
            if (!status && take_transfer_chunk(t, place_in(t, rank, i % t->chunks)))
                status = move_chunk(env, t, rank, i % t->chunks);
        }
    return status;
}

/// Drops the chunks of pulls for which no thread waited. Sends all remaining chunks of pushes.
static int32_t host_end(const tg_env *env) {
    tg_comm *c = host_comm(env);
    tg_status status = TG_OK;
    rt_patience patience = {0};
    if (c->part == TG_PART_TRANSFERS) status = pull_rest(env);
    for (rt_transfer *t = c->transfers; t && !status; t = t->next)
        while (!t->pull && !status && atomic_load_explicit(&t->left, memory_order_acquire)) {
            if (push_chunk(env, &status) || rt_comm_go_on(c, &patience)) continue;
            char what[96];
            snprintf(what, sizeof what, "its own part of '%.64s'", t->name);
            status = rt_comm_stopped(c, what);
        }
    c->transfers = NULL;
    if (!status && c->engine->quiet && !c->host.mapped) status = c->engine->quiet(c);
    if (!status) set_all(c, &c->control->from[c->rank].done, c->launches);
    if (!status)
        status = await_all_ranks(env, offsetof(rt_from, done), c->launches, "to end the launch");
    for (int r = 0; r < c->size && !status; r++) status = rt_comm_compare(c, r);
    return status ? fail_as(env, NULL, status) : TG_RUN_OK;
}

/* ---- memory ---------------------------------------------------------------------------------- */

/// Compiled code reports that memory is missing. This records which kind of memory it is.
static void *found_or_failed(const tg_env *env, void *memory) {
    if (memory) return memory;
    fail_as(env, NULL, TG_ERROR_MEMORY);
    ((rt_worker *)env->user)->told = true;
    return NULL;
}

static void *host_workspace(const tg_env *env, int64_t bytes, int64_t *lead) {
    tg_comm *c = host_comm(env);
    void *direct = rt_comm_direct(c, rt_comm_workspace(c, bytes), lead);
    return found_or_failed(env, direct);
}

static void *host_signals(const tg_env *env, int32_t number, int64_t words, int64_t *lead) {
    tg_comm *c = host_comm(env);
    void *direct = rt_comm_direct(c, rt_comm_signals(c, number, words), lead);
    return found_or_failed(env, direct);
}

static void *host_control(const tg_env *env) {
    return host_comm(env)->control->words;
}

/* ---- gathers and scatters -------------------------------------------------------------------- */

/// NULL: out of memory; the failure is recorded.
static rt_transfer *transfer_new(const tg_env *env, int64_t rows, int64_t chunk_rows) {
    tg_comm *c = host_comm(env);
    int64_t chunks = rows ? (rows + chunk_rows - 1) / chunk_rows : 0;
    size_t places = (size_t)(chunks * c->size);
    rt_transfer *t = env->workspace(env, (int64_t)(sizeof *t + places));
    if (!t) {
        env->fail(env, NULL, NULL);
        return NULL;
    }
    memset(t, 0, sizeof *t + places);
    t->taken = (_Atomic unsigned char *)(void *)(t + 1);
    t->rows = rows;
    t->chunk_rows = chunk_rows;
    t->chunks = chunks;
    t->epoch = c->epoch;
    atomic_init(&t->left, chunks * (c->size - 1));
    return t;
}

static void start_transfer(tg_comm *c, rt_transfer *t) {
    t->next = c->transfers;
    c->transfers = t;
}

/// A move of whole parts by all threads, cut into pieces. The parts are those of `parts` ranks, and
/// begin `first` ranks after this one.
typedef struct WholeMove {
    rt_transfer *t;
    int64_t pieces; // of a part
    int first, parts;
} WholeMove;

static int32_t move_piece(const tg_env *env, void *context, int64_t task, void *arena) {
    const WholeMove *w = context;
    const rt_transfer *t = w->t;
    tg_comm *c = host_comm(env);
    int rank = (c->rank + w->first + (int)(task / w->pieces)) % c->size;
    int64_t piece = task % w->pieces;
    int64_t from = t->rows * piece / w->pieces, to = t->rows * (piece + 1) / w->pieces;
    tg_status status = move_chunk_rows(c, t, rank, from, to - from);
    (void)arena;
    return status ? fail_as(env, NULL, status) : TG_RUN_OK;
}

static int32_t move_parts(const tg_env *env, rt_transfer *t, int first, int parts) {
    tg_comm *c = host_comm(env);
    int active = ((rt_worker *)env->user)->launcher->context->active;
    WholeMove w = {t, active, first, parts};
    int32_t failed = env->parallel_for(env, parts * w.pieces, 0, move_piece, &w);
    for (int i = first; i < first + parts && !failed; i++)
        for (int64_t k = 0; k < t->chunks && !failed; k++) {
            tg_status status = raise_flag(c, t, (c->rank + i) % c->size, k);
            if (status) failed = fail_as(env, NULL, status);
        }
    return failed;
}

static int32_t move_all(const tg_env *env, rt_transfer *t) {
    int first = t->whole ? 0 : 1;
    return move_parts(env, t, first, host_comm(env)->size - first);
}

/// Chooses the memory in which shards lie side by side: the slots of the tensor, or else memory of
/// this launch. Shards that are read directly stay in place.
static bool find_host_view(const tg_env *env, tg_gather *g, const rt_shard *shard) {
    tg_comm *c = host_comm(env);
    enum { GRAIN = 256 };
    bool direct = g->how == TG_GATHER_DIRECT && c->host.mapped;
    g->view = direct ? g->data : shard->gathered;
    g->slot = direct ? g->lead : shard->slot;
    if (g->view) return true;
    g->slot = (int64_t)rt_round_up((size_t)(g->rows * g->pitch), GRAIN);
    g->view = env->workspace(env, g->slot * c->size);
    if (!g->view) env->fail(env, NULL, NULL);
    return g->view != NULL;
}

static void aim_pull(rt_transfer *t, const tg_gather *g, char *flags) {
    t->pull = true;
    t->from = g->data;
    t->from_lead = g->lead;
    t->to = g->view;
    t->to_lead = g->slot;
    t->flags = flags;
    t->flags_lead = t->chunks * (int64_t)sizeof(int64_t);
}

/// Sets up a push from the own shard to slot `rank` of every other rank's view. `flags` is an
/// offset at the receiver.
static void aim_push(const tg_comm *c, rt_transfer *t, const rt_shard *shard, size_t flags) {
    t->from = shard->own;
    t->to = (char *)shard->direct + c->rank * shard->slot;
    t->to_lead = (int64_t)c->heap.stride;
    t->flags = c->heap.flat + flags + c->rank * t->chunks * (int64_t)sizeof(int64_t);
    t->flags_lead = (int64_t)c->heap.stride;
}

/// Only epochs are written to flags, so old values of earlier launches never match.
static int32_t host_gather(const tg_env *env, tg_gather *g) {
    tg_comm *c = host_comm(env);
    rt_shard shard;
    rt_transfer *t = transfer_new(env, g->rows, g->chunk_rows);
    if (!t) return TG_RUN_NO_MEMORY;
    size_t flags = rt_comm_flags(c, t->chunks * c->size);
    if (flags == SIZE_MAX) return fail_as(env, NULL, TG_ERROR_MEMORY);
    bool scratch =
        (char *)g->data >= c->heap.flat && (char *)g->data < c->heap.flat + c->heap.bytes;
    if (!rt_sym_find_direct(c, g->data, &shard)) shard = (rt_shard){.own = NULL};
    if (!shard.own && !scratch)
        return fail_as(env, NULL,
                       tg_fail(TG_ERROR_INTERNAL, "'%s' is not a symmetric tensor", g->name));
    if (!find_host_view(env, g, &shard)) return TG_RUN_NO_MEMORY;
    char *own_flags = c->heap.own + flags;
    g->flags = own_flags;
    t->name = g->name;
    t->row_bytes = g->row_bytes;
    t->pitch = g->pitch;
    t->direct = g->how == TG_GATHER_DIRECT && c->host.mapped;
    t->whole = !shard.gathered && !t->direct;
    bool pushes = g->how == TG_GATHER_PUSH && shard.gathered;
    if (pushes)
        aim_push(c, t, &shard, flags);
    else
        aim_pull(t, g, own_flags);
    for (int64_t k = 0; k < t->chunks && !t->whole; k++)
        __atomic_store_n((int64_t *)g->flags + place_in(t, c->rank, k), c->epoch, __ATOMIC_RELEASE);
    if (g->how != TG_GATHER_BEFORE) {
        start_transfer(c, t);
        return TG_RUN_OK;
    }
    tg_status status = await_launches(c);
    return status ? fail_as(env, NULL, status) : move_all(env, t);
}

static int32_t host_scatter(const tg_env *env, const tg_scatter *s) {
    tg_comm *c = host_comm(env);
    bool one = s->how == TG_SCATTER_BEHIND;
    if (one && s->peer == c->rank) return TG_RUN_OK;
    rt_transfer *t = transfer_new(env, s->rows, s->chunk_rows);
    if (!t) return TG_RUN_NO_MEMORY;
    t->name = s->name;
    t->row_bytes = s->row_bytes;
    t->pitch = s->pitch;
    t->from = s->local;
    t->from_lead = s->part;
    t->to = (char *)s->stage + c->rank * s->part;
    t->to_lead = s->lead;
    t->flags = (char *)s->flags + c->rank * t->chunks * (int64_t)sizeof(int64_t);
    t->flags_lead = s->flags_lead;
    t->done = s->how == TG_GATHER_PUSH ? s->done : NULL;
    if (one) return move_parts(env, t, (s->peer - c->rank + c->size) % c->size, 1);
    if (!t->done) return move_all(env, t);
    start_transfer(c, t);
    return TG_RUN_OK;
}

/* ---- expert calls ---------------------------------------------------------------------------- */

static int32_t host_signal(const tg_env *env, int64_t *word, int32_t how, int64_t value) {
    tg_status status = raise_word(host_comm(env), word, how, value);
    return status ? fail_as(env, NULL, status) : TG_RUN_OK;
}

static int32_t host_fence(const tg_env *env, int32_t quiet) {
    tg_comm *c = host_comm(env);
    atomic_thread_fence(memory_order_acq_rel);
    tg_status status = !c->host.mapped ? c->engine->quiet(c) : TG_OK;
    (void)quiet;
    return status ? fail_as(env, NULL, status) : TG_RUN_OK;
}

static int32_t host_copy(const tg_env *env, void *to, const void *from, int64_t bytes) {
    tg_status status = copy_bytes_now(host_comm(env), to, from, (size_t)bytes);
    return status ? fail_as(env, NULL, status) : TG_RUN_OK;
}

const tg_comm_calls rt_host_calls = {.begin = host_begin,
                                     .barrier = host_barrier,
                                     .end = host_end,
                                     .gather = host_gather,
                                     .scatter = host_scatter,
                                     .workspace = host_workspace,
                                     .signals = host_signals,
                                     .control = host_control,
                                     .wait = host_wait,
                                     .signal = host_signal,
                                     .fence = host_fence,
                                     .get = host_copy,
                                     .put = host_copy};
