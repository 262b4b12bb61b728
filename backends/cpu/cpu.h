// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Private header of the CPU back end, which turns the ops of a grid-level kernel into LLVM code.
//
// A kernel's host code becomes the function `entry`; the body of each launch becomes a task
// function. Within a function:
//   - a scalar is an LLVM scalar;
//   - a block is *lazy* (emit_vec computes a vector of it at each use) or has a
//     *buffer* in the thread's arena (written by the op's own nest, read by emit_vec);
//   - plan.c decides which. Ops that write memory, reduce or need whole operands are *roots*: each
//     starts a loop nest; neighbouring roots of one iteration space share it (nest.c). A block
//     without a buffer never exists as a whole, and no code loops over lanes.
#ifndef BACKENDS_CPU_CPU_H
#define BACKENDS_CPU_CPU_H

#include "backends/backend.h"
#include "backends/llvm/llvm.h"

typedef struct Cpu Cpu;       // a module under compilation (compile.c)
typedef struct Emit Emit;     // a function under construction
typedef struct Buffer Buffer; // a block in the arena

/* ---- facts about the target ---------------------------------------------------------------- */

/// CPU features beyond the vector width, as bits.
typedef enum CpuFeature {
    CPU_ANY = 0,
    CPU_AVX512_BF16 = 1,
    CPU_AMX_BF16 = 2,
    CPU_AMX_INT8 = 4,
} CpuFeature;

typedef struct CpuTarget {
    int vector_bytes;     // 64 with AVX-512, 32 with AVX2, else 16
    int vector_registers; // 32 or 16
    int64_t l1_bytes, l2_bytes;
    bool has_fma, has_vnni;
    unsigned features; // CpuFeature
    bool x86;
} CpuTarget;

struct Cpu {
    Gen *gen;
    Ir *ir;
    CpuTarget target;
    TargetInfo info;
    const char *name; // of the entry function
    bool check;       // --check
    bool fill;        // freed memory is filled with FILL_BYTE (docs/use/debugging.md)
    bool marks;       // tell a profile which loops run (code_notes.c)
    Text *notes;      // for `explain`, or NULL (code_notes.c)
    const Op *kernel;
    LLVMTypeRef slot, env, site; // structures of runtime/abi.h
    LLVMTypeRef env_fn[12];      // types of the functions in tg_env
    LLVMTypeRef task_fn;
    int n_tasks;
    int n_scopes, next_scope; // alias scopes (memory.c)
    LLVMValueRef *own_scope, *other_scopes;
};

/// Returns the lanes of a native vector of this element.
static inline int cpu_lanes(const Cpu *c, Elem elem) {
    return c->target.vector_bytes / (elem_bytes(elem));
}

/* ---- a function under construction (emit.c) ------------------------------------------------ */

/// A tensor in LLVM scalars. Facts of its type are constants.
typedef struct TensorRef {
    LLVMValueRef data;
    LLVMValueRef dims[MAX_RANK], strides[MAX_RANK]; // i64, strides in elements
    LLVMValueRef shape, steps; // the caller's arrays, in memory; NULL inside launches
    int id;                    // alias scope: tensors with different ids do not overlap
} TensorRef;

enum { MAX_WANTED = 16 };
struct Emit {
    Cpu *cpu;
    Gen *g;
    Ctx *ctx;
    LLVMValueRef fn;
    LLVMMetadataRef scope; // for debug locations, or NULL
    LLVMValueRef env;      // const tg_env *
    LLVMValueRef arena;    // this thread's memory, 64-byte aligned
    struct Known *known;   // bindings of values, and memoised vectors (scope.c)
    struct Scope *inmost;  // the loop body or arm being emitted
    struct ArenaPlan *space;
    struct Plan *plan;           // the blocks that get a buffer (plan.c)
    struct Nest *nest;           // roots being gathered (nest.c)
    const struct Square *square; // of the tile being emitted, or NULL (square_reads.c)
    int ahead;     // prefetch: 1 + the number of the current place, or 0 (streaming.c)
    int nest_cost; // of the body
    int level;     // depth of nested emit_vec calls
    int n_wanted;
    LLVMValueRef wanted[MAX_WANTED]; // addresses to prefetch
    int streaming;                   // bytes a part of a streaming store, or 0
    bool streams;                    // the function has streaming stores (streaming.c)
    const struct Full *dead;         // of a body in which all guarded lanes are dead, or NULL
    const struct Full *full;         // of a body without masks, or NULL (unmasked.c)
};

/// Returns the LLVM scalar of a rank-0 value. Ops set it when they are emitted. The emitter of a
/// region sets it for the region's arguments.
LLVMValueRef emit_scalar(Emit *e, const Value *v);
void bind_scalar(Emit *e, const Value *v, LLVMValueRef x);
const TensorRef *emit_tensor(Emit *e, const Value *v);

/// Emits the ops of a region up to its terminator: scalars, roots with their nests, and nested
/// control flow. Lazy blocks are prepared (their scalar parts computed) for emit_vec. Arguments
/// must be bound before.
void emit_ops(Emit *e, Region *r);

/// for (iv = lo; iv < hi; iv += step). The code between begin and end is the body, and a scope.
enum { MAX_CARRIED = 96 };
typedef struct Loop {
    LLVMBasicBlockRef head, exit, before;
    LLVMValueRef iv;
    int64_t step;
    int n_carried;
    LLVMValueRef carried[MAX_CARRIED]; // phis: the current iteration's values; after the loop, the
                                       // final ones
} Loop;
Loop *loop_begin(Emit *e, LLVMValueRef lo, LLVMValueRef hi, int64_t step, const char *name);
/// Adds a loop-carried value. Returns the phi that the body sees.
LLVMValueRef loop_carry(Emit *e, Loop *l, LLVMValueRef init);
/// Ends the loop. next: one value for each carried value. Afterwards l->carried[i] are the final
/// values.
void loop_end(Emit *e, Loop *l, const LLVMValueRef *next);

/// if (cond) { ... } else { ... }: if_begin, code, if_else, code, if_end. Each arm is a scope.
typedef struct If {
    LLVMBasicBlockRef then_, else_, end, then_out, else_out;
} If;
If if_begin(Emit *e, LLVMValueRef cond, const char *name);
void if_else(Emit *e, If *i);
void if_end(Emit *e, If *i);
LLVMValueRef if_phi(Emit *e, const If *i, LLVMValueRef then_value, LLVMValueRef else_value);

/* ---- places and lazy values (lazy_block.c) -------------------------------------------------- */

/// The selected elements of a block: `lanes` elements along `axis` from coordinates `at` on, or the
/// one element at `at` (axis -1, lanes 0). Lanes from `live` on lie outside the block. They may
/// hold any value, but they neither read nor write tensors.
typedef struct Place {
    int rank, axis, lanes, live;
    LLVMValueRef at[MAX_RANK]; // i64
} Place;

/// Returns the elements of v at a place of its block. The result is a vector of p->lanes, or an
/// LLVM scalar if all elements are equal (axis -1, or v constant along the axis). Use emit_unmasked
/// if a vector is required.
LLVMValueRef emit_vec(Emit *e, Value *v, const Place *p);
LLVMValueRef emit_unmasked(Emit *e, Value *v, const Place *p);
/// Sets the result of emit_vec(v, p) from here to the end of the scope.
void memo_set(Emit *e, const Value *v, const Place *p, LLVMValueRef x);
LLVMValueRef memo_get(Emit *e, const Value *v, const Place *p);
/// Applies a region of scalar ops (reduce, scan, combine) lane by lane and returns its yields.
void emit_region_lanes(Emit *e, Region *r, const LLVMValueRef *args, LLVMValueRef *out);
/// Returns the element type of a block value's lanes in registers.
static inline Elem value_elem(const Value *v) {
    return v->type->elem;
}
Place place_scalar(void);
/// Returns the place without one axis / with the coordinate of `axis` replaced.
Place place_drop(const Place *p, int axis);
Place place_insert(const Place *p, int axis, LLVMValueRef at);

/* ---- buffers (arena.c) --------------------------------------------------------------------- */

/// A row-major block whose last axis of extent > 1 is contiguous. Rows are padded to the native
/// vector, so vectors may be loaded beyond `live`. Base and rows are aligned to 64 bytes.
struct Buffer {
    Elem elem;
    int rank;
    int64_t extents[MAX_RANK], strides[MAX_RANK]; // in elements
    LLVMValueRef memory;                          // its first byte; only buffer_base reads it
    int64_t offset, bytes;                        // in the arena
    bool exact;                // a part of another buffer: nothing is written beyond the extents
    const struct Scope *scope; // after this scope the memory belongs to other code
    bool freed;
};
/// Allocates memory for a whole block of this shape, until buffer_free or the end of the scope.
Buffer *buffer_new(Emit *e, Elem elem, int rank, const int64_t *extents);
void buffer_free(Emit *e, Buffer *b);
/// Allocates bytes in the arena (panels, tables), 64-byte aligned. *offset is for arena_release.
LLVMValueRef arena_bytes(Emit *e, int64_t bytes, int64_t *offset);
void arena_release(Emit *e, int64_t offset);
/// Returns the buffer for the block result v of a root, valid to the end of the scope.
Buffer *result_buffer(Emit *e, Value *v);
/// Returns the buffer of v and fills it now if v is still lazy. After this scope v is lazy again.
/// Not inside a nest.
Buffer *buffer_of(Emit *e, Value *v);
/// Returns the first byte. Every use of a buffer's memory calls this, and it checks that the buffer
/// still owns the memory.
LLVMValueRef buffer_base(Emit *e, const Buffer *b);
LLVMValueRef buffer_address(Emit *e, const Buffer *b, const LLVMValueRef *at);
LLVMValueRef buffer_load(Emit *e, const Buffer *b, const Place *p);
void buffer_store(Emit *e, const Buffer *b, const Place *p, LLVMValueRef x);

/* ---- roots --------------------------------------------------------------------------------- */
// Each function emits its op at the builder. Block results go to result_buffer, scalar results to
// bind_scalar. Operands come from emit_vec at any place, in any order, any number of times.

/// Returns the CpuFeatures of a level. For the host this requests the features that the system
/// grants on demand.
unsigned dot_features(const TargetInfo *info, const char *level); // microkernel.c
void lower_contract(Emit *e, Op *op);                             // contract.c
void lower_dot(Emit *e, Op *op);                                  // contract.c
void lower_sort(Emit *e, Op *op);                                 // sort.c
void lower_scan(Emit *e, Op *op);                                 // scan.c
void lower_histogram(Emit *e, Op *op);                            // gather.c
void lower_gather(Emit *e, Op *op);                               // gather.c

/// Transposes n vectors of n lanes in registers (transpose.c); n a power of 2.
void emit_transpose(const Gen *g, int n, LLVMValueRef *vectors);

#endif
