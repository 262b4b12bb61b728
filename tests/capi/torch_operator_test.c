// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Operators of PyTorch, on a stand-in for libtorch: arguments, results, failures, and who frees
// them.
#include "fake_torch.h"
#include "support.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static const char source[] =
    "kernel scaled(x: f32[N], w: f32[N]?, y: f32[N], sums: f32[N]?, c: f32, n: i64, twice: bool) "
    "{\n"
    "    parallel i in N by 16 {\n"
    "        let v = x[i] * c + n as f32;\n"
    "        if w { y[i] = (twice ? v * 2 : v) * w[i]; } else { y[i] = twice ? v * 2 : v; }\n"
    "        if sums { sums[i] = v; }\n"
    "    }\n"
    "}\n"
    "kernel counts(x: f32[N], total: i64[1]) {\n"
    "    parallel i in N by 16 { atomic_add(total[0], 1); }\n"
    "}\n"
    "kernel open<T: float>(x: T[N], y: T[N], c: T) { parallel i in N by 16 { y[i] = x[i] * c; } }\n"
    "kernel numbers(n: i64, y: f32[4]) { parallel i in 4 by 4 { y[i] = n as f32; } }\n"
    "kernel narrow(x: f32[N], y: i8[N]) { parallel i in N by 16 { y[i] = x[i] as i8; } }\n"
    "kernel first(x: f32[N], n: i64, y: f32[1]) require n < N { parallel { y[0] = x[n]; } }\n";

static fake_torch *fake;
static tg_module *module;

#define COUNT(a) ((int)(sizeof(a) / sizeof *(a)))
#define CREATE(kernel, name, in, out, op)                                                          \
    tg_torch_operator_create(kernel_of(module, kernel), name, in, COUNT(in), out, COUNT(out), op)

static void *open_fake(const char *path) {
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!library) fail_msg("%s", dlerror());
    return library;
}

static fake_tensor *row(int64_t n, float first) {
    fake_tensor *t = fake->tensor(FAKE_F32, 1, &n);
    for (int64_t i = 0; i < n; i++) ((float *)t->data)[i] = first + (float)i;
    return t;
}

static uint64_t word(const void *p) {
    return (uint64_t)(uintptr_t)p;
}

static uint64_t bits(double v) {
    uint64_t b;
    memcpy(&b, &v, sizeof b);
    return b;
}

/// Asserts that a call throws a message with the part, and frees what it was given.
static void throws_of(const char *name, uint64_t *stack, int n, int n_results, const char *part) {
    const char *text = fake->call(name, "CPU", stack, n, n_results);
    if (!text || !strstr(text, part)) fail_msg("'%s' has no '%s'", text ? text : "(none)", part);
    assert_int_equal(fake->tensors, 0);
    assert_int_equal(fake->cells, 0);
}

static void throws(const char *name, uint64_t *stack, int n, const char *part) {
    throws_of(name, stack, n, 1, part);
}

static void test_without_torch(void **state) {
    (void)state;
    tg_torch_operator *op;
    const int in[] = {0}, out[] = {1};
    FAILS(CREATE("counts", "t::counts", in, out, &op), TG_ERROR_UNSUPPORTED,
          "PyTorch is not loaded: the process has no libtorch_cpu.so");
    void *old = open_fake(FAKE_TORCH_OLD);
    FAILS(CREATE("counts", "t::counts", in, out, &op), TG_ERROR_UNSUPPORTED,
          "this PyTorch is too old: it has no function aoti_torch_zero_");
    dlclose(old);
    open_fake(FAKE_TORCH_CUDA);
    fake = dlsym(open_fake(FAKE_TORCH), "fake_torch_state");
    assert_non_null(fake);
}

/// Shapes are inferred at the first call of a kind, and remembered after it.
static void test_calls(void **state) {
    (void)state;
    tg_torch_operator *op;
    const int in[] = {0, 1, 4, 5, 6}, out[] = {2, 3};
    OK(CREATE("scaled", "t::scaled", in, out, &op));
    for (int pass = 0; pass < 60; pass++) {
        int64_t n = pass % 23;
        bool weighted = pass & 1;
        uint64_t w = weighted ? fake->cell(word(row(n, 1))) : 0;
        uint64_t stack[5] = {word(row(n, 0)), w, bits(0.5), (uint64_t)-3, 1};
        const char *thrown = fake->call("t::scaled", "CPU", stack, 5, 2);
        if (thrown) fail_msg("%s", thrown);
        fake_tensor *y = (fake_tensor *)(uintptr_t)stack[0],
                    *s = (fake_tensor *)(uintptr_t)stack[1];
        assert_int_equal(fake->tensors, 2);
        assert_int_equal(fake->cells, 0);
        assert_int_equal(y->rank, 1);
        assert_int_equal(y->sizes[0], n);
        for (int64_t i = 0; i < n; i++) {
            float v = 0.5f * (float)i - 3;
            assert_true(((float *)s->data)[i] == v);
            assert_true(((float *)y->data)[i] == 2 * v * (weighted ? 1 + (float)i : 1));
        }
        fake->free(y);
        fake->free(s);
    }
    tg_torch_operator_destroy(op);
    assert_int_equal(fake->libraries, 0);
}

/// A result that the kernel adds to begins at 0. A result may also be an argument, which is
/// written.
static void test_added_results(void **state) {
    (void)state;
    tg_torch_operator *op, *in_place;
    const int in[] = {0}, out[] = {1}, both[] = {0, 1}, none[1] = {0};
    OK(CREATE("counts", "t::counts", in, out, &op));
    uint64_t stack[2] = {word(row(40, 0)), 0};
    assert_null(fake->call("t::counts", "CPU", stack, 1, 1));
    fake_tensor *total = (fake_tensor *)(uintptr_t)stack[0];
    assert_true(total->is_zero);
    assert_int_equal(*(int64_t *)total->data, 3);
    fake->free(total);
    OK(tg_torch_operator_create(kernel_of(module, "counts"), "t::add", both, 2, none, 0,
                                &in_place));
    int64_t one = 1, memory = 7;
    fake_tensor *given = fake->tensor(FAKE_I64, 1, &one);
    free(given->data);
    given->data = &memory;
    given->is_borrowed = true;
    stack[0] = word(row(40, 0));
    stack[1] = word(given);
    assert_null(fake->call("t::add", "CPU", stack, 2, 0));
    assert_int_equal(memory, 10);
    assert_int_equal(fake->tensors, 0);
    tg_torch_operator_destroy(in_place);
    tg_torch_operator_destroy(op);
}

static void test_failing_calls(void **state) {
    (void)state;
    tg_torch_operator *op, *number, *narrow, *first, *add;
    const int in[] = {0, 1, 4, 5, 6}, out[] = {2}, zero[] = {0}, one[] = {1}, two[] = {0, 1};
    OK(CREATE("scaled", "t::scaled", in, out, &op));
    OK(CREATE("numbers", "t::numbers", zero, one, &number));
    OK(CREATE("narrow", "t::narrow", zero, one, &narrow));
    OK(CREATE("first", "t::first", two, out, &first));
    OK(tg_torch_operator_create(kernel_of(module, "counts"), "t::add", two, 2, out, 0, &add));
    for (int pass = 0; pass < 2; pass++) {
        uint64_t w = fake->cell(word(row(4, 0)));
        throws("t::scaled", (uint64_t[]){word(row(3, 0)), w, bits(1), 0, 0}, 5, "'w'");
    }
    fake_tensor *x = row(3, 0);
    x->type = FAKE_COMPLEX;
    throws("t::scaled", (uint64_t[]){word(x), 0, 0, 0, 0}, 5,
           "scaled: the element type of 'x' is no type of kernels");
    x = row(3, 0);
    x->device_type = FAKE_META;
    throws("t::scaled", (uint64_t[]){word(x), 0, 0, 0, 0}, 5,
           "scaled: 'x' is neither on the CPU nor on a GPU");
    fake->is_full = true;
    throws("t::scaled", (uint64_t[]){word(row(3, 0)), 0, 0, 0, 0}, 5,
           "scaled: PyTorch failed to make 'y', float32[3] of 12 bytes: out of memory: no memory "
           "is left");
    x = row(3, 0);
    x->device_type = FAKE_GPU;
    throws("t::scaled", (uint64_t[]){word(x), 0, 0, 0, 0}, 5, "12 bytes: CUDA out of memory: no");
    fake->is_full = false;
    x = row(3, 0);
    x->is_undefined = true;
    throws("t::scaled", (uint64_t[]){word(x), 0, 0, 0, 0}, 5,
           "scaled: the tensor 'x' is undefined");
    throws("t::numbers", (uint64_t[]){3}, 1, "numbers: no argument is a tensor");
    throws("t::narrow", (uint64_t[]){word(row(3, 0))}, 1,
           "the arguments do not determine 'y', or PyTorch lacks its type");
    throws("t::first", (uint64_t[]){word(row(3, 0)), 3}, 2, "n < N");
    x = row(3, 0);
    x->device_type = FAKE_GPU;
    throws_of("t::add", (uint64_t[]){word(x), word(row(1, 0))}, 2, 0,
              "PyTorch failed to name its current stream");
    tg_torch_operator_destroy(add);
    tg_torch_operator_destroy(first);
    tg_torch_operator_destroy(narrow);
    tg_torch_operator_destroy(number);
    tg_torch_operator_destroy(op);
}

/// An undefined tensor is a missing one.
static void test_undefined(void **state) {
    (void)state;
    tg_torch_operator *op;
    const int in[] = {0, 1, 4, 5, 6}, out[] = {2};
    OK(CREATE("scaled", "t::scaled", in, out, &op));
    fake_tensor *w = row(3, 0);
    w->is_undefined = true;
    uint64_t stack[5] = {word(row(3, 1)), fake->cell(word(w)), bits(1), 0, 0};
    assert_null(fake->call("t::scaled", "CPU", stack, 5, 1));
    fake_tensor *y = (fake_tensor *)(uintptr_t)stack[0];
    assert_true(((float *)y->data)[2] == 3);
    fake->free(y);
    tg_torch_operator_destroy(op);
}

/// A schema with other arguments or results: the call touches none of them.
static void test_other_schema(void **state) {
    (void)state;
    tg_torch_operator *op;
    const int in[] = {0, 1, 4, 5, 6}, out[] = {2};
    OK(CREATE("scaled", "t::scaled", in, out, &op));
    static const int counts[][2] = {{1, 1}, {6, 1}, {5, 0}, {5, 2}};
    for (int i = 0; i < COUNT(counts); i++) {
        uint64_t stack[6] = {1, 1, 1, 1, 1, 1};
        char want[128];
        snprintf(want, sizeof want,
                 "scaled: the operator has 5 arguments and 1 results, and its schema has %d and %d",
                 counts[i][0], counts[i][1]);
        assert_string_equal(fake->call("t::scaled", "CPU", stack, counts[i][0], counts[i][1]),
                            want);
    }
    tg_torch_operator_destroy(op);
}

static tg_torch_operator *removed;
static atomic_bool is_removed;
static pthread_t remover;

static void *remove_operator(void *data) {
    tg_torch_operator_destroy(removed);
    is_removed = true;
    return data;
}

/// Another thread removes the operator of the call that runs.
static void remove_meanwhile(void) {
    fake->making = NULL;
    assert_int_equal(pthread_create(&remover, NULL, remove_operator, NULL), 0);
    const struct timespec pause = {0, 20000000};
    nanosleep(&pause, NULL);
    assert_false(is_removed);
}

/// Removal waits for calls that run. A call that comes later throws.
static void test_removal(void **state) {
    (void)state;
    const int zero[] = {0}, one[] = {1};
    OK(CREATE("counts", "t::counts", zero, one, &removed));
    fake_function *function = fake->find("t::counts", "CPU");
    fake->making = remove_meanwhile;
    uint64_t stack[1] = {word(row(40, 0))};
    assert_null(fake->run(function, stack, 1, 1));
    pthread_join(remover, NULL);
    assert_true(is_removed);
    fake->free((fake_tensor *)(uintptr_t)stack[0]);
    assert_int_equal(fake->libraries, 0);
    assert_string_equal(fake->run(function, stack, 1, 1), "the operator has been removed");
}

static void test_wrong_numbers(void **state) {
    (void)state;
    tg_torch_operator *op;
    const int zero[] = {0}, one[] = {1}, two[] = {0, 2}, twice[] = {0, 0}, far[] = {9};
    FAILS(tg_torch_operator_create(NULL, "t::x", zero, 1, one, 1, &op), TG_ERROR_ARGUMENT,
          "the kernel is NULL");
    FAILS(CREATE("counts", NULL, zero, one, &op), TG_ERROR_ARGUMENT, "the operator's name is NULL");
    FAILS(CREATE("counts", "t::x", far, one, &op), TG_ERROR_ARGUMENT,
          "counts: the number 9 of a parameter is wrong or given twice");
    FAILS(CREATE("counts", "t::x", twice, one, &op), TG_ERROR_ARGUMENT, "given twice");
    FAILS(CREATE("counts", "t::x", one, zero, &op), TG_ERROR_ARGUMENT,
          "counts: 'x' is no tensor that the kernel writes");
    FAILS(CREATE("open", "t::x", two, one, &op), TG_ERROR_UNSUPPORTED,
          "open: the type of 'c' is open, and operators have no such number");
    static const char *const names[] = {"counts", "::counts", "t::", "t::counts.all"};
    for (int i = 0; i < COUNT(names); i++)
        FAILS(CREATE("counts", names[i], zero, one, &op), TG_ERROR_ARGUMENT,
              "an operator is named 'namespace::name', without dots, not '");
    fake->refuses = true;
    FAILS(CREATE("counts", "t::x", zero, one, &op), TG_ERROR_ARGUMENT,
          "PyTorch refuses to implement the operator t::x");
    fake->refuses = false;
    assert_int_equal(fake->libraries, 0);
    tg_torch_operator_destroy(NULL);
}

/// Operators and parameters have limits. Destroyed operators make room.
static void test_limits(void **state) {
    (void)state;
    static tg_torch_operator *ops[257];
    const int zero[] = {0}, one[] = {1};
    int n = 0;
    while (n < 257 && !CREATE("counts", "t::counts", zero, one, &ops[n])) n++;
    assert_int_equal(n, 256);
    FAILS(CREATE("counts", "t::counts", zero, one, &ops[n]), TG_ERROR_UNSUPPORTED,
          "there are already 256 operators");
    tg_torch_operator_destroy(ops[7]);
    OK(CREATE("counts", "t::last", zero, one, &ops[7]));
    uint64_t stack[1] = {word(row(4, 0))};
    assert_null(fake->call("t::last", "CUDA", stack, 1, 1));
    fake->free((fake_tensor *)(uintptr_t)stack[0]);
    while (n--) tg_torch_operator_destroy(ops[n]);
    assert_int_equal(fake->libraries, 0);
    char text[1024] = "kernel wide(y: f32[1]";
    for (int i = 0; i < 32; i++) sprintf(text + strlen(text), ", n%d: i64", i);
    strcat(text, ") { parallel { y[0] = 1; } }");
    tg_module *wide = module_of(text);
    FAILS(tg_torch_operator_create(kernel_of(wide, NULL), "t::wide", zero, 0, zero, 1, &ops[0]),
          TG_ERROR_UNSUPPORTED, "wide has 33 parameters; operators have at most 32");
    tg_module_destroy(wide);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_without_torch), cmocka_unit_test(test_calls),
        cmocka_unit_test(test_added_results), cmocka_unit_test(test_failing_calls),
        cmocka_unit_test(test_wrong_numbers), cmocka_unit_test(test_limits),
        cmocka_unit_test(test_undefined),     cmocka_unit_test(test_other_schema),
        cmocka_unit_test(test_removal),
    };
    module = module_of(source);
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    tg_module_destroy(module);
    return failed;
}
