// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A program forks at any moment of another thread's first compile. A launch in the child succeeds
// or fails with a status; it never hangs.
#include "support.h"

#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { FRESH = 24, FRESH_STEP = 250 };                               // microseconds
enum { FORKS = 24, THREADS = 3, N = 100, LIMIT = 600, STEP = 3000 }; // seconds, microseconds

/// Replaces LLVM's function if LLVM is a shared library. It sleeps, so that forks happen during it.
char *LLVMGetHostCPUFeatures(void);
__attribute__((visibility("default"))) char *LLVMGetHostCPUFeatures(void) {
    enum { LONG = 5000 }; // microseconds
    char *(*next)(void);
    *(void **)&next = dlsym(RTLD_NEXT, "LLVMGetHostCPUFeatures");
    usleep(LONG);
    return next();
}

enum { WORKED = 0, REFUSED = 1, WRONG = 2 };

static tg_module *module;

/// Every module is different, so each is compiled.
static tg_module *module_number(int i) {
    char text[256];
    tg_module *m = NULL;
    snprintf(text, sizeof text,
             "kernel k(x: f32[N], y: f32[N]) tune B = 64 | 128 {\n"
             "    parallel n in N by B { y[n] = exp(-x[n]) * 0 + x[n] * 3 + %d; }\n"
             "}\n",
             i);
    assert_int_equal(tg_module_from_source(text, strlen(text), "forks.teg", NULL, &m), TG_OK);
    return m;
}

static int launch(int add) {
    float x[N], y[N] = {0};
    int64_t n = N;
    View vx, vy;
    tg_kernel *k;
    for (int i = 0; i < N; i++) x[i] = (float)i;
    view(&vx, &types[1], x, 1, &n, NULL);
    view(&vy, &types[1], y, 1, &n, NULL);
    if (tg_module_kernel(module, "k", &k)) return REFUSED;
    if (tg_launch(k, (tg_arg[]){tg_tensor(&vx.t), tg_tensor(&vy.t)}, 2)) return REFUSED;
    for (int i = 0; i < N; i++)
        if (y[i] != (float)(3 * i + add)) return WRONG;
    return WORKED;
}

static void *launch_once(void *arg) {
    int *number = arg;
    *number = launch(*number) == WORKED ? 0 : 1;
    return NULL;
}

/// Returns the status of a child that is forked this long after other threads begin to compile.
static int fork_after(int number, useconds_t microseconds) {
    pthread_t threads[THREADS];
    int numbers[THREADS], status = -1;
    for (int i = 0; i < THREADS; i++) {
        numbers[i] = number;
        assert_int_equal(pthread_create(&threads[i], NULL, launch_once, &numbers[i]), 0);
    }
    usleep(microseconds);
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        signal(SIGALRM, SIG_DFL);
        alarm(LIMIT);
        _exit(launch(number));
    }
    assert_true(child > 0);
    assert_int_equal(waitpid(child, &status, 0), child);
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
        assert_int_equal(numbers[i], 0);
    }
    return status;
}

/// In a process that has compiled nothing yet, the fork meets steps of a first compilation only.
static int fork_fresh(int number) {
    int status = -1;
    fflush(NULL);
    pid_t process = fork();
    if (process == 0) {
        module = module_number(number);
        status = fork_after(number, (useconds_t)(number * FRESH_STEP));
        _exit(WIFSIGNALED(status) ? WRONG : WEXITSTATUS(status));
    }
    assert_true(process > 0);
    assert_int_equal(waitpid(process, &status, 0), process);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

/// Runs first, while the program itself has compiled nothing.
static void children_of_fresh_processes(void **state) {
    (void)state;
    setenv("TG_SERVER", "/nowhere/tegula", 1);
    for (int i = 0; i < FRESH; i++) {
        int status = fork_fresh(i);
        assert_true(status == WORKED || status == REFUSED);
    }
    unsetenv("TG_SERVER");
}

static int count_forks(int worked[2], int first) {
    worked[0] = worked[1] = 0;
    for (int i = 0; i < FORKS; i++) {
        module = module_number(first + i);
        int status = fork_after(first + i, (useconds_t)(i * STEP));
        assert_false(WIFSIGNALED(status)); // killed by the alarm: it hung
        assert_true(WEXITSTATUS(status) == WORKED || WEXITSTATUS(status) == REFUSED);
        worked[WEXITSTATUS(status)]++;
        tg_module_destroy(module);
    }
    return worked[WORKED];
}

/// Another process compiles for the child.
static void children_launch(void **state) {
    (void)state;
    int worked[2];
    assert_int_equal(count_forks(worked, 0), FORKS);
}

/// Without a compiler's process, a child that was forked during a compilation reports an error.
static void children_are_refused(void **state) {
    (void)state;
    int worked[2];
    setenv("TG_SERVER", "/nowhere/tegula", 1);
    count_forks(worked, FORKS);
    unsetenv("TG_SERVER");
    printf("%d children launched, %d were refused\n", worked[WORKED], worked[REFUSED]);
    assert_true(worked[REFUSED] > 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(children_of_fresh_processes),
        cmocka_unit_test(children_launch),
        cmocka_unit_test(children_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
