// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Two GPUs of one architecture that differ in their processors alone: each has a best setting of
// its own, which the other one does not take, and with which it would be slower. The devices are
// the stand-in driver's (tests/runtime/fake_cuda.c): its clock knows waves of CTAs, and nothing is
// computed.
#include "tests/tune/request.h"

#include "driver/tune_store.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { GPUS = 2 };

static double seconds_of(const TuneResult *t, const char *config) {
    for (int i = 0; i < t->n_trials; i++)
        if (strcmp(t->trials[i].config, config) == 0) return t->trials[i].seconds;
    return -1;
}

/// Of what is as good as something else, only one value: what is left differs in tiles.
static Request request_of(Ctx *ctx) {
    static const NamedValue pinned[] = {{"BK", 32},   {"warps", 4},       {"stages", 2},
                                        {"split", 1}, {"persistent", -1}, {"generator", 1},
                                        {"order", 1}};
    Request r = matmul_request(ctx, "sm_90a", 512, 512, 512);
    r.driver = 13000;
    r.n_set = sizeof pinned / sizeof *pinned;
    r.set = pinned;
    return r;
}

static void tune_both(Ctx *ctx, void *arg) {
    TuneResult found[GPUS], other;
    Request r = request_of(ctx);
    (void)arg;
    for (int d = 0; d < GPUS; d++) {
        TuneOptions o = {.mode = TUNE_EXHAUSTIVE, .device = d, .helpers = 2};
        for (int e = d; e < GPUS; e++) assert_false(tune_find(ctx, &r, e, &other));
        if (tune_request(ctx, &r, &o, &found[d])) fail_msg("%s", tg_last_error());
        printf("%s: %s, %.4g us\n", found[d].device, found[d].config, found[d].seconds * 1e6);
    }
    assert_string_not_equal(found[0].config, found[1].config);
    for (int d = 0; d < GPUS; d++) {
        assert_true(tune_find(ctx, &r, d, &other));
        assert_string_equal(other.config, found[d].config);
        double own = seconds_of(&found[d], found[d].config);
        double foreign = seconds_of(&found[d], found[!d].config);
        printf("%s: the other one's takes %.2f times as long\n", other.device, foreign / own);
        assert_true(own > 0 && foreign >= 1.07 * own);
    }
}

/// A launch that does what it may not takes the device from its process: that setting is out, the
/// others are measured by another process.
static void one_breaks_the_device(Ctx *ctx, void *arg) {
    TuneResult found;
    Request r = request_of(ctx);
    TuneOptions o = {.mode = TUNE_EXHAUSTIVE, .helpers = 2, .forget = true, .again = true};
    int bad = 0, good = 0;
    (void)arg;
    setenv("FAKE_CUDA_ILLEGAL", "32", 1); // of 512 x 512: BM * BN = 8192
    if (tune_request(ctx, &r, &o, &found)) fail_msg("%s", tg_last_error());
    unsetenv("FAKE_CUDA_ILLEGAL");
    for (int i = 0; i < found.n_trials; i++) {
        const TuneTrial *t = &found.trials[i];
        bool breaks = strstr(t->config, "BM=64 BN=128") || strstr(t->config, "BM=128 BN=64");
        if (t->verdict == TUNE_PRUNED) continue;
        if (breaks != (t->verdict == TUNE_FAILED))
            fail_msg("%s: %s, %s", t->config, tune_verdict_name(t->verdict), t->why ? t->why : "");
        if (breaks) assert_non_null(strstr(t->why, "illegal memory access"));
        if (!breaks) assert_true(t->seconds > 0);
        bad += breaks;
        good += !breaks;
    }
    assert_int_equal(bad, 2);
    assert_true(good > 2);
}

/// What is fastest behind empty caches, and three times as slow in a row, does not win; it is told
/// why.
static void slow_in_a_row(Ctx *ctx, void *arg) {
    TuneResult cold, found;
    Request r = request_of(ctx);
    TuneOptions o = {.mode = TUNE_EXHAUSTIVE, .helpers = 2, .forget = true, .again = true};
    TuneTrial slow = {0};
    (void)arg;
    if (tune_request(ctx, &r, &o, &cold)) fail_msg("%s", tg_last_error());
    assert_true(cold.seconds < cold.standard);
    int bm = 0, bn = 0;
    assert_int_equal(sscanf(cold.config,
                            "BK=32 warps=4 stages=2 split=1 persistent=-1 generator=1 "
                            "order=1 BM=%d BN=%d",
                            &bm, &bn),
                     2);
    setenv("FAKE_CUDA_WARM", ctx_format(ctx, "%d", 512 / bm * (512 / bn)), 1);
    if (tune_request(ctx, &r, &o, &found)) fail_msg("%s", tg_last_error());
    unsetenv("FAKE_CUDA_WARM");
    for (int i = 0; i < found.n_trials; i++)
        if (strcmp(found.trials[i].config, cold.config) == 0) slow = found.trials[i];
    assert_string_not_equal(found.config, cold.config);
    assert_int_equal(slow.verdict, TUNE_SLOWER);
    assert_non_null(strstr(slow.why, "with warm caches it takes"));
    assert_true(slow.seconds < found.seconds);
}

static void on_devices(void (*test)(Ctx *ctx, void *arg)) {
    static char folder[256];
    Ctx *ctx = ctx_create(NULL);
    snprintf(folder, sizeof folder, "%s/devices-XXXXXX", TEST_OUT);
    assert_non_null(mkdtemp(folder));
    setenv("TG_CACHE", folder, 1);
    setenv("FAKE_CUDA_DEVICES", "90x132,90x33", 1);
    setenv("FAKE_CUDA_CLOCK", "1", 1);
    assert_int_equal(ctx_protect(ctx, test, NULL), CTX_OK);
    assert_int_equal(diag_errors(ctx), 0);
    ctx_destroy(ctx);
}

static void test_devices(void **state) {
    (void)state;
    on_devices(tune_both);
}

static void test_one_breaks_the_device(void **state) {
    (void)state;
    on_devices(one_breaks_the_device);
}

static void test_slow_in_a_row(void **state) {
    (void)state;
    on_devices(slow_in_a_row);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_devices),
                                       cmocka_unit_test(test_one_breaks_the_device),
                                       cmocka_unit_test(test_slow_in_a_row)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
