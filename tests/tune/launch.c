// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// launch FILE: launches the file's softmax once, as a user's program would. The library's messages
// go to standard output.
#include "tegula.h"

#include <stdio.h>

enum { ROWS = 48, ROW = 100 };

static void say(void *user, const char *line) {
    (void)user;
    puts(line);
}

static int fail(void) {
    fprintf(stderr, "%s\n", tg_last_error());
    return 1;
}

int main(int argc, char **argv) {
    static _Alignas(64) float x[ROWS * ROW], y[ROWS * ROW];
    const int64_t shape[2] = {ROWS, ROW};
    DLTensor in = tg_dense(x, kDLFloat, 32, 2, shape), out = tg_dense(y, kDLFloat, 32, 2, shape);
    tg_options options = {.size = sizeof options, .log = say};
    tg_context *context;
    tg_module *module;
    tg_kernel *softmax;
    if (argc != 2 || tg_context_create(&options, &context)) return fail();
    tg_context_use(context);
    if (tg_module_from_file(argv[1], NULL, &module)) return fail();
    if (tg_module_kernel(module, NULL, &softmax)) return fail();
    if (tg_launch(softmax, (tg_arg[]){tg_tensor(&in), tg_tensor(&out)}, 2)) return fail();
    tg_module_destroy(module);
    tg_context_use(NULL);
    tg_context_destroy(context);
    return y[0] > 0.00999F && y[0] < 0.01001F ? 0 : 1;
}
