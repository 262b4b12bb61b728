// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What the passes on asynchrony share: async, schedule, sync, alloc.
#ifndef PASSES_GPU_ASYNC_ASYNC_H
#define PASSES_GPU_ASYNC_ASYNC_H

#include "ir/layout/layout.h"
#include "passes/gpu/gpu.h"
#include "passes/util.h"

enum { RING_SLOTS = 8, RING_GROUPS = 15 }; // at most; ... of copies that a wait leaves under way

typedef struct Async {
    PassEnv *env;
    Ir *ir;
    Ctx *ctx;
    const GpuTarget *target;
    Op *module, *device;
    PtrMap counters;         // Region * -> Value *: the running number of its runs
    VEC(const char *) notes; // which loads and stores are copies, and why others are not
} Async;

/// Remembers how the tensor's blocks travel, and why so (NULL: no reason is given).
void async_note(Async *s, const Value *tensor, const char *how, const char *why);

/* ---- async_copy.c: loads that may be copies into buffers ------------------------------------ */

/// How the block of a load is copied.
typedef struct Staging {
    bool tma;           // by tensor maps; else by copies of `bytes`, one a thread
    int bytes;          // 16, 8 or 4
    const char *narrow; // why not more, or NULL
    const Type *buf;    // where to
    const Type *desc;   // of the tensor map
    const Attr *axes;   // of copy_tma
    bool shared;        // each of a pair of programs copies half of it for both
    int pads;           // dimensions whose count TMA does not know, a bit each
} Staging;

/// False: it has to go through registers; `why` says for what reason.
bool stage_load(Async *s, const Op *load, Staging *out, const char **why);
/// Starts the copy of the block of `load` into `buf`; a pending token.
Value *start_copy(Async *s, Builder *b, Op *load, const Staging *how, Value *buf);
/// Sets to 0 what the copy brought and the load does not, once the buffer is full.
void pad_copy(Async *s, Builder *b, Op *load, const Staging *how, Value *buf);
/// The parameter of the device that is the tensor map of parameter `tensor`; round: what copies by
/// it round to, or NULL.
Value *desc_param(Async *s, Value *tensor, const Type *desc, const char *round);

/* ---- async.c ------------------------------------------------------------------------------- */

/// The load behind operand v, or NULL; *swapped: with its axes exchanged.
Op *load_behind(const Value *v, bool *swapped);

/// The dimension of stride 1, or -1.
int contiguous_dim(const Type *tensor);
/// Why the block of a load or store may not be a copy, whatever the engine, of `least` bytes or
/// more at a time; else NULL and how wide it may be.
const char *reason_against_copy(Async *s, const Op *op, const Access *a, int least, GpuWidth *w);
/// Dimensions in which lanes may be dead that are inside the tensor, a bit each.
int unclipped(const Op *op, const Access *a);
enum { COPY_BYTES = GPU_COPY_MOST, MAX_BOX = 256, TMA_RANK = 5 };

/// Another name under which the kernel may be run with the tensor, too, and by which threads access
/// it, or NULL. What is copied from there is there before any warp uses it.
const char *other_name(const Async *s, const Value *tensor);

/* ---- async_store.c: stores that are copies out of buffers ----------------------------------- */

void stage_stores(Async *s);
/// Says why threads add what copies of other kernels would: results of products, what ranks send.
void keep_adds(Async *s, bool products);

/* ---- async_wgmma.c: products by warpgroups -------------------------------------------------- */

/// The dot's unit is one of wgmma.
bool is_wgmma(const Op *dot);
/// Which dimension of buffers of this element must be contiguous: that of k for elements that are
/// not of 16 bits.
bool wgmma_takes(const Type *buf, int k_axis);
/// The layout of an A operand of these extents in registers, for a result in layout d.
const Layout *wgmma_a_layout(Ctx *ctx, Elem elem, const int64_t *extents, const Layout *d);

/* ---- async_count.c -------------------------------------------------------------------------- */

/// How many runs of region r have ended before this one, counted in all loops around it: an i64
/// that is available everywhere in r.
Value *run_number(Async *s, Region *r);

/* ---- bytes in shared memory ----------------------------------------------------------------- */

int64_t buf_bytes(const Type *buf);
enum { RING_WORDS = 3 }; // of a slot: two mbarriers, and what its item brings along
/// Of all slots, with these.
int64_t ring_bytes(const Type *ring);
/// The op of the device's own region from which on no buffer and no ring of before is used, though
/// it makes a new one, or NULL.
Op *shared_anew(const Op *device);
/// The last op of the device's own region (before that one) with, or in which, buffers and rings
/// are used, or products that read them are under way; NULL where there are none.
Op *last_shared_use(const Op *device);
/// What all buffers and rings of the device (before that one) take, if they live at the same time.
int64_t shared_in_use(const Op *device);
int64_t shared_room(int64_t bytes); // up to where the next buffer may begin

/// What lowering takes of it besides, at most, for an op in root (lowering_memory.c). Blocks of the
/// loads in `copied` (NULL: none) come from buffers.
int64_t lowering_bytes(Ctx *ctx, Op *root, const PtrMap *copied);
enum { SHARED_SLACK = 2048 }; // for what is not counted: mbarriers, gaps, small temporaries

/* ---- prefetch.c, async_registers.c: loads an iteration ahead -------------------------------- */

enum { LOADS_AHEAD = 8 };

/// The load's places follow from the loop's index, and the loop does not write the tensor.
bool load_may_go_ahead(const Op *load, const Op *loop);
/// The load of the iteration of index i, at b.
Value *load_of_iteration(Ctx *ctx, Builder *b, const Op *loop, Op *load, Value *i);
/// Those of the iteration of index i, if it exists; else zeros.
void load_iteration_if(Ctx *ctx, Builder *b, Op *loop, int n, Op *const *loads, Value *exists,
                       Value *i, Value **out);
/// The index of the iteration after this one, or this one's in the last; b is in the loop.
Value *next_iteration(Builder *b, const Op *loop, Value **exists);

/// A buffer in which the load's block may stand between iterations, so that `reader` takes it from
/// there well; NULL: there is none.
const Type *register_copy_buf(Async *s, const Op *load, const Op *loop, const Layout *reader);
/// Makes buffers of these types that hold the blocks of the loads throughout the loop's body; what
/// the next iteration wants is loaded at its start and stored at its end. False: there is no room.
bool load_through_registers(Async *s, Op *loop, int n, Op *const *loads, const Type *const *types,
                            Value **bufs);

#endif
