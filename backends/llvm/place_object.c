// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Turns an object into code of this process without LLVM's linker. Starting that linker takes
// longer than all other steps for a kernel from the store. Code of kernels refers to nothing
// outside itself, so its sections are copied into memory and relocated. LLVM handles objects with
// anything else in them.
#include <elf.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "backends/llvm/target.h"

#if defined __x86_64__

enum { MACHINE = EM_X86_64 };

/// Writes the address of symbol and addend into the place. Returns false if only LLVM can.
static bool relocate_symbol(uint8_t *place, uint32_t type, uint64_t address) {
    int64_t far = (int64_t)(address - (uint64_t)(uintptr_t)place);
    int32_t near = (int32_t)far;
    switch (type) {
    case R_X86_64_64: memcpy(place, &address, sizeof address); return true;
    case R_X86_64_PC32:
    case R_X86_64_PLT32: memcpy(place, &near, sizeof near); return near == far;
    default: return false;
    }
}
static const size_t widths[] = {[R_X86_64_64] = 8, [R_X86_64_PC32] = 4, [R_X86_64_PLT32] = 4};

#else

enum { MACHINE = EM_NONE };
static bool relocate_symbol(uint8_t *place, uint32_t type, uint64_t address) {
    return (void)place, (void)type, (void)address, false;
}
static const size_t widths[] = {0};

#endif

/// An object and the placement of its sections.
typedef struct ElfObject {
    const uint8_t *bytes;
    size_t n;
    const Elf64_Shdr *sections;
    int n_sections;
    size_t *offsets; // offsets in memory of the sections that belong to the program
    size_t code, all;
    uint8_t *memory;
} ElfObject;

/* ---- reading ------------------------------------------------------------------------------- */

static bool lies_inside(const ElfObject *e, uint64_t at, uint64_t bytes) {
    return at % 8 == 0 && at <= e->n && bytes <= e->n - at;
}

static bool is_table(const ElfObject *e, const Elf64_Shdr *s, size_t entry) {
    return s->sh_entsize == entry && lies_inside(e, s->sh_offset, s->sh_size);
}

static bool is_program_section(const Elf64_Shdr *s) {
    return s->sh_flags & SHF_ALLOC && s->sh_size;
}

static bool read_sections(ElfObject *e) {
    const Elf64_Ehdr *head = (const void *)e->bytes;
    if (e->n < sizeof *head || memcmp(head->e_ident, ELFMAG, SELFMAG) != 0 ||
        head->e_ident[EI_CLASS] != ELFCLASS64 || head->e_machine != MACHINE ||
        !lies_inside(e, head->e_shoff, (uint64_t)head->e_shnum * sizeof(Elf64_Shdr)))
        return false;
    e->sections = (const void *)(e->bytes + head->e_shoff);
    e->n_sections = head->e_shnum;
    for (int i = 0; i < e->n_sections; i++) {
        const Elf64_Shdr *s = &e->sections[i];
        uint64_t align = s->sh_addralign;
        if (!is_program_section(s)) continue;
        if (s->sh_type != SHT_PROGBITS || align > 4096 || align & (align - 1) ||
            s->sh_flags & SHF_TLS || s->sh_offset > e->n || s->sh_size > e->n - s->sh_offset)
            return false;
    }
    return true;
}

/* ---- placing ------------------------------------------------------------------------------- */

/// Places sections with code, or those without, from `at` on. Returns their end.
static size_t lay_out_sections(ElfObject *e, bool code, size_t at) {
    for (int i = 0; i < e->n_sections; i++) {
        const Elf64_Shdr *s = &e->sections[i];
        size_t align = s->sh_addralign ? s->sh_addralign : 1;
        if (!is_program_section(s) || code != ((s->sh_flags & SHF_EXECINSTR) != 0)) continue;
        at = (at + align - 1) & ~(align - 1);
        e->offsets[i] = at;
        at += s->sh_size;
    }
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    return (at + page - 1) / page * page;
}

static bool copy_sections(ElfObject *e) {
    e->code = lay_out_sections(e, true, 0);
    e->all = lay_out_sections(e, false, e->code);
    if (!e->code) return false;
    void *memory = mmap(NULL, e->all, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) return false;
    e->memory = memory;
    for (int i = 0; i < e->n_sections; i++)
        if (is_program_section(&e->sections[i]))
            memcpy(e->memory + e->offsets[i], e->bytes + e->sections[i].sh_offset,
                   e->sections[i].sh_size);
    return true;
}

/// Returns false if the symbol's section is not in memory.
static bool symbol_address(const ElfObject *e, const Elf64_Sym *symbol, uint64_t *out) {
    int section = symbol->st_shndx;
    if (section == SHN_UNDEF || section >= e->n_sections ||
        !is_program_section(&e->sections[section]))
        return false;
    *out = (uint64_t)(uintptr_t)(e->memory + e->offsets[section]) + symbol->st_value;
    return true;
}

static bool relocate_section(const ElfObject *e, const Elf64_Shdr *table) {
    if (table->sh_info >= (uint32_t)e->n_sections ||
        !is_program_section(&e->sections[table->sh_info]))
        return true; // a section that only debuggers read
    if (table->sh_type != SHT_RELA || table->sh_link >= (uint32_t)e->n_sections) return false;
    const Elf64_Shdr *of = &e->sections[table->sh_info], *names = &e->sections[table->sh_link];
    if (!is_table(e, table, sizeof(Elf64_Rela)) || !is_table(e, names, sizeof(Elf64_Sym)))
        return false;
    const Elf64_Rela *r = (const void *)(e->bytes + table->sh_offset);
    const Elf64_Sym *symbols = (const void *)(e->bytes + names->sh_offset);
    for (size_t i = 0; i < table->sh_size / sizeof *r; i++) {
        uint64_t type = ELF64_R_TYPE(r[i].r_info), symbol = ELF64_R_SYM(r[i].r_info), address;
        if (type >= sizeof widths / sizeof *widths || of->sh_size < widths[type] ||
            r[i].r_offset > of->sh_size - widths[type] ||
            symbol >= names->sh_size / sizeof *symbols ||
            !symbol_address(e, &symbols[symbol], &address))
            return false;
        uint8_t *place = e->memory + e->offsets[table->sh_info] + r[i].r_offset;
        if (!relocate_symbol(place, (uint32_t)type, address + (uint64_t)r[i].r_addend))
            return false;
    }
    return true;
}

static bool relocate_all(const ElfObject *e) {
    for (int i = 0; i < e->n_sections; i++) {
        const Elf64_Shdr *s = &e->sections[i];
        if ((s->sh_type == SHT_RELA || s->sh_type == SHT_REL) && !relocate_section(e, s))
            return false;
    }
    return true;
}

/// Returns the function of that name, or NULL.
static tg_entry *find_entry(const ElfObject *e, const char *name) {
    for (int i = 0; i < e->n_sections; i++) {
        const Elf64_Shdr *s = &e->sections[i], *texts = &e->sections[s->sh_link];
        if (s->sh_type != SHT_SYMTAB || s->sh_link >= (uint32_t)e->n_sections ||
            !is_table(e, s, sizeof(Elf64_Sym)) || texts->sh_offset > e->n ||
            texts->sh_size > e->n - texts->sh_offset)
            continue;
        const Elf64_Sym *symbols = (const void *)(e->bytes + s->sh_offset);
        const char *text = (const char *)e->bytes + texts->sh_offset;
        size_t room = strlen(name) + 1;
        uint64_t address;
        for (size_t k = 0; k < s->sh_size / sizeof *symbols; k++)
            if (symbols[k].st_name < texts->sh_size &&
                texts->sh_size - symbols[k].st_name >= room &&
                memcmp(text + symbols[k].st_name, name, room) == 0 &&
                symbol_address(e, &symbols[k], &address))
                return (tg_entry *)(uintptr_t)address;
    }
    return NULL;
}

bool code_place(Ctx *ctx, Code *code, const char *name) {
    ElfObject e = {.bytes = code->object, .n = code->object_bytes};
    if (!read_sections(&e)) return false;
    e.offsets = ctx_array(ctx, size_t, e.n_sections + 1);
    if (!copy_sections(&e)) return false;
    code->memory = e.memory;
    code->memory_bytes = e.all;
    code->entry = relocate_all(&e) ? find_entry(&e, name) : NULL;
    if (code->entry && !mprotect(e.memory, e.code, PROT_READ | PROT_EXEC) &&
        (e.all == e.code || !mprotect(e.memory + e.code, e.all - e.code, PROT_READ)))
        return true;
    code_unplace(code);
    return false;
}

void code_unplace(Code *code) {
    if (code->memory) munmap(code->memory, code->memory_bytes);
    code->memory = NULL;
    code->entry = NULL;
}
