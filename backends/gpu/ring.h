// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Lowering of buffers, rings, asynchronous copies and products, for rows of lowering_table.c.
#ifndef BACKENDS_GPU_RING_H
#define BACKENDS_GPU_RING_H

#include "backends/gpu/lower.h"

/// A ring in shared memory: first the slots; then, for copies by TMA, two mbarriers a slot (`full`
/// and `free`); then a word a slot for the scalar of its item.
typedef struct GpuRing {
    const Type *type;
    int64_t at, slot_bytes;
    const GpuRoom *items, *mbarriers, *scalars;
    int64_t part[MAX_RANK]; // of each buffer in a slot
    int readers;            // warps that release an item
    bool tma, pairs;        // pairs: the other CTA of the cluster copies into it as well
    // Between acquire and commit of an item:
    bool branch;
    GpuIf on;
    LLVMValueRef elected; // i1: this lane starts copies
    LLVMValueRef full;    // i32 address of the slot's mbarrier
    LLVMValueRef bytes;   // i32: the bytes that copies bring
    LLVMValueRef scalar;  // destination of the item's scalar, or NULL
} GpuRing;

/// Returns the ring of a ring_make's value.
GpuRing *gpu_ring(GpuFn *f, const Value *v);
/// Returns the start of a buffer, ptr addrspace(3).
LLVMValueRef gpu_buf(GpuFn *f, const Value *v);
/// Returns an i32: the number of this warp, known to be uniform.
LLVMValueRef gpu_uniform_warp(GpuFn *f);

GpuLower gpu_lower_buf_alloc, gpu_lower_buf_view, gpu_lower_buf_load, gpu_lower_buf_store,
    gpu_lower_buf_pad, gpu_lower_shared_free, gpu_lower_barrier, gpu_lower_fence,
    gpu_lower_copy_async, gpu_lower_copy_tma, gpu_lower_copyout_tma, gpu_lower_ring_make,
    gpu_lower_ring_acquire, gpu_lower_ring_commit, gpu_lower_ring_wait, gpu_lower_ring_release,
    gpu_lower_mma_start, gpu_lower_settled, gpu_lower_blank, gpu_lower_await, gpu_lower_roles,
    gpu_lower_take_tile;

#endif
