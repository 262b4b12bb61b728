// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The cost model ranks: more work, fewer threads and wasted lanes cost more, and unknown ops do not
// stop it.
#include "passes/comm/comm_cost.h"
#include "passes/gpu/gpu.h"
#include "passes/model.h"
#include "passes/passes.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

// Tiles of 64 x 32 rows of x, whose sums go to y.
static const char text[] =
    "module { kernel [name=\"k\"] {(%x: tensor<f32, ?x?>, %y: tensor<f32, ?x?>)\n"
    "  %zero = const [value=0] : i64\n"
    "  %m = dim %x [axis=0] : i64\n"
    "  %n = dim %x [axis=1] : i64\n"
    "  %f = const [value=0.0] : f32\n"
    "  %v = const [value=0.0] : f32<64x32>\n"
    "  parallel %zero, %m [step=64] {(%i: i64)\n"
    "    %s = for %zero, %n, %v [step=32] : f32<64x32> {(%k: i64, %a: f32<64x32>)\n"
    "      %t = load %x, %f, %i, %m, %k, %n [subs=(axis 64, axis 32)] : f32<64x32>\n"
    "      %e = exp %t : f32<64x32>\n"
    "      %b = add %a, %e : f32<64x32>\n"
    "      yield %b\n"
    "    }\n"
    "    store %y, %s, %i, %m, %zero, %n [subs=(axis 64, axis 32)]\n"
    "    yield\n"
    "  }\n"
    "  yield\n"
    "} }\n";

// Eight rows by tiles of y, which is 1024 deep.
static const char product[] =
    "module { kernel [name=\"k\"] {(%x: tensor<f32, 8x1024>, %y: tensor<f32, ?x?>)\n"
    "  %zero = const [value=0] : i64\n"
    "  %m = dim %y [axis=0] : i64\n"
    "  %n = dim %y [axis=1] : i64\n"
    "  %f = const [value=0.0] : f32\n"
    "  %v = const [value=0.0] : f32<8x64>\n"
    "  parallel %zero, %n [step=64] {(%i: i64)\n"
    "    %s = for %zero, %m, %v [step=128] : f32<8x64> {(%k: i64, %a: f32<8x64>)\n"
    "      %p = load %x, %f, %zero, %n, %k, %m [subs=(axis 8, axis 128)] : f32<8x128>\n"
    "      %q = load %y, %f, %k, %m, %i, %n [subs=(axis 128, axis 64)] : f32<128x64>\n"
    "      %b = dot %p, %q, %a : f32<8x64>\n"
    "      yield %b\n"
    "    }\n"
    "    store %x, %s, %zero, %n, %i, %n [subs=(axis 8, axis 64)]\n"
    "    yield\n"
    "  }\n"
    "  yield\n"
    "} }\n";

// The own rank's part of x: x has as many parts as shards.
static const char part[] = "module { kernel [name=\"k\", symmetric_params=[0]] {(%x: tensor<f32, "
                           "?x?, [?, 1]>, %y: tensor<f32, ?>)\n"
                           "  %f = const [value=0.0] : f32\n"
                           "  %w = dim %x [axis=0] : i64\n"
                           "  %n = dim %x [axis=1] : i64\n"
                           "  %r = rank : i64\n"
                           "  %p = div %n, %w : i64\n"
                           "  %lo = mul %r, %p : i64\n"
                           "  %hi = add %lo, %p : i64\n"
                           "  parallel %lo, %hi [step=64] {(%i: i64)\n"
                           "    %v = load %x, %f, %r, %i, %hi [subs=(at, axis 64)] : f32<64>\n"
                           "    store %y, %v, %i, %hi [subs=(axis 64)]\n"
                           "    yield\n"
                           "  }\n"
                           "  yield\n"
                           "} }\n";

// Data give the number and the start of elements that the own rank takes from each shard of x.
static const char pieces[] =
    "module { kernel [name=\"k\", symmetric_params=[0, 1]] {(%x: tensor<f32, ?x?, [?, 1]>,\n"
    "    %count: tensor<i64, ?x?, [?, 1]>, %y: tensor<f32, ?>)\n"
    "  %zero = const [value=0] : i64\n"
    "  %f = const [value=0.0] : f32\n"
    "  %w = dim %x [axis=0] : i64\n"
    "  %r = rank : i64\n"
    "  parallel %zero, %w [step=1] {(%s: i64)\n"
    "    %n = load %count, %zero, %s, %r [subs=(at, at)] : i64\n"
    "    parallel %zero, %n [step=64] {(%i: i64)\n"
    "      %from = load %count, %zero, %s, %zero [subs=(at, at)] : i64\n"
    "      %j = add %i, %from : i64\n"
    "      %v = load %x, %f, %s, %j, %n [subs=(at, axis 64)] : f32<64>\n"
    "      store %y, %v, %i, %n [subs=(axis 64)]\n"
    "      yield\n"
    "    }\n"
    "    yield\n"
    "  }\n"
    "  yield\n"
    "} }\n";

// A phase of the host, and the same phase in a host loop: %s is the loop around it, %s its end.
static const char hosted[] =
    "module { kernel [name=\"k\"] {(%%x: tensor<f32, ?x?>, %%y: tensor<f32, ?x?>)\n"
    "  %%zero = const [value=0] : i64\n"
    "  %%eight = const [value=8] : i64\n"
    "  %%f = const [value=0.0] : f32\n"
    "  %%m = dim %%x [axis=0] : i64\n"
    "%s"
    "  parallel %%zero, %%m [step=64] {(%%i: i64)\n"
    "    %%t = load %%x, %%f, %%i, %%m, %%zero, %%m [subs=(axis 64, axis 32)] : f32<64x32>\n"
    "    store %%y, %%t, %%i, %%m, %%zero, %%m [subs=(axis 64, axis 32)]\n"
    "    yield\n"
    "  }\n"
    "%s"
    "  yield\n"
    "} }\n";

typedef struct Question {
    const char *text;
    int64_t m, n;
    int threads;
    const char *gpu; // NULL: a CPU
    double seconds;
} Question;

static int64_t dim_of(void *user, int parameter, int axis) {
    const Question *q = user;
    return parameter == (q->text == product) ? (axis == 0 ? q->m : q->n) : -1;
}

static void body(Ctx *ctx, void *arg) {
    Question *q = arg;
    Ir *ir = ir_create(ctx);
    Op *module = ir_parse(ir, ctx_add_source(ctx, "test.tir", q->text, strlen(q->text)));
    Machine machine = {q->threads, 1 << 15, 1 << 20, 32};
    if (!module || !ir_verify(ir, module)) return;
    const Op *kernel = find_kernel(module, "k");
    q->seconds = q->gpu ? gpu_cost_estimate(kernel, gpu_target(q->gpu), dim_of, q, NULL, NULL)
                        : cost_estimate(kernel, &machine, dim_of, q);
}

static double cost_on(const char *gpu, const char *kernel, int64_t m, int64_t n, int threads) {
    Question q = {kernel, m, n, threads, gpu, -1};
    Ctx *ctx = ctx_create(NULL);
    CtxStatus status = ctx_protect(ctx, body, &q);
    ctx_destroy(ctx);
    assert_int_equal(status, CTX_OK);
    assert_true(q.seconds > 0);
    return q.seconds;
}

static double cost_of(const char *kernel, int64_t m, int64_t n, int threads) {
    return cost_on(NULL, kernel, m, n, threads);
}

static double cost(int64_t m, int64_t n, int threads) {
    return cost_of(text, m, n, threads);
}

static void more_work_costs_more(void **state) {
    (void)state;
    assert_true(cost(6400, 1024, 4) > 1.5 * cost(3200, 1024, 4));
    assert_true(cost(6400, 2048, 4) > 1.5 * cost(6400, 1024, 4));
    assert_true(cost(6400, 1024, 1) > 3 * cost(6400, 1024, 4));
}

static void partial_tiles_cost_whole_ones(void **state) {
    (void)state;
    assert_true(cost(65, 1024, 1) > 1.5 * cost(64, 1024, 1));
    assert_true(cost(128, 1024, 1) == cost(65, 1024, 1));
    // With fewer programs than threads, more threads do not help.
    assert_true(cost(128, 1024, 64) == cost(128, 1024, 2));
}

/// A phase waits for the last of many threads. The wait is a smaller part of a phase with more
/// programs for each thread.
static void many_threads_wait(void **state) {
    (void)state;
    double one = cost(64, 4096, 1);
    assert_true(cost(128, 4096, 2) == one);
    assert_true(cost(16 * 64, 4096, 16) > 1.2 * one);
    assert_true(cost(64 * 16 * 64, 4096, 16) < 1.1 * 64 * one);
}

/// A program's part of a matrix costs more if L2, 1 MiB, does not hold all of the matrix.
static void what_is_far_costs_more(void **state) {
    (void)state;
    double near = cost_of(product, 1024, 128, 1), far = cost_of(product, 1024, 2048, 1);
    assert_true(far > 1.3 * 16 * near);
    assert_true(cost_of(product, 1024, 4096, 1) < 2.1 * far);
}

static void the_unknown_has_a_price(void **state) {
    (void)state;
    assert_true(cost(-1, -1, 4) < 1);
    assert_true(cost(0, 0, 4) < cost(64, 64, 4));
}

static double cost_hosted(const char *gpu, const char *loop, const char *end) {
    char kernel[2000];
    assert_in_range(snprintf(kernel, sizeof kernel, hosted, loop, end), 1, sizeof kernel - 1);
    return cost_on(gpu, kernel, 4096, 4096, 4);
}

/// Both models walk the host alike. A `while` of unknown length counts as COST_UNKNOWN_TRIPS
/// iterations on every target.
static void host_loops_repeat_their_phases(void **state) {
    (void)state;
    static const char *const gpus[] = {NULL, "sm_90a", "gfx942"};
    for (size_t i = 0; i < sizeof gpus / sizeof *gpus; i++) {
        double once = cost_hosted(gpus[i], "", "");
        double eight =
            cost_hosted(gpus[i], "  for %zero, %eight [step=1] {(%j: i64)\n", "    yield\n  }\n");
        double unknown = cost_hosted(gpus[i],
                                     "  %w = while %zero : i64 {(%j: i64)\n"
                                     "    %go = lt %j, %m : bool\n    yield %go\n"
                                     "  } {(%j: i64)\n",
                                     "    %next = add %j, %eight : i64\n    yield %next\n  }\n");
        assert_true(fabs(eight / once - 8) < 1e-9);
        assert_true(fabs(unknown / once - COST_UNKNOWN_TRIPS) < 1e-9);
    }
}

/// Ranks share the work of a loop over all parts.
static void a_rank_has_its_part(void **state) {
    (void)state;
    assert_true(cost_of(part, 2, 1 << 24, 1) > 3 * cost_of(part, 8, 1 << 24, 1));
}

/// A length from data is bounded by the shard's extent divided by the number of ranks.
static void data_have_a_bound(void **state) {
    (void)state;
    double one = cost_of(pieces, 4, 1 << 20, 1);
    assert_true(cost_of(pieces, 4, 1 << 24, 1) > 8 * one);
    assert_true(cost_of(pieces, 8, 1 << 20, 1) < 1.5 * one); // twice the pieces, half as long
}

/// Ranks that write 1 MiB each, and then read each other's.
static double two_phases(bool parts, PlanId plan) {
    CommLaunch l = {
        .link = comm_link("sm_90a"),
        .beside = true,
        .units = 132,
        .bandwidth = 4e12,
        .ranks = 2,
        .n_tensors = 1,
        .tensors = {{.bytes = 1 << 20, .reads = true, .written = true, .name = "t"}},
        .n_phases = 2,
        .phases = {{.seconds = 1e-5, .programs = 264},
                   {.seconds = 1e-5, .programs = 264, .meets = true, .parts = parts}},
    };
    CommTimeline t;
    l.phases[1].read[0] = 1 << 20;
    for (int i = 0; i < PLAN_COUNT; i++) l.tensors[0].by[i] = PLAN_DIRECT;
    comm_lay(&t, &l, plan, 0);
    return t.end;
}

/// Waiting for parts needs no meeting before. Without overlap there is no gain.
static void parts_save_a_meeting(void **state) {
    (void)state;
    double meeting = comm_link("sm_90a")->meeting;
    double saved = two_phases(false, PLAN_DIRECT) - two_phases(true, PLAN_DIRECT);
    assert_true(saved > 0.99 * meeting && saved < 1.01 * meeting);
    assert_true(two_phases(false, PLAN_BEFORE) == two_phases(true, PLAN_BEFORE));
    assert_true(two_phases(false, PLAN_COPIES) == two_phases(true, PLAN_COPIES));
}

/// A product of `rows` rows. Each program has 128 of the rows and 192 of 6144 columns.
static double gathered(PlanId plan, int64_t ranks, double rows) {
    double waves = ceil(rows / 128 * 32 / 132);
    CommLaunch l = {
        .link = comm_link("sm_90a"),
        .beside = true,
        .units = 132,
        .bandwidth = 4e12,
        .ranks = ranks,
        .n_tensors = 1,
        .tensors = {{.bytes = rows / (double)ranks * 8192, .reads = true, .name = "a"}},
        .n_phases = 1,
        .phases = {{.seconds = 4e-5 * waves, .programs = rows / 128 * 32, .held = 1}},
    };
    CommTimeline t;
    l.phases[0].read[0] = l.tensors[0].bytes * 32;
    for (int i = 0; i < PLAN_COUNT; i++) l.tensors[0].by[i] = (PlanId)i;
    comm_lay(&t, &l, plan, 2);
    return t.end;
}

/// Programs send a few rows sooner than copy engines do, especially to several ranks. Engines hide
/// copies of many rows.
static void programs_send_few_rows(void **state) {
    (void)state;
    double two = gathered(PLAN_PUSH, 2, 512) - gathered(PLAN_PUT, 2, 512);
    double four = gathered(PLAN_PUSH, 4, 512) - gathered(PLAN_PUT, 4, 512);
    assert_true(two > 0 && four > two);
    assert_true(gathered(PLAN_PUSH, 2, 8192) < gathered(PLAN_PUT, 2, 8192));
    assert_true(gathered(PLAN_PUT, 2, 8192) < gathered(PLAN_BEFORE, 2, 8192));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(more_work_costs_more),    cmocka_unit_test(partial_tiles_cost_whole_ones),
        cmocka_unit_test(many_threads_wait),       cmocka_unit_test(what_is_far_costs_more),
        cmocka_unit_test(the_unknown_has_a_price), cmocka_unit_test(a_rank_has_its_part),
        cmocka_unit_test(data_have_a_bound),       cmocka_unit_test(parts_save_a_meeting),
        cmocka_unit_test(programs_send_few_rows),  cmocka_unit_test(host_loops_repeat_their_phases),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
