// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Ranks as threads and as processes: meetings, symmetric memory, launches, failures.
#include "tests/runtime/ranks.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/compiler.h"

#include <cmocka.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

static const char *const engines[] = {"threads", "processes"};

static void on_all(int timeout_ms, rank_body *body, void *arg) {
    for (int e = 0; e < 2; e++)
        for (int n = 1; n <= 4; n++) assert_true(on_ranks(engines[e], n, timeout_ms, body, arg));
}

static const DLDataType f32 = {kDLFloat, 32, 1}, f16 = {kDLFloat, 16, 1};

static bool says(const char *text) {
    if (strstr(tg_last_error(), text)) return true;
    fprintf(stderr, "'%s' does not say '%s'\n", tg_last_error(), text);
    return false;
}

/* ---- memory ---------------------------------------------------------------------------------- */

static bool allocates(tg_comm *c, void *arg) {
    int64_t shape[2] = {3, 5};
    DLTensor a, b, d;
    (void)arg;
    CHECK(tg_sym_alloc(c, f32, 2, shape, 0, &a) == TG_OK);
    CHECK(tg_sym_alloc(c, f16, 1, shape, TG_SYM_LEAN, &b) == TG_OK);
    CHECK(a.ndim == 2 && a.shape[0] == 3 && a.shape[1] == 5 && a.dtype.bits == 32);
    for (int i = 0; i < 15; i++) {
        CHECK(((float *)a.data)[i] == 0);
        ((float *)a.data)[i] = 1;
    }
    CHECK(tg_sym_free(c, &a) == TG_OK);
    // Memory that was used before is zero again.
    CHECK(tg_sym_alloc(c, f32, 2, shape, 0, &d) == TG_OK);
    for (int i = 0; i < 15; i++) CHECK(((float *)d.data)[i] == 0);
    CHECK(tg_sym_free(c, &b) == TG_OK && tg_sym_free(c, &d) == TG_OK);
    CHECK(tg_sym_free(c, &d) == TG_ERROR_ARGUMENT);
    CHECK(tg_sym_alloc(c, f32, 2, shape, 0, &d) == TG_OK);
    DLTensor part = d;
    part.data = (float *)d.data + 1;
    CHECK(tg_sym_free(c, &part) == TG_ERROR_ARGUMENT && says("a view"));
    CHECK(tg_sym_free(c, &d) == TG_OK);
    shape[0] = 1 << 20;
    char want[80];
    snprintf(want, sizeof want,
             "tg_sym_alloc: rank %d: %d bytes of symmetric memory: ", tg_comm_rank(c),
             (4 * 5 << 20) * tg_comm_ranks(c));
    CHECK(tg_sym_alloc(c, f32, 2, shape, 0, &a) == TG_ERROR_MEMORY && says("TG_COMM_HEAP"));
    CHECK(says(want));
    CHECK(tg_comm_barrier(c) == TG_OK);
    return true;
}

/// Shards that end where another tensor's shard begins.
static bool neighbours(tg_comm *c, void *arg) {
    int64_t n = 64;
    int flags = *(int *)arg;
    DLTensor a[3];
    for (int i = 0; i < 3; i++) CHECK(tg_sym_alloc(c, f32, 1, &n, flags, &a[i]) == TG_OK);
    for (int i = 0; i < 3; i++) {
        tg_arg args[2] = {tg_tensor(&a[i]), tg_int(1)};
        CHECK(tg_launch(&turned, args, 2) == TG_OK);
    }
    for (int i = 2; i >= 0; i--) CHECK(tg_sym_free(c, &a[i]) == TG_OK);
    return true;
}

static bool differs(tg_comm *c, void *arg) {
    int64_t shape[1] = {4 + (tg_comm_rank(c) == 1)};
    DLTensor a;
    (void)arg;
    if (tg_comm_ranks(c) < 2) return true;
    CHECK(tg_sym_alloc(c, f32, 1, shape, 0, &a) == TG_ERROR_CONTRACT);
    CHECK(says("rank 0 asks for f32[4], rank 1 for f32[5]"));
    shape[0] = 4;
    CHECK(tg_sym_alloc(c, tg_comm_rank(c) ? f32 : f16, 1, shape, 0, &a) == TG_ERROR_CONTRACT);
    CHECK(says("rank 0 asks for f16[4], rank 1 for f32[4]"));
    CHECK(tg_sym_alloc(c, f32, 1, shape, 0, &a) == TG_OK);
    return true;
}

static void memory(void **state) {
    (void)state;
    on_all(0, allocates, NULL);
    for (int flags = 0; flags <= TG_SYM_LEAN; flags += TG_SYM_LEAN) on_all(0, neighbours, &flags);
    on_all(0, differs, NULL);
}

/* ---- launches -------------------------------------------------------------------------------- */

enum { K = 5 };
static const int64_t rows_of[] = {1, 7, 8};

/// Rank r's value at index i in a round.
static float value(int rank, int64_t i, int round) {
    return (float)(rank * 1000 + round * 10) + (float)(i % 97);
}

typedef struct Round {
    int64_t rows, how, chunk;
    int rounds, lean, straggler;
} Round;

static void straggle(const Round *r, int rank, int round) {
    if (r->straggler && round % 2 + 1 == rank)
        nanosleep(&(struct timespec){.tv_nsec = 3000000}, NULL);
}

static bool gathers(tg_comm *c, void *arg) {
    const Round *round = arg;
    int w = tg_comm_ranks(c), me = tg_comm_rank(c);
    int64_t shape[2] = {round->rows, K}, all[2] = {round->rows * w, K}, n = shape[0] * K, full = 64;
    float *out = malloc(sizeof *out * (size_t)(n * w));
    DLTensor a, o = tg_dense(out, kDLFloat, 32, 2, all), before;
    // A tensor that fills its room to the last byte lies right before this one.
    CHECK(tg_sym_alloc(c, f32, 1, &full, TG_SYM_LEAN, &before) == TG_OK);
    CHECK(tg_sym_alloc(c, f32, 2, shape, round->lean ? TG_SYM_LEAN : 0, &a) == TG_OK);
    tg_arg args[4] = {tg_tensor(&a), tg_tensor(&o), tg_int(round->how), tg_int(round->chunk)};
    for (int t = 0; t < round->rounds; t++) {
        for (int64_t i = 0; i < n; i++) ((float *)a.data)[i] = value(me, i, t);
        for (int64_t i = 0; i < n * w; i++) out[i] = -1;
        straggle(round, me, t);
        CHECK(tg_launch(&gathered, args, 4) == TG_OK);
        for (int64_t i = 0; i < n; i++) ((float *)a.data)[i] = -2; // poison
        for (int64_t i = 0; i < n * w; i++) CHECK(out[i] == 2 * value((int)(i / n), i % n, t));
    }
    free(out);
    return tg_sym_free(c, &a) == TG_OK && tg_sym_free(c, &before) == TG_OK;
}

static bool reduces(tg_comm *c, void *arg) {
    const Round *round = arg;
    int w = tg_comm_ranks(c), me = tg_comm_rank(c);
    int64_t shape[2] = {round->rows, K}, all[2] = {round->rows * w, K}, n = shape[0] * K;
    float *x = malloc(sizeof *x * (size_t)(n * w));
    DLTensor sum, given = tg_dense(x, kDLFloat, 32, 2, all);
    CHECK(tg_sym_alloc(c, f32, 2, shape, round->lean ? TG_SYM_LEAN : 0, &sum) == TG_OK);
    tg_arg args[4] = {tg_tensor(&given), tg_tensor(&sum), tg_int(round->how), tg_int(round->chunk)};
    for (int t = 0; t < round->rounds; t++) {
        for (int64_t i = 0; i < n * w; i++) x[i] = value(me, i, t) / 3;
        for (int64_t i = 0; i < n; i++) ((float *)sum.data)[i] = -1;
        straggle(round, me, t);
        CHECK(tg_launch(&reduced, args, 4) == TG_OK);
        for (int64_t i = 0; i < n; i++) {
            float want = 0;
            for (int r = 0; r < w; r++) want = value(r, me * n + i, t) / 3 + want;
            CHECK(((float *)sum.data)[i] == want);
        }
    }
    free(x);
    return tg_sym_free(c, &sum) == TG_OK;
}

/// Every plan, with whole and partial chunks, with and without room for gathered shards.
static void plans(void **state) {
    (void)state;
    for (int how = TG_GATHER_BEFORE; how <= HOW_ALL; how++)
        for (int rows = 0; rows < 3; rows++)
            for (int lean = 0; lean < 2; lean++) {
                Round r = {rows_of[rows], how, 1 + rows * 2, 3, lean, 0};
                on_all(0, gathers, &r);
                if (how == TG_GATHER_BEFORE || how == TG_GATHER_PUSH) on_all(0, reduces, &r);
            }
}

/// A late rank changes no result, nor do many launches with other contents.
static void stress(void **state) {
    (void)state;
    for (int how = TG_GATHER_BEFORE; how <= HOW_ALL; how++) {
        Round late = {8, how, 3, 6, 0, 1}, many = {7, how, 2, 1000, 0, 0};
        assert_true(on_ranks("threads", 4, 0, gathers, &late));
        assert_true(on_ranks("processes", 2, 0, gathers, &many));
        if (how != TG_GATHER_BEFORE && how != TG_GATHER_PUSH) continue;
        assert_true(on_ranks("processes", 4, 0, reduces, &late));
        assert_true(on_ranks("threads", 2, 0, reduces, &many));
    }
}

static bool turns(tg_comm *c, void *arg) {
    int64_t n = 9;
    DLTensor a;
    (void)arg;
    CHECK(tg_sym_alloc(c, f32, 1, &n, TG_SYM_LEAN, &a) == TG_OK);
    tg_arg args[2] = {tg_tensor(&a), tg_int(50)};
    for (int i = 0; i < 3; i++) CHECK(tg_launch(&turned, args, 2) == TG_OK);
    return true;
}

static void barriers(void **state) {
    (void)state;
    on_all(0, turns, NULL);
}

/// Whether the launch was refused on all ranks. One rank may hear it from another that noticed it
/// first.
static bool refused(tg_status status, const char *text) {
    return (status == TG_ERROR_ARGUMENT || status == TG_ERROR_RANK) && says(text);
}

/// Views into a shard. A repeated launch takes the short path, and must notice a new address.
static bool views(tg_comm *c, void *arg) {
    int64_t shape[2] = {8, K}, part[2] = {2, K}, all[2];
    int w = tg_comm_ranks(c), me = tg_comm_rank(c);
    float out[2 * K * 16];
    DLTensor a, o = tg_dense(out, kDLFloat, 32, 2, all), view;
    (void)arg;
    all[0] = 2 * w, all[1] = K;
    CHECK(tg_sym_alloc(c, f32, 2, shape, 0, &a) == TG_OK);
    for (int i = 0; i < 8 * K; i++) ((float *)a.data)[i] = value(me, i, 0);
    view = a;
    view.shape = part;
    tg_arg args[4] = {tg_tensor(&view), tg_tensor(&o), tg_int(TG_GATHER_PULL), tg_int(1)};
    for (int at = 0; at < 8; at += 2) {
        view.byte_offset = (uint64_t)(at * K) * sizeof(float);
        CHECK(tg_launch(&gathered, args, 4) == TG_OK);
        for (int i = 0; i < 2 * K * w; i++)
            CHECK(out[i] == 2 * value(i / (2 * K), i % (2 * K) + at * K, 0));
    }
    view.byte_offset = 7 * K * sizeof(float); // its second row is not in the shard
    CHECK(refused(tg_launch(&gathered, args, 4), "leaves its symmetric"));
    return true;
}

/// A context without ranks, memory that is not symmetric, one dimension too many.
static bool refuses(tg_comm *c, void *arg) {
    int64_t shape[2] = {2, K};
    float x[2 * K * 16] = {0};
    DLTensor a, o = tg_dense(x, kDLFloat, 32, 2, shape), deep;
    (void)arg;
    CHECK(tg_sym_alloc(c, f32, 2, shape, 0, &a) == TG_OK);
    tg_arg args[4] = {tg_tensor(&o), tg_tensor(&a), tg_int(0), tg_int(1)};
    CHECK(refused(tg_launch(&gathered, args, 4), "tg_sym_alloc"));
    CHECK(tg_kernel_decision(&gathered, args, 4, NULL, 0) == TG_ERROR_UNSUPPORTED);
    CHECK(says("gathered: its ranks choose together"));
    deep = a;
    deep.ndim = 3;
    deep.shape = (int64_t[]){1, 2, K};
    args[0] = tg_tensor(&deep);
    CHECK(refused(tg_launch(&gathered, args, 4), "must have 2"));
    tg_context *mine = tg_context_use(NULL);
    args[0] = tg_tensor(&a);
    args[1] = tg_tensor(&o);
    CHECK(tg_launch(&gathered, args, 4) == TG_ERROR_CONTRACT && says("tg_context_set_comm"));
    tg_context_use(mine);
    return true;
}

static void arguments(void **state) {
    (void)state;
    on_all(0, views, NULL);
    on_all(0, refuses, NULL);
}

/* ---- agreement ------------------------------------------------------------------------------- */

/// voted(a: sym f32[W][N]) has two variants, which record in the own shard which of them ran.
static int32_t vote(const tg_slot *args, const tg_env *env, int variant) {
    int64_t lead = args[0].tensor.strides[0] * env->comm->rank;
    ((float *)args[0].tensor.data)[lead] = (float)variant;
    int32_t failed = env->comm->begin(env, TG_BEGIN_WAITS);
    return failed ? failed : env->comm->end(env);
}

static int32_t vote_0(const tg_slot *args, const tg_env *env) {
    return vote(args, env, 0);
}
static int32_t vote_1(const tg_slot *args, const tg_env *env) {
    return vote(args, env, 1);
}

static const tg_param_info vote_params[] = {
    {"a", TG_PARAM_TENSOR, TG_PARAM_SYM | TG_PARAM_WRITTEN, kDLFloat, 32, -1, 2, -1, 0}};
static const uint8_t vote_order[] = {0};
#define VOTE(number, is_tuned)                                                                     \
    {                                                                                              \
        .entry = vote_##number, .params = vote_order, .n_params = 1, .config = "way=" #number,     \
        .tuned = (is_tuned)                                                                        \
    }
static const tg_variant votes[] = {VOTE(0, 0), VOTE(1, 0)}, tuned[] = {VOTE(0, 1), VOTE(1, 1)};
static const tg_kernel_info vote_info = {
    "voted", "kernel voted(a: sym f32[W][N])", vote_params, votes, 1, 0, 2, 0};

/// The ranks have found different variants fastest. All run rank 0's, also when another rank later
/// finds another one.
static bool agrees(tg_comm *c, void *arg) {
    int first = *(int *)arg, rank = tg_comm_rank(c);
    int64_t n = 4;
    DLTensor a;
    tg_kernel voted;
    CHECK(tg_sym_alloc(c, f32, 1, &n, 0, &a) == TG_OK);
    tg_arg args[1] = {tg_tensor(&a)};
    CHECK(tg_kernel_open(&voted, &vote_info, NULL, NULL) == TG_OK);
    CHECK(tg_kernel_adopt(&voted, &tuned[rank ? !first : first]) == TG_OK);
    for (int i = 0; i < 4; i++) {
        ((float *)a.data)[0] = -1;
        CHECK(tg_launch(&voted, args, 1) == TG_OK);
        CHECK(((float *)a.data)[0] == (float)first);
        if (i == 1 && rank == 1) CHECK(tg_kernel_adopt(&voted, &tuned[!first]) == TG_OK);
    }
    tg_kernel_close(&voted);
    return tg_sym_free(c, &a) == TG_OK;
}

static void agreement(void **state) {
    (void)state;
    for (int first = 0; first < 2; first++) on_all(0, agrees, &first);
}

/// steered(a: sym f32[W][N], n: i64, m: i64): the numbers decide which phases run, of which there
/// are none. Asks for as many words of signals as m says.
static int32_t steered_entry(const tg_slot *args, const tg_env *env) {
    int64_t lead;
    int32_t failed = env->comm->begin(env, TG_BEGIN_WAITS);
    if (!failed && !env->comm->signals(env, 0, (int64_t)args[2].bits, &lead))
        return (env->fail)(env, NULL, NULL);
    return failed ? failed : env->comm->end(env);
}

/// The second number, which is not in the ranks' lines, differs. Then all are alike, and the room
/// of an earlier launch's signals differs.
static bool is_unlike(tg_comm *c, void *arg) {
    static const uint8_t order[] = {0, 1, 2};
    static const tg_variant variants[] = {
        {.entry = steered_entry, .params = order, .n_params = 3, .config = ""}};
    static const int steers[] = {TG_PARAM_STEERS, 0};
    tg_param_info params[] = {
        {"a", TG_PARAM_TENSOR, TG_PARAM_SYM | TG_PARAM_WRITTEN, kDLFloat, 32, -1, 2, -1, 0},
        {"n", TG_PARAM_SCALAR, TG_PARAM_STEERS, kDLInt, 64, -1, 0, -1, 0},
        {"m", TG_PARAM_SCALAR, 0, kDLInt, 64, -1, 0, -1, 0}};
    const tg_kernel_info info = {
        "steered", "kernel steered(a: sym f32[W][N], n: i64, m: i64)", params, variants, 3, 0, 1,
        0};
    const char *text = arg;
    bool numbers = strstr(text, "scalars") != NULL;
    int64_t n = 4;
    DLTensor a;
    tg_kernel kernel;
    params[2].flags = (uint8_t)steers[!numbers];
    CHECK(tg_sym_alloc(c, f32, 1, &n, 0, &a) == TG_OK);
    tg_arg args[3] = {tg_tensor(&a), tg_int(5), tg_int(100 + 100 * tg_comm_rank(c))};
    CHECK(tg_kernel_open(&kernel, &info, NULL, NULL) == TG_OK);
    tg_status status = numbers ? TG_OK : tg_launch(&kernel, args, 3);
    CHECK(status == TG_OK);
    CHECK(tg_launch(&kernel, args, 3) != TG_OK && says(text));
    tg_kernel_close(&kernel);
    return true;
}

static void unlike(void **state) {
    (void)state;
    static const char *const texts[] = {
        " pass other scalars, which decide what runs: all ranks pass the "
        "same",
        " have allocated or freed different symmetric tensors, or their launches "
        "before had arguments of different shapes"};
    for (int i = 0; i < 2; i++)
        assert_true(on_ranks("threads", 2, 0, is_unlike, (void *)(uintptr_t)texts[i]));
}

/// Rank 0 has a kernel of the first source, the others of the second. 0, unknown, matches any.
static bool has_a_source(tg_comm *c, void *arg) {
    const int *sources = arg;
    int64_t n = 4;
    DLTensor a;
    tg_kernel kernel;
    tg_kernel_info info = vote_info;
    info.source = sources[tg_comm_rank(c) > 0];
    CHECK(tg_sym_alloc(c, f32, 1, &n, 0, &a) == TG_OK);
    tg_arg args[1] = {tg_tensor(&a)};
    CHECK(tg_kernel_open(&kernel, &info, NULL, NULL) == TG_OK);
    tg_status status = tg_launch(&kernel, args, 1);
    bool known = sources[0] && sources[1];
    bool unlike = tg_comm_ranks(c) > 1 && known && sources[0] != sources[1];
    CHECK((status != TG_OK) == unlike && (!unlike || says("from different sources")));
    tg_kernel_close(&kernel);
    return tg_sym_free(c, &a) == TG_OK;
}

static void sources(void **state) {
    (void)state;
    static int of_ranks[][2] = {{0, 5}, {5, 0}, {5, 5}, {5, 6}};
    for (size_t i = 0; i < sizeof of_ranks / sizeof *of_ranks; i++)
        on_all(0, has_a_source, of_ranks[i]);
}

/* ---- one launch at a time -------------------------------------------------------------------- */

/// Two threads of rank 0 launch on one communicator.
typedef struct Two {
    _Atomic int refused; // refusals of rank 0's launches
} Two;

typedef struct Second {
    tg_comm *comm;
    DLTensor *a;
    Two *two;
    bool passed;
} Second;

/// One of the two launches and waits for rank 1, until the other one has been refused.
static bool launch_or_be_refused(DLTensor *a, Two *two) {
    tg_arg args[2] = {tg_tensor(a), tg_int(2)};
    tg_status status = tg_launch(&turned, args, 2);
    if (status == TG_OK) return true;
    CHECK(status == TG_ERROR_CONTRACT && says("turned: rank 0 is in another collective call"));
    two->refused++;
    return true;
}

static void *second_thread(void *arg) {
    Second *s = arg;
    tg_context *context;
    s->passed = tg_context_create(NULL, &context) == TG_OK &&
                tg_context_set_comm(context, s->comm) == TG_OK;
    tg_context_use(context);
    s->passed = s->passed && launch_or_be_refused(s->a, s->two);
    tg_context_use(NULL);
    tg_context_destroy(context);
    return NULL;
}

static bool launches_twice(tg_comm *c, void *arg) {
    Two *two = arg;
    int64_t n = 4;
    DLTensor a;
    pthread_t id;
    CHECK(tg_sym_alloc(c, f32, 1, &n, 0, &a) == TG_OK);
    if (tg_comm_rank(c)) {
        while (!two->refused) nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
        return launch_or_be_refused(&a, two);
    }
    Second second = {c, &a, two, false};
    CHECK(pthread_create(&id, NULL, second_thread, &second) == 0);
    bool passed = launch_or_be_refused(&a, two);
    pthread_join(id, NULL);
    CHECK(two->refused == 1);
    return passed && second.passed;
}

static void one_at_a_time(void **state) {
    (void)state;
    Two two = {0};
    assert_true(on_ranks("threads", 2, 0, launches_twice, &two));
}

/* ---- failures -------------------------------------------------------------------------------- */

static bool one_fails(tg_comm *c, void *arg) {
    int64_t n = 4;
    int w = tg_comm_ranks(c), me = tg_comm_rank(c);
    DLTensor a;
    (void)arg;
    CHECK(tg_sym_alloc(c, f32, 1, &n, 0, &a) == TG_OK);
    for (int i = 0; i < 20; i++) {
        tg_arg args[2] = {tg_tensor(&a), tg_int(w - 1)}, good[2] = {tg_tensor(&a), tg_int(2)};
        tg_status status = tg_launch(&picky, args, 2);
        CHECK(status == (me == w - 1 ? TG_ERROR_CONTRACT : TG_ERROR_RANK));
        char text[96];
        snprintf(text, sizeof text, "picky.teg:3:5: rank %d does not like it", w - 1);
        CHECK(says(text));
        // The ranks continue with the next launch.
        CHECK(tg_launch(&turned, good, 2) == TG_OK);
    }
    return true;
}

/// All ranks are told of both kernels.
static bool two_kernels(tg_comm *c, void *arg) {
    int64_t n = 4;
    DLTensor a;
    (void)arg;
    if (tg_comm_ranks(c) == 1) return true;
    CHECK(tg_sym_alloc(c, f32, 1, &n, 0, &a) == TG_OK);
    tg_arg args[2] = {tg_tensor(&a), tg_int(9)};
    for (int i = 0; i < 3; i++) {
        tg_status status = tg_launch(tg_comm_rank(c) ? &turned : &picky, args, 2);
        CHECK(status == TG_ERROR_CONTRACT || status == TG_ERROR_RANK);
        CHECK(says("rank 0 launches 'picky' and rank ") && says("'turned'"));
    }
    CHECK(tg_launch(&turned, args, 2) == TG_OK);
    return true;
}

/* ---- other shards --------------------------------------------------------------------------- */

/// Rank 1's argument `a`, which differs from the other ranks', and the message that all get.
typedef struct Unlike {
    int64_t rows, stride, at; // a view of [rows, K], in elements
    bool other;               // a view of another tensor
    const char *text;
} Unlike;

static const Unlike unlikes[] = {
    {2, K, 0, false, "rank 0 passes f32[4, 5] as 'a' and rank 1 f32[2, 5]"},
    {4, K, K, false, "another part of it"},
    {4, K, 0, true, "rank 0 passes f32[4, 5] as 'a' and rank 1 another tensor"},
    {4, 2 * K, 0, false, "the same with other strides, [5, 1] and [10, 1]"},
};

typedef struct Passing {
    const Unlike *unlike;
    int how;
    bool warm; // after an equal launch
} Passing;

static bool passes_others(tg_comm *c, void *arg) {
    const Passing *p = arg;
    const Unlike *u = p->unlike;
    int64_t shape[2] = {8, K}, part[2] = {4, K}, strides[2] = {K, 1};
    int64_t all[2] = {(int64_t)4 * tg_comm_ranks(c), K};
    bool odd = tg_comm_rank(c) == 1;
    float out[4 * K * 16];
    DLTensor a[2], o = tg_dense(out, kDLFloat, 32, 2, all), view;
    for (int i = 0; i < 2; i++) CHECK(tg_sym_alloc(c, f32, 2, shape, 0, &a[i]) == TG_OK);
    tg_arg args[4] = {tg_tensor(&view), tg_tensor(&o), tg_int(p->how), tg_int(1)};
    view = a[0];
    view.shape = part;
    view.strides = strides;
    for (int i = 0; i < 2 && p->warm; i++) CHECK(tg_launch(&gathered, args, 4) == TG_OK);
    if (odd) {
        part[0] = u->rows, strides[0] = u->stride;
        all[0] = part[0] * tg_comm_ranks(c);
        view.byte_offset = (uint64_t)u->at * sizeof(float);
        if (u->other) view.data = a[1].data;
    }
    tg_status status = tg_launch(&gathered, args, 4);
    CHECK(status == TG_ERROR_CONTRACT || status == TG_ERROR_RANK);
    CHECK(says(u->text) && says("gathered: "));
    return true;
}

static void shards(void **state) {
    (void)state;
    for (int how = TG_GATHER_BEFORE; how <= HOW_ALL; how++)
        for (size_t i = 0; i < sizeof unlikes / sizeof *unlikes; i++)
            for (int warm = 0; warm < 2; warm++)
                for (int e = 0; e < 2; e++) {
                    Passing p = {&unlikes[i], how, warm};
                    assert_true(on_ranks(engines[e], 2, 0, passes_others, &p));
                }
}

/// A rank stays away until the others have given it up.
static bool one_is_away(tg_comm *c, void *arg) {
    _Atomic int *gave_up = arg;
    int64_t n = 4;
    DLTensor a;
    CHECK(tg_sym_alloc(c, f32, 1, &n, 0, &a) == TG_OK);
    tg_arg args[2] = {tg_tensor(&a), tg_int(2)};
    if (tg_comm_rank(c) == 1) {
        while (*gave_up < tg_comm_ranks(c) - 1)
            nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
        return true;
    }
    bool waited = tg_launch(&turned, args, 2) == TG_ERROR_RANK && says("waited 3 s for rank 1");
    // The rank that gave up first told the other.
    waited = waited && (strstr(tg_last_error(), "rank 0 waited 3 s for rank 1") ||
                        strstr(tg_last_error(), "rank 2 waited 3 s for rank 1"));
    ++*gave_up;
    CHECK(waited);
    return true;
}

/// Rank 1 is killed. No rank waits for the time limit, which the message would mention.
static bool one_dies(tg_comm *c, void *arg) {
    int64_t n = 4;
    DLTensor a;
    (void)arg;
    CHECK(tg_sym_alloc(c, f32, 1, &n, 0, &a) == TG_OK);
    tg_arg args[2] = {tg_tensor(&a), tg_int(2)};
    CHECK(tg_launch(&turned, args, 2) == TG_OK);
    if (tg_comm_rank(c) == 1) raise(SIGKILL);
    CHECK(tg_launch(&turned, args, 2) == TG_ERROR_RANK && says("process of rank 1 has ended"));
    CHECK(tg_launch(&turned, args, 2) == TG_ERROR_RANK && says("has ended"));
    ((bool *)arg)[tg_comm_rank(c)] = true;
    return true;
}

static void failures(void **state) {
    (void)state;
    on_all(0, one_fails, NULL);
    on_all(0, two_kernels, NULL);
    _Atomic int *gave_up =
        mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    for (int e = 0; e < 2; e++) {
        *gave_up = 0;
        assert_true(on_ranks(engines[e], 3, 3000, one_is_away, (void *)gave_up));
    }
    munmap((void *)gave_up, 4096);
}

static void death(void **state) {
    (void)state;
    bool *passed = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    for (int n = 2; n <= 4; n++) {
        memset(passed, 0, 4096);
        assert_false(on_ranks("processes", n, 0, one_dies, passed));
        for (int r = 0; r < n; r++) assert_int_equal(passed[r], r != 1);
    }
    munmap(passed, 4096);
}

/* ---- ranks that oshrun started --------------------------------------------------------------- */

/// Memory that is not mapped has no direct view.
static bool all_bodies(tg_comm *c, void *arg) {
    bool mapped = !getenv("TG_OPENSHMEM_PUTS");
    (void)arg;
    CHECK(differs(c, NULL));
    for (int how = TG_GATHER_BEFORE; how <= (mapped ? HOW_ALL : TG_GATHER_DIRECT); how++)
        for (int rows = 0; rows < 3; rows++) {
            Round r = {rows_of[rows], how, 1 + rows * 2, 40, rows == 1, rows == 2};
            CHECK(gathers(c, &r));
            if (how == TG_GATHER_BEFORE || how == TG_GATHER_PUSH) CHECK(reduces(c, &r));
        }
    for (int first = 0; first < 2; first++) CHECK(agrees(c, &first));
    return !mapped || (turns(c, NULL) && views(c, NULL) && one_fails(c, NULL));
}

int main(int argc, char **argv) {
    if (argc == 2) return on_this_rank(argv[1], all_bodies, NULL) ? 0 : 1;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(memory),        cmocka_unit_test(plans),     cmocka_unit_test(stress),
        cmocka_unit_test(barriers),      cmocka_unit_test(arguments), cmocka_unit_test(failures),
        cmocka_unit_test(shards),        cmocka_unit_test(death),     cmocka_unit_test(agreement),
        cmocka_unit_test(one_at_a_time), cmocka_unit_test(sources),   cmocka_unit_test(unlike),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
