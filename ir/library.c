// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The functions of lang/elementwise.def.
#include "ir/library.h"

// The start of a row FUNCTIONS, as messages show it.
#define PAIR_TEXT(op, fn) "FUNCTIONS(" #op ", " #fn ", "

const LibraryFn library_fns[N_LIBRARY_FNS] = {
#define FUNCTION(op, elem, fn)                                                                     \
    {OP_##op, EL_##elem, #fn, "FUNCTION(" #op ", " #elem ", " #fn ")", __LINE__, 0, NULL},
#define FUNCTIONS(op, fn, ulps32, ulps64, least, greatest, how)                                    \
    {OP_##op, EL_F32, #fn "_f32", PAIR_TEXT(op, fn), __LINE__, ulps32, how},                       \
        {OP_##op, EL_F64, #fn "_f64", PAIR_TEXT(op, fn), __LINE__, ulps64, how},
#include "lang/elementwise.def"
};

const LibraryFn *library_fn(OpCode op, Elem elem) {
    for (int i = 0; i < N_LIBRARY_FNS; i++)
        if (library_fns[i].op == op && library_fns[i].elem == elem) return &library_fns[i];
    return NULL;
}
