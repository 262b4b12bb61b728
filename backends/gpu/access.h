// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The subscript of a load, live, store or atomic in device code: addresses and masks of registers.
//
// The address of an element is the sum of the tensor's pointer, the thread's part, a uniform part,
// and the register's part, a constant number of bytes. All but the register's part are computed
// once an access, so registers differ in an immediate. Number j of an axis is live if lo <= j < hi,
// with 32-bit bounds.
#ifndef BACKENDS_GPU_ACCESS_H
#define BACKENDS_GPU_ACCESS_H

#include "backends/gpu/lower.h"

enum { MAX_VECTOR_BITS = 5, MAX_VECTOR = 1 << MAX_VECTOR_BITS, MAX_WORDS = 4 };

/// One dimension of the subscript. at: its scalar coordinate, or the base of its axis (i64).
typedef struct AccessDim {
    LLVMValueRef at;
    int inside;          // 1: within the extent; 2: count = size, too
    LLVMValueRef lo, hi; // for an axis (i32); NULL: no bound
    LLVMValueRef *picks; // for a pick: the index (i64) of each register
    LLVMValueRef
        bytes; // distance between neighbours along an axis or between indices, in units (i64)
    // The numbers of the axis used so far.
    VEC(struct AxisNumber *) numbers;
} AccessDim;

typedef struct GpuAccess {
    GpuFn *f;
    const Op *op;
    Access a;
    const GpuTensor *tensor;
    const Layout *layout; // of the block; NULL: a scalar
    Elem elem;
    int unit; // bytes of an element; offsets of i4 and u4 count elements
    AccessDim dims[MAX_RANK];
    LLVMValueRef uniform;     // i64 offset of the scalar coordinates and bases
    LLVMValueRef thread;      // i64 offset of the thread's part, or NULL
    LLVMValueRef live;        // uniform i1, or NULL
    LLVMValueRef *masks;      // the mask operand for each register, or NULL
    LLVMValueRef start;       // ptr: data + uniform + thread (not for i4 and u4)
    int vec_bits;             // log2 of the elements of a vector, which are adjacent in memory
    int vec[MAX_VECTOR_BITS]; // the register bit of each
    int vec_dim;              // the tensor's dimension along which they are adjacent
    // uniform i1: each vector is live or dead as a whole. NULL: always.
    LLVMValueRef whole;
} GpuAccess;

/// Computes the parts that all registers share, at the builder.
GpuAccess *gpu_access(GpuFn *f, const Op *op);
/// Returns the facts that need no code. Only the tensor's values are set.
GpuAccess gpu_access_plan(GpuFn *f, const Op *op);
/// Values in the function's head that must be multiples of a vector's elements.
typedef VEC(LLVMValueRef) GpuLeaves;
/// Whether the bounds of the vectors' axis are multiples of a vector's elements, provided that the
/// values in `leaves` are. Adds the values that it relies on to `leaves` (may be NULL).
bool gpu_bounds_divide(GpuAccess *p, GpuLeaves *leaves);
/// The same for a block in this layout (NULL: a scalar), regardless of the op's types.
GpuAccess *gpu_access_in(GpuFn *f, const Op *op, const Layout *layout);
int gpu_access_registers(const GpuAccess *p);
/// Returns the offset of register reg's element from the tensor's data, in units (i64).
LLVMValueRef gpu_access_offset(GpuAccess *p, int64_t reg);
/// Returns its address; not for i4 and u4.
LLVMValueRef gpu_access_address(GpuAccess *p, int64_t reg);
/// Returns an i1, or NULL if the lane is always live. Holes are dead.
LLVMValueRef gpu_access_live(GpuAccess *p, int64_t reg);
/// gpu_access_live in two halves: the liveness along some dimensions, and the rest.
LLVMValueRef gpu_access_live_along(GpuAccess *p, int64_t reg, Bits dims);
LLVMValueRef gpu_access_live_besides(GpuAccess *p, int64_t reg, Bits dims);
/// Returns the contribution of thread and register to the offset along some dimensions (i64).
LLVMValueRef gpu_access_offset_along(GpuAccess *p, int64_t reg, Bits dims);
/// Returns the coordinate (i64) along dimension d of the tensor.
LLVMValueRef gpu_access_coordinate(GpuAccess *p, int d, int64_t reg);
/// Whether the register is a hole in every thread.
bool gpu_access_never(const GpuAccess *p, int64_t reg);
/// A mark in the caches of addresses and masks. The rewind forgets entries made since the mark. It
/// is necessary where the code in between does not dominate the following code.
typedef struct AccessMark {
    int n[MAX_RANK];
} AccessMark;
AccessMark gpu_access_mark(const GpuAccess *p);
void gpu_access_rewind(GpuAccess *p, const AccessMark *mark);
/// Returns the register of element j of the vector that starts at register `first`.
int64_t gpu_access_vector(const GpuAccess *p, int64_t first, int j);
/// Whether the register starts a vector of 2^bits: none of the vector's bits is set.
bool gpu_access_starts(const GpuAccess *p, int bits, int64_t reg);

/// Returns for each register of l the matching element of v, a block in the shape of the axes at,
/// at + 1, ... of l.
LLVMValueRef *gpu_spread(GpuFn *f, const Value *v, const Layout *l, int at);

/// Runs `move` on all registers: with vectors of 2^bits elements if those are live or dead as a
/// whole, else with bits = 0. The n registers of `out` (may be NULL) are joined by phis.
typedef void GpuMove(GpuAccess *p, int bits, void *data, LLVMValueRef *out);
void gpu_access_each(GpuAccess *p, GpuMove *move, void *data, LLVMValueRef *out);

/// Waits at a barrier if op must follow an access by another thread that may not have ended.
void gpu_order_access(GpuFn *f, const Op *op);

/// Returns an i1: this thread stores its elements. Only thread 0 stores a scalar. NULL: all threads
/// do.
LLVMValueRef gpu_access_owner(const GpuAccess *p);

/// One access of 1, 2, 4, 8 or 16 bytes as 32-bit words (load.c). Lanes that are off (on = NULL:
/// none) read the pad in each word, and write nothing.
void gpu_access_read(GpuAccess *p, LLVMValueRef at, int bytes, LLVMValueRef on, LLVMValueRef pad,
                     LLVMValueRef *words);
void gpu_access_write(GpuAccess *p, LLVMValueRef at, int bytes, LLVMValueRef on,
                      LLVMValueRef *words);

/// Whether the access may use 32-bit offsets that hardware checks (bounded_offset.c).
/// gpu_access_near returns two i32 parts whose saturating sum is the register's offset. The sum
/// exceeds gpu_access_bound if the register is not live or the thread is not the owner (NULL: all
/// are).
bool gpu_access_is_near(const GpuAccess *p);
void gpu_access_near(GpuAccess *p, int64_t reg, int bytes, LLVMValueRef owner,
                     LLVMValueRef part[2]);
/// Returns an i32: the bytes of the tensor, or INT32_MAX.
LLVMValueRef gpu_access_bound(const GpuAccess *p);

/// Accesses to i4 and u4 (nibbles.c).
void gpu_load_nibbles(GpuAccess *p, LLVMValueRef pad, LLVMValueRef *out);
void gpu_store_nibbles(GpuAccess *p, LLVMValueRef *x, LLVMValueRef owner);

#endif
