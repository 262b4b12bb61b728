// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The table of GPUs.
#include "passes/gpu/gpu.h"

#include <string.h>

const GpuTarget gpu_targets[] = {
#define GPU(name_, arch_, lanes_, sms_, threads, ctas, registers, most, shared, shared_one, l2,    \
            gb, ghz, fma, unit, features_)                                                         \
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
     .features = features_},
#include "passes/gpu/targets.def"
    {0},
};

const GpuTarget *gpu_target(const char *name) {
    for (const GpuTarget *t = gpu_targets; t->name; t++)
        if (strcmp(t->name, name) == 0) return t;
    return NULL;
}
