// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Tunes objects whose variants fail in every way on a GPU, with the stand-in driver. Neither the
// program nor its device may see any effect.
#include "tests/runtime/spawned.h"

#include "tests/runtime/gpu_kernels.h"
#include "tests/said.h"

#include "runtime/tune/trial.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static int runs_here; // runs of bad variants in the program

static int32_t sticks_there(const tg_slot *args, const tg_env *env) {
    runs_here++;
    sticks = true;
    int32_t status = scale_entry(args, env);
    sticks = false;
    return status;
}
static int32_t breaks(const tg_slot *args, const tg_env *env) {
    runs_here++;
    int32_t status = scale_entry(args, env);
    fake.fake_break();
    return status;
}
static int32_t crashes(const tg_slot *args, const tg_env *env) {
    (void)args, (void)env;
    runs_here++;
    raise(SIGSEGV);
    return 0;
}
static int32_t exits(const tg_slot *args, const tg_env *env) {
    (void)args, (void)env;
    runs_here++;
    _exit(0);
}
/// Correct only with no file of the program open, and with the tensors' shape.
static int32_t is_apart(const tg_slot *args, const tg_env *env) {
    runs_here++;
    int32_t status = scale_entry(args, env);
    if (fcntl(100, F_GETFD) >= 0 || args[0].tensor.shape[0] != N) raise(SIGSEGV);
    return status;
}

#define NAMED(fn, text)                                                                            \
    { .entry = fn, .params = three, .n_params = 3, .config = text, .image = &for_80 }
KERNEL(fragile, NAMED(scale_entry, "B=usual"), NAMED(sticks_there, "B=sticks"),
       NAMED(breaks, "B=breaks"), NAMED(crashes, "B=crashes"), NAMED(exits, "B=exits"),
       NAMED(is_apart, "B=apart"));
KERNEL(hopeless, NAMED(is_apart, "B=first"), NAMED(scale_entry, "B=second"));

static void in_context(void (*test)(void)) {
    tg_options options = {.size = sizeof options, .threads = 1, .log = note};
    tg_context *context;
    said.text[0] = '\0';
    setenv("TG_TUNE", "exhaustive", 1); // no deadline: the machine may be busy
    setenv("TG_CACHE", "off", 1);
    expect_ok(tg_context_create(&options, &context));
    tg_context_use(context);
    test();
    tg_context_use(NULL);
    tg_context_destroy(context);
    unsetenv("TG_TUNE");
    assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
    assert_int_equal(errno, ECHILD);
    assert_null(fake.fake_mistake());
}

static void tune_fragile(void) {
    static Call c;
    expect_ok(tg_launch(&fragile, on_device(&c, 1)->args, 3)); // its image is loaded
    int allocated = fake.fake_allocated();
    assert_int_equal(launches, 1);
    expect_scaled(&c, 0);
    expect_ok(tg_launch(&fragile, c.args, 3));
    assert_int_equal(launches, 2);
    assert_int_equal(fake.fake_allocated(), allocated);
    assert_int_equal(runs_here, 0);
}

/// Each bad variant is named and left out, and the search continues.
static void survives(void **state) {
    (void)state;
    static const char *const wanted[] = {
        "tuning 'fragile': B=sticks is left out: it did not end within ",
        "tuning 'fragile': B=breaks is left out: ",
        "tuning 'fragile': B=crashes is left out: it crashed by signal 11",
        "tuning 'fragile': B=exits is left out: it ended its process",
        "tuned 'fragile': ",
    };
    launches = 0;
    int file = fcntl(STDIN_FILENO, F_DUPFD, 100);
    in_context(tune_fragile);
    close(file);
    for (int i = 0; i < COUNT(wanted); i++)
        if (!strstr(said.text, wanted[i])) fail_msg("'%s' is not in: %s", wanted[i], said.text);
    if (strstr(said.text, "B=apart is left out")) fail_msg("B=apart: %s", said.text);
}

static void tune_here(void) {
    static Call c;
    expect_ok(tg_launch(&hopeless, on_device(&c, 1)->args, 3));
    expect_scaled(&c, 0);
}

static void tune_hopeless(void) {
    setenv("TG_CUDA_LIBRARY", "/nowhere", 1); // in the trial process
    tune_here();
}

/// If nothing can be tried, the launch runs as without tuning, and the log has the reason.
static void has_no_device(void **state) {
    (void)state;
    char *library = strdup(getenv("TG_CUDA_LIBRARY"));
    in_context(tune_hopeless);
    setenv("TG_CUDA_LIBRARY", library, 1);
    free(library);
    if (!strstr(said.text, "'hopeless' is not tuned: without tuning it fails: "))
        fail_msg("not said: %s", said.text);
}

int spawned_refusal(const char *text) {
    if (!open_fake()) return fprintf(stderr, "TG_CUDA_LIBRARY must be the fake driver\n"), 1;
    in_context(tune_here);
    if (strstr(said.text, text) && strstr(said.text, "'hopeless' is not tuned: ")) return 0;
    return fprintf(stderr, "'%s' is not in: %s\n", text, said.text), 1;
}

int spawned_tests(void) {
    if (!open_fake()) return fprintf(stderr, "TG_CUDA_LIBRARY must be the fake driver\n"), 1;
#define TEST(f) cmocka_unit_test_setup(f, reset)
    const struct CMUnitTest tests[] = {TEST(survives), TEST(has_no_device)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
