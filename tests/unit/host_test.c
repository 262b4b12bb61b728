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

/* ---- records ------------------------------------------------------------------------------- */

enum { SITES = TG_RECORD_PARTS + 44 };
static tg_site sites[SITES];
static tg_host *recorded;

static int32_t marked_task(const tg_env *env, void *context, int64_t number, void *arena) {
    (void)arena;
    env->mark(env, (const tg_site *)context + number);
    return 0;
}

static int32_t four_tasks(const tg_slot *args, const tg_env *env) {
    (void)args;
    return env->parallel_for(env, 4, 0, marked_task, sites);
}

static int32_t many_phases(const tg_slot *args, const tg_env *env) {
    (void)args;
    for (int i = 0; i < SITES; i++)
        if (env->parallel_for(env, 2, 0, marked_task, &sites[i / 2])) return 1;
    return 0;
}

static int32_t many_sites(const tg_slot *args, const tg_env *env) {
    (void)args;
    return env->parallel_for(env, SITES, 0, marked_task, sites);
}

/// Launches another kernel while it is recorded itself.
static int32_t launches_other(const tg_slot *args, const tg_env *env) {
    tg_failure failure;
    if (env->parallel_for(env, 4, 0, marked_task, sites)) return 1;
    if (tg_host_run(recorded, many_phases, NULL, NULL, NULL, &failure)) return 1;
    return four_tasks(args, env);
}

static int64_t tasks_of(const tg_record *r) {
    int64_t n = 0;
    for (int i = 0; i < r->n_workers; i++) n += r->workers[i].tasks;
    return n;
}

static void record_with(tg_record *r, tg_entry *code) {
    tg_failure failure;
    tg_host_record(recorded, r);
    assert_int_equal(tg_host_run(recorded, code, NULL, NULL, NULL, &failure), TG_RUN_OK);
}

/// Records may be at the address of earlier ones, and hold other workers then.
static void record_at_same_address(void **state) {
    (void)state;
    recorded = tg_host_create(2);
    tg_record *a = tg_record_create(2, 4, 0), *b = tg_record_create(2, 100, 0);
    record_with(a, four_tasks);
    assert_int_equal(tasks_of(a), 4);
    record_with(NULL, many_phases);
    assert_int_equal(tasks_of(a), 4);
    tg_worker_record *first = a->workers;
    a->workers = b->workers;
    b->workers = first;
    record_with(a, many_phases);
    assert_int_equal(tasks_of(a), 2 * SITES);
    assert_int_equal(tasks_of(b), 4);
    tg_host_destroy(recorded);
    tg_record_destroy(a);
    tg_record_destroy(b);
}

static void record_of_one_launch(void **state) {
    (void)state;
    recorded = tg_host_create(2);
    tg_record *r = tg_record_create(2, 4, 0);
    record_with(r, launches_other);
    assert_int_equal(r->n_phases, 2);
    assert_int_equal(tasks_of(r), 8);
    record_with(r, four_tasks);
    assert_int_equal(tasks_of(r), 4);
    tg_host_destroy(recorded);
    tg_record_destroy(r);
}

/// Sums are of all spans, phases and parts, even of those without room of their own.
static void record_overflows(void **state) {
    (void)state;
    recorded = tg_host_create(1);
    tg_record *r = tg_record_create(1, 4, 0);
    record_with(r, many_phases);
    const tg_worker_record *w = &r->workers[1];
    const tg_phase_time *last = &r->phases[TG_RECORD_PHASES - 1];
    assert_int_equal(r->n_phases, SITES);
    assert_ptr_equal(last->site, &tg_record_others);
    assert_int_equal(last->times, SITES - TG_RECORD_PHASES + 1);
    assert_int_equal(last->tasks, 2 * last->times);
    int64_t busy = 0, within = 0, parts = 0, times = 0;
    for (int i = 0; i < TG_RECORD_PHASES; i++) {
        busy += w->busy[i];
        within += r->phases[i].ns;
    }
    for (int i = 0; i < w->n_parts; i++) {
        parts += w->parts[i].ns;
        times += w->parts[i].times;
    }
    assert_int_equal(times, 2 * SITES);
    assert_true(parts <= busy && busy <= within && within <= r->to - r->from);
    record_with(r, many_sites);
    assert_int_equal(w->n_parts, TG_RECORD_PARTS);
    assert_ptr_equal(w->parts[TG_RECORD_PARTS - 1].site, &tg_record_others);
    assert_int_equal(w->parts[TG_RECORD_PARTS - 1].times, SITES - TG_RECORD_PARTS + 1);
    tg_host_destroy(recorded);
    tg_record_destroy(r);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_task_once),
        cmocka_unit_test(first_failure_counts),
        cmocka_unit_test(prints),
        cmocka_unit_test(no_memory),
        cmocka_unit_test(texts),
        cmocka_unit_test(record_at_same_address),
        cmocka_unit_test(record_of_one_launch),
        cmocka_unit_test(record_overflows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
