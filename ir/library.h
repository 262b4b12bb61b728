// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The rows FUNCTION and FUNCTIONS of lang/elementwise.def: the fn of std/math.teg that computes an
// op on a type.
#ifndef IR_LIBRARY_H
#define IR_LIBRARY_H

#include "ir/ir.h"

typedef struct LibraryFn {
    OpCode op;
    Elem elem;
    const char *name; // of the fn
    const char *row;  // the text in lang/elementwise.def,
    int line;         // and its line
    double ulps;      // the greatest error, in units in the last place
    const char *how;  // the method, in words; NULL: exact, by a row FUNCTION
} LibraryFn;

enum {
    N_LIBRARY_FNS = 0
#define FUNCTION(op, elem, fn) +1
#include "lang/elementwise.def"
};

extern const LibraryFn library_fns[N_LIBRARY_FNS];

/// Returns NULL if no fn computes the op on the type.
const LibraryFn *library_fn(OpCode op, Elem elem);

#endif
