// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Compiles a kernel at run time, launches it, and shows how errors arrive.
//   cc main.c $(pkg-config --cflags --libs tegula) -lm -o jit && ./jit softmax.teg
//   TG_TUNE=block ./jit softmax.teg
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <tegula.h>

/// The library itself prints nothing. This hook receives warnings, the progress of a search that a
/// launch waits for (TG_TUNE=block), and its result.
static void say(void *user, const char *line) {
    (void)user;
    fprintf(stderr, "tegula: %s\n", line);
}

/// Every call returns a status; tg_last_error() has the text, with file, line and hint.
static int failed(const char *what) {
    fprintf(stderr, "%s: %s\n", what, tg_last_error());
    return 1;
}

/// Largest difference of the sum of a row from 1.
static double row_error(const float *y, int rows, int columns) {
    double worst = 0;
    for (int r = 0; r < rows; r++) {
        double sum = 0;
        for (int i = 0; i < columns; i++) sum += y[r * columns + i];
        worst = fmax(worst, fabs(sum - 1));
    }
    return worst;
}

int main(int argc, char **argv) {
    const char *path = argc > 1 ? argv[1] : "softmax.teg";
    tg_options options = {.size = sizeof options, .log = say};
    tg_context *context;
    tg_module *module;
    tg_kernel *softmax;
    if (tg_context_create(&options, &context)) return failed("no context");
    tg_context_use(context);
    if (tg_module_from_file(path, NULL, &module)) return failed("cannot load");
    if (tg_module_kernel(module, "softmax", &softmax)) return failed("no kernel");

    // The first launch compiles for these types; later ones with other extents reuse the code.
    static float x[64 * 1000], y[64 * 1000];
    for (int i = 0; i < 64 * 1000; i++) x[i] = sinf((float)i);
    double worst = 0;
    for (int rows = 1; rows <= 64; rows *= 4) {
        int64_t shape[2] = {rows, 1000};
        DLTensor in = tg_dense(x, kDLFloat, 32, 2, shape);
        DLTensor out = tg_dense(y, kDLFloat, 32, 2, shape);
        tg_arg args[2] = {tg_tensor(&in), tg_tensor(&out)};
        if (tg_launch(softmax, args, 2)) return failed("launch");
        worst = fmax(worst, row_error(y, rows, 1000));
        char how[256];
        if (tg_kernel_decision(softmax, args, 2, how, sizeof how)) return failed("decision");
        printf("%d rows: %s\n", rows, how);
    }
    printf("softmax of 1 to 64 rows: sums are 1 within %.1e\n", worst);

    // A mistake comes back as a status; the program goes on.
    int64_t wrong[2] = {63, 1000}, shape[2] = {64, 1000};
    DLTensor in = tg_dense(x, kDLFloat, 32, 2, shape), out = tg_dense(y, kDLFloat, 32, 2, wrong);
    tg_arg args[2] = {tg_tensor(&in), tg_tensor(&out)};
    tg_status status = tg_launch(softmax, args, 2);
    printf("%s: %s\n", tg_status_name(status), tg_last_error());

    tg_module_destroy(module);
    tg_context_use(NULL);
    tg_context_destroy(context);
    return worst < 1e-5 && status == TG_ERROR_CONTRACT ? 0 : 1;
}
