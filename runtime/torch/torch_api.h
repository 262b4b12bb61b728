// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The functions of PyTorch's stable C interface that operators use (its AOTInductor header). They
// are looked up in the libtorch that the process has loaded, so building needs no file of PyTorch.
#ifndef RUNTIME_TORCH_TORCH_API_H
#define RUNTIME_TORCH_TORCH_API_H

#include "runtime/tegula.h"

#include <stdbool.h>

typedef struct rt_torch_tensor rt_torch_tensor;   // at::Tensor
typedef struct rt_torch_library rt_torch_library; // torch::Library

/// An implementation of an operator. stack holds the arguments in the order of the schema, and
/// afterwards the results. A tensor is an owned pointer. A double is its bits. Of an optional
/// argument, the element is 0 or an owned pointer to the value.
typedef void rt_torch_function(uint64_t *stack, uint64_t n_arguments, uint64_t n_results);

enum { RT_TORCH_TYPES = 64 };

/// Each function returns 0 if it succeeds.
typedef struct rt_torch {
    int32_t (*open_library)(const char *space, const char *key, const char *file, uint32_t line,
                            rt_torch_library **out);
    int32_t (*implement)(rt_torch_library *library, const char *name, rt_torch_function *function);
    int32_t (*close_library)(rt_torch_library *library);
    int32_t (*data)(rt_torch_tensor *tensor, void **out);
    int32_t (*rank)(rt_torch_tensor *tensor, int64_t *out);
    int32_t (*sizes)(rt_torch_tensor *tensor, int64_t **out);   // borrowed
    int32_t (*strides)(rt_torch_tensor *tensor, int64_t **out); // borrowed
    int32_t (*type)(rt_torch_tensor *tensor, int32_t *out);
    int32_t (*device_type)(rt_torch_tensor *tensor, int32_t *out);
    int32_t (*device_index)(rt_torch_tensor *tensor, int32_t *out);
    int32_t (*empty)(int64_t rank, const int64_t *sizes, const int64_t *strides, int32_t type,
                     int32_t device_type, int32_t device_index, rt_torch_tensor **out);
    int32_t (*set_zero)(rt_torch_tensor *tensor);
    int32_t (*destroy)(rt_torch_tensor *tensor);
    /// Throws a C++ exception with the message, if `holds` is false.
    void (*check)(bool holds, const char *function, const char *file, uint32_t line,
                  const char *message);
    /// NULL: this libtorch has no GPUs.
    int32_t (*stream)(int32_t device_index, void **out);
    /// Says whether a tensor is defined; NULL: this libtorch cannot say so.
    int32_t (*defined)(rt_torch_tensor *tensor, bool *out);
    /// Frees the cell of an optional argument.
    void (*free_cell)(void *cell);
    /// The message of this thread's last failed call; NULL: before PyTorch 2.13.
    const char *(*reason)(void);
    int32_t cpu, gpu;                 // device types
    bool hip;                         // the GPUs are AMD's
    DLDataType types[RT_TORCH_TYPES]; // by PyTorch's number of a type; bits 0: kernels lack it
} rt_torch;

/// Returns the functions. NULL: PyTorch is not loaded, or is too old (tg_last_error).
const rt_torch *rt_torch_load(void);

/// Returns PyTorch's number of a type, or -1.
int32_t rt_torch_type(const rt_torch *torch, DLDataType type);

/// Returns PyTorch's name of a type that it has.
const char *rt_torch_type_name(DLDataType type);

#endif
