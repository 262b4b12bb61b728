// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The interface of the front end. It turns source text into the tile IR of one kernel instance.
#ifndef FRONTEND_FRONTEND_H
#define FRONTEND_FRONTEND_H

#include "frontend/ast.h"
#include "ir/ir.h"

/* ---- parsing (parse.c) --------------------------------------------------------------------- */

/// Returns the tree of a registered source, never NULL. After errors, which are diagnosed, it holds
/// the part that was read.
Module *fe_parse(Ctx *ctx, uint16_t file);
/// Returns the canonical spelling of a source, or NULL with diagnostics if it does not parse.
char *fe_format(Ctx *ctx, uint16_t file);

/* ---- programs: a module and all it imports (program.c) ------------------------------------- */

/// Finds the text of an import. `from` is the path of the importing source. Returns the file number
/// of the registered source, or 0 with errno if the file cannot be found. Files of the library
/// ("std/..." and the prelude) do not go through `find`, so `find` may be NULL.
typedef struct Importer {
    uint16_t (*find)(void *user, Ctx *ctx, const char *path, const char *from);
    void *user;
    const struct tg_embedded *library; // NULL: the embedded files (stdlib/embedded.h)
} Importer;

/// Registers a file of the library ("std/math.teg") once; returns 0 if the library has no such
/// path.
uint16_t library_source(Ctx *ctx, const Importer *importer, const char *path);

typedef struct Program Program; // names of all definitions, prelude included
/// Parses `file` and its imports, and checks names. Reports errors. Never returns NULL.
Program *fe_load(Ctx *ctx, uint16_t file, const Importer *importer);
int fe_kernel_count(const Program *p); // of the file itself, in order
const FnDef *fe_kernel(const Program *p, int i);
/// Finds a kernel by name, or returns NULL. A NULL name finds the only kernel.
const FnDef *fe_find_kernel(const Program *p, const char *name);

/* ---- instances (signature.c) --------------------------------------------------------------- */

typedef enum ParamKind { PARAM_TENSOR, PARAM_SCALAR, PARAM_CONST } ParamKind;

// Limits on the parameters and the type parameters of a kernel, equal for every target and kind of
// launch.
enum { MAX_PARAMS = 256, MAX_TYPE_PARAMS = 64 };

enum { TENSOR_ALIGN = 16 }; // Type.align for tensors whose rows suit the widest copies in GPU code

/// Whether the name is a choice of the compiler, which `schedule` pins and --set may make.
bool is_schedule_axis(const char *name);

/// The facts about a parameter's argument that are known at compile time.
typedef struct ParamInst {
    Elem elem;        // TENSOR, SCALAR: of the argument; EL_COUNT if not known
    bool null;        // an optional tensor that is absent
    bool known_shape; // the extents below are valid
    int rank;         // of the argument, before packs are merged
    int64_t extents[MAX_RANK];
    int64_t strides[MAX_RANK]; // valid if known_strides
    bool known_strides;
    int align;        // TENSOR: an alignment that the code may rely on (16, 8 or 4 bytes), or 0
    bool near;        // TENSOR: the code may rely on Type.near
    bool known_value; // SCALAR of integer type or CONST
    int64_t value;
} ParamInst;

typedef struct NamedValue {
    const char *name;
    int64_t value;
} NamedValue;

/// Returns the first value of this name, or NULL.
const NamedValue *value_of_name(int n, const NamedValue *values, const char *name);
/// Prints "BM=64 plan=pull", the form that is also read; "" for an empty list.
const char *settings_text(Ctx *ctx, int n, const NamedValue *values);

/// One instance of a kernel: all inputs of elaboration. Names are as in the source.
typedef struct Inst {
    const FnDef *kernel;
    int n_params;
    ParamInst *params; // one for each parameter, in order
    int n_set;
    NamedValue *set; // tune values, and schedule axes such as `split`
    int n_dims;
    NamedValue *dims; // dims (or generics' alternatives) fixed by hand: `--given D=64`
    bool check;       // keep asserts
    bool tentative;   // values are made up: a condition that fails with them is no error
} Inst;

/// Makes an instance with defaults for unknown facts: the first alternative of each constraint, the
/// `given` values, 64 for other dims that must be constant, and tune values from fe_tune_default.
Inst *fe_default_inst(Ctx *ctx, const Program *p, const FnDef *kernel);
/// Returns the parameter's element in a default instance, or EL_COUNT.
Elem fe_default_elem(const FnDef *kernel, const Param *p);
/// An element for a type parameter of a kernel.
typedef struct TypeChoice {
    const Generic *generic;
    Elem elem;
} TypeChoice;
/// Sets the type parameter in a default instance.
void fe_choose_type(Ctx *ctx, Inst *inst, TypeChoice choice);
/// Whether the constraint of a type parameter allows an element.
bool fe_constraint_allows(const Generic *g, Elem elem);

/// One point of the tune space.
///
/// The space has every combination of tune values that satisfies `where`, times the axes that
/// `schedule` pins or narrows and the instance leaves open. fe_configs lists at most `max` points;
/// the first one takes the first alternatives.
typedef struct Config {
    int n;
    NamedValue *values;
} Config;
typedef VEC(Config) Configs;
void fe_configs(Ctx *ctx, const Program *p, const Inst *inst, int max, Configs *out);

/* ---- elaboration (elab*.c) ----------------------------------------------------------------- */

/// Tells the runtime how to prepare the argument of a parameter for this instance.
typedef struct ParamUse {
    const char *name;
    ParamKind kind;
    Elem elem;
    int rank; // of the tensor in the IR, merged packs included
    bool optional, null, written, read;
    int pack_at;    // first axis of `..N`, or -1
    int pack_given; // the number of the argument's axes that the pack takes
    int pack_rank;  // the number of axes after merging, at least 1: an empty pack is one axis of
                    // extent 1 and stride 1
    int pack_from[MAX_RANK + 1]; // merged axis i covers axes pack_from[i] .. pack_from[i + 1] of
                                 // the pack; its stride is that of the last axis whose extent is
                                 // not 1
} ParamUse;

/// A dim, and the axis that has its value at launch. The code is right for extents from least to
/// most. Both equal the extent if the code holds the dim as a constant; with `cover` they span one
/// step of its ladder.
typedef struct DimUse {
    const char *name;
    int param, axis; // axes after merging
    int64_t least, most;
} DimUse;

/// The result of elaboration. The region of the kernel op has one argument for each parameter,
/// except for CONST and null ones; the op's `params` attribute names them.
typedef struct Elaborated {
    Op *module;       // tile IR: this kernel and the kernels that it calls, or NULL after errors
    const char *name; // of the kernel op
    int n_params;
    ParamUse *params;
    int n_specialised;       // dims that the code holds as constants; after errors, the number of
                             // dim values that may have caused them
    NamedValue *specialised; // their values: part of the key of the code
    int n_dims;
    DimUse *dims; // all dims, in the order in which parameters bind them
    int n_config;
    NamedValue *config; // the tune values of this instance
} Elaborated;

Elaborated *fe_elaborate(Ir *ir, const Program *p, const Inst *inst);

/// Returns the library of expand-math: the scalar fns of std/math.teg and its imports that
/// lang/elementwise.def names, as a module of funcs. With `uses`, it holds only the fns that the
/// ops in `uses` may need; with NULL, all of them.
Op *fe_math_library(Ir *ir, Op *uses);

/// Checks the files of `library->library` as a whole. No name may have two definitions, even in
/// files that are never imported together. The fn of each row FUNCTION of lang/elementwise.def must
/// exist, have the row's type, and elaborate. Returns false after reporting errors.
bool fe_check_library(Ctx *ctx, const Importer *library);

#endif
