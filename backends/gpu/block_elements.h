// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Blocks in shared memory element by element, for ops that pick elements by number.
#ifndef BACKENDS_GPU_BLOCK_ELEMENTS_H
#define BACKENDS_GPU_BLOCK_ELEMENTS_H

#include "backends/gpu/lower.h"

// Larger blocks go through in pieces.
enum { GPU_PIECE_BYTES = 32768 };

/// The sum over d of coordinate d * strides[d] (i32) for the element of register reg.
LLVMValueRef gpu_block_elements(GpuFn *f, const Layout *l, int64_t reg, const int64_t *strides);
/// i1: this thread of its CTA is the one to write the element of the register to shared memory;
/// NULL: it is in every case.
LLVMValueRef gpu_writes(GpuFn *f, const Layout *l, int64_t reg);

/// `count` elements of shared memory.
typedef struct GpuFlat {
    LLVMValueRef base; // ptr addrspace(3)
    Elem elem;
    int64_t count;
} GpuFlat;

int64_t gpu_elements_bytes(const GpuFn *f, Elem elem, int64_t count);
GpuFlat gpu_elements_alloc(GpuFn *f, Elem elem, int64_t count);
/// x to element `at` where on (NULL: in every thread).
void gpu_elements_store(GpuFn *f, const GpuFlat *s, LLVMValueRef at, LLVMValueRef on,
                        LLVMValueRef x);
LLVMValueRef gpu_elements_load(GpuFn *f, const GpuFlat *s, LLVMValueRef at);
/// x to all elements, up to the next multiple of the number of threads.
void gpu_elements_fill(GpuFn *f, const GpuFlat *s, LLVMValueRef x);

/// A loop over pieces of `count` elements that carries registers, no loop where one piece is all.
typedef struct GpuPieces {
    int64_t count, size; // elements in all, and of a piece
    LLVMValueRef first;  // i32: the first element of the piece; NULL: 0
    GpuLoop loop;
    LLVMValueRef *carried;
} GpuPieces;

GpuPieces gpu_pieces(GpuFn *f, int64_t count, int64_t size, int n, LLVMValueRef *init);
/// The number within the piece; and i1: it is one of the piece's.
LLVMValueRef gpu_in_piece(GpuFn *f, const GpuPieces *p, LLVMValueRef at, LLVMValueRef *on);
void gpu_pieces_end(GpuFn *f, GpuPieces *p, LLVMValueRef *next);

/// A block from one layout to another, piece by piece.
void gpu_move_in_pieces(GpuFn *f, const Layout *from, const Layout *to, Elem elem,
                        LLVMValueRef *const in, LLVMValueRef *out);

#endif
