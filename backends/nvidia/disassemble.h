// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Machine code of NVIDIA's GPUs as text.
#ifndef BACKENDS_NVIDIA_DISASSEMBLE_H
#define BACKENDS_NVIDIA_DISASSEMBLE_H

#include "backends/external_tool.h"

/// Prints a cubin's machine code to out->log, by nvdisasm or else cuobjdump of the CUDA toolkit.
/// `program` is the path of the one that ran, "" if there is none; out->end tells how it ended. The
/// caller calls tool_output_free.
bool nv_disassemble(const char *cubin, size_t bytes, char program[TOOL_PATH], ToolOutput *out);

#endif
