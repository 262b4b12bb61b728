// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// NumPy's .npy files, versions 1 and 2: dense arrays of plain elements.
#ifndef TOOLS_NPY_H
#define TOOLS_NPY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { NPY_MAX_RANK = 8, NPY_ERROR_SIZE = 256 };

typedef struct Npy {
    char kind; // 'b' bool, 'i', 'u', 'f'
    int size;  // bytes in an element: 1, 2, 4, 8
    int rank;
    int64_t shape[NPY_MAX_RANK];
    bool fortran; // the first dimension varies fastest
    void *data;   // native byte order; free() it
    size_t bytes;
} Npy;

/// On failure returns false and writes the reason to error[NPY_ERROR_SIZE].
bool npy_read(const char *path, Npy *out, char *error);
/// Writes version 1, little-endian, through a temporary file beside the target.
bool npy_write(const char *path, const Npy *a, char *error);

#endif
