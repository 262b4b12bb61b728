// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The table of lang/library.def.
#include "ir/library.h"

#define ROW_TEXT(op, elem, fn) "FUNCTION(" #op ", " #elem ", " #fn ")"

const LibraryFn library_fns[N_LIBRARY_FNS] = {
#define FUNCTION(op, elem, fn) {OP_##op, EL_##elem, #fn, ROW_TEXT(op, elem, fn), __LINE__},
#include "lang/library.def"
};

const LibraryFn *library_fn(OpCode op, Elem elem) {
    for (int i = 0; i < N_LIBRARY_FNS; i++)
        if (library_fns[i].op == op && library_fns[i].elem == elem) return &library_fns[i];
    return NULL;
}
