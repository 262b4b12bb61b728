// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The base of all folders of the runtime: memory, time, hashes, text.
#ifndef RUNTIME_BASE_BASE_H
#define RUNTIME_BASE_BASE_H

#include "runtime/abi.h"
#include "runtime/tegula.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/// Marks code of a warm launch. After a launch, the driver has displaced most of it from the
/// caches. So this code lies together, and rarely called code (RT_SELDOM) lies elsewhere.
#define RT_WARM   __attribute__((hot))
#define RT_SELDOM __attribute__((cold, noinline))

enum { RT_ALIGNMENT = 64 };

/* ---- memory.c ------------------------------------------------------------------------------ */

/// The allocation functions of the C library.
tg_options rt_default_hooks(void);
void *rt_allocate(const tg_options *hooks, size_t bytes);
void rt_release(const tg_options *hooks, void *memory, size_t bytes);

/* ---- clock.c ------------------------------------------------------------------------------- */

/// A short pause between two reads of a word that another thread changes.
static inline void rt_pause_briefly(void) {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("isb");
#endif
}

/// Nanoseconds of the monotonic clock.
int64_t rt_now_ns(void);
/// The same time in seconds.
double rt_seconds(void);

/* ---- numbers: the runtime is not linked with libm, which has fmin and fmax ----------------- */

static inline double rt_lesser(double a, double b) {
    return a < b ? a : b;
}

static inline double rt_greater(double a, double b) {
    return a > b ? a : b;
}

/* ---- hash.c -------------------------------------------------------------------------------- */

/// One more value in a hash.
static inline uint64_t rt_mix(uint64_t hash, uint64_t value) {
    hash = (hash ^ value) * 0x9e3779b97f4a7c15u;
    return hash ^ hash >> 29;
}

/// The bytes, and how many they are.
uint64_t rt_hash_bytes(uint64_t hash, const void *data, size_t n);
/// text may be NULL.
uint64_t rt_hash_text(uint64_t hash, const char *text);

/* ---- text.c -------------------------------------------------------------------------------- */

/// Text that grows in a buffer of fixed size, and ends in "..." where it does not fit.
typedef struct rt_text {
    char data[1024];
    size_t n;
} rt_text;
void rt_add(rt_text *t, const char *format, ...) __attribute__((format(printf, 2, 3)));
/// "f16"
void rt_add_type(rt_text *t, int code, int bits);
/// "f16[3, 4]"
void rt_add_tensor(rt_text *t, const DLTensor *tensor);

#endif
