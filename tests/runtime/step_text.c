// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Prints the PTX of the runtime's own kernel for a device of the given compute capability, for
// step.py. With a second argument: for far ranks.
#include "runtime/comm/comm_cuda.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv) {
    char text[RT_STEP_TEXT];
    rt_step_text(argc > 1 ? atoi(argv[1]) : 80, argc > 2, text);
    return fputs(text, stdout) < 0;
}
