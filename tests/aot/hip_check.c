// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// An object with code objects of AMD's GPUs, the runtime alone, and a HIP that checks what it is
// asked for (tests/runtime/fake_hip.c): it loads the object's code for device 0 and launches it.
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
