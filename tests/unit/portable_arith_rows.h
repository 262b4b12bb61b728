// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// C implementations of the target functions for arithmetic, with which a portable module runs on
// the host.
#ifndef TESTS_UNIT_PORTABLE_ARITH_ROWS_H
#define TESTS_UNIT_PORTABLE_ARITH_ROWS_H

/// Returns the function of a name such as "tg.ex2.approx", or NULL.
void *arith_row(const char *name);

/// Approximations have this part of the error that PTX allows, from -1 to 1.
extern double arith_bend;

#endif
