// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Collective launches. They are numbered and announced to the other ranks, all ranks run them with
// one plan, and a failure on one rank ends them on all ranks.
//
// A launch announces itself to every other rank in a line of that rank's memory: its number, and
// hashes of the kernel, the setting and the symmetric tensors. The code of the launch decides for
// which ranks it waits, and when (tg_comm_calls). A rank that reads a line compares it with its own
// one. Only the first launch of a kind waits here: for rank 0's line, which names the setting to
// run.
#include "runtime/comm/comm.h"
#include "runtime/runtime.h"

#include <stdio.h>
#include <string.h>

/* ---- lines ----------------------------------------------------------------------------------- */

static rt_announcement *line_of(tg_comm *c, int rank) {
    return &c->control->from[rank].lines[c->launches & 1];
}

static rt_texts *texts_of(const tg_comm *c, int rank) {
    return &c->control->from[rank].texts[c->launches & 1];
}

/// Whether the rank has come to this launch. True also for a rank that is at a later launch.
bool rt_comm_has_come(tg_comm *c, int rank) {
    if (rank == c->rank) return true;
    return atomic_load_explicit(&line_of(c, rank)->number, memory_order_acquire) >= c->launches;
}

/// Invalidates this rank's line at the others before it changes. With GPUs, the hosts may be
/// several launches apart, so they could read a half-written line.
static void close_line(tg_comm *c) {
    for (int r = 0; r < c->size && c->device >= 0; r++)
        if (r != c->rank) rt_comm_set(c, r, &line_of(c, c->rank)->number, 0);
}

/// Sends the texts whose hashes are in the own line to all others, unless they have them already.
static void tell_texts(tg_comm *c, const char *name, const char *config) {
    const rt_announcement *own = &c->line;
    rt_texts *mine = texts_of(c, c->rank);
    uint64_t hash = rt_mix(rt_mix(own->kernel, own->plan), own->shards);
    if (c->told_texts[c->launches & 1] == hash) return;
    c->told_texts[c->launches & 1] = hash;
    snprintf(mine->name, sizeof mine->name, "%s", name);
    snprintf(mine->config, sizeof mine->config, "%s", config ? config : "");
    rt_shards_describe(c, mine->shards);
    for (int r = 0; r < c->size; r++)
        if (r != c->rank) rt_comm_tell(c, r, mine, mine, sizeof *mine);
}

/// Writes the own line, without sending it. config NULL: not chosen yet.
static void write_launch_line(tg_comm *c, const tg_kernel_info *info, const char *config) {
    rt_announcement *own = &c->line;
    const char *name = info->name;
    own->kernel = rt_hash_text(rt_hash_text(0, name), info->signature);
    own->source = (uint32_t)info->source;
    own->plan = config ? rt_hash_text(0, config) | 1 : 0;
    own->layout = rt_sym_layout(c);
    close_line(c);
    tell_texts(c, name, config);
    atomic_store_explicit(&own->number, c->launches, memory_order_release);
}

/// Sends the own line to all others. The number goes last, since it makes the line valid.
static void tell_all(tg_comm *c) {
    const size_t from = offsetof(rt_announcement, kernel);
    rt_announcement *place = line_of(c, c->rank);
    for (int i = 1; i < c->size; i++) {
        int r = (c->rank + i) % c->size;
        rt_comm_tell(c, r, (char *)place + from, (char *)&c->line + from,
                     offsetof(rt_announcement, shards) + sizeof place->shards - from);
        rt_comm_set(c, r, &place->number, c->launches);
    }
}

/// Whether both lines belong to this launch and have not been compared yet.
static bool is_to_compare(tg_comm *c, int rank) {
    return rank != c->rank && !(atomic_load(&c->compared) >> rank & 1) &&
           atomic_load_explicit(&c->line.number, memory_order_relaxed) == c->launches &&
           atomic_load_explicit(&line_of(c, rank)->number, memory_order_acquire) == c->launches;
}

/// An unknown source equals any source.
static bool is_same_kernel(const rt_announcement *own, const rt_announcement *theirs) {
    return theirs->kernel == own->kernel &&
           (!own->source || !theirs->source || theirs->source == own->source);
}

static bool is_same_launch(const rt_announcement *own, const rt_announcement *theirs) {
    return is_same_kernel(own, theirs) && theirs->layout == own->layout &&
           theirs->scalars == own->scalars && theirs->shards == own->shards &&
           (!own->plan || theirs->plan == own->plan);
}

void rt_comm_steer(tg_comm *c, const tg_param_info *param, int64_t bits) {
    if (!c->scalar) c->line.scalar = bits;
    if (!c->scalar) c->scalar = param;
    c->line.scalars = rt_mix(c->line.scalars + 1, (uint64_t)bits);
}

/// Whether the bits of the parameter are its value.
static bool is_exact_integer(const tg_param_info *p) {
    return p->flags & TG_PARAM_BOOL || (p->bits && (p->code == kDLInt || p->code == kDLUInt));
}

/// Fails because steering scalars differ: the other rank may run another number of phases.
static tg_status fail_steered(const tg_comm *c, const rt_announcement *theirs, int rank) {
    const char *name = c->scalar ? c->scalar->name : "?";
    if (theirs->scalar == c->line.scalar)
        return tg_fail(TG_ERROR_CONTRACT,
                       "ranks %d and %d pass other scalars, which decide what runs: all ranks "
                       "pass the same",
                       c->rank, rank);
    if (c->scalar && !is_exact_integer(c->scalar))
        return tg_fail(TG_ERROR_CONTRACT,
                       "ranks %d and %d pass other values of %s, which decides what runs: all "
                       "ranks pass the same",
                       c->rank, rank, name);
    return tg_fail(TG_ERROR_CONTRACT,
                   "rank %d passes %s = %lld and rank %d %lld, and that decides what runs: all "
                   "ranks pass the same",
                   c->rank, name, (long long)c->line.scalar, rank, (long long)theirs->scalar);
}

/// Fails with the first difference between the two lines.
static tg_status fail_unlike_launch(const tg_comm *c, const rt_announcement *theirs, int rank) {
    const rt_announcement *own = &c->line;
    int x = rank < c->rank ? rank : c->rank, y = rank < c->rank ? c->rank : rank;
    const rt_texts *tx = texts_of(c, x), *ty = texts_of(c, y);
    bool other = !is_same_kernel(own, theirs);
    if (other && strncmp(tx->name, ty->name, sizeof tx->name) == 0)
        return tg_fail(TG_ERROR_CONTRACT,
                       "ranks %d and %d launch '%.*s' from different sources: all ranks launch the "
                       "same kernel",
                       x, y, RT_COMM_NAME, tx->name);
    if (other)
        return tg_fail(TG_ERROR_CONTRACT,
                       "different kernels are launched: rank %d launches '%.*s' and rank %d "
                       "'%.*s' as their launch %lld; all ranks launch the same in the same order",
                       x, RT_COMM_NAME, tx->name, y, RT_COMM_NAME, ty->name,
                       (long long)c->launches);
    if (theirs->scalars != own->scalars) return fail_steered(c, theirs, rank);
    if (theirs->layout != own->layout)
        return tg_fail(TG_ERROR_CONTRACT,
                       "ranks %d and %d have allocated or freed different symmetric tensors, or "
                       "their launches before had arguments of different shapes",
                       x, y);
    if (theirs->shards != own->shards) return rt_shards_differ(c, rank);
    return tg_fail(TG_ERROR_CONTRACT, "rank %d runs '%.*s' with '%.*s' and rank %d with '%.*s'", x,
                   RT_COMM_NAME, tx->name, RT_COMM_CONFIG, tx->config, y, RT_COMM_CONFIG,
                   ty->config);
}

/// Fails if a rank that has come launches something else, or with another setting. If launches do
/// not wait for each other, a rank may be several launches ahead. Its line then belongs to another
/// launch and is ignored.
tg_status rt_comm_compare(tg_comm *c, int rank) {
    const rt_announcement *theirs = line_of(c, rank);
    if (!is_to_compare(c, rank)) return TG_OK;
    bool alike = is_same_launch(&c->line, theirs);
    tg_status status = alike ? TG_OK : fail_unlike_launch(c, theirs, rank);
    // Orders this after all reads of the line, and then checks again: another launch may have
    // overwritten it.
    atomic_fetch_or(&c->compared, 0);
    if (!is_to_compare(c, rank)) return TG_OK;
    if (alike && c->line.plan) atomic_fetch_or(&c->compared, (uint64_t)1 << rank);
    return status;
}

uint64_t rt_comm_what(const tg_comm *c) {
    const rt_announcement *own = &c->line;
    uint64_t what = rt_mix(rt_mix(rt_mix(own->kernel, own->plan), own->layout), own->shards);
    return rt_mix(what, own->scalars);
}

/// Fails for the first rank that has come with a different line.
static tg_status compare_all_ranks(tg_comm *c) {
    tg_status status = TG_OK;
    for (int r = 0; r < c->size && !status; r++) status = rt_comm_compare(c, r);
    return status;
}

/* ---- failures -------------------------------------------------------------------------------- */

/// Tells all others of a failure. The text goes before the number, which makes it valid.
static void raise_failure(tg_comm *c, const char *text) {
    char cut[RT_COMM_TEXT];
    snprintf(cut, sizeof cut, "%s", text);
    for (int i = 1; i < c->size; i++) {
        int r = (c->rank + i) % c->size;
        rt_comm_tell(c, r, c->control->from[c->rank].text, cut, sizeof cut);
        rt_comm_set(c, r, &c->control->from[c->rank].failed, c->launches);
    }
}

/// Returns a rank whose part of this launch has failed, or -1.
static int who_failed(tg_comm *c) {
    for (int r = 0; r < c->size; r++)
        if (r != c->rank &&
            atomic_load_explicit(&c->control->from[r].failed, memory_order_acquire) == c->launches)
            return r;
    return -1;
}

bool rt_comm_go_on(tg_comm *c, rt_patience *p) {
    enum { LOOK = 32 };
    return rt_comm_patience(c, p) &&
           (p->turns % LOOK || (who_failed(c) < 0 && compare_all_ranks(c) == TG_OK));
}

tg_status rt_comm_stopped(tg_comm *c, const char *what) {
    int failed = who_failed(c), lost = atomic_load(&c->lost);
    if (failed >= 0) {
        c->told = true;
        return tg_fail(TG_ERROR_RANK, "rank %d has failed: %.*s", failed, RT_COMM_TEXT,
                       c->control->from[failed].text);
    }
    tg_status unlike = compare_all_ranks(c);
    if (unlike) return unlike;
    if (lost)
        return tg_fail(TG_ERROR_RANK, "the process of rank %d has ended; rank %d waited for %s",
                       lost - 1, c->rank, what);
    return tg_fail(TG_ERROR_RANK, "rank %d waited %g s for %s", c->rank,
                   (double)c->timeout_ns / 1e9, what);
}

void tg_comm_busy(tg_comm *c) {
    c->busy++;
    for (int r = 0; r < c->size; r++)
        if (r != c->rank) rt_comm_set(c, r, &c->control->from[c->rank].busy, c->busy);
}

/// Restarts the time limit of a wait when a busy rank shows activity: that rank may be searching
/// for the setting.
static void allow_busy_rank(tg_comm *c, int rank, int64_t *busy, rt_patience *p) {
    int64_t seen = atomic_load_explicit(&c->control->from[rank].busy, memory_order_relaxed);
    if (seen != *busy) p->since = rt_now_ns();
    *busy = seen;
}

tg_status rt_comm_await(tg_comm *c, int rank) {
    char what[64];
    int64_t busy = 0;
    rt_patience patience = {0};
    for (; !rt_comm_has_come(c, rank); allow_busy_rank(c, rank, &busy, &patience))
        if (!rt_comm_go_on(c, &patience)) {
            snprintf(what, sizeof what, "rank %d to launch it, too", rank);
            return rt_comm_stopped(c, what);
        }
    return rt_comm_compare(c, rank);
}

/* ---- launches -------------------------------------------------------------------------------- */

bool rt_comm_is_mapped(const tg_comm *c) {
    return !c || c->heap.mapped;
}

tg_status rt_comm_may_reach(const tg_comm *c) {
    if (c->heap.mapped) return TG_OK;
    return tg_fail(TG_ERROR_UNSUPPORTED,
                   "its programs access other ranks' memory in place, which '%s' does "
                   "not map here; with the setting plan=before it is copied, if they only "
                   "read it or combine into it",
                   c->memory == &rt_memory_nvshmem ? "nvshmem" : c->engine->name);
}

bool rt_is_collective(const tg_kernel_info *info) {
    for (int i = 0; i < info->n_params; i++)
        if (info->params[i].flags & TG_PARAM_SYM) return true;
    return false;
}

/// After a failure, all ranks enter the next launch before one proceeds. Until then the failure's
/// text and number must stay.
static tg_status recover_ranks(tg_comm *c) {
    rt_patience patience = {0};
    for (int r = 0; r < c->size; r++)
        while (atomic_load_explicit(&c->control->from[r].entered, memory_order_acquire) <
               c->launches)
            if (!rt_comm_go_on(c, &patience)) {
                char what[96];
                snprintf(what, sizeof what, "rank %d to go on after a launch that failed", r);
                return rt_comm_stopped(c, what);
            }
    c->recovers = false;
    return TG_OK;
}

static tg_status begin_comm_launch(tg_comm *c, const char *name) {
    if (rt_comm_is_lost(c))
        return tg_fail(TG_ERROR_RANK, "%s: the process of rank %d has ended", name,
                       atomic_load(&c->lost) - 1);
    c->launches++;
    c->told = false;
    for (int r = 0; r < c->size; r++)
        rt_comm_set(c, r, &c->control->from[c->rank].entered, c->launches);
    return c->recovers ? recover_ranks(c) : TG_OK;
}

tg_status rt_comm_enter(rt_launcher *l, const char *name) {
    tg_comm *c = l->context->comm;
    if (pthread_mutex_trylock(&c->lock) != 0)
        return tg_fail(TG_ERROR_CONTRACT,
                       "%s: rank %d is in another collective call: they come one after the other",
                       name, c->rank);
    tg_status status = begin_comm_launch(c, name);
    if (status) {
        pthread_mutex_unlock(&c->lock);
        return status;
    }
    c->compared = 0;
    c->n_workspaces = c->n_gathers = c->n_shards = 0;
    c->line.shards = c->line.scalars = 0;
    c->line.scalar = 0;
    c->scalar = NULL;
    l->comm = c;
    l->gpu.call = rt_comm_call;
    for (int i = 0; i <= l->context->threads; i++) l->workers[i].env.comm = &c->calls;
    return TG_OK;
}

/// Tells the other ranks of a failure, unless it came from one of them.
tg_status rt_comm_leave(rt_launcher *l, tg_status status) {
    tg_comm *c = l->comm;
    if (status && !c->told) raise_failure(c, tg_last_error());
    if (status) c->recovers = true;
    if (status) atomic_store(&c->failed, c->launches);
    l->comm = NULL;
    pthread_mutex_unlock(&c->lock);
    return status;
}

/* ---- agreement ------------------------------------------------------------------------------- */

void rt_comm_forget(tg_comm *c) {
    tg_options hooks = rt_default_hooks();
    for (rt_agreed *a = c->agreed, *next; a; a = next) {
        next = a->next;
        rt_release(&hooks, a, sizeof *a);
    }
    c->agreed = NULL;
}

/// Rank 0 chooses the setting. If rank 0 is several launches ahead and has overwritten its line,
/// every rank chooses, with the same result.
tg_status rt_comm_first_choice(tg_comm *c, const tg_kernel_info *info, char config[RT_COMM_CONFIG],
                               bool *told) {
    write_launch_line(c, info, NULL);
    tg_status status = c->rank ? rt_comm_await(c, 0) : TG_OK;
    if (status) return tg_fail(status, "%s: %s", info->name, tg_last_error());
    memcpy(config, texts_of(c, 0)->config, RT_COMM_CONFIG);
    atomic_fetch_or(&c->compared, 0); // orders this after the copy of the config
    *told = c->rank && atomic_load(&line_of(c, 0)->number) == c->launches;
    return TG_OK;
}

void rt_comm_announce(rt_launcher *l, const tg_kernel_info *info, const char *config) {
    tg_comm *c = l->comm;
    write_launch_line(c, info, config ? config : "");
    int64_t *words = c->control->words;
    memset(words, 0, sizeof c->control->words);
    words[TG_CONTROL_EPOCH] = c->epoch = c->launches << TG_EPOCH_BITS;
    words[TG_CONTROL_LAUNCH] = c->launches;
    words[TG_CONTROL_LIMIT] = c->timeout_ns;
    tell_all(c);
}
