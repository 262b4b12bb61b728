// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Contexts: hooks, threads, and the idle launchers.
#include "runtime/comm/comm.h"
#include "runtime/launch/warm_launch.h"

#include <stdlib.h>
#include <string.h>

_Atomic(tg_context *) rt_shared_context;
_Thread_local rt_thread rt_own;

/* ---- memory -------------------------------------------------------------------------------- */

void *tg_allocate(size_t bytes) {
    const tg_context *c = rt_context();
    return c ? rt_allocate(&c->hooks, bytes) : NULL;
}

void tg_release(void *memory, size_t bytes) {
    const tg_context *c = memory ? rt_context() : NULL;
    if (c) rt_release(&c->hooks, memory, bytes);
}

void tg_log(const char *line) {
    const tg_context *c = rt_context();
    if (c && c->hooks.log) c->hooks.log(c->hooks.user, line);
}

/* ---- contexts ------------------------------------------------------------------------------ */

/// Copies the options that this version knows from the caller's options.
static tg_status read_context_options(const tg_options *options, tg_options *out) {
    *out = (tg_options){0};
    if (options) {
        if (options->size < offsetof(tg_options, user))
            return tg_fail(TG_ERROR_ARGUMENT, "options: size must be sizeof(tg_options)");
        memcpy(out, options, options->size < sizeof *out ? options->size : sizeof *out);
    }
    if (out->threads < 0 || out->threads > RT_MAX_THREADS)
        return tg_fail(TG_ERROR_ARGUMENT, "options: %d threads; 0 (all cores) to %d can be had",
                       out->threads, RT_MAX_THREADS);
    if (!out->allocate != !out->release)
        return tg_fail(TG_ERROR_ARGUMENT, "options: allocate and release go together");
    if (!out->allocate) {
        tg_options standard = rt_default_hooks();
        out->allocate = standard.allocate;
        out->release = standard.release;
    }
    return TG_OK;
}

static tg_status fail_no_memory(void) {
    return tg_fail(TG_ERROR_MEMORY, "out of memory");
}

/// Finding the level also requests the AMX registers from the system. AMX code runs only after
/// that.
tg_status tg_context_create(const tg_options *options, tg_context **out) {
    if (!out) return tg_fail(TG_ERROR_ARGUMENT, "tg_context_create: out is NULL");
    *out = NULL;
    tg_options hooks;
    tg_status status = read_context_options(options, &hooks);
    if (status) return status;
    tg_cpu_level();
    tg_context *c = rt_allocate(&hooks, sizeof *c);
    if (!c) return fail_no_memory();
    memset(c, 0, sizeof *c);
    c->hooks = hooks;
    int cores = rt_cores();
    c->threads = hooks.threads ? hooks.threads : cores > RT_MAX_THREADS ? RT_MAX_THREADS : cores;
    c->active = c->threads;
    atomic_init(&c->workspace_limit, TG_WORKSPACE_LIMIT);
    const char *fill = secure_getenv("TG_FILL");
    c->fill = fill && strcmp(fill, "nan") == 0;
    if (!hooks.parallel) c->pool = rt_pool_create(&hooks, c->threads);
    if (!hooks.parallel && !c->pool) {
        rt_release(&hooks, c, sizeof *c);
        return fail_no_memory();
    }
    tg_lock_init(&c->printing);
    *out = c;
    return TG_OK;
}

void tg_context_destroy(tg_context *c) {
    if (!c) return;
    if (rt_own.context == c) rt_own.context = NULL;
    tg_options hooks = c->hooks;
    for (int i = 0; i < RT_PLACES; i++) {
        uintptr_t l = atomic_load(&c->places[i]);
        if (!(l & RT_BUSY)) rt_launcher_destroy((rt_launcher *)l);
    }
    rt_pool_destroy(c->pool, &hooks);
    tg_lock_destroy(&c->printing);
    rt_release(&hooks, c, sizeof *c);
}

/// Creates the shared context. If two threads create it at once, one of the two contexts is kept.
RT_SELDOM static tg_context *make_shared(void) {
    tg_context *c = NULL, *mine;
    if (tg_context_create(NULL, &mine) != TG_OK) return NULL;
    if (atomic_compare_exchange_strong(&rt_shared_context, &c, mine)) return mine;
    tg_context_destroy(mine);
    return c;
}

static tg_context *shared_context(void) {
    tg_context *c = atomic_load_explicit(&rt_shared_context, memory_order_acquire);
    return c ? c : make_shared();
}

tg_context *rt_context(void) {
    return rt_own.context ? rt_own.context : shared_context();
}

tg_context *tg_context_use(tg_context *context) {
    tg_context *before = rt_own.context;
    rt_own.context = context;
    return before;
}

/// Ranks of one host share its cores, unless the program has set the number of threads.
tg_status tg_context_set_comm(tg_context *context, tg_comm *comm) {
    tg_context *c = context ? context : rt_context();
    if (!c) return tg_fail(TG_ERROR_MEMORY, "out of memory");
    c->comm = comm;
    c->active = c->threads;
    if (!comm || c->hooks.threads) return TG_OK;
    c->active = c->threads / comm->local;
    if (c->active < 1) c->active = 1;
    return TG_OK;
}

int tg_context_threads(const tg_context *context) {
    const tg_context *c = context ? context : shared_context();
    return c ? c->threads : 1;
}

tg_status tg_context_set_workspace_limit(tg_context *context, int64_t bytes) {
    tg_context *c = context ? context : rt_context();
    if (!c) return tg_fail(TG_ERROR_MEMORY, "out of memory");
    if (bytes < 0)
        return tg_fail(TG_ERROR_ARGUMENT, "a workspace cannot have %lld bytes", (long long)bytes);
    atomic_store_explicit(&c->workspace_limit, bytes, memory_order_relaxed);
    return TG_OK;
}

int64_t tg_context_workspace_limit(const tg_context *context) {
    const tg_context *c = context ? context : rt_context();
    return c ? atomic_load_explicit(&c->workspace_limit, memory_order_relaxed) : TG_WORKSPACE_LIMIT;
}

/* ---- launchers ----------------------------------------------------------------------------- */

/// The place at which this thread looks first. Threads differ in it, so each finds its previous
/// launcher.
static unsigned own_place(void) {
    static _Atomic unsigned threads;
    if (!rt_own.number) rt_own.number = atomic_fetch_add(&threads, 1) + 1;
    return rt_own.number % RT_PLACES;
}

/// Puts the launcher into the first free place from `place` on. Without a free place it keeps none.
static rt_launcher *settle_launcher(rt_launcher *l, unsigned place) {
    for (unsigned i = 0; l && i < RT_PLACES; i++) {
        uintptr_t none = 0;
        l->place = (int)((place + i) % RT_PLACES);
        if (atomic_compare_exchange_strong(&l->context->places[l->place], &none,
                                           (uintptr_t)l | RT_BUSY))
            return l;
    }
    if (l) l->place = -1;
    return l;
}

/// Moves an idle launcher of another thread to this place.
RT_SELDOM static rt_launcher *claim_another(tg_context *c, unsigned place) {
    rt_launcher *l = NULL;
    for (unsigned i = 1; i < RT_PLACES && !l; i++) l = rt_claim_at(c, (place + i) % RT_PLACES);
    if (!l) return settle_launcher(rt_launcher_create(c), place);
    if (atomic_load(&c->places[place])) return l; // several threads share this place
    atomic_store(&c->places[l->place], 0);
    return settle_launcher(l, place);
}

rt_launcher *rt_claim(tg_context *c) {
    unsigned place = own_place();
    rt_launcher *l = rt_claim_at(c, place);
    return l ? l : claim_another(c, place);
}

void rt_give_back(rt_launcher *l) {
    if (l->place >= 0)
        rt_warm_give_back(l);
    else
        rt_launcher_destroy(l); // there are more launches at once than places
}
