// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The compiler in another process (child_process.h). The process starts at first use, and again
// after it has died.
#include "driver/remote/child_process.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

enum { DEFAULT_TIMEOUT = 120 }; // seconds

static struct {
    pthread_mutex_t lock;
    ChildProcess child;
} server = {.lock = PTHREAD_MUTEX_INITIALIZER, .child = {.fd = -1}};

bool server_wanted(void) {
    const char *mode = secure_getenv("TG_COMPILE");
    return tg_fork_was_unsafe() || (mode && strcmp(mode, "process") == 0);
}

bool compiles_here(Answer *out) {
    if (!tg_fork_was_unsafe()) return true;
    *out = (Answer){.status = TG_ERROR_UNSUPPORTED,
                    .message = "this process was forked while another thread was compiling, so it "
                               "cannot compile itself, and no other process can do it for it "
                               "(TG_SERVER names the program)",
                    .same = -1};
    return false;
}

/// Returns the limit for one request, by the process's own clock.
static double request_timeout(void) {
    const char *set = secure_getenv("TG_COMPILE_TIMEOUT");
    double s = set ? strtod(set, NULL) : 0;
    return s > 0 ? s : DEFAULT_TIMEOUT;
}

typedef struct ServerExchange {
    const Request *r;
    Answer *out;
    const char *message; // the reason of a missing answer
    tg_status status;
    bool restarted;
    bool other; // the process has another compiler
} ServerExchange;

static void refuse_exchange(ServerExchange *x, tg_status status, const char *message) {
    x->status = status;
    x->message = message;
}

bool answer_is_sound(const Request *r, const Answer *a) {
    if (a->status) return true;
    const tg_variant *v = a->variant;
    for (int i = 0; i < v->n_params; i++)
        if (v->params[i] >= r->n_args) return false;
    for (int i = 0; i < 2 * v->n_inplace; i++)
        if (v->inplace[i] >= r->n_args) return false;
    for (int i = 0; i < v->n_facts; i++)
        if (v->facts[i].axis >= TG_MAX_RANK)
            return false; // a byte cannot exceed the number of params
    for (int i = 0; i < v->n_hints; i++)
        if (v->hints[i].param >= r->n_args || v->hints[i].axis >= TG_MAX_RANK) return false;
    return a->same < r->n_known;
}

/// Runs in the child of a fork: another thread of the parent may have held the lock.
static void forget_server(void) {
    pthread_mutex_init(&server.lock, NULL);
}

static void watch_server_forks(void) {
    pthread_atfork(NULL, NULL, forget_server);
}

/// Warns once a process.
static void say_other(const char *program) {
    static bool said;
    char line[512];
    snprintf(line, sizeof line,
             "warning: %s is of another build of Tegula than this library: kernels are compiled in "
             "this process (TG_SERVER names the program)",
             program);
    if (!said) tg_log(line);
    said = true;
}

/// A lack of resources in the process is not a bug of the compiler.
static void explain_end(Ctx *ctx, ServerExchange *x, int cause, int status) {
    bool cut = status != -1 && WIFEXITED(status) && WEXITSTATUS(status) == SERVE_CUT;
    const char *text =
        cause
            ? ctx_format(ctx, "the connection to the compiler's process broke: %s", strerror(cause))
            : ctx_format(ctx, "the compiler's process %s", child_end_text(ctx, status));
    tg_status kind = cause == ENOMEM || (!cause && child_end_of_memory(status)) ? TG_ERROR_MEMORY
                     : cause || cut ? TG_ERROR_UNSUPPORTED
                                    : TG_ERROR_INTERNAL;
    refuse_exchange(x, kind, text);
}

/// Sends the request and receives the answer. The limit applies to the process's work, and to each
/// message.
static Talk talk_to_server(Ctx *ctx, Bytes request, Bytes *in, double limit) {
    ChildProcess *p = &server.child;
    rt_child_clock clock;
    rt_child_clock_start(&clock, p->pid);
    Talk t = child_send(p, request, rt_seconds() + limit);
    if (!t) t = child_wait(p, &clock, limit);
    if (!t) t = child_greet(ctx, p, rt_seconds() + limit);
    if (!t) t = child_wait(p, &clock, limit);
    return t ? t : child_receive(ctx, p, WIRE_ANSWER, in, rt_seconds() + limit);
}

/// Makes one request under the lock. If the process was running before, a broken connection may be
/// older than this request. With a new process, this request has broken it.
static void exchange_request(Ctx *ctx, void *arg) {
    ServerExchange *x = arg;
    const char *program = "";
    bool running = child_runs(&server.child);
    Bytes request = wire_write_request(ctx, x->r), in = {0};
    int error = child_start(ctx, &server.child, &program);
    if (error) {
        const char *text = ctx_format(
            ctx,
            "the compiler's process cannot be started: %s: %s; set TG_SERVER to the program "
            "'tegula'",
            program, strerror(error));
        refuse_exchange(x, TG_ERROR_UNSUPPORTED, text);
        return;
    }
    double limit = request_timeout();
    Talk t = talk_to_server(ctx, request, &in, limit);
    if (!t && wire_read_answer(ctx, in, x->out) && answer_is_sound(x->r, x->out)) return;
    int cause = server.child.error, status = child_stop(&server.child, t != TALK_BROKEN || cause);
    if (t == TALK_BROKEN && running && !x->restarted) {
        // It may have died earlier for another reason: retry once with a new process.
        x->restarted = true;
        exchange_request(ctx, x);
        return;
    }
    x->other = t == TALK_OTHER;
    if (x->other) {
        say_other(program);
        return;
    }
    if (t == TALK_BROKEN)
        explain_end(ctx, x, cause, status);
    else
        refuse_exchange(
            x, TG_ERROR_INTERNAL,
            t == TALK_LATE
                ? ctx_format(ctx,
                             "the compiler's process did not answer in %g s (TG_COMPILE_TIMEOUT)",
                             limit)
                : "the compiler's process is not of this version");
}

bool server_compile(Ctx *ctx, const Request *r, Answer *out) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    ServerExchange x = {.r = r, .out = out};
    *out = (Answer){.same = -1};
    pthread_once(&once, watch_server_forks);
    pthread_mutex_lock(&server.lock);
    CtxStatus status = ctx_protect(ctx, exchange_request, &x);
    if (status != CTX_OK)
        child_stop(&server.child, true); // its late answer must not reach the next request
    pthread_mutex_unlock(&server.lock);
    if (status != CTX_OK) *out = (Answer){.status = TG_ERROR_MEMORY, .message = "out of memory"};
    if (x.status) *out = (Answer){.status = x.status, .message = x.message};
    return !x.other;
}
