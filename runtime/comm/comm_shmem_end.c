// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Makes a library in memory that has the symbol `_end` and nothing else.
//
// Open MPI's OpenSHMEM takes all writable memory below `_end` for static data of the program, and
// makes it symmetric. It does not see the linker's symbol of a program that does not link it. It
// then finds the `_end` of some library far above, and makes thread stacks and heaps symmetric.
// These differ between ranks, so it crashes now and then. Tegula has no symmetric static data. So
// this library puts an `_end` at the lowest addresses, where Open MPI finds it before that of any
// other library; no memory below it is then made symmetric. A program that exports its own `_end`
// is still found first.
#include "runtime/comm/comm.h"

#include <dlfcn.h>
#include <elf.h>
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static const char names[] = "\0_end";

/// The whole file, in one segment.
typedef struct LibraryImage {
    Elf64_Ehdr head;
    Elf64_Phdr segments[2];
    Elf64_Dyn dynamic[6];
    Elf64_Sym symbols[2];
    uint32_t hash[2 + 1 + 2]; // one bucket; chains of two symbols
    char names[sizeof names];
} LibraryImage;

static Elf64_Dyn dynamic_entry(Elf64_Sxword tag, size_t value) {
    return (Elf64_Dyn){.d_tag = tag, .d_un.d_val = value};
}

static Elf64_Phdr load_segment(uint32_t type, size_t at, size_t bytes) {
    return (Elf64_Phdr){.p_type = type,
                        .p_flags = PF_R | PF_W,
                        .p_offset = at,
                        .p_vaddr = at,
                        .p_paddr = at,
                        .p_filesz = bytes,
                        .p_memsz = bytes,
                        .p_align = type == PT_LOAD ? 0x10000 : 8};
}

static void fill_library_image(LibraryImage *m) {
    enum { LOWEST = 1, BUCKETS = 1, SYMBOLS = 2 };
    *m = (LibraryImage){.head = {.e_type = ET_DYN,
#if defined(__aarch64__)
                                 .e_machine = EM_AARCH64,
#else
                                 .e_machine = EM_X86_64,
#endif
                                 .e_version = EV_CURRENT,
                                 .e_phoff = offsetof(LibraryImage, segments),
                                 .e_ehsize = sizeof(Elf64_Ehdr),
                                 .e_phentsize = sizeof(Elf64_Phdr),
                                 .e_phnum = 2}};
    memcpy(m->head.e_ident, ELFMAG, SELFMAG);
    m->head.e_ident[EI_CLASS] = ELFCLASS64;
    m->head.e_ident[EI_DATA] = ELFDATA2LSB;
    m->head.e_ident[EI_VERSION] = EV_CURRENT;
    m->segments[0] = load_segment(PT_LOAD, 0, sizeof *m);
    m->segments[1] = load_segment(PT_DYNAMIC, offsetof(LibraryImage, dynamic), sizeof m->dynamic);
    m->dynamic[0] = dynamic_entry(DT_HASH, offsetof(LibraryImage, hash));
    m->dynamic[1] = dynamic_entry(DT_STRTAB, offsetof(LibraryImage, names));
    m->dynamic[2] = dynamic_entry(DT_SYMTAB, offsetof(LibraryImage, symbols));
    m->dynamic[3] = dynamic_entry(DT_STRSZ, sizeof names);
    m->dynamic[4] = dynamic_entry(DT_SYMENT, sizeof(Elf64_Sym));
    m->dynamic[5] = dynamic_entry(DT_NULL, 0);
    m->symbols[1] = (Elf64_Sym){.st_name = 1,
                                .st_info = ELF64_ST_INFO(STB_GLOBAL, STT_NOTYPE),
                                .st_shndx = SHN_ABS,
                                .st_value = LOWEST};
    m->hash[0] = BUCKETS;
    m->hash[1] = SYMBOLS;
    m->hash[2] = 1; // the chain has only symbol 1
    memcpy(m->names, names, sizeof names);
}

/// The library stays loaded.
const char *rt_shmem_hide_data(void) {
    LibraryImage image;
    char path[64];
    int file = memfd_create("end", MFD_CLOEXEC);
    fill_library_image(&image);
    snprintf(path, sizeof path, "/proc/self/fd/%d", file);
    bool written = file >= 0 && write(file, &image, sizeof image) == (ssize_t)sizeof image;
    const char *reason = written ? NULL : strerror(errno);
    if (written && !dlopen(path, RTLD_NOW | RTLD_GLOBAL)) reason = dlerror();
    if (file >= 0) close(file);
    return reason;
}
