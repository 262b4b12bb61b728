// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Types and shapes of results that a caller has to allocate, and the texts above kernels.
#include "support.h"

#include <stdlib.h>
#include <string.h>

static const char source[] =
    "const K = 3;\n"
    "/// Sums.\n"
    "/// Of rows.\n"
    "kernel rows<T: any, S: f32 | f64>(x: T[..R, N], y: T[..R], all: S[]?, two: T[2 * N, K]?,\n"
    "                                  half: i32[N / n]?, n: i64) {\n"
    "    parallel r in R { let i = cover(N); y[r] = sum(x[r, i]); }\n"
    "    if all { parallel { all[] += 1; } }\n"
    "    if two { parallel i in N by 16 { two[i, 0] = 0 as T; } }\n"
    "    if half { parallel { half[0] = 1; } }\n"
    "}\n"
    "kernel strided(x: f32[H], w: f32[R], y: f32[I], s: const i64) require s > 0 && I == (H - R) / "
    "s + 1 {\n"
    "    parallel i in I by 16 { y[i] = x[i * s] * w[0]; }\n"
    "}\n"
    "kernel product(a: bf16[M, L], b: bf16[L, N], c: f32[M, N], n_max: f32) {\n"
    "    parallel m in M by 16, n in N by 16 {\n"
    "        var s: f32<16, 16> = 0;\n"
    "        for k in L by 16 { s += dot(a[m, k], b[k, n]); }\n"
    "        c[m, n] = min(s, n_max);\n"
    "    }\n"
    "}\n"
    "kernel counts(ids: i32[N], n: i32[V]) { parallel i in N by 16 { atomic_add(n[ids[i]], 1); } "
    "}\n"
    "kernel deep(x: f32[..N], y: f32[..N, 2]) {\n"
    "    parallel n in N by 16 { y[n, 0] = x[n]; }\n"
    "}\n"
    "fn fill(y) { y[0] = 1; }\n"
    "fn grow(y, x) { y[0] = x[0] + y[1]; }\n"
    "kernel nested(x: f32[N], y: f32[N], z: f32[N]) { parallel { fill(y); grow(z, x); } }\n";

static tg_module *module;
static View views[3];
static float memory[256];

static tg_arg dense(int i, DLDataTypeCode code, int bits, int rank, const int64_t *shape) {
    views[i].t = tg_dense(memory, code, bits, rank, shape);
    return tg_tensor(&views[i].t);
}

static void check_shape(const tg_inferred *got, int flags, int code, int bits, int rank,
                        const int64_t *shape) {
    assert_int_equal(got->flags, flags);
    if (!(flags & TG_INFERRED_KNOWN)) return;
    assert_int_equal(got->type.code, code);
    assert_int_equal(got->type.bits, bits);
    assert_int_equal(got->type.lanes, 1);
    assert_int_equal(got->rank, rank);
    for (int i = 0; i < rank; i++) assert_int_equal(got->shape[i], shape[i]);
}

enum { KNOWN = TG_INFERRED_KNOWN, OUT = KNOWN | TG_INFERRED_WRITTEN };

/// Packs, sums of dims, constants, numbers, types that a tensor settles, and first alternatives.
static void test_rows(void **state) {
    (void)state;
    tg_inferred out[6];
    tg_arg args[] = {dense(0, kDLFloat, 16, 3, (int64_t[]){2, 4, 6}),
                     tg_none(),
                     tg_none(),
                     tg_none(),
                     tg_none(),
                     tg_int(2)};
    OK(tg_kernel_infer(kernel_of(module, "rows"), args, 6, out));
    check_shape(&out[0], KNOWN, kDLFloat, 16, 3, (int64_t[]){2, 4, 6});
    check_shape(&out[1], OUT, kDLFloat, 16, 2, (int64_t[]){2, 4});
    check_shape(&out[2], OUT | TG_INFERRED_OPTIONAL | TG_INFERRED_READ, kDLFloat, 32, 0, NULL);
    check_shape(&out[3], OUT | TG_INFERRED_OPTIONAL, kDLFloat, 16, 2, (int64_t[]){12, 3});
    check_shape(&out[4], OUT | TG_INFERRED_OPTIONAL, kDLInt, 32, 1, (int64_t[]){3});
    assert_int_equal(out[5].flags, 0);
    args[0] = dense(0, kDLFloat, 64, 1, (int64_t[]){6});
    OK(tg_kernel_infer(kernel_of(module, "rows"), args, 6, out));
    check_shape(&out[2], OUT | TG_INFERRED_OPTIONAL | TG_INFERRED_READ, kDLFloat, 64, 0, NULL);
}

/// A result alone may determine an input.
static void test_backwards(void **state) {
    (void)state;
    tg_inferred out[4];
    tg_arg args[] = {dense(0, kDLBfloat, 16, 2, (int64_t[]){5, 7}), tg_none(),
                     dense(1, kDLFloat, 32, 2, (int64_t[]){5, 9}), tg_float(1e9)};
    OK(tg_kernel_infer(kernel_of(module, "product"), args, 4, out));
    check_shape(&out[1], KNOWN, kDLBfloat, 16, 2, (int64_t[]){7, 9});
    check_shape(&out[2], OUT, kDLFloat, 32, 2, (int64_t[]){5, 9});
}

static void test_conditions(void **state) {
    (void)state;
    tg_inferred out[4];
    tg_arg args[] = {dense(0, kDLFloat, 32, 1, (int64_t[]){20}),
                     dense(1, kDLFloat, 32, 1, (int64_t[]){3}), tg_none(), tg_int(4)};
    OK(tg_kernel_infer(kernel_of(module, "strided"), args, 4, out));
    check_shape(&out[2], OUT, kDLFloat, 32, 1, (int64_t[]){5});
}

/// Results that the kernel reads need a first value, through fns too.
static void test_reads(void **state) {
    (void)state;
    tg_inferred out[3];
    tg_arg args[] = {dense(0, kDLInt, 32, 1, (int64_t[]){8}),
                     dense(1, kDLInt, 32, 1, (int64_t[]){4}), tg_none()};
    OK(tg_kernel_infer(kernel_of(module, "counts"), args, 2, out));
    assert_int_equal(out[1].flags, OUT | TG_INFERRED_READ);
    args[0] = dense(0, kDLFloat, 32, 1, (int64_t[]){8}), args[1] = tg_none();
    OK(tg_kernel_infer(kernel_of(module, "nested"), args, 3, out));
    assert_int_equal(out[0].flags, KNOWN);
    assert_int_equal(out[1].flags, OUT);
    assert_int_equal(out[2].flags, OUT | TG_INFERRED_READ);
}

static void test_failures(void **state) {
    (void)state;
    tg_inferred out[4];
    tg_kernel *k = kernel_of(module, "product");
    tg_arg a = dense(0, kDLBfloat, 16, 2, (int64_t[]){5, 7});
    tg_arg args[] = {a, tg_none(), tg_none(), tg_float(0)};
    FAILS(tg_kernel_infer(k, args, 4, out), TG_ERROR_ARGUMENT,
          "argument 2 'b' is missing, and its shape bf16[L, N] does not follow from the other "
          "arguments: N is not known");
    args[1] = dense(1, kDLBfloat, 16, 2, (int64_t[]){8, 9});
    FAILS(tg_kernel_infer(k, args, 4, out), TG_ERROR_CONTRACT,
          "argument 2 'b' is [8, 9]; its type bf16[L, N] is [7, 9] by the other arguments");
    args[1] = dense(1, kDLFloat, 16, 2, (int64_t[]){7, 9});
    FAILS(tg_kernel_infer(k, args, 4, out), TG_ERROR_ARGUMENT, "'b' is f16[7, 9]; it must be bf16");
    args[1] = dense(1, kDLBfloat, 16, 1, (int64_t[]){7});
    FAILS(tg_kernel_infer(k, args, 4, out), TG_ERROR_ARGUMENT, "it has 1 dim and must have 2");
    FAILS(tg_kernel_infer(k, args, 3, out), TG_ERROR_ARGUMENT, "takes 4 arguments");
    FAILS(tg_kernel_infer(k, args, 4, NULL), TG_ERROR_ARGUMENT, "out is NULL");
    FAILS(tg_kernel_infer(NULL, args, 4, out), TG_ERROR_ARGUMENT, "the kernel is NULL");
}

/// Shapes that no tensor has.
static void test_impossible_shapes(void **state) {
    (void)state;
    tg_inferred out[4];
    int64_t ones[8] = {1, 1, 1, 1, 1, 1, 1, 1};
    tg_arg args[] = {dense(0, kDLFloat, 32, 8, ones), tg_none()};
    FAILS(tg_kernel_infer(kernel_of(module, "deep"), args, 2, out), TG_ERROR_ARGUMENT,
          "argument 2 'y' is missing, and its shape f32[..N, 2] does not follow from the other "
          "arguments: its rank is above 8");
    tg_arg short_row[] = {dense(0, kDLFloat, 32, 1, (int64_t[]){2}),
                          dense(1, kDLFloat, 32, 1, (int64_t[]){9}), tg_none(), tg_int(1)};
    FAILS(tg_kernel_infer(kernel_of(module, "strided"), short_row, 4, out), TG_ERROR_ARGUMENT,
          "argument 3 'y' is missing, and its shape f32[I] does not follow from the other "
          "arguments: an extent is negative");
}

static void test_symmetric(void **state) {
    (void)state;
    tg_module *m = module_of("kernel far(x: sym f32[W][N], y: f32[N]) {\n"
                             "    parallel n in N by 16 { y[n] = x[0][n]; }\n"
                             "}\n");
    tg_inferred out[2];
    tg_arg args[] = {tg_none(), tg_none()};
    FAILS(tg_kernel_infer(kernel_of(m, NULL), args, 2, out), TG_ERROR_UNSUPPORTED, "tg_sym_alloc");
    tg_module_destroy(m);
}

static bool full;

static void *allocate(void *user, size_t bytes) {
    (void)user;
    return full ? NULL : aligned_alloc(64, (bytes + 63) / 64 * 64);
}

static void release(void *user, void *block, size_t bytes) {
    (void)user;
    (void)bytes;
    free(block);
}

/// The first call makes the launcher, so only the inference lacks memory in the second.
static void test_memory(void **state) {
    (void)state;
    tg_options hooks = {.size = sizeof hooks, .allocate = allocate, .release = release};
    tg_context *context;
    tg_inferred out[3];
    OK(tg_context_create(&hooks, &context));
    tg_context_use(context);
    tg_kernel *k = kernel_of(module, "nested");
    tg_arg args[] = {dense(0, kDLFloat, 32, 1, (int64_t[]){8}), tg_none(), tg_none()};
    OK(tg_kernel_infer(k, args, 3, out));
    full = true;
    FAILS(tg_kernel_infer(k, args, 3, out), TG_ERROR_MEMORY,
          "no memory is left to infer its tensors");
    full = false;
    OK(tg_kernel_infer(k, args, 3, out));
    tg_context_use(NULL);
    tg_context_destroy(context);
}

static void test_docs(void **state) {
    (void)state;
    assert_string_equal(tg_kernel_doc(kernel_of(module, "rows")), "Sums.\nOf rows.");
    assert_string_equal(tg_kernel_doc(kernel_of(module, "product")), "");
    assert_string_equal(tg_kernel_doc(NULL), "");
}

int main(void) {
    module = module_of(source);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rows),       cmocka_unit_test(test_backwards),
        cmocka_unit_test(test_conditions), cmocka_unit_test(test_reads),
        cmocka_unit_test(test_failures),   cmocka_unit_test(test_impossible_shapes),
        cmocka_unit_test(test_symmetric),  cmocka_unit_test(test_memory),
        cmocka_unit_test(test_docs)};
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    tg_module_destroy(module);
    return failed;
}
