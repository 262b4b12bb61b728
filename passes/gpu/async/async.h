// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// State and helpers that the passes on asynchrony share: async, schedule, sync, alloc.
#ifndef PASSES_GPU_ASYNC_ASYNC_H
#define PASSES_GPU_ASYNC_ASYNC_H

#include "ir/layout/layout.h"
#include "passes/gpu/gpu.h"
#include "passes/util.h"

enum {
    RING_SLOTS = 8,
    RING_GROUPS = 15
}; // upper bounds; RING_GROUPS: copies that a wait leaves
   // pending

typedef struct Async {
    PassEnv *env;
    Ir *ir;
    Ctx *ctx;
    const GpuTarget *target;
    Op *module, *device;
    PtrMap counters; // Region * -> Value *: the number of the region's current run
    VEC(const char *)
    notes; // for the report: the loads and stores that are copies, and reasons
           // for the others
} Async;

/// Records for the report how the tensor's blocks travel, and the reason (NULL: none).
void async_note(Async *s, const Value *tensor, const char *how, const char *why);

/* ---- async_copy.c: loads as copies into buffers --------------------------------------------- */

/// The copy of a load's block.
typedef struct Staging {
    bool tma;           // true: by tensor maps; false: each thread copies `bytes` at a time
    int bytes;          // 16, 8 or 4
    const char *narrow; // why the copies are not wider, or NULL
    const Type *buf;    // destination
    const Type *desc;   // of the tensor map
    const Attr *axes;   // of copy_tma
    bool shared;        // each program of a pair copies half of the block to both
    int pads;           // dimensions whose count TMA cannot clip, as bits
} Staging;

/// Decides how to copy the load's block. Returns false if it must go through registers, and sets
/// *why to the reason, or NULL.
bool stage_load(Async *s, const Op *load, Staging *out, const char **why);
/// Starts the copy of the block of `load` into `buf` and returns its pending token.
Value *start_copy(Async *s, Builder *b, Op *load, const Staging *how, Value *buf);
/// Zeroes the elements of a full buffer that TMA copies but that the load's counts exclude.
void pad_copy(Async *s, Builder *b, Op *load, const Staging *how, Value *buf);
/// Returns the device parameter with the tensor map `desc` of parameter `tensor`, and adds it if
/// necessary. round: the format to which copies round, or NULL.
Value *desc_param(Async *s, Value *tensor, const Type *desc, Rounding round);

/* ---- async.c ------------------------------------------------------------------------------- */

/// Returns the load behind operand v, or NULL. *swapped: the operand has the load's axes exchanged.
Op *load_behind(const Value *v, bool *swapped);

/// Returns the dimension of stride 1, or -1.
int contiguous_dim(const Type *tensor);
/// Returns why no engine may copy the block of a load or store in units of at least `least` bytes.
/// NULL: it may, and *w is the width.
const char *reason_against_copy(Async *s, const Op *op, const Access *a, int least, GpuWidth *w);
/// Returns the dimensions, as bits, in which dead lanes may lie inside the tensor (attribute
/// `clip`).
int unclipped(const Op *op, const Access *a);
enum { COPY_BYTES = GPU_COPY_MOST, MAX_BOX = 256, TMA_RANK = 5 };

/// Returns the name of another parameter through which threads access the tensor if the kernel runs
/// in place, or NULL. A copy through one name has no order with accesses through the other.
const char *other_name(const Async *s, const Value *tensor);

/* ---- async_store.c: stores as copies out of buffers ----------------------------------------- */

void stage_stores(Async *s);
/// Stages a tile's results in an item that its products have read (stage_in_item.c). Returns false
/// if no item can hold them.
bool stage_in_item(PassEnv *env, Op *device);
/// Whether only products read the item, as their left operand, and each warp's part of a product
/// reads the rows that it has in the layout `rows`.
bool is_read_by_same_warps(const Value *item, const Layout *rows);
/// Notes why threads do additions to memory that copies do in other kernels: additions of products'
/// results (`products`), or additions to other ranks' memory.
void keep_adds(Async *s, bool products);

/* ---- async_wgmma.c: products by warpgroups -------------------------------------------------- */

/// Whether the dot's unit is a wgmma.
bool is_wgmma(const Op *dot);
/// Whether wgmma takes an operand from the buffer. Elements that do not have 16 bits must be
/// contiguous along k.
bool wgmma_takes(const Type *buf, int k_axis);
/// The register layout of an A operand of these extents, for a result in layout d.
const Layout *wgmma_a_layout(Ctx *ctx, Elem elem, const int64_t *extents, const Layout *d);

/* ---- async_count.c -------------------------------------------------------------------------- */

/// Returns the number of completed runs of region r, counted over all enclosing loops: an i64 that
/// is available everywhere in r.
Value *run_number(Async *s, Region *r);

/* ---- bytes in shared memory ----------------------------------------------------------------- */

int64_t buf_bytes(const Type *buf);
enum { RING_WORDS = 3 }; // of a slot: two mbarriers, and one word that its item carries
/// Bytes of all slots, with their RING_WORDS.
int64_t ring_bytes(const Type *ring);
/// Returns the first buf_alloc of the device's own region that starts a new use of shared memory:
/// no older buffer or ring is used from there on. NULL: none.
Op *shared_anew(const Op *device);
/// Returns the last op of the device's own region, before shared_anew, that uses (also in its
/// regions) buffers, rings or pending products; NULL if none does.
Op *last_shared_use(const Op *device);
/// The bytes of all buffers and rings of the device, before shared_anew, if all are live at once.
int64_t shared_in_use(const Op *device);
int64_t shared_room(int64_t bytes); // rounded up to the start of the next buffer

/// The maximum bytes of temporary shared memory that lowering takes for an op in root
/// (lowering_memory.c). Blocks of loads in `copied` (NULL: none) come from buffers.
int64_t lowering_bytes(Ctx *ctx, Op *root, const PtrMap *copied);

/* ---- prefetch.c, async_registers.c: loads an iteration ahead -------------------------------- */

enum { LOADS_AHEAD = 8 };

/// Whether the load's addresses follow from the loop's index, and the loop does not write the
/// tensor.
bool load_may_go_ahead(const Op *load, const Op *loop);
/// Builds at b the load of the iteration with index i.
Value *load_of_iteration(Ctx *ctx, Builder *b, const Op *loop, Op *load, Value *i);
/// Builds the n loads of the iteration with index i, if `exists`; otherwise the results are zeros.
void load_iteration_if(Ctx *ctx, Builder *b, Op *loop, int n, Op *const *loads, Value *exists,
                       Value *i, Value **out);
/// Returns the index of the next iteration, or of this one in the last iteration. b is in the loop.
Value *next_iteration(Builder *b, const Op *loop, Value **exists);

/// Returns a buffer type that holds the load's block between iterations and suits `reader`; NULL:
/// none fits.
const Type *register_copy_buf(Async *s, const Op *load, const Op *loop, const Layout *reader);
/// Makes buffers of these types that hold the loads' blocks throughout the loop's body. The blocks
/// of the next iteration are loaded at the body's start and stored at its end. Returns false if
/// shared memory has no room.
bool load_through_registers(Async *s, Op *loop, int n, Op *const *loads, const Type *const *types,
                            Value **bufs);

#endif
