// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The other end of child_process.h: reads requests and writes answers.
#include "backends/external_tool.h"
#include "driver/injected_fault.h"
#include "driver/remote/child_process.h"
#include "driver/remote/oracle.h"
#include "driver/remote/worker.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

/// Returns the bytes read: less than n at the end of the input; -1 on failure.
static ssize_t read_whole(int fd, uint8_t *to, size_t n) {
    size_t at = 0;
    while (at < n) {
        ssize_t got = read(fd, to + at, n - at);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) return -1;
        if (got == 0) break;
        at += (size_t)got;
    }
    return (ssize_t)at;
}

static bool write_all(int fd, const uint8_t *from, size_t n) {
    while (n) {
        ssize_t put = write(fd, from, n);
        if (put < 0 && errno == EINTR) continue;
        if (put <= 0) return false;
        from += put;
        n -= (size_t)put;
    }
    return true;
}

typedef struct Service {
    Worker **worker; // created at the first request for it
    WireKind kind;
    Bytes in;
    int out;
    ServeEnd end;
} Service;

static void send_reply(Service *s, Bytes out) {
    s->end = write_all(s->out, out.data, out.n) ? SERVE_DONE : SERVE_CUT;
}

static void compile_request(Ctx *ctx, Service *s) {
    Request r;
    Answer a;
    if (!wire_read_request(ctx, s->in, &r)) return;
    if (fault_compile(&r))
        request_compile(ctx, &r, false, &a);
    else
        a = (Answer){.status = TG_ERROR_INTERNAL, .message = "an injected fault", .same = -1};
    if (a.code) ctx_defer(ctx, (void (*)(void *))code_release, a.code);
    send_reply(s, wire_write_answer(ctx, &a));
    if (a.status == TG_ERROR_MEMORY && !s->end) s->end = SERVE_MEMORY;
}

static void reply_to_request(Ctx *ctx, void *arg) {
    Service *s = arg;
    Bytes report;
    if (s->kind == WIRE_REQUEST) {
        compile_request(ctx, s);
        return;
    }
    if (s->kind == WIRE_ORACLE) {
        if (oracle_answer(ctx, s->in, &report)) send_reply(s, report);
        return;
    }
    if (!*s->worker) *s->worker = worker_create();
    if (!*s->worker) ctx_leave(ctx, CTX_NO_MEMORY);
    if (worker_answer(*s->worker, ctx, s->kind, s->in, &report)) send_reply(s, report);
}

static void send_greeting(Ctx *ctx, void *arg) {
    send_reply(arg, child_greeting(ctx));
}

/// Answers each request in its own context. Without memory the process ends, which frees all of it;
/// the other end understands the exit code.
static ServeEnd answer_in_context(Service *s, void (*what)(Ctx *ctx, void *service)) {
    Ctx *ctx = ctx_create(NULL);
    if (!ctx) return SERVE_MEMORY;
    s->end = SERVE_NONSENSE;
    CtxStatus status = ctx_protect(ctx, what, s);
    ctx_destroy(ctx);
    return status == CTX_NO_MEMORY ? SERVE_MEMORY : s->end;
}

/// Reads the body of a message and answers it.
static ServeEnd take_message(Service *s, int in) {
    s->in.data = malloc(s->in.n + 1);
    if (!s->in.data) return SERVE_MEMORY;
    bool whole = read_whole(in, s->in.data, s->in.n) == (ssize_t)s->in.n;
    ServeEnd end = whole ? answer_in_context(s, reply_to_request) : SERVE_CUT;
    free(s->in.data);
    return end;
}

/// Ends the process when the client is gone, since no work here is of use then, however long it
/// would take. Programs that it started are in its group. The alarm ends it if its files cannot be
/// removed, such as on a disk that does not answer.
static void *watch_client(void *arg) {
    struct pollfd p = {.fd = *(int *)arg};
    while (poll(&p, 1, -1) <= 0) continue;
    signal(SIGALRM, SIG_DFL);
    alarm(5);
    tool_remove_runs();
    if (getpgrp() == getpid()) kill(0, SIGKILL);
    _exit(0);
}

/// Watches only a socket. A file or a pipe may be at its end before its requests are answered.
static void watch_socket(int *fd) {
    struct stat what;
    pthread_t thread;
    if (fstat(*fd, &what) == 0 && S_ISSOCK(what.st_mode) &&
        pthread_create(&thread, NULL, watch_client, fd) == 0)
        pthread_detach(thread);
}

ServeEnd serve(int in, int out) {
    uint8_t header[WIRE_HEADER];
    static int watched;
    Worker *worker = NULL;
    Service s = {.worker = &worker, .out = out};
    watched = in;
    watch_socket(&watched);
    ServeEnd end = answer_in_context(&s, send_greeting);
    while (!end) {
        ssize_t got = read_whole(in, header, sizeof header);
        if (got == 0) break;
        if (got != sizeof header)
            end = SERVE_CUT;
        else if (!wire_read_header(header, &s.kind, &s.in.n))
            end = SERVE_NONSENSE;
        else
            end = take_message(&s, in);
    }
    worker_destroy(worker);
    return end;
}
