// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Modules on GPUs: the launch uses code for the device that holds the tensors. Runs on a stand-in
// driver that checks its calls and executes nothing (tests/runtime/fake_cuda.c), and on a simulated
// driver, which executes.
#include "support.h"

#include "fake_cuda.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct {
#define X(result, name, parameters) result(*name) parameters;
    FAKE_ENTRIES(X)
#undef X
} fake;

static const char source[] = "kernel scale<T: float>(x: T[N], y: T[N], a: T) tune B = 64 | 256 {\n"
                             "    parallel n in N by B {\n"
                             "        y[n] = a * x[n];\n"
                             "    }\n"
                             "}\n";

enum { N = 1000 };

typedef struct Call {
    float x[N], y[N];
    int64_t n;
    DLTensor tensors[2];
    tg_arg args[3];
} Call;

static Call *on_device(Call *c, int device) {
    c->n = N;
    for (int i = 0; i < N; i++) c->x[i] = (float)i;
    memset(c->y, 0, sizeof c->y);
    c->tensors[0] = tg_dense(c->x, kDLFloat, 32, 1, &c->n);
    c->tensors[1] = tg_dense(c->y, kDLFloat, 32, 1, &c->n);
    for (int i = 0; i < 2; i++) {
        if (device >= 0) c->tensors[i].device = (DLDevice){kDLCUDA, device};
        c->args[i] = tg_tensor(&c->tensors[i]);
    }
    c->args[2] = tg_float(2);
    return c;
}

static tg_kernel *open_module(const tg_module_options *options, tg_module **module) {
    tg_kernel *kernel = NULL;
    tg_status status = tg_module_from_source(source, strlen(source), "scale.teg", options, module);
    if (!status) status = tg_module_kernel(*module, "scale", &kernel);
    if (status) print_error("%s\n", tg_last_error());
    assert_int_equal(status, TG_OK);
    return kernel;
}

static void expect_ok(tg_status status) {
    if (status) print_error("%s\n", tg_last_error());
    assert_int_equal(status, TG_OK);
    assert_null(fake.fake_mistake());
}

/// Loads one piece of code for each device, once. The module's end releases all of it.
static void launches(void) {
    Call c;
    tg_module *module;
    tg_kernel *kernel = open_module(NULL, &module);
    int before = fake.fake_modules();
    for (int round = 0; round < 2; round++)
        for (int device = 0; device < 2; device++) {
            int launched = fake.fake_calls("cuLaunchKernelEx");
            expect_ok(tg_launch(kernel, on_device(&c, device)->args, 3));
            assert_int_equal(fake.fake_calls("cuLaunchKernelEx"), launched + 1);
            if (round) assert_int_equal(fake.fake_modules(), before + 2);
        }
    expect_ok(tg_launch(kernel, on_device(&c, -1)->args, 3));
    for (int i = 0; i < N; i++) assert_true(c.y[i] == 2 * c.x[i]);
    void *stream = fake.fake_stream(1);
    expect_ok(tg_launch_on(kernel, on_device(&c, 1)->args, 3, stream));
    tg_module_destroy(module);
    assert_int_equal(fake.fake_modules(), before);
}

static void in_process(void **state) {
    (void)state;
    launches();
}

static void in_another_process(void **state) {
    (void)state;
    setenv("TG_COMPILE", "process", 1);
    launches();
    unsetenv("TG_COMPILE");
}

static void code_generators(void **state) {
    (void)state;
    Call c;
    tg_module *module;
    tg_module_options options = {.size = sizeof options, .codegen = "gcc"};
    tg_kernel *kernel = open_module(&options, &module);
    assert_int_equal(tg_launch(kernel, on_device(&c, 0)->args, 3), TG_ERROR_UNSUPPORTED);
    assert_non_null(strstr(tg_last_error(), "unknown code generator 'gcc'"));
    tg_module_destroy(module);
    options.codegen = "nvptx";
    kernel = open_module(&options, &module);
    expect_ok(tg_launch(kernel, on_device(&c, 0)->args, 3));
    tg_module_destroy(module);
}

/// Tensors of the CPU on a simulated GPU.
static void simulated(void **state) {
    (void)state;
    static const char *const targets[] = {"sim:sm_80", "sim:sm_90a"};
    for (int i = 0; i < 2; i++) {
        Call c;
        tg_module *module;
        tg_module_options options = {.size = sizeof options, .target = targets[i]};
        tg_kernel *kernel = open_module(&options, &module);
        expect_ok(tg_launch(kernel, on_device(&c, -1)->args, 3));
        for (int k = 0; k < N; k++) assert_true(c.y[k] == 2 * c.x[k]);
        tg_module_destroy(module);
    }
}

static char said[4096];

static void note(void *user, const char *line) {
    (void)user;
    size_t n = strlen(said);
    snprintf(said + n, sizeof said - n, "%s\n", line);
}

/// A captured launch never waits for a search, in any mode; another launch does. (The search's
/// result is meaningless here, because the driver runs nothing.)
static void never_tuned_in_a_capture(void **state) {
    (void)state;
    Call c;
    tg_module *module;
    tg_context *context;
    tg_options hooks = {.size = sizeof hooks, .log = note};
    tg_module_options options = {.size = sizeof options, .tune = "block", .tune_budget_ms = 1000};
    assert_int_equal(tg_context_create(&hooks, &context), TG_OK);
    tg_context_use(context);
    for (int captured = 1; captured >= 0; captured--) {
        tg_kernel *kernel = open_module(&options, &module);
        void *stream = fake.fake_stream(0);
        said[0] = 0;
        if (captured) fake.fake_capture(stream);
        expect_ok(tg_launch_on(kernel, on_device(&c, 0)->args, 3, stream));
        if (captured) fake.fake_drop(fake.fake_capture_end(stream));
        assert_int_equal(strstr(said, "tuned") != NULL, !captured);
        tg_module_destroy(module);
    }
    tg_context_use(NULL);
    tg_context_destroy(context);
    assert_null(fake.fake_mistake());
}

static void no_target(void **state) {
    (void)state;
    Call c;
    static const struct {
        const char *target;
        int device;
        const char *text;
    } rows[] = {
        {"sim:sm_1", -1, "the target 'sim:sm_1' does not exist"},
        {"sm_90a", -1, "the target 'sm_90a' takes tensors of a GPU, and these are the CPU's"},
        {"sim:sm_80", 0, "the target 'sim:sm_80' takes tensors of the CPU, and these are a GPU's"},
    };
    for (int i = 0; i < 3; i++) {
        tg_module *module;
        tg_module_options options = {.size = sizeof options, .target = rows[i].target};
        tg_kernel *kernel = open_module(&options, &module);
        assert_int_equal(tg_launch(kernel, on_device(&c, rows[i].device)->args, 3),
                         TG_ERROR_ARGUMENT);
        assert_string_equal(tg_last_error(), rows[i].text);
        tg_module_destroy(module);
    }
}

/// Code for an earlier architecture than the device's.
static void pinned_target(void **state) {
    (void)state;
    Call c;
    tg_module *module;
    tg_module_options options = {.size = sizeof options, .target = "sm_80"};
    tg_kernel *kernel = open_module(&options, &module);
    expect_ok(tg_launch(kernel, on_device(&c, 0)->args, 3));
    expect_ok(tg_launch(kernel, on_device(&c, 1)->args, 3));
    tg_module_destroy(module);
}

int main(void) {
    const char *path = getenv("TG_CUDA_LIBRARY");
    void *library = path ? dlopen(path, RTLD_NOW) : NULL;
    if (!library) return fprintf(stderr, "TG_CUDA_LIBRARY must be the fake driver\n"), 1;
#define X(result, name, parameters) *(void **)&fake.name = dlsym(library, #name);
    FAKE_ENTRIES(X)
#undef X
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(in_process),      cmocka_unit_test(in_another_process),
        cmocka_unit_test(code_generators), cmocka_unit_test(simulated),
        cmocka_unit_test(no_target),       cmocka_unit_test(never_tuned_in_a_capture),
        cmocka_unit_test(pinned_target),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
