// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Code on disk behind the C API: an unusable folder causes one line in the log and nothing else.
#include "support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static const char source[] = "kernel twice(x: f32[N], y: f32[N]) {\n"
                             "    parallel n in N by 64 { y[n] = 2 * x[n]; }\n"
                             "}\n";

static int warnings;
static char last[512];

static void count(void *user, const char *line) {
    (void)user;
    if (!strstr(line, "not kept on disk")) return;
    warnings++;
    snprintf(last, sizeof last, "%s", line);
}

static void launch(const char *text) {
    float x[100] = {3}, y[100];
    int64_t n = 100;
    View vx, vy;
    tg_module *m = module_of(text);
    view(&vx, &types[1], x, 1, &n, NULL);
    view(&vy, &types[1], y, 1, &n, NULL);
    OK(tg_launch(kernel_of(m, NULL), (tg_arg[]){tg_tensor(&vx.t), tg_tensor(&vy.t)}, 2));
    assert_true(y[0] == 6);
    tg_module_destroy(m);
}

static void warns_once(void **state) {
    (void)state;
    tg_options options = {.size = sizeof options, .log = count};
    tg_context *context;
    OK(tg_context_create(&options, &context));
    tg_context *before = tg_context_use(context);
    setenv("TG_CACHE", "/proc/1/tegula", 1);
    launch(source);
    launch(source);
    assert_int_equal(warnings, 1);
    assert_non_null(strstr(last, "/proc/1/tegula"));
    tg_context_use(before);
    tg_context_destroy(context);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(warns_once)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
