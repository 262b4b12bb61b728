// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Starts processes, and controls the files that they inherit.
#ifndef RUNTIME_BASE_PROCESS_H
#define RUNTIME_BASE_PROCESS_H

#include <sys/types.h>

/// Starts a program with default signal handling. A plain name is looked up in PATH, except with
/// raised privileges. Its files 0, 1, ... are the n given descriptors of this process; -1: closed.
/// All other files are closed. The process leads a group, so that a signal reaches the programs
/// that it starts, too. Returns 0 or an errno value.
int rt_start_program(const char *program, char *const argv[], char *const environment[],
                     const int *files, int n, pid_t *child);

/// Closes the descriptors from first to last, inclusive. Safe after a fork.
void rt_close_files(unsigned first, unsigned last);

#endif
