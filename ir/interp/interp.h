// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The reference interpreter executes tile and grid IR directly, slowly and in plain C. It is the
// oracle of every differential test and therefore prefers exactness: it carries sums of floats and
// dots in double and rounds once.
#ifndef IR_INTERP_INTERP_H
#define IR_INTERP_INTERP_H

#include "ir/eval.h"
#include "ir/ir.h"

/// A tensor in memory. Strides count elements and may be 0 or negative.
typedef struct Tensor {
    void *data; // of the element with all indices 0
    Elem elem;
    const void *away; // not NULL: the elements are in the memory given in the options, which knows
                      // the tensor by this key; data is their nominal address
    int rank;
    int64_t extents[MAX_RANK], strides[MAX_RANK];
} Tensor;

typedef struct InterpArg {
    Tensor tensor; // for tensor parameters
    Cell scalar;   // for the others
} InterpArg;

/// Memory outside this process, for tensors with `away`.
typedef struct InterpMemory {
    Cell (*load)(void *user, const Tensor *t, int64_t offset);
    void (*store)(void *user, const Tensor *t, int64_t offset, Cell c);
    void *user;
} InterpMemory;

typedef struct InterpOptions {
    bool check;        // bounds, asserts, division by 0, write races, merge functions
    uint64_t seed;     // not 0: programs of a phase run in random order, and merges use random
                       // groups
    int64_t max_steps; // limit on executed ops; 0: no limit
    const InterpMemory *memory; // NULL: no tensor is away
    /// Chooses the only program to run in each grid of n programs, also within a program of another
    /// grid; NULL: all run.
    int64_t (*pick)(void *user, int64_t n);
    /// Not 0: moves float results by random units in the last place. The change in the results
    /// shows the allowed distance between right results.
    uint64_t noise;
    void (*print)(void *user, const char *text);
    void *user;
} InterpOptions;

/// Runs a kernel. args has one entry for each parameter of the kernel op. Returns false with a
/// diagnostic if a contract of the launch or a check fails. Runs inside ctx_protect, which it
/// leaves if memory runs out.
bool interp_run(Ir *ir, Op *module, const char *kernel, int n_args, const InterpArg *args,
                const InterpOptions *options);

/// Runs one launch of several ranks. args[r] are those of rank r. Symmetric tensors hold all shards
/// and are equal for all ranks. Printed lines begin with the rank's number.
bool interp_run_ranks(Ir *ir, Op *module, const char *kernel, int ranks, int n_args,
                      const InterpArg *const *args, const InterpOptions *options);

#endif
