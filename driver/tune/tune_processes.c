// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// See tune_processes.h.
#include "driver/tune/tune_processes.h"

#include <errno.h>
#include <math.h>
#include <poll.h>
#include <string.h>

enum { MESSAGE_SECONDS = 5 };   // seconds to transfer one message after its first byte
static const double LOOK = 0.1; // maximum seconds between two readings of the processes' clocks

static void stop_crew(void *processes) {
    processes_stop(processes);
}

SearchProcesses *processes_create(Ctx *ctx, int helpers, int workers) {
    SearchProcesses *c = ctx_new(ctx, SearchProcesses);
    *c = (SearchProcesses){.ctx = ctx,
                           .n = helpers < PROCESSES_MAX ? helpers : PROCESSES_MAX,
                           .ranks = workers < RT_COMM_RANKS ? workers : RT_COMM_RANKS};
    for (int i = 0; i < c->n; i++) c->helpers[i].child.fd = -1;
    for (int i = 0; i < c->ranks; i++) c->workers[i].child.fd = -1;
    ctx_defer(ctx, stop_crew, c);
    return c;
}

void processes_dismiss(Hand *h) {
    child_stop(&h->child, true);
    h->busy = false;
}

void processes_dismiss_workers(SearchProcesses *c) {
    for (int i = 0; i < c->ranks; i++) processes_dismiss(&c->workers[i]);
}

void processes_stop(SearchProcesses *c) {
    for (int i = 0; i < c->n; i++) processes_dismiss(&c->helpers[i]);
    processes_dismiss_workers(c);
}

/// If the process has ended since its last answer, it is started again.
int processes_ask(SearchProcesses *c, Hand *h, int id, Bytes message, WireKind wants,
                  double seconds) {
    Talk t = TALK_BROKEN;
    int error = 0;
    for (int i = 0; i < 2 && t && !error; i++) {
        error = child_start(c->ctx, &h->child, &c->program);
        if (error) break;
        t = child_send(&h->child, message, rt_seconds() + MESSAGE_SECONDS);
        if (t) processes_dismiss(h);
    }
    if (error) return error;
    if (t) return EPIPE;
    h->busy = true;
    h->id = id;
    h->limit = seconds;
    h->wants = wants;
    rt_child_clock_start(&h->clock, h->child.pid);
    return 0;
}

static Hand *hand_at(SearchProcesses *c, int i) {
    return i < c->n ? &c->helpers[i] : &c->workers[i - c->n];
}

bool processes_works(const SearchProcesses *c) {
    bool busy = false;
    for (int i = 0; i < c->ranks; i++) busy |= c->workers[i].busy;
    return busy;
}

static const char *end_text(SearchProcesses *c, Talk talk, int status) {
    if (talk == TALK_OTHER)
        return ctx_format(c->ctx,
                          "%s is of another build of Tegula than this one; set TG_SERVER to the "
                          "program 'tegula' of this one",
                          c->program);
    return talk == TALK_FOREIGN ? "is not of this version" : child_end_text(c->ctx, status);
}

/// Receives the answer of a process whose socket is readable. A greeting is not an answer.
static ProcessEvent receive_answer(SearchProcesses *c, Hand *h) {
    double end = rt_seconds() + MESSAGE_SECONDS;
    ProcessEvent e = {.hand = h, .seconds = rt_child_clock_read(&h->clock)};
    bool greeted = h->child.greeted;
    e.talk = greeted ? child_receive(c->ctx, &h->child, h->wants, &e.body, end)
                     : child_greet(c->ctx, &h->child, end);
    if (!greeted && e.talk == TALK_OK) return (ProcessEvent){0};
    h->busy = false;
    if (e.talk == TALK_OK) return e;
    int cause = h->child.error, status = child_stop(&h->child, e.talk != TALK_BROKEN || cause);
    e.why = cause ? ctx_format(c->ctx, "cannot be heard: %s", strerror(cause))
                  : end_text(c, e.talk, status);
    return e;
}

static ProcessEvent late_event(Hand *h) {
    ProcessEvent e = {.hand = h, .talk = TALK_LATE, .seconds = h->clock.seconds};
    processes_dismiss(h);
    return e;
}

/// Returns the first process beyond its time limit. Otherwise sets *left to the seconds until the
/// next limit. Workers wait for each other, so they are late only if the worker with the most time
/// left is late.
static Hand *find_late(SearchProcesses *c, double *left) {
    double workers_left = 0;
    Hand *first = NULL;
    for (int i = 0; i < c->n + c->ranks; i++) {
        Hand *h = hand_at(c, i);
        if (!h->busy) continue;
        double own = h->limit - rt_child_clock_look(&h->clock);
        if (i >= c->n)
            workers_left = fmax(workers_left, own);
        else if (own > 0)
            *left = fmin(*left, own);
        else
            return h;
    }
    for (int i = 0; i < c->ranks && !first; i++)
        if (c->workers[i].busy) first = &c->workers[i];
    if (first && workers_left <= 0) return first;
    if (first) *left = fmin(*left, workers_left);
    return NULL;
}

ProcessEvent processes_wait(SearchProcesses *c, double end) {
    for (;;) {
        struct pollfd fds[PROCESSES_MAX + RT_COMM_RANKS];
        Hand *hands[PROCESSES_MAX + RT_COMM_RANKS];
        int n = 0;
        double left = end - rt_seconds();
        bool over = left <= 0;
        Hand *gone = find_late(c, &left);
        if (gone) return late_event(gone);
        for (int i = 0; i < c->n + c->ranks; i++) {
            if (!hand_at(c, i)->busy) continue;
            hands[n] = hand_at(c, i);
            fds[n++] = (struct pollfd){.fd = hand_at(c, i)->child.fd, .events = POLLIN};
        }
        if (over && n == 0) return (ProcessEvent){0};
        left = fmin(fmax(left, 0), n ? LOOK : 3600);
        int got = poll(fds, (nfds_t)n, (int)ceil(left * 1e3));
        for (int i = 0; i < n && got > 0; i++) {
            ProcessEvent e = {0};
            if (fds[i].revents) e = receive_answer(c, hands[i]);
            if (e.hand) return e;
        }
        if (got == 0 && end <= rt_seconds()) return (ProcessEvent){0};
    }
}
