// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A program: a source file, what it imports, and the library's prelude.
#ifndef FRONTEND_PROGRAM_H
#define FRONTEND_PROGRAM_H

#include "frontend/frontend.h"

typedef struct LoadedFile {
    const Module *module;
    const char *path; // as the importer or the library names it
    bool library;     // embedded
} LoadedFile;

/// Two name spaces, so that a file may define what the prelude defines, too, without changing what
/// the prelude means.
struct Program {
    Ctx *ctx;
    const Importer *importer;
    const Module *main;
    VEC(LoadedFile) files;
    PtrMap own;     // name -> Item of the file and its imports
    PtrMap library; // name -> Item of the prelude
    VEC(const FnDef *) kernels;
    PtrMap *constants; // Item -> its value, once it is known (elab_scope.c)
    bool broken;       // there were errors: nothing can be elaborated
};

/// A fn, a kernel or a constant by name, or NULL. Library files see the prelude first, other
/// files their own definitions.
const Item *program_find(const Program *p, const char *name, uint16_t from);
/// The value of a top-level constant that is an integer or a truth value. It is computed once.
bool program_constant(const Program *p, const Item *item, int64_t *out);
bool program_is_library(const Program *p, uint16_t file);
/// The name that `name` was probably meant to be, among definitions and builtins, or NULL.
const char *program_closest(const Program *p, const char *name);
/// Reports what can be seen without an instance: names that nothing defines, that hide others or
/// that nothing uses (name_check.c).
void program_check_names(const Program *p, const Module *m);
/// After the message that `name` is no element type: what was probably meant.
void hint_elem(Ctx *ctx, const char *name);

/* ---- integer_value.c ------------------------------------------------------------------------ */

/// The value of a name; false where it has none.
typedef bool ExprLookup(void *user, const Expr *name, int64_t *out);
/// The value of an integer expression over names. False where there is none: *unknown, if it is not
/// NULL, is then the name at fault, or "an expression".
bool expr_value(const Expr *e, ExprLookup *lookup, void *user, int64_t *out, const char **unknown);

#endif
