// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// PTX to machine code.
#ifndef BACKENDS_NVIDIA_LINK_H
#define BACKENDS_NVIDIA_LINK_H

#include "backends/gpu/tool.h"
#include "backends/nvidia/nvidia.h"

/// Whether nvJitLink is here and a driver of this CUDA version (12040; 0: any) runs what it makes.
bool nv_link_available(int driver);
/// PTX (with its NUL byte not counted) to a cubin for a machine ("sm_90a"). *by names who did it.
/// NV_ABSENT: the driver has to do it; there is neither nvJitLink nor ptxas, or no ptxas for what
/// nvJitLink would compile badly.
NvStatus nv_link(const char *ptx, size_t bytes, const char *machine, int driver, NvOutput *out,
                 const char **by);

enum { NV_TOOLS = 3 };
/// The files of libNVVM (with `nvvm`), nvJitLink and ptxas (with `link`), those that there are; how
/// many.
int nv_tools(bool nvvm, bool link, int driver, char paths[NV_TOOLS][TOOL_PATH]);

#endif
