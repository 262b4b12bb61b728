// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// See request.h.
//
// The compiler sees the actual extents and strides. The code depends on them only through its facts
// (facts.c): on strides as 1, 0 or other, and on dims that must be constants.
#include "driver/request.h"

#include <string.h>

#include "frontend/program.h"

/* ---- parameters ---------------------------------------------------------------------------- */

void request_describe_tensor(ParamInst *p, const Tensor *t, int align) {
    *p = (ParamInst){.elem = t->elem, .known_shape = true, .known_strides = true, .rank = t->rank};
    memcpy(p->extents, t->extents, sizeof p->extents);
    memcpy(p->strides, t->strides, sizeof p->strides);
    p->align = align > 1 ? align : 0;
    p->near =
        t->elem < EL_COUNT && tg_is_near(t->rank, t->extents, t->strides, elem_info[t->elem].bits);
}

/// Any stride is right for an axis of one element, so the best one is assumed. (Strides of empty
/// axes are kept, as they decide how packs are merged, here as in the runtime.)
static int64_t useful_stride(const tg_actual *a, int axis) {
    if (a->shape[axis] != 1) return a->strides[axis];
    int64_t stride = 1;
    for (int i = axis + 1; i < a->rank; i++) stride *= a->shape[i] > 1 ? a->shape[i] : 1;
    return axis == a->rank - 1 ? 1 : stride;
}

/// The declared element, or that of the argument if a type parameter leaves it open.
static Elem actual_elem(const Param *p, const tg_actual *a) {
    Elem declared = p->type ? elem_by_name(p->type->elem.text) : EL_COUNT;
    return declared != EL_COUNT ? declared : elem_of_dlpack(a->code, a->bits);
}

static void describe_actual_tensor(Elem elem, const tg_actual *a, ParamInst *out) {
    Tensor t = {.elem = elem, .rank = a->rank};
    for (int i = 0; i < a->rank; i++) {
        t.extents[i] = a->shape[i];
        t.strides[i] = useful_stride(a, i);
    }
    request_describe_tensor(out, &t, a->align);
}

/// Describes all properties that are known at launch. Of scalars, only integers and constants
/// matter to the code.
static void describe_actual(const Param *p, const tg_actual *a, ParamInst *out) {
    bool tensor = param_is_tensor(p);
    Elem elem = actual_elem(p, a);
    bool integer = elem < EL_COUNT && !elem_is(elem, EC_FLOAT);
    *out = (ParamInst){.elem = elem};
    if (tensor && a->null)
        *out = (ParamInst){.elem = EL_COUNT, .null = true};
    else if (tensor)
        describe_actual_tensor(elem, a, out);
    else if (p->constant || integer)
        *out = (ParamInst){.elem = elem, .known_value = true, .value = a->value};
}

/* ---- settings ------------------------------------------------------------------------------ */

bool kernel_has_choice(const FnDef *f, enum ClauseKind clause, const char *name) {
    for (int i = 0; i < f->clauses.n; i++)
        for (int c = 0; c < f->clauses.at[i].choices.n; c++)
            if (f->clauses.at[i].kind == clause &&
                strcmp(f->clauses.at[i].choices.at[c].name.text, name) == 0)
                return true;
    return false;
}

/// A module's setting applies to the kernels that have the name. If no kernel has it, it applies to
/// all: it is an axis of the schedule, or else the elaborator reports it.
static bool is_meant(const Program *p, const FnDef *f, const char *name) {
    if (kernel_has_choice(f, CL_TUNE, name)) return true;
    for (int i = 0; i < fe_kernel_count(p); i++)
        if (kernel_has_choice(fe_kernel(p, i), CL_TUNE, name)) return false;
    return true;
}

void request_pin(Ctx *ctx, Request *r, const char *name, int64_t value) {
    const NamedValue *old = value_of_name(r->n_set, r->set, name);
    NamedValue *set = ctx_array(ctx, NamedValue, r->n_set + 1);
    if (r->n_set) memcpy(set, r->set, sizeof *set * (size_t)r->n_set);
    set[old ? old - r->set : r->n_set++] = (NamedValue){name, value};
    r->set = set;
}

/* ---- instances ----------------------------------------------------------------------------- */

static Inst *make_instance(Ctx *ctx, const Request *r, const Program *p, const FnDef *f) {
    Inst *inst = ctx_new(ctx, Inst);
    int n = f->params.n;
    *inst = (Inst){.kernel = f,
                   .n_params = n,
                   .params = ctx_array(ctx, ParamInst, n + 1),
                   .set = ctx_array(ctx, NamedValue, r->n_set + 1),
                   .n_dims = r->n_given,
                   .dims = ctx_array(ctx, NamedValue, r->n_given + 1),
                   .check = r->check,
                   .tentative = r->tentative};
    if (n != r->n_args) ice(ctx, f->loc, "%d arguments for %d parameters", r->n_args, n);
    for (int i = 0; i < n; i++) {
        if (r->args)
            describe_actual(&f->params.at[i], &r->args[i], &inst->params[i]);
        else
            inst->params[i] = r->params[i];
    }
    for (int i = 0; i < r->n_set; i++)
        if (r->own_set || is_meant(p, f, r->set[i].name)) inst->set[inst->n_set++] = r->set[i];
    for (int i = 0; i < r->n_given; i++) inst->dims[i] = r->given[i];
    return inst;
}

void request_instance(Ctx *ctx, const Request *r, const Program *p, const FnDef *f, Build *out) {
    *out = (Build){.ctx = ctx,
                   .program = p,
                   .inst = make_instance(ctx, r, p, f),
                   .target = r->target,
                   .codegen = r->codegen,
                   .machine = r->machine,
                   .driver = r->driver,
                   .threads = r->threads,
                   .tuned = r->tuned,
                   .debug = r->debug};
}

bool request_build(Ctx *ctx, const Request *r, Build *out) {
    Sources *sources = ctx_new(ctx, Sources);
    *sources = (Sources){r->n_paths, r->paths, true, r->n_texts, r->texts};
    uint16_t file = source_find(ctx, sources, r->path);
    if (!file) ice(ctx, (Loc){0}, "there is no text of '%s'", r->path);
    Program *p = fe_load(ctx, file, source_importer(ctx, sources));
    const FnDef *f = fe_find_kernel(p, r->kernel);
    if (diag_errors(ctx)) return false;
    if (!f) ice(ctx, (Loc){0}, "there is no kernel '%s'", r->kernel);
    request_instance(ctx, r, p, f, out);
    return true;
}
