// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// `tegula lsp` of a build without Jansson says how to get it.
#include "tools/tegula/cli.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static char said[1024];

static void add_line(const char *fmt, va_list ap) {
    size_t n = strlen(said);
    vsnprintf(said + n, sizeof said - n, fmt, ap);
}

static void say_error(const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    add_line(fmt, ap);
    va_end(ap);
}

#define cmd_lsp   cmd_lsp_absent
#define cli_error say_error
#define cli_hint  say_error
int cmd_lsp_absent(Ctx *ctx, const Options *o);
#include "tools/tegula/lsp_absent.c"

static void says_how_to_get_it(void **state) {
    (void)state;
    assert_int_equal(cmd_lsp_absent(NULL, NULL), EXIT_USER);
    assert_non_null(strstr(said, "built without the library jansson"));
    assert_non_null(
        strstr(said, "install libjansson-dev, and build again: see docs/use/editors.md"));
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(says_how_to_get_it)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
