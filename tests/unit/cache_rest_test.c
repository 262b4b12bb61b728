// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Another process holds a store: the process waits for it once, reports it once, and works without
// it for a while. Its entries are found meanwhile, and are in the store in the end.
#include "driver/code_cache.h"
#include "driver/remote/wire.h"

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

/// Starts a process that holds the store's file for writing until it is killed.
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

/// A made-up clock, so that no test waits a minute.
static double now = 1000;

double __wrap_rt_seconds(void);
double __wrap_rt_seconds(void) {
    return now;
}

/// A message as entries have it, with the text as its body.
static void keep(const char *text) {
    Ctx *ctx = ctx_create(NULL);
    Wire w = wire_writer(ctx);
    text_add(&w.out, "%s", text);
    Bytes message = wire_finish(&w, WIRE_ANSWER);
    cache_put(&(StoreEntry){.key = store_hash(text, strlen(text)),
                            .kind = STORE_CODE,
                            .about = text,
                            .value = message.data,
                            .bytes = message.n});
    ctx_destroy(ctx);
}

static bool finds(const char *text) {
    Ctx *ctx = ctx_create(NULL);
    Bytes body = {0};
    bool found = cache_get(ctx, store_hash(text, strlen(text)), STORE_CODE, WIRE_ANSWER, &body) &&
                 body.n == strlen(text) && memcmp(body.data, text, body.n) == 0;
    ctx_destroy(ctx);
    return found;
}

static char folder[64];

/// A process that works while another one holds a store of its own. It has no store open before,
/// and ends as programs do.
typedef struct Case {
    void (*body)(pid_t holder);
    char folder[64];
    pid_t holder, child;
} Case;

static void start_case(Case *c) {
    char path[512];
    strcpy(c->folder, "/tmp/tegula-rest-XXXXXX");
    assert_non_null(mkdtemp(c->folder));
    Store *s = open_in(c->folder);
    snprintf(path, sizeof path, "%s", store_path(s));
    store_close(s);
    strcpy(folder, c->folder);
    setenv("TG_CACHE", folder, 1);
    c->holder = hold(path);
    c->child = fork();
    assert_true(c->child >= 0);
    if (c->child) return;
    code_cache_warn_by(hear);
    c->body(c->holder);
    exit(0);
}

/// Returns the number of entries in the store when the process has ended.
static int end_case(Case *c) {
    int status;
    char command[100];
    assert_int_equal(waitpid(c->child, &status, 0), c->child);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    assert_int_equal(waitpid(c->holder, NULL, 0), c->holder);
    int entries = entries_in(c->folder);
    snprintf(command, sizeof command, "rm -r %s", c->folder);
    assert_int_equal(system(command), 0);
    return entries;
}

#define MUST(condition)                                                                            \
    do {                                                                                           \
        if (condition) break;                                                                      \
        fprintf(stderr, "line %d: %s\n", __LINE__, #condition);                                    \
        _exit(1);                                                                                  \
    } while (0)

/// The holder of the store is a sibling, so it can be ended but not waited for.
static void end_holder(pid_t holder) {
    kill(holder, SIGKILL);
    Store *s = open_in(folder);
    StoreEntry e = {.key = store_hash("x", 1), .kind = STORE_CODE, .about = "x", .value = ""};
    while (store_put(s, &e) == STORE_BUSY) continue;
    store_close(s);
}

static void rests_a_minute(pid_t holder) {
    keep("waits in vain");
    end_holder(holder);
    now += 59;
    keep("does not wait");
    keep("does not wait"); // once more: there is one entry of it
    MUST(entries_in(folder) == 1);
    MUST(finds("waits in vain") && finds("does not wait") && !finds("other"));
    now += 2;
    MUST(!finds("other"));
    MUST(entries_in(folder) == 3);
    MUST(finds("waits in vain") && finds("does not wait"));
    MUST(warnings == 1 && strstr(warning, "other processes hold the store"));
}

/// A child that a fork makes writes nothing at its end; its parent does.
static void ends_early(pid_t holder) {
    int status;
    keep("first");
    end_holder(holder);
    pid_t child = fork();
    if (child == 0) exit(0);
    MUST(waitpid(child, &status, 0) == child && status == 0);
    MUST(entries_in(folder) == 1);
    keep("second");
}

/// Both at once, since each waits 5 s for the store.
static void entries_wait_for_the_store(void **state) {
    (void)state;
    Case rests = {.body = rests_a_minute}, ends = {.body = ends_early};
    start_case(&rests);
    start_case(&ends);
    assert_int_equal(end_case(&rests), 3);
    assert_int_equal(end_case(&ends), 3);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(entries_wait_for_the_store)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
