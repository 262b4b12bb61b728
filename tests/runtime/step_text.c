// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The PTX of the runtime's own kernel, for step.py.
#include "runtime/comm_cuda.h"

#include <stdio.h>

int main(void) {
    char text[RT_STEP_TEXT];
    rt_step_text(text);
    return fputs(text, stdout) < 0;
}
