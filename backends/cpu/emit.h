// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What the files that drive the emission share beyond cpu.h.
#ifndef BACKENDS_CPU_EMIT_H
#define BACKENDS_CPU_EMIT_H

#include "backends/cpu/cpu.h"
#include "backends/llvm/debug.h"

/* ---- scope.c ------------------------------------------------------------------------------- */

/// What a value of the IR is in this function.
typedef struct Binding {
    LLVMValueRef scalar;
    const TensorRef *tensor;
    Buffer *buffer;          // a block that stands in memory
    struct Prepared *access; // a load or live: its scalar parts
} Binding;

void scopes_begin(Emit *e);
/// Code that may not run, or runs again, is a scope: what is bound, memoised or given memory in it
/// is forgotten, and the memory free, when it is left. Loops and branches of emit.c are scopes.
void scope_enter(Emit *e);
void scope_leave(Emit *e);
bool scope_is_open(const struct Scope *s);

void bind_tensor(Emit *e, const Value *v, const TensorRef *t);
/// NULL: v is lazy.
void bind_buffer(Emit *e, const Value *v, Buffer *b);
Buffer *bound_buffer(Emit *e, const Value *v);
void bind_access(Emit *e, const Op *op, struct Prepared *p);
struct Prepared *bound_access(Emit *e, const Op *op);
/// As bind_scalar, of what may be a vector, while a region of scalar ops is applied.
void bind_lanes(Emit *e, const Value *v, LLVMValueRef x);

/// Within a scope, vectors memoised since the mark are forgotten where a nest ends: what they were
/// loaded from may change.
int memo_mark(const Emit *e);
void memo_forget(Emit *e, int mark);

/* ---- emit.c -------------------------------------------------------------------------------- */

/// Starts a function: the builder stands in its first block.
Emit *emit_new(Cpu *cpu, LLVMValueRef fn);
LLVMBasicBlockRef emit_block(Emit *e, const char *name);
LLVMBasicBlockRef emit_here(Emit *e);

/// Instructions built from here on belong to op's line.
void debug_at(Emit *e, const Op *op);
/// Gives the function a scope for locations; debug_at works from here on.
void debug_function(Emit *e, const Op *op, const char *name);

/* ---- cpu_levels.c, compile.c ---------------------------------------------------------------- */

bool cpu_info(const char *level, TargetInfo *out);
bool target_is_x86(const TargetInfo *t);
/// An x86 without a feature that the other architectures' lowest levels have the like of.
bool target_lacks(const TargetInfo *t, const char *feature);
/// What every function of the module has: the CPU it is for.
void cpu_function_attributes(Cpu *c, LLVMValueRef fn);

/* ---- arena.c ------------------------------------------------------------------------------- */

struct ArenaPlan *arena_plan_new(Ctx *ctx);
/// Bytes of arena that the function needs.
int64_t arena_size(const Emit *e);
/// Raw bytes that nothing before or after uses: their content lasts from one iteration of a loop to
/// the next.
LLVMValueRef arena_keep(Emit *e, int64_t bytes, int64_t *offset);
/// At the end of the function: with Cpu.fill, nothing is left of what stood there.
void arena_end(Emit *e);
/// Stretches that scopes own, as a count; frees those made since the mark.
int arena_mark(const Emit *e);
void arena_forget(Emit *e, int mark);
/// Elements of b by row-major number: a scalar, or a vector of which `live` lanes are.
LLVMValueRef buffer_pick(Emit *e, const Buffer *b, LLVMValueRef number, int live);
/// The rows of b follow each other without padding.
bool buffer_is_dense(const Buffer *b);
/// Elements number .. number + lanes of a dense buffer.
LLVMValueRef buffer_run(Emit *e, const Buffer *b, LLVMValueRef number, int lanes);
/// The next result_buffer(v) is b.
void assign_result(Emit *e, const Value *v, Buffer *b);

/* ---- memory.c ------------------------------------------------------------------------------ */

/// Memories: the arena is 0, tensors count from 1; -1 may be any of them.
enum { TENSOR_ARENA = 0 };
void memory_scopes(Cpu *c, int n_tensors);
/// Elements of the two may be the same memory: one tensor, or parameters that a launch may pass as
/// one view.
bool tensors_may_meet(const Value *a, const Value *b);
LLVMValueRef memory_load(Emit *e, int id, LLVMTypeRef type, LLVMValueRef at, unsigned alignment);
void memory_store(Emit *e, int id, LLVMValueRef x, LLVMValueRef at, unsigned alignment);
/// Past the caches; x is a vector of so many bytes, which goes out in parts that are aligned.
void memory_stream(Emit *e, int id, LLVMValueRef x, LLVMValueRef at, int bytes, int part);
/// Dead lanes are `otherwise` (NULL: anything).
LLVMValueRef memory_load_masked(Emit *e, int id, LLVMTypeRef type, LLVMValueRef at,
                                unsigned alignment, LLVMValueRef mask, LLVMValueRef otherwise);
void memory_store_masked(Emit *e, int id, LLVMValueRef x, LLVMValueRef at, unsigned alignment,
                         LLVMValueRef mask);
/// `at` is a vector of pointers to elem.
LLVMValueRef memory_gather(Emit *e, int id, LLVMTypeRef elem, LLVMValueRef at, LLVMValueRef mask,
                           LLVMValueRef otherwise);
void memory_scatter(Emit *e, int id, LLVMValueRef x, LLVMValueRef at, LLVMValueRef mask);

/* ---- access.c ------------------------------------------------------------------------------ */

/// The scalar parts of a subscript, computed once where the op stands.
typedef struct Prepared {
    const Op *op;
    Access a;
    const TensorRef *tensor;
    LLVMValueRef offset;       // in elements, of all AT and of lane 0 of all AXIS
    LLVMValueRef at[MAX_RANK]; // per dimension: AT coordinate or AXIS base; NULL for PICK
    LLVMValueRef lo[MAX_RANK]; // AXIS: live lanes are lo <= j < hi; NULL: all from 0 on
    LLVMValueRef hi[MAX_RANK]; // AXIS: NULL: all up to size
    LLVMValueRef live;         // i1: the AT coordinates lie inside; NULL: always
    int inside[MAX_RANK];      // what `bounds` proved
} Prepared;

void prepare_access(Emit *e, const Op *op);
const Prepared *prepared_of(Emit *e, const Op *op);
/// Where the lanes of one vector stand: element offset + lane * step, or `offsets` where the lanes
/// have no common step. live: i1, or a vector of them, or NULL: all.
typedef struct Lanes {
    LLVMValueRef offset, offsets, live;
    int64_t step;
} Lanes;
Lanes access_lanes(Emit *e, const Prepared *p, const Place *at);
/// from + lane < n for each lane, as unsigned numbers, in 32 bits: n is clamped to 0 and to what a
/// block can hold, which keeps the order.
enum { BLOCK_REACH = INT32_MAX / 2 };
LLVMValueRef lanes_below(Emit *e, LLVMValueRef from, LLVMValueRef n, int lanes);
/// The coordinate in dimension d: a scalar or a vector.
LLVMValueRef access_coordinate(Emit *e, const Prepared *p, int d, const Place *at);
/// The mask operand at a place of the access's block.
LLVMValueRef access_mask(Emit *e, const Prepared *p, const Place *at);
/// i1: the lanes stand side by side in memory; *first is the offset of lane 0.
LLVMValueRef lanes_beside(Emit *e, const Lanes *l, int lanes, LLVMValueRef *first);
/// The axis along which coordinates of the contiguous dimension are picked, so that lanes may stand
/// side by side; or -1.
int picked_axis(const Op *op);
LLVMValueRef access_offsets(Emit *e, const Lanes *l, int lanes);
LLVMValueRef emit_load(Emit *e, const Op *op, const Place *p);
LLVMValueRef emit_live(Emit *e, const Op *op, const Place *p);
void emit_store(Emit *e, const Op *op, const Place *p, LLVMValueRef x);
/// Distance in memory of neighbouring lanes of the access's block along an axis: 0, 1, n elements,
/// or DYNAMIC where it varies or is known at run time only.
int64_t access_stride(const Op *op, int axis);

/* ---- nibbles.c: tensors of i4 and u4, two a byte -------------------------------------------- */

LLVMValueRef nibbles_load(Emit *e, const TensorRef *t, const Lanes *l, int lanes, Elem elem,
                          LLVMValueRef pad);
void nibbles_store(Emit *e, const TensorRef *t, const Lanes *l, int lanes, LLVMValueRef x);

/* ---- atomic.c ------------------------------------------------------------------------------ */

/// One element; returns the old one.
LLVMValueRef emit_atomic(Emit *e, const Op *op, const Place *p);
/// The same, with the old one to the result's buffer if it has one.
void atomic_element(Emit *e, Op *op, const Place *p);

/* ---- effects.c ----------------------------------------------------------------------------- */

/// The functions of tg_env, in order.
enum {
    ENV_PARALLEL_FOR,
    ENV_WORKSPACE,
    ENV_ARENA,
    ENV_FAIL,
    ENV_PRINT,
    ENV_USER, // no function
    ENV_DISPATCH,
    ENV_TENSORMAP,
    ENV_COMM, // no function: a tg_comm_calls
    ENV_FIELDS
};
LLVMValueRef env_call(Emit *e, int index, int n, LLVMValueRef *args);
/// n times 8 bytes of the function's stack frame.
LLVMValueRef stack_slots(Emit *e, int n);
/// A place that can fail or print (tg_site), as data of the module.
LLVMValueRef make_site(Emit *e, const Op *op, int kind, const char *text, const char *types,
                       int n_indices);
/// Fills in dims and dense strides of the result's dimensions from `first` on, whose extents are
/// the op's last operands; returns their bytes.
LLVMValueRef dense_tensor(Emit *e, const Op *op, TensorRef *t, int first);
/// Returns from the function, for want of memory, where p is null.
void fail_if_null(Emit *e, LLVMValueRef p);
/// Returns status from the function unless it is 0.
void return_if_failed(Emit *e, LLVMValueRef status);
/// --check: fails where a lane's valid coordinate lies outside the tensor.
void check_access(Emit *e, const Prepared *p, const Place *at);
/// --check: fails where a scalar is divided by 0.
void check_division(Emit *e, const Op *op);
void assert_lanes(Emit *e, Op *op, const Place *p);

/* ---- lazy_block.c --------------------------------------------------------------------------- */

bool op_is_lazy(const Op *op);
/// A reshape that only adds or drops axes of extent 1: coordinates map one to one.
bool reshape_is_trivial(const Op *op);
LLVMValueRef emit_lazy(Emit *e, Op *op, const Place *p);

/* ---- square_reads.c ------------------------------------------------------------------------- */

/// emit_vec(v, p) by transposing, with the vectors of the tile's other rows memoised; NULL where
/// the tile is no square or the memory is not contiguous along its rows.
LLVMValueRef emit_square(Emit *e, Value *v, const Place *p);
/// Distance in memory of neighbouring elements of v along an axis, where v is read from memory;
/// DYNAMIC where it varies, -1 where v is computed.
int64_t memory_stride(Emit *e, const Value *v, int axis);

/* ---- plan.c -------------------------------------------------------------------------------- */

/// Decides for a region tree which lazy blocks get buffers and which loops keep their carried
/// blocks in registers.
void plan_function(Emit *e, Region *body);
bool plan_is_cut(const Emit *e, const Value *v);
bool plan_is_register_loop(const Emit *e, const Op *loop);
/// A register loop inside another: part of its body.
bool plan_is_inner_loop(const Emit *e, const Op *loop);
bool plan_in_register_loop(const Emit *e, const Op *op);
/// Work of computing one vector of v, in instructions; for choosing unroll factors.
int plan_cost(Emit *e, const Value *v);

/* ---- nest.c: loop nests -------------------------------------------------------------------- */

typedef enum RootKind {
    ROOT_STORE,
    ROOT_ATOMIC,
    ROOT_ASSERT,
    ROOT_BUFFER, // a lazy value or the result of a register loop, into a buffer
    ROOT_LOOP,   // a register loop
    ROOT_REDUCE,
} RootKind;

typedef struct Root {
    RootKind kind;
    Op *op;       // NULL for BUFFER
    Value *value; // BUFFER: what is written
    Buffer *out;  // BUFFER: where
    bool keep;    // BUFFER: written even where this nest alone wants it; `value` is not bound to it
    LLVMValueRef stream; // STORE: i1, past the caches; NULL: never (streaming.c)
    int part;            // STORE: in parts of so many bytes
} Root;

enum { MAX_PLACES = 16 };

/// A tile of rows as many as a vector has lanes, one vector each: what is contiguous along the rows
/// is read along them and transposed in registers (square_reads.c).
typedef struct Square {
    int n;                         // 0: the tile at hand is none
    LLVMValueRef rows[MAX_PLACES]; // coordinates
} Square;

/// One axis of a nest's iteration space in the order of the loops.
typedef struct NestAxis {
    int axis;
    int unit;     // coordinates a place covers: the lanes along the vector axis, else 1
    int tile;     // places unrolled
    int64_t full; // places with all lanes
    int tail;     // lanes of a last, partial place, or 0
    // While emitting:
    LLVMValueRef origin;
    int count;                   // places at origin, origin + unit, ...
    bool partial;                // the last of them has `tail` lanes
    LLVMValueRef at[MAX_PLACES]; // the places' coordinates
} NestAxis;

typedef struct Nest {
    VEC(Root) roots;
    VEC(const Value *) reads, writes; // tensors
    const Type *space;
    int vector, lanes; // vector axis, or -1 with 0 lanes
    int reduced;       // axis that the reductions run over, or -1
    int cost;          // of computing what all roots want at one place
    int square;        // axis whose tiles are squares with the vectors, or -1
    int n_axes;
    NestAxis axes[MAX_RANK];
    struct Reduction **reductions; // one a root, or NULL
    struct Full *full;             // what its bodies know to be live, or NULL
} Nest;

/// Adds a root to the nest that is being gathered, after emitting that one where they do not fit.
void nest_add(Emit *e, Root root);
/// Emits the nest that is being gathered.
void nest_flush(Emit *e);
/// v is a result of a root being gathered; a root being gathered writes the tensor.
bool nest_defines(const Emit *e, const Value *v);
bool nest_writes(const Emit *e, const Value *tensor);
/// One tile: computes what the roots want there, then writes it.
void nest_body(Emit *e, Nest *n);
/// The places of the current tile, in order of the axes; returns how many.
int nest_places(Emit *e, Nest *n, Place *places);

/* ---- code_notes.c: for `explain` ------------------------------------------------------------ */

/// A line about the code of op. Does nothing where nobody asks.
void note(Emit *e, const Op *op, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
void code_note_nest(Emit *e, const Nest *n);

/* ---- shape.c: axis, lanes and tiles of a nest ---------------------------------------------- */

const Type *root_space(const Root *r);
void nest_shape(Emit *e, Nest *n);

/* ---- nest_reads.c --------------------------------------------------------------------------- */

/// Visits every value that emitting r evaluates, once for each axis it is reached with. `axis` is
/// the value's axis that runs along `axis` of r's space, -1 where it does not vary with it;
/// identity: it is wanted at the very place of r.
typedef void ReachVisit(void *arg, Value *v, int axis, bool identity);
void walk_nest_reads(Emit *e, const Root *r, int axis, ReachVisit *visit, void *arg);

/* ---- unmasked.c ----------------------------------------------------------------------------- */

/// What a nest masks, once its axes are settled; NULL where that is nothing.
struct Full *unmasked_survey(Emit *e, const Nest *n);
/// What the ops of a register loop's body mask, once they are prepared; NULL where that is nothing.
struct Full *unmasked_body(Emit *e, const Region *r);
/// i1: nothing of it is masked.
LLVMValueRef unmasked_everywhere(Emit *e, const struct Full *f);
/// Coordinates along the vectors, level `level`, below which no mask is needed for the places at
/// hand of the levels around: a number of whole tiles.
LLVMValueRef unmasked_bound(Emit *e, const Nest *n, int level);
/// Coordinates from which on whole tiles are dead in all that the nest masks.
LLVMValueRef unmasked_end(Emit *e, const Nest *n, int level);
/// The end of the whole vectors that do anything: nothing is written beyond.
LLVMValueRef unmasked_written(Emit *e, const Nest *n, int level);
/// The body being emitted has no dead lanes in dimension d (-1: in AT ones) of a Prepared access,
/// or of a comparison, at the coordinate `at` of its axis.
bool unmasked_covers(const Emit *e, const void *key, int d, LLVMValueRef at);
/// The same, but nothing but dead lanes.
bool unmasked_kills(const Emit *e, const void *key, int d, LLVMValueRef at);
/// n where op is iota < n, which is how `valid` is written; else NULL.
const Value *unmasked_below(const Op *op);

/* ---- streaming.c ---------------------------------------------------------------------------- */

/// Reads ahead of a vector loaded along an axis of the access's block, from `at`.
void streaming_prefetch(Emit *e, const Prepared *p, int axis, int lanes, LLVMValueRef at,
                        int64_t bytes);
/// Reads ahead what a short body left to where it streams.
void streaming_wanted(Emit *e);
/// Whether the stores of the body that a loop over the level repeats go past the caches.
void streaming_decide(Emit *e, Nest *n, int level);
/// At the end of a task: what was streamed is visible to all.
void streaming_fence(Emit *e);
/// The same wherever other ranks are told of what was written.
void streaming_settle(Emit *e);

/* ---- reduce.c ------------------------------------------------------------------------------ */

/// Emits the loops over the reduced axis, level `level` of the nest, and what is inside.
void reduce_level(Emit *e, Nest *n, int level);
/// Takes the tile's places into the accumulators.
void reduce_step(Emit *e, Nest *n, struct Reduction *r, int n_places, const Place *places);

/* ---- register_loop.c ------------------------------------------------------------------------ */

/// Emits a register loop for these places; its results are memoised there.
void carried_loop(Emit *e, Op *loop, int n, const Place *places);

/* ---- lowerings ----------------------------------------------------------------------------- */

/// A scalar op, or the scalar parts of a lazy block.
void emit_simple(Emit *e, Op *op);
typedef void Lower(Emit *e, Op *op);
Lower lower_for, lower_while, lower_if, lower_concat;          // flow.c
Lower lower_print, lower_assert, lower_require, lower_scratch; // effects.c
Lower lower_rank, lower_comm_launch, lower_comm_fence, lower_comm_gather, lower_comm_scatter,
    lower_comm_signals, lower_comm_control, lower_signal_wait, lower_signal_set,
    lower_sym_scratch;            // comm.c
Lower lower_launch;               // compile.c
Lower lower_dispatch, lower_desc; // dispatch.c, tensor_map.c

#endif
