// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Included first by every source of a build with gcc's counters. Children of a fork end by _exit,
// which would drop their counts.
#ifndef TOOLS_DEV_COVERAGE_EXIT_H
#define TOOLS_DEV_COVERAGE_EXIT_H

void __gcov_dump(void);
_Noreturn void _exit(int status);

_Noreturn static inline void exit_with_counters(int status) {
    __gcov_dump();
    _exit(status);
}
#define _exit(status) exit_with_counters(status)

#endif
