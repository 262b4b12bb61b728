// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The host side of compiled kernels: tasks, arenas, workspaces, failures, texts.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#undef fail // tg_env has a member of this name

#include "runtime/host.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

enum { TASKS = 1000, ARENA = 4096 };

static const tg_site site = {
    .kind = TG_SITE_ASSERT, .n_values = 2, .n_indices = 1, .text = "x is {}", .types = "dd"};
static const tg_site shown = {
    .kind = TG_SITE_PRINT, .n_values = 1, .text = "task {}\n", .types = "u"};

typedef struct Work {
    _Atomic int64_t done[TASKS];
    int64_t fail_from, fail_step; // numbers of the tasks that fail
    int print;
} Work;

static Work shared;

/// Counts itself, and uses its arena so that sharing it with another thread would show.
static int32_t task(const tg_env *env, void *context, int64_t number, void *arena) {
    Work *w = context;
    int64_t *mine = arena;
    assert_int_equal((uintptr_t)arena % 64, 0);
    for (int i = 0; i < ARENA / 8; i++) mine[i] = number;
    for (int i = 0; i < ARENA / 8; i++) assert_int_equal(mine[i], number);
    atomic_fetch_add(&w->done[number], 1);
    if (w->print && number < 3) env->print(env, &shown, (uint64_t[]){(uint64_t)number});
    if (w->fail_step && number >= w->fail_from && (number - w->fail_from) % w->fail_step == 0)
        return env->fail(env, &site, (uint64_t[]){(uint64_t)-number, (uint64_t)number});
    return 0;
}

/// args[0] is a Work.
static int32_t entry(const tg_slot *args, const tg_env *env) {
    int64_t *own = env->arena(env, ARENA), *space = env->workspace(env, 1000);
    if (!own || !space) return env->fail(env, NULL, NULL);
    assert_int_equal((uintptr_t)own % 64, 0);
    assert_int_equal((uintptr_t)space % 64, 0);
    own[0] = 42;
    int32_t status = env->parallel_for(env, TASKS, ARENA, task, args[0].tensor.data);
    assert_int_equal(own[0], 42);
    return status;
}

static int run(tg_host *h, tg_print *print, void *user, tg_failure *failure) {
    tg_slot args[1] = {{.tensor = {.data = &shared}}};
    for (int i = 0; i < TASKS; i++) atomic_store(&shared.done[i], 0);
    return tg_host_run(h, entry, args, print, user, failure);
}

static void every_task_once(void **state) {
    (void)state;
    for (int threads = 0; threads < 5; threads++) {
        tg_host *h = tg_host_create(threads);
        assert_non_null(h);
        if (threads) assert_int_equal(tg_host_threads(h), threads);
        tg_failure failure;
        shared.fail_step = shared.print = 0;
        for (int round = 0; round < 20; round++) {
            assert_int_equal(run(h, NULL, NULL, &failure), TG_RUN_OK);
            for (int i = 0; i < TASKS; i++) assert_int_equal(shared.done[i], 1);
        }
        tg_host_destroy(h);
    }
}

static void first_failure_counts(void **state) {
    (void)state;
    tg_host *h = tg_host_create(4);
    shared.fail_from = 17;
    shared.fail_step = 3;
    for (int round = 0; round < 50; round++) {
        tg_failure failure;
        assert_int_equal(run(h, NULL, NULL, &failure), TG_RUN_FAILED);
        assert_ptr_equal(failure.site, &site);
        assert_string_equal(failure.text, "assertion failed: x is -17 at [17]");
        for (int i = 0; i <= 17; i++) assert_int_equal(shared.done[i], 1);
    }
    shared.fail_step = 0;
    tg_host_destroy(h);
}

static void collect(void *user, const char *text) {
    strcat(user, text);
}

static void prints(void **state) {
    (void)state;
    tg_host *h = tg_host_create(1);
    tg_failure failure;
    char text[256] = "";
    shared.print = 1;
    assert_int_equal(run(h, collect, text, &failure), TG_RUN_OK);
    assert_string_equal(text, "task 0\ntask 1\ntask 2\n");
    shared.print = 0;
    tg_host_destroy(h);
}

static int32_t greedy(const tg_slot *args, const tg_env *env) {
    (void)args;
    return env->workspace(env, INT64_MAX) ? 0 : env->fail(env, NULL, NULL);
}

static void no_memory(void **state) {
    (void)state;
    tg_host *h = tg_host_create(2);
    tg_failure failure;
    assert_int_equal(tg_host_run(h, greedy, NULL, NULL, NULL, &failure), TG_RUN_NO_MEMORY);
    assert_null(failure.site);
    tg_host_destroy(h);
}

static void texts(void **state) {
    (void)state;
    double half = 0.5;
    uint64_t bits;
    memcpy(&bits, &half, 8);
    static const struct {
        tg_site site;
        const char *text;
    } cases[] = {
        {{.text = "{} {} {} {}", .types = "bduf"}, "true -1 18446744073709551615 0.5"},
        {{.text = "x = {}!", .types = "[dd+]"}, "x = [1, -1, ...]!"},
        {{.text = "{} and {}", .types = "d"}, "1 and {}"},
        {{.text = "{} and {}", .types = "dd", .n_indices = 1}, "1 and {} at [-1]"},
        {{.text = "nothing"}, "nothing"},
    };
    const uint64_t values[4] = {1, UINT64_MAX, UINT64_MAX, bits};
    char out[64];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        tg_site_text(out, sizeof out, &cases[i].site, values);
        assert_string_equal(out, cases[i].text);
    }
    tg_site_text(out, 8, &cases[0].site, values);
    assert_string_equal(out, "true -1");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_task_once), cmocka_unit_test(first_failure_counts),
        cmocka_unit_test(prints),          cmocka_unit_test(no_memory),
        cmocka_unit_test(texts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
