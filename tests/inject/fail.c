// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "tests/inject/fail.h"

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <netdb.h>
#include <poll.h>
#include <pthread.h>
#include <pwd.h>
#include <signal.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include <sqlite3.h>

const char *const kind_names[KINDS] = {
    [MEMORY] = "memory", [MAP] = "map",       [OPEN] = "open",     [READ] = "read",
    [WRITE] = "write",   [SYNC] = "sync",     [SIZE] = "size",     [NAME] = "name",
    [LOOK] = "look",     [LOCK] = "lock",     [WAIT] = "wait",     [PROCESS] = "process",
    [THREAD] = "thread", [SOCKET] = "socket", [SQLITE] = "sqlite", [LIBRARY] = "library",
    [TOOL] = "tool"};
const char *const way_names[WAYS] = {
    [ONCE] = "once", [FROM_ON] = "on", [SHORT] = "short", [ABORT] = "abort",
    [KILL] = "kill", [CUT] = "cut",    [EXIT] = "exit",   [HANG] = "hang"};
const char *const function_names[FUNCTIONS] = {
#define CALL(kind, name, ...)   [CALLS_##name] = #name,
#define MOVE(kind, name, ...)   [CALLS_##name] = #name,
#define STREAM(kind, name, ...) [CALLS_##name] = #name,
#include "tests/inject/calls.def"
#undef CALL
#undef MOVE
#undef STREAM
#define LINKED(name, ...) [CALLS_##name] = #name,
#define LOADED(name, ...) [CALLS_##name] = #name,
#include "tests/inject/libraries.def"
#undef LINKED
#undef LOADED
    [CALLS_open] = "open",
    [CALLS_fcntl] = "fcntl",
    [CALLS_posix_spawn] = "posix_spawn",
    [CALLS_tool] = "tool",
    [CALLS_fsync] = "fsync",
    [CALLS_fdatasync] = "fdatasync",
    [CALLS_sqlite3_malloc] = "sqlite3_malloc",
    [CALLS_sqlite3_realloc] = "sqlite3_realloc"};

static Plan *plan;
static Place own_place;

/* ---- the system's own ------------------------------------------------------------------------ */

#define CALL(kind, name, type, params, args, refused)                                              \
    type __real_##name params;                                                                     \
    type __wrap_##name params;
#define MOVE(kind, name, params, args) CALL(kind, name, ssize_t, params, args, -1)
#define STREAM(kind, name, type, params, args, refused)                                            \
    CALL(kind, name, type, params, args, refused)
#include "tests/inject/calls.def"
#undef CALL
#undef MOVE
#undef STREAM
int __real_open(const char *path, int flags, ...);
int __wrap_open(const char *path, int flags, ...);
int __real_fcntl(int fd, int command, ...);
int __wrap_fcntl(int fd, int command, ...);

pid_t real_fork(void) {
    return __real_fork();
}

pid_t real_waitpid(pid_t pid, int *status, int flags) {
    return __real_waitpid(pid, status, flags);
}

void end_child(pid_t child, int ms) {
    bool hangs = atomic_load(&plan->armed) && plan->fault.way == HANG && plan_happened();
    if (hangs) ms = 0;
    for (; ms > 0 && __real_waitpid(child, NULL, WNOHANG) == 0; ms -= 5) usleep(5000);
    if (kill(child, SIGKILL) == 0) __real_waitpid(child, NULL, 0);
}

/* ---- the plan -------------------------------------------------------------------------------- */

Plan *plan_open(const char *path, bool make, Place place) {
    int fd = __real_open(path, O_RDWR | O_CLOEXEC | (make ? O_CREAT : 0), 0600);
    if (fd < 0 || (make && __real_ftruncate(fd, sizeof *plan) != 0)) return NULL;
    void *p = __real_mmap(NULL, sizeof *plan, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    own_place = place;
    plan = p == MAP_FAILED ? NULL : p;
    if (plan && make) plan->owner = getpid();
    return plan;
}

void plan_at(Place place) {
    own_place = place;
}

void plan_begin(const Fault *fault) {
    plan->fault = fault ? *fault : (Fault){.n = 0};
    for (int i = 0; i < PLACES * KINDS; i++) atomic_store(&plan->calls[i / KINDS][i % KINDS], 0);
    for (int i = 0; i < PLACES * FUNCTIONS; i++)
        atomic_store(&plan->by_function[i / FUNCTIONS][i % FUNCTIONS], 0);
    atomic_store(&plan->failed, 0);
    atomic_store(&plan->armed, true);
}

void plan_end(void) {
    atomic_store(&plan->armed, false);
}

bool plan_happened(void) {
    return atomic_load(&plan->failed) > 0;
}

bool plan_awaits(Way way) {
    const Fault *f = &plan->fault;
    return atomic_load(&plan->armed) && f->n && f->way == way && !plan_happened();
}

bool plan_refused(Kind kind) {
    return plan->fault.kind == kind && plan_happened();
}

/* ---- one call -------------------------------------------------------------------------------- */

/// Counts a call of a kind. Returns whether it is the one to fail, with errno set by the fault.
static bool is_hit(Kind kind, Function function) {
    if (!plan || !atomic_load(&plan->armed)) return false;
    long n = atomic_fetch_add(&plan->calls[own_place][kind], 1) + 1;
    atomic_fetch_add(&plan->by_function[own_place][function], 1);
    const Fault *f = &plan->fault;
    if (!f->n || f->kind != kind || f->place != own_place) return false;
    if (f->way == FROM_ON ? n < f->n : n != f->n) return false;
    atomic_fetch_add(&plan->failed, 1);
    errno = f->error;
    return true;
}

static void stop_here(void) {
    switch (plan->fault.way) {
    case ABORT: signal(SIGABRT, SIG_DFL), abort();
    case CUT:
    case KILL: raise(SIGKILL); break;
    case EXIT: _exit(0);
    case HANG:
        while (kill(plan->owner, 0) == 0) usleep(20000);
        _exit(0);
    default: break;
    }
}

static bool is_refused(Kind kind, Function function) {
    if (!is_hit(kind, function)) return false;
    stop_here();
    return plan->fault.way != SHORT;
}

bool plan_refuses(Kind kind, Function function) {
    return is_refused(kind, function);
}

void plan_pass(Kind kind, Function function) {
    if (is_hit(kind, function)) stop_here();
}

bool plan_hits(Kind kind, Function function, Way *way) {
    bool hit = is_hit(kind, function);
    if (hit) *way = plan->fault.way;
    return hit;
}

/// Moves half of the `n` bytes before the process ends or the call fails.
static bool is_move_refused(Kind kind, Function function, size_t *n) {
    if (!is_hit(kind, function)) return false;
    Way way = plan->fault.way;
    if (way == SHORT || way == CUT)
        *n = (*n + 1) / 2;
    else
        stop_here();
    return way != SHORT && way != CUT;
}

static void end_move(size_t asked, size_t n) {
    if (n != asked && plan->fault.way == CUT) stop_here();
}

#define CALL(kind, name, type, params, args, refused)                                              \
    type __wrap_##name params {                                                                    \
        if (is_refused(kind, CALLS_##name)) return refused;                                        \
        return __real_##name args;                                                                 \
    }
#define MOVE(kind, name, params, args)                                                             \
    ssize_t __wrap_##name params {                                                                 \
        size_t asked = n;                                                                          \
        if (is_move_refused(kind, CALLS_##name, &n)) return -1;                                    \
        ssize_t moved = __real_##name args;                                                        \
        end_move(asked, n);                                                                        \
        return moved;                                                                              \
    }
/// The stream's own file fails, so that ferror reports it, too.
#define STREAM(kind, name, type, params, args, refused)                                            \
    type __wrap_##name params {                                                                    \
        if (!is_refused(kind, CALLS_##name)) return __real_##name args;                            \
        spoil(f, kind, #name);                                                                     \
        return refused;                                                                            \
    }

/// Makes the file behind the stream fail, for one operation of this kind.
static void spoil(FILE *f, Kind kind, const char *name) {
    char byte;
    int error = errno, fd = fileno(f), kept = __real_fcntl(fd, F_DUPFD_CLOEXEC, 3);
    int none = kind == READ ? __real_open("/dev/null", O_WRONLY | O_CLOEXEC)
                            : __real_open("/dev/full", O_WRONLY | O_CLOEXEC);
    bool closes = strcmp(name, "fclose") == 0;
    dup2(none, fd);
    if (kind == READ) {
        fseek(f, 0, SEEK_CUR); // drops buffered input
        if (__real_fread(&byte, 1, 1, f)) clearerr(f);
    } else if (!closes) {
        fputc(0, f);
        __real_fflush(f);
    }
    if (closes)
        __real_fclose(f), close(kept);
    else
        dup2(kept, fd), close(kept);
    close(none);
    errno = error;
}

#include "tests/inject/calls.def"

int __wrap_open(const char *path, int flags, ...) {
    va_list ap;
    va_start(ap, flags);
    mode_t mode = flags & O_CREAT ? va_arg(ap, mode_t) : 0;
    va_end(ap);
    return is_refused(OPEN, CALLS_open) ? -1 : __real_open(path, flags, mode);
}

/// Copies a descriptor, or takes a lock.
int __wrap_fcntl(int fd, int command, ...) {
    va_list ap;
    va_start(ap, command);
    void *arg = va_arg(ap, void *);
    va_end(ap);
    bool copies = command == F_DUPFD || command == F_DUPFD_CLOEXEC;
    return is_refused(copies ? OPEN : LOCK, CALLS_fcntl) ? -1 : __real_fcntl(fd, command, arg);
}

/* ---- SQLite ---------------------------------------------------------------------------------- */

/// SQLite is a library with tables of functions that callers may replace.
static sqlite3_mem_methods memory;

static void *sqlite_malloc(int n) {
    return is_refused(SQLITE, CALLS_sqlite3_malloc) ? NULL : memory.xMalloc(n);
}

static void *sqlite_realloc(void *p, int n) {
    return is_refused(SQLITE, CALLS_sqlite3_realloc) ? NULL : memory.xRealloc(p, n);
}

static int sqlite_open(const char *path, int flags, int mode) {
    return is_refused(OPEN, CALLS_open) ? -1 : __real_open(path, flags, mode);
}

static ssize_t sqlite_pread(int fd, void *p, size_t n, off_t at) {
    return is_move_refused(READ, CALLS_read, &n) ? -1 : pread(fd, p, n, at);
}

static ssize_t sqlite_pwrite(int fd, const void *p, size_t n, off_t at) {
    size_t asked = n;
    if (is_move_refused(WRITE, CALLS_pwrite, &n)) return -1;
    ssize_t moved = __real_pwrite(fd, p, n, at);
    end_move(asked, n);
    return moved;
}

static int sqlite_unlink(const char *path) {
    return is_refused(NAME, CALLS_unlink) ? -1 : __real_unlink(path);
}

static int (*sleep_fully)(sqlite3_vfs *vfs, int microseconds);

/// After a fault nobody else holds the store, so a long wait for it only costs time.
static int sqlite_sleep(sqlite3_vfs *vfs, int microseconds) {
    sleep_fully(vfs, plan_happened() ? microseconds / 20 : microseconds);
    return microseconds;
}

#define SET(name, to) vfs->xSetSystemCall(vfs, name, (sqlite3_syscall_ptr)(to))

void wrap_sqlite(void) {
    sqlite3_config(SQLITE_CONFIG_GETMALLOC, &memory);
    sqlite3_mem_methods mine = memory;
    mine.xMalloc = sqlite_malloc;
    mine.xRealloc = sqlite_realloc;
    sqlite3_config(SQLITE_CONFIG_MALLOC, &mine);
    sqlite3_vfs *vfs = sqlite3_vfs_find(NULL);
    sleep_fully = vfs->xSleep;
    vfs->xSleep = sqlite_sleep;
    SET("open", sqlite_open);
    SET("read", __wrap_read);
    SET("pread", sqlite_pread);
    SET("pread64", sqlite_pread);
    SET("write", __wrap_write);
    SET("pwrite", sqlite_pwrite);
    SET("pwrite64", sqlite_pwrite);
    SET("ftruncate", __wrap_ftruncate);
    SET("fcntl", __wrap_fcntl);
    SET("unlink", sqlite_unlink);
    SET("mmap", __wrap_mmap);
    SET("stat", __wrap_stat);
    SET("fstat", __wrap_fstat);
    SET("lstat", __wrap_lstat);
}

/// For this process only: libraries find this definition before the C library's.
__attribute__((visibility("default"))) int fdatasync(int fd) {
    return is_refused(SYNC, CALLS_fdatasync) ? -1 : (int)syscall(SYS_fdatasync, fd);
}

__attribute__((visibility("default"))) int fsync(int fd) {
    return is_refused(SYNC, CALLS_fsync) ? -1 : (int)syscall(SYS_fsync, fd);
}
