// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Compares results of kernels that were compiled for a launch with plain C: element types, shapes,
// strides, packs, optional tensors, constants. Data are small integers, exact in every type, so
// results must be equal.
#include "support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char source[] =
    "kernel affine<T: any>(x: T[..N], y: T[..N], c: i32, add: T[..N]?) tune B = 16 | 256 {\n"
    "    parallel n in N by B {\n"
    "        var v = x[n] as f32 * c;\n"
    "        if add { v += add[n] as f32; }\n"
    "        y[n] = v as T;\n"
    "    }\n"
    "}\n"
    "kernel sums<T: any>(x: T[M, N], y: i32[M], twice: const bool) {\n"
    "    parallel m in M {\n"
    "        let n = cover(N);\n"
    "        let s = sum(x[m, n, pad = 0] as i32);\n"
    "        y[m] = twice ? 2 * s : s;\n"
    "    }\n"
    "}\n"
    "kernel matmul<T: float>(a: T[M, K], b: T[K, N], c: f32[M, N]) tune BM = 16 | 64, BN = 16 | 64 "
    "{\n"
    "    parallel m in M by BM, n in N by BN {\n"
    "        var acc: f32<BM, BN> = 0;\n"
    "        for k in K by 16 { acc += dot(a[m, k], b[k, n]) as f32; }\n"
    "        c[m, n] = acc;\n"
    "    }\n"
    "}\n"
    "kernel rows(x: f32[M, D], y: f32[M]) given D = 4 | 8 {\n"
    "    parallel m in M by 8 { y[m] = sum(x[m, :], axis = 1); }\n"
    "}\n"
    "kernel choose(c: bool[N], x: i32[N], y: i32[N], all: bool) {\n"
    "    parallel n in N by 16 { y[n] = c[n] || all ? x[n] : -1; }\n"
    "}\n"
    "kernel next(x: f32[E + 1], y: f32[E]) {\n"
    "    parallel e in E by 8 { y[e] = x[e + 1] - x[e]; }\n"
    "}\n";

static tg_module *module;

static int open_module(void **state) {
    (void)state;
    module = module_of(source);
    return 0;
}

static int close_module(void **state) {
    (void)state;
    tg_module_destroy(module);
    return 0;
}

static int value(int64_t i, int salt) {
    return (int)((uint64_t)(i * 7 + salt * 5) % 3);
}

/* ---- layouts ------------------------------------------------------------------------------- */

enum { ROOM = 4096, ORIGIN = ROOM / 2 };

/// The placement of a tensor in memory around its origin.
typedef struct Layout {
    const char *name;
    bool (*strides)(int rank, const int64_t *shape, int64_t *out);
} Layout;

static bool dense(int rank, const int64_t *shape, int64_t *out) {
    int64_t step = 1;
    for (int i = rank - 1; i >= 0; i--) {
        out[i] = step;
        step *= shape[i];
    }
    return true;
}

static bool columns(int rank, const int64_t *shape, int64_t *out) {
    int64_t step = 1;
    for (int i = 0; i < rank; i++) {
        out[i] = step;
        step *= shape[i] ? shape[i] : 1;
    }
    return rank > 1;
}

static bool padded(int rank, const int64_t *shape, int64_t *out) {
    int64_t step = 1;
    for (int i = rank - 1; i >= 0; i--) {
        out[i] = step;
        step *= shape[i] + 3;
    }
    return true;
}

static bool sparse(int rank, const int64_t *shape, int64_t *out) {
    dense(rank, shape, out);
    for (int i = 0; i < rank; i++) out[i] *= 2;
    return true;
}

static bool backwards(int rank, const int64_t *shape, int64_t *out) {
    dense(rank, shape, out);
    for (int i = 0; i < rank; i++) out[i] = -out[i];
    return true;
}

static bool repeated(int rank, const int64_t *shape, int64_t *out) {
    dense(rank, shape, out);
    if (rank) out[0] = 0;
    return rank > 0;
}

static const Layout layouts[] = {
    {"dense", dense},   {"columns", columns},     {"padded", padded},
    {"sparse", sparse}, {"backwards", backwards}, {"repeated", repeated},
};
enum { N_LAYOUTS = sizeof layouts / sizeof *layouts, REPEATED = N_LAYOUTS - 1 };

static int64_t count_of(int rank, const int64_t *shape) {
    int64_t n = 1;
    for (int i = 0; i < rank; i++) n *= shape[i];
    return n;
}

/// The distance of element i, in row-major order, from the origin.
static int64_t offset_of(const View *v, int64_t i) {
    int64_t at = 0;
    for (int d = v->t.ndim - 1; d >= 0; d--) {
        at += i % v->shape[d] * v->strides[d];
        i /= v->shape[d];
    }
    return at;
}

/// Places a tensor of a layout with its origin in the middle of `memory`.
static bool lay_out(View *v, const Type *t, char *memory, const Layout *l, int rank,
                    const int64_t *shape) {
    int64_t strides[MAX_RANK];
    if (!l->strides(rank, shape, strides)) return false;
    view(v, t, memory, rank, shape, strides);
    v->t.byte_offset = (uint64_t)(ORIGIN * t->bits / 8);
    return true;
}

/* ---- element by element -------------------------------------------------------------------- */

typedef struct Case {
    const Type *type;
    int rank;
    int64_t shape[4];
    const Layout *in, *out;
    bool add;
} Case;

static int at(const View *v, const Type *t, int64_t i) {
    return get(t, v->t.data, ORIGIN + offset_of(v, i));
}

static bool is_right(const Case *c, const View *x, const View *a, const View *y) {
    for (int64_t i = 0; i < count_of(c->rank, c->shape); i++) {
        int want = 2 * at(x, c->type, i) + (c->add ? at(a, c->type, i) : 0);
        if (at(y, c->type, i) == want) continue;
        print_error("%s rank %d, %s to %s: element %d is %d, not %d\n", c->type->name, c->rank,
                    c->in->name, c->out->name, (int)i, at(y, c->type, i), want);
        return false;
    }
    return true;
}

static void run_affine(const Case *c) {
    static char memory[3][ROOM * 8];
    View x, y, a;
    if (!lay_out(&x, c->type, memory[0], c->in, c->rank, c->shape)) return;
    if (!lay_out(&a, c->type, memory[1], c->in, c->rank, c->shape)) return;
    if (!lay_out(&y, c->type, memory[2], c->out, c->rank, c->shape)) return;
    for (int64_t i = 0; i < ROOM; i++) {
        put(c->type, memory[0], i, value(i, 1));
        put(c->type, memory[1], i, value(i, 2));
        put(c->type, memory[2], i, 14);
    }
    tg_arg args[4] = {tg_tensor(&x.t), tg_tensor(&y.t), tg_int(2),
                      c->add ? tg_tensor(&a.t) : tg_none()};
    OK(tg_launch(kernel_of(module, "affine"), args, 4));
    assert_true(is_right(c, &x, &a, &y));
}

static const struct {
    int rank;
    int64_t shape[4];
} shapes[] = {
    {0, {0}},     {1, {1}},       {1, {0}},       {1, {37}},         {2, {5, 7}},    {2, {1, 33}},
    {2, {33, 1}}, {3, {3, 1, 9}}, {3, {2, 3, 4}}, {4, {2, 1, 3, 5}}, {3, {1, 1, 1}}, {2, {0, 4}},
};
enum { N_SHAPES = sizeof shapes / sizeof *shapes };

/// Tests every type on dense tensors of every shape, and every pair of layouts in two types.
static void test_elements(void **state) {
    (void)state;
    for (int t = 0; t < N_TYPES; t++)
        for (int s = 0; s < N_SHAPES; s++) {
            Case c = {&types[t], shapes[s].rank, {0}, &layouts[0], &layouts[0], s % 2};
            memcpy(c.shape, shapes[s].shape, sizeof c.shape);
            run_affine(&c);
        }
}

static void test_strides(void **state) {
    (void)state;
    for (int t = 1; t < 10; t += 8)
        for (int s = 0; s < N_SHAPES; s++)
            for (int l = 0; l < N_LAYOUTS * REPEATED; l++) {
                Case c = {&types[t],
                          shapes[s].rank,
                          {0},
                          &layouts[l % N_LAYOUTS],
                          &layouts[l / N_LAYOUTS],
                          (l + s) % 2};
                memcpy(c.shape, shapes[s].shape, sizeof c.shape);
                run_affine(&c);
            }
}

static void test_in_place(void **state) {
    (void)state;
    float x[100];
    View v;
    for (int i = 0; i < 100; i++) x[i] = (float)i;
    view(&v, &types[1], x, 1, (int64_t[]){100}, NULL);
    tg_arg args[4] = {tg_tensor(&v.t), tg_tensor(&v.t), tg_int(3), tg_none()};
    OK(tg_launch(kernel_of(module, "affine"), args, 4));
    for (int i = 0; i < 100; i++) assert_true(x[i] == (float)(3 * i));
    View w = v;
    w.t.data = x + 1;
    w.shape[0] = v.shape[0] = 50;
    v.t.shape = v.shape;
    w.t.shape = w.shape;
    args[1] = tg_tensor(&w.t);
    FAILS(tg_launch(kernel_of(module, "affine"), args, 4), TG_ERROR_CONTRACT, "overlaps");
}

/* ---- the others ---------------------------------------------------------------------------- */

static void test_reductions(void **state) {
    (void)state;
    static char memory[ROOM * 8];
    static int32_t y[8];
    for (int t = 0; t < N_TYPES; t++)
        for (int64_t n = 0; n < 120; n = n * 2 + 1) {
            View x, sums;
            view(&x, &types[t], memory, 2, (int64_t[]){3, n}, NULL);
            view(&sums, &types[7], y, 1, (int64_t[]){3}, NULL);
            for (int64_t i = 0; i < 3 * n; i++) put(&types[t], memory, i, value(i, 3));
            tg_arg args[3] = {tg_tensor(&x.t), tg_tensor(&sums.t), tg_int(n % 4 == 3)};
            OK(tg_launch(kernel_of(module, "sums"), args, 3));
            for (int64_t m = 0; m < 3; m++) {
                int want = 0;
                for (int64_t i = 0; i < n; i++) want += value(m * n + i, 3);
                assert_int_equal(y[m], n % 4 == 3 ? 2 * want : want);
            }
        }
}

static void run_matmul(const Type *t, int64_t m, int64_t n, int64_t k, bool transposed) {
    static char a[70 * 70 * 8], b[70 * 70 * 8];
    static float c[70 * 70];
    View va, vb, vc;
    view(&va, t, a, 2, (int64_t[]){m, k}, NULL);
    view(&vb, t, b, 2, (int64_t[]){k, n}, (int64_t[]){transposed ? 1 : n, transposed ? k : 1});
    view(&vc, &types[1], c, 2, (int64_t[]){m, n}, NULL);
    for (int64_t i = 0; i < 70 * 70; i++) {
        put(t, a, i, value(i, 4) - 2);
        put(t, b, i, value(i, 5) - 3);
    }
    tg_arg args[3] = {tg_tensor(&va.t), tg_tensor(&vb.t), tg_tensor(&vc.t)};
    OK(tg_launch(kernel_of(module, "matmul"), args, 3));
    for (int64_t i = 0; i < m; i++)
        for (int64_t j = 0; j < n; j++) {
            int want = 0;
            for (int64_t l = 0; l < k; l++)
                want += get(t, a, i * k + l) * get(t, b, transposed ? j * k + l : l * n + j);
            assert_true(c[i * n + j] == (float)want);
        }
}

static void test_products(void **state) {
    (void)state;
    static const int64_t extents[] = {1, 2, 17, 33, 64, 0};
    for (int t = 0; t < 4; t++)
        for (int i = 0; i < 6; i++)
            run_matmul(&types[t], extents[i], extents[(i + 2) % 5], extents[(i + 1 + t) % 5],
                       i % 2);
}

/// Dims that the code holds as constants. Other values get code of their own.
static void test_constants(void **state) {
    (void)state;
    float x[16 * 9], y[16];
    for (int i = 0; i < 16 * 9; i++) x[i] = (float)value(i, 6);
    for (int64_t d = 1; d <= 9; d++) {
        View vx, vy;
        view(&vx, &types[1], x, 2, (int64_t[]){16, d}, NULL);
        view(&vy, &types[1], y, 1, (int64_t[]){16}, NULL);
        OK(tg_launch(kernel_of(module, "rows"), (tg_arg[]){tg_tensor(&vx.t), tg_tensor(&vy.t)}, 2));
        for (int64_t m = 0; m < 16; m++) {
            int want = 0;
            for (int64_t i = 0; i < d; i++) want += value(m * d + i, 6);
            assert_true(y[m] == (float)want);
        }
    }
}

static void test_bools(void **state) {
    (void)state;
    static const Type boolean = {"bool", kDLBool, 8, 0, 0};
    uint8_t c[40];
    int32_t x[40], y[40];
    for (int i = 0; i < 40; i++) {
        c[i] = i % 3 == 0;
        x[i] = i;
    }
    for (int all = 0; all < 2; all++) {
        View vc, vx, vy;
        view(&vc, &boolean, c, 1, (int64_t[]){40}, NULL);
        view(&vx, &types[7], x, 1, (int64_t[]){40}, NULL);
        view(&vy, &types[7], y, 1, (int64_t[]){40}, NULL);
        tg_arg args[4] = {tg_tensor(&vc.t), tg_tensor(&vx.t), tg_tensor(&vy.t), tg_int(all)};
        OK(tg_launch(kernel_of(module, "choose"), args, 4));
        for (int i = 0; i < 40; i++) assert_int_equal(y[i], c[i] || all ? i : -1);
    }
}

static void test_sums_of_dims(void **state) {
    (void)state;
    float x[50], y[50];
    for (int i = 0; i < 50; i++) x[i] = (float)(i * i);
    for (int64_t e = 0; e < 49; e += 8) {
        View vx, vy;
        view(&vx, &types[1], x, 1, (int64_t[]){e + 1}, NULL);
        view(&vy, &types[1], y, 1, (int64_t[]){e}, NULL);
        OK(tg_launch(kernel_of(module, "next"), (tg_arg[]){tg_tensor(&vx.t), tg_tensor(&vy.t)}, 2));
        for (int64_t i = 0; i < e; i++) assert_true(y[i] == (float)(2 * i + 1));
        vy.shape[0] = e + 1;
        FAILS(
            tg_launch(kernel_of(module, "next"), (tg_arg[]){tg_tensor(&vx.t), tg_tensor(&vy.t)}, 2),
            TG_ERROR_CONTRACT, "E + 1");
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_elements), cmocka_unit_test(test_strides),
        cmocka_unit_test(test_in_place), cmocka_unit_test(test_reductions),
        cmocka_unit_test(test_products), cmocka_unit_test(test_constants),
        cmocka_unit_test(test_bools),    cmocka_unit_test(test_sums_of_dims),
    };
    return cmocka_run_group_tests(tests, open_module, close_module);
}
