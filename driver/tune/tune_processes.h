// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The processes of a search: helpers that compile, a worker in which candidates run, of a kernel of
// ranks one for each. All are waited for at once (tune_processes.c). The time of each goes by its
// own clock: on a busy machine none is late because it waited for a core.
#ifndef DRIVER_TUNE_TUNE_PROCESSES_H
#define DRIVER_TUNE_TUNE_PROCESSES_H

#include "driver/remote/child_process.h"
#include "driver/remote/worker.h"
#include "runtime/comm/comm.h"
#include "runtime/tune/child_clock.h"

enum { PROCESSES_MAX = 64 };

typedef struct Hand {
    ChildProcess child;
    bool busy;
    int id;       // what it works on, the caller's number
    double limit; // seconds by its clock
    rt_child_clock clock;
    WireKind wants; // of the answer
} Hand;

typedef struct SearchProcesses {
    Ctx *ctx;
    int n, ranks;        // helpers; workers
    const char *program; // that was started last
    Hand helpers[PROCESSES_MAX], workers[RT_COMM_RANKS];
} SearchProcesses;

/// Started when they are first used; ended with ctx at the latest.
SearchProcesses *processes_create(Ctx *ctx, int helpers, int workers);
void processes_stop(SearchProcesses *c);

/// Gives a hand that is not busy something to do. 0 or an errno.
int processes_ask(SearchProcesses *c, Hand *h, int id, Bytes message, WireKind wants,
                  double seconds);

typedef struct ProcessEvent {
    Hand *hand; // NULL: the time is up
    Talk talk;  // OK: the body of the answer; else the process is gone
    Bytes body;
    const char
        *why;       // of BROKEN: "was ended by signal 11 (Segmentation fault)"; of OTHER a sentence
    double seconds; // that it took, by its clock
} ProcessEvent;
/// The next answer, or the end of a hand; until `end`.
ProcessEvent processes_wait(SearchProcesses *c, double end);
/// Some worker is.
bool processes_works(const SearchProcesses *c);
/// The number of a worker; -1: it is none.
static inline int processes_rank(const SearchProcesses *c, const Hand *h) {
    return h >= c->workers && h < c->workers + c->ranks ? (int)(h - c->workers) : -1;
}
/// Ends what a hand does.
void processes_dismiss(Hand *h);
void processes_dismiss_workers(SearchProcesses *c);

#endif
