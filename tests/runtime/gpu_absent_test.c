// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// GPUs on a machine that has none: every way to ask for one says what is missing.
#include "tests/runtime/kernels.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void no_driver(void **state) {
    (void)state;
    float x[4] = {0}, y[4];
    int64_t n = 4;
    setenv("TG_CUDA_LIBRARY", "/nowhere/libcuda.so.1", 1);
    assert_int_equal(tg_device_count(), 0);
    assert_non_null(strstr(tg_last_error(), "TG_CUDA_LIBRARY=/nowhere/libcuda.so.1 cannot be "
                                            "loaded"));
    tg_device_info info = {.size = sizeof info};
    assert_int_equal(tg_device_describe(0, &info), TG_ERROR_UNSUPPORTED);
    assert_int_equal(tg_device_synchronize(0, NULL), TG_ERROR_UNSUPPORTED);
    DLTensor tx = row(x, &n), ty = row(y, &n);
    tx.device = ty.device = (DLDevice){kDLCUDA, 0};
    tg_arg args[2] = {tg_tensor(&tx), tg_tensor(&ty)};
    assert_int_equal(tg_launch(&tiny, args, 2), TG_ERROR_UNSUPPORTED);
    assert_non_null(strstr(tg_last_error(), "/nowhere/libcuda.so.1"));
    tx.device = ty.device = (DLDevice){kDLCPU, 0};
    assert_int_equal(tg_launch(&tiny, args, 2), TG_OK);
    assert_int_equal(tg_launch_on(&tiny, args, 2, &x), TG_OK);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(no_driver)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
