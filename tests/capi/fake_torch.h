// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A stand-in for libtorch: the functions that operators use, with tensors of the CPU's memory.
#ifndef TESTS_CAPI_FAKE_TORCH_H
#define TESTS_CAPI_FAKE_TORCH_H

#include <stdbool.h>
#include <stdint.h>

enum { FAKE_F32 = 6, FAKE_COMPLEX = 9, FAKE_I64 = 4, FAKE_CPU = 0, FAKE_GPU = 1, FAKE_META = 14 };

typedef struct fake_tensor {
    void *data;
    int64_t rank, sizes[8], strides[8];
    int32_t type, device_type, device_index;
    bool is_zero;
    bool is_undefined;
    bool is_borrowed; // the data are not its own
} fake_tensor;

typedef void fake_function(uint64_t *stack, uint64_t n_arguments, uint64_t n_results);

/// The state, which a test reads and sets.
typedef struct fake_torch {
    int tensors, cells, libraries; // that exist
    bool refuses;                  // implementations
    bool is_full;                  // no tensor can be made
    void (*making)(void);          // is called before a result is made; may be NULL
    /// Makes a dense tensor.
    fake_tensor *(*tensor)(int32_t type, int64_t rank, const int64_t *sizes);
    void (*free)(fake_tensor *tensor);
    /// Makes the cell of an optional argument.
    uint64_t (*cell)(uint64_t value);
    /// Calls the implementation of an operator. Returns the message that it throws, or NULL.
    const char *(*call)(const char *name, const char *key, uint64_t *stack, int n_arguments,
                        int n_results);
    /// The implementation of an operator, and a call of it that throws likewise.
    fake_function *(*find)(const char *name, const char *key);
    const char *(*run)(fake_function *function, uint64_t *stack, int n_arguments, int n_results);
} fake_torch;

#endif
