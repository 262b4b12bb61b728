// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Lowering of device code: a block is an array of LLVM scalars, one a register of its layout.
//
// The module becomes a function a device; each op is lowered by its row in lowering_table.c.
// Control flow depends on scalars alone, which are equal in all threads, so branches are uniform.
// What differs between threads is data: select, or the mask of a load, a store, an atomic.
#ifndef BACKENDS_GPU_LOWER_H
#define BACKENDS_GPU_LOWER_H

#include "backends/gpu/gpu.h"
#include "backends/llvm/debug.h"
#include "backends/llvm/portable.h"
#include "ir/layout/layout.h"
#include "passes/gpu/gpu.h"

/// A tensor parameter: what is known of it is constant.
typedef struct GpuTensor {
    const Value *value;
    LLVMValueRef data;                              // ptr addrspace(1)
    LLVMValueRef dims[MAX_RANK], strides[MAX_RANK]; // i64, strides in elements
    LLVMValueRef bytes;                             // from the first byte to the end, once known
    int align;                                      // Type.align, or what is known besides
    int class;                                      // tensors that one view may serve are one class
    bool written;                                   // this device writes a tensor of the class
    bool stored;                                    // ... this one, by its own name
} GpuTensor;

/// What happened to the tensors of a class since the last barrier (access_order.c).
typedef struct GpuOrder {
    bool free; // accesses need no barriers
    int since;
} GpuOrder;

/// Values (of integers) that are multiples of a power of two.
typedef struct GpuMultiples {
    int n;
    LLVMValueRef *values;
    int64_t of;
} GpuMultiples;

/// A part of shared memory with one use.
typedef struct GpuRoom {
    const char *what;
    int64_t lo, hi;
} GpuRoom;

/// A barrier, and how many loops are around it.
typedef struct GpuBarrier {
    LLVMValueRef call;
    Loc loc; // of the op
    int loops;
    bool kept; // it orders what others than this program's threads see
} GpuBarrier;

/// A stretch of temporary shared memory that was used since all threads of the program met.
typedef struct GpuStretch {
    int64_t lo, hi;
    bool open; // of the op at hand
    bool near; // since the last barrier of the CTA, too
} GpuStretch;

/// A role whose code is being made: its threads, and the barrier at which they meet.
typedef struct GpuRole {
    int barrier, threads;
} GpuRole;

/// A function under construction.
typedef struct GpuFn {
    Gen *g;
    Ctx *ctx;
    Ir *ir;
    const GpuOptions *options;
    const GpuTarget *target;
    GpuCode *code;
    GpuKernel *kernel;
    const Op *device;
    LLVMValueRef fn;
    LLVMMetadataRef scope; // of debug information, or NULL
    LLVMBasicBlockRef entry;
    int warps, threads;              // that share blocks; all of the CTA but those of other roles
    const GpuRole *role;             // NULL: all warps run the code at hand
    LLVMValueRef thread, lane, warp; // i32; thread = warp * lanes of the target + lane
    LLVMValueRef cluster_thread;     // i32: above that the rank of the CTA in the cluster
    LLVMValueRef uniform_warp;       // the warp, known to be uniform; where there are rings
    LLVMValueRef program;            // i64
    LLVMValueRef shared;             // ptr addrspace(3): the start of shared memory
    LLVMValueRef faults;             // ptr addrspace(1), or NULL
    PtrMap values;                   // of a Value: its registers, or its GpuTensor
    VEC(struct ThreadCoord *) coords;
    int n_classes;
    GpuOrder *order;                    // of each class
    int64_t shared_fixed, shared_bytes; // where temporaries start; how much is used in all
    VEC(GpuStretch) stretches;
    bool any_stretch;         // all of the temporary region may be in use
    bool any_far;             // ... by another CTA of the cluster
    bool arrives;             // at the cluster's barrier, in the function's head
    bool announced;           // ... in the loop at hand, instead
    bool started;             // all CTAs of the cluster run, or are done with the iteration before
    int apart;                // bodies around the op at hand in which no CTA meets another
    int uses;                 // of temporary shared memory so far
    PtrMap rooms;             // addresses in shared memory that others are made from, GpuRoom *
    VEC(LLVMValueRef) starts; // those of byte 0
    VEC(GpuBarrier) barriers;
    int loops;              // around the op at hand
    Loc loc;                // its place
    bool has_loops, looked; // at all (bounded_offset.c), once that was looked for
    // In the version of the body for bounds that are multiples of vectors (body_versions.c), or
    // NULL.
    const struct GpuMultiples *multiples;
    bool rest; // in the version for all other bounds
} GpuFn;

/* ---- values (lower.c) ---------------------------------------------------------------------- */

typedef void GpuLower(GpuFn *f, Op *op);
extern GpuLower *const gpu_lowerings[OP_COUNT]; // lowering_table.c

/// Registers of a thread for a block; 1 for a scalar.
int gpu_registers(const Type *t);
/// The registers of a block, or of a scalar its one value. Not to be changed.
LLVMValueRef *gpu_block(GpuFn *f, const Value *v);
LLVMValueRef gpu_scalar(GpuFn *f, const Value *v);
const GpuTensor *gpu_tensor(GpuFn *f, const Value *v);
/// regs must live as long as f; it is not copied.
void gpu_set_block(GpuFn *f, const Value *v, LLVMValueRef *regs);
void gpu_set_scalar(GpuFn *f, const Value *v, LLVMValueRef x);
/// Empty registers for v.
LLVMValueRef *gpu_new_block(GpuFn *f, const Value *v);
/// The layout of a block; it has one.
const Layout *gpu_layout(GpuFn *f, const Value *v);
LLVMTypeRef gpu_type(GpuFn *f, const Value *v); // of a register

/// Warps of a CTA, those of all roles.
int gpu_warps_of_all(const Op *device);
/// Lowers the ops of a region but its terminator.
void gpu_region(GpuFn *f, const Region *r);
/// Lowers the body of the device, once or twice (body_versions.c).
void gpu_versions(GpuFn *f);
/// CTAs that shall fit an SM; after the body is lowered (occupancy.c).
int gpu_occupancy(GpuFn *f);
/// How many of those whose registers the passes have counted: chains of two products, of which one
/// CTA computes between them while another one multiplies; 1: this is no such device. Skewed ones
/// take more, and keep the units busy by themselves.
int gpu_chains_beside(const GpuFn *f);
/// Lowers a region on scalars (of reduce, scan) with args for its arguments; yields receives what
/// it yields. May be called any number of times.
void gpu_apply(GpuFn *f, const Region *r, LLVMValueRef *args, LLVMValueRef *yields);

/// Where instructions go, and the position in the source that they get.
typedef struct GpuPlace {
    LLVMBasicBlockRef block;
    LLVMMetadataRef where;
} GpuPlace;

/// Between these two, instructions go to the function's head, where they dominate everything.
GpuPlace gpu_to_head(GpuFn *f);
void gpu_from_head(GpuFn *f, GpuPlace back);

LLVMValueRef gpu_i32(GpuFn *f, int64_t n);
LLVMValueRef gpu_true(GpuFn *f);
/// portable_call with the arguments in place: gpu_call(f, "tg.lane.id", 0).
LLVMValueRef gpu_call(GpuFn *f, const char *name, int n, ...);

/* ---- coordinates (coords.c) ---------------------------------------------------------------- */

/// The image of the bits of x (i32, below 2^m->n) under m: the xor of the columns of its bits.
LLVMValueRef gpu_image(GpuFn *f, LLVMValueRef x, const F2 *m);
/// The coordinate d (i32) of the element in register reg of this thread. It may be a hole's.
LLVMValueRef gpu_coord(GpuFn *f, const Layout *l, int64_t reg, int d);
/// Where the coordinate is a part of the thread plus a number: that number, and the part (NULL:
/// 0). False: it is their xor.
bool gpu_coord_parts(GpuFn *f, const Layout *l, int64_t reg, int d, LLVMValueRef *thread,
                     int64_t *number);
/// Coordinates of register 0 of thread 0 xor ... as far as registers go: the constant part.
void gpu_coord_numbers(const Layout *l, int64_t reg, int64_t *coords);
/// i1: the element is one of the block's, for a layout that has holes; NULL: it always is.
LLVMValueRef gpu_not_hole(GpuFn *f, const Layout *l, int64_t reg);
/// The element of the register lies outside the extents in every thread.
bool gpu_always_hole(const Layout *l, int64_t reg);
/// i1: this thread owns its elements (layout_owner); NULL: every thread does.
LLVMValueRef gpu_owner(GpuFn *f, const Layout *l);
/// The same in each CTA of a cluster: who writes to its shared memory, which others do not.
LLVMValueRef gpu_cta_owner(GpuFn *f, const Layout *l);
/// The number of the thread (i32); with `ctas` that in its cluster, a CTA's rank above its threads.
LLVMValueRef gpu_thread_number(GpuFn *f, bool ctas);
/// i1: the first thread of the program.
LLVMValueRef gpu_is_first_thread(GpuFn *f);
/// i1: parity(thread & mask) is 1, of the threads of a cluster.
LLVMValueRef gpu_parity(GpuFn *f, Bits mask);

/* ---- shared memory (shared_memory.c) -------------------------------------------------------- */
// Temporaries of all ops share one region. An op takes a stretch of it, writes, calls gpu_barrier,
// reads; the stretch is free after the next barrier that follows the op. gpu_shared_alloc waits at
// a barrier itself where there is no free room.

/// `bytes` at a multiple of `align`, as ptr addrspace(3). What it points to is undefined.
LLVMValueRef gpu_shared_alloc(GpuFn *f, int64_t bytes, int64_t align);
/// The same for what other CTAs of the cluster write: the same address in each of them. None of
/// them may write before it has met the others (gpu_cluster_started, gpu_program_barrier).
LLVMValueRef gpu_shared_alloc_far(GpuFn *f, int64_t bytes, int64_t align);
/// How many stretches the op at hand has; it wants the first n of them alone.
int gpu_shared_open(const GpuFn *f);
void gpu_shared_close(GpuFn *f, int n);
/// How many bytes temporaries may have in all.
int64_t gpu_shared_room(const GpuFn *f);
/// All threads of the CTA; orders shared and global memory.
void gpu_barrier(GpuFn *f);
/// All threads of the program: of the CTA, or of the cluster.
void gpu_program_barrier(GpuFn *f);
/// All threads of CTAs that copy into each other's memory: before the first copy and behind the
/// last one. Nothing for others.
void gpu_pair_barrier(GpuFn *f);
/// Waits until all CTAs of the cluster run, where that was not waited for yet.
void gpu_cluster_started(GpuFn *f);
/// Before the function, or one of its two bodies, ends.
void gpu_cluster_end(GpuFn *f);
/// The same on one of several ways that control takes: others may not have come by.
void gpu_barrier_here(GpuFn *f);
/// Bytes lo .. hi - 1. Whatever is accessed in them has an address made from that of the room.
const GpuRoom *gpu_room(GpuFn *f, const char *what, int64_t lo, int64_t hi);
/// The address of byte `at`, as ptr addrspace(3).
LLVMValueRef gpu_room_at(GpuFn *f, const GpuRoom *room, int64_t at);
/// Orders the lanes of a warp.
void gpu_warp_sync(GpuFn *f);
/// The 32-bit address, for rows of portable.def.
LLVMValueRef gpu_shared_addr(GpuFn *f, LLVMValueRef p);
/// p + offset (i32 or i64) bytes, in any space.
LLVMValueRef gpu_offset(GpuFn *f, LLVMValueRef p, LLVMValueRef offset);
LLVMValueRef gpu_offset_by(GpuFn *f, LLVMValueRef p, int64_t bytes);
/// n elements next to each other (1, 2, 4, 8, 16; up to 16 bytes) in shared or global memory as one
/// access; p is aligned to their bytes.
void gpu_load_vector(GpuFn *f, Elem elem, LLVMValueRef p, int n, LLVMValueRef *out);
void gpu_store_vector(GpuFn *f, Elem elem, LLVMValueRef p, int n, LLVMValueRef *x);
/// To shared memory from the lanes that are on; NULL: all.
void gpu_store_shared_if(GpuFn *f, Elem elem, LLVMValueRef p, int n, LLVMValueRef *x,
                         LLVMValueRef on);
/// Where the elements of a layout stand in s: the thread's part of their offsets, if there is one.
typedef struct GpuSharedMap {
    const Layout *layout;
    const SharedLayout *shared;
    bool linear;
    Bits reaches;
    LLVMValueRef thread;
} GpuSharedMap;
GpuSharedMap gpu_shared_map(GpuFn *f, const Layout *l, const SharedLayout *s);
/// The address of the element of register reg.
LLVMValueRef gpu_shared_at(GpuFn *f, const GpuSharedMap *m, LLVMValueRef base, int64_t reg);
/// Writes or reads a whole block by the vectors of a.
void gpu_shared_write(GpuFn *f, const Layout *l, const SharedLayout *s, const SharedAccess *a,
                      LLVMValueRef base, Elem elem, LLVMValueRef *regs);
void gpu_shared_read(GpuFn *f, const Layout *l, const SharedLayout *s, const SharedAccess *a,
                     LLVMValueRef base, Elem elem, LLVMValueRef *regs);

/// Reads a whole block by ldmatrix (copy.c). False, and nothing done, where s is not made of its
/// matrices.
bool gpu_read_matrices(GpuFn *f, const Layout *l, const SharedLayout *s, LLVMValueRef base,
                       Elem elem, LLVMValueRef *regs);

/* ---- by coordinates (shape.c) -------------------------------------------------------------- */
// Always right, and slower than what knows both layouts.

/// Strides, in elements, of a row-major block.
void gpu_row_major(int rank, const int64_t *extents, int64_t *strides);
/// start + the sum of coordinate times stride of register reg's element (i32).
LLVMValueRef gpu_linear(GpuFn *f, const Layout *l, int64_t reg, const int64_t *strides,
                        int64_t start);
/// The address of element `index` (i32) of an array.
LLVMValueRef gpu_element(GpuFn *f, Elem elem, LLVMValueRef base, LLVMValueRef index);
/// Writes block v to the array, each element by one thread; reads it.
void gpu_put(GpuFn *f, const Value *v, LLVMValueRef base, const int64_t *strides, int64_t start);
void gpu_get(GpuFn *f, const Value *v, LLVMValueRef base, const int64_t *strides, int64_t start);
/// A row-major copy of v in temporary shared memory, for all threads to read. Fills in strides.
LLVMValueRef gpu_spill(GpuFn *f, const Value *v, int64_t *strides);

/* ---- lanes (lanes.c) ----------------------------------------------------------------------- */

/// A register as an integer of as many bits (bool: i8), and back. Bits may come from the caller's
/// memory, where every byte but 0 is true.
LLVMValueRef gpu_to_bits(GpuFn *f, Elem elem, LLVMValueRef x);
LLVMValueRef gpu_from_bits(GpuFn *f, Elem elem, LLVMValueRef bits);
/// n values of an element through "tg.shuffle.<mode>" with operand `by` (i32): small elements share
/// shuffles, large ones take two.
void gpu_shuffle(GpuFn *f, const char *mode, LLVMValueRef by, Elem elem, int n,
                 LLVMValueRef *const x, LLVMValueRef *out);
/// n values as words (i32) in the order of memory: small ones share a word, the first one lowest,
/// 8 bytes are two words. Returns how many words; and back.
int gpu_to_words(GpuFn *f, Elem elem, int n, LLVMValueRef *const x, LLVMValueRef *words);
void gpu_from_words(GpuFn *f, Elem elem, int n, LLVMValueRef *const words, LLVMValueRef *out);

/* ---- barriers that order nothing (membar.c) ----------------------------------------------- */

/// Takes out barriers without which nothing can go wrong, once the function is complete. Says in
/// the notes what the others are for.
void gpu_drop_barriers(GpuFn *f);

/* ---- order of instructions (sink_instructions.c) -------------------------------------------- */

/// Moves what has no effect to where it is wanted first.
void gpu_sink(GpuFn *f);
/// A load of what nobody writes.
bool gpu_is_invariant(LLVMValueRef load);

/* ---- control flow (flow.c) ----------------------------------------------------------------- */

/// A uniform branch under construction: gpu_if, ..., gpu_else, ..., gpu_end_if, then phis.
typedef struct GpuIf {
    LLVMBasicBlockRef yes, no, join, from_yes, from_no;
} GpuIf;
GpuIf gpu_if(GpuFn *f, LLVMValueRef c);
void gpu_else(GpuFn *f, GpuIf *i);
void gpu_end_if(GpuFn *f, GpuIf *i);
LLVMValueRef gpu_phi(GpuFn *f, const GpuIf *i, LLVMValueRef yes, LLVMValueRef no);

/// A counted loop with uniform bounds (i32 or i64, signed) that carries n values: phi[] are those
/// of the iteration, in its body; gpu_loop_end takes the next ones and leaves the last in phi[].
typedef struct GpuLoop {
    LLVMBasicBlockRef head, body, exit;
    LLVMValueRef index, hi;
    int64_t step;
    int n;
    LLVMValueRef *phi;
} GpuLoop;
GpuLoop gpu_loop(GpuFn *f, LLVMValueRef lo, LLVMValueRef hi, int64_t step, int n,
                 LLVMValueRef *const init);
void gpu_loop_end(GpuFn *f, GpuLoop *l, LLVMValueRef *const next);
/// Branch back to a loop's head, marked so that nobody unrolls it.
void gpu_branch_back(GpuFn *f, LLVMBasicBlockRef head);
/// What is known of temporary shared memory and of accesses to tensors, before regions that run
/// alternatively or again.
typedef struct GpuShared {
    VEC(GpuStretch) stretches;
    bool any, any_far;
    int uses;
    GpuOrder *order;
} GpuShared;
GpuShared gpu_shared_state(GpuFn *f);
void gpu_shared_restore(GpuFn *f, const GpuShared *s);
/// The state where control comes from here or from s.
void gpu_shared_join(GpuFn *f, const GpuShared *s);

/* ---- accesses (access_order.c) -------------------------------------------------------------- */

// access.h has the rest.

/// Finds the classes of tensors that need order; after the parameters are bound.
void gpu_order_begin(GpuFn *f);
/// All threads have met at a barrier.
void gpu_order_forget(GpuFn *f);
/// Accesses to the tensor need no barriers.
bool gpu_order_is_free(const GpuFn *f, const GpuTensor *t);
/// The loop is about to begin: iterations before this one may have done what is in it.
void gpu_order_again(GpuFn *f, const Op *loop);

/* ---- lowerings ----------------------------------------------------------------------------- */

GpuLower gpu_lower_const, gpu_lower_iota, gpu_lower_broadcast, gpu_lower_reshape, gpu_lower_permute,
    gpu_lower_slice, gpu_lower_concat, gpu_lower_cast, gpu_lower_bitcast, gpu_lower_select,
    gpu_lower_elementwise, gpu_lower_lt, gpu_lower_for, gpu_lower_while, gpu_lower_if,
    gpu_lower_dim, gpu_lower_stride, gpu_lower_align, gpu_lower_convert, gpu_lower_load,
    gpu_lower_live, gpu_lower_store, gpu_lower_atomic, gpu_lower_renew;

#endif
