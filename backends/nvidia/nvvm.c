// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// libNVVM by dlopen: compiles text of the LLVM 7 dialect to PTX. It may crash on its input, so
// callers that must survive use a helper process.
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backends/external_tool.h"
#include "backends/nvidia/nvidia.h"
#include "backends/nvidia/toolkit_search.h"

typedef struct Program *NvvmProgram;

/* name, arguments: all return an error code, 0 for success */
#define ENTRIES(X)                                                                                 \
    X(nvvmCreateProgram, (NvvmProgram *))                                                          \
    X(nvvmDestroyProgram, (NvvmProgram *))                                                         \
    X(nvvmAddModuleToProgram, (NvvmProgram, const char *, size_t, const char *))                   \
    X(nvvmCompileProgram, (NvvmProgram, int, const char **))                                       \
    X(nvvmGetCompiledResultSize, (NvvmProgram, size_t *))                                          \
    X(nvvmGetCompiledResult, (NvvmProgram, char *))                                                \
    X(nvvmGetProgramLogSize, (NvvmProgram, size_t *))                                              \
    X(nvvmGetProgramLog, (NvvmProgram, char *))

static struct {
#define X(name, args) int(*name) args;
    ENTRIES(X)
#undef X
    void *library;
} nvvm;

/// Accepts the library if it has all entries.
static bool load_libnvvm(const char *path, void *arg) {
    void *library = tool_open_library(path, RTLD_NOW | RTLD_LOCAL);
    (void)arg;
    if (!library) return false;
    bool all = true;
#define X(name, args) all &= (*(void **)&nvvm.name = dlsym(library, #name)) != NULL;
    ENTRIES(X)
#undef X
    if (!all) return dlclose(library), false;
    nvvm.library = library;
    return true;
}

/// Searches $CUDA_HOME, then the loader's own search, then the usual place.
static bool find_libnvvm(void) {
    static const char *const below[] = {"nvvm/lib64/libnvvm.so*", "lib*/libnvvm.so*", NULL};
    static const char *const usual[] = {"/usr/local/cuda*/nvvm/lib64/libnvvm.so*",
                                        "/usr/local/cuda*/lib*/libnvvm.so*", NULL};
    return nv_toolkit_search(below, load_libnvvm, NULL) || load_libnvvm("libnvvm.so.4", NULL) ||
           load_libnvvm("libnvvm.so", NULL) || nv_toolkit_search(usual, load_libnvvm, NULL);
}

const char *nvvm_path(void) {
    Dl_info info;
    return dladdr(*(void **)&nvvm.nvvmCreateProgram, &info) ? info.dli_fname : NULL;
}

/// Returns a text of the library, whose size counts the NUL byte; NULL if it is empty.
static char *take_library_text(NvvmProgram p, int (*size)(NvvmProgram, size_t *),
                               int (*get)(NvvmProgram, char *), size_t *bytes) {
    size_t n = 0;
    if (size(p, &n) || !n) return NULL;
    char *text = calloc(1, n + 1);
    if (text && get(p, text)) text[0] = 0;
    *bytes = text ? strlen(text) : 0;
    return text;
}

static NvStatus compile_nvvm_program(NvvmProgram p, const char *text, size_t bytes,
                                     const GpuTarget *arch, int optimize, NvOutput *out) {
    char name[32], level[16];
    // The module alone decides which products and sums are fused, as with LLVM's NVPTX.
    const char *options[] = {name, level, "-fma=0"};
    size_t n;
    snprintf(name, sizeof name, "-arch=compute_%s", arch->name + strlen("sm_"));
    snprintf(level, sizeof level, "-opt=%d", optimize);
    bool failed = nvvm.nvvmAddModuleToProgram(p, text, bytes, "kernel") != 0 ||
                  nvvm.nvvmCompileProgram(p, 3, options) != 0;
    out->log = take_library_text(p, nvvm.nvvmGetProgramLogSize, nvvm.nvvmGetProgramLog, &n);
    if (failed) return NV_FAILED;
    out->data = take_library_text(p, nvvm.nvvmGetCompiledResultSize, nvvm.nvvmGetCompiledResult,
                                  &out->bytes);
    return out->data ? NV_OK : NV_NO_MEMORY;
}

bool nvvm_available(void) {
    static ToolLibrary search = {.lock = LOCK_INIT};
    tool_search_library(&search, find_libnvvm);
    return nvvm.library != NULL;
}

NvStatus nvvm_compile(const char *text, size_t bytes, const GpuTarget *arch, int optimize,
                      NvOutput *out) {
    NvvmProgram p = NULL;
    *out = (NvOutput){0};
    if (!nvvm_available()) return NV_ABSENT;
    if (nvvm.nvvmCreateProgram(&p) != 0) return NV_NO_MEMORY;
    NvStatus status = compile_nvvm_program(p, text, bytes, arch, optimize, out);
    nvvm.nvvmDestroyProgram(&p);
    return status;
}
