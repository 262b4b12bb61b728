// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The portable module: LLVM IR restricted to a closed table of constructs, which every GPU back end
// and the simulator accept. Functions `tg.*` stand for everything else. Each definition is a
// kernel.
//
//     attributes of a kernel   "tg.maxntid"="256,1,1" "tg.minctasm"="1" "tg.cluster"="2,1,1"
//     a tensor map             a parameter ptr byval([128 x i8]) align 64
#ifndef BACKENDS_LLVM_PORTABLE_H
#define BACKENDS_LLVM_PORTABLE_H

#include "backends/llvm/llvm.h"

/* ---- target functions (portable_functions.c) ----------------------------------------------- */

/// The memory that a function reads, writes or orders.
typedef enum FnEffect { FN_NONE, FN_SHARED, FN_GLOBAL, FN_ALL } FnEffect;
/// The group of threads that calls it together.
typedef enum FnScope { FN_LANE, FN_WARP, FN_WARPGROUP, FN_CTA, FN_CLUSTER } FnScope;

/// A row of portable.def, which describes the columns.
typedef struct FnRow {
    const char *name, *type;
    FnEffect effect;
    FnScope scope;
    const char *needs, *ptx, *amdgcn, *sim;
} FnRow;

enum { FN_CAPTURES = 6, FN_CAPTURE_BYTES = 20, FN_GROUPS = 8, FN_OPERANDS = 320 };

/// Registers of one type: the results, or operands that belong together.
typedef struct FnGroup {
    char letter; // of the type
    bool tied;   // the first `count` results are inputs here
    int count;
} FnGroup;

/// A function: a row with the immediates and types of its name.
typedef struct Fn {
    const FnRow *row;
    int n_captures, n_groups;
    struct FnCapture {
        char key, value[FN_CAPTURE_BYTES];
    } captures[FN_CAPTURES];
    FnGroup result, groups[FN_GROUPS];
} Fn;

/// Parses a name, for instance "tg.lane.id". Returns false if no row has the name.
bool fn_find(const char *name, Fn *out);
/// Returns the value of <key>, or NULL if the name has none.
const char *fn_capture(const Fn *fn, char key);
/// Whether the GPU has the function: it meets the needs and its code generator has the row.
bool fn_has(const FnRow *row, const struct GpuTarget *gpu);
/// Returns the needs in readable form: "sm_90a", "CDNA3|CDNA4".
const char *fn_needs(Ctx *ctx, const FnRow *row);
/// All rows, in the order of the table.
extern const FnRow fn_rows[];
extern const int fn_row_count;

LLVMTypeRef fn_letter_type(LLVMContextRef llvm, char letter);
/// Returns the type: one result is a scalar, several are a struct.
LLVMTypeRef fn_type(LLVMContextRef llvm, const Fn *fn);
/// Calls the function `name`, and declares it if necessary.
LLVMValueRef portable_call(const Gen *g, const char *name, int n_args, LLVMValueRef *args);

/// Replaces a call's results by n values. Removes the call and the extraction of its results.
void portable_replace(const Gen *g, LLVMValueRef call, int n, LLVMValueRef *values);

/* ---- the checker (portable.c) -------------------------------------------------------------- */

/// Metadata that instructions may have besides locations. Both dialects spell it alike, and our
/// code need not understand it. NULL-terminated.
extern const char *const portable_metadata[];

/// Leaves with a compiler bug at the first construct that is not in the table.
void portable_check(Ctx *ctx, LLVMModuleRef module);

#endif
