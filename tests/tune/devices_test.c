// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Two GPUs of one architecture: each has its own best setting, which the other does not use. The
// devices are the stand-in driver's (tests/runtime/fake_cuda.c). Its clock models waves of CTAs,
// the shared memory that several CTAs fit in, and memory bandwidth; nothing is computed.
#include "tests/tune/request.h"

#include "driver/tune/tune_store.h"
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

/// Many processors, slightly fewer, few of them.
#define SIBLINGS "90x264x100x20000,90x228x100x18000,90x12x228x100"

/// Pins axes whose values are equally good, so that only tiles differ.
static Request request_of(Ctx *ctx) {
    static const NamedValue pinned[] = {{"BK", 32},   {"warps", 4},       {"stages", 2},
                                        {"split", 1}, {"persistent", -1}, {"generator", 1},
                                        {"order", 1}, {"cluster", 1}};
    Request r = matmul_request(ctx, "sm_90a", 512, 512, 512);
    r.driver = 13000;
    r.n_set = sizeof pinned / sizeof *pinned;
    r.set = pinned;
    return r;
}

static Request wide_request(Ctx *ctx, int64_t inner) {
    Request r = matmul_request(ctx, "sm_90a", WIDE_SIDE, WIDE_SIDE, inner);
    SourceText *text = ctx_new(ctx, SourceText);
    *text = (SourceText){"wide.teg", wide, sizeof wide - 1};
    r.kernel = "wide";
    r.path = text->path;
    r.texts = text;
    r.driver = 13000;
    return r;
}

/// The slowdown of another device's setting, relative to this device's own.
static double foreign_times(const TuneResult *here, const TuneResult *there) {
    const TuneTrial *own = trial_of(here, here->config), *foreign = trial_of(here, there->config);
    assert_true(own->seconds > 0 && foreign->seconds > 0);
    printf("%s\n    %s: %.4g us, the other one's %.4g us\n", here->device, here->config,
           own->seconds * 1e6, foreign->seconds * 1e6);
    return foreign->seconds / own->seconds;
}

static void tune_all(Ctx *ctx, void *arg) {
    TuneResult found[GPUS], other;
    Request r = wide_request(ctx, WIDE_INNER);
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

/// Counts the measured settings.
static int count_measured(const TuneResult *t) {
    int n = 0;
    for (int i = 0; i < t->n_trials; i++) n += t->trials[i].seconds > 0;
    return n;
}

/// The only setting that came from another device.
static const TuneTrial *sibling_in(const TuneResult *t) {
    const TuneTrial *found = NULL;
    for (int i = 0; i < t->n_trials; i++) {
        if (!t->trials[i].sibling) continue;
        assert_null(found);
        found = &t->trials[i];
    }
    return found;
}

static TuneResult tune_on(Ctx *ctx, const Request *r, int device, int candidates) {
    TuneResult found;
    TuneOptions o = {.mode = TUNE_BLOCK,
                     .budget = 20,
                     .device = device,
                     .helpers = 2,
                     .candidates = candidates,
                     .forget = candidates > 0,
                     .again = true};
    if (tune_request(ctx, r, &o, &found)) fail_msg("%s", tg_last_error());
    return found;
}

/// The winner of one device is tried first on a similar one, where nothing better exists, and loses
/// on a different one. No device is a sibling of itself.
static void siblings_come_first(Ctx *ctx, void *arg) {
    enum { MANY, LIKE_MANY, FEW };
    Request r = wide_request(ctx, 2 * WIDE_INNER), later = r; // earlier tests use the store, too
    (void)arg;
    TuneResult alone = tune_on(ctx, &r, LIKE_MANY, 2);
    assert_null(sibling_in(&alone));
    TuneResult many = tune_on(ctx, &r, MANY, 0);
    assert_null(sibling_in(&many));
    TuneResult like = tune_on(ctx, &r, LIKE_MANY, 2), few = tune_on(ctx, &r, FEW, 2);
    const TuneTrial *first = sibling_in(&like), *slow = sibling_in(&few);
    if (!first || !slow) fail_msg("no candidate came from another device");
    assert_string_equal(first->config, many.config);
    assert_string_equal(first->sibling, many.device);
    assert_int_equal(count_measured(&like), 2);
    assert_string_equal(slow->config, many.config);
    assert_int_equal(slow->verdict, TUNE_SLOWER);
    assert_string_not_equal(few.config, many.config);
    // Eight measurements find 0.98 of the full search's result.
    like = tune_on(ctx, &r, LIKE_MANY, 8);
    assert_true(count_measured(&like) <= 8);
    TuneResult all = tune_on(ctx, &r, LIKE_MANY, 500);
    assert_true(trial_of(&all, like.config)->seconds * 0.98 <= all.seconds);
    // A setting that this kernel does not allow is ignored; with another driver, the device counts
    // as another one.
    few.config = "BM=24 BN=64";
    tune_keep(ctx, &r, FEW, &few);
    later.driver = 13010;
    TuneResult newer = tune_on(ctx, &later, MANY, 2);
    assert_string_equal(sibling_in(&newer)->config, many.config);
}

/// With the interpreter's check nothing passes: the default is as wrong as all others.
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

/// A launch with an illegal access loses the process's device. That setting is out, and another
/// process measures the others.
static void one_breaks_the_device(Ctx *ctx, void *arg) {
    TuneResult found;
    Request r = request_of(ctx);
    TuneOptions o = {.mode = TUNE_EXHAUSTIVE, .helpers = 2, .forget = true, .again = true};
    int bad = 0, good = 0;
    (void)arg;
    setenv("FAKE_CUDA_ILLEGAL", "32", 1); // CTAs for 512 x 512: BM * BN = 8192
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

/// A setting that is fastest with empty caches, and three times as slow in a row, does not win. The
/// report gives the reason.
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
                            "order=1 cluster=1 BM=%d BN=%d",
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
    setenv("TG_FAULT", "oracle@",
           1); // otherwise the interpreter would find that nothing is computed
    assert_int_equal(ctx_protect(ctx, test, NULL), CTX_OK);
    assert_int_equal(diag_errors(ctx), 0);
    ctx_destroy(ctx);
}

static void test_devices(void **state) {
    (void)state;
    on_devices(WIDE_DEVICES, tune_all);
}

static void test_siblings(void **state) {
    (void)state;
    on_devices(SIBLINGS, siblings_come_first);
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
        cmocka_unit_test(test_devices), cmocka_unit_test(test_siblings),
        cmocka_unit_test(test_nothing_is_right), cmocka_unit_test(test_one_breaks_the_device),
        cmocka_unit_test(test_slow_in_a_row)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
