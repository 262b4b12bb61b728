// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Shared declarations of the files that drive the emission, beyond cpu.h.
#ifndef BACKENDS_CPU_EMIT_H
#define BACKENDS_CPU_EMIT_H

#include "backends/cpu/cpu.h"
#include "backends/llvm/debug.h"

/* ---- scope.c ------------------------------------------------------------------------------- */

/// The binding of an IR value in this function.
typedef struct Binding {
    LLVMValueRef scalar;
    const TensorRef *tensor;
    Buffer *buffer;          // a block in memory
    struct Prepared *access; // the scalar parts of a load or a live op
} Binding;

void scopes_begin(Emit *e);
/// A scope is code that may run never or repeatedly. Leaving it forgets its bindings and memoised
/// vectors and frees its memory. The loops and branches of emit.c are scopes.
void scope_enter(Emit *e);
void scope_leave(Emit *e);
bool scope_is_open(const struct Scope *s);

void bind_tensor(Emit *e, const Value *v, const TensorRef *t);
/// Binds v to a buffer. NULL: v is lazy.
void bind_buffer(Emit *e, const Value *v, Buffer *b);
Buffer *bound_buffer(Emit *e, const Value *v);
void bind_access(Emit *e, const Op *op, struct Prepared *p);
struct Prepared *bound_access(Emit *e, const Op *op);
/// Same as bind_scalar, but x may be a vector while a region of scalar ops is applied.
void bind_lanes(Emit *e, const Value *v, LLVMValueRef x);

/// Within a scope, the end of a nest forgets the vectors memoised since the mark, because their
/// sources may change.
int memo_mark(const Emit *e);
void memo_forget(Emit *e, int mark);

/* ---- emit.c -------------------------------------------------------------------------------- */

/// Starts a function. The builder is in its first block.
Emit *emit_new(Cpu *cpu, LLVMValueRef fn);
LLVMBasicBlockRef emit_block(Emit *e, const char *name);
LLVMBasicBlockRef emit_here(Emit *e);

/// Assigns the line of op to the instructions built from here on.
void debug_at(Emit *e, const Op *op);
/// Shows a debugger that the scalar v is x, or that the elements of v lie in b. Does nothing for a
/// value without a name, or without debug information.
void debug_scalar(Emit *e, const Value *v, LLVMValueRef x);
void debug_block(Emit *e, const Value *v, const Buffer *b);
/// Whether v is a block that a debugger shows: it is computed where it is defined, and keeps its
/// memory.
bool debug_shows(const Emit *e, const Value *v);
/// Gives the function a scope for locations. debug_at works from here on.
void debug_function(Emit *e, const Op *op, const char *name);

/* ---- cpu_levels.c, compile.c ---------------------------------------------------------------- */

bool cpu_info(const char *level, TargetInfo *out);
bool target_is_x86(const TargetInfo *t);
/// Whether an x86 target lacks the feature. Other architectures have equivalents on every level, so
/// for them this is false.
bool target_lacks(const TargetInfo *t, const char *feature);
/// Sets the attributes of every function: the CPU that it targets.
void cpu_function_attributes(Cpu *c, LLVMValueRef fn);
/// Attributes of a function that runs seldom and stays apart.
void cpu_cold_function(Cpu *c, LLVMValueRef fn);

/* ---- arena.c ------------------------------------------------------------------------------- */

struct ArenaPlan *arena_plan_new(Ctx *ctx);
/// Returns the bytes of arena that the function needs.
int64_t arena_size(const Emit *e);
/// Allocates bytes that no other code uses. Their contents survive from one iteration of a loop to
/// the next.
LLVMValueRef arena_keep(Emit *e, int64_t bytes, int64_t *offset);
/// Ends the function's use of the arena. With Cpu.fill it overwrites all of it.
void arena_end(Emit *e);
/// Returns the number of ranges that scopes own. arena_forget frees the ranges made since then.
int arena_mark(const Emit *e);
void arena_forget(Emit *e, int mark);
/// Returns elements of b by row-major number: a scalar, or a vector with `live` live lanes.
LLVMValueRef buffer_pick(Emit *e, const Buffer *b, LLVMValueRef number, int live);
/// Whether the rows of b follow each other without padding.
bool buffer_is_dense(const Buffer *b);
/// Returns the elements number .. number + lanes of a dense buffer.
LLVMValueRef buffer_run(Emit *e, const Buffer *b, LLVMValueRef number, int lanes);
/// Makes b the result of the next result_buffer(v).
void assign_result(Emit *e, const Value *v, Buffer *b);

/* ---- memory.c ------------------------------------------------------------------------------ */

/// Memory ids: 0 is the arena, tensors count from 1, and -1 may be any of them.
enum { TENSOR_ARENA = 0 };
void memory_scopes(Cpu *c, int n_tensors);
/// Whether elements of the two may share memory: one tensor, or parameters that a launch may pass
/// as one view.
bool tensors_may_meet(const Value *a, const Value *b);
LLVMValueRef memory_load(Emit *e, int id, LLVMTypeRef type, LLVMValueRef at, unsigned alignment);
void memory_store(Emit *e, int id, LLVMValueRef x, LLVMValueRef at, unsigned alignment);
/// Stores past the caches. x is a vector of `bytes` bytes, written in aligned parts.
void memory_stream(Emit *e, int id, LLVMValueRef x, LLVMValueRef at, int bytes, int part);
/// Loads a vector. Dead lanes are `otherwise` (NULL: any value).
LLVMValueRef memory_load_masked(Emit *e, int id, LLVMTypeRef type, LLVMValueRef at,
                                unsigned alignment, LLVMValueRef mask, LLVMValueRef otherwise);
void memory_store_masked(Emit *e, int id, LLVMValueRef x, LLVMValueRef at, unsigned alignment,
                         LLVMValueRef mask);
/// Gathers. `at` is a vector of pointers to elem.
LLVMValueRef memory_gather(Emit *e, int id, LLVMTypeRef elem, LLVMValueRef at, LLVMValueRef mask,
                           LLVMValueRef otherwise);
void memory_scatter(Emit *e, int id, LLVMValueRef x, LLVMValueRef at, LLVMValueRef mask);
/// The same for lanes that are `apart` bytes from each other, from `first` on. mask NULL: all lanes
/// are live.
LLVMValueRef memory_gather_apart(Emit *e, int id, LLVMTypeRef elem, int lanes, LLVMValueRef first,
                                 LLVMValueRef apart, LLVMValueRef mask, LLVMValueRef otherwise);
void memory_scatter_apart(Emit *e, int id, LLVMValueRef x, LLVMValueRef first, LLVMValueRef apart,
                          LLVMValueRef mask);

/* ---- access.c ------------------------------------------------------------------------------ */

/// The scalar parts of a subscript, computed once at the op's position.
typedef struct Prepared {
    const Op *op;
    Access a;
    const TensorRef *tensor;
    LLVMValueRef offset;       // in elements, of all AT and of lane 0 of all AXIS
    LLVMValueRef at[MAX_RANK]; // per dimension: AT coordinate or AXIS base; NULL for PICK
    LLVMValueRef lo[MAX_RANK]; // AXIS: live lanes are lo <= j < hi; NULL: from 0 on
    LLVMValueRef hi[MAX_RANK]; // AXIS: NULL: up to size
    LLVMValueRef live;         // i1: the AT coordinates lie inside; NULL: always
    int inside[MAX_RANK];      // facts that `bounds` proved
} Prepared;

void prepare_access(Emit *e, const Op *op);
const Prepared *prepared_of(Emit *e, const Op *op);
/// The addresses of one vector's lanes: element offset + lane * step, or `offsets` if the lanes
/// have no common step. apart: the step as a value, for all steps but 0 and 1. live: an i1, a
/// vector of them, or NULL for all lanes.
typedef struct Lanes {
    LLVMValueRef offset, offsets, apart, live;
    int64_t step;
} Lanes;
Lanes access_lanes(Emit *e, const Prepared *p, const Place *at);
/// Stores x at an offset, if `live` is NULL or true.
typedef void LaneStore(Emit *e, const void *arg, LLVMValueRef offset, LLVMValueRef live,
                       LLVMValueRef x);
/// Stores the lanes of x one after the other.
void store_each_lane(Emit *e, const Lanes *l, int lanes, LLVMValueRef x, LaneStore *store,
                     const void *arg);
/// Compares from + lane < n for each lane as unsigned 32-bit numbers. n is clamped to 0 and to the
/// largest block, which keeps the order.
enum { BLOCK_REACH = INT32_MAX / 2 };
LLVMValueRef lanes_below(Emit *e, LLVMValueRef from, LLVMValueRef n, int lanes);
/// Returns the coordinate in dimension d: a scalar or a vector.
LLVMValueRef access_coordinate(Emit *e, const Prepared *p, int d, const Place *at);
/// Returns the mask operand at a place of the access's block.
LLVMValueRef access_mask(Emit *e, const Prepared *p, const Place *at);
/// Returns an i1: the lanes are adjacent in memory. *first is the offset of lane 0.
LLVMValueRef lanes_beside(Emit *e, const Lanes *l, int lanes, LLVMValueRef *first);
/// Returns the axis along which coordinates of the contiguous dimension are picked, or -1. Its
/// lanes may be adjacent.
int picked_axis(const Op *op);
LLVMValueRef access_offsets(Emit *e, const Lanes *l, int lanes);
LLVMValueRef emit_load(Emit *e, const Op *op, const Place *p);
LLVMValueRef emit_live(Emit *e, const Op *op, const Place *p);
void emit_store(Emit *e, const Op *op, const Place *p, LLVMValueRef x);
/// Returns the distance in memory of neighbouring lanes of the access's block along an axis, in
/// elements, or DYNAMIC if it varies or only run time knows it.
int64_t access_stride(const Op *op, int axis);

/* ---- nibbles.c: tensors of i4 and u4, two a byte -------------------------------------------- */

LLVMValueRef nibbles_load(Emit *e, const TensorRef *t, const Lanes *l, int lanes, Elem elem,
                          LLVMValueRef pad);
void nibbles_store(Emit *e, const TensorRef *t, const Lanes *l, int lanes, LLVMValueRef x);

/* ---- atomic.c ------------------------------------------------------------------------------ */

/// Updates one element. Returns the old value.
LLVMValueRef emit_atomic(Emit *e, const Op *op, const Place *p);
/// The same, but stores the old value to the result's buffer if one exists.
void atomic_element(Emit *e, Op *op, const Place *p);

/* ---- effects.c ----------------------------------------------------------------------------- */

/// The functions of tg_env, in order.
enum {
    ENV_PARALLEL_FOR,
    ENV_WORKSPACE,
    ENV_ARENA,
    ENV_FAIL,
    ENV_PRINT,
    ENV_USER, // not a function
    ENV_DISPATCH,
    ENV_TENSORMAP,
    ENV_COMM, // not a function: a tg_comm_calls
    ENV_COUNTER,
    ENV_WORKSPACE_LIMIT,
    ENV_MARK,
    ENV_FIELDS
};
LLVMValueRef env_call(Emit *e, int index, int n, LLVMValueRef *args);
/// Returns n * 8 bytes of the function's stack frame.
LLVMValueRef stack_slots(Emit *e, int n);
/// Builds the tg_site of a place that can fail or print, as data of the module.
LLVMValueRef make_site(Emit *e, const Op *op, int kind, const char *text, const char *types,
                       int n_indices);
/// Fills in dims and dense strides of the result's dimensions from `first` on. Their extents are
/// the op's last operands. Returns the bytes.
LLVMValueRef dense_tensor(Emit *e, const Op *op, TensorRef *t, int first);
/// Returns from the function with an out-of-memory status if p is null.
void fail_if_null(Emit *e, LLVMValueRef p);
/// Returns `status` from the function unless it is 0.
void return_if_failed(Emit *e, LLVMValueRef status);
/// --check: fails if a lane's valid coordinate lies outside the tensor.
void check_access(Emit *e, const Prepared *p, const Place *at);
/// --check: fails if a scalar is divided by 0.
void check_division(Emit *e, const Op *op);
void assert_lanes(Emit *e, Op *op, const Place *p);

/* ---- lazy_block.c --------------------------------------------------------------------------- */

bool op_is_lazy(const Op *op);
/// Whether a reshape only adds or drops axes of extent 1, so that coordinates map one to one.
bool reshape_is_trivial(const Op *op);
LLVMValueRef emit_lazy(Emit *e, Op *op, const Place *p);

/* ---- square_reads.c ------------------------------------------------------------------------- */

/// Computes emit_vec(v, p) by transposing, and memoises the vectors of the tile's other rows.
/// Returns NULL if the tile is no square or memory is not contiguous along its rows.
LLVMValueRef emit_square(Emit *e, Value *v, const Place *p);
/// Returns the distance in memory of neighbouring elements of v along an axis, if v is read from
/// memory; DYNAMIC if it varies, -1 if v is computed.
int64_t memory_stride(Emit *e, const Value *v, int axis);

/* ---- plan.c -------------------------------------------------------------------------------- */

/// Decides for a region tree which lazy blocks get buffers, and which loops keep their carried
/// blocks in registers.
void plan_function(Emit *e, Region *body);
bool plan_is_cut(const Emit *e, const Value *v);
bool plan_is_register_loop(const Emit *e, const Op *loop);
/// Whether a register loop is nested in another one, as part of its body.
bool plan_is_inner_loop(const Emit *e, const Op *loop);
bool plan_in_register_loop(const Emit *e, const Op *op);
/// Returns the work of computing one vector of v, in instructions. It guides unroll factors.
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
    Value *value; // BUFFER: the written value
    Buffer *out;  // BUFFER: the destination
    bool keep;    // BUFFER: written even if only this nest uses it; `value` is not bound to it
    LLVMValueRef stream; // STORE: i1, streaming store; NULL: never (streaming.c)
    int part;            // STORE: bytes of a part
} Root;

enum { MAX_PLACES = 16 };

/// A tile with as many rows as a vector has lanes, one vector each. Memory that is contiguous along
/// the rows is read along them and transposed in registers (square_reads.c).
typedef struct Square {
    int n;                         // 0: the current tile is no square
    LLVMValueRef rows[MAX_PLACES]; // coordinates
} Square;

/// One axis of a nest's iteration space in the order of the loops.
typedef struct NestAxis {
    int axis;
    int unit;     // coordinates in a place: the lanes along the vector axis, else 1
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
    int cost;          // of computing all values that the roots need at one place
    int square;        // axis whose tiles are squares with the vectors, or -1
    int n_axes;
    NestAxis axes[MAX_RANK];
    struct Reduction **reductions; // one for each root, or NULL
    struct Full *full;             // liveness facts of its bodies, or NULL
} Nest;

/// Adds a root to the current nest. If they do not fit, the current nest is emitted first.
void nest_add(Emit *e, Root root);
/// Emits the current nest.
void nest_flush(Emit *e);
/// Whether v is a result of a gathered root; whether a gathered root writes the tensor.
bool nest_defines(const Emit *e, const Value *v);
bool nest_writes(const Emit *e, const Value *tensor);
/// Emits one tile: computes all values of the roots there, then writes them.
void nest_body(Emit *e, Nest *n);
/// Lists the places of the current tile, in the order of the axes. Returns their number.
int nest_places(Emit *e, Nest *n, Place *places);

/* ---- code_notes.c: for `explain` and `profile` ---------------------------------------------- */

/// Adds a line about the code of op. Does nothing if no notes are requested.
void note(Emit *e, const Op *op, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
/// Tells a profile that the code of op, which the text describes, begins here. Does nothing if no
/// marks are requested.
void code_mark(Emit *e, const Op *op, const char *text);
/// Adds the note and the mark of a nest.
void code_note_nest(Emit *e, const Nest *n);

/* ---- shape.c: axis, lanes and tiles of a nest ---------------------------------------------- */

const Type *root_space(const Root *r);
void nest_shape(Emit *e, Nest *n);

/* ---- nest_reads.c --------------------------------------------------------------------------- */

/// Visits every value that emitting r evaluates, once for each axis by which it is reached. `axis`
/// is the value's axis that runs along `axis` of r's space, or -1 if the value does not vary with
/// it. identity: the value is used at the same place as r.
typedef void ReachVisit(void *arg, Value *v, int axis, bool identity);
void walk_nest_reads(Emit *e, const Root *r, int axis, ReachVisit *visit, void *arg);

/* ---- unmasked.c ----------------------------------------------------------------------------- */

/// Returns the masks of a nest, after its axes are settled, or NULL if it has none.
struct Full *unmasked_survey(Emit *e, const Nest *n);
/// Returns the masks of a register loop's body, after its ops are prepared, or NULL if it has none.
struct Full *unmasked_body(Emit *e, const Region *r);
/// Returns an i1: no lane is masked.
LLVMValueRef unmasked_everywhere(Emit *e, const struct Full *f);
/// Returns the coordinate along the vectors (axis `level`) below which no mask is needed, for the
/// current places of the outer levels: a number of whole tiles.
LLVMValueRef unmasked_bound(Emit *e, const Nest *n, int level);
/// Returns the coordinate from which on whole tiles are dead in every masked access.
LLVMValueRef unmasked_end(Emit *e, const Nest *n, int level);
/// Returns the end of the last whole vector with an effect: nothing is written beyond.
LLVMValueRef unmasked_written(Emit *e, const Nest *n, int level);
/// Whether the current body has no dead lanes at the coordinate `at`. key: a Prepared access, of
/// which d is the dimension (-1: those of kind DIM_AT), or a comparison.
bool unmasked_covers(const Emit *e, const void *key, int d, LLVMValueRef at);
/// The same for a body that has only dead lanes.
bool unmasked_kills(const Emit *e, const void *key, int d, LLVMValueRef at);
/// Returns n if op is iota < n, the form of `valid`; else NULL.
const Value *unmasked_below(const Op *op);

/* ---- streaming.c ---------------------------------------------------------------------------- */

/// Prefetches a vector loaded along an axis of the access's block, from `at` on.
void streaming_prefetch(Emit *e, const Prepared *p, int axis, int lanes, LLVMValueRef at,
                        int64_t bytes);
/// Prefetches the addresses that a short body recorded, if it streams.
void streaming_wanted(Emit *e);
/// Decides whether the stores of the loop body at this level go past the caches.
void streaming_decide(Emit *e, Nest *n, int level);
/// Ends a task: makes streaming stores visible to all.
void streaming_fence(Emit *e);
/// The same before other ranks are notified of written data.
void streaming_settle(Emit *e);

/* ---- reduce.c ------------------------------------------------------------------------------ */

/// Emits the loops over the reduced axis, level `level` of the nest, and their contents.
void reduce_level(Emit *e, Nest *n, int level);
/// Accumulates the tile's places.
void reduce_step(Emit *e, Nest *n, struct Reduction *r, int n_places, const Place *places);

/* ---- register_loop.c ------------------------------------------------------------------------ */

/// Emits a register loop for these places and memoises its results there.
void carried_loop(Emit *e, Op *loop, int n, const Place *places);

/* ---- lowerings ----------------------------------------------------------------------------- */

/// Emits a scalar op, or the scalar parts of a lazy block.
void emit_simple(Emit *e, Op *op);
typedef void Lower(Emit *e, Op *op);
Lower lower_for, lower_while, lower_if, lower_concat;          // flow.c
Lower lower_print, lower_assert, lower_require, lower_scratch; // effects.c
Lower lower_workspace_limit, lower_rank, lower_comm_launch, lower_comm_fence, lower_comm_gather,
    lower_comm_scatter, lower_comm_signals, lower_comm_control, lower_signal_wait, lower_signal_set,
    lower_sym_scratch;            // comm.c
Lower lower_launch;               // compile.c
Lower lower_dispatch, lower_desc; // dispatch.c, tensor_map.c

#endif
