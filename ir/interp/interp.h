// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The reference interpreter: executes tile and grid IR directly, slowly and in plain C. It is the
// oracle of every differential test, so it prefers exactness: sums of floats and dots are carried
// in double and rounded once.
#ifndef IR_INTERP_INTERP_H
#define IR_INTERP_INTERP_H

#include "ir/eval.h"
#include "ir/ir.h"

/// A tensor in memory. Strides count elements and may be 0 or negative.
typedef struct Tensor {
    void *data; // of the element with all indices 0
    Elem elem;
    const void *away; // not NULL: the elements are in the memory of the options, which knows the
                      // tensor by this; data says where they seem to be
    int rank;
    int64_t extents[MAX_RANK], strides[MAX_RANK];
} Tensor;

typedef struct InterpArg {
    Tensor tensor; // for tensor parameters
    Cell scalar;   // for the others
} InterpArg;

/// Memory that is not this process's: elements of tensors that are away.
typedef struct InterpMemory {
    Cell (*load)(void *user, const Tensor *t, int64_t offset);
    void (*store)(void *user, const Tensor *t, int64_t offset, Cell c);
    void *user;
} InterpMemory;

typedef struct InterpOptions {
    bool check;        // bounds, asserts, division by 0, write races, merge functions
    uint64_t seed;     // not 0: programs of a phase run in a random order, merges group at random
    int64_t max_steps; // ops executed before it gives up; 0: no limit
    const InterpMemory *memory; // NULL: no tensor is away
    /// Of each grid of n programs, those within a program of another one too, the only one that
    /// runs; NULL: all do.
    int64_t (*pick)(void *user, int64_t n);
    /// Not 0: results of arithmetic on floats are moved by some units in the last place, at random:
    /// how much that changes says how far right results may lie apart.
    uint64_t noise;
    void (*print)(void *user, const char *text);
    void *user;
} InterpOptions;

/// Runs a kernel. args: one a parameter of the kernel op. Returns false with a diagnostic where a
/// contract of the launch or a check fails. Runs inside ctx_protect, which it leaves where memory
/// runs out.
bool interp_run(Ir *ir, Op *module, const char *kernel, int n_args, const InterpArg *args,
                const InterpOptions *options);

/// Likewise one launch of several ranks: args[r] are those of rank r; symmetric tensors have all
/// shards and are the same for all. What ranks print is headed by their numbers.
bool interp_run_ranks(Ir *ir, Op *module, const char *kernel, int ranks, int n_args,
                      const InterpArg *const *args, const InterpOptions *options);

#endif
