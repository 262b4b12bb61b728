// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// ptxas, a program of the CUDA toolkit: PTX to a cubin, with what it says of registers and spills.
#include <stdio.h>
#include <stdlib.h>

#include "backends/gpu/tool.h"
#include "backends/nvidia/nvidia.h"
#include "backends/nvidia/search.h"

/// TG_PTXAS, else $CUDA_HOME, PATH, the usual place.
bool nv_ptxas_path(char *out) {
    static const char *const below[] = {"bin/ptxas", NULL};
    static const char *const usual[] = {"/usr/local/cuda*/bin/ptxas", NULL};
    const char *set = getenv("TG_PTXAS");
    if (set && *set) return tool_take(set, out);
    return nv_search(below, tool_take, out) || tool_in_path("ptxas", out) ||
           nv_search(usual, tool_take, out);
}

NvStatus nv_ptxas(const char *ptx, size_t bytes, const NvArch *arch, NvOutput *out) {
    char program[TOOL_PATH], name[32];
    const char *arguments[] = {"ptxas", "-v", name, tool_in, "-o", tool_out, NULL};
    ToolOutput made;
    *out = (NvOutput){0};
    if (!nv_ptxas_path(program)) return NV_ABSENT;
    snprintf(name, sizeof name, "-arch=%s", arch->name);
    bool good = tool_run(program, arguments, ptx, bytes, &made);
    *out = (NvOutput){.data = made.data, .bytes = made.bytes, .log = made.log};
    return good ? NV_OK : NV_FAILED;
}
