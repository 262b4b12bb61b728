// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A library that reports when it is loaded (privileged.sh).
#include <stdio.h>
#include <unistd.h>

__attribute__((constructor)) static void loaded(void) {
    printf("LOADED by uid %d, effective %d\n", (int)getuid(), (int)geteuid());
    fflush(stdout);
}
