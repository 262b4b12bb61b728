// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Counts the instructions of a call by single-stepping a child. The number is the same on a busy
// machine and on an idle one, unlike nanoseconds.
#ifndef TESTS_RUNTIME_STEPS_H
#define TESTS_RUNTIME_STEPS_H

#include <signal.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

enum { STEPS_WARM = 20, STEPS_MOST = 1000000 };

static inline void steps_in_the_child(int (*call)(int), int calls) {
    int failed = ptrace(PTRACE_TRACEME, 0, NULL, NULL) != 0;
    for (int i = 0; i < STEPS_WARM && !failed; i++)
        for (int k = 0; k < calls; k++) failed |= call(k);
    if (failed) _exit(1);
    raise(SIGSTOP);
    for (int k = 0; k < calls; k++) failed |= call(k);
    raise(SIGSTOP);
    _exit(0);
}

/// Counts from the child's first stop to its second; -1: it ended before.
static inline long steps_count(pid_t child) {
    int status = 0;
    long n = 0;
    if (waitpid(child, &status, 0) != child || !WIFSTOPPED(status)) return -1;
    do {
        if (ptrace(PTRACE_SINGLESTEP, child, NULL, NULL)) return -1;
        if (waitpid(child, &status, 0) != child || !WIFSTOPPED(status)) return -1;
    } while (WSTOPSIG(status) == SIGTRAP && ++n < STEPS_MOST);
    return n;
}

/// Counts the instructions of warm call(0) .. call(calls - 1). Negative: a call failed, or the
/// system does not allow single-stepping.
static inline long steps_of(int (*call)(int), int calls) {
    pid_t child = fork();
    if (child == 0) steps_in_the_child(call, calls);
    if (child < 0) return -1;
    long n = steps_count(child);
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    return n;
}

#endif
