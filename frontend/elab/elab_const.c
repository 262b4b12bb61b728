// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Top-level constants, and constant expressions outside a kernel.
//
// A constant is computed at its first use, after all constants that its expression names, so a long
// chain of them needs no recursion. Its value stays with the program: a second use costs a look-up.
// A failed computation is remembered by the elaborator only, since its message may be retracted
// (diag_rewind).
#include "frontend/elab/elab_kernel.h"

#include "ir/eval.h"

/// A value without a builder: `1 as f16` is typed.
typedef struct Constant {
    Val val; // if the constant is untyped
    bool typed;
    Elem elem;
    Cell cell;
} Constant;

// States of a constant without a value: being computed, or failed.
static char is_open, is_failed;

typedef struct Pending {
    const Item *item;
    bool opened; // the constants that it names are computed, or are known to depend on it
} Pending;

typedef struct ConstantOrder {
    Elab *e;
    VEC(Pending) stack;
} ConstantOrder;

static void *constant_state(const Elab *e, const Item *item) {
    void *known = map_get(e->program->constants, item);
    return known ? known : map_get(&e->constants, item);
}

/// A NameTest that always returns false: it collects the constants to compute first.
static bool note_constant(void *user, const Expr *name) {
    ConstantOrder *o = user;
    const Item *item = program_find(o->e->program, name->name, name->loc.file);
    Pending p = {.item = item};
    bool todo = item && item->kind == IT_CONST && !constant_state(o->e, item);
    if (todo) vec_push(o->e->ctx, &o->stack, p);
    return false;
}

static void keep_constant(Elab *e, const Item *item, Val v) {
    Constant *c = ctx_new(e->ctx, Constant);
    *c = (Constant){.val = v, .typed = v.kind == V_IR};
    if (c->typed) {
        c->elem = v.ir.v->type->elem;
        c->cell = cell_of_attr(c->elem, const_of(v.ir.v));
    }
    map_set(e->ctx, e->program->constants, item, c);
}

/// Computes a constant. Its expression sees no local names.
static Val compute_constant(Elab *e, const Expr *x) {
    if (!el_deeper(e, x->loc, x->depth)) return val_error();
    Scope *scope = e->scope;
    e->scope = NULL;
    Val v = el_expr(e, x);
    e->depth -= x->depth;
    e->scope = scope;
    bool constant = v.kind == V_CONST || (val_is_scalar(v) && const_of(v.ir.v));
    if (v.kind == V_ERROR || constant) return v;
    return el_fail(e, x->loc, D_NOT_CONSTANT, "a top-level constant", val_text(e, v));
}

static void compute_last(ConstantOrder *o) {
    Elab *e = o->e;
    Pending *last = &o->stack.data[o->stack.n - 1];
    const Item *item = last->item;
    if (!last->opened && !constant_state(e, item)) {
        last->opened = true;
        map_set(e->ctx, &e->constants, item, &is_open);
        expr_any_name(item->constant.value, note_constant, o);
        return;
    }
    bool opened = last->opened;
    o->stack.n--;
    if (!opened) return; // another constant has computed it meanwhile
    Val v = compute_constant(e, item->constant.value);
    if (v.kind == V_ERROR)
        map_set(e->ctx, &e->constants, item, &is_failed);
    else
        keep_constant(e, item, v);
}

Val el_constant(Elab *e, const Item *item) {
    void *state = constant_state(e, item);
    if (state == &is_failed) return val_error();
    if (state == &is_open)
        return el_fail(e, item->constant.name.loc, D_CONST_CYCLE, item->constant.name.text);
    if (!state) {
        ConstantOrder o = {.e = e};
        Pending first = {.item = item};
        vec_push(e->ctx, &o.stack, first);
        while (o.stack.n) compute_last(&o);
        return el_constant(e, item);
    }
    const Constant *c = state;
    if (!c->typed) return c->val;
    return val_ir(
        build_const(&e->b, ty_scalar(e->ir, c->elem), attr_of_cell(e->ir, c->elem, c->cell)));
}

/* ---- outside a kernel ---------------------------------------------------------------------- */

Elab elab_constant(Ctx *ctx, const Program *p) {
    Elab e = elab_create(ir_create(ctx), p);
    scope_push(&e);
    return e;
}

bool el_evaluate(Elab *e, const Expr *x, int64_t *out) {
    DiagMark mark = diag_mark(e->ctx);
    Val v = el_expr(e, x);
    diag_rewind(e->ctx, mark);
    if (v.kind != V_CONST || v.c.type == CK_FLOAT) return false;
    *out = v.c.i;
    return true;
}

bool program_constant(const Program *p, const Item *item, int64_t *out) {
    Elab e = elab_constant(p->ctx, p);
    const Constant *c = map_get(p->constants, item);
    Val v = c && !c->typed ? c->val : el_constant(&e, item);
    if (v.kind != V_CONST || v.c.type == CK_FLOAT) return false;
    *out = v.c.i;
    return true;
}
