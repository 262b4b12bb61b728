// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Reports of tuning: their contents, and that a page is well formed for any texts. With
// TEGULA_TUNE_PAGE=FILE the page is written there for inspection.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "driver/json.h"
#include "tools/tegula/tune/tune.h"

enum { MEASURED = 60, PRUNED = 20 };

static int setup(void **state) {
    *state = ctx_create(NULL);
    return *state ? 0 : -1;
}

static int teardown(void **state) {
    ctx_destroy(*state);
    return 0;
}

static TuneTrial trial(Ctx *ctx, int i) {
    double seconds = 100e-6 * (1 + 0.03 * ((i * 37) % MEASURED));
    TuneTrial t = {.config = ctx_format(ctx, "BM=%d BN=128 BK=64 warps=%d", 32 << i % 3, i),
                   .verdict = seconds < 101e-6 ? TUNE_WON : TUNE_SLOWER,
                   .standard = i == 31,
                   .sibling = i ? NULL : "GPU <1>, sm_90, 114 SMs",
                   .predicted = seconds * (i % 2 ? 1.2 : 0.8),
                   .compiled = 0.15,
                   .seconds = seconds,
                   .low = seconds * 0.99,
                   .high = seconds * 1.02,
                   .launches = 30,
                   .registers = 128,
                   .spills = 0,
                   .shared_bytes = 65536};
    return t;
}

/// A search with every verdict.
static Tuning example(Ctx *ctx) {
    TuneTrial *all = ctx_array(ctx, TuneTrial, MEASURED + PRUNED + TUNE_VERDICTS);
    int n = 0;
    for (int i = 0; i < MEASURED; i++) all[n++] = trial(ctx, i);
    for (int i = 0; i < PRUNED + TUNE_VERDICTS; i++) {
        bool pruned = i < PRUNED || i - PRUNED > TUNE_WRONG;
        all[n++] = (TuneTrial){.config = ctx_format(ctx, "BM=512 warps=%d", i),
                               .why = "shared memory: 262144 of 232448 <bytes> & \"more\"",
                               .verdict = pruned ? TUNE_PRUNED : (TuneVerdict)(i - PRUNED),
                               .predicted = i % 2 ? -1 : 1e-3,
                               .compiled = -1,
                               .seconds = -1,
                               .low = -1,
                               .high = -1,
                               .launches = -1,
                               .registers = -1,
                               .spills = -1,
                               .shared_bytes = -1};
    }
    return (Tuning){.title = "matmul<f16> M=4096 N=4096 K=4096",
                    .result = {.kernel = "matmul",
                               .target = "sm_90a",
                               .device = "NVIDIA H200 <0> & co",
                               .shape = "M=4096 N=4096 K=4096",
                               .config = all[0].config,
                               .seconds = 100e-6,
                               .standard = 127e-6,
                               .roof = 80e-6,
                               .spent = 2.1,
                               .budget = 10,
                               .flops = 137e9,
                               .bytes = 100e6,
                               .n_trials = n,
                               .n_space = 512,
                               .trials = all}};
}

static void expect(const char *text, const char *part) {
    if (!strstr(text, part)) fail_msg("'%s' is not in\n%.3000s", part, text);
}

static void test_text(void **state) {
    Tuning tuning = example(*state);
    Text t = {.ctx = *state};
    tune_text(&t, &tuning, 5);
    expect(t.data, "best: BM=32 BN=128 BK=64 warps=0, 100 us, 1.27 times as fast as the default, "
                   "80 % of the roof");
    expect(t.data, "60 of 512 settings in 2.1 s of 10 s: 1 won, 59 slower, 1 wrong");
    expect(t.data, "... and 55 that took longer");
    expect(t.data, "won (sibling: it won on GPU <1>)\n");
    for (int v = TUNE_REFUSED; v <= TUNE_WRONG; v++)
        expect(t.data, ctx_format(*state, "%s: shared memory", tune_verdict_name(v)));
    tuning.result.standard = 100e-6;
    expect(tune_gain(*state, &tuning.result), "no faster than the default");
}

/// Every line is a JSON object with the trial's data.
static void test_lines(void **state) {
    Tuning tuning = example(*state);
    Text t = {.ctx = *state};
    tune_lines(&t, &tuning);
    int n = 0;
    for (const char *line = t.data, *end; *line; line = end + 1, n++) {
        const char *error = "";
        const TuneTrial *x = &tuning.result.trials[n];
        end = strchr(line, '\n');
        const Json *j = json_read(*state, line, (size_t)(end - line), &error);
        if (!j) fail_msg("line %d: %s", n + 1, error);
        assert_string_equal(json_member(j, "config")->text, x->config);
        assert_string_equal(json_member(j, "sibling")->text, x->sibling ? x->sibling : "");
        assert_string_equal(json_member(j, "verdict")->text, tune_verdict_name(x->verdict));
        if (x->seconds < 0)
            assert_int_equal(json_member(j, "seconds")->kind, JSON_NULL);
        else
            assert_float_equal(json_member(j, "seconds")->number / x->seconds, 1, 1e-5);
    }
    assert_int_equal(n, tuning.result.n_trials);
}

/// Tags close in order, and no text opens one. `<meta>`, `<!doctype>` and tags that end in `/>`
/// stand alone.
static void expect_well_formed(const char *page) {
    char open[64][16];
    int depth = 0;
    for (const char *c = strchr(page, '<'); c; c = strchr(c + 1, '<')) {
        size_t n = strcspn(c + 1, " >/");
        const char *end = strchr(c, '>');
        assert_non_null(end);
        if (c[1] == '/') {
            n = (size_t)(end - c - 2);
            if (!depth--) fail_msg("nothing to close at %.40s", c);
            if (strlen(open[depth]) != n || strncmp(open[depth], c + 2, n) != 0)
                fail_msg("%s is open at %.40s", open[depth], c);
        } else if (c[1] != '!' && strncmp(c + 1, "meta", 4) != 0 && end[-1] != '/') {
            assert_true(depth < 64 && n < sizeof *open);
            memcpy(open[depth], c + 1, n);
            open[depth++][n] = 0;
        }
    }
    assert_int_equal(depth, 0);
}

static void test_page(void **state) {
    Tuning tunings[3] = {example(*state), example(*state), example(*state)};
    tunings[1].result.roof = 0;
    tunings[1].result.n_trials = 3; // few trials, all measured
    tunings[2].title = "nothing was measured";
    tunings[2].result.trials += MEASURED;
    tunings[2].result.n_trials -= MEASURED;
    const char *page = tune_page(*state, 3, tunings), *file = getenv("TEGULA_TUNE_PAGE");
    expect_well_formed(page);
    expect(page, "NVIDIA H200 &lt;0> &amp; co");
    expect(page, "262144 of 232448 &lt;bytes> &amp; &quot;more&quot;");
    expect(page, "prefers-color-scheme:dark");
    expect(page, "aria-labelledby");
    expect(page, "default: BM=64 BN=128 BK=64 warps=31"); // although it is not among the fastest
    for (const char *bad = "http:\0https:\0<script\0src=\0nan\0inf\0"; *bad; bad += strlen(bad) + 1)
        if (strstr(page, bad)) fail_msg("the page has '%s'", bad);
    FILE *f = file ? fopen(file, "w") : NULL;
    if (f) fputs(page, f), fclose(f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_text, setup, teardown),
        cmocka_unit_test_setup_teardown(test_lines, setup, teardown),
        cmocka_unit_test_setup_teardown(test_page, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
