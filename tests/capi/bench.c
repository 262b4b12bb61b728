// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What a warm launch of a module's kernel costs over a direct call: a kernel of one task against
// the same work in C, alternately, the best of many rounds.
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include <tegula.h>

enum { N = 16, CALLS = 2000, ROUNDS = 200 };

static double seconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

__attribute__((noinline)) static int scale(const float *x, float *y, int64_t n, float c) {
    for (int64_t i = 0; i < n; i++) y[i] = x[i] * c;
    return 0;
}

static int give_up(void) {
    fprintf(stderr, "%s\n", tg_last_error());
    return 1;
}

int main(void) {
    static const char source[] = "kernel scale(x: f32[N], y: f32[N], c: f32) {\n"
                                 "    parallel { let n = cover(N); y[n] = x[n] * c; }\n"
                                 "}\n";
    int (*volatile direct)(const float *, float *, int64_t, float) = scale;
    tg_module *m;
    tg_kernel *k;
    float x[N] = {0}, y[N];
    int64_t shape[1] = {N};
    DLTensor tx = tg_dense(x, kDLFloat, 32, 1, shape), ty = tg_dense(y, kDLFloat, 32, 1, shape);
    tg_arg args[3] = {tg_tensor(&tx), tg_tensor(&ty), tg_float(3)};
    for (int i = 0; i < N; i++) x[i] = (float)i;
    if (tg_module_from_source(source, sizeof source - 1, "bench.teg", NULL, &m) ||
        tg_module_kernel(m, NULL, &k) || tg_launch(k, args, 3))
        return give_up();
    double best[2] = {1, 1};
    for (int r = 0; r < ROUNDS; r++) {
        double t[3] = {seconds()};
        for (int i = 0; i < CALLS; i++) direct(x, y, N, 3);
        t[1] = seconds();
        for (int i = 0; i < CALLS; i++)
            if (tg_launch(k, args, 3)) return give_up();
        t[2] = seconds();
        for (int i = 0; i < 2; i++)
            if (t[i + 1] - t[i] < best[i]) best[i] = t[i + 1] - t[i];
    }
    double call = best[0] / CALLS * 1e9, launch = best[1] / CALLS * 1e9;
    printf("direct call %.1f ns, warm launch %.1f ns: %.1f ns over\n", call, launch, launch - call);
    tg_module_destroy(m);
    return launch - call < 20000 ? 0 : 1;
}
