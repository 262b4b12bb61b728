// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// See child_process.h. The connection is a pair of sockets, because writing to a broken pipe would
// raise SIGPIPE in the host program.
#include "driver/remote/child_process.h"

#include "backends/external_tool.h"
#include "driver/remote/wire.h"
#include "runtime/base/process.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- forks --------------------------------------------------------------------------------- */

// The child of a fork closes all connections; otherwise a process would not end with its owner. It
// initialises the lock, which another thread of the parent may have held.
static struct {
    pthread_mutex_t lock;
    ChildProcess *first;
} running = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void forget_peers(void) {
    pthread_mutex_init(&running.lock, NULL);
    for (ChildProcess *p = running.first, *next; p; p = next) {
        next = p->next;
        close(p->fd);
        *p = (ChildProcess){.fd = -1};
    }
    running.first = NULL;
}

static void watch_peer_forks(void) {
    pthread_atfork(NULL, NULL, forget_peers);
}

static void enlist_peer(ChildProcess *p) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, watch_peer_forks);
    pthread_mutex_lock(&running.lock);
    p->next = running.first;
    running.first = p;
    pthread_mutex_unlock(&running.lock);
}

static void delist_peer(ChildProcess *p) {
    pthread_mutex_lock(&running.lock);
    ChildProcess **at = &running.first;
    while (*at && *at != p) at = &(*at)->next;
    if (*at) *at = p->next;
    pthread_mutex_unlock(&running.lock);
}

/* ---- starting ------------------------------------------------------------------------------ */

/// Returns the program's path, or its plain name for a search in PATH.
static const char *find_program(Ctx *ctx) {
    static const char *const places[] = {"tegula", "bin/tegula", "../bin/tegula",
                                         "../../bin/tegula"};
    const char *set = secure_getenv("TG_SERVER");
    if (set && *set) return set;
    Dl_info info;
    static const char here;
    const char *slash =
        dladdr(&here, &info) && info.dli_fname ? strrchr(info.dli_fname, '/') : NULL;
    for (size_t i = 0; slash && i < sizeof places / sizeof *places; i++) {
        const char *path =
            ctx_format(ctx, "%.*s/%s", (int)(slash - info.dli_fname), info.dli_fname, places[i]);
        if (access(path, X_OK) == 0) return path;
    }
    return "tegula";
}

/// The program itself closes files that it inherits from the host program.
static int spawn_program(const char *program, int fd, pid_t *pid) {
    extern char **environ;
    char name[] = "tegula", option[] = "--serve", *argv[] = {name, option, NULL};
    const int files[] = {fd, fd, -1};
    return rt_start_program(program, argv, environ, files, 3, pid);
}

bool child_runs(const ChildProcess *p) {
    return p->pid > 0 && p->owner == getpid();
}

/// Waits for the process, and ends the programs that it started, such as an assembler that hangs.
/// They are in its process group. Until the process has been waited for, no other process has its
/// number. If the host program ignores SIGCHLD, or has waited for the process itself, the number is
/// free, but no new process gets it while the group has a member.
static int wait_for_end(pid_t pid) {
    siginfo_t end;
    int status = -1, failed;
    pid_t got;
    do failed = waitid(P_PID, (id_t)pid, &end, WEXITED | WNOWAIT);
    while (failed && errno == EINTR);
    kill(-pid, SIGKILL);
    tool_sweep(pid);
    do got = waitpid(pid, &status, 0);
    while (got < 0 && errno == EINTR);
    return got == pid ? status : -1; // the host program may have waited for the child itself
}

int child_stop(ChildProcess *p, bool kill_it) {
    int status = -1;
    if (p->fd >= 0) {
        delist_peer(p);
        close(p->fd);
    }
    if (child_runs(p)) {
        if (kill_it) kill(-p->pid, SIGKILL);
        status = wait_for_end(p->pid);
    }
    *p = (ChildProcess){.fd = -1};
    return status;
}

int child_start(Ctx *ctx, ChildProcess *p, const char **program) {
    int pair[2];
    if (child_runs(p)) return 0;
    if (p->fd >= 0) child_stop(p, false);
    *program = find_program(ctx);
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0) return errno;
    int error = spawn_program(*program, pair[1], &p->pid);
    close(pair[1]);
    // If the host program has closed its standard output, the socket must not take its descriptor
    // number: prints would go into the connection.
    int high = fcntl(pair[0], F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
    if (high >= 0) close(pair[0]);
    p->fd = high >= 0 ? high : pair[0];
    p->owner = getpid();
    enlist_peer(p);
    if (error) {
        p->pid = 0;
        child_stop(p, false);
    }
    return error;
}

/* ---- talking ------------------------------------------------------------------------------- */

static const double LOOK = 0.05; // seconds between two looks at a process's clock

/// Returns TALK_BROKEN after a failed call. p->error is set unless the other end closed the
/// connection.
static Talk talk_broken(ChildProcess *p) {
    if (errno != EPIPE && errno != ECONNRESET) p->error = errno;
    return TALK_BROKEN;
}

/// Waits until the socket is ready for `events`.
static Talk wait_for_socket(ChildProcess *p, short events, double end) {
    for (;;) {
        double left = end - rt_seconds();
        if (left <= 0) return TALK_LATE;
        struct pollfd at = {.fd = p->fd, .events = events};
        int n = poll(&at, 1, left > 3600 ? 3600000 : (int)(left * 1e3) + 1);
        if (n > 0) return TALK_OK;
        if (n < 0 && errno != EINTR) return talk_broken(p);
    }
}

/// The wall-clock limit of a process. Its own clock stands still while it waits for a disk, and a
/// disk of a lost server never answers.
static double longest_wait(double limit) {
    enum { TIMES = 20, LEAST = 600 }; // LEAST in seconds
    return fmax(TIMES * limit, LEAST);
}

Talk child_wait(ChildProcess *p, rt_child_clock *clock, double limit) {
    double end = rt_seconds() + longest_wait(limit);
    for (;;) {
        Talk t = wait_for_socket(p, POLLIN, rt_seconds() + LOOK);
        if (t != TALK_LATE) return t;
        if (rt_child_clock_read(clock) >= limit || rt_seconds() >= end) return TALK_LATE;
    }
}

/// Uses calls that never block, since a process that hangs does not read either.
static Talk send_until(ChildProcess *p, const uint8_t *from, size_t n, double end) {
    while (n) {
        Talk t = wait_for_socket(p, POLLOUT, end);
        if (t) return t;
        ssize_t put = send(p->fd, from, n, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (put < 0 && (errno == EINTR || errno == EAGAIN)) continue;
        if (put <= 0) return talk_broken(p);
        from += put;
        n -= (size_t)put;
    }
    return TALK_OK;
}

static Talk receive_until(ChildProcess *p, uint8_t *to, size_t n, double end) {
    while (n) {
        Talk t = wait_for_socket(p, POLLIN, end);
        if (t) return t;
        ssize_t got = recv(p->fd, to, n, MSG_DONTWAIT);
        if (got < 0 && (errno == EINTR || errno == EAGAIN)) continue;
        if (got < 0) return talk_broken(p);
        if (got == 0) return TALK_BROKEN;
        to += got;
        n -= (size_t)got;
    }
    return TALK_OK;
}

Talk child_send(ChildProcess *p, Bytes message, double end) {
    return send_until(p, message.data, message.n, end);
}

Bytes child_greeting(Ctx *ctx) {
    Wire w = wire_writer(ctx);
    backend_build(&w.out);
    return wire_finish(&w, WIRE_GREETING);
}

Talk child_greet(Ctx *ctx, ChildProcess *p, double end) {
    enum { MAGIC = 3 };
    Bytes own = child_greeting(ctx);
    uint8_t *got = ctx_alloc(ctx, own.n);
    if (p->greeted) return TALK_OK;
    Talk t = receive_until(p, got, WIRE_HEADER, end);
    if (t) return t;
    if (memcmp(got, own.data, MAGIC) != 0) return TALK_FOREIGN;
    if (memcmp(got, own.data, WIRE_HEADER) != 0) return TALK_OTHER;
    t = receive_until(p, got + WIRE_HEADER, own.n - WIRE_HEADER, end);
    if (t) return t;
    p->greeted = memcmp(got, own.data, own.n) == 0;
    return p->greeted ? TALK_OK : TALK_OTHER;
}

Talk child_receive(Ctx *ctx, ChildProcess *p, WireKind kind, Bytes *body, double end) {
    uint8_t header[WIRE_HEADER];
    WireKind got;
    Talk t = child_greet(ctx, p, end);
    if (!t) t = receive_until(p, header, sizeof header, end);
    if (t) return t;
    if (!wire_read_header(header, &got, &body->n) || got != kind) return TALK_FOREIGN;
    body->data = ctx_alloc(ctx, body->n + 1);
    return receive_until(p, body->data, body->n, end);
}

bool child_end_of_memory(int status) {
    return status != -1 && WIFEXITED(status) && WEXITSTATUS(status) == SERVE_MEMORY;
}

const char *child_end_text(Ctx *ctx, int status) {
    if (child_end_of_memory(status)) return "ran out of memory";
    if (status != -1 && WIFEXITED(status) && WEXITSTATUS(status) == SERVE_CUT)
        return "lost its connection";
    if (status != -1 && WIFSIGNALED(status))
        return ctx_format(ctx, "was ended by signal %d (%s)", WTERMSIG(status),
                          strsignal(WTERMSIG(status)));
    if (status != -1 && WIFEXITED(status))
        return ctx_format(ctx, "ended with exit code %d", WEXITSTATUS(status));
    return "ended";
}
