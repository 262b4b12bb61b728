// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The table of builtins as the elaborator sees it.
#ifndef FRONTEND_BUILTINS_BUILTINS_H
#define FRONTEND_BUILTINS_BUILTINS_H

#include "frontend/frontend.h"

typedef struct Elab Elab;
typedef struct Builtin Builtin;
typedef struct Val Val;

/// A call of a builtin. `args` has the values of the positional arguments, except for a place.
/// `named` has the values for the row's `named`, in its order; V_ABSENT if omitted.
typedef struct Call {
    Loc loc;
    const Builtin *builtin;
    int n;
    const Val *args;
    const Expr *const *exprs; // of the positional arguments; NULL in a call by el_call
    Loc *locs;                // of the positional arguments
    const Val *named;
    const Loc *named_locs;
} Call;

enum BuiltinFlag {
    BF_EFFECT = 1,  // the call is a whole statement or a whole right side
    BF_PLACE = 2,   // argument 0 is a place (or a tuple of them): given as exprs[0], not evaluated
    BF_PROGRAM = 4, // inside `parallel` only
    BF_HOST = 8,    // outside `parallel` only, as in `require`
    BF_SIGNAL = 16, // argument 2 is a place too
};

/// A row of the table. `named` is "axis reverse precision=ieee|tf32|tf32x3|fast ...": names, each
/// with its words. A word takes precedence over a variable of that name; its Val is V_WORD.
struct Builtin {
    const char *name;
    int min_args, max_args; // positional arguments; max -1: any number
    const char *args;       // their description, for messages; "" for an elementwise op
    const char *named;
    int flags;
    Val (*apply)(Elab *e, const Call *call);
    int arg;             // data for `apply`: an OpCode or element classes
    const char *meaning; // for editors
};

/// Finds a builtin or an elementwise op by name, or returns NULL.
const Builtin *builtin_by_name(const char *name);
/// Returns the number of builtins, and all names, for "did you mean".
int builtin_names(Ctx *ctx, const char *const **names);

#endif
