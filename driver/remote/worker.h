// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The process in which candidates run (worker.c, at the other end of child_process.h), and its
// messages.
//
//     WIRE_OPEN   the launch: kernel, arguments, device        -> WIRE_REPORT
//     WIRE_TRY    code to be checked, or to be timed           -> WIRE_REPORT
//
// A crash, an endless kernel or a device without memory ends only this process. A kernel of ranks
// has a worker for each rank. All of them get the same messages and report the same times.
#ifndef DRIVER_REMOTE_WORKER_H
#define DRIVER_REMOTE_WORKER_H

#include "driver/tune/tune.h"

/// The contents of a tensor in the worker.
typedef struct WorkData {
    int64_t address; // in the launch; shows the alignment, and tensors that are the same view
    Bytes contents;  // of integers and bools, from the lowest element on; repeated as needed
} WorkData;

typedef struct WorkOpen {
    Request request; // without set and known
    int device;
    int rank, ranks;  // for a kernel of ranks; else 0
    const char *meet; // meeting place of the workers
    uint64_t seed;
    int n; // number of parameters
    const WorkData *data;
} WorkOpen;

/// All later candidates are compared with the first one that is checked.
enum {
    WORK_CHECK = 0,
    WORK_CONFIRM = -1, // compares whole results, where a check compares pieces
    WORK_WARM = -2,    // ratio of own launch times to that first candidate's, on warm caches
};
typedef struct WorkTry {
    int id;
    int launches;   // number to time; or WORK_CHECK, WORK_CONFIRM, WORK_WARM
    Bytes answer;   // body of the compiler's answer; empty: code `id` is loaded
    Bytes expected; // body of the interpreter's answer (oracle.h); empty: no news
} WorkTry;

typedef struct WorkReport {
    bool ok;
    TuneVerdict verdict; // if not ok
    const char *why;     // reason of the verdict
    bool lost;           // the process must be replaced: its device is unusable
    bool refuted;        // the result contradicts the interpreter
    bool mild;           // kind of the random numbers (runtime/tune/trial.h)
    int n;
    const double *seconds;               // of each launch; for WORK_WARM one ratio
    int registers, spills, shared_bytes; // -1: not known
    double computed;                     // processor seconds used, over all threads
} WorkReport;

Bytes work_write_open(Ctx *ctx, const WorkOpen *open);
Bytes work_write_try(Ctx *ctx, const WorkTry *t);
Bytes work_write_report(Ctx *ctx, const WorkReport *r);
/// Read bodies. False: malformed.
bool work_read_open(Ctx *ctx, Bytes in, WorkOpen *open);
bool work_read_try(Ctx *ctx, Bytes in, WorkTry *t);
bool work_read_report(Ctx *ctx, Bytes in, WorkReport *r);

/// Write and read the stored result of tuning.
Bytes work_write_result(Ctx *ctx, const TuneResult *r);
bool work_read_result(Ctx *ctx, Bytes in, TuneResult *r);

/* ---- worker.c: the other end ----------------------------------------------------------------- */

typedef struct Worker Worker;
/// NULL: out of memory.
Worker *worker_create(void);
void worker_destroy(Worker *w);
/// Executes a message. The report is in the arena of ctx. False: the message was malformed.
bool worker_answer(Worker *w, Ctx *ctx, WireKind kind, Bytes body, Bytes *report);

#endif
