// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The processes of a search: helpers that compile, and a worker that runs candidates; a kernel of
// ranks has a worker for each rank. One call waits for all of them (tune_processes.c). Time limits
// use each process's own clock, so on a busy machine no process is late because it waited for a
// core.
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
    int id;       // of its work; chosen by the caller
    double limit; // in seconds of the process's clock
    rt_child_clock clock;
    WireKind wants; // kind of the awaited answer
} Hand;

typedef struct SearchProcesses {
    Ctx *ctx;
    int n, ranks;        // number of helpers, and of workers
    const char *program; // the program that was started last
    Hand helpers[PROCESSES_MAX], workers[RT_COMM_RANKS];
} SearchProcesses;

/// Makes the record. Processes start at first use, and end with ctx at the latest.
SearchProcesses *processes_create(Ctx *ctx, int helpers, int workers);
void processes_stop(SearchProcesses *c);

/// Gives an idle process a message to work on. Returns 0 or an errno.
int processes_ask(SearchProcesses *c, Hand *h, int id, Bytes message, WireKind wants,
                  double seconds);

typedef struct ProcessEvent {
    Hand *hand; // NULL: the time is over
    Talk talk;  // OK: body is the answer; otherwise the process is gone
    Bytes body;
    const char *why; // BROKEN: "was ended by signal 11 (Segmentation fault)"; OTHER: a sentence
    double seconds;  // of work, on the process's clock
} ProcessEvent;
/// Waits for the next answer, or the end of a process, until `end`.
ProcessEvent processes_wait(SearchProcesses *c, double end);
/// Whether any worker is busy.
bool processes_works(const SearchProcesses *c);
/// Returns the number of a worker, or -1.
static inline int processes_rank(const SearchProcesses *c, const Hand *h) {
    return h >= c->workers && h < c->workers + c->ranks ? (int)(h - c->workers) : -1;
}
/// Kills the process.
void processes_dismiss(Hand *h);
void processes_dismiss_workers(SearchProcesses *c);

#endif
