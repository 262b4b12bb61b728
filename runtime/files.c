// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// See files.h.
#include "runtime/files.h"

#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

// A process may be allowed a billion files, and asking for their list takes memory.
enum { MOST_FILES = 1 << 16 };

void rt_close_files(unsigned first, unsigned last) {
    struct rlimit limit;
#ifdef SYS_close_range
    if (syscall(SYS_close_range, first, last, 0U) == 0) return;
#endif
    // Before Linux 5.9 one by one.
    unsigned end = MOST_FILES;
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < end)
        end = (unsigned)limit.rlim_cur;
    for (unsigned fd = first; fd <= last && fd < end; fd++) close((int)fd);
}
