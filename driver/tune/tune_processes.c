// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// See tune_processes.h.
#include "driver/tune/tune_processes.h"

#include <errno.h>
#include <math.h>
#include <poll.h>
#include <string.h>

enum { MESSAGE_SECONDS = 5 }; // for the bytes of one message, once they come
static const double LOOK = 0.1;  // seconds, at most, between two looks at the clocks of hands

static void stop(void *crew) {
    crew_stop(crew);
}

Crew *crew_create(Ctx *ctx, int helpers, int workers) {
    Crew *c = ctx_new(ctx, Crew);
    *c = (Crew){.ctx = ctx,
                .n = helpers < CREW_MAX ? helpers : CREW_MAX,
                .ranks = workers < RT_COMM_RANKS ? workers : RT_COMM_RANKS};
    for (int i = 0; i < c->n; i++) c->helpers[i].peer.fd = -1;
    for (int i = 0; i < c->ranks; i++) c->workers[i].peer.fd = -1;
    ctx_defer(ctx, stop, c);
    return c;
}

void crew_dismiss(Hand *h) {
    peer_stop(&h->peer, true);
    h->busy = false;
}

void crew_dismiss_workers(Crew *c) {
    for (int i = 0; i < c->ranks; i++) crew_dismiss(&c->workers[i]);
}

void crew_stop(Crew *c) {
    for (int i = 0; i < c->n; i++) crew_dismiss(&c->helpers[i]);
    crew_dismiss_workers(c);
}

/// A process that has ended since its last answer is started again.
int crew_ask(Crew *c, Hand *h, int id, Bytes message, WireKind wants, double seconds) {
    Talk t = TALK_BROKEN;
    int error = 0;
    for (int i = 0; i < 2 && t && !error; i++) {
        error = peer_start(c->ctx, &h->peer, &c->program);
        if (error) break;
        t = peer_send(&h->peer, message, peer_seconds() + MESSAGE_SECONDS);
        if (t) crew_dismiss(h);
    }
    if (error) return error;
    if (t) return EPIPE;
    h->busy = true;
    h->id = id;
    h->limit = seconds;
    h->wants = wants;
    rt_child_clock_start(&h->clock, h->peer.pid);
    return 0;
}

static Hand *hand_at(Crew *c, int i) {
    return i < c->n ? &c->helpers[i] : &c->workers[i - c->n];
}

bool crew_works(const Crew *c) {
    bool busy = false;
    for (int i = 0; i < c->ranks; i++) busy |= c->workers[i].busy;
    return busy;
}

static const char *end_text(Crew *c, Talk talk, int status) {
    if (talk == TALK_OTHER)
        return ctx_format(c->ctx,
                          "%s is of another build of Tegula than this one; set TG_SERVER to the "
                          "program 'tegula' of this one",
                          c->program);
    return talk == TALK_FOREIGN ? "is not of this version" : peer_end_text(c->ctx, status);
}

/// The answer of a hand whose socket can be read; its greeting is none.
static CrewEvent receive(Crew *c, Hand *h) {
    double end = peer_seconds() + MESSAGE_SECONDS;
    CrewEvent e = {.hand = h, .seconds = rt_child_clock_read(&h->clock)};
    bool greeted = h->peer.greeted;
    e.talk = greeted ? peer_receive(c->ctx, &h->peer, h->wants, &e.body, end)
                     : peer_greet(c->ctx, &h->peer, end);
    if (!greeted && e.talk == TALK_OK) return (CrewEvent){0};
    h->busy = false;
    if (e.talk == TALK_OK) return e;
    int cause = h->peer.error, status = peer_stop(&h->peer, e.talk != TALK_BROKEN || cause);
    e.why = cause ? ctx_format(c->ctx, "cannot be heard: %s", strerror(cause))
                  : end_text(c, e.talk, status);
    return e;
}

static CrewEvent late(Hand *h) {
    CrewEvent e = {.hand = h, .talk = TALK_LATE, .seconds = h->clock.seconds};
    crew_dismiss(h);
    return e;
}

/// The first hand whose time is over; *left: seconds until another one's may be. Workers wait for
/// each other, so that all of them have the time of the one that had the least.
static Hand *find_late(Crew *c, double *left) {
    double workers_left = 0;
    Hand *first = NULL;
    for (int i = 0; i < c->n + c->ranks; i++) {
        Hand *h = hand_at(c, i);
        if (!h->busy) continue;
        double own = h->limit - rt_child_clock_read(&h->clock);
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

CrewEvent crew_wait(Crew *c, double end) {
    for (;;) {
        struct pollfd fds[CREW_MAX + RT_COMM_RANKS];
        Hand *hands[CREW_MAX + RT_COMM_RANKS];
        int n = 0;
        double left = end - peer_seconds();
        bool over = left <= 0;
        Hand *gone = find_late(c, &left);
        if (gone) return late(gone);
        for (int i = 0; i < c->n + c->ranks; i++) {
            if (!hand_at(c, i)->busy) continue;
            hands[n] = hand_at(c, i);
            fds[n++] = (struct pollfd){.fd = hand_at(c, i)->peer.fd, .events = POLLIN};
        }
        if (over && n == 0) return (CrewEvent){0};
        left = fmin(fmax(left, 0), n ? LOOK : 3600);
        int got = poll(fds, (nfds_t)n, (int)ceil(left * 1e3));
        for (int i = 0; i < n && got > 0; i++) {
            CrewEvent e = {0};
            if (fds[i].revents) e = receive(c, hands[i]);
            if (e.hand) return e;
        }
        if (got == 0 && end <= peer_seconds()) return (CrewEvent){0};
    }
}
