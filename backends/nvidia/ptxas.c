// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// ptxas, a program of the CUDA toolkit: assembles PTX to a cubin and reports registers and spills.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backends/external_tool.h"
#include "backends/nvidia/nvidia.h"
#include "backends/nvidia/toolkit_search.h"
#include "lang/fork_lock.h"

enum { SPLITS = 13000 }; // the release from which ptxas is known to split compilations

/// Searches TG_PTXAS, else $CUDA_HOME, PATH, the usual place.
bool nv_ptxas_path(char *out) {
    static const char *const below[] = {"bin/ptxas", NULL};
    static const char *const usual[] = {"/usr/local/cuda*/bin/ptxas", NULL};
    const char *set = secure_getenv("TG_PTXAS");
    if (set && *set) return tool_take(set, out);
    return nv_toolkit_search(below, tool_take, out) || tool_in_path("ptxas", out) ||
           nv_toolkit_search(usual, tool_take, out);
}

/* ---- its release --------------------------------------------------------------------------- */

/// Returns 13000 for "13.0"; 0 without a number.
static int release_at(const char *text) {
    char *end;
    long major = strtol(text, &end, 10);
    return (int)(1000 * major + (*end == '.' ? 10 * strtol(end + 1, NULL, 10) : 0));
}

/// Returns the release of a path that ends in /cuda-13.0/bin/ptxas.
static int release_of_folder(const char *program) {
    static const char tail[] = "/bin/ptxas";
    char *real = realpath(program, NULL), *end = real ? strstr(real, tail) : NULL, *at = NULL;
    int release = 0;
    if (end && !end[sizeof tail - 1]) {
        *end = 0;
        at = strrchr(real, '/');
    }
    if (at && strncmp(at, "/cuda-", 6) == 0 && strchr(at, '.')) release = release_at(at + 6);
    free(real);
    return release;
}

static int release_said(const char *program) {
    static const char *const says[] = {"ptxas", "--version", NULL};
    ToolOutput out;
    tool_run(program, says, "", 0, &out);
    const char *at = out.log ? strstr(out.log, "release ") : NULL;
    int release = at ? release_at(at + 8) : 0;
    free(out.data);
    free(out.log);
    return release;
}

int nv_ptxas_release(const char *program) {
    static Lock lock = LOCK_INIT;
    static char known[TOOL_PATH];
    static int said;
    int release = release_of_folder(program);
    if (release) return release;
    lock_take(&lock);
    if (strcmp(known, program) == 0) release = said;
    lock_give(&lock);
    if (release) return release;
    release = release_said(program);
    lock_take(&lock);
    said = 0; // the number never belongs to another program
    snprintf(known, sizeof known, "%s", program);
    said = release;
    lock_give(&lock);
    return release;
}

/* ---- assembling ---------------------------------------------------------------------------- */

/// Whether the PTX has several kernels, and this release of ptxas can compile them in parallel
/// threads. The machine code is the same; lines of the report may change places.
static bool can_split(const char *program, const char *ptx) {
    static const char entry[] = ".visible .entry";
    const char *first = strstr(ptx, entry);
    return first && strstr(first + 1, entry) && nv_ptxas_release(program) >= SPLITS;
}

NvStatus nv_ptxas_start(const char *program, const char *ptx, size_t bytes, const char *machine,
                        bool split, ToolRun **run) {
    char name[32];
    const char *arguments[] = {"ptxas", "-v", name, tool_in, "-o", tool_out, NULL, NULL};
    snprintf(name, sizeof name, "-arch=%s", machine);
    if (split && can_split(program, ptx)) arguments[6] = "-split-compile=0";
    *run = tool_start(program, arguments, ptx, bytes);
    return *run ? NV_OK : NV_NO_MEMORY;
}

NvStatus nv_ptxas_finish(ToolRun *run, NvOutput *out) {
    ToolOutput made;
    bool good = tool_finish(run, &made);
    *out = (NvOutput){.data = made.data, .bytes = made.bytes, .log = made.log};
    // Only a ptxas with a report has refused the PTX. It has not if it could not start, was killed,
    // or if its output could not be read.
    return good ? NV_OK : made.refused && made.log && *made.log ? NV_FAILED : NV_ABSENT;
}

NvStatus nv_ptxas(const char *ptx, size_t bytes, const GpuTarget *arch, NvOutput *out) {
    char program[TOOL_PATH];
    ToolRun *run;
    *out = (NvOutput){0};
    if (!nv_ptxas_path(program)) return NV_ABSENT;
    NvStatus status = nv_ptxas_start(program, ptx, bytes, arch->name, false, &run);
    return status == NV_OK ? nv_ptxas_finish(run, out) : status;
}
