// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Arguments of launches: every check with its message, packs, scalars, overlaps.
#include "tests/runtime/kernels.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

enum { ROWS = 4, D = 64 };
static float q[ROWS * D * 2], o[ROWS * D * 2];
static const int64_t shape[2] = {ROWS, D};

/// Arguments with which `attend` can be launched. Each test changes one property.
typedef struct Call {
    DLTensor q, bias, o;
    tg_arg args[6];
} Call;

static Call *good(Call *c) {
    c->q = tg_dense(q, kDLFloat, 32, 2, shape);
    c->o = tg_dense(o, kDLFloat, 32, 2, shape);
    c->bias = tg_dense(q + ROWS * D, kDLFloat, 32, 1, shape + 1);
    tg_arg args[6] = {tg_tensor(&c->q), tg_none(),     tg_tensor(&c->o),
                      tg_int(0),        tg_float(0.5), tg_int(-3)};
    memcpy(c->args, args, sizeof args);
    seen.variant = -1;
    return c;
}

static void expect(const Call *c, tg_status status, const char *text) {
    assert_int_equal(tg_launch(&attend, c->args, 6), status);
    if (status) assert_string_equal(tg_last_error(), text);
    assert_int_equal(seen.variant >= 0, status == TG_OK);
}

static void good_call(void **state) {
    (void)state;
    Call c;
    float half = 0.5f;
    uint32_t bits;
    memcpy(&bits, &half, 4);
    expect(good(&c), TG_OK, NULL);
    assert_ptr_equal(seen.slots[0].tensor.data, q);
    assert_int_equal(seen.shape[0], ROWS);
    assert_int_equal(seen.strides[0], D);
    assert_int_equal(seen.strides[1], 1);
    assert_ptr_equal(seen.slots[1].tensor.data, o); // bias is left out
    assert_int_equal((uint32_t)seen.slots[2].bits, bits);
    assert_int_equal((int64_t)seen.slots[3].bits, -3);
    c.args[1] = tg_tensor(&c.bias);
    expect(&c, TG_OK, NULL);
    assert_int_equal(seen.variant, 4);
    c.q.byte_offset = 2 * D * 4; // and a float as an integer
    c.q.shape = (int64_t[]){2, D};
    c.args[4] = tg_int(1);
    expect(&c, TG_OK, NULL);
    assert_ptr_equal(seen.slots[0].tensor.data, q + 2 * D);
}

static void counts(void **state) {
    (void)state;
    Call c;
    good(&c);
    assert_int_equal(tg_launch(&attend, c.args, 5), TG_ERROR_ARGUMENT);
    assert_string_equal(tg_last_error(),
                        "attend takes 6 arguments (q, bias, o, causal, scale, k), found 5");
    assert_int_equal(tg_launch(&attend, NULL, 6), TG_ERROR_ARGUMENT);
    assert_int_equal(tg_launch(NULL, c.args, 6), TG_ERROR_ARGUMENT);
    assert_string_equal(tg_last_error(), "the kernel is NULL");
    assert_int_equal(tg_prepare(&attend, c.args, 6), TG_OK);
    assert_int_equal(seen.variant, -1);
    tg_kernel old = {.abi = TG_ABI + 1, .info = attend.info};
    assert_int_equal(tg_launch(&old, c.args, 6), TG_ERROR_UNSUPPORTED);
}

static void kinds(void **state) {
    (void)state;
    Call c;
    good(&c)->args[0] = tg_int(3);
    expect(&c, TG_ERROR_ARGUMENT, "attend: argument 1 'q' is a number; it must be a tensor");
    good(&c)->args[0] = tg_none();
    expect(&c, TG_ERROR_ARGUMENT, "attend: argument 1 'q' is not optional; it must be a tensor");
    good(&c)->args[5] = tg_tensor(&c.q);
    expect(&c, TG_ERROR_ARGUMENT, "attend: argument 6 'k' is f32[4, 64]; it must be a number");
    good(&c)->args[5] = tg_none();
    expect(&c, TG_ERROR_ARGUMENT, "attend: argument 6 'k' must be a number");
    good(&c)->args[5] = tg_float(1.5);
    expect(&c, TG_ERROR_ARGUMENT, "attend: argument 6 'k' is 1.5; it must be of type i8");
    good(&c)->args[5] = tg_int(128);
    expect(&c, TG_ERROR_ARGUMENT, "attend: argument 6 'k' is 128; it must be of type i8");
    good(&c)->args[3] = tg_int(2);
    expect(&c, TG_ERROR_ARGUMENT, "attend: argument 4 'causal' is 2; it must be of type bool");
}

static void types(void **state) {
    (void)state;
    Call c;
    good(&c)->o.dtype.bits = 16;
    expect(&c, TG_ERROR_ARGUMENT, "attend: argument 3 'o' is f16[4, 64]; 'q' made T f32");
    good(&c)->q.dtype.lanes = 4;
    expect(&c, TG_ERROR_ARGUMENT,
           "attend: argument 1 'q' is f32x4[4, 64]; vectors are not element types");
    static const DLDataType none[] = {{kDLFloat, 0, 1}, {kDLInt, 0, 1},      {kDLFloat, 33, 1},
                                      {kDLFloat, 8, 1}, {kDLComplex, 64, 1}, {200, 255, 1}};
    for (size_t i = 0; i < sizeof none / sizeof *none; i++) {
        good(&c)->q.dtype = none[i];
        assert_int_equal(tg_launch(&attend, c.args, 6), TG_ERROR_ARGUMENT);
        assert_non_null(strstr(tg_last_error(), "; this is not an element type"));
    }
    good(&c)->q.device.device_type = kDLCUDA;
    expect(&c, TG_ERROR_ARGUMENT,
           "attend: argument 3 'o' is f32[4, 64] on the CPU; 'q' is on GPU 0: all tensors of a "
           "launch must be on one device");
    DLTensor x = tg_dense(q, kDLBfloat, 16, 1, shape), y = tg_dense(o, kDLFloat, 32, 1, shape);
    tg_arg args[2] = {tg_tensor(&x), tg_tensor(&y)};
    assert_int_equal(tg_launch(&tiny, args, 2), TG_ERROR_ARGUMENT);
    assert_string_equal(tg_last_error(), "tiny: argument 1 'x' is bf16[4]; it must be f32");
}

static void views(void **state) {
    (void)state;
    Call c;
    good(&c)->q.ndim = 1;
    expect(&c, TG_ERROR_ARGUMENT, "attend: argument 1 'q' is f32[4]: it has 1 dim and must have 2");
    int64_t nine[9] = {1, 1, 1, 1, 1, 1, 1, 1, 1};
    good(&c)->q = tg_dense(q, kDLFloat, 32, 9, nine);
    expect(&c, TG_ERROR_ARGUMENT, "attend: argument 1 'q' has 9 dims; 0 to 8 are supported");
    static const int32_t ranks[] = {-1, 65, INT32_MAX}; // no shape has so many dims
    for (int i = 0; i < 3; i++) {
        char text[128];
        good(&c)->q.ndim = ranks[i];
        snprintf(text, sizeof text, "attend: argument 1 'q' has %d dims; 0 to 8 are supported",
                 ranks[i]);
        expect(&c, TG_ERROR_ARGUMENT, text);
    }
    good(&c)->q.data = NULL;
    expect(&c, TG_ERROR_ARGUMENT, "attend: argument 1 'q' is f32[4, 64]: its data is NULL");
    good(&c)->q.shape = NULL;
    expect(&c, TG_ERROR_ARGUMENT, "attend: argument 1 'q' is f32[]: its shape is NULL");
    good(&c)->q.shape = (int64_t[]){-1, D};
    expect(&c, TG_ERROR_ARGUMENT, "attend: argument 1 'q' is f32[-1, 64]: an extent is negative");
    good(&c)->q.shape = (int64_t[]){INT64_MAX / 8, D};
    expect(&c, TG_ERROR_ARGUMENT,
           "attend: argument 1 'q' is f32[1152921504606846975, 64]: it is larger than memory");
    int64_t none[2] = {0, 0}; // at one address, but too many to count
    good(&c)->q.shape = (int64_t[]){INT64_C(1) << 40, INT64_C(1) << 40};
    c.q.strides = none;
    assert_int_equal(tg_launch(&attend, c.args, 6), TG_ERROR_ARGUMENT);
    assert_non_null(strstr(tg_last_error(), ": it is larger than memory"));
    good(&c)->o.strides = (int64_t[]){0, 1};
    expect(&c, TG_ERROR_CONTRACT,
           "attend: argument 3 'o' is f32[4, 64]: it is written, so no stride over several "
           "elements may be 0");
    good(&c)->o.strides = (int64_t[]){1, 1};
    expect(&c, TG_ERROR_CONTRACT,
           "attend: argument 3 'o' is f32[4, 64]: it is written, and its strides put several "
           "positions on one element");
    good(&c)->o.strides =
        (int64_t[]){D - 1, 1}; // the last element of a row is the first of the next one
    assert_int_equal(tg_launch(&attend, c.args, 6), TG_ERROR_CONTRACT);
    good(&c)->o.strides = (int64_t[]){1, ROWS};
    expect(&c, TG_OK, NULL);
}

static void odd_views(void **state) {
    (void)state;
    Call c;
    int64_t empty[2] = {0, D}, still[2] = {1, 0};
    good(&c)->q.shape = empty;
    c.o.shape = empty; // written, but empty, so its strides do not matter
    c.o.strides = still;
    expect(&c, TG_OK, NULL);
    good(&c)->q.strides = (int64_t[]){0, 1}; // read only: one row for all
    expect(&c, TG_OK, NULL);
    assert_int_equal(seen.strides[0], 0);
    good(&c)->q.strides = (int64_t[]){-D, -1}; // reversed
    c.q.data = q + ROWS * D - 1;
    expect(&c, TG_OK, NULL);
    assert_int_equal(seen.variant, 0); // the variant for any strides
    int64_t none[2] = {0, D};
    good(&c)->q = tg_dense(NULL, kDLFloat, 32, 2, none);
    c.o = tg_dense(NULL, kDLFloat, 32, 2, none);
    expect(&c, TG_OK, NULL);
    good(&c)->o.strides = (int64_t[]){0, 1}; // one row, so its stride does not matter
    c.o.shape = (int64_t[]){1, D};
    expect(&c, TG_OK, NULL);
}

static void overlaps(void **state) {
    (void)state;
    Call c;
    const char *text = "attend: 'o' is written and overlaps 'q'";
    good(&c)->o.data = q;
    expect(&c, TG_ERROR_CONTRACT, text);
    good(&c)->o.data = q + ROWS * D - 1; // the last element
    expect(&c, TG_ERROR_CONTRACT, text);
    good(&c)->o.data = q + ROWS * D;
    expect(&c, TG_OK, NULL);
    good(&c)->q.data = q + D;
    c.o.data = q + (ROWS + 1) * D - 1; // starts after q, but extends backwards
    c.o.strides = (int64_t[]){-D, -1};
    expect(&c, TG_ERROR_CONTRACT, text);
}

/// Halves of rows share no element, at the first launch and at repeated ones. The distance decides,
/// not the address.
static void interleaved(void **state) {
    (void)state;
    Call c;
    int64_t two[2] = {2, D}, rows[2] = {2 * D, 1};
    for (int i = 0; i < 6; i++) {
        good(&c);
        c.q.shape = c.o.shape = two;
        c.q.strides = c.o.strides = rows;
        c.q.data = q + i / 2 * D; // it moves
        c.o.data = q + i / 2 * D + D;
        expect(&c, TG_OK, NULL);
        seen.variant = -1;
        c.o.data = q + i / 2 * D + D - 16;
        expect(&c, TG_ERROR_CONTRACT, "attend: 'o' is written and overlaps 'q'");
    }
}

/* ---- packs --------------------------------------------------------------------------------- */

static tg_status run_copy(int rank, const int64_t *extents, const int64_t *x_strides,
                          const int64_t *y_strides, float *x, float *y) {
    DLTensor tx = tg_dense(x, kDLFloat, 32, rank, extents);
    DLTensor ty = tg_dense(y, kDLFloat, 32, rank, extents);
    tx.strides = (int64_t *)(uintptr_t)x_strides;
    ty.strides = (int64_t *)(uintptr_t)y_strides;
    tg_arg args[2] = {tg_tensor(&tx), tg_tensor(&ty)};
    seen.variant = -1;
    return tg_launch(&copy, args, 2);
}

static void packs(void **state) {
    (void)state;
    static const struct {
        int rank;
        int64_t extents[4], x[4], y[4];
        int axes; // axes that remain
    } cases[] = {
        {0, {0}, {0}, {0}, 1},
        {1, {24}, {1}, {1}, 1},
        {1, {24}, {3}, {1}, 1},
        {3, {2, 3, 4}, {12, 4, 1}, {12, 4, 1}, 1},
        {3, {2, 3, 4}, {24, 8, 2}, {12, 4, 1}, 1}, // all axes merge
        {3, {2, 3, 4}, {12, 4, 1}, {16, 4, 1}, 2}, // y has a gap after two axes
        {3, {2, 3, 4}, {15, 5, 1}, {12, 4, 1}, 2},
        {4, {1, 6, 1, 4}, {99, 4, 77, 1}, {24, 4, 4, 1}, 1}, // axes of 1 merge with any
        {2, {4, 6}, {1, 4}, {6, 1}, 2},                      // transposed
        {2, {4, 6}, {0, 1}, {6, 1}, 2},
    };
    float x[128], y[128];
    for (int i = 0; i < 128; i++) x[i] = (float)i;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        memset(y, 0, sizeof y);
        assert_int_equal(
            run_copy(cases[i].rank, cases[i].extents, cases[i].x, cases[i].y, x + 1, y), TG_OK);
        assert_int_equal(seen.variant, cases[i].axes);
        const int64_t *e = cases[i].extents, *s = cases[i].x, *t = cases[i].y;
        int64_t at[4] = {0}, offset[2] = {0};
        int r = cases[i].rank, d;
        do {
            assert_true(y[offset[1]] == x[1 + offset[0]]);
            for (d = r - 1; d >= 0; d--) {
                offset[0] += s[d], offset[1] += t[d];
                if (++at[d] < e[d]) break;
                offset[0] -= s[d] * e[d], offset[1] -= t[d] * e[d];
                at[d] = 0;
            }
        } while (d >= 0);
    }
}

static void bad_packs(void **state) {
    (void)state;
    float x[64] = {0}, y[64];
    int64_t strides[3] = {25, 9, 2};
    assert_int_equal(run_copy(3, (int64_t[]){2, 2, 2}, strides, NULL, x, y), TG_ERROR_NOT_FOUND);
    assert_string_equal(tg_last_error(), "copy: no code for x f32[2, 2, 2], y f32[2, 2, 2]; "
                                         "compiled for axes of 'x' = 1 | 2 (tegula build --export "
                                         "and --given compile for more)");
    DLTensor a = tg_dense(x, kDLFloat, 32, 2, (int64_t[]){2, 3});
    DLTensor b = tg_dense(y, kDLFloat, 32, 2, (int64_t[]){3, 2});
    tg_arg args[2] = {tg_tensor(&a), tg_tensor(&b)};
    assert_int_equal(tg_launch(&copy, args, 2), TG_ERROR_CONTRACT);
    assert_string_equal(tg_last_error(), "copy: argument 2 'y' is f32[3, 2] and 'x' is f32[2, 3]: "
                                         "the dims of their pack must be equal");
}

/// Empty tensors may have extents of any size. Positions of a pack have to be countable.
static void vast_and_empty(void **state) {
    (void)state;
    float x[1], y[1];
    int64_t half = INT64_MAX / 2, zero[3] = {0}, odd[3] = {INT64_MIN, INT64_MAX, 1};
    int64_t shapes[3][3] = {{0, half, half}, {half, 0, half}, {half, half, 0}};
    for (int i = 0; i < 3; i++) {
        assert_int_equal(run_copy(3, shapes[i], NULL, NULL, x, y), TG_OK);
        assert_int_equal(run_copy(3, shapes[i], zero, zero, x, y), TG_OK);
        tg_status status = run_copy(3, shapes[i], odd, odd, x, x); // three axes: no such variant
        assert_true(status == TG_OK || status == TG_ERROR_NOT_FOUND);
    }
    int64_t one[3] = {1, 1, 1}, rows[2] = {half, half}, none[2] = {half, 0};
    assert_int_equal(run_copy(3, one, odd, odd, x, y), TG_OK);
    assert_int_equal(run_copy(2, none, zero, zero, x, y), TG_OK);
    assert_int_equal(run_copy(2, rows, zero, zero, x, y), TG_ERROR_ARGUMENT);
}

static void in_place(void **state) {
    (void)state;
    float x[64] = {7};
    int64_t n[2] = {8, 4}, gaps[2] = {8, 1};
    assert_int_equal(run_copy(2, n, NULL, NULL, x, x), TG_OK);
    assert_int_equal(run_copy(2, n, NULL, NULL, x, x + 4), TG_ERROR_CONTRACT);
    assert_string_equal(tg_last_error(), "copy: 'y' is written and overlaps 'x'");
    assert_int_equal(run_copy(2, n, gaps, gaps, x, x), TG_ERROR_CONTRACT); // not this variant
}

/* ---- facts of the code --------------------------------------------------------------------- */

static void failures(void **state) {
    (void)state;
    float x[400] = {0}, y[400];
    x[300] = x[200] = -1;
    int64_t n = 400;
    assert_int_equal(run_copy(1, &n, NULL, NULL, x, y), TG_ERROR_CONTRACT);
    assert_string_equal(tg_last_error(), "copy.teg:3:9: x[0] is -1");
}

static void questions(void **state) {
    (void)state;
    assert_string_equal(tg_kernel_name(&attend), "attend");
    assert_string_equal(tg_kernel_signature(&tiny), "kernel tiny(x: f32[N], y: f32[N])");
    assert_int_equal(tg_kernel_params(&attend), 6);
    assert_string_equal(tg_kernel_param(&attend, 5), "k");
    assert_null(tg_kernel_param(&attend, 6));
    assert_null(tg_kernel_param(&attend, -1));
    assert_string_equal(tg_kernel_name(NULL), "");
    assert_string_equal(tg_kernel_signature(NULL), "");
    assert_int_equal(tg_kernel_params(NULL), 0);
    assert_null(tg_kernel_param(NULL, 0));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(good_call), cmocka_unit_test(counts),
        cmocka_unit_test(kinds),     cmocka_unit_test(types),
        cmocka_unit_test(views),     cmocka_unit_test(odd_views),
        cmocka_unit_test(overlaps),  cmocka_unit_test(interleaved),
        cmocka_unit_test(packs),     cmocka_unit_test(bad_packs),
        cmocka_unit_test(in_place),  cmocka_unit_test(vast_and_empty),
        cmocka_unit_test(failures),  cmocka_unit_test(questions),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
