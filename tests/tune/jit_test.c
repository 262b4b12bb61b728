// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Launches that tune: blocking work, background work, results that later processes find, and
// results that another machine must not find. Background searches do not pause, except for those
// that are ended, and tests wait for their messages. Budgets suffice for a result on a busy
// machine.
#include "tests/said.h"
#include "tests/tune/request.h"

#include "driver/module.h"
#include "driver/tune/tune_store.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

enum { ROWS = 48, ROW = 100, BUDGET_MS = 30000 };

typedef struct Setup {
    tg_context *context;
    tg_module *module;
    tg_kernel *kernel;
    float x[ROWS * ROW], y[ROWS * ROW];
} Setup;

static void begin(Setup *s, const char *mode, int budget_ms) {
    tg_options hooks = {.size = sizeof hooks, .threads = 2, .log = note};
    tg_module_options options = {.size = sizeof options, .tune = mode, .tune_budget_ms = budget_ms};
    said.text[0] = 0;
    assert_int_equal(tg_context_create(&hooks, &s->context), TG_OK);
    tg_context_use(s->context);
    if (tg_module_from_source(source, strlen(source), "test.teg", &options, &s->module))
        fail_msg("%s", tg_last_error());
    assert_int_equal(tg_module_kernel(s->module, "softmax", &s->kernel), TG_OK);
    for (int i = 0; i < ROWS * ROW; i++) s->x[i] = (float)(i % 7);
}

static void end(Setup *s) {
    tg_module_destroy(s->module);
    tg_context_use(NULL);
    tg_context_destroy(s->context);
}

static void launch_rows(Setup *s, int rows) {
    const int64_t shape[2] = {rows, ROW};
    DLTensor x = tg_dense(s->x, kDLFloat, 32, 2, shape), y = tg_dense(s->y, kDLFloat, 32, 2, shape);
    tg_arg args[2] = {tg_tensor(&x), tg_tensor(&y)};
    memset(s->y, 0, sizeof s->y);
    if (tg_launch(s->kernel, args, 2)) fail_msg("%s", tg_last_error());
    float sum = 0;
    for (int i = 0; i < ROW; i++) sum += s->y[i];
    assert_true(sum > 0.999F && sum < 1.001F);
}

static void launch(Setup *s) {
    launch_rows(s, ROWS);
}

/// Returns the setting of a launch with `rows` rows; "": it would have to compile.
static const char *decision(Setup *s, int64_t rows) {
    static char text[256];
    const int64_t shape[2] = {rows, ROW};
    DLTensor x = tg_dense(s->x, kDLFloat, 32, 2, shape), y = tg_dense(s->y, kDLFloat, 32, 2, shape);
    tg_arg args[2] = {tg_tensor(&x), tg_tensor(&y)};
    tg_status status = tg_kernel_decision(s->kernel, args, 2, text, sizeof text);
    assert_true(status == TG_OK || status == TG_ERROR_NOT_FOUND);
    assert_true(!status || (!*text && strstr(tg_last_error(), "nothing was compiled")));
    char few[8];
    assert_int_equal(tg_kernel_decision(s->kernel, args, 2, few, sizeof few), status);
    assert_true(strlen(few) < sizeof few && strncmp(few, text, strlen(few)) == 0);
    assert_int_equal(tg_kernel_decision(s->kernel, args, 1, text, 0), TG_ERROR_ARGUMENT);
    return text;
}

/// Makes another setting win, and a search longer than its messages.
static void make_standard_slow(void) {
    char fault[64];
    Ctx *ctx = ctx_create(NULL);
    Request r = softmax_request(ctx, NULL, ROWS, ROW);
    TuneSpace space;
    assert_true(tune_space(ctx, &r, &space));
    snprintf(fault, sizeof fault, "slow@%s", strstr(space.at[0].config, "BR="));
    setenv("TG_FAULT", fault, 1);
    ctx_destroy(ctx);
}

/// The first launch waits for the search. The next process finds the result and does not wait.
static void blocks(void **state) {
    (void)state;
    Setup s;
    make_standard_slow();
    begin(&s, "block", BUDGET_MS);
    launch(&s);
    if (!was_said("tuned softmax R=48 N=100: BR=")) fail_msg("%s", said.text);
    if (!was_said("tuning softmax: ") || !was_said(" s left")) fail_msg("%s", said.text);
    char first[256];
    snprintf(first, sizeof first, "%s", decision(&s, ROWS));
    if (!strstr(first, "; tuned for these extents: ") || !strstr(first, "where the default takes"))
        fail_msg("%s", first);
    char config[256]; // "tuned softmax R=48 N=100: BR=4, 12 us"
    snprintf(config, sizeof config, ": %.*s, ", (int)strcspn(first, ";"), first);
    if (!was_said(config)) fail_msg("%s: %s", first, said.text);
    launch(&s);
    end(&s);
    begin(&s, "block", BUDGET_MS);
    launch(&s);
    assert_false(was_said("tuned"));
    assert_string_equal(decision(&s, ROWS), first);
    end(&s);
    unsetenv("TG_FAULT");
}

/// Fewer threads, or a lower level of the CPU, count as another machine.
static void not_elsewhere(void **state) {
    (void)state;
    Ctx *ctx = ctx_create(NULL);
    Request r = softmax_request(ctx, "v3", ROWS, ROW);
    TuneOptions o = {.mode = TUNE_BLOCK, .budget = BUDGET_MS / 1000, .device = -1};
    TuneResult found, other;
    assert_false(tune_find(ctx, &r, -1, &found));
    assert_int_equal(tune_request(ctx, &r, &o, &found), TG_OK);
    assert_true(tune_find(ctx, &r, -1, &other));
    assert_string_equal(found.config, other.config);
    assert_int_equal(found.n_trials, other.n_trials);
    r.target = "base";
    assert_false(tune_find(ctx, &r, -1, &other));
    r.target = "v3";
    r.threads = 1;
    assert_false(tune_find(ctx, &r, -1, &other));
    // The result helps shapes of the same bucket, and no others.
    r = softmax_request(ctx, "v3", ROWS - 2, ROW + 10);
    assert_true(tune_find(ctx, &r, -1, &other));
    assert_true(other.near);
    r = softmax_request(ctx, "v3", ROWS, 4 * ROW);
    assert_false(tune_find(ctx, &r, -1, &other));
    ctx_destroy(ctx);
}

/// Two GPUs of one process: the result of one is not used on the other, nor with another version of
/// the driver. (The driver is a library of the tests; nothing is launched.)
static void not_on_another_gpu(void **state) {
    (void)state;
    Ctx *ctx = ctx_create(NULL);
    Request r = softmax_request(ctx, "sm_80", ROWS, ROW);
    TuneResult other, found = {.kernel = "softmax",
                               .target = "sm_80",
                               .device = "made up",
                               .shape = "R=48 N=100",
                               .config = "BR=4 warps=2",
                               .seconds = 1e-5,
                               .standard = 2e-5};
    r.driver = 13000;
    tune_keep(ctx, &r, 0, &found);
    assert_true(tune_find(ctx, &r, 0, &other));
    assert_string_equal(other.config, "BR=4 warps=2");
    assert_false(tune_find(ctx, &r, 1, &other));
    r.driver = 12080;
    assert_false(tune_find(ctx, &r, 0, &other));
    ctx_destroy(ctx);
}

/// Launches until the log says `text`; fails if the search found nothing.
static void launch_until(Setup *s, int rows, const char *text) {
    while (!was_said(text)) {
        struct timespec t = {0, 20000000};
        launch_rows(s, rows);
        if (was_said("not tuned")) fail_msg("%s", said.text);
        nanosleep(&t, NULL);
    }
}

/// The search begins when the kernel is in use, and changes only the speed of launches.
static void in_the_background(void **state) {
    (void)state;
    Setup s;
    setenv("TG_CACHE", "off", 1);
    make_standard_slow();
    begin(&s, "background", 10000);
    launch_until(&s, ROWS, "tuned softmax R=48 N=100 in the background: BR=");
    for (int i = 0; i < 10; i++) launch(&s);
    end(&s);
    unsetenv("TG_FAULT");
}

/// The result of another shape in the bucket serves at once. The shape's own search follows.
static void after_a_neighbour(void **state) {
    enum { THERE = 26, HERE = 24 };
    (void)state;
    Setup s;
    begin(&s, "block", BUDGET_MS);
    launch_rows(&s, THERE);
    if (!was_said("tuned softmax R=26 N=100: ")) fail_msg("%s", said.text);
    end(&s);
    begin(&s, "background", 300);
    launch_until(&s, HERE, "tuned softmax R=24 N=100 in the background: ");
    end(&s);
}

/// Destroying a module ends its search, at any stage.
static void cancelled(void **state) {
    (void)state;
    Setup s;
    setenv("TG_CACHE", "off", 1);
    setenv("TG_FAULT", "hang@BR=", 1); // otherwise the search might end by itself
    unsetenv("TG_TUNE_SHARE");
    for (int wait_ms = 0; wait_ms <= 4000; wait_ms += 1000) {
        begin(&s, "background", 600000);
        for (int i = 0; i < 30; i++) launch(&s);
        struct timespec t = {wait_ms / 1000, 0};
        nanosleep(&t, NULL);
        end(&s);
        if (was_said("tuned softmax") || was_said("in the background: ")) fail_msg("%s", said.text);
    }
    unsetenv("TG_FAULT");
    setenv("TG_TUNE_SHARE", "100", 1);
}

static atomic_bool stops;
static void stop_after_some(void *user, const TuneProgress *p) {
    (void)user;
    if (p->measured >= 12) stops = true;
}

/// The measurements of a stopped background search are not a result, but the next search uses them.
static void goes_on(void **state) {
    (void)state;
    Ctx *ctx = ctx_create(NULL);
    Request r = matmul_request(ctx, NULL, 64, 64, 64);
    TuneOptions o = {.mode = TUNE_BACKGROUND,
                     .device = -1,
                     .helpers = 1,
                     .progress = stop_after_some,
                     .stop = &stops};
    TuneResult found, other;
    uint64_t code;
    int earlier = 0;
    stops = false;
    setenv("TG_FAULT", "slow@BM=32", 1); // far slower in a short timing
    assert_int_equal(tune_request(ctx, &r, &o, &found), TG_OK);
    assert_true(found.interrupted);
    assert_false(tune_find(ctx, &r, -1, &other));
    assert_true(tune_earlier(ctx, &r, -1, &other, &code));
    stops = false;
    o.progress = NULL;
    if (tune_request(ctx, &r, &o, &found)) fail_msg("%s", tg_last_error());
    assert_false(found.interrupted || found.known);
    for (int i = 0; i < found.n_trials; i++) earlier += found.trials[i].earlier;
    unsetenv("TG_FAULT");
    assert_true(earlier > 0);
    assert_true(tune_find(ctx, &r, -1, &other));
    ctx_destroy(ctx);
}

/// A process exits in the middle of a search, without destroying its modules.
static void exits(void **state) {
    (void)state;
    setenv("TG_CACHE", "off", 1);
    for (int wait_ms = 2000; wait_ms <= 3500; wait_ms += 500) {
        int status;
        pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0) {
            Setup s;
            struct timespec t = {wait_ms / 1000, wait_ms % 1000 * 1000000};
            begin(&s, "background", 20000);
            for (int i = 0; i < 30; i++) launch(&s);
            nanosleep(&t, NULL);
            exit(0);
        }
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_int_equal(status, 0);
    }
}

static void off(void **state) {
    (void)state;
    Setup s;
    setenv("TG_CACHE", "off", 1);
    begin(&s, "off", 0);
    assert_string_equal(decision(&s, ROWS), "");
    for (int i = 0; i < 40; i++) launch(&s);
    assert_false(was_said("tuned"));
    if (strncmp(decision(&s, ROWS), "BR=", 3) != 0 ||
        !strstr(decision(&s, ROWS), "; by the cost model"))
        fail_msg("%s", decision(&s, ROWS));
    end(&s);
    assert_int_equal(tg_kernel_decision(NULL, NULL, 0, NULL, 0), TG_ERROR_ARGUMENT);
    static const char *const none[] = {"fast",
                                       "sample"}; // the latter is a mode of the command only
    for (int i = 0; i < 2; i++) {
        tg_module_options options = {.size = sizeof options, .tune = none[i]};
        tg_module *m;
        assert_int_equal(tg_module_from_source(source, strlen(source), "test.teg", &options, &m),
                         TG_ERROR_ARGUMENT);
        assert_non_null(strstr(tg_last_error(), none[i]));
    }
}

/// An unknown shape is an error; a tuned one is not.
enum { FEW = 5 }; // rows that no other test has
static void strict(void **state) {
    (void)state;
    Setup s;
    make_standard_slow();
    begin(&s, "strict", 0);
    const int64_t shape[2] = {FEW, ROW};
    DLTensor x = tg_dense(s.x, kDLFloat, 32, 2, shape), y = tg_dense(s.y, kDLFloat, 32, 2, shape);
    tg_arg args[2] = {tg_tensor(&x), tg_tensor(&y)};
    assert_int_equal(tg_launch(s.kernel, args, 2), TG_ERROR_NOT_FOUND);
    if (!strstr(tg_last_error(), "softmax: tuning is strict, and nothing that was tuned is known"))
        fail_msg("%s", tg_last_error());
    end(&s);
    begin(&s, "block", BUDGET_MS);
    launch_rows(&s, FEW);
    end(&s);
    begin(&s, "strict", 0);
    launch_rows(&s, FEW);
    if (!strstr(decision(&s, FEW), "; tuned for these extents: "))
        fail_msg("%s", decision(&s, FEW));
    end(&s);
    unsetenv("TG_FAULT");
}

static int new_cache(void **state) {
    (void)state;
    static char folder[256];
    snprintf(folder, sizeof folder, "%s/tune-XXXXXX", TEST_OUT);
    if (!mkdtemp(folder)) return -1;
    setenv("TG_CACHE", folder, 1);
    return 0;
}

int main(void) {
    setenv("TG_TUNE_SHARE", "100", 1);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(blocks, new_cache),
        cmocka_unit_test_setup(not_elsewhere, new_cache),
        cmocka_unit_test_setup(not_on_another_gpu, new_cache),
        cmocka_unit_test(in_the_background),
        cmocka_unit_test_setup(goes_on, new_cache),
        cmocka_unit_test_setup(after_a_neighbour, new_cache),
        cmocka_unit_test(cancelled),
        cmocka_unit_test(exits),
        cmocka_unit_test(off),
        cmocka_unit_test_setup(strict, new_cache),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
