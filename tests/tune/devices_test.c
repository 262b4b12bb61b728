// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Two GPUs of one architecture: each has a best setting of its own, which the other one does not
// take. The devices are the stand-in driver's (tests/runtime/fake_cuda.c): its clock knows waves of
// CTAs, shared memory that holds several of them, and memory that feeds it; nothing is computed.
#include "tests/tune/request.h"

#include "driver/tune_store.h"
#include "tests/tune/wide.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const TuneTrial *trial_of(const TuneResult *t, const char *config) {
    for (int i = 0; i < t->n_trials; i++)
        if (strcmp(t->trials[i].config, config) == 0) return &t->trials[i];
    fail_msg("%s: it was not tried", config);
    return NULL;
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

static Request wide_request(Ctx *ctx) {
    Request r = matmul_request(ctx, "sm_90a", WIDE_SIDE, WIDE_SIDE, WIDE_INNER);
    SourceText *text = ctx_new(ctx, SourceText);
    *text = (SourceText){"wide.teg", wide, sizeof wide - 1};
    r.kernel = "wide";
    r.path = text->path;
    r.texts = text;
    r.driver = 13000;
    return r;
}

/// Times as long as its own setting another device's takes.
static double foreign_times(const TuneResult *here, const TuneResult *there) {
    const TuneTrial *own = trial_of(here, here->config), *foreign = trial_of(here, there->config);
    assert_true(own->seconds > 0 && foreign->seconds > 0);
    printf("%s\n    %s: %.4g us, the other one's %.4g us\n", here->device, here->config,
           own->seconds * 1e6, foreign->seconds * 1e6);
    return foreign->seconds / own->seconds;
}

static void tune_all(Ctx *ctx, void *arg) {
    TuneResult found[GPUS], other;
    Request r = wide_request(ctx);
    (void)arg;
    for (int d = 0; d < GPUS; d++) {
        TuneOptions o = {.mode = TUNE_EXHAUSTIVE, .device = d, .helpers = 2};
        for (int e = d; e < GPUS; e++) assert_false(tune_find(ctx, &r, e, &other));
        if (tune_request(ctx, &r, &o, &found[d])) fail_msg("%s", tg_last_error());
    }
    for (int d = 0; d < GPUS; d++) {
        assert_string_equal(found[d].judged, "only with each other: an injected fault");
        assert_true(tune_find(ctx, &r, d, &other));
        assert_string_equal(other.config, found[d].config);
    }
    assert_true(foreign_times(&found[ON_MANY], &found[ON_FEW]) >= WIDE_FOREIGN);
    assert_true(foreign_times(&found[ON_FEW], &found[ON_MANY]) >= 2);
    const TuneTrial *invalid = trial_of(&found[ON_SMALL], found[ON_FEW].config);
    assert_int_equal(invalid->verdict, TUNE_FAILED);
    assert_string_not_equal(found[ON_SMALL].config, found[ON_FEW].config);
}

/// With the interpreter none of it passes: the standard setting is as wrong as all others.
static void nothing_is_right(Ctx *ctx, void *arg) {
    TuneResult found;
    Request r = request_of(ctx);
    TuneOptions o = {.mode = TUNE_BLOCK, .budget = 10, .helpers = 2, .forget = true, .again = true};
    (void)arg;
    unsetenv("TG_FAULT");
    assert_int_equal(tune_request(ctx, &r, &o, &found), TG_ERROR_UNSUPPORTED);
    assert_non_null(strstr(tg_last_error(), "nothing that was tried is right"));
    for (int i = 0; i < found.n_trials; i++) assert_false(found.trials[i].verdict > TUNE_WRONG);
    assert_int_equal(found.trials[0].verdict, TUNE_WRONG);
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

static void on_devices(const char *devices, void (*test)(Ctx *ctx, void *arg)) {
    static char folder[256];
    Ctx *ctx = ctx_create(NULL);
    snprintf(folder, sizeof folder, "%s/devices-XXXXXX", TEST_OUT);
    assert_non_null(mkdtemp(folder));
    setenv("TG_CACHE", folder, 1);
    setenv("FAKE_CUDA_DEVICES", devices, 1);
    setenv("FAKE_CUDA_CLOCK", "1", 1);
    setenv("TG_FAULT", "oracle@", 1); // the interpreter would find that nothing is computed
    assert_int_equal(ctx_protect(ctx, test, NULL), CTX_OK);
    assert_int_equal(diag_errors(ctx), 0);
    ctx_destroy(ctx);
}

static void test_devices(void **state) {
    (void)state;
    on_devices(WIDE_DEVICES, tune_all);
}

static void test_nothing_is_right(void **state) {
    (void)state;
    on_devices("90x132", nothing_is_right);
}

static void test_one_breaks_the_device(void **state) {
    (void)state;
    on_devices("90x132", one_breaks_the_device);
}

static void test_slow_in_a_row(void **state) {
    (void)state;
    on_devices("90x132", slow_in_a_row);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_devices), cmocka_unit_test(test_nothing_is_right),
        cmocka_unit_test(test_one_breaks_the_device), cmocka_unit_test(test_slow_in_a_row)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
