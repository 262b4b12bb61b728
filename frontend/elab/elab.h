// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The insides of the elaborator, shared by frontend/elab/ and frontend/builtins/ only.
//
// Elaboration is one walk over the tree of one kernel for one Inst: it checks types and emits tile
// IR as it goes. What an expression means is a Val. A mistake is reported once, where it is found,
// and becomes the Val of kind V_ERROR; everything takes errors and quietly gives errors, so no
// caller has to look. Functions that return a Value * return NULL after an error.
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
    V_ERROR,  // was reported
    V_ABSENT, // an optional tensor that is null, an argument that was left out
    V_VOID,   // what a call without result gives
    V_CONST,  // a literal or what was computed of literals, const parameters, specialised dims:
              // it has no element type yet and adapts to the other operand
    V_CHOICE, // `c ? 1 : 0` of literals where c is not known: adapts like a literal
    V_IR,     // a typed scalar or block
    V_RANGE,  // what `in ... by` binds; only index(), valid(), subscripts and + - * take it
    V_TENSOR,
    V_TUPLE,
    V_FN,   // a fn, a kernel or a builtin, as an argument or to be called
    V_ELEM, // an element type: f32, or a type parameter
    V_WORD, // a string, or a word of an option such as `precision = tf32`
} ValKind;

typedef enum ConstKind { CK_INT, CK_FLOAT, CK_BOOL } ConstKind;

/// Lane j stands at base + j * mul and is live while j < count. start and lo are those of the loop
/// that made the range, before any arithmetic: its ordinal is (start - lo) / size.
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
            Value *valid; // bool block of v's shape: which lanes are valid positions; NULL: all.
                          // Blocks of i32 and i64 only
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

/// One dimension as written in the tensor's type: `axes` axes of the IR tensor from `first` on
/// (1, or more for a pack that could not be merged). Its extent is their product.
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
    ParamUse *use; // where reads and writes are recorded, or NULL (scratch)
    bool sym;      // symmetric: dims[0] is the rank
    Value *shard;  // of a symmetric one: the rank whose shard this is; dims are those of the shard
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
/// NULL gives V_ERROR.
static inline Val val_ir(Value *v) {
    return v ? (Val){.kind = V_IR, .ir = {.v = v}} : val_error();
}
/// valid is dropped where v is no i32 or i64 block.
Val val_ir_valid(Value *v, Value *valid);
Val val_tuple(Elab *e, int n, const Val *at); // copies
static inline bool val_is(Val v, ValKind k) {
    return v.kind == k;
}
/// "f32<64, 32>", "an integer constant", "a range", "tensor `a`": for messages.
const char *val_text(Elab *e, Val v);
/// The value of a V_CONST alone, as the source writes it: "64", "2.0", "true".
const char *val_const_text(Elab *e, Val v);

/* ---- state --------------------------------------------------------------------------------- */

enum { MAX_CALL_DEPTH = 64, MAX_DEPTH = 1000, MAX_LANES = 1 << 28 };
// Steps of one elaboration, many times what large kernels take. The compiler's time and memory are
// in proportion.
enum { MAX_WORK = 1000000 };

/// A fn being inlined: the chain explains errors inside it.
typedef struct Frame {
    const FnDef *def;
    Loc call;
    struct Frame *outer;
    int depth;
} Frame;

/// Stands for present(x) until the kernel is complete (elab_present.c).
typedef struct Present {
    Op *stand_in;
    Value *x;
    Loc loc; // of the program, also where the library asks
} Present;

struct Elab {
    Ctx *ctx;
    Ir *ir;
    const Program *program;
    Builder b; // where ops go; b.loc is that of the statement or call at hand
    Scope *scope;
    Frame *frame;
    Kernel *kernel; // the one at hand, or NULL (library fns)
    Op *module;
    bool in_program; // inside a `parallel`
    int declared;    // names bound so far
    int loop_depth, n_called;
    PtrMap callees;      // what is known of a kernel's arguments, as a text -> Kernel
    PtrMap constants;    // Item -> what is known of one without a value
    int depth;           // of the trees being walked, one inside the other: it bounds the C stack
    int errors_before;   // this elaboration began
    Binding *done;       // set by `return` where a choice around it has several ways out, or NULL
    bool check;          // keep asserts
    uint64_t first_step; // when this elaboration began
    PtrMap counts;       // index(m), valid(m) -> the count of m
    VEC(Present) presents;
    PtrMap presences; // present(x) -> x
};

/// Reports an error at loc (in a library fn: at the call of the user that led there), with the
/// call chain; the value is V_ERROR. Add diag_hint after it.
#define el_fail(e, loc, ...) (diag((e)->ctx, el_loc((e), (loc)), __VA_ARGS__), el_chain(e))
Loc el_loc(const Elab *e, Loc loc);
Val el_chain(Elab *e); // adds the notes; V_ERROR
/// Enters a tree of that many levels; leave it by taking them off e->depth. False: too deep.
bool el_deeper(Elab *e, Loc loc, int levels);
/// Reports, and gives up, where `steps` are more than an elaboration may take.
void el_work(Elab *e, Loc loc, uint64_t steps);
/// Counts n steps; the same of all since the elaboration began.
void el_steps(Elab *e, Loc loc, int n);
static inline bool el_failed(const Elab *e) {
    return diag_errors(e->ctx) > e->errors_before;
}

/* ---- constants and types (elab_value.c) ------------------------------------------------------ */

/// The type of a V_IR, or NULL.
static inline const Type *val_type(Val v) {
    return v.kind == V_IR ? v.ir.v->type : NULL;
}
static inline bool val_is_scalar(Val v) {
    return v.kind == V_IR && v.ir.v->type->rank == 0;
}
static inline bool val_is_block(Val v) {
    return v.kind == V_IR && v.ir.v->type->rank > 0;
}
/// "f32<64, 32>".
const char *type_words(Elab *e, const Type *t);
/// Whether a constant can be a value of elem; reports where not.
bool el_const_adapts(Elab *e, Loc loc, Val v, Elem elem);
/// The constant in every lane of t; it must adapt, or be meant to be cast.
Value *el_const_value(Elab *e, Val v, const Type *t);
/// A CONST or CHOICE as a typed value of that element; V_ERROR where it does not fit.
Val el_adapt(Elab *e, Loc loc, Val v, Elem elem);
static inline bool val_adapts(Val v) {
    return v.kind == V_CONST || v.kind == V_CHOICE;
}
/// Whether an element becomes another without being asked.
bool el_widens(Elem from, Elem to, bool scalar);
/// A scalar or block of some element, also a constant. Reports others ("expected a value, found
/// a range; write index(m)") and gives V_ERROR for them.
Val el_value(Elab *e, Loc loc, Val v);
/// The element a literal takes where nothing else decides: i64, f32, bool.
Elem el_default_elem(Val v);
/// As a typed value: literals take `elem`, or their default where elem is EL_COUNT.
Value *el_typed(Elab *e, Loc loc, Val v, Elem elem);
/// Implicit conversion to a scalar or block type: literals adapt, integers widen, scalars
/// broadcast. Anything else is an error that suggests `as`. `what` names the place, for messages:
/// "argument `x`". The second form keeps validity.
Value *el_convert(Elab *e, Loc loc, Val v, const Type *to, const char *what);
Val el_convert_val(Elab *e, Loc loc, Val v, const Type *to, const char *what);
/// An i64 scalar of any integer scalar.
Value *el_index(Elab *e, Loc loc, Val v, const char *what);
/// An integer that must be known when compiling; dims in it are specialised. False after an error.
bool el_const_int(Elab *e, Loc loc, Val v, const char *what, int64_t *out);
/// Like el_const_int for extents: 1 to 2^31, too.
bool el_extent(Elab *e, Loc loc, Val v, const char *what, int64_t *out);
bool el_const_bool(Elab *e, Loc loc, Val v, const char *what, bool *out);
/// The value of a host scalar for the arguments at hand, if it is made of known dims; specialises
/// nothing (for size ladders and defaults).
bool el_known_int(Elab *e, Val v, int64_t *out);
/// An axis argument: negative counts from the end. False after an error.
bool el_axis(Elab *e, Loc loc, Val v, int rank, int64_t *out);

/// Gives all n operands one element, by the rules of mixed arithmetic. They must be V_IR or
/// V_CONST; constants stay constants where all are. False after an error. `what`: the operator.
bool el_unify_elems(Elab *e, Loc loc, const char *what, int n, Val *v);
/// Broadcasts blocks (of one rank, extents equal or 1) and scalars, with their validity, to one
/// shape. V_CONST operands stay. False after an error.
bool el_unify_shapes(Elab *e, Loc loc, const char *what, int n, Val *v);
/// v repeated to the shape of `to` (element kept); it must broadcast.
Val el_broadcast(Elab *e, Loc loc, Val v, const Type *to, const char *what);
/// The `valid` of several values joined by `and`; they have one shape. NULL: all valid.
Value *el_join_valid(Elab *e, int n, const Val *v);
/// valid(v) as a block or scalar that can be computed with.
Value *el_valid_of(Elab *e, Val v);

/* ---- arithmetic (elab_arith.c) ------------------------------------------------------------- */

/// An elementwise op as an operator: operands are unified, broadcast, constants folded, validity
/// kept by integer arithmetic. `what` is its spelling in messages.
Val el_elementwise(Elab *e, Loc loc, OpCode op, const char *what, int n, const Val *args);
Val el_binary(Elab *e, Loc loc, BinaryOp op, Val a, Val b);
Val el_unary(Elab *e, Loc loc, UnaryOp op, Val x);
Val el_select(Elab *e, Loc loc, Val cond, Val yes, Val no);
Val el_cast(Elab *e, Loc loc, Val x, Elem to);

/* ---- expressions and calls (elab_expr.c, elab_fn.c) ---------------------------------------- */

Val el_expr(Elab *e, const Expr *x);
/// An expression that may be the call of something with an effect.
Val el_effect_expr(Elab *e, const Expr *x);
Val el_call_expr(Elab *e, const Expr *x, bool effect_ok);
/// An optional tensor as a condition: whether it is there.
Val el_condition(Elab *e, Val v);
Val el_name(Elab *e, const char *name, Loc loc);
/// Inlines f on one argument a parameter.
Val el_inline(Elab *e, Loc loc, const FnDef *f, int n, const Val *args);
Elem el_constraint_default(const Generic *g);
Elem el_bind_elem(Elab *e, const FnDef *f, Name name, Elem given, Loc loc);
bool el_binds(Elab *e, const Expr *dim);
/// Calls a fn value (fn, or builtin taking plain values) on values: f(a, b) of reductions.
Val el_call(Elab *e, Loc loc, Val fn, int n, const Val *args);
/// The element that a name stands for (f32, or T), or EL_COUNT.
Elem el_elem_name(Elab *e, const char *name);
/// The same, reported where the name is no element.
Elem el_elem(Elab *e, Name name);
/// The op of a V_FN that names a monoid: add mul min max and or xor; else OP_COUNT.
OpCode el_monoid(Val fn);

/// Moves the builder into a region and back.
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

/// The IR values of a scalar, block or tuple, in order, appended to `out`; with_valid: each i32
/// and i64 block is followed by its validity. False after an error.
typedef VEC(Value *) Values;
bool el_flatten(Elab *e, Loc loc, Val v, bool with_valid, Values *out);
/// The inverse: a Val of the structure of `like` from values at *next, which advances.
Val el_unflatten(Elab *e, Val like, bool with_valid, Value *const **next);
/// Elaborates f on a region's arguments and ends it in a yield: the region (a..., b...) of reduce,
/// scan and combine on scalars of the elements of `parts`. Checks that f gives n values of those
/// elements back. False after an error.
bool el_monoid_region(Elab *e, Loc loc, Val f, int n, const Elem *parts, Region *r);

/* ---- ranges (elab_range.c) ----------------------------------------------------------------- */

/// range(lo, hi, size): lo and hi are i64 scalars, count = clamp(hi - lo, 0, size).
Val el_range(Elab *e, Value *lo, Value *hi, int64_t size);
/// cover(n): one range over n (point 10 of the language).
Val el_cover(Elab *e, Loc loc, Val n);
/// The range at `start` of a loop from lo to hi by size.
Val el_loop_range(Elab *e, Value *start, Value *lo, Value *hi, int64_t size);
Val el_range_arith(Elab *e, Loc loc, BinaryOp op, Val a, Val b);
Val el_range_member(Elab *e, Loc loc, const Range *r, const char *name);
Val el_range_index(Elab *e, const Range *r);    // index(m): i64<size> with validity
Value *el_range_valid(Elab *e, const Range *r); // valid(m): bool<size>

/* ---- past the ends of ranges (elab_present.c) ----------------------------------------------- */

/// bool block of the shape of x: which elements do not lie past the end of a range.
Value *el_present(Elab *e, Value *x);
/// Gives all of these their masks; the code is complete.
void el_settle_presents(Elab *e);

/* ---- subscripts (elab_subscript.c) ---------------------------------------------------------- */

/// A subscripted tensor: what load, store, atomic and combine need.
typedef struct Place {
    const Tensor *tensor;
    int n_subs;
    SubDim subs[MAX_RANK];
    int n_operands;
    Value *operands[2 * MAX_RANK]; // those of the subscripts
    Value *mask;                   // or NULL
    bool has_picks;
    const Type *type;  // of the block as written, axes of None included; rank 0: one element
    const Type *plain; // without them: the type that the IR op has
    Val pad;           // V_ABSENT: none was given
    const char *cache; // or NULL
} Place;
/// The place an expression `t[...]` names; reports others. False after an error.
bool el_place(Elab *e, const Expr *x, const char *what, Place *out);
bool el_place_of(Elab *e, const Expr *x, Val base, const char *what, Place *out);
/// `a[r]` of a symmetric tensor: the shard of rank r, a tensor to be subscripted or passed on.
Val el_shard(Elab *e, const Expr *x, const Tensor *t);
Val el_load(Elab *e, Loc loc, const Place *p);
void el_store(Elab *e, Loc loc, const Place *p, Val v);
/// The `live` op of a place: which lanes exist; in the shape of p->type. NULL for one element.
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

/// Names from the inside out; `outer` is NULL at a fn's own top: a fn sees only its own names and
/// the program's.
struct Scope {
    Binding *first;
    Scope *outer;
    int n;
    PtrMap named; // name -> its last binding, where there are more than a few
};
void scope_push(Elab *e);
void scope_pop(Elab *e);
Binding *scope_bind(Elab *e, Name name, BindKind kind, Val v);
Binding *scope_find(const Elab *e, const char *name); // NULL: none

/* ---- constants (elab_const.c) -------------------------------------------------------------- */

/// The value of a top-level constant.
Val el_constant(Elab *e, const Item *item);
/// An elaborator for constant expressions: stray ops go to a module that is dropped.
Elab elab_constant(Ctx *ctx, const Program *p);
/// The value of an integer or a truth value that is known. Reports nothing where it is not.
bool el_evaluate(Elab *e, const Expr *x, int64_t *out);

/* ---- statements and loops (elab_stmt.c, elab_loop.c) --------------------------------------- */

void el_block(Elab *e, const Stmt *block);
void el_stmts(Elab *e, Stmt *const *stmts, int n);
/// New value `v` of a variable that has the types of `old`; `old` itself after an error.
Val el_assign(Elab *e, Loc loc, Val old, Val v, const char *name);

/// The variables declared outside that `body` assigns, in order of declaration.
typedef VEC(Binding *) Bindings;
void el_assigned(Elab *e, const Stmt *body, Bindings *out);
/// The IR values of variables, with validity; and variables set to such values.
void el_save(Elab *e, const Bindings *vars, Values *out);
void el_restore(Elab *e, const Bindings *vars, Value *const *values);
const Type **el_types(Elab *e, const Values *values);
/// A condition as an i1 scalar, or NULL after an error.
Value *el_loop_condition(Elab *e, const Expr *x);
void el_for(Elab *e, const Stmt *s);
void el_while(Elab *e, const Stmt *s);
void el_parallel(Elab *e, const Stmt *s);

/// Reports stores of one phase that several programs, or the same program of several ranks,
/// certainly make to one element (elab_race.c).
void el_check_races(Elab *e, const Op *phase);

/* ---- several ranks (elab_comm.c) ----------------------------------------------------------- */

/// Whether the kernel at hand has symmetric parameters; reports at loc that `what` needs them.
bool el_has_ranks(Elab *e, Loc loc, const char *what);
Value *el_rank(const Elab *e);  // the own rank
Value *el_ranks(const Elab *e); // how many there are
Value *el_control(Elab *e);     // the control block
/// Whether all ranks have the same value of a `dim` op.
bool el_common_dim(const Elab *e, const Op *dim);
/// Whether an axis of a tensor, or what a `dim` op reads, is as long as there are ranks.
bool el_axis_is_ranks(const Elab *e, const Value *tensor, int64_t axis);
bool el_dim_is_ranks(const Elab *e, const Op *dim);
/// Whether ranks may differ in what a choice or loop of the host code does.
bool el_decided_by_rank(const Op *op);
/// Reports waits of the kernel that certainly do not end (elab_wait.c).
void el_check_waits(Elab *e, Op *kernel);
/// Makes the kernel at hand a collective launch: its begin, its end, and a barrier before each
/// phase that touches what other ranks touched since the last one.
void el_collective(Elab *e, Op *kernel);

/* ---- kernels (elab_kernel.c) --------------------------------------------------------------- */

/// An elaborator with an empty module (elab_call.c).
Elab elab_create(Ir *ir, const Program *p);
/// The value of a `dim` op of the kernel's tensors, if it is known; `specialise` makes it a
/// constant of this instance.
bool el_known_dim(Elab *e, const Op *dim, bool specialise, int64_t *out);
/// The extent of an axis of the IR tensor, read at the kernel's start.
Value *el_tensor_dim(Elab *e, const Tensor *t, int axis);
/// Reports, or checks at launch, that two extents are equal. False after an error.
bool el_check_equal(Elab *e, Loc loc, const char *what, Val expected, Val found);
void el_scratch(Elab *e, const Stmt *s);
/// Runs another kernel of the program.
Val el_call_kernel(Elab *e, Loc loc, const FnDef *f, const Val *args);
/// A dim without known value that v is made of, or NULL.
const char *el_unknown_dim(Elab *e, const Value *v);
/// The code is made for values of a host scalar from least to n;
/// larger ones are refused at launch.
void el_require_range(Elab *e, Value *v, int64_t least, int64_t n);

#endif
