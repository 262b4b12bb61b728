// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Fails the n-th system call of a kind that our code makes (calls.def), counted over all
// participating processes. The plan is in memory that they share, so a fault ends for all at once.
#ifndef TESTS_INJECT_FAIL_H
#define TESTS_INJECT_FAIL_H

#include <stdatomic.h>
#include <stdbool.h>
#include <sys/types.h>

/// SQLITE: memory of the library itself; its files count with the others. LIBRARY: calls of a
/// library that compiles (libraries.def). TOOL: programs that assemble and link; they end or hang.
typedef enum Kind {
    MEMORY,
    MAP,
    OPEN,
    READ,
    WRITE,
    SYNC,
    SIZE,
    NAME,
    LOOK,
    LOCK,
    PROCESS,
    THREAD,
    WAIT,
    SOCKET,
    SQLITE,
    LIBRARY,
    TOOL,
    KINDS
} Kind;
extern const char *const kind_names[KINDS];

/// The functions that may fail, whose calls are counted: the rows of calls.def and these.
typedef enum Function {
#define CALL(kind, name, ...)   CALLS_##name,
#define MOVE(kind, name, ...)   CALLS_##name,
#define STREAM(kind, name, ...) CALLS_##name,
#include "tests/inject/calls.def"
#undef CALL
#undef MOVE
#undef STREAM
#define LINKED(name, ...) CALLS_##name,
#define LOADED(name, ...) CALLS_##name,
#include "tests/inject/libraries.def"
#undef LINKED
#undef LOADED
    CALLS_open,
    CALLS_fcntl,
    CALLS_posix_spawn,
    CALLS_tool,
    CALLS_fsync,
    CALLS_fdatasync,
    CALLS_sqlite3_malloc,
    CALLS_sqlite3_realloc,
    FUNCTIONS
} Function;
extern const char *const function_names[FUNCTIONS];

/// SHORT moves half of the bytes. ABORT to HANG end or stop the process at the call; CUT does so
/// after half of its bytes were moved.
typedef enum Way { ONCE, FROM_ON, SHORT, ABORT, KILL, CUT, EXIT, HANG, WAYS } Way;
extern const char *const way_names[WAYS];

/// HERE: the process under test; THERE: its helper processes, or the other rank.
typedef enum Place { HERE, THERE, PLACES } Place;

typedef struct Fault {
    Place place;
    Kind kind;
    Way way;
    int error; // value of errno
    long n;    // number of the call, from 1
} Fault;

typedef struct Plan {
    pid_t owner; // a hanging process waits for its end
    atomic_bool armed;
    Fault fault;
    atomic_long calls[PLACES][KINDS]; // calls while the plan was armed
    atomic_long by_function[PLACES][FUNCTIONS];
    atomic_long failed; // number of failed calls
} Plan;

/// Opens the plan, in a file that processes share. The first process makes it. NULL: failed.
Plan *plan_open(const char *path, bool make, Place place);
/// Sets the place of a forked child.
void plan_at(Place place);
/// Arms the plan until plan_end. NULL: only counts calls.
void plan_begin(const Fault *fault);
void plan_end(void);
/// Whether the fault of the plan has happened.
bool plan_happened(void);
/// Whether a fault of this kind is planned and has not happened yet.
bool plan_awaits(Way way);
/// Whether the last plan refused calls of this kind.
bool plan_refused(Kind kind);

/// Records a call of this kind. Returns whether it is refused, with the reason in errno.
bool plan_refuses(Kind kind, Function function);
/// Records a call that is never refused; the process may end in it, or hang.
void plan_pass(Kind kind, Function function);
/// Records a call. Returns whether it fails as planned.
bool plan_hits(Kind kind, Function function, Way *way);

/// Replaces SQLite's memory and files before their first use.
void wrap_sqlite(void);

/// The system's fork, for the test itself.
pid_t real_fork(void);
pid_t real_waitpid(pid_t pid, int *status, int flags);
/// Waits this long for a process that should end by itself, and then kills it. A process that hangs
/// by the plan is killed at once.
void end_child(pid_t child, int ms);

#endif
