// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Searches on this CPU from end to end: their results and their messages about failures. If a
// budget does not suffice on a busy machine, the search is repeated with twice the budget.
#include "tests/tune/request.h"
#include "tools/tegula/tune/tune.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void in_context(void (*test)(Ctx *ctx, void *arg)) {
    Ctx *ctx = ctx_create(NULL);
    assert_int_equal(ctx_protect(ctx, test, NULL), CTX_OK);
    ctx_destroy(ctx);
    unsetenv("TG_FAULT");
}

enum { BUDGET = 10, MOST_BUDGET = 80 }; // seconds

static const TuneTrial *trial_of(const TuneResult *r, const char *text) {
    for (int i = 0; i < r->n_trials; i++)
        if (strstr(r->trials[i].config, text)) return &r->trials[i];
    return NULL;
}

typedef bool Enough(const TuneResult *r, const char *text);

static bool has_reached(const TuneResult *r, const char *config) {
    const TuneTrial *t = trial_of(r, config);
    return t && t->verdict != TUNE_NOT_REACHED;
}

static bool is_judged(const TuneResult *r, const char *by) {
    return strstr(r->judged, by);
}

/// It was timed closely and called slower, but is not.
static bool is_looked_at(const TuneResult *r, const char *config) {
    const TuneTrial *t = trial_of(r, config);
    return t && (t->verdict == TUNE_WON || t->verdict == TUNE_WRONG);
}

/// Searches with enough time; enough NULL: any result suffices.
static tg_status try_search(Ctx *ctx, const Request *r, TuneOptions o, Enough *enough,
                            const char *text, TuneResult *result) {
    for (;; o.budget *= 2) {
        tg_status status = tune_request(ctx, r, &o, result);
        bool found = !status && (!enough || enough(result, text));
        if (found || o.budget >= MOST_BUDGET) return status;
    }
}

static TuneResult search(Ctx *ctx, const Request *r, Enough *enough, const char *text) {
    TuneOptions o = {.mode = TUNE_BLOCK, .budget = BUDGET, .seed = 1, .device = -1};
    TuneResult result;
    tg_status status = try_search(ctx, r, o, enough, text, &result);
    if (status) printf("%s\n", tg_last_error());
    assert_int_equal(status, TG_OK);
    if (getenv("TG_TEST_VERBOSE"))
        for (int i = 0; i < result.n_trials; i++) {
            const TuneTrial *t = &result.trials[i];
            printf("%-12s %-24s predicted %8.1f us, %8.1f us [%8.1f %8.1f] of %3d, compiled %.3f: "
                   "%s\n",
                   tune_verdict_name(t->verdict), t->config, t->predicted * 1e6, t->seconds * 1e6,
                   t->low * 1e6, t->high * 1e6, t->launches, t->compiled, t->why ? t->why : "");
        }
    return result;
}

static void check_result(const TuneResult *r) {
    int won = 0;
    assert_true(r->n_trials > 1 && r->n_space >= r->n_trials);
    assert_true(r->trials[0].standard);
    assert_true(r->seconds > 0 && r->standard > 0);
    for (int i = 0; i < r->n_trials; i++) {
        const TuneTrial *t = &r->trials[i];
        won += t->verdict == TUNE_WON;
        if (t->verdict == TUNE_WON) assert_string_equal(t->config, r->config);
        if (t->verdict == TUNE_PRUNED || t->verdict == TUNE_WRONG) assert_non_null(t->why);
        if (t->seconds > 0) assert_true(t->low <= t->seconds && t->seconds <= t->high);
    }
    assert_int_equal(won, 1);
}

static void finds_a_winner(Ctx *ctx, void *arg) {
    (void)arg;
    Request r = matmul_request(ctx, NULL, 160, 160, 160);
    TuneResult t = search(ctx, &r, NULL, NULL);
    check_result(&t);
    assert_true(t.seconds <= 1.02 * t.standard);
    assert_string_equal(t.shape, "M=160 K=160 N=160");
}

/// The budget ends the search, because more candidates remain.
static void ends_with_its_budget(Ctx *ctx, void *arg) {
    (void)arg;
    Request r = matmul_request(ctx, NULL, 640, 640, 640);
    TuneOptions o = {.mode = TUNE_BLOCK, .budget = 3, .device = -1};
    TuneResult t;
    assert_int_equal(try_search(ctx, &r, o, NULL, NULL, &t), TG_OK);
    check_result(&t);
    int left = 0;
    for (int i = 0; i < t.n_trials; i++) left += t.trials[i].verdict == TUNE_NOT_REACHED;
    assert_true(left > 0);
}

/// One candidate of each kind fails. Each is named, and another one wins. (`confirms` has those
/// with wrong results.)
static void survives(Ctx *ctx, void *arg) {
    const struct {
        const char *fault, *config;
        TuneVerdict verdict;
        const char *why;
    } *row = arg, rows[] = {
                      {"compile-crash@BR=4", "BR=4", TUNE_CRASHED, "signal 11"},
                      {"compile-hang@BR=4", "BR=4", TUNE_HUNG, ""},
                      {"compile-error@BR=4", "BR=4", TUNE_REFUSED, "injected"},
                      {"crash@BR=4", "BR=4", TUNE_CRASHED, "signal 11"},
                      {"hang@BR=4", "BR=4", TUNE_HUNG, "no result after"},
                      {"launch@BR=4", "BR=4", TUNE_FAILED, ""},
                  };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        row = &rows[i];
        setenv("TG_FAULT", row->fault, 1);
        Request r = softmax_request(ctx, NULL, 64, 100);
        // Another setting becomes the default.
        TuneSpace space;
        assert_true(tune_space(ctx, &r, &space));
        assert_null(strstr(space.at[0].config, row->config));
        TuneResult t = search(ctx, &r, has_reached, row->config);
        const TuneTrial *bad = trial_of(&t, row->config);
        assert_non_null(bad);
        if (bad->verdict != row->verdict || !bad->why || !strstr(bad->why, row->why))
            printf("%s: %s: %s\n", row->fault, tune_verdict_name(bad->verdict),
                   bad->why ? bad->why : "");
        assert_int_equal(bad->verdict, row->verdict);
        assert_non_null(strstr(bad->why, row->why));
        check_result(&t);
        assert_null(strstr(t.config, row->config));
    }
}

/// A large result is checked in pieces, and a first run may be right where later ones are wrong.
/// The error is found before the candidate wins. The default is slow, so the candidate would win.
static void confirms(Ctx *ctx, void *arg) {
    (void)arg;
    Request r = softmax_request(ctx, NULL, 6000, 1000);
    TuneSpace space;
    assert_true(tune_space(ctx, &r, &space));
    const char *standard = strstr(space.at[0].config, "BR="), *other = "BR=4";
    assert_string_not_equal(standard, other);
    TuneOptions o = {
        .mode = TUNE_BLOCK, .budget = BUDGET, .device = -1, .n_among = 1, .among = &other};
    const struct {
        const char *name, *why;
        int launches; // least launches before the error was found
    } faults[] = {{NULL, "", 4}, {"inside", "y", 4}, {"wrong", "y", 0}, {"flaky", "", 0}};
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) {
        const char *more = faults[i].name ? ctx_format(ctx, ",%s@%s", faults[i].name, other) : "";
        setenv("TG_FAULT", ctx_format(ctx, "slow@%s%s", standard, more), 1);
        TuneResult t;
        assert_int_equal(try_search(ctx, &r, o, is_looked_at, other, &t), TG_OK);
        check_result(&t);
        const TuneTrial *last = trial_of(&t, other);
        assert_string_equal(t.config, faults[i].name ? space.at[0].config : other);
        assert_true(last->launches >= faults[i].launches);
        if (!faults[i].name) continue;
        assert_int_equal(last->verdict, TUNE_WRONG);
        assert_non_null(strstr(last->why, faults[i].why));
    }
    const char *none = "BR=3";
    o.among = &none;
    TuneResult t;
    assert_int_equal(tune_request(ctx, &r, &o, &t), TG_ERROR_UNSUPPORTED);
    assert_non_null(strstr(tg_last_error(), "BR=3"));
}

/// If the default does not work, nothing can be checked against it.
static void standard_fails(Ctx *ctx, void *arg) {
    (void)arg;
    Request r = softmax_request(ctx, NULL, 64, 100);
    TuneSpace space;
    TuneResult t;
    assert_true(tune_space(ctx, &r, &space));
    setenv("TG_FAULT", ctx_format(ctx, "launch@%s", strstr(space.at[0].config, "BR=")), 1);
    TuneOptions o = {.mode = TUNE_BLOCK, .budget = 3, .device = -1};
    assert_int_equal(tune_request(ctx, &r, &o, &t), TG_ERROR_UNSUPPORTED);
    assert_non_null(strstr(tg_last_error(), "softmax"));
}

/// If the default disagrees with the interpreter, it does not win, and right candidates do not lose
/// for that. The report and the result say so.
static void standard_is_wrong(Ctx *ctx, void *arg) {
    (void)arg;
    Request r = softmax_request(ctx, NULL, 64, 100);
    TuneSpace space;
    assert_true(tune_space(ctx, &r, &space));
    const char *standard = strstr(space.at[0].config, "BR=");
    setenv("TG_FAULT", ctx_format(ctx, "wrong@%s", standard), 1);
    TuneResult t = search(ctx, &r, is_judged, "by the interpreter");
    assert_int_equal(t.trials[0].verdict, TUNE_WRONG);
    assert_non_null(strstr(tune_wrong_default(&t), "interpreter"));
    assert_true(t.standard < 0 && t.seconds > 0);
    assert_null(strstr(t.config, standard));
    assert_non_null(strstr(t.judged, "by the interpreter"));
    for (int i = 0; i < t.n_trials; i++)
        if (!strstr(t.trials[i].config, standard))
            assert_int_not_equal(t.trials[i].verdict, TUNE_WRONG);
    Text text = {.ctx = ctx};
    tune_text(&text, &(Tuning){.title = "softmax", .result = t}, 4);
    assert_non_null(strstr(text.data, "the default is wrong"));
}

/// A mistake that all settings share.
static void all_are_wrong(Ctx *ctx, void *arg) {
    (void)arg;
    Request r = softmax_request(ctx, NULL, 64, 100);
    TuneOptions o = {.mode = TUNE_BLOCK, .budget = MOST_BUDGET, .device = -1};
    TuneResult t;
    setenv("TG_FAULT", "wrong@BR=", 1);
    assert_int_equal(tune_request(ctx, &r, &o, &t), TG_ERROR_UNSUPPORTED);
    assert_non_null(strstr(tg_last_error(), "nothing that was tried is right"));
    assert_non_null(strstr(tg_last_error(), "interpreter"));
}

static void stops(Ctx *ctx, void *arg) {
    (void)arg;
    atomic_bool stop;
    atomic_init(&stop, true);
    Request r = matmul_request(ctx, NULL, 640, 640, 640);
    TuneOptions o = {.mode = TUNE_BLOCK, .budget = 30, .device = -1, .stop = &stop};
    TuneResult t;
    assert_int_equal(tune_request(ctx, &r, &o, &t), TG_OK);
    assert_true(t.interrupted && t.seconds < 0);
    assert_string_equal(t.config, "");
}

static void test_winner(void **state) {
    (void)state;
    in_context(finds_a_winner);
}
static void test_budget(void **state) {
    (void)state;
    in_context(ends_with_its_budget);
}
static void test_survives(void **state) {
    (void)state;
    in_context(survives);
}
static void test_confirms(void **state) {
    (void)state;
    in_context(confirms);
}
static void test_standard_fails(void **state) {
    (void)state;
    in_context(standard_fails);
}
static void test_standard_is_wrong(void **state) {
    (void)state;
    in_context(standard_is_wrong);
}
static void test_all_are_wrong(void **state) {
    (void)state;
    in_context(all_are_wrong);
}
static void test_stops(void **state) {
    (void)state;
    in_context(stops);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_winner),
        cmocka_unit_test(test_budget),
        cmocka_unit_test(test_survives),
        cmocka_unit_test(test_standard_fails),
        cmocka_unit_test(test_stops),
        cmocka_unit_test(test_confirms),
        cmocka_unit_test(test_standard_is_wrong),
        cmocka_unit_test(test_all_are_wrong),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
