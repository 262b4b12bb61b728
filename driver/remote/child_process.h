// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Processes that work for this one: `tegula --serve` at the other end of a pair of sockets. If one
// fails in any way, the caller gets a status. No call blocks beyond its time limit. The end of a
// process also ends the programs that it started, and removes their temporary files.
#ifndef DRIVER_REMOTE_CHILD_PROCESS_H
#define DRIVER_REMOTE_CHILD_PROCESS_H

#include "driver/jit.h"
#include "runtime/base/base.h"
#include "runtime/tune/child_clock.h"

#include <sys/types.h>

/// {.fd = -1}: not started. Only one thread may use it at a time, and it must not move in memory.
typedef struct ChildProcess {
    pid_t owner; // the process that started it; a forked child starts its own
    pid_t pid;   // 0: not running
    int fd;
    int error;                 // errno of this end if it broke the connection
    bool greeted;              // it has the same compiler
    struct ChildProcess *next; // list of running processes (child_process.c)
} ChildProcess;

bool child_runs(const ChildProcess *p);
/// Starts the program unless it runs. Returns 0 or an errno; *program is the program that was
/// tried. It comes from TG_SERVER, from beside this library, or from PATH.
int child_start(Ctx *ctx, ChildProcess *p, const char **program);
/// Closes the connection, which ends the process, or kills it, and waits for its end. Returns the
/// status of waitpid, or -1 if it is unknown.
int child_stop(ChildProcess *p, bool kill_it);
/// Whether the process ended because it ran out of memory.
bool child_end_of_memory(int status);
/// Describes a status of waitpid: "ended with exit code 1".
const char *child_end_text(Ctx *ctx, int status);

/// FOREIGN: an unexpected message came. OTHER: the process is a Tegula of another build.
typedef enum Talk { TALK_OK, TALK_BROKEN, TALK_LATE, TALK_FOREIGN, TALK_OTHER } Talk;

/// Waits for bytes until `limit` on the process's clock, so no process is late because it waited
/// for a core. By the wall clock the wait ends after 20 times the limit, and at least 10 minutes.
Talk child_wait(ChildProcess *p, rt_child_clock *clock, double limit);
/// Sends a message until `end` of rt_seconds.
Talk child_send(ChildProcess *p, Bytes message, double end);
/// Makes the first message of a process: its sources and its LLVM (backend_build).
Bytes child_greeting(Ctx *ctx);
/// Reads the greeting, once. Refuses another compiler, since its code would differ.
Talk child_greet(Ctx *ctx, ChildProcess *p, double end);
/// Reads the body of a message of this kind into the arena, after the greeting.
Talk child_receive(Ctx *ctx, ChildProcess *p, WireKind kind, Bytes *body, double end);

#endif
