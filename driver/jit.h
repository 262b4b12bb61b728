// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Compiling for a launch: the answer to a request. Both are plain data, so the compiler may run in
// this process or in another (compiler_process.c).
#ifndef DRIVER_JIT_H
#define DRIVER_JIT_H

#include "driver/request.h"

typedef struct Answer {
    tg_status status;
    const char *message; // if status is not OK
    int n_warnings;
    const char **warnings;
    const tg_variant *variant; // without entry
    Key key;
    int same;   // index of the known code; -1: new code
    Code *code; // new code; the caller releases it
} Answer;

/* ---- jit.c --------------------------------------------------------------------------------- */

/// The target for launches on this CPU. NULL: all features of the CPU; otherwise TG_LEVEL or the
/// operating system limits them.
const char *host_target(void);

/* ---- compile_launch.c ----------------------------------------------------------------------- */

/// Compiles a request. The answer is in the arena of ctx, which cannot be used for other work
/// afterwards. `load`: makes code that runs in this process, not an object.
void request_compile(Ctx *ctx, const Request *r, bool load, Answer *out);
/// Returns the index of the known code with this key, or -1.
int request_known(const Request *r, Key key);
/// Loads the object of an answer into this process. The object must not belong to the answer.
void answer_load(Ctx *ctx, const Request *r, Answer *a);
/// Returns all messages of ctx in the form for users; "" without any, or without memory.
const char *messages_text(Ctx *ctx);
/// Turns `status` and the messages of ctx into a status of the C API.
tg_status messages_status(const Ctx *ctx, CtxStatus status);
/// Lists the warnings of ctx, one text each. Returns their number.
int messages_warnings(Ctx *ctx, const char ***out);

/* ---- compiler_process.c: the compiler in another process ------------------------------------ */

/// Whether facts and argument lists of a received answer name only existing parameters.
bool answer_is_sound(const Request *r, const Answer *a);
/// Whether TG_COMPILE=process is set, or this process cannot compile.
bool server_wanted(void);
/// False, with an answer: this process was forked while another thread was in the compiler's
/// libraries, whose locks stay taken.
bool compiles_here(Answer *out);
/// Like request_compile, in the other process. The code is an object in the arena. False: that
/// process has another compiler; the log has a message, and nothing was compiled.
bool server_compile(Ctx *ctx, const Request *r, Answer *out);

/* ---- code_cache.c: code on disk ------------------------------------------------------------- */

/// Finds the code of a request on disk, or compiles and stores it. Loads it.
void cached_compile(Ctx *ctx, const Request *r, Answer *out);

/* ---- wire.c: requests and answers as bytes ------------------------------------------------- */

typedef struct Bytes {
    uint8_t *data;
    size_t n;
} Bytes;

/// Messages begin with a header: kind, version, length of the rest.
enum { WIRE_HEADER = 16 };
typedef enum WireKind {
    WIRE_REQUEST = 'Q',
    WIRE_ANSWER = 'A',
    WIRE_OPEN = 'O',     // to a worker (driver/remote/worker.h): the arguments
    WIRE_TRY = 'T',      // to a worker: code to try on them
    WIRE_REPORT = 'R',   // from a worker: the result of its last code
    WIRE_ORACLE = 'I',   // to a helper (driver/remote/oracle.h): arguments for the interpreter
    WIRE_EXPECTED = 'E', // from a helper: the interpreter's results
    WIRE_RESULT = 'S',   // in the store: the result of a search
    WIRE_SIBLINGS = 'B', // in the store: winners on other machines
    WIRE_GREETING = 'G', // first message of another process: its compiler's identity
} WireKind;
Bytes wire_write_request(Ctx *ctx, const Request *r);
Bytes wire_write_answer(Ctx *ctx, const Answer *a);
/// Reads kind and length from a header. False: not a header of ours.
bool wire_read_header(const uint8_t header[WIRE_HEADER], WireKind *kind, size_t *length);
/// Reads the bytes after the header. False: they are malformed.
bool wire_read_request(Ctx *ctx, Bytes in, Request *r);
/// The answer's code is an object.
bool wire_read_answer(Ctx *ctx, Bytes in, Answer *a);

/* ---- serve_requests.c ----------------------------------------------------------------------- */

/// The reason for which a process stops serving, as its exit code. It tells the other end whose
/// fault it is.
typedef enum ServeEnd {
    SERVE_DONE,         // no more requests
    SERVE_NONSENSE = 3, // a request was malformed: a bug in Tegula
    SERVE_MEMORY,       // out of memory
    SERVE_CUT,          // the connection cannot be read or written
} ServeEnd;

/// Reads requests from `in` and writes answers to `out`.
ServeEnd serve(int in, int out);

#endif
