// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Runs kernels of AMD code objects on the CPU. README.md lists the GPUs and the checks.
#ifndef TOOLS_AMDSIM_AMDSIM_H
#define TOOLS_AMDSIM_AMDSIM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum AmdsimStatus {
    AMDSIM_OK,
    AMDSIM_BAD_CODE,  // not a code object, or one for a GPU that is not emulated
    AMDSIM_NO_KERNEL, // no kernel of that name
    AMDSIM_NO_MEMORY,
    AMDSIM_UNKNOWN, // an instruction that is not emulated
    AMDSIM_ACCESS,  // an access outside of all buffers, or a store to a read-only one
    AMDSIM_FAULT,   // a race, a missing wait, a trap or a similar fault
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
    uint32_t grid[3], block[3]; // grid in work-groups; block in work-items
    const void *args;           // laid out as the kernel's metadata say
    size_t arg_bytes;
    uint32_t shared_bytes; // in addition to the kernel's own
    const AmdsimBuffer *buffers;
    size_t n_buffers;
    uint64_t seed; // seed of the order of waves; 0: one after the other, from barrier to barrier
} AmdsimLaunch;

typedef struct AmdsimResult {
    AmdsimStatus status;
    char message[512];
    uint64_t instructions; // count over all waves
    // For AMDSIM_ACCESS: the address, the size, and whether the instruction is an atomic, or a
    // coherent load that may precede one.
    uint64_t address;
    uint32_t bytes;
    bool atomic;
} AmdsimResult;

/// Runs the work-groups in order. Launches may run at the same time, each with its own result.
__attribute__((visibility("default"))) AmdsimStatus amdsim_launch(const AmdsimLaunch *launch,
                                                                  AmdsimResult *result);

#endif
