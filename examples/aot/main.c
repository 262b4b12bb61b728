// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Two layers and a softmax on random data, by kernels and by plain loops: time and largest error.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "kernels.h"

enum { BATCH = 256, IN = 784, HIDDEN = 512, OUT = 10 };

static float x[BATCH * IN], w1[IN * HIDDEN], b1[HIDDEN], h[BATCH * HIDDEN];
static float w2[HIDDEN * OUT], y[BATCH * OUT], plain_h[BATCH * HIDDEN], plain_y[BATCH * OUT];

static double seconds(void) {
    struct timespec t;
    timespec_get(&t, TIME_UTC);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void fill(float *to, int n, float size) {
    for (int i = 0; i < n; i++) to[i] = size * ((float)rand() / (float)RAND_MAX - 0.5f);
}

/// Each kernel is a C function that returns a status.
static tg_status by_kernels(void) {
    tg_status status = nn_layer(x, w1, b1, h, BATCH, IN, HIDDEN);
    if (status == TG_OK) status = nn_layer(h, w2, NULL, y, BATCH, HIDDEN, OUT);
    if (status == TG_OK) status = nn_softmax(y, y, BATCH, OUT);
    return status;
}

static void plain_layer(const float *in, const float *w, const float *bias, float *out, int n,
                        int m) {
    for (int b = 0; b < BATCH; b++)
        for (int o = 0; o < m; o++) {
            double sum = bias ? bias[o] : 0;
            for (int i = 0; i < n; i++) sum += (double)in[b * n + i] * w[i * m + o];
            out[b * m + o] = sum > 0 ? (float)sum : 0;
        }
}

static void by_loops(void) {
    plain_layer(x, w1, b1, plain_h, IN, HIDDEN);
    plain_layer(plain_h, w2, NULL, plain_y, HIDDEN, OUT);
    for (int b = 0; b < BATCH; b++) {
        double sum = 0;
        for (int o = 0; o < OUT; o++) sum += exp(plain_y[b * OUT + o]);
        for (int o = 0; o < OUT; o++)
            plain_y[b * OUT + o] = (float)(exp(plain_y[b * OUT + o]) / sum);
    }
}

int main(void) {
    fill(x, BATCH * IN, 1), fill(w1, IN * HIDDEN, 0.2f), fill(b1, HIDDEN, 1);
    fill(w2, HIDDEN * OUT, 0.2f);
    double best = 1e9, worst = 0;
    for (int i = 0; i < 20; i++) {
        double start = seconds();
        if (by_kernels() != TG_OK) {
            fprintf(stderr, "%s\n", tg_last_error());
            return 1;
        }
        best = fmin(best, seconds() - start);
    }
    double start = seconds();
    by_loops();
    double loops = seconds() - start;
    for (int i = 0; i < BATCH * OUT; i++) worst = fmax(worst, fabs(y[i] - plain_y[i]));
    printf("%d samples: %.2f ms by kernels, %.1f ms by plain loops, largest difference %.1e\n",
           BATCH, best * 1e3, loops * 1e3, worst);
    return worst < 1e-5 ? 0 : 1;
}
