// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// PTX to machine code.
#ifndef BACKENDS_NVIDIA_CUBIN_LINK_H
#define BACKENDS_NVIDIA_CUBIN_LINK_H

#include "backends/external_tool.h"
#include "backends/nvidia/nvidia.h"

/// Whether a linker is available that turns PTX of a version (80) into machine code for a driver of
/// this CUDA version (12040; 0: any).
bool nv_link_available(int ptx, int driver);

/// A link of PTX to a cubin: by ptxas, which may still be running, or by nvJitLink, which has
/// finished.
typedef struct NvLink {
    const char *by; // the linker's name
    NvStatus status;
    NvOutput made;
    ToolRun *run; // NULL: finished
    const char *ptx, *machine;
    size_t bytes;
    int driver;
} NvLink;

/// Starts a link for a machine ("sm_90a"). `bytes` excludes the NUL byte of the PTX, which must
/// stay valid until the end. Status NV_ABSENT: the driver has to compile. nvJitLink and ptxas are
/// both absent, or ptxas is absent for code that nvJitLink would compile badly.
void nv_link_start(NvLink *l, const char *ptx, size_t bytes, const char *machine, int driver);
/// Waits until it has finished.
NvStatus nv_link_finish(NvLink *l);
/// Frees the result, and ends a program that is still running.
void nv_link_free(NvLink *l);

/// Loads nvJitLink. Returns its release (13000); 0: there is none. `out` has TOOL_PATH bytes.
int nv_jitlink_path(char *out);

enum { NV_TOOLS = 3 };
/// Lists the existing files of libNVVM (with `nvvm`), of ptxas, and of nvJitLink if it goes first
/// or ptxas is absent (both with `link`). Returns their number. It runs nothing, and loads nothing
/// if ptxas is present.
int nv_tools(bool nvvm, bool link, int driver, char paths[NV_TOOLS][TOOL_PATH]);

#endif
