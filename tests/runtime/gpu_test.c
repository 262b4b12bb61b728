// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Launches on GPUs with a checking stand-in driver (fake_cuda.h). The kernels are written by hand
// and described to the runtime like compiled ones.
#include "tests/runtime/counted.h"
#include "tests/runtime/gpu_kernels.h"
#include "tests/runtime/ruler.h"
#include "tests/runtime/steps.h"

#include "runtime/gpu/gpu_launch.h"
#include "runtime/host.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

/* ---- kernels --------------------------------------------------------------------------------- */

KERNEL(scale, VARIANT(scale_entry, &for_80), VARIANT(scale_entry, &for_90a));
KERNEL(clusters, VARIANT(cluster_entry, &for_80));
KERNEL(maps, VARIANT(map_entry, &for_80));
KERNEL(report, VARIANT(report_entry, &for_80));
KERNEL(late, VARIANT(scale_entry, &for_90a));
KERNEL(large, VARIANT(scale_entry, &too_large));
KERNEL(count, VARIANT(count_entry, &for_80));
KERNEL(count_again, VARIANT(count_entry, &for_80));

/* ---- launches ------------------------------------------------------------------------------ */

static void launches_there(void **state) {
    (void)state;
    Call c;
    for (int device = 0; device < 2; device++) {
        expect_ok(tg_launch(&scale, on_device(&c, device)->args, 3));
        expect_scaled(&c, 0);
        assert_int_equal(seen_launch.device, device);
        assert_int_equal(seen_launch.grid, 4);
        assert_int_equal(seen_launch.block, THREADS);
        assert_int_equal(seen_launch.shared_bytes, 100 << 10);
        assert_ptr_equal(seen_launch.stream, NULL);
    }
    void *stream = fake.fake_stream(1);
    expect_ok(tg_launch_on(&scale, on_device(&c, 1)->args, 3, stream));
    assert_ptr_equal(seen_launch.stream, stream);
    expect_scaled(&c, 0);
}

/// Device 0 is an sm_90, device 1 an sm_80: each gets the best code that it can run.
static void finds_code(void **state) {
    (void)state;
    Call c;
    assert_true(tg_image_load_seconds(&for_90a, 0) >= 0);
    assert_true(tg_image_load_seconds(&for_90a, 1) < 0);
    assert_true(tg_image_load_seconds(&for_80, 0) < 0);
    assert_true(tg_image_load_seconds(&for_80, 1) >= 0);
    expect(tg_launch(&late, on_device(&c, 1)->args, 3), TG_ERROR_NOT_FOUND,
           "late: no code for x f32[1000], y f32[1000], a a number on an NVIDIA GPU (sm_80); "
           "compiled for target = sm_90a");
    expect(tg_launch(&scale, on_device(&c, -1)->args, 3), TG_ERROR_NOT_FOUND,
           "compiled for target = sm_80 | sm_90a");
    expect(tg_launch(&twice, on_device(&c, 0)->args, 2), TG_ERROR_NOT_FOUND, "target = cpu");
    assert_true(rt_image_runs(&for_80, 80) && rt_image_runs(&for_80, 90));
    assert_true(rt_image_runs(&for_90a, 90) && !rt_image_runs(&for_90a, 100));
    tg_image image = for_80;
    image.kind = TG_IMAGE_CUBIN;
    assert_true(rt_image_runs(&image, 86) && !rt_image_runs(&image, 90));
    assert_false(rt_image_runs(&for_80, 75));
}

static void one_device(void **state) {
    (void)state;
    Call c;
    on_device(&c, 0)->tensors[1].device.device_id = 1;
    expect(tg_launch(&scale, c.args, 3), TG_ERROR_ARGUMENT,
           "scale: argument 2 'y' is f32[1000] on GPU 1; 'x' is on GPU 0: all tensors of a launch "
           "must be on one device");
    c.tensors[1].device = (DLDevice){kDLCPU, 0};
    expect(tg_launch(&scale, c.args, 3), TG_ERROR_ARGUMENT,
           "is f32[1000] on the CPU; 'x' is on GPU 0");
    c.tensors[1].device = (DLDevice){kDLCUDAHost, 0}; // accessible from host and device
    expect_ok(tg_launch(&scale, c.args, 3));
    expect(tg_launch(&scale, on_device(&c, 7)->args, 3), TG_ERROR_ARGUMENT,
           "there is no device 7: this machine has 2 GPUs, from number 0 on");
    on_device(&c, 0)->tensors[0].device.device_type = kDLROCM;
    expect(tg_launch(&scale, c.args, 3), TG_ERROR_ARGUMENT, "of an AMD GPU");
    c.tensors[0].device.device_type = kDLMetal;
    expect(tg_launch(&scale, c.args, 3), TG_ERROR_ARGUMENT, "kDLCPU, kDLCUDA and kDLROCM are");
}

static void clusters_and_grids(void **state) {
    (void)state;
    Call c;
    expect_ok(tg_launch(&clusters, on_device(&c, 1)->args, 3));
    assert_int_equal(seen_launch.cluster, 2); // a program is one CTA here
    assert_int_equal(seen_launch.grid, 32);
    grid = (int64_t)1 << 31;
    expect(tg_launch(&scale, on_device(&c, 0)->args, 3), TG_ERROR_UNSUPPORTED,
           "'scale': 2147483648 programs are more than a launch can have");
    grid = -1; // nothing to do
    launches = 0;
    expect_ok(tg_launch(&scale, c.args, 3));
    assert_int_equal(launches, 0);
}

/* ---- workspaces ---------------------------------------------------------------------------- */

static void workspaces_last(void **state) {
    (void)state;
    Call c;
    workspaces[0] = 1000;
    workspaces[1] = 5000;
    filled = 7;
    expect_ok(tg_launch(&scale, on_device(&c, 0)->args, 3));
    expect_scaled(&c, 7);
    int before = fake.fake_allocated(), async = fake.fake_calls("cuMemAllocAsync");
    for (int i = 0; i < 5; i++) expect_ok(tg_launch(&scale, c.args, 3));
    assert_int_equal(fake.fake_calls("cuMemAllocAsync"), async);
    workspaces[1] = 50000; // a larger one replaces the smaller
    expect_ok(tg_launch(&scale, c.args, 3));
    assert_int_equal(fake.fake_calls("cuMemAllocAsync"), async + 1);
    assert_int_equal(fake.fake_allocated(), before);
    void *stream = fake.fake_stream(0); // two streams have separate workspaces
    expect_ok(tg_launch_on(&scale, c.args, 3, stream));
    assert_int_equal(fake.fake_allocated(), before + 2);
    expect_ok(tg_launch_on(&scale, c.args, 3, stream));
    assert_int_equal(fake.fake_allocated(), before + 2);
    workspaces[0] = INT32_MAX;
    expect(tg_launch(&scale, c.args, 3), TG_ERROR_MEMORY,
           "scale: a workspace of 2147483648 bytes on device 0 (Fake GPU 0), which has 1024 of "
           "2048 MiB left: cuMemAlloc: out of memory (CUDA_ERROR_OUT_OF_MEMORY, error 2); "
           "free memory of the device");
}

/// More streams than the runtime remembers: no launch is lost.
static void many_streams(void **state) {
    (void)state;
    Call c;
    int before = fake.fake_allocated();
    workspaces[0] = 100;
    for (int i = 0; i < 3 * RT_SPACES; i++)
        expect_ok(tg_launch_on(&scale, on_device(&c, 1)->args, 3, fake.fake_stream(1)));
    assert_in_range(fake.fake_allocated() - before, RT_SPACES / 2, RT_SPACES + 1);
}

enum { LAUNCHERS = 4, ROUNDS_EACH = 300 };

/// Half of the launches go to the thread's own stream, half to a shared one.
typedef struct Launcher {
    int number, failures;
    void *own, *shared;
} Launcher;

static void *launch_many(void *arg) {
    Launcher *l = arg;
    Call c;
    on_device(&c, 0)->n = 20;
    workspaces[0] = 64;
    for (int i = 0; i < ROUNDS_EACH; i++) {
        filled = (float)(l->number * ROUNDS_EACH + i);
        workspaces[0] += 64 * (i % 50 == 0);
        l->failures += tg_launch_on(&scale, c.args, 3, i % 2 ? l->own : l->shared) != TG_OK;
        for (int k = 0; k < 20; k++) l->failures += c.y[k] != 3 * c.x[k] + filled;
    }
    return NULL;
}

/// Simultaneous launches on one stream do not share a workspace.
static void several_threads(void **state) {
    (void)state;
    Launcher launchers[LAUNCHERS];
    pthread_t threads[LAUNCHERS];
    void *shared = fake.fake_stream(0);
    for (int i = 0; i < LAUNCHERS; i++) {
        launchers[i] = (Launcher){.number = i, .own = fake.fake_stream(0), .shared = shared};
        assert_int_equal(pthread_create(&threads[i], NULL, launch_many, &launchers[i]), 0);
    }
    for (int i = 0; i < LAUNCHERS; i++) {
        pthread_join(threads[i], NULL);
        assert_int_equal(launchers[i].failures, 0);
    }
    assert_null(fake.fake_mistake());
}

static void captures(void **state) {
    (void)state;
    Call c, other;
    void *stream = fake.fake_stream(1);
    workspaces[0] = 100;
    filled = 7;
    fake.fake_capture(stream);
    expect_ok(tg_launch_on(&scale, on_device(&c, 1)->args, 3, stream));
    workspaces[0] = 10000; // larger than in the first recorded launch
    expect_ok(tg_launch_on(&scale, c.args, 3, stream));
    void *graph = fake.fake_capture_end(stream);
    assert_true(c.y[0] != c.y[0]); // NaNs: nothing has run
    workspaces[0] = 100;
    filled = 5;
    expect_ok(tg_launch_on(&scale, on_device(&other, 1)->args, 3, stream));
    expect_scaled(&other, 5);
    fake.fake_replay(graph);
    expect_scaled(&c, 7);
    int before = fake.fake_allocated();
    fake.fake_drop(graph);
    fake.fake_capture(stream); // reuses the memory of the destroyed one
    expect_ok(tg_launch_on(&scale, c.args, 3, stream));
    graph = fake.fake_capture_end(stream);
    assert_int_equal(fake.fake_allocated(), before);
    fake.fake_replay(graph);
    expect_scaled(&c, 5);
    fake.fake_drop(graph);
}

/// A phase begins before the previous phase of the launch has ended if both have TG_DEVICE_EARLY.
/// It does not in a recorded launch, in a launch of one phase, or after the driver has refused it.
static void phases_begin_early(void **state) {
    (void)state;
    static tg_device_function waiting[FUNCTIONS];
    memcpy(waiting, functions, sizeof functions);
    waiting[FILL].flags = waiting[SCALE].flags = TG_DEVICE_EARLY;
    static tg_image image;
    image = for_90a;
    image.functions = waiting;
    const tg_variant variant[] = {VARIANT(scale_entry, &image)};
    tg_kernel_info info = scale_info;
    info.variants = variant;
    info.n_variants = 1;
    tg_kernel kernel = {.abi = TG_ABI, .info = &info};
    Call c;
    FakeOp op;
    workspaces[0] = 100;
    filled = 7;
    for (int i = 0; i < 2; i++) {
        expect_ok(tg_launch(&kernel, on_device(&c, 0)->args, 3));
        assert_true(seen_launch.early);
        expect_scaled(&c, 7);
    }
    workspaces[0] = 0;
    expect_ok(tg_launch(&kernel, on_device(&c, 0)->args, 3));
    assert_false(seen_launch.early);
    workspaces[0] = 100;
    void *stream = fake.fake_stream(0);
    fake.fake_capture(stream);
    expect_ok(tg_launch_on(&kernel, c.args, 3, stream));
    void *graph = fake.fake_capture_end(stream);
    for (int i = 0; fake.fake_graph_op(graph, i, &op); i++) assert_false(op.early);
    fake.fake_drop(graph);
    setenv("FAKE_CUDA_PLAIN", "1", 1);
    expect_ok(tg_launch(&kernel, on_device(&c, 0)->args, 3));
    unsetenv("FAKE_CUDA_PLAIN");
    assert_false(seen_launch.early);
    expect_scaled(&c, 7);
    expect_ok(tg_launch(&kernel, c.args, 3));
    assert_false(seen_launch.early);
}

/// A first launch loads code, also while a stream is captured.
static void captured_first(void **state) {
    (void)state;
    static tg_image image = IMAGE(ptx, TG_IMAGE_PTX, "sm_80", 80, 0);
    static const tg_variant variant[] = {VARIANT(scale_entry, &image)};
    tg_kernel_info info = scale_info;
    info.variants = variant;
    info.n_variants = 1;
    tg_kernel kernel = {.abi = TG_ABI, .info = &info};
    Call c;
    void *stream = fake.fake_stream(0);
    int modules = fake.fake_modules();
    fake.fake_capture(stream);
    expect_ok(tg_launch_on(&kernel, on_device(&c, 0)->args, 3, stream));
    void *graph = fake.fake_capture_end(stream);
    assert_int_equal(fake.fake_modules(), modules + 1);
    fake.fake_replay(graph);
    expect_scaled(&c, 0);
    fake.fake_drop(graph);
    tg_kernel_close(&kernel);
    tg_image_unload(&image);
    assert_int_equal(fake.fake_modules(), modules);
    assert_null(image.state);
}

/* ---- counters ------------------------------------------------------------------------------ */

/// Launches a kernel that counts to n. Returns its counter.
static uint32_t *count_to(tg_kernel *kernel, Call *c, int64_t n, void *stream) {
    c->n = n;
    expect_ok(tg_launch_on(kernel, c->args, 3, stream));
    assert_int_equal(counted_from, 0);
    return counter_seen;
}

/// Launches on a stream share a counter, whatever their kernels, shapes and contexts. Each stream
/// and each device has its own one. It is set to 0 once.
static void counters(void **state) {
    (void)state;
    Call c;
    uint32_t *words[2][2];
    void *streams[2][2];
    int sets = fake.fake_calls("cuMemsetD32Async");
    for (int device = 0; device < 2; device++) {
        on_device(&c, device);
        for (int i = 0; i < 2; i++) {
            void *stream = streams[device][i] = fake.fake_stream(device);
            uint32_t *at = words[device][i] = count_to(&count, &c, 7, stream);
            assert_ptr_equal(count_to(&count, &c, 300, stream), at);
            assert_ptr_equal(count_to(&count_again, &c, 1, stream), at);
            workspaces[0] += 100000; // a workspace that grows does not move it
            assert_ptr_equal(count_to(&count, &c, 20, stream), at);
        }
    }
    assert_ptr_not_equal(words[0][0], words[0][1]);
    assert_ptr_not_equal(words[1][0], words[1][1]);
    tg_context *context;
    expect_ok(tg_context_create(&(tg_options){.size = sizeof(tg_options)}, &context));
    tg_context *before = tg_context_use(context);
    assert_ptr_equal(count_to(&count, on_device(&c, 0), 9, streams[0][1]), words[0][1]);
    tg_context_use(before);
    tg_context_destroy(context);
    assert_int_equal(fake.fake_calls("cuMemsetD32Async"), sets + 4);
}

/// A graph has its own counter. It is set to 0 during the capture, and not by the graph.
static void captured_counters(void **state) {
    (void)state;
    Call c;
    FakeOp op;
    on_device(&c, 1);
    void *stream = fake.fake_stream(1), *graphs[2];
    uint32_t *outside = count_to(&count, &c, 5, stream), *inside[2];
    int streams = fake.fake_calls("cuStreamCreate") - fake.fake_calls("cuStreamDestroy_v2");
    for (int i = 0; i < 2; i++) {
        fake.fake_capture(stream);
        for (c.n = 10; c.n < 13; c.n++) expect_ok(tg_launch_on(&count, c.args, 3, stream));
        graphs[i] = fake.fake_capture_end(stream);
        for (int k = 0; fake.fake_graph_op(graphs[i], k, &op); k++) {
            assert_int_equal(op.kind, OP_LAUNCH);
            inside[i] = *(uint32_t **)op.args[0];
            assert_int_equal(*inside[i], 0);
        }
    }
    assert_int_equal(fake.fake_calls("cuStreamCreate") - fake.fake_calls("cuStreamDestroy_v2"),
                     streams);
    assert_ptr_not_equal(inside[0], inside[1]);
    for (int i = 0; i < 4; i++) {
        fake.fake_replay(graphs[i % 2]);
        assert_ptr_equal(counter_seen, inside[i % 2]);
        assert_int_equal(counted_from, 0);
        assert_ptr_equal(count_to(&count, &c, 3, stream), outside);
    }
    for (int i = 0; i < 2; i++) fake.fake_drop(graphs[i]);
    fake.fake_capture(stream); // takes the counter of a destroyed graph
    expect_ok(tg_launch_on(&count, c.args, 3, stream));
    void *graph = fake.fake_capture_end(stream);
    fake.fake_replay(graph);
    assert_true(counter_seen == inside[0] || counter_seen == inside[1]);
    assert_int_equal(counted_from, 0);
    fake.fake_drop(graph);
}

/// A launch that ends early, or is refused, does not spoil the next one.
static void counters_after_failures(void **state) {
    (void)state;
    Call c;
    void *stream = fake.fake_stream(0);
    on_device(&c, 0);
    uint32_t *at = count_to(&count, &c, 20, stream);
    c.x[3] = 13;
    skipped = 5;
    expect(tg_launch_on(&count, c.args, 3, stream), TG_ERROR_CONTRACT, "assertion failed");
    assert_int_equal(*at, 15);
    skipped = 0;
    assert_ptr_equal(count_to(&count, &c, 20, stream), at);
    fake.fake_fail("cuLaunchKernelEx", 701);
    expect(tg_launch_on(&count, c.args, 3, stream), TG_ERROR_UNSUPPORTED, "'count'");
    assert_ptr_equal(count_to(&count, &c, 20, stream), at);
}

/// Memory that runs out, and a driver that fails, fail one launch.
static void counters_without_memory(void **state) {
    (void)state;
    static const char *calls[] = {"cuMemAllocAsync", "cuMemsetD32Async", "cuMemAlloc_v2",
                                  "cuStreamCreate",  "cuMemsetD32Async", "cuStreamSynchronize"};
    Call c;
    void *graphs[COUNT(calls)] = {NULL}; // all at once, so that each has its own counter
    on_device(&c, 0);
    for (int i = 0; i < COUNT(calls); i++) {
        void *stream = fake.fake_stream(0);
        bool memory = strncmp(calls[i], "cuMemAlloc", 10) == 0;
        int allocated = fake.fake_allocated();
        if (i >= 2) fake.fake_capture(stream);
        fake.fake_fail(calls[i], 2);
        if (i == 0) fake.fake_fail("cuMemAlloc_v2", 2); // which it tries then
        expect(tg_launch_on(&count, c.args, 3, stream), TG_ERROR_MEMORY,
               memory ? "a workspace of 512 bytes" : "setting a counter to 0 on device 0");
        expect_ok(tg_launch_on(&count, c.args, 3, stream));
        if (i >= 2) fake.fake_replay(graphs[i] = fake.fake_capture_end(stream));
        assert_int_equal(counted_from, 0);
        assert_int_equal(*counter_seen, 0);
        assert_in_range(fake.fake_allocated() - allocated, 1, 1);
    }
    for (int i = 2; i < COUNT(calls); i++) fake.fake_drop(graphs[i]);
}

/* ---- tensor maps --------------------------------------------------------------------------- */

static void tensor_maps(void **state) {
    (void)state;
    Call c __attribute__((aligned(64)));
    tg_tensormap how = {
        .type = TG_MAP_F32, .rank = 2, .swizzle = 128, .axes = {1, 0}, .box = {32, 3}};
    map = &how;
    on_device(&c, 0);
    c.n = 36;
    c.tensors[1].data = c.x + 64;
    int before = fake.fake_calls("cuTensorMapEncodeTiled");
    for (int i = 0; i < 3; i++) expect_ok(tg_launch(&maps, c.args, 3));
    assert_int_equal(fake.fake_calls("cuTensorMapEncodeTiled"), before + 2);
    assert_string_equal(fake.fake_last_map(), "type 7 swizzle 3 fill 0 promotion 2: 12/32 3/3@48");
    void *at;
    memcpy(&at, map_bytes[1], sizeof at);
    assert_ptr_equal(at, c.x + 64);
    for (int i = 0; i < 6; i++) { // four maps in turn
        c.tensors[1].data = c.x + i % 2 * 64;
        c.tensors[0].data = c.x + 128 + i % 2 * 64;
        expect_ok(tg_launch(&maps, c.args, 3));
        if (i == 1) before = fake.fake_calls("cuTensorMapEncodeTiled");
    }
    assert_int_equal(fake.fake_calls("cuTensorMapEncodeTiled"), before);
    c.n = 0;
    expect_ok(tg_launch(&maps, c.args, 3));
    n_rows = 1; // its stride is unused
    c.n = 5;
    expect_ok(tg_launch(&maps, c.args, 3));
    assert_string_equal(fake.fake_last_map(), "type 7 swizzle 3 fill 0 promotion 2: 5/32 1/3@32");
    n_rows = 3;
    c.n = 39; // rows of 52 bytes
    expect(tg_launch(&maps, c.args, 3), TG_ERROR_INTERNAL,
           "type 7, swizzle 128, dimensions from the innermost one: 13 (stride 1, box 32), 3 "
           "(stride 13, box 3): cuTensorMapEncodeTiled");
}

/* ---- asserts and prints -------------------------------------------------------------------- */

static char printed[4096];

static void print_line(void *user, const char *text) {
    (void)user;
    size_t n = strlen(printed);
    snprintf(printed + n, sizeof printed - n, "%s\n", text);
}

static void asserts_and_prints(void **state) {
    (void)state;
    Call c;
    tg_context *context;
    tg_options options = {.size = sizeof options, .threads = 1, .print = print_line};
    expect_ok(tg_context_create(&options, &context));
    tg_context *before = tg_context_use(context);
    on_device(&c, 0)->n = 4;
    printed[0] = 0;
    expect_ok(tg_launch(&report, c.args, 3));
    assert_string_equal(printed, "x is -40\nx is -39\nx is -38\nx is -37\n");
    c.x[1] = c.x[2] = 13;
    printed[0] = 0;
    expect(tg_launch(&report, c.args, 3), TG_ERROR_CONTRACT,
           "k.teg:4:5: assertion failed: x is 13");
    assert_string_equal(printed, "x is -40\nx is -37\n");
    c.x[1] = c.x[2] = 12;
    expect_ok(tg_launch(&report, c.args, 3));
    void *stream = fake.fake_stream(0);
    fake.fake_capture(stream);
    expect(tg_launch_on(&report, c.args, 3, stream), TG_ERROR_UNSUPPORTED,
           "code that asserts or prints cannot be captured");
    fake.fake_drop(fake.fake_capture_end(stream));
    tg_context_use(before);
    tg_context_destroy(context);
}

/// Prints without room are dropped, but a failure is still reported.
static void too_many_prints(void **state) {
    (void)state;
    enum { MANY = RT_FAULT_WORDS / 3 + 10 };
    float *x = calloc(MANY, sizeof *x);
    int64_t n = MANY;
    x[MANY - 1] = 13;
    DLTensor t = row(x, &n);
    t.device = (DLDevice){kDLCUDA, 0};
    DLTensor y = row(x, &(int64_t){0});
    y.device = t.device;
    tg_arg args[] = {tg_tensor(&t), tg_tensor(&y), tg_float(1)};
    expect(tg_launch(&report, args, 3), TG_ERROR_CONTRACT, "behind more prints than are kept");
    x[MANY - 1] = 0;
    expect_ok(tg_launch(&report, args, 3));
    free(x);
}

/* ---- images that are called ---------------------------------------------------------------- */

static int32_t call_dispatch(const tg_image *image, const tg_env *env, int32_t function,
                             int64_t programs, void *const *args) {
    assert_ptr_equal(image->user, map_bytes);
    assert_non_null(env->fail);
    FakeLaunch launch = {.name = image->functions[function].name, .grid = (unsigned)programs};
    (function == REPORT ? report_kernel
     : function == FILL ? fill_kernel
                        : scale_kernel)(&launch, (void **)(uintptr_t)args);
    return 0;
}

static int32_t call_tensormap(const tg_image *image, const tg_env *env, const tg_tensormap *how,
                              void *data, const int64_t *dims, const int64_t *strides, void *out) {
    (void)image, (void)env, (void)how, (void)dims, (void)strides;
    memcpy(out, &data, sizeof data);
    return 0;
}

static tg_image called = {.kind = TG_IMAGE_CALL,
                          .n_functions = COUNT(functions),
                          .n_sites = 2,
                          .target = "sim:sm_80",
                          .functions = functions,
                          .sites = site_list,
                          .dispatch = call_dispatch,
                          .tensormap = call_tensormap,
                          .user = map_bytes};
KERNEL(simulated, VARIANT(scale_entry, &called));
KERNEL(simulated_report, VARIANT(report_entry, &called));
KERNEL(simulated_maps, VARIANT(map_entry, &called));

/// Tensors and workspaces are on the host.
static void called_images(void **state) {
    (void)state;
    Call c;
    int before = fake.fake_allocated();
    workspaces[0] = 100;
    filled = 2;
    expect_ok(tg_launch(&simulated, on_device(&c, -1)->args, 3));
    expect_scaled(&c, 2);
    expect_ok(tg_launch(&simulated_maps, c.args, 3));
    assert_int_equal(fake.fake_allocated(), before);
    on_device(&c, -1)->n = 3;
    c.x[2] = 13;
    expect(tg_launch(&simulated_report, c.args, 3), TG_ERROR_CONTRACT, "x is 13, a bad number");
    expect(tg_launch(&simulated, on_device(&c, 0)->args, 3), TG_ERROR_NOT_FOUND,
           "target = sim:sm_80");
}

/* ---- errors -------------------------------------------------------------------------------- */

static void errors(void **state) {
    (void)state;
    static const struct {
        const char *call;
        int error;
        tg_status status;
        const char *text;
    } rows[] = {
        {"cuLaunchKernelEx", 700, TG_ERROR_CONTRACT,
         "scale: launching 'scale' (4 CTAs of 256 threads, 102400 bytes of shared memory) on "
         "device 0 (Fake GPU 0): cuLaunchKernelEx: an illegal memory access was encountered "
         "(CUDA_ERROR_ILLEGAL_ADDRESS, error 700); an earlier launch"},
        {"cuLaunchKernelEx", 701, TG_ERROR_UNSUPPORTED, "choose smaller tune values"},
        {"cuLaunchKernelEx", 400, TG_ERROR_ARGUMENT, "is the stream one of this device"},
        {"cuStreamGetCaptureInfo_v2", 906, TG_ERROR_CONTRACT, "launch on the captured stream"},
    };
    Call c;
    on_device(&c, 0);
    workspaces[0] = 64;
    for (int i = 0; i < COUNT(rows); i++) {
        bool first = strncmp(rows[i].call, "cuLaunch", 8) == 0;
        workspaces[0] = first ? 0 : 64;
        fake.fake_fail(rows[i].call, rows[i].error);
        expect(tg_launch(&scale, c.args, 3), rows[i].status, rows[i].text);
        expect_ok(tg_launch(&scale, c.args, 3));
    }
    expect(tg_launch_on(&scale, c.args, 3, NULL), TG_OK, "");
}

static int32_t mistaken_entry(const tg_slot *args, const tg_env *env) {
    void *params[] = {NULL};
    (void)args;
    return env->dispatch(env, FUNCTIONS, 1, params);
}
KERNEL(mistaken, VARIANT(mistaken_entry, &for_80));

/// Host code asks for a function that the device's code lacks.
static void no_such_function(void **state) {
    (void)state;
    static Call c;
    expect(tg_launch(&mistaken, on_device(&c, 0)->args, 3), TG_ERROR_INTERNAL,
           "mistaken: there is no device function 6");
}

/// A failure while code is loaded leaves nothing behind, and loading can be tried again.
static void load_errors(void **state) {
    (void)state;
    static tg_device_function f = {"large", 32, 1, 300 << 10, 5, 0, 0};
    Call c;
    int modules = fake.fake_modules();
    too_large.functions = &f;
    too_large.n_functions = 1;
    expect(tg_launch(&large, on_device(&c, 0)->args, 3), TG_ERROR_UNSUPPORTED,
           "'large' needs 307200 bytes of shared memory for a CTA, device 0 (Fake GPU 0) has "
           "232448: choose smaller tune values");
    f = (tg_device_function){"missing", 32, 1, 0, 5, 0, 0};
    expect(tg_prepare(&large, c.args, 3), TG_ERROR_INTERNAL, "cuModuleGetFunction");
    fake.fake_fail("cuModuleLoadDataEx", 222);
    expect(tg_launch(&large, c.args, 3), TG_ERROR_UNSUPPORTED,
           "loading PTX code for sm_80 on device 0 (Fake GPU 0): ptxas fatal: told so: "
           "cuModuleLoadDataEx: other error (CUDA_ERROR_OTHER, error 222); the driver is older "
           "than the code");
    assert_int_equal(fake.fake_modules(), modules);
    f.name = "scale";
    expect_ok(tg_prepare(&large, c.args, 3));
    expect_ok(tg_launch(&large, c.args, 3));
    expect_scaled(&c, 0);
}

/// The first test: no device is open yet. A device that cannot be opened is opened by a later
/// request.
static void opening(void **state) {
    (void)state;
    static Call c;
    tg_device_info info = {.size = sizeof info};
    on_device(&c, 1);
    fake.fake_fail("cuDeviceGet", 2);
    expect(tg_device_describe(1, &info), TG_ERROR_MEMORY, "opening device 1: cuDeviceGet: ");
    fake.fake_fail("cuDevicePrimaryCtxRetain", 2);
    expect(tg_device_synchronize(1, NULL), TG_ERROR_MEMORY,
           "opening device 1 (Fake GPU 1): cuDevicePrimaryCtxRetain: ");
    fake.fake_fail("cuDevicePrimaryCtxRetain", 2);
    expect(tg_launch(&scale, c.args, 3), TG_ERROR_MEMORY, "opening device 1 (Fake GPU 1): ");
    fake.fake_fail("cuDevicePrimaryCtxRetain", 2);
    expect(tg_image_prepare(&for_80, 1), TG_ERROR_MEMORY, "opening device 1 (Fake GPU 1): ");
    expect(tg_device_describe(1, NULL), TG_ERROR_ARGUMENT, "out->size must be");
    expect_ok(tg_launch(&scale, c.args, 3));
    expect_scaled(&c, 0);
}

static void devices(void **state) {
    (void)state;
    assert_int_equal(tg_device_count(), 2);
    tg_device_info info = {.size = sizeof info};
    expect_ok(tg_device_describe(1, &info));
    assert_string_equal(info.name, "Fake GPU 1");
    assert_int_equal(info.capability, 80);
    assert_int_equal(info.processors, 132);
    assert_int_equal(info.driver, 13000);
    expect(tg_device_describe(2, &info), TG_ERROR_ARGUMENT, "there is no device 2");
    expect_ok(tg_device_synchronize(0, NULL));
    fake.fake_fail("cuStreamSynchronize", 700);
    expect(tg_device_synchronize(0, NULL), TG_ERROR_CONTRACT,
           "waiting for device 0 (Fake GPU 0): cuStreamSynchronize: an illegal memory access");
}

/* ---- cost ---------------------------------------------------------------------------------- */

/// scale with five more numbers, which are unused.
static const tg_param_info eight_params[8] = {
    {"x", TG_PARAM_TENSOR, 0, kDLFloat, 32, -1, 1, -1, 0},
    {"y", TG_PARAM_TENSOR, TG_PARAM_WRITTEN, kDLFloat, 32, -1, 1, -1, 0},
    {"a", TG_PARAM_SCALAR, 0, kDLFloat, 32, -1, 0, -1, 0},
    {"b", TG_PARAM_SCALAR, 0, kDLFloat, 32, -1, 0, -1, 0},
    {"c", TG_PARAM_SCALAR, 0, kDLFloat, 32, -1, 0, -1, 0},
    {"i", TG_PARAM_SCALAR, 0, kDLInt, 64, -1, 0, -1, 0},
    {"j", TG_PARAM_SCALAR, 0, kDLInt, 64, -1, 0, -1, 0},
    {"k", TG_PARAM_SCALAR, 0, kDLInt, 64, -1, 0, -1, 0},
};
static const uint8_t eight_slots[8] = {0, 1, 2, 3, 4, 5, 6, 7};
static const tg_variant eight_variant[] = {
    {.entry = scale_entry, .params = eight_slots, .n_params = 8, .config = "", .image = &for_90a}};
static const tg_kernel_info eight_info = {"eight",
                                          "kernel eight(x: f32[N], y: f32[N], a: f32, b: f32, c: "
                                          "f32, i: i64, j: i64, k: i64)",
                                          eight_params,
                                          eight_variant,
                                          8,
                                          0,
                                          1,
                                          0};
static tg_kernel eight = {.abi = TG_ABI, .info = &eight_info};

static Call warm;
static tg_arg warm_args[8];
static const rt_program *warm_program;

/// The work of a program without the runtime: the device's context, and the launch.
static int launch_directly(int i) {
    const rt_cuda *cu = rt_cuda_driver();
    cu_context current;
    void *x = warm.x, *y = warm.y, *w = NULL;
    void *args[] = {&x, &y, &(int64_t){1}, &(float){(float)i}, &w};
    if (cu->current(&current)) return 1;
    return cu->launch(warm_program->functions[SCALE], 1, 1, 1, THREADS, 1, 1, 100 << 10, NULL, args,
                      NULL);
}

static int launch_warm(int i) {
    warm_args[2] = tg_float(i);
    warm_args[7] = tg_int(i);
    return (int)tg_launch(&eight, warm_args, 8);
}

/// tg_launch with eight arguments compared with the driver's own call, with this driver, which does
/// almost nothing.
static void warm_launch(void **state) {
    (void)state;
    enum { CALLS = 1000 };
    enum { STEPS = 410 }; // instructions: today's number and a fifth
    rt_entered entered;
    on_device(&warm, 0)->n = 1;
    memcpy(warm_args, warm.args, sizeof warm.args);
    for (int i = 3; i < 8; i++) warm_args[i] = i < 5 ? tg_float(i) : tg_int(i);
    expect_ok(tg_launch(&eight, warm_args, 8));
    assert_int_equal(rt_enter(rt_device_at(0), &entered), TG_OK);
    assert_int_equal(rt_program_get(&for_90a, rt_device_at(0), &warm_program), TG_OK);
    counted_calls = 0;
    static const char what[] = "warm launch of 8 arguments on a GPU";
    assert_true(ruler_over(what, launch_directly, launch_warm, CALLS));
    assert_int_equal(counted_calls, 0);
    long plain = steps_of(launch_directly, 1), ours = steps_of(launch_warm, 1);
    workspaces[0] = 64;
    expect_ok(tg_launch(&eight, warm_args, 8));
    counted_calls = 0;
    for (int i = 0; i < CALLS; i++) assert_int_equal(launch_warm(i), 0);
    assert_int_equal(counted_calls, 0);
    rt_leave(entered);
    printf("8 arguments on a GPU: %ld instructions over the driver's\n", ours - plain);
#if defined COUNTS_CALLS && defined __OPTIMIZE__ // otherwise a sanitizer's instructions count, too
    if (plain > 0 && ours > 0) assert_in_range(ours - plain, 1, STEPS);
#endif
}

int main(void) {
    static const size_t scale_sizes[] = {8, 8, 8, 4, 8}, report_sizes[] = {8, 8};
    if (!open_fake()) return fprintf(stderr, "TG_CUDA_LIBRARY must be the fake driver\n"), 1;
    fake.fake_kernel("scale", scale_kernel, 5, scale_sizes);
    fake.fake_kernel("fill", fill_kernel, 2, (size_t[]){8, 4});
    fake.fake_kernel("clusters", scale_kernel, 5, scale_sizes);
    fake.fake_kernel("report", report_kernel, 2, report_sizes);
    fake.fake_kernel("pairs", scale_kernel, 5, scale_sizes);
#define TEST(f) cmocka_unit_test_setup(f, reset)
    const struct CMUnitTest tests[] = {
        TEST(opening),
        TEST(launches_there),
        TEST(finds_code),
        TEST(one_device),
        TEST(clusters_and_grids),
        TEST(workspaces_last),
        TEST(counters),
        TEST(captured_counters),
        TEST(counters_after_failures),
        TEST(counters_without_memory),
        TEST(many_streams),
        TEST(several_threads),
        TEST(captures),
        TEST(phases_begin_early),
        TEST(captured_first),
        TEST(tensor_maps),
        TEST(asserts_and_prints),
        TEST(too_many_prints),
        TEST(called_images),
        TEST(errors),
        TEST(load_errors),
        TEST(no_such_function),
        TEST(devices),
        TEST(warm_launch),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
