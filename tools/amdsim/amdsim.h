// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Runs kernels of AMD code objects on the CPU. README.md lists the GPUs and the checks.
#ifndef TOOLS_AMDSIM_AMDSIM_H
#define TOOLS_AMDSIM_AMDSIM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum AmdsimStatus {
    AMDSIM_OK,
    AMDSIM_BAD_CODE,  // not a code object, or of a GPU that is not emulated
    AMDSIM_NO_KERNEL, // none of that name
    AMDSIM_NO_MEMORY,
    AMDSIM_UNKNOWN, // an instruction that is not emulated
    AMDSIM_ACCESS,  // outside of all buffers, or a store to one that is read only
    AMDSIM_FAULT,   // a race, a missing wait, a trap and their like
} AmdsimStatus;

/// Memory that the kernel may access.
typedef struct AmdsimBuffer {
    uint64_t at, bytes;
    bool read_only;
} AmdsimBuffer;

typedef struct AmdsimLaunch {
    const void *code; // an ELF file
    size_t code_bytes;
    const char *kernel;
    uint32_t grid[3], block[3]; // in work-groups; in work-items
    const void *args;           // as the kernel's metadata lay them out
    size_t arg_bytes;
    uint32_t shared_bytes; // beside those that the kernel declares
    const AmdsimBuffer *buffers;
    size_t n_buffers;
    uint64_t seed; // of the order of waves; 0: one after the other, from barrier to barrier
} AmdsimLaunch;

typedef struct AmdsimResult {
    AmdsimStatus status;
    char message[512];
    uint64_t instructions; // of all waves
    // Of AMDSIM_ACCESS: the address, the bytes, and whether the instruction is an atomic or a load
    // that goes to memory for the sake of one.
    uint64_t address;
    uint32_t bytes;
    bool atomic;
} AmdsimResult;

/// Runs the work-groups in order. Launches may run at the same time, each with a result of its own.
__attribute__((visibility("default"))) AmdsimStatus amdsim_launch(const AmdsimLaunch *launch,
                                                                  AmdsimResult *result);

#endif
