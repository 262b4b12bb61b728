// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The names of a program, for editors: all definitions, the definition of each use, and the types
// of one file's values. fe_load_names fills the first two while it checks names, and elaboration
// adds the types. A program without such a table costs a test of a pointer for each name.
#ifndef FRONTEND_NAMES_H
#define FRONTEND_NAMES_H

#include "frontend/frontend.h"

typedef enum NameKind {
    NAME_KERNEL,
    NAME_FN,
    NAME_CONSTANT,
    NAME_PARAM,
    NAME_TYPE_PARAM,
    NAME_DIM,
    NAME_TUNE,
    NAME_LET,
    NAME_VAR,
    NAME_SCRATCH,
    NAME_INDEX,
} NameKind;

/// A definition. The name of a local is visible from its place to `end`; that of an item in all
/// files that see the item.
typedef struct Definition {
    Name name;
    NameKind kind;
    const Item *item;     // KERNEL, FN, CONSTANT: the item; others: the item around the local
    const Param *param;   // of PARAM
    const TypeExpr *type; // as written, or NULL
    Loc end;              // the end of a local's scope
} Definition;

/// A use of a name. `to` is an index of the definitions, or -1 for a builtin or an element type.
typedef struct NameUse {
    Name name;
    int to;
    bool written; // by an assignment
    bool option;  // the name of a named argument, `axis` in `axis = 1`
    Loc target;   // of an option of a fn: the parameter, which may be defined later
} NameUse;

/// The type of an expression or of a bound name, in words: "f32<64, 32>".
typedef struct TypeNote {
    Loc loc;
    const Expr *expr; // NULL: the name that a definition binds
    const char *text;
    Loc call; // in a fn: the call with these types
} TypeNote;

/// The instance of a kernel that was elaborated for its types.
typedef struct KernelNote {
    const FnDef *kernel;
    const Elaborated *code;
} KernelNote;

typedef struct NameTable {
    uint16_t types_of; // the file whose types are kept; set by fe_load_names
    bool keeps_types;  // while an instance is elaborated whose types are worth showing
    VEC(Definition) definitions;
    PtrMap defined_at; // key of a place -> the index of its definition, plus 1
    VEC(NameUse) uses;
    VEC(TypeNote) types;
    VEC(KernelNote) kernels;
    PtrMap type_at; // key of a place -> the index of its note, plus 1
} NameTable;

/// As fe_load, and fills the table. The names of a file with errors are resolved, too, without
/// further messages.
Program *fe_load_names(Ctx *ctx, uint16_t file, const Importer *importer, NameTable *names);

void names_define_item(Ctx *ctx, NameTable *names, const Item *item);
/// Sets `to` of the uses by `target`. Call it when all definitions are known.
void names_link(NameTable *names);
/// Returns the index of the new definition.
int names_define(Ctx *ctx, NameTable *names, Definition d);
void names_use(Ctx *ctx, NameTable *names, NameUse use);
/// Keeps a type. A later type of the same place replaces it. `expr` as in TypeNote.
void names_type(Ctx *ctx, NameTable *names, TypeNote note);
/// Returns the definition that begins at this place, or -1.
int names_definition_at(const NameTable *names, Loc loc);
/// Returns the type of the name that a definition binds, or NULL.
const TypeNote *names_type_of(const NameTable *names, Loc name);

/// The rows of builtins as an editor shows them: "x, f", "axis order=fixed".
typedef struct BuiltinText {
    const char *name, *args, *named, *meaning; // meaning: "" if only the reference has it
} BuiltinText;
/// Returns the number of builtins; fills *out. A builtin has one row.
int builtin_texts(Ctx *ctx, const BuiltinText **out);

#endif
