// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What a warm launch of a module's kernel costs over a direct call: kernels of one task against the
// same work in C, alternately, the best of many rounds. Of three arguments, and of eight, whose
// addresses and numbers differ from launch to launch.
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include <tegula.h>

enum { N = 16, CALLS = 2000, ROUNDS = 200, TENSORS = 5 };
static const double BAR = 100, LIMIT = 2000; // ns: what is promised; what no noise explains

static const char source[] =
    "kernel scale(x: f32[N], y: f32[N], c: f32) {\n"
    "    parallel { let n = cover(N); y[n] = x[n] * c; }\n"
    "}\n"
    "kernel mix(a: f32[M, N], b: f32[M, N], c: f32[M, N], d: f32[M, N]?, y: f32[M, N], p: f32, q: "
    "f32, "
    "n: i64) {\n"
    "    parallel { y[0, 0] = a[0, 0] * p + b[0, 0] * q + c[0, 0] * (n as f32); }\n"
    "}\n";

static double seconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static float memory[TENSORS][4 * N];
static tg_kernel *kernel;
static DLTensor tensors[TENSORS];
static tg_arg args[8];

/* ---- the two ways, of i ---------------------------------------------------------------------- */

__attribute__((noinline)) static int scale(const float *x, float *y, int64_t n, float c) {
    for (int64_t i = 0; i < n; i++) y[i] = x[i] * c;
    return 0;
}
static int (*volatile direct_scale)(const float *, float *, int64_t, float) = scale;

__attribute__((noinline)) static int mix(const float *a, const float *b, const float *c,
                                         const float *d, float *y, float p, float q, int64_t n) {
    (void)d;
    *y = *a * p + *b * q + *c * (float)n;
    return 0;
}
static int (*volatile direct_mix)(const float *, const float *, const float *, const float *,
                                  float *, float, float, int64_t) = mix;

static int call_scale(int i) {
    (void)i;
    return direct_scale(memory[0], memory[1], N, 3);
}

static int launch_scale(int i) {
    (void)i;
    return (int)tg_launch(kernel, args, 3);
}

static int call_mix(int i) {
    const float *m = memory[0];
    int at = i % 2 * 2 * N;
    return direct_mix(m + at, m + 4 * N, m + 8 * N, NULL, memory[4] + at, (float)i, 2, i);
}

static int launch_mix(int i) {
    tensors[0].data = memory[0] + i % 2 * 2 * N;
    tensors[4].data = memory[4] + i % 2 * 2 * N;
    args[5] = tg_float(i);
    args[7] = tg_int(i);
    return (int)tg_launch(kernel, args, 8);
}

/// Nanoseconds of a launch over a call; negative: a launch failed.
static double over(const char *what, int call(int), int launch(int)) {
    double best[2] = {1, 1};
    if (launch(0)) return -1;
    for (int r = 0; r < ROUNDS; r++) {
        double t[3] = {seconds()};
        for (int i = 0; i < CALLS; i++) call(i);
        t[1] = seconds();
        for (int i = 0; i < CALLS; i++)
            if (launch(i)) return -1;
        t[2] = seconds();
        for (int i = 0; i < 2; i++)
            if (t[i + 1] - t[i] < best[i]) best[i] = t[i + 1] - t[i];
    }
    double direct = best[0] / CALLS * 1e9, whole = best[1] / CALLS * 1e9;
    printf("%s: direct call %.1f ns, warm launch %.1f ns: %.1f ns over (bar %.0f)\n", what, direct,
           whole, whole - direct, BAR);
    return whole - direct;
}

int main(void) {
    static int64_t one[1] = {N}, two[2] = {2, N};
    tg_module *m;
    if (tg_module_from_source(source, sizeof source - 1, "bench.teg", NULL, &m) ||
        tg_module_kernel(m, "scale", &kernel))
        return fprintf(stderr, "%s\n", tg_last_error()), 1;
    for (int i = 0; i < 2; i++) {
        tensors[i] = tg_dense(memory[i], kDLFloat, 32, 1, one);
        args[i] = tg_tensor(&tensors[i]);
    }
    args[2] = tg_float(3);
    double three = over("3 arguments", call_scale, launch_scale);
    if (tg_module_kernel(m, "mix", &kernel)) return fprintf(stderr, "%s\n", tg_last_error()), 1;
    for (int i = 0; i < TENSORS; i++) {
        tensors[i] = tg_dense(memory[i], kDLFloat, 32, 2, two);
        args[i] = tg_tensor(&tensors[i]);
    }
    args[6] = tg_float(2);
    double eight = over("8 arguments", call_mix, launch_mix);
    if (three < 0 || eight < 0) fprintf(stderr, "%s\n", tg_last_error());
    tg_module_destroy(m);
    return three < 0 || eight < 0 || three > LIMIT || eight > LIMIT;
}
