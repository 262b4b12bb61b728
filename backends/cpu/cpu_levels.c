// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The supported CPU levels, and the detection of the host.
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "backends/cpu/emit.h"
#include "backends/llvm/target.h"

#define V3_FEATURES "+fma,+avx2,+f16c,+bmi2"
#define V4_FEATURES V3_FEATURES ",+avx512f,+avx512bw,+avx512vl,+avx512dq"
#define AMX_FEATURES                                                                               \
    V4_FEATURES ",+avx512vnni,+avx512bf16,+avx512fp16,+amx-tile,+amx-bf16,+amx-int8"

// The levels of the x86-64 psABI and one for CPUs with matrix tiles, lowest first. `features` lists
// in LLVM's form the features that the CPU's name does not imply. Cache sizes are those of common
// CPUs of the level.
static const TargetInfo levels[] = {
    {.name = "x86-64",
     .arch = "x86-64",
     .label = "base",
     .level = TG_LEVEL_BASE,
     .cpu = "x86-64",
     .features = "",
     .vector_bytes = 16,
     .vector_registers = 16,
     .l1_bytes = 32 << 10,
     .l2_bytes = 256 << 10},
    {.name = "x86-64-v3",
     .arch = "x86-64",
     .label = "v3",
     .level = TG_LEVEL_V3,
     .cpu = "x86-64-v3",
     .features = V3_FEATURES,
     .vector_bytes = 32,
     .vector_registers = 16,
     .l1_bytes = 32 << 10,
     .l2_bytes = 512 << 10},
    {.name = "x86-64-v4",
     .arch = "x86-64",
     .label = "v4",
     .level = TG_LEVEL_V4,
     .cpu = "x86-64-v4",
     .features = V4_FEATURES,
     .vector_bytes = 64,
     .vector_registers = 32,
     .l1_bytes = 32 << 10,
     .l2_bytes = 1 << 20},
    {.name = "x86-64-amx",
     .arch = "x86-64",
     .label = "amx",
     .level = TG_LEVEL_AMX,
     .cpu = "x86-64-v4",
     .features = AMX_FEATURES,
     .vector_bytes = 64,
     .vector_registers = 32,
     .l1_bytes = 48 << 10,
     .l2_bytes = 2 << 20},
    {.name = "aarch64",
     .arch = "aarch64",
     .label = "base",
     .level = TG_LEVEL_BASE,
     .cpu = "generic",
     .features = "+neon",
     .vector_bytes = 16,
     .vector_registers = 32,
     .l1_bytes = 64 << 10,
     .l2_bytes = 512 << 10},
};
enum { N_LEVELS = sizeof levels / sizeof *levels };

const TargetInfo *cpu_level(const char *arch, int i) {
    for (int k = 0; k < N_LEVELS; k++)
        if (strcmp(levels[k].arch, arch) == 0 && i-- == 0) return &levels[k];
    return NULL;
}

static int64_t cache_bytes(int name, int64_t otherwise) {
    long n = sysconf(name);
    return n > 0 ? n : otherwise;
}

static void host_info(TargetInfo *out) {
    const char *cpu, *features;
    llvm_host(&cpu, &features);
    bool arm = strcmp(cpu_host_arch(), "aarch64") == 0;
    bool avx512 = strstr(features, "+avx512vl") && strstr(features, "+avx512dq") &&
                  strstr(features, "+avx512bw");
    bool avx = strstr(features, "+avx2") != NULL;
    *out = (TargetInfo){.name = "host",
                        .arch = cpu_host_arch(),
                        .label = "host",
                        .cpu = cpu,
                        .features = features,
                        .vector_bytes = avx512 ? 64
                                        : avx  ? 32
                                               : 16,
                        .vector_registers = avx512 || arm ? 32 : 16,
                        .l1_bytes = cache_bytes(_SC_LEVEL1_DCACHE_SIZE, 32 << 10),
                        .l2_bytes = cache_bytes(_SC_LEVEL2_CACHE_SIZE, 1 << 20)};
}

/// Caps the level of code for this machine by the environment variable TG_LEVEL. The runtime
/// applies the same cap to the code of an object. The names are the labels above. AMX is not a cap.
static void cap_level(TargetInfo *host) {
    const char *label = secure_getenv("TG_LEVEL");
    for (int i = 0; label && i < N_LEVELS; i++) {
        const TargetInfo *t = &levels[i];
        if (strcmp(t->arch, host->arch) == 0 && strcmp(t->label, label) == 0 &&
            t->level < TG_LEVEL_AMX && t->vector_bytes <= host->vector_bytes)
            *host = *t;
    }
}

bool cpu_info(const char *level, TargetInfo *out) {
    if (!level || strcmp(level, "host") == 0) {
        host_info(out);
        cap_level(out);
        return true;
    }
    for (int i = 0; i < N_LEVELS; i++) {
        bool labelled =
            strcmp(levels[i].arch, cpu_host_arch()) == 0 && strcmp(levels[i].label, level) == 0;
        if (strcmp(levels[i].name, level) != 0 && !labelled) continue;
        *out = levels[i];
        return true;
    }
    return false;
}

bool target_is_x86(const TargetInfo *t) {
    return strcmp(t->arch, "x86-64") == 0;
}

bool target_lacks(const TargetInfo *t, const char *feature) {
    return target_is_x86(t) && !strstr(t->features, feature);
}
