// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Ahead of time: kernels of a program as one object file with code for every level of a CPU, and
// the C header that goes with it.
//
//     aot_exports     which kernels, with which element types     "softmax<f32>,matmul"
//     aot_build       code of every variant                       -> Code, info of each export
//     aot_header      the C header                                -> text
//     aot_archive     the object as a static library              -> bytes
#ifndef DRIVER_AOT_AOT_H
#define DRIVER_AOT_AOT_H

#include "backends/object.h"
#include "driver/driver.h"
#include "driver/tune/tuned_file.h"

typedef VEC(NamedValue) AotValues;
enum { AOT_GPUS = 8 };

/// Of an entry of a tuned file: for other kernels, targets or given values; for extents that the
/// object does not have; in it.
typedef enum TunedUse { TUNED_FOREIGN, TUNED_BEYOND, TUNED_TAKEN } TunedUse;

/// What is to be built. Mistakes come back as `error`, with a `hint`, or as diagnostics.
typedef struct Aot {
    Ctx *ctx;
    const Program *program;
    const Importer *importer; // that it was loaded with
    const char *name;         // of the object, where one is wanted in it: "softmax"
    const char *arch;         // "x86-64"
    const char *prefix;       // of every symbol; "" for none
    const char *strip;        // folder that paths in messages leave out, or NULL
    int n_levels;
    const TargetInfo *levels[TG_LEVELS]; // in ascending order
    int n_gpus;
    TargetInfo gpus[AOT_GPUS]; // architectures that there is code for besides; their host code is
                               // of the lowest level
    const char *codegen;       // of their code: see CodeOptions
    AotValues set;             // tune values that are pinned
    AotValues given;           // values of dims, one name as often as it has values
    AotValues most;            // bounds of dims: what `cover` is prepared for
    int n_variants;            // settings for each size, the best by the cost model; 0 is 1
    const Tuned *tuned;        // settings for the shapes of a file, or NULL
    TunedUse *tuned_use;       // of each of its entries
    const TunedEntry *stale;   // one that could not be compiled, or NULL
    bool check, debug;
    /// Called before each variant is compiled.
    void (*progress)(void *user, const char *symbol, int done);
    void *user;

    VEC(struct AotExport *) exports;
    const char *error, *hint;
    const char *messages; // of the compiler, or NULL
    const char *note;     // what was decided for the user, or NULL
} Aot;

/// One function among the variants of an export.
typedef struct AotEntry {
    const char *name;
    const TargetInfo *level;
    const char *config, *what; // tune values; "D=64 causal=0, rows contiguous"
    const char *images[2];     // of a GPU: what may serve this host code
    int n_images;
    bool ptx; // nothing made machine code of it
    int64_t bytes, image_bytes;
} AotEntry;

typedef struct AotExport {
    const FnDef *kernel;
    const Elem *types; // one a type parameter
    const char *symbol, *kernel_symbol;
    CFunction *function; // NULL where C cannot compute the dims
    const char *why;     // then the reason
    tg_kernel_info *info;
    VEC(tg_variant) variants;
    VEC(const char *) entries; // of variants
    VEC(const char *) images;  // NULL: of the CPU
    VEC(AotEntry) functions;
    AotValues given; // the values of each name that code was made for
    AotValues most;  // the greatest extents that `cover` was prepared for
} AotExport;

/* ---- aot_export.c -------------------------------------------------------------------------- */

/// Fills in a->exports from a list like "softmax<f32>,matmul<f32,bf16>"; a kernel without types
/// comes with each where its constraints list two at most, else with the first. NULL: all kernels.
bool aot_exports(Aot *a, const char *list);
/// What is wrong, and what to do; returns false.
bool aot_fail(Aot *a, const char *hint, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

/* ---- aot_function.c ------------------------------------------------------------------------ */

/// The C function of an export; or its `why`.
void aot_function(Aot *a, AotExport *x);
/// The element of parameter i with the export's types; EL_COUNT where it has none.
Elem aot_elem(const AotExport *x, int i);
/// What a dim or a constant expression is, given values of names; false where one has none.
typedef bool AotLookup(void *user, const char *name, int64_t *out);
bool aot_eval(const Program *p, const Expr *e, AotLookup *lookup, void *user, int64_t *out);
/// Names of dims in order of first appearance, packs as their product.
typedef VEC(const char *) AotNames;
void aot_dims(Aot *a, const FnDef *f, AotNames *out);

/* ---- aot.c, aot_variants.c ------------------------------------------------------------------ */

/// Code of all exports, with texts as asked for; NULL after errors.
Code *aot_build(Aot *a, int texts);
/// All variants of one export into the object; false after errors.
bool aot_variants(Aot *a, Object *object, AotExport *x);
/// The values of `given` names that code is made for; false after errors.
bool aot_given(Aot *a, AotExport *x);

/* ---- aot_header.c, aot_archive.c --------------------------------------------------------------
 */

/// The header of an object, named `path`; with `jit`, typed wrappers around kernels of a module
/// instead.
const char *aot_header(Aot *a, const char *path, bool jit);
/// A name of C, C++, their libraries or tegula.h, which a function cannot have.
bool aot_reserved(Ctx *ctx, const char *name);
/// A static library of one object that defines `symbols`.
void *aot_archive(Ctx *ctx, const char *member, const Code *code, int n_symbols,
                  const char *const *symbols, size_t *bytes);

#endif
