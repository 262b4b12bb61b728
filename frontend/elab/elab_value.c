// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Values of elaboration: making them, describing them in messages, and constants that must be
// known.
//
// A literal has no element type. It is a CONST, folded exactly (integers in 64 bits, floats in f64)
// until it meets a typed operand, whose type it must then fit. So `0.1 * x` rounds 0.1 once, to x's
// type, and `x + 300` is an error if x is an i8.
//
// A constant that must be known (an extent, a step, an axis) may also contain dims. Their values
// come from the current arguments: known_value computes the IR of the expression and marks each dim
// in it as a constant of this instance. The kernel is then elaborated again.
#include "frontend/elab/elab.h"

#include "ir/eval.h"

#include <math.h>
#include <string.h>

/* ---- making -------------------------------------------------------------------------------- */

/// Only blocks that can be positions carry validity.
static bool carries_validity(const Type *t) {
    return t->rank > 0 && (t->elem == EL_I32 || t->elem == EL_I64);
}

Val val_ir_valid(Value *v, Value *valid) {
    Val val = val_ir(v);
    if (v && carries_validity(v->type)) val.ir.valid = valid;
    return val;
}

Val val_tuple(Elab *e, int n, const Val *at) {
    el_steps(e, e->b.loc, n);
    return (Val){.kind = V_TUPLE,
                 .tuple = {.n = n, .at = ctx_copy(e->ctx, at, sizeof *at * (size_t)n)}};
}

/* ---- messages ------------------------------------------------------------------------------ */

/// Messages show the value of a constant: it often explains the error.
const char *val_const_text(Elab *e, Val v) {
    if (v.c.type == CK_BOOL) return v.c.i ? "true" : "false";
    if (v.c.type == CK_FLOAT) { // 2.0, as the source writes it: 2 is an integer
        const char *text = cell_text(e->ctx, EL_F64, (Cell){.f = v.c.f});
        bool whole = text[strspn(text, "-0123456789")] == 0;
        return ctx_format(e->ctx, "%s%s", text, whole ? ".0" : "");
    }
    return ctx_format(e->ctx, v.c.wide ? "%llu" : "%lld", (unsigned long long)v.c.i);
}

static const char *const_text(Elab *e, Val v) {
    const char *text = val_const_text(e, v);
    return v.c.type == CK_BOOL ? text : ctx_format(e->ctx, "the constant %s", text);
}

/// Prints the source form; ir_print_type would print f32<64x32>.
const char *type_words(Elab *e, const Type *t) {
    Text text = {.ctx = e->ctx};
    text_add(&text, "%s", elem_info[t->elem].name);
    for (int i = 0; i < t->rank; i++)
        text_add(&text, "%s%lld", i ? ", " : "<", (long long)t->extents[i]);
    if (t->rank) text_add(&text, ">");
    return text.data;
}

const char *val_text(Elab *e, Val v) {
    switch (v.kind) {
    case V_ERROR: return "an error";
    case V_ABSENT: return "nothing (the argument is absent)";
    case V_VOID: return "no value";
    case V_CONST: return const_text(e, v);
    case V_CHOICE: return "a choice of constants";
    case V_IR: return type_words(e, v.ir.v->type);
    case V_RANGE: return "a range";
    case V_TENSOR: return ctx_format(e->ctx, "the tensor '%s'", v.tensor->name);
    case V_TUPLE: return ctx_format(e->ctx, "a tuple of %d", v.tuple.n);
    case V_FN:
        return ctx_format(e->ctx, "the function '%s'",
                          v.fn.def ? v.fn.def->name.text : v.fn.builtin->name);
    case V_ELEM: return ctx_format(e->ctx, "the type %s", elem_info[v.elem].name);
    case V_WORD: return ctx_format(e->ctx, "the text \"%s\"", v.word);
    }
    return "?";
}

/// Returns the place to report. An error inside the library is shown at the user's call, since
/// users do not read the library.
Loc el_loc(const Elab *e, Loc loc) {
    Loc at = loc;
    for (const Frame *f = e->frame; f && program_is_library(e->program, at.file); f = f->outer)
        at = f->call;
    return program_is_library(e->program, at.file) ? loc : at;
}

/// Adds the call chain, innermost first; calls within the library are omitted.
Val el_chain(Elab *e) {
    for (const Frame *f = e->frame; f; f = f->outer) {
        bool library = program_is_library(e->program, f->call.file);
        if (!library) diag_note(e->ctx, f->call, "in '%s', called here", f->def->name.text);
    }
    return val_error();
}

void el_work(Elab *e, Loc loc, uint64_t steps) {
    if (steps <= MAX_WORK) return;
    el_fail(e, loc, D_TOO_MUCH_WORK, MAX_WORK);
    ctx_give_up(e->ctx);
}

void el_steps(Elab *e, Loc loc, int n) {
    ctx_count(e->ctx, (uint64_t)n);
    el_work(e, loc, ctx_steps(e->ctx) - e->first_step);
}

/// A tree has at most AST_MAX_DEPTH levels, but calls nest trees.
bool el_deeper(Elab *e, Loc loc, int levels) {
    if (e->depth + levels > MAX_DEPTH) {
        el_fail(e, loc, D_TOO_DEEP, MAX_DEPTH);
        return false;
    }
    e->depth += levels;
    return true;
}

/* ---- constants ----------------------------------------------------------------------------- */

Elem el_default_elem(Val v) {
    if (v.kind == V_CHOICE) {
        Elem yes = el_default_elem(*v.choice.yes), no = el_default_elem(*v.choice.no);
        return yes == EL_F32 || no == EL_F32 ? EL_F32 : yes;
    }
    if (v.kind == V_IR) return v.ir.v->type->elem;
    return v.c.type == CK_BOOL ? EL_BOOL : v.c.type == CK_FLOAT ? EL_F32 : EL_I64;
}

/// Returns the element that holds a constant exactly.
static Elem const_elem(Val v) {
    return v.c.type == CK_BOOL    ? EL_BOOL
           : v.c.type == CK_FLOAT ? EL_F64
           : v.c.wide             ? EL_U64
                                  : EL_I64;
}

/// Whether an integer constant fits an integer element.
static bool int_fits(Val v, Elem elem) {
    const ElemInfo *info = &elem_info[elem];
    uint64_t top = UINT64_MAX >> (64 - info->bits);
    if (info->cls == EC_UINT) return (v.c.wide || v.c.i >= 0) && (uint64_t)v.c.i <= top;
    int64_t max = (int64_t)(top >> 1);
    return !v.c.wide && v.c.i <= max && v.c.i >= -max - 1;
}

/// Whether a constant adapts to an element: exactly, except for the rounding of floats. An infinity
/// becomes the limit of an integer type.
static bool const_fits(Val v, Elem elem) {
    int cls = elem_info[elem].cls;
    switch (v.c.type) {
    case CK_BOOL: return cls == EC_BOOL;
    case CK_INT: return cls == EC_FLOAT || (cls != EC_BOOL && int_fits(v, elem));
    case CK_FLOAT: return cls == EC_FLOAT || (cls != EC_BOOL && isinf(v.c.f));
    }
    return false;
}

bool el_const_adapts(Elab *e, Loc loc, Val v, Elem elem) {
    if (const_fits(v, elem)) return true;
    el_fail(e, loc, D_CONST_DOES_NOT_FIT, val_text(e, v), elem_info[elem].name);
    if (v.c.type == CK_FLOAT && elem_is(elem, EC_INT))
        diag_hint(e->ctx,
                  "write '... as %s' to round towards 0, or convert the other operand: 'as f32'",
                  elem_info[elem].name);
    return false;
}

/// Casts a constant, so `300 as u8` wraps. For implicit conversions, el_const_adapts has already
/// checked the fit.
Value *el_const_value(Elab *e, Val v, const Type *t) {
    Cell c = v.c.type == CK_FLOAT ? (Cell){.f = v.c.f} : (Cell){.i = v.c.i};
    c = cell_cast(const_elem(v), t->elem, c);
    return build_const(&e->b, t, attr_of_cell(e->ir, t->elem, c));
}

/// Both arms of a choice adapt separately: each must fit.
Val el_adapt(Elab *e, Loc loc, Val v, Elem elem) {
    if (v.kind == V_CONST)
        return el_const_adapts(e, loc, v, elem)
                   ? val_ir(el_const_value(e, v, ty_scalar(e->ir, elem)))
                   : val_error();
    Val yes = el_adapt(e, loc, *v.choice.yes, elem), no = el_adapt(e, loc, *v.choice.no, elem);
    return el_select(e, loc, val_ir(v.choice.cond), yes, no);
}

/* ---- plain values -------------------------------------------------------------------------- */

Val el_value(Elab *e, Loc loc, Val v) {
    if (v.kind == V_ERROR || v.kind == V_IR || v.kind == V_CONST) return v;
    if (v.kind == V_CHOICE) return el_adapt(e, loc, v, el_default_elem(v));
    el_fail(e, loc, D_NOT_A_VALUE, val_text(e, v));
    if (v.kind == V_RANGE)
        diag_hint(e->ctx, "index(r) is the block of its positions, r.start the first one");
    if (v.kind == V_TENSOR)
        diag_hint(e->ctx, "read it with a subscript: %s%s", v.tensor->name,
                  v.tensor->n_dims ? "[...]" : "[]");
    return val_error();
}

Value *el_typed(Elab *e, Loc loc, Val v, Elem elem) {
    if (v.kind == V_CHOICE && elem != EL_COUNT) v = el_adapt(e, loc, v, elem);
    v = el_value(e, loc, v);
    if (v.kind == V_IR) return v.ir.v;
    if (v.kind == V_ERROR) return NULL;
    if (elem == EL_COUNT) elem = v.c.wide && v.c.type == CK_INT ? EL_U64 : el_default_elem(v);
    if (!el_const_adapts(e, loc, v, elem)) return NULL;
    return el_const_value(e, v, ty_scalar(e->ir, elem));
}

/// Whether an element converts implicitly: to the same one, from an integer to one that holds all
/// of its values, or from a scalar integer to a float.
bool el_widens(Elem from, Elem to, bool scalar) {
    if (from == to) return true;
    const ElemInfo *f = &elem_info[from], *t = &elem_info[to];
    if (f->bits < 8 || t->bits < 8 || !elem_is(from, EC_INT)) return false;
    if (t->cls == EC_FLOAT) return scalar;
    return f->bits < t->bits && (f->cls == t->cls || (f->cls == EC_UINT && t->cls == EC_SINT));
}

/// The hint appears only if `as` alone would help; `as` changes no shape.
static Val report_mismatch(Elab *e, Loc loc, const char *what, const Type *to, Val found) {
    el_fail(e, loc, D_TYPE_MISMATCH, what, type_words(e, to), val_text(e, found));
    const Type *from = val_type(found);
    if (from && from->elem != to->elem && (ty_same_shape(from, to) || from->rank == 0)) {
        diag_hint(e->ctx, "convert it with 'as %s'", elem_info[to->elem].name);
        el_offer_cast(e, e->value_at, to->elem);
    }
    return val_error();
}

/// Whether a value of type `from` can be repeated to `to`, apart from elements.
static bool can_broadcast(const Type *from, const Type *to) {
    if (from->rank == 0) return true;
    if (from->rank != to->rank) return false;
    for (int i = 0; i < from->rank; i++)
        if (from->extents[i] != to->extents[i] && from->extents[i] != 1) return false;
    return true;
}

/// Repeats a mask; NULL, all lanes valid, stays NULL.
static Value *repeat_mask_to(Elab *e, Value *v, const Type *shape) {
    return v ? build_broadcast(&e->b, v, shape) : NULL;
}

Val el_convert_val(Elab *e, Loc loc, Val v, const Type *to, const char *what) {
    if (v.kind == V_CHOICE) v = el_adapt(e, loc, v, to->elem);
    v = el_value(e, loc, v);
    if (v.kind == V_ERROR) return v;
    if (v.kind == V_CONST)
        return el_const_adapts(e, loc, v, to->elem) ? val_ir(el_const_value(e, v, to))
                                                    : val_error();
    const Type *from = v.ir.v->type;
    if (!el_widens(from->elem, to->elem, from->rank == 0) || !can_broadcast(from, to))
        return report_mismatch(e, loc, what, to, v);
    Value *x = repeat_mask_to(e, build_cast(&e->b, v.ir.v, to->elem), to);
    return val_ir_valid(x, repeat_mask_to(e, v.ir.valid, to));
}

Value *el_convert(Elab *e, Loc loc, Val v, const Type *to, const char *what) {
    v = el_convert_val(e, loc, v, to, what);
    return v.kind == V_IR ? v.ir.v : NULL;
}

Value *el_index(Elab *e, Loc loc, Val v, const char *what) {
    v = el_value(e, loc, v);
    if (v.kind == V_ERROR) return NULL;
    if (v.kind == V_CONST) return el_typed(e, loc, v, EL_I64);
    if (val_is_scalar(v) && elem_is(v.ir.v->type->elem, EC_INT))
        return build_cast(&e->b, v.ir.v, EL_I64);
    el_fail(e, loc, D_NEEDS_INTEGER, what, val_text(e, v));
    if (v.kind == V_IR && elem_is(v.ir.v->type->elem, EC_FLOAT))
        diag_hint(e->ctx, "convert it with 'as i64'");
    return NULL;
}

/* ---- constants that must be known ---------------------------------------------------------- */

static bool known_value(Elab *e, const Value *v, bool specialise, int *budget, Cell *out);

/// Computes an elementwise scalar op, a cast or a choice.
static bool known_op(Elab *e, const Op *op, bool specialise, int *budget, Cell *out) {
    Cell args[3];
    if (op->n_operands > 3) return false;
    for (int i = 0; i < op->n_operands; i++)
        if (!known_value(e, operand(op, i), specialise, budget, &args[i])) return false;
    Elem elem = operand(op, 0)->type->elem;
    if (op->code == OP_CAST)
        *out = cell_cast(elem, op->results[0].type->elem, args[0]);
    else if (op->code == OP_SELECT)
        *out = args[0].u ? args[1] : args[2];
    else
        *out = eval_elementwise(op->code, elem, args);
    return true;
}

/// Computes a scalar made of constants and known dims. `budget` bounds the walk, which visits a
/// shared subexpression once for each use.
static bool known_value(Elab *e, const Value *v, bool specialise, int *budget, Cell *out) {
    if (--*budget < 0 || !ty_is_scalar(v->type)) return false;
    const Attr *a = const_of(v);
    if (a) {
        *out = cell_of_attr(v->type->elem, a);
        return true;
    }
    if (!v->def) return false;
    const Op *op = v->def;
    if (op->code == OP_DIM) return el_known_dim(e, op, specialise, &out->i);
    bool computes = op_has(op, ELEMENTWISE) || op->code == OP_CAST || op->code == OP_SELECT;
    return computes && known_op(e, op, specialise, budget, out);
}

/// Returns false if a leaf is unknown. The budgets are far above the size of real expressions.
static bool known_scalar(Elab *e, const Value *v, bool specialise, Cell *out) {
    int budget = 1000;
    // The first walk marks nothing: an unknown leaf must not specialise the known ones.
    if (!known_value(e, v, false, &budget, out)) return false;
    budget = 1000;
    if (specialise) known_value(e, v, true, &budget, out);
    return true;
}

static bool known_int(Elab *e, Val v, bool specialise, int64_t *out) {
    if (v.kind == V_CONST && v.c.type == CK_INT && !v.c.wide) {
        *out = v.c.i;
        return true;
    }
    if (!val_is_scalar(v) || !elem_is(v.ir.v->type->elem, EC_INT)) return false;
    Cell c;
    if (!known_scalar(e, v.ir.v, specialise, &c)) return false;
    *out = c.i;
    return true;
}

bool el_known_int(Elab *e, Val v, int64_t *out) {
    return known_int(e, v, false, out);
}

/// Names the unknown dim, which `given` could make constant.
static void hint_given(Elab *e, Val v) {
    const char *dim = val_is_scalar(v) ? el_unknown_dim(e, v.ir.v) : NULL;
    if (dim)
        diag_hint(e->ctx,
                  "its value depends on the dimension '%s': name its values, 'given %s = 64'", dim,
                  dim);
    else if (v.kind == V_IR)
        diag_hint(e->ctx, "constants are literals, 'tune' names and 'const' parameters");
}

bool el_const_int(Elab *e, Loc loc, Val v, const char *what, int64_t *out) {
    if (known_int(e, v, true, out)) return true;
    if (v.kind == V_ERROR) return false;
    el_fail(e, loc, D_NOT_CONSTANT, what, val_text(e, v));
    hint_given(e, v);
    return false;
}

/// Products of extents are checked where they are built; each extent is below 2^31.
bool el_extent(Elab *e, Loc loc, Val v, const char *what, int64_t *out) {
    bool wide = v.kind == V_CONST && v.c.type == CK_INT && v.c.wide; // does not fit i64
    if (!wide && !el_const_int(e, loc, v, what, out)) return false;
    if (!wide && *out >= 1 && *out <= INT32_MAX) return true;
    el_fail(e, loc, D_BAD_EXTENT, what, val_const_text(e, wide ? v : val_int(*out)));
    return false;
}

bool el_const_bool(Elab *e, Loc loc, Val v, const char *what, bool *out) {
    bool scalar = val_is_scalar(v) && v.ir.v->type->elem == EL_BOOL;
    Cell c;
    if (v.kind == V_CONST && v.c.type == CK_BOOL) {
        *out = v.c.i != 0;
        return true;
    }
    if (scalar && known_scalar(e, v.ir.v, true, &c)) {
        *out = c.u != 0;
        return true;
    }
    if (v.kind == V_ERROR) return false;
    el_fail(e, loc, D_NEEDS_CONST_BOOL, what, val_text(e, v));
    if (scalar) hint_given(e, v);
    return false;
}

bool el_axis(Elab *e, Loc loc, Val v, int rank, int64_t *out) {
    if (!el_const_int(e, loc, v, "an axis", out)) return false;
    if (*out < 0) *out += rank;
    if (*out >= 0 && *out < rank) return true;
    el_fail(e, loc, D_BAD_AXIS, (long long)(*out < rank ? *out - rank : *out), rank);
    if (rank) diag_hint(e->ctx, "axes are numbered from 0; -1 is the last one");
    return false;
}
