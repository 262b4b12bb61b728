// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Blocks in shared memory, element by element, for ops that pick elements by number.
#ifndef BACKENDS_GPU_BLOCK_ELEMENTS_H
#define BACKENDS_GPU_BLOCK_ELEMENTS_H

#include "backends/gpu/lower.h"

// Larger blocks are processed in pieces.
enum { GPU_PIECE_BYTES = 32768 };

/// Returns the sum over d of coordinate d * strides[d] (i32) for the element of register reg.
LLVMValueRef gpu_block_elements(GpuFn *f, const Layout *l, int64_t reg, const int64_t *strides);
/// Returns an i1: this thread of its CTA writes the register's element to shared memory. NULL:
/// always.
LLVMValueRef gpu_writes(GpuFn *f, const Layout *l, int64_t reg);

/// `count` elements in shared memory.
typedef struct GpuFlat {
    LLVMValueRef base; // ptr addrspace(3)
    Elem elem;
    int64_t count;
} GpuFlat;

int64_t gpu_elements_bytes(const GpuFn *f, Elem elem, int64_t count);
GpuFlat gpu_elements_alloc(GpuFn *f, Elem elem, int64_t count);
/// Stores x to element `at` if `on` (NULL: in every thread).
void gpu_elements_store(GpuFn *f, const GpuFlat *s, LLVMValueRef at, LLVMValueRef on,
                        LLVMValueRef x);
LLVMValueRef gpu_elements_load(GpuFn *f, const GpuFlat *s, LLVMValueRef at);
/// Stores x to all elements, up to the next multiple of the number of threads.
void gpu_elements_fill(GpuFn *f, const GpuFlat *s, LLVMValueRef x);

/// A loop over pieces of `count` elements that carries registers. A single piece has no loop.
typedef struct GpuPieces {
    int64_t count, size; // elements in total, and in a piece
    LLVMValueRef first;  // i32: the first element of the piece; NULL: 0
    GpuLoop loop;
    LLVMValueRef *carried;
} GpuPieces;

GpuPieces gpu_pieces(GpuFn *f, int64_t count, int64_t size, int n, LLVMValueRef *init);
/// Returns the number within the piece; *on is an i1: it is in the piece.
LLVMValueRef gpu_in_piece(GpuFn *f, const GpuPieces *p, LLVMValueRef at, LLVMValueRef *on);
void gpu_pieces_end(GpuFn *f, GpuPieces *p, LLVMValueRef *next);

/// Moves a block from one layout to another, piece by piece.
void gpu_move_in_pieces(GpuFn *f, const Layout *from, const Layout *to, Elem elem,
                        LLVMValueRef *const in, LLVMValueRef *out);

#endif
