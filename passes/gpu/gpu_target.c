// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The table of GPUs.
#include "passes/gpu/gpu.h"

#include <stdlib.h>
#include <string.h>

const GpuTarget gpu_targets[] = {
#define GPU(name_, arch_, lanes_, sms_, threads, ctas, registers, most, shared, shared_one, l2,    \
            gb, ghz, fma, unit, features_, ptx_, link, ...)                                        \
    {.name = name_,                                                                                \
     .arch = arch_,                                                                                \
     .lanes = lanes_,                                                                              \
     .sms = sms_,                                                                                  \
     .threads_sm = threads,                                                                        \
     .ctas_sm = ctas,                                                                              \
     .registers_sm = registers,                                                                    \
     .registers_thread = most,                                                                     \
     .shared_sm = (shared) << 10,                                                                  \
     .shared_cta = (shared_one) << 10,                                                             \
     .l2_bytes = (int64_t)(l2) << 20,                                                              \
     .bandwidth = (gb)*1e9,                                                                        \
     .clock = (ghz)*1e9,                                                                           \
     .fma_cycle = fma,                                                                             \
     .unit_cycle = unit,                                                                           \
     .features = features_,                                                                        \
     .ptx = ptx_},
#include "lang/gpus.def"
    {0},
};

const GpuTarget *gpu_target(const char *name) {
    for (const GpuTarget *t = gpu_targets; t->name; t++)
        if (strcmp(t->name, name) == 0) return t;
    return NULL;
}

static int feature_named(const char *name, size_t n) {
    static const char *const names[] = {
#define FEATURE(name, meaning) #name,
#include "lang/gpu_features.def"
    };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strlen(names[i]) == n && memcmp(names[i], name, n) == 0) return 1 << i;
    return 0;
}

static int features_named(const char *list) {
    int features = 0;
    for (size_t n; *list; list += n + (list[n] == '|')) {
        n = strcspn(list, "|");
        features |= feature_named(list, n);
    }
    return features;
}

bool gpu_meets(const GpuTarget *t, const char *needs) {
    enum { FIRST = 80 };
    bool exact = *needs == '=', specific;
    char *end;
    int number = (int)strtol(needs + exact, &end, 10);
    if (end == needs + exact) return gpu_has_any(t, features_named(needs));
    specific = *end == 'a';
    if (gpu_has_any(t, GPU_AMD)) return number == FIRST && !exact && !specific;
    if (specific && !gpu_has(t, GPU_SPECIFIC)) return false;
    return exact ? t->arch == number : t->arch >= number;
}
