// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Names, checked without an instance.
#include "frontend/program.h"

void program_check_names(const Program *p, const Module *m) {
    (void)p;
    (void)m;
}
