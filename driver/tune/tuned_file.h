// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Files of tuning results. `tegula tune` writes them, people read and compare them, and `tegula
// build --tuned` uses them for objects. They are JSON, with one entry a line, in a fixed order:
//
//     {"tegula_tuned": 1, "entries": [
//       {"kernel": "matmul<f16>", "target": "sm_90a", "device": "NVIDIA H200",
//        "shape": "M=4096 N=4096 K=4096", "config": "BM=128 BN=256 BK=64 warps=8",
//        "seconds": 0.000123, "default": 0.00015}      and "interrupted": true
//     ]}
#ifndef DRIVER_TUNE_TUNED_FILE_H
#define DRIVER_TUNE_TUNED_FILE_H

#include "driver/driver.h"

/// The result for one kernel and shape. Kernel, target, device and shape identify an entry.
typedef struct TunedEntry {
    const char *kernel; // in the form of --export
    const char *target; // target of the code: "sm_90a", "x86-64-v3"
    const char *device; // device of the measurement
    const char *shape, *config;
    double seconds, standard; // of a launch with the config, and without tuning
    bool interrupted;         // the search was interrupted, so better settings may be untried
} TunedEntry;
typedef VEC(TunedEntry) Tuned;

/// Adds an entry in order. It replaces an entry with the same identity. The exception: the new
/// search was interrupted and the old one was not.
void tuned_add(Ctx *ctx, Tuned *all, const TunedEntry *entry);
/// Adds the entries of a file's text. False, with *error: it is not such a file.
bool tuned_read(Ctx *ctx, const char *text, size_t n, Tuned *all, const char **error);
void tuned_write(Text *t, const Tuned *all);
/// Returns a kernel with the elements of its type parameters: "matmul<f32,bf16>".
const char *tuned_kernel(Ctx *ctx, const FnDef *kernel, const Elem *types);

/// Reads "BM=64 BN=32", separated by blanks, commas or both. Returns NULL, or the first malformed
/// part.
const char *values_read(Ctx *ctx, const char *text, int *n, NamedValue **out);

#endif
