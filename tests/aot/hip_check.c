// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Runs an object with code objects for AMD GPUs on the runtime alone and a checking stand-in for
// HIP (tests/runtime/fake_hip.c): it must load the code of device 0 and launch it.
#include <stdio.h>

#include "scale.h"

enum { N = 1000 };

int main(void) {
    static _Alignas(16) float x[N], y[N];
    int64_t n = N;
    DLTensor tx = tg_dense(x, kDLFloat, 32, 1, &n), ty = tg_dense(y, kDLFloat, 32, 1, &n);
    tx.device = ty.device = (DLDevice){kDLROCM, 0};
    if (!scale_f32_dl(&tx, &ty, 3)) return 0;
    fprintf(stderr, "%s\n", tg_last_error());
    return 1;
}
