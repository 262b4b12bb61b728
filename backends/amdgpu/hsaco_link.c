// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Links a relocatable object to a code object: by AMD's code object manager (dlopen), a part of
// ROCm, or by lld if that is absent or too old for the GPU.
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "backends/amdgpu/amdgpu.h"
#include "backends/external_tool.h"

/// Returns the message of a linker that made nothing.
static const char *refusal_text(Ctx *ctx, const char *linker, const char *end, const char *log) {
    int n = log ? (int)strlen(log) : 0;
    while (n > 0 && log[n - 1] == '\n') n--;
    return ctx_format(ctx, "%s: %s%s%.*s", linker, end, n ? ": " : "", n, n ? log : "");
}

/* ---- comgr --------------------------------------------------------------------------------- */

/// A handle of comgr: a number.
typedef struct Handle {
    uint64_t number;
} Handle;

enum { KIND_LOG = 5, KIND_RELOCATABLE = 7, KIND_EXECUTABLE = 8 };
/// LINK_RELOCATABLE_TO_EXECUTABLE in releases 2 and 3.
enum { LINK_2 = 9, LINK_3 = 7 };

/* name without amd_comgr_, arguments: all return a status, 0 for success */
#define ENTRIES(X)                                                                                 \
    X(get_isa_count, (size_t *))                                                                   \
    X(get_isa_name, (size_t, const char **))                                                       \
    X(create_data, (int, Handle *))                                                                \
    X(release_data, (Handle))                                                                      \
    X(set_data, (Handle, size_t, const char *))                                                    \
    X(set_data_name, (Handle, const char *))                                                       \
    X(get_data, (Handle, size_t *, char *))                                                        \
    X(create_data_set, (Handle *))                                                                 \
    X(destroy_data_set, (Handle))                                                                  \
    X(data_set_add, (Handle, Handle))                                                              \
    X(action_data_get_data, (Handle, int, size_t, Handle *))                                       \
    X(create_action_info, (Handle *))                                                              \
    X(destroy_action_info, (Handle))                                                               \
    X(action_info_set_isa_name, (Handle, const char *))                                            \
    X(do_action, (int, Handle, Handle, Handle))

static struct {
#define X(name, args) int(*name) args;
    ENTRIES(X)
#undef X
    void (*get_version)(size_t *major, size_t *minor);
    void *library;
    int link; // the action's number
} comgr;

/// Accepts the library if it has all entries.
static bool load_comgr(const char *path, void *arg) {
    void *library = tool_open_library(path, RTLD_NOW | RTLD_LOCAL);
    (void)arg;
    if (!library) return false;
    bool all = true;
#define X(name, args) all &= (*(void **)&comgr.name = dlsym(library, "amd_comgr_" #name)) != NULL;
    ENTRIES(X)
#undef X
    *(void **)&comgr.get_version = dlsym(library, "amd_comgr_get_version");
    if (!all || !comgr.get_version) return dlclose(library), false;
    size_t major = 0, minor = 0;
    comgr.get_version(&major, &minor);
    comgr.link = major < 3 ? LINK_2 : LINK_3;
    comgr.library = library;
    return true;
}

/// Calls visit with the existing libraries until it returns true: only TG_COMGR if it is set (""
/// for none), else $ROCM_PATH, the loader's folders, the usual places. It does not ask the loader,
/// because loading a library takes longer than finding code on disk.
static void visit_comgr(ToolVisit *visit, void *arg) {
    static const char *const names[] = {"libamd_comgr.so.3", "libamd_comgr.so.2"};
    static const char *const usual[] = {
        "/opt/rocm*/lib/libamd_comgr.so.[23]", "/usr/local/lib/libamd_comgr.so.[23]",
        "/usr/lib64/libamd_comgr.so.[23]", "/usr/lib/*-linux-gnu/libamd_comgr.so.[23]",
        "/usr/lib/libamd_comgr.so.[23]"};
    const char *set = secure_getenv("TG_COMGR"), *rocm = secure_getenv("ROCM_PATH");
    if (set) {
        if (*set) visit(set, arg);
        return;
    }
    char path[TOOL_PATH];
    if (rocm && snprintf(path, sizeof path, "%s/lib", rocm) < (int)sizeof path &&
        tool_in_folders(path, "libamd_comgr.so", visit, arg))
        return;
    for (int i = 0; i < 2; i++)
        if (tool_in_folders(secure_getenv("LD_LIBRARY_PATH"), names[i], visit, arg)) return;
    for (size_t i = 0; i < sizeof usual / sizeof *usual; i++)
        if (tool_glob(usual[i], visit, arg)) return;
}

static bool find_comgr(void) {
    visit_comgr(load_comgr, NULL);
    return comgr.library;
}

static bool has_comgr(void) {
    static ToolLibrary search = {.lock = LOCK_INIT};
    tool_search_library(&search, find_comgr);
    return comgr.library;
}

bool amd_comgr_path(char *out) {
    Dl_info info;
    if (!has_comgr() || !dladdr(*(void **)&comgr.get_version, &info)) return false;
    snprintf(out, TOOL_PATH, "%s", info.dli_fname);
    return true;
}

/// Releases older than the GPU do not know it.
static bool comgr_knows_isa(const char *isa) {
    size_t n = 0;
    if (!has_comgr() || comgr.get_isa_count(&n)) return false;
    for (size_t i = 0; i < n; i++) {
        const char *name;
        if (!comgr.get_isa_name(i, &name) && strcmp(name, isa) == 0) return true;
    }
    return false;
}

/// Returns the bytes of the first result of a kind, in the arena, or NULL.
static const char *comgr_result(Ctx *ctx, Handle results, int kind, size_t *size) {
    Handle data;
    if (comgr.action_data_get_data(results, kind, 0, &data)) return NULL;
    char *bytes = NULL;
    if (!comgr.get_data(data, size, NULL)) {
        bytes = ctx_alloc(ctx, *size + 1);
        bytes[*size] = 0;
        if (comgr.get_data(data, size, bytes)) bytes = NULL;
    }
    comgr.release_data(data);
    return bytes;
}

extern char **environ;

/// Returns the variable's value as comgr reads it. secure_getenv would hide it in programs with
/// more rights than their user, and comgr does not use that.
static const char *environment_value(const char *name) {
    size_t n = strlen(name);
    for (char **e = environ; e && *e; e++)
        if (strncmp(*e, name, n) == 0 && (*e)[n] == '=') return *e + n + 1;
    return NULL;
}

/// The folder where comgr makes one of its own for files, by the variables that LLVM reads. *name:
/// the variable, or NULL.
static const char *comgr_folder(const char **name) {
    static const char *const names[] = {"TMPDIR", "TMP", "TEMP", "TEMPDIR"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const char *folder = environment_value(*name = names[i]);
        if (folder) return folder;
    }
    *name = NULL;
    return "/tmp";
}

/// Whether comgr's files are safe from other users. False: `why` says why not.
static bool comgr_folder_serves(char why[TOOL_END]) {
    const char *name, *folder = comgr_folder(&name);
    if (!name || secure_getenv(name)) return tool_folder_serves(folder, why);
    snprintf(why, TOOL_END, "%s is set, in a program with raised privileges", name);
    return false;
}

/// Links with existing handles. Returns true if a code object was made.
static bool link_with(Ctx *ctx, Handle in, Handle info, Handle results, const AmdObject *object,
                      const char *isa, AmdCode *out) {
    Handle data;
    size_t n;
    if (comgr.create_data(KIND_RELOCATABLE, &data)) return false;
    bool ok = !comgr.set_data(data, object->size, object->bytes) &&
              !comgr.set_data_name(data, "kernels.o") && !comgr.data_set_add(in, data) &&
              !comgr.action_info_set_isa_name(info, isa) &&
              !comgr.do_action(comgr.link, info, in, results);
    if (ok)
        out->bytes = comgr_result(ctx, results, KIND_EXECUTABLE, &out->size);
    else
        out->log = comgr_result(ctx, results, KIND_LOG, &n);
    comgr.release_data(data);
    return out->bytes != NULL;
}

static bool by_comgr(Ctx *ctx, const AmdObject *object, const char *isa, AmdCode *out) {
    Handle in, results, info;
    char why[TOOL_END];
    bool ok = false;
    if (!comgr_folder_serves(why)) {
        out->log = ctx_format(ctx, "it has no folder for temporary files: %s", why);
        return false;
    }
    if (comgr.create_data_set(&in)) return false;
    if (!comgr.create_data_set(&results)) {
        if (!comgr.create_action_info(&info)) {
            ok = link_with(ctx, in, info, results, object, isa, out);
            comgr.destroy_action_info(info);
        }
        comgr.destroy_data_set(results);
    }
    comgr.destroy_data_set(in);
    return ok;
}

/* ---- lld ----------------------------------------------------------------------------------- */

/// Searches TG_LLD ("" for none), $ROCM_PATH, PATH, the usual places.
bool amd_lld_path(char *out) {
    static const char *const names[] = {"ld.lld-22", "ld.lld"};
    const char *set = secure_getenv("TG_LLD"), *rocm = secure_getenv("ROCM_PATH");
    if (set) return tool_take(set, out);
    char path[TOOL_PATH];
    if (rocm && snprintf(path, sizeof path, "%s/llvm/bin/ld.lld", rocm) < (int)sizeof path &&
        tool_take(path, out))
        return true;
    for (int i = 0; i < 2; i++)
        if (tool_in_path(names[i], out)) return true;
    return tool_glob("/opt/rocm*/llvm/bin/ld.lld", tool_take, out) ||
           tool_glob("/usr/lib/llvm-*/bin/ld.lld", tool_take, out);
}

static void release_bytes(void *bytes) {
    free(bytes);
}

static bool by_lld(Ctx *ctx, const char *program, const AmdObject *object, AmdCode *out) {
    const char *arguments[] = {"ld.lld", "-shared", "--no-undefined", tool_in, "-o",
                               tool_out, NULL};
    ToolOutput made;
    bool ok = tool_run(program, arguments, object->bytes, object->size, &made);
    if (made.data) ctx_defer(ctx, release_bytes, made.data);
    if (made.log) ctx_defer(ctx, release_bytes, made.log);
    if (ok)
        *out = (AmdCode){.bytes = made.data, .size = made.bytes, .linker = "lld"};
    else
        out->log = refusal_text(ctx, program, made.end, made.log);
    return ok;
}

/* ---- both ---------------------------------------------------------------------------------- */

typedef struct Paths {
    char (*data)[TOOL_PATH];
    int n;
} Paths;

static bool note_path(const char *path, void *arg) {
    Paths *p = arg;
    if (access(path, R_OK) != 0) return false;
    snprintf(p->data[p->n++], TOOL_PATH, "%s", path);
    return p->n == AMD_TOOLS - 1;
}

int amd_tools(char paths[AMD_TOOLS][TOOL_PATH]) {
    Paths p = {.data = paths};
    visit_comgr(note_path, &p);
    return p.n + amd_lld_path(paths[p.n]);
}

AmdStatus amd_link(Ctx *ctx, const AmdObject *object, const GpuTarget *gpu, AmdCode *out) {
    char program[TOOL_PATH];
    const char *isa = ctx_format(ctx, "amdgcn-amd-amdhsa--%s", gpu->name);
    *out = (AmdCode){0};
    bool known = comgr_knows_isa(isa);
    if (known && by_comgr(ctx, object, isa, out)) {
        out->linker = "comgr";
        return AMD_OK;
    }
    if (amd_lld_path(program)) return by_lld(ctx, program, object, out) ? AMD_OK : AMD_FAILED;
    if (known) {
        out->log = refusal_text(ctx, "libamd_comgr", "no code object", out->log);
        return AMD_FAILED;
    }
    out->log = ctx_format(ctx,
                          "no linker for %s: libamd_comgr of ROCm (TG_COMGR, $ROCM_PATH)%s or "
                          "ld.lld of LLVM (TG_LLD, PATH) is needed",
                          gpu->name, comgr.library ? ", of a release that knows the GPU," : "");
    return AMD_ABSENT;
}
