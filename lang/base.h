// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The foundation: the compile context, its arena, interned strings, vectors, source positions and
// diagnostics.
//
// All memory of a compilation lives in the arena of its Ctx and is freed with it. There is one
// allocation function (ctx_alloc). If it fails, control returns to the innermost ctx_protect, which
// reports CTX_NO_MEMORY. No other code checks for null.
#ifndef LANG_BASE_H
#define LANG_BASE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct Ctx Ctx;

/* ---- source positions ---------------------------------------------------------------------- */

/// A range within one line of a source file. `file` 0 means "nowhere". Lines and columns count from
/// 1; columns are bytes.
typedef struct Loc {
    uint32_t line;
    uint16_t file, col, len;
} Loc;

/// Registers a source text (copied) and returns its file number, from 1.
uint16_t ctx_add_source(Ctx *ctx, const char *path, const char *text, size_t len);
const char *ctx_source_path(const Ctx *ctx, uint16_t file);
/// `len` may be NULL, since the text also ends with a NUL byte.
const char *ctx_source_text(const Ctx *ctx, uint16_t file, size_t *len);
uint16_t ctx_source_count(const Ctx *ctx);

/* ---- context ------------------------------------------------------------------------------- */

typedef enum CtxStatus {
    CTX_OK,        // completed without an error
    CTX_ERRORS,    // the user's input has errors; see the diagnostics
    CTX_NO_MEMORY, // an allocation failed
    CTX_BUG,       // the compiler has a bug; see the diagnostics
} CtxStatus;

/// `allocate(user, old, size)` acts as realloc; size 0 frees. NULL on failure.
typedef struct Allocator {
    void *(*allocate)(void *user, void *old, size_t size);
    void *user;
} Allocator;

/// NULL allocator: the C library's. Returns NULL when out of memory.
Ctx *ctx_create(const Allocator *allocator);
void ctx_destroy(Ctx *ctx);

/// Runs body(ctx, arg). Returns early if memory runs out, at a compiler bug (ice) or at
/// ctx_give_up. Calls nest. After NO_MEMORY and BUG the context can only be asked for its
/// diagnostics and destroyed.
CtxStatus ctx_protect(Ctx *ctx, void (*body)(Ctx *ctx, void *arg), void *arg);
/// Leaves the innermost ctx_protect with CTX_ERRORS: too many errors to go on.
_Noreturn void ctx_give_up(Ctx *ctx);
/// Leaves the innermost ctx_protect with `status`: that of an inner ctx_protect, or NO_MEMORY of
/// another allocator.
_Noreturn void ctx_leave(Ctx *ctx, CtxStatus status);
/// Leaves the innermost ctx_protect with an inner status that is worse than errors. Returns whether
/// the status is OK.
bool ctx_pass_on(Ctx *ctx, CtxStatus status);

/// Zeroed memory, aligned to 16 bytes; never NULL.
void *ctx_alloc(Ctx *ctx, size_t size);
void *ctx_copy(Ctx *ctx, const void *data, size_t size);
#define ctx_new(ctx, T)      ((T *)ctx_alloc((ctx), sizeof(T)))
#define ctx_array(ctx, T, n) ((T *)ctx_alloc((ctx), sizeof(T) * (size_t)(n)))
/// release(thing) runs when the context is destroyed, in reverse order of registration, and at once
/// if the registration runs out of memory. Objects of other libraries (LLVM modules, FILEs) thus
/// survive an early return.
void ctx_defer(Ctx *ctx, void (*release)(void *thing), void *thing);

/// Counts work in steps of about the elaboration of one expression. Limits and tests use the count,
/// because times differ between machines.
void ctx_count(Ctx *ctx, uint64_t steps);
uint64_t ctx_steps(const Ctx *ctx);
/// The bytes taken from the arena.
size_t ctx_bytes(const Ctx *ctx);

/// Returns one copy of each text, so equal strings are equal pointers.
const char *ctx_intern(Ctx *ctx, const char *text, size_t len);
const char *ctx_name(Ctx *ctx, const char *text);
/// printf into the arena.
char *ctx_format(Ctx *ctx, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
char *ctx_vformat(Ctx *ctx, const char *fmt, va_list ap);

/* ---- vectors and text buffers -------------------------------------------------------------- */

/// A growing array in the arena: `VEC(Op *) ops = {0}; vec_push(ctx, &ops, op);`
#define VEC(T)                                                                                     \
    struct {                                                                                       \
        T *data;                                                                                   \
        int n, cap;                                                                                \
    }
#define vec_push(ctx, v, x)                                                                        \
    ((void)((v)->n == (v)->cap                                                                     \
                ? ((v)->data = vec_grow((ctx), (v)->data, &(v)->cap, sizeof *(v)->data), 0)        \
                : 0),                                                                              \
     (void)((v)->data[(v)->n++] = (x)))
void *vec_grow(Ctx *ctx, void *data, int *cap, size_t size);

/// Text under construction; always NUL-terminated once written to.
typedef struct Text {
    Ctx *ctx;
    char *data;
    size_t n, cap;
} Text;
/// data is a string after the first call, possibly an empty one.
void text_add(Text *t, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void text_bytes(Text *t, const char *data, size_t n);

/// Pointer-keyed hash map in the arena. A missing key reads as NULL.
typedef struct PtrMap {
    struct PtrMapSlot {
        const void *key;
        void *value;
    } * slots;
    int n, cap;
} PtrMap;
void *map_get(const PtrMap *m, const void *key);
void map_set(Ctx *ctx, PtrMap *m, const void *key, void *value);

/* ---- diagnostics: reported by `diag` (lang/diag.h) ------------------------------------------ */

typedef enum Severity { SEV_ERROR, SEV_WARNING, SEV_NOTE, SEV_HINT } Severity;

/// A message and the notes and hints that follow it.
typedef struct Diagnostic {
    unsigned id; // a DiagId (lang/diag.h)
    Severity severity;
    Loc loc;
    const char *text;
    Loc place;                 // of a hint with a fix: the text to replace
    const char *fix;           // the text that replaces it, or NULL
    struct Diagnostic *follow; // the first note or hint of this message
    struct Diagnostic *next;
    struct Diagnostic *same; // the previous message with the same text
    bool dropped;            // by diag_rewind
} Diagnostic;

enum { MAX_ERRORS = 20 };

/// Adds to the last message: a place that explains it, or a correction.
void diag_note(Ctx *ctx, Loc loc, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
void diag_hint(Ctx *ctx, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/// A hint that editors can follow: `replacement` for the text at loc. An empty place is an
/// insertion.
void diag_fix(Ctx *ctx, Loc loc, const char *replacement, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
/// Returns the text at a place, or NULL if the place is not within one line of its source.
const char *diag_text_at(Ctx *ctx, Loc loc);
/// For tentative code: the rewind drops all messages after the mark.
typedef struct DiagMark {
    Diagnostic *last;
    int n_errors;
} DiagMark;
DiagMark diag_mark(const Ctx *ctx);
void diag_rewind(Ctx *ctx, DiagMark mark);
/// All messages of a context while other code runs without them, as if none had been reported.
typedef struct DiagState {
    Diagnostic *first, *last;
    int n_errors;
    PtrMap said;
} DiagState;
DiagState diag_set_aside(Ctx *ctx);
/// Drops the messages since, and brings the older ones back.
void diag_restore(Ctx *ctx, DiagState state);
int diag_errors(const Ctx *ctx);
/// The ID of a message in lang/diag.def: "UNKNOWN_NAME".
const char *diag_name(unsigned id);
const Diagnostic *diag_first(const Ctx *ctx);
/// The message as users see it: file:line:col, text, source line, caret, notes, hints.
void diag_render(Text *out, const Ctx *ctx, const Diagnostic *d, bool colour);

/// The name among names[0..n) that `name` was probably meant to be, or NULL.
const char *closest_name(const char *name, const char *const *names, int n);

/// Reports a bug of the compiler: records file, line and text, and leaves with CTX_BUG.
_Noreturn void ice_at(Ctx *ctx, Loc loc, const char *file, int line, const char *fmt, ...)
    __attribute__((format(printf, 5, 6)));
#define ice(ctx, loc, ...) ice_at((ctx), (loc), __FILE__, __LINE__, __VA_ARGS__)

/* ---- element types ------------------------------------------------------------------------- */

typedef enum Elem {
#define ELEM(id, name, bits, cls) EL_##id,
#include "lang/types.def"
    EL_COUNT
} Elem;

typedef enum ElemClass { EC_BOOL = 1, EC_SINT = 2, EC_UINT = 4, EC_FLOAT = 8 } ElemClass;
enum { EC_INT = EC_SINT | EC_UINT, EC_NUM = EC_INT | EC_FLOAT, EC_ANY = EC_NUM | EC_BOOL };

typedef struct ElemInfo {
    const char *name;
    int bits; // in memory; 4 for i4 and u4, 8 for bool
    ElemClass cls;
} ElemInfo;
extern const ElemInfo elem_info[EL_COUNT];

/// EL_COUNT if no such type exists.
Elem elem_by_name(const char *name);
static inline bool elem_is(Elem e, int classes) {
    return (elem_info[e].cls & classes) != 0;
}

static inline int64_t ceil_div(int64_t a, int64_t b) {
    return (a + b - 1) / b;
}

/* ---- several ranks: epochs, plans of transfers (plans.def) ---------------------------------- */

/// An epoch is (number of the launch << EPOCH_BITS) + the barriers of the launch so far.
enum { EPOCH_BITS = 31 };

typedef enum PlanId {
    PLAN_CHOSEN, // the passes choose
#define PLAN(id, name, reads, adds) PLAN_##id,
#include "lang/plans.def"
    PLAN_COUNT
} PlanId;

/// NULL if no plan has the number.
const char *plan_name(int64_t plan);
/// PLAN_CHOSEN if no such name exists.
PlanId plan_by_name(const char *name);
/// All names: "direct, before, ...".
const char *plan_names(Ctx *ctx);
/// The value that the first n bytes of text give to the setting or axis `name`: an integer, true,
/// false, or the name of a plan. Returns false if the text is no value.
bool setting_value(const char *name, const char *text, size_t n, int64_t *out);
/// "BM=64", "plan=pull", in the form that is read.
void setting_text(Text *out, const char *name, int64_t value);

#endif
