// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Calls the kernels of kernels.teg as C functions and compares the results with plain loops in
// double. Valid C11 and C++17.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels.h"

#ifdef JIT
// The same functions around kernels of a module, from the header of `tegula build --jit`.
static tg_module *module_;
static tg_kernel *kernel_of(const char *name) {
    tg_kernel *kernel = NULL;
    if (!module_ && tg_module_from_file(JIT, NULL, &module_) != TG_OK) puts(tg_last_error());
    if (!module_ || tg_module_kernel(module_, name, &kernel) != TG_OK) exit(1);
    return kernel;
}
#define softmax_f32(...)  softmax_f32(kernel_of("softmax"), __VA_ARGS__)
#define softmax_bf16(...) softmax_bf16(kernel_of("softmax"), __VA_ARGS__)
#define matmul_f32(...)   matmul_f32(kernel_of("matmul"), __VA_ARGS__)
#define matmul_f64(...)   matmul_f64(kernel_of("matmul"), __VA_ARGS__)
#define matmul_i8(...)    matmul_i8(kernel_of("matmul_i8"), __VA_ARGS__)
#define matmul_bf16(...)  matmul_bf16(kernel_of("matmul_bf16"), __VA_ARGS__)
#define attention(...)    attention(kernel_of("attention"), __VA_ARGS__)
#define scale_f16(...)    scale_f16(kernel_of("scale"), __VA_ARGS__)
#define scale_f32(...)    scale_f32(kernel_of("scale"), __VA_ARGS__)
#define add_bias(...)     add_bias(kernel_of("add_bias"), __VA_ARGS__)
#define row_sums(...)     row_sums(kernel_of("row_sums"), __VA_ARGS__)
#define words(...)        words(kernel_of("words"), __VA_ARGS__)
#define largest(...)      largest(kernel_of("largest"), __VA_ARGS__)
#endif

static int failures;

static void expect(int ok, const char *what) {
    if (ok) return;
    failures++;
    printf("FAILED: %s (%s)\n", what, tg_last_error());
}

static void expect_near(double worst, double most, const char *what) {
    if (worst <= most) return; // false for NaN
    failures++;
    printf("FAILED: %s is off by %g, allowed %g\n", what, worst, most);
}

#define MANY 40000
static float fx[MANY], fy[MANY], fz[MANY], fo[MANY];
static double dx[MANY], dy[MANY], dz[MANY];
static uint16_t hx[MANY], hy[MANY];
static int8_t ix[MANY], iy[MANY];
static int32_t iz[MANY];

static uint32_t state = 12345;
static double draw(void) {
    state = state * 1664525u + 1013904223u;
    return (double)(state >> 8) / (1 << 24) * 2 - 1;
}

static void fill(void) {
    for (int i = 0; i < MANY; i++) {
        fx[i] = (float)draw(), fy[i] = (float)draw(), fz[i] = (float)draw();
        dx[i] = draw(), dy[i] = draw();
        ix[i] = (int8_t)(draw() * 128), iy[i] = (int8_t)(draw() * 128);
    }
}

/* ---- small floats --------------------------------------------------------------------------- */

static float bf16_value(uint16_t v) {
    uint32_t bits = (uint32_t)v << 16;
    float f;
    memcpy(&f, &bits, sizeof f);
    return f;
}

static double f16_value(uint16_t v) {
    double size = v & 0x7fff, sign = v & 0x8000 ? -1 : 1;
    int exponent = (v >> 10) & 31;
    if (!exponent) return sign * ldexp(size, -24);
    return sign * ldexp(1024 + (v & 1023), exponent - 25);
}

/* ---- kernels -------------------------------------------------------------------------------- */

/// The upper half of f: the bits of a bf16.
static uint16_t to_bf16(float f) {
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    return (uint16_t)(bits >> 16);
}

static double softmax_error(const double *x, const double *y, int n) {
    double top = -1e300, sum = 0, worst = 0;
    for (int i = 0; i < n; i++) top = fmax(top, x[i]);
    for (int i = 0; i < n; i++) sum += exp(x[i] - top);
    for (int i = 0; i < n; i++) worst = fmax(worst, fabs(y[i] - exp(x[i] - top) / sum));
    return worst;
}

static void test_softmax(void) {
    static const int rows[] = {1, 7, 64}, columns[] = {1, 31, 33, 100, 512};
    for (int r = 0; r < 3; r++)
        for (int c = 0; c < 5; c++) {
            int n = columns[c];
            double worst = 0, worst16 = 0;
            for (int i = 0; i < rows[r] * n; i++) hx[i] = to_bf16(fx[i]);
            expect(softmax_f32(fx, fo, rows[r], n) == TG_OK, "softmax_f32");
            expect(softmax_bf16(hx, hy, rows[r], n) == TG_OK, "softmax_bf16");
            for (int i = 0; i < rows[r]; i++) {
                for (int j = 0; j < n; j++) dx[j] = fx[i * n + j], dy[j] = fo[i * n + j];
                worst = fmax(worst, softmax_error(dx, dy, n));
                for (int j = 0; j < n; j++)
                    dx[j] = bf16_value(hx[i * n + j]), dy[j] = bf16_value(hy[i * n + j]);
                worst16 = fmax(worst16, softmax_error(dx, dy, n));
            }
            expect_near(worst, 1e-6, "softmax_f32");
            expect_near(worst16, 1. / 256, "softmax_bf16");
        }
#ifndef JIT
    expect(softmax_f32(fx, fo, 1, 513) == TG_ERROR_NOT_FOUND, "softmax of a row that is too long");
    expect(strstr(tg_last_error(), "512") != NULL, "the message says what there is");
#endif
    expect(softmax_f32(fx, fo, 0, 5) == TG_OK, "softmax of nothing");
}

static void test_matmul(void) {
    static const int sizes[][3] = {{1, 1, 1}, {17, 33, 65}, {128, 130, 100}, {3, 64, 0}};
    for (int s = 0; s < 4; s++) {
        int m = sizes[s][0], n = sizes[s][1], k = sizes[s][2];
        fill();
        expect(matmul_f32(fx, fy, fo, m, k, n) == TG_OK, "matmul_f32");
        expect(matmul_f64(dx, dy, dz, m, k, n) == TG_OK, "matmul_f64");
        expect(matmul_i8(ix, iy, iz, m, k, n) == TG_OK, "matmul_i8");
        for (int i = 0; i < MANY; i++) hx[i] = to_bf16(fx[i]), hy[i] = to_bf16(fy[i]);
        expect(matmul_bf16(hx, hy, fz, m, k, n) == TG_OK, "matmul_bf16");
        double worst = 0, worst64 = 0, worst8 = 0, worst16 = 0;
        for (int i = 0; i < m; i++)
            for (int j = 0; j < n; j++) {
                double sum = 0, sum64 = 0, sum8 = 0, sum16 = 0;
                for (int l = 0; l < k; l++) {
                    sum += (double)fx[i * k + l] * fy[l * n + j];
                    sum64 += dx[i * k + l] * dy[l * n + j];
                    sum16 += (double)bf16_value(hx[i * k + l]) * bf16_value(hy[l * n + j]);
                    sum8 += (double)ix[i * k + l] * iy[l * n + j];
                }
                worst = fmax(worst, fabs(sum - fo[i * n + j]));
                worst64 = fmax(worst64, fabs(sum64 - dz[i * n + j]));
                worst16 = fmax(worst16, fabs(sum16 - fz[i * n + j]));
                worst8 = fmax(worst8, fabs(sum8 - iz[i * n + j]));
            }
        expect_near(worst, 1e-5, "matmul_f32");
        expect_near(worst64, 1e-13, "matmul_f64");
        expect_near(worst8, 0, "matmul_i8");
        expect_near(worst16, 1e-4, "matmul_bf16");
    }
}

static double attention_error(int h, int s, int d, double scale, int causal) {
    double worst = 0;
    for (int row = 0; row < h * s; row++) {
        int i = row % s, last = causal ? i : s - 1;
        const float *q = fx + row * d, *k = fy + (row - i) * d, *v = fz + (row - i) * d;
        double top = -1e300, sum = 0;
        for (int j = 0; j <= last; j++) {
            dz[j] = 0;
            for (int l = 0; l < d; l++) dz[j] += (double)q[l] * k[j * d + l];
            dz[j] *= scale;
            top = fmax(top, dz[j]);
        }
        for (int j = 0; j <= last; j++) sum += dz[j] = exp(dz[j] - top);
        for (int l = 0; l < d; l++) {
            double o = 0;
            for (int j = 0; j <= last; j++) o += dz[j] * v[j * d + l];
            worst = fmax(worst, fabs(o / sum - fo[row * d + l]));
        }
    }
    return worst;
}

static void test_attention(void) {
    for (int d = 16; d <= 32; d *= 2)
        for (int causal = 0; causal < 2; causal++) {
            fill();
            tg_status status = attention(fx, fy, fz, fo, 0.25f, causal != 0, 3, 45, d);
            expect(status == TG_OK, "attention");
            expect_near(attention_error(3, 45, d, 0.25, causal), 1e-5, "attention");
        }
#ifndef JIT
    expect(attention(fx, fy, fz, fo, 1, true, 1, 1, 24) == TG_ERROR_NOT_FOUND, "attention, D = 24");
    expect(strstr(tg_last_error(), "16 | 32") != NULL, "the message lists D");
#endif
}

/// Strides by which packs have 3, 1 and 3 axes, through DLPack.
static void test_strided(void) {
#ifndef JIT
    int64_t shape[3] = {4, 3, 5}, strides[3][3] = {{200, 40, 7}, {1, 4, 12}, {-200, 50, -2}};
    for (int s = 0; s < 3; s++) {
        fill();
        DLTensor x = tg_dense(fx + 2000, kDLFloat, 32, 3, shape);
        DLTensor y = tg_dense(fo, kDLFloat, 32, 3, shape);
        x.strides = strides[s];
        expect(scale_f32_dl(&x, &y, 3, 0.5) == TG_OK, "scale_f32_dl");
        double worst = 0;
        for (int i = 0; i < 60; i++) {
            int64_t at = i / 15 * strides[s][0] + i / 5 % 3 * strides[s][1] + i % 5 * strides[s][2];
            worst = fmax(worst, fabs(3.0 * fx[2000 + at] + 0.5 - fo[i]));
        }
        expect_near(worst, 1e-6, "scale_f32_dl");
    }
#endif
}

static void test_scale(void) {
    fill();
    for (int i = 0; i < 1000; i++)
        hx[i] = (uint16_t)(i * 31); // from subnormal to large, all finite
    expect(scale_f16(hx, hy, 0.5f, 0, 1000) == TG_OK, "scale_f16");
    double worst = 0;
    for (int i = 0; i < 1000; i++)
        worst = fmax(worst, fabs(f16_value(hx[i]) / 2 - f16_value(hy[i])) - ldexp(1, -25) -
                                fabs(f16_value(hx[i])) / 4096);
    expect_near(worst, 0, "scale_f16");
    memcpy(fo, fx, sizeof fo);
    expect(scale_f32(fo, fo, 2, 0, MANY) == TG_OK, "in place");
    expect(fo[123] == 2 * fx[123] && fo[MANY - 1] == 2 * fx[MANY - 1], "in place");
    expect(scale_f32(fo, fo + 1, 2, 0, 100) == TG_ERROR_CONTRACT, "arrays that overlap");
}

static void test_bias(void) {
    fill();
    for (int with = 0; with < 2; with++) {
        expect(add_bias(fx, with ? fy : NULL, fo, 30, 333) == TG_OK, "add_bias");
        int same = 1;
        for (int i = 0; i < 30 * 333; i++) same &= fo[i] == fx[i] + (with ? fy[i % 333] : 0);
        expect(same, "add_bias");
    }
}

static void test_row_sums(void) {
    int64_t start[] = {0, 3, 3, 200, 201};
    int32_t sums[4], twice[8];
    for (int i = 0; i < 201; i++) iz[i] = i * 7 - 300;
    expect(row_sums(start, iz, sums, twice, 4, 201) == TG_OK, "row_sums");
    for (int e = 0; e < 4; e++) {
        int32_t sum = 0;
        for (int64_t i = start[e]; i < start[e + 1]; i++) sum += iz[i];
        expect(sums[e] == sum && twice[2 * e] == sum && twice[2 * e + 1] == -sum, "row_sums");
    }
}

static void test_words(void) {
    uint8_t in[100], out[100];
    for (int i = 0; i < 100; i++) in[i] = (uint8_t)(i % 3 ? i : 0);
    expect(words(in, out, 200, true, -1, 100) == TG_OK, "words");
    for (int i = 0; i < 100; i++) expect(out[i] == (uint8_t)(in[i] + 200), "words");
    expect(words(in, out, 200, false, -1, 100) == TG_OK, "words");
    for (int i = 0; i < 100; i++) expect(out[i] == (in[i] ? 255 : 0), "words");
}

static void test_largest(void) {
    double out = 0;
    fill();
    dx[777] = 5;
    expect(largest(dx, &out, 1000) == TG_OK && out == 5, "largest");
}

int main(void) {
    fill();
    test_softmax();
    test_matmul();
    test_attention();
    test_strided();
    test_scale();
    test_bias();
    test_row_sums();
    test_words();
    test_largest();
    if (failures == 0) printf("all right\n");
    return failures != 0;
}
