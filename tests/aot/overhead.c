// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Measures the overhead of a warm call of an object's function over a direct C call.
#include "../runtime/ruler.h"

#include "kernels.h"

enum { CALLS = 2000 };

static float x[64], y[64], bias[64];

static int plain(int i) {
    x[0] = (float)i;
    return TG_OK;
}
static int (*volatile direct)(int) = plain;
static int call_plain(int i) {
    return direct(i);
}
static int one_tensor(int i) {
    (void)i;
    return (int)nothing(x, 8);
}
static int three_tensors(int i) {
    (void)i;
    return (int)add_bias(x, bias, y, 1, 8);
}
static int another_seed(int i) {
    return (int)seeded(x, y, (uint64_t)i, 1, 8);
}

int main(void) {
    static const struct {
        const char *what;
        int (*call)(int);
    } rows[] = {{"object's function of one tensor", one_tensor},
                {"object's function of three tensors and a grid", three_tensors},
                {"object's function with a new seed each time", another_seed}};
    for (int i = 0; i < 3; i++)
        if (!ruler_over(rows[i].what, call_plain, rows[i].call, CALLS))
            return fprintf(stderr, "%s\n", tg_last_error()), 1;
    return 0;
}
