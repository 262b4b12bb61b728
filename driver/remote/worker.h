// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The process in which candidates run (worker.c, at the end of child_process.h), and what it is
// told.
//
//     WIRE_OPEN   the launch: kernel, arguments, device        -> WIRE_REPORT
//     WIRE_TRY    code to be checked, or to be timed           -> WIRE_REPORT
//
// A crash, an endless kernel or a device without memory ends this process, and no other. Of a
// kernel of ranks there is such a process for each: all are told the same, and report the same
// times.
#ifndef DRIVER_REMOTE_WORKER_H
#define DRIVER_REMOTE_WORKER_H

#include "driver/tune/tune.h"

/// What is in a tensor there.
typedef struct WorkData {
    int64_t address; // in the launch: says how it is aligned, and which are one view
    Bytes contents;  // of integers and bools, from the lowest element on; fewer are repeated
} WorkData;

typedef struct WorkOpen {
    Request request; // set, known: none
    int device;
    int rank, ranks;  // of a kernel of ranks; else 0
    const char *meet; // where those processes do
    uint64_t seed;
    int n; // parameters
    const WorkData *data;
} WorkOpen;

/// The first one that is checked is what all others are checked against.
enum {
    WORK_CHECK = 0,
    WORK_CONFIRM = -1, // all that a check looks at pieces of
    WORK_WARM = -2,    // how many times as long as that first one's launches its own take, warm
};
typedef struct WorkTry {
    int id;
    int launches;   // to be timed; or WORK_CHECK, WORK_CONFIRM, WORK_WARM
    Bytes answer;   // the body of the compiler's answer; none: code `id` is there
    Bytes expected; // likewise of the interpreter's (oracle.h); none: there is nothing new
} WorkTry;

typedef struct WorkReport {
    bool ok;
    TuneVerdict verdict; // unless ok
    const char *why;     //
    bool lost;           // the process is of no use any more: its device cannot be used
    bool refuted;        // the result is not what the interpreter says
    bool mild;           // the numbers are (runtime/tune/trial.h)
    int n;
    const double *seconds;               // of each launch; of WORK_WARM one number, not seconds
    int registers, spills, shared_bytes; // -1: not known
    double computed;                     // seconds of processors that it took, of all threads
} WorkReport;

Bytes work_write_open(Ctx *ctx, const WorkOpen *open);
Bytes work_write_try(Ctx *ctx, const WorkTry *t);
Bytes work_write_report(Ctx *ctx, const WorkReport *r);
/// Of bodies; false where they are malformed.
bool work_read_open(Ctx *ctx, Bytes in, WorkOpen *open);
bool work_read_try(Ctx *ctx, Bytes in, WorkTry *t);
bool work_read_report(Ctx *ctx, Bytes in, WorkReport *r);

/// What tuning keeps, likewise.
Bytes work_write_result(Ctx *ctx, const TuneResult *r);
bool work_read_result(Ctx *ctx, Bytes in, TuneResult *r);

/* ---- worker.c: the other end ----------------------------------------------------------------- */

typedef struct Worker Worker;
/// NULL where there is no memory.
Worker *worker_create(void);
void worker_destroy(Worker *w);
/// Does what a message asks. The report, in the arena of ctx; false: it was malformed.
bool worker_answer(Worker *w, Ctx *ctx, WireKind kind, Bytes body, Bytes *report);

#endif
