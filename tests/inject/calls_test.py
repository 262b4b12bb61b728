# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Each function of the C library that our archives call must be in calls.def, or in the list below. The list
has functions that do not fail for a lack of memory, files or processes, or whose failure no caller could handle.

    calls_test.py BUILD
"""
import pathlib
import re
import subprocess
import sys

PARTS = "tglang tgir tgfrontend tgpasses tgbackends tgruntime tgcache tgdriver tgtools tegula-lib".split()
OTHER_LIBRARIES = re.compile(r"LLVM|sqlite3_|png_|json_|_ZN|__(a|t|l|ub)san|__sanitizer|__gcov|__tsan")
# Functions that only compute or release, or whose result is ignored.
NEVER = re.compile(
    r"(a?(cos|sin|tan)h?|atan2|cbrt|ceil|erfc?|exp.*|fdim|fmax?f?|fmin|fmod|frexp|hypot|ilogbf|ldexpf?|lgamma_r|log.*|"
    r"nextafterf?|pow|remainder|round|sqrt|tgamma|__.*ti3|__popcountdi2|__cpu.*|"
    r"mem\w+|__mem\w+_chk|str(chr|cmp|cspn|error|ftime|len|ncmp|pbrk|rchr|signal|spn|str|tod|tod_l|tok|tol|toll|toull|"
    r"ncpy|cpy|nlen|cat|ncasecmp)|__str\w+|__ctype\w+|__isoc\w+|qsort|time|timespec_get|localtime_r|localeconv|"
    r"v?f?s?n?printf|__v?f?s?n?printf_chk|fput[cs]|putc|puts|getc|clearerr|ferror|fseek|ftell|rewind|std(in|out|err)|"
    r"free|dirfd|freeaddrinfo|freelocale|globfree|close|closedir|munmap|madvise|dlclose|dlerror|dlsym|dladdr|dlinfo|"
    r"dl_iterate_phdr|gai_strerror|abort|_exit|atexit|alarm|lseek|_setjmp|__longjmp_chk|longjmp|setjmp|secure_getenv|setenv|"
    r"unsetenv|environ|get(pid|ppid|egid|euid|auxval|rlimit|hostname)|setrlimit|setpriority|getpgrp|sysconf|isatty|ioctl|"
    r"clock_get(time|cpuclockid)|nanosleep|sleep|sched_\w+|__sched_cpucount|kill|raise|sig\w+|prctl|shutdown|syscall|mremap|"
    r"posix_spawn(attr_(destroy|set\w+)|_file_actions_destroy)|"
    r"pthread_(atfork|barrier_\w+|cond_\w+|condattr_\w+|detach|join|mutex_\w+|once|sigmask|self)|"
    r"__errno_location|__stack_chk_fail|__tls_get_addr|_GLOBAL_OFFSET_TABLE_|__fdelt_chk|getcontext|makecontext|"
    r"swapcontext|newlocale|glob|system)"
)


def symbols(archive, option):
    out = subprocess.run(["nm", option, archive], capture_output=True, text=True, check=True).stdout
    return {line.split()[-1] for line in out.splitlines() if len(line.split()) > 1 and not line.endswith(":")}


def main(build):
    archives = [build / f"lib{p}.a" for p in PARTS]
    archives = [a for a in archives if a.exists()]
    own = set().union(*(symbols(a, "--defined-only") for a in archives))
    called = set().union(*(symbols(a, "-u") for a in archives)) - own
    table = (pathlib.Path(__file__).parent / "calls.def").read_text()
    wrapped = set(re.findall(r"^(?:CALL|MOVE|STREAM)\(\w+, (\w+),", table, re.M)) | {"open", "fcntl", "posix_spawn"}
    missing = [s for s in sorted(called - wrapped) if not NEVER.fullmatch(s) and not OTHER_LIBRARIES.search(s)]
    missing = [s for s in missing if not s.startswith("tg_embedded")]
    for s in missing:
        print(f"'{s}' is called and neither in calls.def nor in the list of calls_test.py")
    print(f"{len(called)} functions are called, {len(called & wrapped)} of them may fail")
    return 1 if missing or len(called & wrapped) < 40 else 0


if __name__ == "__main__":
    sys.exit(main(pathlib.Path(sys.argv[1])))
