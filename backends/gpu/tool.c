// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Programs of others: where they are, and how they run.
#include "backends/gpu/tool.h"

#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

/* ---- where they are ------------------------------------------------------------------------ */

bool tool_take(const char *path, void *out) {
    if (access(path, X_OK) != 0 || strlen(path) >= TOOL_PATH) return false;
    memcpy(out, path, strlen(path) + 1);
    return true;
}

bool tool_in_folders(const char *folders, const char *name, ToolVisit *visit, void *arg) {
    for (const char *s = folders; s && *s; s += strspn(s, ":")) {
        char path[TOOL_PATH];
        int len = (int)strcspn(s, ":");
        int n = snprintf(path, sizeof path, "%.*s/%s", len, s, name);
        if (n < (int)sizeof path && visit(path, arg)) return true;
        s += len;
    }
    return false;
}

bool tool_in_path(const char *name, char *out) {
    return tool_in_folders(getenv("PATH"), name, tool_take, out);
}

bool tool_glob(const char *pattern, ToolVisit *visit, void *arg) {
    glob_t found;
    bool done = false;
    if (glob(pattern, 0, NULL, &found) != 0) return false;
    for (size_t i = found.gl_pathc; i-- > 0 && !done;) done = visit(found.gl_pathv[i], arg);
    globfree(&found);
    return done;
}

/* ---- how they run -------------------------------------------------------------------------- */

/// All of a file, with a NUL byte behind; NULL where it cannot be read.
static char *read_file(const char *path, size_t *bytes) {
    FILE *f = fopen(path, "rb");
    if (!f) return NULL;
    long n = fseek(f, 0, SEEK_END) == 0 ? ftell(f) : -1;
    char *data = n < 0 ? NULL : malloc((size_t)n + 1);
    rewind(f);
    if (data && fread(data, 1, (size_t)n, f) != (size_t)n) {
        free(data);
        data = NULL;
    }
    fclose(f);
    if (!data) return NULL;
    data[n] = 0;
    *bytes = (size_t)n;
    return data;
}

/// False where the disk is full, too.
static bool write_file(const char *path, const char *data, size_t bytes) {
    FILE *f = fopen(path, "wb");
    if (!f) return false;
    bool good = fwrite(data, 1, bytes, f) == bytes;
    return fclose(f) == 0 && good;
}

/// Notes how the program ended, in words. Whether it says that all is well.
static bool ended(int status, ToolOutput *out) {
    size_t n = sizeof out->end;
    if (WIFSIGNALED(status))
        snprintf(out->end, n, "ended by signal %d, %s", WTERMSIG(status),
                 strsignal(WTERMSIG(status)));
    else
        snprintf(out->end, n, "exit status %d", WEXITSTATUS(status));
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

/// The environment, with glibc told to ask for large pages: a third of what ptxas waits for the
/// system goes with them, 7 % of its time, and linkers mind nothing. The caller's own wish stands.
/// NULL: no memory.
static char **make_environment(void) {
    static const char name[] = "GLIBC_TUNABLES=";
    static char large_pages[] = "GLIBC_TUNABLES=glibc.malloc.hugetlb=1";
    char **now = environ;
    bool said = false;
    size_t n = 0;
    for (; now && now[n]; n++) said |= strncmp(now[n], name, sizeof name - 1) == 0;
    char **all = calloc(n + 2, sizeof *all);
    if (!all) return NULL;
    if (n) memcpy(all, now, n * sizeof *all);
    if (!said) all[n] = large_pages;
    return all;
}

/// With both outputs in the file `log`; true where it says that all is well.
static bool spawn(const char *program, const char *const *arguments, const char *log,
                  ToolOutput *out) {
    posix_spawn_file_actions_t actions;
    pid_t child;
    int status = -1;
    char **environment = make_environment();
    int failed = posix_spawn_file_actions_init(&actions);
    if (!failed) {
        posix_spawn_file_actions_addopen(&actions, 1, log, O_WRONLY | O_CREAT | O_TRUNC, 0600);
        posix_spawn_file_actions_adddup2(&actions, 1, 2);
        failed = posix_spawn(&child, program, &actions, NULL, (char *const *)arguments,
                             environment ? environment : environ);
        posix_spawn_file_actions_destroy(&actions);
    }
    free(environment);
    if (failed) {
        snprintf(out->end, sizeof out->end, "not started: %s", strerror(failed));
        return false;
    }
    while (waitpid(child, &status, 0) < 0) continue;
    return ended(status, out);
}

const char tool_in[] = "in", tool_out[] = "out";

/// Why a file or a folder cannot be made.
static void note_errno(ToolOutput *out, const char *path) {
    const char *why = strerror(errno);
    snprintf(out->end, sizeof out->end, "%.60s: %.60s", path, why);
}

/// In a folder, which is empty again afterwards.
static void run_in(const char *folder, const char *program, const char *const *arguments,
                   const char *bytes, size_t size, ToolOutput *out) {
    enum { MOST = 32 };
    char in[TOOL_PATH], made[TOOL_PATH], log[TOOL_PATH];
    const char *all[MOST];
    int n = 0;
    snprintf(in, sizeof in, "%s/in", folder);
    snprintf(made, sizeof made, "%s/out", folder);
    snprintf(log, sizeof log, "%s/log", folder);
    for (; arguments[n] && n < MOST - 1; n++)
        all[n] = arguments[n] == tool_in ? in : arguments[n] == tool_out ? made : arguments[n];
    all[n] = NULL;
    size_t log_bytes;
    bool written = write_file(in, bytes, size);
    bool good = written && spawn(program, all, log, out);
    if (!written) note_errno(out, in);
    out->log = read_file(log, &log_bytes);
    if (good) out->data = read_file(made, &out->bytes);
    if (good && !out->data) note_errno(out, "success, but its file");
    unlink(in);
    unlink(made);
    unlink(log);
}

bool tool_run(const char *program, const char *const *arguments, const char *bytes, size_t n,
              ToolOutput *out) {
    char folder[TOOL_PATH / 2];
    const char *temporary = getenv("TMPDIR");
    *out = (ToolOutput){0};
    snprintf(folder, sizeof folder, "%s/tegula-XXXXXX", temporary ? temporary : "/tmp");
    if (!mkdtemp(folder)) return note_errno(out, folder), false;
    run_in(folder, program, arguments, bytes, n, out);
    rmdir(folder);
    return out->data != NULL;
}
