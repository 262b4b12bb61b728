// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The PTX of the runtime's own kernel for a device of that compute capability, for step.py. A
// second argument: for ranks that are far.
#include "runtime/comm/comm_cuda.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv) {
    char text[RT_STEP_TEXT];
    rt_step_text(argc > 1 ? atoi(argv[1]) : 80, argc > 2, text);
    return fputs(text, stdout) < 0;
}
