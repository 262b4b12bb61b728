// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Instances: defaults for what is not known of the arguments, and the space of tune values.
#include "frontend/elab_kernel.h"

#include <string.h>

enum { DEFAULT_DIM = 64, DEFAULT_RANKS = 2 };

/* ---- constants outside a kernel ------------------------------------------------------------ */

/// An elaborator for constant expressions: stray ops go to a module that is dropped.
static Elab constant_elab(Ctx *ctx, const Program *p) {
    Ir *ir = ir_create(ctx);
    Elab e = {.ctx = ctx, .ir = ir, .program = p};
    e.module = build_module(ir);
    e.b = build_at_end(ir, e.module->regions[0], (Loc){0});
    scope_push(&e);
    return e;
}

/// Quietly false where a name has no value: the caller decides what that means.
static bool constant(Elab *e, const Expr *x, int64_t *out) {
    Val v = el_expr(e, x);
    if (v.kind != V_CONST || v.c.type == CK_FLOAT) return false;
    *out = v.c.i;
    return true;
}

/* ---- default instance ---------------------------------------------------------------------- */

typedef VEC(NamedValue) NamedValues;

static bool has_name(const NamedValues *list, const char *name) {
    for (int i = 0; i < list->n; i++)
        if (list->data[i].name == name) return true;
    return false;
}

/// The first value of a name counts.
static void add_value(Ctx *ctx, NamedValues *list, const char *name, int64_t v) {
    NamedValue value = {name, v};
    if (!has_name(list, name)) vec_push(ctx, list, value);
}

/// The first alternatives of `given`.
static void given_values(Elab *e, const FnDef *f, NamedValues *out) {
    for (int i = 0; i < f->clauses.n; i++) {
        const Clause *c = &f->clauses.at[i];
        for (int k = 0; c->kind == CL_GIVEN && k < c->choices.n; k++) {
            const Choice *choice = &c->choices.at[k];
            int64_t v;
            if (constant(e, choice->alternatives.at[0], &v))
                add_value(e->ctx, out, choice->name.text, v);
        }
    }
}

static bool is_constant_name(const Program *p, const Expr *x) {
    const Item *item = program_find(p, x->name, x->loc.file);
    return item && item->kind == IT_CONST;
}

/// Every dim, so that a kernel can be looked at without arguments. They are known, not fixed:
/// the code depends on a value only where it must be constant.
static void dim_values(const Program *p, const FnDef *f, NamedValues *out) {
    for (int i = 0; i < f->params.n; i++) {
        const Param *param = &f->params.at[i];
        if (param->constant) {
            bool boolean = param->type && strcmp(param->type->elem.text, "bool") == 0;
            add_value(p->ctx, out, param->name.text, boolean ? 0 : DEFAULT_DIM);
        }
        if (!param->type || param->type->kind != TY_TENSOR) continue;
        for (int k = 0; k < param->type->dims.n; k++) {
            const Expr *x = param->type->dims.at[k].expr;
            if (x->kind == EX_NAME && !is_constant_name(p, x))
                add_value(p->ctx, out, x->name,
                          k == 0 && param->type->sym ? DEFAULT_RANKS : DEFAULT_DIM);
        }
    }
}

static Elem default_elem(const FnDef *f, const Param *param) {
    if (!param->type || param->type->kind == TY_TUPLE) return EL_COUNT;
    for (int i = 0; i < f->generics.n; i++)
        if (f->generics.at[i].name.text == param->type->elem.text)
            return el_constraint_default(&f->generics.at[i]);
    return elem_by_name(param->type->elem.text);
}

/// For looking at a kernel without arguments: nothing may be concluded from the values.
Inst *fe_default_inst(Ctx *ctx, const Program *p, const FnDef *kernel) {
    Inst *inst = ctx_new(ctx, Inst);
    int n = kernel->params.n;
    *inst = (Inst){.kernel = kernel, .n_params = n, .params = ctx_array(ctx, ParamInst, n)};
    for (int i = 0; i < n; i++) inst->params[i].elem = default_elem(kernel, &kernel->params.at[i]);
    NamedValues dims = {0};
    Elab e = constant_elab(ctx, p);
    given_values(&e, kernel, &dims);
    dim_values(p, kernel, &dims);
    inst->tentative = true;
    inst->dims = dims.data;
    inst->n_dims = dims.n;
    return inst;
}

/* ---- the tune space ------------------------------------------------------------------------ */

/// Of a tune value, or of an axis of the compiler that `schedule` pins or narrows.
typedef struct Open {
    const Choice *choice;
    bool axis;
} Open;

typedef struct Space {
    Elab *e;
    const FnDef *f;
    int max;
    VEC(Open) choices;
    NamedValue *values; // one a choice, as far as chosen
    Configs *out;
} Space;

/// A condition that is not decided yet allows the combination.
static bool allowed(Space *s) {
    for (int i = 0; i < s->f->clauses.n; i++) {
        const Clause *c = &s->f->clauses.at[i];
        int64_t v;
        if (c->kind == CL_TUNE && c->where && constant(s->e, c->where, &v) && !v) return false;
    }
    return true;
}

/// Chooses for choice i and all after it, first alternatives first.
static void choose(Space *s, int i) {
    if (s->out->n == s->max) return;
    if (i == s->choices.n) {
        if (!allowed(s)) return;
        Config config = {i, ctx_copy(s->e->ctx, s->values, sizeof *s->values * (size_t)i)};
        vec_push(s->e->ctx, s->out, config);
        return;
    }
    const Choice *c = s->choices.data[i].choice;
    for (int k = 0; k < c->alternatives.n; k++) {
        const Expr *x = c->alternatives.at[k];
        s->values[i].name = c->name.text;
        bool plan = s->choices.data[i].axis && axis_plan(c->name.text, x, &s->values[i].value);
        if (!plan && !constant(s->e, x, &s->values[i].value)) continue;
        scope_push(s->e);
        if (!s->choices.data[i].axis) scope_bind(s->e, c->name, BIND_TUNE, el_expr(s->e, x));
        choose(s, i + 1);
        scope_pop(s->e);
    }
}

/// Names that `where` may see besides: const parameters and dims where known; an unknown one makes
/// its condition undecided, which allows the combination.
static void bind_known(Elab *e, const Inst *inst) {
    NamedValues all = {0};
    for (int i = 0; i < inst->n_params && i < inst->kernel->params.n; i++) {
        const Param *p = &inst->kernel->params.at[i];
        const ParamInst *known = &inst->params[i];
        if (p->constant && known->known_value) add_value(e->ctx, &all, p->name.text, known->value);
        bool shaped = known->known_shape && param_is_tensor(p);
        for (int k = 0; shaped && k < p->type->dims.n && k < known->rank; k++) {
            const Dim *dim = &p->type->dims.at[k];
            if (dim->pack) break;
            if (dim->expr->kind == EX_NAME && !is_constant_name(e->program, dim->expr))
                add_value(e->ctx, &all, dim->expr->name, known->extents[k]);
        }
    }
    for (int i = 0; i < inst->n_dims; i++)
        add_value(e->ctx, &all, ctx_name(e->ctx, inst->dims[i].name), inst->dims[i].value);
    for (int i = 0; i < all.n; i++)
        scope_bind(e, (Name){all.data[i].name, (Loc){0}}, BIND_DIM, val_int(all.data[i].value));
}

void fe_configs(Ctx *ctx, const Program *p, const Inst *inst, int max, Configs *out) {
    Elab e = constant_elab(ctx, p);
    Space s = {.e = &e, .f = inst->kernel, .max = max, .out = out};
    bind_known(&e, inst);
    for (int i = 0; i < s.f->clauses.n; i++)
        for (int c = 0; c < s.f->clauses.at[i].choices.n; c++) {
            const Clause *clause = &s.f->clauses.at[i];
            Open open = {&clause->choices.at[c], clause->kind == CL_SCHEDULE};
            bool pinned = open.axis && inst_set(inst, open.choice->name.text);
            if ((open.axis && !pinned) || clause->kind == CL_TUNE) vec_push(ctx, &s.choices, open);
        }
    s.values = ctx_array(ctx, NamedValue, s.choices.n);
    choose(&s, 0);
}
