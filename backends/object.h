// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Object files: the code of many kernels, the data that describes them to the runtime, and a C
// function for each. All are in one LLVM module, so no linker is needed.
//
//     object_create
//     cpu_backend.add      for each variant: its code, an internal function
//     object_image         of a GPU: what such a function launches; one may go with several images
//     object_export        for each kernel and element types: data and C function
//     object_finish        machine code and texts
#ifndef BACKENDS_OBJECT_H
#define BACKENDS_OBJECT_H

#include "backends/backend.h"

/* ---- the C function of a kernel ------------------------------------------------------------ */

/// A dim that is computed from arguments. The arithmetic is the language's: x / 0 and x % 0 are 0.
typedef struct CExpr CExpr;
struct CExpr {
    enum CExprKind {
        CX_CONST,
        CX_ARG,
        CX_ADD,
        CX_SUB,
        CX_MUL,
        CX_DIV,
        CX_REM,
        CX_MIN,
        CX_MAX
    } kind;
    int64_t value; // CONST: the number; ARG: the argument's index
    const CExpr *a, *b;
};

/// An argument of the C function: a pointer, a number, a dim (int64_t).
typedef struct CArg {
    const char *name; // in C
    enum CArgKind { CARG_TENSOR, CARG_SCALAR, CARG_DIM } kind;
    Elem elem;          // of a tensor's elements; of a scalar as C passes it, without small floats
    uint8_t code, bits; // DLPack's type of a tensor
} CArg;

/// A parameter of the kernel as the C function passes it.
typedef struct CParam {
    int arg;
    bool optional;
    int rank;
    const CExpr *dims[MAX_RANK]; // row-major without gaps
} CParam;

/// The C function takes the parameters of the kernel in order, then the dims.
typedef struct CFunction {
    int n_args, n_params;
    const CArg *args;
    const CParam *params;
} CFunction;

/* ---- objects ------------------------------------------------------------------------------- */

/// A kernel with its element types, as the file exports it.
typedef struct ObjectExport {
    const char *symbol;         // of the C function
    const char *kernel_symbol;  // of the tg_kernel
    const tg_kernel_info *info; // the entries of variants are NULL here, and named below
    const char *const *entries; // host code of each variant
    const char *const *images;  // the image that it launches; NULL: the variant runs on the CPU
    const CFunction *function;  // or NULL
} ObjectExport;

/// Creates an empty object for an architecture. `name` serves as its file name.
Object *object_create(Ctx *ctx, const char *arch, const char *name);
void object_export(Object *o, const ObjectExport *x);
/// Adds device code that variants name, before object_export.
void object_image(Object *o, const char *name, const tg_image *image);
/// Returns machine code, and the texts of `texts`, released with the context. Nothing may be added
/// afterwards.
Code *object_finish(Object *o, int texts);
/// Returns the bytes of code in functions whose name is `prefix`, or begins with it and a dot.
int64_t code_bytes(const Code *code, const char *prefix);

#endif
