// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// PTX to machine code.
#ifndef BACKENDS_NVIDIA_CUBIN_LINK_H
#define BACKENDS_NVIDIA_CUBIN_LINK_H

#include "backends/external_tool.h"
#include "backends/nvidia/nvidia.h"

/// Whether something here makes machine code of PTX of a version (80) that a driver of this CUDA
/// version (12040; 0: any) runs.
bool nv_link_available(int ptx, int driver);

/// PTX that is made a cubin: by ptxas, which is still at it, or by nvJitLink, which is done.
typedef struct NvLink {
    const char *by; // who
    NvStatus status;
    NvOutput made;
    ToolRun *run; // NULL: done
    const char *ptx, *machine;
    size_t bytes;
    int driver;
} NvLink;

/// Begins it, for a machine ("sm_90a"); the NUL byte of the PTX, which stays where it is until the
/// end, is not counted. Status NV_ABSENT: the driver has to do it; there is neither nvJitLink nor
/// ptxas, or no ptxas for what nvJitLink would compile badly.
void nv_link_start(NvLink *l, const char *ptx, size_t bytes, const char *machine, int driver);
/// Waits until it is done.
NvStatus nv_link_finish(NvLink *l);
/// What was made goes, and a program still at work with it.
void nv_link_free(NvLink *l);

enum { NV_TOOLS = 3 };
/// The files of libNVVM (with `nvvm`), ptxas, and nvJitLink where it goes first or there is no
/// ptxas (both with `link`), those that there are; how many. Nothing is run to find out, nor loaded
/// beside ptxas.
int nv_tools(bool nvvm, bool link, int driver, char paths[NV_TOOLS][TOOL_PATH]);

#endif
