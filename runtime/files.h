// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The files that a process has from the one that made it.
#ifndef RUNTIME_FILES_H
#define RUNTIME_FILES_H

/// Closes those from one descriptor to another, both included. May be called after a fork.
void rt_close_files(unsigned first, unsigned last);

#endif
