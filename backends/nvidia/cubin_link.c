// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Turns PTX into machine code by ptxas, or in this process by nvJitLink (dlopen). Both may be of a
// later release than the driver's own compiler, and their time can be measured separately. ptxas
// comes first: it generates better code, runs in parallel, and needs no library to be loaded.
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "backends/external_tool.h"
#include "backends/nvidia/cubin_link.h"
#include "backends/nvidia/toolkit_search.h"

typedef struct JitLink_ *JitLink;
enum { INPUT_PTX = 2 };

/* name, arguments: all return an error code, 0 for success */
#define ENTRIES(X)                                                                                 \
    X(nvJitLinkCreate, (JitLink *, uint32_t, const char **))                                       \
    X(nvJitLinkDestroy, (JitLink *))                                                               \
    X(nvJitLinkAddData, (JitLink, int, const void *, size_t, const char *))                        \
    X(nvJitLinkComplete, (JitLink))                                                                \
    X(nvJitLinkGetLinkedCubinSize, (JitLink, size_t *))                                            \
    X(nvJitLinkGetLinkedCubin, (JitLink, void *))                                                  \
    X(nvJitLinkGetErrorLogSize, (JitLink, size_t *))                                               \
    X(nvJitLinkGetErrorLog, (JitLink, char *))                                                     \
    X(nvJitLinkGetInfoLogSize, (JitLink, size_t *))                                                \
    X(nvJitLinkGetInfoLog, (JitLink, char *))                                                      \
    X(nvJitLinkVersion, (unsigned *, unsigned *))

static struct {
#define X(name, args) int(*name) args;
    ENTRIES(X)
#undef X
    void *library;
    int version; // 13000
} linker;

/* ---- the library --------------------------------------------------------------------------- */

/// Accepts the library if it has all entries.
static bool load_nvjitlink(const char *path, void *arg) {
    void *library = tool_open_library(path, RTLD_NOW | RTLD_LOCAL);
    (void)arg;
    if (!library) return false;
    bool all = true;
#define X(name, args) all &= (*(void **)&linker.name = dlsym(library, #name)) != NULL;
    ENTRIES(X)
#undef X
    unsigned major = 0, minor = 0;
    if (!all || linker.nvJitLinkVersion(&major, &minor)) return dlclose(library), false;
    linker.version = (int)(1000 * major + 10 * minor);
    linker.library = library;
    return true;
}

/// The location in Python wheels, below the root of an environment.
static bool load_wheel(const char *root) {
    static const char *const tails[] = {
        "lib/python3*/site-packages/nvidia/*/lib/libnvJitLink.so.1*",
        "lib/python3*/dist-packages/nvidia/*/lib/libnvJitLink.so.1*"};
    for (int i = 0; root && *root && i < 2; i++) {
        char path[4096];
        int n = snprintf(path, sizeof path, "%s/%s", root, tails[i]);
        const char *const patterns[] = {path, NULL};
        if (n < (int)sizeof path && nv_toolkit_search(patterns, load_nvjitlink, NULL)) return true;
    }
    return false;
}

/// Searches TG_NVJITLINK, loaded libraries, $CUDA_HOME, the loader's own search, Python wheels, the
/// usual place.
static bool find_nvjitlink(void) {
    static const char *const names[] = {"libnvJitLink.so.13", "libnvJitLink.so.12"};
    static const char *const below[] = {"lib*/libnvJitLink.so.1*", NULL};
    static const char *const usual[] = {"/usr/local/cuda*/lib*/libnvJitLink.so.1*", NULL};
    const char *set = secure_getenv("TG_NVJITLINK");
    if (set && *set) return load_nvjitlink(set, NULL);
    for (int i = 0; i < 2; i++) {
        void *there = dlopen(names[i], RTLD_NOW | RTLD_NOLOAD);
        if (there) dlclose(there);
        if (there && load_nvjitlink(names[i], NULL)) return true;
    }
    if (nv_toolkit_search(below, load_nvjitlink, NULL)) return true;
    for (int i = 0; i < 2; i++)
        if (load_nvjitlink(names[i], NULL)) return true;
    return load_wheel(secure_getenv("VIRTUAL_ENV")) || load_wheel(secure_getenv("CONDA_PREFIX")) ||
           nv_toolkit_search(usual, load_nvjitlink, NULL) || load_wheel("/usr/local") ||
           load_wheel("/usr");
}

static bool has_nvjitlink(void) {
    static ToolLibrary search = {.lock = LOCK_INIT};
    tool_search_library(&search, find_nvjitlink);
    return linker.library;
}

int nv_jitlink_path(char *out) {
    Dl_info info;
    if (!has_nvjitlink() || !dladdr(*(void **)&linker.nvJitLinkCreate, &info)) return 0;
    snprintf(out, TOOL_PATH, "%s", info.dli_fname);
    return linker.version;
}

/// A driver refuses machine code from a later major release of CUDA than its own.
static bool can_jit_link(int ptx, int driver) {
    return has_nvjitlink() && (!driver || linker.version / 1000 <= driver / 1000) &&
           nv_ptx_of_driver(linker.version) >= ptx;
}

/* ---- linking ------------------------------------------------------------------------------- */

static char *log_of(JitLink l, int (*size)(JitLink, size_t *), int (*get)(JitLink, char *)) {
    size_t n = 0;
    if (size(l, &n) || n < 2) return NULL;
    char *text = calloc(1, n + 1);
    if (text && get(l, text)) text[0] = 0;
    return text;
}

static NvStatus jit_link(const char *ptx, size_t bytes, const char *machine, NvOutput *out) {
    char arch[32];
    const char *options[] = {arch, "-O3"};
    JitLink l = NULL;
    snprintf(arch, sizeof arch, "-arch=%s", machine);
    if (linker.nvJitLinkCreate(&l, 2, options)) return NV_FAILED;
    bool ok = !linker.nvJitLinkAddData(l, INPUT_PTX, ptx, bytes, "kernel") &&
              !linker.nvJitLinkComplete(l) && !linker.nvJitLinkGetLinkedCubinSize(l, &out->bytes);
    NvStatus status = NV_FAILED;
    if (ok) {
        out->data = calloc(1, out->bytes + 1);
        if (!out->data) status = NV_NO_MEMORY;
        if (out->data && !linker.nvJitLinkGetLinkedCubin(l, out->data)) status = NV_OK;
    }
    out->log = status == NV_OK
                   ? log_of(l, linker.nvJitLinkGetInfoLogSize, linker.nvJitLinkGetInfoLog)
                   : log_of(l, linker.nvJitLinkGetErrorLogSize, linker.nvJitLinkGetErrorLog);
    linker.nvJitLinkDestroy(&l);
    return status;
}

/// nvJitLink compiles as if functions of other modules might be added. If it emits calls, for
/// instance for a 64-bit division, it waits for each wgmma to end before the next begins (C7509),
/// and does not report this for cached code. ptxas and the driver compile whole programs.
static bool is_for_whole_programs(const char *ptx) {
    return strstr(ptx, "wgmma.mma_async") != NULL;
}

/* ---- the choice of a library --------------------------------------------------------------- */

/// Finds a ptxas that reads PTX up to a version and whose output a driver loads. A ptxas of unknown
/// release is accepted.
static bool can_assemble(int ptx, int driver, char *program) {
    if (!nv_ptxas_path(program)) return false;
    int release = nv_ptxas_release(program);
    bool loads = !driver || release / 1000 <= driver / 1000;
    return !release || (loads && nv_ptx_of_driver(release) >= ptx);
}

/// A user who names an nvJitLink requests it.
static bool is_nvjitlink_named(void) {
    const char *set = secure_getenv("TG_NVJITLINK");
    return set && access(set, R_OK) == 0;
}

bool nv_link_available(int ptx, int driver) {
    char program[TOOL_PATH];
    return can_assemble(ptx, driver, program) || can_jit_link(ptx, driver);
}

static void try_jit_link(NvLink *l) {
    l->status = NV_ABSENT;
    if (is_for_whole_programs(l->ptx) || !can_jit_link(nv_ptx_version(l->ptx), l->driver)) return;
    l->by = "nvJitLink";
    l->status = jit_link(l->ptx, l->bytes, l->machine, &l->made);
}

void nv_link_start(NvLink *l, const char *ptx, size_t bytes, const char *machine, int driver) {
    char program[TOOL_PATH];
    *l = (NvLink){.by = "ptxas", .ptx = ptx, .machine = machine, .bytes = bytes, .driver = driver};
    l->status = NV_ABSENT;
    if (is_nvjitlink_named()) try_jit_link(l);
    if (l->status != NV_ABSENT) return;
    if (can_assemble(nv_ptx_version(ptx), driver, program))
        l->status = nv_ptxas_start(program, ptx, bytes, machine, true, &l->run);
    else
        try_jit_link(l);
}

NvStatus nv_link_finish(NvLink *l) {
    if (!l->run) return l->status;
    l->status = nv_ptxas_finish(l->run, &l->made);
    l->run = NULL;
    if (l->status == NV_ABSENT) {
        nv_output_free(&l->made);
        try_jit_link(l);
    }
    return l->status;
}

void nv_link_free(NvLink *l) {
    tool_drop(l->run);
    nv_output_free(&l->made);
    l->run = NULL;
}

int nv_tools(bool nvvm, bool link, int driver, char paths[NV_TOOLS][TOOL_PATH]) {
    Dl_info info;
    const char *found[NV_TOOLS] = {nvvm && nvvm_available() ? nvvm_path() : NULL};
    char ptxas[TOOL_PATH];
    int n = 0;
    if (link && nv_ptxas_path(ptxas)) found[2] = ptxas;
    if (link && (is_nvjitlink_named() || !found[2]) && can_jit_link(0, driver) &&
        dladdr(*(void **)&linker.nvJitLinkCreate, &info))
        found[1] = info.dli_fname;
    for (int i = 0; i < NV_TOOLS; i++)
        if (found[i] && *found[i]) snprintf(paths[n++], TOOL_PATH, "%s", found[i]);
    return n;
}
