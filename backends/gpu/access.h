// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The subscript of a load, live, store or atomic in device code: addresses and masks of registers.
//
// The address of an element is the tensor's pointer, a part of the thread, a uniform part, and a
// number of bytes of the register. All but the last are computed once an access, so that registers
// differ in an immediate. Axes are live for lo <= j < hi, two numbers of 32 bits.
#ifndef BACKENDS_GPU_ACCESS_H
#define BACKENDS_GPU_ACCESS_H

#include "backends/gpu/lower.h"

enum { MAX_VECTOR_BITS = 5, MAX_VECTOR = 1 << MAX_VECTOR_BITS, MAX_WORDS = 4 };

/// One dimension of the subscript. at: its scalar coordinate, or the base of its axis (i64).
typedef struct AccessDim {
    LLVMValueRef at;
    int inside;          // the attribute: 1 within the extent, 2 also count = size
    LLVMValueRef lo, hi; // of an axis (i32); NULL: all of it
    LLVMValueRef *picks; // of a pick: the index (i64) of each register
    LLVMValueRef bytes;  // distance of neighbours along an axis or of indices, in units (i64)
    // A number of the axis times the distance, and whether it is live; by number.
    VEC(struct AxisNumber *) numbers;
} AccessDim;

typedef struct GpuAccess {
    GpuFn *f;
    const Op *op;
    Access a;
    const GpuTensor *tensor;
    const Layout *layout; // of the block; NULL: a scalar
    Elem elem;
    int unit; // bytes of an element; of i4 and u4 offsets count elements
    AccessDim dims[MAX_RANK];
    LLVMValueRef uniform;     // i64 offset of the scalar coordinates and bases
    LLVMValueRef thread;      // i64 offset of the thread's part, or NULL
    LLVMValueRef live;        // uniform i1, or NULL
    LLVMValueRef *masks;      // the mask operand, of each register, or NULL
    LLVMValueRef start;       // ptr: data + uniform + thread (not for i4 and u4)
    int vec_bits;             // log2 of the elements next to each other in memory and registers
    int vec[MAX_VECTOR_BITS]; // the register bit of each
    int vec_dim;              // the dimension they lie along
    // i1, uniform: vectors are live or dead as a whole. NULL: they are.
    LLVMValueRef whole;
} GpuAccess;

/// Computes what all registers share, where the builder stands.
GpuAccess *gpu_access(GpuFn *f, const Op *op);
/// What is known of it without code: no values but the tensor's.
GpuAccess gpu_access_plan(GpuFn *f, const Op *op);
/// Values of the function's head that are all multiples of a vector.
typedef VEC(LLVMValueRef) GpuLeaves;
/// The bounds of the vectors' axis are multiples of a vector; if `leaves` (may be NULL) are, which
/// it adds to.
bool gpu_bounds_divide(GpuAccess *p, GpuLeaves *leaves);
/// The same for a block in this layout (NULL: a scalar), whatever the op's types say.
GpuAccess *gpu_access_in(GpuFn *f, const Op *op, const Layout *layout);
int gpu_access_registers(const GpuAccess *p);
/// The offset of register reg's element from the tensor's data, in units (i64).
LLVMValueRef gpu_access_offset(GpuAccess *p, int64_t reg);
/// Its address; not for i4 and u4.
LLVMValueRef gpu_access_address(GpuAccess *p, int64_t reg);
/// i1, or NULL where the lane is always live. Holes are dead.
LLVMValueRef gpu_access_live(GpuAccess *p, int64_t reg);
/// The two halves of that: what is live along some of the dimensions, and everything else.
LLVMValueRef gpu_access_live_along(GpuAccess *p, int64_t reg, Bits dims);
LLVMValueRef gpu_access_live_besides(GpuAccess *p, int64_t reg, Bits dims);
/// What the thread and the register add to the offset along some of the dimensions (i64).
LLVMValueRef gpu_access_offset_along(GpuAccess *p, int64_t reg, Bits dims);
/// The coordinate (i64) along dimension d of the tensor.
LLVMValueRef gpu_access_coordinate(GpuAccess *p, int d, int64_t reg);
/// The register is a hole in every thread.
bool gpu_access_never(const GpuAccess *p, int64_t reg);
/// Addresses and masks that are made after a mark are forgotten by the rewind: for code that is not
/// above what follows.
typedef struct AccessMark {
    int n[MAX_RANK];
} AccessMark;
AccessMark gpu_access_mark(const GpuAccess *p);
void gpu_access_rewind(GpuAccess *p, const AccessMark *mark);
/// Register number j of the vector that starts at register first.
int64_t gpu_access_vector(const GpuAccess *p, int64_t first, int j);
/// The register starts a vector of 2^bits: none of the vector's bits is set.
bool gpu_access_starts(const GpuAccess *p, int bits, int64_t reg);

/// A block in the shape and layout of axes at, at + 1, ... of l, seen from registers of l: the
/// register for each register of l.
LLVMValueRef *gpu_spread(GpuFn *f, const Value *v, const Layout *l, int at);

/// Runs `move` on all registers: with vectors of 2^bits elements where those are live or dead as a
/// whole, else with bits = 0. n registers of out are joined where control is; out may be NULL.
typedef void GpuMove(GpuAccess *p, int bits, void *data, LLVMValueRef *out);
void gpu_access_each(GpuAccess *p, GpuMove *move, void *data, LLVMValueRef *out);

/// Waits at a barrier where another thread may still have to read or write before what op does.
void gpu_order_access(GpuFn *f, const Op *op);

/// i1: this thread stores its elements; of a scalar thread 0 alone. NULL: all do.
LLVMValueRef gpu_access_owner(const GpuAccess *p);

/// One access of 1, 2, 4, 8 or 16 bytes as words of 32 bits (load.c). Lanes that are off (on NULL:
/// none) read the pad in each word, and write nothing.
void gpu_access_read(GpuAccess *p, LLVMValueRef at, int bytes, LLVMValueRef on, LLVMValueRef pad,
                     LLVMValueRef *words);
void gpu_access_write(GpuAccess *p, LLVMValueRef at, int bytes, LLVMValueRef on,
                      LLVMValueRef *words);

/// The access may go by offsets of 32 bits that hardware checks (bounded_offset.c): by two parts of
/// i32, whose saturating sum is the register's offset, beyond gpu_access_bound where it is not live
/// or the thread no owner (NULL: all are).
bool gpu_access_is_near(const GpuAccess *p);
void gpu_access_near(GpuAccess *p, int64_t reg, int bytes, LLVMValueRef owner,
                     LLVMValueRef part[2]);
/// i32: the bytes of the tensor, or INT32_MAX.
LLVMValueRef gpu_access_bound(const GpuAccess *p);

/// i4 and u4 (nibbles.c).
void gpu_load_nibbles(GpuAccess *p, LLVMValueRef pad, LLVMValueRef *out);
void gpu_store_nibbles(GpuAccess *p, LLVMValueRef *x, LLVMValueRef owner);

#endif
