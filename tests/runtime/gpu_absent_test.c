// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// GPUs on a machine without any: every request for one reports the missing part.
#include "tests/runtime/kernels.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

/// x: f32[N]; stands for a device's code.
static int32_t twice_in_place(const tg_image *image, const tg_env *env, int32_t function,
                              int64_t programs, void *const *args) {
    (void)image, (void)env, (void)function;
    float *x = *(float **)args[0];
    for (int64_t i = 0; i < programs; i++) x[i] *= 2;
    return 0;
}

static int32_t called_entry(const tg_slot *args, const tg_env *env) {
    const void *params[] = {&args[0].tensor.data};
    return env->dispatch(env, 0, args[0].tensor.shape[0], (void *const *)(uintptr_t)params);
}

static const tg_device_function functions[] = {{"twice", 32, 1, 0, 1, TG_DEVICE_REPLAYS, 0}};
static tg_image called_image = {.kind = TG_IMAGE_CALL,
                                .n_functions = 1,
                                .target = "sim:sm_80",
                                .functions = functions,
                                .dispatch = twice_in_place};
static const uint8_t first[] = {0};
static const tg_variant called_variant[] = {
    {.entry = called_entry, .params = first, .n_params = 1, .config = "", .image = &called_image}};
static const tg_param_info called_params[] = {
    {"x", TG_PARAM_TENSOR, TG_PARAM_WRITTEN, kDLFloat, 32, -1, 1, -1, 0}};
static const tg_kernel_info called_info = {
    "called", "kernel called(x: f32[N])", called_params, called_variant, 1, 0, 1, 0};
static tg_kernel called = {.abi = TG_ABI, .info = &called_info};

/// A simulated GPU never needs a driver.
static void called_code(void **state) {
    (void)state;
    float x[4] = {1, 2, 3, 4};
    int64_t n = 4;
    DLTensor tx = row(x, &n);
    tg_arg args[] = {tg_tensor(&tx)};
    for (int i = 0; i < 4; i++) assert_int_equal(tg_launch(&called, args, 1), TG_OK);
    for (int i = 0; i < 4; i++) assert_true(x[i] == (float)(16 * (i + 1)));
}

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

/// Returns the step that goes wrong.
static int find_it_later(void) {
    struct rlimit usual, none;
    setenv("TG_CUDA_LIBRARY", FAKE_CUDA, 1);
    if (getrlimit(RLIMIT_NOFILE, &usual)) return 1;
    none = (struct rlimit){3, usual.rlim_max};
    if (setrlimit(RLIMIT_NOFILE, &none)) return 2;
    if (tg_device_count() != 0) return 3;
    if (!strstr(tg_last_error(), FAKE_CUDA " cannot be loaded")) return 4;
    if (!strstr(tg_last_error(), "Too many open files")) return 5;
    if (setrlimit(RLIMIT_NOFILE, &usual)) return 6;
    return tg_device_count() > 0 ? 0 : 7;
}

/// A program that had no file left for the driver when it looked for GPUs finds them later.
static void short_of_files(void **state) {
    int status;
    (void)state;
    pid_t pid = fork();
    if (pid == 0) _exit(find_it_later());
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(short_of_files),
                                       cmocka_unit_test(no_driver), cmocka_unit_test(called_code)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
