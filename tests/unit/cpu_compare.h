// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Runs a kernel of IR text on the interpreter and as machine code, and compares the resulting
// memory.
#ifndef TESTS_UNIT_CPU_COMPARE_H
#define TESTS_UNIT_CPU_COMPARE_H

#include <stdbool.h>
#include <stddef.h>

#include "backends/backend.h"

typedef struct CompareOptions {
    const char *level; // CPU level; NULL: the host's
    double tolerance;  // relative, for floats; 0: exact
    bool debug, check;
    const char *expect_failure; // text that both must fail with
    int threads;                // 0: one
    int spread;                 // values are in -spread .. spread; 0: 4
} CompareOptions;

/// args: a word for each parameter: `f32[37,64]`, `f32[64,37]^T` (axes reversed in memory),
/// `f32[8,8]+3` (rows 3 elements further apart), `i64=5`, `f32=1.5`, `null`. Fails the test with a
/// message if the executors differ.
void compare_kernel(const char *text, const char *args, const CompareOptions *options);

/// Compiles a module; NULL with diagnostics, also for compiler bugs.
Code *compile_native(Ir *ir, Op *module, const CodeOptions *options, bool load);

#endif
