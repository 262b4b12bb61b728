// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The reference interpreter over several ranks.
//
// Each rank is a thread with its own context, copy of the module and registers. Symmetric tensors
// share memory. One rank runs at a time, until it waits, so a run is deterministic. If no rank can
// continue, all waits are known and reported. Transfers of the host code happen as early as they
// may.
#include "ir/interp/interp_private.h"

#include "lang/diag.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/// Memory shared by all ranks and made by the launch: scratch and signals.
typedef struct SharedWords {
    char *data;
    int64_t bytes; // of all ranks
} SharedWords;

typedef struct World {
    int n, turn, running; // the number of ranks; the running one; those that have not ended
    int idle;             // ranks that could not continue since one last did
    bool failed;
    Interp **ranks;
    SharedWords *shared;
    int n_shared;
    pthread_mutex_t lock;
    pthread_cond_t turned;
} World;

bool has_company(const Interp *it) {
    return it->world->n > 1;
}

/* ---- turns --------------------------------------------------------------------------------- */

/// Returns false if a rank has failed and this one has to give up.
static bool await_turn(World *w, int rank) {
    pthread_mutex_lock(&w->lock);
    while (w->turn != rank && !w->failed) pthread_cond_wait(&w->turned, &w->lock);
    bool goes_on = !w->failed;
    pthread_mutex_unlock(&w->lock);
    return goes_on;
}

/// Lets the next rank that has not ended continue.
static void pass_turn(World *w, int rank) {
    pthread_mutex_lock(&w->lock);
    for (int i = 1; i <= w->n; i++) {
        int next = (rank + i) % w->n;
        if (w->ranks[next]->ended) continue;
        w->turn = next;
        break;
    }
    pthread_cond_broadcast(&w->turned);
    pthread_mutex_unlock(&w->lock);
}

static void fail_world(World *w) {
    pthread_mutex_lock(&w->lock);
    w->failed = true;
    pthread_cond_broadcast(&w->turned);
    pthread_mutex_unlock(&w->lock);
}

static _Noreturn void all_wait(Interp *it, const Op *op) {
    Text t = {.ctx = it->ctx};
    text_add(&t, "no rank can go on");
    for (int r = 0; r < it->world->n; r++) {
        const Interp *other = it->world->ranks[r];
        text_add(&t, "%s rank %d %s%s", r ? "," : ":", r, other->ended ? "has ended" : "waits for ",
                 other->ended ? "" : other->waits);
    }
    run_error(it, op, "%s", t.data);
}

typedef bool Ready(Interp *it, Op *op);

/// Runs other ranks until `ready` holds. `waits` describes the wait.
static void wait_until(Interp *it, Op *op, Ready *ready, const char *waits) {
    World *w = it->world;
    it->waits = waits;
    while (!ready(it, op)) {
        if (++w->idle >= w->running) all_wait(it, op);
        pass_turn(w, it->rank);
        if (!await_turn(w, it->rank)) ctx_give_up(it->ctx);
    }
    it->waits = NULL;
    w->idle = 0;
}

/// Whether all ranks have arrived as often as this one.
static bool all_ranks_came(Interp *it, Op *op) {
    (void)op;
    for (int r = 0; r < it->world->n; r++)
        if (it->world->ranks[r]->meetings < it->meetings) return false;
    return true;
}

static void meet_all_ranks(Interp *it, Op *op, const char *where) {
    it->meetings++;
    race_arrive(it);
    wait_until(it, op, all_ranks_came, ctx_format(it->ctx, "all ranks to come to the %s", where));
    race_meet(it);
}

/* ---- shared memory ------------------------------------------------------------------------- */

/// Returns the same memory for the n-th request of every rank. The first request allocates it.
void *shared_memory(Interp *it, const Op *op, int64_t bytes, int fill) {
    World *w = it->world;
    int i = it->n_shared++;
    if (i == w->n_shared) {
        SharedWords *grown = realloc(w->shared, sizeof *grown * (size_t)(i + 1));
        char *data = malloc((size_t)bytes + 1);
        if (grown) w->shared = grown;
        if (!grown || !data) {
            free(data);
            ctx_leave(it->ctx, CTX_NO_MEMORY);
        }
        memset(data, fill, (size_t)bytes);
        w->shared[w->n_shared++] = (SharedWords){data, bytes};
    }
    if (w->shared[i].bytes != bytes)
        run_error(it, op, "ranks ask for symmetric memory of %lld and of %lld bytes",
                  (long long)w->shared[i].bytes, (long long)bytes);
    return w->shared[i].data;
}

/// A dense tensor of i64 over memory that was just made.
static Tensor words_tensor(void *data, int rank, const int64_t *extents) {
    Tensor t = {.data = data, .elem = EL_I64, .rank = rank};
    int64_t step = 1;
    for (int d = rank - 1; d >= 0; d--) {
        t.extents[d] = extents[d];
        t.strides[d] = step;
        step *= extents[d];
    }
    return t;
}

void do_comm_signals(Interp *it, Op *op) {
    int64_t extents[MAX_RANK] = {it->world->n}, n = it->world->n;
    for (int i = 0; i < op->n_operands; i++) n *= extents[i + 1] = in_int(op, i);
    out(op, 0)->tensor = words_tensor(shared_memory(it, op, n * 8, 0), op->n_operands + 1, extents);
}

void do_rank(Interp *it, Op *op) {
    out(op, 0)->cells[0].i = it->rank;
}

void do_comm_control(Interp *it, Op *op) {
    if (!it->control) it->control = ctx_array(it->ctx, int64_t, 8);
    it->control[0] = it->epoch;
    out(op, 0)->tensor = words_tensor(it->control, 1, (int64_t[]){8});
}

/* ---- transfers ----------------------------------------------------------------------------- */

/// Element offset of a coordinate in the first `n` dimensions.
static int64_t coordinate_offset(const Tensor *t, int n, const int64_t *at) {
    int64_t offset = 0;
    for (int d = 0; d < n; d++) offset += at[d] * t->strides[d];
    return offset;
}

static void copy_tensor_part(const Tensor *to, int64_t to_at, int to_dim, const Tensor *from,
                             int64_t from_at, int from_dim) {
    if (from_dim == from->rank) {
        cell_store(to->elem, to->data, to_at, cell_load(from->elem, from->data, from_at));
        return;
    }
    for (int64_t i = 0; i < from->extents[from_dim]; i++)
        copy_tensor_part(to, to_at + i * to->strides[to_dim], to_dim + 1, from,
                         from_at + i * from->strides[from_dim], from_dim + 1);
}

static bool all_began(Interp *it, Op *op) {
    (void)op;
    for (int r = 0; r < it->world->n; r++)
        if (!it->world->ranks[r]->begun) return false;
    return true;
}

static int64_t chunks_of_rows(Interp *it, const Op *op, int64_t rows, int64_t each) {
    if (each <= 0) run_error(it, op, "a chunk of %lld rows", (long long)each);
    return ceil_div(rows, each);
}

/// The copies are made at once, since the gathered data are never written.
void do_comm_gather(Interp *it, Op *op) {
    const Tensor *t = &in(op, 0)->tensor;
    int64_t n = 1, chunks = chunks_of_rows(it, op, t->extents[1], in_int(op, 1));
    wait_until(it, op, all_began, "all ranks to begin");
    Tensor *view = &out(op, 0)->tensor;
    *view = *t;
    for (int d = t->rank - 1; d >= 0; d--) {
        view->strides[d] = n;
        n *= t->extents[d];
    }
    view->data = ctx_alloc(it->ctx, (size_t)(n * 8));
    copy_tensor_part(view, 0, 0, t, 0, 0);
    int64_t *flags = ctx_array(it->ctx, int64_t, it->world->n * chunks);
    for (int64_t i = 0; i < it->world->n * chunks; i++) flags[i] = it->epoch;
    out(op, 1)->tensor = words_tensor(flags, 2, (int64_t[]){it->world->n, chunks});
}

static int64_t *signal_word_at(const Tensor *t, int n, const int64_t *at) {
    return (int64_t *)t->data + coordinate_offset(t, n, at);
}

/// Sends `n` rows of part r, from `lo` on, to this rank's slot of rank r's stage.
static void send_rows(Interp *it, const Op *op, int64_t r, int64_t lo, int64_t n) {
    Tensor part = in(op, 0)->tensor;
    const Tensor *stage = &in(op, 1)->tensor;
    int64_t from = coordinate_offset(&part, 2, (int64_t[]){r, lo});
    int64_t to = coordinate_offset(stage, 3, (int64_t[]){r, it->rank, lo});
    part.extents[1] = n;
    copy_tensor_part(stage, to, 2, &part, from, 1);
}

/// Sends the complete chunks and raises their flags. Returns whether all are sent. The own part
/// stays in place.
static bool push_chunks(Interp *it, Op *op) {
    const Tensor *local = &in(op, 0)->tensor, *done = &in(op, 2)->tensor;
    int64_t rows = local->extents[1], each = in_int(op, 4),
            all = chunks_of_rows(it, op, rows, each);
    bool push = op_transfer(op) == TRANSFER_PUSH, complete = true;
    bool one = op_transfer(op) == TRANSFER_BEHIND;
    for (int64_t r = 0; r < it->world->n; r++)
        for (int64_t c = 0; c < all && r != it->rank && !(one && r != in_int(op, 2)); c++) {
            int64_t *flag = signal_word_at(&in(op, 3)->tensor, 3, (int64_t[]){r, it->rank, c});
            bool ready = !push || *signal_word_at(done, 2, (int64_t[]){r, c}) == it->epoch;
            complete &= ready;
            if (!ready || *flag == it->epoch) continue;
            send_rows(it, op, r, c * each, rows - c * each < each ? rows - c * each : each);
            *flag = it->epoch;
            race_raise(it, flag, false);
        }
    return complete;
}

void do_comm_scatter(Interp *it, Op *op) {
    if (!push_chunks(it, op)) vec_push(it->ctx, &it->scatters, op);
}

static void go_on_sending(Interp *it) {
    for (int i = 0; i < it->scatters.n; i++) push_chunks(it, it->scatters.data[i]);
}

/* ---- the launch ---------------------------------------------------------------------------- */

void do_comm_begin(Interp *it, Op *op) {
    it->begun = true;
    if (op_flag(op, A_WAIT_ALL)) meet_all_ranks(it, op, "launch");
}

void do_comm_barrier(Interp *it, Op *op) {
    meet_all_ranks(it, op, "barrier");
    it->epoch++;
    if (it->control) it->control[0] = it->epoch;
}

void do_comm_end(Interp *it, Op *op) {
    for (int i = 0; i < it->scatters.n; i++)
        if (!push_chunks(it, it->scatters.data[i]))
            run_error(it, it->scatters.data[i], "the launch ends, but not all chunks are done");
    meet_all_ranks(it, op, "end");
}

/* ---- signals ------------------------------------------------------------------------------- */

/// The word at the coordinates in the operands from `first` on; NULL outside the tensor.
static int64_t *signal_word_of_op(Interp *it, const Op *op, int first) {
    const Tensor *t = &in(op, 0)->tensor;
    int64_t at[MAX_RANK];
    for (int d = 0; d < t->rank; d++) {
        at[d] = in_int(op, first + d);
        if (at[d] >= 0 && at[d] < t->extents[d]) continue;
        if (it->options.check)
            run_error(it, op, "index %lld is outside dimension %d of the signals, which is %lld",
                      (long long)at[d], d, (long long)t->extents[d]);
        return NULL;
    }
    return signal_word_at(t, t->rank, at);
}

enum { WAIT_VALUE = 2, WAIT_PEER, WAIT_COORDINATES };

static bool is_raised(Interp *it, Op *op) {
    const int64_t *word = signal_word_of_op(it, op, WAIT_COORDINATES);
    return !word || compare_holds(op_compare(op), *word, in_int(op, WAIT_VALUE));
}

/// The op's text with the peer and the last coordinate.
static const char *wait_text(Interp *it, const Op *op) {
    const char *text = op_str(op, A_TEXT);
    int64_t values[] = {in_int(op, WAIT_PEER), in_int(op, op->n_operands - 1)};
    Text t = {.ctx = it->ctx};
    text_bytes(&t, "", 0);
    int n = 0;
    for (const char *s = text ? text : "rank {} to raise signal {}"; *s; s++) {
        bool place = s[0] == '{' && s[1] == '}' && n < 2;
        if (place && n == 0 && values[0] < 0)
            text_add(&t, "?");
        else if (place)
            text_add(&t, "%lld", (long long)values[n]);
        else
            text_bytes(&t, s, 1);
        n += place;
        s += place;
    }
    return t.data;
}

void do_signal_wait(Interp *it, Op *op) {
    wait_until(it, op, is_raised, wait_text(it, op));
    race_see(it, signal_word_of_op(it, op, WAIT_COORDINATES));
}

void do_signal_set(Interp *it, Op *op) {
    int64_t *word = signal_word_of_op(it, op, 2), value = in_int(op, 1);
    bool adds = op_update(op) == UPDATE_ADD;
    if (!word) return;
    race_raise(it, word, adds);
    *word = adds ? (int64_t)((uint64_t)*word + (uint64_t)value) : value;
    go_on_sending(it);
}

/// Writes are visible at once, so a fence does nothing.
void do_comm_fence(Interp *it, Op *op) {
    (void)op;
    race_fence(it);
}

/* ---- combine over ranks -------------------------------------------------------------------- */

/// Folds the contributions in the order of ranks, each with its own copy of the function.
static void join_folds(Interp *it) {
    PtrMap joined = {0};
    VEC(Fold *) order = {0};
    for (int r = 0; r < it->world->n; r++) {
        Interp *other = it->world->ranks[r];
        for (int k = 0; k < other->shard_folds.n; k++) {
            Fold *f = other->shard_folds.data[k], *sum = map_get(&joined, f->key);
            if (sum) {
                fold_in(other, f->op, sum->value, f->value);
                continue;
            }
            sum = ctx_copy(it->ctx, f, sizeof *f);
            sum->value = ctx_array(it->ctx, Cell, op_int(f->op, A_N_TENSORS, 1));
            if (op_flag(f->op, A_ACCUMULATE)) {
                start_from_old(other, sum);
                fold_in(other, f->op, sum->value, f->value);
            } else {
                memcpy(sum->value, f->value, sizeof(Cell) * (size_t)op_int(f->op, A_N_TENSORS, 1));
            }
            map_set(it->ctx, &joined, f->key, sum);
            vec_push(it->ctx, &order, sum);
        }
        other->shard_folds.n = 0;
    }
    for (int k = 0; k < order.n; k++) store_fold(it, order.data[k]);
}

/// The last rank to arrive folds for all.
void finish_shard_folds(Interp *it, Op *phase) {
    it->meetings++;
    race_arrive(it);
    if (all_ranks_came(it, phase)) join_folds(it);
    wait_until(it, phase, all_ranks_came, "what all ranks combine");
    race_meet(it);
    memset(&it->shard_fold_of, 0, sizeof it->shard_fold_of);
}

/* ---- running ------------------------------------------------------------------------------- */

typedef struct RankThread {
    Interp it;
    Ctx *own;
    pthread_t thread;
    bool started;
    CtxStatus status;
    int n_args;
    const InterpArg *args;
} RankThread;

static void rank_body(Ctx *ctx, void *arg) {
    RankThread *t = arg;
    if (!await_turn(t->it.world, t->it.rank)) ctx_give_up(ctx);
    t->it.world->idle = 0;
    interp_launch(&t->it, t->n_args, t->args);
}

static void *rank_main(void *arg) {
    RankThread *t = arg;
    World *w = t->it.world;
    t->status = ctx_protect(t->own, rank_body, t);
    if (t->status != CTX_OK) fail_world(w); // several ranks may end at once from here on
    pthread_mutex_lock(&w->lock);
    t->it.ended = true;
    w->running--;
    w->idle = 0;
    pthread_mutex_unlock(&w->lock);
    pass_turn(w, t->it.rank);
    return NULL;
}

/// Ops hold the plans of their interpreter, so each rank has its own copy.
static Op *module_copy(Ir *ir, const Op *module) {
    Op *copy = build_module(ir);
    Builder b = build_at_end(ir, copy->regions[0], module->loc);
    for_each_op(op, module->regions[0]) {
        PtrMap map = {0};
        op_clone(&b, op, &map);
    }
    return copy;
}

/// Passes a rank's messages to the caller's context. A rank that gave up because of another one
/// reports nothing.
static void pass_diagnostics_on(Ctx *ctx, const RankThread *t) {
    const Diagnostic *d = diag_first(t->own);
    if (t->status == CTX_NO_MEMORY) ctx_leave(ctx, CTX_NO_MEMORY);
    if (t->status == CTX_BUG) ice(ctx, d ? d->loc : (Loc){0}, "%s", d ? d->text : "interpreter");
    for (; d; d = d->next)
        diag(ctx, d->loc, D_RUN_FAILED, ctx_format(ctx, "rank %d: %s", t->it.rank, d->text));
}

static void release_world(void *thing) {
    World *w = thing;
    for (int i = 0; i < w->n_shared; i++) free(w->shared[i].data);
    free(w->shared);
    pthread_cond_destroy(&w->turned);
    pthread_mutex_destroy(&w->lock);
}

static World *new_world(Ctx *ctx, int n) {
    World *w = ctx_new(ctx, World);
    *w = (World){.n = n, .running = n, .ranks = ctx_array(ctx, Interp *, n)};
    pthread_mutex_init(&w->lock, NULL);
    pthread_cond_init(&w->turned, NULL);
    ctx_defer(ctx, release_world, w);
    return w;
}

static void release_rank_context(void *ctx) {
    ctx_destroy(ctx);
}

static bool run_threads(Ctx *ctx, World *w, RankThread *all) {
    bool ok = true;
    for (int r = 0; r < w->n; r++) {
        all[r].started = pthread_create(&all[r].thread, NULL, rank_main, &all[r]) == 0;
        if (!all[r].started) fail_world(w);
        ok &= all[r].started;
    }
    for (int r = 0; r < w->n; r++)
        if (all[r].started) pthread_join(all[r].thread, NULL);
    if (!ok) ctx_leave(ctx, CTX_NO_MEMORY);
    for (int r = 0; r < w->n; r++) {
        ok &= all[r].status == CTX_OK;
        pass_diagnostics_on(ctx, &all[r]);
    }
    return ok;
}

bool interp_run_ranks(Ir *ir, Op *module, const char *kernel, int ranks, int n_args,
                      const InterpArg *const *args, const InterpOptions *options) {
    Ctx *ctx = ir_ctx(ir);
    World *w = new_world(ctx, ranks);
    RankThread *all = ctx_array(ctx, RankThread, ranks);
    Races *races = ranks > 1 && options && options->check ? races_create(ctx, ranks) : NULL;
    for (int r = 0; r < ranks; r++) {
        Interp *it = w->ranks[r] = &all[r].it;
        Ctx *own = ranks == 1 ? ctx : ctx_create(NULL);
        if (!own) ctx_leave(ctx, CTX_NO_MEMORY);
        if (own != ctx) ctx_defer(ctx, release_rank_context, own);
        *it = (Interp){.ir = ir, .ctx = own, .world = w, .rank = r, .kernel = kernel};
        it->epoch = (int64_t)1 << EPOCH_BITS;
        it->module = ranks == 1 ? module : module_copy(ir, module);
        if (options) it->options = *options;
        it->random = it->options.seed + it->options.noise;
        it->races = races;
        all[r].own = own;
        all[r].n_args = n_args;
        all[r].args = args[r];
    }
    if (ranks > 1) return run_threads(ctx, w, all);
    CtxStatus status = ctx_protect(ctx, rank_body, &all[0]);
    if (status == CTX_NO_MEMORY) ctx_leave(ctx, status); // the context is unusable
    return status == CTX_OK;
}

bool interp_run(Ir *ir, Op *module, const char *kernel, int n_args, const InterpArg *args,
                const InterpOptions *options) {
    return interp_run_ranks(ir, module, kernel, 1, n_args, &args, options);
}
