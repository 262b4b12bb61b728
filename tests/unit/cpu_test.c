// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The CPU back end against the interpreter: every kernel of tests/unit/cpu/*.tir, with the
// arguments of its lines
//     // run: f32[37,64] i64=5 [-- tolerance=1e-5 check debug threads=2 fail=text]
// as code for this machine and for x86-64-v3. `cpu_test NAME` runs the files whose name holds NAME.
#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/unit/cpu_compare.h"

enum { MAX_FILES = 256 };

static char *read_text(const char *path) {
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    char *text = calloc(1, 1 << 18);
    size_t n = fread(text, 1, (1 << 18) - 1, f);
    fclose(f);
    text[n] = 0;
    return text;
}

static void read_options(char *s, CompareOptions *o) {
    const char *fail = strstr(s, "fail=");
    const char *tolerance = strstr(s, "tolerance="), *threads = strstr(s, "threads=");
    const char *spread = strstr(s, "spread=");
    if (fail) o->expect_failure = fail + 5;
    if (tolerance) o->tolerance = atof(tolerance + 10);
    if (threads) o->threads = atoi(threads + 8);
    if (spread) o->spread = atoi(spread + 7);
    o->check = strstr(s, " check") != NULL;
    o->debug = strstr(s, " debug") != NULL;
}

static void run_line(const char *text, char *line) {
    static const char *const levels[] = {NULL, "x86-64-v3", "x86-64"};
    for (size_t i = 0; i < sizeof levels / sizeof *levels; i++) {
        char *copy = strdup(line), *rest = strstr(copy, "--");
        CompareOptions o = {.level = levels[i]};
        if (rest) {
            *rest = 0;
            read_options(rest + 2, &o);
        }
        compare_kernel(text, copy, &o);
        free(copy);
    }
}

static void run_file(void **state) {
    char *text = read_text(*state), *at = text;
    int lines = 0;
    while ((at = strstr(at, "// run:"))) {
        at += strlen("// run:");
        size_t n = strcspn(at, "\n");
        char *line = strndup(at, n);
        run_line(text, line);
        free(line);
        lines++;
    }
    free(text);
    assert_true(lines > 0);
}

static int is_tir(const struct dirent *d) {
    const char *dot = strrchr(d->d_name, '.');
    return dot && strcmp(dot, ".tir") == 0;
}

int main(int argc, char **argv) {
    static struct CMUnitTest tests[MAX_FILES];
    struct dirent **found;
    int n = 0, all = scandir(TEST_DIR "/unit/cpu", &found, is_tir, alphasort);
    for (int i = 0; i < all && n < MAX_FILES; i++) {
        if (argc > 1 && !strstr(found[i]->d_name, argv[1])) continue;
        char *path = malloc(strlen(TEST_DIR) + 16 + strlen(found[i]->d_name));
        sprintf(path, "%s/unit/cpu/%s", TEST_DIR, found[i]->d_name);
        tests[n++] = (struct CMUnitTest){found[i]->d_name, run_file, NULL, NULL, path};
    }
    return _cmocka_run_group_tests("cpu", tests, (size_t)n, NULL, NULL);
}
