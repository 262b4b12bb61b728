// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What levels of x86-64 there are, and what the host is.
#include <llvm-c/TargetMachine.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "backends/cpu/private.h"

// The levels of the x86-64 psABI; features as LLVM wants them where the CPU's name does not imply
// them for all that we ask.
static const TargetInfo levels[] = {
    {"x86-64-v3", "+fma,+avx2,+f16c,+bmi2", 32, 16, 32 << 10, 512 << 10},
    {"x86-64-v4", "+fma,+avx2,+f16c,+bmi2,+avx512f,+avx512bw,+avx512vl,+avx512dq", 64, 32, 32 << 10,
     1 << 20},
};

static int64_t cache_bytes(int name, int64_t otherwise) {
    long n = sysconf(name);
    return n > 0 ? n : otherwise;
}

/// LLVM's names of the CPU this runs on, kept for the life of the process.
static void host_info(TargetInfo *out) {
    static _Thread_local char cpu[64], features[4096];
    if (!cpu[0]) {
        char *name = LLVMGetHostCPUName(), *list = LLVMGetHostCPUFeatures();
        snprintf(features, sizeof features, "%s", list);
        snprintf(cpu, sizeof cpu, "%s", name);
        LLVMDisposeMessage(name);
        LLVMDisposeMessage(list);
    }
    bool avx512 = strstr(features, "+avx512vl") && strstr(features, "+avx512dq") &&
                  strstr(features, "+avx512bw");
    bool avx = strstr(features, "+avx2") != NULL;
    *out = (TargetInfo){.cpu = cpu,
                        .features = features,
                        .vector_bytes = avx512 ? 64
                                        : avx  ? 32
                                               : 16,
                        .vector_registers = avx512 ? 32 : 16,
                        .l1_bytes = cache_bytes(_SC_LEVEL1_DCACHE_SIZE, 32 << 10),
                        .l2_bytes = cache_bytes(_SC_LEVEL2_CACHE_SIZE, 1 << 20)};
}

bool cpu_info(const char *level, TargetInfo *out) {
    if (!level || strcmp(level, "host") == 0) {
        host_info(out);
        return true;
    }
    for (size_t i = 0; i < sizeof levels / sizeof *levels; i++) {
        if (strcmp(levels[i].cpu, level) != 0) continue;
        *out = levels[i];
        return true;
    }
    return false;
}
