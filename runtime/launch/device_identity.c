// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The identity of a device, as far as it decides which setting is fastest: as text for people and
// files, and as a number for variants.
#include "runtime/compiler.h"
#include "runtime/gpu/gpu_launch.h"
#include "runtime/runtime.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#if defined(__x86_64__)
#include <cpuid.h>
#endif

#if defined(__x86_64__)
/// Family, model and stepping. Hypervisors give all CPUs of a vendor the same name.
static uint32_t cpu_model(void) {
    uint32_t r[4];
    return __get_cpuid(1, &r[0], &r[1], &r[2], &r[3]) ? r[0] : 0;
}
#else
static uint32_t cpu_model(void) {
    unsigned long id = 0;
    FILE *f = fopen("/sys/devices/system/cpu/cpu0/regs/identification/midr_el1", "r");
    if (f && fscanf(f, "%lx", &id) != 1) id = 0;
    if (f) fclose(f);
    return (uint32_t)id;
}
#endif

/// cpuid is slow on virtual CPUs, so the answer is kept.
static char cpu[TG_CPU_NAME + 16];

static void ask_cpu(void) {
    char name[TG_CPU_NAME];
    tg_cpu_name(name);
    snprintf(cpu, sizeof cpu, "%s (%x)", name, (unsigned)cpu_model());
}

void tg_device_text(int device, int threads, char out[TG_DEVICE_TEXT]) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    if (device < 0) {
        pthread_once(&once, ask_cpu);
        snprintf(out, TG_DEVICE_TEXT, "%s, %d threads", cpu, threads);
        return;
    }
    const rt_device *d = rt_device_at(device);
    if (!d)
        snprintf(out, TG_DEVICE_TEXT, "no device");
    else
        snprintf(out, TG_DEVICE_TEXT,
                 "%s, %s, %d SMs of %d KiB, %d MHz, L2 %d KiB, memory %d MHz x %d bits", d->name,
                 d->arch, d->processors, d->shared_bytes >> 10, d->clock_khz / 1000,
                 d->l2_bytes >> 10, d->memory_khz / 1000, d->bus_bits);
}

uint32_t tg_device_hash(const char *text) {
    uint64_t hash = rt_hash_text(0, text);
    uint32_t folded = (uint32_t)(hash ^ hash >> 32);
    return folded ? folded : 1;
}

uint32_t rt_device_hash(int device, int threads) {
    char text[TG_DEVICE_TEXT];
    tg_device_text(device, threads, text);
    return tg_device_hash(text);
}
