// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The other end of peer.h: requests in, answers out.
#include "driver/jit.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

/// False at the end of the input.
static bool read_all(int fd, uint8_t *to, size_t n) {
    while (n) {
        ssize_t got = read(fd, to, n);
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) return false;
        to += got;
        n -= (size_t)got;
    }
    return true;
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
    Bytes in;
    int out;
    bool ok;
} Service;

static void reply(Ctx *ctx, void *arg) {
    Service *s = arg;
    Request r;
    Answer a;
    if (!wire_read_request(ctx, s->in, &r)) return;
    request_compile(ctx, &r, false, &a);
    if (a.code) ctx_defer(ctx, (void (*)(void *))code_release, a.code);
    Bytes out = wire_write_answer(ctx, &a);
    s->ok = write_all(s->out, out.data, out.n) && a.status != TG_ERROR_MEMORY;
}

/// Each request in a context of its own. Out of memory: the process ends and gives back what it
/// has, which the other end understands.
static bool answer(int out, Bytes in) {
    Ctx *ctx = ctx_create(NULL);
    if (!ctx) return false;
    Service s = {in, out, false};
    ctx_protect(ctx, reply, &s);
    ctx_destroy(ctx);
    return s.ok;
}

/// Whoever waits for an answer is gone: nothing that still goes on here is of use, however long it
/// would take.
static void *watch(void *arg) {
    struct pollfd p = {.fd = *(int *)arg};
    while (poll(&p, 1, -1) <= 0) continue;
    _exit(0);
}

/// Of a pair of sockets. A file or a pipe may be at its end before its requests are answered.
static void watch_socket(int *fd) {
    struct stat what;
    pthread_t thread;
    if (fstat(*fd, &what) == 0 && S_ISSOCK(what.st_mode) &&
        pthread_create(&thread, NULL, watch, fd) == 0)
        pthread_detach(thread);
}

bool serve(int in, int out) {
    uint8_t header[WIRE_HEADER];
    static int watched;
    bool ok = true;
    watched = in;
    watch_socket(&watched);
    while (ok && read_all(in, header, sizeof header)) {
        Bytes body = {0};
        WireKind kind;
        if (!wire_read_header(header, &kind, &body.n)) return false;
        body.data = malloc(body.n + 1);
        ok = body.data && read_all(in, body.data, body.n) && kind == WIRE_REQUEST &&
             answer(out, body);
        free(body.data);
    }
    return ok;
}
