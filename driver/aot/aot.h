// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Ahead of time: builds kernels of a program as one object file, with code for every level of a
// CPU, and its C header.
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

/// The use of a tuned file's entry. FOREIGN: it is for other kernels, targets or given values.
/// BEYOND: it is for extents outside of the object. TAKEN: the object has it.
typedef enum TunedUse { TUNED_FOREIGN, TUNED_BEYOND, TUNED_TAKEN } TunedUse;

/// The description of a build. Mistakes come back as `error` with a `hint`, or as diagnostics.
typedef struct Aot {
    Ctx *ctx;
    const Program *program;
    const Importer *importer; // the importer that loaded the program
    const char *name;         // of the object, for messages and notes in it: "softmax"
    const char *arch;         // "x86-64"
    const char *prefix;       // of every symbol; may be ""
    const char *strip;        // folder to cut from paths in messages, or NULL
    int n_levels;
    const TargetInfo *levels[TG_LEVELS]; // in ascending order
    int n_gpus;
    TargetInfo gpus[AOT_GPUS]; // further architectures; their host code is for the lowest level
    const char *codegen;       // for GPU code: see CodeOptions
    AotValues set;             // pinned tune values
    AotValues given;           // values of dims; a name appears once for each value
    AotValues most;            // bounds of dims, for `cover`
    int n_variants;            // number of settings for each size, by the cost model; 0 is 1
    const Tuned *tuned;        // settings for the shapes of a tuned file, or NULL
    TunedUse *tuned_use;       // one for each entry of `tuned`
    const TunedEntry *stale;   // an entry that could not be compiled, or NULL
    bool check, debug;
    /// Called before each variant is compiled.
    void (*progress)(void *user, const char *symbol, int done);
    void *user;

    VEC(struct AotExport *) exports;
    const char *error, *hint;
    const char *messages; // of the compiler, or NULL
    const char *note;     // decisions made for the user, or NULL
} Aot;

/// One function among the variants of an export.
typedef struct AotEntry {
    const char *name;
    const TargetInfo *level;
    const char *config, *what; // tune values; "D=64 causal=0, rows contiguous"
    const char *images[2];     // GPU: the images that fit this host code
    int n_images;
    bool ptx; // no tool made machine code of it
    int64_t bytes, image_bytes;
} AotEntry;

typedef struct AotExport {
    const FnDef *kernel;
    const Elem *types; // one for each type parameter
    const char *symbol, *kernel_symbol;
    CFunction *function; // NULL: C cannot compute the dims
    const char *why;     // the reason for that
    tg_kernel_info *info;
    VEC(tg_variant) variants;
    VEC(const char *) entries; // function of each variant
    VEC(const char *) images;  // image of each variant; NULL: CPU code
    VEC(AotEntry) functions;
    AotValues given; // values for which code was made, by name
    AotValues most;  // greatest extents for `cover`, by name
} AotExport;

/* ---- aot_export.c -------------------------------------------------------------------------- */

/// Fills a->exports from a list like "softmax<f32>,matmul<f32,bf16>". A kernel without types is
/// exported with all types if its constraints list two at most, or else with the first. NULL: all
/// kernels.
bool aot_exports(Aot *a, const char *list);
/// Sets the error and the hint for it; returns false.
bool aot_fail(Aot *a, const char *hint, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

/* ---- aot_function.c ------------------------------------------------------------------------ */

/// Makes the C function of an export, or sets its `why`.
void aot_function(Aot *a, AotExport *x);
/// Returns the element of parameter i with the export's types; EL_COUNT if it has none.
Elem aot_elem(const AotExport *x, int i);
/// Looks up the value of a name. aot_eval evaluates a dim or a constant expression with it; false:
/// a name has no value.
typedef bool AotLookup(void *user, const char *name, int64_t *out);
bool aot_eval(const Program *p, const Expr *e, AotLookup *lookup, void *user, int64_t *out);
/// Names of dims in order of first appearance. The name of a pack stands for its product.
typedef VEC(const char *) AotNames;
void aot_dims(Aot *a, const FnDef *f, AotNames *out);

/* ---- aot.c, aot_variants.c ------------------------------------------------------------------ */

/// Checks that the exported kernels have the names of --given and --set. False: errors.
bool aot_names_exist(Aot *a);
/// Builds code of all exports, with the requested texts. NULL: errors.
Code *aot_build(Aot *a, int texts);
/// Adds all variants of an export to the object. False: errors.
bool aot_variants(Aot *a, Object *object, AotExport *x);
/// Collects the values of `given` names for which code is made. False: errors.
bool aot_given(Aot *a, AotExport *x);

/* ---- aot_header.c, aot_archive.c ------------------------------------------------------------- */

/// Writes the header of an object, named `path`. With `jit`, writes typed wrappers for kernels of a
/// module instead.
const char *aot_header(Aot *a, const char *path, bool jit);
/// Whether a function cannot have the name, because C, C++, their libraries or tegula.h use it.
bool aot_reserved(Ctx *ctx, const char *name);
/// Makes a static library of one object that defines `symbols`.
void *aot_archive(Ctx *ctx, const char *member, const Code *code, int n_symbols,
                  const char *const *symbols, size_t *bytes);

#endif
