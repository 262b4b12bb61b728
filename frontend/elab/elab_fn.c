// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Fns: binding parameter types to arguments, inlining, and fns as the regions of ops.
//
// A call elaborates the body anew, in a scope of its own, on the Vals of its arguments. So no
// generic instances exist, and a parameter without a type takes any argument. Parameter types are
// patterns: an undefined name binds (a dim to an extent, a type parameter to an element), and the
// rest must agree.
#include "frontend/elab/elab.h"

#include <string.h>

/* ---- constraints --------------------------------------------------------------------------- */

static const struct {
    const char *name;
    int classes;
} lists[] = {{"float", EC_FLOAT}, {"int", EC_INT}, {"any", EC_ANY}};

static bool allows_elem(const char *word, Elem elem) {
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++)
        if (strcmp(lists[i].name, word) == 0)
            return elem_info[elem].bits >= 8 && elem_is(elem, lists[i].classes);
    return elem_by_name(word) == elem;
}

bool fe_constraint_allows(const Generic *g, Elem elem) {
    for (int i = 0; i < g->constraint.n; i++)
        if (allows_elem(g->constraint.at[i].text, elem)) return true;
    return false;
}

/// Returns the default element of a constraint: f32 or i32 if the list has one of them, for a first
/// look at a kernel.
Elem el_constraint_default(const Generic *g) {
    const char *first = g->constraint.at[0].text;
    if (elem_by_name(first) != EL_COUNT) return elem_by_name(first);
    return strcmp(first, "int") == 0 ? EL_I32 : EL_F32;
}

static const char *constraint_text(Elab *e, const Generic *g) {
    Text t = {.ctx = e->ctx};
    for (int i = 0; i < g->constraint.n; i++)
        text_add(&t, "%s%s", i ? " | " : "", g->constraint.at[i].text);
    return t.data;
}

static const Generic *find_generic(const FnDef *f, const char *name) {
    for (int i = 0; i < f->generics.n; i++)
        if (f->generics.at[i].name.text == name) return &f->generics.at[i];
    return NULL;
}

/// Matches the element in a parameter's type with an argument of element `given`; a type parameter
/// binds to it. EL_COUNT after an error.
Elem el_bind_elem(Elab *e, const FnDef *f, Name name, Elem given, Loc loc) {
    const Generic *g = find_generic(f, name.text);
    if (!g || scope_find(e, name.text)) return el_elem(e, name);
    if (!fe_constraint_allows(g, given)) {
        el_fail(e, loc, D_CONSTRAINT, elem_info[given].name, name.text, constraint_text(e, g));
        return EL_COUNT;
    }
    scope_bind(e, name, BIND_TYPE, val_elem(given));
    return given;
}

/* ---- dims of typed parameters -------------------------------------------------------------- */

/// Whether a dim is an undefined name, which binds.
bool el_binds(Elab *e, const Expr *dim) {
    if (dim->kind != EX_NAME || scope_find(e, dim->name)) return false;
    const Item *item = program_find(e->program, dim->name, dim->loc.file);
    return !item || item->kind != IT_CONST;
}

/// Binds a dim of a fn's parameter to an extent, or checks that it agrees.
static bool bind_extent(Elab *e, const Expr *dim, Val extent, const char *what, Loc loc) {
    if (el_binds(e, dim)) {
        scope_bind(e, (Name){dim->name, dim->loc}, BIND_DIM, extent);
        return true;
    }
    return el_check_equal(e, loc, what, el_expr(e, dim), extent);
}

/// Regroups the dims of a tensor as in a parameter's type: a pack takes the remaining axes.
static bool bind_tensor_dims(Elab *e, const TypeExpr *type, Tensor *t, Loc loc, const char *what) {
    int plain = 0, n = type->dims.n, pack = t->n_dims - (n - 1);
    for (int i = 0; i < n; i++) plain += !type->dims.at[i].pack;
    if (plain == n ? t->n_dims != n : pack < 1) {
        el_fail(e, loc, D_RANK_MISMATCH, what, n, t->n_dims);
        return false;
    }
    TensorDim dims[MAX_RANK];
    for (int i = 0, at = 0; i < n; i++) {
        dims[i] = t->dims[at++];
        dims[i].pack = type->dims.at[i].pack;
        for (int k = 1; dims[i].pack && k < pack; k++, at++) {
            dims[i].axes += t->dims[at].axes;
            dims[i].extent = el_binary(e, loc, BI_MUL, dims[i].extent, t->dims[at].extent);
        }
    }
    t->n_dims = n;
    memcpy(t->dims, dims, sizeof dims);
    for (int i = 0; i < n; i++)
        if (!bind_extent(e, type->dims.at[i].expr, dims[i].extent, what, loc)) return false;
    return true;
}

/* ---- arguments ----------------------------------------------------------------------------- */

typedef struct Binder {
    const FnDef *f;
    Loc loc;          // of the call
    const char *what; // "argument 'x' of 'f'"
} Binder;

static Val bind_value(Elab *e, const Binder *b, const TypeExpr *type, Val v);

/// Reports an argument. The message shows the type as written: `T[M, K]`.
static Val report_bad_argument(Elab *e, const Binder *b, const TypeExpr *type, Val v) {
    if (v.kind == V_ERROR) return v;
    Text t = {.ctx = e->ctx};
    ast_print_type(&t, type);
    return el_fail(e, b->loc, D_TYPE_MISMATCH, b->what, t.data, val_text(e, v));
}

/// Gives the fn the tensor with the dims of its own type: a pack may take several of the caller's.
static Val bind_fn_tensor(Elab *e, const Binder *b, const TypeExpr *type, Val v) {
    if (v.kind != V_TENSOR || v.tensor->sym != type->sym) return report_bad_argument(e, b, type, v);
    Elem elem = el_bind_elem(e, b->f, type->elem, v.tensor->elem, b->loc);
    if (elem == EL_COUNT) return val_error();
    if (elem != v.tensor->elem)
        return el_fail(e, b->loc, D_TYPE_MISMATCH, b->what, elem_info[elem].name,
                       ctx_format(e->ctx, "a tensor of %s", elem_info[v.tensor->elem].name));
    Tensor *t = ctx_copy(e->ctx, v.tensor, sizeof *t);
    return bind_tensor_dims(e, type, t, b->loc, b->what) ? val_tensor(t) : val_error();
}

static Val bind_range(Elab *e, const Binder *b, const TypeExpr *type, Val v) {
    if (v.kind != V_RANGE || type->extents.n != 1) return report_bad_argument(e, b, type, v);
    bool ok = bind_extent(e, type->extents.at[0], val_int(v.range->size), b->what, b->loc);
    return ok ? v : val_error();
}

/// Binds a scalar or block. A literal takes the element of the type, or its default if the type
/// binds a new name.
static Val bind_plain(Elab *e, const Binder *b, const TypeExpr *type, Val v) {
    if (v.kind != V_CHOICE) v = el_value(e, b->loc, v);
    if (v.kind == V_ERROR) return v;
    Elem elem = el_bind_elem(e, b->f, type->elem, el_default_elem(v), b->loc);
    if (elem == EL_COUNT) return val_error();
    int rank = type->kind == TY_BLOCK ? type->extents.n : 0;
    const Type *found = val_type(v);
    if (rank && (!found || found->rank != rank)) return report_bad_argument(e, b, type, v);
    for (int i = 0; i < rank; i++)
        if (!bind_extent(e, type->extents.at[i], val_int(found->extents[i]), b->what, b->loc))
            return val_error();
    const Type *to = ty_block(e->ir, elem, rank, rank ? found->extents : NULL);
    return el_convert_val(e, b->loc, v, to, b->what);
}

static Val bind_tuple(Elab *e, const Binder *b, const TypeExpr *type, Val v) {
    if (v.kind != V_TUPLE || v.tuple.n != type->parts.n) return report_bad_argument(e, b, type, v);
    Val *parts = ctx_array(e->ctx, Val, v.tuple.n);
    for (int i = 0; i < v.tuple.n; i++)
        parts[i] = bind_value(e, b, type->parts.at[i], v.tuple.at[i]);
    return val_tuple(e, v.tuple.n, parts);
}

static Val bind_value(Elab *e, const Binder *b, const TypeExpr *type, Val v) {
    switch (type->kind) {
    case TY_TENSOR: return bind_fn_tensor(e, b, type, v);
    case TY_TUPLE: return bind_tuple(e, b, type, v);
    case TY_SCALAR: return bind_plain(e, b, type, v);
    case TY_BLOCK:
        return strcmp(type->elem.text, "range") == 0 ? bind_range(e, b, type, v)
                                                     : bind_plain(e, b, type, v);
    }
    return val_error();
}

static Val bind_argument(Elab *e, const FnDef *f, const Param *p, Val v, Loc loc) {
    Binder b = {f, loc,
                ctx_format(e->ctx, "the argument '%s' of '%s'", p->name.text, f->name.text)};
    if (v.kind == V_ABSENT || !p->type) return v;
    if (!p->constant) return bind_value(e, &b, p->type, v);
    int64_t i;
    if (v.kind == V_CONST) return v;
    return el_const_int(e, loc, v, b.what, &i) ? val_int(i) : val_error();
}

/* ---- inlining ------------------------------------------------------------------------------ */

/// Refuses recursion, which elaboration could never end.
static bool may_call(Elab *e, Loc loc, const FnDef *f) {
    for (const Frame *frame = e->frame; frame; frame = frame->outer) {
        if (frame->def != f) continue;
        el_fail(e, loc, D_RECURSION, f->name.text);
        return false;
    }
    if (e->frame && e->frame->depth >= MAX_CALL_DEPTH) {
        el_fail(e, loc, D_CALL_DEPTH, MAX_CALL_DEPTH);
        return false;
    }
    return true;
}

/// Elaborates the statements of a fn, and returns the value of its final `return`.
static Val fn_body(Elab *e, const FnDef *f) {
    const Stmt *body = f->body;
    int n = body->block.stmts.n;
    const Stmt *last = n ? body->block.stmts.at[n - 1] : NULL;
    bool returns = last && last->kind == ST_RETURN;
    el_stmts(e, body->block.stmts.at, returns ? n - 1 : n);
    if (!returns) return val_void();
    if (!last->expr) return el_fail(e, last->loc, D_RETURN_NOTHING);
    Val v = el_effect_expr(e, last->expr);
    if (!f->result) return v;
    Binder b = {f, last->loc, ctx_format(e->ctx, "the result of '%s'", f->name.text)};
    return bind_value(e, &b, f->result, v);
}

/// Inlines a fn. Its parameters are in a scope of their own around the body's.
Val el_inline(Elab *e, Loc loc, const FnDef *f, int n, const Val *args) {
    if (f->is_kernel) return el_fail(e, loc, D_EFFECT_INSIDE, f->name.text);
    if (n != f->params.n) return el_fail(e, loc, D_ARGUMENT_COUNT, f->name.text, f->params.n, n);
    if (!may_call(e, loc, f) || !el_deeper(e, loc, f->body->depth)) return val_error();
    Scope *scope = e->scope;
    Frame frame = {f, loc, e->frame, e->frame ? e->frame->depth + 1 : 1};
    e->scope = NULL;
    e->frame = &frame;
    scope_push(e);
    bool ok = true;
    for (int i = 0; i < n; i++) {
        Val v = bind_argument(e, f, &f->params.at[i], args[i], loc);
        scope_bind(e, f->params.at[i].name, BIND_PARAM, v);
        ok &= v.kind != V_ERROR;
    }
    scope_push(e);
    Val v = ok ? fn_body(e, f) : val_error();
    e->scope = scope;
    e->frame = frame.outer;
    e->depth -= f->body->depth;
    e->b.loc = el_loc(e, loc);
    return v;
}

/* ---- values as lists of IR values ---------------------------------------------------------- */

/// Whether the block has validity as a second IR value. Must agree with val_ir_valid.
static bool has_companion(const Type *t) {
    return t->rank > 0 && (t->elem == EL_I32 || t->elem == EL_I64);
}

bool el_flatten(Elab *e, Loc loc, Val v, bool with_valid, Values *out) {
    if (v.kind == V_ERROR) return true; // an error has no IR values
    el_steps(e, loc, 1);
    if (v.kind == V_TUPLE) {
        for (int i = 0; i < v.tuple.n; i++)
            if (!el_flatten(e, loc, v.tuple.at[i], with_valid, out)) return false;
        return true;
    }
    Value *x = el_typed(e, loc, v, EL_COUNT);
    if (!x) return false;
    vec_push(e->ctx, out, x);
    if (with_valid && has_companion(x->type)) {
        Value *valid = el_valid_of(e, v.kind == V_IR ? v : val_ir(x));
        vec_push(e->ctx, out, valid);
    }
    return true;
}

Val el_unflatten(Elab *e, Val like, bool with_valid, Value *const **next) {
    if (like.kind == V_ERROR) return like;
    if (like.kind == V_TUPLE) {
        Val *at = ctx_array(e->ctx, Val, like.tuple.n);
        for (int i = 0; i < like.tuple.n; i++)
            at[i] = el_unflatten(e, like.tuple.at[i], with_valid, next);
        return val_tuple(e, like.tuple.n, at);
    }
    Value *v = *(*next)++;
    Value *valid = with_valid && has_companion(v->type) ? *(*next)++ : NULL;
    return val_ir_valid(v, valid);
}

/* ---- fns as regions ------------------------------------------------------------------------ */

/// Returns the arguments of one side in the form that f takes: a value, or a tuple.
static Val side_arguments(Elab *e, int n, const Elem *parts, Region *r, const char *name) {
    Val *v = ctx_array(e->ctx, Val, n);
    for (int i = 0; i < n; i++)
        v[i] = val_ir(region_add_arg(e->ir, r, ty_scalar(e->ir, parts[i]), name));
    return n == 1 ? v[0] : val_tuple(e, n, v);
}

/// Builds f(a, b): an op for a monoid's name, else a call.
static Val apply_monoid(Elab *e, Loc loc, Val f, Val a, Val b) {
    OpCode op = el_monoid(f);
    if (op == OP_COUNT) return el_call(e, loc, f, 2, (Val[]){a, b});
    return el_elementwise(e, loc, op, op_info[op].name, 2, (Val[]){a, b});
}

/// Adds a hint, after an error, for a reduction of bools as numbers.
static void hint_for_bools(Elab *e, Val f, int n, const Elem *parts, const Region *r) {
    OpCode op = el_monoid(f);
    if (n != 1 || parts[0] != EL_BOOL) return;
    if (r->parent->code != OP_REDUCE)
        diag_hint(e->ctx, "convert the bools to numbers: '... as i32'");
    else if (op == OP_ADD)
        diag_hint(e->ctx, "count(x) is how many are true, any(x) whether one is");
    else if (op == OP_MAX)
        diag_hint(e->ctx, "any(x) is whether one is true");
    else if (op == OP_MIN || op == OP_MUL)
        diag_hint(e->ctx, "all(x) is whether all are true");
}

bool el_monoid_region(Elab *e, Loc loc, Val f, int n, const Elem *parts, Region *r) {
    Val a = side_arguments(e, n, parts, r, "a"), b = side_arguments(e, n, parts, r, "b");
    Builder old = el_enter(e, r);
    Val v = apply_monoid(e, loc, f, a, b);
    Value **out = ctx_array(e->ctx, Value *, n);
    bool fits = n == 1 ? v.kind != V_TUPLE : v.kind == V_TUPLE && v.tuple.n == n;
    bool ok = v.kind != V_ERROR && fits;
    if (!ok && v.kind != V_ERROR) el_fail(e, loc, D_MONOID_RESULT, val_text(e, v), n);
    if (v.kind == V_ERROR) hint_for_bools(e, f, n, parts, r);
    for (int i = 0; i < n && ok; i++) {
        Val part = n == 1 ? v : v.tuple.at[i];
        out[i] = el_convert(e, loc, part, ty_scalar(e->ir, parts[i]), "the result of the function");
        ok = out[i] != NULL;
    }
    if (ok) build_yield(&e->b, n, out);
    el_leave(e, old);
    return ok;
}
