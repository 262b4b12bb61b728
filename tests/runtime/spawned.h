// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The objects under test of spawned.c, in a program or in a library that it opens.
#ifndef TESTS_RUNTIME_SPAWNED_H
#define TESTS_RUNTIME_SPAWNED_H

/// Returns the number of failed tests.
int spawned_tests(void);

#endif
