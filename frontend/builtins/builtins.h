// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The table of builtins as the elaborator sees it.
#ifndef FRONTEND_BUILTINS_BUILTINS_H
#define FRONTEND_BUILTINS_BUILTINS_H

#include "frontend/frontend.h"

typedef struct Elab Elab;
typedef struct Builtin Builtin;
typedef struct Val Val;

/// The call of a builtin. `args` are the positional arguments, evaluated but for a place;
/// `named` those of the row's `named`, in its order, V_ABSENT where left out.
typedef struct Call {
    Loc loc;
    const Builtin *builtin;
    int n;
    const Val *args;
    const Expr *const *exprs; // of the positional arguments; NULL where called by el_call
    Loc *locs;                // of the positional arguments
    const Val *named;
    const Loc *named_locs;
} Call;

enum BuiltinFlag {
    BF_EFFECT = 1,  // stands alone as a statement or as a whole right side
    BF_PLACE = 2,   // argument 0 is a place (or a tuple of them): given as exprs[0], not evaluated
    BF_PROGRAM = 4, // inside `parallel` only
    BF_HOST = 8,    // outside `parallel` only, as in `require`
    BF_SIGNAL = 16, // argument 2 is a place, too
};

/// `named`: "axis reverse precision=ieee|tf32|tf32x3|fast ...": names, each with the words it
/// takes. A word wins over a variable of that name; its Val is V_WORD.
struct Builtin {
    const char *name;
    int min_args, max_args; // positional ones; max -1: any number
    const char *args;       // what they are, for messages; "" for an elementwise op
    const char *named;
    int flags;
    Val (*apply)(Elab *e, const Call *call);
    int arg; // whatever apply wants to know: an OpCode, element classes
};

/// NULL where there is none. Elementwise ops are found by their name, too.
const Builtin *builtin_by_name(const char *name);
/// All names, for "did you mean"; returns how many.
int builtin_names(Ctx *ctx, const char *const **names);

#endif
