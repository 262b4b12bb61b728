// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// GPU launches that skip their host code: the device must get the same operations as from the host
// code, for any new addresses of tensors and values of numbers.
#include "runtime/gpu/gpu_launch.h"
#include "tests/runtime/gpu_kernels.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { PLACES = 6, ROUNDS = 400 };

/* ---- kernels: axpy adds a tensor to another one, by pointers or by tensor maps --------------- */

static int host_runs;

/// y[i] += a x[i]
static void axpy_kernel(const FakeLaunch *launch, void **args) {
    const float *x = *(float **)args[0];
    float *y = *(float **)args[1], a = *(float *)args[3];
    int64_t n = *(int64_t *)args[2];
    seen_launch = *launch;
    for (int64_t i = 0; i < n; i++) y[i] += a * x[i];
}

/// The same through maps, which begin with the address; rows of 4.
static void mapped_kernel(const FakeLaunch *launch, void **args) {
    const float *x;
    float *y, a = *(float *)args[3];
    memcpy(&x, args[0], sizeof x);
    memcpy(&y, args[1], sizeof y);
    seen_launch = *launch;
    for (int64_t i = 0; i < *(int64_t *)args[2]; i++) y[i] += a * x[i];
}

/// Passes addresses where they are, as compiled code does.
static int32_t axpy_entry(const tg_slot *args, const tg_env *env) {
    int64_t n = args[0].tensor.shape[0];
    uint64_t a = args[2].bits;
    const void *params[] = {&args[0].tensor.data, &args[1].tensor.data, &n, &a};
    host_runs++;
    return env->dispatch(env, 0, (n + 31) / 32, (void *const *)(uintptr_t)params);
}

/// Also passes the number.
static int32_t passing_entry(const tg_slot *args, const tg_env *env) {
    int64_t n = args[0].tensor.shape[0];
    const void *params[] = {&args[0].tensor.data, &args[1].tensor.data, &n, &args[2].bits};
    host_runs++;
    return env->dispatch(env, 0, (n + 31) / 32, (void *const *)(uintptr_t)params);
}

static int32_t mapped_entry(const tg_slot *args, const tg_env *env) {
    static const tg_tensormap how = {
        .type = TG_MAP_F32, .rank = 2, .swizzle = 0, .axes = {1, 0}, .box = {4, 4}};
    _Alignas(64) unsigned char maps[2][TG_TENSORMAP_BYTES];
    int64_t n = args[0].tensor.shape[0], dims[2] = {n / 4, 4}, strides[2] = {4, 1};
    uint64_t a = args[2].bits;
    host_runs++;
    for (int i = 0; i < 2; i++) {
        int32_t status = env->tensormap(env, &how, args[i].tensor.data, dims, strides, maps[i]);
        if (status) return status;
    }
    void *params[] = {maps[0], maps[1], &n, &a};
    // Launches twice, the second time for a part.
    int32_t status = env->dispatch(env, 1, 1, params);
    n = 4;
    return status ? status : env->dispatch(env, 1, 1, params);
}

static const char code[] = "\177ELF and so on";
static const tg_device_function both[] = {
    {"axpy", 32, 1, 0, 4, TG_DEVICE_REPLAYS, 0},
    {"mapped", 32, 1, 0, 4, TG_DEVICE_REPLAYS, 0},
};
static const tg_device_function passing[] = {
    {"axpy", 32, 1, 0, 4, TG_DEVICE_REPLAYS | TG_DEVICE_NUMBERS, 0}};
static const tg_device_function by_host[] = {{"axpy", 32, 1, 0, 4, 0, 0}};
#define CODE(list, count)                                                                          \
    {                                                                                              \
        .kind = TG_IMAGE_CUBIN, .n_functions = (count), .arch = 90, .specific = 1,                 \
        .target = "sm_90a", .bytes = code, .size = sizeof code, .functions = (list)                \
    }
static tg_image again_image = CODE(both, 2), host_image = CODE(by_host, 1);
static tg_image passing_image = CODE(passing, 1);

static const uint8_t in_place[2] = {1, 0};
#define IN_PLACE(fn)                                                                               \
    {                                                                                              \
        .entry = fn, .params = three, .n_params = 3, .config = "", .image = &again_image,          \
        .inplace = in_place, .n_inplace = 1                                                        \
    }

KERNEL(axpy, IN_PLACE(axpy_entry));
KERNEL(mapped, IN_PLACE(mapped_entry));
KERNEL(hosted, VARIANT(axpy_entry, &host_image));
KERNEL(passes, VARIANT(passing_entry, &passing_image));

/* ---- launched kernels ------------------------------------------------------------------------ */

static float memory[PLACES][N] __attribute__((aligned(64))), wanted[PLACES][N];
static uint64_t seed = 1;

static int draw(int n) {
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (int)((seed >> 33) % (uint64_t)n);
}

typedef struct Axpy {
    int from, to;
    int64_t n;
    float a;
    bool rest; // once more for the first four elements
} Axpy;

static tg_status start(tg_kernel *k, const Axpy *w, void *stream) {
    int64_t nx = w->n, ny = w->n;
    DLTensor x = row(memory[w->from], &nx), y = row(memory[w->to], &ny);
    x.device = y.device = (DLDevice){kDLCUDA, 0};
    tg_arg args[] = {tg_tensor(&x), tg_tensor(&y), tg_float(w->a)};
    return tg_launch_on(k, args, 3, stream);
}

static void launch_on(tg_kernel *k, const Axpy *w, void *stream) {
    for (int64_t i = 0; i < w->n + (w->rest ? 4 : 0); i++)
        wanted[w->to][i % w->n] += w->a * wanted[w->from][i % w->n];
    expect_ok(start(k, w, stream));
    assert_memory_equal(memory, wanted, sizeof memory);
    for (int p = 0; p < PLACES; p++) // small numbers stay exact
        for (int i = 0; i < N; i++)
            if (wanted[p][i] > 1000 || wanted[p][i] < -1000) memory[p][i] = wanted[p][i] = 1;
}

static void launch(tg_kernel *k, const Axpy *w) {
    launch_on(k, w, NULL);
}

static int fill(void **state) {
    (void)state;
    for (int p = 0; p < PLACES; p++)
        for (int i = 0; i < N; i++) memory[p][i] = wanted[p][i] = (float)draw(9);
    host_runs = 0;
    return 0;
}

/* ---- tests ----------------------------------------------------------------------------------- */

/// The first launch binds, the second records, and later ones do neither.
static void once_written_down(void **state) {
    (void)state;
    for (int i = 0; i < 50; i++)
        launch(&axpy, &(Axpy){i % 2, 2 + i % 3, 64, 2, false}); // other addresses each time
    assert_int_equal(host_runs, 2);
    assert_int_equal(seen_launch.grid, 2);
    launch(&axpy, &(Axpy){0, 1, 96, 2, false}); // another shape is another call
    assert_int_equal(seen_launch.grid, 3);
    assert_int_equal(host_runs, 3);
}

/// Host code of other kernels may depend on anything.
static void not_of_others(void **state) {
    (void)state;
    for (int i = 0; i < 20; i++) launch(&hosted, &(Axpy){i % 2, 2, 64, 1, false});
    assert_int_equal(host_runs, 20);
}

/// Numbers may control host code, so it runs when one changes.
static void numbers_change(void **state) {
    (void)state;
    for (int i = 0; i < 6; i++) launch(&axpy, &(Axpy){0, 1, 128, (float)(i / 3), false});
    assert_int_equal(host_runs, 3);
    for (int i = 0; i < 40; i++) launch(&axpy, &(Axpy){0, 1, 128, (float)(i % 2 * 2 - 1), false});
    launch(&axpy, &(Axpy){1, 2, 128, 1, false});
    launch(&axpy, &(Axpy){2, 1, 128, 1, false});
}

/// If host code only passes a number to the device, a change does not make it run.
static void numbers_pass(void **state) {
    (void)state;
    for (int i = 0; i < 30; i++) launch(&passes, &(Axpy){i % 2, 2, 128, (float)(i % 5 - 2), false});
    assert_int_equal(host_runs, 2);
}

static void at_random(void **state) {
    (void)state;
    static const int64_t sizes[] = {64, 128, 8, 4};
    for (int i = 0; i < ROUNDS; i++) {
        bool maps = draw(2);
        float a = draw(8) ? 1 : (float)draw(3);
        int from = draw(PLACES), to = draw(8) ? draw(PLACES) : from;
        launch(maps ? &mapped : &axpy, &(Axpy){from, to, sizes[draw(4)], a, maps});
    }
}

/// A map contains an address, so a moved tensor needs a new map.
static void maps_move(void **state) {
    (void)state;
    for (int i = 0; i < 30; i++) launch(&mapped, &(Axpy){i % 3, 3 + i % 2, 64, 1, true});
    assert_int_equal(host_runs, 2);
}

/// A failure belongs to its launch, and the next one starts over.
static void failures(void **state) {
    (void)state;
    Axpy w = {0, 1, 32, 1, false};
    for (int i = 0; i < 3; i++) launch(&axpy, &w);
    fake.fake_fail("cuLaunchKernelEx", 701);
    expect(start(&axpy, &w, NULL), TG_ERROR_UNSUPPORTED, "axpy: launching 'axpy' (1 CTAs");
    launch(&axpy, &w);
    assert_int_equal(host_runs, 2);
}

/// For an extent that no launch had before.
static const Axpy one = {0, 1, 48, 1, false}, two = {0, 1, 48, 1, true};
static int asked, pushed, launched;

static void count_contexts(const char *call) {
    asked += strcmp(call, "cuCtxGetCurrent") == 0;
    pushed += strcmp(call, "cuCtxPushCurrent_v2") == 0;
}

/// The driver refuses the second launch from now on.
static void refuse_second(const char *call) {
    count_contexts(call);
    if (strcmp(call, "cuLaunchKernelEx") == 0 && launched++ == 0) fake.fake_fail(call, 709);
}

/// And all later ones, with another error.
static void refuse_others(const char *call) {
    count_contexts(call);
    if (strcmp(call, "cuLaunchKernelEx") == 0) fake.fake_fail(call, launched++ ? 702 : 701);
}

/// Binds, records, repeats; `watch` sees all later calls.
static void write_down(tg_kernel *k, const Axpy *w, void (*watch)(const char *call)) {
    for (int i = 0; i < 3; i++) launch(k, w);
    launched = asked = pushed = 0;
    fake.fake_watch(watch);
}

/// Checks how often launches on the stream ask for the current context, and enter their own.
static void expect_contexts(tg_kernel *k, const Axpy *w, void *stream, int asks, int pushes) {
    cu_context before, after;
    rt_cuda_driver()->current(&before);
    asked = pushed = 0;
    for (int i = 0; i < 3; i++) launch_on(k, w, stream);
    assert_int_equal(asked, 3 * asks);
    assert_int_equal(pushed, 3 * pushes);
    rt_cuda_driver()->current(&after);
    assert_ptr_equal(before, after);
}

/// A stream belongs to its device's context, the default stream to the current context.
static void contexts(void **state) {
    (void)state;
    rt_entered own, other;
    void *stream = fake.fake_stream(0);
    expect_ok(rt_enter(rt_device_at(0), &own));
    write_down(&axpy, &one, count_contexts);
    expect_contexts(&axpy, &one, NULL, 1, 0);
    expect_contexts(&axpy, &one, stream, 0, 0);
    expect_ok(rt_enter(rt_device_at(1), &other));
    expect_contexts(&axpy, &one, stream, 0, 0);
    for (uintptr_t i = 0; i < 3; i++) expect_contexts(&axpy, &one, (void *)i, 2, 1);
    rt_leave(other);
    for (uintptr_t i = 0; i < 3; i++) expect_contexts(&axpy, &one, (void *)i, 1, 0);
    fake.fake_fail("cuLaunchKernelEx", 400); // its own context is current
    expect(start(&axpy, &one, stream), TG_ERROR_ARGUMENT, "axpy: launching 'axpy' (2 CTAs");
    rt_leave(own);
    expect_contexts(&axpy, &one, stream, 0, 0);
    expect_contexts(&axpy, &one, NULL, 2, 1);
    fake.fake_watch(NULL);
}

/// Both attempts of a launch fail: the first error is reported, and nothing is remembered.
static void refused_twice(void **state) {
    (void)state;
    void *stream = fake.fake_stream(0);
    write_down(&mapped, &two, refuse_others);
    expect(start(&mapped, &two, stream), TG_ERROR_UNSUPPORTED, "error 701");
    assert_int_equal(pushed, 1);
    fake.fake_watch(NULL);
    fake.fake_fail("cuLaunchKernelEx", 0);
    memcpy(memory, wanted, sizeof memory);
    write_down(&mapped, &two, count_contexts);
    expect_contexts(&mapped, &two, stream, 0, 0);
    fake.fake_watch(NULL);
}

/// With a driver that requires a stream's context to be current, in repeated launches and other
/// calls.
static void refused(void **state) {
    (void)state;
    void *stream = fake.fake_stream(0);
    write_down(&mapped, &two, refuse_second);
    launch_on(&mapped, &two, stream);
    assert_int_equal(asked, 1);
    assert_int_equal(pushed, 1);
    expect_contexts(&mapped, &two, stream, 1, 1);
    write_down(&passes, &one, count_contexts);
    expect_contexts(&passes, &one, stream, 1, 1);
    fake.fake_watch(NULL);
}

/// Maps of moved tensors are made, and launched, inside the device's context.
static void moved_elsewhere(void **state) {
    (void)state;
    rt_entered other;
    cu_context now;
    expect_ok(rt_enter(rt_device_at(1), &other));
    for (int i = 0; i < 12; i++) launch(&mapped, &(Axpy){i % 3, 3 + i % 2, two.n, 1, true});
    rt_cuda_driver()->current(&now);
    assert_ptr_equal(now, rt_device_at(1)->context);
    rt_leave(other);
}

int main(void) {
    if (!open_fake()) return print_error("TG_CUDA_LIBRARY must be the fake driver\n"), 1;
    fake.fake_kernel("axpy", axpy_kernel, 4, (size_t[]){8, 8, 8, 4});
    fake.fake_kernel("mapped", mapped_kernel, 4,
                     (size_t[]){TG_TENSORMAP_BYTES, TG_TENSORMAP_BYTES, 8, 4});
#define TEST(f) cmocka_unit_test_setup(f, fill)
    const struct CMUnitTest tests[] = {
        TEST(once_written_down), TEST(not_of_others),   TEST(numbers_change), TEST(numbers_pass),
        TEST(maps_move),         TEST(failures),        TEST(at_random),      TEST(contexts),
        TEST(refused_twice),     TEST(moved_elsewhere), TEST(refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
