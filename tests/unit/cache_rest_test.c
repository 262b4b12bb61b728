// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Another process holds a store and never releases it: the process waits for it once, reports it
// once, and works without it for a while.
#include "driver/code_cache.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>
#include <sqlite3.h>

static int warnings;
static char warning[512];

static void hear(const char *line) {
    warnings++;
    snprintf(warning, sizeof warning, "%s", line);
}

static Store *open_in(const char *folder) {
    char why[STORE_WHY] = "";
    Store *s = store_open(folder, 0, why);
    if (!s) fail_msg("%s", why);
    return s;
}

static int entries_in(const char *folder) {
    StoreSize size;
    Store *s = open_in(folder);
    assert_int_equal(store_size(s, &size), STORE_OK);
    store_close(s);
    return (int)size.entries;
}

/// A process that holds the store's file for writing until it is ended.
static pid_t hold(const char *path) {
    int ready[2];
    char byte = 0;
    sqlite3 *db;
    assert_int_equal(pipe(ready), 0);
    pid_t child = fork();
    if (child == 0) {
        int code = sqlite3_open(path, &db);
        if (!code) code = sqlite3_exec(db, "BEGIN IMMEDIATE", NULL, NULL, NULL);
        if (!code && write(ready[1], &byte, 1) == 1) pause();
        _exit(1);
    }
    close(ready[1]);
    assert_int_equal(read(ready[0], &byte, 1), 1);
    close(ready[0]);
    return child;
}

static void keep(const char *text) {
    StoreEntry e = {.key = store_hash(text, strlen(text)),
                    .kind = STORE_CODE,
                    .about = text,
                    .value = text,
                    .bytes = strlen(text)};
    cache_put(&e);
}

static void rests(void **state) {
    char folder[] = "/tmp/tegula-rest-XXXXXX", path[512], command[600];
    (void)state;
    assert_non_null(mkdtemp(folder));
    Store *s = open_in(folder);
    snprintf(path, sizeof path, "%s", store_path(s));
    store_close(s);
    pid_t holder = hold(path);
    setenv("TG_CACHE", folder, 1);
    code_cache_warn_by(hear);
    keep("waits in vain");
    kill(holder, SIGKILL);
    waitpid(holder, NULL, 0);
    keep("does not wait");
    assert_int_equal(warnings, 1);
    assert_non_null(strstr(warning, "other processes hold it"));
    assert_int_equal(entries_in(folder), 0);
    snprintf(command, sizeof command, "rm -r %s", folder);
    assert_int_equal(system(command), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(rests)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
