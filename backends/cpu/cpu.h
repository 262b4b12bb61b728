// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Private header of the CPU back end: how the ops of a grid-level kernel become LLVM code.
//
// A kernel's host code becomes the function `entry`; the body of each launch becomes a task
// function. Within a function:
//   - a scalar is an LLVM scalar;
//   - a block is *lazy* (emit_vec computes a vector of it wherever one is wanted) or has a
//     *buffer* in the thread's arena (written by the op's own nest, read by emit_vec);
//   - plan.c decides which. Ops that write memory, reduce or need whole operands are *roots*: each
//     starts a loop nest; neighbouring roots of one iteration space share it (nest.c).
// So no block ever exists as a whole unless it has a buffer, and no code loops over lanes.
#ifndef BACKENDS_CPU_CPU_H
#define BACKENDS_CPU_CPU_H

#include "backends/backend.h"
#include "backends/llvm/llvm.h"

typedef struct Cpu Cpu;       // a module under compilation (compile.c)
typedef struct Emit Emit;     // a function under construction
typedef struct Buffer Buffer; // a block in the arena

/* ---- what is known about the target -------------------------------------------------------- */

/// Instructions beyond those of the vectors' width, as bits.
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
    bool fill;        // memory that is given back holds bytes of FILL_BYTE (docs/use/debugging.md)
    Text *notes;      // for `explain`, or NULL (code_notes.c)
    const Op *kernel;
    LLVMTypeRef slot, env, site; // structures of runtime/abi.h
    LLVMTypeRef env_fn[8];       // types of the functions in tg_env
    LLVMTypeRef task_fn;
    int n_tasks;
    int n_scopes, next_scope; // alias scopes (memory.c)
    LLVMValueRef *own_scope, *other_scopes;
};

/// Lanes of a native vector of this element.
static inline int cpu_lanes(const Cpu *c, Elem elem) {
    return c->target.vector_bytes / (elem_bytes(elem));
}

/* ---- a function under construction (emit.c) ------------------------------------------------ */

/// A tensor in LLVM scalars; what the type knows is constant.
typedef struct TensorRef {
    LLVMValueRef data;
    LLVMValueRef dims[MAX_RANK], strides[MAX_RANK]; // i64, strides in elements
    LLVMValueRef shape, steps; // what the caller passed, in memory; NULL inside launches
    int id;                    // alias scope: tensors of different id do not overlap
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
    struct Known *known;   // what values are, and vectors computed already (scope.c)
    struct Scope *inmost;  // the loop body or arm being emitted
    struct ArenaPlan *space;
    struct Plan *plan;           // what gets a buffer (plan.c)
    struct Nest *nest;           // roots being gathered (nest.c)
    const struct Square *square; // of the tile being emitted, or NULL (square_reads.c)
    int ahead;     // reading ahead: 1 + the number of the place being computed, or 0 (streaming.c)
    int nest_cost; // of the body
    int level;     // of emit_vec in emit_vec
    int n_wanted;
    LLVMValueRef wanted[MAX_WANTED]; // addresses to read ahead
    int streaming;                   // a store past the caches, in parts of so many bytes; or 0
    bool streams;                    // the function has some (streaming.c)
    const struct Full *dead;         // of a body where all they bound is dead, or NULL
    const struct Full *full;         // of a body without masks, or NULL (unmasked.c)
};

/// The LLVM scalar of a rank-0 value; set for ops as they are emitted, and for the arguments of a
/// region by whoever emits it.
LLVMValueRef emit_scalar(Emit *e, const Value *v);
void bind_scalar(Emit *e, const Value *v, LLVMValueRef x);
const TensorRef *emit_tensor(Emit *e, const Value *v);

/// Emits the ops of a region up to its terminator: scalars, roots with their nests, nested control
/// flow; lazy blocks are prepared (their scalar parts computed), so that emit_vec works on them.
/// Arguments must be bound before.
void emit_ops(Emit *e, Region *r);

/// for (iv = lo; iv < hi; iv += step). Code built between begin and end is the body, and a scope.
enum { MAX_CARRIED = 96 };
typedef struct Loop {
    LLVMBasicBlockRef head, exit, before;
    LLVMValueRef iv;
    int64_t step;
    int n_carried;
    LLVMValueRef carried[MAX_CARRIED]; // phis: of this iteration, after the loop the last one
} Loop;
Loop *loop_begin(Emit *e, LLVMValueRef lo, LLVMValueRef hi, int64_t step, const char *name);
/// Adds a loop-carried value; returns it as the body sees it.
LLVMValueRef loop_carry(Emit *e, Loop *l, LLVMValueRef init);
/// next: one value a carry. Afterwards l->carried[i] are the final values.
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

/// Which elements of a block: `lanes` of them along `axis` from coordinates `at` on, or the one
/// element at `at` (axis -1, lanes 0). Lanes from `live` on lie outside the block: they may hold
/// anything, but nothing is read from tensors or written for them.
typedef struct Place {
    int rank, axis, lanes, live;
    LLVMValueRef at[MAX_RANK]; // i64
} Place;

/// The elements of v at a place of its block: a vector of p->lanes, or an LLVM scalar where they
/// are all the same (axis -1; v constant along the axis). Use emit_unmasked where a vector is
/// needed.
LLVMValueRef emit_vec(Emit *e, Value *v, const Place *p);
LLVMValueRef emit_unmasked(Emit *e, Value *v, const Place *p);
/// States what emit_vec(v, p) is from here to the end of the scope.
void memo_set(Emit *e, const Value *v, const Place *p, LLVMValueRef x);
LLVMValueRef memo_get(Emit *e, const Value *v, const Place *p);
/// The yields of a region of scalar ops (reduce, scan, combine) applied lane by lane.
void emit_region_lanes(Emit *e, Region *r, const LLVMValueRef *args, LLVMValueRef *out);
/// Element of lanes in registers, of a block value.
static inline Elem value_elem(const Value *v) {
    return v->type->elem;
}
Place place_scalar(void);
/// The place one axis less / the coordinate of `axis` replaced.
Place place_drop(const Place *p, int axis);
Place place_insert(const Place *p, int axis, LLVMValueRef at);

/* ---- buffers (arena.c) --------------------------------------------------------------------- */

/// Row-major with the last axis of extent > 1 contiguous, its rows padded to the native vector, so
/// that vectors may be loaded beyond `live`. Base and rows are aligned to 64 bytes.
struct Buffer {
    Elem elem;
    int rank;
    int64_t extents[MAX_RANK], strides[MAX_RANK]; // in elements
    LLVMValueRef memory;                          // its first byte: read by buffer_base alone
    int64_t offset, bytes;                        // in the arena
    bool exact;                // a part of another buffer: nothing is written beyond the extents
    const struct Scope *scope; // its stretch of arena is other code's behind it
    bool freed;
};
/// Memory for a whole block of this shape, until buffer_free or the end of the scope.
Buffer *buffer_new(Emit *e, Elem elem, int rank, const int64_t *extents);
void buffer_free(Emit *e, Buffer *b);
/// Raw bytes in the arena (panels, tables), 64-byte aligned: *offset is for arena_release.
LLVMValueRef arena_bytes(Emit *e, int64_t bytes, int64_t *offset);
void arena_release(Emit *e, int64_t offset);
/// Where the block result v of a root is written, to the end of the scope.
Buffer *result_buffer(Emit *e, Value *v);
/// The buffer of v, made now if it is still lazy; behind this scope v is lazy again. Not inside a
/// nest.
Buffer *buffer_of(Emit *e, Value *v);
/// The first byte. Every use of a buffer's memory comes by here, which makes sure that it is still
/// the buffer's.
LLVMValueRef buffer_base(Emit *e, const Buffer *b);
LLVMValueRef buffer_address(Emit *e, const Buffer *b, const LLVMValueRef *at);
LLVMValueRef buffer_load(Emit *e, const Buffer *b, const Place *p);
void buffer_store(Emit *e, const Buffer *b, const Place *p, LLVMValueRef x);

/* ---- roots --------------------------------------------------------------------------------- */
// Each emits its op at the builder; block results go to result_buffer, scalar results to
// bind_scalar. Operands come by emit_vec at any place, in any order, any number of times.

/// The CpuFeatures of a level; those that the system hands out on request, where it is the host.
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
