// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The candidates of a search: the default comes first, no candidate appears twice, and invalid ones
// are reported with a reason.
#include "tests/tune/request.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

static void in_context(void (*test)(Ctx *ctx, void *arg)) {
    Ctx *ctx = ctx_create(NULL);
    assert_int_equal(ctx_protect(ctx, test, NULL), CTX_OK);
    assert_int_equal(diag_errors(ctx), 0);
    ctx_destroy(ctx);
}

static void check_order(const TuneSpace *s) {
    assert_true(s->at[0].standard);
    assert_null(s->at[0].why);
    for (int i = 1; i < s->n; i++) {
        const TuneCandidate *a = &s->at[i - 1], *b = &s->at[i];
        assert_false(b->standard);
        if (i > 1) assert_true(!!a->why <= !!b->why);
        if (i > 1 && !a->why && !b->why) assert_true(a->predicted <= b->predicted);
        for (int j = 0; j < i; j++) assert_string_not_equal(s->at[j].config, b->config);
    }
}

/// The default is the setting that a launch takes without tuning.
static void default_first(Ctx *ctx, void *arg) {
    static const char *const targets[] = {"v3", "sm_90a", "sm_80", "gfx942"};
    (void)arg;
    for (size_t i = 0; i < sizeof targets / sizeof *targets; i++) {
        Request r = matmul_request(ctx, targets[i], 512, 512, 512);
        TuneSpace s;
        Build b;
        assert_true(tune_space(ctx, &r, &s));
        assert_true(s.n > 8 && s.n_all >= s.n);
        check_order(&s);
        assert_true(request_build(ctx, &r, &b) && build_elaborate(&b));
        for (int k = 0; k < b.code->n_config; k++)
            assert_int_equal(value_in(&s.at[0], b.code->config[k].name), b.code->config[k].value);
        assert_string_equal(s.shape, "M=512 K=512 N=512");
        assert_true(s.flops == 2.0 * 512 * 512 * 512);
        assert_true(s.bytes == 3.0 * 4 * 512 * 512);
    }
}

/// Pinned values are in every candidate. Axes are combined with the settings that the model
/// prefers.
static void pinned(Ctx *ctx, void *arg) {
    (void)arg;
    const NamedValue set[] = {{"BK", 64}, {"stages", 3}};
    Request r = matmul_request(ctx, "sm_90a", 512, 512, 512);
    TuneSpace s;
    bool warps = false;
    r.n_set = 2;
    r.set = set;
    assert_true(tune_space(ctx, &r, &s));
    check_order(&s);
    for (int i = 0; i < s.n; i++) {
        assert_int_equal(value_in(&s.at[i], "BK"), 64);
        assert_int_equal(value_in(&s.at[i], "stages"), 3);
        warps |= value_in(&s.at[i], "warps") > 0;
    }
    assert_true(warps);
}

/// All combinations of the values that `schedule` lists are tried. Untuned launches use the first
/// values. A pinned value replaces the list.
static void narrowed(Ctx *ctx, void *arg) {
    const NamedValue set[] = {{"warps", 16}};
    Request r = matmul_request(ctx, "sm_90a", 512, 512, 512);
    TuneSpace s;
    int seen[2][2][2] = {0}; // by BM, warps, stages
    (void)arg;
    r.kernel = "narrowed";
    assert_true(tune_space(ctx, &r, &s));
    check_order(&s);
    assert_int_equal(value_in(&s.at[0], "warps"), 8);
    assert_int_equal(value_in(&s.at[0], "stages"), value_in(&s.at[0], "BM") / 32);
    for (int i = 0; i < s.n; i++) {
        int64_t bm = value_in(&s.at[i], "BM"), warps = value_in(&s.at[i], "warps");
        int64_t stages = value_in(&s.at[i], "stages");
        assert_true((warps == 8 || warps == 4) && (stages == bm / 32 || stages == 3));
        assert_int_equal(value_in(&s.at[i], "order"), 4);
        assert_int_equal(value_in(&s.at[i], "split"), 1);
        seen[bm == 64][warps == 8][stages == 3]++;
    }
    for (int i = 0; i < 8; i++) assert_true(seen[i >> 2][i >> 1 & 1][i & 1] > 0);
    r.n_set = 1;
    r.set = set;
    assert_true(tune_space(ctx, &r, &s));
    assert_true(s.n > 2);
    for (int i = 0; i < s.n; i++) assert_int_equal(value_in(&s.at[i], "warps"), 16);
}

/// `specialise` makes all dims constants when it is pinned; searches do not try it.
static void specialised(Ctx *ctx, void *arg) {
    const NamedValue set[] = {{"specialise", 1}};
    const int ranks[] = {1, 1};
    const int64_t shapes[][4] = {{100}, {100}};
    Request r = matmul_request(ctx, "v3", 96, 80, 72),
            x = request_for(ctx, "exact", "v3", 2, ranks, shapes);
    Build b;
    TuneSpace s;
    (void)arg;
    assert_true(request_build(ctx, &r, &b) && build_elaborate(&b));
    assert_int_equal(b.code->n_specialised, 0);
    assert_true(tune_space(ctx, &r, &s));
    for (int i = 0; i < s.n; i++) assert_int_equal(value_in(&s.at[i], "specialise"), -1);
    r.n_set = 1;
    r.set = set;
    assert_true(request_build(ctx, &r, &b) && build_elaborate(&b));
    assert_int_equal(b.code->n_specialised, 3);
    for (int i = 0; i < b.code->n_dims; i++)
        assert_int_equal(b.code->dims[i].least, b.code->dims[i].most);
    assert_true(request_build(ctx, &x, &b) && build_elaborate(&b));
    assert_int_equal(b.code->n_specialised, 1);
}

/// The order of tiles and the number of tiles in a task, each changed alone.
static void numbering(Ctx *ctx, void *arg) {
    static const char *const targets[] = {"v3", "sm_90a", "gfx942"};
    (void)arg;
    for (size_t t = 0; t < sizeof targets / sizeof *targets; t++) {
        Request r = matmul_request(ctx, targets[t], 2048, 2048, 512);
        TuneSpace s;
        int orders = 0, grains = 0;
        assert_true(tune_space(ctx, &r, &s));
        for (int i = 0; i < s.n; i++) {
            bool order = value_in(&s.at[i], "order") != -1, grain = value_in(&s.at[i], "grain") > 0;
            orders += order;
            grains += grain;
            if (order || grain) assert_int_equal(s.at[i].n_set, s.at[0].n_set + 1);
        }
        assert_true(orders >= 12 && (t == 0) == (grains > 0));
        r = softmax_request(ctx, targets[t], 256, 100);
        assert_true(tune_space(ctx, &r, &s));
        for (int i = 0; i < s.n; i++) assert_int_equal(value_in(&s.at[i], "order"), -1);
    }
}

static int count_values(const TuneSpace *s, const char *setting, const char *axis, int64_t value) {
    int n = 0;
    for (int i = 0; i < s->n; i++)
        n += strstr(s->at[i].config, setting) && value_in(&s->at[i], axis) == value;
    return n;
}

/// Values without an effect are not offered: parts of a loop that is not split, tasks of more
/// programs than exist, orders of a grid with one row.
static void no_effect(Ctx *ctx, void *arg) {
    static const int64_t splits[] = {1, 2, 4, 8}, grains[] = {1, 4, 16, 64};
    static const int64_t orders[] = {1, 4, 16, -8};
    (void)arg;
    TuneSpace s;
    Request r = softmax_request(ctx, "v3", 48, 100); // 12 programs of BR=4, 3 of 16
    assert_true(tune_space(ctx, &r, &s));
    for (int i = 0; i < 4; i++) assert_int_equal(count_values(&s, "", "split", splits[i]), 0);
    for (int i = 0; i < 4; i++) {
        assert_int_equal(count_values(&s, "BR=1 ", "grain", grains[i]), 1);
        assert_int_equal(count_values(&s, "BR=4 ", "grain", grains[i]), i < 3);
        assert_int_equal(count_values(&s, "BR=16 ", "grain", grains[i]), i < 2);
    }
    // The loop of few programs may be split; others are not.
    r = matmul_request(ctx, "v3", 64, 128, 4096);
    assert_true(tune_space(ctx, &r, &s));
    assert_int_equal(count_values(&s, "", "split", 1), 0);
    assert_true(count_values(&s, "", "split", 2) > 0 && count_values(&s, "", "split", 4) > 0);
    for (int i = 0; i < 4; i++) // one row, or one column
        assert_int_equal(count_values(&s, "BM=64 ", "order", orders[i]), 0);
    r = matmul_request(ctx, "v3", 8192, 8192, 512);
    assert_true(tune_space(ctx, &r, &s));
    for (int i = 0; i < 4; i++) assert_int_equal(count_values(&s, "", "split", splits[i]), 0);
    for (int i = 0; i < 4; i++) assert_true(count_values(&s, "", "order", orders[i]) > 0);
    // Four rows are one super-row for groups of 4 and of 16; four columns are no super-column.
    r = matmul_request(ctx, "v3", 256, 256, 512);
    assert_true(tune_space(ctx, &r, &s));
    assert_true(count_values(&s, "BM=64 BN=64 ", "order", 4) > 0);
    assert_int_equal(count_values(&s, "BM=64 BN=64 ", "order", 16), 0);
    assert_int_equal(count_values(&s, "BM=64 BN=64 ", "order", -8), 0);
}

/// With a driver known to load its code, and libNVVM installed, the other code generator is tried.
static void generators(Ctx *ctx, void *arg) {
    (void)arg;
    for (int driver = 0; driver <= 13000; driver += 13000) {
        Request r = matmul_request(ctx, "sm_90a", 512, 512, 512);
        TuneSpace s;
        bool second = false;
        r.driver = driver;
        assert_true(tune_space(ctx, &r, &s));
        for (int i = 0; i < s.n; i++) second |= value_in(&s.at[i], "generator") == 2;
        assert_int_equal(second, driver && nvidia_takes_nvvm(driver));
    }
}

/// A row that is too long for a CTA's registers is ruled out before compilation.
static void reasons(Ctx *ctx, void *arg) {
    (void)arg;
    Request r = softmax_request(ctx, "sm_80", 256, 20000);
    TuneSpace s;
    int n = 0;
    assert_true(tune_space(ctx, &r, &s));
    for (int i = 0; i < s.n; i++) {
        if (!s.at[i].why) continue;
        assert_true(s.at[i].why[0]);
        n++;
    }
    assert_true(n > 0);
}

static const TuneCandidate *with_axis(const TuneSpace *s, const char *axis, int64_t value) {
    for (int i = 0; i < s->n; i++)
        if (s->at[i].n_axes == 1 && s->at[i].setting == s->at[0].setting &&
            value_in(&s->at[i], axis) == value)
            return &s->at[i];
    fail_msg("no %s=%d", axis, (int)value);
    return NULL;
}

/// The model is asked about each value of an axis that it knows: fewer stages wait longer, too few
/// warps are no candidates, and splitting a loop is useless on a full GPU.
static void modelled(Ctx *ctx, void *arg) {
    Request r = half_request(ctx, "sm_90a", 4096, 4096, 4096);
    TuneSpace s;
    (void)arg;
    assert_true(tune_space(ctx, &r, &s));
    assert_non_null(strstr(s.at[0].config, "BM=128 BN=256"));
    double own = s.at[0].predicted;
    assert_true(with_axis(&s, "stages", 2)->predicted > 1.1 * own);
    assert_true(with_axis(&s, "stages", 4)->predicted < 1.05 * own);
    assert_true(with_axis(&s, "split", 2)->predicted > 2 * own);
    assert_true(with_axis(&s, "warps", 4)->predicted > 3 * own);
    // Programs of a pair read half of the shared operand, and wait for each other.
    double pairs = with_axis(&s, "cluster", 2)->predicted;
    assert_true(pairs > 0.9 * own && pairs < 1.1 * own);
    // A small grid with a long loop splits it. The search then also tries the whole loop.
    r = half_request(ctx, "sm_90a", 128, 128, 65536);
    assert_true(tune_space(ctx, &r, &s));
    assert_true(value_in(&s.at[0], "split") > 16);
    assert_true(with_axis(&s, "split", 1)->predicted > 2 * s.at[0].predicted);
    // Of a shorter one the model is not sure, but it lists parts.
    r = half_request(ctx, "sm_90a", 128, 128, 8192);
    assert_true(tune_space(ctx, &r, &s));
    assert_true(with_axis(&s, "split", 4)->predicted < 2 * s.at[0].predicted);
    // The model has no price of a split loop with a merge function.
    const int ranks[] = {2, 1};
    const int64_t shapes[][4] = {{8, 1 << 20}, {8}};
    r = request_for(ctx, "greatest", "sm_90a", 2, ranks, shapes);
    assert_true(tune_space(ctx, &r, &s));
    assert_true(with_axis(&s, "split", 2)->predicted > 1.05 * s.at[0].predicted);
}

static void nothing_to_choose(Ctx *ctx, void *arg) {
    (void)arg;
    const int64_t shapes[2][4] = {{1000}, {1000}};
    Request r = request_for(ctx, "plain", "v3", 2, (const int[]){1, 1}, shapes);
    TuneSpace s;
    assert_true(tune_space(ctx, &r, &s));
    check_order(&s);
}

/// Equal requests give equal numbers, which decide ties. For products whose programs skip work, the
/// roof is that of the smallest tiles, whatever the default, since they do the least work.
static void skipped(Ctx *ctx, void *arg) {
    (void)arg;
    const int64_t n = 512, shapes[3][4] = {{n, n}, {n, n}, {n, n}};
    double least = 0;
    for (int64_t end = 32; end <= n; end += 32) least += 2.0 * 32 * (double)(end * n);
    for (int i = 0; i < 2; i++) {
        const char *target = i ? "sm_90a" : NULL;
        Request r = request_for(ctx, "lower", target, 3, (const int[]){2, 2, 2}, shapes);
        TuneSpace s;
        assert_true(tune_space(ctx, &r, &s));
        assert_true(s.flops == least);
        assert_true(s.flops < 0.54 * 2 * (double)(n * n * n));
    }
}

static void repeatable(Ctx *ctx, void *arg) {
    (void)arg;
    Request r = matmul_request(ctx, "sm_90a", 4096, 4096, 512);
    TuneSpace s, t;
    assert_true(tune_space(ctx, &r, &s) && tune_space(ctx, &r, &t));
    assert_int_equal(s.n, t.n);
    for (int i = 0; i < s.n; i++) assert_string_equal(s.at[i].config, t.at[i].config);
}

static bool has_config(const TuneSpace *s, const char *config) {
    for (int i = 0; i < s->n; i++)
        if (strcmp(s->at[i].config, config) == 0) return true;
    return false;
}

/// A sample has any settings that `where` allows, by the seed: also settings that the model rules
/// out, values that the list lacks, and several axes at once.
static void sampled(Ctx *ctx, void *arg) {
    static const char *const targets[] = {"v3", "sm_90a"};
    (void)arg;
    for (size_t t = 0; t < sizeof targets / sizeof *targets; t++) {
        Request r = matmul_request(ctx, targets[t], 512, 512, 512);
        TuneSpace list, s, again, other;
        int most = 0, unlisted = 0, differ = 0;
        assert_true(tune_space(ctx, &r, &list) && tune_sample(ctx, &r, 7, &s));
        assert_true(tune_sample(ctx, &r, 7, &again) && tune_sample(ctx, &r, 8, &other));
        assert_true(s.n == again.n && s.n > 100);
        assert_true(s.at[0].standard && strcmp(s.at[0].config, list.at[0].config) == 0);
        for (int i = 0; i < s.n; i++) {
            const TuneCandidate *c = &s.at[i];
            assert_true(!c->why && value_in(c, "BM") * value_in(c, "BN") <= 8192);
            assert_string_equal(c->config, again.at[i].config);
            unlisted += !has_config(&list, c->config);
            differ += !has_config(&other, c->config);
            if (c->n_axes > most) most = c->n_axes;
            for (int j = 0; j < i; j++) assert_string_not_equal(s.at[j].config, c->config);
        }
        assert_true(most >= 3 && unlisted > s.n / 2 && differ > 0);
    }
    // The model rules out settings for a row that is too long for registers.
    Request r = softmax_request(ctx, "sm_80", 256, 20000);
    TuneSpace list, s;
    bool ruled_out = false;
    assert_true(tune_space(ctx, &r, &list) && tune_sample(ctx, &r, 1, &s));
    for (int i = 0; i < list.n; i++)
        ruled_out |= list.at[i].why && has_config(&s, list.at[i].config);
    assert_true(ruled_out);
}

/// A setting that is not listed is a candidate if this kernel allows it.
static void added(Ctx *ctx, void *arg) {
    Request r = matmul_request(ctx, "v3", 512, 512, 512);
    TuneSpace s;
    (void)arg;
    assert_true(tune_space(ctx, &r, &s));
    int n = s.n;
    assert_false(tune_space_add(ctx, &s, "BM=64 BN=64"));
    assert_false(tune_space_add(ctx, &s, "BM=64 BN=64 BK="));
    assert_false(tune_space_add(ctx, &s, "BM=64 BN=64 BK=48"));
    assert_false(tune_space_add(ctx, &s, "BM=128 BN=128 BK=32"));
    assert_true(tune_space_add(ctx, &s, "BM=64 BN=64 BK=32 split=3 order=5"));
    assert_int_equal(s.n, n + 1);
    assert_int_equal(value_in(&s.at[n], "split"), 3);
    assert_null(s.at[n].why);
}

static void test_modelled(void **state) {
    (void)state;
    in_context(modelled);
}
static void test_sampled(void **state) {
    (void)state;
    in_context(sampled);
}
static void test_added(void **state) {
    (void)state;
    in_context(added);
}
static void test_default_first(void **state) {
    (void)state;
    in_context(default_first);
}
static void test_pinned(void **state) {
    (void)state;
    in_context(pinned);
}
static void test_no_effect(void **state) {
    (void)state;
    in_context(no_effect);
}
static void test_numbering(void **state) {
    (void)state;
    in_context(numbering);
}
static void test_generators(void **state) {
    (void)state;
    in_context(generators);
}
static void test_narrowed(void **state) {
    (void)state;
    in_context(narrowed);
}
static void test_specialised(void **state) {
    (void)state;
    in_context(specialised);
}
static void test_reasons(void **state) {
    (void)state;
    in_context(reasons);
}
static void test_nothing_to_choose(void **state) {
    (void)state;
    in_context(nothing_to_choose);
}
static void test_skipped(void **state) {
    (void)state;
    in_context(skipped);
}
static void test_repeatable(void **state) {
    (void)state;
    in_context(repeatable);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_default_first), cmocka_unit_test(test_pinned),
        cmocka_unit_test(test_reasons),       cmocka_unit_test(test_nothing_to_choose),
        cmocka_unit_test(test_repeatable),    cmocka_unit_test(test_generators),
        cmocka_unit_test(test_numbering),     cmocka_unit_test(test_no_effect),
        cmocka_unit_test(test_specialised),   cmocka_unit_test(test_narrowed),
        cmocka_unit_test(test_sampled),       cmocka_unit_test(test_modelled),
        cmocka_unit_test(test_added),         cmocka_unit_test(test_skipped),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
