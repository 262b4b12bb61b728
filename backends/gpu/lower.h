// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Lowering of device code: a block is an array of LLVM scalars, one for each register of its
// layout.
//
// Each device becomes a function of the module, and lowering_table.c gives the lowering of each op.
// Control flow depends only on scalars, which are equal in all threads, so branches are uniform.
// Threads differ in data: by select, or by the mask of a load, a store or an atomic.
#ifndef BACKENDS_GPU_LOWER_H
#define BACKENDS_GPU_LOWER_H

#include "backends/gpu/gpu.h"
#include "backends/llvm/debug.h"
#include "backends/llvm/portable.h"
#include "ir/layout/layout.h"
#include "passes/gpu/gpu.h"

/// A tensor parameter. Known properties are constants.
typedef struct GpuTensor {
    const Value *value;
    LLVMValueRef data;                              // ptr addrspace(1)
    LLVMValueRef dims[MAX_RANK], strides[MAX_RANK]; // i64, strides in elements
    LLVMValueRef bytes;                             // from the first byte to the end, after first
                                                    // use
    int align;                                      // Type.align, or a better known alignment
    int class;                                      // tensors that may be one view share a class
    bool written;                                   // this device writes a tensor of the class
    bool stored;                                    // this device writes the tensor by its own name
} GpuTensor;

/// Accesses to the tensors of a class since the last barrier (access_order.c).
typedef struct GpuOrder {
    bool free; // accesses need no barriers
    int since;
} GpuOrder;

/// Integer values that are multiples of a power of two.
typedef struct GpuMultiples {
    int n;
    LLVMValueRef *values;
    int64_t of;
} GpuMultiples;

/// A range of shared memory with one use.
typedef struct GpuRoom {
    const char *what;
    int64_t lo, hi;
} GpuRoom;

/// A barrier and its loop depth.
typedef struct GpuBarrier {
    LLVMValueRef call;
    Loc loc; // of the op
    int loops;
    bool kept; // it orders accesses for observers other than this program's threads
} GpuBarrier;

/// A range of temporary shared memory that was used since all threads of the program last met.
typedef struct GpuStretch {
    int64_t lo, hi;
    bool open; // used by the current op
    bool near; // used also since the last barrier of the CTA
} GpuStretch;

/// The role whose code is being emitted: its threads, and their barrier.
typedef struct GpuRole {
    int barrier, threads, first; // first: the number of its first thread
    const char *name;
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
    int warps, threads;  // the warps that share blocks: those of the CTA or of the current role
    const GpuRole *role; // NULL: all warps run the current code
    LLVMValueRef thread, lane, warp; // i32; thread = warp * lanes of the target + lane
    LLVMValueRef cluster_thread;     // i32: the thread, with the CTA's rank in the cluster above it
    LLVMValueRef uniform_warp;       // the warp, known to be uniform; only with rings
    LLVMValueRef program;            // i64
    LLVMValueRef shared;             // ptr addrspace(3): the start of shared memory
    LLVMValueRef faults;             // ptr addrspace(1), or NULL
    PtrMap values;                   // Value -> its registers, or its GpuTensor
    VEC(struct ThreadCoord *) coords;
    int n_classes;
    GpuOrder *order;                    // one for each class
    int64_t shared_fixed, shared_bytes; // start of the temporaries; total size
    VEC(GpuStretch) stretches;
    bool any_stretch;         // the whole region of temporaries may be in use
    bool any_far;             // another CTA of the cluster may be using it
    bool arrives;             // the function's head arrives at the cluster's barrier
    bool announced;           // the current loop arrives instead
    bool started;             // all CTAs of the cluster run, or have finished the previous
                              // iteration
    int apart;                // number of enclosing bodies in which no CTAs meet
    int uses;                 // number of allocations of temporary shared memory so far
    PtrMap rooms;             // base addresses in shared memory -> GpuRoom *
    VEC(LLVMValueRef) starts; // base addresses of byte 0
    VEC(GpuBarrier) barriers;
    int loops;              // loop depth of the current op
    Loc loc;                // its location
    bool has_loops, looked; // of the function (bounded_offset.c); has_loops is computed
    // The known multiples, in the body version for bounds that are multiples of vectors
    // (body_versions.c), or NULL.
    const struct GpuMultiples *multiples;
    bool rest; // in the version for all other bounds
} GpuFn;

/* ---- values (lower.c) ---------------------------------------------------------------------- */

typedef void GpuLower(GpuFn *f, Op *op);
extern GpuLower *const gpu_lowerings[OP_COUNT]; // lowering_table.c

/// Returns a thread's number of registers for a block; 1 for a scalar.
int gpu_registers(const Type *t);
/// Returns the registers of a block, or a scalar's one value. The caller must not change them.
LLVMValueRef *gpu_block(GpuFn *f, const Value *v);
LLVMValueRef gpu_scalar(GpuFn *f, const Value *v);
const GpuTensor *gpu_tensor(GpuFn *f, const Value *v);
/// Sets v's registers. regs is not copied and must live as long as f.
void gpu_set_block(GpuFn *f, const Value *v, LLVMValueRef *regs);
void gpu_set_scalar(GpuFn *f, const Value *v, LLVMValueRef x);
/// Returns empty registers for v.
LLVMValueRef *gpu_new_block(GpuFn *f, const Value *v);
/// Returns the layout of a block, which must have one.
const Layout *gpu_layout(GpuFn *f, const Value *v);
LLVMTypeRef gpu_type(GpuFn *f, const Value *v); // of a register

/// Records the time at which the code of op, which the text describes, begins (effects.c). The
/// first thread of the current role does. Does nothing if no marks are requested.
void gpu_mark(GpuFn *f, const Op *op, const char *text);
#define GPU_MARK_END "end"
/// The same before or after a loop, unless it is deep inside other loops.
void gpu_mark_loop(GpuFn *f, const Op *loop, const char *text);

/// Returns the warps of a CTA, including those of all roles.
int gpu_warps_of_all(const Op *device);
/// Lowers the ops of a region except its terminator.
void gpu_region(GpuFn *f, const Region *r);
/// Lowers the body of the device, in one or two versions (body_versions.c).
void gpu_versions(GpuFn *f);
/// Returns the number of CTAs that should fit an SM, after the body is lowered (occupancy.c).
int gpu_occupancy(GpuFn *f);
/// Returns the number of CTAs that fit beside each other for chains of two products, whose
/// registers the passes have counted. One CTA computes between its products while another one
/// multiplies. Returns 1 for other devices, and for skewed chains, which use more registers and
/// keep the units busy alone.
int gpu_chains_beside(const GpuFn *f);
/// Lowers a region on scalars (of reduce, scan) with args as its arguments. `yields` receives its
/// yields. It may be called repeatedly.
void gpu_apply(GpuFn *f, const Region *r, LLVMValueRef *args, LLVMValueRef *yields);

/// A saved position of new instructions, with their source location.
typedef struct GpuPlace {
    LLVMBasicBlockRef block;
    LLVMMetadataRef where;
} GpuPlace;

/// Between these two calls, instructions go to the function's head, where they dominate all code.
GpuPlace gpu_to_head(GpuFn *f);
void gpu_from_head(GpuFn *f, GpuPlace back);

LLVMValueRef gpu_i32(GpuFn *f, int64_t n);
LLVMValueRef gpu_true(GpuFn *f);
/// portable_call with inline arguments: gpu_call(f, "tg.lane.id", 0).
LLVMValueRef gpu_call(GpuFn *f, const char *name, int n, ...);

/* ---- coordinates (coords.c) ---------------------------------------------------------------- */

/// Returns the image of the bits of x (i32, below 2^m->n) under m: the xor of the columns of its
/// set bits.
LLVMValueRef gpu_image(GpuFn *f, LLVMValueRef x, const F2 *m);
/// Returns coordinate d (i32) of the element in register reg of this thread. It may be a hole.
LLVMValueRef gpu_coord(GpuFn *f, const Layout *l, int64_t reg, int d);
/// Splits a coordinate that is a part of the thread plus a number. Returns the number and the part
/// (NULL: 0). Returns false if the coordinate is their xor.
bool gpu_coord_parts(GpuFn *f, const Layout *l, int64_t reg, int d, LLVMValueRef *thread,
                     int64_t *number);
/// Returns the constant part of the coordinates: those of register reg in thread 0.
void gpu_coord_numbers(const Layout *l, int64_t reg, int64_t *coords);
/// Returns an i1: the element lies in the block, for a layout with holes. NULL: always.
LLVMValueRef gpu_not_hole(GpuFn *f, const Layout *l, int64_t reg);
/// Whether the element of the register lies outside the extents in every thread.
bool gpu_always_hole(const Layout *l, int64_t reg);
/// Returns an i1: this thread owns its elements (layout_owner). NULL: every thread does.
LLVMValueRef gpu_owner(GpuFn *f, const Layout *l);
/// The same for each CTA of a cluster: the thread that writes to the CTA's own shared memory.
LLVMValueRef gpu_cta_owner(GpuFn *f, const Layout *l);
/// Returns the number of the thread (i32). With `ctas` it is the number in the cluster, with the
/// CTA's rank above the threads.
LLVMValueRef gpu_thread_number(GpuFn *f, bool ctas);
/// Returns an i1: the first thread of the program.
LLVMValueRef gpu_is_first_thread(GpuFn *f);
/// Returns an i1: parity(thread & mask) is 1, for the threads of a cluster.
LLVMValueRef gpu_parity(GpuFn *f, Bits mask);

/* ---- shared memory (shared_memory.c) -------------------------------------------------------- */
// The temporaries of all ops share one region. An op takes a range of it, writes, calls
// gpu_barrier, and reads. The range is free after the next barrier after the op. gpu_shared_alloc
// waits at a barrier itself if it finds no free room.

/// Allocates `bytes` at a multiple of `align`, as ptr addrspace(3). Contents are undefined.
LLVMValueRef gpu_shared_alloc(GpuFn *f, int64_t bytes, int64_t align);
/// The same for memory that other CTAs of the cluster write, at the same address in each of them. A
/// CTA may write only after it has met the others (gpu_cluster_started, gpu_program_barrier).
LLVMValueRef gpu_shared_alloc_far(GpuFn *f, int64_t bytes, int64_t align);
/// Returns the number of ranges of the current op. gpu_shared_close keeps the first n of them open.
int gpu_shared_open(const GpuFn *f);
void gpu_shared_close(GpuFn *f, int n);
/// Returns the bytes that temporaries may use in total.
int64_t gpu_shared_room(const GpuFn *f);
/// A barrier for all threads of the CTA. It orders shared and global memory.
void gpu_barrier(GpuFn *f);
/// A barrier for all threads of the program: of the CTA, or of the cluster.
void gpu_program_barrier(GpuFn *f);
/// A barrier for all threads of CTAs that copy into each other's memory, before the first copy and
/// after the last one. Does nothing for other CTAs.
void gpu_pair_barrier(GpuFn *f);
/// Waits until all CTAs of the cluster run, unless the code has waited already.
void gpu_cluster_started(GpuFn *f);
/// Emits the waits for other CTAs before the end of the function, or of one of its two bodies.
void gpu_cluster_end(GpuFn *f);
/// A barrier for all threads of the CTA on one of several paths. Code after the paths join may not
/// rely on it.
void gpu_barrier_here(GpuFn *f);
/// Returns the room of bytes lo .. hi - 1. Every access in it must use an address made from the
/// room's.
const GpuRoom *gpu_room(GpuFn *f, const char *what, int64_t lo, int64_t hi);
/// Returns the address of byte `at`, as ptr addrspace(3).
LLVMValueRef gpu_room_at(GpuFn *f, const GpuRoom *room, int64_t at);
/// Orders the lanes of a warp.
void gpu_warp_sync(GpuFn *f);
/// Returns the 32-bit address, for rows of portable.def.
LLVMValueRef gpu_shared_addr(GpuFn *f, LLVMValueRef p);
/// Returns p + offset (i32 or i64) bytes, in any space.
LLVMValueRef gpu_offset(GpuFn *f, LLVMValueRef p, LLVMValueRef offset);
LLVMValueRef gpu_offset_by(GpuFn *f, LLVMValueRef p, int64_t bytes);
/// Loads n adjacent elements (1, 2, 4, 8, 16; up to 16 bytes) from shared or global memory in one
/// access. p is aligned to their bytes.
void gpu_load_vector(GpuFn *f, Elem elem, LLVMValueRef p, int n, LLVMValueRef *out);
void gpu_store_vector(GpuFn *f, Elem elem, LLVMValueRef p, int n, LLVMValueRef *x);
/// Stores to shared memory from the lanes that are on; NULL: all.
void gpu_store_shared_if(GpuFn *f, Elem elem, LLVMValueRef p, int n, LLVMValueRef *x,
                         LLVMValueRef on);
/// The offsets of a layout's elements in s, with the thread's part if it is separable.
typedef struct GpuSharedMap {
    const Layout *layout;
    const SharedLayout *shared;
    bool linear;
    Bits reaches;
    LLVMValueRef thread;
} GpuSharedMap;
GpuSharedMap gpu_shared_map(GpuFn *f, const Layout *l, const SharedLayout *s);
/// Returns the address of the element of register reg.
LLVMValueRef gpu_shared_at(GpuFn *f, const GpuSharedMap *m, LLVMValueRef base, int64_t reg);
/// Writes or reads a whole block by the vectors of a.
void gpu_shared_write(GpuFn *f, const Layout *l, const SharedLayout *s, const SharedAccess *a,
                      LLVMValueRef base, Elem elem, LLVMValueRef *regs);
void gpu_shared_read(GpuFn *f, const Layout *l, const SharedLayout *s, const SharedAccess *a,
                     LLVMValueRef base, Elem elem, LLVMValueRef *regs);

/// Reads a whole block by ldmatrix (copy.c). Returns false and does nothing if s does not consist
/// of its matrices.
bool gpu_read_matrices(GpuFn *f, const Layout *l, const SharedLayout *s, LLVMValueRef base,
                       Elem elem, LLVMValueRef *regs);

/* ---- by coordinates (shape.c) -------------------------------------------------------------- */
// A path that is always right, but slower than one that knows both layouts.

/// Returns the strides, in elements, of a row-major block.
void gpu_row_major(int rank, const int64_t *extents, int64_t *strides);
/// Returns start + the sum of coordinate times stride for register reg's element (i32).
LLVMValueRef gpu_linear(GpuFn *f, const Layout *l, int64_t reg, const int64_t *strides,
                        int64_t start);
/// Returns the address of element `index` (i32) of an array.
LLVMValueRef gpu_element(GpuFn *f, Elem elem, LLVMValueRef base, LLVMValueRef index);
/// Writes block v to the array, one thread for each element; gpu_get reads it.
void gpu_put(GpuFn *f, const Value *v, LLVMValueRef base, const int64_t *strides, int64_t start);
void gpu_get(GpuFn *f, const Value *v, LLVMValueRef base, const int64_t *strides, int64_t start);
/// Copies v row-major to temporary shared memory, for all threads to read. Fills in strides.
LLVMValueRef gpu_spill(GpuFn *f, const Value *v, int64_t *strides);

/* ---- lanes (lanes.c) ----------------------------------------------------------------------- */

/// Converts a register to an integer of as many bits (bool: i8), and back. Bits may come from the
/// caller's memory, where every byte except 0 is true.
LLVMValueRef gpu_to_bits(GpuFn *f, Elem elem, LLVMValueRef x);
LLVMValueRef gpu_from_bits(GpuFn *f, Elem elem, LLVMValueRef bits);
/// Moves n values of an element through "tg.shuffle.<mode>" with operand `by` (i32). Small elements
/// share shuffles, large ones take two.
void gpu_shuffle(GpuFn *f, const char *mode, LLVMValueRef by, Elem elem, int n,
                 LLVMValueRef *const x, LLVMValueRef *out);
/// Packs n values into words (i32) in memory order. Small ones share a word, the first one lowest;
/// 8 bytes are two words. Returns the number of words. gpu_from_words is the inverse.
int gpu_to_words(GpuFn *f, Elem elem, int n, LLVMValueRef *const x, LLVMValueRef *words);
void gpu_from_words(GpuFn *f, Elem elem, int n, LLVMValueRef *const words, LLVMValueRef *out);

/* ---- barriers that order nothing (membar.c) ----------------------------------------------- */

/// Removes unnecessary barriers from the complete function, and notes the reasons for the others.
void gpu_drop_barriers(GpuFn *f);

/* ---- order of instructions (sink_instructions.c) -------------------------------------------- */

/// Moves instructions without effects to their first use.
void gpu_sink(GpuFn *f);
/// Whether a load reads memory that nothing writes.
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

/// A counted loop with uniform bounds (i32 or i64, signed) that carries n values. phi[] are the
/// values of the iteration, in its body. gpu_loop_end takes the next values and leaves the last
/// ones in phi[].
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
/// Branches back to a loop's head, with a mark that prevents unrolling.
void gpu_branch_back(GpuFn *f, LLVMBasicBlockRef head);
/// The state of temporary shared memory and of accesses to tensors, saved before regions that run
/// alternatively or repeatedly.
typedef struct GpuShared {
    VEC(GpuStretch) stretches;
    bool any, any_far;
    int uses;
    GpuOrder *order;
} GpuShared;
GpuShared gpu_shared_state(GpuFn *f);
void gpu_shared_restore(GpuFn *f, const GpuShared *s);
/// Sets the state for control that comes from here or from s.
void gpu_shared_join(GpuFn *f, const GpuShared *s);

/* ---- accesses (access_order.c) -------------------------------------------------------------- */

// access.h has the rest.

/// Finds the classes of tensors that need order, after the parameters are bound.
void gpu_order_begin(GpuFn *f);
/// Records that all threads have met at a barrier.
void gpu_order_forget(GpuFn *f);
/// Whether accesses to the tensor need no barriers.
bool gpu_order_is_free(const GpuFn *f, const GpuTensor *t);
/// Records the start of a loop: earlier iterations may have made the accesses in it.
void gpu_order_again(GpuFn *f, const Op *loop);

/* ---- lowerings ----------------------------------------------------------------------------- */

GpuLower gpu_lower_const, gpu_lower_iota, gpu_lower_broadcast, gpu_lower_reshape, gpu_lower_permute,
    gpu_lower_slice, gpu_lower_concat, gpu_lower_cast, gpu_lower_bitcast, gpu_lower_select,
    gpu_lower_elementwise, gpu_lower_lt, gpu_lower_for, gpu_lower_while, gpu_lower_if,
    gpu_lower_dim, gpu_lower_stride, gpu_lower_align, gpu_lower_convert, gpu_lower_load,
    gpu_lower_live, gpu_lower_store, gpu_lower_atomic, gpu_lower_renew;

#endif
