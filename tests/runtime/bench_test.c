// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Measures the overhead of a launch over a direct call of the same code. It only prints, since a
// slow machine is not a failure.
#include "tests/runtime/counted.h"
#include "tests/runtime/kernels.h"
#include "tests/runtime/steps.h"

#include "runtime/host.h"

#include <linux/seccomp.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

enum { ROUNDS = 30, LAUNCHES = 5000 };

static int32_t direct_parallel(const tg_env *env, int64_t n, int64_t bytes, tg_task *task,
                               void *context) {
    (void)n, (void)bytes;
    return task(env, context, 0, env->user);
}

/* ---- system calls of a launch -------------------------------------------------------------- */

static void asks_for_nothing(void **state) {
    (void)state;
    float x[8] = {1}, y[8];
    int64_t n = 8, shape[2] = {2, 4};
    DLTensor tx = row(x, &n), ty = row(y, &n);
    DLTensor px = tg_dense(x, kDLFloat, 32, 2, shape), py = tg_dense(y, kDLFloat, 32, 2, shape);
    tg_arg args[2] = {tg_tensor(&tx), tg_tensor(&ty)}, packed[2] = {tg_tensor(&px), tg_tensor(&py)};
    for (int i = 0; i < 3; i++) {
        counted_calls = 0;
        assert_int_equal(tg_launch(&tiny, args, 2), TG_OK);
        assert_int_equal(tg_launch(&copy, packed, 2), TG_OK);
#ifdef COUNTS_CALLS
        // The first launch makes the context and its memory.
        assert_int_equal(i == 0, counted_calls > 0);
#endif
    }
    assert_int_equal(counted_calls, 0);
}

/// Launches in a process that any system call except a write and an exit ends. Writes 1 at the end.
static void launch_without_system(int to, const tg_arg *tiny_args, tg_arg *attend_args) {
    if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT)) _exit(2); // the system does not support it
    char fine = 1;
    for (int i = 0; i < 1000; i++) {
        attend_args[5] = tg_int(i % 100);
        if (tg_launch(&tiny, tiny_args, 2) || tg_launch(&attend, attend_args, 6)) fine = 0;
    }
    if (write(to, &fine, 1) == 1) syscall(SYS_exit, 0);
}

static void calls_no_system(void **state) {
    (void)state;
#ifndef COUNTS_CALLS
    skip(); // a sanitizer has calls of its own
#endif
    static float x[16 * 64], y[16 * 64];
    int64_t n = 8, shape[2] = {16, 64};
    DLTensor tx = row(x, &n), ty = row(y, &n);
    DLTensor q = tg_dense(x, kDLFloat, 32, 2, shape), o = tg_dense(y, kDLFloat, 32, 2, shape);
    tg_arg few[2] = {tg_tensor(&tx), tg_tensor(&ty)};
    tg_arg many[6] = {tg_tensor(&q), tg_none(), tg_tensor(&o), tg_int(0), tg_float(1.0), tg_int(1)};
    assert_int_equal(tg_launch(&tiny, few, 2), TG_OK);
    assert_int_equal(tg_launch(&attend, many, 6), TG_OK);
    int ends[2], status;
    char fine = 0;
    assert_int_equal(pipe(ends), 0);
    pid_t child = fork();
    if (child == 0) launch_without_system(ends[1], few, many);
    close(ends[1]);
    bool done = read(ends[0], &fine, 1) == 1;
    close(ends[0]);
    assert_int_equal(waitpid(child, &status, 0), child);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 2) skip();
    assert_true(done && fine);
}

/* ---- times --------------------------------------------------------------------------------- */

/// The best of many rounds; the two ways alternate.
static void warm_launch(void **state) {
    (void)state;
    float x[8] = {1}, y[8];
    int64_t n = 8, one = 1;
    DLTensor tx = row(x, &n), ty = row(y, &n);
    tg_arg args[2] = {tg_tensor(&tx), tg_tensor(&ty)};
    tg_slot slots[2] = {{.tensor = {x, &n, &one}}, {.tensor = {y, &n, &one}}};
    tg_env env = {.parallel_for = direct_parallel, .user = y};
    double best[2] = {1e30, 1e30};
    assert_int_equal(tg_launch(&tiny, args, 2), TG_OK);
    for (int round = 0; round < ROUNDS; round++) {
        double start = counted_now();
        for (int i = 0; i < LAUNCHES; i++) {
            tg_entry *volatile entry = tiny_entry;
            entry(slots, &env);
        }
        double middle = counted_now();
        for (int i = 0; i < LAUNCHES; i++) tg_launch(&tiny, args, 2);
        double end = counted_now();
        if (middle - start < best[0]) best[0] = middle - start;
        if (end - middle < best[1]) best[1] = end - middle;
    }
    printf("direct call %.1f ns, tg_launch %.1f ns\n", best[0] / LAUNCHES, best[1] / LAUNCHES);
}

enum { SHAPES = 4 };
static tg_arg in_turn[SHAPES][2];

static int launch_one(int i) {
    (void)i;
    return (int)tg_launch(&tiny, in_turn[0], 2);
}

static int launch_next(int i) {
    return (int)tg_launch(&tiny, in_turn[i], 2);
}

/// A kernel launched on a few shapes in turn is as warm as on one.
static void shapes_in_turn(void **state) {
    (void)state;
    float x[8] = {1}, y[8];
    int64_t n[SHAPES] = {5, 6, 7, 8};
    DLTensor tx[SHAPES], ty[SHAPES];
    for (int i = 0; i < SHAPES; i++) {
        in_turn[i][0] = tg_tensor((tx[i] = row(x, &n[i]), &tx[i]));
        in_turn[i][1] = tg_tensor((ty[i] = row(y, &n[i]), &ty[i]));
    }
    long one = steps_of(launch_one, SHAPES), next = steps_of(launch_next, SHAPES);
    if (one < 0 || next < 0) skip();
    printf("instructions of a warm launch: %ld, of shapes in turn %ld\n", one / SHAPES,
           next / SHAPES);
    assert_true(next < one + one / 2);
}

/// A phase of several tasks, with threads that are awake.
static void parallel_launch(void **state) {
    (void)state;
    enum { N = 64 };
    float x[N] = {1}, y[N];
    int64_t n = N;
    DLTensor tx = row(x, &n), ty = row(y, &n);
    tg_arg args[2] = {tg_tensor(&tx), tg_tensor(&ty)};
    double best = 1e30;
    for (int round = 0; round < ROUNDS; round++) {
        double start = counted_now();
        for (int i = 0; i < LAUNCHES / 10; i++) tg_launch(&twice, args, 2);
        double end = counted_now();
        if (end - start < best) best = end - start;
    }
    printf("tg_launch of %d small tasks on %d threads: %.0f ns\n", N, tg_context_threads(NULL),
           best / (LAUNCHES / 10));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(asks_for_nothing), cmocka_unit_test(calls_no_system),
        cmocka_unit_test(warm_launch), cmocka_unit_test(shapes_in_turn),
        cmocka_unit_test(parallel_launch)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
