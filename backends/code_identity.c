// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Identifies the tools that made a piece of machine code, apart from its source. Users that keep
// code compare this to decide if it would be made again the same.
#include <dlfcn.h>
#include <elf.h>
#include <inttypes.h>
#include <link.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "backends/amdgpu/amdgpu.h"
#include "backends/backend.h"
#include "backends/llvm/target.h"
#include "backends/nvidia/cubin_link.h"

/* ---- builds -------------------------------------------------------------------------------- */

/// A loaded program or library.
typedef struct Object {
    uintptr_t address; // an address inside it
    uintptr_t start;
    uint8_t id[64];
    size_t n;
} Object;

/// Reads the note that linkers add (--build-id): a hash of the whole file.
static void read_notes(Object *o, const uint8_t *at, size_t left) {
    ElfW(Nhdr) note;
    while (left >= sizeof note) {
        memcpy(&note, at, sizeof note);
        size_t name = (note.n_namesz + 3) & ~(size_t)3, desc = (note.n_descsz + 3) & ~(size_t)3;
        if (sizeof note + name + desc > left) return;
        const uint8_t *text = at + sizeof note, *id = text + name;
        bool ours = note.n_type == NT_GNU_BUILD_ID && note.n_namesz == 4 &&
                    memcmp(text, "GNU", 4) == 0 && note.n_descsz <= sizeof o->id;
        if (ours) memcpy(o->id, id, o->n = note.n_descsz);
        at += sizeof note + name + desc;
        left -= sizeof note + name + desc;
    }
}

static int visit_loaded_object(struct dl_phdr_info *info, size_t size, void *arg) {
    Object *o = arg;
    bool inside = false;
    (void)size;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *p = &info->dlpi_phdr[i];
        uintptr_t start = info->dlpi_addr + p->p_vaddr;
        inside |= p->p_type == PT_LOAD && o->address >= start && o->address - start < p->p_memsz;
    }
    if (inside) o->start = info->dlpi_addr;
    for (int i = 0; inside && i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *p = &info->dlpi_phdr[i];
        if (p->p_type == PT_NOTE)
            read_notes(o, (const uint8_t *)(info->dlpi_addr + p->p_vaddr), p->p_memsz);
    }
    return inside;
}

static Object object_of(const void *address) {
    Object o = {.address = (uintptr_t)address};
    dl_iterate_phdr(visit_loaded_object, &o);
    return o;
}

/// LLVM as static libraries is part of the compiler's own hash.
bool backend_build(Text *t) {
    static const char here;
    Object own = object_of(&here), llvm = object_of(llvm_address());
    text_add(t, "%s\n", backend_compiler());
    if (llvm.start == own.start) return true;
    for (size_t i = 0; i < llvm.n; i++) text_add(t, "%02x", llvm.id[i]);
    text_add(t, "\n");
    return llvm.n > 0;
}

void backend_llvm(char version[BACKEND_LLVM_VERSION], const char **path) {
    unsigned major, minor, patch;
    Dl_info info;
    LLVMGetVersion(&major, &minor, &patch);
    snprintf(version, BACKEND_LLVM_VERSION, "%u.%u.%u", major, minor, patch);
    *path = dladdr(llvm_address(), &info) ? info.dli_fname : NULL;
}

/* ---- the host, and tools ------------------------------------------------------------------- */

static bool add_host_info(Text *t) {
    TargetInfo host;
    if (!cpu_backend.info(NULL, &host)) return false;
    text_add(t, "%s %s %s\n%d %d %" PRId64 " %" PRId64 "\n", host.name, host.cpu, host.features,
             host.vector_bytes, host.vector_registers, host.l1_bytes, host.l2_bytes);
    return true;
}

static void add_file(Text *t, const char *path) {
    struct stat s;
    if (stat(path, &s) != 0) return;
    text_add(t, "%s %lld %lld.%09ld\n", path, (long long)s.st_size, (long long)s.st_mtim.tv_sec,
             s.st_mtim.tv_nsec);
}

/// Adds the tools that take part. Loading a library takes longer than finding code on disk.
static void add_tools(Text *t, const CodeOptions *options) {
    enum { MOST = (int)NV_TOOLS > (int)AMD_TOOLS ? (int)NV_TOOLS : (int)AMD_TOOLS };
    char paths[MOST][TOOL_PATH];
    const char *machine = options->machine;
    bool nvvm = options->codegen && strcmp(options->codegen, "nvvm") == 0;
    int n = machine && amd_target(machine)
                ? amd_tools(paths)
                : nv_tools(nvvm, machine != NULL, options->driver, paths);
    for (int i = 0; i < n; i++) add_file(t, paths[i]);
}

bool backend_identity(Text *t, const CodeOptions *options) {
    if (!backend_build(t) || !add_host_info(t)) return false;
    add_tools(t, options);
    if (backend_fills()) text_add(t, "fills\n");
    return true;
}
