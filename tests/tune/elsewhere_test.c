// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Launches of one program on two GPUs of one architecture that share a store. The result of a
// search on one GPU must not be used on the other, where it is more than ten times slower; that GPU
// finds its own. The devices are those of wide.h.
#include "runtime/tegula.h"
#include "tests/runtime/fake_cuda.h"
#include "tests/tune/wide.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <dlfcn.h>

static struct {
#define X(result, name, parameters) result(*name) parameters;
    FAKE_ENTRIES(X)
#undef X
} fake;

static float memory[3][WIDE_SIDE * WIDE_SIDE];
static char said[4096];
static FakeLaunch last;

static void note(void *user, const char *line) {
    (void)user;
    size_t n = strlen(said);
    snprintf(said + n, sizeof said - n, "%s\n", line);
}

static void run(const FakeLaunch *launch, void **args) {
    (void)args;
    last = *launch;
}

static tg_module *open_module(const char *mode, const char *settings, tg_kernel **kernel) {
    tg_module *module = NULL;
    tg_module_options options = {
        .size = sizeof options, .tune = mode, .settings = settings, .tune_budget_ms = 20000};
    tg_status status = tg_module_from_source(wide, sizeof wide - 1, "wide.teg", &options, &module);
    if (!status) status = tg_module_kernel(module, "wide", kernel);
    if (status) fail_msg("%s", tg_last_error());
    said[0] = 0;
    return module;
}

/// The seconds of the launch, by the stand-in's clock.
static double launch(tg_kernel *kernel, int device) {
    const int64_t shapes[3][2] = {
        {WIDE_SIDE, WIDE_INNER}, {WIDE_INNER, WIDE_SIDE}, {WIDE_SIDE, WIDE_SIDE}};
    DLTensor t[3];
    tg_arg args[3];
    for (int i = 0; i < 3; i++) {
        t[i] = tg_dense(memory[i], kDLFloat, 32, 2, shapes[i]);
        t[i].device = (DLDevice){kDLCUDA, device};
        args[i] = tg_tensor(&t[i]);
    }
    if (tg_launch(kernel, args, 3)) fail_msg("%s", tg_last_error());
    assert_null(fake.fake_mistake());
    assert_int_equal(last.device, device);
    return fake.fake_seconds();
}

/// Reads the found tiles from the log.
static void read_tiles(char out[32]) {
    const char *at = strstr(said, "tuned wide ");
    at = at ? strstr(at, "BM=") : NULL;
    if (!at) fail_msg("nothing was tuned: '%s'", said);
    snprintf(out, 32, "%.*s", (int)strcspn(at, "w") - 1, at);
}

static void each_finds_its_own(void **state) {
    double own[2];
    char tiles[2][32];
    unsigned grids[2];
    tg_kernel *kernel;
    (void)state;
    for (int d = 0; d < 2; d++) {
        tg_module *module = open_module("block", NULL, &kernel);
        own[d] = launch(kernel, d);
        grids[d] = last.grid;
        read_tiles(tiles[d]);
        tg_module_destroy(module);
    }
    assert_string_not_equal(tiles[ON_FEW], tiles[ON_MANY]);
    // The store has both results, and so has one module.
    tg_module *module = open_module("background", NULL, &kernel);
    for (int i = 0; i < 4; i++) {
        assert_true(launch(kernel, i % 2) == own[i % 2]);
        assert_int_equal(last.grid, grids[i % 2]);
    }
    assert_null(strstr(said, "tuned"));
    tg_module_destroy(module);
    module = open_module("off", tiles[ON_FEW], &kernel);
    double foreign = launch(kernel, ON_MANY);
    printf("%s: %.4g us, %s: %.4g us\n", tiles[ON_MANY], own[ON_MANY] * 1e6, tiles[ON_FEW],
           foreign * 1e6);
    assert_int_equal(last.grid, grids[ON_FEW]);
    assert_true(foreign >= WIDE_FOREIGN * own[ON_MANY]);
    tg_module_destroy(module);
}

static int prepare(void **state) {
    static char folder[256];
    static const size_t sizes[1];
    const char *path = getenv("TG_CUDA_LIBRARY");
    void *library = path ? dlopen(path, RTLD_NOW) : NULL;
    tg_context *context;
    tg_options hooks = {.size = sizeof hooks, .log = note};
    if (!library) return fprintf(stderr, "TG_CUDA_LIBRARY must be the fake driver\n"), 1;
#define X(result, name, parameters) *(void **)&fake.name = dlsym(library, #name);
    FAKE_ENTRIES(X)
#undef X
    fake.fake_kernel("wide", run, 0, sizes);
    snprintf(folder, sizeof folder, "%s/elsewhere-XXXXXX", TEST_OUT);
    if (!mkdtemp(folder)) return -1;
    setenv("TG_CACHE", folder, 1);
    setenv("FAKE_CUDA_DEVICES", WIDE_DEVICES, 1);
    setenv("FAKE_CUDA_CLOCK", "1", 1);
    setenv("TG_FAULT", "oracle@",
           1); // otherwise the interpreter would find that nothing is computed
    if (tg_context_create(&hooks, &context)) return -1;
    tg_context_use(context);
    *state = context;
    return 0;
}

static int end(void **state) {
    tg_context_use(NULL);
    tg_context_destroy(*state);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(each_finds_its_own)};
    return cmocka_run_group_tests(tests, prepare, end);
}
