// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Waits of launches in the default mode: the first one waits for one compilation, later ones never
// wait, whatever a background search does. The test counts slow requests of the launching thread
// (code, modules, copies, the end of a stream) and each lock that another thread holds. The device
// is the stand-in's (tests/runtime/fake_cuda.c).
//
// Searches do not pause, and the test waits for their messages instead of a time.
#include "tests/said.h"
#include "tests/tune/request.h"

#include "driver/module.h"
#include "driver/tune/tune.h"

#include <dlfcn.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

enum { N = 512 };

static const char kernels[] =
    "kernel mm(a: f32[M, K], b: f32[K, N], c: f32[M, N])\n"
    "tune BM = 64 | 32 | 128, BN = 64 | 32 | 128, BK = 32\n"
    "schedule warps = 4, stages = 2, split = 1, persistent = -1, generator = 1, order = 1\n"
    "{\n"
    "    parallel m in M by BM, n in N by BN {\n"
    "        var s: f32<BM, BN> = 0;\n"
    "        for k in K by BK { s += dot(a[m, k], b[k, n]); }\n"
    "        c[m, n] = s;\n"
    "    }\n"
    "}\n"
    "kernel first(x: f32[N], y: f32[N]) { parallel n in N by 64 { y[n] = x[n] + 1; } }\n"
    "kernel second(x: f32[N], y: f32[N]) { parallel n in N by 64 { y[n] = x[n] + 2; } }\n"
    "kernel pick(x: f32[M, N], at: i32[M], y: f32[M, N]) tune B = 64 | 128 {\n"
    "    parallel m in M, n in N by B { y[m, n] = x[at[m], n]; }\n"
    "}\n";

/// From tests/runtime/fake_cuda.h, some of whose names are taken here.
static struct {
    void (*watch)(void (*watch)(const char *call));
    void *(*stream)(int device);
    const char *(*mistake)(void);
} fake;

static void doze(void) {
    nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
}

/* ---- requests of launches ------------------------------------------------------------------- */

/// Counts of the launching thread, during its launches.
static struct {
    int codes, finds, loads, waits, locks; // finds: look-ups in the store
    char what[64];                         // description of the last wait
} seen;
static _Thread_local bool launches;

/// Where another thread stops until the launching thread has launched a new kernel.
typedef enum Gate { OPEN, ARMED, REACHED } Gate;
static _Atomic Gate compiling, loading;

static void stand_at(_Atomic Gate *gate) {
    Gate armed = ARMED;
    if (!atomic_compare_exchange_strong(gate, &armed, REACHED)) return;
    while (atomic_load(gate) == REACHED) doze();
}

static void watch(const char *call) {
    static const char *const waits[] = {"cuStreamSynchronize",
                                        "cuCtxSynchronize",
                                        "cuEventSynchronize",
                                        "cuMemAlloc_v2",
                                        "cuMemFree_v2",
                                        "a wait for a copy to memory that is "
                                        "not pinned"};
    bool load = strcmp(call, "cuModuleLoadDataEx") == 0;
    if (!launches && load) stand_at(&loading);
    if (!launches) return;
    seen.loads += load;
    for (size_t i = 0; i < sizeof waits / sizeof *waits; i++)
        if (strcmp(call, waits[i]) == 0) {
            seen.waits++;
            snprintf(seen.what, sizeof seen.what, "%s", call);
        }
}

Code *__real_build_code(Build *b, const char *name, int texts, bool load);
Code *__wrap_build_code(Build *b, const char *name, int texts, bool load);
Code *__wrap_build_code(Build *b, const char *name, int texts, bool load) {
    seen.codes += launches;
    return __real_build_code(b, name, texts, load);
}

bool __real_tune_find(Ctx *ctx, const Request *r, int device, TuneResult *out);
bool __wrap_tune_find(Ctx *ctx, const Request *r, int device, TuneResult *out);
bool __wrap_tune_find(Ctx *ctx, const Request *r, int device, TuneResult *out) {
    seen.finds += launches;
    return __real_tune_find(ctx, r, device, out);
}

void __real_cached_compile(Ctx *ctx, const Request *r, Answer *out);
void __wrap_cached_compile(Ctx *ctx, const Request *r, Answer *out);
void __wrap_cached_compile(Ctx *ctx, const Request *r, Answer *out) {
    if (!launches) stand_at(&compiling);
    __real_cached_compile(ctx, r, out);
}

int __real_pthread_mutex_lock(pthread_mutex_t *m);
int __wrap_pthread_mutex_lock(pthread_mutex_t *m);
int __wrap_pthread_mutex_lock(pthread_mutex_t *m) {
    if (!launches || pthread_mutex_trylock(m) == 0)
        return launches ? 0 : __real_pthread_mutex_lock(m);
    seen.locks++;
    return __real_pthread_mutex_lock(m);
}

static double free_bytes = 1e12;
double __wrap_tune_free_bytes(int device);
double __wrap_tune_free_bytes(int device) {
    (void)device;
    return free_bytes;
}

/* ---- a program ------------------------------------------------------------------------------ */

typedef struct Program {
    tg_context *context;
    tg_module *module;
    int device; // -1: the CPU
    void *stream;
    float *floats[3];
    int32_t *indices;
} Program;

static void begin(Program *p, int device) {
    tg_options hooks = {.size = sizeof hooks, .threads = 2, .log = note};
    *p = (Program){.device = device, .stream = device < 0 ? NULL : fake.stream(device)};
    said.text[0] = 0;
    memset(&seen, 0, sizeof seen);
    assert_int_equal(tg_context_create(&hooks, &p->context), TG_OK);
    tg_context_use(p->context);
    if (tg_module_from_source(kernels, strlen(kernels), "k.teg", NULL, &p->module))
        fail_msg("%s", tg_last_error());
    for (int i = 0; i < 3; i++) p->floats[i] = calloc((size_t)N * N, sizeof(float));
    p->indices = calloc(N, sizeof *p->indices);
}

static void end(Program *p) {
    tg_module_destroy(p->module);
    tg_context_use(NULL);
    tg_context_destroy(p->context);
    for (int i = 0; i < 3; i++) free(p->floats[i]);
    free(p->indices);
    assert_null(fake.mistake());
}

static void launch(Program *p, const char *name, int n, DLTensor *tensors) {
    tg_kernel *kernel;
    tg_arg args[4];
    for (int i = 0; i < n; i++) {
        if (p->device >= 0) tensors[i].device = (DLDevice){kDLCUDA, p->device};
        args[i] = tg_tensor(&tensors[i]);
    }
    assert_int_equal(tg_module_kernel(p->module, name, &kernel), TG_OK);
    launches = true;
    tg_status status = tg_launch_on(kernel, args, n, p->stream);
    launches = false;
    if (status) fail_msg("%s", tg_last_error());
}

static void launch_product(Program *p) {
    const int64_t shape[2] = {N, N};
    DLTensor t[3];
    for (int i = 0; i < 3; i++) t[i] = tg_dense(p->floats[i], kDLFloat, 32, 2, shape);
    launch(p, "mm", 3, t);
}

static void launch_vector(Program *p, const char *name) {
    const int64_t shape[1] = {N};
    DLTensor t[2] = {tg_dense(p->floats[0], kDLFloat, 32, 1, shape),
                     tg_dense(p->floats[1], kDLFloat, 32, 1, shape)};
    launch(p, name, 2, t);
}

static void launch_pick(Program *p) {
    const int64_t shape[2] = {N, N};
    DLTensor t[3] = {tg_dense(p->floats[0], kDLFloat, 32, 2, shape),
                     tg_dense(p->indices, kDLInt, 32, 1, shape),
                     tg_dense(p->floats[1], kDLFloat, 32, 2, shape)};
    launch(p, "pick", 3, t);
}

static void waited_for_nothing(void) {
    if (seen.waits) fail_msg("a launch asked for %s", seen.what);
    assert_int_equal(seen.locks, 0);
}

/* ---- tests ---------------------------------------------------------------------------------- */

/// Waits for one compilation, of code that is loaded once. Indices cause no wait.
static void first_launch(void **state) {
    (void)state;
    for (int device = -1; device < 1; device++) {
        Program p;
        begin(&p, device);
        launch_product(&p);
        assert_int_equal(seen.codes, 1);
        assert_int_equal(seen.loads, device < 0 ? 0 : 1);
        launch_pick(&p);
        assert_int_equal(seen.codes, 2);
        assert_int_equal(seen.loads, device < 0 ? 0 : 2);
        waited_for_nothing();
        end(&p);
    }
}

/// Other first launches do not wait for the compilation and loading of the winner. The other thread
/// stops there until they were launched. Returns their number.
static int pass_gate(Program *p, _Atomic Gate *gate, const char *kernel) {
    if (atomic_load(gate) != REACHED) return 0;
    int codes = seen.codes;
    launch_vector(p, kernel);
    assert_int_equal(seen.codes, codes + 1);
    if (gate == &compiling) atomic_store(&loading, ARMED); // compiled code is loaded next
    atomic_store(gate, OPEN);
    return 1;
}

static int open_gates(void **state) {
    (void)state;
    atomic_store(&compiling, OPEN);
    atomic_store(&loading, OPEN);
    return 0;
}

/// Launches a thousand times a second, from before the search until after its winner was swapped
/// in. Launches look for nothing in the store, compile nothing, load nothing, and meet no lock.
static void while_it_searches(void **state) {
    (void)state;
    Program p;
    setenv("FAKE_CUDA_CLOCK", "1", 1);
    setenv("TG_FAULT", "oracle@",
           1); // otherwise the interpreter would find that nothing is computed
    begin(&p, 0);
    launch_product(&p);
    atomic_store(&compiling, ARMED);
    int others = 0, after = 50;
    while (after > 0) {
        launch_product(&p);
        if (was_said("not tuned")) fail_msg("said: %s", said.text);
        after -= was_said("tuned mm");
        doze();
        others += pass_gate(&p, &compiling, "first");
        others += pass_gate(&p, &loading, "second");
    }
    assert_int_equal(others, 2);
    assert_int_equal(seen.codes, 1 + others);
    assert_int_equal(seen.finds, 1 + others);
    assert_int_equal(seen.loads, 1 + others);
    waited_for_nothing();
    end(&p);
    unsetenv("FAKE_CUDA_CLOCK");
    unsetenv("TG_FAULT");
}

/// Without enough memory there is no search, and one line says so.
static void no_room(void **state) {
    (void)state;
    for (int device = -1; device < 1; device++) {
        Program p;
        begin(&p, device);
        free_bytes =
            device < 0 ? 64e6 : 600e6; // enough for a program or a context, and little more
        while (!was_said("not tuned") && !was_said("tuned mm")) {
            launch_product(&p);
            doze();
        }
        if (!was_said("not tuned: tuning 'mm': it would take ") || was_said("tuned mm"))
            fail_msg("said: %s", said.text);
        end(&p);
        free_bytes = 1e12;
    }
}

int main(void) {
    const char *path = getenv("TG_CUDA_LIBRARY");
    void *library = path ? dlopen(path, RTLD_NOW) : NULL;
    if (!library) return fprintf(stderr, "TG_CUDA_LIBRARY must be the fake driver\n"), 1;
    *(void **)&fake.watch = dlsym(library, "fake_watch");
    *(void **)&fake.stream = dlsym(library, "fake_stream");
    *(void **)&fake.mistake = dlsym(library, "fake_mistake");
    setenv("TG_CACHE", "off", 1);
    setenv("TG_TUNE_SHARE", "100", 1);
    unsetenv("TG_TUNE");
    if (tg_device_count() == 0) return fprintf(stderr, "%s\n", tg_last_error()), 1;
    fake.watch(watch);
    const struct CMUnitTest tests[] = {cmocka_unit_test(first_launch),
                                       cmocka_unit_test_teardown(while_it_searches, open_gates),
                                       cmocka_unit_test(no_room)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
