// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Other processes that work for this one: `tegula --serve` at the other end of a pair of sockets.
// Whatever happens to one, the caller gets a status; no call blocks beyond its time.
#ifndef DRIVER_REMOTE_CHILD_PROCESS_H
#define DRIVER_REMOTE_CHILD_PROCESS_H

#include "driver/jit.h"

#include <sys/types.h>

/// {.fd = -1}: none. Used by one thread at a time, at one address.
typedef struct Peer {
    pid_t owner; // the process that started it: a forked child starts its own
    pid_t pid;   // 0: none
    int fd;
    int error;         // errno of this end, where that is what broke the connection
    bool greeted;      // it is of this compiler
    struct Peer *next; // of those that run (child_process.c)
} Peer;

bool peer_runs(const Peer *p);
/// Starts the program unless it runs. 0 or an errno; the program that was tried is in *program. It
/// is found by TG_SERVER, beside this library, or in PATH.
int peer_start(Ctx *ctx, Peer *p, const char **program);
/// Closes the connection and waits for the process, which ends by that or is made to. What ended it
/// is the status of waitpid, or -1 where it is not known.
int peer_stop(Peer *p, bool kill_it);
/// Whether it ended since its memory ran out.
bool peer_end_of_memory(int status);
/// What became of the process, as waitpid tells it: "ended with exit code 1".
const char *peer_end_text(Ctx *ctx, int status);

/// FOREIGN: what comes is no message that was expected; OTHER: it is a Tegula of another build.
typedef enum Talk { TALK_OK, TALK_BROKEN, TALK_LATE, TALK_FOREIGN, TALK_OTHER } Talk;

/// Until `end`, of peer_seconds().
Talk peer_send(Peer *p, Bytes message, double end);
/// What a process says first: its sources and its LLVM (backend_build).
Bytes peer_greeting(Ctx *ctx);
/// Reads that, once, and refuses what is not of this compiler: it would make other code.
Talk peer_greet(Ctx *ctx, Peer *p, double end);
/// Reads the body of a message of this kind into the arena, after the greeting.
Talk peer_receive(Ctx *ctx, Peer *p, WireKind kind, Bytes *body, double end);
double peer_seconds(void);

#endif
