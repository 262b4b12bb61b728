// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What the front end offers: source text in, tile IR of one kernel instance out.
#ifndef FRONTEND_FRONTEND_H
#define FRONTEND_FRONTEND_H

#include "frontend/ast.h"
#include "ir/ir.h"

/* ---- parsing (parse.c) --------------------------------------------------------------------- */

/// The tree of a registered source. Never NULL: after errors (diagnosed) it holds what was read.
Module *fe_parse(Ctx *ctx, uint16_t file);
/// The canonical spelling of a source that parses; NULL with diagnostics where it does not.
char *fe_format(Ctx *ctx, uint16_t file);

/* ---- programs: a module and all it imports (program.c) ------------------------------------- */

/// Finds the text of an import. `from` is the path of the importing source. Returns the file
/// number of the registered source, or 0, with errno, where there is none. Files of the library,
/// "std/..." and the prelude, are found without it; so `find` may be NULL.
typedef struct Importer {
    uint16_t (*find)(void *user, Ctx *ctx, const char *path, const char *from);
    void *user;
    const struct tg_embedded *library; // NULL: the embedded files (stdlib/embedded.h)
} Importer;

/// Registers a file of the library ("std/math.teg") once; 0 where it has none of that path.
uint16_t library_source(Ctx *ctx, const Importer *importer, const char *path);

typedef struct Program Program; // names of all definitions, prelude included
/// Parses `file` and its imports, and checks names. Never NULL; diagnoses.
Program *fe_load(Ctx *ctx, uint16_t file, const Importer *importer);
int fe_kernel_count(const Program *p); // kernels of the file itself, in order
const FnDef *fe_kernel(const Program *p, int i);
/// By name; NULL where there is none. A NULL name finds the only kernel.
const FnDef *fe_find_kernel(const Program *p, const char *name);

/* ---- instances (signature.c) --------------------------------------------------------------- */

typedef enum ParamKind { PARAM_TENSOR, PARAM_SCALAR, PARAM_CONST } ParamKind;

// Of a kernel, and of its type parameters: the same for every target and way to launch.
enum { MAX_PARAMS = 256, MAX_TYPE_PARAMS = 64 };

enum { TENSOR_ALIGN = 16 }; // Type.align of tensors whose rows copies take best, in code for GPUs

/// A choice of the compiler's own, which `schedule` pins and --set may make.
bool is_schedule_axis(const char *name);

/// What a caller passes for one parameter, as far as it is known when compiling.
typedef struct ParamInst {
    Elem elem;        // TENSOR, SCALAR: of the argument; EL_COUNT where not known
    bool null;        // an optional tensor that is not there
    bool known_shape; // extents below hold
    int rank;         // of the argument, packs not merged
    int64_t extents[MAX_RANK];
    int64_t strides[MAX_RANK]; // where known_strides
    bool known_strides;
    int align;        // TENSOR: the code may rely on this alignment (16, 8 or 4); 0: on none
    bool near;        // TENSOR: ... and on Type.near
    bool known_value; // SCALAR of integer type or CONST
    int64_t value;
} ParamInst;

typedef struct NamedValue {
    const char *name;
    int64_t value;
} NamedValue;

/// The first of this name, or NULL.
const NamedValue *value_of_name(int n, const NamedValue *values, const char *name);
/// "BM=64 plan=pull", as they are read; "" of none.
const char *settings_text(Ctx *ctx, int n, const NamedValue *values);

/// One instance of a kernel: everything that elaboration depends on. Names are as in the source.
typedef struct Inst {
    const FnDef *kernel;
    int n_params;
    ParamInst *params; // one a parameter, in order
    int n_set;
    NamedValue *set; // tune values, and schedule axes such as `split`
    int n_dims;
    NamedValue *dims; // dims (or generics' alternatives) fixed by hand: `--given D=64`
    bool check;       // keep asserts
    bool tentative;   // values are made up: that conditions fail with them says nothing
} Inst;

/// An instance with defaults for whatever is not known: first alternative of each constraint, the
/// `given` values, 64 for other dims that must be constant; tune values from fe_tune_default.
Inst *fe_default_inst(Ctx *ctx, const Program *p, const FnDef *kernel);
/// An element for a type parameter of a kernel.
typedef struct TypeChoice {
    const Generic *generic;
    Elem elem;
} TypeChoice;
/// Sets the type parameter in a default instance.
void fe_choose_type(Ctx *ctx, Inst *inst, TypeChoice choice);
/// Whether the constraint of a type parameter allows an element.
bool fe_constraint_allows(const Generic *g, Elem elem);

/// The tune space: every combination of tune values that satisfies `where` and of the axes that
/// `schedule` pins or narrows and the instance does not set, at most `max`. The first one takes the
/// first alternatives.
typedef struct Config {
    int n;
    NamedValue *values;
} Config;
typedef VEC(Config) Configs;
void fe_configs(Ctx *ctx, const Program *p, const Inst *inst, int max, Configs *out);

/* ---- elaboration (elab*.c) ----------------------------------------------------------------- */

/// How the runtime must prepare the arguments for this instance.
typedef struct ParamUse {
    const char *name;
    ParamKind kind;
    Elem elem;
    int rank; // of the tensor in the IR, merged packs included
    bool optional, null, written, read;
    int pack_at;    // first axis of `..N`, or -1
    int pack_given; // how many axes of the argument the pack takes
    int pack_rank;  // how many are left after merging, at least 1: a pack of no axes is one of
                    // extent 1 and stride 1
    int pack_from[MAX_RANK + 1]; // axis i of those left is axes pack_from[i] .. [i + 1] of the
                                 // pack, its stride that of the last one whose extent is not 1
} ParamUse;

/// A dim, and the axis that says it at launch. The code is right for extents from least to most of
/// that axis: both are the extent where the code holds the dim as a constant, `cover` allows a step
/// of its ladder.
typedef struct DimUse {
    const char *name;
    int param, axis; // axes as merged
    int64_t least, most;
} DimUse;

/// The region of the kernel op has one argument a parameter, without those that are CONST or null;
/// the op's `params` names them.
typedef struct Elaborated {
    Op *module;       // tile IR: this kernel (and those it calls), or NULL after errors
    const char *name; // of the kernel op
    int n_params;
    ParamUse *params;
    int n_specialised;       // dims that the code holds as constants; after errors, how many values
                             // of dims may have led to them
    NamedValue *specialised; // and their values: part of the key of the code
    int n_dims;
    DimUse *dims; // all, in the order in which parameters bind them
    int n_config;
    NamedValue *config; // tune values taken
} Elaborated;

Elaborated *fe_elaborate(Ir *ir, const Program *p, const Inst *inst);

/// The scalar fns of std/math.teg and its imports that lang/library.def names, as a module of
/// funcs: the library of expand-math. Those that the ops of `uses` may need; all where it is NULL.
Op *fe_math_library(Ir *ir, Op *uses);

/// Checks the files of `library->library` as a whole. No name may be defined twice, also where no
/// file imports both definitions. The fn of each row of lang/library.def must be there, be of the
/// row's type, and elaborate. False: there are messages.
bool fe_check_library(Ctx *ctx, const Importer *library);

#endif
