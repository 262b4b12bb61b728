// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The intermediate representation: types, attributes, values, operations, regions; building,
// changing, printing, parsing and verifying them.
//
//   module -> op -> region -> op -> ...
//
// Control flow is structured on every level, so a region is exactly one straight list of ops with
// arguments, ended by a terminator. Values are in SSA form and know their uses; a region sees the
// values of the regions around it. What each op means is its row in lang/ops.def.
#ifndef IR_IR_H
#define IR_IR_H

#include "lang/axes.h"
#include "lang/base.h"

#include <stddef.h>

typedef struct Ir Ir; // the tables that make types and attributes unique; one a Ctx
typedef struct Type Type;
typedef struct Attr Attr;
typedef struct Value Value;
typedef struct Use Use;
typedef struct Op Op;
typedef struct Region Region;

enum { MAX_RANK = 8 };

/// Multiplies n extents. An extent of 0 gives 0, however large the others are; other overflows give
/// INT64_MAX.
int64_t extents_product(const int64_t *extents, int n);

Ir *ir_create(Ctx *ctx);
Ctx *ir_ctx(const Ir *ir);

/* ---- types (type.c) ------------------------------------------------------------------------ */
// Types are unique: equal types are equal pointers.

typedef enum TypeKind {
    TK_BLOCK,   // a value: element and constant extents; rank 0 is a scalar
    TK_TENSOR,  // memory: element, extents and strides, each known or DYNAMIC
    TK_BUF,     // a block in shared memory: element, extents, order of bytes
    TK_RING,    // buffers with `slots` slots each, filled by consecutive items
    TK_PENDING, // a block that an asynchronous op produces (without a part: only its end)
    TK_DESC,    // the copying of boxes of a tensor: element, box (an extent for each dimension),
                // swizzle
} TypeKind;

/// An extent or stride known only at launch.
#define DYNAMIC INT64_MIN

/// Text form: `f32`, `f32<64x32>`, `tensor<f32, ?x64, [?, 1]>`, `tensor<f32>` (rank 0). Strides
/// count elements and are left out of the text where all are DYNAMIC; `tensor<..., align 16,
/// near>`. A block in a GPU's registers says where its elements are: `f32[64x32; reg (0,1) ...;
/// lane ...; warp ...]` (ir/layout/layout.h). `buf<f16, 128x64, swizzle 128, inner 1>`, `buf<f16,
/// 128x64, pad 16>`, `buf<f16, [128x64; reg ...]>` (of which element 0 stands where register 0
/// does), `ring<4, buf<...>, ...>`, `pending<f32[...]>`, `pending<>`, `desc<f16, 1x128x64,
/// swizzle 128, inner 2>`.
struct Type {
    TypeKind kind;
    Elem elem;
    int rank;
    int64_t extents[MAX_RANK];
    int64_t strides[MAX_RANK];   // tensors only
    const struct Layout *layout; // blocks of rank 1 and more on the gpu level and of some buffers
    int swizzle, inner, pad;     // buffers, descs: bytes of a row's panel (0: plain rows, each
                                 // `pad` bytes longer); the dimension of neighbours in memory
    int align;                   // tensors: bytes that divide the address of element 0 and each
                                 // stride that is DYNAMIC; none is negative. 0: not known
    bool near;                   // tensors: all elements end before byte 2^31 from element 0 on,
                                 // and no stride is negative; false: not known
    int slots, n_parts;          // rings, pending
    const Type *const *parts;    // buffers of a ring; the block that is pending
};

const Type *ty_scalar(Ir *ir, Elem elem);
const Type *ty_block(Ir *ir, Elem elem, int rank, const int64_t *extents);
/// extents or strides may be NULL: all DYNAMIC.
const Type *ty_tensor(Ir *ir, Elem elem, int rank, const int64_t *extents, const int64_t *strides);
/// The tensor type with that alignment.
const Type *ty_aligned(Ir *ir, const Type *tensor, int bytes);
enum { SCRATCH_ALIGN = 16 }; // bytes: runtimes align workspaces more than any access requires
/// The type of a scratch tensor, aligned if the known extents of its dense rows show it.
const Type *ty_scratch(Ir *ir, const Type *tensor);
/// The tensor type whose elements are all near element 0.
enum { TENSOR_SPAN_LOG2 = 31 };
const Type *ty_near(Ir *ir, const Type *tensor);
/// A block with the extents of the layout.
const Type *ty_laid(Ir *ir, Elem elem, const struct Layout *layout);
/// inner: the dimension that is contiguous in memory; pad: of plain buffers.
const Type *ty_buf(Ir *ir, Elem elem, int rank, const int64_t *extents, int swizzle, int inner,
                   int pad);
/// A buffer whose elements lie as the registers of `layout`, which has no threads; repeats along
/// `inner` are next to each other.
const Type *ty_buf_laid(Ir *ir, Elem elem, const struct Layout *layout, int inner);
/// The buffer whose dimension i is dimension perm[i] of t: the same bytes.
const Type *ty_buf_permuted(Ir *ir, const Type *t, const int64_t *perm);
const Type *ty_desc(Ir *ir, Elem elem, int rank, const int64_t *box, int swizzle, int inner);
const Type *ty_ring(Ir *ir, int slots, int n, const Type *const *bufs);
/// block may be NULL.
const Type *ty_pending(Ir *ir, const Type *block);
/// The block without its layout.
const Type *ty_plain(Ir *ir, const Type *t);
/// Returns the type with the shape and the layout of `shape`, and another element.
const Type *ty_with_elem(Ir *ir, const Type *shape, Elem elem);
const Type *ty_with_shape(Ir *ir, const Type *elem, const Type *shape);
bool ty_same_shape(const Type *a, const Type *b);
/// Product of the extents of a block.
int64_t ty_count(const Type *t);
static inline bool ty_is_scalar(const Type *t) {
    return t->kind == TK_BLOCK && t->rank == 0;
}
static inline bool ty_is_block(const Type *t) {
    return t->kind == TK_BLOCK;
}
/// The pending block, or NULL.
static inline const Type *ty_promised(const Type *t) {
    return t->kind == TK_PENDING && t->n_parts ? t->parts[0] : NULL;
}

/* ---- attributes (attr.c) ------------------------------------------------------------------- */
// Constant data of an op, by name. Attributes are unique like types.

typedef enum AttrKind {
    AT_INT,   // 42         any integer element's bits, sign- or zero-extended to 64
    AT_FLOAT, // 1.5        a double, printed so that it reads back exactly (hex where needed)
    AT_BOOL,  // true or false
    AT_STR,   // "text"
    AT_TYPE,  // f32<4>
    AT_INTS,  // [1, 0]
    AT_STRS,  // ["a", "b"]
    AT_SUBS,  // (at, axis 64, axis 32 * 2, pick): how a tensor is subscripted, see below
} AttrKind;

/// One dimension of a subscript. DIM_AT: a scalar coordinate (one i64 operand). DIM_AXIS: a new
/// axis of `size` lanes; lane j is at base + j * mul and live while j < count (two i64 operands:
/// base, count). DIM_PICK: a block of coordinates (one operand). All picks of a subscript share one
/// shape, which takes the place of the first pick in the result.
typedef enum SubDimKind { DIM_AT, DIM_AXIS, DIM_PICK } SubDimKind;
typedef struct SubDim {
    SubDimKind kind;
    int64_t size, mul; // DIM_AXIS only
} SubDim;

struct Attr {
    AttrKind kind;
    int n; // items of INTS, STRS, SUBS; bytes of STR
    union {
        int64_t i; // INT, BOOL
        double f;
        const char *str;
        const Type *type;
        const int64_t *ints;
        const char *const *strs;
        const SubDim *subs;
    };
};

const Attr *at_int(Ir *ir, int64_t v);
const Attr *at_float(Ir *ir, double v); // unique by bits: -0.0 and NaNs keep their identity
const Attr *at_bool(Ir *ir, bool v);
const Attr *at_str(Ir *ir, const char *s);
const Attr *at_type(Ir *ir, const Type *t);
const Attr *at_ints(Ir *ir, const int64_t *v, int n);
const Attr *at_strs(Ir *ir, const char *const *v, int n);
const Attr *at_subs(Ir *ir, const SubDim *v, int n);

/// The name of an attribute of any kind: a row of lang/attrs.def.
typedef enum AttrId {
    ATTR_NONE,
#define ATTR(kind, id, ...) ATTR_##id,
#include "lang/attrs.def"
    ATTR_COUNT
} AttrId;

// The names of the attributes of one kind. They have types of their own, so that a getter or setter
// of another kind does not take them (-Werror=enum-conversion).
typedef enum IntAttr {
#define INT_ATTR(id, ...) A_##id = ATTR_##id,
#include "lang/attrs.def"
} IntAttr;
typedef enum BoolAttr {
#define BOOL_ATTR(id, ...) A_##id = ATTR_##id,
#include "lang/attrs.def"
} BoolAttr;
typedef enum StrAttr {
#define STR_ATTR(id, ...) A_##id = ATTR_##id,
#include "lang/attrs.def"
} StrAttr;
typedef enum IntsAttr {
#define INTS_ATTR(id, ...) A_##id = ATTR_##id,
#include "lang/attrs.def"
} IntsAttr;
typedef enum StrsAttr {
#define STRS_ATTR(id, ...) A_##id = ATTR_##id,
#include "lang/attrs.def"
} StrsAttr;
typedef enum SubsAttr {
#define SUBS_ATTR(id, ...) A_##id = ATTR_##id,
#include "lang/attrs.def"
} SubsAttr;
typedef enum ConstAttr {
#define CONST_ATTR(id, ...) A_##id = ATTR_##id,
#include "lang/attrs.def"
} ConstAttr;

// The values of attributes that hold one of a few words, 0 if the attribute is absent.
typedef enum DotPrecision {
    PRECISION_ABSENT,
#define PRECISION(id, ...) PRECISION_##id,
#include "lang/enums.def"
} DotPrecision;
typedef enum Update {
    UPDATE_ABSENT,
#define UPDATE(id, ...) UPDATE_##id,
#include "lang/enums.def"
} Update;
typedef enum Compare {
    COMPARE_ABSENT,
#define COMPARE(id, ...) COMPARE_##id,
#include "lang/enums.def"
} Compare;
typedef enum FoldOrder {
    FOLD_ORDER_ABSENT,
#define FOLD_ORDER(id, ...) FOLD_ORDER_##id,
#include "lang/enums.def"
} FoldOrder;
typedef enum Caching {
    CACHING_ABSENT,
#define CACHING(id, ...) CACHING_##id,
#include "lang/enums.def"
} Caching;
typedef enum Rounding {
    ROUNDING_ABSENT,
#define ROUNDING(id, ...) ROUNDING_##id,
#include "lang/enums.def"
} Rounding;
typedef enum Filler {
    FILLER_ABSENT,
#define FILLER(id, ...) FILLER_##id,
#include "lang/enums.def"
} Filler;
typedef enum TransferPlan {
    TRANSFER_ABSENT,
#define TRANSFER(id, ...) TRANSFER_##id,
#include "lang/enums.def"
} TransferPlan;

typedef struct AttrInfo {
    const char *name, *kind;
    int kinds; // bit 1 << AttrKind for each allowed kind of a value
    const char *doc;
    const char *const *words; // of an enum, up to NULL; its value i is words[i - 1]
} AttrInfo;
extern const AttrInfo attr_info[ATTR_COUNT];
/// ATTR_NONE if no such attribute exists.
AttrId attr_by_name(const char *name);
/// Of an enum's attribute: the value with that word, 0 if there is none.
int attr_value_of(AttrId id, const char *word);

/* ---- operations ---------------------------------------------------------------------------- */

typedef enum OpCode {
#define OP(id, ...) OP_##id,
#include "lang/ops.def"
    OP_COUNT
} OpCode;

enum Trait {
    PURE = 1,          // no effect: may be deleted, merged, or moved to any place that its operands
                       // dominate
    COMMUTES = 2,      // f(a, b) = f(b, a)
    SAME = 4,          // operands and results have one type
    TERMINATOR = 8,    // last in its region
    READS = 16,        // reads tensor memory
    WRITES = 32,       // writes tensor memory
    ELEMENTWISE = 64,  // maps over lanes; operands and result have one shape
    COMPARES = 128,    // elementwise, result is bool
    ISOLATED = 256,    // its regions use no value from outside (kernel, func)
    HOST = 512,        // allowed only outside programs
    EFFECT = 1024,     // some other effect (assert, print, require): keep, in order
    ASSOCIATES = 2048, // f(f(a, b), c) = f(a, f(b, c)), for integers
    /// Elementwise; a function of the library if the target has no instruction
    /// (lang/elementwise.def).
    TRANSCENDENTAL = 4096,
};

enum { ANY = -1 }; // operand, result or region counts that vary

/// The cost of an op. Three decisions count different things, because data movement and library
/// functions are free in some and expensive in others.
typedef struct OpCost {
    /// The cost models (passes/cost/cost.c, cost_gpu.c): vector instructions for a vector of
    /// results.
    uint8_t model;
    /// Layouts of GPUs (passes/gpu/layouts.c): instructions for a register of results. Decides
    /// whether a value is computed again in another layout or converted.
    uint8_t layout;
    /// Fusion on CPUs (backends/cpu/plan.c): instructions for a vector of results. Decides whether
    /// a block is computed again for each use or kept in memory. It runs after expand-math, where
    /// library functions are plain arithmetic.
    uint8_t fusion;
} OpCost;

enum { MAX_OP_ATTRS = 15, OPTIONAL_ATTR = 0x80 };

typedef struct OpInfo {
    const char *name;
    int n_operands, n_results, n_regions; // or ANY
    int traits;
    int classes;                     // elementwise: element classes of the operands
    uint8_t attrs[MAX_OP_ATTRS + 1]; // AttrIds, with OPTIONAL_ATTR where they may be absent; 0 ends
    OpCost cost;
    const char *doc;
} OpInfo;
extern const OpInfo op_info[OP_COUNT];
/// OP_COUNT if no such op exists.
OpCode op_by_name(const char *name);

/// A use of a value: operand `index` of `user`.
struct Use {
    Value *value;
    Op *user;
    int index;
    Use *next, **link; // the other uses of the value
};

/// The count of live positions of the source's range r is named r_live.
#define LIVE_COUNT "_live"

struct Value {
    const Type *type;
    Op *def;        // the op with this result, or NULL:
    Region *region; // the region with this argument
    int index;      // the number of the result or argument
    Use *uses;
    const char *name; // as written in the source, or NULL; a hint for printing
};

typedef struct NamedAttr {
    AttrId id;
    const Attr *value;
} NamedAttr;

struct Op {
    OpCode code;
    Loc loc;
    Region *parent;
    Op *prev, *next;
    int n_operands, n_results, n_regions, n_attrs;
    Use *operands;
    Value *results;
    Region **regions;
    NamedAttr *attrs;
    int mark;   // scratch for one pass at a time
    void *note; // scratch, likewise
};

struct Region {
    Op *parent;
    int n_args;
    Value **args;
    Op *first, *last;
};

static inline Value *operand(const Op *op, int i) {
    return op->operands[i].value;
}
static inline Value *result(const Op *op, int i) {
    return (Value *)&op->results[i];
}
static inline bool op_has(const Op *op, int traits) {
    return (op_info[op->code].traits & traits) == traits;
}
/// Whether each lane of a result depends on the same lanes of the operands alone.
static inline bool op_is_lanewise(const Op *op) {
    return op_has(op, ELEMENTWISE) || op->code == OP_CAST || op->code == OP_BITCAST ||
           op->code == OP_SELECT;
}
static inline Op *terminator(const Region *r) {
    return r->last;
}

/* ---- building (build.c) -------------------------------------------------------------------- */

/// The place of new ops: before `before`, or at the end of `region`. New ops get `loc`.
typedef struct Builder {
    Ir *ir;
    Region *region;
    Op *before;
    Loc loc;
} Builder;

Builder build_at_end(Ir *ir, Region *region, Loc loc);
Builder build_before(Ir *ir, Op *op);
Builder build_after(Ir *ir, Op *op);

/// Makes an op with empty regions. Call op_set_attr for its attributes.
Op *build_op(Builder *b, OpCode code, int n_operands, Value *const *operands, int n_results,
             const Type *const *results, int n_regions);
Value *region_add_arg(Ir *ir, Region *r, const Type *type, const char *name);

Op *build_module(Ir *ir);
/// Builds an op with one result. The op's row gives its type (SAME: the operand's; COMPARES: bool
/// of that shape).
Value *build_unary(Builder *b, OpCode code, Value *x);
Value *build_binary(Builder *b, OpCode code, Value *x, Value *y);
Value *build_ternary(Builder *b, OpCode code, Value *x, Value *y, Value *z);
Value *build_int(Builder *b, const Type *type, int64_t v);
Value *build_float(Builder *b, const Type *type, double v);
Value *build_bool(Builder *b, const Type *type, bool v);
/// The constant of attribute a (INT, FLOAT, BOOL) in every lane.
Value *build_const(Builder *b, const Type *type, const Attr *a);
Value *build_index(Builder *b, int64_t v);                    // i64 scalar
Value *build_cast(Builder *b, Value *x, Elem to);             // x itself if nothing changes
Value *build_broadcast(Builder *b, Value *x, const Type *to); // likewise
Value *build_reshape(Builder *b, Value *x, const Type *to);   // likewise
Value *build_select(Builder *b, Value *c, Value *x, Value *y);
void build_yield(Builder *b, int n, Value *const *values);

/* ---- reading and changing (op.c) ----------------------------------------------------------- */

// Getters and setters of attributes. An op without the attribute has NULL or false; setting those
// removes it. Setting an attribute that is not in the op's row of lang/ops.def is a compiler bug.
int64_t op_int(const Op *op, IntAttr name, int64_t otherwise);
bool op_flag(const Op *op, BoolAttr name);
const char *op_str(const Op *op, StrAttr name);
const Attr *op_ints(const Op *op, IntsAttr name);
const Attr *op_strs(const Op *op, StrsAttr name);
const Attr *op_subs(const Op *op, SubsAttr name);
const Attr *op_const(const Op *op, ConstAttr name);
void op_set_int(Ir *ir, Op *op, IntAttr name, int64_t v);
void op_set_flag(Ir *ir, Op *op, BoolAttr name, bool v);
void op_set_str(Ir *ir, Op *op, StrAttr name, const char *v);
/// n items; v may be NULL only to remove the attribute.
void op_set_ints(Ir *ir, Op *op, IntsAttr name, const int64_t *v, int n);
void op_set_strs(Ir *ir, Op *op, StrsAttr name, const char *const *v, int n);
void op_set_subs(Ir *ir, Op *op, SubsAttr name, const SubDim *v, int n);
void op_set_const(Ir *ir, Op *op, ConstAttr name, const Attr *v);
/// The elementwise op that makes the new value of the old one and the operand; OP_COUNT: none, as
/// of xchg, cas and set.
OpCode op_of_update(Update update);
/// Whether x and y compare as the word says.
bool compare_holds(Compare compare, int64_t x, int64_t y);
// For each row of an enum: Update op_update(op), op_set_update(ir, op, UPDATE_ADD),
// update_word(UPDATE_ADD), which is "add", and update_of_word("add"), which is 0 for an unknown
// word.
#define ENUM_ATTR(id, name, getter, type, doc)                                                     \
    type op_##getter(const Op *op);                                                                \
    void op_set_##getter(Ir *ir, Op *op, type v);                                                  \
    const char *getter##_word(type v);                                                             \
    type getter##_of_word(const char *word);
#include "lang/attrs.def"
// Attributes of any kind: whether an op has one, comparing, copying.
const Attr *op_attr(const Op *op, AttrId id);
void op_set_attr(Ir *ir, Op *op, AttrId id, const Attr *value);
void op_copy_attr(Ir *ir, Op *to, const Op *from, AttrId id);

void op_set_operand(Op *op, int i, Value *v);
void op_set_operands(Ir *ir, Op *op, int n, Value *const *values);
void op_add_operand(Ir *ir, Op *op, Value *v);
void value_replace(Value *old, Value *with);
bool value_has_uses(const Value *v);
bool value_has_one_use(const Value *v);
/// Returns a user of v with this code, or NULL.
Op *value_user(const Value *v, OpCode code);
/// Unlinks the op and drops its operand uses. Its results must be unused.
void op_erase(Op *op);
/// Removes the op from its region and keeps it whole.
void op_unlink(Op *op);
void op_move_before(Op *op, Op *before);
void op_move_to_end(Op *op, Region *r);
/// Makes a deep copy at b. Values found in `map` are replaced; results and arguments are added to
/// it.
Op *op_clone(Builder *b, const Op *op, PtrMap *map);
/// Copies the ops of a region, but not its terminator, to b.
void region_clone_body(Builder *b, const Region *r, PtrMap *map);
/// Adds n results after those of the op by replacing it with a copy, which it returns.
Op *op_add_results(Ir *ir, Op *op, int n, const Type *const *types);

/// Visits op and all ops inside it, before (pre) or after (post) its regions. The visitor may erase
/// the op.
void op_walk_pre(Op *op, void (*visit)(Op *op, void *arg), void *arg);
void op_walk_post(Op *op, void (*visit)(Op *op, void *arg), void *arg);
/// The innermost op of this code around op, or NULL.
Op *op_enclosing(const Op *op, OpCode code);
bool op_is_inside(const Op *op, const Op *outer);
bool value_is_inside(const Value *v, const Op *outer); // defined in a region of outer
/// True where `a` stands before `b` in one region.
bool op_before(const Op *a, const Op *b);

#define for_each_op(op, region_) for (Op *op = (region_)->first; op; op = op->next)
/// The body may erase op.
#define for_each_op_safe(op, region_)                                                              \
    for (Op *op = (region_)->first, *next_##op; op && (next_##op = op->next, 1); op = next_##op)
#define for_each_use(u, value_) for (Use *u = (value_)->uses; u; u = u->next)

/// The op that defines v, if its code is `code`; else NULL.
Op *def_of(const Value *v, OpCode code);
/// The constant value of v (the same in every lane, also through broadcast and reshape), or NULL.
const Attr *const_of(const Value *v);
bool const_int(const Value *v, int64_t *out);
bool is_const_int(const Value *v, int64_t n);
bool is_true(const Value *v);
bool is_false(const Value *v);

/* ---- views of particular ops (view.c) ------------------------------------------------------ */

/// The decoded subscript of load, live, store, atomic and combine.
typedef struct Access {
    Value *tensor;
    int n_subs;
    const SubDim *subs;
    int first[MAX_RANK]; // operand index of dimension d's first operand
    Value *mask;         // bool block in the shape of the picks, or NULL
    Value *pad;          // load: scalar
    Value *value;        // store, atomic and (first one) combine
    int pick_rank;       // shape of the picks, if any; pick_at = its first axis in the block
    int64_t pick_extents[MAX_RANK];
    int pick_at; // -1 without a pick
    int rank;    // shape of the block read or written
    int64_t extents[MAX_RANK];
    int axis_of[MAX_RANK]; // block axis of dimension d for DIM_AXIS, else -1
} Access;
bool op_is_access(const Op *op);
Access access_of(const Op *op);
static inline Value *sub_operand(const Op *op, const Access *a, int dim, int which) {
    return operand(op, a->first[dim] + which);
}

/// If the region computes one known function of its arguments (first half a, second half b),
/// the elementwise op that does it (ADD, MUL, MIN, MAX, AND, OR, XOR), else OP_COUNT.
OpCode region_monoid(const Region *r);
/// Whether the hardware's bulk copies (TMA) fill the ring; else copies of threads do.
bool ring_is_tma(const Value *ring);
/// Whether a tensor is symmetric: its first dimension is the rank.
bool value_is_sym(const Value *v);
/// The kernel of that name; if name is NULL, the module's only kernel; else NULL.
Op *find_kernel(const Op *module, const char *name);
Op *find_func(const Op *module, const char *name);
Op *find_device(const Op *module, const char *name);

/* ---- text (print.c, parse.c) --------------------------------------------------------------- */
// op      := (values '=')? name values? attrs? (':' types)? ('@' line ':' column)? region*
// values  := '%'name (',' '%'name)*        attrs := '[' name '=' attr (',' ...)* ']'
// region  := '{' ('(' '%'name ':' type, ... ')')? op* '}'
// Types are those of the results. One spelling serves every op. Values defined elsewhere are
// known by their names; an isolated op starts with none. Positions are written with `locs` only.
// `//` starts a comment.

void ir_print(Text *out, const Op *op, bool locs);
void ir_print_type(Text *out, const Type *t);
void ir_print_attr(Text *out, const Attr *a);
char *ir_to_text(Ctx *ctx, const Op *op); // for messages and debuggers
/// The module in registered source `file`, or NULL with diagnostics. Any bytes get a message.
Op *ir_parse(Ir *ir, uint16_t file);

/* ---- verifying (verify.c) ------------------------------------------------------------------ */

/// Checks every op against its row and its own rule, dominance and terminators. Reports each
/// violation as a diagnostic with the op, the expected and the found property.
bool ir_verify(Ir *ir, const Op *op);

/* ---- tables of rules (rule.c) -------------------------------------------------------------- */
// A rule is a row of a table: the op it looks at, its function, and its algebra, which holds for
// every value. Tests try each row of all tables (passes/rules.h).

/// The algebra of a table's rows. It identifies a rule, so no two are equal.
typedef struct RuleTable {
    const char *pass;
    const void *rows;
    int n;
    size_t row_size, algebra_at;
} RuleTable;
#define RULE_TABLE(pass, Row, rows)                                                                \
    { pass, rows, sizeof rows / sizeof *rows, sizeof *rows, offsetof(Row, algebra) }
const char *rule_algebra(const RuleTable *t, int row);

/// Called with the op of an applied rule (its results may be replaced already), or NULL if the rule
/// belongs to no single op.
typedef void RuleWatch(void *user, const Op *op, const char *algebra);
/// Reports all rules applied from now on; NULL: none.
void ir_watch_rules(Ir *ir, RuleWatch *watch, void *user);
/// Reports an applied rule.
void rule_applied(const Ir *ir, const Op *op, const char *algebra);

/* ---- folding and rewriting (fold.c, rewrite.c) --------------------------------------------- */

/// The value of op if it is a constant or one of its operands, else NULL. Only for pure ops with
/// one result; may build constants at b.
Value *op_fold(Builder *b, Op *op);
extern const RuleTable fold_tables[];
extern const int n_fold_tables;

typedef struct Rewriter Rewriter;
/// Rules preserve types, are monotonic (never undo each other) and never make code worse.
typedef struct Rule {
    OpCode root;
    bool (*apply)(Rewriter *rw, Op *op); // true: changed something
    const char *algebra;                 // "x - x = 0"
} Rule;
struct Rewriter {
    Builder at; // placed before the op at hand
    Ir *ir;
    struct Worklist *list;
};
/// op has one result: gives its users `with`, then erases it.
void rewrite_to(Rewriter *rw, Op *op, Value *with);
void rewrite_touch(Rewriter *rw, Op *op); // visit it again
void rewrite_erase(Rewriter *rw, Op *op);
/// Applies folding and the rules greedily until nothing changes. Returns whether anything did.
bool rewrite_all(Ir *ir, Op *root, const Rule *rules, int n_rules);

/* ---- passes (pass.c) ----------------------------------------------------------------------- */

/// The passes' view of their environment. The caller of the pipeline owns it.
typedef struct PassEnv {
    Ir *ir;
    const Op *library; // module of scalar funcs for expand-math, or NULL
    int threads;       // available to a launch
    int64_t l1_bytes, l2_bytes;
    bool check;                  // --check: keep the information that checks need
    int vector_bytes;            // of the target
    const struct GpuTarget *gpu; // NULL: a CPU (passes/gpu/gpu.h)
    /// Whether the target has an instruction for a transcendental op. NULL: it has none.
    bool (*has_op)(const struct GpuTarget *gpu, OpCode code, Elem elem);
    // The axes of the schedule (lang/axes.def). 0: chosen by the passes.
#define AXIS(id, name, ...) int name;
#include "lang/axes.def"
} PassEnv;
/// Sets an axis of the schedule.
void env_set_axis(PassEnv *env, AxisId id, int value);

typedef struct Pass {
    const char *name;
    void (*run)(PassEnv *env, Op *module);
    const char *doc; // one line: before -> after
} Pass;

typedef struct PassOptions {
    bool verify_each, time;
    const char *dump_after; // comma-separated names, or "all", or NULL
    void (*dump)(void *user, const char *pass, const char *text);
    void *user;
    double *seconds; // time: n_passes entries, filled in
} PassOptions;
/// Runs the pipeline in order. Returns false if verification failed, with a diagnostic that names
/// the pass.
bool run_passes(PassEnv *env, Op *module, const Pass *const *pipeline, int n,
                const PassOptions *options);

#endif
