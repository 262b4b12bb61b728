// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Included first by every source of a build with gcc's counters. Children of a fork end by _exit,
// which would drop their counts. So would SIGKILL: of the own group, or of a child that the product
// no longer needs.
#ifndef TOOLS_DEV_COVERAGE_EXIT_H
#define TOOLS_DEV_COVERAGE_EXIT_H

#include <signal.h>
#include <sys/wait.h>
#include <time.h>

void __gcov_dump(void);
_Noreturn void _exit(int status);

_Noreturn static inline void exit_with_counters(int status) {
    __gcov_dump();
    _exit(status);
}
#define _exit(status) exit_with_counters(status)

/// Gives a child, or the leader of a group, some seconds to end by itself: a kill while it writes
/// its counters would damage them. It is not reaped.
static inline int kill_after_counters(pid_t pid, int number) {
    siginfo_t info = {.si_pid = 0};
    pid_t child = pid < 0 ? -pid : pid;
    if (number == SIGKILL && !pid) __gcov_dump();
    for (int i = 0; i < 500 && child && number == SIGKILL; i++) {
        if (waitid(P_PID, (id_t)child, &info, WEXITED | WNOHANG | WNOWAIT) || info.si_pid) break;
        nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
    }
    return (kill)(pid, number);
}
#define kill(pid, number)                                                                          \
    (__builtin_strstr(__FILE__, "tests/") ? (kill)(pid, number) : kill_after_counters(pid, number))

#endif
