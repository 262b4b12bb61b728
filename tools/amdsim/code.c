// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Loads a code object: the segments of an ELF file and one kernel's descriptor.
#include <elf.h>
#include <stdlib.h>

#include "tools/amdsim/machine.h"

enum { PAGE = 4096, GUARD = 4096, MACHINE_AMDGPU = 224, MAX_IMAGE = 1 << 28 };

typedef struct CodeObject {
    const uint8_t *file;
    u64 bytes;
    Elf64_Ehdr head;
} CodeObject;

/// False: the range is not in the file.
static bool read_part(const CodeObject *e, u64 at, void *out, u64 n) {
    if (at > e->bytes || n > e->bytes - at) return false;
    memcpy(out, e->file + at, n);
    return true;
}

static const char *gpu_of(const CodeObject *e) {
    static const struct {
        u32 number; // number of the GPU in the ELF header's flags
        const char *name;
    } rows[] = {{0x3f, "gfx90a"}, {0x4c, "gfx942"}, {0x4f, "gfx950"}, {0x41, "gfx1100"}};
    for (size_t k = 0; k < sizeof rows / sizeof *rows; k++)
        if ((e->head.e_flags & 255) == rows[k].number) return rows[k].name;
    return NULL;
}

/* ---- segments ------------------------------------------------------------------------------- */

/// Returns false if it is not inside the file, or exceeds the limit.
static bool read_segment(const CodeObject *e, int n, Elf64_Phdr *out) {
    if (!read_part(e, e->head.e_phoff + (u64)n * sizeof *out, out, sizeof *out)) return false;
    if (out->p_type != PT_LOAD) return true;
    bool fits = out->p_vaddr <= MAX_IMAGE && out->p_memsz <= MAX_IMAGE;
    return fits && out->p_filesz <= out->p_memsz;
}

static bool measure_segments(const CodeObject *e, u64 *bytes) {
    Elf64_Phdr p;
    for (int n = 0; n < e->head.e_phnum; n++) {
        if (!read_segment(e, n, &p)) return false;
        if (p.p_type == PT_LOAD && p.p_vaddr + p.p_memsz > *bytes) *bytes = p.p_vaddr + p.p_memsz;
    }
    return *bytes > 0;
}

static bool copy_segments(const CodeObject *e, uint8_t *image) {
    Elf64_Phdr p;
    for (int n = 0; n < e->head.e_phnum; n++) {
        if (!read_segment(e, n, &p)) return false;
        if (p.p_type == PT_LOAD && !read_part(e, p.p_offset, image + p.p_vaddr, p.p_filesz))
            return false;
    }
    return true;
}

/* ---- kernels -------------------------------------------------------------------------------- */

static bool is_kernel_descriptor(const CodeObject *e, u64 at, const char *kernel) {
    size_t n = strlen(kernel);
    char suffix[4];
    return at < e->bytes && n < e->bytes - at && !memcmp(e->file + at, kernel, n) &&
           read_part(e, at + n, suffix, sizeof suffix) && !memcmp(suffix, ".kd", sizeof suffix);
}

/// Returns the offset of the kernel's descriptor in the image; 0: absent.
static u64 find_in_table(const CodeObject *e, const Elf64_Shdr *table, const char *kernel) {
    Elf64_Shdr names;
    if (!read_part(e, e->head.e_shoff + table->sh_link * sizeof names, &names, sizeof names))
        return 0;
    for (u64 at = 0; at + sizeof(Elf64_Sym) <= table->sh_size; at += sizeof(Elf64_Sym)) {
        Elf64_Sym s;
        if (!read_part(e, table->sh_offset + at, &s, sizeof s)) return 0;
        if (is_kernel_descriptor(e, names.sh_offset + s.st_name, kernel)) return s.st_value;
    }
    return 0;
}

static u64 find_descriptor(const CodeObject *e, const char *kernel) {
    for (int n = 0; n < e->head.e_shnum; n++) {
        Elf64_Shdr s;
        if (!read_part(e, e->head.e_shoff + (u64)n * sizeof s, &s, sizeof s)) return 0;
        bool symbols = s.sh_type == SHT_DYNSYM || s.sh_type == SHT_SYMTAB;
        u64 at = symbols ? find_in_table(e, &s, kernel) : 0;
        if (at) return at;
    }
    return 0;
}

/// 64 bytes, as LLVM's AMDGPUUsage lays them out.
typedef struct Descriptor {
    u32 shared_bytes, private_bytes, arg_bytes, reserved0;
    i64 entry; // relative to the descriptor
    u32 reserved1[5], resources3, resources1, resources2;
    u16 properties, preload;
    u32 reserved2;
} Descriptor;
_Static_assert(sizeof(Descriptor) == 64, "as the hardware's");

static bool read_descriptor(Code *c, u64 at) {
    Descriptor d;
    if (at > c->bytes || sizeof d > c->bytes - at) return false;
    memcpy(&d, c->image + at, sizeof d);
    c->shared_bytes = d.shared_bytes;
    c->private_bytes = d.private_bytes;
    c->resources2 = d.resources2;
    c->properties = d.properties;
    c->preload = d.preload;
    c->entry = at + (u64)d.entry;
    return c->entry < c->bytes;
}

/* ---- loading -------------------------------------------------------------------------------- */

static bool read_elf_header(CodeObject *e) {
    return read_part(e, 0, &e->head, sizeof e->head) &&
           !memcmp(e->head.e_ident, ELFMAG "\2\1", SELFMAG + 2) &&
           e->head.e_machine == MACHINE_AMDGPU && e->head.e_phentsize == sizeof(Elf64_Phdr) &&
           e->head.e_shentsize == sizeof(Elf64_Shdr);
}

AmdsimStatus load_code(Machine *m) {
    const AmdsimLaunch *l = m->launch;
    Code *c = &m->code;
    CodeObject e = {.file = l->code, .bytes = l->code_bytes};
    if (!read_elf_header(&e)) return refuse(m, AMDSIM_BAD_CODE, "not a code object of an AMD GPU");
    c->gpu = gpu_of(&e);
    if (!c->gpu)
        return refuse(m, AMDSIM_BAD_CODE, "code of the GPU number 0x%x, which is not emulated",
                      e.head.e_flags & 255);
    if (!measure_segments(&e, &c->bytes))
        return refuse(m, AMDSIM_BAD_CODE, "the code object is damaged");
    size_t whole = (size_t)(c->bytes + GUARD + PAGE - 1) / PAGE * PAGE;
    c->image = aligned_alloc(PAGE, whole);
    if (!c->image) return refuse(m, AMDSIM_NO_MEMORY, "out of memory");
    memset(c->image, 0, whole);
    if (!copy_segments(&e, c->image))
        return refuse(m, AMDSIM_BAD_CODE, "the code object is damaged");
    u64 at = find_descriptor(&e, l->kernel);
    if (!at) return refuse(m, AMDSIM_NO_KERNEL, "the code object has no kernel %s", l->kernel);
    if (!read_descriptor(c, at))
        return refuse(m, AMDSIM_BAD_CODE, "the descriptor of %s is damaged", l->kernel);
    return AMDSIM_OK;
}
