// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Other processes that work for this one: `tegula --serve` at the other end of a pair of sockets.
// Whatever happens to one, the caller gets a status; no call blocks beyond its time.
#ifndef DRIVER_REMOTE_CHILD_PROCESS_H
#define DRIVER_REMOTE_CHILD_PROCESS_H

#include "driver/jit.h"

#include <sys/types.h>

/// {.fd = -1}: none. Used by one thread at a time, at one address.
typedef struct ChildProcess {
    pid_t owner; // the process that started it: a forked child starts its own
    pid_t pid;   // 0: none
    int fd;
    int error;                 // errno of this end, where that is what broke the connection
    bool greeted;              // it is of this compiler
    struct ChildProcess *next; // of those that run (child_process.c)
} ChildProcess;

bool child_runs(const ChildProcess *p);
/// Starts the program unless it runs. 0 or an errno; the program that was tried is in *program. It
/// is found by TG_SERVER, beside this library, or in PATH.
int child_start(Ctx *ctx, ChildProcess *p, const char **program);
/// Closes the connection and waits for the process, which ends by that or is made to. What ended it
/// is the status of waitpid, or -1 where it is not known.
int child_stop(ChildProcess *p, bool kill_it);
/// Whether it ended since its memory ran out.
bool child_end_of_memory(int status);
/// What became of the process, as waitpid tells it: "ended with exit code 1".
const char *child_end_text(Ctx *ctx, int status);

/// FOREIGN: what comes is no message that was expected; OTHER: it is a Tegula of another build.
typedef enum Talk { TALK_OK, TALK_BROKEN, TALK_LATE, TALK_FOREIGN, TALK_OTHER } Talk;

/// Until `end`, of child_seconds().
Talk child_send(ChildProcess *p, Bytes message, double end);
/// What a process says first: its sources and its LLVM (backend_build).
Bytes child_greeting(Ctx *ctx);
/// Reads that, once, and refuses what is not of this compiler: it would make other code.
Talk child_greet(Ctx *ctx, ChildProcess *p, double end);
/// Reads the body of a message of this kind into the arena, after the greeting.
Talk child_receive(Ctx *ctx, ChildProcess *p, WireKind kind, Bytes *body, double end);
double child_seconds(void);

#endif
