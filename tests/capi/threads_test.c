// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Threads compile and launch at once: with one shared module, with one module each, and with one
// context each.
#include "support.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { THREADS = 16, LAUNCHES = 60, N = 600 };

static const char source[] = "kernel twice(x: f32[N], y: f32[N]) tune B = 16 | 64 | 256 {\n"
                             "    parallel n in N by B { y[n] = 2 * x[n]; }\n"
                             "}\n"
                             "kernel sums<T: float>(x: T[M, N], y: f32[M]) {\n"
                             "    parallel m in M { y[m] = sum(x[m, cover(N), pad = 0] as f32); }\n"
                             "}\n";

static tg_module *shared;

typedef struct Worker {
    pthread_t thread;
    int number;
    char text[256]; // first failure; cmocka's asserts work only in its own thread
} Worker;

static void note(Worker *w, tg_status status) {
    if (status && !w->text[0]) strncpy(w->text, tg_last_error(), sizeof w->text - 1);
}

static void launch_twice(Worker *w, tg_module *m, int i) {
    float x[N], y[N];
    int64_t n = 1 + (i * 37 + w->number * 11) % N;
    View vx, vy;
    tg_kernel *k;
    for (int64_t j = 0; j < n; j++) x[j] = (float)(j + i);
    view(&vx, &types[1], x, 1, &n, NULL);
    view(&vy, &types[1], y, 1, &n, NULL);
    note(w, tg_module_kernel(m, "twice", &k));
    note(w, tg_launch(k, (tg_arg[]){tg_tensor(&vx.t), tg_tensor(&vy.t)}, 2));
    for (int64_t j = 0; j < n; j++)
        if (y[j] != 2 * x[j]) strcpy(w->text, "twice: a wrong result");
}

/// Each thread launches steps of the ladder and types in its own order.
static void launch_sums(Worker *w, tg_module *m, int i) {
    static const int kinds[] = {1, 0, 3, 2};
    const Type *t = &types[kinds[(i + w->number) % 4]];
    char x[2 * N * 8];
    float y[2];
    int64_t n = 1 + (i * 53 + w->number * 29) % 200;
    View vx, vy;
    tg_kernel *k;
    for (int64_t j = 0; j < 2 * n; j++) put(t, x, j, (int)(j % 3));
    view(&vx, t, x, 2, (int64_t[]){2, n}, NULL);
    view(&vy, &types[1], y, 1, (int64_t[]){2}, NULL);
    note(w, tg_module_kernel(m, "sums", &k));
    note(w, tg_launch(k, (tg_arg[]){tg_tensor(&vx.t), tg_tensor(&vy.t)}, 2));
    int want = 0;
    for (int64_t j = 0; j < n; j++) want += (int)(j % 3);
    if (y[0] != (float)want) strcpy(w->text, "sums: a wrong result");
}

static void *use_shared(void *arg) {
    Worker *w = arg;
    for (int i = 0; i < LAUNCHES; i++) {
        launch_twice(w, shared, i);
        launch_sums(w, shared, i);
    }
    return NULL;
}

static void *use_own(void *arg) {
    Worker *w = arg;
    tg_options o = {.size = sizeof o, .threads = 1 + w->number % 2};
    tg_context *c = NULL;
    note(w, tg_context_create(&o, &c));
    tg_context_use(c);
    for (int round = 0; round < 2; round++) {
        tg_module *m = NULL;
        note(w, tg_module_from_source(source, sizeof source - 1, "own.teg", NULL, &m));
        for (int i = 0; m && i < 6; i++) {
            launch_twice(w, m, i * 9);
            launch_sums(w, m, i);
            launch_twice(w, shared, i); // compiled on one context, launched on another
        }
        tg_module_destroy(m);
    }
    tg_context_use(NULL);
    tg_context_destroy(c);
    return NULL;
}

/// Mistakes of one thread do not affect the others, and each reads its own message.
static void *fail_often(void *arg) {
    Worker *w = arg;
    char text[64];
    for (int i = 0; i < 20; i++) {
        tg_module *m = NULL;
        int n = snprintf(text, sizeof text, "kernel f() { let a = name_%d_%d; }", w->number, i);
        if (tg_module_from_source(text, (size_t)n, "f.teg", NULL, &m) != TG_ERROR_SOURCE ||
            !strstr(tg_last_error(), text) || !strstr(tg_last_error(), "unknown name"))
            strncpy(w->text, tg_last_error(), sizeof w->text - 1);
    }
    return NULL;
}

static void run(void *(*body)(void *)) {
    Worker workers[THREADS];
    memset(workers, 0, sizeof workers);
    for (int i = 0; i < THREADS; i++) {
        workers[i].number = i;
        assert_int_equal(pthread_create(&workers[i].thread, NULL, body, &workers[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) pthread_join(workers[i].thread, NULL);
    for (int i = 0; i < THREADS; i++)
        if (workers[i].text[0]) fail_msg("thread %d: %s", i, workers[i].text);
}

static void test_shared(void **state) {
    (void)state;
    run(use_shared);
}

static void test_own(void **state) {
    (void)state;
    run(use_own);
}

static void test_failures(void **state) {
    (void)state;
    run(fail_often);
}

/// The helper process serves all threads, one at a time.
static void test_process(void **state) {
    (void)state;
    tg_module *before = shared;
    setenv("TG_COMPILE", "process", 1);
    shared = module_of(source);
    run(use_shared);
    tg_module_destroy(shared);
    unsetenv("TG_COMPILE");
    shared = before;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_shared),
        cmocka_unit_test(test_own),
        cmocka_unit_test(test_failures),
        cmocka_unit_test(test_process),
    };
    shared = module_of(source);
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    tg_module_destroy(shared);
    return failed;
}
