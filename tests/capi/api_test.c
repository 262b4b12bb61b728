// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Every function of tegula.h, every status, the options and the hooks.
#include "support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char scale_source[] =
    "/// y = c x.\n"
    "kernel scale<T: float>(x: T[M, N], y: T[M, N], c: f32) tune B = 16 | 64 {\n"
    "    parallel m in M, n in N by B { y[m, n] = (x[m, n] as f32 * c) as T; }\n"
    "}\n";

static const Type *const f32 = &types[1];

static tg_status run_scale(tg_kernel *k, const float *x, float *y, int64_t m, int64_t n, double c) {
    View vx, vy;
    view(&vx, f32, (void *)(uintptr_t)x, 2, (int64_t[]){m, n}, NULL);
    view(&vy, f32, y, 2, (int64_t[]){m, n}, NULL);
    tg_arg args[3] = {tg_tensor(&vx.t), tg_tensor(&vy.t), tg_float(c)};
    return tg_launch(k, args, 3);
}

static void test_names(void **state) {
    (void)state;
    assert_string_equal(tg_version(), "0.1.0");
    for (int s = TG_OK; s <= TG_ERROR_INTERNAL; s++)
        assert_int_equal(strncmp(tg_status_name((tg_status)s), "TG_", 3), 0);
    assert_non_null(tg_last_error());
}

static void test_module(void **state) {
    (void)state;
    tg_module *m = module_of("kernel a(x: f32[N], const_: i32, f: const bool, o: i8[..P, 3]?) {}\n"
                             "kernel b<T: f16 | f32>(y: T[]) { parallel { y[] = 1; } }\n"
                             "kernel c() {}\n");
    assert_int_equal(tg_module_kernels(m), 3);
    tg_kernel *a = tg_module_kernel_at(m, 0), *b = kernel_of(m, "b");
    assert_ptr_equal(b, tg_module_kernel_at(m, 1));
    assert_null(tg_module_kernel_at(m, 3));
    assert_null(tg_module_kernel_at(m, -1));
    assert_string_equal(tg_kernel_name(a), "a");
    assert_string_equal(tg_kernel_signature(a),
                        "kernel a(x: f32[N], const_: i32, f: const bool, o: i8[..P, 3]?)");
    assert_string_equal(tg_kernel_signature(b), "kernel b<T: f16 | f32>(y: T[])");
    assert_int_equal(tg_kernel_params(a), 4);
    assert_string_equal(tg_kernel_param(a, 2), "f");
    assert_null(tg_kernel_param(a, 4));
    tg_kernel *none;
    FAILS(tg_module_kernel(m, "d", &none), TG_ERROR_NOT_FOUND, "a, b, c");
    FAILS(tg_module_kernel(m, NULL, &none), TG_ERROR_NOT_FOUND, "3 kernels");
    assert_null(none);
    OK(tg_launch(kernel_of(m, "c"), NULL, 0));
    tg_module_destroy(m);
    tg_module_destroy(NULL);
}

static void test_launch(void **state) {
    (void)state;
    tg_module *m = module_of(scale_source);
    tg_kernel *k = kernel_of(m, NULL);
    float x[6] = {1, 2, 3, 4, 5, 6}, y[6] = {0};
    OK(run_scale(k, x, y, 2, 3, 2));
    for (int i = 0; i < 6; i++) assert_true(y[i] == 2 * x[i]);
    View v;
    view(&v, f32, x, 2, (int64_t[]){3000, 200}, NULL);
    View w;
    view(&w, f32, y, 2, (int64_t[]){3000, 200}, NULL);
    float *big = calloc(3000 * 200 * 2, sizeof *big); // no kernel is running on it
    v.t.data = big;
    w.t.data = big + 3000 * 200;
    OK(tg_prepare(k, (tg_arg[]){tg_tensor(&v.t), tg_tensor(&w.t), tg_int(1)}, 3));
    for (int i = 0; i < 3000 * 200; i++) assert_true(big[3000 * 200 + i] == 0);
    free(big);
    tg_module_destroy(m);
}

static void test_argument_errors(void **state) {
    (void)state;
    tg_module *m = module_of(scale_source);
    tg_kernel *k = kernel_of(m, NULL);
    float x[8] = {0}, y[8] = {0};
    View a, b, c;
    view(&a, f32, x, 2, (int64_t[]){2, 3}, NULL);
    view(&b, f32, y, 2, (int64_t[]){2, 4}, NULL);
    view(&c, &types[7], y, 2, (int64_t[]){2, 3}, NULL); // i32 is not a float
    tg_arg ok = tg_tensor(&a.t), other = tg_tensor(&b.t);
    FAILS(tg_launch(NULL, NULL, 0), TG_ERROR_ARGUMENT, "NULL");
    FAILS(tg_launch(k, &ok, 1), TG_ERROR_ARGUMENT, "3 arguments");
    FAILS(tg_launch(k, (tg_arg[]){ok, tg_none(), tg_float(1)}, 3), TG_ERROR_ARGUMENT, "optional");
    FAILS(tg_launch(k, (tg_arg[]){ok, other, tg_float(1)}, 3), TG_ERROR_CONTRACT,
          "N is 3 in 'x' and 4 in 'y'");
    FAILS(tg_launch(k, (tg_arg[]){ok, ok, tg_tensor(&a.t)}, 3), TG_ERROR_ARGUMENT, "number");
    tg_arg ints[3] = {tg_tensor(&c.t), tg_tensor(&c.t), tg_float(1)};
    FAILS(tg_launch(k, ints, 3), TG_ERROR_ARGUMENT, "T");
    tg_module_destroy(m);
}

static void test_kernel_names(void **state) {
    (void)state;
    tg_module *m = module_of("kernel f(x: f32[N]) { parallel n in N { x[n] = 1; } }\n"
                             "kernel g(x: f32[N]) { parallel n in N { x[n] = 2; } }\n");
    tg_kernel *k;
    FAILS(tg_module_kernel(m, NULL, &k), TG_ERROR_NOT_FOUND,
          "has 2 kernels, so a name is needed: it has f, g");
    FAILS(tg_module_kernel(m, "h", &k), TG_ERROR_NOT_FOUND,
          "module 'test.teg' has no kernel 'h': it has f, g");
    tg_module_destroy(m);
}

static void test_source_errors(void **state) {
    (void)state;
    tg_module *m = (tg_module *)1;
    static const char two[] = "kernel f(x: f32[N]) {\n    x[0] = nothing;\n    y = 1;\n}\n";
    FAILS(tg_module_from_source(two, sizeof two - 1, "two.teg", NULL, &m), TG_ERROR_SOURCE,
          "two.teg:2:12: error: unknown name 'nothing'");
    assert_null(m);
    assert_non_null(strstr(tg_last_error(), "two.teg:3:5: error"));
    assert_null(strstr(tg_last_error(), "\033"));
    static const char typed[] = "kernel f(x: f32[N]) { parallel n in N by 8 { x[n] = true; } }";
    FAILS(tg_module_from_source(typed, sizeof typed - 1, NULL, NULL, &m), TG_ERROR_SOURCE,
          "<source>:1:");
    FAILS(tg_module_from_source("\0", 1, NULL, NULL, &m), TG_ERROR_SOURCE, "");
    FAILS(tg_module_from_source(NULL, 3, NULL, NULL, &m), TG_ERROR_ARGUMENT, "NULL");
    FAILS(tg_module_from_source("", 0, NULL, NULL, NULL), TG_ERROR_ARGUMENT, "NULL");
    FAILS(tg_module_from_file("/no/such.teg", NULL, &m), TG_ERROR_NOT_FOUND, "/no/such.teg");
    FAILS(tg_module_from_file(NULL, NULL, &m), TG_ERROR_ARGUMENT, "NULL");
    FAILS(tg_module_from_file("/", NULL, &m), TG_ERROR_NOT_FOUND, "directory");
    OK(tg_module_from_source(NULL, 0, NULL, NULL, &m));
    tg_kernel *k;
    FAILS(tg_module_kernel(m, NULL, &k), TG_ERROR_NOT_FOUND, "none");
    tg_module_destroy(m);
}

/// Errors that depend on the arguments of a launch appear at the launch.
static void test_late_errors(void **state) {
    (void)state;
    tg_module *m = module_of("kernel f(x: f32[N], y: f32[2, 4]) {\n"
                             "    parallel { y[:, :] = reshape(x[:], 2, 4); }\n"
                             "}\n"
                             "kernel g(x: f32[N]) require N % 2 == 0 { parallel { x[0] = 1; } }\n"
                             "kernel h(x: f32[N], unused: i32) { parallel { x[0] = 1; } }\n"
                             "kernel i<T: int>(x: T[N]) { parallel { x[0] = 1; } }\n");
    float x[8] = {1, 2, 3, 4, 5, 6, 7, 8}, y[8] = {0};
    View a, b;
    view(&b, f32, y, 2, (int64_t[]){2, 4}, NULL);
    view(&a, f32, x, 1, (int64_t[]){8}, NULL);
    tg_arg args[2] = {tg_tensor(&a.t), tg_tensor(&b.t)};
    OK(tg_launch(kernel_of(m, "f"), args, 2));
    assert_true(y[7] == 8);
    a.shape[0] = 7;
    FAILS(tg_launch(kernel_of(m, "f"), args, 2), TG_ERROR_SOURCE, "test.teg:2:");
    FAILS(tg_launch(kernel_of(m, "g"), args, 1), TG_ERROR_CONTRACT, "N % 2 == 0 does not hold");
    FAILS(tg_launch(kernel_of(m, "i"), args, 1), TG_ERROR_ARGUMENT, "f32 is not allowed");
    assert_int_equal(strncmp(tg_last_error(), "test.teg:6:", 11),
                     0); // no warning about h precedes it
    a.shape[0] = 6;
    OK(tg_launch(kernel_of(m, "g"), args, 1));
    tg_module_destroy(m);
}

/// Every kind of write is detected.
static void test_written(void **state) {
    (void)state;
    tg_module *m = module_of(
        "fn fill(out, v) { for i in 4 { out[i] = v; } }\n"
        "fn both(a, b) { fill(b, a[0]); }\n"
        "kernel assigns(x: f32[N], y: f32[N]) { parallel { y[0] = x[0]; } }\n"
        "kernel adds(x: f32[N], y: f32[N]) { parallel n in N by 8 { y[n] += x[n + 1]; } }\n"
        "kernel calls(x: f32[N], y: f32[N]) { parallel { both(x, y); } }\n"
        "kernel names(x: f32[N], y: f32[N]) { parallel { both(b = y, a = x); } }\n"
        "kernel inner(x: f32[N], y: f32[N]) { calls(x, y); }\n"
        "kernel atomics(x: f32[N], y: f32[N]) { parallel n in N { atomic_add(y[n], x[0]); } }\n"
        "kernel branch(x: f32[N], y: f32[N], f: const bool) { parallel { if f { y[0] = x[0]; } } "
        "}\n");
    float memory[32] = {0};
    for (int i = 0; i < tg_module_kernels(m); i++) {
        View x, y;
        view(&x, f32, memory, 1, (int64_t[]){8}, NULL);
        view(&y, f32, memory + 4, 1, (int64_t[]){8}, NULL);
        tg_arg args[3] = {tg_tensor(&x.t), tg_tensor(&y.t), tg_int(0)};
        tg_kernel *k = tg_module_kernel_at(m, i);
        FAILS(tg_launch(k, args, tg_kernel_params(k)), TG_ERROR_CONTRACT, "'y' is written");
        y.t.data = memory + 16;
        OK(tg_launch(k, args, tg_kernel_params(k)));
    }
    tg_module_destroy(m);
}

static void test_limits(void **state) {
    (void)state;
    char text[8192] = "kernel f(";
    for (int i = 0; i < 256; i++) snprintf(text + strlen(text), 32, "p%d: i32, ", i);
    strcat(text, "x: f32[N]) { parallel { x[0] = 1; } }");
    tg_module *m;
    FAILS(tg_module_from_source(text, strlen(text), "wide.teg", NULL, &m), TG_ERROR_SOURCE,
          "at most 256 parameters");
}

/* ---- options ------------------------------------------------------------------------------- */

static void write_file(const char *path, const char *text) {
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fputs(text, f);
    fclose(f);
}

static void test_files(void **state) {
    (void)state;
    remove(TEST_OUT "/capi_lib/lib.teg");
    assert_int_equal(system("mkdir -p " TEST_OUT "/capi_lib"), 0);
    write_file(TEST_OUT "/capi_lib/lib.teg", "fn twice(x) { return x + x; }\n");
    write_file(TEST_OUT "/capi_main.teg",
               "import \"lib.teg\";\nimport \"std/activation.teg\";\n"
               "kernel f(x: f32[N]) { parallel n in N by 4 { x[n] = relu(twice(x[n])); } }\n");
    tg_module *m;
    FAILS(tg_module_from_file(TEST_OUT "/capi_main.teg", NULL, &m), TG_ERROR_SOURCE, "lib.teg");
    tg_module_options o = {.size = sizeof o, .paths = "/nowhere:" TEST_OUT "/capi_lib"};
    OK(tg_module_from_file(TEST_OUT "/capi_main.teg", &o, &m));
    // A module keeps the texts that it read, whatever happens to the files.
    remove(TEST_OUT "/capi_main.teg");
    remove(TEST_OUT "/capi_lib/lib.teg");
    float x[3] = {1, -2, 3};
    View v;
    view(&v, f32, x, 1, (int64_t[]){3}, NULL);
    OK(tg_launch(kernel_of(m, NULL), (tg_arg[]){tg_tensor(&v.t)}, 1));
    assert_true(x[0] == 2 && x[1] == 0 && x[2] == 6);
    tg_module_destroy(m);
    OK(tg_module_from_file("std/softmax.teg", NULL, &m));
    assert_true(tg_module_kernels(m) > 0);
    tg_module_destroy(m);
}

static void test_settings(void **state) {
    (void)state;
    tg_module *m;
    size_t n = strlen(scale_source);
    tg_module_options o = {.size = sizeof o, .settings = "B=16"};
    float x[4] = {1, 2, 3, 4}, y[4];
    OK(tg_module_from_source(scale_source, n, "s.teg", &o, &m));
    OK(run_scale(kernel_of(m, NULL), x, y, 1, 4, 3));
    assert_true(y[3] == 12);
    tg_module_destroy(m);
    o.settings = "B=x";
    FAILS(tg_module_from_source(scale_source, n, "s.teg", &o, &m), TG_ERROR_ARGUMENT, "B=x");
    static const char *const unknown[][2] = {
        {"BLOCK=16", "no kernel of s.teg has a tune value 'BLOCK'; there is B"},
        {"B=16 wraps=4", "did you mean 'warps'?"},
        {"M=16", "no kernel of s.teg has a tune value 'M'"}};
    for (int i = 0; i < 3; i++) {
        o.settings = unknown[i][0];
        FAILS(tg_module_from_source(scale_source, n, "s.teg", &o, &m), TG_ERROR_ARGUMENT,
              unknown[i][1]);
    }
    o.size = 1;
    FAILS(tg_module_from_source(scale_source, n, "s.teg", &o, &m), TG_ERROR_ARGUMENT,
          "options: size must be sizeof(tg_module_options)");
}

static void test_nulls(void **state) {
    (void)state;
    tg_module *m = module_of(scale_source), *none;
    tg_kernel *k;
    tg_options o = {.size = 1};
    tg_context *c;
    FAILS(tg_module_from_source(NULL, 1, "s.teg", NULL, &none), TG_ERROR_ARGUMENT,
          "the source is NULL");
    FAILS(tg_module_from_source(scale_source, 1, "s.teg", NULL, NULL), TG_ERROR_ARGUMENT,
          "out is NULL");
    FAILS(tg_module_from_file(NULL, NULL, &none), TG_ERROR_ARGUMENT, "the path is NULL");
    FAILS(tg_module_kernel(NULL, "scale", &k), TG_ERROR_ARGUMENT, "the module is NULL");
    FAILS(tg_module_kernel(m, "none", &k), TG_ERROR_NOT_FOUND, "has no kernel 'none': it has");
    FAILS(tg_context_create(&o, &c), TG_ERROR_ARGUMENT, "options: size must be sizeof(tg_options)");
    FAILS(tg_context_create(NULL, NULL), TG_ERROR_ARGUMENT, "tg_context_create: out is NULL");
    FAILS(tg_comm_barrier(NULL), TG_ERROR_ARGUMENT, "tg_comm_barrier: comm is NULL");
    tg_module_destroy(m);
}

static void test_checked(void **state) {
    (void)state;
    static const char source[] =
        "kernel pick(x: f32[N], i: i64[M], y: f32[M]) {\n"
        "    parallel m in M by 4 { y[m] = x[i[m]]; assert(M < 3, \"few\"); }\n"
        "}\n";
    float x[4] = {1, 2, 3, 4}, y[3];
    int64_t at[3] = {3, 9, 0};
    View vx, vi, vy;
    view(&vx, f32, x, 1, (int64_t[]){4}, NULL);
    view(&vi, &types[6], at, 1, (int64_t[]){2}, NULL);
    view(&vy, f32, y, 1, (int64_t[]){2}, NULL);
    tg_arg args[3] = {tg_tensor(&vx.t), tg_tensor(&vi.t), tg_tensor(&vy.t)};
    tg_module *m;
    tg_module_options o = {.size = sizeof o, .check = 1, .debug = 1};
    OK(tg_module_from_source(source, sizeof source - 1, "pick.teg", &o, &m));
    FAILS(tg_launch(kernel_of(m, NULL), args, 3), TG_ERROR_CONTRACT, "pick.teg:2:");
    at[1] = 1;
    OK(tg_launch(kernel_of(m, NULL), args, 3));
    vi.shape[0] = vy.shape[0] = 3;
    FAILS(tg_launch(kernel_of(m, NULL), args, 3), TG_ERROR_CONTRACT, "few");
    tg_module_destroy(m);
    OK(tg_module_from_source(source, sizeof source - 1, "pick.teg", NULL, &m));
    OK(tg_launch(kernel_of(m, NULL), args, 3));
    tg_module_destroy(m);
}

/* ---- hooks --------------------------------------------------------------------------------- */

typedef struct Heard {
    int parallel, lines, prints;
    long alive, bytes;
    char line[256], text[256];
} Heard;

static void *take_memory(void *user, size_t bytes) {
    Heard *h = user;
    h->alive++;
    h->bytes += (long)bytes;
    return aligned_alloc(64, (bytes + 63) / 64 * 64);
}

static void release_memory(void *user, void *memory, size_t bytes) {
    Heard *h = user;
    h->bytes -= (long)bytes;
    h->alive--;
    free(memory);
}

static void hear_line(void *user, const char *line) {
    Heard *h = user;
    if (h->lines++ == 0) snprintf(h->line, sizeof h->line, "%s", line);
    assert_null(strchr(line, '\n'));
}

static void hear_text(void *user, const char *text) {
    Heard *h = user;
    h->prints++;
    snprintf(h->text, sizeof h->text, "%s", text);
}

static void run_all(void *user, size_t n, void (*task)(void *arg, size_t i), void *arg) {
    ((Heard *)user)->parallel++;
    for (size_t i = n; i-- > 0;) task(arg, i);
}

static void test_hooks(void **state) {
    (void)state;
    Heard h = {0};
    tg_options o = {.size = sizeof o,
                    .threads = 2,
                    .user = &h,
                    .allocate = take_memory,
                    .release = release_memory,
                    .log = hear_line,
                    .print = hear_text,
                    .parallel = run_all};
    tg_context *c;
    OK(tg_context_create(&o, &c));
    assert_int_equal(tg_context_threads(c), 2);
    assert_null(tg_context_use(c));
    tg_module *m = module_of("kernel sums(x: f32[M, N], y: f32[M], unused: f32) {\n"
                             "    parallel m in M {\n"
                             "        y[m] = max(x[m, cover(N)]);\n"
                             "        print(\"row {}\", m);\n"
                             "    }\n"
                             "}\n");
    assert_true(h.lines > 0); // the padding of cover reaches max
    assert_non_null(strstr(h.line, "warning"));
    int lines = h.lines;
    assert_ptr_equal(tg_context_use(NULL),
                     c); // the module keeps its context; the launch has another one
    enum { M = 20000 };
    static float x[M * 4], y[M];
    View vx, vy;
    view(&vx, f32, x, 2, (int64_t[]){M, 4}, NULL);
    view(&vy, f32, y, 1, (int64_t[]){M}, NULL);
    tg_arg args[3] = {tg_tensor(&vx.t), tg_tensor(&vy.t), tg_float(0)};
    tg_context_use(c);
    OK(tg_launch(kernel_of(m, NULL), args, 3));
    assert_int_equal(h.prints, M);
    assert_int_equal(strncmp(h.text, "row ", 4), 0);
    assert_true(h.parallel > 0);
    assert_int_equal(h.lines, lines); // a warning is reported once
    tg_context_use(NULL);
    tg_module_destroy(m);
    tg_context_destroy(c);
    assert_int_equal(h.alive, 0);
}

/* ---- workspaces ---------------------------------------------------------------------------- */

/// Products with copies in aligned rows, and in parts. Without room they have the same result.
static void workspaces_have_a_limit(void **state) {
    (void)state;
    enum { M = 33, K = 259, COPIES = 2 * (M * 320 + K * 64), PARTS = 4 * 4 * 64 * 64 };
    static uint16_t a[M * K], b[K * M], c[M * M], slow[M * M];
    const Type *f16 = &types[2];
    assert_string_equal(f16->name, "f16");
    for (int i = 0; i < M * K; i++) {
        put(f16, a, i, i % 3 - 1);
        put(f16, b, i, i % 5 - 2);
    }
    View va, vb, vc;
    view(&va, f16, a, 2, (int64_t[]){M, K}, NULL);
    view(&vb, f16, b, 2, (int64_t[]){K, M}, NULL);
    view(&vc, f16, c, 2, (int64_t[]){M, M}, NULL);
    tg_arg args[3] = {tg_tensor(&va.t), tg_tensor(&vb.t), tg_tensor(&vc.t)};
    static const char *const settings[] = {"BM=64 BN=64 BK=64 align_rows=1 split=1",
                                           "BM=64 BN=64 BK=64 align_rows=-1 split=4"};
    for (int i = 0; i < 2; i++) {
        Heard h = {0};
        tg_options hooks = {.size = sizeof hooks,
                            .threads = 1,
                            .user = &h,
                            .allocate = take_memory,
                            .release = release_memory};
        tg_context *context;
        tg_module *m;
        tg_module_options o = {
            .size = sizeof o, .settings = settings[i], .target = "sim:sm_90a", .tune = "off"};
        OK(tg_context_create(&hooks, &context));
        tg_context_use(context);
        assert_int_equal(tg_context_workspace_limit(NULL), TG_WORKSPACE_LIMIT);
        FAILS(tg_context_set_workspace_limit(NULL, -1), TG_ERROR_ARGUMENT,
              "a workspace cannot have -1 bytes");
        OK(tg_context_set_workspace_limit(context, 1000));
        assert_int_equal(tg_context_workspace_limit(context), 1000);
        OK(tg_module_from_file("std/matmul.teg", &o, &m));
        tg_kernel *kernel = kernel_of(m, "matmul");
        OK(tg_launch(kernel, args, 3));
        long before = h.bytes;
        memcpy(slow, c, sizeof c);
        memset(c, 0, sizeof c);
        OK(tg_launch(kernel, args, 3));
        assert_int_equal(h.bytes, before);
        assert_memory_equal(c, slow, sizeof c);
        memset(c, 0, sizeof c);
        OK(tg_context_set_workspace_limit(context, TG_WORKSPACE_LIMIT));
        OK(tg_launch(kernel, args, 3));
        assert_true(h.bytes - before >= (i ? PARTS : COPIES));
        assert_memory_equal(c, slow, sizeof c);
        tg_context_use(NULL);
        tg_module_destroy(m);
        tg_context_destroy(context);
        assert_int_equal(h.alive, 0);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_module),
        cmocka_unit_test(test_launch),
        cmocka_unit_test(test_argument_errors),
        cmocka_unit_test(test_kernel_names),
        cmocka_unit_test(test_source_errors),
        cmocka_unit_test(test_late_errors),
        cmocka_unit_test(test_files),
        cmocka_unit_test(test_written),
        cmocka_unit_test(test_limits),
        cmocka_unit_test(test_settings),
        cmocka_unit_test(test_nulls),
        cmocka_unit_test(test_checked),
        cmocka_unit_test(test_hooks),
        cmocka_unit_test(workspaces_have_a_limit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
