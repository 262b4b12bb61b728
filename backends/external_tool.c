// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// External programs: finds and runs them.
#include "backends/external_tool.h"

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

/* ---- finding tools ------------------------------------------------------------------------- */

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
    return tool_in_folders(secure_getenv("PATH"), name, tool_take, out);
}

bool tool_glob(const char *pattern, ToolVisit *visit, void *arg) {
    glob_t found;
    bool done = false;
    if (glob(pattern, 0, NULL, &found) != 0) return false;
    for (size_t i = found.gl_pathc; i-- > 0 && !done;) done = visit(found.gl_pathv[i], arg);
    globfree(&found);
    return done;
}

/* ---- libraries ----------------------------------------------------------------------------- */

static _Thread_local bool is_short; // of files or memory, in this thread's search

/// Whether a message of dlerror names a lack that may pass. The loader sets no errno.
static bool names_lack(const char *why) {
    static const int errors[] = {EMFILE, ENFILE, ENOMEM, EACCES, EIO};
    bool found = !why;
    for (size_t i = 0; i < sizeof errors / sizeof *errors && !found; i++)
        found = strstr(why, strerror(errors[i]));
    return found;
}

void *tool_open_library(const char *path, int flags) {
    void *library = dlopen(path, flags);
    if (!library) is_short |= names_lack(dlerror());
    return library;
}

void tool_search_library(ToolLibrary *l, bool (*find)(void)) {
    if (atomic_load_explicit(&l->searched, memory_order_acquire)) return;
    lock_take(&l->lock);
    if (!atomic_load(&l->searched)) {
        is_short = false;
        bool found = find();
        atomic_store_explicit(&l->searched, found || !is_short, memory_order_release);
    }
    lock_give(&l->lock);
}

/* ---- running tools ------------------------------------------------------------------------- */

/// Returns a whole file, with a NUL byte at the end; NULL if it cannot be read.
static char *read_tool_file(const char *path, size_t *bytes) {
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

/// Returns false on any failure, including a full disk.
static bool write_tool_file(const char *path, const char *data, size_t bytes) {
    FILE *f = fopen(path, "wb");
    if (!f) return false;
    bool good = fwrite(data, 1, bytes, f) == bytes;
    return fclose(f) == 0 && good;
}

/// Notes in words how the program ended. Returns whether it reports success.
static bool note_tool_end(int status, ToolOutput *out) {
    size_t n = sizeof out->end;
    if (WIFSIGNALED(status))
        snprintf(out->end, n, "ended by signal %d, %s", WTERMSIG(status),
                 strsignal(WTERMSIG(status)));
    else
        snprintf(out->end, n, "exit status %d", WEXITSTATUS(status));
    out->refused = WIFEXITED(status) && WEXITSTATUS(status) != 0;
    out->succeeded = WIFEXITED(status) && WEXITSTATUS(status) == 0;
    return out->succeeded;
}

/// Returns the environment, with glibc set to request large pages for a heap that grows by 16 MiB
/// (pages are used only when written). This saves half of ptxas's waits for the system: 3 of 12 ms
/// of its start, 5 % of a product. Linkers are unaffected. A setting of the caller wins. NULL: out
/// of memory.
static char **make_tool_environment(void) {
    static const char name[] = "GLIBC_TUNABLES=";
    static char large_pages[] =
        "GLIBC_TUNABLES=glibc.malloc.hugetlb=1:glibc.malloc.top_pad=16777216";
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

/// The folder's name has the number of this process. A lock on it lasts as long as the process: in
/// another container a process of the same number may use the same folder of temporary files.
struct ToolRun {
    ToolRun *next; // list of this process's runs
    pid_t owner;   // the process that started it; a forked child has a copy of the list
    char folder[TOOL_PATH / 2]; // "": not created
    int lock;                   // the folder, open; -1: not locked
    pid_t child;                // 0: not started
    char end[TOOL_END];         // the reason
};

static int open_folder(int at, const char *path) {
    return openat(at, path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

static struct {
    Lock lock;
    ToolRun *first;
} runs = {.lock = LOCK_INIT};

/// Makes the run's folder and locks it. Under the list's lock, so each folder is in the list.
static bool make_folder(ToolRun *run, const char *in) {
    run->owner = getpid();
    snprintf(run->folder, sizeof run->folder, "%s/tegula-%ld-XXXXXX", in, (long)run->owner);
    lock_take(&runs.lock);
    bool made = mkdtemp(run->folder);
    run->next = runs.first;
    if (made) runs.first = run;
    lock_give(&runs.lock);
    if (!made) return false;
    run->lock = open_folder(AT_FDCWD, run->folder);
    if (run->lock >= 0) flock(run->lock, LOCK_EX | LOCK_NB);
    return true;
}

static void delist_run(const ToolRun *run) {
    lock_take(&runs.lock);
    ToolRun **at = &runs.first;
    while (*at && *at != run) at = &(*at)->next;
    if (*at) *at = run->next;
    lock_give(&runs.lock);
}

/// Starts the program with both outputs in the file `log`.
static void spawn_tool(ToolRun *run, const char *program, const char *const *arguments,
                       const char *log) {
    posix_spawn_file_actions_t actions;
    pid_t child;
    char **environment = make_tool_environment();
    int failed = posix_spawn_file_actions_init(&actions);
    if (!failed) {
        failed =
            posix_spawn_file_actions_addopen(&actions, 1, log, O_WRONLY | O_CREAT | O_TRUNC, 0600);
        if (!failed) failed = posix_spawn_file_actions_adddup2(&actions, 1, 2);
        if (!failed)
            failed = posix_spawn(&child, program, &actions, NULL, (char *const *)arguments,
                                 environment ? environment : environ);
        posix_spawn_file_actions_destroy(&actions);
    }
    free(environment);
    if (failed)
        snprintf(run->end, sizeof run->end, "not started: %s", strerror(failed));
    else
        run->child = child;
}

const char tool_in[] = "in", tool_out[] = "out";

/// Notes why a file or folder cannot be made.
static void note_errno(char end[TOOL_END], const char *path) {
    const char *why = strerror(errno);
    snprintf(end, TOOL_END, "%.60s: %.60s", path, why);
}

static void path_in(const ToolRun *run, const char *name, char path[TOOL_PATH]) {
    snprintf(path, TOOL_PATH, "%s/%s", run->folder, name);
}

static void start_in(ToolRun *run, const char *program, const char *const *arguments,
                     const char *bytes, size_t size) {
    enum { MOST = 32 };
    char in[TOOL_PATH], made[TOOL_PATH], log[TOOL_PATH];
    const char *all[MOST];
    int n = 0;
    path_in(run, tool_in, in);
    path_in(run, tool_out, made);
    path_in(run, "log", log);
    for (; arguments[n] && n < MOST - 1; n++)
        all[n] = arguments[n] == tool_in ? in : arguments[n] == tool_out ? made : arguments[n];
    all[n] = NULL;
    if (write_tool_file(in, bytes, size))
        spawn_tool(run, program, all, log);
    else
        note_errno(run->end, in);
}

bool tool_folder_serves(const char *folder, char why[TOOL_END]) {
    struct stat s;
    if (stat(folder, &s) != 0 || access(folder, W_OK | X_OK) != 0) {
        note_errno(why, folder);
        return false;
    }
    if (!(s.st_mode & S_IWOTH) || s.st_mode & S_ISVTX) return true;
    snprintf(why, TOOL_END, "%.60s: others may replace files there (no sticky bit)", folder);
    return false;
}

static const char *temporary_folder(void) {
    const char *set = secure_getenv("TMPDIR");
    return set ? set : "/tmp";
}

ToolRun *tool_start(const char *program, const char *const *arguments, const char *bytes,
                    size_t n) {
    ToolRun *run = calloc(1, sizeof *run);
    if (!run) return NULL;
    run->lock = -1;
    const char *folder = temporary_folder();
    if (!tool_folder_serves(folder, run->end)) {
        run->folder[0] = 0;
    } else if (make_folder(run, folder)) {
        start_in(run, program, arguments, bytes, n);
    } else {
        note_errno(run->end, run->folder);
        run->folder[0] = 0;
    }
    return run;
}

/// Whether the program succeeded, as far as is known. If the process ignores the ends of its
/// children (SIGCHLD), or reaps them itself, only the end is known. out->end tells how it ended.
static bool wait_for_end(const ToolRun *run, ToolOutput *out) {
    pid_t pid;
    int status;
    do pid = waitpid(run->child, &status, 0);
    while (pid < 0 && errno == EINTR);
    if (pid == run->child) return note_tool_end(status, out);
    snprintf(out->end, sizeof out->end, "ended, but how was lost: %.60s", strerror(errno));
    return true;
}

static const char *const file_names[] = {tool_in, tool_out, "log"};

/// Removes the run's folder with its contents.
static void remove_run(const ToolRun *run) {
    char path[TOOL_PATH];
    for (int i = 0; i < 3; i++) {
        path_in(run, file_names[i], path);
        unlink(path);
    }
    rmdir(run->folder);
}

void tool_remove_runs(void) {
    lock_take(&runs.lock);
    for (const ToolRun *run = runs.first; run; run = run->next)
        if (run->owner == getpid()) remove_run(run);
    lock_give(&runs.lock);
}

static void release_tool_run(ToolRun *run) {
    delist_run(run);
    if (run->folder[0]) remove_run(run);
    if (run->lock >= 0) close(run->lock);
    free(run);
}

/// Removes a folder of a run, unless it is another user's, or in use. In a folder that all may
/// write to, another user may have made one of this name, or a link.
static void remove_folder(int at, const char *name) {
    struct stat s;
    int folder = open_folder(at, name);
    if (folder < 0) return;
    bool free_now = flock(folder, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK;
    if (free_now && fstat(folder, &s) == 0 && s.st_uid == geteuid()) {
        for (int i = 0; i < 3; i++) unlinkat(folder, file_names[i], 0);
        unlinkat(at, name, AT_REMOVEDIR);
    }
    close(folder);
}

void tool_sweep(pid_t ended) {
    char prefix[40];
    DIR *d = opendir(temporary_folder());
    size_t n = (size_t)snprintf(prefix, sizeof prefix, "tegula-%ld-", (long)ended);
    if (!d) return;
    for (struct dirent *e; (e = readdir(d));)
        if (strncmp(e->d_name, prefix, n) == 0) remove_folder(dirfd(d), e->d_name);
    closedir(d);
}

bool tool_finish(ToolRun *run, ToolOutput *out) {
    char path[TOOL_PATH];
    size_t log_bytes;
    *out = (ToolOutput){0};
    if (!run) {
        errno = ENOMEM;
        note_errno(out->end, "not started");
        return false;
    }
    memcpy(out->end, run->end, sizeof out->end);
    bool good = run->child && wait_for_end(run, out);
    if (run->child) {
        path_in(run, "log", path);
        out->log = read_tool_file(path, &log_bytes);
    }
    path_in(run, tool_out, path);
    if (good) out->data = read_tool_file(path, &out->bytes);
    if (good && !out->data && strncmp(out->end, "exit", 4) == 0)
        note_errno(out->end, "success, but its file");
    else if (good && !out->data)
        out->refused = errno == ENOENT; // how it ended was lost
    release_tool_run(run);
    return out->data != NULL;
}

void tool_drop(ToolRun *run) {
    if (!run) return;
    ToolOutput out;
    if (run->child && waitpid(run->child, NULL, WNOHANG) == 0) { // still a child: its number is not
                                                                 // reused
        kill(run->child, SIGKILL);
        wait_for_end(run, &out);
    }
    release_tool_run(run);
}

bool tool_run(const char *program, const char *const *arguments, const char *bytes, size_t n,
              ToolOutput *out) {
    return tool_finish(tool_start(program, arguments, bytes, n), out);
}

void tool_output_free(ToolOutput *out) {
    free(out->data);
    free(out->log);
    *out = (ToolOutput){0};
}
