// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Reports the vendors' tools: see installed_tools.h.
#include "backends/installed_tools.h"

#include <stdio.h>

#include "backends/amdgpu/amdgpu.h"
#include "backends/nvidia/cubin_link.h"

bool tool_installed(GpuTool tool, InstalledTool *out) {
    *out = (InstalledTool){0};
    switch (tool) {
    case TOOL_NVVM:
        if (nvvm_available() && nvvm_path()) snprintf(out->path, TOOL_PATH, "%s", nvvm_path());
        break;
    case TOOL_PTXAS:
        if (nv_ptxas_path(out->path)) out->release = nv_ptxas_release(out->path);
        break;
    case TOOL_NVJITLINK: out->release = nv_jitlink_path(out->path); break;
    case TOOL_COMGR: amd_comgr_path(out->path); break;
    case TOOL_LLD: amd_lld_path(out->path); break;
    case GPU_TOOLS: break;
    }
    return out->path[0];
}
