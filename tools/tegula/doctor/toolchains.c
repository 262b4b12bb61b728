// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The vendors' tools that turn code for GPUs into machine code.
#include "tools/tegula/doctor/doctor.h"

#include "backends/installed_tools.h"

#include <stdlib.h>
#include <string.h>

/// amd: the tool is for AMD's GPUs, otherwise for NVIDIA's.
static const struct ToolRow {
    GpuTool tool;
    const char *name;
    bool amd;
    const char *purpose, *without; // what happens without it
} rows[] = {
    {TOOL_PTXAS, "ptxas", false, "assembles NVIDIA code",
     "nvJitLink, or else the driver at the first launch, assembles the code"},
    {TOOL_NVJITLINK, "nvJitLink", false, "assembles NVIDIA code in place of ptxas",
     "ptxas, or else the driver, assembles the code"},
    {TOOL_NVVM, "libNVVM", false, "another code generator (--codegen nvvm)",
     "LLVM generates the code"},
    {TOOL_COMGR, "comgr", true, "links AMD code", "lld links the code"},
    {TOOL_LLD, "lld", true, "links AMD code in place of comgr", "comgr links the code"},
};

static const char *release_text(Ctx *ctx, int release) {
    return release ? ctx_format(ctx, " of CUDA %d.%d", release / 1000, release % 1000 / 10) : "";
}

/// A driver loads no machine code of a later major release.
static bool is_too_new(const Doctor *d, const InstalledTool *t) {
    return d->cuda && t->release && t->release / 1000 > d->cuda / 1000;
}

static bool check_tool(Doctor *d, const struct ToolRow *row) {
    InstalledTool *t = ctx_new(d->ctx, InstalledTool);
    if (!tool_installed(row->tool, t)) {
        doctor_add(d, "tools", row->name, FINDING_ABSENT, "not found; %s", row->without);
        return false;
    }
    bool late = is_too_new(d, t);
    Finding *f =
        doctor_add(d, "tools", row->name, late ? FINDING_ABSENT : FINDING_OK, "%s%s, %s", t->path,
                   release_text(d->ctx, t->release),
                   late ? "is not used: the driver is of an earlier release" : row->purpose);
    if (late)
        doctor_advise(d, f, "update the driver, or set %s",
                      row->tool == TOOL_PTXAS ? "TG_PTXAS to an earlier ptxas"
                                              : "TG_NVJITLINK to an earlier library");
    doctor_fact(d, f, "path", t->path);
    if (t->release) doctor_number(d, f, "release", t->release);
    return true;
}

void doctor_check_tools(Doctor *d) {
    bool amd = false, nvvm = false;
    const char *codegen = secure_getenv("TG_CODEGEN");
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        bool there = check_tool(d, &rows[i]);
        amd |= there && rows[i].amd;
        nvvm |= there && rows[i].tool == TOOL_NVVM;
    }
    if (d->has_amd && !amd) {
        Finding *f =
            doctor_add(d, "tools", "linker", FINDING_PROBLEM, "nothing links code for the AMD GPU");
        doctor_advise(d, f,
                      "install ROCm's comgr (libamd_comgr) or lld, or set ROCM_PATH, TG_COMGR "
                      "or TG_LLD");
    }
    if (codegen && strcmp(codegen, "nvvm") == 0 && !nvvm) {
        Finding *f = doctor_add(d, "tools", "generator", FINDING_PROBLEM,
                                "TG_CODEGEN=nvvm needs libNVVM, which was not found");
        doctor_advise(d, f, "install a CUDA toolkit and set CUDA_HOME, or unset TG_CODEGEN");
    }
}
