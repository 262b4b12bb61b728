// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Cuts the programs of a phase that joins partial sums (split.c) by rows.
#ifndef PASSES_GPU_JOIN_ROWS_H
#define PASSES_GPU_JOIN_ROWS_H

#include "ir/ir.h"

/// Returns the rows of the loop's results that one program should join and store, given the number
/// of parts. 0: the ops around the loop do not go by rows, or all rows are few enough.
int64_t rows_of_join(Ir *ir, const Op *loop, int64_t parts);
/// Returns the rows first .. first + rows - 1 of a value from before the loop, built at b.
Value *rows_of_value(Builder *b, Value *v, Value *first, int64_t rows);
/// Makes the stores after the loop store only these rows. joined[]: these rows of the results.
/// Erases the loop and all ops after it that have become dead.
void store_rows(Ir *ir, Op *loop, Value *const *joined, Value *first, int64_t rows);

#endif
