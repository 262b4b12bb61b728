// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// See hsaco.h. The code objects come from our own compiler, so the reader trusts them.
#include "tests/runtime/hsaco.h"

#include <elf.h>
#include <string.h>

/* ---- ELF ----------------------------------------------------------------------------------- */

static const Elf64_Ehdr *header_of(const void *code) {
    enum { AMDGPU = 224 };
    const Elf64_Ehdr *h = code;
    bool good = memcmp(h->e_ident, ELFMAG, SELFMAG) == 0 && h->e_machine == AMDGPU;
    return good ? h : NULL;
}

size_t hsaco_bytes(const void *code) {
    const Elf64_Ehdr *h = header_of(code);
    return h ? h->e_shoff + (size_t)h->e_shentsize * h->e_shnum : 0;
}

int hsaco_arch(const void *code) {
    static const struct {
        unsigned flags;
        int arch;
    } rows[] = {{0x3f, 0x90a}, {0x4c, 0x942}, {0x4f, 0x950}, {0x41, 0x1100}, {0x4e, 0x1201}};
    const Elf64_Ehdr *h = header_of(code);
    for (size_t i = 0; h && i < sizeof rows / sizeof *rows; i++)
        if (rows[i].flags == (h->e_flags & 0xff)) return rows[i].arch;
    return 0;
}

/// The note with the metadata.
static const unsigned char *metadata_of(const void *code) {
    enum { METADATA = 32 };
    const Elf64_Ehdr *h = header_of(code);
    for (int i = 0; h && i < h->e_shnum; i++) {
        const Elf64_Shdr *s =
            (const Elf64_Shdr *)((const char *)code + h->e_shoff + (size_t)i * h->e_shentsize);
        if (s->sh_type != SHT_NOTE) continue;
        const Elf64_Nhdr *n = (const Elf64_Nhdr *)((const char *)code + s->sh_offset);
        if (n->n_type == METADATA)
            return (const unsigned char *)(n + 1) + (n->n_namesz + 3) / 4 * 4;
    }
    return NULL;
}

/* ---- msgpack ------------------------------------------------------------------------------- */

/// The head of a value: its kind, and its number or length.
typedef struct Head {
    enum { NUMBER, TEXT, LIST, MAP } kind;
    uint64_t n;
} Head;

static uint64_t number(const unsigned char **at, int bytes) {
    uint64_t n = 0;
    for (int i = 0; i < bytes; i++) n = n << 8 | *(*at)++;
    return n;
}

/// Parses a head and leaves *at after it, at the start of a text.
static Head head(const unsigned char **at) {
    unsigned tag = *(*at)++;
    if (tag < 0x80) return (Head){NUMBER, tag};
    if (tag < 0x90) return (Head){MAP, tag & 15};
    if (tag < 0xa0) return (Head){LIST, tag & 15};
    if (tag < 0xc0) return (Head){TEXT, tag & 31};
    if (tag >= 0xe0 || tag < 0xc4) return (Head){NUMBER, tag & 1};
    if (tag >= 0xcc && tag <= 0xcf) return (Head){NUMBER, number(at, 1 << (tag - 0xcc))};
    if (tag >= 0xd0 && tag <= 0xd3) return (Head){NUMBER, number(at, 1 << (tag - 0xd0))};
    if (tag >= 0xd9 && tag <= 0xdb) return (Head){TEXT, number(at, 1 << (tag - 0xd9))};
    if (tag == 0xdc || tag == 0xdd) return (Head){LIST, number(at, tag == 0xdc ? 2 : 4)};
    return (Head){MAP, number(at, tag == 0xde ? 2 : 4)};
}

static void skip(const unsigned char **at) {
    Head h = head(at);
    if (h.kind == TEXT) *at += h.n;
    for (uint64_t i = 0; i < h.n && (h.kind == LIST || h.kind == MAP); i++) {
        skip(at);
        if (h.kind == MAP) skip(at);
    }
}

/// The value of a key in the map that begins at `map`, or NULL.
static const unsigned char *value_of(const unsigned char *map, const char *key) {
    for (uint64_t n = head(&map).n; n > 0; n--) {
        Head h = head(&map);
        bool found = h.n == strlen(key) && memcmp(map, key, h.n) == 0;
        map += h.n;
        if (found) return map;
        skip(&map);
    }
    return NULL;
}

static uint64_t number_of(const unsigned char *map, const char *key) {
    const unsigned char *at = value_of(map, key);
    return at ? head(&at).n : 0;
}

static bool is_named(const unsigned char *kernel, const char *name) {
    const unsigned char *at = value_of(kernel, ".name");
    Head h = head(&at);
    return h.n == strlen(name) && memcmp(at, name, h.n) == 0;
}

bool hsaco_kernel(const void *code, const char *name, HsacoKernel *out) {
    const unsigned char *kernel = metadata_of(code);
    if (!kernel) return false;
    kernel = value_of(kernel, "amdhsa.kernels");
    uint64_t n = head(&kernel).n;
    while (n > 0 && !is_named(kernel, name)) skip(&kernel), n--;
    if (!n) return false;
    *out = (HsacoKernel){.threads = (int)number_of(kernel, ".max_flat_workgroup_size"),
                         .arg_bytes = number_of(kernel, ".kernarg_segment_size")};
    const unsigned char *arg = value_of(kernel, ".args");
    uint64_t left = arg ? head(&arg).n : 0;
    for (; left > 0 && out->n_args < HSACO_ARGS; left--, skip(&arg)) {
        out->args[out->n_args].offset = number_of(arg, ".offset");
        out->args[out->n_args++].size = number_of(arg, ".size");
    }
    return true;
}
