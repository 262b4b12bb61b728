// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The vendors' tools that make code for GPUs, as this machine has them.
#ifndef BACKENDS_INSTALLED_TOOLS_H
#define BACKENDS_INSTALLED_TOOLS_H

#include "backends/external_tool.h"

typedef enum GpuTool {
    TOOL_NVVM,
    TOOL_PTXAS,
    TOOL_NVJITLINK,
    TOOL_COMGR,
    TOOL_LLD,
    GPU_TOOLS
} GpuTool;

typedef struct InstalledTool {
    char path[TOOL_PATH]; // "": there is none
    int release;          // of CUDA: 13000; 0: unknown
} InstalledTool;

/// Looks for a tool as the compiler does, and loads libraries. Returns false if there is none.
bool tool_installed(GpuTool tool, InstalledTool *out);

#endif
