// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Every failure of the compiler becomes a status that names the module: fatal errors of LLVM in
// process; death, silence and invalid answers of another process (TG_COMPILE=process).
#include "support.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static const char source[] = "kernel twice(x: f32[N], y: f32[N]) {\n"
                             "    parallel n in N by 16 { y[n] = 2 * x[n]; }\n"
                             "}\n";

static tg_status launch(tg_module *m) {
    float x[5] = {1, 2, 3, 4, 5}, y[5] = {0};
    View vx, vy;
    view(&vx, &types[1], x, 1, (int64_t[]){5}, NULL);
    view(&vy, &types[1], y, 1, (int64_t[]){5}, NULL);
    tg_status status =
        tg_launch(kernel_of(m, NULL), (tg_arg[]){tg_tensor(&vx.t), tg_tensor(&vy.t)}, 2);
    for (int i = 0; i < 5 && !status; i++) assert_true(y[i] == 2 * x[i]);
    return status;
}

static void test_in_process(void **state) {
    (void)state;
    tg_module *m = module_of(source);
    for (int i = 0; i < 5; i++) {
        setenv("TG_FAULT", "llvm-fatal", 1);
        FAILS(launch(m), TG_ERROR_INTERNAL, "module 'test.teg'");
        assert_non_null(strstr(tg_last_error(), "LLVM: Cannot select"));
    }
    unsetenv("TG_FAULT");
    OK(launch(m));
    tg_module_destroy(m);
}

/// Two launches that differ only in hints and get the same tune values share their code. The second
/// one generates none; a code generation would meet the fault and end this process.
static void test_shared_code(void **state) {
    (void)state;
    static float x[1 << 16], y[1 << 16];
    tg_module *m = module_of("kernel twice(x: f32[N], y: f32[N]) tune U = 1 | 2 {\n"
                             "    parallel n in N by 16 * (1 + 0 * U) { y[n] = 2 * x[n]; }\n"
                             "}\n");
    for (int64_t n = 4; n <= 1 << 16; n *= 128) {
        View vx, vy;
        view(&vx, &types[1], x, 1, &n, NULL);
        view(&vy, &types[1], y, 1, &n, NULL);
        x[n - 1] = (float)n;
        OK(tg_launch(kernel_of(m, NULL), (tg_arg[]){tg_tensor(&vx.t), tg_tensor(&vy.t)}, 2));
        assert_true(y[n - 1] == (float)(2 * n));
        setenv("TG_FAULT", "abort", 1);
    }
    unsetenv("TG_FAULT");
    tg_module_destroy(m);
}

/* ---- another process ----------------------------------------------------------------------- */

typedef struct Fault {
    const char *variable, *value; // the variable and value that cause it
    tg_status status;
    const char *part; // part of the message
} Fault;

/// Runs in a process of its own, since a running compiler keeps its start's environment. Returns
/// the line of the failure.
static int live_through(const Fault *f) {
    bool hangs = strcmp(f->value, "hang") == 0; // other requests may take longer on a busy machine
    setenv("TG_COMPILE", "process", 1);
    if (hangs) setenv("TG_COMPILE_TIMEOUT", "2", 1);
    setenv(f->variable, f->value, 1);
    tg_module *m = module_of(source);
    if (launch(m) != f->status) return 1;
    if (f->status && !strstr(tg_last_error(), f->part)) return 2;
    if (f->status && !strstr(tg_last_error(), "module 'test.teg'")) return 3;
    unsetenv(f->variable);
    unsetenv("TG_COMPILE_TIMEOUT");
    bool ended =
        strcmp(f->value, "llvm-fatal") != 0; // otherwise the compiler continues, with the fault
    if (f->status && ended && launch(m) != TG_OK) return 4;
    tg_module_destroy(m);
    return 0;
}

static void expect(const Fault *f) {
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        int wrong = live_through(f);
        if (wrong) fprintf(stderr, "%s: %s\n", f->value, tg_last_error());
        _exit(wrong);
    }
    int status = 0;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    if (WEXITSTATUS(status)) fail_msg("%s: step %d", f->value, WEXITSTATUS(status));
}

static void test_process(void **state) {
    (void)state;
    static const Fault faults[] = {
        {"TG_FAULT", "none", TG_OK, ""},
        {"TG_FAULT", "llvm-fatal", TG_ERROR_INTERNAL, "Cannot select"},
        {"TG_FAULT", "abort", TG_ERROR_INTERNAL, "signal 6"},
        {"TG_FAULT", "segv", TG_ERROR_INTERNAL, "signal 11"},
        {"TG_FAULT", "hang", TG_ERROR_INTERNAL, "did not answer in 2 s"},
// The sanitizers end a process that runs out of memory.
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
        {"TG_FAULT", "oom", TG_ERROR_MEMORY, "module 'test.teg': compiling 'twice': out of memory"},
#endif
        {"TG_SERVER", "/nonexistent", TG_ERROR_UNSUPPORTED,
         "module 'test.teg': compiling 'twice': the compiler's process cannot be started: "
         "/nonexistent"},
        {"TG_SERVER", "/bin/false", TG_ERROR_INTERNAL, "exit code 1"},
        {"TG_SERVER", TEST_DIR "/echo.sh", TG_ERROR_INTERNAL, "not of this version"},
    };
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) expect(&faults[i]);
}

/// A compiler that ended between two requests is started again, without notice.
static int outlive(void) {
    setenv("TG_COMPILE", "process", 1);
    tg_module *m = module_of(source), *n = module_of(source);
    if (launch(m)) return 1;
    char command[64];
    snprintf(command, sizeof command, "pkill -9 -P %ld", (long)getpid());
    if (system(command) < 0) return 2;
    return launch(n) ? 3 : 0;
}

static void *launch_once(void *module) {
    launch(module);
    return NULL;
}

/// Forks while another thread waits for the compiler. The child must still compile.
static int fork_meanwhile(void) {
    setenv("TG_COMPILE", "process", 1);
    setenv("TG_COMPILE_TIMEOUT", "2", 1);
    setenv("TG_FAULT", "hang", 1);
    pthread_t thread;
    if (pthread_create(&thread, NULL, launch_once, module_of(source))) return 1;
    usleep(300 * 1000);
    unsetenv("TG_FAULT");
    pid_t pid = fork();
    if (pid == 0) {
        unsetenv("TG_COMPILE_TIMEOUT");
        _exit(launch(module_of(source)) ? 1 : 0);
    }
    int status = 0;
    waitpid(pid, &status, 0);
    pthread_join(thread, NULL);
    return status ? 2 : 0;
}

static void test_fork(void **state) {
    (void)state;
    pid_t pid = fork();
    if (pid == 0) _exit(fork_meanwhile());
    int status = 0;
    waitpid(pid, &status, 0);
    assert_int_equal(status, 0);
}

/// Prints in a program without standard streams.
static int print_nowhere(void) {
    setenv("TG_COMPILE", "process", 1);
    for (int fd = 0; fd < 3; fd++) close(fd);
    tg_module *m = module_of(source), *n = module_of(source);
    if (launch(m)) return 1;
    for (int fd = 0; fd < 3; fd++)
        if (write(fd, "noise", 5) != -1) return 2 + fd;
    return launch(n) ? 5 : 0;
}

static void test_closed(void **state) {
    (void)state;
    pid_t pid = fork();
    if (pid == 0) _exit(print_nowhere());
    int status = 0;
    waitpid(pid, &status, 0);
    assert_int_equal(status, 0);
}

/// The compiler's process holds no file of this one: a reader of a pipe sees its end.
static void test_files(void **state) {
    (void)state;
    int ends[2];
    char c;
    setenv("TG_COMPILE", "process", 1);
    assert_int_equal(pipe(ends), 0);
    assert_int_equal(fcntl(ends[0], F_SETFL, O_NONBLOCK), 0);
    tg_module *m = module_of(source);
    OK(launch(m));
    close(ends[1]);
    assert_int_equal(read(ends[0], &c, 1), 0);
    close(ends[0]);
    tg_module_destroy(m);
    unsetenv("TG_COMPILE");
}

/// A forked process starts a compiler of its own.
static void test_restart(void **state) {
    (void)state;
    pid_t pid = fork();
    if (pid == 0) _exit(outlive());
    int status = 0;
    waitpid(pid, &status, 0);
    assert_int_equal(status, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_process),     cmocka_unit_test(test_restart),
        cmocka_unit_test(test_closed),      cmocka_unit_test(test_fork),
        cmocka_unit_test(test_files),       cmocka_unit_test(test_in_process),
        cmocka_unit_test(test_shared_code),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
