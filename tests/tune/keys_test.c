// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The key of tuning results. A row for each property of a launch says if a result is still found
// (FOUND) or not (NOT) after that property changes.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "driver/tune/tune.h"
#include "driver/tune/tune_store.h"
#include "runtime/gpu/gpu_launch.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char main_text[] =
    "import \"more.teg\";\n"
    "kernel rows<T: float>(x: T[R, N], b: T[N]?, y: T[R, N], n: i32, c: const i64, a: f32)\n"
    "tune BN = 64 | 256 {\n"
    "    parallel r in R, i in N by BN {\n"
    "        var v = scaled(x[r, i] as f32, a);\n"
    "        if b { v += b[i] as f32; }\n"
    "        if c == 1 { v = -v; }\n"
    "        y[r, i] = (v + n as f32) as T;\n"
    "    }\n"
    "}\n"
    "kernel same<T: float>(x: T[R, N], b: T[N]?, y: T[R, N], n: i32, c: const i64, a: f32)\n"
    "tune BN = 64 | 256 { parallel r in R, i in N by BN { y[r, i] = x[r, i]; } }\n";
static const char more_text[] = "fn scaled(v, a) { return v * a; }\n";
static const char other_text[] = "fn scaled(v, a) { return a * v; }\n";
static const char import_text[] =
    "import \"third.teg\";\nfn scaled(v, a) { return thrice(v, a); }\n";
static const char third_text[] = "fn thrice(v, a) { return 3 * v * a; }\n";

enum { X, B, Y, N, C, A, ARGS, TEXTS = 3 };
enum { CPU = -1 };

/// A launch and its machine.
typedef struct Launch {
    Request r;
    int device;
    tg_actual args[ARGS];
    int64_t shape[2], strides[2];
    SourceText texts[TEXTS];
    NamedValue set;
    rt_device *gpu; // the description of `device`, which is restored
} Launch;

static char folder[256], extra[300]; // the store's folder, and a tool in it
static const char *compiler = "one";
const char *__wrap_backend_compiler(void);
const char *__wrap_backend_compiler(void) {
    return compiler;
}

static void put(const char *path, int bytes) {
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    for (int i = 0; i < bytes; i++) putc('#', f);
    assert_int_equal(fclose(f), 0);
}

/// Makes a launch that may be changed in place; it owns everything that it points to.
static void make(Launch *l, const char *target, int device) {
    *l = (Launch){.device = device, .shape = {48, 1000}, .strides = {1000, 1}};
    tg_actual tensor = {.code = kDLFloat,
                        .bits = 32,
                        .rank = 2,
                        .shape = l->shape,
                        .strides = l->strides,
                        .align = 16};
    l->args[X] = l->args[Y] = l->args[B] = tensor;
    l->args[B].rank = 1;
    l->args[B].shape = &l->shape[1];
    l->args[B].strides = &l->strides[1];
    l->args[N] = (tg_actual){.code = kDLInt, .bits = 32, .value = 3};
    l->args[C] = (tg_actual){.code = kDLInt, .bits = 64, .value = 1};
    l->args[A] = (tg_actual){.code = kDLFloat, .bits = 32};
    l->texts[0] = (SourceText){"k.teg", main_text, strlen(main_text)};
    l->texts[1] = (SourceText){"more.teg", more_text, strlen(more_text)};
    l->r = (Request){.path = "k.teg",
                     .n_texts = 2,
                     .texts = l->texts,
                     .kernel = "rows",
                     .threads = 2,
                     .target = target,
                     .n_args = ARGS,
                     .args = l->args};
    if (strncmp(target, "v", 1) != 0) l->r.machine = target;
    if (l->r.machine) l->r.driver = 13000;
}

static void text_is(Launch *l, int i, const char *path, const char *text) {
    l->texts[i] = (SourceText){path, text, strlen(text)};
    if (l->r.n_texts <= i) l->r.n_texts = i + 1;
}

// name, target, FOUND or NOT, the changed property
// clang-format off
#define ROWS(ROW)                                                                                  \
    ROW(nothing, "v3", FOUND, (void)l)                                                             \
    ROW(path, "v3", FOUND, l->r.path = l->texts[0].path = "/somewhere/else.teg";                   \
        l->texts[1].path = "/somewhere/more.teg")                                                  \
    ROW(import_folder, "v3", FOUND, static const char *const there = "/tmp";                       \
        l->r.paths = &there; l->r.n_paths = 1)                                                    \
    ROW(known_code, "v3", FOUND, static const Key key = {"abc", 3}; l->r.known = &key;             \
        l->r.n_known = 1)                                                                          \
    ROW(budget, "v3", FOUND, setenv("TG_TUNE_BUDGET_MS", "77", 1); (void)l)                        \
    ROW(imported_text, "v3", NOT, text_is(l, 1, "more.teg", other_text))                           \
    ROW(more_imports, "v3", NOT, text_is(l, 1, "more.teg", import_text);                           \
        text_is(l, 2, "third.teg", third_text))                                                    \
    ROW(text, "v3", NOT, static char longer[sizeof main_text + 3];                                 \
        snprintf(longer, sizeof longer, "%s//\n", main_text); text_is(l, 0, "k.teg", longer))      \
    ROW(kernel, "v3", NOT, l->r.kernel = "same")                                                   \
    ROW(pinned, "v3", NOT, l->set = (NamedValue){"BN", 64}; l->r.set = &l->set; l->r.n_set = 1)    \
    ROW(checked, "v3", NOT, l->r.check = true)                                                     \
    ROW(debugged, "v3", NOT, l->r.debug = true)                                                    \
    ROW(compiler, "v3", NOT, compiler = "two"; (void)l)                                            \
    ROW(level, "v3", NOT, l->r.target = "base")                                                    \
    ROW(threads, "v3", NOT, l->r.threads = 3)                                                      \
    ROW(bits, "v3", NOT, l->args[X].bits = l->args[Y].bits = l->args[B].bits = 64)                 \
    ROW(code, "v3", NOT, l->args[X].code = l->args[Y].code = l->args[B].code = kDLBfloat;          \
        l->args[X].bits = l->args[Y].bits = l->args[B].bits = 16)                                  \
    ROW(null, "v3", NOT, l->args[B].null = 1)                                                      \
    ROW(constant, "v3", NOT, l->args[C].value = 2)                                                 \
    ROW(number, "v3", FOUND, l->args[N].value = 4)                                                 \
    ROW(alignment, "v3", NOT, l->args[X].align = 8)                                                \
    ROW(extent_near, "v3", FOUND, l->shape[0] = 50)                                                \
    ROW(extent_far, "v3", NOT, l->shape[0] = 480)                                                  \
    ROW(stride_of_rows, "v3", FOUND, l->strides[0] = 1024)                                         \
    ROW(stride_of_columns, "v3", NOT, l->strides[1] = 2)                                           \
    ROW(broadcast, "v3", NOT, l->strides[0] = 0)                                                   \
    ROW(target, "sm_90a", NOT, l->r.target = l->r.machine = "sm_80")                               \
    ROW(machine, "sm_90a", NOT, l->r.machine = "sm_100a")                                          \
    ROW(driver, "sm_90a", NOT, l->r.driver = 12080)                                                \
    ROW(generator, "sm_90a", NOT, l->r.codegen = "nvptx")                                          \
    ROW(generator_outside, "sm_90a", NOT, setenv("TG_CODEGEN", "nvptx", 1); (void)l)               \
    ROW(host_threads, "sm_90a", NOT, l->r.threads = 3)                                             \
    ROW(same_gpu, "sm_90a", FOUND, l->device = 1;                                                  \
        strcpy(rt_device_at(1)->name, l->gpu->name))                                               \
    ROW(name, "sm_90a", NOT, strcpy(l->gpu->name, "another"))                                      \
    ROW(arch, "sm_90a", NOT, strcpy(l->gpu->arch, "sm_91"))                                        \
    ROW(processors, "sm_90a", NOT, l->gpu->processors -= 2)                                        \
    ROW(clock, "sm_90a", NOT, l->gpu->clock_khz -= 100000)                                         \
    ROW(second_cache, "sm_90a", NOT, l->gpu->l2_bytes /= 2)                                        \
    ROW(shared_memory, "sm_90a", NOT, l->gpu->shared_bytes /= 2)                                   \
    ROW(memory_clock, "sm_90a", NOT, l->gpu->memory_khz -= 100000)                                 \
    ROW(memory_width, "sm_90a", NOT, l->gpu->bus_bits /= 2)                                        \
    ROW(tool, "gfx942", NOT, put(extra, 20); (void)l)

// clang-format on
enum { NOT, FOUND };
#define CHANGE(name, target, expected, ...)                                                        \
    static void name##_changes(Launch *l) {                                                        \
        __VA_ARGS__;                                                                               \
    }
ROWS(CHANGE)

static const struct {
    const char *name, *target;
    int expected;
    void (*change)(Launch *l);
} rows[] = {
#define ENTRY(name, target, expected, ...) {#name, target, expected, name##_changes},
    ROWS(ENTRY)};
enum { N_ROWS = sizeof rows / sizeof *rows };

/// Stores a result for the original launch, looks it up for the launch that the row changes, and
/// then for the original one.
static bool find_changed(Ctx *ctx, size_t i, bool *again) {
    Launch l;
    TuneResult other, found = {.kernel = "rows",
                               .target = rows[i].target,
                               .device = "made up",
                               .shape = "R=48 N=1000",
                               .config = "BN=256",
                               .seconds = 1e-5,
                               .standard = 2e-5};
    bool gpu = rows[i].target[0] == 's';
    make(&l, rows[i].target, gpu ? 0 : CPU);
    l.gpu = gpu ? rt_device_at(0) : NULL;
    put(extra, 10);
    Launch before = l;
    rt_device kept = {.number = 0};
    if (gpu) memcpy(&kept, l.gpu, offsetof(rt_device, context));
    tune_keep(ctx, &l.r, l.device, &found);
    rows[i].change(&l);
    bool result = tune_find(ctx, &l.r, l.device, &other) && !strcmp(other.config, "BN=256");
    if (gpu) memcpy(l.gpu, &kept, offsetof(rt_device, context));
    compiler = "one";
    unsetenv("TG_CODEGEN");
    unsetenv("TG_TUNE_BUDGET_MS");
    l = before;
    *again = tune_find(ctx, &l.r, l.device, &other);
    return result;
}

static void test_rows(void **state) {
    (void)state;
    for (size_t i = 0; i < N_ROWS; i++) {
        Ctx *ctx = ctx_create(NULL);
        bool again, found = find_changed(ctx, i, &again), tool = rows[i].target[0] == 'g';
        if (diag_errors(ctx)) fail_msg("%s: %s", rows[i].name, messages_text(ctx));
        if (found != rows[i].expected)
            fail_msg("another %s: %s", rows[i].name, found ? "it is found" : "it is not found");
        if (again == tool) fail_msg("%s: what was kept is lost", rows[i].name);
        ctx_destroy(ctx);
    }
}

static int new_cache(void **state) {
    (void)state;
    snprintf(folder, sizeof folder, "%s/keys-XXXXXX", TEST_OUT);
    if (!mkdtemp(folder)) return -1;
    snprintf(extra, sizeof extra, "%s/libamd_comgr.so.3", folder);
    setenv("TG_CACHE", folder, 1);
    setenv("TG_COMGR", extra, 1);
    setenv("FAKE_CUDA_DEVICES", "90x132,90x132", 1);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_rows)};
    return cmocka_run_group_tests(tests, new_cache, NULL);
}
