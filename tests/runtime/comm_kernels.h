// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Hand-written kernels for several ranks: PTX for devices, C for the stand-in driver, and the host
// code that a compiler would generate.
//
// Every rank can compute element i of rank r's data at launch `seed`, so every kernel checks the
// data that it reads and counts errors.
#ifndef TESTS_RUNTIME_COMM_KERNELS_H
#define TESTS_RUNTIME_COMM_KERNELS_H

#include "tests/runtime/fake_cuda.h"

#include "runtime/tegula.h"

#include <stdint.h>

/// make(a, seed): the own shard.
extern tg_kernel kernel_make;
/// collect(a, bad, seed, how, chunk): gathers a and checks it; how: enum tg_gather_how.
extern tg_kernel kernel_collect;
/// spread(a, bad, seed, how, chunk): each rank sends parts of the size of a to the others, which
/// check them; how: PUSH, BEFORE.
extern tg_kernel kernel_spread;
/// come(a): a launch that waits for all ranks at its start.
extern tg_kernel kernel_come;
/// reach(a): a launch whose programs would access other ranks' memory.
extern tg_kernel kernel_reach;

/// Registers the kernels with the stand-in driver.
void add_fake_kernels(void (*add)(const char *name, FakeKernel *run, int n, const size_t *sizes));

#endif
