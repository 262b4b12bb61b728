// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The identity of machine code beside its module: another linker changes it; tools that take no
// part do not.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "backends/backend.h"
#include "lang/base.h"

enum { PATH = 200 };

static char folder[] = "/tmp/tegula-identity-XXXXXX";

/// Makes a program of a given size in the folder. It is never run.
static const char *put(const char *name, int bytes) {
    static char path[PATH];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    for (int i = 0; i < bytes; i++) putc('#', f);
    assert_int_equal(fclose(f), 0);
    assert_int_equal(chmod(path, 0700), 0);
    return path;
}

static const char *identity(Ctx *ctx, const char *machine) {
    CodeOptions options = {.machine = machine};
    Text t = {.ctx = ctx};
    if (!backend_identity(&t, &options)) skip(); // this program has no build id
    text_bytes(&t, "", 1);
    return t.data;
}

static void check_tool(const char *variable, const char *name) {
    Ctx *ctx = ctx_create(NULL);
    assert_int_equal(setenv(variable, put(name, 10), 1), 0);
    const char *first = identity(ctx, "gfx942"), *other = identity(ctx, "sm_90a");
    assert_non_null(strstr(first, name));
    assert_null(strstr(other, name));
    assert_string_equal(first, identity(ctx, "gfx942"));

    put(name, 20); // an update
    assert_string_not_equal(first, identity(ctx, "gfx942"));
    assert_string_equal(other, identity(ctx, "sm_90a"));

    assert_int_equal(setenv(variable, "", 1), 0); // disables the tool
    assert_null(strstr(identity(ctx, "gfx942"), name));
    unsetenv(variable);
    unlink(put(name, 0));
    ctx_destroy(ctx);
}

static void comgr_counts(void **state) {
    (void)state;
    check_tool("TG_COMGR", "libamd_comgr.so.3");
}

static void lld_counts(void **state) {
    (void)state;
    check_tool("TG_LLD", "ld.lld");
}

/// Without a variable, tools are found in the loader's folders in order, before any other folder.
static void folders_count(void **state) {
    (void)state;
    Ctx *ctx = ctx_create(NULL);
    char list[2 * PATH];
    snprintf(list, sizeof list, "/nowhere:%s", folder);
    unsetenv("ROCM_PATH");
    setenv("LD_LIBRARY_PATH", list, 1);
    setenv("PATH", folder, 1);
    const char *none = identity(ctx, "gfx942");
    put("libamd_comgr.so.2", 10);
    const char *second = identity(ctx, "gfx942");
    put("libamd_comgr.so.3", 10);
    const char *third = identity(ctx, "gfx942");
    assert_null(strstr(none, folder));
    assert_non_null(strstr(second, "so.2"));
    assert_non_null(strstr(third, "so.3"));
    assert_string_not_equal(second, third);

    put("ld.lld", 10);
    assert_non_null(strstr(identity(ctx, "gfx942"), "ld.lld"));
    unlink(put("libamd_comgr.so.2", 0));
    unlink(put("libamd_comgr.so.3", 0));
    unlink(put("ld.lld", 0));
    ctx_destroy(ctx);
}

static int make_folder(void **state) {
    (void)state;
    return mkdtemp(folder) ? 0 : -1;
}

static int remove_folder(void **state) {
    (void)state;
    return rmdir(folder);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(comgr_counts),
        cmocka_unit_test(lld_counts),
        cmocka_unit_test(folders_count),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
