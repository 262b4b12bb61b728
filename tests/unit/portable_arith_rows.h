// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Target functions for arithmetic in C, with which a portable module runs on the host.
#ifndef TESTS_UNIT_PORTABLE_ARITH_ROWS_H
#define TESTS_UNIT_PORTABLE_ARITH_ROWS_H

/// The function of "tg.ex2.approx", or NULL.
void *arith_row(const char *name);

/// The approximations are as wrong as PTX lets them be times this, -1 to 1.
extern double arith_bend;

#endif
