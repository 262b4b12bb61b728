// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Tests the clock of a child: it counts the child's own time and not that of other processes.
#include "runtime/tune/child_clock.h"
#include "runtime/tune/trial.h"

#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

static void wait_ms(int ms) {
    nanosleep(&(struct timespec){.tv_nsec = ms * 1000000L}, NULL);
}

static void *spin(void *arg) {
    for (volatile bool for_ever = true; for_ever;) continue;
    return arg;
}

/// Starts a child whose threads compute for ever, all on one core; threads 0: it sleeps for ever.
static pid_t start_child(int threads, int nice_value) {
    cpu_set_t cores;
    pthread_t thread;
    int ready[2], cpu = sched_getcpu();
    char byte = 0;
    assert_int_equal(pipe(ready), 0);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        CPU_ZERO(&cores);
        CPU_SET(cpu, &cores);
        sched_setaffinity(0, sizeof cores, &cores);
        setpriority(PRIO_PROCESS, 0, nice_value);
        for (int i = 1; i < threads; i++)
            if (pthread_create(&thread, NULL, spin, NULL)) _exit(1);
        if (write(ready[1], &byte, 1) == 1 && threads) spin(NULL);
        for (;;) pause();
    }
    assert_int_equal(read(ready[0], &byte, 1), 1);
    close(ready[0]);
    close(ready[1]);
    return pid;
}

static void end_child(pid_t pid) {
    kill(pid, SIGKILL);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
}

/// Reads the clock until it shows `seconds`.
static rt_child_clock watch(pid_t pid, double seconds) {
    rt_child_clock c;
    rt_child_clock_start(&c, pid);
    while (rt_child_clock_read(&c) < seconds) wait_ms(5);
    return c;
}

/// A sleeping child needs no core.
static void sleeps(void **state) {
    (void)state;
    pid_t pid = start_child(0, 0);
    double began = rt_seconds();
    rt_child_clock c = watch(pid, 0.1);
    assert_true(c.seconds <= rt_seconds() - began);
    end_child(pid);
}

/// Other processes have the core most of the time. The clock counts only the child's part. The
/// number of readings is fixed, since a starved child may get no time for long.
static void starves(void **state) {
    (void)state;
    pid_t others = start_child(2, 0), pid = start_child(1, 10);
    rt_child_clock c;
    rt_child_clock_start(&c, pid);
    for (int i = 0; i < 40; i++) {
        wait_ms(5);
        rt_child_clock_read(&c);
    }
    assert_true(c.seconds <= rt_child_clock_computed(&c) + 1e-6);
    end_child(pid);
    end_child(others);
}

/// A process is in the state of a disk wait while its child of vfork has not ended.
static pid_t start_disk_wait(void) {
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid) return pid;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (vfork() == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        for (;;) pause();
    }
    _exit(1);
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

/// A child that waits for a disk is not hung: the clock counts only its processor time. The state
/// at the end shows that it waited all the time, and had not ended.
static void waits_for_a_disk(void **state) {
    (void)state;
    rt_child_clock c;
    pid_t pid = start_disk_wait();
    for (char seen; (seen = state_of(pid)) != 'D'; wait_ms(1)) assert_int_not_equal(seen, 'Z');
    rt_child_clock_start(&c, pid);
    for (int i = 0; i < 20; i++) {
        wait_ms(5);
        rt_child_clock_read(&c);
    }
    assert_int_equal(state_of(pid), 'D');
    assert_true(c.seconds <= rt_child_clock_computed(&c) + 1e-6);
    end_child(pid);
}

/// Two threads that can run at the same time.
static void has_threads(void **state) {
    (void)state;
    pid_t pid = start_child(2, 0);
    rt_child_clock c = watch(pid, 0.05);
    double computed = rt_child_clock_computed(&c);
    assert_true(c.seconds <= computed / (rt_cores() < 2 ? 1 : 2) + 0.01);
    end_child(pid);
}

/// More threads than cores compute. They wait for each other, not for other processes. The clock
/// has to advance, or a hung child with many threads would never be noticed.
static void has_more_threads_than_cores(void **state) {
    (void)state;
    int cores = rt_cores(), in_step = 0;
    pid_t pid = start_child(4 * cores, 0);
    rt_child_clock c;
    rt_child_clock_start(&c, pid);
    while (rt_child_clock_computed(&c) < 0.2) {
        double computed = rt_child_clock_computed(&c), seconds = c.seconds;
        wait_ms(5);
        double gained = rt_child_clock_read(&c) - seconds;
        computed = rt_child_clock_computed(&c) - computed;
        in_step += computed > 0 && gained >= computed / (2 * cores);
    }
    assert_true(in_step > 0);
    end_child(pid);
}

/// The clock was not read for a long time, for instance because this process was stopped.
static void was_not_looked_at(void **state) {
    (void)state;
    pid_t pid = start_child(0, 0);
    rt_child_clock c;
    rt_child_clock_start(&c, pid);
    wait_ms(400);
    assert_true(rt_child_clock_read(&c) <= 0.1);
    end_child(pid);
}

/// The system has no data on a child that has ended, so the wall clock counts.
static void is_gone(void **state) {
    (void)state;
    pid_t pid = start_child(1, 0);
    end_child(pid);
    rt_child_clock c = watch(pid, 0.05);
    assert_true(rt_child_clock_computed(&c) == c.seconds);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(sleeps),
                                       cmocka_unit_test(starves),
                                       cmocka_unit_test(waits_for_a_disk),
                                       cmocka_unit_test(has_threads),
                                       cmocka_unit_test(has_more_threads_than_cores),
                                       cmocka_unit_test(was_not_looked_at),
                                       cmocka_unit_test(is_gone)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
