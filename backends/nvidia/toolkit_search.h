// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The locations of the parts of a CUDA toolkit.
#ifndef BACKENDS_NVIDIA_TOOLKIT_SEARCH_H
#define BACKENDS_NVIDIA_TOOLKIT_SEARCH_H

#include <stdbool.h>

/// Calls visit with the files that match `patterns` (NULL-terminated globs; those without a leading
/// slash are below $CUDA_HOME), newest name first, until a call returns true.
bool nv_toolkit_search(const char *const *patterns, bool (*visit)(const char *path, void *arg),
                       void *arg);

#endif
