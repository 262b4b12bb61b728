// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Debug information of a module; every call does nothing where the module has none.
#ifndef BACKENDS_LLVM_DEBUG_H
#define BACKENDS_LLVM_DEBUG_H

#include "backends/llvm/llvm.h"

void debug_begin(Gen *g);
/// After the last function.
void debug_end(Gen *g);
/// Gives fn a scope for the locations in it.
LLVMMetadataRef debug_subprogram(Gen *g, LLVMValueRef fn, Loc loc, const char *name);
/// Instructions built from here on belong to loc.
void debug_location(Gen *g, LLVMMetadataRef scope, Loc loc);
/// From here on, x is the value of the source's variable `name`.
void debug_variable(Gen *g, LLVMMetadataRef scope, Elem elem, Loc loc, const char *name,
                    LLVMValueRef x);

#endif
