// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Hand-written kernels, described to the runtime like compiled ones.
#ifndef TESTS_RUNTIME_KERNELS_H
#define TESTS_RUNTIME_KERNELS_H

#include "runtime/abi.h"
#include "runtime/tegula.h"

#include <stdatomic.h>

/// The arguments that a variant of `attend` received.
typedef struct Seen {
    int variant; // -1: none ran
    tg_slot slots[8];
    int64_t shape[3], strides[3]; // of slot 0
} Seen;
extern _Thread_local Seen seen;

/// attend<T: float>(q: T[N, D], bias?: T[D], o: T[N, D], causal: const bool, scale: T, k: i8).
/// Facts: T, causal, D = 64 | 128, bias; a variant for strides of 1 and one for any; levels.
extern tg_kernel attend;
/// The same without variants; a compiler provides them.
extern const tg_kernel_info attend_info;

/// copy(x: f32[..R], y: f32[..R]): in one phase, 16 elements a task. x and y may be one view.
/// Packs of one and of two axes. Prints "copy" where x[0] is 42; fails where x[0] is -1.
extern tg_kernel copy;
/// ranged<A>(x: i4[N], a: A, y: i4[N]): variant 0 for 10 <= N <= 20, variant 1 for x with strides
/// other than 0 and 1. Stores a.
extern tg_kernel ranged;
/// As many tasks as elements, with workspace and arenas; y[i] = 2 x[i]. x: f32[N].
extern tg_kernel twice;
/// y[0] = x[0], in one task; x, y: f32[N].
extern tg_kernel tiny;
tg_entry tiny_entry;

/// Zeroed memory that this process shares with its forks.
void *shared_memory(size_t bytes);

/// Dense f32 of one axis.
static inline DLTensor row(const float *data, const int64_t *n) {
    return tg_dense(data, kDLFloat, 32, 1, n);
}

#endif
