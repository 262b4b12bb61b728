// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// See process.h.
#include "runtime/base/process.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

int rt_start_program(const char *program, char *const argv[], char *const environment[],
                     const int *files, int n, pid_t *child) {
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attr;
    sigset_t none, all;
    // A program with raised privileges must not take its helper from the user's PATH.
    if (!strchr(program, '/') && getauxval(AT_SECURE)) return ENOENT;
    sigemptyset(&none);
    sigfillset(&all);
    int error = posix_spawn_file_actions_init(&actions);
    if (error) return error;
    error = posix_spawnattr_init(&attr);
    if (!error) {
        for (int i = 0; i < n && !error; i++)
            error = files[i] < 0
                        ? posix_spawn_file_actions_addopen(&actions, i, "/dev/null", O_RDWR, 0)
                        : posix_spawn_file_actions_adddup2(&actions, files[i], i);
        posix_spawnattr_setsigmask(&attr, &none);
        posix_spawnattr_setsigdefault(&attr, &all);
        posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF |
                                            POSIX_SPAWN_SETPGROUP);
        if (!error) error = posix_spawnp(child, program, &actions, &attr, argv, environment);
        posix_spawnattr_destroy(&attr);
    }
    posix_spawn_file_actions_destroy(&actions);
    return error;
}

// A process may be allowed a billion files, and listing them takes memory.
enum { MOST_FILES = 1 << 16 };

void rt_close_files(unsigned first, unsigned last) {
    struct rlimit limit;
#ifdef SYS_close_range
    if (syscall(SYS_close_range, first, last, 0U) == 0) return;
#endif
    // Linux before 5.9 closes them one by one.
    unsigned end = MOST_FILES;
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < end)
        end = (unsigned)limit.rlim_cur;
    for (unsigned fd = first; fd <= last && fd < end; fd++) close((int)fd);
}
