// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Arithmetic: gives operands one element and one shape, folds constants, and keeps validity.
//
// An operator takes four steps. 1. Constants alone are folded. 2. Otherwise the operands get one
// element: literals adapt, integers widen if no value changes, and a scalar integer converts to a
// float beside it. 3. The operands get one shape: scalars repeat, and blocks of one rank repeat
// along their axes of extent 1. 4. The op is built. If its result is a block of i32 or i64, a lane
// is a valid position if it is valid in every operand.
#include "frontend/elab/elab.h"

#include "ir/eval.h"

/* ---- one element --------------------------------------------------------------------------- */

/// Returns the element to which integers of two types widen, or EL_COUNT.
static Elem join_ints(Elem a, Elem b) {
    return el_widens(a, b, false) ? b : el_widens(b, a, false) ? a : EL_COUNT;
}

/// Returns the common element of two typed operands, or EL_COUNT. A scalar integer converts to a
/// float.
static Elem join_elems(Elem a, bool a_yields, Elem b, bool b_yields) {
    if (a == b) return a;
    if (a_yields && elem_is(a, EC_INT) && elem_is(b, EC_FLOAT)) return b;
    if (b_yields && elem_is(b, EC_INT) && elem_is(a, EC_FLOAT)) return a;
    return elem_is(a, EC_INT) && elem_is(b, EC_INT) ? join_ints(a, b) : EL_COUNT;
}

/// Suggests the conversion with the least loss: to the float, or to the wider of the two.
static void mixed_error(Elab *e, Loc loc, const char *what, Val a, Val b) {
    el_fail(e, loc, D_MIXED_TYPES, what, val_text(e, a), val_text(e, b));
    Elem x = a.ir.v->type->elem, y = b.ir.v->type->elem;
    int floats = elem_is(x, EC_FLOAT) - elem_is(y, EC_FLOAT);
    bool first = floats > 0 || (floats == 0 && elem_info[x].bits > elem_info[y].bits);
    diag_hint(e->ctx, "convert one of them, for example with 'as %s'",
              elem_info[first ? x : y].name);
}

/// Computes the common element of the typed operands; EL_COUNT if all are constants. False after an
/// error.
static bool common_elem(Elab *e, Loc loc, const char *what, int n, const Val *v, Elem *out) {
    int first = -1;
    bool yields = false; // the common element so far comes from scalar integers only
    *out = EL_COUNT;
    for (int i = 0; i < n; i++) {
        if (v[i].kind != V_IR) continue;
        const Type *t = v[i].ir.v->type;
        if (elem_info[t->elem].bits < 8) {
            el_fail(e, loc, D_STORAGE_TYPE, elem_info[t->elem].name, what);
            diag_hint(e->ctx, "convert it first: '... as i8'");
            return false;
        }
        Elem joined = first < 0 ? t->elem : join_elems(*out, yields, t->elem, t->rank == 0);
        if (joined == EL_COUNT) {
            mixed_error(e, loc, what, v[first], v[i]);
            return false;
        }
        yields = (first < 0 || yields) && t->rank == 0;
        if (first < 0 || joined != *out) first = i;
        *out = joined;
    }
    return true;
}

/// Returns the element type if all operands are literals and one of them depends on a choice that
/// is not known yet: f32 if any is a float, otherwise i64. Returns EL_COUNT without such a choice.
static Elem default_of(int n, const Val *v) {
    bool choice = false, any_float = false;
    for (int i = 0; i < n; i++) {
        choice |= v[i].kind == V_CHOICE;
        any_float |= el_default_elem(v[i]) == EL_F32;
    }
    return !choice ? EL_COUNT : any_float ? EL_F32 : EL_I64;
}

/// Casts keep validity: an i32 block of positions widened to i64 still holds positions.
bool el_unify_elems(Elab *e, Loc loc, const char *what, int n, Val *v) {
    for (int i = 0; i < n; i++) {
        if (v[i].kind != V_CHOICE) v[i] = el_value(e, loc, v[i]);
        if (v[i].kind == V_ERROR) return false;
    }
    Elem elem;
    if (!common_elem(e, loc, what, n, v, &elem)) return false;
    if (elem == EL_COUNT) elem = default_of(n, v);
    if (elem == EL_COUNT) return true;
    for (int i = 0; i < n; i++) {
        v[i] = val_adapts(v[i]) ? el_adapt(e, loc, v[i], elem)
                                : val_ir_valid(build_cast(&e->b, v[i].ir.v, elem), v[i].ir.valid);
        if (v[i].kind == V_ERROR) return false;
    }
    return true;
}

/* ---- one shape ----------------------------------------------------------------------------- */

/// Names the axis of the larger block along which the smaller one can repeat.
static void hint_axis(Elab *e, const Type *a, const Type *b) {
    const Type *low = a->rank < b->rank ? a : b, *high = low == a ? b : a;
    if (low->rank == high->rank) return;
    bool one = low->rank == 1 && high->rank == 2;
    bool rows = one && low->extents[0] == high->extents[0];
    bool columns = one && low->extents[0] == high->extents[1];
    if (rows && columns)
        diag_hint(e->ctx, "add an axis to the one of lower rank: x[:, None] or x[None, :]");
    else if (rows)
        diag_hint(e->ctx, "add an axis to the one of lower rank: x[:, None]");
    else if (columns)
        diag_hint(e->ctx, "add an axis to the one of lower rank: x[None, :]");
    else if (!one)
        diag_hint(e->ctx, "add axes to the one of lower rank, as in x[:, None]");
}

/// Ranks never align implicitly: `a[:, None]` says which axis repeats.
static bool shape_error(Elab *e, Loc loc, const char *what, Val a, Val b) {
    el_fail(e, loc, D_SHAPE_MISMATCH, what, val_text(e, a), val_text(e, b));
    hint_axis(e, a.ir.v->type, b.ir.v->type);
    return false;
}

/// Widens `shape` to include a block of type t; false if they do not broadcast.
static bool widen_shape(int rank, int64_t *extents, const Type *t) {
    if (t->rank != rank) return false;
    for (int i = 0; i < rank; i++) {
        if (extents[i] == 1) extents[i] = t->extents[i];
        if (t->extents[i] != extents[i] && t->extents[i] != 1) return false;
    }
    return true;
}

/// Repeats all blocks, with their validity, to the common shape.
bool el_unify_shapes(Elab *e, Loc loc, const char *what, int n, Val *v) {
    int first = -1;
    int64_t extents[MAX_RANK];
    for (int i = 0; i < n; i++) {
        if (!val_is_block(v[i])) continue;
        const Type *t = v[i].ir.v->type;
        if (first < 0)
            for (int d = 0; d < t->rank; d++) extents[d] = t->extents[d];
        int rank = first < 0 ? t->rank : v[first].ir.v->type->rank;
        first = first < 0 ? i : first;
        if (!widen_shape(rank, extents, t)) return shape_error(e, loc, what, v[first], v[i]);
    }
    if (first < 0) return true;
    const Type *shape = ty_block(e->ir, EL_BOOL, v[first].ir.v->type->rank, extents);
    for (int i = 0; i < n; i++) {
        if (v[i].kind != V_IR) continue;
        Value *valid = v[i].ir.valid ? build_broadcast(&e->b, v[i].ir.valid, shape) : NULL;
        v[i] = val_ir_valid(build_broadcast(&e->b, v[i].ir.v, shape), valid);
    }
    return true;
}

Val el_broadcast(Elab *e, Loc loc, Val v, const Type *to, const char *what) {
    v = el_value(e, loc, v);
    if (v.kind == V_CONST) v = val_ir(el_typed(e, loc, v, EL_COUNT));
    if (v.kind == V_ERROR) return v;
    return el_convert_val(e, loc, v, ty_with_elem(e->ir, to, v.ir.v->type->elem), what);
}

/* ---- validity ------------------------------------------------------------------------------ */

/// The same validity in two operands, as in i * i, is joined once.
Value *el_join_valid(Elab *e, int n, const Val *v) {
    Value *all = NULL;
    for (int i = 0; i < n; i++) {
        Value *valid = v[i].kind == V_IR ? v[i].ir.valid : NULL;
        if (valid && valid != all) all = all ? build_binary(&e->b, OP_AND, all, valid) : valid;
    }
    return all;
}

Value *el_valid_of(Elab *e, Val v) {
    if (v.ir.valid) return v.ir.valid;
    return build_bool(&e->b, ty_with_elem(e->ir, v.ir.v->type, EL_BOOL), true);
}

/* ---- constants ----------------------------------------------------------------------------- */

/// Converts a constant to a Cell of element `as`; eval.h describes cells.
static Cell const_cell(Val v, Elem as) {
    Elem from = v.c.type == CK_BOOL    ? EL_BOOL
                : v.c.type == CK_FLOAT ? EL_F64
                : v.c.wide             ? EL_U64
                                       : EL_I64;
    return cell_cast(from, as, v.c.type == CK_FLOAT ? (Cell){.f = v.c.f} : (Cell){.i = v.c.i});
}

static Val val_of_cell(Elem elem, Cell c) {
    if (elem == EL_BOOL) return val_bool(c.u != 0);
    if (elem == EL_F64) return val_float(c.f);
    Val v = val_int(c.i);
    v.c.wide = elem == EL_U64 && c.i < 0;
    return v;
}

/// Returns the element for folding constants, or EL_COUNT if they do not mix.
static Elem folding_elem(OpCode op, int n, const Val *v) {
    bool any_float = false, any_bool = false, any_int = false, wide = false;
    for (int i = 0; i < n; i++) {
        any_float |= v[i].c.type == CK_FLOAT;
        any_bool |= v[i].c.type == CK_BOOL;
        any_int |= v[i].c.type == CK_INT;
        wide |= v[i].c.type == CK_INT && v[i].c.wide;
    }
    if (any_bool) return any_float || any_int ? EL_COUNT : EL_BOOL;
    bool floats_only = !(op_info[op].classes & EC_INT);
    return any_float || floats_only ? EL_F64 : wide ? EL_U64 : EL_I64;
}

/// Folds constants by the ops' own definition (eval.h), so folding changes no result.
static Val fold_constants(Elab *e, Loc loc, OpCode op, const char *what, int n, const Val *v) {
    Elem elem = folding_elem(op, n, v);
    if (elem == EL_COUNT || !(op_info[op].classes & elem_info[elem].cls)) {
        const char *second = n > 1 ? val_text(e, v[1]) : "";
        return el_fail(e, loc, D_BAD_OPERAND, what, val_text(e, v[0]), n > 1 ? " and " : "",
                       second);
    }
    Cell args[3];
    for (int i = 0; i < n; i++) args[i] = const_cell(v[i], elem);
    Cell c = eval_elementwise(op, elem, args);
    return val_of_cell(op_has(&(Op){.code = op}, COMPARES) ? EL_BOOL : elem, c);
}

/* ---- elementwise --------------------------------------------------------------------------- */

static bool all_const(int n, const Val *v) {
    for (int i = 0; i < n; i++)
        if (v[i].kind != V_CONST) return false;
    return true;
}

static bool with_literals(int n, const Val *v) {
    for (int i = 0; i < n; i++)
        if (val_adapts(v[i])) return true;
    return false;
}

/// An op on floats alone takes scalar integers as f32, like literals.
static void literals_to_float(OpCode op, int n, Val *v) {
    if (op_info[op].classes & EC_INT) return;
    for (int i = 0; i < n; i++)
        if (v[i].kind == V_CONST && v[i].c.type == CK_INT)
            v[i] = val_float(v[i].c.wide ? (double)(uint64_t)v[i].c.i : (double)v[i].c.i);
}

/// Builds the op. Comparisons and floats give plain values; integer arithmetic keeps validity.
static Val build_elementwise(Elab *e, OpCode op, int n, const Val *v) {
    Value *x = v[0].ir.v;
    Value *r = n == 1   ? build_unary(&e->b, op, x)
               : n == 2 ? build_binary(&e->b, op, x, v[1].ir.v)
                        : build_ternary(&e->b, op, x, v[1].ir.v, v[2].ir.v);
    bool keeps = elem_is(r->type->elem, EC_SINT) && r->type->rank > 0;
    return val_ir_valid(r, keeps ? el_join_valid(e, n, v) : NULL);
}

/// Folds a comparison of typed constants: `(1.001 as T) == 1`.
static bool compares_constants(OpCode op, int n, const Val *v, Val *out) {
    Cell cells[3];
    if (!op_has(&(Op){.code = op}, COMPARES)) return false;
    for (int i = 0; i < n; i++) {
        const Attr *a = const_of(v[i].ir.v);
        if (!a || !ty_is_scalar(v[i].ir.v->type)) return false;
        cells[i] = cell_of_attr(v[i].ir.v->type->elem, a);
    }
    *out = val_bool(eval_elementwise(op, v[0].ir.v->type->elem, cells).u);
    return true;
}

/// Reports an element that the op does not take.
static bool takes_elem(Elab *e, Loc loc, OpCode op, const char *what, Val v) {
    Elem elem = v.ir.v->type->elem;
    if (op_info[op].classes & elem_info[elem].cls) return true;
    el_fail(e, loc, D_BAD_OPERAND, what, val_text(e, v), "", "");
    if (elem_is(elem, EC_INT) && (op_info[op].classes & EC_FLOAT))
        diag_hint(e->ctx, "convert it with 'as f32'");
    else if (elem_is(elem, EC_FLOAT) && (op_info[op].classes & EC_INT))
        diag_hint(e->ctx, "it is for integers: convert with 'as i32'");
    return false;
}

Val el_elementwise(Elab *e, Loc loc, OpCode op, const char *what, int n, const Val *args) {
    Val v[3];
    for (int i = 0; i < n; i++) {
        v[i] = args[i].kind == V_CHOICE ? args[i] : el_value(e, loc, args[i]);
        if (v[i].kind == V_ERROR) return v[i];
    }
    if (all_const(n, v)) return fold_constants(e, loc, op, what, n, v);
    if (with_literals(n, v))
        // This check comes before a literal adapts to an operand of a wrong type.
        for (int i = 0; i < n; i++)
            if (v[i].kind == V_IR && !takes_elem(e, loc, op, what, v[i])) return val_error();
    literals_to_float(op, n, v);
    if (!el_unify_elems(e, loc, what, n, v) || !takes_elem(e, loc, op, what, v[0]))
        return val_error();
    if (!el_unify_shapes(e, loc, what, n, v)) return val_error();
    Val known;
    return compares_constants(op, n, v, &known) ? known : build_elementwise(e, op, n, v);
}

/* ---- operators ----------------------------------------------------------------------------- */

static const OpCode binary_ops[BI_COUNT] = {
    [BI_OR] = OP_OR,    [BI_AND] = OP_AND,    [BI_LT] = OP_LT,      [BI_GT] = OP_GT,
    [BI_LE] = OP_LE,    [BI_GE] = OP_GE,      [BI_EQ] = OP_EQ,      [BI_NE] = OP_NE,
    [BI_BITOR] = OP_OR, [BI_BITXOR] = OP_XOR, [BI_BITAND] = OP_AND, [BI_SHL] = OP_SHL,
    [BI_SHR] = OP_SHR,  [BI_ADD] = OP_ADD,    [BI_SUB] = OP_SUB,    [BI_MUL] = OP_MUL,
    [BI_DIV] = OP_DIV,  [BI_REM] = OP_REM,
};

/// Errors count as bools: they were reported.
static bool is_bool(Val v) {
    return v.kind == V_ERROR || (v.kind == V_CONST && v.c.type == CK_BOOL) ||
           (v.kind == V_IR && v.ir.v->type->elem == EL_BOOL);
}

static Val wants_bool(Elab *e, Loc loc, const char *what, Val v) {
    el_fail(e, loc, D_NEEDS_BOOL, what, val_text(e, v));
    if (v.kind == V_IR && elem_is(v.ir.v->type->elem, EC_INT))
        diag_hint(e->ctx, "compare it: '... != 0'");
    return val_error();
}

/// `&&` and `||`: a constant operand either decides the result or drops out.
static Val elab_logic(Elab *e, Loc loc, BinaryOp op, Val a, Val b) {
    if (!is_bool(a)) return wants_bool(e, loc, binary_spelling[op], a);
    if (!is_bool(b)) return wants_bool(e, loc, binary_spelling[op], b);
    if (a.kind == V_CONST) return (a.c.i != 0) == (op == BI_AND) ? b : a;
    if (b.kind == V_CONST) return (b.c.i != 0) == (op == BI_AND) ? a : b;
    return el_elementwise(e, loc, binary_ops[op], binary_spelling[op], 2, (Val[]){a, b});
}

Val el_binary(Elab *e, Loc loc, BinaryOp op, Val a, Val b) {
    if (op == BI_AND || op == BI_OR) {
        a = el_value(e, loc, a), b = el_value(e, loc, b);
        return elab_logic(e, loc, op, a, b);
    }
    if (a.kind == V_RANGE || b.kind == V_RANGE) return el_range_arith(e, loc, op, a, b);
    return el_elementwise(e, loc, binary_ops[op], binary_spelling[op], 2, (Val[]){a, b});
}

/// -9223372036854775808 is written as the negative of a u64.
Val el_unary(Elab *e, Loc loc, UnaryOp op, Val x) {
    x = el_value(e, loc, x);
    if (x.kind == V_ERROR) return x;
    if (op == UN_NEG && x.kind == V_CONST && x.c.type == CK_INT && x.c.wide)
        return (uint64_t)x.c.i == (uint64_t)1 << 63
                   ? val_int(INT64_MIN)
                   : el_fail(e, loc, D_CONST_DOES_NOT_FIT,
                             ctx_format(e->ctx, "-%llu", (unsigned long long)x.c.i), "i64");
    if (op == UN_NOT && !is_bool(x)) return wants_bool(e, loc, "!", x);
    if (op == UN_INV && is_bool(x))
        return el_fail(e, loc, D_BAD_OPERAND, "~", val_text(e, x), "", "");
    return el_elementwise(e, loc, op == UN_NEG ? OP_NEG : OP_NOT, unary_spelling[op], 1, &x);
}

/// Literals stay untyped: `c ? 1 : 0` adapts to u32 in a u32 context.
static Val literal_choice(Elab *e, Loc loc, Val cond, const Val *arms) {
    if (is_bool(arms[0]) || is_bool(arms[1])) {
        Val yes = el_adapt(e, loc, arms[0], EL_BOOL), no = el_adapt(e, loc, arms[1], EL_BOOL);
        return el_select(e, loc, cond, yes, no);
    }
    const Val *copy = ctx_copy(e->ctx, arms, 2 * sizeof *arms);
    return (Val){.kind = V_CHOICE, .choice = {cond.ir.v, copy, copy + 1}};
}

/// A constant condition returns its arm unchanged, which may be a tensor, a fn or a tuple. With an
/// unknown condition, both arms become values of one element and shape; a lane is valid if it is
/// valid in both.
Val el_select(Elab *e, Loc loc, Val cond, Val yes, Val no) {
    cond = el_value(e, loc, cond);
    if (cond.kind == V_ERROR || yes.kind == V_ERROR || no.kind == V_ERROR) return val_error();
    if (!is_bool(cond)) return wants_bool(e, loc, "?:", cond);
    if (cond.kind == V_CONST) return cond.c.i ? yes : no;
    Val arms[2] = {yes, no};
    if (val_adapts(yes) && val_adapts(no)) return literal_choice(e, loc, cond, arms);
    if (!el_unify_elems(e, loc, "?:", 2, arms)) return val_error();
    Val v[3] = {cond, arms[0], arms[1]};
    if (!el_unify_shapes(e, loc, "?:", 3, v)) return val_error();
    return val_ir_valid(build_select(&e->b, v[0].ir.v, v[1].ir.v, v[2].ir.v),
                        el_join_valid(e, 2, v + 1));
}

/// Casts a value. Literals convert from the source text: 0.1 as f64 is not rounded to f32 first.
Val el_cast(Elab *e, Loc loc, Val x, Elem to) {
    if (x.kind == V_CHOICE) {
        Val yes = el_cast(e, loc, *x.choice.yes, to), no = el_cast(e, loc, *x.choice.no, to);
        return el_select(e, loc, val_ir(x.choice.cond), yes, no);
    }
    x = el_value(e, loc, x);
    if (x.kind == V_ERROR || to == EL_COUNT) return val_error();
    if (x.kind == V_CONST) { // exact, without rounding to f32 first
        Val v = x.c.type == CK_BOOL && to != EL_BOOL ? val_int(x.c.i) : x;
        return val_ir(el_const_value(e, v, ty_scalar(e->ir, to)));
    }
    return val_ir_valid(build_cast(&e->b, x.ir.v, to), x.ir.valid);
}
