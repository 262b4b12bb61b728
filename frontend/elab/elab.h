// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The internals of the elaborator, shared by frontend/elab/ and frontend/builtins/ only.
//
// Elaboration is one walk over the tree of one kernel for one Inst: it checks types and emits tile
// IR along the way. A Val is the meaning of an expression. A mistake is reported once, at its
// place, and yields a Val of kind V_ERROR. Every function accepts errors and silently returns
// errors, so callers need no checks. Functions with a Value * result return NULL after an error.
#ifndef FRONTEND_ELAB_ELAB_H
#define FRONTEND_ELAB_ELAB_H

#include "frontend/builtins/builtins.h"
#include "frontend/program.h"
#include "lang/diag.h"

typedef struct Scope Scope;
typedef struct Binding Binding;
typedef struct Kernel Kernel;

/* ---- values of elaboration ----------------------------------------------------------------- */

typedef enum ValKind {
    V_ERROR,  // the error was reported
    V_ABSENT, // an optional tensor that is null, or an omitted argument
    V_VOID,   // the result of a call without one
    V_CONST,  // a value computed from literals, const parameters and specialised dims: it has no
              // element type yet and adapts to the other operand
    V_CHOICE, // `c ? 1 : 0` of literals with an unknown c: adapts like a literal
    V_IR,     // a typed scalar or block
    V_RANGE,  // bound by `in ... by`; only index(), valid(), subscripts and + - * take it
    V_TENSOR,
    V_TUPLE,
    V_FN,   // a fn, a kernel or a builtin, as an argument or a callee
    V_ELEM, // an element type: f32, or a type parameter
    V_WORD, // a string, or a word of an option such as `precision = tf32`
} ValKind;

typedef enum ConstKind { CK_INT, CK_FLOAT, CK_BOOL } ConstKind;

/// Lane j is at position base + j * mul and is live if j < count. start and lo belong to the loop
/// that made the range, before any arithmetic: the range's ordinal is (start - lo) / size.
typedef struct Range {
    Value *base, *count, *start, *lo; // i64 scalars
    int64_t size, mul;
} Range;

typedef struct Tensor Tensor;

typedef struct Val {
    ValKind kind;
    union {
        struct {
            ConstKind type;
            bool wide; // INT: i is a u64 above INT64_MAX
            union {
                int64_t i; // INT, BOOL
                double f;
            };
        } c;
        struct {
            Value *cond;
            const struct Val *yes, *no; // CONST or CHOICE
        } choice;
        struct {
            Value *v;
            Value *valid; // bool block of v's shape: the lanes that are valid positions; NULL: all.
                          // Only for blocks of i32 and i64
        } ir;
        const Range *range;
        const Tensor *tensor;
        struct {
            int n;
            const struct Val *at;
        } tuple;
        struct {
            const FnDef *def; // or NULL:
            const Builtin *builtin;
        } fn;
        Elem elem;
        const char *word;
    };
} Val;

/// One dimension as written in the tensor's type. It covers `axes` axes of the IR tensor from
/// `first` on: 1, or more for a pack that could not be merged. Its extent is their product.
typedef struct TensorDim {
    int first, axes;
    bool pack;
    Val extent; // CONST or i64
} TensorDim;

struct Tensor {
    const char *name;
    Value *v;
    Elem elem;
    int n_dims;
    TensorDim dims[MAX_RANK];
    ParamUse *use; // records reads and writes, or NULL (scratch)
    bool sym;      // symmetric: dims[0] is the rank
    Value *shard;  // of a symmetric tensor: the rank of the shard; dims then describe the shard
};

static inline Val val_error(void) {
    return (Val){.kind = V_ERROR};
}
static inline Val val_absent(void) {
    return (Val){.kind = V_ABSENT};
}
static inline Val val_void(void) {
    return (Val){.kind = V_VOID};
}
static inline Val val_int(int64_t i) {
    return (Val){.kind = V_CONST, .c = {.type = CK_INT, .i = i}};
}
static inline Val val_bool(bool b) {
    return (Val){.kind = V_CONST, .c = {.type = CK_BOOL, .i = b}};
}
static inline Val val_float(double f) {
    return (Val){.kind = V_CONST, .c = {.type = CK_FLOAT, .f = f}};
}
static inline Val val_elem(Elem e) {
    return (Val){.kind = V_ELEM, .elem = e};
}
static inline Val val_word(const char *w) {
    return (Val){.kind = V_WORD, .word = w};
}
static inline Val val_range(const Range *r) {
    return (Val){.kind = V_RANGE, .range = r};
}
static inline Val val_tensor(const Tensor *t) {
    return (Val){.kind = V_TENSOR, .tensor = t};
}
/// Wraps an IR value; NULL gives V_ERROR.
static inline Val val_ir(Value *v) {
    return v ? (Val){.kind = V_IR, .ir = {.v = v}} : val_error();
}
/// Wraps an IR value with its validity, which is dropped unless v is an i32 or i64 block.
Val val_ir_valid(Value *v, Value *valid);
Val val_tuple(Elab *e, int n, const Val *at); // copies `at`
static inline bool val_is(Val v, ValKind k) {
    return v.kind == k;
}
/// Describes a value for messages: "f32<64, 32>", "an integer constant", "a range", "tensor `a`".
const char *val_text(Elab *e, Val v);
/// Prints the value of a V_CONST in source form: "64", "2.0", "true".
const char *val_const_text(Elab *e, Val v);

/* ---- state --------------------------------------------------------------------------------- */

enum { MAX_CALL_DEPTH = 64, MAX_DEPTH = 1000, MAX_LANES = 1 << 28 };
// The limit on steps of one elaboration, far above the need of large kernels. The compiler's time
// and memory are proportional to the steps.
enum { MAX_WORK = 1000000 };

/// A fn that is being inlined. The chain of frames explains errors inside it.
typedef struct Frame {
    const FnDef *def;
    Loc call;
    struct Frame *outer;
    int depth;
} Frame;

/// A placeholder for present(x) until the kernel is complete (elab_present.c).
typedef struct Present {
    Op *stand_in;
    Value *x;
    Loc loc; // in the user's program, even for a call in the library
} Present;

struct Elab {
    Ctx *ctx;
    Ir *ir;
    const Program *program;
    Builder b; // the insertion point; b.loc is the statement or call being elaborated
    Scope *scope;
    Frame *frame;
    Kernel *kernel; // the current kernel, or NULL (library fns)
    Op *module;
    bool in_program; // inside a `parallel`
    int declared;    // number of names bound so far
    int loop_depth, n_called;
    PtrMap callees;      // text of the known facts of a kernel's arguments -> Kernel
    PtrMap constants;    // Item -> state of a constant without a value
    int depth;           // total depth of the nested trees being walked; it bounds the C stack
    int errors_before;   // at the start of this elaboration
    Binding *done;       // the flag that `return` sets if an enclosing choice has several ways out,
                         // or NULL
    bool check;          // keep asserts
    uint64_t first_step; // at the start of this elaboration
    PtrMap counts;       // index(m), valid(m) -> the count of m
    VEC(Present) presents;
    PtrMap presences; // present(x) -> x
    Loc value_at;     // the expression whose value is being stored, for corrections; or nowhere
};

/// Reports an error at loc, or, in a library fn, at the user's call that led there, with the call
/// chain. Returns V_ERROR. Call diag_hint after it.
#define el_fail(e, loc, ...) (diag((e)->ctx, el_loc((e), (loc)), __VA_ARGS__), el_chain(e))
Loc el_loc(const Elab *e, Loc loc);
Val el_chain(Elab *e); // adds the notes; returns V_ERROR
/// Enters a tree of that many levels. The caller leaves it by subtracting them from e->depth.
/// False: too deep.
bool el_deeper(Elab *e, Loc loc, int levels);
/// Reports an error and gives up if `steps` exceed the limit for an elaboration.
void el_work(Elab *e, Loc loc, uint64_t steps);
/// Adds n to the steps, then checks all steps since the start of the elaboration.
void el_steps(Elab *e, Loc loc, int n);
static inline bool el_failed(const Elab *e) {
    return diag_errors(e->ctx) > e->errors_before;
}

/* ---- constants and types (elab_value.c) ------------------------------------------------------ */

/// Returns the type of a V_IR, or NULL.
static inline const Type *val_type(Val v) {
    return v.kind == V_IR ? v.ir.v->type : NULL;
}
static inline bool val_is_scalar(Val v) {
    return v.kind == V_IR && v.ir.v->type->rank == 0;
}
static inline bool val_is_block(Val v) {
    return v.kind == V_IR && v.ir.v->type->rank > 0;
}
/// Prints a type in source form: "f32<64, 32>".
const char *type_words(Elab *e, const Type *t);
/// Whether a constant can be a value of elem; reports an error if not.
bool el_const_adapts(Elab *e, Loc loc, Val v, Elem elem);
/// Builds the constant in every lane of t. The constant must adapt to t, or the caller means a
/// cast.
Value *el_const_value(Elab *e, Val v, const Type *t);
/// Turns a CONST or CHOICE into a typed value of that element; V_ERROR if it does not fit.
Val el_adapt(Elab *e, Loc loc, Val v, Elem elem);
static inline bool val_adapts(Val v) {
    return v.kind == V_CONST || v.kind == V_CHOICE;
}
/// Whether an element converts to another implicitly.
bool el_widens(Elem from, Elem to, bool scalar);
/// Returns a scalar or block of any element, or a constant. Reports other values ("expected a
/// value, found a range; write index(m)") and returns V_ERROR for them.
Val el_value(Elab *e, Loc loc, Val v);
/// Returns the element of a literal without context: i64, f32, bool.
Elem el_default_elem(Val v);
/// Returns a typed value: literals take `elem`, or their default if elem is EL_COUNT.
Value *el_typed(Elab *e, Loc loc, Val v, Elem elem);
/// Converts implicitly to a scalar or block type: literals adapt, integers widen, scalars
/// broadcast. Any other conversion is an error that suggests `as`. `what` names the place for
/// messages: "argument `x`". The second form keeps validity.
Value *el_convert(Elab *e, Loc loc, Val v, const Type *to, const char *what);
Val el_convert_val(Elab *e, Loc loc, Val v, const Type *to, const char *what);
/// Converts any integer scalar to an i64 scalar.
Value *el_index(Elab *e, Loc loc, Val v, const char *what);
/// Returns an integer that must be known at compile time, and specialises the dims in it. False
/// after an error.
bool el_const_int(Elab *e, Loc loc, Val v, const char *what, int64_t *out);
/// Like el_const_int for extents, with the added bounds 1 and 2^31.
bool el_extent(Elab *e, Loc loc, Val v, const char *what, int64_t *out);
bool el_const_bool(Elab *e, Loc loc, Val v, const char *what, bool *out);
/// Computes a host scalar for the current arguments, if it consists of known dims. Specialises
/// nothing (for size ladders and defaults).
bool el_known_int(Elab *e, Val v, int64_t *out);
/// Reads an axis argument; a negative axis counts from the end. False after an error.
bool el_axis(Elab *e, Loc loc, Val v, int rank, int64_t *out);

/// Gives all n operands one element, by the rules of mixed arithmetic. They must be V_IR or
/// V_CONST. If all are constants, they stay constants. `what` is the operator. False after an
/// error.
bool el_unify_elems(Elab *e, Loc loc, const char *what, int n, Val *v);
/// Broadcasts scalars and blocks (of one rank, extents equal or 1) with their validity to one
/// shape. V_CONST operands stay. False after an error.
bool el_unify_shapes(Elab *e, Loc loc, const char *what, int n, Val *v);
/// Repeats v to the shape of `to`, with v's element. v must broadcast to it.
Val el_broadcast(Elab *e, Loc loc, Val v, const Type *to, const char *what);
/// Joins the `valid` of several values of one shape by `and`. NULL: all lanes are valid.
Value *el_join_valid(Elab *e, int n, const Val *v);
/// Returns valid(v) as a block or scalar.
Value *el_valid_of(Elab *e, Val v);

/* ---- arithmetic (elab_arith.c) ------------------------------------------------------------- */

/// Applies an elementwise op as an operator: it unifies and broadcasts operands, and folds
/// constants. Integer arithmetic keeps validity. `what` is the spelling in messages.
Val el_elementwise(Elab *e, Loc loc, OpCode op, const char *what, int n, const Val *args);
Val el_binary(Elab *e, Loc loc, BinaryOp op, Val a, Val b);
Val el_unary(Elab *e, Loc loc, UnaryOp op, Val x);
Val el_select(Elab *e, Loc loc, Val cond, Val yes, Val no);
Val el_cast(Elab *e, Loc loc, Val x, Elem to);

/* ---- expressions and calls (elab_expr.c, elab_fn.c) ---------------------------------------- */

Val el_expr(Elab *e, const Expr *x);
/// Elaborates an expression that may be a call with an effect.
Val el_effect_expr(Elab *e, const Expr *x);
Val el_call_expr(Elab *e, const Expr *x, bool effect_ok);
/// Turns an optional tensor into a condition: true if the tensor is present.
Val el_condition(Elab *e, Val v);
Val el_name(Elab *e, const char *name, Loc loc);
/// Inlines f with one argument for each parameter.
Val el_inline(Elab *e, Loc loc, const FnDef *f, int n, const Val *args);
Elem el_constraint_default(const Generic *g);
Elem el_bind_elem(Elab *e, const FnDef *f, Name name, Elem given, Loc loc);
bool el_binds(Elab *e, const Expr *dim);
/// Calls a fn value (fn, or builtin that takes plain values) on values: f(a, b) of reductions.
Val el_call(Elab *e, Loc loc, Val fn, int n, const Val *args);
/// Returns the element of a name (f32, or T), or EL_COUNT.
Elem el_elem_name(Elab *e, const char *name);
/// Like el_elem_name, but reports a name that is not an element.
Elem el_elem(Elab *e, Name name);
/// Returns the op of a V_FN that names a monoid (add mul min max and or xor), else OP_COUNT.
OpCode el_monoid(Val fn);

/// Moves the builder into a region. The caller restores the returned builder with el_leave.
static inline Builder el_enter(Elab *e, Region *r) {
    Builder old = e->b;
    e->b.region = r;
    e->b.before = NULL;
    return old;
}
static inline void el_leave(Elab *e, Builder old) {
    Loc loc = e->b.loc;
    e->b = old;
    e->b.loc = loc;
}

/// Appends the IR values of a scalar, block or tuple to `out`, in order. with_valid: each i32 and
/// i64 block is followed by its validity. False after an error.
typedef VEC(Value *) Values;
bool el_flatten(Elab *e, Loc loc, Val v, bool with_valid, Values *out);
/// The inverse of el_flatten: builds a Val of the structure of `like` from the values at *next, and
/// advances *next.
Val el_unflatten(Elab *e, Val like, bool with_valid, Value *const **next);
/// Elaborates f on a region's arguments and ends the region in a yield: the region (a..., b...) of
/// reduce, scan and combine on scalars of the elements of `parts`. Checks that f returns n values
/// of those elements. False after an error.
bool el_monoid_region(Elab *e, Loc loc, Val f, int n, const Elem *parts, Region *r);

/* ---- ranges (elab_range.c) ----------------------------------------------------------------- */

/// Builds range(lo, hi, size). lo and hi are i64 scalars; count = clamp(hi - lo, 0, size).
Val el_range(Elab *e, Value *lo, Value *hi, int64_t size);
/// Builds cover(n): one range over n (point 10 of the language).
Val el_cover(Elab *e, Loc loc, Val n);
/// Builds the range at `start` of a loop from lo to hi by size.
Val el_loop_range(Elab *e, Value *start, Value *lo, Value *hi, int64_t size);
Val el_range_arith(Elab *e, Loc loc, BinaryOp op, Val a, Val b);
Val el_range_member(Elab *e, Loc loc, const Range *r, const char *name);
Val el_range_index(Elab *e, const Range *r);    // index(m): i64<size> with validity
Value *el_range_valid(Elab *e, const Range *r); // valid(m): bool<size>

/* ---- past the ends of ranges (elab_present.c) ----------------------------------------------- */

/// Returns a bool block of the shape of x: true for each element that does not lie past the end of
/// a range.
Value *el_present(Elab *e, Value *x);
/// Replaces all placeholders of present() by masks. The kernel's code must be complete.
void el_settle_presents(Elab *e);

/* ---- subscripts (elab_subscript.c) ---------------------------------------------------------- */

/// A subscripted tensor: the data for load, store, atomic and combine.
typedef struct Place {
    const Tensor *tensor;
    int n_subs;
    SubDim subs[MAX_RANK];
    int n_operands;
    Value *operands[2 * MAX_RANK]; // the operands of the subscripts
    Value *mask;                   // or NULL
    bool has_picks;
    const Type *type;  // of the block as written, with axes of None; rank 0: one element
    const Type *plain; // the type of the IR op, without axes of None
    Val pad;           // V_ABSENT: not given
    Caching cache;
} Place;
/// Returns the place of an expression `t[...]`, and reports other expressions. False after an
/// error.
bool el_place(Elab *e, const Expr *x, const char *what, Place *out);
bool el_place_of(Elab *e, const Expr *x, Val base, const char *what, Place *out);
/// Returns `a[r]` of a symmetric tensor: the shard of rank r, a tensor to subscript or pass on.
Val el_shard(Elab *e, const Expr *x, const Tensor *t);
Val el_load(Elab *e, Loc loc, const Place *p);
void el_store(Elab *e, Loc loc, const Place *p, Val v);
/// Builds the `live` op of a place, in the shape of p->type: true for lanes that exist. NULL for
/// one element.
Value *el_live(Elab *e, const Place *p);
Val el_block_subscript(Elab *e, const Expr *x, Val base);

/* ---- scopes (elab_scope.c) ----------------------------------------------------------------- */

typedef enum BindKind {
    BIND_LET,
    BIND_VAR,
    BIND_PARAM,
    BIND_TYPE,
    BIND_DIM,
    BIND_TUNE,
    BIND_INDEX
} BindKind;

struct Binding {
    const char *name;
    BindKind kind;
    Loc loc;
    Val val;
    int order; // of declaration
    Binding *next;
};

/// A scope of names; scopes are searched from the inside out. `outer` is NULL at the top of a fn: a
/// fn sees only its own names and the program's.
struct Scope {
    Binding *first;
    Scope *outer;
    int n;
    PtrMap named; // name -> its last binding, if the scope has more than a few
};
void scope_push(Elab *e);
void scope_pop(Elab *e);
Binding *scope_bind(Elab *e, Name name, BindKind kind, Val v);
Binding *scope_find(const Elab *e, const char *name); // NULL: not bound

/* ---- for editors (elab_note.c) ------------------------------------------------------------- */

/// Keeps the type of an expression, or with x NULL of the name at loc, in program->names, which
/// must exist.
void el_note_type(Elab *e, Loc loc, const Expr *x, Val v);
/// Offers, after a hint, to convert the expression at loc; in a fn, which has other calls, and
/// nowhere, nothing.
void el_offer_cast(Elab *e, Loc loc, Elem elem);
/// Offers, after a hint, `function(argument)` for the text at loc.
void el_offer_call(Elab *e, Loc loc, const char *function, Loc argument);

/* ---- constants (elab_const.c) -------------------------------------------------------------- */

/// Returns the value of a top-level constant.
Val el_constant(Elab *e, const Item *item);
/// Makes an elaborator for constant expressions. Ops that it emits go to a module that is dropped.
Elab elab_constant(Ctx *ctx, const Program *p);
/// Computes an integer or a truth value if it is known. Never reports errors.
bool el_evaluate(Elab *e, const Expr *x, int64_t *out);

/* ---- statements and loops (elab_stmt.c, elab_loop.c) --------------------------------------- */

void el_block(Elab *e, const Stmt *block);
void el_stmts(Elab *e, Stmt *const *stmts, int n);
/// Returns the new value `v` of a variable, converted to the types of `old`; `old` itself after an
/// error.
Val el_assign(Elab *e, Loc loc, Val old, Val v, const char *name);

/// Finds the variables from outside that `body` assigns, in order of declaration.
typedef VEC(Binding *) Bindings;
void el_assigned(Elab *e, const Stmt *body, Bindings *out);
/// Appends the IR values of variables, with validity; the second function sets variables to such
/// values.
void el_save(Elab *e, const Bindings *vars, Values *out);
void el_restore(Elab *e, const Bindings *vars, Value *const *values);
const Type **el_types(Elab *e, const Values *values);
/// Elaborates a condition to an i1 scalar; NULL after an error.
Value *el_loop_condition(Elab *e, const Expr *x);
void el_for(Elab *e, const Stmt *s);
void el_while(Elab *e, const Stmt *s);
void el_parallel(Elab *e, const Stmt *s);

/// Reports races in a phase: stores to one element that several programs, or one program on several
/// ranks, are certain to make (elab_race.c).
void el_check_races(Elab *e, const Op *phase);

/* ---- several ranks (elab_comm.c) ----------------------------------------------------------- */

/// Whether the current kernel has symmetric parameters. If not, reports at loc that `what` needs
/// them.
bool el_has_ranks(Elab *e, Loc loc, const char *what);
Value *el_rank(const Elab *e);  // the own rank
Value *el_ranks(const Elab *e); // the number of ranks
Value *el_control(Elab *e);     // the control block
/// Whether a `dim` op has the same value on all ranks.
bool el_common_dim(const Elab *e, const Op *dim);
/// Whether the extent of a tensor's axis, or the value of a `dim` op, is the number of ranks.
bool el_axis_is_ranks(const Elab *e, const Value *tensor, int64_t axis);
bool el_dim_is_ranks(const Elab *e, const Op *dim);
/// Whether a choice or loop of host code may differ between ranks.
bool el_decided_by_rank(const Op *op);
/// Reports waits of the kernel that are certain never to end (elab_wait.c).
void el_check_waits(Elab *e, Op *kernel);
/// Makes the current kernel a collective launch: adds its begin, its end, and a barrier before each
/// phase that conflicts with the accesses of other ranks since the last barrier.
void el_collective(Elab *e, Op *kernel);

/* ---- kernels (elab_kernel.c) --------------------------------------------------------------- */

/// An elaborator with an empty module (elab_call.c).
Elab elab_create(Ir *ir, const Program *p);
/// Computes a `dim` op of the kernel's tensors, if it is known; `specialise` makes it a constant of
/// this instance.
bool el_known_dim(Elab *e, const Op *dim, bool specialise, int64_t *out);
/// Returns the extent of an axis of the IR tensor, read at the kernel's start.
Value *el_tensor_dim(Elab *e, const Tensor *t, int axis);
/// Checks that two extents are equal, now or at launch. False after reporting an error.
bool el_check_equal(Elab *e, Loc loc, const char *what, Val expected, Val found);
void el_scratch(Elab *e, const Stmt *s);
/// Elaborates a call of another kernel of the program.
Val el_call_kernel(Elab *e, Loc loc, const FnDef *f, const Val *args);
/// Returns a dim without a known value that v depends on, or NULL.
const char *el_unknown_dim(Elab *e, const Value *v);
/// Limits the code to values of a host scalar from least to n; a launch check refuses larger ones.
void el_require_range(Elab *e, Value *v, int64_t least, int64_t n);

#endif
