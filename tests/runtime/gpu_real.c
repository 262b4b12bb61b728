// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The runtime on a real GPU: hand-written PTX is launched, captured, made to fail, and timed beside
// the driver's own call. Exits with 77 without a GPU.
#include "tests/runtime/kernels.h"
#include "tests/said.h"

#include "runtime/runtime.h"

#include <dlfcn.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define COUNT(a) ((int)(sizeof(a) / sizeof *(a)))

/* ---- device code --------------------------------------------------------------------------- */

// scale: y[i] = a x[i] + (w ? w[0] : 0); fill: w[0] = v; report: a record of site 0 for each x[i]
// that is 13; nothing: an empty kernel; tally: y[i] = a x[i] with the next number i of a counter.
static const char ptx[] =
    ".version 8.0\n.target sm_80\n.address_size 64\n"
    ".visible .entry scale(.param .u64 px, .param .u64 py, .param .u64 pn, .param .f32 pa,\n"
    "    .param .u64 pw) {\n"
    "  .reg .pred %p<3>; .reg .f32 %f<5>; .reg .b32 %r<4>; .reg .b64 %d<10>;\n"
    "  mov.u32 %r1, %tid.x; mov.u32 %r2, %ctaid.x; mov.u32 %r3, %ntid.x;\n"
    "  mad.wide.u32 %d1, %r2, %r3, 0; cvt.u64.u32 %d2, %r1; add.u64 %d1, %d1, %d2;\n"
    "  ld.param.u64 %d3, [pn]; setp.ge.u64 %p1, %d1, %d3; @%p1 ret;\n"
    "  ld.param.u64 %d4, [px]; ld.param.u64 %d5, [py]; ld.param.u64 %d6, [pw];\n"
    "  ld.param.f32 %f1, [pa]; shl.b64 %d7, %d1, 2; add.u64 %d8, %d4, %d7;\n"
    "  add.u64 %d9, %d5, %d7; ld.global.f32 %f2, [%d8]; mov.f32 %f3, 0f00000000;\n"
    "  setp.eq.u64 %p2, %d6, 0; @%p2 bra done; ld.global.f32 %f3, [%d6];\n"
    "done: fma.rn.f32 %f4, %f1, %f2, %f3; st.global.f32 [%d9], %f4; ret;\n}\n"
    ".visible .entry fill(.param .u64 pw, .param .f32 pv) {\n"
    "  .reg .f32 %f<2>; .reg .b64 %d<2>;\n"
    "  ld.param.u64 %d1, [pw]; ld.param.f32 %f1, [pv]; st.global.f32 [%d1], %f1; ret;\n}\n"
    ".visible .entry report(.param .u64 px, .param .u64 pf) {\n"
    "  .reg .pred %p<2>; .reg .f32 %f<2>; .reg .f64 %g<2>; .reg .b32 %r<4>; .reg .b64 %d<8>;\n"
    "  mov.u32 %r1, %ctaid.x; ld.param.u64 %d1, [px]; ld.param.u64 %d2, [pf];\n"
    "  mul.wide.u32 %d3, %r1, 4; add.u64 %d4, %d1, %d3; ld.global.f32 %f1, [%d4];\n"
    "  setp.neu.f32 %p1, %f1, 0f41500000; @%p1 ret;\n"
    "  atom.global.add.u32 %r2, [%d2], 3; mov.u32 %r3, 1; st.global.u32 [%d2+8], %r3;\n"
    "  mul.wide.u32 %d5, %r2, 8; add.u64 %d5, %d5, %d2; cvt.u64.u32 %d6, %r1;\n"
    "  mov.u64 %d7, 0x100000000; st.global.u64 [%d5+16], %d7; st.global.u64 [%d5+24], %d6;\n"
    "  cvt.f64.f32 %g1, %f1; st.global.f64 [%d5+32], %g1; ret;\n}\n"
    ".visible .entry nothing(.param .u64 px) { ret; }\n"
    ".visible .entry tally(.param .u64 pc, .param .u32 plast, .param .u64 px, .param .u64 py,\n"
    "    .param .f32 pa) {\n"
    "  .reg .f32 %f<4>; .reg .b32 %r<3>; .reg .b64 %d<7>;\n"
    "  ld.param.u64 %d1, [pc]; ld.param.u32 %r1, [plast]; ld.param.u64 %d2, [px];\n"
    "  ld.param.u64 %d3, [py]; ld.param.f32 %f1, [pa];\n"
    "  atom.relaxed.gpu.global.inc.u32 %r2, [%d1], %r1; mul.wide.u32 %d4, %r2, 4;\n"
    "  add.u64 %d5, %d2, %d4; add.u64 %d6, %d3, %d4; ld.global.f32 %f2, [%d5];\n"
    "  mul.f32 %f3, %f1, %f2; st.global.f32 [%d6], %f3; ret;\n}\n"
    ".visible .entry crash() {\n"
    "  .reg .b64 %d<2>; .reg .b32 %r<2>;\n"
    "  mov.u64 %d1, 8; mov.u32 %r1, 1; st.global.u32 [%d1], %r1; ret;\n}\n"
    ".visible .entry hang(.param .u64 px) {\n"
    "  .reg .pred %p<2>; .reg .b64 %d<2>; .reg .b32 %r<2>;\n"
    "  ld.param.u64 %d1, [px];\n"
    "again: ld.volatile.global.u32 %r1, [%d1]; setp.ne.u32 %p1, %r1, 1; @%p1 bra again; ret;\n}\n";

/* ---- host code ----------------------------------------------------------------------------- */

enum { SCALE, FILL, REPORT, NOTHING, CRASH, HANG, TALLY };
enum { N = 100000, THREADS = 256 };
static int64_t workspace;
static float filled;

static int32_t scale_entry(const tg_slot *args, const tg_env *env) {
    void *x = args[0].tensor.data, *y = args[1].tensor.data, *w = NULL;
    int64_t n = args[0].tensor.shape[0];
    uint64_t a = args[2].bits;
    if (workspace && !(w = env->workspace(env, workspace))) return env->fail(env, NULL, NULL);
    void *fill[] = {&w, &filled}, *scale[] = {&x, &y, &n, &a, &w};
    int32_t status = w ? env->dispatch(env, FILL, 1, fill) : 0;
    return status ? status : env->dispatch(env, SCALE, (n + THREADS - 1) / THREADS, scale);
}

static int32_t report_entry(const tg_slot *args, const tg_env *env) {
    void *x = args[0].tensor.data, *list[] = {&x};
    return env->dispatch(env, REPORT, args[0].tensor.shape[0], list);
}

static int32_t nothing_entry(const tg_slot *args, const tg_env *env) {
    void *x = args[0].tensor.data, *list[] = {&x};
    return env->dispatch(env, NOTHING, 1, list);
}

static int32_t crash_entry(const tg_slot *args, const tg_env *env) {
    void *list[] = {NULL};
    (void)args;
    return env->dispatch(env, CRASH, 1, list);
}

static int32_t hang_entry(const tg_slot *args, const tg_env *env) {
    void *x = args[0].tensor.data;
    void *list[] = {&x};
    return env->dispatch(env, HANG, 1, list);
}

static int32_t tally_entry(const tg_slot *args, const tg_env *env) {
    void *x = args[0].tensor.data, *y = args[1].tensor.data;
    int64_t n = args[0].tensor.shape[0], last = n - 1;
    uint64_t a = args[2].bits;
    uint32_t *counter = env->counter(env);
    void *list[] = {&counter, &last, &x, &y, &a};
    return counter ? env->dispatch(env, TALLY, n, list) : env->fail(env, NULL, NULL);
}

static const tg_device_function functions[] = {
    {"scale", THREADS, 1, 100 << 10, 5, 0, 0},
    {"fill", 1, 1, 0, 2, 0, 0},
    {"report", 1, 1, 0, 1, TG_DEVICE_FAULTS, 0},
    {"nothing", 32, 1, 0, 1, 0, 0},
    {"crash", 1, 1, 0, 0, 0, 0},
    {"hang", 1, 1, 0, 1, 0, 0},
    {"tally", 1, 1, 0, 5, 0, 0},
};
static const tg_site site = {TG_SITE_ASSERT, 4, 5, 1, 0, 0, "k.teg", "x is {}", "f"};
static const tg_site *const sites[] = {&site};
static tg_image image = {.kind = TG_IMAGE_PTX,
                         .arch = 80,
                         .target = "sm_80",
                         .bytes = ptx,
                         .size = sizeof ptx,
                         .functions = functions,
                         .n_functions = COUNT(functions),
                         .sites = sites,
                         .n_sites = 1};
static const uint8_t three[] = {0, 1, 2};
static const tg_param_info params[] = {
    {"x", TG_PARAM_TENSOR, 0, kDLFloat, 32, -1, 1, -1, 0},
    {"y", TG_PARAM_TENSOR, TG_PARAM_WRITTEN, kDLFloat, 32, -1, 1, -1, 0},
    {"a", TG_PARAM_SCALAR, 0, kDLFloat, 32, -1, 0, -1, 0},
};
#define KERNEL(name)                                                                               \
    static const tg_variant name##_variant = {                                                     \
        .entry = name##_entry, .params = three, .n_params = 3, .config = "", .image = &image};     \
    static const tg_kernel_info name##_info = {#name, #name, params, &name##_variant, 3, 0, 1, 0}; \
    static tg_kernel name = {.abi = TG_ABI, .info = &name##_info}
KERNEL(scale);
KERNEL(report);
KERNEL(nothing);
KERNEL(crash);
KERNEL(tally);
#define TRIED(name)                                                                                \
    { .entry = name##_entry, .params = three, .n_params = 3, .config = "B=" #name, .image = &image }
static const tg_variant tried[] = {TRIED(scale), TRIED(crash), TRIED(hang), TRIED(nothing)};
static const tg_kernel_info tuned_info = {"tuned", "tuned", params, tried, 3, 0, COUNT(tried), 0};
static tg_kernel tuned = {.abi = TG_ABI, .info = &tuned_info};

/* ---- arrays there -------------------------------------------------------------------------- */

static const rt_cuda *cu;
static int failures;
#define CHECK(what)                                                                                \
    do {                                                                                           \
        if (what) break;                                                                           \
        failures++;                                                                                \
        printf("FAIL line %d: %s (%s)\n", __LINE__, #what, tg_last_error());                       \
    } while (0)

static float host[N];
static cu_pointer x_there, y_there;
static DLTensor x_tensor, y_tensor;
static int64_t extent = N;
static tg_arg args[3];

static void upload(cu_stream stream) {
    CHECK(cu->to_device(x_there, host, sizeof host, stream) == 0);
    CHECK(cu->set_words(y_there, 0xffffffff, N, stream) == 0);
    CHECK(cu->stream_synchronize(stream) == 0);
}

static int wrong(cu_stream stream, float added) {
    static float y[N];
    int n = 0;
    CHECK(cu->to_host(y, y_there, sizeof y, stream) == 0);
    CHECK(cu->stream_synchronize(stream) == 0);
    for (int i = 0; i < extent; i++) n += !(y[i] == 3 * host[i] + added);
    return n;
}

static void prepare(int device) {
    for (int i = 0; i < N; i++) host[i] = (float)(i % 997) - 400;
    host[5] = host[7] = 13;
    CHECK(cu->allocate(&x_there, sizeof host) == 0 && cu->allocate(&y_there, sizeof host) == 0);
    x_tensor = row((float *)(uintptr_t)x_there, &extent);
    y_tensor = row((float *)(uintptr_t)y_there, &extent);
    x_tensor.device = y_tensor.device = (DLDevice){kDLCUDA, device};
    args[0] = tg_tensor(&x_tensor);
    args[1] = tg_tensor(&y_tensor);
    args[2] = tg_float(3);
}

/* ---- tests --------------------------------------------------------------------------------- */

static void launches(void) {
    cu_stream stream;
    upload(NULL);
    CHECK(tg_launch(&scale, args, 3) == TG_OK);
    CHECK(wrong(NULL, 0) == 0);
    CHECK(cu->stream_create(&stream, 1) == 0);
    workspace = 1 << 20;
    for (filled = 1; filled < 5; filled++) {
        upload(stream);
        CHECK(tg_launch_on(&scale, args, 3, stream) == TG_OK);
        CHECK(wrong(stream, filled) == 0);
        workspace *= 2; // grows
    }
    workspace = 0;
    CHECK(cu->stream_destroy(stream) == 0);
    printf("loading took %.1f ms\n",
           1e3 * tg_image_load_seconds(&image, x_tensor.device.device_id));
}

/* The functions of graphs, which the runtime itself does not need. */
static struct {
    cu_result (*begin)(cu_stream, int), (*end)(cu_stream, void **);
    cu_result (*instantiate)(void **, void *, unsigned long long), (*launch)(void *, cu_stream);
    cu_result (*drop)(void *), (*drop_exec)(void *);
} graphs;

static int find_graphs(void) {
    void *library = dlopen("libcuda.so.1", RTLD_NOW);
    *(void **)&graphs.begin = library ? dlsym(library, "cuStreamBeginCapture_v2") : NULL;
    *(void **)&graphs.end = library ? dlsym(library, "cuStreamEndCapture") : NULL;
    *(void **)&graphs.instantiate = library ? dlsym(library, "cuGraphInstantiateWithFlags") : NULL;
    *(void **)&graphs.launch = library ? dlsym(library, "cuGraphLaunch") : NULL;
    *(void **)&graphs.drop = library ? dlsym(library, "cuGraphDestroy") : NULL;
    *(void **)&graphs.drop_exec = library ? dlsym(library, "cuGraphExecDestroy") : NULL;
    return graphs.begin && graphs.end && graphs.instantiate && graphs.launch;
}

/// Checks which maps the driver makes, and prints its result for strides of 0.
static void maps(void) {
    static const struct {
        const char *what;
        int64_t dims[2], strides[2];
        bool needed;
    } rows[] = {
        {"rows of 64", {100, 64}, {64, 1}, true},
        {"one row", {1, 60}, {7, 1}, true},
        {"no row", {0, 64}, {64, 1}, true},
        {"strided rows", {100, 64}, {640, 1}, true},
        {"rows that overlap", {100, 64}, {8, 1}, false},
        {"one row, repeated", {100, 64}, {0, 1}, false},
    };
    _Alignas(64) unsigned char out[TG_TENSORMAP_BYTES];
    tg_tensormap how = {
        .type = TG_MAP_F32, .rank = 2, .swizzle = 128, .axes = {1, 0}, .box = {32, 64}};
    tg_context *context = rt_context();
    rt_launcher *l = context ? rt_claim(context) : NULL;
    rt_entered entered;
    rt_loaded at = {0};
    CHECK(l && rt_gpu_begin(l, &image, x_tensor.device.device_id, &at, NULL, &entered) == TG_OK);
    for (int i = 0; l && i < COUNT(rows); i++) {
        bool made = !rt_env_tensormap(&l->workers[0].env, &how, (void *)(uintptr_t)x_there,
                                      rows[i].dims, rows[i].strides, out);
        if (rows[i].needed) CHECK(made);
        printf("a tensor map of %s: %s\n", rows[i].what, made ? "made" : "refused");
    }
    if (l) rt_gpu_end(l, entered);
    if (l) rt_give_back(l);
}

/// Captures two launches, the second with a larger workspace; NULL: the capture failed.
static void *capture(cu_stream stream) {
    void *graph = NULL;
    workspace = 4 << 20;
    filled = 7;
    upload(stream);
    CHECK(graphs.begin(stream, 0) == 0);
    CHECK(tg_launch_on(&scale, args, 3, stream) == TG_OK);
    workspace = 16 << 20;
    CHECK(tg_launch_on(&scale, args, 3, stream) == TG_OK);
    CHECK(graphs.end(stream, &graph) == 0 && graph);
    return graph;
}

/// The graph keeps its recorded arguments, after a launch that was not recorded.
static void replay(void *graph, cu_stream stream, cu_stream other) {
    void *exec = NULL;
    CHECK(wrong(stream, 7) == N); // recorded, not run
    filled = 9;
    CHECK(tg_launch_on(&scale, args, 3, stream) == TG_OK);
    CHECK(wrong(stream, 9) == 0);
    CHECK(graphs.instantiate(&exec, graph, 0) == 0 && exec);
    if (exec) {
        CHECK(graphs.launch(exec, other) == 0);
        CHECK(wrong(other, 7) == 0);
        CHECK(graphs.drop_exec(exec) == 0);
    }
    CHECK(graphs.drop(graph) == 0);
}

/// Captures in the strictest mode (0, global), in which an operation that cannot be captured fails.
/// The driver crashes on invalid graphs, so a broken capture comes last.
static void captures(void) {
    cu_stream stream, other;
    void *graph = NULL;
    if (!find_graphs()) {
        printf("no functions of graphs\n");
        return;
    }
    CHECK(cu->stream_create(&stream, 1) == 0 && cu->stream_create(&other, 1) == 0);
    bool good = true;
    for (int round = 0; round < 3 && good; round++) {
        graph = capture(stream);
        good = graph != NULL;
        if (good) replay(graph, stream, other);
    }
    if (good) {
        CHECK(graphs.begin(stream, 0) == 0);
        CHECK(tg_launch_on(&report, args, 3, stream) == TG_ERROR_UNSUPPORTED);
        graphs.end(stream, &graph);
    }
    workspace = 0;
    CHECK(cu->stream_destroy(stream) == 0 && cu->stream_destroy(other) == 0);
}

static void *capture_tallies(cu_stream stream) {
    void *graph = NULL;
    CHECK(graphs.begin(stream, 0) == 0);
    for (int i = 0; i < 2; i++) CHECK(tg_launch_on(&tally, args, 3, stream) == TG_OK);
    CHECK(graphs.end(stream, &graph) == 0 && graph);
    return graph;
}

/// Launches and graphs count from 0 to N - 1, each number once. So they find 0 and leave 0.
static void tallies(void) {
    cu_stream stream;
    CHECK(cu->stream_create(&stream, 1) == 0);
    void *exec = NULL, *graph = find_graphs() ? capture_tallies(stream) : NULL;
    if (graph) CHECK(graphs.instantiate(&exec, graph, 0) == 0 && exec);
    for (int i = 0; i < 6; i++) {
        upload(stream);
        if (exec && i % 2)
            CHECK(graphs.launch(exec, stream) == 0);
        else
            CHECK(tg_launch_on(&tally, args, 3, stream) == TG_OK);
        CHECK(wrong(stream, 0) == 0);
    }
    if (exec) CHECK(graphs.drop_exec(exec) == 0);
    if (graph) CHECK(graphs.drop(graph) == 0);
    CHECK(cu->stream_destroy(stream) == 0);
}

static void reports(void) {
    extent = 100;
    CHECK(tg_launch(&report, args, 3) == TG_ERROR_CONTRACT);
    CHECK(strcmp(tg_last_error(), "k.teg:4:5: assertion failed: x is 13") == 0);
    extent = 5;
    CHECK(tg_launch(&report, args, 3) == TG_OK);
    extent = N;
}

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

/// Best of many batches; the queue is empty at each start.
static void times(const rt_device *d) {
    enum { ROUNDS = 200, LAUNCHES = 100 };
    const rt_program *program;
    void *x = (void *)(uintptr_t)x_there, *list[] = {&x};
    double best[3] = {1e30, 1e30, 1e30};
    CHECK(rt_program_get(&image, d, &program) == TG_OK);
    for (int round = 0; round < ROUNDS; round++)
        for (int way = 0; way < 3; way++) {
            workspace = way == 2 ? 4096 : 0;
            cu->synchronize();
            double start = now();
            for (int i = 0; i < LAUNCHES; i++)
                if (way == 0)
                    cu->launch(program->functions[NOTHING], 1, 1, 1, 32, 1, 1, 0, NULL, list, NULL);
                else
                    tg_launch(way == 1 ? &nothing : &scale, args, 3);
            double ns = (now() - start) / LAUNCHES;
            if (ns < best[way]) best[way] = ns;
        }
    workspace = 0;
    cu->synchronize();
    printf(
        "cuLaunchKernel %.0f ns, tg_launch %.0f ns (%+.0f); two kernels and a workspace %.0f ns\n",
        best[0], best[1], best[1] - best[0], best[2]);
}

/// Variants that crash, hang and do nothing during tuning leave this process intact.
static void tunes(void) {
    tg_options options = {.size = sizeof options, .threads = 1, .log = note};
    tg_context *context;
    setenv("TG_TUNE", "block", 1);
    setenv("TG_TUNE_BUDGET_MS", "10000", 1);
    setenv("TG_CACHE", "off", 1);
    CHECK(tg_context_create(&options, &context) == TG_OK);
    tg_context *before = tg_context_use(context);
    upload(NULL);
    double began = now();
    CHECK(tg_launch(&tuned, args, 3) == TG_OK);
    CHECK(wrong(NULL, 0) == 0);
    printf("tuned in %.2f s: %s", (now() - began) * 1e-9, said.text);
    CHECK(strstr(said.text, "B=crash is left out: ") != NULL);
    CHECK(strstr(said.text, "B=hang is left out: it did not end within ") != NULL);
    CHECK(strstr(said.text, "tuned 'tuned': B=scale") != NULL);
    tg_context_use(before);
    tg_context_destroy(context);
    unsetenv("TG_TUNE");
}

/// Runs last: the context cannot be used afterwards.
static void crashes(void) {
    CHECK(tg_launch(&crash, args, 3) == TG_OK);
    CHECK(tg_device_synchronize(x_tensor.device.device_id, NULL) == TG_ERROR_CONTRACT);
    printf("a crash: %s\n", tg_last_error());
    CHECK(tg_launch(&scale, args, 3) == TG_ERROR_CONTRACT);
}

int main(int argc, char **argv) {
    int device = argc > 1 ? atoi(argv[1]) : 0;
    rt_entered entered;
    setvbuf(stdout, NULL, _IOLBF, BUFSIZ); // shows results that precede a crash
    cu = rt_cuda_driver();
    const rt_device *d = cu ? rt_device_at(device) : NULL;
    if (!d) return printf("no GPU: %s\n", tg_last_error()), 77;
    CHECK(rt_enter(d, &entered) == TG_OK);
    printf("%s, driver of CUDA %d.%d\n", d->name, cu->driver_version / 1000,
           cu->driver_version / 10 % 100);
    prepare(device);
    launches();
    maps();
    tallies();
    captures();
    reports();
    times(d);
    tunes();
    crashes();
    printf("%d checks failed\n", failures);
    return failures != 0;
}
