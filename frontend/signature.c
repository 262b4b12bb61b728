// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Instances with defaults for unknown facts about the arguments.
#include "frontend/elab/elab_kernel.h"

#include <string.h>

enum { DEFAULT_DIM = 64, DEFAULT_RANKS = 2 };

/* ---- default instance ---------------------------------------------------------------------- */

static bool has_named_value(const NamedValues *list, const char *name) {
    for (int i = 0; i < list->n; i++)
        if (list->data[i].name == name) return true;
    return false;
}

void named_value_add(Ctx *ctx, NamedValues *list, const char *name, int64_t v) {
    NamedValue value = {name, v};
    if (!has_named_value(list, name)) vec_push(ctx, list, value);
}

/// Collects the first alternatives of `given`.
static void given_values(Elab *e, const FnDef *f, NamedValues *out) {
    for (int i = 0; i < f->clauses.n; i++) {
        const Clause *c = &f->clauses.at[i];
        for (int k = 0; c->kind == CL_GIVEN && k < c->choices.n; k++) {
            const Choice *choice = &c->choices.at[k];
            int64_t v;
            if (el_evaluate(e, choice->alternatives.at[0], &v))
                named_value_add(e->ctx, out, choice->name.text, v);
        }
    }
}

bool is_constant_name(const Program *p, const Expr *x) {
    const Item *item = program_find(p, x->name, x->loc.file);
    return item && item->kind == IT_CONST;
}

/// Gives every dim a value, so that a kernel can be inspected without arguments. The values are
/// known but not fixed: the code depends on one only where it must be constant.
static void dim_values(const Program *p, const FnDef *f, NamedValues *out) {
    for (int i = 0; i < f->params.n; i++) {
        const Param *param = &f->params.at[i];
        if (param->constant) {
            bool boolean = param->type && strcmp(param->type->elem.text, "bool") == 0;
            named_value_add(p->ctx, out, param->name.text, boolean ? 0 : DEFAULT_DIM);
        }
        if (!param->type || param->type->kind != TY_TENSOR) continue;
        for (int k = 0; k < param->type->dims.n; k++) {
            const Expr *x = param->type->dims.at[k].expr;
            if (x->kind == EX_NAME && !is_constant_name(p, x))
                named_value_add(p->ctx, out, x->name,
                                k == 0 && param->type->sym ? DEFAULT_RANKS : DEFAULT_DIM);
        }
    }
}

Elem fe_default_elem(const FnDef *f, const Param *param) {
    if (!param->type || param->type->kind == TY_TUPLE) return EL_COUNT;
    for (int i = 0; i < f->generics.n; i++)
        if (f->generics.at[i].name.text == param->type->elem.text)
            return el_constraint_default(&f->generics.at[i]);
    return elem_by_name(param->type->elem.text);
}

/// For inspecting a kernel without arguments. The values are tentative: no conclusion may rest on
/// them.
Inst *fe_default_inst(Ctx *ctx, const Program *p, const FnDef *kernel) {
    Inst *inst = ctx_new(ctx, Inst);
    int n = kernel->params.n;
    *inst = (Inst){.kernel = kernel, .n_params = n, .params = ctx_array(ctx, ParamInst, n)};
    for (int i = 0; i < n; i++)
        inst->params[i].elem = fe_default_elem(kernel, &kernel->params.at[i]);
    NamedValues dims = {0};
    Elab e = elab_constant(ctx, p);
    given_values(&e, kernel, &dims);
    dim_values(p, kernel, &dims);
    inst->tentative = true;
    inst->dims = dims.data;
    inst->n_dims = dims.n;
    return inst;
}

void fe_choose_type(Ctx *ctx, Inst *inst, TypeChoice choice) {
    const char *name = choice.generic->name.text;
    for (int i = 0; i < inst->n_params; i++) {
        const Param *param = &inst->kernel->params.at[i];
        if (param->type && param->type->elem.text == name) inst->params[i].elem = choice.elem;
    }
    NamedValues dims = {0};
    named_value_add(ctx, &dims, name, choice.elem);
    for (int i = 0; i < inst->n_dims; i++)
        named_value_add(ctx, &dims, inst->dims[i].name, inst->dims[i].value);
    inst->dims = dims.data;
    inst->n_dims = dims.n;
}
