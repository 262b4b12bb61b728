// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Collective launches: numbered, told to the other ranks, run by all with one plan, and ended at
// all ranks when one fails.
//
// A launch tells every other rank its number, a hash of what is launched and how, in a line of its
// memory. Which ranks a launch waits for, and when, its code says (tg_comm_calls); whoever looks at
// a line compares it with the own one. Only the first launch of a kind waits here: for rank 0's
// line, which says what to run.
#include "runtime/comm.h"
#include "runtime/runtime.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/// A kind of launch that the ranks have agreed upon.
struct rt_agreed {
    rt_agreed *next;
    const tg_kernel *kernel;
    uint64_t arguments; // a hash
    uint64_t state;     // of the kernel: another one may be where it was
    const tg_variant *variant;
};

/* ---- lines ----------------------------------------------------------------------------------- */

static rt_line *line_of(tg_comm *c, int rank) {
    return &c->control->from[rank].lines[c->launches & 1];
}

/// Whether rank r has come to this launch.
bool rt_comm_has_come(tg_comm *c, int rank) {
    if (rank == c->rank) return true;
    return atomic_load_explicit(&line_of(c, rank)->number, memory_order_acquire) >= c->launches;
}

/// Fills in the own line, but for its number. config NULL: it is not chosen yet.
static void write_line(tg_comm *c, const char *name, const char *signature, const char *config) {
    rt_line *own = &c->line;
    own->kernel = rt_hash_text(rt_hash_text(0, name), signature);
    own->plan = config ? rt_hash_text(0, config) | 1 : 0;
    own->layout = rt_sym_layout(c);
    snprintf(own->name, sizeof own->name, "%s", name);
    snprintf(own->config, sizeof own->config, "%s", config ? config : "");
}

/// The number goes last.
static void tell_all(tg_comm *c) {
    const size_t from = offsetof(rt_line, kernel);
    rt_line *place = line_of(c, c->rank);
    for (int i = 1; i < c->size; i++) {
        int r = (c->rank + i) % c->size;
        rt_comm_tell(c, r, (char *)place + from, (char *)&c->line + from, sizeof(rt_line) - from);
        rt_comm_set(c, r, &place->number, c->launches);
    }
}

/* ---- shards ---------------------------------------------------------------------------------- */

/// Of all ranks' heaps, as rank 0's shard has it; 0: it is no symmetric memory, which is told when
/// the argument is bound.
static size_t place_of(const tg_comm *c, const DLTensor *t) {
    rt_shard shard;
    const char *own = t->data ? (const char *)t->data + t->byte_offset : NULL;
    return rt_sym_find(c, own, &shard) ? (size_t)((char *)shard.direct - c->heap.flat) : 0;
}

/// Type, extents, strides that mean something, and the place.
static uint64_t hash_shard(const tg_comm *c, const DLTensor *t) {
    uint64_t hash = rt_mix((uint64_t)t->dtype.code << 16 | t->dtype.bits, (uint64_t)t->ndim);
    int64_t dense = 1;
    hash = rt_mix(hash, place_of(c, t));
    for (int d = t->shape ? t->ndim - 1 : -1; d >= 0; d--) {
        hash = rt_mix(hash, (uint64_t)t->shape[d]);
        if (t->shape[d] != 1) hash = rt_mix(hash, (uint64_t)(t->strides ? t->strides[d] : dense));
        dense *= t->shape[d];
    }
    return hash;
}

/// Tensor k of the arguments if it is symmetric and one at all.
static const DLTensor *shard_of(const tg_kernel_info *info, const tg_arg *args, int k) {
    bool symmetric = info->params[k].flags & TG_PARAM_SYM && args[k].kind == TG_ARG_TENSOR;
    const DLTensor *t = symmetric ? args[k].as.tensor : NULL;
    return t && t->ndim >= 0 && t->ndim <= TG_MAX_RANK ? t : NULL;
}

void rt_comm_shards(rt_launcher *l, const tg_kernel_info *info, const tg_arg *args, int n) {
    tg_comm *c = l->comm;
    rt_line *own = &c->line;
    uint64_t hash = own->kernel;
    if (!args || n > info->n_params) n = 0;
    for (int k = 0; k < n; k++) {
        const DLTensor *t = shard_of(info, args, k);
        if (t) hash = rt_mix(hash, hash_shard(c, t));
    }
    if (hash == own->shards) return; // as the launch before: so is the text
    rt_text text = {.n = 0};
    for (int k = 0; k < n; k++) {
        const DLTensor *t = shard_of(info, args, k);
        if (!t) continue;
        rt_add(&text, "%s: ", info->params[k].name);
        rt_add_tensor(&text, t);
        for (int d = 0; t->strides && d < t->ndim; d++)
            rt_add(&text, "%s%" PRId64, d ? ", " : " of strides ", t->strides[d]);
        rt_add(&text, " at byte %zu; ", place_of(c, t));
    }
    own->shards = hash;
    snprintf(own->passed, sizeof own->passed, "%.*s", RT_COMM_CONFIG - 1, text.data);
}

/// The first that differs of two lists, or all where what differs was cut off.
static tg_status unlike_shards(int x, const char *at_x, int y, const char *at_y) {
    size_t nx = strlen(at_x), ny = strlen(at_y);
    const char *from_x = at_x, *from_y = at_y;
    for (const char *ex, *ey; (ex = strstr(from_x, "; ")) && (ey = strstr(from_y, "; "));) {
        size_t n = (size_t)(ex - from_x);
        if (n != (size_t)(ey - from_y) || strncmp(from_x, from_y, n) != 0) {
            at_x = from_x;
            at_y = from_y;
            nx = n;
            ny = (size_t)(ey - from_y);
            break;
        }
        from_x = ex + 2;
        from_y = ey + 2;
    }
    return tg_fail(TG_ERROR_CONTRACT,
                   "rank %d passes '%.*s' of symmetric memory and rank %d '%.*s'; all ranks pass "
                   "the same tensor, or the same view of it",
                   x, (int)nx, at_x, y, (int)ny, at_y);
}

/* ---- comparing ------------------------------------------------------------------------------- */

/// A rank that has come and launches something else, or otherwise. It may be launches ahead where
/// they do not wait for each other: then its line is of another one.
tg_status rt_comm_compare(tg_comm *c, int rank) {
    const rt_line *line = line_of(c, rank), *own = &c->line;
    if (rank == c->rank || atomic_load(&c->compared) >> rank & 1 ||
        atomic_load_explicit(&line->number, memory_order_acquire) != c->launches)
        return TG_OK;
    if (own->plan) atomic_fetch_or(&c->compared, (uint64_t)1 << rank);
    int x = rank < c->rank ? rank : c->rank, y = rank < c->rank ? c->rank : rank;
    const rt_line *lx = x == rank ? line : own, *ly = x == rank ? own : line;
    if (line->kernel != own->kernel)
        return tg_fail(TG_ERROR_CONTRACT,
                       "different kernels are launched: rank %d launches '%s' and rank %d '%s' as "
                       "their launch %lld; all ranks launch the same in the same order",
                       x, lx->name, y, ly->name, (long long)c->launches);
    if (line->layout != own->layout)
        return tg_fail(TG_ERROR_CONTRACT,
                       "ranks %d and %d have allocated or freed different symmetric tensors, or "
                       "their launches before had arguments of different shapes",
                       x, y);
    if (own->plan && line->shards != own->shards)
        return unlike_shards(x, lx->passed, y, ly->passed);
    if (own->plan && line->plan != own->plan)
        return tg_fail(TG_ERROR_CONTRACT, "rank %d runs '%s' with '%s' and rank %d with '%s'", x,
                       own->name, lx->config, y, ly->config);
    return TG_OK;
}

/* ---- failures -------------------------------------------------------------------------------- */

/// The text comes before the number.
static void raise_failure(tg_comm *c, const char *text) {
    char cut[RT_COMM_TEXT];
    snprintf(cut, sizeof cut, "%s", text);
    for (int i = 1; i < c->size; i++) {
        int r = (c->rank + i) % c->size;
        rt_comm_tell(c, r, c->control->from[c->rank].text, cut, sizeof cut);
        rt_comm_set(c, r, &c->control->from[c->rank].failed, c->launches);
    }
}

/// A rank whose part of this launch has failed, or -1.
static int who_failed(tg_comm *c) {
    for (int r = 0; r < c->size; r++)
        if (r != c->rank &&
            atomic_load_explicit(&c->control->from[r].failed, memory_order_acquire) == c->launches)
            return r;
    return -1;
}

bool rt_comm_go_on(tg_comm *c, rt_patience *p) {
    enum { LOOK = 32 };
    return rt_comm_patience(c, p) && (p->turns % LOOK || who_failed(c) < 0);
}

tg_status rt_comm_stopped(tg_comm *c, const char *what) {
    int failed = who_failed(c), lost = atomic_load(&c->lost);
    if (failed >= 0) {
        c->told = true;
        return tg_fail(TG_ERROR_RANK, "rank %d has failed: %.*s", failed, RT_COMM_TEXT,
                       c->control->from[failed].text);
    }
    if (lost)
        return tg_fail(TG_ERROR_RANK, "the process of rank %d has ended; rank %d waited for %s",
                       lost - 1, c->rank, what);
    return tg_fail(TG_ERROR_RANK, "rank %d waited %g s for %s", c->rank,
                   (double)c->timeout_ns / 1e9, what);
}

tg_status rt_comm_await(tg_comm *c, int rank) {
    char what[64];
    rt_patience patience = {0};
    while (!rt_comm_has_come(c, rank))
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

bool rt_is_collective(const tg_kernel_info *info) {
    for (int i = 0; i < info->n_params; i++)
        if (info->params[i].flags & TG_PARAM_SYM) return true;
    return false;
}

/// After a failure ranks begin the next launch together: until then what one of them raised stands.
static tg_status recover(tg_comm *c) {
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

static tg_status begin(tg_comm *c, const char *name) {
    if (rt_comm_is_lost(c))
        return tg_fail(TG_ERROR_RANK, "%s: the process of rank %d has ended", name,
                       atomic_load(&c->lost) - 1);
    c->launches++;
    c->told = false;
    for (int r = 0; r < c->size; r++)
        rt_comm_set(c, r, &c->control->from[c->rank].entered, c->launches);
    return c->recovers ? recover(c) : TG_OK;
}

tg_status rt_comm_enter(rt_launcher *l, const char *name, const char *signature) {
    tg_comm *c = l->context->comm;
    if (pthread_mutex_trylock(&c->lock) != 0)
        return tg_fail(TG_ERROR_CONTRACT,
                       "%s: rank %d is in another collective call: they come one after the other",
                       name, c->rank);
    tg_status status = begin(c, name);
    if (status) {
        pthread_mutex_unlock(&c->lock);
        return status;
    }
    c->compared = 0;
    c->n_workspaces = c->n_gathers = 0;
    l->comm = c;
    for (int i = 0; i <= l->context->threads; i++) l->workers[i].env.comm = &c->calls;
    write_line(c, name, signature, NULL);
    return TG_OK;
}

/// Other ranks hear of a failure unless they told it to this one.
tg_status rt_comm_leave(rt_launcher *l, tg_status status) {
    tg_comm *c = l->comm;
    if (status && !c->told) raise_failure(c, tg_last_error());
    if (status) c->recovers = true;
    l->comm = NULL;
    pthread_mutex_unlock(&c->lock);
    return status;
}

/* ---- agreement ------------------------------------------------------------------------------- */

static rt_agreed *find(const tg_comm *c, tg_kernel *kernel, uint64_t arguments) {
    for (rt_agreed *a = c->agreed; a; a = a->next)
        if (a->kernel == kernel && a->arguments == arguments && a->state == rt_state_number(kernel))
            return a;
    return NULL;
}

void rt_comm_forget(tg_comm *c) {
    tg_options hooks = rt_default_hooks();
    for (rt_agreed *a = c->agreed, *next; a; a = next) {
        next = a->next;
        rt_release(&hooks, a, sizeof *a);
    }
    c->agreed = NULL;
}

static tg_status keep(tg_comm *c, tg_kernel *kernel, uint64_t arguments, const tg_variant *v) {
    tg_options hooks = rt_default_hooks();
    rt_agreed *a = rt_allocate(&hooks, sizeof *a);
    if (!a) return tg_fail(TG_ERROR_MEMORY, "out of memory");
    *a = (rt_agreed){c->agreed, kernel, arguments, rt_state_number(kernel), v};
    c->agreed = a;
    return TG_OK;
}

/// Rank 0 chooses. Where it does not say so any more, being launches ahead, all choose alike.
static tg_status choose(rt_launcher *l, tg_kernel *kernel, const tg_variant **out) {
    tg_comm *c = l->comm;
    tg_status status = c->rank ? rt_comm_await(c, 0) : TG_OK;
    const rt_line *first = line_of(c, 0);
    bool told = c->rank && atomic_load(&first->number) == c->launches;
    if (!status) status = rt_pick_as(kernel, l, told ? first->config : NULL, out);
    return status;
}

tg_status rt_comm_agree(rt_launcher *l, tg_kernel *kernel, const tg_variant **out) {
    tg_comm *c = l->comm;
    uint64_t arguments = rt_hash_arguments(l, kernel->info);
    const rt_agreed *a = find(c, kernel, arguments);
    if (a) {
        *out = a->variant;
        return TG_OK;
    }
    tg_status status = choose(l, kernel, out);
    return status ? status : keep(c, kernel, arguments, *out);
}

void rt_comm_announce(rt_launcher *l, const char *name, const char *signature, const char *config) {
    tg_comm *c = l->comm;
    write_line(c, name, signature, config ? config : "");
    int64_t *words = c->control->words;
    memset(words, 0, sizeof c->control->words);
    words[TG_CONTROL_EPOCH] = c->epoch = c->launches << TG_EPOCH_BITS;
    words[TG_CONTROL_LAUNCH] = c->launches;
    words[TG_CONTROL_LIMIT] = c->timeout_ns;
    tell_all(c);
}
