// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Trials and tuning on GPUs, against the stand-in driver.
#include "tests/runtime/gpu_kernels.h"
#include "tests/said.h"

#include "runtime/gpu/gpu_launch.h"
#include "runtime/tune/sandbox.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

/// While set, the clock counts this process's own work, so that a search gets as far within its
/// budget on a busy machine.
static bool counts_work;

double __real_rt_seconds(void);
double __wrap_rt_seconds(void);
double __wrap_rt_seconds(void) {
    struct timespec t;
    if (!counts_work || clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t)) return __real_rt_seconds();
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/// Scales by twice as much; leaves out some elements, and writes past the end.
static int64_t left_out, too_far;
static int32_t short_entry(const tg_slot *args, const tg_env *env) {
    int64_t n = args[0].tensor.shape[0] - left_out + too_far;
    tg_slot own[3] = {args[0], args[1], args[2]};
    own[0].tensor.shape = &n;
    return scale_entry(own, env);
}

KERNEL(twofold, VARIANT(scale_entry, &for_80), VARIANT(short_entry, &for_80));

/// Trials use memory of the device: they neither read nor write the caller's, and free all of it.
static void trials(void **state) {
    (void)state;
    static const tg_variant right = VARIANT(scale_entry, &for_80),
                            cut = VARIANT(short_entry, &for_80),
                            other = VARIANT(scale_entry, &for_90a);
    Call c, same;
    double seconds, times[3];
    rt_trial *t;
    int allocated = fake.fake_allocated();
    rt_trial_options o = {.info = &twofold_info, .args = on_device(&c, 1)->args, .n = 3, .seed = 1};
    memcpy(&same, &c, sizeof c);
    expect_ok(rt_trial_open(&o, &t));
    assert_true(fake.fake_allocated() > allocated);
    assert_int_equal(rt_trial_check(t, &right, &seconds), RT_RIGHT);
    assert_int_equal(seen_launch.device, 1);
    assert_int_equal(rt_trial_check(t, &cut, &seconds), RT_RIGHT);
    left_out = 1;
    assert_int_equal(rt_trial_check(t, &cut, &seconds), RT_WRONG);
    expect(TG_OK, TG_OK, "'y' is wrong in 1 of 1000 places, first in place 999");
    left_out = 0, too_far = 1;
    assert_int_equal(rt_trial_check(t, &cut, &seconds), RT_WRONG);
    expect(TG_OK, TG_OK, "memory behind 'y' was written, 0 bytes from it");
    assert_int_equal(rt_trial_check(t, &other, &seconds), RT_FAILED);
    expect(TG_OK, TG_OK, "not for such arguments");
    fake.fake_fail("cuLaunchKernelEx", 719);
    assert_int_equal(rt_trial_check(t, &right, &seconds), RT_FAILED);
    assert_int_equal(rt_trial_check(t, &right, &seconds), RT_RIGHT);
    expect_ok(rt_trial_time(t, &right, 3, times)); // finds the number of launches to time together
    int flushes = fake.fake_calls("cuMemsetD32Async");
    expect_ok(rt_trial_time(t, &right, 3, times));
    assert_int_equal(fake.fake_calls("cuMemsetD32Async"), flushes + 3);
    rt_trial_close(t);
    assert_int_equal(fake.fake_allocated(), allocated);
    assert_memory_equal(&c, &same, sizeof c);
    assert_null(fake.fake_mistake());
}

/// Right but for one element.
static int64_t spoiled;
static int32_t spoiling_entry(const tg_slot *args, const tg_env *env) {
    int32_t status = scale_entry(args, env);
    ((float *)args[1].tensor.data)[spoiled] += 1;
    return status;
}

/// A trial looks at a part of a large result. The winner's whole result is looked at.
static void looks_at_parts(void **state) {
    (void)state;
    enum { LARGE = 1 << 14, LOOKS = 1 << 13 };
    static const tg_variant right = VARIANT(scale_entry, &for_80),
                            other = VARIANT(scale_entry, &for_80),
                            wrong = VARIANT(spoiling_entry, &for_80);
    static float x[LARGE], y[LARGE];
    int64_t n = LARGE;
    DLTensor tensors[2] = {row(x, &n), row(y, &n)};
    tensors[0].device = tensors[1].device = (DLDevice){kDLCUDA, 1};
    tg_arg args[3] = {tg_tensor(&tensors[0]), tg_tensor(&tensors[1]), tg_float(3)};
    double seconds;
    rt_trial *t;
    int found = 0, missed = 0, allocated = fake.fake_allocated();
    rt_trial_options o = {.info = &twofold_info, .args = args, .n = 3, .seed = 1, .looks = LOOKS};
    expect_ok(rt_trial_open(&o, &t));
    assert_int_equal(rt_trial_check(t, &right, &seconds), RT_RIGHT);
    assert_int_equal(rt_trial_confirm(t, &right), RT_RIGHT);
    for (spoiled = 1; spoiled < LARGE; spoiled += LARGE / 12) {
        rt_verdict v = rt_trial_check(t, &wrong, &seconds);
        assert_true(v == RT_RIGHT || v == RT_WRONG);
        found += v == RT_WRONG, missed += v == RT_RIGHT;
        assert_int_equal(rt_trial_confirm(t, &wrong), RT_WRONG);
        char text[80];
        snprintf(text, sizeof text, "'y' is wrong in 1 of %d places, first in place %d", LARGE,
                 (int)spoiled);
        expect(TG_OK, TG_OK, text);
    }
    assert_true(found > 0 && missed > 0);
    assert_int_equal(rt_trial_check(t, &other, &seconds), RT_RIGHT);
    assert_int_equal(rt_trial_confirm(t, &other), RT_RIGHT);
    rt_trial_close(t);
    assert_int_equal(fake.fake_allocated(), allocated);
}

/// An object of two variants is tuned in this process, at its first launch that is not captured.
static void tunes(void **state) {
    (void)state;
    static Call c;
    void *stream = fake.fake_stream(1);
    setenv("TG_TUNE", "block", 1);
    setenv("TG_TUNE_FORK", "off", 1);
    setenv("TG_CACHE", "off", 1);
    left_out = too_far = 0;
    launches = 0;
    fake.fake_capture(stream);
    expect_ok(tg_launch_on(&twofold, on_device(&c, 1)->args, 3, stream));
    void *graph = fake.fake_capture_end(stream);
    assert_int_equal(launches, 0);
    counts_work = true;
    expect_ok(tg_launch_on(&twofold, c.args, 3, stream));
    counts_work = false;
    assert_true(launches > 12);
    expect_scaled(&c, 0);
    launches = 0;
    expect_ok(tg_launch_on(&twofold, c.args, 3, stream));
    assert_int_equal(launches, 1);
    fake.fake_drop(graph);
    unsetenv("TG_TUNE");
    unsetenv("TG_TUNE_FORK");
}

/* ---- integers of a launch that others search for -------------------------------------------- */

enum { COLUMNS = 6, ROWS = 1 << 20, FEW = 1000 };

/// Checks rows of a large tensor whose elements are the row's number, from the first to near the
/// last.
static void expect_rows(const int32_t *x, size_t bytes) {
    size_t row = COLUMNS * sizeof *x;
    assert_true(bytes <= RT_SAMPLE && bytes > RT_SAMPLE / 10 * 9 && bytes % row == 0);
    for (size_t i = 0; i < bytes / row; i++) {
        const int32_t *r = &x[i * COLUMNS];
        for (int k = 1; k < COLUMNS; k++) assert_int_equal(r[k], r[0]);
        if (i) assert_true(r[0] > r[-1]);
    }
    assert_int_equal(x[0], 0);
    assert_true(x[bytes / sizeof *x - 1] > ROWS / 1000 * 999);
}

/// Samples all of a small tensor, and whole rows from all parts of a large one. The host waits for
/// no copy until asked to, and nothing stays allocated.
static void samples(void **state) {
    (void)state;
    int32_t *many = malloc(sizeof *many * COLUMNS * ROWS), few[FEW];
    for (int i = 0; i < COLUMNS * ROWS; i++) many[i] = i / COLUMNS;
    for (int i = 0; i < FEW; i++) few[i] = i;
    const int64_t shape[2] = {ROWS, COLUMNS}, strides[2] = {COLUMNS, 1};
    rt_held held[3] = {
        {(uintptr_t)many, sizeof *many * COLUMNS * ROWS, rt_held_row(2, shape, strides, 32)},
        {0},
        {(uintptr_t)few, sizeof few, sizeof *few}};
    void *stream = fake.fake_stream(1);
    for (int device = -1; device < 2; device += 2) {
        int allocated = fake.fake_allocated(), waits = fake.fake_calls("cuEventSynchronize");
        size_t bytes;
        rt_samples *s = rt_samples_take(device, device < 0 ? NULL : stream, held, 3);
        assert_non_null(s);
        assert_int_equal(fake.fake_calls("cuEventSynchronize"), waits);
        assert_true(rt_samples_wait(s));
        const int32_t *x = rt_samples_of(s, 0, &bytes);
        expect_rows(x, bytes);
        assert_null(rt_samples_of(s, 1, &bytes));
        x = rt_samples_of(s, 2, &bytes);
        assert_int_equal(bytes, sizeof few);
        assert_memory_equal(x, few, sizeof few);
        rt_samples_close(s);
        assert_int_equal(fake.fake_allocated(), allocated);
    }
    // Memory that cannot be pinned makes copies wait.
    fake.fake_fail("cuMemHostRegister_v2", 2);
    assert_null(rt_samples_take(1, stream, held, 3));
    assert_null(fake.fake_mistake());
    free(many);
}

/* ---- launches that do not end --------------------------------------------------------------- */

static int32_t sticking_entry(const tg_slot *args, const tg_env *env) {
    sticks = true;
    int32_t status = scale_entry(args, env);
    sticks = false;
    return status;
}

KERNEL(stuck, VARIANT(scale_entry, &for_80), VARIANT(sticking_entry, &for_80));

/// Without child processes, a variant whose launch does not end is given up: no one waits for it,
/// and memory that it may still write to is not freed. The launch then works as without tuning.
static void does_not_end(void **state) {
    (void)state;
    static Call c;
    tg_options options = {.size = sizeof options, .threads = 1, .log = note};
    tg_context *context;
    setenv("TG_TUNE", "exhaustive", 1);
    setenv("TG_TUNE_FORK", "off", 1);
    setenv("TG_CACHE", "off", 1);
    expect_ok(tg_context_create(&options, &context));
    tg_context_use(context);
    int allocated = fake.fake_allocated();
    double began = rt_seconds();
    expect_ok(tg_launch(&stuck, on_device(&c, 1)->args, 3));
    assert_true(rt_seconds() - began >= RT_PATIENCE);
    expect_scaled(&c, 0);
    assert_true(fake.fake_allocated() > allocated);
    assert_non_null(strstr(said.text, "tuning 'stuck': a variant is left out: "));
    assert_non_null(strstr(said.text, "it did not end within 0."));
    assert_non_null(strstr(said.text, "seconds, and still runs"));
    launches = 0;
    expect_ok(tg_launch(&stuck, c.args, 3));
    assert_int_equal(launches, 1);
    unsetenv("TG_TUNE");
    unsetenv("TG_TUNE_FORK");
    fake.fake_stick(0);
    tg_context_use(NULL);
    tg_context_destroy(context);
}

/* ---- trials in processes of their own ---------------------------------------------------------
 */

/// Correct where the first integer is the caller's, in this process and in others. Its double in a
/// second fill differs by one.
enum { FIRST = 7700 };
static int32_t picking_entry(const tg_slot *args, const tg_env *env) {
    int32_t first = *(const int32_t *)args[0].tensor.data;
    if (first / 2 != FIRST / 2) abort();
    return scale_entry(args, env);
}

enum { MANY = 65 };
static const tg_param_info integer_params[3] = {
    {"x", TG_PARAM_TENSOR, 0, kDLInt, 32, -1, 1, -1, 0},
    {"y", TG_PARAM_TENSOR, TG_PARAM_WRITTEN, kDLFloat, 32, -1, 1, -1, 0},
    {"a", TG_PARAM_SCALAR, 0, kDLFloat, 32, -1, 0, -1, 0},
};
#define ONE        VARIANT(picking_entry, &for_80)
#define EIGHT      ONE, ONE, ONE, ONE, ONE, ONE, ONE, ONE
#define SIXTY_FOUR EIGHT, EIGHT, EIGHT, EIGHT, EIGHT, EIGHT, EIGHT, EIGHT
static const tg_variant many[MANY] = {SIXTY_FOUR, ONE};
static const tg_kernel_info many_info = {
    "many", "kernel many(x: i32[N], y: f32[N], a: f32)", integer_params, many, 3, 0, MANY, 0};
static const tg_variant *list[MANY];

static rt_sandbox_options options_of(Call *c, const tg_kernel_info *info, int n) {
    on_device(c, 1);
    c->tensors[0].dtype = (DLDataType){kDLInt, 32, 1};
    for (int i = 0; i < MANY; i++) list[i] = &many[i];
    return (rt_sandbox_options){.trial = {.info = info, .args = c->args, .n = 3, .seed = 1},
                                .variants = list,
                                .n = n,
                                .device = 1,
                                .threads = 1};
}

/// The verdict of the reference, and the reason if it is not right.
static rt_verdict check_in_process(const rt_sandbox_options *o, char why[300]) {
    rt_sandbox *box;
    double seconds[RT_SANDBOX_LAUNCHES];
    expect_ok(rt_sandbox_open(o, &box));
    rt_verdict v = rt_sandbox_check(box, 0, seconds);
    snprintf(why, 300, "%s", rt_sandbox_why(box));
    assert_int_equal(rt_sandbox_is_lost(box), v != RT_RIGHT);
    rt_sandbox_close(box);
    return v;
}

static void expect_no_process(const rt_sandbox_options *o, const char *text) {
    char why[300];
    assert_int_equal(check_in_process(o, why), RT_FAILED);
    if (!strstr(why, text)) fail_msg("'%s' is not in: %s", text, why);
}

/// Contents go to the other process, with the arguments' addresses replaced.
static void passes_contents(void **state) {
    (void)state;
    static Call c;
    static int32_t integers[N];
    const void *contents[3] = {integers};
    const size_t sizes[3] = {sizeof integers};
    char why[300];
    rt_sandbox_options o = options_of(&c, &many_info, 2);
    o.trial.contents = contents;
    o.trial.content_bytes = sizes;
    for (int i = 0; i < N; i++) integers[i] = FIRST;
    if (check_in_process(&o, why) != RT_RIGHT) fail_msg("%s", why);
    integers[0] = 1;
    assert_int_equal(check_in_process(&o, why), RT_CRASHED);
    assert_non_null(strstr(why, "signal 6"));
}

/// Each reason for which no process can try the variants.
static void no_process(void **state) {
    (void)state;
    static Call c;
    static const tg_variant foreign = VARIANT(picking_entry, &for_80);
    rt_sandbox_options o = options_of(&c, &many_info, MANY);
    expect_no_process(&o, "'many' has 65 variants for these arguments; at most 64 can be tried");
    o.n = 2;
    list[1] = &foreign;
    expect_no_process(&o, "a variant is not the object's");
    tg_kernel_info *moved = malloc(sizeof *moved);
    *moved = many_info;
    o = options_of(&c, moved, 2);
    expect_no_process(&o, "the file of the code is unknown");
    free(moved);
    assert_null(fake.fake_mistake());
}

/* ---- integers of a launch that is tuned -------------------------------------------------------
 */

static int picked, strange; // launches whose first integer is the caller's, or another one
static int32_t counted_entry(const tg_slot *args, const tg_env *env) {
    int32_t first = *(const int32_t *)args[0].tensor.data;
    if (first / 2 == FIRST / 2)
        picked++;
    else
        strange++;
    return scale_entry(args, env);
}

static int32_t counted_again(const tg_slot *args, const tg_env *env) {
    return counted_entry(args, env);
}

static const tg_variant two[2] = {VARIANT(counted_entry, &for_80), VARIANT(counted_again, &for_80)};
static const tg_kernel_info two_info = {
    "two", "kernel two(x: i32[N], y: f32[N], a: f32)", integer_params, two, 3, 0, 2, 0};

/// Trials get the launch's integers, from the device. If they cannot be copied, the launch runs as
/// without tuning, and the log has the reason.
static void tunes_with_integers(void **state) {
    (void)state;
    static Call c;
    static int32_t integers[N];
    tg_options options = {.size = sizeof options, .threads = 1, .log = note};
    tg_context *context;
    for (int i = 0; i < N; i++) integers[i] = FIRST;
    on_device(&c, 1);
    c.tensors[0].data = integers;
    c.tensors[0].dtype = (DLDataType){kDLInt, 32, 1};
    setenv("TG_TUNE", "exhaustive", 1);
    setenv("TG_TUNE_FORK", "off", 1);
    expect_ok(tg_context_create(&options, &context));
    tg_context_use(context);
    for (int copied = 0; copied < 2; copied++) {
        tg_kernel kernel = {.abi = TG_ABI, .info = &two_info};
        said.text[0] = 0;
        picked = strange = 0;
        if (!copied) fake.fake_fail("cuMemcpyDtoHAsync_v2", 2);
        expect_ok(tg_launch(&kernel, c.args, 3));
        assert_int_equal(strange, 0);
        assert_true(copied ? picked > 12 : picked == 1);
        if (!was_said(copied ? "tuned 'two': "
                             : "'two' is not tuned: copying 4000 bytes from device 1 (Fake GPU 1): "
                               "cuMemcpyDtoH: "))
            fail_msg("%s", said.text);
        tg_kernel_close(&kernel);
    }
    tg_context_use(NULL);
    tg_context_destroy(context);
    unsetenv("TG_TUNE");
    unsetenv("TG_TUNE_FORK");
    assert_null(fake.fake_mistake());
}

int main(void) {
    if (!open_fake()) return fprintf(stderr, "TG_CUDA_LIBRARY must be the fake driver\n"), 1;
#define TEST(f) cmocka_unit_test_setup(f, reset)
    const struct CMUnitTest tests[] = {
        TEST(trials),       TEST(looks_at_parts),  TEST(tunes),      TEST(samples),
        TEST(does_not_end), TEST(passes_contents), TEST(no_process), TEST(tunes_with_integers)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
