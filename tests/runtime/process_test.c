// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Files are closed by one system call, or one by one if the system lacks that call.
#include "runtime/base/process.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static bool is_open(int fd) {
    return fcntl(fd, F_GETFD) >= 0;
}

/// Makes the system refuse the call from here on.
static bool forget_close_range(void) {
    struct sock_filter rules[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_close_range, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof rules / sizeof *rules, rules};
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
           prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0 &&
           syscall(SYS_close_range, 900U, 901U, 0U) < 0 && errno == ENOSYS;
}

/// Returns 0, or the number of the failed check.
static int close_some(bool old) {
    static const int files[] = {100, 101, 150, 200};
    struct rlimit many = {1 << 20, 1 << 20};
    for (int i = 0; i < 4; i++)
        if (dup2(STDERR_FILENO, files[i]) != files[i]) return 1;
    if (old && !forget_close_range()) return 2;
    rt_close_files(101, 150);
    if (!is_open(100) || is_open(101) || is_open(150) || !is_open(200)) return 3;
    setrlimit(RLIMIT_NOFILE, &many);
    rt_close_files(101, ~0U);
    return is_open(100) && !is_open(200) ? 0 : 4;
}

static void check(bool old) {
    pid_t pid = fork();
    if (pid == 0) _exit(close_some(old));
    int status = -1;
    waitpid(pid, &status, 0);
    assert_int_equal(status, 0);
}

static void test_now(void **state) {
    (void)state;
    check(false);
}

static void test_old(void **state) {
    (void)state;
    check(true);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_now), cmocka_unit_test(test_old)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
