// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Compiling for a launch: what is asked, what is answered. Both are plain data, so that the
// compiler may run in this process or in another (compiler_process.c).
#ifndef DRIVER_JIT_H
#define DRIVER_JIT_H

#include "driver/driver.h"
#include "runtime/compiler.h"

/// What decides the code of a variant: its facts and its tune values. Hints do not.
typedef struct Key {
    const void *bytes;
    size_t n;
} Key;

/// Of a kernel with symmetric tensors: what decides how fast its launches are besides the machine.
typedef struct Ranks {
    int n;       // 0: it has none, or nobody has met
    int threads; // of each rank
    int gpus;    // that they have, all together; 0: ranks of the CPU
} Ranks;

/// A kernel of a source, the arguments of a launch, and how to compile.
typedef struct Request {
    const char *path; // of the main file, one of the texts
    int n_texts;
    const SourceText *texts; // all files but those of the library
    int n_paths;
    const char *const *paths; // of imports
    const char *kernel;
    int n_set;
    const NamedValue *set; // pinned tune values
    bool tuned;            // the values of `set` were found for these arguments
    bool check, debug;
    int threads;
    const char *target;            // as Build has it, like the next three
    const char *codegen, *machine; //
    int driver;                    //
    int n_args;
    const tg_actual *args;
    Ranks ranks; // for tuning alone: other processes are not told
    int n_known;
    const Key *known;           // there is code for these
    const tg_kernel_info *info; // of the kernel; NULL: the texts say it
} Request;

typedef struct Answer {
    tg_status status;
    const char *message; // unless OK
    int n_warnings;
    const char **warnings;
    const tg_variant *variant; // without entry
    Key key;
    int same;   // the code is that of known[same]; -1: new
    Code *code; // new code; the caller releases it
} Answer;

/* ---- jit.c --------------------------------------------------------------------------------- */

/// The target of launches on this CPU: NULL, all that it has, unless TG_LEVEL or the operating
/// system leave less of it.
const char *host_target(void);

/* ---- compile_launch.c ----------------------------------------------------------------------- */

/// Compiles. Answers in the arena of ctx, which is of no other use afterwards. `load`: the code is
/// to run in this process, else it is an object.
void request_compile(Ctx *ctx, const Request *r, bool load, Answer *out);
/// The instance that a request asks for. False after errors in the source, diagnosed.
bool request_build(Ctx *ctx, const Request *r, Build *out);
/// Which of the known codes has this key; -1: none.
int request_known(const Request *r, Key key);
/// Loads the object of an answer, which is not the answer's own, into this process.
void answer_load(Ctx *ctx, const Request *r, Answer *a);
/// All messages of ctx, as users see them; "" where there are none or no memory.
const char *messages_text(Ctx *ctx);
/// What `status` and the messages of ctx say to a caller of the C API.
tg_status messages_status(const Ctx *ctx, CtxStatus status);
/// The warnings of ctx, one text each.
int messages_warnings(Ctx *ctx, const char ***out);

/* ---- compiler_process.c: the compiler in another process ------------------------------------ */

/// Facts and argument lists of an answer that was read speak of parameters that there are.
bool answer_is_sound(const Request *r, const Answer *a);
/// True where TG_COMPILE=process asks for it, or this process cannot compile.
bool server_wanted(void);
/// False, with an answer: another thread of the parent was in the compiler's libraries when this
/// process was forked; what they had locked stays locked.
bool compiles_here(Answer *out);
/// The same as request_compile; the code is an object in the arena. False: the other process is of
/// another compiler, which the log has said; nothing was compiled.
bool server_compile(Ctx *ctx, const Request *r, Answer *out);

/* ---- code_cache.c: code on disk ------------------------------------------------------------- */

/// Finds the code of a request on disk, or has it made and keeps it there. Loads it.
void cached_compile(Ctx *ctx, const Request *r, Answer *out);

/* ---- wire.c: requests and answers as bytes ------------------------------------------------- */

typedef struct Bytes {
    uint8_t *data;
    size_t n;
} Bytes;

/// With a header: what it is, the version, the length of the rest.
enum { WIRE_HEADER = 16 };
typedef enum WireKind {
    WIRE_REQUEST = 'Q',
    WIRE_ANSWER = 'A',
    WIRE_OPEN = 'O',     // to a worker (driver/remote/worker.h): the arguments
    WIRE_TRY = 'T',      // code for them
    WIRE_REPORT = 'R',   // what it says of the last
    WIRE_ORACLE = 'I',   // to a helper (driver/remote/oracle.h): what the interpreter makes of them
    WIRE_EXPECTED = 'E', // what it says
    WIRE_RESULT = 'S',   // of a search, in the store
    WIRE_SIBLINGS = 'B', // winners on other machines, likewise
    WIRE_GREETING = 'G', // which compiler it is: the first that another process says
} WireKind;
Bytes wire_write_request(Ctx *ctx, const Request *r);
Bytes wire_write_answer(Ctx *ctx, const Answer *a);
/// What a header announces; false where it is not one of ours.
bool wire_read_header(const uint8_t header[WIRE_HEADER], WireKind *kind, size_t *length);
/// Of the bytes behind the header. False where they are malformed.
bool wire_read_request(Ctx *ctx, Bytes in, Request *r);
/// The code of the answer is an object.
bool wire_read_answer(Ctx *ctx, Bytes in, Answer *a);

/* ---- serve_requests.c ----------------------------------------------------------------------- */

/// Why a process stops serving: its exit code, which says to the other end whose fault it is.
typedef enum ServeEnd {
    SERVE_DONE,         // there are no more requests
    SERVE_NONSENSE = 3, // one was malformed: a mistake in Tegula
    SERVE_MEMORY,       // memory ran out
    SERVE_CUT,          // the connection cannot be read or written
} ServeEnd;

/// Answers requests of `in` on `out`.
ServeEnd serve(int in, int out);

#endif
