// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The objects under test of spawned.c, in a program or in a library that it opens.
#ifndef TESTS_RUNTIME_SPAWNED_H
#define TESTS_RUNTIME_SPAWNED_H

/// Returns the number of failed tests.
int spawned_tests(void);
/// Tunes an object for which no process can be started, and expects the reason in the log.
int spawned_refusal(const char *text);

#endif
