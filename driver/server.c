// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The compiler in another process: `tegula --serve`, started when it is first needed and again when
// it has died. Whatever happens to it, the caller gets a status.
//
// The other process is found by TG_SERVER, beside this library, or in PATH. Both ends talk over a
// pair of sockets, since writing to a broken pipe would raise SIGPIPE in the host program.
#include "driver/jit.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { DEFAULT_TIMEOUT = 120 }; // seconds

typedef struct Server {
    pthread_mutex_t lock;
    pid_t owner; // the process that started it: a forked child starts its own
    pid_t pid;   // 0: none
    int fd;
} Server;

static Server server = {.lock = PTHREAD_MUTEX_INITIALIZER, .fd = -1};

bool server_wanted(void) {
    const char *mode = getenv("TG_COMPILE");
    return mode && strcmp(mode, "process") == 0;
}

/* ---- starting ------------------------------------------------------------------------------ */

/// The path of the program, or its plain name, for PATH.
static const char *find_program(Ctx *ctx) {
    static const char *const places[] = {"tegula", "bin/tegula", "../bin/tegula",
                                         "../../bin/tegula"};
    const char *set = getenv("TG_SERVER");
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

/// Signals as at the start of a program, standard error nowhere, no file of the host program.
static int spawn_program(const char *program, int fd, pid_t *pid) {
    extern char **environ;
    char name[] = "tegula", option[] = "--serve", *argv[] = {name, option, NULL};
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attr;
    sigset_t none, all;
    sigemptyset(&none);
    sigfillset(&all);
    int error = posix_spawn_file_actions_init(&actions);
    if (error) return error;
    error = posix_spawnattr_init(&attr);
    if (!error) {
        posix_spawn_file_actions_adddup2(&actions, fd, STDIN_FILENO);
        posix_spawn_file_actions_adddup2(&actions, fd, STDOUT_FILENO);
        posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", 1, 0);
#if defined(__GLIBC__) && __GLIBC_PREREQ(2, 34)
        posix_spawn_file_actions_addclosefrom_np(&actions, STDERR_FILENO + 1);
#endif
        posix_spawnattr_setsigmask(&attr, &none);
        posix_spawnattr_setsigdefault(&attr, &all);
        posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
        error = posix_spawnp(pid, program, &actions, &attr, argv, environ);
        posix_spawnattr_destroy(&attr);
    }
    posix_spawn_file_actions_destroy(&actions);
    return error;
}

/// Closes the connection and waits for the process, which ends by that or is made to. What ended it
/// is the status of waitpid, or -1 where it is not known.
static int stop(bool kill_it) {
    int status = -1;
    if (server.fd >= 0) close(server.fd);
    if (server.pid > 0 && server.owner == getpid()) {
        if (kill_it) kill(server.pid, SIGKILL);
        pid_t got;
        do got = waitpid(server.pid, &status, 0);
        while (got < 0 && errno == EINTR);
        if (got != server.pid) status = -1; // the host program waits for all its children itself
    }
    server.fd = -1;
    server.pid = 0;
    return status;
}

/// Starts the program unless it runs. 0 or an errno; the program that was tried is in *program.
static int start(Ctx *ctx, const char **program) {
    int pair[2];
    if (server.pid > 0 && server.owner != getpid()) stop(false);
    if (server.pid > 0) return 0;
    *program = find_program(ctx);
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0) return errno;
    int error = spawn_program(*program, pair[1], &server.pid);
    close(pair[1]);
    // Where the host program has closed its standard output, what it prints must not go here.
    int high = fcntl(pair[0], F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
    if (high >= 0) close(pair[0]);
    server.fd = high >= 0 ? high : pair[0];
    server.owner = getpid();
    if (error) {
        server.pid = 0;
        stop(false);
    }
    return error;
}

/* ---- talking ------------------------------------------------------------------------------- */

static double seconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/// For one request, sending and receiving included.
static double timeout(void) {
    const char *set = getenv("TG_COMPILE_TIMEOUT");
    double s = set ? strtod(set, NULL) : 0;
    return s > 0 ? s : DEFAULT_TIMEOUT;
}

typedef enum Talk { TALK_OK, TALK_BROKEN, TALK_LATE, TALK_FOREIGN } Talk;

/// Waits until the socket can do what `events` says.
static Talk wait_for(short events, double end) {
    for (;;) {
        double left = end - seconds();
        if (left <= 0) return TALK_LATE;
        struct pollfd p = {.fd = server.fd, .events = events};
        int n = poll(&p, 1, left > 3600 ? 3600000 : (int)(left * 1e3) + 1);
        if (n > 0) return TALK_OK;
        if (n < 0 && errno != EINTR) return TALK_BROKEN;
    }
}

/// Never blocks in the call itself: a process that hangs does not read, either.
static Talk send_all(const uint8_t *from, size_t n, double end) {
    while (n) {
        Talk t = wait_for(POLLOUT, end);
        if (t) return t;
        ssize_t put = send(server.fd, from, n, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (put < 0 && (errno == EINTR || errno == EAGAIN)) continue;
        if (put <= 0) return TALK_BROKEN;
        from += put;
        n -= (size_t)put;
    }
    return TALK_OK;
}

static Talk receive_all(uint8_t *to, size_t n, double end) {
    while (n) {
        Talk t = wait_for(POLLIN, end);
        if (t) return t;
        ssize_t got = recv(server.fd, to, n, MSG_DONTWAIT);
        if (got < 0 && (errno == EINTR || errno == EAGAIN)) continue;
        if (got <= 0) return TALK_BROKEN;
        to += got;
        n -= (size_t)got;
    }
    return TALK_OK;
}

typedef struct Exchange {
    const Request *r;
    Answer *out;
    const char *message; // why there is no answer
    tg_status status;
    bool restarted;
} Exchange;

static void refuse(Exchange *x, tg_status status, const char *message) {
    x->status = status;
    x->message = message;
}

/// What became of the process, as waitpid tells it.
static const char *end_text(Ctx *ctx, int status) {
    if (status != -1 && WIFSIGNALED(status))
        return ctx_format(ctx, "the compiler's process was ended by signal %d (%s)",
                          WTERMSIG(status), strsignal(WTERMSIG(status)));
    if (status != -1 && WIFEXITED(status))
        return ctx_format(ctx, "the compiler's process ended with exit code %d",
                          WEXITSTATUS(status));
    return "the compiler's process ended";
}

bool answer_is_sound(const Request *r, const Answer *a) {
    if (a->status) return true;
    const tg_variant *v = a->variant;
    for (int i = 0; i < v->n_params; i++)
        if (v->params[i] >= r->n_args) return false;
    for (int i = 0; i < 2 * v->n_inplace; i++)
        if (v->inplace[i] >= r->n_args) return false;
    for (int i = 0; i < v->n_facts; i++)
        if (v->facts[i].param >= TG_MAX_PARAMS || v->facts[i].axis >= TG_MAX_RANK) return false;
    for (int i = 0; i < v->n_hints; i++)
        if (v->hints[i].param >= r->n_args || v->hints[i].axis >= TG_MAX_RANK) return false;
    return a->same < r->n_known;
}

/// In the child of a fork: another thread of the parent may have had the lock.
static void forget(void) {
    if (server.fd >= 0) close(server.fd);
    server = (Server){.lock = PTHREAD_MUTEX_INITIALIZER, .fd = -1};
}

static void watch_forks(void) {
    pthread_atfork(NULL, NULL, forget);
}

/// Writes a request, reads the body of its answer into the arena.
static Talk exchange_bytes(Ctx *ctx, Bytes request, Bytes *in, double end) {
    uint8_t header[WIRE_HEADER];
    Talk t = send_all(request.data, request.n, end);
    if (!t) t = receive_all(header, sizeof header, end);
    if (t) return t;
    if (!wire_read_header(header, &in->n)) return TALK_FOREIGN;
    in->data = ctx_alloc(ctx, in->n + 1);
    return receive_all(in->data, in->n, end);
}

/// One request under the lock. With a process that had been running, a broken connection may be of
/// the time before this request; with a new one it is this request's doing.
static void exchange(Ctx *ctx, void *arg) {
    Exchange *x = arg;
    const char *program = "";
    bool running = server.pid > 0 && server.owner == getpid();
    Bytes request = wire_write_request(ctx, x->r), in = {0};
    int error = start(ctx, &program);
    if (error) {
        const char *text = ctx_format(
            ctx,
            "the compiler's process cannot be started: %s: %s; set TG_SERVER to the program "
            "'tegula'",
            program, strerror(error));
        refuse(x, TG_ERROR_UNSUPPORTED, text);
        return;
    }
    double limit = timeout();
    Talk t = exchange_bytes(ctx, request, &in, seconds() + limit);
    if (!t && wire_read_answer(ctx, in, x->out) && answer_is_sound(x->r, x->out)) return;
    int status = stop(t != TALK_BROKEN);
    if (t == TALK_BROKEN && running && !x->restarted) {
        // It may have died of something else since the last request: once more, on a new one.
        x->restarted = true;
        exchange(ctx, x);
        return;
    }
    const char *late = ctx_format(
        ctx, "the compiler's process did not answer in %g s (TG_COMPILE_TIMEOUT)", limit);
    refuse(x, TG_ERROR_INTERNAL,
           t == TALK_LATE     ? late
           : t == TALK_BROKEN ? end_text(ctx, status)
                              : "the compiler's process is not of this version");
}

void server_compile(Ctx *ctx, const Request *r, Answer *out) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    Exchange x = {.r = r, .out = out};
    *out = (Answer){.same = -1};
    pthread_once(&once, watch_forks);
    pthread_mutex_lock(&server.lock);
    CtxStatus status = ctx_protect(ctx, exchange, &x);
    if (status != CTX_OK) stop(true); // what it still says belongs to no request
    pthread_mutex_unlock(&server.lock);
    if (status != CTX_OK) *out = (Answer){.status = TG_ERROR_MEMORY, .message = "out of memory"};
    if (x.status) *out = (Answer){.status = x.status, .message = x.message};
}
