// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Each communication call of CPU code by itself, and each reason for which one fails: all ranks get
// a status and the reason, and the next launch works.
#include "tests/runtime/ranks.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>
#undef fail // a member of tg_env

enum { N = 16, RANKS = 3, HUGE_ROOM = 1 << 30, PIECES = 64 };

/// called(a: sym i64[W][N], what: i64).
typedef enum What { COPIES, ADDS, STRANGE_GATHER, ROOM, WORDS, MANY_PIECES, NO_SIGNAL, WHATS } What;

static const tg_site wrong = {
    .kind = TG_SITE_ASSERT, .text = "place {} has {}", .types = "dd", .n_values = 2};

static int32_t expect_word(const tg_env *env, const int64_t *words, int64_t i, int64_t want) {
    if (words[i] == want) return 0;
    return env->fail(env, &wrong, (uint64_t[]){(uint64_t)i, (uint64_t)words[i]});
}

static int64_t word_of(int64_t rank, int64_t i) {
    return rank * 100 + i;
}

/// Reads the next rank's shard, and writes it into the second half of the own one.
static int32_t copy_words(const tg_env *env, char *a, int64_t lead) {
    const tg_comm_calls *comm = env->comm;
    int64_t half = N / 2, next = (comm->rank + 1) % comm->size, got[N / 2];
    int64_t *own = (int64_t *)(void *)(a + comm->rank * lead);
    int32_t failed = comm->get(env, got, a + next * lead, half * 8);
    for (int64_t i = 0; i < half && !failed; i++)
        failed = expect_word(env, got, i, word_of(next, i));
    if (!failed) failed = comm->put(env, own + half, got, half * 8);
    for (int quiet = 0; quiet < 2 && !failed; quiet++) failed = comm->fence(env, quiet);
    for (int64_t i = 0; i < half && !failed; i++)
        failed = expect_word(env, own, half + i, word_of(next, i));
    return failed;
}

/// Every rank adds its number + 1 to a word of every rank.
static int32_t add_words(const tg_env *env, char *a, int64_t lead) {
    const tg_comm_calls *comm = env->comm;
    int64_t *own = (int64_t *)(void *)(a + comm->rank * lead), sum = 0;
    int32_t failed = 0;
    for (int64_t r = 0; r < comm->size && !failed; r++) {
        failed =
            comm->signal(env, (int64_t *)(void *)(a + r * lead), TG_SIGNAL_ADD, comm->rank + 1);
        sum += r + 1;
    }
    if (!failed) failed = comm->barrier(env);
    return failed ? failed : expect_word(env, own, 0, word_of(comm->rank, 0) + sum);
}

static int32_t gather_strange(const tg_env *env) {
    static int64_t strange[N];
    tg_gather g = {.data = strange, .rows = 1, .row_bytes = 8, .pitch = 8, .chunk_rows = 1};
    g.name = "b";
    return env->comm->gather(env, &g);
}

static int32_t take_pieces(const tg_env *env, int n) {
    int64_t lead;
    for (int i = 0; i < n; i++)
        if (!env->comm->workspace(env, 8, &lead)) return env->fail(env, NULL, NULL);
    return 0;
}

/// Rank 0 waits for a word that no rank raises. Another rank fails meanwhile.
static int32_t wait_in_vain(const tg_env *env, char *a, int64_t lead) {
    const tg_comm_calls *comm = env->comm;
    static const tg_site gives_up = {
        .kind = TG_SITE_REQUIRE, .text = "rank {} gives up", .types = "d", .n_values = 1};
    const int64_t *own = (const int64_t *)(void *)(a + comm->rank * lead);
    if (comm->rank) return env->fail(env, &gives_up, (uint64_t[]){(uint64_t)comm->rank});
    return comm->wait(env, NULL, own, TG_CMP_EQ, -7, 1, 0);
}

static int32_t called_entry(const tg_slot *args, const tg_env *env) {
    const tg_comm_calls *comm = env->comm;
    char *a = args[0].tensor.data;
    int64_t lead = args[0].tensor.strides[0] * 8, unused;
    int32_t failed = comm->begin(env, TG_BEGIN_WAITS);
    if (failed) return failed;
    switch ((What)args[1].bits) {
    case COPIES: failed = copy_words(env, a, lead); break;
    case ADDS: failed = add_words(env, a, lead); break;
    case STRANGE_GATHER: failed = gather_strange(env); break;
    case MANY_PIECES: failed = take_pieces(env, PIECES + 1); break;
    case NO_SIGNAL: failed = wait_in_vain(env, a, lead); break;
    case ROOM:
        if (!comm->workspace(env, HUGE_ROOM, &unused)) failed = env->fail(env, NULL, NULL);
        break;
    case WORDS:
        if (!comm->signals(env, 0, HUGE_ROOM, &unused)) failed = env->fail(env, NULL, NULL);
        break;
    case WHATS: break;
    }
    return failed ? failed : comm->end(env);
}

static const uint8_t in_order[] = {0, 1};
static const tg_param_info params[] = {
    {"a", TG_PARAM_TENSOR, TG_PARAM_SYM | TG_PARAM_WRITTEN, kDLInt, 64, -1, 2, -1, 0},
    {"what", TG_PARAM_SCALAR, 0, kDLInt, 64, -1, 0, -1, 0},
};
static const tg_variant variant = {
    .entry = called_entry, .params = in_order, .n_params = 2, .config = ""};
static const tg_kernel_info called_info = {
    "called", "kernel called(a: sym i64[W][N], what: i64)", params, &variant, 2, 0, 1, 0};
static tg_kernel called = {.abi = TG_ABI, .info = &called_info};

static tg_status launch(tg_comm *c, DLTensor *a, What what) {
    for (int64_t i = 0; i < N; i++) ((int64_t *)a->data)[i] = word_of(tg_comm_rank(c), i);
    tg_status status = tg_comm_barrier(c);
    return status ? status : tg_launch(&called, (tg_arg[]){tg_tensor(a), tg_int(what)}, 2);
}

static bool says(const char *text) {
    if (strstr(tg_last_error(), text)) return true;
    fprintf(stderr, "'%s' does not say '%s'\n", tg_last_error(), text);
    return false;
}

static bool calls(tg_comm *c, void *arg) {
    int64_t n = N;
    DLTensor a;
    (void)arg;
    CHECK(tg_sym_alloc(c, (DLDataType){kDLInt, 64, 1}, 1, &n, 0, &a) == TG_OK);
    for (int i = 0; i < 3; i++) CHECK(launch(c, &a, COPIES) == TG_OK);
    for (int i = 0; i < 3; i++) CHECK(launch(c, &a, ADDS) == TG_OK);
    return tg_sym_free(c, &a) == TG_OK;
}

static const struct Refusal {
    What what;
    tg_status status; // of a rank that fails by itself; others get TG_ERROR_RANK
    const char *text;
} refusals[] = {
    {STRANGE_GATHER, TG_ERROR_CONTRACT, "'b' is not a symmetric tensor"},
    {ROOM, TG_ERROR_MEMORY, "1073741824 bytes of symmetric memory: "},
    {WORDS, TG_ERROR_MEMORY, "8589934592 bytes of signals: "},
    {MANY_PIECES, TG_ERROR_MEMORY, "64 pieces of symmetric memory in one launch"},
    {NO_SIGNAL, TG_ERROR_CONTRACT, " gives up"},
};

static bool is_refused(tg_comm *c, void *arg) {
    const struct Refusal *r = arg;
    int64_t n = N;
    DLTensor a;
    CHECK(tg_sym_alloc(c, (DLDataType){kDLInt, 64, 1}, 1, &n, 0, &a) == TG_OK);
    for (int i = 0; i < 2; i++) {
        tg_status status = launch(c, &a, r->what);
        CHECK(status == r->status || status == TG_ERROR_RANK);
        CHECK(says(r->text));
        CHECK(launch(c, &a, ADDS) == TG_OK);
    }
    return tg_sym_free(c, &a) == TG_OK;
}

static void work(void **state) {
    (void)state;
    assert_true(on_ranks("threads", RANKS, 0, calls, NULL));
    assert_true(on_ranks("processes", RANKS, 0, calls, NULL));
}

static void refuse(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof refusals / sizeof *refusals; i++) {
        void *arg = (void *)(uintptr_t)&refusals[i];
        assert_true(on_ranks("threads", RANKS, 0, is_refused, arg));
        assert_true(on_ranks("processes", RANKS, 0, is_refused, arg));
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(work), cmocka_unit_test(refuse)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
