// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Prints machine code as text by a program of the CUDA toolkit.
#include "backends/nvidia/disassemble.h"

#include "backends/nvidia/toolkit_search.h"

/// Searches $CUDA_HOME, PATH, the usual place.
static bool find_program(const char *name, const char *below, const char *usual, char *out) {
    const char *const home[] = {below, NULL}, *const system[] = {usual, NULL};
    return nv_toolkit_search(home, tool_take, out) || tool_in_path(name, out) ||
           nv_toolkit_search(system, tool_take, out);
}

bool nv_disassemble(const char *cubin, size_t bytes, char program[TOOL_PATH], ToolOutput *out) {
    static const struct {
        const char *name, *below, *usual, *option;
    } programs[] = {
        {"nvdisasm", "bin/nvdisasm", "/usr/local/cuda*/bin/nvdisasm", "-c"},
        {"cuobjdump", "bin/cuobjdump", "/usr/local/cuda*/bin/cuobjdump", "-sass"},
    };
    *out = (ToolOutput){0};
    for (size_t i = 0; i < sizeof programs / sizeof *programs; i++) {
        if (!find_program(programs[i].name, programs[i].below, programs[i].usual, program))
            continue;
        const char *const arguments[] = {program, programs[i].option, tool_in, NULL};
        tool_run(program, arguments, cubin, bytes, out);
        return out->succeeded && out->log;
    }
    *program = 0;
    return false;
}
