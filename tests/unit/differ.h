// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Differential tests: one kernel of IR text, run by the interpreter and as machine code on the same
// random data, must leave the same memory behind.
#ifndef TESTS_UNIT_DIFFER_H
#define TESTS_UNIT_DIFFER_H

#include "lang/base.h"

/// The contents of a tensor.
typedef enum Values {
    VALUES_EXACT,   // small numbers whose sums and products are exact
    VALUES_SPECIAL, // with NaN, infinities and both zeros
    VALUES_INDEX,   // integers from -2 to 17
} Values;

/// The text of a kernel under construction. All parameters are tensors of rank 2 with known
/// extents.
typedef struct KernelText {
    Text text;
    Values values[8]; // contents of the parameters
    int n;
} KernelText;

/// First come parameters, then body text, loads and stores, then differ_run.
void kernel_begin(KernelText *k, Ctx *ctx);
/// Adds a parameter %name. column_major: its first axis is contiguous.
void kernel_param(KernelText *k, const char *name, const char *elem, int rows, int columns,
                  bool column_major, Values values);
void kernel_body(KernelText *k);
/// %to = all of tensor %from.
void kernel_load(KernelText *k, const char *to, const char *from, const char *elem, int rows,
                 int columns);
/// Tensor %to = block %value.
void kernel_store(KernelText *k, const char *to, const char *value, int rows, int columns);
/// Returns `0` as a constant of the element.
const char *zero_of(const char *elem);

/// Ends the kernel, runs it both ways, for this machine and for x86-64-v3. Fails the test, naming
/// `what`, if an element differs by more than tolerance * (1 + its size).
void differ_run(KernelText *k, double tolerance, const char *what);
/// Ends the kernel and returns its assembly for a level, in the arena.
const char *differ_assembly(KernelText *k, const char *level);

#endif
