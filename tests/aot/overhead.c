// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What a warm call of an object's function costs beyond a direct call of C: best of many rounds.
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "kernels.h"

enum { ROUNDS = 50, CALLS = 10000 };
static const double BAR = 100, LIMIT = 1000; // ns: what is promised; what no noise explains

static float x[64], y[64], bias[64];

static tg_status plain(void) {
    x[0] = 1;
    return TG_OK;
}
static tg_status one_parameter(void) {
    return nothing(x, 8);
}
static tg_status three_tensors(void) {
    return add_bias(x, bias, y, 1, 8);
}
static tg_status another_seed(void) {
    static uint64_t seed;
    return seeded(x, y, seed++, 1, 8);
}

static double nanoseconds(tg_status (*volatile call)(void)) {
    double best = 1e300;
    for (int r = 0; r < ROUNDS; r++) {
        struct timespec a, b;
        timespec_get(&a, TIME_UTC);
        for (int i = 0; i < CALLS; i++)
            if (call() != TG_OK) {
                fprintf(stderr, "%s\n", tg_last_error());
                exit(1);
            }
        timespec_get(&b, TIME_UTC);
        double t = (double)(b.tv_sec - a.tv_sec) * 1e9 + (double)(b.tv_nsec - a.tv_nsec);
        if (t < best) best = t;
    }
    return best / CALLS;
}

int main(void) {
    double direct = nanoseconds(plain);
    double one = nanoseconds(one_parameter) - direct, three = nanoseconds(three_tensors) - direct;
    double seed = nanoseconds(another_seed) - direct;
    printf("over a direct call of %.1f ns: one tensor %.0f ns, three tensors and a grid %.0f ns, "
           "a new seed each time %.0f ns (bar %.0f)\n",
           direct, one, three, seed, BAR);
    return one > LIMIT || three > LIMIT || seed > LIMIT;
}
