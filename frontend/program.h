// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A program: a source file, its imports, and the library's prelude.
#ifndef FRONTEND_PROGRAM_H
#define FRONTEND_PROGRAM_H

#include "frontend/frontend.h"
#include "frontend/names.h"

typedef struct LoadedFile {
    const Module *module;
    const char *path; // the path in the import or in the library
    bool library;     // the file is embedded
} LoadedFile;

/// Two name spaces: a file may redefine a name of the prelude without changing the prelude's own
/// meaning.
struct Program {
    Ctx *ctx;
    const Importer *importer;
    const Module *main;
    VEC(LoadedFile) files;
    PtrMap own;     // name -> Item of the file and its imports
    PtrMap library; // name -> Item of the prelude
    VEC(const FnDef *) kernels;
    PtrMap *constants; // Item -> its value, once computed (elab_scope.c)
    bool broken;       // the program has errors and cannot be elaborated
    NameTable *names;  // for editors, or NULL
};

/// Finds a fn, a kernel or a constant by name, or returns NULL. Library files see the library
/// alone, the prelude first; other files see their own definitions first.
const Item *program_find(const Program *p, const char *name, uint16_t from);
/// Computes, once, the value of a top-level constant that is an integer or a truth value.
bool program_constant(const Program *p, const Item *item, int64_t *out);
bool program_is_library(const Program *p, uint16_t file);
/// Returns the definition or builtin whose name is closest to `name`, or NULL.
const char *program_closest(const Program *p, const char *name);
/// Reports errors in names that need no instance: undefined names, names that hide others, and
/// unused names (name_check.c).
void program_check_names(const Program *p, const Module *m);
/// Adds a hint with the element type that was probably meant, after the message that `name` is not
/// one.
void hint_elem(Ctx *ctx, Name name);

/* ---- integer_value.c ------------------------------------------------------------------------ */

/// Looks up the value of a name; returns false if it has no value.
typedef bool ExprLookup(void *user, const Expr *name, int64_t *out);
/// Computes an integer expression over names. On failure it returns false and sets *unknown, if not
/// NULL, to the offending name or to "an expression".
bool expr_value(const Expr *e, ExprLookup *lookup, void *user, int64_t *out, const char **unknown);

#endif
