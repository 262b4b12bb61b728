// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The parts of a code object that a runtime of AMD GPUs reads: its architecture, and the layout of
// a kernel's arguments in memory (metadata in msgpack).
#ifndef TESTS_RUNTIME_HSACO_H
#define TESTS_RUNTIME_HSACO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { HSACO_ARGS = 256, HSACO_ARG_BYTES = 4096 };

typedef struct HsacoKernel {
    int n_args, threads;
    size_t arg_bytes;
    struct {
        size_t offset, size;
    } args[HSACO_ARGS];
} HsacoKernel;

/// Size of the code object; 0: it is none.
size_t hsaco_bytes(const void *code);
/// Architecture, such as 0x942; 0: unknown.
int hsaco_arch(const void *code);
/// False: no kernel has this name.
bool hsaco_kernel(const void *code, const char *name, HsacoKernel *out);

#endif
