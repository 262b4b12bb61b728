// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The contract between compiled kernels and the runtime. Compiled code refers to no symbol: all it
// needs of the world comes through tg_env. Fields are only ever added at the end.
#ifndef RUNTIME_ABI_H
#define RUNTIME_ABI_H

#include <stdint.h>

/// An argument of a kernel. A tensor: strides count elements and are never NULL. A null optional
/// tensor: data is NULL. A scalar: its bits stand in `bits`, sign- or zero-extended.
typedef union tg_slot {
    struct {
        void *data;
        const int64_t *shape, *strides;
    } tensor;
    uint64_t bits;
} tg_slot;

/// Where compiled code can fail or print, and with what text. `{}` in the text stands for the next
/// value; types has a letter for each value: b bool, d signed, u unsigned, f double (its bits);
/// [dd] is a block of two, [dd+] the first two lanes of a longer one.
typedef struct tg_site {
    int32_t kind; // enum tg_site_kind
    int32_t line, column;
    int32_t n_values; // of which the last n_indices are the indices of a lane
    int32_t n_indices, reserved;
    const char *file, *text, *types;
} tg_site;

enum tg_site_kind {
    TG_SITE_REQUIRE,
    TG_SITE_ASSERT,
    TG_SITE_BOUNDS,
    TG_SITE_DIVIDE,
    TG_SITE_PRINT,
};

typedef struct tg_env tg_env;

/// One task of a launch. `arena` is this thread's memory, aligned to 64 bytes. Returns 0 or what
/// `fail` returned.
typedef int32_t tg_task(const tg_env *env, void *context, int64_t task, void *arena);

/// What compiled code may ask for.
struct tg_env {
    /// Runs task 0 .. n - 1 on the threads, each thread with its own arena; returns when all have
    /// ended, with 0 or the status of the failed task of least number.
    int32_t (*parallel_for)(const tg_env *env, int64_t n, int64_t arena_bytes, tg_task *task,
                            void *context);
    /// Memory that lives until the kernel returns, 64-byte aligned; NULL where there is none.
    void *(*workspace)(const tg_env *env, int64_t bytes);
    /// The calling thread's arena.
    void *(*arena)(const tg_env *env, int64_t bytes);
    /// Records a failure; returns the status to return, never 0. A NULL site: out of memory.
    int32_t (*fail)(const tg_env *env, const tg_site *site, const uint64_t *values);
    void (*print)(const tg_env *env, const tg_site *site, const uint64_t *values);
    void *user;
};

/// A compiled kernel.
typedef int32_t tg_entry(const tg_slot *args, const tg_env *env);

#endif
