// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// External programs that process bytes, with /bin/sh as the program: their output, their messages,
// their exit, and that no files or processes remain.
#include "backends/external_tool.h"

#include <dirent.h>
#include <dlfcn.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

static const char sh[] = "/bin/sh";
static char folder[] = "/tmp/tegula-tool-XXXXXX";

/// A script with the input file as $0 and the output file as $1.
#define SCRIPT(text) ((const char *const[]){"sh", "-c", text, tool_in, tool_out, NULL})

static int open_folder(void **state) {
    (void)state;
    return !mkdtemp(folder) || setenv("TMPDIR", folder, 1);
}

static int close_folder(void **state) {
    (void)state;
    return rmdir(folder);
}

/// Counts the files of running tools.
static int files(void) {
    int n = 0;
    DIR *dir = opendir(folder);
    for (struct dirent *e; (e = readdir(dir));) n += e->d_name[0] != '.';
    closedir(dir);
    return n;
}

static void expect(bool good, ToolOutput *out, const char *data, const char *log, const char *end) {
    assert_int_equal(good, data != NULL);
    if (data) assert_int_equal(out->bytes, strlen(data));
    if (data) assert_string_equal(out->data, data);
    if (log) assert_string_equal(out->log, log);
    assert_non_null(strstr(out->end, end));
    assert_int_equal(files(), 0);
    free(out->data);
    free(out->log);
}

static void expect_run(const char *const *script, const char *data, const char *log,
                       const char *end) {
    ToolOutput out;
    bool good = tool_run(sh, script, "bytes", 5, &out);
    expect(good, &out, data, log, end);
}

static void ways_to_end(void **state) {
    ToolOutput out;
    (void)state;
    expect_run(SCRIPT("tr b B <$0 >$1; echo one; echo two >&2"), "Bytes", "one\ntwo\n", "status 0");
    expect_run(SCRIPT("echo no >&2; echo half >$1; exit 3"), NULL, "no\n", "status 3");
    expect_run(SCRIPT("kill -KILL $$"), NULL, "", "signal 9");
    expect_run(SCRIPT("true"), NULL, "", "success, but its file");
    const char *const *ends[] = {SCRIPT("exit 3"), SCRIPT("kill -KILL $$"), SCRIPT("true")};
    for (int i = 0; i < 3; i++) {
        tool_run(sh, ends[i], "bytes", 5, &out);
        assert_int_equal(out.refused, i == 0);
        free(out.log);
    }
    bool good = tool_run("/nowhere/sh", SCRIPT("true"), "bytes", 5, &out);
    expect(good, &out, NULL, NULL, "not started");
}

static void no_folder(void **state) {
    ToolOutput out;
    (void)state;
    setenv("TMPDIR", "/nowhere", 1);
    bool good = tool_run(sh, SCRIPT("cp $0 $1"), "bytes", 5, &out);
    setenv("TMPDIR", folder, 1);
    expect(good, &out, NULL, NULL, "/nowhere");
    good = tool_finish(NULL, &out);
    expect(good, &out, NULL, NULL, "memory");
}

/// In a folder that is not sticky, others could replace the files of a run.
static void folder_of_all(void **state) {
    ToolOutput out;
    char open[64];
    (void)state;
    snprintf(open, sizeof open, "%s/.open", folder);
    assert_int_equal(mkdir(open, 0700), 0);
    setenv("TMPDIR", open, 1);
    expect_run(SCRIPT("cp $0 $1"), "bytes", "", "status 0");
    for (int sticky = 0; sticky < 2; sticky++) {
        assert_int_equal(chmod(open, sticky ? 01777 : 0777), 0);
        bool good = tool_run(sh, SCRIPT("cp $0 $1"), "bytes", 5, &out);
        expect(good, &out, sticky ? "bytes" : NULL, sticky ? "" : NULL,
               sticky ? "status 0" : "others may replace files there");
    }
    setenv("TMPDIR", folder, 1);
    assert_int_equal(rmdir(open), 0);
}

/// Two tools each wait for the other's output, so they must run at the same time as this process.
static void beside_each_other(void **state) {
    ToolRun *runs[2];
    ToolOutput out;
    char script[2][256];
    (void)state;
    for (int i = 0; i < 2; i++) {
        snprintf(script[i], sizeof script[i],
                 "touch %s/.%d; until test -e %s/.%d -a -e %s/.us; do sleep 0.01; done; cp $0 $1",
                 folder, i, folder, !i, folder);
        runs[i] = tool_start(sh, SCRIPT(script[i]), i ? "one" : "zero", i ? 3 : 4);
    }
    assert_int_equal(files(), 2);
    char us[64];
    snprintf(us, sizeof us, "%s/.us", folder);
    fclose(fopen(us, "w"));
    assert_true(tool_finish(runs[0], &out));
    assert_string_equal(out.data, "zero");
    free(out.data);
    free(out.log);
    bool good = tool_finish(runs[1], &out);
    expect(good, &out, "one", "", "status 0");
    for (const char *name = "01"; *name; name++) {
        snprintf(us, sizeof us, "%s/.%c", folder, *name);
        unlink(us);
    }
    snprintf(us, sizeof us, "%s/.us", folder);
    unlink(us);
}

static void dropped(void **state) {
    time_t start = time(NULL);
    (void)state;
    ToolRun *run = tool_start(sh, SCRIPT("exec sleep 100"), "bytes", 5);
    assert_int_equal(files(), 1);
    tool_drop(run);
    assert_int_equal(files(), 0);
    assert_true(time(NULL) - start < 50);
    tool_drop(NULL);
}

/// A host program that ignores its children.
static void children_ignored(void **state) {
    (void)state;
    signal(SIGCHLD, SIG_IGN);
    expect_run(SCRIPT("cp $0 $1"), "bytes", "", "lost");
    expect_run(SCRIPT("echo no; exit 3"), NULL, "no\n", "lost");
    tool_drop(tool_start(sh, SCRIPT("exec sleep 100"), "bytes", 5));
    assert_int_equal(files(), 0);
    signal(SIGCHLD, SIG_DFL);
}

/// A process that ends in the middle of a run leaves its files, until another one sweeps.
static void swept(void **state) {
    siginfo_t end;
    (void)state;
    pid_t pid = fork();
    if (pid == 0) {
        setpgid(0, 0);
        tool_start(sh, SCRIPT("exec sleep 100"), "bytes", 5);
        _exit(0);
    }
    assert_int_equal(waitid(P_PID, (id_t)pid, &end, WEXITED | WNOWAIT), 0);
    assert_int_equal(files(), 1);
    kill(-pid, SIGKILL);
    tool_sweep(pid);
    assert_int_equal(files(), 0);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
}

/// A process in another container may have the same number. The files of its runs must stay.
static void in_use(void **state) {
    (void)state;
    ToolRun *run = tool_start(sh, SCRIPT("exec sleep 100"), "bytes", 5);
    pid_t parent = getpid(), pid = fork();
    if (pid == 0) {
        tool_sweep(parent);
        tool_remove_runs(); // they are the parent's
        _exit(0);
    }
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    assert_int_equal(files(), 1);
    tool_sweep(parent); // its own number: that of the other one, too
    assert_int_equal(files(), 1);
    tool_remove_runs(); // before it ends
    assert_int_equal(files(), 0);
    tool_drop(run);
    tool_remove_runs(); // there are none
}

/// A link that another user may have made, in a folder that all may write to.
static void link_is_kept(void **state) {
    char link[64], target[] = "/tmp/tegula-kept-XXXXXX", file[64];
    (void)state;
    assert_non_null(mkdtemp(target));
    snprintf(file, sizeof file, "%s/in", target);
    fclose(fopen(file, "w"));
    snprintf(link, sizeof link, "%s/tegula-%ld-link", folder, (long)getpid());
    assert_int_equal(symlink(target, link), 0);
    tool_sweep(getpid());
    assert_int_equal(unlink(file), 0);
    assert_int_equal(unlink(link), 0);
    rmdir(target);
}

static int searches;

/// There is a library of this name, which nothing has loaded.
static bool find_library(void) {
    searches++;
    void *library = tool_open_library("libresolv.so.2", RTLD_LAZY | RTLD_LOCAL);
    if (library) dlclose(library);
    return library;
}

static bool find_nothing(void) {
    searches++;
    return tool_open_library("libnowhere.so.7", RTLD_LAZY) != NULL;
}

/// A search that lacked files is repeated; one that ended is not.
static void short_of_files(void **state) {
    ToolLibrary library = {.lock = LOCK_INIT}, nothing = {.lock = LOCK_INIT};
    struct rlimit usual, none;
    (void)state;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &usual), 0);
    none = (struct rlimit){3, usual.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
    tool_search_library(&library, find_library);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &usual), 0);
    for (int i = 0; i < 3; i++) tool_search_library(&library, find_library);
    assert_int_equal(searches, 2);
    for (int i = 0; i < 3; i++) tool_search_library(&nothing, find_nothing);
    assert_int_equal(searches, 3);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ways_to_end),   cmocka_unit_test(no_folder),
        cmocka_unit_test(folder_of_all), cmocka_unit_test(beside_each_other),
        cmocka_unit_test(dropped),       cmocka_unit_test(children_ignored),
        cmocka_unit_test(swept),         cmocka_unit_test(in_use),
        cmocka_unit_test(link_is_kept),  cmocka_unit_test(short_of_files),
    };
    return cmocka_run_group_tests(tests, open_folder, close_folder);
}
