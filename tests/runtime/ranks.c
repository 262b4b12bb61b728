// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "tests/runtime/ranks.h"

#include "runtime/abi.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- ranks ----------------------------------------------------------------------------------- */

bool check_failed(const char *file, int line, const char *condition) {
    fprintf(stderr, "%s:%d: %s; last error: %s\n", file, line, condition, tg_last_error());
    return false;
}

typedef struct Rank {
    tg_comm_options options;
    rank_body *body;
    void *arg;
    bool passed;
} Rank;

static bool run_rank(const Rank *r) {
    tg_comm *comm;
    tg_context *context;
    tg_options options = {.size = sizeof options, .threads = 2};
    CHECK(tg_comm_create(&r->options, &comm) == TG_OK);
    CHECK(tg_context_create(&options, &context) == TG_OK);
    CHECK(tg_context_set_comm(context, comm) == TG_OK);
    tg_context_use(context);
    bool passed = r->body(comm, r->arg);
    tg_context_use(NULL);
    tg_context_destroy(context);
    tg_comm_destroy(comm);
    return passed;
}

static void *thread_main(void *arg) {
    Rank *r = arg;
    r->passed = run_rank(r);
    return NULL;
}

static bool on_threads(Rank *ranks, int n) {
    pthread_t ids[16];
    bool passed = true;
    for (int i = 0; i < n; i++) pthread_create(&ids[i], NULL, thread_main, &ranks[i]);
    for (int i = 0; i < n; i++) pthread_join(ids[i], NULL);
    for (int i = 0; i < n; i++) passed &= ranks[i].passed;
    return passed;
}

static bool on_processes(Rank *ranks, int n) {
    pid_t ids[16];
    bool passed = true;
    fflush(NULL);
    for (int i = 0; i < n; i++)
        if ((ids[i] = fork()) == 0) _exit(run_rank(&ranks[i]) ? 0 : 1);
    for (int i = 0; i < n; i++) {
        int status = -1;
        waitpid(ids[i], &status, 0);
        passed &= WIFEXITED(status) && WEXITSTATUS(status) == 0;
    }
    return passed;
}

bool on_ranks(const char *engine, int n, int timeout_ms, rank_body *body, void *arg) {
    Rank ranks[16];
    char meet[64];
    static int number;
    snprintf(meet, sizeof meet, "/tmp/tegula-ranks-%d-%d", (int)getpid(), number++);
    for (int i = 0; i < n; i++)
        ranks[i] = (Rank){.options = {.size = sizeof(tg_comm_options),
                                      .engine = engine,
                                      .meet = meet,
                                      .rank = i,
                                      .ranks = n,
                                      .device = -1,
                                      .heap = 1 << 22,
                                      .timeout_ms = timeout_ms},
                          .body = body,
                          .arg = arg};
    return strcmp(engine, "threads") == 0 ? on_threads(ranks, n) : on_processes(ranks, n);
}

bool on_this_rank(const char *engine, rank_body *body, void *arg) {
    Rank rank = {.options = {.size = sizeof rank.options,
                             .engine = engine,
                             .rank = -1,
                             .device = -1,
                             .heap = 1 << 22},
                 .body = body,
                 .arg = arg};
    return run_rank(&rank);
}

/* ---- gathered -------------------------------------------------------------------------------- */

/// Work of gathered and reduced: a task is a chunk of a rank's part.
typedef struct Work {
    const tg_site *site;
    int64_t rows, columns, chunk_rows, chunks;
    const char *view; // rank 0's part; the next rank's is `lead` bytes away
    int64_t lead;
    const int64_t *flags; // [W][chunks]; NULL: no waits
    float *out;
    /* of reduced */
    const float *x;
    float *local; // [W][M, K]
    int64_t *done;
} Work;

static const tg_site chunk_site = {
    .kind = TG_SITE_WAIT, .text = "rank {}'s chunk {} of 'a'", .types = "dd", .n_values = 2};

static int64_t rows_of(const Work *w, int64_t chunk) {
    int64_t left = w->rows - chunk * w->chunk_rows;
    return left < w->chunk_rows ? left : w->chunk_rows;
}

static int32_t gathered_task(const tg_env *env, void *context, int64_t i, void *arena) {
    const Work *w = context;
    const tg_comm_calls *comm = env->comm;
    int64_t rank = (comm->rank + i / w->chunks) % comm->size, chunk = i % w->chunks;
    (void)arena;
    if (w->flags) {
        int64_t number = rank * w->chunks + chunk, epoch = *(int64_t *)comm->control(env);
        int32_t failed = comm->wait(env, w->site, &w->flags[number], TG_CMP_EQ, epoch, rank, chunk);
        if (failed) return failed;
    }
    const float *from = (const float *)(const void *)(w->view + rank * w->lead) +
                        chunk * w->chunk_rows * w->columns;
    float *to = w->out + (rank * w->rows + chunk * w->chunk_rows) * w->columns;
    for (int64_t k = 0; k < rows_of(w, chunk) * w->columns; k++) to[k] = 2 * from[k];
    return 0;
}

static int32_t gathered_entry(const tg_slot *args, const tg_env *env) {
    const int64_t *shape = args[0].tensor.shape;
    int64_t how = (int64_t)args[2].bits, chunk = (int64_t)args[3].bits;
    tg_gather g = {.data = args[0].tensor.data,
                   .lead = args[0].tensor.strides[0] * (int64_t)sizeof(float),
                   .rows = shape[1],
                   .row_bytes = shape[2] * (int64_t)sizeof(float),
                   .pitch = shape[2] * (int64_t)sizeof(float),
                   .chunk_rows = chunk,
                   .name = "a",
                   .how = (int32_t)how};
    Work w = {.site = &chunk_site,
              .rows = shape[1],
              .columns = shape[2],
              .chunk_rows = chunk,
              .chunks = (shape[1] + chunk - 1) / chunk,
              .view = g.data,
              .lead = g.lead,
              .out = args[1].tensor.data};
    int32_t failed = env->comm->begin(env, how == HOW_ALL ? TG_BEGIN_WAITS : 0);
    if (!failed && how != HOW_ALL) failed = env->comm->gather(env, &g);
    if (how != HOW_ALL) w.view = g.view, w.lead = g.slot, w.flags = g.flags;
    int64_t tasks = w.chunks * env->comm->size;
    if (!failed) failed = env->parallel_for(env, tasks, 64, gathered_task, &w);
    return failed ? failed : env->comm->end(env);
}

/* ---- reduced --------------------------------------------------------------------------------- */

/// Makes partial results, first for the other ranks' parts.
static int32_t partial_task(const tg_env *env, void *context, int64_t i, void *arena) {
    const Work *w = context;
    const tg_comm_calls *comm = env->comm;
    int64_t rank = (comm->rank + 1 + i / w->chunks) % comm->size, chunk = i % w->chunks;
    int64_t at = (rank * w->rows + chunk * w->chunk_rows) * w->columns;
    (void)arena;
    for (int64_t k = 0; k < rows_of(w, chunk) * w->columns; k++) w->local[at + k] = w->x[at + k];
    if (!w->done) return 0;
    return comm->signal(env, &w->done[rank * w->chunks + chunk], TG_SIGNAL_SET,
                        *(int64_t *)comm->control(env));
}

static int32_t fold_task(const tg_env *env, void *context, int64_t chunk, void *arena) {
    const Work *w = context;
    const tg_comm_calls *comm = env->comm;
    int64_t at = chunk * w->chunk_rows * w->columns, n = rows_of(w, chunk) * w->columns;
    (void)arena;
    for (int64_t r = 0; r < comm->size; r++) {
        int64_t number = r * w->chunks + chunk, epoch = *(int64_t *)comm->control(env);
        int32_t failed = 0;
        if (r != comm->rank)
            failed = comm->wait(env, w->site, &w->flags[number], TG_CMP_EQ, epoch, r, chunk);
        if (failed) return failed;
        const float *part = r == comm->rank ? w->local + r * w->rows * w->columns
                                            : (const float *)(const void *)(w->view + r * w->lead);
        for (int64_t k = at; k < at + n; k++) w->out[k] = part[k] + (r ? w->out[k] : 0);
    }
    return 0;
}

/// This rank's part of a direct view.
static void *own_of(const tg_env *env, void *direct, int64_t lead) {
    return (char *)direct + env->comm->rank * lead;
}

static int32_t reduced_entry(const tg_slot *args, const tg_env *env) {
    const tg_comm_calls *comm = env->comm;
    const int64_t *shape = args[1].tensor.shape;
    int64_t how = (int64_t)args[2].bits, chunk = (int64_t)args[3].bits, stage_lead, flags_lead;
    int64_t chunks = (shape[1] + chunk - 1) / chunk, words = chunks * comm->size;
    int64_t part = shape[1] * shape[2] * (int64_t)sizeof(float), unused;
    // The stage is free: the previous launch ended when all ranks had read theirs.
    int32_t failed = comm->begin(env, 0);
    if (failed) return failed;
    char *stage = comm->workspace(env, part * comm->size, &stage_lead);
    char *flags = comm->signals(env, 0, words, &flags_lead);
    char *done = comm->signals(env, 1, words, &unused);
    float *local = env->workspace(env, part * comm->size);
    if (!stage || !flags || !done || !local) return 1;
    tg_scatter s = {.local = local,
                    .stage = stage,
                    .part = part,
                    .lead = stage_lead,
                    .rows = shape[1],
                    .row_bytes = shape[2] * (int64_t)sizeof(float),
                    .pitch = shape[2] * (int64_t)sizeof(float),
                    .chunk_rows = chunk,
                    .done = own_of(env, done, unused),
                    .flags = (int64_t *)(void *)flags,
                    .flags_lead = flags_lead,
                    .name = "c",
                    .how = (int32_t)how};
    Work w = {.site = &chunk_site,
              .rows = shape[1],
              .columns = shape[2],
              .chunk_rows = chunk,
              .chunks = chunks,
              .view = own_of(env, stage, stage_lead),
              .lead = part,
              .flags = own_of(env, flags, flags_lead),
              .x = args[0].tensor.data,
              .local = local,
              .done = how == TG_GATHER_PUSH ? s.done : NULL,
              .out = own_of(env, args[1].tensor.data,
                            args[1].tensor.strides[0] * (int64_t)sizeof(float))};
    if (how == TG_GATHER_PUSH) failed = comm->scatter(env, &s);
    if (!failed) failed = env->parallel_for(env, words, 64, partial_task, &w);
    if (!failed && how != TG_GATHER_PUSH) failed = comm->scatter(env, &s);
    if (!failed) failed = env->parallel_for(env, chunks, 64, fold_task, &w);
    return failed ? failed : comm->end(env);
}

/* ---- folded ---------------------------------------------------------------------------------- */

typedef struct Turn {
    const tg_env *env;
    const float *x;
    float *c;
    char *stage, *flags; // rank 0's; the next rank's is `lead` bytes away
    int64_t turn, part, words, stage_lead, flags_lead;
} Turn;

/// Sends the own part of chunk `chunk` for every rank into their stages, the other ranks' first.
static int32_t send_parts(const Turn *t, int64_t chunk, int64_t at, int64_t n) {
    const tg_comm_calls *comm = t->env->comm;
    int64_t epoch = *(int64_t *)comm->control(t->env);
    int32_t failed = 0;
    for (int64_t i = 1; i <= comm->size && !failed; i++) {
        int64_t r = (comm->rank + i) % comm->size, first = r * t->part + at;
        float values[64];
        for (int64_t k = 0; k < n; k++) values[k] = t->x[first + k] + (float)t->turn;
        int64_t place = (comm->rank * t->part + at) * (int64_t)sizeof(float);
        int64_t word = (comm->rank * t->words + chunk) * (int64_t)sizeof(int64_t);
        failed = comm->put(t->env, t->stage + r * t->stage_lead + place, values,
                           n * (int64_t)sizeof(float));
        void *flag = t->flags + r * t->flags_lead + word;
        if (!failed) failed = comm->signal(t->env, flag, TG_SIGNAL_SET, epoch);
    }
    return failed;
}

static int32_t fold_parts(const Turn *t, int64_t chunk, int64_t at, int64_t n) {
    const tg_comm_calls *comm = t->env->comm;
    int64_t epoch = *(int64_t *)comm->control(t->env);
    const float *stage = own_of(t->env, t->stage, t->stage_lead);
    const int64_t *flags = own_of(t->env, t->flags, t->flags_lead);
    int32_t failed = 0;
    for (int64_t r = 0; r < comm->size && !failed; r++) {
        failed = comm->wait(t->env, &chunk_site, &flags[r * t->words + chunk], TG_CMP_GE, epoch, r,
                            chunk);
        for (int64_t k = at; k < at + n && !failed; k++)
            t->c[k] = (r || t->turn ? t->c[k] : 0) + stage[r * t->part + k];
    }
    return failed;
}

static int32_t folded_entry(const tg_slot *args, const tg_env *env) {
    const tg_comm_calls *comm = env->comm;
    const int64_t *shape = args[1].tensor.shape;
    int64_t turns = (int64_t)args[2].bits, each = (int64_t)args[3].bits * shape[2];
    int64_t part = shape[1] * shape[2], words = (part + each - 1) / each;
    float *c = own_of(env, args[1].tensor.data, args[1].tensor.strides[0] * (int64_t)sizeof(float));
    Turn t = {.env = env, .x = args[0].tensor.data, .c = c, .part = part, .words = words};
    int32_t failed = comm->begin(env, 0);
    if (!failed)
        t.stage = comm->workspace(env, part * comm->size * (int64_t)sizeof(float), &t.stage_lead);
    for (; t.turn < turns && !failed; t.turn++) {
        if (t.turn) failed = comm->barrier(env);
        t.flags = comm->signals(env, 0, words * comm->size, &t.flags_lead);
        if (!failed && (!t.stage || !t.flags)) return 1;
        for (int64_t at = 0; at < part && !failed; at += each)
            failed = send_parts(&t, at / each, at, part - at < each ? part - at : each);
        for (int64_t at = 0; at < part && !failed; at += each)
            failed = fold_parts(&t, at / each, at, part - at < each ? part - at : each);
    }
    return failed ? failed : comm->end(env);
}

/* ---- turned, picky --------------------------------------------------------------------------- */

static const tg_site turned_site = {
    .kind = TG_SITE_ASSERT, .text = "found {} instead of {}", .types = "dd", .n_values = 2};

static int32_t turned_entry(const tg_slot *args, const tg_env *env) {
    const tg_comm_calls *comm = env->comm;
    int64_t lead = args[0].tensor.strides[0] * (int64_t)sizeof(float);
    int64_t n = args[0].tensor.shape[1], steps = (int64_t)args[1].bits;
    float *next =
        (float *)(void *)((char *)args[0].tensor.data + (comm->rank + 1) % comm->size * lead);
    const float *own = own_of(env, args[0].tensor.data, lead);
    int before = (comm->rank + comm->size - 1) % comm->size;
    int32_t failed = comm->begin(env, TG_BEGIN_WAITS);
    for (int64_t s = 0; s < steps && !failed; s++) {
        for (int64_t i = 0; i < n; i++) next[i] = (float)(comm->rank + s);
        failed = comm->barrier(env);
        for (int64_t i = 0; i < n && !failed; i++)
            if (own[i] != (float)(before + s))
                failed = env->fail(env, &turned_site,
                                   (uint64_t[]){(uint64_t)own[i], (uint64_t)(before + s)});
        if (!failed) failed = comm->barrier(env);
    }
    return failed ? failed : comm->end(env);
}

static const tg_site picky_site = {.kind = TG_SITE_REQUIRE,
                                   .line = 3,
                                   .column = 5,
                                   .file = "picky.teg",
                                   .text = "rank {} does not like it",
                                   .types = "d",
                                   .n_values = 1};

static int32_t picky_entry(const tg_slot *args, const tg_env *env) {
    const tg_comm_calls *comm = env->comm;
    uint64_t rank = (uint64_t)comm->rank;
    if (args[1].bits == rank) return env->fail(env, &picky_site, &rank);
    int32_t failed = comm->begin(env, 0);
    if (!failed) failed = comm->barrier(env);
    return failed ? failed : comm->end(env);
}

/* ---- as the runtime sees them ---------------------------------------------------------------- */

#define TENSOR(name, flags, rank)                                                                  \
    { name, TG_PARAM_TENSOR, flags, kDLFloat, 32, -1, rank, -1, 0 }
#define NUMBER(name)                                                                               \
    { name, TG_PARAM_SCALAR, 0, kDLInt, 64, -1, 0, -1, 0 }
#define KERNEL(name, text, n, ...)                                                                 \
    static const tg_param_info name##_params[] = {__VA_ARGS__};                                    \
    static const tg_variant name##_variant = {                                                     \
        .entry = name##_entry, .params = in_order, .n_params = (n), .config = "plan=0"};           \
    static const tg_kernel_info name##_info = {                                                    \
        #name, text, name##_params, &name##_variant, (n), 0, 1, 0};                                \
    tg_kernel name = {.abi = TG_ABI, .info = &name##_info}

static const uint8_t in_order[] = {0, 1, 2, 3};
KERNEL(gathered, "kernel gathered(a: sym f32[W][M, K], out: f32[W * M, K], how: i64, chunk: i64)",
       4, TENSOR("a", TG_PARAM_SYM, 3), TENSOR("out", TG_PARAM_WRITTEN, 2), NUMBER("how"),
       NUMBER("chunk"));
KERNEL(reduced, "kernel reduced(x: f32[W * M, K], c: sym f32[W][M, K], how: i64, chunk: i64)", 4,
       TENSOR("x", 0, 2), TENSOR("c", TG_PARAM_SYM | TG_PARAM_WRITTEN, 3), NUMBER("how"),
       NUMBER("chunk"));
KERNEL(folded, "kernel folded(x: f32[W * M, K], c: sym f32[W][M, K], turns: i64, chunk: i64)", 4,
       TENSOR("x", 0, 2), TENSOR("c", TG_PARAM_SYM | TG_PARAM_WRITTEN, 3), NUMBER("turns"),
       NUMBER("chunk"));
KERNEL(turned, "kernel turned(a: sym f32[W][N], steps: i64)", 2,
       TENSOR("a", TG_PARAM_SYM | TG_PARAM_WRITTEN, 2), NUMBER("steps"));
KERNEL(picky, "kernel picky(a: sym f32[W][N], rank: i64)", 2, TENSOR("a", TG_PARAM_SYM, 2),
       NUMBER("rank"));
