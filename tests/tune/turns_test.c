// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Simultaneous searches for the same kernel: one process searches, and the others use its result,
// continue if it died, and never wait beyond their budgets.
#include "tests/tune/request.h"

#include "driver/code_cache.h"
#include "driver/tune/tune_store.h"

#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

enum { BUDGET = 60 }; // seconds; searches here end before that, also on a busy machine

static const TuneResult made_up = {.kernel = "softmax",
                                   .target = "cpu",
                                   .device = "made up",
                                   .shape = "R=48 N=100",
                                   .config = "BR=4",
                                   .seconds = 1e-5,
                                   .standard = 2e-5};

static void doze(void) {
    nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
}

/// Begins with a different shape in each test, outside of each other's neighbourhood: all share a
/// store.
static Ctx *begin(Request *r, int row) {
    Ctx *ctx = ctx_create(NULL);
    *r = softmax_request(ctx, NULL, 48, row);
    return ctx;
}

static void note_wait(void *user, const TuneProgress *p) {
    *(_Atomic int *)user += p->waits;
}

/// Another process has the claim before this returns.
static pid_t claim_elsewhere(Ctx *ctx, const Request *r, bool background) {
    int ready[2], claim;
    char byte = 0;
    StoreKey key;
    assert_int_equal(pipe(ready), 0);
    assert_true(tune_claim_key(ctx, r, -1, background, &key));
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        byte = (char)cache_claim(key, &claim);
        if (write(ready[1], &byte, 1) == 1) pause();
        _exit(1);
    }
    assert_int_equal(read(ready[0], &byte, 1), 1);
    assert_int_equal(byte, 1);
    close(ready[0]);
    close(ready[1]);
    assert_false(cache_claim(key, &claim));
    return child;
}

static void end_process(pid_t p) {
    kill(p, SIGKILL);
    waitpid(p, NULL, 0);
}

/// A process that waits in vain goes on without a result, after its budget and not before.
static void test_in_vain(void **state) {
    Request r;
    Ctx *ctx = begin(&r, 20);
    TuneResult found;
    _Atomic int waits = 0;
    (void)state;
    TuneOptions o = {.mode = TUNE_BLOCK, .budget = 0.3, .device = -1};
    o.progress = note_wait;
    o.user = &waits;
    pid_t other = claim_elsewhere(ctx, &r, false);
    assert_int_equal(tune_request(ctx, &r, &o, &found), TG_ERROR_UNSUPPORTED);
    assert_non_null(strstr(tg_last_error(), "another process tunes 'softmax'"));
    assert_true(waits > 0);
    atomic_bool stop = true;
    o.stop = &stop;
    o.budget = 1000;
    assert_int_equal(tune_request(ctx, &r, &o, &found), TG_OK); // at once
    assert_string_equal(found.config, "");
    end_process(other);
    ctx_destroy(ctx);
}

/// A background search waits for no other, and no blocking search waits for it.
static void test_in_the_background(void **state) {
    Request r;
    Ctx *ctx = begin(&r, 30);
    TuneResult found;
    _Atomic int waits = 0;
    (void)state;
    for (int background = 0; background < 2; background++) {
        TuneOptions o = {.mode = TUNE_BACKGROUND, .budget = 60, .device = -1};
        o.progress = note_wait;
        o.user = &waits;
        pid_t other = claim_elsewhere(ctx, &r, background);
        assert_int_equal(tune_request(ctx, &r, &o, &found), TG_OK);
        assert_true(found.busy);
        assert_int_equal(waits, 0);
        o.mode = TUNE_BLOCK;
        o.budget = 0.3;
        tune_request(ctx, &r, &o, &found); // with any result
        assert_int_equal(waits > 0, !background);
        waits = 0;
        end_process(other);
    }
    ctx_destroy(ctx);
}

typedef struct Other {
    Request r;
    _Atomic int waits; // number of waits
} Other;

/// Stores its result first, and then releases the claim.
static void *finish_later(void *arg) {
    Other *own = arg;
    Ctx *ctx = ctx_create(NULL);
    StoreKey key;
    int claim;
    if (!tune_claim_key(ctx, &own->r, -1, false, &key) || !cache_claim(key, &claim)) return NULL;
    while (!own->waits) doze();
    tune_keep(ctx, &own->r, -1, &made_up);
    cache_release(claim);
    ctx_destroy(ctx);
    return NULL;
}

/// Threads of one process count as others, too.
static void test_takes_what_another_finds(void **state) {
    Request r;
    Ctx *ctx = begin(&r, 300);
    pthread_t other;
    TuneResult found;
    int claim;
    StoreKey key;
    (void)state;
    Other theirs = {.r = r};
    TuneOptions o = {.mode = TUNE_BLOCK, .budget = BUDGET, .device = -1};
    o.progress = note_wait;
    o.user = &theirs.waits;
    assert_true(tune_claim_key(ctx, &r, -1, false, &key));
    assert_int_equal(pthread_create(&other, NULL, finish_later, &theirs), 0);
    while (cache_claim(key, &claim)) cache_release(claim), doze();
    assert_int_equal(tune_request(ctx, &r, &o, &found), TG_OK);
    pthread_join(other, NULL);
    assert_true(found.known);
    assert_string_equal(found.config, made_up.config);
    assert_true(cache_claim(key, &claim)); // the claim is free
    cache_release(claim);
    ctx_destroy(ctx);
}

/// A tuner that dies leaves nothing behind, and another one tunes.
static void test_another_dies(void **state) {
    Request r;
    Ctx *ctx = begin(&r, 1000);
    TuneResult found;
    (void)state;
    TuneOptions o = {.mode = TUNE_BLOCK, .budget = BUDGET, .device = -1};
    end_process(claim_elsewhere(ctx, &r, false));
    assert_int_equal(tune_request(ctx, &r, &o, &found), TG_OK);
    assert_true(!found.known && found.n_trials > 1 && found.seconds > 0);
    ctx_destroy(ctx);
}

/// Several processes start together: one searches, and all use its result.
static void test_together(void **state) {
    enum { PROCESSES = 6 };
    Request r;
    Ctx *ctx = begin(&r, 100);
    int results[2], searched = 0;
    char config[PROCESSES][65];
    (void)state;
    assert_int_equal(pipe(results), 0);
    for (int i = 0; i < PROCESSES; i++) {
        if (fork()) continue;
        char line[65] = {0};
        TuneResult found;
        TuneOptions o = {.mode = TUNE_BLOCK, .budget = BUDGET, .helpers = 1, .device = -1};
        bool ok = tune_request(ctx, &r, &o, &found) == TG_OK;
        snprintf(line, sizeof line, "%d%s", ok && found.known, ok ? found.config : "failed");
        _exit(write(results[1], line, sizeof line) != sizeof line);
    }
    for (int i = 0; i < PROCESSES; i++) {
        assert_int_equal(read(results[0], config[i], sizeof config[i]), sizeof config[i]);
        searched += config[i][0] == '0';
        assert_string_equal(config[i] + 1, config[0] + 1);
        assert_non_null(strstr(config[i], "BR="));
    }
    assert_int_equal(searched, 1);
    while (wait(NULL) > 0) continue;
    close(results[0]);
    close(results[1]);
    ctx_destroy(ctx);
}

int main(void) {
    static char folder[256];
    snprintf(folder, sizeof folder, "%s/turns-XXXXXX", TEST_OUT);
    if (!mkdtemp(folder)) return 1;
    setenv("TG_CACHE", folder, 1);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_together),          cmocka_unit_test(test_in_vain),
        cmocka_unit_test(test_in_the_background), cmocka_unit_test(test_takes_what_another_finds),
        cmocka_unit_test(test_another_dies),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
