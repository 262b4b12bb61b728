// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Internals of the NVVM writer.
#ifndef BACKENDS_NVIDIA_NVVM_WRITER_H
#define BACKENDS_NVIDIA_NVVM_WRITER_H

#include "backends/nvidia/nvidia.h"

typedef struct Writer {
    Ctx *ctx;
    LLVMModuleRef module;
    bool typed_byval; // byval([128 x i8]), which libNVVM expects from sm_100 on
    Text out;
    Text tail;             // metadata nodes, printed at the end
    int casts;             // names used up for casts of pointers
    int nodes;             // metadata numbers used up
    PtrMap numbers;        // metadata node -> its number + 1
    int unit;              // number of the compile unit + 1; 0: none
    LLVMMetadataRef scope; // of the current function, or NULL
} Writer;

/* ---- nvvm_writer.c ------------------------------------------------------------------------- */

void write_type(Writer *w, LLVMTypeRef t);
void write_name(Writer *w, char sigil, const char *name);
void write_escaped(Writer *w, const char *s, size_t n);
void write_value(Writer *w, LLVMValueRef v);
/// Writes type, blank, value.
void write_typed(Writer *w, LLVMValueRef v);
bool is_byval(LLVMValueRef fn, unsigned param);

/* ---- nvvm_instruction.c -------------------------------------------------------------------- */

void write_instruction(Writer *w, LLVMValueRef inst);

/* ---- nvvm_metadata.c ----------------------------------------------------------------------- */

/// Writes the attachments of an instruction: ", !dbg !N, !range !M".
void write_attached(Writer *w, LLVMValueRef inst);
/// Writes " !dbg !N" for a function with debug information, the scope of the following locations.
void write_subprogram(Writer *w, LLVMValueRef fn);
/// Writes annotations of kernels, flags and all nodes.
void write_module_metadata(Writer *w);

#endif
