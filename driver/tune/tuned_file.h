// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Files of what tuning found: `tegula tune` writes them, people read and compare them, and
// `tegula build --tuned` makes objects of them. JSON, an entry a line, in a fixed order:
//
//     {"tegula_tuned": 1, "entries": [
//       {"kernel": "matmul<f16>", "target": "sm_90a", "device": "NVIDIA H200",
//        "shape": "M=4096 N=4096 K=4096", "config": "BM=128 BN=256 BK=64 warps=8",
//        "seconds": 0.000123, "default": 0.00015}      and "interrupted": true
//     ]}
#ifndef DRIVER_TUNE_TUNED_FILE_H
#define DRIVER_TUNE_TUNED_FILE_H

#include "driver/driver.h"

/// What was found for one kernel and one shape. Kernel, target, device and shape tell it from
/// others.
typedef struct TunedEntry {
    const char *kernel; // as --export takes it
    const char *target; // what code was made for: "sm_90a", "x86-64-v3"
    const char *device; // that it was measured on
    const char *shape, *config;
    double seconds, standard; // of a launch with it, and without tuning
    bool interrupted;         // its search was: what is best was perhaps not tried
} TunedEntry;
typedef VEC(TunedEntry) Tuned;

/// Adds an entry in its place; it replaces one that is told apart from it by nothing, but where its
/// search alone was interrupted.
void tuned_add(Ctx *ctx, Tuned *all, const TunedEntry *entry);
/// Adds those of a file's text; false, with *error, where it is none.
bool tuned_read(Ctx *ctx, const char *text, size_t n, Tuned *all, const char **error);
void tuned_write(Text *t, const Tuned *all);
/// "matmul<f32,bf16>": a kernel with the elements of its type parameters.
const char *tuned_kernel(Ctx *ctx, const FnDef *kernel, const Elem *types);

/// Reads "BM=64 BN=32" with blanks, commas or both between. NULL, or the part that is not of that
/// form.
const char *values_read(Ctx *ctx, const char *text, int *n, NamedValue **out);

#endif
