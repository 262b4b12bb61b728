// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Processes that work for this one: each wait for one ends, and the end of one takes along the
// programs that it started.
#include "driver/remote/child_process.h"

#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

/// A made-up clock, of which each reading takes a while, so that no test waits for minutes.
static double now, reading;
static long readings;

double __wrap_rt_seconds(void);
double __wrap_rt_seconds(void) {
    if (++readings > 10000000) {
        fprintf(stderr, "a wait does not end\n");
        _exit(1);
    }
    return now += reading;
}

/// A process is in the state of a disk wait while its child of vfork has not ended.
static void wait_like_for_a_disk(void) {
    if (vfork() == 0)
        for (;;) pause();
}

static char state_of(pid_t pid) {
    char path[64], text[256] = "";
    snprintf(path, sizeof path, "/proc/%ld/stat", (long)pid);
    FILE *f = fopen(path, "r");
    assert_non_null(f);
    size_t n = fread(text, 1, sizeof text - 1, f);
    fclose(f);
    assert_true(n > 0 && strrchr(text, ')'));
    return strrchr(text, ')')[2];
}

/// Returns the seconds after which a process in this state is late. Nothing comes from it.
static double late_after(char state, double limit) {
    int pair[2];
    rt_child_clock clock;
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
    ChildProcess p = {.owner = getpid(), .pid = fork(), .fd = pair[0]};
    assert_true(p.pid >= 0);
    if (p.pid == 0) {
        setpgid(0, 0);
        if (state == 'D') wait_like_for_a_disk();
        for (;;) pause();
    }
    while (state_of(p.pid) != state) usleep(1000);
    double began = now;
    rt_child_clock_start(&clock, p.pid);
    assert_int_equal(child_wait(&p, &clock, limit), TALK_LATE);
    assert_int_equal(state_of(p.pid), state);
    kill(-p.pid, SIGKILL);
    assert_int_equal(waitpid(p.pid, NULL, 0), p.pid);
    close(pair[0]);
    close(pair[1]);
    return now - began;
}

/// The made-up clock runs a little further while the wait ends.
static void expect_near(double seconds, double at_least) {
    assert_true(seconds >= at_least && seconds < at_least + 2);
}

/// A reading takes more than the pause between two looks, so that nothing is really waited for.
static void each_wait_ends(void **state) {
    (void)state;
    reading = 0.06;
    assert_true(late_after('S', 2) < 60);
    expect_near(late_after('D', 2), 600);
    expect_near(late_after('D', 50), 1000);
    reading = 0;
}

/// Starts a helper that hangs and has started a program that hangs. Returns a file that is at its
/// end once that program has ended.
static int start_hanging(Ctx *ctx, ChildProcess *p, const char *folder) {
    char program[64], fifo[64];
    const char *tried;
    snprintf(program, sizeof program, "%s/tegula", folder);
    snprintf(fifo, sizeof fifo, "%s/fifo", folder);
    assert_int_equal(mkfifo(fifo, 0600), 0);
    FILE *f = fopen(program, "w");
    assert_non_null(f);
    fprintf(f, "#!/bin/sh\nsleep 1000 >%s &\nexec sleep 1000\n", fifo);
    assert_int_equal(fclose(f), 0);
    assert_int_equal(chmod(program, 0700), 0);
    setenv("TG_SERVER", program, 1);
    assert_int_equal(child_start(ctx, p, &tried), 0);
    int end = open(fifo, O_RDONLY | O_CLOEXEC); // waits for the program
    assert_true(end >= 0);
    return end;
}

static void end_takes_along_programs(bool ignored) {
    char folder[] = "/tmp/tegula-child-XXXXXX", command[64], byte;
    ChildProcess p = {.fd = -1};
    Ctx *ctx = ctx_create(NULL);
    assert_non_null(mkdtemp(folder));
    if (ignored) signal(SIGCHLD, SIG_IGN);
    int end = start_hanging(ctx, &p, folder);
    int status = child_stop(&p, true);
    assert_true(ignored ? status == -1 : WIFSIGNALED(status));
    assert_int_equal(read(end, &byte, 1), 0); // waits until the program has ended
    signal(SIGCHLD, SIG_DFL);
    close(end);
    snprintf(command, sizeof command, "rm -r %s", folder);
    assert_int_equal(system(command), 0);
    ctx_destroy(ctx);
}

static void ends_with_its_programs(void **state) {
    (void)state;
    end_takes_along_programs(false);
}

/// A host program that ignores its children.
static void ends_unwaited(void **state) {
    (void)state;
    end_takes_along_programs(true);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(each_wait_ends),
                                       cmocka_unit_test(ends_with_its_programs),
                                       cmocka_unit_test(ends_unwaited)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
