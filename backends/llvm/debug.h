// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Debug information of a module. Every call does nothing for a module without it.
#ifndef BACKENDS_LLVM_DEBUG_H
#define BACKENDS_LLVM_DEBUG_H

#include "backends/llvm/llvm.h"

/// Debug information of the module. lines: only the lines of instructions (`.loc` of PTX). Full
/// information would make NVIDIA's assembler leave the code without optimisation.
void debug_begin(Gen *g, bool lines);
/// Ends debug information, after the last function.
void debug_end(Gen *g);
/// Gives fn a scope for the locations in it.
LLVMMetadataRef debug_subprogram(Gen *g, LLVMValueRef fn, Loc loc, const char *name);
/// Assigns loc to the instructions built from here on.
void debug_location(Gen *g, LLVMMetadataRef scope, Loc loc);
/// A variable of the source: a scalar, or a block in memory. strides count elements and fall from
/// axis to axis.
typedef struct DebugVariable {
    const char *name;
    Loc loc;
    Elem elem;
    int rank; // 0: a scalar
    int64_t bytes, extents[MAX_RANK], strides[MAX_RANK];
} DebugVariable;

/// Makes x the value of the variable from here on: a scalar, or the address of a block.
void debug_variable(Gen *g, LLVMMetadataRef scope, const DebugVariable *v, LLVMValueRef x);

#endif
