// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Kernels for tests of the simulator: built by calls, compiled and run at once.
#ifndef TESTS_UNIT_SIM_KERNEL_H
#define TESTS_UNIT_SIM_KERNEL_H

#include "backends/llvm/target.h"
#include "backends/sim/sim.h"

/// A kernel `k` of seven pointers to global memory and a tensor map.
typedef struct SimKernel {
    Gen *g;
    LLVMValueRef fn, params[8], thread, shared, base;
} SimKernel;

/// The builder of a kernel, and its data.
typedef struct SimCase {
    const char *target;
    int threads, n_buffers;
    int64_t shared_bytes;
    bool check;
    SimBuffer buffers[7];
    const void *map; // or NULL
    void (*build)(SimKernel *k, const void *arg);
    const void *arg;
} SimCase;

/// Runs the case. True: success; otherwise the failure is printed.
bool sim_case_run(const SimCase *c, SimFailure *failure);
/// i32 arithmetic and memory; addresses are in bytes.
LLVMValueRef sim_i32(const SimKernel *k, int64_t v);
LLVMValueRef sim_at(const SimKernel *k, LLVMValueRef p, LLVMValueRef bytes);
LLVMValueRef sim_load(const SimKernel *k, LLVMTypeRef type, LLVMValueRef p, LLVMValueRef bytes);
void sim_store(const SimKernel *k, LLVMValueRef v, LLVMValueRef p, LLVMValueRef bytes);
LLVMValueRef sim_add(const SimKernel *k, LLVMValueRef x, int64_t y);
LLVMValueRef sim_mul(const SimKernel *k, LLVMValueRef x, int64_t y);
LLVMValueRef sim_call(const SimKernel *k, const char *name, int n, LLVMValueRef *args);
/// Returns result i of n.
LLVMValueRef sim_result(const SimKernel *k, LLVMValueRef v, int n, int i);
/// Makes the names of a row: choice `pick` for capture `which`, and the first for all others.
bool sim_row_name(const FnRow *row, int which, int pick, char *name);
enum { SIM_NAME = 160 };

#endif
