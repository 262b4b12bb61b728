// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The interpreter over several ranks: the semantics of transfer and signal ops in the form that
// passes write, and the failures of launches.
#include "ir/interp/interp.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

enum { MOST = 4, ROWS = 5, COLUMNS = 2 };

typedef struct Launch {
    const char *text;
    int ranks;
    uint64_t seed;
    float x[MOST][MOST * ROWS * COLUMNS], y[MOST][MOST * ROWS * COLUMNS];
    float shards[MOST][MOST * ROWS * COLUMNS];
    int64_t done[MOST][MOST * ROWS];
    bool ok;
} Launch;

static Tensor dense(void *data, Elem elem, int rank, const int64_t *extents) {
    Tensor t = {.data = data, .elem = elem, .rank = rank};
    int64_t stride = 1;
    for (int d = rank - 1; d >= 0; d--) {
        t.extents[d] = extents[d];
        t.strides[d] = stride;
        stride *= extents[d];
    }
    return t;
}

/// (shards: symmetric [W, ROWS, COLUMNS], x and y: [W, ROWS, COLUMNS], done: i64 [W, chunks])
static void launch_body(Ctx *ctx, void *arg) {
    Launch *l = arg;
    Ir *ir = ir_create(ctx);
    Op *module = ir_parse(ir, ctx_add_source(ctx, "test.tir", l->text, strlen(l->text)));
    if (!module || !ir_verify(ir, module)) return;
    InterpArg args[MOST][4] = {0};
    const InterpArg *of[MOST];
    const int64_t shape[] = {l->ranks, ROWS, COLUMNS}, chunks[] = {l->ranks, 3};
    for (int r = 0; r < l->ranks; r++) {
        args[r][0].tensor = dense(l->shards, EL_F32, 3, shape);
        args[r][0].tensor.strides[0] = sizeof l->shards[0] / sizeof(float);
        args[r][1].tensor = dense(l->x[r], EL_F32, 3, shape);
        args[r][2].tensor = dense(l->y[r], EL_F32, 3, shape);
        args[r][3].tensor = dense(l->done[r], EL_I64, 2, chunks);
        of[r] = args[r];
    }
    InterpOptions options = {.check = true, .seed = l->seed};
    l->ok = interp_run_ranks(ir, module, "k", l->ranks, 4, of, &options);
}

/// Launches on fresh data. The message of the first error goes to `text`.
static void launch(Launch *l, const char *body, int ranks, uint64_t seed, char *text, size_t room) {
    Ctx *ctx = ctx_create(NULL);
    *l = (Launch){.ranks = ranks, .seed = seed};
    l->text = ctx_format(
        ctx,
        "module {\n  kernel [name=\"k\", symmetric_params=[0]] {(%%a: tensor<f32, ?x?x?>, %%x: "
        "tensor<f32, ?x?x?>, %%y: tensor<f32, ?x?x?>, %%done: tensor<i64, ?x?>)\n"
        "    %%W = dim %%a [axis=0] : i64\n    %%M = dim %%a [axis=1] : i64\n"
        "    %%0 = const [value=0] : i64\n    %%1 = const [value=1] : i64\n"
        "    %%2 = const [value=2] : i64\n    %%z = const [value=0.0] : f32\n"
        "    %%rank = rank : i64\n%s    yield\n  }\n}\n",
        body);
    for (int r = 0; r < ranks; r++)
        for (int i = 0; i < ranks * ROWS * COLUMNS; i++) {
            l->x[r][i] = (float)(1000 * r + i);
            l->shards[r][i] = (float)(100 * r + i);
        }
    CtxStatus status = ctx_protect(ctx, launch_body, l);
    const Diagnostic *d = diag_first(ctx);
    if (text) snprintf(text, room, "%s", d ? d->text : "");
    if (!text && (status != CTX_OK || !l->ok)) fail_msg("%s", d ? d->text : "?");
    ctx_destroy(ctx);
}

static const uint64_t seeds[] = {0, 1, 2, 3};

/// The gathered view has all shards after its flags, also if no rank waited at the start.
static void gathers(void **state) {
    (void)state;
    static const char body[] =
        "    comm_begin\n    %control = comm_control : tensor<i64, 8>\n"
        "    %view, %flags = comm_gather %a, %2 [plan=\"pull\", name=\"a\"] : tensor<f32, ?x?x?>, "
        "tensor<i64, ?x?>\n"
        "    parallel %0, %W [step=1] {(%r: i64)\n"
        "      parallel %0, %M [step=1] {(%m: i64)\n"
        "        %c = div %m, %2 : i64\n"
        "        signal_wait %flags, %control, %1, %r, %r, %c [text=\"chunk of rank {}: {}\"]\n"
        "        %v = load %view, %z, %r, %m, %0, %2 [subs=(at, at, axis 2)] : f32<2>\n"
        "        store %y, %v, %r, %m, %0, %2 [subs=(at, at, axis 2)]\n"
        "        yield\n      }\n      yield\n    }\n    comm_end\n";
    static Launch l;
    for (int ranks = 1; ranks <= MOST; ranks++)
        for (size_t s = 0; s < 4; s++) {
            launch(&l, body, ranks, seeds[s], NULL, 0);
            for (int r = 0; r < ranks; r++)
                for (int i = 0; i < ranks * ROWS * COLUMNS; i++) {
                    int from = i / (ROWS * COLUMNS), at = i % (ROWS * COLUMNS);
                    assert_true(l.y[r][i] == l.shards[from][at]);
                }
        }
}

/// Each rank sends part r of x to rank r when it signals the chunk, and adds received parts in the
/// order of ranks. It reads the own part in place.
#define SCATTER(raise)                                                                             \
    "    comm_begin [wait_all=true]\n    %control = comm_control : tensor<i64, 8>\n"               \
    "    %3 = const [value=3] : i64\n"                                                             \
    "    %stage = scratch %W, %W, %M, %2 [symmetric=true] : tensor<f32, ?x?x?x?>\n"                \
    "    %flags = comm_signals %W, %3 [signal_id=0] : tensor<i64, ?x?x?>\n"                        \
    "    comm_scatter %x, %stage, %done, %flags, %2 [plan=\"push\", name=\"x\"]\n" raise           \
    "    parallel %0, %M [step=1] {(%m: i64)\n"                                                    \
    "      %c = div %m, %2 : i64\n"                                                                \
    "      %first = const [value=0.0] : f32<2>\n"                                                  \
    "      %sum = for %0, %W, %first [step=1] : f32<2> {(%s: i64, %acc: f32<2>)\n"                 \
    "        %own = eq %s, %rank : bool\n"                                                         \
    "        %v = if %own : f32<2> {\n"                                                            \
    "          %o = load %x, %z, %rank, %m, %0, %2 [subs=(at, at, axis 2)] : f32<2>\n"             \
    "          yield %o\n        } {\n"                                                            \
    "          signal_wait %flags, %control, %1, %s, %rank, %s, %c\n"                              \
    "          %o = load %stage, %z, %rank, %s, %m, %0, %2 [subs=(at, at, at, axis 2)] : f32<2>\n" \
    "          yield %o\n        }\n"                                                              \
    "        %next = add %acc, %v : f32<2>\n        yield %next\n      }\n"                        \
    "      store %y, %sum, %0, %m, %0, %2 [subs=(at, at, axis 2)]\n      yield\n    }\n"           \
    "    comm_end\n"

static void scatters(void **state) {
    (void)state;
    static const char body[] = SCATTER("    parallel %0, %W [step=1] {(%r: i64)\n"
                                       "      parallel %0, %3 [step=1] {(%c: i64)\n"
                                       "        %epoch = load %control, %0, %0 [subs=(at)] : i64\n"
                                       "        signal_set %done, %epoch, %r, %c\n"
                                       "        yield\n      }\n      yield\n    }\n");
    static Launch l;
    for (int ranks = 1; ranks <= MOST; ranks++)
        for (size_t s = 0; s < 4; s++) {
            launch(&l, body, ranks, seeds[s], NULL, 0);
            for (int r = 0; r < ranks; r++)
                for (int i = 0; i < ROWS * COLUMNS; i++) {
                    float sum = 0;
                    for (int from = 0; from < ranks; from++)
                        sum += l.x[from][r * ROWS * COLUMNS + i];
                    assert_true(l.y[r][i] == sum);
                }
        }
}

/// A wait for a chunk that never comes ends with an error that names it.
static void lost_chunks(void **state) {
    (void)state;
    static Launch l;
    char text[512];
    launch(&l, SCATTER(""), 2, 0, text, sizeof text);
    assert_false(l.ok);
    assert_non_null(strstr(text, "no rank can go on: rank 0 waits for rank 1 to raise signal 0, "
                                 "rank 1 waits for rank 0 to raise signal 0"));
}

/// Ranks that do not reach the same barrier.
static void lost_rank(void **state) {
    (void)state;
    static const char body[] = "    comm_begin [wait_all=true]\n    %own = eq %rank, %0 : bool\n"
                               "    if %own {\n      comm_barrier\n      yield\n    } {\n"
                               "      yield\n    }\n    comm_end\n";
    static Launch l;
    char text[512];
    launch(&l, body, 3, 0, text, sizeof text);
    assert_false(l.ok);
    assert_non_null(strstr(text, "rank 0 waits for all ranks to come to the end, rank 1 has ended, "
                                 "rank 2 has ended"));
}

/// One rank fails, and the others give up without a message of their own.
static void one_fails(void **state) {
    (void)state;
    static const char body[] = "    %few = lt %rank, %2 : bool\n"
                               "    require %few, %rank [text=\"not {}\"]\n"
                               "    comm_begin [wait_all=true]\n    comm_end\n";
    static Launch l;
    char text[512];
    launch(&l, body, 3, 0, text, sizeof text);
    assert_false(l.ok);
    assert_string_equal(text, "rank 2: not 2");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gathers),   cmocka_unit_test(scatters),  cmocka_unit_test(lost_chunks),
        cmocka_unit_test(lost_rank), cmocka_unit_test(one_fails),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
