// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Finds the level of code that this CPU and its operating system can run.
#include "runtime/compiler.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#if defined(__x86_64__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { ARCH_REQ_XCOMP_PERM = 0x1023, XFEATURE_XTILEDATA = 18 };

/// A feature that a level needs: a bit of a register that cpuid returns for a leaf.
typedef struct Feature {
    uint32_t leaf, subleaf;
    enum { EAX, EBX, ECX, EDX } reg;
    int bit;
} Feature;

static const Feature v3[] = {
    {1, 0, ECX, 12},         {1, 0, ECX, 22}, {1, 0, ECX, 27}, // FMA MOVBE OSXSAVE
    {1, 0, ECX, 28},         {1, 0, ECX, 29},                  // AVX F16C
    {7, 0, EBX, 3},          {7, 0, EBX, 5},  {7, 0, EBX, 8},  // BMI1 AVX2 BMI2
    {0x80000001, 0, ECX, 5},                                   // LZCNT
    {1, 0, ECX, 0},          {1, 0, ECX, 9},  {1, 0, ECX, 13}, // SSE3 SSSE3 CMPXCHG16B
    {1, 0, ECX, 19},         {1, 0, ECX, 20}, {1, 0, ECX, 23}, // SSE4.1 SSE4.2 POPCNT
    {0x80000001, 0, ECX, 0},                                   // LAHF
};
static const Feature v4[] = {
    {7, 0, EBX, 16}, {7, 0, EBX, 17}, {7, 0, EBX, 28}, // AVX512 F DQ CD
    {7, 0, EBX, 30}, {7, 0, EBX, 31},                  // BW VL
};
static const Feature amx[] = {
    {7, 0, EDX, 22}, {7, 0, EDX, 24}, {7, 0, EDX, 25}, // AMX BF16 TILE INT8
    {7, 0, EDX, 23}, {7, 0, ECX, 11}, {7, 1, EAX, 5},  // AVX512 FP16 VNNI BF16
};

/// Each level includes the levels below it. The system must also save its registers (XCR0).
static const struct {
    const Feature *features;
    int n;
    uint64_t state;
} needs[TG_LEVELS] = {
    [TG_LEVEL_V3] = {v3, sizeof v3 / sizeof *v3, 0x6},
    [TG_LEVEL_V4] = {v4, sizeof v4 / sizeof *v4, 0xe6},
    [TG_LEVEL_AMX] = {amx, sizeof amx / sizeof *amx, 0x600e6},
};

static bool has_feature(const Feature *f) {
    uint32_t r[4];
    if (!__get_cpuid_count(f->leaf, f->subleaf, &r[0], &r[1], &r[2], &r[3])) return false;
    return r[f->reg] >> f->bit & 1;
}

/// Valid only if cpuid says that the system uses xsave.
static uint64_t enabled_state(void) {
    uint32_t low, high;
    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return (uint64_t)high << 32 | low;
}

static bool has_level(int level) {
    for (int i = 0; i < needs[level].n; i++)
        if (!has_feature(&needs[level].features[i])) return false;
    if ((enabled_state() & needs[level].state) != needs[level].state) return false;
    // The kernel grants the tile registers on request, for the whole process.
    return level != TG_LEVEL_AMX ||
           syscall(SYS_arch_prctl, ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA) == 0;
}
/// The vendor's brand string: 48 characters in the registers of three leaves.
static bool read_cpu_brand(char out[TG_CPU_NAME]) {
    for (uint32_t i = 0, r[4]; i < 3; i++) {
        if (!__get_cpuid(0x80000002 + i, &r[0], &r[1], &r[2], &r[3])) return false;
        memcpy(out + 16 * i, r, sizeof r);
    }
    return true;
}
#else
static bool has_level(int level) {
    (void)level;
    return false;
}

static bool read_cpu_brand(char out[TG_CPU_NAME]) {
    (void)out;
    return false;
}
#endif

/// Vendors pad the string with blanks on either side and between words.
void tg_cpu_name(char out[TG_CPU_NAME]) {
    char words[TG_CPU_NAME] = "";
    size_t n = 0;
    if (!read_cpu_brand(words)) strcpy(words, "CPU");
    for (const char *s = words; *s; s++)
        if (*s != ' ' || (n && out[n - 1] != ' ')) out[n++] = *s;
    while (n && out[n - 1] == ' ') n--;
    out[n] = 0;
}

const char *tg_level_name(enum tg_level level) {
    static const char *const names[TG_LEVELS] = {"base", "v3", "v4", "amx"};
    return names[level];
}

/// TG_LEVEL=base|v3|v4|amx caps the level.
static int allowed_level(void) {
    const char *cap = secure_getenv("TG_LEVEL");
    for (int i = 0; cap && i < TG_LEVELS; i++)
        if (strcmp(cap, tg_level_name((enum tg_level)i)) == 0) return i;
    return TG_LEVELS - 1;
}

/// Finds the level once. Two threads that come first find the same.
enum tg_level tg_cpu_level(void) {
    static _Atomic int known; // level + 1
    int level = atomic_load_explicit(&known, memory_order_relaxed) - 1;
    if (level >= 0) return (enum tg_level)level;
    int most = allowed_level();
    for (level = 0; level < most && has_level(level + 1);) level++;
    atomic_store_explicit(&known, level + 1, memory_order_relaxed);
    return (enum tg_level)level;
}
