// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Processes that are started, and the files that one has from the one that made it.
#ifndef RUNTIME_BASE_PROCESS_H
#define RUNTIME_BASE_PROCESS_H

#include <sys/types.h>

/// Starts a program, which is looked for in PATH (not by one with raised privileges), with signals
/// as at the start of one. Its files 0, 1, ... are n of this process's, -1: none of them. Others
/// that this process leaves open it closes itself. Returns 0 or what went wrong, as errno has it.
int rt_start_program(const char *program, char *const argv[], char *const environment[],
                     const int *files, int n, pid_t *child);

/// Closes those from one descriptor to another, both included. May be called after a fork.
void rt_close_files(unsigned first, unsigned last);

#endif
