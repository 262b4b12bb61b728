// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Objects that are tuned where they run: the variant of later launches, the stored results, and
// that callers see no effect except for time.
#include "tests/runtime/kernels.h"

#include "runtime/compiler.h"
#include "runtime/tune/trial.h"

#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

enum { N = 4096, VARIANTS = 5 };
enum { LAUNCHES = 20 }; // launches before a background search (runtime/tune/background.c)
enum { USUAL, SLOW, FAST, WRONG, FAILS };

/* ---- a kernel: y[i] += x[i], in ways that take more and less time ---------------------------- */

static _Atomic int *runs; // runs of each variant, shared with children

static const tg_site says = {.kind = TG_SITE_PRINT, .text = "added\n", .types = ""};

/// Not instrumented by ThreadSanitizer, like compiled code: instrumented stores would take most of
/// the time.
__attribute__((no_sanitize("thread"))) static int32_t add(const tg_slot *args, const tg_env *env,
                                                          int variant, int times) {
    const float *x = args[0].tensor.data;
    float *y = args[1].tensor.data;
    int64_t n = args[0].tensor.shape[0];
    volatile float sink = 0;
    for (int t = 1; t < times; t++)
        for (int64_t i = 0; i < n; i++) sink = sink + x[i];
    for (int64_t i = 0; i < n; i++) y[i] += x[i];
    seen.variant = variant;
    runs[variant]++;
    env->print(env, &says, NULL);
    return 0;
}

/// Times differ so much that a search finds the fastest on a busy machine.
static int32_t add_usual(const tg_slot *args, const tg_env *env) {
    return add(args, env, USUAL, 10);
}
static int32_t add_slow(const tg_slot *args, const tg_env *env) {
    return add(args, env, SLOW, 20);
}
static int32_t add_fast(const tg_slot *args, const tg_env *env) {
    return add(args, env, FAST, 1);
}
/// The fastest variant leaves out the last element.
static int32_t add_wrong(const tg_slot *args, const tg_env *env) {
    tg_slot own[2] = {args[0], args[1]};
    int64_t n = args[0].tensor.shape[0] - 1;
    own[0].tensor.shape = &n;
    return add(own, env, WRONG, 1);
}
static int32_t add_fails(const tg_slot *args, const tg_env *env) {
    static const tg_site site = {.kind = TG_SITE_ASSERT, .text = "no", .types = ""};
    (void)args;
    runs[FAILS]++;
    return (env->fail)(env, &site, NULL);
}

static const tg_fact dense[] = {{TG_FACT_STRIDE, 0, 0, 0, 0, 1}, {TG_FACT_STRIDE, 1, 0, 0, 0, 1}};
static const tg_hint hints[] = {{0, 0, {0}, 4096}, {0, 0, {0}, 64}, {0, 0, {0}, 65536}};
static const uint8_t two[] = {0, 1};
#define VARIANT(fn, text, hint)                                                                    \
    {                                                                                              \
        .entry = fn, .facts = dense, .n_facts = 2, .hints = hint, .n_hints = 1, .params = two,     \
        .n_params = 2, .config = text                                                              \
    }
static const tg_variant variants[VARIANTS] = {
    VARIANT(add_usual, "B=1", hints), VARIANT(add_slow, "B=2", hints + 1),
    VARIANT(add_fast, "B=3", hints + 2), VARIANT(add_wrong, "B=4", hints + 2),
    VARIANT(add_fails, "B=5", hints + 2)};
static const tg_param_info params[] = {
    {"x", TG_PARAM_TENSOR, 0, kDLFloat, 32, -1, 1, -1, 0},
    {"y", TG_PARAM_TENSOR, TG_PARAM_WRITTEN, kDLFloat, 32, -1, 1, -1, 0},
};
static const tg_kernel_info info = {
    "add", "kernel add(x: f32[N], y: f32[N])", params, variants, 2, 0, VARIANTS, 0};

/// A kernel as in a new process.
static tg_kernel fresh(void) {
    return (tg_kernel){.abi = TG_ABI, .info = &info};
}

/// The kernel of a test with other threads. The next test closes it after a failed assertion.
static tg_kernel shared;

/// Launches, checks the result, and checks the memory around it.
static int launch(tg_kernel *k, int64_t n) {
    static float x[N + 2], y[N + 2];
    for (int i = 0; i < N + 2; i++) x[i] = (float)i, y[i] = 1;
    DLTensor tx = row(x + 1, &n), ty = row(y + 1, &n);
    tg_arg args[2] = {tg_tensor(&tx), tg_tensor(&ty)};
    seen.variant = -1;
    if (tg_launch(k, args, 2)) fail_msg("%s", tg_last_error());
    for (int i = 0; i < N + 2; i++) {
        assert_true(x[i] == (float)i);
        assert_true(y[i] == (i >= 1 && i <= n ? (float)i + 1 : 1));
    }
    return seen.variant;
}

static int all_runs(void) {
    int n = 0;
    for (int i = 0; i < VARIANTS; i++) n += runs[i];
    return n;
}

/* ---- folders --------------------------------------------------------------------------------- */

static char cache[] = "/tmp/tegula-tune-XXXXXX", folder[64];

static int in_cache(char names[8][400]) {
    DIR *d = opendir(folder);
    int n = 0;
    for (struct dirent *e; d && (e = readdir(d)) && n < 8;)
        if (e->d_name[0] != '.') snprintf(names[n++], 400, "%s/%s", folder, e->d_name);
    if (d) closedir(d);
    return n;
}

static void empty_cache(void) {
    char names[8][400];
    for (int i = 0, n = in_cache(names); i < n; i++) unlink(names[i]);
}

/// Searches end when they know the fastest variant, however little of the machine they get. Removes
/// leftovers of a failed test: a search of its kernel, or its context.
static int begin(void **state) {
    (void)state;
    tg_kernel_close(&shared);
    tg_context_use(NULL);
    empty_cache();
    setenv("TG_TUNE", "exhaustive", 1);
    setenv("TG_CACHE", folder, 1);
    setenv("TG_TUNE_BUDGET_MS", "5000", 1);
    unsetenv("TG_TUNE_SHARE");
    return 0;
}

/* ---- tests ----------------------------------------------------------------------------------- */

static char said[400];

static void keep_line(void *user, const char *line) {
    (void)user;
    size_t n = strlen(said);
    snprintf(said + n, sizeof said - n, "%s\n", line);
}

/// An invalid environment is reported once, and changes nothing.
static void nonsense_is_said(void **state) {
    (void)state;
    tg_options options = {.size = sizeof options, .log = keep_line};
    tg_context *c;
    assert_int_equal(tg_context_create(&options, &c), TG_OK);
    tg_context_use(c);
    for (int i = 0; i < 4; i++) {
        tg_kernel k = fresh();
        setenv("TG_TUNE", i < 2 ? "fast" : "block", 1);
        setenv("TG_TUNE_BUDGET_MS", i < 2 ? "5000" : "soon", 1);
        int variant = launch(&k, N);
        assert_true(variant == USUAL || (i >= 2 && variant == FAST));
        tg_kernel_close(&k);
    }
    double share = 0;
    setenv("TG_TUNE_SHARE", "all", 1);
    assert_false(rt_busy_share(&share));
    setenv("TG_TUNE_SHARE", "25", 1);
    assert_true(rt_busy_share(&share) && share == 0.25);
    unsetenv("TG_TUNE_SHARE");
    assert_true(rt_busy_share(&share) && share == 0.01);
    const char *mode =
        strstr(said, "TG_TUNE: 'fast' is none of off, block, background, exhaustive");
    const char *budget = strstr(said, "TG_TUNE_BUDGET_MS: 'soon' is not a time in milliseconds");
    if (!mode || !budget) fail_msg("%s", said);
    assert_null(strstr(mode + 1, "TG_TUNE:"));
    assert_null(strstr(budget + 1, "TG_TUNE_BUDGET_MS:"));
    tg_context_use(NULL);
    tg_context_destroy(c);
}

static void off_by_default(void **state) {
    (void)state;
    static const char *const modes[] = {NULL, "off", "background", "nonsense"};
    for (int i = 0; i < 4; i++) {
        tg_kernel k = fresh();
        unsetenv("TG_TUNE");
        if (modes[i]) setenv("TG_TUNE", modes[i], 1);
        int before = all_runs();
        assert_int_equal(launch(&k, N), USUAL);
        assert_int_equal(all_runs(), before + 1);
        tg_kernel_close(&k);
    }
    assert_int_equal(in_cache((char[8][400]){{0}}), 0);
}

/// The first launch finds the fastest correct variant. Later launches with similar extents run it
/// at once. Another size gets a search of its own.
static void finds_the_fastest(void **state) {
    (void)state;
    tg_kernel k = fresh();
    int wrong = runs[WRONG], fails = runs[FAILS];
    assert_int_equal(launch(&k, N), FAST);
    assert_true(runs[WRONG] > wrong && runs[FAILS] > fails); // they were tried
    int before = all_runs();
    assert_int_equal(launch(&k, N), FAST);
    assert_int_equal(launch(&k, N - 100), FAST);
    assert_int_equal(all_runs(), before + 2);
    assert_int_equal(launch(&k, 1000), FAST);
    assert_true(all_runs() > before + 10);
    tg_kernel_close(&k);
}

/// A launch's search ends with its budget, and later launches do not change its choice.
static void within_a_budget(void **state) {
    (void)state;
    static const char *const budgets[] = {"0.001", "50", "1000"};
    setenv("TG_TUNE", "block", 1);
    for (int i = 0; i < 3; i++) {
        tg_kernel k = fresh();
        setenv("TG_TUNE_BUDGET_MS", budgets[i], 1);
        int variant = launch(&k, N), before = all_runs();
        assert_true(variant == USUAL || variant == FAST);
        for (int n = 0; n < 3; n++) assert_int_equal(launch(&k, N), variant);
        assert_int_equal(all_runs(), before + 3);
        tg_kernel_close(&k);
        empty_cache();
    }
}

static _Atomic int printed;
static void count_print(void *user, const char *text) {
    (void)user, (void)text;
    printed++;
}

/// Prints of kernels during trials do not reach the program.
static void prints_once(void **state) {
    (void)state;
    tg_options options = {.size = sizeof options, .threads = 1, .print = count_print};
    tg_kernel k = fresh();
    tg_context *c;
    assert_int_equal(tg_context_create(&options, &c), TG_OK);
    tg_context_use(c);
    for (int i = 1; i <= 3; i++) {
        assert_int_equal(launch(&k, N), FAST);
        assert_int_equal(printed, i);
    }
    tg_context_use(NULL);
    tg_context_destroy(c);
    tg_kernel_close(&k);
}

/// Another process finds the result; one with other threads does not use it.
static void kept_on_disk(void **state) {
    (void)state;
    tg_kernel k = fresh(), other = fresh(), threads = fresh();
    char names[8][400];
    assert_int_equal(launch(&k, N), FAST);
    assert_int_equal(launch(&k, 64), FAST);
    assert_int_equal(in_cache(names), 1);
    int before = all_runs();
    assert_int_equal(launch(&other, N), FAST);
    assert_int_equal(launch(&other, 64), FAST);
    assert_int_equal(all_runs(), before + 2);
    tg_options options = {.size = sizeof options, .threads = tg_context_threads(NULL) + 1};
    tg_context *c;
    assert_int_equal(tg_context_create(&options, &c), TG_OK);
    tg_context_use(c);
    assert_int_equal(launch(&threads, N), FAST);
    assert_true(all_runs() > before + 20);
    // Neither does this one, in a context with other threads.
    before = all_runs();
    setenv("TG_TUNE", "off", 1);
    assert_int_equal(launch(&k, N), USUAL);
    setenv("TG_TUNE", "exhaustive", 1);
    assert_int_equal(all_runs(), before + 1);
    tg_context_use(NULL);
    tg_context_destroy(c);
    assert_int_equal(in_cache(names), 2);
    tg_kernel_close(&k);
    tg_kernel_close(&other);
    tg_kernel_close(&threads);
}

static size_t slurp(const char *path, char *out, size_t room) {
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    size_t n = fread(out, 1, room, f);
    fclose(f);
    return n;
}

static void spit(const char *path, const char *data, size_t n) {
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(data, 1, n, f), n);
    fclose(f);
}

/// A changed byte invalidates its line: the launch is tuned again, or, if the time does not
/// suffice, runs the object's default. Results are correct in any case.
static void damaged_files(void **state) {
    (void)state;
    char names[8][400], data[4096], bad[4096];
    tg_kernel k = fresh();
    assert_int_equal(launch(&k, N), FAST);
    tg_kernel_close(&k);
    assert_int_equal(in_cache(names), 1);
    size_t n = slurp(names[0], data, sizeof data);
    assert_true(n > 20 && n < 200);
    setenv("TG_TUNE", "block", 1);
    setenv("TG_TUNE_BUDGET_MS", "0.001", 1);
    for (size_t at = 0; at < n; at++)
        for (int how = 0; how < 2; how++) {
            memcpy(bad, data, n);
            bad[at] ^= how ? 4 : 1;
            spit(names[0], bad, how == 1 && at % 2 ? at : n);
            k = fresh();
            int variant = launch(&k, N);
            assert_true(variant == USUAL || variant == FAST);
            tg_kernel_close(&k);
        }
    setenv("TG_TUNE", "exhaustive", 1);
    spit(names[0], data, n - 1); // truncated
    k = fresh();
    assert_int_equal(launch(&k, N), FAST);
    tg_kernel_close(&k);
    k = fresh();
    int before = all_runs();
    assert_int_equal(launch(&k, N), FAST); // and repaired
    assert_int_equal(all_runs(), before + 1);
    tg_kernel_close(&k);
}

static void no_folder(void **state) {
    (void)state;
    static const char *const places[] = {"off", "/proc/none/such", "/dev/null"};
    for (int i = 0; i < 3; i++) {
        tg_kernel k = fresh();
        setenv("TG_CACHE", places[i], 1);
        assert_int_equal(launch(&k, N), FAST);
        tg_kernel_close(&k);
    }
    assert_int_equal(in_cache((char[8][400]){{0}}), 0);
}

/// Launches of other threads do not wait for the one that tunes.
static void *launch_often(void *arg) {
    float x[64] = {1}, y[64] = {0};
    int64_t n = 64;
    DLTensor tx = row(x, &n), ty = row(y, &n);
    tg_arg args[2] = {tg_tensor(&tx), tg_tensor(&ty)};
    long bad = 0;
    (void)arg;
    for (int i = 1; i <= 500; i++)
        bad += tg_launch(&shared, args, 2) != TG_OK || y[0] != (float)i || seen.variant >= WRONG;
    return (void *)bad;
}

static void many_threads(void **state) {
    (void)state;
    pthread_t threads[16];
    shared = fresh();
    for (int i = 0; i < 16; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, launch_often, NULL), 0);
    for (int i = 0; i < 16; i++) {
        void *bad;
        pthread_join(threads[i], &bad);
        assert_null(bad);
    }
    assert_int_equal(launch(&shared, 64), FAST);
    tg_kernel_close(&shared);
}

/* ---- in the background ----------------------------------------------------------------------- */

/// Whether a search has ended with a winner, which is stored last, after the variants that were
/// left out.
static bool is_kept(void) {
    char names[8][400], kept[4096];
    if (in_cache(names) != 1) return false;
    FILE *f = fopen(names[0], "rb");
    if (!f) return false; // the file was being renamed
    kept[fread(kept, 1, sizeof kept - 1, f)] = 0;
    fclose(f);
    return strstr(kept, " 0.0=");
}

static void wait_ms(int ms) {
    struct timespec t = {ms / 1000, ms % 1000 * 1000000L};
    nanosleep(&t, NULL);
}

/// Lets a search begin early, and without pauses.
static void search_later(void) {
    setenv("TG_TUNE", "background", 1);
    setenv("TG_TUNE_SHARE", "100", 1);
}

static _Atomic bool enough;
static _Atomic int fast_ones; // threads whose last launch ran the fastest variant

/// Adds up, so that a missing or repeated launch shows. The last launch begins after `enough` was
/// set.
static void *launch_until(void *arg) {
    float x[64] = {0}, y[64] = {0};
    int64_t n = 64;
    DLTensor tx = row(x, &n), ty = row(y, &n);
    tg_arg args[2] = {tg_tensor(&tx), tg_tensor(&ty)};
    long bad = 0, launches = 0;
    (void)arg;
    for (int i = 0; i < 64; i++) x[i] = 1;
    for (bool last = false; !last; launches++) {
        last = enough;
        bad += tg_launch(&shared, args, 2) != TG_OK || y[0] != (float)(launches % (1 << 22) + 1);
        bad += seen.variant >= WRONG;
        if (y[0] == (float)(1 << 22)) memset(y, 0, sizeof y);
        if (launches % 8 == 0) wait_ms(1); // leaves the search a core
    }
    fast_ones += seen.variant == FAST;
    return (void *)bad;
}

/// Launches continue during the search. Those that begin after its end run its result, also in
/// other processes.
static void later_on(void **state) {
    enum { THREADS = 6 };
    pthread_t threads[THREADS];
    char names[8][400], kept[4096];
    long bad = 0;
    (void)state;
    search_later();
    shared = fresh();
    enough = false;
    fast_ones = 0;
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, launch_until, NULL), 0);
    while (!is_kept()) wait_ms(1);
    enough = true;
    for (int i = 0; i < THREADS; i++) {
        void *of_thread;
        pthread_join(threads[i], &of_thread);
        bad += (long)of_thread;
    }
    tg_kernel_close(&shared);
    assert_int_equal(bad, 0);
    assert_int_equal(in_cache(names), 1);
    kept[slurp(names[0], kept, sizeof kept - 1)] = 0;
    tg_kernel other = fresh();
    int taken = launch(&other, 64);
    tg_kernel_close(&other);
    if (taken != FAST || fast_ones != THREADS)
        fail_msg("variant %d is taken, the fastest by %d threads; kept is\n%s", taken, fast_ones,
                 kept);
}

/// A kernel with few launches is not worth a search.
static void not_for_a_few(void **state) {
    (void)state;
    setenv("TG_TUNE", "background", 1);
    shared = fresh();
    for (int i = 0; i < LAUNCHES - 5; i++) assert_int_equal(launch(&shared, N), USUAL);
    int before = all_runs();
    wait_ms(3000);
    assert_int_equal(all_runs(), before);
    tg_kernel_close(&shared);
}

/// Launches until a search may begin, and waits until the search has run `trials` trials, or has
/// ended. It may begin, and end, during the last launch.
static void wait_for_trials(tg_kernel *k, int trials) {
    int before = all_runs() + LAUNCHES;
    for (int i = 1; i < LAUNCHES; i++) assert_int_equal(launch(k, N), USUAL);
    int variant = launch(k, N);
    assert_true(variant == USUAL || variant == FAST);
    while (all_runs() < before + trials && !is_kept()) wait_ms(1);
}

/// A search ends when its kernel is closed, or the process exits, at any stage: between trials,
/// during one, and in a pause of a second or so.
static void ends_with_the_kernel(void **state) {
    (void)state;
    static const char *const shares[] = {"100", "1"};
    static const int trials[] = {0, 1, 2, 3, 5, 8, 13, 21, 34};
    search_later();
    for (int i = 0; i < 2 * 9; i++) {
        shared = fresh();
        setenv("TG_TUNE_SHARE", shares[i % 2], 1);
        wait_for_trials(&shared, i % 2 ? trials[i / 2] / 4 : trials[i / 2]);
        tg_kernel_close(&shared);
        int before = all_runs();
        wait_ms(20);
        assert_int_equal(all_runs(), before);
        empty_cache();
    }
}

static void ends_with_the_process(void **state) {
    (void)state;
#if defined(__SANITIZE_THREAD__)
    skip(); // the system forbids threads after a fork
#endif
    int status;
    search_later();
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        static tg_kernel k;
        k = fresh();
        wait_for_trials(&k, 5);
        exit(0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

int main(void) {
    runs = shared_memory(sizeof *runs * VARIANTS);
    if (!mkdtemp(cache)) return 1;
    snprintf(folder, sizeof folder, "%s/deep/er", cache);
#define TEST(f) cmocka_unit_test_setup(f, begin)
    const struct CMUnitTest tests[] = {
        TEST(nonsense_is_said),
        TEST(prints_once),
        TEST(off_by_default),
        TEST(finds_the_fastest),
        TEST(kept_on_disk),
        TEST(damaged_files),
        TEST(no_folder),
        TEST(within_a_budget),
        TEST(many_threads),
        TEST(not_for_a_few),
        TEST(later_on),
        TEST(ends_with_the_kernel),
        TEST(ends_with_the_process),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    empty_cache();
    for (char *end; rmdir(folder) == 0 && (end = strrchr(folder, '/')) > folder + 4;) *end = 0;
    return failed;
}
